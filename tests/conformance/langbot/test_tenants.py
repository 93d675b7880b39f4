# SPDX-License-Identifier: Apache-2.0
"""Attacks of one tenant on another, with every action and every wrong identity. Whatever is asked about somebody
else's session, the answer is the one for a session that does not exist, to the letter, or a refusal that says nothing
but that it is one; and nothing has changed for the one it was about."""

import itertools
import json
import re

from daemon import asynchronous, unique
from harness import boxd_only, tenants_only
from peer import (GENERATION_HEADER, INSTANCE, INSTANCE_HEADER, TENANTS, TOKEN_ENV, TOKEN_HEADER, WORKSPACE_HEADER, Peer,
                  make_context, open_websocket, relay_refusal, websocket_peer)

if TENANTS:
    from langbot_plugin.box.tenancy import box_namespace, namespace_session_id

pytestmark = tenants_only
TOKEN = "correct-horse-battery-staple-0123456789"
GENERATION = 3
VICTIM = "victim-workspace"

# Actions about one session, with a name to be filled in.
ABOUT_ONE = [
    ("box_get_session", {}),
    ("box_delete_session", {}),
    ("box_start_managed_process", {"spec": {"command": "cat", "process_id": "p"}}),
    ("box_get_managed_process", {"process_id": "p"}),
    ("box_stop_managed_process", {"process_id": "p"}),
]
# Those that make one, or list.
OTHERS = [("box_exec", {"cmd": "ls -A"}), ("box_create_session", {}), ("box_get_sessions", {}), ("box_status", {})]


class Victim:
    """A workspace with a session, a process and a file, and how to see that they are unharmed."""

    def __init__(self, peer):
        self.peer = peer
        self.session = unique("secret")
        self.physical = namespace_session_id(peer.context, self.session)

    async def set_up(self):
        await self.peer.out(self.session, "echo private > file")
        await self.peer.start(self.session, "cat", process_id="p")
        self.before = await self.peer.get_session(self.session)
        return self

    async def check(self):
        after = await self.peer.get_session(self.session)
        assert after["backend_session_id"] == self.before["backend_session_id"]
        assert after["managed_processes"]["p"]["started_at"] == self.before["managed_processes"]["p"]["started_at"]
        assert after["managed_processes"]["p"]["status"] == "running"
        assert await self.peer.out(self.session, "cat file") == "private"
        assert [info["session_id"] for info in await self.peer.get_sessions()] == [self.session]

    def names(self):
        """What somebody else might call it."""
        return [self.session, self.physical, self.before["backend_session_id"], f"../{self.physical}", f"{self.session}/",
                f" {self.session} ", f"./{self.session}", f"x/../{self.session}", f"{self.session}%00",
                self.physical.upper(), self.physical.replace(f"-g{GENERATION}-", "-g*-")]


def victim_peer(server, **options):
    return websocket_peer(server, context=make_context(VICTIM, GENERATION), **options)


def plain(message, *names):
    """A message without the names that are in it."""
    for name in sorted(names, key=len, reverse=True):
        for form in (name, re.sub(r"[^A-Za-z0-9_.-]+", "-", name.strip()).strip("-")):
            message = message.replace(form, "NAME") if form else message
    return re.sub(r"ws-[0-9a-f]{24}-g\d+-", "", message)


def strangers():
    """Workspaces whose names are near to the victim's."""
    return [f"{VICTIM}-2", VICTIM[:-1], VICTIM.upper(), f"{VICTIM}\u0001", f"{VICTIM}/", f"{INSTANCE}/{VICTIM}", "*", "%",
            f"{VICTIM}'--", "ws-" + "0" * 24, "Ⅴictim-workspace"]


@asynchronous
async def test_other_workspaces(server):
    async with victim_peer(server) as peer:
        victim = await Victim(peer).set_up()
        for workspace in [*strangers(), box_namespace(peer.context)]:
            stranger = peer.to(make_context(workspace, GENERATION))
            nobody = unique("nobody")
            for action, data in ABOUT_ONE:
                expected = plain(await stranger.refused(action, {"session_id": nobody, **data}), nobody)
                assert expected.startswith("BoxSessionNotFoundError:")
                for name in victim.names():
                    got = await stranger.refused(action, {"session_id": name, **data})
                    assert plain(got, name) == expected, (action, workspace, name)
            assert await stranger.get_sessions() == []
            assert (await stranger.get_status())["active_sessions"] == 0
            assert (await stranger.get_status())["managed_processes"] == 0
        await victim.check()


@asynchronous
async def test_the_same_names_are_other_sessions(server):
    async with victim_peer(server) as peer:
        victim = await Victim(peer).set_up()
        stranger = peer.to(make_context(f"{VICTIM}-2", GENERATION))
        for name in victim.names():
            assert await stranger.out(name, "ls -A") == ""
        own = await stranger.get_sessions()
        assert {info["backend_session_id"] for info in own}.isdisjoint({victim.before["backend_session_id"]})
        for info in own:
            await stranger.delete_session(info["session_id"])
        await victim.check()


@asynchronous
async def test_contexts_that_are_refused(server):
    """With and without a session of that name, all answers of a kind are the same."""
    async with victim_peer(server) as peer:
        victim = await Victim(peer).set_up()
        good = {"instance_uuid": INSTANCE, "workspace_uuid": VICTIM, "placement_generation": GENERATION}
        wrong = {
            "no context": {},
            "null": {"context": None},
            "another instance": {"context": {**good, "instance_uuid": "another"}},
            "an older generation": {"context": {**good, "placement_generation": GENERATION - 1}},
            "the first generation": {"context": {**good, "placement_generation": 1}},
            "generation zero": {"context": {**good, "placement_generation": 0}},
            "no workspace": {"context": {key: good[key] for key in good if key != "workspace_uuid"}},
            "one key too many": {"context": {**good, "admin": True}},
            "a list": {"context": [good]},
        }
        for kind, keys in wrong.items():
            messages = set()
            for action, data in ABOUT_ONE + OTHERS:
                for name in (victim.session, victim.physical, unique("nobody")):
                    answer = await peer.ask(action, {"session_id": name, **data}, **keys)
                    assert answer.code == 1 and answer.data == {}, (kind, action, answer)
                    assert name not in answer.message and "private" not in answer.message
                    messages.add(answer.message)
            assert len(messages) == 1, (kind, messages)
        await victim.check()


@boxd_only(reason="each Python runtime serves its own generation")()
@asynchronous
async def test_peers_without_an_instance(server):
    """0.4's way in: sessions of tenants do not exist there, and their names cannot be given."""
    async with victim_peer(server) as peer:
        victim = await Victim(peer).set_up()
        link = await open_websocket(server, headers={})
        old = Peer(server, link.client, link.handler, None)
        try:
            for action, data in ABOUT_ONE:
                nobody = unique("nobody")
                expected = plain(await old.refused(action, {"session_id": nobody, **data}), nobody)
                for name in (victim.session, victim.physical, f" {victim.physical} "):
                    assert plain(await old.refused(action, {"session_id": name, **data}), name) == expected, (action, name)
            for action in ("box_exec", "box_create_session"):
                message = await old.refused(action, {"session_id": victim.physical, "cmd": "cat file"})
                assert message.startswith("BoxValidationError:")
                # It does not tell whether there is one.
                free = victim.physical[:-4] + "none"
                other = await old.refused(action, {"session_id": free, "cmd": "cat file"})
                assert plain(other, free) == plain(message, victim.physical)
            assert victim.physical not in json.dumps(await old.get_sessions())
        finally:
            await link.close()
        await victim.check()


# --- the relay ---

INSTANCES = [INSTANCE, "another", None, "", "-", INSTANCE.upper()]
WORKSPACES = [VICTIM, f"{VICTIM}-2", None, "", "x" * 257]
GENERATIONS = [str(GENERATION), str(GENERATION - 1), str(GENERATION + 1), None, "", f"0{GENERATION}", f"{GENERATION}.0",
               f"+{GENERATION}", "x", "-1", str(1 << 64)]
TOKENS = [TOKEN, TOKEN[:-1], None]


@asynchronous
async def test_the_relay_with_every_wrong_header(make_server):
    server = make_server(env={TOKEN_ENV: TOKEN})
    async with victim_peer(server, token=TOKEN) as peer:
        victim = await Victim(peer).set_up()
        bodies, opened = set(), 0
        for values in itertools.product(INSTANCES, WORKSPACES, GENERATIONS, TOKENS):
            wrong = sum(value != right for value, right in zip(values, (INSTANCE, VICTIM, str(GENERATION), TOKEN)))
            if wrong > 2:
                continue  # three wrong ones tell nothing that two do not
            names = (INSTANCE_HEADER, WORKSPACE_HEADER, GENERATION_HEADER, TOKEN_HEADER)
            headers = {name: value for name, value in zip(names, values) if value is not None}
            connecting = peer.relay(victim.session, "p", headers=headers)
            if wrong == 0:
                async with connecting as socket:
                    await socket.send("mine")
                    assert (await socket.recv()).strip() == "mine"
                opened += 1
                continue
            status, body = await relay_refusal(connecting)
            assert status == 401, headers
            token = values[-1]
            bodies.add(("none" if token is None else "right" if token == TOKEN else "wrong", body))
        # It may say whether there was a token, and the right one, which who sends it knows: no more than that.
        assert opened == 1 and len(bodies) == 3, bodies
        await victim.check()


@asynchronous
async def test_the_relay_of_somebody_else(server):
    """Right headers of one's own, and a session of another: no more is said than of one that was never there."""
    async with victim_peer(server) as peer:
        victim = await Victim(peer).set_up()
        stranger = peer.to(make_context(f"{VICTIM}-2", GENERATION))
        await stranger.create("own")
        base = f"ws://127.0.0.1:{server.port}/v1/sessions"
        refusals = set()
        for name in (victim.physical, namespace_session_id(peer.context, unique("nobody")), unique("plain")):
            for path in (f"{base}/{name}/managed-process/p/ws", f"{base}/{name}/managed-process/ws"):
                status, body = await relay_refusal(stranger.relay("", url=path))
                refusals.add((status, plain(body, name)))
        assert len(refusals) == 1 and next(iter(refusals))[0] == 401, refusals
        # Of one's own it is said what is missing.
        status, body = await relay_refusal(stranger.relay("nothing"))
        assert (status, json.loads(body)["error"]["code"]) == (400, "BoxSessionNotFoundError")
        status, body = await relay_refusal(stranger.relay("own"))
        assert (status, json.loads(body)["error"]["code"]) == (400, "BoxManagedProcessNotFoundError")
        await stranger.delete_session("own")
        await victim.check()


@asynchronous
async def test_the_relay_does_not_move_the_fence(server):
    async with victim_peer(server) as peer:
        victim = await Victim(peer).set_up()
        newer = peer.to(make_context(VICTIM, GENERATION + 1))
        status, _ = await relay_refusal(newer.relay(victim.session, "p"))
        assert status == 401
        await victim.check()


@boxd_only(reason="only boxd serves sessions without a tenant beside those with one")()
@asynchronous
async def test_the_relay_without_headers(server):
    async with victim_peer(server) as peer:
        victim = await Victim(peer).set_up()
        nobody = namespace_session_id(peer.context, unique("nobody"))
        answers = set()
        for name in (victim.physical, nobody):
            url = f"ws://127.0.0.1:{server.port}/v1/sessions/{name}/managed-process/p/ws"
            status, body = await relay_refusal(peer.relay("", url=url, headers={}))
            answers.add((status, plain(body, name)))
        assert len(answers) == 1 and next(iter(answers))[0] == 401, answers
        await victim.check()


# --- numbers ---


@asynchronous
async def test_numbers_tell_nothing(server):
    async with victim_peer(server) as peer:
        stranger = peer.to(make_context(f"{VICTIM}-2", GENERATION))
        before = await stranger.get_status()
        victim = await Victim(peer).set_up()
        assert await stranger.get_status() == before
        assert await stranger.get_sessions() == []
        await victim.check()


@asynchronous
async def test_one_workspace_at_the_limit_is_told_so_and_no_more(make_server):
    async with victim_peer(make_server()) as peer:
        victim = await Victim(peer).set_up()
        await peer.init({"limits": {"max_sessions": 1}})
        stranger = peer.to(make_context(f"{VICTIM}-2", GENERATION))
        message = await stranger.refused("box_create_session", {"session_id": "x"})
        assert message.startswith("BoxCapacityExceededError:")
        assert VICTIM not in message and victim.session not in message and "ws-" not in message
        await victim.check()
