# SPDX-License-Identifier: Apache-2.0
"""Skills: 500 packages and archives from a seed, and calls that no client would make. The same tree lies in the stores of
both sides, or the same archive is sent to both."""

import base64
import itertools
import os
import random
import re
import shutil
import sys
from pathlib import Path

import listed
from scripts import script

sys.path.append(str(Path(__file__).resolve().parent.parent))
import skill_cases as cases  # noqa: E402

SEED = int(os.environ.get("SKILL_SEED", "1"))
PACKAGES, ARCHIVES = 200, 300
CHUNK = 16384
NUMBERS = itertools.count()

# Words of what boxd refuses and the runtime of 0.5 does not: a zip file that can be read in more than one way, or YAML
# beyond the safe subset.
STRICTER = ("two names for one entry", "NUL in it", "overlaps another", "no usable zip archive", "is described in two ways", "is damaged",
            "lies outside", "cannot be read", "compressed in a way", "too long", "larger than it says", "anchors", "holds another skill",
            "file and a directory", "more than")
NOT_COMMON = re.compile(r"(^|[\s,\[{])[&*!]|\t|\\0|\ufeff|\x00", re.M)


async def ask(pair, action, data, may=None, **options):
    """One request. `may`: the listed difference that is met if boxd refuses what Python does."""
    answers = await pair._ask(action, data, pair.OWN)
    if may and answers[0]["code"] and not answers[1]["code"]:
        said = answers[0]["message"]
        assert said.startswith("BoxValidationError: "), said
        assert not listed.TENANTS or any(word in said for word in STRICTER), (action, data, answers)
        options = {"differs": may, "at": "outcome"}
    return pair._judge(action, answers, **options)


async def send(pair, data):
    """An upload to both: its key."""
    key = f"archive-{next(NUMBERS)}.zip"
    pieces = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)] or [b""]
    for index, piece in enumerate(pieces):
        chunk = {"file_key": key, "chunk_base64": base64.b64encode(piece).decode(), "chunk_index": index, "chunk_amount": len(pieces),
                 "file_length": len(data), "chunk_size": len(piece)}
        for answer in await pair._ask("__file_chunk", chunk, pair.OWN):
            assert answer["code"] == 0, answer
    return key


class Stores:
    """Both stores, as directories."""

    def __init__(self, roots):
        self.roots = roots

    @classmethod
    async def of(cls, pair):
        made = await pair.call("box_create_skill", {"skill": {"name": "probe"}})
        stores = cls([Path(answer["data"]["skill"]["package_root"]).parent for answer in made])
        stores.clear()
        return stores

    def clear(self):
        for root in self.roots:
            for path in root.iterdir():
                if path.name != "tenants":
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def lay(self, files):
        """The same files with the same times, and whoever has the store has them."""
        for root in self.roots:
            owner = root.stat()
            for index, (path, content) in enumerate(files.items()):
                place = root / path
                try:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(content)
                except OSError:
                    continue  # a file where a directory should be
                os.utime(place, (1_700_000_000 + index, 1_700_000_000 + index))
            for path in root.rglob("*"):
                os.chown(path, owner.st_uid, owner.st_gid)

    def trees(self):
        """What is executable is so since 0.5."""
        return [{str(path.relative_to(root)): (path.stat().st_mode & 0o111 if listed.TENANTS and path.is_file() else None,
                                               path.read_bytes() if path.is_file() else None)
                 for path in root.rglob("*") if "tenants" not in path.relative_to(root).parts[:1]} for root in self.roots]


def common_text(maker):
    """A SKILL.md that every version reads in the same way."""
    while listed.TENANTS:
        text = cases.skill_text(maker)
        if not NOT_COMMON.search(text):
            return text
    return cases.good_text(maker)


def common_tree(maker):
    files = {}
    for index in range(maker.randrange(1, 6)):
        depth = maker.choice([1, 1, 1, 2, 3, 6, 7])
        above = "".join(maker.choice(["d/", "e/", "ф/", ".h/"]) for _ in range(depth - 1))
        base = f"{above}{maker.choice(['one', 'two', 'three', 'Ünï', f'n{index}'])}"
        for path, content in cases.package(maker, common_text(maker)).items():
            # Before 0.5 the runtime lists what is not UTF-8, and has no CRLF in what it reads.
            if isinstance(content, bytes) and (listed.TENANTS or not path.endswith("SKILL.md") or not re.search(rb"\xff|\r", content)):
                files[f"{base}/{path}"] = content
    return files


READ = ["SKILL.md", "skill.md", "scripts/run.py", "scripts", "missing", "../x", "/etc/passwd", "data.bin", "assets/ü.txt", ".", "", " z "]
LISTED = [".", "", "scripts", "./scripts/../scripts", "..", "..x", "missing", "SKILL.md", "assets", "/etc"]


@script(since="0.4.17")
async def packages(pair):
    """What is in a store, read by each side."""
    maker = random.Random(SEED)
    stores = await Stores.of(pair)
    for _ in range(PACKAGES):
        stores.clear()
        stores.lay(common_tree(maker))
        answers = await ask(pair, "box_list_skills", {})
        first, second = ([(skill["name"], skill["updated_at"]) for skill in answer["data"]["skills"]] for answer in answers)
        assert first == second
        for name in {name for name, _ in first}:
            await ask(pair, "box_get_skill", {"name": name})
            for path in maker.sample(LISTED, 2):
                await ask(pair, "box_list_skill_files", {"name": name, "path": path, "include_hidden": maker.random() < 0.5})
            for path in maker.sample(READ, 3):
                await read(pair, name, path)
        if listed.TENANTS:
            for name, _ in first[:1]:
                for most in (1, 2, 5000, "3", " 4 ", 2.9, True):
                    await ask(pair, "box_list_skill_files", {"name": name, "max_entries": most})
    stores.clear()


async def read(pair, name, path):
    answers = await pair._ask("box_read_skill_file", {"name": name, "path": path}, pair.OWN)
    texts = [answer["data"].get("content") for answer in answers]
    ends = not listed.TENANTS and texts[0] and "\r\n" in texts[0]
    options = {"differs": "skills-keep-line-ends", "at": "data.content"} if ends else {}
    return pair._judge("box_read_skill_file", answers, **options)


@script(since="0.4.17")
async def archives(pair):
    """Whole ones and bent ones: the same verdict, the same values, and the same files."""
    maker = random.Random(SEED + 1)
    stores = await Stores.of(pair)
    stricter = done = refused = 0
    for _ in range(ARCHIVES):
        stores.clear()
        data = cases.archive(maker)
        names = {"filename": maker.choice(["pack.zip", "my pack.tar.zip", ".zip", "a/b/c.zip", "Ünï.zip", "", "top.zip", "---.zip"]),
                 "source_subdir": maker.choice([""] * 24 + ["s1", "top", "../x", "/top/", "\\top", ".", "missing", None]),
                 "target_suffix": maker.choice(["upload"] * 4 + ["", "x y", "v1", None])}
        ours, theirs = await ask(pair, "box_preview_skill_zip", {"file_key": await send(pair, data), **names}, may="skill-archives")
        found = [skill["source_path"] for skill in ours["data"].get("skills", ())]
        if len(found) > 1 and maker.random() < 0.8:
            names["source_paths"] = maker.sample(found, maker.randrange(1, len(found) + 1))
        elif maker.random() < 0.2:
            names["source_paths"] = maker.choice([["s1"], ["s1", "s2"], [""], ["/s1/", "s1"], ["missing"], None, []])
        if maker.random() < 0.1:
            names["source_path"] = maker.choice(["s1", "/s2", "", None, "missing"])
        ours, theirs = await ask(pair, "box_install_skill_zip", {"file_key": await send(pair, data), **names}, may="skill-archives")
        stricter += ours["code"] != theirs["code"]
        done += ours["code"] == 0
        refused += ours["code"] != 0 and theirs["code"] != 0
        if ours["code"] == 0:
            left, right = stores.trees()
            assert left == right, (names, set(left) ^ set(right))
            await ask(pair, "box_list_skills", {})
        else:
            assert stores.trees()[0] == {}
    stores.clear()
    assert done > ARCHIVES / 5 and refused > ARCHIVES / 20 and stricter < ARCHIVES / (4 if listed.TENANTS else 2), (done, refused, stricter)


FIELDS = ["", "  ", "Text: with # signs", "line\nline", "123", "true", "- x", "é 'q' \"d\"", "x" * 500, "trail ", None, 5, 1.5, False]


@script(since="0.4.17")
async def writes(pair):
    """The same calls, one after the other, on the same store."""
    maker = random.Random(SEED + 2)
    stores = await Stores.of(pair)
    for _ in range(40):
        stores.clear()
        for _ in range(8):
            listing = await ask(pair, "box_list_skills", {})
            names = [skill["name"] for skill in listing[0]["data"]["skills"]]
            name = maker.choice(names * 3 + ["alpha", "newone", "技能", "bad name", "../x", "", "x" * 65, "a/b"])
            fields = {key: maker.choice(FIELDS) for key in ("display_name", "description") if maker.random() < 0.6}
            if maker.random() < 0.5:
                fields["instructions"] = maker.choice(["", "Do it.\n", "\n\nlead", "---\nx\n---\n", " ", None, 7])
            action = maker.choice(["create", "create", "update", "update", "write", "delete"])
            if action == "create":
                await ask(pair, "box_create_skill", {"skill": {"name": name, **fields}})
            elif action == "update":
                await ask(pair, "box_update_skill", {"name": name, "skill": {**fields, **maker.choice([{}, {"name": name}, {"name": "other"}])}})
            elif action == "write":
                path = maker.choice(["a", "d/e/f", "../x", "/x", "SKILL.md/x", "d", " b ", "x" * 300, "é/技"])
                await ask(pair, "box_write_skill_file", {"name": name, "path": path, "content": maker.choice(["", "text", "é" * 50, "a\nb"])})
            else:
                await ask(pair, "box_delete_skill", {"name": name})
    stores.clear()


@script(since="0.4.17")
async def what_is_missing(pair):
    """Each action without what it needs."""
    for action, keys in (("box_create_skill", ["skill"]), ("box_update_skill", ["name", "skill"]), ("box_delete_skill", ["name"]),
                         ("box_scan_skill_directory", ["path"]), ("box_list_skill_files", ["name"]), ("box_read_skill_file", ["name", "path"]),
                         ("box_write_skill_file", ["name", "path"]), ("box_preview_skill_zip", ["file_key"]),
                         ("box_install_skill_zip", ["file_key"]), ("box_get_skill", ["name"])):
        for key in keys:
            data = {other: {"name": "x"} if other == "skill" else "x" for other in keys if other != key}
            await pair.call(action, data, names=key)
        for value in (None, 5, [], "", "none"):
            await pair.call(action, {key: {"name": ""} if key == "skill" else value for key in keys})
    for value in (None, 5, "x", []):
        await pair.call("box_create_skill", {"skill": value})
    for value in (0, -1, "x", "", None, [], "1e3", "0x10"):
        await pair.call("box_list_skill_files", {"name": "none", "max_entries": value})


@script(since="0.4.17")
async def paths(pair):
    """Directories of the host, and of the store."""
    stores = await Stores.of(pair)
    for name in ("one", "two"):
        await pair.call("box_create_skill", {"skill": {"name": name}})

    async def each(action, below, wrap, **options):
        answers = [await pair.ask_one(connection, action, wrap(f"{root}{below}"), pair.OWN)
                   for connection, root in zip(pair.connections, stores.roots)]
        return pair._judge(action, answers, **options)

    for below in ("/one", "/two/", "/none", "/one/SKILL.md", "/one/../two", "/../../etc", ""):
        await each("box_scan_skill_directory", below, lambda path: {"path": path})
        await each("box_update_skill", below, lambda path: {"name": "one", "skill": {"package_root": path}})
        if below:  # of the whole store Python makes a copy in itself, until it stumbles
            await each("box_create_skill", below, lambda path: {"skill": {"name": "three", "package_root": path}})
    await pair.call("box_list_skills")
    for path in ("", ".", "relative", "/no/such"):
        await pair.call("box_scan_skill_directory", {"path": path})
    stores.clear()


@script(since="0.4.17")
async def beyond_the_safe_subset(pair):
    """YAML that a stranger's front matter need not have."""
    for line in ("a: &x 1", "name: !!str 5", "a: &x [1]\nb: *x", "a: !custom x"):
        data = cases.raw_zip([{"name": "s/SKILL.md", "data": f"---\nname: s\n{line}\n---\n".encode()}])
        options = {} if "custom" in line else {"differs": "skill-archives", "at": "outcome"}
        await pair.call("box_preview_skill_zip", {"file_key": await send(pair, data)}, **options)


@script(since="0.4.17")
async def links(pair):
    """Links of a package: inside it they are what they lead to; others are links, and not followed."""
    stores = await Stores.of(pair)
    stores.lay({"s/SKILL.md": b"---\nname: s\n---\n", "s/d/f": b"text"})
    for root in stores.roots:
        (root / "s" / "in").symlink_to("d/f")
        (root / "s" / "out").symlink_to("/etc/hostname")
    for path in ("in", "out", "d/f"):
        await pair.call("box_read_skill_file", {"name": "s", "path": path})
        await pair.call("box_write_skill_file", {"name": "s", "path": f"{path}/x", "content": ""})
    await pair.call("box_list_skill_files", {"name": "s", "path": "d"})
    for root in stores.roots:
        (root / "s" / "nowhere").symlink_to("missing")
    await pair.call("box_list_skill_files", {"name": "s"}, differs="skill-links", at="outcome")
    stores.clear()
