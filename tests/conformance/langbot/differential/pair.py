# SPDX-License-Identifier: Apache-2.0
"""Both sides at once: a step goes to each, and what comes back is compared."""

import asyncio
import copy
import json
import time

import compare
import listed
import sides

HOST_ACTIONS = {
    "__ping", "__file_chunk", "box_health", "box_get_backend_info", "box_init", "box_upsert_sandbox_admission_grant",
    "box_revoke_sandbox_admission_grant", "box_verify_shared_workspace", "box_shutdown",
}
OWN = object()  # the context that is the step's by itself


class Tally:
    """What a whole run has done."""

    def __init__(self):
        self.steps = 0
        self.scripted = 0  # those of scripts
        self.seen = {}  # how often each listed difference was met
        self.scripts = set()


class Pair:
    OWN = OWN

    def __init__(self, boxd, python, share, tally):
        self.boxd, self.python = boxd, python
        self.servers = (boxd, python)
        self.share = share  # a directory that both may mount
        self.tally = tally
        self.workspace = "workspace"
        self.generation = 1
        self.connections = ()

    # --- connections ---

    async def connect(self, headers=None):
        if headers is None:
            headers = {"X-LangBot-Instance-Id": sides.INSTANCE} if listed.TENANTS else {}
        self.connections = [await sides.Connection.open(server, headers) for server in self.servers]

    async def disconnect(self):
        for connection in self.connections:
            await connection.close()
        self.connections = ()

    def context(self, **changes):
        context = {"instance_uuid": sides.INSTANCE, "workspace_uuid": self.workspace,
                   "placement_generation": self.generation, **changes}
        return {key: value for key, value in context.items() if value is not None}

    # --- steps ---

    async def call(self, action, data=None, context=OWN, **expectations):
        """One request; both answers, boxd's first."""
        answers = await self._ask(action, {} if data is None else data, context)
        return self._judge(action, answers, **expectations)

    async def together(self, *calls):
        """Requests that are under way at the same time: (action, data), or (action, data, expectations)."""
        results = await asyncio.gather(*(self._ask(call[0], call[1], OWN) for call in calls))
        for call, answers in zip(calls, results):
            self._judge(call[0], answers, **(call[2] if len(call) > 2 else {}))
        return results

    async def until(self, action, data, ready, **expectations):
        """Asks each side until it is so there."""
        async def one(connection):
            deadline = time.monotonic() + sides.PATIENCE
            while True:
                answer = await self.ask_one(connection, action, data)
                if ready(answer):
                    return answer
                assert time.monotonic() < deadline, f"{connection.side.name} never got there: {answer}"
                await asyncio.sleep(0.02)

        answers = await asyncio.gather(*(one(connection) for connection in self.connections))
        return self._judge(action, answers, **expectations)

    async def raw(self, message, sequence=None, **expectations):
        """A message as it is (text, or what becomes JSON); the answer is the one with that seq_id (a pair: with that of
        each side), or none."""
        text = message if isinstance(message, str) else json.dumps(message)
        if sequence is None:
            sequence = message.get("seq_id", -1)
        sequences = sequence if isinstance(sequence, tuple) else (sequence, sequence)

        async def one(connection, sequence):
            await connection.send(text)
            # What is ignored is answered by nothing; what comes after it is answered later than it.
            for _ in range(2):
                pong = await self.ask_one(connection, "__ping", {})
                assert pong and pong["code"] == 0, f"{connection.side.name} is broken by {text[:200]}: {pong}"
            return await connection.answer(sequence, 0.05 if isinstance(message, str) else sides.PATIENCE)

        answers = await asyncio.gather(*map(one, self.connections, sequences))
        return self._judge(None, answers, **expectations)

    async def start(self, action, data, context=OWN):
        """Sends a request and does not wait: what `finish` takes."""
        sequences = []
        for connection in self.connections:
            sequence = connection.next()
            await connection.send(self._request(sequence, action, data, context))
            sequences.append(sequence)
        return action, sequences

    async def finish(self, started, patience=(sides.PATIENCE, sides.PATIENCE), **expectations):
        """`patience`: after so many seconds, each side's, there is no answer."""
        action, sequences = started
        answers = await asyncio.gather(*(connection.answer(*how) for connection, *how in
                                         zip(self.connections, sequences, patience)))
        return self._judge(action, answers, **expectations)

    # --- how ---

    def _request(self, sequence, action, data, context):
        message = {"seq_id": sequence, "action": action, "data": data}
        if context is OWN:
            context = self.context() if listed.TENANTS and action not in HOST_ACTIONS else None
        if context is not None:
            message["context"] = context
        return json.dumps(message)

    async def ask_one(self, connection, action, data, context=OWN):
        """One request to one side; nothing is compared."""
        sequence = connection.next()
        await connection.send(self._request(sequence, action, data, context))
        return await connection.answer(sequence)

    async def _ask(self, action, data, context):
        return await asyncio.gather(*(self.ask_one(connection, action, data, context) for connection in self.connections))

    def _judge(self, action, answers, names=(), **expectations):
        """`names`: what both messages of a failure must hold, such as the field that is wrong."""
        for server, answer in zip(self.servers, answers):
            for text in (names,) if isinstance(names, str) else names:
                assert answer and text in answer["message"], f"{server.name} does not name {text}: {answer}"
        normal = [self._without_number(compare.normalise(action, answer), sent=bool(answer)) for answer in answers]
        self.judge(action, normal, answers, **expectations)
        return answers

    @staticmethod
    def _without_number(answer, sent):
        # Each side counts its requests by itself; that an answer has the number of its request is how it was found.
        answer = dict(answer)
        if sent and isinstance(answer.get("seq_id"), int):
            answer["seq_id"] = "<asked>"
        return answer

    def judge(self, what, normal, shown=None, differs=None, at=None, ignore=()):
        """Compares two normalised values. `differs`: the listed difference that must be met here, `at`: exactly the
        places where it shows, unless it is None. `ignore`: places that are not compared."""
        self.tally.steps += 1
        found = compare.differing(*compare.outcomes(*normal))
        found = {path: both for path, both in found.items()
                 if not any(path == place or path.startswith(f"{place}.") for place in ignore)}
        found = self._without_more(found)
        report = f"{what}: {json.dumps(clip(shown or normal), indent=1, ensure_ascii=False)}\n" + "\n".join(
            f"  {path}: boxd {clip(left)!r}, python {clip(right)!r}" for path, (left, right) in found.items())
        if differs is None:
            assert not found, f"they differ: {report}"
            return
        entry = listed.LISTED[differs]
        assert listed.applies(entry), f"{differs} is not listed for {listed.VERSION}: {report}"
        assert found, f"{differs} does not differ any more: {report}"
        places = {at} if isinstance(at, str) else set(at or found)
        assert set(found) == places, f"{differs} shows at {sorted(found)}, not {sorted(places)}: {report}"
        self._met(differs)

    def _without_more(self, found):
        """Without what boxd says beyond the protocol, in keys that clients do not look for."""
        keys = listed.LISTED["more-keys"]["keys"]
        left = {path: both for path, both in found.items() if not compare.is_more(path, both, keys)}
        if len(left) < len(found):
            self._met("more-keys")
        return left

    def _met(self, difference):
        self.tally.seen[difference] = self.tally.seen.get(difference, 0) + 1

    # --- between scripts ---

    def stop(self):
        assert self.boxd.stop() == 0, f"boxd's end:\n{self.boxd.log()}"
        self.python.stop()  # however it ends
        self.python.kill_rest()

    async def clear(self):
        """Deletes what a script has left, on each side as it is there."""
        for connection in self.connections:
            listing = await self.ask_one(connection, "box_get_sessions", {})
            for info in listing["data"].get("sessions", ()):
                await self.ask_one(connection, "box_delete_session", {"session_id": info["session_id"]})


def clip(value, limit=400):
    """For a report."""
    if isinstance(value, str) and len(value) > limit:
        return f"{value[:limit // 2]} […{len(value)} characters…] {value[-limit // 2:]}"
    if isinstance(value, dict):
        return {key: clip(item, limit) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clip(item, limit) for item in copy.copy(value)]
    return value
