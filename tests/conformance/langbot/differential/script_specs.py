# SPDX-License-Identifier: Apache-2.0
"""Specs that are wrong, or nearly: field by field. (That 2,000 random ones are judged alike is a test of its own.)"""

from scripts import script

# A value that is refused, for each field.
BAD = {
    "cmd": (None, 5, True, [], {}, 1.5),
    "workdir": ("relative", "x/y", " . ", "é", 5, [], {}),
    "timeout_sec": (0, -1, None, "", "x", "1.5", 1.5, [], {}, "0"),
    "network": (None, "", "ON", "Off", " off", "bridge", 1, True, []),
    "session_id": ("", " ", "\t\n", None, 5, 1.5, True, [], {}),
    "env": (None, [], "A=1", {"A": 1}, {"A": None}, {"A": True}, {"A": []}, {"A": 1.5}),
    "image": (None, 5, [], True),
    "host_path": ("relative", "", " ", 5, [], "./x"),
    "host_path_mode": (None, "", "RW", "read", "wr", 1),
    "mount_path": (None, "relative", "", 5, "./x", " "),
    "extra_mounts": (None, {}, "x", [None], ["x"], [{}], [{"host_path": "/x"}], [{"mount_path": "/x"}],
                     [{"host_path": "x", "mount_path": "/x"}], [{"host_path": "/x", "mount_path": "x"}],
                     [{"host_path": "/x", "mount_path": "/x", "mode": "x"}], [{"host_path": None, "mount_path": "/x"}],
                     [{"host_path": "/x", "mount_path": "/x", "mode": None}]),
    "persistent": (None, "x", "", 2, -1, 1.5, [], "TRUEE"),
    "cpus": (0, -1, -0.5, None, "", "x", [], {}),
    "memory_mb": (31, 0, -1, None, "", "x", 64.5, "64.5", [], "31"),
    "pids_limit": (0, -1, None, "", "x", 1.5, []),
    "read_only_rootfs": (None, "x", "", 2, 0.5, []),
    "workspace_quota_mb": (-1, None, "", "x", 1.5, []),
}
# Values that are taken though they are of another type, or just so.
GOOD = {
    "cmd": ("",),
    "workdir": ("/", "/workspace", " /workspace ", "", None, "/a/../b"),
    "timeout_sec": (1, "5", 5.0, "5.0", True, " 7 ", "1_0", 2**31),
    "network": ("off", "on"),
    "env": ({}, {"A": "", "B": "x"}),
    "host_path": (None,),
    "host_path_mode": ("none", "ro", "rw"),
    "mount_path": ("/data", " /data "),
    "extra_mounts": ([],),
    "persistent": (True, False, 1, 0, "true", "False", "yes", "no", "on", "off", "1", "0", "t", "F", 1.0, "Y"),
    "cpus": (1, 0.1, "1.5", True, 4, "1e0", " 2 "),
    "memory_mb": (32, "33", 64.0, "+64", "064"),
    "pids_limit": (1, "2", True, 3.0),
    "read_only_rootfs": (True, "false", 0, "off"),
    "workspace_quota_mb": (0, "8", False, 16.0),
}


def by_field(table):
    return [(field, value) for field, values in table.items() for value in values]


@script()
async def refused(pair):
    for field, value in by_field(BAD):
        await pair.call("box_create_session", {"session_id": "s", field: value}, names=field)
    await pair.call("box_get_sessions")


@script()
async def refused_commands(pair):
    for field, values in BAD.items():
        await pair.call("box_exec", {"session_id": "s", "cmd": "echo never", field: values[0]}, names=field)
    await pair.call("box_get_sessions")


@script()
async def taken(pair):
    for field, value in by_field(GOOD):
        await pair.call("box_create_session", {"session_id": "s", field: value})
        await pair.call("box_delete_session", {"session_id": "s"})


@script()
async def together(pair):
    """Fields that must fit each other."""
    share = str(pair.share)
    for spec in ({"workdir": "/tmp"}, {"workdir": "/workspacex"}, {"workdir": "/work"}, {"mount_path": "/data", "workdir": "/workspace"},
                 {"workdir": "/workspace/../tmp", "mount_path": "/workspace/x"}, {"mount_path": "/workspace/", "workdir": "/workspace"}):
        await pair.call("box_create_session", {"session_id": "s", "host_path": share, **spec}, names="workdir")
    for spec in ({"workdir": "/tmp", "host_path_mode": "none"}, {"mount_path": "/data"}, {"mount_path": "/data", "workdir": ""},
                 {"mount_path": "/data", "workdir": "/data/x"}, {"workdir": "/workspace/sub"}, {"mount_path": "/data", "workdir": None}):
        await pair.call("box_create_session", {"session_id": "s", "host_path": share, **spec})
        await pair.call("box_delete_session", {"session_id": "s"})
    # Several that are wrong: one answer.
    await pair.call("box_create_session", {"network": "x", "cpus": 0, "memory_mb": 1}, names="network")
    await pair.call("box_create_session", {})
    await pair.call("box_exec", {})


@script(since="0.5")
async def skill_names(pair):
    for name in ("a b", "a/b", "../x", "x" * 65, "a.b", 5, [], "-", "--__", "é!"):
        await pair.call("box_create_session", {"session_id": "s", "skill_name": name}, names="skill_name")


@script()
async def places_of_its_own(pair):
    """A sandbox has places of its own, which nothing is mounted over."""
    for place in ("/", "/usr", "/proc/x"):
        await pair.call("box_create_session", {"session_id": "s", "mount_path": place}, differs="places-of-its-own", at="outcome")
        for connection in pair.connections:
            await pair.ask_one(connection, "box_delete_session", {"session_id": "s"})


@script()
async def names_of_variables(pair):
    await pair.call("box_create_session", {"session_id": "s", "env": {"": "x"}}, differs="ids-have-a-form", at="outcome")
