/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a WebSocket, blocking. Frames are taken apart here and not by wslay: the
   command line lives for milliseconds, and would load a library for forty lines. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/buf.h"
#include "core/mem.h"
#include "net/http-client-internal.h"
#include "net/websocket-frames.h"

/* Of one message; a server of ours sends no such. */
#define MESSAGE_MAX (64u * 1024 * 1024)

#define OPCODE_CONTINUATION 0
#define OPCODE_TEXT         1
#define OPCODE_BINARY       2
#define OPCODE_CLOSE        8
#define OPCODE_PING         9
#define OPCODE_PONG         10

struct frame {
    unsigned opcode;
    bool fin;
    size_t header;
    uint64_t size;
};

struct ws_client {
    struct http_client *http;
    struct buf message;
    bool in_message;
    bool text;
    bool close_sent;
    bool closed;
    struct utf8_check utf8;
};

static void make_key(char ret[WEBSOCKET_KEY_SIZE + 1])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t random[WEBSOCKET_KEY_SIZE];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        abort();
    for (unsigned i = 0; i < WEBSOCKET_KEY_SIZE - 2; i++)
        ret[i] = letters[random[i] & 63];
    /* Of the last letter only two bits count: sixteen bytes are 21 letters and a third. */
    ret[WEBSOCKET_KEY_SIZE - 3] = letters[random[0] & 48];
    memcpy(ret + WEBSOCKET_KEY_SIZE - 2, "==", 3);
}

static int refused(struct http_client *http, struct error *err)
{
    char said[201];
    ssize_t n = http_client_read(http, said, sizeof said - 1, NULL);
    said[n > 0 ? n : 0] = '\0';
    return error_set(err, ERROR_PROTOCOL, "the server does not open a WebSocket: status %d %s",
                     http_client_status(http), said);
}

int ws_client_connect(const char *address, const char *token, const char *target,
                      const char *protocol, struct ws_client **ret, struct error *err)
{
    cleanup_http_client struct http_client *http = NULL;
    char key[WEBSOCKET_KEY_SIZE + 1];
    char expected[WEBSOCKET_ACCEPT_SIZE + 1];
    if (http_client_connect(address, token, &http, err) < 0)
        return -1;
    make_key(key);
    websocket_accept_key(key, expected);
    cleanup_free char *key_line = xasprintf("Sec-WebSocket-Key: %s", key);
    cleanup_free char *protocol_line =
        protocol ? xasprintf("Sec-WebSocket-Protocol: %s", protocol) : NULL;
    const char *const headers[] = {"Connection: Upgrade",
                                   "Upgrade: websocket",
                                   "Sec-WebSocket-Version: 13",
                                   key_line,
                                   protocol_line,
                                   NULL};
    struct http_call call = {.target = target, .headers = headers};
    if (http_client_call(http, &call, err) < 0)
        return -1;
    const char *accept = http_client_header(http, "Sec-WebSocket-Accept");
    if (http_client_status(http) != 101)
        return refused(http, err);
    if (!accept || strcmp(accept, expected) != 0)
        return error_set(err, ERROR_PROTOCOL, "%s opened a WebSocket that was not asked for",
                         address);
    struct ws_client *ws = xcalloc(1, sizeof *ws);
    ws->http = steal_ptr(http);
    ws->message = (struct buf)BUF_INIT(MESSAGE_MAX + 1);
    *ret = ws;
    return 0;
}

static int send_frame(struct ws_client *ws, unsigned opcode, const void *data, size_t size,
                      struct error *err)
{
    uint8_t mask[4];
    if (size > SIZE_MAX - WEBSOCKET_HEADER_MAX)
        return error_set(err, ERROR_LIMIT, "the message is too large");
    if (getrandom(mask, sizeof mask, 0) != sizeof mask)
        return error_errno(err, errno, "cannot get random bytes");
    cleanup_free uint8_t *frame = xmalloc(WEBSOCKET_HEADER_MAX + size);
    size_t header = websocket_header(frame, opcode, size, mask);
    for (size_t i = 0; i < size; i++)
        frame[header + i] = ((const uint8_t *)data)[i] ^ mask[i & 3];
    return client_send(ws->http, frame, header + size, false, err);
}

int ws_client_send(struct ws_client *ws, bool text, const void *data, size_t size,
                   struct error *err)
{
    if (ws->close_sent)
        return error_set(err, ERROR_GONE, "the WebSocket is closed");
    return send_frame(ws, text ? OPCODE_TEXT : OPCODE_BINARY, data, size, err);
}

int ws_client_close(struct ws_client *ws, int code, const char *reason, struct error *err)
{
    uint8_t payload[WEBSOCKET_CONTROL_MAX];
    if (ws->close_sent)
        return 0;
    ws->close_sent = true;
    return send_frame(ws, OPCODE_CLOSE, payload, websocket_close_payload(payload, code, reason),
                      err);
}

void ws_client_free(struct ws_client *ws)
{
    if (!ws)
        return;
    /* Best effort, and not for long. */
    ws->http->timeout_ms = 100;
    if (!ws->closed)
        ws_client_close(ws, 1000, NULL, NULL);
    http_client_free(ws->http);
    buf_release(&ws->message);
    free(ws);
}

static int malformed(struct ws_client *ws, int code, struct error *err)
{
    ws_client_close(ws, code, NULL, NULL);
    return error_set(err, ERROR_PROTOCOL, "the server broke the WebSocket protocol (%d)", code);
}

/* The header at the front of what is there: 1; 0 if more is needed; minus the code to close with.
 */
static int peek_frame(const struct ws_client *ws, struct frame *ret)
{
    const struct http_client *http = ws->http;
    const uint8_t *at = (const uint8_t *)http->in + http->in_start;
    size_t have = http->in_end - http->in_start;
    if (have < 2)
        return 0;
    unsigned length = at[1] & 0x7f;
    unsigned bytes = length < 126 ? 0 : length == 126 ? 2 : 8;
    *ret = (struct frame){.opcode = at[0] & 0xf, .fin = at[0] & 0x80, .header = 2 + bytes};
    bool control = ret->opcode & 8;
    if ((at[0] & 0x70) || (at[1] & 0x80) || (control && (!ret->fin || bytes)))
        return -1002;
    if (have < ret->header)
        return 0;
    ret->size = bytes ? 0 : length;
    for (unsigned i = 0; i < bytes; i++)
        ret->size = ret->size << 8 | at[2 + i];
    if (!control && ret->size > MESSAGE_MAX - ws->message.size)
        return -1009;
    return 1;
}

static int need(struct ws_client *ws, size_t size, struct error *err)
{
    struct http_client *http = ws->http;
    while (http->in_end - http->in_start < size) {
        ssize_t n = client_fill(http, err);
        if (n <= 0)
            return n < 0 ? -1 : 0;
    }
    return 1;
}

/* 1: the message is complete; 2: not yet; 0: the server went; -1. */
static int take_data(struct ws_client *ws, const struct frame *frame, struct error *err)
{
    struct http_client *http = ws->http;
    bool begins = frame->opcode != OPCODE_CONTINUATION;
    if (begins == ws->in_message)
        return malformed(ws, 1002, err);
    if (begins) {
        ws->in_message = true;
        ws->text = frame->opcode == OPCODE_TEXT;
        ws->utf8 = (struct utf8_check){0};
    }
    http->in_start += frame->header;
    for (uint64_t left = frame->size; left;) {
        int r = need(ws, 1, err);
        if (r <= 0)
            return r;
        size_t size = http->in_end - http->in_start;
        if (size > left)
            size = (size_t)left;
        const char *data = http->in + http->in_start;
        if (ws->text && !utf8_check_feed(&ws->utf8, data, size))
            return malformed(ws, 1007, err);
        buf_append(&ws->message, data, size);
        http->in_start += size;
        left -= size;
    }
    if (!frame->fin)
        return 2;
    if (ws->text && !utf8_check_done(&ws->utf8))
        return malformed(ws, 1007, err);
    ws->in_message = false;
    return 1;
}

static int take_close(struct ws_client *ws, const uint8_t *payload, size_t size,
                      struct ws_message *ret, struct error *err)
{
    int code = size >= 2 ? payload[0] << 8 | payload[1] : 1005;
    if (size == 1 || (size >= 2 && !websocket_close_code_valid(code)))
        return malformed(ws, 1002, err);
    ws_client_close(ws, code == 1005 ? 1000 : code, NULL, NULL);
    ws->closed = true;
    ws->message.size = 0;
    if (size > 2)
        buf_append(&ws->message, payload + 2, size - 2);
    size = ws->message.size;
    buf_append(&ws->message, "", 1);
    *ret = (struct ws_message){.close_code = code, .data = ws->message.data, .size = size};
    return 0;
}

/* The same, and 0 with *ret filled for a close frame. */
static int take_control(struct ws_client *ws, const struct frame *frame, struct ws_message *ret,
                        struct error *err)
{
    struct http_client *http = ws->http;
    int r = need(ws, frame->header + (size_t)frame->size, err);
    if (r <= 0)
        return r;
    const char *payload = http->in + http->in_start + frame->header;
    http->in_start += frame->header + (size_t)frame->size;
    if (frame->opcode == OPCODE_CLOSE)
        return take_close(ws, (const uint8_t *)payload, (size_t)frame->size, ret, err);
    if (frame->opcode == OPCODE_PING && !ws->close_sent &&
        send_frame(ws, OPCODE_PONG, payload, (size_t)frame->size, err) < 0)
        return -1;
    return 2;
}

int ws_client_receive(struct ws_client *ws, struct ws_message *ret, struct error *err)
{
    /* Between frames of a message nothing is ever handed out, so what is there is the last one. */
    if (!ws->in_message)
        ws->message.size = 0;
    for (int r = 2; !ws->closed && r == 2;) {
        struct frame frame;
        r = peek_frame(ws, &frame);
        if (r < 0)
            return malformed(ws, -r, err);
        if (r == 0) {
            r = need(ws, ws->http->in_end - ws->http->in_start + 1, err);
            if (r == 1)
                r = 2;
        } else if (frame.opcode <= OPCODE_BINARY) {
            r = take_data(ws, &frame, err);
        } else if (frame.opcode >= OPCODE_CLOSE && frame.opcode <= OPCODE_PONG) {
            r = take_control(ws, &frame, ret, err);
            if (ws->closed)
                return r;
        } else {
            return malformed(ws, 1002, err);
        }
        if (r < 0)
            return -1;
        if (r == 1) {
            size_t size = ws->message.size;
            buf_append(&ws->message, "", 1);
            *ret = (struct ws_message){.text = ws->text, .data = ws->message.data, .size = size};
            return 1;
        }
    }
    ws->closed = true;
    *ret = (struct ws_message){.close_code = 1006, .data = ""};
    return 0;
}

int ws_client_fd(const struct ws_client *ws)
{
    return ws->http->fd;
}

bool ws_client_buffered(const struct ws_client *ws)
{
    struct frame frame;
    int r = peek_frame(ws, &frame);
    return r < 0 || ws->closed ||
           (r == 1 && ws->http->in_end - ws->http->in_start - frame.header >= frame.size);
}
