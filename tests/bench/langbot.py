# SPDX-License-Identifier: Apache-2.0
"""LangBot's own client, for the benchmark: a line on standard input is one `box_exec` of `true` in a live session, and a
line on standard output says that it is done.

usage: langbot.py DIRECTORY boxd PORT
       langbot.py DIRECTORY nsjail
       langbot.py DIRECTORY docker HOST      the engine's address

The first is a client of a boxd that runs. The others start the Python runtime that comes with the client, with that
backend, and end it with themselves. The first line is `ready`, or why not. DIRECTORY is where both may leave things."""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.box.models import BoxSpec
from langbot_plugin.entities.io.context import ActionContext
from langbot_plugin.runtime.io.controllers.ws.client import WebSocketClientController
from langbot_plugin.runtime.io.handler import Handler

INSTANCE = "bench"
START_SEC = 20


class Unable(Exception):
    """Why there is nothing to measure."""


def start_runtime(backend, host):
    """LangBot's Python runtime: the process, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "LANGBOT_BOX_CONFIG": json.dumps({"backend": backend})}
    if host:
        env |= {"DOCKER_HOST": host, "DOCKER_CONFIG": os.getcwd()}
    command = [Path(sys.executable).with_name("lbp"), "box", "--host", "127.0.0.1", "--ws-control-port", str(port)]
    runtime = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    deadline = time.monotonic() + START_SEC
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return runtime, port
        if runtime.poll() is not None or time.monotonic() > deadline:
            stop_runtime(runtime)
            raise Unable("the Python runtime does not start")
        time.sleep(0.05)


def stop_runtime(runtime):
    if runtime.poll() is None:
        runtime.terminate()
    runtime.wait()


async def connect(port):
    """A client as LangBot has it; its connection lives as long as this program."""
    client = ActionRPCBoxClient(logging.getLogger("bench"))
    ready = asyncio.Event()

    async def connected(connection):
        handler = Handler(connection)
        client.set_handler(handler)
        ready.set()
        await handler.run()

    async def gone(_controller, _error=None):
        ready.set()

    controller = WebSocketClientController(f"ws://127.0.0.1:{port}/rpc/ws", gone, {"X-LangBot-Instance-Id": INSTANCE})
    task = asyncio.create_task(controller.run(connected))
    await ready.wait()
    return client, task


async def serve(port):
    context = ActionContext(instance_uuid=INSTANCE, workspace_uuid="bench")
    spec = BoxSpec(session_id="bench", cmd="true")
    client, connection = await connect(port)
    loop = asyncio.get_running_loop()
    try:
        result = await client.execute(spec, action_context=context)
    except Exception as error:  # whatever keeps it from working here
        raise Unable(f"box_exec: {error}") from error
    if not result.ok:
        raise Unable(f"true ends with {result.exit_code}: {result.stderr}")
    print("ready", flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        result = await client.execute(spec, action_context=context)
        print("done" if result.ok else f"exit code {result.exit_code}", flush=True)
    await client.delete_session("bench", action_context=context)
    connection.cancel()
    await asyncio.gather(connection, return_exceptions=True)


def main(directory, backend, where=None):
    os.chdir(directory)
    runtime = None
    try:
        if backend == "boxd":
            port = int(where)
        else:
            runtime, port = start_runtime(backend, where)
        asyncio.run(serve(port))
    except Unable as error:
        print(" ".join(str(error).split())[:300], flush=True)
    finally:
        if runtime:
            stop_runtime(runtime)


if __name__ == "__main__":
    main(*sys.argv[1:])
