/* SPDX-License-Identifier: Apache-2.0 */
/* The system call policy: which calls a sandboxed program may make, by profile. The filter programs
   are compiled from the table at build time, so that starting a sandbox costs no compilation. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

#define SECCOMP_PROFILES(X)                                                                     \
    X(DEFAULT, "default") /* what compilers, interpreters and servers need; no ptrace */        \
    X(STRICT, "strict")   /* less kernel: no personality, no AIO, only common INET protocols */ \
    X(DEV, "dev")         /* default, plus what debuggers and tracers need: gdb, strace, py-spy */

enum seccomp_profile {
#define X(name, text) SECCOMP_##name,
    SECCOMP_PROFILES(X)
#undef X
        SECCOMP_PROFILE_MAX,
    SECCOMP_PROFILE_INVALID = -1,
};

/* NULL, or SECCOMP_PROFILE_INVALID, for what is none. */
const char *seccomp_profile_name(enum seccomp_profile profile);
enum seccomp_profile seccomp_profile_from_name(const char *name);

/* The compiled filter, for seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, …). A
   denied call raises a notification (SECCOMP_RET_USER_NOTIF), so that it can be reported by name;
   the listener answers EPERM, always, and never SECCOMP_USER_NOTIF_FLAG_CONTINUE. With no listener,
   or after it has gone, the kernel answers ENOSYS in its place: denied just the same. A program
   that repeats a denied call floods the listener, but only as fast as it is answered: report such
   calls with a bound. */
const struct sock_filter *seccomp_program(enum seccomp_profile profile, size_t *ret_count);

/* Name of a system call of this machine's architecture, or NULL. */
const char *seccomp_syscall_name(int number);
