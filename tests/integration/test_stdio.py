"""boxd --stdio: as LangBot starts its own runtime, over pipes."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess

import pytest

import conftest
import daemon
import hostview
import rpc

PATIENCE = conftest.PATIENCE
TOKEN = "control-0123456789abcdef0123456789abcdef"
CONTEXT = {"instance_uuid": "i-1", "workspace_uuid": "w-1", "placement_generation": 1}


@pytest.fixture
def start_stdio(programs, base):
    """start_stdio(*arguments, config=…, env=…): a `boxd --stdio` and its pipes."""
    daemon.need_root()
    started = []

    def start(*more, identity="root", **options):
        boxd = rpc.Stdio(conftest.get_box(identity, daemon.add_boxd(programs), base), **options)
        started.append(boxd)
        return boxd.start(*more)

    yield start
    for boxd in reversed(started):
        boxd.close()


def wait_for_end(boxd):
    """By itself, and before LangBot would kill it: it sends SIGTERM after two seconds, SIGKILL two later."""
    return boxd.process.wait(4 * conftest.SLOWNESS)


# --- messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", ["root", "user"])
def test_serves(start_stdio, identity):
    boxd = start_stdio(identity=identity)
    boxd.write("not JSON\n[1, 2]\n\n{\"broken\n{}\n")
    assert boxd.ask("__ping").ok() == {}
    assert boxd.ask("box_health").ok() == {"name": "native", "available": True}
    result = boxd.ask("box_exec", {"session_id": "a", "cmd": "echo $((6*7)) | tee answer"}).ok()
    assert (result["status"], result["exit_code"], result["stdout"]) == ("completed", 0, "42")
    assert boxd.ask("box_exec", {"session_id": "a", "cmd": "cat answer"}).ok()["stdout"] == "42"
    # Confined as ever.
    assert rpc.seccomp_of(boxd.pid) == ("2", "1", 0)


def test_chunks(start_stdio):
    """Both ways, with characters of every length, and with much to escape."""
    boxd = start_stdio()
    text = "é中😀\"\\\n" * 5000
    assert len(text.encode()) > 3 * rpc.CHUNK
    command = f"printf %s {shlex.quote(text)} | tee kept; printf end"
    result = boxd.ask("box_exec", {"session_id": "a", "cmd": command}).ok()
    assert result["stdout"] == (text + "end").strip()
    for fill in ("a", "\\\\", "\\001", "中"):
        command = f"i=0; while [ $i -lt 5 ]; do i=$((i+1)); printf '{fill}%.0s' $(seq 20000); done"
        result = boxd.ask("box_exec", {"session_id": "a", "cmd": command}).ok()
        assert len(result["stdout"]) == 100000
    assert sum(b"chunk_start" in line for line in boxd.lines) == 5
    assert max(map(len, boxd.lines)) < rpc.PEER_LINE_MAX


def test_large_message(start_stdio):
    boxd = start_stdio()
    data = "x" * (10 << 20)
    boxd.ask("box_exec", {"session_id": "a", "cmd": "true", "env": {"UNUSED": "1"}, "ignored": data}).ok()


@pytest.mark.parametrize("lines", [
    '{"type":"chunk_start","total_size":99999999}\n',
    '{"type":"chunk_start","total_size":4}\n{"type":"chunk_data","data":"ab","offset":1}\n',
    '{"type":"chunk_start","total_size":4}\n{"type":"chunk_data","data":"abcde","offset":0}\n',
    '{"type":"chunk_start","total_size":4}\n{"type":"chunk_end"}\n',
])
def test_contradictions_end_it(start_stdio, lines):
    boxd = start_stdio().read()
    boxd.ask("__ping").ok()
    boxd.write(lines)
    assert wait_for_end(boxd) == 0
    boxd.wait_log("stdio_broken")


def test_peer_that_does_not_read(start_stdio):
    """Its answers wait, boxd does not; and when it reads, all of them are there."""
    boxd = start_stdio(config={"limits": {"max_sessions": 40}})
    numbers = []
    for i in range(30):
        command = "head -c 400000 /dev/zero | tr '\\0' a"
        numbers.append(boxd.send_request("box_exec", {"session_id": f"s{i}", "cmd": command}))
    boxd.wait_log("recovered")
    assert hostview.wait_until(lambda: len(boxd.names()) == 30, PATIENCE)
    for _ in range(20):
        assert boxd.get("/healthz").status == 200
    boxd.post("/v1/exec", {"session_id": "rest", "cmd": "echo yes"}).ok()
    boxd.read()
    for number in numbers:
        assert boxd.answer(number).ok()["stdout"] == "a" * 400000
    assert boxd.ask("__ping").ok() == {}


# --- life -------------------------------------------------------------------------------------


def test_end_of_input_ends_it(start_stdio):
    boxd = start_stdio().read()
    boxd.ask("box_exec", {"session_id": "a", "cmd": "true"}).ok()
    boxd.ask("box_start_managed_process",
             {"session_id": "a", "spec": {"command": "sh", "args": ["-c", "trap '' TERM; sleep 1000"]}}).ok()
    boxd.send_request("box_exec", {"session_id": "b", "cmd": "trap '' TERM; sleep 1000"})
    assert hostview.wait_until(lambda: len(boxd.inits()) >= 2, PATIENCE)
    before = boxd.processes()
    boxd.end_input()
    assert wait_for_end(boxd) == 0
    boxd.check_clean(before)
    assert "signal=EOF sessions=ended" in boxd.log()


def test_answers_come_before_the_end(start_stdio):
    """What was asked is answered, also without a line's end behind it."""
    boxd = start_stdio().read()
    boxd.ask("__ping").ok()
    boxd.write(json.dumps(rpc.request(70, "box_exec", {"session_id": "a", "cmd": "echo last"})))
    boxd.end_input()
    assert boxd.answer(70).ok()["stdout"] == "last"
    assert wait_for_end(boxd) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_sessions(start_stdio, number):
    boxd = start_stdio().read()
    boxd.ask("__ping").ok()
    running = boxd.send_request("box_exec", {"session_id": "a", "cmd": "sleep 1000"})
    assert hostview.wait_until(lambda: "a" in boxd.names() and boxd.inits(), PATIENCE)
    before = boxd.processes()
    boxd.send(number)
    assert boxd.answer(running).code == 1
    assert wait_for_end(boxd) == 0
    boxd.check_clean(before)


def test_broken_output_ends_it(start_stdio):
    boxd = start_stdio()
    boxd.process.stdout.close()
    boxd.send_request("__ping")
    assert wait_for_end(boxd) == 0


def test_killed_peer(start_stdio, tmp_path):
    """LangBot dies: its pipes close, and boxd with all it had goes too."""
    boxd = start_stdio().read()
    boxd.ask("box_exec", {"session_id": "a", "cmd": "true"}).ok()
    before = boxd.processes()
    os.kill(boxd.pid, signal.SIGKILL)
    boxd.process.wait(PATIENCE)
    assert hostview.wait_until(lambda: not any(map(rpc.is_alive, before)), PATIENCE), "sessions outlived it"


# --- where it lives and listens ---------------------------------------------------------------


def test_still_listens(start_stdio):
    boxd = start_stdio("--host", "127.0.0.1", "--ws-control-port", "0", tcp=False)
    boxd.ask("box_create_session", {"session_id": "a"}).ok()
    boxd.find_port()
    assert boxd.tcp.get("/healthz").ok()["resources"]["sessions"] == 1


def test_port_in_use(start_stdio):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        boxd = start_stdio("--ws-control-port", other.getsockname()[1], tcp=False)
        assert boxd.ask("__ping").ok() == {}
        assert boxd.get("/healthz").status == 200
    boxd.wait_log(r"warn not_listening address=127\.0\.0\.1:\d+")


def test_network_needs_a_token(start_stdio):
    boxd = start_stdio("--host", "0.0.0.0", "--ws-control-port", "0", tcp=False)
    assert boxd.ask("__ping").ok() == {}
    assert "no token" in boxd.wait_log(r"not_listening.*").group(0)
    boxd = start_stdio("--host", "0.0.0.0", "--ws-control-port", "0", tcp=False,
                       env={"LANGBOT_BOX_CONTROL_TOKEN": TOKEN})
    assert boxd.ask("__ping").ok() == {}
    boxd.port = int(boxd.wait_log(r"listening address=0\.0\.0\.0:(\d+)").group(1))
    assert boxd.anonymous.get("/v1/sessions").status == 401
    assert daemon.Client(("127.0.0.1", boxd.port), TOKEN).get("/v1/sessions").status == 200


def test_two_of_one_port(start_stdio):
    """The second has its own directories, whatever the first has."""
    first = start_stdio()
    assert first.ask("__ping").ok() == {}
    second = start_stdio()
    second.end_input()
    second.read()
    assert wait_for_end(second) == 0
    second.run_dir, second.state_dir = first.run_dir, first.state_dir
    second.start().read()
    assert second.ask("__ping").ok() == {}
    assert f"run_dir={first.run_dir}-2 " in second.log()
    second.end_input()
    assert wait_for_end(second) == 0
    assert first.ask("__ping").ok() == {}


def test_own_directories_by_default(start_boxd):
    boxd = start_boxd(start=False)
    made = subprocess.run([str(boxd.box.programs.boxd), "--stdio", "--ws-control-port", "5999", "--print-config"],
                          capture_output=True, timeout=PATIENCE, env=boxd.box.environment(), check=True)
    assert b'run_dir: "/run/boxd-stdio-5999"' in made.stdout
    assert b'state_dir: "/var/lib/boxd-stdio-5999"' in made.stdout
    assert b"adopt: false" in made.stdout


# --- what it refuses --------------------------------------------------------------------------


def test_files_cannot_be_served(start_boxd):
    boxd = start_boxd(start=False)
    result = boxd.call("--stdio")  # its standard input is /dev/null
    assert result.returncode == 1
    assert "standard input is not a pipe" in result.err


def test_tenancy_needs_an_instance(start_boxd):
    boxd = start_boxd(start=False, config={"tenancy": "required"})
    result = boxd.call("--stdio")
    assert result.returncode == 1
    assert "trusted_instance" in result.err and "LANGBOT_BOX_TRUSTED_INSTANCE_UUID" in result.err


# --- LangBot's variables ----------------------------------------------------------------------


def test_instance(start_stdio):
    boxd = start_stdio(env={"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": "i-1"}, config={"tenancy": "required"})
    spec = {"session_id": "a", "cmd": "echo mine"}
    assert boxd.ask("__ping").ok() == {}
    assert boxd.ask("box_exec", spec).code == 1
    assert boxd.ask("box_exec", spec, {**CONTEXT, "instance_uuid": "i-2"}).code == 1
    assert boxd.ask("box_exec", spec, CONTEXT).ok()["stdout"] == "mine"


def test_tree_in_the_environment(start_stdio, base):
    """LangBot's whole configuration: its directories are what may be mounted, what boxd does not know is told."""
    tree = {
        "enabled": True, "backend": "local", "limits": {"max_sessions": 7, "max_of_tomorrow": 1},
        "admission": {"required": False}, "local": {
            "profile": "default", "image": "", "host_root": "./data/box", "default_workspace": "",
            "skills_root": "skills", "allowed_mount_roots": ["./data/box"], "workspace_quota_mb": None},
        "default_memory_mb": 1536, "docker": {"cpu_limit_enabled": True}, "e2b": {"api_key": ""}, "tomorrow": {"a": 1},
    }
    boxd = start_stdio(env={"LANGBOT_BOX_CONFIG": json.dumps(tree), "BOX__TOMORROW__TOO": "1"}).read()
    host_root = boxd.directory / "data" / "box"  # which it makes
    assert boxd.ask("box_status").ok()["limits"]["max_sessions"] == 7
    assert boxd.ask("box_init", tree).ok() == {"initialized": True}
    spec = {"session_id": "a", "cmd": "echo kept > file; pwd", "host_path": str(host_root / "default")}
    assert boxd.ask("box_exec", spec).ok()["stdout"] == "/workspace"
    assert (host_root / "default" / "file").read_text() == "kept\n"
    boxd.ask("box_exec", {"session_id": "b", "cmd": "true", "host_path": "/usr"}).failed("BoxValidationError")
    log = boxd.log()
    assert "unknown_key" in log and "limits.max_of_tomorrow" in log and "'tomorrow'" in log
    assert "BOX__TOMORROW__TOO" in log
    assert "config_warning" not in log


@pytest.mark.parametrize("tree, said", [("{", "LANGBOT_BOX_CONFIG"), ("[]", "not a JSON object"),
                                        ('{"limits": {"max_sessions": "x"}}', "limits.max_sessions")])
def test_malformed_tree(start_boxd, tree, said):
    boxd = start_boxd(start=False, env={"LANGBOT_BOX_CONFIG": tree})
    result = boxd.call("--check-config")
    assert result.returncode == 1
    assert said in result.err


def test_wrapper(start_boxd):
    """The script that stands in for LangBot's own command."""
    boxd = start_boxd(start=False)
    script = boxd.directory / "lbp"
    script.write_text((conftest.HERE.parent.parent / "packaging" / "langbot" / "lbp").read_text())
    script.chmod(0o755)
    env = boxd.box.environment({"BOX__RUN_DIR": str(boxd.run_dir), "BOX__STATE_DIR": str(boxd.state_dir)})
    env["PATH"] = f"{boxd.box.programs.boxd.parent}:{env['PATH']}"
    done = subprocess.run([script, "box", "-s", "--ws-control-port", "0"], env=env, capture_output=True, timeout=PATIENCE,
                          input=json.dumps(rpc.request(1, "__ping")).encode() + b"\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["code"] == 0


def test_sitecustomize(start_boxd):
    """LangBot's own way to start its runtime becomes boxd; whatever else Python runs is left alone."""
    box = start_boxd(start=False).box
    env = box.environment({"PYTHONPATH": str(conftest.HERE.parent.parent / "packaging" / "langbot")})
    env["PATH"] = f"{box.programs.boxd.parent}:{env['PATH']}"

    def python(*words):
        return subprocess.run(["/usr/bin/python3", *words], env=env, capture_output=True, text=True, timeout=PATIENCE)

    assert re.fullmatch(r"boxd \d+\.\d+\.\d+\n", python("-m", "langbot_plugin.cli.__init__", "box", "--version").stdout)
    assert python("-c", "print(1)", "box").stdout == "1\n"
    assert "langbot_plugin" in python("-m", "langbot_plugin.cli.__init__", "other").stderr


def test_the_port_is_for_the_relay(start_stdio):
    """Anybody on the machine can connect to it: without a secret it has health and the relay, and no more."""
    boxd = start_stdio("--host", "127.0.0.1", "--ws-control-port", "0", tcp=False)
    assert boxd.ask("box_init", {"limits": {"max_sessions": 7}}).ok() == {"initialized": True}
    boxd.find_port()
    client = boxd.tcp
    assert client.get("/healthz").status == 200
    for method, path in (("GET", "/v1/sessions"), ("GET", "/v1/status"), ("GET", "/v1/skills")):
        assert client.request(method, path).status == 401, path
    assert client.post("/v1/exec", {"session_id": "x", "cmd": "true"}).status == 401
    for headers in ({}, {"X-LangBot-Instance-Id": "inst-1"}):
        with pytest.raises(Exception, match="401"):
            rpc.call(boxd, "__ping", headers=headers)
    relay = client.get("/v1/sessions/none/managed-process/ws")
    assert relay.error(400, "BoxSessionNotFoundError")


@pytest.mark.parametrize("first", ["eof", "term"])
def test_told_twice(start_stdio, first):
    """LangBot closes the pipe and sends SIGTERM at once: that is one end, not a hurry."""
    boxd = start_stdio()
    boxd.ask("box_init", {"limits": {"max_sessions": 7}}).ok()
    boxd.ask("box_create_session", {"session_id": "a"}).ok()
    if first == "eof":
        boxd.process.stdin.close()
    for _ in range(3):
        boxd.process.send_signal(signal.SIGTERM)
    assert wait_for_end(boxd) == 0, boxd.log()[-2000:]
    assert not list((boxd.run_dir / "sessions").glob("*"))
