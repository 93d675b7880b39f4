# SPDX-License-Identifier: Apache-2.0
"""Grants, for deployments that share sandboxes, and the proof of a shared directory.

Readiness asks for cgroup v2 and quotas that a machine may not have. Where it does not have them, nothing is ever
admitted, and these tests check that; the rules for grants hold all the same."""

import asyncio
import datetime
import hashlib
import json
import os
import urllib.error
import urllib.request

import pytest
from daemon import asynchronous, unique
from harness import SERVER, boxd_only, tenants_only
from langbot_plugin.box import errors
from peer import INSTANCE, TENANTS, Peer, make_context, open_websocket, relay_refusal, websocket_peer

if TENANTS:
    from langbot_plugin.box.models import SandboxAdmissionGrant, SandboxAdmissionRevocation

pytestmark = tenants_only
POLICY = {"required": True, "logical_session_id": "global", "required_backend": "nsjail", "max_sessions": 1,
          "max_managed_processes": 0, "max_grant_ttl_sec": 300, "max_timeout_sec": 120, "cpus": 1.0, "memory_mb": 512,
          "pids_limit": 128, "read_only_rootfs": True, "workspace_quota_mb": 64, "readiness_cache_sec": 15}
CHECKS = {"configuration", "required_backend", "workspace_mount", "backend_available", "cgroup_v2", "namespace_isolation",
          "mount_isolation", "network_isolation", "hard_workspace_quota", "hard_skill_storage_quota",
          "bounded_ephemeral_storage", "inode_quota", "session_cap", "managed_process_cap"}
ACTIONS = [("box_exec", {"cmd": "true"}), ("box_create_session", {}), ("box_get_session", {}), ("box_get_sessions", {}),
           ("box_delete_session", {}), ("box_start_managed_process", {"spec": {"command": "cat"}}),
           ("box_get_managed_process", {}), ("box_stop_managed_process", {})]


def grant(workspace="w", revision=1, generation=1, seconds=60, sessions=1, processes=0, instance=INSTANCE):
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return SandboxAdmissionGrant(
        instance_uuid=instance, workspace_uuid=workspace, execution_generation=generation, entitlement_revision=revision,
        expires_at=until, max_sessions=sessions, max_managed_processes=processes)


def revocation(workspace="w", revision=1, instance=INSTANCE):
    return SandboxAdmissionRevocation(instance_uuid=instance, workspace_uuid=workspace, entitlement_revision=revision)


def readyz(server):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture
def strict(make_server):
    return make_server(config={"admission": POLICY})


def passed(check):
    """boxd's own interface says why not."""
    return check["ok"] if isinstance(check, dict) else check


async def is_ready(server):
    status, body = await asyncio.get_running_loop().run_in_executor(None, readyz, server)
    assert (status == 200) == body["ready"] == all(map(passed, body["checks"].values()))
    return body["ready"]


@asynchronous
async def test_without_admission_there_are_no_grants(make_server):
    async with websocket_peer(make_server()) as peer:
        with pytest.raises(errors.BoxAdmissionError):
            await peer.upsert_sandbox_admission_grant(grant())
        with pytest.raises(errors.BoxAdmissionError):
            await peer.revoke_sandbox_admission_grant(revocation())


@asynchronous
async def test_readiness_is_told(strict):
    status, body = await asyncio.get_running_loop().run_in_executor(None, readyz, strict)
    assert CHECKS <= set(body["checks"]) and status == (200 if body["ready"] else 503)
    async with websocket_peer(strict) as peer:
        info = await peer.get_backend_info()
        assert info["available"] is body["ready"]
        assert {name: info["readiness"]["checks"][name] for name in CHECKS} == {
            name: passed(body["checks"][name]) for name in CHECKS}
        if body["ready"]:
            await peer.call("box_health")
            return
        with pytest.raises(errors.BoxRuntimeUnavailableError, match="BoxReadinessError"):
            await peer.initialize()
        # Each check that failed is named.
        await peer.upsert_sandbox_admission_grant(grant(peer.context.workspace_uuid))
        with pytest.raises(errors.BoxReadinessError) as raised:
            await peer.exec("global", "true")
        for name in CHECKS:
            assert (name in str(raised.value)) == (not passed(body["checks"][name])), name


@asynchronous
async def test_nothing_without_a_grant(strict):
    """Missing, of another workspace, of another generation, for no sessions, expired, revoked: one answer for all
    actions, whatever the session is called."""
    ready = await is_ready(strict)
    kind = "BoxAdmissionError:" if ready else "BoxReadinessError:"
    async with websocket_peer(strict) as host:
        names = ("missing", "older", "none", "expired", "revoked")
        workspaces = {name: make_context(f"{name}-{unique()}", 2) for name in names}
        ids = {name: context.workspace_uuid for name, context in workspaces.items()}
        await host.upsert_sandbox_admission_grant(grant("somebody else"))
        await host.upsert_sandbox_admission_grant(grant(ids["older"], generation=1))
        await host.upsert_sandbox_admission_grant(grant(ids["none"], generation=2, sessions=0))
        await host.upsert_sandbox_admission_grant(grant(ids["expired"], generation=2, seconds=1.5))
        await host.upsert_sandbox_admission_grant(grant(ids["revoked"], generation=2))
        await host.revoke_sandbox_admission_grant(revocation(ids["revoked"]))
        await asyncio.sleep(1.6)
        for name, context in workspaces.items():
            peer = host.to(context)
            messages = set()
            for action, data in ACTIONS:
                for session in ("global", "x"):
                    message = await peer.refused(action, {"session_id": session, **data})
                    assert message.startswith(kind), (name, action, message)
                    messages.add(message)
            assert len(messages) == 1, (name, messages)
        if not ready:
            return
        peer = host.to(make_context("admitted"))
        await host.upsert_sandbox_admission_grant(grant("admitted"))
        assert await peer.out("global", "echo in") == "in"


@asynchronous
async def test_the_relay_needs_one_too(strict):
    async with websocket_peer(strict) as peer:
        status, body = await relay_refusal(peer.relay("global"))
        assert status == 401, "a workspace that was never heard of"
        await peer.get_status()
        status, body = await relay_refusal(peer.relay("global"))
        assert status == 400 and json.loads(body)["error"]["code"] in ("BoxReadinessError", "BoxAdmissionError")


@asynchronous
async def test_a_grant_is_acknowledged(strict):
    async with websocket_peer(strict) as peer:
        wanted = grant("acknowledged", revision=4, generation=2)
        got = await peer.upsert_sandbox_admission_grant(wanted)
        until = got.pop("expires_at")
        assert datetime.datetime.fromisoformat(until) == wanted.expires_at
        assert got == {"installed": True, "workspace_uuid": "acknowledged", "execution_generation": 2,
                       "entitlement_revision": 4, "max_sessions": 1, "max_managed_processes": 0}
        assert await peer.revoke_sandbox_admission_grant(revocation("acknowledged", 4)) == {
            "revoked": True, "workspace_uuid": "acknowledged", "entitlement_revision": 4}


@asynchronous
async def test_grants_that_are_refused(strict):
    async with websocket_peer(strict) as peer:
        upsert, revoke = peer.upsert_sandbox_admission_grant, peer.revoke_sandbox_admission_grant
        for wrong in (grant(seconds=-1), grant(seconds=301), grant(sessions=2), grant(processes=1)):
            with pytest.raises(errors.BoxAdmissionError):
                await upsert(wrong)
        for ask in (upsert(grant(instance="another")), revoke(revocation(instance="another"))):
            with pytest.raises(errors.BoxError, match="PermissionError"):
                await ask

        await upsert(grant(revision=5, generation=3))
        for stale in (grant(revision=4, generation=3), grant(revision=5, generation=2), grant(revision=6, generation=2),
                      grant(revision=5, generation=3, sessions=0)):
            with pytest.raises(errors.BoxAdmissionError):
                await upsert(stale)
        shorter = await upsert(grant(revision=5, generation=3, seconds=30))
        left = datetime.datetime.fromisoformat(shorter["expires_at"]) - datetime.datetime.now(datetime.timezone.utc)
        assert left > datetime.timedelta(seconds=35), "the longer one holds"
        await upsert(grant(revision=5, generation=4))
        await upsert(grant(revision=6, generation=4, sessions=0))

        with pytest.raises(errors.BoxAdmissionError):
            await revoke(revocation(revision=5))
        await revoke(revocation(revision=6))
        await revoke(revocation(revision=6))
        for late in (grant(revision=6, generation=4), grant(revision=6, generation=5)):
            with pytest.raises(errors.BoxAdmissionError):
                await upsert(late)
        await upsert(grant(revision=7, generation=4))


@asynchronous
async def test_malformed_grants(strict):
    async with websocket_peer(strict) as peer:
        good = grant().model_dump(mode="json")
        changes = [{"expires_at": "2030-01-01T00:00:00"}, {"expires_at": "soon"}, {"max_sessions": "1"},
                   {"max_sessions": True}, {"max_sessions": -1}, {"entitlement_revision": 0}, {"execution_generation": 0},
                   {"execution_generation": 1.0}, {"workspace_uuid": " "}, {"workspace_uuid": 7}, {"plan": "gold"}]
        for change in changes:
            message = await peer.refused("box_upsert_sandbox_admission_grant", {**good, **change})
            assert message.startswith("BoxValidationError:") and next(iter(change)) in message, (change, message)
        for key in good:
            rest = {name: good[name] for name in good if name != key}
            message = await peer.refused("box_upsert_sandbox_admission_grant", rest)
            assert message.startswith("BoxValidationError:") and key in message, (key, message)
        revoked = revocation().model_dump(mode="json")
        for change in ({"entitlement_revision": 0}, {"entitlement_revision": "1"}, {"workspace_uuid": ""}, {"more": 1}):
            message = await peer.refused("box_revoke_sandbox_admission_grant", {**revoked, **change})
            assert message.startswith("BoxValidationError:") and next(iter(change)) in message, (change, message)


@asynchronous
async def test_there_is_no_way_back(strict):
    async with websocket_peer(strict) as peer:
        await peer.init({"admission": {**POLICY, "required": False}})
        await peer.refused("box_exec", {"session_id": "global", "cmd": "true"})
        await peer.refused("box_get_sessions")
        with pytest.raises(errors.BoxRuntimeUnavailableError, match="BoxReadinessError"):
            await peer.initialize()


@asynchronous
async def test_a_malformed_section_means_required(make_server):
    for section in ({"required": "perhaps"}, {"required": False, "max_sessions": 2}, {"nonsense": 1},
                    {"required_backend": "docker"}):
        server = make_server()
        async with websocket_peer(server) as peer:
            await peer.out("x", "true")
            await peer.init({"admission": section})
            message = await peer.refused("box_exec", {"session_id": "x", "cmd": "true"})
            assert message.startswith("BoxReadinessError:"), (section, message)
            with pytest.raises(errors.BoxReadinessError):
                await peer.upsert_sandbox_admission_grant(grant())
            assert not await is_ready(server)


@boxd_only(reason="the Python runtime has no other ways in")()
@asynchronous
async def test_other_ways_in_are_closed(strict):
    def post(path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{strict.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request, timeout=60)
        return raised.value.code, json.load(raised.value)["error"]["code"]

    assert post("/v1/exec", {"session_id": "x", "cmd": "true"}) == (403, "BoxAdmissionError")
    assert post("/v1/sessions", {"session_id": "x"}) == (403, "BoxAdmissionError")
    link = await open_websocket(strict, headers={})
    try:
        old = Peer(strict, link.client, link.handler, None)
        assert (await old.refused("box_exec", {"session_id": "x", "cmd": "true"})).startswith("BoxAdmissionError:")
        assert (await old.refused("box_create_session", {"session_id": "x"})).startswith("BoxAdmissionError:")
    finally:
        await link.close()


# --- the shared directory ---

PREFIX = ".langbot-box-volume-probe-"


@asynchronous
async def test_a_marker_in_the_shared_directory(make_server):
    server = make_server()
    root = server.host / "default"
    root.mkdir(exist_ok=True)
    root.chmod(0o755)
    async with websocket_peer(server) as peer:
        await peer.init({"local": {**server.config["local"], "default_workspace": str(root)}})
        for size in (1, 64, 1024):
            data = os.urandom(size)
            name = PREFIX + os.urandom(16).hex()
            (root / name).write_bytes(data)
            assert await peer.verify_shared_workspace(name) == {
                "marker_name": name, "sha256": hashlib.sha256(data).hexdigest(), "size": size}

        def marker(make):
            name = PREFIX + os.urandom(16).hex()
            make(root / name)
            return name

        (root / "secret").write_text("private")
        bad = [marker(lambda path: None), marker(lambda path: path.mkdir()), marker(lambda path: path.write_bytes(b"")),
               marker(lambda path: path.write_bytes(b"x" * 1025)), marker(lambda path: path.symlink_to(root / "secret")),
               marker(lambda path: path.symlink_to("/etc/hostname"))]
        for name in bad:
            with pytest.raises(errors.BoxReadinessError):
                await peer.verify_shared_workspace(name)
        for name in ("secret", "", "../secret", "/etc/hostname", PREFIX + "0" * 31, PREFIX + "G" * 32, PREFIX + "0" * 33,
                     PREFIX + "A" * 32):
            message = await peer.refused("box_verify_shared_workspace", {"marker_name": name})
            assert message.startswith("BoxReadinessError:"), message


@asynchronous
async def test_a_marker_that_is_a_pipe_holds_nobody_up(make_server):
    if SERVER == "python":
        pytest.skip("it opens the pipe, and waits")
    server = make_server()
    root = server.host / "default"
    root.mkdir(exist_ok=True)
    async with websocket_peer(server) as peer:
        await peer.init({"local": {**server.config["local"], "default_workspace": str(root)}})
        name = PREFIX + os.urandom(16).hex()
        os.mkfifo(root / name)
        with pytest.raises(errors.BoxReadinessError):
            await peer.verify_shared_workspace(name)
