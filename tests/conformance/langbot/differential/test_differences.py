# SPDX-License-Identifier: Apache-2.0
"""The list of differences itself. That each is still one is shown by the scripts (test_scripts.py)."""

import re

import listed
import sides

PAGE = sides.ROOT / "docs" / "langbot.md"
VERSIONS = {"0.4.2", "0.4.17", "0.5.5"}


def documented():
    """The ids in the page: the first columns of the tables from `Behaviour` on, which have them."""
    found = re.search(r"^## Differences$.*?^### Behaviour$(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    assert found, f"{PAGE} has no section about them"
    return re.findall(r"^\| `([a-z0-9-]+)` \|", found.group(1), re.M)


def test_page_lists_the_same():
    assert sorted(documented()) == sorted(listed.LISTED)


def test_entries_are_whole():
    for entry in listed.LISTED.values():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry["id"]), entry
        assert entry["versions"] and set(entry["versions"]) <= VERSIONS, entry
        assert entry["reason"].endswith("."), entry
