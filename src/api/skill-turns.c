/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is in the skill store: of one scope one writer after the other, not too many at a
   time, and none before it is known what bounds its scope. */
#include <string.h>

#include "api/rpc-internal.h"
#include "api/skill-jobs.h"

/* A reader finds a place in the pool even while several tenants install. */
#define WRITING_MAX 2

static const bool writes[SKILL_VERB_MAX] = {
    [SKILL_VERB_CREATE] = true, [SKILL_VERB_UPDATE] = true, [SKILL_VERB_DELETE] = true,
    [SKILL_VERB_WRITE] = true,  [SKILL_VERB_REMOVE] = true, [SKILL_VERB_INSTALL] = true,
};

bool skill_verb_writes(enum skill_verb verb)
{
    return writes[verb];
}

static bool same_scope(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_written(const struct skills *skills, const char *tenant)
{
    const struct job *job = TAILQ_FIRST(&skills->running);
    while (job && !(writes[job->ask.verb] && same_scope(job->ask.tenant, tenant)))
        job = TAILQ_NEXT(job, link);
    return job != NULL;
}

/* While nobody writes: a file that is in no project yet could not be moved into one that is. */
static bool ask_bound(struct skills *skills, struct store *store, struct bound *bound)
{
    if (is_written(skills, bound->tenant))
        return false;
    skills->asking_count++;
    bound_ask(store, bound, &skills->asker);
    return true;
}

/* Those who write, or have sessions write. */
static bool needs_bound(const struct skills *skills, const struct job *job)
{
    return job->store && job->store->store &&
           (writes[job->ask.verb] ||
            (job->ask.verb == SKILL_VERB_RESOLVE && skills->api->config.skills_writable));
}

/* What makes a full store less so is never refused. */
static bool may_grow(enum skill_verb verb)
{
    return verb != SKILL_VERB_DELETE && verb != SKILL_VERB_REMOVE;
}

/* Whether it is known what bounds the job's scope; if not, it is asked. */
static bool is_bounded(struct skills *skills, struct job *job)
{
    if (!needs_bound(skills, job))
        return true;
    struct bound *bound = bound_find(job->store, job->ask.tenant);
    enum bound_state state = bound_state(job->store, bound);
    if (state == BOUND_UNKNOWN && ask_bound(skills, job->store, bound))
        state = BOUND_ASKING;
    if (state == BOUND_FAILED && may_grow(job->ask.verb) &&
        rpc_admission_required(skills->api->rpc))
        job->refused = bound_refuse(bound, &job->err) < 0;
    return state != BOUND_ASKING && state != BOUND_UNKNOWN;
}

/* Sessions may have packages mounted writable whatever the quota was then, so this does not wait
   until somebody asks something of the scope. */
void skills_renew_bounds(struct skills *skills)
{
    if (skills->stopped || skills->asking_count > 0 || !skills->store || !skills->store->store)
        return;
    struct bound *bound = bound_outdated(skills->store);
    if (bound)
        ask_bound(skills, skills->store, bound);
}

/* A writer has its turn when no other of its scope runs, nor too many of other scopes. */
static bool may_run(const struct skills *skills, const struct job *job)
{
    unsigned writing = 0;
    if (!writes[job->ask.verb])
        return true;
    for (const struct job *other = TAILQ_FIRST(&skills->running); other;
         other = TAILQ_NEXT(other, link))
        writing += writes[other->ask.verb];
    return writing < WRITING_MAX && !is_written(skills, job->ask.tenant);
}

bool job_has_turn(struct skills *skills, struct job *job)
{
    return may_run(skills, job) && is_bounded(skills, job);
}
