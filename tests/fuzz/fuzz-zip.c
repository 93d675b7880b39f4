/* SPDX-License-Identifier: Apache-2.0 */
/* Archives from strangers. Whatever passes the checks must be within every limit and stay inside;
   what is small enough is unpacked for real, by libzip, into a directory in memory. */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "skills/skills.h"
#include "skills/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UNPACKED_MAX (1u << 20)

static void check_path(const char *path)
{
    assert(*path && *path != '/');
    for (const char *at = path; *at;) {
        size_t part = strcspn(at, "/");
        assert(part > 0 && part <= 255);
        assert(strncmp(at, "..", part) != 0 || part > 2);
        at += part + (at[part] == '/');
    }
}

static uint64_t check_items(const struct zip_directory *directory, size_t size)
{
    uint64_t total = 0;
    assert(directory->count <= ZIP_ENTRIES_MAX && directory->start + directory->length <= size);
    for (size_t i = 0; i < directory->count; i++) {
        const struct zip_item *item = &directory->items[i];
        check_path(item->path);
        assert(item->size <= ZIP_ENTRY_MAX && (!item->is_dir || item->size == 0));
        assert(item->is_dir || item->size <= item->packed * ZIP_RATIO_MAX);
        assert(item->is_dir || item->offset + item->packed <= directory->start);
        total += item->size;
        for (size_t j = 0; j < i; j++)
            assert(strcmp(item->path, directory->items[j].path) != 0);
    }
    assert(total <= ZIP_TOTAL_MAX);
    return total;
}

static char scratch_path[] = "/dev/shm/boxd-fuzz-zip-XXXXXX";

static void remove_scratch(void)
{
    rmdir(scratch_path);
}

/* One for all inputs, emptied in between. */
static int scratch(void)
{
    static int dir = -1;
    if (dir < 0) {
        assert(mkdtemp(scratch_path));
        dir = open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert(dir >= 0);
        atexit(remove_scratch);
    }
    return dir;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zip_directory directory;
    struct error err = ERROR_INIT;
    if (zip_directory_read(data, size, &directory, &err) < 0) {
        assert(err.message[0]);
        return 0;
    }
    if (check_items(&directory, size) <= UNPACKED_MAX) {
        struct budget budget = {UNPACKED_MAX, 1000};
        int dir = scratch();
        if (zip_extract(&directory, dir, &budget, &err) < 0)
            assert(err.message[0]);
        tree_clear(dir);
    }
    zip_directory_release(&directory);
    return 0;
}
