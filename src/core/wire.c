/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of messages between boxd's own processes. */
#include "core/wire.h"

#include <string.h>

static void put(struct wire_writer *w, const void *data, size_t size)
{
    if (w->overflow || w->capacity - w->size < size) {
        w->overflow = true;
        return;
    }
    memcpy(w->data + w->size, data, size);
    w->size += size;
}

static const void *get(struct wire_reader *r, size_t size)
{
    if (r->bad || r->left < size) {
        r->bad = true;
        return NULL;
    }
    const void *at = r->data;
    r->data += size;
    r->left -= size;
    return at;
}

void wire_put_u32(struct wire_writer *w, uint32_t value)
{
    put(w, &value, sizeof value);
}

void wire_put_u64(struct wire_writer *w, uint64_t value)
{
    put(w, &value, sizeof value);
}

void wire_put_string(struct wire_writer *w, const char *text)
{
    if (!text)
        text = "";
    size_t length = strlen(text);
    if (length > UINT32_MAX) {
        w->overflow = true;
        return;
    }
    wire_put_u32(w, (uint32_t)length);
    put(w, text, length + 1);
}

uint32_t wire_get_u32(struct wire_reader *r)
{
    uint32_t value = 0;
    const void *at = get(r, sizeof value);
    if (at)
        memcpy(&value, at, sizeof value);
    return value;
}

uint64_t wire_get_u64(struct wire_reader *r)
{
    uint64_t value = 0;
    const void *at = get(r, sizeof value);
    if (at)
        memcpy(&value, at, sizeof value);
    return value;
}

const char *wire_get_string(struct wire_reader *r, size_t max)
{
    size_t length = wire_get_u32(r);
    if (r->bad || length > max) {
        r->bad = true;
        return "";
    }
    const char *text = get(r, length + 1);
    if (!text || text[length] != '\0' || memchr(text, '\0', length)) {
        r->bad = true;
        return "";
    }
    return text;
}

uint32_t wire_get_count(struct wire_reader *r, uint32_t max)
{
    uint32_t count = wire_get_u32(r);
    if (count > max) {
        r->bad = true;
        return 0;
    }
    return count;
}

bool wire_done(const struct wire_reader *r)
{
    return !r->bad && r->left == 0;
}
