/* SPDX-License-Identifier: Apache-2.0 */
/* A package as an archive. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "core/fd.h"
#include "core/utf8.h"
#include "skills/beneath.h"
#include "skills/store.h"
#include "skills/zip-source.h"
#include "skills/zip.h"

#define ENTRIES_MAX 10000

struct packing {
    zip_t *archive;
    int package;
    const char *top; /* the name above everything */
    bool stored;     /* not compressed */
    unsigned entries;
    uint64_t bytes;
};

static int zip_failure(const struct packing *packing, struct error *err)
{
    return error_set(err, ERROR_SYSTEM, "cannot write the archive: %s",
                     zip_strerror(packing->archive));
}

static int set_mode(const struct packing *packing, zip_int64_t index, mode_t mode,
                    struct error *err)
{
    if (index < 0 || zip_file_set_external_attributes(packing->archive, (zip_uint64_t)index, 0,
                                                      ZIP_OPSYS_UNIX, (zip_uint32_t)mode << 16) < 0)
        return zip_failure(packing, err);
    return 0;
}

static int add_file(struct packing *packing, const char *path, const struct stat *st,
                    struct error *err)
{
    packing->bytes += (uint64_t)st->st_size;
    if (packing->bytes > SKILL_EXPORT_MAX)
        return error_set(err, ERROR_LIMIT, "the skill is larger than %" PRIu64 " bytes",
                         SKILL_EXPORT_MAX);
    zip_source_t *source = zip_source_beneath(packing->archive, packing->package, path, st);
    cleanup_free char *name = xasprintf("%s/%s", packing->top, path);
    zip_int64_t index =
        source ? zip_file_add(packing->archive, name, source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
        zip_source_free(source);
        return zip_failure(packing, err);
    }
    if (packing->stored &&
        zip_set_file_compression(packing->archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) < 0)
        return zip_failure(packing, err);
    return set_mode(packing, index, st->st_mode & 0111 ? S_IFREG | 0755 : S_IFREG | 0644, err);
}

static int add_directory(struct packing *packing, const char *path, struct error *err)
{
    cleanup_free char *name = xasprintf("%s%s%s", packing->top, *path ? "/" : "", path);
    zip_int64_t index = zip_dir_add(packing->archive, name, ZIP_FL_ENC_UTF_8);
    return set_mode(packing, index, S_IFDIR | 0755, err);
}

static int add_level(struct packing *packing, const char *path, unsigned depth, struct error *err);

/* What libzip takes for UTF-8. */
static bool is_text(const char *name)
{
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20)
            return false;
    return utf8_valid(name, strlen(name));
}

/* Links are packed as what they lead to, if that is in the package; other things are left out. */
static int add_entry(struct packing *packing, const char *path, unsigned depth, struct error *err)
{
    struct stat st;
    if (++packing->entries > ENTRIES_MAX)
        return error_set(err, ERROR_LIMIT, "the skill has more than %d entries", ENTRIES_MAX);
    if (!is_text(path))
        return error_set(err, ERROR_INVALID,
                         "a file's name is not UTF-8, or has control characters in it: it cannot "
                         "be in an archive");
    if (beneath_stat(packing->package, path, &st) < 0)
        return 0;
    if (S_ISREG(st.st_mode))
        return add_file(packing, path, &st, err);
    if (!S_ISDIR(st.st_mode))
        return 0;
    if (depth == DISCOVERY_DEPTH * 8)
        return error_set(err, ERROR_LIMIT, "the skill has too many levels");
    if (add_directory(packing, path, err) < 0)
        return -1;
    return add_level(packing, path, depth + 1, err);
}

static int add_level(struct packing *packing, const char *path, unsigned depth, struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    cleanup_close int dir =
        beneath_open(packing->package, *path ? path : ".", O_RDONLY | O_DIRECTORY);
    int rc = dir < 0 ? dir : beneath_list(dir, SKILL_DIRECTORY_MAX, &names);
    if (rc < 0)
        return error_errno(err, -rc, "cannot list a directory of the skill");
    for (size_t i = 0; i < names.count; i++) {
        cleanup_free char *below = xasprintf("%s%s%s", path, *path ? "/" : "", names.items[i].name);
        if (add_entry(packing, below, depth, err) < 0)
            return -1;
    }
    return 0;
}

static int pack(struct packing *packing, struct zip_sink *sink, struct error *err)
{
    zip_error_t why;
    zip_error_init(&why);
    zip_source_t *target = zip_source_sink(sink, &why);
    if (target)
        packing->archive = zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, &why);
    if (!packing->archive) {
        error_set(err, ERROR_SYSTEM, "cannot begin an archive: %s", zip_error_strerror(&why));
        zip_source_free(target);
        zip_error_fini(&why);
        return -1;
    }
    zip_error_fini(&why);
    int rc = add_directory(packing, "", err);
    if (rc == 0)
        rc = add_level(packing, "", 0, err);
    if (rc == 0 && zip_close(packing->archive) < 0)
        rc = zip_failure(packing, err);
    else if (rc == 0)
        return 0;
    zip_discard(packing->archive);
    return rc;
}

/* Whether this store, or LangBot's, would take it again. */
static bool is_welcome(int fd)
{
    cleanup_zip_directory struct zip_directory directory = {.items = NULL};
    cleanup_free char *data = NULL;
    size_t size;
    return beneath_read_fd(fd, SKILL_ARCHIVE_MAX, NULL, &data, &size) == 0 &&
           zip_directory_read(data, size, &directory, NULL) == 0;
}

/* A file that compresses too well looks like a bomb; then nothing is compressed. */
static int pack_twice(int dir, const char *top, int fd, struct error *err)
{
    for (int stored = 0; stored < 2; stored++) {
        struct packing packing = {.package = dir, .top = top, .stored = stored};
        struct zip_sink sink = {.fd = fd};
        zip_error_init(&sink.error);
        int rc = pack(&packing, &sink, err);
        zip_error_fini(&sink.error);
        if (rc < 0 || packing.bytes > SKILL_ARCHIVE_MAX || is_welcome(fd))
            return rc;
    }
    return 0;
}

int skill_zip_export(struct skill_scope *scope, const char *name, int fd, struct error *err)
{
    struct package *package;
    cleanup_close int root = scope_open(scope, err);
    if (root < 0 || scope_require(scope, root, name, &package, err) < 0)
        return -1;
    cleanup_close int dir = package_open(root, package, err);
    const char *top = strrchr(package->skill.package_root, '/') + 1;
    int rc = dir < 0 ? -1 : pack_twice(dir, top, fd, err);
    package_unref(package);
    return rc;
}
