/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp: the front's filter, compiled at build time from confine-policy.h. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/mem.h"
#include "daemon/confine-pid.h"
#include "daemon/confine.h"
#include "seccomp-front.inc"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static int install(struct sock_filter *code, size_t count, struct error *err)
{
    const struct sock_fprog program = {.len = (unsigned short)count, .filter = code};
    /* What is refused is worth a line in the audit log: the front does not try such things. */
    unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG;
    long rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (rc == 0)
        return 0;
    if (rc > 0)
        return error_set(err, ERROR_SYSTEM, "thread %ld cannot be put under the filter", rc);
    error_errno(err, errno, "cannot install the system call filter");
    return error_hint(err, "a kernel with CONFIG_SECCOMP_FILTER is needed");
}

int confine_calls(struct error *err)
{
    struct sock_filter code[ARRAY_SIZE(program_front)];
    memcpy(code, program_front, sizeof code);
    for (size_t i = 0; i < ARRAY_SIZE(code); i++)
        if (code[i].code == (BPF_JMP | BPF_JEQ | BPF_K) && code[i].k == CONFINE_PID)
            code[i].k = (uint32_t)getpid();
    if (SANITIZED)
        return 1;
    return install(code, ARRAY_SIZE(code), err);
}
