/* SPDX-License-Identifier: Apache-2.0 */
/* From here into a session. boxd lets a file appear whole or not at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/copy.h"
#include "cli/progress.h"
#include "core/fd.h"

struct upload {
    int fd;
    uint64_t left; /* HTTP_CLIENT_CHUNKED: until its end */
    bool shrank;
    struct progress progress;
};

static ssize_t next_piece(char *buffer, size_t size, void *data)
{
    struct upload *upload = data;
    if (upload->left == 0)
        return 0;
    ssize_t n;
    do
        n = read(upload->fd, buffer, size < upload->left ? size : (size_t)upload->left);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (upload->left != HTTP_CLIENT_CHUNKED) {
        upload->left -= (uint64_t)n;
        upload->shrank = n == 0;
        if (n == 0)
            return -EIO;
    }
    progress_add(&upload->progress, (size_t)n);
    return n;
}

static int put_file(struct copy *copy, int fd, const char *name, const char *target,
                    struct error *err)
{
    struct stat st;
    struct upload upload = {.fd = fd, .left = HTTP_CLIENT_CHUNKED};
    char query[32] = "";
    if (fstat(fd, &st) < 0)
        return error_errno(err, errno, "'%.200s'", name);
    if (S_ISREG(st.st_mode)) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        /* Files of procfs say that they are empty, and are not. */
        if (at >= 0 && st.st_size > at)
            upload.left = (uint64_t)(st.st_size - at);
        snprintf(query, sizeof query, "?mode=%04o", st.st_mode & 0777u);
    }
    cleanup_free char *where = client_file_target(copy->session, target, query);
    const struct http_call call = {
        .method = "PUT",
        .target = where,
        .type = "application/octet-stream",
        .source = next_piece,
        .source_data = &upload,
        .source_length = upload.left,
    };
    progress_start(&upload.progress, name, upload.left == HTTP_CLIENT_CHUNKED ? 0 : upload.left);
    int rc = client_call(copy->client, &call, err);
    progress_end(&upload.progress);
    if (rc < 0 && upload.shrank)
        return error_set(err, ERROR_GONE, "'%.200s' became shorter while it was read", name);
    return rc < 0 ? copy_wrap(target, err) : 0;
}

/* --- directories --------------------------------------------------------------------------------
 */

static int put_entry(struct copy *copy, int dir, const char *entry, const char *name,
                     const char *target, struct error *err);

static int make_directory(struct copy *copy, const char *target, struct error *err)
{
    cleanup_free char *where = client_file_target(copy->session, target, "?op=mkdir");
    if (client_request(copy->client, "POST", where, NULL, NULL, err) < 0)
        return copy_wrap(target, err);
    return 0;
}

/* Takes the descriptor over. */
static int put_directory(struct copy *copy, int fd, const char *name, const char *target,
                         struct error *err)
{
    DIR *stream = fdopendir(fd);
    const struct dirent *entry;
    int rc = copy_enter(copy, name, err);
    if (rc == 0)
        rc = make_directory(copy, target, err);
    while (rc == 0 && stream && (entry = readdir(stream))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        cleanup_free char *below = copy_join(name, entry->d_name);
        cleanup_free char *to = copy_join(target, entry->d_name);
        rc = put_entry(copy, dirfd(stream), entry->d_name, below, to, err);
    }
    if (stream)
        closedir(stream);
    else
        close(fd);
    copy->depth--;
    return rc;
}

static int put_opened(struct copy *copy, int fd, const char *name, const char *target,
                      struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        error_errno(err, errno, "'%.200s'", name);
    } else if (S_ISDIR(st.st_mode)) {
        if (copy->recursive)
            return put_directory(copy, fd, name, target, err);
        copy_is_directory(name, err);
    } else {
        int rc = put_file(copy, fd, name, target, err);
        close(fd);
        return rc;
    }
    close(fd);
    return -1;
}

static int put_entry(struct copy *copy, int dir, const char *entry, const char *name,
                     const char *target, struct error *err)
{
    struct stat st;
    if (fstatat(dir, entry, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, errno, "'%.200s'", name);
    /* A FIFO would be waited for, and a link can lead out of the tree or around in it. */
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        copy_skip(copy, name, S_ISLNK(st.st_mode) ? "a symbolic link" : "not a regular file");
        return 0;
    }
    int fd = openat(dir, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "'%.200s'", name);
    return put_opened(copy, fd, name, target, err);
}

int copy_up(struct copy *copy, const char *source, const char *target, struct error *err)
{
    if (strcmp(source, "-") == 0)
        return put_file(copy, STDIN_FILENO, "standard input", target, err);
    int fd = open(source, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "'%.200s'", source);
    return put_opened(copy, fd, source, target, err);
}
