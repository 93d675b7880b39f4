# SPDX-License-Identifier: Apache-2.0
"""Puts names of things that exist where names would be made up, so that calls get past the first 404."""

import itertools
import json
import os
import random
import urllib.error
import urllib.request

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode

BASE = os.environ["BOXD_URL"]
SESSION = "schemathesis"
FILE = "workspace/file.txt"
SKILL = "schemathesis-skill"
KNOWN = {"id": SESSION, "pid": "default", "number": 1, "path": FILE, "name": SKILL}
RENEW_EVERY = 25  # calls: some end the process, the session or the file
numbers = itertools.count()
chance = random.Random(1)


def call(method, path, body=None, kind="application/json"):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, method=method, data=data, headers={"Content-Type": kind} if data else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.close()


def renew():
    session = f"/v1/sessions/{SESSION}"
    call("POST", "/v1/sessions", {"session_id": SESSION})
    call("POST", f"{session}/exec", {"cmd": "seq 100"})
    call("POST", f"{session}/processes", {"command": "sh", "args": ["-c", "seq 100; exec cat"]})
    call("PUT", f"{session}/files/{FILE}", b"some text\n", "application/octet-stream")
    call("POST", "/v1/skills", {"name": SKILL, "description": "for the tests"})
    call("PUT", f"/v1/skills/{SKILL}/files/{FILE}", b"some text\n", "application/octet-stream")


def is_valid(case, location):
    part = case.meta.components.get(location) if case.meta else None
    return part is None or part.mode == GenerationMode.POSITIVE


@schemathesis.hook
def before_call(context, case, kwargs):
    number = next(numbers)
    if number % RENEW_EVERY == 0:
        renew()
    path = case.path_parameters
    if path and is_valid(case, ParameterLocation.PATH) and chance.random() < 0.8:
        for name in path:
            path[name] = KNOWN.get(name, path[name])
        if case.method == "DELETE" and case.path.endswith("{id}"):
            path["id"] = f"to-delete-{number}"
            call("POST", "/v1/sessions", {"session_id": path["id"]})
    # Until the process ends, which it does not. Also where the query is meant to be wrong: what is wrong in it may be
    # an empty list, of which nothing is sent.
    if case.query and case.query.get("follow") in (True, "true"):
        case.query["follow"] = "false"
