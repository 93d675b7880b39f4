/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's messages on a stream of lines. */
#include "api/rpc-frames.h"

#include <stdint.h>
#include <string.h>

#include "api/rpc-internal.h"
#include "core/json.h"
#include "core/utf8.h"

/* The longest line that is taken: a message as large as there can be, and white space around it. */
#define LINE_BYTES_MAX (RPC_MESSAGE_MAX + 1024)
#define KEPT_MAX       (256u << 10) /* memory that is kept for the next message */
/* What LangBot's reader (asyncio's) takes in a line is 64 KiB, and the rest of a chunk's line needs
   less than 4. */
#define ESCAPED_MAX (60u << 10)

void rpc_frames_init(struct rpc_frames *frames)
{
    *frames = (struct rpc_frames){
        .input = BUF_INIT(SIZE_MAX),
        .message = BUF_INIT(RPC_MESSAGE_MAX),
    };
}

void rpc_frames_release(struct rpc_frames *frames)
{
    buf_release(&frames->input);
    buf_release(&frames->message);
}

/* A large message is rare, and its memory need not wait for the next one. */
static void trim(struct buf *buf)
{
    if (buf->capacity > KEPT_MAX)
        buf_release(buf);
}

void rpc_frames_feed(struct rpc_frames *frames, const char *data, size_t size)
{
    struct buf *input = &frames->input;
    if (!frames->chunked)
        trim(&frames->message);
    if (frames->taken == input->size) {
        input->size = frames->taken = 0;
        trim(input);
    } else if (frames->taken > 0) {
        input->size -= frames->taken;
        memmove(input->data, input->data + frames->taken, input->size);
        frames->taken = 0;
    }
    buf_append(input, data, size);
}

/* --- chunks --- */

static int broken(struct error *err, const char *why)
{
    return error_set(err, ERROR_PROTOCOL, "a message in chunks %s", why);
}

static int begin(struct rpc_frames *frames, const json_t *line, struct error *err)
{
    const json_t *total = json_object_get(line, "total_size");
    if (!json_is_integer(total) || json_integer_value(total) < 0 ||
        json_integer_value(total) > RPC_MESSAGE_MAX)
        return broken(err, "has no size, or one over 16 MiB");
    frames->chunked = true;
    frames->total = (size_t)json_integer_value(total);
    frames->lines = 0;
    frames->message.size = 0;
    return 0;
}

static int add(struct rpc_frames *frames, const json_t *line, struct error *err)
{
    const json_t *data = json_object_get(line, "data");
    const json_t *offset = json_object_get(line, "offset");
    if (!json_is_string(data))
        return broken(err, "has a part without text");
    if (!json_is_integer(offset) || json_integer_value(offset) != (json_int_t)frames->message.size)
        return broken(err, "has a part that does not follow the one before it");
    if (json_string_length(data) > frames->total - frames->message.size)
        return broken(err, "is longer than it said");
    buf_append(&frames->message, json_string_value(data), json_string_length(data));
    return 0;
}

static int finish(struct rpc_frames *frames, struct error *err)
{
    if (frames->message.size != frames->total)
        return broken(err, "is shorter than it said");
    frames->chunked = false;
    return 1;
}

/* A line of a chunked message, or perhaps its first one: as rpc_frames_next(). */
static int take_chunk(struct rpc_frames *frames, const json_t *line, const char *type,
                      struct error *err)
{
    if (!frames->chunked)
        return strcmp(type, "chunk_start") == 0 ? begin(frames, line, err) : 0;
    if (strcmp(type, "chunk_data") == 0)
        return add(frames, line, err);
    return strcmp(type, "chunk_end") == 0 ? finish(frames, err) : 0;
}

/* --- lines --- */

static bool is_chunk_type(const char *type)
{
    return type && (strcmp(type, "chunk_start") == 0 || strcmp(type, "chunk_data") == 0 ||
                    strcmp(type, "chunk_end") == 0);
}

/* As rpc_frames_next(). Only what has the word in it is parsed here: a message is parsed by whoever
   it is for, and once is enough. */
static int take_object(struct rpc_frames *frames, const char *line, size_t size, const char **ret,
                       size_t *ret_size, struct error *err)
{
    cleanup_json json_t *object = NULL;
    struct error unused = ERROR_INIT;
    if (memmem(line, size, "chunk_", strlen("chunk_")))
        (void)!json_parse(line, size, &object, &unused);
    const char *type = json_string_value(json_object_get(object, "type"));
    if (is_chunk_type(type)) {
        int rc = take_chunk(frames, object, type, err);
        *ret = frames->message.size > 0 ? frames->message.data : "";
        *ret_size = frames->message.size;
        return rc;
    }
    *ret = line;
    *ret_size = size;
    /* In the middle of a chunked message there is no place for another. */
    return frames->chunked ? 0 : 1;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int take_line(struct rpc_frames *frames, const char *line, size_t size, const char **ret,
                     size_t *ret_size, struct error *err)
{
    if (frames->chunked && ++frames->lines > RPC_FRAGMENTS_MAX)
        return broken(err, "has too many parts");
    while (size > 0 && is_space(line[0])) {
        line++;
        size--;
    }
    while (size > 0 && is_space(line[size - 1]))
        size--;
    if (size < 2 || line[0] != '{' || line[size - 1] != '}')
        return 0;
    return take_object(frames, line, size, ret, ret_size, err);
}

int rpc_frames_next(struct rpc_frames *frames, const char **ret, size_t *ret_size,
                    struct error *err)
{
    struct buf *input = &frames->input;
    int rc = 0;
    while (rc == 0 && frames->taken < input->size) {
        const char *line = input->data + frames->taken;
        size_t left = input->size - frames->taken;
        const char *end = memchr(line + frames->searched, '\n', left - frames->searched);
        size_t size = end ? (size_t)(end - line) : left;
        if (size > LINE_BYTES_MAX)
            return error_set(err, ERROR_PROTOCOL, "a line is longer than %u bytes", LINE_BYTES_MAX);
        frames->searched = end ? 0 : left;
        if (!end)
            return 0;
        frames->taken += size + 1;
        rc = take_line(frames, line, size, ret, ret_size, err);
    }
    return rc;
}

/* --- writing --- */

static void end_line(struct json_out *out)
{
    out_raw(out, "\n");
    out->comma = false;
}

/* How much goes into one chunk: whole characters, of no more than a chunk's bytes, and not more
   than a line can hold once they are escaped. */
static size_t chunk_length(const char *text, size_t size)
{
    size_t used = 0;
    size_t escaped = 0;
    while (used < size) {
        unsigned char c = (unsigned char)text[used];
        int n = utf8_sequence(text + used, size - used);
        size_t step = n > 0 ? (size_t)n : 1;
        escaped += c < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : step;
        if (used + step > RPC_CHUNK_BYTES || escaped > ESCAPED_MAX)
            break;
        used += step;
    }
    return used;
}

static void write_chunks(struct json_out *out, const char *text, size_t size)
{
    out_open(out, NULL, '{');
    out_text(out, "type", "chunk_start");
    out_unsigned(out, "total_size", size);
    out_close(out, '}');
    end_line(out);
    for (size_t at = 0; at < size;) {
        size_t length = chunk_length(text + at, size - at);
        out_open(out, NULL, '{');
        out_text(out, "type", "chunk_data");
        out_bytes(out, "data", text + at, length);
        out_unsigned(out, "offset", at);
        out_close(out, '}');
        end_line(out);
        at += length;
    }
    out_raw(out, "{\"type\":\"chunk_end\"}");
    end_line(out);
}

void rpc_frames_write(struct json_out *out, const char *text, size_t size)
{
    if (size > RPC_CHUNK_BYTES) {
        write_chunks(out, text, size);
        return;
    }
    buf_append(&out->buf, text, size);
    end_line(out);
}
