/* SPDX-License-Identifier: Apache-2.0 */
/* Host paths turned into detached mounts: what was checked is what will be mounted. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "core/fd.h"
#include "sandbox/idmap.h"
#include "sandbox/mounts.h"
#include "sandbox/roots.h"
#include "sandbox/storage.h"
#include "sandbox/syscalls.h"

static int open_plain(const struct step *step, struct error *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    int fd = sys_openat2(AT_FDCWD, step->source, &how);
    if (fd < 0) {
        bool of_path = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES;
        error_errno(err, errno, "cannot open '%s'", step->source);
        if (err && of_path)
            err->code = ERROR_INVALID; /* whoever named it was wrong */
    }
    return fd;
}

/* Where only what lies below roots may be mounted, sandboxes write there too, and a link may be one
   of theirs: it could lead to what is somebody else's below the same root. */
static int open_path(const struct step *step, const struct mount_policy *policy, struct error *err)
{
    if (step->make)
        return roots_open(policy, step->source, true, err);
    if (!step->checked || !policy->only_allowed)
        return open_plain(step, err);
    int fd = roots_open_source(policy, step->source, err);
    if (fd < 0 && err && err->code == ERROR_NOT_FOUND)
        err->code = ERROR_INVALID;
    return fd;
}

static int open_source(const struct step *step, const struct mount_policy *policy, struct stat *ret,
                       struct error *err)
{
    cleanup_close int fd = open_path(step, policy, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, ret) < 0)
        return error_errno(err, errno, "cannot look at '%s'", step->source);
    if (step->kind == STEP_DEVICE)
        return steal_fd(&fd);
    if (!S_ISDIR(ret->st_mode) && !S_ISREG(ret->st_mode))
        return error_set(err, ERROR_DENIED, "'%s' is neither a directory nor a regular file",
                         step->source);
    if (step->checked && mount_policy_check_fd(policy, step->source, fd, err) < 0)
        return -1;
    return steal_fd(&fd);
}

/* The node must be the device it is named after: something else could have been put there. */
static int check_device(const struct step *step, const struct stat *st, struct error *err)
{
    static const struct {
        const char *path;
        unsigned major, minor;
    } known[] = {
        {"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
        {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (strcmp(step->source, known[i].path) == 0 && S_ISCHR(st->st_mode) &&
            st->st_rdev == makedev(known[i].major, known[i].minor))
            return 0;
    }
    return error_set(err, ERROR_DENIED, "'%s' of the host is not the device of that name",
                     step->source);
}

static int map_owner(int tree, const struct step *step, const struct stat *st, uint32_t base,
                     struct error *err)
{
    cleanup_close int namespace = -1;
    if (idmap_namespace(st->st_uid, st->st_gid, base + BOX_UID, base + BOX_GID, &namespace, err) <
        0)
        return -1;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t) namespace};
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) == 0)
        return 0;
    if (!step->writable && errno != EPERM)
        return 0; /* to be read by whoever may read it */
    error_errno(err, errno, "the owner of '%s' cannot be mapped into the sandbox", step->source);
    return error_hint(err,
                      "its file system does not support id-mapped mounts, or is mapped already: "
                      "mount it read-only, or use a directory on ext4, xfs, btrfs or tmpfs");
}

/* Whether it is the directory in which boxd tries storage, directly in a skill store, and was born
   in the project of that: which it may leave. Anything else in there stays the store's. */
static bool is_trial(const char *path, int directory, uint32_t *ret_outer)
{
    const char *slash = strrchr(path, '/');
    cleanup_close int store = openat(directory, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return slash && strcmp(slash + 1, ROOTS_TRIAL_DIRECTORY) == 0 && store >= 0 &&
           storage_project_find(directory, ret_outer, NULL) == 0 &&
           storage_project_is_store(*ret_outer) && storage_project_is_top(store, *ret_outer);
}

/* A project id for the directory, from its inode: the same directory has the same one each time. */
static int limit_project(int fd, const struct step *step, const struct stat *st,
                         const struct plan *plan, struct error *err)
{
    struct storage_limit limit = {.bytes = plan->quota_bytes, .inodes = plan->quota_inodes};
    struct storage_nest nest = {.project = STORAGE_PROJECT_WORKSPACES +
                                           (uint32_t)(st->st_ino % STORAGE_PROJECT_COUNT)};
    cleanup_close int directory = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return error_errno(err, errno, "cannot open the workspace");
    int rc = is_trial(step->source, directory, &nest.outer)
                 ? storage_project_nest(directory, &nest, &limit, err)
                 : storage_project_set(directory, nest.project, &limit, err);
    return rc < 0 ? error_wrap(err, "workspace quota") : 0;
}

static int open_tree_of(const struct step *step, const struct plan *plan,
                        const struct mount_policy *policy, uint32_t base, struct error *err)
{
    struct stat st;
    cleanup_close int fd = open_source(step, policy, &st, err);
    if (fd < 0)
        return -1;
    if (step->kind == STEP_DEVICE && check_device(step, &st, err) < 0)
        return -1;
    if (step->quota && limit_project(fd, step, &st, plan, err) < 0)
        return -1;
    cleanup_close int tree =
        open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
    if (tree < 0)
        return error_errno(err, errno, "cannot copy the mount of '%s'", step->source);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID, .propagation = MS_PRIVATE};
    if (step->kind == STEP_DEVICE)
        attr.attr_set |= MOUNT_ATTR_NOEXEC;
    else
        attr.attr_set |= MOUNT_ATTR_NODEV | (step->writable ? 0 : MOUNT_ATTR_RDONLY);
    /* The lower side of an overlay is written to by nobody. */
    if (step->kind == STEP_OVERLAY)
        attr.attr_set |= MOUNT_ATTR_RDONLY;
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
        return error_errno(err, errno, "cannot restrict the mount of '%s'", step->source);
    if (plan->ids == ID_RANGE && step->owned && map_owner(tree, step, &st, base, err) < 0)
        return -1;
    return steal_fd(&tree);
}

int mounts_open(const struct plan *plan, size_t first, const struct mount_policy *policy,
                uint32_t base, const char *image_directory, int *ret_fds, struct error *err)
{
    for (size_t i = 0; i < plan->step_count; i++)
        ret_fds[i] = -1;
    for (size_t i = first; i < plan->step_count; i++) {
        const struct step *step = &plan->steps[i];
        struct storage_limit limit = {.bytes = step->bytes, .inodes = step->inodes};
        if (step->source)
            ret_fds[i] = open_tree_of(step, plan, policy, base, err);
        else if (step->kind == STEP_IMAGE &&
                 storage_image_mount(image_directory, &limit, base + BOX_UID, base + BOX_GID,
                                     &ret_fds[i], err) < 0)
            return error_wrap(err, "workspace with a quota");
        if (step->source && ret_fds[i] < 0)
            return -1;
    }
    return 0;
}

void mounts_close(const struct plan *plan, int *fds)
{
    for (size_t i = 0; i < plan->step_count; i++)
        fd_clear(&fds[i]);
}
