/* SPDX-License-Identifier: Apache-2.0 */
/* Specs under a policy: what may not be asked for, and what everybody gets. No I/O. */
#include <string.h>

#include "core/mem.h"
#include "core/path.h"
#include "runtime/admission.h"

static int refuse(struct error *err, const char *why)
{
    return error_set(err, ERROR_ADMISSION, "%s", why);
}

static int check_host_path(const char *path, const char *workspace_dir, struct error *err)
{
    cleanup_free char *normal = path_normalise(path, NULL);
    if (!normal || strcmp(normal, workspace_dir) != 0)
        return refuse(err, "host_path is the workspace's own directory, and no other");
    return 0;
}

static int check_workdir(const char *workdir, struct error *err)
{
    cleanup_free char *normal = path_normalise(workdir, NULL);
    if (!normal || !path_is_below(normal, SESSION_MOUNT_PATH))
        return refuse(err, "workdir must be " SESSION_MOUNT_PATH " or lie below it");
    return 0;
}

static int check(const struct session_spec *spec, const char *workdir, const char *workspace_dir,
                 struct error *err)
{
    if (spec->network)
        return refuse(err, "network is off here");
    if (spec->mount_count > 0)
        return refuse(err, "extra_mounts are not allowed here");
    if (strcmp(spec->mount_path, SESSION_MOUNT_PATH) != 0)
        return refuse(err, "mount_path is " SESSION_MOUNT_PATH ", and no other");
    if (workdir && check_workdir(workdir, err) < 0)
        return -1;
    return spec->host_path ? check_host_path(spec->host_path, workspace_dir, err) : 0;
}

static void set_text(char **text, const char *value)
{
    free(*text);
    *text = xstrdup(value);
}

int admission_apply(const struct admission_policy *policy, const struct tenant_context *context,
                    const char *workspace_dir, struct session_spec *spec, const char *workdir,
                    uint64_t *timeout_ms, struct error *err)
{
    uint64_t longest_ms = (uint64_t)policy->max_timeout_sec * 1000;
    cleanup_free char *directory = path_normalise(workspace_dir, err);
    if (!directory || check(spec, workdir, directory, err) < 0)
        return -1;
    cleanup_free char *name = tenant_session_name(context, ADMISSION_SESSION, err);
    if (!name)
        return -1;
    set_text(&spec->name, name);
    set_text(&spec->image, SESSION_IMAGE_DEFAULT);
    set_text(&spec->host_path, directory);
    spec->host_path_mode = MOUNT_RW;
    spec->make_host_path = true;
    spec->persistent = true;
    spec->cpus = policy->cpus;
    spec->memory_mb = policy->memory_mb;
    spec->pids_limit = policy->pids_limit;
    spec->read_only_rootfs = policy->read_only_rootfs;
    spec->workspace_quota_mb = policy->workspace_quota_mb;
    if (timeout_ms && (*timeout_ms == 0 || *timeout_ms > longest_ms))
        *timeout_ms = longest_ms;
    return 0;
}
