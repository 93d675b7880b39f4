/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and queries of requests: the tables that decode and describe them. No I/O. */
#pragma once

#include "api/route.h"
#include "backend/spec.h"
#include "runtime/runtime.h"

enum text_encoding {
    ENCODING_UTF8,
    ENCODING_BASE64,
};

/* A command, as a body asks for it. The views point into the body. */
struct exec_order {
    struct json_view cmd;
    struct strings argv;
    struct json_view workdir;
    double timeout_sec;
    struct strings env;
    struct json_view text;   /* stdin */
    struct json_view base64; /* stdin_base64 */
    int encoding;
    bool concurrent;
    bool stream;
    const json_t *spec;
    char *input; /* what stdin_base64 was */
    size_t input_size;
};

struct exec_limits {
    uint64_t default_ms;
    uint64_t maximum_ms; /* 0: none */
};

void exec_order_release(struct exec_order *order);
#define cleanup_exec_order   __attribute__((cleanup(exec_order_release)))
#define cleanup_session_spec __attribute__((cleanup(session_spec_release)))
#define cleanup_process_spec __attribute__((cleanup(process_spec_release)))

/* A body of POST /v1/sessions, over `defaults`. `ret` is the caller's to release in every case. */
int decode_session(const json_t *body, const struct session_spec *defaults,
                   struct session_spec *ret, struct error *err);
/* One of …/exec. With a spec in it *ret_spec is filled, named `session`, and *ret_has_spec true. */
int decode_exec(const json_t *body, const char *session, const struct session_spec *defaults,
                const struct exec_limits *limits, struct exec_order *ret,
                struct session_spec *ret_spec, bool *ret_has_spec, struct error *err);
/* One of /v1/exec. */
int decode_exec_flat(const json_t *body, const struct session_spec *defaults,
                     const struct exec_limits *limits, struct exec_order *ret,
                     struct session_spec *ret_spec, struct error *err);
/* What the runtime is asked for; points into the order. `argv` is filled in the order. */
void exec_order_request(const struct exec_order *order, struct exec_request *ret);
int decode_process(const json_t *body, struct process_spec *ret, struct error *err);
/* {"signal": …} */
int decode_signal(const json_t *body, int *ret, struct error *err);

struct terminal_size {
    uint16_t rows;
    uint16_t columns;
};
/* {"type":"resize", …}, a text frame to a terminal. */
int decode_resize(const json_t *message, struct terminal_size *ret, struct error *err);

extern const struct route_body body_session, body_exec, body_exec_flat, body_process, body_signal;
extern const struct route_body body_skill, body_skill_edit; /* skill-fields.c */
extern const struct route_body body_session_nested;         /* the `spec` of a body_exec */

/* --- queries --- */

struct list_query {
    char *prefix;
    int state; /* of session_state; -1: any */
    uint32_t limit;
    char *after;
};

struct log_query {
    int stream; /* of enum stream */
    uint64_t offset;
    uint64_t limit;
    bool follow;
};

struct relay_query {
    uint64_t since;
};

struct pty_query {
    struct terminal_size size;
    char *cmd;
    char *workdir;
    char *term;
};

struct file_query {
    bool list;
    bool stat;
    bool recursive;
    char *mode;
    int op;
    char *to;
};
enum { FILE_OP_MKDIR, FILE_OP_MOVE, FILE_OP_NONE };

struct events_query {
    char *session;
};

struct skill_files_query {
    char *path;
    bool include_hidden;
    uint32_t max_entries;
};

struct skill_zip_query {
    char *filename;
    char *source_path;
    char *source_subdir;
    char *target_suffix;
};
extern const struct field query_skill_files[3], query_skill_zip[4];

#define LOG_LIMIT_DEFAULT (1u << 20)
#define LOG_LIMIT_MAX     (16u << 20)

extern const struct field query_list[4], query_log[4], query_relay[1], query_pty[5],
    query_get_file[2], query_put_file[1], query_delete_file[1], query_post_file[2], query_events[1];
