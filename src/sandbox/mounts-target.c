/* SPDX-License-Identifier: Apache-2.0 */
/* Places in a root under construction: found, made, mounted on. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "core/path.h"
#include "sandbox/mounts-internal.h"
#include "sandbox/syscalls.h"

void builder_init(struct builder *builder, int root, bool prepared)
{
    builder->root = root;
    builder->prepared = prepared;
    builder->scratch = -1;
    builder->parent = -1;
    builder->parent_path[0] = '\0';
}

void builder_release(struct builder *builder)
{
    fd_clear(&builder->scratch);
    fd_clear(&builder->parent);
}

static int open_inside(int root, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_PATH | O_CLOEXEC,
                           .resolve =
                               RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return sys_openat2(root, path[1] ? path + 1 : ".", &how);
}

int builder_open(const struct builder *builder, const char *path)
{
    return open_inside(builder->root, path, 0);
}

static int make_entry(int parent, const char *name, mode_t kind)
{
    int rc = S_ISDIR(kind) ? mkdirat(parent, name, 0755) : mknodat(parent, name, S_IFREG | 0644, 0);
    return rc < 0 && errno != EEXIST ? -1 : 0;
}

/* In a directory of the host whose ids are mapped, root here is nobody there, and can make nothing
   (EOVERFLOW): its owner makes it. */
static int make_mount_point(int parent, const char *name, mode_t kind)
{
    struct stat st;
    int rc = make_entry(parent, name, kind);
    if (rc == 0 || errno != EOVERFLOW || fstat(parent, &st) < 0)
        return rc;
    int gid = setfsgid(st.st_gid);
    int uid = setfsuid(st.st_uid);
    rc = make_entry(parent, name, kind);
    int failure = errno;
    setfsuid((uid_t)uid);
    setfsgid((gid_t)gid);
    errno = failure;
    return rc;
}

/* A directory below the root, with those above it. */
static int open_or_make(int root, const char *path, struct error *err)
{
    char above[PATH_MAX];
    int fd = open_inside(root, path, O_DIRECTORY);
    if (fd >= 0)
        return fd;
    if (errno != ENOENT) {
        error_errno(err, errno, "cannot open '%s' inside", path);
        return errno == ELOOP ? error_hint(err, "a symbolic link stands there") : -1;
    }
    size_t length = (size_t)(strrchr(path, '/') - path);
    memcpy(above, path, length);
    above[length] = '\0';
    cleanup_close int parent = open_or_make(root, length ? above : "/", err);
    if (parent < 0)
        return -1;
    if (make_mount_point(parent, path + length + 1, S_IFDIR) < 0) {
        error_errno(err, errno, "cannot make '%s' inside", path);
        return error_hint(err, "make it in the directory that is mounted above it, first");
    }
    fd = open_inside(root, path, O_DIRECTORY);
    return fd < 0 ? error_errno(err, errno, "cannot open '%s' inside", path) : fd;
}

int builder_parent(struct builder *builder, const char *path, const char **ret_name,
                   struct error *err)
{
    const char *slash = strrchr(path, '/');
    size_t length = (size_t)(slash - path);
    if (length >= sizeof builder->parent_path)
        return error_set(err, ERROR_INVALID, "path too long");
    *ret_name = slash + 1;
    if (length == 0)
        return builder->root;
    if (builder->parent >= 0 && strlen(builder->parent_path) == length &&
        memcmp(builder->parent_path, path, length) == 0)
        return builder->parent;
    fd_clear(&builder->parent);
    memcpy(builder->parent_path, path, length);
    builder->parent_path[length] = '\0';
    return builder->parent = open_or_make(builder->root, builder->parent_path, err);
}

static int explain_mount_point(const struct step *step, struct error *err)
{
    error_errno(err, errno, "cannot make the mount point '%s' inside", step->target);
    return error_hint(err, "make that %s in the directory that is mounted above it, first",
                      step->checked ? "directory (or file)" : "directory");
}

int builder_attach(struct builder *builder, const struct step *step, int mount, mode_t kind,
                   struct error *err)
{
    const char *name;
    int parent = builder_parent(builder, step->target, &name, err);
    if (parent < 0)
        return -1;
    if (!builder->prepared && make_mount_point(parent, name, kind) < 0)
        return explain_mount_point(step, err);
    /* The last part is not followed either, if it is a link: the flag that would is not given. */
    int rc = move_mount(mount, "", parent, name, MOVE_MOUNT_F_EMPTY_PATH);
    if (rc < 0 && errno == ENOENT && builder->prepared) {
        if (make_mount_point(parent, name, kind) < 0)
            return explain_mount_point(step, err);
        rc = move_mount(mount, "", parent, name, MOVE_MOUNT_F_EMPTY_PATH);
    }
    if (rc < 0)
        return error_errno(err, errno, "cannot mount %s on '%s' inside", step_kind_name(step->kind),
                           step->target);
    /* What was there before is now covered. */
    if (builder->parent >= 0 && path_is_below(builder->parent_path, step->target))
        fd_clear(&builder->parent);
    return 0;
}
