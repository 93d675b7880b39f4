/* SPDX-License-Identifier: Apache-2.0 */
/* An archive unpacked, by libzip.

   libzip is given an end record of our own making behind the directory that was checked, so that it
   cannot find another: it searches the last 64 KiB for all that look like one, and believes what
   they say of how much memory to take. The comment of that record fills those 64 KiB. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "core/fd.h"
#include "core/mem.h"
#include "skills/beneath.h"
#include "skills/text.h"
#include "skills/zip.h"

#define CHUNK        (64u << 10)
#define END_SIZE     22
#define GAP          20 /* where the locator of a 64-bit end record would be */
#define COMMENT_SIZE 65535

struct unpacking {
    const struct zip_directory *directory;
    zip_t *archive;
    int dir;
    struct budget *budget;
    uint64_t total;
    char *chunk;
    unsigned char end[GAP + END_SIZE];
};

static void put16(unsigned char *at, size_t value)
{
    at[0] = (unsigned char)value;
    at[1] = (unsigned char)(value >> 8);
}

static void put32(unsigned char *at, size_t value)
{
    put16(at, value);
    put16(at + 2, value >> 16);
}

static void make_end(struct unpacking *unpacking)
{
    const struct zip_directory *directory = unpacking->directory;
    unsigned char *end = unpacking->end + GAP;
    memcpy(end, "PK\5\6", 4);
    put16(end + 8, directory->count);
    put16(end + 10, directory->count);
    put32(end + 12, directory->length);
    put32(end + 16, directory->start);
    put16(end + 20, COMMENT_SIZE);
}

static int open_archive(struct unpacking *unpacking, struct error *err)
{
    static const unsigned char comment[COMMENT_SIZE];
    const struct zip_directory *directory = unpacking->directory;
    zip_error_t why;
    make_end(unpacking);
    zip_buffer_fragment_t parts[] = {
        {(zip_uint8_t *)directory->data, directory->start + directory->length},
        {unpacking->end, sizeof unpacking->end},
        {(zip_uint8_t *)comment, sizeof comment},
    };
    zip_error_init(&why);
    zip_source_t *source = zip_source_buffer_fragment_create(parts, ARRAY_SIZE(parts), 0, &why);
    if (source)
        unpacking->archive = zip_open_from_source(source, ZIP_RDONLY, &why);
    if (!unpacking->archive) {
        error_set(err, ERROR_INVALID, "this is no usable zip archive: %s",
                  zip_error_strerror(&why));
        zip_source_free(source);
    }
    zip_error_fini(&why);
    return unpacking->archive ? 0 : -1;
}

static int refuse(struct error *err, const struct zip_item *item, const char *why)
{
    char shown[TEXT_SHOWN_SIZE];
    return error_set(err, ERROR_INVALID, "the archive's entry '%s' %s",
                     text_shown(item->name, shown), why);
}

/* Both readings of the directory must have come to the same. */
static int check_agreement(struct unpacking *unpacking, size_t index, struct error *err)
{
    const struct zip_item *item = &unpacking->directory->items[index];
    const zip_uint64_t wanted =
        ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    zip_stat_t st;
    zip_stat_init(&st);
    if (zip_stat_index(unpacking->archive, index, 0, &st) < 0 || (st.valid & wanted) != wanted ||
        st.size != item->size || st.comp_size != item->packed || st.comp_method != item->method ||
        st.encryption_method != ZIP_EM_NONE)
        return refuse(err, item, "is described in two ways");
    return 0;
}

static int copy_out(struct unpacking *unpacking, const struct zip_item *item, zip_file_t *from,
                    int to, struct error *err)
{
    uint64_t size = 0;
    for (;;) {
        zip_int64_t n = zip_fread(from, unpacking->chunk, CHUNK);
        if (n < 0)
            return refuse(err, item, "is damaged");
        if (n == 0)
            break;
        size += (uint64_t)n;
        unpacking->total += (uint64_t)n;
        if (size > item->size || size > ZIP_ENTRY_MAX || unpacking->total > ZIP_TOTAL_MAX)
            return refuse(err, item, "is larger than it says");
        if (budget_take(unpacking->budget, (uint64_t)n, 0, err) < 0)
            return -1;
        int rc = fd_write_all(to, unpacking->chunk, (size_t)n);
        if (rc < 0)
            return error_errno(err, -rc, "cannot write what is in the archive");
    }
    if (size != item->size)
        return refuse(err, item, "is smaller than it says");
    return 0;
}

static int extract_file(struct unpacking *unpacking, size_t index, int parent, const char *name,
                        struct error *err)
{
    const struct zip_item *item = &unpacking->directory->items[index];
    if (check_agreement(unpacking, index, err) < 0 || budget_take(unpacking->budget, 0, 1, err) < 0)
        return -1;
    zip_file_t *from = zip_fopen_index(unpacking->archive, index, 0);
    if (!from)
        return refuse(err, item, "cannot be read");
    int rc = 0;
    cleanup_close int to =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        rc = error_errno(err, errno, "cannot write what is in the archive");
    else
        rc = copy_out(unpacking, item, from, to, err);
    if (rc == 0 && fchmod(to, item->executable ? 0755 : 0644) < 0)
        rc = error_errno(err, errno, "cannot write what is in the archive");
    zip_fclose(from);
    return rc;
}

static int extract_item(struct unpacking *unpacking, size_t index, struct error *err)
{
    const struct zip_item *item = &unpacking->directory->items[index];
    const char *slash = strrchr(item->path, '/');
    cleanup_free char *above = item->is_dir ? xstrdup(item->path)
                               : slash      ? xstrndup(item->path, (size_t)(slash - item->path))
                                            : xstrdup(".");
    unsigned made = 0;
    cleanup_close int parent = beneath_make_dirs(unpacking->dir, above, &made);
    if (parent < 0)
        return error_errno(err, -parent, "cannot write what is in the archive");
    if (budget_take(unpacking->budget, 0, made, err) < 0)
        return -1;
    if (item->is_dir)
        return 0;
    return extract_file(unpacking, index, parent, slash ? slash + 1 : item->path, err);
}

/* Whether all of it fits, going by what it says. */
static int check_room(const struct zip_directory *directory, const struct budget *budget,
                      struct error *err)
{
    struct budget trial = *budget;
    for (size_t i = 0; i < directory->count; i++) {
        if (budget_take(&trial, directory->items[i].size, 1, err) < 0)
            return -1;
    }
    return 0;
}

int zip_extract(const struct zip_directory *directory, int dir, struct budget *budget,
                struct error *err)
{
    struct unpacking unpacking = {.directory = directory, .dir = dir, .budget = budget};
    if (directory->count == 0)
        return 0; /* libzip trips over a part without bytes */
    if (check_room(directory, budget, err) < 0 || open_archive(&unpacking, err) < 0)
        return -1;
    unpacking.chunk = xmalloc(CHUNK);
    int rc = 0;
    if (zip_get_num_entries(unpacking.archive, 0) != (zip_int64_t)directory->count)
        rc = error_set(err, ERROR_INVALID, "the archive's directory can be read in two ways");
    for (size_t i = 0; i < directory->count && rc == 0; i++)
        rc = extract_item(&unpacking, i, err);
    zip_discard(unpacking.archive);
    free(unpacking.chunk);
    return rc;
}
