/* SPDX-License-Identifier: Apache-2.0 */
/* No control groups: sessions without limits are possible, everything that needs a group says why
 * not. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>

static int unsupported(const struct cgroup_root *root, struct error *err)
{
    error_set(err, ERROR_UNSUPPORTED, "no control groups here: %s", root->reason);
    return error_hint(err, "%s", root->fix);
}

/* Limits were checked against the controllers, of which there are none. */
static int none_session_create(struct cgroup_root *root, const char *name,
                               const struct cgroup_limits *limits, int *ret_birth_fd,
                               struct error *err)
{
    (void)root, (void)name, (void)limits, (void)err;
    *ret_birth_fd = -1;
    return 0;
}

static int none_session_limit(struct cgroup_root *root, const char *name,
                              const struct cgroup_limits *limits, struct error *err)
{
    (void)root, (void)name, (void)limits, (void)err;
    return 0;
}

static int none_session_kill(struct cgroup_root *root, const char *name, struct error *err)
{
    (void)name;
    return unsupported(root, err);
}

static bool none_session_exists(struct cgroup_root *root, const char *name)
{
    (void)root, (void)name;
    return false;
}

static int none_session_usage(struct cgroup_root *root, const char *name,
                              struct cgroup_session_usage *ret)
{
    (void)root, (void)name, (void)ret;
    return -ENOTSUP;
}

static int none_lane_limit(struct cgroup_root *root, const char *name, int lane, uint64_t memory)
{
    (void)root, (void)name, (void)lane;
    return memory > 0 ? -ENOTSUP : 0;
}

static int none_session_remove(struct cgroup_root *root, const char *name, struct error *err)
{
    (void)root, (void)name, (void)err;
    return 0;
}

static int none_lane_create(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    (void)root, (void)name, (void)lane, (void)err;
    return 0;
}

static int none_lane_open(struct cgroup_root *root, const char *name, int lane,
                          struct cgroup_lane_fds *ret, struct error *err)
{
    (void)root, (void)name, (void)lane, (void)ret, (void)err;
    return 0;
}

static int none_lane_kill(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    (void)name, (void)lane;
    return unsupported(root, err);
}

static int none_place(struct cgroup_root *root, const char *name, int lane, pid_t pid,
                      struct error *err)
{
    (void)root, (void)name, (void)lane, (void)pid, (void)err;
    return 0;
}

static int none_entry_open(struct cgroup_root *root, const char *name, int lane,
                           struct cgroup_entry *ret, struct error *err)
{
    (void)root, (void)name, (void)lane, (void)ret, (void)err;
    return 0;
}

static void none_sweep(struct cgroup_root *root, const char *const *keep, size_t count)
{
    (void)root, (void)keep, (void)count;
}

static void none_close(struct cgroup_root *root)
{
    (void)root;
}

const struct cgroup_ops cgroup_none_ops = {
    .session_create = none_session_create,
    .session_limit = none_session_limit,
    .session_kill = none_session_kill,
    .session_exists = none_session_exists,
    .session_usage = none_session_usage,
    .session_remove = none_session_remove,
    .lane_create = none_lane_create,
    .lane_limit = none_lane_limit,
    .lane_open = none_lane_open,
    .lane_kill = none_lane_kill,
    .place = none_place,
    .entry_open = none_entry_open,
    .sweep = none_sweep,
    .close = none_close,
};
