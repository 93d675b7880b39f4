# SPDX-License-Identifier: Apache-2.0
"""Every action that has to do with sessions and commands, as the client calls it, and the envelope they come in."""

import datetime
import json
import uuid

import pytest
from daemon import asynchronous, unique
from harness import SERVER, boxd_only
from langbot_plugin.box import errors
from langbot_plugin.box.models import BoxSessionInfo, BoxSpec
from peer import INSTANCE, TENANTS, VERSION, make_context, websocket_peer

INFO_KEYS = {"session_id", "backend_name", "backend_session_id", "image", "network", "host_path", "host_path_mode",
             "mount_path", "persistent", "cpus", "memory_mb", "pids_limit", "read_only_rootfs", "workspace_quota_mb",
             "created_at", "last_used_at"}
RESULT_KEYS = {"session_id", "backend_name", "status", "exit_code", "stdout", "stderr", "duration_ms"}
STATUS_KEYS = {"backend", "active_sessions", "managed_processes", "session_ttl_sec"}


def is_time(text):
    """As Python prints it, and pydantic reads it."""
    time = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return time.utcoffset() == datetime.timedelta() and time.microsecond is not None


@asynchronous
async def test_host_actions(connect):
    async with connect() as peer:
        assert await peer.call("__ping") == {}
        await peer.initialize()
        info = await peer.get_backend_info()
        assert info["available"] is True and isinstance(info["name"], str), info
        assert await peer.call("box_health") == info


@asynchronous
async def test_a_command_and_its_result(connect):
    async with connect() as peer:
        name = unique()
        result = await peer.exec(name, "echo out; echo err >&2; exit 3")
        assert (result.session_id, result.status.value, result.exit_code) == (name, "completed", 3)
        assert (result.stdout, result.stderr, result.ok) == ("out", "err", False)
        assert result.duration_ms >= 0
        raw = await peer.call("box_exec", {"session_id": name, "cmd": "true"})
        assert RESULT_KEYS <= set(raw)
        assert (raw["stdout"], raw["stderr"], raw["exit_code"]) == ("", "", 0)
        assert isinstance(raw["duration_ms"], int)


@asynchronous
async def test_a_session_remembers(connect):
    async with connect() as peer:
        name = unique()
        await peer.out(name, "echo kept > file")
        assert await peer.out(name, "cat file") == "kept"
        assert (await peer.exec(unique(), "cat file")).exit_code == 1


@asynchronous
async def test_environment_and_directory(connect):
    async with connect() as peer:
        name = unique()
        told = await peer.out(name, 'printf "%s|%s" "$A" "$B"', env={"A": "a b", "B": "ü\n\"'"})
        assert told == "a b|ü\n\"'"
        assert (await peer.out(name, "pwd", workdir="/workspace/made/for/it")).endswith("/made/for/it")
        assert await peer.out(name, 'printf "%s" "$A"') == ""


@asynchronous
async def test_it_is_a_login_shell(connect):
    async with connect() as peer:
        assert await peer.out(unique(), "x='a  b'; echo \"$x\" | sed s/a/c/ && [ -n \"$PATH\" ]") == "c  b"


@asynchronous
async def test_a_session_info(connect):
    async with connect() as peer:
        name = unique()
        info = await peer.create(name, cpus=0.5, memory_mb=256, pids_limit=64, persistent=True)
        assert set(info) >= INFO_KEYS
        BoxSessionInfo.model_validate(info)
        assert info["session_id"] == name and info["backend_session_id"]
        assert (info["cpus"], info["memory_mb"], info["pids_limit"], info["persistent"]) == (0.5, 256, 64, True)
        assert (info["network"], info["host_path"], info["host_path_mode"]) == ("off", None, "rw")
        assert (info["mount_path"], info["read_only_rootfs"], info["workspace_quota_mb"]) == ("/workspace", True, 0)
        assert info["image"] == "rockchin/langbot-sandbox:latest"
        assert is_time(info["created_at"]) and is_time(info["last_used_at"])
        assert "managed_processes" not in info

        again = await peer.get_session(name)
        assert {**again, "last_used_at": None} == {**info, "last_used_at": None}
        assert await peer.create(name, cpus=0.5, memory_mb=256, pids_limit=64, persistent=True), "reused"


@asynchronous
async def test_list_and_delete(connect):
    async with connect() as peer:
        names = [unique() for _ in range(3)]
        for name in names:
            await peer.create(name)
        assert {info["session_id"] for info in await peer.get_sessions()} == set(names)
        assert all(INFO_KEYS <= set(info) for info in await peer.get_sessions())
        assert await peer.call("box_delete_session", {"session_id": names[0]}) == {"deleted": names[0]}
        await peer.delete_session(names[1])
        assert [info["session_id"] for info in await peer.get_sessions()] == [names[2]]


@asynchronous
async def test_status_counts(connect):
    async with connect() as peer:
        before = await peer.get_status()
        assert STATUS_KEYS <= set(before) and before["backend"]["available"] is True
        name = unique()
        await peer.create(name)
        await peer.start(name, "cat")
        await peer.start(name, "true", process_id="short")
        await peer.ended(name, "short")
        status = await peer.get_status()
        assert status["active_sessions"] == before["active_sessions"] + 1
        if SERVER == "python" and TENANTS:  # it counts by a key that sessions do not have
            pytest.skip("0.5's Python runtime counts no managed process of a workspace")
        assert status["managed_processes"] == before["managed_processes"] + 1
        assert status["session_ttl_sec"] == 300


@asynchronous
async def test_shutdown_ends_sessions_and_nothing_else(make_server):
    async with websocket_peer(make_server()) as peer:
        names = [unique() for _ in range(3)]
        for name in names:
            await peer.out(name, "echo x > file")
        await peer.start(names[0], "cat")
        handler = peer.handler
        await peer.shutdown()
        peer.client.set_handler(handler)  # the client forgets it; the connection lives
        assert await peer.get_sessions() == []
        assert (await peer.exec(names[0], "cat file")).exit_code == 1, "a new one"


@asynchronous
async def test_pydantics_lax_mode(connect):
    """What the client would have made right before it is sent, other senders need not."""
    async with connect() as peer:
        name = unique()
        spec = {"session_id": f"  {name} ", "cmd": "  echo $A $B \n", "timeout_sec": "20", "cpus": "0.5", "memory_mb": "256",
                "pids_limit": 64.0, "persistent": "yes", "read_only_rootfs": 1, "env": {"A": "1"}, "workdir": " /workspace ",
                "skill_name": None, "whatever": {"is": "ignored"}}
        result = await peer.call("box_exec", spec)
        assert (result["session_id"], result["stdout"]) == (name, "1")
        info = await peer.get_session(name)
        assert (info["cpus"], info["memory_mb"], info["pids_limit"]) == (0.5, 256, 64)
        assert info["persistent"] is True and info["read_only_rootfs"] is True


@asynchronous
async def test_mount_path_is_where_it_works(connect):
    async with connect() as peer:
        name = unique()
        result = await peer.call("box_exec", {"session_id": name, "cmd": "pwd", "mount_path": "/data"})
        assert (await peer.get_session(name))["mount_path"] == "/data"
        if SERVER == "boxd":
            assert result["stdout"] == "/data"


@asynchronous
async def test_a_host_directory(connect):
    async with connect() as peer:
        directory = peer.server.directory()
        (directory / "given").write_text("from the host")
        mount = {"host_path": str(directory)}
        name = unique()
        assert await peer.out(name, "cat given; echo back > taken", **mount) == "from the host"
        assert (directory / "taken").read_text() == "back\n"
        info = await peer.get_session(name)
        assert (info["host_path"], info["host_path_mode"]) == (str(directory), "rw")
        below = directory / "new" / "below"
        assert await peer.out(unique(), "echo made > here; cat here", host_path=str(below)) == "made"
        assert (below / "here").read_text() == "made\n", "it is created"


@boxd_only(reason="the plain backend mounts nothing")()
@asynchronous
async def test_mounts_as_they_are_asked_for(connect):
    async with connect() as peer:
        directory, other = peer.server.directory(), peer.server.directory()
        (directory / "given").write_text("g")
        read_only = {"host_path": str(directory), "host_path_mode": "ro"}
        result = await peer.exec(unique(), "cat given; touch new", **read_only)
        assert result.stdout == "g" and result.exit_code != 0 and not (directory / "new").exists()
        nothing = await peer.exec(unique(), "cat given", host_path=str(directory), host_path_mode="none")
        assert nothing.exit_code == 1

        name = unique()
        extra = [{"host_path": str(directory), "mount_path": "/skills/one", "mode": "ro"},
                 {"host_path": str(other), "mount_path": "/skills/two"}]
        assert await peer.out(name, "cat /skills/one/given; echo 2 > /skills/two/out", extra_mounts=extra) == "g"
        assert (other / "out").read_text() == "2\n"
        await peer.out(name, "echo x > here", extra_mounts=extra)
        assert (await peer.exec(name, "cat here", extra_mounts=extra[:1])).exit_code == 1, "other mounts: a new session"


@boxd_only(reason="the plain backend mounts nothing")()
@asynchronous
async def test_mounts_outside_the_roots_are_refused(connect):
    async with connect() as peer:
        for path in ("/etc", "/root", "/", str(peer.server.host) + "/../..", "/proc"):
            with pytest.raises(errors.BoxValidationError):
                await peer.exec(unique(), "true", host_path=path)
            with pytest.raises(errors.BoxValidationError):
                await peer.exec(unique(), "true", extra_mounts=[{"host_path": path, "mount_path": "/m"}])


# --- the envelope ---


@asynchronous
async def test_messages_that_are_none_are_ignored(connect):
    async with connect() as peer:
        for text in ("{", "[]", "7", '"x"', "null", "{}", '{"seq_id": 5}', "nothing", '{"code": 0}'):
            if SERVER == "python" and VERSION < (0, 4, 17):
                continue  # of that one each ends a task with a traceback; it goes on
            await peer.handler.conn.send(text)
        assert await peer.call("__ping") == {}


@asynchronous
async def test_an_unknown_action_is_an_error(connect):
    async with connect() as peer:
        message = await peer.refused("box_no_such_thing")
        assert "box_no_such_thing" in message
        assert await peer.call("__ping") == {}


@asynchronous
async def test_an_answer_has_all_keys(connect):
    """Those that the client's model needs and those it has a default for."""
    async with connect() as peer:
        seen = []
        receive = peer.handler.conn.receive

        async def listen():
            message = await receive()
            seen.append(json.loads(message))
            return message

        peer.handler.conn.receive = listen
        await peer.call("__ping")  # the read under way was not listened to
        await peer.call("__ping")
        await peer.refused("box_no_such_thing")
        good, bad = seen[-2:]
        assert good == {"seq_id": peer.handler.seq_id_index - 1, "code": 0, "message": "success", "data": {},
                        "chunk_status": "continue"}
        assert set(bad) == set(good) and bad["seq_id"] == peer.handler.seq_id_index
        assert bad["code"] == 1 and bad["data"] == {} and isinstance(bad["message"], str)


@asynchronous
async def test_long_errors_are_cut(connect):
    async with connect() as peer:
        message = await peer.refused("box_get_session", {"session_id": "x" * 20_000})
        if SERVER == "python" and VERSION < (0, 5):
            pytest.skip("0.4's Python runtime sends all of it")
        assert len(message) < 4096 + 100, len(message)


@asynchronous
async def test_missing_keys(connect):
    async with connect() as peer:
        for name in ("box_get_session", "box_delete_session", "box_get_managed_process", "box_stop_managed_process",
                     "box_start_managed_process"):
            assert "session_id" in await peer.refused(name, {}), name
        assert "spec" in await peer.refused("box_start_managed_process", {"session_id": "x"})


@asynchronous
async def test_other_peoples_words(connect):
    """An instance named in a context that is not asked for one must still be ours."""
    if not TENANTS:
        pytest.skip("contexts came with 0.5")
    async with connect() as peer:
        assert await peer.call("__ping", action_context=make_context()) == {}
        stranger = make_context(instance=f"{INSTANCE}-{uuid.uuid4()}")
        assert (await peer.refused("__ping", action_context=stranger)).startswith("PermissionError:")


@asynchronous
async def test_text_of_every_kind_goes_through(connect):
    async with connect() as peer:
        text = "äöü ☃ 😀 \u2028 \\ \" </script> \x01\x1f\x7f"
        spec = BoxSpec(session_id=unique(), cmd="printf '%s' \"$TEXT\"", env={"TEXT": text})
        assert (await peer.execute(spec)).stdout == text
