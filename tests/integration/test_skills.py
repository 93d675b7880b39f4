"""The skill store over REST: packages, their files, archives in and out, and everything that is refused."""

import concurrent.futures
import hashlib
import os
import random
import struct
import zipfile

import pytest

from skillbox import DATA, SAMPLES, Skills, cases, files_of, sample_zip, skill_md, skills, unzipped, zip_of  # noqa: F401

MIB = 1 << 20
FIELDS = {"name", "display_name", "description", "instructions", "package_root", "entry_file", "python_project", "created_at",
          "updated_at"}
VALIDATION = "BoxValidationError"


# --- skills -----------------------------------------------------------------------------------


def test_create_get_list_delete(skills):
    made = skills.create("first", description="What it is for", instructions="# Do\n").ok(201)["skill"]
    assert set(made) == FIELDS
    assert (made["name"], made["display_name"], made["entry_file"]) == ("first", "first", "SKILL.md")
    assert made["package_root"] == str(skills.root / "first") and made["python_project"] is False
    assert skills.get("first").ok()["skill"] == made and skills.list() == [made]
    assert (skills.root / "first" / "SKILL.md").read_text() == "---\nname: first\ndescription: What it is for\n---\n\n# Do\n"
    assert skills.delete("first").ok() == {"deleted": "first"}
    assert skills.list() == []
    for method in ("GET", "DELETE"):
        skills.client.request(method, "/v1/skills/first").error(404, VALIDATION, "first")


def test_newest_first(skills):
    for name in ("one", "two", "three"):
        skills.create(name).ok(201)
    os.utime(skills.root / "one" / "SKILL.md", (2_000_000_000, 2_000_000_000))
    os.utime(skills.root / "two" / "SKILL.md", (1_000_000_000, 1_000_000_000))
    assert [skill["name"] for skill in skills.list()] == ["one", "three", "two"]
    assert skills.get("one").ok()["skill"]["updated_at"] == "2033-05-18T03:33:20+00:00"


def test_what_is_there_already(skills):
    skills.create("twice").ok(201)
    skills.create("twice").error(409, VALIDATION, "twice")
    assert skills.send(sample_zip("haiku"), "?filename=haiku.zip").status == 201
    skills.send(sample_zip("haiku"), "?filename=haiku.zip").error(409, VALIDATION, "haiku-upload")


NAMES = ["", " ", "a b", "../x", "/x", "a/b", ".", "..", "a.b", "x" * 65, "-", "\u200b", "a\u0000b", "a\nb", "e\u0301"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names_that_are_none(skills, name):
    skills.create(name).error(400, VALIDATION)
    assert skills.tree() == []


def test_names_that_look_alike_are_different(skills):
    """Cyrillic, full width, precomposed: letters all the same, and each its own."""
    names = ["paypal", "раураl", "ｐａｙｐａｌ", "Ünï", "x" * 64, "技能", "A_b-9"]
    for name in names:
        skills.create(name, description=name).ok(201)
    assert skills.names() == sorted(names)
    for name in names:
        assert skills.get(name).ok()["skill"]["description"] == name


def test_bodies_that_are_none(skills):
    for body in ({}, {"name": 5}, {"name": None}, {"name": "x", "more": 1}, {"name": "x", "description": 5}, {"name": ["x"]}):
        skills.client.post("/v1/skills", body).error(400, VALIDATION)
    skills.client.request("POST", "/v1/skills", body=b"name: x", headers={"Content-Type": "text/yaml"}).error(415, VALIDATION)
    skills.create("x").ok(201)
    for body in ({"name": "y"}, {"package_root": "/x"}, {"description": 5}, {"more": 1}):
        skills.update("x", **body).error(400, VALIDATION)
    skills.update("none", description="x").error(404, VALIDATION)
    skills.create("large", instructions="x" * (MIB + 1)).error(400, VALIDATION, "instructions")


def test_patch_keeps_what_it_does_not_know(skills):
    skills.send(sample_zip("meeting-notes")).ok(201)
    entry = skills.root / "skill-upload" / "SKILL.md"
    before = (DATA / "meeting-notes" / "SKILL.md").read_bytes()
    assert entry.read_bytes() == before and before.count(b"\r\n") == before.count(b"\n")
    changed = skills.update("meeting-notes", description="new: text").ok()["skill"]
    assert changed["description"] == "new: text"
    old = b"'Sorts the notes of a meeting into decisions, tasks and questions.'"
    assert entry.read_bytes() == before.replace(old, b'"new: text"')
    skills.update("meeting-notes", display_name="Notes", instructions="Less.\n").ok()
    text = entry.read_bytes().decode()
    for line in ("# Written on Windows; leave the line ends as they are.\r\n", "allowed-tools: Read, Write\r\n", "owner: team-a\r\n",
                 "display_name: Notes\r\n", 'description: "new: text"  # one line\r\n'):
        assert line in text, text
    assert skills.get("meeting-notes").ok()["skill"]["instructions"].split() == ["Less."]


def test_import(start_boxd):
    """From below an allowed root; of the rest of the host nothing, also nothing of boxd's own."""
    boxd = start_boxd(start=False)
    root, other = boxd.box.directory(), boxd.box.directory()
    boxd.configure({"mounts": {"allowed_roots": [str(root)]}})
    skills = Skills(boxd.start())
    own = boxd.state_dir / "own"
    for place in (root / "pack", other / "pack", own):
        place.mkdir(mode=0o755)
        (place / "SKILL.md").write_bytes(skill_md(place.name, license="MIT"))
    (root / "link").symlink_to(other / "pack")
    for place in (other / "pack", own, f"{skills.root}/../own", f"{root}/../{other.name}/pack", root / "link", f" {own}"):
        skills.create("stolen", package_root=str(place).strip()).error(400, VALIDATION, "allowed roots")
    skills.create("stolen", package_root=f"{root}/none").error(404, VALIDATION)
    for place in ("/no/such", f"{root}/../none", "/etc/none"):
        skills.create("stolen", package_root=place).error(400, VALIDATION, "allowed roots")
    skills.create("stolen", package_root="relative").error(400, VALIDATION)
    assert skills.tree() == []
    made = skills.create("copied", package_root=str(root / "pack"), description="of mine").ok(201)["skill"]
    assert made["package_root"] == str(skills.root / "copied") and (root / "pack" / "SKILL.md").exists()
    text = (skills.root / "copied" / "SKILL.md").read_text()
    assert "license: MIT" in text and "description: of mine" in text and "name: copied" in text
    # What lies in the store already is adopted where it is.
    (skills.root / "copied").rename(skills.root / "moved")
    skills.delete("copied").ok()
    skills.create("there").ok(201)
    (skills.root / "there" / "SKILL.md").write_bytes(b"# No front matter\n")
    adopted = skills.create("adopted", package_root=str(skills.root / "there")).ok(201)["skill"]
    assert adopted["package_root"] == str(skills.root / "there") and adopted["instructions"] == "# No front matter\n"
    assert skills.names() == ["adopted"]


# --- files of a skill -------------------------------------------------------------------------


def test_files_in_and_out(skills):
    skills.create("files").ok(201)
    for path, data in (("a.txt", b"text\n"), ("deep/er/ü 技.txt", "é\r\n".encode()), (".hidden", b""), ("long", b"x" * MIB)):
        answer = skills.client.put(skills.file("files", path), data).ok()
        assert answer == {"skill": {"name": "files"}, "path": path, "bytes_written": len(data)}
        got = skills.client.get(skills.file("files", path))
        assert got.status == 200 and got.body == data
        assert got.headers["Content-Type"] == "application/octet-stream"
        assert got.headers["X-Content-Type-Options"] == "nosniff" and got.headers["Content-Length"] == str(len(data))
    listed = skills.client.get(skills.path("files", "files")).ok()
    assert [entry["path"] for entry in listed["entries"]] == ["SKILL.md", "a.txt", "deep", "long"]
    assert listed["base_path"] == "." and listed["truncated"] is False
    assert listed["entries"][2] == {"path": "deep", "name": "deep", "is_dir": True, "size": None}
    assert listed["entries"][3]["size"] == MIB
    hidden = skills.client.get(skills.path("files", "files") + "?include_hidden=true&max_entries=2").ok()
    assert [entry["name"] for entry in hidden["entries"]] == [".hidden", "SKILL.md"] and hidden["truncated"]
    below = skills.client.get(skills.path("files", "files") + "?path=deep/er").ok()
    assert below["base_path"] == "deep/er" and below["entries"][0]["path"] == "deep/er/ü 技.txt"
    assert skills.client.delete(skills.file("files", "deep")).ok() == {"skill": {"name": "files"}, "deleted": "deep"}
    skills.client.get(skills.file("files", "deep/er/ü 技.txt")).error(404, VALIDATION)


def test_a_file_is_replaced_whole(skills):
    skills.create("files").ok(201)
    skills.client.put(skills.file("files", "a"), b"long" * 1000).ok()
    skills.client.put(skills.file("files", "a"), b"short").ok()
    assert skills.client.get(skills.file("files", "a")).body == b"short"
    # The entry file is a file as any other, and what it says counts at once.
    skills.client.put(skills.file("files", "SKILL.md"), skill_md("files", "New.", description="changed")).ok()
    assert skills.get("files").ok()["skill"]["description"] == "changed"


# --- versions of a file -----------------------------------------------------------------------


def test_versions(skills):
    """What was seen can be changed only while it is what was seen."""
    skills.create("files").ok(201)
    file = skills.file("files", "a")

    def change(method, body, **headers):
        return skills.client.request(method, file, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})

    change("PUT", b"x", If_Match="*").error(412, VALIDATION, "not there")
    change("DELETE", None, If_Match="*").error(404, VALIDATION)
    made = change("PUT", b"one", If_None_Match="*")
    first = made.headers["ETag"]
    assert made.ok() and first == f'"{hashlib.sha256(b"one").hexdigest()}"'
    assert skills.client.get(file).headers["ETag"] == first
    change("PUT", b"two", If_None_Match="*").error(412, VALIDATION, "there already")
    change("PUT", b"two", If_Match="W/" + first).error(412, VALIDATION, "changed")
    second = change("PUT", b"two", If_Match=f'"other", {first}').headers["ETag"]
    assert second != first and skills.client.get(file).headers["ETag"] == second
    for tags in (first, '"other"', f"W/{second}"):
        change("PUT", b"three", If_Match=tags).error(412, VALIDATION, "changed")
        change("DELETE", None, If_Match=tags).error(412, VALIDATION, "changed")
    for tags in ("", "two", second[:-1], f"{second} {second}", "**"):
        change("PUT", b"three", If_Match=tags).error(400, VALIDATION, "If-Match")
        change("DELETE", None, If_None_Match=tags).error(400, VALIDATION, "If-None-Match")
    assert skills.client.get(file).body == b"two"
    assert change("DELETE", None, If_Match=second).ok()["deleted"] == "a"
    # What is larger than can be written has no version, and can still be had and removed.
    (skills.root / "files" / "a").write_bytes(b"x" * (MIB + 1))
    large = skills.client.get(file)
    assert large.body == b"x" * (MIB + 1) and "ETag" not in large.headers
    change("DELETE", None, If_Match=second).error(412, VALIDATION)
    change("DELETE", None, If_Match="*").ok()


def test_versions_that_cannot_be_asked_for(skills):
    """What is not understood is refused: whoever sent it counts on it."""
    skills.create("files", description="old").ok(201)
    file = skills.file("files", "a")
    skills.client.put(file, b"one").ok()
    for name in ("If-Match", "If-None-Match"):
        connection = skills.client.connection()
        connection.putrequest("PUT", file)
        for value in ('"x"', "*"):
            connection.putheader(name, value)
        connection.putheader("Content-Length", "3")
        connection.endheaders(b"two")
        assert connection.getresponse().status == 400
        connection.close()
        for value in ('"x"', "*"):
            headers = {name: value}
            skills.client.request("PATCH", skills.path("files"), json={"description": "new"}, headers=headers).error(400, VALIDATION, name)
            skills.client.request("DELETE", skills.path("files"), headers=headers).error(400, VALIDATION, name)
    assert skills.client.get(file).body == b"one"
    assert skills.get("files").ok()["skill"]["description"] == "old"


def test_nobody_is_overwritten(skills):
    """Many at once each add one to a number that they have read: none gets lost."""
    skills.create("files").ok(201)
    file = skills.file("files", "number")
    skills.client.put(file, b"0").ok()

    def add(_):
        for _ in range(1000):
            seen = skills.client.get(file)
            answer = skills.client.request("PUT", file, body=b"%d" % (int(seen.body) + 1), headers={"If-Match": seen.headers["ETag"]})
            if answer.status == 200:
                return True
            assert answer.status == 412, answer
        return False

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(add, range(64)))
    assert skills.client.get(file).body == b"64"


# --- where a path leads -----------------------------------------------------------------------


PATHS = ["../other/SKILL.md", "%2e%2e/other/SKILL.md", "a/../../other/SKILL.md", "%2Fetc%2Fpasswd", "..", "a%00b"]


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_lead_out(skills, path):
    skills.create("files").ok(201)
    skills.create("other").ok(201)
    before = skills.tree()
    for method, body in (("GET", None), ("PUT", b"x"), ("DELETE", None)):
        answer = skills.client.request(method, f"/v1/skills/files/files/{path}", body=body)
        assert answer.status in (400, 404), (method, answer)
    assert skills.client.get(f"/v1/skills/files/files?path={path}").status in (400, 404)
    assert skills.tree() == before


def test_links_that_lead_out(skills, tmp_path):
    """As a sandbox with a writable package could make them."""
    skills.create("files").ok(201)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    package = skills.root / "files"
    (package / "out").symlink_to(secret)
    (package / "up").symlink_to("..")
    (package / "dir").symlink_to(tmp_path)
    (package / "in").symlink_to("SKILL.md")
    for path in ("out", "dir/secret", "up/files/out"):
        assert skills.client.get(skills.file("files", path)).status in (400, 404), path
        assert skills.client.put(skills.file("files", path), b"x").status in (400, 404, 409), path
    assert skills.client.get(skills.file("files", "in")).body == (package / "SKILL.md").read_bytes()
    assert secret.read_text() == "secret"
    assert skills.client.get(skills.path("files", "files") + "?path=dir").status in (400, 404)
    # What leads out is neither followed nor archived.
    answer = skills.archive("files")
    assert answer.status != 200 or b"secret" not in b"".join(data for _, data in unzipped(answer.body).values())


def test_files_that_are_none(skills):
    skills.create("files").ok(201)
    skills.client.get(skills.file("files", "none")).error(404, VALIDATION)
    skills.client.get(skills.file("none", "SKILL.md")).error(404, VALIDATION)
    skills.client.delete(skills.file("files", "none")).error(404, VALIDATION)
    skills.client.delete(skills.file("files", "SKILL.md")).error(400, VALIDATION)
    skills.client.upload(skills.file("files", "large"), b"x" * (MIB + 1)).error(413, VALIDATION)
    assert skills.client.put(skills.file("files", "SKILL.md/below"), b"x").status in (400, 404, 409)
    skills.client.put(skills.file("files", "x" * 256), b"x").error(400, VALIDATION)
    for query in ("max_entries=0", "max_entries=1001", "max_entries=x", "path=", "more=1", "include_hidden=perhaps"):
        skills.client.get(skills.path("files", "files") + "?" + query).error(400, VALIDATION)
    assert skills.tree() == ["files", "files/SKILL.md"]


# --- archives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_out_is_what_was_in(skills, tmp_path, name):
    """The samples: scripts, nested directories, names that are not ASCII, CRLF, no front matter."""
    files = files_of(DATA / name)
    status, previewed = skills.form(tmp_path, sample_zip(name), verb="preview", filename=f"{name}.zip")
    assert status == 200 and skills.tree() == []
    status, installed = skills.form(tmp_path, sample_zip(name), "target_suffix=", filename=f"{name}.zip")
    assert status == 201, installed
    (skill,) = installed["skills"]
    assert skill["name"] == name and previewed["skills"][0]["name"] == name
    assert skill["python_project"] == (name == "py-tool")
    assert files_of(skill["package_root"]) == files
    answer = skills.archive(name)
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"].startswith("attachment; filename*=UTF-8''")
    assert unzipped(answer.body) == {f"{name}/{path}": content for path, content in files.items()}
    # And in again.
    skills.delete(name).ok()
    assert skills.send(answer.body, "?filename=x.zip").ok(201)["skills"][0]["instructions"] == skill["instructions"]


def several():
    return zip_of({"all/one/SKILL.md": skill_md("one"), "all/two/SKILL.md": skill_md("two"), "all/two/run.sh": (0o755, b"#!/bin/sh\n"),
                   "all/deep/three/SKILL.md": skill_md("three")})


def test_several_in_one(skills, tmp_path):
    data = several()
    found = skills.send(data, "?filename=all.zip", "preview").ok()["skills"]
    assert [skill["source_path"] for skill in found] == ["deep/three", "one", "two"]
    assert skills.send(data).error(400, VALIDATION)["message"].count("two") == 1
    skills.send(data, "?source_path=four").error(400, VALIDATION)
    assert skills.tree() == []
    status, answer = skills.form(tmp_path, data, "source_path=one", "source_path=two", "filename=renamed.zip")
    assert status == 201 and skills.names() == ["one", "two"]
    assert sorted(path.name for path in skills.root.iterdir()) == ["renamed-one-upload", "renamed-two-upload"]
    assert os.access(skills.root / "renamed-two-upload" / "run.sh", os.X_OK)
    # All or nothing: one of these is there already.
    before = skills.tree()
    status, answer = skills.form(tmp_path, data, "source_path=deep/three", "source_path=two", "filename=renamed.zip")
    assert status == 409 and skills.tree() == before, answer
    assert skills.send(data, "?source_subdir=deep&filename=d.zip&target_suffix=").ok(201)["skills"][0]["name"] == "three"
    assert (skills.root / "d-three" / "SKILL.md").exists()


GOOD = {"name": "s/SKILL.md", "data": skill_md("s")}
NOISE = random.Random(5).randbytes(17 * MIB)
HOSTILE = {
    "slip": [GOOD, {"name": "../evil", "data": b"x"}],
    "slip below": [GOOD, {"name": "s/../../evil", "data": b"x"}],
    "absolute": [GOOD, {"name": "/tmp/evil", "data": b"x"}],
    "backslashes": [GOOD, {"name": "..\\evil", "data": b"x"}],
    "drive": [GOOD, {"name": "C:\\evil", "data": b"x"}],
    "NUL": [GOOD, {"name": b"s/a\0b", "data": b"x"}],
    "link": [GOOD, {"name": "s/link", "data": b"/etc/passwd", "mode": 0o120777}],
    "link and through it": [GOOD, {"name": "s/l", "data": b"/tmp", "mode": 0o120777}, {"name": "s/l/evil", "data": b"x"}],
    "device": [GOOD, {"name": "s/null", "mode": 0o020666}],
    "fifo": [GOOD, {"name": "s/fifo", "mode": 0o010666}],
    "socket": [GOOD, {"name": "s/sock", "mode": 0o140666}],
    "twice": [GOOD, {**GOOD, "data": skill_md("t")}],
    "twice by a detour": [GOOD, {"name": "s/x/../SKILL.md", "data": skill_md("t")}],
    "file and directory": [GOOD, {"name": "s/a", "data": b"x"}, {"name": "s/a/b", "data": b"x"}],
    "bomb": [GOOD, {"name": "s/bomb", "data": bytes(4 * MIB), "method": 8}],
    "lies: smaller": [GOOD, {"name": "s/lie", "data": b"x" * 100, "size": 10, "method": 8}],
    "lies: larger": [GOOD, {"name": "s/lie", "data": NOISE[:100], "size": 110, "method": 8}],
    "checksum": [GOOD, {"name": "s/b", "data": b"x", "crc": 1}],
    "encrypted": [GOOD, {"name": "s/b", "data": b"x" * 20, "flags": 1}],
    "overlapping": [GOOD, {"name": "s/b", "data": b"x", "offset": 0}],
    "names that differ": [GOOD, {"name": "s/b", "local_name": b"../evil", "data": b"x"}],
    "64 bits": [GOOD, {"name": "s/b", "data": b"x", "size": 0xFFFFFFFF, "extra": struct.pack("<HHQ", 1, 8, 1 << 60)}],
    "17 MiB": [GOOD, {"name": "s/b", "data": NOISE}],
    "no skill": [{"name": "s/readme", "data": b"x"}],
    "nothing": [],
    "bad YAML": [{"name": "s/SKILL.md", "data": b"---\nname: [\n---\n"}],
    "aliases": [{"name": "s/SKILL.md", "data": b"---\na: &a [x,x]\nb: &b [*a,*a]\nname: s\n---\n"}],
    "tags": [{"name": "s/SKILL.md", "data": b"---\nname: !!python/object/apply:os.system ['true']\n---\n"}],
    "deep YAML": [{"name": "s/SKILL.md", "data": b"---\nname: s\nx: " + b"[" * 5000 + b"]" * 5000 + b"\n---\n"}],
    "name leads out": [{"name": "s/SKILL.md", "data": skill_md("../../evil")}],
}
TOO_MUCH = {
    "513 entries": [GOOD] + [{"name": f"s/{i}"} for i in range(512)],
    "100,000 entries": [{"name": f"s/{i}"} for i in range(100_000)],
    "front matter": [{"name": "s/SKILL.md", "data": b"---\nname: s\nx: " + b"y" * 70_000 + b"\n---\n"}],
    "text": [{"name": "s/SKILL.md", "data": skill_md("s", "y" * (MIB + 1))}],
}


def refused(skills, data, *statuses):
    for verb in ("preview", "install"):
        answer = skills.send(data, verb=verb)
        assert answer.status in statuses, answer
        answer.error(answer.status, VALIDATION)
        assert skills.tree() == []
    assert skills.list() == []


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_archives(skills, what):
    refused(skills, cases.raw_zip(HOSTILE[what]), 400, 404, 413)
    assert not os.path.exists("/tmp/evil") and not (skills.boxd.state_dir / "evil").exists()


@pytest.mark.parametrize("what", TOO_MUCH)
def test_archives_with_too_much(skills, what):
    refused(skills, cases.raw_zip(TOO_MUCH[what]), 413)


def test_archives_that_are_none(skills):
    good = zip_of({"SKILL.md": skill_md("s")})
    for data in (b"", b"PK", b"x" * 1000, good[:-1], good[:40], b"PK\5\6" + b"\0" * 17):
        refused(skills, data, 400)


def test_archive_size(skills):
    """20 MiB are looked at; a byte more is not even read."""
    answer = skills.client.post("/v1/skills/preview", body=b"x" * (20 * MIB), headers={"Content-Type": "application/zip"})
    answer.error(400, VALIDATION)
    connection = skills.client.connection()
    try:
        skills.client.send(connection, "POST", "/v1/skills/install", b"x" * (20 * MIB + 1), {"Content-Type": "application/zip"})
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert connection.getresponse().status == 413
    connection.close()


def test_bodies_of_another_type(skills):
    data = zip_of({"SKILL.md": skill_md("s")})
    for kind in ("text/plain", "application/json", "application/zipx", "application/x-www-form-urlencoded", "multipart/mixed; boundary=x", ""):
        answer = skills.client.post("/v1/skills/install", body=data, headers={"Content-Type": kind})
        answer.error(415, VALIDATION)
    answer = skills.client.post("/v1/skills/install", body=data, headers={"Content-Type": "Application/ZIP; x=y"})
    answer.ok(201)


def post_form(skills, body, boundary="b", verb="preview", kind="multipart/form-data"):
    return skills.client.post(f"/v1/skills/{verb}", body=body, headers={"Content-Type": f"{kind}; boundary={boundary}"})


def part(disposition, data, boundary=b"b"):
    return b"--" + boundary + b"\r\nContent-Disposition: " + disposition + b"\r\n\r\n" + data + b"\r\n"


def test_forms_by_hand(skills):
    data = zip_of({"SKILL.md": skill_md("s")})
    file = part(b'form-data; name="file"; filename="C:\\dir\\p; name=x.zip"', data)
    post_form(skills, file + b"--b--").ok()
    answer = post_form(skills, b"preamble\r\n" + file + part(b"form-data; name=target_suffix", b"x") + b"--b--\r\nepilogue", '"b"').ok()
    assert answer["skills"][0]["package_root"].endswith("-x")
    post_form(skills, file + b"--b--", "x").error(400, VALIDATION)
    post_form(skills, file).error(400, VALIDATION, "does not end")
    post_form(skills, b"--b--").error(400, VALIDATION, "file")
    post_form(skills, file + file + b"--b--").error(400, VALIDATION, "two")
    post_form(skills, part(b'form-data; name="fiel"', data) + b"--b--").error(400, VALIDATION, "fiel")
    post_form(skills, file + part(b'form-data; name="source_path"', b"a\0b") + b"--b--").error(400, VALIDATION, "source_path")
    post_form(skills, file + part(b'form-data; name="filename"', b"x" * 5000) + b"--b--").error(400, VALIDATION, "filename")
    post_form(skills, file + part(b'form-data; name="filename"', b"\xff") + b"--b--").error(400, VALIDATION, "filename")
    skills.client.post("/v1/skills/preview", body=file, headers={"Content-Type": "multipart/form-data"}).error(400, VALIDATION, "boundary")


def test_a_package_with_many_files(skills):
    files = {"SKILL.md": skill_md("many"), **{f"d{i % 20}/f{i}": b"x" * (i % 50) for i in range(500)}}
    skills.send(zip_of(files)).ok(201)
    got = unzipped(skills.archive("many").body)
    assert len(got) == 501
    listed = skills.client.get(skills.path("many", "files") + "?path=d3").ok()
    assert len(listed["entries"]) == 25


def test_large_archive_out(skills):
    """More than a connection holds at once; read to the end, and left in the middle."""
    files = {"SKILL.md": skill_md("large"), **{f"{i}": NOISE[i * MIB : (i + 4) * MIB] for i in range(4)}}
    skills.send(zip_of(files, zipfile.ZIP_STORED)).ok(201)
    answer = skills.archive("large")
    assert {path.split("/", 1)[1]: data for path, (_, data) in unzipped(answer.body).items()} == files
    for _ in range(5):
        connection = skills.client.connection()
        skills.client.send(connection, "GET", skills.path("large", "archive"))
        connection.getresponse().read(10)
        connection.close()
    assert skills.get("large").status == 200


def test_problems(skills):
    skills.send(sample_zip("csv-report"), "?filename=csv-report.zip&target_suffix=").ok(201)
    assert skills.client.get(skills.path("csv-report", "problems")).ok() == {"skill": {"name": "csv-report"}, "problems": []}
    skills.create("Bad_Name").ok(201)
    found = skills.client.get(skills.path("Bad_Name", "problems")).ok()["problems"]
    assert found and all(set(one) == {"severity", "line", "problem", "fix"} for one in found)
    assert any(one["severity"] == "error" and "description" in one["problem"] for one in found)
    skills.client.get(skills.path("none", "problems")).error(404, VALIDATION)


def test_what_others_put_there(skills):
    """The store is a directory: what an administrator copies into it is there at once."""
    package = skills.root / "by-hand"
    package.mkdir()
    (package / "SKILL.md").write_bytes(skill_md("by-hand", description="one"))
    assert skills.names() == ["by-hand"]
    (package / "SKILL.md").write_bytes(skill_md("by-hand", description="another"))
    assert skills.get("by-hand").ok()["skill"]["description"] == "another"
    (package / "SKILL.md").write_bytes(b"\xff")
    assert skills.list() == []
    (package / "SKILL.md").unlink()
    package.rmdir()
    assert skills.list() == []


def test_names_that_no_archive_can_have(skills):
    """A file may have such a name, by a sandbox or an old archive; then there is no archive, and a word about it."""
    skills.create("odd").ok(201)
    for name in (b"\xff", b"a\x01b"):
        path = os.fsencode(skills.root / "odd") + b"/" + name
        with open(path, "wb"):
            pass
        skills.archive("odd").error(400, VALIDATION, "archive")
        assert skills.client.get(skills.path("odd", "files")).status == 200
        os.unlink(path)
    assert skills.archive("odd").status == 200


def test_skills_called_like_calls(skills):
    """`install` and `preview` are names too."""
    for name in ("install", "preview", "archive", "files", "problems"):
        skills.create(name).ok(201)
        assert skills.get(name).ok()["skill"]["name"] == name
        assert skills.archive(name).status == 200
        skills.delete(name).ok()
    answer = skills.client.request("PUT", "/v1/skills/install", body=b"x")
    answer.error(405, VALIDATION)
    assert answer.headers["Allow"] == "POST"
