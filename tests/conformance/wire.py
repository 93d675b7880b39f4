# SPDX-License-Identifier: Apache-2.0
"""WebSocket frames as bytes, and a connection that shows what really came."""

import os
import socket
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NAMES = {CONTINUATION: "continuation", TEXT: "text", BINARY: "binary", CLOSE: "close", PING: "ping", PONG: "pong"}
TIMEOUT = 10
KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # the example of RFC 6455


def frame(opcode, payload=b"", fin=True, rsv=0, mask=True, length=None, form=None):
    """One frame. `length` lies about the payload; `form` is the code of a length wider than needed."""
    size = len(payload) if length is None else length
    form = form or (127 if size > 65535 else 126 if size > 125 else size)
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode, (0x80 if mask else 0) | form])
    head += struct.pack(">Q", size) if form == 127 else struct.pack(">H", size) if form == 126 else b""
    if not mask:
        return head + payload
    key = os.urandom(4)
    keys = (key * (len(payload) // 4 + 1))[: len(payload)]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(keys, "big")
    return head + key + masked.to_bytes(len(payload), "big")


def close(code=None, reason=b""):
    return frame(CLOSE, b"" if code is None else struct.pack(">H", code) + reason)


def fragments(opcode, pieces):
    """A message in these pieces."""
    last = len(pieces) - 1
    return [frame(opcode if i == 0 else CONTINUATION, piece, fin=i == last) for i, piece in enumerate(pieces)]


class Connection:
    """A socket that was upgraded. What it reads is checked as a client must check a server's frames."""

    def __init__(self, port, path, headers=()):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}", *headers, "", ""]
        self.sock.sendall("\r\n".join(lines).encode())
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        first, *rest = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in rest)}

    def more(self):
        got = self.sock.recv(1 << 20)
        if not got:
            raise EOFError
        self.data += got

    def need(self, size):
        pieces, have = [self.data], len(self.data)
        while have < size:
            got = self.sock.recv(1 << 20)
            if not got:
                raise EOFError
            pieces.append(got)
            have += len(got)
        self.data = b"".join(pieces)

    def event(self):
        """The next frame: ("text", "…"), ("pong", b"…"), ("close", 1000); ("end",) after the last byte."""
        try:
            self.need(2)
            first, second = self.data[0], self.data[1]
            head = 2
            size = second & 0x7F
            if size > 125:
                head = 4 if size == 126 else 10
                self.need(head)
                size = int.from_bytes(self.data[2:head], "big")
            self.need(head + size)
        except EOFError:
            return ("end",) if not self.data else ("torn", self.data)
        except ConnectionResetError:
            return ("reset",)
        except TimeoutError:
            return ("silence",)
        payload, self.data = self.data[head : head + size], self.data[head + size :]
        opcode = first & 0x0F
        if second & 0x80 or first & 0x70 or opcode not in NAMES:
            return ("broken", first, second)
        if opcode >= CLOSE and (size > 125 or not first & 0x80):
            return ("broken", first, second)
        if opcode == TEXT and first & 0x80:
            return ("text", payload.decode("utf-8"))
        if opcode == CLOSE:
            return ("close", int.from_bytes(payload[:2], "big") if payload else None)
        return (NAMES[opcode], payload)

    def stop(self):
        self.sock.close()
