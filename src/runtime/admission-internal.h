/* SPDX-License-Identifier: Apache-2.0 */
/* What the pages of the book of grants know of each other. */
#pragma once

#include "runtime/admission.h"
#include "runtime/spaces.h"

/* What is remembered of a workspace, for good. */
struct admission_record {
    struct space space;  /* its tag: where it is in the heap */
    uint64_t revision;   /* the highest that was seen; 0: none */
    uint64_t revoked;    /* the highest that was revoked; 0: none */
    uint64_t generation; /* the highest that had a grant; 0: there never was one */
    uint32_t max_sessions;
    uint32_t max_managed_processes; /* both of the last grant */
    struct admission_grant *grant;  /* NULL: none now */
};

/* Records with a grant, the first to expire on top (admission-heap.c). */
struct admission_heap {
    struct admission_record **items;
    size_t count, capacity;
};

void heap_add(struct admission_heap *heap, struct admission_record *record);
void heap_moved(struct admission_heap *heap,
                struct admission_record *record); /* its time changed */
void heap_remove(struct admission_heap *heap, struct admission_record *record);
