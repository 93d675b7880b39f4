"""Terminals over WebSocket."""

import asyncio
import json
from urllib.parse import quote

import pytest

import hostview
from conftest import PATIENCE
from daemon import asynchronous, unique, websocket
from test_relay import UPGRADE, frame, raw, statuses

websockets = pytest.importorskip("websockets", reason="python3-websockets is not installed")


def path(session, **query):
    text = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in query.items())
    return f"{session.path}/pty/ws?{text}"


class Terminal:
    """What a terminal emulator does: keeps what it was shown, types what it is told."""

    def __init__(self, ws):
        self.ws = ws
        self.shown = b""
        self.messages = []

    async def until(self, wanted):
        """Reads until it has been shown; all that was."""
        while wanted not in self.shown:
            await self.read()
        before, _, self.shown = self.shown.partition(wanted)
        return before + wanted

    async def read(self):
        frame = await self.ws.recv()
        if isinstance(frame, bytes):
            self.shown += frame
        else:
            self.messages.append(json.loads(frame))

    async def type(self, text):
        await self.ws.send(text.encode() if isinstance(text, str) else text)

    async def end(self):
        """Reads to the close: the last message and the code."""
        try:
            while True:
                await self.read()
        except websockets.ConnectionClosed as closed:
            return (self.messages[-1] if self.messages else None), closed.rcvd.code if closed.rcvd else None


def terminal(test):
    """A test with a session and a shell in a terminal."""
    @asynchronous
    async def run(boxd, **query):
        session = await asyncio.to_thread(boxd.session)
        async with websocket(boxd, path(session, **query)) as ws:
            await test(Terminal(ws), session)
        await asyncio.to_thread(session.delete)

    return run


def test_a_shell(either):
    @terminal
    async def run(shell, session):
        await shell.type("echo $((6 * 7)) $TERM; tty; pwd\n")
        shown = await shell.until(b"/workspace\r\n")
        assert b"42 xterm-256color" in shown and b"/dev/pts/" in shown
        await shell.type("exit 3\n")
        message, code = await shell.end()
        assert message == {"type": "exit", "exit_code": 3, "signal": None, "cause": "exited"} and code == 1000

    run(either)


def test_echo_and_erase(daemon):
    @terminal
    async def run(shell, session):
        await shell.type("abX\x7fc\n")
        shown = await shell.until(b"abc\r\n")
        assert b"abX" in shown  # echoed as it was typed, then erased

    run(daemon, cmd="cat")  # not a shell, which has a way of its own to read lines


def test_size(daemon):
    @terminal
    async def run(shell, session):
        await shell.until(b"24 80\r\n")

    run(daemon, cmd="stty size; sleep 1000")

    @terminal
    async def asked(shell, session):
        await shell.until(b"33 101\r\n")
        await shell.ws.send(json.dumps({"type": "resize", "rows": 50, "cols": 132}))
        await shell.until(b"50 132\r\n")

    asked(daemon, rows=33, cols=101, cmd="trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done")


def test_size_set_at_once(daemon, session):
    """With the handshake, before the terminal is there."""
    shows = "for i in $(seq 100); do stty size; sleep 0.05; done"
    resize = frame(1, json.dumps({"type": "resize", "rows": 50, "cols": 132}).encode())
    with daemon.client.socket() as sock:
        sock.sendall(UPGRADE.format(path(session, cmd=shows)).encode() + resize)
        shown = b""
        while b"50 132\r\n" not in shown:
            piece = sock.recv(65536)
            assert piece, shown
            shown += piece


def test_control_c(daemon):
    @terminal
    async def run(shell, session):
        await shell.until(b"ready")
        await shell.type("\x03")
        await shell.until(b"interrupted")
        message, code = await shell.end()
        assert message["exit_code"] == 5 and code == 1000

    run(daemon, cmd="trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done")


def test_death_by_signal(daemon):
    @terminal
    async def run(shell, session):
        message, code = await shell.end()
        assert message["type"] == "exit" and message["cause"] == "signal" and message["exit_code"] is None
        assert message["signal"] in ("KILL", "SIGKILL") and code == 1000

    run(daemon, cmd="kill -KILL $$")


def test_jobs_and_foreground(daemon):
    """It is the controlling terminal: job control works."""
    @terminal
    async def run(shell, session):
        await shell.type("set -m; sleep 1000 & jobs; fg\n")
        await shell.until(b"sleep 1000")
        await asyncio.sleep(0.3)
        await shell.type("\x1a")
        await shell.type("echo back $?\n")
        await shell.until(b"back 1")

    run(daemon)


def test_all_bytes_come_through(daemon):
    @terminal
    async def run(shell, session):
        await shell.until(b"ready\r\n")
        blob = bytes(range(256)) * 64
        await shell.type(blob)
        shown = b""
        while len(shown) < len(blob):
            frame = await shell.ws.recv()
            assert isinstance(frame, bytes)
            shown += frame
        assert shown == blob

    run(daemon, cmd="stty raw -echo -opost; printf 'ready\\r\\n'; exec cat")


def test_much_output(daemon):
    """All of it, in order, before the end is told."""
    @terminal
    async def run(shell, session):
        message, code = await shell.end()
        assert message["exit_code"] == 0 and code == 1000
        lines = shell.shown.split(b"\r\n")
        assert lines[:-1] == [b"%d" % i for i in range(1, 200001)]

    run(daemon, cmd="seq 1 200000")


def test_workdir_and_term(daemon):
    @terminal
    async def run(shell, session):
        await shell.until(b"/workspace/some where vt100\r\n")

    run(daemon, cmd="echo $PWD $TERM", workdir="/workspace/some where", term="vt100")


def test_leaving_kills(either):
    """The tree of a terminal whose client is gone goes too, however it takes hang-ups."""
    @asynchronous
    async def run():
        session = await asyncio.to_thread(either.session)
        for politely in (False, True):
            mark = unique("mark")
            command = f"trap '' HUP TERM; sh -c \"trap '' HUP; sleep 1000; :\" {mark} & echo ready; while :; do sleep 1000; done"
            ws = await websocket(either, path(session, cmd=command))
            await Terminal(ws).until(b"ready")
            assert hostview.wait_until(lambda: hostview.with_argument(mark), PATIENCE)
            if politely:
                await ws.close()
            else:
                ws.transport.abort()
            assert await asyncio.to_thread(hostview.wait_until, lambda: not hostview.with_argument(mark), PATIENCE)
            if (await asyncio.to_thread(session.info))["notes"]:
                await asyncio.to_thread(session.delete)
                session = await asyncio.to_thread(either.session)
        if not (await asyncio.to_thread(session.info))["notes"]:
            assert await asyncio.to_thread(session.out, "echo on") == "on\n"

    run()


def test_terminals_beside_each_other_and_commands(daemon):
    @asynchronous
    async def run():
        session = await asyncio.to_thread(daemon.session)
        async with websocket(daemon, path(session, cmd="cat")) as one, websocket(daemon, path(session, cmd="cat")) as two:
            first, second = Terminal(one), Terminal(two)
            await first.type("alpha\n")
            await second.type("beta\n")
            await first.until(b"alpha\r\nalpha\r\n")
            await second.until(b"beta\r\nbeta\r\n")
            assert await asyncio.to_thread(session.out, "echo between") == "between\n"
            assert (await asyncio.to_thread(session.info))["state"] == "live"

    run()


@pytest.mark.parametrize("text", ["", "x", "{}", '{"type":"resize"}', '{"type":"resize","rows":0,"cols":80}',
                                  '{"type":"resize","rows":70000,"cols":80}', '{"type":"nope","rows":1,"cols":1}',
                                  '{"type":"resize","rows":"24","cols":80}', "[]", '{"type":"resize","rows":24,"cols":80,"x":1}'])
def test_text_frames_that_are_wrong(daemon, text):
    """Closed for it, with a code that says whose mistake it was; nothing else is harmed."""
    @terminal
    async def run(shell, session):
        await shell.until(b"ready")
        await shell.ws.send(text)
        _, code = await shell.end()
        assert code in (1002, 1003, 1007, 1008), code
        assert await asyncio.to_thread(session.info)

    run(daemon, cmd="echo ready; cat")


@pytest.mark.parametrize("query", ["rows=0", "cols=x", "rows=99999", "workdir=rel", "nosuch=1", "term=", "cmd=%00",
                                   "rows=1&rows=2"])
def test_queries_that_are_wrong(daemon, session, query):
    with daemon.client.socket() as sock:
        answer = raw(sock, UPGRADE.format(f"{session.path}/pty/ws?{query}").encode(), until_close=False)
    assert statuses(answer) == [400] and b"BoxValidationError" in answer, answer


def test_no_session_no_terminal(daemon):
    with daemon.client.socket() as sock:
        answer = raw(sock, UPGRADE.format("/v1/sessions/nobody/pty/ws").encode(), until_close=False)
    assert statuses(answer)[0] in (400, 404) and b"BoxSessionNotFoundError" in answer, answer


def test_flood_that_nobody_reads(daemon):
    """The terminal waits for its client; boxd keeps nothing of it."""
    @asynchronous
    async def run():
        session = await asyncio.to_thread(daemon.session)
        before = (await asyncio.to_thread(daemon.get, "/healthz")).ok()["resources"]["rss_bytes"]
        ws = await websocket(daemon, path(session, cmd="yes"), max_queue=2, read_limit=1024)
        await ws.recv()
        await asyncio.sleep(1)
        after = (await asyncio.to_thread(daemon.get, "/healthz")).ok()["resources"]["rss_bytes"]
        assert after < before + 16 * (1 << 20)
        ws.transport.abort()
        await asyncio.to_thread(session.delete)

    run()
