/* SPDX-License-Identifier: Apache-2.0 */
/* Hard limits on bytes and inodes of a workspace, enforced by the kernel. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"

#define STORAGE_INODE_RATIO 16384u

struct storage_limit {
    uint64_t bytes;
    uint64_t inodes; /* 0: one for each STORAGE_INODE_RATIO bytes */
};

/* A new, empty file system of that size, owned by uid:gid (host ids), as a detached mount (an fd
   for move_mount), nosuid,nodev. Backed by a loop device on an unnamed file in `directory`: when
   the last reference to the mount goes, device, file and space go with it, whoever was killed.
   At least limit.bytes are free in it, and limit.inodes files can be made, though not more than one
   for each 4 KiB (ERROR_INVALID). Root only. Not for several threads at once: it keeps the last
   empty file system it made, to copy it. Waits for a child, so SIGCHLD must not be ignored. */
int storage_image_mount(const char *directory, const struct storage_limit *limit, uid_t uid,
                        gid_t gid, int *ret_mount_fd, struct error *err);

/* Project quota on the directory behind `dir_fd`: sets a project id on it (inherited by all it will
   hold) and that project's limits. ERROR_UNSUPPORTED with the reason and the fix where the file
   system has none; ERROR_DENIED where the directory is in another project. A directory that already
   holds files gets them all into the project, no link followed, no mount crossed; links, sockets,
   pipes and devices that are there already stay uncounted. After a failure nothing is left set; but
   a directory that was in the project before stays in it, with the new limits. */
int storage_project_set(int dir_fd, uint32_t project, const struct storage_limit *limit,
                        struct error *err);
/* Takes the limits away, and out of the project what is in it, but for what lies in a directory
   that is not. Goes on past what fails. */
int storage_project_clear(int dir_fd, uint32_t project, struct error *err);
/* Whether the file system behind `dir_fd` could do it; else the reason in `err`. */
int storage_project_check(int dir_fd, struct error *err);

/* Which projects are boxd's: so many from each of these on. No store has a workspace's. */
#define STORAGE_PROJECT_STORES     0x60000000u
#define STORAGE_PROJECT_WORKSPACES 0x70000000u
#define STORAGE_PROJECT_COUNT      0x0fffffffu

static inline bool storage_project_is_store(uint32_t project)
{
    return project >= STORAGE_PROJECT_STORES &&
           project - STORAGE_PROJECT_STORES < STORAGE_PROJECT_COUNT;
}

/* A tree with others inside it, or inside another. */
struct storage_nest {
    uint32_t project;
    uint32_t outer;    /* what was made in this one is the tree's now; 0: nothing */
    const char *apart; /* a name directly in the directory, which is left out; NULL: none */
    bool known; /* if the directory is in the project, so is what is in it: only limits change */
};

/* As storage_project_set(), but what lies below and is in a project of its own stays in that. No
   bytes take the limits away, and leave the files in the project. Where the directory was in it
   before, having set the limits is success: all that was made since is in it, too, and files that
   cannot be looked at (too deep, leased) change nothing. */
int storage_project_nest(int dir_fd, const struct storage_nest *nest,
                         const struct storage_limit *limit, struct error *err);

/* The directory's project; 0: none. */
int storage_project_find(int dir_fd, uint32_t *ret, struct error *err);
/* The directory alone is in no project any more, nor what will be made in it, if it was in this
   one. */
int storage_project_leave(int dir_fd, uint32_t project, struct error *err);
/* Whether the directory is the uppermost of those in that project. */
bool storage_project_is_top(int dir_fd, uint32_t project);
/* A project for a directory, from `first` on: the one of these it is in, or else one that nothing
   is in, by its inode. Never `outer`. */
int storage_project_choose(int dir_fd, uint32_t first, uint32_t outer, uint32_t *ret,
                           struct error *err);

/* Within the module: an empty file system for that limit, as a sparse memfd that stays the
   module's, and its size. */
int storage_template(const struct storage_limit *limit, int *ret_fd, uint64_t *ret_size,
                     struct error *err);
