/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and lanes: arguments are checked here, once, before the version's own code sees them. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <string.h>

static int check(const char *name, int lane, struct error *err)
{
    if (!cgroup_name_valid(name))
        return error_set(err, ERROR_INVALID, "not the name of a control group: %.100s", name);
    if (lane < CGROUP_LANE_INIT || lane > CGROUP_LANE_MAX)
        return error_set(err, ERROR_INVALID, "there is no lane %d", lane);
    return 0;
}

int cgroup_check_limits(const struct cgroup_root *root, const struct cgroup_limits *limits,
                        struct error *err)
{
    const char *missing;
    if (cgroup_root_can(root, limits, &missing))
        return 0;
    error_set(err, ERROR_UNSUPPORTED, "the %s limit cannot be enforced%s%s", missing,
              root->reason[0] ? ": " : "", root->reason);
    return error_hint(err, "%s", root->fix);
}

int cgroup_session_create(struct cgroup_root *root, const char *name,
                          const struct cgroup_limits *limits, int *ret_birth_fd, struct error *err)
{
    if (check(name, 0, err) < 0 || cgroup_check_limits(root, limits, err) < 0)
        return -1;
    return root->ops->session_create(root, name, limits, ret_birth_fd, err);
}

int cgroup_session_limit(struct cgroup_root *root, const char *name,
                         const struct cgroup_limits *limits, struct error *err)
{
    if (check(name, 0, err) < 0 || cgroup_check_limits(root, limits, err) < 0)
        return -1;
    return root->ops->session_limit(root, name, limits, err);
}

int cgroup_session_kill(struct cgroup_root *root, const char *name, struct error *err)
{
    return check(name, 0, err) < 0 ? -1 : root->ops->session_kill(root, name, err);
}

bool cgroup_session_reusable(struct cgroup_root *root, const char *name)
{
    return root->ops->session_reusable && check(name, 0, NULL) == 0 &&
           root->ops->session_reusable(root, name);
}

bool cgroup_session_oom(struct cgroup_root *root, const char *name)
{
    return root->ops->session_oom && check(name, 0, NULL) == 0 &&
           root->ops->session_oom(root, name);
}

int cgroup_session_remove(struct cgroup_root *root, const char *name, struct error *err)
{
    return check(name, 0, err) < 0 ? -1 : root->ops->session_remove(root, name, err);
}

int cgroup_lane_create(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    return check(name, lane, err) < 0 ? -1 : root->ops->lane_create(root, name, lane, err);
}

int cgroup_place(struct cgroup_root *root, const char *name, int lane, pid_t pid, struct error *err)
{
    if (check(name, lane, err) < 0)
        return -1;
    if (pid < 0)
        return error_set(err, ERROR_INVALID, "not a process: %d", (int)pid);
    if (lane == CGROUP_LANE_INIT && root->ops->lane_create(root, name, lane, err) < 0)
        return -1;
    return root->ops->place(root, name, lane, pid, err);
}

int cgroup_lane_open(struct cgroup_root *root, const char *name, int lane,
                     struct cgroup_lane_fds *ret, struct error *err)
{
    struct cgroup_lane_fds lane_fds = {.version = root->version};
    if (check(name, lane, err) < 0)
        return -1;
    for (size_t i = 0; i < CGROUP_FD_MAX; i++)
        lane_fds.fds[i] = -1;
    if (root->ops->lane_open(root, name, lane, &lane_fds, err) < 0)
        return -1;
    for (size_t i = 0; i < CGROUP_FD_MAX; i++)
        if (lane_fds.fds[i] < 0)
            lane_fds.fds[i] = -1; /* not an errno: the header promises -1 */
    *ret = lane_fds;
    return 0;
}

int cgroup_lane_kill(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    return check(name, lane, err) < 0 ? -1 : root->ops->lane_kill(root, name, lane, err);
}

int cgroup_entry_open(struct cgroup_root *root, const char *name, int lane,
                      struct cgroup_entry *ret, struct error *err)
{
    struct cgroup_entry entry = {{-1, -1, -1}};
    if (check(name, lane, err) < 0 || root->ops->entry_open(root, name, lane, &entry, err) < 0)
        return -1;
    *ret = entry;
    return 0;
}

bool cgroup_session_exists(struct cgroup_root *root, const char *name)
{
    return check(name, 0, NULL) == 0 && root->ops->session_exists(root, name);
}

int cgroup_session_usage(struct cgroup_root *root, const char *name,
                         struct cgroup_session_usage *ret, struct error *err)
{
    struct cgroup_session_usage usage = {0};
    if (check(name, 0, err) < 0)
        return -1;
    int rc = root->ops->session_usage(root, name, &usage);
    if (rc < 0)
        return error_errno(err, -rc, "cannot read what %s uses", name);
    *ret = usage;
    return 0;
}

int cgroup_lane_limit(struct cgroup_root *root, const char *name, int lane, uint64_t memory_bytes,
                      struct error *err)
{
    const struct cgroup_limits limits = {.memory_bytes = memory_bytes};
    if (check(name, lane, err) < 0 ||
        (memory_bytes > 0 && cgroup_check_limits(root, &limits, err) < 0))
        return -1;
    int rc = root->ops->lane_limit(root, name, lane, memory_bytes);
    return rc < 0 ? error_errno(err, -rc, "cannot limit the memory of lane %d of %s", lane, name)
                  : 0;
}
