/* SPDX-License-Identifier: Apache-2.0 */
/* Files between here and a session, for `box cp`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/client.h"

#define COPY_DEPTH_MAX 200 /* directories in directories: each holds a descriptor */

struct copy {
    struct client *client;
    const char *session;
    bool recursive;
    unsigned depth;
    unsigned skipped; /* neither file nor directory */
};

struct copy_info {
    bool exists;
    bool directory;
    uint64_t size;
    unsigned mode; /* permission bits */
};

/* "SESSION:/path" taken apart; false: it is a path of ours. */
bool copy_is_remote(const char *word, char **ret_session, char **ret_path);
/* The last component of a path; "" if it has none that is a name ("/", ".", ".."). The caller
 * frees. */
char *copy_basename(const char *path);
char *copy_join(const char *directory, const char *name);

/* What the session has at the path; that there is nothing is no error. */
int copy_stat(struct copy *copy, const char *path, struct copy_info *ret, struct error *err);
/* The permission bits in what boxd says of a file. */
unsigned copy_mode(const json_t *object);
/* Says so on standard error, and counts it. */
void copy_skip(struct copy *copy, const char *path, const char *why);
/* How many there were that copy_skip() did not name. */
void copy_finish(const struct copy *copy);
/* Names the file, unless boxd's message does. Always -1. */
int copy_wrap(const char *path, struct error *err);
int copy_enter(struct copy *copy, const char *path, struct error *err);
int copy_is_directory(const char *path, struct error *err);

/* copy-up.c: to `target` in the session; `source` "-" is standard input. */
int copy_up(struct copy *copy, const char *source, const char *target, struct error *err);
/* copy-down.c: the body of an answer into `fd`, with a bar that is called `name`. */
int copy_body(struct client *client, const char *name, int fd, struct error *err);
/* To `target` here; "-" is standard output. */
int copy_down(struct copy *copy, const char *source, const char *target, struct error *err);
