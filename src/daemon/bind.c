/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets that the front listens on. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/log.h"
#include "daemon/daemon.h"

/* Beyond loopback and the machine. In doubt it is. */
static bool is_network(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return true;
    if (address.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
    if (address.ss_family == AF_INET6)
        return !IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&address)->sin6_addr);
    return address.ss_family != AF_UNIX;
}

static int refuse_open(int fd, struct error *err)
{
    char text[128];
    http_address_text(fd, text, sizeof text);
    close(fd);
    error_set(err, ERROR_DENIED, "%s is open to the network, and there is no token", text);
    return error_hint(err, "(umask 077; openssl rand -hex 32 > FILE), then --token-file FILE");
}

/* Takes the descriptor over. */
static int add_listener(struct daemon *daemon, int fd, struct error *err)
{
    bool network = is_network(fd);
    if (daemon->listener_count == DAEMON_LISTENERS) {
        close(fd);
        return error_set(err, ERROR_LIMIT, "more than %d sockets to listen on", DAEMON_LISTENERS);
    }
    if (network && !daemon->token && !daemon->control_token)
        return refuse_open(fd, err);
    daemon->listeners[daemon->listener_count++] = fd;
    daemon->on_network |= network;
    return 0;
}

/* Whoever is in the group of the front's account may connect, where it has one of its own. */
static int bind_unix(struct daemon *daemon, struct error *err)
{
    const char *path = daemon->config->socket;
    bool shared = daemon->account.change;
    int fd;
    if (http_bind_unix(path, shared ? 0660 : 0600, &fd, err) < 0)
        return -1;
    if (shared && chown(path, (uid_t)-1, daemon->account.gid) < 0) {
        close(fd);
        return error_errno(err, errno, "cannot give %s to its group", path);
    }
    daemon->own_socket = xstrdup(path);
    return add_listener(daemon, fd, err);
}

static int bind_tcp(struct daemon *daemon, const char *address, struct error *err)
{
    int fd;
    return http_bind_tcp(address, &fd, NULL, err) < 0 ? -1 : add_listener(daemon, fd, err);
}

/* Who is at standard input is served all the same, as LangBot's own runtime does it; what it cannot
   have then is the relay. */
static int may_fail(const struct daemon *daemon, const char *address, struct error *err)
{
    if (!daemon->config->stdio)
        return -1;
    log_error(LOG_WARN, "not_listening", err, LOG_TEXT("address", address));
    return 0;
}

int daemon_bind(struct daemon *daemon, const struct activation *activation, struct error *err)
{
    const struct config *config = daemon->config;
    for (size_t i = 0; i < activation->count; i++)
        if (add_listener(daemon, activation->fds[i], err) < 0)
            return -1;
    if (activation->count > 0)
        return 0;
    for (size_t i = 0; i < config->listen.count; i++)
        if (bind_tcp(daemon, config->listen.items[i], err) < 0 &&
            may_fail(daemon, config->listen.items[i], err) < 0)
            return -1;
    return bind_unix(daemon, err) < 0 ? may_fail(daemon, config->socket, err) : 0;
}
