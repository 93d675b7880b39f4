# SPDX-License-Identifier: Apache-2.0
"""The servers that are tried: a real boxd, or LangBot's Python runtime of the same version as the client, to show that
a test asks for nothing but what LangBot gets today. Both take the same configuration, LangBot's `box` tree, and the
same environment."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import conftest  # of the integration tests, and before daemon, which needs it
import daemon
import hostview
from ports import free_port

HERE = Path(__file__).resolve().parent
PATIENCE = conftest.PATIENCE
ROOM = {"max_sessions": 1000, "max_managed_processes": 500}


class Server:
    """`place` is a directory of its own, which sessions may mount, as they may `mounts`."""

    def __init__(self, place, config=None, env=None, mounts=()):
        self.place = Path(place)
        self.env = dict(env or {})
        self.host = self.place / "host"
        self.host.mkdir()
        self.host.chmod(0o777)
        self.config = {
            "limits": ROOM,
            "local": {"host_root": str(self.host), "allowed_mount_roots": [str(self.host), *map(str, mounts)]},
            **(config or {}),
        }
        self.port = None

    @property
    def rpc_url(self):
        return f"ws://127.0.0.1:{self.port}/rpc/ws"

    @property
    def relay_url(self):
        """What LangBot derives from the endpoint."""
        return f"http://127.0.0.1:{self.port}"

    def directory(self):
        """A new one that sessions can mount and write to."""
        path = Path(tempfile.mkdtemp(prefix="m-", dir=self.host))
        path.chmod(0o777)
        return path


class BoxdServer(Server):
    name = "boxd"

    def __init__(self, place, programs, base, **options):
        super().__init__(place, **options)
        self.box = conftest.get_box("root" if conftest.ROOT else "user", daemon.add_boxd(programs), base)
        self.boxd = daemon.Boxd(self.box, config=self.config, env=self.env)
        self.boxd.ready_path = "/healthz"  # with admission it may live and not be ready
        self.boxd.log_file.touch()  # what a stdio server says goes to standard error

    def start(self):
        # The port stays over a restart, as LangBot's endpoint does.
        self.port = self.port or free_port()
        self.boxd.start("--listen", f"127.0.0.1:{self.port}")
        return self

    def restart(self):
        self.boxd.stop(signal.SIGTERM)
        return self.start()

    def stdio(self):
        """What LangBot would start: a command and its environment, with the flags that it gives `lbp box`."""
        self.port = self.port or free_port()
        flags = ["--config", self.boxd.config_file, "--run-dir", self.boxd.run_dir, "--state-dir", self.boxd.state_dir]
        return ([str(self.box.programs.boxd), *map(str, flags), "-s", "--ws-control-port", str(self.port)],
                self.box.environment(self.env), self.boxd.directory)

    def check_clean(self):
        self.boxd.check_clean(self.boxd.processes())

    def log(self):
        return self.boxd.log() if self.boxd.log_file.exists() else ""

    def close(self):
        self.boxd.close()


class PythonServer(Server):
    name = "python"

    def __init__(self, place, **options):
        super().__init__(place, **options)
        self.process = None

    def _command(self, *flags):
        return [sys.executable, str(HERE / "python_runtime.py"), str(self.place / "sessions"), *flags,
                "--ws-control-port", str(self.port)]

    def _environment(self):
        return {**os.environ, **self.env, "LANGBOT_BOX_CONFIG": json.dumps(self.config)}

    def start(self):
        self.port = self.port or free_port()
        with open(self.place / "log", "ab") as log:
            self.process = subprocess.Popen(self._command(), env=self._environment(), cwd=self.place, stderr=log,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        assert hostview.wait_until(self._is_ready, PATIENCE), self.log()[-4000:]
        return self

    def _is_ready(self):
        assert self.process.poll() is None, self.log()[-4000:]
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def restart(self):
        self.close()
        return self.start()

    def stdio(self):
        self.port = self.port or free_port()
        return self._command("-s"), self._environment(), self.place

    def check_clean(self):
        return None

    def log(self):
        path = self.place / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)
