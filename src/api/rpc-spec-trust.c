/* SPDX-License-Identifier: Apache-2.0 */
/* What LangBot's requests say about who may do what: contexts, grants, revocations, the policy.
   Here unknown names are errors, and most numbers must be numbers. */
#include "api/rpc-spec.h"

#include <string.h>

#include "core/json.h"
#include "core/lax.h"

#define ID(field, structure, member)                                                        \
    {                                                                                       \
        .name = field, .kind = FIELD_TEXT, .offset = offsetof(structure, member), .min = 1, \
        .max = TENANT_ID_MAX, .flags = FIELD_REQUIRED | FIELD_TRIMMED,                      \
    }
#define COUNT(field, size, structure, member, least, needed)                              \
    {                                                                                     \
        .name = field, .kind = size, .offset = offsetof(structure, member), .min = least, \
        .flags = (needed) | FIELD_EXACT,                                                  \
    }

static int decode(const json_t *object, const struct fields *tables, size_t count,
                  struct error *err)
{
    return fields_decode(object, tables, count, FIELDS_LAX, err);
}

/* --- grants and revocations --- */

#define GRANT(field, size, member, least) \
    COUNT(field, size, struct admission_grant, member, least, FIELD_REQUIRED)

static const struct field grant_fields[] = {
    ID("instance_uuid", struct admission_grant, instance),
    ID("workspace_uuid", struct admission_grant, workspace),
    GRANT("execution_generation", FIELD_U64, generation, 1),
    GRANT("entitlement_revision", FIELD_U64, revision, 1),
    GRANT("max_sessions", FIELD_U32, max_sessions, 0),
    GRANT("max_managed_processes", FIELD_U32, max_managed_processes, 0),
};

static const struct field expiry_fields[] = {
    {.name = "expires_at", .kind = FIELD_VALUE, .flags = FIELD_REQUIRED},
};

int rpc_grant_decode(const json_t *data, struct admission_grant *ret, struct error *err)
{
    const json_t *expiry = NULL;
    struct fields tables[] = {
        {grant_fields, ARRAY_SIZE(grant_fields), ret},
        {expiry_fields, ARRAY_SIZE(expiry_fields), &expiry},
    };
    *ret = (struct admission_grant){0};
    if (decode(data, tables, ARRAY_SIZE(tables), err) < 0)
        return -1;
    if (lax_time(expiry, &ret->expires_us) < 0)
        return error_set(err, ERROR_INVALID, "expires_at: must be a time that says its zone");
    return 0;
}

static const struct field revocation_fields[] = {
    ID("instance_uuid", struct rpc_revocation, instance),
    ID("workspace_uuid", struct rpc_revocation, workspace),
    COUNT("entitlement_revision", FIELD_U64, struct rpc_revocation, revision, 1, FIELD_REQUIRED),
};

int rpc_revocation_decode(const json_t *data, struct rpc_revocation *ret, struct error *err)
{
    struct fields table = {revocation_fields, ARRAY_SIZE(revocation_fields), ret};
    *ret = (struct rpc_revocation){0};
    return decode(data, &table, 1, err);
}

void rpc_revocation_release(struct rpc_revocation *revocation)
{
    free(revocation->instance);
    free(revocation->workspace);
    *revocation = (struct rpc_revocation){0};
}

/* --- contexts --- */

/* What is checked, and then of no use here. */
struct installation {
    struct rpc_context context;
    char *uuid;
    uint64_t revision;
    char *digest;
};

#define INSTALLATION(member) .offset = offsetof(struct installation, member)

static const struct field workspace_fields[] = {
    ID("instance_uuid", struct installation, context.instance),
    ID("workspace_uuid", struct installation, context.workspace),
};

/* Of a workspace: the generation may be a text, and an installation may be named. */
static const struct field context_fields[] = {
    {.name = "placement_generation", .kind = FIELD_U64, INSTALLATION(context.generation), .min = 1},
    {.name = "installation_uuid",
     .kind = FIELD_TEXT,
     INSTALLATION(uuid),
     .min = 1,
     .flags = FIELD_NULLABLE | FIELD_TRIMMED},
};

/* Of a plugin's installation, which is named to the last bit. */
static const struct field binding_fields[] = {
    COUNT("placement_generation", FIELD_U64, struct installation, context.generation, 1, 0),
    {.name = "installation_uuid",
     .kind = FIELD_TEXT,
     INSTALLATION(uuid),
     .min = 1,
     .flags = FIELD_REQUIRED | FIELD_TRIMMED},
    COUNT("runtime_revision", FIELD_U64, struct installation, revision, 1, FIELD_REQUIRED),
    {.name = "artifact_digest",
     .kind = FIELD_TEXT,
     INSTALLATION(digest),
     .flags = FIELD_REQUIRED | FIELD_TRIMMED},
};

static int check_digest(const char *digest, struct error *err)
{
    if (strlen(digest) != 64 || strspn(digest, "0123456789abcdef") != 64)
        return error_set(err, ERROR_INVALID,
                         "artifact_digest: must be a SHA-256 of 64 small hexadecimal digits");
    return 0;
}

int rpc_context_decode(const json_t *context, struct rpc_context *ret, struct error *err)
{
    struct installation parts = {.context.generation = 1};
    bool binding =
        json_object_get(context, "runtime_revision") || json_object_get(context, "artifact_digest");
    struct fields tables[] = {
        {workspace_fields, ARRAY_SIZE(workspace_fields), &parts},
        {context_fields, ARRAY_SIZE(context_fields), &parts},
    };
    if (binding)
        tables[1] = (struct fields){binding_fields, ARRAY_SIZE(binding_fields), &parts};
    int rc = decode(context, tables, ARRAY_SIZE(tables), err);
    if (rc == 0 && binding)
        rc = check_digest(parts.digest, err);
    free(parts.uuid);
    free(parts.digest);
    *ret = parts.context;
    return rc < 0 ? error_wrap(err, "context") : 0;
}

void rpc_context_release(struct rpc_context *context)
{
    free(context->instance);
    free(context->workspace);
    *context = (struct rpc_context){0};
}

/* --- the policy --- */

/* The words for which there is no choice. */
struct fixed {
    int session;
    int backend;
};

static const char *const sessions[] = {ADMISSION_SESSION, NULL};
static const char *const backends[] = {"nsjail", NULL}; /* to LangBot; ours are as good */

static const struct field fixed_fields[] = {
    {.name = "logical_session_id",
     .kind = FIELD_CHOICE,
     .offset = offsetof(struct fixed, session),
     .names = sessions},
    {.name = "required_backend",
     .kind = FIELD_CHOICE,
     .offset = offsetof(struct fixed, backend),
     .names = backends},
};

#define POLICY(field, size, member, least, most)                                          \
    {                                                                                     \
        .name = field, .kind = size, .offset = offsetof(struct admission_policy, member), \
        .min = least, .max = most, .flags = FIELD_EXACT,                                  \
    }

static const struct field policy_fields[] = {
    {.name = "required", .kind = FIELD_FLAG, .offset = offsetof(struct admission_policy, required)},
    POLICY("max_sessions", FIELD_U32, max_sessions, 0, 1),
    POLICY("max_managed_processes", FIELD_U32, max_managed_processes, 0, UINT32_MAX),
    POLICY("max_grant_ttl_sec", FIELD_U32, max_grant_ttl_sec, 1, UINT32_MAX),
    POLICY("max_timeout_sec", FIELD_U32, max_timeout_sec, 1, UINT32_MAX),
    POLICY("cpus", FIELD_NUMBER, cpus, 0, 1024),
    POLICY("memory_mb", FIELD_U64, memory_mb, 32, 16777216),
    POLICY("pids_limit", FIELD_U32, pids_limit, 1, 4194304),
    {.name = "read_only_rootfs",
     .kind = FIELD_FLAG,
     .offset = offsetof(struct admission_policy, read_only_rootfs)},
    POLICY("workspace_quota_mb", FIELD_U64, workspace_quota_mb, 0, 1073741824),
    POLICY("readiness_cache_sec", FIELD_U32, readiness_cache_sec, 0, UINT32_MAX),
};

static int decode_policy(const json_t *section, struct admission_policy *ret, struct error *err)
{
    struct fixed fixed;
    struct fields tables[] = {
        {policy_fields, ARRAY_SIZE(policy_fields), ret},
        {fixed_fields, ARRAY_SIZE(fixed_fields), &fixed},
    };
    if (decode(section, tables, ARRAY_SIZE(tables), err) < 0)
        return -1;
    if (ret->max_managed_processes != 0)
        return error_set(err, ERROR_INVALID, "max_managed_processes: must be 0");
    if (ret->cpus <= 0)
        return error_set(err, ERROR_INVALID, "cpus: must be above 0");
    return 0;
}

void rpc_policy_decode(const json_t *section, struct admission_policy *ret)
{
    struct error err = ERROR_INIT;
    admission_policy_init(ret);
    if (!section || json_is_null(section) || decode_policy(section, ret, &err) == 0)
        return;
    /* Not what was understood of it: that might be less than what was meant. */
    admission_policy_init(ret);
    ret->required = true;
    ret->problem = xstrdup(err.message);
}
