/* SPDX-License-Identifier: Apache-2.0 */
/* What a request has to pass before its handler runs, in this order:

     envelope    its fields have their forms, and there is such an action
     identity    the context is of the instance that this connection speaks for
     admission   of what uses sandboxes, where grants are required: isolation is ready, and a grant
                 covers the workspace
     fence       the generation is the one that holds; older ones end now

   Each of the last two may have to wait. While a request is under way its lease tells when the
   fence has moved on, and rpc_call_off() when a grant has ended. Below, the last of them comes
   first. */
#include <string.h>

#include "api/rpc-internal.h"

/* --- its handler --- */

static void run(struct rpc_call *call)
{
    /* It may be over when it returns; the message is what it looks at. */
    json_t *message = steal_ptr(call->message);
    runtime_set_actor(call->api->runtime, call->conn->actor);
    call->action->run(call);
    json_decref(message);
}

/* --- fence --- */

static bool needs_grant(const struct rpc_call *call)
{
    return call->action->flags & RPC_SANDBOX && rpc_admission_required(call->rpc);
}

static struct rpc_call *call_of(struct tenant_lease *lease)
{
    return (struct rpc_call *)(void *)((char *)lease - offsetof(struct rpc_call, lease));
}

static void on_revoked(struct tenant_lease *lease)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_FORBIDDEN, "a newer generation of this workspace has come");
    rpc_fail(call_of(lease), &err);
}

static void on_entered(struct tenant_lease *lease, const struct error *refused)
{
    struct rpc_call *call = call_of(lease);
    const struct admission_grant *grant;
    struct error err = ERROR_INIT;
    if (refused)
        rpc_fail(call, refused);
    /* Once more: it may have waited for others to end. */
    else if (needs_grant(call) && rpc_require_grant(call, &grant, &err) < 0)
        rpc_fail(call, &err);
    else
        run(call);
}

static void enter(struct rpc_call *call)
{
    if (!call->who.workspace) {
        run(call);
        return;
    }
    call->lease.revoked = on_revoked;
    tenant_enter(call->rpc->tenants, &call->who, &call->lease, on_entered);
}

/* --- admission --- */

static void on_readiness(void *data, const struct readiness_result *result)
{
    struct rpc_call *call = data;
    void (*asked)(struct rpc_call * call, const struct readiness_result *result) = call->asked;
    call->asked = NULL;
    runtime_set_actor(call->api->runtime, call->conn->actor);
    asked(call, result);
}

void rpc_ask_readiness(struct rpc_call *call,
                       void (*asked)(struct rpc_call *call, const struct readiness_result *result))
{
    if (!rpc_admission_required(call->rpc)) {
        asked(call, NULL);
        return;
    }
    call->asked = asked;
    rpc_readiness_ask(call->rpc, on_readiness, call);
}

static void on_isolation(struct rpc_call *call, const struct readiness_result *result)
{
    const struct admission_grant *grant;
    struct error err = ERROR_INIT;
    if (rpc_require_ready(result, &err) < 0 || rpc_require_grant(call, &grant, &err) < 0)
        rpc_fail(call, &err);
    else
        enter(call);
}

static void admit(struct rpc_call *call)
{
    struct error err = ERROR_INIT;
    if (!needs_grant(call)) {
        enter(call);
    } else if (!call->who.workspace) {
        error_set(&err, ERROR_ADMISSION, "sandboxes are for workspaces that have a grant");
        rpc_fail(call, &err);
    } else {
        rpc_ask_readiness(call, on_isolation);
    }
}

/* --- identity --- */

static int identify(struct rpc_call *call, struct error *err)
{
    bool has_context = call->context.workspace;
    bool tenant = call->action->flags & RPC_TENANT;
    if (call->side == RPC_PLAIN) {
        /* Whoever means to speak for a workspace must not be served as one who speaks for none. */
        if (has_context)
            return error_set(err, ERROR_FORBIDDEN,
                             "a context is only for connections that name their instance");
        return 0;
    }
    if (tenant && !has_context)
        return error_set(err, ERROR_FORBIDDEN, "this action needs the context of a workspace");
    if (has_context && strcmp(call->context.instance, call->rpc->instance) != 0)
        return error_set(err, ERROR_FORBIDDEN,
                         "the context is of another instance than the one that is served");
    if (tenant)
        call->who = (struct tenant_context){call->context.instance, call->context.workspace,
                                            call->context.generation};
    return 0;
}

/* --- envelope --- */

static int read_envelope(struct rpc_call *call, struct error *err)
{
    const json_t *action = json_object_get(call->message, "action");
    const json_t *context = json_object_get(call->message, "context");
    call->data = json_object_get(call->message, "data");
    /* A name with a NUL in it is none of ours, however it begins. */
    if (json_is_string(action) && strlen(json_string_value(action)) == json_string_length(action))
        call->action = rpc_action_find(json_string_value(action));
    if (!call->seq)
        return error_set(err, ERROR_INVALID, "seq_id: must be an integer");
    if (!json_is_string(action))
        return error_set(err, ERROR_INVALID, "action: must be a string");
    if (!json_is_object(call->data))
        return error_set(err, ERROR_INVALID, "data: must be an object");
    return context && !json_is_null(context) ? rpc_context_decode(context, &call->context, err) : 0;
}

void rpc_call_begin(struct rpc_conn *conn, json_t *message, char *seq)
{
    struct error err = ERROR_INIT;
    struct rpc_call *call = xcalloc(1, sizeof *call);
    call->api = conn->api;
    call->rpc = conn->rpc;
    call->conn = conn;
    call->side = conn->instance ? RPC_TENANTS : RPC_PLAIN;
    call->message = message;
    call->seq = seq;
    LIST_INSERT_HEAD(&conn->calls, call, link);
    conn->inflight++;
    call->rpc->inflight++;
    if (conn->inflight > RPC_INFLIGHT_MAX) {
        error_set(&err, ERROR_LIMIT, "the connection is busy: %d requests are under way",
                  RPC_INFLIGHT_MAX);
        rpc_fail_as(call, wire_class_name(WIRE_OTHER), &err);
    } else if (read_envelope(call, &err) < 0) {
        rpc_fail_as(call, "ValidationError", &err);
    } else if (!call->action) {
        error_set(&err, ERROR_INVALID, "there is no action '%.100s'",
                  json_string_value(json_object_get(message, "action")));
        rpc_fail_as(call, "ValueError", &err);
    } else if (identify(call, &err) < 0) {
        rpc_fail(call, &err);
    } else {
        admit(call);
    }
}
