/* SPDX-License-Identifier: Apache-2.0 */
/* Actions about boxd itself: they need no workspace. */
#include <string.h>

#include "api/rpc-internal.h"
#include "core/sha256.h"
#include "core/utf8.h"

#define MARKER_PREFIX ".langbot-box-volume-probe-"
#define MARKER_DIGITS 32

static void answer_nothing(struct rpc_call *call)
{
    struct json_out *out = rpc_answer(call);
    out_open(out, NULL, '{');
    out_close(out, '}');
}

void rpc_ping(struct rpc_call *call)
{
    answer_nothing(call);
    rpc_send(call);
}

/* --- how it is --- */

static void answer_backend(struct rpc_call *call, const struct readiness_result *result)
{
    out_backend(rpc_answer(call), NULL, call->api, result);
    rpc_send(call);
}

static void answer_health(struct rpc_call *call, const struct readiness_result *result)
{
    struct error err = ERROR_INIT;
    if (!result) {
        answer_backend(call, NULL);
    } else if (rpc_require_ready(result, &err) < 0) {
        rpc_fail(call, &err);
    } else {
        out_readiness(rpc_answer(call), NULL, call->api, result);
        rpc_send(call);
    }
}

void rpc_health(struct rpc_call *call)
{
    rpc_ask_readiness(call, answer_health);
}

void rpc_backend_info(struct rpc_call *call)
{
    rpc_ask_readiness(call, answer_backend);
}

/* --- configuration --- */

/* Where an instance is served, or grants are required, who names none is a guest: its tree would be
   everybody's. It gets the answer that lets it go on. */
static bool is_guest(const struct rpc_call *call)
{
    return call->side == RPC_PLAIN && (call->rpc->instance || rpc_admission_required(call->rpc));
}

void rpc_init(struct rpc_call *call)
{
    const struct rpc_config *config = &call->api->config.rpc;
    struct error err = ERROR_INIT;
    if (is_guest(call))
        rpc_noise(call->rpc, "init_ignored",
                  "a peer that names no instance sent a configuration; this boxd serves one that "
                  "does");
    int rc = is_guest(call) ? 0
             : config->init ? config->init(config->init_data, call->data, &err)
                            : error_set(&err, ERROR_UNSUPPORTED,
                                        "the configuration cannot be changed from here");
    if (rc < 0) {
        rpc_fail_as(call,
                    err.code == ERROR_INVALID ? "ValueError"
                                              : wire_class_name(wire_error(&err).class),
                    &err);
        return;
    }
    struct json_out *out = rpc_answer(call);
    out_open(out, NULL, '{');
    out_flag(out, "initialized", true);
    out_close(out, '}');
    rpc_send(call);
}

/* --- a shared workspace --- */

/* The name of a marker, trimmed; NULL: that is none. The caller frees. */
static char *marker_name(const json_t *value)
{
    if (!json_is_string(value))
        return NULL;
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);
    size_t prefix = strlen(MARKER_PREFIX);
    utf8_strip(&text, &size);
    if (size != prefix + MARKER_DIGITS || memcmp(text, MARKER_PREFIX, prefix) != 0)
        return NULL;
    for (size_t i = prefix; i < size; i++)
        if (!memchr("0123456789abcdef", text[i], 16))
            return NULL;
    return xstrndup(text, size);
}

static void on_marker(void *data, const void *bytes, size_t size, const struct error *err)
{
    struct rpc_call *call = data;
    char digest[SHA256_HEX_SIZE];
    if (!rpc_due(call))
        return;
    if (err) {
        rpc_fail_as(call, wire_class_name(WIRE_READINESS), err);
        return;
    }
    sha256_hex(bytes, size, digest);
    struct json_out *out = rpc_answer(call);
    out_open(out, NULL, '{');
    out_text(out, "marker_name", call->name);
    out_text(out, "sha256", digest);
    out_unsigned(out, "size", size);
    out_close(out, '}');
    rpc_send(call);
}

/* Whether boxd sees the directory that LangBot sees: it has left a file there. */
void rpc_verify_workspace(struct rpc_call *call)
{
    struct backend *backend = runtime_backend(call->api->runtime);
    const char *directory = call->api->config.rpc.default_workspace;
    struct error err = ERROR_INIT;
    call->name = marker_name(json_object_get(call->data, "marker_name"));
    if (!call->name)
        error_set(&err, ERROR_NOT_READY, "marker_name: must be " MARKER_PREFIX " and %d hex digits",
                  MARKER_DIGITS);
    else if (!directory)
        error_set(&err, ERROR_NOT_READY, "no default_workspace is configured");
    else if (!backend->ops->read_marker)
        error_set(&err, ERROR_NOT_READY, "backend '%s' cannot look at the workspace",
                  backend->ops->name);
    else
        backend->ops->read_marker(backend, directory, call->name, on_marker, rpc_wait(call));
    if (err.code != ERROR_NONE)
        rpc_fail(call, &err);
}

/* --- the end of all sessions --- */

/* Those that this peer's side has; the trials of readiness are boxd's own. */
static bool is_of_side(const struct session *session, void *data)
{
    const struct rpc_call *call = data;
    const char *name = session_name(session);
    bool tenants = tenant_name_parse(name, NULL);
    if (call->side == RPC_TENANTS)
        return tenants;
    return !tenants && !readiness_owns(name);
}

static bool makes_on_side(const struct rpc_call *call, const void *data)
{
    const struct rpc_call *asker = data;
    return call->side == asker->side && call->action && call->action->flags & RPC_MAKES;
}

static void on_all_ended(void *data, const struct error *err)
{
    struct rpc_call *call = data;
    call->rpc->ending[call->side]--;
    rpc_done(call, err);
}

void rpc_shutdown(struct rpc_call *call)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_UNAVAILABLE, "box_shutdown is ending all sessions");
    call->rpc->ending[call->side]++;
    rpc_call_off(call->rpc, makes_on_side, call, &err);
    answer_nothing(call);
    runtime_delete_sessions(call->api->runtime, is_of_side, on_all_ended, rpc_wait(call));
}
