# SPDX-License-Identifier: Apache-2.0
"""LangBot's side of a connection: the client, handler and I/O layer of the installed `langbot-plugin`, put together
and taken apart as LangBot does it."""

import asyncio
import contextlib
import functools
import importlib.metadata
import inspect
import json
import logging
import types
import uuid

import pytest
import websockets
from langbot_plugin.box import errors
from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.box.models import BoxManagedProcessSpec, BoxSpec
from langbot_plugin.entities.io.errors import ActionCallError
from langbot_plugin.runtime.io.controllers.stdio.client import StdioClientController
from langbot_plugin.runtime.io.controllers.ws.client import WebSocketClientController
from langbot_plugin.runtime.io.handler import Handler

VERSION = tuple(int(part) for part in importlib.metadata.version("langbot-plugin").split("."))
TENANTS = VERSION >= (0, 5)
INSTANCE = "conformance-instance"
CONNECT_SECONDS = 30  # what LangBot waits

TOKEN_HEADER = "X-LangBot-Box-Control-Token"
INSTANCE_HEADER = "X-LangBot-Instance-Id"
WORKSPACE_HEADER = "X-LangBot-Workspace-Id"
GENERATION_HEADER = "X-LangBot-Placement-Generation"
TOKEN_ENV = "LANGBOT_BOX_CONTROL_TOKEN"
INSTANCE_ENV = "LANGBOT_BOX_TRUSTED_INSTANCE_UUID"

# Those of the client's methods that speak for a workspace.
TENANT_METHODS = {name for name, method in inspect.getmembers(ActionRPCBoxClient, inspect.isfunction)
                  if "action_context" in inspect.signature(method).parameters}


def make_context(workspace=None, generation=1, instance=INSTANCE):
    """A workspace of its own, where there are workspaces."""
    if not TENANTS:
        return None
    from langbot_plugin.entities.io.context import ActionContext

    return ActionContext(instance_uuid=instance, workspace_uuid=workspace or f"workspace-{uuid.uuid4()}",
                         placement_generation=generation)


def action(name):
    return types.SimpleNamespace(value=name)


class Peer:
    """A client with a workspace: its methods are the client's, and get the context where they take one."""

    def __init__(self, server, client, handler, context, token=None):
        self.server = server
        self.client = client
        self.handler = handler
        self.context = context
        self.token = token

    def __getattr__(self, name):
        method = getattr(self.client, name)
        return functools.partial(method, action_context=self.context) if name in TENANT_METHODS else method

    def to(self, context):
        """The same connection for another workspace, or another generation."""
        return Peer(self.server, self.client, self.handler, context, self.token)

    # Shorter forms of what most tests do

    async def exec(self, session, cmd, **spec):
        return await self.execute(BoxSpec(session_id=session, cmd=cmd, **spec))

    async def out(self, session, cmd, **spec):
        """Of a command that must succeed."""
        result = await self.exec(session, cmd, **spec)
        assert result.ok, result
        return result.stdout

    async def create(self, session, **spec):
        return await self.create_session(BoxSpec(session_id=session, **spec))

    async def start(self, session, command, *args, **spec):
        return await self.start_managed_process(
            session, BoxManagedProcessSpec(command=command, args=list(args), **spec))

    async def ended(self, session, process="default"):
        """Waits for a managed process to be over: its info."""
        for _ in range(1000):
            info = await self.get_managed_process(session, process)
            # The Python runtime says that it has ended before it says how.
            if info.status.value == "exited" and info.exit_code is not None:
                return info
            await asyncio.sleep(0.03)
        pytest.fail(f"still running: {info}")

    async def call(self, name, data=None, timeout=60.0, **context):
        """An action by its name, with data that the client would not send."""
        if TENANTS:
            context.setdefault("action_context", self.context)
        return await self.handler.call_action(action(name), data or {}, timeout=timeout, **context)

    async def refused(self, name, data=None, **options):
        """An action that must fail: the message of the answer."""
        with pytest.raises(ActionCallError) as raised:
            result = await self.call(name, data, **options)
            pytest.fail(f"{name} was not refused: {result}")
        return str(raised.value)

    async def ask(self, name, data=None, **keys):
        """A request as it is written down here, `context=…` too: the answer."""
        self.handler.seq_id_index += 1
        number = self.handler.seq_id_index
        answer = asyncio.get_running_loop().create_future()
        self.handler.resp_waiters[number] = answer
        try:
            await self.handler.conn.send(json.dumps({"seq_id": number, "action": name, "data": data or {}, **keys}))
            return await asyncio.wait_for(answer, CONNECT_SECONDS)
        finally:
            del self.handler.resp_waiters[number]

    # The relay

    def relay_headers(self):
        """As LangBot's connector makes them."""
        if not TENANTS:
            return {}
        token = {TOKEN_HEADER: self.token} if self.token else {}
        return {INSTANCE_HEADER: self.context.instance_uuid, **token, WORKSPACE_HEADER: self.context.workspace_uuid,
                GENERATION_HEADER: str(self.context.placement_generation)}

    def relay_url(self, session, process="default"):
        return self.get_managed_process_websocket_url(session, self.server.relay_url, process)

    def relay(self, session, process="default", headers=None, url=None):
        """To be used in `async with` or awaited."""
        return websockets.connect(
            url or self.relay_url(session, process), subprotocols=["mcp"], proxy=None, max_size=None,
            additional_headers=self.relay_headers() if headers is None else headers)


async def relay_refusal(connecting):
    """A relay that must not be opened: the status and the body of the answer."""
    with pytest.raises(websockets.exceptions.InvalidStatus) as raised:
        async with connecting:
            pytest.fail("the relay was opened")
    response = raised.value.response
    return response.status_code, response.body.decode()


class Refused(Exception):
    """No connection came about."""

    @property
    def status(self):
        """Of HTTP."""
        return self.args[0].response.status_code


class Link:
    """A connection as LangBot's connector makes one: a controller's task, a handler's task in its callback."""

    def __init__(self, controller, kind):
        self.controller = controller
        self.kind = kind
        self.client = ActionRPCBoxClient(logger=logging.getLogger("langbot"))
        self.handler = None
        self.failure = None
        self._connected = asyncio.Event()
        self._run = None
        self._tasks = []

    async def _on_connection(self, connection):
        self.handler = Handler(connection)
        self.client.set_handler(self.handler)
        self._run = asyncio.create_task(self.handler.run())
        self._connected.set()
        await self._run

    async def on_failure(self, controller, error):
        self.failure = error
        self._connected.set()

    async def open(self):
        self._tasks = [asyncio.create_task(self.controller.run(self._on_connection))]
        await asyncio.wait_for(self._connected.wait(), CONNECT_SECONDS)
        if self.handler is None:
            await self.close()
            raise Refused(self.failure)
        self.process = getattr(self.controller, "process", None)
        return self

    async def drop(self):
        """The connection is lost, without a word."""
        connection = self.handler.conn
        if self.kind == "websocket":
            connection.websocket.transport.abort()
        else:
            self.process.kill()

    async def close(self):
        """LangBot's order: the handler, its tasks, the controller with its process."""
        with contextlib.suppress(Exception):
            if hasattr(self.handler, "close"):
                await self.handler.close()
            elif self.handler is not None:
                await self.handler.conn.close()
        self.client.set_handler(None)
        tasks = [task for task in (self._run, *self._tasks) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(Exception):
            if hasattr(self.controller, "close"):
                await self.controller.close()
        process = getattr(self, "process", None)
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await asyncio.wait_for(process.wait(), CONNECT_SECONDS)


async def open_websocket(server, instance=INSTANCE, token=None, headers=None):
    """`headers` instead of those that LangBot sends."""
    if headers is None:
        headers = {INSTANCE_HEADER: instance, **({TOKEN_HEADER: token} if token else {})}
    more = {"additional_headers": headers} if TENANTS else {}
    link = Link(None, "websocket")
    link.controller = WebSocketClientController(
        ws_url=server.rpc_url, make_connection_failed_callback=link.on_failure, **more)
    return await link.open()


async def refusal(server, **options):
    """A connection that must not be: the status of the answer."""
    try:
        link = await open_websocket(server, **options)
    except Refused as refused:
        return refused.status
    await link.close()
    pytest.fail(f"it was accepted: {options}")


async def open_stdio(server, env=None):
    command, environment, directory = server.stdio()
    environment = {**environment, **({INSTANCE_ENV: INSTANCE} if TENANTS else {}), **(env or {})}
    return await Link(StdioClientController(command[0], command[1:], environment, str(directory)), "stdio").open()


@contextlib.asynccontextmanager
async def websocket_peer(server, context=None, token=None, instance=INSTANCE):
    """A connection to a server that runs. Its workspace's sessions are ended with it."""
    link = await open_websocket(server, instance, token)
    peer = Peer(server, link.client, link.handler, context or make_context(instance=instance), token)
    peer.link = link
    try:
        yield peer
    finally:
        with contextlib.suppress(errors.BoxError):  # a test may have broken the connection, or lost its right
            for session in await peer.get_sessions():
                await peer.delete_session(session["session_id"])
        await link.close()


@contextlib.asynccontextmanager
async def stdio_peer(server, context=None, env=None):
    """A server of its own on standard input and output. It leaves nothing when that is closed."""
    link = await open_stdio(server, env)
    peer = Peer(server, link.client, link.handler, context or make_context(), (env or {}).get(TOKEN_ENV))
    peer.link = link
    try:
        yield peer
    finally:
        await link.close()
    server.check_clean()
