"""Sessions over REST: made, reused, in conflict, listed, deleted, counted, reaped; and every way to ask wrongly."""

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from urllib.parse import quote

import pytest

import hostview
from conftest import PATIENCE
from daemon import Session, unique

INFO_KEYS = {
    "session_id", "state", "backend_name", "backend_session_id", "image", "network", "host_path", "host_path_mode",
    "mount_path", "extra_mounts", "persistent", "cpus", "memory_mb", "pids_limit", "read_only_rootfs",
    "workspace_quota_mb", "created_at", "last_used_at", "running", "notes",
}


def make(daemon, **spec):
    return daemon.post("/v1/sessions", {"session_id": unique(), **spec})


# --- made and reused --------------------------------------------------------------------------


def test_create_and_reuse(either):
    name = unique()
    made = either.post("/v1/sessions", {"session_id": name}).ok(201)
    again = either.post("/v1/sessions", {"session_id": name}).ok(200)
    assert set(made) == INFO_KEYS == set(again)
    assert again["backend_session_id"] == made["backend_session_id"]
    either.delete(f"/v1/sessions/{name}").ok()


def test_defaults_are_those_promised(daemon):
    info = make(daemon).ok(201)
    expected = {
        "state": "live", "backend_name": "native", "network": "off", "host_path": None, "mount_path": "/workspace",
        "extra_mounts": [], "persistent": False, "cpus": 1, "memory_mb": 512, "pids_limit": 128,
        "read_only_rootfs": True, "workspace_quota_mb": 0, "running": 0,
    }
    assert {key: info[key] for key in expected} == expected
    assert isinstance(info["notes"], list)


def test_times_are_utc_with_microseconds(daemon):
    before = datetime.now(timezone.utc)
    info = make(daemon).ok(201)
    after = datetime.now(timezone.utc)
    for key in ("created_at", "last_used_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", info[key]), info[key]
        assert before <= datetime.fromisoformat(info[key]) <= after


def test_last_used_moves_on(session):
    before = session.info()
    session.out("true")
    after = session.info()
    assert after["last_used_at"] > before["last_used_at"] and after["created_at"] == before["created_at"]


def test_a_session_remembers(session):
    session.out("echo kept > /workspace/file; echo also > /tmp/other; mkdir -p ~/dir")
    assert session.out("cat /workspace/file /tmp/other; ls -d ~/dir") == "kept\nalso\n/home/box/dir\n"


def test_sessions_do_not_see_each_other(daemon):
    one, other = daemon.session(), daemon.session()
    one.out("echo secret > /workspace/file; echo secret > /tmp/file")
    assert other.exec("cat /workspace/file /tmp/file")["exit_code"] == 1
    assert one.info()["backend_session_id"] != other.info()["backend_session_id"]


def test_limits_as_asked_and_shown(daemon):
    wanted = {"cpus": 0.5, "memory_mb": 128, "pids_limit": 40, "persistent": True, "read_only_rootfs": False}
    name = unique()
    info = daemon.post("/v1/sessions", {"session_id": name, **wanted}).ok(201)
    assert {key: info[key] for key in wanted} == wanted
    usage = daemon.get(f"/v1/sessions/{name}/usage").ok()
    assert set(usage) == {"session_id", "cpu_us", "memory_bytes", "processes"} and usage["session_id"] == name
    every = {one["session_id"]: one for one in daemon.get("/v1/usage").ok()["sessions"]}
    assert set(every[name]) == {"session_id", "cpu_us", "memory_bytes", "processes", "memory_limit_bytes", "state"}
    assert every[name]["memory_limit_bytes"] == 128 << 20 and every[name]["state"] == "live"


def test_usage_of_all_has_everyone(either):
    """Where nothing can be measured, too: then without numbers."""
    made = either.session()
    answer = either.get(f"{made.path}/usage")
    listed, = [one for one in either.get("/v1/usage").ok()["sessions"] if one["session_id"] == made.name]
    measured = {key: listed[key] for key in ("memory_bytes", "processes")}
    if answer.status == 200:
        assert all(isinstance(value, int) for value in measured.values()), listed
    else:
        assert "control group" in answer.json["error"]["message"] and set(measured.values()) == {None}, listed


def test_usage_grows(session):
    before = session.client.get(f"{session.path}/usage").ok()
    session.out("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 8388608 /dev/zero > /tmp/fill")
    after = session.client.get(f"{session.path}/usage").ok()
    # docs/cgroups.md, Billing: with cpu and cpuacct of v1 mounted apart it is not known.
    apart = any(mount.type == "cgroup" and {"cpu", "cpuacct"} & set(mount.options.split(",")) == {"cpu"}
                for mount in hostview.mounts())
    assert after["cpu_us"] is None if apart else after["cpu_us"] > before["cpu_us"]
    assert after["memory_bytes"] >= before["memory_bytes"] + (8 << 20)


def test_host_path_is_mounted_and_kept(either):
    directory = either.box.directory()
    either.box.file(directory, "in", "from the host\n")
    rw = either.session(host_path=str(directory))
    assert rw.out("cat in; echo out > made") == "from the host\n"
    assert (directory / "made").read_text() == "out\n"
    assert (directory / "made").stat().st_uid == either.box.uid
    ro = either.session(host_path=str(directory), host_path_mode="ro")
    assert ro.out("cat /workspace/in") == "from the host\n"
    assert ro.exec("echo x > /workspace/in")["exit_code"] != 0
    none = either.session(host_path=str(directory), host_path_mode="none")
    assert none.exec("cat /workspace/in")["exit_code"] == 1
    for one in (rw, ro, none):
        one.delete().ok()
    assert (directory / "in").read_text() == "from the host\n"


def test_mount_path_is_where_commands_run(daemon):
    directory = daemon.box.directory()
    made = daemon.session(host_path=str(directory), mount_path="/data/here")
    assert made.out("pwd; touch x") == "/data/here\n"
    assert (directory / "x").exists()


def test_mount_path_of_its_own(either):
    """Without a host_path the session's own directory is there instead."""
    made = either.session(mount_path="/data/here")
    assert made.out("pwd; touch x; ls; ls /workspace") == "/data/here\nx\n"
    bad = make(either, mount_path="/etc")
    assert "/etc" in bad.error(400, "BoxValidationError")["message"]


def test_quota_holds_where_the_workspace_is(daemon):
    own = daemon.session(mount_path="/data", workspace_quota_mb=4)
    assert own.exec("head -c 8M /dev/zero > big")["exit_code"] != 0
    # This kernel has no project quota: a directory of the host cannot be bounded, so it is refused.
    refused = make(daemon, mount_path="/data", host_path=str(daemon.box.directory()), workspace_quota_mb=4)
    if refused.status != 201:
        assert "quota" in refused.error(503, "BoxBackendUnavailableError")["message"]


def test_mounts_below_a_mounted_workspace(either):
    """As LangBot has its skills: the mount points are made in the host's directory, as its owner."""
    workspace, one, two = (either.box.directory() for _ in range(3))
    either.box.file(one, "SKILL.md", "one\n")
    either.box.file(two, "SKILL.md", "two\n")
    made = either.session(host_path=str(workspace), extra_mounts=[
        {"host_path": str(one), "mount_path": "/workspace/.skills/one", "mode": "ro"},
        {"host_path": str(two), "mount_path": "/workspace/.skills/two", "mode": "ro"}])
    assert made.out("cat .skills/*/SKILL.md") == "one\ntwo\n"
    assert made.exec("echo x > .skills/one/SKILL.md")["exit_code"] != 0
    assert made.exec("mv .skills/one .skills/other || rm -rf .skills/one")["exit_code"] != 0
    assert (one / "SKILL.md").read_text() == "one\n"
    for path in (workspace / ".skills", workspace / ".skills" / "two"):
        assert path.stat().st_uid == either.box.uid and not list(path.glob("SKILL.md"))
    read_only = make(either, host_path=str(one), host_path_mode="ro", extra_mounts=[
        {"host_path": str(two), "mount_path": "/workspace/two", "mode": "ro"}])
    assert "/workspace/two" in read_only.error(read_only.status, "BoxError")["message"]


@pytest.mark.parametrize("path", ["/", "/proc", "/etc", "/dev", "/no/such/directory"])
def test_host_path_that_may_not_be(daemon, path):
    answer = make(daemon, host_path=path)
    assert 400 <= answer.status < 500, answer
    answer.error(answer.status, "BoxValidationError")


def test_extra_mounts_recreate(daemon):
    one, two = daemon.box.directory(), daemon.box.directory()
    daemon.box.file(one, "which", "one\n")
    daemon.box.file(two, "which", "two\n")
    name = unique()

    def mounts(directory, mode="ro"):
        return [{"host_path": str(directory), "mount_path": "/extra", "mode": mode}]

    first = daemon.post("/v1/sessions", {"session_id": name, "extra_mounts": mounts(one)}).ok(201)
    assert first["extra_mounts"] == mounts(one)
    session = Session(daemon.client, name)
    assert session.out("cat /extra/which; touch /tmp/mark") == "one\n"
    same = daemon.post("/v1/sessions", {"session_id": name, "extra_mounts": mounts(one)}).ok(200)
    assert same["backend_session_id"] == first["backend_session_id"]
    other = daemon.post("/v1/sessions", {"session_id": name, "extra_mounts": mounts(two)}).ok(201)
    assert other["backend_session_id"] != first["backend_session_id"]
    assert session.out("cat /extra/which; ls /tmp") == "two\n"
    daemon.post("/v1/sessions", {"session_id": name, "extra_mounts": mounts(two, "rw")}).ok(201)
    assert session.out("echo new > /extra/which") == ""
    assert (two / "which").read_text() == "new\n"
    daemon.post("/v1/sessions", {"session_id": name, "extra_mounts": []}).ok(201)
    assert session.exec("ls /extra")["exit_code"] != 0


CONFLICTS = [
    ("network", {"network": "on"}, "off"),
    ("image", {"image": "host"}, "rockchin/langbot-sandbox:latest"),
    ("host_path", {"host_path": "/usr/share"}, "null"),
    ("host_path_mode", {"host_path_mode": "ro"}, "rw"),
    ("mount_path", {"mount_path": "/elsewhere"}, "/workspace"),
    ("persistent", {"persistent": True}, "false"),
    ("cpus", {"cpus": 0.25}, "1"),
    ("memory_mb", {"memory_mb": 64}, "512"),
    ("pids_limit", {"pids_limit": 12}, "128"),
    ("read_only_rootfs", {"read_only_rootfs": False}, "true"),
    ("workspace_quota_mb", {"workspace_quota_mb": 16}, "0"),
]


@pytest.mark.parametrize("field,change,present", CONFLICTS, ids=[case[0] for case in CONFLICTS])
def test_conflict_names_field_and_present_value(session, field, change, present):
    body = {"session_id": session.name, **change}
    error = session.client.post("/v1/sessions", body).error(409, "BoxSessionConflictError")
    assert re.search(rf"\b{field}\b.*{re.escape(present)}", error["message"]), error
    # Also by the way of a command, which then does not run.
    session.client.post("/v1/exec", {**body, "cmd": "touch /tmp/ran"}).error(409, "BoxSessionConflictError")
    assert session.exec("ls /tmp/ran")["exit_code"] != 0


def test_what_is_not_named_is_as_it_is(daemon):
    """A request that says nothing of a field has no wish about it, whatever the defaults are."""
    made = daemon.session(memory_mb=300, cpus=0.5, pids_limit=50, persistent=True, network="on", read_only_rootfs=False)
    made.out("echo kept > file")
    same = daemon.post("/v1/sessions", {"session_id": made.name}).ok(200)
    assert same["memory_mb"] == 300 and same["persistent"] is True
    assert daemon.post("/v1/exec", {"session_id": made.name, "cmd": "cat file"}).ok()["stdout"] == "kept\n"
    assert daemon.post(f"{made.path}/exec", {"cmd": "cat file", "spec": {}}).ok()["stdout"] == "kept\n"
    daemon.post("/v1/sessions", {"session_id": made.name, "memory_mb": 512}).error(409, "BoxSessionConflictError")


def test_mounts_that_are_not_named_stay(daemon):
    mounts = [{"host_path": str(daemon.box.directory()), "mount_path": place, "mode": "ro"} for place in ("/one", "/two")]
    made = daemon.session(extra_mounts=mounts)
    made.out("echo kept > file")
    known = made.info()["backend_session_id"]
    for body in ({}, {"recreate": False}, {"recreate": False, "extra_mounts": mounts[1:]},
                 {"extra_mounts": mounts[::-1]}):
        same = daemon.post("/v1/sessions", {"session_id": made.name, **body}).ok(200)
        assert same["backend_session_id"] == known and len(same["extra_mounts"]) == 2, body
    # One that it lacks: refused, if that was asked for; else it is made anew, and what was in it is gone.
    other = [{**mounts[0], "mode": "rw"}]
    error = daemon.post("/v1/sessions", {"session_id": made.name, "recreate": False, "extra_mounts": other}).error(
        409, "BoxSessionConflictError")
    assert "mounts" in error["message"]
    assert made.out("cat file") == "kept\n"
    anew = daemon.post("/v1/sessions", {"session_id": made.name, "extra_mounts": other}).ok(201)
    assert anew["backend_session_id"] != known


def test_two_requests_share_one_creation(daemon):
    name = unique()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: daemon.post("/v1/sessions", {"session_id": name}), range(8)))
    assert sorted(answer.status for answer in answers) == [200] * 7 + [201]
    assert len({answer.json["backend_session_id"] for answer in answers}) == 1


@pytest.mark.parametrize("name", [
    "with space", "ünï-çødé-名前", "a/b", "..", ".", "%41", "--flag", "a?b=c&d", "x" * 128, "quote\"'`$(id)", "a\\b", "#"])
def test_odd_names(daemon, name):
    made = daemon.session(name)
    assert made.info()["session_id"] == name
    assert made.out("echo fine") == "fine\n"
    assert name in daemon.names()
    assert made.delete().ok() == {"deleted": name}
    assert name not in daemon.names()


# --- listed -----------------------------------------------------------------------------------


def test_names_of_its_own(daemon):
    """What ends all sessions passes over boxd's trials, so nobody else may be called like them."""
    name = "boxd-readiness-mine"
    for path, body in (("/v1/sessions", {"session_id": name}), ("/v1/exec", {"session_id": name, "cmd": "true"}),
                       (f"/v1/sessions/{name}/exec", {"cmd": "true", "spec": {}})):
        daemon.post(path, body).error(400, "BoxValidationError", "session_id", "boxd's own")
    daemon.get(f"/v1/sessions/{name}").error(404)


def test_list_pages_and_filters(daemon):
    prefix = unique("page-")
    names = [f"{prefix}-{i}" for i in range(7)]
    for name in names:
        daemon.session(name)
    whole = daemon.get(f"/v1/sessions?prefix={prefix}").ok()
    assert [info["session_id"] for info in whole["sessions"]] == names and "next" not in whole
    assert all(set(info) == INFO_KEYS for info in whole["sessions"])
    seen, after = [], ""
    for _ in range(10):
        page = daemon.get(f"/v1/sessions?prefix={prefix}&limit=3{after}").ok()
        seen.append([info["session_id"] for info in page["sessions"]])
        if "next" not in page:
            break
        after = f"&after={quote(page['next'])}"
    assert seen == [names[0:3], names[3:6], names[6:7]]
    assert len(daemon.get(f"/v1/sessions?prefix={prefix}&state=live").ok()["sessions"]) == 7
    assert daemon.get(f"/v1/sessions?prefix={prefix}&state=ending").ok() == {"sessions": []}
    assert daemon.get(f"/v1/sessions?prefix={unique('none')}").ok() == {"sessions": []}


@pytest.mark.parametrize("query", [
    "limit=0", "limit=1001", "limit=x", "limit=-1", "limit=1e3", "state=dead", "nosuch=1", "limit=1&limit=2",
    "prefix=%ff", "prefix=%00", "prefix=%zz", "after=", "limit=99999999999999999999999"])
def test_list_queries_that_are_wrong(daemon, query):
    daemon.get(f"/v1/sessions?{query}").error(400, "BoxValidationError")


def test_unknown_query_names_the_nearest(daemon):
    error = daemon.get("/v1/sessions?limt=5").error(400)
    assert "limit" in error["message"] + error.get("hint", ""), error


def test_look_at_what_is_not_there(daemon):
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/usage"), ("GET", "/processes"),
                         ("GET", "/execs/1/log"), ("GET", "/files/x"), ("DELETE", "/files/x")]:
        daemon.client.request(method, f"/v1/sessions/nobody{path}").error(404, "BoxSessionNotFoundError", "nobody")
    daemon.post("/v1/sessions/nobody/exec", {"cmd": "true"}).error(404, "BoxSessionNotFoundError")
    daemon.post("/v1/sessions/nobody/processes", {"command": "true"}).error(404, "BoxSessionNotFoundError")


def test_detail_has_processes(session):
    session.start("sleep", "1000", process_id="one")
    info = session.info()
    assert set(info) == INFO_KEYS | {"processes"}
    assert [process["process_id"] for process in info["processes"]] == ["one"]


# --- deleted ----------------------------------------------------------------------------------


def test_delete_waits_until_nothing_is_left(either):
    session = either.session()
    mark = unique("mark")
    session.start("sh", "-c", f"trap '' TERM HUP INT; : {mark}; while :; do sleep 1000; done", mark)
    hostview.wait_until(lambda: hostview.with_argument(mark), PATIENCE)
    assert hostview.with_argument(mark)
    before = either.processes()
    session.delete().ok()
    assert not hostview.with_argument(mark)
    assert len(either.processes()) < len(before)
    session.client.get(session.path).error(404, "BoxSessionNotFoundError")
    session.delete().error(404, "BoxSessionNotFoundError")


def test_delete_ends_a_running_command(session):
    def run(box):
        box.append(session.client.post(f"{session.path}/exec", {"cmd": "sleep 1000", "timeout_sec": 0}))

    answers = []
    thread = threading.Thread(target=run, args=(answers,))
    thread.start()
    assert hostview.wait_until(lambda: session.info()["running"] == 1, PATIENCE)
    session.delete().ok()
    thread.join(PATIENCE)
    assert answers and answers[0].status in (404, 409, 503, 200), answers
    if answers[0].status == 200:
        assert answers[0].json["exit_code"] is None
    else:
        answers[0].error(answers[0].status)


def test_two_deletions_that_overlap(daemon):
    session = daemon.session()
    session.start("sh", "-c", "trap '' TERM; while :; do sleep 1000; done")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: session.delete(), range(4)))
    assert all(answer.status in (200, 404) for answer in answers), answers
    assert answers[0].status == 200 or any(answer.status == 200 for answer in answers)


def test_delete_and_make_again_at_once(daemon):
    name = unique()
    ids = set()
    for _ in range(10):
        ids.add(daemon.post("/v1/sessions", {"session_id": name}).ok(201)["backend_session_id"])
        daemon.delete(f"/v1/sessions/{name}").ok()
    assert len(ids) == 10


# --- capacity and reaping ---------------------------------------------------------------------


def test_capacity(start_boxd):
    boxd = start_boxd(config={"limits": {"max_sessions": 2}})
    one, _ = boxd.session(), boxd.session()
    make(boxd).error(429, "BoxCapacityExceededError")
    boxd.post("/v1/exec", {"session_id": unique(), "cmd": "true"}).error(429, "BoxCapacityExceededError")
    assert boxd.post("/v1/sessions", {"session_id": one.name}).status == 200
    one.delete().ok()
    assert make(boxd).status == 201
    assert boxd.get("/v1/status").ok()["active_sessions"] == 2


def test_no_host_path_by_default(start_boxd):
    """On loopback anybody on the machine may ask: nothing of the host's is to be had unless it was named."""
    boxd = start_boxd(config="box: {}")
    directory = boxd.box.directory()
    for spec in ({"host_path": str(directory)}, {"host_path": "/usr/share", "host_path_mode": "ro"},
                 {"extra_mounts": [{"host_path": "/home", "mount_path": "/x", "mode": "ro"}]}):
        error = make(boxd, **spec).error(400, "BoxValidationError")
        assert "allowed_roots" in str(error)
    assert make(boxd, host_path=str(directory), host_path_mode="none").status == 201


def test_allowed_roots(start_boxd):
    boxd = start_boxd(start=False)
    allowed, other = boxd.box.directory(), boxd.box.directory()
    (allowed / "way-out").symlink_to(other)
    # Neither is one followed that stays below the root: what it leads to may be somebody else's.
    for name in ("of-a", "of-b"):
        (allowed / name).mkdir()
        (allowed / name / "file").write_text(name)
    (allowed / "of-a" / "b").symlink_to(allowed / "of-b")
    boxd.configure({"mounts": {"allowed_roots": [str(allowed)]}})
    boxd.start()
    assert make(boxd, host_path=str(allowed)).status == 201
    one = boxd.session(extra_mounts=[{"host_path": f"{allowed}/of-a/file", "mount_path": "/x", "mode": "ro"}])
    assert one.out("cat /x") == "of-a"
    for path in (other, allowed / "way-out", f"{allowed}/../{other.name}", "/usr", allowed / "of-a" / "b",
                 allowed / "of-a" / "b" / "file", allowed / "nothing"):
        answer = make(boxd, host_path=str(path))
        answer.error(400, "BoxValidationError")
        answer = make(boxd, extra_mounts=[{"host_path": str(path), "mount_path": "/x", "mode": "ro"}])
        answer.error(400, "BoxValidationError")


def test_reaping(start_boxd):
    """Idle ones go; those in use and those that are persistent stay. One daemon, all waits at once."""
    boxd = start_boxd(config={"session_ttl_sec": 1})
    idle = boxd.session()
    persistent = boxd.session(persistent=True)
    busy = boxd.session()
    managed = boxd.session()
    managed.start("sleep", "1000")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(busy.exec("sleep 4; echo done", timeout_sec=0)))
    thread.start()
    assert hostview.wait_until(lambda: idle.name not in boxd.names(), PATIENCE), "never reaped"
    thread.join(PATIENCE)
    assert answers and answers[0]["stdout"] == "done\n"
    assert {persistent.name, managed.name} <= set(boxd.names())
    # Once it is over, they count as idle: from then on.
    managed.client.delete(f"{managed.path}/processes/default").ok()
    assert hostview.wait_until(lambda: boxd.names() == [persistent.name], PATIENCE), boxd.names()
    # It is counted when nothing of it is left.
    assert hostview.wait_until(
        lambda: re.search(r"^boxd_sessions_reaped_total 3$", boxd.get("/metrics").text, re.M), PATIENCE)


def test_use_puts_reaping_off(start_boxd):
    boxd = start_boxd(config={"session_ttl_sec": 2})
    session = boxd.session()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        session.out("true")
        time.sleep(0.2)
    assert session.name in boxd.names()


# --- asked wrongly ----------------------------------------------------------------------------

WRONG_TYPES = {
    "session_id": [1, None, [], {}, True, "", "x" * 256, "a\u0000b", "a\nb", "\u0085", "\x7f"],
    "image": [1, None, [], "", "x" * 513, "a\u0000", "no-such-image"],
    "network": ["maybe", True, None, 1, "ON"],
    "host_path": [1, "", "relative", "/a\u0000b", [], False, "/" + "x" * 5000],
    "host_path_mode": ["rwx", 1, None, True, ""],
    "mount_path": ["relative", "", 1, None, "/a\u0000b", "/a/../../b"],
    "extra_mounts": [{}, "x", None, 1, [1], [{}], [{"host_path": "/usr"}], [{"mount_path": "/x"}],
                     [{"host_path": "usr", "mount_path": "/x"}], [{"host_path": "/usr", "mount_path": "x"}],
                     [{"host_path": "/usr", "mount_path": "/x", "mode": "x"}],
                     [{"host_path": "/usr", "mount_path": "/x", "more": 1}],
                     [{"host_path": "/usr/share", "mount_path": f"/m{i}"} for i in range(31)]],
    "persistent": [1, 0, "true", None, []],
    "cpus": [0, -1, 1e9, "1", None, True, [], 1025],
    "memory_mb": [0, 31, -1, 1.5, "512", None, 1 << 62, 1 << 40, True],
    "pids_limit": [0, -1, 1.5, "9", None, 1 << 40, 4194305],
    "read_only_rootfs": ["yes", 1, None],
    "workspace_quota_mb": [-1, 0.5, "1", None, 1 << 62],
}


@pytest.mark.parametrize("field,value", [(field, value) for field, values in WRONG_TYPES.items() for value in values],
                         ids=lambda value: json.dumps(value)[:30])
def test_field_that_is_wrong(daemon, field, value):
    """Wrong types and ranges are errors that name the field; nothing is made."""
    name = unique("wrong")
    error = daemon.post("/v1/sessions", {"session_id": name, field: value}).error(400, "BoxValidationError")
    if not (isinstance(value, str) and "\0" in value):  # for which the whole text is refused
        assert field in error["message"], error
    daemon.get(f"/v1/sessions/{name}").error(404)


@pytest.mark.parametrize("near,known", [
    ("sesion_id", "session_id"), ("memory", "memory_mb"), ("pid_limit", "pids_limit"), ("net_work", "network"),
    ("hostpath", "host_path"), ("cpu", "cpus"), ("persist", "persistent")])
def test_unknown_field_names_the_nearest(daemon, near, known):
    error = daemon.post("/v1/sessions", {"session_id": unique(), near: 1}).error(400, "BoxValidationError", near)
    if near not in ("persist", "memory"):  # far from it: a suggestion is welcome, no more
        assert known in error["message"] + error.get("hint", ""), error


BODIES = {
    "empty": b"",
    "white space": b"  \n",
    "not JSON": b"hello",
    "cut": b'{"session_id": "x',
    "array": b"[]",
    "string": b'"x"',
    "number": b"1",
    "null": b"null",
    "two documents": b'{"session_id":"x"}{}',
    "trailing": b'{"session_id":"x"} x',
    "trailing comma": b'{"session_id":"x",}',
    "single quotes": b"{'session_id':'x'}",
    "comment": b'{"session_id":"x"/**/}',
    "duplicate keys": b'{"session_id":"x","session_id":"y"}',
    "duplicate keys inside": b'{"session_id":"x","extra_mounts":[{"host_path":"/usr","host_path":"/usr","mount_path":"/y"}]}',
    "NUL": b'{"session_id":"x\0y"}',
    "escaped NUL": b'{"session_id":"x\\u0000y"}',
    "NUL in a key": b'{"session_id":"x","a\\u0000b":1}',
    "invalid UTF-8": b'{"session_id":"x\xff"}',
    "overlong UTF-8": b'{"session_id":"x\xc0\xaf"}',
    "surrogate in UTF-8": b'{"session_id":"x\xed\xa0\x80"}',
    "lone surrogate": b'{"session_id":"x\\ud800"}',
    "byte order mark": b'\xef\xbb\xbf{"session_id":"x"}',
    "UTF-16": '{"session_id":"x"}'.encode("utf-16"),
    "NaN": b'{"session_id":"x","cpus":NaN}',
    "infinity": b'{"session_id":"x","cpus":1e999}',
    "huge exponent": b'{"session_id":"x","memory_mb":1e400}',
    "huge integer": b'{"session_id":"x","memory_mb":' + b"9" * 400 + b"}",
    "long number": b'{"session_id":"x","cpus":0.' + b"0" * 100000 + b"1}",
    "minus zero": b'{"session_id":"x","memory_mb":-0}',
    "integer that wraps": b'{"session_id":"x","pids_limit":4294967424}',
    "64 bits that wrap": b'{"session_id":"x","memory_mb":18446744073709552128}',
    "depth 10,000": b'{"session_id":"x","extra_mounts":' + b"[" * 10000 + b"]" * 10000 + b"}",
    "depth of objects": b'{"a":' * 10000 + b"1" + b"}" * 10000,
    "many values": b'{"session_id":"x","extra_mounts":[' + b"1," * 500000 + b"1]}",
    "many keys": b"{" + b",".join(b'"k%d":1' % i for i in range(200000)) + b"}",
    "long key": b'{"' + b"k" * 1000000 + b'":1}',
    "control character": b'{"session_id":"a\nb"}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_43_bodies_that_are_wrong(daemon, body):
    """ABUSE 43: a clear 4xx, and boxd goes on."""
    for path in ("/v1/sessions", "/v1/exec"):
        answer = daemon.client.request("POST", path, body=body, headers={"Content-Type": "application/json"})
        answer.error(400, "BoxValidationError")
        assert len(answer.body) < 4096, "an error does not repeat all that it is about"
    daemon.get("/healthz").ok()


def test_43_body_of_100_mebibytes(daemon):
    """Refused by its length before it is sent, and in the middle where the length is not told."""
    piece = b'{"session_id":"' + b"x" * (1 << 20)
    with_length = daemon.client.socket()
    with with_length:
        with_length.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (100 << 20))
        assert b" 413 " in with_length.recv(4096)
    rss = daemon.get("/healthz").ok()["resources"]["rss_bytes"]
    chunked = daemon.client.socket()
    with chunked:
        chunked.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(100):
                chunked.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert b" 413 " in chunked.recv(4096)
    assert daemon.get("/healthz").ok()["resources"]["rss_bytes"] < rss + (64 << 20)


@pytest.mark.parametrize("kind,status", [
    ("application/json", 201), ("application/json; charset=utf-8", 201), ("APPLICATION/JSON", 201),
    ("application/merge-patch+json", 201), (None, 201), ("text/plain", 415),
    ("application/x-www-form-urlencoded", 415), ("multipart/form-data; boundary=x", 415), ("application/jsonx", 415)])
def test_content_type(daemon, kind, status):
    """What a web page can send without asking is refused; a client that says nothing is served."""
    connection = daemon.client.connection()
    body = json.dumps({"session_id": unique()}).encode()
    connection.putrequest("POST", "/v1/sessions")
    if kind:
        connection.putheader("Content-Type", kind)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    response = connection.getresponse()
    assert response.status == status, response.read()
    connection.close()


def test_request_id(daemon):
    assert daemon.get("/v1/status", headers={"X-Request-Id": "mine-1.2:3_4"}).headers["X-Request-Id"] == "mine-1.2:3_4"
    made = [daemon.get("/v1/status").headers["X-Request-Id"] for _ in range(3)]
    assert len(set(made)) == 3 and all(made)
    for hostile in ("x" * 65, "a b", "<script>", "é".encode().decode("latin-1")):
        assert daemon.get("/v1/status", headers={"X-Request-Id": hostile}).headers["X-Request-Id"] != hostile
    assert daemon.get("/v1/nothing").headers["X-Request-Id"]


def test_slow_creation_does_not_delay_others(daemon):
    """Many are made while others run commands: all finish."""
    sessions = [daemon.session() for _ in range(4)]
    with ThreadPoolExecutor(12) as pool:
        made = [pool.submit(make, daemon) for _ in range(40)]
        ran = [pool.submit(sessions[i % 4].out, f"echo {i}") for i in range(40)]
        assert all(one.result(PATIENCE).status == 201 for one in made)
        assert [one.result(PATIENCE) for one in ran] == [f"{i}\n" for i in range(40)]


def test_it_works_with_curl(daemon):
    """The examples that people will type."""
    name = unique()
    done = daemon.curl("--json", json.dumps({"session_id": name}), "-w", "%{http_code}", "/v1/sessions")
    assert done.returncode == 0 and done.stdout.endswith(b"201"), done
    done = daemon.curl("-d", '{"cmd":"echo hello"}', "-H", "Content-Type: application/json", f"/v1/sessions/{name}/exec",
                       tcp=True)
    assert json.loads(done.stdout)["stdout"] == "hello\n"
    done = daemon.curl("-X", "DELETE", f"/v1/sessions/{name}")
    assert json.loads(done.stdout) == {"deleted": name}


def test_missing_feature_is_no_silent_loss(start_boxd):
    """ABUSE 52: with `strict` what cannot be had in full is not had at all; without, it is said."""
    boxd = start_boxd(identity="user", config={"strict": True})
    lenient = start_boxd(identity="user")
    info = lenient.session().info()
    if not info["notes"]:
        pytest.skip("this user has everything here: there is nothing to miss")
    answer = make(boxd)
    assert answer.status in (400, 503), answer
    answer.error(answer.status)
    assert boxd.names() == []
