# SPDX-License-Identifier: Apache-2.0
"""0.5: who asks. Contexts, workspaces, and the fence of generations."""

import sides
from scripts import exec_of, run, script
from script_processes import SLEEP, ask, start

TENANT_CALLS = (
    ("box_exec", exec_of("true")), ("box_create_session", {"session_id": "s"}), ("box_get_session", {"session_id": "s"}),
    ("box_get_sessions", {}), ("box_delete_session", {"session_id": "s"}), ("box_status", {}),
    ("box_start_managed_process", start("s", **SLEEP)), ("box_get_managed_process", ask("s")),
    ("box_stop_managed_process", ask("s")),
)


def is_there(answer):
    """Not only about to be."""
    return any(info["backend_session_id"] for info in answer["data"]["sessions"])


@script(since="0.5")
async def context_is_missing(pair):
    for action, data in TENANT_CALLS:
        await pair.call(action, data, context=None)
    for action in ("__ping", "box_health", "box_get_backend_info"):
        await pair.call(action, {}, context=pair.context())


@script(since="0.5")
async def other_instances(pair):
    other = pair.context(instance_uuid="instance-2")
    for action, data in TENANT_CALLS:
        await pair.call(action, data, context=other)
    for action in ("__ping", "box_health", "box_init", "box_shutdown", "box_get_backend_info"):
        await pair.call(action, {}, context=other)


@script(since="0.5")
async def contexts(pair):
    """Each way in which one is wrong."""
    own = pair.context()
    wrong = [{key: value for key, value in own.items() if key != missing} for missing in ("instance_uuid", "workspace_uuid")]
    wrong += [{**own, "instance_uuid": value} for value in ("", " ", None, 5, [])]
    wrong += [{**own, "workspace_uuid": value} for value in ("", " ", None, 5, [], {})]
    wrong += [{**own, "placement_generation": value} for value in (0, -1, "x", "", None, 1.5, [])]
    wrong += [{**own, "installation_uuid": value} for value in ("", "  ", 5)]
    wrong += [{**own, "tenant": "x"}, {**own, "generation": 1}, [], "x", 5, True, {}]
    for context in wrong:
        await pair.call("box_get_sessions", {}, context=context)
    right = [{**own, "placement_generation": value} for value in (1, "1", 1.0, True)]
    right += [{**own, "installation_uuid": value} for value in ("x", " x ", None)]
    right += [{**own, "workspace_uuid": f"  {own['workspace_uuid']}\t", "instance_uuid": f" {own['instance_uuid']} "}]
    right += [{key: value for key, value in own.items() if key != "placement_generation"}]
    await run(pair, "true")
    for context in right:
        await pair.call("box_get_sessions", {}, context=context)


@script(since="0.5")
async def bindings(pair):
    """The context of a plugin's installation, which has two keys more."""
    binding = pair.context(installation_uuid="i", runtime_revision=1, artifact_digest="0" * 64)
    await run(pair, "true")
    await pair.call("box_get_sessions", {}, context=binding)
    for change in ({"runtime_revision": 0}, {"artifact_digest": "x"}, {"runtime_revision": True}, {"installation_uuid": None},
                   {"artifact_digest": None}, {"runtime_revision": None}, {"more": 1}):
        context = {key: value for key, value in {**binding, **change}.items() if value is not None}
        await pair.call("box_get_sessions", {}, context=context)


@script(since="0.5")
async def workspaces(pair):
    """What is one's does not exist for another."""
    mine, other = pair.context(), pair.context(workspace_uuid="another workspace")
    await run(pair, "echo mine > file")
    await pair.call("box_start_managed_process", start("s", **SLEEP))
    for action, data in (("box_get_session", {"session_id": "s"}), ("box_get_sessions", {}), ("box_status", {}),
                         ("box_get_managed_process", ask("s")), ("box_stop_managed_process", ask("s")),
                         ("box_start_managed_process", start("s", **SLEEP)), ("box_delete_session", {"session_id": "s"})):
        await pair.call(action, data, context=other)
    await pair.call("box_exec", exec_of("ls -1A"), context=other)
    await pair.call("box_create_session", {"session_id": "s", "memory_mb": 64}, context=other, names="memory_mb")
    await pair.call("box_delete_session", {"session_id": "s"}, context=other)
    await pair.call("box_exec", exec_of("cat file"), context=mine)
    await pair.call("box_get_managed_process", ask("s"), context=mine)


@script(since="0.5")
async def logical_ids(pair):
    """How a name is shown again after it was made part of another."""
    for name in ("a b", "a  b", " a ", "a/b", "é", "aéb", "--a--", "-", "a--b", "...", "ws-x-g1-y", "a\u00a0b", "!a!", "漢字"):
        await pair.call("box_create_session", {"session_id": name})
        await pair.call("box_get_session", {"session_id": name})
        await pair.call("box_delete_session", {"session_id": name})
    await pair.call("box_create_session", {"session_id": "one two"})
    await pair.call("box_create_session", {"session_id": "one-two"})
    await pair.call("box_create_session", {"session_id": "one/two", "memory_mb": 64})
    await pair.call("box_get_sessions")
    await pair.call("box_create_session", {"session_id": "a\tb"}, differs="ids-have-a-form", at="outcome")
    await pair.call("box_delete_session", {"session_id": "a\tb"}, differs="ids-have-a-form", at="outcome")
    for action in ("box_get_session", "box_delete_session", "box_get_managed_process"):
        for value in ("", " "):
            await pair.call(action, {"session_id": value})
        for value in (None, 5, True, [], {}, 0):
            await pair.call(action, {"session_id": value}, differs="wrong-types", at="message")


@script(since="0.5")
async def generations(pair):
    """A higher one ends what the lower had; a lower one is refused."""
    await run(pair, "echo first > file", session="a")
    await pair.call("box_start_managed_process", start("a", **SLEEP))
    await pair.call("box_create_session", {"session_id": "b"})
    pair.generation = 3
    await pair.call("box_get_sessions")
    await pair.call("box_get_session", {"session_id": "a"})
    await run(pair, "ls -1A", session="a")
    await pair.call("box_status")
    pair.generation = 2
    for action, data in TENANT_CALLS:
        await pair.call(action, data)
    pair.generation = 3
    await pair.call("box_get_sessions")
    pair.generation = 2**40
    await pair.call("box_get_sessions")
    # Of another workspace, nothing has changed.
    await pair.call("box_get_sessions", {}, context=pair.context(workspace_uuid="untouched", placement_generation=1))


@script(since="0.5")
async def overtaken(pair):
    """A command that runs while a newer generation comes. The Python runtime never answers it."""
    old = await pair.start("box_exec", exec_of("sleep 5"))
    await pair.until("box_get_sessions", {}, is_there)
    pair.generation = 2
    await pair.call("box_get_sessions")
    await pair.finish(old, patience=(sides.PATIENCE, 1), differs="overtaken-is-answered", at="outcome")
    await run(pair, "echo new")


@script(since="0.5")
async def names_of_tenants(pair):
    """A tenant may call a session by what looks like the name of another's; it is its own all the same."""
    await pair.call("box_create_session", {"session_id": "ws-0123456789abcdef01234567-g1-s"})
    await pair.call("box_get_sessions")
    await pair.call("box_get_session", {"session_id": "ws-0123456789abcdef01234567-g1-s"})
