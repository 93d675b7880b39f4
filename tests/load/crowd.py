# SPDX-License-Identifier: Apache-2.0
"""Thousands of sessions live at once: each answers, idle ones cost no time and little memory, and all go."""

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import host
import knobs
from boxd import Daemon
from session import Session, names
from wire import Client

AT_ONCE = 16
ROUNDS, SAMPLES = 3, 40
IDLE_SECONDS = 3
SWITCHES_MAX = 20  # of front and spawner in that time: an idle daemon is woken by nobody


class Ground:
    """A memory group (v1) that boxd is started in, so that all it makes is charged there: processes,
    and what the kernel keeps for them."""

    def __init__(self):
        self.path = None
        for mount in host.mounts():
            if mount.type == "cgroup" and "memory" in mount.options.split(","):
                own = next((line.split(":", 2)[2] for line in host.read("self", "cgroup").splitlines()
                            if line.split(":")[1] == "memory"), "/")
                if os.path.isdir(mount.point + own):
                    self.path = Path(tempfile.mkdtemp(prefix="load.", dir=mount.point + own))

    def wrapper(self):
        if not self.path:
            return []
        return ["sh", "-c", f'echo 0 > "{self.path}/cgroup.procs" && exec "$@"', "sh"]

    def used(self):
        """In bytes; None where there is no such group."""
        return int((self.path / "memory.usage_in_bytes").read_text()) if self.path else None

    def remove(self):
        if self.path:
            host.remove_group(self.path)


async def many(daemon, count, work):
    """work(client, number) for each number, some at a time; what went wrong."""
    numbers = iter(range(count))
    failures = []

    async def worker(place):
        client = Client(daemon.address(place))
        try:
            for number in numbers:
                try:
                    await work(client, number)
                except Exception as failure:
                    failures.append(f"session {number}: {type(failure).__name__}: {failure}")
                    if len(failures) > 20:
                        return
        finally:
            client.close()

    await asyncio.gather(*map(worker, range(AT_ONCE)))
    return failures


async def create_latency(daemon):
    """Of creating one after another, in ms: the lowest of a few medians, because the machine is others' too."""
    client = Client(daemon.unix())
    medians = []
    for _ in range(ROUNDS):
        samples = []
        for number in range(SAMPLES):
            session = Session(client, f"probe{number}")
            began = time.perf_counter()
            await session.create()
            samples.append(1000 * (time.perf_counter() - began))
            await session.delete()
        medians.append(statistics.median(samples))
    client.close()
    return min(medians)


async def idleness(daemon, report):
    """How often anything of it runs while nobody asks for anything."""
    await asyncio.sleep(1)
    own = list(host.own_processes(daemon))
    before = {pid: host.switches(pid) for pid in own}
    await asyncio.sleep(IDLE_SECONDS)
    woken = {pid: host.switches(pid) - before[pid] for pid in own}
    boxd = woken.get(daemon.front, 0) + woken.get(daemon.spawner, 0)
    rest = sum(woken.values()) - boxd
    report.say(f"idle for {IDLE_SECONDS} s: boxd was scheduled {boxd} times, the {len(own) - 2} processes of its "
               f"sessions {rest} times together")
    report.check(boxd <= SWITCHES_MAX, f"an idle boxd was scheduled {boxd} times in {IDLE_SECONDS} s")
    report.check(rest <= len(own) / 50, f"idle sessions were scheduled {rest} times in {IDLE_SECONDS} s: "
                 f"{[(pid, n, host.read(pid, 'comm').strip()) for pid, n in woken.items() if n > 2][:10]}")
    if not shutil.which("strace"):
        return
    command = ["strace", "-f", "-c", "-o", "/dev/stdout", "-p", str(daemon.front), "-p", str(daemon.spawner)]
    done = subprocess.run(["timeout", "-s", "INT", str(IDLE_SECONDS), *command], capture_output=True, text=True,
                          timeout=60)
    total = next((line.split() for line in done.stdout.splitlines() if line.endswith("total")), None)
    report.say(f"its system calls meanwhile: {total[3] if total and len(total) > 3 else 'none'}")


async def memory(daemon, ground, before, count, report):
    """What an idle session costs, by several ways of counting."""
    old, charged = before
    new = host.meminfo()
    own = host.own_processes(daemon)
    shares = sum(map(host.pss, own))
    parts = ("SUnreclaim", "SReclaimable", "Percpu", "KernelStack", "PageTables")
    kernel = {name: (new[name] - old[name]) / count for name in parts}
    report.say(f"an idle session, of {count}: {shares / count:.0f} KiB of its {len(own) / count:.1f} processes' own; in "
               f"the kernel {', '.join(f'{name} {value:.0f}' for name, value in kernel.items())} KiB; "
               f"{(shares / count + sum(kernel.values())):.0f} KiB together")
    report.say(f"memory available: {(old['MemAvailable'] - new['MemAvailable']) / count:.0f} KiB less for each "
               f"(others use this machine too)")
    if charged is not None:
        each = (ground.used() - charged) / 1024 / count
        report.say(f"charged by the kernel for processes, page tables, namespaces and mounts: {each:.0f} KiB each "
                   f"(goal 512: {'met' if each <= 512 else 'MISSED'})")


async def crowd(daemon, ground, report):
    count = knobs.CROWD
    client = Client(daemon.unix())
    for number in range(10):
        await Session(client, f"ten{number}").create()
    few = await create_latency(daemon)
    for number in range(10):
        await Session(client, f"ten{number}").delete()

    async def use(client, number):
        session = Session(client, f"warm{number}")
        await session.create()
        await session.out("true")
        await session.delete()

    report.all((await many(daemon, 64, use))[:5])
    await asyncio.sleep(1)
    picture = host.Picture(daemon)
    before = (host.meminfo(), ground.used())
    began = time.monotonic()
    report.all((await many(daemon, count, lambda client, n: Session(client, f"s{n}").create()))[:5])
    report.say(f"{count} sessions made in {time.monotonic() - began:.0f} s")
    await idleness(daemon, report)
    await memory(daemon, ground, before, count, report)

    async def ask(client, number):
        said = await Session(client, f"s{number}").out(f"echo {number}")
        assert said == f"{number}\n", said

    began = time.monotonic()
    report.all((await many(daemon, count, ask))[:5])
    report.say(f"each has answered a command, {count / (time.monotonic() - began):.0f} a second")
    listed = await names(client)
    report.check(len(listed) == count, f"{len(listed)} sessions are listed, not {count}")
    full = await create_latency(daemon)
    report.say(f"creating one: {few:.2f} ms beside 10, {full:.2f} ms beside {count}: {full / few:.2f} times "
               f"(goal 1.5: {'met' if full <= 1.5 * few else 'MISSED'})")
    report.say(f"with all of them: {host.Picture(daemon).summary()}")
    began = time.monotonic()
    report.all((await many(daemon, count, lambda client, n: Session(client, f"s{n}").delete()))[:5])
    report.say(f"all deleted in {time.monotonic() - began:.0f} s")
    client.close()
    # Tables sized for the crowd stay; RSS is the churn's business.
    found, after = host.settled(daemon, picture, 16384, 4096)
    report.say(f"after:  {after.summary()}")
    report.all(found)


async def run(report):
    ground = Ground()
    try:
        with Daemon("crowd", limits__max_sessions=knobs.CROWD + 100) as daemon:
            daemon.wrapper = ground.wrapper()
            daemon.start()
            await crowd(daemon, ground, report)
            report.all(daemon.stop())
            report.all(host.left_after_stop(daemon))
            report.all(daemon.complaints()[:5])
    finally:
        ground.remove()
