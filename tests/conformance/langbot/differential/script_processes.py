# SPDX-License-Identifier: Apache-2.0
"""Managed processes: starting, looking at, stopping; not what goes through them (script_relay)."""

from scripts import run, script

SLEEP = {"command": "sleep", "args": ["1000"]}
# What the answer to a start may or may not know already, of a process that does not last.
SOON = ["data.status", "data.exited_at", "data.exit_code", "data.stderr_preview"]


def start(session, **spec):
    return {"session_id": session, "spec": {**spec}}


def sh(session, text, **spec):
    return start(session, command="sh", args=["-c", text], **spec)


def ask(session, process="default"):
    return {"session_id": session, "process_id": process}


def has_exited(answer):
    """And all of it is known: the Python runtime notes the status first."""
    return answer["code"] != 0 or answer["data"]["exited_at"] is not None


@script()
async def life(pair):
    await pair.call("box_start_managed_process", start("s", **SLEEP))
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_get_managed_process", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", **SLEEP))
    await pair.call("box_get_managed_process", {"session_id": "s"})
    await pair.call("box_get_managed_process", ask("s"))
    await pair.call("box_get_managed_process", ask("s", "other"))
    await pair.call("box_get_session", {"session_id": "s"})
    await pair.call("box_stop_managed_process", {"session_id": "s"})
    await pair.call("box_stop_managed_process", {"session_id": "s"})
    await pair.call("box_get_managed_process", {"session_id": "s"})
    await pair.call("box_get_session", {"session_id": "s"})
    await pair.call("box_get_managed_process", ask("nobody"))
    await pair.call("box_stop_managed_process", ask("nobody"))


@script()
async def several(pair):
    """By id; `managed_process` is the default one, and only with it."""
    await pair.call("box_create_session", {"session_id": "s"})
    for name in ("b", "a", "mcp-server.1", "with space", "é"):
        await pair.call("box_start_managed_process", start("s", process_id=name, **SLEEP))
        await pair.call("box_get_managed_process", ask("s", name))
    await pair.call("box_get_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", **SLEEP))
    await pair.call("box_get_session", {"session_id": "s"})
    await pair.call("box_get_sessions")
    await pair.call("box_stop_managed_process", ask("s", "a"))
    await pair.call("box_get_session", {"session_id": "s"})
    await pair.call("box_delete_session", {"session_id": "s"})
    await pair.call("box_get_managed_process", ask("s", "b"))


@script()
async def infos(pair):
    """What was asked for is shown; of the environment, the names alone and sorted."""
    await pair.call("box_create_session", {"session_id": "s"})
    for spec in (
            {"command": "sleep", "args": ["1000"], "env": {"b": "1", "A": "2", "a": "3", "B": "4", "_": "5", "Z9": "6"}, "cwd": "/tmp"},
            {"command": "  sleep ", "args": ["1000"], "cwd": " /workspace/made "},
            {"command": "sh", "args": ["-c", "sleep 1000", "an arg", "", "'\"$x`\\", "é漢", "two\nlines"]},
            {"command": "/bin/sleep", "args": ["1000"], "memory_mb": 64, "env": {}},
            {"command": "sleep", "args": ["1000"], "unknown": 1}):
        await pair.call("box_start_managed_process", start("s", **spec))
        await pair.call("box_get_managed_process", ask("s"))


@script()
async def ends(pair):
    """By itself: exit codes, and that it stays to be looked at."""
    await pair.call("box_create_session", {"session_id": "s"})
    for number, text in enumerate(("exit 0", "exit 3", "exit 255", "kill -9 $$", "kill -15 $$", "kill -11 $$", "exec no-such-program")):
        name = f"p{number}"
        await pair.call("box_start_managed_process", sh("s", text, process_id=name), ignore=SOON)
        await pair.until("box_get_managed_process", ask("s", name), has_exited, ignore=["data.stderr_preview"])
    await pair.call("box_status")
    await pair.call("box_start_managed_process", sh("s", "exit 4", process_id="p0"), ignore=SOON)
    await pair.until("box_get_managed_process", ask("s", "p0"), has_exited)
    await pair.call("box_stop_managed_process", ask("s", "p0"))
    await pair.call("box_get_managed_process", ask("s", "p0"))


@script()
async def input_stays_open(pair):
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", command="cat"))
    await run(pair, "sleep 0.3")
    await pair.call("box_get_managed_process", ask("s"))
    await pair.call("box_stop_managed_process", ask("s"))


@script()
async def programs_that_are_not_there(pair):
    """boxd says so; with the Python runtime they start, and end with 127."""
    await pair.call("box_create_session", {"session_id": "s"})
    for command in ("no-such-program", "/no/such/program", "./x"):
        await pair.call("box_start_managed_process", start("s", command=command), differs="no-such-program", at="outcome")
        await pair.until("box_get_managed_process", ask("s"), has_exited, differs="no-such-program", at="outcome")


@script()
async def replaced(pair):
    """Starting under an id that runs replaces what runs."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", sh("s", "echo one > which; exec sleep 1000", process_id="p"))
    await pair.call("box_start_managed_process", sh("s", "echo two > which; exec sleep 1000", process_id="p"))
    await pair.call("box_get_managed_process", ask("s", "p"))
    await run(pair, "until [ \"$(cat which 2>/dev/null)\" = two ]; do sleep 0.05; done; cat which", timeout_sec=10)
    await pair.call("box_status", ignore=["data.managed_processes"])
    await pair.call("box_get_session", {"session_id": "s"})


@script()
async def stubborn(pair):
    """One that ignores SIGTERM is ended all the same, and its session with it."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", sh("s", "trap '' TERM; while :; do sleep 1; done", process_id="p"))
    await pair.call("box_stop_managed_process", ask("s", "p"))
    await pair.call("box_get_managed_process", ask("s", "p"))
    await pair.call("box_start_managed_process", sh("s", "trap '' TERM; while :; do sleep 1; done", process_id="q"))
    await pair.call("box_delete_session", {"session_id": "s"})


@script()
async def previews(pair):
    """The end of standard error, of a process that writes a line at a time."""
    await pair.call("box_create_session", {"session_id": "s"})
    lines = {"one": "echo hello >&2", "two": "echo a >&2; sleep 0.2; echo b >&2", "trailing": "printf 'x  \\t\\n' >&2",
             "nothing": "echo out",
             "unicode": "printf 'é漢🎉' >&2"}
    for name, text in lines.items():
        await pair.call("box_start_managed_process", sh("s", f"{text}; sleep 0.3", process_id=name), ignore=SOON)
    for name in lines:
        await pair.until("box_get_managed_process", ask("s", name), has_exited)


@script()
async def long_previews(pair):
    """The last 4,000 characters. The Python runtime drops whole pieces from the front until the rest is short enough, so
    that a long one leaves nothing at all; and it trims each piece at its end, boxd the whole at both."""
    await pair.call("box_create_session", {"session_id": "s"})
    for text in ("head -c 5000 /dev/zero | tr '\\0' x >&2", "printf '  x' >&2"):
        await pair.call("box_start_managed_process", sh("s", f"{text}; sleep 0.3"), ignore=SOON)
        await pair.until("box_get_managed_process", ask("s"), has_exited, differs="preview-is-a-tail", at="data.stderr_preview")


@script()
async def specs(pair):
    """What is refused, by field."""
    await pair.call("box_create_session", {"session_id": "s"})
    for field, values in {
            "process_id": (None, 5, True, [], {}),
            "command": ("", " ", "\t", None, 5, [], {}),
            "args": (None, "x", {}, [1], [None], [True], [["x"]], 5),
            "env": (None, [], "A=1", {"A": 1}, {"A": None}, {"A": []}),
            "cwd": (None, "", " ", "relative", "./x", 5, [])}.items():
        for value in values:
            await pair.call("box_start_managed_process", start("s", **{**SLEEP, field: value}), names=field)
    await pair.call("box_start_managed_process", start("s", args=["x"]), names="command")
    for value in (None, [], "x", 5):
        await pair.call("box_start_managed_process", {"session_id": "s", "spec": value})
    await pair.call("box_get_session", {"session_id": "s"})
    # The session is looked for after the spec was read.
    await pair.call("box_start_managed_process", start("nobody", command=""))


@script(since="0.4.17")
async def memory(pair):
    await pair.call("box_create_session", {"session_id": "s"})
    for value in (None, "x", "", 1.5, []):
        await pair.call("box_start_managed_process", start("s", **SLEEP, memory_mb=value), names="memory_mb")
    for value in (0, "64", 64.0, 32):
        await pair.call("box_start_managed_process", start("s", **SLEEP, memory_mb=value))


@script()
async def ids(pair):
    """process_id of other kinds where one is looked up."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", process_id="", **SLEEP), differs="ids-have-a-form", at="outcome")
    for action in ("box_get_managed_process", "box_stop_managed_process"):
        for value in ("x", " default", "Default"):
            await pair.call(action, ask("s", value))
