/* SPDX-License-Identifier: Apache-2.0 */
/* How long boxd takes until it is ready, and what it weighs when nothing is going on. */
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "core/mem.h"
#include "parts.h"
#include "sessions.h"
#include "goals.h"
#include "memory.h"
#include "stats.h"

#define STARTS 20

void part_start(void)
{
    static const struct goal ready_goal = AT_MOST(50);
    static const struct goal weight_goal = AT_MOST(12);
    struct samples ready = {0};
    struct memory memory = {0};
    struct daemon daemon;
    if (!bench.boxd)
        return;
    for (int i = 0; i < STARTS; i++) {
        struct client client;
        daemon_start(&daemon);
        samples_add(&ready, (uint64_t)(daemon.ready_ms * 1e6));
        /* What it says must be so. */
        client_open(&client, &daemon, true);
        client_expect(&client, 200, "GET", "/readyz", NULL);
        client_close(&client);
        memory_of_tree(daemon.pid, &memory);
        daemon_stop(&daemon);
    }
    struct summary summary = samples_summary(&ready);
    double mib = memory.rss_kib / 1024;
    printf("\n%-38s %8s %8s %8s\n", "boxd without sessions", "mean", "p50", "p90");
    printf("%-38s %8.2f %8.2f %8.2f   goal %s\n", "ready after, milliseconds", summary.mean,
           summary.p50, summary.p90, goal_text(&ready_goal, summary.p50));
    printf("%-38s %8.2f   goal %s\n", "resident in both processes, MiB", mib,
           goal_text(&weight_goal, mib));
    printf("%-38s %8.2f\n", "with what they share counted once", memory.pss_kib / 1024);
    goal_add("boxd ready after start", &ready_goal, summary.p50, "ms");
    goal_add("boxd idle, resident", &weight_goal, mib, "MiB");
    fflush(stdout);
}
