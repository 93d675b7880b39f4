/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's RPC on two descriptors: the process that started boxd at the other ends of them.

   Neither may ever be waited for. What is written waits in memory while the peer does not read, and
   from UNSENT_MAX on the connection is told to take no more requests; a peer that never reads costs
   what its requests under way have to say, and no more. */
#include <string.h>

#include "api/rpc-frames.h"
#include "api/rpc-internal.h"
#include "core/log.h"

#define READ_SIZE   (64u << 10)
#define UNSENT_MAX  (1u << 20)
#define PATIENCE_MS 500 /* for answers, once nobody asks any more */

struct rpc_stdio {
    struct api *api;
    struct live live;
    struct rpc_conn *conn;
    struct rpc_frames frames;
    uv_pipe_t in;
    uv_pipe_t out;
    uv_timer_t wake;     /* to go on with messages that are there already */
    uv_timer_t patience; /* at the end */
    unsigned open_handles;
    bool reading;
    bool paused;  /* by the connection */
    bool full;    /* it was told that too much waits to go out */
    bool eof;     /* nothing more comes in */
    bool stopped; /* nothing more is taken in: the api stops, or it is over */
    bool broken;  /* nothing more goes out */
    bool told;    /* that it is over */
    void (*ended)(void *data);
    void *data;
    char bytes[READ_SIZE];
};

struct output {
    uv_write_t req;
    struct rpc_stdio *stdio;
    struct json_out text;
};

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf);

/* --- the end --- */

static void tell_end(struct rpc_stdio *stdio)
{
    if (stdio->told)
        return;
    stdio->told = true;
    stdio->stopped = true;
    uv_timer_stop(&stdio->patience);
    stdio->ended(stdio->data);
}

static void on_patience(uv_timer_t *timer)
{
    tell_end(timer->data);
}

/* Nobody asks any more: is everybody answered? */
static void check_end(struct rpc_stdio *stdio)
{
    if (stdio->eof && !rpc_conn_busy(stdio->conn) &&
        uv_stream_get_write_queue_size((uv_stream_t *)&stdio->out) == 0)
        tell_end(stdio);
}

/* --- in --- */

static void give_memory(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct rpc_stdio *stdio = handle->data;
    (void)suggested;
    *ret = uv_buf_init(stdio->bytes, sizeof stdio->bytes);
}

static void set_reading(struct rpc_stdio *stdio, bool wanted)
{
    wanted = wanted && !stdio->eof && !stdio->stopped;
    if (wanted == stdio->reading)
        return;
    stdio->reading = wanted;
    if (wanted)
        uv_read_start((uv_stream_t *)&stdio->in, give_memory, on_read);
    else
        uv_read_stop((uv_stream_t *)&stdio->in);
}

/* What is there, as far as the connection takes it. */
static void deliver(struct rpc_stdio *stdio)
{
    struct error err = ERROR_INIT;
    const char *text;
    size_t size;
    int rc = 1;
    while (!stdio->paused && !stdio->stopped &&
           (rc = rpc_frames_next(&stdio->frames, &text, &size, &err)) == 1)
        rpc_conn_message(stdio->conn, text, size);
    if (rc < 0) {
        log_error(LOG_WARN, "stdio_broken", &err);
        stdio->eof = true;
    }
    set_reading(stdio, !stdio->paused);
    if (rc <= 0)
        check_end(stdio);
}

static void on_wake(uv_timer_t *timer)
{
    deliver(timer->data);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    struct rpc_stdio *stdio = stream->data;
    if (size > 0) {
        rpc_frames_feed(&stdio->frames, buf->base, (size_t)size);
    } else if (size < 0) {
        set_reading(stdio, false);
        stdio->eof = true;
        rpc_frames_feed(&stdio->frames, "\n", 1); /* what has no end of its line has it now */
        uv_timer_start(&stdio->patience, on_patience, PATIENCE_MS, 0);
    }
    deliver(stdio);
}

static void pause_messages(void *owner)
{
    struct rpc_stdio *stdio = owner;
    stdio->paused = true;
    set_reading(stdio, false);
}

/* Later: the connection is in the middle of something when it calls this. */
static void resume_messages(void *owner)
{
    struct rpc_stdio *stdio = owner;
    stdio->paused = false;
    uv_timer_start(&stdio->wake, on_wake, 0, 0);
}

/* --- out --- */

static void on_written(uv_write_t *req, int status)
{
    struct output *output = (struct output *)req;
    struct rpc_stdio *stdio = output->stdio;
    json_out_release(&output->text);
    free(output);
    if (!stdio->conn) /* closed meanwhile */
        return;
    if (status < 0) {
        stdio->broken = true;
        tell_end(stdio);
        return;
    }
    if (stdio->full &&
        uv_stream_get_write_queue_size((uv_stream_t *)&stdio->out) <= UNSENT_MAX / 2) {
        stdio->full = false;
        rpc_conn_drained(stdio->conn);
    }
    check_end(stdio);
}

static bool send_message(void *owner, const char *text, size_t size)
{
    struct rpc_stdio *stdio = owner;
    if (stdio->broken)
        return true;
    struct output *output = xcalloc(1, sizeof *output);
    *output = (struct output){.stdio = stdio, .text = JSON_OUT_INIT};
    rpc_frames_write(&output->text, text, size);
    uv_buf_t bytes = uv_buf_init(output->text.buf.data, (unsigned)output->text.buf.size);
    if (uv_write(&output->req, (uv_stream_t *)&stdio->out, &bytes, 1, on_written) < 0) {
        json_out_release(&output->text);
        free(output);
        stdio->broken = true;
        uv_timer_start(&stdio->patience, on_patience, 0, 0);
        return true;
    }
    if (uv_stream_get_write_queue_size((uv_stream_t *)&stdio->out) > UNSENT_MAX)
        stdio->full = true;
    return !stdio->full;
}

static size_t unsent_bytes(void *owner)
{
    const struct rpc_stdio *stdio = owner;
    return uv_stream_get_write_queue_size((const uv_stream_t *)&stdio->out);
}

/* --- life --- */

/* Later: the connection is in the middle of an answer. */
static void give_up(void *owner, const char *reason)
{
    struct rpc_stdio *stdio = owner;
    if (!stdio->broken)
        log_event(LOG_WARN, "stdio_broken", LOG_TEXT("message", reason));
    stdio->broken = true;
    uv_timer_start(&stdio->patience, on_patience, 0, 0);
}

static const struct rpc_transport transport = {.send = send_message,
                                               .unsent = unsent_bytes,
                                               .pause = pause_messages,
                                               .resume = resume_messages,
                                               .give_up = give_up};

/* The api stops: what is under way is answered with that. */
static void on_stop(struct live *live)
{
    struct rpc_stdio *stdio =
        (struct rpc_stdio *)(void *)((char *)live - offsetof(struct rpc_stdio, live));
    stdio->stopped = true;
    set_reading(stdio, false);
    rpc_conn_stop(stdio->conn);
}

struct rpc_stdio *rpc_stdio_open(struct api *api, int in, int out, void (*ended)(void *data),
                                 void *data)
{
    struct rpc_stdio *stdio = xcalloc(1, sizeof *stdio);
    stdio->api = api;
    stdio->ended = ended;
    stdio->data = data;
    stdio->live.stop = on_stop;
    rpc_frames_init(&stdio->frames);
    uv_pipe_init(api->loop, &stdio->in, 0);
    uv_pipe_init(api->loop, &stdio->out, 0);
    uv_timer_init(api->loop, &stdio->wake);
    uv_timer_init(api->loop, &stdio->patience);
    stdio->in.data = stdio->out.data = stdio->wake.data = stdio->patience.data = stdio;
    stdio->open_handles = 4;
    stdio->conn = rpc_conn_new(api, api->config.rpc.instance, "stdio", &transport, stdio);
    live_add(api, &stdio->live);
    if (uv_pipe_open(&stdio->out, out) < 0 || uv_pipe_open(&stdio->in, in) < 0) {
        stdio->broken = stdio->eof = true;
        uv_timer_start(&stdio->patience, on_patience, 0, 0);
        return stdio;
    }
    set_reading(stdio, true);
    return stdio;
}

static void on_closed(uv_handle_t *handle)
{
    struct rpc_stdio *stdio = handle->data;
    if (--stdio->open_handles > 0)
        return;
    rpc_frames_release(&stdio->frames);
    free(stdio);
}

void rpc_stdio_close(struct rpc_stdio *stdio)
{
    if (!stdio)
        return;
    struct rpc_conn *conn = steal_ptr(stdio->conn);
    stdio->told = stdio->stopped = stdio->broken = true;
    live_remove(stdio->api, &stdio->live);
    rpc_conn_free(conn);
    uv_close((uv_handle_t *)&stdio->in, on_closed);
    uv_close((uv_handle_t *)&stdio->out, on_closed);
    uv_close((uv_handle_t *)&stdio->wake, on_closed);
    uv_close((uv_handle_t *)&stdio->patience, on_closed);
}
