/* SPDX-License-Identifier: Apache-2.0 */
/* JSON written straight into a buffer. */
#include "core/json-out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base64.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/utf8.h"

#define NUMBER_SIZE 40

void json_out_release(struct json_out *out)
{
    buf_release(&out->buf);
    out->comma = false;
}

static void put(struct json_out *out, const char *data, size_t size)
{
    buf_append(&out->buf, data, size);
}

void out_raw(struct json_out *out, const char *text)
{
    put(out, text, strlen(text));
}

/* What comes before a value. Keys are the program's own: nothing in them needs escaping. */
static void begin(struct json_out *out, const char *key)
{
    if (out->comma)
        put(out, ",", 1);
    out->comma = true;
    if (key) {
        put(out, "\"", 1);
        out_raw(out, key);
        put(out, "\":", 2);
    }
}

void out_open(struct json_out *out, const char *key, char bracket)
{
    begin(out, key);
    put(out, &bracket, 1);
    out->comma = false;
}

void out_close(struct json_out *out, char bracket)
{
    put(out, &bracket, 1);
    out->comma = true;
}

void out_null(struct json_out *out, const char *key)
{
    begin(out, key);
    put(out, "null", 4);
}

void out_flag(struct json_out *out, const char *key, bool value)
{
    begin(out, key);
    out_raw(out, value ? "true" : "false");
}

void out_unsigned(struct json_out *out, const char *key, uint64_t value)
{
    char digits[NUMBER_SIZE];
    char *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    begin(out, key);
    put(out, at, (size_t)(digits + sizeof digits - at));
}

void out_signed(struct json_out *out, const char *key, int64_t value)
{
    if (value >= 0) {
        out_unsigned(out, key, (uint64_t)value);
        return;
    }
    begin(out, key);
    put(out, "-", 1);
    out->comma = false;
    out_unsigned(out, NULL, -(uint64_t)value);
}

void out_double(struct json_out *out, const char *key, double value)
{
    char text[NUMBER_SIZE];
    if (!isfinite(value)) {
        out_null(out, key);
        return;
    }
    begin(out, key);
    snprintf(text, sizeof text, "%.12g", value);
    out_raw(out, text);
}

void out_ms(struct json_out *out, const char *key, uint64_t us)
{
    unsigned rest = (unsigned)(us % 1000);
    char text[] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
                   (char)('0' + rest % 10)};
    out_unsigned(out, key, us / 1000);
    put(out, text, sizeof text);
}

void out_time(struct json_out *out, const char *key, int64_t us)
{
    char text[CLOCK_TEXT_SIZE];
    if (us == 0) {
        out_null(out, key);
        return;
    }
    clock_text(us, text);
    out_text(out, key, text);
}

/* The longest that one byte becomes: \u0000. */
#define ESCAPED_MAX 6
#define BLOCK_BYTES 4096

static char *put_escaped(char *to, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char short_form[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    *to++ = '\\';
    for (const char *pair = short_form; *pair; pair += 2) {
        if ((unsigned char)*pair == c) {
            *to++ = pair[1];
            return to;
        }
    }
    memcpy(to, "u00", 3);
    to[3] = hex[c >> 4];
    to[4] = hex[c & 15];
    return to + 5;
}

/* Eight bytes at a time: whether all of them stand for themselves, being ASCII and neither control
   characters nor quotes nor backslashes. */
static bool all_plain(uint64_t bytes)
{
    const uint64_t ones = 0x0101010101010101;
    const uint64_t tops = 0x8080808080808080;
    uint64_t quote = bytes ^ ones * '"';
    uint64_t slash = bytes ^ ones * '\\';
    return !((bytes | (bytes - ones * 0x20) | (quote - ones) | (slash - ones)) & tops);
}

/* From data[*at] to `end`, or a little further to the end of a character, into `to`, where there is
   room for the worst of it. */
static char *put_block(char *to, const char *data, size_t *at, size_t end, size_t size)
{
    size_t i = *at;
    while (i < end) {
        uint64_t bytes;
        while (i + sizeof bytes <= end &&
               (memcpy(&bytes, data + i, sizeof bytes), all_plain(bytes))) {
            memcpy(to, &bytes, sizeof bytes);
            to += sizeof bytes;
            i += sizeof bytes;
        }
        if (i == end)
            break;
        unsigned char c = (unsigned char)data[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            to = put_escaped(to, c);
            i++;
        } else if (c < 0x80) {
            *to++ = (char)c;
            i++;
        } else {
            int n = utf8_sequence(data + i, size - i);
            memcpy(to, n > 0 ? data + i : "\xEF\xBF\xBD", n > 0 ? (size_t)n : 3);
            to += n > 0 ? n : 3;
            i += (size_t)(n > 0 ? n : -n);
        }
    }
    *at = i;
    return to;
}

void out_bytes(struct json_out *out, const char *key, const char *data, size_t size)
{
    size_t room;
    begin(out, key);
    put(out, "\"", 1);
    /* The likely size in one step, so that a large text is not moved as it grows. */
    buf_reserve(&out->buf, size + 2, &room);
    for (size_t i = 0; i < size;) {
        size_t block = size - i < BLOCK_BYTES ? size - i : BLOCK_BYTES;
        char *to = buf_reserve(&out->buf, block * ESCAPED_MAX, &room);
        if (!to || room < block * ESCAPED_MAX)
            break;
        out->buf.size += (size_t)(put_block(to, data, &i, i + block, size) - to);
    }
    put(out, "\"", 1);
}

void out_text(struct json_out *out, const char *key, const char *value)
{
    if (value)
        out_bytes(out, key, value, strlen(value));
    else
        out_null(out, key);
}

void out_key(struct json_out *out, const char *key)
{
    out_text(out, NULL, key);
    put(out, ":", 1);
    out->comma = false;
}

void out_base64(struct json_out *out, const char *key, const void *data, size_t size)
{
    size_t room;
    size_t length = base64_size(size);
    begin(out, key);
    put(out, "\"", 1);
    char *at = buf_reserve(&out->buf, length, &room);
    if (at && room == length) {
        base64_encode(data, size, at);
        out->buf.size += length;
    }
    put(out, "\"", 1);
}

void out_tree(struct json_out *out, const char *key, const json_t *value)
{
    cleanup_free char *text =
        value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12)) : NULL;
    begin(out, key);
    out_raw(out, text ? text : "null");
}

void out_json(struct json_out *out, const char *key, const char *json, size_t size)
{
    begin(out, key);
    put(out, json, size);
}
