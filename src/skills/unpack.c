/* SPDX-License-Identifier: Apache-2.0 */
/* An archive unpacked into a stage, the skills in it, and where each would go. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "skills/beneath.h"
#include "skills/install.h"
#include "skills/text.h"
#include "skills/zip.h"

/* What the Python store calls the directory: a skill at the top of an archive, without a name and
   not yet installed, is called so. */
#define UNPACKED "extracted"

/* --- names --- */

/* The directory of a skill is named after the archive. */
static char *target_stem(const char *filename)
{
    cleanup_free char *clean = text_stripped(filename ? filename : "");
    const char *slash = strrchr(clean, '/');
    const char *base = slash ? slash + 1 : clean;
    /* os.path.splitext(): dots in front are no extension. */
    const char *dot = strrchr(base, '.');
    bool extended = dot && strspn(base, ".") < (size_t)(dot - base);
    const char *end = extended ? dot : base + strlen(base);
    cleanup_buf struct buf out = BUF_INIT(4096);
    for (const char *at = base; at < end;) {
        uint32_t c = text_next(&at, end);
        text_put(&out, text_is_alnum(c) || c == '_' ? c : '-');
    }
    size_t from = 0;
    while (from < out.size && strchr("-_", out.data[from]))
        from++;
    while (out.size > from && strchr("-_", out.data[out.size - 1]))
        out.size--;
    return out.size > from ? xstrndup(out.data + from, out.size - from) : xstrdup("uploaded-skill");
}

static char *target_name(const struct installation *installation, const char *source_path)
{
    const char *suffix = installation->archive->target_suffix;
    const char *slash = strrchr(source_path, '/');
    const char *leaf = slash ? slash + 1 : source_path;
    bool named = *leaf && strcmp(leaf, installation->stem) != 0;
    suffix = suffix ? suffix : "upload";
    return xasprintf("%s%s%s%s%s", installation->stem, named ? "-" : "", named ? leaf : "",
                     *suffix ? "-" : "", suffix);
}

/* --- unpacking --- */

static int unpack_bytes(struct installation *installation, const void *data, size_t size,
                        struct error *err)
{
    struct write_op *op = &installation->op;
    cleanup_zip_directory struct zip_directory directory = {.items = NULL};
    if (zip_directory_read(data, size, &directory, err) < 0)
        return -1;
    if (mkdirat(op->stage.dir, UNPACKED, 0755) < 0)
        return error_errno(err, errno, "cannot unpack the archive");
    cleanup_close int dir =
        openat(op->stage.dir, UNPACKED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, errno, "cannot unpack the archive");
    return zip_extract(&directory, dir, &op->budget, err);
}

static int unpack(struct installation *installation, struct error *err)
{
    const struct skill_archive *archive = installation->archive;
    if (archive->data)
        return unpack_bytes(installation, archive->data, archive->size, err);
    cleanup_free char *data = NULL;
    size_t size;
    int rc = beneath_read_fd(archive->fd, SKILL_ARCHIVE_MAX, NULL, &data, &size);
    if (rc == -EFBIG)
        return error_set(err, ERROR_LIMIT, "the archive is larger than %u bytes",
                         SKILL_ARCHIVE_MAX);
    if (rc < 0)
        return error_errno(err, -rc, "cannot read the archive");
    return unpack_bytes(installation, data, size, err);
}

/* A single directory at the top is entered, and then the one that was asked for. */
static int enter(struct installation *installation, struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    const char *subdir = installation->archive->source_subdir;
    cleanup_close int top =
        beneath_open_plain(installation->op.stage.dir, UNPACKED, O_RDONLY | O_DIRECTORY);
    int rc = top < 0 ? top : beneath_list(top, ZIP_ENTRIES_MAX, &names);
    if (rc < 0)
        return error_errno(err, -rc, "cannot look at what was unpacked");
    bool single = names.count == 1 && beneath_is_dir(top, names.items[0].name);
    cleanup_free char *base =
        single ? xasprintf(UNPACKED "/%s", names.items[0].name) : xstrdup(UNPACKED);
    cleanup_free char *wanted = text_archive_path(subdir ? subdir : "");
    cleanup_free char *normal = text_normpath(wanted);
    if (strncmp(normal, "..", 2) == 0)
        return error_set(err, ERROR_INVALID, "source_subdir leads out of the archive");
    installation->path =
        strcmp(normal, ".") == 0 ? steal_ptr(base) : xasprintf("%s/%s", base, normal);
    installation->dir =
        beneath_open_plain(installation->op.stage.dir, installation->path, O_RDONLY | O_DIRECTORY);
    if (installation->dir < 0) {
        char shown[TEXT_SHOWN_SIZE];
        installation->dir = -1;
        return error_set(err, ERROR_NOT_FOUND, "the archive has no directory '%s'",
                         text_shown(normal, shown));
    }
    return 0;
}

/* --- candidates --- */

static int compare_sources(const void *a, const void *b)
{
    const struct package *one = *(struct package *const *)a;
    const struct package *two = *(struct package *const *)b;
    return strcmp(one->skill.source_path, two->skill.source_path);
}

static int add_candidate(struct installation *installation, const struct found *found,
                         struct error *err)
{
    struct package *package;
    cleanup_free char *base = xasprintf("/%s", installation->path);
    if (package_load(installation->dir, base, found->path, found->entry_file, &package, err) < 0)
        return -1;
    cleanup_free char *target = target_name(installation, found->path);
    cleanup_free char *root = xasprintf("%s/%s", installation->op.scope->path, target);
    installation->candidates[installation->count++] = package_moved(package, root, found->path);
    package_unref(package);
    return 0;
}

static int find_candidates(struct installation *installation, struct error *err)
{
    cleanup_found struct found_list found = {.items = NULL};
    if (packages_discover(installation->dir, SCAN_DEPTH, 0, &found, err) < 0)
        return -1;
    if (found.count == 0)
        return error_set(err, ERROR_NOT_FOUND,
                         "there is no SKILL.md in the archive, at most %d levels down", SCAN_DEPTH);
    installation->candidates = xcalloc(found.count, sizeof *installation->candidates);
    for (size_t i = 0; i < found.count; i++) {
        if (add_candidate(installation, &found.items[i], err) < 0)
            return -1;
    }
    qsort(installation->candidates, installation->count, sizeof *installation->candidates,
          compare_sources);
    return 0;
}

int install_prepare(struct installation *installation, struct error *err)
{
    installation->stem = target_stem(installation->archive->filename);
    if (write_stage(&installation->op, err) < 0 || unpack(installation, err) < 0 ||
        enter(installation, err) < 0)
        return -1;
    return find_candidates(installation, err);
}
