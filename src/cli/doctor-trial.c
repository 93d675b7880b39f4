/* SPDX-License-Identifier: Apache-2.0 */
/* The check that counts: a session made, a command run in it, all of it gone again. */
#include "cli/doctor.h"
#include "core/clock.h"
#include "sandbox/capture.h"
#include "sandbox/engine.h"

/* A machine that takes longer is not well. */
#define TRIAL_MS 10000

static int run_true(struct sandbox *sandbox, struct outcome *ret, struct error *err)
{
    char *const argv[] = {(char *)"true", NULL};
    char *const envp[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    struct command_request request = {.argv = argv, .envp = envp, .cwd = SPEC_WORKSPACE};
    struct capture_options options = CAPTURE_OPTIONS_INIT;
    struct capture_result result;
    struct capture_pipes pipes;
    struct command command;
    if (capture_pipes_open(&pipes, false, err) < 0)
        return -1;
    for (int i = 0; i < 3; i++)
        request.fds[i] = pipes.command[i];
    options.pipes = &pipes;
    options.timeout_ms = TRIAL_MS;
    int rc = command_start(sandbox, &request, &command, err);
    if (rc == 0)
        rc = capture_run(&command, &options, &result, err);
    capture_pipes_close(&pipes);
    if (rc < 0)
        return -1;
    *ret = result.outcome;
    capture_result_release(&result);
    return 0;
}

static int try_session(struct engine *engine, struct outcome *ret, struct error *err)
{
    struct sandbox_spec spec;
    struct sandbox *sandbox;
    sandbox_spec_init(&spec);
    spec.single = true;
    int rc = sandbox_create(engine, &spec, &sandbox, err);
    if (rc == 0) {
        rc = run_true(sandbox, ret, err);
        sandbox_destroy(sandbox, NULL);
    }
    sandbox_spec_release(&spec);
    return rc;
}

void look_at_session(const struct machine *machine, struct finding *ret)
{
    const struct spawner_config config = {.policy = machine->policy};
    struct engine *engine;
    struct outcome outcome = {.exit_code = -1};
    struct error err = ERROR_INIT;
    uint64_t start = clock_monotonic_us();
    int rc = engine_open(&engine, &config, &err);
    if (rc == 0) {
        rc = try_session(engine, &outcome, &err);
        engine_close(engine);
    }
    if (rc == 0 && outcome.exit_code == 0) {
        finding_set(ret, CHECK_OK, "made, ran true, gone again: %.1f ms",
                    (double)(clock_monotonic_us() - start) / 1000);
        return;
    }
    finding_set(ret, CHECK_FAIL, "%s", rc < 0 ? err.message : "true did not succeed inside");
    finding_fix(ret, "%s", err.hint);
}
