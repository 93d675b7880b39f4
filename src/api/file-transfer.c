/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of files, in and out. Whoever is slower holds the other up; nothing piles up between. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/file-call.h"
#include "core/clock.h"
#include "core/parse.h"

/* --- out --- */

void file_add_headers(struct http_request *req, const struct file_info *info)
{
    char text[CLOCK_TEXT_SIZE];
    char mode[8];
    clock_http_text(info->mtime_ns / 1000000000, text);
    http_add_header(req, "Last-Modified", text);
    file_mode_text(info->mode, mode);
    http_add_header(req, "X-File-Mode", mode);
    http_add_header(req, "Accept-Ranges", "bytes");
    /* It was written by whoever is in the sandbox: no browser shall guess what it is. */
    http_add_header(req, "X-Content-Type-Options", "nosniff");
}

static void refuse_range(struct file_call *file, uint64_t size)
{
    struct error err = ERROR_INIT;
    char text[48];
    snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)size);
    http_add_header(file->req, "Content-Range", text);
    error_set(&err, ERROR_INVALID, "the file has %llu bytes: none of the range is there",
              (unsigned long long)size);
    reply_wire_error(file->req, (struct wire_error){WIRE_VALIDATION, 416}, &err);
}

static void on_read_opened(void *owner, const struct file_info *info)
{
    struct file_call *file = owner;
    uint64_t offset;
    uint64_t length;
    if (!range_resolve(&file->range, info->size, &offset, &length)) {
        refuse_range(file, info->size);
        return;
    }
    file_add_headers(file->req, info);
    if (file->range.kind != RANGE_NONE) {
        char text[80];
        snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)offset,
                 (unsigned long long)(offset + length - 1), (unsigned long long)info->size);
        http_add_header(file->req, "Content-Range", text);
    }
    file->begun = true;
    http_begin(file->req, file->range.kind == RANGE_NONE ? 200 : 206, "application/octet-stream",
               info->length);
}

static void on_read_data(void *owner, const char *data, size_t size)
{
    struct file_call *file = owner;
    if (!http_write(file->req, data, size) && file->job)
        file_job_pause(file->job);
}

static void on_read_drain(void *data)
{
    struct file_call *file = data;
    if (file->job)
        file_job_resume(file->job);
}

static void refuse_read(struct file_call *file, const struct error *err)
{
    struct error told = *err;
    if (err->errnum == EISDIR)
        error_hint(&told, "?list tells what is in it");
    file_call_fail(file, &told);
}

static void on_read_done(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    file->job = NULL;
    if (!file->begun && err)
        refuse_read(file, err);
    else if (err)
        http_abort(file->req);
    else
        http_end(file->req); /* too short a file is cut off there */
}

static const struct file_events read_events = {
    .opened = on_read_opened, .data = on_read_data, .done = on_read_done};

static void read_from(struct file_call *file, uint64_t offset, uint64_t length)
{
    http_on_drain(file->req, on_read_drain, file);
    file_call_start(file,
                    &(struct file_request){.op = FILE_READ, .offset = offset, .length = length},
                    &read_events);
}

/* How long it is must be known before where its last bytes begin. */
static void on_size_opened(void *owner, const struct file_info *info)
{
    ((struct file_call *)owner)->info = *info;
}

static void on_size_done(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    uint64_t offset;
    uint64_t length;
    file->job = NULL;
    if (err) {
        file_call_fail(file, err);
    } else if (S_ISREG(file->info.mode) &&
               !range_resolve(&file->range, file->info.size, &offset, &length)) {
        refuse_range(file, file->info.size);
    } else if (!S_ISREG(file->info.mode)) {
        file->range.kind = RANGE_NONE; /* the worker says what is wrong with it */
        read_from(file, 0, FILE_LENGTH_ALL);
    } else {
        file->range =
            (struct range){.kind = RANGE_SPAN, .first = offset, .last = offset + length - 1};
        read_from(file, offset, length);
    }
}

static const struct file_events size_events = {.opened = on_size_opened, .done = on_size_done};

void file_read_start(struct file_call *file)
{
    file->range = range_parse(http_header(file->req, "range"));
    if (file->range.kind == RANGE_SUFFIX)
        file_call_start(file, &(struct file_request){.op = FILE_STAT}, &size_events);
    else if (file->range.kind == RANGE_SPAN && file->range.last != UINT64_MAX)
        read_from(file, file->range.first, file->range.last - file->range.first + 1);
    else
        read_from(file, file->range.first, FILE_LENGTH_ALL);
}

/* --- in --- */

static void on_put_data(struct http_request *req, const char *piece, size_t size, void *data)
{
    struct file_call *file = data;
    file->received += size;
    if (file->job && !file_job_write(file->job, piece, size))
        http_pause(req);
}

static void on_put_end(struct http_request *req, void *data)
{
    struct file_call *file = data;
    (void)req;
    if (file->job)
        file_job_finish(file->job);
}

static void on_put_opened(void *owner, const struct file_info *info)
{
    struct file_call *file = owner;
    file->is_new = info->mode == 0;
    /* Only now is the client asked to send: what cannot be written is refused before. */
    http_stream(file->req, on_put_data, on_put_end, file);
}

static void on_put_room(void *owner)
{
    http_resume(((struct file_call *)owner)->req);
}

static void on_put_done(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    file->job = NULL;
    if (err) {
        file_call_fail(file, err);
        return;
    }
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_text(&out, "path", file->path);
    out_unsigned(&out, "size", file->received);
    out_close(&out, '}');
    reply_json(file->req, file->is_new ? 201 : 200, &out);
}

static const struct file_events write_events = {
    .opened = on_put_opened, .drained = on_put_room, .done = on_put_done};

static int parse_mode(const char *text, uint32_t *ret, struct error *err)
{
    uint32_t mode = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '7'; at++)
        mode = mode * 8 + (uint32_t)(*at - '0');
    if (*at || at == text || mode > 0777)
        return error_set(err, ERROR_INVALID, "mode: must be octal, at most 0777");
    *ret = mode;
    return 0;
}

void rest_put_file(struct call *call)
{
    struct error err = ERROR_INIT;
    struct file_query query = {0};
    uint32_t mode = 0; /* what it has, or 0644 */
    struct file_call *file = NULL;
    bool answered = !call_query(call, &query);
    if (!answered && query.mode && parse_mode(query.mode, &mode, &err) < 0) {
        reply_error(call->api, call->req, &err);
    } else if (!answered && http_body_length(call->req) == 0 &&
               !http_header(call->req, "content-length")) {
        error_set(&err, ERROR_INVALID, "no body: an empty file has 'Content-Length: 0'");
        reply_wire_error(call->req, (struct wire_error){WIRE_VALIDATION, 411}, &err);
    } else if (!answered && (file = file_call_new(call))) {
        file_call_start(
            file, &(struct file_request){.op = FILE_WRITE, .flags = FILE_PARENTS, .mode = mode},
            &write_events);
    }
    free(query.mode);
}
