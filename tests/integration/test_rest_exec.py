"""Commands over REST: results, causes, order, input and output, streams, and clients that leave."""

import asyncio
import base64
import json
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import hostview
from conftest import PATIENCE, SLOWNESS
from daemon import Session, asynchronous, stream, unique

RESULT_KEYS = {
    "session_id", "backend_name", "exec_id", "status", "exit_code", "stdout", "stderr", "duration_ms", "cause", "signal",
    "denied_syscalls", "stdout_bytes", "stderr_bytes", "stdout_truncated", "stderr_truncated", "cpu_ms",
    "peak_memory_bytes", "encoding",
}
MIB = 1 << 20


@pytest.fixture(scope="module")
def shared(either):
    """One session for tests that leave no trace in it."""
    return either.session(unique("shared"))


@pytest.fixture(scope="module")
def attacker(daemon):
    """A session with the helper that attacks from inside at /attack/attack."""
    mounts = [{"host_path": str(daemon.box.programs.helper_dir), "mount_path": "/attack", "mode": "ro"}]
    return daemon.session(unique("attack"), extra_mounts=mounts, memory_mb=64, pids_limit=32)


# --- results ----------------------------------------------------------------------------------


def test_result_has_every_key(shared):
    result = shared.exec("echo out; echo err >&2; exit 3")
    assert set(result) == RESULT_KEYS
    expected = {
        "session_id": shared.name, "backend_name": "native", "status": "completed", "exit_code": 3, "stdout": "out\n",
        "stderr": "err\n", "cause": "exited", "signal": None, "denied_syscalls": [], "stdout_bytes": 4,
        "stderr_bytes": 4, "stdout_truncated": False, "stderr_truncated": False, "encoding": "utf-8",
    }
    assert {key: result[key] for key in expected} == expected
    assert isinstance(result["exec_id"], int) and result["exec_id"] > 0
    assert result["duration_ms"] > 0 and result["cpu_ms"] >= 0 and result["peak_memory_bytes"] > 0


def test_exec_ids_count(session):
    ids = [session.exec("true")["exec_id"] for _ in range(3)]
    assert ids[0] < ids[1] < ids[2]


def test_text_is_not_trimmed(shared):
    assert shared.exec("printf '  \\n x \\n\\n'")["stdout"] == "  \n x \n\n"


def test_login_shell_and_argv(shared):
    assert shared.out("echo $0; shopt 2>/dev/null; pwd") == "sh\n/workspace\n"
    result = shared.exec(argv=["printf", "%s|", "a b", "$HOME", "*", ""])
    assert result["stdout"] == "a b|$HOME|*||"
    answer = shared.client.post(f"{shared.path}/exec", {"argv": ["/no/such/program"]})
    answer.error(404, "BoxValidationError", "/no/such/program")


def test_identity_inside(shared):
    assert shared.out("id -u; id -g; echo $HOME $USER; hostname") .startswith("1000\n1000\n/home/box box\n")


@pytest.mark.parametrize("fields,word", [
    ({}, "cmd"), ({"cmd": ""}, "cmd"), ({"cmd": "  \n"}, "cmd"), ({"cmd": 1}, "cmd"), ({"cmd": ["ls"]}, "cmd"),
    ({"cmd": "x" * 200000}, "cmd"), ({"cmd": "a\0b"}, ""), ({"argv": []}, "argv"), ({"argv": [""]}, "argv"),
    ({"argv": "ls"}, "argv"), ({"argv": [1]}, "argv"), ({"cmd": "ls", "argv": ["ls"]}, "argv"),
    ({"cmd": "ls", "workdir": "rel"}, "workdir"), ({"cmd": "ls", "workdir": ""}, "workdir"),
    ({"cmd": "ls", "workdir": 1}, "workdir"), ({"cmd": "ls", "workdir": "/" + "x" * 5000}, "workdir"),
    ({"cmd": "ls", "timeout_sec": -1}, "timeout_sec"), ({"cmd": "ls", "timeout_sec": "1"}, "timeout_sec"),
    ({"cmd": "ls", "timeout_sec": 1e12}, "timeout_sec"), ({"cmd": "ls", "timeout_sec": True}, "timeout_sec"),
    ({"cmd": "ls", "env": []}, "env"), ({"cmd": "ls", "env": {"A": 1}}, "env"), ({"cmd": "ls", "env": {"": "x"}}, "env"),
    ({"cmd": "ls", "env": {"A=B": "x"}}, "env"), ({"cmd": "ls", "env": {"A": None}}, "env"),
    ({"cmd": "ls", "stdin": 1}, "stdin"), ({"cmd": "ls", "stdin_base64": "%%%"}, "stdin_base64"),
    ({"cmd": "ls", "stdin_base64": "YQ"}, "stdin_base64"), ({"cmd": "ls", "stdin_base64": "Y Q=="}, "stdin_base64"),
    ({"cmd": "ls", "stdin": "a", "stdin_base64": "YQ=="}, "stdin"),
    ({"cmd": "ls", "encoding": "latin-1"}, "encoding"), ({"cmd": "ls", "concurrent": "yes"}, "concurrent"),
    ({"cmd": "ls", "stream": 1}, "stream"), ({"cmd": "ls", "spec": []}, "spec"), ({"cmd": "ls", "tiemout_sec": 1}, "timeout_sec"),
    ({"cmd": "ls", "spec": {"session_id": "another"}}, "session_id"), ({"cmd": "ls", "spec": {"cmd": "x"}}, "cmd"),
    ({"cmd": "ls", "spec": {"memory_mb": 1}}, "memory_mb"),
])
def test_asked_wrongly(daemon, fields, word):
    name = unique()
    if "spec" not in fields:
        daemon.session(name)
    error = daemon.post(f"/v1/sessions/{name}/exec", fields).error(400, "BoxValidationError")
    assert word in error["message"] + error.get("hint", ""), error


def test_longest_command_that_goes(shared):
    filler = "x" * (128 * 1024 - 1 - len("echo ; : "))
    assert shared.out(f"echo ; : {filler}") == "\n"


def test_spec_makes_the_session(daemon):
    name = unique()
    result = daemon.post(f"/v1/sessions/{name}/exec", {"cmd": "echo made", "spec": {"memory_mb": 100}}).ok()
    assert result["stdout"] == "made\n" and result["session_id"] == name
    assert daemon.get(f"/v1/sessions/{name}").ok()["memory_mb"] == 100
    daemon.post(f"/v1/sessions/{name}/exec", {"cmd": "true", "spec": {"memory_mb": 200}}).error(
        409, "BoxSessionConflictError", "memory_mb")
    assert daemon.post(f"/v1/sessions/{name}/exec", {"cmd": "echo again", "spec": {"memory_mb": 100}}).ok()[
        "stdout"] == "again\n"


def test_one_call(either):
    name = unique()
    spec = {"session_id": name, "cmd": "echo $A; pwd; cat", "env": {"A": "b"}, "workdir": "/workspace/deep/er",
            "stdin": "in", "memory_mb": 100, "timeout_sec": 20}
    result = either.post("/v1/exec", spec).ok()
    assert set(result) == RESULT_KEYS and result["stdout"] == "b\n/workspace/deep/er\nin"
    again = either.post("/v1/exec", spec).ok()
    assert again["exec_id"] > result["exec_id"]
    assert either.get(f"/v1/sessions/{name}").ok()["memory_mb"] == 100
    either.post("/v1/exec", {"cmd": "true"}).error(400, "BoxValidationError", "session_id")
    either.post("/v1/exec", {"session_id": name, "memory_mb": 100}).error(400, "BoxValidationError", "cmd")


# --- causes -----------------------------------------------------------------------------------


def test_cause_signal(shared):
    result = shared.exec("kill -SEGV $$")
    assert (result["cause"], result["signal"], result["exit_code"]) == ("signal", "SEGV", None) or (
        result["signal"] == "SIGSEGV" and result["cause"] == "signal" and result["exit_code"] is None), result
    assert result["status"] == "completed"


def spared(session):
    """Whether this session survives its commands' being killed: those without groups cannot."""
    return not session.info()["notes"]


def test_cause_timeout(either):
    session = either.session()
    result = session.exec("echo before; sleep 1000", timeout_sec=0.5)
    assert result["status"] == "timed_out" and result["cause"] == "timeout" and result["exit_code"] is None
    assert result["stdout"] == "before\n" and result["duration_ms"] >= 500
    if spared(session):
        assert session.out("echo after") == "after\n"


def test_session_lost_with_a_time_out(either):
    """Without groups a tree cannot be killed but with its session. Then that is said, always in the same way."""
    for _ in range(5):
        session = either.session()
        assert session.exec("sleep 1000", timeout_sec=0.1)["cause"] == "timeout"
        answer = session.client.post(f"{session.path}/exec", {"cmd": "echo after"})
        if spared(session):
            assert answer.ok()["stdout"] == "after\n"
        else:
            answer.error(404, "BoxSessionNotFoundError")
            session.client.post("/v1/sessions", {"session_id": session.name}).ok(201)
            assert session.out("echo new") == "new\n"
        session.delete().ok()


def test_31_cause_oom(attacker):
    """The command's tree dies, the session lives."""
    attacker.out("echo kept > /workspace/kept")
    for command in ("/attack/attack memory-bomb", "/attack/attack memory-bomb tree"):
        result = attacker.exec(command)
        assert result["cause"] == "oom", result
    assert attacker.out("cat /workspace/kept") == "kept\n"
    with_python = attacker.exec("python3 -c 'x = bytearray(512 << 20)'")
    assert with_python["cause"] == "oom", with_python
    assert attacker.out("echo on") == "on\n"


def test_30_cause_pids_limit(attacker):
    result = attacker.exec("for i in $(seq 100); do sleep 2 & done; wait", timeout_sec=20)
    assert result["cause"] == "pids_limit", result
    assert hostview.wait_until(lambda: attacker.client.post(f"{attacker.path}/exec", {"cmd": "true"}).status == 200, PATIENCE)
    assert attacker.out("echo on") == "on\n"


def test_30_session_that_is_full_of_processes(daemon):
    """What it did to itself is no failure of the server's."""
    session = daemon.session(pids_limit=20)
    session.exec("for i in $(seq 100); do sleep 1000 & done; wait", timeout_sec=20)
    answer = session.client.post(f"{session.path}/exec", {"cmd": "echo x"})
    assert answer.status == 200 or 400 <= answer.status < 500, answer
    answer = session.client.post(f"{session.path}/processes", {"command": "true"})
    assert answer.status == 201 or 400 <= answer.status < 500, answer
    session.delete().ok()


@pytest.mark.parametrize("how", ["bytes", "inodes"])
def test_33_cause_disk_quota(daemon, how):
    session = daemon.session(workspace_quota_mb=16)
    if how == "bytes":
        command = "head -c 64M /dev/zero > /workspace/fill"
    else:
        command = "cd /workspace; i=0; while : > f$i; do i=$((i+1)); [ $i -lt 200000 ] || exit 0; done; exit 1"
    result = session.exec(command, timeout_sec=60)
    assert result["cause"] == "disk_quota" and result["exit_code"] != 0, result
    assert session.out("rm -rf /workspace/*; echo on > /workspace/x; cat /workspace/x") == "on\n"


def test_cause_denied_syscall(attacker):
    result = attacker.exec("unshare -U true")
    assert result["exit_code"] != 0 and result["cause"] == "denied_syscall", result
    assert "unshare" in result["denied_syscalls"], result


def test_denied_call_that_did_no_harm(attacker):
    """A command that gets over it has simply exited."""
    result = attacker.exec("unshare -U true; exit 0")
    assert result["exit_code"] == 0 and result["cause"] == "exited"


def test_29_boxd_itself_is_out_of_reach(daemon):
    """From inside, with a network or without: neither its port nor its socket."""
    for network in ("off", "on"):
        answer = daemon.post("/v1/sessions", {"session_id": unique(), "network": network})
        if network == "on" and answer.status != 201:
            pytest.skip(f"no network for sessions on this machine: {answer.json['error']['message']}")
        session = Session(daemon.client, answer.ok(201)["session_id"])
        script = (
            "import socket, sys\n"
            f"for host in ['127.0.0.1', '0.0.0.0', '169.254.169.254'] + sys.argv[1:]:\n"
            "    s = socket.socket(); s.settimeout(2)\n"
            f"    try: s.connect((host, {daemon.port})); print('REACHED', host)\n"
            "    except OSError as e: pass\n"
            "print('done')\n")
        assert session.exec(argv=["python3", "-c", script], timeout_sec=60)["stdout"] == "done\n"
        assert session.exec(f"ls {daemon.run_dir}")["exit_code"] != 0
        session.delete().ok()


def test_34_every_descriptor(attacker):
    script = "import os\nn = 0\ntry:\n  while 1: os.dup(0); n += 1\nexcept OSError as e: print(e.errno, n > 1000)"
    result = attacker.exec(argv=["python3", "-c", script])
    assert result["stdout"] == "24 True\n", result
    assert attacker.out("echo on") == "on\n"


def test_42_preload_cannot_run_before_the_filter(attacker, daemon):
    """Variables of the loader have their effect in the command, where everything is on already, or none."""
    for name in ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PYTHONPATH", "GCONV_PATH"):
        result = attacker.exec("grep -h -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/self/status; id -u",
                               env={name: "/attack/attack:/workspace/evil.so"})
        assert result["exit_code"] == 0, (name, result)
        lines = dict(line.split(":\t") for line in result["stdout"].splitlines() if ":" in line)
        assert lines == {"Seccomp": "2", "NoNewPrivs": "1", "CapEff": "0000000000000000"}, (name, result)
        assert result["stdout"].endswith("\n1000\n")


def test_42_a_real_preload(attacker):
    compiled = attacker.exec(
        "cat > /tmp/e.c <<'E'\n#include <stdio.h>\n#include <unistd.h>\n"
        "__attribute__((constructor)) static void f(void){char b[8192];FILE*s=fopen(\"/proc/self/status\",\"r\");"
        "while(fgets(b,sizeof b,s))if(b[0]=='S'&&b[1]=='e'&&b[7]==':')fputs(b,stderr);}\nE\n"
        "gcc -shared -fPIC -o /workspace/evil.so /tmp/e.c", timeout_sec=60)
    if compiled["exit_code"] != 0:
        pytest.skip(f"no compiler inside: {compiled['stderr'][:200]}")
    result = attacker.exec(argv=["/bin/true"], env={"LD_PRELOAD": "/workspace/evil.so"})
    seen = [line for line in result["stderr"].splitlines() if line.startswith("Seccomp:")]
    assert seen and all(line.split()[1] == "2" for line in seen), result


# --- time-outs and trees ----------------------------------------------------------------------


def test_37_time_out_kills_the_tree_and_spares_the_session(attacker):
    """Double-forked, in sessions of their own, deaf to signals: dead; a managed process beside them lives."""
    attacker.start("sleep", "1000", process_id="bystander")
    mark = unique("mark")
    result = attacker.exec(f"/attack/attack daemon {mark}", timeout_sec=1)
    assert result["cause"] == "timeout", result
    assert hostview.wait_until(lambda: not hostview.with_argument(mark), 2 * SLOWNESS), hostview.with_argument(mark)
    assert attacker.process("bystander")["status"] == "running"
    attacker.client.delete(f"{attacker.path}/processes/bystander").ok()


def test_38_background_child_that_holds_stdout(shared):
    started = time.monotonic()
    result = shared.exec("sleep 1000 & echo done", timeout_sec=500)
    assert result["stdout"] == "done\n" and result["cause"] == "exited"
    assert time.monotonic() - started < PATIENCE


def test_no_time_out(daemon, session):
    assert session.out("sleep 0.2; echo x", timeout_sec=0) == "x\n"


def test_time_limits_of_the_configuration(start_boxd):
    boxd = start_boxd(config={"sessions": {"timeout_sec": 1, "max_timeout_sec": 2, "memory_mb": 99, "pids_limit": 33}})
    session = boxd.session()
    info = session.info()
    assert info["memory_mb"] == 99 and info["pids_limit"] == 33
    assert session.exec("sleep 1000")["cause"] == "timeout"
    for seconds in (0, 3):
        boxd.post(f"{session.path}/exec", {"cmd": "true", "timeout_sec": seconds}).error(
            400, "BoxValidationError", "timeout_sec")
    assert boxd.get("/v1/status").ok()["limits"]["max_timeout_sec"] == 2


# --- order ------------------------------------------------------------------------------------


def test_commands_run_in_order(session):
    """Sent one after another without waiting: each sees what those before it did."""
    # The first one holds the others up until all of them are there.
    bodies = ["while [ ! -e /tmp/go ]; do sleep 0.02; done; echo first >> /tmp/order"] + [
        f"echo {i} >> /tmp/order" for i in range(8)]
    connections = []
    for i, body in enumerate(bodies):
        connection = session.client.connection()
        session.client.send(connection, "POST", f"{session.path}/exec", json={"cmd": body})
        connections.append(connection)
        assert hostview.wait_until(lambda: session.info()["running"] == i + 1, PATIENCE)
    assert session.out("cat /tmp/order 2>/dev/null; touch /tmp/go", concurrent=True) == ""
    for connection in connections:
        assert json.loads(connection.getresponse().read())["exit_code"] == 0
        connection.close()
    assert session.out("cat /tmp/order") == "first\n" + "".join(f"{i}\n" for i in range(8))
    assert session.info()["running"] == 0


def test_concurrent_runs_beside(session):
    with ThreadPoolExecutor(3) as pool:
        waiting = pool.submit(session.out, "while [ ! -e /tmp/go ]; do sleep 0.02; done; echo over", timeout_sec=PATIENCE)
        assert hostview.wait_until(lambda: session.info()["running"] == 1, PATIENCE)
        others = [pool.submit(session.out, f"echo {i}", concurrent=True) for i in range(2)]
        assert [other.result(PATIENCE) for other in others] == ["0\n", "1\n"]
        assert not waiting.done()
        session.out("touch /tmp/go", concurrent=True)
        assert waiting.result(PATIENCE) == "over\n"


def test_sessions_run_in_parallel(daemon):
    one, other = daemon.session(), daemon.session()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.out, "while [ ! -e /tmp/go ]; do sleep 0.02; done", timeout_sec=PATIENCE)
        assert other.out("echo free") == "free\n"
        one.out("touch /tmp/go", concurrent=True)
        waiting.result(PATIENCE)


def test_many_concurrent_commands(daemon):
    session = daemon.session(pids_limit=400)
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda i: session.exec(f"echo {i}; sleep 0.05", concurrent=True), range(64)))
    assert [result["stdout"] for result in results] == [f"{i}\n" for i in range(64)]
    assert len({result["exec_id"] for result in results}) == 64


# --- input, output, environment ---------------------------------------------------------------


def test_stdin_text(shared):
    assert shared.exec("cat", stdin="lïne\n\n end")["stdout"] == "lïne\n\n end"
    assert shared.exec("cat")["stdout"] == ""
    assert shared.exec("cat", stdin="")["stdout"] == ""
    assert shared.exec("wc -c", stdin="x" * 3_000_000)["stdout"].strip() == "3000000"


def test_stdin_of_many_that_wait(start_boxd):
    """Together they have a ceiling, whatever session they are in; the small ones are not counted."""
    boxd = start_boxd(config={"limits": {"max_queued_bytes": "4M"}})
    session, other = boxd.session(), boxd.session()
    blocker = boxd.client.connection()
    boxd.client.send(blocker, "POST", f"{session.path}/exec", json={"cmd": "while [ ! -e /tmp/go ]; do sleep 0.02; done"})
    assert hostview.wait_until(lambda: session.info()["running"] == 1, PATIENCE)
    large = {"cmd": "wc -c", "stdin": "x" * (3 * MIB)}
    waiting = boxd.client.connection()
    boxd.client.send(waiting, "POST", f"{session.path}/exec", json=large)
    assert hostview.wait_until(lambda: session.info()["running"] == 2, PATIENCE)
    for body in (large, {"argv": ["true", *["x" * 100000] * 15]}, {"cmd": "true", "env": {"A": "x" * (2 * MIB)}}):
        error = boxd.post(f"{other.path}/exec", body).error(429, "BoxCapacityExceededError")
        assert "limits.max_queued_bytes" in error["hint"]
    assert other.out("wc -c", stdin="x" * 60000) == "60000\n"
    session.out("touch /tmp/go", concurrent=True)
    for connection, out in ((blocker, ""), (waiting, f"{3 * MIB}\n")):
        assert json.loads(connection.getresponse().read())["stdout"] == out
        connection.close()
    # Taken by its command, though that goes on; and one alone always goes.
    with session.stream("cat > /dev/null; echo taken; sleep 1000", stdin="x" * (8 * MIB), timeout_sec=0) as events:
        assert events.until("stdout")["data"] == "taken\n"
        assert other.out("wc -c", stdin="x" * (8 * MIB)) == f"{8 * MIB}\n"


def test_stdin_that_nobody_reads(shared):
    assert shared.exec("true", stdin="x" * 3_000_000)["exit_code"] == 0
    assert shared.exec("head -c 3", stdin="abcdef" * 500_000)["stdout"] == "abc"


def test_binary_both_ways(shared):
    data = bytes(range(256)) * 300
    result = shared.exec("cat; cat /dev/null >&2", stdin_base64=base64.b64encode(data).decode(), encoding="base64")
    assert base64.b64decode(result["stdout"]) == data
    assert result["encoding"] == "base64" and result["stdout_bytes"] == len(data) and result["stderr"] == ""


def test_invalid_output_is_replaced(shared):
    result = shared.exec(r"printf 'a\377b\303\050\360\237\230\200\0c\355\240\200'")
    assert result["stdout"] == b"a\xffb\xc3\x28\xf0\x9f\x98\x80\0c\xed\xa0\x80".decode(errors="replace")
    assert result["stdout_bytes"] == 14


def test_35_output_is_clipped_with_true_counts(shared):
    result = shared.exec("head -c 3000000 /dev/zero | tr '\\0' x; head -c 1500000 /dev/zero | tr '\\0' y >&2")
    assert result["stdout_bytes"] == 3000000 and result["stderr_bytes"] == 1500000
    assert result["stdout_truncated"] is True and result["stderr_truncated"] is True
    assert result["stdout"] == "x" * MIB and result["stderr"] == "y" * MIB
    edge = shared.exec(f"head -c {MIB} /dev/zero | tr '\\0' x")
    assert edge["stdout_truncated"] is False and len(edge["stdout"]) == MIB


def test_35_clipped_between_characters(shared):
    """A character that the limit cuts must not become a wrong one that was never written."""
    result = shared.exec("printf x; yes é | tr -d '\\n' | head -c 2000000")
    assert result["stdout_truncated"] is True
    assert set(result["stdout"].rstrip("\ufffd")) == {"x", "é"}


def test_35_endless_output(daemon):
    session = daemon.session()
    before = daemon.get("/healthz").ok()["resources"]["rss_bytes"]
    result = session.exec("yes", timeout_sec=2)
    assert result["cause"] == "timeout" and result["stdout_truncated"]
    assert result["stdout_bytes"] > 10 * MIB
    assert daemon.get("/healthz").ok()["resources"]["rss_bytes"] < before + 64 * MIB
    assert session.out("echo on") == "on\n"


def test_log_by_cursor(session):
    """What the result could not hold is read later, in pieces, byte for byte."""
    session.out("head -c 5000000 /dev/urandom > /workspace/data")
    result = session.exec("cat /workspace/data; echo err >&2", encoding="base64")
    data = session.client.get(session.file("/workspace/data")).body
    assert len(data) == 5000000 and base64.b64decode(result["stdout"]) == data[:MIB]
    path = f"{session.path}/execs/{result['exec_id']}/log"
    got, offset = b"", 0
    for _ in range(100):
        answer = session.client.get(f"{path}?stream=stdout&offset={offset}&limit=700000")
        assert answer.status == 200 and answer.headers["Content-Type"] == "application/octet-stream", answer
        assert answer.headers["X-Log-Total"] == "5000000" and answer.headers["X-Log-Kept"] == "5000000"
        assert answer.headers["X-Log-Running"] == "false"
        if not answer.body:
            break
        assert len(answer.body) <= 700000
        got += answer.body
        offset = int(answer.headers["X-Log-Next"])
        assert offset == len(got)
    assert got == data
    assert session.client.get(f"{path}?stream=stderr").body == b"err\n"
    assert session.client.get(f"{path}?offset=4999990").body == data[-10:]
    assert session.client.get(f"{path}?offset=6000000").body == b""


def test_log_that_is_not_there(session):
    session.out("true")
    for number in ("99", "0"):
        session.client.get(f"{session.path}/execs/{number}/log").error(404, "BoxValidationError")
    for path in ("execs/x/log", "execs/-1/log", "execs/1/log?stream=both", "execs/1/log?offset=-1",
                 "execs/1/log?limit=0", "execs/1/log?offset=99999999999999999999", "execs/99999999999999999999/log"):
        answer = session.client.get(f"{session.path}/{path}")
        assert answer.status in (400, 404), answer
        answer.error(answer.status, "BoxValidationError")


def test_log_of_a_running_command(session):
    connection = session.client.connection()
    session.client.send(connection, "POST", f"{session.path}/exec",
                        json={"cmd": "echo first; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo last"})
    number = 1
    path = f"{session.path}/execs/{number}/log"
    first = hostview.wait_until(
        lambda: (answer := session.client.get(path)).status == 200 and answer.body and answer, PATIENCE)
    assert first and first.body == b"first\n" and first.headers["X-Log-Running"] == "true"
    session.out("touch /tmp/go", concurrent=True)
    assert json.loads(connection.getresponse().read())["stdout"] == "first\nlast\n"
    connection.close()
    last = session.client.get(f"{path}?offset={first.headers['X-Log-Next']}")
    assert last.body == b"last\n" and last.headers["X-Log-Running"] == "false"


def test_logs_are_bounded(start_boxd):
    boxd = start_boxd(config={"output": {"session_log_bytes": "2M", "keep_bytes": "64K"}})
    session = boxd.session()
    ids = []
    for letter in "abcdef":
        result = session.exec(f"head -c 1M /dev/zero | tr '\\0' {letter}")
        assert result["stdout"] == letter * 65536 and result["stdout_bytes"] == MIB
        ids.append(result["exec_id"])
    boxd.get(f"{session.path}/execs/{ids[0]}/log").error(404, "BoxValidationError")
    last = boxd.get(f"{session.path}/execs/{ids[-1]}/log?limit=1048576")
    assert last.body == b"f" * int(last.headers["X-Log-Kept"]) and last.headers["X-Log-Total"] == str(MIB)
    kept = sum(int(answer.headers["X-Log-Kept"]) for number in ids
               if (answer := boxd.get(f"{session.path}/execs/{number}/log?limit=1")).status == 200)
    assert kept <= 2 * MIB
    # What has to go makes room, however often.
    for _ in range(12):
        number = session.exec("head -c 1M /dev/zero")["exec_id"]
        assert boxd.get(f"{session.path}/execs/{number}/log?limit=1").headers["X-Log-Kept"] == str(MIB)
    # More from one command than there is room for: the beginning, and the true count.
    result = session.exec("head -c 5M /dev/zero")
    answer = boxd.get(f"{session.path}/execs/{result['exec_id']}/log?limit=1")
    assert answer.headers["X-Log-Total"] == str(5 * MIB) and 0 < int(answer.headers["X-Log-Kept"]) <= 2 * MIB


def test_environment(shared):
    env = {"PLAIN": "x", "EMPTY": "", "SPACES": " a  b ", "LINES": "a\nb", "ÜNÏ": "ç", "PATH": "/usr/bin:/bin",
           "long": "y" * 100000}
    out = shared.exec(argv=["env", "-0"], env=env, encoding="base64")["stdout"]
    seen = dict(item.split("=", 1) for item in base64.b64decode(out).decode().split("\0") if item)
    assert {key: seen[key] for key in env} == env
    assert "PLAIN" not in shared.out("env")
    # Nothing of boxd's own environment is there.
    assert not {"LOGNAME_OF_BOXD", "SUDO_USER", "BOX_BUILD"} & set(seen)


def test_workdir_is_made(shared):
    name = unique("dir")
    assert shared.out("pwd; echo x > file", workdir=f"/workspace/{name}/deep/down") == f"/workspace/{name}/deep/down\n"
    assert shared.out(f"cat /workspace/{name}/deep/down/file") == "x\n"


def test_workdir_that_cannot_be(shared):
    for path in ("/usr/new/dir", "/proc/self/fd/3", "/etc/passwd/x"):
        answer = shared.client.post(f"{shared.path}/exec", {"cmd": "pwd", "workdir": path})
        if answer.status == 200:
            assert answer.json["exit_code"] not in (0, None) and answer.json["stdout"] == "", answer
        else:
            answer.error(answer.status)
            assert 400 <= answer.status < 500, answer


def test_2_workdir_by_a_link_into_proc(attacker):
    """CVE-2024-21626: no working directory outside the root."""
    attacker.out("for i in $(seq 0 40); do ln -sfn /proc/self/fd/$i /workspace/fd$i; done")
    for i in range(0, 40):
        answer = attacker.client.post(f"{attacker.path}/exec", {"cmd": "ls -a ../../.. ; pwd", "workdir": f"/workspace/fd{i}"})
        if answer.status == 200 and answer.json["exit_code"] == 0:
            assert "boxtest" not in answer.json["stdout"], answer
            assert answer.json["stdout"].splitlines()[-1].startswith("/"), answer


# --- streams ----------------------------------------------------------------------------------


def test_stream_comes_before_the_end(session):
    with session.stream("echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two >&2; exit 4") as events:
        event, data = next(events)
        assert event == "started" and set(data) == {"exec_id"}
        assert next(events) == ("stdout", {"data": "one\n"})
        session.out("touch /tmp/go", concurrent=True)
        rest = list(events)
    assert rest[0] == ("stderr", {"data": "two\n"})
    event, result = rest[-1]
    assert event == "result" and set(result) == RESULT_KEYS and len(rest) == 2
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("", "", 4)
    assert result["stdout_bytes"] == 4 and result["exec_id"] == data["exec_id"]


def test_stream_by_accept_header(daemon, session):
    with stream(session.client, "POST", f"{session.path}/exec", json={"cmd": "echo x"},
                headers={"Accept": "text/event-stream"}) as events:
        assert [event for event, _ in events] == ["started", "stdout", "result"]
    name = unique()
    with stream(session.client, "POST", "/v1/exec", json={"session_id": name, "cmd": "echo x", "stream": True}) as events:
        assert [event for event, _ in events] == ["started", "stdout", "result"]


def test_stream_cuts_between_characters(session):
    """Bytes of one character written apart arrive as one character."""
    script = r"printf 'a\360\237'; sleep 0.3; printf '\230\200b\303'; sleep 0.3; printf '\251'; printf '\377end\342\202'"
    with session.stream(script) as events:
        text = "".join(data["data"] for event, data in events if event == "stdout")
    assert text == "a😀bé\ufffdend\ufffd"


def test_stream_in_base64(session):
    blob = bytes(range(256)) * 2000
    with session.stream("cat", encoding="base64", stdin_base64=base64.b64encode(blob).decode()) as events:
        got = b""
        for event, data in events:
            if event == "stdout":
                got += base64.b64decode(data["data"], validate=True)
    assert got == blob


def test_stream_of_much(session):
    with session.stream("seq 1 1000000") as events:
        size = 0
        last = ""
        for event, data in events:
            if event == "stdout":
                size += len(data["data"])
                last = data["data"]
            elif event == "result":
                result = data
    assert size == 6888896 == result["stdout_bytes"] and last.endswith("1000000\n")


def test_stream_of_a_time_out(session):
    with session.stream("echo x; sleep 1000", timeout_sec=0.5) as events:
        seen = list(events)
    assert seen[-1][0] == "result" and seen[-1][1]["cause"] == "timeout"


def test_stream_that_cannot_begin(session):
    session.client.post(f"{session.path}/exec", {"cmd": "", "stream": True}).error(400)
    session.client.post("/v1/sessions/nobody/exec", {"cmd": "x", "stream": True}).error(404, "BoxSessionNotFoundError")


def test_stream_is_not_kept_from_a_slow_reader(daemon):
    """One who does not read holds up its command, not boxd's memory."""
    session = daemon.session()
    before = daemon.get("/healthz").ok()["resources"]["rss_bytes"]
    with session.stream("yes | head -c 200M", timeout_sec=PATIENCE) as events:
        next(events)
        time.sleep(1)
        assert daemon.get("/healthz").ok()["resources"]["rss_bytes"] < before + 64 * MIB
    assert session.out("echo on") == "on\n"


def test_with_aiohttp(daemon):
    """Another client, which keeps connections and sends many requests at once."""
    aiohttp = pytest.importorskip("aiohttp", reason="python3-aiohttp is not installed")
    session = daemon.session(pids_limit=400)

    @asynchronous
    async def run():
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(daemon.socket), limit=16)) as client:
            async def one(i):
                body = {"cmd": f"echo {i}", "concurrent": True}
                async with client.post(f"http://localhost{session.path}/exec", json=body) as answer:
                    return (await answer.json())["stdout"]

            assert await asyncio.gather(*(one(i) for i in range(100))) == [f"{i}\n" for i in range(100)]
            async with client.post(f"http://localhost{session.path}/exec", json={"cmd": "seq 1 100000", "stream": True}) as answer:
                assert answer.status == 200 and answer.content_type == "text/event-stream"
                text = (await answer.read()).decode()
            assert text.count("event: result") == 1 and text.count("event: started") == 1
            data = os.urandom(3 * MIB)
            async with client.put(f"http://localhost{session.file('/workspace/x')}", data=data) as answer:
                assert answer.status == 201
            async with client.get(f"http://localhost{session.file('/workspace/x')}") as answer:
                assert await answer.read() == data

    run()


# --- clients that leave -----------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
def test_client_that_leaves_ends_its_command(either, streamed):
    session = either.session()
    mark = unique("mark")
    connection = session.client.connection()
    session.client.send(connection, "POST", f"{session.path}/exec", json={
        "cmd": f"sh -c 'trap \"\" TERM HUP; sleep 1000; :' {mark} & sleep 1000; : {mark}", "timeout_sec": 0, "stream": streamed})
    assert hostview.wait_until(lambda: hostview.with_argument(mark), PATIENCE)
    connection.close()
    assert hostview.wait_until(lambda: not hostview.with_argument(mark), PATIENCE), "it goes on"
    assert hostview.wait_until(lambda: session.info()["running"] == 0, PATIENCE)
    if spared(session):
        assert session.out("echo on") == "on\n"


def test_client_that_leaves_while_it_waits(session):
    """A command that had not begun never runs."""
    first = session.client.connection()
    session.client.send(first, "POST", f"{session.path}/exec",
                        json={"cmd": "while [ ! -e /tmp/go ]; do sleep 0.02; done"})
    assert hostview.wait_until(lambda: session.info()["running"] == 1, PATIENCE)
    second = session.client.connection()
    session.client.send(second, "POST", f"{session.path}/exec", json={"cmd": "touch /tmp/ran"})
    assert hostview.wait_until(lambda: session.info()["running"] == 2, PATIENCE)
    second.close()
    assert hostview.wait_until(lambda: session.info()["running"] == 1, PATIENCE)
    session.out("touch /tmp/go", concurrent=True)
    assert first.getresponse().status == 200
    first.close()
    assert session.exec("ls /tmp/ran")["exit_code"] != 0


def test_36_attach_and_leave_many_times(daemon):
    """Clients that come and go cost nothing that stays."""
    session = daemon.session()

    def once(i):
        connection = session.client.connection()
        session.client.send(connection, "POST", f"{session.path}/exec", json={"cmd": "sleep 1000", "stream": bool(i % 2)})
        if i % 4 == 1:
            connection.getresponse()  # its head: the command has begun
        connection.close()

    def many(count):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(once, range(count)))
        assert hostview.wait_until(lambda: session.info()["running"] == 0, PATIENCE)
        session.out("true")
        return daemon.get("/healthz").ok()["resources"]

    before = many(100)
    after = many(600)
    assert after["open_fds"] <= before["open_fds"] + 8 and after["rss_bytes"] < before["rss_bytes"] + 8 * MIB, (before, after)


def init_of(session):
    """PID 1 of a session: the topmost process in the pid namespace of one of its commands."""
    token = f"1000.{random.randrange(10 ** 8)}"
    with session.stream(f"exec sleep {token}", concurrent=True, timeout_sec=0):
        found = hostview.wait_until(lambda: hostview.with_argument(token), PATIENCE)
        namespace = hostview.link(found[0], "ns/pid")
        return [pid for pid in hostview.ancestors(found[0]) if hostview.link(pid, "ns/pid") == namespace][-1]


def test_broken_session_is_made_anew(daemon):
    """Its init is killed from outside: that is noticed, and the next spec makes it again."""
    session = daemon.session()
    known = session.info()["backend_session_id"]
    os.kill(init_of(session), 9)

    def noticed():
        answer = session.client.get(session.path)
        return answer.status == 404 or answer.json["state"] == "broken"

    assert hostview.wait_until(noticed, PATIENCE)
    session.client.post(f"{session.path}/exec", {"cmd": "echo x"}).error(404, "BoxSessionNotFoundError")
    again = session.client.post("/v1/sessions", {"session_id": session.name}).ok(201)
    assert again["backend_session_id"] != known
    assert session.out("echo new") == "new\n"


def test_a_dying_session_is_not_used_again(daemon):
    """A command that is about to begin loses its session before boxd is told: once that is answered, the name is
    free."""
    session = daemon.session()
    known = session.info()["backend_session_id"]
    init, spawner = init_of(session), daemon.spawner()
    session.out("true")
    stopped = [spawner, *hostview.children(init)]  # who tells of the end, and who would begin it
    assert len(stopped) > 1
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as pool:
            refused = pool.submit(session.client.post, f"{session.path}/exec", {"cmd": "echo x"})
            time.sleep(0.2)
            os.kill(init, signal.SIGKILL)
            time.sleep(0.1)
            early = refused.done()
            os.kill(spawner, signal.SIGCONT)
            refused.result().error(404, "BoxSessionNotFoundError")
    finally:
        os.kill(spawner, signal.SIGCONT)
    assert not early
    again = session.client.post("/v1/sessions", {"session_id": session.name}).ok(201)
    assert again["backend_session_id"] != known


def test_who_leaves_early_takes_no_session_along(daemon):
    """Two ask for the same new session; the first leaves while it is being made. Its command goes, the session stays."""
    for number in range(40):
        name = unique()
        body = {"session_id": name, "cmd": "echo mine", "memory_mb": 200 + number}  # none was made ahead
        leaving = daemon.client.connection()
        daemon.client.send(leaving, "POST", "/v1/exec", json={**body, "cmd": "sleep 1000"})
        with ThreadPoolExecutor(1) as pool:
            staying = pool.submit(daemon.post, "/v1/exec", {**body, "concurrent": True})
            time.sleep(number % 8 / 1000)
            leaving.close()
            assert staying.result().ok()["stdout"] == "mine\n", number
        daemon.delete(f"/v1/sessions/{name}").ok()
