/* SPDX-License-Identifier: Apache-2.0 */
/* Things that are timed in turns and compared with one another. */
#pragma once

#include <stddef.h>

#include "goals.h"
#include "stats.h"

#define ROW_RATIOS 2

struct ratio {
    int against; /* one more than the index of the row it is taken against; 0: none */
    struct goal goal;
    const char *name; /* in the table of goals; NULL: not there */
};

struct row {
    const char *name;
    void (*run)(void);
    int every;           /* in which rounds: slow ones less often */
    const char *missing; /* why it cannot be measured, or NULL */
    int repeat;          /* samples a round; 0: one */
    struct ratio ratios[ROW_RATIOS];
    struct samples samples;
};

/* One sample each a round, so that whatever else the machine does falls on all of them alike. A row
   behind one that keeps the machine busy after its end wants more: then its median is its own. */
void rows_measure(struct row *rows, size_t count, int rounds);
/* Ratios are of medians. */
void rows_print(const char *title, struct row *rows, size_t count);
