/* SPDX-License-Identifier: Apache-2.0 */
/* Packages: finding them below a directory, and reading one. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/mem.h"
#include "skills/skills.h"

#define ENTRY_FILE "SKILL.md"

/* A package that was read. `skill` is first, so that one can be made of the other. */
struct package {
    struct skill skill;
    atomic_uint refs;
    char *path;      /* below where it was searched */
    bool broken;     /* it is one, but cannot be read: `skill` is empty */
    struct stat dir; /* as they were when it was read */
    struct stat entry;
    bool settled;      /* their times are old enough to show every later change */
    size_t text_bytes; /* of all its texts together */
    char *texts[7];    /* what `skill` points to */
};

struct package *package_ref(struct package *package);
void package_unref(struct package *package);

/* A directory that holds an entry file. */
struct found {
    char *path; /* "" is the directory itself */
    const char *entry_file;
    struct stat entry;
    bool by_link; /* the entry file is a link */
};

struct found_list {
    struct found *items;
    size_t count;
    size_t scanned;        /* entries looked at */
    struct strings stages; /* seen on the way, if they are not to be searched */
};

void found_release(struct found_list *list);
#define cleanup_found __attribute__((cleanup(found_release)))

enum discover_flags {
    DISCOVER_STORE = 1 << 0,      /* stages directly below are not searched, but listed */
    DISCOVER_NO_TENANTS = 1 << 1, /* neither is "tenants" */
};

/* Breadth first, by name, not into packages, following no links. */
int packages_discover(int base, unsigned max_depth, unsigned flags, struct found_list *ret,
                      struct error *err);
/* What the entry file of a directory is called; NULL: it has none. */
const char *package_entry(int dir);

/* `base_path` is where `base` is, for people and mounts. */
int package_load(int base, const char *base_path, const char *path, const char *entry_file,
                 struct package **ret, struct error *err);
/* One that stays broken until it changes, so that it is not read each time. */
struct package *package_broken(int base, const struct found *found);
/* Whether `package` is what `found` would give if it were read again. */
bool package_is_current(const struct package *package, int base, const struct found *found);
/* The same skill under another root and with a source path, for previews. */
struct package *package_moved(const struct package *package, const char *package_root,
                              const char *source_path);
