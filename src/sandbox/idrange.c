/* SPDX-License-Identifier: Apache-2.0 */
/* Private id ranges, held by locks on the bytes of a few files.

   Range n is taken while byte n of the file /run/boxd/idranges.(n mod SHARDS) is locked. The locks
   are of the open file description kind, and every range has a description of its own, so a range
   is free again exactly when the last copy of its descriptor is closed, by whoever and however that
   process ended; there is no record that could be stale. The files must stay the same files for as
   long as sessions live: a service manager that empties /run/boxd when boxd stops
   (RuntimeDirectory= without RuntimeDirectoryPreserve=yes) would have two sessions get the same
   ids.

   A description can only be asked about one lock in the way, not about the first free byte, and
   each question walks the list of all locks of the file, which is why there are several. So after
   the hint the search goes on at random places, which with half of all ranges taken needs two
   tries, and not through the run of neighbours that a linear one would meet. It also keeps the ids
   of a session that just ended from being given out at once. */
#include "sandbox/idrange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/fd.h"

#define RANDOM_TRIES 32
#define SHARDS       64

/* The index one step on is the range one below. */
static uint32_t index_base(uint32_t index)
{
    return IDRANGE_FIRST + (IDRANGE_COUNT - 1 - index) * IDRANGE_SIZE;
}

/* The directory is checked, not only made: anybody who can write there can swap the file. */
static int run_directory_open(int *ret_fd, struct error *err)
{
    cleanup_close int run = open("/run", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (run < 0)
        return error_errno(err, errno, "cannot open /run");
    if (mkdirat(run, "boxd", S_IRWXU) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make /run/boxd");
    cleanup_close int fd = openat(run, "boxd", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open the directory /run/boxd");
    if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        error_set(err, ERROR_DENIED, "/run/boxd can be written by others than root");
        return error_hint(err, "chown root: /run/boxd && chmod 0700 /run/boxd");
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int shard_open(int dir_fd, uint32_t index)
{
    char name[sizeof "idranges." + 10];
    snprintf(name, sizeof name, "idranges.%u", index % SHARDS);
    return openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
}

/* 1: taken now, by *ret_fd; 0: somebody has it; -errno. */
static int lock_range(int dir_fd, uint32_t index, int *ret_fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
    cleanup_close int fd = shard_open(dir_fd, index);
    if (fd < 0)
        return -errno;
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
        return errno == EAGAIN || errno == EACCES ? 0 : -errno;
    *ret_fd = steal_fd(&fd);
    return 1;
}

/* The hint, random places, then every one: the last free range is found, and "none" is true. */
static int lock_any(int dir_fd, uint32_t count, uint32_t hint, uint32_t *ret_index, int *ret_fd)
{
    for (uint32_t i = 0; i <= RANDOM_TRIES + count; i++) {
        uint32_t index = i == 0 ? hint % count : i - RANDOM_TRIES - 1;
        if (i > 0 && i <= RANDOM_TRIES)
            index = arc4random_uniform(count);
        int rc = lock_range(dir_fd, index, ret_fd);
        if (rc > 0)
            *ret_index = index;
        if (rc != 0)
            return rc;
    }
    return 0;
}

int idrange_take_in(int dir_fd, uint32_t count, uint32_t hint, struct idrange *ret,
                    struct error *err)
{
    uint32_t index = 0;
    int fd = -1;
    if (count == 0 || count > IDRANGE_COUNT)
        return error_set(err, ERROR_INVALID, "there are 1 to %u id ranges", IDRANGE_COUNT);
    int rc = lock_any(dir_fd, count, hint, &index, &fd);
    if (rc < 0)
        return error_errno(err, -rc, "cannot lock an id range");
    if (rc == 0) {
        error_set(err, ERROR_LIMIT, "all %u ranges of user ids are taken by live sessions", count);
        return error_hint(err, "end sandboxes that are no longer needed");
    }
    *ret = (struct idrange){.index = index, .base = index_base(index), .lock_fd = fd};
    return 0;
}

int idrange_take(uint32_t hint, struct idrange *ret, struct error *err)
{
    cleanup_close int dir = -1;
    if (run_directory_open(&dir, err) < 0)
        return error_wrap(err, "id ranges");
    return idrange_take_in(dir, IDRANGE_COUNT, hint, ret, err);
}
