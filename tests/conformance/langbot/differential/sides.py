# SPDX-License-Identifier: Apache-2.0
"""The two that are compared: a boxd of this tree, and the Python runtime of the langbot-plugin that is installed beside
this interpreter. Both are the real programs in processes of their own, unchanged; the Python runtime drives docker's
command line, which is the stub in `stub/`: everything but isolation, quickly, and without an engine.

BOX_BUILD in the environment is the build directory (default: build/ of the source tree)."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from ports import free_port  # noqa: E402

ROOT = HERE.parents[3]
BUILD = Path(os.environ.get("BOX_BUILD", ROOT / "build")).resolve()

# Ceilings against hanging, not measures.
PATIENCE = 60
INSTANCE = "instance-1"


class Side:
    """A server: a process, its directory, and where it listens."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir(mode=0o711)
        self.log_file = self.directory / "log"
        self.port = None
        self.process = None

    def spawn(self, command, env, **streams):
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], env=env, cwd=self.directory, stdin=subprocess.DEVNULL,
                stderr=log, start_new_session=True, **{"stdout": log, **streams})

    def log(self):
        return self.log_file.read_text(errors="replace")[-4000:]

    def wait_until(self, ready):
        deadline = time.monotonic() + PATIENCE
        while not ready():
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}:\n{self.log()}"
            assert time.monotonic() < deadline, f"{self.name} is not ready:\n{self.log()}"
            time.sleep(0.02)

    def is_listening(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self):
        """Its exit status; that of a kill if it would not go."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Boxd(Side):
    name = "boxd"

    def __init__(self, directory, config, share):
        super().__init__(directory)
        tree = config if "local" in config else {"mounts": {"allowed_roots": [str(share)]}, **config}
        config_file = self.directory / "boxd.yaml"
        config_file.write_text(json.dumps({"box": tree}))
        out = self.directory / "out"
        with open(out, "wb") as stdout:
            self.spawn([BUILD / "boxd", "--config", config_file, "--listen", "127.0.0.1:0", "--socket",
                        self.directory / "boxd.sock", "--run-dir", self.directory / "run", "--state-dir",
                        self.directory / "state"], clean_environment(), stdout=stdout)

        def said():
            found = re.search(r"http://127\.0\.0\.1:(\d+)", out.read_text())
            self.port = int(found.group(1)) if found else None
            return self.port and self.is_listening()

        self.wait_until(said)


class Python(Side):
    name = "python"

    def __init__(self, directory, config, share):
        super().__init__(directory)
        containers = self.directory / "containers"
        containers.mkdir()
        env = clean_environment()
        env["LANGBOT_BOX_CONFIG"] = json.dumps(config)
        env["PATH"] = f"{HERE / 'stub'}:{env['PATH']}"
        env["STUB_DOCKER"] = str(containers)
        self.port = free_port()
        self.spawn([Path(sys.executable).with_name("lbp"), "box", "--host", "127.0.0.1", "--ws-control-port", self.port], env)
        self.wait_until(self.is_listening)


    def kill_rest(self):
        """A client of docker's that is killed before it is up leaves what it was about to start."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def clean_environment():
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"}


class Connection:
    """A raw connection to /rpc/ws: what goes over it is the caller's."""

    def __init__(self, http, socket, side):
        self.http, self.socket, self.side = http, socket, side
        self.sequence = 10_000  # above what scripts number by themselves
        self.answers = {}  # which nobody has asked for yet
        self.reader = asyncio.create_task(self.read())
        self.news = asyncio.Condition()

    @classmethod
    async def open(cls, side, headers):
        http = aiohttp.ClientSession()
        socket = await http.ws_connect(f"ws://127.0.0.1:{side.port}/rpc/ws", headers=headers, max_msg_size=32 << 20)
        return cls(http, socket, side)

    async def read(self):
        async for message in self.socket:
            if message.type == aiohttp.WSMsgType.TEXT:
                answer = json.loads(message.data)
                async with self.news:
                    key = json.dumps(answer.get("seq_id"))
                    assert key not in self.answers, f"{self.side.name} answers twice: {answer}"
                    self.answers[key] = answer
                    self.news.notify_all()

    async def send(self, text):
        await self.socket.send_str(text)

    async def answer(self, sequence, patience=PATIENCE):
        """The answer to that request; None if none comes."""
        key = json.dumps(sequence)
        async with self.news:
            try:
                await asyncio.wait_for(self.news.wait_for(lambda: key in self.answers or self.reader.done()), patience)
            except asyncio.TimeoutError:
                return None
        return self.answers.pop(key, None)

    def next(self):
        self.sequence += 1
        return self.sequence

    async def close(self):
        await self.socket.close()
        await self.http.close()
        await self.reader
