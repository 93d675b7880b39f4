"""Skills over LangBot's RPC: whose they are, and what of the host can be reached through them. What the answers look like
is checked with LangBot's own clients, in tests/conformance."""

import asyncio
import base64
import json
import signal

import pytest

import hostview
import rpc
from daemon import asynchronous, unique, websocket
from skillbox import Skills, sample_zip, skill_md, skills, zip_of  # noqa: F401

pytest.importorskip("websockets", reason="python3-websockets is not installed")

INSTANCE = "instance-1"
HEADERS = {"X-LangBot-Instance-Id": INSTANCE}
VALIDATION = "BoxValidationError"


class Peer:
    """One connection; requests of a workspace, or of none."""

    def __init__(self, ws):
        self.ws = ws
        self.number = 0

    async def send(self, action, data=None, workspace=None, generation=1):
        context = {"instance_uuid": INSTANCE, "workspace_uuid": workspace, "placement_generation": generation} if workspace else None
        self.number += 1
        await self.ws.send(json.dumps(rpc.request(self.number, action, data, context)))
        return self.number

    async def answer(self):
        return rpc.Answer(json.loads(await asyncio.wait_for(self.ws.recv(), rpc.PATIENCE)))

    async def call(self, action, data=None, workspace=None, generation=1):
        await self.send(action, data, workspace, generation)
        return await self.answer()

    async def ok(self, action, data=None, workspace=None):
        return (await self.call(action, data, workspace)).ok()

    async def upload(self, data, key="archive.zip"):
        pieces = [data[at : at + rpc.CHUNK] for at in range(0, len(data), rpc.CHUNK)]
        for index, piece in enumerate(pieces):
            await self.ok("__file_chunk", {"file_key": key, "chunk_index": index, "chunk_amount": len(pieces),
                                           "chunk_base64": base64.b64encode(piece).decode()})
        return key

    async def install(self, data, workspace=None, **more):
        key = await self.upload(data)
        return await self.call("box_install_skill_zip", {"file_key": key, "filename": "p.zip", **more}, workspace)

    async def names(self, workspace=None):
        return sorted(skill["name"] for skill in (await self.ok("box_list_skills", {}, workspace))["skills"])


def connect(boxd, headers=None):
    return websocket(boxd, "/rpc/ws", extra_headers=headers or {})


@asynchronous
async def test_a_workspace_sees_its_own(start_boxd):
    boxd = await asyncio.to_thread(start_boxd)
    store = Skills(boxd)
    async with connect(boxd, HEADERS) as host, connect(boxd) as old:
        host, old = Peer(host), Peer(old)
        mine = (await host.ok("box_create_skill", {"skill": {"name": "s", "description": "of a"}}, "a"))["skill"]
        await host.ok("box_create_skill", {"skill": {"name": "s", "description": "of b"}}, "b")
        (await host.install(sample_zip("py-tool"), "b")).ok()
        await old.ok("box_create_skill", {"skill": {"name": "s", "description": "of nobody"}})
        assert await host.names("a") == ["s"] and await host.names("b") == ["py-tool", "s"] and await old.names() == ["s"]
        assert await host.names("c") == []
        assert (await host.ok("box_get_skill", {"name": "py-tool"}, "a")) == {"skill": None}
        assert (await old.ok("box_get_skill", {"name": "s"}))["skill"]["description"] == "of nobody"
        assert store.names() == ["s"], "REST has those that are no workspace's"
        await host.ok("box_delete_skill", {"name": "s"}, "a")
        (await host.call("box_delete_skill", {"name": "py-tool"}, "a")).failed(VALIDATION)
        assert await host.names("a") == [] and await host.names("b") == ["py-tool", "s"] and await old.names() == ["s"]
        assert "/tenants/ws-" in mine["package_root"]


@asynchronous
async def test_a_workspace_names_no_paths_but_its_own(start_boxd):
    """Neither to scan nor to import, also not by links, nor with a name that looks like another's."""
    boxd = await asyncio.to_thread(lambda: start_boxd(start=False))
    root = boxd.box.directory()
    (root / "SKILL.md").write_bytes(skill_md("outside"))
    boxd.configure({"mounts": {"allowed_roots": [str(root)]}})
    await asyncio.to_thread(boxd.start)
    async with connect(boxd, HEADERS) as host, connect(boxd) as old:
        host, old = Peer(host), Peer(old)
        mine = (await host.ok("box_create_skill", {"skill": {"name": "mine"}}, "a"))["skill"]["package_root"]
        other = (await host.ok("box_create_skill", {"skill": {"name": "other"}}, "b"))["skill"]["package_root"]
        plain = (await old.ok("box_create_skill", {"skill": {"name": "plain"}}))["skill"]["package_root"]
        scope, store = mine.rsplit("/", 1)[0], plain.rsplit("/", 1)[0]
        for path in (other, plain, store, f"{store}/tenants", str(root), "/", "/etc", f"{mine}/../../{other.rsplit('/', 2)[1]}/other", "", "."):
            (await host.call("box_scan_skill_directory", {"path": path}, "a")).failed(VALIDATION)
            if path.strip():
                (await host.call("box_create_skill", {"skill": {"name": "taken", "package_root": path}}, "a")).failed(VALIDATION)
        assert (await host.ok("box_scan_skill_directory", {"path": mine}, "a"))["name"] == "mine"
        assert (await host.ok("box_scan_skill_directory", {"path": scope}, "a"))["name"] == "mine"
        # Whoever has no workspace reaches allowed roots and its own skills, and no workspace's.
        assert (await old.ok("box_scan_skill_directory", {"path": str(root)}))["name"] == "outside"
        for path in (mine, scope, f"{store}/tenants", boxd.state_dir, "/etc"):
            (await old.call("box_scan_skill_directory", {"path": str(path)})).failed(VALIDATION)
            (await old.call("box_create_skill", {"skill": {"name": "taken", "package_root": str(path)}})).failed(VALIDATION)
        (await host.call("box_list_skill_files", {"name": "mine", "path": "../other"}, "a")).failed(VALIDATION)
        assert await host.names("a") == ["mine"] and await old.names() == ["plain"]


@asynchronous
async def test_skills_of_a_workspace_in_its_sessions(start_boxd):
    boxd = await asyncio.to_thread(start_boxd)
    async with connect(boxd, HEADERS) as host:
        host = Peer(host)
        (await host.install(sample_zip("csv-report"), "a")).ok()
        await host.ok("box_create_skill", {"skill": {"name": "theirs"}}, "b")
        spec = {"session_id": "s", "cmd": "ls .skills; ls .skills/csv-report"}
        for more in ({"skill_name": "csv-report"}, {"skills": ["csv-report"]}, {"skill_name": "csv-report", "skills": ["csv-report"]}):
            result = await host.ok("box_exec", {**spec, **more}, "a")
            assert result["stdout"].split() == ["csv-report", "SKILL.md", "references", "scripts"], result
        (await host.call("box_exec", {**spec, "skill_name": "theirs"}, "a")).failed(VALIDATION, "theirs")
        (await host.call("box_create_session", {"session_id": "t", "skills": ["theirs"]}, "a")).failed(VALIDATION, "theirs")
        assert (await host.ok("box_get_sessions", {}, "a"))["sessions"][0]["session_id"] == "s"
        await host.ok("box_delete_session", {"session_id": "s"}, "a")


@asynchronous
async def test_values_that_are_none(skills):
    """Whatever a request has in it, it is answered, and with a BoxValidationError."""
    strange = [None, 5, 1.5, True, [], {}, [1], {"a": 1}, "", " ", "a\0b", "x" * 5000, "\ud83d\ude00", "../x"]
    await asyncio.to_thread(lambda: skills.create("s").ok(201))
    fields = {"box_get_skill": ["name"], "box_delete_skill": ["name"], "box_scan_skill_directory": ["path"],
              "box_update_skill": ["name", "skill"], "box_create_skill": ["skill"], "box_read_skill_file": ["name", "path"],
              "box_write_skill_file": ["name", "path", "content"], "box_list_skill_files": ["name", "path", "max_entries", "include_hidden"],
              "box_preview_skill_zip": ["file_key", "filename"], "box_install_skill_zip": ["file_key", "source_paths", "source_path"]}
    good = {"name": "s", "path": "new", "content": "x", "skill": {"description": "x"}, "max_entries": 5, "include_hidden": True,
            "file_key": "none", "filename": "x.zip", "source_paths": [], "source_path": ""}
    async with connect(skills.boxd) as ws:
        peer = Peer(ws)
        for action, keys in fields.items():
            for key in keys:
                for value in strange:
                    answer = await peer.call(action, {**{other: good[other] for other in keys}, key: value})
                    assert answer.code == 0 or answer.text.startswith(VALIDATION + ": "), (action, key, value, answer.text)
                await peer.call(action, {other: good[other] for other in keys if other != key})
        for field in ("name", "display_name", "description", "instructions", "package_root"):
            for value in strange:
                answer = await peer.call("box_update_skill", {"name": "s", "skill": {field: value}})
                assert answer.code == 0 or answer.text.startswith(VALIDATION + ": "), (field, value, answer.text)
        assert (await peer.call("__ping")).ok() == {}


@asynchronous
async def test_peers_that_leave(skills):
    """In the middle of many requests: the store does what it has begun, and others go on."""
    data = zip_of({"SKILL.md": skill_md("left"), **{f"f{i}": bytes([i]) * 3000 for i in range(200)}})
    for turn in range(4):
        async with connect(skills.boxd) as ws:
            peer = Peer(ws)
            await peer.upload(data)
            await peer.send("box_install_skill_zip", {"file_key": "archive.zip", "filename": f"p{turn}.zip"})
            for _ in range(40):
                await peer.send("box_list_skills")
                await peer.send("box_exec", {"session_id": unique(), "cmd": "true", "skills": ["left"]})
            ws.transport.abort()
    async with connect(skills.boxd) as ws:
        assert (await Peer(ws).call("__ping")).ok() == {}
        answer = await Peer(ws).call("box_list_skills")
        assert {skill["name"] for skill in answer.ok()["skills"]} <= {"left"}

    def no_sessions():
        for name in skills.boxd.names():
            skills.boxd.delete(f"/v1/sessions/{name}")
        return skills.boxd.names() == []

    assert await asyncio.to_thread(hostview.wait_until, no_sessions, rpc.PATIENCE)


@asynchronous
async def test_more_than_may_wait(skills):
    """A connection has 128 requests under way at most, the store 64 waiting: all are answered."""
    async with connect(skills.boxd) as ws:
        peer = Peer(ws)
        for index in range(120):
            await peer.send("box_create_skill", {"skill": {"name": f"n{index}"}})
        answers = [await peer.answer() for _ in range(120)]
        refused = [answer.text for answer in answers if answer.code]
        assert all(text.startswith("BoxCapacityExceededError: ") for text in refused), refused
        made = await peer.names()
        assert len(made) == 120 - len(refused) >= 64


@asynchronous
async def test_an_upload_is_used_once(skills):
    async with connect(skills.boxd) as ws:
        peer = Peer(ws)
        data = zip_of({"SKILL.md": skill_md("s")})
        key = await peer.upload(data)
        (await peer.call("box_preview_skill_zip", {"file_key": key})).ok()
        (await peer.call("box_install_skill_zip", {"file_key": key})).failed(VALIDATION, key)
        await peer.ok("__file_chunk", {"file_key": "half", "chunk_index": 0, "chunk_amount": 2, "chunk_base64": "eA=="})
        (await peer.call("box_install_skill_zip", {"file_key": "half"})).failed(VALIDATION, "half")
        (await peer.call("box_install_skill_zip", {"file_key": "../../etc/passwd"})).failed(VALIDATION)
    assert await asyncio.to_thread(skills.tree) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@asynchronous
async def test_stop_with_requests_waiting(start_boxd, number):
    boxd = await asyncio.to_thread(start_boxd)
    async with connect(boxd) as ws:
        peer = Peer(ws)
        for index in range(60):
            await peer.send("box_create_skill", {"skill": {"name": f"n{index}", "instructions": "x" * 100_000}})
        first = (await peer.answer()).ok()["skill"]["name"]
        boxd.send(number)
        answered = {first}
        try:
            while True:
                answer = await peer.answer()
                if answer.code == 0:
                    answered.add(answer.data["skill"]["name"])
                else:
                    assert "stopping" in answer.text, answer.text
        except Exception as problem:
            assert "ConnectionClosed" in type(problem).__name__, problem
    assert await asyncio.to_thread(boxd.wait) == 0, boxd.log()[-6000:]
    await asyncio.to_thread(boxd.start)
    found = await asyncio.to_thread(Skills(boxd).list)
    assert answered <= {skill["name"] for skill in found} and all(len(skill["instructions"]) == 100_000 for skill in found)


# --- the store and its surroundings -----------------------------------------------------------


@asynchronous
async def test_backend_changes_meanwhile(start_boxd):
    """The first change of a store has its limit set, off the loop; meanwhile box_init takes another backend."""
    boxd = await asyncio.to_thread(start_boxd, config={"skills": {"quota_mb": 1}})
    async with connect(boxd, HEADERS) as ws:
        peer = Peer(ws)
        for turn in range(10):
            await peer.ok("box_init", {"backend": "docker"})
            await peer.send("box_create_skill", {"skill": {"name": "s"}}, f"w{turn}")
            await peer.send("box_init", {"backend": "native"})
            for _ in range(2):
                (await peer.answer()).ok()
            assert await peer.names(f"w{turn}") == ["s"]


@asynchronous
async def test_links_lead_to_nobody_else(start_boxd):
    """What a session leaves in its workspace's directories, or in a package that it can write to, is not followed."""
    boxd = await asyncio.to_thread(start_boxd, start=False)
    root = boxd.box.directory()
    (root / "default").mkdir()
    boxd.configure({"local": {"host_root": str(root)}, "skills": {"writable": True}})
    await asyncio.to_thread(boxd.start)
    async with connect(boxd, HEADERS) as ws:
        peer = Peer(ws)
        packages = {}
        for one in ("one", "two"):
            made = (await peer.ok("box_create_skill", {"skill": {"name": "s", "instructions": f"of {one}"}}, one))["skill"]
            packages[one] = made["package_root"]
        spaces = {one: f"{root}/default/tenants/{packages[one].split('/')[-2]}" for one in packages}
        await peer.ok("box_exec", {"session_id": "a", "cmd": "echo secret > f", "host_path": spaces["two"]}, "two")
        plant = (f"ln -s {spaces['two']} x; ln -s ../{spaces['two'].split('/')[-1]} y; cd .skills/s && ln -s {packages['two']} z")
        await peer.ok("box_exec", {"session_id": "a", "cmd": plant, "host_path": spaces["one"], "skills": ["s"]}, "one")
        for path in (f"{spaces['one']}/x", f"{spaces['one']}/x/f", f"{spaces['one']}/y", f"{packages['one']}/z",
                     f"{packages['one']}/z/SKILL.md"):
            mounts = [{"host_path": path, "mount_path": "/m", "mode": "rw"}]
            answer = await peer.call("box_exec", {"session_id": "b", "cmd": "cat /m /m/*", "extra_mounts": mounts}, "one")
            answer.failed(VALIDATION, "link")
