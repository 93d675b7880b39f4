/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a skill, written and removed.

   Whoever saw a file can ask that it be still the same: that is looked at when the scope's lock is
   held, so that no other writer comes in between. A session that has the package mounted writable
   takes no lock, and is not held off by it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/sha256.h"
#include "skills/beneath.h"
#include "skills/files.h"
#include "skills/store.h"
#include "skills/text.h"

#define LINKS_MAX 40

/* Locks the scope, finds the skill in it, and makes the normal form of the path. */
static const struct package *begin(struct skill_scope *scope, const char *name, const char *path,
                                   struct write_op *op, char **ret_path, struct error *err)
{
    if (write_begin(scope, op, err) < 0)
        return NULL;
    const struct package *package = index_require(op->index, name, err);
    if (package)
        *ret_path = file_normal_path(path, err);
    return *ret_path ? package : NULL;
}

/* --- conditions --- */

/* Of what has no digest (a directory, a large file) `digest` is "". */
static bool versions_have(const struct skill_versions *versions, const char *digest)
{
    for (size_t i = 0; i < versions->digests.count; i++)
        if (digest[0] && strcmp(versions->digests.items[i], digest) == 0)
            return true;
    return versions->any;
}

static int check_condition(int package, const char *path, const struct skill_condition *want,
                           struct error *err)
{
    char shown[TEXT_SHOWN_SIZE];
    char digest[SHA256_HEX_SIZE] = "";
    cleanup_free char *data = NULL;
    size_t size;
    if (!want || (!want->match.given && !want->none_match.given))
        return 0;
    int rc = beneath_read(package, path, SKILL_TEXT_MAX, NULL, &data, &size);
    bool there = rc != -ENOENT && rc != -ENOTDIR;
    if (rc == 0)
        sha256_hex(data, size, digest);
    else if (there && rc != -EFBIG && rc != -EISDIR && rc != -EINVAL)
        return file_path_error(err, rc, path);
    text_shown(path, shown);
    if (want->match.given && !there)
        error_set(err, ERROR_CHANGED, "'%s' is not there any more", shown);
    else if (want->match.given && !versions_have(&want->match, digest))
        error_set(err, ERROR_CHANGED, "'%s' has been changed meanwhile", shown);
    else if (want->none_match.given && there && versions_have(&want->none_match, digest))
        error_set(err, ERROR_CHANGED, "'%s' is there already", shown);
    else
        return 0;
    return error_hint(err, "read it again, and change what it is now");
}

/* --- write --- */

/* The path up to its last name. The caller frees. */
static char *path_above(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
}

/* Where a path leads if it ends in links, each of which the kernel sees to stay beneath: what is
   replaced is the file, not the link. `path` is replaced. Returns 0 or -errno. */
static int follow_links(int package, char **path)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        char target[PATH_MAX];
        char *slash = strrchr(*path, '/');
        cleanup_free char *above = path_above(*path);
        cleanup_close int dir = beneath_open(package, above, O_PATH | O_DIRECTORY);
        if (dir < 0)
            return dir == -ENOENT ? 0 : dir;
        ssize_t n = readlinkat(dir, slash ? slash + 1 : *path, target, sizeof target - 1);
        if (n < 0)
            return errno == EINVAL || errno == ENOENT ? 0 : -errno;
        target[n] = '\0';
        if (*target == '/')
            return -EXDEV;
        char *next = slash ? xasprintf("%s/%s", above, target) : xstrdup(target);
        free(*path);
        *path = next;
    }
    return -ELOOP;
}

/* Takes away directories that were made for nothing: the last `made` names of `above`. One that
   somebody else has put something in stays. */
static void unmake_dirs(int package, char *above, unsigned made)
{
    for (; made > 0; made--) {
        char *slash = strrchr(above, '/');
        cleanup_free char *outer = path_above(above);
        cleanup_close int dir = beneath_open(package, outer, O_PATH | O_DIRECTORY);
        if (dir < 0 || unlinkat(dir, slash ? slash + 1 : above, AT_REMOVEDIR) < 0 || !slash)
            return;
        *slash = '\0';
    }
}

/* Replaces or makes `last` in a directory that is open. */
static int write_in(struct write_op *op, int dir, const char *last, const char *path,
                    const char *data, size_t size, struct error *err)
{
    struct stat st;
    unsigned mode = 0644;
    uint64_t old = 0;
    if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        return file_path_error(err, -EISDIR, path);
    bool there = fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISREG(st.st_mode))
        return file_path_error(err, -EISDIR, path);
    if (there) {
        old = (uint64_t)st.st_size;
        mode = st.st_mode & 0777;
    }
    if ((size > old || !there) &&
        budget_take(&op->budget, size > old ? size - old : 0, there ? 0 : 1, err) < 0)
        return -1;
    return stage_write(&op->stage, dir, last, data, size, mode, err);
}

/* Directories on the way are made, and are gone again if nothing comes of it. */
static int write_at(struct write_op *op, int package, const char *path, const char *data,
                    size_t size, struct error *err)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *above = path_above(path);
    unsigned made = 0;
    cleanup_close int dir = beneath_make_dirs(package, above, &made);
    int rc = dir < 0 ? file_path_error(err, dir, path) : 0;
    if (rc == 0)
        rc = budget_take(&op->budget, 0, made, err);
    if (rc == 0)
        rc = write_in(op, dir, slash ? slash + 1 : path, path, data, size, err);
    if (rc < 0)
        unmake_dirs(package, above, made);
    return rc;
}

int skill_file_write(struct skill_scope *scope, const char *name, const char *path,
                     const char *data, size_t size, const struct skill_condition *want,
                     char **ret_path, struct error *err)
{
    cleanup_write struct write_op op = WRITE_OP_INIT;
    cleanup_free char *normal = NULL;
    const struct package *package = begin(scope, name, path, &op, &normal, err);
    if (!package)
        return -1;
    if (size > SKILL_TEXT_MAX)
        return file_path_error(err, -EFBIG, normal);
    cleanup_close int dir = package_open(op.root, package, err);
    if (dir < 0)
        return -1;
    cleanup_free char *target = xstrdup(normal);
    int rc = follow_links(dir, &target);
    if (rc < 0)
        return file_path_error(err, rc, normal);
    if (check_condition(dir, target, want, err) < 0)
        return -1;
    if (write_stage(&op, err) < 0 || write_at(&op, dir, target, data, size, err) < 0)
        return -1;
    *ret_path = steal_ptr(normal);
    return 0;
}

/* --- remove --- */

static int remove_at(struct write_op *op, int parent, const char *last, const char *path,
                     struct error *err)
{
    if (unlinkat(parent, last, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return file_path_error(err, -errno, path);
    return stage_remove(op->root, parent, last, err);
}

int skill_file_remove(struct skill_scope *scope, const char *name, const char *path,
                      const struct skill_condition *want, struct error *err)
{
    struct stat st;
    cleanup_write struct write_op op = WRITE_OP_INIT;
    cleanup_free char *normal = NULL;
    const struct package *package = begin(scope, name, path, &op, &normal, err);
    if (!package)
        return -1;
    if (strcmp(normal, ".") == 0 || strcmp(normal, package->skill.entry_file) == 0)
        return error_set(err, ERROR_INVALID, "without it there would be no skill: delete that");
    cleanup_close int dir = package_open(op.root, package, err);
    if (dir < 0)
        return -1;
    const char *slash = strrchr(normal, '/');
    cleanup_free char *above = path_above(normal);
    cleanup_close int parent = beneath_open(dir, above, O_RDONLY | O_DIRECTORY);
    if (parent < 0)
        return file_path_error(err, parent, normal);
    const char *last = slash ? slash + 1 : normal;
    /* That there is nothing to remove is said before that it is not what it was. */
    if (fstatat(parent, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return file_path_error(err, -errno, normal);
    if (check_condition(dir, normal, want, err) < 0)
        return -1;
    return remove_at(&op, parent, last, normal, err);
}
