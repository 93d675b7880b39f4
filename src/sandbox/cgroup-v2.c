/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, version 2.

   The session's group carries every limit and hands only `memory` down to its lanes, because that
   is all they need of their own: cpu.stat is there without the cpu controller, and with pids in the
   session alone the kernel counts refused forks there whether it is older than 6.11 (which counts
   where the forking process is) or newer (where the limit is). Fewer controllers in a lane also
   make it cheaper.

   memory.high is left alone. Above it a process that allocates is put to sleep for up to two
   seconds at a time, again and again; without swap there is nothing to reclaim from a memory bomb,
   so it would crawl towards memory.max and run into its timeout, instead of being killed at once
   with `oom` as the cause. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/fd.h"

static int write_number(int dir, const char *name, const char *file, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cgroup_write(dir, name, CGROUP_SESSION_ITSELF, file, value ? text : "max");
}

/* Quota and period in microseconds; the kernel takes no quota below one millisecond. */
static int limit_cpu(int dir, const char *name, uint32_t milli)
{
    char text[40];
    uint64_t quota = (uint64_t)milli * 100;
    if (quota < 1000)
        quota = 1000;
    if (quota > 1000000000)
        quota = 1000000000;
    snprintf(text, sizeof text, "%" PRIu64 " 100000", quota);
    return cgroup_write(dir, name, CGROUP_SESSION_ITSELF, "cpu.max", milli ? text : "max");
}

static int v2_session_limit(struct cgroup_root *root, const char *name,
                            const struct cgroup_limits *limits, struct error *err)
{
    int dir = root->v2.base;
    int result;
    if ((root->controllers & CGROUP_HAS_MEMORY) &&
        (result = write_number(dir, name, "memory.max", limits->memory_bytes)) < 0)
        return error_errno(err, -result, "cannot limit the memory of %s", name);
    if ((root->controllers & CGROUP_HAS_PIDS) &&
        (result = write_number(dir, name, "pids.max", limits->pids)) < 0)
        return error_errno(err, -result, "cannot limit the processes of %s", name);
    if ((root->controllers & CGROUP_HAS_CPU) &&
        (result = limit_cpu(dir, name, limits->cpu_milli)) < 0)
        return error_errno(err, -result, "cannot limit the CPU time of %s", name);
    return 0;
}

/* When memory runs out, all of a command goes, not one process out of its middle. Not so where init
   is, which is to report it: lane 0 becomes such a unit when init gets a lane of its own. */
static int v2_lane_create(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    int dir = root->v2.base;
    if (cgroup_make(dir, name, lane, err) < 0)
        return -1;
    if (lane != 0 && (root->controllers & CGROUP_HAS_MEMORY))
        cgroup_write(dir, name, lane == CGROUP_LANE_INIT ? 0 : lane, "memory.oom.group", "1");
    return 0;
}

static int fill_session(struct cgroup_root *root, const char *name,
                        const struct cgroup_limits *limits, int *ret_birth_fd, struct error *err)
{
    int dir = root->v2.base;
    int result;
    if (root->controllers & CGROUP_HAS_MEMORY) {
        /* No such file: the kernel has no swap at all. */
        result = cgroup_write(dir, name, CGROUP_SESSION_ITSELF, "memory.swap.max", "0");
        if (result < 0 && result != -ENOENT)
            return error_errno(err, -result, "cannot turn swapping off for %s", name);
        result =
            cgroup_write(dir, name, CGROUP_SESSION_ITSELF, "cgroup.subtree_control", "+memory");
        if (result < 0)
            return error_errno(err, -result, "cannot pass the memory controller on in %s", name);
    }
    bool limited = limits->memory_bytes || limits->cpu_milli || limits->pids;
    if ((limited && v2_session_limit(root, name, limits, err) < 0) ||
        v2_lane_create(root, name, 0, err) < 0)
        return -1;
    int fd = cgroup_open(dir, name, 0, ".", O_PATH | O_DIRECTORY);
    if (fd < 0)
        return error_errno(err, -fd, "cannot open lane 0 of %s", name);
    *ret_birth_fd = fd;
    return 0;
}

static int v2_session_create(struct cgroup_root *root, const char *name,
                             const struct cgroup_limits *limits, int *ret_birth_fd,
                             struct error *err)
{
    /* Only now is it known for certain what can be enforced. */
    if (cgroup_v2_prepare(root, err) < 0 || cgroup_check_limits(root, limits, err) < 0 ||
        cgroup_make(root->v2.base, name, CGROUP_SESSION_ITSELF, err) < 0)
        return -1;
    if (fill_session(root, name, limits, ret_birth_fd, err) < 0) {
        cgroup_tree_remove(root->v2.base, name, true, 0);
        return -1;
    }
    return 0;
}

static int v2_lane_limit(struct cgroup_root *root, const char *name, int lane, uint64_t memory)
{
    char text[24];
    if (!(root->controllers & CGROUP_HAS_MEMORY))
        return 0;
    snprintf(text, sizeof text, "%" PRIu64, memory);
    return cgroup_write(root->v2.base, name, lane, "memory.max", memory ? text : "max");
}

/* An earlier process's groups may be in a place that this one has not made ready yet. */
static bool v2_session_exists(struct cgroup_root *root, const char *name)
{
    return cgroup_v2_prepare(root, NULL) == 0 && cgroup_is_there(root->v2.base, name);
}

static int v2_session_usage(struct cgroup_root *root, const char *name,
                            struct cgroup_session_usage *ret)
{
    int dir = root->v2.base;
    uint64_t processes = 0;
    int rc = cgroup_read_number(dir, name, CGROUP_SESSION_ITSELF, "cpu.stat", "usage_usec",
                                &ret->cpu_us);
    if (rc == 0 && (root->controllers & CGROUP_HAS_MEMORY))
        rc = cgroup_read_number(dir, name, CGROUP_SESSION_ITSELF, "memory.current", NULL,
                                &ret->memory_bytes);
    if (rc == 0 && (root->controllers & CGROUP_HAS_PIDS))
        rc = cgroup_read_number(dir, name, CGROUP_SESSION_ITSELF, "pids.current", NULL, &processes);
    ret->processes = (uint32_t)processes;
    return rc;
}

static bool v2_session_oom(struct cgroup_root *root, const char *name)
{
    char path[CGROUP_PATH_MAX];
    char text[512];
    uint64_t kills;
    cgroup_path(path, name, CGROUP_SESSION_ITSELF, "memory.events");
    ssize_t size = fd_read_file(root->v2.base, path, text, sizeof text);
    return size > 0 && cgroup_parse_keyed(text, (size_t)size, "oom_kill", &kills) == 0 && kills > 0;
}

static int v2_session_remove(struct cgroup_root *root, const char *name, struct error *err)
{
    int result =
        cgroup_tree_remove(root->v2.base, name, true, clock_monotonic_ms() + CGROUP_WAIT_MS);
    if (result < 0)
        return error_errno(err, -result, "cannot remove the control group %s", name);
    return 0;
}

static int v2_place(struct cgroup_root *root, const char *name, int lane, pid_t pid,
                    struct error *err)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)pid);
    int result = cgroup_write(root->v2.base, name, lane, "cgroup.procs", text);
    if (result < 0)
        return error_errno(err, -result, "cannot put process %d into the control group %s",
                           (int)pid, name);
    return 0;
}

static int v2_entry_open(struct cgroup_root *root, const char *name, int lane,
                         struct cgroup_entry *ret, struct error *err)
{
    int fd = cgroup_open(root->v2.base, name, lane, "cgroup.procs", O_WRONLY);
    if (fd < 0)
        return error_errno(err, -fd, "cannot open the control group %s", name);
    *ret = (struct cgroup_entry){{fd, -1, -1}};
    return 0;
}

/* Before 5.14 there is no cgroup.kill. A frozen group grows no more by fork, and its members die of
   SIGKILL frozen as they are. Either way what follows waits until they are gone. */
static bool stop_group(int dir, const char *name, int lane)
{
    if (cgroup_write(dir, name, lane, "cgroup.kill", "1") == 0)
        return false;
    return cgroup_write(dir, name, lane, "cgroup.freeze", "1") == 0;
}

static int v2_lane_kill(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    int dir = root->v2.base;
    char path[CGROUP_PATH_MAX];
    bool frozen = stop_group(dir, name, lane);
    cgroup_path(path, name, lane, NULL);
    int result = cgroup_procs_kill(dir, path, clock_monotonic_ms() + CGROUP_WAIT_MS);
    if (frozen)
        cgroup_write(dir, name, lane, "cgroup.freeze", "0");
    if (result < 0)
        return error_errno(err, -result, "cannot empty lane %d of %s", lane, name);
    return 0;
}

static int v2_session_kill(struct cgroup_root *root, const char *name, struct error *err)
{
    int dir = root->v2.base;
    bool frozen = stop_group(dir, name, CGROUP_SESSION_ITSELF);
    int result = cgroup_tree_kill(dir, name, clock_monotonic_ms() + CGROUP_WAIT_MS);
    if (frozen)
        cgroup_write(dir, name, CGROUP_SESSION_ITSELF, "cgroup.freeze", "0");
    if (result < 0)
        return error_errno(err, -result, "cannot empty %s", name);
    return 0;
}

/* A write to memory.peak is understood from 6.12 on, and before that may not even be opened for. */
static int open_peak(int dir, const char *name, int lane)
{
    int fd = cgroup_open(dir, name, lane, "memory.peak", O_RDWR);
    return fd >= 0 ? fd : cgroup_open(dir, name, lane, "memory.peak", O_RDONLY);
}

static int v2_lane_open(struct cgroup_root *root, const char *name, int lane,
                        struct cgroup_lane_fds *ret, struct error *err)
{
    int dir = root->v2.base;
    int procs = cgroup_open(dir, name, lane, "cgroup.procs", O_RDONLY);
    if (procs < 0)
        return error_errno(err, -procs, "cannot open lane %d of %s", lane, name);
    ret->fds[CGROUP_FD_PROCS] = procs;
    ret->fds[CGROUP_FD_MEMORY_PEAK] = open_peak(dir, name, lane);
    ret->fds[CGROUP_FD_CPU] = cgroup_open(dir, name, lane, "cpu.stat", O_RDONLY);
    ret->fds[CGROUP_FD_OOM] = cgroup_open(dir, name, lane, "memory.events", O_RDONLY);
    ret->fds[CGROUP_FD_PIDS_EVENTS] =
        cgroup_open(dir, name, CGROUP_SESSION_ITSELF, "pids.events", O_RDONLY);
    return 0;
}

struct scope_sweep {
    struct cgroup_root *root;
    int scopes;
    const char *const *keep;
    size_t count;
};

static int sweep_scope(const char *child, void *data)
{
    struct scope_sweep *sweep = data;
    if (!cgroup_is_scope(child))
        return 0;
    int dir = openat(sweep->scopes, child, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return 0;
    int base = sweep->root->v2.base;
    sweep->root->v2.base = dir;
    cgroup_sweep_dir(sweep->root, dir, sweep->keep, sweep->count);
    sweep->root->v2.base = base;
    close(dir);
    return 0;
}

/* Each `box` of a user has a scope of its own, so what one left behind is in another's. The scope
   itself is removed by systemd once it is empty. */
static void v2_sweep(struct cgroup_root *root, const char *const *keep, size_t count)
{
    if (root->v2.base >= 0)
        cgroup_sweep_dir(root, root->v2.base, keep, count);
    if (root->v2.scopes[0] == '\0')
        return;
    cleanup_close int dir = open(root->v2.scopes, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct scope_sweep sweep = {root, dir, keep, count};
    if (dir >= 0)
        cgroup_each_child(dir, ".", sweep_scope, &sweep);
}

static void v2_close(struct cgroup_root *root)
{
    fd_clear(&root->v2.base);
    fd_clear(&root->v2.top);
}

const struct cgroup_ops cgroup_v2_ops = {
    .session_create = v2_session_create,
    .session_limit = v2_session_limit,
    .session_kill = v2_session_kill,
    .session_exists = v2_session_exists,
    .session_usage = v2_session_usage,
    .session_oom = v2_session_oom,
    .session_remove = v2_session_remove,
    .lane_create = v2_lane_create,
    .lane_limit = v2_lane_limit,
    .lane_open = v2_lane_open,
    .lane_kill = v2_lane_kill,
    .place = v2_place,
    .entry_open = v2_entry_open,
    .sweep = v2_sweep,
    .close = v2_close,
};
