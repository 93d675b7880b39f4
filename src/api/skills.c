/* SPDX-License-Identifier: Apache-2.0 */
/* The skill store behind RPC and REST: jobs, and whose turn it is. */
#include "api/skills.h"

#include <stdatomic.h>
#include <string.h>

#include "api/internal.h"
#include "core/fd.h"
#include "core/log.h"

/* The pool has four threads, and records and large messages need one of them. A reader finds a
   place even while several tenants install. */
#define RUNNING_MAX 3
#define WRITING_MAX 2
/* What archives and texts that wait may take of memory, together. */
#define HELD_MAX (128u << 20)

/* A store that jobs may still be using after the configuration has another. */
struct store {
    struct skill_store *store; /* NULL: it could not be opened, and `err` says why */
    struct error err;
    atomic_uint_fast64_t quota_bytes; /* read by the pool's threads */
    unsigned holds;
};

struct job {
    TAILQ_ENTRY(job) link;
    uv_work_t work;
    struct skills *skills;
    struct store *store;
    struct skill_ask ask;
    size_t held; /* bytes of what is asked */
    struct skill_answer answer;
    int rc;
    struct error err;
    void (*done)(void *data, struct skill_answer *answer, const struct error *err);
    void *data;
};
TAILQ_HEAD(jobs, job);

struct skills {
    struct api *api;
    struct store *store; /* NULL: none is configured */
    char *root;
    char *scratch_dir; /* a copy: jobs may outlive the runtime */
    struct jobs waiting;
    struct jobs running;
    unsigned waiting_count;
    unsigned running_count;
    size_t held_bytes;
    bool stopped;
    bool freed;
};

static const bool writes[SKILL_VERB_MAX] = {
    [SKILL_VERB_CREATE] = true, [SKILL_VERB_UPDATE] = true, [SKILL_VERB_DELETE] = true,
    [SKILL_VERB_WRITE] = true,  [SKILL_VERB_REMOVE] = true, [SKILL_VERB_INSTALL] = true,
};

/* --- what is asked --- */

void skill_ask_init(struct skill_ask *ask, enum skill_verb verb)
{
    *ask = (struct skill_ask){.verb = verb, .archive = -1};
}

/* The texts that a client can make long; the content may have NULs in it. */
static size_t ask_bytes(const struct skill_ask *ask)
{
    const char *const texts[] = {ask->display_name, ask->description, ask->instructions};
    size_t size = ask->content_size;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        size += texts[i] ? strlen(texts[i]) : 0;
    return size;
}

void skill_ask_release(struct skill_ask *ask)
{
    char *texts[] = {ask->tenant,      ask->name,          ask->path,         ask->display_name,
                     ask->description, ask->instructions,  ask->package_root, ask->content,
                     ask->filename,    ask->source_subdir, ask->target_suffix};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    fd_clear(&ask->archive);
    strings_release(&ask->source_paths);
    strings_release(&ask->names);
    strings_release(&ask->roots);
    skill_ask_init(ask, ask->verb);
}

void skill_answer_release(struct skill_answer *answer)
{
    json_out_release(&answer->out);
    fd_clear(&answer->fd);
    strings_release(&answer->names);
    strings_release(&answer->paths);
    strings_release(&answer->warnings);
}

/* --- stores --- */

static void store_drop(struct store *store)
{
    if (!store || --store->holds > 0)
        return;
    if (store->store)
        skill_store_close(store->store);
    free(store);
}

/* Each tenant's as much as the whole of who has no tenancy. */
static void allowance(void *data, const char *tenant, struct skill_room *ret)
{
    struct store *store = data;
    uint64_t quota = atomic_load(&store->quota_bytes);
    (void)tenant;
    ret->bytes = quota > 0 ? quota : UINT64_MAX;
    ret->entries = UINT64_MAX;
}

struct skills *skills_new(struct api *api)
{
    struct skills *skills = xcalloc(1, sizeof *skills);
    skills->api = api;
    skills->scratch_dir = xstrdup(runtime_config(api->runtime)->state_dir);
    TAILQ_INIT(&skills->waiting);
    TAILQ_INIT(&skills->running);
    return skills;
}

void skills_configure(struct skills *skills, const char *root, uint64_t quota_bytes)
{
    bool same = skills->root && root ? strcmp(skills->root, root) == 0 : skills->root == root;
    if (same && skills->store && skills->store->store) {
        atomic_store(&skills->store->quota_bytes, quota_bytes);
        return;
    }
    store_drop(skills->store);
    skills->store = NULL;
    free(skills->root);
    skills->root = root ? xstrdup(root) : NULL;
    if (!root)
        return;
    struct store *store = xcalloc(1, sizeof *store);
    store->holds = 1;
    atomic_init(&store->quota_bytes, quota_bytes);
    const struct skill_store_options options = {
        .root = root, .allowance = allowance, .data = store};
    store->store = skill_store_open(&options, &store->err);
    if (!store->store)
        log_error(LOG_WARN, "no_skill_store", &store->err);
    skills->store = store;
}

/* --- jobs --- */

static void pump(struct skills *skills);

static void job_free(struct job *job)
{
    skill_ask_release(&job->ask);
    skill_answer_release(&job->answer);
    store_drop(job->store);
    free(job);
}

static void skills_destroy(struct skills *skills)
{
    store_drop(skills->store);
    free(skills->root);
    free(skills->scratch_dir);
    free(skills);
}

static void run(uv_work_t *work)
{
    struct job *job = work->data;
    if (!job->store || !job->store->store) {
        job->rc = -1;
        if (job->store)
            job->err = job->store->err;
        else
            error_set(&job->err, ERROR_UNAVAILABLE, "no directory for skills is configured");
        return;
    }
    job->rc =
        skill_run(job->store->store, &job->ask, job->skills->scratch_dir, &job->answer, &job->err);
}

/* Also when all is over: whoever asked has something to free. */
static void job_done(struct job *job, const struct error *err)
{
    job->skills->held_bytes -= job->held;
    job->done(job->data, err ? NULL : &job->answer, err);
    job_free(job);
}

static void on_run(uv_work_t *work, int status)
{
    struct job *job = work->data;
    struct skills *skills = job->skills;
    (void)status;
    TAILQ_REMOVE(&skills->running, job, link);
    skills->running_count--;
    job_done(job, job->rc < 0 ? &job->err : NULL);
    if (!skills->freed)
        pump(skills);
    else if (skills->running_count == 0)
        skills_destroy(skills);
}

static bool same_scope(const struct skill_ask *a, const struct skill_ask *b)
{
    return a->tenant && b->tenant ? strcmp(a->tenant, b->tenant) == 0 : a->tenant == b->tenant;
}

/* A writer has its turn when no other of its scope runs, nor too many of other scopes. Those that
   wait are looked at in the order in which they came. */
static bool may_run(const struct skills *skills, const struct job *job)
{
    unsigned writing = 0;
    if (!writes[job->ask.verb])
        return true;
    for (const struct job *other = TAILQ_FIRST(&skills->running); other;
         other = TAILQ_NEXT(other, link)) {
        if (!writes[other->ask.verb])
            continue;
        if (same_scope(&other->ask, &job->ask))
            return false;
        writing++;
    }
    return writing < WRITING_MAX;
}

static void pump(struct skills *skills)
{
    struct job *job = TAILQ_FIRST(&skills->waiting);
    while (job && skills->running_count < RUNNING_MAX) {
        struct job *next = TAILQ_NEXT(job, link);
        if (may_run(skills, job)) {
            TAILQ_REMOVE(&skills->waiting, job, link);
            skills->waiting_count--;
            TAILQ_INSERT_TAIL(&skills->running, job, link);
            skills->running_count++;
            uv_queue_work(skills->api->loop, &job->work, run, on_run);
        }
        job = next;
    }
}

/* Whether there is a place for it. A reader that can have its turn now does not wait. */
static int may_wait(const struct skills *skills, const struct skill_ask *ask, struct error *err)
{
    bool at_once = !writes[ask->verb] && skills->running_count < RUNNING_MAX;
    if (skills->stopped)
        return error_set(err, ERROR_UNAVAILABLE, "boxd is stopping");
    if ((at_once || skills->waiting_count < SKILLS_WAITING_MAX) &&
        ask_bytes(ask) <= HELD_MAX - skills->held_bytes)
        return 0;
    error_set(err, ERROR_CAPACITY, "the skill store has as much to do as it may: %u requests wait",
              skills->waiting_count);
    return error_hint(err, "try again in a moment");
}

void skills_ask(struct api *api, struct skill_ask *ask,
                void (*done)(void *data, struct skill_answer *answer, const struct error *err),
                void *data)
{
    struct skills *skills = api->skills;
    struct error err = ERROR_INIT;
    if (may_wait(skills, ask, &err) < 0) {
        skill_ask_release(ask);
        done(data, NULL, &err);
        return;
    }
    struct job *job = xcalloc(1, sizeof *job);
    job->work.data = job;
    job->skills = skills;
    job->store = skills->store;
    if (job->store)
        job->store->holds++;
    job->ask = *ask;
    job->held = ask_bytes(ask);
    skill_ask_init(ask, ask->verb);
    strings_copy(&job->ask.roots, &runtime_config(api->runtime)->allowed_roots);
    if (skills->root)
        strings_add(&job->ask.roots, skills->root);
    job->answer = (struct skill_answer){.out = JSON_OUT_INIT, .fd = -1};
    job->done = done;
    job->data = data;
    TAILQ_INSERT_TAIL(&skills->waiting, job, link);
    skills->waiting_count++;
    skills->held_bytes += job->held;
    pump(skills);
}

void skills_stop(struct skills *skills)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_UNAVAILABLE, "boxd is stopping");
    skills->stopped = true;
    while (!TAILQ_EMPTY(&skills->waiting)) {
        struct job *job = TAILQ_FIRST(&skills->waiting);
        TAILQ_REMOVE(&skills->waiting, job, link);
        skills->waiting_count--;
        job_done(job, &err);
    }
}

void skills_free(struct skills *skills)
{
    skills_stop(skills);
    skills->freed = true;
    if (skills->running_count == 0)
        skills_destroy(skills);
}
