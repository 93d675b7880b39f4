/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the skill store and waits for its turn, or has it. */
#pragma once

#include <sys/queue.h>

#include "api/skill-bound.h"
#include "api/skills.h"

struct job {
    TAILQ_ENTRY(job) link;
    uv_work_t work;
    struct skills *skills;
    struct store *store; /* also after the configuration has another */
    struct skill_ask ask;
    bool refused; /* `err` says why */
    size_t held;  /* bytes of what is asked */
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
    struct bound_asker asker;
    unsigned asking_count;
    size_t held_bytes;
    bool stopped;
    bool freed;
};

/* skill-turns.c */
bool skill_verb_writes(enum skill_verb verb);
/* Whether it is the job's turn as far as those that run are concerned, and it is known what bounds
   its scope; if that is not, it is asked. Those that wait are looked at in the order in which they
   came. */
bool job_has_turn(struct skills *skills, struct job *job);
/* Scopes whose limit is not that of now are seen to, one after the other. */
void skills_renew_bounds(struct skills *skills);
