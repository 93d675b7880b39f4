/* SPDX-License-Identifier: Apache-2.0 */
/* GET /rpc/ws: LangBot's RPC on a WebSocket, a message a text frame. */
#include <stdio.h>

#include "api/rpc-internal.h"
#include "net/websocket.h"

#define PING_MS        60000 /* a host that is gone without a word is noticed by its silence */
#define WS_UNSUPPORTED 1003
#define WS_TRY_AGAIN   1013
#define ACTOR_SIZE     160

struct rpc_ws {
    struct live live;
    struct api *api;
    struct websocket *ws;
    struct rpc_conn *conn;
    bool closing;
};

static void ws_close(struct rpc_ws *rpc_ws, int code, const char *reason)
{
    if (rpc_ws->closing)
        return;
    rpc_ws->closing = true;
    websocket_close(rpc_ws->ws, code, reason);
}

/* --- what the connection asks of it --- */

static bool send_message(void *owner, const char *text, size_t size)
{
    struct rpc_ws *rpc_ws = owner;
    return rpc_ws->closing || websocket_send(rpc_ws->ws, true, text, size);
}

static size_t unsent_bytes(void *owner)
{
    return websocket_unsent(((const struct rpc_ws *)owner)->ws);
}

static void pause_messages(void *owner)
{
    struct rpc_ws *rpc_ws = owner;
    if (!rpc_ws->closing)
        websocket_pause(rpc_ws->ws);
}

static void resume_messages(void *owner)
{
    struct rpc_ws *rpc_ws = owner;
    if (!rpc_ws->closing)
        websocket_resume(rpc_ws->ws);
}

static void give_up(void *owner, const char *reason)
{
    ws_close(owner, WS_TRY_AGAIN, reason);
}

static const struct rpc_transport transport = {.send = send_message,
                                               .unsent = unsent_bytes,
                                               .pause = pause_messages,
                                               .resume = resume_messages,
                                               .give_up = give_up};

/* --- what comes from the peer --- */

static void on_message(struct websocket *ws, bool text, const char *data, size_t size, void *owner)
{
    struct rpc_ws *rpc_ws = owner;
    (void)ws;
    if (rpc_ws->closing)
        return;
    if (text)
        rpc_conn_message(rpc_ws->conn, data, size);
    else
        ws_close(rpc_ws, WS_UNSUPPORTED, "text frames only");
}

static void on_drained(struct websocket *ws, void *owner)
{
    struct rpc_ws *rpc_ws = owner;
    (void)ws;
    rpc_conn_drained(rpc_ws->conn);
}

static void on_closed(struct websocket *ws, int code, void *owner)
{
    struct rpc_ws *rpc_ws = owner;
    (void)ws;
    (void)code;
    rpc_ws->closing = true;
    live_remove(rpc_ws->api, &rpc_ws->live);
    rpc_conn_free(rpc_ws->conn);
    free(rpc_ws);
}

static const struct websocket_events socket_events = {
    .message = on_message, .drained = on_drained, .closed = on_closed};

/* What is under way is answered first. */
static void on_stop(struct live *live)
{
    struct rpc_ws *rpc_ws = (struct rpc_ws *)live;
    rpc_conn_stop(rpc_ws->conn);
    ws_close(rpc_ws, WEBSOCKET_GOING_AWAY, "boxd is stopping");
}

void rpc_ws_open(struct call *call)
{
    struct error err = ERROR_INIT;
    const char *instance;
    char actor[ACTOR_SIZE];
    if (rpc_auth_peer(call->api, call->req, &instance, &err) < 0) {
        rpc_auth_refuse(call->api, call->req, &err);
        return;
    }
    if (!websocket_wanted(call->req))
        return;
    struct websocket_options options = {
        .message_max = RPC_MESSAGE_MAX,
        .fragments_max = RPC_FRAGMENTS_MAX,
        .ping_ms = PING_MS,
    };
    struct rpc_ws *rpc_ws = xcalloc(1, sizeof *rpc_ws);
    snprintf(actor, sizeof actor, "langbot%s%s", instance ? ":" : "", instance ? instance : "");
    rpc_ws->api = call->api;
    rpc_ws->live.stop = on_stop;
    live_add(call->api, &rpc_ws->live);
    /* Its headers go with the request. */
    rpc_ws->conn = rpc_conn_new(call->api, instance, actor, &transport, rpc_ws);
    rpc_ws->ws = websocket_accept(call->req, &options, &socket_events, rpc_ws);
}
