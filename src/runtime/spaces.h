/* SPDX-License-Identifier: Apache-2.0 */
/* A table of workspaces by their namespace: the fence and the book of grants each keep one, of many
   small records that are never forgotten. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SPACE_ID_SIZE 12

/* At the beginning of each record. */
struct space {
    struct space *chain;
    unsigned char id[SPACE_ID_SIZE]; /* the digits of the namespace, as bytes */
    uint32_t tag;                    /* the record's own: it would be padding otherwise */
};

struct spaces {
    struct space **buckets;
    size_t size; /* a power of two */
    size_t count;
    uint64_t seed;
};

void spaces_init(struct spaces *spaces);
/* `name` is a namespace, as tenant_namespace() makes it. */
struct space *spaces_find(const struct spaces *spaces, const char *name);
void spaces_add(struct spaces *spaces, struct space *space, const char *name);
/* Each record is given to `release`, which frees it. */
void spaces_release(struct spaces *spaces, void (*release)(struct space *space));
