/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that systemd opened for us: LISTEN_PID, LISTEN_FDS; see sd_listen_fds(3). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/parse.h"
#include "daemon/systemd.h"

#define FIRST_FD 3

static int check_socket(int fd, struct error *err)
{
    int type = 0, listening = 0;
    socklen_t size = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0)
        return error_errno(err, errno, "descriptor %d, from socket activation, is no socket", fd);
    if (type != SOCK_STREAM || !listening) {
        error_set(err, ERROR_INVALID,
                  "descriptor %d, from socket activation, is no listening stream socket", fd);
        return error_hint(err, "ListenStream= and Accept=no in the socket unit");
    }
    /* The loop takes connections until there are none, and must not wait then. */
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot set up descriptor %d", fd);
    return 0;
}

/* How many are meant for this very process. */
static size_t count_given(void)
{
    const char *pid = getenv("LISTEN_PID");
    const char *fds = getenv("LISTEN_FDS");
    uint64_t value, count;
    if (!pid || !fds || parse_u64(pid, INT_MAX, &value) < 0 || (pid_t)value != getpid() ||
        parse_u64(fds, INT_MAX - FIRST_FD, &count) < 0)
        return 0;
    return (size_t)count;
}

int activate_take(struct activation *ret, struct error *err)
{
    size_t count = count_given();
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    *ret = (struct activation){0};
    if (count > ACTIVATE_MAX)
        return error_set(err, ERROR_LIMIT, "%zu sockets from activation are more than %d", count,
                         ACTIVATE_MAX);
    for (size_t i = 0; i < count; i++) {
        int fd = FIRST_FD + (int)i;
        if (check_socket(fd, err) < 0)
            return -1;
        ret->fds[ret->count++] = fd;
    }
    return 0;
}
