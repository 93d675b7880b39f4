"""ABUSE cases 30 to 35: attacks on what there is only so much of.

Each looks at three things: that the attack is stopped, that the result says by what, and that a
neighbour and the host go on as before.
"""

import json
import os
import re
import shutil
import subprocess
import threading
import time

import pytest

import hostview
from conftest import PATIENCE, SLOWNESS, VM

MIB = 1 << 20


def count_of(result, label, name="count"):
    return int(re.search(rf"{name}=(\d+)", result.tries[label][1]).group(1))


class Neighbour:
    """Runs a small command in sandboxes of its own, over and over, while something else goes on."""

    def __init__(self, box):
        self.box = box
        self.times = []
        self.failures = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._work)

    def _work(self):
        while not self.stopping.is_set():
            started = time.monotonic()
            result = self.box.run("--", "true")
            if result.returncode != 0:
                self.failures.append(str(result))
            self.times.append(time.monotonic() - started)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.stopping.set()
        self.thread.join()
        assert not self.failures, self.failures[0]
        assert len(self.times) >= 3, "the neighbour hardly ran"
        # Not a measurement: a machine that is being taken over does not answer for minutes.
        assert max(self.times) < 10 * SLOWNESS, max(self.times)


# --- 30: processes ----------------------------------------------------------------------------


def test_30_processes_are_capped(box):
    """As many as asked for, then EAGAIN, and the result says why."""
    box.need_limits()
    result = box.attack("fork-count", options=["--json", "--pids", "32"])
    assert result.status("fork") == "EAGAIN"
    assert 20 <= count_of(result, "fork") <= 32
    assert result.cause == "pids_limit"
    assert result.returncode == result.json["exit_code"] == 1


def test_30_threads_count_too(box):
    """python's threads, not only processes."""
    box.need_limits()
    script = ("import threading, time\n"
              "n = 0\n"
              "try:\n"
              "    while n < 500:\n"
              "        threading.Thread(target=time.sleep, args=(30,), daemon=True).start(); n += 1\n"
              "except RuntimeError:\n"
              "    pass\n"
              "print(n, flush=True)\n"
              "import os; os._exit(4)\n")
    result = box.run("--json", "--pids", "24", "--", "python3", "-c", script)
    assert 10 <= int(result.json["stdout"]) <= 24, result
    assert result.cause == "pids_limit"


def test_30_default_cap(box):
    """There is one even when nobody asks: a cgroup's, or an rlimit where there is none."""
    result = box.attack("fork-count", "2000", options=["--json"])
    assert result.status("fork") == "EAGAIN"
    assert count_of(result, "fork") <= 256


def test_30_fork_bomb(box):
    """The real one, deaf to signals: ended by its time-out, all of it, and a neighbour works."""
    options = ["--json", "--timeout", "3"]
    with Neighbour(box):
        result = box.attack("fork-bomb", options=options)
    assert result.returncode == 124
    assert result.cause in ("timeout", "pids_limit")
    assert result.json["status"] == "timed_out"
    left = [pid for pid in hostview.pids() if hostview.cmdline(pid)[:2] == ["/attack/attack", "fork-bomb"]]
    assert not left, f"{len(left)} are left"


# --- 31, 32: memory -----------------------------------------------------------------------------


def test_31_memory_bomb(box):
    """Killed at its limit; cause `oom`; the host does not notice."""
    box.need_limits()
    with Neighbour(box):
        for _ in range(3):
            result = box.attack("memory-bomb", options=["--json", "--memory", "64M"])
            assert result.returncode == 137, result
            assert result.cause == "oom"
            assert result.json["peak_memory_bytes"] <= 64 * MIB
            assert result.json["peak_memory_bytes"] > 32 * MIB


def test_31_memory_bomb_in_a_child(box):
    """One child is over the limit: the whole tree of the command goes, not one process of it."""
    box.need_limits()
    result = box.attack("memory-bomb", "tree", options=["--json", "--memory", "64M", "--timeout", "30"])
    assert result.cause == "oom", result
    assert result.json["status"] == "completed"
    assert result.elapsed < 20 * SLOWNESS


def test_31_message_for_people(box):
    box.need_limits()
    result = box.attack("memory-bomb", options=["--memory", "32M"])
    assert result.returncode == 137
    assert re.search(r"box: out of memory.*32M", result.err), result


def test_31_memory_without_a_cgroup(user_box):
    """Where there is only an rlimit, one process cannot take more than it says."""
    notes = user_box.run("--json", "--", "true").json["isolation"]
    if notes["limits"]["memory"]["by"] != "rlimit":
        pytest.skip("this user has a cgroup: the other tests of case 31 apply")
    result = user_box.attack("memory-bomb", options=["--json"], timeout=PATIENCE)
    assert result.json["exit_code"] == 5 and result.status("mmap") == "ENOMEM", result
    assert notes["notes"], "a weaker rung must be told"


@pytest.mark.parametrize("place", ["/tmp/x", "/dev/shm/x", "/home/box/x", "/workspace/x", "memfd"])
def test_32_memory_files_are_charged(box, place):
    """Files in memory count as memory: filling them ends the command, not the machine."""
    box.need_limits()
    attack = ["fill-memfd"] if place == "memfd" else ["fill", place]
    result = box.attack(*attack, options=["--json", "--memory", "48M", "--tmp-size", "1G"])
    assert result.cause == "oom", result
    assert result.returncode == 137


@pytest.mark.parametrize("kind", ["sysv", "sockets", "pipes", "queues"])
def test_32_memory_of_the_kernel_is_charged(box, kind):
    """Buffers of sockets and pipes, System V segments and queues: charged, or bounded by themselves."""
    box.need_limits()
    result = box.attack("fill-kernel", kind, str(512 * MIB), options=["--json", "--memory", "64M"])
    if result.cause != "oom":
        assert count_of(result, "held", "bytes") < 64 * MIB, result


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/home/box", "/workspace"])
def test_32_memory_files_are_bounded(box, place):
    """Each place has a size and a number of files of its own."""
    result = box.attack("fill", f"{place}/x", options=["--json", "--tmp-size", "4M"])
    assert result.status("write") == "ENOSPC"
    assert count_of(result, "write", "bytes") <= 4 * MIB
    assert result.cause == "disk_quota"
    result = box.attack("fill-inodes", place, "100000", options=["--json"])
    assert result.status("create") == "ENOSPC"
    assert count_of(result, "create") < 70000
    assert result.cause == "disk_quota"


def test_32_the_rest_cannot_be_filled(box):
    """The root, /dev, /etc, /run: read-only."""
    for place in ("/x", "/dev/x", "/etc/x", "/run/x", "/var/x", "/usr/x", "/home/x", "/proc/x"):
        result = box.attack("fill", place, "1000")
        assert result.status("open") in ("EROFS", "EACCES", "ENOENT"), f"{place}: {result}"


@pytest.mark.parametrize("place", ["/x", "/usr/x", "/usr/local/lib/x", "/etc/x", "/var/x"])
def test_32_writable_root_is_bounded(box, place):
    """--writable is as large as --tmp-size says, and memory like everything else in memory."""
    result = box.attack("fill", place, options=["--json", "--writable", "--tmp-size", "4M"])
    if not box.root and result.tries.get("open", [None])[0] == "EACCES":
        pytest.skip(f"{place}: directories of the host's root stay root's for an ordinary user")
    assert result.status("write") == "ENOSPC", result
    assert count_of(result, "write", "bytes") <= 4 * MIB
    assert result.cause == "disk_quota"


# --- 33: the workspace --------------------------------------------------------------------------


def test_33_workspace_by_bytes(root_box):
    """ENOSPC inside, cause `disk_quota`; the host's disk does not fill beyond it."""
    before = shutil.disk_usage("/var/tmp").used
    result = root_box.attack("fill", "/workspace/x", options=["--json", "--workspace-quota", "16M"])
    assert result.status("write") in ("ENOSPC", "EDQUOT")
    assert 12 * MIB <= count_of(result, "write", "bytes") <= 17 * MIB
    assert result.cause == "disk_quota"
    assert shutil.disk_usage("/var/tmp").used - before < 200 * MIB
    # Full is not broken: what was written can be read, and deleting makes room.
    script = ("head -c 100000000 /dev/zero > /workspace/a 2>/dev/null; ls /workspace/a && rm /workspace/a && "
              "echo again > /workspace/b && cat /workspace/b")
    assert root_box.run("--workspace-quota", "16M", "--", "sh", "-c", script).ok().out.endswith("again\n")


def test_33_workspace_by_inodes(root_box):
    result = root_box.attack("fill-inodes", "/workspace", "20000",
                             options=["--json", "--workspace-quota", "16M,500"])
    assert result.status("create") in ("ENOSPC", "EDQUOT")
    assert 500 <= count_of(result, "create") <= 1100
    assert result.cause == "disk_quota"


def test_33_workspace_by_directories_and_links(root_box):
    """Directories and links are inodes as well."""
    script = "i=0; while mkdir d$i && ln -s x l$i; do i=$((i+1)); done; echo $i; exit 1"
    result = root_box.run("--json", "--workspace-quota", "4M,200", "--", "sh", "-c", script)
    assert int(result.json["stdout"]) <= 500, result
    assert result.cause == "disk_quota"


def test_33_quota_for_an_ordinary_user(user_box):
    """Refused with the reason and what to do, rather than left out."""
    result = user_box.run("--workspace-quota", "16M", "--", "true").failed()
    assert "ordinary user" in result.err and "leave the quota out" in result.err


def test_33_quota_on_a_mounted_directory(root_box):
    """A project quota where the file system has them, else a refusal: never no quota at all."""
    directory = root_box.directory()
    result = root_box.attack("fill", "/workspace/x", str(64 * MIB),
                             options=["--json", "--mount", f"{directory}:/workspace", "--workspace-quota", "8M"])
    if result.returncode == 125:
        assert "quota" in result.json["error"]["message"]
        assert result.json["error"].get("hint")
        assert not list(directory.iterdir())
    else:
        assert result.status("write") in ("ENOSPC", "EDQUOT")
        assert result.cause == "disk_quota"


# --- 34, 35: descriptors and output -------------------------------------------------------------


def test_34_every_descriptor(box):
    """EMFILE inside, at the soft limit and at the hard one; box is unaffected."""
    result = box.attack("open-files").ok()
    assert result.status("soft") == result.status("hard") == "EMFILE"
    assert count_of(result, "soft") <= 4096
    assert count_of(result, "hard") <= 65536
    assert result.status("raise") == "EPERM"


def test_35_endless_output_as_json(box):
    """Bounded memory in box, a flag that says it was clipped, and the true number of bytes."""
    path = box.base / f"output-{box.identity}"
    peak = 0
    with open(path, "wb") as output:
        with box.start_attack("output", options=["--json", "--timeout", "3"], stdout=output) as live:
            while live.process.poll() is None:
                peak = max(peak, int(hostview.status(live.pid).get("VmHWM", "0 kB").split()[0]))
                time.sleep(0.05)
                assert live.running() < 20 * SLOWNESS
            assert live.process.returncode == 124
    report = json.loads(path.read_bytes())
    assert report["stdout_clipped"] is True
    assert len(report["stdout"]) <= 2 * MIB
    assert report["stdout_bytes"] > 4 * MIB / SLOWNESS
    assert 0 < peak < 32 * 1024, f"box took {peak} KiB"


@pytest.mark.parametrize("size", [0, 1, 65536, 1 << 20, (1 << 20) + 1, 50 << 20])
def test_35_bytes_are_counted(box, size):
    """Whatever was clipped, the count is exact."""
    report = box.attack("output", str(size), options=["--json"]).ok().json
    assert report["stdout_bytes"] == size
    assert report["stdout_clipped"] == (size > len(report["stdout"]))
    assert report["stderr_bytes"] == 0 and report["stderr_clipped"] is False


def test_35_output_that_nobody_reads(box):
    """A reader that stops reading stops the command, not box's memory; the time-out still holds."""
    with box.start_attack("output", options=["--timeout", "2"]) as live:
        time.sleep(1)
        status = hostview.status(live.pid)
        assert int(status["VmRSS"].split()[0]) < 32 * 1024, status["VmRSS"]
        deadline = time.monotonic() + 15 * SLOWNESS
        while live.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert live.process.poll() == 124


def test_35_reader_that_leaves(box):
    """`box run -- yes | head`: ends, like any pipeline."""
    read, write = os.pipe()
    process = box.popen(["run", "--", "yes"], stdout=write)
    os.close(write)
    assert os.read(read, 4) == b"y\ny\n"
    os.close(read)
    process.stderr.close()
    assert process.wait(20 * SLOWNESS) != 0


# --- refusal --------------------------------------------------------------------------------------


def test_limits_are_enforced_or_refused(box):
    """A limit that was asked for is held, or it is an error that says why and what helps."""
    for option, value in (("--memory", "64M"), ("--pids", "32"), ("--cpus", "0.5")):
        result = box.run("--json", option, value, "--", "true")
        if result.returncode == 0:
            limits = result.json["isolation"]["limits"]
            assert limits[option.strip("-").replace("cpus", "cpus")]["by"] == "cgroup"
            continue
        assert not box.root and not VM, result
        error = result.json["error"]
        assert result.returncode == 125 and error["code"] == "unsupported"
        assert option in error["message"] and error["hint"]


def test_defaults_without_cgroup_are_told(user_box):
    """Where only defaults are in play: it runs, says so in a line, reports it; --strict refuses."""
    report = user_box.run("--json", "--", "true").ok().json
    if report["isolation"]["cgroup"] != "none":
        pytest.skip("this user has a cgroup: nothing weaker to tell")
    assert report["isolation"]["notes"]
    told = user_box.run("--", "true").ok()
    assert told.err.startswith("box: note: ") and told.err.count("\n") == 1
    assert user_box.run("--quiet", "--", "true").ok().err == ""
    refused = user_box.run("--strict", "--", "true").failed()
    assert "cgroup" in refused.err


def test_cpu_is_limited(box):
    """A busy loop on a tenth of a CPU gets about that."""
    box.need_limits()
    script = "import time; t = time.monotonic()\nwhile time.monotonic() - t < 2: pass"
    report = box.run("--json", "--cpus", "0.1", "--", "python3", "-c", script).ok().json
    assert report["cpu_ms"] < 0.5 * report["duration_ms"], report
