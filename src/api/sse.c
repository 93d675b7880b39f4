/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, and bytes cut into texts for them. */
#include "api/sse.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/utf8.h"

void sse_begin(struct http_request *req)
{
    http_add_header(req, "Cache-Control", "no-store");
    /* Proxies that gather answers before they pass them on would hold events back. */
    http_add_header(req, "X-Accel-Buffering", "no");
    http_begin(req, 200, "text/event-stream", HTTP_LENGTH_UNKNOWN);
}

void sse_open(struct json_out *out, const char *event, uint64_t id)
{
    if (id) {
        char line[40];
        snprintf(line, sizeof line, "id: %llu\n", (unsigned long long)id);
        out_raw(out, line);
    }
    out_raw(out, "event: ");
    out_raw(out, event);
    out_raw(out, "\ndata: ");
    out->comma = false;
}

void sse_close(struct json_out *out)
{
    out_raw(out, "\n\n");
    out->comma = false;
}

char *text_cut(struct text_cut *cut, const char *data, size_t size, bool end, const char **ret,
               size_t *ret_size)
{
    char *joined = NULL;
    if (cut->size > 0) {
        joined = xmalloc(cut->size + size + 1);
        memcpy(joined, cut->held, cut->size);
        if (size)
            memcpy(joined + cut->size, data, size);
        data = joined;
        size += cut->size;
        cut->size = 0;
    }
    if (!end) {
        cut->size = utf8_unfinished(data, size);
        size -= cut->size;
        memcpy(cut->held, data + size, cut->size);
    }
    *ret = data;
    *ret_size = size;
    return joined;
}
