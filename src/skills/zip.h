/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives from strangers, and for people to keep. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "skills/tree.h"

#define ZIP_ENTRIES_MAX 512
#define ZIP_ENTRY_MAX   (16u << 20)
#define ZIP_TOTAL_MAX   (64u << 20)
#define ZIP_RATIO_MAX   100
#define ZIP_DEPTH_MAX   40 /* levels; walks over the store go a little deeper */

struct zip_item {
    char *name; /* as UTF-8; never empty, no NUL */
    char *path; /* where it goes: normal, relative, inside */
    bool is_dir;
    bool executable;
    uint16_t version;
    uint16_t flags;
    uint16_t method;
    uint64_t packed;
    uint64_t size;
    uint64_t offset; /* of its local header, in `data` */
    uint32_t attributes;
};

/* What an archive says is in it. */
struct zip_directory {
    const unsigned char *data; /* borrowed; begins where offsets count from */
    size_t start;              /* of the central directory */
    size_t length;
    struct zip_item *items;
    size_t count;
};

/* Reads the directory and holds it against every rule and limit there is. No I/O. */
int zip_directory_read(const void *data, size_t size, struct zip_directory *ret, struct error *err);
void zip_directory_release(struct zip_directory *directory);
#define cleanup_zip_directory __attribute__((cleanup(zip_directory_release)))
/* The second half of it, for items that have been read; fills in `path` and the flags behind it. */
int zip_directory_check(struct zip_directory *directory, struct error *err);

/* Unpacks everything into an empty directory, counting as it goes. On failure some of it is there.
 */
int zip_extract(const struct zip_directory *directory, int dir, struct budget *budget,
                struct error *err);
