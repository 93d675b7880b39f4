/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection sends: at once if the socket takes it, else from a queue. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "core/mem.h"
#include "net/http-internal.h"

#define OUT_FIRST 4096

static void out_append(struct http_conn *conn, const char *data, size_t size)
{
    if (conn->out_capacity - conn->out_end < size && conn->out_start) {
        memmove(conn->out, conn->out + conn->out_start, conn->out_end - conn->out_start);
        conn->out_end -= conn->out_start;
        conn->out_start = 0;
    }
    if (conn->out_capacity - conn->out_end < size) {
        size_t capacity = conn->out_capacity ? conn->out_capacity : OUT_FIRST;
        while (capacity - conn->out_end < size)
            capacity *= 2;
        conn->out = xreallocarray(conn->out, capacity, 1);
        conn->out_capacity = capacity;
    }
    memcpy(conn->out + conn->out_end, data, size);
    conn->out_end += size;
}

/* Bytes that went out; 0 if the socket is full or the peer gone. */
static size_t out_try(struct http_conn *conn, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        /* Whatever was not taken cannot be sent any more; what the peer sent before it went does
           not matter either. */
        if (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
            conn->broken = true;
        return 0;
    }
    conn->write_at = http_conn_now(conn);
    conn->server->stats.bytes_out += (uint64_t)n;
    return (size_t)n;
}

void http_conn_send(struct http_conn *conn, const struct iovec *parts, int count)
{
    size_t sent = 0;
    if (conn->broken || conn->state == HTTP_STATE_CLOSED)
        return;
    if (http_conn_unsent(conn) == 0) {
        conn->write_at = http_conn_now(conn);
        sent = out_try(conn, parts, count);
        if (conn->broken) {
            http_conn_kick(conn);
            return;
        }
    }
    for (int i = 0; i < count; i++) {
        size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        if (skip < parts[i].iov_len)
            out_append(conn, (const char *)parts[i].iov_base + skip, parts[i].iov_len - skip);
        sent -= skip;
    }
}

void http_conn_flush(struct http_conn *conn)
{
    if (http_conn_unsent(conn) == 0 || conn->broken)
        return;
    struct iovec part = {.iov_base = conn->out + conn->out_start,
                         .iov_len = http_conn_unsent(conn)};
    conn->out_start += out_try(conn, &part, 1);
    if (conn->out_start == conn->out_end) {
        free(steal_ptr(conn->out));
        conn->out_start = conn->out_end = conn->out_capacity = 0;
    }
}
