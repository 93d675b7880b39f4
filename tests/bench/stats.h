/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of one thing measured, and what is said about them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct samples {
    uint64_t *ns;
    size_t count;
};

struct summary {
    double mean, p50, p90, p99; /* milliseconds */
};

uint64_t clock_ns(void);
void samples_add(struct samples *samples, uint64_t ns);
struct summary samples_summary(struct samples *samples);
