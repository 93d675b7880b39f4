"""The relay: a WebSocket on a managed process, a text frame a line, with Python's `websockets` as the client."""

import asyncio
import json
import random

import pytest

import hostview
from conftest import PATIENCE, SLOWNESS
from daemon import asynchronous, raw, statuses, websocket

websockets = pytest.importorskip("websockets", reason="python3-websockets is not installed")

MIB = 1 << 20
CLOSED = (websockets.ConnectionClosed,)


def path(session, process_id=None, since=None):
    where = f"{session.path}/managed-process/{f'{process_id}/' if process_id else ''}ws"
    return where if since is None else f"{where}?since={since}"


async def start(session, *args, **fields):
    return await asyncio.to_thread(session.start, *args, **fields)


async def lines_of(ws, count):
    return [await ws.recv() for _ in range(count)]


async def end_of(ws):
    """Reads to the close: (frames, code)."""
    frames = []
    try:
        while True:
            frames.append(await ws.recv())
    except websockets.ConnectionClosed as closed:
        return frames, closed.rcvd.code if closed.rcvd else None


ECHO = "import sys\nfor line in sys.stdin:\n    sys.stdout.write(line)\n    sys.stdout.flush()\n"


# --- frames are lines -------------------------------------------------------------------------


@asynchronous
async def _echo(either):
    session = await asyncio.to_thread(either.session)
    await start(session, "cat")
    async with websocket(either, path(session), subprotocols=["mcp"]) as ws:
        assert ws.subprotocol == "mcp"
        for text in ("hello", "", "ünï 😀", " spaces  ", "tab\there", '{"a":1}'):
            await ws.send(text)
            assert await ws.recv() == text
        assert (await asyncio.to_thread(session.process))["attached"] is True
    assert (await asyncio.to_thread(session.process))["status"] == "running"
    await asyncio.to_thread(session.delete)


def test_a_frame_is_a_line(either):
    _echo(either)


@asynchronous
async def test_default_and_named_by_tcp_and_without_subprotocol(daemon, session):
    await start(session, "sh", "-c", "echo I am default; cat")
    await start(session, "sh", "-c", "echo I am other; cat", process_id="other")
    async with websocket(daemon, path(session), tcp=True) as ws:
        assert ws.subprotocol is None and await ws.recv() == "I am default"
    async with websocket(daemon, path(session, "default"), tcp=True, subprotocols=["x", "mcp"]) as ws:
        assert ws.subprotocol == "mcp"
    async with websocket(daemon, path(session, "other"), subprotocols=["x"]) as ws:
        assert ws.subprotocol is None and await ws.recv() == "I am other"


@asynchronous
async def test_line_framing(daemon, session):
    """Pieces of a line wait for its end; several lines at once are several frames; the last may lack its newline."""
    script = ("printf 'one'; sleep 0.2; printf ' line\\ntwo\\n\\nthree\\r\\n'; sleep 0.2; printf 'no newline'; exit 0")
    await start(session, "sh", "-c", f"read go; {script}")
    async with websocket(daemon, path(session)) as ws:
        await ws.send("go")
        frames, code = await end_of(ws)
    assert [frame.rstrip("\r") for frame in frames] == ["one line", "two", "", "three", "no newline"] and code == 1000


@asynchronous
async def test_frame_with_newlines_inside(daemon, session):
    """Whatever it is taken for, it arrives."""
    await start(session, "cat")
    async with websocket(daemon, path(session)) as ws:
        await ws.send("a\nb")
        assert await lines_of(ws, 2) == ["a", "b"]


@asynchronous
async def test_fragmented_messages(daemon, session):
    await start(session, "cat")
    async with websocket(daemon, path(session)) as ws:
        await ws.send(["frag", "", "ment", "ed 😀"])
        assert await ws.recv() == "fragmented 😀"


@asynchronous
async def test_binary_frames_are_refused(daemon, session):
    await start(session, "cat")
    async with websocket(daemon, path(session)) as ws:
        await ws.send(b"bytes")
        assert (await end_of(ws))[1] == 1003
    assert (await asyncio.to_thread(session.process))["status"] == "running"


@asynchronous
async def test_output_that_is_not_utf8(daemon, session):
    await start(session, "sh", "-c", r"printf 'a\377b\303\nnext\n'; sleep 1000")
    async with websocket(daemon, path(session)) as ws:
        assert await lines_of(ws, 2) == [b"a\xffb\xc3".decode(errors="replace"), "next"]


@asynchronous
async def test_stderr_does_not_come(daemon, session):
    await start(session, "sh", "-c", "echo err >&2; echo out; sleep 1000")
    async with websocket(daemon, path(session)) as ws:
        assert await ws.recv() == "out"
    assert (await asyncio.to_thread(session.process))["stderr_preview"] == "err\n"


@asynchronous
async def test_line_of_ten_mebibytes(daemon, session):
    await start(session, "python3", "-c", ECHO)
    line = "".join(random.choices("abcdefghijklmnop é😀", k=10 * MIB // 2))
    line = (line * 3).encode()[:10 * MIB].decode(errors="ignore")
    async with websocket(daemon, path(session)) as ws:
        await ws.send(line)
        got = await ws.recv()
        assert got == line
        await ws.send("short")
        assert await ws.recv() == "short"


@asynchronous
async def test_message_over_the_limit_closes_with_1009(daemon, session):
    await start(session, "cat")
    async with websocket(daemon, path(session)) as ws:
        try:
            await ws.send("x" * (17 * MIB))
        except CLOSED:
            pass
        assert (await end_of(ws))[1] == 1009
    assert (await asyncio.to_thread(session.process))["status"] == "running"


@asynchronous
async def test_end_of_the_process_closes_with_1000(daemon, session):
    await start(session, "sh", "-c", "read x; seq 1 1000; exit 3")
    async with websocket(daemon, path(session)) as ws:
        await ws.send("go")
        frames, code = await end_of(ws)
    assert frames == [str(i) for i in range(1, 1001)] and code == 1000
    assert (await asyncio.to_thread(session.ended))["exit_code"] == 3


@asynchronous
async def test_stop_of_the_process_closes(daemon, session):
    await start(session, "cat")
    async with websocket(daemon, path(session)) as ws:
        await asyncio.to_thread(session.client.delete, f"{session.path}/processes/default")
        assert (await end_of(ws))[1] == 1000


@asynchronous
async def test_end_of_the_session_closes(daemon):
    session = await asyncio.to_thread(daemon.session)
    await start(session, "cat")
    async with websocket(daemon, path(session)) as ws:
        await asyncio.to_thread(session.delete)
        assert (await end_of(ws))[1] in (1000, 1001, 1011)


@asynchronous
async def test_replacing_the_process_closes(daemon, session):
    await start(session, "cat")
    async with websocket(daemon, path(session)) as ws:
        await start(session, "sh", "-c", "echo new; cat")
        assert (await end_of(ws))[1] in (1000, 1001)
    async with websocket(daemon, path(session)) as ws:
        assert await ws.recv() == "new"


@asynchronous
async def test_ping_is_answered(daemon, session):
    await start(session, "cat")
    async with websocket(daemon, path(session)) as ws:
        await asyncio.wait_for(await ws.ping(b"x" * 125), PATIENCE)


# --- one client at a time ---------------------------------------------------------------------


@asynchronous
async def test_clients_wait_in_line(daemon, session):
    """The second holds the process when the first has left; what it sent meanwhile is not lost."""
    await start(session, "sh", "-c", "while read line; do echo got $line; done")
    first = await websocket(daemon, path(session))
    await first.send("one")
    assert await first.recv() == "got one"
    second = await websocket(daemon, path(session))
    await second.send("two")
    third = await websocket(daemon, path(session))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(second.recv(), 0.5)
    await first.send("still")
    assert await first.recv() == "got still"
    await first.close()
    assert await second.recv() == "got two"
    await third.close()  # leaves the line
    await second.send("three")
    assert await second.recv() == "got three"
    await second.close()


@asynchronous
async def test_output_while_nobody_listens_waits(daemon, session):
    await start(session, "sh", "-c", "for i in 1 2 3; do echo line $i; done; cat")
    assert await asyncio.to_thread(hostview.wait_until, lambda: session.process()["stdout_bytes"] == 21, PATIENCE)
    async with websocket(daemon, path(session)) as ws:
        assert await lines_of(ws, 3) == ["line 1", "line 2", "line 3"]
    async with websocket(daemon, path(session)) as ws:  # not twice
        await ws.send("fresh")
        assert await ws.recv() == "fresh"


@asynchronous
async def test_half_a_line_is_for_the_next(daemon, session):
    """A client that leaves in the middle of a line has not had it: the next one gets it whole."""
    await start(session, "sh", "-c", """printf 'one\\n{"ha'; read x; echo 'lf"}'; read x""")
    async with websocket(daemon, path(session)) as ws:
        assert await ws.recv() == "one"
        assert await asyncio.to_thread(hostview.wait_until, lambda: session.process()["stdout_bytes"] == 8, PATIENCE)
    async with websocket(daemon, path(session)) as ws:
        await ws.send("go")
        assert await ws.recv() == '{"half"}'


# --- reconnecting -----------------------------------------------------------------------------


@asynchronous
async def test_since_replays(daemon, session):
    await start(session, "sh", "-c", "seq 1 9; cat")
    async with websocket(daemon, path(session)) as ws:
        assert await lines_of(ws, 9) == [str(i) for i in range(1, 10)]
    for since, expected in ((0, list("123456789")), (4, list("3456789")), (16, ["9"])):
        async with websocket(daemon, path(session, since=since)) as ws:
            assert await lines_of(ws, len(expected)) == expected
    async with websocket(daemon, path(session, since=18)) as ws:
        await ws.send("next")
        assert await ws.recv() == "next"


async def collect(daemon, session, wanted, chance):
    """Reads a stream of lines through a client that drops off again and again, and goes on where it was."""
    generator = random.Random(4711)
    got, offset, drops = [], 0, 0
    while len(got) < len(wanted):
        ws = await websocket(daemon, path(session, since=offset))
        try:
            budget = int(generator.expovariate(chance)) + 1
            while len(got) < len(wanted) and budget > 0:
                line = await ws.recv()
                got.append(line)
                assert line == wanted[len(got) - 1], first_difference(got, wanted)
                offset += len(line.encode()) + 1
                budget -= 1
        finally:
            # Without goodbye: the library's waits until everything that is still on its way has been read.
            ws.transport.abort() if generator.random() < 0.5 else ws.transport.close()
            drops += 1
        assert drops < 2000
    return got, drops


# As long as nobody is connected nothing holds the process up, and the ring holds 1 MiB: it writes at a pace at which a
# client has the time to come back.
STREAM = """
import random, sys, time
input()
r = random.Random(99)
size = 0
for i in range(int(sys.argv[1])):
    line = '%d %s\\n' % (i, 'x\\u00e9' * r.randrange(0, int(sys.argv[2])))
    sys.stdout.write(line)
    size += len(line.encode())
    if size > 32768:
        sys.stdout.flush()
        time.sleep(0.01)
        size = 0
sys.stdout.flush()
sys.stdin.read()
"""


def expected_lines(count, width):
    r = random.Random(99)
    return ["%d %s" % (i, "xé" * r.randrange(0, width)) for i in range(count)]


def first_difference(got, wanted):
    for i, (one, other) in enumerate(zip(got, wanted)):
        if one != other:
            return f"line {i}: {one[:60]!r} instead of {other[:60]!r}"
    return f"{len(got)} lines instead of {len(wanted)}"


@asynchronous
async def test_reconnecting_misses_nothing_and_repeats_nothing(daemon, session):
    """A big stream, drops at random."""
    count = 20000
    wanted = expected_lines(count, 60)
    await start(session, "python3", "-c", STREAM, str(count), "60")
    ws = await websocket(daemon, path(session))
    await ws.send("go")
    ws.transport.close()
    got, drops = await collect(daemon, session, wanted, 1 / 700)
    assert got == wanted, first_difference(got, wanted)
    assert drops > 10


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
@asynchronous
async def test_reconnecting_after_not_reading(daemon, session, tcp):
    """The client stops reading, so that whatever is in between fills up, then is cut off: what it had not read is
    still to be had."""
    count = 40000
    wanted = expected_lines(count, 200)
    await start(session, "python3", "-c", STREAM, str(count), "200")
    ws = await websocket(daemon, path(session), tcp=tcp, max_queue=4, read_limit=1024)
    await ws.send("go")
    got = await lines_of(ws, 100)
    await asyncio.sleep(2.5)
    ws.transport.abort()
    offset = sum(len(line.encode()) + 1 for line in got)
    async with websocket(daemon, path(session, since=offset), tcp=tcp) as ws:
        while len(got) < count:
            got.append(await ws.recv())
            assert got[-1] == wanted[len(got) - 1], first_difference(got, wanted)


@asynchronous
async def test_slow_reader_holds_up_the_process_not_boxd(daemon, session):
    before = (await asyncio.to_thread(daemon.get, "/healthz")).ok()["resources"]["rss_bytes"]
    await start(session, "sh", "-c", "read x; yes abcdefghijklmnopqrstuvwxyz | head -c 200M; echo; echo end")
    ws = await websocket(daemon, path(session), max_queue=2, read_limit=1024)
    await ws.send("go")
    await ws.recv()
    await asyncio.sleep(1)
    first = (await asyncio.to_thread(session.process))["stdout_bytes"]
    await asyncio.sleep(0.5)
    second = (await asyncio.to_thread(session.process))["stdout_bytes"]
    assert first == second < 200 * MIB, "it is not held up"
    assert (await asyncio.to_thread(daemon.get, "/healthz")).ok()["resources"]["rss_bytes"] < before + 32 * MIB
    for _ in range(10000):
        assert await ws.recv() == "abcdefghijklmnopqrstuvwxyz"
    assert (await asyncio.to_thread(session.process))["stdout_bytes"] >= first
    ws.transport.abort()


@asynchronous
async def test_process_that_does_not_read_holds_up_its_client(daemon, session):
    """Input is bounded on its way too."""
    before = (await asyncio.to_thread(daemon.get, "/healthz")).ok()["resources"]["rss_bytes"]
    await start(session, "sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.05; done; cat | wc -c")
    sent = 0
    async with websocket(daemon, path(session), write_limit=1024) as ws:
        try:
            while sent < 100 * MIB:
                await asyncio.wait_for(ws.send("x" * (MIB - 1)), 1)
                sent += MIB
        except asyncio.TimeoutError:
            pass
        assert sent < 100 * MIB, "all of it was taken"
        assert (await asyncio.to_thread(daemon.get, "/healthz")).ok()["resources"]["rss_bytes"] < before + 64 * MIB
        ws.transport.abort()


# --- refused ----------------------------------------------------------------------------------

UPGRADE = ("GET {} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")


def upgrade(client, where):
    with client.socket() as sock:
        return raw(sock, UPGRADE.format(where).encode(), until_close=False)


def test_failures_before_the_upgrade(daemon, session):
    """400 with an error body, as LangBot's client wants it."""
    session.start("true", process_id="over")
    session.ended("over")
    for where, code in [
        ("/v1/sessions/nobody/managed-process/ws", "BoxSessionNotFoundError"),
        ("/v1/sessions/nobody/managed-process/x/ws", "BoxSessionNotFoundError"),
        (path(session), "BoxManagedProcessNotFoundError"),
        (path(session, "nobody"), "BoxManagedProcessNotFoundError"),
        (path(session, "over"), None),
    ]:
        for answer in (upgrade(daemon.client, where), upgrade(daemon.tcp, where)):
            assert statuses(answer) == [400], answer
            error = json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]
            assert error["code"] == (code or "BoxManagedProcessConflictError") and error["message"]


@pytest.mark.parametrize("query", ["since=-1", "since=x", "since=1.5", "since=99999999999999999999999", "nosuch=1"])
def test_queries_that_are_wrong(daemon, session, query):
    session.start("cat")
    assert statuses(upgrade(daemon.client, f"{path(session)}?{query}")) == [400]


def test_requests_that_are_no_upgrade(daemon, session):
    session.start("cat")
    answer = daemon.get(path(session))
    assert answer.status in (400, 426), answer
    answer.error(answer.status)
    for change in (("13", "8"), ("Upgrade: websocket", "Upgrade: h2c"), ("GET", "POST"),
                   ("dGhlIHNhbXBsZSBub25jZQ==", "short"), ("Connection: Upgrade", "Connection: close")):
        with daemon.client.socket() as sock:
            answer = raw(sock, UPGRADE.format(path(session)).replace(*change).encode(), until_close=False)
        assert statuses(answer)[0] in (400, 405, 426, 501), (change, answer)


def test_accept_key(daemon, session):
    """The example of RFC 6455."""
    session.start("cat")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in upgrade(daemon.client, path(session))


def test_token_and_origin(start_boxd):
    """ABUSE 49, 50: a web page and one without the token do not get in."""
    boxd = start_boxd(token="t" * 40)
    session = boxd.session()
    session.start("cat")
    where = path(session)
    assert statuses(upgrade(boxd.tcp, where)) == [401]
    with boxd.tcp.socket() as sock:
        authorized = UPGRADE.format(where).replace("\r\n\r\n", f"\r\nAuthorization: Bearer {boxd.token}\r\n\r\n")
        assert statuses(raw(sock, authorized.encode(), until_close=False)) == [101]
    with boxd.tcp.socket() as sock:
        foreign = authorized.replace("\r\n\r\n", "\r\nOrigin: https://evil.example\r\n\r\n")
        assert statuses(raw(sock, foreign.encode(), until_close=False)) == [403]


# 47: what a hostile client sends, byte for byte.

def frame(opcode, payload=b"", fin=True, mask=True, rsv=0, length=None):
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    size = len(payload) if length is None else length
    flag = 0x80 if mask else 0
    if size < 126:
        head += bytes([flag | size])
    elif size < 65536:
        head += bytes([flag | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([flag | 127]) + size.to_bytes(8, "big")
    key = b"\x11\x22\x33\x44"
    if mask:
        head += key
        payload = bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))
    return head + payload


HOSTILE = {
    "unmasked": (frame(1, b"x", mask=False), 1002),
    "reserved bit": (frame(1, b"x", rsv=4), 1002),
    "reserved opcode": (frame(3, b"x"), 1002),
    "reserved control": (frame(11, b"x"), 1002),
    "ping over 125": (frame(9, b"x" * 126), 1002),
    "fragmented ping": (frame(9, b"x", fin=False), 1002),
    "continuation of nothing": (frame(0, b"x"), 1002),
    "text inside a message": (frame(1, b"x", fin=False) + frame(1, b"y"), 1002),
    "invalid UTF-8": (frame(1, b"\xff"), 1007),
    "UTF-8 cut at the end": (frame(1, b"\xc3"), 1007),
    "2^63": (frame(1, b"", length=1 << 63), 1002),
    "2^63-1": (frame(1, b"", length=(1 << 63) - 1), 1009),
    "over the limit": (frame(1, b"", length=64 * MIB), 1009),
    "close of one byte": (frame(8, b"x"), 1002),
    "close with a bad code": (frame(8, (999).to_bytes(2, "big")), 1002),
    "close with bad UTF-8": (frame(8, (1000).to_bytes(2, "big") + b"\xff"), 1007),
    "length not minimal": (b"\x81\xfe\x00\x01\x11\x22\x33\x44i", 1002),
    "good-bye": (frame(8, (1000).to_bytes(2, "big")), 1000),
}


@pytest.mark.parametrize("data,code", HOSTILE.values(), ids=HOSTILE.keys())
def test_47_hostile_frames(daemon, session, data, code):
    session.start("cat")
    with daemon.client.socket(timeout=10 * SLOWNESS) as sock:
        answer = raw(sock, UPGRADE.format(path(session)).encode(), until_close=False)
        assert statuses(answer) == [101], answer
        rest = answer.split(b"\r\n\r\n", 1)[1] + raw(sock, data)
    assert rest[:1] == b"\x88", rest
    got = int.from_bytes(rest[2:4], "big")
    assert got == code or (code == 1002 and data == HOSTILE["2^63"][0] and got == 1009), got
    assert session.process()["status"] == "running"


def test_47_flood_of_fragments(daemon, session):
    """Empty ones for ever: closed, or taken without growing."""
    session.start("cat")
    before = daemon.get("/healthz").ok()["resources"]["rss_bytes"]
    with daemon.client.socket() as sock:
        raw(sock, UPGRADE.format(path(session)).encode(), until_close=False)
        try:
            sock.sendall(frame(1, b"", fin=False))
            for _ in range(200):
                sock.sendall(frame(0, b"", fin=False) * 500)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert daemon.get("/healthz").ok()["resources"]["rss_bytes"] < before + 16 * MIB
    assert session.process()["status"] == "running"


def test_47_flood_of_pings(daemon, session):
    """Sent without reading a single answer: no memory for them."""
    session.start("cat")
    before = daemon.get("/healthz").ok()["resources"]["rss_bytes"]
    with daemon.client.socket(timeout=3) as sock:
        raw(sock, UPGRADE.format(path(session)).encode(), until_close=False)
        try:
            for _ in range(400):
                sock.sendall(frame(9, b"x" * 125) * 500)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass
        assert daemon.get("/healthz").ok()["resources"]["rss_bytes"] < before + 16 * MIB


# --- what it is for ---------------------------------------------------------------------------

MCP_SERVER = '''
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "echo", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": params["arguments"]["text"][::-1]}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no " + method}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}, ensure_ascii=False), flush=True)
'''


@asynchronous
async def test_an_mcp_server_inside(daemon, session):
    """Uploaded, started, initialised, called; the connection is lost in between; it remembers."""
    await asyncio.to_thread(daemon.put, session.file("/workspace/server.py"), MCP_SERVER)
    await start(session, "python3", "/workspace/server.py")

    async def call(ws, number, method, **params):
        await ws.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        answer = json.loads(await ws.recv())
        assert answer["id"] == number and answer["jsonrpc"] == "2.0"
        return answer

    async with websocket(daemon, path(session), subprotocols=["mcp"], tcp=True) as ws:
        hello = await call(ws, 1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={})
        assert hello["result"]["protocolVersion"] == "2025-06-18"
        await ws.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        assert (await call(ws, 2, "tools/list"))["result"]["tools"][0]["name"] == "echo"
        ws.transport.abort()
    async with websocket(daemon, path(session), subprotocols=["mcp"], tcp=True) as ws:
        for i in range(3, 60):
            text = f"ünï\n\"{i}\" 😀" + "z" * (i * 500)
            answer = await call(ws, i, "tools/call", name="echo", arguments={"text": text})
            assert answer["result"]["content"][0]["text"] == text[::-1]
        assert (await call(ws, 99, "nope"))["error"]["code"] == -32601
    assert (await asyncio.to_thread(session.process))["stderr_preview"] == ""


@asynchronous
async def test_many_relays_at_once(daemon):
    """A crowd, each with its own process."""
    sessions = [await asyncio.to_thread(daemon.session) for _ in range(8)]
    for session in sessions:
        for process_id in ("a", "b"):
            await start(session, "cat", process_id=process_id)

    async def talk(session, process_id):
        async with websocket(daemon, path(session, process_id)) as ws:
            for i in range(100):
                await ws.send(f"{session.name} {process_id} {i}")
                assert await ws.recv() == f"{session.name} {process_id} {i}"

    await asyncio.gather(*(talk(session, process_id) for session in sessions for process_id in ("a", "b")))
    for session in sessions:
        await asyncio.to_thread(session.delete)


