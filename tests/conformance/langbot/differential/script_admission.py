# SPDX-License-Identifier: Apache-2.0
"""0.5: grants. Whether sandboxes are ready for a shared deployment is each machine's own (the Python runtime never is, for
want of quotas), and so is what a grant allows then; the book of grants can be compared without: what is written into it
and what is refused needs no sandbox."""

import datetime

from scripts import exec_of, script

REQUIRED = {"admission": {"required": True}}


def at(seconds):
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return moment.isoformat()


def grant(pair, seconds=200, **changes):
    return {"instance_uuid": "instance-1", "workspace_uuid": pair.workspace, "execution_generation": 1, "entitlement_revision": 1,
            "expires_at": at(seconds), "max_sessions": 1, "max_managed_processes": 0, **changes}


def revocation(pair, revision=1, **changes):
    return {"instance_uuid": "instance-1", "workspace_uuid": pair.workspace, "entitlement_revision": revision, **changes}


UPSERT, REVOKE = "box_upsert_sandbox_admission_grant", "box_revoke_sandbox_admission_grant"


@script(since="0.5")
async def not_required(pair):
    """Without a policy there is no book."""
    await pair.call(UPSERT, grant(pair))
    await pair.call(REVOKE, revocation(pair))


@script(since="0.5", config=REQUIRED)
async def grants(pair):
    await pair.call(UPSERT, grant(pair))
    await pair.call(UPSERT, grant(pair, 290))
    # Shorter: taken, and the longer one holds.
    held = grant(pair, 280, entitlement_revision=2)
    await pair.call(UPSERT, held)
    boxd, _ = await pair.call(UPSERT, {**held, "expires_at": at(100)})
    pair.judge("the longer one", [boxd["data"]["expires_at"], held["expires_at"]])
    # Limits are of a revision.
    await pair.call(UPSERT, grant(pair, entitlement_revision=2, max_sessions=0))
    await pair.call(UPSERT, grant(pair, entitlement_revision=3, max_sessions=0))
    await pair.call(UPSERT, grant(pair, entitlement_revision=3, max_sessions=1))
    # Neither revision nor generation goes back.
    await pair.call(UPSERT, grant(pair, entitlement_revision=2))
    await pair.call(UPSERT, grant(pair, entitlement_revision=4, execution_generation=5))
    await pair.call(UPSERT, grant(pair, entitlement_revision=4, execution_generation=4))
    await pair.call(UPSERT, grant(pair, entitlement_revision=5, execution_generation=4))
    await pair.call(UPSERT, grant(pair, entitlement_revision=4, execution_generation=6))
    # A shorter one of another generation is not a duplicate.
    await pair.call(UPSERT, grant(pair, 50, entitlement_revision=4, execution_generation=7))


@script(since="0.5", config=REQUIRED)
async def caps(pair):
    for change in ({"max_sessions": 2}, {"max_managed_processes": 1}, {"max_sessions": 0}, {"max_sessions": 1}):
        await pair.call(UPSERT, grant(pair, entitlement_revision=1 if change != {"max_sessions": 1} else 2, **change))
    for seconds in (-1, 0, -100_000, 301, 100_000, 1, 299):
        await pair.call(UPSERT, grant(pair, seconds, entitlement_revision=3))


@script(since="0.5", config=REQUIRED)
async def revocations(pair):
    await pair.call(REVOKE, revocation(pair, 3))
    for revision in (1, 2, 3):
        await pair.call(UPSERT, grant(pair, entitlement_revision=revision))
    await pair.call(UPSERT, grant(pair, entitlement_revision=4))
    await pair.call(REVOKE, revocation(pair, 3))
    await pair.call(REVOKE, revocation(pair, 2))
    await pair.call(REVOKE, revocation(pair, 4))
    await pair.call(REVOKE, revocation(pair, 4))
    await pair.call(UPSERT, grant(pair, entitlement_revision=4))
    await pair.call(REVOKE, revocation(pair, 9))
    await pair.call(UPSERT, grant(pair, entitlement_revision=8))
    await pair.call(UPSERT, grant(pair, entitlement_revision=10, execution_generation=3))
    await pair.call(REVOKE, revocation(pair, 9))
    # The generation is remembered across it.
    await pair.call(REVOKE, revocation(pair, 10))
    await pair.call(UPSERT, grant(pair, entitlement_revision=11, execution_generation=2))
    await pair.call(UPSERT, grant(pair, entitlement_revision=11, execution_generation=3))
    # Of another workspace, nothing has changed.
    await pair.call(UPSERT, grant(pair, workspace_uuid="another"))


@script(since="0.5", config=REQUIRED)
async def forms(pair):
    """Each field of a grant and a revocation, wrong."""
    good = grant(pair)
    for field in good:
        await pair.call(UPSERT, {key: value for key, value in good.items() if key != field}, names=field)
    for field in ("execution_generation", "entitlement_revision", "max_sessions", "max_managed_processes"):
        for value in (None, "1", 1.0, True, [], -1, 1.5, ""):
            await pair.call(UPSERT, {**good, field: value}, names=field)
    for field in ("execution_generation", "entitlement_revision"):
        await pair.call(UPSERT, {**good, field: 0}, names=field)
    for field in ("instance_uuid", "workspace_uuid"):
        for value in (None, 5, "", " \t", []):
            await pair.call(UPSERT, {**good, field: value}, names=field)
    for value in ("", "x", None, [], True, "2030-01-01T00:00:00", "2030-01-01", "12:00", "2030-13-01T00:00:00Z", "2030-01-32T00:00:00Z"):
        await pair.call(UPSERT, {**good, "expires_at": value}, names="expires_at")
    await pair.call(UPSERT, {**good, "more": 1}, names="more")
    await pair.call(UPSERT, {**good, "instance_uuid": "instance-2"})
    bad = revocation(pair)
    for field in bad:
        await pair.call(REVOKE, {key: value for key, value in bad.items() if key != field}, names=field)
    for value in (None, "1", 1.0, True, 0, -1):
        await pair.call(REVOKE, {**bad, "entitlement_revision": value}, names="entitlement_revision")
    await pair.call(REVOKE, {**bad, "more": 1}, names="more")
    await pair.call(REVOKE, {**bad, "instance_uuid": "instance-2"})
    await pair.call(UPSERT, {**good, "workspace_uuid": "  spaces around ", "instance_uuid": " instance-1 "})


@script(since="0.5", config=REQUIRED)
async def times(pair):
    """The forms of a time that is in the future."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(seconds=100)
    here = now.astimezone(datetime.timezone(datetime.timedelta(hours=5, minutes=30)))
    stamp = int(now.timestamp())
    for revision, text in enumerate((
            now.isoformat(), now.strftime("%Y-%m-%dT%H:%M:%SZ"), now.strftime("%Y-%m-%dt%H:%M:%Sz"), now.strftime("%Y-%m-%d %H:%M:%SZ"),
            here.isoformat(), here.strftime("%Y-%m-%dT%H:%M:%S+0530"), now.strftime("%Y-%m-%dT%H:%M:%S.5Z"),
            now.strftime("%Y-%m-%dT%H:%M:%S.123456Z"), now.strftime("%Y-%m-%dT%H:%M:%S.123456789Z"), now.strftime("%Y-%m-%dT%H:%M:%S,5Z"),
            stamp, str(stamp), stamp + 0.25, stamp * 1000, now.strftime("%Y-%m-%dT%H:%MZ"), now.strftime("%Y-%m-%d_%H:%M:%SZ"),
            now.strftime("%Y-%m-%dT%H:%M:%S-00:00"), now.strftime("%Y-%m-%dT%H:%M:%S Z"), now.strftime(" %Y-%m-%dT%H:%M:%SZ"),
            now.strftime("%Y-%m-%dT%H:%M:%S+00"), now.strftime("%Y%m%dT%H%M%SZ")), 1):
        await pair.call(UPSERT, grant(pair, entitlement_revision=revision, expires_at=text))


@script(since="0.5", config={"admission": {"required": True}, "limits": {"max_admission_records": 2}})
async def records(pair):
    """So many workspaces are remembered, and then no others."""
    await pair.call(UPSERT, grant(pair, workspace_uuid="a"))
    await pair.call(REVOKE, revocation(pair, workspace_uuid="b"))
    await pair.call(UPSERT, grant(pair, workspace_uuid="c"))
    await pair.call(REVOKE, revocation(pair, workspace_uuid="c"))
    await pair.call(UPSERT, grant(pair, workspace_uuid="a", entitlement_revision=2))
    await pair.call(REVOKE, revocation(pair, workspace_uuid="b", revision=2))


@script(since="0.5", config={})
async def policies(pair):
    """A section that is wrong is a policy that requires and never is ready; there is no way back."""
    await pair.call("box_init", {"admission": {"required": False}})
    await pair.call(UPSERT, grant(pair))
    await pair.call("box_init", {"admission": {"required": True, "max_sessions": 7}})
    await pair.call(UPSERT, grant(pair))
    await pair.call(REVOKE, revocation(pair))
    await pair.call("box_health")
    await pair.call("box_init", {"admission": {"required": True}})
    await pair.call(UPSERT, grant(pair, entitlement_revision=2))
    await pair.call("box_init", {"admission": {"required": False}})
    await pair.call(UPSERT, grant(pair, entitlement_revision=3))
    await pair.call("box_init", {"admission": None})
    await pair.call(UPSERT, grant(pair, entitlement_revision=4))
    await pair.call("box_init", {"admission": {"required": True, "max_grant_ttl_sec": 60}})
    await pair.call(UPSERT, grant(pair, 50, entitlement_revision=5))
    await pair.call(UPSERT, grant(pair, 70, entitlement_revision=6))


@script(since="0.5", config={})
async def policy_forms(pair):
    """Each field of the section, wrong: a grant shows whether the policy is usable."""
    for revision, change in enumerate((
            {"required": "x"}, {"required": 1}, {"required": "true"}, {"logical_session_id": "other"}, {"required_backend": "docker"},
            {"max_sessions": 2}, {"max_sessions": -1}, {"max_sessions": True}, {"max_sessions": "1"}, {"max_managed_processes": 1},
            {"max_grant_ttl_sec": 0}, {"max_timeout_sec": 0}, {"cpus": 0}, {"cpus": "1"}, {"cpus": True}, {"memory_mb": 31},
            {"pids_limit": 0}, {"read_only_rootfs": "x"}, {"workspace_quota_mb": -1}, {"readiness_cache_sec": -1}, {"more": 1},
            {"cpus": 2}, {"read_only_rootfs": "no"}, {"readiness_cache_sec": 0}, {"max_sessions": 0}), 1):
        await pair.call("box_init", {"admission": {"required": True, **change}})
        await pair.call(UPSERT, grant(pair, entitlement_revision=revision, max_sessions=0))
    for revision, section in enumerate(([], "x", 5, True), 100):
        await pair.call("box_init", {"admission": section})
        await pair.call(UPSERT, grant(pair, entitlement_revision=revision))


@script(since="0.5", config=REQUIRED)
async def fence(pair):
    """A grant of a newer generation is seen by the fence of generations."""
    await pair.call(UPSERT, grant(pair, execution_generation=5))
    for pair.generation in (4, 5, 6, 5, 6):
        await pair.call("box_status", ignore=["data.backend.readiness"])
    await pair.call(UPSERT, grant(pair, entitlement_revision=2, execution_generation=7))
    await pair.call("box_status", ignore=["data.backend.readiness"])


@script(since="0.5", config=REQUIRED)
async def nothing_without(pair):
    """Neither grant nor readiness: no sandbox, whatever is asked. Which of the two is missed first is the machine's."""
    for action, data in (("box_exec", exec_of("true", session="global")), ("box_create_session", {"session_id": "global"}),
                         ("box_get_session", {"session_id": "global"}), ("box_get_sessions", {}),
                         ("box_delete_session", {"session_id": "global"})):
        boxd, python = await pair.call(action, data, ignore=["message"])
        for answer in (boxd, python):
            assert answer["code"] == 1 and answer["message"].startswith(("BoxReadinessError: ", "BoxAdmissionError: ")), answer


@script(since="0.5")
async def shared_workspace(pair):
    """box_verify_shared_workspace refuses all but its own kind of name, and what is not there."""
    prefix = ".langbot-box-volume-probe-"
    for name in ("", "x", prefix, prefix + "0" * 31, prefix + "0" * 33, prefix + "A" * 32, prefix + "g" * 32, f"../{prefix}{'0' * 32}",
                 prefix + "0" * 32, None, 5, [], prefix + "0" * 31 + "/"):
        await pair.call("box_verify_shared_workspace", {"marker_name": name})
    await pair.call("box_verify_shared_workspace", {})


def with_workspace(share):
    return {"local": {"host_root": str(share), "allowed_mount_roots": [str(share)]}}


@script(since="0.5", config=with_workspace)
async def markers(pair):
    """The file that shows whether both see the same directory."""
    root = pair.share / "default"
    prefix = ".langbot-box-volume-probe-"
    made = 0

    def marker(content):
        nonlocal made
        made += 1
        path = root / f"{prefix}{made:032x}"
        if content is not None:
            path.write_bytes(content)
        return path

    async def verify(path):
        await pair.call("box_verify_shared_workspace", {"marker_name": path.name})

    for content in (b"x", b"challenge\n", b"\0" * 1024, b"", b"x" * 1025, None):
        await verify(marker(content))
    link = marker(None)
    link.symlink_to(marker(b"other"))
    await verify(link)
    directory = marker(None)
    directory.mkdir()
    await verify(directory)
    await pair.call("box_verify_shared_workspace", {"marker_name": f"  {marker(b'spaces').name}\n"})
