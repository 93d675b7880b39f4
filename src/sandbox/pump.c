/* SPDX-License-Identifier: Apache-2.0 */
/* Moving bytes without ever blocking.

   The destination is often a descriptor that others share (a terminal, the next program of a
   pipeline), so O_NONBLOCK may not be set on it: that flag belongs to the open file, not to the
   descriptor, and would hit everybody. So: from pipe to pipe by splice(2), which has a flag of its
   own for that; sockets by send(2), likewise; terminals are opened once more by their name in
   /proc. Where that is forbidden, writes are so small that a descriptor poll(2) called writable
   takes them whole. */
#include "sandbox/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/mem.h"

#define SPLICE_MAX    (1024u * 1024)
#define TERMINAL_LAST (128u * 1024) /* more than a terminal buffers */

static bool is_pipe(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int open_again(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* How bytes get into `to`; whether that needs a file of its own. */
static enum pump_way find_way(int from, int to, bool *ret_again)
{
    struct stat st;
    bool pipe = is_pipe(from);
    *ret_again = false;
    if (fstat(to, &st) < 0)
        return PUMP_WRITE;
    if (S_ISSOCK(st.st_mode))
        return PUMP_SEND;
    if (S_ISREG(st.st_mode)) /* splice refuses files that are appended to */
        return pipe && !(fcntl(to, F_GETFL) & O_APPEND) ? PUMP_SPLICE : PUMP_WRITE;
    if (pipe && (S_ISFIFO(st.st_mode) || !isatty(to)))
        return PUMP_SPLICE;
    *ret_again = true;
    return PUMP_WRITE;
}

void pump_to_memory(struct pump *pump, int from, size_t ceiling)
{
    *pump = (struct pump){
        .from = from, .to = -1, .way = PUMP_KEEP, .left = UINT64_MAX, .kept = BUF_INIT(ceiling)};
}

void pump_to_fd(struct pump *pump, int from, int to)
{
    bool again;
    *pump = (struct pump){.from = from, .to = -1, .left = UINT64_MAX};
    pump->way = find_way(from, to, &again);
    if (again)
        pump->to = open_again(to);
    if (pump->to < 0) {
        pump->blocking = again;
        pump->to = fcntl(to, F_DUPFD_CLOEXEC, 3);
    }
}

void pump_from(struct pump *pump, const void *data, size_t size, int from, int to)
{
    *pump = (struct pump){.from = from, .to = to, .way = PUMP_WRITE, .left = UINT64_MAX};
    if (from >= 0) /* a copy, so that every pump owns what it holds */
        pump->from = fcntl(from, F_DUPFD_CLOEXEC, 3);
    if (size > 0) {
        pump->data = xmalloc(size > PUMP_BUFFER ? size : PUMP_BUFFER);
        memcpy(pump->data, data, size);
        pump->end = size;
    } else if (pump->from < 0) {
        fd_clear(&pump->to);
    }
}

static bool has_pending(const struct pump *pump)
{
    return pump->start < pump->end;
}

struct pollfd pump_wanted(const struct pump *pump)
{
    if (pump->full || has_pending(pump))
        return (struct pollfd){.fd = pump->to, .events = POLLOUT};
    return (struct pollfd){.fd = pump->left > 0 ? pump->from : -1, .events = POLLIN};
}

bool pump_done(const struct pump *pump)
{
    return !has_pending(pump) && (pump->from < 0 || pump->left == 0);
}

/* Nothing more comes; when the last byte is delivered, the reader is told. */
static void end_source(struct pump *pump)
{
    fd_clear(&pump->from);
    pump->full = false;
    if (!has_pending(pump))
        fd_clear(&pump->to);
}

/* Nobody takes it. Closing the source tells the writer, as in a shell's pipeline: SIGPIPE. */
static void end_destination(struct pump *pump, int errnum)
{
    pump->errnum = errnum;
    pump->start = pump->end = 0;
    pump->full = false;
    fd_clear(&pump->to);
    fd_clear(&pump->from);
}

static void took(struct pump *pump, size_t size)
{
    pump->bytes += size;
    if (pump->left != UINT64_MAX)
        pump->left -= size;
}

static size_t at_most(const struct pump *pump, size_t size)
{
    return pump->left < size ? (size_t)pump->left : size;
}

/* Reads; false if nothing came. The master of a terminal says EIO when its last user is gone. */
static bool take(struct pump *pump, char *buffer, size_t size, size_t *ret_size)
{
    ssize_t n = read(pump->from, buffer, at_most(pump, size));
    if (n > 0) {
        took(pump, (size_t)n);
        *ret_size = (size_t)n;
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        end_source(pump);
    return false;
}

static char *scratch(struct pump *pump)
{
    if (!pump->data)
        pump->data = xmalloc(PUMP_BUFFER);
    return pump->data;
}

static void step_keep(struct pump *pump)
{
    size_t room = PUMP_BUFFER;
    size_t size;
    char *at = buf_reserve(&pump->kept, PUMP_BUFFER, &room);
    if (take(pump, at ? at : scratch(pump), room, &size) && at)
        pump->kept.size += size;
}

static void deliver(struct pump *pump)
{
    size_t size = pump->end - pump->start;
    if (pump->blocking && size > PIPE_BUF)
        size = PIPE_BUF;
    const char *at = pump->data + pump->start;
    ssize_t n = pump->way == PUMP_SEND ? send(pump->to, at, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                                       : write(pump->to, at, size);
    if (n >= 0)
        pump->start += (size_t)n;
    else if (errno != EAGAIN && errno != EINTR)
        end_destination(pump, errno);
    if (!has_pending(pump) && pump->from < 0)
        fd_clear(&pump->to);
}

static void step_copy(struct pump *pump)
{
    if (!has_pending(pump)) {
        pump->start = pump->end = 0;
        if (!take(pump, scratch(pump), PUMP_BUFFER, &pump->end))
            return;
        if (pump->blocking) /* whether there is room is for poll() to say */
            return;
    }
    deliver(pump);
}

/* EAGAIN does not say which end it is about. */
static bool source_is_empty(const struct pump *pump)
{
    int waiting = 0;
    return ioctl(pump->from, FIONREAD, &waiting) == 0 && waiting == 0;
}

static void step_splice(struct pump *pump)
{
    pump->full = false;
    ssize_t n = splice(pump->from, NULL, pump->to, NULL, at_most(pump, SPLICE_MAX),
                       SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n > 0)
        took(pump, (size_t)n);
    else if (n == 0)
        end_source(pump);
    else if (errno == EAGAIN)
        pump->full = !source_is_empty(pump);
    else if (errno != EINVAL && errno != EINTR)
        end_destination(pump, errno);
    else if (errno == EINVAL) { /* a kind of file that cannot be spliced to */
        pump->way = PUMP_WRITE;
        step_copy(pump);
    }
}

void pump_step(struct pump *pump)
{
    if (pump_done(pump))
        return;
    if (pump->way == PUMP_KEEP)
        step_keep(pump);
    else if (pump->to < 0)
        end_destination(pump, EBADF);
    else if (pump->way == PUMP_SPLICE)
        step_splice(pump);
    else
        step_copy(pump);
}

void pump_last(struct pump *pump)
{
    int waiting = 0;
    if (pump->from < 0)
        return;
    if (isatty(pump->from)) /* does not tell all that is under way; reading does */
        pump->left = TERMINAL_LAST;
    else if (ioctl(pump->from, FIONREAD, &waiting) == 0)
        pump->left = (uint64_t)waiting;
    else
        pump->left = 0;
}

void pump_release(struct pump *pump)
{
    fd_clear(&pump->from);
    fd_clear(&pump->to);
    buf_release(&pump->kept);
    free(pump->data);
    pump->data = NULL;
}
