"""What the integration tests share: the real `box`, driven as root and as an ordinary user.

Settings, all from the environment:

  BOX_BUILD             the build directory (default: build/ of the source tree)
  BOX_TEST_USER         name of the ordinary user (default: boxtest; made if it is missing)
  BOX_TEST_USER_CGROUP  a cgroup v2 group delegated to that user, which its processes are put into
  BOX_TEST_LANE         "vm" inside the test VM: emulated, so numbers are smaller and waits longer

The tests can be started by root, which drops to the ordinary user for half of them, or by an
ordinary user, who can only run that half.
"""

import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import hostview

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("BOX_BUILD", HERE.parent.parent / "build")).resolve()
USER = os.environ.get("BOX_TEST_USER", "boxtest")
USER_CGROUP = os.environ.get("BOX_TEST_USER_CGROUP")
VM = os.environ.get("BOX_TEST_LANE") == "vm"
ROOT = os.geteuid() == 0

# Every wait of the tests is a ceiling against hanging, not a measure; emulation is slow.
SLOWNESS = 6 if VM else 1
PATIENCE = 60 * SLOWNESS


# --- results ----------------------------------------------------------------------------------


class Result:
    """How a `box` ended, and what it said."""

    def __init__(self, args, returncode, stdout, stderr, elapsed):
        self.args = args
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr
        self.elapsed = elapsed

    @property
    def out(self):
        return self.stdout.decode(errors="replace")

    @property
    def err(self):
        return self.stderr.decode(errors="replace")

    @property
    def json(self):
        try:
            return json.loads(self.stdout)
        except ValueError:
            pytest.fail(f"not one JSON object: {self}")

    @property
    def cause(self):
        """Why the command ended, of a result in JSON."""
        assert "cause" in self.json, f"no result: {self}"
        return self.json["cause"]

    @property
    def tries(self):
        """The helper's lines: {label: (status, detail)}, from plain output or from JSON's."""
        text = self.out
        if text.startswith("{"):
            text = self.json["stdout"]
        assert "BROKEN" not in text, f"the attack itself failed: {self}"
        found = {}
        for line in text.splitlines():
            if line.startswith("RESULT "):
                label, status, detail = (line[7:].split(" ", 2) + [""])[:3]
                found[label] = (status, detail)
        assert found, f"the attack said nothing: {self}"
        return found

    def status(self, label):
        return self.tries[label][0]

    def ok(self):
        """Asserts that the command ran and succeeded."""
        assert self.returncode == 0, str(self)
        return self

    def failed(self, code=125):
        """Asserts that box itself refused."""
        assert self.returncode == code, str(self)
        return self

    def __str__(self):
        def clip(data):
            text = data.decode(errors="replace")
            return text if len(text) < 4000 else text[:2000] + " […] " + text[-2000:]

        return (
            f"{' '.join(map(str, self.args))}\n→ {self.returncode} after {self.elapsed:.2f} s"
            f"\nstdout: {clip(self.stdout)}\nstderr: {clip(self.stderr)}"
        )


class Live:
    """A `box run` in the background, and the processes it is made of."""

    def __init__(self, process, args):
        self.process = process
        self.args = args
        self.pid = process.pid
        self.started = time.monotonic()

    def running(self):
        """For how long."""
        return time.monotonic() - self.started

    def wait_output(self, wanted=b"READY"):
        """Reads standard output, byte by byte, until it holds what is wanted."""
        seen = b""
        deadline = time.monotonic() + PATIENCE
        while wanted not in seen:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.process.stdout], [], [], left)[0], f"no {wanted!r}: {seen!r}"
            byte = os.read(self.process.stdout.fileno(), 1)
            if not byte:
                pytest.fail(f"ended early: {seen!r} {self.process.stderr.read()!r}")
            seen += byte
        return seen

    def tree(self):
        """The chain box → spawner → init → launcher → command, as host pids by these names."""
        names = ["spawner", "init", "launcher", "command"]
        chain = {"box": self.pid}
        at = self.pid
        for name in names:
            children = hostview.children(at)
            # pasta and its keeper are children of the spawner too.
            if name == "init":
                children = [pid for pid in children if hostview.is_init(pid)]
            assert len(children) == 1, f"{name}: {at} has the children {children}, {chain}"
            at = chain[name] = children[0]
        return chain

    def result(self, timeout=None):
        """Waits for the end."""
        started = time.monotonic()
        try:
            out, err = self.process.communicate(timeout=timeout or PATIENCE)
        except subprocess.TimeoutExpired:
            self.stop()
            out, err = self.process.communicate()
            pytest.fail(f"still running: {self.args} {out[-2000:]!r} {err[-2000:]!r}")
        return Result(self.args, self.process.returncode, out, err, time.monotonic() - started)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()
        self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


# --- driving box ------------------------------------------------------------------------------


class Programs:
    """Copies of the binaries where every user may read them: a build directory may lie anywhere."""

    def __init__(self, base):
        self.base = Path(base)
        self.box = self.base / "bin" / "box"
        self.init = self.base / "bin" / "box-init"
        self.helper_dir = self.base / "helper"
        self.helper = self.helper_dir / "attack"
        for source, target in (
            (BUILD / "box", self.box),
            (BUILD / "box-init", self.init),
            (BUILD / "tests" / "attack", self.helper),
        ):
            if not source.exists():
                pytest.exit(f"{source} is missing: build first (make), or set BOX_BUILD", 2)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755)


class Box:
    """`box` as one identity, "root" or "user"."""

    def __init__(self, identity, programs, base):
        entry = pwd.getpwuid(0) if identity == "root" else pwd.getpwnam(user_name())
        self.identity = identity
        self.root = identity == "root"
        self.uid, self.gid = entry.pw_uid, entry.pw_gid
        self.home = Path(entry.pw_dir)
        self.name = entry.pw_name
        self.programs = programs
        self.base = base
        self.wrapper = []  # put in front of box, and run by root whoever box runs as
        self._probes = {}

    def directory(self, mode=0o755):
        """A new directory of this identity's own."""
        path = Path(tempfile.mkdtemp(prefix="d-", dir=self.base))
        self.own(path)
        path.chmod(mode)
        return path

    def own(self, path):
        if ROOT:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def file(self, directory, name, text="", mode=0o644):
        path = Path(directory) / name
        path.write_text(text)
        path.chmod(mode)
        self.own(path)
        return path

    def _become(self):
        """In the child, before exec: this identity and nothing of root's."""
        if not ROOT or self.root:
            return
        if USER_CGROUP:
            Path(USER_CGROUP, "cgroup.procs").write_text(str(os.getpid()))
        if self.wrapper:  # which drops it at its end
            return
        os.setgroups([])
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)

    def environment(self, extra=None):
        keep = {}
        if self.name == pwd.getpwuid(os.geteuid()).pw_name:
            names = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
            keep = {name: os.environ[name] for name in names if name in os.environ}
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            **keep,
            **(extra or {}),
        }

    def popen(self, args, env=None, cwd=None, before=None, **options):
        def prepare():
            if before:
                before()
            self._become()

        wrapper = list(self.wrapper)
        if wrapper and ROOT and not self.root:
            wrapper += ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        command = [*map(str, wrapper), str(self.programs.box), *map(str, args)]
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(
            command,
            env=self.environment(env),
            cwd=cwd or self.base,
            preexec_fn=prepare,
            start_new_session=True,
            **options,
        )

    def call(self, *args, input=None, timeout=None, **options):
        """Runs `box ARGS…` to its end."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        started = time.monotonic()
        with self.popen(args, **options) as process:
            try:
                out, err = process.communicate(input, timeout or PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                pytest.fail(f"box hangs: {args} {out[-2000:]!r} {err[-2000:]!r}")
        elapsed = time.monotonic() - started
        return Result(["box", *args], process.returncode, out or b"", err or b"", elapsed)

    def run(self, *args, **options):
        """Runs `box run ARGS…`."""
        return self.call("run", *args, **options)

    def start(self, *args, **options):
        """Starts `box run ARGS…`; to be used in a with statement."""
        return Live(self.popen(["run", *args], **options), ["box", "run", *args])

    @property
    def with_helper(self):
        """Options that put the helper at /attack/attack."""
        return ["--mount", f"{self.programs.helper_dir}:/attack:ro"]

    def attack(self, name, *args, options=(), **more):
        """Runs one attack of the helper inside."""
        command = ["/attack/attack", name, *args]
        return self.run(*self.with_helper, *options, "--", *command, **more)

    def start_attack(self, name, *args, options=(), **more):
        command = ["/attack/attack", name, *args]
        return self.start(*self.with_helper, *options, "--", *command, **more)

    # What this identity can have on this machine. Root, and everybody in the VM, must have it all.

    def _probe(self, what, *args):
        if what not in self._probes:
            result = self.run(*args, "--", "true")
            self._probes[what] = None if result.returncode == 0 else result.err.strip()
        reason = self._probes[what]
        if reason is None:
            return
        assert not self.root and not VM, f"{what} must work here: {reason}"
        pytest.skip(f"{what} for an ordinary user here: {reason.splitlines()[0]}")

    def need_limits(self):
        """Skips where this user has no cgroup to be limited by."""
        self._probe("limits", "--memory", "64M", "--pids", "64", "--cpus", "1")


# --- fixtures ---------------------------------------------------------------------------------


def user_name():
    return USER if ROOT else pwd.getpwuid(os.geteuid()).pw_name


def ensure_user():
    """The ordinary user, with a range of subordinate ids as Debian gives one to everybody."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        for name in ("/etc/subuid", "/etc/subgid"):
            Path(name).touch()
        command = ["useradd", "--create-home", "--shell", "/bin/sh", USER]
        subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)


@pytest.fixture(scope="session")
def base():
    """A directory that everybody can enter, gone after the run."""
    path = Path(tempfile.mkdtemp(prefix="boxtest-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def programs(base):
    return Programs(base)


_boxes = {}


def get_box(identity, programs, base):
    if identity == "root" and not ROOT:
        pytest.skip("the root half needs root; these tests run as an ordinary user")
    if identity not in _boxes:
        if ROOT and identity == "user":
            ensure_user()
        _boxes[identity] = Box(identity, programs, base)
    box = _boxes[identity]
    box.wrapper = []
    return box


@pytest.fixture(params=["root", "user"])
def box(request, programs, base):
    return get_box(request.param, programs, base)


@pytest.fixture
def root_box(programs, base):
    return get_box("root", programs, base)


@pytest.fixture
def user_box(programs, base):
    return get_box("user", programs, base)


@pytest.fixture(autouse=True)
def no_stray_processes(programs):
    """No test leaves a process of the sandbox behind, whatever it tested."""
    yield
    helper = str(programs.helper)

    def strays():
        return [pid for pid in hostview.pids() if hostview.exe(pid) == str(programs.box)]

    left = hostview.wait_until(lambda: not strays(), 5 * SLOWNESS)
    found = strays()
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert left, f"left behind: {found} ({helper})"


# What the command line makes of its options, and what compilers print, does not depend on the kernel: an emulated
# machine need not spend its minutes on it. What touches mounts, quotas and identities does.
KERNEL_WORDS = ("mount", "writable", "quota", "owner", "nested", "submount", "blocked", "concurrent")


def pytest_collection_modifyitems(items):
    if not VM:
        return
    skip = pytest.mark.skip(reason="does not depend on the kernel: run outside the VM")
    for item in items:
        module = item.module.__name__
        if module in ("test_toolchains", "test_demo") or (module == "test_run" and not any(word in item.name for word in KERNEL_WORDS)):
            item.add_marker(skip)


from daemon import daemon, either, session, start_boxd  # noqa: E402,F401  (fixtures; they use what is above)
