# SPDX-License-Identifier: Apache-2.0
"""The opening handshake of RFC 6455, section 4.2, by raw bytes against the relay.

usage: handshake_cases.py PORT
"""

import socket
import sys

from websocket_cases import call
from wire import ACCEPT, KEY, TIMEOUT

SESSION = "handshake-cases"
PATH = f"/v1/sessions/{SESSION}/managed-process/ws"
GOOD = {"Host": "localhost", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY}

# name, what is different (None: left out), status, headers of the answer (None: must not be there)
CASES = [
    ("as it should be", {}, 101, {"upgrade": "websocket", "sec-websocket-accept": ACCEPT}),
    ("other cases of letters", {"Upgrade": "WebSocket", "Connection": "upgrade"}, 101, {}),
    ("Connection is a list", {"Connection": "keep-alive, Upgrade"}, 101, {}),
    ("no subprotocol offered", {}, 101, {"sec-websocket-protocol": None}),
    ("its subprotocol", {"Sec-WebSocket-Protocol": "mcp"}, 101, {"sec-websocket-protocol": "mcp"}),
    ("its subprotocol among others", {"Sec-WebSocket-Protocol": "chat, mcp, x"}, 101, {"sec-websocket-protocol": "mcp"}),
    ("another subprotocol", {"Sec-WebSocket-Protocol": "chat"}, 101, {"sec-websocket-protocol": None}),
    ("extensions are not taken up", {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}, 101,
     {"sec-websocket-extensions": None}),
    ("no Upgrade", {"Upgrade": None}, 426, {"upgrade": "websocket"}),
    ("Upgrade to something else", {"Upgrade": "h2c"}, 426, {}),
    ("no Connection", {"Connection": None}, 426, {}),
    ("Connection without upgrade", {"Connection": "keep-alive"}, 426, {}),
    ("no version", {"Sec-WebSocket-Version": None}, 426, {"sec-websocket-version": "13"}),
    ("version 8", {"Sec-WebSocket-Version": "8"}, 426, {"sec-websocket-version": "13"}),
    ("version 14", {"Sec-WebSocket-Version": "14"}, 426, {"sec-websocket-version": "13"}),
    ("no key", {"Sec-WebSocket-Key": None}, 400, {}),
    ("an empty key", {"Sec-WebSocket-Key": ""}, 400, {}),
    ("a key that is too short", {"Sec-WebSocket-Key": "dGhlIHNhbXBsZQ=="}, 400, {}),
    ("a key that is too long", {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZSE="}, 400, {}),
    ("a key that is not base64", {"Sec-WebSocket-Key": "!!!!!!!!!!!!!!!!!!!!!!=="}, 400, {}),
    ("a body", {"Content-Length": "5"}, 400, {}),
    ("no Host", {"Host": None}, 400, {}),
    ("a Host of somebody else's", {"Host": "example.org"}, 403, {}),
    ("a web page", {"Origin": "https://example.org"}, 403, {}),
    ("HTTP/1.0", {"version": "1.0"}, 400, {}),
    ("POST", {"method": "POST"}, 405, {"allow": "GET"}),
    ("no such process", {"path": PATH.replace("/ws", "/other/ws")}, 400, {}),
    ("no such session", {"path": PATH.replace(SESSION, "nobody")}, 400, {}),
]


def answer(port, change):
    headers = {**GOOD, **change}
    method, path, version = headers.pop("method", "GET"), headers.pop("path", PATH), headers.pop("version", "1.1")
    lines = [f"{method} {path} HTTP/{version}", *(f"{k}: {v}" for k, v in headers.items() if v is not None), "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as sock:
        sock.sendall("\r\n".join(lines).encode() + b"hello" * ("Content-Length" in headers))
        data = b""
        while b"\r\n\r\n" not in data:
            got = sock.recv(65536)
            if not got:
                return 0, {}
            data += got
    first, *rest = data.split(b"\r\n\r\n", 1)[0].decode().split("\r\n")
    return int(first.split()[1]), {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in rest)}


def main():
    port = int(sys.argv[1])
    failed = 0
    call(port, "POST", "/v1/sessions", {"session_id": SESSION})
    call(port, "POST", f"/v1/sessions/{SESSION}/processes", {"command": "cat"})
    for name, change, status, wanted in CASES:
        got, headers = answer(port, change)
        wrong = [f"{k}: {headers.get(k)!r}" for k, v in wanted.items() if headers.get(k) != v]
        if got != status or wrong:
            print(f"FAILED {name}: expected {status} {wanted}, got {got} {' '.join(wrong)}")
            failed += 1
    call(port, "DELETE", f"/v1/sessions/{SESSION}")
    print(f"handshake cases: {len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
