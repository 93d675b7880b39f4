/* SPDX-License-Identifier: Apache-2.0 */
/* The skill store behind RPC and REST: its jobs. */
#include "api/skills.h"

#include <errno.h>
#include <string.h>

#include "api/internal.h"
#include "api/skill-jobs.h"

/* The pool has four threads, and records and large messages need one of them. */
#define RUNNING_MAX 3
/* What archives and texts that wait may take of memory, together. */
#define HELD_MAX (128u << 20)

/* --- stores --- */

static void pump(struct skills *skills);
static void on_bounded(void *data);

struct skills *skills_new(struct api *api, struct backend *storage)
{
    struct skills *skills = xcalloc(1, sizeof *skills);
    skills->api = api;
    skills->scratch_dir = xstrdup(runtime_config(api->runtime)->state_dir);
    TAILQ_INIT(&skills->waiting);
    TAILQ_INIT(&skills->running);
    skills->asker = (struct bound_asker){
        .loop = api->loop, .backend = storage, .done = on_bounded, .data = skills};
    return skills;
}

void skills_configure(struct skills *skills, const char *root, uint64_t quota_bytes)
{
    bool same = skills->root && root ? strcmp(skills->root, root) == 0 : skills->root == root;
    if (same && skills->store && skills->store->store) {
        atomic_store(&skills->store->quota_bytes, quota_bytes);
        pump(skills);
        return;
    }
    store_drop(skills->store);
    free(skills->root);
    skills->root = root ? xstrdup(root) : NULL;
    skills->store = root ? store_open(root, quota_bytes) : NULL;
}

const char *skills_quota(const struct skills *skills)
{
    return skills->store ? bound_name(skills->store) : NULL;
}

/* --- jobs --- */

static void job_free(struct job *job)
{
    skill_ask_release(&job->ask);
    skill_answer_release(&job->answer);
    store_drop(job->store);
    free(job);
}

/* When the last has ended that still has a pointer to it. */
static void skills_destroy(struct skills *skills)
{
    if (skills->running_count > 0 || skills->asking_count > 0)
        return;
    store_drop(skills->store);
    free(skills->root);
    free(skills->scratch_dir);
    free(skills);
}

static void run(uv_work_t *work)
{
    struct job *job = work->data;
    if (job->refused) {
        job->rc = -1;
        return;
    }
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
    /* A limit that the kernel holds is told like one that boxd does. Archives go elsewhere. */
    bool full = job->err.errnum == EDQUOT || job->err.errnum == ENOSPC;
    if (job->rc < 0 && full && job->ask.verb != SKILL_VERB_EXPORT)
        skill_error_full(job->err.errnum, &job->err);
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
    if (skills->freed)
        skills_destroy(skills);
    else
        pump(skills);
}

static void on_bounded(void *data)
{
    struct skills *skills = data;
    skills->asking_count--;
    if (skills->freed)
        skills_destroy(skills);
    else
        pump(skills);
}

/* --- turns --- */

static void pump(struct skills *skills)
{
    struct job *job = TAILQ_FIRST(&skills->waiting);
    while (job && skills->running_count < RUNNING_MAX) {
        struct job *next = TAILQ_NEXT(job, link);
        if (job_has_turn(skills, job)) {
            TAILQ_REMOVE(&skills->waiting, job, link);
            skills->waiting_count--;
            TAILQ_INSERT_TAIL(&skills->running, job, link);
            skills->running_count++;
            uv_queue_work(skills->api->loop, &job->work, run, on_run);
        }
        job = next;
    }
    skills_renew_bounds(skills);
}

/* Whether there is a place for it. A reader that can have its turn now does not wait. */
static int may_wait(const struct skills *skills, const struct skill_ask *ask, struct error *err)
{
    bool at_once = !skill_verb_writes(ask->verb) && skills->running_count < RUNNING_MAX;
    if (skills->stopped)
        return error_set(err, ERROR_UNAVAILABLE, "boxd is stopping");
    if ((at_once || skills->waiting_count < SKILLS_WAITING_MAX) &&
        skill_ask_bytes(ask) <= HELD_MAX - skills->held_bytes)
        return 0;
    error_set(err, ERROR_CAPACITY, "the skill store has as much to do as it may: %u requests wait",
              skills->waiting_count);
    return error_hint(err, "try again in a moment");
}

int skills_may_ask(const struct api *api, const struct skill_ask *ask, struct error *err)
{
    return may_wait(api->skills, ask, err);
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
    job->store = store_hold(skills->store);
    job->ask = *ask;
    job->held = skill_ask_bytes(ask);
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
    skills->asker.backend = NULL;
    skills_destroy(skills);
}
