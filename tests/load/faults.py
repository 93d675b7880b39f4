# SPDX-License-Identifier: Apache-2.0
"""Full disks, no descriptors left, torn records and the like: boxd says what is wrong, goes on, and gets well."""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import time
from pathlib import Path

import host
from boxd import Daemon
from session import TALKER, Session, names
from wire import Broken, Client, Refused

FULL_KIB = 2048


class Scene:
    """A daemon with two sessions, one with a process, and the checks that every fault ends with."""

    def __init__(self, report, daemon, fault):
        self.report = report
        self.daemon = daemon
        self.fault = fault
        self.client = None

    def fail(self, text):
        self.report.fail(f"{self.fault}: {text}")

    def check(self, condition, text):
        if not condition:
            self.fail(text)
        return condition

    async def begin(self):
        self.client = Client(self.daemon.unix())
        self.one, self.two = Session(self.client, "one"), Session(self.client, "two")
        for session in (self.one, self.two):
            await session.create()
            await session.out(f"echo {session.name} > /workspace/f")
        await self.two.start("p", "perl", "-e", TALKER)

    def refused(self, response, statuses, what):
        """An error as every error is, with one of the statuses."""
        ok = response.status in statuses
        try:
            error = response.json["error"]
            ok = ok and bool(error["code"]) and len(error["message"]) > 10
        except (ValueError, KeyError):
            ok = False
        self.check(ok, f"{what} gave {response.status} {response.body[:300]}, not an error with one of {statuses}")
        return response.body[:200].decode(errors="replace")

    async def well(self, sessions=("one", "two")):
        """Everything works: the sessions that were there, their process, and a new one."""
        if not self.check(self.daemon.alive(), f"boxd ended: {self.daemon.process.returncode} {self.daemon.log_tail()}"):
            return
        self.client.close()
        try:
            for name in sessions:
                said = await Session(self.client, name).out("cat /workspace/f")
                self.check(said == f"{name}\n", f"the file of {name} holds {said!r}")
            if "two" in sessions:
                info = await self.two.process("p")
                self.check(info["status"] == "running", f"the process has ended: {info}")
            fresh = Session(self.client, "fresh")
            await fresh.create()
            await fresh.out("true")
            await fresh.put("/workspace/x", b"x" * 100000)
            await fresh.delete()
        except (Refused, Broken, AssertionError) as failure:
            self.fail(f"not well afterwards: {failure}")

    async def end(self):
        """Gently, and with nothing left."""
        if self.client:
            self.client.close()
        if self.daemon.alive():
            for text in self.daemon.stop() + host.left_after_stop(self.daemon):
                self.fail(text)
        for text in self.daemon.complaints()[:5]:
            self.fail(text)


def fill(path):
    """A file that takes all the room there is."""
    with open(path, "wb", buffering=0) as out:
        for size in (65536, 4096, 512, 1):
            with contextlib.suppress(OSError):
                while out.write(b"\0" * size):
                    pass


def own_tmpfs(daemon, *directories):
    """boxd in a mount namespace of its own, where each directory is a small file system in memory."""
    mounts = "".join(f'mkdir -p "{path}" && mount -t tmpfs -o size={FULL_KIB}k,mode=0700 none "{path}" && '
                     for path in directories)
    daemon.private = True
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", f'{mounts}exec "$@"', "sh"]


async def full_run_dir(scene):
    """No room for a record: nothing is made that could not be found again."""
    daemon = scene.daemon
    daemon.wrapper = own_tmpfs(daemon, daemon.run)
    daemon.start()
    await scene.begin()
    balloon = daemon.inside(daemon.run) / "balloon"
    fill(balloon)
    response = await scene.client.request("POST", "/v1/sessions", {"session_id": "three"})
    said = scene.refused(response, (507,), "create with a full run directory")
    scene.report.say(f"run directory full: {said}")
    listed = await names(scene.client)
    scene.check(set(listed) == {"one", "two"}, f"a session that could not be made is listed: {set(listed)}")
    # Sessions that are there do not need room.
    scene.check(await scene.one.out("echo on") == "on\n", "a command in a session that was there")
    process = await scene.client.request("POST", f"{scene.one.path}/processes", {"process_id": "q", "command": "cat"})
    # What is not written down would be lost by a restart.
    scene.refused(process, (507,), "a managed process with a full run directory")
    deleted = await scene.client.request("DELETE", f"{scene.one.path}/processes/q")
    scene.check(deleted.status in (200, 404), f"stopping it gave {deleted.status} {deleted.body[:200]}")
    balloon.unlink()
    await scene.well()


async def full_state_dir(scene):
    """No room for the audit log and kept output: commands go on."""
    daemon = scene.daemon
    daemon.wrapper = own_tmpfs(daemon, daemon.state)
    daemon.start()
    await scene.begin()
    balloon = daemon.inside(daemon.state) / "balloon"
    fill(balloon)
    for number in range(20):
        said = await scene.one.out(f"echo {number}; seq 20000 >&2")
        scene.check(said == f"{number}\n", f"a command said {said!r}")
    made = await scene.client.request("POST", "/v1/sessions", {"session_id": "three"})
    if made.status == 201:
        await Session(scene.client, "three").delete()
    else:
        scene.refused(made, (500, 503, 507), "create with a full state directory")
    balloon.unlink()
    await scene.well()


async def few_descriptors(scene):
    """The front has none left: those who are connected go on, the others wait or are told."""
    daemon = scene.daemon
    daemon.settings["user"] = "root"  # whose limits can be changed without a capability
    daemon.start()
    await scene.begin()
    had = resource.prlimit(daemon.front, resource.RLIMIT_NOFILE)
    used = len(host.fds(daemon.front))
    resource.prlimit(daemon.front, resource.RLIMIT_NOFILE, (used + 12, had[1]))
    others = []
    for number in range(40):
        with contextlib.suppress(Broken, OSError):
            others.append(await daemon.address(number).open())
    await asyncio.sleep(0.3)
    spent = cpu_seconds(daemon.front)
    statuses = {}
    for number in range(10):
        # On a connection that was there before. Each command needs pipes.
        try:
            response = await scene.client.request("POST", f"{scene.one.path}/exec", {"cmd": "echo x"})
            statuses[response.status] = statuses.get(response.status, 0) + 1
            if response.status != 200:
                scene.refused(response, (429, 500, 503), "a command without descriptors")
        except Broken:
            statuses["broken"] = statuses.get("broken", 0) + 1
    await asyncio.sleep(1)
    spun = cpu_seconds(daemon.front) - spent
    scene.report.say(f"front without descriptors: commands gave {statuses}; {spun:.2f} s of CPU in a second")
    scene.check(spun < 0.7, f"the front spins while it has no descriptors: {spun:.2f} s of CPU in about one second")
    for _, writer in others:
        writer.close()
    resource.prlimit(daemon.front, resource.RLIMIT_NOFILE, had)
    await asyncio.sleep(0.3)
    await scene.well()


def cpu_seconds(pid):
    fields = host.read(pid, "stat").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def few_descriptors_spawner(scene):
    """The spawner has none left: creating fails with a reason, all else goes on."""
    daemon = scene.daemon
    daemon.start()
    await scene.begin()
    had = resource.prlimit(daemon.spawner, resource.RLIMIT_NOFILE)
    used = len(host.fds(daemon.spawner))
    refusals = 0
    for room in range(24):
        resource.prlimit(daemon.spawner, resource.RLIMIT_NOFILE, (used + room, had[1]))
        response = await scene.client.request("POST", "/v1/sessions", {"session_id": "three"})
        if response.status == 201:
            await Session(scene.client, "three").delete()
        else:
            refusals += 1
            last = scene.refused(response, (500, 503, 507), f"create by a spawner with room for {room} descriptors")
        scene.check(await scene.one.out("echo on") == "on\n", "a command meanwhile")
    scene.report.say(f"spawner without descriptors: {refusals} of 24 refused: {last if refusals else ''}")
    resource.prlimit(daemon.spawner, resource.RLIMIT_NOFILE, had)
    await scene.well()


async def torn_records(scene):
    """A record that was cut off, one of garbage, an empty one: the others are taken over all the same, and what
    belonged to the torn ones is swept."""
    daemon = scene.daemon
    daemon.start()
    await scene.begin()
    torn = {"cut": lambda text: text[:len(text) // 2], "garbage": lambda text: os.urandom(500),
            "empty": lambda text: b"", "list": lambda text: b"[1,2,3]", "deep": lambda text: b"[" * 100000,
            "other": lambda text: text.replace(b'"version":1', b'"version":99')}
    for name in torn:
        await Session(scene.client, name).create()
    victims = {record["spec"]["session_id"]: key for key, record in daemon.records().items()}
    scene.client.close()
    daemon.kill(daemon.front)
    daemon.wait()
    for name, tear in torn.items():
        path = daemon.run / "sessions" / f"{victims[name]}.json"
        path.write_bytes(tear(path.read_bytes()))
    (daemon.run / "sessions" / "0123456789abcdef.json").symlink_to("/etc/passwd")
    (daemon.run / "sessions" / "fedcba9876543210.json").mkdir()
    daemon.start()
    began = time.monotonic()
    await scene.well()
    listed = set(await names(scene.client))
    scene.check(listed == {"one", "two"}, f"sessions after torn records: {listed}")

    def clean():
        known = {record["record"]["group"] for record in daemon.records().values() if record and record.get("record")}
        known |= host.ready_groups(daemon)
        return [path for path in host.groups(daemon) if os.path.basename(path) not in known and host.members(path)] \
            + [key for key in daemon.sockets() if key in {victims[name] for name in torn}]

    host.wait_until(lambda: not clean(), 5)
    scene.check(not clean(), f"left of sessions with torn records after {time.monotonic() - began:.0f} s: {clean()}")
    shutil.rmtree(daemon.run / "sessions" / "fedcba9876543210.json", ignore_errors=True)
    for path in (daemon.run / "sessions").iterdir():
        if path.suffix != ".json":
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()


async def group_killed(scene):
    """Everything in a session's groups is killed and the groups removed, by somebody else."""
    daemon = scene.daemon
    daemon.start()
    await scene.begin()
    victim = Session(scene.client, "victim")
    await victim.create()
    await victim.start("p", "perl", "-e", TALKER)
    under_way = asyncio.create_task(Session(Client(daemon.unix()), "victim").exec("sleep 30"))
    await asyncio.sleep(0.3)
    group = next(record["record"]["group"] for record in daemon.records().values()
                 if record["spec"]["session_id"] == "victim")
    began = time.monotonic()
    for path in host.groups(daemon):
        if os.path.basename(path) == group:
            await asyncio.to_thread(host.remove_group, path)
    try:
        result = await asyncio.wait_for(under_way, 10)
        # It may have been the first to be killed.
        scene.check(result["signal"] == "SIGKILL", f"a command in a session that was killed has a result: {result}")
    except Refused as refusal:
        scene.report.say(f"group removed: the command under way ended after {time.monotonic() - began:.1f} s: {refusal}")
        scene.refused(refusal.response, (404, 409, 410, 500, 503), "the command under way")
    except (asyncio.TimeoutError, Broken) as failure:
        scene.fail(f"the command under way in a session that was killed: {type(failure).__name__} {failure}")
    response = await scene.client.request("POST", f"{victim.path}/exec", {"cmd": "echo x"})
    scene.refused(response, (404, 409, 410, 503), "a command in a session that was killed")
    response = await scene.client.request("POST", "/v1/sessions", {"session_id": "victim"})
    scene.check(response.status == 201, f"making it anew gave {response.status} {response.body[:300]}")
    await scene.well()
    response = await scene.client.request("DELETE", victim.path)
    scene.check(response.status == 200, f"deleting it gave {response.status} {response.body[:300]}")


async def session_stopped(scene):
    """All processes of a session are stopped from outside: its commands time out, the others go on."""
    daemon = scene.daemon
    daemon.start()
    await scene.begin()
    group = next(record["record"]["group"] for record in daemon.records().values()
                 if record["spec"]["session_id"] == "one")
    stopped = set()
    for path in host.groups(daemon):
        if os.path.basename(path) == group:
            stopped |= host.members(path)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    other = Client(daemon.unix())
    waiting = asyncio.create_task(other.request("POST", f"{scene.one.path}/exec", {"cmd": "echo x", "timeout_sec": 2}))
    began = time.monotonic()
    scene.check(await scene.two.out("echo on") == "on\n", "another session meanwhile")
    try:
        response = await asyncio.wait_for(asyncio.shield(waiting), 20)
        scene.report.say(f"session stopped from outside: a command gave {response.status} after "
                         f"{time.monotonic() - began:.1f} s {response.body[:120]}")
    except asyncio.TimeoutError:
        scene.fail("a command with a time limit of 2 s in a session that was stopped has no answer after 20 s")
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    await asyncio.wait({waiting}, timeout=20)
    other.close()
    response = await scene.client.request("DELETE", scene.one.path)
    scene.check(response.status in (200, 404), f"deleting it gave {response.status} {response.body[:300]}")
    await scene.well(sessions=("two",))


async def clock_jump(scene):
    """The wall clock jumps an hour ahead and a day back: nothing is reaped, nothing hangs."""
    library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    if not library:
        scene.report.say("clock jump: SKIPPED, it needs libfaketime (Debian: faketime), which is not installed")
        return
    daemon = scene.daemon
    daemon.settings["session_ttl_sec"] = 600
    daemon.run.mkdir(mode=0o700)
    clock = daemon.run / "clock"  # where the front can still read it
    clock.write_text("+0\n")
    daemon.environment = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
                          "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1",
                          "ASAN_OPTIONS": "verify_asan_link_order=0"}
    try:
        daemon.start()
    except Exception as failure:
        scene.report.say(f"clock jump: SKIPPED, boxd does not start under libfaketime: {str(failure)[:200]}")
        return
    await scene.begin()
    for jump in ("+3600", "-86400", "+0"):
        clock.write_text(jump + "\n")
        under_way = asyncio.create_task(Session(Client(daemon.unix()), "two").exec("sleep 1; echo done"))
        await asyncio.sleep(1.5)
        result = await asyncio.wait_for(under_way, 20)
        scene.check(result["stdout"] == "done\n" and 900 < result["duration_ms"] < 5000,
                    f"a command over a jump of {jump} s: {result}")
        timed = await scene.one.exec("sleep 30", timeout_sec=1)
        scene.check(timed["status"] == "timed_out", f"a time-out after a jump of {jump} s: {timed}")
        seen = (await scene.one.info())["last_used_at"]
        scene.report.say(f"clock {jump} s: last_used_at {seen}, time-out after {timed['duration_ms']} ms")
        await scene.well()
    for path in Path("/dev/shm").glob(f"*faketime_s*_{daemon.process.pid}"):
        path.unlink()


async def gone_directory(scene):
    """Its run directory is emptied while it runs, as a careless service manager does."""
    daemon = scene.daemon
    daemon.start()
    await scene.begin()
    shutil.rmtree(daemon.run / "sessions")
    response = await scene.client.request("POST", "/v1/sessions", {"session_id": "three"})
    said = scene.refused(response, (500, 503, 507), "create without a directory for records")
    scene.report.say(f"records directory removed: {said}")
    scene.check(await scene.one.out("echo on") == "on\n", "a session that was there")
    for session in (scene.one, scene.two):
        response = await scene.client.request("DELETE", session.path)
        scene.check(response.status == 200, f"delete gave {response.status} {response.body[:200]}")
    (daemon.run / "sessions").mkdir(mode=0o700)


FAULTS = [full_run_dir, full_state_dir, few_descriptors, few_descriptors_spawner, torn_records, group_killed,
          session_stopped, clock_jump, gone_directory]


async def run(report):
    wanted = os.environ.get("LOAD_FAULTS", "").split()
    for fault in FAULTS:
        if wanted and fault.__name__ not in wanted:
            continue
        with Daemon("fault") as daemon:
            scene = Scene(report, daemon, fault.__name__)
            try:
                await asyncio.wait_for(fault(scene), 120)
                await scene.end()
            except Exception as failure:
                scene.fail(f"{type(failure).__name__}: {failure} {daemon.log_tail() if daemon.process else ''}")
        report.say(f"{fault.__name__}: done")
