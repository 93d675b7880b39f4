/* SPDX-License-Identifier: Apache-2.0 */
/* Which host paths may be mounted into a sandbox. */
#include "sandbox/policy.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/path.h"

static const char *const blocked[] = {
    "/etc",
    "/proc",
    "/sys",
    "/dev",
    "/root",
    "/boot",
    "/run",
    "/var/run",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/kubelet",
};

/* Control sockets of container engines, wherever somebody put them. */
static const char *const socket_names[] = {
    "docker.sock",
    "containerd.sock",
    "podman.sock",
    "crio.sock",
};

static bool names_socket(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < ARRAY_SIZE(socket_names); i++) {
        if (strcmp(name, socket_names[i]) == 0)
            return true;
    }
    return false;
}

static int refuse(const char *path, const char *root, struct error *err)
{
    if (strcmp(path, root) == 0)
        error_set(err, ERROR_DENIED, "host path '%s' may not be mounted", path);
    else
        error_set(err, ERROR_DENIED, "host path '%s' %s %s, which may not be mounted", path,
                  path_is_below(path, root) ? "lies below" : "holds", root);
    return error_hint(err, "mount a directory made for the purpose, in your home directory or "
                           "elsewhere");
}

int mount_policy_outside(const char *path, struct error *err)
{
    error_set(err, ERROR_DENIED, "host path '%s' lies below none of the allowed roots", path);
    return error_hint(err, "name a directory above it in mounts.allowed_roots of boxd.yaml");
}

static bool is_below_any(const char *path, const struct strings *roots)
{
    for (size_t i = 0; i < roots->count; i++) {
        if (path_is_below(path, roots->items[i]))
            return true;
    }
    return false;
}

static bool is_allowed(const struct mount_policy *policy, const char *given, const char *path)
{
    return is_below_any(path, &policy->allowed_roots) ||
           (is_below_any(path, &policy->own_roots) && is_below_any(given, &policy->own_roots));
}

static int check(const struct mount_policy *policy, const char *given, const char *path,
                 struct error *err)
{
    if (strcmp(path, "/") == 0)
        return refuse(path, "/", err);
    if (names_socket(path))
        return error_set(err, ERROR_DENIED, "'%s' is a container engine's control socket", path);
    if (is_allowed(policy, given, path))
        return 0;
    if (policy->only_allowed)
        return mount_policy_outside(path, err);
    for (size_t i = 0; i < ARRAY_SIZE(blocked); i++) {
        /* A parent of a blocked path would bring it along. */
        if (path_is_below(path, blocked[i]) || path_is_below(blocked[i], path))
            return refuse(path, blocked[i], err);
    }
    return 0;
}

int mount_policy_check(const struct mount_policy *policy, const char *path, struct error *err)
{
    return check(policy, path, path, err);
}

int mount_policy_check_fd(const struct mount_policy *policy, const char *given, int fd,
                          struct error *err)
{
    char link[64];
    char path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return error_errno(err, errno, "cannot tell where the source is");
    path[length] = '\0';
    return check(policy, given, path, err);
}
