/* SPDX-License-Identifier: Apache-2.0 */
/* Hands out the filter programs and the names of system calls that were made at build time. */
#include "sandbox/seccomp.h"

#include <string.h>

#include "core/mem.h"
#include "seccomp-programs.inc"

static const struct {
    const char *name;
    const struct sock_filter *program;
    size_t count;
} profiles[SECCOMP_PROFILE_MAX] = {
#define X(id, text) {text, program_##id, ARRAY_SIZE(program_##id)},
    SECCOMP_PROFILES(X)
#undef X
};

const char *seccomp_profile_name(enum seccomp_profile profile)
{
    if (profile < 0 || profile >= SECCOMP_PROFILE_MAX)
        return NULL;
    return profiles[profile].name;
}

enum seccomp_profile seccomp_profile_from_name(const char *name)
{
    for (int i = 0; i < SECCOMP_PROFILE_MAX; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return (enum seccomp_profile)i;
    return SECCOMP_PROFILE_INVALID;
}

const struct sock_filter *seccomp_program(enum seccomp_profile profile, size_t *ret_count)
{
    if (profile < 0 || profile >= SECCOMP_PROFILE_MAX)
        return NULL;
    *ret_count = profiles[profile].count;
    return profiles[profile].program;
}

const char *seccomp_syscall_name(int number)
{
    if (number < 0 || (size_t)number >= ARRAY_SIZE(call_names) || call_names[number][0] == '\0')
        return NULL;
    return call_names[number];
}
