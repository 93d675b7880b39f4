/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, and bytes cut into texts for them. No I/O but for sse_begin(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/json-out.h"
#include "net/http-server.h"

void sse_begin(struct http_request *req);
/* Between the two the data is written, as one line: JSON. `id` 0: none. */
void sse_open(struct json_out *out, const char *event, uint64_t id);
void sse_close(struct json_out *out);

/* Bytes of a stream that begin a character whose rest has not come. */
struct text_cut {
    char held[4];
    size_t size;
};

/* What can be told of the stream now that `data` came: *ret, which points into `data` or at what is
   returned, to be freed by the caller (NULL if into `data`). At the end of the stream nothing is
   held back. */
char *text_cut(struct text_cut *cut, const char *data, size_t size, bool end, const char **ret,
               size_t *ret_size);
