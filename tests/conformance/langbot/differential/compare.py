# SPDX-License-Identifier: Apache-2.0
"""What of two answers must be equal. Times, ids, durations and the name of the backend are the server's own: they are
checked for their form and compared as such. Of an error, the class is compared and not the sentence."""

import re

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
SKILL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00")
STORE = re.compile(r"^/.*?/skills(?=/|$)")
ERROR_CLASS = re.compile(r"([A-Za-z]+): ")


def _time(value):
    if isinstance(value, str) and SKILL_TIME.fullmatch(value):
        return "<time of a file>"
    return "<time>" if isinstance(value, str) and TIME.fullmatch(value) else value


def _package(value):
    """Each side has a store of its own."""
    return STORE.sub("<store>", value) if isinstance(value, str) else value


def _text(value):
    return "<text>" if isinstance(value, str) and value else value


def _milliseconds(value):
    """An integer: the client refuses a fraction."""
    return "<ms>" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else value


# By the last key of where they are.
FORMS = {
    "created_at": _time,
    "updated_at": _time,
    "package_root": _package,
    "last_used_at": _time,
    "started_at": _time,
    "exited_at": _time,
    "backend_name": _text,
    "backend_session_id": _text,
    "duration_ms": _milliseconds,
}
# The name of a backend, in what tells about it.
BACKEND_ACTIONS = ("box_health", "box_get_backend_info")


def error_class(message):
    found = ERROR_CLASS.match(message)
    return found.group(1) if found else None


def _normalise(value, path):
    if isinstance(value, dict):
        return {key: _normalise(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_normalise(item, path) for item in value]
    return FORMS[path[-1]](value) if path and path[-1] in FORMS else value


def normalise(action, answer):
    """An answer, or None where none came."""
    if answer is None:
        return {"answered": False}
    if answer.get("code") != 0:
        return {**answer, "message": error_class(answer.get("message") or "")}
    data = _normalise(answer["data"], ())
    if action in BACKEND_ACTIONS and "name" in data:
        data["name"] = _text(data["name"])
    elif action == "box_status":
        data["backend"]["name"] = _text(data["backend"].get("name"))
    elif action == "box_list_skills":
        # Newest first, by times that are each side's own: script_skills.py compares the order where they are the same.
        data["skills"].sort(key=lambda skill: skill["package_root"])
    elif action == "box_get_sessions" and isinstance(data.get("sessions"), list):
        # 0.5's runtime keeps them in a set; the order of 0.4's is compared by the script about it.
        data["sessions"].sort(key=lambda info: info.get("session_id", ""))
    return {**answer, "data": data}


def outcomes(left, right):
    """Where one was done and the other refused, that is the difference, and all of it."""
    both = left, right
    if all(isinstance(one, dict) and ("code" in one or "answered" in one) for one in both) and (
            left.get("code") != right.get("code")):
        return tuple({"outcome": one.get("message", "no answer")} for one in both)
    return both


MISSING = "<missing>"


def differing(left, right, path=""):
    """Where two normalised answers differ: {path: (left's, right's)}."""
    if isinstance(left, dict) and isinstance(right, dict):
        found = {}
        for key in sorted({*left, *right}):
            found |= differing(left.get(key, MISSING), right.get(key, MISSING), f"{path}.{key}" if path else key)
        return found
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        found = {}
        for index, (one, other) in enumerate(zip(left, right)):
            found |= differing(one, other, f"{path}[{index}]")
        return found
    if is_number(left) and is_number(right):
        return {} if left == right else {path: (left, right)}
    same = type(left) is type(right) and left == right
    return {} if same else {path: (left, right)}


def is_number(value):
    """JSON has but one kind: 1 and 1.0 are the same."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_more(path, both, keys):
    """Whether it is a key that boxd alone has, of those that are known."""
    return both[1] == MISSING and re.sub(r"\[\d+\]", "", path).rsplit(".", 1)[-1] in keys
