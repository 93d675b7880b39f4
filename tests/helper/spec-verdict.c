/* SPDX-License-Identifier: Apache-2.0 */
/* What boxd makes of LangBot's specs: one JSON value a line on standard input, one verdict a line
   on standard output, {"ok":true,"value":{…}} or {"ok":false,"error":"…"}. The keys of a value are
   those of the Python models. usage: spec-verdict spec|process|grant|revocation|policy|context */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/decode.h"
#include "api/rpc-spec.h"
#include "core/clock.h"
#include "core/json-out.h"
#include "core/json.h"

/* With all its digits, unlike out_double(). */
static void out_cpus(struct json_out *out, double cpus)
{
    cleanup_json json_t *number = json_real(cpus);
    out_tree(out, "cpus", number);
}

static void out_env(struct json_out *out, const struct strings *env)
{
    out_open(out, "env", '{');
    for (size_t i = 0; i < env->count; i++) {
        char *equals = strchr(env->items[i], '=');
        *equals = '\0';
        out_text(out, env->items[i], equals + 1);
        *equals = '=';
    }
    out_close(out, '}');
}

static void out_mounts(struct json_out *out, const struct session_spec *spec)
{
    out_open(out, "extra_mounts", '[');
    for (size_t i = 0; i < spec->mount_count; i++) {
        out_open(out, NULL, '{');
        out_text(out, "host_path", spec->mounts[i].host_path);
        out_text(out, "mount_path", spec->mounts[i].mount_path);
        out_text(out, "mode", mount_mode_name(spec->mounts[i].mode));
        out_close(out, '}');
    }
    out_close(out, ']');
}

static int judge_spec(const json_t *value, struct json_out *out, struct error *err)
{
    struct rpc_spec spec;
    int rc = rpc_spec_decode(value, &spec, err);
    if (rc == 0) {
        const struct session_spec *session = &spec.session;
        out_text(out, "cmd", spec.cmd);
        out_text(out, "workdir", spec.workdir);
        out_unsigned(out, "timeout_sec", spec.timeout_sec);
        out_text(out, "network", session->network ? "on" : "off");
        out_text(out, "session_id", session->name);
        out_env(out, &spec.env);
        out_text(out, "image", session->image);
        out_text(out, "host_path", session->host_path);
        out_text(out, "host_path_mode", mount_mode_name(session->host_path_mode));
        out_text(out, "mount_path", session->mount_path);
        out_mounts(out, session);
        out_text(out, "skill_name", spec.skill_name);
        out_flag(out, "persistent", session->persistent);
        out_cpus(out, session->cpus);
        out_unsigned(out, "memory_mb", session->memory_mb);
        out_unsigned(out, "pids_limit", session->pids_limit);
        out_flag(out, "read_only_rootfs", session->read_only_rootfs);
        out_unsigned(out, "workspace_quota_mb", session->workspace_quota_mb);
    }
    rpc_spec_release(&spec);
    return rc;
}

static int judge_process(const json_t *value, struct json_out *out, struct error *err)
{
    cleanup_process_spec struct process_spec spec;
    if (rpc_process_decode(value, &spec, err) < 0)
        return -1;
    out_text(out, "process_id", spec.id);
    out_text(out, "command", spec.command);
    out_open(out, "args", '[');
    for (size_t i = 0; i < spec.args.count; i++)
        out_text(out, NULL, spec.args.items[i]);
    out_close(out, ']');
    out_env(out, &spec.env);
    out_text(out, "cwd", spec.cwd);
    out_unsigned(out, "memory_mb", spec.memory_mb);
    return 0;
}

static int judge_grant(const json_t *value, struct json_out *out, struct error *err)
{
    struct admission_grant grant;
    int rc = rpc_grant_decode(value, &grant, err);
    if (rc == 0) {
        char expires[CLOCK_TEXT_SIZE];
        clock_text(grant.expires_us, expires);
        out_text(out, "instance_uuid", grant.instance);
        out_text(out, "workspace_uuid", grant.workspace);
        out_unsigned(out, "execution_generation", grant.generation);
        out_unsigned(out, "entitlement_revision", grant.revision);
        out_text(out, "expires_at", expires);
        out_unsigned(out, "max_sessions", grant.max_sessions);
        out_unsigned(out, "max_managed_processes", grant.max_managed_processes);
    }
    admission_grant_release(&grant);
    return rc;
}

static int judge_revocation(const json_t *value, struct json_out *out, struct error *err)
{
    struct rpc_revocation revocation;
    int rc = rpc_revocation_decode(value, &revocation, err);
    if (rc == 0) {
        out_text(out, "instance_uuid", revocation.instance);
        out_text(out, "workspace_uuid", revocation.workspace);
        out_unsigned(out, "entitlement_revision", revocation.revision);
    }
    rpc_revocation_release(&revocation);
    return rc;
}

static int judge_policy(const json_t *value, struct json_out *out, struct error *err)
{
    struct admission_policy policy;
    rpc_policy_decode(value, &policy);
    int rc = policy.problem ? error_set(err, ERROR_INVALID, "%s", policy.problem) : 0;
    if (rc == 0) {
        out_flag(out, "required", policy.required);
        out_unsigned(out, "max_sessions", policy.max_sessions);
        out_unsigned(out, "max_managed_processes", policy.max_managed_processes);
        out_unsigned(out, "max_grant_ttl_sec", policy.max_grant_ttl_sec);
        out_unsigned(out, "max_timeout_sec", policy.max_timeout_sec);
        out_cpus(out, policy.cpus);
        out_unsigned(out, "memory_mb", policy.memory_mb);
        out_unsigned(out, "pids_limit", policy.pids_limit);
        out_flag(out, "read_only_rootfs", policy.read_only_rootfs);
        out_unsigned(out, "workspace_quota_mb", policy.workspace_quota_mb);
        out_unsigned(out, "readiness_cache_sec", policy.readiness_cache_sec);
    }
    admission_policy_release(&policy);
    return rc;
}

static int judge_context(const json_t *value, struct json_out *out, struct error *err)
{
    struct rpc_context context;
    int rc = rpc_context_decode(value, &context, err);
    if (rc == 0) {
        out_text(out, "instance_uuid", context.instance);
        out_text(out, "workspace_uuid", context.workspace);
        out_unsigned(out, "placement_generation", context.generation);
    }
    rpc_context_release(&context);
    return rc;
}

typedef int (*judge_value)(const json_t *value, struct json_out *out, struct error *err);

static const struct {
    const char *name;
    judge_value judge;
} modes[] = {
    {"spec", judge_spec},     {"process", judge_process},
    {"grant", judge_grant},   {"revocation", judge_revocation},
    {"policy", judge_policy}, {"context", judge_context},
};

static void say(judge_value judge, const char *line, size_t size)
{
    struct error err = ERROR_INIT;
    cleanup_json json_t *value = NULL;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    if (json_parse_lax(line, size, &value, &err) == 0 && judge(value, &out, &err) == 0) {
        out_close(&out, '}');
        printf("{\"ok\":true,\"value\":%.*s}\n", (int)out.buf.size, out.buf.data);
        return;
    }
    out_flag(&out, "ok", false);
    out_text(&out, "error", err.message);
    out_close(&out, '}');
    printf("%.*s\n", (int)out.buf.size, out.buf.data);
}

int main(int argc, char **argv)
{
    judge_value chosen = NULL;
    for (size_t i = 0; argc == 2 && i < ARRAY_SIZE(modes); i++) {
        if (strcmp(argv[1], modes[i].name) == 0)
            chosen = modes[i].judge;
    }
    if (!chosen) {
        fprintf(stderr, "usage: spec-verdict spec|process|grant|revocation|policy|context\n");
        return 2;
    }
    cleanup_free char *line = NULL;
    size_t capacity = 0;
    for (ssize_t size; (size = getline(&line, &capacity, stdin)) > 0;)
        say(chosen, line, (size_t)size);
    return 0;
}
