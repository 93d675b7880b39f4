/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine is, as far as a plan depends on it. */
#include "sandbox/facts.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fd.h"

/* Directories that hold programs: on a merged-/usr system all but the first are links into it. */
static const char *const program_dirs[] = {"/usr",   "/bin",   "/sbin",  "/lib",
                                           "/lib32", "/lib64", "/libx32"};

/* Of the host's /etc: what programs need to run as they do outside, and nothing that tells of the
   host's users, services or secrets. /etc/ssl/private stays behind its own permissions. */
static const char *const etc_paths[] = {
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/java-11-openjdk", /* where a JVM's configuration is */
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/pki",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl",
};

/* r: made read-only; f: a file, d: a directory, covered. */
static const char *const proc_paths[] = {
    "d/proc/acpi",        "d/proc/asound",
    "d/proc/scsi",        "f/proc/interrupts",
    "f/proc/kallsyms",    "f/proc/kcore",
    "f/proc/keys",        "f/proc/latency_stats",
    "f/proc/sched_debug", "f/proc/sysrq-trigger",
    "f/proc/timer_list",  "f/proc/timer_stats",
    "r/proc/bus",         "r/proc/fs",
    "r/proc/irq",         "r/proc/sys",
};

static void gather_programs(struct facts *facts)
{
    for (size_t i = 0; i < ARRAY_SIZE(program_dirs); i++) {
        struct stat st;
        char link[PATH_MAX];
        if (lstat(program_dirs[i], &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            strings_add(&facts->root_dirs, program_dirs[i]);
            continue;
        }
        ssize_t length =
            S_ISLNK(st.st_mode) ? readlink(program_dirs[i], link, sizeof link - 1) : -1;
        if (length <= 0)
            continue;
        link[length] = '\0';
        strings_take(&facts->root_links, xasprintf("%s=%s", program_dirs[i], link));
    }
}

static void gather_etc(struct facts *facts)
{
    for (size_t i = 0; i < ARRAY_SIZE(etc_paths); i++) {
        if (access(etc_paths[i], F_OK) == 0)
            strings_add(&facts->etc_paths, etc_paths[i]);
    }
}

/* The first range of /etc/subuid (or subgid) that belongs to the user, by name or number. */
static struct subid_range gather_subids(const char *file, uid_t uid, const char *name)
{
    struct subid_range range = {0};
    char line[256];
    FILE *in = fopen(file, "re");
    if (!in)
        return range;
    while (fgets(line, sizeof line, in)) {
        char *save;
        char number[16];
        const char *who = strtok_r(line, ":", &save);
        const char *first = strtok_r(NULL, ":", &save);
        const char *count = strtok_r(NULL, ":\n", &save);
        snprintf(number, sizeof number, "%u", uid);
        if (!who || !first || !count || (strcmp(who, number) != 0 && strcmp(who, name) != 0))
            continue;
        range.first = (uint32_t)strtoul(first, NULL, 10);
        range.count = (uint32_t)strtoul(count, NULL, 10);
        break;
    }
    fclose(in);
    return range;
}

static bool has_tool(const char *name)
{
    static const char *const dirs[] = {"/usr/bin", "/bin", "/usr/sbin"};
    char path[64];
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        snprintf(path, sizeof path, "%s/%s", dirs[i], name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

/* Those without which root is root in name only. */
static bool has_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    const uint32_t wanted = 1u << CAP_SYS_ADMIN | 1u << CAP_SETUID | 1u << CAP_SETGID;
    return syscall(SYS_capget, &head, data) == 0 && (data[0].effective & wanted) == wanted;
}

/* From /etc/passwd where it is there: asking the name service costs as much as the rest of this
 * file. */
static const struct passwd *find_user(uid_t uid)
{
    const struct passwd *entry = NULL;
    FILE *in = fopen("/etc/passwd", "re");
    while (in && (entry = fgetpwent(in)) && entry->pw_uid != uid)
        ;
    if (in)
        fclose(in);
    return entry ? entry : getpwuid(uid);
}

static void gather_identity(struct facts *facts)
{
    const struct passwd *entry = find_user(geteuid());
    const char *name = entry ? entry->pw_name : "";
    facts->uid = geteuid();
    facts->gid = getegid();
    facts->home = xstrdup(entry && entry->pw_dir[0] == '/' ? entry->pw_dir : "");
    facts->root = facts->uid == 0 && has_capabilities();
    gid_t groups[2];
    facts->extra_groups = getgroups(0, NULL) > 1 ||
                          (getgroups(ARRAY_SIZE(groups), groups) == 1 && groups[0] != facts->gid);
    if (facts->root || !has_tool("newuidmap") || !has_tool("newgidmap"))
        return;
    facts->subuid = gather_subids("/etc/subuid", facts->uid, name);
    facts->subgid = gather_subids("/etc/subgid", facts->uid, name);
}

void facts_gather(struct facts *facts)
{
    *facts = (struct facts){0};
    gather_identity(facts);
    gather_programs(facts);
    gather_etc(facts);
    for (size_t i = 0; i < ARRAY_SIZE(proc_paths); i++) {
        if (access(proc_paths[i] + 1, F_OK) == 0)
            strings_add(&facts->proc_paths, proc_paths[i]);
    }
}

void facts_gather_network(struct facts *facts)
{
    facts->net = (struct net_policy){0};
    net_host_resolvers(&facts->net);
}

static bool can_limit(const struct cgroup_root *root, struct cgroup_limits limits)
{
    const char *missing;
    return cgroup_root_can(root, &limits, &missing);
}

void facts_set_cgroup(struct facts *facts, const struct cgroup_root *root)
{
    facts->cgroup = cgroup_root_version(root);
    facts->limits_memory = can_limit(root, (struct cgroup_limits){.memory_bytes = 1});
    facts->limits_cpu = can_limit(root, (struct cgroup_limits){.cpu_milli = 1});
    facts->limits_pids = can_limit(root, (struct cgroup_limits){.pids = 1});
    facts->cgroup_reason = cgroup_root_reason(root);
    facts->cgroup_fix = cgroup_root_fix(root);
}

void facts_release(struct facts *facts)
{
    free(facts->home);
    strings_release(&facts->root_dirs);
    strings_release(&facts->root_links);
    strings_release(&facts->etc_paths);
    strings_release(&facts->proc_paths);
    *facts = (struct facts){0};
}
