/* SPDX-License-Identifier: Apache-2.0 */
/* What tells that a scope's directories have not changed since they were searched: inotify. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* For fewer packages than this a search is so cheap that it needs no help. */
#define WATCH_FROM 16

struct watched {
    ino_t inode;
    int id;
    uint64_t seen; /* the search that saw it last */
};

/* Used by one thread at a time. All zero but for `fd` is one that watches nothing yet. */
struct watch {
    int fd;                /* -1: not watching */
    struct watched *items; /* by inode, up to `sorted`; what a search adds comes behind */
    size_t count;
    size_t sorted;
    dev_t device; /* of the scope's directory */
    ino_t inode;
    uint64_t searches;
    uint64_t started;   /* when the search began, in monotonic nanoseconds */
    bool failed;        /* it came by something that cannot be watched */
    uint64_t vouched;   /* the search since which nothing has happened; 0: none */
    uint64_t vouch_end; /* for how long that is believed */
    uint64_t retry;     /* not again before */
};

#define WATCH_INIT \
    {              \
        .fd = -1   \
    }

void watch_close(struct watch *watch);

/* Whether all is as the search `ticket` found it in the directory `root`. */
bool watch_vouches(struct watch *watch, int root, uint64_t ticket);

/* Before a search of `root`. False: it goes without, because watches have run out, or because
   changes can escape them here. */
bool watch_begin(struct watch *watch, int root);
/* Whether that directory is watched, so that what is seen in it from now on counts. */
bool watch_covers(struct watch *watch, const struct stat *dir);
/* From now on it is. If that cannot be done, the search cannot be vouched for. */
void watch_add(struct watch *watch, int dir, const struct stat *st);

enum watch_end {
    WATCH_COMPLETE,
    WATCH_UNSETTLED, /* there is something that may change without an event, for now */
    WATCH_USELESS,   /* the same, and it looks lasting */
};
/* After the search: `ticket` is what it is called. */
void watch_end(struct watch *watch, enum watch_end end, uint64_t ticket);
