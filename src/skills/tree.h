/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trees of files: removed, copied, measured. They may have been made by somebody hostile. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "skills/skills.h"

/* What may still be written. */
struct budget {
    uint64_t bytes;
    uint64_t entries;
};

int budget_take(struct budget *budget, uint64_t bytes, uint64_t entries, struct error *err);

/* Removes everything in `dir`. What resists stays; -errno of the first such. `dir` must lie in one
   file system. */
int tree_clear(int dir);

/* Copies what is in `from` into the empty directory `to`: files and directories, also behind links
   that stay beneath `from`. Anything else, and more than 10,000 entries, is refused. */
int tree_copy(int from, int to, struct budget *budget, struct error *err);

/* What `dir` holds, all the way down, in files and in entries, but for what is directly in it and
   called `apart` (NULL: nothing). */
int tree_measure(int dir, const char *apart, struct skill_room *ret, struct error *err);
