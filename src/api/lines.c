/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of bytes cut into lines. */
#include "api/lines.h"

#include <string.h>

#include "core/utf8.h"

#define CARRY_KEEP 65536

void lines_init(struct lines *lines, size_t max)
{
    *lines = (struct lines){.max = max, .carry = BUF_INIT(max)};
}

void lines_release(struct lines *lines)
{
    buf_release(&lines->carry);
}

static void tell_carry(struct lines *lines, line_sink sink, void *owner)
{
    struct buf *carry = &lines->carry;
    sink(owner, carry->size ? carry->data : "", carry->size);
    carry->size = 0;
    /* One long line should not cost its memory for the rest of the connection. */
    if (carry->capacity > CARRY_KEEP)
        buf_release(carry);
}

/* The carry is full and its line goes on: all of it but the character that it cuts. */
static void tell_part(struct lines *lines, line_sink sink, void *owner)
{
    struct buf *carry = &lines->carry;
    size_t rest = utf8_unfinished(carry->data, carry->size);
    if (rest == carry->size)
        rest = 0;
    sink(owner, carry->data, carry->size - rest);
    memmove(carry->data, carry->data + carry->size - rest, rest);
    carry->size = rest;
}

void lines_feed(struct lines *lines, const char *data, size_t size, line_sink sink, void *owner)
{
    while (size > 0) {
        const char *newline = memchr(data, '\n', size);
        size_t length = newline ? (size_t)(newline - data) : size;
        size_t step = length + (newline != NULL);
        if (newline && lines->carry.size == 0 && length <= lines->max) {
            sink(owner, data, length);
        } else {
            for (size_t done = 0; done < length;) {
                if (lines->carry.size == lines->max)
                    tell_part(lines, sink, owner);
                done += buf_append(&lines->carry, data + done, length - done);
            }
            if (newline)
                tell_carry(lines, sink, owner);
        }
        data += step;
        size -= step;
    }
}

void lines_finish(struct lines *lines, line_sink sink, void *owner)
{
    if (lines->carry.size > 0)
        tell_carry(lines, sink, owner);
}
