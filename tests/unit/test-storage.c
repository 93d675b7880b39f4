/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces of limited size: what they hold, what they leave behind, and how they are refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "core/mem.h"
#include "sandbox/storage.h"

#define MIB            (UINT64_C(1) << 20)
#define CANNOT_PREPARE 100

static char directory[] = "/var/tmp/boxd-test-storage-XXXXXX";

static void need_loop(void)
{
    if (geteuid() != 0 || access("/dev/loop-control", R_OK | W_OK) < 0) {
        print_message("skipped: needs root and /dev/loop-control\n");
        skip();
    }
    if (access("/usr/sbin/mkfs.ext4", X_OK) < 0 && access("/sbin/mkfs.ext4", X_OK) < 0) {
        print_message("skipped: needs mkfs.ext4\n");
        skip();
    }
}

static int image(uint64_t bytes, uint64_t inodes)
{
    struct storage_limit limit = {.bytes = bytes, .inodes = inodes};
    struct error err = ERROR_INIT;
    int fd = -1;
    if (storage_image_mount(directory, &limit, 12345, 23456, &fd, &err) < 0)
        fail_msg("%s (%s)", err.message, err.hint);
    return fd;
}

static unsigned loop_number(int fd)
{
    struct stat st;
    assert_return_code(fstat(fd, &st), 0);
    assert_int_equal(major(st.st_dev), 7);
    return minor(st.st_dev);
}

/* Whether the device is on a file in our directory. */
static bool loop_is_ours(unsigned number)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/sys/block/loop%u/loop/backing_file", number);
    return fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 &&
           strncmp(text, directory, strlen(directory)) == 0;
}

/* The kernel takes a mount and its device down a moment after the last reference went. */
static bool loop_goes(unsigned number)
{
    for (int i = 0; i < 5000 && loop_is_ours(number); i++)
        poll(NULL, 0, 1);
    return !loop_is_ours(number);
}

static unsigned loops_of_ours(void)
{
    unsigned count = 0;
    DIR *block = opendir("/sys/block");
    for (struct dirent *entry; block && (entry = readdir(block));) {
        unsigned number;
        if (sscanf(entry->d_name, "loop%u", &number) == 1)
            count += loop_is_ours(number);
    }
    if (block)
        closedir(block);
    return count;
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 5000 && loops_of_ours() > 0; i++)
        poll(NULL, 0, 1);
    if (loops_of_ours() > 0)
        return -1;
    return rmdir(directory);
}

/* Runs in a child with mounts of its own; the child's status, or skips if it cannot have them. */
static void in_own_mounts(int (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            _exit(CANNOT_PREPARE);
        _exit(body());
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_PREPARE) {
        print_message("skipped: the mounts for it cannot be made here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* The error of a mount that must not succeed. */
static int refused(const char *where, uint64_t bytes, struct error *err)
{
    struct storage_limit limit = {.bytes = bytes};
    int fd = -7;
    *err = (struct error)ERROR_INIT;
    return storage_image_mount(where, &limit, 1, 1, &fd, err) == -1 && fd == -7 && err->message[0];
}

static void test_template_is_kept(void **state)
{
    (void)state;
    need_loop();
    struct storage_limit limit = {.bytes = 20 * MIB};
    int first, second, other;
    uint64_t size, again;
    assert_int_equal(storage_template(&limit, &first, &size, NULL), 0);
    assert_int_equal(storage_template(&limit, &second, &again, NULL), 0);
    assert_int_equal(first, second);
    assert_int_equal(size, again);
    assert_true(size > limit.bytes);
    limit.bytes = 8192 * 1024 * MIB / 8;
    assert_int_equal(storage_template(&limit, &other, &size, NULL), 0);
    struct stat st;
    assert_return_code(fstat(other, &st), 0);
    assert_int_equal((uint64_t)st.st_size, size);
    assert_true((uint64_t)st.st_blocks * 512 < 64 * MIB);
}

static void test_impossible_limits(void **state)
{
    (void)state;
    static const struct storage_limit limits[] = {
        {.bytes = 0},
        {.bytes = UINT64_MAX},
        {.bytes = MIB, .inodes = 10000},
        {.bytes = MIB, .inodes = UINT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        struct error err = ERROR_INIT;
        int fd;
        uint64_t size;
        assert_int_equal(storage_template(&limits[i], &fd, &size, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID);
    }
}

static void test_size_is_what_was_asked(void **state)
{
    (void)state;
    need_loop();
    static const struct storage_limit limits[] = {
        {.bytes = 1},
        {.bytes = MIB},
        {.bytes = 10 * MIB, .inodes = 2560},
        {.bytes = 64 * MIB},
        {.bytes = 126 * MIB}, /* round about the size of one group */
        {.bytes = 128 * MIB, .inodes = 32768},
        {.bytes = 130 * MIB, .inodes = 12},
        {.bytes = 1024 * MIB},
        {.bytes = 5000 * MIB, .inodes = 100000},
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        const struct storage_limit *limit = &limits[i];
        uint64_t inodes = limit->inodes ? limit->inodes : limit->bytes / STORAGE_INODE_RATIO;
        uint64_t groups = limit->bytes / (128 * MIB) + 2;
        struct statvfs st;
        assert_return_code(statvfs(directory, &st), 0);
        if (st.f_bavail * st.f_frsize < limit->bytes) {
            print_message("left out: %llu MiB, the disk has less\n",
                          (unsigned long long)(limit->bytes / MIB));
            continue;
        }
        cleanup_close int fd = image(limit->bytes, limit->inodes);
        assert_return_code(fstatvfs(fd, &st), 0);
        uint64_t bytes = st.f_bavail * st.f_frsize;
        assert_in_range(bytes, limit->bytes, limit->bytes + limit->bytes / 20 + MIB);
        assert_in_range(st.f_favail, inodes, inodes + 16 * groups);
    }
}

static void test_root_directory(void **state)
{
    (void)state;
    need_loop();
    cleanup_close int fd = image(4 * MIB, 0);
    struct stat st;
    struct statvfs fs;
    assert_return_code(fstat(fd, &st), 0);
    assert_int_equal(st.st_uid, 12345);
    assert_int_equal(st.st_gid, 23456);
    assert_int_equal(st.st_mode, S_IFDIR | 0755);
    assert_int_equal(st.st_nlink, 2);
    assert_int_equal(faccessat(fd, "lost+found", F_OK, 0), -1);
    assert_return_code(fstatvfs(fd, &fs), 0);
    assert_int_equal(fs.f_flag & (ST_NOSUID | ST_NODEV | ST_RDONLY), ST_NOSUID | ST_NODEV);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void test_full_of_bytes(void **state)
{
    (void)state;
    need_loop();
    cleanup_close int fd = image(16 * MIB, 0);
    cleanup_close int file = openat(fd, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    cleanup_free char *data = xcalloc(1, MIB);
    uint64_t written = 0;
    ssize_t n;
    while ((n = write(file, data, MIB)) > 0 && written < 64 * MIB)
        written += (uint64_t)n;
    assert_int_equal(n, -1);
    assert_int_equal(errno, ENOSPC);
    assert_in_range(written, 16 * MIB, 17 * MIB);
    assert_return_code(fsync(file), 0);
}

static void test_full_of_inodes(void **state)
{
    (void)state;
    need_loop();
    cleanup_close int fd = image(16 * MIB, 200);
    unsigned made = 0;
    for (; made < 1000; made++) {
        char name[16];
        snprintf(name, sizeof name, "%u", made);
        if (mkdirat(fd, name, 0755) < 0)
            break;
    }
    assert_int_equal(errno, ENOSPC);
    assert_in_range(made, 200, 216);
}

static void test_gone_after_close(void **state)
{
    (void)state;
    need_loop();
    int fd = image(4 * MIB, 0);
    unsigned number = loop_number(fd);
    assert_true(loop_is_ours(number));
    close(fd);
    assert_true(loop_goes(number));
}

/* The holder mounts it in a namespace of its own, has a file open in it, and is killed. */
static void holder(int report)
{
    struct storage_limit limit = {.bytes = 4 * MIB};
    struct stat st;
    int fd;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        storage_image_mount(directory, &limit, 0, 0, &fd, NULL) < 0 || fstat(fd, &st) < 0 ||
        move_mount(fd, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        _exit(1);
    unsigned number = minor(st.st_dev);
    if (open("/mnt/file", O_CREAT | O_RDWR, 0600) < 0 || chdir("/mnt") < 0)
        _exit(1);
    pid_t keeper = fork();
    if (keeper != 0 && (write(report, &number, sizeof number) != sizeof number ||
                        write(report, &keeper, sizeof keeper) != sizeof keeper))
        _exit(1);
    pause();
    _exit(0);
}

static void test_gone_after_kill(void **state)
{
    (void)state;
    need_loop();
    int report[2];
    unsigned number = 0;
    pid_t keeper = 0;
    assert_return_code(pipe2(report, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0)
        holder(report[1]);
    close(report[1]);
    assert_int_equal(read(report[0], &number, sizeof number), sizeof number);
    assert_int_equal(read(report[0], &keeper, sizeof keeper), sizeof keeper);
    close(report[0]);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(loop_is_ours(number));
    kill(keeper, SIGKILL);
    assert_true(loop_goes(number));
}

static void test_many_at_once(void **state)
{
    (void)state;
    need_loop();
    enum { MAKERS = 6, EACH = 4 };
    pid_t makers[MAKERS];
    for (int i = 0; i < MAKERS; i++) {
        makers[i] = fork();
        if (makers[i] != 0)
            continue;
        struct storage_limit limit = {.bytes = 2 * MIB};
        for (int k = 0; k < EACH; k++) {
            int fd;
            struct statvfs st;
            if (storage_image_mount(directory, &limit, 0, 0, &fd, NULL) < 0 ||
                fstatvfs(fd, &st) < 0 || mkdirat(fd, "only", 0755) < 0)
                _exit(1);
            if (k % 2)
                close(fd);
        }
        _exit(0);
    }
    for (int i = 0; i < MAKERS; i++) {
        int status;
        waitpid(makers[i], &status, 0);
        assert_int_equal(status, 0);
    }
}

static void test_not_root(void **state)
{
    (void)state;
    need_loop();
    pid_t child = fork();
    if (child == 0) {
        struct error err;
        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(1);
        _exit(refused(directory, MIB, &err) && err.code == ERROR_UNSUPPORTED &&
                      strstr(err.hint, "root")
                  ? 0
                  : 2);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void test_bad_directory(void **state)
{
    (void)state;
    need_loop();
    struct error err;
    assert_true(refused("/nonexistent", MIB, &err));
    assert_int_equal(err.errnum, ENOENT);
    assert_true(refused("/proc", MIB, &err));
    assert_int_equal(err.code, ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.hint, "ext4"));
}

static int without_mkfs(void)
{
    static const char *const hidden[] = {"/usr/sbin", "/sbin", "/usr/local/sbin"};
    struct error err;
    for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
        if (mount("tmpfs", hidden[i], "tmpfs", 0, NULL) < 0)
            return CANNOT_PREPARE;
    return refused(directory, 33 * MIB, &err) && err.code == ERROR_UNSUPPORTED &&
                   strstr(err.hint, "apt-get install e2fsprogs")
               ? 0
               : 1;
}

static int without_loop_devices(void)
{
    struct error err;
    if (mount("tmpfs", "/dev", "tmpfs", 0, NULL) < 0)
        return CANNOT_PREPARE;
    return refused(directory, MIB, &err) && err.code == ERROR_UNSUPPORTED &&
                   strstr(err.hint, "modprobe loop")
               ? 0
               : 1;
}

/* As in a container: /dev holds the control device and no other. */
static int without_loop_nodes(void)
{
    struct storage_limit limit = {.bytes = MIB};
    int fd;
    if (mount("tmpfs", "/dev", "tmpfs", 0, NULL) < 0 ||
        mknod("/dev/loop-control", S_IFCHR | 0600, makedev(10, 237)) < 0)
        return CANNOT_PREPARE;
    return storage_image_mount(directory, &limit, 1, 1, &fd, NULL) == 0 && close(fd) == 0 ? 0 : 1;
}

static int on_small_disk(void)
{
    struct error err;
    if (mount("tmpfs", directory, "tmpfs", 0, "size=8m") < 0)
        return CANNOT_PREPARE;
    if (!refused(directory, 64 * MIB, &err) || err.code != ERROR_LIMIT || !err.hint[0])
        return 1;
    return 0;
}

/* The host fills up afterwards: writes fail inside, and it can be taken down. */
static int disk_fills_up(void)
{
    struct storage_limit limit = {.bytes = 4 * MIB};
    char path[sizeof directory + 8];
    cleanup_free char *data = xcalloc(1, MIB);
    int fd;
    if (mount("tmpfs", directory, "tmpfs", 0, "size=8m") < 0)
        return CANNOT_PREPARE;
    if (storage_image_mount(directory, &limit, 0, 0, &fd, NULL) < 0)
        return 1;
    snprintf(path, sizeof path, "%s/hog", directory);
    int hog = open(path, O_CREAT | O_WRONLY, 0600);
    while (write(hog, data, MIB) > 0)
        ;
    int file = openat(fd, "file", O_CREAT | O_WRONLY, 0600);
    if (file < 0)
        return 2;
    ssize_t n = write(file, data, MIB);
    if (n > 0 && fsync(file) == 0)
        return 3;
    close(file);
    return close(fd) == 0 ? 0 : 4;
}

static void test_without_mkfs(void **state)
{
    (void)state;
    need_loop();
    in_own_mounts(without_mkfs);
}

static void test_without_loop_devices(void **state)
{
    (void)state;
    need_loop();
    in_own_mounts(without_loop_devices);
}

static void test_without_loop_nodes(void **state)
{
    (void)state;
    need_loop();
    in_own_mounts(without_loop_nodes);
}

static void test_on_small_disk(void **state)
{
    (void)state;
    need_loop();
    in_own_mounts(on_small_disk);
}

static void test_disk_fills_up(void **state)
{
    (void)state;
    need_loop();
    in_own_mounts(disk_fills_up);
}

/* Where no quota can be had, that is said and nothing is changed. */
static void test_project_refused(void **state)
{
    (void)state;
    struct storage_limit limit = {.bytes = MIB};
    struct error err = ERROR_INIT;
    cleanup_close int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(storage_project_set(fd, 0, &limit, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    if (storage_project_check(fd, &err) == 0) {
        print_message("skipped: there is project quota here\n");
        skip();
    }
    assert_int_equal(err.code, ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.hint, "prjquota"));
    assert_int_equal(storage_project_set(fd, 7, &limit, &err), -1);
    assert_int_equal(err.code, ERROR_UNSUPPORTED);
    assert_int_equal(storage_project_clear(fd, 7, &err), -1);
    assert_int_equal(err.code, ERROR_UNSUPPORTED);
    cleanup_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(storage_project_check(proc, &err), -1);
    assert_non_null(strstr(err.hint, "ext4 or xfs"));
}

/* BOXD_TEST_PROJECT_DIR is an empty directory on a file system mounted with prjquota. */
static int project_directory(void)
{
    const char *path = getenv("BOXD_TEST_PROJECT_DIR");
    if (!path) {
        print_message("skipped: BOXD_TEST_PROJECT_DIR names no directory with project quota\n");
        skip();
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(fd, errno);
    return fd;
}

static uint32_t project_of(int dir, const char *name)
{
    struct fsxattr attributes = {.fsx_projid = UINT32_MAX};
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    assert_return_code(ioctl(fd, FS_IOC_FSGETXATTR, &attributes), errno);
    return attributes.fsx_projid;
}

static void make_file(int dir, const char *name)
{
    cleanup_close int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    assert_return_code(fd, errno);
}

/* Bytes and files that an ordinary user can put into the directory. */
static int fill_as_nobody(int dir)
{
    cleanup_free char *data = xcalloc(1, MIB);
    uint64_t written = 0;
    ssize_t n;
    if (fchmod(dir, 0777) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
        return 1;
    int fd = openat(dir, "big", O_CREAT | O_WRONLY, 0600);
    while ((n = write(fd, data, MIB / 4)) > 0 && written < 64 * MIB)
        written += (uint64_t)n;
    if (n >= 0 || (errno != EDQUOT && errno != ENOSPC))
        return 2;
    if (written < 7 * MIB || written > 8 * MIB)
        return 3;
    close(fd);
    unlinkat(dir, "big", 0);
    unsigned made = 0;
    for (; made < 500; made++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", made);
        if ((fd = openat(dir, name, O_CREAT | O_WRONLY, 0600)) < 0)
            break;
        close(fd);
    }
    if (errno != EDQUOT && errno != ENOSPC)
        return 4;
    while (made > 0) {
        char name[16];
        snprintf(name, sizeof name, "f%u", --made);
        unlinkat(dir, name, 0);
    }
    return 0;
}

static void test_project_limits(void **state)
{
    (void)state;
    cleanup_close int top = project_directory();
    struct storage_limit limit = {.bytes = 8 * MIB, .inodes = 100};
    struct error err = ERROR_INIT;
    make_file(top, "outside");
    mkdirat(top, "tree", 0755);
    cleanup_close int tree = openat(top, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdirat(tree, "sub", 0755);
    make_file(tree, "sub/file");
    assert_return_code(symlinkat("../outside", tree, "link"), errno);
    mkfifoat(tree, "pipe", 0600);
    assert_int_equal(storage_project_check(tree, &err), 0);
    if (storage_project_set(tree, 4711, &limit, &err) < 0)
        fail_msg("%s", err.message);
    make_file(tree, "sub/new");
    assert_int_equal(project_of(top, "tree"), 4711);
    assert_int_equal(project_of(tree, "sub/file"), 4711);
    assert_int_equal(project_of(tree, "sub/new"), 4711);
    assert_int_equal(project_of(top, "outside"), 0);
    assert_int_equal(storage_project_set(tree, 4712, &limit, &err), -1);
    assert_int_equal(err.code, ERROR_DENIED);
    assert_int_equal(project_of(tree, "sub/file"), 4711);
    pid_t child = fork();
    if (child == 0)
        _exit(fill_as_nobody(tree));
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    if (storage_project_clear(tree, 4711, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(project_of(top, "tree"), 0);
    assert_int_equal(project_of(tree, "sub/new"), 0);
}

/* A tree too deep, and one with a mount in it, are refused and left as they were. */
static void test_project_bounds(void **state)
{
    (void)state;
    cleanup_close int top = project_directory();
    struct storage_limit limit = {.bytes = MIB};
    struct error err = ERROR_INIT;
    mkdirat(top, "deep", 0755);
    int at = openat(top, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 140; i++) {
        mkdirat(at, "d", 0755);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    cleanup_close int deep = openat(top, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(storage_project_set(deep, 99, &limit, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_int_equal(project_of(top, "deep"), 0);
    assert_int_equal(project_of(deep, "d/d/d/d/d"), 0);
    mkdirat(top, "mounts", 0755);
    mkdirat(top, "mounts/in", 0755);
    cleanup_close int mounts = openat(top, "mounts", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d/in", mounts);
    assert_return_code(mount("tmpfs", path, "tmpfs", 0, NULL), errno);
    int rc = storage_project_set(mounts, 98, &limit, &err);
    umount2(path, MNT_DETACH);
    assert_int_equal(rc, -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_int_equal(project_of(top, "mounts"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_is_kept),       cmocka_unit_test(test_impossible_limits),
        cmocka_unit_test(test_size_is_what_was_asked), cmocka_unit_test(test_root_directory),
        cmocka_unit_test(test_full_of_bytes),          cmocka_unit_test(test_full_of_inodes),
        cmocka_unit_test(test_gone_after_close),       cmocka_unit_test(test_gone_after_kill),
        cmocka_unit_test(test_many_at_once),           cmocka_unit_test(test_not_root),
        cmocka_unit_test(test_bad_directory),          cmocka_unit_test(test_without_mkfs),
        cmocka_unit_test(test_without_loop_devices),   cmocka_unit_test(test_without_loop_nodes),
        cmocka_unit_test(test_on_small_disk),          cmocka_unit_test(test_disk_fills_up),
        cmocka_unit_test(test_project_refused),        cmocka_unit_test(test_project_limits),
        cmocka_unit_test(test_project_bounds),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
