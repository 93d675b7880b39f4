"""An ordinary user with a systemd user manager: limits hold in a scope that box asks it for.

Names hold "systemd_user": the VM's second boot, where such a manager runs, picks them by that.
"""

import os
import signal
from pathlib import Path

import pytest

import hostview
from conftest import ROOT, SLOWNESS, VM


@pytest.fixture
def manager(user_box):
    """The user's box, where this user has a manager; its own processes must be the test's."""
    if ROOT:
        pytest.skip("these run as an ordinary user who is logged in, with a systemd user manager")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not runtime or not Path(runtime, "systemd").is_dir():
        pytest.skip("no systemd user manager is running for this user")
    # A spawner that was killed while the manager made its scope, as unit tests do it, leaves an empty one for good.
    before = scopes()
    yield user_box
    assert hostview.wait_until(lambda: scopes() <= before, 10 * SLOWNESS), scopes() - before


def scopes():
    """Groups of box in the user's part of the tree."""
    root = Path("/sys/fs/cgroup/user.slice")
    # By os.walk, which takes no offence at directories that go while it looks.
    return {os.path.join(above, name) for above, names, _ in os.walk(root) for name in names
            if name.startswith("box.") or (name.startswith("box-") and name.endswith(".scope"))}


def test_systemd_user_has_limits(manager):
    """Nothing weaker to tell: all three limits by cgroup v2, also under --strict."""
    report = manager.run("--json", "--strict", "--memory", "64M", "--pids", "32", "--cpus", "0.5", "--", "true").ok().json
    isolation = report["isolation"]
    assert isolation["cgroup"] == "v2" and isolation["notes"] == []
    assert {limit["by"] for limit in isolation["limits"].values()} == {"cgroup"}
    assert manager.run("--", "true").ok().err == ""


def test_systemd_user_memory_bomb(manager):
    result = manager.attack("memory-bomb", options=["--json", "--memory", "64M"])
    assert result.returncode == 137 and result.cause == "oom", result


def test_systemd_user_processes(manager):
    result = manager.attack("fork-count", options=["--json", "--pids", "32"])
    assert result.status("fork") == "EAGAIN" and result.cause == "pids_limit", result


def test_systemd_user_time_out_kills_all(manager):
    mark = f"token-{os.getpid()}"
    result = manager.attack("daemon", mark, options=["--timeout", "1"])
    assert result.returncode == 124, result
    assert hostview.wait_until(lambda: not hostview.with_argument(mark), 5 * SLOWNESS)


@pytest.mark.parametrize("victim", ["box", "spawner", "init"])
def test_systemd_user_scope_goes_with_a_kill(manager, victim):
    """The fixture looks that no scope and no group is left."""
    with manager.start_attack("hold") as live:
        live.wait_output()
        assert scopes()
        tree = live.tree()
        os.kill(tree[victim], signal.SIGKILL)
        assert live.result(20 * SLOWNESS).returncode == (-9 if victim == "box" else 125)
    assert hostview.wait_until(lambda: not any(hostview.alive(pid) for pid in tree.values()), 5 * SLOWNESS)
    manager.run("--", "true").ok()


def test_systemd_user_several_at_once(manager):
    """Each box has a scope of its own."""
    with manager.start_attack("hold") as one, manager.start_attack("hold") as other:
        one.wait_output()
        other.wait_output()
        groups = {hostview.cgroup_of(live.tree()["command"])[""] for live in (one, other)}
        assert len(groups) == 2, groups
