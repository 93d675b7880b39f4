/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection receives: heads, bodies, and what nobody wants. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "core/mem.h"
#include "net/http-internal.h"

/* From when on a body must come at limits.body_rate. */
#define RATE_GRACE_MS 10000

bool http_input_awaited(const struct http_conn *conn)
{
    const struct http_request *req = conn->req;
    return !conn->body_ended && !req->paused &&
           (req->mode == HTTP_BODY_COLLECT || req->mode == HTTP_BODY_STREAM);
}

/* The peer has closed, or at least will send no more. With a request in hand that counts as having
   left: a client that closed and one that only shut its sending side down look the same, and work
   for one that left is the worse mistake. An answer that is complete still goes out. */
static void input_ended(struct http_conn *conn)
{
    bool answered = conn->state == HTTP_STATE_HEAD || conn->state == HTTP_STATE_DISCARD;
    if (!answered || http_conn_unsent(conn) == 0) {
        conn->broken = true;
        return;
    }
    if (conn->req)
        http_request_over(conn->req);
    conn->in_start = conn->in_end;
    conn->state = HTTP_STATE_FLUSH;
    conn->linger = false;
}

static size_t receive(struct http_conn *conn, char *buffer, size_t size)
{
    ssize_t n;
    do
        n = recv(conn->fd, buffer, size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        conn->server->stats.bytes_in += (uint64_t)n;
        return (size_t)n;
    }
    if (n == 0)
        input_ended(conn);
    else if (errno != EAGAIN)
        conn->broken = true;
    return 0;
}

/* Body bytes came. */
static void body_progress(struct http_conn *conn, size_t size)
{
    struct http_request *req = conn->req;
    uint64_t now = http_conn_now(conn);
    req->received += size;
    req->awaited_ms += now - conn->read_at;
    conn->read_at = now;
    if (req->awaited_ms > RATE_GRACE_MS && !conn->body_ended &&
        req->received < req->awaited_ms * conn->server->limits.body_rate / 1000)
        req->fail = 408;
}

/* Takes body bytes from `data`; returns how many bytes that were with their framing, or -1. */
static ssize_t body_take(struct http_conn *conn, const char *data, size_t size,
                         const char **ret_piece, size_t *ret_size)
{
    if (conn->body_chunked) {
        ssize_t taken = http_chunked_feed(&conn->body_chunks, data, size, ret_piece, ret_size);
        conn->body_ended = conn->body_chunks.done;
        return taken;
    }
    size_t run = size < conn->body_left ? size : (size_t)conn->body_left;
    *ret_piece = data;
    *ret_size = run;
    conn->body_left -= run;
    conn->body_ended = conn->body_left == 0;
    return (ssize_t)run;
}

static void read_window(struct http_conn *conn)
{
    if (!conn->in) {
        conn->in_capacity = HTTP_INPUT_FIRST;
        conn->in = xmalloc(conn->in_capacity + 1);
    }
    if (conn->in_start == conn->in_end)
        conn->in_start = conn->in_end = conn->head_size;
    if (conn->in_end == conn->in_capacity) {
        /* Only a head can be longer than the window: it is refused before this passes its limit. */
        conn->in_capacity *= 2;
        conn->in = xreallocarray(conn->in, conn->in_capacity + 1, 1);
    }
    /* The clock of a head starts with its first byte; a new connection's was started by accept. */
    bool first = conn->state == HTTP_STATE_HEAD && conn->in_start == conn->in_end && !conn->fresh;
    size_t n = receive(conn, conn->in + conn->in_end, conn->in_capacity - conn->in_end);
    conn->in_end += n;
    if (n && first)
        conn->since = http_conn_now(conn);
}

/* A body of known length, straight to where it is wanted. */
static void read_body(struct http_conn *conn)
{
    struct http_request *req = conn->req;
    size_t want = conn->body_left < HTTP_SCRATCH ? (size_t)conn->body_left : HTTP_SCRATCH;
    char *to = conn->server->scratch;
    if (req->mode == HTTP_BODY_COLLECT)
        to = buf_reserve(&req->body, want, &want);
    size_t n = receive(conn, to, want);
    if (n == 0)
        return;
    conn->body_left -= n;
    conn->body_ended = conn->body_left == 0;
    body_progress(conn, n);
    if (req->mode == HTTP_BODY_COLLECT)
        req->body.size += n;
    else
        req->on_data(req, to, n, req->body_data);
}

static void read_upgraded(struct http_conn *conn)
{
    if (conn->in)
        return; /* first what is there: the turn that follows sees to it */
    size_t n = receive(conn, conn->server->scratch, HTTP_SCRATCH);
    if (n == 0)
        return;
    size_t taken = conn->upgrade->input(conn->server->scratch, n, conn->upgrade_owner);
    if (taken == n || conn->state != HTTP_STATE_UPGRADED)
        return;
    conn->in_capacity = n - taken;
    conn->in = xmalloc(conn->in_capacity + 1);
    memcpy(conn->in, conn->server->scratch + taken, n - taken);
    conn->in_start = 0;
    conn->in_end = n - taken;
}

void http_conn_read(struct http_conn *conn)
{
    bool empty = conn->in_start == conn->in_end;
    if (conn->state == HTTP_STATE_LINGER) {
        conn->dropped += receive(conn, conn->server->scratch, HTTP_SCRATCH);
        if (conn->dropped > HTTP_LINGER_MAX)
            conn->broken = true;
    } else if (conn->state == HTTP_STATE_UPGRADED) {
        read_upgraded(conn);
    } else if (conn->state == HTTP_STATE_REQUEST && empty && !conn->body_chunked &&
               http_input_awaited(conn)) {
        read_body(conn);
    } else {
        read_window(conn);
    }
}

void http_input_next(struct http_conn *conn)
{
    conn->head_size = 0;
    conn->since = http_conn_now(conn);
    conn->state = HTTP_STATE_HEAD;
    if (conn->server->draining && conn->in_start == conn->in_end) {
        conn->state = HTTP_STATE_FLUSH;
        conn->linger = false;
    }
}

static void begin_request(struct http_conn *conn, size_t head_size)
{
    struct http_request *req = conn->req;
    conn->head_size = conn->in_start = head_size;
    conn->body_chunked = req->head.chunked;
    conn->body_chunks = (struct http_chunked){0};
    conn->body_left = req->head.chunked ? 0 : req->head.length;
    conn->body_ended = !req->head.chunked && req->head.length == 0;
    if (conn->body_chunked && conn->in_capacity < head_size + HTTP_WINDOW_MIN) {
        conn->in_capacity = head_size + HTTP_WINDOW_MIN;
        conn->in = xreallocarray(conn->in, conn->in_capacity + 1, 1);
    }
    http_head_terminate(&req->head, conn->in);
    req->continued = !req->head.expect_continue || conn->body_ended;
    req->announced = true;
    conn->fresh = false;
    conn->state = HTTP_STATE_REQUEST;
    conn->server->stats.requests++;
    conn->server->handler(req, conn->server->data);
}

bool http_input_head(struct http_conn *conn)
{
    if (conn->in_start == conn->in_end ||
        http_conn_unsent(conn) > conn->server->limits.unsent_bytes)
        return false;
    if (conn->in_start) {
        memmove(conn->in, conn->in + conn->in_start, conn->in_end - conn->in_start);
        conn->in_end -= conn->in_start;
        conn->in_start = 0;
    }
    if (!conn->req)
        conn->req = http_request_new(conn);
    ssize_t size = http_head_feed(&conn->req->head, conn->in, conn->in_end);
    if (size == 0)
        return false;
    if (size < 0)
        http_conn_fail(conn, (int)-size, conn->req->head.why);
    else
        begin_request(conn, (size_t)size);
    return true;
}

static void deliver_end(struct http_conn *conn)
{
    struct http_request *req = conn->req;
    enum http_body_mode mode = req->mode;
    req->mode = HTTP_BODY_DELIVERED;
    if (mode == HTTP_BODY_STREAM) {
        if (req->on_end)
            req->on_end(req, req->body_data);
        return;
    }
    /* It must outlive the request: the callee may read it after it has answered. */
    cleanup_buf struct buf body = req->body;
    req->body = (struct buf){0};
    size_t size = body.size;
    buf_append(&body, "", 1);
    req->on_body(req, body.data, size, req->body_data);
}

/* The usual small body came with its head and is handed over where it lies. */
static void deliver_in_place(struct http_conn *conn)
{
    struct http_request *req = conn->req;
    size_t size = (size_t)conn->body_left;
    char *body = conn->in + conn->in_start;
    char behind = body[size];
    conn->in_start += size;
    conn->body_left = 0;
    conn->body_ended = true;
    req->mode = HTTP_BODY_DELIVERED;
    body[size] = '\0';
    req->on_body(req, body, size, req->body_data);
    body[size] = behind;
}

bool http_input_body(struct http_conn *conn)
{
    struct http_request *req = conn->req;
    if (req->fail) {
        http_conn_fail(conn, req->fail,
                       req->fail == 408 ? "the body came too slowly" : "the body is too large");
        return true;
    }
    if (req->paused || (req->mode != HTTP_BODY_COLLECT && req->mode != HTTP_BODY_STREAM))
        return false;
    if (conn->body_ended) {
        deliver_end(conn);
        return true;
    }
    size_t have = conn->in_end - conn->in_start;
    if (have == 0)
        return false;
    if (req->mode == HTTP_BODY_COLLECT && !conn->body_chunked && req->body.size == 0 &&
        have >= conn->body_left) {
        deliver_in_place(conn);
        return true;
    }
    const char *piece;
    size_t size;
    ssize_t taken = body_take(conn, conn->in + conn->in_start, have, &piece, &size);
    if (taken < 0) {
        http_conn_fail(conn, 400, "the chunked body is malformed");
        return true;
    }
    conn->in_start += (size_t)taken;
    body_progress(conn, size);
    if (size == 0)
        return true;
    if (req->mode == HTTP_BODY_STREAM)
        req->on_data(req, piece, size, req->body_data);
    else if (req->body.size + size > req->collect_max || !buf_append(&req->body, piece, size))
        req->fail = 413;
    return true;
}

bool http_input_discard(struct http_conn *conn)
{
    const char *piece;
    size_t size;
    size_t have = conn->in_end - conn->in_start;
    if (have == 0)
        return false;
    ssize_t taken = body_take(conn, conn->in + conn->in_start, have, &piece, &size);
    if (taken < 0) {
        http_conn_close(conn);
        return false;
    }
    conn->in_start += (size_t)taken;
    conn->dropped += (size_t)taken;
    if (conn->body_ended) {
        http_input_next(conn);
    } else if (conn->dropped > HTTP_DISCARD_MAX) {
        conn->state = HTTP_STATE_FLUSH;
        conn->linger = true;
    }
    return true;
}
