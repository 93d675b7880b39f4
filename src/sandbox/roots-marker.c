/* SPDX-License-Identifier: Apache-2.0 */
/* Markers: small files by which the other side proves that it sees the same directory. Whoever asks
   for one may be in bad hands, and the directory may be written to by others, so the name has one
   form, and what is there is looked at before it is opened: to open a device does things, and to
   open a pipe waits. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "sandbox/roots.h"

#define DIGITS 32

bool roots_marker_valid(const char *name)
{
    size_t prefix = strlen(ROOTS_MARKER_PREFIX);
    return strncmp(name, ROOTS_MARKER_PREFIX, prefix) == 0 && strlen(name) == prefix + DIGITS &&
           strspn(name + prefix, "0123456789abcdef") == DIGITS;
}

static int failed(const char *name, int errnum, struct error *err)
{
    error_errno(err, errnum, "cannot open '%s'", name);
    if (err && errnum == ENOENT)
        err->code = ERROR_NOT_FOUND;
    if (err && (errnum == EACCES || errnum == EPERM))
        err->code = ERROR_DENIED;
    return -1;
}

static int check(const char *name, const struct stat *st, struct error *err)
{
    if (S_ISLNK(st->st_mode))
        return error_set(err, ERROR_DENIED, "'%s' is a link", name);
    if (!S_ISREG(st->st_mode))
        return error_set(err, ERROR_INVALID, "'%s' is not a regular file", name);
    if (st->st_size < 1 || st->st_size > ROOTS_MARKER_MAX)
        return error_set(err, ERROR_INVALID, "'%s' has %lld bytes, and not 1 to %d", name,
                         (long long)st->st_size, ROOTS_MARKER_MAX);
    return 0;
}

/* What `found`, an O_PATH descriptor, names, opened for reading. */
static int reopen(int found)
{
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", found);
    return open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* One byte more than there may be is asked for, to see a file that grows. */
static ssize_t read_all(int fd, unsigned char *bytes, size_t size)
{
    size_t used = 0;
    ssize_t n = 1;
    while (used < size && n > 0) {
        n = read(fd, bytes + used, size - used);
        if (n < 0 && errno != EINTR)
            return -errno;
        used += n > 0 ? (size_t)n : 0;
        n = n < 0 ? 1 : n;
    }
    return (ssize_t)used;
}

int roots_read_marker(const struct mount_policy *policy, const char *directory, const char *name,
                      unsigned char ret[ROOTS_MARKER_MAX], size_t *ret_size, struct error *err)
{
    unsigned char bytes[ROOTS_MARKER_MAX + 1];
    struct stat before;
    struct stat after;
    if (!roots_marker_valid(name))
        return error_set(err, ERROR_INVALID,
                         "a marker is called " ROOTS_MARKER_PREFIX "… with %d hex digits", DIGITS);
    cleanup_close int dir = roots_open(policy, directory, false, err);
    if (dir < 0)
        return -1;
    cleanup_close int found = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (found < 0 || fstat(found, &before) < 0)
        return failed(name, errno, err);
    if (check(name, &before, err) < 0)
        return -1;
    cleanup_close int fd = reopen(found);
    if (fd < 0)
        return failed(name, errno, err);
    ssize_t size = read_all(fd, bytes, sizeof bytes);
    if (size < 0)
        return failed(name, (int)-size, err);
    if (size != before.st_size || fstat(fd, &after) < 0 || after.st_size != before.st_size)
        return error_set(err, ERROR_INVALID, "'%s' changed while it was read", name);
    memcpy(ret, bytes, (size_t)size);
    *ret_size = (size_t)size;
    return 0;
}
