# SPDX-License-Identifier: Apache-2.0
"""The same through the client of the version: what it returns, and what it raises."""

import asyncio
import contextlib
import inspect
import logging

from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.box.models import BoxManagedProcessSpec, BoxSpec
from langbot_plugin.runtime.io.controllers.ws.client import WebSocketClientController
from langbot_plugin.runtime.io.handler import Handler

import compare
import listed
import sides
from scripts import script


@contextlib.asynccontextmanager
async def client_of(server):
    """A connected client: its connection lives in a task, as it does in LangBot."""
    client = ActionRPCBoxClient(logging.getLogger("client"))
    ready, failure = asyncio.Event(), []

    async def connected(connection):
        handler = Handler(connection)
        client.set_handler(handler)
        ready.set()
        await handler.run()

    async def gone(_controller, error=None):
        failure.append(error)
        ready.set()

    options = {"additional_headers": {"X-LangBot-Instance-Id": sides.INSTANCE}} if listed.TENANTS else {}
    controller = WebSocketClientController(f"ws://127.0.0.1:{server.port}/rpc/ws", gone, **options)
    task = asyncio.create_task(controller.run(connected))
    try:
        await asyncio.wait_for(ready.wait(), sides.PATIENCE)
        assert not failure, failure
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def plain(value):
    """What a client returns, as JSON has it."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


async def both(pair, clients, method, *args, **expectations):
    outcomes = []
    for client in clients:
        call = getattr(client, method)
        options = {"action_context": pair.context()} if "action_context" in inspect.signature(call).parameters else {}
        try:
            outcome = {"value": compare.normalise(method, {"code": 0, "data": {"value": plain(await call(*args, **options))}})["data"]}
        except Exception as error:  # of whatever class: that is what is compared
            outcome = {"raised": type(error).__name__}
        outcomes.append(outcome)
    pair.judge(method, outcomes, **expectations)


@script()
async def methods(pair):
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(server)) for server in pair.servers]

        async def each(method, *args, **expectations):
            await both(pair, clients, method, *args, **expectations)

        await each("initialize")
        await each("init", {})
        for cmd in ("echo hello", "exit 4", "printf 'é\\377'", "sleep 0; echo err >&2"):
            await each("execute", BoxSpec(session_id="c", cmd=cmd))
        await each("execute", BoxSpec(session_id="c", cmd=""))
        await each("execute", BoxSpec(session_id="c", cmd="true", memory_mb=64))
        await each("create_session", BoxSpec(session_id="c"))
        await each("create_session", BoxSpec(session_id="d", persistent=True, cpus=0.5, env={"A": "1"}))
        await each("get_session", "c")
        await each("get_session", "nobody")
        await each("start_managed_process", "c", BoxManagedProcessSpec(command="sleep", args=["100"], env={"B": "1", "A": "2"}))
        await each("start_managed_process", "nobody", BoxManagedProcessSpec(command="sleep"))
        await each("get_managed_process", "c")
        await each("get_managed_process", "c", "other")
        await each("get_session", "c")
        await each("stop_managed_process", "c")
        await each("stop_managed_process", "c")
        await each("delete_session", "d")
        await each("delete_session", "d")
        await each("execute", BoxSpec(session_id="c", cmd="head -c 300000 /dev/zero | tr '\\0' x"))
        await each("execute", BoxSpec(session_id="c", cmd="wc -c <<E\n" + "y" * 30_000 + "\nE"))
        await each("shutdown")
