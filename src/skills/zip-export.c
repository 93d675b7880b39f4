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
#include "skills/beneath.h"
#include "skills/store.h"
#include "skills/zip-source.h"

#define ENTRIES_MAX 10000

struct export
{
    zip_t *archive;
    int package;
    const char *top; /* the name above everything */
    unsigned entries;
    uint64_t bytes;
};

static int zip_failure(const struct export *export, struct error *err)
{
    return error_set(err, ERROR_SYSTEM, "cannot write the archive: %s",
                     zip_strerror(export->archive));
}

static int set_mode(const struct export *export, zip_int64_t index, mode_t mode, struct error *err)
{
    if (index < 0 || zip_file_set_external_attributes(export->archive, (zip_uint64_t)index, 0,
                                                      ZIP_OPSYS_UNIX, (zip_uint32_t)mode << 16) < 0)
        return zip_failure(export, err);
    return 0;
}

static int add_file(struct export *export, const char *path, const struct stat *st,
                    struct error *err)
{
    export->bytes += (uint64_t)st->st_size;
    if (export->bytes > SKILL_EXPORT_MAX)
        return error_set(err, ERROR_LIMIT, "the skill is larger than %" PRIu64 " bytes",
                         SKILL_EXPORT_MAX);
    zip_source_t *source = zip_source_beneath(export->archive, export->package, path, st);
    cleanup_free char *name = xasprintf("%s/%s", export->top, path);
    zip_int64_t index = source ? zip_file_add(export->archive, name, source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
        zip_source_free(source);
        return zip_failure(export, err);
    }
    return set_mode(export, index, st->st_mode & 0111 ? S_IFREG | 0755 : S_IFREG | 0644, err);
}

static int add_directory(struct export *export, const char *path, struct error *err)
{
    cleanup_free char *name = xasprintf("%s%s%s", export->top, *path ? "/" : "", path);
    zip_int64_t index = zip_dir_add(export->archive, name, ZIP_FL_ENC_UTF_8);
    return set_mode(export, index, S_IFDIR | 0755, err);
}

static int add_level(struct export *export, const char *path, unsigned depth, struct error *err);

/* Links are packed as what they lead to, if that is in the package; other things are left out. */
static int add_entry(struct export *export, const char *path, unsigned depth, struct error *err)
{
    struct stat st;
    if (++export->entries > ENTRIES_MAX)
        return error_set(err, ERROR_LIMIT, "the skill has more than %d entries", ENTRIES_MAX);
    if (beneath_stat(export->package, path, &st) < 0)
        return 0;
    if (S_ISREG(st.st_mode))
        return add_file(export, path, &st, err);
    if (!S_ISDIR(st.st_mode))
        return 0;
    if (depth == DISCOVERY_DEPTH * 8)
        return error_set(err, ERROR_LIMIT, "the skill has too many levels");
    if (add_directory(export, path, err) < 0)
        return -1;
    return add_level(export, path, depth + 1, err);
}

static int add_level(struct export *export, const char *path, unsigned depth, struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    cleanup_close int dir =
        beneath_open(export->package, *path ? path : ".", O_RDONLY | O_DIRECTORY);
    int rc = dir < 0 ? dir : beneath_list(dir, SKILL_DIRECTORY_MAX, &names);
    if (rc < 0)
        return error_errno(err, -rc, "cannot list a directory of the skill");
    for (size_t i = 0; i < names.count; i++) {
        cleanup_free char *below = xasprintf("%s%s%s", path, *path ? "/" : "", names.items[i].name);
        if (add_entry(export, below, depth, err) < 0)
            return -1;
    }
    return 0;
}

static int export_package(struct export *export, struct zip_sink *sink, struct error *err)
{
    zip_error_t why;
    zip_error_init(&why);
    zip_source_t *target = zip_source_sink(sink, &why);
    if (target)
        export->archive = zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, &why);
    if (!export->archive) {
        error_set(err, ERROR_SYSTEM, "cannot begin an archive: %s", zip_error_strerror(&why));
        zip_source_free(target);
        zip_error_fini(&why);
        return -1;
    }
    zip_error_fini(&why);
    int rc = add_directory(export, "", err);
    if (rc == 0)
        rc = add_level(export, "", 0, err);
    if (rc == 0 && zip_close(export->archive) < 0)
        rc = zip_failure(export, err);
    else if (rc == 0)
        return 0;
    zip_discard(export->archive);
    return rc;
}

int skill_zip_export(struct skill_scope *scope, const char *name, int fd, struct error *err)
{
    struct package *package;
    struct zip_sink sink = {.fd = fd};
    cleanup_close int root = scope_open(scope, err);
    if (root < 0 || scope_require(scope, root, name, &package, err) < 0)
        return -1;
    cleanup_close int dir = package_open(root, package, err);
    struct export export = {.package = dir, .top = strrchr(package->skill.package_root, '/') + 1};
    zip_error_init(&sink.error);
    int rc = dir < 0 ? -1 : export_package(&export, &sink, err);
    zip_error_fini(&sink.error);
    package_unref(package);
    return rc;
}
