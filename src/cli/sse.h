/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, taken apart as their bytes come in. No I/O. */
#pragma once

#include <stddef.h>

#include "core/buf.h"
#include "core/error.h"

#define SSE_EVENT_MAX (4u * 1024 * 1024)

struct sse {
    struct buf line;
    struct buf data;
    char name[64]; /* of the event that is being read; "" until one is given */
};

#define SSE_INIT                                                         \
    {                                                                    \
        .line = BUF_INIT(SSE_EVENT_MAX), .data = BUF_INIT(SSE_EVENT_MAX) \
    }

/* One event, its data NUL-terminated and the callee's to change. A value other than 0 ends the
   feeding and is what sse_feed() returns; it is to be positive, or -1 with `err` set. */
typedef int (*sse_event)(void *data, const char *name, char *text, size_t size, struct error *err);

/* ERROR_LIMIT on an event over SSE_EVENT_MAX. */
int sse_feed(struct sse *sse, const char *bytes, size_t size, sse_event event, void *data,
             struct error *err);
void sse_release(struct sse *sse);

#define cleanup_sse __attribute__((cleanup(sse_release)))
