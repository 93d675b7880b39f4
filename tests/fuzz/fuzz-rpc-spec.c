/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's specs from hostile bytes: lax JSON, then every decoder. */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "api/decode.h"
#include "api/rpc-spec.h"
#include "core/json.h"
#include "core/lax.h"
#include "core/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_failure(int rc, const struct error *err)
{
    assert(rc == 0 || (rc == -1 && err->code == ERROR_INVALID && err->message[0]));
}

/* A text is what some string of the document is, whole or trimmed: never a part that a NUL ended.
 */
static void check_text(const char *text, const json_t *value)
{
    const char *given = json_string_value(value);
    size_t size = json_string_length(value);
    assert(given && !memchr(given, '\0', size));
    bool whole = strlen(text) == size && memcmp(text, given, size) == 0;
    utf8_strip(&given, &size);
    assert(whole || (strlen(text) == size && memcmp(text, given, size) == 0));
}

static void check_member(const char *text, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_null(value))
        check_text(text, value);
}

static void check_env(const struct strings *env, const json_t *object)
{
    const json_t *value = json_object_get(object, "env");
    assert(env->count == json_object_size(value));
    for (size_t i = 0; i < env->count; i++) {
        char *equals = strchr(env->items[i], '=');
        assert(equals && equals > env->items[i]);
        *equals = '\0';
        const json_t *item = json_object_get(value, env->items[i]);
        assert(strlen(equals + 1) == json_string_length(item));
    }
}

static void fuzz_spec(const json_t *value)
{
    struct rpc_spec spec;
    struct error err = ERROR_INIT;
    int rc = rpc_spec_decode(value, &spec, &err);
    check_failure(rc, &err);
    if (rc == 0) {
        const struct session_spec *session = &spec.session;
        assert(session_spec_check(session, NULL) == 0);
        assert(spec.timeout_sec >= 1 && spec.timeout_sec <= UINT32_MAX);
        assert(spec.workdir[0] == '/' && session->mount_path[0] == '/');
        assert(!spec.skill_name || spec.skill_name[0]);
        check_text(session->name, json_object_get(value, "session_id"));
        check_member(spec.cmd, value, "cmd");
        check_member(session->image, value, "image");
        check_member(session->mount_path, value, "mount_path");
        if (session->host_path)
            check_member(session->host_path, value, "host_path");
        check_env(&spec.env, value);
        for (size_t i = 0; i < session->mount_count; i++) {
            const json_t *mount = json_array_get(json_object_get(value, "extra_mounts"), i);
            check_member(session->mounts[i].host_path, mount, "host_path");
            check_member(session->mounts[i].mount_path, mount, "mount_path");
        }
    }
    rpc_spec_release(&spec);
}

static void fuzz_process(const json_t *value)
{
    struct process_spec spec;
    struct error err = ERROR_INIT;
    int rc = rpc_process_decode(value, &spec, &err);
    check_failure(rc, &err);
    if (rc == 0) {
        assert(process_spec_check(&spec, NULL) == 0);
        check_text(spec.command, json_object_get(value, "command"));
        check_member(spec.id, value, "process_id");
        check_member(spec.cwd, value, "cwd");
        for (size_t i = 0; i < spec.args.count; i++)
            check_text(spec.args.items[i], json_array_get(json_object_get(value, "args"), i));
        check_env(&spec.env, value);
    }
    process_spec_release(&spec);
}

static void check_ids(const char *instance, const char *workspace, const json_t *value)
{
    assert(instance[0] && strlen(instance) <= TENANT_ID_MAX);
    assert(workspace[0] && strlen(workspace) <= TENANT_ID_MAX);
    check_text(instance, json_object_get(value, "instance_uuid"));
    check_text(workspace, json_object_get(value, "workspace_uuid"));
}

static void fuzz_trust(const json_t *value)
{
    struct admission_grant grant;
    struct rpc_revocation revocation;
    struct rpc_context context;
    struct error err = ERROR_INIT;
    int rc = rpc_grant_decode(value, &grant, &err);
    check_failure(rc, &err);
    if (rc == 0) {
        check_ids(grant.instance, grant.workspace, value);
        assert(grant.generation >= 1 && grant.revision >= 1);
    }
    admission_grant_release(&grant);

    rc = rpc_revocation_decode(value, &revocation, &err);
    check_failure(rc, &err);
    if (rc == 0) {
        check_ids(revocation.instance, revocation.workspace, value);
        assert(revocation.revision >= 1);
    }
    rpc_revocation_release(&revocation);

    rc = rpc_context_decode(value, &context, &err);
    check_failure(rc, &err);
    if (rc == 0) {
        check_ids(context.instance, context.workspace, value);
        assert(context.generation >= 1 && context.generation <= INT64_MAX);
    }
    rpc_context_release(&context);
}

static void fuzz_policy(const json_t *value)
{
    struct admission_policy policy;
    rpc_policy_decode(value, &policy);
    assert(!policy.problem || (policy.required && policy.problem[0]));
    assert(policy.max_sessions <= 1 && policy.max_managed_processes == 0);
    assert(policy.max_grant_ttl_sec >= 1 && policy.max_timeout_sec >= 1);
    assert(policy.cpus > 0 && policy.cpus <= 1024);
    assert(policy.memory_mb >= 32 && policy.memory_mb <= 16777216 && policy.pids_limit >= 1);
    admission_policy_release(&policy);
}

/* Whatever it is, each reading of it is none, or one that is in its range. */
static void fuzz_value(const json_t *value)
{
    const int64_t year_1 = -62135596800000000;
    const int64_t year_9999 = 253402300799999999;
    int64_t whole;
    double number;
    bool flag;
    if (lax_time(value, &whole) == 0)
        assert(whole >= year_1 && whole <= year_9999);
    if (lax_number(value, &number) == 0)
        assert(isfinite(number));
    bool integer = lax_integer(value, &whole) == 0;
    if (lax_flag(value, &flag) == 0 && !json_is_string(value))
        assert(integer && whole == flag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    cleanup_json json_t *strict = NULL;
    cleanup_json json_t *value = NULL;
    int rc = json_parse_lax((const char *)data, size, &value, &err);
    check_failure(rc, &err);
    /* What the strict way takes, the lax way takes, and as the same. */
    if (json_parse((const char *)data, size, &strict, NULL) == 0)
        assert(rc == 0 && json_equal(strict, value));
    if (rc < 0)
        return 0;
    fuzz_spec(value);
    fuzz_process(value);
    fuzz_trust(value);
    fuzz_policy(value);
    fuzz_value(value);
    const char *key;
    json_t *item;
    json_object_foreach(value, key, item)
    {
        fuzz_value(item);
    }
    return 0;
}
