/* SPDX-License-Identifier: Apache-2.0 */
/* Files below a directory that is held open. Every path is resolved by the kernel so that it cannot
   leave that directory, whatever is swapped for a link meanwhile: packages may be mounted writable
   into sandboxes. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/error.h"

/* openat2(2), close-on-exec, never blocking on a FIFO. Links are followed as long as they stay
   beneath `dir`. Returns a descriptor or -errno. */
int beneath_open(int dir, const char *path, int flags);
/* The same, and no link is followed at all. */
int beneath_open_plain(int dir, const char *path, int flags);
/* Of what is there, links followed as above. Returns 0 or -errno. */
int beneath_stat(int dir, const char *path, struct stat *ret);
bool beneath_is_file(int dir, const char *path);
bool beneath_is_dir(int dir, const char *path);

/* A directory for reading, made with those above it where they are missing. Returns a descriptor or
   -errno; `ret_made` (may be NULL) counts what was made. */
int beneath_make_dirs(int dir, const char *path, unsigned *ret_made);

/* A regular file's bytes, at most `max`; behind them a NUL that does not count. Returns 0 or
   -errno: -EFBIG, -EISDIR, -EINVAL for what is no file. The caller frees. */
int beneath_read(int dir, const char *path, size_t max, struct stat *ret_stat, char **ret,
                 size_t *ret_size);
/* The same of what is open. */
int beneath_read_fd(int fd, size_t max, struct stat *ret_stat, char **ret, size_t *ret_size);

/* The names in a directory, sorted by bytes. More than `max` are -E2BIG. */
struct beneath_name {
    char *name;
    unsigned char type; /* DT_…; never DT_UNKNOWN */
};
struct beneath_names {
    struct beneath_name *items;
    size_t count;
};
int beneath_list(int dir, size_t max, struct beneath_names *ret);
void beneath_names_release(struct beneath_names *names);
#define cleanup_names __attribute__((cleanup(beneath_names_release)))
