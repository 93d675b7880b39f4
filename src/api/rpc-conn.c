/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of LangBot's: from the text of a message to a request, and answers back.

   Nothing piles up: while the peer does not read its answers, or while a large message is being
   parsed, it is not read from. */
#include <string.h>

#include "api/rpc-internal.h"
#include "api/rpc-seq.h"

#define PARSE_INLINE_MAX (128u << 10) /* a few milliseconds of parsing */

enum {
    HELD_SENDING = 1 << 0, /* too much waits to go out */
    HELD_PARSING = 1 << 1,
};

static void hold(struct rpc_conn *conn, unsigned why)
{
    if (!conn->held)
        conn->transport->pause(conn->owner);
    conn->held |= why;
}

static void let_go(struct rpc_conn *conn, unsigned why)
{
    if (!(conn->held & why))
        return;
    conn->held &= ~why;
    if (!conn->held)
        conn->transport->resume(conn->owner);
}

/* --- messages --- */

/* What became of the text; takes `message` over. */
static void take_message(struct rpc_conn *conn, json_t *message, const char *text, size_t size,
                         const struct error *err)
{
    if (!message) {
        rpc_noise(conn->rpc, "rpc_message_ignored", err->message);
    } else if (!json_is_object(message)) {
        rpc_noise(conn->rpc, "rpc_message_ignored", "not an object");
    } else if (json_object_get(message, "code")) {
        ; /* an answer, and nothing was asked */
    } else if (!json_object_get(message, "action")) {
        rpc_noise(conn->rpc, "rpc_message_ignored", "no action");
    } else {
        rpc_call_begin(conn, message, rpc_seq_text(message, text, size));
        return;
    }
    json_decref(message);
}

/* A large one is parsed beside the loop, where nobody else has to wait for it. */
struct rpc_parse {
    LIST_ENTRY(rpc_parse) link;
    uv_work_t work;
    struct rpc_conn *conn; /* NULL: it is gone */
    char *text;
    size_t size;
    json_t *message;
    struct error err;
};

static void parse_beside(uv_work_t *work)
{
    struct rpc_parse *parse = work->data;
    if (json_parse_lax(parse->text, parse->size, &parse->message, &parse->err) < 0)
        parse->message = NULL;
}

static void on_parsed(uv_work_t *work, int status)
{
    struct rpc_parse *parse = work->data;
    struct rpc_conn *conn = parse->conn;
    (void)status;
    if (conn) {
        LIST_REMOVE(parse, link);
        take_message(conn, parse->message, parse->text, parse->size, &parse->err);
        if (LIST_EMPTY(&conn->parses))
            let_go(conn, HELD_PARSING);
    } else {
        json_decref(parse->message);
    }
    free(parse->text);
    free(parse);
}

static void parse_large(struct rpc_conn *conn, const char *text, size_t size)
{
    struct rpc_parse *parse = xcalloc(1, sizeof *parse);
    parse->work.data = parse;
    parse->conn = conn;
    parse->text = xmalloc(size);
    parse->size = size;
    memcpy(parse->text, text, size);
    LIST_INSERT_HEAD(&conn->parses, parse, link);
    hold(conn, HELD_PARSING);
    uv_queue_work(conn->api->loop, &parse->work, parse_beside, on_parsed);
}

void rpc_conn_message(struct rpc_conn *conn, const char *text, size_t size)
{
    struct error err = ERROR_INIT;
    json_t *message = NULL;
    if (size > PARSE_INLINE_MAX) {
        parse_large(conn, text, size);
        return;
    }
    if (json_parse_lax(text, size, &message, &err) < 0)
        message = NULL;
    take_message(conn, message, text, size, &err);
}

/* --- answers --- */

/* A peer that does not read is not read from; but what it has asked for before that is still to
   come, and may be much. */
void rpc_conn_send(struct rpc_conn *conn, const char *text, size_t size)
{
    if (conn->transport->send(conn->owner, text, size))
        return;
    hold(conn, HELD_SENDING);
    if (conn->transport->unsent(conn->owner) > RPC_UNSENT_MAX)
        conn->transport->give_up(conn->owner, "answers are not read");
}

void rpc_conn_drained(struct rpc_conn *conn)
{
    let_go(conn, HELD_SENDING);
}

bool rpc_conn_busy(const struct rpc_conn *conn)
{
    return !LIST_EMPTY(&conn->calls) || !LIST_EMPTY(&conn->parses);
}

/* --- its life --- */

struct rpc_conn *rpc_conn_new(struct api *api, const char *instance, const char *actor,
                              const struct rpc_transport *transport, void *owner)
{
    struct rpc *rpc = api->rpc;
    struct rpc_conn *conn = xcalloc(1, sizeof *conn);
    conn->api = api;
    conn->rpc = rpc;
    conn->instance = instance ? xstrdup(instance) : NULL;
    conn->actor = xstrdup(actor);
    conn->transport = transport;
    conn->owner = owner;
    LIST_INIT(&conn->calls);
    LIST_INIT(&conn->uploads);
    LIST_INIT(&conn->parses);
    LIST_INSERT_HEAD(&rpc->conns, conn, link);
    rpc->connections++;
    rpc->connections_total++;
    /* From now on it is the one that is served. */
    if (instance && !rpc->instance)
        rpc->instance = xstrdup(instance);
    return conn;
}

void rpc_conn_stop(struct rpc_conn *conn)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_UNAVAILABLE, "boxd is stopping");
    while (!LIST_EMPTY(&conn->calls))
        rpc_fail_as(LIST_FIRST(&conn->calls), wire_class_name(WIRE_RUNTIME), &err);
}

void rpc_conn_free(struct rpc_conn *conn)
{
    struct rpc_parse *parse;
    if (!conn)
        return;
    while (!LIST_EMPTY(&conn->calls))
        rpc_call_drop(LIST_FIRST(&conn->calls));
    while ((parse = LIST_FIRST(&conn->parses))) {
        LIST_REMOVE(parse, link);
        parse->conn = NULL;
    }
    rpc_uploads_release(conn);
    conn->rpc->connections--;
    LIST_REMOVE(conn, link);
    free(conn->instance);
    free(conn->actor);
    free(conn);
}
