/* SPDX-License-Identifier: Apache-2.0 */
/* A request's life, and its answer. It is over when it is answered or dropped; its memory stays
   until the last of what it waits for, and cannot call off, has come. */
#include <stdio.h>
#include <string.h>

#include "api/rpc-internal.h"

/* --- its life --- */

static void call_free(struct rpc_call *call)
{
    json_decref(call->message);
    rpc_context_release(&call->context);
    free(call->seq);
    free(call->session);
    free(call->name);
    strings_release(&call->warnings);
    json_out_release(&call->out);
    free(call);
}

static void call_over(struct rpc_call *call, enum rpc_outcome outcome)
{
    struct rpc *rpc = call->rpc;
    size_t row = call->action ? (size_t)(call->action - rpc_actions) : rpc_action_count;
    rpc->counts[row][outcome]++;
    rpc->inflight--;
    call->conn->inflight--;
    call->conn = NULL;
    LIST_REMOVE(call, link);
    if (call->asked)
        readiness_cancel(rpc->readiness, call);
    if (call->execution)
        execution_cancel(steal_ptr(call->execution));
    tenant_release(&call->lease);
    if (call->callbacks == 0)
        call_free(call);
}

void rpc_call_drop(struct rpc_call *call)
{
    call_over(call, RPC_CALLED_OFF);
}

void *rpc_wait(struct rpc_call *call)
{
    call->callbacks++;
    return call;
}

bool rpc_due(struct rpc_call *call)
{
    call->callbacks--;
    if (call->conn) {
        runtime_set_actor(call->api->runtime, call->conn->actor);
        return true;
    }
    if (call->callbacks == 0)
        call_free(call);
    return false;
}

/* --- its answer --- */

static void out_envelope(struct json_out *out, const char *seq, int code, const char *message)
{
    out_open(out, NULL, '{');
    out_raw(out, "\"seq_id\":");
    out_raw(out, seq ? seq : "-1");
    out->comma = true;
    out_signed(out, "code", code);
    out_text(out, "message", message);
    out_raw(out, ",\"data\":");
    out->comma = false;
}

static void send_out(struct rpc_call *call)
{
    out_text(&call->out, "chunk_status", "continue");
    out_close(&call->out, '}');
    rpc_conn_send(call->conn, call->out.buf.data, call->out.buf.size);
}

struct json_out *rpc_answer(struct rpc_call *call)
{
    call->out = (struct json_out)JSON_OUT_INIT;
    out_envelope(&call->out, call->seq, 0, "success");
    return &call->out;
}

void rpc_send(struct rpc_call *call)
{
    if (call->out.buf.size >= RPC_MESSAGE_MAX) {
        struct error err = ERROR_INIT;
        error_set(&err, ERROR_LIMIT, "the answer is larger than a message can be");
        rpc_fail_as(call, wire_class_name(WIRE_OTHER), &err);
        return;
    }
    send_out(call);
    call_over(call, RPC_ANSWERED);
}

/* Tenants know their sessions by other names than the runtime, whose errors have its own. */
static void hide_placement(const struct rpc_call *call, char *text)
{
    char prefix[TENANT_NAMESPACE_SIZE + 32];
    if (!call->who.workspace)
        return;
    tenant_namespace(call->who.instance, call->who.workspace, prefix);
    snprintf(prefix + strlen(prefix), sizeof prefix - strlen(prefix), "-g%llu-",
             (unsigned long long)call->who.generation);
    size_t size = strlen(prefix);
    for (char *at = text; (at = strstr(at, prefix));)
        memmove(at, at + size, strlen(at + size) + 1);
}

void rpc_fail_as(struct rpc_call *call, const char *class, const struct error *err)
{
    char text[RPC_ERROR_CHARS];
    if (err->hint[0])
        snprintf(text, sizeof text, "%s: %s (%s)", class, err->message, err->hint);
    else
        snprintf(text, sizeof text, "%s: %s", class, err->message);
    hide_placement(call, text);
    json_out_release(&call->out); /* an answer may have been begun */
    call->out = (struct json_out)JSON_OUT_INIT;
    out_envelope(&call->out, call->seq, 1, text);
    out_raw(&call->out, "{}");
    call->out.comma = true;
    send_out(call);
    call_over(call, RPC_FAILED);
}

void rpc_fail(struct rpc_call *call, const struct error *err)
{
    rpc_fail_as(call, wire_class_name(api_wire_error(call->api, err).class), err);
}

void rpc_done(void *data, const struct error *err)
{
    struct rpc_call *call = data;
    if (!rpc_due(call))
        return;
    if (err)
        rpc_fail(call, err);
    else
        rpc_send(call);
}
