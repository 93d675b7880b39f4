/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking HTTP/1.1 client for the command line: one connection, one request at a time.

     struct http_client *client;
     if (http_client_connect(address, token, &client, err) < 0)
         return -1;
     struct http_call call = {.method = "POST", .target = "/v1/x", .type = "application/json",
                              .body = json, .body_size = size};
     if (http_client_call(client, &call, err) == 0 && http_client_status(client) == 200)
         http_client_read_all(client, max, &text, &text_size, err);
     http_client_free(client);

   A connection is kept for the next call; what is left of the last answer's body is read and
   dropped first. A server that closed the connection in between is connected to again. An answer
   with an error status is no failure here: whoever calls looks at the status.

   Nothing here touches SIGPIPE: sends are made without it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"

struct http_client;

#define HTTP_CLIENT_CHUNKED UINT64_MAX

struct http_call {
    const char *method; /* NULL: GET */
    const char *target; /* path and query, encoded: see http_client_encode() */
    const char *type;   /* of the body; NULL: no Content-Type */
    /* Further ones, "Name: value" each, NULL at the end; may be NULL. */
    const char *const *headers;

    const void *body; /* may be NULL */
    size_t body_size;
    /* Instead of `body`: called for piece after piece. Returns bytes put into `buffer`, 0 at the
       end, or -errno to give up (the connection is then cut). */
    ssize_t (*source)(char *buffer, size_t size, void *data);
    void *source_data;
    uint64_t source_length; /* exactly that many bytes, or HTTP_CLIENT_CHUNKED */

    unsigned timeout_ms; /* the longest silence of the server; 0: none */
};

/* `address`: "/run/boxd/boxd.sock", "unix:/run/boxd/boxd.sock", "http://127.0.0.1:5410" or
   "127.0.0.1:5410". `token`: sent as a bearer token; NULL: none. Both are copied. */
int http_client_connect(const char *address, const char *token, struct http_client **ret,
                        struct error *err);
void http_client_free(struct http_client *client);

static inline void http_client_free_p(struct http_client **client)
{
    http_client_free(*client);
}
#define cleanup_http_client __attribute__((cleanup(http_client_free_p)))

/* Sends the request and reads the head of the answer. */
int http_client_call(struct http_client *client, const struct http_call *call, struct error *err);

/* Of the last answer. */
int http_client_status(const struct http_client *client);
const char *http_client_header(const struct http_client *client, const char *name);

/* A piece of the body as it comes: bytes (at least one), 0 at its end, -1. An answer that was cut
   off is an error, never an end. */
ssize_t http_client_read(struct http_client *client, void *buffer, size_t size, struct error *err);
/* The whole of it, NUL-terminated; ERROR_LIMIT over `max`. The caller frees. */
int http_client_read_all(struct http_client *client, size_t max, char **ret, size_t *ret_size,
                         struct error *err);
/* Each piece to `sink`, until the end; a negative return of the sink's (an errno) stops it. */
int http_client_copy(struct http_client *client,
                     int (*sink)(const char *piece, size_t size, void *data), void *data,
                     struct error *err);

/* For poll(), while a body is read from more than one connection. When it is readable, or
   http_client_buffered(), call http_client_read(); it may wait for the rest of a piece's frame. */
int http_client_fd(const struct http_client *client);
bool http_client_buffered(const struct http_client *client);

/* A path component or query value, percent-encoded. The caller frees. */
char *http_client_encode(const char *text);

/* --- WebSocket -----------------------------------------------------------------------------------
 */

struct ws_client;

/* Upgrades a connection of its own. A server that answers anything but 101 is ERROR_PROTOCOL, with
   the status and the start of what it said in the message. `protocol` may be NULL. */
int ws_client_connect(const char *address, const char *token, const char *target,
                      const char *protocol, struct ws_client **ret, struct error *err);
/* Sends a close frame if there was none; does not wait for the answer. */
void ws_client_free(struct ws_client *ws);

static inline void ws_client_free_p(struct ws_client **ws)
{
    ws_client_free(*ws);
}
#define cleanup_ws_client __attribute__((cleanup(ws_client_free_p)))

int ws_client_send(struct ws_client *ws, bool text, const void *data, size_t size,
                   struct error *err);
int ws_client_close(struct ws_client *ws, int code, const char *reason, struct error *err);

struct ws_message {
    bool text;
    const char *data; /* NUL-terminated beside its size; valid until the next call */
    size_t size;
    int close_code; /* at the end: 1005 if the server gave none, 1006 if it just went */
};

/* 1: a message; 0: the server closed, see close_code (and the reason in `data`); -1: an error.
   Waits for it. Pings are answered in here. */
int ws_client_receive(struct ws_client *ws, struct ws_message *ret, struct error *err);
/* For poll(). When it is readable, or ws_client_buffered(), call ws_client_receive(); it may wait
   for the rest of a message that has begun. */
int ws_client_fd(const struct ws_client *ws);
bool ws_client_buffered(const struct ws_client *ws);
