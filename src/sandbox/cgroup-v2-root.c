/* SPDX-License-Identifier: Apache-2.0 */
/* Where version 2 lets us make groups, and making that place ready.

   There are four ways, tried in this order. Looking changes nothing; cgroup_v2_prepare() does, at
   the first session.

   - unit: this process is in a unit that systemd delegated: a service with Delegate=yes, the scope
     of an earlier `box`. Sessions are groups below the unit's. systemd before 254 cannot start such
     a service again while sessions that outlived it are in there (219/CGROUP), and from 254 on only
     with DelegateSubgroup=supervisor.

   - group: an ordinary user is in a group that is its own: the directory, and the files by which
     members and controllers are changed, which is all that delegation is to the kernel. Sessions
     are below a group `boxd` in the highest such group on the way up. What a systemd manager keeps
     for its own units is as writable to the user, and left alone.

   - top: the top of the mount is writable, to root, or in a container that has cgroups of its own.
     Sessions are below a group `boxd` there.

   - scope: a user with a systemd user manager. That is asked for a scope; then as with a unit.

   A group that passes controllers on must have no members of its own (the machine's real top
   excepted). So where this process is such a member, all are moved to a group `supervisor` below:
   they are ourselves and our own, and all their limits still hold. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "core/fd.h"
#include "core/mem.h"
#include "core/parse.h"

#define CONTROLLERS (CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS | CGROUP_HAS_CPU)
#define TOP_GROUP   "boxd"

/* Sessions and their lanes, and no more: nobody else is to make groups here. */
#define MAX_DEPTH       "2"
#define MAX_DESCENDANTS "65536"

static unsigned read_controllers(int dir, const char *file)
{
    char text[512];
    ssize_t size = fd_read_file(dir, file, text, sizeof text);
    return size < 0 ? 0 : cgroup_parse_controllers(text, (size_t)size) & CONTROLLERS;
}

static int check_writable(int dir)
{
    static const char *const files[] = {".", "cgroup.procs", "cgroup.subtree_control"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (faccessat(dir, files[i], W_OK, AT_EACCESS) < 0)
            return -errno;
    return 0;
}

/* --- looking --- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

static bool is_marked(const char *dir)
{
    static const char *const names[] = {"trusted.delegate", "user.delegate"};
    char value[2];
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (getxattr(dir, names[i], value, sizeof value) == 1 && value[0] == '1')
            return true;
    return false;
}

/* Whether this is a service's main process, or its child. What else runs in a user's service (a
   shell in a terminal's, say) has no business rearranging it. */
static bool is_service_itself(void)
{
    const char *text = getenv("SYSTEMD_EXEC_PID");
    uint64_t pid;
    return text && parse_u64(text, INT_MAX, &pid) == 0 &&
           ((pid_t)pid == getpid() || (pid_t)pid == getppid());
}

/* The system's manager marks delegated units since 251, a user's does not. */
static bool is_delegated(const char *unit)
{
    struct stat info;
    if (is_marked(unit))
        return true;
    return geteuid() != 0 && ends_with(unit, ".service") && is_service_itself() &&
           stat(unit, &info) == 0 && info.st_uid == geteuid();
}

/* The delegated unit this process is in: its group, or the one above if its group is no unit itself
   (`supervisor` after an earlier start, or a DelegateSubgroup=). */
static bool find_unit(const char *own, size_t top_length, char ret[PATH_MAX])
{
    snprintf(ret, PATH_MAX, "%s", own);
    if (strlen(own) == top_length)
        return false;
    char *slash = strrchr(ret, '/');
    if (ends_with(own, ".service") || ends_with(own, ".scope"))
        return cgroup_is_scope(slash + 1) || is_delegated(ret);
    bool ours = strcmp(slash + 1, CGROUP_SUPERVISOR) == 0;
    *slash = '\0';
    if (strlen(ret) <= top_length || !(ends_with(ret, ".service") || ends_with(ret, ".scope")))
        return false;
    return ours || is_marked(ret);
}

static bool is_unit(const char *dir)
{
    return ends_with(dir, ".service") || ends_with(dir, ".scope") || ends_with(dir, ".slice");
}

static bool is_own(const char *dir)
{
    struct stat info;
    cleanup_close int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid() && check_writable(fd) == 0;
}

/* The highest group of this user's own on the way up, short of the top, which is looked at by
   itself. Being able to write says nothing about root, and nothing inside a unit that systemd did
   not give away. */
static bool find_group(const char *own, size_t top_length, char ret[PATH_MAX])
{
    char dir[PATH_MAX];
    size_t length = 0;
    if (geteuid() == 0)
        return false;
    snprintf(dir, sizeof dir, "%s", own);
    while (strlen(dir) > top_length && is_own(dir) && !is_unit(dir)) {
        length = strlen(dir);
        *strrchr(dir, '/') = '\0';
    }
    bool stopped_by_unit = strlen(dir) > top_length && is_unit(dir) && is_own(dir);
    if (length == 0 || (stopped_by_unit && !is_marked(dir)) ||
        (strlen(dir) == top_length && is_own(dir)))
        return false;
    snprintf(ret, PATH_MAX, "%.*s", (int)length, own);
    return true;
}

static void explain_missing(struct cgroup_root *root)
{
    static const char delegate[] = "sudo mkdir -p /etc/systemd/system/user@.service.d && "
                                   "printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | "
                                   "sudo tee /etc/systemd/system/user@.service.d/delegate.conf && "
                                   "sudo systemctl daemon-reload, then log in again";
    static const char boot[] = "boot with the kernel argument cgroup_enable=memory, without "
                               "cgroup_disable=; in a container or a delegated group, have its "
                               "controllers passed on";
    if ((root->controllers & CONTROLLERS) == CONTROLLERS)
        return;
    cgroup_explain(root, root->v2.way == CGROUP_V2_SCOPE ? delegate : boot,
                   "not all controllers are available here (memory %s, pids %s, cpu %s)",
                   root->controllers & CGROUP_HAS_MEMORY ? "yes" : "no",
                   root->controllers & CGROUP_HAS_PIDS ? "yes" : "no",
                   root->controllers & CGROUP_HAS_CPU ? "yes" : "no");
}

static bool found(struct cgroup_root *root, enum cgroup_v2_way way, unsigned controllers)
{
    root->version = CGROUP_V2;
    root->ops = &cgroup_v2_ops;
    root->v2.way = way;
    root->controllers = controllers;
    explain_missing(root);
    return true;
}

static bool has_members(int dir)
{
    char text[32];
    ssize_t size = fd_read_file(dir, "cgroup.procs", text, sizeof text);
    return size > 0 || size == -EFBIG;
}

/* Sessions are to be below a group of ours in `path`, which is open as `top`. The real top may have
   members beside groups. No other may, and it is only ours to clear if we are in it. */
static bool find_top(struct cgroup_root *root, const char *path, int top, bool own_is_top)
{
    char fix[ERROR_TEXT_MAX];
    unsigned available = read_controllers(top, "cgroup.controllers");
    unsigned enabled = read_controllers(top, "cgroup.subtree_control");
    bool real = faccessat(top, "cgroup.events", F_OK, 0) < 0;
    root->v2.top_movable = own_is_top && !real;
    if ((available & ~enabled) && !real && !own_is_top && has_members(top)) {
        snprintf(fix, sizeof fix,
                 "cd %s && mkdir -p init && xargs -rn1 < cgroup.procs > init/cgroup.procs", path);
        cgroup_explain(root, fix,
                       "processes sit in the control group %s, so it cannot pass controllers on",
                       path);
        return false;
    }
    root->v2.top = fcntl(top, F_DUPFD_CLOEXEC, 3);
    root->v2.base = openat(top, TOP_GROUP, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return found(root, CGROUP_V2_TOP, available);
}

static bool find_scope(struct cgroup_root *root, const char *top)
{
    unsigned uid = geteuid();
    if (uid == 0 || !cgroup_scope_possible())
        return false;
    char *manager = root->v2.scopes;
    int length =
        snprintf(manager, PATH_MAX, "%s/user.slice/user-%u.slice/user@%u.service", top, uid, uid);
    cleanup_close int dir = open(manager, O_PATH | O_DIRECTORY | O_CLOEXEC);
    unsigned controllers = dir < 0 ? 0 : read_controllers(dir, "cgroup.controllers");
    snprintf(manager + length, PATH_MAX - (size_t)length, "/app.slice");
    return found(root, CGROUP_V2_SCOPE, controllers);
}

static void explain_none(struct cgroup_root *root, const char *top, int errnum)
{
    if (geteuid() != 0)
        cgroup_explain(root,
                       "sudo loginctl enable-linger $USER && export "
                       "XDG_RUNTIME_DIR=/run/user/$(id -u), or: sudo box …",
                       "no control group is delegated to this user, and there is no systemd user "
                       "manager to ask for one");
    else if (errnum == EROFS)
        cgroup_explain(
            root,
            "docker run --privileged …, or podman run --security-opt unmask=/sys/fs/cgroup "
            "-v /sys/fs/cgroup:/sys/fs/cgroup:rw …",
            "%s is mounted read-only in this container", top);
    else
        cgroup_explain(root, "run it in a service with Delegate=yes, or as root of the machine",
                       "%s is not writable: %s", top, strerror(errnum));
}

bool cgroup_v2_find(struct cgroup_root *root, const char *own, size_t top_length)
{
    char group[PATH_MAX];
    char top[PATH_MAX];
    if (find_unit(own, top_length, group)) {
        cleanup_close int dir = open(group, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir >= 0 && check_writable(dir) == 0) {
            root->v2.base = steal_fd(&dir);
            return found(root, CGROUP_V2_UNIT,
                         read_controllers(root->v2.base, "cgroup.controllers"));
        }
    }
    if (find_group(own, top_length, group)) {
        cleanup_close int dir = open(group, O_PATH | O_DIRECTORY | O_CLOEXEC);
        /* A group that was given no controllers is worth less than a scope. */
        if (dir >= 0 && (read_controllers(dir, "cgroup.controllers") || !cgroup_scope_possible()))
            return find_top(root, group, dir, strcmp(own, group) == 0);
    }
    snprintf(top, sizeof top, "%.*s", (int)top_length, own);
    cleanup_close int dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int result = dir < 0 ? -errno : check_writable(dir);
    if (result == 0)
        return find_top(root, top, dir, strlen(own) == top_length);
    if (find_scope(root, top))
        return true;
    explain_none(root, top, -result);
    return false;
}

/* --- making ready --- */

static int move_members(int dir, struct error *err)
{
    if (mkdirat(dir, CGROUP_SUPERVISOR, 0755) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make the control group " CGROUP_SUPERVISOR);
    int result = cgroup_procs_move(dir, CGROUP_SUPERVISOR);
    if (result < 0)
        return error_errno(err, -result, "cannot move to the control group " CGROUP_SUPERVISOR);
    return 0;
}

static int enable(int dir, const char *text, bool movable, struct error *err)
{
    int result = fd_write_file(dir, "cgroup.subtree_control", text);
    if (result == -EBUSY && movable) {
        if (move_members(dir, err) < 0)
            return -1;
        result = fd_write_file(dir, "cgroup.subtree_control", text);
    }
    if (result < 0)
        return error_errno(err, -result, "cannot enable the control group controllers %s", text);
    return 0;
}

/* Passes on what is available. The cpu controller goes by itself: a real-time process anywhere can
   make the kernel refuse it, and that must not cost the others. */
static int enable_controllers(struct cgroup_root *root, int dir, bool movable, struct error *err)
{
    unsigned available = read_controllers(dir, "cgroup.controllers");
    unsigned missing = available & ~read_controllers(dir, "cgroup.subtree_control");
    char text[32];
    snprintf(text, sizeof text, "%s%s", missing & CGROUP_HAS_MEMORY ? "+memory " : "",
             missing & CGROUP_HAS_PIDS ? "+pids" : "");
    if (text[0] && enable(dir, text, movable, err) < 0)
        return -1;
    if ((missing & CGROUP_HAS_CPU) && enable(dir, "+cpu", movable, NULL) < 0)
        available &= ~(unsigned)CGROUP_HAS_CPU;
    root->controllers = available;
    return 0;
}

static int prepare_top(struct cgroup_root *root, struct error *err)
{
    struct cgroup_v2 *v2 = &root->v2;
    if (enable_controllers(root, v2->top, v2->top_movable, err) < 0)
        return -1;
    if (v2->base >= 0)
        return 0;
    if (mkdirat(v2->top, TOP_GROUP, 0755) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make the control group " TOP_GROUP);
    v2->base = openat(v2->top, TOP_GROUP, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (v2->base < 0)
        return error_errno(err, errno, "cannot open the control group " TOP_GROUP);
    return 0;
}

static int prepare_scope(struct cgroup_root *root, struct error *err)
{
    char own[PATH_MAX];
    size_t top;
    if (cgroup_scope_enter(err) < 0)
        return -1;
    int result = cgroup_v2_own(own, &top);
    if (result < 0)
        return error_errno(err, -result, "cannot find the scope that systemd made");
    if (!ends_with(own, ".scope"))
        return error_set(err, ERROR_SYSTEM, "systemd made a scope, but this process is in %s", own);
    root->v2.base = open(own, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root->v2.base < 0)
        return error_errno(err, errno, "cannot open %s", own);
    return 0;
}

int cgroup_v2_prepare(struct cgroup_root *root, struct error *err)
{
    struct cgroup_v2 *v2 = &root->v2;
    if (v2->ready)
        return 0;
    if (v2->way == CGROUP_V2_TOP && prepare_top(root, err) < 0)
        return -1;
    if (v2->way == CGROUP_V2_SCOPE && v2->base < 0 && prepare_scope(root, err) < 0)
        return -1;
    if (enable_controllers(root, v2->base, v2->way != CGROUP_V2_TOP, err) < 0)
        return -1;
    /* Not allowed where the unit's files are root's; then the delegation bounds us anyway. */
    fd_write_file(v2->base, "cgroup.max.depth", MAX_DEPTH);
    fd_write_file(v2->base, "cgroup.max.descendants", MAX_DESCENDANTS);
    explain_missing(root);
    v2->ready = true;
    return 0;
}

/* Root may make groups where its unit's end does not touch them. */
void cgroup_v2_leave_unit(struct cgroup_root *root)
{
    char own[PATH_MAX];
    char top[PATH_MAX];
    size_t top_length;
    if (root->v2.way != CGROUP_V2_UNIT || root->v2.ready || geteuid() != 0 ||
        cgroup_v2_own(own, &top_length) < 0)
        return;
    snprintf(top, sizeof top, "%.*s", (int)top_length, own);
    cleanup_close int dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int unit = root->v2.base;
    if (dir >= 0 && check_writable(dir) == 0 && find_top(root, top, dir, false))
        close(unit);
    else
        root->v2.base = unit;
}
