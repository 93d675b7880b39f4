"""Skills in sessions: mounted below /workspace/.skills, by name, and by no other way."""

import pytest

from daemon import unique
from skillbox import Skills, sample_zip, skill_md, skills  # noqa: F401

VALIDATION = "BoxValidationError"


@pytest.fixture
def two(skills):
    """A store with skills that have something to run and to read."""
    skills.send(sample_zip("csv-report")).ok(201)
    skills.send(sample_zip("数据清洗"), "?filename=x.zip").ok(201)
    return skills


def run(store, cmd, **spec):
    return store.client.post("/v1/exec", {"cmd": cmd, **spec})


def test_mounted_by_name(two, daemon):
    session = daemon.session(skills=["csv-report", "数据清洗"])
    assert session.out("ls -1 .skills") == "csv-report\n数据清洗\n"
    assert session.out("python3 .skills/csv-report/scripts/report.py .skills/csv-report/references/examples/small.csv") == (
        "item text hammer nail -\nprice number 0.05 12.5 12.55\n")
    session.out("printf 'b\\na\\n\\nb\\n' > in.csv && sh .skills/数据清洗/scripts/清理.sh in.csv")
    assert session.out("cat 输出/in.csv") == "b\na\n"
    mounts = session.info()["extra_mounts"]
    assert sorted((mount["mount_path"], mount["mode"]) for mount in mounts) == [
        ("/workspace/.skills/csv-report", "ro"), ("/workspace/.skills/数据清洗", "ro")]
    session.delete().ok()


def test_read_only(two, daemon):
    session = daemon.session(skills=["csv-report"])
    for cmd in ("echo x >> .skills/csv-report/SKILL.md", "touch .skills/csv-report/new", "rm .skills/csv-report/SKILL.md",
                "mv .skills/csv-report .skills/y", "chmod 777 .skills/csv-report/SKILL.md", "mount -o remount,rw .skills/csv-report"):
        assert session.exec(cmd)["exit_code"] != 0, cmd
    assert two.get("csv-report").status == 200
    session.delete().ok()


def test_flat_exec(two):
    name = unique()
    result = run(two, "ls .skills", session_id=name, skills=["csv-report"]).ok()
    assert result["stdout"] == "csv-report\n" and result["session_id"] == name
    # As it is: the same session, and it says so by being the same files.
    assert run(two, "touch kept; ls .skills", session_id=name, skills=["csv-report"]).ok()["exit_code"] == 0
    assert run(two, "ls", session_id=name, skills=["csv-report"]).ok()["stdout"] == "kept\n"
    assert run(two, "ls", session_id=name, skills=["csv-report", "csv-report"]).ok()["stdout"] == "kept\n"
    two.client.delete(f"/v1/sessions/{name}").ok()


def test_another_list_makes_the_session_anew(two):
    name = unique()
    run(two, "touch kept", session_id=name, skills=["csv-report"]).ok()
    result = run(two, "ls; ls .skills", session_id=name, skills=["csv-report", "数据清洗"]).ok()
    assert result["stdout"] == "csv-report\n数据清洗\n"
    assert run(two, "touch kept; ls .skills", session_id=name).ok()["stdout"] == "csv-report\n数据清洗\n"
    run(two, "true", session_id=name, skills=[], recreate=False).ok()
    assert run(two, "ls", session_id=name).ok()["stdout"] == "kept\n"
    assert run(two, "ls -A", session_id=name, skills=[]).ok()["stdout"] == ""
    two.client.delete(f"/v1/sessions/{name}").ok()


def test_spec_of_an_exec(two):
    name = unique()
    body = {"cmd": "ls .skills", "spec": {"session_id": name, "skills": ["csv-report"]}}
    assert two.client.post(f"/v1/sessions/{name}/exec", body).ok()["stdout"] == "csv-report\n"
    two.client.delete(f"/v1/sessions/{name}").ok()


def test_skills_that_are_none(two, daemon):
    for wanted in (["none"], ["csv-report", "none"], ["../csv-report"], [""], ["/etc"], ["."], ["skill-upload"]):
        answer = daemon.post("/v1/sessions", {"session_id": unique(), "skills": wanted})
        assert answer.status in (400, 404), answer
        answer.error(answer.status, VALIDATION)
        answer = run(two, "true", session_id=unique(), skills=wanted)
        assert answer.status in (400, 404), answer
    for wanted in ("csv-report", [5], {"a": 1}, [None], ["a\0b"], ["x"] * 100):
        run(two, "true", session_id=unique(), skills=wanted).error(400, VALIDATION)
    assert daemon.names() == []


def test_the_client_leaves_before_they_are_found(two, daemon):
    for _ in range(10):
        connection = daemon.client.connection()
        daemon.client.send(connection, "POST", "/v1/exec", json={"session_id": unique(), "cmd": "true", "skills": ["csv-report"]})
        connection.close()
    assert run(two, "true", session_id="last", skills=["csv-report"]).ok()["exit_code"] == 0
    for name in daemon.names():
        daemon.delete(f"/v1/sessions/{name}").ok()


# --- the store by other ways ------------------------------------------------------------------


def test_the_store_is_no_host_path(start_boxd):
    """What is mounted by its name cannot be mounted by its path, nor by a link that a session has made."""
    boxd = start_boxd(start=False)
    root = boxd.box.directory(0o777)
    boxd.configure({"mounts": {"allowed_roots": [str(root)]}})
    skills = Skills(boxd.start())
    skills.create("s", description="secret").ok(201)
    session = boxd.session(host_path=str(root))
    session.out(f"ln -s {skills.root} store && ln -s {skills.root}/s package && ln -s .. up && ln -s / all")
    named = [skills.root, skills.root / "s", f"{skills.root}/../skills", boxd.state_dir, root / "store", root / "package",
             f"{root}/all{skills.root}", root / "up", f"{root}/store/s"]
    for path in map(str, named):
        for spec in ({"host_path": path}, {"extra_mounts": [{"host_path": path, "mount_path": "/data", "mode": "rw"}]}):
            answer = boxd.post("/v1/sessions", {"session_id": unique(), **spec})
            answer.error(400, VALIDATION)
    assert boxd.session(host_path=str(root), skills=["s"]).out("cat .skills/s/SKILL.md").count("secret") == 1


def test_in_a_mounted_workspace(start_boxd):
    """The mount point is made in the directory of the host, by its owner, and nothing is written through it."""
    boxd = start_boxd(start=False)
    root = boxd.box.directory(0o777)
    boxd.configure({"mounts": {"allowed_roots": [str(root)]}})
    skills = Skills(boxd.start())
    skills.send(sample_zip("csv-report")).ok(201)
    (root / "mine").mkdir(mode=0o777)
    (root / "mine").chmod(0o777)
    (root / "mine" / "file").write_text("of the host")
    session = boxd.session(host_path=str(root / "mine"), skills=["csv-report"])
    assert session.out("cat file; ls .skills/csv-report") == "of the hostSKILL.md\nreferences\nscripts\n"
    session.out("echo new > made")
    assert (root / "mine" / "made").read_text() == "new\n"
    assert session.exec("echo x > .skills/csv-report/x")["exit_code"] != 0
    session.delete().ok()
    assert list((root / "mine" / ".skills" / "csv-report").iterdir()) == []
    # A link where the mount point should be leads nowhere.
    (root / "trap").mkdir(mode=0o777)
    (root / "trap").chmod(0o777)
    (root / "trap" / ".skills").symlink_to("/etc")
    answer = boxd.post("/v1/sessions", {"session_id": unique(), "host_path": str(root / "trap"), "skills": ["csv-report"]})
    assert answer.status >= 400 and "symbolic link" in answer.text, answer


def test_writable_by_configuration(start_boxd):
    boxd = start_boxd(config={"skills": {"writable": True}})
    skills = Skills(boxd)
    skills.create("s", description="old").ok(201)
    session = boxd.session(skills=["s"])
    session.out("sed -i s/old/new/ .skills/s/SKILL.md && mkdir -p .skills/s/a/b && echo x > .skills/s/a/b/c")
    assert skills.get("s").ok()["skill"]["description"] == "new"
    assert skills.client.get(skills.file("s", "a/b/c")).body == b"x\n"
    assert [mount["mode"] for mount in session.info()["extra_mounts"]] == ["rw"]
    # And what a session leaves there can be taken away again.
    session.out("cd .skills/s && for i in $(seq 60); do mkdir d; cd d; done; ln -s / root; mkfifo fifo; chmod 000 .")
    session.delete().ok()
    skills.delete("s").ok()
    assert skills.list() == []


@pytest.mark.parametrize("fill", ["mkdir d && cd d && seq 10001 | xargs touch",
                                  "seq 1001 | xargs mkdir && for i in $(seq 1001); do : > $i/SKILL.md; done"])
def test_a_session_fills_a_package(start_boxd, fill):
    """Then there is more than can be searched: but all can be deleted, and that ends it."""
    boxd = start_boxd(config={"skills": {"writable": True}})
    skills = Skills(boxd)
    for name in ("a", "b", "c"):
        skills.create(name).ok(201)
    session = boxd.session(skills=["a"])
    session.out(f"cd .skills/a && rm SKILL.md && {fill}")
    skills.client.get("/v1/skills").error(413)
    skills.create("d").error(413)
    skills.get("b").ok()
    skills.delete("b").ok()
    skills.delete("b").error(404, VALIDATION)
    session.delete().ok()
    skills.delete("a").ok()
    assert skills.names() == ["c"]


def test_a_deleted_skill_goes_on_in_sessions(two, daemon):
    """Deleting moves it aside: the session has what it had, or nothing; the next one has an error."""
    session = daemon.session(skills=["csv-report"])
    two.delete("csv-report").ok()
    assert session.exec("ls .skills/csv-report; true")["exit_code"] == 0
    daemon.post("/v1/sessions", {"session_id": unique(), "skills": ["csv-report"]}).error(404, VALIDATION, "csv-report")
    session.delete().ok()


def test_another_root(start_boxd):
    """local.skills_root, below host_root, also by way of a link."""
    boxd = start_boxd(start=False)
    host = boxd.box.directory(0o777)
    (host / "real").mkdir(mode=0o777)
    (host / "real").chmod(0o777)
    (host / "by-link").symlink_to("real")
    boxd.configure({"local": {"host_root": str(host), "skills_root": "by-link"}, "mounts": {"allowed_roots": [str(host)]}})
    skills = Skills(boxd.start())
    skills.root = host / "real"
    skills.create("s", instructions="here").ok(201)
    assert (host / "real" / "s" / "SKILL.md").exists()
    assert boxd.session(skills=["s"]).out("cat .skills/s/SKILL.md").endswith("here")
