/* SPDX-License-Identifier: Apache-2.0 */
/* The server's insides, shared by its files and the WebSocket.

   A connection is a state machine that is moved only by the loop: by http_conn_process(), from its
   poll handle or its timer. What a handler calls (http_reply(), http_collect() …) changes state and
   sends, but calls nobody back and closes nothing that is in use; if there is more to do it asks
   for a turn (http_conn_kick()). So no callback is entered from within another one's call, except
   `on_close`, which http_reply(), http_end() and http_abort() call before they return.

   Input lies in one buffer: in front the head of the request being answered, which must not move
   while its handler lives, behind it a window of bytes that nobody has looked at. Bodies of known
   length bypass the window. */
#pragma once

#include <sys/uio.h>

#include "core/buf.h"
#include "net/http-parse.h"
#include "net/http-server.h"

/* What a connection allocates when its first byte comes, and gives back when it is idle. */
#define HTTP_INPUT_FIRST 8192
/* The least window for a chunked body. */
#define HTTP_WINDOW_MIN 16384
/* One read of a body; shared by all connections, since none keeps anything in it. */
#define HTTP_SCRATCH 65536
/* The most that is read and dropped to keep a connection whose body nobody wanted. */
#define HTTP_DISCARD_MAX (256 * 1024)
/* After a last answer to a client that is still sending: how long and how much is read and dropped,
   so that the answer is not lost to a reset. */
#define HTTP_LINGER_MS  2000
#define HTTP_LINGER_MAX (16 * 1024 * 1024)

enum http_state {
    HTTP_STATE_HEAD,     /* waits for a request, or for the rest of its head */
    HTTP_STATE_REQUEST,  /* a request is with its handler */
    HTTP_STATE_DISCARD,  /* answered; the rest of its body is dropped */
    HTTP_STATE_UPGRADED, /* it is a WebSocket's */
    HTTP_STATE_FLUSH,    /* the last answer is on its way */
    HTTP_STATE_LINGER,   /* and has been sent */
    HTTP_STATE_CLOSED,   /* the handles are being closed */
};

struct http_listener {
    uv_poll_t poll;
    struct http_server *server;
    int fd;
    enum http_origin origin;
    struct http_listener *next;
};

struct http_server {
    uv_loop_t *loop;
    struct http_limits limits;
    http_handler handler;
    void *data;
    struct http_listener *listeners;
    struct http_conn *conns;
    unsigned refusing; /* connections over the limit that are being told so */
    unsigned handles;  /* listeners, connections and the timer: what has yet to be closed */
    bool freed;
    bool draining;
    void (*drained)(void *data);
    void *drained_data;
    uv_timer_t timer; /* until the next try to accept; or, when draining, for `drained` */
    struct http_stats stats;
    char *scratch;
    int64_t date_at;
    char date[40];
};

/* What an upgraded connection may leave unsent before its owner is told to wait. */
#define HTTP_UPGRADED_UNSENT (64 * 1024)

/* Who took a connection over. `input` is called with what is there (and once, perhaps with nothing,
   after http_conn_hold() let it go on) and returns how much it took: less than all only while it is
   held. `closed` is the last call, and comes when the peer has gone. */
struct http_upgrade {
    size_t (*input)(const char *data, size_t size, void *owner);
    void (*drained)(void *owner);
    void (*deadline)(void *owner);
    void (*closed)(void *owner);
};

struct http_conn {
    uv_poll_t poll;
    uv_timer_t timer;
    struct http_server *server;
    struct http_conn *next;
    struct http_conn *prev;
    int fd;
    enum http_origin origin;
    enum http_state state;
    int events; /* what the poll handle is started for */
    unsigned open_handles;
    bool refused;    /* over the limit: not counted as a connection */
    bool processing; /* http_conn_process() is on the stack */
    bool kicked;
    bool broken; /* the peer is gone */
    bool fresh;  /* no request yet */
    bool linger; /* after the last answer: the peer may still be sending */
    bool held;   /* upgraded, and its owner wants no input now */
    bool resumed;

    char *in;
    size_t in_capacity; /* and a byte for a NUL */
    size_t in_start;
    size_t in_end;
    size_t head_size; /* in front, while a request lives */

    char *out;
    size_t out_capacity;
    size_t out_start;
    size_t out_end;
    bool out_waiting; /* somebody was told to wait for room */

    uint64_t since;       /* when the state's clock started */
    uint64_t read_at;     /* last progress of a body */
    uint64_t write_at;    /* last progress of sending */
    uint64_t deadline_at; /* an upgrade's */
    uint64_t timer_at;    /* what the timer is started for; 0: it is not */

    /* The body of the current request. */
    uint64_t body_left; /* of a known length */
    struct http_chunked body_chunks;
    bool body_chunked;
    bool body_ended; /* everything was read */
    uint64_t dropped;

    struct http_request *req;
    const struct http_upgrade *upgrade;
    void *upgrade_owner;
};

enum http_body_mode {
    HTTP_BODY_UNASKED,
    HTTP_BODY_COLLECT,
    HTTP_BODY_STREAM,
    HTTP_BODY_DELIVERED,
};

struct http_request {
    struct http_conn *conn;
    bool announced; /* the handler has seen it */
    void *data;
    void (*on_close)(void *data);

    enum http_body_mode mode;
    bool paused;
    bool continued; /* "100 Continue" was sent, or need not be */
    int fail;       /* status to refuse the body with, once the loop has its turn */
    size_t collect_max;
    struct buf body;
    void (*on_body)(struct http_request *req, const char *body, size_t size, void *data);
    void (*on_data)(struct http_request *req, const char *piece, size_t size, void *data);
    void (*on_end)(struct http_request *req, void *data);
    void *body_data;
    uint64_t received;
    uint64_t awaited_ms; /* how long the client had to send */

    struct buf extra; /* header lines of the answer */
    bool begun;
    bool reply_body; /* false: HEAD, 204, 304 */
    bool reply_chunked;
    bool keep;
    uint64_t reply_left; /* of a known length */
    void (*on_drain)(void *data);
    void *drain_data;

    struct http_head head; /* last: most of it is not initialised */
};

/* http-conn.c */
struct http_conn *http_conn_new(struct http_server *server, int fd, enum http_origin origin,
                                bool refused);
/* The only place where states advance. */
void http_conn_process(struct http_conn *conn);
/* A turn soon, from the loop. */
void http_conn_kick(struct http_conn *conn);
/* Poll events, deadlines and memory, according to the state. Calls nobody back. */
void http_conn_settle(struct http_conn *conn);
void http_conn_close(struct http_conn *conn);
static inline uint64_t http_conn_now(const struct http_conn *conn)
{
    return uv_now(conn->server->loop);
}

/* http-input.c */
/* Reads once, and looks at what came as far as it needs no callback. */
void http_conn_read(struct http_conn *conn);
/* Each advances its state as far as one callback reaches; false: nothing more to do for now. */
bool http_input_head(struct http_conn *conn);
bool http_input_body(struct http_conn *conn);
bool http_input_discard(struct http_conn *conn);
/* Whether the current body may still be read, and when. */
bool http_input_awaited(const struct http_conn *conn);
/* Back to waiting for a request. */
void http_input_next(struct http_conn *conn);

/* http-output.c */
/* Sends what can be sent now and keeps the rest. */
void http_conn_send(struct http_conn *conn, const struct iovec *parts, int count);
void http_conn_flush(struct http_conn *conn);
static inline size_t http_conn_unsent(const struct http_conn *conn)
{
    return conn->out_end - conn->out_start;
}

/* http-reply.c */
/* Answers with an error of the server's own, and closes behind it. If an answer has begun, cuts. */
void http_conn_fail(struct http_conn *conn, int status, const char *why);
void http_reply_continue(struct http_request *req);
/* The request is over: its handler hears of it, and it is freed. */
void http_request_over(struct http_request *req);
/* The state behind an answer that is complete. */
void http_conn_answered(struct http_conn *conn, bool keep);

/* http-request.c */
struct http_request *http_request_new(struct http_conn *conn);
void http_request_free(struct http_request *req);

/* http-server.c */
int http_listener_origin(int fd, enum http_origin *ret, struct error *err);
void http_server_conn_closed(struct http_server *server, struct http_conn *conn);
void http_server_handle_closed(struct http_server *server);
const char *http_server_date(struct http_server *server);

/* http-upgrade.c: for the WebSocket. The request is over, without its on_close being called. */
struct http_conn *http_conn_upgrade(struct http_request *req, const struct http_upgrade *upgrade,
                                    void *owner);
void http_conn_hold(struct http_conn *conn, bool hold);
/* When `deadline` is to be called; 0: never. */
void http_conn_deadline(struct http_conn *conn, uint64_t at);
/* The owner is done with it: what is there is sent, then it is closed. `closed` is not called. */
void http_conn_finish(struct http_conn *conn);
