/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the skill store share: a root of their own, files in it, archives byte by byte.
   Included after cmocka. */
#pragma once

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/fd.h"
#include "core/mem.h"
#include "skills/skills.h"

struct world {
    char root[256];
    struct skill_store *store;
    struct skill_scope *scope;
};

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static inline struct skill_scope *open_scope(struct skill_store *store, const char *tenant)
{
    struct error err = ERROR_INIT;
    struct skill_scope *scope = skill_scope_get(store, tenant, &err);
    if (!scope)
        fail_msg("%s", err.message);
    return scope;
}

static inline void world_open(struct world *world)
{
    struct error err = ERROR_INIT;
    const struct skill_store_options options = {.root = world->root};
    world->store = skill_store_open(&options, &err);
    if (!world->store)
        fail_msg("%s", err.message);
    world->scope = open_scope(world->store, NULL);
}

static inline void world_close(struct world *world)
{
    skill_scope_put(world->scope);
    skill_store_close(world->store);
}

static inline int world_setup(void **state)
{
    struct world *world = xcalloc(1, sizeof *world);
    /* Nothing here is about a disk. */
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(world->root, sizeof world->root, "%s/boxd-test-skills-XXXXXX", base);
    if (!mkdtemp(world->root))
        return -1;
    world_open(world);
    *state = world;
    return 0;
}

static inline int world_teardown(void **state)
{
    struct world *world = *state;
    world_close(world);
    remove_tree(world->root);
    free(world);
    return 0;
}

/* A file below the root, with the directories above it. */
static inline void put_file(const struct world *world, const char *path, const char *text)
{
    char whole[PATH_MAX * 2];
    snprintf(whole, sizeof whole, "%s/%s", world->root, path);
    for (char *slash = whole + strlen(world->root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
    int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static inline void put_link(const struct world *world, const char *path, const char *target)
{
    char whole[PATH_MAX * 2];
    snprintf(whole, sizeof whole, "%s/%s", world->root, path);
    assert_int_equal(symlink(target, whole), 0);
}

static inline bool exists(const struct world *world, const char *path)
{
    char whole[PATH_MAX * 2];
    struct stat st;
    snprintf(whole, sizeof whole, "%s/%s", world->root, path);
    return lstat(whole, &st) == 0;
}

static inline char *slurp(const struct world *world, const char *path)
{
    char whole[PATH_MAX * 2];
    char *text = xmalloc(1 << 16);
    snprintf(whole, sizeof whole, "%s/%s", world->root, path);
    assert_true(fd_read_file(AT_FDCWD, whole, text, 1 << 16) >= 0);
    return text;
}

/* The names, in order, with a space between. */
static inline char *names_of(struct skill_scope *scope)
{
    struct skill_list list = {NULL, 0};
    struct error err = ERROR_INIT;
    cleanup_buf struct buf out = BUF_INIT(1 << 20);
    if (skill_list(scope, &list, &err) < 0)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < list.count; i++) {
        buf_append(&out, " ", i > 0);
        buf_append(&out, list.items[i]->name, strlen(list.items[i]->name));
    }
    buf_append(&out, "", 1);
    skill_list_release(&list);
    return steal_ptr(out.data);
}

static inline void check_names(struct skill_scope *scope, const char *wanted)
{
    cleanup_free char *names = names_of(scope);
    assert_string_equal(names, wanted);
}

/* --- archives --- */

/* An entry, and in what it lies. Zero is as it should be. */
struct made_entry {
    const char *name;
    const char *data; /* NULL: none */
    size_t name_size; /* for a NUL in it */
    size_t data_size; /* 0: of the text */
    uint32_t mode;    /* 0: 0100644 */
    uint32_t size;    /* what it says */
    uint32_t packed;
    uint32_t crc;
    uint16_t flags;
    uint16_t method;
    uint16_t version;
    const char *local_name;
    const char *extra;
    size_t extra_size;
    uint32_t offset_plus;
};

static inline uint32_t crc32_of(const char *data, size_t size)
{
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
    }
    return ~crc;
}

static inline void put_number(struct buf *buf, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i++) {
        char byte = (char)(value >> (8 * i));
        buf_append(buf, &byte, 1);
    }
}

static inline void put_numbers(struct buf *buf, const char *sizes, ...)
{
    va_list args;
    va_start(args, sizes);
    for (; *sizes; sizes++)
        put_number(buf, (size_t)(*sizes - '0'), va_arg(args, uint64_t));
    va_end(args);
}

#define N(x) ((uint64_t)(x))

static inline void make_entry(const struct made_entry *entry, struct buf *body, struct buf *central)
{
    size_t data_size = entry->data_size ? entry->data_size : entry->data ? strlen(entry->data) : 0;
    size_t name_size = entry->name_size ? entry->name_size : strlen(entry->name);
    uint32_t crc = entry->crc ? entry->crc : crc32_of(entry->data, data_size);
    uint32_t size = entry->size ? entry->size : (uint32_t)data_size;
    uint32_t packed = entry->packed ? entry->packed : (uint32_t)data_size;
    uint32_t mode = entry->mode ? entry->mode : 0100644;
    const char *local_name = entry->local_name ? entry->local_name : entry->name;
    size_t local_size = entry->local_name ? strlen(local_name) : name_size;
    uint32_t offset = (uint32_t)body->size + entry->offset_plus;
    put_numbers(body, "42222244422", N(0x04034B50), N(20), N(entry->flags), N(entry->method), N(0),
                N(0x5821), N(crc), N(packed), N(size), N(local_size), N(0));
    buf_append(body, local_name, local_size);
    buf_append(body, entry->data, data_size);
    put_numbers(central, "42222224442222244", N(0x02014B50), N(0x0314),
                N(entry->version ? entry->version : 20), N(entry->flags), N(entry->method), N(0),
                N(0x5821), N(crc), N(packed), N(size), N(name_size), N(entry->extra_size), N(0),
                N(0), N(0), N(mode << 16), N(offset));
    buf_append(central, entry->name, name_size);
    buf_append(central, entry->extra, entry->extra_size);
}

static inline void make_archive(const struct made_entry *entries, size_t count, struct buf *out)
{
    cleanup_buf struct buf central = BUF_INIT(64u << 20);
    for (size_t i = 0; i < count; i++)
        make_entry(&entries[i], out, &central);
    size_t start = out->size;
    buf_append(out, central.data, central.size);
    put_numbers(out, "42222442", N(0x06054B50), N(0), N(0), N(count & 0xFFFF), N(count & 0xFFFF),
                N(central.size), N(start), N(0));
}
