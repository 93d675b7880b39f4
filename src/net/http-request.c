/* SPDX-License-Identifier: Apache-2.0 */
/* A request as its handler sees it: what it asks for, and its body. */
#include <assert.h>
#include <string.h>

#include "core/mem.h"
#include "net/http-internal.h"

struct http_request *http_request_new(struct http_conn *conn)
{
    struct http_request *req = xmalloc(sizeof *req);
    memset(req, 0, offsetof(struct http_request, head));
    req->conn = conn;
    http_head_init(&req->head, HTTP_REQUEST, conn->server->limits.head_bytes,
                   conn->server->limits.headers);
    return req;
}

void http_request_free(struct http_request *req)
{
    buf_release(&req->body);
    buf_release(&req->extra);
    free(req);
}

void http_request_over(struct http_request *req)
{
    void (*on_close)(void *) = req->announced ? req->on_close : NULL;
    req->conn->req = NULL;
    if (on_close)
        on_close(req->data);
    http_request_free(req);
}

const char *http_method(const struct http_request *req)
{
    return req->conn->in + req->head.method.at;
}

const char *http_path(const struct http_request *req)
{
    return req->head.path.size ? req->conn->in + req->head.path.at : "/";
}

const char *http_query(const struct http_request *req)
{
    return req->head.query.size ? req->conn->in + req->head.query.at : "";
}

const char *http_header(const struct http_request *req, const char *name)
{
    const struct http_field *field = http_head_find(&req->head, req->conn->in, name);
    return field ? req->conn->in + field->value.at : NULL;
}

enum http_origin http_origin(const struct http_request *req)
{
    return req->conn->origin;
}

uint64_t http_body_length(const struct http_request *req)
{
    return req->head.length;
}

void http_set_data(struct http_request *req, void *data, void (*on_close)(void *data))
{
    req->data = data;
    req->on_close = on_close;
}

/* From here on the client is expected to send. */
static void body_wanted(struct http_request *req, enum http_body_mode mode)
{
    struct http_conn *conn = req->conn;
    assert(req->mode == HTTP_BODY_UNASKED);
    req->mode = mode;
    conn->read_at = http_conn_now(conn);
    /* One who has begun to send did not wait for leave. */
    if (!req->continued && !req->fail && conn->in_start == conn->in_end)
        http_reply_continue(req);
    if (!req->fail)
        req->continued = true;
    http_conn_kick(conn);
}

void http_collect(struct http_request *req, size_t max,
                  void (*done)(struct http_request *req, const char *body, size_t size, void *data),
                  void *data)
{
    req->on_body = done;
    req->body_data = data;
    req->collect_max = max;
    /* And the NUL behind it. */
    req->body = (struct buf)BUF_INIT(max < SIZE_MAX ? max + 1 : max);
    if (!req->head.chunked && req->head.length > max)
        req->fail = 413;
    body_wanted(req, HTTP_BODY_COLLECT);
}

void http_stream(struct http_request *req,
                 void (*on_data)(struct http_request *req, const char *piece, size_t size,
                                 void *data),
                 void (*on_end)(struct http_request *req, void *data), void *data)
{
    req->on_data = on_data;
    req->on_end = on_end;
    req->body_data = data;
    body_wanted(req, HTTP_BODY_STREAM);
}

void http_pause(struct http_request *req)
{
    struct http_conn *conn = req->conn;
    if (req->paused)
        return;
    /* The sender's clock stands still while it is held up. */
    if (http_input_awaited(conn))
        req->awaited_ms += http_conn_now(conn) - conn->read_at;
    req->paused = true;
    if (!conn->processing)
        http_conn_settle(conn);
}

void http_resume(struct http_request *req)
{
    struct http_conn *conn = req->conn;
    if (!req->paused)
        return;
    req->paused = false;
    conn->read_at = http_conn_now(conn);
    http_conn_kick(conn);
}
