# SPDX-License-Identifier: Apache-2.0
"""Short random sequences of actions on a few names, the same on both sides. A sequence is made from its number alone: what
fails is repeated by `-k` with the number of its block.

What is known to differ is not in them: time-outs, looking at what is being made or deleted, images, odd names."""

import asyncio
import random

import pytest

import listed
from script_processes import SLEEP, ask, start
from scripts import exec_of

SEQUENCES = 500
BLOCK = 50
STEPS = (3, 8)
NAMES = ("a", "b", "c")
COMMANDS = (
    "true", "exit 3", "echo x >> f; wc -l < f", "cat f 2>/dev/null", "rm -f f", "echo e >&2; echo o", "echo \"[$A]\"",
    "printf ' x \\n\\n'", "kill -9 $$", "ls -1A", "mkdir -p d; cd d; pwd", "printf '\\377'", "[ -e f ]",
)
SPECS = ({}, {}, {}, {}, {"memory_mb": 64}, {"persistent": True}, {"cpus": 0.5}, {"read_only_rootfs": False}, {"cpus": "1"})
BAD = ({"memory_mb": 1}, {"network": "x"}, {"cmd": None}, {"timeout_sec": 0}, {"session_id": " "}, {"workdir": "x"}, {"env": []})
COUNTS = ["data.managed_processes"]  # of box_status, which 0.5's runtime does not fill in


def pick(rng):
    """(action, data, what is ignored)"""
    name, process = rng.choice(NAMES), rng.choice(("default", "p"))
    spec = {"session_id": name, **rng.choice(SPECS)}
    kind = rng.choices(("exec", "create", "get", "list", "delete", "start", "look", "stop", "status", "wrong", "strange", "shutdown"),
                       (30, 12, 10, 6, 10, 8, 7, 6, 4, 5, 1, 1))[0]
    if kind == "exec":
        env = {"env": {"A": str(rng.randrange(9))}} if rng.random() < 0.3 else {}
        workdir = {"workdir": f"/workspace/{rng.choice('uv')}"} if rng.random() < 0.2 else {}
        return "box_exec", {**spec, "cmd": rng.choice(COMMANDS), **env, **workdir}, ()
    if kind == "wrong":
        return "box_exec", {**exec_of("echo never", session=name), **rng.choice(BAD)}, ()
    return {
        "create": ("box_create_session", spec, ()),
        "get": ("box_get_session", {"session_id": name}, ()),
        "list": ("box_get_sessions", {}, ()),
        "delete": ("box_delete_session", {"session_id": name}, ()),
        "start": ("box_start_managed_process", start(name, process_id=process, env={"K": "v"}, **SLEEP), ()),
        "look": ("box_get_managed_process", ask(name, process), ()),
        "stop": ("box_stop_managed_process", ask(name, process), ()),
        "status": ("box_status", {}, COUNTS if listed.TENANTS else ()),
        "strange": ("box_nothing", {"session_id": name}, ()),
        "shutdown": ("box_shutdown", {}, ()),
    }[kind]


async def perform(pair, seed):
    rng = random.Random(f"{listed.VERSION} {seed}")
    pair.workspace, pair.generation = f"random {seed}", 1
    done = []
    try:
        for _ in range(rng.randint(*STEPS)):
            if listed.TENANTS and rng.random() < 0.05:
                pair.generation = max(1, pair.generation + rng.choice((-1, 1, 1)))
            action, data, ignore = pick(rng)
            if action == "box_shutdown" and listed.NUMBER < (0, 4, 17):
                continue  # 0.4.2's keeps what is persistent
            done.append((pair.generation, action, data))
            await pair.call(action, data, ignore=ignore)
    except AssertionError as error:
        steps = "\n".join(map(str, done))
        raise AssertionError(f"sequence {seed}, the last of:\n{steps}\n{error}") from None
    pair.generation += 1_000  # whatever it was, this is not lower
    await pair.clear()


@pytest.mark.parametrize("first", range(0, SEQUENCES, BLOCK))
def test_random(first, shared_pair):
    async def perform_all():
        await shared_pair.connect()
        try:
            for seed in range(first, first + BLOCK):
                await perform(shared_pair, seed)
        finally:
            await shared_pair.disconnect()

    asyncio.run(perform_all())
