/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a client's call: its head, then its body piece by piece. */
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "net/http-client-internal.h"

#define PIECE 65536

static void begin_body(struct http_client *client)
{
    int status = client->head.status;
    client->chunks = (struct http_chunked){0};
    client->body_left = client->head.length;
    if (client->no_body || status < 200 || status == 204 || status == 304)
        client->body = CLIENT_BODY_NONE;
    else if (client->head.chunked)
        client->body = CLIENT_BODY_CHUNKED;
    else if (client->head.length == HTTP_LENGTH_UNKNOWN)
        client->body = CLIENT_BODY_TO_CLOSE;
    else
        client->body = client->body_left ? CLIENT_BODY_LENGTH : CLIENT_BODY_NONE;
}

int client_read_head(struct http_client *client, struct error *err)
{
    for (;;) {
        ssize_t size = 0;
        http_head_init(&client->head, HTTP_RESPONSE, CLIENT_INPUT, HTTP_FIELDS_MAX);
        /* From the front, since a head counts from where it begins. */
        memmove(client->in, client->in + client->in_start, client->in_end - client->in_start);
        client->in_end -= client->in_start;
        client->in_start = 0;
        while ((size = http_head_feed(&client->head, client->in, client->in_end)) == 0) {
            ssize_t n = client_fill(client, err);
            if (n < 0)
                return -1;
            if (n == 0)
                return error_set(err, ERROR_GONE, "%s closed the connection without an answer",
                                 client->address);
        }
        if (size < 0) {
            error_set(err, ERROR_PROTOCOL, "%s does not answer as a boxd does: %s", client->address,
                      client->head.why);
            return error_hint(err, "is something else listening there?");
        }
        client->in_start = (size_t)size;
        /* "100 Continue" and its like announce the real one. */
        if (client->head.status / 100 == 1 && client->head.status != 101)
            continue;
        free(client->head_data);
        client->head_data = xmalloc((size_t)size);
        memcpy(client->head_data, client->in, (size_t)size);
        http_head_terminate(&client->head, client->head_data);
        client->answered = true;
        begin_body(client);
        return 0;
    }
}

static ssize_t cut_off(struct http_client *client, struct error *err)
{
    return error_set(err, ERROR_GONE, "%s closed the connection in the middle of its answer",
                     client->address);
}

static ssize_t read_chunked(struct http_client *client, char *buffer, size_t size,
                            struct error *err)
{
    for (;;) {
        const char *piece;
        size_t piece_size;
        size_t have = client->in_end - client->in_start;
        if (have == 0) {
            ssize_t n = client_fill(client, err);
            if (n <= 0)
                return n < 0 ? -1 : cut_off(client, err);
            continue;
        }
        /* No more than fits: what lies between chunks only makes it less. */
        ssize_t taken = http_chunked_feed(&client->chunks, client->in + client->in_start,
                                          have < size ? have : size, &piece, &piece_size);
        if (taken < 0)
            return error_set(err, ERROR_PROTOCOL, "%s sent a malformed chunk", client->address);
        client->in_start += (size_t)taken;
        if (piece_size) {
            memcpy(buffer, piece, piece_size);
            return (ssize_t)piece_size;
        }
        if (client->chunks.done) {
            client->body = CLIENT_BODY_NONE;
            return 0;
        }
    }
}

ssize_t http_client_read(struct http_client *client, void *buffer, size_t size, struct error *err)
{
    if (client->body == CLIENT_BODY_NONE || size == 0)
        return 0;
    if (client->body == CLIENT_BODY_CHUNKED)
        return read_chunked(client, buffer, size, err);
    if (client->in_start == client->in_end) {
        ssize_t n = client_fill(client, err);
        if (n < 0)
            return -1;
        if (n == 0 && client->body == CLIENT_BODY_LENGTH)
            return cut_off(client, err);
        if (n == 0) {
            client->body = CLIENT_BODY_NONE;
            return 0;
        }
    }
    if (size > client->in_end - client->in_start)
        size = client->in_end - client->in_start;
    if (client->body == CLIENT_BODY_LENGTH) {
        if (size > client->body_left)
            size = (size_t)client->body_left;
        client->body_left -= size;
        if (client->body_left == 0)
            client->body = CLIENT_BODY_NONE;
    }
    memcpy(buffer, client->in + client->in_start, size);
    client->in_start += size;
    return (ssize_t)size;
}

int http_client_read_all(struct http_client *client, size_t max, char **ret, size_t *ret_size,
                         struct error *err)
{
    cleanup_buf struct buf body = BUF_INIT(max < SIZE_MAX ? max + 1 : max);
    for (;;) {
        size_t room;
        char *at = buf_reserve(&body, PIECE, &room);
        ssize_t n = at ? http_client_read(client, at, room, err) : 0;
        if (n < 0)
            return -1;
        body.size += (size_t)n;
        if (body.size > max)
            return error_set(err, ERROR_LIMIT, "%s answered with more than %zu bytes",
                             client->address, max);
        if (n == 0)
            break;
    }
    buf_append(&body, "", 1);
    if (ret_size)
        *ret_size = body.size - 1;
    *ret = steal_ptr(body.data);
    return 0;
}

int http_client_copy(struct http_client *client,
                     int (*sink)(const char *piece, size_t size, void *data), void *data,
                     struct error *err)
{
    cleanup_free char *piece = xmalloc(PIECE);
    for (;;) {
        ssize_t n = http_client_read(client, piece, PIECE, err);
        if (n <= 0)
            return (int)n;
        int r = sink(piece, (size_t)n, data);
        if (r < 0)
            return error_errno(err, -r, "cannot pass the answer on");
    }
}

int http_client_fd(const struct http_client *client)
{
    return client->fd;
}

/* Of a chunk's end, which lies between what it held and the next one, nothing can be read. */
static bool has_chunked_piece(const struct http_client *client)
{
    struct http_chunked probe = client->chunks;
    const char *piece;
    size_t piece_size = 0;
    for (size_t at = client->in_start; at < client->in_end;) {
        ssize_t taken =
            http_chunked_feed(&probe, client->in + at, client->in_end - at, &piece, &piece_size);
        if (taken < 0 || piece_size > 0 || probe.done)
            return true;
        if (taken == 0)
            break;
        at += (size_t)taken;
    }
    return false;
}

bool http_client_buffered(const struct http_client *client)
{
    if (client->eof || client->body == CLIENT_BODY_NONE)
        return true;
    if (client->body == CLIENT_BODY_CHUNKED)
        return has_chunked_piece(client);
    return client->in_start < client->in_end;
}
