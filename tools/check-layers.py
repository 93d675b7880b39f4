#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a source file includes a header of a layer that its own layer may not use."""
import pathlib
import re
import sys

# What each directory under src/ may include, besides itself.
MAY_USE = {
    "core": set(),
    "sandbox": {"core"},
    "init": {"core", "sandbox"},
    "net": {"core"},
    "backend": {"core", "net", "sandbox"},
    "runtime": {"core", "net", "backend"},
    "skills": {"core"},
    "api": {"core", "net", "backend", "runtime", "skills"},
    "cli": {"core", "net", "sandbox", "skills"},
    "daemon": {"core", "net", "sandbox", "backend", "runtime", "api"},
}
# box-init is a program of its own: of the engine it may know the messages and nothing else.
ONLY = {("init", "sandbox"): {"protocol.h"}}

root, stamp = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
wrong = []
for path in sorted(root.rglob("*.[ch]")):
    layer = path.relative_to(root).parts[0]
    if layer not in MAY_USE:
        wrong.append(f"{path}: directory src/{layer} has no place in the order of layers")
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+"([^"/]+)/([^"]+)"', line)
        if not found or found[1] == layer:
            continue
        allowed = found[1] in MAY_USE[layer]
        if allowed and (layer, found[1]) in ONLY:
            allowed = found[2] in ONLY[(layer, found[1])]
        if not allowed:
            wrong.append(f"{path}:{number}: src/{layer} may not include {found[1]}/{found[2]}")
if wrong:
    sys.exit("\n".join(wrong))
stamp.write_text("ok\n")
