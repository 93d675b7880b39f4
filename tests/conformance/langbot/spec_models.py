# SPDX-License-Identifier: Apache-2.0
"""LangBot's models and boxd's decoders of the same things: what each says of a value, and where they are known to
differ (docs/langbot.md, "Specs")."""

import datetime
import json
import math
import os
import subprocess
from pathlib import Path

from langbot_plugin.box import models

try:
    from langbot_plugin.entities.io.context import parse_action_envelope_context
except ImportError:
    parse_action_envelope_context = None

PROGRAM = Path(os.environ.get("BOX_BUILD", "build")) / "tests" / "spec-verdict"


def dump(model):
    value = model.model_dump()
    for name in ("network", "host_path_mode"):
        if name in value:
            value[name] = value[name].value
    for mount in value.get("extra_mounts", []):
        mount["mode"] = mount["mode"].value
    return value


def validate_context(value):
    return dump(parse_action_envelope_context(value))


def validate_policy(value):
    if value is None:
        value = {}  # what the runtime makes of a section that is not there
    return dump(models.SandboxAdmissionPolicy.model_validate(value))


def model(name):
    found = getattr(models, name, None)
    return found and (lambda value: dump(found.model_validate(value)))


# Those that this version has.
VALIDATE = {
    mode: function
    for mode, function in {
        "spec": model("BoxSpec"),
        "process": model("BoxManagedProcessSpec"),
        "grant": model("SandboxAdmissionGrant"),
        "revocation": model("SandboxAdmissionRevocation"),
        "policy": model("SandboxAdmissionPolicy") and validate_policy,
        "context": parse_action_envelope_context and validate_context,
    }.items()
    if function
}


def python_verdict(mode, line):
    """The normalised value, or None if it is refused. OverflowError: a time that is in year 0 in UTC."""
    try:
        return VALIDATE[mode](json.loads(line))
    except (ValueError, OverflowError):
        return None


def boxd_verdicts(mode, lines):
    """For each line the normalised value and None, or None and why it is refused."""
    run = subprocess.run([PROGRAM, mode], input="".join(line + "\n" for line in lines), capture_output=True, text=True,
                         timeout=120, check=True)
    # Not splitlines(): texts have other separators in them.
    answers = [json.loads(line) for line in run.stdout.split("\n") if line]
    assert len(answers) == len(lines), run.stdout[-500:]
    for answer in answers:
        if "expires_at" in answer.get("value", {}):
            answer["value"]["expires_at"] = datetime.datetime.fromisoformat(answer["value"]["expires_at"])
    return [(answer.get("value"), answer.get("error")) for answer in answers]


# --- what boxd refuses, of what the models take ---


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from texts(name)
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def size(text):
    return len(text.encode(errors="replace"))


def is_plain(text):
    return all(ord(c) >= 0x20 and not 0x7F <= ord(c) <= 0x9F for c in text)


def is_path(path):
    return path[:1] == "/" and ".." not in path.split("/") and size(path) < 4096 and is_plain(path)


def is_env(env):
    return len(env) <= 4096 and all(
        name and not any(c == "=" or ord(c) < 0x20 or ord(c) == 0x7F for c in name) for name in env)


MAXIMUM = {
    "timeout_sec": 2**32 - 1,
    "cpus": 1024,
    "memory_mb": 2**24,
    "pids_limit": 2**22,
    "workspace_quota_mb": 2**30,
    "execution_generation": 2**63 - 1,
    "entitlement_revision": 2**63 - 1,
    "placement_generation": 2**63 - 1,
    "runtime_revision": 2**63 - 1,
    "max_sessions": 2**32 - 1,
    "max_managed_processes": 2**32 - 1,
    "max_grant_ttl_sec": 2**32 - 1,
    "max_timeout_sec": 2**32 - 1,
    "readiness_cache_sec": 2**32 - 1,
}


def in_ranges(value):
    return all(math.isfinite(value[name]) and value[name] <= most for name, most in MAXIMUM.items() if name in value)


def is_ours(mode, value):
    """Whether boxd takes this value, which the models have taken and normalised, too."""
    if any("\0" in text for text in texts(value)) or not in_ranges(value):
        return False
    if mode == "spec":
        paths = [value["mount_path"]] + [path for mount in value["extra_mounts"]
                                         for path in (mount["host_path"], mount["mount_path"])]
        paths += [value["host_path"]] if value["host_path"] is not None else []
        return (size(value["session_id"]) <= 255 and is_plain(value["session_id"])
                and 1 <= size(value["image"]) <= 512 and is_plain(value["image"])
                and all(map(is_path, paths)) and len(value["extra_mounts"]) <= 30
                and size(value["workdir"]) < 4096 and size(value["cmd"]) < 131072 and is_env(value["env"]))
    if mode == "process":
        identifier = value["process_id"]
        return (1 <= size(identifier) <= 128 and all(ord(c) >= 0x20 and ord(c) != 0x7F for c in identifier)
                and size(value["command"]) < 4096 and size(value["cwd"]) < 4096 and len(value["args"]) <= 4096
                and is_env(value["env"]) and value.get("memory_mb", 0) >= 0)
    return all(size(value[name]) <= 256 for name in ("instance_uuid", "workspace_uuid") if name in value)
