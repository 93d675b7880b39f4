/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator lays down about admission: a plain value. */
#include <stdlib.h>
#include <string.h>

#include "runtime/admission.h"

void admission_policy_init(struct admission_policy *policy)
{
    *policy = (struct admission_policy){
        .max_sessions = 1,
        .max_grant_ttl_sec = 300,
        .max_timeout_sec = 120,
        .cpus = 1,
        .memory_mb = 512,
        .pids_limit = 128,
        .read_only_rootfs = true,
        .readiness_cache_sec = 15,
    };
}

void admission_policy_release(struct admission_policy *policy)
{
    free(policy->problem);
    policy->problem = NULL;
}

void admission_policy_copy(struct admission_policy *to, const struct admission_policy *from)
{
    *to = *from;
    to->problem = from->problem ? xstrdup(from->problem) : NULL;
}

bool admission_policy_same(const struct admission_policy *a, const struct admission_policy *b)
{
    if (!a || !b)
        return a == b;
    bool same_problem =
        a->problem && b->problem ? strcmp(a->problem, b->problem) == 0 : a->problem == b->problem;
    return same_problem && a->required == b->required && a->max_sessions == b->max_sessions &&
           a->max_managed_processes == b->max_managed_processes &&
           a->max_grant_ttl_sec == b->max_grant_ttl_sec &&
           a->max_timeout_sec == b->max_timeout_sec && !(a->cpus < b->cpus || a->cpus > b->cpus) &&
           a->memory_mb == b->memory_mb && a->pids_limit == b->pids_limit &&
           a->read_only_rootfs == b->read_only_rootfs &&
           a->workspace_quota_mb == b->workspace_quota_mb &&
           a->readiness_cache_sec == b->readiness_cache_sec;
}
