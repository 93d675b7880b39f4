/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets, from addresses as people write them. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/fd.h"
#include "net/http-address.h"
#include "net/http-internal.h"

#define BACKLOG 1024

static int bind_one(const struct addrinfo *info)
{
    cleanup_close int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return steal_fd(&fd);
}

int http_bind_tcp(const char *address, int *ret_fd, enum http_origin *ret_origin, struct error *err)
{
    struct addrinfo *list = NULL;
    enum http_origin origin;
    int fd = -EADDRNOTAVAIL;
    if (http_address_resolve(address, true, &list, err) < 0)
        return -1;
    for (struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
        fd = bind_one(info);
    freeaddrinfo(list);
    if (fd < 0) {
        error_errno(err, -fd, "cannot listen on %s", address);
        if (fd == -EADDRINUSE)
            error_hint(err, "another program listens there: ss -ltnp");
        return -1;
    }
    if (http_listener_origin(fd, &origin, err) < 0) {
        close(fd);
        return -1;
    }
    *ret_fd = fd;
    if (ret_origin)
        *ret_origin = origin;
    return 0;
}

/* Something is there already: 0 if it was a socket that nobody serves and is gone now. */
static int remove_stale(const struct sockaddr_un *address, struct error *err)
{
    struct stat st;
    if (lstat(address->sun_path, &st) < 0)
        return errno == ENOENT ? 0
                               : error_errno(err, errno, "cannot look at %s", address->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, ERROR_INVALID, "%s is there and is not a socket", address->sun_path);
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(err, errno, "cannot make a socket");
    /* EAGAIN: it is served, by somebody with a full queue. */
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN) {
        error_set(err, ERROR_UNAVAILABLE, "another process serves %s", address->sun_path);
        return error_hint(err, "stop it, or choose another path: ss -lxp");
    }
    if (errno != ECONNREFUSED && errno != ENOENT)
        return error_errno(err, errno, "cannot connect to %s", address->sun_path);
    if (unlink(address->sun_path) < 0 && errno != ENOENT)
        return error_errno(err, errno, "cannot remove %s", address->sun_path);
    return 0;
}

int http_bind_unix(const char *path, unsigned mode, int *ret_fd, struct error *err)
{
    struct sockaddr_un address;
    if (http_address_unix(path, &address, err) < 0 || remove_stale(&address, err) < 0)
        return -1;
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(err, errno, "cannot make a socket");
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return error_errno(err, errno, "cannot bind %s", path);
    /* Nobody can connect until it listens, so the mode is right from the first moment on. */
    if (chmod(path, mode) < 0)
        return error_errno(err, errno, "cannot set the mode of %s", path);
    if (listen(fd, BACKLOG) < 0)
        return error_errno(err, errno, "cannot listen on %s", path);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static void print_address(const struct sockaddr_storage *address, char *ret, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_UNIX) {
        snprintf(ret, size, "unix:%s", ((const struct sockaddr_un *)address)->sun_path);
    } else if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(ret, size, "%s:%u", host, ntohs(in->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(ret, size, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        snprintf(ret, size, "?");
    }
}

void http_address_text(int fd, char *ret, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        address.ss_family = AF_UNSPEC;
    print_address(&address, ret, size);
}

void http_peer_text(const struct http_request *req, char *ret, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getpeername(req->conn->fd, (struct sockaddr *)&address, &length) < 0)
        address.ss_family = AF_UNSPEC;
    print_address(&address, ret, size);
}
