# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with LangBot's clients. Loaded by `pytest -p harness`, for `conftest` is the integration
tests', whose daemon.py starts boxd: see run.sh beside this.

  server        one for all tests: those that change nothing for others
  make_server   a function that starts one for the test alone
  connect       a function that gives a connection, by WebSocket to `server` and over stdio: both are tried

Settings, from the environment: LANGBOT_SERVER, `boxd` (or `python`, LangBot's runtime); LANGBOT_TOOLS, the directory
with the virtual environments and Node's packages.
"""

import functools
import os
import tempfile
from pathlib import Path

import pytest

import servers
from conftest import base, programs  # noqa: F401  (fixtures)
from peer import TENANTS, VERSION, stdio_peer, websocket_peer

SERVER = os.environ.get("LANGBOT_SERVER", "boxd")
TOOLS = Path(os.environ["LANGBOT_TOOLS"]) if "LANGBOT_TOOLS" in os.environ else None

boxd_only = functools.partial(pytest.mark.skipif, SERVER != "boxd")
tenants_only = pytest.mark.skipif(not TENANTS, reason="workspaces came with 0.5")


def python_before(version, what):
    """Skips against a Python runtime that is too old for something that boxd does for every client."""
    reason = f"the Python runtime of {'.'.join(map(str, VERSION))} {what}"
    return pytest.mark.skipif(SERVER == "python" and VERSION < version, reason=reason)


def pytest_report_header():
    return f"langbot-plugin {'.'.join(map(str, VERSION))} against {SERVER}"


def new_server(programs, base, **options):  # noqa: F811
    place = Path(tempfile.mkdtemp(prefix="l-", dir=base))
    place.chmod(0o755)
    if TOOLS:
        options.setdefault("mounts", [TOOLS])
    if SERVER == "python":
        return servers.PythonServer(place, **options)
    return servers.BoxdServer(place, programs, base, **options)


@pytest.fixture(scope="session")
def programs_if_needed(request):
    return request.getfixturevalue("programs") if SERVER == "boxd" else None


@pytest.fixture(scope="session")
def server(programs_if_needed, base):  # noqa: F811
    made = new_server(programs_if_needed, base)
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def make_server(programs_if_needed, base):  # noqa: F811
    made = []

    def make(start=True, **options):
        made.append(new_server(programs_if_needed, base, **options))
        return made[-1].start() if start else made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=["websocket", "stdio"])
def connect(request):
    """connect(context=…): a Peer, in `async with`."""
    if request.param == "websocket":
        return functools.partial(websocket_peer, request.getfixturevalue("server"))
    return functools.partial(stdio_peer, request.getfixturevalue("make_server")(start=False))
