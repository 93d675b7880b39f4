"""`box run` as people and programs use it: options, exit codes, results, signals, mounts, mistakes."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

import pytest

import hostview
from conftest import PATIENCE, ROOT, SLOWNESS, VM

MIB = 1 << 20


def shell(box, script, *options, **more):
    return box.run(*options, "--", "sh", "-c", script, **more)


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3, 42, 124, 125, 126, 127, 128, 200, 255])
def test_exit_code_is_the_commands(box, code):
    assert shell(box, f"exit {code}").returncode == code


def test_exit_code_of_a_time_out(box):
    assert box.run("--timeout", "0.2", "--", "sleep", "60").returncode == 124


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGHUP, signal.SIGPIPE])
def test_exit_code_of_a_signal(box, number):
    """128 + n, as a shell says it."""
    result = shell(box, f"kill -{int(number)} $$")
    assert result.returncode == 128 + number
    report = shell(box, f"kill -{int(number)} $$", "--json").json
    assert report["signal"] == number and report["exit_code"] is None and report["cause"] == "signal"


def test_command_not_found(box):
    for command in ("no-such-program", "/usr/bin/no-such-program", "./no-such-program"):
        result = box.run("--", command)
        assert result.returncode == 127, result
        assert command in result.err


def test_command_not_executable(box):
    for command in ("/etc/passwd", "/usr", "/etc/hosts"):
        result = box.run("--", command)
        assert result.returncode == 126, result
        assert command in result.err
    directory = box.directory()
    box.file(directory, "script", "#!/bin/sh\necho no\n", 0o644)
    assert box.run("--mount", f"{directory}:/workspace", "--", "./script").returncode == 126
    # No interpreter line and no binary: as execve says.
    box.file(directory, "text", "echo text\n", 0o755)
    assert box.run("--mount", f"{directory}:/workspace", "--", "./text").returncode == 126


def test_missing_interpreter(box):
    directory = box.directory()
    box.file(directory, "script", "#!/no/such/interpreter\n", 0o755)
    assert box.run("--mount", f"{directory}:/workspace", "--", "./script").returncode == 127


def test_no_command(box):
    result = box.run().failed()
    assert "no command" in result.err
    box.run("--").failed()
    box.run("--", "").failed()


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("word,near", [
    ("--memry", "--memory"), ("--mem", "--memory"), ("--netwrok", "--network"), ("--time-out", "--timeout"),
    ("--cpu", "--cpus"), ("--pid", "--pids"), ("--mounts", "--mount"), ("--read-olny", "--read-only"),
    ("--writeable", "--writable"), ("--worksapce-quota", "--workspace-quota"), ("--jsn", "--json"),
    ("--env_file", "--env-file"), ("--work-dir", "--workdir"), ("--secomp", "--seccomp"),
])
def test_typos_get_the_nearest_option(user_box, word, near):
    result = user_box.run(word, "1", "--", "true").failed()
    assert word in result.err and f"did you mean {near}?" in result.err, result
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("options,words", [
    (["--network", "of"], "did you mean off"),
    (["--network", "host"], "off or on"),
    (["--seccomp", "defualt"], "did you mean default"),
    (["--memory", "lots"], "not a size"),
    (["--memory", "-1M"], "not a size"),
    (["--memory", "1K"], "at least 4M"),
    (["--memory", "99999999999999999999G"], "not a size"),
    (["--cpus", "0"], "not a number of CPUs"),
    (["--cpus", "many"], "not a number of CPUs"),
    (["--pids", "0"], "pids must be"),
    (["--pids", "1.5"], "not a number of processes"),
    (["--timeout", "0.1ms"], "not a time"),
    (["--timeout", "soon"], "not a time"),
    (["--mount", "/tmp"], "SRC:DST"),
    (["--mount", "/tmp:workspace"], "absolute DST"),
    (["--mount", "/tmp:/workspace:wr"], "did you mean rw?"),
    (["--mount", "/tmp:/workspace:foo"], "ro or rw"),
    (["--mount", "/tmp:/workspace", "--mount", "/var/tmp:/workspace"], "given twice"),
    (["--mount", "/tmp:/x/../../etc"], "'..'"),
    (["--ro-path", "/usr/../etc"], "'..'"),
    (["--workdir", "relative"], "not absolute"),
    (["--env", "=x"], "no name"),
    (["--env-file", "/no/such/file"], "/no/such/file"),
    (["--image", "debian"], "host"),
    (["--allow-net", "10.0.0.0/8"], "network on"),
    (["--network", "on", "--allow-net", "10.0.0.1/8"], "bits set below"),
    (["--network", "on", "--allow-net", "everything"], "not an IP address"),
    (["--workspace-quota", "0"], "quota"),
    (["--workspace-quota", "1M,many"], "inodes"),
    (["--tmp-size", "1"], "at least 64K"),
    (["--writable", "--read-only"], "contradict"),
    (["--json=yes"], "takes no value"),
    (["--timeout"], "needs a value"),
    (["-x"], "unknown option '-x'"),
    (["--mount", "/no/such/directory:/workspace"], "/no/such/directory"),
    (["--ro-path", "/no/such/directory"], "/no/such/directory"),
])
def test_mistakes_are_explained(user_box, options, words):
    tail = [] if options[-1] == "--timeout" else ["--", "echo", "ran"]
    result = user_box.run(*options, *tail).failed()
    assert words in result.err, result
    assert result.err.startswith("box") and "ran" not in result.out
    # In JSON too, if that was asked for.
    error = user_box.run("--json", *options, *tail).failed().json["error"]
    assert words in error["message"] and error["code"]


def test_json_and_terminal_contradict(user_box):
    assert "--tty" in user_box.run("--json", "--tty", "--", "true").failed().json["error"]["message"]


def test_values_attached_or_apart(box):
    assert box.run("--env=A=1", "--env", "B=2", "--", "sh", "-c", "echo $A$B").ok().out == "12\n"
    assert box.run("--timeout=10s", "true").returncode == 0


def test_help(user_box):
    text = user_box.run("--help").ok().out
    for option in ("network", "allow-net", "memory", "cpus", "pids", "timeout", "mount", "ro-path", "read-only",
                   "writable", "image", "seccomp", "workspace-quota", "workdir", "env", "env-file", "interactive",
                   "tty", "json", "plan", "quiet", "strict"):
        assert f"--{option}" in text, option
    assert "run" in user_box.call("help").ok().out
    unknown = user_box.call("rnu").failed()
    assert "did you mean box run?" in unknown.err
    assert "see box help" in user_box.call("help", "foo").failed().err
    assert "usage: box version" in user_box.call("version", "--help").ok().out


# --- results ----------------------------------------------------------------------------------------

SCHEMA = {
    "status": str, "exit_code": (int, type(None)), "signal": (int, type(None)), "cause": str, "denied_syscalls": list,
    "stdout": str, "stderr": str, "stdout_bytes": int, "stderr_bytes": int, "stdout_clipped": bool,
    "stderr_clipped": bool, "duration_ms": (int, float), "cpu_ms": (int, float), "peak_memory_bytes": int,
    "peak_memory_of": str, "isolation": dict,
}
ISOLATION = {
    "namespaces": list, "ids": str, "capabilities": list, "seccomp": str, "cgroup": str, "limits": dict, "network": str,
    "allow_net": list, "read_only_root": bool, "quota": (dict, type(None)), "notes": list,
}


def check_schema(value, schema):
    assert set(value) == set(schema)
    for key, kind in schema.items():
        assert isinstance(value[key], kind), f"{key} is {value[key]!r}"


def test_json_schema(box):
    """One object, exactly these fields, of these types."""
    result = shell(box, "echo out; echo err >&2; exit 7", "--json")
    assert result.returncode == 7 and result.err == ""
    assert result.stdout.count(b"\n") == 1
    report = result.json
    check_schema(report, SCHEMA)
    check_schema(report["isolation"], ISOLATION)
    assert (report["status"], report["exit_code"], report["cause"]) == ("completed", 7, "exited")
    assert (report["stdout"], report["stderr"]) == ("out\n", "err\n")
    assert (report["stdout_bytes"], report["stderr_bytes"]) == (4, 4)
    assert report["denied_syscalls"] == [] and report["signal"] is None
    isolation = report["isolation"]
    assert set(isolation["namespaces"]) == {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"}
    assert isolation["capabilities"] == [] and isolation["seccomp"] == "default"
    assert isolation["network"] == "off" and isolation["read_only_root"] is True
    if box.root or VM:
        assert isolation["cgroup"] in ("v1", "v2") and report["peak_memory_of"] == "tree"
        assert isolation["notes"] == []


def test_json_usage(box):
    """Time and memory are those of the command, all its processes."""
    script = "x = bytearray(50 << 20)\nimport time\nt = time.process_time()\nwhile time.process_time() - t < 0.3: pass"
    report = box.run("--json", "--", "python3", "-c", script).ok().json
    assert report["peak_memory_bytes"] > 50 * MIB
    assert report["cpu_ms"] >= 250
    assert report["duration_ms"] >= report["cpu_ms"] * 0.8
    quiet = box.run("--json", "--", "true").ok().json
    assert quiet["peak_memory_bytes"] < 30 * MIB


def test_json_cause_denied_syscall(box):
    report = box.run("--json", "--", "unshare", "-U", "true").json
    assert report["cause"] == "denied_syscall" and report["denied_syscalls"] == ["unshare"]
    # A command that lived with it and succeeded needs no explanation, but may want the names.
    report = shell(box, "unshare -U true; exit 0", "--json").json
    assert report["cause"] == "exited" and report["denied_syscalls"] == ["unshare"]
    told = box.run("--", "unshare", "-U", "true")
    assert "denied system call: unshare" in told.err
    assert "denied" not in box.run("--quiet", "--", "unshare", "-U", "true").err


def test_json_invalid_utf8_is_replaced(box):
    report = shell(box, r"printf 'a\377\376b'; printf '\0' ; printf '\355\240\200' >&2", "--json").ok().json
    assert report["stdout_bytes"] == 5 and report["stderr_bytes"] == 3
    assert report["stdout"].startswith("a\ufffd") and report["stdout"].endswith("b\0")
    assert set(report["stderr"]) == {"\ufffd"}


def test_json_errors_are_objects(box):
    result = box.run("--json", "--", "no-such-program")
    assert result.returncode == 127
    assert result.json["error"]["code"] == "not_found"
    assert "no-such-program" in result.json["error"]["message"]


def test_plan_is_json_and_does_nothing(box):
    """The plan shows what the options ask for, and making it changes nothing."""
    directory = box.directory()
    before = hostview.snapshot()
    result = box.run("--plan", "--mount", f"{directory}:/workspace:ro", "--seccomp", "strict", "--env", "A=1",
                     "--", "touch", "/workspace/x").ok()
    plan = json.loads(result.stdout)
    assert not list(directory.iterdir())
    assert not hostview.more_than(before, box.programs.box)
    assert set(plan["namespaces"]) >= {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"}
    assert plan["seccomp"] == "strict" and plan["network"]["mode"] == "off"
    steps = {step["target"]: step for step in plan["steps"]}
    assert steps["/workspace"]["source"] == str(directory) and steps["/workspace"]["writable"] is False
    assert {"/", "/usr", "/proc", "/dev", "/tmp"} <= set(steps)
    assert plan["rlimits"]["nofile"] == {"soft": 4096, "hard": 65536}
    # Without a command as well, and with the errors of a run.
    json.loads(box.run("--plan").ok().stdout)
    box.run("--plan", "--mount", "/etc:/workspace", "--", "true").failed()
    box.run("--plan", "--memory", "1", "--", "true").failed()


def test_quiet_is_quiet(box):
    assert box.run("--quiet", "--", "true").ok().err == ""
    assert box.run("--quiet", "--timeout", "0.2", "--", "sleep", "9").err == ""


# --- input and output -----------------------------------------------------------------------------------


def test_stdin_only_when_asked(box):
    assert box.run("--", "cat", input=b"hello").ok().stdout == b""
    assert box.run("-i", "--", "cat", input=b"hello").ok().stdout == b"hello"
    assert box.run("--interactive", "--", "wc", "-c", input=bytes(5 * MIB)).ok().out.strip() == str(5 * MIB)


def test_stdin_that_is_not_read(box):
    """A command that ends without reading does not leave box waiting for its input."""
    read, write = os.pipe()
    try:
        assert box.run("-i", "--", "true", stdin=read).returncode == 0
    finally:
        os.close(read)
        os.close(write)


def test_stdin_from_a_file_and_closed(box):
    path = box.file(box.directory(), "input", "text in a file\n")
    with open(path) as stream:
        assert box.run("-i", "--", "cat", stdin=stream).ok().out == "text in a file\n"
    assert box.run("-i", "--", "cat", before=lambda: os.close(0)).ok().out == ""


def test_streams_stay_apart(box):
    result = shell(box, "echo 1; echo 2 >&2; echo 3")
    assert result.out == "1\n3\n" and "2\n" in result.err


def test_output_larger_than_the_pipe(box):
    size = 30 * MIB
    result = shell(box, f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2", "--quiet").ok()
    assert len(result.stdout) == size and len(result.stderr) == size


def test_binary_output(box):
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)"
    assert box.run("--", "python3", "-c", script).ok().stdout == bytes(range(256)) * 4096


def test_output_to_a_file(box):
    path = box.file(box.directory(), "out")
    with open(path, "wb") as stream:
        assert box.run("--", "seq", "100000", stdout=stream).returncode == 0
    assert path.read_text().split()[-1] == "100000"


def test_full_device(box):
    """Output that cannot be written is said, as far as there is somewhere to say it."""
    with open("/dev/full", "wb") as full:
        result = box.run("--", "seq", "100000", stdout=full)
    assert result.returncode != 0 or "No space left" in result.err, result


def test_many_arguments(box):
    """More than fits a message: they go another way, and arrive the same."""
    words = [f"word-{number}-" + "x" * 50 for number in range(5000)]
    result = box.run("--", "printf", "%s\n", *words).ok()
    assert result.out.split() == words
    long = "y" * 100000
    assert box.run("--", "printf", "%s", long, "").ok().out == long
    assert box.run("--env", f"BIG={long}", "--", "sh", "-c", "echo ${#BIG}").ok().out == "100000\n"


def test_empty_and_odd_arguments(box):
    words = ["", " ", "a b", "-", "--", "ü", "\n", "*", "$HOME", "\\", "'"]
    result = box.run("--", "python3", "-c", "import sys; print(sys.argv[1:])", *words).ok()
    assert result.out.strip() == str(words)


# --- environment, directories -------------------------------------------------------------------------


def test_environment_is_not_the_callers(box):
    result = box.run("--", "env", env={"SECRET": "s3cret", "LD_PRELOAD": "", "AWS_KEY": "k"}).ok()
    variables = dict(line.split("=", 1) for line in result.out.splitlines())
    assert variables == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/home/box", "USER": "box", "LOGNAME": "box", "LANG": "C.UTF-8",
    }


def test_environment_options(box):
    result = box.run("--env", "A=1", "--env", "B=two words", "--env", "PASSED", "--env", "MISSING", "--env", "A=3",
                     "--env", "EMPTY=", "--", "env", env={"PASSED": "on", "OTHER": "x"}).ok()
    variables = dict(line.split("=", 1) for line in result.out.splitlines())
    assert variables["A"] == "3" and variables["B"] == "two words" and variables["PASSED"] == "on"
    assert variables["EMPTY"] == ""
    assert "MISSING" not in variables and "OTHER" not in variables


def test_environment_file(box):
    directory = box.directory()
    path = box.file(directory, "vars", "# comment\n\nA=1\n  B=x y = z\nPASSED\r\nHOME=/tmp\nQ=\"quoted\"\n")
    other = box.file(directory, "other", "A=2")
    result = box.run("--env-file", path, "--env-file", other, "--env", "C=3", "--", "env",
                     env={"PASSED": "on"}).ok()
    variables = dict(line.split("=", 1) for line in result.out.splitlines())
    assert variables["A"] == "2" and variables["B"] == "x y = z" and variables["C"] == "3"
    assert variables["PASSED"] == "on" and variables["HOME"] == "/tmp" and variables["Q"] == '"quoted"'
    for text in ("no space=x\n", "=x\n"):
        bad = box.file(directory, "bad", text)
        assert "line 1" in box.run("--env-file", bad, "--", "true").failed().err
    secret = box.file(directory, "secret", "TOKEN=hunter2\nbad name=x\n")
    assert "hunter2" not in box.run("--env-file", secret, "--", "true").failed().err


def test_loader_variables_do_not_reach_the_runtime(box):
    """LD_PRELOAD and the like are for the command alone: box-init and the filter come before it."""
    directory = box.directory()
    result = box.run("--mount", f"{directory}:/workspace", "--env", "LD_PRELOAD=/workspace/evil.so",
                     "--env", "LD_LIBRARY_PATH=/workspace", "--env", "LD_DEBUG=all",
                     "--env", "LD_DEBUG_OUTPUT=/workspace/debug", "--", "true")
    assert result.returncode == 0, result
    traces = list(directory.glob("debug.*"))
    assert len(traces) <= 1, "more than one dynamically linked program saw it"


def test_workdir(box):
    assert box.run("--", "pwd").ok().out == "/workspace\n"
    for path in ("/tmp", "/usr/lib", "/", "/home/box", "/workspace/made/on/demand"):
        assert box.run("--workdir", path, "--", "pwd").ok().out == f"{path}\n"
    # One that cannot be made, or is no directory.
    for path in ("/usr/no/such", "/etc/passwd"):
        result = box.run("--workdir", path, "--", "pwd")
        assert result.returncode in (125, 126, 127) and path in result.err, result


def test_identity_inside(box):
    assert box.run("--", "id").ok().out.startswith("uid=1000(box) gid=1000(box)")
    assert box.run("--", "sh", "-c", "echo $HOME; touch ~/x && ls ~").ok().out == "/home/box\nx\n"
    assert box.run("--", "hostname").ok().out == "box\n"
    assert box.run("--", "getent", "hosts", "localhost").returncode == 0


def test_nothing_is_kept_between_runs(box):
    shell(box, "touch /tmp/x ~/x /workspace/x /dev/shm/x").ok()
    assert shell(box, "ls /tmp ~ /workspace /dev/shm | grep -x x").returncode == 1


# --- mounts ----------------------------------------------------------------------------------------------


def test_mount_read_write(box):
    """What is made inside belongs on the host to the owner of the directory."""
    directory = box.directory()
    box.file(directory, "there", "old")
    shell(box, "cat there && echo new > made && mkdir d && echo deep > d/f && ln -s f d/l && mv there moved",
          "--mount", f"{directory}:/workspace").ok()
    made = [directory / name for name in ("made", "d", "d/f", "d/l", "moved")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(box.uid, box.gid)}
    assert (directory / "d" / "f").read_text() == "deep\n"


@pytest.mark.parametrize("owner", [0, 1, 1000, 12345, 65534, 100000])
def test_mount_keeps_the_owner(root_box, owner):
    """Whoever that is; root included."""
    directory = root_box.directory()
    os.chown(directory, owner, owner + 1)
    box_file = directory / "old"
    box_file.write_text("x")
    os.chown(box_file, owner, owner + 1)
    other = directory / "others"
    other.write_text("x")
    os.chown(other, owner + 7, owner + 7)
    other.chmod(0o600)
    result = shell(root_box, "id -u; stat -c %u:%g . old; cat others; touch new; echo more >> old",
                   "--mount", f"{directory}:/workspace")
    assert result.out.split()[:3] == ["1000", "1000:1000", "1000:1000"], result
    assert "Permission denied" in result.err
    new = (directory / "new").stat()
    assert (new.st_uid, new.st_gid) == (owner, owner + 1)
    assert box_file.read_text() == "xmore\n"


def test_mount_read_only(box):
    directory = box.directory(0o777)
    box.file(directory, "file", "text", 0o666)
    script = "cat file; echo x > file; echo x > new; rm file; mkdir d; chmod 777 file; mv file x; touch -d 2001-01-01 file"
    result = shell(box, script, "--mount", f"{directory}:/workspace:ro")
    assert result.stdout == b"text"
    assert result.err.count("Read-only file system") == 7, result
    assert (directory / "file").read_text() == "text" and len(list(directory.iterdir())) == 1


def test_mount_read_only_covers_submounts(root_box):
    """A file system mounted below the source is read-only too, and stays restricted."""
    directory = root_box.directory(0o777)
    (directory / "sub").mkdir()
    script = f"mount -t tmpfs -o mode=777 none '{directory}/sub' && touch '{directory}/sub/there' && exec \"$@\""
    root_box.wrapper = ["unshare", "--mount", "sh", "-ec", script, "sh"]
    result = shell(root_box, "ls sub; touch sub/new; grep /workspace /proc/self/mountinfo",
                   "--mount", f"{directory}:/workspace:ro")
    lines = result.out.splitlines()
    assert lines[0] == "there" and "Read-only file system" in result.err
    assert len(lines) == 3
    for line in lines[1:]:
        assert {"ro", "nosuid", "nodev"} <= set(line.split()[5].split(",")), line


def test_mounts_made_later_do_not_appear(root_box):
    """Propagation is off, in both directions."""
    directory = root_box.directory(0o777)
    (directory / "sub").mkdir()
    with root_box.start("--mount", f"{directory}:/workspace", "-i", "--", "sh", "-c",
                        "echo READY; read x; ls sub | wc -l", stdin=subprocess.PIPE) as live:
        live.wait_output()
        subprocess.run(["mount", "-t", "tmpfs", "none", directory / "sub"], check=True, timeout=60)
        try:
            (directory / "sub" / "seen").touch()
            result_out, _ = live.process.communicate(b"\n", PATIENCE)
        finally:
            subprocess.run(["umount", directory / "sub"], check=True, timeout=60)
    assert result_out.strip() == b"0"


def test_mount_a_single_file(box):
    path = box.file(box.directory(), "file", "one file")
    assert box.run("--mount", f"{path}:/workspace/inside/name:ro", "--", "cat", "/workspace/inside/name").ok().out == "one file"


def test_mounts_inside_mounts(box):
    """In any order given: parents come first."""
    outer, inner, innermost = box.directory(), box.directory(), box.directory()
    (outer / "in").mkdir()
    (inner / "most").mkdir()
    for path in (outer / "in", inner / "most"):
        box.own(path)
    box.file(outer, "a", "outer")
    box.file(inner, "b", "inner")
    box.file(innermost, "c", "innermost")
    mounts = [f"{innermost}:/workspace/in/most:ro", f"{outer}:/workspace", f"{inner}:/workspace/in:ro"]
    options = [word for mount in mounts for word in ("--mount", mount)]
    result = shell(box, "cat a in/b in/most/c; touch ok; touch in/no; touch in/most/no", *options)
    assert result.out == "outerinnerinnermost"
    assert result.err.count("Read-only") == 2 and (outer / "ok").exists()


def test_mount_elsewhere(box):
    """At paths that do not exist yet, anywhere but in the sandbox's own directories."""
    directory = box.directory()
    box.file(directory, "f", "x")
    for target in ("/data", "/opt/a/b/c", "/srv", "/mnt/x", "/home/box/project", "/tmp/x", "/var/lib/x", "/etc/app"):
        assert box.run("--mount", f"{directory}:{target}:ro", "--", "cat", f"{target}/f").ok().out == "x", target


def test_mount_relative_source(box):
    directory = box.directory()
    box.file(directory, "f", "x")
    assert box.run("--mount", ".:/workspace", "--", "cat", "f", cwd=directory).ok().out == "x"


BLOCKED = ["/", "/etc", "/etc/ssl", "/proc", "/proc/self", "/sys", "/sys/kernel", "/dev", "/dev/shm", "/boot", "/run",
           "/run/lock", "/var/run", "/var", "/proc/1", "//", "/.", "/etc/."]


@pytest.mark.parametrize("path", BLOCKED)
def test_blocked_sources(box, path):
    """For the main mount, for further ones, for --ro-path, and behind links."""
    directory = box.directory()
    os.symlink(path, directory / "link")
    os.symlink("link", directory / "link-to-link")
    relative = os.path.relpath(os.path.normpath(path), directory)
    os.symlink(relative, directory / "relative")
    sources = [path, f"{directory}/link", f"{directory}/link-to-link", f"{directory}/relative", f"{directory}/link/."]
    if not Path(path).exists():
        pytest.skip(f"{path} does not exist here")
    for source in sources[:2] if VM else sources:
        for mount in (f"{source}:/workspace:ro", f"{source}:/data"):
            result = box.run("--mount", mount, "--", "true").failed()
            assert "may not be mounted" in result.err, result
        box.run("--ro-path", source, "--", "true").failed()
    box.run("--mount", f"{directory}:/workspace", "--mount", f"{path}:/data", "--", "true").failed()


def test_blocked_below_a_link_in_the_middle(box):
    directory = box.directory()
    os.symlink("/", directory / "root")
    tails = ["etc", "etc/ssl", "proc/self/root/etc", "dev/shm"] + ([] if box.root else ["root/x"])
    for tail in tails:
        result = box.run("--mount", f"{directory}/root/{tail}:/workspace", "--", "echo", "ran").failed()
        assert "ran" not in result.out


def test_other_homes_are_blocked(user_box):
    """root's home is root's, for everybody else."""
    user_box.run("--mount", "/root:/workspace", "--", "true").failed()


def test_own_home_is_fine(box):
    """Projects below one's own home can be mounted, wherever that is; for root below /root."""
    if not os.access(box.home, os.W_OK):
        pytest.skip(f"{box.home} cannot be written")
    directory = box.home / f"boxtest-{os.getpid()}"
    directory.mkdir()
    try:
        box.own(directory)
        box.file(directory, "f", "x")
        assert box.run("--mount", f"{directory}:/workspace", "--", "cat", "f").ok().out == "x"
    finally:
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


def test_ro_path(box):
    """Further read-only directories of the host, where they are."""
    directory = box.directory()
    box.file(directory, "f", "x")
    result = shell(box, f"cat {directory}/f; touch {directory}/g; ls /opt", "--ro-path", directory)
    assert result.out.startswith("x") and "Read-only" in result.err
    assert not (directory / "g").exists()


def test_too_many_mounts(box):
    directory = box.directory()
    options = [word for n in range(40) for word in ("--mount", f"{directory}:/m{n}")]
    assert "more than" in box.run(*options, "--", "true").failed().err


def test_many_mounts(box):
    directory = box.directory()
    options = [word for n in range(30) for word in ("--mount", f"{directory}:/m{n}")]
    box.run(*options, "--", "ls", "/m29").ok()


# --- the root file system -----------------------------------------------------------------------------


def test_root_is_read_only(box):
    script = "for d in / /usr /usr/bin /etc /dev /proc /run /var /home; do touch $d/x 2>/dev/null && echo $d; done; true"
    for options in ([], ["--read-only"]):
        assert shell(box, script, *options).ok().out == ""


def test_writable_root(box):
    """The rest can be written, and the host's files stay as they are."""
    before = sorted(os.listdir("/usr"))
    script = ("set -e; mkdir -p /opt/own /usr/own; echo y > /etc/own; touch /new /var/new; echo z > /usr/own/f; "
              "cat /etc/own /usr/own/f; ls /opt")
    assert shell(box, script, "--writable").ok().out == "y\nz\nown\n"
    assert sorted(os.listdir("/usr")) == before
    assert not os.path.exists("/new") and not os.path.exists("/etc/own")
    # And the next one starts anew.
    assert shell(box, "ls /usr/own", "--writable").returncode == 2


def test_writable_root_takes_programs(box):
    """Programs can be installed in /usr/local, ahead of the host's in PATH; the host's own stay root's."""
    script = ("set -e; printf '#!/bin/sh\\necho mine\\n' > /usr/local/bin/yes; chmod +x /usr/local/bin/yes; yes; "
              "mkdir /usr/local/lib/own; ! touch /usr/bin/new; ! rm -f /usr/bin/true")
    assert shell(box, script, "--writable").ok().out == "mine\n"
    assert not os.path.exists("/usr/local/bin/yes") and not os.path.exists("/usr/local/lib/own")


def test_writable_root_opens_nothing(root_box):
    """What only root may read under /usr stays so, though the layer over it is the sandbox's."""
    secret = Path("/usr/local/share", f"boxd-test-{os.getpid()}")
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.touch(0o600)
    try:
        secret.write_text("secret")
        result = shell(root_box, f"cat {secret}; chmod 644 {secret}; mv {secret} /tmp/x; cat /tmp/x; true", "--writable")
        assert "secret" not in result.ok().out
        assert secret.read_text() == "secret"
    finally:
        secret.unlink()


def test_writable_root_keeps_protections(box):
    """--writable is about files: masks, read-only /proc and devices stay."""
    script = "for f in /proc/sys/kernel/hostname /dev/x /proc/sysrq-trigger; do (echo x > $f) 2>/dev/null && echo $f; done; true"
    assert shell(box, script, "--writable").ok().out == ""
    result = box.attack("dev-swap", options=["--writable"]).ok()
    assert {label for label, (status, _) in result.tries.items() if status == "OK"} <= {"chmod:/dev/ptmx"}


def test_workspace_quota(root_box):
    """Bytes and inodes of a workspace of its own."""
    script = "df -P /workspace | tail -1; stat -f -c '%T %c %d' /workspace; touch x; id -u"
    result = shell(root_box, script, "--json", "--workspace-quota", "64M,2000").ok().json
    lines = result["stdout"].splitlines()
    available = int(lines[0].split()[3])
    assert 60 * 1024 <= available <= 72 * 1024, lines
    assert 2000 <= int(lines[1].split()[2]) <= 2600, lines
    assert result["isolation"]["quota"]["bytes"] == 64 * MIB
    assert result["isolation"]["quota"]["inodes"] == 2000


def test_tmp_size(box):
    report = shell(box, "df -P /tmp /home/box /workspace /dev/shm | tail -4 | awk '{print $2}'", "--tmp-size", "8M")
    assert set(report.out.split()) == {"8192"}


# --- signals ------------------------------------------------------------------------------------------

TRAP = "trap 'echo got-{0}; exit 9' {0}; echo READY; while :; do sleep 0.1; done"


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
def test_signals_are_forwarded(box, name):
    with box.start("--", "bash" if name == "QUIT" else "sh", "-c", TRAP.format(name)) as live:
        live.wait_output()
        live.process.send_signal(getattr(signal, f"SIG{name}"))
        result = live.result(15 * SLOWNESS)
    assert f"got-{name}" in result.out and result.returncode == 9, result


def test_signal_ends_a_plain_command(box):
    with box.start("--", "sh", "-c", "echo READY; sleep 100") as live:
        live.wait_output()
        live.process.terminate()
        result = live.result(15 * SLOWNESS)
    assert result.returncode == 128 + signal.SIGTERM


def test_second_signal_means_it(box):
    """A command that ignores the first is killed at the second."""
    with box.start("--", "sh", "-c", "trap '' TERM INT; echo READY; while :; do sleep 0.1; done") as live:
        live.wait_output()
        live.process.terminate()
        time.sleep(0.5)
        assert live.process.poll() is None
        live.process.terminate()
        result = live.result(15 * SLOWNESS)
    assert result.returncode in (128 + signal.SIGKILL, 128 + signal.SIGTERM), result


def test_ignored_signals_of_the_caller(box):
    """nohup and pipelines: what the caller ignores is the caller's business."""
    def ignore():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

    text = box.run("--", "grep", "-E", "Sig(Ign|Blk)", "/proc/self/status", before=ignore).ok().out
    values = [int(line.split()[1], 16) for line in text.splitlines()]
    assert values == [0, 0], text


# --- terminals ------------------------------------------------------------------------------------------


class Terminal:
    """`box run -t` on a terminal of the test's."""

    def __init__(self, box, *args, rows=24, columns=80):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.process = box.popen(["run", "-t", *args], stdin=slave, stdout=slave, stderr=slave, before=self._control)
        os.close(slave)
        self.seen = ""

    @staticmethod
    def _control():
        """In the child: its controlling terminal, as a shell's."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def expect(self, text, seconds=15 * SLOWNESS):
        """Reads until the text has appeared; what came before it is passed over."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self.seen!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:
                    data = b""
                assert data or text in self.seen, f"ended without {text!r}: {self.seen!r}"
                self.seen += data.decode(errors="replace")
        before, self.seen = self.seen.split(text, 1)
        return before

    def wait(self, seconds=20 * SLOWNESS):
        """The exit status; what is still written is read and passed over."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"does not end: {self.seen!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    time.sleep(0.05)
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def test_terminal(box):
    """A terminal of its own: tty says so, its size is the caller's, and input is echoed by it."""
    with Terminal(box, "--", "sh", rows=31, columns=97) as terminal:
        terminal.expect("$ ")
        terminal.type("tty; stty size; echo TERM=$TERM\n")
        terminal.expect("/dev/pts/0")
        terminal.expect("31 97")
        terminal.expect("TERM=xterm")
        terminal.type("exit 5\n")
        assert terminal.wait() == 5


def test_terminal_resize(box):
    script = "trap 'echo now $(stty size)' WINCH; echo READY; while :; do sleep 0.1; done"
    with Terminal(box, "--", "bash", "-c", script) as terminal:
        terminal.expect("READY")
        terminal.resize(50, 132)
        terminal.expect("now 50 132")


def test_terminal_interrupt(box):
    """^C is typed into the sandbox's terminal: it reaches the command, not box."""
    script = "trap 'echo interrupted; exit 3' INT; echo READY; while :; do sleep 0.1; done"
    with Terminal(box, "--", "sh", "-c", script) as terminal:
        terminal.expect("READY")
        terminal.type("\x03")
        terminal.expect("interrupted")
        assert terminal.wait() == 3


def test_terminal_end_of_input(box):
    with Terminal(box, "--", "sh", "-c", "echo READY; exec cat") as terminal:
        terminal.expect("READY")
        terminal.type("line\n")
        terminal.expect("line\r\nline")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_terminal_is_left_as_it_was(box):
    """Raw while it runs, and afterwards as before."""
    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        process = box.popen(["run", "-t", "--", "sh", "-c", "stty raw -echo; exit 0"], stdin=slave, stdout=slave,
                            stderr=slave)
        assert process.wait(PATIENCE) == 0
        assert termios.tcgetattr(slave) == before
    finally:
        os.close(master)
        os.close(slave)


def test_terminal_hangs_up(box):
    """When the caller's terminal goes, so does the command."""
    with Terminal(box, "--", "sh", "-c", "echo READY; sleep 100") as terminal:
        terminal.expect("READY")
        master, terminal.master = terminal.master, os.open("/dev/null", os.O_RDWR)
        os.close(master)
        terminal.process.wait(20 * SLOWNESS)


def test_terminal_needs_one(box):
    assert "terminal" in box.run("-t", "--", "true").failed().err


def test_job_control(box):
    """The terminal is the command's controlling terminal: a shell has job control."""
    with Terminal(box, "--", "bash", "--norc", "-i") as terminal:
        terminal.type("sleep 50 & jobs; kill %1; set -o | grep monitor\n")
        terminal.expect("Running")
        terminal.expect("monitor")
        terminal.expect("on")
        terminal.type("exit 0\n")
        assert terminal.wait() == 0


# --- several at once ------------------------------------------------------------------------------------


def test_a_hundred_at_once(box):
    """Each has its own output, exit code and files."""
    count = 20 if VM else 100
    results = [None] * count

    def work(number):
        script = f"echo {number} > /tmp/x; sleep 0.2; cat /tmp/x; exit {number % 100}"
        results[number] = shell(box, script, "--quiet")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = [str(result) for number, result in enumerate(results)
             if (result.returncode, result.out) != (number % 100, f"{number}\n")]
    assert not wrong, f"{len(wrong)} of {count}: {wrong[0]}"


# --- doctor -----------------------------------------------------------------------------------------------


def test_doctor(box):
    """A table for people, JSON for programs; exit status 0 where sandboxes can be made."""
    result = box.call("doctor")
    assert result.returncode == 0, result
    assert len(result.out.splitlines()) > 5
    report = box.call("doctor", "--json")
    assert report.returncode == 0
    assert isinstance(report.json, dict)
