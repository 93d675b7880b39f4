# SPDX-License-Identifier: Apache-2.0
"""The place for the actions of skills: box_list_skills, box_get_skill, box_create_skill, box_update_skill,
box_delete_skill, box_scan_skill_directory, box_list_skill_files, box_read_skill_file, box_write_skill_file,
box_preview_skill_zip, box_install_skill_zip. Until boxd has them, they must be refused with a word."""

import inspect

import pytest
from daemon import asynchronous
from harness import SERVER
from langbot_plugin.box import errors
from langbot_plugin.box.client import ActionRPCBoxClient

METHODS = sorted(name for name, _ in inspect.getmembers(ActionRPCBoxClient, inspect.isfunction) if "skill" in name)
ARGUMENTS = {"name": "x", "skill": {"name": "x"}, "path": "/x", "content": "", "file_bytes": b"x", "filename": "x.zip"}


@pytest.mark.skipif(SERVER == "python", reason="the Python runtime has them")
@asynchronous
async def test_no_skills_yet(connect):
    async with connect() as peer:
        for name in METHODS:
            wanted = inspect.signature(getattr(ActionRPCBoxClient, name)).parameters
            with pytest.raises(errors.BoxError):
                await getattr(peer, name)(**{key: ARGUMENTS[key] for key in wanted if key in ARGUMENTS})
        assert await peer.call("__ping") == {}
