/* SPDX-License-Identifier: Apache-2.0 */
/* What tells that a scope's directories have not changed since they were searched.

   Each directory is watched before it is looked at, and the queue of events is emptied before a
   search. So whatever a search may have missed lies in the queue when somebody asks next, and an
   empty queue says that nothing has changed. What the events are about does not matter: any of them
   means another search. Who changed something has his event queued before his system call returns.

   Directories are known by their inodes, so a search adds only what is new to it. The kernel says
   when a directory is gone (IN_IGNORED) before its inode can be another's; what was moved out of
   the scope is let go after the next search. If the queue was full, nobody knows what is gone, and
   all watches are let go.

   Some changes have no event: by a mapping that is still there, by another name of the same file
   elsewhere, by a mount. What can be seen of that beforehand is not vouched for; for the rest
   nothing is believed longer than VOUCH_NS. */
#include "skills/watch.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fd.h"
#include "core/mem.h"

#define SECOND_NS   UINT64_C(1000000000)
#define VOUCH_NS    (10 * SECOND_NS)
#define RETRY_NS    (60 * SECOND_NS)
#define WATCHED_MAX 2048 /* directories of a scope: a thousand packages, and what holds them */
#define WATCHES_MAX \
    32 /* scopes that watch: a user has 128 such descriptors, and not for boxd alone */
#define READS_MAX    64 /* of a queue that others may fill as fast as we empty it */
#define EVENTS_BYTES 16384

/* Closing tells of what was written by way of a mapping. */
#define EVENTS                                                                        \
    (IN_ATTRIB | IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | \
     IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* As linux/magic.h does not have them. */
#define BCACHEFS_MAGIC 0xca451a4e
#define ZFS_MAGIC      0x2fc12fc1

static atomic_uint watches; /* that are open */

/* File systems that only this kernel changes. Of others, and of unknown ones, somebody else might,
   and no event would tell. */
static bool is_local(int root)
{
    static const unsigned long types[] = {
        EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC, TMPFS_MAGIC, RAMFS_MAGIC,
        OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, BCACHEFS_MAGIC,    ZFS_MAGIC,
    };
    struct statfs fs;
    if (fstatfs(root, &fs) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if ((unsigned long)fs.f_type == types[i])
            return true;
    }
    return false;
}

static void let_go(struct watch *watch)
{
    if (watch->fd >= 0)
        atomic_fetch_sub(&watches, 1);
    fd_clear(&watch->fd);
    watch->count = watch->sorted = 0;
    watch->vouched = 0;
}

void watch_close(struct watch *watch)
{
    let_go(watch);
    free(watch->items);
    *watch = (struct watch)WATCH_INIT;
}

static void give_up(struct watch *watch)
{
    let_go(watch);
    watch->retry = clock_monotonic_ns() + RETRY_NS;
}

/* --- events --- */

/* False: it was let go before. */
static bool forget(struct watch *watch, int id)
{
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->items[i].id != id)
            continue;
        memmove(watch->items + i, watch->items + i + 1,
                (watch->count - i - 1) * sizeof *watch->items);
        watch->sorted = --watch->count;
        return true;
    }
    return false;
}

static bool read_events(struct watch *watch, const char *data, size_t size)
{
    bool happened = false;
    struct inotify_event event;
    for (size_t at = 0; at + sizeof event <= size; at += sizeof event + event.len) {
        memcpy(&event, data + at, sizeof event);
        if (event.mask & IN_Q_OVERFLOW) {
            let_go(watch);
            return true;
        }
        if (!(event.mask & IN_IGNORED) || forget(watch, event.wd))
            happened = true;
    }
    return happened;
}

/* Empties the queue, or closes it if events were lost: with them, whose watch has ended. What is
   left if it fills too fast will be found the next time. */
static bool has_happened(struct watch *watch)
{
    char data[EVENTS_BYTES];
    bool happened = false;
    for (int i = 0; i < READS_MAX && watch->fd >= 0; i++) {
        ssize_t n = read(watch->fd, data, sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return happened || n == 0 || errno != EAGAIN;
        happened = read_events(watch, data, (size_t)n) || happened;
    }
    return true;
}

bool watch_vouches(struct watch *watch, int root, uint64_t ticket)
{
    struct stat st;
    if (watch->fd < 0 || watch->vouched != ticket || ticket == 0)
        return false;
    if (!has_happened(watch) && clock_monotonic_ns() < watch->vouch_end && fstat(root, &st) == 0 &&
        st.st_dev == watch->device && st.st_ino == watch->inode)
        return true;
    watch->vouched = 0;
    return false;
}

/* --- a search --- */

static int compare_inodes(const void *a, const void *b)
{
    const struct watched *one = a;
    const struct watched *two = b;
    if (one->inode != two->inode)
        return one->inode < two->inode ? -1 : 1;
    return one->id - two->id;
}

/* Of one inode the latest is kept: the kernel has but one watch on it. */
static void sort(struct watch *watch)
{
    size_t kept = 0;
    if (watch->count > watch->sorted)
        qsort(watch->items, watch->count, sizeof *watch->items, compare_inodes);
    for (size_t i = 0; i < watch->count; i++) {
        if (kept > 0 && watch->items[kept - 1].inode == watch->items[i].inode)
            kept--;
        watch->items[kept++] = watch->items[i];
    }
    watch->sorted = watch->count = kept;
}

static bool start(struct watch *watch, int root)
{
    if (clock_monotonic_ns() < watch->retry)
        return false;
    if (atomic_fetch_add(&watches, 1) < WATCHES_MAX && is_local(root))
        watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd >= 0)
        return true;
    atomic_fetch_sub(&watches, 1);
    give_up(watch);
    return false;
}

bool watch_begin(struct watch *watch, int root)
{
    struct stat st;
    if (fstat(root, &st) < 0)
        return false;
    if (watch->fd >= 0 && st.st_dev != watch->device)
        let_go(watch); /* the inodes are another file system's */
    if (watch->fd >= 0)
        has_happened(watch);
    if (watch->fd < 0 && !start(watch, root))
        return false;
    watch->device = st.st_dev;
    watch->inode = st.st_ino;
    watch->started = clock_monotonic_ns();
    watch->searches++;
    watch->failed = false;
    watch->vouched = 0;
    return true;
}

bool watch_covers(struct watch *watch, const struct stat *dir)
{
    const struct watched key = {.inode = dir->st_ino};
    size_t low = 0;
    size_t high = watch->sorted;
    if (dir->st_dev != watch->device)
        return false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (watch->items[middle].inode < key.inode)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == watch->sorted || watch->items[low].inode != key.inode)
        return false;
    watch->items[low].seen = watch->searches;
    return true;
}

void watch_add(struct watch *watch, int dir, const struct stat *st)
{
    char path[40];
    /* By its descriptor: a path could lead somewhere else by now. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    int id = -1;
    if (!watch->failed && watch->count < WATCHED_MAX && st->st_dev == watch->device)
        id = inotify_add_watch(watch->fd, path, EVENTS);
    if (id < 0) {
        watch->failed = true;
        return;
    }
    /* Powers of two: the count says when it may be full. */
    if ((watch->count & (watch->count - 1)) == 0)
        watch->items =
            xreallocarray(watch->items, watch->count ? watch->count * 2 : 1, sizeof *watch->items);
    watch->items[watch->count++] = (struct watched){st->st_ino, id, watch->searches};
}

static void let_unseen_go(struct watch *watch)
{
    size_t kept = 0;
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->items[i].seen == watch->searches)
            watch->items[kept++] = watch->items[i];
        else
            inotify_rm_watch(watch->fd, watch->items[i].id);
    }
    watch->sorted = watch->count = kept;
}

void watch_end(struct watch *watch, enum watch_end end, uint64_t ticket)
{
    if (watch->failed || end == WATCH_USELESS) {
        give_up(watch);
        return;
    }
    sort(watch);
    if (end != WATCH_COMPLETE)
        return;
    let_unseen_go(watch);
    watch->vouched = ticket;
    watch->vouch_end = watch->started + VOUCH_NS;
}
