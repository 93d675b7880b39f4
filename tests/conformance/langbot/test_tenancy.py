# SPDX-License-Identifier: Apache-2.0
"""What came with 0.5: a host proves who it is, and speaks for workspaces that do not see each other. And what is left
to those who do neither."""

import asyncio
import json

import pytest
import websockets
from daemon import asynchronous, unique
from harness import SERVER, boxd_only, tenants_only
from langbot_plugin.box import errors
from langbot_plugin.entities.io.errors import ActionCallError
from peer import (INSTANCE, INSTANCE_ENV, INSTANCE_HEADER, TENANTS, TOKEN_ENV, TOKEN_HEADER, Peer, make_context,
                  open_websocket, refusal, websocket_peer)

if TENANTS:
    from langbot_plugin.box.tenancy import namespace_session_id

TOKEN = "correct-horse-battery-staple-0123456789"


# --- who may connect ---


@tenants_only
@asynchronous
async def test_the_first_instance_is_pinned(make_server):
    server = make_server()
    async with websocket_peer(server) as peer:
        assert await refusal(server, instance="another") == 401
        assert await refusal(server, instance=INSTANCE + "x") == 401
        async with websocket_peer(server):
            assert await peer.call("__ping") == {}
    assert await refusal(server, instance="another") == 401, "also when the first is gone"


@tenants_only
@asynchronous
async def test_an_instance_that_is_configured(make_server):
    server = make_server(env={INSTANCE_ENV: INSTANCE})
    assert await refusal(server, instance="early-bird") == 401
    async with websocket_peer(server) as peer:
        assert await peer.call("__ping") == {}


@tenants_only
@asynchronous
async def test_instances_that_are_no_names(server):
    for instance in ("-x", ".x", "a b", "a/b", "ä", "x" * 129, "a\tb"):
        if instance.isascii():
            assert await refusal(server, headers={INSTANCE_HEADER: instance}) == 401, instance
    if SERVER == "python":
        assert await refusal(server, headers={}) == 401


@tenants_only
@asynchronous
async def test_the_control_token(make_server):
    server = make_server(env={TOKEN_ENV: TOKEN})
    for wrong in (None, "", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "y" * len(TOKEN)):
        headers = {INSTANCE_HEADER: INSTANCE, **({} if wrong is None else {TOKEN_HEADER: wrong})}
        assert await refusal(server, headers=headers) == 401, wrong
    assert await refusal(server, headers={TOKEN_HEADER: TOKEN}) == 401, "a token and no instance"
    async with websocket_peer(server, token=TOKEN) as peer:
        name = unique()
        assert await peer.out(name, "echo in") == "in"
        assert await refusal(server, headers={INSTANCE_HEADER: "another", TOKEN_HEADER: TOKEN}) == 401
        await peer.start(name, "cat")
        async with peer.relay(name) as socket:
            await socket.send("here")
            assert (await socket.recv()).strip() == "here"


@boxd_only(reason="the Python runtime of 0.4 knows no tokens")()
@asynchronous
async def test_who_has_no_token_is_not_served_the_old_way(make_server):
    for options in ({"env": {TOKEN_ENV: TOKEN}}, {"config": {"tenancy": "required"}}):
        server = make_server(**options)
        assert await refusal(server, headers={}) == 401


# --- contexts ---


BAD_CONTEXTS = [
    None, "text", [], {}, {"workspace_uuid": "w", "placement_generation": 1},
    {"instance_uuid": INSTANCE, "placement_generation": 1}, {"instance_uuid": INSTANCE, "workspace_uuid": " "},
    {"instance_uuid": INSTANCE, "workspace_uuid": "w", "placement_generation": 0},
    {"instance_uuid": INSTANCE, "workspace_uuid": "w", "placement_generation": -1},
    {"instance_uuid": INSTANCE, "workspace_uuid": "w", "placement_generation": "x"},
    {"instance_uuid": INSTANCE, "workspace_uuid": "w", "placement_generation": 1.5},
    {"instance_uuid": INSTANCE, "workspace_uuid": 7, "placement_generation": 1},
    {"instance_uuid": "another", "workspace_uuid": "w", "placement_generation": 1},
    {"instance_uuid": INSTANCE, "workspace_uuid": "w", "placement_generation": 1, "more": 1},
    {"instance_uuid": INSTANCE, "workspace_uuid": "w", "placement_generation": 1, "installation_uuid": ""},
]


@tenants_only
@asynchronous
async def test_no_context_no_sandbox(connect):
    async with connect() as peer:
        data = {"session_id": unique(), "cmd": "echo", "spec": {"command": "cat"}}
        for name in ("box_exec", "box_create_session", "box_get_session", "box_get_sessions", "box_delete_session",
                     "box_status", "box_start_managed_process", "box_get_managed_process", "box_stop_managed_process"):
            answer = await peer.ask(name, data)
            assert answer.code == 1 and answer.message.startswith("PermissionError:"), (name, answer)
        for context in BAD_CONTEXTS:
            answer = await peer.ask("box_exec", data, context=context)
            assert answer.code == 1, context
        good = {"instance_uuid": INSTANCE, "workspace_uuid": " w ", "installation_uuid": "i"}
        assert (await peer.ask("box_exec", data, context=good)).code == 0, "one without a generation is of the first"
        assert (await peer.ask("box_delete_session", data, context={**good, "workspace_uuid": "w"})).code == 0, "trimmed"


@tenants_only
@asynchronous
async def test_workspaces_do_not_see_each_other(connect):
    async with connect() as peer:
        other = peer.to(make_context())
        await peer.out("same", "echo mine > file")
        await other.out("same", "echo other > file")
        assert await peer.out("same", "cat file") == "mine"
        assert await other.out("same", "cat file") == "other"
        mine, theirs = await peer.get_session("same"), await other.get_session("same")
        assert mine["session_id"] == theirs["session_id"] == "same"
        assert mine["backend_session_id"] != theirs["backend_session_id"]
        await peer.create("only mine")
        assert [info["session_id"] for info in await other.get_sessions()] == ["same"]
        assert (await peer.get_status())["active_sessions"] == 2
        assert (await other.get_status())["active_sessions"] == 1
        await other.delete_session("same")
        assert await peer.out("same", "cat file") == "mine"


@tenants_only
@asynchronous
async def test_logical_names(connect):
    async with connect() as peer:
        for given, shown in (("a b/c", "a-b-c"), ("--x--", "x"), ("ü.y", ".y"), ("p_1:2", "p_1-2"), (" q ", "q")):
            assert (await peer.create(given))["session_id"] == shown
            assert (await peer.get_session(given))["session_id"] == shown
            result = await peer.exec(given, "true")
            assert result.session_id == shown
            await peer.start(given, "cat")
            assert (await peer.get_managed_process(given)).session_id == shown
            assert (await peer.get_session(given))["managed_process"]["session_id"] == shown
        for nothing in ("ü", "---", "//"):
            message = await peer.refused("box_create_session", {"session_id": nothing})
            assert "session_id" in message, message


# --- generations ---


@tenants_only
@asynchronous
async def test_a_newer_generation_takes_over(connect):
    async with connect() as peer:
        old = peer
        new = peer.to(make_context(peer.context.workspace_uuid, generation=2))
        name = unique()
        await old.out(name, "echo old > file")
        await old.start(name, "cat")
        socket = await old.relay(name)
        await socket.send("x")
        assert (await socket.recv()).strip() == "x"

        assert await new.get_sessions() == []
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            await asyncio.wait_for(socket.recv(), 30)
        with pytest.raises(errors.BoxSessionNotFoundError):
            await new.get_session(name)
        assert (await new.exec(name, "cat file")).exit_code == 1
        for ask in (old.get_sessions(), old.exec(name, "true"), old.get_session(name), old.get_status(),
                    old.delete_session(name)):
            with pytest.raises(errors.BoxError, match="PermissionError"):
                await ask
        assert [info["session_id"] for info in await new.get_sessions()] == [name]


@tenants_only
@asynchronous
async def test_a_running_request_of_an_older_one(connect):
    """It does not go on. (The Python runtime gives it no answer at all.)"""
    async with connect() as peer:
        directory = peer.server.directory()
        command = "touch running; sleep 600"
        task = asyncio.create_task(peer.exec(unique(), command, timeout_sec=600, host_path=str(directory)))
        for _ in range(1000):
            if (directory / "running").exists():
                break
            await asyncio.sleep(0.02)
        new = peer.to(make_context(peer.context.workspace_uuid, generation=7))
        assert await new.get_sessions() == []
        if SERVER == "python":
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return
        with pytest.raises(errors.BoxError, match="PermissionError"):
            await asyncio.wait_for(task, 30)


@tenants_only
@asynchronous
async def test_what_is_on_the_host_outlives_generations(connect):
    async with connect() as peer:
        directory = peer.server.directory()
        await peer.out("s", "echo kept > file", host_path=str(directory))
        new = peer.to(make_context(peer.context.workspace_uuid, generation=2))
        assert await new.out("s", "cat file", host_path=str(directory)) == "kept"


# --- those of 0.4 on the same port ---


@boxd_only(reason="each Python runtime serves its own generation")()
@asynchronous
async def test_both_generations_on_one_port(server):
    link = await open_websocket(server, headers={})
    old = Peer(server, link.client, link.handler, None)
    try:
        name = unique("old")
        assert await old.out(name, "echo 0.4") == "0.4"
        assert name in [info["session_id"] for info in await old.get_sessions()]
        if TENANTS:
            async with websocket_peer(server) as peer:
                theirs = unique()
                await peer.out(theirs, "echo hidden > file")
                physical = namespace_session_id(peer.context, theirs)
                assert physical not in json.dumps(await old.get_sessions())
                for ask in (old.get_session(physical), old.delete_session(physical), old.get_managed_process(physical)):
                    with pytest.raises(errors.BoxSessionNotFoundError):
                        await ask
                with pytest.raises(errors.BoxValidationError):
                    await old.exec(physical, "cat file")
                with pytest.raises(errors.BoxSessionNotFoundError):
                    await peer.get_session(name)
                assert await peer.out(theirs, "cat file") == "hidden"
        await old.delete_session(name)
    finally:
        await link.close()


@boxd_only(reason="the Python runtime of 0.4 ignores contexts")()
@asynchronous
async def test_a_context_without_an_instance(server):
    """Who did not say at the connection who it is cannot speak for a workspace afterwards."""
    link = await open_websocket(server, headers={})
    peer = Peer(server, link.client, link.handler, None)
    try:
        context = {"instance_uuid": INSTANCE, "workspace_uuid": "w", "placement_generation": 1}
        answer = await peer.ask("box_get_sessions", context=context)
        assert answer.code == 1 and answer.message.startswith("PermissionError:"), answer
        with pytest.raises(ActionCallError):
            await peer.call("box_no_such_thing")
    finally:
        await link.close()


# --- a restart ---


@boxd_only(reason="the Python runtime's sessions end with it")()
@asynchronous
async def test_sessions_are_found_again_after_a_restart(make_server):
    server = make_server()
    async with websocket_peer(server) as peer:
        name = unique()
        await peer.out(name, "echo kept > file")
        await peer.start(name, "cat", process_id="p")
        before = await peer.get_session(name)
        await asyncio.get_running_loop().run_in_executor(None, server.restart)
        async with websocket_peer(server, context=peer.context) as again:
            after = await again.get_session(name)
            assert [info["session_id"] for info in await again.get_sessions()] == [name]
            for key in ("backend_session_id", "created_at", "memory_mb", "image", "network", "host_path", "persistent"):
                assert after[key] == before[key], key
            assert await again.out(name, "cat file") == "kept"
            if TENANTS:
                older = again.to(make_context(peer.context.workspace_uuid, generation=1))
                newer = again.to(make_context(peer.context.workspace_uuid, generation=2))
                assert await newer.get_sessions() == [], "the fence holds for what was adopted too"
                with pytest.raises(errors.BoxError, match="PermissionError"):
                    await older.get_sessions()
