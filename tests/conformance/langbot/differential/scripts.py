# SPDX-License-Identifier: Apache-2.0
"""The table of scripts, and words they share. A script is a coroutine that takes a Pair and performs steps."""

import listed

SCRIPTS = []


class Script:
    def __init__(self, run, config):
        self.run, self.name, self.config = run, f"{run.__module__.removeprefix('script_')}.{run.__name__}", config


def script(since="0", until="9", config=None):
    """For versions in [since, until). With a `config`, the script has two servers of its own, configured so; else it
    shares them with others, and is to leave no session."""
    def number(text):
        return tuple(int(part) for part in text.split("."))

    def register(run):
        if number(since) <= listed.NUMBER < number(until):
            SCRIPTS.append(Script(run, config))
        return run

    return register


def exec_of(cmd, session="s", **more):
    return {"session_id": session, "cmd": cmd, **more}


async def run(pair, cmd, session="s", differs=None, at=None, **more):
    """Runs a command in both."""
    return await pair.call("box_exec", exec_of(cmd, session, **more), differs=differs, at=at)
