/* SPDX-License-Identifier: Apache-2.0 */
/* The system call policy: the table is complete, the programs say what it says for hostile
   arguments, and the kernel does what the programs say.

   Verdicts are read by a small interpreter of the BPF that such programs consist of, so that they
   can be asked about calls nobody would want to make; a handful is then made for real, under the
   filter. The numbers in comments are those of the catalogue of attacks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fd.h"
#include "sandbox/seccomp.h"
#include "sandbox/seccomp-policy.h"

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define HIGH     0xdeadbeef00000000ull /* bits of an argument that the kernel does not look at */
#define X32      0x40000000u
#define CALL_END 1100 /* past every number there is */

#define ALLOW  VERDICT_ALLOW
#define NOTIFY VERDICT_NOTIFY
#define FAIL   VERDICT_FAIL
#define ALL(v)  \
    {           \
        v, v, v \
    }

/* ---- An interpreter for filter programs ---- */

static uint32_t interpret(const struct sock_filter *code, size_t count,
                          const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t pc = 0; pc < count; pc++) {
        const struct sock_filter *f = &code[pc];
        bool jump = false;
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(f->k + sizeof(a) <= sizeof(*data));
            memcpy(&a, (const char *)data + f->k, sizeof(a));
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f->k;
            continue;
        case BPF_JMP | BPF_JEQ | BPF_K:
            jump = a == f->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            jump = a >= f->k;
            break;
        case BPF_RET | BPF_K:
            return f->k;
        default:
            fail_msg("instruction %zu has the unexpected code %#x", pc, f->code);
        }
        pc += jump ? f->jt : f->jf;
    }
    fail_msg("ran off the end of the program");
    return 0;
}

static uint32_t verdict_for(enum seccomp_profile profile, uint32_t arch, uint32_t number,
                            const uint64_t args[6])
{
    struct seccomp_data data = {.nr = (int)number, .arch = arch};
    memcpy(data.args, args, sizeof(data.args));
    size_t count;
    const struct sock_filter *code = seccomp_program(profile, &count);
    return interpret(code, count, &data);
}

/* ---- The table ---- */

struct entry {
    char name[32];
    int number; /* on this architecture, or negative */
    const struct seccomp_rule *const *rules;
};

static struct entry entries[CALL_END];
static size_t entry_count;

static int load_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(seccomp_policy); i++) {
        struct seccomp_call call;
        const char *rest = seccomp_policy[i].calls;
        while ((rest = seccomp_call_next(rest, &call)) != NULL) {
            struct entry *e = &entries[entry_count++];
            strcpy(e->name, call.name);
            e->number = seccomp_syscall_resolve_name_arch(NATIVE, call.name);
            if (e->number < 0 && (call.number >= 424 || NATIVE == AUDIT_ARCH_X86_64))
                e->number = call.number;
            e->rules = seccomp_class_rules[seccomp_policy[i].class];
        }
        assert_int_equal(
            strlen(seccomp_policy[i].calls),
            strspn(seccomp_policy[i].calls, "abcdefghijklmnopqrstuvwxyz_0123456789: "));
    }
    return 0;
}

static const struct entry *find_name(const char *name)
{
    for (size_t i = 0; i < entry_count; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

static const struct entry *find_number(int number)
{
    for (size_t i = 0; i < entry_count; i++)
        if (entries[i].number == number)
            return &entries[i];
    return NULL;
}

static void test_no_duplicates(void **state)
{
    (void)state;
    for (size_t i = 0; i < entry_count; i++)
        if (find_name(entries[i].name) != &entries[i] ||
            (entries[i].number >= 0 && find_number(entries[i].number) != &entries[i]))
            fail_msg("%s is there twice", entries[i].name);
}

/* Nothing is left undecided by accident: what should fail with ENOSYS is listed as ABSENT. */
static void test_complete(void **state)
{
    (void)state;
    static const uint32_t arches[] = {SCMP_ARCH_X86_64, SCMP_ARCH_AARCH64};
    for (size_t a = 0; a < ARRAY_SIZE(arches); a++)
        for (int i = 0; i < CALL_END; i++) {
            char *name = seccomp_syscall_resolve_num_arch(arches[a], i);
            if (name != NULL && find_name(name) == NULL)
                fail_msg("%s is not in the policy", name);
            free(name);
        }
}

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < entry_count; i++)
        if (entries[i].number >= 0)
            assert_string_equal(seccomp_syscall_name(entries[i].number), entries[i].name);
    assert_null(seccomp_syscall_name(-1));
    assert_null(seccomp_syscall_name(400));
    assert_null(seccomp_syscall_name(100000));
    for (int p = 0; p < SECCOMP_PROFILE_MAX; p++)
        assert_int_equal(seccomp_profile_from_name(seccomp_profile_name(p)), p);
    assert_int_equal(seccomp_profile_from_name("Default"), SECCOMP_PROFILE_INVALID);
    assert_int_equal(seccomp_profile_from_name(""), SECCOMP_PROFILE_INVALID);
    assert_null(seccomp_profile_name(SECCOMP_PROFILE_INVALID));
    assert_null(seccomp_profile_name(SECCOMP_PROFILE_MAX));
}

/* ---- The programs ---- */

/* What the table says without looking at arguments, the programs say whatever the arguments; and
   what it does not name, or another architecture asks for, does not exist. */
static void test_every_number(void **state)
{
    (void)state;
    static const uint64_t patterns[][6] = {
        {0}, {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull}, {1, 2, 3, 4, 5, 6}};
    for (int p = 0; p < SECCOMP_PROFILE_MAX; p++)
        for (int i = 0; i < CALL_END; i++)
            for (size_t k = 0; k < ARRAY_SIZE(patterns); k++) {
                const struct entry *e = find_number(i);
                const struct seccomp_rule *rule = e != NULL ? e->rules[p] : &rule_absent;
                if (rule->test_count == 0)
                    assert_int_equal(verdict_for(p, NATIVE, (uint32_t)i, patterns[k]),
                                     rule->verdict);
                assert_int_equal(verdict_for(p, AUDIT_ARCH_I386, (uint32_t)i, patterns[k]),
                                 FAIL(ENOSYS)); /* 21 */
                assert_int_equal(verdict_for(p, AUDIT_ARCH_ARM, (uint32_t)i, patterns[k]),
                                 FAIL(ENOSYS));
                assert_int_equal(verdict_for(p, NATIVE, (uint32_t)i | X32, patterns[k]),
                                 FAIL(ENOSYS)); /* 21 */
                assert_int_equal(verdict_for(p, NATIVE, (uint32_t)i | 0x80000000u, patterns[k]),
                                 FAIL(ENOSYS));
            }
}

/* clang-format off */
static const struct {
    const char *call;
    uint64_t args[6];
    uint32_t verdict[SECCOMP_PROFILE_MAX]; /* default, strict, dev */
} cases[] = {
    /* 17: namespaces */
    {"unshare", {CLONE_NEWUSER}, ALL(NOTIFY)},
    {"setns", {3, CLONE_NEWUSER}, ALL(NOTIFY)},
    {"clone3", {0}, ALL(FAIL(ENOSYS))},
    {"clone", {SIGCHLD}, ALL(ALLOW)},
    {"clone", {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
        CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID}, ALL(ALLOW)},
    {"clone", {CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD}, ALL(ALLOW)},
    {"clone", {HIGH | SIGCHLD}, ALL(ALLOW)},
    {"clone", {CLONE_NEWUSER | SIGCHLD}, ALL(NOTIFY)},
    {"clone", {HIGH | CLONE_NEWUSER}, ALL(NOTIFY)},
    {"clone", {CLONE_NEWNS}, ALL(NOTIFY)},
    {"clone", {CLONE_NEWCGROUP}, ALL(NOTIFY)},
    {"clone", {CLONE_NEWUTS}, ALL(NOTIFY)},
    {"clone", {CLONE_NEWIPC}, ALL(NOTIFY)},
    {"clone", {CLONE_NEWPID}, ALL(NOTIFY)},
    {"clone", {CLONE_NEWNET | CLONE_VM | CLONE_VFORK}, ALL(NOTIFY)},
    /* 18, 19: mounts */
    {"mount", {0}, ALL(NOTIFY)},
    {"umount2", {0}, ALL(NOTIFY)},
    {"fsopen", {0}, ALL(NOTIFY)},
    {"fsconfig", {0}, ALL(NOTIFY)},
    {"fsmount", {0}, ALL(NOTIFY)},
    {"fspick", {0}, ALL(NOTIFY)},
    {"open_tree", {0}, ALL(NOTIFY)},
    {"open_tree_attr", {0}, ALL(NOTIFY)},
    {"move_mount", {0}, ALL(NOTIFY)},
    {"mount_setattr", {0}, ALL(NOTIFY)},
    {"pivot_root", {0}, ALL(NOTIFY)},
    {"chroot", {0}, ALL(NOTIFY)},
    /* 20: terminals; the last two as musl passes them */
    {"ioctl", {0, TIOCSTI}, ALL(NOTIFY)},
    {"ioctl", {0, HIGH | TIOCSTI}, ALL(NOTIFY)},
    {"ioctl", {0, (1ull << 32) | TIOCSTI}, ALL(NOTIFY)},
    {"ioctl", {0, TIOCLINUX}, ALL(NOTIFY)},
    {"ioctl", {0, HIGH | TIOCLINUX}, ALL(NOTIFY)},
    {"ioctl", {0, HIGH | TIOCSETD}, ALL(NOTIFY)},
    {"ioctl", {TIOCSTI, TCGETS, TIOCSTI}, ALL(ALLOW)},
    {"ioctl", {0, TIOCSCTTY}, ALL(ALLOW)},
    {"ioctl", {0, FIONREAD}, ALL(ALLOW)},
    {"ioctl", {0, TIOCGPTN}, ALL(ALLOW)},
    {"ioctl", {0, 0xffffffff00000000ull | TIOCGPTN}, ALL(ALLOW)},
    /* Leases and delegations: others would wait for them */
    {"fcntl", {3, F_SETLEASE, F_WRLCK}, ALL(NOTIFY)},
    {"fcntl", {3, HIGH | F_SETLEASE, F_UNLCK}, ALL(NOTIFY)},
    {"fcntl", {3, (1ull << 32) | 1040}, ALL(NOTIFY)},
    {"fcntl", {F_SETLEASE, F_GETLEASE, F_SETLEASE}, ALL(ALLOW)},
    {"fcntl", {3, F_DUPFD_CLOEXEC}, ALL(ALLOW)},
    {"fcntl", {3, F_SETLK}, ALL(ALLOW)},
    {"fcntl", {3, F_OFD_SETLKW}, ALL(ALLOW)},
    {"fcntl", {3, F_SETPIPE_SZ, 1 << 20}, ALL(ALLOW)},
    {"fcntl", {3, F_ADD_SEALS}, ALL(ALLOW)},
    /* 22: sockets */
    {"socket", {AF_UNIX, SOCK_STREAM, 0}, ALL(ALLOW)},
    {"socket", {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0}, ALL(ALLOW)},
    {"socket", {AF_INET, SOCK_DGRAM, IPPROTO_UDP}, ALL(ALLOW)},
    {"socket", {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}, ALL(ALLOW)},
    {"socket", {AF_INET6, SOCK_STREAM, IPPROTO_TCP}, ALL(ALLOW)},
    {"socket", {AF_INET6, SOCK_STREAM, IPPROTO_MPTCP}, ALL(ALLOW)},
    {"socket", {HIGH | AF_INET, SOCK_STREAM, HIGH}, ALL(ALLOW)},
    {"socket", {AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP}, {ALLOW, FAIL(EPROTONOSUPPORT), ALLOW}},
    {"socket", {AF_INET6, SOCK_STREAM, HIGH | 256}, {ALLOW, FAIL(EPROTONOSUPPORT), ALLOW}},
    {"socket", {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}, ALL(ALLOW)},
    {"socket", {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {AF_NETLINK, SOCK_RAW, IPPROTO_TCP}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {HIGH | AF_NETLINK, SOCK_RAW, HIGH | NETLINK_XFRM}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {AF_ALG, SOCK_SEQPACKET, 0}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {AF_VSOCK, SOCK_STREAM, 0}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {HIGH | AF_VSOCK, SOCK_STREAM, 0}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {AF_PACKET, SOCK_RAW, 0}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {AF_RXRPC, SOCK_DGRAM, 0}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {AF_UNSPEC, SOCK_STREAM, 0}, ALL(FAIL(EAFNOSUPPORT))},
    {"socket", {0xffffffff, SOCK_STREAM, 0}, ALL(FAIL(EAFNOSUPPORT))},
    {"socketpair", {AF_UNIX, SOCK_STREAM, 0}, ALL(ALLOW)},
    {"socketpair", {AF_TIPC, SOCK_STREAM, 0}, ALL(FAIL(EAFNOSUPPORT))},
    /* 23: the kernel's own */
    {"io_uring_setup", {1}, ALL(FAIL(ENOSYS))},
    {"io_uring_enter", {1}, ALL(FAIL(ENOSYS))},
    {"io_uring_register", {1}, ALL(FAIL(ENOSYS))},
    {"bpf", {0}, ALL(NOTIFY)},
    {"perf_event_open", {0}, ALL(NOTIFY)},
    {"userfaultfd", {0}, ALL(NOTIFY)},
    {"keyctl", {0}, ALL(NOTIFY)},
    {"add_key", {0}, ALL(NOTIFY)},
    {"request_key", {0}, ALL(NOTIFY)},
    {"kexec_load", {0}, ALL(NOTIFY)},
    {"kexec_file_load", {0}, ALL(NOTIFY)},
    {"init_module", {0}, ALL(NOTIFY)},
    {"finit_module", {0}, ALL(NOTIFY)},
    {"delete_module", {0}, ALL(NOTIFY)},
    {"mbind", {0}, ALL(FAIL(EPERM))},
    /* 25: devices and handles. The kernel takes 16 bits of a mode. */
    {"open_by_handle_at", {0}, ALL(NOTIFY)},
    {"mknod", {0, S_IFIFO | 0600}, ALL(ALLOW)},
    {"mknod", {0, S_IFCHR | 0600, 0x101}, ALL(NOTIFY)},
    {"mknod", {0, S_IFREG | S_ISUID | 0755}, ALL(NOTIFY)},
    {"chmod", {0, 01777}, ALL(ALLOW)},
    {"chmod", {0, S_ISUID | 0755}, ALL(NOTIFY)},
    {"fchmod", {0, HIGH | S_ISGID}, ALL(NOTIFY)},
    {"fchmodat", {0, 0, 0755}, ALL(ALLOW)},
    {"fchmodat", {0, 0, S_ISGID | 0755}, ALL(NOTIFY)},
    {"fchmodat2", {0, 0, S_ISUID}, ALL(NOTIFY)},
    {"creat", {0, S_ISUID | 0755}, ALL(NOTIFY)},
    {"open", {0, O_RDONLY, S_ISUID | 0755}, ALL(ALLOW)},
    {"open", {0, O_CREAT, 0644}, ALL(ALLOW)},
    {"open", {0, O_CREAT, S_ISUID | 0755}, ALL(NOTIFY)},
    {"openat", {0, 0, O_DIRECTORY, S_ISUID}, ALL(ALLOW)},
    {"openat", {0, 0, O_CREAT | O_WRONLY, S_ISGID}, ALL(NOTIFY)},
    {"openat", {0, 0, HIGH | O_TMPFILE | O_RDWR, HIGH | S_ISUID}, ALL(NOTIFY)},
    {"mknodat", {0, 0, 0644}, ALL(ALLOW)},
    {"mknodat", {0, 0, S_IFREG | 0644}, ALL(ALLOW)},
    {"mknodat", {0, 0, S_IFSOCK | 0644}, ALL(ALLOW)},
    {"mknodat", {0, 0, HIGH | 0xabcd0000 | S_IFIFO}, ALL(ALLOW)},
    {"mknodat", {0, 0, S_IFCHR | 0600}, ALL(NOTIFY)},
    {"mknodat", {0, 0, HIGH | 0xabcd0000 | S_IFBLK | 0600}, ALL(NOTIFY)},
    {"mknodat", {S_IFIFO, S_IFIFO, S_IFBLK, S_IFIFO}, ALL(NOTIFY)},
    /* 27: names and clocks */
    {"sethostname", {0}, ALL(NOTIFY)},
    {"clock_settime", {0}, ALL(NOTIFY)},
    {"settimeofday", {0}, ALL(NOTIFY)},
    /* What sets the profiles apart */
    {"ptrace", {0}, {NOTIFY, NOTIFY, ALLOW}},
    {"process_vm_readv", {0}, {NOTIFY, NOTIFY, ALLOW}},
    {"process_vm_writev", {0}, {NOTIFY, NOTIFY, ALLOW}},
    {"pidfd_getfd", {0}, {NOTIFY, NOTIFY, ALLOW}},
    {"io_setup", {0}, {ALLOW, NOTIFY, ALLOW}},
    {"personality", {0xffffffff}, ALL(ALLOW)},
    {"personality", {HIGH | PER_LINUX32}, {ALLOW, NOTIFY, ALLOW}},
    {"personality", {ADDR_NO_RANDOMIZE}, {NOTIFY, NOTIFY, ALLOW}},
    {"personality", {READ_IMPLIES_EXEC}, ALL(NOTIFY)},
    {"personality", {HIGH | 0x0400000 | READ_IMPLIES_EXEC}, ALL(NOTIFY)},
    /* Nested filters, but no nested listener */
    {"seccomp", {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC}, ALL(ALLOW)},
    {"seccomp", {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER}, ALL(FAIL(EBUSY))},
    {"seccomp", {1, HIGH | SECCOMP_FILTER_FLAG_NEW_LISTENER | 1}, ALL(FAIL(EBUSY))},
};
/* clang-format on */

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct entry *e = find_name(cases[i].call);
        assert_non_null(e);
        for (int p = 0; p < SECCOMP_PROFILE_MAX && e->number >= 0; p++) {
            uint32_t verdict = verdict_for(p, NATIVE, (uint32_t)e->number, cases[i].args);
            if (verdict != cases[i].verdict[p])
                fail_msg("case %zu, %s(%#llx, %#llx, %#llx) in %s: %#x instead of %#x", i,
                         cases[i].call, (unsigned long long)cases[i].args[0],
                         (unsigned long long)cases[i].args[1], (unsigned long long)cases[i].args[2],
                         seccomp_profile_name(p), verdict, cases[i].verdict[p]);
        }
    }
}

/* ---- The kernel ---- */

struct probe {
    const char *call;
    long number;
    long args[3];
    int errnum; /* expected; 0: success */
    bool notified;
};

static const struct probe probes[] = {
    {"unshare", SYS_unshare, {CLONE_NEWUSER}, EPERM, true},
    {"clone", SYS_clone, {CLONE_NEWUSER | SIGCHLD}, EPERM, true},
    {"clone3", SYS_clone3, {0}, ENOSYS, false},
    {"mount", SYS_mount, {0}, EPERM, true},
    {"fsopen", SYS_fsopen, {0}, EPERM, true},
    {"open_tree_attr", 467, {0}, EPERM, true},
    {"ioctl", SYS_ioctl, {0, (long)(HIGH | TIOCSTI)}, EPERM, true},
    {"ioctl", SYS_ioctl, {-1, TCGETS}, EBADF, false},
    {"fcntl", SYS_fcntl, {0, (long)(HIGH | F_SETLEASE), F_RDLCK}, EPERM, true},
    {"fcntl", SYS_fcntl, {-1, F_GETFD}, EBADF, false},
    {"x32 getpid", X32 | 39, {0}, ENOSYS, false},
    {"socket", SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}, EAFNOSUPPORT, false},
    {"socket", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT}, EAFNOSUPPORT, false},
    {"socket", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}, 0, false},
    {"io_uring_setup", SYS_io_uring_setup, {1, 0}, ENOSYS, false},
    {"bpf", SYS_bpf, {0}, EPERM, true},
    {"keyctl", SYS_keyctl, {0}, EPERM, true},
    {"open_by_handle_at", SYS_open_by_handle_at, {0}, EPERM, true},
    {"mknodat", SYS_mknodat, {AT_FDCWD, 0, S_IFCHR}, EPERM, true},
    {"mknodat", SYS_mknodat, {AT_FDCWD, 0, S_IFIFO}, EFAULT, false},
    {"mbind", SYS_mbind, {0}, EPERM, false},
    {"process_vm_readv", SYS_process_vm_readv, {0}, EPERM, true},
    {"seccomp",
     SYS_seccomp,
     {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER},
     EBUSY,
     false},
    {"an unknown one", 900, {0}, ENOSYS, false},
    {"getpid", SYS_getpid, {0}, 0, false},
};

struct outcome {
    int errnum;
    bool notified;
};

/* In the child: everything after the filter is on. Reports through shared memory. */
static void run_probes(struct outcome *outcomes)
{
    for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
        const long *a = probes[i].args;
        errno = 0;
        outcomes[i].errnum = syscall(probes[i].number, a[0], a[1], a[2], 0, 0, 0) < 0 ? errno : 0;
    }
}

static void *thread_main(void *arg)
{
    return arg;
}

static int filter_install(enum seccomp_profile profile)
{
    size_t count;
    const struct sock_filter *code = seccomp_program(profile, &count);
    struct sock_fprog program = {(unsigned short)count, (struct sock_filter *)(uintptr_t)code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

/* Forks a child under the filter of `profile`; it runs `body` and exits with what that returns. */
static pid_t child_start(enum seccomp_profile profile, int (*body)(void *), void *arg,
                         int *ret_listener)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int listener = filter_install(profile);
        if (listener < 0 || fd_send(pair[1], "", 1, &listener, 1) != 1)
            _exit(100);
        close(listener);
        _exit(body(arg));
    }
    close(pair[1]);
    char byte;
    size_t fds = 1;
    assert_int_equal(fd_receive(pair[0], &byte, 1, ret_listener, &fds, 0), 1);
    close(pair[0]);
    return pid;
}

/* Answers EPERM until the filter has no process left, and calls `seen` for each. */
static void listener_serve(int listener, void (*seen)(void *, int number), void *arg)
{
    struct pollfd poll_fd = {.fd = listener, .events = POLLIN};
    while (poll(&poll_fd, 1, -1) > 0 && (poll_fd.revents & POLLIN) != 0) {
        struct seccomp_notif request = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
            continue;
        seen(arg, request.data.nr);
        struct seccomp_notif_resp response = {.id = request.id, .error = -EPERM};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
    }
    close(listener);
}

static int child_status(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Notifications come in the order of the probes: the next that was not notified and has the number.
 */
static void mark_notified(void *arg, int number)
{
    struct outcome *outcomes = arg;
    for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
        if (probes[i].number == number && probes[i].notified && !outcomes[i].notified) {
            outcomes[i].notified = true;
            return;
        }
    fail_msg("%s was notified", seccomp_syscall_name(number));
}

static int body_probes(void *arg)
{
    run_probes(arg);
    pthread_t thread; /* glibc tries clone3 first */
    return pthread_create(&thread, NULL, thread_main, NULL) != 0 || pthread_join(thread, NULL) != 0;
}

static void test_kernel(void **state)
{
    (void)state;
    for (int p = SECCOMP_DEFAULT; p <= SECCOMP_STRICT; p++) {
        size_t size = sizeof(struct outcome) * ARRAY_SIZE(probes);
        struct outcome *outcomes =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(outcomes, MAP_FAILED);
        int listener;
        pid_t pid = child_start(p, body_probes, outcomes, &listener);
        listener_serve(listener, mark_notified, outcomes);
        assert_int_equal(child_status(pid), 0);
        for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
            if (outcomes[i].errnum != probes[i].errnum ||
                outcomes[i].notified != probes[i].notified)
                fail_msg("%s (probe %zu): %s, %snotified", probes[i].call, i,
                         strerror(outcomes[i].errnum), outcomes[i].notified ? "" : "not ");
        munmap(outcomes, size);
    }
}

static void count_one(void *arg, int number)
{
    (void)number;
    ++*(int *)arg;
}

static int body_ptrace(void *arg)
{
    (void)arg;
    return syscall(SYS_ptrace, 0 /* PTRACE_TRACEME */, 0, 0, 0) == 0 ? 0 : errno;
}

static void test_kernel_ptrace(void **state)
{
    (void)state;
    for (int p = 0; p < SECCOMP_PROFILE_MAX; p++) {
        int listener, notified = 0;
        pid_t pid = child_start(p, body_ptrace, NULL, &listener);
        listener_serve(listener, count_one, &notified);
        assert_int_equal(WEXITSTATUS(child_status(pid)), p == SECCOMP_DEV ? 0 : EPERM);
        assert_int_equal(notified, p == SECCOMP_DEV ? 0 : 1);
    }
}

/* Without its listener the filter denies on, and the sandboxed program cannot put itself in its
   place: it would answer its own denied calls with "let it run". */
static int body_orphan(void *arg)
{
    (void)arg;
    if (syscall(SYS_unshare, CLONE_NEWUSER) == 0 || errno != ENOSYS)
        return 1;
    struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {ARRAY_SIZE(code), code};
    long fd =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    return fd >= 0 || errno != EBUSY ? 2 : 0;
}

static void test_kernel_orphan(void **state)
{
    (void)state;
    int listener;
    pid_t pid = child_start(SECCOMP_DEV, body_orphan, NULL, &listener);
    close(listener);
    assert_int_equal(child_status(pid), 0);
}

#ifdef __x86_64__
/* 21: getpid by the 32-bit gate, from a 64-bit program. */
static int body_i386(void *arg)
{
    (void)arg;
    long result = 20;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return (int)result == -ENOSYS ? 0 : 1;
}

static void test_kernel_i386(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        long result = 20;
        __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        _exit(0);
    }
    if (WIFSIGNALED(child_status(pid))) {
        print_message("skipped: this kernel has no 32-bit system calls\n");
        skip();
    }
    int listener, notified = 0;
    pid = child_start(SECCOMP_DEFAULT, body_i386, NULL, &listener);
    listener_serve(listener, count_one, &notified);
    assert_int_equal(child_status(pid), 0);
    assert_int_equal(notified, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_duplicates), cmocka_unit_test(test_complete),
        cmocka_unit_test(test_names),         cmocka_unit_test(test_every_number),
        cmocka_unit_test(test_cases),         cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_kernel_ptrace), cmocka_unit_test(test_kernel_orphan),
#ifdef __x86_64__
        cmocka_unit_test(test_kernel_i386),
#endif
    };
    return cmocka_run_group_tests(tests, load_table, NULL);
}
