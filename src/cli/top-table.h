/* SPDX-License-Identifier: Apache-2.0 */
/* What `box top` shows. No I/O. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "cli/table.h"

/* The sessions of `now` (the array in /v1/usage) with their "cpu_percent" since `before` (or NULL),
   the busiest first. A new reference. */
json_t *top_rank(const json_t *before, const json_t *now, uint64_t passed_us);
void top_table(const json_t *ranked, struct table *ret);
