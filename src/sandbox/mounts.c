/* SPDX-License-Identifier: Apache-2.0 */
/* The new root, built step by step and entered. */
#include "sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "sandbox/mounts-internal.h"
#include "sandbox/syscalls.h"

/* Any directory that every system has; it is covered for the moment until the root is entered. */
#define STAGE "/usr"

#define CLONED (OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)

/* Takes over the descriptor. */
static int do_fresh(struct builder *builder, const struct step *step, int fd, struct error *err)
{
    cleanup_close int mount = fd;
    if (mount < 0)
        return -1;
    return builder_attach(builder, step, mount, S_IFDIR, err);
}

static int do_bind(struct builder *builder, const struct step *step, int tree, struct error *err)
{
    struct stat st;
    if (fstat(tree, &st) < 0)
        return error_errno(err, errno, "cannot look at the source of '%s'", step->target);
    return builder_attach(builder, step, tree, st.st_mode & S_IFMT, err);
}

static int do_file(struct builder *builder, const struct step *step, struct error *err)
{
    const char *name;
    int parent = builder_parent(builder, step->target, &name, err);
    if (parent < 0)
        return -1;
    cleanup_close int fd =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, step->mode);
    int rc = fd < 0 ? -errno : fd_write_all(fd, step->text, strlen(step->text));
    if (rc == 0 && step->owned && fchown(fd, BOX_UID, BOX_GID) < 0)
        rc = -errno;
    return rc < 0 ? error_errno(err, -rc, "cannot write '%s' inside", step->target) : 0;
}

static int do_dir(struct builder *builder, const struct step *step, struct error *err)
{
    const char *name;
    int parent = builder_parent(builder, step->target, &name, err);
    if (parent < 0)
        return -1;
    if ((mkdirat(parent, name, step->mode) < 0 && errno != EEXIST) ||
        (step->owned && fchownat(parent, name, BOX_UID, BOX_GID, AT_SYMLINK_NOFOLLOW) < 0))
        return error_errno(err, errno, "cannot make '%s' inside", step->target);
    return 0;
}

static int do_link(struct builder *builder, const struct step *step, struct error *err)
{
    const char *name;
    int parent = builder_parent(builder, step->target, &name, err);
    if (parent < 0)
        return -1;
    if (symlinkat(step->text, parent, name) < 0)
        return error_errno(err, errno, "cannot make the link '%s' inside", step->target);
    return 0;
}

/* The null device of the sandbox, not to be opened: reading says EACCES. */
static int do_mask_file(struct builder *builder, const struct step *step, struct error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV};
    cleanup_close int tree = open_tree(builder->root, "dev/null", CLONED);
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return error_errno(err, errno, "cannot cover '%s'", step->target);
    return builder_attach(builder, step, tree, S_IFREG, err);
}

/* A copy of one directory of the scratch tmpfs, mounted where the step says. */
static int mount_scratch(struct builder *builder, const struct step *step, const char *name,
                         unsigned attributes, struct error *err)
{
    struct mount_attr attr = {.attr_set = attributes};
    cleanup_close int tree = open_tree(builder->scratch, name, CLONED);
    if (tree < 0 || (attributes && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0))
        return error_errno(err, errno, "cannot copy a mount for '%s'", step->target);
    return builder_attach(builder, step, tree, S_IFDIR, err);
}

#define SCRATCH_EMPTY "empty" /* what a masked directory shows */

/* Made at its first use, and attached there: the directory that is mounted over it hides it. */
static int make_scratch(struct builder *builder, const struct step *step, struct error *err)
{
    struct step whole = *step;
    whole.mode = 0755;
    whole.owned = false;
    builder->scratch = mounts_make_tmpfs(&whole, err);
    if (builder->scratch < 0 || builder_attach(builder, step, builder->scratch, S_IFDIR, err) < 0)
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

/* In place if it is a mount of its own, else through a copy mounted over itself. */
static int do_protect(struct builder *builder, const struct step *step, struct error *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    struct statx stx;
    cleanup_close int target = builder_open(builder, step->target);
    if (target < 0 || statx(target, "", AT_EMPTY_PATH, STATX_TYPE, &stx) < 0)
        return error_errno(err, errno, "cannot protect '%s'", step->target);
    if (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) {
        if (mount_setattr(target, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
            return error_errno(err, errno, "cannot protect '%s'", step->target);
        return 0;
    }
    cleanup_close int tree = open_tree(target, "", CLONED | AT_EMPTY_PATH | AT_RECURSIVE);
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
        return error_errno(err, errno, "cannot protect '%s'", step->target);
    return builder_attach(builder, step, tree, S_IFDIR, err);
}

/* The user's own in the upper layer, whoever owns them below: so that things can be installed. The
   rest stays with its owner, the host's root: mapping that to the user would open files that only
   root may read. */
static int open_local(int upper)
{
    static const char *const dirs[] = {"upper/local",         "upper/local/bin", "upper/local/etc",
                                       "upper/local/include", "upper/local/lib", "upper/local/sbin",
                                       "upper/local/share"};
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        if (mkdirat(upper, dirs[i], 0755) < 0 ||
            fchownat(upper, dirs[i], BOX_UID, BOX_GID, AT_SYMLINK_NOFOLLOW) < 0)
            return -1;
    }
    return 0;
}

/* The lower side is attached first, the overlay over it; the memory that holds the upper side is
   reachable through the overlay alone. */
static int do_overlay(struct builder *builder, const struct step *step, int tree, struct error *err)
{
    const struct step memory = {.kind = step->kind,
                                .target = step->target,
                                .bytes = step->bytes,
                                .inodes = step->inodes,
                                .mode = 0755,
                                .writable = true,
                                .owned = true};
    char data[256];
    char where[64];
    if (do_bind(builder, step, tree, err) < 0)
        return -1;
    cleanup_close int lower = builder_open(builder, step->target);
    cleanup_close int upper = mounts_make_tmpfs(&memory, err);
    /* An overlay's layers must be attached somewhere when it is made. */
    if (upper < 0 || builder_attach(builder, &memory, upper, S_IFDIR, err) < 0)
        return -1;
    if (lower < 0 || mkdirat(upper, "upper", 0755) < 0 || mkdirat(upper, "work", 0700) < 0 ||
        fchownat(upper, "upper", BOX_UID, BOX_GID, 0) < 0 ||
        (strcmp(step->target, "/usr") == 0 && open_local(upper) < 0))
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

static int do_proc(struct builder *builder, const struct step *step, struct error *err)
{
    int proc = mounts_make_proc(err);
    if (proc >= 0 && builder->on_proc && builder->on_proc(proc, builder->plan, err) < 0) {
        close(proc);
        return -1;
    }
    return do_fresh(builder, step, proc, err);
}

static int do_step(struct builder *builder, const struct step *step, int fd, struct error *err)
{
    switch (step->kind) {
    case STEP_DIR:
        return do_dir(builder, step, err);
    case STEP_LINK:
        return do_link(builder, step, err);
    case STEP_FILE:
        return do_file(builder, step, err);
    case STEP_TMPFS:
        return do_fresh(builder, step, mounts_make_tmpfs(step, err), err);
    case STEP_SCRATCH:
        return do_scratch(builder, step, err);
    case STEP_PROC:
        return do_proc(builder, step, err);
    case STEP_DEVPTS:
        return do_fresh(builder, step, mounts_make_devpts(err), err);
    case STEP_BIND:
    case STEP_DEVICE:
    case STEP_IMAGE:
        return do_bind(builder, step, fd, err);
    case STEP_OVERLAY:
        return do_overlay(builder, step, fd, err);
    case STEP_MASK_FILE:
        return do_mask_file(builder, step, err);
    case STEP_MASK_DIR:
        return mount_scratch(builder, step, SCRATCH_EMPTY, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC,
                             err);
    case STEP_PROTECT:
        return do_protect(builder, step, err);
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

static int do_steps(int root, bool prepared, const struct plan *plan, size_t first, size_t end,
                    const int *fds, mounts_on_proc on_proc, struct error *err)
{
    struct builder builder;
    int rc = 0;
    builder_init(&builder, root, prepared);
    builder.plan = plan;
    builder.on_proc = on_proc;
    for (size_t i = first; i < end && rc == 0; i++)
        rc = do_step(&builder, &plan->steps[i], fds[i], err);
    builder_release(&builder);
    return rc;
}

static int enter_root(int root, struct error *err)
{
    /* The old root ends up on top of the new one and is taken off again: no directory to put it in.
     */
    if (fchdir(root) < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0) {
        int saved = errno;
        error_errno(err, saved, "cannot enter the new root");
        /* Docker's filter, in a container that was given nothing but SYS_ADMIN. */
        return saved == EPERM ? error_hint(err, "in a container: docker run --privileged …") : -1;
    }
    return 0;
}

static int build_root(const struct plan *plan, size_t end, const int *fds, mounts_on_proc on_proc,
                      struct error *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_errno(err, errno, "cannot make the mounts private");
    /* The first step is the root itself. */
    cleanup_close int root = mounts_make_tmpfs(&plan->steps[0], err);
    if (root < 0 || attach_root(root, err) < 0 ||
        do_steps(root, false, plan, 1, end, fds, on_proc, err) < 0)
        return -1;
    return enter_root(root, err);
}

int mounts_execute(const struct plan *plan, const int *fds, bool on_base, mounts_on_proc on_proc,
                   struct error *err)
{
    if (!on_base)
        return build_root(plan, plan->step_count, fds, on_proc, err);
    cleanup_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, errno, "cannot open the root");
    return do_steps(root, true, plan, plan->base_count, plan->step_count, fds, on_proc, err);
}

/* The child's part: it builds the base in a namespace of its own, and returns that. */
static int build_base(const struct plan *plan, const struct mount_policy *policy, struct error *err)
{
    struct plan base = *plan;
    /* A user namespace may mount its own proc only where one can be seen already; the session's
     * covers it. */
    struct step finish[] = {{.kind = STEP_PROC, .target = (char *)"/proc"},
                            {.kind = STEP_PROTECT, .target = (char *)"/"}};
    const struct plan finishing = {.steps = finish, .step_count = ARRAY_SIZE(finish)};
    const int none[ARRAY_SIZE(finish)] = {-1, -1};
    cleanup_free int *fds = xcalloc(plan->step_count, sizeof *fds);
    base.step_count = plan->base_count;
    if (unshare(CLONE_NEWNS) < 0)
        return error_errno(err, errno, "cannot make a mount namespace");
    umask(0);
    if (mounts_open(&base, 0, policy, 0, NULL, fds, err) < 0 ||
        build_root(&base, base.step_count, fds, NULL, err) < 0)
        return -1;
    cleanup_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || do_steps(root, true, &finishing, 0, finishing.step_count, none, NULL, err) < 0)
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
