/* SPDX-License-Identifier: Apache-2.0 */
/* Which project a directory is in, and which one it can have.

   A number comes from the directory's inode, so that the same directory has the same one each time
   and nothing has to be written down. Inode numbers can be larger than the numbers there are, and
   then two directories would have the same: so one that others are in is passed over. What a
   directory is in, it keeps. */
#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fd.h"
#include "sandbox/storage.h"

#define TRIES 16u

static int open_listed(int dir_fd, struct fsxattr *ret, struct error *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open a directory for its project");
    if (ioctl(fd, FS_IOC_FSGETXATTR, ret) < 0) {
        error_errno(err, errno, "cannot read a project id");
        close(fd);
        return -1;
    }
    return fd;
}

int storage_project_find(int dir_fd, uint32_t *ret, struct error *err)
{
    struct fsxattr attributes;
    cleanup_close int fd = open_listed(dir_fd, &attributes, err);
    if (fd < 0)
        return -1;
    *ret = attributes.fsx_projid;
    return 0;
}

int storage_project_leave(int dir_fd, uint32_t project, struct error *err)
{
    struct fsxattr attributes;
    cleanup_close int fd = open_listed(dir_fd, &attributes, err);
    if (fd < 0)
        return -1;
    if (project == 0 || attributes.fsx_projid != project)
        return 0;
    attributes.fsx_projid = 0;
    attributes.fsx_xflags &= ~(uint32_t)FS_XFLAG_PROJINHERIT;
    if (ioctl(fd, FS_IOC_FSSETXATTR, &attributes) < 0)
        return error_errno(err, errno, "cannot take a directory out of project %u", project);
    return 0;
}

bool storage_project_is_top(int dir_fd, uint32_t project)
{
    uint32_t own;
    uint32_t above;
    cleanup_close int parent = openat(dir_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return parent >= 0 && storage_project_find(dir_fd, &own, NULL) == 0 && own == project &&
           /* One on a file system without projects is in none. */
           (storage_project_find(parent, &above, NULL) < 0 || above != project);
}

/* Whether nothing is in the project: 1, 0, or -1 if that cannot be told. */
static int is_empty(int fd, uint32_t project, struct error *err)
{
    struct fs_disk_quota quota = {0};
    if (syscall(SYS_quotactl_fd, fd, QCMD(Q_XGETQUOTA, PRJQUOTA), project, &quota) == 0)
        return quota.d_icount == 0;
    if (errno == ENOENT) /* xfs has never heard of it */
        return 1;
    return error_errno(err, errno, "cannot look at project %u", project);
}

int storage_project_choose(int dir_fd, uint32_t first, uint32_t outer, uint32_t *ret,
                           struct error *err)
{
    struct fsxattr attributes;
    struct stat st;
    cleanup_close int fd = open_listed(dir_fd, &attributes, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot look at a directory");
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < TRIES; i++) {
            uint32_t project = first + (uint32_t)((st.st_ino + i) % STORAGE_PROJECT_COUNT);
            if (outer && project == outer)
                continue;
            int found = pass == 0 ? project == attributes.fsx_projid : is_empty(fd, project, err);
            if (found < 0)
                return -1;
            if (found) {
                *ret = project;
                return 0;
            }
        }
    }
    return error_set(err, ERROR_LIMIT, "%u projects from %u on are taken", TRIES,
                     first + (uint32_t)(st.st_ino % STORAGE_PROJECT_COUNT));
}
