/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `box doctor`, in the order in which a sandbox needs what they look at. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/plan-json.h"
#include "core/fd.h"
#include "sandbox/idrange.h"

#ifndef BOX_LIBEXECDIR
#define BOX_LIBEXECDIR "/usr/local/libexec/boxd"
#endif

/* -1 if there is no such switch. */
static long read_switch(const char *path)
{
    char text[32];
    return fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 ? strtol(text, NULL, 10) : -1;
}

static const char *find_program(const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    }
    return NULL;
}

/* --- the kernel ------------------------------------------------------------------------------- */

static void look_at_kernel(const struct machine *machine, struct finding *ret)
{
    struct utsname name;
    unsigned major = 0;
    unsigned minor = 0;
    (void)machine;
    uname(&name);
    sscanf(name.release, "%u.%u", &major, &minor);
    if (major > 5 || (major == 5 && minor >= 12)) {
        finding_set(ret, CHECK_OK, "Linux %s", name.release);
        return;
    }
    finding_set(ret, CHECK_FAIL, "Linux %s has no mount_setattr; 5.12 or newer is needed",
                name.release);
    finding_fix(ret, "apt install linux-image-amd64 && reboot");
}

static void look_at_user_namespaces(const struct machine *machine, struct finding *ret)
{
    int rc = probe_user_namespace();
    (void)machine;
    if (rc == 0) {
        finding_set(ret, CHECK_OK, "one was made and used");
        return;
    }
    finding_set(ret, CHECK_FAIL, "cannot be made: %s", strerror(-rc));
    finding_fix(ret, "see the switches below; in a container: docker run --privileged …");
}

static void look_at_userns_clone(const struct machine *machine, struct finding *ret)
{
    long value = read_switch("/proc/sys/kernel/unprivileged_userns_clone");
    if (value != 0) {
        finding_set(ret, CHECK_OK, value < 0 ? "this kernel has no such switch" : "allowed");
        return;
    }
    finding_set(ret, machine->facts.root ? CHECK_OK : CHECK_FAIL,
                "ordinary users may not make user namespaces");
    if (!machine->facts.root)
        finding_fix(ret, "sysctl -w kernel.unprivileged_userns_clone=1");
}

static void look_at_userns_max(const struct machine *machine, struct finding *ret)
{
    long value = read_switch("/proc/sys/user/max_user_namespaces");
    (void)machine;
    if (value < 0 || value >= 1000) {
        finding_set(ret, CHECK_OK, "%ld", value);
        return;
    }
    finding_set(ret, value == 0 ? CHECK_FAIL : CHECK_WARN, "only %ld user namespaces at once",
                value);
    finding_fix(ret, "sysctl -w user.max_user_namespaces=31000");
}

static void look_at_apparmor(const struct machine *machine, struct finding *ret)
{
    long value = read_switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    if (value <= 0) {
        finding_set(ret, CHECK_OK, value < 0 ? "this kernel has no such switch" : "not restricted");
        return;
    }
    if (machine->facts.root || probe_user_namespace() == 0) {
        finding_set(ret, CHECK_OK, "restricted, but not for this program");
        return;
    }
    finding_set(ret, CHECK_FAIL, "AppArmor withholds user namespaces from ordinary users");
    finding_fix(ret, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
}

static void look_at_seccomp(const struct machine *machine, struct finding *ret)
{
    char actions[256];
    (void)machine;
    ssize_t size =
        fd_read_file(AT_FDCWD, "/proc/sys/kernel/seccomp/actions_avail", actions, sizeof actions);
    if (size > 0 && strstr(actions, "user_notif")) {
        finding_set(ret, CHECK_OK, "filters with notification");
        return;
    }
    finding_set(ret, CHECK_FAIL, "the kernel has no seccomp filters with notification");
    finding_fix(ret, "use a kernel with CONFIG_SECCOMP_FILTER, 5.0 or newer");
}

/* --- limits and files ------------------------------------------------------------------------- */

static void look_at_cgroups(const struct machine *machine, struct finding *ret)
{
    const struct cgroup_limits limits = {.memory_bytes = 1, .cpu_milli = 1, .pids = 1};
    const char *missing;
    if (machine->facts.cgroup == CGROUP_NONE) {
        finding_set(ret, CHECK_WARN, "none can be used: %s", machine->facts.cgroup_reason);
        finding_fix(ret, "%s", machine->facts.cgroup_fix);
        return;
    }
    const char *version = cgroup_version_name(machine->facts.cgroup);
    if (!cgroup_root_can(machine->cgroups, &limits, &missing)) {
        finding_set(ret, CHECK_WARN, "%s, without the %s controller", version, missing);
        finding_fix(ret, "%s", cgroup_root_fix(machine->cgroups));
        return;
    }
    finding_set(ret, CHECK_OK, "%s: memory, cpu, pids", version);
}

static void look_at_overlay(const struct machine *machine, struct finding *ret)
{
    int rc = probe_overlay(machine->facts.root);
    if (rc == 0) {
        finding_set(ret, CHECK_OK, "works in a user namespace: --writable can be had");
        return;
    }
    finding_set(ret, CHECK_WARN, "no --writable: %s", strerror(-rc));
    if (rc != -EPERM) /* which is the user namespace's */
        finding_fix(ret, "modprobe overlay");
}

static void look_at_idmaps(const struct machine *machine, struct finding *ret)
{
    const char *where = machine->facts.home[0] ? machine->facts.home : "/";
    if (!machine->facts.root) {
        finding_set(ret, CHECK_OK, "not needed: the one user inside is you");
        return;
    }
    int rc = probe_idmap(where);
    if (rc == 0) {
        finding_set(ret, CHECK_OK, "work where %s is", where);
        return;
    }
    finding_set(ret, CHECK_WARN, "not on the file system of %s: %s", where, strerror(-rc));
    finding_fix(ret, "keep directories to be mounted on ext4, xfs, btrfs or tmpfs, Linux 5.19+");
}

static void look_at_ids(const struct machine *machine, struct finding *ret)
{
    const struct facts *facts = &machine->facts;
    if (facts->root) {
        finding_set(ret, CHECK_OK, "each session has a range of its own");
        return;
    }
    if (facts->subuid.count >= IDRANGE_SIZE && facts->subgid.count >= IDRANGE_SIZE) {
        finding_set(ret, CHECK_OK, "%u from %u on, by newuidmap", facts->subuid.count,
                    facts->subuid.first);
        return;
    }
    finding_set(ret, CHECK_WARN,
                "no 65,536 ids for you in /etc/subuid and /etc/subgid, or no "
                "newuidmap: one user inside, and your supplementary groups stay in force");
    finding_fix(ret, "apt install uidmap && usermod --add-subuids 100000-165535 --add-subgids "
                     "100000-165535 \"$USER\"");
}

static void look_at_quota(const struct machine *machine, struct finding *ret)
{
    static const char *const mkfs[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
                                       "/usr/local/sbin/mkfs.ext4"};
    if (!machine->facts.root) {
        finding_set(ret, CHECK_WARN,
                    "--workspace-quota needs root; in memory, --tmp-size bounds "
                    "/workspace");
        return;
    }
    if (!find_program(mkfs, ARRAY_SIZE(mkfs))) {
        finding_set(ret, CHECK_WARN, "no mkfs.ext4");
        finding_fix(ret, "apt install e2fsprogs");
        return;
    }
    if (access("/dev/loop-control", R_OK | W_OK) < 0) {
        finding_set(ret, CHECK_WARN, "no loop devices: /dev/loop-control: %s", strerror(errno));
        finding_fix(ret, "modprobe loop");
        return;
    }
    finding_set(ret, CHECK_OK, "mkfs.ext4 and loop devices are there");
}

/* --- network ---------------------------------------------------------------------------------- */

static void look_at_network(const struct machine *machine, struct finding *ret)
{
    const char *fix = NULL;
    const char *reason = net_unavailable(&fix);
    struct net_policy policy = {0};
    (void)machine;
    net_host_resolvers(&policy);
    if (!reason && policy.resolver_count > 0) {
        finding_set(ret, CHECK_OK, "--network on can be had");
        return;
    }
    if (!reason) {
        finding_set(ret, CHECK_WARN,
                    "--network on can be had, but no names: /etc/resolv.conf has no IPv4 resolver "
                    "that is not on loopback");
        finding_fix(ret, "in a container, mount the host's /etc/resolv.conf; elsewhere, name "
                         "another resolver in it");
        return;
    }
    finding_set(ret, CHECK_WARN, "%s", reason);
    if (fix)
        finding_fix(ret, "%s", fix);
}

static void look_at_pasta(const struct machine *machine, struct finding *ret)
{
    static const char *const paths[] = {"/usr/bin/pasta", "/usr/local/bin/pasta", "/bin/pasta"};
    const char *path = find_program(paths, ARRAY_SIZE(paths));
    if (path || machine->facts.root) {
        finding_set(ret, CHECK_OK, "%s", machine->facts.root ? "not needed by root" : path);
        return;
    }
    finding_set(ret, CHECK_WARN, "not installed");
    finding_fix(ret, "apt install passt");
}

/* --- boxd itself ------------------------------------------------------------------------------ */

/* Beside this program first, as the spawner looks for it. */
static void look_at_init(const struct machine *machine, struct finding *ret)
{
    static const char name[] = "/box-init";
    char path[PATH_MAX];
    (void)machine;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof name);
    if (length > 0) {
        path[length] = '\0';
        memcpy(strrchr(path, '/'), name, sizeof name);
    }
    if (length <= 0 || access(path, R_OK) < 0)
        snprintf(path, sizeof path, "%s%s", BOX_LIBEXECDIR, name);
    if (access(path, R_OK) == 0) {
        finding_set(ret, CHECK_OK, "%.500s", path);
        return;
    }
    finding_set(ret, CHECK_FAIL, "neither beside this program nor in %s", BOX_LIBEXECDIR);
    finding_fix(ret, "make install");
}

const struct check doctor_checks[] = {
    {"kernel", look_at_kernel},
    {"user namespaces", look_at_user_namespaces},
    {"kernel.unprivileged_userns_clone", look_at_userns_clone},
    {"user.max_user_namespaces", look_at_userns_max},
    {"AppArmor restriction", look_at_apparmor},
    {"seccomp", look_at_seccomp},
    {"cgroups", look_at_cgroups},
    {"overlay", look_at_overlay},
    {"id-mapped mounts", look_at_idmaps},
    {"subordinate ids", look_at_ids},
    {"workspace quota", look_at_quota},
    {"network", look_at_network},
    {"pasta", look_at_pasta},
    {"box-init", look_at_init},
    {"a session", look_at_session},
    {0},
};
