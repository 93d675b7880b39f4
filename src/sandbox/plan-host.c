/* SPDX-License-Identifier: Apache-2.0 */
/* The root file system `host`: the host's programs read-only, a small made /etc, fresh /proc, /dev,
 * /tmp. */
#include <string.h>

#include "sandbox/plan-internal.h"

#define ROOT_BYTES  (1024ULL * 1024)
#define ROOT_INODES 1024ULL
#define DEV_BYTES   (64ULL * 1024)
#define DEV_INODES  64ULL

/* Files and directories belong to whom the root belongs to: with a writable root, the user inside.
 */
static void add_dir(struct plan *plan, const char *target, uint32_t mode)
{
    plan_add(plan, (struct step){.kind = STEP_DIR,
                                 .target = (char *)target,
                                 .mode = mode,
                                 .owned = plan->steps[0].owned});
}

static void add_file(struct plan *plan, const char *target, const char *text)
{
    plan_add(plan, (struct step){.kind = STEP_FILE,
                                 .target = (char *)target,
                                 .text = (char *)text,
                                 .mode = 0644,
                                 .owned = plan->steps[0].owned});
}

static void add_link(struct plan *plan, const char *target, const char *text)
{
    plan_add(plan,
             (struct step){.kind = STEP_LINK, .target = (char *)target, .text = (char *)text});
}

static void add_bind(struct plan *plan, const char *path)
{
    plan_add(plan,
             (struct step){.kind = STEP_BIND, .target = (char *)path, .source = (char *)path});
}

static void add_programs(struct plan *plan, const struct sandbox_spec *spec,
                         const struct facts *facts)
{
    for (size_t i = 0; i < facts->root_dirs.count; i++) {
        const char *path = facts->root_dirs.items[i];
        if (spec->writable_root)
            plan_add(plan, (struct step){.kind = STEP_OVERLAY,
                                         .target = (char *)path,
                                         .source = (char *)path,
                                         .bytes = spec->scratch_bytes,
                                         .inodes = spec->scratch_inodes,
                                         .writable = true});
        else
            add_bind(plan, path);
    }
    for (size_t i = 0; i < facts->root_links.count; i++) {
        const char *item = facts->root_links.items[i];
        const char *equals = strchr(item, '=');
        cleanup_free char *target = xstrndup(item, (size_t)(equals - item));
        add_link(plan, target, equals + 1);
    }
}

static void add_etc(struct plan *plan, const struct sandbox_spec *spec, const struct facts *facts)
{
    add_dir(plan, "/etc", 0755);
    add_file(plan, "/etc/passwd",
             "root:x:0:0:root:/:/usr/sbin/nologin\n" BOX_USER ":x:1000:1000:" BOX_USER ":" BOX_HOME
             ":/bin/sh\n"
             "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
    add_file(plan, "/etc/group", "root:x:0:\n" BOX_USER ":x:1000:\nnogroup:x:65534:\n");
    add_file(plan, "/etc/hosts", "127.0.0.1 localhost " BOX_USER "\n::1 localhost\n");
    add_file(plan, "/etc/hostname", BOX_USER "\n");
    add_file(plan, "/etc/nsswitch.conf",
             "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
             "protocols: files\nservices: files\n");
    if (spec->network == NETWORK_ON) {
        cleanup_free char *text = net_resolv_conf(&plan->net);
        add_file(plan, "/etc/resolv.conf", text);
    }
    for (size_t i = 0; i < facts->etc_paths.count; i++)
        add_bind(plan, facts->etc_paths.items[i]);
}

static void add_proc(struct plan *plan, const struct facts *facts)
{
    plan_add(plan, (struct step){.kind = STEP_PROC, .target = (char *)"/proc"});
    for (size_t i = 0; i < facts->proc_paths.count; i++) {
        /* "r/proc/sys", "f/proc/kcore", "d/proc/acpi": see facts.c. */
        const char *item = facts->proc_paths.items[i];
        enum step_kind kind = item[0] == 'r'   ? STEP_PROTECT
                              : item[0] == 'd' ? STEP_MASK_DIR
                                               : STEP_MASK_FILE;
        plan_add(plan, (struct step){.kind = kind, .target = (char *)item + 1});
    }
}

static void add_dev(struct plan *plan)
{
    static const char *const nodes[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                        "/dev/random", "/dev/urandom", "/dev/tty"};
    static const char *const links[][2] = {
        {"/dev/fd", "/proc/self/fd"},       {"/dev/stdin", "/proc/self/fd/0"},
        {"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"},
        {"/dev/ptmx", "pts/ptmx"},
    };
    plan_add(plan, (struct step){.kind = STEP_TMPFS,
                                 .target = (char *)"/dev",
                                 .bytes = DEV_BYTES,
                                 .inodes = DEV_INODES,
                                 .mode = 0755,
                                 .writable = true});
    for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
        plan_add(plan, (struct step){.kind = STEP_DEVICE,
                                     .target = (char *)nodes[i],
                                     .source = (char *)nodes[i]});
    for (size_t i = 0; i < ARRAY_SIZE(links); i++)
        add_link(plan, links[i][0], links[i][1]);
    add_dir(plan, "/dev/pts", 0755);
    add_dir(plan, "/dev/shm", 0755);
    plan_add(plan, (struct step){.kind = STEP_PROTECT, .target = (char *)"/dev"});
}

static void add_scratch(struct plan *plan, const struct sandbox_spec *spec, const char *target,
                        uint32_t mode)
{
    plan_add(plan, (struct step){.kind = STEP_SCRATCH,
                                 .target = (char *)target,
                                 .bytes = spec->scratch_bytes,
                                 .inodes = spec->scratch_inodes,
                                 .mode = mode,
                                 .writable = true,
                                 .owned = true});
}

static void add_base(struct plan *plan, const struct sandbox_spec *spec, const struct facts *facts)
{
    static const char *const mount_points[] = {"/proc", "/tmp", "/home", BOX_HOME, SPEC_WORKSPACE};
    plan_add(plan, (struct step){.kind = STEP_TMPFS,
                                 .target = (char *)"/",
                                 .bytes = spec->writable_root ? spec->scratch_bytes : ROOT_BYTES,
                                 .inodes = spec->writable_root ? spec->scratch_inodes : ROOT_INODES,
                                 .mode = 0755,
                                 .writable = true,
                                 .owned = spec->writable_root});
    add_programs(plan, spec, facts);
    add_etc(plan, spec, facts);
    add_dev(plan);
    add_dir(plan, "/run", 0755);
    add_dir(plan, "/var", 0755);
    add_link(plan, "/var/tmp", "../tmp");
    add_link(plan, "/var/run", "../run");
    for (size_t i = 0; i < ARRAY_SIZE(mount_points); i++)
        add_dir(plan, mount_points[i], 0755);
    /* A root that can be written to is a session's own. */
    plan->base_count = spec->writable_root ? 0 : plan->step_count;
}

void plan_host_root(struct plan *plan, const struct sandbox_spec *spec, const struct facts *facts)
{
    add_base(plan, spec, facts);
    add_scratch(plan, spec, "/tmp", 01777);
    add_scratch(plan, spec, "/dev/shm", 01777);
    add_scratch(plan, spec, BOX_HOME, 0755);
    plan_add(plan, (struct step){.kind = STEP_DEVPTS, .target = (char *)"/dev/pts"});
    add_proc(plan, facts);
}

void plan_seal_root(struct plan *plan, const struct sandbox_spec *spec)
{
    if (!spec->writable_root)
        plan_add(plan, (struct step){.kind = STEP_PROTECT, .target = (char *)"/"});
}
