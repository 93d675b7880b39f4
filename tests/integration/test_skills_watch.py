"""A store with many skills: the front, confined as it is, watches it, and sees what others do there."""

import os
import shutil

from skillbox import Skills

COUNT = 40


def inotify_descriptors(pid):
    links = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            pass
    return sum("inotify" in link for link in links)


def put(root, name, text="Do it."):
    directory = root / name
    directory.mkdir(exist_ok=True)
    (directory / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {text}\n---\n")


def test_changes_behind_its_back(start_boxd):
    boxd = start_boxd()
    skills = Skills(boxd)
    assert skills.list() == []
    before = inotify_descriptors(boxd.pid)
    for index in range(COUNT):
        put(skills.root, f"s{index}")
    for _ in range(4):
        assert len(skills.list()) == COUNT
    assert inotify_descriptors(boxd.pid) == before + 1
    put(skills.root, "s3", "Changed.")
    assert skills.get("s3").ok()["skill"]["description"] == "Changed."
    put(skills.root, "new")
    assert "new" in skills.names()
    shutil.rmtree(skills.root / "s5")
    assert "s5" not in skills.names()
    skills.create("made", description="By boxd.").ok(201)
    assert "made" in skills.names()
    skills.delete("made").ok()
    assert "made" not in skills.names()
    (skills.root / "s7" / "requirements.txt").write_text("")
    assert skills.get("s7").ok()["skill"]["python_project"] is True
    os.rename(skills.root / "s9", skills.root / "moved")
    assert skills.get("s9").ok()["skill"]["package_root"].endswith("/moved")
    assert inotify_descriptors(boxd.pid) == before + 1
