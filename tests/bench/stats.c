/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of one thing measured, and what is said about them. */
#include "stats.h"

#include <stdlib.h>
#include <time.h>

#include "core/mem.h"

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void samples_add(struct samples *samples, uint64_t ns)
{
    samples->ns = xreallocarray(samples->ns, samples->count + 1, sizeof *samples->ns);
    samples->ns[samples->count++] = ns;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double at(const struct samples *samples, double part)
{
    size_t index = (size_t)((double)(samples->count - 1) * part + 0.5);
    return (double)samples->ns[index] / 1e6;
}

struct summary samples_summary(struct samples *samples)
{
    struct summary summary = {0};
    if (samples->count == 0)
        return summary;
    qsort(samples->ns, samples->count, sizeof *samples->ns, compare);
    for (size_t i = 0; i < samples->count; i++)
        summary.mean += (double)samples->ns[i] / 1e6 / (double)samples->count;
    summary.p50 = at(samples, 0.50);
    summary.p90 = at(samples, 0.90);
    summary.p99 = at(samples, 0.99);
    return summary;
}
