# SPDX-License-Identifier: Apache-2.0
"""Every class of error that the client makes of an answer, and that an error changes nothing."""

import pytest
from daemon import asynchronous, unique
from harness import SERVER, boxd_only, python_before
from langbot_plugin.box import errors
from langbot_plugin.box.models import BoxManagedProcessSpec
from peer import VERSION, websocket_peer

# 0.4.2 has no class of its own for it.
CapacityExceeded = getattr(errors, "BoxCapacityExceededError", errors.BoxError)

# Specs that pydantic refuses, and the field that it names.
BAD_SPECS = [
    ({"timeout_sec": 0}, "timeout_sec"),
    ({"timeout_sec": "soon"}, "timeout_sec"),
    ({"timeout_sec": 1.5}, "timeout_sec"),
    ({"timeout_sec": None}, "timeout_sec"),
    ({"network": "maybe"}, "network"),
    ({"workdir": "relative"}, "workdir"),
    ({"session_id": "   "}, "session_id"),
    ({"session_id": 7}, "session_id"),
    ({"env": {"A": 1}}, "env"),
    ({"env": ["A=1"]}, "env"),
    ({"host_path": "relative"}, "host_path"),
    ({"host_path_mode": "x"}, "host_path_mode"),
    ({"mount_path": "data"}, "mount_path"),
    ({"extra_mounts": [{"host_path": "x", "mount_path": "/m"}]}, "extra_mounts"),
    ({"extra_mounts": [{"mount_path": "/m"}]}, "host_path"),
    ({"extra_mounts": {}}, "extra_mounts"),
    ({"cpus": 0}, "cpus"),
    ({"cpus": "many"}, "cpus"),
    ({"memory_mb": 31}, "memory_mb"),
    ({"pids_limit": 0}, "pids_limit"),
    ({"workspace_quota_mb": -1}, "workspace_quota_mb"),
    ({"persistent": "perhaps"}, "persistent"),
    ({"read_only_rootfs": 2}, "read_only_rootfs"),
    ({"cmd": 7}, "cmd"),
    ({"host_path": "/tmp/x", "workdir": "/elsewhere"}, "workdir"),
]


@asynchronous
async def test_a_bad_spec_names_the_field(connect):
    async with connect() as peer:
        for change, field in BAD_SPECS:
            for name in ("box_exec", "box_create_session"):
                message = await peer.refused(name, {"session_id": unique(), "cmd": "true", **change})
                assert message.startswith("BoxValidationError:") and field in message, (change, message)
        assert "session_id" in await peer.refused("box_exec", {"cmd": "true"})
        assert await peer.get_sessions() == []


@asynchronous
async def test_the_client_raises_it(connect):
    async with connect() as peer:
        with pytest.raises(errors.BoxValidationError, match="cmd"):
            await peer.exec(unique(), "")
        with pytest.raises(errors.BoxValidationError, match="cmd"):
            await peer.exec(unique(), " \n ")
        for change, field in (({"command": " "}, "command"), ({"command": "x", "cwd": "relative"}, "cwd"),
                              ({"command": "x", "args": "y"}, "args"), ({"command": "x", "args": [1]}, "args"),
                              ({"command": "x", "env": {"A": None}}, "env"), ({}, "command")):
            message = await peer.refused("box_start_managed_process", {"session_id": "x", "spec": change})
            assert message.startswith("BoxValidationError:") and field in message, (change, message)


@asynchronous
async def test_a_session_that_is_not_there(connect):
    async with connect() as peer:
        name = unique("nobody")
        spec = BoxManagedProcessSpec(command="cat")
        for ask in (peer.get_session(name), peer.delete_session(name), peer.start_managed_process(name, spec),
                    peer.get_managed_process(name), peer.stop_managed_process(name, "x")):
            with pytest.raises(errors.BoxSessionNotFoundError, match=name):
                await ask
        assert await peer.get_sessions() == []


CONFLICTS = [("network", "on", "off"), ("image", "other", "rockchin/langbot-sandbox:latest"), ("persistent", True, "False"),
             ("cpus", 0.5, "1"), ("memory_mb", 300, "512"), ("pids_limit", 99, "128"), ("mount_path", "/data", "/workspace"),
             ("read_only_rootfs", False, "True"), ("workspace_quota_mb", 7, "0"), ("host_path_mode", "ro", "rw")]


@asynchronous
async def test_a_conflict_names_the_field(connect):
    async with connect() as peer:
        name = unique()
        await peer.out(name, "echo x > file")
        for field, value, present in CONFLICTS:
            with pytest.raises(errors.BoxSessionConflictError, match=f"{field} ?= ?(?i:{present})") as raised:
                await peer.exec(name, "true", **{field: value})
            assert name in str(raised.value)
        with pytest.raises(errors.BoxSessionConflictError, match="host_path ?="):
            await peer.create(name, host_path=str(peer.server.directory()))
        # The first of several that differ, in the order of the fields.
        with pytest.raises(errors.BoxSessionConflictError, match="network ?="):
            await peer.create(name, memory_mb=300, network="on")
        assert await peer.out(name, "cat file", timeout_sec=7, env={"A": "b"}, workdir="/workspace/.") == "x", "as it was"


@asynchronous
async def test_a_process_that_is_not_there(connect):
    async with connect() as peer:
        name = unique()
        await peer.create(name)
        for ask in (peer.get_managed_process(name), peer.get_managed_process(name, "x"),
                    peer.stop_managed_process(name), peer.stop_managed_process(name, "x")):
            with pytest.raises(errors.BoxManagedProcessNotFoundError):
                await ask
        await peer.start(name, "cat", process_id="x")
        await peer.stop_managed_process(name, "x")
        with pytest.raises(errors.BoxManagedProcessNotFoundError, match="x"):
            await peer.stop_managed_process(name, "x")


@python_before((0, 4, 17), "has no limits")
@asynchronous
async def test_too_many_sessions(make_server):
    async with websocket_peer(make_server()) as peer:
        await peer.init({"limits": {"max_sessions": 2, "max_managed_processes": 500}})
        first, second, third = (unique() for _ in range(3))
        await peer.create(first)
        await peer.create(second)
        with pytest.raises(CapacityExceeded, match="BoxCapacityExceededError.*2"):
            await peer.exec(third, "true")
        assert await peer.out(first, "echo still") == "still"
        await peer.delete_session(second)
        assert await peer.out(third, "echo room") == "room"


@python_before((0, 4, 17), "has no limits")
@asynchronous
async def test_too_many_processes(make_server):
    async with websocket_peer(make_server()) as peer:
        await peer.init({"limits": {"max_sessions": 64, "max_managed_processes": 1}})
        name, other = unique(), unique()
        await peer.create(name)
        await peer.create(other)
        await peer.start(name, "cat")
        for session, process in ((name, "x"), (other, "default")):
            with pytest.raises(CapacityExceeded, match="BoxCapacityExceededError.*1"):
                await peer.start(session, "cat", process_id=process)
        await peer.start(name, "cat")  # in the place of the one that runs
        await peer.stop_managed_process(name)
        await peer.start(other, "cat")


@asynchronous
async def test_no_backend(make_server):
    async with websocket_peer(make_server()) as peer:
        await peer.init({"backend": "nothing-of-the-kind"})
        info = await peer.get_backend_info()
        assert info["available"] is False, info
        with pytest.raises(errors.BoxBackendUnavailableError):
            await peer.exec(unique(), "true")
        with pytest.raises(errors.BoxBackendUnavailableError):
            await peer.create(unique())
        assert (await peer.get_status())["backend"]["available"] is False
        await peer.init({"backend": "local"})
        assert (await peer.get_backend_info())["available"] is True
        assert await peer.out(unique(), "echo back") == "back"


@asynchronous
async def test_a_backend_is_not_changed_under_sessions(make_server):
    async with websocket_peer(make_server()) as peer:
        name = unique()
        await peer.create(name)
        await peer.init({"backend": "nothing-of-the-kind"})
        assert await peer.out(name, "echo works") == "works"
        assert (await peer.get_backend_info())["available"] is True


@python_before((0, 4, 17), "takes any configuration")
@asynchronous
async def test_a_malformed_configuration_changes_nothing(make_server):
    async with websocket_peer(make_server()) as peer:
        await peer.init({"limits": {"max_sessions": 3}})
        for limits in ({"max_sessions": "many"}, {"max_sessions": True}, {"max_sessions": 5001}, {"max_sessions": -1},
                       {"max_managed_processes": 1025}, {"max_completed_processes": 10_001}, [], {"max_sessions": 1.5}):
            if SERVER == "python" and (VERSION < (0, 5) or limits == []):
                continue  # 0.4 clamps some of them; an empty list counts as none
            with pytest.raises(errors.BoxError, match="limits"):
                await peer.init({"limits": limits, "backend": "nothing-of-the-kind"})
        assert (await peer.get_status())["limits"]["max_sessions"] == 3
        assert (await peer.get_backend_info())["available"] is True


@boxd_only(reason="boxd's own bounds")()
@asynchronous
async def test_init_cannot_widen_what_may_be_mounted(make_server, tmp_path):
    async with websocket_peer(make_server()) as peer:
        await peer.init({"local": {"allowed_mount_roots": ["/", "/etc"], "host_root": "/"}})
        for path in ("/etc", str(tmp_path)):
            with pytest.raises(errors.BoxValidationError):
                await peer.exec(unique(), "true", host_path=path)
