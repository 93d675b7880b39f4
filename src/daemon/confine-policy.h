/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of the front, as data. Read by tools/gen-seccomp.c, which makes a program of it;
   nothing else includes it.

   An allow-list for what an event loop, its thread pool, malloc, stdio and files in directories of
   its own need. What is not in it fails with EPERM, and is logged where the kernel keeps an audit
   log; calls that only somebody in control of the process would make end it. A call that has no
   name yet fails with ENOSYS, as on an older kernel.

   Left out on purpose:

     socket, connect, bind    every socket is there already, or comes with accept() or socketpair();
                              a root without capabilities could still talk to /run/docker.sock
     execve, fork             the spawner starts everything; clone() makes threads and no more
     kill, pidfd_send_signal  sessions are ended by way of the spawner and of init; only abort(),
                              which is tgkill() on ourselves, works
     PROT_EXEC                nothing is loaded any more; code smuggled in as data stays data
     chown, setuid …          that is over

   In it although Landlock has no say there: inotify, which the skill store needs. Somebody in
   control of the front could learn the names of files that come and go where its user may read. */
#pragma once

#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "daemon/confine-pid.h"
#include "sandbox/seccomp-policy.h"

#define VERDICT_KILL SECCOMP_RET_KILL_PROCESS

/* clang-format off */
static const struct seccomp_test front_args_ioctl[] = {
    {1, ANY_BIT, VALUES(FIONREAD, FIONBIO, FIOCLEX, TIOCGWINSZ, TIOCSWINSZ, TCGETS),
        VERDICT_ALLOW, VERDICT_FAIL(EPERM)},
};

static const struct seccomp_test front_args_memory[] = {
    {2, PROT_EXEC, VALUES(0), VERDICT_ALLOW, VERDICT_FAIL(EPERM)},
};

/* A thread, and not a namespace. */
#define FRONT_THREAD     (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
#define FRONT_NAMESPACES (CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | \
                          CLONE_NEWUSER | CLONE_NEWUTS)
static const struct seccomp_test front_args_clone[] = {
    {0, FRONT_THREAD | FRONT_NAMESPACES, VALUES(FRONT_THREAD), VERDICT_ALLOW, VERDICT_FAIL(EPERM)},
};

static const struct seccomp_test front_args_self[] = {
    {0, ANY_BIT, VALUES(CONFINE_PID), VERDICT_ALLOW, VERDICT_FAIL(EPERM)},
};

/* Our own limits: 0 is whoever calls. */
static const struct seccomp_test front_args_limits[] = {
    {0, ANY_BIT, VALUES(0, CONFINE_PID), VERDICT_ALLOW, VERDICT_FAIL(EPERM)},
};

/* Names of threads, and of memory (which malloc gives). */
#define FRONT_PR_SET_VMA 0x53564d41
static const struct seccomp_test front_args_prctl[] = {
    {0, ANY_BIT, VALUES(PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_SECCOMP, FRONT_PR_SET_VMA),
        VERDICT_ALLOW, VERDICT_FAIL(EPERM)},
};

static const struct seccomp_test front_args_socketpair[] = {
    {0, ANY_BIT, VALUES(AF_UNIX), VERDICT_ALLOW, VERDICT_FAIL(EPERM)},
};

#define RULE(t) {.tests = t, .test_count = ARRAY_SIZE(t)}
static const struct seccomp_rule front_allow      = {.verdict = VERDICT_ALLOW};
static const struct seccomp_rule front_deny       = {.verdict = VERDICT_FAIL(EPERM)};
static const struct seccomp_rule front_kill       = {.verdict = VERDICT_KILL};
static const struct seccomp_rule front_ioctl      = RULE(front_args_ioctl);
static const struct seccomp_rule front_memory     = RULE(front_args_memory);
static const struct seccomp_rule front_clone      = RULE(front_args_clone);
static const struct seccomp_rule front_self       = RULE(front_args_self);
static const struct seccomp_rule front_limits     = RULE(front_args_limits);
static const struct seccomp_rule front_prctl      = RULE(front_args_prctl);
static const struct seccomp_rule front_socketpair = RULE(front_args_socketpair);
#undef RULE

struct front_group {
    const struct seccomp_rule *rule;
    const char *calls; /* as in seccomp_policy */
};

static const struct front_group front_policy[] = {
    /* Files, by path only where Landlock lets it */
    {&front_allow,
     "access close close_range copy_file_range dup dup2 dup3 faccessat faccessat2 fadvise64 fallocate "
     "fchmod fchmodat fcntl fdatasync flock fstat fstatfs fsync ftruncate getcwd getdents getdents64 link linkat "
     "lseek lstat mkdir mkdirat newfstatat open openat openat2 pipe pipe2 pread64 preadv preadv2 "
     "pwrite64 pwritev pwritev2 read readlink readlinkat readv rename renameat renameat2 rmdir sendfile "
     "splice stat statfs statx sync_file_range syncfs tee umask unlink unlinkat utimensat write writev"},
    {&front_allow,
     "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 "
     "inotify_add_watch inotify_init1 inotify_rm_watch poll ppoll "
     "pselect6 select signalfd4 timerfd_create timerfd_gettime timerfd_settime"},
    {&front_ioctl, "ioctl"},

    /* Memory */
    {&front_allow, "brk madvise membarrier memfd_create mremap munmap"},
    {&front_memory, "mmap mprotect"},

    /* Ourselves */
    {&front_allow,
     "exit exit_group futex get_robust_list getcpu getegid geteuid getgid getgroups getpgid getpid getppid "
     "getpriority getresgid getresuid getrlimit getrusage gettid getuid restart_syscall rseq rt_sigaction "
     "rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_getaffinity "
     "sched_yield set_robust_list set_tid_address sigaltstack sysinfo times uname wait4 waitid"},
    {&front_clone, "clone"},
    {&front_limits, "prlimit64"},
    {&front_prctl, "prctl"},
    {&front_self, "kill tgkill"},

    /* Time and chance */
    {&front_allow,
     "clock_getres clock_gettime clock_nanosleep getrandom gettimeofday nanosleep time"},

    /* Sockets that are there */
    {&front_allow,
     "accept accept4 getpeername getsockname getsockopt recvfrom recvmmsg recvmsg sendmmsg sendmsg sendto "
     "setsockopt shutdown"},
    {&front_socketpair, "socketpair"},

    /* Nothing in the front ever tries these. */
    {&front_kill,
     "add_key bpf chroot delete_module execve execveat finit_module fsconfig fsmount fsopen fspick "
     "init_module ioperm iopl kexec_file_load kexec_load keyctl mount mount_setattr move_mount "
     "open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_vm_readv "
     "process_vm_writev ptrace reboot request_key setns swapoff swapon umount2 unshare userfaultfd"},

    /* glibc takes ENOSYS, and only that, for a reason to use clone. */
    {&rule_absent, "clone3 io_uring_enter io_uring_register io_uring_setup"},
};
/* clang-format on */
