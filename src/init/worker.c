/* SPDX-License-Identifier: Apache-2.0 */
/* A file worker: does one thing to one path and exits. It is forked from init, so it sees what the
   sandbox sees and may what the sandbox may, and what it allocates is charged to the session. It
   may take as long as it likes: nobody waits for it but the one who asked.

   Links are followed as they are by any program inside; magic links (/proc/self/fd/…) are not. Only
   regular files are read or replaced, and nothing is opened that could block. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fd.h"
#include "init/init.h"

#define REMOVE_DEPTH_MAX 256
#define LIST_BUFFER      (32 * 1024)

static int connection;
static char data[FILE_CHUNK_MAX];

/* --- talking -------------------------------------------------------------------------------------
 */

static void send_all(const void *what, size_t size)
{
    const char *at = what;
    while (size > 0) {
        ssize_t n = send(connection, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(1); /* nobody is there any more */
        at += n;
        size -= (size_t)n;
    }
}

/* false: the other side left before it had said all. */
static bool receive_all(void *what, size_t size)
{
    char *at = what;
    while (size > 0) {
        ssize_t n = recv(connection, at, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static _Noreturn void finish(int rc)
{
    struct file_reply reply = {.errnum = rc < 0 ? -rc : 0};
    send_all(&reply, sizeof reply);
    _exit(0);
}

static struct file_reply describe(const struct stat *st)
{
    return (struct file_reply){.mode = st->st_mode,
                               .size = (uint64_t)st->st_size,
                               .mtime_ns = st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec};
}

/* --- looking
 * -------------------------------------------------------------------------------------- */

static int open_path(const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    if (!(flags & O_PATH))
        how.flags |= O_NOCTTY | O_NONBLOCK;
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

static void do_stat(const struct file_request *request, const char *path)
{
    struct stat st;
    uint64_t nofollow = request->flags & FILE_NO_FOLLOW ? O_NOFOLLOW : 0;
    int fd = open_path(path, O_PATH | nofollow);
    if (fd < 0)
        finish(fd);
    if (fstat(fd, &st) < 0)
        finish(-errno);
    struct file_reply reply = describe(&st);
    send_all(&reply, sizeof reply);
}

static void do_read(const struct file_request *request, const char *path)
{
    struct stat st;
    int fd = open_path(path, O_RDONLY);
    if (fd < 0)
        finish(fd);
    if (fstat(fd, &st) < 0)
        finish(-errno);
    if (!S_ISREG(st.st_mode))
        finish(S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL);
    struct file_reply reply = describe(&st);
    uint64_t left = request->offset < reply.size ? reply.size - request->offset : 0;
    if (left > request->length)
        left = request->length;
    reply.length = left;
    send_all(&reply, sizeof reply);
    off_t at = (off_t)request->offset;
    while (left > 0) {
        ssize_t n = sendfile(connection, fd, &at, left < 1 << 20 ? left : 1 << 20);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* it has become shorter: so does what is sent */
        left -= (uint64_t)n;
    }
}

struct directory_entry {
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void list_entry(int directory, const char *name)
{
    struct stat st;
    struct {
        struct file_entry head;
        char name[FILE_NAME_SIZE];
    } entry;
    size_t length = strlen(name);
    if (is_dots(name) || length > sizeof entry.name ||
        fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* gone meanwhile */
    struct file_reply known = describe(&st);
    entry.head = (struct file_entry){.size = known.size,
                                     .mtime_ns = known.mtime_ns,
                                     .mode = known.mode,
                                     .name_size = (uint32_t)length};
    memcpy(entry.name, name, length);
    send_all(&entry, sizeof entry.head + length);
}

static void do_list(const char *path)
{
    static char buffer[LIST_BUFFER] __attribute__((aligned(8)));
    struct stat st;
    long size;
    int fd = open_path(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        finish(fd);
    if (fstat(fd, &st) < 0)
        finish(-errno);
    struct file_reply reply = describe(&st);
    send_all(&reply, sizeof reply);
    while ((size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < size;) {
            const struct directory_entry *entry = (const void *)(buffer + at);
            list_entry(fd, entry->name);
            at += entry->size;
        }
    }
    if (size == 0)
        send_all(&(struct file_entry){0}, sizeof(struct file_entry));
}

/* --- changing
 * -------------------------------------------------------------------------------------- */

/* Makes the directories that lead to `path`; with `itself`, that too. */
static int make_directories(const char *path, bool itself)
{
    char part[PATH_MAX];
    struct stat st;
    size_t length = strlen(path);
    if (length >= sizeof part)
        return -ENAMETOOLONG;
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && !(part[i] == '\0' && itself))
            continue;
        char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, 0755) < 0) {
            int errnum = errno;
            if (stat(part, &st) < 0)
                return -errnum;
            if (!S_ISDIR(st.st_mode))
                return kept ? -ENOTDIR : -EEXIST;
        }
        part[i] = kept;
    }
    return 0;
}

/* The directory of a path, opened, and the name in it. */
static int open_parent(const char *path, const char **ret_name)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = (size_t)(slash - path);
    *ret_name = slash + 1;
    if (length >= sizeof parent || strlen(*ret_name) > NAME_MAX)
        return -ENAMETOOLONG;
    if (!**ret_name || is_dots(*ret_name))
        return -EISDIR;
    memcpy(parent, path, length);
    parent[length] = '\0';
    return open_path(length ? parent : "/", O_PATH | O_DIRECTORY);
}

#define TEMPORARY_NAME_SIZE (sizeof ".box-" + 16)

static int make_temporary(int directory, char name[TEMPORARY_NAME_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (int tries = 0; tries < 16; tries++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return -EIO;
        char *at = stpcpy(name, ".box-");
        for (int i = 0; i < 16; i++, random >>= 4)
            *at++ = digits[random & 15];
        *at = '\0';
        int fd =
            openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd < 0 ? -errno : fd;
    }
    return -EEXIST;
}

/* -ECANCELED: the sender left in the middle. */
static int take_content(int fd)
{
    for (;;) {
        uint32_t size;
        if (!receive_all(&size, sizeof size) || size > sizeof data)
            return -ECANCELED;
        if (size == 0)
            return 0;
        if (!receive_all(data, size))
            return -ECANCELED;
        int rc = fd_write_all(fd, data, size);
        if (rc < 0)
            return rc;
    }
}

/* A sender that is told of a failure early may still be sending: what comes is read, so that the
   answer is not lost with the connection. */
static _Noreturn void fail_write(int rc)
{
    struct file_reply reply = {.errnum = -rc};
    send_all(&reply, sizeof reply);
    shutdown(connection, SHUT_WR);
    while (recv(connection, data, sizeof data, 0) > 0)
        ;
    _exit(0);
}

static int rename_over(int from_directory, const char *from, int to_directory, const char *to,
                       bool replace)
{
    unsigned flags = replace ? 0 : RENAME_NOREPLACE;
    if (syscall(SYS_renameat2, from_directory, from, to_directory, to, flags) < 0)
        return -errno;
    return 0;
}

/* What is there must be a file; a new one keeps its permissions. */
static int check_target(int directory, const char *name, const struct file_request *request,
                        mode_t *ret_mode, uint32_t *ret_present)
{
    struct stat st;
    *ret_mode = request->mode & 0777;
    *ret_present = 0;
    if (fstatat(directory, name, &st, 0) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (request->flags & FILE_NO_REPLACE)
        return -EEXIST;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    if (request->mode == 0)
        *ret_mode = st.st_mode & 0777;
    *ret_present = st.st_mode;
    return 0;
}

static void do_write(const struct file_request *request, const char *path)
{
    char temporary[TEMPORARY_NAME_SIZE];
    const char *name;
    mode_t mode;
    struct file_reply go_on = {0};
    int rc = request->flags & FILE_PARENTS ? make_directories(path, false) : 0;
    int directory = rc < 0 ? rc : open_parent(path, &name);
    if (directory < 0)
        fail_write(directory);
    rc = check_target(directory, name, request, &mode, &go_on.mode);
    if (rc < 0)
        fail_write(rc);
    int fd = make_temporary(directory, temporary);
    if (fd < 0)
        fail_write(fd);
    send_all(&go_on, sizeof go_on);
    rc = take_content(fd);
    if (rc == 0 && fchmod(fd, mode ? mode : 0644) < 0)
        rc = -errno;
    if (rc == 0)
        rc =
            rename_over(directory, temporary, directory, name, !(request->flags & FILE_NO_REPLACE));
    if (rc < 0)
        unlinkat(directory, temporary, 0);
    if (rc == -ECANCELED)
        _exit(0);
    if (rc < 0)
        fail_write(rc);
    struct stat st;
    struct file_reply reply = {0};
    if (fstat(fd, &st) == 0)
        reply = describe(&st);
    send_all(&reply, sizeof reply);
}

static int copy_file(const char *from, const char *to, bool replace)
{
    char temporary[TEMPORARY_NAME_SIZE];
    struct stat st;
    const char *name;
    cleanup_close int source = open_path(from, O_RDONLY | O_NOFOLLOW);
    if (source < 0)
        return source;
    if (fstat(source, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EXDEV; /* more than a file cannot be moved to another file system */
    cleanup_close int directory = open_parent(to, &name);
    if (directory < 0)
        return directory;
    cleanup_close int target = make_temporary(directory, temporary);
    if (target < 0)
        return target;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = read(source, data, sizeof data)) != 0)
        rc = n < 0 ? -errno : fd_write_all(target, data, (size_t)n);
    if (rc == 0 && fchmod(target, st.st_mode & 0777) < 0)
        rc = -errno;
    if (rc == 0)
        rc = rename_over(directory, temporary, directory, name, replace);
    if (rc < 0)
        unlinkat(directory, temporary, 0);
    return rc < 0 ? rc : unlink(from) < 0 ? -errno : 0;
}

static int do_move(const struct file_request *request, const char *path, const char *to)
{
    bool replace = !(request->flags & FILE_NO_REPLACE);
    int rc = make_directories(to, false);
    if (rc == 0)
        rc = rename_over(AT_FDCWD, path, AT_FDCWD, to, replace);
    return rc == -EXDEV ? copy_file(path, to, replace) : rc;
}

static int remove_entry(int directory, const char *name, int depth);

/* Again from the start until there was nothing left to take away: removing moves entries about. */
static int empty_directory(int fd, int depth)
{
    char buffer[2048] __attribute__((aligned(8)));
    for (;;) {
        bool removed = false;
        long size;
        if (lseek(fd, 0, SEEK_SET) < 0)
            return -errno;
        while ((size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
            for (long at = 0; at < size;) {
                const struct directory_entry *entry = (const void *)(buffer + at);
                if (!is_dots(entry->name)) {
                    int rc = remove_entry(fd, entry->name, depth + 1);
                    if (rc < 0)
                        return rc;
                    removed = true;
                }
                at += entry->size;
            }
        }
        if (size < 0)
            return -errno;
        if (!removed)
            return 0;
    }
}

static int remove_entry(int directory, const char *name, int depth)
{
    if (depth > REMOVE_DEPTH_MAX)
        return -ELOOP;
    if (unlinkat(directory, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    cleanup_close int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = empty_directory(fd, depth);
    if (rc < 0)
        return rc;
    return unlinkat(directory, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int do_remove(const struct file_request *request, const char *path)
{
    struct stat st;
    const char *name;
    cleanup_close int directory = open_parent(path, &name);
    if (directory < 0)
        return directory;
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (request->flags & FILE_RECURSIVE)
        return remove_entry(directory, name, 0);
    return unlinkat(directory, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

void worker_run(int sock, const struct file_request *request, const char *path, const char *to)
{
    connection = sock;
    switch (request->op) {
    case FILE_STAT:
        do_stat(request, path);
        break;
    case FILE_READ:
        do_read(request, path);
        break;
    case FILE_WRITE:
        do_write(request, path);
        break;
    case FILE_LIST:
        do_list(path);
        break;
    case FILE_MKDIR:
        finish(make_directories(path, true));
    case FILE_MOVE:
        finish(do_move(request, path, to));
    case FILE_REMOVE:
        finish(do_remove(request, path));
    default:
        finish(-EINVAL);
    }
    _exit(0);
}
