"""The sandbox as the host sees it: processes, mounts, cgroups, and what a machine has lying around."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

PROC = Path("/proc")


def wait_until(condition, seconds, pause=0.02):
    """Polls until the condition holds; its last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(pause)


# --- processes --------------------------------------------------------------------------------


def pids():
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def read(pid, name):
    """A file of /proc/PID as text; empty where the process is gone."""
    try:
        return (PROC / str(pid) / name).read_text(errors="replace")
    except OSError:
        return ""


def comm(pid):
    return read(pid, "comm").strip()


def cmdline(pid):
    return read(pid, "cmdline").split("\0")[:-1]


def link(pid, name):
    try:
        return os.readlink(PROC / str(pid) / name)
    except OSError:
        return ""


def exe(pid):
    return link(pid, "exe").removesuffix(" (deleted)")


def status(pid):
    """/proc/PID/status as a dictionary."""
    lines = (line.split(":", 1) for line in read(pid, "status").splitlines() if ":" in line)
    return {key: value.strip() for key, value in lines}


def parent(pid):
    return int(status(pid).get("PPid", 0))


def children(pid):
    return sorted(other for other in pids() if parent(other) == pid)


def alive(pid):
    return status(pid).get("State", "Z")[0] not in "ZX"


def is_init(pid):
    """box-init, or a launcher: the same program. Its file cannot be read by an ordinary user."""
    return cmdline(pid)[:1] == ["box-init"]


def with_argument(token):
    """Processes that have the token among their arguments, zombies aside."""
    return [pid for pid in pids() if token in cmdline(pid)]


def fds(pid):
    """{number: target} of a process's open files."""
    found = {}
    for name in os.listdir(PROC / str(pid) / "fd"):
        target = link(pid, f"fd/{name}")
        if target:
            found[int(name)] = target
    return found


def namespaces(pid):
    return {name: link(pid, f"ns/{name}") for name in os.listdir(PROC / str(pid) / "ns")}


def limits(pid):
    """{name: (soft, hard)} as text."""
    found = {}
    for line in read(pid, "limits").splitlines()[1:]:
        name, soft, hard = re.match(r"(.+?)\s{2,}(\S+)\s+(\S+)", line).groups()
        found[name.strip()] = (soft, hard)
    return found


def id_map(pid, name="uid_map"):
    """[(inside, outside, count)]"""
    return [tuple(map(int, line.split())) for line in read(pid, name).splitlines()]


# --- mounts -----------------------------------------------------------------------------------


class Mount:
    """A line of mountinfo."""

    def __init__(self, line):
        left, right = line.split(" - ", 1)
        fields = left.split()
        self.device, self.root, self.point = fields[2:5]
        self.flags = set(fields[5].split(","))
        self.optional = fields[6:]
        self.type, self.source, self.options = (right.split(" ") + [""])[:3]
        self.line = line

    def __repr__(self):
        return self.line


def mounts(pid="self"):
    return [Mount(line) for line in read(pid, "mountinfo").splitlines()]


# --- cgroups ----------------------------------------------------------------------------------


def cgroup_roots():
    return [Path(mount.point) for mount in mounts() if mount.type in ("cgroup", "cgroup2")]


def cgroup_dirs():
    """Every group that boxd made, in every hierarchy. Its names begin with "boxd" or hold a session's
    owner; the place for all of them, `boxd`, may stay."""
    found = set()
    for root in cgroup_roots():
        for path, directories, _ in os.walk(root):
            for name in directories:
                if "box" in name and name not in ("boxd", "boxtest"):
                    found.add(os.path.join(path, name))
    return found


def cgroup_of(pid):
    """{controllers: path} of a process."""
    lines = (line.split(":", 2) for line in read(pid, "cgroup").splitlines())
    return {controllers: path for _, controllers, path in lines}


# --- what lies around -------------------------------------------------------------------------


def command_lines(*command):
    if not shutil.which(command[0]):
        return set()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return set(done.stdout.splitlines())


def links():
    return set(os.listdir("/sys/class/net"))


def loop_devices():
    """Loop devices that have a file."""
    return {str(path.parent.parent.name) for path in Path("/sys/block").glob("loop*/loop/backing_file")}


def box_processes():
    """Processes of boxd: box, its spawner, its inits, and pasta with its keeper."""
    names = ("box", "box-spawner", "pasta", "pasta.avx2")
    return {pid for pid in pids() if (comm(pid) in names or is_init(pid)) and alive(pid)}


def ancestors(pid):
    while pid > 1:
        yield pid
        pid = parent(pid)


def files(*directories):
    found = set()
    for directory in directories:
        try:
            found |= {os.path.join(directory, name) for name in os.listdir(directory)}
        except FileNotFoundError:
            pass
    return found


def snapshot():
    """Everything a sandbox could leave behind, by kind."""
    return {
        "mounts": {f"{m.device} {m.root} {m.point} {m.type}" for m in mounts()},
        "cgroups": cgroup_dirs(),
        "links": links(),
        "nft tables": command_lines("nft", "list", "tables"),
        "loop devices": loop_devices(),
        "processes": box_processes(),
        "files": files("/run/boxd", "/tmp", "/var/tmp", "/dev/shm", "/run/netns"),
    }


def more_than(before, program):
    """What there is now and was not before, by kind, but for what belongs to a live box that is not
    the program under test: somebody else may be using this machine."""
    others = {pid for pid in box_processes() if exe(pid).endswith("/box") and exe(pid) != str(program)}
    now = snapshot()
    more = {kind: now[kind] - before[kind] for kind in now}
    more["processes"] = {pid for pid in more["processes"] if not others & set(ancestors(pid))}
    # Their names carry the pid of the spawner that made them: box.NAMESPACE.PID.START.NUMBER
    more["cgroups"] = {path for path in more["cgroups"]
                       if not others & {int(word) for word in re.findall(r"\.(\d+)", path)}}
    return {kind: found for kind, found in more.items() if found}
