/* SPDX-License-Identifier: Apache-2.0 */
/* Files, opened where the sandbox's own view and rights decide: only regular files come out. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fd.h"
#include "init/init.h"

static uint64_t open_flags(uint32_t wanted)
{
    /* Not blocking: a FIFO must not stop PID 1. */
    uint64_t flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if (wanted & INIT_OPEN_WRITE)
        flags |= wanted & INIT_OPEN_READ ? O_RDWR : O_WRONLY;
    if (wanted & INIT_OPEN_CREATE)
        flags |= O_CREAT;
    if (wanted & INIT_OPEN_EXCLUSIVE)
        flags |= O_EXCL;
    return flags;
}

static int open_regular(const struct init_open *request, const char *path)
{
    struct open_how how = {.flags = open_flags(request->flags),
                           .mode = request->flags & INIT_OPEN_CREATE ? request->mode & 0777 : 0,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    struct stat st;
    cleanup_close int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    /* After the check, so that nothing but a file is ever truncated. */
    if ((request->flags & INIT_OPEN_TRUNCATE) && ftruncate(fd, 0) < 0)
        return -errno;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0)
        return -errno;
    return steal_fd(&fd);
}

void files_open(int control, const struct init_open *request, const char *path)
{
    struct init_reply reply = {.type = INIT_REPLY, .request = request->request};
    cleanup_close int fd = -1;
    int rc = -EINVAL;
    if (!(request->flags & ~(uint32_t)INIT_OPEN_ALL) && path[0] == '/')
        rc = open_regular(request, path);
    if (rc < 0)
        reply.errnum = -rc;
    else
        fd = rc;
    fd_send(control, &reply, sizeof reply, &fd, fd >= 0);
}

void files_statfs(int control, const struct init_open *request, const char *path)
{
    struct init_statfs reply = {.type = INIT_STATFS, .request = request->request};
    struct statvfs st;
    if (statvfs(path, &st) < 0) {
        reply.errnum = errno;
    } else {
        reply.block_size = st.f_frsize;
        reply.blocks = st.f_blocks;
        reply.blocks_free = st.f_bavail;
        reply.inodes = st.f_files;
        reply.inodes_free = st.f_favail;
    }
    fd_send(control, &reply, sizeof reply, NULL, 0);
}
