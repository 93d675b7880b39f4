/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on files: the runtime's binary, /proc, /dev, device nodes, file handles. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "attack.h"

/* Opening is proof enough. Nothing is written: where the sandbox is broken these are the host's. */
static void try_open(const char *label, const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    result(fd, "%s", label);
    if (fd >= 0)
        close(fd);
}

/* The runtime's own program, through every process that could still be running it. */
static int attack_exe(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    char path[64];
    const int pids[] = {1, getppid(), getpid()};
    const char *const names[] = {"init", "parent", "self"};
    for (size_t i = 0; i < 3; i++) {
        char label[64];
        snprintf(path, sizeof path, "/proc/%d/exe", pids[i]);
        snprintf(label, sizeof label, "%s.write", names[i]);
        try_open(label, path, O_WRONLY);
        snprintf(label, sizeof label, "%s.update", names[i]);
        try_open(label, path, O_RDWR);
        snprintf(label, sizeof label, "%s.read", names[i]);
        try_open(label, path, O_RDONLY);
    }
    return 0;
}

static int attack_open_read(int argc, char **argv)
{
    char data[4096];
    for (int i = 0; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);
        result_detail(n, argv[i], "bytes=%zd", n < 0 ? 0 : n);
        if (fd >= 0)
            close(fd);
    }
    return 0;
}

static int attack_open_write(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        try_open(argv[i], argv[i], O_WRONLY);
    return 0;
}

static int attack_list(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        int entries = 0;
        for (struct dirent *at; dir && (at = readdir(dir));)
            entries += strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0;
        result_detail(dir ? 0 : -1, argv[i], "entries=%d", entries);
        if (dir)
            closedir(dir);
    }
    return 0;
}

/* Flags of the file system a path is on: is it really read-only, nosuid, nodev? */
static int attack_flags(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        struct statvfs st = {0};
        int rc = statvfs(argv[i], &st);
        result_detail(rc, argv[i], "%s%s%s", st.f_flag & ST_RDONLY ? "ro" : "rw",
                      st.f_flag & ST_NOSUID ? ",nosuid" : "", st.f_flag & ST_NODEV ? ",nodev" : "");
    }
    return 0;
}

/* Walks all of /proc but the processes' own directories: whatever can be opened for writing. */
static void walk(const char *path, int depth, unsigned *tried)
{
    DIR *dir = opendir(path);
    if (!dir || depth > 12) {
        if (dir)
            closedir(dir);
        return;
    }
    for (struct dirent *at; (at = readdir(dir));) {
        char full[4096];
        struct stat st;
        const char *name = at->d_name;
        bool process =
            depth == 0 && ((name[0] >= '0' && name[0] <= '9') || strcmp(name, "self") == 0 ||
                           strcmp(name, "thread-self") == 0);
        if (process || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            (size_t)snprintf(full, sizeof full, "%s/%s", path, name) >= sizeof full ||
            lstat(full, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            walk(full, depth + 1, tried);
        } else if (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode)) {
            int fd = open(full, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
            (*tried)++;
            if (fd >= 0) {
                result(0, "%s", full);
                close(fd);
            }
        }
    }
    closedir(dir);
}

static int attack_walk_writable(int argc, char **argv)
{
    unsigned tried = 0;
    for (int i = 0; i < argc; i++)
        walk(argv[i], 0, &tried);
    printf("TRIED %u\n", tried);
    return 0;
}

/* Puts something else where /dev/null and its like are. */
static int attack_dev_swap(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const char *const nodes[] = {"/dev/null", "/dev/zero", "/dev/full",
                                        "/dev/tty",  "/dev/ptmx", "/dev/pts"};
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        char other[64];
        snprintf(other, sizeof other, "%s.old", nodes[i]);
        result(rename(nodes[i], other), "rename:%s", nodes[i]);
        result(unlink(nodes[i]), "unlink:%s", nodes[i]);
        result(symlink("/etc/passwd", other), "symlink:%s", other);
        result(chmod(nodes[i], 0777), "chmod:%s", nodes[i]);
    }
    result(mkdir("/dev/new", 0777), "mkdir:/dev/new");
    return 0;
}

/* What is in /dev, and what it is. */
static int attack_dev_list(int argc, char **argv)
{
    const char *path = argc > 0 ? argv[0] : "/dev";
    DIR *dir = opendir(path);
    if (!dir)
        broken(path);
    for (struct dirent *at; (at = readdir(dir));) {
        struct stat st;
        if (at->d_name[0] == '.' || fstatat(dirfd(dir), at->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        const char *kind = S_ISCHR(st.st_mode)   ? "char"
                           : S_ISBLK(st.st_mode) ? "block"
                           : S_ISDIR(st.st_mode) ? "dir"
                           : S_ISLNK(st.st_mode) ? "link"
                                                 : "other";
        result_detail(0, at->d_name, "%s %u:%u", kind, major(st.st_rdev), minor(st.st_rdev));
    }
    closedir(dir);
    return 0;
}

/* mknod by mknod and mknodat; also with bits set above those the kernel looks at. */
static int attack_mknod(int argc, char **argv)
{
    const char *dir = argc > 0 ? argv[0] : "/tmp";
    const struct {
        const char *name;
        unsigned long mode;
    } kinds[] = {{"char", S_IFCHR | 0666},
                 {"block", S_IFBLK | 0666},
                 {"char.high", (S_IFCHR | 0666) | 1UL << 32},
                 {"fifo", S_IFIFO | 0666}};
    char path[256];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(path, sizeof path, "%s/node.%zu", dir, i);
        result(syscall(SYS_mknodat, AT_FDCWD, path, kinds[i].mode, makedev(1, 1)), "mknodat.%s",
               kinds[i].name);
        unlink(path);
#ifdef SYS_mknod
        result(syscall(SYS_mknod, path, kinds[i].mode, makedev(1, 1)), "mknod.%s", kinds[i].name);
        unlink(path);
#endif
    }
    return 0;
}

/* A handle names an inode of a file system, whatever is mounted where: the way out of a chroot. The
   second one is made up: inode 2 is the root of every ext file system. */
static int attack_handles(int argc, char **argv)
{
    const char *path = argc > 0 ? argv[0] : "/";
    struct {
        unsigned bytes;
        int type;
        unsigned char data[128];
    } handle = {.bytes = 128};
    int mount_id;
    int at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        broken(path);
    result(syscall(SYS_name_to_handle_at, AT_FDCWD, path, &handle, &mount_id, 0), "name");
    result(syscall(SYS_open_by_handle_at, at, &handle, O_RDONLY | O_CLOEXEC), "open");
    uint32_t root[2] = {2, 0};
    handle.bytes = sizeof root;
    handle.type = 1;
    memcpy(handle.data, root, sizeof root);
    result(syscall(SYS_open_by_handle_at, at, &handle, O_RDONLY | O_CLOEXEC), "open.made-up");
    close(at);
    return 0;
}

/* Changes owner and mode of what is not one's own. */
static int attack_chown(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        result(chown(argv[i], 1000, 1000), "chown:%s", argv[i]);
        result(lchown(argv[i], 1000, 1000), "lchown:%s", argv[i]);
        result(chmod(argv[i], 04777), "chmod:%s", argv[i]);
    }
    return 0;
}

/* Leaves a program behind that would run as the owner of the directory, by every call that takes a
 * mode. */
static int attack_setid(int argc, char **argv)
{
    if (argc != 1 || chdir(argv[0]) < 0)
        broken("setid DIRECTORY");
    static const unsigned modes[] = {04755, 02755, 06777};
    static const int create = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const unsigned mode = modes[i];
        const unsigned long high = mode | 1UL << 32;
        struct {
            uint64_t flags, mode, resolve;
        } how = {(uint64_t)create, mode, 0};
        char name[64];
        umask(0);
        snprintf(name, sizeof name, "plain.%o", mode);
        int fd = open(name, create, 0755);
        result(fd, "plain.%o", mode);
        result(syscall(SYS_fchmodat, AT_FDCWD, name, mode), "fchmodat.%o", mode);
        result(syscall(SYS_fchmodat, AT_FDCWD, name, high), "fchmodat.high.%o", mode);
        result(syscall(SYS_fchmod, fd, mode), "fchmod.%o", mode);
        result(syscall(452 /* fchmodat2 */, AT_FDCWD, name, mode, 0), "fchmodat2.%o", mode);
#ifdef SYS_open
        result(syscall(SYS_chmod, name, mode), "chmod.%o", mode);
        snprintf(name, sizeof name, "open.%o", mode);
        result(syscall(SYS_open, name, create, mode), "open.%o", mode);
        snprintf(name, sizeof name, "creat.%o", mode);
        result(syscall(SYS_creat, name, mode), "creat.%o", mode);
        snprintf(name, sizeof name, "mknod.%o", mode);
        result(syscall(SYS_mknod, name, S_IFREG | mode, 0), "mknod.%o", mode);
#endif
        snprintf(name, sizeof name, "openat.%o", mode);
        result(syscall(SYS_openat, AT_FDCWD, name, create, high), "openat.%o", mode);
        snprintf(name, sizeof name, "openat2.%o", mode);
        result(syscall(437 /* openat2 */, AT_FDCWD, name, &how, sizeof how), "openat2.%o", mode);
        snprintf(name, sizeof name, "mknodat.%o", mode);
        result(syscall(SYS_mknodat, AT_FDCWD, name, S_IFREG | mode, 0), "mknodat.%o", mode);
        snprintf(name, sizeof name, "tmpfile.%o", mode);
        fd = (int)syscall(SYS_openat, AT_FDCWD, ".", O_TMPFILE | O_WRONLY, mode);
        char self[64];
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        result(fd < 0 ? -1 : linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW),
               "tmpfile.%o", mode);
    }
    return 0;
}

/* Every descriptor of this process, and where it leads. */
static int attack_fds(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        broken("/proc/self/fd");
    for (struct dirent *at; (at = readdir(dir));) {
        char where[4096];
        if (at->d_name[0] == '.' || atoi(at->d_name) == dirfd(dir))
            continue;
        ssize_t n = readlinkat(dirfd(dir), at->d_name, where, sizeof where - 1);
        where[n < 0 ? 0 : n] = '\0';
        result_detail(0, at->d_name, "%s", where);
    }
    closedir(dir);
    return 0;
}

const struct attack attacks_files[] = {
    {"exe", attack_exe, "write to the programs of init, the parent, oneself"},
    {"open-read", attack_open_read, "PATH…"},
    {"open-write", attack_open_write, "PATH…"},
    {"list", attack_list, "DIRECTORY…"},
    {"flags", attack_flags, "PATH…"},
    {"walk-writable", attack_walk_writable, "DIRECTORY…"},
    {"dev-swap", attack_dev_swap, ""},
    {"dev-list", attack_dev_list, "[DIRECTORY]"},
    {"mknod", attack_mknod, "[DIRECTORY]"},
    {"handles", attack_handles, "[PATH]"},
    {"chown", attack_chown, "PATH…"},
    {"setid", attack_setid, "DIRECTORY"},
    {"fds", attack_fds, ""},
    {0},
};
