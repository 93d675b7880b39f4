/* SPDX-License-Identifier: Apache-2.0 */
/* An empty ext4 file system in memory, made by mkfs.ext4 and kept to be copied into images.

   mkfs is not run on the image: it costs a spawn for every session and ends in an fsync() of the
   disk. Empty file systems of one size are all alike, and are 40 KiB of data in a sparse file, so
   one is made in a memfd and the last one stays there. What differs, the owner of the root
   directory, is set after mounting.

   There is no journal: an image has no name, so nobody can mount it again after the crash that a
   journal is for. There is no UUID either: a thousand file systems with the same one would fight
   over /dev/disk/by-uuid. Every feature is named, so that /etc/mke2fs.conf has no say. */
#include "sandbox/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "core/mem.h"

#define BLOCK           4096u
#define GROUP_BLOCKS    32768u /* one bitmap block full of bits */
#define INODE_SIZE      256u
#define RESERVED_INODES 10u                 /* ext4 counts them as used */
#define BYTES_MAX       (UINT64_C(1) << 43) /* block numbers are 32 bits without "64bit": 16 TiB */
#define BLOCKS_MIN      64u
#define MKFS_FD         3
#define MKFS_TIMEOUT_MS 10000

static const char features[] = "none,filetype,extent,dir_index,ext_attr,large_file,huge_file,"
                               "flex_bg,uninit_bg,dir_nlink,extra_isize,sparse_super2";

struct layout {
    uint64_t blocks;
    uint64_t inodes;
};

static uint64_t div_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Bitmaps and inode table of each group. */
static uint64_t group_overhead(uint64_t groups, uint64_t inodes)
{
    return 2 + div_up(div_up(inodes, groups) * INODE_SIZE, BLOCK);
}

/* As many blocks as make statvfs() show what was asked for: mke2fs lays the metadata out, and the
   kernel keeps back 2 % (16 MiB at most) for itself. */
static void layout_plan(uint64_t data, struct layout *layout)
{
    uint64_t blocks = data;
    uint64_t groups;
    for (;;) {
        groups = div_up(blocks, GROUP_BLOCKS);
        uint64_t held_back = blocks / 50 < 4096 ? blocks / 50 : 4096;
        uint64_t want = data + held_back + groups * group_overhead(groups, layout->inodes) + 1 +
                        div_up(groups * 32, BLOCK) /* superblock, group descriptors */ +
                        16 /* root directory, extent blocks of a few big files */;
        if (want <= blocks)
            break;
        blocks = want;
    }
    /* mke2fs drops a last group that would hold fewer than 50 blocks of data. */
    uint64_t rest = blocks % GROUP_BLOCKS;
    uint64_t least = group_overhead(groups, layout->inodes) + 50;
    if (groups > 1 && rest > 0 && rest < least)
        blocks += least - rest;
    layout->blocks = blocks > BLOCKS_MIN ? blocks : BLOCKS_MIN;
}

static int layout_make(const struct storage_limit *limit, struct layout *ret, struct error *err)
{
    if (limit->bytes == 0 || limit->bytes > BYTES_MAX)
        return error_set(err, ERROR_INVALID,
                         "a workspace of %llu bytes: 1 byte to 8 TiB can be had",
                         (unsigned long long)limit->bytes);
    uint64_t data = div_up(limit->bytes, BLOCK);
    uint64_t inodes = limit->inodes ? limit->inodes : div_up(limit->bytes, STORAGE_INODE_RATIO);
    if (inodes > data && inodes > INODE_SIZE) {
        error_set(err, ERROR_INVALID, "%llu inodes are too many for a workspace of %llu bytes",
                  (unsigned long long)inodes, (unsigned long long)limit->bytes);
        return error_hint(err, "ask for at most %llu inodes (one for each 4 KiB), or more bytes",
                          (unsigned long long)data);
    }
    ret->inodes = inodes + RESERVED_INODES;
    layout_plan(data, ret);
    return 0;
}

/* Spawns with an environment, descriptors and signals of its own. Returns 0 or an errno value. */
static int mkfs_spawn(int fd, int output, const char *inodes, pid_t *ret_pid)
{
    static const char *const programs[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
                                           "/usr/local/sbin/mkfs.ext4"};
    static const char *const environment[] = {"MKE2FS_CONFIG=/dev/null", "LC_ALL=C", NULL};
    const char *const argv[] = {"mkfs.ext4",
                                "-qF",
                                "-b4096",
                                "-I256",
                                "-m0",
                                "-Uclear",
                                "-N",
                                inodes,
                                "-O",
                                features,
                                "-E",
                                "lazy_itable_init=1,nodiscard,num_backup_sb=0",
                                "/proc/self/fd/3",
                                NULL};
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fd, MKFS_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions, MKFS_FD + 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int rc = ENOENT;
    for (size_t i = 0; i < ARRAY_SIZE(programs) && (rc == ENOENT || rc == ENOTDIR); i++)
        rc = posix_spawn(ret_pid, programs[i], &actions, &attributes, (char *const *)argv,
                         (char *const *)environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return rc;
}

/* What was said last goes into the error: first come warnings that the configuration is empty. */
static int mkfs_failed(int output, struct error *err)
{
    char said[200];
    off_t room = sizeof said - 1;
    off_t end = lseek(output, 0, SEEK_END);
    ssize_t length = pread(output, said, (size_t)room, end > room ? end - room : 0);
    while (length > 0 && said[length - 1] == '\n')
        length--;
    said[length > 0 ? length : 0] = '\0';
    const char *line = strrchr(said, '\n');
    return error_set(err, ERROR_SYSTEM, "mkfs.ext4 failed: %s", line ? line + 1 : said);
}

/* Waits for the end, but not for ever. */
static int mkfs_wait(pid_t pid, int output, struct error *err)
{
    cleanup_close int pidfd = pidfd_open(pid, 0);
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};
    int ready;
    do {
        ready = pidfd < 0 ? -1 : poll(&wait, 1, MKFS_TIMEOUT_MS);
    } while (ready < 0 && pidfd >= 0 && errno == EINTR);
    int saved = errno;
    if (ready <= 0)
        kill(pid, SIGKILL);
    int status;
    pid_t waited;
    do {
        waited = waitpid(pid, &status, 0);
    } while (waited < 0 && errno == EINTR);
    if (ready < 0)
        return error_errno(err, saved, "cannot wait for mkfs.ext4");
    if (ready == 0)
        return error_set(err, ERROR_SYSTEM, "mkfs.ext4 did not end within %d s",
                         MKFS_TIMEOUT_MS / 1000);
    if (waited < 0)
        return error_errno(err, errno, "cannot wait for mkfs.ext4");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFSIGNALED(status))
        return error_set(err, ERROR_SYSTEM, "mkfs.ext4 was killed by signal %d", WTERMSIG(status));
    return mkfs_failed(output, err);
}

/* A memfd above the numbers that the child's descriptors are put on. */
static int memory_file(const char *name, uint64_t size)
{
    cleanup_close int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        return -1;
    return fd > MKFS_FD ? steal_fd(&fd) : fcntl(fd, F_DUPFD_CLOEXEC, MKFS_FD + 1);
}

static int template_make(const struct layout *layout, int *ret_fd, struct error *err)
{
    cleanup_close int fd = memory_file("boxd-template", layout->blocks * BLOCK);
    cleanup_close int output = memory_file("boxd-mkfs-output", 0);
    if (fd < 0 || output < 0)
        return error_errno(err, errno, "cannot make a file in memory");
    char inodes[24];
    snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)layout->inodes);
    pid_t pid;
    int rc = mkfs_spawn(fd, output, inodes, &pid);
    if (rc == ENOENT || rc == ENOTDIR) {
        error_set(err, ERROR_UNSUPPORTED, "mkfs.ext4 is not installed");
        return error_hint(err, "apt-get install e2fsprogs");
    }
    if (rc != 0)
        return error_errno(err, rc, "cannot start mkfs.ext4");
    if (mkfs_wait(pid, output, err) < 0)
        return -1;
    *ret_fd = steal_fd(&fd);
    return 0;
}

int storage_template(const struct storage_limit *limit, int *ret_fd, uint64_t *ret_size,
                     struct error *err)
{
    static struct layout kept_layout;
    static int kept = -1;
    struct layout layout;
    if (layout_make(limit, &layout, err) < 0)
        return -1;
    if (kept < 0 || layout.blocks != kept_layout.blocks || layout.inodes != kept_layout.inodes) {
        int made = -1;
        if (template_make(&layout, &made, err) < 0)
            return -1;
        fd_clear(&kept);
        kept = made;
        kept_layout = layout;
    }
    *ret_fd = kept;
    *ret_size = layout.blocks * BLOCK;
    return 0;
}
