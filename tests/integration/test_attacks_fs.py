"""ABUSE cases 1 to 16: attacks on files and on the set-up of a sandbox."""

import ctypes
import hashlib
import os
import shutil
import socket
import stat
import struct
import subprocess
import threading

import pytest

import hostview
from conftest import SLOWNESS, VM


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def in_private_mounts(box, *mounts):
    """Makes box start in a mount namespace of its own where these bind mounts were made first."""
    binds = "; ".join(f"mount --bind '{source}' '{target}'" for source, target in mounts)
    box.wrapper = ["unshare", "--mount", "sh", "-ec", f'{binds}; exec "$@"', "sh"]


class Swapper:
    """Exchanges two names as fast as it can, for as long as the with statement lasts."""

    def __init__(self, one, other):
        self.names = (os.fsencode(one), os.fsencode(other))
        self.stopping = threading.Event()
        self.swaps = 0
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.thread = threading.Thread(target=self._work)

    def _work(self):
        while not self.stopping.is_set():
            one, other = self.names
            rc = self.libc.renameat2(-100, one, -100, other, 2)  # RENAME_EXCHANGE
            assert rc == 0, os.strerror(ctypes.get_errno())
            self.swaps += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.stopping.set()
        self.thread.join()
        assert self.swaps > 100, "the race was not run"


class Watch:
    """Which files of a directory are opened, by anybody, by whatever path: inotify."""

    IN_OPEN, IN_ISDIR = 0x20, 0x40000000

    def __init__(self, *directories):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for directory in directories:
            assert self.libc.inotify_add_watch(self.fd, os.fsencode(directory), self.IN_OPEN) > 0

    def opened(self):
        names = []
        try:
            data = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return names
        while data:
            _, mask, _, length = struct.unpack_from("iIII", data)
            name = data[16 : 16 + length].rstrip(b"\0").decode()
            if name:
                names.append(name)
            data = data[16 + length :]
        return names

    def close(self):
        os.close(self.fd)


# --- 1 to 3: the runtime's own binary and descriptors -------------------------------------------


def test_01_overwrite_the_runtime(box):
    """Neither box-init nor box can be opened for writing, or even for reading, through /proc."""
    before = digest(box.programs.box), digest(box.programs.init)
    result = box.attack("exe").ok()
    for who in ("init", "parent"):
        for how in ("write", "update", "read"):
            assert result.status(f"{who}.{how}") in ("EACCES", "EPERM"), (who, how)
    for how in ("write", "update"):
        assert result.status(f"self.{how}") in ("EROFS", "ETXTBSY", "EACCES"), how
    assert (digest(box.programs.box), digest(box.programs.init)) == before


def test_01_script_that_names_proc_self_exe(box):
    """CVE-2019-5736's trick: a command whose interpreter is whoever executes it."""
    before = digest(box.programs.init)
    directory = box.directory()
    box.file(directory, "trap", "#!/proc/self/exe\n", 0o755)
    result = box.run("--mount", f"{directory}:/workspace:ro", "--", "/workspace/trap", timeout=20 * SLOWNESS)
    assert result.returncode != 0
    assert digest(box.programs.init) == before
    box.run("--", "true").ok()


def workdir_leads_inside(box, *options):
    """Refused, or somewhere inside with a name of its own."""
    result = box.run(*options, "--", "sh", "-c", "/bin/pwd; [ . -ef / ] && echo root")
    if result.returncode == 0:
        assert result.out in ("/\nroot\n", "/workspace\n"), result
    else:
        assert result.returncode in (125, 126, 127), result
        assert result.stdout == b"", result
    return result.returncode


def test_02_workdir_by_descriptor(box):
    """CVE-2024-21626: a working directory by descriptor is refused, also when the caller's own
    standard input, or any other descriptor, is a directory of the host."""
    etc = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in range(8 if VM else 20):
            for options in ([], ["-i"]):
                directory = f"/proc/self/fd/{number}"
                result = box.run(*options, "--workdir", directory, "--", "/bin/pwd", stdin=etc, pass_fds=[etc])
                assert result.returncode in (125, 126, 127), f"{directory}: {result}"
                assert result.stdout == b""
    finally:
        os.close(etc)


@pytest.mark.parametrize("path", ["/proc/self/cwd", "/proc/self/root", "/proc/1/root", "/proc/1/cwd",
                                  "/proc/thread-self/cwd", "/proc/self/task/../cwd"])
def test_02_workdir_through_a_magic_link(box, path):
    workdir_leads_inside(box, "--workdir", path)


def test_02_workdir_through_a_link_to_one(box):
    """The same behind a link, in a directory that the attacker owns."""
    directory = box.directory()
    numbers = range(4 if VM else 12)
    for number in numbers:
        os.symlink(f"/proc/self/fd/{number}", directory / f"fd{number}")
    os.symlink("/proc/1/root", directory / "root")
    os.symlink("/usr/lib", directory / "honest")
    for name in [f"fd{number}" for number in numbers] + ["root"]:
        workdir_leads_inside(box, "--mount", f"{directory}:/workspace", "--workdir", f"/workspace/{name}")
    honest = box.run("--mount", f"{directory}:/workspace", "--workdir", "/workspace/honest", "--", "/bin/pwd").ok()
    assert honest.out == "/usr/lib\n"


def test_03_descriptors_of_a_command(box):
    """Nothing but 0, 1, 2, whatever the caller had open. (Of init: see the posture test.)"""
    opened = [os.open(path, os.O_RDONLY) for path in ("/", "/etc", "/etc/passwd")]
    listener = socket.socket(socket.AF_UNIX)
    opened.append(listener.detach())
    try:
        result = box.attack("fds", pass_fds=opened).ok()
    finally:
        for fd in opened:
            os.close(fd)
    assert sorted(result.tries) == ["0", "1", "2"], result
    assert result.tries["0"][1] == "/dev/null"
    assert result.tries["1"][1].startswith("pipe:")


# --- 4 to 7: devices, procfs, images -----------------------------------------------------------


@pytest.mark.parametrize("node", ["null", "zero", "full", "random", "urandom", "tty"])
def test_04_host_device_replaced(root_box, node):
    """CVE-2025-31133: what stands at /dev/null is checked to be that device before it is used."""
    directory = root_box.directory()
    victim = root_box.file(directory, "victim", "unchanged", 0o666)
    in_private_mounts(root_box, (victim, f"/dev/{node}"))
    result = root_box.run("--", "true").failed()
    assert f"/dev/{node}" in result.err
    assert victim.read_text() == "unchanged"


def test_04_host_device_replaced_by_another(root_box):
    """A device, but the wrong one."""
    in_private_mounts(root_box, ("/dev/zero", "/dev/null"))
    root_box.run("--", "true").failed()


def test_04_swap_devices_inside(box):
    """/dev is read-only and holds exactly the devices it should; masks are the real null device."""
    result = box.attack("dev-swap").ok()
    worked = {label for label, (status, _) in result.tries.items() if status == "OK"}
    # A user's devpts is its own, and so is the mode of the multiplexer in it.
    assert worked <= {"chmod:/dev/ptmx"}, result
    devices = {name: detail for name, (_, detail) in box.attack("dev-list").tries.items()}
    assert devices == {
        "null": "char 1:3", "zero": "char 1:5", "full": "char 1:7", "random": "char 1:8",
        "urandom": "char 1:9", "tty": "char 5:0", "fd": "link 0:0", "stdin": "link 0:0",
        "stdout": "link 0:0", "stderr": "link 0:0", "ptmx": "link 0:0", "pts": "dir 0:0", "shm": "dir 0:0",
    }


def test_05_terminals_are_the_sandboxes_own(box):
    """CVE-2025-52565: a devpts of its own, empty; no /dev/console to bind over."""
    listed = box.attack("dev-list", "/dev/pts").ok().tries
    assert set(listed) == {"ptmx"}, listed
    box.run("--", "test", "!", "-e", "/dev/console").ok()


def test_06_procfs_writes_redirected(root_box):
    """CVE-2025-52881: with something else in place of /proc there is an error, not a sandbox whose
    set-up wrote to it."""
    fake = root_box.directory()
    for name in ("self", "1", "sys/kernel"):
        (fake / name).mkdir(parents=True)
    for name in ("uid_map", "gid_map", "setgroups", "oom_score_adj", "attr", "exe"):
        (fake / "self" / name).write_text("")
    in_private_mounts(root_box, (fake, "/proc"))
    result = root_box.run("--", "echo", "ran").failed()
    assert "ran" not in result.out
    assert all(not path.read_text() for path in (fake / "self").iterdir())


@pytest.mark.parametrize("target", ["/proc", "/proc/sys", "/proc/self/attr", "/sys", "/sys/fs", "/dev",
                                    "/dev/null", "/dev/shm/x", "/", "/usr", "/etc", "/tmp", "/home"])
def test_06_mount_over_the_sandboxes_own(box, target):
    """Nothing of the caller's can be put where the set-up writes, or over what it protects."""
    directory = box.directory()
    result = box.run("--mount", f"{directory}:{target}", "--", "true").failed()
    assert target in result.err


def test_07_image_with_links_for_dev_and_proc():
    pytest.skip("root file systems other than `host` do not exist yet: nothing to plant links in")


def test_07_only_the_host_image_is_known(box):
    box.run("--image", "/tmp", "--", "true").failed()
    box.run("--image", "../../etc", "--", "true").failed()


# --- 8 to 10: mount targets and sources --------------------------------------------------------

RACES = 15 if VM else 60


def test_08_exchange_links_on_a_mount_target(box):
    """CVE-2021-30465: while one workspace is being prepared its directories turn into links and
    back. What is mounted below it lands there or nowhere."""
    workspace, marked, outside = box.directory(), box.directory(), box.directory(0o777)
    box.file(marked, "marker", "x")
    (workspace / "sub").mkdir()
    (workspace / "sub" / "target").mkdir()
    for path in (workspace / "sub", workspace / "sub" / "target"):
        box.own(path)
    landed = 0
    for link in ("/tmp", "/", "/usr/share", str(outside), "../../../../../tmp", "/proc/self/cwd"):
        os.symlink(link, workspace / "other")
        with Swapper(workspace / "sub", workspace / "other"):
            for _ in range(RACES // 6):
                # Where did the marker end up? Only directories that a link above could lead to.
                script = ("for d in / /tmp /tmp/target /target /usr/share/target /usr/share "
                          f"{outside} {outside}/target; do [ ! -e $d/marker ] || echo ESCAPED $d; done; "
                          "[ ! -e /workspace/sub/target/marker ] || echo LANDED")
                result = box.run("--mount", f"{workspace}:/workspace", "--mount",
                                 f"{marked}:/workspace/sub/target", "--", "sh", "-c", script)
                assert result.returncode in (0, 125), result
                assert "ESCAPED" not in result.out, result
                landed += "LANDED" in result.out
        # Whichever of the two is the link now.
        link_name = "other" if (workspace / "other").is_symlink() else "sub"
        if link_name == "sub":
            os.rename(workspace / "sub", workspace / "gone")
            os.rename(workspace / "other", workspace / "sub")
            os.unlink(workspace / "gone")
        else:
            os.unlink(workspace / "other")
    assert landed > 0, "the mount never worked, so the race proves nothing"
    assert not list(outside.iterdir()), "something appeared outside"


def test_09_swap_the_source_after_the_check(box):
    """CVE-2021-25741: the source turns into a link to a blocked directory and back."""
    base = box.directory()
    (base / "source").mkdir()
    box.own(base / "source")
    box.file(base / "source", "good", "x")
    os.symlink("/etc", base / "other")
    good = refused = 0
    with Swapper(base / "source", base / "other"):
        for _ in range(RACES):
            result = box.run("--mount", f"{base}/source:/workspace:ro", "--", "ls", "/workspace")
            if result.returncode == 0:
                assert result.out.split() == ["good"], result
                good += 1
            else:
                assert result.returncode == 125 and "may not be mounted" in result.err, result
                refused += 1
    assert good > 0 and refused > 0, f"{good} mounted, {refused} refused: the race was not run"


@pytest.mark.parametrize("link", ["relative", "absolute", "dangling"])
def test_10_mount_point_through_a_link(box, link):
    """CVE-2024-45310: a mount point is never made through a link, so no host file appears."""
    workspace, marked, outside = box.directory(), box.directory(), box.directory(0o777)
    text = {"absolute": str(outside), "relative": f"../{outside.name}", "dangling": f"{outside}/new"}[link]
    os.symlink(text, workspace / "link")
    for target in ("/workspace/link", "/workspace/link/made", "/workspace/link/a/b/c"):
        result = box.run("--mount", f"{workspace}:/workspace", "--mount", f"{marked}:{target}", "--", "true")
        assert result.returncode == 125, result
    assert not list(outside.iterdir())
    assert sorted(path.name for path in workspace.iterdir()) == ["link"]


def test_10_mount_point_that_is_missing(box):
    """Below a writable workspace a mount point is made in the workspace, and nowhere else; a
    read-only one is not written to."""
    workspace, marked = box.directory(), box.directory()
    box.file(marked, "marker", "x")
    result = box.run("--mount", f"{workspace}:/workspace:ro", "--mount", f"{marked}:/workspace/a/b", "--",
                     "cat", "/workspace/a/b/marker")
    assert result.returncode in (0, 125), result
    assert not list(workspace.iterdir())


# --- 11 to 16: files the host would follow, wait for or believe --------------------------------


def test_11_links_to_host_files_lead_inside(box):
    """A link in the workspace is followed in the sandbox's own view."""
    directory = box.directory()
    secret = box.file(box.directory(), "secret", "host only")
    links = {"shadow": "/etc/shadow", "passwd": "/etc/passwd", "secret": str(secret), "root": "/proc/1/root/etc/passwd",
             "up": f"../{secret.parent.name}/secret"}
    for name, target in links.items():
        os.symlink(target, directory / name)
    mount = ["--mount", f"{directory}:/workspace"]
    for name in ("shadow", "secret", "up", "root"):
        assert box.run(*mount, "--", "cat", f"/workspace/{name}").returncode != 0, name
    inside = box.run(*mount, "--", "cat", "/workspace/passwd").ok()
    assert inside.out.startswith("root:x:0:0:root:/:") and "box:x:1000:1000" in inside.out


def test_12_write_through_a_dangling_link(box):
    """Writing through a link makes a file inside, if anywhere; never at the link's place on the host."""
    directory, outside = box.directory(), box.directory(0o777)
    os.symlink(f"{outside}/new", directory / "dangling")
    os.symlink("/tmp/from-inside", directory / "inside")
    box.run("--mount", f"{directory}:/workspace", "--", "sh", "-c",
            "echo x > /workspace/dangling; echo x > /workspace/inside; cat /tmp/from-inside").ok()
    assert not list(outside.iterdir())
    assert not os.path.exists("/tmp/from-inside")


def test_11_12_by_the_api():
    pytest.skip("reading and writing files by the API is the daemon's: there is no such call in `box run`")


def test_13_owners_never_change(root_box):
    """A workspace with links and hard links to files of others: after a run, and after a chown tried
    from inside, every owner and mode is what it was."""
    outside = root_box.directory()
    victim = root_box.file(outside, "victim", "root's", 0o600)
    workspace = root_box.directory()
    os.chown(workspace, 12345, 12345)
    os.link(victim, workspace / "hard")
    os.symlink(victim, workspace / "soft")
    os.symlink("/etc", workspace / "etc")
    mine = workspace / "mine"
    mine.write_text("x")
    os.chown(mine, 12345, 12345)
    before = [os.stat(path)[:6] for path in (victim, "/etc", "/etc/passwd")]
    result = root_box.attack("chown", "/workspace/hard", "/workspace/soft", "/workspace/etc", "/workspace/etc/passwd",
                             options=["--mount", f"{workspace}:/workspace"]).ok()
    for label, (status, _) in result.tries.items():
        if not label.startswith("lchown:/workspace/soft") and not label.startswith("lchown:/workspace/etc"):
            assert status != "OK", result
    assert [os.stat(path)[:6] for path in (victim, "/etc", "/etc/passwd")] == before
    # Its own file is its own: it may, and does not become anybody else.
    root_box.attack("chown", "/workspace/mine", options=["--mount", f"{workspace}:/workspace"]).ok()
    assert (os.stat(mine).st_uid, os.stat(mine).st_gid) == (12345, 12345)


def make_odd_file(directory, kind):
    path = directory / kind
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.close()
    else:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    return path


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_14_odd_files_as_sources(root_box, kind):
    """A FIFO, a socket, a device: neither mounted nor waited for."""
    path = make_odd_file(root_box.directory(), kind)
    for options in (["--mount", f"{path}:/workspace/x"], ["--ro-path", str(path)]):
        result = root_box.run(*options, "--", "true", timeout=20 * SLOWNESS).failed()
        assert "regular file" in result.err, result


def test_14_endless_env_file(box):
    """A device as a file of variables: bounded, not read for ever."""
    result = box.run("--env-file", "/dev/zero", "--", "true", timeout=20 * SLOWNESS)
    assert result.returncode == 125, result
    assert box.run("--env-file", "/", "--", "true").returncode == 125


def test_15_planted_configuration_is_not_read(box):
    """The host's side opens no file of a workspace, however much it looks like configuration."""
    directory = box.directory()
    names = [".boxrc", ".box.yaml", "box.yaml", "boxd.yaml", "box.json", ".env", "Makefile", ".profile", ".bashrc",
             "sitecustomize.py", "libseccomp.so.2", "libnftables.so.1", "libc.so.6", "resolv.conf", "passwd",
             "subuid", "pasta", "newuidmap", "newgidmap", "box-init", ".netrc"]
    for name in names:
        box.file(directory, name, "#!/bin/sh\necho PLANTED >&2\nnetwork: on\n", 0o755)
    for name in (".config", ".box", ".git"):
        (directory / name).mkdir()
        box.own(directory / name)
        box.file(directory / name, "config", "[core]\n\tfsmonitor = echo PLANTED >&2\n")
    watch = Watch(directory, directory / ".git", directory / ".box", directory / ".config")
    try:
        result = box.run("--mount", f"{directory}:/workspace", "--", "true", cwd=directory).ok()
        assert "PLANTED" not in result.err
        opened = watch.opened()
        assert not opened, f"opened: {opened}"
        # The watch is not blind: a command that does read is seen.
        box.run("--mount", f"{directory}:/workspace", "--", "cat", "/workspace/.env", cwd=directory).ok()
        assert ".env" in watch.opened()
    finally:
        watch.close()


def test_16_file_names_that_look_like_options(box):
    """Names that begin with dashes are names."""
    directory = box.directory()
    for name in ("--network=on", "--help", "-t", "--plan"):
        box.file(directory, name, f"text of {name}")
    mount = ["--mount", f"{directory}:/workspace:ro"]
    result = box.run(*mount, "--", "cat", "--", "--network=on", "--help", "-t").ok()
    assert result.out == "text of --network=ontext of --helptext of -t"
    # After the first word that is no option everything is the command's.
    assert box.run("echo", "--json", "--plan", "-t", "--network", "on").ok().out == "--json --plan -t --network on\n"
    assert box.run("--", "echo", "--", "--json").ok().out == "-- --json\n"
    # A directory of that name as a source, relative and absolute.
    odd = directory / "--writable"
    odd.mkdir()
    box.own(odd)
    box.file(odd, "inside", "found")
    for source in (str(odd), "./--writable"):
        shown = box.run("--mount", f"{source}:/workspace:ro", "--", "cat", "inside", cwd=directory).ok()
        assert shown.out == "found"
    # And as a program.
    shutil.copy("/bin/echo", odd / "--json")
    assert box.run("--mount", f"{odd}:/workspace:ro", "--", "./--json", "x").ok().out == "x\n"
