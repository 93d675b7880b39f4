/* SPDX-License-Identifier: Apache-2.0 */
/* The relay: a WebSocket on the standard input and output of a managed process, a text frame a
   line.

   Nothing piles up in between: while the client does not take frames, output is not asked for, and
   the process waits; while the process does not read, frames are not read, and the client waits.
   One client holds a process; the next may already send, as much as fits below PENDING_MAX.

   Of a workspace's session, the host that it belongs to says by headers which placement it speaks
   for; a lease ends the relay when that is not the one that holds any more. */
#include <string.h>

#include "api/decode.h"
#include "api/lines.h"
#include "api/rpc-internal.h"
#include "core/utf8.h"
#include "net/websocket.h"

#define LINE_MAX_BYTES (16u << 20)
#define PENDING_MAX    (256u << 10)
/* What the client has not read when it is cut off it asks for again, so less than the half of a
   ring that is kept for that may be on its way. */
#define SEND_BUFFER    (64 * 1024)
#define PING_MS        30000
#define WS_UNSUPPORTED 1003

struct relay {
    struct live live;
    struct api *api;
    struct websocket *ws;
    struct attachment *attachment; /* NULL: it has ended */
    struct tenant_lease lease;     /* of a workspace's; else not held */
    struct lines lines;
    struct buf pending; /* input from before it was our turn */
    bool attached;
    bool held;    /* the client is not read from */
    bool closing; /* nothing is sent any more */
};

static void hold(struct relay *relay, bool held)
{
    if (relay->held == held || relay->closing)
        return;
    relay->held = held;
    if (held)
        websocket_pause(relay->ws);
    else
        websocket_resume(relay->ws);
}

static void relay_free(struct relay *relay)
{
    tenant_release(&relay->lease);
    lines_release(&relay->lines);
    buf_release(&relay->pending);
    free(relay);
}

static void relay_close(struct relay *relay, int code, const char *reason)
{
    if (relay->closing)
        return;
    relay->closing = true;
    websocket_close(relay->ws, code, reason);
}

/* --- the process's side --- */

static void send_line(void *owner, const char *line, size_t size)
{
    struct relay *relay = owner;
    bool more;
    if (relay->closing)
        return;
    if (utf8_valid(line, size)) {
        more = websocket_send(relay->ws, true, line, size);
    } else {
        cleanup_free char *repaired = utf8_repair(line, size, &size);
        more = websocket_send(relay->ws, true, repaired, size);
    }
    if (!more && relay->attachment)
        attachment_pause(relay->attachment);
}

static void on_attached(void *owner, uint64_t offset)
{
    struct relay *relay = owner;
    (void)offset;
    relay->attached = true;
    bool more = true;
    if (relay->pending.size)
        more = attachment_write(relay->attachment, relay->pending.data, relay->pending.size);
    buf_release(&relay->pending);
    hold(relay, !more);
}

static void on_output(void *owner, const char *data, size_t size)
{
    struct relay *relay = owner;
    lines_feed(&relay->lines, data, size, send_line, relay);
}

static void on_room(void *owner)
{
    hold(owner, false);
}

static void on_ended(void *owner, const struct error *err)
{
    struct relay *relay = owner;
    relay->attachment = NULL;
    lines_finish(&relay->lines, send_line, relay);
    if (!err)
        relay_close(relay, WEBSOCKET_NORMAL, "the process has ended");
    else if (err->code == ERROR_UNAVAILABLE)
        relay_close(relay, WEBSOCKET_GOING_AWAY, "boxd is stopping");
    else
        relay_close(relay, err->code == ERROR_LIMIT ? WEBSOCKET_TOO_BIG : WEBSOCKET_INTERNAL,
                    "the process does not take its input");
}

static const struct attach_events attach_events = {
    .attached = on_attached, .output = on_output, .drained = on_room, .ended = on_ended};

/* --- the client's side --- */

static void on_message(struct websocket *ws, bool text, const char *data, size_t size, void *owner)
{
    struct relay *relay = owner;
    (void)ws;
    if (relay->closing || !relay->attachment)
        return;
    if (!text) {
        relay_close(relay, WS_UNSUPPORTED, "text frames only");
    } else if (!relay->attached) {
        buf_append(&relay->pending, data, size);
        buf_append(&relay->pending, "\n", 1);
        hold(relay, relay->pending.size > PENDING_MAX);
    } else {
        /* In one piece: each write wakes the process up. */
        cleanup_free char *line = xmalloc(size + 1);
        memcpy(line, data, size);
        line[size] = '\n';
        hold(relay, !attachment_write(relay->attachment, line, size + 1));
    }
}

static void on_sent(struct websocket *ws, void *owner)
{
    struct relay *relay = owner;
    (void)ws;
    if (relay->attachment)
        attachment_resume(relay->attachment);
}

static void on_closed(struct websocket *ws, int code, void *owner)
{
    struct relay *relay = owner;
    (void)ws;
    (void)code;
    if (relay->attachment)
        attachment_close(relay->attachment);
    live_remove(relay->api, &relay->live);
    relay_free(relay);
}

static const struct websocket_events socket_events = {
    .message = on_message, .drained = on_sent, .closed = on_closed};

static void on_stop(struct live *live)
{
    relay_close((struct relay *)live, WEBSOCKET_GOING_AWAY, "boxd is stopping");
}

static void on_revoked(struct tenant_lease *lease)
{
    struct relay *relay = (struct relay *)(void *)((char *)lease - offsetof(struct relay, lease));
    if (relay->attachment)
        attachment_close(steal_ptr(relay->attachment));
    relay_close(relay, WEBSOCKET_POLICY, "a newer generation of this workspace has come");
}

/* --- from the request to both --- */

/* Before the upgrade every failure is a 400: it is what LangBot's client reads errors from. */
static void refuse(struct call *call, const struct error *err)
{
    struct wire_error wire = {wire_error(err).class, 400};
    reply_wire_error(call->req, wire, err);
}

static struct process *find_process(struct call *call, const char *id, struct error *err)
{
    const char *name = call_param(call, 0);
    struct process_info info;
    struct session *session = runtime_find_session(call->api->runtime, name);
    if (!session) {
        error_set(err, ERROR_NO_SESSION, "no session '%.128s'", name);
        return NULL;
    }
    struct process *process = session_find_process(session, id);
    if (!process) {
        error_set(err, ERROR_NO_PROCESS, "no managed process '%.128s' in session '%.128s'", id,
                  name);
        return NULL;
    }
    process_info(process, &info);
    if (!info.running) {
        error_set(err, ERROR_PROCESS_CONFLICT, "managed process '%.128s' is not running", id);
        return NULL;
    }
    return process;
}

static struct relay *relay_new(struct api *api)
{
    struct relay *relay = xcalloc(1, sizeof *relay);
    relay->live.stop = on_stop;
    relay->lease.revoked = on_revoked;
    relay->api = api;
    relay->pending = (struct buf)BUF_INIT(LINE_MAX_BYTES + PENDING_MAX + 1);
    lines_init(&relay->lines, LINE_MAX_BYTES);
    return relay;
}

static void relay_start(struct relay *relay, struct http_request *req, struct process *process,
                        uint64_t since)
{
    struct websocket_options options = {
        /* With its newline it is a line that the process's input can hold. */
        .message_max = LINE_MAX_BYTES - 1,
        .ping_ms = PING_MS,
        .send_buffer = SEND_BUFFER,
        .protocol = "mcp",
    };
    live_add(relay->api, &relay->live);
    relay->ws = websocket_accept(req, &options, &socket_events, relay);
    relay->attachment = process_attach(process, since, &attach_events, relay);
}

static void open_relay(struct call *call, const char *id)
{
    struct error err = ERROR_INIT;
    struct relay_query query = {.since = ATTACH_UNREAD};
    struct process *process;
    if (!call_query(call, &query))
        return;
    struct relay *relay = relay_new(call->api);
    if (rpc_auth_relay(call->api, call->req, call_param(call, 0), &relay->lease, &err) < 0) {
        if (err.code == ERROR_FORBIDDEN)
            rpc_auth_refuse(call->api, call->req, &err);
        else
            refuse(call, &err);
    } else if (!(process = find_process(call, id, &err))) {
        refuse(call, &err);
    } else if (websocket_wanted(call->req)) {
        relay_start(relay, call->req, process, query.since);
        return;
    }
    relay_free(relay);
}

void relay_open(struct call *call)
{
    open_relay(call, call_param(call, 1));
}

void relay_open_default(struct call *call)
{
    open_relay(call, "default");
}
