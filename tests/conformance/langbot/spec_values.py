# SPDX-License-Identifier: Apache-2.0
"""Random values for LangBot's models: a good one of each kind, with some fields taken away or made something else,
from what is good, what is nearly good, and what is anything."""

import copy
import string

SPACES = [" ", "\t", "\n", "\x0b", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f",
          "\u3000", "\u200b", "\ufeff", ""]

ANYTHING = [None, True, False, 0, 1, -1, 2, 64, 10**6, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 0.0, -0.0, 1.0, 0.5,
            32.0, 1e6, 1e18, 9.3e18, 1e300, float("nan"), float("inf"), float("-inf"), "", " ", "a", "0", "1", "true",
            "null", "/", "/x", "on", "rw", [], {}, [[]], [None], {"a": None}, ["x"], {"x": "y"}, "\ud800", "\0"]

WHOLE = ["64", " 64 ", "+64", "-64", "64.0", "64.00", "64.", "64.5", "064", "0064", "6_4", "6__4", "_64", "64_", "6_4.0",
         "0_64", "0__64", "6.4e1", "64e0", "0x40", "٦٤", "１", "\u200364\xa0", "\x1c64", "--64", "+-64", "- 64", "6 4",
         "1_000", "00.0", "0_.0", "9" * 30, "9" * 5000, "Infinity", "64\0", 64, 64.0, 64.5, -64, True, 31, 32, 33]
REAL = ["0.5", ".5", "5.", ".", "1e0", "1e", "1e+0", "1E-2", "+.5", "-.5", " 0.5 ", "1_0.5", "1_.5", "1._5", " 1_0",
        "1__0", "nan", "inf", "-Infinity", "1e400", "1e-400", "0x1p3", "0,5", "1 5", 0.5, 0.25, 1, 2, 1024, 1024.5,
        1e-300, 0, True, False]
FLAGS = [True, False, 0, 1, 0.0, 1.0, -0.0, 2, 0.5, "0", "1", "t", "F", "y", "N", "yes", "No", "ON", "off", "True", "FALSE",
         " true", "true ", "ja", "10", "1.0", "", None, "tru\0"]
PATHS = ["/", "/x", "/workspace", "/workspace/", "/workspace/a", "/workspacex", "//", " /x ", "/x/y/z", "/ä", "\u3000/x",
         "x", "./x", "", " ", "C:\\x", "c:/x", "\\\\server\\x", "\\x", "C:x", "/x/../y", "/..", "/...", "/a\nb", "/a\x85b",
         "/" + "a" * 4094, "/" + "a" * 4095, "/x\0", None]
MODES = ["none", "ro", "rw", "RW", " rw", "", "r", 1, None, "rw\0", ["rw"]]
NAMES = ["a", " a ", "session-1", "ä", "会话", "a b", "a\nb", "a\tb", "\x85", "a\x85b", "", "  ", "\n", "a" * 255,
         "a" * 256, "ä" * 128, "\ud800", "a\0b", "\0", "a/b", "..", "ws-" + "0" * 24 + "-g1-x", "\x7f", 1, None]
SKILLS = [None, "", " ", "a", " skill-1 ", "技能", "naïve_2", "-", "_", "--", "-a-", "a" * 64, "a" * 65, "ä" * 64, "ä" * 65,
          "a.b", "a/b", "a b", "²", "a\0", 5, True]
ENVS = [{}, {"A": "1"}, {"A": ""}, {"A": 1}, {"A": None}, {"A": True}, {"": "x"}, {"A=B": "x"}, {"a\0": "x"}, {"a": "x\0"},
        {"ä ö": "ü"}, {"A": " x "}, {" A ": "x"}, {"A": "=x="}, {"a\x01": "x"}, [], [["A", "1"]], "A=1", None,
        {f"N{i}": "x" for i in range(50)}]
TEXTS = ["", "echo", " echo ", "echo\nx", "\x1cecho\x1f", "\u2003\u3000", "ä", "\ufeffx", "x" * 131071, "x" * 131072,
         " " + "x" * 131071 + " ", "\u200b", "a\0b", "\ud83d", "\ud83d\ude00", 1, None, ["x"]]
IDS = ["i", " i ", "\u2003i", "", " ", "\x1c", "ä", "a" * 256, "a" * 257, " " + "a" * 256, "a\0", 1, None, True, ["i"]]
EXACT = [1, 2, 7, 0, -1, True, False, 1.0, 2.0, "1", None, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 10**30, [], 1.5]
TIMES = ["2026-11-15T23:25:57+00:00", "2026-11-15T23:25:57Z", "2026-11-15t23:25z", "2026-11-15 23:25:57.5+01:00",
         "2026-11-15_23:25:57,123456789-0130", "2026-11-15T23:25:57", "2026-11-15", "2026-11-15T23:25:57+00",
         "2026-11-15T23:25\u221201:00", "2026-11-15T24:00Z", "2026-11-15T23:60Z", "2026-11-15T23:25:60Z",
         "2026-02-29T00:00Z", "2024-02-29T00:00Z", "2100-02-29T00:00Z", "2026-13-01T00:00Z", "2026-00-01T00:00Z",
         "2026-01-00T00:00Z", "2026-04-31T00:00Z", "0000-01-01T00:00Z", "0001-01-01T00:00Z", "0001-01-01T00:00+01:00",
         "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-00:01", "2026-11-15T23:25:57+24:00", "2026-11-15T1:25Z",
         "2026-11-15T23:25:57+23:59", "2026-11-15T23:25:57+00:60", "2026-11-15T23:25:57.Z", " 2026-11-15T23:25Z",
         "2026-11-15T23:25Z ", "2026-11-15T2325Z", "20261115T232557Z", "2026-W46-7T00:00Z", "2026-11-15T23:25:57 Z",
         "2026-11-15T23:25:57Z\0", "1794785157", "+1794785157", "-1", "1794785157.25", "1794785157.", ".5", "-.5", "-1.25",
         "1.5e9", "1e9", "1.e9", "1.5e", "1.5 ", "1_0", "", "-", "now", 1794785157, 1794785157123, 1794785157.125, -1, 0,
         -1.25, 20_000_000_000, 20_000_000_001, -20_000_000_001, 253402300799, 253402300800, 1e11, 1e15, 1e18, True, None,
         float("nan"), 2**63, "9" * 19, "9" * 25, "253402300799999", "253402300800000"]
DIGESTS = ["a" * 64, "0123456789abcdef" * 4, " " + "b" * 64 + "\n", "A" * 64, "a" * 63, "a" * 65, "g" * 64, "", None, 1]

MOUNT = {"host_path": PATHS, "mount_path": PATHS, "mode": MODES}
FIELDS = {
    "spec": {"cmd": TEXTS, "workdir": PATHS, "timeout_sec": WHOLE, "network": ["on", "off", "ON", "", True, None, "on\0"],
             "session_id": NAMES, "env": ENVS, "image": TEXTS + ["x" * 512, "x" * 513], "host_path": PATHS,
             "host_path_mode": MODES, "mount_path": PATHS, "extra_mounts": None, "skill_name": SKILLS,
             "persistent": FLAGS, "cpus": REAL, "memory_mb": WHOLE, "pids_limit": WHOLE, "read_only_rootfs": FLAGS,
             "workspace_quota_mb": WHOLE, "unknown": ANYTHING},
    "process": {"process_id": NAMES, "command": TEXTS, "args": [[], ["a"], ["a", ""], [" a "], [1], [None], "a", ["\0"], {}],
                "env": ENVS, "cwd": PATHS, "memory_mb": WHOLE, "unknown": ANYTHING},
    "grant": {"instance_uuid": IDS, "workspace_uuid": IDS, "execution_generation": EXACT, "entitlement_revision": EXACT,
              "expires_at": TIMES, "max_sessions": EXACT, "max_managed_processes": EXACT, "unknown": ANYTHING},
    "revocation": {"instance_uuid": IDS, "workspace_uuid": IDS, "entitlement_revision": EXACT, "unknown": ANYTHING},
    "policy": {"required": FLAGS, "logical_session_id": ["global", "Global", "other", None, "global\0"],
               "required_backend": ["nsjail", "native", "docker", "", None], "max_sessions": EXACT,
               "max_managed_processes": EXACT, "max_grant_ttl_sec": EXACT, "max_timeout_sec": EXACT, "cpus": REAL,
               "memory_mb": EXACT + [32, 31, 64, "64"], "pids_limit": EXACT, "read_only_rootfs": FLAGS,
               "workspace_quota_mb": EXACT, "readiness_cache_sec": EXACT, "unknown": ANYTHING},
    "context": {"instance_uuid": IDS, "workspace_uuid": IDS, "placement_generation": EXACT + WHOLE,
                "installation_uuid": IDS, "runtime_revision": EXACT, "artifact_digest": DIGESTS, "unknown": ANYTHING},
}

CONTEXT = {"instance_uuid": "i", "workspace_uuid": "w", "placement_generation": 3}
GOOD = {
    "spec": [{"session_id": "s"}, {"session_id": "s", "cmd": "true", "host_path": "/data", "workdir": "/workspace/a"},
             {"session_id": "s", "mount_path": "/work"}],
    "process": [{"command": "cat"}, {"command": "python", "args": ["-m", "x"], "process_id": "p", "cwd": "/"}],
    "grant": [{"instance_uuid": "i", "workspace_uuid": "w", "execution_generation": 1, "entitlement_revision": 2,
               "expires_at": "2026-11-15T23:25:57.000123+00:00", "max_sessions": 1, "max_managed_processes": 0}],
    "revocation": [{"instance_uuid": "i", "workspace_uuid": "w", "entitlement_revision": 2}],
    "policy": [{}, {"required": True, "workspace_quota_mb": 64}],
    "context": [CONTEXT, {**CONTEXT, "installation_uuid": "x"},
                {**CONTEXT, "installation_uuid": "x", "runtime_revision": 1, "artifact_digest": "a" * 64}],
}


def random_mounts(random):
    mounts = [{name: random.choice(values) for name, values in MOUNT.items() if random.random() < 0.9}
              for _ in range(random.choice([0, 1, 1, 2, 3]))]
    good = {"host_path": "/h", "mount_path": "/m"}
    return random.choice([mounts, mounts, [good] * 30, [good] * 31, [good, {**good, "x": 1}], good, [good, None]])


def random_value(random, values):
    if values is None:
        return random_mounts(random)
    value = random.choice(ANYTHING if random.random() < 0.2 else values)
    if isinstance(value, str) and random.random() < 0.2:
        value = random.choice(SPACES) + value + random.choice(SPACES)
    if isinstance(value, str) and value and random.random() < 0.1:
        place = random.randrange(len(value))
        value = value[:place] + random.choice(string.printable) + value[place + 1:]
    return value


def random_values(random, mode, count, without=()):
    """`without`: fields that this version does not have."""
    fields = {name: values for name, values in FIELDS[mode].items() if name not in without}
    made = []
    for _ in range(count):
        value = copy.deepcopy(random.choice(GOOD[mode]))
        for name in random.sample(list(fields), min(len(fields), random.choice([0, 1, 1, 1, 2, 2, 3, 5]))):
            if random.random() < 0.1:
                value.pop(name, None)
            elif name != "unknown" or random.random() < 0.3:
                value[name] = random_value(random, fields[name])
        made.append(random.choice(ANYTHING) if random.random() < 0.01 else value)
    return made
