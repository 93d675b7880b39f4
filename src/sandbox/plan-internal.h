/* SPDX-License-Identifier: Apache-2.0 */
/* Adding steps to a plan. */
#pragma once

#include "sandbox/plan.h"

/* The new step; its strings are copied from `proto`. */
struct step *plan_add(struct plan *plan, struct step proto);

/* The steps of the root file system `host`: the base, then what a session has for itself, up to and
   without the workspace and the caller's mounts. */
void plan_host_root(struct plan *plan, const struct sandbox_spec *spec, const struct facts *facts);

/* Makes the new root read-only; must come last. */
void plan_seal_root(struct plan *plan, const struct sandbox_spec *spec);
