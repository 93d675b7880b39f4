/* SPDX-License-Identifier: Apache-2.0 */
/* Managed processes: start, list, look at, signal, stop. */
#include "api/decode.h"
#include "api/internal.h"

static void on_started(void *data, struct process *process, const struct error *err)
{
    struct named_later *named = data;
    if (!later_good(&named->later, err))
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_process(&out, NULL, named->session, process, false);
    reply_json(named->later.req, 201, &out);
}

void rest_start_process(struct call *call)
{
    struct error err = ERROR_INIT;
    cleanup_process_spec struct process_spec spec = {0};
    if (decode_process(call->body, &spec, &err) < 0) {
        reply_error(call->api, call->req, &err);
        return;
    }
    struct session *session = call_may_run(call) ? call_session(call) : NULL;
    if (session)
        session_start_process(session, &spec, on_started,
                              named_later_new(call, session_name(session), NULL));
}

struct listing {
    struct json_out out;
    const char *session;
};

static void list_one(struct process *process, void *data)
{
    struct listing *listing = data;
    out_process(&listing->out, NULL, listing->session, process, false);
}

void rest_list_processes(struct call *call)
{
    struct session *session = call_session(call);
    if (!session)
        return;
    struct listing listing = {.out = JSON_OUT_INIT, .session = session_name(session)};
    out_open(&listing.out, NULL, '{');
    out_open(&listing.out, "processes", '[');
    session_each_process(session, list_one, &listing);
    out_close(&listing.out, ']');
    out_close(&listing.out, '}');
    reply_json(call->req, 200, &listing.out);
    json_out_release(&listing.out);
}

void rest_get_process(struct call *call)
{
    struct session *session;
    struct process *process = call_process(call, &session);
    if (!process)
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_process(&out, NULL, session_name(session), process, false);
    reply_json(call->req, 200, &out);
}

static void on_stopped(void *data, const struct error *err)
{
    struct named_later *named = data;
    if (later_good(&named->later, err))
        reply_word(named->later.req, "stopped", named->name);
}

void rest_stop_process(struct call *call)
{
    struct session *session;
    struct process *process = call_process(call, &session);
    if (process)
        process_stop(process, on_stopped,
                     named_later_new(call, session_name(session), call_param(call, 1)));
}

void rest_signal_process(struct call *call)
{
    struct error err = ERROR_INIT;
    struct session *session;
    int number;
    struct process *process = call_process(call, &session);
    if (!process)
        return;
    if (decode_signal(call->body, &number, &err) < 0 || process_signal(process, number, &err) < 0)
        reply_error(call->api, call->req, &err);
    else
        reply_word(call->req, "signalled", call_param(call, 1));
}
