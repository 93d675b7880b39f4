/* SPDX-License-Identifier: Apache-2.0 */
/* Files below a directory that is held open. */
#include "skills/beneath.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/mem.h"

#define TRIES 32

static int open_how(int dir, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve};
    if (!(flags & O_PATH))
        how.flags |= O_NONBLOCK | O_NOCTTY;
    if (flags & O_CREAT)
        how.mode = 0644;
    /* A rename anywhere on the machine during a ".." is answered with EAGAIN. */
    for (int i = 0; i < TRIES; i++) {
        int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
        if (fd >= 0)
            return fd;
        if (errno != EAGAIN && errno != EINTR)
            break;
    }
    return -errno;
}

int beneath_open(int dir, const char *path, int flags)
{
    return open_how(dir, path, flags, 0);
}

int beneath_open_plain(int dir, const char *path, int flags)
{
    return open_how(dir, path, flags, RESOLVE_NO_SYMLINKS);
}

int beneath_stat(int dir, const char *path, struct stat *ret)
{
    cleanup_close int fd = beneath_open(dir, path, O_PATH);
    if (fd < 0)
        return fd;
    return fstat(fd, ret) < 0 ? -errno : 0;
}

static bool is_type(int dir, const char *path, mode_t type)
{
    struct stat st = {0};
    /* One call for the ordinary case: a name directly in it. */
    if (!strchr(path, '/') && fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (strchr(path, '/') || S_ISLNK(st.st_mode)) {
        if (beneath_stat(dir, path, &st) < 0)
            return false;
    }
    return (st.st_mode & S_IFMT) == type;
}

bool beneath_is_file(int dir, const char *path)
{
    return is_type(dir, path, S_IFREG);
}

bool beneath_is_dir(int dir, const char *path)
{
    return is_type(dir, path, S_IFDIR);
}

int beneath_make_dirs(int dir, const char *path, unsigned *ret_made)
{
    cleanup_free char *copy = xstrdup(path);
    unsigned made = 0;
    for (size_t end = 0; copy[end];) {
        /* Each prefix by itself, from the top: only the kernel knows where links lead. */
        end += strspn(copy + end, "/");
        end += strcspn(copy + end, "/");
        char saved = copy[end];
        copy[end] = '\0';
        cleanup_close int fd = beneath_open(dir, copy, O_PATH | O_DIRECTORY);
        if (fd == -ENOENT) {
            char *slash = strrchr(copy, '/');
            if (slash)
                *slash = '\0';
            cleanup_close int parent = beneath_open(dir, slash ? copy : ".", O_PATH | O_DIRECTORY);
            if (parent < 0)
                return parent;
            if (mkdirat(parent, slash ? slash + 1 : copy, 0755) == 0)
                made++;
            else if (errno != EEXIST)
                return -errno;
            if (slash)
                *slash = '/';
        } else if (fd < 0) {
            return fd;
        }
        copy[end] = saved;
    }
    if (ret_made)
        *ret_made = made;
    return beneath_open(dir, *path ? path : ".", O_RDONLY | O_DIRECTORY);
}

int beneath_read_fd(int fd, size_t max, struct stat *ret_stat, char **ret, size_t *ret_size)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    if ((uint64_t)st.st_size > max)
        return -EFBIG;
    /* One more than it has: it may be growing. */
    size_t room = (size_t)st.st_size + 1;
    cleanup_free char *data = xmalloc(room + 1);
    size_t size = 0;
    for (;;) {
        ssize_t n = pread(fd, data + size, room - size, (off_t)size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        size += (size_t)n;
        if (size > max)
            return -EFBIG;
        if (size < room)
            break; /* less than asked for is all there is, of a file */
        room = room * 2 < max + 1 ? room * 2 : max + 1;
        data = xreallocarray(data, room + 1, 1);
    }
    data[size] = '\0';
    if (ret_stat)
        *ret_stat = st;
    *ret = steal_ptr(data);
    *ret_size = size;
    return 0;
}

int beneath_read(int dir, const char *path, size_t max, struct stat *ret_stat, char **ret,
                 size_t *ret_size)
{
    cleanup_close int fd = beneath_open(dir, path, O_RDONLY);
    if (fd < 0)
        return fd;
    return beneath_read_fd(fd, max, ret_stat, ret, ret_size);
}

void beneath_names_release(struct beneath_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i].name);
    free(names->items);
    *names = (struct beneath_names){NULL, 0};
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct beneath_name *)a)->name, ((const struct beneath_name *)b)->name);
}

static unsigned char type_of(int dir, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_REG; /* gone; whoever opens it will see */
    return (unsigned char)IFTODT(st.st_mode);
}

int beneath_list(int dir, size_t max, struct beneath_names *ret)
{
    struct beneath_names names = {NULL, 0};
    size_t room = 0;
    int rc = 0;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream) {
        rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    errno = 0;
    for (struct dirent *entry; (entry = readdir(stream)); errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (names.count == max) {
            errno = E2BIG;
            break;
        }
        if (names.count == room) {
            room = room ? room * 2 : 32;
            names.items = xreallocarray(names.items, room, sizeof *names.items);
        }
        names.items[names.count++] =
            (struct beneath_name){.name = xstrdup(entry->d_name), .type = type_of(fd, entry)};
    }
    rc = -errno;
    closedir(stream);
    if (rc < 0) {
        beneath_names_release(&names);
        return rc;
    }
    if (names.count > 0)
        qsort(names.items, names.count, sizeof *names.items, compare_names);
    *ret = names;
    return 0;
}
