# SPDX-License-Identifier: Apache-2.0
"""Tenants and strangers who want everything for themselves: the others are served, memory stays bounded."""

import asyncio
import contextlib
import os
import time

import host
import knobs
from boxd import Daemon
from report import percentile
from session import Session
from wire import Broken, Client, WebSocket

NEIGHBOUR_CALLS = 400


async def latencies(session, count=NEIGHBOUR_CALLS):
    samples = []
    for _ in range(count):
        began = time.perf_counter()
        assert await session.out("echo n") == "n\n"
        samples.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(0.002)
    return sorted(samples)


async def fork_bomb(daemon, report, session):
    """A fork bomb is capped, and a neighbour hardly notices."""
    client = Client(daemon.unix())
    bomb = Session(client, "bomb")
    await bomb.create(pids_limit=64)
    alone = await latencies(session)
    client.close()  # idle for too long, where that took long
    exploding = asyncio.create_task(bomb.exec("b() { b | b & }; b; sleep 9", timeout_sec=6))
    await asyncio.sleep(0.5)
    beside = await latencies(session)
    result = await exploding
    client.close()
    before, after = percentile(alone, 0.99), percentile(beside, 0.99)
    report.say(f"fork bomb: a neighbour's p99 {before:.1f} → {after:.1f} ms, p50 {percentile(alone, 0.5):.1f} → "
               f"{percentile(beside, 0.5):.1f} ms; it ended as {result['status']}, {result['cause']}")
    assert await bomb.out("echo still") == "still\n", "the session of a fork bomb is not usable"
    await bomb.delete()
    client.close()


async def every_descriptor(daemon, report, session):
    """All descriptors opened inside: that is nobody else's trouble."""
    before = len(host.fds(daemon.front))
    script = "import os\nn=0\ntry:\n  while True: os.dup(0); n+=1\nexcept OSError as e: print(n, e.errno)"
    client = Client(daemon.unix())
    greedy = Session(client, "greedy")
    await greedy.create()
    held = await greedy.exec(f"ulimit -n $(ulimit -Hn); python3 -c '{script}'", timeout_sec=60)
    report.say(f"every descriptor: inside {held['stdout'].strip() or held}")
    report.check(held["stdout"].strip().endswith(" 24"), f"no EMFILE inside: {held}")
    assert await session.out("echo n") == "n\n"
    await greedy.delete()
    client.close()
    after = len(host.fds(daemon.front))
    # A session may have been made ahead meanwhile: its two sockets, and its group's files.
    report.check(after <= before + 2 + host.READY_SESSION_FDS, f"descriptors of the front: {before} → {after}")


async def endless_output(daemon, report, session):
    """Output without end: true counts, a bounded answer, bounded memory."""
    before = host.rss(daemon.front)
    highest = before
    client = Client(daemon.unix())
    loud = Session(client, "loud")
    await loud.create()
    running = asyncio.create_task(loud.exec("yes", timeout_sec=3))
    while not running.done():
        highest = max(highest, host.rss(daemon.front))
        await asyncio.sleep(0.05)
    result = await running
    report.say(f"endless output: {result['stdout_bytes'] >> 20} MiB in 3 s, {len(result['stdout']) >> 10} KiB kept, "
               f"truncated {result['stdout_truncated']}; front {before} → at most {highest} KiB")
    report.check(result["stdout_truncated"] and result["status"] == "timed_out", str(result)[:300])
    report.check(highest - before < 16 * 1024, f"the front grew from {before} to {highest} KiB for endless output")
    # A reader that reads nothing holds the command up, not boxd's memory.
    reader, writer = await daemon.unix().open()
    body = b'{"cmd":"yes","stream":true,"timeout_sec":4}'
    writer.write(b"POST /v1/sessions/loud/exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    highest = host.rss(daemon.front)
    for _ in range(40):
        highest = max(highest, host.rss(daemon.front))
        await asyncio.sleep(0.05)
    report.check(highest - before < 16 * 1024, f"the front grew from {before} to {highest} KiB for a slow reader")
    writer.transport.abort()
    await loud.delete()
    client.close()


async def stubborn(daemon, report, session):
    """Double forks, new sessions, ignored signals: dead within two seconds of the time-out."""
    mark = f"stubborn-{os.getpid()}"
    script = ("import os,signal,time\n"
              "for s in (1,2,3,15): signal.signal(s, signal.SIG_IGN)\n"
              "for i in range(8):\n"
              "  if os.fork()==0:\n"
              "    os.setsid()\n"
              "    if os.fork()==0:\n"
              "      os.setsid(); time.sleep(1000)\n"
              "    os._exit(0)\n"
              "time.sleep(1000)")
    began = time.monotonic()
    result = await session.exec(f"exec python3 -c '{script}' {mark}", timeout_sec=1)
    took = time.monotonic() - began

    def left():
        return [pid for pid in host.pids() if mark in host.read(pid, "cmdline")]

    host.wait_until(lambda: not left(), 2)
    report.say(f"stubborn: {result['status']} after {took:.2f} s, {len(left())} processes left")
    report.check(result["status"] == "timed_out" and took < 3, f"{took:.2f} s: {result}")
    report.check(not left(), f"alive two seconds after the time-out: {left()}")


async def attach_detach(daemon, report, session):
    """Attached and detached thousands of times: memory and descriptors stay where they were."""
    await session.start("echo", "cat")
    fds = rss = None
    address = daemon.unix()

    async def some(count):
        for number in range(count):
            relay = await WebSocket.open(address, session.relay("echo"))
            if number % 7 == 0:
                relay.send("hello")
                assert await relay.receive() == b"hello"
            if number % 2:
                await relay.close()
            else:
                relay.drop()

    began = time.monotonic()
    for step in range(5):
        await some(knobs.ATTACHES // 5)
        if step == 0:
            await asyncio.sleep(0.5)
            fds, rss = len(host.fds(daemon.front)), host.rss(daemon.front)
    await asyncio.sleep(0.5)
    grown = host.rss(daemon.front) - rss
    report.say(f"attached {knobs.ATTACHES} times in {time.monotonic() - began:.0f} s: {grown:+d} KiB, "
               f"{len(host.fds(daemon.front)) - fds:+d} descriptors after the first fifth")
    report.check(grown <= 512, f"memory grew by {grown} KiB over {knobs.ATTACHES} attachments")
    report.check(len(host.fds(daemon.front)) <= fds, f"descriptors: {fds} → {len(host.fds(daemon.front))}")
    await session.stop("echo")


async def idle_sockets(daemon, report, session):
    """Thousands of connections that say nothing, a word at a time, or half a body: the others are served, and
    the idle ones are shown the door."""
    before = host.rss(daemon.front)
    fds = len(host.fds(daemon.front))
    heads = (b"", b"GET /v1/status HTTP/1.1\r\nHost: loc", b"POST /v1/exec HTTP/1.1\r\nHost: localhost\r\n"
             b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"cmd\":")
    held = []
    for number in range(1500):
        reader, writer = await daemon.address(number).open()
        writer.write(heads[number % 3])
        held.append((number % 3, reader, writer))
    await asyncio.sleep(0.5)
    samples = await latencies(session, 50)
    report.say(f"1500 idle and slow connections: a command takes {percentile(samples, 0.5):.1f} ms; the front has "
               f"{host.rss(daemon.front) - before:+d} KiB")
    # The settings give heads 2 s, bodies a pause of 2 s, and idle ones 4 s.
    async def closed(reader):
        with contextlib.suppress(Broken, ConnectionError):
            while await reader.read(65536):
                pass

    try:
        await asyncio.wait_for(asyncio.gather(*(closed(reader) for _, reader, _ in held)), 20)
    except asyncio.TimeoutError:
        open_still = {kind: sum(1 for k, reader, _ in held if k == kind and not reader.at_eof()) for kind in range(3)}
        report.fail(f"connections without a request are still open after 20 s: {open_still} "
                    f"(0: silent, 1: half a head, 2: half a body)")
    for _, _, writer in held:
        writer.close()
    # One made ahead may have come meanwhile.
    gone = await asyncio.to_thread(
        host.wait_until, lambda: len(host.fds(daemon.front)) <= fds + host.READY_SESSION_FDS, 5)
    report.check(gone, f"descriptors: {fds} → {len(host.fds(daemon.front))}")


CASES = [fork_bomb, every_descriptor, endless_output, stubborn, attach_detach, idle_sockets]


async def run(report):
    with Daemon("hostile", http__head_sec=2, http__body_stall_sec=2, http__idle_sec=4) as daemon:
        daemon.start()
        for case in CASES:
            client = Client(daemon.unix())
            session = Session(client, "neighbour")
            try:
                await session.create()
                await asyncio.wait_for(case(daemon, report, session), 300)
                client.close()  # it may have been idle for too long by now
                await session.delete()
            except Exception as failure:
                report.fail(f"{case.__name__}: {type(failure).__name__}: {failure}")
                if not daemon.alive():
                    report.fail(f"boxd ended with {daemon.process.returncode}: {daemon.log_tail()}")
                    return
                with contextlib.suppress(Exception):
                    await client.request("DELETE", session.path)
            client.close()
        report.all(daemon.stop())
        report.all(host.left_after_stop(daemon))
        report.all(daemon.complaints()[:5])
