# SPDX-License-Identifier: Apache-2.0
"""What must be so after boxd was killed: everything that was acknowledged, and of what was under way either
all or nothing.

An operation is written down before it is asked for and struck out when its answer has come. What is
still written down when boxd is gone may or may not have happened, but not by half.
"""

import asyncio
import time

from session import TALKER, Session
from wire import Broken, Refused, WebSocket


class Talker:
    """A managed process, and how far its output has been heard."""

    def __init__(self, process_id):
        self.id = process_id
        self.own = None     # the number that it chose for itself
        self.counted = -1   # the last number it said
        self.offset = 0     # bytes of its output that were heard
        self.told = 0       # lines told to it
        self.repeated = 0   # the last of them that it repeated

    def hear(self, line):
        """One line of its output: in order, nothing twice, nothing missing."""
        kind, own, number = line.decode().split(" ")
        self.offset += len(line) + 1
        if self.own is None:
            self.own = own
        assert own == self.own, f"{self.id}: another process ({own}) talks under the id of {self.own}"
        number = int(number)
        if kind == "c":
            assert number == self.counted + 1, f"{self.id}: said {number} after {self.counted} at {self.offset}"
            self.counted = number
        else:
            assert self.repeated < number <= self.told, f"{self.id}: repeated {number} after {self.repeated}"
            self.repeated = number


class Room:
    """A session of the model."""

    def __init__(self, name):
        self.name = name
        self.live = False
        self.busy = False
        self.killed = False   # its first process was
        self.pending = None   # the operation under way: (kind, detail)
        self.marks = {0}      # what /workspace/mark may hold; one value unless a write is under way
        self.datas = {b""}    # likewise /workspace/data, written through the file interface
        self.number = 0
        self.talkers = {}

    def next(self):
        self.number += 1
        return self.number


MARK = "echo {0} > /workspace/.m && mv /workspace/.m /workspace/mark"


class Actions:
    """What the clients do to a room; each is one request, or one conversation."""

    def __init__(self, client, address, room, chance):
        self.room = room
        self.address = address
        self.chance = chance
        self.session = Session(client, room.name)

    async def create(self):
        self.room.pending = ("create", None)
        await self.session.create()
        self.room.live = True
        self.room.pending = None
        await self.mark()
        await self.data()

    async def delete(self):
        self.room.pending = ("delete", None)
        await self.session.delete()
        self.room.live = False
        self.room.pending = None

    async def mark(self):
        value = self.room.next()
        self.room.marks.add(value)
        self.room.pending = ("exec", value)
        await self.session.out(MARK.format(value))
        self.room.marks = {value}
        self.room.pending = None

    async def data(self):
        value = f"{self.room.name} {self.room.next()} ".encode() * self.chance.choice([1, 100, 20000])
        self.room.datas.add(value)
        self.room.pending = ("file", None)
        await self.session.put("/workspace/data", value)
        self.room.datas = {value}
        self.room.pending = None

    async def read(self):
        self.room.pending = ("read", None)
        said = await self.session.out("cat /workspace/mark 2>/dev/null || echo 0")
        assert int(said) in self.room.marks, f"{self.room.name}: mark is {said!r}, not one of {self.room.marks}"
        self.room.pending = None

    async def stream(self):
        self.room.pending = ("stream", None)
        events = await self.session.stream("seq 200; sleep 0.01; seq 200")
        if events[-1][0] == "error" and events[-1][1]["error"]["code"] == "BoxBackendUnavailableError":
            raise Broken("boxd is stopping")
        assert events[-1][0] == "result" and events[-1][1]["exit_code"] == 0, events[-1]
        self.room.pending = None

    async def start(self):
        talker = Talker(f"p{self.room.next()}")
        self.room.pending = ("start", talker)
        await self.session.start(talker.id, "perl", "-e", TALKER)
        self.room.talkers[talker.id] = talker
        self.room.pending = None

    async def stop(self):
        talker = self.chance.choice(list(self.room.talkers.values()))
        self.room.pending = ("stop", talker)
        await self.session.stop(talker.id)
        del self.room.talkers[talker.id]
        self.room.pending = None

    async def talk(self, talker=None, lines=None):
        """Attaches where it was left, listens, and says something now and then."""
        talker = talker or self.chance.choice(list(self.room.talkers.values()))
        self.room.pending = self.room.pending or ("talk", None)
        relay = await WebSocket.open(self.address, self.session.relay(talker.id, talker.offset))
        heard = 0
        wanted = lines or self.chance.randrange(1, 10)
        try:
            while heard < wanted:
                if self.chance.random() < 0.2:
                    talker.told += 1
                    relay.send(str(talker.told))
                line = await relay.receive()
                if line is None:
                    raise Broken(f"the relay was closed with {relay.close_code}")
                talker.hear(line)
                heard += 1
        finally:
            relay.drop()
        self.room.pending = None if lines is None else self.room.pending

    def choices(self):
        """By weight, what can be done now."""
        ways = [self.mark, self.mark, self.read, self.data, self.stream]
        if len(self.room.talkers) < 2:
            ways += [self.start]
        if self.room.talkers:
            ways += [self.talk, self.talk, self.stop]
        return ways


# --- afterwards ---


async def verify(client, address, room, listed, chance):
    """A room after a restart. Whatever was under way is settled one way or the other; returns what is
    wrong."""
    pending, room.pending = room.pending, None
    kind, detail = pending or (None, None)
    room.busy = False
    session = Session(client, room.name)
    known = room.name in listed
    if not room.live and kind != "create":
        return [f"{room.name} was deleted and is there again"] if known else []
    if kind == "create" and not room.live or kind == "delete":
        # All or nothing. If it is there it has to work, and to go when it is told to.
        room.live = False
        if known:
            said = await session.out("echo here")
            assert said == "here\n", said
            await session.delete()
        return []
    if not known:
        return [f"{room.name} was acknowledged and is not there any more (under way: {kind})"]
    found = []
    if listed[room.name]["state"] != "live":
        found.append(f"{room.name} is {listed[room.name]['state']} (under way: {kind})")
        return found
    try:
        found += await verify_files(session, room, kind)
        found += await verify_processes(client, address, session, room, kind, detail, chance)
    except (AssertionError, Refused, Broken) as failure:
        found.append(f"{room.name} (under way: {kind}): {type(failure).__name__}: {failure}")
    return found


async def verify_files(session, room, kind):
    found = []
    result = await session.exec("cat /workspace/mark 2>/dev/null || echo 0")
    said = result["stdout"].strip()
    if not said.isdigit() or int(said) not in room.marks:
        found.append(f"{room.name}: mark holds {said!r}, not one of {room.marks} (under way: {kind})")
    else:
        room.marks = {int(said)}
    response = await session.client.request("GET", f"{session.path}/files/workspace/data")
    data = response.body if response.status == 200 else b""
    if data not in room.datas:
        found.append(f"{room.name}: data holds {data[:40]!r}… of {len(data)} bytes, not one of "
                     f"{[(value[:40], len(value)) for value in room.datas]} (under way: {kind})")
    else:
        room.datas = {data}
    return found


async def verify_processes(client, address, session, room, kind, detail, chance):
    found = []
    listed = (await client.call("GET", f"{session.path}/processes", want=(200,))).json["processes"]
    running = {info["process_id"]: info for info in listed if info["status"] == "running"}
    if kind == "start" and detail.id in running:
        room.talkers[detail.id] = detail
    if kind == "stop" and detail.id not in running:
        room.talkers.pop(detail.id, None)
    for name in running.keys() - room.talkers.keys():
        found.append(f"{room.name}: process {name} runs and was stopped, or never asked for (under way: {kind})")
    actions = Actions(client, address, room, chance)
    for talker in list(room.talkers.values()):
        if talker.id not in running:
            info = next((info for info in listed if info["process_id"] == talker.id), "nothing is known of it")
            found.append(f"{room.name}: process {talker.id} does not run any more: {info} (under way: {kind})")
            del room.talkers[talker.id]
        elif kind == "stop" and detail is talker:
            # It may be on its way out, with a closed standard input.
            await session.stop(talker.id)
            del room.talkers[talker.id]
        else:
            began = time.monotonic()
            try:
                await asyncio.wait_for(actions.talk(talker, 3), 10)
            except (asyncio.TimeoutError, TimeoutError):
                found.append(f"{room.name}: process {talker.id} says nothing for {time.monotonic() - began:.0f} s")
    return found
