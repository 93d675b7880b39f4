"""`box` and boxd together: every verb that talks to the daemon, driven as a person or a script would."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import stat
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

import pytest

import conftest
import hostview
from daemon import unique

ROOT = Path(__file__).resolve().parents[2]


class Cli:
    """`box` with its BOX_URL set to a boxd."""

    def __init__(self, boxd):
        self.boxd = boxd
        self.box = boxd.box
        self.env = {"BOX_URL": f"unix:{boxd.socket}"}

    def __call__(self, *args, env=None, **options):
        return self.box.call(*args, env={**self.env, **(env or {})}, **options)

    @contextlib.contextmanager
    def start(self, *args, **options):
        live = conftest.Live(self.box.popen(args, env=self.env, **options), ["box", *args])
        with live:
            yield live

    def terminal(self, *args, **options):
        return Terminal([str(self.box.programs.box), *args], self.box.environment(self.env), **options)


class Terminal:
    """A program on a terminal of its own, as a person sees it."""

    def __init__(self, command, env, rows=30, columns=100):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(
            command, env=env, stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, text):
        """Reads until it was shown; what came up to there is gone for the next call."""
        deadline = time.monotonic() + conftest.PATIENCE
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, f"no {text!r}: {self.seen!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536)
        self.seen = self.seen.split(text.encode(), 1)[1]

    def type(self, text):
        os.write(self.master, text.encode())

    def wait(self):
        """Its exit status; what it still shows is read meanwhile."""
        deadline = time.monotonic() + conftest.PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on: {self.seen!r}"
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65536)
        return self.process.returncode

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def cli(daemon):
    return Cli(daemon)


@pytest.fixture
def name(session):
    """Of a session that is there."""
    return session.name


# --- exec -------------------------------------------------------------------------------------


def test_exec(cli, name):
    result = cli("exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.returncode, result.out, result.err) == (3, "out\n", "err\n"), result
    assert cli("exec", "--workdir", "/tmp", name, "pwd").ok().out == "/tmp\n"
    assert cli("exec", name, "--env", "A=ü ß", "--env", "B", "--", "sh", "-c", "echo $A$B", env={"B": "2"}).ok().out == "ü ß2\n"
    assert cli("exec", name, "-i", "--", "cat", input=b"\0\xff\n").ok().stdout == b"\0\xff\n"
    assert cli("exec", name, "--", "cat").ok().stdout == b""


def test_exec_every_byte(cli, name):
    data = bytes(range(256)) * 8192
    assert cli("exec", name, "-i", "cat", input=data).ok().stdout == data


def test_exec_streams(cli, name):
    with cli.start("exec", name, "--", "sh", "-c", "echo READY; read x; sleep 60") as live:
        live.wait_output(b"READY")
        assert live.running() < 30


@pytest.mark.parametrize("command, options, status, said", [
    (["nosuch"], [], 127, "cannot run 'nosuch'"),
    (["/etc/passwd"], [], 126, "Permission denied"),
    (["sleep", "60"], ["--timeout", "300ms"], 124, "box: timed out after 300ms\n"),
    (["sh", "-c", "kill -9 $$"], [], 137, ""),
    (["sh", "-c", "kill -15 $$"], [], 143, ""),
    (["sh", "-c", "exit 255"], [], 255, ""),
])
def test_exec_status(cli, name, command, options, status, said):
    result = cli("exec", name, *options, "--", *command)
    assert result.returncode == status, result
    assert said in result.err and (said or not result.err), result


def test_exec_time_limit(cli, start_boxd):
    """boxd's own limit says how to have another; a limit of 0 is none."""
    short = Cli(start_boxd(config={"sessions": {"timeout_sec": 1}}))
    late = short("exec", "--create", "s", "--", "sleep", "60")
    assert late.returncode == 124 and "box: timed out after 1s\n  fix: --timeout TIME" in late.err, late
    assert short("exec", "s", "--timeout", "0", "--", "sh", "-c", "sleep 1.5; echo done").ok().out == "done\n"
    named = short("exec", "s", "--timeout", "200ms", "--", "sleep", "60")
    assert named.returncode == 124 and "fix:" not in named.err, named
    for text in ("0.0001ms", "", "x", "-1"):
        assert "is not a time" in cli("exec", "s", "--timeout", text, "--", "true").failed().err


def test_exec_out_of_memory(cli):
    cli.box.need_limits()
    name = unique()
    cli("create", name, "--memory", "64M").ok()
    result = cli("exec", name, "--", "python3", "-c", "bytearray(300 << 20)")
    assert result.returncode == 137 and "box: out of memory: killed (limit 64M)\n" in result.err, result
    assert cli("exec", name, "--quiet", "--", "python3", "-c", "bytearray(300 << 20)").err == ""
    cli("rm", name).ok()


def test_exec_json(cli, name):
    result = cli("exec", name, "--json", "--", "sh", "-c", "echo hi; exit 4")
    assert result.returncode == 4
    assert (result.json["stdout"], result.json["exit_code"], result.json["cause"]) == ("hi\n", 4, "exited")
    missing = cli("exec", unique("no"), "--json", "--", "true").failed()
    assert missing.json["error"]["code"] == "no_session"


def test_exec_creates(cli):
    name = unique("a/b c?")
    missing = cli("exec", name, "--", "true").failed()
    assert name in missing.err and "--create" in missing.err and "{" not in missing.err
    assert cli("exec", name, "--create", "--", "sh", "-c", "echo here > f; cat f").ok().out == "here\n"
    assert cli("exec", name, "--create", "--", "cat", "f").ok().out == "here\n"
    cli("rm", name).ok()


def test_exec_concurrent(cli, name):
    with cli.start("exec", name, "--", "sh", "-c", "echo READY; sleep 60") as live:
        live.wait_output()
        assert cli("exec", name, "--concurrent", "--", "echo", "beside").ok().out == "beside\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_exec_ends_with_box(cli, session, number):
    with cli.start("exec", session.name, "--", "sh", "-c", "echo READY; sleep 600") as live:
        live.wait_output()
        os.kill(live.pid, number)
        assert live.process.wait(conftest.PATIENCE) == -number
    assert hostview.wait_until(lambda: session.info()["running"] == 0, 10)


def test_exec_ends_with_its_reader(cli, session):
    with cli.start("exec", session.name, "--", "yes") as live:
        live.wait_output(b"y\n")
        live.process.stdout.close()
        assert live.process.wait(conftest.PATIENCE) == -signal.SIGPIPE
    assert hostview.wait_until(lambda: session.info()["running"] == 0, 10)


def test_exec_output_that_cannot_be_written(cli, name):
    with open("/dev/full", "wb") as full:
        result = cli("exec", name, "--", "echo", "lost", stdout=full)
    assert result.returncode == 125 and "cannot write to standard output" in result.err, result


# --- run --session, create --------------------------------------------------------------------


def test_run_in_session(cli):
    name = unique()
    result = cli("run", "--session", name, "--memory", "100M", "--cpus", "0.5", "--pids", "50", "--env", "A=1", "--",
                 "sh", "-c", "echo $A > f; cat f; exit 5")
    assert (result.returncode, result.out) == (5, "1\n"), result
    info = cli("inspect", name).ok().json
    assert (info["memory_mb"], info["cpus"], info["pids_limit"]) == (100, 0.5, 50)
    # Without a word about what it should be, it is taken as it is.
    assert cli("run", "--session", name, "--", "cat", "f").ok().out == "1\n"
    conflict = cli("run", "--session", name, "--memory", "200M", "--", "true").failed()
    assert "memory_mb" in conflict.err and "box rm" in conflict.err and "session_id" not in conflict.err
    # Only what was named is compared.
    assert cli("run", "--session", name, "--memory", "100M", "--", "cat", "f").ok().out == "1\n"
    cli("rm", name).ok()


@pytest.mark.parametrize("options", [
    ["--tty"], ["--plan"], ["--strict"], ["--seccomp", "dev"], ["--tmp-size", "1M"], ["--allow-net", "10.0.0.0/8"],
    ["--workspace-quota", "1M,10"],
])
def test_run_in_session_refuses(cli, options):
    name = unique()
    result = cli("run", "--session", name, *options, "--", "true").failed()
    assert f"{options[0]}" in result.err and "has no meaning for a session" in result.err and "fix:" in result.err
    assert name not in cli.boxd.names()


def test_run_keeps_mounts_that_it_does_not_name(cli):
    name, directory = unique(), cli.box.directory()
    cli("create", name, "--mount", f"{directory}:/data").ok()
    cli("exec", name, "--", "sh", "-c", "echo kept > f").ok()
    assert cli("run", "--session", name, "--network", "off", "--", "cat", "f").ok().out == "kept\n"
    cli("rm", name).ok()


def test_create(cli):
    name, directory = unique(), cli.box.directory()
    cli.box.file(directory, "hello", "there")
    result = cli("create", name, "--memory", "64M", "--persistent", "--mount", f"{directory}:/workspace:ro", "--mount",
                 f"{directory}:/data")
    assert result.ok().out == name + "\n"
    info = cli("inspect", name).ok().json
    assert info["persistent"] and info["host_path"] == str(directory) and info["host_path_mode"] == "ro"
    assert info["extra_mounts"] == [{"host_path": str(directory), "mount_path": "/data", "mode": "rw"}]
    assert cli("exec", name, "--", "cat", "hello", "/data/hello").ok().out == "therethere"
    assert cli("create", name, "--memory", "65M").failed().err.startswith("box create: session")
    assert cli("create", unique(), "--cpus", "0").failed().err.startswith("box create: --cpus")
    cli("rm", name).ok()


# --- shell ------------------------------------------------------------------------------------


def test_shell(cli, name):
    with cli.terminal("shell", name, rows=31, columns=101) as terminal:
        terminal.type("stty size; echo $TERM\n")
        terminal.expect("31 101")
        terminal.expect("xterm")
        terminal.resize(40, 120)
        terminal.type("sleep 0.2; stty size\n")
        terminal.expect("40 120")
        terminal.type("exit 7\n")
        assert terminal.wait() == 7
        assert terminal.is_restored()


def test_shell_command(cli, name):
    with cli.terminal("shell", name, "echo one; tty; exit 3") as terminal:
        assert terminal.wait() == 3
        terminal.expect("one")
        terminal.expect("/dev/pts/")
    with cli.terminal("shell", name, "--workdir", "/tmp", "--", "sh", "-c", 'pwd; printf "<%s>" "$@"', "x", "a b", "c'd") as terminal:
        assert terminal.wait() == 0
        terminal.expect("/tmp")
        terminal.expect("<a b><c'd>")


def test_shell_keys(cli, name):
    """Keys that mean something to a terminal mean it to the one inside."""
    with cli.terminal("shell", name) as terminal:
        terminal.type("sleep 600\n")
        terminal.expect("sleep 600")
        time.sleep(0.5)
        terminal.type("\x03")
        terminal.type("echo $((6*7))\n")
        terminal.expect("42")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert terminal.is_restored()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_shell_restores_the_terminal(cli, session, number):
    with cli.terminal("shell", session.name) as terminal:
        terminal.type("echo R''EADY\n")
        terminal.expect("READY")
        assert not terminal.is_restored()
        os.kill(terminal.process.pid, number)
        assert terminal.wait() == 128 + number
        assert terminal.is_restored()


def test_shell_when_its_session_goes(cli):
    name = unique()
    with cli.terminal("shell", "--create", name) as terminal:
        terminal.type("echo R''EADY\n")
        terminal.expect("READY")
        cli("rm", name).ok()
        assert terminal.wait() != 0
        assert terminal.is_restored()


def test_shell_paste(cli, name):
    """More at once than any buffer on the way takes, while the terminal echoes all of it."""
    lines = 20000

    def paste(master):
        data = ("y" * 30 + "\n").encode() * lines + b"\x04"
        while data:
            data = data[os.write(master, data[:4096]):]

    with cli.terminal("shell", name, "wc -l; echo E''ND") as terminal:
        threading.Thread(target=paste, args=[terminal.master], daemon=True).start()
        terminal.expect(f"{lines}")
        terminal.expect("END")
        assert terminal.wait() == 0


@pytest.mark.parametrize("shell", [[], ["bash", "-i"], ["sh"], ["sh", "-i"]])
@pytest.mark.parametrize("text, status", [
    (b"", 0),
    (b"echo $((6*7))\n", 0),
    (b"echo $((6*7))", 0),
    (b"sleep 0.7; echo $((6*7))\ncat\nexit 3\n", 0),
    (b"sleep 0.3; echo $((6*7)); exit 3\n", 3),
])
def test_shell_without_a_terminal(cli, name, shell, text, status):
    """Input that ends ends the shell, whenever it comes: also before there is one to read it."""
    result = cli("shell", name, *shell, input=text)
    assert result.returncode == status, result
    assert b"42" in result.stdout or not text, result


def test_shell_input_of_a_command(cli, name):
    """What has no shell gets it as it is."""
    cli("shell", name, "cat > f", input=b"no newline").ok()
    assert cli("exec", name, "--", "cat", "f").ok().out == "no newline"


def test_shell_refusals(cli):
    missing = cli("shell", unique("no")).failed()
    assert "no session" in missing.err and "--create" in missing.err
    with cli.terminal("shell", unique("no")) as terminal:
        assert terminal.wait() == 125
        assert terminal.is_restored()


@pytest.mark.parametrize("shell", [[], ["bash --norc"], ["sh"]])
def test_shell_prompt(cli, name, shell):
    with cli.terminal("shell", name, *shell) as terminal:
        terminal.expect("box@box:/workspace$ ")
        terminal.type("cd /tmp\n")
        terminal.expect("box@box:/tmp$ ")


# --- cp ---------------------------------------------------------------------------------------


def test_cp_file(cli, session):
    directory = cli.box.directory()
    data = os.urandom(3 << 20)
    source = directory / "data"
    source.write_bytes(data)
    source.chmod(0o751)
    cli.box.own(source)
    at = session.name + ":/workspace"
    cli("cp", source, at).ok()
    cli("cp", source, f"{at}/new/dir/renamed").ok()
    assert session.out("stat -c %a data new/dir/renamed; cmp data new/dir/renamed") == "751\n751\n"
    cli("cp", f"{at}/data", directory / "back").ok()
    assert (directory / "back").read_bytes() == data and (directory / "back").stat().st_mode & 0o7777 == 0o751
    cli("cp", f"{at}/data", ".", cwd=directory).ok()
    assert cli("cp", f"{at}/data", "-").ok().stdout == data
    cli("cp", "-", f"{at}/piped", input=data).ok()
    assert session.out("cmp data piped") == ""
    cli.box.file(directory, "empty")
    cli("cp", directory / "empty", at).ok()
    cli("cp", "/proc/filesystems", at).ok()
    assert session.out("stat -c %s empty; grep -c nodev filesystems").split()[0] == "0"
    assert cli("cp", f"{at}/empty", "-").ok().out == ""


def test_cp_odd_names(cli, session):
    directory = cli.box.directory()
    for odd in ("--x", "a b", "100%", "ü", "a:b", "#?"):
        cli.box.file(directory, odd, odd)
        cli("cp", "--", odd, f"{session.name}:/workspace/", cwd=directory).ok()
        cli("cp", f"{session.name}:/workspace/{odd}", f"back {odd}", cwd=directory).ok()
        assert (directory / f"back {odd}").read_text() == odd
    (directory / "s:").mkdir()
    cli.box.own(directory / "s:")
    cli.box.file(directory / "s:", "f", "looks remote")
    cli("cp", "./s:/f", f"{session.name}:/workspace/f", cwd=directory).ok()
    assert session.out("cat f") == "looks remote"


def test_cp_directory(cli, session):
    directory = cli.box.directory()
    tree = directory / "tree"
    for path in (tree, tree / "a", tree / "a" / "empty"):
        path.mkdir()
        cli.box.own(path)
    cli.box.file(tree / "a", "f", "1", 0o600)
    at = session.name + ":/workspace"
    refused = cli("cp", tree, at).failed()
    assert "is a directory" in refused.err and "box cp -r" in refused.err
    cli("cp", "-r", tree, at).ok()
    cli("cp", "-r", tree, f"{at}/other").ok()
    cli("cp", "-r", f"{tree}/.", f"{at}/other").ok()
    assert session.out("find tree other | sort | tr '\\n' ' '; stat -c %a tree/a/f") == (
        "other other/a other/a/empty other/a/f tree tree/a tree/a/empty tree/a/f 600\n")
    session.out("chmod 750 tree/a; ln -s /etc/passwd tree/link; mkfifo tree/pipe")
    result = cli("cp", "-r", f"{at}/tree", directory / "out")
    assert result.returncode == 1, result
    assert "tree/link': a symbolic link" in result.err and "tree/pipe': not a regular file" in result.err
    assert sorted(str(p.relative_to(directory)) for p in (directory / "out").rglob("*")) == ["out/a", "out/a/empty", "out/a/f"]
    assert (directory / "out" / "a").stat().st_mode & 0o777 == 0o750
    assert (directory / "out" / "a" / "f").stat().st_mode & 0o777 == 0o600


def test_cp_does_not_follow_links_here(cli, session):
    """A tree from inside meets a link of ours: nothing is written through it."""
    directory = cli.box.directory()
    outside = cli.box.directory()
    target = cli.box.file(outside, "precious", "old")
    (directory / "out").mkdir()
    (directory / "out" / "t").mkdir()
    (directory / "out" / "t" / "f").symlink_to(target)
    (directory / "out" / "t" / "d").symlink_to(outside)
    for path in (directory / "out", directory / "out" / "t"):
        cli.box.own(path)
    session.out("mkdir -p t; echo new > t/f")
    cli("cp", "-r", f"{session.name}:/workspace/t", directory / "out").ok()
    assert target.read_text() == "old" and (directory / "out" / "t" / "f").read_text() == "new\n"
    session.out("mkdir t/d; echo new > t/d/precious")
    cli("cp", "-r", f"{session.name}:/workspace/t", directory / "out").failed()
    assert target.read_text() == "old"


def test_cp_targets(cli, session):
    """A link that was named is written through; a device is not replaced."""
    directory = cli.box.directory()
    real = cli.box.file(directory, "real", "old")
    (directory / "link").symlink_to("real")
    session.out("echo new > f")
    cli("cp", f"{session.name}:/workspace/f", directory / "link").ok()
    assert (directory / "link").is_symlink() and real.read_text() == "new\n"
    cli("cp", f"{session.name}:/workspace/f", "/dev/null").ok()
    assert Path("/dev/null").is_char_device()
    (directory / "nowhere").symlink_to("missing")
    assert "leads nowhere" in cli("cp", f"{session.name}:/workspace/f", directory / "nowhere").failed().err
    assert (directory / "nowhere").is_symlink() and not (directory / "missing").exists()


def test_cp_to_what_is_no_file(cli, session):
    """Pipes and devices, by their names and by links, as /dev/stdout is one: written to, and still there afterwards."""
    directory = cli.box.directory()
    session.out("echo new > f")
    source = f"{session.name}:/workspace/f"
    stdout = directory / "stdout"
    stdout.symlink_to("/proc/self/fd/1")
    assert cli("cp", source, stdout).ok().out == "new\n"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        cli("cp", source, stdout, stdout=theirs).ok()
        assert ours.recv(100) == b"new\n"
    appended = cli.box.file(directory, "appended", "old\n")
    with open(appended, "ab") as file:
        cli("cp", source, stdout, stdout=file).ok()
        file.write(b"more\n")
    assert appended.read_text() == "old\nnew\nmore\n"
    assert os.readlink(stdout) == "/proc/self/fd/1"

    fifo, link = directory / "fifo", directory / "link"
    os.mkfifo(fifo)
    os.chmod(fifo, 0o666)
    link.symlink_to("fifo")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for name in (fifo, link):
            cli("cp", source, name).ok()
            assert os.read(reader, 100) == b"new\n"
    finally:
        os.close(reader)
    assert fifo.is_fifo() and os.readlink(link) == "fifo"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_cp_to_a_device(cli, session):
    directory = cli.box.directory()
    session.out("echo new > f")
    null = directory / "null"
    os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.chmod(null, 0o666)
    (directory / "link").symlink_to("null")
    for name in (null, directory / "link"):
        result = cli("cp", f"{session.name}:/workspace/f", name)
        # Where the file system has no devices, it says so.
        assert result.returncode == 0 or "Permission denied" in result.err, result
        assert null.is_char_device() and os.readlink(directory / "link") == "null"


@pytest.mark.parametrize("words, said", [
    (["a", "b"], "neither side is in a session"),
    (["a", "S:workspace/x"], "a path in a session begins with '/'"),
    (["S:x", "b"], ":/workspace/x"),
    (["./S:x", "b"], "neither side is in a session"),
    (["a:/x", "b:/y"], "both sides are in sessions"),
    (["/nonexistent", "S:/workspace/x"], "No such file"),
    (["S:/nonexistent", "x"], "has no '/nonexistent'"),
    (["S:/etc/passwd", "/nonexistent/x"], "No such file"),
    (["/etc/passwd", "S:/usr/x"], "Read-only"),
    (["S:/workspace/../etc/passwd", "x"], "contains '..'"),
    (["no-such-session:/x", "x"], "no session"),
    (["S:/workspace", "-"], "is a directory"),
    (["-", "S:/workspace"], "name the file"),
    ([], "no FILE given"),
    (["a"], "no SESSION:/PATH given"),
    (["a", "b", "c"], "one word too many"),
])
def test_cp_refusals(cli, session, words, said):
    directory = cli.box.directory()
    result = cli("cp", *[word.replace("S:", session.name + ":") for word in words], cwd=directory).failed()
    assert said in result.err and "{" not in result.err, result
    assert not list(directory.iterdir())


def test_cp_no_space(cli, session):
    name = unique()
    directory = cli.box.directory()
    big = directory / "big"
    with open(big, "wb") as file:
        file.truncate(400 << 20)
    cli.box.own(big)
    cli("create", name).ok()
    result = cli("cp", big, f"{name}:/workspace/big").failed()
    assert "space" in result.err.lower() or "memory" in result.err.lower(), result
    assert cli("exec", name, "--", "ls", "/workspace").ok().out == ""
    cli("rm", name).ok()


class Liar(threading.Thread):
    """A server whose files break off in the middle, after `pause` seconds."""

    def __init__(self, path, pause):
        super().__init__(daemon=True)
        self.pause = pause
        self.sent = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        path.chmod(0o777)
        self.listener.listen()
        self.start()

    def run(self):
        connection, _ = self.listener.accept()
        with connection:
            while request := connection.recv(65536):
                if b"?stat" in request:
                    body = b'{"path":"/f","type":"file","size":100,"mode":"0644"}'
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                else:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nX-File-Mode: 0644\r\n\r\nhalf a file")
                    self.sent.set()
                    time.sleep(self.pause)
                    return


@pytest.mark.parametrize("there", [False, True])
def test_cp_broken_off(cli, there):
    directory = cli.box.directory()
    Liar(directory / "sock", 0)
    kept = {"sock", "f"} if there else {"sock"}
    if there:
        cli.box.file(directory, "f", "old")
    result = cli("cp", "s:/f", directory / "f", env={"BOX_URL": f"unix:{directory}/sock"}).failed()
    assert "in the middle" in result.err
    assert {path.name for path in directory.iterdir()} == kept
    assert not there or (directory / "f").read_text() == "old"


def test_cp_interrupted(cli):
    directory = cli.box.directory()
    liar = Liar(directory / "sock", 30)
    cli.env["BOX_URL"] = f"unix:{directory}/sock"
    with cli.start("cp", "s:/f", str(directory / "f")) as live:
        assert liar.sent.wait(conftest.PATIENCE)
        assert hostview.wait_until(lambda: any(directory.glob(".box-cp.*")), 10)
        os.kill(live.pid, signal.SIGINT)
        assert live.process.wait(conftest.PATIENCE) == -signal.SIGINT
    assert {path.name for path in directory.iterdir()} == {"sock"}


# --- processes --------------------------------------------------------------------------------


def test_processes(cli, session):
    name = session.name
    script = "trap 'echo hup' HUP; for i in 1 2 3; do echo line $i; echo err $i >&2; done; while :; do sleep 0.05; done"
    assert cli("start", name, "--id", "srv", "--env", "A=1", "--", "sh", "-c", script).ok().out == "srv\n"
    assert hostview.wait_until(lambda: cli("logs", name, "srv").ok().out == "line 1\nline 2\nline 3\n", 10)
    both = cli("logs", name, "srv", "--tail", "1").ok()
    assert (both.out, both.err) == ("line 3\n", "err 3\n")
    errors = cli("logs", name, "srv", "--stderr", "--tail", "1").ok()
    assert (errors.out, errors.err) == ("err 3\n", "")
    output = cli("logs", name, "srv", "--stdout", "--tail", "1").ok()
    assert (output.out, output.err) == ("line 3\n", "")
    named = cli("logs", name, "srv", "--stdout", "--stderr", "--tail", "1").ok()
    assert (named.out, named.err) == ("line 3\n", "err 3\n")
    assert cli("logs", name, "srv", "--tail", "0").ok().out == ""
    assert cli("logs", name, "srv", "-n", "2").ok().out == "line 2\nline 3\n"
    info = cli("inspect", name, "srv").ok().json
    assert info["status"] == "running" and info["env_keys"] == ["A"]
    assert "  srv" in cli("ps").ok().out
    cli("kill", name, "srv", "-s", "HUP").ok()
    with cli.start("logs", name, "srv", "-f", "--tail", "1") as live:
        live.wait_output(b"hup\n")
        assert cli("stop", name, "srv").ok().out == "srv\n"
        assert live.process.wait(conftest.PATIENCE) == 0
    assert "no managed process" in cli("stop", name, "srv").failed().err


def test_logs_follow_both_streams(cli, session):
    script = "while read line; do echo out $line; echo err $line >&2; done; sleep 600"
    cli("start", session.name, "--", "sh", "-c", f"mkfifo in; exec 3<>in; ({script}) <in").ok()
    assert hostview.wait_until(lambda: session.exec("test -p in")["exit_code"] == 0, 10)
    with cli.start("logs", session.name, "-f", stderr=subprocess.STDOUT) as live:
        for number in range(3):
            session.exec(f"echo {number} > in")
            seen = live.wait_output(b"err %d\n" % number)
            if b"out %d\n" % number not in seen:
                live.wait_output(b"out %d\n" % number)
        cli("stop", session.name).ok()
        assert live.process.wait(conftest.PATIENCE) == 0
    assert "no managed process" in cli("logs", session.name).failed().err


def test_process_that_has_exited(cli, session):
    cli("start", session.name, "--", "sh", "-c", "echo bye; exit 3").ok()
    assert session.ended()["exit_code"] == 3
    assert cli("logs", session.name).ok().out == "bye\n"
    assert cli("logs", session.name, "-f").ok().out == "bye\n"
    assert "default" not in cli("ps").ok().out
    assert "exited 3" in cli("ps", "-a").ok().out
    assert cli("start", session.name, "--", "nosuch").failed(127).err.startswith("box start: cannot run")
    assert cli("start", session.name, "--", "/etc/passwd").returncode == 126
    line = cli("start", session.name, "--", "sleep 100").failed(127)
    assert "fix: all of it is taken for the name of a program" in line.err and "sh -c" in line.err


def test_logs_of_a_command(cli, session):
    result = cli("exec", session.name, "--json", "--", "sh", "-c", "echo one; echo two >&2").ok().json
    number = f"#{result['exec_id']}"
    both = cli("logs", session.name, number).ok()
    assert (both.out, both.err) == ("one\n", "two\n")
    assert cli("logs", session.name, number, "--stderr").ok().out == "two\n"
    cli("logs", session.name, "#4000000").failed()
    assert "not the number" in cli("logs", session.name, "#x").failed().err


def test_logs_follow_a_command(cli, session):
    with cli.start("exec", session.name, "--", "sh", "-c", "echo READY; while ! test -e go; do sleep 0.05; done; echo last >&2; echo end") as command:
        command.wait_output()
        with cli.start("logs", session.name, "#1", "-f") as live:
            live.wait_output()
            session.exec("touch go", concurrent=True)
            result = live.result().ok()
            assert result.out.endswith("end\n") and result.err == "last\n"
        assert command.result().returncode == 0


# --- words that are not ours --------------------------------------------------------------------


@pytest.mark.parametrize("line, said", [
    ("exec", "no SESSION given"),
    ("exec s", "no command given"),
    ("kill s", "no PROCESS given"),
    ("stop", "no SESSION given"),
    ("run -e A=1 -- true", "fix: --env NAME=VALUE"),
    ("exec s -e A=1 -- true", "fix: --env NAME=VALUE"),
    ("run -v /x:/y -- true", "fix: --mount SRC:DST"),
    ("run --volume=/x:/y -- true", "fix: --mount SRC:DST"),
    ("create s -v /x:/y", "fix: --mount SRC:DST"),
    ("run -w /x -- true", "fix: --workdir DIR"),
    ("run --rm -- true", "fix: leave it out"),
    ("run -d -- true", "fix: box start"),
    ("exec -it s bash", "fix: box shell"),
    ("exec s --tty bash", "fix: box shell"),
    ("kill s p -9", "fix: -s 9"),
    ("kill s p -15", "fix: -s 15"),
    ("kill -KILL s p", "fix: -s KILL"),
    ("--url unix:/x ps", "fix: options belong behind it"),
])
def test_habits(user_box, line, said):
    result = user_box.call(*line.split()).failed()
    assert said in result.err and result.out == "", result


@pytest.mark.parametrize("line", ["ps -v", "exec --everything s true", "exec -v s true", "status -9"])
def test_no_hint_where_there_is_none(user_box, line):
    result = user_box.call(*line.split()).failed()
    assert "unknown option" in result.err and "fix:" not in result.err, result


@pytest.mark.parametrize("line", ["--help", "", "version", "exec --help", "ps", "ps --json", "run --json -- true"])
def test_output_that_cannot_be_written(cli, line):
    with open("/dev/full", "wb") as full:
        result = cli(*line.split(), stdout=full)
    assert result.returncode == 125 and "cannot write to standard output: No space left" in result.err, result


def test_names_that_are_empty(cli, name):
    assert "the SESSION is empty" in cli("exec", "", "--", "true").failed().err
    for words in (["stop", name, ""], ["rm", name, ""], ["logs", name, ""]):
        assert "the name is empty" in cli(*words).failed().err


# --- what is going on -------------------------------------------------------------------------


def test_ps(cli, session):
    text = cli("ps").ok().out
    assert text.splitlines()[0].split() == ["SESSION", "STATE", "AGE", "IDLE", "CPUS", "MEMORY", "NETWORK", "RUNNING"]
    line = next(line for line in text.splitlines() if line.startswith(session.name + " "))
    assert line.split()[1] == "live" and "512M" in line
    assert session.name in cli("ps", "-q").ok().out.splitlines()
    found = [info for info in cli("ps", "--json").ok().json["sessions"] if info["session_id"] == session.name]
    assert len(found) == 1 and found[0]["processes"] == []


def test_ps_pages(start_boxd):
    boxd = start_boxd(config={"limits": {"max_sessions": 1100}})
    cli = Cli(boxd)
    names = [boxd.session().name for _ in range(12)]
    assert cli("ps", "-q").ok().out.splitlines() == names
    assert len(cli("ps").ok().out.splitlines()) == 13
    assert cli("rm", "--prefix", names[0]).ok().out.splitlines() == [n for n in names if n.startswith(names[0])]
    cli("rm", "--all").ok()
    assert cli("ps", "-q").ok().out == "" and cli("rm", "--all").ok().out == ""


def test_rm(cli, daemon):
    first, second = daemon.session().name, daemon.session().name
    result = cli("rm", first, unique("no"), second).failed()
    assert result.out == f"{first}\n{second}\n" and "no session" in result.err
    assert not {first, second} & set(daemon.names())
    for words in ([], ["--all", "x"], ["--all", "--prefix", "x"], ["--prefix", ""]):
        before = daemon.names()
        cli("rm", *words).failed()
        assert daemon.names() == before
    name = daemon.session().name
    assert cli("rm", "--json", name).ok().json == {"deleted": [name], "failed": []}


def test_inspect(cli, session):
    info = cli("inspect", session.name).ok().json
    assert info["session_id"] == session.name and info["processes"] == []
    missing = cli("inspect", unique("no")).failed()
    assert "no session" in missing.err and "{" not in missing.err


def test_status(cli):
    text = cli("status").ok().out
    assert f"process {cli.boxd.pid}" in text and str(cli.boxd.socket) in text and "native: available" in text
    assert cli("status", "--json").ok().json["pid"] == cli.boxd.pid


def test_top(cli, session):
    found = cli("top", "--once").ok().out.splitlines()
    assert found[0].split() == ["SESSION", "STATE", "CPU%", "MEMORY", "LIMIT", "MEM%", "PROCESSES"]
    assert any(line.split()[:2] == [session.name, "live"] for line in found[1:]), found
    assert cli("top").ok().out.startswith("SESSION")  # no terminal: once
    with cli.start("top", "--json") as live:
        for _ in range(2):
            live.wait_output(b"}]}\n")


def test_top_counts(cli, session):
    session.start("sh", "-c", "while :; do :; done")
    usage = f"{session.path}/usage"
    if not hostview.wait_until(lambda: (session.client.get(usage).ok()["cpu_us"] or 0) > 0, 5):
        assert not Path("/sys/fs/cgroup/cgroup.controllers").exists() or not cli.box.root
        pytest.skip("nothing here counts the CPU time of a session")
    row = cli("top", "--once", "--json").ok().json["sessions"][0]
    assert row["session_id"] == session.name and row["cpu_percent"] > 10
    assert cli("top", "--once").ok().out.splitlines()[1].startswith(session.name + " ")


def test_top_on_a_terminal(cli, session):
    with cli.terminal("top", rows=20, columns=60) as terminal:
        terminal.expect("\x1b[?1049h")
        terminal.expect(session.name)
        terminal.resize(10, 80)
        terminal.expect(session.name)
        terminal.type("x")
        terminal.expect(session.name)
        terminal.type("q")
        assert terminal.wait() == 0
        terminal.expect("\x1b[?1049l")
        assert terminal.is_restored()
    with cli.terminal("top") as terminal:
        terminal.expect("\x1b[?1049h")
        terminal.type("\x03")
        assert terminal.wait() == 0
        assert terminal.is_restored()


def test_top_when_boxd_goes(start_boxd):
    boxd = start_boxd()
    with Cli(boxd).terminal("top") as terminal:
        terminal.expect("\x1b[?1049h")
        boxd.kill9()
        assert terminal.wait() == 125
        terminal.expect("\x1b[?1049l")
        terminal.expect("box top: ")
        assert terminal.is_restored()


def test_events(cli, daemon):
    name = unique()
    with cli.start("events", "--session", name, "--json") as live, cli.start("events") as people:
        # There is no sign that it listens: the first event that comes is one.
        def nudge():
            cli("exec", name, "--create", "--", "true").ok()
            return select.select([live.process.stdout, people.process.stdout], [], [], 0.1)[0]

        assert hostview.wait_until(lambda: len(nudge()) == 2, 10)
        cli("rm", name).ok()
        seen = []
        while not seen or seen[-1]["type"] != "session_deleted":
            seen.append(json.loads(live.process.stdout.readline()))
        assert {event["session_id"] for event in seen} == {name}
        assert "exec_exited" in {event["type"] for event in seen}
        people.wait_output(f"session_deleted   {name}\n".encode())


# --- finding boxd -----------------------------------------------------------------------------


def test_no_daemon(user_box):
    nowhere = user_box.directory()
    result = user_box.call("ps", env={"HOME": str(nowhere), "XDG_RUNTIME_DIR": str(nowhere), "BOX_URL": f"unix:{nowhere}/x"})
    assert "No such file" in result.failed().err and "is boxd running? start it with: boxd" in result.err
    refused = user_box.call("ps", env={"BOX_URL": "http://127.0.0.1:1"}).failed()
    assert "Connection refused" in refused.err and "is boxd running?" in refused.err
    assert "fix:" in user_box.call("ps", "--url", "https://127.0.0.1").failed().err
    error = user_box.call("ps", "--json", "--url", f"unix:{nowhere}/x").failed().json["error"]
    assert error["code"] == "unavailable" and error["hint"]


def test_own_socket_is_found(daemon):
    runtime = daemon.box.directory()
    (runtime / "boxd").mkdir()
    (runtime / "boxd" / "boxd.sock").symlink_to(daemon.socket)
    daemon.box.own(runtime / "boxd")
    assert f"at unix:{runtime}/boxd/boxd.sock" in daemon.box.call("status", env={"XDG_RUNTIME_DIR": str(runtime)}).ok().out
    home = daemon.box.directory()
    run = home / ".local" / "state" / "boxd" / "run"
    run.mkdir(parents=True)
    (run / "boxd.sock").symlink_to(daemon.socket)
    # A stale one of the user's is passed over.
    with socket.socket(socket.AF_UNIX) as stale:
        (runtime / "boxd" / "boxd.sock").unlink()
        stale.bind(str(runtime / "boxd" / "boxd.sock"))
    (runtime / "boxd" / "boxd.sock").chmod(0o777)
    found = daemon.box.call("status", env={"XDG_RUNTIME_DIR": str(runtime), "HOME": str(home)}).ok()
    assert f"at unix:{run}/boxd.sock" in found.out


def test_token(start_boxd):
    token = "correct-horse-battery-staple-correct-horse"
    boxd = start_boxd(token=token)
    url = f"http://127.0.0.1:{boxd.port}"
    call = boxd.box.call
    assert call("exec", "t", "--create", "--", "echo", "in", env={"BOX_URL": url, "BOX_TOKEN": token}).ok().out == "in\n"
    assert call("ps", "-q", "--url", url, "--token-file", str(boxd.token_file)).ok().out == "t\n"
    for env in ({}, {"BOX_TOKEN": "wrong" * 10}):
        refused = call("ps", "--url", url, env=env).failed()
        assert "BOX_TOKEN" in refused.err and "{" not in refused.err
    with Terminal([str(boxd.box.programs.box), "shell", "t", "echo over T''CP"],
                  boxd.box.environment({"BOX_URL": url, "BOX_TOKEN": token})) as terminal:
        assert terminal.wait() == 0
        terminal.expect("over TCP")
    assert "token file" in call("ps", "--url", url, "--token-file", "/nonexistent").failed().err


# --- the command line itself ------------------------------------------------------------------


def test_both_identities(either):
    cli = Cli(either)
    name = unique()
    cli("run", "--session", name, "--", "sh", "-c", "echo hi > f").ok()
    assert cli("cp", f"{name}:/workspace/f", "-").ok().out == "hi\n"
    with cli.terminal("shell", name, "cat f") as terminal:
        assert terminal.wait() == 0
        terminal.expect("hi")
    cli("rm", name).ok()


@pytest.mark.parametrize("verb", [
    "create", "exec", "shell", "cp", "rm", "start", "stop", "kill", "logs", "ps", "top", "inspect", "events", "status"])
def test_verbs_explain_themselves(user_box, verb):
    listed = user_box.call("help").ok().out
    assert f"\n  {verb} " in listed
    text = user_box.call(verb, "--help").ok().out
    assert text == user_box.call("help", verb).ok().out and "--url" in text
    manual = (ROOT / "man" / "box.1").read_text()
    assert f".It Cm {verb}" in manual
    for line in text.splitlines():
        for word in line.split():
            if word.startswith("--") and word.strip("-,|") and line.startswith("  "):
                option = word.removeprefix("--").split("=")[0].rstrip(",")
                # Letters stand for themselves in the manual.
                assert f"-{option}" in manual or line.strip().startswith("-"), (verb, option)
    assert "unknown option" in user_box.call(verb, "--nonsense").failed().err


def test_completion(cli, session):
    script = ROOT / "packaging" / "completion" / "box.bash"
    bin_directory = cli.box.programs.box.parent

    def complete(*words):
        program = (f'source {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _box; printf "%s\\n" "${{COMPREPLY[@]}}"')
        env = {**cli.box.environment(cli.env), "PATH": f"{bin_directory}:/usr/bin:/bin"}
        found = subprocess.run(["bash", "-c", program, "bash", "box", *words], env=env, capture_output=True, text=True,
                               timeout=conftest.PATIENCE)
        assert found.returncode == 0 and not found.stderr, found
        return set(found.stdout.split())

    session.start("sleep", "600", process_id="srv")
    assert complete("") >= {"run", "exec", "shell", "ps", "doctor"}
    assert complete("ev") == {"events"}
    assert session.name in complete("exec", "")
    assert complete("exec", session.name, "--conc") == {"--concurrent"}
    assert complete("run", "--network", "") == {"off", "on"}
    assert complete("stop", session.name, "") == {"srv"}
    assert complete("cp", "/etc/hostn") == {"/etc/hostname"}
    assert f"{session.name}:/" in complete("cp", "x", session.name[:3])
