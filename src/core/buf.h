/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer that declares its ceiling. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;
    size_t size;
    size_t capacity;
    size_t ceiling;
};

#define BUF_INIT(max)    \
    {                    \
        .ceiling = (max) \
    }

/* Appends what fits below the ceiling; returns how many bytes that were. */
size_t buf_append(struct buf *buf, const void *data, size_t size);

/* Room for up to `want` more bytes at the end (less near the ceiling); NULL if full. The caller
   fills it and adds to `size`. */
char *buf_reserve(struct buf *buf, size_t want, size_t *ret_room);

void buf_release(struct buf *buf);

#define cleanup_buf __attribute__((cleanup(buf_release)))
