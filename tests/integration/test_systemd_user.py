"""An ordinary user under systemd: limits through a scope that the user's own manager makes.

The VM's systemd boot runs these, from a login session of the test user: its session scope is root's,
so there is no group to work below but one that is asked for.
"""

import os
import signal
import subprocess
from pathlib import Path

import pytest

import hostview
from conftest import PATIENCE, SLOWNESS

pytestmark = pytest.mark.skipif(
    os.environ.get("BOX_TEST_BOOT") != "systemd",
    reason="needs a user manager of systemd under cgroup v2: make test-vm boots one",
)

GROUPS = Path("/sys/fs/cgroup")
LIMITS = ["--memory", "64M", "--pids", "32", "--cpus", "0.5"]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_stray_scopes():
    """No test leaves a scope behind, as a unit or as a group, nor a group anywhere else."""
    before = hostview.cgroup_dirs()
    yield
    assert hostview.wait_until(lambda: not scopes(), 5 * SLOWNESS), scopes()
    assert hostview.cgroup_dirs() <= before


def systemctl(*args):
    command = ["systemctl", "--user", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def scopes():
    """Scopes of box that the manager knows, whatever their state."""
    lines = systemctl("list-units", "--all", "--plain", "--no-legend", "box-*.scope").splitlines()
    return [line.split()[0] for line in lines]


def session_group(live):
    """The group of a live session, as the host sees it: the parent of its command's."""
    path = hostview.cgroup_of(live.tree()["command"])[""]
    return GROUPS / path.lstrip("/").rpartition("/")[0]


def start(box, *options):
    return box.start(*options, "--", "sh", "-c", "echo READY; exec sleep 1000")


def setting(group, name):
    return (group / name).read_text().strip()


def test_isolation_says_so(user_box):
    report = user_box.run("--json", "--strict", *LIMITS, "--", "true").ok().json["isolation"]
    assert report["cgroup"] == "v2"
    assert report["limits"]["memory"] == {"bytes": 64 * MIB, "by": "cgroup"}
    assert report["limits"]["pids"] == {"count": 32, "by": "cgroup"}
    assert report["limits"]["cpus"] == {"count": 0.5, "by": "cgroup"}
    assert report["notes"] == []


def test_limits_seen_from_outside(user_box):
    """In a delegated scope of the spawner's, below the user's manager, with every limit written."""
    with start(user_box, *LIMITS) as live:
        live.wait_output()
        group = session_group(live)
        scope = group.parent
        assert scope.name == f"box-{live.tree()['spawner']}.scope"
        assert scope.parent.parent.name == f"user@{os.getuid()}.service"
        assert scopes() == [scope.name]
        assert systemctl("show", "--property=Delegate", "--value", scope.name).strip() == "yes"
        assert setting(group, "memory.max") == str(64 * MIB)
        assert setting(group, "pids.max") == "34"  # init and the launcher are not the command's
        assert setting(group, "cpu.max") == "50000 100000"
        # No such file: the kernel has no swap at all.
        if (group / "memory.swap.max").exists():
            assert setting(group, "memory.swap.max") == "0"
        # Nobody but what is sandboxed: who limits is not in what is limited.
        assert hostview.cgroup_of(live.pid)[""] == hostview.cgroup_of("self")[""]
        assert setting(group, "cgroup.procs") == ""


def test_memory_bomb(user_box):
    result = user_box.attack("memory-bomb", options=["--json", "--memory", "64M"])
    assert result.returncode == 137, result
    assert result.json["cause"] == "oom"
    # A lane's own counter runs ahead of the session's limit by a batch of pages on each CPU.
    assert 32 * MIB < result.json["peak_memory_bytes"] < 66 * MIB


def test_process_limit(user_box):
    result = user_box.attack("fork-count", options=["--json", "--pids", "24"])
    assert result.status("fork") == "EAGAIN"
    assert result.json["cause"] == "pids_limit"


def test_cpu_limit(user_box):
    script = "import time; t = time.monotonic()\nwhile time.monotonic() - t < 2: pass"
    report = user_box.run("--json", "--cpus", "0.1", "--", "python3", "-c", script).ok().json
    assert report["cpu_ms"] < 0.5 * report["duration_ms"], report


def test_time_out_ends_the_tree(user_box):
    result = user_box.attack("fork-bomb", options=["--json", "--timeout", "2"])
    assert result.returncode == 124
    assert not hostview.with_argument("fork-bomb")


def test_two_at_once(user_box):
    """Each has a scope of its own; the end of one is nothing to the other."""
    with start(user_box, "--memory", "64M") as one, start(user_box, "--memory", "96M") as two:
        one.wait_output()
        two.wait_output()
        first, second = session_group(one), session_group(two)
        assert first.parent != second.parent
        assert setting(first, "memory.max") == str(64 * MIB)
        assert setting(second, "memory.max") == str(96 * MIB)
        one.stop()
        assert hostview.wait_until(lambda: not first.parent.exists(), 5 * SLOWNESS)
        assert two.process.poll() is None and setting(second, "memory.max") == str(96 * MIB)
        assert len(scopes()) == 1


@pytest.mark.parametrize("victims", [["box"], ["spawner", "box"], ["box", "spawner"]])
def test_scope_goes_with_a_killed_session(user_box, victims):
    with start(user_box, *LIMITS) as live:
        live.wait_output()
        tree = live.tree()
        scope = session_group(live).parent
        for victim in victims:
            try:
                os.kill(tree[victim], signal.SIGKILL)
            except ProcessLookupError:
                assert victim == "spawner"  # quick to follow box
        live.process.wait(PATIENCE)
        # A spawner that was killed cleared nothing up, but the next one does.
        if "spawner" in victims:
            user_box.run("--", "true").ok()
        assert hostview.wait_until(lambda: not scope.exists(), 5 * SLOWNESS)


def test_without_the_environment(user_box):
    """As under sudo -u, or cron: the manager is where it always is."""
    env = {"XDG_RUNTIME_DIR": "", "DBUS_SESSION_BUS_ADDRESS": ""}
    report = user_box.run("--json", *LIMITS, "--", "true", env=env).ok().json
    assert report["isolation"]["cgroup"] == "v2"


def test_without_a_manager(user_box):
    """A limit that was asked for is refused with what helps; defaults alone go on, and say so."""
    env = {"XDG_RUNTIME_DIR": "/nowhere", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere/bus"}
    error = user_box.run("--json", "--memory", "64M", "--", "true", env=env).failed().json["error"]
    assert error["code"] == "unsupported" and "enable-linger" in error["hint"]
    report = user_box.run("--json", "--", "true", env=env).ok().json["isolation"]
    assert report["cgroup"] == "none" and report["notes"]


@pytest.mark.parametrize("kind", [["--scope"], ["--scope", "-p", "Delegate=yes"],
                                  ["--pipe", "--wait"], ["--pipe", "--wait", "-p", "Delegate=yes"]])
def test_inside_another_unit(user_box, kind):
    """A unit that was not delegated is not ours to rearrange; whatever it is, limits hold."""
    user_box.wrapper = ["systemd-run", "--user", "--quiet", "--collect", *kind]
    result = user_box.attack("memory-bomb", options=["--json", "--memory", "64M"])
    assert result.json["cause"] == "oom", result
    assert result.json["isolation"]["cgroup"] == "v2"


def test_a_scope_that_is_not_delegated_stays_as_it_is(user_box):
    user_box.wrapper = ["systemd-run", "--user", "--quiet", "--collect", "--scope"]
    with start(user_box, *LIMITS) as live:
        live.wait_output()
        group = session_group(live)
        around = GROUPS / hostview.cgroup_of(live.pid)[""].lstrip("/")
        assert around.name.startswith("run-") and around not in group.parents
        assert not [path for path in around.iterdir() if path.is_dir()]


def test_doctor_knows(user_box):
    assert "v2" in user_box.call("doctor").out
