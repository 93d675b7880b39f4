/* SPDX-License-Identifier: Apache-2.0 */
/* Grants: written into the book and taken out of it. What that ends is waited for before anybody is
   told that it is so. */
#include <string.h>

#include "api/rpc-internal.h"
#include "core/clock.h"

static void answer_grant(struct rpc_call *call, const struct admission_grant *grant)
{
    char expires[CLOCK_TEXT_SIZE];
    clock_python_text(grant->expires_us, "+00:00", expires);
    struct json_out *out = rpc_answer(call);
    out_open(out, NULL, '{');
    out_flag(out, "installed", true);
    out_text(out, "workspace_uuid", grant->workspace);
    out_unsigned(out, "execution_generation", grant->generation);
    out_unsigned(out, "entitlement_revision", grant->revision);
    out_unsigned(out, "max_sessions", grant->max_sessions);
    out_unsigned(out, "max_managed_processes", grant->max_managed_processes);
    out_text(out, "expires_at", expires);
    out_close(out, '}');
}

/* Only the host that is served may say who may use sandboxes. */
static int check_instance(const struct rpc_call *call, const char *instance, struct error *err)
{
    if (call->side != RPC_TENANTS || strcmp(call->rpc->instance, instance) != 0)
        return error_set(err, ERROR_FORBIDDEN,
                         "grants are given by the instance that is served, and for itself");
    return 0;
}

static void settle_grant(struct rpc_call *call, const struct admission_grant *grant,
                         enum admission_effect effect)
{
    struct rpc *rpc = call->rpc;
    struct error err = ERROR_INIT;
    struct tenant_context who = {grant->instance, grant->workspace, grant->generation};
    char *keep =
        effect == ADMISSION_END_OTHERS ? tenant_session_name(&who, ADMISSION_SESSION, &err) : NULL;
    answer_grant(call, grant);
    if (tenant_observe(rpc->tenants, &who, &err) < 0) {
        free(keep);
        rpc_fail(call, &err);
    } else if (effect == ADMISSION_KEEP) {
        rpc_send(call);
    } else {
        rpc_end_workspace(rpc, who.instance, who.workspace, keep, rpc_done, rpc_wait(call));
    }
}

void rpc_upsert_grant(struct rpc_call *call)
{
    struct rpc *rpc = call->rpc;
    struct error err = ERROR_INIT;
    struct admission_grant wanted = {0};
    const struct admission_grant *grant;
    enum admission_effect effect;
    if (rpc_grant_decode(call->data, &wanted, &err) < 0 ||
        check_instance(call, wanted.instance, &err) < 0 ||
        admission_upsert(rpc->admission, &wanted, clock_now_us(), &grant, &effect, &err) < 0) {
        rpc_fail(call, &err);
    } else {
        settle_grant(call, grant, effect);
        rpc_admission_arm(rpc);
    }
    admission_grant_release(&wanted);
}

void rpc_revoke_grant(struct rpc_call *call)
{
    struct rpc *rpc = call->rpc;
    struct error err = ERROR_INIT;
    struct rpc_revocation revocation = {0};
    if (rpc_revocation_decode(call->data, &revocation, &err) < 0 ||
        check_instance(call, revocation.instance, &err) < 0 ||
        admission_revoke(rpc->admission, revocation.instance, revocation.workspace,
                         revocation.revision, &err) < 0) {
        rpc_fail(call, &err);
    } else {
        struct json_out *out = rpc_answer(call);
        out_open(out, NULL, '{');
        out_flag(out, "revoked", true);
        out_text(out, "workspace_uuid", revocation.workspace);
        out_unsigned(out, "entitlement_revision", revocation.revision);
        out_close(out, '}');
        rpc_end_workspace(rpc, revocation.instance, revocation.workspace, NULL, rpc_done,
                          rpc_wait(call));
        rpc_admission_arm(rpc);
    }
    rpc_revocation_release(&revocation);
}
