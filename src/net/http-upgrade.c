/* SPDX-License-Identifier: Apache-2.0 */
/* A connection in other hands: what is left of the server for a WebSocket. */
#include "net/http-internal.h"

struct http_conn *http_conn_upgrade(struct http_request *req, const struct http_upgrade *upgrade,
                                    void *owner)
{
    struct http_conn *conn = req->conn;
    conn->upgrade = upgrade;
    conn->upgrade_owner = owner;
    conn->state = HTTP_STATE_UPGRADED;
    conn->head_size = 0;
    conn->out_waiting = false;
    req->on_close = NULL;
    http_request_over(req);
    http_conn_kick(conn);
    return conn;
}

void http_conn_hold(struct http_conn *conn, bool hold)
{
    if (conn->held == hold)
        return;
    conn->held = hold;
    conn->resumed = !hold;
    if (!hold)
        http_conn_kick(conn);
    else if (!conn->processing)
        http_conn_settle(conn);
}

void http_conn_deadline(struct http_conn *conn, uint64_t at)
{
    conn->deadline_at = at;
    if (!conn->processing)
        http_conn_settle(conn);
}

void http_conn_finish(struct http_conn *conn)
{
    if (conn->state == HTTP_STATE_CLOSED)
        return;
    conn->state = HTTP_STATE_FLUSH;
    /* The peer may be in the middle of a long message, and is to hear why it was cut. */
    conn->linger = true;
    conn->held = conn->resumed = false;
    conn->in_start = conn->in_end;
    http_conn_kick(conn);
}
