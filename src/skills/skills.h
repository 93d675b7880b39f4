/* SPDX-License-Identifier: Apache-2.0 */
/* The skill store: packages of procedures that agents learn from, each a directory with a SKILL.md.

   Everything here blocks on the disk and may be called from any thread. In one scope there is one
   writer at a time, across threads and processes; readers never wait for a writer, they see the
   store as it was before or as it is after. See docs/skills.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/mem.h"

#define SKILL_NAME_MAX      64 /* characters */
#define SKILL_TEXT_MAX      (1u << 20)
#define SKILL_LIST_TEXT_MAX (16u << 20)
#define SKILL_COUNT_MAX     1000
#define SKILL_SCAN_MAX      10000 /* entries looked at by a search */
#define SKILL_FILES_MAX     1000  /* entries of an answer */
#define SKILL_DIRECTORY_MAX 10000 /* entries of one directory */
#define SKILL_ARCHIVE_MAX   (20u << 20)
#define SKILL_EXPORT_MAX    (UINT64_C(1) << 30)
#define SKILL_FRONT_MAX     (64u << 10)
#define SKILL_FRONT_DEPTH   8
#define SKILL_NAMESPACE_MAX 128

/* --- the store and its scopes --- */

/* What a tenant may still take; UINT64_MAX is no limit. */
struct skill_room {
    uint64_t bytes;
    uint64_t entries;
};

struct skill_store_options {
    const char *root; /* absolute; made if it is not there */
    /* What all of a scope may hold (`tenant` NULL: of the store outside tenants). Called in the
       thread of whoever writes. NULL: no limit. */
    void (*allowance)(void *data, const char *tenant, struct skill_room *ret);
    void *data;
};

struct skill_store;
struct skill_scope;

struct skill_store *skill_store_open(const struct skill_store_options *options, struct error *err);
/* After the last scope was given back. */
void skill_store_close(struct skill_store *store);
/* Its directory, without links in it. */
const char *skill_store_root(const struct skill_store *store);

/* Everything below <root>/tenants/<tenant>, which is made on demand; with NULL everything below the
   root but its tenants. To be given back. */
struct skill_scope *skill_scope_get(struct skill_store *store, const char *tenant,
                                    struct error *err);
void skill_scope_put(struct skill_scope *scope);

static inline void skill_scope_put_p(struct skill_scope **scope)
{
    skill_scope_put(*scope);
}
#define cleanup_scope __attribute__((cleanup(skill_scope_put_p)))

/* Its directory, if it is not there yet. */
int skill_scope_make(struct skill_scope *scope, struct error *err);

/* Counts the differences that searches of this scope have found: if it stands still, nobody has
   seen a change. */
uint64_t skill_scope_generation(struct skill_scope *scope);
/* Forgets what is known of the scope: for whoever learns of changes that no time stamp shows. */
void skill_scope_changed(struct skill_scope *scope);

/* That a write found no room, by the store's quota or for `errnum` (0: none) of the kernel. */
int skill_error_full(int errnum, struct error *err);

/* --- skills --- */

#define SKILL_TIME_SIZE 40

/* One package. Shared and never changed; skill_unref() when done. All texts are UTF-8. */
struct skill {
    const char *name;
    const char *display_name;
    const char *description;
    const char *instructions; /* may hold NULs */
    size_t instructions_size;
    const char *package_root;
    const char *entry_file;
    const char *source_path; /* in the archive it came from; NULL: it came from none */
    bool python_project;
    int64_t created_us; /* since 1970 */
    int64_t updated_us;
    char created_at[SKILL_TIME_SIZE]; /* ISO 8601, in UTC; whole seconds have no fraction */
    char updated_at[SKILL_TIME_SIZE];
};

const struct skill *skill_ref(const struct skill *skill);
void skill_unref(const struct skill *skill); /* NULL: nothing */

struct skill_list {
    const struct skill **items;
    size_t count;
};

void skill_list_release(struct skill_list *list);
#define cleanup_skills __attribute__((cleanup(skill_list_release)))

/* Newest first. ERROR_LIMIT if there are more than can be searched: as for whatever adds to them.
 */
int skill_list(struct skill_scope *scope, struct skill_list *ret, struct error *err);
/* ERROR_NOT_FOUND if there is none of that name. */
int skill_get(struct skill_scope *scope, const char *name, const struct skill **ret,
              struct error *err);
/* The directory of a package, to be mounted. The caller frees. */
int skill_resolve(struct skill_scope *scope, const char *name, char **ret_path, struct error *err);

/* NULL: not given. What a client sent as another type is to be made into text before. */
struct skill_edit {
    const char *name;
    const char *display_name;
    const char *description;
    const char *instructions;
    const char *package_root; /* absolute */
};

/* With a package root inside the scope that package is adopted; with one outside it is copied in
   (not for tenants). Blank fields then keep what the package says. */
int skill_create(struct skill_scope *scope, const struct skill_edit *edit, const struct skill **ret,
                 struct error *err);
/* A field that is given replaces; a blank one empties. Name and package root may be repeated, not
   changed. */
int skill_update(struct skill_scope *scope, const char *name, const struct skill_edit *edit,
                 const struct skill **ret, struct error *err);
/* With everything else in the same directory directly under the root of the scope. While there is
   more than can be searched, also such a directory by its name. */
int skill_delete(struct skill_scope *scope, const char *name, struct error *err);
/* The one skill in `path` (absolute; in the scope, for a tenant), at most two levels down. */
int skill_scan(struct skill_scope *scope, const char *path, const struct skill **ret,
               struct error *err);

/* --- files of a skill: `path` is relative to its package --- */

struct skill_file {
    char *path;
    const char *name; /* the end of it */
    bool is_dir;
    uint64_t size; /* of a directory nothing */
};

struct skill_files {
    char *base_path;
    struct skill_file *items; /* by name */
    size_t count;
    bool truncated;
};

void skill_files_release(struct skill_files *files);
int skill_files_list(struct skill_scope *scope, const char *name, const char *path,
                     bool include_hidden, size_t max_entries, struct skill_files *ret,
                     struct error *err);

struct skill_text {
    char *path; /* in normal form */
    char *data; /* a NUL behind it */
    size_t size;
};

void skill_text_release(struct skill_text *text);
/* UTF-8 of at most SKILL_TEXT_MAX. */
int skill_file_read(struct skill_scope *scope, const char *name, const char *path,
                    struct skill_text *ret, struct error *err);
/* Any bytes, as many. */
int skill_file_load(struct skill_scope *scope, const char *name, const char *path,
                    struct skill_text *ret, struct error *err);
/* Any regular file, open for reading. */
int skill_file_open(struct skill_scope *scope, const char *name, const char *path, int *ret_fd,
                    uint64_t *ret_size, struct error *err);

/* Versions of a file, each by the SHA-256 of its bytes in lower-case hex. What is larger than
   SKILL_TEXT_MAX, or no file, is none of them. */
struct skill_versions {
    bool given;
    bool any; /* whatever is there */
    struct strings digests;
};

/* What must be so for a change to be made: otherwise ERROR_CHANGED. */
struct skill_condition {
    struct skill_versions match;      /* it is there, and one of these */
    struct skill_versions none_match; /* it is not there, or none of these */
};

/* At most SKILL_TEXT_MAX; directories on the way are made. `want` may be NULL. `ret_path` is the
   normal form, and the caller's to free. */
int skill_file_write(struct skill_scope *scope, const char *name, const char *path,
                     const char *data, size_t size, const struct skill_condition *want,
                     char **ret_path, struct error *err);
/* A file, or a directory with all that is in it; not the entry file. `want` may be NULL. */
int skill_file_remove(struct skill_scope *scope, const char *name, const char *path,
                      const struct skill_condition *want, struct error *err);

/* --- archives --- */

struct skill_archive {
    const void *data; /* NULL: read `fd`, from its beginning */
    size_t size;
    int fd;
    const char
        *filename; /* what it was called where it came from; the targets are named after it */
    const char *source_subdir;       /* NULL: none */
    const char *target_suffix;       /* NULL: "upload" */
    const char *const *source_paths; /* what to install, if there are several */
    size_t source_path_count;
};

/* What is in it, by source path, with the places where it would be installed. Leaves nothing. */
int skill_zip_preview(struct skill_scope *scope, const struct skill_archive *archive,
                      struct skill_list *ret, struct error *err);
/* All of the chosen ones, or none. */
int skill_zip_install(struct skill_scope *scope, const struct skill_archive *archive,
                      struct skill_list *ret, struct error *err);
/* The package as a zip archive, its directory's name on top, into a file open for reading and
   writing. */
int skill_zip_export(struct skill_scope *scope, const char *name, int fd, struct error *err);

/* --- validation: the published conventions, which are stricter than what the store accepts --- */

enum skill_severity {
    SKILL_WARNING, /* some readers will not like it */
    SKILL_ERROR,   /* against the conventions, or not readable at all */
};

struct skill_problem {
    enum skill_severity severity;
    unsigned line; /* of the entry file; 0: of none */
    char *what;
    char *fix;
};

struct skill_problems {
    struct skill_problem *items; /* by line */
    size_t count;
};

void skill_problems_release(struct skill_problems *problems);
/* A directory that is open; `name` is what it is called. Fails only if it cannot be read. */
int skill_validate_directory(int dir, const char *name, struct skill_problems *ret,
                             struct error *err);
int skill_validate(struct skill_scope *scope, const char *name, struct skill_problems *ret,
                   struct error *err);
