# SPDX-License-Identifier: Apache-2.0
"""A boxd of the tests' own: directories, start, end, and every way to be killed.

Settings, all from the environment:

  BOX_BUILD  the build directory (default: build/ of the source tree)
  LOAD_DIR   where the daemon's directories are made (default: /run or /dev/shm, whichever is in memory)
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import host
from wire import Address

SOURCE = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("BOX_BUILD", SOURCE / "build")).resolve()
START_SECONDS = 30
SETTINGS = {
    "limits.max_sessions": 512,
    "limits.max_managed_processes": 512,
    "session_ttl_sec": 86400,
    "outlive_sec": 300,  # what a run that was killed leaves goes by itself
    "log.level": "info",
    "audit.max_bytes": "1M",
    "audit.files": 1,
}


class Unwell(Exception):
    """boxd did not start, or ended in a way it must not."""


def base_directory():
    given = os.environ.get("LOAD_DIR")
    if given:
        return given
    in_memory = [m.point for m in host.mounts() if m.type == "tmpfs" and m.point in ("/run", "/dev/shm")]
    return sorted(in_memory, reverse=True)[0] if in_memory else "/run"


def yaml(settings):
    """The `box:` tree of dotted keys. JSON is YAML."""
    tree = {}
    for key, value in settings.items():
        at = tree
        *sections, last = key.split(".")
        for name in sections:
            at = at.setdefault(name, {})
        at[last] = value
    return json.dumps({"box": tree}, indent=1) + "\n"


def die_with_parent():
    """In the child: a test that is killed must not leave a daemon."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


class Daemon:
    def __init__(self, name="boxd", **settings):
        self.base = Path(tempfile.mkdtemp(prefix=f"boxd-load-{name}-{os.getpid()}-", dir=base_directory()))
        self.base.chmod(0o711)  # the front may be another user
        self.run = self.base / "run"
        self.state = self.base / "state"
        self.socket = self.base / "s"
        self.log = self.base / "log"
        self.config = self.base / "boxd.yaml"
        self.binary = self.base / "bin" / "boxd"
        self.wrapper = []  # put in front of boxd
        self.environment = {}
        self.private = False  # whether it has a mount namespace of its own
        self.keeper = None
        self.process = None
        self.front = self.spawner = self.port = None
        self.starts = 0
        self.settings = {**SETTINGS, **{key.replace("__", "."): value for key, value in settings.items()}}
        # Copies, so that every process of this daemon is told by its file.
        self.binary.parent.mkdir()
        for program in ("boxd", "box-init"):
            if not (BUILD / program).exists():
                raise SystemExit(f"{BUILD / program} is missing: build first (make), or set BOX_BUILD")
            shutil.copy(BUILD / program, self.binary.parent / program)

    # --- life ---

    def start(self):
        """Starts it and waits until it listens."""
        self.config.write_text(yaml(self.settings))
        port = self.port or 0
        command = [*self.wrapper, str(self.binary), "--config", str(self.config), "--run-dir", str(self.run),
                   "--state-dir", str(self.state), "--socket", str(self.socket), "--listen", f"127.0.0.1:{port}"]
        with open(self.log, "ab") as log:
            self.log_at = log.tell()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            preexec_fn=die_with_parent, start_new_session=True,
                                            env={**os.environ, **self.environment})
        began = time.monotonic()
        line = self._first_line()
        self.ready_seconds = time.monotonic() - began
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            self.process.wait(START_SECONDS)
            raise Unwell(f"boxd did not start ({self.process.returncode}): {line!r} {self.log_tail()}")
        self.port = int(found.group(1))
        self.front = self._front()
        children = host.children(self.front)
        if len(children) != 1:
            raise Unwell(f"boxd has the children {children}, not just a spawner")
        self.spawner = children[0]
        self.starts += 1
        host.keeper(self)
        return self

    def _first_line(self):
        """What it says on standard output once it listens. Empty: it ended."""
        os.set_blocking(self.process.stdout.fileno(), False)
        text = b""
        deadline = time.monotonic() + START_SECONDS
        while b"\n" not in text and time.monotonic() < deadline:
            piece = self.process.stdout.read()
            if piece:
                text += piece
            elif self.process.poll() is not None:
                break
            else:
                time.sleep(0.002)
        self.process.stdout.close()
        return text.decode(errors="replace")

    def _front(self):
        """A wrapper may have boxd as its child."""
        pid = self.process.pid
        return pid if host.exe(pid) == str(self.binary) else next(
            (child for child in host.children(pid) if host.exe(child) == str(self.binary)), pid)

    def unix(self):
        return Address(path=self.socket)

    def tcp(self):
        return Address(port=self.port)

    def address(self, number):
        return self.tcp() if number % 2 else self.unix()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, *pids):
        """kill -9 of some of its own processes."""
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def wait(self, seconds=15):
        """Its exit code; None if it goes on."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, number=signal.SIGINT):
        """Gently; SIGINT ends the sessions too. Says what is wrong with how it ended."""
        if not self.alive():
            return [f"boxd was not running any more: {self.process and self.process.returncode}"]
        os.kill(self.front, number)
        code = self.wait(60)
        if code != 0:
            return [f"boxd ended with {code} after signal {number}: {self.log_tail()}"]
        if not host.wait_until(lambda: not host.exists(self.spawner), 5):
            return [f"the spawner {self.spawner} outlives a boxd that was stopped"]
        return []

    def remove(self):
        """Ends whatever is left of it and of its sessions, and removes its directories."""
        if self.alive():
            self.kill(self.front)
            self.wait()
        if self.spawner:
            self.kill(*[pid for pid in [self.spawner] if host.exe(pid) == str(self.binary)])
        clear(self)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.remove()

    # --- looks ---

    def log_text(self):
        """Of the present instance."""
        with open(self.log, "rb") as log:
            log.seek(self.log_at)
            return log.read().decode(errors="replace")

    def log_tail(self, size=2000):
        return self.log_text()[-size:]

    def complaints(self):
        """What sanitizers and assertions have written, of all instances."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        marks = ("AddressSanitizer", "runtime error:", "LeakSanitizer", "Assertion", "stack smashing", "free()",
                 "malloc()", "SIGSEGV", "UndefinedBehavior")
        return [line for line in text.splitlines() if any(mark in line for mark in marks)]

    def inside(self, path):
        """A path as the daemon has it."""
        return Path(f"/proc/{self.spawner}/root{path}") if self.private else Path(path)

    def record_files(self):
        directory = self.inside(self.run / "sessions")
        return sorted(os.listdir(directory)) if directory.exists() else []

    def records(self):
        """{key: record} as they are on disk; a file that cannot be read is None."""
        found = {}
        for path in self.inside(self.run / "sessions").glob("*.json"):
            try:
                found[path.stem] = json.loads(path.read_text())
            except FileNotFoundError:
                pass
            except ValueError:
                found[path.stem] = None
        return found

    def sockets(self):
        directory = self.inside(self.run / "inits")
        return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def clear(daemon):
    """Ends every process of a daemon's sessions, and removes their groups and its directories."""
    for _ in range(50):
        left = host.own_processes(daemon)
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for path in host.groups(daemon):
        host.remove_group(path)
    shutil.rmtree(daemon.base, ignore_errors=True)


class Remains:
    """The directories of a daemon whose test is gone."""

    def __init__(self, base):
        self.base = base
        self.run = base / "run"
        self.binary = base / "bin" / "boxd"
        self.keeper = None

    def inside(self, path):
        return path


def clear_remains():
    """What tests that were killed have left."""
    for base in Path(base_directory()).glob("boxd-load-*-*-*"):
        owner = base.name.split("-")[3]
        if owner.isdigit() and not host.exists(int(owner)):
            clear(Remains(base))
