/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of installing from archives. */
#pragma once

#include "skills/store.h"

struct installation {
    struct write_op op;
    const struct skill_archive *archive;
    char *stem;
    char *path; /* of what is looked at, below the stage */
    int dir;
    struct package **candidates; /* by source path; their roots are where they would go */
    size_t count;
    const struct package **chosen;
    size_t chosen_count;
};

/* Unpacks the archive into a stage and finds the skills in it. The caller has begun the write, and
   ends it in either case. */
int install_prepare(struct installation *installation, struct error *err);
