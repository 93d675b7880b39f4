/* SPDX-License-Identifier: Apache-2.0 */
/* The engine in the benchmark's own process, without a daemon. */
#include "engine.h"

#include <poll.h>
#include <stddef.h>

#include "common.h"
#include "core/mem.h"
#include "sandbox/engine.h"

static char *const shell[] = {(char *)"sh", (char *)"-c", (char *)"true", NULL};
static char *const command_env[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
static struct engine *engine;
static struct sandbox *live;
static struct sandbox_spec spec;

static void fail(const char *what, const struct error *err)
{
    bench_fail("%s: %s%s%s", what, err->message, err->hint[0] ? "\n  fix: " : "", err->hint);
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
    if (outcome.exit_code != 0)
        bench_fail("the command failed inside");
}

void engine_start(void)
{
    static struct spawner_config config = {.ready = 4};
    struct error err = ERROR_INIT;
    config.init_binary = xasprintf("%s-init", bench.box);
    if (engine_open(&engine, &config, &err) < 0)
        fail("engine", &err);
    sandbox_spec_init(&spec);
    if (sandbox_create(engine, &spec, &live, &err) < 0)
        fail("create", &err);
    spec.single = true; /* as `box run` has it, from here on */
}

void engine_stop(void)
{
    engine_close(engine);
    engine = NULL;
}

void engine_warm(void)
{
    run_in(live);
}

void engine_cold(void)
{
    struct sandbox *sandbox;
    struct error err = ERROR_INIT;
    if (sandbox_begin(engine, &spec, &sandbox, &err) < 0)
        fail("create", &err);
    run_in(sandbox);
    if (sandbox_destroy(sandbox, &err) < 0)
        fail("destroy", &err);
}
