"""The daemon itself: options, configuration, places, signals, restarts, confinement, logs, metrics, events."""

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hostview
from conftest import PATIENCE, ROOT, SLOWNESS
from daemon import Client, Session, asynchronous, stream, unique, websocket

TOKEN = "0123456789abcdef0123456789abcdef"


# --- options and configuration ----------------------------------------------------------------


def test_help_and_version(start_boxd):
    boxd = start_boxd(start=False)
    text = boxd.call("--help").ok().out
    for option in ("--config", "--listen", "--socket", "--state-dir", "--run-dir", "--token-file", "--log-format", "--log-level",
                   "--check-config", "--no-adopt"):
        assert option in text, option
    assert re.fullmatch(r"boxd \d+\.\d+\.\d+\n", boxd.call("--version").ok().out)


@pytest.mark.parametrize("args", [["--nope"], ["argument"], ["--listen"], ["--check-config=x"], ["--log-format", "xml"],
                                  ["--log-level", "loud"], ["--listen", "nonsense"], ["--listen", "127.0.0.1:99999"]])
def test_options_that_are_wrong(start_boxd, args):
    result = start_boxd(start=False).call(*args)
    assert result.returncode == 2 and result.err.startswith("boxd: "), result
    assert args[0].split("=")[0] in result.err, result


def test_warning_is_a_level(start_boxd):
    """Python's name for it."""
    boxd = start_boxd(start=False)
    boxd.configure({"log": {"level": "warning"}})
    boxd.call("--check-config", "--log-level", "warning").ok()
    boxd.start()
    boxd.get("/v1/status").ok()
    boxd.stop()
    assert " info " not in boxd.log()


GOOD = [
    {}, "", "box:\n", "box: {}\n", {"session_ttl_sec": 10, "limits": {"max_sessions": 5}}, "session_ttl_sec: 5m\n",
    {"mounts": {"allowed_roots": ["/srv"]}, "backend": "local", "local": {"profile": "default"}, "http": {"body_bytes": "8M"}},
]


@pytest.mark.parametrize("config", GOOD, ids=lambda value: str(value)[:30])
def test_check_config_good(start_boxd, config):
    boxd = start_boxd(start=False)
    boxd.configure(config)
    assert boxd.call("--check-config").ok().out.startswith("OK")
    assert not (boxd.run_dir / "lock").exists(), "it only looks"


BAD = [
    ({"sesion_ttl_sec": 10}, "session_ttl_sec"), ({"limits": {"max_session": 5}}, "max_sessions"),
    ({"session_ttl_sec": "soon"}, "session_ttl_sec"), ({"session_ttl_sec": 0}, "session_ttl_sec"),
    ({"limits": {"max_sessions": 5001}}, "max_sessions"), ({"limits": {"max_sessions": -1}}, "max_sessions"),
    ({"limits": 5}, "limits"), ({"adopt": "perhaps"}, "adopt"), ({"log": {"format": "xml"}}, "log.format"),
    ({"listen": ["0.0.0.0:1"]}, "token"), ({"backend": "nope"}, "backend"), ({"trusted_instance": "a b"}, "trusted_instance"),
    ({"admission": {"max_sessions": 2}}, "admission.max_sessions"), ({"tenancy": "perhaps"}, "tenancy"),
    ({"sessions": {"timeout_sec": 10, "max_timeout_sec": 5}}, "timeout_sec"), ({"max_sessions": 5}, "limits.max_sessions"),
    ("box: [1, 2]\n", ""), ("box: {\n", ""), ("- a\n", ""), ("box:\n\tx: 1\n", ""), ("box: {adopt: true, adopt: false}\n", "adopt"),
    ("a: &a [*a]\n", ""), ("box: !!python/object:os.system x\n", ""), ("\xff\xfe", ""), ("x" * 2000000, ""),
    ({"socket": "/" + "x" * 200}, "socket"),
]


@pytest.mark.parametrize("config,word", BAD, ids=lambda value: str(value)[:30])
def test_check_config_bad(start_boxd, config, word):
    boxd = start_boxd(start=False, tcp=False)
    boxd.configure(config)
    result = boxd.call("--check-config")
    assert result.returncode == 1 and word in result.err, result
    assert "OK" not in result.out
    assert boxd.call().returncode == 1, "what is not right does not start"


def test_check_config_tells_all_problems_and_where(start_boxd):
    boxd = start_boxd(start=False)
    boxd.configure("box:\n  session_ttl_sec: x\n  limits:\n    max_sessions: y\n    nope: 1\n")
    err = boxd.call("--check-config").err
    assert all(word in err for word in ("session_ttl_sec", "max_sessions", "nope")), err
    assert re.search(r"boxd\.yaml:\D*2", err) and re.search(r"boxd\.yaml:\D*4", err), err


def test_layers(start_boxd):
    """File, variables, flags: each over the one before."""
    boxd = start_boxd(start=False, env={"BOX__LIMITS__MAX_SESSIONS": "7", "BOX__LOG__LEVEL": "debug"})
    boxd.configure({"limits": {"max_sessions": 3, "max_managed_processes": 9}, "log": {"level": "error"}})
    printed = boxd.call("--print-config", "--log-level", "warn").ok().out
    assert re.search(r"max_sessions:\s*7\b", printed) and re.search(r"max_managed_processes:\s*9\b", printed)
    assert re.search(r"level:\s*\"?warn", printed)
    boxd.start()
    limits = boxd.get("/v1/status").ok()["limits"]
    assert limits["max_sessions"] == 7 and limits["max_managed_processes"] == 9
    # A newer LangBot may have more of them, so it is said and no more.
    unknown = start_boxd(start=False, env={"BOX__LIMITS__MAX_SESSION": "7"})
    result = unknown.call("--check-config").ok()
    assert "BOX__LIMITS__MAX_SESSION:" in result.err and "BOX__LIMITS__MAX_SESSIONS?" in result.err, result
    unknown.start()
    unknown.wait_log("warn unknown_key .*BOX__LIMITS__MAX_SESSION:")


def test_printed_configuration_is_one(start_boxd):
    boxd = start_boxd(start=False)
    boxd.configure({"limits": {"max_sessions": 3}})
    printed = boxd.call("--print-config").ok().out
    boxd.configure(printed)
    assert boxd.call("--check-config").ok().err == ""
    assert boxd.call("--print-config").ok().out == printed


def test_langbot_tree(start_boxd):
    tree = json.dumps({"backend": "local", "limits": {"max_sessions": 4}, "local": {"profile": "default"}})
    boxd = start_boxd(env={"LANGBOT_BOX_CONFIG": tree})
    assert boxd.get("/v1/status").ok()["limits"]["max_sessions"] == 4


def test_configuration_that_is_not_there(start_boxd):
    boxd = start_boxd(start=False)
    boxd.config_file.unlink()
    result = boxd.call()
    assert result.returncode == 1 and str(boxd.config_file) in result.err


# --- where it listens -------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_beyond_loopback_needs_a_token(start_boxd, address):
    boxd = start_boxd(start=False, tcp=False)
    result = boxd.call("--listen", address)
    assert result.returncode == 1 and "token" in result.err, result
    assert not boxd.socket.exists()


@pytest.mark.parametrize("content,mode,word", [
    ("short", 0o600, "characters"), (TOKEN, 0o644, "read"), (TOKEN, 0o620, "written"), ("a b" * 20, 0o600, "white space"),
    ("", 0o600, "characters"), ("x" * 10000, 0o600, "characters"), ("é" * 40, 0o600, "ASCII")])
def test_tokens_that_cannot_be(start_boxd, content, mode, word):
    boxd = start_boxd(start=False)
    boxd.set_token(content)
    boxd.token_file.chmod(mode)
    for args in ([], ["--check-config"]):
        result = boxd.call(*args)
        assert result.returncode == 1 and word in result.err and str(boxd.token_file) in result.err, result


def test_loopback_of_both_kinds(start_boxd):
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 on this machine")
    boxd = start_boxd(args=["--listen", "[::1]:0"])
    port = re.search(r"\[::1\]:(\d+)", boxd.out_file.read_text()).group(1)
    assert Client(("::1", int(port))).get("/healthz").status == 200
    assert boxd.tcp.get("/healthz").status == 200


def test_port_that_is_taken(start_boxd):
    with socket.create_server(("127.0.0.1", 0)) as server:
        boxd = start_boxd(start=False, tcp=False)
        result = boxd.call("--listen", f"127.0.0.1:{server.getsockname()[1]}")
    assert result.returncode == 1 and "127.0.0.1" in result.err, result
    boxd.check_clean()


def test_second_instance_is_refused(start_boxd):
    boxd = start_boxd()
    session = boxd.session()
    result = boxd.call()
    assert result.returncode == 1 and str(boxd.pid) in result.err, result
    assert session.out("echo on") == "on\n", "the first one is not disturbed"
    assert boxd.get("/healthz").status == 200


def test_two_instances_side_by_side(start_boxd):
    one, two = start_boxd(), start_boxd()
    name = unique()
    first, second = one.session(name), two.session(name)
    first.out("echo one > /workspace/x")
    second.out("echo two > /workspace/x")
    two.stop()
    assert first.out("cat /workspace/x") == "one\n"


def test_socket_is_gone_after_the_end(start_boxd):
    """Where the front may remove it: in a directory of its own user."""
    boxd = start_boxd(config={"user": "root"} if ROOT else {})
    assert boxd.socket.exists()
    boxd.stop(signal.SIGTERM)
    assert not boxd.socket.exists()


def test_stale_socket_is_replaced(start_boxd):
    boxd = start_boxd()
    boxd.kill9()
    assert boxd.socket.exists()
    boxd.start()
    assert boxd.get("/healthz").status == 200


def test_file_in_the_place_of_the_socket_is_not_touched(start_boxd):
    boxd = start_boxd(start=False)
    boxd.socket.write_text("precious")
    result = boxd.call()
    assert result.returncode == 1, result
    assert boxd.socket.read_text() == "precious"
    boxd.socket.unlink()


def test_51_places_are_closed_to_others(start_boxd):
    boxd = start_boxd()
    boxd.session()
    # The way to the socket may be open, if the front is another user; nobody else can put anything there.
    assert stat.S_IMODE(boxd.run_dir.stat().st_mode) & 0o022 == 0
    for path in (boxd.state_dir, boxd.run_dir / "sessions", boxd.run_dir / "inits"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    assert stat.S_IMODE(boxd.socket.stat().st_mode) in (0o600, 0o660)
    for path in [*boxd.run_dir.rglob("*"), *boxd.state_dir.rglob("*")]:
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            assert stat.S_IMODE(mode) & 0o077 == 0, path
    made = boxd.directory / "fresh"
    result = boxd.call("--check-config", "--run-dir", str(made))
    result.ok()


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o770])
def test_51_open_directories_are_refused(start_boxd, mode):
    boxd = start_boxd(start=False)
    boxd.state_dir.chmod(mode)
    result = boxd.call()
    assert result.returncode == 1 and str(boxd.state_dir) in result.err and "chmod" in result.err, result


def test_51_directory_of_somebody_else_is_refused(start_boxd):
    if not ROOT:
        pytest.skip("only root can make a directory somebody else's")
    boxd = start_boxd(start=False)
    os.chown(boxd.run_dir, 65534, 65534)
    result = boxd.call()
    assert result.returncode == 1 and str(boxd.run_dir) in result.err, result
    link = boxd.directory / "link"
    link.symlink_to(boxd.state_dir)
    assert boxd.call("--run-dir", link).returncode == 1


# --- signals and restarts ---------------------------------------------------------------------


def test_sigint_removes_all(start_boxd):
    """Checked by stop(): no process, group, mount, socket or record."""
    for identity in ("root", "user") if ROOT else ("user",):
        boxd = start_boxd(identity=identity)
        for _ in range(3):
            session = boxd.session()
            session.start("sh", "-c", "trap '' TERM; setsid sleep 1000 & while :; do sleep 1000; done")
        boxd.stop()


def test_stop_answers_what_is_under_way(start_boxd):
    """A command that waits is told; a stream ends; new requests are not taken."""
    boxd = start_boxd()
    session = boxd.session()
    answers = []

    def run():
        try:
            answers.append(Client(boxd.socket).post(f"{session.path}/exec", {"cmd": "sleep 1000", "timeout_sec": 0}))
        except Exception as problem:  # noqa: BLE001
            answers.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    assert hostview.wait_until(lambda: session.info()["running"] == 1, PATIENCE)
    started = time.monotonic()
    boxd.stop(signal.SIGTERM)
    thread.join(PATIENCE)
    assert time.monotonic() - started < PATIENCE
    assert len(answers) == 1 and not isinstance(answers[0], Exception), answers
    assert answers[0].status in (200, 503), answers


def test_second_signal_ends_at_once(start_boxd):
    boxd = start_boxd()
    session = boxd.session()
    connection = boxd.client.connection()
    boxd.client.send(connection, "POST", f"{session.path}/exec", json={"cmd": "sleep 1000", "timeout_sec": 0})
    assert hostview.wait_until(lambda: session.info()["running"] == 1, PATIENCE)
    boxd.send(signal.SIGTERM)
    boxd.wait_log(" stopping ")
    boxd.send(signal.SIGTERM)
    assert boxd.wait() == 1
    connection.close()


def prepare(boxd):
    """A session with files, a process and its output, and what identifies them."""
    session = boxd.session(unique("kept"), memory_mb=200)
    session.out("echo kept > /workspace/file; echo also > /tmp/file")
    session.start("sh", "-c", "echo line 1; echo problem >&2; while read x; do echo got $x; done", process_id="talker",
                  env={"A": "b"})
    session.start("true", process_id="over")
    session.ended("over")
    assert hostview.wait_until(lambda: session.process("talker")["stdout_bytes"] == 7, PATIENCE)
    return session, session.info()


def check_kept(boxd, session, before):
    after = session.info()
    for key in set(before) - {"last_used_at", "running", "processes"}:
        assert after[key] == before[key], key
    assert session.out("cat /workspace/file /tmp/file") == "kept\nalso\n"
    talker = session.process("talker")
    assert talker["status"] == "running" and talker["stdout_bytes"] == 7 and talker["env_keys"] == ["A"]
    assert talker["stderr_preview"] == "problem\n" and session.log("talker").body == b"line 1\n"
    assert session.process("over")["status"] == "exited"


@asynchronous
async def talk(boxd, session, since, send, expected):
    async with websocket(boxd, f"{session.path}/managed-process/talker/ws?since={since}") as ws:
        await ws.send(send)
        for line in expected:
            assert await ws.recv() == line


@pytest.mark.parametrize("identity", ["root", "user"])
@pytest.mark.parametrize("how", ["SIGTERM", "kill -9"])
def test_sessions_outlive_it(start_boxd, identity, how):
    """Files, processes, the relay: as if nothing had happened."""
    pytest.importorskip("websockets", reason="python3-websockets is not installed")
    boxd = start_boxd(identity=identity)
    session, before = prepare(boxd)
    if how == "SIGTERM":
        boxd.stop(signal.SIGTERM)
    else:
        boxd.kill9()
    boxd.start()
    assert boxd.names() == [session.name]
    check_kept(boxd, session, before)
    talk(boxd, session, 0, "hello", ["line 1", "got hello"])
    boxd.kill9()
    boxd.start()
    talk(boxd, session, 7, "again", ["got hello", "got again"])
    first = session.exec("echo new")
    assert first["stdout"] == "new\n"
    session.client.delete(f"{session.path}/processes/talker").ok()
    session.delete().ok()
    assert boxd.names() == []
    boxd.stop()


def test_exec_numbers_go_on(start_boxd):
    boxd = start_boxd()
    session = boxd.session()
    number = session.exec("true")["exec_id"]
    boxd.restart()
    assert session.exec("true")["exec_id"] > number


def test_adopted_sessions_obey(start_boxd):
    """Limits, time-outs and reuse hold for what was taken over; the reaper sees it too."""
    boxd = start_boxd()
    session = boxd.session(memory_mb=64)
    persistent = boxd.session(persistent=True)
    boxd.kill9()
    boxd.configure({"session_ttl_sec": 3})
    boxd.start()
    assert boxd.post("/v1/sessions", {"session_id": session.name, "memory_mb": 64}).status == 200
    boxd.post("/v1/sessions", {"session_id": session.name, "memory_mb": 65}).error(409, "BoxSessionConflictError")
    assert session.exec("sleep 1000", timeout_sec=0.3)["cause"] == "timeout"
    if ROOT:
        assert session.exec("python3 -c 'x = bytearray(256 << 20)'")["cause"] == "oom"
    assert hostview.wait_until(lambda: boxd.names() == [persistent.name], PATIENCE)


def test_adopted_command_is_ended(start_boxd):
    """Nobody can have its result any more: it does not go on unseen."""
    boxd = start_boxd()
    session = boxd.session()
    mark = unique("mark")
    connection = boxd.client.connection()
    boxd.client.send(connection, "POST", f"{session.path}/exec",
                     json={"argv": ["sh", "-c", "trap '' HUP TERM PIPE; sleep 1000; :", mark], "timeout_sec": 0})
    assert hostview.wait_until(lambda: hostview.with_argument(mark), PATIENCE)
    boxd.kill9()
    connection.close()
    boxd.start()
    assert hostview.wait_until(lambda: not hostview.with_argument(mark), PATIENCE)
    assert hostview.wait_until(lambda: session.info()["running"] == 0, PATIENCE)
    assert session.out("echo on") == "on\n"


@pytest.mark.parametrize("how", ["flag", "configuration"])
def test_no_adopt(start_boxd, how):
    boxd = start_boxd()
    session, _ = prepare(boxd)
    boxd.kill9()
    old = boxd.processes()
    assert old
    if how == "flag":
        boxd.start("--no-adopt")
    else:
        boxd.configure({"adopt": False})
        boxd.start()
    assert hostview.wait_until(lambda: boxd.names() == [], PATIENCE)
    assert hostview.wait_until(lambda: not [pid for pid in old if hostview.alive(pid)], 5 * SLOWNESS)
    session.client.get(session.path).error(404, "BoxSessionNotFoundError")
    boxd.session(session.name)
    boxd.stop(signal.SIGTERM)  # which then ends what it has
    boxd.check_clean()


def test_many_kills(start_boxd):
    """At any moment of creating, running and deleting: what was answered for is there, nothing else is left."""
    boxd = start_boxd()
    kept = boxd.session("kept")
    kept.out("echo x > /workspace/x")
    for round_ in range(8):
        done = threading.Event()

        def load():
            client = Client(boxd.socket)
            while not done.is_set():
                try:
                    name = unique("load")
                    client.post("/v1/exec", {"session_id": name, "cmd": "echo x"}, timeout=10)
                    client.delete(f"/v1/sessions/{name}", timeout=10)
                except Exception:  # noqa: BLE001  (it is being killed)
                    time.sleep(0.001)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.05 + 0.013 * round_)
        boxd.kill9()
        done.set()
        for thread in threads:
            thread.join(PATIENCE)
        boxd.start()
        assert kept.out("cat /workspace/x") == "x\n"
        left = [name for name in boxd.names() if name != "kept"]
        for name in left:
            boxd.delete(f"/v1/sessions/{name}").ok()
        # One session, and the few groups that the spawner keeps to use them again.
        assert hostview.wait_until(
            lambda: len({path.split("/kept.")[1].split("/")[0] for path in boxd.cgroups()}) <= 5, 5 * SLOWNESS)
        assert len(boxd.inits()) == 1
    boxd.stop()


def test_spawner_that_dies(start_boxd):
    """Without it nothing can be made: boxd ends and says so, sessions live, the next one has them."""
    boxd = start_boxd()
    session, before = prepare(boxd)
    os.kill(boxd.spawner(), signal.SIGKILL)
    assert boxd.wait() == 1
    assert "backend_lost" in boxd.log()
    boxd.start()
    check_kept(boxd, session, before)


def test_init_that_dies_while_it_is_away(start_boxd):
    """The record is there, the session is not: it is lost, not waited for."""
    boxd = start_boxd()
    session = boxd.session()
    other = boxd.session()
    boxd.kill9()
    inits = boxd.inits()
    assert len(inits) == 2, inits
    os.kill(inits[0], signal.SIGKILL)
    boxd.start()
    names = boxd.names()
    working = [one for one in (session, other) if one.client.post(f"{one.path}/exec", {"cmd": "true"}).status == 200]
    assert len(working) == 1 and working[0].name in names
    boxd.stop()


RECORDS = {
    "truncated": lambda text: text[:len(text) // 2],
    "empty": lambda text: "",
    "binary": lambda text: "\0\xff" * 500,
    "not an object": lambda text: "[]",
    "huge": lambda text: " " * (3 << 20),
    "another version": lambda text: json.dumps({**json.loads(text), "version": 999}),
    "another key": lambda text: json.dumps({**json.loads(text), "key": "0" * 16}),
    "hostile spec": lambda text: json.dumps({**json.loads(text), "spec": {"session_id": "../../x"}}),
    "hostile process": lambda text: json.dumps({**json.loads(text), "processes": [{"id": "x"}]}),
}


@pytest.mark.parametrize("change", RECORDS.values(), ids=RECORDS.keys())
def test_records_that_are_wrong(start_boxd, change):
    """A record that cannot be read costs its own session and no other; boxd starts, and nothing is left running."""
    boxd = start_boxd()
    good, bad = boxd.session(), boxd.session()
    good.out("echo x > /workspace/x")
    boxd.kill9()
    records = list((boxd.run_dir / "sessions").glob("*.json"))
    assert len(records) == 2
    mine = [path for path in records if bad.name in path.read_text()]
    mine[0].write_text(change(mine[0].read_text()))
    boxd.start()
    assert boxd.names() == [good.name]
    assert good.out("cat /workspace/x") == "x\n"
    assert hostview.wait_until(lambda: len(boxd.inits()) == 1, 5 * SLOWNESS), boxd.inits()
    boxd.session(bad.name)
    boxd.stop()


def test_foreign_files_among_the_records(start_boxd):
    boxd = start_boxd()
    good = boxd.session()
    boxd.kill9()
    directory = boxd.run_dir / "sessions"
    (directory / "README").write_text("not mine")
    (directory / ("f" * 16 + ".json")).symlink_to("/etc/passwd")
    (directory / "left.tmp").write_text("half")
    os.mkfifo(directory / ("e" * 16 + ".json"))
    (directory / ("d" * 16 + ".json")).mkdir()
    boxd.start()
    assert boxd.names() == [good.name]
    assert (directory / "README").read_text() == "not mine" and Path("/etc/passwd").exists()
    assert not (directory / "left.tmp").exists()
    boxd.stop()


def test_copied_record_is_not_a_second_session(start_boxd):
    boxd = start_boxd()
    good = boxd.session()
    boxd.kill9()
    record = next((boxd.run_dir / "sessions").glob("*.json"))
    (record.parent / ("0" * 16 + ".json")).write_text(record.read_text())
    boxd.start()
    assert boxd.names() == [good.name] and good.out("echo on") == "on\n"
    boxd.stop()


def test_sighup(start_boxd):
    """What can change does; what cannot is said; what is wrong changes nothing."""
    # The front must be able to read the files again, so here it stays who it is.
    who = {"user": "root"} if ROOT else {}
    boxd = start_boxd(config={"limits": {"max_sessions": 1}, **who}, token=TOKEN)
    session = boxd.session()
    boxd.post("/v1/sessions", {"session_id": unique()}).error(429)
    boxd.configure({"limits": {"max_sessions": 2}, "log": {"level": "debug"}, "sessions": {"memory_mb": 77}, **who})
    new_token = "f" * 40
    boxd.token_file.write_text(new_token)
    boxd.send(signal.SIGHUP)
    boxd.wait_log(r" reloaded ")
    assert boxd.get("/v1/status").ok()["limits"]["max_sessions"] == 2
    assert boxd.session().info()["memory_mb"] == 77 and session.info()["memory_mb"] == 512
    assert boxd.tcp.get("/v1/status").status == 401
    boxd.token = new_token
    assert boxd.tcp.get("/v1/status").status == 200
    boxd.configure({"limits": {"max_sessions": "many"}, **who})
    boxd.send(signal.SIGHUP)
    boxd.wait_log(r"reload_failed.*max_sessions")
    assert boxd.get("/v1/status").ok()["limits"]["max_sessions"] == 2
    boxd.configure({"limits": {"max_sessions": 9}, "scratch_mb": 77, **who})
    boxd.send(signal.SIGHUP)
    boxd.wait_log(r"reload_needs_restart.*scratch_mb")
    assert session.out("echo on") == "on\n"


def test_relays_are_closed_with_1001(start_boxd):
    websockets = pytest.importorskip("websockets", reason="python3-websockets is not installed")
    boxd = start_boxd()
    session = boxd.session()
    session.start("cat")

    @asynchronous
    async def run():
        async with websocket(boxd, f"{session.path}/managed-process/ws") as relay, websocket(
                boxd, f"{session.path}/pty/ws?cmd=cat") as pty:
            boxd.send(signal.SIGTERM)
            for ws in (relay, pty):
                try:
                    while True:
                        await ws.recv()
                except websockets.ConnectionClosed as closed:
                    assert closed.rcvd and closed.rcvd.code == 1001, closed
            await asyncio.sleep(0)

    run()
    assert boxd.wait() == 0


# --- confinement ------------------------------------------------------------------------------


def accounts():
    import pwd
    found = ["root"]
    try:
        pwd.getpwnam("boxd")
        found.append("boxd")
    except KeyError:
        pass
    return found


@pytest.mark.parametrize("account", ["root", "boxd", "user"])
def test_posture_of_the_front(start_boxd, account):
    """A bug in a parser is not root on the host."""
    if account == "boxd" and account not in accounts():
        pytest.skip("there is no account boxd on this machine")
    if account != "user" and not ROOT:
        pytest.skip("only root can start boxd as root")
    config = {} if account == "user" else {"user": account}
    boxd = start_boxd(identity="user" if account == "user" else "root", config=config)
    boxd.session().out("true")
    for pid in [boxd.pid, *(int(name) for name in os.listdir(f"/proc/{boxd.pid}/task"))]:
        status = hostview.status(pid)
        for key in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(status[key], 16) == 0, (key, status[key])
        if account != "user":
            assert int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        assert status["Groups"] == "" or account == "user", status["Groups"]
        ids = {int(word) for word in status["Uid"].split()}
        assert len(ids) == 1 and (ids == {0}) == (account == "root"), ids
        assert int(status["TracerPid"]) == 0
    # Not dumpable: its files in /proc are root's, whoever it is.
    assert os.stat(f"/proc/{boxd.pid}/mem").st_uid == 0
    # It has no way of starting anything: its only child is the spawner.
    assert len(hostview.children(boxd.pid)) == 1
    assert hostview.children(boxd.pid) == [boxd.spawner()]


def test_front_holds_no_descriptor_of_the_hosts_files(start_boxd):
    """Sockets, pipes, its own files, readings of groups: whatever else appears is a failure until it is allowed by name."""
    boxd = start_boxd()
    session = boxd.session()
    session.start("cat")
    session.out("true")
    allowed = re.compile(
        r"socket:|pipe:|anon_inode:|/dev/null$|/dev/pts/|/memfd:|/proc/\d+/(fd|statm)$|/proc/\d+/task/\d+|"
        + re.escape(str(boxd.directory)) + r"/|/sys/fs/cgroup/.*kept\.|/sys/fs/cgroup")
    strange = {number: target for number, target in hostview.fds(boxd.pid).items() if not allowed.match(target)}
    assert not strange


def test_inits_do_not_depend_on_the_front(start_boxd):
    """Their parents are the spawner's, not the front's; nothing inside sees boxd's run directory."""
    boxd = start_boxd()
    session = boxd.session()
    assert session.exec(f"ls {boxd.run_dir} {boxd.state_dir}")["exit_code"] != 0
    for pid in boxd.processes():
        if hostview.is_init(pid):
            assert boxd.pid != hostview.parent(pid)
            assert hostview.status(pid)["CapEff"] == "0" * 16


# --- logs -------------------------------------------------------------------------------------

HOSTILE = "x\u2028level=error event=forged \"quoted\" \u202ereversed ⁦ end"


def test_log_as_text(start_boxd):
    boxd = start_boxd(args=["--log-level", "debug"])
    session = boxd.session(HOSTILE)
    session.out("true")
    boxd.post("/v1/sessions", {"session_id": "a\n2026-01-01T00:00:00.000000Z error forged"}).error(400)
    boxd.get("/v1/sessions/%0a2026-01-01T00:00:00Z%20error%20forged").error(404)
    session.delete().ok()
    boxd.stop()
    lines = boxd.log().splitlines()
    for line in lines:
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (debug|info|warn|error) [a-z_]+( [a-z_]+=|$)", line), line
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", line), line
    assert not [line for line in lines if re.match(r"\S+ error forged", line)]
    assert len(boxd.log().split("\n")) == len(lines) + 1


def test_log_as_json(start_boxd):
    boxd = start_boxd(args=["--log-format", "json", "--log-level", "debug"])
    boxd.session(HOSTILE).delete().ok()
    boxd.stop()
    events = [json.loads(line) for line in boxd.log().split("\n")[:-1]]
    made, ended = (
        [event for event in events if event["event"] == kind] for kind in ("session_created", "session_ended"))
    assert [event["session"] for event in made + ended] == [HOSTILE] * 2 and ended[0]["how"] == "deleted", events
    assert {"starting", "listening", "recovered", "stopping", "stopped"} <= {event["event"] for event in events}
    for event in events:
        assert {"time", "level", "event"} <= set(event)
        assert event["level"] in ("debug", "info", "warn", "error")


def test_log_level(start_boxd):
    boxd = start_boxd(args=["--log-level", "error"])
    boxd.session().delete().ok()
    boxd.stop()
    assert boxd.log() == ""


def audit_of(boxd):
    text = (boxd.state_dir / "audit.jsonl").read_text()
    return [json.loads(line) for line in text.split("\n")[:-1]]


def test_audit_log(start_boxd):
    """Who, what, outcome, usage of every session and command; no environment, no token; cut at 400 characters."""
    boxd = start_boxd(token=TOKEN)
    name = unique()
    secret = "environment-value-of-someone"
    boxd.tcp.post("/v1/sessions", {"session_id": name}).ok(201)
    session = Session(boxd.client, name)
    session.exec("exit 3", env={"SECRET": secret})
    long = "echo '" + "é" * 1000 + "' # \x01"
    session.exec(long)
    session.exec("sleep 1000", timeout_sec=0.2)
    session.exec(argv=["echo", "one", "two"])
    session.start("sleep", "1000", process_id="worker", env={"SECRET": secret})
    session.client.delete(f"{session.path}/processes/worker").ok()
    session.delete().ok()
    boxd.stop()
    lines = [line for line in audit_of(boxd) if line.get("session") == name]
    text = (boxd.state_dir / "audit.jsonl").read_text()
    assert secret not in text and TOKEN not in text
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"]) for line in lines)
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    commands = [line for line in lines if "what" in line and "cause" in line]
    assert commands[0]["what"] == "exit 3" and commands[0]["exit_code"] == 3 and commands[0]["cause"] == "exited"
    cut = [line for line in commands if line["what"].startswith("echo 'é")]
    assert len(cut) == 1 and len(cut[0]["what"]) <= 401 and cut[0]["what"][:400] == long[:400]
    assert [line for line in commands if line["cause"] == "timeout"]
    assert all({"actor", "cpu_us", "wall_us", "peak_bytes"} <= set(line) for line in commands)
    assert {line["actor"] for line in lines} == {"unix", "token"}
    assert [line for line in lines if line.get("process") == "worker"]
    events = [line["event"] for line in lines]
    assert len(set(events)) >= 3, events  # a session made and ended, commands, processes


def test_audit_log_is_rotated(start_boxd):
    boxd = start_boxd(config={"audit": {"max_bytes": 4096, "files": 2}})
    session = boxd.session()
    audit = boxd.state_dir / "audit.jsonl"
    for _ in range(5):  # more than one writing: a batch of lines goes into one file
        for _ in range(10):
            session.exec(f"true {'x' * 300}")
        mark = unique()
        session.exec(f"true {mark}")
        assert hostview.wait_until(lambda: audit.exists() and mark in audit.read_text(), PATIENCE)
    boxd.stop()
    files = sorted(path.name for path in boxd.state_dir.glob("audit*"))
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"], files
    for name in files:
        path = boxd.state_dir / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert all(json.loads(line) for line in path.read_text().splitlines())
        assert path.stat().st_size < 80000


# --- what it says about itself ----------------------------------------------------------------


def test_status_health_readiness(daemon):
    status = daemon.get("/v1/status").ok()
    assert {"version", "backend", "active_sessions", "managed_processes", "running_commands", "session_ttl_sec", "uptime_sec",
            "limits", "pid"} <= set(status)
    assert status["backend"] == {"name": "native", "available": True} and status["pid"] == daemon.pid
    health = daemon.get("/healthz").ok()
    assert health["live"] is True
    assert set(health["resources"]) == {
        "sessions", "managed_processes", "rpc_connections", "rpc_requests", "open_fds", "rss_bytes"}
    assert health["resources"]["open_fds"] > 5 and health["resources"]["rss_bytes"] > 1 << 20
    ready = daemon.get("/readyz").ok()
    assert ready["ready"] is True and ready["checks"] and all(check["ok"] is True for check in ready["checks"].values())


def test_capabilities(daemon):
    """What is said of the machine is what a session then has, also where the front itself sees none of it."""
    body = daemon.get("/v1/capabilities").ok()
    assert body["backend"] == "native" and list(body["backends"]) == ["native"]
    native = body["backends"]["native"]
    assert native["available"] is True and "user" in native["namespaces"]
    session = daemon.session(memory_mb=64)
    notes = session.info()["notes"]
    assert all(native["limits"].values()) == (notes == []), (native, notes)
    mapped = int(session.out("awk '{ids += $3} END {print ids}' /proc/self/uid_map"))
    assert (native["ids"] == "a range for each session") == (mapped > 1 and daemon.box.root), (native, mapped)
    assert (native["cgroups"] == "none") == (not any(native["limits"].values()))
    network = daemon.post("/v1/sessions", {"session_id": unique(), "network": "on"})
    assert (network.status == 201) == native["network"]["available"], (network, native)
    assert native["network"]["available"] or native["network"]["reason"]
    if network.status == 201:
        daemon.delete(f"/v1/sessions/{network.json['session_id']}").ok()


def test_capabilities_for_many(daemon):
    """It takes a process of the spawner's to find out: one, for however many ask; and again and again."""
    with ThreadPoolExecutor(16) as pool:
        for answer in pool.map(lambda _: daemon.get("/v1/capabilities"), range(100)):
            assert answer.ok()["backends"]["native"]["available"] is True
    for _ in range(20):
        daemon.get("/v1/capabilities").ok()
    assert hostview.wait_until(lambda: [hostview.alive(pid) for pid in hostview.children(daemon.spawner())].count(False) == 0,
                               PATIENCE), "a child of the spawner's was not waited for"


METRICS = {
    "boxd_sessions", "boxd_managed_processes", "boxd_commands_total", "boxd_session_create_seconds", "boxd_exec_seconds",
    "boxd_session_delete_seconds", "boxd_sessions_reaped_total", "boxd_event_loop_lag_seconds", "process_open_fds",
    "process_resident_memory_bytes",
}


def test_metrics(daemon):
    """Prometheus' text format, with what was promised in it, and numbers that move."""
    def sample():
        answer = daemon.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain")
        return parse_metrics(answer.text)

    kinds, before = sample()
    assert METRICS <= set(kinds), METRICS - set(kinds)
    session = daemon.session()
    session.out("echo hello")
    session.exec("exit 1")
    session.exec("sleep 1000", timeout_sec=0.1)
    session.delete().ok()
    _, after = sample()

    def grew(name, by):
        assert after[name] - before[name] == by, name

    grew('boxd_commands_total{outcome="exited"}', 1)
    grew('boxd_commands_total{outcome="timeout"}', 1)
    grew("boxd_session_create_seconds_count", 1)
    grew("boxd_session_delete_seconds_count", 1)
    grew("boxd_exec_seconds_count", 3)
    assert after["boxd_sessions"] == before["boxd_sessions"]


def parse_metrics(text):
    """({name: type}, {sample: value}), strictly."""
    kinds, samples = {}, {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds and kind in ("counter", "gauge", "histogram"), line
            kinds[name] = kind
        elif line.startswith("# HELP "):
            assert len(line.split(" ", 3)) == 4, line
        else:
            found = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)((?:\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})?) (\S+)', line)
            assert found, line
            base = re.sub(r"_(bucket|sum|count)$", "", found[1])
            assert found[1] in kinds or kinds.get(base) == "histogram", line
            assert found[1] + found[2] not in samples, line
            samples[found[1] + found[2]] = float(found[3])
    for name, kind in kinds.items():
        if kind == "histogram":
            buckets = [value for key, value in samples.items() if key.startswith(name + "_bucket")]
            assert buckets == sorted(buckets) and buckets[-1] == samples[name + "_count"], name
            assert samples[f'{name}_bucket{{le="+Inf"}}'] == samples[name + "_count"]
    return kinds, samples


ROUTES = {
    "/v1/sessions": {"post", "get"}, "/v1/sessions/{id}": {"get", "delete"}, "/v1/sessions/{id}/usage": {"get"},
    "/v1/usage": {"get"}, "/v1/sessions/{id}/exec": {"post"}, "/v1/exec": {"post"},
    "/v1/sessions/{id}/execs/{n}/log": {"get"}, "/v1/sessions/{id}/processes": {"get", "post"},
    "/v1/sessions/{id}/processes/{pid}": {"get", "delete"}, "/v1/sessions/{id}/processes/{pid}/signal": {"post"},
    "/v1/sessions/{id}/processes/{pid}/log": {"get"}, "/v1/sessions/{id}/managed-process/{pid}/ws": {"get"},
    "/v1/sessions/{id}/managed-process/ws": {"get"}, "/v1/sessions/{id}/pty/ws": {"get"},
    "/v1/sessions/{id}/files/{path}": {"get", "head", "put", "delete", "post"}, "/v1/status": {"get"},
    "/v1/capabilities": {"get"}, "/v1/events": {"get"}, "/healthz": {"get"}, "/readyz": {"get"}, "/metrics": {"get"},
}


def shape(path):
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_openapi_names_every_route(daemon):
    document = daemon.get("/openapi.json").ok()
    assert document["openapi"].startswith("3.") and document["info"]["title"] and document["info"]["version"]
    described = {shape(path): {method for method in item if method in ("get", "put", "post", "delete", "head", "patch")}
                 for path, item in document["paths"].items()}
    promised = {shape(path): methods for path, methods in ROUTES.items()}
    promised["/openapi.json"] = {"get"}
    assert {path: methods for path, methods in described.items() if path in promised} == promised, (
        set(promised) - set(described))
    # The other way round: each that is described answers something else than "there is nothing here".
    for path, item in document["paths"].items():
        where = re.sub(r"\{[^}]*\}", "x", path)
        if where == "/v1/events":
            continue
        for method in described[shape(path)]:
            answer = daemon.client.request(method.upper(), where, body=b"{}" if method in ("post", "put") else None,
                                           headers={"Content-Type": "application/json"} if method in ("post", "put") else None)
            if answer.status == 404 and method != "head":
                assert "nothing at this path" not in answer.text, answer
            assert answer.status != 405 and answer.status < 500, answer


def test_openapi_is_sound(daemon):
    """References lead somewhere, parameters of paths are described, operations have names and answers."""
    document = daemon.get("/openapi.json").ok()

    def references(value):
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    for reference in references(document):
        assert reference.startswith("#/"), reference
        at = document
        for part in reference[2:].split("/"):
            assert part in at, reference
            at = at[part]
    seen = set()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method not in ("get", "put", "post", "delete", "head"):
                continue
            assert operation["responses"], (method, path)
            name = operation.get("operationId", (method, path))
            assert name not in seen, name
            seen.add(name)
            described = {parameter["name"] for parameter in [*operation.get("parameters", []), *item.get("parameters", [])]
                         if parameter.get("in") == "path"}
            assert described == set(re.findall(r"\{([^}]*)\}", path)), (method, path)


def test_openapi_answers_are_as_described(daemon):
    """Every key of a real answer is in the description of it, and the other way round."""
    document = daemon.get("/openapi.json").ok()
    schemas = document["components"]["schemas"]

    def properties(name):
        schema = schemas[name]
        found = set(schema.get("properties", {}))
        for part in schema.get("allOf", []):
            found |= properties(part["$ref"].rsplit("/", 1)[1]) if "$ref" in part else set(part.get("properties", {}))
        return found

    session = daemon.session()
    for name, answer in (("Session", daemon.get("/v1/sessions").ok()["sessions"][0]), ("SessionDetail", session.info()),
                         ("ExecResult", session.exec("true")), ("Process", session.start("sleep", "1000")),
                         ("Status", daemon.get("/v1/status").ok()), ("Health", daemon.get("/healthz").ok())):
        if name in schemas:
            assert set(answer) == properties(name), name
    session.delete().ok()


def test_events_of_a_session_made_for_a_command(daemon):
    """It is there before its command is, however fast that was; what was ended from outside has no exit code."""
    name = unique()
    with stream(daemon.client, "GET", f"/v1/events?session={name}") as events:
        result = daemon.post("/v1/exec", {"session_id": name, "cmd": "kill -9 $$"}).ok()
        assert result["exit_code"] is None and result["signal"] == "SIGKILL"
        daemon.post(f"/v1/sessions/{name}/exec", {"cmd": "sleep 1000", "timeout_sec": 1}).ok()
        seen = [next(events)[1] for _ in range(5)]
    assert [data["type"] for data in seen] == ["session_created", "exec_started", "exec_exited", "exec_started", "exec_exited"]
    killed, late = seen[2], seen[4]
    assert killed["exit_code"] is None and (killed["cause"], killed["signal"]) == ("signal", "SIGKILL")
    assert late["exit_code"] is None and late["cause"] == "timeout"
    daemon.delete(f"/v1/sessions/{name}").ok()


def test_events(daemon):
    """What happens is told, in order, and of one session alone if that is asked for."""
    name = unique()
    with stream(daemon.client, "GET", f"/v1/events?session={name}") as events, stream(
            daemon.client, "GET", "/v1/events") as everything:
        session = daemon.session(name)
        daemon.session(unique("other")).delete()
        session.exec("exit 3")
        session.start("sh", "-c", "exit 4", process_id="p")
        session.ended("p")
        session.start("sleep", "1000", process_id="q")
        daemon.delete(f"{session.path}/processes/q").ok()
        session.delete().ok()
        seen = []
        for event, data in events:
            assert event == data["type"] and data["session_id"] == name
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", data["time"])
            seen.append(data)
            if event == "session_deleted":
                break
        kinds = [data["type"] for data in seen]
        assert kinds[0] == "session_created" and kinds[-1] == "session_deleted"
        for kind in ("exec_started", "exec_exited", "process_started", "process_exited"):
            assert kind in kinds, kinds
        assert [data["sequence"] for data in seen] == sorted({data["sequence"] for data in seen})
        exited = [data for data in seen if data["type"] == "exec_exited"][0]
        assert exited["exit_code"] == 3 and exited["cause"] == "exited" and exited["exec_id"] >= 1
        assert "signal" not in exited
        assert [data for data in seen if data["type"] == "process_exited" and data.get("process_id") == "p"][0]["exit_code"] == 4
        others = set()
        for _, data in everything:
            others.add(data["session_id"])
            if data["type"] == "session_deleted" and data["session_id"] == name:
                break
        assert len(others) >= 2


def test_event_of_running_out_of_memory(daemon):
    session = daemon.session(memory_mb=64)
    with stream(daemon.client, "GET", f"/v1/events?session={session.name}") as events:
        session.exec("python3 -c 'x = bytearray(256 << 20)'")
        assert events.until("oom")["session_id"] == session.name


def test_event_of_reaping_and_adopting(start_boxd):
    boxd = start_boxd()
    session = boxd.session()
    boxd.kill9()
    boxd.configure({"session_ttl_sec": 1})
    boxd.start()
    with stream(boxd.client, "GET", "/v1/events") as events:
        assert events.until("session_reaped")["session_id"] == session.name
    assert re.search(r"^boxd_sessions_adopted_total 1$", boxd.get("/metrics").text, re.M)


def test_watchers_that_do_not_read(daemon):
    """They miss events; boxd keeps nothing for them."""
    import contextlib
    before = daemon.get("/healthz").ok()["resources"]["rss_bytes"]
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(stream(daemon.client, "GET", "/v1/events"))
        session = daemon.session()
        for _ in range(300):
            session.exec("true")
        assert daemon.get("/healthz").ok()["resources"]["rss_bytes"] < before + (16 << 20)


# --- service manager --------------------------------------------------------------------------


def test_notify(start_boxd):
    """READY=1 when it serves, STOPPING=1 when it ends."""
    boxd = start_boxd(start=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = boxd.directory / "notify"
        manager.bind(str(path))
        path.chmod(0o666)
        manager.settimeout(PATIENCE)
        boxd.env = {"NOTIFY_SOCKET": str(path)}
        boxd.start()
        assert b"READY=1" in manager.recv(4096)
        boxd.send(signal.SIGHUP)
        said = manager.recv(4096) + manager.recv(4096)
        assert b"READY=1" in said
        boxd.stop()
        said = b""
        while b"STOPPING=1" not in said:
            said = manager.recv(4096)


def test_socket_activation(start_boxd):
    """Sockets from outside are taken instead of its own."""
    boxd = start_boxd(start=False, tcp=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        fd = server.fileno()

        def pass_on():
            if fd != 3:
                os.dup2(fd, 3, inheritable=True)
            else:
                os.set_inheritable(3, True)
            boxd.box._become()

        shell = 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
        with open(boxd.log_file, "ab") as err:
            boxd.process = subprocess.Popen(
                ["sh", "-c", shell, "sh", *boxd.command()], env=boxd.box.environment(), preexec_fn=pass_on, close_fds=False,
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        boxd.pid = boxd.process.pid
        client = Client(("127.0.0.1", port))
        assert hostview.wait_until(lambda: try_get(client), PATIENCE), boxd.log()
        client.post("/v1/sessions", {"session_id": "by-activation"}).ok(201)
        boxd.stop()


def try_get(client):
    try:
        return client.get("/healthz").status == 200
    except OSError:
        return False
