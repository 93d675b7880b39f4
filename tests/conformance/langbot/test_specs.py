# SPDX-License-Identifier: Apache-2.0
"""Whether boxd takes specs as LangBot's own models do: the same verdict, the same value after it. Runs with any
Python that has langbot_plugin and pytest, and no daemon; BOX_BUILD names the build directory."""

import itertools
import json
import os
import random
import re
from pathlib import Path

import pytest
from langbot_plugin.box import models
from spec_models import VALIDATE, boxd_verdicts, is_ours, python_verdict
from spec_values import CONTEXT, GOOD, SPACES, TIMES, random_values

SEED = int(os.environ.get("SPEC_SEED", "1"))
COUNTS = {"spec": 2000, "process": 500, "grant": 500, "revocation": 500, "policy": 500, "context": 500}
HAS_SKILL = "skill_name" in models.BoxSpec.model_fields
HAS_MEMORY = "memory_mb" in models.BoxManagedProcessSpec.model_fields
ABSENT = (() if HAS_SKILL else ("skill_name",)) + (() if HAS_MEMORY else ("memory_mb",))


def only(*modes):
    """Those that this version has, and a skip with its reason for the others."""
    return [mode if mode in VALIDATE else pytest.param(mode, marks=pytest.mark.skip(reason="came with 0.5"))
            for mode in modes]


def mend(value):
    """Half of a surrogate pair is U+FFFD to boxd."""
    if isinstance(value, str):
        return "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in value)
    if isinstance(value, dict):
        return {mend(name): mend(item) for name, item in value.items()}
    return [mend(item) for item in value] if isinstance(value, list) else value


def without_symbols(line):
    """The line with letters alone beyond ASCII in its skill's name, for boxd cannot tell them from other characters."""
    value = json.loads(line)
    if isinstance(value, dict) and isinstance(value.get("skill_name"), str):
        value["skill_name"] = "".join(c if c.isascii() or c.isalnum() or c.isspace() else "x" for c in value["skill_name"])
    return json.dumps(value)


def compare(mode, values):
    """Returns how many were taken."""
    lines = [json.dumps(value) for value in values]
    taken = 0
    for line, (value, error) in zip(lines, boxd_verdicts(mode, lines), strict=True):
        wanted = python_verdict(mode, line)
        if wanted is not None and not is_ours(mode, wanted):
            assert value is None, f"documented as refused, but taken: {line[:500]}"
        elif wanted is None:
            assert value is None or python_verdict(mode, without_symbols(line)), f"refused by LangBot: {line[:500]}"
        else:
            assert value is not None, f"refused ({error}): {line[:500]}"
            assert {name: value[name] for name in wanted if name in value} == mend(
                {name: item for name, item in wanted.items() if name in value}), line[:500]
            assert set(value) <= set(wanted) | set(ABSENT), line[:500]
            taken += 1
    return taken


@pytest.mark.parametrize("mode", only(*COUNTS))
def test_random(mode):
    count = COUNTS[mode]
    taken = compare(mode, random_values(random.Random(f"{SEED} {mode}"), mode, count, ABSENT))
    # Neither all nor nothing: else it would not be a test.
    assert count / 10 < taken < count * 9 / 10


def of(mode, name, values):
    return [{**GOOD[mode][0], name: value} for value in values]


# But those that are among the differences.
NUMBERS = [text for size in range(1, 5) for text in map("".join, itertools.product("015_+-. e", repeat=size))
           if not re.fullmatch(r"\s*[+]?0[0_]*-.*", text)]


@pytest.mark.parametrize("name", ["timeout_sec", "cpus", "workspace_quota_mb"])
def test_numbers_in_texts(name):
    """All short texts, instead of some."""
    assert compare("spec", of("spec", name, NUMBERS)) > 100


@pytest.mark.parametrize("mode", only("context"))
def test_generations_in_texts(mode):
    assert compare(mode, [{**CONTEXT, "placement_generation": text} for text in NUMBERS]) > 100


@pytest.mark.parametrize("name,text", [("timeout_sec", "5"), ("cpus", "5"), ("cmd", "x"), ("session_id", "x"),
                                       ("host_path", "/x"), ("persistent", "1")])
def test_white_space(name, text):
    """Every character of the first planes that is white space to anybody, and some neighbours."""
    spaces = [chr(c) for c in range(0x3100) if chr(c).isspace() or c < 0x30] + SPACES
    compare("spec", of("spec", name, [space + text for space in spaces] + [text + space for space in spaces]))


def test_flags():
    words = [word for base in ("0", "1", "t", "f", "y", "n", "yes", "no", "on", "off", "true", "false", "ye", "onn")
             for word in (base, base.upper(), base.title(), base + " ")]
    assert compare("spec", of("spec", "persistent", words)) == 36


@pytest.mark.parametrize("mode", only("grant"))
def test_times(mode):
    source = random.Random(f"{SEED} times")
    texts = [text for text in TIMES if isinstance(text, str)]
    values = list(TIMES)
    for _ in range(2000):
        text = list(source.choice(texts))
        for _ in range(source.choice([1, 1, 2])):
            place = source.randrange(len(text) + 1)
            text[place:place + source.choice([0, 1])] = source.choice("0123456789-+:.,TZe ")
        values.append("".join(text))
    values += [source.uniform(-most, most) for most in (1, 1e10, 1e14) for _ in range(200)]
    values += [f"{source.uniform(-most, most):.7f}" for most in (1, 1e10, 1e14) for _ in range(200)]
    values += [source.randrange(-10**14, 3 * 10**14) for _ in range(200)]
    assert compare(mode, of(mode, "expires_at", values)) > 400


# --- where boxd differs ---

DIFFERENT = {
    "`cpus` that is not finite": ("spec", [{"cpus": float("nan")}, {"cpus": float("inf")}, {"cpus": "inf"}, {"cpus": "1e999"}]),
    "`cpus` above 1,024": ("spec", [{"cpus": 1025}]),
    "`timeout_sec` above 4,294,967,295": ("spec", [{"timeout_sec": 2**32}, {"timeout_sec": 10**30}]),
    "`memory_mb` above 16,777,216": ("spec", [{"memory_mb": 2**24 + 1}]),
    "`pids_limit` above 4,194,304": ("spec", [{"pids_limit": 2**22 + 1}]),
    "`workspace_quota_mb` above 1,073,741,824": ("spec", [{"workspace_quota_mb": 2**30 + 1}]),
    "texts such as `0-0` for a whole number": ("spec", [{"workspace_quota_mb": "0-0"}]),
    "NUL in a text": ("spec", [{"cmd": "a\0b"}, {"session_id": "a\0"}, {"env": {"A": "\0"}}, {"env": {"\0": "A"}},
                               {"host_path": "/x\0"}]),
    "`session_id` over 255 bytes or with control characters": ("spec", [{"session_id": "ä" * 128}, {"session_id": "a\nb"},
                                                                        {"session_id": "a\x85b"}]),
    "`image` empty, over 512 bytes or with control characters": ("spec", [{"image": ""}, {"image": "x" * 513},
                                                                          {"image": "a\nb"}]),
    "paths of Windows": ("spec", [{"host_path": "C:\\x"}, {"host_path": "c:/x"}, {"host_path": "\\\\server\\x"}]),
    "`host_path`, `mount_path` with `..` in it, control characters, or over 4,095 bytes": (
        "spec", [{"host_path": "/x/../y"}, {"mount_path": "/a\nb"}, {"host_path": "/" + "a" * 4095}]),
    "`workdir`, `cwd`, `command` over 4,095 bytes": ("spec", [{"workdir": "/" + "a" * 4095}]),
    "`cmd` over 131,071 bytes": ("spec", [{"cmd": "x" * 131072}]),
    "more than 30 `extra_mounts`": ("spec", [{"extra_mounts": [{"host_path": "/h", "mount_path": "/m"}] * 31}]),
    "`env` with more than 4,096 names, or one that is empty or has `=` or control characters in it": (
        "spec", [{"env": {f"N{i}": "" for i in range(4097)}}, {"env": {"": "x"}}, {"env": {"A=B": "x"}},
                 {"env": {"A\x01": "x"}}]),
    "`process_id` empty, over 128 bytes or with control characters": ("process", [
        {"process_id": ""}, {"process_id": "x" * 129}, {"process_id": "a\nb"}]),
    "more than 4,096 `args`": ("process", [{"args": ["x"] * 4097}]),
    "`memory_mb` of a process below 0": ("process", [{"memory_mb": -1}] if HAS_MEMORY else []),
    "ids over 256 bytes": ("revocation", [{"instance_uuid": "x" * 257}, {"workspace_uuid": "ä" * 129}]),
    "generations and revisions above 9,223,372,036,854,775,807": ("revocation", [{"entitlement_revision": 2**63}]),
    "`max_sessions`, `max_managed_processes` of a grant above 4,294,967,295": ("grant", [{"max_sessions": 2**32}]),
    "times of the policy above 4,294,967,295": ("policy", [{"max_timeout_sec": 2**32}]),
}
TAKEN = {
    "`skill_name` with characters beyond ASCII that are no letters": [{"skill_name": "skill\U0001f600"}] if HAS_SKILL else [],
}
OTHER = {"half of a surrogate pair in a text"}


@pytest.mark.parametrize("what", DIFFERENT)
def test_refused(what):
    mode, changes = DIFFERENT[what]
    if mode not in VALIDATE or not changes:
        pytest.skip("this version has no such field")
    lines = [json.dumps({**GOOD[mode][0], **change}) for change in changes]
    for change, line, (value, error) in zip(changes, lines, boxd_verdicts(mode, lines), strict=True):
        assert python_verdict(mode, line) is not None, line[:200]
        assert value is None and next(iter(change)) in error, (line[:200], error)


@pytest.mark.parametrize("what", TAKEN)
def test_taken(what):
    if not TAKEN[what]:
        pytest.skip("this version has no such field")
    lines = [json.dumps({**GOOD["spec"][0], **change}) for change in TAKEN[what]]
    for line, (value, error) in zip(lines, boxd_verdicts("spec", lines), strict=True):
        assert python_verdict("spec", line) is None and value is not None, (line, error)


def test_half_of_a_pair():
    line = json.dumps({"session_id": "s", "cmd": "\ud800x"})
    assert python_verdict("spec", line)["cmd"] == "\ud800x"
    assert boxd_verdicts("spec", [line])[0][0]["cmd"] == "\ufffdx"


def test_documented():
    """The table of docs/langbot.md and the differences here are the same."""
    text = (Path(__file__).parents[3] / "docs" / "langbot.md").read_text()
    section = text.split("### Specs\n")[1].split("\n#")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")][2:]
    assert set(rows) == {*DIFFERENT, *TAKEN, *OTHER} and len(rows) == len(set(rows))
