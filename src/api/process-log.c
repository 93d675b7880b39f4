/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a managed process, from the ring that holds the end of it: what is there, or as it
   comes. */
#include <string.h>

#include "api/decode.h"
#include "api/internal.h"

#define FOLLOW_CHUNK 65536

/* Lives as long as its request. */
struct follow {
    struct live live;
    struct api *api;
    struct http_request *req;
    struct process *process; /* NULL: it is forgotten */
    struct process_follower follower;
    enum stream stream;
    uint64_t offset;
    bool full; /* the client does not take more just now */
    bool ended;
};

static void follow_end(struct follow *follow)
{
    follow->ended = true;
    http_end(follow->req);
}

/* All there is to tell; and if there will be no more, the end. */
static void follow_pump(struct follow *follow)
{
    struct process_info info;
    cleanup_free char *buffer = xmalloc(FOLLOW_CHUNK);
    size_t size;
    while ((size = process_log(follow->process, follow->stream, &follow->offset, buffer,
                               FOLLOW_CHUNK)) > 0) {
        follow->offset += size;
        if (!http_write(follow->req, buffer, size)) {
            follow->full = true;
            return;
        }
    }
    process_info(follow->process, &info);
    if (!info.running)
        follow_end(follow);
}

static void on_changed(void *data, bool gone)
{
    struct follow *follow = data;
    if (gone) {
        follow->process = NULL;
        /* What the client did not take in time is gone with it. */
        if (!follow->ended)
            follow_end(follow);
    } else if (!follow->full) {
        follow_pump(follow);
    }
}

static void on_drain(void *data)
{
    struct follow *follow = data;
    follow->full = false;
    if (follow->process)
        follow_pump(follow);
}

static void on_close(void *data)
{
    struct follow *follow = data;
    if (follow->process)
        process_unfollow(follow->process, &follow->follower);
    live_remove(follow->api, &follow->live);
    free(follow);
}

static void on_stop(struct live *live)
{
    follow_end((struct follow *)live);
}

static void follow_begin(struct call *call, struct process *process, const struct log_query *query)
{
    struct follow *follow = xcalloc(1, sizeof *follow);
    follow->live.stop = on_stop;
    follow->api = call->api;
    follow->req = call->req;
    follow->process = process;
    follow->follower = (struct process_follower){.changed = on_changed, .data = follow};
    follow->stream = (enum stream)query->stream;
    follow->offset = query->offset;
    live_add(call->api, &follow->live);
    http_set_data(call->req, follow, on_close);
    http_on_drain(call->req, on_drain, follow);
    process_follow(process, &follow->follower);
    http_begin(call->req, 200, "application/octet-stream", HTTP_LENGTH_UNKNOWN);
    follow_pump(follow);
}

void rest_process_log(struct call *call)
{
    struct process_info info;
    struct session *session;
    struct log_query query = {.limit = LOG_LIMIT_DEFAULT};
    struct process *process = call_process(call, &session);
    if (!process || !call_query(call, &query))
        return;
    process_info(process, &info);
    uint64_t total = info.bytes[query.stream];
    uint64_t kept = total - info.oldest[query.stream];
    if (query.follow && strcmp(http_method(call->req), "HEAD") != 0) {
        reply_log_headers(call->req, query.offset, total, kept, info.running);
        follow_begin(call, process, &query);
        return;
    }
    cleanup_free char *buffer = xmalloc(query.limit);
    size_t size =
        process_log(process, (enum stream)query.stream, &query.offset, buffer, query.limit);
    reply_log_headers(call->req, query.offset + size, total, kept, info.running);
    http_reply(call->req, 200, "application/octet-stream", buffer, size);
}
