/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals over WebSocket: binary frames are bytes both ways, text frames are about them. */
#include <string.h>

#include "api/decode.h"
#include "api/internal.h"
#include "api/signals.h"
#include "net/websocket.h"

#define MESSAGE_MAX (1u << 20)
#define PING_MS     30000

struct pty {
    struct live live;
    struct api *api;
    struct websocket *ws;
    struct terminal *terminal; /* NULL: it has ended */
    bool closing;
};

static void pty_close(struct pty *pty, int code, const char *reason)
{
    if (pty->closing)
        return;
    pty->closing = true;
    websocket_close(pty->ws, code, reason);
}

/* --- the terminal's side --- */

static void on_output(void *owner, const char *data, size_t size)
{
    struct pty *pty = owner;
    if (!pty->closing && !websocket_send(pty->ws, false, data, size) && pty->terminal)
        terminal_pause(pty->terminal);
}

static void on_room(void *owner)
{
    struct pty *pty = owner;
    if (!pty->closing)
        websocket_resume(pty->ws);
}

static void out_exit(struct json_out *out, const struct backend_outcome *outcome)
{
    char signal[SIGNAL_TEXT_SIZE];
    out_open(out, NULL, '{');
    out_text(out, "type", "exit");
    if (outcome->exit_code >= 0)
        out_signed(out, "exit_code", outcome->exit_code);
    else
        out_null(out, "exit_code");
    out_text(out, "signal", signal_text(outcome->signal, signal));
    out_text(out, "cause", outcome->cause);
    out_close(out, '}');
}

static void out_failure(struct json_out *out, struct api *api, const struct error *err)
{
    out_open(out, NULL, '{');
    out_text(out, "type", "error");
    out_open(out, "error", '{');
    out_text(out, "code", wire_class_name(api_wire_error(api, err).class));
    out_text(out, "message", err->message);
    if (err->hint[0])
        out_text(out, "hint", err->hint);
    out_close(out, '}');
    out_close(out, '}');
}

static void on_ended(void *owner, const struct backend_outcome *outcome, const struct error *err)
{
    struct pty *pty = owner;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    pty->terminal = NULL;
    if (pty->closing)
        return;
    if (err)
        out_failure(&out, pty->api, err);
    else
        out_exit(&out, outcome);
    websocket_send(pty->ws, true, out.buf.data, out.buf.size);
    if (!err)
        pty_close(pty, WEBSOCKET_NORMAL, "the terminal has ended");
    else
        pty_close(pty, err->code == ERROR_UNAVAILABLE ? WEBSOCKET_GOING_AWAY : WEBSOCKET_INTERNAL,
                  "the terminal failed");
}

static const struct terminal_events terminal_events = {
    .output = on_output, .drained = on_room, .ended = on_ended};

/* --- the client's side --- */

static int resize(struct pty *pty, const char *data, size_t size, struct error *err)
{
    cleanup_json json_t *message = NULL;
    struct terminal_size wanted;
    if (json_parse(data, size, &message, err) < 0 || decode_resize(message, &wanted, err) < 0)
        return -1;
    terminal_resize(pty->terminal, wanted.rows, wanted.columns);
    return 0;
}

static void on_message(struct websocket *ws, bool text, const char *data, size_t size, void *owner)
{
    struct pty *pty = owner;
    struct error err = ERROR_INIT;
    if (pty->closing || !pty->terminal)
        return;
    if (!text) {
        if (!terminal_write(pty->terminal, data, size))
            websocket_pause(ws);
    } else if (resize(pty, data, size, &err) < 0) {
        pty_close(pty, WEBSOCKET_POLICY, "expected {\"type\":\"resize\",\"rows\":…,\"cols\":…}");
    }
}

static void on_sent(struct websocket *ws, void *owner)
{
    struct pty *pty = owner;
    (void)ws;
    if (pty->terminal)
        terminal_resume(pty->terminal);
}

static void on_closed(struct websocket *ws, int code, void *owner)
{
    struct pty *pty = owner;
    (void)ws;
    (void)code;
    if (pty->terminal)
        terminal_close(pty->terminal);
    live_remove(pty->api, &pty->live);
    free(pty);
}

static const struct websocket_events socket_events = {
    .message = on_message, .drained = on_sent, .closed = on_closed};

static void on_stop(struct live *live)
{
    pty_close((struct pty *)live, WEBSOCKET_GOING_AWAY, "boxd is stopping");
}

/* --- from the request to both --- */

static void open_terminal(struct call *call, struct session *session, const struct pty_query *query)
{
    char *argv[] = {(char *)"sh", (char *)"-lc", query->cmd, NULL};
    struct terminal_request request = {
        .argv = query->cmd && query->cmd[0] ? argv : NULL,
        .workdir = query->workdir,
        .rows = query->size.rows,
        .columns = query->size.columns,
    };
    struct websocket_options options = {.message_max = MESSAGE_MAX, .ping_ms = PING_MS};
    struct pty *pty = xcalloc(1, sizeof *pty);
    pty->live.stop = on_stop;
    pty->api = call->api;
    strings_take(&request.env, xasprintf("TERM=%s", query->term ? query->term : "xterm-256color"));
    live_add(call->api, &pty->live);
    pty->ws = websocket_accept(call->req, &options, &socket_events, pty);
    pty->terminal = session_terminal(session, &request, &terminal_events, pty);
    strings_release(&request.env);
}

void pty_open(struct call *call)
{
    struct pty_query query = {.size = {.rows = 24, .columns = 80}};
    struct session *session = call_may_run(call) ? call_session(call) : NULL;
    if (session && call_query(call, &query) && websocket_wanted(call->req))
        open_terminal(call, session, &query);
    free(query.cmd);
    free(query.workdir);
    free(query.term);
}
