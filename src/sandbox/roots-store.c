/* SPDX-License-Identifier: Apache-2.0 */
/* A hard limit on a skill store: a directory of the front's below an allowed root or one of boxd's
   own, or one of those in its "tenants". Whoever asks may be in bad hands, so it can have nothing
   but a limit on directories that are its own already.

     <root>                  project A, but for …
     <root>/tenants          in none: what is made there is the business of its own limit
     <root>/tenants/<name>   project B, C, …

   "tenants" and what is in it may have been made when the root had its project already, and are
   born in that: the next limit on any of these takes "tenants" and the directories in it out, and
   a tenant's own what is in its directory.

   Allowed roots are the administrator's, and hold more than skills: none of them is limited, nor a
   directory that holds one, and where the front is root, and so owns what anybody's root owns,
   nothing outside of boxd's own roots. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "core/path.h"
#include "sandbox/roots.h"
#include "sandbox/syscalls.h"

static int check_name(const char *name, struct error *err)
{
    size_t size = strlen(name);
    if (size == 0 || size > ROOTS_TENANT_MAX || strchr(name, '/') || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return error_set(err, ERROR_INVALID, "that is no name of a tenant's store");
    return 0;
}

/* -1 with errno. */
static int open_below(int dir, const char *name, uint64_t more)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | more};
    return sys_openat2(dir, name, &how);
}

static int refuse(const char *name, int errnum, struct error *err)
{
    if (errnum == ELOOP || errnum == ENOTDIR)
        return error_set(err, ERROR_DENIED, "'%.200s' of a skill store is no directory", name);
    error_errno(err, errnum, "cannot open '%.200s' of a skill store", name);
    if (err && errnum == ENOENT)
        err->code = ERROR_NOT_FOUND;
    return -1;
}

static int check_owner(int dir, uid_t owner, struct error *err)
{
    struct stat st;
    if (fstat(dir, &st) < 0)
        return error_errno(err, errno, "cannot look at a skill store");
    if (st.st_uid == owner)
        return 0;
    error_set(err, ERROR_DENIED, "the skill store belongs to user %u, and not to boxd's %u",
              (unsigned)st.st_uid, (unsigned)owner);
    return error_hint(err, "chown it, or make it anew by boxd");
}

static int check_place(const struct mount_policy *policy, const struct roots_store *store,
                       struct error *err)
{
    bool own = false;
    cleanup_free char *path = *store->tenant
                                  ? xasprintf("%s/" ROOTS_TENANTS "/%s", store->root, store->tenant)
                                  : xstrdup(store->root);
    for (size_t i = 0; i < policy->own_roots.count; i++) {
        if (strcmp(path, policy->own_roots.items[i]) == 0)
            return 0;
        own = own || path_is_below(path, policy->own_roots.items[i]);
    }
    if (store->owner == 0 && !own) {
        error_set(err, ERROR_DENIED, "'%.200s' is root's, and not in boxd's own skill store", path);
        return error_hint(err, "give boxd an account of its own (user), or set local.skills_root");
    }
    for (size_t i = 0; i < policy->allowed_roots.count; i++) {
        if (path_is_below(policy->allowed_roots.items[i], path))
            return error_set(err, ERROR_DENIED, "'%.200s' holds the allowed root '%.200s'", path,
                             policy->allowed_roots.items[i]);
    }
    return 0;
}

/* The store's project around its tenants', if it has one and is in the same file system. */
static int find_outer(int root, int dir, uint32_t *ret, struct error *err)
{
    struct stat above;
    struct stat st;
    uint32_t project;
    *ret = 0;
    if (fstat(root, &above) < 0 || fstat(dir, &st) < 0)
        return error_errno(err, errno, "cannot look at a skill store");
    if (above.st_dev != st.st_dev)
        return 0;
    if (storage_project_find(root, &project, err) < 0)
        return -1;
    *ret = storage_project_is_store(project) ? project : 0;
    return 0;
}

static int bound(int dir, const struct roots_store *store, uint32_t outer, struct error *err)
{
    struct storage_nest nest = {
        .outer = outer, .apart = *store->tenant ? NULL : ROOTS_TENANTS, .known = store->known};
    if (storage_project_choose(dir, STORAGE_PROJECT_STORES, outer, &nest.project, err) < 0)
        return -1;
    return storage_project_nest(dir, &nest, &store->limit, err);
}

static int part_children(int tenants, uint32_t outer, struct error *err)
{
    int rc = 0;
    const struct dirent *entry;
    int fd = openat(tenants, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        error_errno(err, errno, "cannot list the '" ROOTS_TENANTS "' of a skill store");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        cleanup_close int child = open_below(tenants, entry->d_name, RESOLVE_NO_XDEV);
        if (child >= 0)
            rc = storage_project_leave(child, outer, err);
    }
    closedir(dir);
    return rc;
}

/* Since "tenants" is out, nothing there is born in the store's project: `all` is for a boxd that
   was killed on its way. */
static int part_tenants(int root, int tenants, bool all, struct error *err)
{
    uint32_t outer;
    uint32_t project;
    if (find_outer(root, tenants, &outer, err) < 0)
        return -1;
    if (outer == 0)
        return 0;
    if (storage_project_find(tenants, &project, err) < 0)
        return -1;
    if (project != outer && !all)
        return 0;
    return storage_project_leave(tenants, outer, err) < 0 ? -1 : part_children(tenants, outer, err);
}

static int bound_root(int root, const struct roots_store *store, struct error *err)
{
    if (check_owner(root, store->owner, err) < 0 || storage_project_check(root, err) < 0 ||
        bound(root, store, 0, err) < 0)
        return -1;
    cleanup_close int tenants = open_below(root, ROOTS_TENANTS, RESOLVE_NO_XDEV);
    return tenants < 0 ? 0 : part_tenants(root, tenants, !store->known, err);
}

static int bound_tenant(int root, const struct roots_store *store, struct error *err)
{
    uint32_t outer;
    cleanup_close int tenants = open_below(root, ROOTS_TENANTS, 0);
    if (tenants < 0)
        return refuse(ROOTS_TENANTS, errno, err);
    cleanup_close int dir = open_below(tenants, store->tenant, 0);
    if (dir < 0)
        return refuse(store->tenant, errno, err);
    if (check_owner(dir, store->owner, err) < 0 || storage_project_check(dir, err) < 0 ||
        part_tenants(root, tenants, false, err) < 0 || find_outer(root, dir, &outer, err) < 0)
        return -1;
    return bound(dir, store, outer, err);
}

int roots_bound_store(const struct mount_policy *policy, const struct roots_store *store,
                      struct error *err)
{
    if (*store->tenant && check_name(store->tenant, err) < 0)
        return -1;
    cleanup_close int dir = roots_open(policy, store->root, false, err);
    if (dir < 0 || check_place(policy, store, err) < 0)
        return -1;
    return *store->tenant ? bound_tenant(dir, store, err) : bound_root(dir, store, err);
}
