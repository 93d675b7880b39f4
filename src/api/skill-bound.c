/* SPDX-License-Identifier: Apache-2.0 */
/* What bounds a scope of the skill store.

     UNKNOWN ──► ASKING ──► NONE, HARD, COUNTED, FAILED ──► (another quota, or FAILED) ASKING

   Asking takes two steps off the loop: the scope's directory is made, by a thread of the pool; then
   the backend's privileged half limits it.

   The count is in bytes of files, the hard limit in blocks, and the two must not contradict each
   other: whatever the count allows can be stored. So there is room on top of the quota for what
   each entry costs beyond its bytes (a last block that is not full, or a directory's own, and its
   name), and for the second copy of a file that is being changed. The number of entries is bounded
   by both, or there would be no end to what they cost. */
#include "api/skill-bound.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"

#define BYTES_AN_ENTRY 16384u /* as of a workspace: one entry for so many bytes of quota … */
#define ENTRIES_MORE   576u   /* … and these, for an archive (512) and its stage */
#define ENTRY_COST     (4096u + 512u)
#define STAGE_ENTRIES  8u /* the scope itself, a stage, what is in it, a journal */
#define STAGE_BYTES    (2 * SKILL_TEXT_MAX)
#define BOUNDS_KEPT    1024u
/* What failed is left alone for a while: trying may mean to look at every file of a store. */
#define RETRY_NS UINT64_C(60000000000)

struct question {
    uv_work_t work;
    struct store *store;
    struct bound *bound;
    const struct bound_asker *asker;
    struct error err; /* of making the directory */
};

static uint64_t quota_entries(uint64_t quota_bytes)
{
    return quota_bytes / BYTES_AN_ENTRY + ENTRIES_MORE;
}

/* --- stores --- */

/* Each tenant's as much as the whole of who has no tenancy. */
static void allowance(void *data, const char *tenant, struct skill_room *ret)
{
    struct store *store = data;
    uint64_t quota = atomic_load(&store->quota_bytes);
    (void)tenant;
    ret->bytes = quota > 0 ? quota : UINT64_MAX;
    ret->entries = quota > 0 ? quota_entries(quota) : UINT64_MAX;
}

struct store *store_open(const char *root, uint64_t quota_bytes)
{
    struct store *store = xcalloc(1, sizeof *store);
    const struct skill_store_options options = {
        .root = root, .allowance = allowance, .data = store};
    store->holds = 1;
    atomic_init(&store->quota_bytes, quota_bytes);
    TAILQ_INIT(&store->bounds);
    store->store = skill_store_open(&options, &store->err);
    if (!store->store)
        log_error(LOG_WARN, "no_skill_store", &store->err);
    return store;
}

struct store *store_hold(struct store *store)
{
    if (store)
        store->holds++;
    return store;
}

static void bound_free(struct bound *bound)
{
    free(bound->tenant);
    free(bound);
}

void store_drop(struct store *store)
{
    if (!store || --store->holds > 0)
        return;
    for (struct bound *bound = TAILQ_FIRST(&store->bounds), *next; bound; bound = next) {
        next = TAILQ_NEXT(bound, link);
        bound_free(bound);
    }
    if (store->store)
        skill_store_close(store->store);
    free(store);
}

/* --- what is known --- */

static bool is_of(const struct bound *bound, const char *tenant)
{
    return tenant && bound->tenant ? strcmp(bound->tenant, tenant) == 0 : bound->tenant == tenant;
}

/* Whose turn it was the longest time ago. Should it come back, it is asked for again. */
static void forget_one(struct store *store)
{
    struct bound *bound = TAILQ_LAST(&store->bounds, bounds);
    while (bound && bound->state == BOUND_ASKING)
        bound = TAILQ_PREV(bound, bounds, link);
    if (!bound)
        return;
    TAILQ_REMOVE(&store->bounds, bound, link);
    store->bound_count--;
    bound_free(bound);
}

struct bound *bound_find(struct store *store, const char *tenant)
{
    struct bound *bound = TAILQ_FIRST(&store->bounds);
    while (bound && !is_of(bound, tenant))
        bound = TAILQ_NEXT(bound, link);
    if (bound) {
        TAILQ_REMOVE(&store->bounds, bound, link);
    } else {
        if (store->bound_count >= BOUNDS_KEPT)
            forget_one(store);
        bound = xcalloc(1, sizeof *bound);
        bound->tenant = tenant ? xstrdup(tenant) : NULL;
        store->bound_count++;
    }
    TAILQ_INSERT_HEAD(&store->bounds, bound, link);
    return bound;
}

enum bound_state bound_state(const struct store *store, const struct bound *bound)
{
    if (bound->state != BOUND_ASKING && bound->quota_bytes != atomic_load(&store->quota_bytes))
        return BOUND_UNKNOWN;
    if (bound->state == BOUND_FAILED && clock_monotonic_ns() >= bound->retry_ns)
        return BOUND_UNKNOWN;
    return bound->state;
}

struct bound *bound_outdated(struct store *store)
{
    struct bound *bound = TAILQ_FIRST(&store->bounds);
    while (bound && (bound->state == BOUND_UNKNOWN || bound_state(store, bound) != BOUND_UNKNOWN))
        bound = TAILQ_NEXT(bound, link);
    return bound;
}

const char *bound_name(const struct store *store)
{
    if (atomic_load(&store->quota_bytes) == 0)
        return "none";
    switch (store->latest) {
    case BOUND_HARD:
        return "hard";
    case BOUND_COUNTED:
    case BOUND_FAILED:
        return "counted";
    default:
        return NULL;
    }
}

int bound_refuse(const struct bound *bound, struct error *err)
{
    *err = bound->err;
    err->code = ERROR_UNAVAILABLE;
    error_wrap(err, "no hard quota could be set on the skill store, and one is required");
    return err->hint[0] ? -1 : error_hint(err, "see boxd's log, or turn admission.required off");
}

/* --- asking --- */

/* Once for each reason, not for each tenant. */
static void tell_counted(struct store *store, const struct error *err)
{
    if (strcmp(store->told, err->message) == 0)
        return;
    memcpy(store->told, err->message, sizeof store->told);
    log_error(LOG_INFO, "skill_quota_counted", err);
}

static void tell_failed(const struct bound *bound, const struct error *err)
{
    if (strcmp(bound->err.message, err->message) != 0)
        log_error(LOG_WARN, "skill_quota_failed", err,
                  LOG_TEXT("tenant", bound->tenant ? bound->tenant : ""));
}

static void settle(struct store *store, struct bound *bound, const struct error *err)
{
    bool quota = bound->quota_bytes > 0;
    bool cannot = err && err->code == ERROR_UNSUPPORTED;
    bound->state = !quota ? BOUND_NONE : !err ? BOUND_HARD : cannot ? BOUND_COUNTED : BOUND_FAILED;
    if (cannot && quota)
        tell_counted(store, err);
    else if (err && !cannot)
        tell_failed(bound, err);
    bound->known = bound->known || bound->state == BOUND_HARD;
    bound->err = err ? *err : (struct error)ERROR_INIT;
    bound->retry_ns = clock_monotonic_ns() + RETRY_NS;
    store->latest = bound->state;
}

static void on_answer(void *data, const struct error *err)
{
    struct question *question = data;
    const struct bound_asker *asker = question->asker;
    if (asker->backend)
        settle(question->store, question->bound, err);
    store_drop(question->store);
    free(question);
    asker->done(asker->data);
}

static void make_directory(uv_work_t *work)
{
    struct question *question = work->data;
    cleanup_scope struct skill_scope *scope =
        skill_scope_get(question->store->store, question->bound->tenant, &question->err);
    if (scope)
        skill_scope_make(scope, &question->err);
}

static void on_made(uv_work_t *work, int status)
{
    struct question *question = work->data;
    struct backend *backend = question->asker->backend;
    uint64_t quota = question->bound->quota_bytes;
    uint64_t entries = quota_entries(quota) + STAGE_ENTRIES;
    const struct backend_bound limit = {
        .root = skill_store_root(question->store->store),
        .tenant = question->bound->tenant,
        .bytes = quota > 0 ? quota + entries * ENTRY_COST + STAGE_BYTES : 0,
        .inodes = quota > 0 ? entries : 0,
        .known = question->bound->known,
    };
    (void)status;
    if (question->err.code || !backend)
        on_answer(question, &question->err);
    else
        backend->ops->bound_store(backend, &limit, on_answer, question);
}

void bound_ask(struct store *store, struct bound *bound, const struct bound_asker *asker)
{
    struct question *question = xcalloc(1, sizeof *question);
    *question = (struct question){.store = store_hold(store), .bound = bound, .asker = asker};
    bound->state = BOUND_ASKING;
    bound->quota_bytes = atomic_load(&store->quota_bytes);
    question->work.data = question;
    uv_queue_work(asker->loop, &question->work, make_directory, on_made);
}
