/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: which version this machine has for us, and the front of the interface. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "core/fd.h"
#include "core/mem.h"

/* A machine with thousands of mounts has a mountinfo of hundreds of kilobytes. */
#define MOUNTINFO_MAX (8u << 20)

void cgroup_explain(struct cgroup_root *root, const char *fix, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(root->reason, sizeof root->reason, format, args);
    va_end(args);
    snprintf(root->fix, sizeof root->fix, "%s", fix);
}

static int read_whole(const char *path, struct buf *buf)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (;;) {
        size_t room;
        char *at = buf_reserve(buf, 16384, &room);
        if (!at)
            return -EFBIG;
        ssize_t n = read(fd, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        buf->size += (size_t)n;
    }
}

/* --- version 1 --- */

/* The line of the hierarchy that has a controller. */
static bool find_v1_line(const struct buf *self, unsigned controller, struct cgroup_self *ret)
{
    const char *at = self->data;
    while (cgroup_parse_self(&at, self->data + self->size, ret))
        if (!ret->v2 && (ret->controllers & controller))
            return true;
    return false;
}

static void explain_v1(struct cgroup_root *root, const char *dir, int errnum)
{
    const char *fix = "use boxd as root (sudo box …), or boot with the kernel argument "
                      "systemd.unified_cgroup_hierarchy=1 and let systemd delegate groups to users";
    if (errnum == EROFS)
        fix = "in a container: docker run --privileged …, or mount /sys/fs/cgroup writable";
    cgroup_explain(root, fix, "groups cannot be made in %s (cgroup v1): %s", dir, strerror(errnum));
}

static int open_v1(struct cgroup_root *root, const struct buf *mounts,
                   const struct cgroup_self *line, const char *controller)
{
    char dir[PATH_MAX];
    size_t top;
    if (cgroup_parse_mount(mounts->data, mounts->size, line, dir, &top) < 0) {
        char fix[256];
        snprintf(fix, sizeof fix,
                 "mkdir -p /sys/fs/cgroup/%s && mount -t cgroup -o %s cgroup /sys/fs/cgroup/%s",
                 controller, controller, controller);
        cgroup_explain(root, fix, "no mount shows this process's %s group (cgroup v1)", controller);
        return -1;
    }
    cleanup_close int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        explain_v1(root, dir, errno);
        return -1;
    }
    return steal_fd(&fd);
}

static void look_at_memory(struct cgroup_v1 *v1, int dir)
{
    char text[16];
    v1->has_memsw = faccessat(dir, "memory.memsw.limit_in_bytes", F_OK, 0) == 0;
    v1->is_flat =
        fd_read_file(dir, "memory.use_hierarchy", text, sizeof text) > 0 && text[0] == '0';
}

/* Memory first: where hierarchies differ, it is the one that is told apart most finely, so a sweep
   that lists it meets the sessions of this very group only. */
static bool find_v1(struct cgroup_root *root, const struct buf *self, const struct buf *mounts)
{
    static const struct {
        unsigned controller;
        const char *name;
    } wanted[] = {
        {CGROUP_HAS_MEMORY, "memory"}, {CGROUP_HAS_PIDS, "pids"}, {CGROUP_HAS_CPU, "cpu"}};
    struct cgroup_v1 *v1 = &root->v1;
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        struct cgroup_self line;
        if (root->controllers & wanted[i].controller)
            continue;
        if (!find_v1_line(self, wanted[i].controller, &line)) {
            cgroup_explain(root, "boot a kernel that has it enabled; see /proc/cgroups",
                           "there is no %s controller (cgroup v1)", wanted[i].name);
            continue;
        }
        int dir = open_v1(root, mounts, &line, wanted[i].name);
        if (dir < 0)
            continue;
        v1->hierarchies[v1->count++] = (struct cgroup_hierarchy){dir, line.controllers};
        root->controllers |= line.controllers;
        if (line.controllers & CGROUP_HAS_MEMORY)
            look_at_memory(v1, dir);
    }
    if (root->controllers & (CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS)) {
        root->version = CGROUP_V1;
        root->ops = &cgroup_v1_ops;
        return true;
    }
    cgroup_v1_ops.close(root);
    root->v1.count = 0;
    root->controllers = 0;
    return false;
}

/* --- version 2 --- */

static int find_v2_dir(const struct buf *self, const struct buf *mounts, char ret_dir[PATH_MAX],
                       size_t *ret_top)
{
    struct cgroup_self line;
    const char *at = self->data;
    while (cgroup_parse_self(&at, self->data + self->size, &line))
        if (line.v2)
            return cgroup_parse_mount(mounts->data, mounts->size, &line, ret_dir, ret_top);
    return -ENOENT;
}

int cgroup_v2_own(char ret_dir[PATH_MAX], size_t *ret_top)
{
    cleanup_buf struct buf self = BUF_INIT(MOUNTINFO_MAX);
    cleanup_buf struct buf mounts = BUF_INIT(MOUNTINFO_MAX);
    int result = read_whole("/proc/self/cgroup", &self);
    if (result == 0)
        result = read_whole("/proc/self/mountinfo", &mounts);
    return result < 0 ? result : find_v2_dir(&self, &mounts, ret_dir, ret_top);
}

/* --- the root --- */

/* A controller is bound to one version. Where v1 has memory or pids, a cgroup2 mount beside it
   (systemd's hybrid layout) has neither, and is no use. */
static void find_version(struct cgroup_root *root)
{
    cleanup_buf struct buf self = BUF_INIT(MOUNTINFO_MAX);
    cleanup_buf struct buf mounts = BUF_INIT(MOUNTINFO_MAX);
    struct cgroup_self line;
    char dir[PATH_MAX];
    size_t top;
    int result = read_whole("/proc/self/cgroup", &self);
    if (result == 0)
        result = read_whole("/proc/self/mountinfo", &mounts);
    if (result < 0)
        cgroup_explain(root, "mount -t proc proc /proc, on a kernel with CONFIG_CGROUPS",
                       "/proc does not tell about control groups: %s", strerror(-result));
    else if (find_v1_line(&self, CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS, &line))
        find_v1(root, &self, &mounts);
    else if (find_v2_dir(&self, &mounts, dir, &top) == 0)
        cgroup_v2_find(root, dir, top);
    else
        cgroup_explain(root, "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
                       "no cgroup file system that shows this process is mounted");
}

int cgroup_root_open(struct cgroup_root **ret, struct error *err)
{
    (void)err;
    struct cgroup_root *root = xcalloc(1, sizeof *root);
    root->ops = &cgroup_none_ops;
    root->v2.base = -1;
    root->v2.top = -1;
    int result = cgroup_owner_self(&root->owner);
    if (result < 0)
        cgroup_explain(root, "mount -t proc proc /proc", "/proc cannot be read: %s",
                       strerror(-result));
    else
        find_version(root);
    *ret = root;
    return 0;
}

void cgroup_root_close(struct cgroup_root *root)
{
    if (!root)
        return;
    root->ops->close(root);
    free(root);
}

enum cgroup_version cgroup_root_version(const struct cgroup_root *root)
{
    return root->version;
}

const char *cgroup_root_reason(const struct cgroup_root *root)
{
    return root->reason;
}

const char *cgroup_root_fix(const struct cgroup_root *root)
{
    return root->fix;
}

bool cgroup_root_can(const struct cgroup_root *root, const struct cgroup_limits *limits,
                     const char **ret_missing)
{
    const struct {
        bool wanted;
        unsigned controller;
        const char *name;
    } rules[] = {
        {limits->memory_bytes > 0, CGROUP_HAS_MEMORY, "memory"},
        {limits->cpu_milli > 0, CGROUP_HAS_CPU, "cpu"},
        {limits->pids > 0, CGROUP_HAS_PIDS, "pids"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        if (!rules[i].wanted || (root->controllers & rules[i].controller))
            continue;
        if (ret_missing)
            *ret_missing = rules[i].name;
        return false;
    }
    return true;
}
