"""ABUSE cases 36 to 41, and what happens when a part of boxd itself is killed."""

import os
import re
import resource
import signal
import time
from pathlib import Path

import pytest

import hostview
from conftest import ROOT, SLOWNESS, VM


def token():
    """Something to find processes by."""
    return f"token-{os.getpid()}-{time.monotonic_ns()}"


def gone(mark):
    """Nothing with this argument is left, after a moment."""
    return hostview.wait_until(lambda: not hostview.with_argument(mark), 2 * SLOWNESS)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_37_time_out_kills_the_whole_tree(box, options):
    """Double-forked, in sessions of their own, deaf to every signal, forking on: dead within 2 s."""
    mark = token()
    result = box.attack("daemon", mark, options=["--timeout", "1", *options])
    assert result.returncode == 124, result
    assert result.elapsed < 1 + 2 + 3 * SLOWNESS
    assert "READY" in result.out
    assert gone(mark), hostview.with_argument(mark)


def test_37_time_out_says_so(box):
    result = box.run("--timeout", "300ms", "--", "sleep", "100")
    assert result.returncode == 124
    assert "timed out after 300ms" in result.err
    report = box.run("--json", "--timeout", "0.3", "--", "sleep", "100").json
    assert report["status"] == "timed_out" and report["cause"] == "timeout"
    assert report["exit_code"] is None
    assert 250 <= report["duration_ms"] < 20000 * SLOWNESS


def test_37_output_before_the_time_out_is_kept(box):
    report = box.run("--json", "--timeout", "1", "--", "sh", "-c", "echo before; sleep 100").json
    assert report["stdout"] == "before\n"


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_37_command_that_attacks_its_launcher(box, how):
    """The one process that could report its end is stopped or killed: the time-out holds, or the end
    is noticed; either way box comes back and nothing is left."""
    mark = token()
    result = box.attack("launcher", how, "stay", mark, options=["--timeout", "2"], timeout=30 * SLOWNESS)
    assert result.returncode not in (0, 3), result
    assert gone(mark)


def test_37_command_that_limits_init(box):
    """prlimit and nice on init, which has the same user: the session suffers, box does not."""
    result = box.attack("launcher", "limits", options=["--timeout", "5"], timeout=30 * SLOWNESS)
    assert result.returncode in (3, 125), result
    box.run("--", "true").ok()


def test_38_background_child_that_holds_stdout(box):
    """The result is not held up, and the child ends with the session."""
    mark = token()
    result = box.attack("background", mark).ok()
    assert result.out == "DONE\n"
    assert result.elapsed < 5 * SLOWNESS
    assert gone(mark)
    started = time.monotonic()
    shell = box.run("--json", "--", "sh", "-c", f"sleep 999 & echo done {mark}").ok()
    assert shell.json["stdout"] == f"done {mark}\n"
    assert time.monotonic() - started < 5 * SLOWNESS


def test_39_zombies_are_reaped(box):
    """Ten thousand orphans, with room for a handful at a time."""
    count = 1000 if VM else 10000
    result = box.attack("orphans", str(count)).ok()
    made, zombies = map(int, re.findall(r"=(\d+)", result.tries["orphans"][1]))
    assert made == count and zombies == 0, result


@pytest.mark.parametrize("how,code", [("abort", 134), ("segv", 139)])
def test_40_no_core_dump(box, how, code):
    """Whatever the caller's limit is, and though the program asks for one: no core anywhere."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    directory = box.directory(0o777)
    places = [directory, box.base, Path("/tmp"), Path("/var/tmp"), Path("/")]
    if pattern.startswith("/"):
        places.append(Path(pattern).parent)

    def cores():
        return {path for place in places if place.is_dir() for path in place.iterdir() if "core" in path.name}

    def unlimited():
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    before = cores()
    result = box.attack("crash", how, options=["--mount", f"{directory}:/workspace"], before=unlimited)
    assert result.returncode == code, result
    assert result.status("limit") == "EPERM"
    assert not cores() - before
    report = box.attack("crash", how, options=["--json"]).json
    assert report["cause"] == "signal" and report["signal"] == code - 128 and report["exit_code"] is None


def test_41_no_ids_in_common(root_box):
    """Live sessions never share a range of ids."""
    if not ROOT:
        pytest.skip("id maps of other users' processes")
    lives = []
    try:
        for _ in range(8):
            live = root_box.start_attack("hold")
            lives.append(live)
            live.wait_output()
        ranges = []
        for live in lives:
            init = live.tree()["init"]
            for name in ("uid_map", "gid_map"):
                [(inside, outside, count)] = hostview.id_map(init, name)
                assert inside == 0 and count == 65536 and outside >= 65536
                if name == "uid_map":
                    ranges.append((outside, outside + count))
        ranges.sort()
        for (_, end), (start, _) in zip(ranges, ranges[1:]):
            assert end <= start, ranges
        # Nor with any account of the host, or any range given to one.
        taken = [int(line.split(":")[2]) for line in Path("/etc/passwd").read_text().splitlines()]
        assert not [uid for uid in taken for start, end in ranges if start <= uid < end]
        for line in Path("/etc/subuid").read_text().splitlines():
            first, count = map(int, line.split(":")[1:])
            assert not [r for r in ranges if r[0] < first + count and first < r[1]], line
    finally:
        for live in lives:
            with live:
                pass


def test_41_user_maps_only_its_own(user_box):
    """As a user: its own id, and ids of its own subordinate range."""
    if not ROOT:
        pytest.skip("reading the maps of an undumpable process takes root")
    with user_box.start_attack("hold") as live:
        live.wait_output()
        maps = hostview.id_map(live.tree()["init"])
    assert (1000, user_box.uid, 1) in maps
    subordinate = [tuple(map(int, line.split(":")[1:])) for line in Path("/etc/subuid").read_text().splitlines()
                   if line.split(":")[0] in (user_box.name, str(user_box.uid))]
    for inside, outside, count in maps:
        if (inside, outside, count) == (1000, user_box.uid, 1):
            continue
        assert any(first <= outside and outside + count <= first + size for first, size in subordinate), maps


# --- parts of boxd killed -------------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["spawner", "init", "launcher"])
def test_part_of_boxd_is_killed(box, victim):
    """kill -9 of the spawner, init or launcher: box says so and exits 125; nothing stays; the next
    run works."""
    mark = token()
    with box.start_attack("hold", "0", mark) as live:
        live.wait_output()
        tree = live.tree()
        os.kill(tree[victim], signal.SIGKILL)
        result = live.result(10 * SLOWNESS)
    if victim == "launcher":  # it may as well have been the command's own doing
        assert result.returncode in (125, 137), result
    else:
        assert result.returncode == 125, result
        assert result.err.splitlines()[-1].startswith("box: "), result
    assert hostview.wait_until(lambda: not any(hostview.alive(pid) for pid in tree.values()), 5 * SLOWNESS)
    assert gone(mark)
    box.run("--", "true").ok()


def test_part_of_boxd_is_killed_json(box):
    """The same for programs: an error object, no result."""
    with box.start_attack("hold", options=["--json"]) as live:
        assert hostview.wait_until(lambda: len(hostview.with_argument("hold")) >= 2, 10 * SLOWNESS)
        hostview.wait_until(lambda: hostview.children(live.pid), 5)
        time.sleep(0.3 * SLOWNESS)
        os.kill(live.tree()["init"], signal.SIGKILL)
        result = live.result(10 * SLOWNESS)
    assert result.returncode == 125, result
    assert result.json["error"]["code"] == "gone"


def test_box_is_killed(box):
    """kill -9 of box itself: everything it started ends with it."""
    mark = token()
    with box.start_attack("hold", "0", mark) as live:
        live.wait_output()
        tree = live.tree()
        os.kill(live.pid, signal.SIGKILL)
        live.process.wait(10)
        assert hostview.wait_until(lambda: not any(hostview.alive(pid) for pid in tree.values()), 5 * SLOWNESS), \
            {name: hostview.alive(pid) for name, pid in tree.items()}


def test_spawner_killed_then_time_out(box):
    """Without its spawner a session still cannot outlive its time-out."""
    mark = token()
    with box.start_attack("daemon", mark, options=["--timeout", "2"]) as live:
        live.wait_output()
        [spawner] = hostview.children(live.pid)
        os.kill(spawner, signal.SIGKILL)
        result = live.result(15 * SLOWNESS)
    assert result.returncode in (124, 125), result
    assert gone(mark), hostview.with_argument(mark)


def test_groups_of_a_killed_box_are_swept(root_box):
    """box and spawner killed together leave a cgroup behind; the next run removes it."""
    before = hostview.cgroup_dirs()
    with root_box.start_attack("hold") as live:
        live.wait_output()
        tree = live.tree()
        made = hostview.cgroup_dirs() - before
        assert made
        os.kill(tree["spawner"], signal.SIGSTOP)
        os.kill(live.pid, signal.SIGKILL)
        os.kill(tree["spawner"], signal.SIGKILL)
        live.process.wait(10)
    assert hostview.wait_until(lambda: not any(hostview.alive(pid) for pid in tree.values()), 5 * SLOWNESS)
    root_box.run("--", "true").ok()
    assert not made & hostview.cgroup_dirs()
