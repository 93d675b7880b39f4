/* SPDX-License-Identifier: Apache-2.0 */
/* The search for packages.

   A directory is opened once: its names say whether it is a package, and then it is read while it
   is open. A package that is known, and whose stamps are as they were, is not even opened.

   What is too much to search is found as far as it goes. Sessions may fill packages that are
   mounted writable; those of others beside them must not get lost by that. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "core/fd.h"
#include "skills/beneath.h"
#include "skills/glance.h"
#include "skills/package.h"
#include "skills/stage.h"
#include "skills/watch.h"

struct place {
    char *path;
    unsigned depth;
};

struct search {
    const struct discovery *how;
    struct place *queue;
    size_t head;
    size_t count;
    size_t room;
    struct found_list found;
};

void found_release(struct found_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].path);
        package_unref(list->items[i].package);
    }
    free(list->items);
    strings_release(&list->stages);
    *list = (struct found_list){.items = NULL};
}

static void enqueue(struct search *search, char *path, unsigned depth)
{
    if (search->count == search->room) {
        search->room = search->room ? search->room * 2 : 64;
        search->queue = xreallocarray(search->queue, search->room, sizeof *search->queue);
    }
    search->queue[search->count++] = (struct place){.path = path, .depth = depth};
}

static const char *or_dot(const char *path)
{
    return *path ? path : ".";
}

/* Takes the path and the package. */
static void add_found(struct search *search, const struct found *found)
{
    struct found_list *list = &search->found;
    const struct package *package = found->package;
    if ((list->count & (list->count - 1)) == 0)
        list->items =
            xreallocarray(list->items, list->count ? list->count * 2 : 1, sizeof *list->items);
    list->items[list->count++] = *found;
    /* What a link leads to, and what has another name elsewhere, changes unseen. */
    if (package && (package->by_link || package->entry.st_nlink > 1))
        list->unwatchable = true;
    if (list->count > SKILL_COUNT_MAX)
        list->end = SEARCH_SKILLS;
}

/* --- what is known --- */

static struct package *known_at(const struct discovery *how, const char *path)
{
    size_t low = 0;
    size_t high = how->known_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(how->known[middle]->path, path);
        if (order == 0)
            return how->known[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* The directory as it is while it is watched. */
static bool stat_watched(const struct discovery *how, const char *path, struct stat *ret)
{
    if (fstatat(how->base, or_dot(path), ret, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (!how->watch || watch_covers(how->watch, ret))
        return true;
    cleanup_close int dir = beneath_open_plain(how->base, or_dot(path), O_PATH | O_DIRECTORY);
    if (dir < 0 || fstat(dir, ret) < 0)
        return false;
    watch_add(how->watch, dir, ret);
    return fstat(dir, ret) == 0;
}

static bool is_current(const struct discovery *how, const struct package *package)
{
    struct stat dir;
    struct stat entry;
    return package->settled && !package->by_link && stat_watched(how, package->path, &dir) &&
           fstatat(how->base, package->entry_path, &entry, AT_SYMLINK_NOFOLLOW) == 0 &&
           package_is_current(package, &dir, &entry);
}

/* --- what is not --- */

/* Whether to go into it. */
static bool is_searched(struct search *search, const struct place *place,
                        const struct beneath_name *name)
{
    if (place->depth > 0 || !(search->how->flags & DISCOVER_STORE))
        return name->type == DT_DIR;
    if (stage_is_name(name->name)) {
        if (stage_is_temporary(name->name))
            strings_add(&search->found.stages, name->name);
        return false;
    }
    if ((search->how->flags & DISCOVER_NO_TENANTS) && strcmp(name->name, "tenants") == 0)
        return false;
    return name->type == DT_DIR;
}

/* What there were no means to look at may be a skill all the same. */
static int check_means(int errnum, struct error *err)
{
    if (errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM)
        return error_errno(err, errnum, "cannot search the skill store");
    return 0;
}

/* Gone, or not ours to see. */
static int not_seen(struct search *search, int errnum, struct error *err)
{
    if (check_means(errnum, err) < 0)
        return -1;
    if (errnum != ENOENT && errnum != ENOTDIR && errnum != ELOOP)
        search->found.unwatchable = true;
    return 0;
}

static int search_place(struct search *search, const struct place *place, int dir,
                        struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    const char *path = place->path;
    if (search->found.end != SEARCH_WHOLE)
        return 0; /* each could be as large again: what is known to be there is enough */
    int rc = beneath_list(dir, SKILL_SCAN_MAX - search->found.scanned, &names);
    if (rc == -E2BIG) {
        search->found.end = SEARCH_ENTRIES;
        return 0;
    }
    if (rc < 0)
        return not_seen(search, -rc, err);
    search->found.scanned += names.count;
    for (size_t i = 0; i < names.count; i++) {
        if (!is_searched(search, place, &names.items[i]))
            continue;
        enqueue(search, xasprintf("%s%s%s", path, *path ? "/" : "", names.items[i].name),
                place->depth + 1);
    }
    return 0;
}

static int take_package(struct search *search, const struct package_source *source,
                        struct error *err)
{
    struct error failure = ERROR_INIT;
    struct found found = {.entry_file = source->glance->entry_file, .changed = true};
    if (search->how->base_path && package_read(source, &found.package, &failure) < 0) {
        if (check_means(failure.errnum, err) < 0)
            return -1;
        found.package = package_broken(source);
        /* What could not be read now may be readable the next time, unchanged. */
        if (failure.errnum != 0) {
            found.package->settled = false;
            search->found.unwatchable = true;
        }
    }
    found.path = xstrdup(source->path);
    add_found(search, &found);
    return 0;
}

static int open_place(struct search *search, const struct place *place, struct error *err)
{
    const struct discovery *how = search->how;
    struct stat st;
    struct glance glance;
    cleanup_close int dir =
        beneath_open_plain(how->base, or_dot(place->path), O_RDONLY | O_DIRECTORY);
    if (dir < 0)
        return not_seen(search, -dir, err);
    if (fstat(dir, &st) < 0)
        return not_seen(search, errno, err);
    if (how->watch && !watch_covers(how->watch, &st)) {
        watch_add(how->watch, dir, &st);
        fstat(dir, &st);
    }
    int rc = glance_at(dir, &glance);
    if (rc < 0)
        return not_seen(search, -rc, err);
    if (glance.entry_file) {
        const struct package_source source = {
            .dir = dir,
            .stamp = &st,
            .base_path = how->base_path,
            .path = place->path,
            .glance = &glance,
        };
        return take_package(search, &source, err);
    }
    return place->depth < how->max_depth ? search_place(search, place, dir, err) : 0;
}

static int search_all(struct search *search, struct error *err)
{
    for (; search->head < search->count && search->found.end != SEARCH_SKILLS; search->head++) {
        /* The queue may move while it is worked on. */
        struct place place = search->queue[search->head];
        struct package *known = known_at(search->how, place.path);
        if (known && is_current(search->how, known)) {
            const struct found found = {.path = xstrdup(place.path),
                                        .entry_file = known->skill.entry_file,
                                        .package = package_ref(known)};
            add_found(search, &found);
        } else if (open_place(search, &place, err) < 0) {
            return -1;
        }
    }
    return 0;
}

int packages_read(const struct discovery *how, struct found_list *ret, struct error *err)
{
    struct search search = {.how = how};
    enqueue(&search, xstrdup(""), 0);
    int rc = search_all(&search, err);
    for (size_t i = 0; i < search.count; i++)
        free(search.queue[i].path);
    free(search.queue);
    if (rc < 0) {
        found_release(&search.found);
        return -1;
    }
    *ret = search.found;
    return 0;
}

int packages_check_end(enum search_end end, struct error *err)
{
    if (end == SEARCH_WHOLE)
        return 0;
    if (end == SEARCH_SKILLS)
        error_set(err, ERROR_LIMIT, "there are more than %d skills", SKILL_COUNT_MAX);
    else
        error_set(err, ERROR_LIMIT, "more than %d entries to search for skills", SKILL_SCAN_MAX);
    return -1;
}

int packages_discover(int base, unsigned max_depth, unsigned flags, struct found_list *ret,
                      struct error *err)
{
    const struct discovery how = {.base = base, .max_depth = max_depth, .flags = flags};
    cleanup_found struct found_list found = {.items = NULL};
    if (packages_read(&how, &found, err) < 0 || packages_check_end(found.end, err) < 0)
        return -1;
    *ret = found;
    found = (struct found_list){.items = NULL};
    return 0;
}
