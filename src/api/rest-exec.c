/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: run and wait, and the log of past ones. */
#include <string.h>

#include "api/decode.h"
#include "api/exec-call.h"
#include "core/parse.h"

/* --- run --- */

/* The answer is out, or nobody waits for it. */
static void on_close(void *data)
{
    struct exec_call *call = data;
    if (call->execution)
        execution_cancel(call->execution);
    if (call->streamed)
        live_remove(call->api, &call->live);
    free(call->session);
    free(call);
}

static void on_done(void *owner, const struct exec_result *result, const struct error *err)
{
    struct exec_call *call = owner;
    call->execution = NULL;
    if (err) {
        reply_error(call->api, call->req, err);
        return;
    }
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_result(&out, call->api, call->session, result, true, call->base64);
    reply_json(call->req, 200, &out);
}

static const struct exec_events wait_events = {.done = on_done};

static bool wants_stream(struct http_request *req, const struct exec_order *order)
{
    const char *accept = http_header(req, "accept");
    return order->stream || (accept && strstr(accept, "text/event-stream"));
}

/* In the session if there is one, else by the spec. */
static void run(struct call *from, const struct exec_order *order, const char *name,
                struct session *session, const struct session_spec *spec)
{
    struct exec_request request;
    struct exec_call *call = xcalloc(1, sizeof *call);
    call->api = from->api;
    call->req = from->req;
    call->session = xstrdup(name);
    call->base64 = order->encoding == ENCODING_BASE64;
    call->streamed = wants_stream(from->req, order);
    http_set_data(call->req, call, on_close);
    if (call->streamed)
        stream_init(call);
    const struct exec_events *events = call->streamed ? &stream_events : &wait_events;
    exec_order_request(order, &request);
    if (session)
        call->execution = session_exec(session, &request, events, call);
    else
        call->execution = runtime_exec(call->api->runtime, spec, &request, NULL, events, call);
}

static struct exec_limits limits_of(const struct api *api)
{
    return (struct exec_limits){api->config.default_timeout_ms, api->config.maximum_timeout_ms};
}

void rest_exec(struct call *call)
{
    struct api *api = call->api;
    struct error err = ERROR_INIT;
    cleanup_exec_order struct exec_order order = {0};
    cleanup_session_spec struct session_spec spec = {0};
    struct exec_limits limits = limits_of(api);
    bool has_spec = false;
    if (decode_exec(call->body, call_param(call, 0), &api->config.defaults, &limits, &order, &spec,
                    &has_spec, &err) < 0) {
        reply_error(api, call->req, &err);
    } else if (has_spec) {
        if (call_may_make(call, spec.name) && call_mount_skills(call, &spec))
            run(call, &order, spec.name, NULL, &spec);
    } else if (call_may_run(call)) {
        struct session *session = call_session(call);
        if (session)
            run(call, &order, call_param(call, 0), session, NULL);
    }
}

void rest_exec_flat(struct call *call)
{
    struct api *api = call->api;
    struct error err = ERROR_INIT;
    cleanup_exec_order struct exec_order order = {0};
    cleanup_session_spec struct session_spec spec = {0};
    struct exec_limits limits = limits_of(api);
    if (decode_exec_flat(call->body, &api->config.defaults, &limits, &order, &spec, &err) < 0)
        reply_error(api, call->req, &err);
    else if (call_may_make(call, spec.name) && call_mount_skills(call, &spec))
        run(call, &order, spec.name, NULL, &spec);
}

/* --- its log --- */

void rest_exec_log(struct call *call)
{
    struct error err = ERROR_INIT;
    struct log_query query = {.limit = LOG_LIMIT_DEFAULT};
    uint64_t number;
    uint64_t total;
    uint64_t kept;
    bool running;
    struct session *session = call_session(call);
    if (!session || !call_query(call, &query))
        return;
    if (parse_u64(call_param(call, 1), UINT32_MAX, &number) < 0) {
        error_set(&err, ERROR_NOT_FOUND, "no command '%.40s'", call_param(call, 1));
        reply_error(call->api, call->req, &err);
        return;
    }
    cleanup_free char *buffer = xmalloc(query.limit);
    ssize_t size =
        session_exec_log(session, (unsigned)number, (enum stream)query.stream, query.offset, buffer,
                         query.limit, &total, &kept, &running, &err);
    if (size < 0) {
        reply_error(call->api, call->req, &err);
        return;
    }
    reply_log_headers(call->req, query.offset + (uint64_t)size, total, kept, running);
    http_reply(call->req, 200, "application/octet-stream", buffer, (size_t)size);
}
