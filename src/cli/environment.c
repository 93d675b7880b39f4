/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a command. */
#include "cli/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/fd.h"
#include "sandbox/plan.h"

#define ENV_FILE_MAX (1024u * 1024)

static const char *const fixed[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=" BOX_HOME,
    "USER=" BOX_USER,
    "LOGNAME=" BOX_USER,
    "LANG=C.UTF-8",
};

void environment_init(struct strings *env, const char *term)
{
    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
        strings_add(env, fixed[i]);
    if (!term)
        return;
    strings_take(env, xasprintf("TERM=%s", term));
    /* Read alike by bash and by a plain sh: only the first knows \w. */
    strings_add(env, "PS1=" BOX_USER "@box:$PWD\\$ ");
}

/* The variable whose name is the first `length` bytes of `name`, or NULL. */
static char **find(char **env, const char *name, size_t length)
{
    for (; env && *env; env++) {
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
            return env;
    }
    return NULL;
}

int environment_set(struct strings *env, const char *text, char *const *outer, struct error *err)
{
    size_t length = strcspn(text, "=");
    if (length == 0)
        return error_set(err, ERROR_INVALID, "'%.64s' has no name before the '='", text);
    if (text[length] == '\0') {
        char **passed_on = find((char **)outer, text, length);
        if (!passed_on)
            return 0;
        text = *passed_on;
    }
    char **old = find(env->items, text, length);
    if (!old) {
        strings_add(env, text);
        return 0;
    }
    free(*old);
    *old = xstrdup(text);
    return 0;
}

static int parse_line(struct strings *env, const char *line, size_t size, char *const *outer,
                      struct error *err)
{
    while (size > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        size--;
    }
    if (size > 0 && line[size - 1] == '\r')
        size--;
    if (size == 0 || *line == '#')
        return 0;
    if (memchr(line, '\0', size))
        return error_set(err, ERROR_INVALID, "there is a NUL byte in it");
    cleanup_free char *text = xstrndup(line, size);
    size_t name = strcspn(text, "=");
    if (strcspn(text, " \t") < name)
        return error_set(err, ERROR_INVALID, "a space in the name of a variable");
    return environment_set(env, text, outer, err);
}

int environment_parse(struct strings *env, const char *text, size_t size, char *const *outer,
                      struct error *err)
{
    const char *end = text + size;
    for (unsigned number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;
        if (parse_line(env, text, (size_t)(stop - text), outer, err) < 0)
            return error_wrap(err, "line %u", number);
        text = newline ? newline + 1 : end;
    }
    return 0;
}

int environment_read(struct strings *env, const char *path, char *const *outer, struct error *err)
{
    cleanup_free char *text = xmalloc(ENV_FILE_MAX + 1);
    ssize_t size = fd_read_file(AT_FDCWD, path, text, ENV_FILE_MAX + 1);
    if (size == -EFBIG)
        return error_set(err, ERROR_LIMIT, "environment file '%.200s' is larger than 1 MiB", path);
    if (size < 0)
        return error_errno(err, (int)-size, "environment file '%.200s'", path);
    if (environment_parse(env, text, (size_t)size, outer, err) < 0)
        return error_wrap(err, "environment file '%.200s'", path);
    return 0;
}
