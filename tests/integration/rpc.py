"""LangBot's RPC spoken by hand: JSON objects as text messages, over a WebSocket or over pipes."""

import asyncio
import datetime
import json
import os
import queue
import subprocess
import threading

import pytest

import conftest
import daemon
import hostview

PATIENCE = conftest.PATIENCE
CHUNK = 16384
PEER_LINE_MAX = 65536  # what LangBot's reader takes


def request(number, action, data=None, context=None):
    return {"seq_id": number, "action": action, "data": data or {}, **({"context": context} if context else {})}


class Answer:
    """One response."""

    def __init__(self, message):
        self.message = message
        self.code = message["code"]
        self.text = message["message"]
        self.data = message["data"]

    def ok(self):
        assert self.code == 0, self.message
        return self.data

    def failed(self, prefix, *parts):
        assert self.code == 1 and self.text.startswith(prefix + ": "), self.message
        for part in parts:
            assert part in self.text, self.message
        return self.text


async def _ask(url, headers, requests):
    async with daemon.websockets.connect(url, extra_headers=headers, max_size=None) as ws:
        answers = []
        for action, data in requests:
            await ws.send(json.dumps(request(len(answers) + 1, action, data)))
            reply = json.loads(await asyncio.wait_for(ws.recv(), PATIENCE))
            assert reply["seq_id"] == len(answers) + 1
            answers.append(Answer(reply))
        return answers


def ask(boxd, *requests, headers=()):
    """One connection, the requests one after another: their answers."""
    if daemon.websockets is None:
        pytest.skip("python3-websockets is not installed")
    return asyncio.run(_ask(f"ws://127.0.0.1:{boxd.port}/rpc/ws", dict(headers), requests))


def call(boxd, action, data=None, **options):
    return ask(boxd, (action, data), **options)[0]


def after(seconds):
    """The time so long from now, as grants have it."""
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return moment.isoformat()


# --- over pipes -------------------------------------------------------------------------------


class Stdio(daemon.Boxd):
    """`boxd --stdio`, and the ends of its pipes that LangBot would have."""

    def start(self, *more):
        self.messages = queue.Queue()
        self.lines = []
        self.count = 0
        self.early = {}
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                self.command("--stdio", *more), env=self.box.environment(self.env), cwd=self.directory,
                preexec_fn=self.box._become, start_new_session=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log)
        self.pid = self.process.pid
        self.reader = None
        return self

    def read(self):
        """Begins to read what it says. LangBot does from the start; one that does not is a test of its own."""
        if not self.reader:
            self.reader = threading.Thread(target=self._read_all, daemon=True)
            self.reader.start()
        return self

    def _read_all(self):
        parts = None
        for line in self.process.stdout:
            self.lines.append(line)
            message = json.loads(line)  # nothing but JSON is ever written there
            kind = message.get("type")
            if kind == "chunk_start":
                parts, total = [], message["total_size"]
            elif kind == "chunk_data":
                assert message["offset"] == sum(len(part) for part in parts)
                parts.append(message["data"].encode())
                assert len(parts[-1]) <= CHUNK
            elif kind == "chunk_end":
                text = b"".join(parts)
                assert len(text) == total
                parts = None
                self.messages.put(json.loads(text))
            else:
                self.messages.put(message)
        self.messages.put(None)

    def write(self, text):
        self.process.stdin.write(text if isinstance(text, bytes) else text.encode())
        self.process.stdin.flush()

    def send_request(self, action, data=None, context=None):
        self.count += 1
        text = json.dumps(request(self.count, action, data, context))
        if len(text) <= CHUNK:
            self.write(text + "\n")
            return self.count
        self.write(json.dumps({"type": "chunk_start", "total_size": len(text)}) + "\n")
        for at in range(0, len(text), CHUNK):
            self.write(json.dumps({"type": "chunk_data", "data": text[at:at + CHUNK], "offset": at}) + "\n")
        self.write('{"type": "chunk_end"}\n')
        return self.count

    def answer(self, number):
        """The response to that request, whatever comes before it."""
        self.read()
        while number not in self.early:
            try:
                message = self.messages.get(timeout=PATIENCE)
            except queue.Empty:
                pytest.fail(f"no answer to {number}:\n{self.log()[-3000:]}")
            assert message is not None, f"it has ended:\n{self.log()[-3000:]}"
            self.early[message["seq_id"]] = Answer(message)
        return self.early.pop(number)

    def ask(self, action, data=None, context=None):
        return self.answer(self.send_request(action, data, context))

    def end_input(self):
        self.process.stdin.close()

    def find_port(self):
        self.port = int(self.wait_log(r"listening address=127\.0\.0\.1:(\d+)").group(1))
        return self.port

    def close(self):
        try:
            if self.process and self.process.poll() is None:
                before = self.processes()
                self.read()
                self.end_input()
                assert self.wait() == 0, self.log()[-3000:]
                self.check_clean(before)
        finally:
            self.abandon()
            if self.process:
                for stream in (self.process.stdin, self.process.stdout):
                    try:
                        stream.close()
                    except OSError:
                        pass
            daemon.shutil.rmtree(self.directory, ignore_errors=True)


def seccomp_of(pid):
    """(mode of its filter, no_new_privs, effective capabilities) of a process."""
    status = hostview.status(pid)
    return status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16)


def is_alive(pid):
    return os.path.exists(f"/proc/{pid}") and hostview.alive(pid)
