# SPDX-License-Identifier: Apache-2.0
"""Managed processes from start to end, and the relay that talks to one."""

import asyncio
import json

import pytest
import websockets
from daemon import asynchronous, unique
from harness import SERVER, TENANTS, boxd_only
from langbot_plugin.box import errors
from langbot_plugin.box.models import BoxManagedProcessSpec
from peer import relay_refusal, websocket_peer

PROCESS_KEYS = {"session_id", "process_id", "status", "command", "args", "cwd", "env_keys", "attached", "started_at",
                "exited_at", "exit_code", "stderr_preview"}


@asynchronous
async def test_a_life(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        info = await peer.start(name, "sh", "-c", "echo hello >&2; cat; exit 4", env={"B": "2", "A": "1"})
        assert (info.session_id, info.process_id, info.status.value) == (name, "default", "running")
        assert (info.command, info.args, info.cwd) == ("sh", ["-c", "echo hello >&2; cat; exit 4"], "/workspace")
        assert (info.env_keys, info.attached, info.exited_at, info.exit_code) == (["A", "B"], False, None, None)
        raw = await peer.call("box_get_managed_process", {"session_id": name})
        assert PROCESS_KEYS <= set(raw) and raw["started_at"] and raw["exited_at"] is None

        session = await peer.get_session(name)
        assert set(session["managed_processes"]) == {"default"}
        assert session["managed_process"]["process_id"] == session["managed_processes"]["default"]["process_id"]
        assert session["managed_process"]["session_id"] == name

        stopped = await peer.call("box_stop_managed_process", {"session_id": name})
        assert stopped == {"stopped": "default"}
        with pytest.raises(errors.BoxManagedProcessNotFoundError):
            await peer.get_managed_process(name)
        assert "managed_processes" not in await peer.get_session(name)


@asynchronous
async def test_an_end_of_its_own(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "sh", "-c", "echo because >&2; exit 7", process_id="short")
        info = await peer.ended(name, "short")
        assert info.exit_code == 7 and info.exited_at >= info.started_at
        assert info.stderr_preview == "because"
        session = await peer.get_session(name)
        assert session["managed_processes"]["short"]["status"] == "exited"
        assert "managed_process" not in session, "that is the one called default"
        await peer.stop_managed_process(name, "short")
        with pytest.raises(errors.BoxManagedProcessNotFoundError):
            await peer.get_managed_process(name, "short")


@asynchronous
async def test_the_end_of_standard_error(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "sh", "-c", "seq 1 3000 >&2; sleep 0.3; echo the end >&2")
        await peer.ended(name)
        for _ in range(100):  # the Python runtime reads it after the end
            info = await peer.get_managed_process(name)
            if SERVER == "boxd" or info.stderr_preview.endswith("the end"):
                break
            await asyncio.sleep(0.05)
        assert len(info.stderr_preview) <= 4000 and info.stderr_preview.endswith("the end")
        if SERVER == "boxd":  # the Python runtime drops whole pieces
            assert len(info.stderr_preview) > 3900 and "2999\n3000\n" in info.stderr_preview


@asynchronous
async def test_environment_and_directory(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "sh", "-c", 'pwd >&2; echo "$A" >&2', env={"A": "ü x"}, cwd="/workspace/deep/down")
        where, told = (await peer.ended(name)).stderr_preview.splitlines()
        assert where.endswith("/deep/down") and told == "ü x"
        await peer.start(name, "echo", "no shell; $A", "*", process_id="args")
        assert (await peer.ended(name, "args")).exit_code == 0


@asynchronous
async def test_the_same_id_takes_the_place(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        first = await peer.start(name, "cat")
        second = await peer.start(name, "sleep", "600")
        assert second.started_at > first.started_at
        info = await peer.get_managed_process(name)
        assert (info.status.value, info.command) == ("running", "sleep")
        assert len((await peer.get_session(name))["managed_processes"]) == 1
        await peer.start(name, "true")
        await peer.ended(name)
        assert (await peer.start(name, "cat")).status.value == "running", "one that has ended too"


@asynchronous
async def test_several_in_one_session(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        for process in ("a", "b-2", "uuid:3f.x"):
            assert (await peer.start(name, "cat", process_id=process)).process_id == process
        assert set((await peer.get_session(name))["managed_processes"]) == {"a", "b-2", "uuid:3f.x"}
        assert await peer.out(name, "echo beside them") == "beside them"
        await peer.stop_managed_process(name, "b-2")
        assert (await peer.get_managed_process(name, "a")).status.value == "running"


@asynchronous
async def test_one_that_does_not_listen_is_killed(connect):
    """Standard input is closed, SIGTERM comes, after five seconds SIGKILL."""
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "sh", "-c", "trap '' TERM; echo ready >&2; while :; do sleep 0.1; done")
        for _ in range(500):
            if (await peer.get_managed_process(name)).stderr_preview:
                break
            await asyncio.sleep(0.02)
        await peer.stop_managed_process(name)
        with pytest.raises(errors.BoxManagedProcessNotFoundError):
            await peer.get_managed_process(name)


@boxd_only(reason="the plain backend limits nothing")()
@asynchronous
async def test_memory_of_its_own(connect):
    if "memory_mb" not in BoxManagedProcessSpec.model_fields:
        pytest.skip("0.4.2 has no memory for a process")
    async with connect() as peer:
        name = unique()
        await peer.create(name, memory_mb=256)
        eat = "import sys\nx = bytearray(100 << 20)\nprint(len(x), file=sys.stderr)"
        await peer.start(name, "/usr/bin/python3", "-c", eat, process_id="small", memory_mb=48)
        small = await peer.ended(name, "small")
        assert small.exit_code != 0 and str(100 << 20) not in small.stderr_preview
        await peer.start(name, "/usr/bin/python3", "-c", eat, process_id="inherits")
        assert (await peer.ended(name, "inherits")).exit_code == 0
        assert await peer.out(name, "echo unharmed", memory_mb=256) == "unharmed"


@asynchronous
async def test_a_command_that_is_not_there(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        try:
            await peer.start(name, "/no/such/program")
        except errors.BoxError:
            return  # said at once
        assert (await peer.ended(name)).exit_code != 0


# --- the relay ---


async def lines(socket, count):
    """That many lines, however they are put into frames (0.5's Python runtime sends pieces)."""
    text = ""
    while text.count("\n") < count:
        frame = await asyncio.wait_for(socket.recv(), 30)
        text += frame if frame.endswith("\n") or (SERVER == "python" and TENANTS) else frame + "\n"
    return text.splitlines()


@asynchronous
async def test_relay(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "cat", process_id="echo")
        async with peer.relay(name, "echo") as socket:
            assert socket.subprotocol == "mcp"
            sent = [json.dumps({"id": i, "text": "ü☃" * i}) for i in range(100)]
            for line in sent:
                await socket.send(line)
            assert await lines(socket, 100) == sent
            assert (await peer.get_managed_process(name, "echo")).attached is True
        for _ in range(500):
            if not (await peer.get_managed_process(name, "echo")).attached:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("still attached")
        assert (await peer.get_managed_process(name, "echo")).status.value == "running", "it outlives the connection"
        async with peer.relay(name, "echo") as socket:
            await socket.send("again")
            assert await lines(socket, 1) == ["again"]


@asynchronous
async def test_relay_of_the_default_process_by_its_short_path(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "cat")
        url = peer.relay_url(name).replace("/managed-process/default/ws", "/managed-process/ws")
        async with peer.relay(name, url=url) as socket:
            await socket.send("short")
            assert await lines(socket, 1) == ["short"]


@asynchronous
async def test_relay_one_at_a_time(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "cat")
        async with peer.relay(name) as first:
            await first.send("first")
            assert await lines(first, 1) == ["first"]
            async with peer.relay(name) as second:
                await second.send("second")
                await first.send("first again")
                assert await lines(first, 1) == ["first again"]
                await first.close()
                assert await lines(second, 1) == ["second"]


@asynchronous
async def test_the_relay_ends_with_the_process(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "sh", "-c", "read line; echo \"got $line\"")
        async with peer.relay(name) as socket:
            await socket.send("it")
            assert await lines(socket, 1) == ["got it"]
            with pytest.raises(websockets.exceptions.ConnectionClosed):
                await asyncio.wait_for(socket.recv(), 30)
            assert socket.close_code == 1000


@asynchronous
async def test_relay_refusals(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "true", process_id="over")
        await peer.ended(name, "over")
        cases = [(unique("nobody"), "x", "BoxSessionNotFoundError"), (name, "x", "BoxManagedProcessNotFoundError"),
                 (name, "over", "BoxManagedProcessConflictError")]
        for session, process, code in cases:
            status, body = await relay_refusal(peer.relay(session, process))
            assert (status, json.loads(body)["error"]["code"]) == (400, code)
            assert json.loads(body)["error"]["message"]


@asynchronous
async def test_sockets_are_told_of_the_end(make_server):
    if SERVER == "python":
        pytest.skip("the stub's launcher ends at once")
    server = make_server()
    async with websocket_peer(server) as peer:
        name = unique()
        await peer.create(name)
        await peer.start(name, "cat")
        async with peer.relay(name) as socket:
            await asyncio.get_running_loop().run_in_executor(None, server.restart)
            with pytest.raises(websockets.exceptions.ConnectionClosed):
                await asyncio.wait_for(socket.recv(), 30)
            assert socket.close_code == 1001


@boxd_only(reason="the Python runtime of 0.5 sends pieces, and those of 0.4 no line over 64 KiB")()
@asynchronous
async def test_each_line_is_a_message(connect):
    """So that each is one JSON-RPC message, whatever the pieces it was printed in."""
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        script = ("import sys\ninput()\nfor i in range(50):\n  sys.stdout.write('{\"a\":'); sys.stdout.flush(); "
                  "sys.stdout.write('%d}\\n{\"b\":1}\\n' % i); sys.stdout.flush()\nprint('x' * 3000000)\ninput()")
        await peer.start(name, "/usr/bin/python3", "-c", script)
        async with peer.relay(name) as socket:
            await socket.send("begin")
            for i in range(50):
                assert [await socket.recv(), await socket.recv()] == [f'{{"a":{i}}}', '{"b":1}']
            assert await socket.recv() == "x" * 3000000
