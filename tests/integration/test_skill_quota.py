"""The quota of the skill store: boxd's own count everywhere, and a limit that the kernel holds where the file system has
project quota (BOXD_TEST_PROJECT_DIR), also for what a session writes into a package that is mounted writable."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

import hostview
import rpc
from daemon import asynchronous, websocket
from skillbox import Skills, skill_md, zip_of
from test_skills_rpc import HEADERS, Peer

PROJECT = os.environ.get("BOXD_TEST_PROJECT_DIR")
MIB = 1 << 20
# What the kernel allows on top of a quota of 1 MiB: docs/skills.md.
HARD = MIB + (MIB // 16384 + 576 + 8) * (4096 + 512) + 2 * MIB

needs_quota = pytest.mark.skipif(not PROJECT, reason="needs a file system with project quota (the VM has one)")
without_quota = pytest.mark.skipif(bool(PROJECT), reason="is about file systems without project quota")


def start(start_boxd, quota_mb=1, identity="root", user=None, **more):
    """A boxd whose store is where quotas can be, if there is such a place."""
    boxd = start_boxd(identity=identity, start=False)
    skills = Skills(boxd)
    boxd.given = {"skills": {"quota_mb": quota_mb, "writable": True}, **more}
    if user:
        boxd.given["user"] = user
    if PROJECT and identity == "root":
        root = Path(tempfile.mkdtemp(dir=PROJECT))
        root.chmod(0o755)
        (root / "default").mkdir()
        boxd.given["local"] = {"host_root": str(root)}
        skills.root = root / "skills"
    boxd.configure(boxd.given)
    boxd.ready_path = "/healthz"
    skills.client = boxd.start().client
    return boxd, skills


def set_quota(boxd, quota_mb):
    boxd.given["skills"]["quota_mb"] = quota_mb
    boxd.configure(boxd.given)
    before = boxd.log().count(" reloaded ")
    boxd.send(signal.SIGHUP)
    assert hostview.wait_until(lambda: boxd.log().count(" reloaded ") > before, rpc.PATIENCE)


def told(boxd):
    limits = boxd.client.get("/v1/status").ok()["limits"]
    return limits["skills_quota_bytes"], limits["skills_quota"]


def put(skills, name, path, size):
    return skills.client.put(skills.file(name, path), os.urandom(size))


def full(answer):
    error = answer.error(413, "BoxValidationError", "full")
    assert "quota" in error["hint"], error


# --- by boxd's count --------------------------------------------------------------------------


@without_quota
@pytest.mark.parametrize("identity", ["root", "user"])
def test_quota_is_counted(start_boxd, identity):
    boxd, skills = start(start_boxd, identity=identity)
    assert told(boxd) == (MIB, None)
    skills.create("s").ok(201)
    assert told(boxd) == (MIB, "counted")
    put(skills, "s", "a", 600 << 10).ok()
    before = skills.tree()
    full(put(skills, "s", "b", 600 << 10))
    full(skills.send(zip_of({"p/SKILL.md": skill_md("p"), "p/x": os.urandom(600 << 10)})))
    # So many files, too, as the kernel would allow: of two archives of 500, one.
    many = range(500)
    skills.send(zip_of({"q/SKILL.md": skill_md("q"), **{f"q/{i}": b"" for i in many}}), "?filename=q.zip").ok(201)
    full(skills.send(zip_of({"p/SKILL.md": skill_md("p"), **{f"p/{i}": b"" for i in many}}), "?filename=p.zip"))
    skills.delete("q").ok()
    assert skills.tree() == before and skills.names() == ["s"]
    for quota in (2, 3):
        set_quota(boxd, quota)
        skills.create(f"of-{quota}").ok(201)
    put(skills, "s", "b", 600 << 10).ok()
    # Why, once, however often it is tried.
    assert boxd.log().count("skill_quota_counted") == 1, boxd.log()
    assert ("only root" if identity == "user" else "no project quota") in boxd.wait_log("skill_quota_counted.*").group()
    set_quota(boxd, 0)
    assert told(boxd) == (0, "none")
    put(skills, "s", "c", MIB).ok()
    put(skills, "s", "d", MIB).ok()
    assert "skill_quota_failed" not in boxd.log()


@asynchronous
async def test_quota_of_each_its_own(start_boxd):
    """What one workspace has takes nothing from another's, nor from what is nobody's."""
    boxd, skills = await asyncio.to_thread(start, start_boxd)
    async with websocket(boxd, "/rpc/ws", tcp=True, extra_headers=HEADERS) as ws:
        peer = Peer(ws)
        for workspace in ("one", "two"):
            await peer.ok("box_create_skill", {"skill": {"name": "s"}}, workspace)
            fill = {"name": "s", "path": "a", "content": "x" * (900 << 10)}
            await peer.ok("box_write_skill_file", fill, workspace)
            (await peer.call("box_write_skill_file", {**fill, "path": "b"}, workspace)).failed("BoxValidationError", "full")
    (await asyncio.to_thread(skills.create, "s")).ok(201)
    (await asyncio.to_thread(put, skills, "s", "a", 900 << 10)).ok()
    full(await asyncio.to_thread(put, skills, "s", "b", 900 << 10))
    assert told(boxd)[1] == ("hard" if PROJECT else "counted")


# --- by the kernel ----------------------------------------------------------------------------


def grow(session, path, size):
    """Bytes that a session could write to a file of a package."""
    result = session.exec(f"dd if=/dev/zero of=.skills/{path} bs=64k count={size >> 16} conv=notrunc; stat -c %s .skills/{path}")
    return int(result["stdout"]), result["stderr"]


@needs_quota
def test_quota_is_hard(start_boxd):
    boxd, skills = start(start_boxd, user="nobody")  # the front is another account than root
    skills.create("s").ok(201)
    assert told(boxd) == (MIB, "hard")
    put(skills, "s", "d/e/f", 10).ok()
    session = boxd.session(skills=["s"])
    size, said = grow(session, "s/big", 64 * MIB)
    assert "Disk quota exceeded" in said and MIB < size <= HARD, (size, said)
    assert grow(session, "s/more", MIB)[0] == 0
    # By the count there is no room either; and nothing is left of what was tried.
    before = skills.tree()
    full(put(skills, "s", "a", 1000))
    full(skills.send(zip_of({"p/SKILL.md": skill_md("p")})))
    full(skills.create("q"))
    assert skills.tree() == before and skills.names() == ["s"]
    # What is removed needs no room for it.
    skills.client.delete(skills.file("s", "d")).ok()
    # What the session has is changed at once, not when somebody next writes to the store.
    set_quota(boxd, 16)
    assert hostview.wait_until(lambda: grow(session, "s/more", 2 * MIB)[0] == 2 * MIB, rpc.PATIENCE)
    put(skills, "s", "a", 1000).ok()
    skills.send(zip_of({"p/SKILL.md": skill_md("p")})).ok(201)
    size, said = grow(session, "s/more", 100 * MIB)
    assert "Disk quota exceeded" in said and 8 * MIB < size < 40 * MIB, (size, said)
    # A full store can be emptied.
    skills.delete("s").ok()
    skills.create("s").ok(201)
    session.delete().ok()
    # After a restart it is what it was.
    boxd.restart()
    skills.client = boxd.client
    session = boxd.session(skills=["s"])
    size, said = grow(session, "s/big", 100 * MIB)
    assert "Disk quota exceeded" in said and size < 40 * MIB, (size, said)
    set_quota(boxd, 0)
    assert hostview.wait_until(lambda: grow(session, "s/big", 50 * MIB)[0] == 50 * MIB, rpc.PATIENCE)
    assert "skill_quota_failed" not in boxd.log()


@needs_quota
def test_quota_refusal_of_the_kernel(start_boxd):
    """What boxd's count does not see, the kernel does: the client is told the same, and nothing is left."""
    boxd, skills = start(start_boxd, user="nobody")
    skills.create("s").ok(201)
    session = boxd.session(skills=["s"])
    # Blocks beyond the end of a file: of no size, and as good as full.
    session.out("cd .skills/s && : > big && s=4194304 && while [ $s -ge 4096 ]; do "
                "fallocate -n -o $(($(stat -c %b big) * 512)) -l $s big || s=$((s / 2)); done 2> /dev/null; [ $(stat -c %s big) = 0 ]")
    before = skills.tree()
    full(put(skills, "s", "a", 100 << 10))
    full(skills.send(zip_of({"p/SKILL.md": skill_md("p"), "p/x": os.urandom(100 << 10)})))
    assert skills.tree() == before and skills.names() == ["s"]
    session.out("rm .skills/s/big")
    skills.send(zip_of({"p/SKILL.md": skill_md("p"), "p/x": os.urandom(100 << 10)})).ok(201)
    session.delete().ok()


@needs_quota
@asynchronous
async def test_quota_of_workspaces_is_hard(start_boxd):
    """A session of one workspace fills its own store, and no other."""
    boxd, skills = await asyncio.to_thread(start, start_boxd, user="nobody")
    (await asyncio.to_thread(skills.create, "s")).ok(201)  # its project comes first, and is not theirs
    async with websocket(boxd, "/rpc/ws", tcp=True, extra_headers=HEADERS) as ws:
        peer = Peer(ws)
        for workspace in ("one", "two"):
            await peer.ok("box_create_skill", {"skill": {"name": "s"}}, workspace)
        fill = {"session_id": "x", "skills": ["s"], "cmd": "dd if=/dev/zero of=.skills/s/big bs=64k count=1024; stat -c %s .skills/s/big"}
        done = await peer.ok("box_exec", fill, "one")
        assert "Disk quota exceeded" in done["stderr"] and MIB < int(done["stdout"]) <= HARD, done
        await peer.ok("box_write_skill_file", {"name": "s", "path": "a", "content": "x" * (900 << 10)}, "two")
        (await asyncio.to_thread(put, skills, "s", "a", 900 << 10)).ok()
        done = await peer.ok("box_exec", fill, "two")
        assert "Disk quota exceeded" in done["stderr"] and int(done["stdout"]) <= HARD, done
        # What is in a workspace's store goes by the same renames as before.
        for workspace in ("one", "two"):
            await peer.ok("box_delete_skill", {"name": "s"}, workspace)
            (await peer.install(zip_of({"p/SKILL.md": skill_md("p")}), workspace)).ok()
            assert await peer.names(workspace) == ["p"]
    assert "skill_quota_failed" not in boxd.log()


@needs_quota
def test_quota_and_readiness(start_boxd):
    """boxd's own trial has a quota of its own inside a store that has one."""
    boxd, skills = start(start_boxd, user="nobody", admission={"required": True, "workspace_quota_mb": 16})
    skills.create("s").ok(201)
    assert told(boxd) == (MIB, "hard")
    checks = boxd.client.get("/readyz").json["checks"]
    assert checks["hard_skill_storage_quota"]["ok"], checks
    skills.create("t").ok(201)
    assert "skill_quota_failed" not in boxd.log()


@needs_quota
def test_quota_that_cannot_be_set(start_boxd):
    """Where a hard limit is required, a store that is somebody else's does not grow without one; elsewhere it does."""
    for required in (True, False):
        boxd, skills = start(start_boxd, user="nobody", **({"admission": {"required": True}} if required else {}))
        skills.create("s").ok(201)
        os.chown(skills.root, 12345, -1)
        skills.root.chmod(0o777)
        set_quota(boxd, 2)
        answer = skills.create("t")
        if required:
            answer.error(503, None, "12345")
        else:
            answer.ok(201)
        skills.delete("s").ok()
        boxd.wait_log("warn skill_quota_failed.*12345")
