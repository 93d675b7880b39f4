/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator lays down about admission: a plain value. */
#include <stdlib.h>

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
