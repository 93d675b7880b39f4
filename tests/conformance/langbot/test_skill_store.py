# SPDX-License-Identifier: Apache-2.0
"""Whether boxd's skill store does as LangBot's: the same verdicts, the same values, on packages and archives made from a
seed. Runs with any Python that has langbot_plugin (0.5 or later) and pytest, and no daemon; BOX_BUILD names the build
directory.

Where they differ on purpose, the difference is written down here: see `is_ours` and the tests at the end."""

import json
import os
import random
import re
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest
import skill_cases as cases

try:
    from langbot_plugin.box import skill_store
except ImportError:  # before 0.4.3 or so
    skill_store = None

pytestmark = pytest.mark.skipif(not hasattr(skill_store, "_MAX_ZIP_ENTRIES"), reason="limits and scopes came with 0.5")

SEED = int(os.environ.get("SKILL_SEED", "1"))
COUNT = int(os.environ.get("SKILL_COUNT", "500"))
TIMES = ("created_at", "updated_at")


class Boxd:
    def __init__(self, root, *arguments):
        program = Path(os.environ["BOX_BUILD"]) / "tests" / "skill-verdict"
        self.process = subprocess.Popen([program, root, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, op, **arguments):
        """(True, result) or (False, message)."""
        line = json.dumps({"op": op, **{k: v for k, v in arguments.items() if v is not None}})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return (True, answer["ok"]) if "ok" in answer else (False, answer["message"])

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=20) == 0
        self.process.stdout.close()


@pytest.fixture
def boxd(tmp_path):
    made = []

    def make(root, *arguments):
        made.append(Boxd(root, *arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()


def python_store(root, tenant=None):
    store = skill_store.BoxSkillStore({"local": {"host_root": str(root), "skills_root": str(root)}})
    return store.scoped(tenant) if tenant else store


def verdict(function, *arguments, **named):
    try:
        return True, function(*arguments, **named)
    except Exception as problem:  # whatever it raises, it refuses
        return False, f"{type(problem).__name__}: {problem}"


def lay(root, files):
    for path, content in files.items():
        place = root / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                place.symlink_to(content)
            else:
                place.write_bytes(content)
        except OSError:
            pass  # a file where a directory should be


def without_times(value, root=""):
    if isinstance(value, list):
        return [without_times(item, root) for item in value]
    if isinstance(value, dict):
        return {k: without_times(v, root) for k, v in value.items() if k not in TIMES}
    return value.replace(str(root), "ROOT") if root and isinstance(value, str) else value


# --- what is refused here and not there: the safe subset of YAML ---

EXTRAS = re.compile(r"(^|[\s,\[{])[&*!]\S?", re.M)


def is_ours(text):
    """Whether a difference is meant: anchors, aliases, tags, a NUL in a field."""
    return bool(EXTRAS.search(text)) or "\\0" in text or "\ufeff" in text


def is_tab(theirs):
    """libyaml reads over a tab in or behind a plain value, where PyYAML stops."""
    return not theirs[0] and r"found character '\t'" in theirs[1]


def test_front_matter(boxd, tmp_path):
    maker = random.Random(SEED)
    one = boxd(tmp_path / "unused")
    directory = tmp_path / "directory"
    directory.mkdir()
    store = python_store(tmp_path)
    wrong, good, meant = [], 0, 0
    for _ in range(COUNT * 4):
        text = cases.skill_text(maker)
        if "\x00" in text:
            continue  # not for this way in
        (directory / "SKILL.md").write_bytes(text.encode())
        theirs = verdict(store._load_skill_package, str(directory), "SKILL.md")
        ours = one.call("front", text=text)
        if ours[0] != theirs[0] and (is_ours(text) or is_tab(theirs)):
            assert theirs[0] != is_tab(theirs), text
            meant += 1
        elif ours[0] != theirs[0] or (ours[0] and any(ours[1][key] != theirs[1][key] for key in ours[1])):
            wrong.append((text, ours, theirs))
        good += ours[0]
    assert not wrong, f"{len(wrong)} differ; the first: {wrong[0]}"
    assert good > COUNT / 2 and meant < COUNT


def is_common(files):
    """Whether both should read all of it the same way."""
    texts = [content.decode("utf-8", "replace") for content in files.values() if isinstance(content, bytes)]
    return not any(is_ours(text) or "\t" in text for text in texts)


def test_lists(boxd, tmp_path):
    """The same tree, read by both."""
    maker = random.Random(SEED + 1)
    for index in range(COUNT // 4):
        root = tmp_path / str(index)
        root.mkdir()
        files = cases.tree(maker)
        lay(root, files)
        if not is_common(files):
            continue
        one, store = boxd(root), python_store(root)
        theirs, ours = verdict(store.list_skills), one.call("list")
        assert ours == theirs, files
        for skill in theirs[1]:
            compare_reads(one, store, skill["name"], maker)
        for path in {str(root / Path(name).parts[0]) for name in files}:
            if Path(path).is_dir():
                theirs, ours = verdict(store.scan_directory, path), one.call("scan", path=path)
                assert ours[0] == theirs[0] and (not ours[0] or ours[1] == theirs[1]), (path, ours, theirs)


PATHS = [".", "", "scripts", "scripts/a", "./scripts/../scripts", "..", "../x", "..x", "/etc", "missing", "SKILL.md", "SKILL.md/x",
         "skill.md", " z ", "a b.txt", "link", "link/x", "data.bin", ".hidden", "assets/ü.txt", "a\\b", "scripts//a", "requirements.txt"]


def compare_reads(one, store, name, maker):
    for path in maker.sample(PATHS, 6):
        hidden, most = maker.random() < 0.5, maker.choice([1, 2, 200, 5000])
        theirs = verdict(store.list_skill_files, name, path, hidden, most)
        ours = one.call("files", name=name, path=path, include_hidden=hidden, max_entries=most)
        if theirs[0]:
            theirs[1].pop("skill")
        # A link that leads nowhere fails the whole list there; here it is an entry.
        if not (ours[0] and not theirs[0] and "FileNotFoundError" in theirs[1]) and not leads_out(ours, theirs):
            assert ours[0] == theirs[0] and (not ours[0] or ours[1] == theirs[1]), (name, path, ours, theirs)
        theirs, ours = verdict(store.read_skill_file, name, path), one.call("read", name=name, path=path)
        if theirs[0]:
            theirs[1].pop("skill")
        assert ours[0] == theirs[0] and (not ours[0] or ours[1] == theirs[1]), (name, path, ours, theirs)


def leads_out(ours, theirs):
    """Of a link out of the package Python tells where it leads; here it is a link and nothing more."""
    if not (ours[0] and theirs[0]):
        return False
    rest = [[entry for entry in side[1]["entries"] if entry["name"] != "link"] for side in (ours, theirs)]
    return rest[0] == rest[1] and len(ours[1]["entries"]) == len(theirs[1]["entries"])


# --- writes: the same calls on two copies ---

def two_roots(tmp_path, index, files):
    roots = tmp_path / f"{index}-ours", tmp_path / f"{index}-theirs"
    for root in roots:
        root.mkdir()
        lay(root, files)
    return roots


def step(maker, names):
    """A call: for us, and for them."""
    name = maker.choice(names * 3 + ["alpha", "newone", "技能", "bad name", "../x", ""])
    fields = {key: maker.choice(["", "  ", "Text: with # signs", "line\nline", "123", "true", "- x", "é 'q' \"d\"", "x" * 500, "trail "])
              for key in ("display_name", "description") if maker.random() < 0.6}
    if maker.random() < 0.5:
        fields["instructions"] = maker.choice(["", "Do it.\n", "\n\nlead", "\r\nCR\r\n", "---\nx\n---\n", " "])
    op = maker.choice(["create", "create", "update", "update", "update", "write", "write", "delete"])
    if op == "create":
        if maker.random() < 0.3:
            fields["package_root"] = maker.choice(["ROOT/one", "ROOT/two", "ROOT/d/one", "SOURCE", "SOURCE/nothing", "ROOT/missing", " "])
        return op, {"name": name, **fields}
    if op == "update":
        if maker.random() < 0.1:
            fields["package_root"] = maker.choice(["ROOT/one", "ROOT/two", "SOURCE"])
        if maker.random() < 0.1:
            fields["rename"] = maker.choice([name, f" {name} ", "other", ""])
        return op, {"name": name, **fields}
    if op == "write":
        path = maker.choice([p for p in PATHS if p not in ("skill.md", "SKILL.md")] + ["new/dir/file.txt", "z/below"])
        return op, {"name": name, "path": path, "content": maker.choice(["", "text\n", "é\r\n", "x" * 1000])}
    return op, {"name": name}


def python_step(store, op, arguments):
    if op == "create":
        return verdict(store.create_skill, arguments)
    if op == "update":
        data = {key: value for key, value in arguments.items() if key not in ("name", "rename")}
        if "rename" in arguments:
            data["name"] = arguments["rename"]
        return verdict(store.update_skill, arguments["name"], data)
    if op == "write":
        return verdict(store.write_skill_file, arguments["name"], arguments["path"], arguments["content"])
    return verdict(store.delete_skill, arguments["name"])


def fill_in(arguments, root, source):
    return {key: value.replace("ROOT", str(root)).replace("SOURCE", str(source)) if key == "package_root" else value
            for key, value in arguments.items()}


def skills_of(answer, root):
    return sorted(without_times(answer, root), key=lambda skill: (skill["package_root"], skill["name"]))


def is_safer(op, arguments, ours, theirs, files_before):
    """Python writes a skill over another one whose directory has the new name."""
    return op == "create" and theirs[0] and not ours[0] and "holds another skill" in ours[1]


def test_writes(boxd, tmp_path):
    maker = random.Random(SEED + 2)
    refused = done = 0
    for index in range(COUNT // 4):
        files = cases.tree(maker)
        while not is_common(files):
            files = cases.tree(maker)
        files = {path: content for path, content in files.items() if not isinstance(content, str)}
        here, there = two_roots(tmp_path, index, files)
        source = tmp_path / f"{index}-source"
        package = cases.package(maker, cases.good_text(maker, "imported"))
        # Python follows links out of the package, and round and round.
        lay(source, {path: content for path, content in package.items() if content not in (".", "../..", "/etc/passwd")})
        one, store = boxd(here), python_store(there)
        for _ in range(6):
            names = [skill["name"] for skill in store.list_skills()]
            op, arguments = step(maker, names)
            theirs = python_step(store, op, fill_in(arguments, there, source))
            ours = one.call(op, **fill_in(arguments, here, source))
            if is_safer(op, arguments, ours, theirs, files):
                break  # from here on they are not the same store
            assert ours[0] == theirs[0], (op, arguments, ours, theirs, files)
            if not ours[0]:
                refused += 1
                # Python leaves what it had begun.
                if op == "create" and sorted(p for p in there.rglob("*")) != sorted(p for p in here.rglob("*")):
                    break
                continue
            done += 1
            if op in ("create", "update"):
                assert without_times(ours[1], here) == without_times(theirs[1], there), (op, arguments)
            theirs, ours = store.list_skills(), one.call("list")[1]
            assert skills_of(ours, here) == skills_of(theirs, there), (op, arguments, files)
            # Each reads what the other wrote.
            assert skills_of(python_store(here).list_skills(), here) == skills_of(theirs, there)
    assert done > COUNT / 4 and refused > COUNT / 8


# --- archives ---

def archive_call(one, store, op, path, arguments):
    data = path.read_bytes()
    named = dict(arguments)
    if op == "preview":
        named.pop("source_paths", None)
        theirs = verdict(store.preview_zip_upload, file_bytes=data, **named)
    else:
        theirs = verdict(store.install_zip_upload, file_bytes=data, **named)
    return one.call(op, archive=str(path), **named), theirs


# What is refused here and not there, besides YAML: by the words of the message.
STRICTER = ("two names for one entry", "NUL in it", "overlaps another", "no usable zip archive", "is described in two ways",
            "is damaged", "lies outside", "cannot be read", "compressed in a way", "too long", "larger than it says")


def test_archives(boxd, tmp_path):
    maker = random.Random(SEED + 3)
    agreed = {True: 0, False: 0}
    stricter = []
    for index in range(COUNT):
        here, there = two_roots(tmp_path, index, {})
        path = tmp_path / "archive.zip"
        data = cases.archive(maker)
        path.write_bytes(data)
        arguments = {"filename": maker.choice(["pack.zip", "my pack.tar.zip", ".zip", "..x.zip", "a/b/c.zip", "Ünï.zip", "", "top.zip",
                                               "s1.zip", "---.zip"]),
                     "source_subdir": maker.choice([""] * 24 + ["s1", "top", "../x", "/top/", "\\top", ".", "missing", "a/b"]),
                     "target_suffix": maker.choice(["upload"] * 4 + ["", "x y", "v1"])}
        one, store = boxd(here), python_store(there)
        for op in ("preview", "install"):
            if op == "install" and maker.random() < (0.7 if ours[0] and len(ours[1]) > 1 else 0.2):
                arguments["source_paths"] = maker.choice([["s1"], ["s1", "s2"], [""], ["/s1/", "s1"], ["x y"], ["é", "s1"], ["missing"]])
            ours, theirs = archive_call(one, store, op, path, arguments)
            if theirs[0] and not ours[0] and (any(word in ours[1] for word in STRICTER) or "anchors" in ours[1]):
                stricter.append(ours[1])
                break
            assert ours[0] == theirs[0], (index, op, arguments, ours, theirs)
            agreed[ours[0]] += 1
            if ours[0]:
                assert without_times(ours[1], here) == without_times(theirs[1], there), (index, op, arguments)
                if op == "preview":
                    assert list(here.iterdir()) == []
                else:
                    assert tree_of(here) == tree_of(there)
        if not ours[0] and op == "install":
            assert list(here.iterdir()) == []
        shutil.rmtree(here)
        shutil.rmtree(there)
    assert min(agreed.values()) > COUNT / 4 and len(stricter) < COUNT / 5, (agreed, stricter)


def tree_of(root):
    return {str(path.relative_to(root)): (path.is_dir(), path.stat().st_mode & 0o777, b"" if path.is_dir() else path.read_bytes())
            for path in root.rglob("*")}


GOOD = {"name": "s/SKILL.md", "data": b"---\nname: s\n---\nx"}
ATTACKS = {
    "slip": [GOOD, {"name": "../evil"}], "absolute": [GOOD, {"name": "/evil"}], "backslash slip": [GOOD, {"name": "..\\evil"}],
    "drive": [GOOD, {"name": "C:evil"}], "dot": [GOOD, {"name": "."}], "empty name": [GOOD, {"name": ""}],
    "link": [GOOD, {"name": "s/l", "data": b"/etc", "mode": 0o120777}], "device": [GOOD, {"name": "s/d", "mode": 0o020666}],
    "fifo": [GOOD, {"name": "s/f", "mode": 0o010666}], "twice": [GOOD, GOOD], "twice by a detour": [GOOD, {"name": "s/./SKILL.md"}],
    "file and directory": [GOOD, {"name": "s/SKILL.md/x"}], "directory with data": [GOOD, {"name": "s/d/", "data": b"x"}],
    "bomb": [GOOD, {"name": "s/b", "data": b"\0" * (1 << 20), "method": 8}],
    "many small bombs": [GOOD] + [{"name": f"s/{i}", "data": b"\0" * 200000, "method": 8} for i in range(9)],
    "too large": [GOOD, {"name": "s/b", "data": os.urandom(17 << 20)}],
    "too large by its word": [GOOD, {"name": "s/b", "data": b"x" * 100, "size": 17 << 20}],
    "size smaller": [GOOD, {"name": "s/b", "data": b"x" * 100, "size": 10}],
    "size larger": [GOOD, {"name": "s/b", "data": b"x" * 100, "size": 110}],
    "deflated size larger": [GOOD, {"name": "s/b", "data": os.urandom(100), "method": 8, "size": 110}],
    "checksum": [GOOD, {"name": "s/b", "data": b"x", "crc": 1}], "encrypted": [GOOD, {"name": "s/b", "data": b"x" * 20, "flags": 1}],
    "strong encryption": [GOOD, {"name": "s/b", "data": b"x", "flags": 0x41}], "unknown method": [GOOD, {"name": "s/b", "data": b"x", "method": 99}],
    "other local name": [GOOD, {"name": "s/b", "local_name": b"s/c", "data": b"x"}], "version": [GOOD, {"name": "s/b", "version": 99}],
    "not UTF-8": [GOOD, {"name": b"s/\xff", "flags": 0x800}], "outside": [GOOD, {"name": "s/b", "data": b"x", "offset": 1 << 30}],
    "513 entries": [GOOD] + [{"name": f"s/{i}"} for i in range(512)], "100,000 entries": [{"name": f"s/{i}"} for i in range(100000)],
    "64 bits of size": [GOOD, {"name": "s/b", "data": b"x", "size": 0xFFFFFFFF, "extra": struct.pack("<HHQ", 1, 8, 1 << 40)}],
    "64 bits missing": [GOOD, {"name": "s/b", "data": b"x", "size": 0xFFFFFFFF, "extra": struct.pack("<HH", 1, 0)}],
    "extra cut off": [GOOD, {"name": "s/b", "extra": struct.pack("<HH", 7, 99)}],
    "nothing": [],
}
ACCEPTED = {
    "stored": [GOOD], "deflated": [{**GOOD, "method": 8}], "executable": [GOOD, {"name": "s/x", "mode": 0o100755, "data": b"#!"}],
    "setuid": [GOOD, {"name": "s/x", "mode": 0o106755}], "backslashes": [GOOD, {"name": "s\\d\\f", "data": b"x"}],
    "cp437": [GOOD, {"name": b"s/\x81\x9a", "data": b"x"}], "UTF-8 without the flag": [GOOD, {"name": "s/ü", "data": b"x"}],
    "UTF-8": [GOOD, {"name": "s/技能", "flags": 0x800, "data": b"x"}], "control characters": [GOOD, {"name": b"s/\x01\x1f", "data": b"x"}],
    "streamed": [{**GOOD, "flags": 8, "method": 8}], "by a detour": [GOOD, {"name": "s/a/../b", "data": b"x"}],
    "case": [GOOD, {"name": "s/skill.md", "data": b"x"}], "other case": [GOOD, {"name": "s/Skill.md", "data": b"x"}],
    "512 entries": [GOOD] + [{"name": f"s/{i}"} for i in range(511)], "nested archive": [GOOD, {"name": "s/n.zip", "data": cases.raw_zip([GOOD])}],
    "64 bits": [GOOD, {"name": "s/b", "data": b"x", "size": 0xFFFFFFFF, "extra": struct.pack("<HHQ", 1, 8, 1)}],
    "empty files": [GOOD, {"name": "s/e"}], "empty directory": [GOOD, {"name": "s/d/"}], "directory bits on a file": [GOOD, {"name": "s/d", "mode": 0o040755, "data": b"x"}],
}


@pytest.mark.parametrize("what", ATTACKS)
def test_attack(boxd, tmp_path, what):
    path = tmp_path / "a.zip"
    here, there = two_roots(tmp_path, "attack", {})
    path.write_bytes(cases.raw_zip(ATTACKS[what]))
    arguments = {"filename": "a.zip", "source_subdir": "", "target_suffix": "upload"}
    ours, theirs = archive_call(boxd(here), python_store(there), "install", path, arguments)
    assert not ours[0] and (not theirs[0] or what == "file and directory"), (ours, theirs)
    assert list(here.iterdir()) == [] and not (tmp_path / "evil").exists()


@pytest.mark.parametrize("what", ACCEPTED)
def test_accepted(boxd, tmp_path, what):
    path = tmp_path / "a.zip"
    here, there = two_roots(tmp_path, "good", {})
    path.write_bytes(cases.raw_zip(ACCEPTED[what]))
    arguments = {"filename": "a.zip", "source_subdir": "", "target_suffix": "upload"}
    ours, theirs = archive_call(boxd(here), python_store(there), "install", path, arguments)
    assert ours[0] and theirs[0], (ours, theirs)
    assert tree_of(here) == tree_of(there)


MIB = 1 << 20
LIMITS = {
    "16 MiB": ([16 * MIB], True), "16 MiB and 1": ([16 * MIB + 1], False),
    "64 MiB": ([16 * MIB] * 3 + [16 * MIB - len(GOOD["data"])], True), "64 MiB and 1": ([16 * MIB] * 3 + [16 * MIB - len(GOOD["data"]) + 1], False),
}


@pytest.mark.parametrize("what", LIMITS)
def test_limit(boxd, tmp_path, what):
    sizes, accepted = LIMITS[what]
    noise = random.Random(SEED).randbytes(3 * MIB)
    data = b"".join(noise[i : i + 600] + bytes(3000) for i in range(0, len(noise), 600))  # a sixth of it, compressed
    entries = [GOOD] + [{"name": f"s/{i}", "data": data[:size], "method": 8} for i, size in enumerate(sizes)]
    path = tmp_path / "a.zip"
    path.write_bytes(cases.raw_zip(entries))
    here, there = two_roots(tmp_path, "limits", {})
    ours, theirs = archive_call(boxd(here), python_store(there), "preview", path, {"filename": "a.zip", "source_subdir": "", "target_suffix": "upload"})
    assert ours[0] == theirs[0] == accepted, (ours, theirs)


def test_tenants(boxd, tmp_path):
    """A tenant's paths are its own."""
    root = tmp_path / "root"
    for place in ("tenants/ws-a/mine", "tenants/ws-b/other", "shared"):
        lay(root / place, {"SKILL.md": f"---\nname: {Path(place).name}\n---\n".encode()})
    (root / "tenants/ws-a/out").symlink_to("../ws-b/other")
    one, store = boxd(root), python_store(root, "ws-a")
    assert one.call("list", tenant="ws-a") == verdict(store.list_skills)
    for path in ("tenants/ws-a/mine", "tenants/ws-a", "tenants/ws-a/out", "tenants/ws-b/other", "shared", "tenants", "tenants/ws-a/../ws-b/other"):
        theirs = verdict(store.scan_directory, str(root / path))
        ours = one.call("scan", tenant="ws-a", path=str(root / path))
        assert ours[0] == theirs[0], path
        arguments = {"name": "new" + str(len(path)), "package_root": str(root / path)}
        assert one.call("create", tenant="ws-a", **arguments)[0] == (path == "tenants/ws-a/mine"), path
    for tenant in ("", ".", "..", "a/b", "a\\b"):
        assert not one.call("list", tenant=tenant)[0] and not verdict(python_store, root, tenant or " ")[0]
    # What Python's whole store shows, and could delete all at once, is not the others' here.
    assert [skill["name"] for skill in one.call("list")[1]] == ["shared"]


# --- on purpose ---

def test_unknown_keys_stay(boxd, tmp_path):
    root = tmp_path / "root"
    text = "---\r\n# mine\r\nlicense: MIT  # why\r\nname: s\r\nmetadata: {a: 1}\r\ndescription: 'old'  # note\r\n---\r\nBody\r\n"
    lay(root / "s", {"SKILL.md": text.encode()})
    assert boxd(root).call("update", name="s", description="new: text")[0]
    wanted = text.replace("'old'", '"new: text"')
    assert (root / "s/SKILL.md").read_bytes() == wanted.encode()
    assert python_store(root).get_skill("s")["description"] == "new: text"


def test_exports_are_read_by_python(boxd, tmp_path):
    root = tmp_path / "root"
    lay(root / "s", {"SKILL.md": b"---\nname: s\n---\n", "scripts/x.sh": b"#!/bin/sh\n", "ü/技.txt": b"x" * 100000, "link": "ü"})
    (root / "s/scripts/x.sh").chmod(0o755)
    path = tmp_path / "s.zip"
    assert boxd(root).call("export", name="s", archive=str(path))[0]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert set(archive.namelist()) == {"s/", "s/SKILL.md", "s/scripts/", "s/scripts/x.sh", "s/ü/", "s/ü/技.txt", "s/link/", "s/link/技.txt"}
    store = python_store(tmp_path / "theirs")
    assert [skill["name"] for skill in store.install_zip_upload(file_bytes=path.read_bytes(), filename="s.zip")] == ["s"]
    assert os.access(tmp_path / "theirs/s-upload/scripts/x.sh", os.X_OK)
