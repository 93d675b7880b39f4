# SPDX-License-Identifier: Apache-2.0
"""The actions of skills through the client, one life of a skill; test_skill_store.py compares the store itself with
LangBot's."""

import io
import zipfile

import pytest
from daemon import asynchronous, unique
from harness import SERVER, tenants_only
from langbot_plugin.box import errors
from peer import TENANTS, make_context

KEYS = {"name", "display_name", "description", "instructions", "package_root", "entry_file", "created_at", "updated_at"}
if SERVER == "boxd" or TENANTS:
    KEYS |= {"python_project"}


def archive(**files):
    """A zip of these, by their paths."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as target:
        for path, text in files.items():
            target.writestr(path, text)
    return data.getvalue()


@asynchronous
async def test_a_skill_from_beginning_to_end(connect):
    async with connect() as peer:
        name = unique("skill")
        made = await peer.create_skill(
            {"name": name, "display_name": "A skill", "description": "does", "instructions": "Do it."})
        assert KEYS <= set(made) and (made["name"], made["instructions"]) == (name, "Do it.")
        assert (await peer.get_skill(name))["description"] == "does"
        assert name in [skill["name"] for skill in await peer.list_skills()]
        with pytest.raises(errors.BoxValidationError):
            await peer.create_skill({"name": name})
        changed = await peer.update_skill(name, {"description": "does more", "instructions": "Do more."})
        assert (changed["description"], changed["instructions"]) == ("does more", "Do more.")

        written = await peer.write_skill_file(name, "scripts/run.sh", "echo ü\n")
        assert written["bytes_written"] == len("echo ü\n".encode())
        assert (await peer.read_skill_file(name, "scripts/run.sh"))["content"] == "echo ü\n"
        listed = await peer.list_skill_files(name)
        assert {"scripts", "SKILL.md"} <= {entry["path"] for entry in listed["entries"]} and listed["truncated"] is False
        for path in ("../outside", "/etc/passwd", "scripts/../../outside"):
            with pytest.raises(errors.BoxValidationError):
                await peer.read_skill_file(name, path)
            with pytest.raises(errors.BoxValidationError):
                await peer.write_skill_file(name, path, "x")
        assert (await peer.scan_skill_directory(made["package_root"]))["name"] == name

        await peer.delete_skill(name)
        assert await peer.get_skill(name) is None
        with pytest.raises(errors.BoxValidationError):
            await peer.delete_skill(name)


@asynchronous
async def test_skills_from_an_archive(connect):
    """What was sent in chunks is read once, and then gone."""
    async with connect() as peer:
        name = unique("zipped")
        text = f"---\nname: {name}\ndescription: from a zip\n---\nUnpack."
        data = archive(**{f"{name}/SKILL.md": text, f"{name}/data.txt": "x" * 100_000})
        (seen,) = await peer.preview_skill_zip(data, f"{name}.zip")
        assert (seen["name"], seen["description"]) == (name, "from a zip")
        assert name not in [skill["name"] for skill in await peer.list_skills()]
        (made,) = await peer.install_skill_zip(data, f"{name}.zip")
        assert made["name"] == name
        assert (await peer.read_skill_file(name, "data.txt"))["content"] == "x" * 100_000
        for bad in (b"no archive", archive(**{"../SKILL.md": text}), archive(**{"x/readme": "nothing"})):
            with pytest.raises(errors.BoxValidationError):
                await peer.install_skill_zip(bad, "bad.zip")
        key = await peer.handler.send_file(data, "zip")
        request = {"file_key": key, "filename": f"{name}.zip"}
        await peer.call("box_preview_skill_zip", request)
        assert (await peer.refused("box_preview_skill_zip", request)).startswith("BoxValidationError:")
        await peer.delete_skill(name)


@tenants_only
@asynchronous
async def test_skills_are_the_workspaces(connect):
    async with connect() as peer:
        name = unique("skill")
        await peer.create_skill({"name": name, "instructions": "Mine."})
        other = peer.to(make_context())
        assert await other.list_skills() == [] and await other.get_skill(name) is None
        for ask in (other.read_skill_file(name, "SKILL.md"), other.list_skill_files(name), other.delete_skill(name),
                    other.update_skill(name, {"instructions": "Yours."}), other.write_skill_file(name, "x", "y")):
            with pytest.raises(errors.BoxValidationError):
                await ask
        newer = peer.to(make_context(peer.context.workspace_uuid, generation=2))
        assert (await newer.get_skill(name))["instructions"] == "Mine.", "they outlive a generation"
        await newer.delete_skill(name)
