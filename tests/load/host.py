# SPDX-License-Identifier: Apache-2.0
"""What one daemon has on this machine, as the host sees it, and what of it is more than before.

Everything is found by marks that only this daemon's things have, because somebody else may be using
the machine: control groups carry the identity of its directory in their names, processes are in those
groups or run its copy of the program.
"""

import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "integration"))

from hostview import alive, children, exe, fds, loop_devices, mounts, pids, read, status, wait_until  # noqa: E402, F401

READY_GROUPS = 2 * 8  # of sessions that ended: kept for the next, and waiting to be removed
READY_SESSIONS = 1    # made ahead, for the next who asks: an init and its launcher, without a record
READY_SESSION_FDS = 8  # of the front, for those


def exists(pid):
    return os.path.exists(f"/proc/{pid}") and alive(pid)


def keeper(daemon):
    """How the names of its groups begin: by the identity of the directory that its sessions listen in."""
    try:
        st = os.stat(daemon.inside(daemon.run / "inits"))
        daemon.keeper = f"kept.{st.st_dev & 0xffffffff:x}{st.st_ino & 0xffffffff:08x}."
    except FileNotFoundError:
        pass
    return daemon.keeper


# --- control groups ---


def group_roots():
    return sorted({m.point for m in mounts() if m.type in ("cgroup", "cgroup2")})


def groups(daemon):
    """Its sessions' groups, in every hierarchy: full paths."""
    mark = keeper(daemon)
    found = []
    for root in group_roots() if mark else ():
        for path, directories, _ in os.walk(root):
            own = [name for name in directories if name.startswith(mark)]
            found += [os.path.join(path, name) for name in own]
            directories[:] = [name for name in directories if not name.startswith(("kept.", "box."))]
    return sorted(found)


def group_names(daemon):
    return {os.path.basename(path) for path in groups(daemon)}


def members(path):
    """Processes of a group and of those below it."""
    found = set()
    for below, _, names in os.walk(path):
        if "cgroup.procs" in names:
            try:
                found |= set(map(int, Path(below, "cgroup.procs").read_text().split()))
            except OSError:
                pass
    return found


def ready_groups(daemon):
    """Names of the groups whose sessions were made ahead. More of them than there may be, or with more
    than a session has before its first command, are none."""
    recorded = {record["record"]["group"] for record in daemon.records().values() if record and record.get("record")}
    found = {}
    for path in groups(daemon):
        inside = members(path)
        if os.path.basename(path) not in recorded and inside:
            found.setdefault(os.path.basename(path), set()).update(read(pid, "comm").strip() for pid in inside)
    ready = {name for name, what in found.items() if what <= {"box-init", "box-launcher", "box-spawner", ""}}
    return ready if len(ready) <= READY_SESSIONS else set()


def recorded_sockets(daemon):
    """Under which name each recorded session listens: that of its record, unless it was made ahead."""
    return {(record or {}).get("record", {}).get("key", key) if record else key
            for key, record in daemon.records().items()}


def remove_group(path):
    """With everything in it; for clearing up after a failure."""
    for _ in range(50):
        for pid in members(path):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        for below, directories, _ in os.walk(path, topdown=False):
            try:
                os.rmdir(below)
            except OSError:
                pass
        if not os.path.exists(path):
            return
        time.sleep(0.02)


# --- processes ---


def own_processes(daemon):
    """{pid: what it is}: the daemon's, and those in its sessions' groups. Zombies aside."""
    mark = keeper(daemon)
    own = str(daemon.binary)
    found = {}
    for pid in pids():
        group = next((line for line in read(pid, "cgroup").splitlines() if mark and mark in line), None)
        if group:
            name = group.split(mark, 1)[1].split("/")[0]
            if alive(pid):
                found[pid] = f"{read(pid, 'comm').strip()} of group {mark}{name}"
        elif exe(pid) == own and alive(pid):
            found[pid] = f"{read(pid, 'comm').strip()} (its program)"
    return found


def is_pid_1(pid):
    return status(pid).get("NSpid", "").split()[-1:] == ["1"]


def rss(pid):
    """In KiB."""
    return int(status(pid).get("VmRSS", "0 kB").split()[0])


def anonymous(pid):
    return int(status(pid).get("RssAnon", "0 kB").split()[0])


def pss(pid):
    for line in read(pid, "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def switches(pid):
    """How often it has been scheduled."""
    found = status(pid)
    return int(found.get("voluntary_ctxt_switches", 0)) + int(found.get("nonvoluntary_ctxt_switches", 0))


def meminfo():
    """/proc/meminfo, in KiB."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {fields[0].rstrip(":"): int(fields[1]) for fields in lines}


# --- the whole ---


def tree(directory):
    found = set()
    for path, directories, names in os.walk(directory):
        found |= {os.path.relpath(os.path.join(path, name), directory) for name in names}
    return found


class Picture:
    """Everything a daemon has, by kind."""

    def __init__(self, daemon):
        self.front_fds = fds(daemon.front)
        self.spawner_fds = fds(daemon.spawner)
        self.front_rss = rss(daemon.front)
        self.spawner_rss = rss(daemon.spawner)
        self.mounts = {f"{m.device} {m.root} {m.point} {m.type}" for m in mounts()}
        self.spawner_mounts = len(mounts(daemon.spawner))
        ready = ready_groups(daemon)
        self.groups = [path for path in groups(daemon) if os.path.basename(path) not in ready]
        self.processes = {pid: what for pid, what in own_processes(daemon).items()
                          if what.rsplit(" ", 1)[-1] not in ready}
        self.sockets = set(daemon.sockets())
        others = self.sockets - recorded_sockets(daemon)
        if len(others) <= len(ready):
            self.sockets -= others
        self.records = set(daemon.record_files())
        self.state = {name for name in tree(daemon.state) if not name.startswith("audit")}
        self.loops = loop_devices()

    def summary(self):
        return (f"front {self.front_rss} KiB, {len(self.front_fds)} fds; spawner {self.spawner_rss} KiB, "
                f"{len(self.spawner_fds)} fds; {len(self.processes)} processes, {len(self.groups)} groups, "
                f"{len(self.sockets)} sockets, {len(self.records)} records, {self.spawner_mounts} mounts in the "
                f"spawner's namespace")


def more_fds(kind, before, after):
    """By what they lead to: numbers are used again."""
    def count(table):
        tally = {}
        for target in table.values():
            name = target.split(":")[0] if ":[" in target else target
            tally[name] = tally.get(name, 0) + 1
        return tally

    if len(after) <= len(before):
        return []
    old, new = count(before), count(after)
    grown = {name: f"{old.get(name, 0)} → {number}" for name, number in new.items() if number > old.get(name, 0)}
    return [f"fds of the {kind}: {len(before)} → {len(after)}, more of {grown}"]


def differences(before, after, front_kib, spawner_kib):
    """What there is now and was not before, a sentence each. The groups and namespaces that the
    spawner keeps ready are bounded, and not counted as long as they are empty."""
    found = more_fds("front", before.front_fds, after.front_fds)
    found += more_fds("spawner", before.spawner_fds, after.spawner_fds)
    for kind, old, new, most in (("front", before.front_rss, after.front_rss, front_kib),
                                 ("spawner", before.spawner_rss, after.spawner_rss, spawner_kib)):
        if new - old > most:
            found.append(f"RSS of the {kind}: {old} → {new} KiB, more than {most} KiB of growth")
    for kind in ("mounts", "sockets", "records", "state", "loops"):
        more = getattr(after, kind) - getattr(before, kind)
        if more:
            found.append(f"{kind}: {sorted(more)[:10]}")
    if after.spawner_mounts > before.spawner_mounts:
        found.append(f"mounts of the spawner: {before.spawner_mounts} → {after.spawner_mounts}")
    more = {pid: what for pid, what in after.processes.items() if pid not in before.processes}
    if more:
        found.append(f"processes: {dict(list(more.items())[:10])}")
    busy = [path for path in after.groups if members(path)]
    names = {os.path.basename(path) for path in after.groups}
    if busy:
        found.append(f"groups with processes: {busy[:5]}")
    if len(names) > READY_GROUPS:
        found.append(f"groups: {len(names)} are kept, not at most {READY_GROUPS}: {sorted(names)[:5]}")
    return found


def settled(daemon, before, front_kib, spawner_kib, seconds=10):
    """The differences that remain after a moment, and the last picture."""
    deadline = time.monotonic() + seconds
    while True:
        after = Picture(daemon)
        found = differences(before, after, front_kib, spawner_kib)
        if not found or time.monotonic() > deadline:
            return found, after
        time.sleep(0.25)


def left_after_stop(daemon):
    """A boxd that was stopped with its sessions leaves nothing at all."""
    def look():
        found = []
        for kind, things in (("processes", own_processes(daemon)), ("groups", groups(daemon)),
                             ("sockets", daemon.sockets()), ("records", daemon.record_files())):
            if things:
                found.append(f"{kind} after the end: {things if len(things) < 10 else str(things)[:600]}")
        return found

    wait_until(lambda: not look(), 5, 0.1)
    return look()
