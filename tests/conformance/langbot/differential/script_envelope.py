# SPDX-License-Identifier: Apache-2.0
"""Messages as such: what is answered, by which error, and what is ignored."""

import listed
from scripts import exec_of, run, script

ACTIONS = ("box_exec", "box_create_session", "box_get_session", "box_get_sessions", "box_delete_session", "box_status",
           "box_start_managed_process", "box_get_managed_process", "box_stop_managed_process")


@script()
async def ignored(pair):
    """Not a request: no answer, and the connection goes on."""
    for text in ("", " ", "{", "}", "nonsense", "{'a': 1}", '{"seq_id": 1, "action": "__ping"', "[1, 2", '"open', "nul",
                 '{"seq_id": 1} {"seq_id": 2}', "\u0000", "{\"a\": \"\n\"}"):
        await pair.raw(text, sequence=1)


@script(since="0.4.17")
async def ignored_values(pair):
    """JSON that is no object, or no request."""
    for text in ("1", "null", "true", '"text"', "[]", '[{"seq_id": 1, "action": "__ping", "data": {}}]', "{}", "-0.0",
                 '{"seq_id": 900}', '{"seq_id": 900, "data": {}}', '{"seq_id": 900, "Action": "__ping"}',
                 '{"seq_id": 900, "code": 0, "message": "success", "data": {}}',
                 '{"seq_id": 900, "code": 0}', '{"seq_id": 900, "code": 0, "action": "__ping", "data": {}}',
                 '{"seq_id": 900, "code": "x", "action": "__ping", "data": {}}'):
        await pair.raw(text, sequence=900)


@script()
async def unknown_actions(pair):
    for action in ("box_nothing", "", " ", "__PING", "box_exec ", "BOX_EXEC", "ping", "x" * 5000, "é", "a\nb"):
        await pair.raw({"seq_id": 1, "action": action, "data": {}})
        await pair.raw({"seq_id": 1, "action": action, "data": {}, "context": pair.context()})


@script()
async def sequence_numbers(pair):
    """The answer carries the number that was asked with."""
    for number in (0, 1, -1, 2**31, 2**53, 2**63 - 1, -(2**63)):
        await pair.raw({"seq_id": number, "action": "__ping", "data": {}})
    # The same number twice: two answers, one after the other.
    for _ in range(2):
        await pair.raw({"seq_id": 7, "action": "box_get_backend_info", "data": {}}, ignore=["data.name"])


@script()
async def data_is_missing(pair):
    for action in ("__ping", "box_health", *ACTIONS):
        differs = {} if listed.TENANTS else {"differs": "wrong-types", "at": "message"}
        await pair.raw({"seq_id": 900, "action": action}, **differs)


@script()
async def more_than_needed(pair):
    """Keys that nobody knows are nobody's business."""
    await pair.raw({"seq_id": 1, "action": "__ping", "data": {"x": 1}, "more": [1, 2], "token": None})
    await pair.call("__ping", {"seq_id": 5, "action": "box_exec"})
    await pair.call("box_health", {"x": {"y": []}})
    await pair.call("box_get_backend_info", {"x": 1})
    await pair.call("box_get_sessions", {"session_id": "x"})
    await pair.call("box_exec", exec_of("echo a", unknown=1, backend="e2b", Cmd="echo b"))
    await pair.call("box_get_session", {"session_id": "s", "process_id": 5})


@script()
async def keys_are_missing(pair):
    """What an action must have."""
    await run(pair, "true")
    for action in ("box_get_session", "box_delete_session", "box_get_managed_process", "box_stop_managed_process",
                   "box_start_managed_process"):
        await pair.call(action, {}, names="session_id")
        await pair.call(action, {"process_id": "x", "id": "s"}, names="session_id")
    await pair.call("box_start_managed_process", {"session_id": "s"}, names="spec")
    for key in ("file_key", "chunk_base64", "chunk_index", "chunk_amount"):
        chunk = {"file_key": "k", "chunk_base64": "", "chunk_index": 0, "chunk_amount": 1}
        del chunk[key]
        await pair.call("__file_chunk", chunk, names=key)


@script()
async def escapes(pair):
    """Whatever JSON can write arrives, and comes back."""
    for text in ("é漢🎉\u2028\x7f", "a\\b\"c\td", "</script>\u0001\u001f", "\ufeff|\uffff|\U0010ffff"):
        await pair.call("box_exec", exec_of(f"printf %s '[{text}]'"))


@script()
async def uploads(pair):
    """__file_chunk answers nothing but that it was taken."""
    chunk = {"file_key": "key.zip", "file_length": 6, "chunk_base64": "YWJj", "chunk_index": 0, "chunk_amount": 2,
             "chunk_size": 3}
    await pair.call("__file_chunk", chunk)
    await pair.call("__file_chunk", {**chunk, "chunk_index": 1})
    await pair.call("__file_chunk", chunk)
    await pair.call("__file_chunk", {**chunk, "chunk_base64": ""})


@script(since="0.5")
async def upload_rules(pair):
    chunk = {"file_key": "key.zip", "file_length": 6, "chunk_base64": "YWJj", "chunk_index": 0, "chunk_amount": 2,
             "chunk_size": 3}
    for key in ("", " k", "k ", "../k", "a/b", "a\\b", "a..b", ".hidden", "-k", "_k", "k" * 256, "é", "a b", "a\nb", "k\n"):
        await pair.call("__file_chunk", {**chunk, "file_key": key})
    for key in ("k", "K.", "a.b-c_d", "k" * 255, "0"):
        await pair.call("__file_chunk", {**chunk, "file_key": key})
    for text in ("", "YQ==", "YWI=", "////", "é"):
        await pair.call("__file_chunk", {**chunk, "chunk_base64": text})
    for text in ("YWJ", "YW J", "YWJj\n", "====", "Y=WJ", "YQ", "YQ=", "-_=="):
        await pair.call("__file_chunk", {**chunk, "chunk_base64": text}, differs="base64", at="message")
    for text in ("YWJj=", "/+=="):  # more padding than there is room for, and bits that belong to nothing
        await pair.call("__file_chunk", {**chunk, "chunk_base64": text}, differs="base64", at="outcome")
    for index, amount in ((2, 2), (-1, 2), (0, 0), (0, -1), (1, 1), (True, 2), (0, True), (0.0, 2), ("0", 2), (None, 2)):
        await pair.call("__file_chunk", {**chunk, "chunk_index": index, "chunk_amount": amount})
    for value in (None, 5, ["YWJj"], {}):
        await pair.call("__file_chunk", {**chunk, "chunk_base64": value}, differs="wrong-types", at="message")
        await pair.call("__file_chunk", {**chunk, "file_key": value}, differs="wrong-types", at="message")
    full = "A" * (((16384 + 2) // 3) * 4 - 1) + "="
    await pair.call("__file_chunk", {**chunk, "chunk_base64": full})
    await pair.call("__file_chunk", {**chunk, "chunk_base64": full + "AAAA"})
    await pair.call("__file_chunk", {**chunk, "chunk_base64": "A" * len(full)})


@script(since="0.5", config={"limits": {"max_rpc_file_bytes": 5}})
async def upload_limits(pair):
    chunk = {"file_key": "key.zip", "chunk_base64": "YWJj", "chunk_index": 0, "chunk_amount": 9}
    await pair.call("__file_chunk", chunk)
    await pair.call("__file_chunk", {**chunk, "chunk_index": 1})
    await pair.call("__file_chunk", {**chunk, "chunk_index": 1, "chunk_base64": "YWI="})
    await pair.call("__file_chunk", {**chunk, "chunk_index": 2, "chunk_base64": "YQ=="})
    await pair.call("__file_chunk", {**chunk, "chunk_base64": "YWJjZGVm"})
    for number in range(127):
        await pair.call("__file_chunk", {**chunk, "file_key": f"k{number}"})
    await pair.call("__file_chunk", {**chunk, "file_key": "one-too-many"})
    await pair.call("__file_chunk", {**chunk, "file_key": "k5"})


@script(since="0.4.17")
async def busy(pair):
    """128 requests of a connection at once; the next is told, and answered at once."""
    gate = pair.share / "gate"
    mount = {"host_path": str(pair.share)}
    waiting = [await pair.start("box_exec", exec_of("until [ -e gate ]; do sleep 0.05; done", **mount))]
    waiting += [await pair.start("box_exec", exec_of(f"echo {n}", **mount)) for n in range(127)]
    for action in ("__ping", "box_health", "box_nothing"):
        await pair.call(action, differs="busy-has-a-class", at="message")
    gate.touch()
    for one in waiting:
        await pair.finish(one)
    await pair.call("__ping")


@script()
async def wrong_types(pair):
    """Of the envelope itself."""
    messages = [{"seq_id": 5, "action": action, "data": {}} for action in (None, 7, [], {}, True)]
    messages += [{"seq_id": 5, "action": "__ping", "data": data} for data in (None, [], "x", 7)]
    messages += [{"seq_id": 5, "action": action, "data": data} for action in ("box_exec", "box_get_session")
                 for data in ([], "x", 7)]
    for message in messages:
        # 0.4's runtime does not look, and trips over them later, or not at all.
        await pair.raw(message, **({} if listed.TENANTS else {"differs": "wrong-types", "at": None}))


@script(since="0.5")
async def wrong_numbers(pair):
    """A seq_id that is no integer: 0.5's runtime sends it back as it came, whatever it was."""
    for number in ("5", "x", None, 1.5, True, [], {}, 2.0):
        message = {"seq_id": number, "action": "__ping", "data": {}}
        await pair.raw(message, sequence=(-1, number), differs="seq-is-an-integer", at=None)
    await pair.raw({"seq_id": 2**64, "action": "__ping", "data": {}})
    await pair.raw({"action": "__ping", "data": {}})
    await pair.raw({"action": "box_nothing", "data": {}})


@script(until="0.5")
async def uploads_of_old(pair):
    """Names of uploads are what 0.5 allows: 0.4's runtime writes wherever one leads."""
    chunk = {"file_length": 3, "chunk_base64": "YWJj", "chunk_index": 0, "chunk_amount": 1, "chunk_size": 3}
    for key in ("../../../up", " k", ".hidden", "a b"):
        await pair.call("__file_chunk", {**chunk, "file_key": key}, differs="upload-rules", at="outcome")
    await pair.call("__file_chunk", {**chunk, "file_key": "k", "chunk_index": 5}, differs="upload-rules", at="outcome")


@script(until="0.5")
async def ids_of_other_types(pair):
    for value in (None, 5, True, 1.5):
        for action in ("box_get_session", "box_delete_session", "box_get_managed_process"):
            await pair.call(action, {"session_id": value}, differs="wrong-types", at="message")
    for value in ([], {}):
        await pair.call("box_get_session", {"session_id": value}, differs="wrong-types", at="message")
