# SPDX-License-Identifier: Apache-2.0
"""Files that LangBot sends in chunks: what is taken, what is refused, and what is left. Only the actions of skills
read them (test_skills.py)."""

import asyncio
import base64
import hashlib
import os

from daemon import asynchronous
from harness import python_before
from peer import websocket_peer

CHUNK = 16 * 1024


def chunk(key, data=b"x", index=0, amount=1, **other):
    return {"file_key": key, "file_length": len(data), "chunk_base64": base64.b64encode(data).decode(),
            "chunk_index": index, "chunk_amount": amount, "chunk_size": len(data), **other}


@asynchronous
async def test_a_file_in_chunks(connect):
    async with connect() as peer:
        data = os.urandom(3 * (1 << 20) + 5)
        key = await peer.handler.send_file(data, "zip")
        assert key.endswith(".zip") and key.startswith(hashlib.sha256(data).hexdigest()[:16])
        assert await peer.handler.send_file(b"", "txt")
        assert await peer.handler.send_file(b"x" * CHUNK, "bin")


@asynchronous
async def test_several_at_once(connect):
    async with connect() as peer:
        keys = await asyncio.gather(*(peer.handler.send_file(os.urandom(CHUNK * 4 + i), "zip") for i in range(10)))
        assert len(set(keys)) == 10


BAD_KEYS = ["", ".", "..", "a/b", "../a", "/etc/passwd", "a\\b", "a..b", " a", "a ", "-a", "a" * 256, "ä", "a\n", 7, None]


@python_before((0, 5), "takes any key")
@asynchronous
async def test_keys_are_names_and_nothing_else(connect):
    async with connect() as peer:
        for key in BAD_KEYS:
            message = await peer.refused("__file_chunk", chunk(key))
            assert message.startswith(("ValueError:", "BoxValidationError:")), (key, message)
        for key in ("a", "A.b_c-d", "0", "a" * 255):
            assert await peer.call("__file_chunk", chunk(key)) == {}


@python_before((0, 5), "does not look at it")
@asynchronous
async def test_malformed_chunks(connect):
    async with connect() as peer:
        good = chunk("file", b"abc")
        for change in ({"chunk_base64": "!!!"}, {"chunk_base64": "YQ"}, {"chunk_base64": 7}, {"chunk_index": -1},
                       {"chunk_index": 1}, {"chunk_index": True}, {"chunk_amount": 0}, {"chunk_index": "0"},
                       {"chunk_base64": base64.b64encode(b"x" * (CHUNK + 1)).decode()}):
            await peer.refused("__file_chunk", {**good, **change})
        for key in ("file_key", "chunk_base64", "chunk_index", "chunk_amount"):
            assert key in await peer.refused("__file_chunk", {name: good[name] for name in good if name != key})
        assert await peer.call("__file_chunk", good) == {}


@python_before((0, 5), "takes any number")
@asynchronous
async def test_128_files_at_once(connect):
    async with connect() as peer:
        for i in range(128):
            await peer.call("__file_chunk", chunk(f"file-{i}"))
        await peer.refused("__file_chunk", chunk("one-more"))
        assert await peer.call("__file_chunk", chunk("file-0", b"again")) == {}, "one that is there"


@python_before((0, 5), "takes files of any size")
@asynchronous
async def test_size_limit(make_server):
    server = make_server()
    async with websocket_peer(server) as peer:
        await peer.init({"limits": {"max_rpc_file_bytes": 3 * CHUNK, "max_sessions": 64}})
    async with websocket_peer(server) as peer:
        await peer.handler.send_file(b"x" * (3 * CHUNK), "zip")
        for index in range(3):
            await peer.call("__file_chunk", chunk("long", b"y" * CHUNK, index, 4))
        await peer.refused("__file_chunk", chunk("long", b"z", 3, 4))
        # The first chunk starts over.
        assert await peer.call("__file_chunk", chunk("long", b"y" * CHUNK, 0, 3)) == {}
        assert await peer.call("__file_chunk", chunk("long", b"y" * CHUNK, 1, 3)) == {}


@python_before((0, 5), "takes any number")
@asynchronous
async def test_files_go_with_their_connection(server):
    for _ in range(2):
        async with websocket_peer(server) as peer:
            await asyncio.gather(*(peer.call("__file_chunk", chunk(f"file-{i}")) for i in range(128)))
