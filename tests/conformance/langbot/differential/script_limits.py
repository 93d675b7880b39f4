# SPDX-License-Identifier: Apache-2.0
"""Limits and configuration: box_init, box_status, capacity."""

import listed
from scripts import exec_of, run, script
from script_processes import SLEEP, SOON, ask, has_exited, sh, start


@script()
async def empty(pair):
    await pair.call("box_health")
    await pair.call("box_get_backend_info")
    await pair.call("box_status")
    await pair.call("box_init", {})
    await pair.call("box_status")


@script(since="0.5", config={})
async def good(pair):
    """Each limit by itself, and what is not said stays."""
    for limits in ({"max_sessions": 7}, {"max_managed_processes": 9}, {"max_completed_processes": 11}, {"max_admission_records": 13},
                   {"max_rpc_file_bytes": 15}, {"completed_process_retention_sec": 17}, {}, {"max_sessions": 0},
                   {"max_sessions": 5000, "max_managed_processes": 1024, "max_completed_processes": 10_000,
                    "max_admission_records": 250_000, "max_rpc_file_bytes": 104_857_600, "completed_process_retention_sec": 86_400},
                   {"max_managed_processes": 0, "max_completed_processes": 0, "completed_process_retention_sec": 0},
                   {"unknown": 5}):
        await pair.call("box_init", {"limits": limits})
        await pair.call("box_status")
    await pair.call("box_init", {"limits": None})
    await pair.call("box_status")


@script(since="0.5", config={"limits": {"max_sessions": 5}})
async def malformed(pair):
    """Refused as a whole: what was there stays."""
    for limits in ("x", 5, [1], True, {"max_sessions": -1}, {"max_sessions": 5001}, {"max_sessions": "6"}, {"max_sessions": 6.0},
                   {"max_sessions": True}, {"max_sessions": None}, {"max_managed_processes": 1025}, {"max_managed_processes": -1},
                   {"max_completed_processes": 10_001}, {"max_admission_records": 0}, {"max_admission_records": 250_001},
                   {"max_rpc_file_bytes": 0}, {"max_rpc_file_bytes": 104_857_601}, {"completed_process_retention_sec": 86_401},
                   {"completed_process_retention_sec": -1}, {"max_sessions": 6, "max_managed_processes": "x"},
                   {"max_sessions": 2**70}):
        await pair.call("box_init", {"limits": limits})
        await pair.call("box_status")
    # What is empty is nothing, as Python sees it.
    for limits in ([], "", 0, False):
        await pair.call("box_init", {"limits": limits}, differs="init-is-an-object", at="outcome")
    await pair.call("box_get_sessions")


@script(since="0.4.17", config={"limits": {"max_sessions": 2, "max_managed_processes": 2}})
async def capacity(pair):
    await run(pair, "true", session="a")
    await pair.call("box_create_session", {"session_id": "b"})
    await pair.call("box_create_session", {"session_id": "c"})
    await run(pair, "true", session="c")
    await run(pair, "echo still", session="a")
    await pair.call("box_delete_session", {"session_id": "b"})
    await pair.call("box_create_session", {"session_id": "c"})
    await pair.call("box_create_session", {"session_id": "b"})
    # A conflict is found before the capacity is.
    await pair.call("box_create_session", {"session_id": "a", "memory_mb": 1024})

    await pair.call("box_start_managed_process", start("a", **SLEEP))
    await pair.call("box_start_managed_process", start("c", **SLEEP))
    await pair.call("box_start_managed_process", start("c", process_id="more", **SLEEP))
    # One that replaces another takes no place of its own.
    await pair.call("box_start_managed_process", start("c", **SLEEP))
    await pair.call("box_stop_managed_process", ask("a"))
    await pair.call("box_start_managed_process", start("c", process_id="more", **SLEEP))
    await pair.call("box_start_managed_process", start("a", **SLEEP))
    # Nor does one that is over.
    await pair.call("box_stop_managed_process", ask("c", "more"))
    await pair.call("box_start_managed_process", sh("a", "exit 0", process_id="short"), ignore=SOON)
    await pair.until("box_get_managed_process", ask("a", "short"), has_exited)
    await pair.call("box_start_managed_process", start("a", **SLEEP))

    await pair.call("box_init", {"limits": {"max_sessions": 3}})
    await pair.call("box_create_session", {"session_id": "b"})
    await pair.call("box_create_session", {"session_id": "d"})
    # Fewer than there are: nobody is thrown out.
    await pair.call("box_init", {"limits": {"max_sessions": 1}})
    await pair.call("box_get_sessions")
    await run(pair, "true", session="a")
    await pair.call("box_delete_session", {"session_id": "b"})
    await pair.call("box_create_session", {"session_id": "b"})
    await pair.call("box_init", {"limits": {"max_sessions": 0}})
    await pair.call("box_create_session", {"session_id": "b"})


@script(since="0.4.17", config={"limits": {"max_completed_processes": 2}})
async def completed(pair):
    """Of processes that are over, the latest so many are remembered."""
    await pair.call("box_create_session", {"session_id": "s"})
    for name in ("a", "b", "c"):
        await pair.call("box_start_managed_process", sh("s", "exit 0", process_id=name), ignore=SOON)
        await pair.until("box_get_managed_process", ask("s", name), has_exited)
    for name in ("a", "b", "c"):
        await pair.call("box_get_managed_process", ask("s", name))
    await pair.call("box_get_session", {"session_id": "s"})


@script(since="0.4.17", config={"limits": {"completed_process_retention_sec": 0}})
async def not_remembered(pair):
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", sh("s", "exit 0"), ignore=SOON)
    await pair.until("box_get_managed_process", ask("s"), has_exited)


@script(config={})
async def backends(pair):
    """A backend that is not there is unavailable, until another is chosen."""
    await pair.call("box_init", {"backend": "no-such-backend"})
    await pair.call("box_health")
    await pair.call("box_get_backend_info")
    await pair.call("box_status")
    await run(pair, "true")
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_get_sessions")
    await pair.call("box_init", {"backend": "local"})
    await pair.call("box_health")
    await run(pair, "echo works")
    # While there are sessions, they keep it.
    await pair.call("box_init", {"backend": "no-such-backend"})
    await pair.call("box_health")
    await run(pair, "echo works")
    await pair.call("box_delete_session", {"session_id": "s"})
    await pair.call("box_init", {"backend": ""})
    await pair.call("box_health")
    await pair.call("box_init", {"backend": None})
    await pair.call("box_health")


@script()
async def counts(pair):
    """box_status counts."""
    await pair.call("box_status")
    await run(pair, "true", session="a")
    await pair.call("box_create_session", {"session_id": "b"})
    await pair.call("box_status")
    await pair.call("box_start_managed_process", start("a", **SLEEP))
    await pair.call("box_start_managed_process", start("a", process_id="x", **SLEEP))
    await status_with_processes(pair)
    await pair.call("box_stop_managed_process", ask("a"))
    await status_with_processes(pair)
    await pair.call("box_delete_session", {"session_id": "a"})
    await pair.call("box_status")


async def status_with_processes(pair):
    """0.5's runtime counts by a key that nobody sets, and comes to none."""
    await pair.call("box_status", **({"differs": "status-counts-processes", "at": "data.managed_processes"} if listed.TENANTS else {}))


@script(since="0.4.17", until="0.5", config={})
async def limits_of_old(pair):
    """0.4's runtime makes a number of what it can, and keeps what it could not use."""
    for value in ("6", -1, 6.5, True):
        await pair.call("box_init", {"limits": {"max_sessions": value}}, differs="limits-are-checked", at="outcome")
    await pair.call("box_init", {"limits": {"max_sessions": "x"}})
    await pair.call("box_init", {}, differs="limits-are-checked", at="outcome")
    await pair.call("box_init", {"limits": {"max_sessions": 5}})
    await pair.call("box_status")


@script(until="0.4.17", config={"limits": {"max_sessions": 1}})
async def no_limits_of_old(pair):
    """0.4.2's runtime has none."""
    await pair.call("box_create_session", {"session_id": "a"})
    await pair.call("box_create_session", {"session_id": "b"}, differs="limits-are-checked", at="outcome")


@script(since="0.4.17", config={})
async def local_paths(pair):
    """`local` is merged as one. The Python runtime makes the default workspace at once; what listens to the network in boxd
    does not touch directories of the host."""
    share = str(pair.share)
    await pair.call("box_init", {"local": {"host_root": f"{share}/root", "allowed_mount_roots": [share]}})
    # A workspace has its own directory below that one, which LangBot names; the one that holds them all is nobody's.
    whole = {"differs": "workspaces-are-apart", "at": "outcome"} if listed.TENANTS else {}
    await pair.call("box_exec", exec_of("echo ok", host_path=f"{share}/root/default"), **whole)
    await pair.call("box_init", {"local": {"host_root": share, "default_workspace": "own", "allowed_mount_roots": share}})
    (pair.share / "file").touch()
    for local in ({"host_root": share, "default_workspace": "file"}, {"host_root": share, "default_workspace": "/opt/none/such"},
                  {"default_workspace": f"{share}/x"}):
        await pair.call("box_init", {"local": local}, differs="workspace-is-made-later", at="outcome")
