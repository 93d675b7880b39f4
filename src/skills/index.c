/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a scope's packages.

   Each search walks the directories and compares the stamps of each package with those of the last
   time; only what differs is read. So a list costs two stats for each skill, and needs no watches
   that could run out. A search runs under a shared lock on the root, which publishing several
   packages takes exclusively; a search that would have to wait for that gives what was known
   before. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/fd.h"
#include "skills/beneath.h"
#include "skills/store.h"

void index_unref(struct index *index)
{
    if (!index || atomic_fetch_sub(&index->refs, 1) > 1)
        return;
    for (size_t i = 0; i < index->package_count; i++)
        package_unref(index->packages[i]);
    free(index->packages);
    free(index->skills);
    free(index);
}

/* The latest, a number for a search that begins now, and whether it should not: shared locks that
   overlap would keep an exclusive one waiting for ever. */
static struct index *index_latest(struct skill_scope *scope, uint64_t *ret_ticket,
                                  bool *ret_publishing)
{
    pthread_mutex_lock(&scope->lock);
    struct index *index = scope->index;
    if (index)
        atomic_fetch_add(&index->refs, 1);
    *ret_ticket = ++scope->tickets;
    *ret_publishing = scope->publishing;
    pthread_mutex_unlock(&scope->lock);
    return index;
}

/* Keeps it for the next search, unless one that began later has come before. */
static void index_keep(struct skill_scope *scope, struct index *index, bool differs)
{
    struct index *old = NULL;
    pthread_mutex_lock(&scope->lock);
    if (!scope->index || scope->index->ticket < index->ticket) {
        old = scope->index;
        scope->index = index;
        atomic_fetch_add(&index->refs, 1);
        scope->generation += differs;
    }
    pthread_mutex_unlock(&scope->lock);
    index_unref(old);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp((*(struct package *const *)a)->path, (*(struct package *const *)b)->path);
}

static struct package *find_path(const struct index *index, const char *path)
{
    size_t low = 0;
    size_t high = index ? index->package_count : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(index->packages[middle]->path, path);
        if (order == 0)
            return index->packages[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* A stable insertion into what is sorted: newest first, and of the same age as found. */
static void sort_by_age(struct package **skills, size_t count)
{
    if (count < 2)
        return;
    size_t half = count / 2;
    sort_by_age(skills, half);
    sort_by_age(skills + half, count - half);
    cleanup_free struct package **merged = xcalloc(count, sizeof(struct package *));
    size_t left = 0;
    size_t right = half;
    for (size_t i = 0; i < count; i++) {
        bool take_right = left == half || (right < count && skills[right]->skill.updated_us >
                                                                skills[left]->skill.updated_us);
        merged[i] = take_right ? skills[right++] : skills[left++];
    }
    memcpy(skills, merged, count * sizeof(struct package *));
}

static struct package *load_or_reuse(struct skill_scope *scope, int root, const struct found *found,
                                     const struct index *old, bool *differs)
{
    struct package *known = find_path(old, found->path);
    if (known && package_is_current(known, root, found))
        return package_ref(known);
    struct package *package = NULL;
    *differs = true;
    if (package_load(root, scope->path, found->path, found->entry_file, &package, NULL) == 0)
        return package;
    return package_broken(root, found);
}

static struct index *build(struct skill_scope *scope, int root, const struct found_list *found,
                           const struct index *old, bool *ret_differs)
{
    struct index *index = xcalloc(1, sizeof *index);
    size_t room = found->count ? found->count : 1;
    bool differs = !old || old->package_count != found->count;
    index->refs = 1;
    index->packages = xcalloc(room, sizeof *index->packages);
    index->skills = xcalloc(room, sizeof *index->skills);
    index->scanned = found->scanned;
    for (size_t i = 0; i < found->count; i++) {
        struct package *package = load_or_reuse(scope, root, &found->items[i], old, &differs);
        index->packages[index->package_count++] = package;
        if (!package->broken)
            index->skills[index->count++] = package;
    }
    sort_by_age(index->skills, index->count);
    if (index->package_count > 0)
        qsort(index->packages, index->package_count, sizeof *index->packages, compare_paths);
    *ret_differs = differs;
    return index;
}

/* Finishes or removes what is left over. True: something was finished, and there is more to find.
 */
static bool recover(int root, const struct strings *stages)
{
    bool committed = false;
    for (size_t i = 0; i < stages->count; i++)
        committed = stage_recover(root, stages->items[i], false) || committed;
    if (!committed)
        return false;
    flock(root, LOCK_EX);
    for (size_t i = 0; i < stages->count; i++)
        stage_recover(root, stages->items[i], true);
    flock(root, LOCK_SH);
    return true;
}

static int search(struct skill_scope *scope, int root, const struct index *old, struct index **ret,
                  bool *ret_differs, struct error *err)
{
    unsigned flags = DISCOVER_STORE | (scope->tenant ? 0 : DISCOVER_NO_TENANTS);
    bool again = false;
    do {
        cleanup_found struct found_list found = {.items = NULL};
        if (packages_discover(root, DISCOVERY_DEPTH, flags, &found, err) < 0)
            return -1;
        again = !again && recover(root, &found.stages);
        if (!again)
            *ret = build(scope, root, &found, old, ret_differs);
    } while (again);
    return 0;
}

int scope_index(struct skill_scope *scope, int root, bool wait, struct index **ret,
                struct error *err)
{
    uint64_t ticket;
    bool publishing;
    bool differs = false;
    struct index *index = NULL;
    cleanup_index struct index *old = index_latest(scope, &ticket, &publishing);
    if (publishing && old && !wait) {
        *ret = steal_ptr(old);
        return 0;
    }
    if (flock(root, LOCK_SH | (old && !wait ? LOCK_NB : 0)) < 0) {
        if (errno != EWOULDBLOCK)
            return error_errno(err, errno, "cannot lock the skill store");
        *ret = steal_ptr(old);
        return 0;
    }
    int rc = search(scope, root, old, &index, &differs, err);
    flock(root, LOCK_UN);
    if (rc < 0)
        return -1;
    index->ticket = ticket;
    index_keep(scope, index, differs);
    *ret = index;
    return 0;
}

struct package *index_find(const struct index *index, const char *name)
{
    for (size_t i = 0; i < index->count; i++) {
        if (strcmp(index->skills[i]->skill.name, name) == 0)
            return index->skills[i];
    }
    return NULL;
}

int scope_require(struct skill_scope *scope, int root, const char *name, struct package **ret,
                  struct error *err)
{
    cleanup_index struct index *index = NULL;
    if (scope_index(scope, root, false, &index, err) < 0)
        return -1;
    struct package *package = index_find(index, name);
    if (!package)
        return error_set(err, ERROR_NOT_FOUND, "there is no skill '%.100s'", name);
    *ret = package_ref(package);
    return 0;
}

int package_open(int root, const struct package *package, struct error *err)
{
    int dir =
        beneath_open_plain(root, *package->path ? package->path : ".", O_RDONLY | O_DIRECTORY);
    if (dir < 0)
        return error_errno(err, -dir, "cannot open the skill's directory");
    return dir;
}

/* --- what the store tells --- */

int skill_list(struct skill_scope *scope, struct skill_list *ret, struct error *err)
{
    cleanup_index struct index *index = NULL;
    cleanup_close int root = scope_open(scope, err);
    size_t bytes = 0;
    if (root < 0 || scope_index(scope, root, false, &index, err) < 0)
        return -1;
    for (size_t i = 0; i < index->count; i++)
        bytes += index->skills[i]->text_bytes;
    if (bytes > SKILL_LIST_TEXT_MAX)
        return error_set(err, ERROR_LIMIT, "the skills have more than %u bytes of text together",
                         SKILL_LIST_TEXT_MAX);
    ret->items = xcalloc(index->count ? index->count : 1, sizeof *ret->items);
    ret->count = index->count;
    for (size_t i = 0; i < index->count; i++)
        ret->items[i] = &package_ref(index->skills[i])->skill;
    return 0;
}

int skill_get(struct skill_scope *scope, const char *name, const struct skill **ret,
              struct error *err)
{
    struct package *package;
    cleanup_close int root = scope_open(scope, err);
    if (root < 0 || scope_require(scope, root, name, &package, err) < 0)
        return -1;
    *ret = &package->skill;
    return 0;
}

int skill_resolve(struct skill_scope *scope, const char *name, char **ret_path, struct error *err)
{
    struct package *package;
    cleanup_close int root = scope_open(scope, err);
    if (root < 0 || scope_require(scope, root, name, &package, err) < 0)
        return -1;
    cleanup_close int dir = package_open(root, package, err);
    if (dir >= 0)
        *ret_path = xstrdup(package->skill.package_root);
    package_unref(package);
    return dir < 0 ? -1 : 0;
}
