/* SPDX-License-Identifier: Apache-2.0 */
/* 1 GiB of output: through a command of boxd, which counts it all and keeps the beginning, and to a
   plain reader of a pipe; in turns. The producer is the same, and writes as large pieces as `cat`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "core/mem.h"
#include "parts.h"
#include "sessions.h"
#include "goals.h"
#include "stats.h"

#define ROUNDS    5
#define PIECE     (128u * 1024)
#define PIECES    8192u
#define BYTES     ((uint64_t)PIECE * PIECES)
#define PIECES_IN "8192"

static void by_boxd(struct client *client)
{
    session_exec(client, 0,
                 "{\"argv\":[\"dd\",\"if=/dev/zero\",\"bs=128K\",\"count=" PIECES_IN
                 "\",\"status=none\"],\"timeout_sec\":300,\"encoding\":\"base64\"}");
    char total[64];
    snprintf(total, sizeof total, "%llu", (unsigned long long)BYTES);
    if (!strstr(client->body, total))
        bench_fail("not all of the output was seen");
}

static void by_pipe(void)
{
    static char *const dd[] = {(char *)"/bin/dd",     (char *)"if=/dev/zero",
                               (char *)"bs=128K",     (char *)"count=" PIECES_IN,
                               (char *)"status=none", NULL};
    static char data[PIECE];
    int pipes[2];
    uint64_t total = 0;
    ssize_t got;
    if (pipe2(pipes, O_CLOEXEC) < 0)
        bench_fail("pipe: %s", strerror(errno));
    pid_t pid = spawn_with(dd, null_fd, pipes[1], null_fd);
    close(pipes[1]);
    while ((got = read(pipes[0], data, sizeof data)) > 0)
        total += (uint64_t)got;
    close(pipes[0]);
    if (!wait_for(pid) || total != BYTES)
        bench_fail("dd failed");
}

void part_output(void)
{
    static const struct goal goal = AT_LEAST(70);
    struct samples ours = {0}, theirs = {0};
    struct daemon daemon;
    struct client client;
    if (!bench.boxd)
        return;
    daemon_start(&daemon);
    client_open(&client, &daemon, true);
    session_create(&client, 0);
    for (int i = -1; i < ROUNDS; i++) {
        uint64_t start = clock_ns();
        by_pipe();
        uint64_t middle = clock_ns();
        by_boxd(&client);
        uint64_t end = clock_ns();
        if (i < 0) /* to warm up */
            continue;
        samples_add(&theirs, middle - start);
        samples_add(&ours, end - middle);
    }
    client_close(&client);
    daemon_stop(&daemon);
    double pipe_ms = samples_summary(&theirs).p50;
    double boxd_ms = samples_summary(&ours).p50;
    double gigabytes = (double)BYTES / 1e9;
    printf("\n1 GiB of output\n");
    printf("%-38s %8.2f GB a second\n", "to a reader of a pipe", gigabytes / pipe_ms * 1e3);
    printf("%-38s %8.2f GB a second   %.0f %%, goal %s\n", "through a command, HTTP",
           gigabytes / boxd_ms * 1e3, 100 * pipe_ms / boxd_ms,
           goal_text(&goal, 100 * pipe_ms / boxd_ms));
    goal_add("1 GiB of output, against a reader of a pipe", &goal, 100 * pipe_ms / boxd_ms, "%");
    fflush(stdout);
}
