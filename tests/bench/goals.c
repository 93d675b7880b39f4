/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, beside what was aimed at. Nothing fails for a miss. */
#include "goals.h"

#include <stdbool.h>
#include <stdio.h>

#include "core/mem.h"

#define RESULTS_MAX 64
#define TEXTS       8

struct result {
    char *name;
    char *missing; /* why there is no value */
    struct goal goal;
    double value;
    const char *unit;
};

static struct result results[RESULTS_MAX];
static size_t result_count;

static bool is_met(const struct goal *goal, double value)
{
    switch (goal->kind) {
    case GOAL_AT_MOST:
        return value <= goal->limit;
    case GOAL_AT_LEAST:
        return value >= goal->limit;
    case GOAL_MORE:
        return value > goal->limit;
    default:
        return true;
    }
}

const char *goal_text(const struct goal *goal, double value)
{
    static const char *const signs[] = {"", "<=", ">=", ">"};
    static char texts[TEXTS][48];
    static unsigned next;
    char *text = texts[next++ % TEXTS];
    text[0] = '\0';
    if (goal->kind != GOAL_NONE)
        snprintf(text, sizeof texts[0], "%s %g %s", signs[goal->kind], goal->limit,
                 is_met(goal, value) ? "met" : "MISSED");
    return text;
}

void goal_add(const char *name, const struct goal *goal, double value, const char *unit)
{
    if (result_count < RESULTS_MAX)
        results[result_count++] = (struct result){xstrdup(name), NULL, *goal, value, unit};
}

void goal_add_missing(const char *name, const char *why)
{
    if (result_count < RESULTS_MAX)
        results[result_count++] = (struct result){.name = xstrdup(name), .missing = xstrdup(why)};
}

void goals_print(void)
{
    size_t met = 0, judged = 0;
    if (result_count == 0)
        return;
    printf("\n%-58s %14s   %s\n", "goals", "measured", "goal");
    for (size_t i = 0; i < result_count; i++) {
        const struct result *result = &results[i];
        if (result->missing) {
            printf("%-58s %14s   %s\n", result->name, "-", result->missing);
            continue;
        }
        printf("%-58s %9.2f %-4s   %s\n", result->name, result->value, result->unit,
               goal_text(&result->goal, result->value));
        judged += result->goal.kind != GOAL_NONE;
        met += result->goal.kind != GOAL_NONE && is_met(&result->goal, result->value);
    }
    printf("%zu of %zu goals met\n", met, judged);
}
