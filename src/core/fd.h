/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors: ownership, whole reads and writes, and messages that carry descriptors. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/error.h"

static inline void cleanup_close_p(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
    }
}

#define cleanup_close __attribute__((cleanup(cleanup_close_p)))

static inline int steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

/* Closes what is there and marks it closed. */
void fd_clear(int *fd);

/* Writes all of it; returns 0 or -errno. */
int fd_write_all(int fd, const void *data, size_t size);

/* Reads a small file (procfs, cgroupfs, configuration) whole: at most `size` - 1 bytes and a NUL.
   Returns the length, or -errno; a longer file is -EFBIG. `dir` may be AT_FDCWD. */
ssize_t fd_read_file(int dir, const char *path, char *buffer, size_t size);

/* Opens for writing, writes the text in one write(2), closes. Returns 0 or -errno. */
int fd_write_file(int dir, const char *path, const char *text);

/* One message on a SOCK_SEQPACKET socket, with descriptors (at most FD_PASS_MAX). Returns the
   number of bytes (0 at the end of the stream), or -errno. Received descriptors are close-on-exec;
   a truncated message, or one with more descriptors than fit, is -EMSGSIZE and leaks nothing, and
   so is (-EBADMSG) an empty one with descriptors, which nobody would look for at the end of a
   stream. -EMFILE: `data` is there, but this process had no room for its descriptors, and they are
   lost. An empty message cannot be sent. */
#define FD_PASS_MAX 16
ssize_t fd_send(int sock, const void *data, size_t size, const int *fds, size_t fd_count);
ssize_t fd_receive(int sock, void *data, size_t size, int *ret_fds, size_t *fd_count, int flags);
/* Of what fd_receive() returned: that message was no good, but the next one may be. */
bool fd_is_bad_message(ssize_t received);
