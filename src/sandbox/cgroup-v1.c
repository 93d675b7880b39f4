/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, version 1.

   A session has a group in each of the hierarchies memory, pids and cpu, below the caller's own
   group there. Lanes exist only where they are needed: in memory to bill, in pids to kill. The CPU
   limit is the session's.

   Killing needs no freezer: pids.max = 0 on the lane makes every further fork in it fail at once,
   also one by root, so that what is listed after that is all there will ever be (a fork already
   under way belongs to a member that is listed). The freezer would have to be polled until it says
   FROZEN, and took two to three times as long against a fork bomb. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "core/clock.h"
#include "core/fd.h"
#include "core/mem.h"

#define LANE_CONTROLLERS (CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS)

static bool has_lanes(const struct cgroup_hierarchy *hierarchy)
{
    return (hierarchy->controllers & LANE_CONTROLLERS) != 0;
}

/* The group that stands for a lane in this hierarchy. Init's is the session itself: v1 lets a group
   have members beside groups, and each group of the memory hierarchy costs some 100 KiB where there
   are thousands. */
static int lane_in(const struct cgroup_hierarchy *hierarchy, int lane)
{
    return has_lanes(hierarchy) && lane != CGROUP_LANE_INIT ? lane : CGROUP_SESSION_ITSELF;
}

static const struct cgroup_hierarchy *find(const struct cgroup_root *root, unsigned controller)
{
    for (size_t i = 0; i < root->v1.count; i++)
        if (root->v1.hierarchies[i].controllers & controller)
            return &root->v1.hierarchies[i];
    return NULL;
}

/* --- limits --- */

static int write_lane_number(int dir, const char *name, int lane, const char *file, uint64_t value,
                             const char *unlimited)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cgroup_write(dir, name, lane, file, value ? text : unlimited);
}

static int write_number(int dir, const char *name, const char *file, uint64_t value,
                        const char *unlimited)
{
    return write_lane_number(dir, name, CGROUP_SESSION_ITSELF, file, value, unlimited);
}

/* With memory and swap together limited to the same there is no room for swap. That limit may never
   be below memory's own, so raising starts with it. */
static int limit_memory(const struct cgroup_root *root, int dir, const char *name, uint64_t bytes)
{
    static const char memory[] = "memory.limit_in_bytes";
    static const char both[] = "memory.memsw.limit_in_bytes";
    int result = write_number(dir, name, memory, bytes, "-1");
    if (result == -EINVAL && root->v1.has_memsw) {
        result = write_number(dir, name, both, bytes, "-1");
        return result < 0 ? result : write_number(dir, name, memory, bytes, "-1");
    }
    if (result == 0 && root->v1.has_memsw)
        result = write_number(dir, name, both, bytes, "-1");
    return result;
}

/* The period stays at its default, 100 ms. A quota above that of a group further up is EINVAL; that
   one holds then. (The values themselves are in the range that the kernel takes.) */
static int limit_cpu(int dir, const char *name, uint32_t milli)
{
    uint64_t quota = (uint64_t)milli * 100;
    if (quota > 0 && quota < 1000)
        quota = 1000;
    if (quota > 1000000000)
        quota = 1000000000;
    int result = write_number(dir, name, "cpu.cfs_quota_us", quota, "-1");
    return result == -EINVAL && quota > 0 ? 0 : result;
}

static int v1_session_limit(struct cgroup_root *root, const char *name,
                            const struct cgroup_limits *limits, struct error *err)
{
    const struct cgroup_hierarchy *memory = find(root, CGROUP_HAS_MEMORY);
    const struct cgroup_hierarchy *pids = find(root, CGROUP_HAS_PIDS);
    const struct cgroup_hierarchy *cpu = find(root, CGROUP_HAS_CPU);
    int result;
    if (memory && (result = limit_memory(root, memory->dir, name, limits->memory_bytes)) < 0)
        return error_errno(err, -result, "cannot limit the memory of %s", name);
    if (pids && (result = write_number(pids->dir, name, "pids.max", limits->pids, "max")) < 0)
        return error_errno(err, -result, "cannot limit the processes of %s", name);
    if (cpu && (result = limit_cpu(cpu->dir, name, limits->cpu_milli)) < 0)
        return error_errno(err, -result, "cannot limit the CPU time of %s", name);
    return 0;
}

/* --- making and removing --- */

static int v1_lane_create(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    if (lane == CGROUP_LANE_INIT)
        return 0;
    for (size_t i = 0; i < root->v1.count; i++) {
        const struct cgroup_hierarchy *hierarchy = &root->v1.hierarchies[i];
        if (has_lanes(hierarchy) && cgroup_make(hierarchy->dir, name, lane, err) < 0)
            return -1;
    }
    return 0;
}

/* Swap is off for the whole session. */
static int v1_lane_limit(struct cgroup_root *root, const char *name, int lane, uint64_t memory)
{
    const struct cgroup_hierarchy *hierarchy = find(root, CGROUP_HAS_MEMORY);
    return hierarchy ? write_lane_number(hierarchy->dir, name, lane, "memory.limit_in_bytes",
                                         memory, "-1")
                     : 0;
}

static bool v1_session_exists(struct cgroup_root *root, const char *name)
{
    return root->v1.count > 0 && cgroup_is_there(root->v1.hierarchies[0].dir, name);
}

static int v1_session_usage(struct cgroup_root *root, const char *name,
                            struct cgroup_session_usage *ret)
{
    const struct cgroup_hierarchy *memory = find(root, CGROUP_HAS_MEMORY);
    const struct cgroup_hierarchy *pids = find(root, CGROUP_HAS_PIDS);
    const struct cgroup_hierarchy *cpu = find(root, CGROUP_HAS_CPUACCT);
    uint64_t nanoseconds = 0;
    uint64_t processes = 0;
    int rc = 0;
    if (memory)
        rc = cgroup_read_number(memory->dir, name, CGROUP_SESSION_ITSELF, "memory.usage_in_bytes",
                                NULL, &ret->memory_bytes);
    if (rc == 0 && pids)
        rc = cgroup_read_number(pids->dir, name, CGROUP_SESSION_ITSELF, "pids.current", NULL,
                                &processes);
    if (rc == 0 && cpu)
        rc = cgroup_read_number(cpu->dir, name, CGROUP_SESSION_ITSELF, "cpuacct.usage", NULL,
                                &nanoseconds);
    ret->processes = (uint32_t)processes;
    ret->cpu_us = cpu ? nanoseconds / 1000 : UINT64_MAX;
    return rc;
}

static int v1_session_remove(struct cgroup_root *root, const char *name, struct error *err)
{
    uint64_t deadline = clock_monotonic_ms() + CGROUP_WAIT_MS;
    for (size_t i = root->v1.count; i-- > 0;) {
        const struct cgroup_hierarchy *hierarchy = &root->v1.hierarchies[i];
        int result = cgroup_tree_remove(hierarchy->dir, name, has_lanes(hierarchy), deadline);
        if (result < 0)
            return error_errno(err, -result, "cannot remove the control group %s", name);
    }
    return 0;
}

#define REUSE_BYTES_MAX (1024u * 1024)

static bool v1_session_reusable(struct cgroup_root *root, const char *name)
{
    const struct cgroup_hierarchy *memory = find(root, CGROUP_HAS_MEMORY);
    char path[CGROUP_PATH_MAX];
    char text[32];
    uint64_t bytes;
    if (!memory)
        return true;
    cgroup_path(path, name, CGROUP_SESSION_ITSELF, "memory.usage_in_bytes");
    ssize_t size = fd_read_file(memory->dir, path, text, sizeof text);
    return size > 0 && cgroup_parse_number(text, (size_t)size, &bytes) == 0 &&
           bytes <= REUSE_BYTES_MAX;
}

/* Both are inherited by groups made later, so they are set before the lane is there. */
static int set_inherited(const struct cgroup_root *root, int dir, const char *name)
{
    int result = cgroup_write(dir, name, CGROUP_SESSION_ITSELF, "memory.swappiness", "0");
    if (result < 0 && result != -ENOENT)
        return result;
    if (!root->v1.is_flat)
        return 0;
    return cgroup_write(dir, name, CGROUP_SESSION_ITSELF, "memory.use_hierarchy", "1");
}

static int fill_session(struct cgroup_root *root, const char *name,
                        const struct cgroup_limits *limits, struct error *err)
{
    const struct cgroup_hierarchy *memory = find(root, CGROUP_HAS_MEMORY);
    int result = memory ? set_inherited(root, memory->dir, name) : 0;
    if (result < 0)
        return error_errno(err, -result, "cannot set up the memory group of %s", name);
    bool limited = limits->memory_bytes || limits->cpu_milli || limits->pids;
    if (limited && v1_session_limit(root, name, limits, err) < 0)
        return -1;
    return v1_lane_create(root, name, 0, err);
}

static int v1_session_create(struct cgroup_root *root, const char *name,
                             const struct cgroup_limits *limits, int *ret_birth_fd,
                             struct error *err)
{
    for (size_t i = 0; i < root->v1.count; i++) {
        const struct cgroup_hierarchy *hierarchy = &root->v1.hierarchies[i];
        if (cgroup_make(hierarchy->dir, name, CGROUP_SESSION_ITSELF, err) == 0)
            continue;
        while (i-- > 0) /* only what this call made */
            cgroup_tree_remove(root->v1.hierarchies[i].dir, name, false, 0);
        return -1;
    }
    if (fill_session(root, name, limits, err) < 0) {
        v1_session_remove(root, name, NULL);
        return -1;
    }
    *ret_birth_fd = -1;
    return 0;
}

/* --- membership --- */

/* `tasks`, not cgroup.procs: a thread that moves itself, alone, spares the kernel the lock that
   keeps thread groups together, and with it the grace period. */
static int v1_entry_open(struct cgroup_root *root, const char *name, int lane,
                         struct cgroup_entry *ret, struct error *err)
{
    struct cgroup_entry entry = {{-1, -1, -1}};
    _Static_assert(CGROUP_ENTRY_MAX == CGROUP_V1_MAX, "one for each hierarchy");
    for (size_t i = 0; i < root->v1.count; i++) {
        const struct cgroup_hierarchy *hierarchy = &root->v1.hierarchies[i];
        int fd = cgroup_open(hierarchy->dir, name, lane_in(hierarchy, lane), "tasks", O_WRONLY);
        if (fd < 0) {
            cgroup_entry_close(&entry);
            return error_errno(err, -fd, "cannot open the control group %s", name);
        }
        entry.fds[i] = fd;
    }
    *ret = entry;
    return 0;
}

static int v1_place(struct cgroup_root *root, const char *name, int lane, pid_t pid,
                    struct error *err)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)pid);
    for (size_t i = 0; i < root->v1.count; i++) {
        const struct cgroup_hierarchy *hierarchy = &root->v1.hierarchies[i];
        int result = cgroup_write(hierarchy->dir, name, lane_in(hierarchy, lane),
                                  pid ? "cgroup.procs" : "tasks", text);
        if (result < 0)
            return error_errno(err, -result, "cannot put process %d into the control group %s",
                               (int)pid, name);
    }
    return 0;
}

static int v1_lane_kill(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    const struct cgroup_hierarchy *pids = find(root, CGROUP_HAS_PIDS);
    const struct cgroup_hierarchy *listed = pids ? pids : find(root, CGROUP_HAS_MEMORY);
    char path[CGROUP_PATH_MAX];
    if (pids)
        cgroup_write(pids->dir, name, lane, "pids.max", "0");
    cgroup_path(path, name, lane, NULL);
    int result = cgroup_procs_kill(listed->dir, path, clock_monotonic_ms() + CGROUP_WAIT_MS);
    /* A lane that could not be emptied stays closed for forks. */
    if (result < 0)
        return error_errno(err, -result, "cannot empty lane %d of %s", lane, name);
    if (pids)
        cgroup_write(pids->dir, name, lane, "pids.max", "max");
    return 0;
}

/* In each hierarchy: of a session half made, one may hold what another lacks. */
static int v1_session_kill(struct cgroup_root *root, const char *name, struct error *err)
{
    uint64_t deadline = clock_monotonic_ms() + CGROUP_WAIT_MS;
    const struct cgroup_hierarchy *pids = find(root, CGROUP_HAS_PIDS);
    if (pids)
        cgroup_write(pids->dir, name, CGROUP_SESSION_ITSELF, "pids.max", "0");
    for (size_t i = 0; i < root->v1.count; i++) {
        int result = cgroup_tree_kill(root->v1.hierarchies[i].dir, name, deadline);
        if (result < 0)
            return error_errno(err, -result, "cannot empty %s", name);
    }
    return 0;
}

/* --- billing --- */

/* Failure is no error: then there is no event, and the counters tell as much at the end. */
static int open_oom_event(int dir, const char *name)
{
    char text[32];
    cleanup_close int control =
        cgroup_open(dir, name, CGROUP_SESSION_ITSELF, "memory.oom_control", O_RDONLY);
    cleanup_close int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control < 0 || event < 0)
        return -1;
    snprintf(text, sizeof text, "%d %d", event, control);
    if (cgroup_write(dir, name, CGROUP_SESSION_ITSELF, "cgroup.event_control", text) < 0)
        return -1;
    return steal_fd(&event);
}

static int v1_lane_open(struct cgroup_root *root, const char *name, int lane,
                        struct cgroup_lane_fds *ret, struct error *err)
{
    const struct cgroup_hierarchy *memory = find(root, CGROUP_HAS_MEMORY);
    const struct cgroup_hierarchy *pids = find(root, CGROUP_HAS_PIDS);
    const struct cgroup_hierarchy *cpu = find(root, CGROUP_HAS_CPUACCT);
    const struct cgroup_hierarchy *listed = pids ? pids : memory;
    const char *file = pids ? "pids.current" : "cgroup.procs";
    int procs = listed ? cgroup_open(listed->dir, name, lane, file, O_RDONLY) : -ENOENT;
    if (procs < 0)
        return error_errno(err, -procs, "cannot open lane %d of %s", lane, name);
    ret->fds[CGROUP_FD_PROCS] = procs;
    if (memory) {
        ret->fds[CGROUP_FD_MEMORY_PEAK] =
            cgroup_open(memory->dir, name, lane, "memory.max_usage_in_bytes", O_RDWR);
        ret->fds[CGROUP_FD_OOM] =
            cgroup_open(memory->dir, name, lane, "memory.oom_control", O_RDONLY);
        ret->fds[CGROUP_FD_OOM_EVENT] = open_oom_event(memory->dir, name);
    }
    if (pids) /* refused forks are counted where the forking process is */
        ret->fds[CGROUP_FD_PIDS_EVENTS] =
            cgroup_open(pids->dir, name, lane, "pids.events", O_RDONLY);
    if (cpu)
        ret->fds[CGROUP_FD_CPU] =
            cgroup_open(cpu->dir, name, lane_in(cpu, lane), "cpuacct.usage", O_RDONLY);
    return 0;
}

static void v1_sweep(struct cgroup_root *root, const char *const *keep, size_t count)
{
    cgroup_sweep_dir(root, root->v1.hierarchies[0].dir, keep, count);
}

static void v1_close(struct cgroup_root *root)
{
    for (size_t i = 0; i < root->v1.count; i++)
        fd_clear(&root->v1.hierarchies[i].dir);
}

const struct cgroup_ops cgroup_v1_ops = {
    .session_create = v1_session_create,
    .session_limit = v1_session_limit,
    .session_kill = v1_session_kill,
    .session_exists = v1_session_exists,
    .session_usage = v1_session_usage,
    .session_reusable = v1_session_reusable,
    .session_remove = v1_session_remove,
    .lane_create = v1_lane_create,
    .lane_limit = v1_lane_limit,
    .lane_open = v1_lane_open,
    .lane_kill = v1_lane_kill,
    .place = v1_place,
    .entry_open = v1_entry_open,
    .sweep = v1_sweep,
    .close = v1_close,
};
