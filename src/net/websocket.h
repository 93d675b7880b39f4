/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket on a request that asked for one: the server's side of RFC 6455. */
#pragma once

#include "net/http-server.h"

struct websocket;

struct websocket_events {
    /* A whole message. `text` frames are valid UTF-8. The data is the callee's until it returns. */
    void (*message)(struct websocket *ws, bool text, const char *data, size_t size, void *owner);
    /* There is room to send again after websocket_send() said false. May be NULL. */
    void (*drained)(struct websocket *ws, void *owner);
    /* Over: by either side, an error or a dead line. The last call; `ws` is dead afterwards. */
    void (*closed)(struct websocket *ws, int code, void *owner);
};

struct websocket_options {
    size_t message_max;     /* bytes of a message, all fragments together; over: 1009 */
    unsigned fragments_max; /* of a message; over: 1009 (0: 4,096) */
    unsigned ping_ms;       /* a ping as often as that; no pong or other frame until the next: dead.
                               0: none */
    int send_buffer;        /* of the kernel, in bytes: what is on its way cannot be taken back.
                               0: as it is */
    const char *protocol;   /* subprotocol to echo if the client offered it; NULL: none */
};

#define WEBSOCKET_NORMAL     1000
#define WEBSOCKET_GOING_AWAY 1001
#define WEBSOCKET_PROTOCOL   1002
#define WEBSOCKET_POLICY     1008
#define WEBSOCKET_TOO_BIG    1009
#define WEBSOCKET_INTERNAL   1011

/* Whether the request is a correct upgrade; if not it has been answered (400 or 426). */
bool websocket_wanted(struct http_request *req);
/* Completes the handshake and takes the connection over: the request is over, without its on_close
   being called. */
struct websocket *websocket_accept(struct http_request *req,
                                   const struct websocket_options *options,
                                   const struct websocket_events *events, void *owner);
/* False: more is waiting to be sent than should (64 KiB); it was taken all the same. */
bool websocket_send(struct websocket *ws, bool text, const void *data, size_t size);
/* Bytes that wait for the client to take them. */
size_t websocket_unsent(const struct websocket *ws);
/* Stops and goes on reading from the client: for owners whose own sink is full. */
void websocket_pause(struct websocket *ws);
void websocket_resume(struct websocket *ws);
/* Sends a close frame; `closed` follows when the peer has answered, or after 2 s. */
void websocket_close(struct websocket *ws, int code, const char *reason);
