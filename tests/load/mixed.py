# SPDX-License-Identifier: Apache-2.0
"""Many clients at once, each doing a bit of everything: no error, nothing mixed up, nothing more than before."""

import asyncio
import os
import random
import time

import host
import knobs
from boxd import Daemon
from report import Timings
from session import Session
from wire import Client, WebSocket

FRONT_KIB = 1024
SPAWNER_KIB = 1024


class Worker:
    """One client with a session of its own, made and deleted over and over."""

    def __init__(self, daemon, number, timings, seed):
        self.address = daemon.address(number)
        self.client = Client(self.address)
        self.number = number
        self.timings = timings
        self.chance = random.Random(f"{seed}.{number}")
        self.round = 0
        self.session = None

    async def timed(self, kind, waiting):
        began = time.perf_counter()
        result = await waiting
        self.timings.add(kind, time.perf_counter() - began)
        return result

    def token(self):
        return f"{self.number}-{self.round}-{self.chance.randrange(1 << 30)}"

    async def exec(self):
        token = self.token()
        said = await self.timed("exec", self.session.out(f"echo {token}"))
        assert said == token + "\n", f"exec said {said!r}, not {token}"

    async def stream(self):
        token = self.token()
        events = await self.timed("stream", self.session.stream(f"echo {token}; echo x{token} >&2; seq 2000"))
        said = {"stdout": "", "stderr": ""}
        for name, data in events:
            if name in said:
                said[name] += data["data"]
        assert events[-1][0] == "result" and events[-1][1]["exit_code"] == 0, events[-1]
        wanted = token + "\n" + "".join(f"{n}\n" for n in range(1, 2001))
        assert said == {"stdout": wanted, "stderr": f"x{token}\n"}, f"the stream said {said}"[:300]

    async def files(self):
        data = os.urandom(self.chance.choice([0, 10, 5000, 300000]))
        await self.timed("file put", self.session.put("/workspace/d/f", data))
        got = await self.timed("file get", self.session.get("/workspace/d/f"))
        assert got == data, f"a file of {len(data)} bytes came back as another, of {len(got)}"
        listed = await self.timed("file list", self.client.call(
            "GET", f"{self.session.path}/files/workspace/d?list", want=(200,)))
        assert [entry["name"] for entry in listed.json["entries"]] == ["f"], listed.body
        await self.timed("file delete", self.client.call(
            "DELETE", f"{self.session.path}/files/workspace/d?recursive=true", want=(200,)))

    async def process(self):
        await self.timed("process start", self.session.start("p", "cat"))
        relay = await self.timed("relay open", WebSocket.open(self.address, self.session.relay("p")))
        try:
            for _ in range(self.chance.randrange(1, 6)):
                token = self.token()
                relay.send(token)
                said = await self.timed("relay line", relay.receive())
                assert said == token.encode(), f"the relay said {said!r}, not {token}"
            if self.chance.random() < 0.3:
                relay.drop()
        finally:
            await relay.close()
        await self.timed("process stop", self.session.stop("p"))

    async def look(self):
        info = await self.timed("session get", self.session.info())
        assert info["state"] == "live", info

    async def once(self):
        """The short way: made, used and deleted in two calls."""
        token = self.token()
        name = f"o{self.number}-{self.round}"
        body = {"session_id": name, "cmd": f"echo {token}"}
        result = (await self.timed("exec cold", self.client.call("POST", "/v1/exec", body, (200,)))).json
        assert result["stdout"] == token + "\n", result
        await self.timed("delete", Session(self.client, name).delete())

    async def one_round(self):
        """The life of a session."""
        self.round += 1
        self.session = Session(self.client, f"m{self.number}-{self.round}")
        await self.timed("create", self.session.create())
        ways = [self.exec, self.exec, self.exec, self.stream, self.files, self.process, self.look, self.once]
        for _ in range(self.chance.randrange(1, 8)):
            await self.chance.choice(ways)()
        await self.timed("delete", self.session.delete())

    async def run(self, until):
        try:
            while time.monotonic() < until:
                await self.one_round()
        finally:
            self.client.close()


async def crowd(daemon, seconds, timings, seed):
    """All clients for a while; what went wrong."""
    workers = [Worker(daemon, number, timings, seed) for number in range(knobs.CLIENTS)]
    until = time.monotonic() + seconds
    results = await asyncio.gather(*(worker.run(until) for worker in workers), return_exceptions=True)
    return [f"client {worker.number}, round {worker.round}: {type(result).__name__}: {result}"
            for worker, result in zip(workers, results) if result is not None]


async def run(report):
    timings = Timings()
    with Daemon("mixed") as daemon:
        daemon.start()
        report.say(f"seed {knobs.SEED}; ready {1000 * daemon.ready_seconds:.0f} ms after its start, "
                   f"{host.rss(daemon.front)} + {host.rss(daemon.spawner)} KiB resident")
        # Buffers grow to what this load needs, and what is kept ready is there.
        report.all(await crowd(daemon, max(3, knobs.SECONDS / 6), timings, f"{knobs.SEED}w"))
        await asyncio.sleep(1)
        before = host.Picture(daemon)
        timings.clear()
        report.say(f"before: {before.summary()}")
        began = time.monotonic()
        report.all((await crowd(daemon, knobs.SECONDS, timings, knobs.SEED))[:10])
        elapsed = time.monotonic() - began
        report.say(f"{knobs.CLIENTS} clients, {elapsed:.0f} s, {timings.count()} operations, "
                   f"{timings.count() / elapsed:.0f} a second")
        for line in timings.table():
            report.say(line)
        if not daemon.alive():
            report.fail(f"boxd ended with {daemon.process.returncode}: {daemon.log_tail()}")
            return
        found, after = host.settled(daemon, before, FRONT_KIB, SPAWNER_KIB)
        report.say(f"after:  {after.summary()}")
        report.all(found)
        report.all(daemon.stop())
        report.all(host.left_after_stop(daemon))
        report.all(daemon.complaints()[:5])
