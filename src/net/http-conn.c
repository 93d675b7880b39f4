/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's life: its turns, what it polls for, its deadlines, its end.

   The timer is lazy. A deadline that moves into the future, as it does with every request, only
   changes a number; the timer fires for the old one, sees that it is not due, and starts again. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/mem.h"
#include "net/http-internal.h"

#define NEVER UINT64_MAX

/* Room enough that whoever was told to wait may go on. */
static bool drain_due(struct http_conn *conn)
{
    size_t most = conn->state == HTTP_STATE_UPGRADED ? HTTP_UPGRADED_UNSENT
                                                     : conn->server->limits.unsent_bytes;
    if (!conn->out_waiting || http_conn_unsent(conn) > most / 2)
        return false;
    conn->out_waiting = false;
    return true;
}

static bool step_request(struct http_conn *conn)
{
    struct http_request *req = conn->req;
    if (!drain_due(conn))
        return http_input_body(conn);
    if (req->on_drain)
        req->on_drain(req->drain_data);
    return true;
}

static bool step_upgraded(struct http_conn *conn)
{
    if (drain_due(conn)) {
        conn->upgrade->drained(conn->upgrade_owner);
        return true;
    }
    if (conn->held || (conn->in_start == conn->in_end && !conn->resumed))
        return false;
    conn->resumed = false;
    const char *data = conn->in ? conn->in + conn->in_start : NULL;
    size_t taken = conn->upgrade->input(data, conn->in_end - conn->in_start, conn->upgrade_owner);
    conn->in_start += taken;
    return true;
}

static bool step_flush(struct http_conn *conn)
{
    if (http_conn_unsent(conn))
        return false;
    if (!conn->linger || shutdown(conn->fd, SHUT_WR) < 0) {
        http_conn_close(conn);
        return false;
    }
    conn->state = HTTP_STATE_LINGER;
    conn->since = http_conn_now(conn);
    conn->dropped = 0;
    return true;
}

static bool step(struct http_conn *conn)
{
    if (conn->broken) {
        http_conn_close(conn);
        return false;
    }
    switch (conn->state) {
    case HTTP_STATE_HEAD:
        return http_input_head(conn);
    case HTTP_STATE_REQUEST:
        return step_request(conn);
    case HTTP_STATE_DISCARD:
        return http_input_discard(conn);
    case HTTP_STATE_UPGRADED:
        return step_upgraded(conn);
    case HTTP_STATE_FLUSH:
        return step_flush(conn);
    case HTTP_STATE_LINGER:
        conn->in_start = conn->in_end;
        return false;
    case HTTP_STATE_CLOSED:
        break;
    }
    return false;
}

void http_conn_process(struct http_conn *conn)
{
    conn->processing = true;
    while (step(conn))
        ;
    conn->processing = false;
    http_conn_settle(conn);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct http_conn *conn = poll->data;
    conn->processing = true;
    if (status < 0) {
        conn->broken = true;
    } else {
        if (events & UV_WRITABLE)
            http_conn_flush(conn);
        if (events & UV_READABLE)
            http_conn_read(conn);
        else if (events & UV_DISCONNECT)
            conn->broken = true;
    }
    http_conn_process(conn);
}

static int wanted_events(const struct http_conn *conn)
{
    int sending = http_conn_unsent(conn) ? UV_WRITABLE : 0;
    switch (conn->state) {
    case HTTP_STATE_HEAD:
        /* One who does not read answers gets no further ones made. */
        if (http_conn_unsent(conn) > conn->server->limits.unsent_bytes)
            return sending;
        return sending | UV_READABLE;
    case HTTP_STATE_REQUEST:
        /* With nothing to be read for, still: to see the client leave. */
        if (http_input_awaited(conn))
            return sending | UV_READABLE;
        if (conn->req && !conn->req->paused && conn->in_end < conn->in_capacity)
            return sending | UV_READABLE;
        return sending | UV_DISCONNECT;
    case HTTP_STATE_UPGRADED:
        return sending | (conn->held ? UV_DISCONNECT : UV_READABLE);
    case HTTP_STATE_DISCARD:
    case HTTP_STATE_LINGER:
        return sending | UV_READABLE;
    case HTTP_STATE_FLUSH:
    case HTTP_STATE_CLOSED:
        break;
    }
    return sending;
}

static bool is_idle(const struct http_conn *conn)
{
    return conn->state == HTTP_STATE_HEAD && !conn->fresh && conn->in_start == conn->in_end;
}

static uint64_t read_deadline(const struct http_conn *conn)
{
    const struct http_limits *limits = &conn->server->limits;
    switch (conn->state) {
    case HTTP_STATE_HEAD:
        if (http_conn_unsent(conn) > limits->unsent_bytes)
            return NEVER;
        return conn->since + (is_idle(conn) ? limits->idle_ms : limits->head_ms);
    case HTTP_STATE_REQUEST:
        return http_input_awaited(conn) ? conn->read_at + limits->body_stall_ms : NEVER;
    case HTTP_STATE_DISCARD:
        return conn->since + limits->body_stall_ms;
    case HTTP_STATE_LINGER:
        return conn->since + HTTP_LINGER_MS;
    case HTTP_STATE_UPGRADED:
        return conn->deadline_at ? conn->deadline_at : NEVER;
    case HTTP_STATE_FLUSH:
    case HTTP_STATE_CLOSED:
        break;
    }
    return NEVER;
}

static uint64_t write_deadline(const struct http_conn *conn)
{
    return http_conn_unsent(conn) ? conn->write_at + conn->server->limits.write_stall_ms : NEVER;
}

static void expire(struct http_conn *conn)
{
    uint64_t now = http_conn_now(conn);
    struct http_stats *stats = &conn->server->stats;
    if (now >= write_deadline(conn)) {
        stats->timeouts++;
        http_conn_close(conn);
    } else if (now < read_deadline(conn)) {
        return;
    } else if (conn->state == HTTP_STATE_UPGRADED) {
        conn->deadline_at = 0;
        conn->upgrade->deadline(conn->upgrade_owner);
    } else if (is_idle(conn) || conn->state == HTTP_STATE_LINGER) {
        http_conn_close(conn);
    } else {
        stats->timeouts++;
        if (conn->state == HTTP_STATE_DISCARD)
            http_conn_close(conn);
        else
            http_conn_fail(conn, 408,
                           conn->state == HTTP_STATE_HEAD ? "the request took too long"
                                                          : "the body took too long");
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct http_conn *conn = timer->data;
    conn->timer_at = 0;
    conn->kicked = false;
    conn->processing = true;
    expire(conn);
    http_conn_process(conn);
}

void http_conn_kick(struct http_conn *conn)
{
    if (conn->processing || conn->kicked || conn->state == HTTP_STATE_CLOSED)
        return;
    conn->kicked = true;
    conn->timer_at = http_conn_now(conn);
    uv_timer_start(&conn->timer, on_timer, 0, 0);
}

static void input_release(struct http_conn *conn)
{
    free(steal_ptr(conn->in));
    /* With the head, which may have been longer than the window is at first: what is read of its
       body, only to be dropped, does not go behind it any more. */
    conn->in_capacity = conn->in_start = conn->in_end = conn->head_size = 0;
}

void http_conn_settle(struct http_conn *conn)
{
    if (conn->state == HTTP_STATE_CLOSED)
        return;
    /* An idle connection is little more than its descriptor. */
    if (conn->in && conn->in_start == conn->in_end && !conn->req)
        input_release(conn);
    int events = wanted_events(conn);
    if (events != conn->events) {
        conn->events = events;
        if (events)
            uv_poll_start(&conn->poll, events, on_poll);
        else
            uv_poll_stop(&conn->poll);
    }
    uint64_t at = read_deadline(conn);
    if (write_deadline(conn) < at)
        at = write_deadline(conn);
    if (at != NEVER && (conn->timer_at == 0 || at < conn->timer_at)) {
        uint64_t now = http_conn_now(conn);
        conn->timer_at = at;
        uv_timer_start(&conn->timer, on_timer, at > now ? at - now : 0, 0);
    }
}

/* A machine that vanished says nothing: whoever works for it is to hear of that in two minutes, not
   in the two hours that are the default. */
static void probe_peer(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){60}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){15}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){4}, sizeof(int));
}

struct http_conn *http_conn_new(struct http_server *server, int fd, enum http_origin origin,
                                bool refused)
{
    struct http_conn *conn = xcalloc(1, sizeof *conn);
    conn->server = server;
    conn->fd = fd;
    conn->origin = origin;
    conn->refused = refused;
    conn->fresh = true;
    conn->since = uv_now(server->loop);
    if (uv_poll_init(server->loop, &conn->poll, fd) < 0) {
        free(conn);
        return NULL;
    }
    uv_timer_init(server->loop, &conn->timer);
    conn->poll.data = conn->timer.data = conn;
    conn->open_handles = 2;
    if (origin != HTTP_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (origin == HTTP_NETWORK)
        probe_peer(fd);
    return conn;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct http_conn *conn = handle->data;
    if (--conn->open_handles)
        return;
    struct http_server *server = conn->server;
    free(conn->in);
    free(conn->out);
    free(conn);
    http_server_handle_closed(server);
}

void http_conn_close(struct http_conn *conn)
{
    if (conn->state == HTTP_STATE_CLOSED)
        return;
    bool upgraded = conn->state == HTTP_STATE_UPGRADED;
    conn->state = HTTP_STATE_CLOSED;
    uv_close((uv_handle_t *)&conn->poll, on_handle_closed);
    uv_close((uv_handle_t *)&conn->timer, on_handle_closed);
    close(conn->fd);
    if (conn->req)
        http_request_over(conn->req);
    if (upgraded)
        conn->upgrade->closed(conn->upgrade_owner);
    http_server_conn_closed(conn->server, conn);
}
