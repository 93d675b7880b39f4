/* SPDX-License-Identifier: Apache-2.0 */
/* make bench: boxd beside what a user would pick instead, all in one run, as ratios.

   Rows that are compared are measured in turns, one sample each a round, so that whatever else the
   machine does falls on all of them alike. Nothing here fails for being slow: it prints, people
   judge. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/mem.h"
#include "rivals.h"
#include "sandbox/engine.h"
#include "stats.h"

#define BAR_WIDTH 40

extern char **environ;

static char *const shell[] = {(char *)"sh", (char *)"-c", (char *)"true", NULL};
static char *const command_env[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
static int null_fd;
static struct engine *engine;
static struct sandbox *live;
static struct sandbox_spec spec;
static char *box_argv[] = {NULL, (char *)"run", (char *)"--", (char *)"true", NULL};
static char *bwrap_argv[RIVAL_ARGS];
static char *nsjail_argv[RIVAL_ARGS];
static char *runc_argv[RIVAL_ARGS];

static void fail(const char *what, const struct error *err)
{
    fprintf(stderr, "bench: %s: %s\n", what, err->message);
    if (err->hint[0])
        fprintf(stderr, "  fix: %s\n", err->hint);
    exit(1);
}

static void spawn_and_wait(char *const *argv)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&actions, null_fd, i);
    int rc = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0) {
        fprintf(stderr, "bench: %s: %s\n", argv[0], strerror(rc));
        exit(1);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "bench: %s failed (status %#x); run it by hand to see why\n", argv[0],
                status);
        exit(1);
    }
}

static void run_in(struct sandbox *sandbox)
{
    const struct command_request request = {.argv = shell,
                                            .envp = command_env,
                                            .cwd = "/workspace",
                                            .fds = {null_fd, null_fd, null_fd}};
    struct command command;
    struct outcome outcome;
    struct error err = ERROR_INIT;
    if (command_start(sandbox, &request, &command, &err) < 0)
        fail("start", &err);
    struct pollfd polled = {.fd = command_fd(&command), .events = POLLIN};
    poll(&polled, 1, -1);
    if (command_finish(&command, false, &outcome, &err) < 0)
        fail("finish", &err);
    if (outcome.exit_code != 0) {
        fputs("bench: the command failed inside\n", stderr);
        exit(1);
    }
}

static void row_bare(void)
{
    static char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"true", NULL};
    spawn_and_wait(argv);
}

static void row_warm(void)
{
    run_in(live);
}

static void row_cold(void)
{
    struct sandbox *sandbox;
    struct error err = ERROR_INIT;
    if (sandbox_begin(engine, &spec, &sandbox, &err) < 0)
        fail("create", &err);
    run_in(sandbox);
    if (sandbox_destroy(sandbox, &err) < 0)
        fail("destroy", &err);
}

static void row_box(void)
{
    spawn_and_wait(box_argv);
}

static void row_bwrap(void)
{
    spawn_and_wait(bwrap_argv);
}

static void row_nsjail(void)
{
    spawn_and_wait(nsjail_argv);
}

static void row_runc(void)
{
    spawn_and_wait(runc_argv);
}

struct row {
    const char *name;
    void (*run)(void);
    const char *goal;
    int base;  /* the row the ratio is taken against */
    int every; /* in which rounds: slow ones less often */
    bool present;
    struct samples samples;
};

enum { ROW_BARE, ROW_WARM, ROW_COLD, ROW_BOX, ROW_BWRAP, ROW_NSJAIL, ROW_RUNC, ROW_MAX };

static struct row rows[ROW_MAX] = {
    [ROW_BARE] = {"posix_spawn sh -c true", row_bare, "", ROW_BARE, 1, true, {0}},
    [ROW_WARM] = {"the same in a live sandbox", row_warm, "<= 1.25", ROW_BARE, 1, true, {0}},
    [ROW_COLD] = {"create + the same + delete", row_cold, "<= 3.2", ROW_BARE, 1, true, {0}},
    [ROW_BOX] = {"box run -- true", row_box, "", ROW_BOX, 4, true, {0}},
    [ROW_BWRAP] = {"bwrap ... true", row_bwrap, "> 1", ROW_BOX, 4, false, {0}},
    [ROW_NSJAIL] = {"nsjail ... true", row_nsjail, "> 1", ROW_BOX, 4, false, {0}},
    [ROW_RUNC] = {"runc run ... true", row_runc, "> 1", ROW_BOX, 20, false, {0}},
};

/* Rows that are compared with one another, in turns. Not all rows together: what a container leaves
   for the kernel to clear up would be billed to whoever comes next. */
static void measure(int base, int rounds)
{
    for (int i = 0; i < ROW_MAX; i++) {
        for (int warm_up = 0; warm_up < 3 && rows[i].present && rows[i].base == base; warm_up++)
            rows[i].run();
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < ROW_MAX; i++) {
            if (!rows[i].present || rows[i].base != base || round % rows[i].every != 0)
                continue;
            uint64_t start = clock_ns();
            rows[i].run();
            samples_add(&rows[i].samples, clock_ns() - start);
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

static void print_table(void)
{
    struct summary summaries[ROW_MAX];
    double most = 0;
    for (int i = 0; i < ROW_MAX; i++) {
        summaries[i] = samples_summary(&rows[i].samples);
        if (rows[i].present && summaries[i].p50 > most)
            most = summaries[i].p50;
    }
    printf("%-28s %8s %8s %8s %8s   %-24s %s\n", "milliseconds", "mean", "p50", "p90", "p99",
           "ratio of medians", "goal");
    for (int i = 0; i < ROW_MAX; i++) {
        const struct row *row = &rows[i];
        char ratio[64] = "";
        if (!row->present) {
            printf("%-28s not installed\n", row->name);
            continue;
        }
        if (row->base != i)
            snprintf(ratio, sizeof ratio, "%.2f x %s", summaries[i].p50 / summaries[row->base].p50,
                     row->base == ROW_BARE ? "posix_spawn" : "box run");
        printf("%-28s %8.3f %8.3f %8.3f %8.3f   %-24s %s\n", row->name, summaries[i].mean,
               summaries[i].p50, summaries[i].p90, summaries[i].p99, ratio, row->goal);
    }
    puts("");
    for (int i = 0; i < ROW_MAX; i++) {
        if (!rows[i].present)
            continue;
        printf("%-28s ", rows[i].name);
        print_bar(summaries[i].p50, most);
        printf(" %.2f ms\n", summaries[i].p50);
    }
}

static void prepare(const char *box, const char *bundle)
{
    static struct spawner_config config = {.ready = 4};
    struct error err = ERROR_INIT;
    box_argv[0] = (char *)box;
    config.init_binary = xasprintf("%s-init", box);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    rows[ROW_BWRAP].present = rival_bwrap(bwrap_argv);
    rows[ROW_NSJAIL].present = rival_nsjail(nsjail_argv);
    rows[ROW_RUNC].present = rival_runc(bundle, runc_argv);
    if (engine_open(&engine, &config, &err) < 0)
        fail("engine", &err);
    sandbox_spec_init(&spec);
    if (sandbox_create(engine, &spec, &live, &err) < 0)
        fail("create", &err);
    spec.single = true; /* as `box run` has it, from here on */
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"box", required_argument, NULL, 'b'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {NULL, 0, NULL, 0}};
    const char *box = "build/box";
    int rounds = 400;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'b')
            box = optarg;
        else if (option == 'r')
            rounds = atoi(optarg);
        else
            return 2;
    }
    char bundle[] = "/tmp/box-bench-XXXXXX";
    if (!mkdtemp(bundle)) {
        perror("bench: mkdtemp");
        return 1;
    }
    prepare(box, bundle);
    measure(ROW_BARE, rounds > 0 ? rounds : 1);
    measure(ROW_BOX, rounds > 0 ? rounds : 1);
    engine_close(engine);
    print_table();
    char *remove[] = {(char *)"/bin/rm", (char *)"-rf", bundle, NULL};
    spawn_and_wait(remove);
    return 0;
}
