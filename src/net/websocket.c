/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side of a WebSocket: handshake, sending, keeping alive, and the ways it ends. */
#include "net/websocket.h"

#include <string.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#include "core/mem.h"
#include "net/http-internal.h"
#include "net/websocket-frames.h"

/* How long the peer has to answer a close frame. */
#define CLOSE_MS 2000
/* No pongs for one who sends pings and does not read. */
#define PONG_UNSENT_MAX   65536
#define FRAGMENTS_DEFAULT 4096
#define GONE              1006
#define NO_CODE           1005

struct websocket {
    struct http_conn *conn;
    struct websocket_reader *reader;
    const struct websocket_events *events;
    void *owner;
    unsigned ping_ms;
    bool heard;          /* something came since the last ping */
    bool pinged;         /* a ping is out */
    uint64_t unfinished; /* the message that was under way at the last ping; 0: none */
    bool closing;        /* a close frame was sent */
    bool feeding;        /* on_input() is on the stack */
    int over;            /* how it ended; the object goes when the loop is out of it */
};

static void refuse(struct http_request *req, int status, const char *why)
{
    cleanup_free char *body =
        xasprintf("{\"error\":{\"code\":\"BoxValidationError\",\"message\":\"%s\"}}", why);
    if (status == 426) {
        http_add_header(req, "Upgrade", "websocket");
        http_add_header(req, "Sec-WebSocket-Version", "13");
    }
    http_reply(req, status, "application/json", body, strlen(body));
}

/* Sixteen bytes in base64. */
static bool key_valid(const char *key)
{
    size_t size = strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    return size == WEBSOCKET_KEY_SIZE - 2 && strcmp(key + size, "==") == 0;
}

bool websocket_wanted(struct http_request *req)
{
    const char *upgrade = http_header(req, "Upgrade");
    const char *version = http_header(req, "Sec-WebSocket-Version");
    const char *key = http_header(req, "Sec-WebSocket-Key");
    if (!upgrade || !http_list_has(upgrade, strlen(upgrade), "websocket") || !req->head.upgrade)
        refuse(req, 426, "this is a WebSocket, and the request asks for none");
    else if (strcmp(http_method(req), "GET") != 0 || req->head.minor == 0 ||
             http_body_length(req) != 0)
        refuse(req, 400, "a WebSocket is asked for with GET, HTTP/1.1 and no body");
    else if (!version || strcmp(version, "13") != 0)
        refuse(req, 426, "the only version of WebSocket known here is 13");
    else if (!key || !key_valid(key))
        refuse(req, 400, "Sec-WebSocket-Key is missing or malformed");
    else
        return true;
    return false;
}

static void send_frame(struct websocket *ws, unsigned opcode, const void *data, size_t size)
{
    uint8_t header[WEBSOCKET_HEADER_MAX];
    struct iovec parts[] = {{header, websocket_header(header, opcode, size, NULL)},
                            {(void *)data, size}};
    http_conn_send(ws->conn, parts, ARRAY_SIZE(parts));
}

static void send_close(struct websocket *ws, int code, const char *reason)
{
    uint8_t payload[WEBSOCKET_CONTROL_MAX];
    /* What came without a code is answered without one. */
    size_t size = code == NO_CODE ? 0 : websocket_close_payload(payload, code, reason);
    if (!ws->closing)
        send_frame(ws, WSLAY_CONNECTION_CLOSE, payload, size);
    ws->closing = true;
}

static void websocket_free(struct websocket *ws)
{
    int code = ws->over;
    ws->events->closed(ws, code, ws->owner);
    websocket_reader_free(ws->reader);
    free(ws);
}

static void on_message(bool text, const char *data, size_t size, void *owner)
{
    struct websocket *ws = owner;
    if (!ws->closing)
        ws->events->message(ws, text, data, size, ws->owner);
}

static void on_ping(const char *data, size_t size, void *owner)
{
    struct websocket *ws = owner;
    if (!ws->closing && http_conn_unsent(ws->conn) < PONG_UNSENT_MAX)
        send_frame(ws, WSLAY_PONG, data, size);
}

static void on_close(int code, void *owner)
{
    struct websocket *ws = owner;
    send_close(ws, code, NULL);
    ws->over = code;
}

static size_t on_input(const char *data, size_t size, void *owner)
{
    struct websocket *ws = owner;
    int fail;
    ws->heard |= size > 0;
    ws->feeding = true;
    size_t taken = websocket_reader_feed(ws->reader, data, size, &fail);
    ws->feeding = false;
    if (fail && !ws->over) {
        send_close(ws, fail, NULL);
        ws->over = fail;
    }
    if (!ws->over)
        return taken;
    http_conn_finish(ws->conn);
    websocket_free(ws);
    return size;
}

static void on_drained(void *owner)
{
    struct websocket *ws = owner;
    if (ws->events->drained && !ws->closing)
        ws->events->drained(ws, ws->owner);
}

static void on_deadline(void *owner)
{
    struct websocket *ws = owner;
    /* The frame is still behind other ones: one that reads slowly is to have them all, and one that
       does not read at all the connection's own clock sees to (limits.write_stall_ms). */
    if (ws->closing && http_conn_unsent(ws->conn) > 0) {
        http_conn_deadline(ws->conn, http_conn_now(ws->conn) + CLOSE_MS);
        return;
    }
    /* One that is not read from cannot be heard. */
    if (ws->closing || (ws->pinged && !ws->heard && !ws->conn->held)) {
        http_conn_close(ws->conn);
        return;
    }
    /* A message that takes longer than from ping to ping holds memory that others could use. */
    uint64_t unfinished = ws->conn->held ? 0 : websocket_reader_unfinished(ws->reader);
    if (unfinished && unfinished == ws->unfinished) {
        websocket_close(ws, WEBSOCKET_POLICY, "the message does not end");
        return;
    }
    ws->unfinished = unfinished;
    ws->pinged = true;
    ws->heard = false;
    send_frame(ws, WSLAY_PING, NULL, 0);
    http_conn_deadline(ws->conn, http_conn_now(ws->conn) + ws->ping_ms);
}

static void on_gone(void *owner)
{
    struct websocket *ws = owner;
    ws->over = GONE;
    /* The owner may have closed the whole server from within a message. */
    if (!ws->feeding)
        websocket_free(ws);
}

struct websocket *websocket_accept(struct http_request *req,
                                   const struct websocket_options *options,
                                   const struct websocket_events *events, void *owner)
{
    static const struct http_upgrade upgrade = {on_input, on_drained, on_deadline, on_gone};
    static const struct websocket_reader_events reader = {on_message, on_ping, on_close};
    struct websocket *ws = xcalloc(1, sizeof *ws);
    ws->events = events;
    ws->owner = owner;
    ws->ping_ms = options->ping_ms;
    ws->reader = websocket_reader_new(
        options->message_max, options->fragments_max ? options->fragments_max : FRAGMENTS_DEFAULT,
        &reader, ws);

    char accept[WEBSOCKET_ACCEPT_SIZE + 1];
    websocket_accept_key(http_header(req, "Sec-WebSocket-Key"), accept);
    const char *offered = http_header(req, "Sec-WebSocket-Protocol");
    if (options->protocol && offered && http_list_has(offered, strlen(offered), options->protocol))
        http_add_header(req, "Sec-WebSocket-Protocol", options->protocol);
    struct iovec parts[] = {
        {(char *)"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                 "Connection: Upgrade\r\nSec-WebSocket-Accept: ",
         0},
        {accept, WEBSOCKET_ACCEPT_SIZE},
        {(char *)"\r\n", 2},
        {req->extra.data, req->extra.size},
        {(char *)"\r\n", 2},
    };
    parts[0].iov_len = strlen(parts[0].iov_base);
    http_conn_send(req->conn, parts, ARRAY_SIZE(parts));
    ws->conn = http_conn_upgrade(req, &upgrade, ws);
    if (options->send_buffer)
        setsockopt(ws->conn->fd, SOL_SOCKET, SO_SNDBUF, &options->send_buffer,
                   sizeof options->send_buffer);
    if (ws->ping_ms)
        http_conn_deadline(ws->conn, http_conn_now(ws->conn) + ws->ping_ms);
    return ws;
}

bool websocket_send(struct websocket *ws, bool text, const void *data, size_t size)
{
    struct http_conn *conn = ws->conn;
    if (ws->closing)
        return true;
    send_frame(ws, text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, data, size);
    if (!conn->processing)
        http_conn_settle(conn);
    if (!conn->broken && http_conn_unsent(conn) <= HTTP_UPGRADED_UNSENT)
        return true;
    conn->out_waiting = true;
    return false;
}

size_t websocket_unsent(const struct websocket *ws)
{
    return http_conn_unsent(ws->conn);
}

void websocket_pause(struct websocket *ws)
{
    if (ws->closing)
        return;
    websocket_reader_stop(ws->reader);
    http_conn_hold(ws->conn, true);
}

void websocket_resume(struct websocket *ws)
{
    http_conn_hold(ws->conn, false);
}

void websocket_close(struct websocket *ws, int code, const char *reason)
{
    if (ws->closing)
        return;
    send_close(ws, code, reason);
    /* Its answer has to be read, whatever the owner wanted before. */
    http_conn_hold(ws->conn, false);
    http_conn_deadline(ws->conn, http_conn_now(ws->conn) + CLOSE_MS);
}
