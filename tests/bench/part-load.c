/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen clients with a session each, beside sixteen processes that spawn the same command
   themselves: slices of time in turns. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "core/fd.h"
#include "parts.h"
#include "sessions.h"
#include "goals.h"
#include "stats.h"

#define CLIENTS  16
#define SLICES   8
#define SLICE_NS 600000000u
#define LEAD_NS  60000000u /* for all to be forked and connected */

static struct daemon boxd;

static void sleep_until(uint64_t ns)
{
    struct timespec at = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

/* One of the sixteen. The count of commands goes down the pipe. */
static void work(unsigned number, bool http, uint64_t start, int out)
{
    struct client client;
    uint64_t count = 0;
    if (http)
        client_open(&client, &boxd, true);
    sleep_until(start);
    while (clock_ns() < start + SLICE_NS) {
        if (http)
            session_run_argv(&client, number);
        else
            spawn_and_wait(bare_shell);
        count++;
    }
    _exit(write(out, &count, sizeof count) == sizeof count ? 0 : 1);
}

/* Commands in a second. */
static double slice(bool http)
{
    int pipes[2];
    pid_t pids[CLIENTS];
    uint64_t total = 0, count;
    uint64_t start = clock_ns() + LEAD_NS;
    if (pipe(pipes) < 0)
        bench_fail("pipe: %s", strerror(errno));
    for (unsigned i = 0; i < CLIENTS; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            bench_fail("fork: %s", strerror(errno));
        if (pids[i] == 0)
            work(i, http, start, pipes[1]);
    }
    close(pipes[1]);
    while (read(pipes[0], &count, sizeof count) == sizeof count)
        total += count;
    /* The last command of each ends after the slice: all that time counts. */
    double seconds = (double)(clock_ns() - start) / 1e9;
    close(pipes[0]);
    for (unsigned i = 0; i < CLIENTS; i++)
        if (!wait_for(pids[i]))
            bench_fail("a client failed");
    return (double)total / seconds;
}

void part_load(void)
{
    static const struct goal goal = AT_LEAST(80);
    struct client client;
    double ours = 0, theirs = 0;
    if (!bench.boxd)
        return;
    daemon_start(&boxd);
    client_open(&client, &boxd, true);
    for (unsigned i = 0; i < CLIENTS; i++)
        session_create(&client, i);
    slice(true);
    for (int i = 0; i < SLICES; i++) {
        theirs += slice(false) / SLICES;
        ours += slice(true) / SLICES;
    }
    client_close(&client);
    daemon_stop(&boxd);
    printf("\nsh -c true, %d at once\n", CLIENTS);
    printf("%-38s %8.0f a second\n", "posix_spawn", theirs);
    printf("%-38s %8.0f a second   %.0f %%, goal %s\n", "live sessions, HTTP", ours,
           100 * ours / theirs, goal_text(&goal, 100 * ours / theirs));
    goal_add("16 clients, against 16 bare spawners", &goal, 100 * ours / theirs, "%");
    fflush(stdout);
}
