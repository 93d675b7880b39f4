# SPDX-License-Identifier: Apache-2.0
"""box_exec: what a command's result is."""

from scripts import exec_of, run, script

CLIP = 1_048_576


@script()
async def results(pair):
    for cmd in ("true", "false", "exit 7", "exit 255", "echo out", "echo err >&2", "echo out; echo err >&2; exit 3",
                "no-such-program-here", "kill -TERM $$", "kill -KILL $$", "sh -c 'kill -SEGV $$'", "exit 256",
                "printf 'no newline'", "cat", "test -t 0", "read x; echo \"<$x>\"", "set -e; false; echo not",
                "echo \"$0\"", "ulimit -c; exit 1", "(exit 9); echo $?"):
        await run(pair, cmd)


@script()
async def syntax(pair):
    """The text of a shell's complaint is the shell's; its exit code is the same."""
    for cmd in ("if", "echo 'open", ")", "echo a &&", "&& echo a", "| cat"):
        await pair.call("box_exec", exec_of(cmd), ignore=["data.stderr"])


@script()
async def state(pair):
    """Files stay from one command to the next, variables do not."""
    await run(pair, "echo kept > file; export A=1; cd /")
    await run(pair, "cat file; echo \"[$A]\"; pwd")
    await run(pair, "mkdir -p a/b; echo deep > a/b/c; ls -1")
    await run(pair, "cat c", workdir="/workspace/a/b")
    await run(pair, "pwd; ls -1A", workdir="/workspace/made/by/workdir")
    await run(pair, "pwd", workdir="/workspace/white space's")
    await run(pair, "pwd", workdir="/workspace/a/../a/./b")
    await run(pair, "pwd", workdir="/workspace/a//b/")
    await run(pair, "pwd", workdir="/tmp")
    await run(pair, "pwd; touch here && ls -1", workdir="/tmp/below")
    await run(pair, "rm -r a made; ls -1")
    await run(pair, "pwd", workdir="/workspace/file/below/a/file", differs="workdir-cannot-be", at="outcome")


@script()
async def environment(pair):
    await run(pair, "echo \"$A|$B|$C\"", env={"A": "1", "B": "two words", "C": ""})
    await run(pair, "printf %s \"$A\"", env={"A": "line\nline\ttab 'quotes' \"double\" $HOME `x` \\ é 漢 🎉"})
    await run(pair, "echo \"$LOWER_1\"", env={"LOWER_1": "x" * 1000})
    await run(pair, "echo \"[$A]\"")
    await run(pair, "echo \"$A\"", env={"A": "a=b=c"})


@script()
async def text(pair):
    """Output becomes text: UTF-8 with replacement, and white space of Unicode goes at both ends."""
    for out in (r"\n\n a \t\n", r" \t ", r"", r"\n", r"a\n\nb\n", r"\r\nx\r\n", r"\v\fx\v\f", r"\0", r"a\0b\0",
                r"\034x\035", r"\036x\037", r"\001x\002", r"\302\205x\302\205", r"\302\240x\302\240",
                r"\341\232\200x\341\232\200", r"\342\200\200x\342\200\212", r"\342\200\213x\342\200\213",
                r"\342\200\250x\342\200\251", r"\342\200\257x\342\201\237", r"\343\200\200x\343\200\200",
                r"\357\273\277x\357\273\277", r"\341\240\216x\341\240\216", r"\302\200x", r"\177x"):
        await run(pair, f"printf '{out}'; printf '{out}' >&2")


@script()
async def broken_text(pair):
    """Each thing that is not UTF-8: how many replacement characters come of it."""
    for out in (r"a\200b", r"a\377b", r"\376\377", r"\300\200", r"\301\277", r"\340\200\200", r"\340\237\277",
                r"\355\240\200", r"\355\277\277", r"\355\240\275\355\270\200", r"\360\200\200\200", r"\360\217\277\277",
                r"\364\220\200\200", r"\365\200\200\200", r"\370\210\200\200\200", r"\374\204\200\200\200\200",
                r"\303", r"\303(", r"\342\202", r"\342\202x", r"\342(\241", r"\360\237\230", r"\360\237\230x",
                r"\360(\214\274", r"\360\237", r"\360", r"\200\201\202", r"x\303\251y", r"\342\202\254",
                r"\360\237\230\200", r"\364\217\277\277", r"\357\277\275", r"\357\277\277", r"\355\237\277",
                r"\356\200\200", r"\303\303\251", r" \377 ", r"\342\200", r"\302"):
        await run(pair, f"printf '{out}'")


@script()
async def clipping(pair):
    """Kept up to a mebibyte a stream, with a line that says so past it."""
    def x(count):
        return f"head -c {count} /dev/zero | tr '\\0' x"

    for count in (65536, CLIP - 1, CLIP, CLIP + 1, CLIP + 70_000, 3 * CLIP):
        await run(pair, x(count))
    await run(pair, f"{x(CLIP + 5)} >&2")
    await run(pair, f"{x(CLIP + 5)}; {x(CLIP + 9)} >&2")
    # White space at the end of what is kept, and more behind it: stripped before the line is added.
    await run(pair, f"{x(CLIP - 4)}; printf '\\n\\n\\n\\n\\n'")
    await run(pair, f"printf '  '; {x(CLIP + 10)}")
    # The cut inside of a character.
    for offset in (1, 2, 3):
        await run(pair, f"{x(CLIP - offset)}; printf '\\360\\237\\230\\200'; echo more")
    await run(pair, f"head -c {CLIP + 1} /dev/zero | tr '\\0' ' '")
    await run(pair, f"head -c {CLIP + 2} /dev/zero | tr '\\0' '\\377'")


@script()
async def input_text(pair):
    """The command itself."""
    await pair.call("box_exec", exec_of(""), names="cmd")
    await pair.call("box_exec", exec_of("   \n\t "), names="cmd")
    await pair.call("box_exec", exec_of("\u2003\u00a0\u3000"), names="cmd")
    await pair.call("box_exec", {"session_id": "s"}, names="cmd")
    await run(pair, "\u2003 echo a\u00a0\u2028")
    await run(pair, "echo é漢🎉 | wc -c")
    await run(pair, "echo a\necho b\n\n")
    await run(pair, "# nothing but a comment", differs="cmd-stands-alone", at=["data.exit_code", "data.stderr"])
    await run(pair, f"echo {'y' * 100_000} | wc -c")
    await run(pair, "cat <<'E'\n$HOME `x`\nE")
    await pair.call("box_get_session", {"session_id": "s"})


@script()
async def time_out(pair):
    """A command that takes too long."""
    await run(pair, "echo before; sleep 30", timeout_sec=1)
    await run(pair, "echo gone > file")
    await run(pair, "echo bad >&2; sleep 30", timeout_sec=1)
    # boxd ends the command and keeps the session, and what is in it; the Python runtime drops both.
    await run(pair, "ls; true", differs="timeout-keeps-session", at="data.stdout")
    await pair.clear()
    await pair.call("box_create_session", {"session_id": "p", "persistent": True})
    await run(pair, "sleep 30", session="p", persistent=True, timeout_sec=1)
    await pair.call("box_get_session", {"session_id": "p"}, differs="timeout-keeps-session", at="outcome")
    await pair.clear()
    await run(pair, "sleep 30", timeout_sec="1")
    await pair.clear()
    await run(pair, "echo quick", timeout_sec=100_000)


@script()
async def one_after_another(pair):
    """Commands of a session wait for each other, in the order in which they came; those of others do not."""
    await run(pair, "true")
    await pair.together(
        ("box_exec", exec_of("sleep 0.3; echo 1 >> order")), ("box_exec", exec_of("echo 2 >> order; cat order")),
        ("box_exec", exec_of("echo 3 >> order; cat order")), ("box_exec", exec_of("echo other", session="t")))
    await run(pair, "cat order")


@script()
async def at_once(pair):
    """Many requests at the same time, each with the answer that is its own."""
    await pair.together(*(("box_exec", exec_of(f"echo {n}", session=f"s{n % 4}")) for n in range(40)))


@script()
async def large_request(pair):
    """One message of a few mebibytes."""
    await run(pair, "true", note="x" * 3_000_000)
