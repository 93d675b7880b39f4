# SPDX-License-Identifier: Apache-2.0
"""The differences that are meant: differences.toml."""

import importlib.metadata
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = importlib.metadata.version("langbot-plugin")
NUMBER = tuple(int(part) for part in VERSION.split("."))
TENANTS = NUMBER >= (0, 5)


def load():
    """All of them, by id."""
    with open(HERE / "differences.toml", "rb") as file:
        entries = tomllib.load(file)["difference"]
    assert len({entry["id"] for entry in entries}) == len(entries), "an id twice"
    return {entry["id"]: entry for entry in entries}


LISTED = load()


def applies(entry):
    return VERSION in entry["versions"]
