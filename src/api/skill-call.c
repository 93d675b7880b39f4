/* SPDX-License-Identifier: Apache-2.0 */
/* A request of REST on its way through the skill store, and perhaps its bytes on the way out: they
   are read piece by piece in the thread pool, so that the loop waits neither for the disk nor, with
   a fast client, for the end of a large archive. */
#include "api/skill-call.h"

#include <stdio.h>
#include <string.h>

#include "core/fd.h"

#define PIECE_SIZE (256u << 10)

struct skill_call {
    struct later later;
    int status;     /* of success */
    char *download; /* the name that the bytes are saved under; NULL: they are shown */
    /* Of bytes on their way. */
    int fd;
    uint64_t left;
    char *piece;
    uv_fs_t read;
};

static void skill_call_free(struct later *later)
{
    struct skill_call *call = (struct skill_call *)later;
    fd_clear(&call->fd);
    free(call->download);
    free(call->piece);
    free(call);
}

/* --- bytes out --- */

static void read_piece(struct skill_call *call);

static void on_piece(uv_fs_t *fs)
{
    struct skill_call *call = fs->data;
    ssize_t size = fs->result;
    uv_fs_req_cleanup(fs);
    if (!later_due(&call->later))
        return;
    if (size <= 0) { /* it became shorter: half of it must not pass for the whole */
        http_abort(call->later.req);
        return;
    }
    call->left -= (size_t)size;
    bool room = http_write(call->later.req, call->piece, (size_t)size);
    if (call->left == 0)
        http_end(call->later.req);
    else if (room)
        read_piece(call);
}

static void read_piece(struct skill_call *call)
{
    size_t size = call->left < PIECE_SIZE ? (size_t)call->left : PIECE_SIZE;
    uv_buf_t buf = uv_buf_init(call->piece, (unsigned)size);
    /* Cannot be called off: if the client leaves, on_piece() frees. */
    call->later.waiting = true;
    call->read.data = call;
    uv_fs_read(call->later.api->loop, &call->read, call->fd, &buf, 1, -1, on_piece);
}

static void on_drain(void *data)
{
    struct skill_call *call = data;
    if (!call->later.waiting && call->left > 0)
        read_piece(call);
}

/* Names may have any letters: RFC 8187. */
static char *disposition(const char *name)
{
    char encoded[SKILL_NAME_MAX * 4 * 3 + 4] = "";
    for (size_t used = 0; *name && used + 4 < sizeof encoded; used += 3, name++)
        snprintf(encoded + used, sizeof encoded - used, "%%%02X", (unsigned char)*name);
    return xasprintf("attachment; filename*=UTF-8''%s.zip", encoded);
}

static void send_bytes(struct http_request *req, const struct skill_answer *answer)
{
    http_add_header(req, "X-Content-Type-Options", "nosniff");
    http_reply(req, 200, "application/octet-stream", answer->bytes, (size_t)answer->size);
}

static void send_file(struct skill_call *call, struct skill_answer *answer)
{
    struct http_request *req = call->later.req;
    const char *type = call->download ? "application/zip" : "application/octet-stream";
    http_add_header(req, "X-Content-Type-Options", "nosniff");
    if (call->download) {
        cleanup_free char *value = disposition(call->download);
        http_add_header(req, "Content-Disposition", value);
    }
    call->fd = steal_fd(&answer->fd);
    call->left = answer->size;
    call->piece = xmalloc(PIECE_SIZE);
    http_on_drain(req, on_drain, call);
    http_begin(req, 200, type, answer->size);
    if (call->left == 0)
        http_end(req);
    else
        read_piece(call);
}

/* --- answers --- */

static void reply_failure(struct skill_call *call, const struct error *err)
{
    struct wire_error wire = wire_file_error(err);
    if (err->code == ERROR_UNAVAILABLE || err->code == ERROR_CAPACITY) {
        reply_error(call->later.api, call->later.req, err);
        return;
    }
    /* Whatever has a ceiling in the store is too large, too many or too deep. */
    if (err->code == ERROR_LIMIT && wire.status == 400)
        wire.status = 413;
    reply_wire_error(call->later.req, wire, err);
}

static void on_answer(void *data, struct skill_answer *answer, const struct error *err)
{
    struct skill_call *call = data;
    if (!later_due(&call->later))
        return;
    if (err) {
        reply_failure(call, err);
        return;
    }
    if (answer->etag[0])
        http_add_header(call->later.req, "ETag", answer->etag);
    if (answer->bytes)
        send_bytes(call->later.req, answer);
    else if (answer->fd >= 0)
        send_file(call, answer);
    else
        reply_json(call->later.req, call->status, &answer->out);
}

void skill_call_ask(struct api *api, struct http_request *req, struct skill_ask *ask, int status)
{
    struct skill_call *call = xcalloc(1, sizeof *call);
    later_begin(&call->later, api, req, skill_call_free);
    call->status = status;
    call->fd = -1;
    if (ask->verb == SKILL_VERB_EXPORT)
        call->download = xstrdup(ask->name);
    skills_ask(api, ask, on_answer, call);
}

/* --- bodies --- */

static void upload_free(void *data)
{
    struct skill_upload *upload = data;
    skill_ask_release(&upload->ask);
    free(upload->boundary);
    free(upload);
}

struct skill_upload *skill_upload_new(struct call *call, enum skill_verb verb)
{
    struct skill_upload *upload = xcalloc(1, sizeof *upload);
    upload->api = call->api;
    skill_ask_init(&upload->ask, verb);
    http_set_data(call->req, upload, upload_free);
    return upload;
}

void skill_upload_take(struct skill_upload *upload, const char *data, size_t size)
{
    struct skill_ask *ask = &upload->ask;
    free(ask->content);
    ask->content = xmalloc(size + 1);
    memcpy(ask->content, data, size);
    ask->content[size] = '\0';
    ask->content_size = size;
}

void skill_upload_ask(struct http_request *req, struct skill_upload *upload, int status)
{
    skill_call_ask(upload->api, req, &upload->ask, status); /* which keeps its own with it */
    upload_free(upload);
}

void skill_upload_refuse(struct http_request *req, struct skill_upload *upload,
                         const struct error *err)
{
    http_set_data(req, NULL, NULL);
    reply_error(upload->api, req, err);
    upload_free(upload);
}
