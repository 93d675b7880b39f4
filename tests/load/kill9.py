# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments under load: what was acknowledged is still there, and nothing else is."""

import asyncio
import os
import random
import time

import host
import knobs
from boxd import Daemon, Unwell
from model import Actions, Room, verify
from session import TALKER, Session, names
from wire import Broken, Client, Refused

WORKERS = 12
ROOMS = 16       # sessions at once; those that live long are killed over and over
SWEEP_SECONDS = 5
FAILURES_MAX = 8
POINTS = {}      # how often what was under way when the blow fell


def plan(chance):
    """The front as often as was asked for; the others a quarter of that each."""
    kinds = ["front"] * knobs.KILLS
    for other in ("both", "spawner", "init"):
        kinds += [other] * max(1, knobs.KILLS // 4)
    chance.shuffle(kinds)
    return kinds


class Bystander:
    """Another boxd with a session and a process: nothing that happens here is its business."""

    def __init__(self):
        self.daemon = Daemon("other")

    async def start(self):
        self.daemon.start()
        client = Client(self.daemon.unix())
        session = Session(client, "bystander")
        await session.create()
        await session.start("p", "perl", "-e", TALKER)
        client.close()
        self.processes = set(host.own_processes(self.daemon))

    def check(self):
        gone = [pid for pid in self.processes if not host.exists(pid)]
        return [f"processes of another boxd were killed: {gone}"] if gone else []


class World:
    """A daemon and everything its clients believe about it."""

    def __init__(self, number):
        self.daemon = Daemon("kill")
        self.rooms = {}
        self.made = 0
        self.prefix = f"k{number}"
        self.stopping = False

    # --- load ---

    def pick(self, chance):
        """A room to do something in, and whether it has to be made."""
        free = [room for room in self.rooms.values() if room.live and not room.busy]
        taken = sum(1 for room in self.rooms.values() if room.live or room.pending)
        if taken < ROOMS and (not free or chance.random() < 0.3):
            self.made += 1
            room = Room(f"{self.prefix}-{self.made}")
            self.rooms[room.name] = room
            return room, True
        return (chance.choice(free) if free else None), False

    async def worker(self, number, seed, failures):
        chance = random.Random(f"{seed}.{number}")
        address = self.daemon.address(number)
        client = Client(address)
        try:
            while not self.stopping:
                room, new = self.pick(chance)
                if not room:
                    await asyncio.sleep(0.002)
                    continue
                room.busy = True
                actions = Actions(client, address, room, chance)
                # Rooms with a low number stay.
                old = int(room.name.split("-")[1]) > ROOMS // 2
                action = actions.create if new else actions.delete if old and chance.random() < 0.25 else \
                    chance.choice(actions.choices())
                try:
                    await action()
                except (AssertionError, Refused, Broken):
                    # Its first process was killed: it stays busy, and nobody else tries.
                    if not room.killed:
                        raise
                    continue
                room.busy = False
        except Broken:
            pass  # it was killed, and room.pending says what was under way
        except (AssertionError, Refused, RuntimeError) as failure:
            # Without its spawner it says so, as long as it is there.
            if not self.stopping or getattr(failure, "status", None) != 503:
                failures.append(f"under load, {room.name}, {room.pending}: {type(failure).__name__}: {failure}")
        finally:
            client.close()

    # --- blows ---

    def init_of(self, room):
        """The host's pid of a session's first process, and of all in it."""
        for record in self.daemon.records().values():
            if record and record["spec"]["session_id"] == room.name and record.get("record"):
                group = record["record"]["group"]
                pids = set()
                for path in host.groups(self.daemon):
                    if os.path.basename(path) == group:
                        pids |= host.members(path)
                return next((pid for pid in pids if host.is_pid_1(pid)), None)
        return None

    async def blow(self, kind, chance, failures):
        """Kills, and sees to it that the rest ends as it has to."""
        daemon = self.daemon
        if kind == "init":
            rooms = [room for room in self.rooms.values() if room.live and not (room.pending or [""])[0] == "delete"]
            room = chance.choice(rooms) if rooms else None
            pid = self.init_of(room) if room else None
            if not pid:
                return
            room.killed = True
            daemon.kill(pid)
            await asyncio.sleep(chance.choice([0, 0.01, 0.1]))
            self.stopping = True
            return
        self.stopping = True
        pids = {"front": [daemon.front], "spawner": [daemon.spawner], "both": [daemon.front, daemon.spawner]}[kind]
        for room in self.rooms.values():
            if room.pending:
                POINTS[room.pending[0]] = POINTS.get(room.pending[0], 0) + 1
        daemon.kill(*pids)
        code = await asyncio.to_thread(daemon.wait, 10)
        if kind == "spawner" and code != 1:
            failures.append(f"without its spawner boxd ended with {code}, not with 1: {daemon.log_tail()}")
            daemon.kill(daemon.front)
            daemon.wait()

    async def restart(self, chance, failures):
        """Starts it again; now and then it is killed once more while it takes its sessions over."""
        old = self.daemon.spawner
        self.daemon.start()
        again = 0
        while chance.random() < 0.25 and again < 3:
            await asyncio.sleep(chance.uniform(0, 0.03))
            self.daemon.kill(self.daemon.front)
            self.daemon.wait()
            self.daemon.start()
            again += 1
        if not await asyncio.to_thread(host.wait_until, lambda: not host.exists(old), 5):
            failures.append(f"the old spawner {old} is still there")

    # --- checks ---

    async def check(self, chance):
        client = Client(self.daemon.unix())
        began = time.monotonic()
        failures = []
        while True:
            ready = await client.request("GET", "/readyz")
            if ready.status == 200:
                break
            if time.monotonic() - began > SWEEP_SECONDS:
                return [f"not ready after {SWEEP_SECONDS} s: {ready.body}"]
            await asyncio.sleep(0.01)
        listed = await names(client)
        unknown = listed.keys() - self.rooms.keys()
        if unknown:
            failures.append(f"sessions that nobody made: {unknown}")
        limit = asyncio.Semaphore(8)

        async def one(room):
            async with limit:
                if room.killed:
                    return await self.check_killed(room)
                own = Client(self.daemon.unix())
                try:
                    return await verify(own, self.daemon.unix(), room, listed, chance)
                except Exception as failure:
                    return [f"{room.name}: {type(failure).__name__}: {failure}"]
                finally:
                    own.close()

        for found in await asyncio.gather(*map(one, list(self.rooms.values()))):
            failures += found
        self.rooms = {name: room for name, room in self.rooms.items() if room.live}
        left = await self.half_made(client, began)
        client.close()
        return failures + left

    async def check_killed(self, room):
        """Its first process was killed: the others' business goes on, and the name can be used again."""
        client = Client(self.daemon.unix())
        session = Session(client, room.name)
        room.live = room.killed = False
        room.pending = None
        try:
            response = await client.request("POST", f"{session.path}/exec", {"cmd": "echo x"})
            if response.status == 200:
                # Nothing was acknowledged about it; but a command cannot have run in a dead session.
                body = response.json
                if body["stdout"] == "x\n" and body["session_id"] == room.name:
                    return [f"{room.name}: a command ran in a session whose init was killed"]
            elif response.status not in (404, 409, 410, 503):
                return [f"{room.name}: exec in a dead session gave {response.status} {response.body[:300]}"]
            response = await client.request("POST", "/v1/sessions", {"session_id": room.name})
            if response.status != 201:
                return [f"{room.name}: could not be made anew: {response.status} {response.body[:300]}"]
            if await session.out("ls /workspace") != "":
                return [f"{room.name}: the new one has files of the old one"]
            await session.delete()
            return []
        except Exception as failure:
            return [f"{room.name}, killed: {type(failure).__name__}: {failure}"]
        finally:
            client.close()

    async def half_made(self, client, began):
        """What is on this machine that boxd does not know of; it has five seconds to be gone."""
        while True:
            found = await self.look(client)
            if not found or time.monotonic() - began > SWEEP_SECONDS:
                return found
            await asyncio.sleep(0.1)

    async def look(self, client):
        daemon = self.daemon
        listed = set(await names(client))
        records = daemon.records()
        found = []
        stray = [name for name in daemon.record_files() if not name.endswith(".json")]
        if stray:
            found.append(f"files beside the records: {stray}")
        recorded = {record["spec"]["session_id"] for record in records.values() if record}
        if recorded != listed or None in records.values():
            found.append(f"records without a session: {recorded - listed}; sessions without: {listed - recorded}; "
                         f"unreadable: {[key for key, record in records.items() if not record]}")
        ready = host.ready_groups(daemon)
        sockets, recorded = set(daemon.sockets()), host.recorded_sockets(daemon)
        if len(sockets - recorded) > len(ready) or recorded - sockets:
            found.append(f"sockets without a record: {sockets - recorded}, and sessions made ahead: {ready}; "
                         f"without a socket: {recorded - sockets}")
        known = {record["record"]["group"] for record in records.values() if record and record.get("record")} | ready
        groups = host.groups(daemon)
        for path in groups:
            if os.path.basename(path) not in known and host.members(path):
                found.append(f"a group of no session with processes in it: {path} {host.members(path)}")
        empty = {os.path.basename(path) for path in groups} - known
        if len(empty) > host.READY_GROUPS:
            found.append(f"{len(empty)} groups of no session: {sorted(empty)[:5]}")
        for pid, what in host.own_processes(daemon).items():
            if "its program" in what and pid not in (daemon.front, daemon.spawner):
                found.append(f"a process of boxd that is neither front nor spawner: {pid} {what}")
        return found + self.talkers_alive()

    def talkers_alive(self):
        """As many run as are known: one whose start was interrupted must not go on unseen."""
        wanted = sum(len(room.talkers) for room in self.rooms.values())
        real = [pid for pid in host.own_processes(self.daemon) if host.read(pid, "comm").strip() == "perl"]
        return [f"{len(real)} managed processes run, {wanted} are known"] if len(real) != wanted else []


async def one_blow(world, kind, chance, seed):
    """Load, blow, restart, checks. What is wrong."""
    failures = []
    world.stopping = False
    workers = [asyncio.create_task(world.worker(n, seed, failures)) for n in range(WORKERS)]
    delay = 10 ** chance.uniform(-2.7, -0.4)  # 2 ms to 0.4 s, short ones as likely as long ones
    await asyncio.sleep(delay)
    await world.blow(kind, chance, failures)
    world.stopping = True
    await asyncio.wait_for(asyncio.gather(*workers), 60)
    if kind != "init":
        await world.restart(chance, failures)
    elif not world.daemon.alive():
        return failures + [f"boxd ended with {world.daemon.process.returncode} when an init was killed"]
    return failures + await world.check(chance)


async def run(report):
    chance = random.Random(knobs.SEED)
    kinds = plan(chance)
    report.say(f"seed {knobs.SEED}: {len(kinds)} blows")
    bystander = Bystander()
    world = None
    counts, bad, slowest = {}, 0, 0
    try:
        await bystander.start()
        for number, kind in enumerate(kinds):
            if not world:
                world = World(number)
                world.daemon.start()
            began = time.monotonic()
            seed = f"{knobs.SEED}.{number}"
            try:
                failures = await one_blow(world, kind, random.Random(seed), seed)
            except (Unwell, Broken, Refused, asyncio.TimeoutError, OSError, RuntimeError) as failure:
                failures = [f"{type(failure).__name__}: {failure}"]
            failures += bystander.check() + world.daemon.complaints()[:5]
            slowest = max(slowest, time.monotonic() - began)
            counts[kind] = counts.get(kind, 0) + 1
            if failures:
                bad += 1
                for failure in failures[:6]:
                    report.fail(f"blow {number} ({kind}, seed {seed}): {failure}")
                report.say(f"log: {world.daemon.log_tail(1500) if world.daemon.process else ''}")
                world.daemon.remove()  # the next begins with a clean one
                world = None
                if bad >= FAILURES_MAX:
                    report.say(f"giving up after {number + 1} blows")
                    break
        report.say(f"blows: {counts}; with failures: {bad}; slowest round {slowest:.1f} s")
        report.say(f"under way when they fell: {dict(sorted(POINTS.items()))}")
        if world:
            report.say(f"at the end: {host.Picture(world.daemon).summary()}")
            report.all(world.daemon.stop())
            report.all(host.left_after_stop(world.daemon))
        report.all(bystander.daemon.stop())
        report.all(host.left_after_stop(bystander.daemon))
    finally:
        if world:
            world.daemon.remove()
        bystander.daemon.remove()
