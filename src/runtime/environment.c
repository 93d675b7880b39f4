/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of what runs in a session: the same that `box run` gives, and what was asked for.
 */
#include <string.h>

#include "runtime/internal.h"

static const char *const fixed[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/home/box",
    "USER=box",
    "LOGNAME=box",
    "LANG=C.UTF-8",
};

static const char *const fixed_terminal[] = {
    "SHELL=/bin/sh",
    "TERM=xterm-256color",
    /* Read alike by bash and by a plain sh: only the first knows \w. */
    "PS1=box@box:$PWD\\$ ",
};

static void set(struct strings *env, const char *text)
{
    size_t length = strcspn(text, "=") + 1;
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], text, length) == 0) {
            free(env->items[i]);
            env->items[i] = xstrdup(text);
            return;
        }
    }
    strings_add(env, text);
}

void environment_make(struct strings *env, const struct strings *over, bool terminal)
{
    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
        strings_add(env, fixed[i]);
    for (size_t i = 0; terminal && i < ARRAY_SIZE(fixed_terminal); i++)
        strings_add(env, fixed_terminal[i]);
    for (size_t i = 0; i < over->count; i++)
        set(env, over->items[i]);
}

int environment_check(const struct strings *env, struct error *err)
{
    for (size_t i = 0; i < env->count; i++) {
        /* The value stays out of the message: it may be a secret. */
        const char *equals = strchr(env->items[i], '=');
        if (!equals)
            return error_set(err, ERROR_INVALID, "env: an entry without '='");
        if (equals == env->items[i])
            return error_set(err, ERROR_INVALID, "env: a variable without a name");
    }
    return 0;
}
