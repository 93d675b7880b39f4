/* SPDX-License-Identifier: Apache-2.0 */
/* Files: what is asked in one word and answered in one. Contents are in file-transfer.c. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/file-call.h"
#include "core/path.h"

static void on_close(void *data)
{
    struct file_call *file = data;
    if (file->job)
        file_job_cancel(file->job);
    session_release(file->session);
    if (file->entries)
        file_entries_free(file->entries);
    free(file->path);
    free(file->to);
    free(file);
}

struct file_call *file_call_new(struct call *call)
{
    struct error err = ERROR_INIT;
    struct session *session = call_session(call);
    if (!session)
        return NULL;
    cleanup_free char *path = xasprintf("/%s", call_param(call, 1));
    char *normal = path_normalise(path, &err);
    if (!normal) {
        reply_error(call->api, call->req, &err);
        return NULL;
    }
    struct file_call *file = xcalloc(1, sizeof *file);
    file->api = call->api;
    file->req = call->req;
    file->session = session;
    file->path = normal;
    session_hold(session);
    http_set_data(call->req, file, on_close);
    return file;
}

void file_call_start(struct file_call *file, const struct file_request *request,
                     const struct file_events *events)
{
    file->job = session_file(file->session, request, file->path, file->to, events, file);
}

void file_call_fail(struct file_call *file, const struct error *err)
{
    struct wire_error wire = wire_file_error(err);
    if (wire.status == 503)
        wire = api_wire_error(file->api, err);
    reply_wire_error(file->req, wire, err);
}

static const char *type_name(uint32_t mode)
{
    if (S_ISREG(mode))
        return "file";
    if (S_ISDIR(mode))
        return "directory";
    return S_ISLNK(mode) ? "symlink" : "other";
}

void file_mode_text(uint32_t mode, char ret[8])
{
    snprintf(ret, 8, "%04o", mode & 07777);
}

void out_file(struct json_out *out, const char *key, const char *name, const struct file_info *info)
{
    char mode[8];
    file_mode_text(info->mode, mode);
    out_open(out, NULL, '{');
    out_text(out, key, name);
    out_text(out, "type", type_name(info->mode));
    out_unsigned(out, "size", info->size);
    out_text(out, "mode", mode);
    /* Never null: a file of 1970 has a time too. */
    out_time(out, "mtime", info->mtime_ns / 1000 ? info->mtime_ns / 1000 : 1);
    out_close(out, '}');
}

/* --- answers in one word --- */

static void on_opened(void *owner, const struct file_info *info)
{
    struct file_call *file = owner;
    file->info = *info;
}

/* True: it went well. */
static bool ended(struct file_call *file, const struct error *err)
{
    file->job = NULL;
    if (err)
        file_call_fail(file, err);
    return !err;
}

static void on_stat(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    if (!ended(file, err))
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_file(&out, "path", file->path, &file->info);
    reply_json(file->req, 200, &out);
}

static void on_head(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    if (!ended(file, err))
        return;
    if (!S_ISREG(file->info.mode)) {
        struct error other = ERROR_INIT;
        error_set(&other, ERROR_INVALID, "%.300s is not a regular file", file->path);
        file_call_fail(file, &other);
        return;
    }
    file_add_headers(file->req, &file->info);
    http_begin(file->req, 200, "application/octet-stream", file->info.size);
    http_end(file->req);
}

static void on_removed(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    if (ended(file, err))
        reply_word(file->req, "deleted", file->path);
}

static void on_made(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    if (!ended(file, err))
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_text(&out, "path", file->path);
    out_close(&out, '}');
    reply_json(file->req, 201, &out);
}

static void on_moved(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    if (!ended(file, err))
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_text(&out, "path", file->path);
    out_text(&out, "to", file->to);
    out_close(&out, '}');
    reply_json(file->req, 200, &out);
}

static const struct file_events stat_events = {.opened = on_opened, .done = on_stat};
static const struct file_events head_events = {.opened = on_opened, .done = on_head};
static const struct file_events remove_events = {.opened = on_opened, .done = on_removed};
static const struct file_events make_events = {.opened = on_opened, .done = on_made};
static const struct file_events move_events = {.opened = on_opened, .done = on_moved};

/* --- handlers --- */

void rest_head_file(struct call *call)
{
    struct file_query query = {0};
    struct file_call *file = call_query(call, &query) ? file_call_new(call) : NULL;
    if (file)
        file_call_start(file, &(struct file_request){.op = FILE_STAT}, &head_events);
}

void rest_get_file(struct call *call)
{
    struct file_query query = {0};
    struct file_call *file = call_query(call, &query) ? file_call_new(call) : NULL;
    if (!file)
        return;
    if (query.list)
        file_list_start(file);
    else if (query.stat)
        /* Of a link itself, as a list has it. */
        file_call_start(file, &(struct file_request){.op = FILE_STAT, .flags = FILE_NO_FOLLOW},
                        &stat_events);
    else
        file_read_start(file);
}

void rest_delete_file(struct call *call)
{
    struct file_query query = {0};
    struct file_call *file = call_query(call, &query) ? file_call_new(call) : NULL;
    if (file)
        file_call_start(file,
                        &(struct file_request){.op = FILE_REMOVE,
                                               .flags = query.recursive ? FILE_RECURSIVE : 0},
                        &remove_events);
}

static int move_target(const struct file_query *query, char **ret, struct error *err)
{
    if (!query->to)
        return error_set(err, ERROR_INVALID, "to: is missing");
    *ret = path_normalise(query->to, err);
    return *ret ? 0 : error_wrap(err, "to");
}

void rest_post_file(struct call *call)
{
    struct error err = ERROR_INIT;
    struct file_query query = {.op = FILE_OP_NONE};
    struct file_call *file = call_query(call, &query) ? file_call_new(call) : NULL;
    if (file && query.op == FILE_OP_MKDIR)
        file_call_start(file, &(struct file_request){.op = FILE_MKDIR, .mode = 0755}, &make_events);
    else if (file && move_target(&query, &file->to, &err) < 0)
        file_call_fail(file, &err);
    else if (file)
        file_call_start(file, &(struct file_request){.op = FILE_MOVE}, &move_events);
    free(query.to);
}
