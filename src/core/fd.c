/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors: whole reads and writes, and messages that carry descriptors. */
#include "core/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

void fd_clear(int *fd)
{
    cleanup_close_p(fd);
    *fd = -1;
}

int fd_write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

ssize_t fd_read_file(int dir, const char *path, char *buffer, size_t size)
{
    cleanup_close int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t used = 0;
    if (size == 0)
        return -EFBIG;
    for (;;) {
        /* A full buffer may still be all there is: then the next byte is the end. */
        char beyond;
        bool full = used + 1 == size;
        ssize_t n = read(fd, full ? &beyond : buffer + used, full ? 1 : size - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        if (full)
            return -EFBIG;
        used += (size_t)n;
    }
    buffer[used] = '\0';
    return (ssize_t)used;
}

int fd_write_file(int dir, const char *path, const char *text)
{
    cleanup_close int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t size = strlen(text);
    ssize_t n;
    do {
        n = write(fd, text, size);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == size ? 0 : -EIO;
}

ssize_t fd_send(int sock, const void *data, size_t size, const int *fds, size_t fd_count)
{
    union {
        char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (size == 0)
        return -EINVAL; /* the other side would take it for the end */
    if (fd_count > FD_PASS_MAX)
        return -EMSGSIZE;
    if (fd_count > 0) {
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(head), fds, sizeof(int) * fd_count);
    }
    ssize_t n;
    do {
        n = sendmsg(sock, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

bool fd_is_bad_message(ssize_t received)
{
    return received == -EMSGSIZE || received == -EBADMSG || received == -EMFILE;
}

ssize_t fd_receive(int sock, void *data, size_t size, int *ret_fds, size_t *fd_count, int flags)
{
    union {
        char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    size_t room = fd_count ? *fd_count : 0;
    int got[FD_PASS_MAX];
    size_t taken = 0;
    bool overflow = false;
    ssize_t n;
    do {
        n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC | flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            if (taken < room && taken < FD_PASS_MAX) {
                got[taken++] = fd;
            } else {
                overflow = true;
                close(fd);
            }
        }
    }
    /* The kernel stops at the first that finds no room: in the message, or in this process. */
    bool cut = message.msg_flags & MSG_CTRUNC;
    overflow = overflow || (message.msg_flags & MSG_TRUNC) || (cut && taken == FD_PASS_MAX);
    if (overflow || cut || (n == 0 && taken > 0)) {
        while (taken > 0)
            close(got[--taken]);
        return overflow ? -EMSGSIZE : n == 0 ? -EBADMSG : -EMFILE;
    }
    if (taken > 0)
        memcpy(ret_fds, got, taken * sizeof *got);
    if (fd_count)
        *fd_count = taken;
    return n;
}
