# SPDX-License-Identifier: Apache-2.0
"""Skills, packages and archives by the hundred, good and bad, from a seed."""

import io
import struct
import zipfile
import zlib

WORDS = ["convert", "Müller", "数据", "a-b", "x_y", "123", "Report", "é", "…", "data set", "naïve", "Ω", "½", "٣"]
NAMES = ["alpha", "beta-2", "under_score", "技能", "Ünï", "123", "a", "x" * 64, "x" * 65, "bad name", "dot.ted", "../up",
         "", "-", "_-_", "ａｂ", "é", "e\u0301", "²", "Ⅷ", "a/b", "tab\tin", " padded "]
SCALARS = [
    "plain", "two words", "'quoted'", '"double \\" \\u00e9 \\n x"', "'it''s'", "123", "-7", "+8", "0", "00", "0o17", "017",
    "089", "0x1F", "0b101", "0x", "1_000", "1__", "0_", "0b_", "190:20:30", "1:60", "1:5:59", "0:30", "1.5", "1.", ".5",
    "-.5", "1e5", "1.0e+5", "1.5e-7", "1.0e+400", "123456789.123456789", "1e+16", "1.0e+16", "1e22", "0.1", "1:30.5",
    "190:20:30.15", ".inf", "-.INF", ".nan", ".NaN", "true", "Yes", "yES", "off", "NO", "n", "~", "null", "Null", "NULL",
    "nULL", "", "2024-01-02", "2024-1-2", "2024-13-01", "2023-02-29", "2024-02-29", "2001-12-14t21:59:43.10-05:00",
    "2001-12-14 21:59:43.1234567 Z", "2001-12-15 2:59:43", "2001-12-15 2:59:43 +1", "2001-12-15 2:59:43 +24:00",
    "2001-12-15 25:00:00", "0000-01-01", "=", "<<", "- dash", "[a, b]", "[1, 2.5, true, ~, 2024-01-02]", "{a: 1, b: [c]}",
    "[]", "{}", "['it''s', \"say \\\"x\\\"\"]", "[2001-12-14T21:59:43+02:00]", "{1: a, yes: b, a: c, a: d}",
    "a: b", "a # comment", "# only a comment", "'#no comment'", "@at", "`tick", "%percent", "&anchor x", "*alias",
    "!!str 5", "! x", "|\n  block\n  text\n", ">\n  folded\n  text\n\n  more\n", "|-\n  kept\n", "|+\n  all\n\n",
    "multi\n  line plain", "'multi\n  line'", "\"multi\\\n  line\"", "x\ty", "tab\t", "é", "数据 处理", "\u00a0nbsp", "\u2028",
    "😀", "\ufeffbom", "\x07bell", "x" * 300, "9" * 30, "9" * 4300, "9" * 4301, "0x" + "f" * 40, "\"\\0\"", "'  '",
    "\"\\t\"", "? a", "-", "--- x", "...", "[a", "{a", "'open", "a: b: c", "!", "|", ">", "k\u0085v", "[a, [b, [c]]]",
]
KEYS = ["name", "display_name", "description"]
OTHERS = ["license: MIT", "version: 2", "metadata:\n  author: x\n  tags: [a, b]", "# a comment", "", "allowed-tools: Read",
          "name: second", "<<: {description: merged}", "<<: [{name: m1}, {name: m2}]", "? complex\n: value", "1: one",
          "? [a]\n: b", "'description': quoted key", "list:\n- a\n- b", "x: {<<: {a: 1}, b: 2}", "<<: 5", "  indented: x",
          "é: 1", "deep: " + "[" * 7 + "]" * 7, "a:\n\tb: c", "long: >-\n  folded\n  text"]
FENCES = ["---\n", "---\r\n", "--- \n", " ---\n", "---\x0b", "---\u2028", "----\n", "---\x85", "\ufeff---\n", "---"]
BODIES = ["# Title\n\nDo it.\n", "", "\n\n\nText", "\r\nText\r\n", "---\nmore\n---\n", "no newline", " \n x", "\x00nul", "é\n"]


def skill_text(random):
    """A SKILL.md."""
    if random.random() < 0.08:
        return random.choice(BODIES)
    end = random.choice(["\n", "\n", "\n", "\r\n"])
    lines = []
    for key in KEYS:
        roll = random.random()
        if roll < 0.25:
            continue
        value = random.choice(SCALARS) if roll < 0.7 else random.choice(WORDS)
        if key == "name" and random.random() < 0.5:
            value = random.choice(NAMES)
        lines.append(f"{key}: {value}" if random.random() < 0.97 else f"{key}:{value}")
    for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
        lines.insert(random.randrange(len(lines) + 1), random.choice(OTHERS))
    # libyaml wants a space behind a colon in braces, PyYAML does not.
    if random.random() < 0.05 and not any(line.startswith(f"{key}:") and line[len(key) + 1] != " " for line in lines for key in KEYS):
        lines = ["{" + ", ".join(lines) + "}"]
    yaml = "".join(line + "\n" for line in lines).replace("\n", end)
    opening = "---" + end if random.random() < 0.9 else random.choice(FENCES)
    closing = "---" + end if random.random() < 0.9 else random.choice(FENCES)
    return opening + yaml + closing + random.choice(["", end]) + random.choice(BODIES)


def good_text(random, name=None):
    name = name or random.choice([n for n in NAMES[:7]])
    extra = random.choice(["", "license: MIT\n", "# keep me\n", "metadata:\n  a: 1\n"])
    return f"---\nname: {name}\n{extra}description: {random.choice(WORDS)}\n---\n\n{random.choice(BODIES[:3])}"


FILES = ["scripts/run.py", "scripts/a/b/c.sh", "references/guide.md", "assets/ü.txt", ".hidden", "requirements.txt",
         "pyproject.toml", "setup.py/x", "setup.cfg", ".venv/pyvenv.cfg", "data.bin", "sub/SKILL.md", "z", "A", "a b.txt"]


def package(random, text=None):
    """A package: paths and contents (bytes; str is the target of a link)."""
    files = {}
    entry = random.choice(["SKILL.md"] * 20 + ["skill.md", "Skill.md", "SKILL.MD"])
    body = skill_text(random) if text is None else text
    files[entry] = body.encode("utf-8", "surrogatepass") if random.random() < 0.97 else b"\xff\xfe" + body.encode()
    if random.random() < 0.05:
        files["skill.md"] = good_text(random).encode()
    for path in random.sample(FILES, random.randrange(5)):
        files[path] = random.choice([b"", b"text\n", "ä\r\n".encode(), b"\xff\x00", b"x" * 5000])
    if random.random() < 0.1:
        files["link"] = random.choice(["z", "scripts", ".", "missing", "../..", "/etc/passwd"])
    return files


def tree(random):
    """A store: packages at several depths."""
    files = {}
    for index in range(random.randrange(1, 7)):
        depth = random.choice([1, 1, 1, 2, 3, 6, 7])
        above = "/".join(random.choice(["d", "e", "ф", ".h"]) for _ in range(depth - 1))
        name = random.choice(["one", "two", "three", "bad name", "Ünï", ".dot", f"n{index}"])
        base = f"{above}/{name}" if above else name
        for path, content in package(random, good_text(random) if random.random() < 0.5 else None).items():
            files[f"{base}/{path}"] = content
    if random.random() < 0.1:
        files["loose.txt"] = b"x"
    return files


# --- archives ---

def archive(random):
    """A zip archive, usually whole, from zipfile; then perhaps bent."""
    out = io.BytesIO()
    prefix = random.choice(["", "", "top/", "top/", "a/b/", "Müll/"])
    entries = []
    for index in range(random.choice([1, 1, 1, 2, 3])):
        base = prefix if index == 0 and random.random() < 0.5 else f"{prefix}{random.choice(['s1', 's2', 'x y', 'é', 'deep/er'])}/"
        text = good_text(random) if random.random() < 0.92 else skill_text(random)
        if random.random() < 0.15:
            text = text.replace("name:", "title:")
        for path, content in package(random, text).items():
            if isinstance(content, bytes):
                entries.append((base + path, content))
    for _ in range(random.choice([0] * 8 + [1, 2])):
        entries.append((random.choice(["../evil", "/abs", "a/../b", "a/./c", "C:x", "c:/x", "x\\y", "dir/", "..", ".", "./", "a//b",
                                       "\\abs", "ok/../../no", "top/SKILL.md", "z/", "e:"]), random.choice([b"", b"data"])))
    with zipfile.ZipFile(out, "w") as made:
        for name, content in entries:
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            info.compress_type = random.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
            mode = random.choice([0o644, 0o755, 0o100644, 0o100755, 0])
            if random.random() < 0.02:
                mode = random.choice([0o120777, 0o010644, 0o040755, 0o104755])
            info.external_attr = mode << 16
            info.create_system = random.choice([0, 3])
            try:
                made.writestr(info, content)
            except Exception:
                continue
    return bend(random, out.getvalue())


def bend(random, data):
    kind = random.random()
    if kind < 0.55:
        return data
    if kind < 0.6:
        return data[: random.randrange(len(data))]
    if kind < 0.65:
        return b"#!/bin/sh\n" + data
    if kind < 0.7:
        return data + b"\0" * random.randrange(1, 40)
    if kind < 0.74:
        return with_comment(data, random.choice([b"hello", b"PK\5\6" + b"\0" * 18, b"x" * 65535]))
    bent = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 5])):
        if random.random() < 0.6:
            spot = bytes(bent).rfind(b"PK\1\2")
            place = spot + random.randrange(46) if spot >= 0 else 0
        else:
            place = random.randrange(len(bent))
        bent[place] = random.choice([0, 1, 0xFF, bent[place] ^ (1 << random.randrange(8))])
    return bytes(bent)


def with_comment(data, comment):
    return data[:-2] + struct.pack("<H", len(comment)) + comment


def raw_zip(entries):
    """An archive byte by byte: dicts with name, data and whatever is to be a lie."""
    body, central = bytearray(), bytearray()
    for entry in entries:
        name = entry["name"] if isinstance(entry["name"], bytes) else entry["name"].encode()
        data = entry.get("data", b"")
        method = entry.get("method", 0)
        packed = entry.get("raw", zlib.compress(data)[2:-4] if method == 8 else data)
        size = entry.get("size", len(data))
        packed_size = entry.get("packed", len(packed))
        crc = entry.get("crc", zlib.crc32(data))
        flags = entry.get("flags", 0)
        extra = entry.get("extra", b"")
        local_name = entry.get("local_name", name)
        offset = entry.get("offset", len(body))
        streamed = flags & 8
        body += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, flags, method, 0, 0x5821, 0 if streamed else crc,
                            0 if streamed else min(packed_size, 0xFFFFFFFF), 0 if streamed else min(size, 0xFFFFFFFF),
                            len(local_name), 0) + local_name + packed
        if streamed:
            body += struct.pack("<IIII", 0x08074B50, crc, len(packed), len(data))
        central += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0x0314, entry.get("version", 20), flags, method, 0, 0x5821, crc,
                               packed_size, size, len(name), len(extra), 0, 0, 0, entry.get("mode", 0o100644) << 16,
                               offset) + name + extra
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(entries) & 0xFFFF, len(entries) & 0xFFFF, len(central), len(body), 0)
    return bytes(body + central) + end
