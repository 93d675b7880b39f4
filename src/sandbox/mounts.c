/* SPDX-License-Identifier: Apache-2.0 */
/* The new root, built step by step and entered.

   Targets are looked up below the new root by descriptor, with no link of any kind followed: a caller's
   directory may hold links, and a mount must never land where one points. */
#include "sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "sandbox/syscalls.h"

/* Any directory that every system has; it is covered for the moment until the root is entered. */
#define STAGE "/usr"

/* What the steps work on. */
struct builder {
    int root;
    int scratch; /* the shared tmpfs, once there is one */
};

static int open_inside(int root, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_MAGICLINKS};
    return sys_openat2(root, path[1] ? path + 1 : ".", &how);
}

/* The directory that holds `path`, made if it is missing; *ret_name is the last part. */
static int open_parent(int root, const char *path, const char **ret_name, struct error *err)
{
    char part[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = (size_t)(slash - path);
    *ret_name = slash + 1;
    if (length >= sizeof part)
        return error_set(err, ERROR_INVALID, "path too long");
    memcpy(part, path, length);
    part[length] = '\0';
    int fd = open_inside(root, length ? part : "/", O_PATH | O_DIRECTORY);
    if (fd >= 0)
        return fd;
    if (errno != ENOENT)
        return error_errno(err, errno, "cannot open '%s' inside", part);
    const char *name;
    cleanup_close int parent = open_parent(root, part, &name, err);
    if (parent < 0)
        return -1;
    if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make '%s' inside", part);
    fd = open_inside(root, part, O_PATH | O_DIRECTORY);
    return fd < 0 ? error_errno(err, errno, "cannot open '%s' inside", part) : fd;
}

/* The mount point for something of that kind, made if it is missing. */
static int open_target(int root, const char *path, mode_t kind, struct error *err)
{
    int fd = open_inside(root, path, O_PATH);
    if (fd >= 0)
        return fd;
    if (errno != ENOENT) {
        error_errno(err, errno, "cannot use '%s' inside", path);
        return errno == ELOOP ? error_hint(err, "a symbolic link stands there") : -1;
    }
    const char *name;
    cleanup_close int parent = open_parent(root, path, &name, err);
    if (parent < 0)
        return -1;
    int rc = S_ISDIR(kind) ? mkdirat(parent, name, 0755) : mknodat(parent, name, S_IFREG | 0644, 0);
    if (rc < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make the mount point '%s' inside", path);
    fd = open_inside(root, path, O_PATH);
    return fd < 0 ? error_errno(err, errno, "cannot use '%s' inside", path) : fd;
}

static int attach(int mount, int target)
{
    return move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static int set_number(int context, const char *key, uint64_t value)
{
    char text[32];
    /* The mode is read as octal. */
    if (strcmp(key, "mode") == 0)
        snprintf(text, sizeof text, "%llo", (unsigned long long)value);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return fsconfig(context, FSCONFIG_SET_STRING, key, text, 0);
}

static int make_tmpfs(const struct step *step, struct error *err)
{
    cleanup_close int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context < 0 || set_number(context, "size", step->bytes) < 0 ||
        set_number(context, "nr_inodes", step->inodes) < 0 ||
        set_number(context, "mode", step->mode) < 0 ||
        (step->owned && (set_number(context, "uid", BOX_UID) < 0 ||
                         set_number(context, "gid", BOX_GID) < 0)) ||
        fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_errno(err, errno, "cannot make a tmpfs");
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (!step->writable)
        attributes |= MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC;
    int mount = fsmount(context, FSMOUNT_CLOEXEC, attributes);
    return mount < 0 ? error_errno(err, errno, "cannot make a tmpfs") : mount;
}

static int make_special(const char *type, const char *const *options, struct error *err)
{
    cleanup_close int context = fsopen(type, FSOPEN_CLOEXEC);
    if (context < 0)
        return error_errno(err, errno, "cannot make a file system of type %s", type);
    for (; options[0]; options += 2) {
        if (fsconfig(context, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0)
            return error_errno(err, errno, "%s does not take %s", type, options[0]);
    }
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_errno(err, errno, "cannot make a file system of type %s", type);
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    if (strcmp(type, "devpts") != 0) /* whose files are all devices */
        attributes |= MOUNT_ATTR_NODEV;
    int mount = fsmount(context, FSMOUNT_CLOEXEC, attributes);
    return mount < 0 ? error_errno(err, errno, "cannot mount %s", type) : mount;
}

static int make_proc(struct error *err)
{
    static const char *const options[] = {NULL};
    int mount = make_special("proc", options, err);
    if (mount >= 0)
        return mount;
    if (err->errnum == EPERM)
        error_hint(err, "this often means boxd runs inside a container whose /proc is partly "
                        "covered: give that container an unmasked /proc (docker: --security-opt "
                        "systempaths=unconfined)");
    return -1;
}

static int make_devpts(struct error *err)
{
    static const char *const options[] = {"ptmxmode", "0666", "mode", "0620", NULL};
    return make_special("devpts", options, err);
}

/* Makes one step's mount, and a place for it. */
static int mount_step(int root, const struct step *step, int mount, mode_t kind, struct error *err)
{
    cleanup_close int target = open_target(root, step->target, kind, err);
    if (target < 0)
        return -1;
    if (attach(mount, target) < 0)
        return error_errno(err, errno, "cannot mount %s on '%s'", step_kind_name(step->kind),
                           step->target);
    return 0;
}

static int do_fresh(int root, const struct step *step, int fd, struct error *err)
{
    cleanup_close int mount = fd;
    if (mount < 0)
        return -1;
    return mount_step(root, step, mount, S_IFDIR, err);
}

static int do_bind(int root, const struct step *step, int tree, struct error *err)
{
    struct stat st;
    if (fstat(tree, &st) < 0)
        return error_errno(err, errno, "cannot look at the source of '%s'", step->target);
    return mount_step(root, step, tree, st.st_mode & S_IFMT, err);
}

static int do_file(int root, const struct step *step, struct error *err)
{
    const char *name;
    cleanup_close int parent = open_parent(root, step->target, &name, err);
    if (parent < 0)
        return -1;
    cleanup_close int fd =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, step->mode);
    int rc = fd < 0 ? -errno : fd_write_all(fd, step->text, strlen(step->text));
    if (rc == 0 && step->owned && fchown(fd, BOX_UID, BOX_GID) < 0)
        rc = -errno;
    return rc < 0 ? error_errno(err, -rc, "cannot write '%s' inside", step->target) : 0;
}

static int do_dir(int root, const struct step *step, struct error *err)
{
    const char *name;
    cleanup_close int parent = open_parent(root, step->target, &name, err);
    if (parent < 0)
        return -1;
    if ((mkdirat(parent, name, step->mode) < 0 && errno != EEXIST) ||
        (step->owned && fchownat(parent, name, BOX_UID, BOX_GID, AT_SYMLINK_NOFOLLOW) < 0))
        return error_errno(err, errno, "cannot make '%s' inside", step->target);
    return 0;
}

static int do_link(int root, const struct step *step, struct error *err)
{
    const char *name;
    cleanup_close int parent = open_parent(root, step->target, &name, err);
    if (parent < 0)
        return -1;
    if (symlinkat(step->text, parent, name) < 0)
        return error_errno(err, errno, "cannot make the link '%s' inside", step->target);
    return 0;
}

/* The null device of the sandbox, not to be opened: reading says EACCES. */
static int do_mask_file(int root, const struct step *step, struct error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV};
    cleanup_close int null = open_inside(root, "/dev/null", O_PATH);
    cleanup_close int tree =
        null < 0 ? -1 : open_tree(null, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return error_errno(err, errno, "cannot cover '%s'", step->target);
    return mount_step(root, step, tree, S_IFREG, err);
}

/* A copy of one directory of the scratch tmpfs, mounted where the step says. */
static int mount_scratch(const struct builder *builder, const struct step *step, const char *name,
                         unsigned attributes, struct error *err)
{
    struct mount_attr attr = {.attr_set = attributes};
    cleanup_close int tree = open_tree(builder->scratch, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 ||
        (attributes && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0))
        return error_errno(err, errno, "cannot copy a mount for '%s'", step->target);
    return mount_step(builder->root, step, tree, S_IFDIR, err);
}

#define SCRATCH_EMPTY "empty" /* what a masked directory shows */

/* Made at its first use, and attached there: the directory that is mounted over it hides it. */
static int make_scratch(struct builder *builder, const struct step *step, struct error *err)
{
    struct step whole = *step;
    whole.mode = 0755;
    whole.owned = false;
    builder->scratch = make_tmpfs(&whole, err);
    if (builder->scratch < 0)
        return -1;
    if (mount_step(builder->root, step, builder->scratch, S_IFDIR, err) < 0)
        return -1;
    if (mkdirat(builder->scratch, SCRATCH_EMPTY, 0555) < 0)
        return error_errno(err, errno, "cannot prepare the scratch space");
    return 0;
}

static int do_scratch(struct builder *builder, const struct step *step, struct error *err)
{
    const char *name = strrchr(step->target, '/') + 1;
    if (builder->scratch < 0 && make_scratch(builder, step, err) < 0)
        return -1;
    if (mkdirat(builder->scratch, name, step->mode) < 0 ||
        fchownat(builder->scratch, name, BOX_UID, BOX_GID, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, errno, "cannot prepare '%s'", step->target);
    return mount_scratch(builder, step, name, 0, err);
}

static int do_mask_dir(const struct builder *builder, const struct step *step, struct error *err)
{
    return mount_scratch(builder, step, SCRATCH_EMPTY, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, err);
}

/* In place if it is a mount of its own, else through a copy mounted over itself. */
static int do_protect(int root, const struct step *step, struct error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    struct statx stx;
    cleanup_close int target = open_inside(root, step->target, O_PATH);
    if (target < 0 || statx(target, "", AT_EMPTY_PATH, STATX_TYPE, &stx) < 0)
        return error_errno(err, errno, "cannot protect '%s'", step->target);
    if (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) {
        if (mount_setattr(target, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
            return error_errno(err, errno, "cannot protect '%s'", step->target);
        return 0;
    }
    cleanup_close int tree = open_tree(
        target, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
    if (tree < 0 ||
        mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0 ||
        attach(tree, target) < 0)
        return error_errno(err, errno, "cannot protect '%s'", step->target);
    return 0;
}

/* The lower side is attached first, the overlay over it; the memory that holds the upper side is reachable
   through the overlay alone. */
static int do_overlay(int root, const struct step *step, int tree, struct error *err)
{
    const struct step memory = {
        .bytes = step->bytes, .inodes = step->inodes, .mode = 0755, .writable = true, .owned = true};
    char data[256];
    char where[64];
    if (do_bind(root, step, tree, err) < 0)
        return -1;
    cleanup_close int lower = open_inside(root, step->target, O_PATH);
    cleanup_close int upper = make_tmpfs(&memory, err);
    if (upper < 0)
        return -1;
    /* An overlay's layers must be attached somewhere when it is made. */
    if (lower < 0 || attach(upper, lower) < 0 || mkdirat(upper, "upper", 0755) < 0 ||
        mkdirat(upper, "work", 0700) < 0 || fchownat(upper, "upper", BOX_UID, BOX_GID, 0) < 0)
        return error_errno(err, errno, "cannot prepare the writable layer of '%s'", step->target);
    snprintf(data, sizeof data,
             "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper,"
             "workdir=/proc/self/fd/%d/work,userxattr",
             lower, upper, upper);
    snprintf(where, sizeof where, "/proc/self/fd/%d", upper);
    if (mount("overlay", where, "overlay", MS_NOSUID | MS_NODEV, data) < 0)
        return error_errno(err, errno, "cannot mount the writable layer of '%s'", step->target);
    return 0;
}

static int do_step(struct builder *builder, const struct step *step, int fd, struct error *err)
{
    int root = builder->root;
    switch (step->kind) {
    case STEP_DIR:
        return do_dir(root, step, err);
    case STEP_LINK:
        return do_link(root, step, err);
    case STEP_FILE:
        return do_file(root, step, err);
    case STEP_TMPFS:
        return do_fresh(root, step, make_tmpfs(step, err), err);
    case STEP_SCRATCH:
        return do_scratch(builder, step, err);
    case STEP_PROC:
        return do_fresh(root, step, make_proc(err), err);
    case STEP_DEVPTS:
        return do_fresh(root, step, make_devpts(err), err);
    case STEP_BIND:
    case STEP_DEVICE:
    case STEP_IMAGE:
        return do_bind(root, step, fd, err);
    case STEP_OVERLAY:
        return do_overlay(root, step, fd, err);
    case STEP_MASK_FILE:
        return do_mask_file(root, step, err);
    case STEP_MASK_DIR:
        return do_mask_dir(builder, step, err);
    case STEP_PROTECT:
        return do_protect(root, step, err);
    case STEP_KIND_MAX:
        break;
    }
    return error_set(err, ERROR_PROTOCOL, "unknown step");
}

static int attach_root(int root, struct error *err)
{
    if (move_mount(root, "", AT_FDCWD, STAGE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_errno(err, errno, "cannot attach the new root");
    return 0;
}

static int do_steps(int root, const struct plan *plan, size_t first, size_t end, const int *fds,
                    struct error *err)
{
    struct builder builder = {.root = root, .scratch = -1};
    int rc = 0;
    for (size_t i = first; i < end && rc == 0; i++)
        rc = do_step(&builder, &plan->steps[i], fds[i], err);
    fd_clear(&builder.scratch);
    return rc;
}

static int enter_root(int root, struct error *err)
{
    /* The old root ends up on top of the new one and is taken off again: no directory to put it in. */
    if (fchdir(root) < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return error_errno(err, errno, "cannot enter the new root");
    return 0;
}

static int build_root(const struct plan *plan, size_t end, const int *fds, struct error *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_errno(err, errno, "cannot make the mounts private");
    /* The first step is the root itself. */
    cleanup_close int root = make_tmpfs(&plan->steps[0], err);
    if (root < 0 || attach_root(root, err) < 0 || do_steps(root, plan, 1, end, fds, err) < 0)
        return -1;
    return enter_root(root, err);
}

int mounts_execute(const struct plan *plan, const int *fds, bool on_base, struct error *err)
{
    if (!on_base)
        return build_root(plan, plan->step_count, fds, err);
    cleanup_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, errno, "cannot open the root");
    return do_steps(root, plan, plan->base_count, plan->step_count, fds, err);
}

/* The child's part: it builds the base in a namespace of its own, and returns that. */
static int build_base(const struct plan *plan, const struct mount_policy *policy, struct error *err)
{
    struct plan base = *plan;
    const struct step seal = {.kind = STEP_PROTECT, .target = (char *)"/"};
    /* A user namespace may mount its own proc only where one can be seen already; the session's covers it. */
    const struct step proc = {.kind = STEP_PROC, .target = (char *)"/proc"};
    cleanup_free int *fds = xcalloc(plan->step_count, sizeof *fds);
    base.step_count = plan->base_count;
    if (unshare(CLONE_NEWNS) < 0)
        return error_errno(err, errno, "cannot make a mount namespace");
    umask(0);
    if (mounts_open(&base, 0, policy, 0, NULL, fds, err) < 0 ||
        build_root(&base, base.step_count, fds, err) < 0)
        return -1;
    cleanup_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct builder builder = {.root = root, .scratch = -1};
    if (root < 0 || do_step(&builder, &proc, -1, err) < 0 || do_step(&builder, &seal, -1, err) < 0)
        return -1;
    int namespace = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    return namespace < 0 ? error_errno(err, errno, "cannot open a mount namespace") : namespace;
}

int mounts_make_base(const struct plan *plan, const struct mount_policy *policy, int *ret_namespace,
                     struct error *err)
{
    int pair[2];
    struct error failure = ERROR_INIT;
    size_t count = 1;
    int namespace = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, errno, "cannot make a socket");
    pid_t pid = fork();
    if (pid == 0) {
        int built = build_base(plan, policy, &failure);
        fd_send(pair[1], &failure, sizeof failure, &built, built >= 0);
        _exit(0);
    }
    close(pair[1]);
    cleanup_close int sock = pair[0];
    if (pid < 0)
        return error_errno(err, errno, "cannot fork");
    ssize_t n = fd_receive(sock, &failure, sizeof failure, &namespace, &count, 0);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (n != sizeof failure || count > 1)
        return error_set(err, ERROR_SYSTEM, "the base of the root file system was not built");
    if (failure.code) {
        if (err)
            *err = failure;
        return -1;
    }
    *ret_namespace = namespace;
    return 0;
}
