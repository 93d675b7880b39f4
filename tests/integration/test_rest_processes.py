"""Managed processes over REST: started, replaced, signalled, stopped, logged, limited, remembered for a while."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import hostview
from conftest import PATIENCE, SLOWNESS
from daemon import unique

INFO_KEYS = {
    "session_id", "process_id", "status", "command", "args", "cwd", "env_keys", "attached", "started_at", "exited_at",
    "exit_code", "cause", "stderr_preview", "stdout_bytes", "stderr_bytes",
}
MIB = 1 << 20


def stop(session, process_id="default"):
    return session.client.delete(f"{session.path}/processes/{process_id}")


def send(session, name, process_id="default"):
    return session.client.post(f"{session.path}/processes/{process_id}/signal", {"signal": name})


# --- life cycle -------------------------------------------------------------------------------


def test_life_cycle(either):
    session = either.session()
    info = session.start("sh", "-c", "echo out; echo err >&2; read line; echo got $line; exit 7",
                         env={"B": "secret-value", "A": "1"}, cwd="/workspace/made")
    assert set(info) == INFO_KEYS
    expected = {
        "session_id": session.name, "process_id": "default", "status": "running", "command": "sh",
        "cwd": "/workspace/made", "env_keys": ["A", "B"], "attached": False, "exited_at": None, "exit_code": None,
    }
    assert {key: info[key] for key in expected} == expected
    assert info["args"][0] == "-c" and "secret-value" not in str(info)
    assert hostview.wait_until(lambda: session.process()["stdout_bytes"] == 4, PATIENCE)
    assert session.client.get(f"{session.path}/processes").ok() == {"processes": [session.process()]}
    assert stop(session).ok() == {"stopped": "default"}
    session.client.get(f"{session.path}/processes/default").error(404, "BoxManagedProcessNotFoundError")
    session.delete().ok()


def test_end_by_itself_is_told(session):
    session.start("sh", "-c", "echo out; echo problem >&2; exit 7")
    info = session.ended()
    assert (info["exit_code"], info["cause"], info["stderr_preview"]) == (7, "exited", "problem\n")
    assert info["exited_at"] >= info["started_at"]
    assert (info["stdout_bytes"], info["stderr_bytes"]) == (4, 8)
    assert session.log().body == b"out\n"
    # Its id can be used again.
    again = session.start("sleep", "1000")
    assert again["status"] == "running" and again["started_at"] > info["started_at"]


def test_death_by_signal(session):
    session.start("sh", "-c", "kill -KILL $$")
    info = session.ended()
    assert info["exit_code"] == 137 and info["cause"] == "signal"


def test_program_that_is_not_there(session):
    answer = session.client.post(f"{session.path}/processes", {"command": "no-such-program"})
    if answer.status == 201:
        assert session.ended()["exit_code"] == 127
    else:
        assert 400 <= answer.status < 500, answer
        answer.error(answer.status)
        session.client.get(f"{session.path}/processes/default").error(404)


def test_several_by_id(session):
    for name in ("one", "two", "three"):
        session.start("sleep", "1000", process_id=name)
    listed = session.client.get(f"{session.path}/processes").ok()["processes"]
    assert [process["process_id"] for process in listed] == ["one", "two", "three"]
    stop(session, "two").ok()
    assert session.process("one")["status"] == session.process("three")["status"] == "running"
    stop(session, "two").error(404, "BoxManagedProcessNotFoundError", "two")


@pytest.mark.parametrize("name", ["with space", "ünï", "a/b", "%2f", "..", "--x", "x" * 128])
def test_odd_ids(session, name):
    session.start("sleep", "1000", process_id=name)
    from urllib.parse import quote
    assert session.process(name)["process_id"] == name
    assert stop(session, quote(name, safe="")).ok() == {"stopped": name}


def test_starting_again_replaces(session):
    one, two = unique("one"), unique("two")
    session.start("sh", "-c", f"trap '' TERM; while :; do sleep 1000; done; : {one}", one)
    assert hostview.wait_until(lambda: hostview.with_argument(one), PATIENCE)
    session.start("sh", "-c", "sleep 1000; :", two)
    assert hostview.wait_until(lambda: hostview.with_argument(two), PATIENCE)
    assert not hostview.with_argument(one)
    assert len(session.client.get(f"{session.path}/processes").ok()["processes"]) == 1


def test_many_replacing_each_other(session):
    """Whoever wins, one runs at the end."""
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda i: session.client.post(
            f"{session.path}/processes", {"command": "sleep", "args": [f"100{i}"]}), range(6)))
    assert {answer.status for answer in answers} <= {201, 409}, "\n".join(map(str, answers))
    assert any(answer.status == 201 for answer in answers)
    assert hostview.wait_until(lambda: session.process()["status"] == "running", PATIENCE)
    assert len(session.client.get(f"{session.path}/processes").ok()["processes"]) == 1


def test_it_runs_beside_commands(session):
    session.start("sh", "-c", "while :; do date +%s%N > /tmp/tick; sleep 0.05; done")
    assert hostview.wait_until(lambda: session.exec("cat /tmp/tick")["stdout"], PATIENCE)
    first = session.out("cat /tmp/tick")
    assert hostview.wait_until(lambda: session.out("cat /tmp/tick") not in ("", first), PATIENCE)


def test_standard_input_is_open(session):
    """Nobody has written yet, and it does not see an end."""
    session.start("sh", "-c", "if read x; then echo line; else echo end; fi")
    session.out("sleep 0.3")
    assert session.process()["status"] == "running"


# --- stopping ---------------------------------------------------------------------------------


def test_stop_closes_stdin_first(session):
    """One that reads to the end can finish its work."""
    session.start("sh", "-c", "trap '' TERM; cat > /dev/null; echo finished > /workspace/end")
    session.out("true")
    stop(session).ok()
    assert session.out("cat /workspace/end") == "finished\n"


def test_stop_by_term(session):
    session.start("sh", "-c", "trap 'echo term > /workspace/end; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    assert hostview.wait_until(lambda: session.log().body == b"ready\n", PATIENCE)
    stop(session).ok()
    assert session.out("cat /workspace/end") == "term\n"


def test_stop_of_one_that_will_not(either):
    """Deaf to everything, with descendants that are too: killed after the grace, all of them."""
    session = either.session()
    mark = unique("mark")
    session.start("sh", "-c", "trap '' TERM HUP INT; sh -c \"trap '' TERM HUP INT; setsid sh -c 'while :; do sleep 1000; done' "
                  f"{mark} & while :; do sleep 1000; done\" {mark} & while :; do sleep 1000; done", mark)
    assert hostview.wait_until(lambda: len(hostview.with_argument(mark)) >= 3, PATIENCE), hostview.with_argument(mark)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(stop(session))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(answers) == 2 and {answer.status for answer in answers} <= {200, 404}, answers
    assert any(answer.status == 200 for answer in answers)
    assert hostview.wait_until(lambda: not hostview.with_argument(mark), 2 * SLOWNESS)
    if not session.info()["notes"]:
        assert session.out("echo on") == "on\n"


def test_descendants_die_with_it(session):
    """It ends, and what it left in the background goes with it when it is stopped."""
    mark = unique("mark")
    session.start("sh", "-c", f"setsid sh -c 'sleep 1000; :' {mark} & exec sleep 1000")
    assert hostview.wait_until(lambda: hostview.with_argument(mark), PATIENCE)
    stop(session).ok()
    assert hostview.wait_until(lambda: not hostview.with_argument(mark), 5 * SLOWNESS), "left behind"


# --- signals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how,name", [("USR1", "USR1"), ("SIGUSR2", "USR2"), (1, "HUP"), ("term", "TERM"), ("INT", "INT")])
def test_signal(session, how, name):
    session.start("sh", "-c", f"trap 'echo got {name}' {name}; echo ready; while :; do sleep 0.05; done")
    assert hostview.wait_until(lambda: session.log().body == b"ready\n", PATIENCE)
    answer = send(session, how)
    if how == "term" and answer.status == 400:
        return  # names in small letters need not be known
    assert answer.ok() == {"signalled": "default"}
    assert hostview.wait_until(lambda: b"got " + name.encode() in session.log().body, PATIENCE)


def test_signal_kill(session):
    session.start("sleep", "1000")
    send(session, "KILL").ok()
    assert session.ended()["exit_code"] == 137


@pytest.mark.parametrize("body", [
    {}, {"signal": "NOPE"}, {"signal": ""}, {"signal": None}, {"signal": -1}, {"signal": 0}, {"signal": 65}, {"signal": 1.5},
    {"signal": []}, {"signal": "9x"}, {"signal": True}, {"signal": 1 << 40}, {"signal": "TERM", "more": 1}])
def test_signal_that_is_none(session, body):
    session.start("sleep", "1000")
    session.client.post(f"{session.path}/processes/default/signal", body).error(400, "BoxValidationError")
    assert session.process()["status"] == "running"


def test_signal_to_one_that_is_over(session):
    session.start("true")
    session.ended()
    answer = send(session, "TERM")
    assert answer.status in (404, 409), answer
    answer.error(answer.status)
    send(session, "TERM", "nobody").error(404, "BoxManagedProcessNotFoundError")


# --- logs -------------------------------------------------------------------------------------


def test_log_by_cursor(session):
    session.start("sh", "-c", "seq 1 1000; echo problem >&2; sleep 1000")
    text = "".join(f"{i}\n" for i in range(1, 1001)).encode()
    assert hostview.wait_until(lambda: session.process()["stdout_bytes"] == len(text), PATIENCE)
    got, offset = b"", 0
    for _ in range(100):
        answer = session.log(offset=offset, limit=700)
        assert answer.status == 200 and answer.headers["X-Log-Running"] == "true", answer
        assert answer.headers["X-Log-Total"] == str(len(text)) == answer.headers["X-Log-Kept"]
        if not answer.body:
            break
        got += answer.body
        offset = int(answer.headers["X-Log-Next"])
    assert got == text
    assert hostview.wait_until(lambda: session.log(stream="stderr").body == b"problem\n", PATIENCE)
    stop(session).ok()


def test_log_keeps_the_end(session):
    """Of much output the last of it, at true offsets."""
    session.start("sh", "-c", "seq 1 600000 ; sleep 1000")
    total = 4088895
    assert hostview.wait_until(lambda: session.process()["stdout_bytes"] == total, PATIENCE), session.process()
    answer = session.log(offset=0, limit=1)
    kept = int(answer.headers["X-Log-Kept"])
    assert 0 < kept < total and int(answer.headers["X-Log-Total"]) == total
    got, offset = b"", total - kept
    for _ in range(1000):
        answer = session.log(offset=offset)
        if not answer.body:
            break
        got += answer.body
        offset = int(answer.headers["X-Log-Next"])
    assert got.endswith(b"599999\n600000\n") and len(got) == kept
    whole = "".join(f"{i}\n" for i in range(1, 600001)).encode()
    assert got == whole[-kept:]
    stop(session).ok()


def test_output_that_nobody_reads_does_not_stop_it(session):
    """No client, no limit on what it may write: the oldest is forgotten."""
    session.start("sh", "-c", "head -c 20M /dev/zero; echo done >&2; sleep 1000")
    assert hostview.wait_until(lambda: session.process()["stderr_preview"] == "done\n", PATIENCE), session.process()
    assert session.process()["stdout_bytes"] == 20 * MIB
    stop(session).ok()


def test_stderr_preview_is_the_tail(session):
    session.start("sh", "-c", "seq 1 100000 >&2; printf é >&2")
    info = session.ended()
    assert info["stderr_preview"].endswith("99999\n100000\né") and len(info["stderr_preview"]) == 4000
    assert info["stderr_bytes"] == 588895 + 2


def test_follow(session):
    session.start("sh", "-c", "echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two; exit 0")
    connection = session.client.connection()
    session.client.send(connection, "GET", f"{session.path}/processes/default/log?follow=true")
    response = connection.getresponse()
    assert response.status == 200
    assert response.readline() == b"one\n"
    session.out("touch /tmp/go")
    assert response.read() == b"two\n"  # and an end, with the process
    connection.close()


def test_follow_from_an_offset_and_leave(session):
    session.start("sh", "-c", "echo 12345; exec sleep 1000")
    assert hostview.wait_until(lambda: session.process()["stdout_bytes"] == 6, PATIENCE)
    connection = session.client.connection()
    session.client.send(connection, "GET", f"{session.path}/processes/default/log?follow=true&offset=3")
    response = connection.getresponse()
    assert response.read(3) == b"45\n"
    connection.close()
    assert session.process()["status"] == "running"
    # Stopping it ends a follower too.
    connection = session.client.connection()
    session.client.send(connection, "GET", f"{session.path}/processes/default/log?follow=true")
    response = connection.getresponse()
    assert response.read(6) == b"12345\n"
    stop(session).ok()
    assert response.read() == b""
    connection.close()


@pytest.mark.parametrize("query", ["stream=x", "offset=-1", "limit=0", "follow=maybe", "nosuch=1", "offset=1e3"])
def test_log_queries_that_are_wrong(session, query):
    session.start("sleep", "1000")
    session.client.get(f"{session.path}/processes/default/log?{query}").error(400, "BoxValidationError")


# --- limits -----------------------------------------------------------------------------------


def test_memory_of_its_own(daemon):
    """Less than the session has: it dies of it, with everything it started, and nobody else."""
    session = daemon.session(memory_mb=256)
    session.start("sleep", "1000", process_id="bystander")
    session.start("python3", "-c", "import time\nx = bytearray(128 << 20)\nprint('alive', flush=True)\ntime.sleep(1000)",
                  memory_mb=48)
    info = session.ended()
    assert info["cause"] == "oom" and info["stdout_bytes"] == 0, info
    assert session.process("bystander")["status"] == "running"
    assert session.out("python3 -c 'x = bytearray(128 << 20); print(1)'") == "1\n"


def test_memory_of_the_session(daemon):
    session = daemon.session(memory_mb=64)
    session.start("python3", "-c", "x = bytearray(256 << 20)")
    assert session.ended()["cause"] == "oom"
    assert session.out("echo on") == "on\n"


def test_memory_without_groups(start_boxd):
    """For a user that has none the wish cannot be granted: refused, not ignored (ABUSE 52)."""
    boxd = start_boxd(identity="user")
    session = boxd.session()
    if not session.info()["notes"]:
        pytest.skip("this user has groups here")
    answer = session.client.post(f"{session.path}/processes", {"command": "true", "memory_mb": 48})
    assert answer.status in (400, 503), answer
    answer.error(answer.status)


def test_capacity(start_boxd):
    boxd = start_boxd(config={"limits": {"max_managed_processes": 2}})
    one, other = boxd.session(), boxd.session()
    one.start("sleep", "1000", process_id="a")
    other.start("sleep", "1000")
    for session in (one, other):
        session.client.post(f"{session.path}/processes", {"command": "sleep", "args": ["1"], "process_id": "more"}).error(
            429, "BoxCapacityExceededError")
    one.start("sleep", "1001", process_id="a")  # which replaces
    stop(one, "a").ok()
    other.start("sleep", "1000", process_id="more")
    assert boxd.get("/v1/status").ok()["managed_processes"] == 2


def test_those_that_are_over_are_forgotten(start_boxd):
    """By number, the oldest first; and by time."""
    boxd = start_boxd(config={"limits": {"max_completed_processes": 3, "completed_process_retention_sec": 3600}})
    quick = start_boxd(config={"limits": {"completed_process_retention_sec": 1}})
    session, other = boxd.session(), quick.session()
    other.start("true", process_id="brief")
    for i in range(5):
        session.start("true", process_id=f"p{i}")
        assert hostview.wait_until(
            lambda: (found := boxd.get(f"{session.path}/processes/p{i}")).status == 200 and
            found.json["status"] == "exited", PATIENCE)
    left = [process["process_id"] for process in boxd.get(f"{session.path}/processes").ok()["processes"]]
    assert left == ["p2", "p3", "p4"], left
    assert hostview.wait_until(lambda: quick.get(f"{other.path}/processes/brief").status == 404, PATIENCE)


def test_what_a_restart_could_not_read_is_refused(start_boxd):
    """Arguments are written down with the session, which would be lost if they were too many."""
    boxd = start_boxd()
    session = boxd.session()
    args = ["-c", "exec sleep 1000", *["x" * 100000] * 15]
    for process_id in ("a", "b"):
        session.start("sh", *args, process_id=process_id)
    body = {"process_id": "c", "command": "sh", "args": args}
    error = boxd.post(f"{session.path}/processes", body).error(400, "BoxValidationError", "restart")
    assert "file" in error["hint"]
    boxd.get(f"{session.path}/processes/c").error(404)
    boxd.restart()
    assert boxd.names() == [session.name]
    assert {name: session.process(name)["status"] for name in "ab"} == {"a": "running", "b": "running"}
    assert session.process("b")["args"] == args


def test_those_that_were_over_before_a_restart_are_forgotten(start_boxd):
    boxd = start_boxd()
    session = boxd.session()
    session.start("sleep", "1000", process_id="stays")
    session.start("true", process_id="brief")
    session.ended("brief")
    boxd.configure({"limits": {"completed_process_retention_sec": 1}})
    boxd.restart()
    assert hostview.wait_until(lambda: boxd.get(f"{session.path}/processes/brief").status == 404, PATIENCE)
    assert session.process("stays")["status"] == "running"


@pytest.mark.parametrize("body,word", [
    ({}, "command"), ({"command": ""}, "command"), ({"command": 1}, "command"), ({"command": ["ls"]}, "command"),
    ({"command": "ls", "args": "x"}, "args"), ({"command": "ls", "args": [1]}, "args"),
    ({"command": "ls", "args": {}}, "args"), ({"command": "ls", "env": []}, "env"),
    ({"command": "ls", "env": {"A=B": ""}}, "env"), ({"command": "ls", "env": {"": ""}}, "env"),
    ({"command": "ls", "cwd": "rel"}, "cwd"), ({"command": "ls", "cwd": ""}, "cwd"), ({"command": "ls", "cwd": None}, "cwd"),
    ({"command": "ls", "process_id": ""}, "process_id"), ({"command": "ls", "process_id": "x" * 129}, "process_id"),
    ({"command": "ls", "process_id": "a\nb"}, "process_id"), ({"command": "ls", "process_id": 1}, "process_id"),
    ({"command": "ls", "memory_mb": -1}, "memory_mb"), ({"command": "ls", "memory_mb": 1 << 60}, "memory_mb"),
    ({"command": "ls", "memory_mb": "64"}, "memory_mb"), ({"command": "ls", "comand": "x"}, "command"),
    ({"cmd": "ls"}, "cmd"), ({"command": "ls", "args": ["a\0b"]}, ""), ({"command": "l\0s"}, "")])
def test_asked_wrongly(session, body, word):
    error = session.client.post(f"{session.path}/processes", body).error(400, "BoxValidationError")
    assert word in error["message"] + error.get("hint", ""), error
    assert session.client.get(f"{session.path}/processes").ok() == {"processes": []}


def test_environment_values_are_nowhere(session, daemon):
    """Not in an answer, not in a log, not in the audit log."""
    secret = unique("secret-value")
    session.start("sh", "-c", "sleep 1000", env={"PASSWORD": secret})
    session.exec("true", env={"PASSWORD": secret})
    assert secret not in daemon.get(session.path).text and secret not in daemon.get("/v1/sessions").text
    assert session.process()["env_keys"] == ["PASSWORD"]
    stop(session).ok()
    session.delete()
    audit = daemon.state_dir / "audit.jsonl"
    assert hostview.wait_until(lambda: session.name in audit.read_text(), PATIENCE)
    assert secret not in audit.read_text() and secret not in daemon.log()


def test_metrics_count_them(session, daemon):
    def running():
        return int(re.search(r"^boxd_managed_processes (\d+)$", daemon.get("/metrics").text, re.M).group(1))

    before = running()
    session.start("sleep", "1000")
    assert running() == before + 1 == daemon.get("/healthz").ok()["resources"]["managed_processes"]
    stop(session).ok()
    assert running() == before
