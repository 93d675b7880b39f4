"""What strangers do to an HTTP server: raw bytes, slowly, in crowds, from a browser, without a token."""

import concurrent.futures
import contextlib
import json
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

import conftest
import hostview
from conftest import PATIENCE, SLOWNESS
from daemon import Client, add_boxd, need_root, raw, running, statuses, stream, unique

TOKEN = "correct-horse-battery-staple-0123456789"


def ask(client, data, timeout=None):
    """Sends bytes and reads to the close."""
    with client.socket(timeout) as sock:
        return raw(sock, data if isinstance(data, bytes) else data.encode())


def one(answer):
    """The only answer, which is an error with a body that says so."""
    assert len(statuses(answer)) == 1, answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert json.loads(body)["error"]["message"], answer
    assert b"connection: close" in head.lower(), answer
    return statuses(answer)[0]


# --- heads that are refused -------------------------------------------------------------------

GET = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n"

MALFORMED = {
    # 43, and what request smuggling is made of
    "both lengths": (POST + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (POST + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
    "the same length twice": (POST + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
    "list of lengths": (POST + "Content-Length: 5, 5\r\n\r\nhello", 400),
    "negative length": (POST + "Content-Length: -1\r\n\r\n", 400),
    "length with plus": (POST + "Content-Length: +5\r\n\r\nhello", 400),
    "hexadecimal length": (POST + "Content-Length: 0x5\r\n\r\nhello", 400),
    "empty length": (POST + "Content-Length: \r\n\r\n", 400),
    "length that wraps": (POST + "Content-Length: 18446744073709551621\r\n\r\nhello", 413),
    "chunked twice": (POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunked, chunked": (POST + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 501),
    "chunked not last": (POST + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501),
    "xchunked": (POST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    "gzip": (POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "chunked with vertical tab": (POST + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    "chunked in HTTP/1.0": ("POST /v1/sessions HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "space before the colon": (POST + "Content-Length : 5\r\n\r\nhello", 400),
    "folded line": (GET + "X-A: b\r\n c\r\n\r\n", 400),
    "folded first line": ("GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    "bare LF": ("GET /healthz HTTP/1.1\nHost: localhost\n\n", 400),
    "bare LF between": ("GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400),
    "bare CR": (GET + "X-A: b\rX-B: c\r\n\r\n", 400),
    "NUL in a value": (GET + "X-A: b\0c\r\n\r\n", 400),
    "control character": (GET + "X-A: b\x01c\r\n\r\n", 400),
    "no colon": (GET + "nonsense\r\n\r\n", 400),
    "empty name": (GET + ": x\r\n\r\n", 400),
    "name with a space": (GET + "X A: b\r\n\r\n", 400),
    "name beyond ASCII": (GET + "X-\xe9: b\r\n\r\n", 400),
    "no Host": ("GET /healthz HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (GET + "Host: localhost\r\n\r\n", 400),
    "Host with a slash": ("GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    "two tokens": (GET + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400),
    "two Origins": (GET + "Origin: http://a\r\nOrigin: http://b\r\n\r\n", 400),
    "version 2": ("GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    "version 1.2": ("GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n", 505),
    "version 0.9": ("GET /healthz HTTP/0.9\r\nHost: x\r\n\r\n", 505),
    "no version": ("GET /healthz\r\nHost: x\r\n\r\n", 400),
    "small letters": ("GET /healthz http/1.1\r\nHost: x\r\n\r\n", 400),
    "two spaces": ("GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "space in the path": ("GET /health z HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "tab": ("GET\t/healthz\tHTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "bytes in the path": ("GET /h\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "relative target": ("GET healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "asterisk": ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "authority": ("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", 400),
    "fragment": ("GET /healthz#x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "target of another host": ("GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "method with bytes": ("G\xe9T /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "long method": ("A" * 100 + " / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "HTTP/2 preface": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "nonsense": (b"\0\1\2\3\r\n\r\n", 400),
    "unknown expectation": (POST + "Expect: the-spanish-inquisition\r\nContent-Length: 2\r\n\r\n{}", 417),
    "long path": ("GET /" + "x" * 70000 + " HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "long header": (GET + "X: " + "y" * 70000 + "\r\n\r\n", 431),
    "long name": (GET + "X" * 70000 + ": y\r\n\r\n", 431),
    "many headers": (GET + "".join(f"X-{i}: y\r\n" for i in range(200)) + "\r\n", 431),
}


@pytest.mark.parametrize("data,status", MALFORMED.values(), ids=MALFORMED.keys())
def test_43_malformed_heads(daemon, data, status):
    """A clear 4xx or 5xx, once, and the connection is closed: what follows is never taken for a request."""
    data = data if isinstance(data, bytes) else data.encode("latin-1")
    follow = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert one(ask(daemon.tcp, data + follow)) == status
    assert daemon.get("/healthz").status == 200


CHUNKS = {
    "no size": b"\r\nabc\r\n0\r\n\r\n",
    "not hexadecimal": b"xyz\r\nabc\r\n0\r\n\r\n",
    "negative": b"-3\r\nabc\r\n0\r\n\r\n",
    "0x": b"0x3\r\nabc\r\n0\r\n\r\n",
    "size that wraps": b"10000000000000003\r\nabc\r\n0\r\n\r\n",
    "bare LF": b"3\nabc\n0\n\n",
    "no CR LF behind": b"3\r\nabcX\r\n0\r\n\r\n",
    "space in front": b" 3\r\nabc\r\n0\r\n\r\n",
    "endless extension": b"3;" + b"x" * 200000 + b"\r\nabc\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("body", CHUNKS.values(), ids=CHUNKS.keys())
def test_43_malformed_chunks(daemon, body):
    answer = ask(daemon.tcp, (POST + "Transfer-Encoding: chunked\r\n\r\n").encode() + body +
                 b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert one(answer) in (400, 413, 431), answer


def test_chunks_that_are_well_formed(daemon):
    body = json.dumps({"session_id": unique()}).encode()
    data = b"".join(b"%X;ext=1\r\n%c\r\n" % (1, byte) for byte in body) + b"0\r\nTrailer: x\r\n\r\n"
    answer = ask(daemon.tcp, (POST + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n").encode() + data)
    assert statuses(answer) == [201], answer


def test_a_body_is_never_a_request(daemon):
    """What looks like a request inside of a body stays body."""
    inner = "DELETE /v1/sessions/victim HTTP/1.1\r\nHost: localhost\r\n\r\n"
    daemon.session("victim")
    answer = ask(daemon.tcp, f"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(inner)}\r\n\r\n{inner}"
                 + GET + "Connection: close\r\n\r\n")
    assert statuses(answer) == [404, 200], answer
    assert "victim" in daemon.names()
    daemon.delete("/v1/sessions/victim").ok()


# --- HTTP as it should be ---------------------------------------------------------------------


def test_pipelining(daemon):
    """Answers in the order of the requests, also where the first takes longest."""
    session = daemon.session()
    body = json.dumps({"cmd": "sleep 0.3; echo slow"})
    exec_ = (f"POST {session.path}/exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             f"Content-Length: {len(body)}\r\n\r\n{body}")
    nowhere = GET.replace("/healthz", "/nope") + "\r\n"
    answer = ask(daemon.tcp, exec_ + GET + "\r\n" + nowhere + GET + "Connection: close\r\n\r\n")
    assert statuses(answer) == [200, 200, 404, 200], answer
    assert answer.index(b'"slow\\n"') < answer.index(b'"live":true')


def test_many_requests_on_one_connection(daemon):
    connection = daemon.tcp.connection()
    for _ in range(500):
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        assert response.status == 200 and response.read()
    connection.close()


def test_head_in_pieces(daemon):
    with daemon.tcp.socket() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in (GET + "Connection: close\r\n\r\n").encode():
            sock.send(bytes([byte]))
        assert statuses(raw(sock)) == [200]


@pytest.mark.parametrize("head", [9000, 20000, 31000])
@pytest.mark.parametrize("size", [1, 8000, 60000])
def test_a_body_that_comes_after_its_answer(daemon, head, size):
    """A long head is answered and its buffer given back; then its body comes, to be dropped, and another request."""
    with daemon.tcp.socket() as sock:
        for _ in range(3):
            sock.sendall(f"POST /nothing HTTP/1.1\r\nHost: localhost\r\nX: {'y' * head}\r\n"
                         f"Content-Length: {size}\r\n\r\n".encode())
            assert statuses(raw(sock, until_close=False)) == [404]
            sock.sendall(b"z" * size + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert statuses(raw(sock, until_close=False)) == [200]


def test_http_1_0(daemon):
    answer = ask(daemon.tcp, "GET /healthz HTTP/1.0\r\n\r\n")
    assert statuses(answer) == [200] and b"chunked" not in answer.lower()
    session = daemon.session()
    body = json.dumps({"cmd": "echo x", "stream": True})
    answer = ask(daemon.tcp, f"POST {session.path}/exec HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n{body}")
    assert statuses(answer) == [200] and b"chunked" not in answer.lower() and b"event: result" in answer


def test_absolute_target(daemon):
    request = "GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert statuses(ask(daemon.tcp, request)) == [200]


def test_expect_continue(daemon):
    body = json.dumps({"session_id": unique()}).encode()
    with daemon.tcp.socket() as sock:
        head = f"{POST}Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        assert statuses(raw(sock, head.encode(), until_close=False)) == [100]
        assert statuses(raw(sock, body)) == [201]
    with daemon.tcp.socket() as sock:  # too large: no leave to send it
        answer = raw(sock, f"{POST}Content-Length: {1 << 30}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert statuses(answer) == [413], answer


@pytest.mark.parametrize("method,path,allow", [
    ("POST", "/healthz", {"GET"}), ("DELETE", "/v1/sessions", {"GET", "POST"}), ("PUT", "/v1/exec", {"POST"}),
    ("PATCH", "/v1/sessions/x", {"GET", "DELETE"}), ("OPTIONS", "/v1/sessions", {"GET", "POST"}),
    ("TRACE", "/v1/status", {"GET"}), ("get", "/healthz", {"GET"}), ("BREW", "/metrics", {"GET"}),
    ("GET", "/v1/sessions/x/exec", {"POST"}), ("PATCH", "/v1/sessions/x/files/y", {"GET", "HEAD", "PUT", "DELETE", "POST"})])
def test_other_methods(daemon, method, path, allow):
    answer = daemon.client.request(method, path)
    answer.error(405, "BoxValidationError")
    assert allow <= set(re.split(r",\s*", answer.headers["Allow"])) <= allow | {"HEAD", "OPTIONS"}, answer


@pytest.mark.parametrize("path", [
    "/", "/v1", "/v1/", "/v2/sessions", "/v1/sessions/", "/healthz/", "/v1/sessions/x/y", "/v1//sessions", "/../etc/passwd",
    "/v1/sessions/x/execs/1", "/.well-known/x", "/v1/sessions/x/processes/y/z"])
def test_other_paths(daemon, path):
    daemon.get(path).error(404, "BoxValidationError")


def test_head_requests(daemon):
    """As GET, without a body, and the connection goes on; what has no end is refused."""
    with daemon.tcp.socket() as sock:
        answer = raw(sock, (GET.replace("GET", "HEAD") + "\r\n" + GET + "Connection: close\r\n\r\n").encode())
    assert statuses(answer) == [200, 200], answer
    assert answer.split(b"HTTP/1.1 200 OK")[1].endswith(b"\r\n\r\n"), answer
    assert daemon.client.request("HEAD", "/v1/status").body == b""
    assert daemon.client.request("HEAD", "/v1/events").status == 405


def test_security_headers(daemon):
    """Nothing that a browser would run or keep."""
    for path in ("/v1/status", "/v1/nothing", "/healthz"):
        answer = daemon.tcp.get(path)
        assert answer.headers["Content-Type"].startswith("application/json")
        assert "Access-Control-Allow-Origin" not in answer.headers and "Set-Cookie" not in answer.headers


def test_long_texts_in_errors_are_cut(daemon):
    """An error about a long name is short, and is JSON whatever the name."""
    for name in ("x" * 5000, "%22%7d%5c", "%0d%0aX-Injected:%20yes", "<script>alert(1)</script>"):
        answer = daemon.tcp.get(f"/v1/sessions/{name}")
        assert answer.status in (400, 404) and len(answer.body) < 2000, answer
        assert answer.json["error"] and "X-Injected" not in answer.headers


# --- slow and many ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def impatient(programs, base):
    """A boxd with short deadlines and small limits."""
    need_root()
    config = {"http": {"head_sec": 1, "idle_sec": 2, "body_stall_sec": 1, "write_stall_sec": 2, "connections": 64,
                       "head_bytes": "4K", "headers": 10, "body_bytes": "64K"}}
    with running(conftest.get_box("root", add_boxd(programs), base), config=config) as boxd:
        yield boxd


def closed(sock, seconds=None):
    """Whether the other side closes, and what it said before."""
    sock.settimeout(seconds or 30 * SLOWNESS)
    got = b""
    try:
        while piece := sock.recv(65536):
            got += piece
    except ConnectionResetError:
        pass
    except TimeoutError:
        pytest.fail(f"still open: {got!r}")
    return got


def test_48_slow_head(impatient):
    """A head that does not end, by silence and by a byte now and then: 408 or just closed."""
    silent, dripping, nothing = (impatient.tcp.socket() for _ in range(3))
    silent.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
    end = time.monotonic() + 30 * SLOWNESS
    dripping.settimeout(0.1)
    got = None
    while time.monotonic() < end:
        try:
            dripping.send(b"x")
            got = dripping.recv(4096)
            break
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            got = b""
            break
    assert got is not None, "a dripping head is never cut off"
    for answer in (got, closed(silent), closed(nothing)):
        assert statuses(answer) in ([], [408]), answer
    for sock in (silent, dripping, nothing):
        sock.close()


def test_48_slow_body(impatient):
    body = impatient.tcp.socket()
    body.sendall((POST + "Content-Length: 1000\r\n\r\n{").encode())
    session = impatient.session()
    upload = impatient.tcp.socket()
    upload.sendall(f"PUT {session.file('/workspace/f')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc".encode())
    for sock in (body, upload):
        assert statuses(closed(sock)) in ([], [408])
        sock.close()
    assert hostview.wait_until(lambda: session.out("ls -A /workspace") == "", PATIENCE), "a part of the upload is left"


def test_48_idle_connection(impatient):
    with impatient.tcp.socket() as sock:
        sock.sendall((GET + "\r\n").encode())
        answer = closed(sock)
    assert statuses(answer) in ([200], [200, 408]), answer


def test_48_reader_that_does_not_read(impatient):
    """An answer that nobody takes is given up, and what made it with it."""
    session = impatient.session()
    mark = unique("mark")
    sock = impatient.tcp.socket()
    body = json.dumps({"argv": ["sh", "-c", "yes", mark], "stream": True, "timeout_sec": 0})
    sock.sendall(f"POST {session.path}/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    assert hostview.wait_until(lambda: hostview.with_argument(mark), PATIENCE)
    assert hostview.wait_until(lambda: not hostview.with_argument(mark), PATIENCE), "it goes on for ever"
    sock.close()


def test_48_a_waiting_request_is_not_idle(impatient):
    """A command may take longer than a connection may be idle."""
    session = impatient.session()
    assert session.out("sleep 4; echo done") == "done\n"


def test_48_streams_are_not_idle(impatient):
    session = impatient.session()
    with stream(impatient.client, "GET", f"/v1/events?session={session.name}") as events:
        time.sleep(4)
        session.out("true")
        assert next(events)[0] == "exec_started"


def test_48_more_connections_than_allowed(impatient):
    """The rest is told or closed at once; those that are in are served; afterwards there is room again."""
    sockets = []
    try:
        for _ in range(200):
            sock = socket.create_connection(("127.0.0.1", impatient.port), 10)
            sockets.append(sock)
        inside = 0
        for sock in sockets:
            try:
                sock.sendall((GET + "\r\n").encode())
                sock.settimeout(10)
                answer = sock.recv(4096)
            except (ConnectionResetError, BrokenPipeError):
                answer = b""
            inside += statuses(answer) == [200]
            assert statuses(answer) in ([200], [503], [408], []), answer
        assert 32 <= inside <= 64
    finally:
        for sock in sockets:
            sock.close()
    assert hostview.wait_until(lambda: answers(impatient), PATIENCE)


def answers(boxd):
    try:
        return boxd.tcp.get("/healthz").status == 200
    except (ConnectionError, OSError):
        return False


def test_48_limits_are_those_configured(impatient):
    assert statuses(ask(impatient.tcp, GET + "X: " + "y" * 5000 + "\r\n\r\n")) == [431]
    assert statuses(ask(impatient.tcp, GET + "".join(f"X-{i}: y\r\n" for i in range(12)) + "\r\n")) == [431]
    impatient.tcp.post("/v1/sessions", body=b" " * 70000, headers={"Content-Type": "application/json"}).error(413)


def test_48_two_thousand_idle_connections(daemon):
    """While they sit there, some with half a head, others are served."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2000
    if soft < wanted + 200:
        if hard < wanted + 200:
            pytest.skip(f"this process may have {hard} files open, and {wanted} connections are wanted")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + 200, hard))
    sockets = []
    try:
        for i in range(wanted):
            sock = socket.create_connection(("127.0.0.1", daemon.port), PATIENCE)
            sockets.append(sock)
            if i % 3 == 0:
                sock.send(b"GET /healthz HTTP/1.1\r\nHo")
            elif i % 3 == 1:
                sock.send(b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        session = daemon.session()
        for i in range(20):
            assert session.out(f"echo {i}") == f"{i}\n"
            assert daemon.tcp.get("/healthz").status == 200
        assert daemon.get("/healthz").ok()["resources"]["rss_bytes"] < 200 << 20
    finally:
        for sock in sockets:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert hostview.wait_until(lambda: connections(daemon) < 3, PATIENCE), connections(daemon)


UPGRADE = (b"GET /rpc/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


def address_space(boxd):
    """Bytes that it has asked the kernel for."""
    status = Path(f"/proc/{boxd.process.pid}/status").read_text()
    return int(re.search(r"VmData:\s+(\d+) kB", status)[1]) * 1024


def test_48_messages_that_are_only_announced(daemon):
    """A hundred WebSockets that each announce 16 MiB and send a little: memory is taken for what has come."""
    before = address_space(daemon)
    ping, pong = b"\x89\x80\0\0\0\0", b"\x8a\0"
    start = b"\x01\xff" + ((16 << 20) - 1).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 1000
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            sock = stack.enter_context(daemon.client.socket())
            sock.sendall(UPGRADE)
            head = b""
            while b"\r\n\r\n" not in head:
                head += sock.recv(4096)
            assert head.startswith(b"HTTP/1.1 101 ")
            sock.sendall(ping + start)
            assert sock.recv(2) == pong
        assert address_space(daemon) - before < 64 << 20
    assert daemon.get("/healthz").status == 200


def connections(boxd):
    return int(re.search(r"^boxd_http_connections (\d+)$", boxd.get("/metrics").text, re.M).group(1))


def test_connections_that_are_cut(daemon):
    """At every point of a request and its answer: no descriptor stays."""
    session = daemon.session()
    session.out("head -c 3M /dev/zero > /workspace/f")
    before = daemon.get("/healthz").ok()["resources"]["open_fds"]
    body = json.dumps({"cmd": "echo x"})
    request = (f"POST {session.path}/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}"
               f"GET {session.file('/workspace/f')} HTTP/1.1\r\nHost: localhost\r\n\r\n").encode()

    def cut(i):
        with daemon.tcp.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not a goodbye
            sock.sendall(request[:i % (len(request) + 1)])
            if i % 2:
                sock.settimeout(0.05)
                try:
                    sock.recv(i * 13 % 5000 + 1)
                except OSError:
                    pass

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(cut, range(0, 1000, 3)))
    assert hostview.wait_until(lambda: session.info()["running"] == 0, PATIENCE)
    assert session.out("echo on") == "on\n"
    assert hostview.wait_until(lambda: daemon.get("/healthz").ok()["resources"]["open_fds"] <= before + 16, PATIENCE), (
        before, daemon.get("/healthz").json, connections(daemon), hostview.fds(daemon.pid))


# --- browsers and strangers -------------------------------------------------------------------


@pytest.mark.parametrize("host,status", [
    ("127.0.0.1", 200), ("127.0.0.1:5410", 200), ("localhost", 200), ("LOCALHOST:80", 200), ("[::1]:80", 200),
    ("10.1.2.3", 200), ("evil.example", 403), ("evil.example:5410", 403), ("localhost.evil.example", 403),
    ("127.0.0.1.evil.example", 403), ("localhost:x", 403), ("127.1", 403), ("0x7f000001", 403), ("[::1", 403),
    ("localhost.", 403), ("boxd.internal", 200)])
def test_49_host(start_daemon_with_names, host, status):
    answer = ask(start_daemon_with_names.tcp, f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    assert statuses(answer) in ([status], [400] if status == 403 else [status]), answer
    if statuses(answer) == [403]:
        assert b"BoxAuthenticationError" in answer


@pytest.fixture(scope="module")
def start_daemon_with_names(programs, base):
    need_root()
    config = {"http": {"allowed_hosts": ["boxd.internal"], "allowed_origins": ["https://good.example"]}}
    with running(conftest.get_box("root", add_boxd(programs), base), config=config) as boxd:
        yield boxd


@pytest.mark.parametrize("origin,status", [
    ("https://evil.example", 403), ("null", 403), ("http://localhost", 403), ("http://127.0.0.1:5410", 403),
    ("https://good.example", 200), ("https://good.example.evil.example", 403), ("http://good.example", 403), ("", 403)])
def test_49_origin(start_daemon_with_names, origin, status):
    boxd = start_daemon_with_names
    for client in (boxd.tcp, boxd.client):
        answer = client.get("/v1/status", headers={"Origin": origin})
        assert answer.status == status, answer
        if status == 403:
            answer.error(403, "BoxAuthenticationError")
            assert "Access-Control-Allow-Origin" not in answer.headers
        else:
            assert answer.headers["Access-Control-Allow-Origin"] == origin
    boxd.tcp.post("/v1/sessions", {"session_id": "by-page"}, headers={"Origin": "https://evil.example"}).error(403)
    assert "by-page" not in boxd.names()


@pytest.fixture(scope="module")
def guarded(programs, base):
    need_root()
    with running(conftest.get_box("root", add_boxd(programs), base), token=TOKEN) as boxd:
        yield boxd


WRONG_TOKENS = [None, "", "Bearer", "Bearer ", "Bearer x", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN.upper()}",
                TOKEN, f"Basic {TOKEN}", f"Bearer  x{TOKEN}", f"Bearer {TOKEN} {TOKEN}", f"Bearer {TOKEN}, x",
                "Bearer " + "x" * 8000, f"BearerX {TOKEN}"]


def test_50_token(guarded):
    """The same words whatever is wrong with it and whatever is asked for, and others where there is none; the right one
    opens, on the socket none is needed."""
    guarded.session("known")
    bodies = {True: set(), False: set()}
    for value in WRONG_TOKENS:
        headers = {} if value is None else {"Authorization": value}
        for method, path in [("GET", "/v1/sessions/known"), ("GET", "/v1/sessions/unknown"), ("GET", "/v1/status"),
                             ("DELETE", "/v1/sessions/known"), ("GET", "/metrics"), ("GET", "/openapi.json"),
                             ("POST", "/v1/sessions"), ("GET", "/no/such/path"), ("GET", "/v1/events")]:
            answer = guarded.anonymous.request(method, path, headers=headers)
            answer.error(401, "BoxAuthenticationError")
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            bodies[value is None].add(answer.body)
    (missing,), (wrong,) = bodies[True], bodies[False]
    assert missing != wrong and TOKEN.encode() not in missing + wrong
    # Who it was is in the log, but not as often as they like.
    refusals = re.findall(r"^\S+ warn token_refused peer=127\.0\.0\.1:\d+ message=", guarded.log(), re.M)
    assert 1 <= len(refusals) < len(WRONG_TOKENS) * 9, refusals
    for value in (f"Bearer {TOKEN}", f"bearer {TOKEN}"):
        assert guarded.anonymous.get("/v1/sessions/known", headers={"Authorization": value}).status == 200
    assert guarded.client.get("/v1/sessions/known").status == 200
    assert guarded.tcp.get("/v1/sessions/known").status == 200
    assert guarded.anonymous.get("/healthz").status == 200  # for whoever restarts what is dead
    assert TOKEN not in guarded.log() and TOKEN not in (guarded.state_dir / "audit.jsonl").read_text()


def test_50_unknown_and_forbidden_look_alike(guarded):
    """Without the token, no telling whether a session or a path is there. (Above: one body for all.)"""
    for path in ("/v1/sessions/a", "/v1/sessions/a/files/etc/passwd", "/x"):
        assert guarded.anonymous.get(path).status == 401


def test_50_body_of_a_stranger_is_not_taken(guarded):
    """Refused by its head alone."""
    with guarded.anonymous.socket() as sock:
        answer = raw(sock, f"{POST}Content-Length: 10000000\r\n\r\n".encode(), until_close=False)
    assert statuses(answer) == [401]


def test_51_socket_is_for_its_owner_only(daemon):
    """Another user cannot connect."""
    script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script,
                           str(daemon.socket)], capture_output=True, timeout=PATIENCE)
    assert done.returncode != 0 and b"PermissionError" in done.stderr, done
    assert Client(daemon.socket).get("/healthz").status == 200
