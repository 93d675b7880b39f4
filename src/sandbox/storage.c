/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces as images: a size-limited ext4 on a loop device on an unnamed file.

   Everything hangs on the mount, and nothing has a name to be cleaned up. The file is O_TMPFILE,
   and only the loop device holds it; the device is LO_FLAGS_AUTOCLEAR, and only the mount holds it.
   So the kernel takes all of it back when the last reference to the mount goes.

   The file is sparse. Reserving its blocks (fallocate) would make the promise hold even when the
   host's disk runs full, but an idle session would then cost its whole limit, and on tmpfs real
   memory; most sessions never come near theirs. The price: if the host runs full after the check
   made here, what the sandbox writes is lost on its way to the disk, and only fsync() tells it.

   Measured with ext4 below: direct I/O keeps a workspace from being in the page cache twice;
   "discard" would give the space of deleted files back to the host at once, but makes rm -rf of a
   source tree 4 to 20 times slower, so a workspace costs the most it ever held until it ends. */
#include "sandbox/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "core/fd.h"

#define BLOCK         4096
#define LOOP_MAJOR    7
#define LOOP_ATTEMPTS 100
#define LOOP_PATH_MAX 32

static int not_permitted(int errnum, const char *what, struct error *err)
{
    error_set(err, ERROR_UNSUPPORTED, "%s: %s", what, strerror(errnum));
    if (err)
        err->errnum = errnum;
    return error_hint(err, "run boxd as root with CAP_SYS_ADMIN and access to /dev/loop* (in a "
                           "container: --privileged)");
}

static int control_open(int *ret_fd, struct error *err)
{
    int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return not_permitted(errno, "cannot open /dev/loop-control", err);
    if (fd < 0) {
        error_set(err, ERROR_UNSUPPORTED, "no loop devices: cannot open /dev/loop-control: %s",
                  strerror(errno));
        return error_hint(err, "modprobe loop (in a container: --device /dev/loop-control)");
    }
    *ret_fd = fd;
    return 0;
}

static int file_open(const char *directory, const struct storage_limit *limit, uint64_t size,
                     int *ret_fd, struct error *err)
{
    cleanup_close int fd =
        open(directory, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        error_set(err, ERROR_UNSUPPORTED, "the file system of %s has no unnamed files", directory);
        return error_hint(err, "keep workspaces in a directory on ext4, xfs, btrfs or tmpfs");
    }
    if (fd < 0)
        return error_errno(err, errno, "cannot make a file in %s", directory);
    struct statvfs host;
    if (fstatvfs(fd, &host) < 0)
        return error_errno(err, errno, "cannot ask for the free space of %s", directory);
    if (host.f_bavail < limit->bytes / host.f_frsize) {
        error_set(err, ERROR_LIMIT, "%s has %llu MiB free, the workspace may take %llu MiB",
                  directory, (unsigned long long)(host.f_bavail * host.f_frsize >> 20),
                  (unsigned long long)(limit->bytes >> 20));
        return error_hint(err, "free some space in %s, or lower the disk limit", directory);
    }
    if (ftruncate(fd, (off_t)size) < 0)
        return error_errno(err, errno, "cannot make a file of %llu bytes in %s",
                           (unsigned long long)size, directory);
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* The device, and its node if nobody made one: a /dev in a container is not the kernel's own. */
static int device_open(int number, const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    dev_t device = makedev(LOOP_MAJOR, (unsigned)number);
    if (mknod(path, S_IFBLK | S_IRUSR | S_IWUSR, device) < 0 && errno != EEXIST)
        return -1;
    return open(path, O_RDWR | O_CLOEXEC);
}

/* The kernel names a free device but does not reserve it: whoever configures it first has it. */
static int loop_attach(int control, int file, char path[static LOOP_PATH_MAX], int *ret_fd,
                       struct error *err)
{
    struct loop_config config = {.fd = (unsigned)file,
                                 .block_size = BLOCK,
                                 .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
                                          .lo_file_name = "boxd workspace"}};
    for (int i = 0; i < LOOP_ATTEMPTS; i++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return error_errno(err, errno, "no free loop device");
        snprintf(path, LOOP_PATH_MAX, "/dev/loop%d", number);
        cleanup_close int fd = device_open(number, path);
        if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            *ret_fd = steal_fd(&fd);
            return 0;
        }
        if (errno == EACCES || errno == EPERM)
            return not_permitted(errno, "cannot use a loop device", err);
        /* ENXIO, ENODEV: removed by losetup -d or its like between the calls. */
        if (errno != EBUSY && errno != ENXIO && errno != ENODEV)
            return error_errno(err, errno, "cannot use %s", path);
    }
    return error_set(err, ERROR_SYSTEM, "others took every free loop device first, %d times",
                     LOOP_ATTEMPTS);
}

/* The data of a sparse file; its holes are holes in the other one as well. */
static int copy_data(int from, int to)
{
    char block[16 * BLOCK];
    for (off_t at = 0; (at = lseek(from, at, SEEK_DATA)) >= 0;) {
        off_t end = lseek(from, at, SEEK_HOLE);
        while (at < end) {
            size_t want = end - at < (off_t)sizeof block ? (size_t)(end - at) : sizeof block;
            ssize_t n = pread(from, block, want, at);
            if (n <= 0 || pwrite(to, block, (size_t)n, at) != n)
                return -1;
            at += n;
        }
    }
    return errno == ENXIO ? 0 : -1;
}

/* The file system goes in through the device, not the file: so it sits in the device's cache when
   the mount reads it a moment later, and nothing waits for the host's disk. The descriptor returned
   is read-only, because a kernel without CONFIG_BLK_DEV_WRITE_MOUNTED mounts nothing that is open
   for writing. */
static int loop_fill(int *loop, const char *path, int template, struct error *err)
{
    if (copy_data(template, *loop) < 0)
        return error_errno(err, errno, "cannot write the file system to %s", path);
    int reading = open(path, O_RDONLY | O_CLOEXEC);
    if (reading < 0)
        return error_errno(err, errno, "cannot open %s again", path);
    fd_clear(loop);
    *loop = reading;
    return 0;
}

static int mount_failed(int fs, int errnum, const char *path, struct error *err)
{
    char why[200]; /* lines such as "e ext4: Unknown parameter 'x'" */
    ssize_t length = read(fs, why, sizeof why - 1);
    why[length > 0 ? length : 0] = '\0';
    why[strcspn(why, "\n")] = '\0';
    if (errnum == EPERM || errnum == EACCES)
        return not_permitted(errnum, "cannot mount a file system", err);
    return error_errno(err, errnum, "cannot mount %s%s%s", path, why[0] ? ": " : "",
                       length > 2 ? why + 2 : "");
}

/* Options: an error (the host's disk is full) stops writing instead of going on with a broken tree;
   nothing is initialised behind the session's back; a flush is no flush of the host's disk, since
   nothing of this survives the host anyway. */
static int mount_make(const char *path, int *ret_fd, struct error *err)
{
    cleanup_close int fs = fsopen("ext4", FSOPEN_CLOEXEC);
    if (fs < 0 && errno == ENODEV) {
        error_set(err, ERROR_UNSUPPORTED, "the kernel has no ext4");
        return error_hint(err, "modprobe ext4");
    }
    if (fs < 0)
        return mount_failed(-1, errno, "ext4", err);
    if (fsconfig(fs, FSCONFIG_SET_STRING, "source", path, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "errors", "remount-ro", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "nobarrier", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return mount_failed(fs, errno, path, err);
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        return mount_failed(fs, errno, path, err);
    *ret_fd = fd;
    return 0;
}

int storage_image_mount(const char *directory, const struct storage_limit *limit, uid_t uid,
                        gid_t gid, int *ret_mount_fd, struct error *err)
{
    cleanup_close int control = -1, file = -1, loop = -1, mount = -1;
    char path[LOOP_PATH_MAX];
    int template;
    uint64_t size;
    if (uid == (uid_t)-1 || gid == (gid_t)-1)
        return error_set(err, ERROR_INVALID, "a workspace needs an owner");
    if (control_open(&control, err) < 0 || storage_template(limit, &template, &size, err) < 0 ||
        file_open(directory, limit, size, &file, err) < 0 ||
        loop_attach(control, file, path, &loop, err) < 0 ||
        loop_fill(&loop, path, template, err) < 0 || mount_make(path, &mount, err) < 0)
        return error_wrap(err, "workspace of limited size");
    if (fchownat(mount, "", uid, gid, AT_EMPTY_PATH) < 0 ||
        unlinkat(mount, "lost+found", AT_REMOVEDIR) < 0)
        return error_errno(err, errno, "cannot prepare the root of a new workspace");
    *ret_mount_fd = steal_fd(&mount);
    return 0;
}
