/* SPDX-License-Identifier: Apache-2.0 */
/* Where libzip reads from and writes to, when it makes an archive. */
#include "skills/zip-source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/mem.h"
#include "skills/beneath.h"

/* --- a file that goes in --- */

struct source {
    int package; /* borrowed: it is open until the archive is closed */
    char *path;
    int fd;
    uint64_t left; /* of what it had when it was opened */
    struct stat st;
    zip_error_t error;
};

static zip_int64_t source_fail(struct source *source, int code, int errnum)
{
    zip_error_set(&source->error, code, errnum);
    return -1;
}

static zip_int64_t source_open(struct source *source)
{
    struct stat st;
    source->fd = beneath_open(source->package, source->path, O_RDONLY);
    if (source->fd < 0)
        return source_fail(source, ZIP_ER_OPEN, -source->fd);
    if (fstat(source->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        fd_clear(&source->fd);
        return source_fail(source, ZIP_ER_OPEN, EINVAL);
    }
    source->left = (uint64_t)source->st.st_size;
    return 0;
}

static zip_int64_t source_stat(struct source *source, zip_stat_t *st)
{
    zip_stat_init(st);
    st->valid = ZIP_STAT_SIZE | ZIP_STAT_MTIME;
    st->size = (zip_uint64_t)source->st.st_size;
    st->mtime = source->st.st_mtime;
    return sizeof *st;
}

static zip_int64_t source_read(struct source *source, void *data, zip_uint64_t length)
{
    /* No more than the size that was told: it may be growing. */
    ssize_t n = read(source->fd, data, length < source->left ? length : source->left);
    if (n < 0)
        return source_fail(source, ZIP_ER_READ, errno);
    source->left -= (uint64_t)n;
    return n;
}

static zip_int64_t source_command(void *user, void *data, zip_uint64_t length,
                                  zip_source_cmd_t command)
{
    struct source *source = user;
    switch (command) {
    case ZIP_SOURCE_OPEN:
        return source_open(source);
    case ZIP_SOURCE_READ:
        return source_read(source, data, length);
    case ZIP_SOURCE_CLOSE:
        fd_clear(&source->fd);
        return 0;
    case ZIP_SOURCE_STAT:
        return source_stat(source, data);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&source->error, data, length);
    case ZIP_SOURCE_FREE:
        fd_clear(&source->fd);
        free(source->path);
        free(source);
        return 0;
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE,
                                              -1);
    default:
        return source_fail(source, ZIP_ER_OPNOTSUPP, 0);
    }
}

zip_source_t *zip_source_beneath(zip_t *archive, int package, const char *path,
                                 const struct stat *st)
{
    struct source *own = xcalloc(1, sizeof *own);
    *own = (struct source){.package = package, .path = xstrdup(path), .fd = -1, .st = *st};
    zip_error_init(&own->error);
    zip_source_t *source = zip_source_function(archive, source_command, own);
    if (!source) {
        free(own->path);
        free(own);
    }
    return source;
}

/* --- the archive as it is written --- */

static zip_int64_t sink_fail(struct zip_sink *sink, int code, int errnum)
{
    zip_error_set(&sink->error, code, errnum);
    return -1;
}

static zip_int64_t sink_write(struct zip_sink *sink, const void *data, zip_uint64_t length)
{
    ssize_t n = pwrite(sink->fd, data, length, sink->at);
    if (n < 0)
        return sink_fail(sink, ZIP_ER_WRITE, errno);
    sink->at += n;
    if (sink->at > sink->size)
        sink->size = sink->at;
    return n;
}

static zip_int64_t sink_seek(struct zip_sink *sink, void *data, zip_uint64_t length)
{
    zip_int64_t to = zip_source_seek_compute_offset(
        (zip_uint64_t)sink->at, (zip_uint64_t)sink->size, data, length, &sink->error);
    if (to < 0)
        return -1;
    sink->at = (off_t)to;
    return 0;
}

static zip_int64_t sink_command(void *user, void *data, zip_uint64_t length,
                                zip_source_cmd_t command)
{
    struct zip_sink *sink = user;
    switch (command) {
    case ZIP_SOURCE_STAT: /* there is no archive yet: that is how libzip asks */
        return sink_fail(sink, ZIP_ER_READ, ENOENT);
    case ZIP_SOURCE_BEGIN_WRITE:
        sink->at = sink->size = 0;
        return 0;
    case ZIP_SOURCE_WRITE:
        return sink_write(sink, data, length);
    case ZIP_SOURCE_SEEK_WRITE:
        return sink_seek(sink, data, length);
    case ZIP_SOURCE_TELL_WRITE:
        return sink->at;
    case ZIP_SOURCE_COMMIT_WRITE:
        return ftruncate(sink->fd, sink->size) < 0 ? sink_fail(sink, ZIP_ER_WRITE, errno) : 0;
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&sink->error, data, length);
    case ZIP_SOURCE_ROLLBACK_WRITE:
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_REMOVE:
    case ZIP_SOURCE_FREE:
        return 0;
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_CLOSE, ZIP_SOURCE_READ, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_BEGIN_WRITE,
            ZIP_SOURCE_WRITE, ZIP_SOURCE_COMMIT_WRITE, ZIP_SOURCE_ROLLBACK_WRITE,
            ZIP_SOURCE_SEEK_WRITE, ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_REMOVE, -1);
    default:
        return sink_fail(sink, ZIP_ER_OPNOTSUPP, 0);
    }
}

zip_source_t *zip_source_sink(struct zip_sink *sink, zip_error_t *ret_error)
{
    return zip_source_function_create(sink_command, sink, ret_error);
}
