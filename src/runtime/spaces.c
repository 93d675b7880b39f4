/* SPDX-License-Identifier: Apache-2.0 */
/* A table of workspaces by their namespace: chained, doubled when it is full. */
#include "runtime/spaces.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/mem.h"

#define FIRST_SIZE 64

/* Ids are hashes, but of names that a stranger may have chosen to share their low bits. */
static uint64_t id_hash(const struct spaces *spaces, const unsigned char *id)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ spaces->seed;
    for (size_t i = 0; i < SPACE_ID_SIZE; i++)
        hash = (hash ^ id[i]) * 0x100000001b3ull;
    return hash ^ (hash >> 32);
}

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void read_id(const char *name, unsigned char id[SPACE_ID_SIZE])
{
    const char *digits = name + strlen("ws-");
    for (size_t i = 0; i < SPACE_ID_SIZE; i++)
        id[i] = (unsigned char)(digit(digits[2 * i]) << 4 | digit(digits[2 * i + 1]));
}

static struct space **bucket_of(const struct spaces *spaces, const unsigned char *id)
{
    return &spaces->buckets[id_hash(spaces, id) & (spaces->size - 1)];
}

static void resize(struct spaces *spaces, size_t size)
{
    struct spaces old = *spaces;
    spaces->size = size;
    spaces->buckets = xcalloc(size, sizeof *spaces->buckets);
    for (size_t i = 0; i < old.size; i++) {
        for (struct space *space = old.buckets[i], *next; space; space = next) {
            next = space->chain;
            struct space **bucket = bucket_of(spaces, space->id);
            space->chain = *bucket;
            *bucket = space;
        }
    }
    free(old.buckets);
}

void spaces_init(struct spaces *spaces)
{
    *spaces = (struct spaces){0};
    /* At worst the seed is 0, and a stranger's choice counts. */
    if (getrandom(&spaces->seed, sizeof spaces->seed, 0) < 0)
        spaces->seed = 0;
    resize(spaces, FIRST_SIZE);
}

struct space *spaces_find(const struct spaces *spaces, const char *name)
{
    unsigned char id[SPACE_ID_SIZE];
    read_id(name, id);
    struct space *space = *bucket_of(spaces, id);
    while (space && memcmp(space->id, id, sizeof id) != 0)
        space = space->chain;
    return space;
}

void spaces_add(struct spaces *spaces, struct space *space, const char *name)
{
    if (spaces->count >= spaces->size)
        resize(spaces, spaces->size * 2);
    read_id(name, space->id);
    struct space **bucket = bucket_of(spaces, space->id);
    space->chain = *bucket;
    *bucket = space;
    spaces->count++;
}

void spaces_release(struct spaces *spaces, void (*release)(struct space *space))
{
    for (size_t i = 0; i < spaces->size; i++) {
        for (struct space *space = spaces->buckets[i], *next; space; space = next) {
            next = space->chain;
            release(space);
        }
    }
    free(spaces->buckets);
    *spaces = (struct spaces){0};
}
