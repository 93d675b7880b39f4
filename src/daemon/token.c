/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: a file that only its owner, and perhaps a group, can read. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "api/rpc.h"
#include "core/fd.h"
#include "core/utf8.h"
#include "daemon/places.h"

static int check_file(const char *path, const struct stat *st, struct error *err)
{
    if (!S_ISREG(st->st_mode))
        return error_set(err, ERROR_INVALID, "the token file %s is not a regular file", path);
    if (st->st_mode & (S_IRWXO | S_IWGRP)) {
        error_set(err, ERROR_DENIED,
                  "the token file %s can be read or written by others (mode %03o)", path,
                  (unsigned)st->st_mode & 0777);
        return error_hint(err, "chmod 600 %s", path);
    }
    return 0;
}

int token_read(const char *path, char **ret, struct error *err)
{
    char text[TOKEN_MAX + 2];
    struct stat st;
    cleanup_close int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot read the token file %s", path);
    if (check_file(path, &st, err) < 0)
        return -1;
    ssize_t size = read(fd, text, sizeof text - 1);
    if (size < 0)
        return error_errno(err, errno, "cannot read the token file %s", path);
    text[size] = '\0';
    /* A line break behind it is an editor's doing. */
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        text[--size] = '\0';
    int rc = 0;
    if (size > TOKEN_MAX || size < TOKEN_MIN || strlen(text) != (size_t)size) {
        rc = error_set(err, ERROR_INVALID, "the token in %s must have %d to %d characters", path,
                       TOKEN_MIN, TOKEN_MAX);
        error_hint(err, "(umask 077; openssl rand -hex 32 > %s)", path);
    }
    for (ssize_t i = 0; rc == 0 && i < size; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f)
            rc = error_set(err, ERROR_INVALID,
                           "the token in %s has white space or characters beyond ASCII", path);
    if (rc == 0)
        *ret = xstrdup(text);
    explicit_bzero(text, sizeof text);
    return rc;
}

static int control_token_read(const struct config *config, char **ret, struct error *err)
{
    const char *value = getenv(CONTROL_TOKEN_VARIABLE);
    size_t size = value ? strlen(value) : 0;
    cleanup_free char *token = NULL;
    if (size > 0)
        utf8_strip(&value, &size);
    if (size == 0 && *config->control_token_file)
        return token_read(config->control_token_file, ret, err);
    if (size > 0) {
        token = xstrndup(value, size);
        if (rpc_control_token_check(token, err) < 0)
            return error_wrap(err, CONTROL_TOKEN_VARIABLE);
    }
    *ret = steal_ptr(token);
    return 0;
}

void token_free(char *token)
{
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
}

int tokens_read(const struct config *config, char **ret_token, char **ret_control,
                struct error *err)
{
    char *token = NULL;
    if (*config->token_file && token_read(config->token_file, &token, err) < 0)
        return -1;
    if (control_token_read(config, ret_control, err) < 0) {
        token_free(token);
        return -1;
    }
    *ret_token = token;
    return 0;
}
