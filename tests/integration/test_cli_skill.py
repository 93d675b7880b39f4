"""`box skill` and boxd together: every verb below it, the mistakes people make with them, and boxd going away."""

import io
import os
import shutil
import socket
import stat
import subprocess
import threading
import zipfile
from pathlib import Path

import pytest

import conftest
from daemon import unique
from test_cli_daemon import Cli

ROOT = Path(__file__).resolve().parents[2]
VERBS = ["ls", "show", "new", "import", "install", "export", "edit", "rm", "validate"]
MIB = 1 << 20


@pytest.fixture
def cli(daemon):
    return Cli(daemon)


@pytest.fixture
def nobody(user_box):
    """`box` where no boxd is: whatever it says, it says by itself."""
    def call(*args, **options):
        return user_box.call("skill", *args, env={"BOX_URL": "unix:/nonexistent/boxd.sock"}, **options)
    return call


def skill_text(name, description="Does things. Use it for things.", body="# Things\n\nDo them.\n", more=""):
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\n{body}"


def package(box, name, files=None, text=None):
    """A directory of that name with a SKILL.md and other files: {path: bytes, or (bytes, mode)}."""
    directory = box.directory() / name
    for path, content in {"SKILL.md": (text or skill_text(name)).encode(), **(files or {})}.items():
        data, mode = content if isinstance(content, tuple) else (content, 0o644)
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(data)
        (directory / path).chmod(mode)
    for above, directories, names in os.walk(directory.parent):
        for entry in [above, *(os.path.join(above, name) for name in directories + names)]:
            box.own(entry)
    return directory


def archive(box, files, name="skills.zip"):
    """A zip file of {path: text}."""
    path = box.directory() / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for entry, text in files.items():
            out.writestr(entry, text)
    return path


def sparse(path, size):
    """A file that takes no room."""
    path.touch()
    os.truncate(path, size)


def tree(directory):
    """{path: (bytes, executable)} of all files below."""
    return {str(path.relative_to(directory)): (path.read_bytes(), bool(path.stat().st_mode & 0o111))
            for path in Path(directory).rglob("*") if path.is_file() and not path.is_symlink()}


def stored(cli, name):
    """Where boxd has it."""
    return Path(cli.boxd.get(f"/v1/skills/{name}").ok()["skill"]["package_root"])


def names(cli):
    return cli("skill", "ls", "-q").ok().out.split()


def script(box, text):
    """An editor: a shell script with the file as $1."""
    return str(box.file(box.directory(), "editor", "#!/bin/sh\n" + text + "\n", 0o755))


# --- what it can do, and how it is asked ---------------------------------------------------------


def test_lists_its_verbs(user_box):
    listed = user_box.call("skill").ok().out
    assert listed == user_box.call("skill", "help").ok().out == user_box.call("help", "skill").ok().out
    assert listed == user_box.call("skill", "--help").ok().out
    for verb in VERBS:
        assert f"\n  {verb} " in listed
    assert "\n  skill " in user_box.call("help").ok().out


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_explain_themselves(user_box, verb):
    text = user_box.call("skill", verb, "--help").ok().out
    assert text.startswith(f"usage: box skill {verb}") and "--url" in text
    assert text == user_box.call("help", "skill", verb).ok().out == user_box.call("skill", "help", verb).ok().out
    manual = (ROOT / "man" / "box.1").read_text()
    skills = manual[manual.index(".Sh SKILLS"):manual.index(".Sh ENVIRONMENT")]
    assert f".It Cm {verb}" in skills
    for line in text.splitlines():
        for word in line.split():
            if line.startswith("  ") and word.startswith("--") and word.strip("-") not in ("", "json", "quiet"):
                assert f"-{word.removeprefix('--').rstrip(',')}" in skills, (verb, word)


@pytest.mark.parametrize("words, said", [
    (["shwo", "x"], "did you mean box skill show?"),
    (["frobnicate"], "see box help skill"),
    (["help", "frobnicate"], "unknown verb"),
    (["ls", "extra"], "'extra' is one word too many"),
    (["show"], "box skill show NAME [FILE]"),
    (["show", "a", "b", "c"], "'c' is one word too many"),
    (["show", ""], "the NAME is empty"),
    (["rm"], "no NAME given"),
    (["ls", "--jsno"], "did you mean --json?"),
    (["install", "f.zip", "--path"], "--path needs a value"),
    (["new", "a/b"], "is no name for a skill"),
    (["new", "a b"], "use letters, digits"),
    (["new", "x" * 65], "at most 64 characters"),
    (["import", ".", "--name", "../x"], "--name: "),
])
def test_wrong_usage(nobody, words, said):
    result = nobody(*words).failed(2)
    assert said in result.err and result.out == "", result


@pytest.mark.parametrize("words", [["ls"], ["show", "x"], ["new", "x"], ["export", "x"], ["edit", "x"], ["rm", "x"],
                                   ["validate", "x"], ["ls", "--json"]])
def test_no_daemon(nobody, words):
    result = nobody(*words).failed()
    if "--json" in words:
        assert "is boxd running" in result.json["error"]["hint"], result
    else:
        assert result.err.startswith(f"box skill {words[0]}: ") and "fix: is boxd running" in result.err, result


def test_loads_no_further_library(programs):
    """Each shared library costs every `box run` the time to load it."""
    found = subprocess.run(["ldd", programs.box], capture_output=True, text=True, check=True, timeout=conftest.PATIENCE).stdout
    assert "libc.so" in found
    if "libasan" in found:
        pytest.skip("sanitizers bring libraries of their own")
    for name in ("libzip", "libyaml", "libz.", "libbz2", "libm.", "libcrypto"):
        assert name not in found, found


# --- ls, show -----------------------------------------------------------------------------------


def test_ls(cli):
    name, other = unique("ls"), unique("ls-other")
    long = "A description that is much longer than a line on the terminal of anybody, " * 3
    cli("skill", "new", name, "--description", long).ok()
    cli("skill", "import", package(cli.box, other, {"requirements.txt": b"x\n"}, skill_text(other, "'two\n\n  lines\ttab'"))).ok()
    rows = {line.split()[0]: line for line in cli("skill", "ls").ok().out.splitlines()}
    assert rows["NAME"].split() == ["NAME", "DESCRIPTION", "AGE", "PYTHON"]
    assert long.strip() in rows[name] and rows[name].endswith("-"), "not cut where it is no terminal"
    assert "two lines tab" in rows[other] and rows[other].endswith("yes")
    assert names(cli)[:2] == [other, name], "the newest first"
    listed = {skill["name"]: skill for skill in cli("skill", "ls", "--json").ok().json["skills"]}
    assert listed[name]["description"] == long.strip() and listed[other]["python_project"] is True
    with cli.terminal("skill", "ls", columns=70) as terminal:
        assert terminal.wait() == 0
        terminal.expect("PYTHON")
        shown = [line for line in terminal.seen.decode().splitlines() if line.startswith(name)]
    assert len(shown) == 1 and len(shown[0]) <= 70 and "…" in shown[0] and shown[0].endswith("-"), shown
    cli("skill", "rm", name, other).ok()


def test_show(cli):
    name = unique("show")
    text = skill_text(name, more="display_name: \"Nice Name\"\nlicense: MIT\nmetadata:\n  author: me\n")
    cli("skill", "import", package(cli.box, name, {"scripts/a.py": b"print()\n", "data/deep/er/x": b""}, text)).ok()
    out = cli("skill", "show", name).ok().out
    for wanted in (f"name: {' ' * 9}{name}\n", "Nice Name", "Does things.", "license:       MIT", "author", "  scripts/a.py\n",
                   "data/deep/er/x", "\n\n# Things\n\nDo them.\n"):
        assert wanted in out, out
    shown = cli("skill", "show", name, "--json").ok().json
    assert shown["skill"]["display_name"] == "Nice Name"
    assert [entry["path"] for entry in shown["files"]] == [
        "SKILL.md", "data", "data/deep", "data/deep/er", "data/deep/er/x", "scripts", "scripts/a.py"]
    missing = cli("skill", "show", unique("no")).failed()
    assert "there is no skill" in missing.err and "box skill ls" in missing.err
    assert cli("skill", "show", unique("no"), "--json").failed().json["error"]["code"] == "not_found"
    cli("skill", "rm", name).ok()


def test_show_file(cli):
    name, data = unique("show"), bytes(range(256)) * 1000
    evil = b"plain\n\x1b]0;owned\x07\xc2\x9b31m\ttab\n"
    cli("skill", "import", package(cli.box, name, {"b.bin": data, "evil": evil, "sp ace/ü": "ü".encode()})).ok()
    assert cli("skill", "show", name, "b.bin").ok().stdout == data
    assert cli("skill", "show", name, "evil").ok().stdout == evil
    assert cli("skill", "show", name, "sp ace/ü").ok().out == "ü"
    assert cli("skill", "show", name, "/SKILL.md").ok().out == skill_text(name)
    as_json = cli("skill", "show", name, "sp ace/ü", "--json").ok().json
    assert as_json == {"skill": {"name": name}, "path": "sp ace/ü", "size": 2, "content": "ü"}
    assert cli("skill", "show", name, "b.bin", "--json").ok().json["size"] == len(data)
    with cli.terminal("skill", "show", name, "evil") as terminal:
        assert terminal.wait() == 0
        terminal.expect("plain")
        assert b"\x1b" not in terminal.seen and b"\x9b" not in terminal.seen and b"?]0;owned?" in terminal.seen
    for path, said in (("none", f"box skill show {name} lists its files"), ("../../lock", "leads out"), ("sp ace", ""), ("/", "")):
        assert said in cli("skill", "show", name, path).failed().err
    gone = cli("skill", "show", unique("no"), "SKILL.md").failed()
    assert "there is no skill" in gone.err and "box skill ls" in gone.err
    cli("skill", "rm", name).ok()


# --- new ----------------------------------------------------------------------------------------


def test_new(cli):
    name, other, empty = unique("new"), unique("new"), unique("new")
    result = cli("skill", "new", name, "-d", "What: \"it\" does — ü", "--display-name", "N: #1", "-f", "-", input="Do ü.\n".encode())
    assert result.ok().out == name + "\n"
    skill = cli("skill", "show", name, "--json").ok().json["skill"]
    assert (skill["display_name"], skill["description"], skill["instructions"]) == ("N: #1", 'What: "it" does — ü', "Do ü.\n")
    path = cli.box.file(cli.box.directory(), "text.md", "From a file.\n")
    assert cli("skill", "new", other, "-f", path, "--json").ok().json["skill"]["instructions"] == "From a file.\n"
    cli("skill", "new", empty).ok()
    assert cli("skill", "show", empty, "--json").ok().json["skill"]["instructions"] == ""
    again = cli("skill", "new", name).failed()
    assert "already" in again.err and "box skill rm" in again.err
    assert cli("skill", "new", name, "--json").failed().json["error"]["code"] == "exists"
    cli("skill", "rm", name, other, empty).ok()


def test_new_refuses(nobody, user_box):
    """All of it before boxd is asked."""
    directory = user_box.directory()
    whole = user_box.file(directory, "SKILL.md", skill_text("x"))
    big = user_box.file(directory, "big.md", "x" * (MIB + 1))
    latin = directory / "latin.md"
    latin.write_bytes(b"caf\xe9\n")
    for path, said in ((whole, "has front matter"), (big, "larger than 1M"), (latin, "is not UTF-8"),
                       (directory, "is a directory"), (directory / "none", "No such file")):
        result = nobody("new", "x", "-f", path).failed()
        assert said in result.err, result
    assert "larger than 1M" in nobody("new", "x", "-f", "-", input=b"x" * (MIB + 1)).failed().err
    assert "description is not UTF-8" in nobody("new", "x", "-d", b"\xff".decode(errors="surrogateescape")).failed().err


# --- import -------------------------------------------------------------------------------------


def test_import(cli):
    name = unique("import")
    files = {"scripts/run.sh": (b"#!/bin/sh\n", 0o755), ".hidden/x": b"h", "日本/ü ß.txt": b"\0\xff", "-dash": b"-",
             "empty.txt": b"", "a\nb": b"newline"}
    directory = package(cli.box, name, files, skill_text(name, more="x-unknown: [1, 2]  # kept\n").replace("\n", "\r\n"))
    (directory / "empty-dir").mkdir()
    assert cli("skill", "import", directory).ok().out == name + "\n"
    assert stored(cli, name).name == name
    assert tree(stored(cli, name)) == tree(directory)
    assert (stored(cli, name) / "empty-dir").is_dir()
    again = cli("skill", "import", directory).failed()
    assert "already" in again.err and "fix:" in again.err
    cli("skill", "rm", name).ok()
    assert cli("skill", "import", ".", cwd=directory).ok().out == name + "\n"
    cli("skill", "rm", name).ok()


def test_import_under_another_name(cli):
    name, other = unique("import"), unique("import-as")
    text = skill_text(name, more="x-unknown: [1, 2]  # kept\n")
    directory = package(cli.box, name, {"f": b"f"}, text)
    assert cli("skill", "import", directory, "--name", other).ok().out == other + "\n"
    assert (stored(cli, other) / "SKILL.md").read_text() == text.replace(f"name: {name}", f"name: {other}")
    assert (directory / "SKILL.md").read_text() == text, "what is here stays as it is"
    nameless = package(cli.box, "nameless", text="Just instructions.\n")
    assert cli("skill", "import", nameless, "--name", name, "--json").ok().json["skills"][0]["name"] == name
    cli("skill", "rm", name, other).ok()
    assert cli("skill", "import", nameless).ok().out == "nameless\n"
    cli("skill", "rm", "nameless").ok()


def test_import_leaves_out(cli):
    name = unique("import")
    directory = package(cli.box, name, {"f": b"f"})
    (directory / "link").symlink_to("/etc/passwd")
    (directory / "inside").symlink_to("f")
    os.mkfifo(directory / "fifo")
    result = cli("skill", "import", directory)
    assert result.returncode == 1 and result.out == name + "\n", result
    for left in ("link': a symbolic link", "inside': a symbolic link", "fifo': not a regular file"):
        assert left in result.err
    assert set(tree(stored(cli, name))) == {"SKILL.md", "f"}
    cli("skill", "rm", name).ok()


def test_import_linked_entry(cli):
    name = unique("import")
    directory = package(cli.box, name, {"text.md": skill_text(name).encode()})
    (directory / "SKILL.md").unlink()
    (directory / "SKILL.md").symlink_to("text.md")
    cli("skill", "import", directory).ok()
    entry = stored(cli, name) / "SKILL.md"
    assert entry.read_text() == skill_text(name) and not entry.is_symlink()
    cli("skill", "rm", name).ok()


@pytest.mark.parametrize("make, said", [
    (lambda d: (d / "SKILL.md").unlink(), ["there is no SKILL.md in", "box skill new"]),
    (lambda d: (d / "SKILL.md").write_bytes(b"\xff"), ["SKILL.md: it is not UTF-8"]),
    (lambda d: (d / "SKILL.md").write_text("---\nname: [\n---\n"), ["SKILL.md: line "]),
    (lambda d: (d / "SKILL.md").write_text("---\nname: a b\n---\n"), ["no name for a skill"]),
    (lambda d: (d / "SKILL.md").write_text("x" * (MIB + 1)), ["larger than 1048576 bytes"]),
    (lambda d: sparse(d / "big", 17 * MIB), ["/big' has 17M; a file of a skill may have 16M"]),
    (lambda d: [sparse(d / name, 11 * MIB) for name in "ab"], ["has 22M", "20M", ".git"]),
    (lambda d: [(d / f"f{i}").touch() for i in range(512)], ["more than 512 files and directories", ".venv"]),
    (lambda d: (d / "/".join(["d"] * 41)).mkdir(parents=True), ["more than 40 levels deep"]),
    (lambda d: open(os.fsencode(d) + b"/\xff\xfe.txt", "w").close(), ["is not UTF-8", "rename it"]),
    (lambda d: (d / "a\\b").touch(), ["backslash", "rename it"]),
])
def test_import_refuses(nobody, user_box, make, said):
    """Told before anything is sent: there is nobody to send it to."""
    directory = package(user_box, "x")
    make(directory)
    result = nobody("import", directory).failed()
    for words in said:
        assert words in result.err, result


def test_import_refuses_what_is_no_directory(nobody, user_box):
    path = archive(user_box, {"SKILL.md": skill_text("x")})
    assert "box skill install" in nobody("import", path).failed().err
    assert "No such file" in nobody("import", path.parent / "none").failed().err


def test_import_at_the_limits(cli):
    """What is let through here is taken there."""
    name = unique("import")
    directory = package(cli.box, name, {f"f{i}": b"" for i in range(510)})
    (directory / "big").write_bytes(os.urandom(16 * MIB))
    cli("skill", "import", directory).ok()
    assert tree(stored(cli, name)) == tree(directory)
    cli("skill", "rm", name).ok()


class Catcher:
    """A boxd that keeps what it is sent, and answers what it is told to: bytes, or None to just close."""

    def __init__(self, directory, answer=None, read=None):
        self.url = f"unix:{directory}/catcher.sock"
        self.requests = []
        self.answer = answer
        self.read = read  # bytes of the body to wait for; None: all of it
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(directory / "catcher.sock"))
        (directory / "catcher.sock").chmod(0o666)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                self.one(connection)

    def one(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return
            data += piece
        head, body = data.split(b"\r\n\r\n", 1)
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        wanted = int(fields.get("Content-Length", 0)) if self.read is None else self.read
        while len(body) < wanted:
            piece = connection.recv(65536)
            if not piece:
                return
            body += piece
        self.requests.append((head.decode().split("\r\n")[0], fields, body))
        if self.answer:
            connection.sendall(self.answer)

    def form(self, index=0):
        """The parts of a form: [(name, bytes)]."""
        _, fields, body = self.requests[index]
        boundary = b"--" + fields["Content-Type"].split("boundary=")[1].encode()
        parts = []
        for part in body.split(boundary)[1:-1]:
            head, content = part.split(b"\r\n\r\n", 1)
            parts.append((head.split(b'name="')[1].split(b'"')[0].decode(), content[:-2]))
        return parts


def created(body=b'{"skills":[{"name":"caught"}]}'):
    return b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_archive_that_import_sends(user_box):
    """Others read it too."""
    files = {"scripts/run.sh": (b"#!/bin/sh\nexit 0\n", 0o755), "日本/ü.txt": os.urandom(100000), "none": b"", "a b": b"c"}
    directory = package(user_box, "caught", files)
    (directory / "empty").mkdir()
    catcher = Catcher(user_box.directory(0o777), created())
    env = {"BOX_URL": catcher.url}
    for _ in range(2):
        assert user_box.call("skill", "import", directory, env=env).ok().out == "caught\n"
    line, fields, _ = catcher.requests[0]
    assert line == "POST /v1/skills/install HTTP/1.1"
    form = dict(catcher.form())
    assert (form["filename"], form["target_suffix"]) == (b"caught.zip", b"")
    assert dict(catcher.form(1))["file"] == form["file"], "the same files are the same archive"
    with zipfile.ZipFile(io.BytesIO(form["file"])) as found:
        assert found.testzip() is None
        read = {info.filename: info for info in found.infolist()}
        for path, (data, executable) in tree(directory).items():
            assert found.read(path) == data
            mode = read[path].external_attr >> 16
            assert stat.S_ISREG(mode) and bool(mode & 0o111) == executable
        assert set(read) == set(tree(directory)) | {"empty/", "scripts/", "日本/"}
        assert stat.S_ISDIR(read["empty/"].external_attr >> 16)
    if shutil.which("unzip"):
        path = user_box.directory() / "sent.zip"
        path.write_bytes(form["file"])
        tested = subprocess.run(["unzip", "-t", path], capture_output=True, text=True, timeout=conftest.PATIENCE)
        assert tested.returncode == 0 and "No errors" in tested.stdout, tested


# --- install ------------------------------------------------------------------------------------


def test_install(cli):
    name = unique("install")
    path = archive(cli.box, {f"{name}/SKILL.md": skill_text(name), f"{name}/f": "f"}, f"{name}.zip")
    listed = cli("skill", "install", path, "--dry-run").ok().out
    assert name in listed and "Does things." in listed and name not in names(cli)
    assert cli("skill", "install", path).ok().out == name + "\n"
    assert set(tree(stored(cli, name))) == {"SKILL.md", "f"} and stored(cli, name).name == name
    again = cli("skill", "install", path).failed()
    assert "already" in again.err and "fix:" in again.err
    cli("skill", "rm", name).ok()
    assert cli("skill", "install", "-", input=path.read_bytes()).ok().out == name + "\n"
    cli("skill", "rm", name).ok()
    assert cli("skill", "install", "--path", ".", "--json", path).ok().json["skills"][0]["name"] == name
    cli("skill", "rm", name).ok()


def test_install_several(cli):
    one, two, three = (unique(f"many-{n}") for n in "abc")
    files = {f"top/x/{name}/SKILL.md": skill_text(name, f"That of {name}.") for name in (one, two)}
    path = archive(cli.box, {**files, f"top/{three}/SKILL.md": skill_text(three)})
    unchosen = cli("skill", "install", path).failed(2)
    for words in (f"x/{one}", f"x/{two}", f"That of {two}.", three, "there are 3 skills in it", f"fix: --path {three}"):
        assert words in unchosen.err, unchosen
    as_json = cli("skill", "install", path, "--json").failed(2).json["error"]
    assert all(name in as_json["message"] for name in (one, two, three)) and "--path" in as_json["hint"]
    assert not {one, two, three} & set(names(cli))
    assert cli("skill", "install", path, "--subdir", "x", "-n").ok().out.count("That of") == 2
    wrong = cli("skill", "install", path, "--path", f"x/{one}", "--path", "nope").failed()
    assert "no skill at 'nope'" in wrong.err and not {one, two} & set(names(cli)), "all or none"
    assert set(cli("skill", "install", path, "--path", f"x/{one}", "--path", three).ok().out.split()) == {one, three}
    assert cli("skill", "install", path, "--subdir", "x", "--path", two).ok().out == two + "\n"
    assert "no directory" in cli("skill", "install", path, "--subdir", "y").failed().err
    # The directory has the archive's name in it; what is known is the skill's.
    again = cli("skill", "install", path, "--path", three).failed()
    assert f"there is a skill '{three}' already" in again.err and "box skill rm" in again.err, again
    cli("skill", "rm", one, two, three).ok()


@pytest.mark.parametrize("content, said", [
    (b"", "is empty"),
    (b"PK", "is no zip archive"),
    (b"\x1f\x8b\x08 a tar.gz", "is no zip archive"),
    ("sparse", "larger than 20M"),
])
def test_install_refuses_early(nobody, user_box, content, said):
    path = user_box.directory() / "x.zip"
    path.write_bytes(b"PK\3\4" if content == "sparse" else content)
    if content == "sparse":
        os.truncate(path, 1 << 40)
    result = nobody("install", path).failed()
    assert said in result.err and "boxd running" not in result.err, result


def test_install_refuses(cli, nobody):
    directory = package(cli.box, "x")
    directory.parent.chmod(0o755)
    assert "box skill import" in nobody("install", directory).failed().err
    assert "No such file" in nobody("install", directory / "none.zip").failed().err
    empty = archive(cli.box, {})
    assert "no SKILL.md in the archive" in cli("skill", "install", empty).failed().err
    assert "no SKILL.md" in cli("skill", "install", "-n", archive(cli.box, {"README": "x"})).failed().err
    whole = archive(cli.box, {"SKILL.md": skill_text("x"), "f": os.urandom(5000)})
    for cut in (10, 4000, whole.stat().st_size - 5):
        broken = cli.box.directory() / "cut.zip"
        broken.write_bytes(whole.read_bytes()[:cut])
        result = cli("skill", "install", broken).failed()
        assert result.err.startswith("box skill install: ") and "x" not in names(cli), result


def test_install_by_a_name_that_is_no_text(cli):
    """What a file here is called is the caller's business."""
    name = unique("bytes")
    path = archive(cli.box, {"SKILL.md": skill_text(name)})
    odd = os.fsencode(path.parent) + b"/\xff\"\r\n\xfe.zip"
    os.rename(path, odd)
    assert cli("skill", "install", os.fsdecode(odd)).ok().out == name + "\n"
    cli("skill", "rm", name).ok()
    gone = cli("skill", "install", os.fsdecode(odd) + "x").failed()
    assert b"No such file" in gone.stderr


def test_progress(cli):
    """A bar where it takes its time, on a terminal; gone at the end."""
    name = unique("bar")
    directory = package(cli.box, name, {"big": os.urandom(15 * MIB)})
    path = cli.box.directory() / "big.zip"
    cli("skill", "import", directory).ok()
    with cli.terminal("skill", "export", name, "-o", str(path)) as terminal:
        assert terminal.wait() == 0
        terminal.expect(str(path))
    assert cli("skill", "export", name, "-o", path).ok().err == ""
    cli("skill", "rm", name).ok()
    catcher = SlowCatcher(cli.box.directory(), created())
    with subprocess_terminal(cli, catcher.url, "skill", "install", str(path)) as terminal:
        terminal.expect("big.zip  [")
        terminal.expect("%")
        catcher.go.set()
        assert terminal.wait() == 0
        terminal.expect("\x1b[K")
        terminal.expect("caught")


class SlowCatcher(Catcher):
    """Reads a part of what it is sent, and the rest when it is told to."""

    def __init__(self, directory, answer):
        self.go = threading.Event()
        super().__init__(directory, answer)

    def one(self, connection):
        taken = b""
        while len(taken) < 4 * MIB:
            piece = connection.recv(65536)
            taken += piece
            self.go.wait(0.02)
        self.go.wait(conftest.PATIENCE)
        wanted = int(taken.split(b"Content-Length: ")[1].split(b"\r\n")[0]) + taken.index(b"\r\n\r\n") + 4
        while len(taken) < wanted:
            taken += connection.recv(1 << 20)
        connection.sendall(self.answer)


def subprocess_terminal(cli, url, *args):
    other = Cli(cli.boxd)
    other.env = {"BOX_URL": url}
    return other.terminal(*args)


# --- export -------------------------------------------------------------------------------------


def test_export(cli):
    name = unique("export")
    directory = package(cli.box, name, {"scripts/x": (b"#!", 0o755), "ü": b"\0", ".h": b"h"})
    cli("skill", "import", directory).ok()
    here = cli.box.directory()
    assert cli("skill", "export", name, cwd=here).ok().out == f"{name}.zip\n"
    with zipfile.ZipFile(here / f"{name}.zip") as found:
        assert {path: found.read(f"{name}/{path}") for path in tree(directory)} == {
            path: data for path, (data, _) in tree(directory).items()}
    assert cli("skill", "export", name, "-o", "-").ok().stdout == (here / f"{name}.zip").read_bytes()
    inside = here / "directory"
    inside.mkdir()
    assert cli("skill", "export", name, "-o", inside).ok().out == f"{inside}/{name}.zip\n"
    (here / "old").write_text("old")
    (here / "link").symlink_to("old")
    cli("skill", "export", name, "-o", here / "link").ok()
    assert (here / "link").is_symlink() and zipfile.is_zipfile(here / "old")
    assert not list(here.rglob(".box-cp*"))
    # Out and in again is the same.
    cli("skill", "rm", name).ok()
    cli("skill", "install", here / f"{name}.zip").ok()
    assert tree(stored(cli, name)) == tree(directory)
    cli("skill", "rm", name).ok()


def test_export_refuses(cli):
    name, here = unique("export"), cli.box.directory()
    cli("skill", "new", name).ok()
    assert "No such file" in cli("skill", "export", name, "-o", here / "none" / "x.zip").failed().err
    assert "No space left" in cli("skill", "export", name, "-o", "/dev/full").failed().err
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    with open("/dev/full", "wb") as full:
        assert "No space left" in cli("skill", "export", name, "-o", "-", stdout=full).failed().err
    missing = cli("skill", "export", unique("no"), cwd=here).failed()
    assert "there is no skill" in missing.err and "box skill ls" in missing.err
    assert not list(here.iterdir())
    with cli.terminal("skill", "export", name, "-o", "-") as terminal:
        assert terminal.wait() == 2
        terminal.expect("-o FILE")
    cli("skill", "rm", name).ok()


# --- what a new user tries ----------------------------------------------------------------------


def test_what_a_new_user_tries(cli):
    """Each is refused with what to do instead."""
    directory = cli.box.directory()
    (directory / "forms").mkdir()
    cli.box.file(directory / "forms", "SKILL.md", "---\nname: [\n---\n")
    cli.box.file(directory, "notes.md", "x")
    for words, said, fix in (
            (["import", "forms/SKILL.md"], "Not a directory", "the directory that SKILL.md is in"),
            (["validate", "forms/SKILL.md"], "Not a directory", "the directory that SKILL.md is in"),
            (["validate", "notes.md"], "Not a directory", "the directory that SKILL.md is in"),
            (["import", "forms"], "not valid YAML", "box skill validate forms"),
            (["install", "notes.md"], "is no zip archive", "box skill export"),
            (["install", "forms"], "is a directory", "box skill import")):
        result = cli("skill", *words, cwd=directory).failed()
        assert said in result.err and "fix: " in result.err and fix in result.err, result


def test_a_name_that_is_none_can_be_replaced(cli):
    """As people write them for people."""
    name, directory = unique("named"), cli.box.directory()
    cli.box.file(directory, "SKILL.md", "---\nname: PDF Forms\ndescription: Fills in forms.\nlicense: MIT\n---\nDo.\n")
    assert "'PDF Forms' is no name" in cli("skill", "import", directory).failed().err
    assert cli("skill", "import", directory, "--name", name).ok().out == f"{name}\n"
    assert (stored(cli, name) / "SKILL.md").read_text() == f"---\nname: {name}\ndescription: Fills in forms.\nlicense: MIT\n---\nDo.\n"
    again = cli("skill", "import", directory, "--name", name).failed()
    assert "already" in again.err and "--name" in again.err
    cli("skill", "rm", name).ok()


# --- edit ---------------------------------------------------------------------------------------


@pytest.fixture
def edited(cli):
    """A skill to edit, with what a careless writer would lose: (name, text)."""
    name = unique("edit")
    text = skill_text(name, more="# a comment\nx-unknown: {a: 1}\n").replace("\n", "\r\n")
    cli("skill", "import", package(cli.box, name, {"notes.txt": b"one\n"}, text)).ok()
    yield name, text
    cli("skill", "rm", name)


def edit(cli, editor, *words, **options):
    temporary = cli.box.directory()
    result = cli("skill", "edit", *words, env={"EDITOR": editor, "TMPDIR": str(temporary)}, **options)
    result.left = [path for path in temporary.rglob("*") if path.is_file()]
    return result


def test_edit(cli, edited):
    name, text = edited
    done = edit(cli, "sed -i s/them/THEM/", name).ok()
    assert cli("skill", "show", name, "SKILL.md").ok().stdout == text.replace("them", "THEM").encode()
    assert not done.left and done.err == ""
    same = edit(cli, "true", name).ok()
    assert "nothing is changed" in same.err and not same.left
    edit(cli, script(cli.box, 'test "$(basename "$1")" = notes.txt && echo two >> "$1"'), name, "notes.txt").ok()
    assert cli("skill", "show", name, "notes.txt").ok().out == "one\ntwo\n"
    edit(cli, script(cli.box, 'echo new > "$1"'), name, "some/where/new.txt").ok()
    assert cli("skill", "show", name, "some/where/new.txt").ok().out == "new\n"
    # $VISUAL comes first, and an editor can have options.
    cli("skill", "edit", name, "notes.txt", env={"VISUAL": "sed -i -e s/one/1/", "EDITOR": "false"}).ok()
    assert cli("skill", "show", name, "notes.txt").ok().out == "1\ntwo\n"


def test_edit_in_a_directory_with_an_odd_name(cli, edited):
    name, _ = edited
    odd = cli.box.directory() / "a b'$(x)\""
    odd.mkdir()
    cli("skill", "edit", name, "notes.txt", env={"EDITOR": "sed -i s/one/uno/", "TMPDIR": str(odd)}).ok()
    assert cli("skill", "show", name, "notes.txt").ok().out == "uno\n" and not list(odd.iterdir())


def test_edit_that_fails(cli, edited):
    name, text = edited
    for editor, said in (("false", "failed: nothing is changed"), ("/nonexistent/editor", "cannot run the editor"),
                         ("kill -9 $$;", "failed")):
        result = edit(cli, editor, name).failed()
        assert said in result.err and not result.left, result
    assert "there is no skill" in edit(cli, "true", unique("no")).failed().err
    assert edit(cli, "true", name, "../../x").failed().err.startswith("box skill edit: ")
    assert cli("skill", "show", name, "SKILL.md").ok().stdout == text.encode()


@pytest.mark.parametrize("change, said", [
    ("printf -- '---\\nname: [\\n---\\n' > \"$1\"", "SKILL.md: line "),
    ("printf -- '---\\nname: a b\\n---\\n' > \"$1\"", "no name for a skill"),
    ("printf '\\377' > \"$1\"", "not UTF-8"),
    ("head -c 1048577 /dev/zero > \"$1\"", "larger than 1M"),
])
def test_edit_refuses_to_break_it(cli, edited, change, said):
    """A SKILL.md that cannot be read would be gone from the store; what was typed is not."""
    name, text = edited
    result = edit(cli, script(cli.box, change), name).failed()
    assert said in result.err and len(result.left) == 1 and str(result.left[0]) in result.err, result
    assert cli("skill", "show", name, "SKILL.md").ok().stdout == text.encode()


def test_edit_that_loses_the_front_matter(cli, edited):
    name, _ = edited
    assert "front matter" not in edit(cli, "sed -i s/them/THEM/", name).ok().err
    result = edit(cli, script(cli.box, "printf 'Only words.\\n' > \"$1\""), name).ok()
    assert "SKILL.md has no front matter any more" in result.err and "fix:" in result.err, result
    assert cli("skill", "show", name, "SKILL.md").ok().out == "Only words.\n"
    assert edit(cli, "sed -i s/Only/No/", name).ok().err == ""


def test_edit_conflict(cli, edited):
    name, _ = edited
    url = f"http://localhost/v1/skills/{name}/files/notes.txt"
    curl = f"curl -sS --unix-socket {cli.boxd.socket} -o /dev/null"
    theirs = script(cli.box, f'echo mine >> "$1"; printf theirs | {curl} -X PUT --data-binary @- {url}')
    result = edit(cli, theirs, name, "notes.txt").failed()
    assert "somebody else was faster: 'notes.txt' has been changed" in result.err and result.left[0].read_text() == "one\nmine\n", result
    assert cli("skill", "show", name, "notes.txt").ok().out == "theirs"
    removed = edit(cli, script(cli.box, f'echo mine >> "$1"; {curl} -X DELETE {url}'), name, "notes.txt").failed()
    assert "somebody else was faster: 'notes.txt' is not there any more" in removed.err and removed.left
    assert cli("skill", "show", name, "notes.txt").failed()
    appeared = edit(cli, script(cli.box, f'echo mine >> "$1"; printf x | {curl} -X PUT --data-binary @- {url}'), name, "notes.txt").failed()
    assert "somebody else was faster: 'notes.txt' is there already" in appeared.err and appeared.left
    assert cli("skill", "show", name, "notes.txt").ok().out == "x"


def test_edit_renames(cli):
    name, other = unique("edit"), unique("edit-new")
    cli("skill", "new", name).ok()
    result = edit(cli, f"sed -i s/^name:.*/name:\\ {other}/", name).ok()
    assert f"'{name}' is called '{other}' from now on" in result.err
    assert other in names(cli) and name not in names(cli)
    cli("skill", "rm", other).ok()


# --- rm -----------------------------------------------------------------------------------------


def test_rm(cli):
    one, two, missing = unique("rm"), unique("rm"), unique("rm-no")
    for name in (one, two):
        cli("skill", "new", name).ok()
    result = cli("skill", "rm", one, missing, two).failed()
    assert result.out == f"{one}\n{two}\n" and missing in result.err and "box skill ls" in result.err
    assert not {one, two} & set(names(cli))
    cli("skill", "new", one).ok()
    done = cli("skill", "rm", one, missing, "--json").failed().json
    assert done["deleted"] == [one] and done["failed"][0]["error"]["code"] == "not_found"


# --- validate -----------------------------------------------------------------------------------


def test_validate_directory(nobody, user_box):
    """Without boxd."""
    good = package(user_box, "good", {"scripts/x.py": b""}, skill_text("good", body="See `scripts/x.py`.\n"))
    assert nobody("validate", good).ok().out == f"{good}/SKILL.md: no problems\n"
    warned = package(user_box, "warned", text=skill_text("warned", body="# X\n\nSee `scripts/none.py`.\n"))
    result = nobody("validate", warned).ok()
    assert f"{warned}/SKILL.md:8: warning: " in result.out and "    fix: " in result.out
    assert result.out.endswith("0 errors, 1 warning\n")
    bad = package(user_box, "bad", text="---\nname: bad\nlicense: 7\n---\nx\n")
    result = nobody("validate", bad).failed(1)
    assert "error: there is no 'description'" in result.out and f"{bad}/SKILL.md:3: error: " in result.out
    assert result.out.endswith("2 errors, 0 warnings\n"), result
    problems = nobody("validate", bad, "--json").failed(1).json["problems"]
    assert {problem["severity"] for problem in problems} == {"error"} and 3 in [problem["line"] for problem in problems]
    assert all(problem["fix"] for problem in problems)


@pytest.mark.parametrize("lines, fix", [
    ("metadata:\n\ta: b", "indent with spaces"),
    ("\tlicense: MIT", "indent with spaces"),
    ("license: &a MIT", "begins with '&'"),
    ("license: *a", "begins with '&'"),
    ("license: a: b", "need quotes"),
    ("license: @b", "need quotes"),
])
def test_validate_front_matter_that_is_no_yaml(nobody, user_box, lines, fix):
    directory = user_box.directory()
    user_box.file(directory, "SKILL.md", f"---\nname: x\n{lines}\n---\nDo.\n")
    result = nobody("validate", directory).failed(1)
    assert fix in result.out and result.out.count("fix:") == 1, result


def test_validate_words(nobody, user_box):
    directory = package(user_box, "here")
    # A directory that is here is meant; a word that is neither is a skill of boxd's.
    assert nobody("validate", "here", cwd=directory.parent).ok().out == "here/SKILL.md: no problems\n"
    assert nobody("validate", ".", cwd=directory).ok().out == "./SKILL.md: no problems\n"
    assert "boxd running" in nobody("validate", "elsewhere", cwd=directory.parent).failed().err
    (directory / "SKILL.md").unlink()
    assert "error: there is no SKILL.md" in nobody("validate", directory).failed(1).out
    assert "No such file" in nobody("validate", "./none", cwd=directory).failed().err
    (directory / "file").touch()
    assert "Not a directory" in nobody("validate", "./file", cwd=directory).failed().err
    odd = os.fsencode(directory.parent) + b"/\xff\x1b[31m"
    os.rename(directory, odd)
    assert b"\x1b" not in nobody("validate", os.fsdecode(odd) + "/").failed(1).stdout


def test_validate_stored(cli):
    name = unique("validate")
    directory = package(cli.box, name, text=skill_text(name, "''", "See [x](none.md).\n", more="zz: 1\n"))
    cli("skill", "import", directory).ok()
    result = cli("skill", "validate", name).failed(1)
    assert f"\n{name}:" in "\n" + result.out and "error" in result.out and "fix:" in result.out
    assert cli("skill", "validate", name, "--json").failed(1).json == cli("skill", "validate", directory, "--json").failed(1).json
    missing = cli("skill", "validate", unique("no")).failed()
    assert "there is no skill" in missing.err and "slash" in missing.err
    cli("skill", "rm", name).ok()


# --- sessions that have skills ------------------------------------------------------------------


def test_sessions_with_skills(cli):
    one, two, name = unique("with"), unique("with"), unique()
    for skill in (one, two):
        cli("skill", "new", skill, "-f", "-", input=skill.encode()).ok()
    cli("create", name, "--skill", one).ok()
    assert one in cli("exec", name, "--", "cat", f"/workspace/.skills/{one}/SKILL.md").ok().out
    cli("exec", name, "--", "sh", "-c", "echo kept > f").ok()
    # The same session, whether or not what it has is named again.
    for options in (["run", "--session", name, "--skill", one], ["run", "--session", name, "--network", "off"],
                    ["exec", "--create", "--skill", one, name]):
        assert cli(*options, "--", "cat", "f").ok().out == "kept\n"
    # One more cannot be had without losing what is in it.
    for words in (["run", "--session", name, "--skill", two, "--", "true"], ["create", name, "--skill", two],
                  ["exec", "--create", "--skill", two, name, "--", "true"]):
        assert "mounts" in cli(*words).failed().err
    assert cli("exec", name, "--", "cat", "f").ok().out == "kept\n"
    cli("rm", name).ok()
    listed = cli("run", "--session", name, "--skill", one, "--skill", two, "--", "ls", "/workspace/.skills").ok()
    assert set(listed.out.split()) == {one, two}
    assert cli("exec", "--create", "--skill", two, name, "--", "ls", "/workspace/.skills").ok().out == listed.out
    assert "Read-only" in cli("exec", name, "--", "sh", "-c", f"echo > .skills/{one}/x").err
    cli("rm", name).ok()
    cli("skill", "rm", one, two).ok()


def test_sessions_with_skills_refuse(cli):
    name, missing = unique(), unique("no")
    result = cli("create", name, "--skill", missing).failed()
    assert missing in result.err and "box skill ls" in result.err and name not in cli.boxd.names()
    assert "--skill is for --session" in cli("run", "--skill", "x", "--", "true").failed().err
    assert "--create" in cli("exec", name, "--skill", "x", "--", "true").failed().err
    assert "the name is empty" in cli("create", name, "--skill", "").failed().err


# --- boxd goes away -----------------------------------------------------------------------------


def test_export_broken_off(user_box):
    directory = user_box.directory(0o777)
    catcher = Catcher(directory, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nPK and no more")
    (directory / "x.zip").write_text("old")
    for words in (["-o", directory / "x.zip"], ["-o", directory / "new.zip"], ["-o", "-"]):
        result = user_box.call("skill", "export", "x", *words, env={"BOX_URL": catcher.url}).failed()
        assert "in the middle" in result.err, result
    assert {path.name for path in directory.iterdir()} == {"x.zip", "catcher.sock"}
    assert (directory / "x.zip").read_text() == "old"


@pytest.mark.parametrize("read", [0, 5 * MIB, None])
def test_import_broken_off(user_box, read):
    """boxd goes before, while and after it is sent everything."""
    catcher = Catcher(user_box.directory(0o777), None, read)
    directory = package(user_box, "x", {"big": os.urandom(12 * MIB)})
    result = user_box.call("skill", "import", directory, env={"BOX_URL": catcher.url}).failed()
    assert result.err.startswith("box skill import: ") and result.out == "", result


def test_boxd_dies_while_one_edits(start_boxd):
    boxd = start_boxd()
    cli = Cli(boxd)
    name = unique("edit")
    cli("skill", "new", name, "-f", "-", input=b"before\n").ok()
    gone = f"! curl -s -o /dev/null --unix-socket {boxd.socket} http://localhost/healthz"
    killer = f'echo typed >> "$1"; kill -9 {boxd.process.pid}; for i in $(seq 200); do {gone} && break; sleep 0.05; done'
    result = edit(cli, script(cli.box, killer), name)
    assert result.returncode == 125 and "what you wrote is in" in result.err, result
    assert result.left[0].read_text().endswith("before\ntyped\n")
    boxd.process.wait()
    boxd.start()
    assert cli("skill", "show", name, "--json").ok().json["skill"]["instructions"] == "before\n"


def test_answers_that_make_no_sense(user_box):
    """A stranger at boxd's place crashes nothing."""
    directory = user_box.directory(0o777)
    answers = [b"", b"[]", b"{}", b'{"skills":7}', b'{"skills":[7,{"name":7},null]}', b'{"skill":[]}', b"\xff", b'{"problems":{}}']
    for number, answer in enumerate(answers):
        place = directory / str(number)
        place.mkdir()
        catcher = Catcher(place, created(answer))
        for words in (["ls"], ["ls", "--json"], ["show", "x"], ["new", "x"], ["rm", "x"], ["validate", "x"], ["edit", "x"]):
            result = user_box.call("skill", *words, env={"BOX_URL": catcher.url, "EDITOR": "true"})
            assert result.returncode in (0, 125), result


# --- whoever they are, and completion -----------------------------------------------------------


def test_both_identities(either):
    cli = Cli(either)
    name = unique("both")
    directory = package(cli.box, name, {"x": (b"x", 0o755)})
    cli("skill", "import", directory).ok()
    assert name in names(cli)
    assert cli("run", "--session", name, "--skill", name, "--", "cat", f".skills/{name}/x").ok().out == "x"
    cli("rm", name).ok()
    cli("skill", "rm", name).ok()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(cli, shell):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    name = unique("complete")
    directory = package(cli.box, name, {"notes.txt": b""})
    cli("skill", "import", directory).ok()
    completion = ROOT / "packaging" / "completion"
    programs = {
        "bash": f'source {completion}/box.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _box; printf "%s\\n" "${{COMPREPLY[@]}}"',
        # Its completion runs in an editor only: what it would add is printed instead.
        "zsh": (f'words=("$@"); CURRENT=$#; compadd() {{ [[ $1 == -a ]] && print -rl -- ${{(P)2}} || print -rl -- "$@" }}; '
                f'_describe() {{ print -rl -- ${{${{(P)4}}%%:*}} }}; _files() {{ print "<files $*>" }}; '
                f'_message() {{ }}; functions[b]="$(sed "s/^_box \\"\\$@\\"//" {completion}/_box)"; b; _box'),
    }

    def complete(*words):
        env = {**cli.box.environment(cli.env), "PATH": f"{cli.box.programs.box.parent}:/usr/bin:/bin"}
        found = subprocess.run([shell, "-c", programs[shell], shell, "box", *words], env=env, capture_output=True,
                               text=True, timeout=conftest.PATIENCE, cwd=directory)
        assert found.returncode == 0 and not found.stderr, found
        return set(found.stdout.split())

    assert "skill" in complete("")
    assert complete("skill", "") >= set(VERBS)
    assert complete("help", "skill", "") >= set(VERBS)
    assert name in complete("skill", "show", "") and name in complete("skill", "rm", "other", "")
    assert complete("skill", "edit", name, "") >= {"notes.txt", "SKILL.md"}
    assert complete("skill", "install", "--") >= {"--path", "--subdir", "--dry-run"}
    assert name in complete("create", "s", "--skill", "")
    assert name in complete("skill", "validate", "")
    cli("skill", "rm", name).ok()
