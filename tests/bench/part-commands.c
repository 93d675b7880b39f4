/* SPDX-License-Identifier: Apache-2.0 */
/* One command at a time: in a live session, in one made for it, and by programs that make a sandbox
   for one command.

   Each part has its own rows of what it is compared with. Not all rows together: what a container
   leaves for the kernel to clear up would be billed to whoever comes next. */
#include <stdio.h>

#include "common.h"
#include "core/mem.h"
#include "engine.h"
#include "parts.h"
#include "rivals.h"
#include "rows.h"
#include "sessions.h"

#define LIVE 0
#define COLD 1
/* A ratio against the row of that index. */
#define OF(index) .against = (index) + 1

static struct daemon boxd;
static struct client tcp, local;
static const char *const no_boxd = "boxd was not built";

static void bare(void)
{
    spawn_and_wait(bare_shell);
}

static void boxd_argv(void)
{
    session_run_argv(&tcp, LIVE);
}

static void boxd_argv_local(void)
{
    session_run_argv(&local, LIVE);
}

static void boxd_cmd(void)
{
    session_run_cmd(&tcp, LIVE);
}

static void boxd_cold(void)
{
    session_create(&tcp, COLD);
    session_run_argv(&tcp, COLD);
    session_delete(&tcp, COLD);
}

static void boxd_cold_flat(void)
{
    client_expect(&tcp, 200, "POST", "/v1/exec",
                  "{\"session_id\":\"bench-1\",\"argv\":[\"sh\",\"-c\",\"true\"]}");
    session_delete(&tcp, COLD);
}

static void connect_boxd(void)
{
    if (!bench.boxd)
        return;
    daemon_start(&boxd);
    client_open(&tcp, &boxd, true);
    client_open(&local, &boxd, false);
    session_create(&tcp, LIVE);
}

static void disconnect_boxd(void)
{
    if (!bench.boxd)
        return;
    client_close(&tcp);
    client_close(&local);
    daemon_stop(&boxd);
}

static void need_boxd(struct row *row)
{
    if (!bench.boxd)
        row->missing = no_boxd;
}

void part_warm(void)
{
    enum { BARE, ENGINE, ARGV, LOCAL, CMD, COUNT };
    static struct row rows[COUNT] = {
        [BARE] = {"posix_spawn", bare, 1},
        [ENGINE] = {"live sandbox, in process", engine_warm, 1,
                    .ratios = {{OF(BARE), AT_MOST(1.25),
                                "warm command in process, against posix_spawn"}}},
        [ARGV] = {"live session, HTTP", boxd_argv, 1,
                  .ratios = {{OF(BARE), AT_MOST(1.3),
                              "warm command over HTTP, against posix_spawn"}}},
        [LOCAL] = {"the same, Unix socket", boxd_argv_local, 1, .ratios = {{OF(BARE)}}},
        [CMD] = {"the same as cmd (sh -lc)", boxd_cmd, 1, .ratios = {{OF(BARE)}}},
    };
    for (int i = ARGV; i < COUNT; i++)
        need_boxd(&rows[i]);
    engine_start();
    connect_boxd();
    rows_measure(rows, COUNT, bench.rounds);
    disconnect_boxd();
    engine_stop();
    rows_print("sh -c true, milliseconds", rows, COUNT);
}

void part_cold(void)
{
    enum { BARE, ENGINE, HTTP, FLAT, COUNT };
    static struct row rows[COUNT] = {
        [BARE] = {"posix_spawn", bare, 1},
        [ENGINE] = {"create + run + end, in process", engine_cold, 1,
                    .ratios = {{OF(BARE), AT_MOST(3.2),
                                "cold command in process, against posix_spawn"}}},
        [HTTP] = {"create + run + delete, HTTP", boxd_cold, 1,
                  .ratios = {{OF(BARE), AT_MOST(3),
                              "cold: create, run, delete over HTTP, against posix_spawn"}}},
        [FLAT] = {"the same in two requests", boxd_cold_flat, 1, .ratios = {{OF(BARE)}}},
    };
    need_boxd(&rows[HTTP]);
    need_boxd(&rows[FLAT]);
    engine_start();
    connect_boxd();
    rows_measure(rows, COUNT, bench.rounds);
    disconnect_boxd();
    engine_stop();
    rows_print("sh -c true, cold, milliseconds", rows, COUNT);
}

/* --- one-shot programs --- */

static char *box_argv[] = {NULL, (char *)"run", (char *)"--", (char *)"true", NULL};
static char *bwrap_argv[RIVAL_ARGS];
static char *nsjail_argv[RIVAL_ARGS];
static char *runc_argv[RIVAL_ARGS];

static void boxd_cold_true(void)
{
    session_create(&tcp, COLD);
    session_exec(&tcp, COLD, "{\"argv\":[\"true\"]}");
    session_delete(&tcp, COLD);
}

static void box_run(void)
{
    spawn_and_wait(box_argv);
}

static void bwrap(void)
{
    spawn_and_wait(bwrap_argv);
}

static void nsjail(void)
{
    spawn_and_wait(nsjail_argv);
}

static void runc(void)
{
    spawn_and_wait(runc_argv);
}

void part_one_shot(void)
{
    enum { HTTP, BOX, BWRAP, NSJAIL, RUNC, COUNT };
    static struct row rows[COUNT] = {
        [HTTP] = {"create + run + delete, HTTP", boxd_cold_true, 4},
        [BOX] = {"box run", box_run, 4, .ratios = {{OF(HTTP)}}},
        [BWRAP] = {"bwrap", bwrap, 4,
                   .ratios = {{OF(HTTP), MORE_THAN(1), "bwrap, against cold over HTTP"},
                              {OF(BOX), MORE_THAN(1), "bwrap, against box run"}}},
        [NSJAIL] = {"nsjail", nsjail, 4,
                    .ratios = {{OF(HTTP), MORE_THAN(1), "nsjail, against cold over HTTP"},
                               {OF(BOX), MORE_THAN(1), "nsjail, against box run"}}},
        [RUNC] = {"runc run", runc, 20,
                  .ratios = {{OF(HTTP), MORE_THAN(1)}, {OF(BOX), MORE_THAN(1)}}},
    };
    cleanup_free char *bundle = xasprintf("%s/bundle", bench.directory);
    box_argv[0] = (char *)bench.box;
    rows[BWRAP].missing = rival_bwrap(bwrap_argv) ? NULL : "not installed";
    rows[NSJAIL].missing = rival_nsjail(nsjail_argv) ? NULL : "not installed";
    rows[RUNC].missing = rival_runc(bundle, runc_argv) ? NULL : "not installed";
    need_boxd(&rows[HTTP]);
    connect_boxd();
    rows_measure(rows, COUNT, bench.rounds);
    disconnect_boxd();
    rows_print("true in a sandbox, milliseconds", rows, COUNT);
}

/* --- engines with a daemon, or like one --- */

static void docker_exec(void)
{
    spawn_and_wait(rival_docker_exec);
}

static void docker_run(void)
{
    spawn_and_wait(rival_docker_run);
}

static void podman_run(void)
{
    spawn_and_wait(rival_podman_run);
}

/* What docker leaves to be cleared up after it has answered is not to be billed to boxd. */
#define AFTER_DOCKER 10

void part_docker(void)
{
    enum { WARM, EXEC, EXEC_COUNT };
    enum { FRESH, RUN, PODMAN, RUN_COUNT };
    static struct row execs[EXEC_COUNT] = {
        [WARM] = {"live session, HTTP", boxd_argv, 1, .repeat = AFTER_DOCKER},
        [EXEC] = {"docker exec", docker_exec, 1,
                  .ratios = {{OF(WARM), AT_LEAST(80), "docker exec, against warm over HTTP"}}},
    };
    static struct row runs[RUN_COUNT] = {
        [FRESH] = {"create + run + delete, HTTP", boxd_cold, 1, .repeat = AFTER_DOCKER},
        [RUN] = {"docker run", docker_run, 1,
                 .ratios = {{OF(FRESH), .name = "docker run, against cold over HTTP"}}},
        [PODMAN] = {"podman run", podman_run, 1,
                    .ratios = {{OF(FRESH), .name = "podman run, against cold over HTTP"}}},
    };
    int rounds = bench.rounds / 20 > 5 ? bench.rounds / 20 : 5;
    execs[EXEC].missing = runs[RUN].missing = rival_docker_start();
    runs[PODMAN].missing = rival_podman_start();
    need_boxd(&execs[WARM]);
    need_boxd(&runs[FRESH]);
    connect_boxd();
    rows_measure(execs, EXEC_COUNT, rounds);
    rows_measure(runs, RUN_COUNT, rounds);
    disconnect_boxd();
    rival_docker_stop();
    rows_print("sh -c true, milliseconds", execs, EXEC_COUNT);
    rows_print("sh -c true, cold, milliseconds", runs, RUN_COUNT);
}
