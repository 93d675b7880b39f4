/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a zip archive, read by hand: what libzip tells of an entry hides what decides
   whether it is safe (a NUL in its name, the name in its local header, what encoding it is in), and
   it takes the archive's word for how many there are before it looks.

   Offsets in an archive count from its beginning, but something may come before that (a program
   that unpacks itself): how much follows from where the directory really is. Everything is checked
   against the size of the archive before it is used. */
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "core/utf8.h"
#include "skills/skills.h"
#include "skills/text.h"
#include "skills/zip.h"

#define END_SIZE       22
#define END64_SIZE     56
#define LOCATOR64_SIZE 20
#define CENTRAL_SIZE   46
#define LOCAL_SIZE     30
#define COMMENT_MAX    65535
#define VERSION_MAX    63
#define FLAG_UTF8      0x800
#define NAME_MAX_BYTES 65535

/* Bytes 0x80 and up of what names are in if they are not UTF-8. */
static const uint16_t cp437[] = {
    0x00c7, 0x00fc, 0x00e9, 0x00e2, 0x00e4, 0x00e0, 0x00e5, 0x00e7, 0x00ea, 0x00eb, 0x00e8, 0x00ef,
    0x00ee, 0x00ec, 0x00c4, 0x00c5, 0x00c9, 0x00e6, 0x00c6, 0x00f4, 0x00f6, 0x00f2, 0x00fb, 0x00f9,
    0x00ff, 0x00d6, 0x00dc, 0x00a2, 0x00a3, 0x00a5, 0x20a7, 0x0192, 0x00e1, 0x00ed, 0x00f3, 0x00fa,
    0x00f1, 0x00d1, 0x00aa, 0x00ba, 0x00bf, 0x2310, 0x00ac, 0x00bd, 0x00bc, 0x00a1, 0x00ab, 0x00bb,
    0x2591, 0x2592, 0x2593, 0x2502, 0x2524, 0x2561, 0x2562, 0x2556, 0x2555, 0x2563, 0x2551, 0x2557,
    0x255d, 0x255c, 0x255b, 0x2510, 0x2514, 0x2534, 0x252c, 0x251c, 0x2500, 0x253c, 0x255e, 0x255f,
    0x255a, 0x2554, 0x2569, 0x2566, 0x2560, 0x2550, 0x256c, 0x2567, 0x2568, 0x2564, 0x2565, 0x2559,
    0x2558, 0x2552, 0x2553, 0x256b, 0x256a, 0x2518, 0x250c, 0x2588, 0x2584, 0x258c, 0x2590, 0x2580,
    0x03b1, 0x00df, 0x0393, 0x03c0, 0x03a3, 0x03c3, 0x00b5, 0x03c4, 0x03a6, 0x0398, 0x03a9, 0x03b4,
    0x221e, 0x03c6, 0x03b5, 0x2229, 0x2261, 0x00b1, 0x2265, 0x2264, 0x2320, 0x2321, 0x00f7, 0x2248,
    0x00b0, 0x2219, 0x00b7, 0x221a, 0x207f, 0x00b2, 0x25a0, 0x00a0,
};

static uint16_t get16(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t get32(const unsigned char *at)
{
    return (uint32_t)get16(at) | (uint32_t)get16(at + 2) << 16;
}

static uint64_t get64(const unsigned char *at)
{
    return (uint64_t)get32(at) | (uint64_t)get32(at + 4) << 32;
}

static bool is_magic(const unsigned char *at, unsigned char third, unsigned char fourth)
{
    return at[0] == 'P' && at[1] == 'K' && at[2] == third && at[3] == fourth;
}

static int not_zip(struct error *err, const char *why)
{
    return error_set(err, ERROR_INVALID, "this is no usable zip archive: %s", why);
}

/* --- the end record --- */

struct end_record {
    size_t place;  /* where the directory must have ended */
    uint64_t size; /* of the directory */
    uint64_t offset;
};

/* The last one, unless a record without a comment closes the file. */
static bool find_end(const unsigned char *data, size_t size, size_t *ret)
{
    if (size < END_SIZE)
        return false;
    size_t last = size - END_SIZE;
    size_t first = last > COMMENT_MAX + 1 ? last - COMMENT_MAX - 1 : 0;
    for (size_t at = last + 1; at-- > first;) {
        if (is_magic(data + at, 5, 6)) {
            *ret = at;
            return true;
        }
    }
    return false;
}

static int read_end(const unsigned char *data, size_t size, struct end_record *ret,
                    struct error *err)
{
    size_t at = 0;
    if (!find_end(data, size, &at))
        return not_zip(err, "it has no end record");
    *ret = (struct end_record){
        .place = at, .size = get32(data + at + 12), .offset = get32(data + at + 16)};
    if (at < LOCATOR64_SIZE + END64_SIZE || !is_magic(data + at - LOCATOR64_SIZE, 6, 7))
        return 0;
    const unsigned char *locator = data + at - LOCATOR64_SIZE;
    if (get32(locator + 4) != 0 || get32(locator + 16) > 1)
        return not_zip(err, "it is in several parts");
    const unsigned char *end64 = locator - END64_SIZE;
    if (!is_magic(end64, 6, 6))
        return 0;
    ret->place = (size_t)(end64 - data);
    ret->size = get64(end64 + 40);
    ret->offset = get64(end64 + 48);
    return 0;
}

/* --- entries --- */

/* Sizes that do not fit in 32 bits stand in an extra field. */
static int read_extra(const unsigned char *extra, size_t size, struct zip_item *item,
                      struct error *err)
{
    while (size >= 4) {
        size_t length = get16(extra + 2);
        if (length + 4 > size)
            return not_zip(err, "an extra field is cut off");
        const unsigned char *value = extra + 4;
        const unsigned char *end = value + length;
        uint64_t *wide[] = {&item->size, &item->packed, &item->offset};
        for (size_t i = 0; get16(extra) == 1 && i < ARRAY_SIZE(wide); i++) {
            if (*wide[i] != UINT32_MAX)
                continue;
            if (end - value < 8)
                return not_zip(err, "a 64-bit field is missing");
            *wide[i] = get64(value);
            value += 8;
        }
        extra += length + 4;
        size -= length + 4;
    }
    return 0;
}

static int read_name(const unsigned char *name, size_t size, struct zip_item *item,
                     struct error *err)
{
    if (size == 0 || memchr(name, '\0', size))
        return error_set(err, ERROR_INVALID,
                         "the archive has an entry whose name is empty or has "
                         "a NUL in it");
    if (item->flags & FLAG_UTF8) {
        if (!utf8_valid((const char *)name, size))
            return error_set(err, ERROR_INVALID,
                             "the archive has a name that is not UTF-8, though "
                             "it says so");
        item->name = xstrndup((const char *)name, size);
        return 0;
    }
    cleanup_buf struct buf out = BUF_INIT(3 * NAME_MAX_BYTES + 1);
    for (size_t i = 0; i < size; i++)
        text_put(&out, name[i] < 0x80 ? name[i] : cp437[name[i] - 0x80]);
    buf_append(&out, "", 1);
    item->name = steal_ptr(out.data);
    return 0;
}

/* The archive must say the same thing twice. */
static int check_local(const struct zip_directory *directory, const struct zip_item *item,
                       const unsigned char *name, size_t size, struct error *err)
{
    if (directory->start < LOCAL_SIZE || item->offset > directory->start - LOCAL_SIZE)
        return not_zip(err, "an entry lies outside it");
    const unsigned char *local = directory->data + item->offset;
    size_t left = directory->start - LOCAL_SIZE - (size_t)item->offset;
    size_t length = get16(local + 26);
    size_t extra = get16(local + 28);
    if (!is_magic(local, 3, 4) || length + extra > left)
        return not_zip(err, "an entry's header is not where it should be");
    if (length != size || memcmp(local + LOCAL_SIZE, name, size) != 0 ||
        (get16(local + 6) & FLAG_UTF8) != (item->flags & FLAG_UTF8))
        return error_set(err, ERROR_INVALID, "the archive has two names for one entry");
    if (item->packed > left - length - extra)
        return not_zip(err, "an entry reaches beyond it");
    return 0;
}

/* One entry at `at`; `ret_size` is what it takes. */
static int read_item(struct zip_directory *directory, size_t at, size_t left, size_t *ret_size,
                     struct error *err)
{
    const unsigned char *central = directory->data + at;
    if (left < CENTRAL_SIZE || !is_magic(central, 1, 2))
        return not_zip(err, "its directory is damaged");
    size_t name_size = get16(central + 28);
    size_t extra_size = get16(central + 30);
    size_t size = CENTRAL_SIZE + name_size + extra_size + get16(central + 32);
    if (size > left)
        return not_zip(err, "its directory is cut off");
    if (directory->count == ZIP_ENTRIES_MAX)
        return error_set(err, ERROR_LIMIT, "the archive has more than %d entries", ZIP_ENTRIES_MAX);
    struct zip_item *item = &directory->items[directory->count++];
    *item = (struct zip_item){.version = get16(central + 6),
                              .flags = get16(central + 8),
                              .method = get16(central + 10),
                              .packed = get32(central + 20),
                              .size = get32(central + 24),
                              .offset = get32(central + 42),
                              .attributes = get32(central + 38)};
    const unsigned char *name = central + CENTRAL_SIZE;
    if (item->version > VERSION_MAX)
        return not_zip(err, "it is of a version that nobody knows");
    if (read_extra(name + name_size, extra_size, item, err) < 0 ||
        read_name(name, name_size, item, err) < 0)
        return -1;
    *ret_size = size;
    /* Of a directory nothing is read, so nothing has to be there. */
    if (name[name_size - 1] == '/')
        return 0;
    return check_local(directory, item, name, name_size, err);
}

static int read_items(struct zip_directory *directory, struct error *err)
{
    for (size_t at = 0; at < directory->length;) {
        size_t size = 0;
        if (read_item(directory, directory->start + at, directory->length - at, &size, err) < 0)
            return -1;
        at += size;
    }
    return 0;
}

void zip_directory_release(struct zip_directory *directory)
{
    for (size_t i = 0; i < directory->count; i++) {
        free(directory->items[i].name);
        free(directory->items[i].path);
    }
    free(directory->items);
    *directory = (struct zip_directory){.items = NULL};
}

int zip_directory_read(const void *data, size_t size, struct zip_directory *ret, struct error *err)
{
    cleanup_zip_directory struct zip_directory directory = {.items = NULL};
    struct end_record end = {0};
    if (size == 0)
        return error_set(err, ERROR_INVALID, "the archive is empty");
    if (size > SKILL_ARCHIVE_MAX)
        return error_set(err, ERROR_LIMIT, "the archive is larger than %u bytes",
                         SKILL_ARCHIVE_MAX);
    if (read_end(data, size, &end, err) < 0)
        return -1;
    if (end.size > end.place || end.offset > end.place - end.size)
        return not_zip(err, "its directory would begin before it does");
    size_t before = end.place - (size_t)end.size - (size_t)end.offset;
    directory.data = (const unsigned char *)data + before;
    directory.start = (size_t)end.offset;
    directory.length = (size_t)end.size;
    directory.items = xcalloc(ZIP_ENTRIES_MAX, sizeof *directory.items);
    if (read_items(&directory, err) < 0 || zip_directory_check(&directory, err) < 0)
        return -1;
    *ret = directory;
    directory = (struct zip_directory){.items = NULL};
    return 0;
}
