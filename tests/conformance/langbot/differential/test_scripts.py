# SPDX-License-Identifier: Apache-2.0
"""Every script, step by step, against both sides."""

import asyncio
import importlib
from pathlib import Path

import pytest

import listed
import scripts

for module in sorted(Path(__file__).parent.glob("script_*.py")):
    importlib.import_module(module.stem)


def name(one):
    return one.name


@pytest.mark.parametrize("script", scripts.SCRIPTS, ids=name)
def test_script(script, request, tally, start_pair):
    pair = start_pair(script.config) if script.config is not None else request.getfixturevalue("shared_pair")

    before = tally.steps

    async def perform():
        pair.workspace = f"workspace of {script.name}"
        pair.generation = 1
        await pair.connect()
        try:
            await script.run(pair)
            if script.config is None:
                await pair.clear()
        finally:
            await pair.disconnect()

    asyncio.run(perform())
    tally.scripts.add(script.name)
    tally.scripted += tally.steps - before


def need_all(tally):
    if tally.scripts != {script.name for script in scripts.SCRIPTS}:
        pytest.skip("not every script was run, or not to its end")


def test_steps_are_many(tally):
    need_all(tally)
    assert tally.scripted >= 300, "the scripts compare less than they should"


def test_every_listed_difference_is_met(tally):
    """A difference that no step meets is not one, or not any more."""
    need_all(tally)
    wanted = {key for key, entry in listed.LISTED.items() if listed.applies(entry)}
    assert set(tally.seen) == wanted
