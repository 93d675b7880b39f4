# SPDX-License-Identifier: Apache-2.0
"""Many requests at once on one connection. Commands wait for each other's files in a directory of the host, so that
nothing depends on how fast anything is."""

import asyncio
import contextlib

import pytest
from daemon import asynchronous, unique
from harness import SERVER, python_before
from peer import VERSION, websocket_peer

WAIT = "while [ ! -e {} ]; do sleep 0.02; done"


@asynchronous
async def test_answers_overtake(connect):
    async with connect() as peer:
        directory = peer.server.directory()
        slow = asyncio.create_task(peer.exec(unique(), WAIT.format("go") + "; echo slow", host_path=str(directory)))
        assert await peer.out(unique(), "echo quick") == "quick"
        assert await peer.call("__ping") == {}
        assert not slow.done()
        (directory / "go").touch()
        assert (await slow).stdout == "slow"


@asynchronous
async def test_one_session_in_order(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        await asyncio.gather(*(peer.out(name, f"sleep 0.0{9 - i % 10}; echo {i} >> log") for i in range(20)))
        assert (await peer.out(name, "cat log")).split() == [str(i) for i in range(20)]


@asynchronous
async def test_several_sessions_at_the_same_time(connect):
    """Each waits for all the others."""
    async with connect() as peer:
        directory = peer.server.directory()
        count = 6
        others = "; ".join(WAIT.format(f"here-{i}") for i in range(count))
        results = await asyncio.gather(*(
            peer.exec(unique(), f"touch here-{i}; {others}; echo {i}", host_path=str(directory)) for i in range(count)))
        assert [result.stdout for result in results] == [str(i) for i in range(count)]


@python_before((0, 4, 17), "takes any number")
@asynchronous
async def test_the_129th_is_told_that_it_is_busy(connect):
    async with connect() as peer:
        directory = peer.server.directory()
        name = unique()
        mount = {"host_path": str(directory)}
        commands = [WAIT.format("go")] + [f"echo {i} >> log" for i in range(127)]
        tasks = [asyncio.create_task(peer.exec(name, command, timeout_sec=60, **mount)) for command in commands]
        await asyncio.sleep(0)  # so that they are sent before
        message = await peer.refused("__ping")
        assert "busy" in message.lower() and "128" in message, message
        assert not any(task.done() for task in tasks)
        (directory / "go").touch()
        assert all(result.ok for result in await asyncio.gather(*tasks))
        assert (directory / "log").read_text().split() == [str(i) for i in range(127)]
        assert await peer.call("__ping") == {}


@asynchronous
async def test_128_at_once(connect):
    async with connect() as peer:
        names = [unique() for _ in range(8)]
        results = await asyncio.gather(*(peer.exec(names[i % 8], f"echo {i}") for i in range(128)))
        assert [result.stdout for result in results] == [str(i) for i in range(128)]
        assert [result.session_id for result in results] == [names[i % 8] for i in range(128)]


@asynchronous
async def test_one_creation_for_many_who_want_it(connect):
    async with connect() as peer:
        name = unique()
        infos = await asyncio.gather(*(peer.create(name) for _ in range(10)))
        assert len({info["backend_session_id"] for info in infos}) == 1
        assert len(await peer.get_sessions()) == 1


@asynchronous
async def test_delete_waits_for_a_creation_under_way(connect):
    if SERVER == "python" and VERSION < (0, 4, 17):
        pytest.skip("0.4.2's Python runtime answers that there is none")
    async with connect() as peer:
        name = unique()
        creation = asyncio.create_task(peer.create(name))
        await asyncio.sleep(0)
        deletion = asyncio.create_task(peer.delete_session(name))
        await asyncio.gather(creation, deletion)
        assert await peer.get_sessions() == []


@asynchronous
async def test_several_connections(server):
    """One server, three clients; sessions are the workspace's, not the connection's."""
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(websocket_peer(server))
        others = [await stack.enter_async_context(websocket_peer(server, context=first.context)) for _ in range(2)]
        name = unique()
        await first.out(name, "echo shared > file")
        assert [await peer.out(name, "cat file") for peer in others] == ["shared", "shared"]
        results = await asyncio.gather(*(peer.exec(name, f"echo {i}") for i, peer in enumerate([first, *others] * 10)))
        assert [result.stdout for result in results] == [str(i) for i in range(30)]


@asynchronous
async def test_a_lost_connection_harms_nobody(server):
    if SERVER == "python" and VERSION < (0, 4, 17):
        pytest.skip("0.4.2's Python runtime lets the command go on")
    async with websocket_peer(server) as peer:
        name = unique()
        await peer.out(name, "echo kept > file")
        async with websocket_peer(server, context=peer.context) as lost:
            task = asyncio.create_task(lost.exec(name, "sleep 600", timeout_sec=600))
            await lost.call("__ping")
            await lost.link.drop()
            if VERSION >= (0, 4, 17):  # the older client only sees its time-out
                with pytest.raises(Exception):
                    await task
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert await peer.out(name, "cat file") == "kept"
