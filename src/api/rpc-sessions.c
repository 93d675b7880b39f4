/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: make, look at, list, end; and box_status, which counts them. */
#include "api/rpc-internal.h"

/* --- make --- */

static void on_opened(void *data, struct session *session, bool created, const struct error *err)
{
    struct rpc_call *call = data;
    (void)created;
    if (!rpc_due(call))
        return;
    if (err) {
        /* One that came to its end while it was made was not missing. */
        if (err->code == ERROR_GONE)
            rpc_fail_as(call, wire_class_name(WIRE_BACKEND), err);
        else
            rpc_fail(call, err);
        return;
    }
    struct json_out *out = rpc_answer(call);
    out_open(out, NULL, '{');
    out_session_fields(out, call->api, session, rpc_logical(call, call->session), true);
    out_warnings(out, call);
    out_close(out, '}');
    rpc_send(call);
}

static void open_session(struct rpc_call *call, struct rpc_spec *spec)
{
    runtime_open_session(call->api->runtime, &spec->session, on_opened, rpc_wait(call));
}

void rpc_create_session(struct rpc_call *call)
{
    struct rpc_spec spec = {0};
    if (rpc_take_spec(call, false, &spec))
        rpc_with_skills(call, &spec, open_session);
    rpc_spec_release(&spec);
}

/* --- look at --- */

struct listing {
    struct rpc_call *call;
    struct json_out *out;
    struct session *session;
    unsigned sessions;
    unsigned processes;
};

static void out_managed(struct process *process, void *data)
{
    struct listing *listing = data;
    struct process_info info;
    process_info(process, &info);
    if (listing->processes++ == 0)
        out_open(listing->out, "managed_processes", '{');
    /* Its id is a stranger's text, and keys are written as they are. */
    out_key(listing->out, info.id);
    out_process(listing->out, NULL, rpc_logical(listing->call, session_name(listing->session)),
                process, true);
}

void rpc_get_session(struct rpc_call *call)
{
    struct session *session = rpc_find_session(call);
    if (!session)
        return;
    struct listing listing = {.call = call, .out = rpc_answer(call), .session = session};
    struct process *usual = session_find_process(session, "default");
    const char *name = rpc_logical(call, session_name(session));
    out_open(listing.out, NULL, '{');
    out_session_fields(listing.out, call->api, session, name, true);
    session_each_process(session, out_managed, &listing);
    if (listing.processes > 0)
        out_close(listing.out, '}');
    if (usual)
        out_process(listing.out, "managed_process", name, usual, true);
    out_close(listing.out, '}');
    rpc_send(call);
}

static void list_one(struct session *session, void *data)
{
    struct listing *listing = data;
    if (!rpc_sees(listing->call, session_name(session)))
        return;
    out_open(listing->out, NULL, '{');
    out_session_fields(listing->out, listing->call->api, session,
                       rpc_logical(listing->call, session_name(session)), true);
    out_close(listing->out, '}');
}

void rpc_list_sessions(struct rpc_call *call)
{
    struct listing listing = {.call = call, .out = rpc_answer(call)};
    out_open(listing.out, NULL, '{');
    out_open(listing.out, "sessions", '[');
    runtime_each_session(call->api->runtime, list_one, &listing);
    out_close(listing.out, ']');
    out_close(listing.out, '}');
    rpc_send(call);
}

/* --- end --- */

void rpc_delete_session(struct rpc_call *call)
{
    if (!rpc_name_session(call))
        return;
    if (!rpc_sees(call, call->session)) {
        rpc_fail_no_session(call);
        return;
    }
    struct json_out *out = rpc_answer(call);
    out_open(out, NULL, '{');
    out_text(out, "deleted", json_string_value(json_object_get(call->data, "session_id")));
    out_close(out, '}');
    runtime_delete_session(call->api->runtime, call->session, rpc_done, rpc_wait(call));
}

/* --- how many --- */

static void count_process(struct process *process, void *data)
{
    struct listing *listing = data;
    struct process_info info;
    process_info(process, &info);
    listing->processes += info.running;
}

static void count_session(struct session *session, void *data)
{
    struct listing *listing = data;
    if (!rpc_sees(listing->call, session_name(session)))
        return;
    listing->sessions++;
    session_each_process(session, count_process, listing);
}

static void out_limits(struct json_out *out, const struct api *api)
{
    const struct runtime_config *config = runtime_config(api->runtime);
    out_open(out, "limits", '{');
    out_unsigned(out, "max_sessions", config->max_sessions);
    out_unsigned(out, "max_managed_processes", config->max_managed_processes);
    out_unsigned(out, "max_completed_processes", config->max_completed_processes);
    out_unsigned(out, "max_admission_records", api->config.rpc.max_records);
    out_unsigned(out, "max_rpc_file_bytes", api->config.rpc.max_file_bytes);
    out_close(out, '}');
}

static void answer_status(struct rpc_call *call, const struct readiness_result *result)
{
    struct listing listing = {.call = call};
    runtime_each_session(call->api->runtime, count_session, &listing);
    struct json_out *out = rpc_answer(call);
    out_open(out, NULL, '{');
    out_backend(out, "backend", call->api, result);
    out_unsigned(out, "active_sessions", listing.sessions);
    out_unsigned(out, "managed_processes", listing.processes);
    out_double(out, "session_ttl_sec",
               (double)runtime_config(call->api->runtime)->session_ttl_ms / 1000);
    out_limits(out, call->api);
    out_close(out, '}');
    rpc_send(call);
}

void rpc_status(struct rpc_call *call)
{
    rpc_ask_readiness(call, answer_status);
}
