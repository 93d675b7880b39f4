/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks over the network and over sockets: what can be reached from inside. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attack.h"

#define PATIENCE_MS 3000

static int make_address(const char *host, const char *port, struct sockaddr_storage *ret,
                        socklen_t *ret_size)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((unsigned short)atoi(port))};
    char plain[INET6_ADDRSTRLEN + IF_NAMESIZE];
    snprintf(plain, sizeof plain, "%s", host);
    char *scope = strchr(plain, '%');
    if (scope) {
        *scope = '\0';
        v6.sin6_scope_id = if_nametoindex(scope + 1);
    }
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, plain, &v4.sin_addr) == 1) {
        memcpy(ret, &v4, sizeof v4);
        *ret_size = sizeof v4;
        return 0;
    }
    if (inet_pton(AF_INET6, plain, &v6.sin6_addr) != 1)
        return -1;
    memcpy(ret, &v6, sizeof v6);
    *ret_size = sizeof v6;
    return 0;
}

/* -1 with errno, or how much came back. A connection counts, whatever comes of it; without one it
   is the answer that does. */
static ssize_t greet(int type, const char *host, const char *port, char *reply, size_t size)
{
    struct sockaddr_storage address;
    socklen_t length;
    if (make_address(host, port, &address, &length) < 0)
        broken("address");
    int sock = socket(address.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return -1;
    struct pollfd watched = {.fd = sock, .events = POLLOUT};
    int error = 0;
    socklen_t error_size = sizeof error;
    ssize_t n = -1;
    if (connect(sock, (struct sockaddr *)&address, length) < 0 && errno != EINPROGRESS)
        goto out;
    if (poll(&watched, 1, PATIENCE_MS) <= 0) {
        errno = ETIMEDOUT;
        goto out;
    }
    getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &error_size);
    if (error) {
        errno = error;
        goto out;
    }
    if (send(sock, "hello\n", 6, MSG_NOSIGNAL) < 0) {
        n = type == SOCK_STREAM ? 0 : -1;
        goto out;
    }
    watched.events = POLLIN;
    if (poll(&watched, 1, PATIENCE_MS) <= 0)
        errno = ETIMEDOUT;
    else
        n = recv(sock, reply, size - 1, 0);
    if (n < 0 && type == SOCK_STREAM)
        n = 0;
out:;
    int errnum = errno;
    close(sock);
    errno = errnum;
    return n;
}

/* tcp|udp ADDRESS PORT, as often as wanted. */
static int attack_connect(int argc, char **argv)
{
    for (int i = 0; i + 2 < argc; i += 3) {
        char reply[256];
        char label[128];
        int type = strcmp(argv[i], "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM;
        ssize_t n = greet(type, argv[i + 1], argv[i + 2], reply, sizeof reply);
        int errnum = errno;
        reply[n < 0 ? 0 : n] = '\0';
        reply[strcspn(reply, "\n")] = '\0';
        snprintf(label, sizeof label, "%s:%s:%s", argv[i], argv[i + 1], argv[i + 2]);
        errno = errnum;
        result_detail(n, label, "%s", n < 0 ? "" : *reply ? reply : "connected");
    }
    return 0;
}

/* Its own loopback works, in both families. */
static int attack_loopback(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const char *const hosts[] = {"127.0.0.1", "::1"};
    for (size_t i = 0; i < 2; i++) {
        struct sockaddr_storage address;
        socklen_t length;
        char byte = 0;
        make_address(hosts[i], "0", &address, &length);
        int server = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int client = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int ok = server >= 0 && client >= 0 &&
                 bind(server, (struct sockaddr *)&address, length) == 0 && listen(server, 1) == 0 &&
                 getsockname(server, (struct sockaddr *)&address, &length) == 0 &&
                 connect(client, (struct sockaddr *)&address, length) == 0;
        int peer = ok ? accept(server, NULL, NULL) : -1;
        ok = peer >= 0 && write(client, "x", 1) == 1 && read(peer, &byte, 1) == 1 && byte == 'x';
        result(ok ? 0 : -1, "%s", hosts[i]);
    }
    return 0;
}

/* Sockets of the file system and of the abstract space; the latter with @ in front. */
static int attack_unix(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t length = strlen(argv[i]);
        if (length >= sizeof address.sun_path)
            broken("path");
        memcpy(address.sun_path, argv[i], length);
        if (argv[i][0] == '@')
            address.sun_path[0] = '\0';
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
        int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        result(sock < 0 ? -1 : connect(sock, (struct sockaddr *)&address, size), "%s", argv[i]);
        if (sock >= 0)
            close(sock);
    }
    return 0;
}

/* Which links there are, and whether they can be changed. */
static int attack_links(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct if_nameindex *list = if_nameindex();
    for (struct if_nameindex *at = list; at && at->if_index; at++)
        result(0, "link:%s", at->if_name);
    if_freenameindex(list);
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo"};
    result(ioctl(sock, SIOCSIFFLAGS, &request), "lo.down");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a010203)};
    memcpy(&request.ifr_addr, &address, sizeof address);
    result(ioctl(sock, SIOCSIFADDR, &request), "lo.address");
    return 0;
}

/* Says its name to whoever connects, until it is killed: something to be found by neighbours. */
static int attack_serve(int argc, char **argv)
{
    struct sockaddr_storage address;
    socklen_t length;
    int one = 1;
    if (argc != 2 || make_address(argv[0], argv[1], &address, &length) < 0)
        broken("serve ADDRESS PORT");
    int server = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(server, (struct sockaddr *)&address, length) < 0 || listen(server, 16) < 0)
        broken("bind");
    puts("READY");
    fflush(stdout);
    for (;;) {
        int peer = accept(server, NULL, NULL);
        if (peer < 0)
            continue;
        char byte;
        if (write(peer, "sandbox\n", 8) != 8 || read(peer, &byte, 1) < 0)
            puts("a client left");
        close(peer);
    }
}

const struct attack attacks_network[] = {
    {"connect", attack_connect, "tcp|udp ADDRESS PORT …"},
    {"loopback", attack_loopback, ""},
    {"unix", attack_unix, "PATH|@NAME …"},
    {"links", attack_links, ""},
    {"serve", attack_serve, "ADDRESS PORT"},
    {0},
};
