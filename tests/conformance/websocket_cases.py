# SPDX-License-Identifier: Apache-2.0
"""RFC 6455 by raw bytes, in the order of the Autobahn suite's sections, against the relay.

The other side is `cat` behind the relay, so a text message comes back as a text message, as a line does. What
Autobahn's echo server would do with binary messages the relay does not: they are refused with 1003.

usage: websocket_cases.py PORT [WORD…]     only the cases whose name has one of the words
"""

import json
import sys
import urllib.request

from wire import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, ACCEPT, Connection, close, fragments, frame

SESSION = "websocket-cases"
PROTOCOL, UNSUPPORTED, NOT_TEXT, TOO_BIG = 1002, 1003, 1007, 1009
MESSAGE_MAX = (16 << 20) - 1
FRAGMENTS_MAX = 4096
MAYBE = "maybe"  # an event that may be missing: what came before a failure need not be answered any more

cases = []


def case(name, send, *expect):
    """`send`: bytes, or pieces that go out one by one. `expect`: events in order; without a close at the end, the
    client closes with 1000 once they were seen, and that must be answered."""
    cases.append((name, [send] if isinstance(send, bytes) else list(send), list(expect)))


def text(payload):
    return frame(TEXT, payload.encode() if isinstance(payload, str) else payload)


def octets(data):
    return [data[i : i + 1] for i in range(len(data))]


def says(payload):
    return ("text", payload)


def ends(code):
    return ("close", code)


def maybe(event):
    return (MAYBE, event)


# 1 Framing
for size in (0, 125, 126, 127, 128, 65535, 65536):
    case(f"1.1 text of {size}", text("*" * size), says("*" * size))
    case(f"1.2 binary of {size}", frame(BINARY, b"\xfe" * size), ends(UNSUPPORTED))
data = text("*" * 65536)
case("1.1 text of 65536 in chops of 997", [data[i : i + 997] for i in range(0, len(data), 997)], says("*" * 65536))
case("1.1 text in octets", octets(text("chopped")), says("chopped"))
case("1.3 two messages in one packet", text("a") + text("b"), says("a"), says("b"))
case("1.4 a mask that is zero", b"\x81\x82\0\0\0\0ok", says("ok"))
case("1.5 a frame without a mask", frame(TEXT, b"bare", mask=False), ends(PROTOCOL))
case("1.5 a ping without a mask", frame(PING, b"bare", mask=False), ends(PROTOCOL))
case("1.6 a length of 5 in two bytes", frame(TEXT, b"hello", form=126), ends(PROTOCOL))
case("1.6 a length of 5 in eight bytes", frame(TEXT, b"hello", form=127), ends(PROTOCOL))
case("1.6 a length of 65535 in eight bytes", frame(TEXT, b"*" * 65535, form=127), ends(PROTOCOL))
case("1.7 a line feed inside makes two lines", text("one\ntwo"), says("one"), says("two"))
case("1.7 a message that is a line feed", text("\n"), says(""), says(""))

# 2 Pings and pongs
case("2.1 ping without payload", frame(PING), ("pong", b""))
case("2.2 ping with payload", frame(PING, b"Hello, world!"), ("pong", b"Hello, world!"))
case("2.3 ping with bytes", frame(PING, b"\0\xff\xfe\xfd\xfc\xfb\0\xff"), ("pong", b"\0\xff\xfe\xfd\xfc\xfb\0\xff"))
case("2.4 ping of 125", frame(PING, b"\xfe" * 125), ("pong", b"\xfe" * 125))
case("2.5 ping of 126", frame(PING, b"\xfe" * 126), ends(PROTOCOL))
case("2.6 ping of 125 in octets", octets(frame(PING, b"\xfe" * 125)), ("pong", b"\xfe" * 125))
case("2.7 unasked pong", frame(PONG))
case("2.8 unasked pong with payload", frame(PONG, b"unsolicited"))
case("2.9 unasked pong, then a ping", [frame(PONG, b"x"), frame(PING, b"y")], ("pong", b"y"))
case("2.10 ten pings", [frame(PING, b"%d" % i) for i in range(10)], *[("pong", b"%d" % i) for i in range(10)])
case("2.11 ten pings in octets", octets(b"".join(frame(PING, b"%d" % i) for i in range(10))),
     *[("pong", b"%d" % i) for i in range(10)])
case("2.12 pong of 126", frame(PONG, b"*" * 126), ends(PROTOCOL))

# 3 Reserved bits
for rsv in range(1, 8):
    case(f"3.{rsv} text with reserved bits {rsv:03b}", frame(TEXT, b"x", rsv=rsv), ends(PROTOCOL))
    case(f"3.{rsv} after a good message", text("good") + frame(TEXT, b"x", rsv=rsv) + frame(PING),
         maybe(says("good")), ends(PROTOCOL))
    case(f"3.{rsv} ping", frame(PING, b"x", rsv=rsv), ends(PROTOCOL))
    case(f"3.{rsv} close", frame(CLOSE, b"\x03\xe8", rsv=rsv), ends(PROTOCOL))
case("3.8 continuation", frame(TEXT, b"a", fin=False) + frame(CONTINUATION, b"b", rsv=4), ends(PROTOCOL))

# 4 Opcodes
for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
    case(f"4 opcode {opcode}", frame(opcode), ends(PROTOCOL))
    case(f"4 opcode {opcode} with payload", frame(opcode, b"reserved"), ends(PROTOCOL))
    case(f"4 opcode {opcode} after a good message", text("good") + frame(opcode) + frame(PING),
         maybe(says("good")), ends(PROTOCOL))

# 5 Fragmentation
first, second = frame(TEXT, b"fragment1", fin=False), frame(CONTINUATION, b"fragment2")
both = says("fragment1fragment2")
case("5.1 fragmented ping", frame(PING, b"a", fin=False) + frame(CONTINUATION, b"b"), ends(PROTOCOL))
case("5.2 fragmented pong", frame(PONG, b"a", fin=False) + frame(CONTINUATION, b"b"), ends(PROTOCOL))
case("5.2 fragmented close", frame(CLOSE, b"\x03\xe8", fin=False), ends(PROTOCOL))
case("5.3 text in two fragments", [first, second], both)
case("5.4 in one packet", first + second, both)
case("5.5 in octets", octets(first + second), both)
case("5.6 with a ping between", [first, frame(PING, b"ping"), second], ("pong", b"ping"), both)
case("5.7 likewise, in one packet", first + frame(PING, b"ping") + second, ("pong", b"ping"), both)
case("5.8 likewise, in octets", octets(first + frame(PING, b"ping") + second), ("pong", b"ping"), both)
case("5.9 continuation of nothing, last", frame(CONTINUATION, b"x") + text("y"), ends(PROTOCOL))
case("5.10 in its own packet", [frame(CONTINUATION, b"x"), text("y")], ends(PROTOCOL))
case("5.11 in octets", octets(frame(CONTINUATION, b"x") + text("y")), ends(PROTOCOL))
case("5.12 continuation of nothing, not last", frame(CONTINUATION, b"x", fin=False) + text("y"), ends(PROTOCOL))
case("5.15 a second continuation after the last", first + second + frame(CONTINUATION, b"x", fin=False),
     maybe(both), ends(PROTOCOL))
case("5.18 a new message inside one", first + text("new"), ends(PROTOCOL))
case("5.18 a new fragmented message inside one", first + frame(TEXT, b"new", fin=False), ends(PROTOCOL))
case("5.19 five fragments and pings", [frame(TEXT, b"1", fin=False), frame(CONTINUATION, b"2", fin=False),
     frame(PING, b"a"), frame(CONTINUATION, b"3", fin=False), frame(CONTINUATION, b"4", fin=False),
     frame(PING, b"b"), frame(CONTINUATION, b"5")], ("pong", b"a"), ("pong", b"b"), says("12345"))
case("5.21 empty fragments", fragments(TEXT, [b"", b"", b""]), says(""))
case("5.22 empty around full", fragments(TEXT, [b"", b"middle", b""]), says("middle"))
case("5.23 a close between fragments", first + close(1000), ends(1000))
case("5.24 binary in two fragments", fragments(BINARY, [b"\1", b"\2"]), ends(UNSUPPORTED))

# 6 UTF-8
VALID = {
    "greek": "κόσμε", "mixed": "Hello-µ@ßöäüàá-UTF-8!!", "nul": "\0", "first of two": "\u0080", "last of two": "\u07ff",
    "first of three": "\u0800", "last of three": "\uffff", "below the surrogates": "\ud7ff",
    "above the surrogates": "\ue000", "replacement": "\ufffd", "first of four": "\U00010000",
    "the last of all": "\U0010ffff", "non-characters": "\ufdd0\ufffe\U0001fffe", "line separators": "\u0085\u2028\u2029",
    "carriage return": "a\rb",
}
INVALID = {
    "a continuation byte": b"\x80", "another": b"\xbf", "two": b"\x80\xbf", "all of them": bytes(range(0x80, 0xC0)),
    "the start of two": b"\xc2 ", "the start of three": b"\xe1 ", "the start of four": b"\xf1 ",
    "two without its end": b"\xc3", "three without its end": b"\xe1\x80", "four without its end": b"\xf0\x90\x80",
    "c0": b"\xc0", "c1": b"\xc1", "f5": b"\xf5", "fe": b"\xfe", "ff": b"\xff", "slash in two": b"\xc0\xaf",
    "slash in three": b"\xe0\x80\xaf", "slash in four": b"\xf0\x80\x80\xaf", "slash in five": b"\xf8\x80\x80\x80\xaf",
    "overlong 7f": b"\xc1\xbf", "overlong 7ff": b"\xe0\x9f\xbf", "overlong ffff": b"\xf0\x8f\xbf\xbf",
    "overlong nul": b"\xc0\x80", "surrogate": b"\xed\xa0\x80", "last surrogate": b"\xed\xbf\xbf",
    "pair of surrogates": b"\xed\xa0\x80\xed\xb0\x80", "beyond the last": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80", "six bytes": b"\xfc\x84\x80\x80\x80\x80",
    "cesu among good text": "κόσμε".encode() + b"\xed\xa0\x80" + b"edited",
}
for name, good in VALID.items():
    raw = good.encode()
    case(f"6.1 {name}", text(raw), says(good))
    case(f"6.2 {name}, octets", octets(text(raw)), says(good))
    case(f"6.2 {name}, a fragment a byte", fragments(TEXT, octets(raw)), says(good))
for name, bad in INVALID.items():
    case(f"6.3 {name}", text(bad), ends(NOT_TEXT))
    case(f"6.3 {name}, behind good text", text(b"good " + bad), ends(NOT_TEXT))
    case(f"6.3 {name}, a fragment a byte", fragments(TEXT, octets(bad)), ends(NOT_TEXT))
case("6.4 told at the first wrong byte, fragments", [frame(TEXT, "κόσμε".encode(), fin=False),
     frame(CONTINUATION, b"\xf4\x90", fin=False)], ends(NOT_TEXT))
case("6.4 told at the first wrong byte, inside a frame", frame(TEXT, "κόσμε".encode() + b"\xf4\x90", length=1000),
     ends(NOT_TEXT))
case("6.4 told at the end of the message", fragments(TEXT, [b"\xe1\x80", b""]), ends(NOT_TEXT))

# 7 Closing
case("7.1 close", close(1000), ends(1000))
case("7.1 close without a code", close(), ends(None))
case("7.1 twice", close(1000) + close(1000), ends(1000))
case("7.1 a ping after it", close(1000) + frame(PING), ends(1000))
case("7.1 a message after it", close(1000) + text("late"), ends(1000))
case("7.1 a broken frame after it", close(1000) + frame(TEXT, b"x", rsv=7), ends(1000))
case("7.1 a message before it", text("x" * 262144) + close(1000), maybe(says("x" * 262144)), ends(1000))
case("7.3 a payload of one byte", frame(CLOSE, b"\x03"), ends(PROTOCOL))
case("7.3 with a reason", close(1000, b"Hello World!"), ends(1000))
case("7.3 with a reason of 123", close(1000, b"*" * 123), ends(1000))
case("7.3 with a reason of 124", close(1000, b"*" * 124), ends(PROTOCOL))
case("7.5 a reason that is not UTF-8", close(1000, b"\xce\xba\xe1\xbd\xb9\xed\xa0\x80"), ends(NOT_TEXT))
case("7.5 a reason cut in a character", close(1000, b"\xe1\xbd"), ends(NOT_TEXT))
for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999):
    case(f"7.7 code {code}", close(code), ends(code))
for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535):
    case(f"7.9 code {code}", close(code), ends(PROTOCOL))
    case(f"7.9 code {code} with a reason", close(code, b"why"), ends(PROTOCOL))

# 9 Limits. A head that announces too much is enough.
case("9.1 1 MiB", text("*" * (1 << 20)), says("*" * (1 << 20)))
case("9.1 the largest", text("*" * MESSAGE_MAX), says("*" * MESSAGE_MAX))
case("9.2 one byte more", frame(TEXT, b"", length=MESSAGE_MAX + 1), ends(TOO_BIG))
case("9.2 announced as 2^40", frame(TEXT, b"", length=1 << 40), ends(TOO_BIG))
case("9.2 announced as 2^63 - 1", frame(TEXT, b"", length=(1 << 63) - 1), ends(TOO_BIG))
case("9.2 announced as 2^63", frame(TEXT, b"", length=1 << 63), ends(PROTOCOL))
case("9.2 the same by fragments", [frame(TEXT, b"*" * (1 << 20), fin=False),
     *[frame(CONTINUATION, b"*" * (1 << 20), fin=False)] * 14, frame(CONTINUATION, b"", length=1 << 20)], ends(TOO_BIG))
case("9.3 as many fragments as may be", b"".join(fragments(TEXT, [b"*"] * FRAGMENTS_MAX)), says("*" * FRAGMENTS_MAX))
case("9.3 one more", b"".join(fragments(TEXT, [b"*"] * (FRAGMENTS_MAX + 1))), ends(TOO_BIG))
case("9.3 empty ones without end", b"".join(fragments(TEXT, [b""] * (FRAGMENTS_MAX + 1))), ends(TOO_BIG))
case("9.4 4 MiB in fragments of 64 KiB", fragments(TEXT, [b"*" * 65536] * 64), says("*" * (4 << 20)))
case("9.7 a thousand messages", b"".join(text(str(i)) for i in range(1000)), *[says(str(i)) for i in range(1000)])
case("9.7 a hundred of 16 KiB", b"".join(text(f"{i:04}" * 4096) for i in range(100)),
     *[says(f"{i:04}" * 4096) for i in range(100)])

# 10 Fragmented by itself
case("10.1 65536 in fragments of 1300", fragments(TEXT, [b"*" * 1300] * 50 + [b"*" * 536]), says("*" * 65536))


# --- running them ---


def call(port, method, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method,
                                     data=json.dumps(body).encode() if body is not None else None,
                                     headers={"Content-Type": "application/json"} if body is not None else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def short(event):
    shown = repr(event)
    return shown if len(shown) < 120 else f"{shown[:60]}… ({len(shown)} characters)"


def watch(connection, expect):
    """None, or what was wrong."""
    for wanted in expect:
        optional = wanted[0] == MAYBE
        wanted = wanted[1] if optional else wanted
        got = connection.ahead.pop() if connection.ahead else connection.event()
        if got == wanted:
            continue
        if not optional:
            return f"expected {short(wanted)}, got {short(got)}"
        connection.ahead.append(got)
    return None


def judge(connection, pieces, expect):
    connection.ahead = []
    try:
        for piece in pieces:
            connection.sock.sendall(piece)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it may be closed before all was sent; what counts is what it said
    wrong = watch(connection, expect)
    if wrong:
        return wrong
    if not expect or expect[-1][0] != "close":
        connection.sock.sendall(close(1000))
        wrong = watch(connection, [ends(1000)])
    if wrong:
        return f"at the end: {wrong}"
    got = connection.event()
    # Bytes it had not read when it closed make a reset of the end.
    return None if got in (("end",), ("reset",)) else f"after the close: {short(got)}"


def run_case(port, number, pieces, expect):
    process = f"case-{number}"
    base = f"/v1/sessions/{SESSION}"
    call(port, "POST", f"{base}/processes", {"process_id": process, "command": "cat"})
    connection = Connection(port, f"{base}/managed-process/{process}/ws", ["Sec-WebSocket-Protocol: mcp"])
    try:
        if connection.status != 101 or connection.headers.get("sec-websocket-accept") != ACCEPT:
            return f"the upgrade failed with {connection.status}"
        return judge(connection, pieces, expect)
    finally:
        connection.stop()
        call(port, "DELETE", f"{base}/processes/{process}")


def main():
    port, words = int(sys.argv[1]), sys.argv[2:]
    passed, failed = 0, 0
    call(port, "POST", "/v1/sessions", {"session_id": SESSION})
    for number, (name, pieces, expect) in enumerate(cases):
        if words and not any(word in name for word in words):
            continue
        wrong = run_case(port, number, pieces, expect)
        if wrong:
            print(f"FAILED {name}: {wrong}")
        failed += bool(wrong)
        passed += not wrong
    call(port, "DELETE", f"/v1/sessions/{SESSION}")
    print(f"websocket cases: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
