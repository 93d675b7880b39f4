/* SPDX-License-Identifier: Apache-2.0 */
/* Packages: finding them below a directory, and reading one. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/mem.h"
#include "skills/glance.h"
#include "skills/skills.h"

struct watch;

#define ENTRY_FILE "SKILL.md"

/* A package that was read. `skill` is first, so that one can be made of the other. */
struct package {
    struct skill skill;
    atomic_uint refs;
    char *path;       /* below where it was searched */
    char *entry_path; /* likewise, of its entry file */
    bool broken;      /* it is one, but cannot be read: `skill` is empty */
    bool by_link;     /* its entry file is a link */
    struct stat dir;  /* as they were when it was read */
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
    struct package *package; /* if they were to be read; maybe a broken one */
    bool changed;            /* it was not known so */
};

/* How far a search came. */
enum search_end {
    SEARCH_WHOLE,
    SEARCH_SKILLS,  /* there are more than SKILL_COUNT_MAX */
    SEARCH_ENTRIES, /* or more than SKILL_SCAN_MAX to be looked at */
};

struct found_list {
    struct found *items;
    size_t count;
    size_t scanned; /* entries looked at */
    enum search_end end;
    struct strings stages; /* seen on the way, if they are not to be searched */
    bool unwatchable;      /* there is something that may change without an event */
};

void found_release(struct found_list *list);
#define cleanup_found __attribute__((cleanup(found_release)))

enum discover_flags {
    DISCOVER_STORE = 1 << 0,      /* stages directly below are not searched, but listed */
    DISCOVER_NO_TENANTS = 1 << 1, /* neither is "tenants" */
};

/* A search. Breadth first, by name, not into packages, following no links. */
struct discovery {
    int base;
    unsigned max_depth;
    unsigned flags;
    const char *base_path; /* where `base` is, for people and mounts; NULL: nothing is read */
    struct package *const *known; /* by path: those that are as they were are not read again */
    size_t known_count;
    struct watch *watch; /* what covers each directory before it is looked at; NULL: none */
};

/* As much as the limits allow: those nearest to `base` are found in any case. */
int packages_read(const struct discovery *how, struct found_list *ret, struct error *err);
/* ERROR_LIMIT if it was not all. */
int packages_check_end(enum search_end end, struct error *err);
/* Only where they are, and all of them. */
int packages_discover(int base, unsigned max_depth, unsigned flags, struct found_list *ret,
                      struct error *err);
/* What the entry file of a directory is called; NULL: it has none. */
const char *package_entry(int dir);

/* A package's directory that is open. */
struct package_source {
    int dir;
    const struct stat *stamp; /* of it */
    const char *base_path;
    const char *path; /* below that */
    const struct glance *glance;
};

int package_read(const struct package_source *source, struct package **ret, struct error *err);
/* One that stays broken until it changes, so that it is not read each time. */
struct package *package_broken(const struct package_source *source);
/* The same as package_read() of one that is not open yet. */
int package_load(int base, const char *base_path, const char *path, const char *entry_file,
                 struct package **ret, struct error *err);
/* Whether it is what would be read again, by the stamps of its directory and entry file. */
bool package_is_current(const struct package *package, const struct stat *dir,
                        const struct stat *entry);
/* The same skill under another root and with a source path, for previews. */
struct package *package_moved(const struct package *package, const char *package_root,
                              const char *source_path);
