/* SPDX-License-Identifier: Apache-2.0 */
/* Host paths that clients name. In a tenant's scope they are a way to say which of its own
   directories is meant, never a way to reach another. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/fd.h"
#include "core/path.h"
#include "skills/beneath.h"
#include "skills/store.h"
#include "skills/text.h"

void host_path_release(struct host_path *path)
{
    fd_clear(&path->dir);
    free(path->path);
    free(path->below);
    *path = (struct host_path)HOST_PATH_INIT;
}

/* Neither a stage nor, from outside, a tenant's. */
static int check_below(const struct skill_scope *scope, const char *below, struct error *err)
{
    cleanup_free char *first = xstrndup(below, strcspn(below, "/"));
    if (*below && scope_check_target(scope, first, err) < 0)
        return -1;
    return 0;
}

static int no_directory(struct error *err, int errnum, const char *path)
{
    char shown[TEXT_SHOWN_SIZE];
    text_shown(path, shown);
    if (errnum == ENOTDIR || errnum == ENOENT)
        return error_set(err, ERROR_NOT_FOUND, "there is no directory '%s'", shown);
    return error_errno(err, errnum, "cannot open the directory '%s'", shown);
}

/* Fills in what it finds, also on failure. */
static int find_path(struct skill_scope *scope, int root, const char *path, struct host_path *found,
                     struct error *err)
{
    char shown[TEXT_SHOWN_SIZE];
    if (*path != '/')
        return error_set(err, ERROR_INVALID, "the path '%s' is not absolute",
                         text_shown(path, shown));
    found->path = realpath(path, NULL);
    int errnum = errno;
    bool inside = found->path && path_is_below(found->path, scope->path);
    /* A tenant does not learn what exists elsewhere. */
    if (scope->tenant && !inside)
        return error_set(err, ERROR_INVALID, "the path is not in the workspace's own skill store");
    if (!found->path)
        return no_directory(err, errnum, path);
    if (!inside) {
        found->dir = open(found->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return found->dir < 0 ? no_directory(err, errno, path) : 0;
    }
    const char *below = found->path + strlen(scope->path);
    found->below = xstrdup(below + strspn(below, "/"));
    if (check_below(scope, found->below, err) < 0)
        return -1;
    int dir = beneath_open_plain(root, *found->below ? found->below : ".", O_RDONLY | O_DIRECTORY);
    if (dir < 0)
        return no_directory(err, -dir, path);
    found->dir = dir;
    return 0;
}

int scope_host_path(struct skill_scope *scope, int root, const char *path, struct host_path *ret,
                    struct error *err)
{
    struct host_path found = HOST_PATH_INIT;
    cleanup_free char *clean = text_stripped(path);
    if (find_path(scope, root, clean, &found, err) < 0) {
        host_path_release(&found);
        return -1;
    }
    *ret = found;
    return 0;
}

static int choose_error(const struct found_list *found, const char *path, struct error *err)
{
    char names[TEXT_LIST_SIZE] = "";
    for (size_t i = 0; i < found->count; i++)
        text_list_add(names, found->items[i].path);
    return error_set(err, ERROR_INVALID, "there are %zu skills in %.100s: choose one of %s",
                     found->count, path, names);
}

int skill_scan(struct skill_scope *scope, const char *path, const struct skill **ret,
               struct error *err)
{
    cleanup_host_path struct host_path host = HOST_PATH_INIT;
    cleanup_found struct found_list found = {.items = NULL};
    struct package *package;
    cleanup_close int root = scope_open(scope, err);
    if (root < 0 || scope_host_path(scope, root, path, &host, err) < 0)
        return -1;
    unsigned flags = 0;
    if (host.below && !*host.below)
        flags = DISCOVER_STORE | (scope->tenant ? 0 : DISCOVER_NO_TENANTS);
    if (packages_discover(host.dir, SCAN_DEPTH, flags, &found, err) < 0)
        return -1;
    if (found.count == 0)
        return error_set(err, ERROR_NOT_FOUND, "there is no SKILL.md in %.200s, nor %d levels down",
                         host.path, SCAN_DEPTH);
    if (found.count > 1)
        return choose_error(&found, host.path, err);
    if (package_load(host.dir, host.path, found.items[0].path, found.items[0].entry_file, &package,
                     err) < 0)
        return -1;
    *ret = &package->skill;
    return 0;
}
