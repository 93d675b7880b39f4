"""LangBot's RPC over its WebSocket: JSON by hand, as clients of 0.4 and of 0.5 write it, against real sandboxes.

What is no matter of sockets and sandboxes is in tests/unit/test-rpc.c and test-rpc-tenancy.c."""

import asyncio
import base64
import contextlib
import datetime
import hashlib
import json
import os
import re
import signal
import tempfile
from pathlib import Path

import pytest

import hostview
import rpc
from conftest import PATIENCE
from daemon import asynchronous, unique, websocket

websockets = pytest.importorskip("websockets", reason="python3-websockets is not installed")

MIB = 1 << 20
TOKEN = "control-token-of-at-least-32-characters"
INSTANCE = "instance-1"
SESSION_KEYS = {
    "session_id", "backend_name", "backend_session_id", "image", "network", "host_path", "host_path_mode", "mount_path",
    "persistent", "cpus", "memory_mb", "pids_limit", "read_only_rootfs", "workspace_quota_mb", "created_at", "last_used_at"}
RESULT_KEYS = {"session_id", "backend_name", "status", "exit_code", "stdout", "stderr", "duration_ms"}


def headers(instance=INSTANCE, token=None, workspace=None, generation=None):
    given = {
        "X-LangBot-Instance-Id": instance, "X-LangBot-Box-Control-Token": token, "X-LangBot-Workspace-Id": workspace,
        "X-LangBot-Placement-Generation": generation}
    return {name: str(value) for name, value in given.items() if value is not None}


def namespace(workspace, instance=INSTANCE):
    return "ws-" + hashlib.sha256(f"{instance}\0{workspace}".encode()).hexdigest()[:24]


def physical(workspace, generation, logical):
    return f"{namespace(workspace)}-g{generation}-{logical}"


class Peer:
    """A connection. Requests may overlap; each waits for the answer with its number."""

    def __init__(self, ws):
        self.ws = ws
        self.number = 0
        self.waiting = {}
        self.reader = asyncio.create_task(self._read())

    async def _read(self):
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                answer = json.loads(await self.ws.recv())
                self.waiting.pop(answer["seq_id"]).set_result(rpc.Answer(answer))

    def send(self, action, data=None, workspace=None, generation=1, instance=INSTANCE):
        """The future answer."""
        self.number += 1
        context = {"instance_uuid": instance, "workspace_uuid": workspace, "placement_generation": generation}
        self.waiting[self.number] = asyncio.get_running_loop().create_future()
        text = json.dumps(rpc.request(self.number, action, data, context if workspace else None))
        return asyncio.gather(self.waiting[self.number], self.ws.send(text))

    async def ask(self, action, data=None, workspace=None, generation=1, **more):
        return (await asyncio.wait_for(self.send(action, data, workspace, generation, **more), PATIENCE))[0]

    async def exec(self, cmd, session="s", workspace=None, generation=1, **more):
        return (await self.ask("box_exec", {"session_id": session, "cmd": cmd, **more}, workspace, generation)).ok()


@contextlib.asynccontextmanager
async def peer(boxd, given=None, tcp=True):
    async with websocket(boxd, "/rpc/ws", tcp=tcp, extra_headers=given or {}) as ws:
        made = Peer(ws)
        try:
            yield made
        finally:
            made.reader.cancel()


async def status_of(boxd, path, given, tcp=True):
    """What a handshake is answered with; 101 if it is granted."""
    try:
        async with websocket(boxd, path, tcp=tcp, extra_headers=given):
            return 101
    except websockets.InvalidStatusCode as refused:
        return refused.status_code


# --- 0.4: sessions as they are called ---------------------------------------------------------


@asynchronous
async def _commands(either):
    async with peer(either) as langbot:
        assert (await langbot.ask("__ping")).ok() == {}
        health = (await langbot.ask("box_health")).ok()
        assert health == {"name": "native", "available": True}
        name = unique("rpc")
        made = (await langbot.ask("box_create_session", {"session_id": name})).ok()
        assert SESSION_KEYS <= set(made) and made["session_id"] == name and "managed_processes" not in made
        assert datetime.datetime.fromisoformat(made["created_at"]).utcoffset() == datetime.timedelta(0)
        result = await langbot.exec("printf '  out \\n'; echo err >&2; exit 3", name)
        assert RESULT_KEYS <= set(result)
        assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out", "err", 3)
        assert result["status"] == "completed" and isinstance(result["duration_ms"], int)
        assert (await langbot.exec("echo $A > /workspace/f; pwd", name, env={"A": "7"}, workdir="/workspace/new"))["stdout"] == "/workspace/new"
        assert (await langbot.exec("cat /workspace/f", name))["stdout"] == "7"
        assert (await langbot.exec("kill -9 $$", name))["exit_code"] == 137
        assert (await langbot.exec("printf '\\377\\342\\200'", name))["stdout"] == "��"
        (await langbot.ask("box_create_session", {"session_id": name, "network": "on"})).failed("BoxSessionConflictError", "network")
        late = await langbot.exec("sleep 60", name, timeout_sec=1)
        assert late["status"] == "timed_out" and late["exit_code"] is None
        assert late["stderr"] == "Command timed out after 1 seconds."
        if either.box.root:  # without control groups nothing less than the session can be killed
            assert (await langbot.exec("cat /workspace/f", name))["stdout"] == "7", "the session is still there"
            assert (await langbot.ask("box_delete_session", {"session_id": name})).ok() == {"deleted": name}
            (await langbot.ask("box_get_session", {"session_id": name})).failed("BoxSessionNotFoundError", name)


def test_commands(either):
    _commands(either)


@asynchronous
async def test_clipped_output(daemon):
    async with peer(daemon) as langbot:
        result = await langbot.exec("head -c 2000000 /dev/zero | tr '\\0' x", unique("rpc"))
        assert result["stdout"] == "x" * MIB + f"\n... [raw output clipped at {MIB} bytes, {2000000 - MIB} bytes discarded]"


@asynchronous
async def test_managed_processes_and_their_relay(daemon):
    async with peer(daemon) as langbot:
        name = unique("rpc")
        await langbot.exec("true", name)
        spec = {"command": "cat", "env": {"B": "1", "A": "2"}}
        info = (await langbot.ask("box_start_managed_process", {"session_id": name, "spec": spec})).ok()
        assert info["status"] == "running" and info["env_keys"] == ["A", "B"] and info["process_id"] == "default"
        async with websocket(daemon, f"/v1/sessions/{name}/managed-process/ws", tcp=True, subprotocols=["mcp"]) as relay:
            await relay.send("line")
            assert await relay.recv() == "line"
            session = (await langbot.ask("box_get_session", {"session_id": name})).ok()
            assert session["managed_process"]["attached"] is True
            assert list(session["managed_processes"]) == ["default"]
        status = (await langbot.ask("box_status")).ok()
        assert status["managed_processes"] >= 1 and status["limits"]["max_sessions"] > 0
        assert (await langbot.ask("box_stop_managed_process", {"session_id": name})).ok() == {"stopped": "default"}
        (await langbot.ask("box_get_managed_process", {"session_id": name})).failed("BoxManagedProcessNotFoundError")
        (await langbot.ask("box_delete_session", {"session_id": name})).ok()


@asynchronous
async def test_names_of_tenants_are_not_to_be_had(start_boxd):
    boxd = await asyncio.to_thread(start_boxd)
    client = boxd.client
    async with peer(boxd, headers()) as host, peer(boxd) as old:
        await host.exec("true", "x", "one")
        (await host.ask("box_start_managed_process", {"session_id": "x", "spec": {"command": "cat"}}, "one")).ok()
        for generation in (1, 2):
            name = physical("one", generation, "x")
            for action in ("box_get_session", "box_delete_session", "box_get_managed_process", "box_stop_managed_process"):
                (await old.ask(action, {"session_id": name})).failed("BoxSessionNotFoundError")
            for action in ("box_exec", "box_create_session"):
                (await old.ask(action, {"session_id": name, "cmd": "true"})).failed("BoxValidationError", "session_id")
            made = await asyncio.to_thread(client.post, "/v1/sessions", {"session_id": name})
            made.error(400, "BoxValidationError", "session_id")
            ran = await asyncio.to_thread(client.post, f"/v1/sessions/{name}/exec", {"cmd": "true", "spec": {}})
            ran.error(400, "BoxValidationError")
            ran = await asyncio.to_thread(client.post, "/v1/exec", {"cmd": "true", "session_id": name})
            ran.error(400, "BoxValidationError")
        assert (await old.ask("box_get_sessions")).ok() == {"sessions": []}
        assert (await old.ask("box_shutdown")).ok() == {}
        # REST is the operator's: it sees them all.
        seen = (await asyncio.to_thread(client.get, "/v1/sessions")).ok()["sessions"]
        assert [session["session_id"] for session in seen] == [physical("one", 1, "x")]
        assert (await asyncio.to_thread(client.post, f"/v1/sessions/{physical('one', 1, 'x')}/exec", {"cmd": "echo y"})).ok()["stdout"] == "y\n"


def test_socket_is_gone_after_a_configuration(start_boxd):
    """box_init replaces the configuration: what boxd removes at its end is the socket that it made."""
    boxd = start_boxd(config={"user": "root"})
    for _ in range(3):
        rpc.call(boxd, "box_init", {"local": {"profile": "default"}}).ok()
        boxd.post("/v1/sessions", {"session_id": "x" * len(str(boxd.socket)), "image": "y"}).error(400)
    boxd.stop(signal.SIGTERM)
    assert not boxd.socket.exists()


def test_names_of_its_own(daemon):
    for action in ("box_create_session", "box_exec"):
        data = {"session_id": "boxd-readiness-mine", "cmd": "true"}
        rpc.call(daemon, action, data).failed("BoxValidationError", "session_id", "boxd's own")


# --- frames -----------------------------------------------------------------------------------


@asynchronous
async def test_large_and_fragmented_messages(daemon):
    async with peer(daemon) as langbot:
        assert (await langbot.ask("__ping", {"x": "y" * (10 * MIB)})).ok() == {}
        text = json.dumps({"seq_id": 1000, "action": "__ping", "data": {"x": "é" * MIB}}, ensure_ascii=False)
        langbot.waiting[1000] = asyncio.get_running_loop().create_future()
        await langbot.ws.send(text[at:at + 65536] for at in range(0, len(text), 65536))
        assert (await asyncio.wait_for(langbot.waiting[1000], PATIENCE)).ok() == {}
        name = unique("rpc")
        await langbot.exec("true", name)
        answers = await asyncio.gather(*(langbot.exec("cat /dev/urandom | head -c 700000 | base64 -w0", name) for _ in range(6)))
        assert all(len(answer["stdout"]) > 900000 for answer in answers)


async def close_code(boxd, messages):
    """Sends until it is over."""
    async with websocket(boxd, "/rpc/ws", tcp=True) as ws:
        with contextlib.suppress(websockets.ConnectionClosed):
            for message in messages:
                await ws.send(message)
            await ws.recv()
        await asyncio.wait_for(ws.wait_closed(), PATIENCE)
        return ws.close_code


@asynchronous
async def test_frames_that_are_refused(daemon):
    assert await close_code(daemon, [b"{}"]) == 1003
    assert await close_code(daemon, ["x" * (16 * MIB + 1)]) == 1009
    assert await close_code(daemon, [("x" for _ in range(5000))]) == 1009


@asynchronous
async def test_ignored_messages(daemon):
    async with peer(daemon) as langbot:
        for text in ("", "nonsense", "[]", "{}", '{"seq_id":5,"code":0,"data":{}}'):
            await langbot.ws.send(text)
        (await langbot.ask("nothing")).failed("ValueError", "nothing")
        (await langbot.ask("box_get_session")).failed("KeyError", "'session_id'")
        assert not langbot.waiting


@asynchronous
async def test_the_129th_and_leaving(start_boxd):
    boxd = await asyncio.to_thread(start_boxd)
    async with peer(boxd) as langbot:
        await langbot.exec("true")
        for _ in range(128):
            langbot.send("box_exec", {"session_id": "s", "cmd": "sleep 1000", "timeout_sec": 1000})
        (await langbot.ask("__ping")).failed("BoxError", "busy")
        async with peer(boxd) as other:
            assert (await other.ask("__ping")).ok() == {}
    def idle():
        return boxd.client.get("/v1/status").ok()["running_commands"] == 0
    assert await asyncio.to_thread(hostview.wait_until, idle, PATIENCE), "who leaves takes its commands along"
    async with peer(boxd) as langbot:
        assert (await langbot.exec("ps | grep -c '[s]leep' || true"))["stdout"] in ("", "0")
    counted = (await asyncio.to_thread(boxd.client.get, "/metrics")).text
    assert 'boxd_rpc_requests_total{action="box_exec",outcome="called_off"} 128' in counted
    assert re.search(r"^boxd_rpc_requests_running 0$", counted, re.M)


@asynchronous
async def test_uploads_are_gone_with_the_connection(daemon):
    def open_files():
        return daemon.client.get("/healthz").ok()["resources"]["open_fds"]

    before = await asyncio.to_thread(open_files)
    names = set(daemon.state_dir.iterdir())
    async with peer(daemon) as langbot:
        for index in range(3):
            chunk = base64.b64encode(b"x" * 16384).decode()
            data = {"file_key": "a.zip", "file_length": 49152, "chunk_base64": chunk, "chunk_index": index, "chunk_amount": 3, "chunk_size": 16384}
            assert (await langbot.ask("__file_chunk", data)).ok() == {}
        assert await asyncio.to_thread(open_files) > before
        (await langbot.ask("__file_chunk", {**data, "file_key": "../x"})).failed("ValueError", "file_key")
        assert set(daemon.state_dir.iterdir()) == names, "they have no names"
    assert await asyncio.to_thread(hostview.wait_until, lambda: open_files() <= before, PATIENCE)


@asynchronous
async def test_stopping(start_boxd):
    boxd = await asyncio.to_thread(start_boxd)
    async with peer(boxd) as langbot:
        await langbot.exec("true")
        running = langbot.send("box_exec", {"session_id": "s", "cmd": "sleep 1000", "timeout_sec": 1000})
        await asyncio.sleep(0.2)
        boxd.send(signal.SIGINT)
        (await asyncio.wait_for(running, PATIENCE))[0].failed("BoxRuntimeUnavailableError", "stopping")
        await asyncio.wait_for(langbot.ws.wait_closed(), PATIENCE)
        assert langbot.ws.close_code == 1001
    assert await asyncio.to_thread(boxd.wait) == 0


# --- 0.5: who it is ---------------------------------------------------------------------------


@asynchronous
async def test_the_first_instance_is_the_one(start_boxd):
    boxd = await asyncio.to_thread(start_boxd)
    for wrong in ("", "-x", "a b", "x" * 129, "é"):
        with contextlib.suppress(UnicodeEncodeError):
            assert await status_of(boxd, "/rpc/ws", headers(wrong)) == 401, wrong
    async with peer(boxd, headers("first")) as host:
        assert (await host.ask("__ping")).ok() == {}
        assert await status_of(boxd, "/rpc/ws", headers("second")) == 401
        (await host.ask("box_status", {}, "w", instance="second")).failed("PermissionError")
        assert (await host.ask("box_status", {}, "w", instance="first")).ok()["active_sessions"] == 0
        (await host.ask("box_status")).failed("PermissionError")
    assert await status_of(boxd, "/rpc/ws", headers("second")) == 401
    assert await status_of(boxd, "/rpc/ws", headers("first")) == 101
    assert await status_of(boxd, "/rpc/ws", {}) == 101, "who has no tenancy is served beside"


@asynchronous
async def test_the_control_token(start_boxd):
    env = {"LANGBOT_BOX_CONTROL_TOKEN": TOKEN, "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}
    boxd = await asyncio.to_thread(lambda: start_boxd(env=env))
    for given in ({}, headers(None, TOKEN), headers(INSTANCE), headers(INSTANCE, TOKEN + "x"), headers(INSTANCE, TOKEN[:-1]),
                  headers("other", TOKEN), {**headers(INSTANCE), "Authorization": f"Bearer {TOKEN}"}):
        assert await status_of(boxd, "/rpc/ws", given) == 401, given
        assert await status_of(boxd, "/rpc/ws", given, tcp=False) == 401, given
    right = headers(INSTANCE, TOKEN)
    assert await status_of(boxd, "/rpc/ws", right) == 101
    assert await status_of(boxd, "/rpc/ws", right, tcp=False) == 101
    # Who knows it need not come by a name that is known; but a page of somebody else's never comes in.
    foreign = {
        "Host": "box.example:5410", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    for given, status in ((right, 101), (headers(INSTANCE, TOKEN + "x"), 403), ({}, 403)):
        assert (await asyncio.to_thread(lambda: boxd.tcp.get("/rpc/ws", headers={**foreign, **given}))).status == status, given
    assert await status_of(boxd, "/rpc/ws", {**right, "Origin": "https://evil.example"}) == 403
    # With no token of REST's own it is that, too.
    by_tcp = boxd.tcp
    assert (await asyncio.to_thread(by_tcp.get, "/v1/status")).status == 401
    assert (await asyncio.to_thread(lambda: by_tcp.get("/v1/status", headers={"Authorization": f"Bearer {TOKEN}"}))).status == 200
    assert (await asyncio.to_thread(lambda: by_tcp.get("/v1/status", headers={"X-LangBot-Box-Control-Token": TOKEN}))).status == 401


@asynchronous
async def test_a_bearer_token_beside_it(start_boxd):
    boxd = await asyncio.to_thread(lambda: start_boxd(token="t" * 40, env={"LANGBOT_BOX_CONTROL_TOKEN": TOKEN}))
    assert await status_of(boxd, "/rpc/ws", headers(INSTANCE, TOKEN)) == 101
    assert await status_of(boxd, "/rpc/ws", headers(INSTANCE, "t" * 40)) == 401
    assert (await asyncio.to_thread(lambda: boxd.tcp.get("/v1/status", headers={"Authorization": f"Bearer {TOKEN}"}))).status == 401


@asynchronous
async def test_tenancy_required(start_boxd):
    boxd = await asyncio.to_thread(lambda: start_boxd(config={"tenancy": "required", "trusted_instance": INSTANCE}))
    assert await status_of(boxd, "/rpc/ws", {}) == 401
    assert await status_of(boxd, "/rpc/ws", headers("other")) == 401
    assert await status_of(boxd, "/rpc/ws", headers()) == 101


@asynchronous
async def test_workspaces(start_boxd):
    boxd = await asyncio.to_thread(start_boxd)
    async with peer(boxd, headers()) as host:
        assert (await host.exec("echo one > /workspace/f", "same", "one"))["session_id"] == "same"
        assert (await host.exec("cat /workspace/f; true", "same", "two"))["stdout"] == ""
        for action in ("box_get_session", "box_get_managed_process"):
            told = (await host.ask(action, {"session_id": "same"}, "three")).failed("BoxSessionNotFoundError", "'same'")
            assert "ws-" not in told
        listed = (await host.ask("box_get_sessions", {}, "one")).ok()["sessions"]
        assert [session["session_id"] for session in listed] == ["same"]
        (await host.ask("box_shutdown")).ok()
        assert (await asyncio.to_thread(boxd.client.get, "/v1/sessions")).ok()["sessions"] == []

    def makers():
        lines = [json.loads(line) for line in (boxd.state_dir / "audit.jsonl").read_text().splitlines()]
        return [line["actor"] for line in lines if line["event"] == "session_created"]

    assert await asyncio.to_thread(hostview.wait_until, lambda: makers() == [f"langbot:{INSTANCE}"] * 2, PATIENCE), makers()


@asynchronous
async def test_the_fence(start_boxd):
    boxd = await asyncio.to_thread(start_boxd)
    async with peer(boxd, headers()) as host, peer(boxd, headers()) as newer:
        await host.exec("true", "x", "one", 1)
        (await host.ask("box_start_managed_process", {"session_id": "x", "spec": {"command": "cat"}}, "one", 1)).ok()
        running = host.send("box_exec", {"session_id": "x", "cmd": "sleep 1000", "timeout_sec": 1000}, "one", 1)
        path = f"/v1/sessions/{physical('one', 1, 'x')}/managed-process/ws"
        async with websocket(boxd, path, tcp=True, extra_headers=headers(workspace="one", generation=1)) as relay:
            await relay.send("hello")
            assert await relay.recv() == "hello"
            assert (await newer.ask("box_status", {}, "one", 2)).ok()["active_sessions"] == 0
            (await asyncio.wait_for(running, PATIENCE))[0].failed("PermissionError")
            await asyncio.wait_for(relay.wait_closed(), PATIENCE)
            assert relay.close_code == 1008
        (await host.ask("box_exec", {"session_id": "x", "cmd": "true"}, "one", 1)).failed("PermissionError")
        assert await status_of(boxd, path, headers(workspace="one", generation=1)) == 401
        assert (await asyncio.to_thread(boxd.client.get, "/v1/sessions")).ok()["sessions"] == []


@asynchronous
async def test_the_relay_by_every_wrong_identity(start_boxd):
    boxd = await asyncio.to_thread(lambda: start_boxd(env={"LANGBOT_BOX_CONTROL_TOKEN": TOKEN}))
    token = {"Authorization": f"Bearer {TOKEN}"}
    async with peer(boxd, headers(INSTANCE, TOKEN)) as host:
        for workspace in ("one", "two"):
            await host.exec("true", "x", workspace)
            (await host.ask("box_start_managed_process", {"session_id": "x", "spec": {"command": "cat"}}, workspace)).ok()
        (await host.ask("box_status", {}, "three")).ok()
        path = f"/v1/sessions/{physical('one', 1, 'x')}/managed-process/default/ws"
        missing = f"/v1/sessions/{physical('one', 1, 'y')}/managed-process/default/ws"
        right = headers(INSTANCE, TOKEN, "one", 1)
        wrong = [
            {}, token, {**token, **headers(INSTANCE)}, headers(INSTANCE, TOKEN), headers(INSTANCE, TOKEN, "one"),
            headers(INSTANCE, TOKEN, None, 1), headers(INSTANCE, TOKEN, "two", 1), headers(INSTANCE, TOKEN, "three", 1),
            headers(INSTANCE, TOKEN, "four", 1), headers(INSTANCE, TOKEN, "one", 2), headers(INSTANCE, TOKEN, "one", 0),
            headers(INSTANCE, TOKEN, "one", "01"), headers(INSTANCE, TOKEN, "one", "+1"), headers(INSTANCE, TOKEN, "one", "1 1"),
            headers(INSTANCE, TOKEN, "one", "99999999999999999999999"), headers(INSTANCE, TOKEN, "x" * 257, 1),
            headers("other", TOKEN, "one", 1), headers(INSTANCE, TOKEN + "x", "one", 1), headers(INSTANCE, None, "one", 1),
            {**token, **headers(INSTANCE, None, "one", 1)}, headers(None, TOKEN, "one", 1),
        ]
        for given in wrong:
            for where in (path, missing):
                for tcp in (True, False):
                    assert await status_of(boxd, where, given, tcp) == 401, (given, where)
        assert await status_of(boxd, path, right) == 101
        assert await status_of(boxd, missing, right) == 400
        # One that is no tenant's is not this host's.
        await asyncio.to_thread(boxd.client.post, "/v1/sessions", {"session_id": "mine"})
        await asyncio.to_thread(boxd.client.post, "/v1/sessions/mine/processes", {"command": "cat"})
        assert await status_of(boxd, "/v1/sessions/mine/managed-process/ws", right) == 401
        assert await status_of(boxd, "/v1/sessions/mine/managed-process/ws", token) == 101


# --- grants -----------------------------------------------------------------------------------


def grant(workspace, seconds, revision=1, generation=1):
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return {
        "instance_uuid": INSTANCE, "workspace_uuid": workspace, "execution_generation": generation, "entitlement_revision": revision,
        "expires_at": when.isoformat(), "max_sessions": 1, "max_managed_processes": 0}


UPSERT = "box_upsert_sandbox_admission_grant"
REVOKE = "box_revoke_sandbox_admission_grant"


def start_shared(start_boxd, **policy):
    """A boxd where sandboxes need a grant. It need not be ready."""
    boxd = start_boxd(start=False)
    # A directory with project quota, where there is one: then it can be ready.
    quota = os.environ.get("BOXD_TEST_PROJECT_DIR")
    root = boxd.data = Path(tempfile.mkdtemp(dir=quota)) if quota else boxd.directory / "data"
    (root / "default").mkdir(parents=True, mode=0o755)
    boxd.configure({"local": {"host_root": str(root)}, "admission": {"required": True, "workspace_quota_mb": 16, **policy}})
    boxd.ready_path = "/healthz"
    return boxd.start()


@asynchronous
async def test_without_a_grant(start_boxd):
    boxd = await asyncio.to_thread(start_shared, start_boxd)
    client = boxd.client
    for path, body in (("/v1/sessions", {"session_id": "a"}), ("/v1/exec", {"session_id": "a", "cmd": "true"}),
                       ("/v1/sessions/a/exec", {"cmd": "true"}), ("/v1/sessions/a/exec", {"cmd": "true", "spec": {}}),
                       ("/v1/sessions/a/processes", {"command": "cat"})):
        (await asyncio.to_thread(client.post, path, body)).error(403, "BoxAdmissionError")
    (await asyncio.to_thread(client.get, "/v1/sessions/a/pty/ws")).error(403, "BoxAdmissionError")
    # Before it is looked whether there is such a session: plain names are nobody's here.
    for relay in ("/v1/sessions/a/managed-process/ws", "/v1/sessions/a/managed-process/default/ws"):
        (await asyncio.to_thread(client.get, relay)).error(400, "BoxAdmissionError", "grant")
    ready = await asyncio.to_thread(client.get, "/readyz")
    assert ready.status in (200, 503) and ready.json["mode"] == "grant_enforced"
    assert ready.json["ready"] is (ready.status == 200)
    assert {"accepting", "backend", "cgroup_v2", "inode_quota", "hard_workspace_quota"} <= set(ready.json["checks"])
    assert all(check["ok"] or check["reason"] for check in ready.json["checks"].values()), ready
    async with peer(boxd) as old, peer(boxd, headers()) as host:
        for action in ("box_exec", "box_create_session", "box_get_session", "box_get_sessions", "box_delete_session",
                       "box_start_managed_process", "box_get_managed_process", "box_stop_managed_process"):
            data = {"session_id": "global", "cmd": "true", "spec": {"command": "cat"}}
            (await old.ask(action, data)).failed("BoxAdmissionError")
            (await host.ask(action, data, "one")).failed("BoxAdmissionError" if ready.status == 200 else "BoxReadinessError")
        (await old.ask(UPSERT, grant("one", 60))).failed("PermissionError")
        info = (await host.ask("box_get_backend_info")).ok()
        assert info["available"] is (ready.status == 200) and info["readiness"]["mode"] == "grant_enforced"
        assert info["readiness"]["checks"]["session_cap"] is True
        health = await host.ask("box_health")
        assert health.code == (0 if ready.status == 200 else 1), health.message


@asynchronous
async def test_a_grant_and_its_end(start_boxd):
    boxd = await asyncio.to_thread(start_shared, start_boxd)
    name = physical("one", 1, "global")
    async with peer(boxd, headers()) as host:
        first = await host.ask("box_health")
        (await host.ask(UPSERT, grant("one", 100000))).failed("BoxAdmissionError", "max_grant_ttl_sec")
        (await host.ask(UPSERT, {**grant("one", 60), "instance_uuid": "other"})).failed("PermissionError")
        told = (await host.ask(UPSERT, grant("one", 60))).ok()
        assert told["installed"] is True and datetime.datetime.fromisoformat(told["expires_at"])
        if first.code != 0:  # a machine that cannot: and then nothing runs, grant or not
            (await host.ask("box_exec", {"session_id": "x", "cmd": "true"}, "one")).failed("BoxReadinessError")
            pytest.skip(f"isolation is not ready here: {first.text}")
        result = await host.exec("echo hello > f; pwd", "x", "one")
        assert result["session_id"] == "global" and result["stdout"] == "/workspace"
        kept = boxd.data / "default" / "tenants" / namespace("one") / "f"
        assert kept.read_text() == "hello\n"
        (await host.ask("box_exec", {"session_id": "x", "cmd": "true", "network": "on"}, "one")).failed("BoxAdmissionError")
        running = host.send("box_exec", {"session_id": "x", "cmd": "sleep 100", "timeout_sec": 100}, "one")
        await asyncio.sleep(0.2)
        revoked = {"instance_uuid": INSTANCE, "workspace_uuid": "one", "entitlement_revision": 1}
        assert (await host.ask(REVOKE, revoked)).ok() == {"revoked": True, "workspace_uuid": "one", "entitlement_revision": 1}
        assert (await asyncio.to_thread(boxd.client.get, f"/v1/sessions/{name}")).status == 404, "when it is told, it is so"
        (await asyncio.wait_for(running, PATIENCE))[0].failed("BoxAdmissionError")
        (await host.ask(UPSERT, grant("one", 60))).failed("BoxAdmissionError", "revoked")
        # By the clock.
        (await host.ask(UPSERT, grant("one", 3, 2))).ok()
        await host.exec("cat f", "x", "one")
        gone = await asyncio.to_thread(
            hostview.wait_until, lambda: boxd.client.get(f"/v1/sessions/{name}").status == 404, PATIENCE)
        assert gone
        (await host.ask("box_exec", {"session_id": "x", "cmd": "true"}, "one")).failed("BoxAdmissionError", "grant")
        # Workspaces and their files outlive sessions.
        (await host.ask(UPSERT, grant("one", 60, 3, 2))).ok()
        assert (await host.exec("cat f", "x", "one", 2))["stdout"] == "hello"


@asynchronous
async def test_the_shared_workspace(start_boxd):
    boxd = await asyncio.to_thread(start_shared, start_boxd)
    marker = ".langbot-box-volume-probe-" + "0" * 32
    path = boxd.data / "default" / marker
    async with peer(boxd, headers()) as host:
        (await host.ask("box_verify_shared_workspace", {"marker_name": marker})).failed("BoxReadinessError")
        path.write_text("x" * 1024)
        assert (await host.ask("box_verify_shared_workspace", {"marker_name": marker})).ok() == {
            "marker_name": marker, "sha256": hashlib.sha256(b"x" * 1024).hexdigest(), "size": 1024}
        for content in (b"", b"x" * 1025):
            path.write_bytes(content)
            (await host.ask("box_verify_shared_workspace", {"marker_name": marker})).failed("BoxReadinessError")
        path.unlink()
        os.symlink("/etc/hostname", path)
        (await host.ask("box_verify_shared_workspace", {"marker_name": marker})).failed("BoxReadinessError")


# --- what it says about itself ----------------------------------------------------------------


def test_descriptions(daemon):
    paths = daemon.client.get("/openapi.json").ok()["paths"]
    assert "101" in paths["/rpc/ws"]["get"]["responses"]
    assert daemon.tcp.get("/rpc/ws").status == 426
    assert "boxd_rpc_connections " in daemon.client.get("/metrics").text
    assert {"rpc_connections", "rpc_requests"} <= set(daemon.client.get("/healthz").ok()["resources"])
