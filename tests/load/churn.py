# SPDX-License-Identifier: Apache-2.0
"""Thousands of sessions, each created, used once and deleted: memory stays where it was, nothing is left."""

import asyncio
import time

import host
import knobs
from boxd import Daemon
from report import Timings
from session import Session
from wire import Client

GROWTH_KIB = 1024
CLIENTS = 8
STEPS = 5


async def churn(daemon, first, count, timings):
    numbers = iter(range(first, first + count))

    async def worker(place):
        client = Client(daemon.address(place))
        try:
            for number in numbers:
                session = Session(client, f"c{number}")
                began = time.perf_counter()
                await session.create()
                made = time.perf_counter()
                said = await session.out(f"echo {number}")
                used = time.perf_counter()
                await session.delete()
                timings.add("create", made - began)
                timings.add("exec", used - made)
                timings.add("delete", time.perf_counter() - used)
                assert said == f"{number}\n", f"session {number} said {said!r}"
        finally:
            client.close()

    results = await asyncio.gather(*map(worker, range(CLIENTS)), return_exceptions=True)
    return [f"{type(result).__name__}: {result}" for result in results if result]


async def run(report):
    timings = Timings()
    with Daemon("churn") as daemon:
        daemon.start()
        report.all(await churn(daemon, 0, max(500, knobs.CHURN // 10), timings))
        await asyncio.sleep(1)
        before = host.Picture(daemon)
        timings.clear()
        report.say(f"before: {before.summary()}")
        growth = []
        began = time.monotonic()
        for step in range(STEPS):
            size = knobs.CHURN // STEPS
            report.all((await churn(daemon, 1_000_000 + step * size, size, timings))[:3])
            if report.failures or not daemon.alive():
                break
            growth.append(f"{host.rss(daemon.front) - before.front_rss:+d}/"
                          f"{host.rss(daemon.spawner) - before.spawner_rss:+d}")
        elapsed = time.monotonic() - began
        report.say(f"{timings.count() // 3} sessions in {elapsed:.0f} s, {CLIENTS} at a time: "
                   f"{timings.count() / 3 / elapsed:.0f} a second")
        report.say(f"RSS of front/spawner against before, in KiB: {', '.join(growth)}")
        for line in timings.table():
            report.say(line)
        if not daemon.alive():
            report.fail(f"boxd ended with {daemon.process.returncode}: {daemon.log_tail()}")
            return
        found, after = host.settled(daemon, before, GROWTH_KIB, GROWTH_KIB)
        report.say(f"after:  {after.summary()}")
        report.all(found)
        report.all(daemon.stop())
        report.all(host.left_after_stop(daemon))
        report.all(daemon.complaints()[:5])
