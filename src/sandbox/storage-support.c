/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a file system has project quota, and if not, what to do about it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/fd.h"
#include "sandbox/storage.h"

/* The name under /dev of the device a file system is on; "DEVICE" where it has none. */
static void device_name(int fd, char *ret, size_t size)
{
    char path[64], text[512];
    struct stat st;
    snprintf(ret, size, "DEVICE");
    if (fstat(fd, &st) < 0)
        return;
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/uevent", major(st.st_dev), minor(st.st_dev));
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return;
    char *name = strstr(text, "DEVNAME=");
    if (name) {
        name += strlen("DEVNAME=");
        snprintf(ret, size, "/dev/%.*s", (int)strcspn(name, "\n"), name);
    }
}

static int unsupported(int fd, const char *reason, struct error *err)
{
    char device[64];
    struct statfs fs = {0};
    device_name(fd, device, sizeof device);
    fstatfs(fd, &fs);
    switch (fs.f_type) {
    case EXT4_SUPER_MAGIC:
        error_set(err, ERROR_UNSUPPORTED, "no project quota on this ext4: %s", reason);
        return error_hint(err,
                          "umount it, then tune2fs -O project,quota -Q prjquota %s, then mount "
                          "with -o prjquota (the kernel needs CONFIG_QFMT_V2)",
                          device);
    case XFS_SUPER_MAGIC:
        error_set(err, ERROR_UNSUPPORTED, "no project quota on this xfs: %s", reason);
        return error_hint(err,
                          "umount it and mount %s with -o prjquota; for the root file system boot "
                          "with rootflags=prjquota (the kernel needs CONFIG_XFS_QUOTA)",
                          device);
    default:
        error_set(err, ERROR_UNSUPPORTED, "no project quota on this file system (type 0x%lx): %s",
                  (unsigned long)fs.f_type, reason);
        return error_hint(err, "keep workspaces on ext4 or xfs mounted with -o prjquota");
    }
}

int storage_project_check(int dir_fd, struct error *err)
{
    struct fs_quota_stat state = {0};
    struct fsxattr attributes;
    const unsigned wanted = FS_QUOTA_PDQ_ACCT | FS_QUOTA_PDQ_ENFD;
    cleanup_close int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open the directory for a project quota");
    /* ENOSYS is also "no quota is on". */
    if (syscall(SYS_quotactl_fd, fd, QCMD(Q_XGETQSTAT, PRJQUOTA), 0, &state) < 0)
        return unsupported(fd, errno == ENOSYS ? "no quota is turned on" : strerror(errno), err);
    if ((state.qs_flags & wanted) != wanted)
        return unsupported(fd, "it is not enforced", err);
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes) < 0)
        return unsupported(fd, "it has no project ids", err);
    return 0;
}
