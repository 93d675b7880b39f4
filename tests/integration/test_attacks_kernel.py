"""ABUSE cases 17 to 28: attacks on the kernel's surface."""

import os
import platform
import pty
import select
import shutil
import socket
import stat
import struct
import time
from pathlib import Path

import pytest

import hostview
from conftest import PATIENCE

PROFILES = ["default", "strict", "dev"]
NAMESPACES = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]


def all_are(result, expected, *, but=()):
    """Every try of an attack had the expected answer."""
    wrong = {label: found for label, (found, _) in result.tries.items()
             if label not in but and found not in expected}
    assert not wrong, f"{wrong}\n{result}"


def denied(result):
    """The system calls that box itself reports as denied."""
    return set(result.json["denied_syscalls"])


@pytest.mark.parametrize("profile", PROFILES)
def test_17_new_namespaces(box, profile):
    """By unshare, clone, clone3, setns; also with bits above the flags' own."""
    result = box.attack("namespaces", options=["--json", "--seccomp", profile])
    for name in NAMESPACES:
        for how in ("unshare", "unshare.high", "clone", "clone.high", "setns"):
            assert result.status(f"{how}.{name}") == "EPERM", f"{how}.{name}: {result}"
        assert result.status(f"clone3.{name}") == "ENOSYS"
    # The C library falls back to clone on this answer, and on no other.
    assert result.status("clone3.plain") == "ENOSYS"
    assert result.status("clone.plain") == "OK"
    assert {"unshare", "clone", "setns"} <= denied(result)


def test_17_unshare_program(box):
    """And by the program people use."""
    result = box.run("--json", "--", "unshare", "--user", "--map-root-user", "id")
    assert result.json["exit_code"] != 0
    assert result.cause == "denied_syscall"
    assert result.json["denied_syscalls"] == ["unshare"]


@pytest.mark.parametrize("profile", PROFILES)
def test_18_mounts(box, profile):
    """Every call that changes what is mounted where."""
    result = box.attack("mounts", options=["--json", "--seccomp", profile])
    all_are(result, {"EPERM"})
    expected = {"mount", "umount2", "pivot_root", "chroot", "fsopen", "fspick", "fsconfig", "fsmount", "open_tree",
                "move_mount", "mount_setattr"}
    assert expected <= denied(result), expected - denied(result)


def test_19_cgroups(box):
    """No hierarchy to mount, none mounted, no release_agent, no group to leave or make."""
    result = box.attack("cgroups").ok()
    for label, (status, _) in result.tries.items():
        expected = {"EPERM"} if label.startswith("mount.") else {"ENOENT", "EACCES", "EROFS"}
        assert status in expected, result
    mounts = box.run("--", "cat", "/proc/self/mountinfo").ok()
    assert "cgroup" not in mounts.out
    # What it sees of its own place is a root, so no name of the host's groups.
    own = box.run("--", "cat", "/proc/self/cgroup").ok()
    paths = {line.split(":", 2)[2] for line in own.out.splitlines()}
    if box.root:
        assert all(path == "/" or path.startswith("/..") is False for path in paths), own
    result = box.attack("open-write", *(f"/proc/{pid}/cgroup" for pid in ("self", "1"))).ok()
    all_are(result, {"EACCES", "EPERM", "EROFS"})


def run_in_terminal(box, *args):
    """`box run -t ARGS…` on a terminal of the test's; what was written there."""
    master, slave = pty.openpty()
    try:
        process = box.popen(["run", "-t", *args], stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        seen = b""
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None or select.select([master], [], [], 0)[0]:
            assert time.monotonic() < deadline, f"does not end: {seen!r}"
            if select.select([master], [], [], 0.1)[0]:
                try:
                    seen += os.read(master, 65536)
                except OSError:
                    break
        return process.wait(PATIENCE), seen.decode(errors="replace").replace("\r\n", "\n")
    finally:
        os.close(master)


@pytest.mark.parametrize("profile", PROFILES)
def test_20_terminal_injection(box, profile):
    """TIOCSTI and its like, on the terminal of a `box run -t`, also with the high 32 bits set."""
    code, text = run_in_terminal(box, "--seccomp", profile, *box.with_helper, "--", "/attack/attack", "ioctls")
    assert code == 0, text
    found = dict(line.split(" ")[1:3] for line in text.splitlines() if line.startswith("RESULT "))
    assert found.pop("isatty") == "OK", text
    assert len(found) == 9
    assert set(found.values()) == {"EPERM"}, text


def test_20_no_terminal_of_the_callers(box):
    """Without -t the caller's terminal is out of reach, though the caller has one."""
    master, slave = pty.openpty()
    try:
        result = box.run("--", "sh", "-c", "exec 3<>/dev/tty", stdin=slave, before=lambda: None)
        assert result.returncode != 0
        seen = box.attack("fds", stdin=slave).ok()
        assert not any("/pts/" in detail or "/tty" in detail for _, detail in seen.tries.values())
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="i386 and x32 are x86-64's")
@pytest.mark.parametrize("profile", PROFILES)
def test_21_foreign_system_calls(box, profile):
    """int 0x80 and x32 numbers are refused, whatever the call."""
    result = box.attack("foreign-abi", options=["--seccomp", profile]).ok()
    for label, (status, _) in result.tries.items():
        assert status in ("ENOSYS", "EPERM", "SIGNAL-11", "SIGNAL-31"), f"{label}: {result}"


AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16


@pytest.mark.parametrize("profile", PROFILES)
def test_22_socket_families(box, profile):
    """UNIX, INET, INET6 and NETLINK_ROUTE; every other as in a kernel that was built without it."""
    result = box.attack("sockets", options=["--seccomp", profile]).ok()
    allowed = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}
    for family in range(48):
        for label in (f"family.{family}", f"family.high.{family}"):
            expected = "OK" if family in allowed else "EAFNOSUPPORT"
            assert result.status(label) == expected, f"{label}: {result.status(label)}"
        if family not in allowed:
            assert result.status(f"pair.{family}") == "EAFNOSUPPORT"
    assert result.status(f"pair.{AF_UNIX}") == "OK"
    for protocol in range(24):
        for label in (f"netlink.{protocol}", f"netlink.high.{protocol}"):
            assert result.status(label) == ("OK" if protocol == 0 else "EAFNOSUPPORT"), label
    for label in ("raw.inet", "raw.inet6"):
        assert result.status(label) in ("EPERM", "EPROTONOSUPPORT"), label


@pytest.mark.parametrize("profile", PROFILES)
def test_23_denied_calls(box, profile):
    """EPERM and a name in the report for what is known and denied; ENOSYS for what is not."""
    result = box.attack("syscalls", options=["--json", "--seccomp", profile])
    absent = {"io_uring_setup", "io_uring_enter", "io_uring_register", "unknown"}
    for label, (status, _) in result.tries.items():
        assert status == ("ENOSYS" if label in absent else "EPERM"), f"{label}: {status}"
    missing = set(result.tries) - absent - denied(result)
    assert not missing, f"refused, but not by the filter: {missing}"
    assert not absent & denied(result)


@pytest.mark.parametrize("profile", PROFILES)
def test_23_listener_of_ones_own(box, profile):
    """A nested filter may take away; a nested listener could wave denied calls through."""
    result = box.attack("listener", options=["--seccomp", profile]).ok()
    assert result.status("listener") == "EBUSY"
    assert result.status("listener.high") in ("EBUSY", "EINVAL")
    assert result.status("filter") == "OK"


LEASE = """
import errno, fcntl, os
fd = os.open("/workspace/f", os.O_CREAT | os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
for command in (fcntl.F_SETLEASE, 1040):
    try:
        print(fcntl.fcntl(fd, command, fcntl.F_WRLCK))
    except OSError as error:
        print(errno.errorcode[error.errno])
print(fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK)
"""


@pytest.mark.parametrize("profile", PROFILES)
def test_23_leases(box, profile):
    """Whoever opens a leased file waits for its holder: also root, in a directory of the host. Locks are no such thing."""
    result = box.run("--json", "--seccomp", profile, "--mount", f"{box.directory()}:/workspace", "--", "python3", "-c", LEASE)
    assert result.json["stdout"].split() == ["EPERM", "EPERM", "True"], result
    assert "fcntl" in denied(result)


@pytest.mark.parametrize("profile", PROFILES)
def test_23_personality(box, profile):
    """Address randomisation stays on, except for debuggers."""
    result = box.attack("personality", options=["--seccomp", profile]).ok()
    assert result.status("query") == "OK"
    assert result.status("read-implies-exec") == "EPERM"
    for label in ("no-randomize", "no-randomize.high"):
        assert result.status(label) == ("OK" if profile == "dev" else "EPERM"), label


@pytest.mark.parametrize("profile", PROFILES)
def test_24_trace_init_and_launcher(box, profile):
    """CVE-2016-9962: whoever joins a sandbox is not dumpable until it is the caller's program. That
    holds where tracing is allowed, too: in `dev` a command may trace its children, and only those."""
    result = box.attack("trace", options=["--seccomp", profile]).ok()
    for who in ("init", "launcher"):
        for label, (status, _) in result.tries.items():
            if label.startswith(f"{who}.") and not label.endswith((".io", ".stack")):
                assert status in ("EPERM", "EACCES"), f"{label}: {result}"
    assert result.status("child.seize") == ("OK" if profile == "dev" else "EPERM")


def test_24_signals_to_init(box):
    """PID 1 ignores whatever is sent from inside, and goes on answering."""
    result = box.attack("signals").ok()
    assert result.status("denied-call") == "EPERM"
    assert result.status("init.alive") == "OK"


def test_25_setuid_binary(root_box):
    """A setuid root program of the host, and one in a mounted directory: no gain."""
    box = root_box
    directory = box.directory()
    for owner in (0, 12345):
        copy = directory / f"setuid-{owner}"
        shutil.copy(box.programs.helper, copy)
        os.chown(copy, owner, owner)
        copy.chmod(0o6755)
    for owner in (0, 12345):
        for mode in ("ro", "rw"):
            result = box.run("--mount", f"{directory}:/workspace:{mode}", "--", f"./setuid-{owner}", "ids").ok()
            assert result.tries["uid"][1] == "1000 1000 1000", result
            assert result.tries["gid"][1] == "1000 1000 1000", result
            assert result.status("setresuid") == "EPERM"


@pytest.mark.parametrize("profile", PROFILES)
def test_25_setuid_file_left_for_the_host(box, profile):
    """A file made inside belongs on the host to the owner of the directory: a setuid one must not be
    left there, by whatever call its mode can be given."""
    directory = box.directory(0o777)
    result = box.attack("setid", "/workspace",
                        options=["--mount", f"{directory}:/workspace", "--seccomp", profile]).ok()
    files = list(directory.iterdir())
    assert {path.name for path in files} >= {"plain.4755", "plain.2755", "plain.6777"}, result
    assert {path.stat().st_uid for path in files} == {box.uid}
    left = [path.name for path in files if path.stat().st_mode & 0o6000]
    assert not left, f"{left}\n{result}"


def test_25_setuid_programs_of_the_host(box):
    """su, mount, newuidmap and so on run without their bit."""
    for program in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/newuidmap", "/usr/bin/passwd"):
        if not Path(program).exists() or not os.stat(program).st_mode & stat.S_ISUID:
            continue
        script = f"{program} --help > /dev/null 2>&1; {program} & wait; true"
        box.run("--", "sh", "-c", script).ok()
    result = box.run("--", "su", "-c", "id")
    assert result.returncode != 0 and "uid=0" not in result.out


def test_25_file_capabilities(root_box):
    """A program with every capability in its xattr has none inside."""
    box = root_box
    directory = box.directory()
    copy = directory / "capable"
    shutil.copy(box.programs.helper, copy)
    copy.chmod(0o755)
    # VFS_CAP_REVISION_2 with the effective bit; permitted and inheritable sets, low and high words.
    everything = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0x1FF, 0)
    os.setxattr(copy, "security.capability", everything)
    result = box.run("--mount", f"{directory}:/workspace:ro", "--", "./capable", "ids").ok()
    sets = {label: int(detail, 16) for label, (_, detail) in result.tries.items() if label.startswith("Cap")}
    assert len(sets) == 5 and not any(sets.values()), result


def test_25_devices_and_handles(box):
    """No device node anywhere; no file by handle."""
    directory = box.directory()
    for place in ("/tmp", "/workspace", "/dev/shm", "/home/box"):
        result = box.attack("mknod", place, options=["--mount", f"{directory}:/workspace"]).ok()
        for label, (status, _) in result.tries.items():
            assert status == ("OK" if label.endswith("fifo") else "EPERM"), f"{place} {label}: {status}"
    for place in ("/", "/workspace", "/usr", "/tmp"):
        result = box.attack("handles", place, options=["--mount", f"{directory}:/workspace"]).ok()
        assert result.status("open") == "EPERM"
        assert result.status("open.made-up") == "EPERM"


WRITE_TARGETS = [
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches",
    "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/all/forwarding",
    "/proc/sys/user/max_user_namespaces", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/fs/suid_dumpable",
    "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/kcore", "/proc/kmsg",
    "/proc/bus/pci", "/proc/1/oom_score_adj", "/proc/1/mem", "/proc/1/uid_map", "/proc/self/uid_map",
    "/proc/self/setgroups", "/proc/acpi/wakeup", "/proc/fs/jbd2",
]
MASKED = ["/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
          "/proc/sched_debug", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats"]
MASKED_DIRECTORIES = ["/proc/acpi", "/proc/asound", "/proc/scsi"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"]
ABSENT = ["/sys/kernel", "/sys/fs/cgroup", "/sys/class", "/dev/kmsg", "/dev/mem", "/dev/port", "/dev/sda", "/dev/vda",
          "/dev/loop-control", "/dev/net/tun", "/dev/fuse", "/dev/console", "/dev/kvm", "/boot/vmlinuz", "/etc/shadow",
          "/etc/sudoers", "/etc/hostname.host", "/root/.ssh", "/run/docker.sock", "/var/log", "/var/lib", "/var/spool",
          "/etc/ssh", "/etc/subuid", "/etc/crontab", "/etc/machine-id", "/lost+found", "/mnt", "/media", "/srv"]


def test_26_write_to_proc(box):
    """Settings of the host's kernel, through every name we know."""
    result = box.attack("open-write", *WRITE_TARGETS).ok()
    wrong = {label: status for label, (status, _) in result.tries.items()
             if status == "OK" and not label.startswith("/proc/self/")}
    assert not wrong, result
    # Files of one's own open, but a second map cannot be written.
    for name in ("uid_map", "gid_map", "setgroups"):
        assert box.run("--", "sh", "-c", f"echo '0 0 1' > /proc/self/{name}").returncode != 0


def test_26_nothing_in_proc_can_be_written(box):
    """Every file below /proc but the processes' own is tried."""
    result = box.run(*box.with_helper, "--", "/attack/attack", "walk-writable", "/proc").ok()
    tried = int(result.out.rsplit("TRIED ", 1)[1])
    assert tried > 100, result
    writable = [line for line in result.out.splitlines() if line.startswith("RESULT ")]
    # Anybody may ask to be told of pressure; the kernel counts it towards the one who asks.
    writable = [line for line in writable if not line.startswith("RESULT /proc/pressure/")]
    assert not writable, writable


def test_26_masked_files(box):
    """Covered: they cannot be read, or are empty."""
    result = box.attack("open-read", *MASKED, "/proc/kmsg").ok()
    for label, (status, detail) in result.tries.items():
        assert status in ("EACCES", "EPERM", "ENOENT") or detail == "bytes=0", f"{label}: {status} {detail}"
    result = box.attack("list", *MASKED_DIRECTORIES).ok()
    for label, (status, detail) in result.tries.items():
        assert status == "ENOENT" or detail == "entries=0", f"{label}: {status} {detail}"
    result = box.attack("flags", *READ_ONLY).ok()
    for label, (status, detail) in result.tries.items():
        assert detail.startswith("ro"), f"{label}: {status} {detail}"


def test_26_not_there_at_all(box):
    """/sys, the host's devices, its /etc, /var and /root."""
    result = box.attack("open-read", *ABSENT).ok()
    all_are(result, {"ENOENT", "ENOTDIR"})
    box.run("--", "sh", "-c", "[ ! -e /sys ] || [ -z \"$(ls -A /sys)\" ]").ok()


def test_26_generated_etc(box):
    """Of /etc only what is made, and what the plan names; /etc/ssl/private stays closed."""
    listed = set(box.run("--", "ls", "-A", "/etc").ok().out.split())
    made = {"passwd", "group", "hosts", "hostname", "nsswitch.conf"}
    taken = {"alternatives", "ld.so.cache", "localtime", "pki", "protocols", "services", "ssl", "fonts"}
    java = {name for name in listed if name.startswith("java-")}
    assert made <= listed and listed <= made | taken | java, listed
    assert box.run("--", "ls", "/etc/ssl/private").returncode != 0


def test_27_host_name_and_clock(box):
    """Names and time of the host are as before."""
    name, domain = os.uname().nodename, Path("/proc/sys/kernel/domainname").read_text()
    offset = time.time() - time.monotonic()
    result = box.attack("names", options=["--json"])
    all_are(result, {"EPERM"}, but={"proc.hostname", "rtc"})
    assert result.status("proc.hostname") in ("EROFS", "EACCES")
    assert result.status("rtc") == "ENOENT"
    assert {"sethostname", "setdomainname", "clock_settime", "settimeofday"} <= denied(result)
    assert os.uname().nodename == name and Path("/proc/sys/kernel/domainname").read_text() == domain
    assert abs(time.time() - time.monotonic() - offset) < 5
    # Its own name is not the host's.
    assert box.run("--", "hostname").ok().out == "box\n" != name + "\n"


def test_28_sockets_of_the_host(box):
    """An abstract socket of the host, control sockets of engines, the buses: not there."""
    token = f"boxtest-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{token}")
        server.listen()
        # It can be reached from here…
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"\0{token}")
        # …and not from there.
        paths = ["/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock",
                 "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket",
                 f"/run/user/{box.uid}/bus", "/run/systemd/private", "/run/systemd/journal/socket", "/dev/log"]
        result = box.attack("unix", f"@{token}", *paths).ok()
        assert result.status(f"@{token}") == "ECONNREFUSED"
        for path in paths:
            assert result.status(path) == "ENOENT", path
        server.settimeout(5)
        server.accept()  # the test's own
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_28_socket_of_an_engine_is_not_mounted(root_box):
    """Control sockets of container engines are refused as sources, also behind a link."""
    directory = root_box.directory()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "docker.sock"))
        os.symlink(directory / "docker.sock", directory / "harmless")
        for name in ("docker.sock", "harmless"):
            root_box.run("--mount", f"{directory}/{name}:/workspace/s", "--", "true").failed()
            root_box.run("--ro-path", f"{directory}/{name}", "--", "true").failed()


def test_oom_score_cannot_be_lowered(box):
    """Nobody inside makes itself the last to be killed."""
    result = box.attack("oom-score").ok()
    all_are(result, {"EACCES", "EPERM"})


def test_strict_profile_runs_ordinary_programs(box):
    """Strict is narrower, not useless."""
    script = "import threading,subprocess,sqlite3;print(subprocess.check_output(['echo','x']))"
    for profile in PROFILES:
        assert box.run("--seccomp", profile, "--", "python3", "-c", script).ok().out == "b'x\\n'\n"
