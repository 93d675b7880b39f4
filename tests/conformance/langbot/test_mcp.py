# SPDX-License-Identifier: Apache-2.0
"""MCP as LangBot uses it: a real server as a managed process, and real clients behind the relay.

The server's packages are those of this virtual environment (or Node's below LANGBOT_TOOLS), mounted where they are:
its Python is Debian's, which the sandbox has too."""

import asyncio
import contextlib
import functools
import json
import shutil
import sys

import mcp
import mcp.client.websocket
import pytest
from daemon import PATIENCE, asynchronous, unique
from harness import SERVER, TENANTS, TOOLS
from peer import websocket_peer
from servers import HERE

pytestmark = [
    pytest.mark.skipif(TOOLS is None, reason="LANGBOT_TOOLS is not set: no packages to mount"),
    pytest.mark.filterwarnings("ignore:The WebSocket client transport is deprecated:DeprecationWarning"),
]
# What LangBot asks for when it starts a stdio server, and the packages.
SPEC = {"persistent": True, "memory_mb": 1536, "read_only_rootfs": False,
        "extra_mounts": [{"host_path": str(TOOLS), "mount_path": str(TOOLS), "mode": "ro"}]}
NODE = shutil.which("node", path="/usr/local/bin:/usr/bin")
# 0.5's Python runtime sends what it has read, not lines: a client that takes a frame for a message can break on it.
whole_lines = pytest.mark.skipif(SERVER == "python" and TENANTS, reason="0.5's Python runtime sends pieces of lines")


async def start_server(peer, kind="python"):
    """As LangBot starts its stdio servers: the names of the session and the process, and the session's directory."""
    name, process = unique("mcp"), unique("server")
    place = peer.server.directory()
    source = {"python": "mcp_server.py", "node": "mcp_server.mjs"}[kind]
    shutil.copy(HERE / source, place / source)
    await peer.create(name, host_path=str(place), **SPEC)
    if kind == "python":
        await peer.start(name, sys.executable, "-B", source, process_id=process)
    else:
        await peer.start(name, NODE, source, str(TOOLS / "node"), process_id=process)
    return name, process, place


@contextlib.asynccontextmanager
async def python_client(peer, name, process, monkeypatch, **options):
    """`mcp`'s own transport; it has no way to give it headers."""
    connect = functools.partial(mcp.client.websocket.ws_connect, additional_headers=peer.relay_headers(), max_size=None)
    with monkeypatch.context() as patch:
        patch.setattr(mcp.client.websocket, "ws_connect", connect)
        async with mcp.client.websocket.websocket_client(peer.relay_url(name, process)) as streams:
            async with mcp.ClientSession(*streams, **options) as session:
                await asyncio.wait_for(session.initialize(), PATIENCE)
                yield session


async def call(session, tool, **arguments):
    result = await asyncio.wait_for(session.call_tool(tool, arguments), PATIENCE)
    assert not result.isError, result
    return result.content[0].text


async def check_tools(session):
    tools = {tool.name for tool in (await session.list_tools()).tools}
    assert tools >= {"add", "echo", "repeat"}
    assert await call(session, "add", a=40, b=2) == "42"
    odd = "ü☃😀 \"quoted\" \\ line\nline\u2028"
    assert await call(session, "echo", text=odd) == odd
    assert await asyncio.gather(*(call(session, "add", a=i, b=i) for i in range(100))) == [str(2 * i) for i in range(100)]
    assert await session.send_ping()


@whole_lines
@asynchronous
async def test_python_client_and_server(connect, monkeypatch):
    async with connect() as peer:
        name, process, place = await start_server(peer)
        heard = []

        async def log(message):
            heard.append(message.data)

        async with python_client(peer, name, process, monkeypatch, logging_callback=log) as session:
            await check_tools(session)
            assert (await call(session, "keep", name="made", text="inside")).endswith("/made")
            note = await session.read_resource("note://snow")
            assert note.contents[0].text == "a note about snow"
            prompt = await session.get_prompt("ask", {"topic": "snow"})
            assert prompt.messages[0].content.text == "What is snow?"
            assert await call(session, "steps", count=20) == "20"
            assert heard == [f"step {i + 1}" for i in range(20)]
        assert await peer.out(name, "cat made", host_path=str(place), **SPEC) == "inside"
        assert "the MCP server starts" in (await peer.get_managed_process(name, process)).stderr_preview


@pytest.mark.skipif(SERVER == "python", reason="the Python runtimes send no line over 64 KiB in one piece")
@asynchronous
async def test_large_messages(server, monkeypatch):
    async with websocket_peer(server) as peer:
        name, process, _ = await start_server(peer)
        async with python_client(peer, name, process, monkeypatch) as session:
            assert await call(session, "repeat", text="long ", times=400_000) == "long " * 400_000
            assert await call(session, "echo", text="x" * (2 << 20)) == "x" * (2 << 20)


@whole_lines
@asynchronous
async def test_the_server_outlives_a_client(server, monkeypatch):
    """LangBot attaches again to what still runs, after its connection was cut, or a handshake that came too early."""
    async with websocket_peer(server) as peer:
        name, process, _ = await start_server(peer)
        for turn in range(3):
            async with python_client(peer, name, process, monkeypatch) as session:
                assert await call(session, "add", a=turn, b=1) == str(turn + 1)
            info = await peer.get_managed_process(name, process)
            assert info.status.value == "running"


@whole_lines
@pytest.mark.skipif(NODE is None, reason="no Node in /usr")
@asynchronous
async def test_python_client_and_node_server(server, monkeypatch):
    async with websocket_peer(server) as peer:
        name, process, _ = await start_server(peer, "node")
        async with python_client(peer, name, process, monkeypatch) as session:
            await check_tools(session)


@pytest.mark.skipif(NODE is None, reason="no Node in /usr")
@pytest.mark.skipif(SERVER == "python", reason="the Python runtimes send no line over 64 KiB in one piece")
@pytest.mark.parametrize("kind", ["python", "node"])
@asynchronous
async def test_node_client(server, kind):
    async with websocket_peer(server) as peer:
        name, process, _ = await start_server(peer, kind)
        client = await asyncio.create_subprocess_exec(
            NODE, str(HERE / "mcp_client.mjs"), peer.relay_url(name, process), json.dumps(peer.relay_headers()),
            cwd=TOOLS / "node", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        try:
            said, _ = await asyncio.wait_for(client.communicate(), PATIENCE)
        finally:
            if client.returncode is None:
                client.kill()
        assert (client.returncode, said.decode().strip()) == (0, "all went well"), said.decode()
