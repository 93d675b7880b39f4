/* SPDX-License-Identifier: Apache-2.0 */
/* The least a relay can do: what comes from a socket goes into a pipe, and the other way round. */
#include "bare-relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "core/fd.h"

static void connect_pair(int ret[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int one = 1;
    cleanup_close int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || ret[0] < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 ||
        listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
        connect(ret[0], (struct sockaddr *)&address, size) < 0 ||
        (ret[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
        bench_fail("no bare relay: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        setsockopt(ret[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void relay(int sock, int in, int out)
{
    static char data[64 * 1024];
    struct epoll_event events[2];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, sock);
    watch(epoll, out);
    for (;;) {
        int count = epoll_wait(epoll, events, 2, -1);
        for (int i = 0; i < count; i++) {
            int from = events[i].data.fd;
            ssize_t size = read(from, data, sizeof data);
            if (size <= 0 || write(from == sock ? in : sock, data, (size_t)size) != size)
                _exit(0);
        }
    }
}

int bare_relay_start(void)
{
    static char *const cat[] = {(char *)"/bin/cat", NULL};
    int sock[2], to_cat[2], from_cat[2];
    connect_pair(sock);
    if (pipe2(to_cat, O_CLOEXEC) < 0 || pipe2(from_cat, O_CLOEXEC) < 0)
        bench_fail("pipe: %s", strerror(errno));
    spawn_with(cat, to_cat[0], from_cat[1], null_fd);
    close(to_cat[0]);
    close(from_cat[1]);
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (pid == 0) {
        close(sock[0]);
        relay(sock[1], to_cat[1], from_cat[0]);
    }
    close(sock[1]);
    close(to_cat[1]);
    close(from_cat[0]);
    return sock[0];
}
