/* SPDX-License-Identifier: Apache-2.0 */
/* What is going on, as server-sent events. A client that does not keep up misses some, and sees
   that in the sequence numbers: the daemon does not keep them for it. */
#include <string.h>

#include "api/decode.h"
#include "api/internal.h"
#include "api/signals.h"
#include "api/sse.h"

/* Lives as long as its request. */
struct watcher {
    struct live live;
    struct api *api;
    struct http_request *req;
    struct runtime_listener listener;
    char *session; /* NULL: all */
    bool full;
};

static void out_event(struct json_out *out, const struct runtime_event *event)
{
    char signal[SIGNAL_TEXT_SIZE];
    out_open(out, NULL, '{');
    out_text(out, "type", runtime_event_name(event->type));
    out_unsigned(out, "sequence", event->sequence);
    out_time(out, "time", event->time_us);
    out_text(out, "session_id", event->session);
    if (event->process)
        out_text(out, "process_id", event->process);
    if (event->number)
        out_unsigned(out, "exec_id", event->number);
    if (event->exit_code >= 0)
        out_signed(out, "exit_code", event->exit_code);
    else if (event->type == RUNTIME_EXEC_EXITED)
        out_null(out, "exit_code");
    if (event->cause)
        out_text(out, "cause", event->cause);
    if (event->signal > 0)
        out_text(out, "signal", signal_text(event->signal, signal));
    out_close(out, '}');
}

static void on_event(void *data, const struct runtime_event *event)
{
    struct watcher *watcher = data;
    if (watcher->full ||
        (watcher->session && (!event->session || strcmp(watcher->session, event->session) != 0)))
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    sse_open(&out, runtime_event_name(event->type), event->sequence);
    out_event(&out, event);
    sse_close(&out);
    watcher->full = !http_write(watcher->req, out.buf.data, out.buf.size);
}

static void on_drain(void *data)
{
    ((struct watcher *)data)->full = false;
}

static void on_tick(struct live *live)
{
    struct watcher *watcher = (struct watcher *)live;
    static const char comment[] = ": still here\n\n";
    if (!watcher->full)
        watcher->full = !http_write(watcher->req, comment, sizeof comment - 1);
}

static void on_stop(struct live *live)
{
    http_end(((struct watcher *)live)->req);
}

static void on_close(void *data)
{
    struct watcher *watcher = data;
    runtime_unlisten(watcher->api->runtime, &watcher->listener);
    live_remove(watcher->api, &watcher->live);
    free(watcher->session);
    free(watcher);
}

void rest_events(struct call *call)
{
    struct events_query query = {0};
    if (!call_query(call, &query)) {
        free(query.session);
        return;
    }
    struct watcher *watcher = xcalloc(1, sizeof *watcher);
    watcher->live = (struct live){.tick = on_tick, .stop = on_stop};
    watcher->api = call->api;
    watcher->req = call->req;
    watcher->listener = (struct runtime_listener){.event = on_event, .data = watcher};
    watcher->session = query.session;
    http_set_data(call->req, watcher, on_close);
    http_on_drain(call->req, on_drain, watcher);
    live_add(call->api, &watcher->live);
    runtime_listen(call->api->runtime, &watcher->listener);
    sse_begin(call->req);
    /* So that the client knows that it misses nothing from now on. */
    on_tick(&watcher->live);
}
