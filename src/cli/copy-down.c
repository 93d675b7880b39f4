/* SPDX-License-Identifier: Apache-2.0 */
/* From a session to here.

   Names come from inside the sandbox: each is one component, opened from the directory above it,
   and no link is followed below the directory that was named on the command line. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/copy.h"
#include "cli/progress.h"
#include "cli/unfinished.h"
#include "core/fd.h"
#include "core/parse.h"

struct download {
    int fd;
    struct progress progress;
};

/* --- files --------------------------------------------------------------------------------------
 */

static int sink(const char *piece, size_t size, void *data)
{
    struct download *download = data;
    progress_add(&download->progress, size);
    return fd_write_all(download->fd, piece, size);
}

int copy_body(struct client *client, const char *name, int fd, struct error *err)
{
    const char *length = http_client_header(client->http, "Content-Length");
    struct download download = {.fd = fd};
    uint64_t total = 0;
    if (length)
        parse_u64(length, UINT64_MAX, &total);
    progress_start(&download.progress, name, total);
    int rc = http_client_copy(client->http, sink, &download, err);
    progress_end(&download.progress);
    return rc;
}

static int get_file(struct copy *copy, const char *source, const char *name, int fd,
                    unsigned *ret_mode, struct error *err)
{
    cleanup_free char *where = client_file_target(copy->session, source, "");
    const struct http_call call = {.target = where};
    if (client_call(copy->client, &call, err) < 0)
        return copy_wrap(source, err);
    const char *mode = http_client_header(copy->client->http, "X-File-Mode");
    *ret_mode = mode ? (unsigned)strtoul(mode, NULL, 8) & 0777 : 0644;
    return copy_body(copy->client, name, fd, err) < 0 ? copy_wrap(source, err) : 0;
}

/* A device or a FIFO is written to, not replaced. */
static int get_into(struct copy *copy, const char *source, const char *name, int dir,
                    const char *entry, struct error *err)
{
    unsigned mode;
    cleanup_close int fd = openat(dir, entry, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "'%.200s'", name);
    return get_file(copy, source, name, fd, &mode, err);
}

static int get_replacing(struct copy *copy, const char *source, const char *name, int dir,
                         const char *entry, struct error *err)
{
    struct stat st;
    unsigned mode = 0;
    if (fstatat(dir, entry, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISDIR(st.st_mode))
            return error_set(err, ERROR_INVALID, "'%.200s' is a directory", name);
        if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
            return get_into(copy, source, name, dir, entry, err);
    }
    cleanup_close int fd = unfinished_open(dir);
    if (fd < 0)
        return error_errno(err, errno, "cannot make a file beside '%.200s'", name);
    int rc = get_file(copy, source, name, fd, &mode, err);
    if (rc == 0 && unfinished_place(fd, entry, mode) < 0)
        rc = error_errno(err, errno, "'%.200s'", name);
    unfinished_remove();
    return rc;
}

/* --- directories --------------------------------------------------------------------------------
 */

static int get_directory(struct copy *copy, const char *source, const char *name, int dir,
                         const char *entry, unsigned mode, struct error *err);

static bool is_component(const char *name)
{
    return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int get_entry(struct copy *copy, const json_t *entry, const char *source, const char *name,
                     int dir, struct error *err)
{
    const char *component = client_text(entry, "name");
    const char *type = client_text(entry, "type");
    if (!is_component(component))
        return error_set(err, ERROR_PROTOCOL, "an entry that is no file name in '%.200s'", source);
    cleanup_free char *from = copy_join(source, component);
    cleanup_free char *to = copy_join(name, component);
    if (strcmp(type, "file") == 0)
        return get_replacing(copy, from, to, dir, component, err);
    if (strcmp(type, "directory") == 0)
        return get_directory(copy, from, to, dir, component, copy_mode(entry), err);
    copy_skip(copy, from, strcmp(type, "symlink") == 0 ? "a symbolic link" : "not a regular file");
    return 0;
}

static int get_entries(struct copy *copy, const char *source, const char *name, int dir,
                       struct error *err)
{
    cleanup_json json_t *answer = NULL;
    cleanup_free char *where = client_file_target(copy->session, source, "?list");
    if (client_get(copy->client, where, &answer, err) < 0)
        return copy_wrap(source, err);
    const json_t *entries = json_object_get(answer, "entries");
    if (json_is_true(json_object_get(answer, "truncated"))) {
        error_set(err, ERROR_LIMIT, "'%.200s' has more entries than boxd lists", source);
        return error_hint(err, "pack it in the session with tar, and copy the archive");
    }
    for (size_t i = 0; i < json_array_size(entries); i++) {
        if (get_entry(copy, json_array_get(entries, i), source, name, dir, err) < 0)
            return -1;
    }
    return 0;
}

static int get_directory(struct copy *copy, const char *source, const char *name, int dir,
                         const char *entry, unsigned mode, struct error *err)
{
    bool made = mkdirat(dir, entry, 0700) == 0;
    if (!made && errno != EEXIST)
        return error_errno(err, errno, "'%.200s'", name);
    /* What the caller named may be a link of the caller's own; what comes from inside may not meet
       one. */
    int follow = copy->depth == 0 ? 0 : O_NOFOLLOW;
    cleanup_close int fd = openat(dir, entry, O_RDONLY | O_DIRECTORY | follow | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "'%.200s'", name);
    int rc = copy_enter(copy, source, err);
    if (rc == 0)
        rc = get_entries(copy, source, name, fd, err);
    copy->depth--;
    /* Last, because it may forbid what was just done. */
    if (made && fchmod(fd, mode) < 0 && rc == 0)
        rc = error_errno(err, errno, "'%.200s'", name);
    return rc;
}

/* --- the whole ----------------------------------------------------------------------------------
 */

/* What is no file, or no name of one, is written to: a pipe, a device, and /dev/stdout whatever it
   is, also a file that somebody appends to. 1: it was something else. */
static int get_special(struct copy *copy, const char *source, const char *target, struct error *err)
{
    struct stat name;
    struct stat st;
    struct stat out;
    unsigned mode;
    bool link = lstat(target, &name) == 0 && S_ISLNK(name.st_mode);
    bool there = stat(target, &st) == 0;
    if (link && !there)
        return error_set(err, ERROR_INVALID, "'%.200s' is a link that leads nowhere", target);
    if (link && fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == st.st_dev &&
        out.st_ino == st.st_ino)
        return get_file(copy, source, source, STDOUT_FILENO, &mode, err);
    if (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return get_into(copy, source, target, AT_FDCWD, target, err);
    return 1;
}

static int get_to(struct copy *copy, const char *source, const struct copy_info *info,
                  const char *target, struct error *err)
{
    int rc = info->directory ? 1 : get_special(copy, source, target, err);
    if (rc <= 0)
        return rc;
    /* A link that stands for a file is written through, as cp(1) does. */
    cleanup_free char *path = realpath(target, NULL);
    if (!path)
        path = xstrdup(target);
    cleanup_free char *entry = copy_basename(path);
    char *end = path + strlen(path);
    while (end > path && end[-1] == '/')
        end--;
    cleanup_free char *above = xstrndup(path, (size_t)(end - path) - strlen(entry));
    cleanup_close int dir = open(above[0] ? above : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, errno, "'%.200s'", above);
    if (info->directory)
        return get_directory(copy, source, path, dir, entry[0] ? entry : ".", info->mode, err);
    return get_replacing(copy, source, path, dir, entry, err);
}

int copy_down(struct copy *copy, const char *source, const char *target, struct error *err)
{
    struct copy_info info;
    unsigned mode;
    if (copy_stat(copy, source, &info, err) < 0)
        return -1;
    if (!info.exists)
        return error_set(err, ERROR_NOT_FOUND, "session '%.64s' has no '%.200s'", copy->session,
                         source);
    if (info.directory && !copy->recursive)
        return copy_is_directory(source, err);
    if (strcmp(target, "-") == 0 && info.directory)
        return error_set(err, ERROR_INVALID, "a directory does not fit into standard output");
    if (strcmp(target, "-") == 0)
        return get_file(copy, source, source, STDOUT_FILENO, &mode, err);
    return get_to(copy, source, &info, target, err);
}
