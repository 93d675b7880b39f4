/* SPDX-License-Identifier: Apache-2.0 */
/* The search for packages. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "core/fd.h"
#include "skills/beneath.h"
#include "skills/package.h"
#include "skills/stage.h"

struct place {
    char *path;
    unsigned depth;
};

struct search {
    int base;
    unsigned max_depth;
    unsigned flags;
    struct place *queue;
    size_t head;
    size_t count;
    size_t room;
    struct found_list found;
};

void found_release(struct found_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].path);
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

/* Without opening the directory: of a thousand packages most have not changed. */
static bool find_entry(struct search *search, const char *path, struct found *ret)
{
    static const char *const names[] = {ENTRY_FILE, "skill.md"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        cleanup_free char *entry = xasprintf("%s%s%s", path, *path ? "/" : "", names[i]);
        struct found found = {.entry_file = names[i]};
        if (fstatat(search->base, entry, &found.entry, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        found.by_link = S_ISLNK(found.entry.st_mode);
        if (found.by_link) {
            cleanup_close int dir =
                beneath_open_plain(search->base, *path ? path : ".", O_PATH | O_DIRECTORY);
            if (dir < 0 || beneath_stat(dir, names[i], &found.entry) < 0)
                continue;
        }
        if (S_ISREG(found.entry.st_mode)) {
            *ret = found;
            return true;
        }
    }
    return false;
}

static int add_found(struct search *search, struct found found, const char *path, struct error *err)
{
    struct found_list *list = &search->found;
    if (list->count == SKILL_COUNT_MAX)
        return error_set(err, ERROR_LIMIT, "there are more than %d skills", SKILL_COUNT_MAX);
    if ((list->count & (list->count - 1)) == 0)
        list->items =
            xreallocarray(list->items, list->count ? list->count * 2 : 1, sizeof *list->items);
    found.path = xstrdup(path);
    list->items[list->count++] = found;
    return 0;
}

/* Whether to go into it. */
static bool is_searched(struct search *search, const struct place *place,
                        const struct beneath_name *name)
{
    if (place->depth > 0 || !(search->flags & DISCOVER_STORE))
        return name->type == DT_DIR;
    if (stage_is_name(name->name)) {
        strings_add(&search->found.stages, name->name);
        return false;
    }
    if ((search->flags & DISCOVER_NO_TENANTS) && strcmp(name->name, "tenants") == 0)
        return false;
    return name->type == DT_DIR;
}

static int search_place(struct search *search, const struct place *place, struct error *err)
{
    cleanup_names struct beneath_names names = {NULL, 0};
    const char *path = place->path;
    cleanup_close int dir =
        beneath_open_plain(search->base, *path ? path : ".", O_RDONLY | O_DIRECTORY);
    if (dir < 0)
        return 0; /* gone, or not ours to see */
    int rc = beneath_list(dir, SKILL_SCAN_MAX - search->found.scanned, &names);
    if (rc == -E2BIG)
        return error_set(err, ERROR_LIMIT, "more than %d entries to search for skills",
                         SKILL_SCAN_MAX);
    search->found.scanned += names.count;
    for (size_t i = 0; i < names.count; i++) {
        if (!is_searched(search, place, &names.items[i]))
            continue;
        enqueue(search, xasprintf("%s%s%s", path, *path ? "/" : "", names.items[i].name),
                place->depth + 1);
    }
    return 0;
}

static int search_all(struct search *search, struct error *err)
{
    for (; search->head < search->count; search->head++) {
        /* The queue may move while it is worked on. */
        struct place place = search->queue[search->head];
        struct found found;
        int rc = 0;
        if (find_entry(search, place.path, &found))
            rc = add_found(search, found, place.path, err);
        else if (place.depth < search->max_depth)
            rc = search_place(search, &place, err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int packages_discover(int base, unsigned max_depth, unsigned flags, struct found_list *ret,
                      struct error *err)
{
    struct search search = {.base = base, .max_depth = max_depth, .flags = flags};
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
