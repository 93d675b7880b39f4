"""Files in and out of a session, from inside it: contents, ranges, lists, quotas, links, odd names, and no way out."""

import hashlib
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

import hostview
from conftest import PATIENCE
from daemon import raw, statuses, unique

MIB = 1 << 20


def put(session, path, data=b"x", query=""):
    return session.client.put(session.file(path) + query, data)


def get(session, path, **headers):
    return session.client.get(session.file(path), headers={key.replace("_", "-"): value for key, value in headers.items()})


@pytest.fixture(scope="module")
def shared(either):
    return either.session(unique("shared"))


# --- in and out -------------------------------------------------------------------------------


def test_put_get_replace(shared):
    path = f"/workspace/{unique()}/deep/er/file"
    assert put(shared, path, b"first").ok(201) == {"path": path, "size": 5}
    assert put(shared, path, b"second!").ok(200) == {"path": path, "size": 7}
    answer = get(shared, path)
    assert answer.status == 200 and answer.body == b"second!"
    assert answer.headers["Content-Type"] == "application/octet-stream" and answer.headers["Content-Length"] == "7"
    assert answer.headers["Last-Modified"].endswith("GMT") and answer.headers["X-File-Mode"] == "0644"
    assert shared.out(f"cat {path}; stat -c %U {path}") == "second!box\n"


def test_every_byte_and_none(shared):
    for data in (b"", bytes(range(256)) * 999):
        path = f"/workspace/{unique()}"
        put(shared, path, data).ok(201)
        assert get(shared, path).body == data


def test_mode(shared):
    path = f"/workspace/{unique()}"
    put(shared, path, b"#!/bin/sh\necho ran\n", "?mode=0755").ok(201)
    assert shared.out(path) == "ran\n"
    assert get(shared, path).headers["X-File-Mode"] == "0755"
    for mode in ("4755", "888", "x", "-1", "07777777", ""):
        put(shared, f"/workspace/{unique()}", b"", f"?mode={mode}").error(400, "BoxValidationError")


def test_files_of_commands_are_seen(shared):
    shared.out("printf abc > /tmp/made; printf home > ~/x")
    assert get(shared, "/tmp/made").body == b"abc" and get(shared, "/home/box/x").body == b"home"
    assert get(shared, "/etc/passwd").body.startswith(b"root:") or b"box:" in get(shared, "/etc/passwd").body
    assert get(shared, "/usr/bin/env").body[:4] == b"\x7fELF"


def test_head(shared):
    path = f"/workspace/{unique()}"
    put(shared, path, b"12345").ok(201)
    answer = shared.client.request("HEAD", shared.file(path))
    assert answer.status == 200 and answer.headers["Content-Length"] == "5" and answer.body == b""
    assert answer.headers["X-File-Mode"] == "0644"
    assert shared.client.request("HEAD", shared.file("/workspace/none")).status == 404


@pytest.mark.parametrize("header,status,expected,content_range", [
    ("bytes=0-4", 206, b"01234", "bytes 0-4/10"),
    ("bytes=5-", 206, b"56789", "bytes 5-9/10"),
    ("bytes=-3", 206, b"789", "bytes 7-9/10"),
    ("bytes=9-9", 206, b"9", "bytes 9-9/10"),
    ("bytes=5-100", 206, b"56789", "bytes 5-9/10"),
    ("bytes=-100", 206, b"0123456789", "bytes 0-9/10"),
    ("bytes=0-", 206, b"0123456789", "bytes 0-9/10"),
    ("bytes=10-", 416, None, "bytes */10"),
    ("bytes=100-200", 416, None, "bytes */10"),
    ("bytes=-0", 416, None, "bytes */10"),
    ("bytes=5-2", 200, b"0123456789", None),
    ("lines=1-2", 200, b"0123456789", None),
    ("bytes=x-y", 200, b"0123456789", None),
    ("bytes=0-1,3-4", 200, b"0123456789", None),
    ("bytes=99999999999999999999999-", 200, b"0123456789", None),
])
def test_ranges(shared, header, status, expected, content_range):
    path = "/workspace/ranges"
    put(shared, path, b"0123456789")
    answer = get(shared, path, Range=header)
    if status == 200 and answer.status == 416:  # what is malformed may be ignored or refused
        return
    assert answer.status == status, answer
    if status == 416:
        answer.error(416, "BoxValidationError")
    else:
        assert answer.body == expected
    assert answer.headers.get("Content-Range") == content_range


def test_range_of_an_empty_file(shared):
    put(shared, "/workspace/empty", b"")
    assert get(shared, "/workspace/empty", Range="bytes=0-").status in (200, 416)
    assert get(shared, "/workspace/empty", Range="bytes=-5").status in (200, 416)


def test_64_mebibytes_streamed(daemon):
    """Both ways, at the same sum, and boxd stays small."""
    session = daemon.session(memory_mb=256)
    before = daemon.get("/healthz").ok()["resources"]["rss_bytes"]
    block = os.urandom(MIB)
    wanted = hashlib.sha256(block * 64).hexdigest()

    def blocks():
        for _ in range(64):
            yield block

    connection = daemon.client.connection()
    connection.request("PUT", session.file("/workspace/big"), body=blocks(), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().read() == b'{"path":"/workspace/big","size":%d}' % (64 * MIB)
    connection.close()
    assert session.out("sha256sum < /workspace/big").split()[0] == wanted
    connection = daemon.client.connection()
    connection.request("GET", session.file("/workspace/big"))
    response = connection.getresponse()
    digest = hashlib.sha256()
    while piece := response.read(MIB):
        digest.update(piece)
    connection.close()
    assert digest.hexdigest() == wanted
    assert daemon.get("/healthz").ok()["resources"]["rss_bytes"] < before + 16 * MIB


def test_with_curl(daemon, session):
    """-T, ranges and -C as people use them."""
    directory = daemon.box.directory()
    source = directory / "source"
    source.write_bytes(os.urandom(3 * MIB))
    done = daemon.curl("-T", source, "-f", session.file("/workspace/up"))
    assert done.returncode == 0, done
    target = directory / "target"
    target.write_bytes(source.read_bytes()[:MIB])
    done = daemon.curl("-f", "-C", "-", "-o", target, session.file("/workspace/up"))
    assert done.returncode == 0, done
    assert target.read_bytes() == source.read_bytes()


def test_put_without_a_body(daemon, session):
    with daemon.client.socket() as sock:
        answer = raw(sock, f"PUT {session.file('/workspace/x')} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert statuses(answer) == [411], answer


def test_expect_continue_is_not_said_before_it_can_be_written(daemon, session):
    """A file that cannot be written is refused before its content is sent."""
    with daemon.client.socket() as sock:
        head = "PUT {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        answer = raw(sock, head.format(session.file("/usr/bin/evil")).encode(), until_close=False)
        assert statuses(answer) == [403], answer
    with daemon.client.socket() as sock:
        assert statuses(raw(sock, head.format(session.file("/workspace/good")).encode(), until_close=False)) == [100]
        assert statuses(raw(sock, b"hello", until_close=False)) == [201]
    assert get(session, "/workspace/good").body == b"hello"


# --- lists and the rest -----------------------------------------------------------------------


def test_list_and_stat(shared):
    base = f"/workspace/{unique()}"
    shared.out(f"mkdir -p {base}/sub; cd {base}; printf 123 > b; ln -s b link; ln -s nowhere dangling; mkfifo fifo; "
               "touch -d '2001-02-03 04:05:06.789 UTC' b; chmod 600 b; : > Z; : > .hidden")
    answer = shared.client.get(shared.file(base) + "?list").ok()
    assert answer["path"] == base
    names = [entry["name"] for entry in answer["entries"]]
    assert names == sorted(names) == [".hidden", "Z", "b", "dangling", "fifo", "link", "sub"]
    by_name = {entry["name"]: entry for entry in answer["entries"]}
    assert all(set(entry) == {"name", "type", "size", "mode", "mtime"} for entry in answer["entries"])
    assert by_name["b"] == {"name": "b", "type": "file", "size": 3, "mode": "0600", "mtime": by_name["b"]["mtime"]}
    assert by_name["b"]["mtime"].startswith("2001-02-03T04:05:06.789")
    assert {name: by_name[name]["type"] for name in names} == {
        ".hidden": "file", "Z": "file", "b": "file", "dangling": "symlink", "fifo": "other", "link": "symlink", "sub": "directory"}
    stat = shared.client.get(shared.file(f"{base}/b") + "?stat").ok()
    assert set(stat) == {"path", "type", "size", "mode", "mtime"} and stat["size"] == 3 and stat["type"] == "file"
    assert shared.client.get(shared.file(f"{base}/sub") + "?stat").ok()["type"] == "directory"
    assert shared.client.get(shared.file(f"{base}/b") + "?list").status in (400, 404)
    shared.client.get(shared.file(f"{base}/none") + "?list").error(404, "BoxValidationError")
    assert shared.client.get(f"{shared.path}/files/?list").ok()["path"] == "/"


def test_list_of_many(session):
    session.out("mkdir many; cd many; seq -f f%05.0f 1 5000 | xargs touch")
    entries = session.client.get(session.file("/workspace/many") + "?list").ok()["entries"]
    assert [entry["name"] for entry in entries] == [f"f{i:05d}" for i in range(1, 5001)]
    session.out("cd many; seq -f f%05.0f 5001 20000 | xargs touch")
    whole = session.client.get(session.file("/workspace/many") + "?list").ok()
    assert len(whole["entries"]) == 20000 and "truncated" not in whole
    session.out("touch many/more")
    part = session.client.get(session.file("/workspace/many") + "?list").ok()
    names = [entry["name"] for entry in part["entries"]]
    assert part["truncated"] is True and len(set(names)) == 20000 and names == sorted(names)


def test_mkdir(shared):
    path = f"/workspace/{unique()}/a/b"
    assert shared.client.post(shared.file(path) + "?op=mkdir").ok(201) == {"path": path}
    assert shared.client.get(shared.file(path) + "?stat").ok()["type"] == "directory"
    put(shared, f"{path}/file").ok(201)
    answer = shared.client.post(shared.file(f"{path}/file") + "?op=mkdir")
    assert answer.status in (400, 409), answer


def test_move(shared):
    one, two = f"/workspace/{unique()}", f"/workspace/{unique()}"
    put(shared, one, b"content").ok(201)
    assert shared.client.post(f"{shared.file(one)}?op=move&to={quote(two)}").ok() == {"path": one, "to": two}
    assert get(shared, one).status == 404 and get(shared, two).body == b"content"
    shared.client.post(f"{shared.file(one)}?op=move&to={quote(two)}").error(404)
    for query in ("op=move", "op=move&to=relative", "op=nope", "", "op=move&to=", "op=mkdir&op=mkdir"):
        shared.client.post(f"{shared.file(two)}?{query}").error(400, "BoxValidationError")
    answer = shared.client.post(f"{shared.file(two)}?op=move&to=/usr/bin/evil")
    assert 400 <= answer.status < 500, answer
    assert get(shared, two).body == b"content"


def test_delete(shared):
    base = f"/workspace/{unique()}"
    put(shared, f"{base}/sub/file").ok(201)
    answer = shared.client.delete(shared.file(base))
    assert answer.status in (400, 409), answer
    assert get(shared, f"{base}/sub/file").status == 200
    assert shared.client.delete(shared.file(base) + "?recursive=true").ok() == {"deleted": base}
    shared.client.delete(shared.file(base) + "?recursive=true").error(404)
    put(shared, f"{base}.txt").ok(201)
    assert shared.client.delete(shared.file(f"{base}.txt")).ok() == {"deleted": f"{base}.txt"}
    answer = shared.client.delete(shared.file("/usr/bin/env"))
    assert 400 <= answer.status < 500 and get(shared, "/usr/bin/env").status == 200


def test_delete_does_not_follow(session):
    session.out("mkdir target; touch target/keep; ln -s /workspace/target link; mkdir tree; ln -s /workspace/target tree/link")
    session.client.delete(session.file("/workspace/tree") + "?recursive=true").ok()
    session.client.delete(session.file("/workspace/link")).ok()
    assert session.out("ls target") == "keep\n"


def test_what_is_not_a_file(shared):
    shared.out("mkdir -p /workspace/dir; : > /workspace/plain")
    assert get(shared, "/workspace/dir").status == 400
    answer = put(shared, "/workspace/dir")
    assert answer.status in (400, 409), answer
    assert get(shared, "/workspace/plain/below").status == 404
    answer = put(shared, "/workspace/plain/below")
    assert answer.status in (400, 404, 409), answer
    get(shared, "/workspace/no/such").error(404, "BoxValidationError")


def test_permissions_inside_hold(shared):
    """It is the sandbox's own user that opens."""
    shared.out("cd /workspace; echo x > secret; chmod 000 secret; mkdir -p closed; chmod 500 closed")
    get(shared, "/workspace/secret").error(403, "BoxValidationError")
    put(shared, "/workspace/closed/x").error(403, "BoxValidationError")
    for path in ("/usr/new", "/etc/passwd", "/newfile", "/proc/sys/kernel/hostname", "/root/x"):
        answer = put(shared, path)
        assert 400 <= answer.status < 500, answer


# --- quota ------------------------------------------------------------------------------------


def test_33_quota_is_507(daemon):
    """Full is 507, the old file stays, and there is room again after deleting."""
    session = daemon.session(workspace_quota_mb=16)
    put(session, "/workspace/kept", b"old").ok(201)
    answer = session.client.upload(session.file("/workspace/kept"), b"x" * (32 * MIB))
    answer.error(507, "BoxError")
    assert get(session, "/workspace/kept").body == b"old"
    assert session.out("ls -A /workspace | grep -v lost+found") == "kept\n", "a part is left"
    put(session, "/workspace/fits", b"y" * (8 * MIB)).ok(201)
    session.client.upload(session.file("/workspace/more"), b"x" * (12 * MIB)).error(507, "BoxError")
    session.client.delete(session.file("/workspace/fits")).ok()
    put(session, "/workspace/more", b"x" * (12 * MIB)).ok(201)
    daemon.get("/healthz").ok()


def test_33_scratch_is_507(start_boxd):
    boxd = start_boxd(config={"scratch_mb": 8})
    session = boxd.session()
    session.client.upload(session.file("/tmp/big"), b"x" * (24 * MIB)).error(507, "BoxError")
    assert session.out("ls -A /tmp") == ""


# --- atomic -----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
def test_upload_cut_in_the_middle_changes_nothing(daemon, session, chunked):
    put(session, "/workspace/file", b"old content").ok(201)
    how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {8 * MIB}"
    with daemon.client.socket() as sock:
        sock.sendall(f"PUT {session.file('/workspace/file')} HTTP/1.1\r\nHost: localhost\r\n{how}\r\n\r\n".encode())
        for _ in range(4):
            piece = b"n" * 65536
            sock.sendall(b"10000\r\n" + piece + b"\r\n" if chunked else piece)
        assert get(session, "/workspace/file").body == b"old content", "seen before it is whole"
    assert hostview.wait_until(lambda: session.out("ls -A /workspace") == "file\n", PATIENCE), session.out("ls -A /workspace")
    assert get(session, "/workspace/file").body == b"old content"


def test_readers_see_one_or_the_other(session):
    """Under constant replacement every read is of one whole version."""
    versions = [bytes([letter]) * (256 * 1024) for letter in b"abcdef"]
    put(session, "/workspace/file", versions[0])
    done = threading.Event()

    def write():
        for i in range(40):
            put(session, "/workspace/file", versions[i % 6]).ok(200)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    reads = 0
    while not done.is_set() or reads < 10:
        body = get(session, "/workspace/file").body
        assert body in versions, (len(body), set(body))
        reads += 1
    thread.join(PATIENCE)


def test_many_at_once(session):
    def both(i):
        data = os.urandom(50000)
        put(session, f"/workspace/many/{i}", data).ok(201)
        return get(session, f"/workspace/many/{i}").body == data

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(both, range(64)))


# --- names ------------------------------------------------------------------------------------

NAMES = ["with space", "ünï-😀", "per%cent", "%41", "new\nline", "--flag", "-rf", "q?x=1&y", "h#sh", "tab\t", "quote'\"`$(id)",
         "back\\slash", "...", "..x", "~", "*", "a" * 255, "semi;colon", "plus+plus", "\x7f", "\x01"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names(shared, name):
    """ABUSE 16 too: a name is never an option."""
    base = f"/workspace/{unique()}"
    put(shared, f"{base}/{name}", name.encode()).ok(201)
    assert get(shared, f"{base}/{name}").body == name.encode()
    assert [entry["name"] for entry in shared.client.get(shared.file(base) + "?list").ok()["entries"]] == [name]
    assert shared.exec(argv=["sh", "-c", 'cat -- "$1"', "sh", f"{base}/{name}"])["stdout"] == name
    shared.client.post(f"{shared.file(base)}/{quote(name)}?op=move&to={quote(base, safe='')}%2Fmoved").ok()
    assert shared.client.delete(shared.file(f"{base}/moved")).status == 200


def test_name_that_is_not_utf8(shared):
    """It can be listed without breaking JSON, and reached by its bytes."""
    base = f"/workspace/{unique()}"
    shared.out(f"mkdir {base}; cd {base}; printf x > \"$(printf 'a\\377b')\"")
    answer = shared.client.get(shared.file(base) + "?list").ok()
    assert len(answer["entries"]) == 1
    assert shared.client.get(f"{shared.path}/files{base}/a%FFb").body == b"x"


def test_names_that_cannot_be(shared):
    for name in ("a" * 256, "x/" * 3000):
        answer = put(shared, f"/workspace/{name}")
        assert answer.status in (400, 404, 414, 431), answer
    for encoded in ("a%00b", "%", "%4", "%zz", "a%0"):
        for method in ("GET", "PUT", "DELETE"):
            shared.client.request(method, f"{shared.path}/files/workspace/{encoded}", body=b"x").error(400)


@pytest.mark.parametrize("path", [
    "/../../../../etc/hostname", "/workspace/../../etc/hostname", "/workspace/%2e%2e/%2e%2e/etc/hostname",
    "/workspace%2f..%2f..%2fetc%2fhostname", "//etc/hostname", "/..%2f..%2f..%2f..%2fetc/hostname", "/./etc/./hostname",
    "/%2fetc%2fhostname"])
def test_traversal_stays_inside(daemon, session, path):
    """Wherever it leads, it is a place of the sandbox's own: a mark on the host is not to be seen."""
    directory = daemon.box.directory()
    secret = unique("secret")
    (directory / "mark").write_text(secret)
    answer = daemon.get(f"{session.path}/files{path}")
    assert answer.status in (200, 400, 404), answer
    inside = session.exec("cat /etc/hostname")
    if answer.status == 200:
        assert answer.text == inside["stdout"]
    outside = str(directory / "mark").strip("/")
    for inside in ("etc/hostname", "etc%2fhostname", "etc/./hostname"):
        path = path.replace(inside, outside.replace("/", "%2f") if "%2f" in inside else outside)
    answer = daemon.get(f"{session.path}/files{path}")
    assert secret not in answer.body.decode(errors="replace") and answer.status in (400, 404), answer


# --- links and things that are no files -------------------------------------------------------


def test_11_12_links_lead_inside_only(daemon, session):
    """Reading and writing by a link, dangling ones too: never a file of the host's."""
    directory = daemon.box.directory(0o777)
    secret = unique("secret")
    target = directory / "host-file"
    target.write_text(secret)
    target.chmod(0o666)
    missing = directory / "new-file"
    session.out(f"ln -s {target} /workspace/read; ln -s {missing} /workspace/dangling; ln -s {directory} /workspace/dir; "
                "ln -s /proc/1/root /workspace/root; ln -s /proc/self/cwd /workspace/cwd; ln -s / /workspace/slash; "
                "ln -s loop /workspace/loop; ln -s /etc/hostname /workspace/good")
    for path in ("/workspace/read", f"/workspace/dir/{target.name}", f"/workspace/root{target}", f"/workspace/slash{target}",
                 "/workspace/loop", f"/workspace/cwd/..{target}", f"/proc/1/root{target}", f"/proc/self/root{target}"):
        answer = get(session, path)
        assert answer.status in (400, 403, 404), (path, answer)
        assert secret.encode() not in answer.body
        answer = put(session, path, b"overwritten")
        assert target.read_text() == secret, path
    for path in ("/workspace/dangling", "/workspace/dir/new-file", f"/workspace/slash{missing}"):
        put(session, path, b"overwritten")
        assert not missing.exists(), path
        session.client.post(session.file(path) + "?op=mkdir")
        assert not missing.exists(), path
    session.client.delete(session.file("/workspace/dir/host-file"))
    session.client.delete(session.file("/workspace/dir") + "?recursive=true")
    assert target.read_text() == secret
    assert get(session, "/workspace/good").body.decode() == session.out("cat /etc/hostname")


def test_11_link_swapped_while_it_is_read(daemon, session):
    """A race that is lost in the sandbox's own view is no race."""
    target = daemon.box.directory(0o755) / "host-file"
    secret = unique("secret")
    target.write_text(secret)
    with session.stream(
            f"cd /workspace; echo fine > good; while :; do ln -sfn {target} x; ln -sfn good y; mv -T y x; done",
            timeout_sec=PATIENCE, concurrent=True) as events:
        next(events)
        for _ in range(300):
            assert secret.encode() not in get(session, "/workspace/x").body
    assert target.read_text() == secret


def test_14_no_hang_on_what_is_no_file(either):
    """FIFOs without a peer, sockets, devices, endless files of /proc: an answer at once, for reading and writing."""
    session = either.session()
    session.out("cd /workspace; mkfifo fifo; ln -s fifo link; "
                "python3 -c \"import socket; socket.socket(1).bind('/workspace/sock')\"")
    for path in ("/workspace/fifo", "/workspace/link", "/workspace/sock", "/dev/zero", "/dev/null", "/dev/tty", "/dev/ptmx",
                 "/dev/random", "/dev/full", "/proc/kmsg", "/proc/self/mem", "/dev/stdin"):
        answer = session.client.get(session.file(path), timeout=20)
        assert answer.status in (400, 403, 404), (path, answer)
        answer.error(answer.status, "BoxValidationError")
        if not path.startswith("/proc"):  # where it only says what it is, and it is a regular file
            assert session.client.request("HEAD", session.file(path), timeout=20).status in (400, 403, 404)
        if path.startswith("/workspace"):
            continue
        answer = session.client.put(session.file(path), b"x", timeout=20)
        assert 400 <= answer.status < 500, (path, answer)
    # Writing there replaces what has the name, or is refused; it never writes into it.
    answer = session.client.put(session.file("/workspace/fifo"), b"content", timeout=20)
    assert answer.status in (200, 201, 400, 409), answer
    assert session.out("echo on") == "on\n"
    session.delete().ok()


def test_14_growing_and_shrinking_files(session):
    """What is promised in the head is kept, or the connection is cut: never more, never a wrong end."""
    session.out("head -c 4M /dev/zero > /workspace/f")
    with session.stream("cd /workspace; while :; do : > f; head -c 4M /dev/zero > f; done", concurrent=True,
                        timeout_sec=PATIENCE) as events:
        next(events)
        import http.client
        for _ in range(50):
            try:
                answer = get(session, "/workspace/f")
                assert answer.status == 200 and len(answer.body) == int(answer.headers["Content-Length"])
            except (http.client.IncompleteRead, ConnectionError):
                pass
    assert session.out("echo on") == "on\n"


def test_files_of_proc(shared):
    """Regular by name, without a size: what is there comes, or a clear refusal."""
    answer = get(shared, "/proc/self/status")
    assert answer.status in (200, 400, 403), answer


def test_files_while_a_command_runs(session):
    """They do not wait in line behind it."""
    with session.stream("sleep 1000", timeout_sec=0) as events:
        next(events)
        put(session, "/workspace/x", b"1").ok(201)
        assert get(session, "/workspace/x").body == b"1"


def test_client_that_leaves_a_download(daemon, session):
    session.out("head -c 100M /dev/zero > /tmp/big")
    before = daemon.get("/healthz").ok()["resources"]["open_fds"]
    for _ in range(20):
        connection = daemon.client.connection()
        connection.request("GET", session.file("/tmp/big"))
        connection.getresponse().read(1000)
        connection.close()
    assert hostview.wait_until(lambda: daemon.get("/healthz").ok()["resources"]["open_fds"] <= before + 4, PATIENCE)
    session.out("rm /tmp/big")


def test_sockets_are_not_made_by_names(daemon, session):
    """A socket of the host's under a mounted directory stays what it is."""
    directory = daemon.box.directory()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "sock"))
        server.listen()
        made = daemon.session(host_path=str(directory))
        answer = made.client.get(made.file("/workspace/sock"), timeout=20)
        assert answer.status in (400, 403, 404), answer
