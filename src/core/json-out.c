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

/* Which bytes cannot stand for themselves. */
static inline bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

static void put_escaped(struct json_out *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char short_form[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *pair = short_form; *pair; pair += 2) {
        if ((unsigned char)*pair == c) {
            put(out, (char[]){'\\', pair[1]}, 2);
            return;
        }
    }
    put(out, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

void out_bytes(struct json_out *out, const char *key, const char *data, size_t size)
{
    size_t room;
    begin(out, key);
    put(out, "\"", 1);
    /* The likely size in one step, so that a large text is not moved as it grows. */
    buf_reserve(&out->buf, size + 2, &room);
    for (size_t i = 0; i < size;) {
        size_t run = i;
        int n = 0;
        while (run < size) {
            unsigned char c = (unsigned char)data[run];
            if (is_plain(c)) {
                run++;
            } else if (c >= 0x80 && (n = utf8_sequence(data + run, size - run)) > 0) {
                run += (size_t)n;
            } else {
                break;
            }
        }
        put(out, data + i, run - i);
        i = run;
        if (i == size)
            break;
        if ((unsigned char)data[i] < 0x80) {
            put_escaped(out, (unsigned char)data[i++]);
        } else {
            put(out, "\xEF\xBF\xBD", 3);
            i += (size_t)-n;
        }
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
