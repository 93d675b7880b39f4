/* SPDX-License-Identifier: Apache-2.0 */
/* Things that are timed in turns and compared with one another. */
#include "rows.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"

#define BAR_WIDTH 40
#define WARM_UP   3

void rows_measure(struct row *rows, size_t count, int rounds)
{
    for (size_t i = 0; i < count; i++) {
        for (int warm_up = 0; warm_up < WARM_UP && !rows[i].missing; warm_up++)
            rows[i].run();
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            if (rows[i].missing || round % rows[i].every != 0)
                continue;
            for (int k = 0; k < (rows[i].repeat ? rows[i].repeat : 1); k++) {
                uint64_t start = clock_ns();
                rows[i].run();
                samples_add(&rows[i].samples, clock_ns() - start);
            }
        }
        if (isatty(2))
            fprintf(stderr, "\rround %d of %d ", round + 1, rounds);
    }
    if (isatty(2))
        fputs("\r\033[K", stderr);
}

static void print_bar(double value, double most)
{
    int width = (int)(value / most * BAR_WIDTH + 0.5);
    for (int i = 0; i < width; i++)
        fputs("█", stdout);
    if (width == 0)
        fputs("▏", stdout);
}

static void print_ratios(const struct row *rows, size_t index, const struct summary *summaries)
{
    for (int i = 0; i < ROW_RATIOS; i++) {
        const struct ratio *ratio = &rows[index].ratios[i];
        int base = ratio->against - 1;
        if (base < 0 || rows[base].missing)
            continue;
        double value = summaries[index].p50 / summaries[base].p50;
        const char *goal = goal_text(&ratio->goal, value);
        printf("   %.2f x %s%s%s", value, rows[base].name, goal[0] ? ", goal " : "", goal);
        if (ratio->name)
            goal_add(ratio->name, &ratio->goal, value, "x");
    }
}

void rows_print(const char *title, struct row *rows, size_t count)
{
    cleanup_free struct summary *summaries = xcalloc(count, sizeof *summaries);
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        summaries[i] = samples_summary(&rows[i].samples);
        if (summaries[i].p50 > most)
            most = summaries[i].p50;
    }
    printf("\n%-38s %8s %8s %8s %8s   %s\n", title, "mean", "p50", "p90", "p99",
           "ratio of medians");
    for (size_t i = 0; i < count; i++) {
        if (rows[i].missing) {
            printf("%-38s %s\n", rows[i].name, rows[i].missing);
            for (int k = 0; k < ROW_RATIOS; k++)
                if (rows[i].ratios[k].name)
                    goal_add_missing(rows[i].ratios[k].name, rows[i].missing);
            continue;
        }
        printf("%-38s %8.3f %8.3f %8.3f %8.3f", rows[i].name, summaries[i].mean, summaries[i].p50,
               summaries[i].p90, summaries[i].p99);
        print_ratios(rows, i, summaries);
        putchar('\n');
    }
    for (size_t i = 0; i < count; i++) {
        if (rows[i].missing)
            continue;
        printf("  %-36s ", rows[i].name);
        print_bar(summaries[i].p50, most);
        printf(" %.2f ms\n", summaries[i].p50);
    }
    fflush(stdout);
}
