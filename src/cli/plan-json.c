/* SPDX-License-Identifier: Apache-2.0 */
/* Plans, and the isolation they promise, as JSON. */
#include "cli/plan-json.h"

#include <arpa/inet.h>
#include <string.h>

#include "core/utf8.h"

static const struct {
    uint64_t flag;
    const char *name;
} namespaces[] = {
    {CLONE_NEWUSER, "user"},     {CLONE_NEWNS, "mount"}, {CLONE_NEWPID, "pid"},
    {CLONE_NEWNET, "net"},       {CLONE_NEWIPC, "ipc"},  {CLONE_NEWUTS, "uts"},
    {CLONE_NEWCGROUP, "cgroup"},
};

static const struct {
    int resource;
    const char *name;
} resources[] = {
    {RLIMIT_AS, "as"},
    {RLIMIT_CORE, "core"},
    {RLIMIT_CPU, "cpu"},
    {RLIMIT_DATA, "data"},
    {RLIMIT_FSIZE, "fsize"},
    {RLIMIT_MEMLOCK, "memlock"},
    {RLIMIT_MSGQUEUE, "msgqueue"},
    {RLIMIT_NICE, "nice"},
    {RLIMIT_NOFILE, "nofile"},
    {RLIMIT_NPROC, "nproc"},
    {RLIMIT_RTPRIO, "rtprio"},
    {RLIMIT_SIGPENDING, "sigpending"},
    {RLIMIT_STACK, "stack"},
};

const char *cgroup_version_name(enum cgroup_version version)
{
    static const char *const names[CGROUP_VERSION_MAX] = {
        [CGROUP_NONE] = "none", [CGROUP_V1] = "v1", [CGROUP_V2] = "v2"};
    return (unsigned)version < CGROUP_VERSION_MAX ? names[version] : "none";
}

json_t *json_text(const char *bytes, size_t size)
{
    size_t clean_size;
    cleanup_free char *clean = utf8_repair(bytes, size, &clean_size);
    return json_stringn_nocheck(clean, clean_size);
}

static json_t *text(const char *string)
{
    return json_text(string, strlen(string));
}

static json_t *count(uint64_t number)
{
    return json_integer((json_int_t)number);
}

static json_t *strings_to_json(const struct strings *list)
{
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(array, text(list->items[i]));
    return array;
}

static json_t *namespaces_to_json(uint64_t flags)
{
    json_t *array = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
        if (flags & namespaces[i].flag)
            json_array_append_new(array, json_string(namespaces[i].name));
    }
    return array;
}

/* --- what a session has ----------------------------------------------------------------------- */

static json_t *limit_to_json(const char *unit, json_t *value, enum limit_means means)
{
    return json_pack("{s:o,s:s}", unit, value, "by", limit_means_name(means));
}

static json_t *limits_to_json(const struct plan *plan, const struct sandbox_spec *spec)
{
    json_t *object = json_object();
    json_t *cpus = json_real(spec->cpu_milli / 1000.0);
    json_object_set_new(object, "memory",
                        limit_to_json("bytes", count(spec->memory_bytes), plan->memory_by));
    json_object_set_new(object, "cpus", limit_to_json("count", cpus, plan->cpu_by));
    json_object_set_new(object, "pids", limit_to_json("count", count(spec->pids), plan->pids_by));
    return object;
}

static json_t *quota_to_json(const struct plan *plan)
{
    if (plan->quota_bytes == 0)
        return json_null();
    return json_pack("{s:I,s:I,s:s}", "bytes", (json_int_t)plan->quota_bytes, "inodes",
                     (json_int_t)plan->quota_inodes, "by",
                     plan->quota_on_mount ? "project quota" : "file system of its own");
}

json_t *isolation_to_json(const struct plan *plan, const struct sandbox_spec *spec)
{
    json_t *object = json_object();
    json_object_set_new(object, "namespaces", namespaces_to_json(plan->namespaces));
    json_object_set_new(object, "ids", json_string(id_scheme_name(plan->ids)));
    json_object_set_new(object, "capabilities", json_array());
    json_object_set_new(object, "seccomp", json_string(seccomp_profile_name(plan->seccomp)));
    json_object_set_new(object, "cgroup", json_string(cgroup_version_name(plan->cgroup)));
    json_object_set_new(object, "limits", limits_to_json(plan, spec));
    json_object_set_new(object, "network", json_string(network_mode_name(plan->network)));
    json_object_set_new(object, "allow_net", strings_to_json(&spec->allow_net));
    json_object_set_new(object, "read_only_root", json_boolean(!spec->writable_root));
    json_object_set_new(object, "quota", quota_to_json(plan));
    json_object_set_new(object, "notes", strings_to_json(&plan->notes));
    return object;
}

/* --- what would be done ----------------------------------------------------------------------- */

static json_t *maps_to_json(const struct id_map *maps, size_t map_count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < map_count; i++)
        json_array_append_new(
            array, json_pack("{s:I,s:I,s:I}", "inside", (json_int_t)maps[i].inside, "outside",
                             (json_int_t)maps[i].outside, "count", (json_int_t)maps[i].count));
    return array;
}

static json_t *ids_to_json(const struct plan *plan)
{
    json_t *object = json_object();
    json_object_set_new(object, "scheme", json_string(id_scheme_name(plan->ids)));
    json_object_set_new(object, "uids", maps_to_json(plan->uid_maps, plan->uid_map_count));
    json_object_set_new(object, "gids", maps_to_json(plan->gid_maps, plan->gid_map_count));
    json_object_set_new(object, "outside_is_relative", json_boolean(plan->ids == ID_RANGE));
    return object;
}

/* Only what a step of its kind has. */
static json_t *step_to_json(const struct step *step)
{
    char mode[8];
    json_t *object = json_object();
    json_object_set_new(object, "kind", json_string(step_kind_name(step->kind)));
    json_object_set_new(object, "target", text(step->target));
    if (step->source)
        json_object_set_new(object, "source", text(step->source));
    if (step->text)
        json_object_set_new(object, "text", text(step->text));
    if (step->bytes)
        json_object_set_new(object, "bytes", count(step->bytes));
    if (step->inodes)
        json_object_set_new(object, "inodes", count(step->inodes));
    if (step->mode) {
        snprintf(mode, sizeof mode, "%04o", step->mode & 07777);
        json_object_set_new(object, "mode", json_string(mode));
    }
    json_object_set_new(object, "writable", json_boolean(step->writable));
    if (step->checked)
        json_object_set_new(object, "checked", json_true());
    if (step->owned)
        json_object_set_new(object, "owned", json_true());
    return object;
}

static json_t *rlimit_value(rlim_t value)
{
    return value == RLIM_INFINITY ? json_null() : count(value);
}

static json_t *rlimits_to_json(const struct plan *plan)
{
    json_t *object = json_object();
    for (size_t i = 0; i < plan->rlimit_count; i++) {
        const struct plan_rlimit *limit = &plan->rlimits[i];
        for (size_t j = 0; j < ARRAY_SIZE(resources); j++) {
            if (resources[j].resource == limit->resource)
                json_object_set_new(object, resources[j].name,
                                    json_pack("{s:o,s:o}", "soft", rlimit_value(limit->soft),
                                              "hard", rlimit_value(limit->hard)));
        }
    }
    return object;
}

static json_t *network_to_json(const struct plan *plan)
{
    char address[INET6_ADDRSTRLEN + 8];
    json_t *object = json_object();
    json_t *allow = json_array();
    json_t *resolvers = json_array();
    for (size_t i = 0; i < plan->net.allow_count; i++) {
        net_cidr_format(&plan->net.allow[i], address, sizeof address);
        json_array_append_new(allow, json_string(address));
    }
    for (size_t i = 0; plan->network == NETWORK_ON && i < plan->net.resolver_count; i++) {
        if (inet_ntop(AF_INET, &plan->net.resolvers[i], address, sizeof address))
            json_array_append_new(resolvers, json_string(address));
    }
    json_object_set_new(object, "mode", json_string(network_mode_name(plan->network)));
    json_object_set_new(object, "allow", allow);
    json_object_set_new(object, "resolvers", resolvers);
    return object;
}

json_t *plan_to_json(const struct plan *plan, const struct sandbox_spec *spec)
{
    json_t *object = json_object();
    json_t *steps = json_array();
    for (size_t i = 0; i < plan->step_count; i++)
        json_array_append_new(steps, step_to_json(&plan->steps[i]));
    json_object_set_new(object, "namespaces", namespaces_to_json(plan->namespaces));
    json_object_set_new(object, "ids", ids_to_json(plan));
    json_object_set_new(object, "steps", steps);
    json_object_set_new(object, "cgroup", json_string(cgroup_version_name(plan->cgroup)));
    json_object_set_new(object, "limits", limits_to_json(plan, spec));
    json_object_set_new(object, "rlimits", rlimits_to_json(plan));
    json_object_set_new(object, "network", network_to_json(plan));
    json_object_set_new(object, "seccomp", json_string(seccomp_profile_name(plan->seccomp)));
    json_object_set_new(object, "quota", quota_to_json(plan));
    json_object_set_new(object, "notes", strings_to_json(&plan->notes));
    return object;
}
