/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trees of files.

   Depth is not bounded by anything but the disk: a sandbox with a package mounted writable can nest
   directories by the hundred thousand. So nothing here goes deeper than DEPTH_MAX descriptors:
   removing lifts what lies deeper up to the top first, copying and measuring refuse it. */
#include "skills/tree.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/mem.h"
#include "skills/beneath.h"
#include "skills/text.h"

#define DEPTH_MAX   48
#define ENTRIES_MAX 10000
#define CHUNK       (256u << 10)

/* xfs says ENOSPC of a project quota too: then it can be either. */
int skill_error_full(int errnum, struct error *err)
{
    error_set(err, ERROR_LIMIT, "there is no room for it: the skill store is full");
    return error_hint(err, "delete skills that are not needed, or raise the quota%s",
                      errnum == ENOSPC ? ", or make room on the store's disk" : "");
}

int budget_take(struct budget *budget, uint64_t bytes, uint64_t entries, struct error *err)
{
    if (bytes > budget->bytes || entries > budget->entries)
        return skill_error_full(0, err);
    if (budget->bytes != UINT64_MAX)
        budget->bytes -= bytes;
    if (budget->entries != UINT64_MAX)
        budget->entries -= entries;
    return 0;
}

/* --- removing --- */

struct removal {
    int top;
    unsigned lifted;
    int failure;
};

static void note_failure(struct removal *removal, int errnum)
{
    if (removal->failure == 0 && errnum != ENOENT)
        removal->failure = -errnum;
}

static void clear_level(struct removal *removal, int dir, unsigned depth);

static void remove_dir(struct removal *removal, int parent, const char *name, unsigned depth)
{
    if (depth == DEPTH_MAX) {
        char lifted[32];
        snprintf(lifted, sizeof lifted, ".boxd-deep-%u", removal->lifted++);
        if (renameat(parent, name, removal->top, lifted) < 0)
            note_failure(removal, errno);
        return;
    }
    int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
        dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0) {
        clear_level(removal, dir, depth + 1);
        close(dir);
    }
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0)
        note_failure(removal, errno);
}

static void clear_level(struct removal *removal, int dir, unsigned depth)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    struct stat st;
    /* Whoever made it may have taken away our right to empty it. */
    if (fstat(dir, &st) == 0 && (st.st_mode & 0300) != 0300)
        (void)!fchmod(dir, 0700);
    int rc = beneath_list(dir, SIZE_MAX, &names);
    if (rc < 0)
        note_failure(removal, -rc);
    for (size_t i = 0; i < names.count; i++) {
        if (names.items[i].type == DT_DIR)
            remove_dir(removal, dir, names.items[i].name, depth);
        else if (unlinkat(dir, names.items[i].name, 0) < 0)
            note_failure(removal, errno);
    }
}

int tree_clear(int dir)
{
    struct removal removal = {.top = dir};
    unsigned before;
    do {
        before = removal.lifted;
        clear_level(&removal, dir, 0);
    } while (removal.lifted > before);
    return removal.failure;
}

/* --- copying --- */

struct copy {
    int root; /* links must stay beneath it */
    struct budget *budget;
    unsigned entries;
    char *failed; /* the path of what could not be copied */
};

static int copy_bytes(int from, int to, uint64_t size, struct budget *budget, struct error *err)
{
    cleanup_free char *chunk = xmalloc(CHUNK);
    uint64_t copied = 0;
    for (;;) {
        ssize_t n = read(from, chunk, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, errno, "cannot read");
        if (n == 0)
            break;
        copied += (uint64_t)n;
        if (copied > size && budget_take(budget, (uint64_t)n, 0, err) < 0)
            return -1;
        int rc = fd_write_all(to, chunk, (size_t)n);
        if (rc < 0)
            return error_errno(err, -rc, "cannot write");
    }
    return 0;
}

static int copy_file(struct copy *copy, int from, const struct stat *st, int to, const char *name,
                     struct error *err)
{
    if (budget_take(copy->budget, (uint64_t)st->st_size, 1, err) < 0)
        return -1;
    cleanup_close int out =
        openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return error_errno(err, errno, "cannot create it");
    if (copy_bytes(from, out, (uint64_t)st->st_size, copy->budget, err) < 0)
        return -1;
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    if (fchmod(out, st->st_mode & 0111 ? 0755 : 0644) < 0 || futimens(out, times) < 0)
        return error_errno(err, errno, "cannot set its mode");
    return 0;
}

static int copy_level(struct copy *copy, const char *path, int from, int to, unsigned depth,
                      struct error *err);

static int copy_entry(struct copy *copy, const char *path, int to, const char *name, unsigned depth,
                      struct error *err)
{
    struct stat st;
    if (++copy->entries > ENTRIES_MAX)
        return error_set(err, ERROR_LIMIT, "more than %d entries", ENTRIES_MAX);
    cleanup_close int from = beneath_open(copy->root, path, O_RDONLY);
    if (from == -EXDEV)
        return error_set(err, ERROR_INVALID, "the link leads out of the package");
    if (from < 0 || fstat(from, &st) < 0)
        return error_errno(err, from < 0 ? -from : errno, "cannot open it");
    if (S_ISREG(st.st_mode))
        return copy_file(copy, from, &st, to, name, err);
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERROR_INVALID, "neither a file nor a directory");
    if (depth == DEPTH_MAX)
        return error_set(err, ERROR_LIMIT, "more than %d levels deep", DEPTH_MAX);
    if (budget_take(copy->budget, 0, 1, err) < 0)
        return -1;
    if (mkdirat(to, name, 0755) < 0)
        return error_errno(err, errno, "cannot create it");
    cleanup_close int below = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0)
        return error_errno(err, errno, "cannot open its copy");
    return copy_level(copy, path, from, below, depth + 1, err);
}

static int copy_level(struct copy *copy, const char *path, int from, int to, unsigned depth,
                      struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    int rc = beneath_list(from, ENTRIES_MAX, &names);
    if (rc < 0)
        return error_errno(err, -rc, "cannot list it");
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i].name;
        cleanup_free char *below = xasprintf("%s%s%s", path, *path ? "/" : "", name);
        if (copy_entry(copy, below, to, name, depth, err) == 0)
            continue;
        if (!copy->failed)
            copy->failed = steal_ptr(below);
        return -1;
    }
    return 0;
}

int tree_copy(int from, int to, struct budget *budget, struct error *err)
{
    struct copy copy = {.root = from, .budget = budget};
    char shown[TEXT_SHOWN_SIZE];
    int rc = copy_level(&copy, "", from, to, 0, err);
    if (copy.failed)
        error_wrap(err, "'%s'", text_shown(copy.failed, shown));
    free(copy.failed);
    return rc;
}

/* --- measuring --- */

static int measure_level(int dir, const char *apart, unsigned depth, struct skill_room *ret,
                         struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    int rc = beneath_list(dir, SIZE_MAX, &names);
    if (rc < 0)
        return error_errno(err, -rc, "cannot list a directory of the skill store");
    for (size_t i = 0; i < names.count; i++) {
        struct stat st;
        if ((apart && strcmp(names.items[i].name, apart) == 0) ||
            fstatat(dir, names.items[i].name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        ret->entries++;
        if (S_ISREG(st.st_mode))
            ret->bytes += (uint64_t)st.st_size;
        if (!S_ISDIR(st.st_mode))
            continue;
        if (depth == DEPTH_MAX)
            return error_set(err, ERROR_LIMIT, "a skill has more than %d levels", DEPTH_MAX);
        cleanup_close int below =
            openat(dir, names.items[i].name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0 && measure_level(below, NULL, depth + 1, ret, err) < 0)
            return -1;
    }
    return 0;
}

int tree_measure(int dir, const char *apart, struct skill_room *ret, struct error *err)
{
    struct skill_room room = {0, 0};
    if (measure_level(dir, apart, 0, &room, err) < 0)
        return -1;
    *ret = room;
    return 0;
}
