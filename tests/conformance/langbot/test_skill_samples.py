# SPDX-License-Identifier: Apache-2.0
"""Real skills through the client: the samples of tests/data/skills, several in one archive, packages of the host, and
skills in sessions."""

import io
import shutil
import zipfile
from pathlib import Path

import pytest
from daemon import asynchronous, unique
from harness import SERVER, boxd_only, python_before
from langbot_plugin.box import errors
from peer import TENANTS, VERSION

DATA = Path(__file__).resolve().parents[2] / "data" / "skills"
SAMPLES = ["csv-report", "数据清洗", "meeting-notes", "haiku", "py-tool"]


def archive(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for path, content in files.items():
            made.writestr(path, content)
    return data.getvalue()


def sample(name):
    return {str(path.relative_to(DATA)): path.read_bytes() for path in sorted((DATA / name).rglob("*")) if path.is_file()}


@asynchronous
async def test_samples(connect):
    """Scripts, nested directories, names that are not ASCII, CRLF, no front matter: each as it was, file by file."""
    async with connect() as peer:
        suffix = unique("s")
        for name in SAMPLES:
            files = sample(name)
            (made,) = await peer.install_skill_zip(archive(files), f"{name}.zip", target_suffix=suffix)
            directory = f"{name}-{suffix}"
            wanted = directory if name == "haiku" else name
            assert made["name"] == wanted and made["package_root"].endswith(directory)
            assert made["entry_file"] == ("skill.md" if name == "py-tool" else "SKILL.md")
            if "python_project" in made:
                assert made["python_project"] == (name == "py-tool")
            for path, content in files.items():
                got = (await peer.read_skill_file(wanted, path.split("/", 1)[1]))["content"]
                # Before 0.5 the Python runtime reads lines, whatever ends them.
                exact = content.decode()
                assert got == exact or (SERVER == "python" and not TENANTS and got == exact.replace("\r\n", "\n")), path
        names = [skill["name"] for skill in await peer.list_skills()]
        for name in SAMPLES:
            wanted = f"{name}-{suffix}" if name == "haiku" else name
            assert names.count(wanted) == 1
            await peer.delete_skill(wanted)


@asynchronous
async def test_several_in_one_archive(connect):
    async with connect() as peer:
        one, two, stem = unique("one"), unique("two"), unique("pack")
        data = archive({"all/one/SKILL.md": f"---\nname: {one}\n---\nx", "all/two/SKILL.md": f"---\nname: {two}\n---\nx"})
        seen = await peer.preview_skill_zip(data, f"{stem}.zip")
        assert [skill["source_path"] for skill in seen] == ["one", "two"]
        for wrong in ({}, {"source_paths": ["three"]}, {"source_paths": ["one", "three"]}):
            with pytest.raises(errors.BoxValidationError):
                await peer.install_skill_zip(data, f"{stem}.zip", **wrong)
        assert await peer.get_skill(one) is None
        made = await peer.install_skill_zip(data, f"{stem}.zip", source_paths=["two", "one"])
        assert [skill["name"] for skill in made] == [two, one]
        with pytest.raises(errors.BoxValidationError):
            await peer.install_skill_zip(data, f"{stem}.zip", source_path="one")
        (again,) = await peer.install_skill_zip(data, f"{stem}.zip", source_subdir="one", target_suffix="again")
        assert again["package_root"].endswith(f"{stem}-again")
        for name in (one, two):
            await peer.delete_skill(name)
        if await peer.get_skill(one):
            await peer.delete_skill(one)


@asynchronous
async def test_packages_of_the_host(connect):
    """Before workspaces a directory that LangBot shares can be imported; of a workspace only its own."""
    async with connect() as peer:
        place = peer.server.directory() / "meeting-notes"
        shutil.copytree(DATA / "meeting-notes", place)
        name = unique("imported")
        if TENANTS:
            with pytest.raises(errors.BoxValidationError):
                await peer.scan_skill_directory(str(place))
            with pytest.raises(errors.BoxValidationError):
                await peer.create_skill({"name": name, "package_root": str(place)})
            return
        assert (await peer.scan_skill_directory(str(place)))["name"] == "meeting-notes"
        made = await peer.create_skill({"name": name, "package_root": str(place), "display_name": "Of the host"})
        assert made["name"] == name and made["display_name"] == "Of the host" and "Sorts the notes" in made["description"]
        assert (await peer.read_skill_file(name, "template.txt"))["content"].split() == ["Decisions:", "Tasks:", "Questions:"]
        assert (place / "SKILL.md").read_bytes() == (DATA / "meeting-notes" / "SKILL.md").read_bytes()
        await peer.delete_skill(name)


@asynchronous
async def test_lists_of_files(connect):
    async with connect() as peer:
        name = unique("files")
        await peer.create_skill({"name": name})
        for path in (".hidden", "b", "a", "d/x", "d/.y"):
            await peer.write_skill_file(name, path, path)
        listed = await peer.list_skill_files(name)
        assert [entry["name"] for entry in listed["entries"]] == ["SKILL.md", "a", "b", "d"]
        assert listed["entries"][3] == {"path": "d", "name": "d", "is_dir": True, "size": None}
        listed = await peer.list_skill_files(name, "d", include_hidden=True)
        assert [entry["path"] for entry in listed["entries"]] == ["d/.y", "d/x"] and listed["base_path"] == "d"
        listed = await peer.list_skill_files(name, max_entries=2)
        assert len(listed["entries"]) == 2 and listed["truncated"] is True
        with pytest.raises(errors.BoxValidationError):
            await peer.list_skill_files(name, "a")
        await peer.delete_skill(name)


@python_before((0, 5), "has no limit")
@asynchronous
async def test_limits(connect):
    async with connect() as peer:
        name = unique("limits")
        await peer.create_skill({"name": name})
        # 0.4.2 cuts what it sends over a WebSocket into pieces that nobody can put together.
        if VERSION >= (0, 4, 17) or peer.link.kind == "stdio":
            await peer.write_skill_file(name, "most", "x" * (1 << 20))
            with pytest.raises(errors.BoxValidationError):
                await peer.write_skill_file(name, "more", "x" * ((1 << 20) + 1))
        many = archive({"SKILL.md": "x", **{f"{i}": "" for i in range(512)}})
        with pytest.raises(errors.BoxValidationError):
            await peer.preview_skill_zip(many, "many.zip")
        bomb = archive({"SKILL.md": "x", "bomb": bytes(4 << 20)})
        with pytest.raises(errors.BoxValidationError):
            await peer.install_skill_zip(bomb, "bomb.zip")
        await peer.delete_skill(name)


@boxd_only(reason="the tests' Python runtime mounts nothing")()
@asynchronous
async def test_in_sessions(connect):
    """By name, in the data of a spec: the client's model has no such field yet in every version."""
    async with connect() as peer:
        (made,) = await peer.install_skill_zip(archive(sample("csv-report")), f"{unique('csv')}.zip")
        spec = {"session_id": unique("with"), "cmd": "sh -c 'cd .skills/csv-report && python3 scripts/report.py references/examples/small.csv'"}
        for more in ({"skill_name": "csv-report"}, {"skills": ["csv-report"]}):
            result = await peer.call("box_exec", {**spec, **more})
            assert (result["exit_code"], result["stdout"].splitlines()[-1]) == (0, "price number 0.05 12.5 12.55"), result
        shared = peer.link.kind == "stdio"
        if shared:  # with files shared, one that is gone is no surprise
            result = await peer.call("box_exec", {"session_id": unique("without"), "cmd": "ls -A", "skills": ["gone"]})
            assert result["exit_code"] == 0 and "gone" in result["warnings"][0]
        else:
            message = await peer.refused("box_exec", {"session_id": unique("without"), "cmd": "ls -A", "skills": ["gone"]})
            assert message.startswith("BoxValidationError:") and "gone" in message
        await peer.delete_skill(made["name"])
