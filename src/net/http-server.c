/* SPDX-License-Identifier: Apache-2.0 */
/* The server: its listeners, how many connections it takes, and how it ends. */
#include "net/http-server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "net/http-internal.h"

/* Connections taken in one turn, so that a flood of them does not starve those that are there. */
#define ACCEPT_BATCH 64
/* How many over the limit are told so; further ones are just closed. */
#define REFUSING_MAX 64
/* Until the next try when the process is out of descriptors: the listener would stay readable. */
#define ACCEPT_RETRY_MS 100

struct http_server *http_server_new(uv_loop_t *loop, const struct http_limits *limits,
                                    http_handler handler, void *data)
{
    struct http_server *server = xcalloc(1, sizeof *server);
    server->loop = loop;
    server->limits = *limits;
    server->handler = handler;
    server->data = data;
    server->scratch = xmalloc(HTTP_SCRATCH);
    server->handles = 1;
    uv_timer_init(loop, &server->timer);
    server->timer.data = server;
    return server;
}

static void take_connection(struct http_listener *listener, int fd)
{
    struct http_server *server = listener->server;
    bool refused = server->stats.connections >= server->limits.connections;
    server->stats.refused += refused;
    struct http_conn *conn = NULL;
    if (!refused || server->refusing < REFUSING_MAX)
        conn = http_conn_new(server, fd, listener->origin, refused);
    if (!conn) {
        close(fd);
        return;
    }
    server->handles++;
    if (refused)
        server->refusing++;
    else
        server->stats.connections++;
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    if (refused)
        http_conn_fail(conn, 503, "too many connections");
    http_conn_process(conn);
}

static void start_listeners(struct http_server *server);

static void on_retry(uv_timer_t *timer)
{
    start_listeners(timer->data);
}

static bool out_of_resources(int errnum)
{
    return errnum == EMFILE || errnum == ENFILE || errnum == ENOBUFS || errnum == ENOMEM;
}

static void back_off(struct http_server *server)
{
    for (struct http_listener *each = server->listeners; each; each = each->next)
        uv_poll_stop(&each->poll);
    uv_timer_start(&server->timer, on_retry, ACCEPT_RETRY_MS, 0);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct http_listener *listener = poll->data;
    struct http_server *server = listener->server;
    (void)events;
    if (status < 0) {
        back_off(server);
        return;
    }
    for (int i = 0; i < ACCEPT_BATCH && !server->draining; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_connection(listener, fd);
        } else if (out_of_resources(errno)) {
            back_off(server);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
        /* Other errors are those of the connection that was to be accepted, and it is gone. */
    }
}

static void start_listeners(struct http_server *server)
{
    for (struct http_listener *each = server->listeners; each; each = each->next)
        uv_poll_start(&each->poll, UV_READABLE, on_listener);
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

int http_listener_origin(int fd, enum http_origin *ret, struct error *err)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return error_errno(err, errno, "descriptor %d is no socket", fd);
    if (address.ss_family == AF_UNIX)
        *ret = HTTP_UNIX;
    else if (address.ss_family == AF_INET || address.ss_family == AF_INET6)
        *ret = is_loopback(&address) ? HTTP_LOOPBACK : HTTP_NETWORK;
    else
        return error_set(err, ERROR_INVALID, "descriptor %d is neither a TCP nor a Unix socket",
                         fd);
    return 0;
}

int http_server_listen(struct http_server *server, int fd, struct error *err)
{
    enum http_origin origin;
    int listening = 0;
    if (http_listener_origin(fd, &origin, err) < 0)
        return -1;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &(socklen_t){sizeof listening}) < 0 ||
        !listening)
        return error_set(err, ERROR_INVALID, "descriptor %d is not listening", fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    struct http_listener *listener = xcalloc(1, sizeof *listener);
    listener->server = server;
    listener->fd = fd;
    listener->origin = origin;
    int r = uv_poll_init(server->loop, &listener->poll, fd);
    if (r < 0) {
        free(listener);
        return error_errno(err, -r, "cannot poll descriptor %d", fd);
    }
    listener->poll.data = listener;
    listener->next = server->listeners;
    server->listeners = listener;
    server->handles++;
    uv_poll_start(&listener->poll, UV_READABLE, on_listener);
    return 0;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct http_listener *listener = handle->data;
    struct http_server *server = listener->server;
    free(listener);
    http_server_handle_closed(server);
}

static void close_listeners(struct http_server *server)
{
    while (server->listeners) {
        struct http_listener *listener = server->listeners;
        server->listeners = listener->next;
        uv_close((uv_handle_t *)&listener->poll, on_listener_closed);
        close(listener->fd);
    }
}

void http_server_handle_closed(struct http_server *server)
{
    if (--server->handles)
        return;
    free(server->scratch);
    free(server);
}

static void on_drained(uv_timer_t *timer)
{
    struct http_server *server = timer->data;
    void (*drained)(void *) = server->drained;
    server->drained = NULL;
    if (drained)
        drained(server->drained_data);
}

static void check_drained(struct http_server *server)
{
    if (server->draining && server->stats.connections == 0 && !server->freed)
        uv_timer_start(&server->timer, on_drained, 0, 0);
}

void http_server_conn_closed(struct http_server *server, struct http_conn *conn)
{
    if (conn->next)
        conn->next->prev = conn->prev;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->refused)
        server->refusing--;
    else
        server->stats.connections--;
    check_drained(server);
}

void http_server_drain(struct http_server *server, void (*drained)(void *data), void *data)
{
    server->drained = drained;
    server->drained_data = data;
    server->draining = true;
    close_listeners(server);
    uv_timer_stop(&server->timer);
    for (struct http_conn *conn = server->conns; conn; conn = conn->next) {
        if (conn->state != HTTP_STATE_HEAD || conn->in_start != conn->in_end)
            continue;
        conn->state = HTTP_STATE_FLUSH;
        conn->linger = false;
        http_conn_kick(conn);
    }
    check_drained(server);
}

static void on_timer_closed(uv_handle_t *handle)
{
    http_server_handle_closed(handle->data);
}

void http_server_free(struct http_server *server)
{
    if (!server || server->freed)
        return;
    server->freed = server->draining = true;
    close_listeners(server);
    while (server->conns)
        http_conn_close(server->conns);
    uv_close((uv_handle_t *)&server->timer, on_timer_closed);
}

void http_server_stats(const struct http_server *server, struct http_stats *ret)
{
    *ret = server->stats;
}

const char *http_server_date(struct http_server *server)
{
    struct timespec now;
    struct tm parts;
    /* The kernel's last tick is near enough, and the cheapest to ask for. */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != server->date_at) {
        server->date_at = now.tv_sec;
        gmtime_r(&now.tv_sec, &parts);
        strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    }
    return server->date;
}
