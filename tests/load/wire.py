# SPDX-License-Identifier: Apache-2.0
"""The clients of the load tests: HTTP/1.1, server-sent events and WebSockets on asyncio's streams.

Nothing is retried and nothing forgiven: whatever is not an answer is an exception. `Broken` means that
the other side went away, which a test that kills it expects.
"""

import asyncio
import base64
import json
import os
import struct

TIMEOUT = 60  # of every wait: a ceiling against hanging, not a measure
LIMIT = 1 << 24


class Broken(Exception):
    """The connection ended before the answer did."""


class Refused(Exception):
    """An answer with a status that was not asked for."""

    def __init__(self, what, response):
        super().__init__(f"{what}: {response.status} {response.body[:400].decode(errors='replace')}")
        self.status = response.status
        self.response = response


class Response:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)


class Address:
    """A Unix socket, or a port of the loopback."""

    def __init__(self, path=None, port=None):
        self.path = path
        self.port = port

    async def open(self):
        try:
            if self.path:
                return await asyncio.open_unix_connection(str(self.path), limit=LIMIT)
            return await asyncio.open_connection("127.0.0.1", self.port, limit=LIMIT)
        except (ConnectionError, FileNotFoundError) as failure:
            raise Broken(f"cannot connect: {failure}") from failure


async def _patiently(waiting, what):
    try:
        return await asyncio.wait_for(waiting, TIMEOUT)
    except (asyncio.TimeoutError, TimeoutError) as failure:
        raise RuntimeError(f"no answer within {TIMEOUT} s: {what}") from failure
    except (asyncio.IncompleteReadError, ConnectionError, BrokenPipeError) as failure:
        raise Broken(f"{what}: {type(failure).__name__}") from failure


async def read_head(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.lower()] = value.strip()
    return int(head[0].split(" ")[1]), headers


async def read_chunks(reader):
    """The pieces of a chunked body."""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await reader.readexactly(size + 2)
        if size == 0:
            return
        yield data[:-2]


class Client:
    """One connection, opened when it is needed and kept."""

    def __init__(self, address):
        self.address = address
        self.reader = self.writer = None

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None

    async def _send(self, method, target, body, headers):
        if not self.writer:
            self.reader, self.writer = await self.address.open()
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            lines.append("Content-Type: application/json")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        await self.writer.drain()

    async def _exchange(self, method, target, body, headers):
        await self._send(method, target, body, headers)
        status, got = await read_head(self.reader)
        if got.get("transfer-encoding") == "chunked":
            data = b"".join([piece async for piece in read_chunks(self.reader)])
        elif method == "HEAD" or status in (204, 304):
            data = b""
        else:
            data = await self.reader.readexactly(int(got["content-length"]))
        if got.get("connection", "").lower() == "close":
            self.close()
        return Response(status, got, data)

    async def request(self, method, target, body=None, headers=None):
        """Any answer at all."""
        try:
            return await _patiently(self._exchange(method, target, body, headers), f"{method} {target}")
        except BaseException:
            self.close()
            raise

    async def call(self, method, target, body=None, want=(200, 201), headers=None):
        """An answer with one of the wanted statuses."""
        response = await self.request(method, target, body, headers)
        if response.status not in want:
            raise Refused(f"{method} {target}", response)
        return response

    async def events(self, method, target, body=None):
        """Server-sent events as (name, data), to the end of the answer."""
        what = f"{method} {target}"
        finished = False
        try:
            headers = {"Accept": "text/event-stream"}
            await _patiently(self._send(method, target, body, headers), what)
            status, got = await _patiently(read_head(self.reader), what)
            if status != 200:
                length = int(got.get("content-length", 0))
                raise Refused(what, Response(status, got, await self.reader.readexactly(length)))
            pieces = read_chunks(self.reader)
            text = b""
            while True:
                try:
                    text += await _patiently(pieces.__anext__(), what)
                except StopAsyncIteration:
                    break
                while b"\n\n" in text:
                    event, text = text.split(b"\n\n", 1)
                    fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if not line.startswith(b":"))
                    if fields:
                        yield fields[b"event"].decode(), json.loads(fields[b"data"])
            finished = True
        finally:
            if not finished:
                self.close()


class WebSocket:
    """The client's end: masked frames, text only."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.close_code = None

    @classmethod
    async def open(cls, address, target, protocol="mcp"):
        reader, writer = await address.open()
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write((f"GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                      f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n").encode())
        try:
            status, headers = await _patiently(read_head(reader), f"upgrade {target}")
            if status != 101:
                body = await _patiently(reader.readexactly(int(headers.get("content-length", 0))), target)
                raise Refused(f"upgrade {target}", Response(status, headers, body))
        except BaseException:
            writer.close()
            raise
        return cls(reader, writer)

    def _frame(self, opcode, data):
        mask = os.urandom(4)
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
        elif size < 65536:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
        repeated = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
        self.writer.write(head + mask + masked)

    def send(self, text):
        self._frame(1, text.encode())

    async def _receive(self):
        whole = b""
        while True:
            first, second = await self.reader.readexactly(2)
            size = second & 0x7F
            if size == 126:
                size = struct.unpack("!H", await self.reader.readexactly(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", await self.reader.readexactly(8))[0]
            data = await self.reader.readexactly(size)
            opcode = first & 0x0F
            if opcode == 8:
                self.close_code = struct.unpack("!H", data[:2])[0] if size >= 2 else 1005
                return None
            if opcode == 9:
                self._frame(10, data)
            elif opcode in (0, 1, 2):
                whole += data
                if first & 0x80:
                    return whole

    async def receive(self):
        """The next message as bytes; None when the other side closes."""
        return await _patiently(self._receive(), "WebSocket")

    async def close(self):
        """Says goodbye and waits for the answer."""
        try:
            if self.close_code is None:
                self._frame(8, struct.pack("!H", 1000))
                while await self.receive() is not None:
                    pass
            else:
                self._frame(8, struct.pack("!H", 1000))
        except Broken:
            pass
        finally:
            self.writer.close()

    def drop(self):
        """Goes without a word."""
        self.writer.transport.abort()
