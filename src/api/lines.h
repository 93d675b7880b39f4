/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of bytes cut into lines. No I/O. */
#pragma once

#include <stddef.h>

#include "core/buf.h"

typedef void (*line_sink)(void *owner, const char *line, size_t size);

struct lines {
    size_t max; /* a longer line is told in parts, cut between characters */
    struct buf carry;
};

void lines_init(struct lines *lines, size_t max);
/* Each line that is complete now, without its newline. */
void lines_feed(struct lines *lines, const char *data, size_t size, line_sink sink, void *owner);
/* What came behind the last newline. */
void lines_finish(struct lines *lines, line_sink sink, void *owner);
void lines_release(struct lines *lines);
