"""A thousand sandboxes created and ended, a hundred of them by kill -9: nothing is left over.

Looked at before and after: mounts, cgroups, links, packet filter tables, loop devices, processes,
files in /run/boxd, /tmp and /var/tmp.
"""

import collections
import os
import random
import shutil
import signal
import threading
import time

import pytest

import hostview
import netlab
from conftest import ROOT, SLOWNESS, VM

COUNT = 60 if VM else 1000
KILLED = 12 if VM else 100
WORKERS = 2 if VM else 6


class Jobs:
    """Works through a list with a few threads."""

    def __init__(self, work, items):
        self.queue = collections.deque(items)
        self.failures = []
        self.work = work
        self.threads = [threading.Thread(target=self._loop) for _ in range(WORKERS)]

    def _loop(self):
        while True:
            try:
                item = self.queue.popleft()
            except IndexError:
                return
            try:
                self.work(item)
            except BaseException as failure:  # an assertion, or pytest's own way to fail
                self.failures.append(f"{item}: {failure}")

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        assert not self.failures, f"{len(self.failures)} failed, the first: {self.failures[0]}"


def settled(box, before):
    """What is left, once it has had a moment to go."""
    hostview.wait_until(lambda: not hostview.more_than(before, box.programs.box), 10 * SLOWNESS, 0.2)
    return hostview.more_than(before, box.programs.box)


def kinds(box, directory):
    """Ways to run a sandbox, by weight."""
    plain = [[], [], [], ["--writable"], ["--mount", f"{directory}:/workspace"], ["--json"],
             ["--ro-path", str(directory)], ["--seccomp", "strict"]]
    if box.root:
        plain += [["--workspace-quota", "8M"]]
    return plain


def run_one(box, options):
    result = box.run(*options, "--", "sh", "-c", "echo x > /tmp/x; (sleep 100 &); exit 3")
    assert result.returncode == 3, result


def kill_one(box, options, delay):
    """Starts one and kills box after a moment: while it is made, while it runs, while it ends."""
    process = box.popen(["run", *options, "--", "sh", "-c", "sleep 0.05"])
    time.sleep(delay)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGKILL, 0)


def test_a_thousand_sandboxes(box):
    """Half for each identity: created, run, ended, in every way; some killed at random moments."""
    directory = box.directory()
    chance = random.Random(20240131)
    ways = kinds(box, directory)
    before = hostview.snapshot()
    jobs = []
    for number in range(COUNT // 2):
        killed = number % (COUNT // KILLED) == 0
        jobs.append((killed, chance.choice(ways), chance.uniform(0, 0.08 * SLOWNESS)))

    def work(job):
        killed, options, delay = job
        if killed:
            kill_one(box, options, delay)
        else:
            run_one(box, options)

    Jobs(work, jobs).run()
    left = settled(box, before)
    # A box that was killed together with its spawner at the wrong moment is cleared up by the next.
    if left:
        box.run("--", "true").ok()
        left = settled(box, before)
    assert not left, left


def test_networks(root_box, tmp_path_factory):
    """The same with the network on: links and tables of the host that box was given."""
    if not shutil.which("nft"):
        pytest.skip("nft is not installed")
    count = 10 if VM else 40
    chance = random.Random(7)
    with netlab.Lab(tmp_path_factory.mktemp("lab")) as lab:
        before = hostview.snapshot()
        root_box.wrapper = lab.wrapper
        jobs = [(number % 4 == 0, chance.uniform(0.02, 0.15 * SLOWNESS)) for number in range(count)]

        def work(job):
            killed, delay = job
            if killed:
                kill_one(root_box, ["--network", "on"], delay)
            else:
                run_one(root_box, ["--network", "on"])

        Jobs(work, jobs).run()
        assert hostview.wait_until(lambda: not lab.links() and not lab.tables(), 10 * SLOWNESS), \
            (lab.links(), lab.tables())
        left = settled(root_box, before)
        assert not left, left


def test_failures_leave_nothing(box):
    """Neither do runs that are refused half-way."""
    directory = box.directory()
    os.symlink("/nowhere", directory / "link")
    before = hostview.snapshot()
    attempts = [
        ["--mount", "/etc:/workspace"],
        ["--mount", f"{directory}:/workspace", "--mount", f"{directory}:/workspace/link/x"],
        ["--ro-path", "/no/such"],
        ["--network", "on", "--mount", "/no/such:/data"],
        ["--workdir", "/proc/nowhere"],
        ["--env-file", "/no/such"],
    ]
    if box.root:
        attempts.append(["--workspace-quota", "8M", "--mount", "/no/such:/data"])
    for options in attempts:
        assert box.run(*options, "--", "true").returncode in (125, 126, 127), options
    assert box.run("--", "no-such-program").returncode == 127
    left = settled(box, before)
    assert not left, left
