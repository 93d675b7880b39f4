/* SPDX-License-Identifier: Apache-2.0 */
/* JSON written straight into a buffer: no tree in between, and each byte of a large text is looked
   at and copied once, on its way from wherever it is to where it is sent from. No I/O.

     struct json_out out = JSON_OUT_INIT;
     out_open(&out, NULL, '{');
     out_text(&out, "name", "x");
     out_close(&out, '}');
     … out.buf.data, out.buf.size …
     json_out_release(&out);

   `key` is NULL inside an array and for the value itself. Whether what comes out is JSON is the
   caller's business. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"

struct json_out {
    struct buf buf;
    bool comma; /* the next value needs one before it */
};

/* Of the largest answer there can be, a list of files, and then some. */
#define JSON_OUT_MAX (512u << 20)
#define JSON_OUT_INIT                 \
    {                                 \
        .buf = BUF_INIT(JSON_OUT_MAX) \
    }

void json_out_release(struct json_out *out);
#define cleanup_json_out __attribute__((cleanup(json_out_release)))

/* A key that is not the program's own, and may need escaping; its value follows, with a key of
 * NULL.
 */
void out_key(struct json_out *out, const char *key);
void out_open(struct json_out *out, const char *key, char bracket);
void out_close(struct json_out *out, char bracket);
void out_null(struct json_out *out, const char *key);
void out_flag(struct json_out *out, const char *key, bool value);
void out_signed(struct json_out *out, const char *key, int64_t value);
void out_unsigned(struct json_out *out, const char *key, uint64_t value);
void out_double(struct json_out *out, const char *key, double value);
/* Microseconds as milliseconds. */
void out_ms(struct json_out *out, const char *key, uint64_t us);
/* Microseconds since 1970 as ISO 8601; 0 is null. */
void out_time(struct json_out *out, const char *key, int64_t us);
/* NULL is null. Ill-formed UTF-8 becomes U+FFFD, here and in out_bytes(). */
void out_text(struct json_out *out, const char *key, const char *value);
void out_bytes(struct json_out *out, const char *key, const char *data, size_t size);
void out_base64(struct json_out *out, const char *key, const void *data, size_t size);
/* A tree of jansson's; NULL is null. */
void out_tree(struct json_out *out, const char *key, const json_t *value);
/* A value that was written before. */
void out_json(struct json_out *out, const char *key, const char *json, size_t size);
/* As it is: a part of the protocol around the JSON. */
void out_raw(struct json_out *out, const char *text);
