/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as seen by this process, for what is only planned or explained: the spawner has its
 * own view. */
#pragma once

#include "core/error.h"
#include "sandbox/cgroup.h"
#include "sandbox/facts.h"
#include "sandbox/plan.h"
#include "sandbox/policy.h"

struct machine {
    struct facts facts;
    struct cgroup_root *cgroups;
    struct mount_policy policy;
};

/* The person at the terminal is the operator: directories of their own home may be mounted,
   wherever it is. */
void machine_policy(const struct facts *facts, struct mount_policy *ret);

int machine_open(struct machine *ret, struct error *err);
void machine_close(struct machine *machine);

/* What a session of this spec would be here; nothing is made. */
int machine_plan(const struct sandbox_spec *spec, struct plan *ret, struct error *err);
