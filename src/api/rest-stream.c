/* SPDX-License-Identifier: Apache-2.0 */
/* A command whose output is told as it comes: server-sent events.

   The head of the answer waits until there is something to tell, so that a command that never began
   is a plain error with its status; but no longer than a heartbeat, so that a client whose command
   waits for its turn knows that it does. */
#include "api/exec-call.h"

static void begin(struct exec_call *call)
{
    if (call->begun)
        return;
    call->begun = true;
    sse_begin(call->req);
}

static void deliver(struct exec_call *call, struct json_out *out)
{
    if (!http_write(call->req, out->buf.data, out->buf.size) && call->execution)
        execution_pause(call->execution);
}

static void on_drain(void *data)
{
    struct exec_call *call = data;
    if (call->execution)
        execution_resume(call->execution);
}

static void on_started(void *owner, unsigned number)
{
    struct exec_call *call = owner;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    begin(call);
    sse_open(&out, "started", 0);
    out_open(&out, NULL, '{');
    out_unsigned(&out, "exec_id", number);
    out_close(&out, '}');
    sse_close(&out);
    deliver(call, &out);
}

static void tell_text(struct exec_call *call, enum stream stream, const char *text, size_t size)
{
    if (size == 0)
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    sse_open(&out, stream == STREAM_OUTPUT ? "stdout" : "stderr", 0);
    out_open(&out, NULL, '{');
    if (call->base64)
        out_base64(&out, "data", text, size);
    else
        out_bytes(&out, "data", text, size);
    out_close(&out, '}');
    sse_close(&out);
    deliver(call, &out);
}

static void tell(struct exec_call *call, enum stream stream, const char *data, size_t size,
                 bool end)
{
    const char *text;
    size_t text_size;
    if (call->base64) {
        tell_text(call, stream, data, size);
        return;
    }
    char *owned = text_cut(&call->cuts[stream], data, size, end, &text, &text_size);
    tell_text(call, stream, text, text_size);
    free(owned);
}

static void on_output(void *owner, enum stream stream, const char *data, size_t size)
{
    struct exec_call *call = owner;
    begin(call);
    tell(call, stream, data, size, false);
}

static void on_done(void *owner, const struct exec_result *result, const struct error *err)
{
    struct exec_call *call = owner;
    call->execution = NULL;
    if (err && !call->begun) {
        reply_error(call->api, call->req, err);
        return;
    }
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    begin(call);
    for (int i = 0; i < STREAM_MAX; i++)
        tell(call, (enum stream)i, NULL, 0, true);
    sse_open(&out, err ? "error" : "result", 0);
    if (err)
        out_error(&out, api_wire_error(call->api, err).class, err);
    else
        out_result(&out, call->api, call->session, result, false, call->base64);
    sse_close(&out);
    http_write(call->req, out.buf.data, out.buf.size);
    http_end(call->req);
}

const struct exec_events stream_events = {
    .started = on_started, .output = on_output, .done = on_done};

static void on_tick(struct live *live)
{
    struct exec_call *call = (struct exec_call *)live;
    static const char comment[] = ": still here\n\n";
    begin(call);
    http_write(call->req, comment, sizeof comment - 1);
}

void stream_init(struct exec_call *call)
{
    /* When the api stops, the runtime stops too and has the last word. */
    call->live = (struct live){.tick = on_tick};
    live_add(call->api, &call->live);
    http_on_drain(call->req, on_drain, call);
}
