#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/skills/alnum.inc: the characters that may be in a skill's name besides '-' and '_', as ranges.

LangBot's store asks Python's str.isalnum(), so that is what is asked here."""
import sys
import unicodedata

ranges = []
for code in range(0x80, 0x110000):
    if not chr(code).isalnum():
        continue
    if ranges and ranges[-1][1] == code - 1:
        ranges[-1][1] = code
    else:
        ranges.append([code, code])
out = sys.stdout
out.write(f"/* Made by tools/gen-alnum.py, from Unicode {unicodedata.unidata_version}. */\n")
for start in range(0, len(ranges), 5):
    out.write(" ".join(f"{{0x{a:x}, 0x{b:x}}}," for a, b in ranges[start : start + 5]) + "\n")
