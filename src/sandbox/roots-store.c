/* SPDX-License-Identifier: Apache-2.0 */
/* A hard limit on a skill store: a directory of the front's below an allowed root or one of boxd's
   own, or one of those in its "tenants". Whoever asks may be in bad hands, so it can have nothing
   but a limit on directories that are its own already.

     <root>                  project A, but for …
     <root>/tenants          in none: what is made there is the business of its own limit
     <root>/tenants/<name>   project B, C, …

   "tenants" and what is in it may have been made when the root had its project already, and are
   born in that: the first limit of a tenant's takes both out. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fd.h"
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
static int open_below(int dir, const char *name)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
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

static int bound_tenant(int root, const struct roots_store *store, struct error *err)
{
    uint32_t outer;
    cleanup_close int tenants = open_below(root, ROOTS_TENANTS);
    if (tenants < 0)
        return refuse(ROOTS_TENANTS, errno, err);
    cleanup_close int dir = open_below(tenants, store->tenant);
    if (dir < 0)
        return refuse(store->tenant, errno, err);
    if (check_owner(dir, store->owner, err) < 0 || storage_project_check(dir, err) < 0 ||
        find_outer(root, dir, &outer, err) < 0 || storage_project_leave(tenants, outer, err) < 0)
        return -1;
    return bound(dir, store, outer, err);
}

int roots_bound_store(const struct mount_policy *policy, const struct roots_store *store,
                      struct error *err)
{
    if (*store->tenant && check_name(store->tenant, err) < 0)
        return -1;
    cleanup_close int dir = roots_open(policy, store->root, false, err);
    if (dir < 0)
        return -1;
    if (*store->tenant)
        return bound_tenant(dir, store, err);
    if (check_owner(dir, store->owner, err) < 0 || storage_project_check(dir, err) < 0)
        return -1;
    return bound(dir, store, 0, err);
}
