"""The posture of a live sandbox, read from the host and compared with what is written down here.

Every list is complete: a descriptor, a mount, a limit, a process or a flag that is not named below
is a failure, until somebody has thought about it and named it.
"""

import os
import pty
import re
import select
from pathlib import Path

import pytest

import hostview
from conftest import PATIENCE, ROOT, Live

INSIDE = ["init", "launcher", "command"]
NAMESPACES = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}


@pytest.fixture
def live(box):
    """A session with one command of four threads, and the processes by name."""
    if not ROOT:
        pytest.skip("another process's /proc/PID can only be read in full by root")
    # As untidy a caller as there may be: an open directory, a limit, a variable, an ignored signal.
    secret = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(secret, True)
    with box.start_attack("hold", "3", env={"SECRET": "x"}, pass_fds=[secret]) as live:
        os.close(secret)
        live.wait_output()
        live.processes = live.tree()
        live.box = box
        yield live


def each(live, names=INSIDE):
    for name in names:
        pid = live.processes[name]
        for thread in os.listdir(f"/proc/{pid}/task"):
            yield f"{name}/{thread}", f"{pid}/task/{thread}"


def test_process_tree(live):
    """box, its spawner, init, the launcher, the command: nobody else."""
    tree = live.processes
    assert hostview.comm(tree["box"]) == "box"
    assert hostview.comm(tree["spawner"]) == "box-spawner"
    assert hostview.exe(tree["spawner"]) == hostview.exe(tree["box"])
    for name in ("init", "launcher"):
        assert hostview.exe(tree[name]).startswith("/memfd:box-init"), name
        assert hostview.is_init(tree[name])
    assert hostview.cmdline(tree["command"]) == ["/attack/attack", "hold", "3"]
    inside = hostview.namespaces(tree["init"])["pid"]
    members = {pid for pid in hostview.pids() if hostview.link(pid, "ns/pid") == inside}
    assert members == {tree[name] for name in INSIDE}
    # PID 1, and a launcher that is its child.
    assert hostview.status(tree["init"])["NSpid"].split()[-1] == "1"
    assert [len(os.listdir(f"/proc/{tree[name]}/task")) for name in INSIDE] == [1, 1, 4]


def test_credentials(live):
    """One user inside, which is nobody's outside; as a user, one's own."""
    box = live.box
    maps = hostview.id_map(live.processes["init"])
    outside = [out + 1000 - inside for inside, out, count in maps if inside <= 1000 < inside + count]
    assert len(outside) == 1
    base = outside[0]
    if box.root:
        assert base >= 1 << 16, "ids of a session are no ids of the host"
    else:
        assert base == box.uid
    for name, path in each(live):
        status = hostview.status(path)
        assert set(status["Uid"].split()) == {str(base)}, name
        groups = set(status["Gid"].split())
        assert groups == {str(base if box.root else box.gid)}, name
        assert status["Groups"] == "", name


def test_privilege(live):
    """No capability in any of the five sets, no way to new ones, a filter on what the caller runs."""
    filters = {"init": "0", "launcher": "1", "command": "1"}
    # The host may have its tests run under filters of its own.
    outer = int(hostview.status("self").get("Seccomp_filters", 0))
    for name, path in each(live):
        status = hostview.status(path)
        for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[caps], 16) == 0, f"{name} {caps}"
        assert status["NoNewPrivs"] == "1", name
        own = int(filters[name.split("/")[0]])
        assert int(status["Seccomp_filters"]) == own + outer, name
        assert status["Seccomp"] == ("2" if own + outer else "0"), name


def test_namespaces(live):
    """None of the host's, and the same for all three; time is the host's and cannot be set."""
    host = hostview.namespaces(os.getpid())
    first = hostview.namespaces(live.processes["init"])
    for name, path in each(live):
        own = {key: value for key, value in hostview.namespaces(path).items() if value}
        for kind in NAMESPACES:
            assert own[kind] != host[kind], f"{name}: the host's {kind} namespace"
            assert own[kind] == first[kind], f"{name}: another {kind} namespace"
        unknown = set(own) - NAMESPACES - {"pid_for_children", "time", "time_for_children"}
        assert not unknown, f"{name}: {unknown}"
        assert own["pid_for_children"] == own["pid"], name


def expected_fds(live):
    """Which descriptors a process may have: number (None: any) and what it leads to."""
    socket, pipe, null = r"socket:\[\d+\]", r"pipe:\[\d+\]", r"/dev/null"
    init = [
        (0, null), (1, null), (2, null),
        (3, socket),                               # control
        (None, r"anon_inode:\[signalfd\]"),        # children
        (None, r"anon_inode:seccomp notify"),      # denied calls of the lane
    ]
    if live.box.root:
        init.append((5, r"/run/boxd/idranges\.\d+"))    # keeps the id range taken
    return {
        "init": init,
        "launcher": [(0, null), (1, null), (2, null), (3, socket)],
        "command": [(0, null), (1, pipe), (2, pipe)],
    }


@pytest.mark.parametrize("name", INSIDE)
def test_descriptors(live, name):
    """Exactly the descriptors that each needs: nothing of the caller's, of the host's, of a neighbour."""
    left = list(expected_fds(live)[name])
    for number, target in sorted(hostview.fds(live.processes[name]).items()):
        for entry in left:
            if entry[0] in (None, number) and re.fullmatch(entry[1], target):
                left.remove(entry)
                break
        else:
            pytest.fail(f"{name} has {number} → {target}, which nobody allowed")
    assert not left, f"{name} lacks {left}"


def test_descriptors_with_a_terminal(box):
    """With -t the command has its terminal three times, and nobody inside keeps the other end."""
    if not ROOT:
        pytest.skip("another process's /proc/PID can only be read in full by root")
    master, slave = pty.openpty()
    args = ["run", "-t", *box.with_helper, "--", "/attack/attack", "hold"]
    try:
        with Live(box.popen(args, stdin=slave, stdout=slave, stderr=slave), args) as live:
            os.close(slave)
            seen = b""
            while b"READY" not in seen:
                assert select.select([master], [], [], PATIENCE)[0], seen
                seen += os.read(master, 4096)
            tree = live.tree()
            assert hostview.fds(tree["command"]) == {0: "/dev/pts/0", 1: "/dev/pts/0", 2: "/dev/pts/0"}
            launcher = hostview.fds(tree["launcher"])
            assert sorted(launcher) == [0, 1, 2, 3] and set(launcher.values()) >= {"/dev/null"}, launcher
            for target in hostview.fds(tree["init"]).values():
                assert "/pts" not in target and "ptmx" not in target, target
            # Its controlling terminal is that one, and no terminal of the host's.
            fields = hostview.read(tree["command"], "stat").rsplit(")", 1)[1].split()
            assert int(fields[4]) != 0 and int(fields[3]) == tree["command"]
            assert os.stat(f"/proc/{tree['command']}/fd/0").st_dev != os.fstat(master).st_dev
    finally:
        os.close(master)


def test_descriptors_of_host_side(live):
    """The spawner holds nothing of a session but its network namespace. (The caller's own stray
    descriptor, "/", is the caller's business: it goes no further.)"""
    allowed = {
        r"socket:\[\d+\]", r"/dev/null", r"anon_inode:\[signalfd\]", r"net:\[\d+\]", r"mnt:\[\d+\]",
        r"/memfd:.*", r"/sys/fs/cgroup(/.*)?", r"/", r"anon_inode:\[eventfd\]",
        r"anon_inode:\[eventpoll\]",
    }
    for number, target in hostview.fds(live.processes["spawner"]).items():
        assert any(re.fullmatch(pattern, target) for pattern in allowed), f"{number} → {target}"


def test_limits(live):
    """Resource limits are the sandbox's, or the caller's where those are tighter."""
    outer = hostview.limits(os.getpid())

    def tightest(name, soft, hard):
        number = lambda text: float("inf") if text == "unlimited" else int(text)
        outer_hard = number(outer[name][1])
        return tuple(min(value, outer_hard) for value in (soft, hard))

    expected = {
        "Max core file size": (1, 1),  # no file, and no handler that cores are piped to
        "Max open files": tightest("Max open files", 4096, 65536),
        "Max pending signals": tightest("Max pending signals", 1024, 1024),
        "Max msgqueue size": tightest("Max msgqueue size", 819200, 819200),
    }
    limited = live.box.root or hostview.cgroup_of(live.processes["init"]) != hostview.cgroup_of(live.pid)
    if not limited:
        expected["Max processes"] = (256, 256)
        expected["Max data size"] = (1 << 30, 1 << 30)
    for name in INSIDE:
        for limit, (soft, hard) in hostview.limits(live.processes[name]).items():
            if limit in expected:
                assert (int(soft), int(hard)) == expected[limit], f"{name}: {limit}"
            else:
                wanted = hostview.limits(live.pid)[limit]
                assert (soft, hard) == wanted, f"{name}: {limit}"


def test_cgroup(live):
    """In a group of the session's own, all of them; what they see of it is its root."""
    own = hostview.cgroup_of(live.pid)
    groups = [hostview.cgroup_of(live.processes[name]) for name in INSIDE]
    # The command's and its launcher's; init has one of its own beside it where killing a lane must spare it.
    assert groups[1] == groups[2]
    session = [{key: path.rsplit("/", 1)[0] if path.endswith(("/c0", "/init")) else path
                for key, path in group.items()} for group in groups]
    assert session[0] == session[1]
    moved = {key for key in own if own[key] != groups[0].get(key)}
    if not moved and not live.box.root:
        pytest.skip("this user has no cgroup here; rlimits are checked instead")
    for key in moved:
        assert "box" in groups[0][key]
    held = {part for key in moved for part in key.split(",")}
    assert "" in held or {"memory", "pids", "cpu"} <= held, f"limits only in {held}"


def expected_mounts(box):
    """Mount point → (type, flags it must have). `bind`: whatever file system the host has there."""
    fresh = {"nosuid", "nodev"}
    device = {"nosuid", "noexec"}
    wanted = {
        "/": ("tmpfs", fresh | {"ro"}),
        "/dev": ("tmpfs", fresh | {"ro"}),
        "/dev/pts": ("devpts", {"nosuid", "noexec", "rw"}),
        "/dev/shm": ("tmpfs", fresh | {"rw"}),
        "/proc": ("proc", {"nosuid", "noexec", "rw"}),
        "/tmp": ("tmpfs", fresh | {"rw"}),
        "/home/box": ("tmpfs", fresh | {"rw"}),
        "/workspace": ("tmpfs", fresh | {"rw"}),
        "/attack": ("bind", fresh | {"ro"}),
    }
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        wanted[f"/dev/{name}"] = ("bind", device | {"rw"})
    for name in ("bus", "fs", "irq", "sys"):
        wanted[f"/proc/{name}"] = ("proc", {"nosuid", "noexec", "ro"})
    for name in ("interrupts", "kallsyms", "kcore", "keys", "latency_stats", "sched_debug",
                 "sysrq-trigger", "timer_list", "timer_stats"):
        wanted[f"/proc/{name}"] = ("bind", {"nosuid", "nodev", "noexec", "ro"})
    for name in ("acpi", "asound", "scsi"):
        wanted[f"/proc/{name}"] = ("tmpfs", fresh | {"ro", "noexec"})
    wanted = {point: entry for point, entry in wanted.items()
              if not point.startswith("/proc/") or Path(point).exists()}
    for name in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if Path(name).is_dir() and not Path(name).is_symlink():
            wanted[name] = ("bind", fresh | {"ro"})
    etc = ["alternatives", "fonts", "ld.so.cache", "localtime", "pki", "protocols", "services", "ssl"]
    etc += [f"java-{version}-openjdk" for version in (11, 17, 21, 25)]
    for name in etc:
        if Path("/etc", name).exists():
            wanted[f"/etc/{name}"] = ("bind", fresh | {"ro"})
    # What the host has mounted below those comes along, restricted as they are.
    trees = [point for point, entry in wanted.items() if entry[0] == "bind"]
    for mount in hostview.mounts():
        if any(mount.point.startswith(tree + "/") for tree in trees if tree.startswith("/usr")):
            wanted[mount.point] = ("bind", fresh | {"ro"})
    return wanted


@pytest.mark.parametrize("name", INSIDE)
def test_mounts(live, name):
    """The whole mount table: what is there, how, and nothing else."""
    wanted = expected_mounts(live.box)
    seen = {}
    for mount in hostview.mounts(live.processes[name]):
        # /tmp is a directory of the memory file system that all scratch places share, and covers it.
        if mount.point == "/tmp" and "/tmp" in seen:
            assert seen["/tmp"].root == "/" and mount.root == "/tmp" and mount.device == seen["/tmp"].device, mount
        else:
            assert mount.point not in seen, f"mounted twice: {mount}"
        seen[mount.point] = mount
        assert mount.point in wanted, f"nobody allowed {mount}"
        kind, flags = wanted[mount.point]
        assert kind == "bind" or mount.type == kind, mount
        assert flags <= mount.flags, f"{flags - mount.flags} is missing: {mount}"
        assert not [word for word in mount.optional if word.startswith(("shared", "master"))], mount
    assert not set(wanted) - set(seen), f"missing: {set(wanted) - set(seen)}"


def test_dumpable(live):
    """Nobody inside can look into init or the launcher: their /proc belongs to root, here and there."""
    for name in ("init", "launcher"):
        owner = os.stat(f"/proc/{live.processes[name]}/mem").st_uid
        assert owner != int(hostview.status(live.processes[name])["Uid"].split()[0]), name


def test_oom_score(live):
    """Never spared before others; no lower than the caller's."""
    own = int(hostview.read(live.pid, "oom_score_adj"))
    for name in INSIDE:
        score = int(hostview.read(live.processes[name], "oom_score_adj"))
        assert score >= 0 or score >= own, f"{name}: {score}"
        assert score >= 0 or own < 0


def test_environment(live):
    """init and launcher have none; the command has the sandbox's, not the caller's."""
    for name in ("init", "launcher"):
        assert hostview.read(live.processes[name], "environ") == "", name
    variables = hostview.read(live.processes["command"], "environ").split("\0")[:-1]
    assert sorted(variables) == [
        "HOME=/home/box",
        "LANG=C.UTF-8",
        "LOGNAME=box",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "USER=box",
    ]


def test_directories(live):
    """Working directory and root lie inside, and the root is the sandbox's own."""
    root = os.stat("/")
    for name in INSIDE:
        pid = live.processes[name]
        own = os.stat(f"/proc/{pid}/root")
        assert (own.st_dev, own.st_ino) != (root.st_dev, root.st_ino), name
        assert hostview.link(pid, "root") == "/"
        expected = {"init": "/", "launcher": "/workspace", "command": "/workspace"}
        assert hostview.link(pid, "cwd") == expected[name]


def test_sessions_and_terminals(live):
    """No controlling terminal, and a session and process group of its own each."""
    for name in INSIDE:
        fields = hostview.read(live.processes[name], "stat").rsplit(")", 1)[1].split()
        group, session, terminal = map(int, fields[2:5])
        assert terminal == 0, name
        if name != "launcher":
            assert session == group == live.processes[name], name
        assert session != os.getsid(live.pid), name


def test_signals(live):
    """The command starts with nothing blocked and nothing ignored, whatever box itself does."""
    status = hostview.status(live.processes["command"])
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) == 0
