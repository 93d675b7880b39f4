/* SPDX-License-Identifier: Apache-2.0 */
/* Names and specs: as a peer says them, and as the runtime knows them.

   Nobody can find out about what is not theirs: a tenant's names all become names of its own
   placement, and for who has no tenancy there are no names of that form. */
#include <string.h>

#include "api/rpc-internal.h"
#include "core/path.h"
#include "core/utf8.h"

/* --- texts --- */

static void fail_invalid(struct rpc_call *call, const char *key, const char *what)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INVALID, "%s: %s", key, what);
    rpc_fail(call, &err);
}

void rpc_fail_missing(struct rpc_call *call, const char *key)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INVALID, "'%s'", key);
    rpc_fail_as(call, "KeyError", &err);
}

const char *rpc_text(struct rpc_call *call, const char *key, const char *missing)
{
    const json_t *value = json_object_get(call->data, key);
    if (!value && missing)
        return missing;
    if (!value)
        rpc_fail_missing(call, key);
    else if (!json_is_string(value))
        fail_invalid(call, key, "must be a string");
    else if (strlen(json_string_value(value)) != json_string_length(value))
        fail_invalid(call, key, "has a NUL in it");
    else
        return json_string_value(value);
    return NULL;
}

/* --- sessions --- */

static bool is_admission_session(const char *name)
{
    size_t size = strlen(name);
    utf8_strip(&name, &size);
    return size == strlen(ADMISSION_SESSION) && memcmp(name, ADMISSION_SESSION, size) == 0;
}

/* The runtime's name for the workspace's `logical`; false: it has been answered. */
static bool name_tenant_session(struct rpc_call *call, const char *logical)
{
    struct error err = ERROR_INIT;
    call->session = tenant_session_name(&call->who, logical, &err);
    if (call->session)
        return true;
    rpc_fail_as(call, "ValueError", &err);
    return false;
}

bool rpc_name_session(struct rpc_call *call)
{
    struct error err = ERROR_INIT;
    const char *name = rpc_text(call, "session_id", NULL);
    if (!name)
        return false;
    if (!call->who.workspace) {
        call->session = xstrdup(name);
        return true;
    }
    if (rpc_admission_required(call->rpc) && !is_admission_session(name)) {
        error_set(&err, ERROR_ADMISSION, "the only session here is '%s'", ADMISSION_SESSION);
        rpc_fail(call, &err);
        return false;
    }
    return name_tenant_session(call, name);
}

void rpc_fail_no_session(struct rpc_call *call)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_NO_SESSION, "there is no session '%.128s'",
              rpc_logical(call, call->session));
    rpc_fail(call, &err);
}

struct session *rpc_named_session(struct rpc_call *call)
{
    struct session *session = rpc_sees(call, call->session)
                                  ? runtime_find_session(call->api->runtime, call->session)
                                  : NULL;
    if (!session)
        rpc_fail_no_session(call);
    return session;
}

struct session *rpc_find_session(struct rpc_call *call)
{
    return rpc_name_session(call) ? rpc_named_session(call) : NULL;
}

const char *rpc_logical(const struct rpc_call *call, const char *name)
{
    struct tenant_name parts;
    return call->who.workspace && tenant_name_parse(name, &parts) ? parts.logical : name;
}

bool rpc_sees(const struct rpc_call *call, const char *name)
{
    return call->who.workspace ? tenant_owns(&call->who, name) : !tenant_name_parse(name, NULL);
}

/* --- specs --- */

/* The one that every workspace has, whatever the spec calls it. */
static bool admit_spec(struct rpc_call *call, struct rpc_spec *spec)
{
    struct error err = ERROR_INIT;
    const char *root = call->api->config.rpc.default_workspace;
    uint64_t timeout_ms = spec->timeout_sec * 1000;
    char space[TENANT_NAMESPACE_SIZE];
    tenant_namespace(call->who.instance, call->who.workspace, space);
    cleanup_free char *directory = xasprintf("%s/tenants/%s", root ? root : "", space);
    if (!root)
        error_set(&err, ERROR_NOT_READY, "no default_workspace is configured");
    else
        admission_apply(admission_policy(call->rpc->admission), &call->who, directory,
                        &spec->session, spec->workdir, &timeout_ms, &err);
    if (err.code != ERROR_NONE) {
        rpc_fail(call, &err);
        return false;
    }
    spec->timeout_sec = timeout_ms / 1000;
    call->session = xstrdup(spec->session.name);
    return true;
}

/* Directories of workspaces below one that holds them all: each has its own, and none has that one
   or what is above it. Who has no tenancy may have that, as it may have all else that is allowed,
   but not name one of them. */
static bool is_others(const struct rpc_call *call, const char *root, const char *path)
{
    char space[TENANT_NAMESPACE_SIZE] = "";
    if (!root)
        return false;
    cleanup_free char *all = xasprintf("%s/tenants", root);
    if (call->who.workspace && path_is_below(all, path))
        return true;
    if (!path_is_below(path, all))
        return false;
    if (call->who.workspace)
        tenant_namespace(call->who.instance, call->who.workspace, space);
    cleanup_free char *own = xasprintf("%s/%s", all, space);
    return !space[0] || !path_is_below(path, own);
}

static int check_path(const struct rpc_call *call, const char *field, const char *path,
                      struct error *err)
{
    const struct rpc_config *config = &call->api->config.rpc;
    cleanup_free char *normal = path ? path_normalise(path, NULL) : NULL;
    if (normal && (is_others(call, config->skills_root, normal) ||
                   is_others(call, config->default_workspace, normal)))
        return error_set(err, ERROR_DENIED, "%s '%.200s' belongs to other workspaces", field, path);
    return 0;
}

static int check_paths(const struct rpc_call *call, const struct session_spec *spec,
                       struct error *err)
{
    if (check_path(call, "host_path", spec->host_path, err) < 0)
        return -1;
    for (size_t i = 0; i < spec->mount_count; i++)
        if (check_path(call, "extra_mounts: host_path", spec->mounts[i].host_path, err) < 0)
            return -1;
    return 0;
}

static bool name_spec(struct rpc_call *call, struct rpc_spec *spec)
{
    struct error err = ERROR_INIT;
    if (call->who.workspace) {
        if (!name_tenant_session(call, spec->session.name))
            return false;
        free(spec->session.name);
        spec->session.name = xstrdup(call->session);
        return true;
    }
    if (tenant_name_parse(spec->session.name, NULL))
        error_set(&err, ERROR_INVALID, "session_id: names of this form are for workspaces");
    else if (readiness_owns(spec->session.name))
        error_set(&err, ERROR_INVALID, "session_id: " READINESS_SESSION "… are boxd's own");
    if (err.code != ERROR_NONE) {
        rpc_fail(call, &err);
        return false;
    }
    call->session = xstrdup(spec->session.name);
    return true;
}

bool rpc_take_spec(struct rpc_call *call, bool command, struct rpc_spec *ret)
{
    struct error err = ERROR_INIT;
    if (rpc_spec_decode(call->data, ret, &err) < 0)
        ;
    else if (command && !ret->cmd[0])
        error_set(&err, ERROR_INVALID, "cmd: must not be empty");
    else if (call->rpc->ending[call->side] > 0)
        error_set(&err, ERROR_UNAVAILABLE, "box_shutdown is ending all sessions");
    else if (!rpc_admission_required(call->rpc)) /* there it is boxd that chooses the directory */
        check_paths(call, &ret->session, &err);
    if (err.code != ERROR_NONE) {
        rpc_fail(call, &err);
        return false;
    }
    /* LangBot names directories that it has not made. */
    ret->session.make_host_path = true;
    return rpc_admission_required(call->rpc) ? admit_spec(call, ret) : name_spec(call, ret);
}
