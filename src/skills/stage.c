/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are made before they are seen.

   Publishing one directory is one rename. Several are made one by a journal: the file "commit" in
   the stage names the targets, and from the moment it is on the disk the renames will happen, now
   or at recovery. The journal is written, and the renames are done, under an exclusive lock on the
   root; searches take it shared, so that they see all of them or none. */
#include "skills/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fd.h"
#include "skills/beneath.h"
#include "skills/tree.h"

#define OWN         ".boxd-"
#define STAGE       OWN "stage-"
#define REMOVED     OWN "gone-" /* a package once: a journal in it is none */
#define JOURNAL     "commit"
#define JOURNAL_MAX (1u << 20)
#define TRIES       16

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

bool stage_is_name(const char *name)
{
    return has_prefix(name, OWN);
}

bool stage_is_temporary(const char *name)
{
    return has_prefix(name, STAGE) || has_prefix(name, REMOVED);
}

/* Whether it is still there, and not swept away between making it and locking it. */
static bool is_linked(int dir)
{
    struct stat st;
    return fstat(dir, &st) == 0 && st.st_nlink > 0;
}

int stage_open(int root, struct stage *ret, struct error *err)
{
    for (int i = 0; i < TRIES; i++) {
        struct stage stage = {.root = root};
        snprintf(stage.name, sizeof stage.name, STAGE "%08" PRIx32 "%08" PRIx32, arc4random(),
                 arc4random());
        if (mkdirat(root, stage.name, 0700) < 0) {
            if (errno == EEXIST)
                continue;
            return error_errno(err, errno, "cannot write to the skill store");
        }
        stage.dir = openat(root, stage.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (stage.dir >= 0 && flock(stage.dir, LOCK_EX) == 0 && is_linked(stage.dir)) {
            *ret = stage;
            return 0;
        }
        fd_clear(&stage.dir);
    }
    return error_set(err, ERROR_SYSTEM, "cannot prepare a directory in the skill store");
}

/* Empties and unlinks it while the lock is still held. */
static void discard(int root, const char *name, int dir)
{
    tree_clear(dir);
    unlinkat(root, name, AT_REMOVEDIR);
}

void stage_close(struct stage *stage)
{
    if (stage->dir < 0)
        return;
    int saved = errno;
    discard(stage->root, stage->name, stage->dir);
    fd_clear(&stage->dir);
    errno = saved;
}

/* --- publishing --- */

static int check_free(int root, const struct strings *targets, struct error *err)
{
    struct stat st;
    for (size_t i = 0; i < targets->count; i++) {
        if (fstatat(root, targets->items[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            return error_set(err, ERROR_EXISTS, "there is a '%.200s' in the skill store already",
                             targets->items[i]);
        if (errno != ENOENT)
            return error_errno(err, errno, "cannot use '%.200s' as a directory", targets->items[i]);
    }
    return 0;
}

/* Names may hold anything but NUL and '/'. */
static int write_journal(struct stage *stage, const struct strings *targets, struct error *err)
{
    cleanup_buf struct buf text = BUF_INIT(JOURNAL_MAX);
    for (size_t i = 0; i < targets->count; i++)
        buf_append(&text, targets->items[i], strlen(targets->items[i]) + 1);
    cleanup_close int fd =
        openat(stage->dir, JOURNAL ".new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -errno : fd_write_all(fd, text.data, text.size);
    if (rc < 0)
        return error_errno(err, -rc, "cannot write the journal of the skill store");
    if (fsync(fd) < 0 || renameat(stage->dir, JOURNAL ".new", stage->dir, JOURNAL) < 0 ||
        fsync(stage->dir) < 0)
        return error_errno(err, errno, "cannot write the journal of the skill store");
    return 0;
}

static int move_out(int root, int dir, size_t index, const char *target)
{
    char name[24];
    snprintf(name, sizeof name, "%zu", index);
    return renameat2(dir, name, root, target, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

/* All or, if one cannot be moved, none. */
static int move_all(struct stage *stage, const struct strings *targets, struct error *err)
{
    for (size_t i = 0; i < targets->count; i++) {
        int rc = move_out(stage->root, stage->dir, i, targets->items[i]);
        if (rc == 0)
            continue;
        while (i-- > 0) {
            char name[24];
            snprintf(name, sizeof name, "%zu", i);
            renameat2(stage->root, targets->items[i], stage->dir, name, RENAME_NOREPLACE);
        }
        return error_errno(err, -rc, "cannot move a skill into the store");
    }
    return 0;
}

int stage_publish(struct stage *stage, const struct strings *targets, struct error *err)
{
    if (flock(stage->root, LOCK_EX) < 0)
        return error_errno(err, errno, "cannot lock the skill store");
    int rc = check_free(stage->root, targets, err);
    if (rc == 0 && targets->count > 1)
        rc = write_journal(stage, targets, err);
    if (rc == 0)
        rc = move_all(stage, targets, err);
    flock(stage->root, LOCK_UN);
    if (rc == 0)
        fsync(stage->root);
    /* Before anything else of the stage goes: whoever finds a journal believes it. */
    unlinkat(stage->dir, JOURNAL, 0);
    return rc;
}

/* --- recovery --- */

/* Whether a package needs not be moved again: it is there, or was before. */
static bool is_moved(int rc)
{
    return rc == 0 || rc == -ENOENT || rc == -EEXIST;
}

/* False: not all of it could be done. Then the journal stays, and who looks next tries again: what
   was committed is nobody's to throw away. */
static bool finish(int root, int dir)
{
    cleanup_free char *text = NULL;
    size_t size;
    size_t index = 0;
    bool done = true;
    if (beneath_read(dir, JOURNAL, JOURNAL_MAX, NULL, &text, &size) < 0)
        return false;
    for (const char *at = text; at < text + size; at += strlen(at) + 1) {
        if (*at && !strchr(at, '/'))
            done = is_moved(move_out(root, dir, index, at)) && done;
        index++;
    }
    fsync(root);
    return done && unlinkat(dir, JOURNAL, 0) == 0;
}

bool stage_recover(int root, const char *name, bool may_commit)
{
    struct stat st;
    bool removed = has_prefix(name, REMOVED);
    if (!stage_is_temporary(name))
        return false;
    cleanup_close int dir = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* A directory that was to be removed, when somebody put a file in its place. */
    if (dir < 0 && (errno == ENOTDIR || errno == ELOOP))
        unlinkat(root, name, 0);
    if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
        return false;
    if (!removed && fstatat(dir, JOURNAL, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!may_commit)
            return true;
        if (!finish(root, dir))
            return false;
    }
    discard(root, name, dir);
    return false;
}

int stage_remove(int root, int parent, const char *name, struct error *err)
{
    char aside[40];
    snprintf(aside, sizeof aside, REMOVED "%08" PRIx32 "%08" PRIx32, arc4random(), arc4random());
    if (renameat2(parent, name, root, aside, RENAME_NOREPLACE) < 0)
        return error_errno(err, errno, "cannot delete '%.200s'", name);
    fsync(parent);
    /* If a search is quicker to remove it, all the better. */
    stage_recover(root, aside, false);
    return 0;
}

/* --- files --- */

static int fill(int fd, const char *data, size_t size, unsigned mode)
{
    int rc = fd_write_all(fd, data, size);
    if (rc < 0)
        return rc;
    return fchmod(fd, mode) < 0 || fsync(fd) < 0 ? -errno : 0;
}

int stage_write(struct stage *stage, int dir, const char *name, const char *data, size_t size,
                unsigned mode, struct error *err)
{
    cleanup_close int fd =
        openat(stage->dir, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -errno : fill(fd, data, size, mode);
    if (rc < 0)
        return error_errno(err, -rc, "cannot write '%.200s'", name);
    if (renameat(stage->dir, "file", dir, name) < 0)
        return error_errno(err, errno, "cannot write '%.200s'", name);
    fsync(dir);
    return 0;
}
