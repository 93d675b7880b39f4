/* SPDX-License-Identifier: Apache-2.0 */
/* A request about a file, from its path to its answer. */
#pragma once

#include "api/decode.h"
#include "api/internal.h"
#include "api/range.h"

struct file_entries;

/* Lives as long as its request. */
struct file_call {
    struct api *api;
    struct http_request *req;
    struct file_job *job;    /* NULL: it has told its end */
    struct session *session; /* held */
    char *path;
    char *to;
    uint32_t mode;
    bool begun; /* the head of the answer is out */
    /* GET */
    struct range range;
    struct file_info info; /* what was opened; its name is not looked at */
    struct file_entries *entries;
    /* PUT */
    bool is_new;
    uint64_t received;
};

/* For the path and session that the request names; NULL: it was answered. */
struct file_call *file_call_new(struct call *call);
void file_call_start(struct file_call *file, const struct file_request *request,
                     const struct file_events *events);
void file_call_fail(struct file_call *file, const struct error *err);

/* {"path", "type", "size", "mode", "mtime"}, with a name instead of the path in a list. */
void out_file(struct json_out *out, const char *key, const char *name,
              const struct file_info *info);
void file_mode_text(uint32_t mode, char ret[8]);

/* file-transfer.c */
void file_add_headers(struct http_request *req, const struct file_info *info);
void file_read_start(struct file_call *file);

/* file-list.c */
void file_list_start(struct file_call *file);
void file_entries_free(struct file_entries *entries);
