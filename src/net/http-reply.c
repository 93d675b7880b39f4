/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: at once or as they come, and those that the server gives itself. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/mem.h"
#include "net/http-internal.h"

/* All the header lines of the answer together. */
#define EXTRA_MAX 65536

/* A text that is built without printf's price: there is one for each answer. */
struct text {
    char data[512];
    size_t size;
};

static void text_add(struct text *text, const char *part, size_t size)
{
    assert(size <= sizeof text->data - text->size);
    memcpy(text->data + text->size, part, size);
    text->size += size;
}

#define text_literal(text, literal) text_add((text), literal, sizeof(literal) - 1)

static void text_string(struct text *text, const char *part)
{
    text_add(text, part, strlen(part));
}

static void text_number(struct text *text, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    text_add(text, digits + at, sizeof digits - at);
}

void http_add_header(struct http_request *req, const char *name, const char *value)
{
    assert(!req->begun && !strpbrk(name, "\r\n:") && !strpbrk(value, "\r\n"));
    req->extra.ceiling = EXTRA_MAX;
    size_t before = req->extra.size;
    buf_append(&req->extra, name, strlen(name));
    buf_append(&req->extra, ": ", 2);
    buf_append(&req->extra, value, strlen(value));
    buf_append(&req->extra, "\r\n", 2);
    assert(req->extra.size == before + strlen(name) + strlen(value) + 4);
}

static bool has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

/* Whether the connection can serve another request behind this one. */
static bool can_keep(const struct http_request *req)
{
    const struct http_conn *conn = req->conn;
    if (!req->head.keep_alive || conn->server->draining)
        return false;
    if (conn->body_ended)
        return true;
    /* Whether a client that waits for leave to send will do so after this answer, nobody knows. */
    return req->continued && (conn->body_chunked || conn->body_left <= HTTP_DISCARD_MAX);
}

static void begin(struct http_request *req, int status, const char *type, uint64_t length,
                  struct text *head)
{
    assert(!req->begun && status >= 200 && status <= 999);
    bool unknown = length == HTTP_LENGTH_UNKNOWN && has_body(status);
    req->begun = true;
    req->reply_body = has_body(status) && strcmp(http_method(req), "HEAD") != 0;
    req->reply_chunked = unknown && req->head.minor == 1;
    req->reply_left = length;
    req->keep = can_keep(req) && (!unknown || req->reply_chunked);

    text_literal(head, "HTTP/1.1 ");
    text_number(head, (uint64_t)status);
    text_literal(head, " ");
    text_string(head, http_status_text(status));
    text_literal(head, "\r\nDate: ");
    text_string(head, http_server_date(req->conn->server));
    if (type) {
        assert(strlen(type) < 200 && !strpbrk(type, "\r\n"));
        text_literal(head, "\r\nContent-Type: ");
        text_string(head, type);
    }
    if (req->reply_chunked) {
        text_literal(head, "\r\nTransfer-Encoding: chunked");
    } else if (has_body(status) && !unknown) {
        text_literal(head, "\r\nContent-Length: ");
        text_number(head, length);
    }
    if (!req->keep)
        text_literal(head, "\r\nConnection: close");
    else if (req->head.minor == 0)
        text_literal(head, "\r\nConnection: keep-alive");
    text_literal(head, "\r\n");
}

void http_conn_answered(struct http_conn *conn, bool keep)
{
    if (!keep) {
        conn->state = HTTP_STATE_FLUSH;
        conn->linger = !conn->body_ended || conn->in_start < conn->in_end;
    } else if (conn->body_ended) {
        http_input_next(conn);
    } else {
        conn->state = HTTP_STATE_DISCARD;
        conn->since = http_conn_now(conn);
        conn->dropped = 0;
    }
    conn->out_waiting = false;
    if (conn->processing)
        return;
    if (conn->in_start < conn->in_end || conn->state == HTTP_STATE_FLUSH || conn->broken)
        http_conn_kick(conn);
    http_conn_settle(conn);
}

static void answered(struct http_request *req)
{
    struct http_conn *conn = req->conn;
    bool keep = req->keep;
    http_request_over(req);
    if (conn->state != HTTP_STATE_CLOSED)
        http_conn_answered(conn, keep);
}

void http_reply(struct http_request *req, int status, const char *type, const void *body,
                size_t size)
{
    struct text head = {.size = 0};
    begin(req, status, type, size, &head);
    struct iovec parts[] = {
        {head.data, head.size},
        {req->extra.data, req->extra.size},
        {(char *)"\r\n", 2},
        {(void *)body, req->reply_body ? size : 0},
    };
    http_conn_send(req->conn, parts, ARRAY_SIZE(parts));
    answered(req);
}

void http_begin(struct http_request *req, int status, const char *type, uint64_t length)
{
    struct text head = {.size = 0};
    begin(req, status, type, length, &head);
    struct iovec parts[] = {
        {head.data, head.size}, {req->extra.data, req->extra.size}, {(char *)"\r\n", 2}};
    http_conn_send(req->conn, parts, ARRAY_SIZE(parts));
    if (!req->conn->processing)
        http_conn_settle(req->conn);
}

bool http_write(struct http_request *req, const void *data, size_t size)
{
    struct http_conn *conn = req->conn;
    assert(req->begun);
    if (req->reply_body && size) {
        char line[20];
        struct iovec parts[3] = {{line, 0}, {(void *)data, size}, {(char *)"\r\n", 0}};
        if (req->reply_chunked) {
            parts[0].iov_len = (size_t)snprintf(line, sizeof line, "%zx\r\n", size);
            parts[2].iov_len = 2;
        } else if (req->reply_left != HTTP_LENGTH_UNKNOWN) {
            /* A file that has grown since its length was told: the client expects the old one. */
            if (size > req->reply_left)
                parts[1].iov_len = (size_t)req->reply_left;
            req->reply_left -= parts[1].iov_len;
        }
        http_conn_send(conn, parts, ARRAY_SIZE(parts));
        if (!conn->processing)
            http_conn_settle(conn);
    }
    if (!conn->broken && http_conn_unsent(conn) <= conn->server->limits.unsent_bytes)
        return true;
    conn->out_waiting = true;
    return false;
}

void http_on_drain(struct http_request *req, void (*on_drain)(void *data), void *data)
{
    req->on_drain = on_drain;
    req->drain_data = data;
}

void http_end(struct http_request *req)
{
    assert(req->begun);
    if (req->reply_body && !req->reply_chunked && req->reply_left != HTTP_LENGTH_UNKNOWN &&
        req->reply_left > 0) {
        http_abort(req);
        return;
    }
    if (req->reply_body && req->reply_chunked) {
        struct iovec last = {(char *)"0\r\n\r\n", 5};
        http_conn_send(req->conn, &last, 1);
    }
    answered(req);
}

void http_abort(struct http_request *req)
{
    struct http_conn *conn = req->conn;
    /* A reset: to a client that reads until the end of the connection, a plain close is a complete
       answer. */
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    http_conn_close(conn);
}

void http_reply_continue(struct http_request *req)
{
    struct iovec part = {(char *)"HTTP/1.1 100 Continue\r\n\r\n", 25};
    http_conn_send(req->conn, &part, 1);
}

void http_conn_fail(struct http_conn *conn, int status, const char *why)
{
    struct http_request *req = conn->req;
    if (req && req->begun) {
        http_abort(req);
        return;
    }
    char body[256];
    char head[512];
    int body_size = snprintf(body, sizeof body, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}",
                             status < 500 ? "BoxValidationError" : "BoxError", why);
    int head_size =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: application/json\r\n"
                 "Content-Length: %d\r\nConnection: close\r\n\r\n",
                 status, http_status_text(status), http_server_date(conn->server), body_size);
    bool head_only = req && req->announced && strcmp(http_method(req), "HEAD") == 0;
    struct iovec parts[] = {{head, (size_t)head_size}, {body, head_only ? 0 : (size_t)body_size}};
    http_conn_send(conn, parts, ARRAY_SIZE(parts));
    if (req)
        http_request_over(req);
    conn->in_start = conn->in_end;
    conn->state = HTTP_STATE_FLUSH;
    conn->linger = true;
}
