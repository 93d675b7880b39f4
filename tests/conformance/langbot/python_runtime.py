# SPDX-License-Identifier: Apache-2.0
"""LangBot's own Python runtime, `lbp box`, where neither Docker nor nsjail can run: the reference that these tests
are checked against. Its one backend starts commands as plain processes, in a directory for each session. No
isolation whatsoever: for tests on a machine of one's own.

usage: python_runtime.py DIRECTORY [-s] [--host HOST] [--ws-control-port PORT]
"""

import argparse
import asyncio
import contextlib
import datetime
import functools
import os
import shlex
import shutil
import signal
import sys
import uuid
from pathlib import Path

from langbot_plugin.box import backend, server
from langbot_plugin.box.models import BoxExecutionResult, BoxExecutionStatus, BoxSessionInfo

PIPE = asyncio.subprocess.PIPE


class PlainBackend(backend.CLISandboxBackend):
    """Inherits how output is read and cut: that is what results are compared by."""

    def __init__(self, logger, directory):
        # A name of a local backend: `backend: local` takes no others.
        super().__init__(logger, command="true", backend_name="docker")
        self.directory = Path(directory)

    async def is_available(self):
        return True

    async def cleanup_orphaned_containers(self, current_instance_id=""):
        return None

    async def is_session_alive(self, session):
        return (self.directory / session.backend_session_id).is_dir()

    async def start_session(self, spec):
        name = f"plain-{uuid.uuid4().hex[:12]}"
        (self.directory / name).mkdir(parents=True)
        if spec.host_path is not None:
            os.makedirs(spec.host_path, exist_ok=True)
        now = datetime.datetime.now(datetime.timezone.utc)
        fields = {key: getattr(spec, key) for key in BoxSessionInfo.model_fields if hasattr(spec, key)}
        return BoxSessionInfo(backend_name=self.name, backend_session_id=name, created_at=now, last_used_at=now, **fields)

    async def stop_session(self, session):
        shutil.rmtree(self.directory / session.backend_session_id, ignore_errors=True)

    def _inside(self, session, path):
        """Where a path inside the session is outside."""
        root = session.host_path or str(self.directory / session.backend_session_id)
        return root + path.removeprefix(session.mount_path) if path.startswith(session.mount_path) else path

    @staticmethod
    async def _start(directory, env, command, **pipes):
        text = f"mkdir -p {shlex.quote(directory)} && cd {shlex.quote(directory)} && {command}"
        return await asyncio.create_subprocess_exec(
            "sh", "-lc", text, env={**os.environ, **env}, start_new_session=True, stdout=PIPE, stderr=PIPE, **pipes)

    async def exec(self, session, spec):
        started = datetime.datetime.now()
        process = await self._start(self._inside(session, spec.workdir), spec.env, spec.cmd,
                                    stdin=asyncio.subprocess.DEVNULL)
        streams = asyncio.gather(self._read_stream(process.stdout), self._read_stream(process.stderr))
        timed_out = False
        try:
            await asyncio.wait_for(process.wait(), spec.timeout_sec)
        except (asyncio.TimeoutError, asyncio.CancelledError) as error:
            timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, asyncio.CancelledError):
                raise
        stdout, stderr = [self._clip_captured_bytes(*stream) for stream in await streams]
        if timed_out and not stderr:
            stderr = f"Command timed out after {spec.timeout_sec} seconds."
        spent = datetime.datetime.now() - started
        return BoxExecutionResult(
            session_id=session.session_id, backend_name=self.name, stdout=stdout, stderr=stderr,
            status=BoxExecutionStatus.TIMED_OUT if timed_out else BoxExecutionStatus.COMPLETED,
            exit_code=None if timed_out else process.returncode, duration_ms=int(spent.total_seconds() * 1000))

    async def start_managed_process(self, session, spec):
        command = "exec " + shlex.join([spec.command, *spec.args])
        return await self._start(self._inside(session, spec.cwd), spec.env, command, stdin=PIPE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("-s", "--stdio-control", action="store_true")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--ws-control-port", type=int, default=5410)
    args = parser.parse_args()
    plain = PlainBackend(server.logger, args.directory)
    server.BoxRuntime = functools.partial(server.BoxRuntime, backends=[plain])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.main(args)


if __name__ == "__main__":
    main()
