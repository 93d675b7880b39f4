# SPDX-License-Identifier: Apache-2.0
"""Sessions: making, finding, listing, keeping, ending."""

import asyncio

from scripts import exec_of, run, script

IMAGE = "rockchin/langbot-sandbox:latest"


@script()
async def life(pair):
    await pair.call("box_get_session", {"session_id": "s"})
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_get_session", {"session_id": "s"})
    await run(pair, "echo a > file")
    await pair.call("box_get_session", {"session_id": "s"})
    await pair.call("box_delete_session", {"session_id": "s"})
    await pair.call("box_delete_session", {"session_id": "s"})
    await pair.call("box_get_session", {"session_id": "s"})
    await run(pair, "ls -1A")
    await pair.call("box_delete_session", {"session_id": "s"})
    await pair.call("box_delete_session", {"session_id": "never"})


@script()
async def infos(pair):
    """Every field of a spec is in the info of its session, as it was normalised."""
    specs = [
        {"session_id": "all", "cmd": "ignored", "workdir": "/workspace/x", "timeout_sec": 5, "network": "off", "env": {"A": "1"},
         "image": IMAGE, "host_path_mode": "ro", "mount_path": "/data", "persistent": True, "cpus": 0.5, "memory_mb": 64,
         "pids_limit": 32, "read_only_rootfs": False, "workspace_quota_mb": 16},
        {"session_id": "lax", "cpus": "2", "memory_mb": "128", "pids_limit": 64.0, "persistent": "true", "read_only_rootfs": 0},
        {"session_id": "  trimmed\t", "mount_path": " /workspace "},
        {"session_id": "host", "host_path": str(pair.share), "host_path_mode": "rw"},
        {"session_id": "none", "host_path": str(pair.share), "host_path_mode": "none", "workdir": "/tmp"},
        {"session_id": "below", "host_path": f" {pair.share}/made/by/it "},
        {"session_id": "cpus", "cpus": 1},
        {"session_id": "cpus3", "cpus": 0.1},
    ]
    for spec in specs:
        await pair.call("box_create_session", spec)
        await pair.call("box_get_session", {"session_id": spec["session_id"].strip()})
    await pair.call("box_get_sessions")
    await pair.call("box_status")


@script()
async def listing(pair):
    await pair.call("box_get_sessions")
    for name in ("b", "a", "c"):
        await pair.call("box_create_session", {"session_id": name})
    await pair.call("box_get_sessions")
    await pair.call("box_delete_session", {"session_id": "a"})
    await run(pair, "true", session="b")
    await pair.call("box_get_sessions")
    await pair.call("box_create_session", {"session_id": "a"})
    await pair.call("box_get_sessions")


@script(until="0.5")
async def order(pair):
    """In the order in which they were made; using one changes nothing."""
    for name in ("b", "a", "d", "c"):
        await pair.call("box_create_session", {"session_id": name})
    await run(pair, "true", session="b")
    await pair.call("box_delete_session", {"session_id": "a"})
    await pair.call("box_create_session", {"session_id": "a"})
    boxd, python = await pair.call("box_get_sessions")
    pair.judge("order", [[info["session_id"] for info in answer["data"]["sessions"]] for answer in (boxd, python)])


@script()
async def conflicts(pair):
    """A session is what it was made as; another wish for each field is refused by name and present value."""
    share = str(pair.share)
    made = {"session_id": "s", "host_path": share, "workspace_quota_mb": 0}
    await pair.call("box_create_session", made)
    for field, other, present in (
            ("network", "on", "off"), ("image", "other", IMAGE), ("host_path", f"{share}/x", share), ("host_path", None, share),
            ("host_path_mode", "ro", "rw"), ("host_path_mode", "none", "rw"), ("mount_path", "/data", "/workspace"),
            ("persistent", True, "alse"), ("cpus", 2, "1"), ("cpus", 1.5, "1"), ("memory_mb", 1024, "512"),
            ("pids_limit", 64, "128"), ("read_only_rootfs", False, "rue"), ("workspace_quota_mb", 8, "0")):
        for action, more in (("box_create_session", {}), ("box_exec", {"cmd": "echo never"})):
            await pair.call(action, {**made, field: other, **more}, names=(field, present))
    await pair.call("box_create_session", made)
    # What is of a command is no part of it.
    await run(pair, "echo $A", host_path=share, env={"A": "1"}, timeout_sec=7, workdir="/workspace/w")
    # The first that differs, in the order of the table.
    await pair.call("box_create_session", {**made, "memory_mb": 1024, "network": "on"}, names="network")
    await pair.call("box_create_session", {**made, "workspace_quota_mb": 5, "cpus": 3}, names="cpus")
    await pair.call("box_get_session", {"session_id": "s"})
    await pair.call("box_delete_session", {"session_id": "s"})
    await pair.call("box_create_session", {**made, "memory_mb": 1024})


@script(since="0.4.17")
async def other_mounts(pair):
    """Mounts cannot be added to what runs: a session with other ones is made anew, and loses its files."""
    one, two = pair.share / "one", pair.share / "two"
    for path in (one, two):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
        (path / "name").write_text(path.name)

    def mount(path, where="/mnt/m", mode="ro"):
        return {"host_path": str(path), "mount_path": where, "mode": mode}

    await run(pair, "echo first > file; ls -1", extra_mounts=[mount(one)])
    await run(pair, "cat file /mnt/m/name", extra_mounts=[mount(one)])
    await run(pair, "ls -1; cat /mnt/m/name; echo second > file", extra_mounts=[mount(two)])
    # The same set in another order, twice, or with one that is not mounted, is the same.
    both = [mount(one, "/mnt/a"), mount(two, "/mnt/b")]
    await run(pair, "ls -1; echo third > file", extra_mounts=both)
    await run(pair, "ls -1", extra_mounts=both[::-1])
    await run(pair, "ls -1", extra_mounts=[*both, mount(one, "/mnt/c", "none")])
    await run(pair, "ls -1", extra_mounts=[*both, mount(one, "/mnt/c")])
    await run(pair, "ls -1; echo fourth > file")
    await pair.call("box_create_session", {"session_id": "s", "extra_mounts": [mount(one, mode="rw")]})
    await run(pair, "ls -1; echo written > /mnt/m/by-one; echo $?", extra_mounts=[mount(one, mode="rw")])
    await run(pair, "cat /mnt/m/by-one; (echo more > /mnt/m/more) 2>/dev/null || echo refused", extra_mounts=[mount(one)])


@script()
async def host_directories(pair):
    """A directory of the host as the workspace, read-write and read-only."""
    data = pair.share / "data"
    data.mkdir(exist_ok=True)
    data.chmod(0o777)
    (data / "given").write_text("from outside\n")
    rw = {"host_path": str(data)}
    await run(pair, "cat given; ls -1A", session="rw", **rw)
    await run(pair, "mkdir -p /data/x; cd /data && cat given", session="elsewhere", mount_path="/data", **rw)
    await run(pair, "cat given; (echo x > new) 2>/dev/null || echo refused", session="ro", host_path_mode="ro", **rw)
    await run(pair, "ls -1A", session="none", host_path_mode="none", **rw)
    await run(pair, "ls -1A", session="none", host_path_mode="none", **rw)
    for path in ("/etc", "/etc/ssl", "/proc", "/sys", "/dev", "/root", "/boot", "/run", "/var/run", "/run/docker.sock",
                 "/var/run/docker.sock", "/etc/", "//etc", "/usr/../etc", "/root/x"):
        await pair.call("box_create_session", {"session_id": "blocked", "host_path": path})
    await pair.call("box_get_session", {"session_id": "blocked"})


@script()
async def ended_while_made(pair):
    """A deletion that comes while the session is being made waits for it."""
    for _ in range(3):
        await pair.together(("box_create_session", {"session_id": "s"}), ("box_delete_session", {"session_id": "s"}))
        await pair.call("box_get_session", {"session_id": "s"})


@script(since="0.4.17")
async def ended_while_used(pair):
    """A deletion that comes while a command runs."""
    place = pair.share / "used"
    place.mkdir()
    place.chmod(0o777)
    started = await pair.start("box_exec", exec_of("mktemp XXXXXX; sleep 1", host_path=str(place)))
    while len(list(place.iterdir())) < 2:  # the command's own time-out is the ceiling
        await asyncio.sleep(0.02)
    deleted = await pair.start("box_delete_session", {"session_id": "s"})
    await pair.finish(started, differs="delete-ends-command", at="outcome")
    await pair.finish(deleted)
    await pair.call("box_get_session", {"session_id": "s"})


@script()
async def shut_down(pair):
    """box_shutdown ends the sessions, and the process stays."""
    await pair.call("box_create_session", {"session_id": "a"})
    await run(pair, "true", session="b")
    await pair.call("box_start_managed_process", {"session_id": "a", "spec": {"command": "sleep", "args": ["100"]}})
    await pair.call("box_shutdown")
    await pair.call("box_get_sessions")
    await pair.call("box_get_session", {"session_id": "a"})
    await pair.call("box_status")
    await run(pair, "echo again", session="a")
    await pair.call("box_shutdown")
    await pair.call("box_shutdown")
    await pair.call("box_get_sessions")


@script(until="0.4.17")
async def shut_down_keeps_persistent(pair):
    await pair.call("box_create_session", {"session_id": "p", "persistent": True})
    await pair.call("box_shutdown")
    await pair.call("box_get_session", {"session_id": "p"}, differs="shutdown-ends-persistent", at="outcome")


@script(since="0.4.17")
async def shut_down_ends_persistent(pair):
    await pair.call("box_create_session", {"session_id": "p", "persistent": True})
    await pair.call("box_shutdown")
    await pair.call("box_get_session", {"session_id": "p"})


@script()
async def names(pair):
    """Session ids of every kind."""
    for name in ("a", "A", "a.b", "a_b-c", "0", "x" * 64, "a b", "a/b", "é", "漢", "a:b", "a..b", ".hidden", "-x", "%41", "x" * 100):
        await pair.call("box_create_session", {"session_id": name})
        await pair.call("box_get_session", {"session_id": name})
    await pair.call("box_get_sessions")
    await pair.call("box_create_session", {"session_id": "a\nb"}, differs="ids-have-a-form", at="outcome")
    await pair.call("box_create_session", {"session_id": "x" * 256}, differs="ids-have-a-form", at="outcome")


@script(until="0.5")
async def names_of_tenants(pair):
    """What would be the name of a tenant's session is nobody else's."""
    name = "ws-0123456789abcdef01234567-g1-s"
    await pair.call("box_create_session", {"session_id": name}, differs="names-of-tenants", at="outcome")
    await pair.call("box_get_session", {"session_id": name}, differs="names-of-tenants", at="outcome")


@script()
async def images(pair):
    """boxd's native backend has the host's programs, whatever LangBot's own image is called, and no other image."""
    await pair.call("box_create_session", {"session_id": "s", "image": "some/image:1"}, differs="images", at="outcome")


@script()
async def roots(pair):
    """What may be mounted is below roots that the operator has named; the Python runtime knows what may not."""
    await pair.call("box_create_session", {"session_id": "s", "host_path": "/opt"}, differs="mounts-have-roots", at="outcome")
    mount = {"host_path": "/etc/ssl", "mount_path": "/ssl", "mode": "ro"}
    await pair.call("box_create_session", {"session_id": "t", "extra_mounts": [mount]}, differs="mounts-have-roots", at="outcome")


@script(until="0.4.17")
async def other_mounts_of_old(pair):
    """0.4.2's runtime leaves a session that has not the mounts that are asked for."""
    (pair.share / "name").write_text("here")
    await run(pair, "true")
    mount = {"host_path": str(pair.share), "mount_path": "/mnt/m", "mode": "ro"}
    await run(pair, "cat /mnt/m/name 2>/dev/null", extra_mounts=[mount], differs="mounts-recreate",
              at=["data.exit_code", "data.stdout"])


@script()
async def being_made(pair):
    """A session can be seen while it is being made."""
    await pair.together(("box_create_session", {"session_id": "s"}),
                        ("box_get_session", {"session_id": "s"}, {"differs": "starting-is-shown", "at": "outcome"}))
