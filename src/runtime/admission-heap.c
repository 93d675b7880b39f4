/* SPDX-License-Identifier: Apache-2.0 */
/* Grants by the time at which they end: a binary heap whose records know their place, so that one
   that is renewed or revoked leaves nothing behind. */
#include "core/mem.h"
#include "runtime/admission-internal.h"

static bool is_before(const struct admission_heap *heap, size_t a, size_t b)
{
    return heap->items[a]->grant->expires_us < heap->items[b]->grant->expires_us;
}

static void put(struct admission_heap *heap, size_t at, struct admission_record *record)
{
    heap->items[at] = record;
    record->space.tag = (uint32_t)at;
}

static void swap(struct admission_heap *heap, size_t a, size_t b)
{
    struct admission_record *record = heap->items[a];
    put(heap, a, heap->items[b]);
    put(heap, b, record);
}

static void rise(struct admission_heap *heap, size_t at)
{
    for (; at > 0 && is_before(heap, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(heap, at, (at - 1) / 2);
}

static void sink(struct admission_heap *heap, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && is_before(heap, child + 1, child))
            child++;
        if (!is_before(heap, child, at))
            return;
        swap(heap, at, child);
    }
}

void heap_moved(struct admission_heap *heap, struct admission_record *record)
{
    rise(heap, record->space.tag);
    sink(heap, record->space.tag);
}

void heap_add(struct admission_heap *heap, struct admission_record *record)
{
    if (heap->count == heap->capacity) {
        heap->capacity = heap->capacity ? heap->capacity * 2 : 64;
        heap->items = xreallocarray(heap->items, heap->capacity, sizeof *heap->items);
    }
    put(heap, heap->count++, record);
    rise(heap, record->space.tag);
}

void heap_remove(struct admission_heap *heap, struct admission_record *record)
{
    size_t at = record->space.tag;
    struct admission_record *last = heap->items[--heap->count];
    if (last == record)
        return;
    put(heap, at, last);
    heap_moved(heap, last);
}
