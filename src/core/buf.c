/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer that declares its ceiling. */
#include "core/buf.h"

#include <string.h>

#include "core/mem.h"

#define BUF_FIRST 4096

char *buf_reserve(struct buf *buf, size_t want, size_t *ret_room)
{
    size_t left = buf->size < buf->ceiling ? buf->ceiling - buf->size : 0;
    if (want > left)
        want = left;
    if (want == 0)
        return NULL;
    if (buf->capacity - buf->size < want) {
        size_t capacity = buf->capacity ? buf->capacity : BUF_FIRST;
        while (capacity < buf->size + want && capacity <= buf->ceiling / 2)
            capacity *= 2;
        if (capacity < buf->size + want || capacity > buf->ceiling)
            capacity = buf->ceiling;
        buf->data = xreallocarray(buf->data, capacity, 1);
        buf->capacity = capacity;
    }
    *ret_room = want;
    return buf->data + buf->size;
}

size_t buf_append(struct buf *buf, const void *data, size_t size)
{
    size_t room;
    char *at = buf_reserve(buf, size, &room);
    if (!at)
        return 0;
    memcpy(at, data, room);
    buf->size += room;
    return room;
}

void buf_release(struct buf *buf)
{
    free(buf->data);
    buf->data = NULL;
    buf->size = buf->capacity = 0;
}
