# SPDX-License-Identifier: Apache-2.0
"""The skill store across kill -9: whatever moment it comes at, what is seen afterwards is the store before or after the
call that was under way, every skill in it whole, and nothing left over."""

import io
import json
import random
import subprocess
import time
import zipfile

import pytest
from conftest import BUILD, PATIENCE

ROUNDS = 100
SKILLS = [f"skill-{i}" for i in range(5)]
FILES = {f"files/{i}.txt": f"{i}\n" * (i * 300) for i in range(8)}


class Store:
    def __init__(self, root):
        self.process = subprocess.Popen([BUILD / "tests" / "skill-verdict", root], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def send(self, op, **arguments):
        self.process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def answers(self):
        """What it still said, to the end."""
        return [json.loads(line) for line in self.process.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]

    def call(self, op, **arguments):
        self.send(op, **arguments)
        return json.loads(self.process.stdout.readline())["ok"]

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0
        self.process.stdout.close()


@pytest.fixture
def archive(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as made:
        for name in SKILLS:
            made.writestr(f"pack/{name}/SKILL.md", f"---\nname: {name}\n---\nDo it.\n")
            for path, content in FILES.items():
                made.writestr(f"pack/{name}/{path}", content)
    path = tmp_path / "pack.zip"
    path.write_bytes(out.getvalue())
    return path


def calls(archive, seen):
    """What one round asks for, and what is to be seen after each; it begins with what the last one left."""
    rest = sorted(seen)
    for name in rest:
        seen = seen - {name}
        yield ("delete", {"name": name}), seen
    yield ("install", {"archive": str(archive), "filename": "pack.zip", "source_paths": SKILLS}), set(SKILLS)
    for name in SKILLS:
        seen = set(SKILLS[SKILLS.index(name) + 1 :])
        yield ("delete", {"name": name}), seen


def check_whole(store, skill):
    entries = store.call("files", name=skill["name"], path="files")["entries"]
    assert {entry["path"]: entry["size"] for entry in entries} == {path: len(text) for path, text in FILES.items()}


def test_kill(tmp_path, archive):
    maker = random.Random(5)
    root = tmp_path / "root"
    seen = set()
    counts = {"before": 0, "after": 0, "left": 0}
    for _ in range(ROUNDS):
        plan = list(calls(archive, seen))
        store = Store(root)
        store.call("list")
        for (op, arguments), _after in plan:
            store.send(op, **arguments)
        time.sleep(maker.random() * 0.05)
        store.process.kill()
        answers = store.answers()
        store.process.wait(timeout=PATIENCE)
        assert all("ok" in answer for answer in answers), answers
        store.process.stdout.close()
        try:
            store.process.stdin.close()
        except BrokenPipeError:
            pass

        done = len(answers)
        states = [seen] + [after for _call, after in plan]
        counts["left"] += any(entry.name.startswith(".boxd-") for entry in root.iterdir())
        store = Store(root)
        skills = store.call("list")
        now = {skill["name"] for skill in skills}
        assert len(now) == len(skills) and now in states[done : done + 2], (done, now, states)
        for skill in skills:
            check_whole(store, skill)
        assert not [entry for entry in root.iterdir() if entry.name.startswith(".boxd-")]
        store.close()
        counts["before" if now == states[done] else "after"] += 1
        seen = now
    # It did come in the middle of things.
    assert counts["left"] > ROUNDS / 20, counts
