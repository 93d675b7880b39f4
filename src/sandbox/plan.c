/* SPDX-License-Identifier: Apache-2.0 */
/* From what is wanted and what the machine is to a list of things to do. No side effect. */
#include "sandbox/plan.h"

#include <string.h>

#include "core/path.h"
#include "sandbox/idrange.h"
#include "sandbox/plan-internal.h"

static const char *const kind_names[STEP_KIND_MAX] = {
#define X(name, text) [STEP_##name] = text,
    STEP_KINDS(X)
#undef X
};

const char *step_kind_name(enum step_kind kind)
{
    return (unsigned)kind < STEP_KIND_MAX ? kind_names[kind] : "invalid";
}

const char *limit_means_name(enum limit_means means)
{
    static const char *const names[] = {"cgroup", "rlimit", "none"};
    return (unsigned)means < ARRAY_SIZE(names) ? names[means] : "invalid";
}

const char *id_scheme_name(enum id_scheme scheme)
{
    static const char *const names[] = {"private range", "subordinate range", "single"};
    return (unsigned)scheme < ARRAY_SIZE(names) ? names[scheme] : "invalid";
}

struct step *plan_add(struct plan *plan, struct step proto)
{
    plan->steps = xreallocarray(plan->steps, plan->step_count + 1, sizeof *plan->steps);
    struct step *step = &plan->steps[plan->step_count++];
    *step = proto;
    step->target = xstrdup(proto.target);
    step->source = proto.source ? xstrdup(proto.source) : NULL;
    step->text = proto.text ? xstrdup(proto.text) : NULL;
    return step;
}

void plan_release(struct plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        free(plan->steps[i].target);
        free(plan->steps[i].source);
        free(plan->steps[i].text);
    }
    free(plan->steps);
    strings_release(&plan->notes);
    *plan = (struct plan){0};
}

bool plan_can_kill_lane(const struct plan *plan)
{
    return plan->cgroup != CGROUP_NONE && !plan->single;
}

static bool has_mount_point(const struct plan *plan, size_t step)
{
    const char *target = plan->steps[step].target;
    for (size_t i = 0; i < step; i++) {
        const struct step *other = &plan->steps[i];
        if (i < plan->base_count && other->kind == STEP_DIR && strcmp(other->target, target) == 0)
            return true;
        if (i >= plan->base_count && path_is_below(target, other->target))
            return true;
    }
    return strcmp(target, "/") == 0;
}

bool plan_base_suffices(const struct plan *plan)
{
    for (size_t i = plan->base_count; i < plan->step_count; i++) {
        if (!has_mount_point(plan, i))
            return false;
    }
    return plan->base_count > 0;
}

/* Maps the caller's own id to the user inside and spreads a range over the rest. */
static size_t map_around(struct id_map *maps, uint32_t own, uint32_t box, struct subid_range range)
{
    maps[0] = (struct id_map){.inside = box, .outside = own, .count = 1};
    if (range.count < IDRANGE_SIZE)
        return 1;
    maps[1] = (struct id_map){.inside = 0, .outside = range.first, .count = box};
    maps[2] = (struct id_map){
        .inside = box + 1, .outside = range.first + box + 1, .count = IDRANGE_SIZE - box - 1};
    return 3;
}

static int plan_ids(struct plan *plan, const struct sandbox_spec *spec, const struct facts *facts,
                    struct error *err)
{
    if (facts->root) {
        plan->ids = ID_RANGE;
        plan->uid_maps[0] = plan->gid_maps[0] = (struct id_map){.count = IDRANGE_SIZE};
        plan->uid_map_count = plan->gid_map_count = 1;
        return 0;
    }
    bool ranges = facts->subuid.count >= IDRANGE_SIZE && facts->subgid.count >= IDRANGE_SIZE;
    struct subid_range none = {0};
    plan->ids = ranges ? ID_SUBIDS : ID_SINGLE;
    plan->uid_map_count =
        map_around(plan->uid_maps, facts->uid, BOX_UID, ranges ? facts->subuid : none);
    plan->gid_map_count =
        map_around(plan->gid_maps, facts->gid, BOX_GID, ranges ? facts->subgid : none);
    if (ranges || !facts->extra_groups)
        return 0;
    static const char kept[] =
        "the kernel does not let this user drop its supplementary groups: what "
        "they may read, the sandbox may read where it is mounted";
    strings_add(&plan->notes, kept);
    if (!spec->strict)
        return 0;
    error_set(err, ERROR_UNSUPPORTED, "%s", kept);
    return error_hint(err, "give the user a range of ids: usermod --add-subuids 100000-165535 "
                           "--add-subgids 100000-165535 USER (and apt-get install uidmap)");
}

static void plan_rlimit(struct plan *plan, int resource, rlim_t soft, rlim_t hard)
{
    plan->rlimits[plan->rlimit_count++] =
        (struct plan_rlimit){.resource = resource, .soft = soft, .hard = hard};
}

/* One limit, and what becomes of it where the cgroups cannot hold it. */
struct limit_rule {
    enum spec_asked asked;
    const char *option;
    const char *noun;
    bool can;
    enum limit_means *by;
    enum limit_means otherwise;
};

/* What was asked for by name is an error, a default becomes a weaker rung. */
static int plan_limit(const struct limit_rule *rule, const struct sandbox_spec *spec,
                      const struct facts *facts, bool *weaker, struct error *err)
{
    *rule->by = rule->can ? LIMIT_BY_CGROUP : rule->otherwise;
    if (rule->can)
        return 0;
    *weaker = true;
    if (spec->asked & rule->asked)
        error_set(err, ERROR_UNSUPPORTED, "the %s limit (%s) cannot be enforced: %s", rule->noun,
                  rule->option, facts->cgroup_reason);
    else if (spec->strict)
        error_set(err, ERROR_UNSUPPORTED, "no cgroup to hold the default %s limit: %s", rule->noun,
                  facts->cgroup_reason);
    else
        return 0;
    return error_hint(err, "%s", facts->cgroup_fix);
}

static int plan_limits(struct plan *plan, const struct sandbox_spec *spec,
                       const struct facts *facts, struct error *err)
{
    const struct limit_rule rules[] = {
        {SPEC_ASKED_MEMORY, "--memory", "memory", facts->limits_memory, &plan->memory_by,
         LIMIT_BY_RLIMIT},
        {SPEC_ASKED_CPU, "--cpus", "CPU", facts->limits_cpu, &plan->cpu_by, LIMIT_NONE},
        {SPEC_ASKED_PIDS, "--pids", "process", facts->limits_pids, &plan->pids_by, LIMIT_BY_RLIMIT},
    };
    bool weaker = false;
    plan->cgroup = facts->cgroup;
    /* 1, not 0: the kernel takes 0 for "a core file of no size" and still wakes a handler that the
       host has set up to be piped to; 1 is its word for none at all. */
    plan_rlimit(plan, RLIMIT_CORE, 1, 1);
    plan_rlimit(plan, RLIMIT_NOFILE, 4096, 65536);
    /* Counted for the host's user, whom one session must not starve. */
    plan_rlimit(plan, RLIMIT_SIGPENDING, 1024, 1024);
    plan_rlimit(plan, RLIMIT_MSGQUEUE, 819200, 819200);
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        if (plan_limit(&rules[i], spec, facts, &weaker, err) < 0)
            return -1;
    }
    if (plan->memory_by == LIMIT_BY_CGROUP)
        plan->limits.memory_bytes = spec->memory_bytes;
    else
        plan_rlimit(plan, RLIMIT_DATA, spec->memory_bytes, spec->memory_bytes);
    if (plan->cpu_by == LIMIT_BY_CGROUP)
        plan->limits.cpu_milli = spec->cpu_milli;
    /* init and the launcher of the first lane are the sandbox's, not the caller's. */
    if (plan->pids_by == LIMIT_BY_CGROUP)
        plan->limits.pids = spec->pids + 2;
    else
        plan_rlimit(plan, RLIMIT_NPROC, spec->pids, spec->pids);
    if (weaker)
        strings_take(&plan->notes,
                     xasprintf("not all limits hold for the sandbox as a whole (memory: "
                               "%s, cpu: %s, processes: %s): %s",
                               limit_means_name(plan->memory_by), limit_means_name(plan->cpu_by),
                               limit_means_name(plan->pids_by), facts->cgroup_reason));
    return 0;
}

static int plan_network(struct plan *plan, const struct sandbox_spec *spec,
                        const struct facts *facts, struct error *err)
{
    plan->network = spec->network;
    plan->net = facts->net;
    if (spec->network == NETWORK_OFF)
        return 0;
    for (size_t i = 0; i < spec->allow_net.count; i++) {
        struct net_cidr *cidr = &plan->net.allow[plan->net.allow_count++];
        if (net_cidr_parse(spec->allow_net.items[i], cidr, err) < 0)
            return -1;
    }
    return 0;
}

static const struct spec_mount *workspace_mount(const struct sandbox_spec *spec)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        if (strcmp(spec->mounts[i].target, spec->workspace) == 0)
            return &spec->mounts[i];
    }
    return NULL;
}

static int plan_workspace(struct plan *plan, const struct sandbox_spec *spec,
                          const struct facts *facts, struct error *err)
{
    plan->quota_bytes = spec->quota_bytes;
    plan->quota_inodes = spec->quota_inodes;
    plan->quota_on_mount = spec->quota_bytes > 0 && workspace_mount(spec);
    if (workspace_mount(spec))
        return 0;
    if (spec->quota_bytes == 0) {
        plan_add(plan, (struct step){.kind = STEP_SCRATCH,
                                     .target = spec->workspace,
                                     .bytes = spec->scratch_bytes,
                                     .inodes = spec->scratch_inodes,
                                     .mode = 0755,
                                     .writable = true,
                                     .owned = true});
        return 0;
    }
    if (!facts->root) {
        error_set(err, ERROR_UNSUPPORTED,
                  "a workspace with a quota is a file system of its own, which an ordinary user "
                  "cannot mount");
        return error_hint(err, "run as root, or leave the quota out: /workspace is then in memory, "
                               "as large as /tmp");
    }
    plan_add(plan, (struct step){.kind = STEP_IMAGE,
                                 .target = spec->workspace,
                                 .bytes = spec->quota_bytes,
                                 .inodes = spec->quota_inodes,
                                 .writable = true,
                                 .owned = true});
    return 0;
}

static int compare_steps(const void *a, const void *b)
{
    const struct step *x = a;
    const struct step *y = b;
    return strcmp(x->target, y->target);
}

/* The caller's mounts and read-only paths: parents before what lies inside them, whatever order
   they were given in. */
static int plan_mounts(struct plan *plan, const struct sandbox_spec *spec,
                       const struct mount_policy *policy, struct error *err)
{
    struct step order[SPEC_MOUNTS_MAX + SPEC_PATHS_MAX] = {0};
    size_t count = 0;
    for (size_t i = 0; i < spec->mount_count; i++, count++)
        order[count] = (struct step){.kind = STEP_BIND,
                                     .target = spec->mounts[i].target,
                                     .source = spec->mounts[i].source,
                                     .writable = spec->mounts[i].writable,
                                     .checked = true,
                                     .make = spec->mounts[i].make,
                                     .quota = spec->quota_bytes > 0 &&
                                              &spec->mounts[i] == workspace_mount(spec),
                                     .owned = true};
    for (size_t i = 0; i < spec->ro_paths.count; i++, count++)
        order[count] = (struct step){.kind = STEP_BIND,
                                     .target = spec->ro_paths.items[i],
                                     .source = spec->ro_paths.items[i],
                                     .checked = true};
    qsort(order, count, sizeof order[0], compare_steps);
    for (size_t i = 0; i < count; i++) {
        if (mount_policy_check(policy, order[i].source, err) < 0)
            return -1;
        plan_add(plan, order[i]);
    }
    return 0;
}

int plan_build(const struct sandbox_spec *spec, const struct facts *facts,
               const struct mount_policy *policy, struct plan *ret, struct error *err)
{
    struct plan plan = {
        .namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                      CLONE_NEWUTS | CLONE_NEWCGROUP,
        .seccomp = spec->seccomp,
        .single = spec->single,
    };
    if (sandbox_spec_check(spec, err) < 0)
        goto fail;
    if (plan_ids(&plan, spec, facts, err) < 0 || plan_limits(&plan, spec, facts, err) < 0 ||
        plan_network(&plan, spec, facts, err) < 0)
        goto fail;
    plan_host_root(&plan, spec, facts);
    if (plan_workspace(&plan, spec, facts, err) < 0 || plan_mounts(&plan, spec, policy, err) < 0)
        goto fail;
    plan_seal_root(&plan, spec);
    *ret = plan;
    return 0;
fail:
    plan_release(&plan);
    return -1;
}
