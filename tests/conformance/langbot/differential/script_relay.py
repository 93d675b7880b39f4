# SPDX-License-Identifier: Apache-2.0
"""The relay: what goes into a managed process by a WebSocket, and what comes out."""

import asyncio
import contextlib

import aiohttp

import listed
import sides
from script_processes import SLEEP, SOON, ask, has_exited, sh, start
from scripts import script


def path_of(pair, session, process):
    if listed.TENANTS:
        from langbot_plugin.box.tenancy import namespace_session_id

        session = namespace_session_id(pair.context(), session)
    return f"/v1/sessions/{session}/managed-process/{process}/ws" if process else f"/v1/sessions/{session}/managed-process/ws"


def headers_of(pair, **changes):
    if not listed.TENANTS:
        return {}
    headers = {"X-LangBot-Instance-Id": sides.INSTANCE, "X-LangBot-Workspace-Id": pair.workspace,
               "X-LangBot-Placement-Generation": str(pair.generation), **changes}
    return {key: value for key, value in headers.items() if value is not None}


class Relay:
    """One on each side."""

    def __init__(self, pair, sockets):
        self.pair, self.sockets = pair, sockets

    async def send(self, text):
        for socket in self.sockets:
            await socket.send_str(text)

    async def frames(self, enough):
        """What each sends until it is enough: of the text that has come, with a newline after each frame of boxd's."""
        return await asyncio.gather(*(self._frames(socket, enough, place) for place, socket in enumerate(self.sockets)))

    async def _frames(self, socket, enough, place):
        got = []
        while not enough(text_of(got, whole_lines(place))):
            message = await asyncio.wait_for(socket.receive(), sides.PATIENCE)
            assert message.type == aiohttp.WSMsgType.TEXT, (message, got)
            got.append(message.data)
        return got

    async def text(self, size, **expectations):
        """So many characters of what comes, compared as text."""
        both = await self.frames(lambda text: len(text) >= size)
        texts = [text_of(frames, whole_lines(place)) for place, frames in enumerate(both)]
        self.pair.judge("relayed text", texts, **expectations)

    async def end(self, **expectations):
        """That both are closed, and how."""
        ends = []
        for socket in self.sockets:
            message = await asyncio.wait_for(socket.receive(), sides.PATIENCE)
            ends.append({"type": message.type.name, "code": message.data})
        self.pair.judge("the end of a relay", [{"end": one} for one in ends], **expectations)

    async def close(self):
        for socket in self.sockets:
            await socket.close()


def whole_lines(place):
    """Whether a frame is a line without its newline: boxd's always, and 0.4's."""
    return place == 0 or not listed.TENANTS


def text_of(frames, lines):
    return "".join(f"{frame}\n" for frame in frames) if lines else "".join(frames)


@contextlib.asynccontextmanager
async def relay(pair, session="s", process="default", **options):
    async with aiohttp.ClientSession() as http:
        sockets = []
        for server in pair.servers:
            sockets.append(await http.ws_connect(f"ws://127.0.0.1:{server.port}{path_of(pair, session, process)}",
                                                 headers=headers_of(pair), max_msg_size=32 << 20, **options))
        both = Relay(pair, sockets)
        try:
            yield both
        finally:
            await both.close()


async def refused(pair, session="s", process="default", headers=None, **expectations):
    """Before the upgrade: the status, and the code in the body."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", **(headers_of(pair) if headers is None else headers)}
    answers = []
    async with aiohttp.ClientSession() as http:
        for server in pair.servers:
            async with http.get(f"http://127.0.0.1:{server.port}{path_of(pair, session, process)}", headers=headers) as response:
                code = (await response.json())["error"]["code"] if response.status == 400 else None
                answers.append({"status": response.status, "code": code})
    pair.judge("a relay that is refused", answers, **expectations)


@script()
async def echo(pair):
    """A frame is a line in, a line is a frame out."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", command="cat"))
    async with relay(pair) as both:
        for text in ("hello", "", "é漢🎉", " spaces  kept ", '{"jsonrpc": "2.0", "id": 1}', "x" * 60_000, "a\rb", "\u2028\u0085"):
            await both.send(text)
            await both.text(len(text) + 1)
        await pair.call("box_get_managed_process", ask("s"))
        await pair.call("box_get_session", {"session_id": "s"})
    await pair.until("box_get_managed_process", ask("s"), lambda answer: not answer["data"]["attached"])


@script()
async def subprotocol(pair):
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", command="cat"))
    for offered in (("mcp",), ("other", "mcp"), ("other",), ()):
        async with relay(pair, protocols=offered) as both:
            pair.judge("subprotocol", [socket.protocol for socket in both.sockets])


@script()
async def again(pair):
    """The process outlives a connection, and the next one goes on where the last has ended."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", sh("s", "n=0; while read line; do n=$((n+1)); echo \"$n $line\"; done"))
    for word in ("one", "two"):
        async with relay(pair) as both:
            await both.send(word)
            await both.text(len(word) + 3)
        await pair.until("box_get_managed_process", ask("s"), lambda answer: not answer["data"]["attached"])
    async with relay(pair, process=None) as both:  # the older address, of `default`
        await both.send("three")
        await both.text(8)


@script()
async def one_at_a_time(pair):
    """A second client waits until the first has gone."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", command="cat"))
    async with relay(pair) as first:
        await first.send("a")
        await first.text(2)
        async with relay(pair) as second:
            await second.send("b")
            await first.send("c")
            await first.text(2)
            await first.close()
            await second.text(2)


@script()
async def end_of_process(pair):
    """It ends while somebody is there: the socket is closed."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", sh("s", "read line; echo \"got $line\"; exit 3"))
    async with relay(pair) as both:
        await both.send("x")
        await both.text(6)
        await both.end()
    await pair.until("box_get_managed_process", ask("s"), has_exited)
    await refused(pair)


@script()
async def refusals(pair):
    await pair.call("box_create_session", {"session_id": "s"})
    await refused(pair, session="nobody")
    await refused(pair)
    await refused(pair, process=None)
    await pair.call("box_start_managed_process", sh("s", "exit 0", process_id="p"), ignore=SOON)
    await refused(pair, process="other")
    await pair.until("box_get_managed_process", ask("s", "p"), has_exited)
    await refused(pair, process="p")


@script(since="0.5")
async def lines(pair):
    """boxd sends whole lines, 0.5's runtime what it has just read."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", sh("s", "read x; printf 'one\\ntwo\\nthr'; sleep 0.5; printf 'ee\\n'; sleep 100"))
    async with relay(pair) as both:
        await both.send("go")
        frames = await both.frames(lambda text: len(text) >= 14)
        pair.judge("frames", [{"frames": one} for one in frames], differs="relay-frames-are-lines", at=["frames"])


@script(until="0.5")
async def lines_of_old(pair):
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", sh("s", "read x; printf 'one\\ntwo\\n\\nthr'; sleep 0.5; printf 'ee\\n'; sleep 100"))
    async with relay(pair) as both:
        await both.send("go")
        frames = await both.frames(lambda text: len(text) >= 15)
        pair.judge("frames", frames)


@script()
async def broken_text(pair):
    """Output that is not UTF-8."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", sh("s", "read x; printf 'a\\377b\\303(\\342\\202\\n'; sleep 100"))
    async with relay(pair) as both:
        await both.send("go")
        await both.text(len("a?b?(?\n"))


@script(since="0.5")
async def identities(pair):
    """Who may not: as if there were nothing to find."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", **SLEEP))
    for changes in ({"X-LangBot-Instance-Id": None}, {"X-LangBot-Instance-Id": "instance-2"}, {"X-LangBot-Instance-Id": ""},
                    {"X-LangBot-Instance-Id": "-bad"}, {"X-LangBot-Workspace-Id": None}, {"X-LangBot-Workspace-Id": " "},
                    {"X-LangBot-Workspace-Id": "another"}, {"X-LangBot-Workspace-Id": "x" * 257},
                    {"X-LangBot-Placement-Generation": None}, {"X-LangBot-Placement-Generation": "2"},
                    {"X-LangBot-Placement-Generation": "0"}, {"X-LangBot-Placement-Generation": "01"},
                    {"X-LangBot-Placement-Generation": "x"}, {"X-LangBot-Placement-Generation": "1.0"},
                    {"X-LangBot-Placement-Generation": "+1"}):
        await refused(pair, headers=headers_of(pair, **changes))
    await refused(pair, headers={})
    await refused(pair, session="nobody", headers={})


@script(since="0.5")
async def overtaken(pair):
    """A newer generation closes the relays of the old."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", command="cat"))
    async with relay(pair) as both:
        await both.send("a")
        await both.text(2)
        pair.generation = 2
        await pair.call("box_get_sessions")
        await both.end(differs="relay-overtaken", at="end.code")


@script()
async def long_lines(pair):
    """0.4's runtime cannot read a line of more than 64 KiB, and closes."""
    await pair.call("box_create_session", {"session_id": "s"})
    await pair.call("box_start_managed_process", start("s", command="cat"))
    async with relay(pair) as both:
        await both.send("y" * 300_000)
        if listed.TENANTS:
            await both.text(300_001)
            return
        messages = [await asyncio.wait_for(socket.receive(), sides.PATIENCE) for socket in both.sockets]
        pair.judge("a long line", [{"got": message.type.name} for message in messages], differs="relay-long-lines", at="got")
