/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/1.1 server on a libuv loop: keep-alive, pipelining, chunked bodies both ways, upgrades,
   and a limit or a deadline on everything that a stranger controls.

   A handler is called when a request's head is there. It takes the body in one of two ways, or not
   at all, and answers in one of two ways, now or later:

     http_collect(req, max, done, data)        the whole body, then done(req, data)
     http_stream(req, on_data, on_end, data)   piece by piece; http_pause() and http_resume() hold
                                               the sender up
     http_reply(req, status, type, body, size)                     all at once
     http_begin(req, status, type); http_write(); … http_end()     as it comes, chunked

   A request lives until its answer is complete or its client has left, whichever comes first; then
   `on_close` is called, once, and the pointer is dead. A handler that answers later sets it, so as
   to give up its work. Nothing here blocks. All of it runs on the loop's thread.

   Which call calls whom: http_reply(), http_end() and http_abort() complete the request, and so
   call on_close before they return. Nothing else that is called here calls back from within;
   everything else comes from the loop, also that a client has left, even if a write noticed it.

   A client has left when it closed the connection, or shut its sending side down, while a request
   of its own was being answered. An answer that is complete is still sent to it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"

struct http_server;
struct http_request;

struct http_limits {
    size_t head_bytes;    /* request line and headers together; over: 431 (or 414) */
    unsigned headers;     /* how many; over: 431 */
    unsigned connections; /* of all listeners together; over: 503 and closed */
    unsigned head_ms; /* from the first byte (or the accept) to the end of the head; over: 408 */
    unsigned idle_ms; /* a kept-alive connection with no request */
    unsigned body_stall_ms; /* longest gap while a body is awaited; over: 408 */
    unsigned body_rate; /* bytes a second that a body must come with, on average, after the first
                           ten seconds; below: 408 */
    unsigned write_stall_ms; /* no progress while something is to be sent: closed */
    size_t unsent_bytes;     /* what http_write() may leave unsent before it says "wait" */
};

/* What a production server has; tests make them smaller. */
#define HTTP_LIMITS_DEFAULT                                                                   \
    {                                                                                         \
        .head_bytes = 32 * 1024, .headers = 100, .connections = 4096, .head_ms = 10000,       \
        .idle_ms = 75000, .body_stall_ms = 20000, .body_rate = 1024, .write_stall_ms = 60000, \
        .unsent_bytes = 256 * 1024                                                            \
    }

/* Where a connection came in: decided by its listener, for authentication. */
enum http_origin {
    HTTP_UNIX,     /* a Unix socket */
    HTTP_LOOPBACK, /* a TCP listener bound to a loopback address */
    HTTP_NETWORK,  /* any other */
};

typedef void (*http_handler)(struct http_request *req, void *data);

struct http_server *http_server_new(uv_loop_t *loop, const struct http_limits *limits,
                                    http_handler handler, void *data);
/* Takes over a listening socket (bound and listening; from systemd, or by http_bind_*); on failure
   it stays the caller's. */
int http_server_listen(struct http_server *server, int fd, struct error *err);
/* "127.0.0.1:5410", "[::1]:0", "localhost:80": a listening socket; *ret_origin says whether it is
   loopback. */
int http_bind_tcp(const char *address, int *ret_fd, enum http_origin *ret_origin,
                  struct error *err);
/* A socket that is there already and answers is ERROR_UNAVAILABLE; a stale one is replaced. */
int http_bind_unix(const char *path, unsigned mode, int *ret_fd, struct error *err);
/* "127.0.0.1:5410" or "unix:/run/boxd/boxd.sock" of a listening socket; for people. */
void http_address_text(int fd, char *ret, size_t size);
/* No new connections; idle ones are closed, others after their answer. `drained` is called when
   none is left (websockets included: their owners close those). */
void http_server_drain(struct http_server *server, void (*drained)(void *data), void *data);
/* Closes everything at once; to be followed by running the loop until its handles are closed. */
void http_server_free(struct http_server *server);

struct http_stats {
    uint64_t requests;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t refused; /* connections over the limit */
    uint64_t timeouts;
    unsigned connections;
};
void http_server_stats(const struct http_server *server, struct http_stats *ret);

/* --- the request ---------------------------------------------------------------------------------
 */

const char *http_method(const struct http_request *req);
/* As sent, percent-encoding and all, without the query; always begins with "/". */
const char *http_path(const struct http_request *req);
/* Behind the "?"; "" if there is none. */
const char *http_query(const struct http_request *req);
/* By name, in any case; NULL if it is not there. Of several, the first: those that must not be
   given twice (Host, Content-Length, Authorization, If-Match …) were refused with 400 before. */
const char *http_header(const struct http_request *req, const char *name);
enum http_origin http_origin(const struct http_request *req);
/* "192.0.2.7:40312": whoever sent it, or the proxy before it; for people. */
void http_peer_text(const struct http_request *req, char *ret, size_t size);
/* Length of the body; 0: none; HTTP_LENGTH_UNKNOWN: chunked. */
#define HTTP_LENGTH_UNKNOWN UINT64_MAX
uint64_t http_body_length(const struct http_request *req);
/* Kept with the request for its handler; on_close is called once, when it is over in any way. */
void http_set_data(struct http_request *req, void *data, void (*on_close)(void *data));

/* One component of a path or a query value, decoded; NULL if malformed, or with a NUL inside. The
   caller frees. `plus`: whether "+" means a space. No I/O. */
char *http_decode(const char *text, size_t size, bool plus);
/* The decoded value of a query parameter; NULL if it is not there. The caller frees. */
char *http_query_value(const char *query, const char *name);

/* --- its body ------------------------------------------------------------------------------------
 */

/* `done` gets the body (NUL-terminated beside its size; valid until it returns). A body over `max`
   is answered with 413 and `done` is not called. "Expect: 100-continue" is answered when a body is
   asked for. */
void http_collect(struct http_request *req, size_t max,
                  void (*done)(struct http_request *req, const char *body, size_t size, void *data),
                  void *data);
/* `on_data` gets pieces; `on_end` is called once behind the last. If the client leaves in the
   middle, on_close is called and on_end is not. */
void http_stream(struct http_request *req,
                 void (*on_data)(struct http_request *req, const char *piece, size_t size,
                                 void *data),
                 void (*on_end)(struct http_request *req, void *data), void *data);
void http_pause(struct http_request *req);
void http_resume(struct http_request *req);

/* --- its answer ----------------------------------------------------------------------------------
 */

/* Before http_reply() or http_begin(). Values with a line break are a bug of the caller's (assert).
 */
void http_add_header(struct http_request *req, const char *name, const char *value);
/* The body is copied, or sent before it returns. A body that was not taken is read and dropped, or
   the connection closed after the answer if it is large. HEAD requests get no body. */
void http_reply(struct http_request *req, int status, const char *type, const void *body,
                size_t size);
/* `length` HTTP_LENGTH_UNKNOWN: chunked (or until the close, for HTTP/1.0). */
void http_begin(struct http_request *req, int status, const char *type, uint64_t length);
/* True: go on. False: more than limits.unsent_bytes are waiting; `on_drain` (see http_on_drain)
   tells when to go on. The bytes were taken in either case. */
bool http_write(struct http_request *req, const void *data, size_t size);
void http_on_drain(struct http_request *req, void (*on_drain)(void *data), void *data);
void http_end(struct http_request *req);
/* Something went wrong in the middle of an answer: the connection is cut, so that the client cannot
   take the part for the whole. */
void http_abort(struct http_request *req);
