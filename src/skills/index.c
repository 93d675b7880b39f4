/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a scope's packages.

   As long as the scope's watch has nothing to tell, what is known is the answer. Otherwise the
   directories are walked, and the stamps of each package compared with those of the last time: two
   stats for each skill, and only what differs is read. A search runs under a shared lock on the
   root, which publishing several packages takes exclusively; a search that would have to wait for
   that gives what was known before.

   Searches that use the watch come one after the other, because it follows what one of them sees;
   who waited for another usually finds his answer made. Nobody waits for the root's lock meanwhile:
   it is taken before, and what has to wait for it once more, recovery, comes after. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/fd.h"
#include "skills/beneath.h"
#include "skills/store.h"
#include "skills/watch.h"

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

/* The latest, and whether no search should begin: shared locks that overlap would keep an exclusive
   one waiting for ever. */
static struct index *index_latest(struct skill_scope *scope, bool *ret_publishing)
{
    pthread_mutex_lock(&scope->lock);
    struct index *index = scope->index;
    if (index)
        atomic_fetch_add(&index->refs, 1);
    if (ret_publishing)
        *ret_publishing = scope->publishing;
    pthread_mutex_unlock(&scope->lock);
    return index;
}

/* A number for a search that begins now. */
static uint64_t take_ticket(struct skill_scope *scope)
{
    pthread_mutex_lock(&scope->lock);
    uint64_t ticket = ++scope->tickets;
    pthread_mutex_unlock(&scope->lock);
    return ticket;
}

/* Keeps it for the next search, unless one that began later has come before. */
static void index_keep(struct skill_scope *scope, struct index *index, bool differs)
{
    struct index *old = NULL;
    pthread_mutex_lock(&scope->lock);
    if (index->ticket > scope->forgotten &&
        (!scope->index || scope->index->ticket < index->ticket)) {
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

/* Takes the packages. */
static struct index *build(struct found_list *found, const struct index *old, bool *ret_differs)
{
    struct index *index = xcalloc(1, sizeof *index);
    size_t room = found->count ? found->count : 1;
    bool differs = !old || old->package_count != found->count;
    index->refs = 1;
    index->packages = xcalloc(room, sizeof *index->packages);
    index->skills = xcalloc(room, sizeof *index->skills);
    index->scanned = found->scanned;
    index->end = found->end;
    for (size_t i = 0; i < found->count; i++) {
        struct package *package = steal_ptr(found->items[i].package);
        differs = differs || found->items[i].changed;
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

struct search_state {
    struct skill_scope *scope;
    int root;
    uint64_t ticket;
    const struct index *old;
    struct watch *watch; /* NULL: none, or done with */
};

static int walk(const struct search_state *state, struct found_list *ret, struct error *err)
{
    const struct discovery how = {
        .base = state->root,
        .max_depth = DISCOVERY_DEPTH,
        .flags = DISCOVER_STORE | (state->scope->tenant ? 0 : DISCOVER_NO_TENANTS),
        .base_path = state->scope->path,
        .known = state->old ? state->old->packages : NULL,
        .known_count = state->old ? state->old->package_count : 0,
        .watch = state->watch,
    };
    return packages_read(&how, ret, err);
}

/* Somebody holds what is being made: no event tells when he lets go of it, or dies. Nor of what was
   not looked at. */
static enum watch_end what_for_watch(int rc, const struct found_list *found)
{
    if (rc < 0 || found->stages.count > 0 || found->end != SEARCH_WHOLE)
        return WATCH_UNSETTLED;
    return found->unwatchable ? WATCH_USELESS : WATCH_COMPLETE;
}

static void leave_watch(struct search_state *state)
{
    state->watch = NULL;
    pthread_mutex_unlock(&state->scope->watching);
}

/* One walk. The first of a search has the watch, which is left then. */
static int look(struct search_state *state, struct found_list *ret, struct error *err)
{
    int rc = walk(state, ret, err);
    if (state->watch) {
        watch_end(state->watch, what_for_watch(rc, ret), state->ticket);
        leave_watch(state);
    }
    return rc;
}

static struct index *search(struct search_state *state, struct error *err)
{
    cleanup_found struct found_list found = {.items = NULL};
    bool differs;
    if (look(state, &found, err) < 0)
        return NULL;
    if (recover(state->root, &found.stages)) {
        found_release(&found);
        if (look(state, &found, err) < 0)
            return NULL;
    }
    struct index *index = build(&found, state->old, &differs);
    index->ticket = state->ticket;
    index_keep(state->scope, index, differs);
    return index;
}

/* What is there now, under the shared lock. */
static struct index *index_now(struct skill_scope *scope, int root, struct error *err)
{
    pthread_mutex_lock(&scope->watching);
    struct search_state state = {.scope = scope, .root = root, .watch = &scope->watch};
    cleanup_index struct index *old = index_latest(scope, NULL);
    if (old && watch_vouches(state.watch, root, old->ticket)) {
        leave_watch(&state);
        return steal_ptr(old);
    }
    state.old = old;
    state.ticket = take_ticket(scope);
    if (!old || old->package_count < WATCH_FROM || !watch_begin(state.watch, root))
        leave_watch(&state);
    return search(&state, err);
}

int scope_index(struct skill_scope *scope, int root, bool wait, struct index **ret,
                struct error *err)
{
    bool publishing;
    cleanup_index struct index *old = index_latest(scope, &publishing);
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
    struct index *index = index_now(scope, root, err);
    flock(root, LOCK_UN);
    if (!index)
        return -1;
    *ret = index;
    return 0;
}

int index_check_whole(const struct index *index, struct error *err)
{
    if (packages_check_end(index->end, err) < 0)
        return error_hint(err, "delete skills, or directories directly under the store by name");
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

struct package *index_require(const struct index *index, const char *name, struct error *err)
{
    struct package *package = index_find(index, name);
    if (!package)
        error_set(err, ERROR_NOT_FOUND, "there is no skill '%.100s'", name);
    return package;
}

int scope_require(struct skill_scope *scope, int root, const char *name, struct package **ret,
                  struct error *err)
{
    cleanup_index struct index *index = NULL;
    if (scope_index(scope, root, false, &index, err) < 0)
        return -1;
    struct package *package = index_require(index, name, err);
    if (!package)
        return -1;
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
    if (root < 0 || scope_index(scope, root, false, &index, err) < 0 ||
        index_check_whole(index, err) < 0)
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
