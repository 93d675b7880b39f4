"""The skill store over time: quotas, many clients at once, those that leave, stops and crashes."""

import http.client
import random
import signal
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

import hostview
from conftest import PATIENCE
from skillbox import Skills, skill_md, skills, zip_of  # noqa: F401

MIB = 1 << 20
VALIDATION = "BoxValidationError"
NOISE = random.Random(7).randbytes(2 * MIB)


def large(name, size=MIB):
    return zip_of({"SKILL.md": skill_md(name), "data": NOISE[:size]}, zipfile.ZIP_STORED)


# --- quotas -----------------------------------------------------------------------------------


def test_quota(start_boxd):
    """What does not fit is refused, whichever way it comes, and nothing of it stays; what is deleted makes room."""
    boxd = start_boxd(config={"skills": {"quota_mb": 3}})
    skills = Skills(boxd)
    for name in ("one", "two"):
        skills.send(large(name, MIB + 1000), f"?filename={name}.zip").ok(201)
    before = skills.tree()
    full = skills.send(large("three", 2 * MIB))
    full.error(413, VALIDATION, "full")
    assert skills.send(large("three", 2 * MIB), verb="preview").status == 413
    skills.create("big", instructions="x" * (MIB - 100)).error(413, VALIDATION, "full")
    assert skills.tree() == before
    skills.client.put(skills.file("one", "more"), NOISE[:MIB]).error(413, VALIDATION, "full")
    assert skills.tree() == before
    skills.delete("two").ok()
    skills.client.put(skills.file("one", "more"), NOISE[:MIB]).ok()
    # A file that is replaced needs room for the new one while the old one is there.
    skills.client.put(skills.file("one", "more"), b"less").ok()
    skills.send(large("three", MIB)).ok(201)
    assert skills.names() == ["one", "three"]


def test_quota_by_reload(start_boxd):
    boxd = start_boxd(config={"skills": {"quota_mb": 1}})
    skills = Skills(boxd)
    skills.send(large("one")).error(413, VALIDATION)

    def reload(quota):
        boxd.configure({"skills": {"quota_mb": quota}})
        before = boxd.log().count("reloaded")
        boxd.send(signal.SIGHUP)
        assert hostview.wait_until(lambda: boxd.log().count("reloaded") > before, PATIENCE), boxd.log()

    reload(4)
    skills.send(large("one")).ok(201)
    reload(1)
    skills.create("small").error(413, VALIDATION)
    assert skills.names() == ["one"], "what is there stays"
    reload(0)
    skills.send(large("two", 2 * MIB), "?filename=two.zip").ok(201)


# --- many at once -----------------------------------------------------------------------------


def test_many_writers_and_readers(skills):
    """One after the other in the store, each with its own answer; readers see whole skills only."""
    wanted = {f"skill-{i}" for i in range(40)}
    halves = []
    done = threading.Event()

    def read():
        while not done.is_set():
            for skill in skills.list():
                if not skill["description"].startswith("of skill-") or not skill["instructions"]:
                    halves.append(skill)

    def write(name):
        skills.create(name, description=f"of {name}", instructions="x" * 5000).ok(201)
        skills.client.put(skills.file(name, "file"), name.encode()).ok()
        return skills.update(name, instructions=f"changed {name}").ok()["skill"]["instructions"]

    with ThreadPoolExecutor(8) as pool:
        reader = pool.submit(read)
        texts = list(pool.map(write, sorted(wanted)))
        done.set()
        reader.result()
    assert not halves, halves[:1]
    assert sorted(text.split()[1] for text in texts) == sorted(wanted) and set(skills.names()) == wanted


def test_the_same_skill_at_once(skills):
    """Of many who create it, one does; of many who delete it, one does."""
    with ThreadPoolExecutor(16) as pool:
        created = [answer.status for answer in pool.map(lambda _: skills.create("race"), range(16))]
        assert sorted(created) == [201] + [409] * 15
        deleted = [answer.status for answer in pool.map(lambda _: skills.delete("race"), range(16))]
        assert sorted(deleted) == [200] + [404] * 15


def test_more_than_may_wait(skills):
    """With more under way than there is room for, some are sent away with 429, and nobody without an answer."""
    data = large("wide", 2 * MIB)
    connections = [skills.client.connection() for _ in range(150)]
    for connection in connections:
        skills.client.send(connection, "POST", "/v1/skills/preview", data, {"Content-Type": "application/zip"})
    answers = [connection.getresponse() for connection in connections]
    seen = [answer.status for answer in answers]
    for answer in answers:
        answer.read()
        assert (answer.headers["Retry-After"] is not None) == (answer.status == 429)
    for connection in connections:
        connection.close()
    assert set(seen) <= {200, 429} and seen.count(200) > 3, seen
    assert skills.create("after").status == 201


def test_clients_that_leave(skills):
    """In the middle of an upload, or of the work; the work is done, and the next ones are served."""
    data = large("left", 2 * MIB)
    for index in range(12):
        connection = skills.client.connection()
        if index % 2:
            skills.client.send(connection, "POST", "/v1/skills/preview", data, {"Content-Type": "application/zip"})
        else:
            connection.putrequest("POST", "/v1/skills/install")
            connection.putheader("Content-Type", "multipart/form-data; boundary=b")
            connection.putheader("Content-Length", str(len(data)))
            connection.endheaders()
            connection.send(data[: len(data) // 2])
        connection.close()
    assert skills.list() == []
    assert hostview.wait_until(lambda: skills.tree() == [], PATIENCE), skills.tree()
    skills.create("after").ok(201)


# --- stops and crashes ------------------------------------------------------------------------


def test_stop_while_it_works(start_boxd):
    """A stop in the middle of installs: what was answered with 201 is there, whole."""
    boxd = start_boxd()
    skills = Skills(boxd)
    for turn in range(5):
        answers = {}
        with ThreadPoolExecutor(6) as pool:
            def work(index):
                name = f"t{turn}-{index}"
                try:
                    answers[name] = skills.send(large(name), f"?filename={name}.zip").status
                except OSError:
                    answers[name] = None

            for index in range(6):
                pool.submit(work, index)
            boxd.send(signal.SIGTERM)
        assert boxd.wait() == 0
        assert set(answers.values()) <= {201, 503, None}, answers
        boxd.start()
        found = {skill["name"]: skill for skill in skills.list()}
        for name, status in answers.items():
            assert name in found or status != 201, (answers, list(found))
        for skill in found.values():
            assert (skills.root / skill["package_root"] / "data").stat().st_size == MIB
        skills.clear()
    assert skills.tree() == []


TWO = zip_of({f"{name}/{path}": content for name in ("one", "two") for path, content in
              {"SKILL.md": skill_md(name), **{f"d{i}/f": NOISE[: 40_000 + i] for i in range(12)}}.items()}, zipfile.ZIP_STORED)
FORM = (b"--b\r\nContent-Disposition: form-data; name=file; filename=p.zip\r\n\r\n" + TWO +
        b"\r\n--b\r\nContent-Disposition: form-data; name=source_path\r\n\r\none"
        b"\r\n--b\r\nContent-Disposition: form-data; name=source_path\r\n\r\ntwo\r\n--b--\r\n")
FILES = 13


def whole(skills, name):
    root = skills.root / f"p-{name}-upload"
    return sum(1 for path in root.rglob("*") if path.is_file()) == FILES


def install(skills):
    return skills.client.post("/v1/skills/install", body=FORM, headers={"Content-Type": "multipart/form-data; boundary=b"})


def delete(skills):
    return skills.delete("one")


def cut_off(work, skills):
    """A request that may never be answered."""
    try:
        work(skills)
    except (OSError, http.client.HTTPException):
        pass


@pytest.mark.parametrize("work", [install, delete], ids=lambda work: work.__name__)
def test_kill_9(start_boxd, work):
    """25 times each: killed at some moment of an install of two skills, or of a deletion. Then there are both of them or
    none, whole, and the store works."""
    boxd = start_boxd()
    skills = Skills(boxd)
    dice = random.Random(work.__name__)
    allowed = ([], ["one", "two"]) if work is install else (["two"], ["one", "two"])
    took = 0.02
    for turn in range(26):
        if work is delete:
            install(skills).ok(201)
        began = time.monotonic()
        if turn == 0:  # how long it takes here, so that the kills come in the middle of it
            assert work(skills).status in (200, 201)
            took = time.monotonic() - began
        else:
            worker = threading.Thread(target=cut_off, args=(work, skills))
            worker.start()
            time.sleep(dice.random() * took)
            boxd.kill9()
            worker.join(PATIENCE)
            boxd.start()
        names = skills.names()
        assert names in allowed, names
        for name in names:
            assert whole(skills, name), skills.tree()
        # The next change takes away whatever a crash has left.
        skills.create("next").ok(201)
        skills.clear()
        assert skills.tree() == []
