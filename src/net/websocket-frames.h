/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a WebSocket, without any I/O: bytes in, messages out, and the rules of RFC 6455 for
   a server. wslay takes the frames apart; what may follow what, how much of it, and which code
   ends it is decided here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct websocket_reader;

struct websocket_reader_events {
    void (*message)(bool text, const char *data, size_t size, void *owner);
    void (*ping)(const char *data, size_t size, void *owner);
    /* 1005: without a code. Nothing is called after it. */
    void (*close)(int code, void *owner);
};

struct websocket_reader *websocket_reader_new(size_t message_max, unsigned fragments_max,
                                              const struct websocket_reader_events *events,
                                              void *owner);
void websocket_reader_free(struct websocket_reader *reader);

/* Returns how much it took; all, unless it was stopped. Once *ret_fail is not 0, it is the code to
   close with, and feeding is over. */
size_t websocket_reader_feed(struct websocket_reader *reader, const char *data, size_t size,
                             int *ret_fail);
/* Whether a message has begun, and not ended: how often one has begun, else 0. */
uint64_t websocket_reader_unfinished(const struct websocket_reader *reader);
/* From within an event: no further ones in this feed. The next goes on, also without new bytes. */
void websocket_reader_stop(struct websocket_reader *reader);

#define WEBSOCKET_HEADER_MAX  14
#define WEBSOCKET_CONTROL_MAX 125
/* The header of an unfragmented frame; returns its size. `mask` NULL: a server's, without one. */
size_t websocket_header(uint8_t ret[WEBSOCKET_HEADER_MAX], unsigned opcode, uint64_t size,
                        const uint8_t mask[4]);
/* The payload of a close frame; the reason is cut to what fits, at a character. */
size_t websocket_close_payload(uint8_t ret[WEBSOCKET_CONTROL_MAX], int code, const char *reason);
/* Whether a peer may send it in a close frame. */
bool websocket_close_code_valid(int code);
/* Sec-WebSocket-Accept for a key of 24 characters. */
#define WEBSOCKET_KEY_SIZE    24
#define WEBSOCKET_ACCEPT_SIZE 28
void websocket_accept_key(const char *key, char ret[WEBSOCKET_ACCEPT_SIZE + 1]);

/* UTF-8 that comes in pieces. */
struct utf8_check {
    uint8_t need; /* bytes to come of the current sequence */
    uint8_t low;  /* and what the next of them may be */
    uint8_t high;
};
bool utf8_check_feed(struct utf8_check *check, const char *data, size_t size);
static inline bool utf8_check_done(const struct utf8_check *check)
{
    return check->need == 0;
}
