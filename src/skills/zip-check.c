/* SPDX-License-Identifier: Apache-2.0 */
/* What may be in an archive. All of it is decided before the first byte is written. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "skills/skills.h"
#include "skills/text.h"
#include "skills/zip.h"

#define FLAG_ENCRYPTED 0x01
#define FLAG_PATCH     0x20
#define FLAG_STRONG    0x40

enum {
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    METHOD_BZIP2 = 12,
};

static int refuse(struct error *err, const struct zip_item *item, const char *why)
{
    char shown[TEXT_SHOWN_SIZE];
    return error_set(err, ERROR_INVALID, "the archive's entry '%s' %s",
                     text_shown(item->name, shown), why);
}

/* --- where it goes --- */

static bool is_too_deep(const char *path)
{
    unsigned levels = 1;
    for (const char *at = path; (at = strchr(at, '/')); at++)
        levels++;
    return levels > ZIP_DEPTH_MAX;
}

static bool has_long_part(const char *path)
{
    for (const char *at = path; *at;) {
        size_t part = strcspn(at, "/");
        if (part > 255)
            return true;
        at += part + (at[part] == '/');
    }
    return false;
}

/* Whether the second character of its first part, which may be of several bytes, is a colon. */
static bool has_drive(const char *path)
{
    const char *at = path;
    const char *end = path + strcspn(path, "/");
    text_next(&at, end);
    return at < end && *at == ':';
}

static int place(struct zip_item *item, struct error *err)
{
    cleanup_free char *portable = xstrdup(item->name);
    for (char *at = portable; *at; at++) {
        if (*at == '\\')
            *at = '/';
    }
    item->is_dir = portable[strlen(portable) - 1] == '/';
    item->path = text_normpath(portable);
    if (*portable == '/' || strcmp(item->path, ".") == 0 || strcmp(item->path, "..") == 0 ||
        strncmp(item->path, "../", 3) == 0 || has_drive(item->path))
        return refuse(err, item, "leads out of it");
    if (has_long_part(item->path) || is_too_deep(item->path))
        return refuse(err, item, "has a path that is too long");
    return 0;
}

/* --- what it is --- */

static int check_kind(struct zip_item *item, struct error *err)
{
    mode_t mode = item->attributes >> 16;
    mode_t type = mode & S_IFMT;
    item->executable = (mode & 0111) != 0;
    if (type == S_IFLNK)
        return refuse(err, item, "is a link");
    if (type != 0 && type != S_IFREG && type != S_IFDIR)
        return refuse(err, item, "is neither a file nor a directory");
    if (item->is_dir)
        return item->size == 0 ? 0 : refuse(err, item, "is a directory with content");
    if (item->flags & (FLAG_ENCRYPTED | FLAG_PATCH | FLAG_STRONG))
        return refuse(err, item, "is encrypted, or a patch");
    if (item->method != METHOD_STORED && item->method != METHOD_DEFLATED &&
        item->method != METHOD_BZIP2)
        return refuse(err, item, "is compressed in a way that is not supported");
    return 0;
}

static bool is_bomb(uint64_t size, uint64_t packed)
{
    return size > 0 && (packed == 0 || size > packed * ZIP_RATIO_MAX);
}

static int check_size(const struct zip_item *item, uint64_t *size, uint64_t *packed,
                      struct error *err)
{
    if (item->is_dir)
        return 0;
    if (item->size > ZIP_ENTRY_MAX)
        return refuse(err, item, "is too large");
    /* It lies in the archive, so this cannot overflow. */
    if (is_bomb(item->size, item->packed))
        return refuse(err, item, "is compressed too well to be honest");
    *size += item->size;
    *packed += item->packed;
    if (*size > ZIP_TOTAL_MAX)
        return error_set(err, ERROR_LIMIT, "the archive holds more than %u bytes", ZIP_TOTAL_MAX);
    if (*packed > SKILL_ARCHIVE_MAX)
        return error_set(err, ERROR_LIMIT,
                         "the archive's entries are larger than an archive may be");
    return 0;
}

/* --- how they go together --- */

/* Two for one place, or one below what is a file. */
static int check_places(const struct zip_item *a, const struct zip_item *b, struct error *err)
{
    size_t length = strlen(a->path);
    if (strncmp(a->path, b->path, length) != 0)
        return 0;
    if (b->path[length] == '\0')
        return refuse(err, b, "is there twice");
    if (b->path[length] == '/' && !a->is_dir)
        return refuse(err, b, "lies below a file");
    return 0;
}

/* Two that share bytes: that is how a small archive becomes a large one. */
static bool overlap(const struct zip_item *a, const struct zip_item *b)
{
    if (a->is_dir || b->is_dir || a->packed == 0 || b->packed == 0)
        return false;
    return a->offset < b->offset ? b->offset - a->offset < a->packed
                                 : a->offset - b->offset < b->packed;
}

static int check_pairs(const struct zip_directory *directory, struct error *err)
{
    for (size_t i = 0; i < directory->count; i++) {
        for (size_t j = 0; j < directory->count; j++) {
            const struct zip_item *a = &directory->items[i];
            const struct zip_item *b = &directory->items[j];
            if (i == j)
                continue;
            if (check_places(a, b, err) < 0)
                return -1;
            if (overlap(a, b))
                return refuse(err, b, "overlaps another");
        }
    }
    return 0;
}

int zip_directory_check(struct zip_directory *directory, struct error *err)
{
    uint64_t size = 0;
    uint64_t packed = 0;
    for (size_t i = 0; i < directory->count; i++) {
        struct zip_item *item = &directory->items[i];
        if (place(item, err) < 0 || check_kind(item, err) < 0 ||
            check_size(item, &size, &packed, err) < 0)
            return -1;
    }
    if (is_bomb(size, packed))
        return error_set(err, ERROR_LIMIT, "the archive is compressed too well to be honest");
    return check_pairs(directory, err);
}
