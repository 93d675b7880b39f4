/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on the kernel's surface: system calls that a sandbox must not have. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* Same number on every architecture from 424 on; older headers do not have them all. */
enum {
    CALL_OPEN_TREE = 428,
    CALL_MOVE_MOUNT = 429,
    CALL_FSOPEN = 430,
    CALL_FSCONFIG = 431,
    CALL_FSMOUNT = 432,
    CALL_FSPICK = 433,
    CALL_CLONE3 = 435,
    CALL_PIDFD_GETFD = 438,
    CALL_MOUNT_SETATTR = 442,
    CALL_QUOTACTL_FD = 443,
    CALL_OPEN_TREE_ATTR = 467,
    CALL_UNKNOWN = 1000,
};

struct flag {
    const char *name;
    unsigned long value;
};

static const struct flag namespaces[] = {
    {"user", CLONE_NEWUSER},     {"mnt", CLONE_NEWNS},  {"pid", CLONE_NEWPID},
    {"net", CLONE_NEWNET},       {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS},
    {"cgroup", CLONE_NEWCGROUP},
};

/* In a child of its own, so that a try that works does not change the next. */
static long in_child(long (*try)(const void *), const void *argument)
{
    int errnum = 0;
    int status;
    pid_t pid = fork();
    if (pid < 0)
        broken("fork");
    if (pid == 0)
        _exit(try(argument) < 0 ? errno : 0);
    waitpid(pid, &status, 0);
    errnum = WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
    errno = errnum;
    return errnum ? -1 : 0;
}

static long try_unshare(const void *flag)
{
    return syscall(SYS_unshare, *(const unsigned long *)flag);
}

/* The new process leaves at once. */
static long try_clone(const void *flag)
{
    long pid = syscall(SYS_clone, *(const unsigned long *)flag | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid;
}

static long try_clone3(const void *flag)
{
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } args = {.flags = *(const unsigned long *)flag, .exit_signal = SIGCHLD};
    long pid = syscall(CALL_CLONE3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    return pid;
}

static long try_setns(const void *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", (const char *)name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : syscall(SYS_setns, fd, 0);
}

static int attack_namespaces(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < LENGTH(namespaces); i++) {
        const unsigned long value = namespaces[i].value;
        const unsigned long high = value | 1UL << 40;
        result(in_child(try_unshare, &value), "unshare.%s", namespaces[i].name);
        result(in_child(try_unshare, &high), "unshare.high.%s", namespaces[i].name);
        result(in_child(try_clone, &value), "clone.%s", namespaces[i].name);
        result(in_child(try_clone, &high), "clone.high.%s", namespaces[i].name);
        result(in_child(try_clone3, &value), "clone3.%s", namespaces[i].name);
        result(in_child(try_setns, namespaces[i].name), "setns.%s", namespaces[i].name);
    }
    const unsigned long none = 0;
    result(in_child(try_clone3, &none), "clone3.plain");
    result(in_child(try_clone, &none), "clone.plain");
    return 0;
}

static int attack_mounts(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct {
        uint64_t set, clear, propagation, userns;
    } attr = {0};
    result(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL), "mount.tmpfs");
    result(syscall(SYS_mount, "/usr", "/tmp", NULL, 4096 /* bind */, NULL), "mount.bind");
    result(syscall(SYS_mount, NULL, "/usr", NULL, 32 | 4096 /* remount */, NULL), "mount.remount");
    result(syscall(SYS_mount, "proc", "/tmp", "proc", 0, NULL), "mount.proc");
    result(syscall(SYS_mount, "x", "/tmp", "overlay", 0, "lowerdir=/,upperdir=/tmp,workdir=/tmp"),
           "mount.overlay");
    result(syscall(SYS_umount2, "/proc", 2 /* detach */), "umount");
    result(syscall(SYS_umount2, "/proc/kcore", 0), "umount.mask");
    result(syscall(SYS_pivot_root, "/tmp", "/tmp"), "pivot_root");
    result(syscall(SYS_chroot, "/tmp"), "chroot");
    result(syscall(CALL_FSOPEN, "tmpfs", 0), "fsopen");
    result(syscall(CALL_FSPICK, AT_FDCWD, "/", 0), "fspick");
    result(syscall(CALL_FSCONFIG, 0, 6, NULL, NULL, 0), "fsconfig");
    result(syscall(CALL_FSMOUNT, 0, 0, 0), "fsmount");
    result(syscall(CALL_OPEN_TREE, AT_FDCWD, "/", 1 /* clone */), "open_tree");
    result(syscall(CALL_OPEN_TREE_ATTR, AT_FDCWD, "/", 1, &attr, sizeof attr), "open_tree_attr");
    result(syscall(CALL_MOVE_MOUNT, AT_FDCWD, "/tmp", AT_FDCWD, "/home", 0), "move_mount");
    result(syscall(CALL_MOUNT_SETATTR, AT_FDCWD, "/", 0, &attr, sizeof attr), "mount_setattr");
    return 0;
}

static int attack_cgroups(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const char *const options[] = {"memory", "rdma", "devices", "none,name=boxtest"};
    mkdir("/tmp/cgroup", 0700);
    for (size_t i = 0; i < LENGTH(options); i++)
        result(syscall(SYS_mount, "cgroup", "/tmp/cgroup", "cgroup", 0, options[i]), "mount.v1.%s",
               options[i]);
    result(syscall(SYS_mount, "cgroup2", "/tmp/cgroup", "cgroup2", 0, NULL), "mount.v2");
    result(open("/tmp/cgroup/release_agent", O_WRONLY | O_CLOEXEC), "release_agent");
    result(open("/sys/fs/cgroup/cgroup.procs", O_WRONLY | O_CLOEXEC), "sys.procs");
    result(open("/sys/fs/cgroup/memory/tasks", O_WRONLY | O_CLOEXEC), "sys.tasks");
    result(mkdir("/sys/fs/cgroup/boxtest", 0755), "sys.mkdir");
    return 0;
}

/* On standard input, which should be a terminal: on anything else these prove nothing. */
static int attack_ioctls(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    char key = 'x';
    int discipline = 0;
    char linux_request[2] = {3, 0}; /* TIOCL_PASTESEL */
    const struct {
        const char *name;
        unsigned long number;
        void *argument;
    } tries[] = {{"TIOCSTI", 0x5412, &key},
                 {"TIOCLINUX", 0x541c, linux_request},
                 {"TIOCSETD", 0x5423, &discipline}};
    result(isatty(0) ? 0 : -1, "isatty");
    for (size_t i = 0; i < LENGTH(tries); i++) {
        result(syscall(SYS_ioctl, 0, tries[i].number, tries[i].argument), "%s", tries[i].name);
        result(syscall(SYS_ioctl, 0, tries[i].number | 1UL << 32, tries[i].argument), "%s.high",
               tries[i].name);
        result(syscall(SYS_ioctl, 0, tries[i].number | 0xffffffff00000000UL, tries[i].argument),
               "%s.negative", tries[i].name);
    }
    return 0;
}

#ifdef __x86_64__
static long i386_call(long number, long a)
{
    long rc;
    __asm__ volatile("int $0x80" : "=a"(rc) : "a"(number), "b"(a) : "memory");
    return rc;
}

static long x32_call(long number, long a)
{
    long rc;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(number | 0x40000000), "D"(a)
                     : "rcx", "r11", "memory");
    return rc;
}

/* A child tells apart what was refused, what was done, and what killed it. */
static void try_foreign(const char *label, long (*call)(long, long), long number, long argument)
{
    int status;
    pid_t pid = fork();
    if (pid < 0)
        broken("fork");
    if (pid == 0) {
        long rc = call(number, argument);
        _exit(rc >= 0 ? 0 : rc > -200 ? (int)-rc : 200);
    }
    waitpid(pid, &status, 0);
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (WIFSIGNALED(status))
        printf("RESULT %s SIGNAL-%d\n", label, WTERMSIG(status));
    else
        result(errno ? -1 : 0, "%s", label);
}

static int attack_foreign_abi(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fflush(stdout);
    try_foreign("i386.getpid", i386_call, 20, 0);
    try_foreign("i386.unshare", i386_call, 310, CLONE_NEWUSER);
    try_foreign("i386.umask", i386_call, 60, 022);
    try_foreign("x32.getpid", x32_call, SYS_getpid, 0);
    try_foreign("x32.unshare", x32_call, SYS_unshare, CLONE_NEWUSER);
    try_foreign("x32.umask", x32_call, SYS_umask, 022);
    return 0;
}
#else
static int attack_foreign_abi(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("UNSUPPORTED architecture");
    return 0;
}
#endif

/* Every family, every netlink protocol, raw sockets; high bits set where a filter might miss it. */
static int attack_sockets(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
    int pair[2];
    for (long family = 0; family < 48; family++) {
        long rc = -1;
        int errnum = EAFNOSUPPORT;
        /* The most telling answer of all types: a wrong one is EPROTONOSUPPORT in any kernel. */
        for (size_t i = 0; i < LENGTH(types) && rc < 0; i++) {
            rc = syscall(SYS_socket, family, types[i] | SOCK_CLOEXEC, 0);
            if (rc < 0 && errno != EAFNOSUPPORT)
                errnum = errno;
        }
        errno = errnum;
        result(rc, "family.%ld", family);
        result(syscall(SYS_socket, family | 1L << 32, SOCK_DGRAM | SOCK_CLOEXEC, 0),
               "family.high.%ld", family);
        result(syscall(SYS_socketpair, family, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "pair.%ld",
               family);
    }
    for (long protocol = 0; protocol < 24; protocol++) {
        result(syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), "netlink.%ld",
               protocol);
        result(syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol | 1L << 32),
               "netlink.high.%ld", protocol);
    }
    result(syscall(SYS_socket, AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1), "raw.inet");
    result(syscall(SYS_socket, AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 58), "raw.inet6");
    return 0;
}

struct call {
    const char *name;
    long number;
};

/* With arguments that would do no harm where they worked, so that it is the filter's answer we see:
   most are refused with the same errno by a kernel for want of a capability, hence the names of
   denied calls in box's own report, which the test compares. */
static const struct call denied_calls[] = {
    {"bpf", SYS_bpf},
    {"perf_event_open", SYS_perf_event_open},
    {"userfaultfd", SYS_userfaultfd},
    {"keyctl", SYS_keyctl},
    {"add_key", SYS_add_key},
    {"request_key", SYS_request_key},
    {"kexec_load", SYS_kexec_load},
    {"kexec_file_load", SYS_kexec_file_load},
    {"init_module", SYS_init_module},
    {"finit_module", SYS_finit_module},
    {"delete_module", SYS_delete_module},
    {"quotactl", SYS_quotactl},
    {"quotactl_fd", CALL_QUOTACTL_FD},
    {"acct", SYS_acct},
    {"swapon", SYS_swapon},
    {"swapoff", SYS_swapoff},
    {"reboot", SYS_reboot},
    {"syslog", SYS_syslog},
    {"vhangup", SYS_vhangup},
    {"settimeofday", SYS_settimeofday},
    {"clock_settime", SYS_clock_settime},
    {"sethostname", SYS_sethostname},
    {"setdomainname", SYS_setdomainname},
    {"fanotify_init", SYS_fanotify_init},
    {"open_by_handle_at", SYS_open_by_handle_at},
#ifdef __x86_64__
    {"iopl", SYS_iopl},
    {"ioperm", SYS_ioperm},
    {"modify_ldt", SYS_modify_ldt},
    {"uselib", SYS_uselib},
    {"ustat", SYS_ustat},
    {"sysfs", SYS_sysfs},
#endif
    {"io_uring_setup", 425},
    {"io_uring_enter", 426},
    {"io_uring_register", 427},
    {"unknown", CALL_UNKNOWN},
};

static int attack_syscalls(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < LENGTH(denied_calls); i++)
        result(syscall(denied_calls[i].number, -1L, -1L, -1L, -1L, -1L, -1L), "%s",
               denied_calls[i].name);
    return 0;
}

/* A listener of one's own could answer "go on" to what the sandbox's filter refuses. */
static int attack_listener(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = 1, .filter = code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    result(
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program),
        "listener");
    result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                   SECCOMP_FILTER_FLAG_NEW_LISTENER | 1UL << 32, &program),
           "listener.high");
    result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "filter");
    return 0;
}

static int attack_personality(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    result(syscall(SYS_personality, 0xffffffffUL), "query");
    result(syscall(SYS_personality, READ_IMPLIES_EXEC), "read-implies-exec");
    result(syscall(SYS_personality, ADDR_NO_RANDOMIZE), "no-randomize");
    result(syscall(SYS_personality, ADDR_NO_RANDOMIZE | 1UL << 32), "no-randomize.high");
    return 0;
}

/* Host name and clock. The clock is set to what it says: no harm where that works. */
static int attack_names(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    result(syscall(SYS_sethostname, "attacked", 8L), "sethostname");
    result(syscall(SYS_setdomainname, "attacked", 8L), "setdomainname");
    result(syscall(SYS_clock_settime, CLOCK_REALTIME, &now), "clock_settime");
    result(syscall(SYS_settimeofday, &(long[2]){now.tv_sec, 0}, NULL), "settimeofday");
    struct {
        unsigned modes;
        char rest[252];
    } adjust = {.modes = 0x1000 /* resolution, to microseconds */};
    result(syscall(SYS_adjtimex, &adjust), "adjtimex");
    result(open("/proc/sys/kernel/hostname", O_WRONLY | O_CLOEXEC), "proc.hostname");
    result(open("/dev/rtc0", O_RDWR | O_CLOEXEC), "rtc");
    return 0;
}

const struct attack attacks_kernel[] = {
    {"namespaces", attack_namespaces, ""},
    {"mounts", attack_mounts, ""},
    {"cgroups", attack_cgroups, ""},
    {"ioctls", attack_ioctls, "on a terminal"},
    {"foreign-abi", attack_foreign_abi, ""},
    {"sockets", attack_sockets, ""},
    {"syscalls", attack_syscalls, ""},
    {"listener", attack_listener, ""},
    {"personality", attack_personality, ""},
    {"names", attack_names, ""},
    {0},
};
