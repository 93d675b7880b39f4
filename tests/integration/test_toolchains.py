"""The toolchain matrix: what people run does inside what it does outside, to the byte.

Each entry is a shell script with its files; it is run by the same user outside and inside, in a fresh
directory each, and must exit 0 with the same output.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from conftest import PATIENCE, SLOWNESS

SEARCH = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin:/usr/lib/go/bin:/opt/go/bin"
PYTHON = "/usr/bin/python3"


def find(tool):
    path = shutil.which(tool, path=SEARCH)
    if not path:
        pytest.skip(f"{tool} is not installed")
    return Path(os.path.realpath(path))


def need_module(module):
    """A module of Debian's python, such as pip, which comes in a package of its own."""
    done = subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, timeout=PATIENCE)
    if done.returncode != 0:
        pytest.skip(f"{PYTHON} has no module {module}")


def outside(box, directory, script, variables):
    """The script as the same user, without a sandbox."""
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(directory),
                   "USER": box.name, "LOGNAME": box.name, "LANG": "C.UTF-8", **variables}
    return subprocess.run(["sh", "-ec", script], cwd=directory, env=environment, preexec_fn=box._become,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=4 * PATIENCE)


def compare(box, script, files=None, variables=None, options=(), ro_paths=()):
    """Runs the script on both sides; the output they have in common."""
    variables = variables or {}
    directories = [box.directory(), box.directory()]
    for directory in directories:
        for name, text in (files or {}).items():
            if isinstance(text, Path):
                shutil.copy(text, directory / name)
                box.own(directory / name)
            else:
                box.file(directory, name, text)
    there = outside(box, directories[0], script, variables)
    assert there.returncode == 0, f"does not even work outside: {there.stdout}\n{there.stderr}"
    words = list(options)
    for name, value in variables.items():
        words += ["--env", f"{name}={value}"]
    for path in ro_paths:
        words += ["--ro-path", path]
    here = box.run("--quiet", "--mount", f"{directories[1]}:/workspace", "--env", "HOME=/workspace", *words,
                   "--", "sh", "-ec", script, timeout=4 * PATIENCE)
    assert here.returncode == 0, here
    assert here.stdout == there.stdout, f"{there.stdout!r}\n{here}"
    return here.out


# --- python -----------------------------------------------------------------------------------------


def test_python_standard_library(box):
    program = """
import asyncio, bz2, concurrent.futures, ctypes, decimal, hashlib, json, lzma, multiprocessing, os, pwd, random
import select, signal, socket, sqlite3, ssl, struct, subprocess, sys, tempfile, threading, time, urllib.parse, zlib

print(json.dumps({"pi": str(decimal.Decimal(355) / 113)}), hashlib.sha256(b"x").hexdigest())
print(zlib.decompress(zlib.compress(b"z" * 1000)) == b"z" * 1000, lzma.decompress(lzma.compress(b"l")))
print(len(ssl.create_default_context().get_ca_certs()) >= 0, ssl.OPENSSL_VERSION_INFO >= (1, 1))

lock, total = threading.Lock(), [0]
def work(n):
    for _ in range(1000):
        with lock:
            total[0] += n
threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
[t.start() for t in threads]
[t.join() for t in threads]
print(total)

print(subprocess.run("echo $((6*7)); exit 3", shell=True, capture_output=True))
print(subprocess.check_output(["tr", "a-z", "A-Z"], input=b"pipe"))

async def serve():
    async def answer(reader, writer):
        writer.write((await reader.readline()).upper())
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\\n")
    print(await reader.readline())
    process = await asyncio.create_subprocess_exec("echo", "async", stdout=subprocess.PIPE)
    print(await process.communicate())
asyncio.run(serve())

with concurrent.futures.ThreadPoolExecutor() as pool:
    print(list(pool.map(abs, range(-5, 0))))
with tempfile.NamedTemporaryFile() as f:
    f.write(b"tmp"); f.flush()
    print(open(f.name).read())
print(ctypes.CDLL(None).abs(-3), time.strftime("%Y", time.gmtime(0)), sys.getfilesystemencoding())
print(signal.setitimer(signal.ITIMER_REAL, 100), os.cpu_count() > 0)
r, w = os.pipe(); os.write(w, b"x"); print(select.select([r], [], [], 1)[0] == [r])
"""
    compare(box, f"{PYTHON} program.py", {"program.py": program})


def test_python_multiprocessing(box):
    """Locks and queues in /dev/shm, processes by fork, spawn and forkserver."""
    program = """
import multiprocessing as mp
from multiprocessing import shared_memory

def square(n):
    return n * n

def add(counter, lock):
    for _ in range(100):
        with lock:
            counter.value += 1

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = mp.get_context(method)
        with context.Pool(3) as pool:
            print(method, pool.map(square, range(10)))
        counter, lock = context.Value("i", 0, lock=False), context.Lock()
        workers = [context.Process(target=add, args=(counter, lock)) for _ in range(4)]
        [w.start() for w in workers]
        [w.join() for w in workers]
        print(counter.value)
    block = shared_memory.SharedMemory(create=True, size=100)
    block.buf[:5] = b"hello"
    print(bytes(block.buf[:5]))
    block.close(); block.unlink()
"""
    compare(box, f"{PYTHON} program.py", {"program.py": program})


def test_python_sqlite(box):
    program = """
import sqlite3, threading
db = sqlite3.connect("test.db", check_same_thread=False)
db.execute("pragma journal_mode = wal")
db.execute("create table t (a integer primary key, b text)")
db.executemany("insert into t (b) values (?)", [(str(n),) for n in range(1000)])
db.commit()
other = sqlite3.connect("test.db")
print(other.execute("select count(*), sum(a) from t").fetchone())
other.execute("delete from t where a % 2"); other.commit()
print(db.execute("select count(*) from t").fetchone(), db.execute("pragma integrity_check").fetchone())
"""
    compare(box, f"{PYTHON} program.py && ls", {"program.py": program})


def make_wheel(directory):
    """A wheel, by hand: nothing is fetched."""
    path = directory / "boxdemo-1.0-py3-none-any.whl"
    files = {
        "boxdemo/__init__.py": "def answer():\n    return 6 * 7\n",
        "boxdemo/__main__.py": "import boxdemo\nprint(boxdemo.answer())\n",
        "boxdemo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: boxdemo\nVersion: 1.0\n",
        "boxdemo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "boxdemo-1.0.dist-info/entry_points.txt": "[console_scripts]\nboxdemo = boxdemo:answer\n",
    }
    record = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(text)}\n")
        wheel.writestr("boxdemo-1.0.dist-info/RECORD", "".join(record) + "boxdemo-1.0.dist-info/RECORD,,\n")
    return path


def test_python_pip_offline(box):
    need_module("pip")
    wheel = make_wheel(box.directory())
    script = (f"{PYTHON} -m pip --version | cut -d' ' -f1-2; "
              f"{PYTHON} -m pip install --quiet --no-index --no-warn-script-location --target site {wheel.name} 2>/dev/null; "
              f"PYTHONPATH=site {PYTHON} -m boxdemo; ls site")
    assert "42" in compare(box, script, {wheel.name: wheel})


def test_python_venv(box):
    need_module("ensurepip")
    wheel = make_wheel(box.directory())
    script = (f"{PYTHON} -m venv env; env/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'; "
              f"env/bin/pip install --quiet --no-index --disable-pip-version-check {wheel.name}; env/bin/python -m boxdemo; "
              "env/bin/pip list --disable-pip-version-check 2>/dev/null | grep boxdemo")
    assert "42" in compare(box, script, {wheel.name: wheel})


def test_python_venv_without_pip(box):
    script = (f"{PYTHON} -m venv --without-pip env; env/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'; "
              "ls env/bin | sort")
    compare(box, script)


# --- node ---------------------------------------------------------------------------------------------

NODE = """
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFileSync, spawn, fork } = require('child_process');
const crypto = require('crypto'), fs = require('fs'), http = require('http'), zlib = require('zlib');
if (!isMainThread) { parentPort.postMessage(workerData * 2); return; }
if (process.argv[2] === 'child') { process.on('message', m => { process.send(m + 1); process.disconnect(); }); return; }
(async () => {
  const workers = [...Array(4).keys()].map(n => new Promise((ok, no) => {
    const w = new Worker(__filename, { workerData: n }); w.on('message', ok); w.on('error', no); }));
  console.log(await Promise.all(workers));
  console.log(execFileSync('echo', ['from', 'a', 'child']).toString());
  console.log(await new Promise(ok => { const c = fork(__filename, ['child']); c.on('message', ok); c.send(41); }));
  console.log(await new Promise(ok => { const c = spawn('sh', ['-c', 'exit 4']); c.on('exit', ok); }));
  console.log(crypto.createHash('sha256').update('x').digest('hex'));
  console.log(zlib.gunzipSync(zlib.gzipSync('squeezed')).toString());
  await fs.promises.writeFile('f', 'text'); console.log(await fs.promises.readFile('f', 'utf8'));
  const server = http.createServer((q, r) => r.end('hello ' + q.url)).listen(0, '127.0.0.1', () =>
    http.get({ port: server.address().port, path: '/x' }, r => r.on('data', d => { console.log(d.toString()); server.close(); })));
})();
"""


def test_node(box):
    node = find("node")
    compare(box, f"{node} program.js", {"program.js": NODE})


def test_npm(box):
    find("npm")
    package = '{"name": "demo", "version": "1.0.0", "scripts": {"demo": "node -e \\"console.log(6*7)\\""}}'
    script = "npm --offline --no-update-notifier run --silent demo; npm --offline --no-update-notifier pack --silent; ls *.tgz"
    assert "42" in compare(box, script, {"package.json": package})


# --- compilers -----------------------------------------------------------------------------------------

C_PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static void *work(void *n) {
    for (int i = 0; i < 10000; i++) { pthread_mutex_lock(&lock); total += (long)n; pthread_mutex_unlock(&lock); }
    return NULL;
}
int main(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(7);
    int status;
    waitpid(pid, &status, 0);
    printf("%ld %d %s\\n", total, WEXITSTATUS(status), __VERSION__);
    return 0;
}
"""


def test_gcc(box):
    find("gcc")
    script = "gcc -O2 -Wall -pthread -o program program.c && ./program && gcc -static -pthread -o static program.c && ./static"
    compare(box, script, {"program.c": C_PROGRAM})


def test_make(box):
    find("make")
    makefile = "all: a b\n\tcat a b\n%:\n\techo $@ > $@\n"
    compare(box, "make -s -j4 all 2>&1 | grep -v jobserver", {"Makefile": makefile})


def test_git(box):
    find("git")
    variables = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
                 "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
                 "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    script = ("git init -q -b main r; cd r; echo one > f; git add f; git commit -q -m first; git checkout -q -b side; "
              "echo two >> f; git commit -q -am second; git checkout -q main; echo x > g; git add g; git commit -q -m third; "
              "git merge -q -m merged side; git log --oneline --graph; git gc -q; git fsck 2>/dev/null; cd ..; "
              "git clone -q r copy; cd copy; git log --format=%H; git status --short; git grep -n two; git blame -s f; "
              "git archive HEAD | tar t; git stash list; git worktree add -q ../tree side; cat ../tree/f")
    compare(box, script, variables=variables)


JAVA = """
import java.nio.file.*;
import java.util.concurrent.*;
import java.util.stream.*;

public class Program {
    public static void main(String[] args) throws Exception {
        var pool = Executors.newFixedThreadPool(4);
        var futures = IntStream.range(0, 20).mapToObj(n -> pool.submit(() -> n * n)).collect(Collectors.toList());
        int sum = 0;
        for (var future : futures) sum += future.get();
        pool.shutdown();
        System.out.println(sum);
        System.out.println(IntStream.range(0, 100000).parallel().sum());
        var process = new ProcessBuilder("sh", "-c", "echo child; exit 3").start();
        System.out.print(new String(process.getInputStream().readAllBytes()));
        System.out.println(process.waitFor());
        Files.writeString(Path.of("f"), "text");
        System.out.println(Files.readString(Path.of("f")));
        try (var server = new java.net.ServerSocket(0, 1, java.net.InetAddress.getLoopbackAddress())) {
            var client = new java.net.Socket(server.getInetAddress(), server.getLocalPort());
            var peer = server.accept();
            client.getOutputStream().write(42);
            System.out.println(peer.getInputStream().read());
        }
        System.out.println(java.security.MessageDigest.getInstance("SHA-256").digest(new byte[1]).length);
    }
}
"""


def test_java(box):
    find("javac")
    find("java")
    compare(box, "javac Program.java && java Program", {"Program.java": JAVA})


GO = """
package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

func main() {
	var wait sync.WaitGroup
	var lock sync.Mutex
	total := 0
	for i := 0; i < 100; i++ {
		wait.Add(1)
		go func(n int) {
			defer wait.Done()
			lock.Lock()
			total += n
			lock.Unlock()
		}(i)
	}
	wait.Wait()
	out, err := exec.Command("echo", "child").Output()
	fmt.Println(total, string(out), err)
	fmt.Println(os.WriteFile("f", []byte("text"), 0o600))
	text, _ := os.ReadFile("f")
	fmt.Println(string(text))
}
"""


@pytest.fixture(scope="module")
def go_cache(base):
    """The standard library, compiled once; each side of each test gets a copy to work with."""
    go = find("go")
    cache = base / "go-cache"
    (base / "program.go").write_text(GO)
    command = [str(go), "build", "-o", str(base / "go-program"), str(base / "program.go")]
    variables = {**os.environ, **GO_VARIABLES, "GOCACHE": str(cache)}
    done = subprocess.run(command, env=variables, capture_output=True, timeout=5 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return cache


GO_VARIABLES = {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GO111MODULE": "off",
                "GOPATH": "/tmp/boxtest-go-path"}


def test_go(box, go_cache):
    go = find("go")
    root = go.parent.parent
    copy = box.directory() / "cache"
    shutil.copytree(go_cache, copy)
    for path in [copy, *copy.rglob("*")]:
        box.own(path)
    script = f"{go} build -o program program.go && ./program && {go} vet program.go && {go} version"
    ro_paths = [] if str(root).startswith("/usr/") else [root]
    compare(box, script, {"program.go": GO}, {**GO_VARIABLES, "GOCACHE": str(copy)}, ro_paths=ro_paths,
            options=["--mount", f"{copy}:{copy}"])


# --- debuggers, in their profile -----------------------------------------------------------------------


def test_strace_in_the_dev_profile(box):
    """Tracing works in `dev`, and only there."""
    find("strace")
    result = box.run("--seccomp", "dev", "--", "strace", "-f", "-e", "trace=write", "sh", "-c", "echo traced").ok()
    assert result.out == "traced\n" and 'write(1, "traced\\n"' in result.err
    result = box.run("--", "strace", "-e", "trace=write", "echo", "traced")
    assert result.returncode != 0


def test_gdb_in_the_dev_profile(box):
    find("gdb")
    script = "gdb -q -batch -ex 'break main' -ex run -ex bt -ex continue ./program"
    directory = box.directory()
    box.file(directory, "program.c", "int main(void) { return 3; }\n")
    result = box.run("--seccomp", "dev", "--mount", f"{directory}:/workspace", "--", "sh", "-c",
                     f"gcc -g -o program program.c && {script}").ok()
    assert "Breakpoint 1, main" in result.out and "exited with code 03" in result.out


# --- shells and archives ---------------------------------------------------------------------------------


def test_shell_utilities(box):
    script = ("seq 1000 | sort -rn | head -3; printf 'a b c' | awk '{print $2}'; echo x | sed s/x/y/; date -u -d @0 +%F; "
              "mkdir -p d/e; echo f > d/e/f; tar czf d.tgz d; rm -r d; tar xzf d.tgz; cat d/e/f; find . -type f | sort; "
              "echo hello | gzip | gunzip; echo hello | xz | unxz; df -P . > /dev/null; sleep 0; "
              "mkfifo p; (echo fifo > p &) ; cat p; flock d true; timeout 5 echo timed; "
              "LC_ALL=C.UTF-8 printf 'ü' | wc -m; diff d.tgz d.tgz && echo same; nproc > /dev/null; "
              "exec 5<>f5; echo five >&5; cat f5")
    compare(box, script)
