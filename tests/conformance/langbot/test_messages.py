# SPDX-License-Identifier: Apache-2.0
"""Messages of 10 MiB and more, both ways, and the rules for what a command printed.

What a client can take differs. 0.4.2 sends what is over 64 KiB as several WebSocket messages, none of which is JSON by
itself, so nobody can answer it; and takes at most 1 MiB. The later ones send and take 16 MiB. Over stdio all of them
cut into chunks, and only their own limits hold."""

import pytest
from daemon import asynchronous, unique
from harness import SERVER, boxd_only
from langbot_plugin.box import errors
from langbot_plugin.entities.io.errors import ActionCallTimeoutError
from peer import VERSION

MIB = 1 << 20
CLIP = "... [raw output clipped at 1048576 bytes, {} bytes discarded]"


def is_first_by_websocket(peer):
    return peer.link.kind == "websocket" and VERSION < (0, 4, 17)


@asynchronous
async def test_10_mib_up(connect):
    async with connect() as peer:
        if is_first_by_websocket(peer):
            with pytest.raises(ActionCallTimeoutError):
                await peer.call("__ping", {"padding": "x" * 70_000}, timeout=2)
            assert await peer.call("__ping", {"padding": "x" * 60_000}) == {}, "it goes on"
            return
        assert await peer.call("__ping", {"padding": "x" * (10 * MIB)}) == {}
        padded = {"session_id": unique(), "cmd": "echo here", "padding": ["ü\\\"\n" * (MIB // 8)]}
        assert (await peer.call("box_exec", padded))["stdout"] == "here"


@asynchronous
async def test_a_message_over_the_limit(connect):
    if VERSION < (0, 4, 17):
        pytest.skip("this client has no limit for what it sends")
    async with connect() as peer:
        message = await peer.refused("__ping", {"padding": "x" * (16 * MIB)})
        assert "16777216" in message, "the client's own"
        assert await peer.call("__ping") == {}


@asynchronous
async def test_large_command_and_environment(connect):
    async with connect() as peer:
        size = 50_000 if is_first_by_websocket(peer) else 100_000
        assert await peer.out(unique(), f"x={'y' * size}; echo ${{#x}}") == str(size)
        count = 1 if is_first_by_websocket(peer) else 10
        env = {f"V{i}": "z" * (size - 1000) for i in range(count)}
        told = await peer.out(unique(), " ".join(f"echo ${{#V{i}}};" for i in range(count)), env=env)
        assert told.split() == [str(size - 1000)] * count


@boxd_only(reason="the plain backend fails with what the kernel says")()
@asynchronous
async def test_a_command_too_long_for_an_argument(connect):
    """The kernel takes no argument over 128 KiB."""
    async with connect() as peer:
        if is_first_by_websocket(peer):
            pytest.skip("this client cannot send it")
        for size in (131_072, 2 * MIB):
            with pytest.raises(errors.BoxValidationError, match="cmd"):
                await peer.exec(unique(), "x" * size)
        whole = f"echo whole; : {'y' * (131_071 - 14)}"
        assert await peer.out(unique(), whole) == "whole" and len(whole) == 131_071


@asynchronous
async def test_12_mib_down(connect):
    """Both streams full of what takes six characters in JSON."""
    async with connect() as peer:
        command = f"head -c {MIB} /dev/zero | tr '\\0' '\\1'; (head -c {MIB} /dev/zero | tr '\\0' '\\2') >&2"
        if is_first_by_websocket(peer):
            small = await peer.exec(unique(), f"head -c {900_000} /dev/zero | tr '\\0' x")
            assert small.stdout == "x" * 900_000
            return
        result = await peer.exec(unique(), command)
        assert (result.stdout, result.stderr) == ("\x01" * MIB, "\x02" * MIB)


@asynchronous
async def test_clipped(connect):
    async with connect() as peer:
        if is_first_by_websocket(peer):
            pytest.skip("this client takes at most 1 MiB")
        result = await peer.exec(unique(), f"head -c {MIB + 1000} /dev/zero | tr '\\0' x; "
                                           f"head -c {3 * MIB} /dev/zero | tr '\\0' y >&2")
        assert result.stdout == "x" * MIB + "\n" + CLIP.format(1000)
        assert result.stderr == "y" * MIB + "\n" + CLIP.format(2 * MIB)
        exact = await peer.exec(unique(), f"head -c {MIB} /dev/zero | tr '\\0' x")
        assert exact.stdout == "x" * MIB


@asynchronous
async def test_clipped_in_a_character_and_in_white_space(connect):
    async with connect() as peer:
        if is_first_by_websocket(peer):
            pytest.skip("this client takes at most 1 MiB")
        result = await peer.exec(unique(), f"head -c {MIB - 1} /dev/zero | tr '\\0' x; printf 'ü tail'")
        assert result.stdout == "x" * (MIB - 1) + "\ufffd\n" + CLIP.format(6)
        blank = await peer.exec(unique(), f"printf a; head -c {2 * MIB} /dev/zero | tr '\\0' ' '")
        assert blank.stdout == "a\n" + CLIP.format(MIB + 1)


STRIPPED = [("  \\t a b \\n\\n", "a b"), ("\\302\\240x\\342\\200\\250", "x"), ("\\034x\\037", "x"), ("\\r\\n", ""),
            ("\\000x\\000", "\0x\0"), ("\\342\\200\\213x", "\u200bx")]


@asynchronous
async def test_white_space_at_the_ends_goes(connect):
    """What Python calls white space, and no more."""
    async with connect() as peer:
        name = unique()
        for printed, left in STRIPPED:
            result = await peer.exec(name, f"printf '{printed}'; printf '{printed}' >&2")
            assert (result.stdout, result.stderr) == (left, left), printed


# As Python's decoder replaces: one mark for each maximal part of a character.
INVALID = [("\\377", 1), ("a\\377\\376b", "a\ufffd\ufffdb"), ("\\303(", "\ufffd("), ("\\342\\202", 1),
           ("\\342\\202x", "\ufffdx"), ("\\355\\240\\200", 3), ("\\364\\220\\200\\200", 4), ("\\360\\237\\230", 1),
           ("\\300\\200", 2), ("\\360\\237a", "\ufffda"), ("\\370\\210\\200\\200\\200", 5)]


@asynchronous
async def test_invalid_utf8_is_replaced(connect):
    async with connect() as peer:
        name = unique()
        for printed, expected in INVALID:
            expected = "\ufffd" * expected if isinstance(expected, int) else expected
            result = await peer.exec(name, f"printf '{printed}'; printf '{printed}' >&2")
            assert (result.stdout, result.stderr) == (expected, expected), printed


@asynchronous
async def test_a_time_out(connect):
    async with connect() as peer:
        name = unique()
        result = await peer.exec(name, "echo before; sleep 60; echo after", timeout_sec=1)
        assert (result.status.value, result.exit_code, result.ok) == ("timed_out", None, False)
        assert (result.stdout, result.stderr) == ("before", "Command timed out after 1 seconds.")
        assert result.duration_ms >= 1000
        said = await peer.exec(name, "echo why >&2; sleep 60", timeout_sec=1)
        assert said.stderr == "why"
        assert await peer.out(name, "echo goes on") == "goes on"


@boxd_only(reason="the Python runtime drops the session with the command")()
@asynchronous
async def test_a_time_out_ends_the_command_alone(connect):
    async with connect() as peer:
        name = unique()
        await peer.out(name, "echo kept > file")
        await peer.start(name, "cat")
        assert (await peer.exec(name, "sleep 61 & sleep 62", timeout_sec=1)).status.value == "timed_out"
        assert await peer.out(name, "cat file; ! pgrep -f 'sleep 6[12]'") == "kept"
        assert (await peer.get_managed_process(name)).status.value == "running"


@asynchronous
async def test_exit_codes(connect):
    async with connect() as peer:
        name = unique()
        for command, code in (("true", 0), ("exit 255", 255), ("nosuchcommand", 127), ("sh -c 'kill -9 $$'; exit $?", 137)):
            assert (await peer.exec(name, command)).exit_code == code, command
        if SERVER == "boxd":  # of a shell that was killed, Python's subprocess would say -15
            assert (await peer.exec(name, "kill -15 $$; sleep 5")).exit_code == 128 + 15


@asynchronous
async def test_nothing_on_standard_input(connect):
    async with connect() as peer:
        assert await peer.out(unique(), "cat; echo ended") == "ended"
