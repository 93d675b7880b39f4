/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a skill, listed, read and written by paths relative to its package. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/utf8.h"
#include "skills/beneath.h"
#include "skills/store.h"
#include "skills/text.h"

#define LINKS_MAX 40

void skill_files_release(struct skill_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].path);
    free(files->items);
    free(files->base_path);
    *files = (struct skill_files){.items = NULL};
}

void skill_text_release(struct skill_text *text)
{
    free(text->path);
    free(text->data);
    *text = (struct skill_text){.path = NULL};
}

/* The normal form of a path that a client gave; NULL if it cannot lie in a package. */
static char *normal_path(const char *path, struct error *err)
{
    cleanup_free char *clean = text_stripped(path ? path : "");
    if (*clean == '/') {
        error_set(err, ERROR_INVALID, "the path must be relative to the skill's package");
        return NULL;
    }
    cleanup_free char *normal = text_normpath(clean);
    if (strncmp(normal, "..", 2) == 0) {
        error_set(err, ERROR_INVALID, "the path leads out of the skill's package");
        return NULL;
    }
    return steal_ptr(normal);
}

static int path_error(struct error *err, int rc, const char *path)
{
    char shown[TEXT_SHOWN_SIZE];
    text_shown(path, shown);
    switch (-rc) {
    case EXDEV:
        return error_set(err, ERROR_INVALID, "'%s' leads out of the skill's package", shown);
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EINVAL:
        return error_set(err, ERROR_NOT_FOUND, "the skill has no such file as '%s'", shown);
    case EFBIG:
        return error_set(err, ERROR_LIMIT, "'%s' is larger than %u bytes", shown, SKILL_TEXT_MAX);
    default:
        return error_errno(err, -rc, "cannot open '%s'", shown);
    }
}

/* The directory of the skill, open. */
static int open_skill(struct skill_scope *scope, const char *name, struct error *err)
{
    struct package *package;
    cleanup_close int root = scope_open(scope, err);
    if (root < 0 || scope_require(scope, root, name, &package, err) < 0)
        return -1;
    int dir = package_open(root, package, err);
    package_unref(package);
    return dir;
}

/* --- list --- */

static struct skill_file describe(int package, int dir, const char *base,
                                  const struct beneath_name *name)
{
    struct stat st = {0};
    bool top = strcmp(base, ".") == 0;
    struct skill_file file = {.path =
                                  top ? xstrdup(name->name) : xasprintf("%s/%s", base, name->name)};
    /* Of a link that leads nowhere, or out, what is told is that there is a link. */
    if (name->type != DT_LNK || beneath_stat(package, file.path, &st) < 0)
        fstatat(dir, name->name, &st, AT_SYMLINK_NOFOLLOW);
    file.name = file.path + strlen(file.path) - strlen(name->name);
    file.is_dir = S_ISDIR(st.st_mode);
    file.size = file.is_dir ? 0 : (uint64_t)st.st_size;
    return file;
}

int skill_files_list(struct skill_scope *scope, const char *name, const char *path,
                     bool include_hidden, size_t max_entries, struct skill_files *ret,
                     struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    if (max_entries == 0)
        return error_set(err, ERROR_INVALID, "max_entries must be at least 1");
    if (max_entries > SKILL_FILES_MAX)
        max_entries = SKILL_FILES_MAX;
    cleanup_close int package = open_skill(scope, name, err);
    if (package < 0)
        return -1;
    cleanup_free char *base = normal_path(path, err);
    if (!base)
        return -1;
    cleanup_close int dir = beneath_open(package, base, O_RDONLY | O_DIRECTORY);
    int rc = dir < 0 ? dir : beneath_list(dir, SKILL_DIRECTORY_MAX, &names);
    if (rc == -E2BIG)
        return error_set(err, ERROR_LIMIT, "the directory has more than %d entries",
                         SKILL_DIRECTORY_MAX);
    if (rc < 0)
        return path_error(err, rc, base);
    struct skill_files files = {.base_path = steal_ptr(base)};
    files.items = xcalloc(names.count ? names.count : 1, sizeof *files.items);
    for (size_t i = 0; i < names.count && !files.truncated; i++) {
        if (!include_hidden && names.items[i].name[0] == '.')
            continue;
        files.truncated = files.count == max_entries;
        if (!files.truncated)
            files.items[files.count++] = describe(package, dir, files.base_path, &names.items[i]);
    }
    *ret = files;
    return 0;
}

/* --- read --- */

int skill_file_open(struct skill_scope *scope, const char *name, const char *path, int *ret_fd,
                    uint64_t *ret_size, struct error *err)
{
    struct stat st;
    cleanup_close int package = open_skill(scope, name, err);
    if (package < 0)
        return -1;
    cleanup_free char *normal = normal_path(path, err);
    if (!normal)
        return -1;
    cleanup_close int fd = beneath_open(package, normal, O_RDONLY);
    if (fd < 0)
        return path_error(err, fd, normal);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return path_error(err, -ENOENT, normal);
    *ret_size = (uint64_t)st.st_size;
    *ret_fd = steal_fd(&fd);
    return 0;
}

int skill_file_read(struct skill_scope *scope, const char *name, const char *path,
                    struct skill_text *ret, struct error *err)
{
    cleanup_free char *data = NULL;
    size_t size;
    cleanup_close int package = open_skill(scope, name, err);
    if (package < 0)
        return -1;
    cleanup_free char *normal = normal_path(path, err);
    if (!normal)
        return -1;
    int rc = beneath_read(package, normal, SKILL_TEXT_MAX, NULL, &data, &size);
    if (rc < 0)
        return path_error(err, rc, normal);
    if (!utf8_valid(data, size)) {
        char shown[TEXT_SHOWN_SIZE];
        return error_set(err, ERROR_INVALID, "'%s' is not UTF-8 text", text_shown(normal, shown));
    }
    *ret = (struct skill_text){.path = steal_ptr(normal), .data = steal_ptr(data), .size = size};
    return 0;
}

/* --- write --- */

/* Where a path leads if it ends in links, each of which the kernel sees to stay beneath: what is
   replaced is the file, not the link. `path` is replaced. Returns 0 or -errno. */
static int follow_links(int package, char **path)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        char target[PATH_MAX];
        char *slash = strrchr(*path, '/');
        cleanup_free char *above = slash ? xstrndup(*path, (size_t)(slash - *path)) : xstrdup(".");
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

/* The directory that the path's last name is in, made if need be, and that name. */
static int open_parent(struct write_op *op, int package, const char *path, const char **ret_name,
                       struct error *err)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *above = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
    unsigned made = 0;
    int dir = beneath_make_dirs(package, above, &made);
    if (dir < 0)
        return path_error(err, dir, path);
    *ret_name = slash ? slash + 1 : path;
    if (budget_take(&op->budget, 0, made, err) < 0) {
        close(dir);
        return -1;
    }
    return dir;
}

static int write_at(struct write_op *op, int package, const char *path, const char *data,
                    size_t size, struct error *err)
{
    struct stat st;
    const char *last = path;
    unsigned mode = 0644;
    cleanup_close int dir = open_parent(op, package, path, &last, err);
    if (dir < 0)
        return -1;
    if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        return path_error(err, -EISDIR, path);
    uint64_t old = 0;
    bool there = fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISREG(st.st_mode))
        return path_error(err, -EISDIR, path);
    if (there) {
        old = (uint64_t)st.st_size;
        mode = st.st_mode & 0777;
    }
    if ((size > old || !there) &&
        budget_take(&op->budget, size > old ? size - old : 0, there ? 0 : 1, err) < 0)
        return -1;
    return stage_write(&op->stage, dir, last, data, size, mode, err);
}

int skill_file_write(struct skill_scope *scope, const char *name, const char *path,
                     const char *data, size_t size, char **ret_path, struct error *err)
{
    cleanup_write struct write_op op = WRITE_OP_INIT;
    if (write_begin(scope, &op, err) < 0)
        return -1;
    const struct package *package = index_find(op.index, name);
    if (!package)
        return error_set(err, ERROR_NOT_FOUND, "there is no skill '%.100s'", name);
    cleanup_free char *normal = normal_path(path, err);
    if (!normal)
        return -1;
    if (size > SKILL_TEXT_MAX)
        return path_error(err, -EFBIG, normal);
    cleanup_close int dir = package_open(op.root, package, err);
    if (dir < 0)
        return -1;
    cleanup_free char *target = xstrdup(normal);
    int rc = follow_links(dir, &target);
    if (rc < 0)
        return path_error(err, rc, normal);
    if (write_stage(&op, err) < 0 || write_at(&op, dir, target, data, size, err) < 0)
        return -1;
    *ret_path = steal_ptr(normal);
    return 0;
}

/* --- remove --- */

int skill_file_remove(struct skill_scope *scope, const char *name, const char *path,
                      struct error *err)
{
    cleanup_write struct write_op op = WRITE_OP_INIT;
    if (write_begin(scope, &op, err) < 0)
        return -1;
    const struct package *package = index_find(op.index, name);
    if (!package)
        return error_set(err, ERROR_NOT_FOUND, "there is no skill '%.100s'", name);
    cleanup_free char *normal = normal_path(path, err);
    if (!normal)
        return -1;
    if (strcmp(normal, ".") == 0 || strcmp(normal, package->skill.entry_file) == 0)
        return error_set(err, ERROR_INVALID, "without it there would be no skill: delete that");
    cleanup_close int dir = package_open(op.root, package, err);
    if (dir < 0)
        return -1;
    const char *slash = strrchr(normal, '/');
    cleanup_free char *above = slash ? xstrndup(normal, (size_t)(slash - normal)) : xstrdup(".");
    cleanup_close int parent = beneath_open(dir, above, O_RDONLY | O_DIRECTORY);
    if (parent < 0)
        return path_error(err, parent, normal);
    const char *last = slash ? slash + 1 : normal;
    if (unlinkat(parent, last, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return path_error(err, -errno, normal);
    if (stage_open(op.root, &op.stage, err) < 0)
        return -1;
    if (renameat(parent, last, op.stage.dir, "gone") < 0)
        return path_error(err, -errno, normal);
    return 0;
}
