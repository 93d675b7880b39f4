/* SPDX-License-Identifier: Apache-2.0 */
/* Making a session when there are few and when there are many, each time beside bare spawns, and
   what an idle one weighs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "parts.h"
#include "sessions.h"
#include "goals.h"
#include "memory.h"
#include "rows.h"

#define FEW     10u
#define MANY    2000u
#define EXTRA   MANY /* the one that comes and goes */
#define SAMPLES 200
#define STEPS   10u

static struct daemon boxd;
static struct client client;

/* Deleting is not what is looked at, but has to be done. */
static void sample(struct samples *spawns, struct samples *creates)
{
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t start = clock_ns();
        spawn_and_wait(bare_shell);
        uint64_t spawned = clock_ns();
        session_create(&client, EXTRA);
        uint64_t created = clock_ns();
        session_delete(&client, EXTRA);
        samples_add(spawns, spawned - start);
        samples_add(creates, created - spawned);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From few to many in steps, each weighed by itself: what else happens on the machine meanwhile
   falls into some of them, and the median is of the others. */
static double create_many(double *each)
{
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned from = FEW + (MANY - FEW) * step / STEPS;
        unsigned to = FEW + (MANY - FEW) * (step + 1) / STEPS;
        double used = memory_in_use();
        for (unsigned i = from; i < to; i++)
            session_create(&client, i);
        each[step] = (memory_in_use() - used) / (to - from);
    }
    qsort(each, STEPS, sizeof *each, compare);
    return (each[STEPS / 2] + each[(STEPS - 1) / 2]) / 2;
}

static void print_row(const char *name, unsigned live, struct summary create, struct summary spawn)
{
    char text[64];
    snprintf(text, sizeof text, "%s %u live", name, live);
    printf("%-38s %8.3f %8.3f %8.3f %8.3f   posix_spawn meanwhile %.3f\n", text, create.mean,
           create.p50, create.p90, create.p99, spawn.p50);
}

void part_many(void)
{
    static const struct goal create_goal = AT_MOST(1.5);
    static const struct goal weight_goal = AT_MOST(512);
    struct samples spawns[2] = {0}, creates[2] = {0};
    struct memory before = {0}, after = {0};
    if (!bench.boxd)
        return;
    daemon_start(&boxd);
    client_open(&client, &boxd, true);
    for (unsigned i = 0; i < FEW; i++)
        session_create(&client, i);
    sample(&spawns[0], &creates[0]);
    memory_of_tree(boxd.pid, &before);
    double steps[STEPS];
    double each = create_many(steps);
    memory_of_tree(boxd.pid, &after);
    sample(&spawns[1], &creates[1]);
    for (unsigned i = 0; i < MANY; i++)
        session_delete(&client, i);
    client_close(&client);
    daemon_stop(&boxd);

    struct summary few = samples_summary(&creates[0]);
    struct summary many = samples_summary(&creates[1]);
    double ratio = many.p50 / few.p50;
    printf("\n%-38s %8s %8s %8s %8s\n", "create, milliseconds", "mean", "p50", "p90", "p99");
    print_row("with", FEW, few, samples_summary(&spawns[0]));
    print_row("with", MANY, many, samples_summary(&spawns[1]));
    printf("%-38s %8.2f x   goal %s\n", "ratio of medians", ratio, goal_text(&create_goal, ratio));
    printf(
        "%-38s %8.0f KiB in all (steps: %.0f to %.0f), of it %.1f in boxd and spawner   goal %s\n",
        "an idle session", each, steps[0], steps[STEPS - 1],
        (after.pss_kib - before.pss_kib) / (MANY - FEW), goal_text(&weight_goal, each));
    goal_add("create with 2,000 live, against with 10", &create_goal, ratio, "x");
    goal_add("an idle session, all told", &weight_goal, each, "KiB");
    fflush(stdout);
}
