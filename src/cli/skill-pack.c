/* SPDX-License-Identifier: Apache-2.0 */
/* Packing a skill: first a walk that only looks, so that what is too large is told at once, then
   the bytes. No link is followed, for it can lead anywhere; only SKILL.md itself may be one. */
#include "cli/skill-pack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/copy.h"
#include "cli/run-report.h"
#include "cli/table.h"
#include "core/fd.h"
#include "core/utf8.h"
#include "skills/beneath.h"
#include "skills/front.h"
#include "skills/package.h"
#include "skills/text.h"
#include "skills/zip.h"

#define SKIPS_SHOWN 10

struct packing {
    const char *directory; /* as it was named */
    int dir;
    const char *entry_file;
    char *entry_text; /* as it is to be */
    size_t entry_size;
    struct strings paths; /* of what goes in; directories end in '/' */
    uint64_t total;       /* bytes of the archive */
    struct skill_pack *pack;
};

/* --- what goes in -------------------------------------------------------------------------------
 */

static void skip(struct packing *packing, const char *path, const char *why)
{
    cleanup_free char *clean = printable(path);
    if (packing->pack->skipped++ < SKIPS_SHOWN)
        fprintf(stderr, "box skill import: left out '%s': %s\n", clean, why);
}

static void finish_skips(const struct skill_pack *pack)
{
    if (pack->skipped > SKIPS_SHOWN)
        fprintf(stderr, "box skill import: left out %u more of their kind\n",
                pack->skipped - SKIPS_SHOWN);
}

/* Names mean the same everywhere, or they do not go in. */
static int check_name(const char *name, const char *path, struct error *err)
{
    if (utf8_valid(name, strlen(name)) && !strchr(name, '\\'))
        return 0;
    cleanup_free char *clean = printable(path);
    error_set(err, ERROR_INVALID, "the name of '%.200s' %s", clean,
              strchr(name, '\\') ? "has a backslash, which archives take for a slash"
                                 : "is not UTF-8, which archives need");
    return error_hint(err, "rename it");
}

static int check_count(const struct packing *packing, struct error *err)
{
    if (packing->paths.count < ZIP_ENTRIES_MAX)
        return 0;
    error_set(err, ERROR_LIMIT, "'%.200s' has more than %d files and directories",
              packing->directory, ZIP_ENTRIES_MAX);
    return error_hint(err, "move away what agents do not need, such as .git or .venv");
}

static int check_file(const char *path, uint64_t size, struct error *err)
{
    char has[32];
    char may[32];
    if (size <= ZIP_ENTRY_MAX)
        return 0;
    format_size(size, has, sizeof has);
    format_size(ZIP_ENTRY_MAX, may, sizeof may);
    return error_set(err, ERROR_LIMIT, "'%.200s' has %s; a file of a skill may have %s", path, has,
                     may);
}

static int check_total(const struct packing *packing, struct error *err)
{
    char has[32];
    char may[32];
    uint64_t total = packing->total + ZIP_END_SIZE;
    if (total <= SKILL_ARCHIVE_MAX)
        return 0;
    format_size(total, has, sizeof has);
    format_size(SKILL_ARCHIVE_MAX, may, sizeof may);
    error_set(err, ERROR_LIMIT, "'%.200s' has %s; a skill may have %s on its way to boxd",
              packing->directory, has, may);
    return error_hint(err, "move away what agents do not need, such as .git or .venv");
}

static int plan_level(struct packing *packing, const char *path, unsigned depth, struct error *err);

static int plan_directory(struct packing *packing, const char *path, unsigned depth,
                          struct error *err)
{
    cleanup_free char *name = xasprintf("%s/", path);
    packing->total += zip_entry_size(name, 0);
    strings_add(&packing->paths, name);
    return plan_level(packing, path, depth + 1, err);
}

static int plan_entry(struct packing *packing, const char *path, const char *name, unsigned depth,
                      struct error *err)
{
    struct stat st;
    cleanup_free char *shown = copy_join(packing->directory, path);
    bool entry = strcmp(path, packing->entry_file) == 0;
    if (fstatat(packing->dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(err, errno, "'%.200s'", shown);
    if (!entry && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        skip(packing, shown, S_ISLNK(st.st_mode) ? "a symbolic link" : "not a regular file");
        return 0;
    }
    if (check_name(name, shown, err) < 0 || check_count(packing, err) < 0)
        return -1;
    if (depth >= ZIP_DEPTH_MAX)
        return error_set(err, ERROR_LIMIT, "'%.200s' is more than %d levels deep", shown,
                         ZIP_DEPTH_MAX);
    if (S_ISDIR(st.st_mode))
        return plan_directory(packing, path, depth, err);
    uint64_t size = entry ? packing->entry_size : (uint64_t)st.st_size;
    if (check_file(shown, size, err) < 0)
        return -1;
    packing->total += zip_entry_size(path, size);
    strings_add(&packing->paths, path);
    return 0;
}

static int plan_level(struct packing *packing, const char *path, unsigned depth, struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    cleanup_close int dir =
        beneath_open_plain(packing->dir, path[0] ? path : ".", O_RDONLY | O_DIRECTORY);
    int rc = dir < 0 ? dir : beneath_list(dir, SKILL_DIRECTORY_MAX, &names);
    if (rc == -E2BIG)
        return error_set(err, ERROR_LIMIT, "'%.200s' has a directory with more than %d entries",
                         packing->directory, SKILL_DIRECTORY_MAX);
    if (rc < 0)
        return error_errno(err, -rc, "'%.200s/%.200s'", packing->directory, path);
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i].name;
        cleanup_free char *below = path[0] ? xasprintf("%s/%s", path, name) : xstrdup(name);
        if (plan_entry(packing, below, name, depth, err) < 0)
            return -1;
    }
    return 0;
}

/* --- SKILL.md -----------------------------------------------------------------------------------
 */

static int find_entry(struct packing *packing, struct error *err)
{
    packing->entry_file = package_entry(packing->dir);
    if (packing->entry_file)
        return 0;
    error_set(err, ERROR_INVALID, "there is no SKILL.md in '%.200s'", packing->directory);
    return error_hint(err, "name the directory that holds it, or begin one: box skill new NAME");
}

static char *own_name(const char *directory)
{
    cleanup_free char *whole = realpath(directory, NULL);
    return copy_basename(whole ? whole : directory);
}

/* A name that was asked for is written into SKILL.md, if that says another. */
static int rename_skill(struct packing *packing, const struct front *front, const char *name,
                        struct error *err)
{
    bool shown_as_name = strcmp(front->display_name, front->name) == 0;
    const struct front_edit edit = {.name = name,
                                    .display_name = shown_as_name ? NULL : front->display_name,
                                    .description = front->description};
    cleanup_free char *old = packing->entry_text;
    packing->entry_text = NULL;
    return front_write(old, packing->entry_size, &edit, &packing->entry_text, &packing->entry_size,
                       err);
}

static int read_entry(struct packing *packing, const char *name, struct error *err)
{
    cleanup_front struct front front = {.meta = NULL};
    cleanup_free char *fallback = own_name(packing->directory);
    int rc = beneath_read(packing->dir, packing->entry_file, SKILL_TEXT_MAX, NULL,
                          &packing->entry_text, &packing->entry_size);
    if (rc == -EFBIG)
        return error_set(err, ERROR_LIMIT, "it is larger than %u bytes", SKILL_TEXT_MAX);
    if (rc < 0)
        return error_errno(err, -rc, "cannot read it");
    if (!utf8_valid(packing->entry_text, packing->entry_size))
        return error_set(err, ERROR_INVALID, "it is not UTF-8");
    int (*read)(const char *text, size_t size, const char *dir_name, struct front *ret,
                struct error *err) = name ? front_read_any : front_read;
    if (read(packing->entry_text, packing->entry_size, name ? name : fallback, &front, err) < 0)
        return -1;
    packing->pack->name = xstrdup(name ? name : front.name);
    return name && strcmp(name, front.name) != 0 ? rename_skill(packing, &front, name, err) : 0;
}

/* --- the archive --------------------------------------------------------------------------------
 */

static int grew(const struct packing *packing, struct error *err)
{
    return error_set(err, ERROR_LIMIT, "'%.200s' became larger while it was read",
                     packing->directory);
}

static int pack_file(struct packing *packing, const char *path, struct error *err)
{
    struct stat st;
    cleanup_free char *data = NULL;
    size_t size = 0;
    if (strcmp(path, packing->entry_file) == 0)
        return zip_writer_add(&packing->pack->archive, path, S_IFREG | 0644, packing->entry_text,
                              packing->entry_size) < 0
                   ? grew(packing, err)
                   : 0;
    cleanup_close int fd = beneath_open_plain(packing->dir, path, O_RDONLY);
    int rc = fd < 0 ? fd : beneath_read_fd(fd, ZIP_ENTRY_MAX, &st, &data, &size);
    if (rc == -EFBIG)
        return grew(packing, err);
    if (rc < 0)
        return error_errno(err, -rc, "'%.200s/%.200s'", packing->directory, path);
    if (zip_writer_add(&packing->pack->archive, path, st.st_mode & (S_IFMT | 0777), data, size) < 0)
        return grew(packing, err);
    return 0;
}

static int pack_all(struct packing *packing, struct error *err)
{
    struct zip_writer *archive = &packing->pack->archive;
    for (size_t i = 0; i < packing->paths.count; i++) {
        const char *path = packing->paths.items[i];
        int rc = 0;
        if (path[strlen(path) - 1] != '/')
            rc = pack_file(packing, path, err);
        else if (zip_writer_add(archive, path, S_IFDIR | 0755, "", 0) < 0)
            rc = grew(packing, err);
        if (rc < 0)
            return -1;
    }
    return zip_writer_end(archive) < 0 ? grew(packing, err) : 0;
}

static int pack(struct packing *packing, const char *name, struct error *err)
{
    if (find_entry(packing, err) < 0)
        return -1;
    if (read_entry(packing, name, err) < 0) {
        if (!err->hint[0])
            error_hint(err, "box skill validate %.200s says all that is wrong with it",
                       packing->directory);
        return error_wrap(err, "%.200s/%s", packing->directory, packing->entry_file);
    }
    if (plan_level(packing, "", 0, err) < 0 || check_total(packing, err) < 0)
        return -1;
    return pack_all(packing, err);
}

static int open_directory(const char *directory, struct error *err)
{
    int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int errnum = errno;
    if (dir >= 0)
        return dir;
    error_errno(err, errnum, "'%.200s'", directory);
    if (errnum == ENOTDIR)
        error_hint(err, "name the directory that SKILL.md is in; box skill install takes archives");
    return -1;
}

int skill_pack_make(const char *directory, const char *name, struct skill_pack *ret,
                    struct error *err)
{
    cleanup_skill_pack struct skill_pack made = {.name = NULL};
    struct packing packing = {.directory = directory, .pack = &made};
    cleanup_close int dir = open_directory(directory, err);
    if (dir < 0)
        return -1;
    packing.dir = dir;
    zip_writer_init(&made.archive, SKILL_ARCHIVE_MAX);
    int rc = pack(&packing, name, err);
    finish_skips(&made);
    free(packing.entry_text);
    strings_release(&packing.paths);
    if (rc < 0)
        return -1;
    *ret = made;
    made = (struct skill_pack){.name = NULL};
    return 0;
}

void skill_pack_release(struct skill_pack *pack)
{
    free(pack->name);
    zip_writer_release(&pack->archive);
}
