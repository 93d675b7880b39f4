/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of requests: the tables that decode and describe them. */
#include "api/decode.h"

#include "core/mem.h"

static const char *const states[] = {
#define X(name, text) text,
    SESSION_STATES(X)
#undef X
        NULL,
};
static const char *const streams[] = {"stdout", "stderr", NULL};
static const char *const ops[] = {"mkdir", "move", NULL};

const struct field query_list[4] = {
    {.name = "prefix",
     .kind = FIELD_TEXT,
     .max = SESSION_NAME_MAX,
     .offset = offsetof(struct list_query, prefix),
     .about = "Only those whose names begin so."},
    {.name = "state",
     .kind = FIELD_CHOICE,
     .names = states,
     .offset = offsetof(struct list_query, state)},
    {.name = "limit",
     .kind = FIELD_U32,
     .min = 1,
     .max = 1000,
     .offset = offsetof(struct list_query, limit)},
    {.name = "after",
     .kind = FIELD_TEXT,
     .min = 1,
     .max = SESSION_NAME_MAX,
     .offset = offsetof(struct list_query, after),
     .about = "`next` of the page before."},
};

/* `follow` last: logs of commands are without it. */
const struct field query_log[4] = {
    {.name = "stream",
     .kind = FIELD_CHOICE,
     .names = streams,
     .offset = offsetof(struct log_query, stream)},
    {.name = "offset", .kind = FIELD_U64, .offset = offsetof(struct log_query, offset)},
    {.name = "limit",
     .kind = FIELD_U64,
     .min = 1,
     .max = LOG_LIMIT_MAX,
     .offset = offsetof(struct log_query, limit)},
    {.name = "follow",
     .kind = FIELD_FLAG,
     .offset = offsetof(struct log_query, follow),
     .about = "As it comes, until the process ends."},
};

const struct field query_relay[1] = {
    {.name = "since",
     .kind = FIELD_U64,
     .offset = offsetof(struct relay_query, since),
     .about = "Replay from that byte of stdout."},
};

const struct field query_pty[5] = {
    {.name = "rows",
     .kind = FIELD_U16,
     .min = 1,
     .max = 10000,
     .offset = offsetof(struct pty_query, size.rows)},
    {.name = "cols",
     .kind = FIELD_U16,
     .min = 1,
     .max = 10000,
     .offset = offsetof(struct pty_query, size.columns)},
    {.name = "cmd",
     .kind = FIELD_TEXT,
     .max = 65536,
     .offset = offsetof(struct pty_query, cmd),
     .about = "Run as sh -lc CMD; none or empty: a login shell."},
    {.name = "workdir",
     .kind = FIELD_TEXT,
     .min = 1,
     .max = 4095,
     .flags = FIELD_ABSOLUTE,
     .offset = offsetof(struct pty_query, workdir)},
    {.name = "term",
     .kind = FIELD_TEXT,
     .min = 1,
     .max = 64,
     .offset = offsetof(struct pty_query, term)},
};

const struct field query_get_file[2] = {
    {.name = "list",
     .kind = FIELD_FLAG,
     .offset = offsetof(struct file_query, list),
     .about = "What is in a directory."},
    {.name = "stat",
     .kind = FIELD_FLAG,
     .offset = offsetof(struct file_query, stat),
     .about = "What it is, instead of its bytes."},
};

const struct field query_put_file[1] = {
    {.name = "mode",
     .kind = FIELD_TEXT,
     .min = 1,
     .max = 5,
     .offset = offsetof(struct file_query, mode),
     .pattern = "^0?[0-7]{1,3}$",
     .about = "Octal; without it, what the file has, or 0644."},
};

const struct field query_delete_file[1] = {
    {.name = "recursive", .kind = FIELD_FLAG, .offset = offsetof(struct file_query, recursive)},
};

const struct field query_post_file[2] = {
    {.name = "op",
     .kind = FIELD_CHOICE,
     .flags = FIELD_REQUIRED,
     .names = ops,
     .offset = offsetof(struct file_query, op)},
    {.name = "to",
     .kind = FIELD_TEXT,
     .min = 1,
     .max = 4095,
     .flags = FIELD_ABSOLUTE,
     .offset = offsetof(struct file_query, to),
     .about = "Of a move."},
};

const struct field query_events[1] = {
    {.name = "session",
     .kind = FIELD_TEXT,
     .min = 1,
     .max = SESSION_NAME_MAX,
     .offset = offsetof(struct events_query, session),
     .about = "Only those of this one."},
};
