/* SPDX-License-Identifier: Apache-2.0 */
/* The system call policy as data: every call by name, its class, and what a class means in each
   profile. Read by tools/gen-seccomp.c, which makes programs of it, and by its unit test; nothing
   else includes it.

   The basis is Docker's default allow-list as it applies to a process with no capability, plus
   Flatpak's rules on socket families and terminal ioctls. Deliberately different from Docker:

     narrower  ptrace and process_vm_* only in `dev`: inside a sandbox every process has the same
               user, so whoever may trace may also steer what boxd itself runs there. Debuggers are
               what `dev` is for. (Docker allows it because since Linux 4.8 a tracer can no longer
               change a call after the filter has seen it; that is a statement about the filter, not
               about the neighbours.)
               modify_ldt: what needs it is 16- and 32-bit code, which cannot run here anyhow.
               fanotify_mark, useless without fanotify_init. Device nodes. TIOCSETD, which loads
               line discipline modules on demand. Nested seccomp listeners (see args_listener).
               Set-user-ID and set-group-ID bits (see args_chmod). Leases (see args_fcntl).
     wider     process_madvise: allocators call it on themselves, others' memory needs a capability.
               uprobe, as uretprobe: put into a program by the kernel, when the host traces it.

   A call that is not below at all fails with ENOSYS, so a kernel's new calls are off until somebody
   has thought about them. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/mem.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the constants below (ioctls, clone's arguments) were checked for x86-64 and arm64 only"
#endif

/* What becomes of a call. The filter never kills: 0 would be SECCOMP_RET_KILL_THREAD, so it is free
   to mean "go on to the next test". */
#define VERDICT_NEXT    0u
#define VERDICT_ALLOW   SECCOMP_RET_ALLOW
#define VERDICT_NOTIFY  SECCOMP_RET_USER_NOTIF /* the listener reports it and answers EPERM */
#define VERDICT_FAIL(e) (SECCOMP_RET_ERRNO | (e))

/* One look at an argument: are the low 32 bits, masked, among the values? Every argument tested
   below is an int or narrower to the kernel, so the high 32 bits must not count: a caller is free
   to set them (CVE-2019-10063), and musl does, by sign extension, on ioctls of the _IOR kind. */
#define SECCOMP_TEST_VALUES 9
struct seccomp_test {
    unsigned arg;
    uint32_t mask;
    size_t count;
    uint32_t values[SECCOMP_TEST_VALUES];
    uint32_t match;     /* verdict if it is, or VERDICT_NEXT */
    uint32_t otherwise; /* verdict if it is not, or VERDICT_NEXT */
};

/* Tests in order, then the verdict for what passed them all. */
struct seccomp_rule {
    const struct seccomp_test *tests;
    size_t test_count;
    uint32_t verdict;
};

#define ANY_BIT 0xffffffffu

/* clang-format off */
#define VALUES(...) ARRAY_SIZE(((uint32_t[]){__VA_ARGS__})), {__VA_ARGS__}

static const struct seccomp_test args_clone[] = {
    /* CLONE_NEWTIME is missing because clone(2) has no such flag: its bit is part of the exit signal. */
    {0, CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
        CLONE_NEWNET, VALUES(0), VERDICT_ALLOW, VERDICT_NOTIFY},
};

static const struct seccomp_test args_ioctl[] = {
    {1, ANY_BIT, VALUES(TIOCSTI, TIOCLINUX, TIOCSETD), VERDICT_NOTIFY, VERDICT_ALLOW},
};

/* A lease makes others wait who open the file, for 45 seconds as the kernel comes: root, and boxd, in a
   directory of the host that is mounted writable. A delegation (Linux 6.19) does it to whole directories.
   File servers use them, and can do without. */
#define SET_DELEGATION 1040 /* F_SETDELEG */

static const struct seccomp_test args_fcntl[] = {
    {1, ANY_BIT, VALUES(F_SETLEASE, SET_DELEGATION), VERDICT_NOTIFY, VERDICT_ALLOW},
};

/* Other families get the answer of a kernel that was built without them. A protocol of 0 is
   NETLINK_ROUTE. */
static const struct seccomp_test args_socket[] = {
    {0, ANY_BIT, VALUES(AF_UNIX, AF_INET, AF_INET6), VERDICT_ALLOW, VERDICT_NEXT},
    {0, ANY_BIT, VALUES(AF_NETLINK), VERDICT_NEXT, VERDICT_FAIL(EAFNOSUPPORT)},
    {2, ANY_BIT, VALUES(NETLINK_ROUTE), VERDICT_ALLOW, VERDICT_FAIL(EAFNOSUPPORT)},
};

/* Strict: the INET families without the protocols (SCTP, DCCP, SMC, L2TP, …) for which the kernel would
   load a module at anybody's request. MPTCP stays: Go listens with it. */
static const struct seccomp_test args_socket_strict[] = {
    {0, ANY_BIT, VALUES(AF_UNIX), VERDICT_ALLOW, VERDICT_NEXT},
    {0, ANY_BIT, VALUES(AF_INET, AF_INET6, AF_NETLINK), VERDICT_NEXT, VERDICT_FAIL(EAFNOSUPPORT)},
    {2, ANY_BIT, VALUES(0), VERDICT_ALLOW, VERDICT_NEXT},
    {0, ANY_BIT, VALUES(AF_NETLINK), VERDICT_FAIL(EAFNOSUPPORT), VERDICT_NEXT},
    {2, ANY_BIT, VALUES(IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6, IPPROTO_MPTCP),
        VERDICT_ALLOW, VERDICT_FAIL(EPROTONOSUPPORT)},
};

#define PERSONALITY_QUERY 0xffffffffu
#define PERSONALITY_USUAL PER_LINUX, PER_LINUX32, UNAME26, UNAME26 | PER_LINUX32, PERSONALITY_QUERY

static const struct seccomp_test args_personality[] = {
    {0, ANY_BIT, VALUES(PERSONALITY_USUAL), VERDICT_ALLOW, VERDICT_NOTIFY},
};

static const struct seccomp_test args_personality_strict[] = {
    {0, ANY_BIT, VALUES(PERSONALITY_QUERY), VERDICT_ALLOW, VERDICT_NOTIFY},
};

/* gdb and setarch -R turn address randomisation off. */
static const struct seccomp_test args_personality_dev[] = {
    {0, ANY_BIT, VALUES(PERSONALITY_USUAL, ADDR_NO_RANDOMIZE, ADDR_NO_RANDOMIZE | PER_LINUX32,
        ADDR_NO_RANDOMIZE | UNAME26, ADDR_NO_RANDOMIZE | UNAME26 | PER_LINUX32),
        VERDICT_ALLOW, VERDICT_NOTIFY},
};

/* No set-user-ID or set-group-ID bits: /workspace may be a directory of the host, whose files belong to its
   owner there, and a file that runs as its owner must not be left behind for the host to trip over. The
   mode of openat2 lies in memory that a filter cannot read, so openat2 is absent. */
#define SETID         (S_ISUID | S_ISGID)
#define O_TMPFILE_BIT (O_TMPFILE & ~O_DIRECTORY)

static const struct seccomp_test args_chmod[] = {
    {1, SETID, VALUES(0), VERDICT_ALLOW, VERDICT_NOTIFY},
};

static const struct seccomp_test args_chmodat[] = {
    {2, SETID, VALUES(0), VERDICT_ALLOW, VERDICT_NOTIFY},
};

/* The mode counts only when a file may be made. */
static const struct seccomp_test args_open[] = {
    {1, O_CREAT | O_TMPFILE_BIT, VALUES(0), VERDICT_ALLOW, VERDICT_NEXT},
    {2, SETID, VALUES(0), VERDICT_ALLOW, VERDICT_NOTIFY},
};

static const struct seccomp_test args_openat[] = {
    {2, O_CREAT | O_TMPFILE_BIT, VALUES(0), VERDICT_ALLOW, VERDICT_NEXT},
    {3, SETID, VALUES(0), VERDICT_ALLOW, VERDICT_NOTIFY},
};

/* Regular files (0 means the same), FIFOs, sockets. */
static const struct seccomp_test args_mknod[] = {
    {1, S_IFMT | SETID, VALUES(0, S_IFREG, S_IFIFO, S_IFSOCK), VERDICT_ALLOW, VERDICT_NOTIFY},
};

static const struct seccomp_test args_mknodat[] = {
    {2, S_IFMT | SETID, VALUES(0, S_IFREG, S_IFIFO, S_IFSOCK), VERDICT_ALLOW, VERDICT_NOTIFY},
};

/* A filter put on top of this one can only take away, with one exception: where two filters notify, the
   newer one's listener decides, and it may answer "let it run". The kernel allows one listener in a
   chain, but forgets ours when its fd is closed (a crash of whoever held it), and from then on a program
   could bring its own and wave every denied call through. So nobody may, and the answer is the kernel's
   own for a second listener. Not notified: an errno outranks whatever a later filter says. */
static const struct seccomp_test args_listener[] = {
    {1, SECCOMP_FILTER_FLAG_NEW_LISTENER, VALUES(0), VERDICT_ALLOW, VERDICT_FAIL(EBUSY)},
};

#define RULE(t) {.tests = t, .test_count = ARRAY_SIZE(t)}
static const struct seccomp_rule rule_allow  = {.verdict = VERDICT_ALLOW};
static const struct seccomp_rule rule_deny   = {.verdict = VERDICT_NOTIFY};
static const struct seccomp_rule rule_quiet  = {.verdict = VERDICT_FAIL(EPERM)};
static const struct seccomp_rule rule_absent = {.verdict = VERDICT_FAIL(ENOSYS)};
static const struct seccomp_rule rule_clone              = RULE(args_clone);
static const struct seccomp_rule rule_ioctl              = RULE(args_ioctl);
static const struct seccomp_rule rule_fcntl              = RULE(args_fcntl);
static const struct seccomp_rule rule_socket             = RULE(args_socket);
static const struct seccomp_rule rule_socket_strict      = RULE(args_socket_strict);
static const struct seccomp_rule rule_personality        = RULE(args_personality);
static const struct seccomp_rule rule_personality_strict = RULE(args_personality_strict);
static const struct seccomp_rule rule_personality_dev    = RULE(args_personality_dev);
static const struct seccomp_rule rule_chmod              = RULE(args_chmod);
static const struct seccomp_rule rule_chmodat            = RULE(args_chmodat);
static const struct seccomp_rule rule_open               = RULE(args_open);
static const struct seccomp_rule rule_openat             = RULE(args_openat);
static const struct seccomp_rule rule_mknod              = RULE(args_mknod);
static const struct seccomp_rule rule_mknodat            = RULE(args_mknodat);
static const struct seccomp_rule rule_listener           = RULE(args_listener);
#undef RULE

/* The kernel answers calls that are allowed whatever their arguments from a bitmap, without running the
   filter; so ALLOW for all that programs do often, and tests only where there is no other way. */
#define SECCOMP_CLASSES(X)                                                                    \
    /* class       default      strict              dev */                                    \
    X(ALLOW,       allow,       allow,              allow)                                    \
    X(DENY,        deny,        deny,               deny)                                     \
    X(QUIET,       quiet,       quiet,              quiet)  /* denied, and ordinary */        \
    X(ABSENT,      absent,      absent,             absent) /* as if never implemented */     \
    X(TRACE,       deny,        deny,               allow)  /* reaches into a process */      \
    X(RARE,        allow,       deny,               allow)  /* surface few programs need */   \
    X(CLONE,       clone,       clone,              clone)                                    \
    X(IOCTL,       ioctl,       ioctl,              ioctl)                                    \
    X(FCNTL,       fcntl,       fcntl,              fcntl)                                    \
    X(SOCKET,      socket,      socket_strict,      socket)                                   \
    X(PERSONALITY, personality, personality_strict, personality_dev)                          \
    X(CHMOD,       chmod,       chmod,              chmod)                                    \
    X(CHMODAT,     chmodat,     chmodat,            chmodat)                                  \
    X(OPEN,        open,        open,               open)                                     \
    X(OPENAT,      openat,      openat,             openat)                                   \
    X(MKNOD,       mknod,       mknod,              mknod)                                    \
    X(MKNODAT,     mknodat,     mknodat,            mknodat)                                  \
    X(LISTENER,    listener,    listener,           listener)

enum seccomp_class {
#define X(name, a, b, c) SECCOMP_CLASS_##name,
    SECCOMP_CLASSES(X)
#undef X
    SECCOMP_CLASS_MAX,
};

/* [class][profile], in the order of SECCOMP_PROFILES */
static const struct seccomp_rule *const seccomp_class_rules[SECCOMP_CLASS_MAX][3] = {
#define X(name, in_default, in_strict, in_dev) {&rule_##in_default, &rule_##in_strict, &rule_##in_dev},
    SECCOMP_CLASSES(X)
#undef X
};

/* Names separated by spaces. "name:number" for calls newer than the libseccomp that may be found at build
   time: from 424 on a call has one number on all architectures, below that it is x86-64's. */
struct seccomp_group {
    enum seccomp_class class;
    const char *calls;
};

static const struct seccomp_group seccomp_policy[] = {

    /* Files and directories */
    {SECCOMP_CLASS_ALLOW,
     "access chdir chown close close_range copy_file_range dup dup2 dup3 faccessat faccessat2 "
     "fadvise64 fallocate fchdir fchown fchownat fdatasync flock fstat "
     "fstatfs fsync ftruncate futimesat getcwd getdents getdents64 lchown link linkat lseek lstat mkdir "
     "mkdirat newfstatat pipe pipe2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 "
     "read readahead readlink readlinkat readv rename renameat renameat2 rmdir sendfile splice stat statfs "
     "statx symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime "
     "utimensat utimes write writev cachestat:451"},
    {SECCOMP_CLASS_ALLOW,
     "fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr lremovexattr "
     "lsetxattr removexattr setxattr setxattrat:463 getxattrat:464 listxattrat:465 removexattrat:466"},
    {SECCOMP_CLASS_ALLOW, "statmount:457 listmount:458"}, /* what /proc/self/mountinfo says */
    {SECCOMP_CLASS_ALLOW,
     "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 "
     "inotify_add_watch inotify_init inotify_init1 inotify_rm_watch poll ppoll pselect6 select signalfd "
     "signalfd4 timerfd_create timerfd_gettime timerfd_settime"},
    {SECCOMP_CLASS_IOCTL, "ioctl"},
    {SECCOMP_CLASS_FCNTL, "fcntl"},
    {SECCOMP_CLASS_CHMOD, "chmod creat fchmod"},
    {SECCOMP_CLASS_CHMODAT, "fchmodat fchmodat2:452"},
    {SECCOMP_CLASS_OPEN, "open"},
    {SECCOMP_CLASS_OPENAT, "openat"},
    {SECCOMP_CLASS_MKNOD, "mknod"},
    {SECCOMP_CLASS_MKNODAT, "mknodat"},
    {SECCOMP_CLASS_RARE,
     "io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit name_to_handle_at vmsplice"},

    /* Memory */
    {SECCOMP_CLASS_ALLOW,
     "brk madvise map_shadow_stack:453 membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect "
     "mremap mseal:462 msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise"},
    {SECCOMP_CLASS_RARE, "memfd_secret remap_file_pages"},

    /* Processes, threads, signals */
    {SECCOMP_CLASS_ALLOW,
     "arch_prctl capget capset execve execveat exit exit_group fork get_robust_list getcpu getegid geteuid "
     "getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage "
     "getsid gettid getuid ioprio_get ioprio_set kill pause pidfd_open pidfd_send_signal prctl prlimit64 "
     "process_mrelease restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo "
     "rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max "
     "sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler "
     "sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield "
     "set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setpgid setpriority setregid "
     "setresgid setresuid setreuid setrlimit setsid setuid sigaltstack sysinfo tgkill tkill uname "
     "uprobe:336 uretprobe:335 vfork wait4 waitid"},
    {SECCOMP_CLASS_ALLOW, "futex futex_requeue:456 futex_wait:455 futex_waitv futex_wake:454"},
    {SECCOMP_CLASS_CLONE, "clone"},
    {SECCOMP_CLASS_PERSONALITY, "personality"},
    /* A sandbox inside the sandbox can only have less. */
    {SECCOMP_CLASS_ALLOW, "landlock_add_rule landlock_create_ruleset landlock_restrict_self"},
    {SECCOMP_CLASS_LISTENER, "seccomp"},
    {SECCOMP_CLASS_TRACE, "kcmp pidfd_getfd process_vm_readv process_vm_writev ptrace"},

    /* Time. Setting the clock by adjtimex needs a capability; reading it is what it is used for. */
    {SECCOMP_CLASS_ALLOW,
     "adjtimex alarm clock_adjtime clock_getres clock_gettime clock_nanosleep getitimer getrandom "
     "gettimeofday nanosleep setitimer time timer_create timer_delete timer_getoverrun timer_gettime "
     "timer_settime times"},

    /* Sockets and System V, POSIX IPC */
    {SECCOMP_CLASS_ALLOW,
     "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg "
     "sendmmsg sendmsg sendto setsockopt shutdown"},
    {SECCOMP_CLASS_SOCKET, "socket socketpair"},
    {SECCOMP_CLASS_ALLOW,
     "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd "
     "semctl semget semop semtimedop shmat shmctl shmdt shmget"},

    /* Namespaces and mounts */
    {SECCOMP_CLASS_DENY,
     "chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree open_tree_attr:467 "
     "pivot_root setns umount2 unshare"},
    /* The machine: its clock, names, modules, swap, accounting, ports, log */
    {SECCOMP_CLASS_DENY,
     "acct clock_settime delete_module finit_module init_module ioperm iopl kexec_file_load kexec_load "
     "quotactl quotactl_fd reboot setdomainname sethostname settimeofday swapoff swapon syslog vhangup"},
    /* Kernel facilities with a record of holes, not namespaced, or reaching past the mount tree */
    {SECCOMP_CLASS_DENY,
     "add_key bpf fanotify_init fanotify_mark keyctl lookup_dcookie modify_ldt open_by_handle_at "
     "perf_event_open request_key sysfs userfaultfd uselib ustat"},

    /* Placement in memory: Docker wants CAP_SYS_NICE. numpy (by OpenBLAS), libnuma and a JVM with NUMA on
       try it at every start and live with EPERM, so reporting it would be noise. */
    {SECCOMP_CLASS_QUIET,
     "get_mempolicy mbind migrate_pages move_pages set_mempolicy set_mempolicy_home_node"},

    /* glibc makes every thread by clone3, whose flags lie in memory that a filter cannot read; it takes
       ENOSYS, and only that, for a reason to use clone. Users of io_uring do likewise. */
    {SECCOMP_CLASS_ABSENT, "clone3 io_uring_enter io_uring_register io_uring_setup"},
    {SECCOMP_CLASS_ABSENT, "openat2"}, /* see args_chmod */
    /* Newer ways to ask what /proc/self/attr, ioctl and /proc/PID/ns say; callers fall back on those. */
    {SECCOMP_CLASS_ABSENT,
     "lsm_get_self_attr:459 lsm_set_self_attr:460 lsm_list_modules:461 file_getattr:468 file_setattr:469 "
     "listns:470"},
    /* Numbers with no call behind them, in any kernel that can run boxd. */
    {SECCOMP_CLASS_ABSENT,
     "_sysctl afs_syscall create_module epoll_ctl_old epoll_wait_old get_kernel_syms get_thread_area "
     "getpmsg nfsservctl putpmsg query_module security set_thread_area tuxcall vserver"},
};
/* clang-format on */

struct seccomp_call {
    char name[32];
    int number; /* -1: not given */
};

/* The next call of a group's text; returns the rest, or NULL when there is none. */
static inline const char *seccomp_call_next(const char *text, struct seccomp_call *ret)
{
    text += strspn(text, " ");
    size_t length = strcspn(text, " :");
    if (length == 0 && *text == '\0')
        return NULL;
    if (length == 0 || length >= sizeof(ret->name))
        abort(); /* a mistake in the table must not drop the rest of a group */
    memcpy(ret->name, text, length);
    ret->name[length] = '\0';
    text += length;
    ret->number = -1;
    if (*text == ':')
        ret->number = (int)strtol(text + 1, (char **)&text, 10);
    return text;
}
