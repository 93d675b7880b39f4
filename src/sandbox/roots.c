/* SPDX-License-Identifier: Apache-2.0 */
/* Directories below the allowed roots.

   A path is taken apart once, and each component is opened below the descriptor of the one before:
   whatever is moved or swapped meanwhile, nothing is looked up twice and no link is followed. What
   is missing is made as the owner of the directory it is made in, by the file system ids of this
   thread, and not made by root and given away afterwards: between the two, somebody who owns the
   parent could put another directory of root's in its place. It also means that nothing is made
   where that owner could not have made it.

   New directories are 0700. They are one tenant's, and the sandbox enters them by the id map as
   their owner; nobody else on the machine has business there, and who has can be let in by the
   owner. */
#include "sandbox/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "core/path.h"
#include "sandbox/syscalls.h"

struct walk {
    const char *path; /* the whole, for messages */
    bool make;
    bool file; /* it may be one, in the end */
    unsigned made;
};

/* One that holds another counts less: the inner one may be the mount point of a disk, and what
   belongs on the disk must not be made beside it when that is not mounted. */
static const char *innermost_root(const struct mount_policy *policy, const char *path)
{
    const struct strings *const lists[] = {&policy->allowed_roots, &policy->own_roots};
    const char *found = NULL;
    for (size_t list = 0; list < ARRAY_SIZE(lists); list++) {
        for (size_t i = 0; i < lists[list]->count; i++) {
            const char *root = lists[list]->items[i];
            if (path_is_below(path, root) && (!found || strlen(root) > strlen(found)))
                found = root;
        }
    }
    return found;
}

static int open_root(const struct mount_policy *policy, const char *path, const char **ret_root,
                     struct error *err)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    const char *root = innermost_root(policy, path);
    if (!root)
        return mount_policy_outside(path, err);
    cleanup_close int fd = sys_openat2(AT_FDCWD, root, &how);
    if (fd < 0) {
        error_errno(err, errno, "cannot open the allowed root '%.200s'", root);
        if (err && errno == ENOENT)
            err->code = ERROR_NOT_FOUND;
        return error_hint(err, "make the directory, or mount what belongs there");
    }
    if (mount_policy_check_fd(policy, root, fd, err) < 0)
        return -1;
    *ret_root = root;
    return steal_fd(&fd);
}

/* To the file system this thread is that user from now on; false if that cannot be. */
static bool act_as(uid_t uid, gid_t gid)
{
    setfsgid(gid);
    setfsuid(uid);
    /* The calls tell of no failure; an id that cannot be tells the one that is. */
    return (gid_t)setfsgid((gid_t)-1) == gid && (uid_t)setfsuid((uid_t)-1) == uid;
}

static int make_in(int dir, const char *name)
{
    struct stat st;
    int errnum = 0;
    if (fstat(dir, &st) < 0)
        return -errno;
    /* An ordinary user can be nobody else. */
    bool root = geteuid() == 0;
    if (root && !act_as(st.st_uid, st.st_gid))
        errnum = EPERM;
    if (errnum == 0 && mkdirat(dir, name, S_IRWXU) < 0 && errno != EEXIST)
        errnum = errno;
    if (root && !act_as(geteuid(), getegid()))
        _exit(1); /* never go on as somebody else */
    return -errnum;
}

static int make_component(struct walk *walk, int dir, const char *name, struct error *err)
{
    if (walk->made == ROOTS_MADE_MAX)
        return error_set(err, ERROR_INVALID,
                         "'%.200s': more than %d directories would have to be made", walk->path,
                         ROOTS_MADE_MAX);
    walk->made++;
    int rc = make_in(dir, name);
    if (rc == 0)
        return 0;
    error_errno(err, -rc, "cannot make '%.100s' of '%.200s'", name, walk->path);
    return error_hint(err, "it is made as the owner of the directory above it, who must be able to "
                           "write there");
}

static int refuse_component(const struct walk *walk, const char *name, int errnum,
                            struct error *err)
{
    if (errnum == ELOOP) {
        error_set(err, ERROR_DENIED, "'%.100s' of '%.200s' is a link, and links are not followed",
                  name, walk->path);
        return error_hint(err, "name the directory that it points to");
    }
    if (errnum == ENOTDIR)
        return error_set(err, ERROR_INVALID, "'%.100s' of '%.200s' is not a directory", name,
                         walk->path);
    error_errno(err, errnum, "cannot open '%.100s' of '%.200s'", name, walk->path);
    if (err && errnum == ENOENT)
        err->code = ERROR_NOT_FOUND;
    if (err && errnum == EACCES)
        err->code = ERROR_DENIED;
    return -1;
}

static int open_component(struct walk *walk, int dir, const char *name, bool last,
                          struct error *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (walk->file && last ? 0 : O_DIRECTORY),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    int fd = sys_openat2(dir, name, &how);
    if (fd < 0 && errno == ENOENT && walk->make) {
        if (make_component(walk, dir, name, err) < 0)
            return -1;
        fd = sys_openat2(dir, name, &how);
    }
    return fd < 0 ? refuse_component(walk, name, errno, err) : fd;
}

static int open_walk(const struct mount_policy *policy, struct walk *walk, struct error *err)
{
    const char *path = walk->path;
    const char *root = "";
    char name[NAME_MAX + 1];
    cleanup_close int fd = open_root(policy, path, &root, err);
    if (fd < 0)
        return -1;
    for (const char *at = path + strlen(root); *at;) {
        at += strspn(at, "/");
        size_t length = strcspn(at, "/");
        if (length == 0)
            break;
        if (length > NAME_MAX)
            return error_set(err, ERROR_INVALID, "'%.200s' has a component of more than %d bytes",
                             path, NAME_MAX);
        memcpy(name, at, length);
        name[length] = '\0';
        at += length;
        int next = open_component(walk, fd, name, !at[strspn(at, "/")], err);
        if (next < 0)
            return -1;
        close(fd);
        fd = next;
    }
    return steal_fd(&fd);
}

int roots_open(const struct mount_policy *policy, const char *path, bool make, struct error *err)
{
    struct walk walk = {.path = path, .make = make};
    return open_walk(policy, &walk, err);
}

int roots_open_source(const struct mount_policy *policy, const char *path, struct error *err)
{
    struct walk walk = {.path = path, .file = true};
    return open_walk(policy, &walk, err);
}
