"""boxd.service and boxd.socket as they are installed, under the systemd that is PID 1: root's half of the VM's second boot.

There is one such service on a machine, and these tests start, kill and configure it. So a boxd that somebody uses is left
alone: where it runs, or has a configuration, they are skipped. In the VM whatever is missing is a failure.
"""

import contextlib
import grp
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import hostview
from conftest import PATIENCE, ROOT, SLOWNESS, USER, VM, ensure_user
from daemon import Client, Session, asynchronous, unique, websocket

# For a line of the journal, a restart: ceilings too.
SOON = 20 * SLOWNESS
RUN = Path("/run/boxd")
STATE = Path("/var/lib/boxd")
CONFIG = Path("/etc/boxd/boxd.yaml")
ADDRESS = ("127.0.0.1", 5410)
GROUPS = Path("/sys/fs/cgroup")
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (debug|info|warn|error) ([a-z_]+)( [a-z_]+=|$)")


def command(*args, check=True, **options):
    done = subprocess.run(args, capture_output=True, text=True, timeout=PATIENCE, **options)
    if check and done.returncode != 0:
        pytest.fail(f"{args} → {done.returncode}\n{done.stdout}{done.stderr}\n{journal_tail()}")
    return done


def journal_tail():
    """For whoever reads a failure."""
    return subprocess.run(["journalctl", "-u", "boxd.service", "-u", "boxd.socket", "-n", "40", "-o", "short-monotonic"],
                          capture_output=True, text=True, timeout=PATIENCE).stdout


class Service:
    """The machine's boxd, by systemctl and by its sockets."""

    socket = RUN / "boxd.sock"
    client = Client(RUN / "boxd.sock")
    tcp = Client(ADDRESS)

    def __init__(self):
        self.seen = 0  # lines of the journal

    def ctl(self, verb, *units, check=True):
        return command("systemctl", verb, *(units or ["boxd.service"]), check=check)

    def reload_systemd(self):
        """Unrelated to boxd, and an occasion for systemd to put its controllers in order."""
        command("systemctl", "daemon-reload")

    def show(self, name, unit="boxd.service"):
        return command("systemctl", "show", "--value", "-p", name, unit).stdout.strip()

    def state(self, unit="boxd.service"):
        return self.show("ActiveState", unit)

    @property
    def front(self):
        return int(self.show("MainPID"))

    @property
    def spawner(self):
        found = [pid for pid in hostview.children(self.front) if hostview.comm(pid) == "box-spawner"]
        assert len(found) == 1, found
        return found[0]

    def configure(self, **tree):
        """Replaces the file as an editor would, readable to the front and to nobody else."""
        new = CONFIG.with_suffix(".new")
        new.write_text(json.dumps({"box": tree}))
        new.chmod(0o640)
        os.chown(new, 0, grp.getgrnam("boxd").gr_gid)
        new.rename(CONFIG)

    def session(self, **spec):
        name = unique()
        self.client.post("/v1/sessions", {"session_id": name, **spec}).ok(201)
        return Session(self.client, name)

    def names(self):
        return [info["session_id"] for info in self.client.get("/v1/sessions?limit=1000").ok()["sessions"]]

    def status(self):
        return self.client.get("/v1/status").ok()

    # The journal: what has come since the last mark

    def mark(self):
        self.seen = len(self._lines())

    def journal(self):
        """Lines of boxd itself, without systemd's about it."""
        return self._lines()[self.seen:]

    @staticmethod
    def _lines():
        command("journalctl", "--sync")
        entries = command("journalctl", "-b", "-o", "json", "_SYSTEMD_UNIT=boxd.service").stdout
        return [json.loads(line)["MESSAGE"] for line in entries.splitlines()]

    def wait_journal(self, pattern):
        found = hostview.wait_until(
            lambda: [line for line in self.journal() if re.search(pattern, line)], SOON, pause=0.3)
        assert found, f"no {pattern!r} in\n{journal_tail()}"
        return found


def processes_of(token):
    """Host pids of processes that have the token among their arguments."""
    return sorted(pid for pid in hostview.with_argument(token) if hostview.alive(pid))


def need(condition, reason):
    if condition:
        return
    if VM and os.environ.get("BOX_TEST_BOOT") == "systemd":
        pytest.fail(f"must not be so in the VM: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def unit():
    """The service, stopped, and what the machine was like before."""
    if not ROOT:
        pytest.skip("the system's service is root's to start")
    need(hostview.comm(1) == "systemd", "PID 1 is not systemd")
    service = Service()
    need(service.show("LoadState") == "loaded" and service.show("LoadState", "boxd.socket") == "loaded",
         "boxd.service and boxd.socket are not installed")
    need(service.state() == "inactive" and service.state("boxd.socket") == "inactive" and not CONFIG.exists(),
         "this machine has a boxd in use")
    service.before = hostview.snapshot()
    yield service
    stop(service)


def stop(service):
    """As if it had never been started, whatever state it is in."""
    CONFIG.unlink(missing_ok=True)
    service.ctl("start", check=False)
    command("box", "rm", "--all", check=False)
    service.ctl("stop", "boxd.socket", "boxd.service", check=False)
    service.ctl("reset-failed", "boxd.socket", "boxd.service", check=False)


@pytest.fixture
def service(unit):
    """It runs, with its defaults and no session."""
    unit.mark()
    unit.ctl("start")
    yield unit
    if CONFIG.exists() or unit.state("boxd.socket") == "active":
        stop(unit)
    elif unit.state() == "active":
        command("box", "rm", "--all")


# --- how it is installed ----------------------------------------------------------------------


def test_systemd_service_units_are_sound(unit):
    done = command("systemd-analyze", "verify", "--man=no", "boxd.service", "boxd.socket")
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "boxd" in line]
    assert not complaints


def test_systemd_service_enabling_leaves_the_socket_alone(unit):
    """With the socket, `listen` of the configuration does not count: that is for whoever asks for it."""
    unit.ctl("enable", "--no-reload", "boxd.service")
    try:
        assert command("systemctl", "is-enabled", "boxd.service").stdout.strip() == "enabled"
        assert command("systemctl", "is-enabled", "boxd.socket", check=False).stdout.strip() == "disabled"
    finally:
        unit.ctl("disable", "--no-reload", "boxd.service")


# --- start ------------------------------------------------------------------------------------


def test_systemd_service_starts(service):
    """Both sockets answer as soon as systemd calls it started, and the journal says what it did. To systemd it was a
    stop and a start with nothing left in between."""
    before = remarks()
    service.ctl("restart")
    assert service.status()["pid"] == service.front
    assert service.tcp.get("/readyz").ok()["ready"] is True
    assert service.show("Type") == "notify" and service.state() == "active"
    assert "native" in command("box", "status").stdout
    for where in (["--unix-socket", str(service.socket), "http://localhost"], ["http://127.0.0.1:5410"]):
        answer = command("curl", "-sS", "--fail", *where[:-1], where[-1] + "/v1/status").stdout
        assert json.loads(answer)["pid"] == service.front
    service.wait_journal(r" listening address=127\.0\.0\.1:5410")
    lines = [line for line in service.journal() if not line.startswith("boxd ")]  # one for a person
    assert lines and all(LINE.match(line) for line in lines), lines
    events = {LINE.match(line).group(2) for line in lines}
    assert {"starting", "recovered", "listening", "stopping", "stopped"} <= events, events
    assert not [line for line in lines if LINE.match(line).group(1) in ("warn", "error")], lines
    assert remarks() == before


def remarks():
    """What systemd has to say about processes that outstay the service."""
    lines = command("journalctl", "-b", "-o", "cat", "UNIT=boxd.service").stdout.splitlines()
    return [line for line in lines if "remains running" in line or "left-over" in line]


def test_systemd_service_processes(service):
    """The front is nobody in particular, the spawner root without what it can do without; both in the unit's group."""
    account = pwd.getpwnam("boxd")
    front, spawner = hostview.status(service.front), hostview.status(service.spawner)
    assert set(front["Uid"].split()) == {str(account.pw_uid)} and set(front["Gid"].split()) == {str(account.pw_gid)}
    assert front["CapBnd"] == front["CapEff"] == "0" * 16 and front["NoNewPrivs"] == "1" and front["Seccomp"] == "2"
    assert set(spawner["Uid"].split()) == {"0"}
    capabilities = int(spawner["CapBnd"], 16)
    # CAP_SYS_MODULE, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_MAC_ADMIN, CAP_WAKE_ALARM: of both lines of the unit
    assert not [number for number in (16, 22, 25, 33, 35) if capabilities >> number & 1]
    assert capabilities >> 21 & 1, "CAP_SYS_ADMIN"
    for pid in (service.front, service.spawner):
        assert hostview.cgroup_of(pid)[""].startswith("/system.slice/boxd.service")
    # Sessions have the soft limit, the front the hard one.
    assert hostview.limits(service.front)["Max open files"] == ("1048576", "1048576")
    assert hostview.limits(service.spawner)["Max open files"] == ("1024", "1048576")


def test_systemd_service_places(service):
    account = pwd.getpwnam("boxd")
    def owner(path):
        found = path.stat()
        return found.st_uid, found.st_gid, found.st_mode & 0o777
    assert owner(RUN) == (0, 0, 0o755)
    assert owner(service.socket) == (0, account.pw_gid, 0o660)
    assert owner(STATE) == (account.pw_uid, account.pw_gid, 0o700)
    assert owner(CONFIG.parent) == (0, 0, 0o755)


# --- sessions and the service's life ----------------------------------------------------------


def restart(service):
    service.ctl("restart")


def kill_9(service):
    """Restart=on-failure is to bring it back."""
    front, restarts = service.front, int(service.show("NRestarts"))
    os.kill(front, signal.SIGKILL)
    assert hostview.wait_until(
        lambda: int(service.show("NRestarts")) > restarts and service.state() == "active", SOON, pause=0.3), journal_tail()


def kill_spawner(service):
    """boxd gives up then, and that is a failure too."""
    restarts = int(service.show("NRestarts"))
    os.kill(service.spawner, signal.SIGKILL)
    assert hostview.wait_until(
        lambda: int(service.show("NRestarts")) > restarts and service.state() == "active", SOON, pause=0.3), journal_tail()


def stop_and_start(service):
    service.ctl("stop")
    assert service.state() == "inactive"
    with pytest.raises(OSError):
        service.tcp.get("/healthz")
    service.ctl("start")


@asynchronous
async def talk(service, session, since, send, expected):
    async with websocket(service, f"{session.path}/managed-process/talker/ws?since={since}") as ws:
        await ws.send(send)
        for line in expected:
            assert await ws.recv() == line


@pytest.mark.parametrize("away", [restart, kill_9, kill_spawner, stop_and_start])
def test_systemd_service_sessions_outlive_it(service, away):
    """Files, the process, its pid and what it says, the limits: as if nothing had happened."""
    pytest.importorskip("websockets", reason="python3-websockets is not installed")
    session, token = service.session(memory_mb=96), unique("token")
    session.out("echo kept > /workspace/file")
    session.start("sh", "-c", "echo line 1; while read x; do echo got $x; done", token, process_id="talker")
    assert hostview.wait_until(lambda: session.process("talker")["stdout_bytes"] == 7, PATIENCE)
    pids, front = processes_of(token), service.front
    assert len(pids) == 1
    away(service)
    assert service.front != front and service.status()["pid"] == service.front
    assert service.names() == [session.name]
    assert session.out("cat /workspace/file") == "kept\n"
    assert processes_of(token) == pids and session.process("talker")["status"] == "running"
    talk(service, session, 0, "hello", ["line 1", "got hello"])
    assert (group_of(pids[0]).parent / "memory.max").read_text().strip() == str(96 << 20)
    session.delete().ok()
    assert hostview.wait_until(lambda: not processes_of(token), PATIENCE)


def test_systemd_service_state_is_kept(service):
    """What the front has in its state directory is still its own after a restart."""
    name = unique("skill")
    service.client.post("/v1/skills", {"name": name, "description": "before", "instructions": "Do."}).ok(201)
    service.ctl("restart")
    owners = {path.lstat().st_uid for path in [STATE, *STATE.rglob("*")]}
    assert owners == {pwd.getpwnam("boxd").pw_uid}
    path = f"/v1/skills/{name}"
    assert service.client.get(path).ok()["skill"]["description"] == "before"
    service.client.put(f"{path}/files/more/notes.txt", b"after").ok(200, 201)
    service.client.request("PATCH", path, json={"description": "after"}).ok()
    assert service.client.get(path).ok()["skill"]["description"] == "after"
    service.client.delete(path).ok()


def test_systemd_service_reload(service):
    """A file that was not there at the start, one that replaces it, one that is wrong, and none again."""
    front, default = service.front, service.status()["limits"]["max_sessions"]

    def reload(event):
        service.mark()
        service.ctl("reload")
        service.wait_journal(event)
        assert service.state() == "active" and service.front == front
        assert not [line for line in service.journal() if "reload_needs_restart" in line]
        return service.status()["limits"]["max_sessions"]

    assert default != 3
    service.configure(limits={"max_sessions": 3}, sessions={"memory_mb": 77})
    assert reload(" reloaded changed=2") == 3
    assert service.session().info()["memory_mb"] == 77
    service.configure(limits={"max_sessions": 5}, log={"level": "debug"})
    assert reload(" reloaded changed=3") == 5
    service.configure(limits={"max_sessions": "many"})
    assert reload(" reload_failed .*max_sessions") == 5
    CONFIG.unlink()
    assert reload(" reloaded changed=2") == default


def test_systemd_service_journal_as_json(service):
    service.configure(log={"format": "json"})
    service.ctl("stop")
    service.mark()
    service.ctl("start")
    service.session().delete().ok()
    service.ctl("stop")
    lines = [line for line in service.journal() if not line.startswith("boxd ")]
    events = [json.loads(line) for line in lines]
    assert all({"time", "level", "event"} <= set(event) for event in events)
    assert {"starting", "recovered", "listening", "stopping", "stopped"} <= {event["event"] for event in events}


def test_systemd_service_that_cannot_start(service):
    """systemctl fails, and the journal has the reason."""
    service.ctl("stop")
    service.mark()
    service.configure(limits={"max_sessions": "many"})
    assert service.ctl("start", check=False).returncode != 0
    service.wait_journal(r"boxd\.yaml.*max_sessions")
    service.ctl("stop")
    assert service.state() in ("inactive", "failed")


# --- limits -----------------------------------------------------------------------------------


def group_of(pid):
    return GROUPS / hostview.cgroup_of(pid)[""].lstrip("/")


def test_systemd_service_limits(service):
    """In a group `boxd` at the top of the tree, where neither a stop of the unit nor systemd's own housekeeping reaches."""
    session, token = service.session(memory_mb=64, pids_limit=40, cpus=0.5), unique("token")
    session.start("sh", "-c", "read x", token)
    assert hostview.wait_until(lambda: processes_of(token), PATIENCE)
    group = group_of(processes_of(token)[0]).parent
    assert group.parent == GROUPS / "boxd" and group.name.startswith("kept."), group

    def limits():
        return {name: (group / name).read_text().strip() for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}

    expected = {"memory.max": str(64 << 20), "memory.swap.max": "0", "pids.max": "42", "cpu.max": "50000 100000"}
    assert limits() == expected
    service.ctl("stop")
    service.reload_systemd()
    assert limits() == expected
    service.ctl("start")
    assert limits() == expected
    result = session.exec("python3 -c 'x = bytearray(256 << 20)'")
    assert result["cause"] == "oom", result
    assert session.out("echo on") == "on\n"


# --- socket activation ------------------------------------------------------------------------


def ask_as(*identity):
    """Whether an ordinary user with these groups is let in by the Unix socket."""
    return command("setpriv", f"--reuid={USER}", f"--regid={USER}", *identity, "curl", "-sS", "--fail", "--unix-socket",
                   str(Service.socket), "http://localhost/healthz", check=False)


def test_systemd_service_socket_activation(service):
    """The first client starts it, whichever socket it takes; so does the next one after a stop."""
    ensure_user()
    session = service.session()
    service.ctl("stop")
    service.ctl("start", "boxd.socket")
    assert service.state() == "inactive" and service.state("boxd.socket") == "active"
    refused = ask_as("--clear-groups")
    assert refused.returncode == 7 and service.state() == "inactive", refused
    allowed = ask_as("--groups=boxd")
    assert allowed.returncode == 0 and json.loads(allowed.stdout)["live"] is True, allowed
    assert service.state() == "active"
    assert service.names() == [session.name] and session.out("echo on") == "on\n"
    front = service.front
    service.ctl("stop", "boxd.service")
    assert service.state("boxd.socket") == "active"
    assert service.tcp.get("/v1/status").ok()["pid"] != front
    assert session.out("echo on") == "on\n"
    # A restart refuses nobody: who comes meanwhile waits.
    with subprocess.Popen(["systemctl", "restart", "boxd.service"]) as restarting:
        while restarting.poll() is None:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # accepted by the one that went
                service.client.get("/healthz").ok()
    assert restarting.returncode == 0
    found = service.socket.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, grp.getgrnam("boxd").gr_gid, 0o660)


def test_systemd_service_without_the_socket_again(service):
    """What the socket unit left in the directory is no obstacle to a boxd that binds for itself, nor the other way round."""
    service.ctl("stop")
    service.ctl("start", "boxd.socket")
    service.client.get("/healthz").ok()
    service.ctl("stop", "boxd.socket", "boxd.service")
    service.ctl("start")
    assert service.state("boxd.socket") == "inactive" and service.status()["pid"] == service.front
    service.ctl("stop")
    service.ctl("start", "boxd.socket")
    assert service.status()["pid"] == service.front


# --- the end ----------------------------------------------------------------------------------


def test_systemd_service_leaves_nothing(service):
    """Sessions removed and the service stopped, the machine is as it was."""
    for _ in range(3):
        service.session(workspace_quota_mb=8).start("sleep", "1000")
    with forwarding():
        service.session(network="on").out("true")
    command("box", "rm", "--all")
    service.ctl("stop")
    assert hostview.wait_until(lambda: not left(service), PATIENCE), left(service)
    assert list((RUN / "inits").iterdir()) == [] and list((RUN / "sessions").iterdir()) == []
    scopes = command("systemctl", "list-units", "--all", "--plain", "--no-legend", "box*.scope", "run-*.scope").stdout
    assert scopes == ""


@contextlib.contextmanager
def forwarding():
    """What sessions with a network need of the host."""
    switch = Path("/proc/sys/net/ipv4/ip_forward")
    before = switch.read_text()
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text(before)


def left(service):
    more = hostview.more_than(service.before, shutil.which("box"))
    more.pop("files", None)  # /run/boxd itself stays
    return more
