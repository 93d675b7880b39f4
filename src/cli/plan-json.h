/* SPDX-License-Identifier: Apache-2.0 */
/* Plans, and the isolation they promise, for people and programs to read. */
#pragma once

#include <jansson.h>

#include "sandbox/plan.h"
#include "sandbox/spec.h"

/* Any bytes (messages quote file names) as text that every reader of JSON accepts. */
json_t *json_text(const char *bytes, size_t size);
const char *cgroup_version_name(enum cgroup_version version);

/* Everything that would be done. The caller owns the value. */
json_t *plan_to_json(const struct plan *plan, const struct sandbox_spec *spec);
/* What a session of this plan has. */
json_t *isolation_to_json(const struct plan *plan, const struct sandbox_spec *spec);
