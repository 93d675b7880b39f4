"""A real boxd to talk to, and independent clients to talk with.

  daemon        one for all tests of a module, as root
  either        the same, twice: as root and as an ordinary user
  start_boxd    a function that starts one for the test alone: for tests that kill, reload or configure
  session       a session of `daemon`, gone after the test

A boxd has directories of its own, a Unix socket and a port on loopback that the kernel chose. When it
is stopped by SIGINT it has to leave nothing: that is checked each time.
"""

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import pytest

import conftest
import hostview

try:
    import websockets
except ImportError:  # those who need it skip
    websockets = None

BOXD = conftest.BUILD / "boxd"
PATIENCE = conftest.PATIENCE
_numbers = itertools.count(1)


def unique(prefix="s"):
    """A name that no other test has."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


# --- answers ----------------------------------------------------------------------------------


class Answer:
    """What an HTTP request came back with."""

    def __init__(self, status, headers, body, request=""):
        self.status = status
        self.headers = headers  # http.client's: any case
        self.body = body
        self.request = request

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            pytest.fail(f"not JSON: {self}")

    def ok(self, *statuses):
        """Asserts success, and gives the JSON body."""
        assert self.status in (statuses or (200,)), str(self)
        return self.json

    def error(self, status, code=None, *words):
        """Asserts an error of the form that every error has; its body without the wrapping."""
        assert self.status == status, str(self)
        body = self.json
        assert set(body) == {"error"}, str(self)
        error = body["error"]
        assert {"code", "message"} <= set(error) <= {"code", "message", "hint"}, str(self)
        assert error["message"] and all(isinstance(value, str) for value in error.values()), str(self)
        if code:
            assert error["code"] == code, str(self)
        for word in words:
            assert word in error["message"], str(self)
        return error

    def __str__(self):
        body = self.body if len(self.body) < 3000 else self.body[:1500] + b" [...] " + self.body[-1500:]
        return f"{self.request}\n→ {self.status} {dict(self.headers)}\n{body!r}"

    __repr__ = __str__


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """HTTP by one of a daemon's sockets; a connection for each request unless one is given."""

    def __init__(self, address, token=None):
        self.address = address  # a path, or (host, port)
        self.token = token

    def connection(self, timeout=None):
        timeout = timeout or PATIENCE
        if isinstance(self.address, tuple):
            return http.client.HTTPConnection(*self.address, timeout=timeout)
        return UnixConnection(self.address, timeout)

    def socket(self, timeout=None):
        """For raw bytes."""
        connection = self.connection(timeout)
        connection.connect()
        return connection.sock

    def send(self, connection, method, path, body=None, headers=None, **fields):
        """Sends a request, and leaves its answer to the caller. `json=` makes a body."""
        headers = dict(headers or {})
        if "json" in fields:
            body = json.dumps(fields["json"])
            headers.setdefault("Content-Type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        connection.request(method, path, body=body, headers=headers)

    def request(self, method, path, body=None, headers=None, timeout=None, **fields):
        connection = self.connection(timeout)
        with contextlib.closing(connection):
            self.send(connection, method, path, body, headers, **fields)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read(), f"{method} {path}")

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, json=None, **options):
        if json is not None:
            options["json"] = json
        return self.request("POST", path, **options)

    def put(self, path, body, **options):
        return self.request("PUT", path, body=body, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def upload(self, path, data, **options):
        """PUT of a body that boxd may refuse in the middle: its answer, also then."""
        connection = self.connection(options.get("timeout"))
        with contextlib.closing(connection):
            try:
                self.send(connection, "PUT", path, data, options.get("headers"))
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has said why, and need not hear the rest
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read(), f"PUT {path}")


def raw(sock, data=None, until_close=True, limit=1 << 20):
    """Sends bytes as they are, and reads what comes back: all of it, or one piece."""
    if data:
        try:
            sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # answered before all of it was read
    got = b""
    while len(got) < limit:
        try:
            piece = sock.recv(65536)
        except ConnectionResetError:
            break
        if not piece:
            break
        got += piece
        if not until_close:
            break
    return got


def statuses(data):
    """The status of every answer in the bytes of a connection."""
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", data)]


# --- server-sent events -----------------------------------------------------------------------


class Events:
    """Server-sent events of an answer under way, one at a time."""

    def __init__(self, connection, response):
        self.connection = connection
        self.response = response

    def __iter__(self):
        return self

    def __next__(self):
        """(event, data) of the next; comments are skipped."""
        event, data = None, []
        while True:
            line = self.response.readline()
            if not line:
                raise StopIteration
            line = line.decode().rstrip("\r\n")
            if not line:
                if event or data:
                    return event, json.loads("\n".join(data))
            elif line.startswith(":"):
                continue
            else:
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "event":
                    event = value
                elif name == "data":
                    data.append(value)
                else:
                    assert name in ("id", "retry"), line

    def until(self, wanted):
        """Reads up to an event of that name: its data."""
        for event, data in self:
            if event == wanted:
                return data
        pytest.fail(f"the stream ended without {wanted}")

    def close(self):
        self.response.close()
        self.connection.close()


@contextlib.contextmanager
def stream(client, method, path, timeout=None, **options):
    """An answer of server-sent events."""
    connection = client.connection(timeout)
    with contextlib.closing(connection):
        client.send(connection, method, path, **options)
        response = connection.getresponse()
        kind = response.headers.get("Content-Type", "")
        if response.status != 200 or not kind.startswith("text/event-stream"):
            pytest.fail(f"no stream: {response.status} {kind} {response.read()[:2000]!r}")
        yield Events(connection, response)


# --- websockets -------------------------------------------------------------------------------


def asynchronous(test):
    """A test that is a coroutine, with a ceiling on how long it may take."""
    import functools

    @functools.wraps(test)
    def run(*args, **options):
        async def bounded():
            return await asyncio.wait_for(test(*args, **options), PATIENCE)

        return asyncio.run(bounded())

    return run


def websocket(daemon, path, tcp=False, **options):
    """A connection of Python's `websockets`, to be used in `async with` or awaited."""
    options.setdefault("max_size", None)
    options.setdefault("open_timeout", PATIENCE)
    options.setdefault("close_timeout", 10)
    options.setdefault("ping_interval", None)
    options.setdefault("compression", None)
    if tcp:
        return websockets.connect(f"ws://127.0.0.1:{daemon.port}{path}", **options)
    return websockets.unix_connect(str(daemon.socket), f"ws://localhost{path}", **options)


# --- sessions ---------------------------------------------------------------------------------


class Session:
    """A session by its name, through a client."""

    def __init__(self, client, name):
        self.client = client
        self.name = name
        self.path = f"/v1/sessions/{quote(name, safe='')}"

    def exec(self, cmd=None, **fields):
        """Runs a command: its result."""
        if cmd is not None:
            fields["cmd"] = cmd
        return self.client.post(f"{self.path}/exec", fields).ok()

    def out(self, cmd, **fields):
        """Runs a command that must succeed: what it printed."""
        result = self.exec(cmd, **fields)
        assert result["cause"] == "exited" and result["exit_code"] == 0, result
        return result["stdout"]

    def stream(self, cmd, **fields):
        return stream(self.client, "POST", f"{self.path}/exec", json={"cmd": cmd, "stream": True, **fields})

    def start(self, command, *args, **fields):
        """Starts a managed process: its info."""
        return self.client.post(f"{self.path}/processes", {"command": command, "args": args, **fields}).ok(201)

    def process(self, process_id="default"):
        return self.client.get(f"{self.path}/processes/{quote(process_id, safe='')}").ok()

    def ended(self, process_id="default", seconds=None):
        """Waits for a managed process to be over: its info."""
        info = hostview.wait_until(
            lambda: (found := self.process(process_id))["status"] == "exited" and found, seconds or PATIENCE)
        assert info, self.process(process_id)
        return info

    def log(self, process_id="default", **query):
        text = "&".join(f"{key}={value}" for key, value in query.items())
        return self.client.get(f"{self.path}/processes/{process_id}/log?{text}")

    def file(self, path):
        """The address of a file inside."""
        return f"{self.path}/files{quote(path)}"

    def info(self):
        return self.client.get(self.path).ok()

    def delete(self):
        return self.client.delete(self.path)


# --- the daemon -------------------------------------------------------------------------------


class Boxd:
    """A boxd: its directories, which outlive it, and the process, which may be started again."""

    ready_path = "/readyz"

    def __init__(self, box, config=None, token=None, args=(), env=None, tcp=True, ready_path=None):
        self.box = box
        self.ready_path = ready_path or self.ready_path
        self.directory = box.directory(0o711)  # the front may be another user than root
        self.run_dir = self.directory / "run"
        self.state_dir = self.directory / "state"
        self.socket = self.run_dir / "boxd.sock"
        self.log_file = self.directory / "log"
        self.config_file = self.directory / "boxd.yaml"
        self.token_file = self.directory / "token"
        self.args = list(args)
        self.env = env
        self.tcp_wanted = tcp
        self.process = None
        self.port = None
        self.token = None
        for path in (self.run_dir, self.state_dir):
            path.mkdir(mode=0o700)
            box.own(path)
        self.configure(config)
        if token is not None:
            self.set_token(token)

    # What it is told

    def configure(self, config):
        """Writes the configuration: a tree, or text. In place: boxd may have nothing but this file to read."""
        text = config if isinstance(config, str) else json.dumps({"box": config or {}})
        self.config_file.write_text(text)
        self.config_file.chmod(0o644)
        self.box.own(self.config_file)

    def set_token(self, token):
        self.token = token
        self.token_file.write_text(token + "\n")
        self.token_file.chmod(0o600)
        self.box.own(self.token_file)

    def command(self, *more):
        return [
            str(self.box.programs.boxd), "--config", str(self.config_file), "--run-dir", str(self.run_dir),
            "--state-dir", str(self.state_dir), *(["--listen", "127.0.0.1:0"] if self.tcp_wanted else []),
            *(["--token-file", str(self.token_file)] if self.token is not None else []), *map(str, self.args), *map(str, more),
        ]

    def spawn(self, *more, **options):
        """Starts a boxd, this one's or another with the same directories."""
        return subprocess.Popen(
            self.command(*more), env=self.box.environment(self.env), cwd=self.directory,
            preexec_fn=self.box._become, start_new_session=True, stdin=subprocess.DEVNULL, **options)

    def call(self, *more):
        """Runs a boxd that is to come to an end by itself."""
        process = self.spawn(*more, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"boxd does not end: {more} {out!r} {err!r}")
        return conftest.Result(process.args, process.returncode, out, err, 0)

    # Its life

    def start(self, *more):
        assert self.process is None or self.process.poll() is not None, "it runs"
        self.out_file = self.directory / "out"
        with open(self.log_file, "ab") as err, open(self.out_file, "wb") as out:
            self.process = self.spawn(*more, stdout=out, stderr=err)
        self.pid = self.process.pid
        if not hostview.wait_until(self._is_ready, PATIENCE):
            self.abandon()
            pytest.fail(f"boxd is not ready:\n{self.log()[-4000:]}")
        return self

    def _is_ready(self):
        if self.process.poll() is not None:
            pytest.fail(f"boxd ended with {self.process.returncode}:\n{self.log()[-4000:]}")
        said = self.out_file.read_text()
        if not said.endswith("\n"):
            return False
        found = re.search(r"http://127\.0\.0\.1:(\d+)", said)
        self.port = int(found.group(1)) if found else None
        try:
            return Client(self.socket).get(self.ready_path).status == 200
        except OSError:
            return False

    def log(self):
        return self.log_file.read_text(errors="replace")

    def wait_log(self, pattern, seconds=None):
        """Waits for a line in the log: the match."""
        found = hostview.wait_until(lambda: re.search(pattern, self.log(), re.M), seconds or PATIENCE)
        assert found, f"no {pattern!r} in\n{self.log()[-4000:]}"
        return found

    def send(self, number):
        os.kill(self.process.pid, number)

    def wait(self):
        """Its exit status."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.abandon()
            pytest.fail(f"boxd does not end:\n{self.log()[-4000:]}")

    def stop(self, number=signal.SIGINT, status=0):
        """Asks it to end: SIGINT with its sessions, SIGTERM without."""
        before = self.processes()
        self.send(number)
        got = self.wait()
        assert got == status, f"exit status {got}:\n{self.log()[-4000:]}"
        if number == signal.SIGINT:
            self.check_clean(before)

    def kill9(self):
        self.send(signal.SIGKILL)
        self.process.wait(PATIENCE)
        assert hostview.wait_until(lambda: not self._lock_holders(), PATIENCE)

    def restart(self, *more):
        """SIGTERM, and a new one on the same directories."""
        self.stop(signal.SIGTERM)
        return self.start(*more)

    def abandon(self):
        """After a failure: everything of it, by force."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        for _ in range(100):
            left = [pid for pid in self.processes() if hostview.alive(pid)]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                break
            time.sleep(0.02)
        for path in self.cgroups():
            with contextlib.suppress(OSError):
                os.rmdir(path)

    def close(self):
        """At the end of a test or module: a proper end, whatever state it is in."""
        try:
            if self.process and self.process.poll() is None:
                self.stop()
            elif self.process:
                # What a test left on purpose, the next one that does not adopt takes away.
                self.args.append("--no-adopt")
                self.start()
                self.stop()
        finally:
            self.abandon()
            shutil.rmtree(self.directory, ignore_errors=True)

    # What it is made of, seen from the host

    def _keeper(self):
        """What its groups are named by: the directory that its sessions listen in."""
        try:
            st = os.stat(self.run_dir / "inits")
        except FileNotFoundError:
            return None
        return f"{st.st_dev & 0xffffffff:x}{st.st_ino & 0xffffffff:08x}"

    def cgroups(self):
        """Groups of its sessions, innermost first."""
        keeper = self._keeper()
        found = []
        for root in hostview.cgroup_roots() if keeper else ():
            for path, directories, _ in os.walk(root):
                own = f"/kept.{keeper}." in path
                # There may be thousands of somebody else's.
                directories[:] = [name for name in directories if own or not name.startswith("kept.")
                                  or name.startswith(f"kept.{keeper}.")]
                found += [os.path.join(path, name) for name in directories if own or name.startswith("kept.")]
        return found[::-1]

    def _lock_holders(self):
        return [pid for pid in hostview.pids()
                if hostview.exe(pid) == str(self.box.programs.boxd) and hostview.alive(pid)
                and str(self.run_dir) in hostview.cmdline(pid)]

    def spawner(self):
        """The front's child that makes sessions."""
        found = [pid for pid in hostview.children(self.process.pid) if not hostview.is_init(pid)]
        assert len(found) == 1, found
        return found[0]

    def processes(self):
        """Front, spawner, every init and whatever is below them; also those that lost their parent."""
        parents = {pid: hostview.parent(pid) for pid in hostview.pids()}
        groups = self.cgroups()
        found = set(self._lock_holders())
        if self.process and self.process.poll() is None:
            found.add(self.process.pid)
        for path in groups:
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in Path(path, "cgroup.procs").read_text().split()}
        if not self.box.root:
            found |= self._listeners()
        while True:
            more = {pid for pid, parent in parents.items() if parent in found} - found
            if not more:
                return found
            found |= more

    def inits(self):
        """PID 1 of each of its sessions."""
        return [pid for pid in self.processes()
                if hostview.is_init(pid) and hostview.status(pid).get("NSpid", "").split()[-1:] == ["1"]]

    def _listeners(self):
        """Who holds a socket that is bound below the run directory: inits without a group."""
        inits = str(self.run_dir / "inits")
        inodes = set()
        for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
            fields = line.split()
            if len(fields) > 7 and (fields[7].startswith(str(self.run_dir)) or self._is_own(fields[7], inits)):
                inodes.add(f"socket:[{fields[6]}]")
        found = set()
        for pid in hostview.pids():
            with contextlib.suppress(OSError):
                if hostview.is_init(pid) and inodes & set(hostview.fds(pid).values()):
                    found.add(pid)
        return found

    @staticmethod
    def _is_own(address, inits):
        """Bound by way of a descriptor, so its path says only which name it has in the directory."""
        name = address.rsplit("/", 1)[-1]
        return address.startswith("/proc/self/fd/") and os.path.exists(os.path.join(inits, name))

    def check_clean(self, before=()):
        """Nothing of it is left: no process, group, mount or socket."""
        def left():
            return {
                "processes": {pid: hostview.cmdline(pid) for pid in before if hostview.alive(pid)},
                "cgroups": self.cgroups(),
                "mounts": [mount for mount in hostview.mounts() if str(self.directory) in mount.line],
                "sockets": [str(path) for path in (self.run_dir / "inits").glob("*")],
                "records": [str(path) for path in (self.run_dir / "sessions").glob("*.json")],
            }

        hostview.wait_until(lambda: not any(left().values()), 5 * conftest.SLOWNESS)
        before = set(before) | self.processes()
        found = {kind: value for kind, value in left().items() if value}
        assert not found, f"left behind: {found}\n{self.log()[-2000:]}"

    # Talking to it

    @property
    def client(self):
        return Client(self.socket)

    @property
    def tcp(self):
        return Client(("127.0.0.1", self.port), self.token)

    @property
    def anonymous(self):
        """By TCP, without a token."""
        return Client(("127.0.0.1", self.port))

    def get(self, path, **options):
        return self.client.get(path, **options)

    def post(self, path, json=None, **options):
        return self.client.post(path, json, **options)

    def put(self, path, body, **options):
        return self.client.put(path, body, **options)

    def delete(self, path, **options):
        return self.client.delete(path, **options)

    def session(self, name=None, **spec):
        """Makes a session."""
        name = name or unique()
        self.post("/v1/sessions", {"session_id": name, **spec}).ok(201)
        return Session(self.client, name)

    def names(self):
        return [info["session_id"] for info in self.get("/v1/sessions?limit=1000").ok()["sessions"]]

    def curl(self, *args, tcp=False, timeout=None):
        """Runs curl; the last argument is a path."""
        where = [f"http://127.0.0.1:{self.port}{args[-1]}"] if tcp else [
            "--unix-socket", str(self.socket), f"http://localhost{args[-1]}"]
        command = ["curl", "-sS", "--max-time", str(timeout or PATIENCE), *map(str, args[:-1]), *where]
        return subprocess.run(command, capture_output=True, timeout=2 * PATIENCE)


# --- fixtures ---------------------------------------------------------------------------------


def add_boxd(programs):
    """boxd beside the other programs, which all users can read."""
    if not BOXD.exists():
        pytest.exit(f"{BOXD} is missing: build first (make), or set BOX_BUILD", 2)
    programs.boxd = programs.base / "bin" / "boxd"
    if not programs.boxd.exists():
        shutil.copyfile(BOXD, programs.boxd)
        programs.boxd.chmod(0o755)
    return programs


@contextlib.contextmanager
def running(box, **options):
    boxd = Boxd(box, **options)
    try:
        yield boxd.start()
    finally:
        boxd.close()


# Room for every test of a module; a test that is about limits starts its own.
SHARED = {"limits": {"max_sessions": 1000, "max_managed_processes": 500}, "session_ttl_sec": 600,
          "mounts": {"allowed_roots": ["/tmp", "/usr/share"]}}


def need_root():
    if not conftest.ROOT:
        pytest.skip("limits, and looking at boxd's processes from outside, take root; what does not has `either`")


@pytest.fixture(scope="module")
def daemon(programs, base):
    need_root()
    with running(conftest.get_box("root", add_boxd(programs), base), config=SHARED) as boxd:
        yield boxd


@pytest.fixture(scope="module", params=["root", "user"])
def either(request, programs, base):
    with running(conftest.get_box(request.param, add_boxd(programs), base), config=SHARED) as boxd:
        yield boxd


@pytest.fixture
def start_boxd(programs, base):
    """start_boxd(identity=…, config=…, token=…, args=…, env=…): a running boxd. With `start=False` one that
    is not started yet."""
    need_root()
    with contextlib.ExitStack() as stack:
        def start(identity="root", start=True, **options):
            box = conftest.get_box(identity, add_boxd(programs), base)
            boxd = Boxd(box, **options)
            stack.callback(boxd.close)
            return boxd.start() if start else boxd

        yield start


@pytest.fixture
def session(daemon):
    made = daemon.session()
    yield made
    made.delete()
