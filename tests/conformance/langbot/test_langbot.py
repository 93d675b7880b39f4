# SPDX-License-Identifier: Apache-2.0
"""What LangBot itself does with the client, in its order: connect, ping, send the whole `box` tree, beat, work, lose
the connection and come back, and close."""

import asyncio
import contextlib
import json
import secrets

import pytest
from daemon import asynchronous, unique
from harness import SERVER, boxd_only
from langbot_plugin.box import errors
from langbot_plugin.box.actions import LangBotToBoxAction
from langbot_plugin.entities.io.actions.enums import CommonAction
from peer import (INSTANCE_ENV, TENANTS, TOKEN_ENV, TOKEN_HEADER, VERSION, Peer, make_context, open_stdio, open_websocket,
                  relay_refusal)

# LangBot's configuration as it is shipped, without the key `runtime`, which it keeps to itself.
SHIPPED = {
    "enabled": True,
    "backend": "local",
    "limits": {"max_sessions": 64, "max_managed_processes": 64, "max_completed_processes": 256,
               "max_workspace_entries": 100000, "max_admission_records": 100000, "max_rpc_file_bytes": 20971520},
    "admission": {"required": False, "logical_session_id": "global", "required_backend": "nsjail", "max_sessions": 1,
                  "max_managed_processes": 0, "max_grant_ttl_sec": 300, "max_timeout_sec": 120, "cpus": 1.0,
                  "memory_mb": 512, "pids_limit": 128, "read_only_rootfs": True, "workspace_quota_mb": 0,
                  "readiness_cache_sec": 15},
    "local": {"profile": "default", "image": "", "host_root": "./data/box", "default_workspace": "", "skills_root": "skills",
              "allowed_mount_roots": ["./data/box", "/tmp"], "workspace_quota_mb": None},
    "default_memory_mb": 1536,
    "docker": {"cpu_limit_enabled": True},
    "e2b": {"api_key": "", "api_url": "", "template": ""},
}


# asyncio says 255 where its own transport has asked for the status before its watcher could.
ENDED_WELL = (0, 255)


class Connector:
    """The steps of LangBot's connector and service, one by one."""

    def __init__(self, server, kind, config=SHIPPED, token=None):
        self.server = server
        self.kind = kind
        self.config = config
        self.token = token
        self.context = make_context()
        self.link = None

    async def connect(self):
        if self.kind == "websocket":
            self.link = await open_websocket(self.server, token=self.token)
        else:
            env = {"LANGBOT_BOX_CONFIG": json.dumps(self.config), **({TOKEN_ENV: self.token} if self.token else {})}
            self.link = await open_stdio(self.server, env)
        await self.beat()
        answer = await self.link.handler.call_action(LangBotToBoxAction.INIT, self.config)
        assert answer == {"initialized": True}
        self.peer = Peer(self.server, self.link.client, self.link.handler, self.context, self.token)
        return self.peer

    async def beat(self):
        """The heartbeat, with the client's time-out of 15 seconds."""
        assert await self.link.handler.call_action(CommonAction.PING, {}) == {}

    async def close(self):
        with contextlib.suppress(Exception):
            await self.link.client.shutdown()
        await self.link.close()


@pytest.fixture(params=["websocket", "stdio"])
def connector(request, make_server):
    server = make_server(start=request.param == "websocket")
    return Connector(server, request.param)


@asynchronous
async def test_the_shipped_configuration(connector):
    peer = await connector.connect()
    try:
        await peer.initialize()
        status = await peer.get_status()
        assert status["backend"]["available"] is True
        if SERVER == "boxd" or VERSION >= (0, 4, 17):
            assert status["limits"]["max_sessions"] == 64
        assert await peer.out(unique(), "echo works") == "works"
        await peer.init(connector.config)  # a second connection of the same LangBot would send it again
        assert await peer.out(unique(), "echo still") == "still"
    finally:
        await connector.close()


@asynchronous
async def test_a_day_with_langbot(connector):
    """The exec tool with the default workspace and a skill, an attachment, the shared session of MCP servers."""
    peer = await connector.connect()
    workspace, skill = connector.server.directory(), connector.server.directory()
    (skill / "SKILL.md").write_text("---\nname: s\n---\nDo.")
    skill.chmod(0o755)
    try:
        tool = {"host_path": str(workspace), "host_path_mode": "rw", "mount_path": "/workspace", "workdir": "/workspace",
                "timeout_sec": 30, "cpus": 1.0, "memory_mb": 512, "pids_limit": 128, "read_only_rootfs": True,
                "workspace_quota_mb": 0, "network": "off", "persistent": False}
        if SERVER == "boxd":
            tool["extra_mounts"] = [{"host_path": str(skill), "mount_path": "/workspace/.skills/s", "mode": "rw"}]
        query = unique("query")
        beats = asyncio.gather(*(connector.beat() for _ in range(3)))
        assert await peer.out(query, "mkdir -p outbox && echo result > outbox/r.txt && cat outbox/r.txt", **tool) == "result"
        await beats
        if SERVER == "boxd":
            assert await peer.out(query, "cat .skills/s/SKILL.md | tail -1", **tool) == "Do."
        assert (workspace / "outbox" / "r.txt").read_text() == "result\n"
        unpack = "mkdir -p inbox && printf %s aGVsbG8= | base64 -d > inbox/a && cat inbox/a"
        assert await peer.out(query, unpack, **tool) == "hello"

        shared = {"session_id": "mcp-shared", "persistent": True, "memory_mb": 1536, "read_only_rootfs": False}
        await peer.call("box_create_session", shared)
        servers = [unique("mcp") for _ in range(3)]
        for process in servers:
            with pytest.raises(errors.BoxError):  # LangBot asks first whether it still runs
                await peer.get_managed_process("mcp-shared", process)
            await peer.start("mcp-shared", "cat", process_id=process, env={"KEY": "v"})
        async with peer.relay("mcp-shared", servers[0]) as socket:
            await socket.send('{"jsonrpc":"2.0","id":0,"method":"ping"}')
            assert json.loads(await socket.recv())["method"] == "ping"
        assert (await peer.get_managed_process("mcp-shared", servers[0])).status.value == "running"
        await peer.stop_managed_process("mcp-shared", servers[0])
        assert (await peer.get_managed_process("mcp-shared", servers[1])).status.value == "running"
        assert {info["session_id"] for info in await peer.get_sessions()} == {query, "mcp-shared"}
        await peer.delete_session(query)
    finally:
        await connector.close()


@asynchronous
async def test_close(connector):
    """The runtime that LangBot started ends by itself, and takes its sessions along."""
    peer = await connector.connect()
    await peer.out(unique(), "echo x > file")
    await peer.start((await peer.get_sessions())[0]["session_id"], "sleep", "600")
    process = connector.link.process
    await connector.close()
    if connector.kind == "stdio":
        if SERVER == "boxd":
            assert process.returncode in ENDED_WELL
        assert process.returncode is not None
        connector.server.check_clean()


@asynchronous
async def test_langbot_dies(connector):
    """Its end of the pipe or socket is closed, and nobody says goodbye."""
    peer = await connector.connect()
    name = unique()
    await peer.out(name, "echo kept > file")
    if connector.kind == "websocket":
        await connector.link.drop()
        await connector.link.close()
        peer = await connector.connect()
        assert await peer.out(name, "cat file") == "kept"
        await connector.close()
        return
    process = connector.link.process
    connector.link.handler.conn.stdin.close()
    assert await asyncio.wait_for(process.wait(), 30) in ENDED_WELL
    connector.server.check_clean()
    await connector.link.close()


@asynchronous
async def test_reconnect(connector):
    """LangBot loses the connection, notices, and goes through the same steps again."""
    if connector.kind == "stdio":
        pytest.skip("what LangBot started itself it starts anew")
    for _ in range(3):
        await connector.connect()
        link = connector.link
        await link.drop()
        if VERSION >= (0, 4, 17):
            with pytest.raises(Exception):
                await link.handler.call_action(CommonAction.PING, {}, timeout=5)
        await link.close()
    peer = await connector.connect()
    assert await peer.out(unique(), "echo back") == "back"
    await connector.close()


@boxd_only(reason="the Python runtime's sessions end with it")()
@asynchronous
async def test_boxd_is_restarted_under_langbot(connector):
    if connector.kind == "stdio":
        pytest.skip("LangBot's own child ends with its connection")
    peer = await connector.connect()
    name = unique()
    await peer.out(name, "echo kept > file")
    await peer.start(name, "cat", process_id="mcp")
    old = connector.link
    await asyncio.get_running_loop().run_in_executor(None, connector.server.restart)
    await asyncio.wait_for(asyncio.gather(old._run, return_exceptions=True), 30)  # it sees the end
    await old.close()
    peer = await connector.connect()
    assert await peer.out(name, "cat file") == "kept"
    await peer.start(name, "cat", process_id="mcp")
    async with peer.relay(name, "mcp") as socket:
        await socket.send("again")
        assert await socket.recv() == "again"
    await connector.close()


@asynchronous
async def test_the_stdio_server_with_a_token(make_server):
    """As LangBot starts it: a token made up for it, which the relay asks for."""
    if not TENANTS:
        pytest.skip("tokens came with 0.5")
    connector = Connector(make_server(start=False), "stdio", token=secrets.token_urlsafe(48))
    peer = await connector.connect()
    try:
        name = unique()
        await peer.create(name)
        await peer.start(name, "cat")
        async with peer.relay(name) as socket:
            await socket.send("with it")
            assert (await socket.recv()).strip() == "with it"
        without = {key: value for key, value in peer.relay_headers().items() if key != TOKEN_HEADER}
        assert (await relay_refusal(peer.relay(name, headers=without)))[0] == 401
    finally:
        await connector.close()


@asynchronous
async def test_stdio_needs_to_know_its_host(make_server):
    if not TENANTS:
        pytest.skip("instances came with 0.5")
    if SERVER == "boxd":
        pytest.skip("boxd also serves hosts of 0.4, which do not say")
    command, environment, directory = make_server(start=False).stdio()
    environment.pop(INSTANCE_ENV, None)
    process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=directory, stdin=asyncio.subprocess.PIPE,
                                                   stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 60) != 0


@asynchronous
async def test_the_port_of_the_relay_is_taken(make_server):
    """Over stdio that is a warning: commands work without the relay."""
    server = make_server(start=False)
    listener = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    connector = Connector(server, "stdio")
    try:
        peer = await connector.connect()
        assert await peer.out(unique(), "echo all the same") == "all the same"
        await connector.close()
    finally:
        listener.close()
