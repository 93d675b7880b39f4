/* SPDX-License-Identifier: Apache-2.0 */
/* Project quota: limits on a directory of the host's own file system.

   Every file and directory in the tree carries a project id, new ones take that of the directory
   they are made in, and the kernel charges blocks and inodes to the id. A sandbox cannot leave its
   project: from within a user namespace the kernel refuses to change the id, and a rename or link
   into a directory of another project is EXDEV.

   Limits are set before the first file is put into the project, and a directory is marked before it
   is listed, so nothing that is made meanwhile goes uncounted. The XFS forms of the calls are used
   throughout: the kernel translates them for ext4 and f2fs, and they alone tell enforcement from
   mere accounting (storage-support.c). */
#include "sandbox/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/quota.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/fd.h"

#define DEPTH_MAX   128
#define ENTRIES_MAX 1000000
#define SECTOR      512

struct walk {
    uint32_t project;
    bool leave;        /* take out of the project instead of putting in */
    bool nested;       /* what is in another project stays there, with all that is in it */
    uint32_t outer;    /* but for this one; 0: none */
    const char *apart; /* a name directly below the top that is passed by; NULL: none */
    bool past;         /* go on past what fails, and fail at the end */
    bool failed;
    uint64_t entries;
};

enum { MARK_FOREIGN = 1 };

static int project_quotactl(int fd, int command, uint32_t project, void *argument)
{
    return (int)syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), project, argument);
}

/* No bytes are no limits. */
static int set_limits(int fd, uint32_t project, const struct storage_limit *limit,
                      struct error *err)
{
    uint64_t bytes = limit->bytes;
    uint64_t inodes =
        bytes == 0 || limit->inodes > 0 ? limit->inodes : bytes / STORAGE_INODE_RATIO + 1;
    struct fs_disk_quota quota = {
        .d_version = FS_DQUOT_VERSION,
        .d_flags = FS_PROJ_QUOTA,
        .d_fieldmask = FS_DQ_BSOFT | FS_DQ_BHARD | FS_DQ_ISOFT | FS_DQ_IHARD,
        .d_id = project,
        .d_blk_hardlimit = bytes / SECTOR + (bytes % SECTOR > 0),
        .d_ino_hardlimit = inodes,
    };
    if (project_quotactl(fd, Q_XSETQLIM, project, &quota) < 0)
        return error_errno(err, errno, "cannot set the limits of project %u", project);
    return 0;
}

/* Whether it is another project's than those of this walk. */
static bool is_foreign(const struct walk *walk, uint32_t project)
{
    return project != 0 && project != walk->project && (!walk->outer || project != walk->outer);
}

/* Puts one file or directory into the project, or takes it out. MARK_FOREIGN: it stays as it is,
   with all that is in it. */
static int mark(const struct walk *walk, int fd, bool directory, bool top, struct error *err)
{
    struct fsxattr attributes;
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes) < 0)
        return error_errno(err, errno, "cannot read a project id");
    struct fsxattr old = attributes;
    if (walk->leave) {
        /* None that was put in lies in one that was not. */
        if (old.fsx_projid != walk->project)
            return MARK_FOREIGN;
        attributes.fsx_projid = 0;
        attributes.fsx_xflags &= ~(uint32_t)FS_XFLAG_PROJINHERIT;
    } else {
        if (is_foreign(walk, old.fsx_projid) && walk->nested && !top)
            return MARK_FOREIGN;
        if (is_foreign(walk, old.fsx_projid)) {
            error_set(err, ERROR_DENIED, "it is already in project %u", old.fsx_projid);
            return error_hint(err,
                              "use another directory, or take it out: chattr -R -P -p 0 DIRECTORY");
        }
        attributes.fsx_projid = walk->project;
        if (directory)
            attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    }
    if (attributes.fsx_projid == old.fsx_projid && attributes.fsx_xflags == old.fsx_xflags)
        return 0;
    if (ioctl(fd, FS_IOC_FSSETXATTR, &attributes) < 0)
        return error_errno(err, errno, "cannot set project id %u", attributes.fsx_projid);
    return 0;
}

static int walk_directory(struct walk *walk, int fd, int depth, struct error *err);

/* Looked at before it is opened: opening a device or a pipe does things. Gone meanwhile is fine. */
static int walk_entry(struct walk *walk, int dir, const char *name, int depth, struct error *err)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS};
    struct stat st;
    cleanup_close int found = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
    if (found < 0 && errno == ENOENT)
        return 0;
    if (found < 0 && errno == EXDEV)
        return error_set(err, ERROR_INVALID, "'%.100s' is a mount of another file system", name);
    if (found < 0 || fstat(found, &st) < 0)
        return error_errno(err, errno, "cannot look at '%.100s'", name);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return 0;
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", found);
    cleanup_close int fd = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == EWOULDBLOCK)
        return error_set(err, ERROR_UNAVAILABLE,
                         "a program has a lease on '%.100s', and was asked to give it up", name);
    if (fd < 0)
        return error_errno(err, errno, "cannot open '%.100s'", name);
    if (S_ISREG(st.st_mode) ? mark(walk, fd, false, false, err) < 0
                            : walk_directory(walk, steal_fd(&fd), depth + 1, err) < 0)
        return depth < 4 ? error_wrap(err, "'%.60s'", name) : -1;
    return 0;
}

static int pass(struct walk *walk, int rc)
{
    if (rc == 0 || !walk->past)
        return rc;
    walk->failed = true;
    return 0;
}

/* Takes ownership of `fd`. */
static int walk_directory(struct walk *walk, int fd, int depth, struct error *err)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int saved = errno;
        close(fd);
        return error_errno(err, saved, "cannot list a directory");
    }
    int rc = mark(walk, fd, true, depth == 0, err);
    if (rc == 0 && depth > DEPTH_MAX)
        rc = error_set(err, ERROR_LIMIT, "directories are more than %d deep", DEPTH_MAX);
    while (rc == 0) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno != 0)
                rc = error_errno(err, errno, "cannot list a directory");
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (depth == 0 && walk->apart && strcmp(entry->d_name, walk->apart) == 0))
            continue;
        if (++walk->entries > ENTRIES_MAX)
            rc = error_set(err, ERROR_LIMIT, "it holds more than %d files", ENTRIES_MAX);
        else
            rc = pass(walk, walk_entry(walk, fd, entry->d_name, depth, walk->failed ? NULL : err));
    }
    closedir(dir);
    return rc == MARK_FOREIGN ? 0 : rc;
}

/* A descriptor of our own that can be listed and takes ioctls, which O_PATH does not. */
static int reopen(int dir_fd, int *ret_fd, struct error *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open the directory for a project quota");
    *ret_fd = fd;
    return 0;
}

static int walk_tree(int fd, struct walk walk, struct error *err)
{
    int top = -1;
    if (reopen(fd, &top, err) < 0)
        return -1;
    int rc = walk_directory(&walk, top, 0, err);
    return walk.failed ? -1 : rc;
}

/* The way back of the same walk: past the same names, and into nothing that it did not put in. */
static int take_out(int fd, struct walk walk, struct error *err)
{
    walk.leave = walk.past = true;
    int rc = walk_tree(fd, walk, err);
    if (rc < 0)
        error_wrap(err, "cannot take the directory out of project %u", walk.project);
    return set_limits(fd, walk.project, &(struct storage_limit){0}, rc < 0 ? NULL : err) < 0 ? -1
                                                                                             : rc;
}

static int put_in(int fd, struct walk walk, bool was_in, struct error *err)
{
    if (walk_tree(fd, walk, err) == 0)
        return 0;
    if (!was_in)
        take_out(fd, walk, NULL);
    return error_wrap(err, "cannot put the directory under a quota");
}

static int is_in(int fd, uint32_t project, bool *ret, struct error *err)
{
    struct fsxattr attributes;
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes) < 0)
        return error_errno(err, errno, "cannot read a project id");
    *ret = attributes.fsx_projid == project;
    return 0;
}

int storage_project_set(int dir_fd, uint32_t project, const struct storage_limit *limit,
                        struct error *err)
{
    bool was_in;
    cleanup_close int fd = -1;
    if (project == 0 || limit->bytes == 0)
        return error_set(err, ERROR_INVALID, "a project quota needs a project and a limit");
    if (reopen(dir_fd, &fd, err) < 0 || storage_project_check(fd, err) < 0 ||
        is_in(fd, project, &was_in, err) < 0 || set_limits(fd, project, limit, err) < 0)
        return -1;
    return put_in(fd, (struct walk){.project = project}, was_in, err);
}

int storage_project_nest(int dir_fd, const struct storage_nest *nest,
                         const struct storage_limit *limit, struct error *err)
{
    struct walk walk = {
        .project = nest->project, .nested = true, .outer = nest->outer, .apart = nest->apart};
    bool was_in;
    cleanup_close int fd = -1;
    if (nest->project == 0)
        return error_set(err, ERROR_INVALID, "a project quota needs a project");
    if (reopen(dir_fd, &fd, err) < 0 || storage_project_check(fd, err) < 0 ||
        is_in(fd, nest->project, &was_in, err) < 0)
        return -1;
    if (limit->bytes == 0)
        return was_in ? set_limits(fd, nest->project, limit, err) : 0;
    if (set_limits(fd, nest->project, limit, err) < 0)
        return -1;
    if (!was_in)
        return put_in(fd, walk, false, err);
    /* What was made since is in the project by birth. The walk is for what a boxd that was killed
       on its way has not come to, and whatever of it can be put in is. */
    walk.past = true;
    if (!nest->known)
        walk_tree(fd, walk, NULL);
    return 0;
}

int storage_project_clear(int dir_fd, uint32_t project, struct error *err)
{
    cleanup_close int fd = -1;
    if (project == 0)
        return error_set(err, ERROR_INVALID, "project 0 has no limits to clear");
    if (reopen(dir_fd, &fd, err) < 0 || storage_project_check(fd, err) < 0)
        return -1;
    return take_out(fd, (struct walk){.project = project}, err);
}
