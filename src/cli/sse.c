/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events. boxd ends its lines with "\n" (or "\r\n"); the lone "\r" that browsers also
   accept is not taken for an end here. */
#include "cli/sse.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int add(struct buf *buf, const char *bytes, size_t size, struct error *err)
{
    if (buf_append(buf, bytes, size) < size)
        return error_set(err, ERROR_LIMIT, "an event of more than %u MiB", SSE_EVENT_MAX >> 20);
    return 0;
}

/* What follows "field:" and one space, or NULL. */
static const char *value_of(const char *line, const char *field)
{
    size_t length = strlen(field);
    if (strncmp(line, field, length) != 0 || line[length] != ':')
        return NULL;
    line += length + 1;
    return *line == ' ' ? line + 1 : line;
}

static int dispatch(struct sse *sse, sse_event event, void *data, struct error *err)
{
    int rc = 0;
    if (sse->data.size > 0) {
        /* The last line's own newline is no part of the data. */
        sse->data.data[sse->data.size - 1] = '\0';
        rc = event(data, sse->name[0] ? sse->name : "message", sse->data.data, sse->data.size - 1,
                   err);
    }
    sse->data.size = 0;
    sse->name[0] = '\0';
    return rc;
}

static int take_line(struct sse *sse, sse_event event, void *data, struct error *err)
{
    size_t size = sse->line.size - 1; /* without its NUL */
    const char *line = sse->line.data;
    if (size > 0 && line[size - 1] == '\r')
        sse->line.data[--size] = '\0';
    sse->line.size = 0;
    if (size == 0)
        return dispatch(sse, event, data, err);
    const char *value = value_of(line, "data");
    if (value) {
        size_t length = size - (size_t)(value - line);
        return add(&sse->data, value, length, err) < 0 ? -1 : add(&sse->data, "\n", 1, err);
    }
    value = value_of(line, "event");
    if (value)
        snprintf(sse->name, sizeof sse->name, "%s", value);
    return 0; /* comments keep a connection alive; other fields are for browsers */
}

int sse_feed(struct sse *sse, const char *bytes, size_t size, sse_event event, void *data,
             struct error *err)
{
    const char *end = bytes + size;
    while (bytes < end) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *stop = newline ? newline : end;
        if (add(&sse->line, bytes, (size_t)(stop - bytes), err) < 0)
            return -1;
        if (!newline)
            return 0;
        bytes = newline + 1;
        if (add(&sse->line, "", 1, err) < 0)
            return -1;
        int rc = take_line(sse, event, data, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

void sse_release(struct sse *sse)
{
    buf_release(&sse->line);
    buf_release(&sse->data);
}
