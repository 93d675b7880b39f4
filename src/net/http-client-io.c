/* SPDX-License-Identifier: Apache-2.0 */
/* The client's connection: made, written to and read from, with one clock for its silence. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "core/fd.h"
#include "core/mem.h"
#include "net/http-address.h"
#include "net/http-client-internal.h"

static int connect_failed(const struct http_client *client, int errnum, struct error *err)
{
    error_set(err, ERROR_UNAVAILABLE, "cannot connect to %s: %s", client->address,
              strerror(errnum));
    if (errnum == ENOENT || errnum == ECONNREFUSED)
        error_hint(err, "is boxd running? systemctl status boxd");
    else if (errnum == EACCES || errnum == EPERM)
        error_hint(err, "you may not use this socket: ls -l %s",
                   client->path ? client->path : client->address);
    return -1;
}

static int open_unix(struct http_client *client, struct error *err)
{
    struct sockaddr_un address;
    if (http_address_unix(client->path, &address, err) < 0)
        return -1;
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return connect_failed(client, errno, err);
    client->fd = steal_fd(&fd);
    return 0;
}

static int open_tcp(struct http_client *client, struct error *err)
{
    struct addrinfo *list = NULL;
    int errnum = EADDRNOTAVAIL;
    if (http_address_resolve(client->host, false, &list, err) < 0)
        return -1;
    for (struct addrinfo *info = list; info && client->fd < 0; info = info->ai_next) {
        cleanup_close int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, info->ai_addr, info->ai_addrlen) < 0) {
            errnum = errno;
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        client->fd = steal_fd(&fd);
    }
    freeaddrinfo(list);
    return client->fd < 0 ? connect_failed(client, errnum, err) : 0;
}

int client_open(struct http_client *client, struct error *err)
{
    fd_clear(&client->fd);
    client->in_start = client->in_end = 0;
    client->used = client->eof = false;
    client->body = CLIENT_BODY_NONE;
    return client->path ? open_unix(client, err) : open_tcp(client, err);
}

/* The events that came, or -1. */
static int wait_for(struct http_client *client, short events, struct error *err)
{
    struct pollfd pfd = {.fd = client->fd, .events = events};
    int n;
    do
        n = poll(&pfd, 1, client->timeout_ms ? (int)client->timeout_ms : -1);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_errno(err, errno, "cannot wait for %s", client->address);
    if (n == 0)
        return error_set(err, ERROR_UNAVAILABLE, "%s has been silent for %u ms", client->address,
                         client->timeout_ms);
    return pfd.revents;
}

int client_send(struct http_client *client, const void *data, size_t size, bool early,
                struct error *err)
{
    const char *at = data;
    while (size) {
        bool listen = early && !client->answered;
        int events = wait_for(client, (short)(POLLOUT | (listen ? POLLIN : 0)), err);
        if (events < 0)
            return -1;
        if (listen && (events & POLLIN)) {
            if (client_read_head(client, err) < 0)
                return -1;
            if (client->head.status >= 400)
                return 1;
            continue;
        }
        ssize_t n = send(client->fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0) {
            error_errno(err, errno, "cannot send to %s", client->address);
            if (err && (errno == EPIPE || errno == ECONNRESET))
                err->code = ERROR_GONE;
            return -1;
        }
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

ssize_t client_fill(struct http_client *client, struct error *err)
{
    if (client->eof)
        return 0;
    if (client->in_start == client->in_end)
        client->in_start = client->in_end = 0;
    if (client->in_end == CLIENT_INPUT) {
        memmove(client->in, client->in + client->in_start, client->in_end - client->in_start);
        client->in_end -= client->in_start;
        client->in_start = 0;
    }
    if (client->in_end == CLIENT_INPUT)
        return error_set(err, ERROR_PROTOCOL, "%s sent a head that is too long", client->address);
    for (;;) {
        if (wait_for(client, POLLIN, err) < 0)
            return -1;
        ssize_t n = recv(client->fd, client->in + client->in_end, CLIENT_INPUT - client->in_end,
                         MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0 && errno != ECONNRESET)
            return error_errno(err, errno, "cannot read from %s", client->address);
        if (n < 0)
            return error_set(err, ERROR_GONE, "%s has cut the connection", client->address);
        client->eof = n == 0;
        client->in_end += (size_t)n;
        return n;
    }
}
