/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a skill, listed and read by paths relative to its package. */
#include "skills/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/utf8.h"
#include "skills/beneath.h"
#include "skills/store.h"
#include "skills/text.h"

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

char *file_normal_path(const char *path, struct error *err)
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

int file_path_error(struct error *err, int rc, const char *path)
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
    cleanup_free char *base = file_normal_path(path, err);
    if (!base)
        return -1;
    cleanup_close int dir = beneath_open(package, base, O_RDONLY | O_DIRECTORY);
    int rc = dir < 0 ? dir : beneath_list(dir, SKILL_DIRECTORY_MAX, &names);
    if (rc == -E2BIG)
        return error_set(err, ERROR_LIMIT, "the directory has more than %d entries",
                         SKILL_DIRECTORY_MAX);
    if (rc < 0)
        return file_path_error(err, rc, base);
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
    cleanup_free char *normal = file_normal_path(path, err);
    if (!normal)
        return -1;
    cleanup_close int fd = beneath_open(package, normal, O_RDONLY);
    if (fd < 0)
        return file_path_error(err, fd, normal);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return file_path_error(err, -ENOENT, normal);
    *ret_size = (uint64_t)st.st_size;
    *ret_fd = steal_fd(&fd);
    return 0;
}

int skill_file_load(struct skill_scope *scope, const char *name, const char *path,
                    struct skill_text *ret, struct error *err)
{
    char *data;
    size_t size;
    cleanup_close int package = open_skill(scope, name, err);
    if (package < 0)
        return -1;
    cleanup_free char *normal = file_normal_path(path, err);
    if (!normal)
        return -1;
    int rc = beneath_read(package, normal, SKILL_TEXT_MAX, NULL, &data, &size);
    if (rc < 0)
        return file_path_error(err, rc, normal);
    *ret = (struct skill_text){.path = steal_ptr(normal), .data = data, .size = size};
    return 0;
}

int skill_file_read(struct skill_scope *scope, const char *name, const char *path,
                    struct skill_text *ret, struct error *err)
{
    struct skill_text text;
    if (skill_file_load(scope, name, path, &text, err) < 0)
        return -1;
    if (!utf8_valid(text.data, text.size)) {
        char shown[TEXT_SHOWN_SIZE];
        error_set(err, ERROR_INVALID, "'%s' is not UTF-8 text", text_shown(text.path, shown));
        skill_text_release(&text);
        return -1;
    }
    *ret = text;
    return 0;
}
