/* SPDX-License-Identifier: Apache-2.0 */
/* `box run`: one command in a sandbox of its own, which ends with it.

   The spawner is forked as soon as the options are understood; while it looks at the machine, pipes
   and environment are made here. Signals keep their usual meaning until the command starts (this
   process dies, the spawner sees its socket close and clears up), and are the command's from then
   on. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/machine.h"
#include "cli/plan-json.h"
#include "cli/run-report.h"
#include "cli/session-exec.h"
#include "cli/terminal.h"
#include "core/fd.h"

struct run {
    const struct run_options *options;
    struct mount_policy policy;
    struct engine *engine;
    struct sandbox *sandbox;
    struct strings env;
    struct capture_pipes pipes;
    int signals;      /* a signalfd */
    unsigned endings; /* how often an end was asked for */
    int abandoned;    /* the signal that cut its output short, or 0 */
};

/* --- signals ---------------------------------------------------------------------------------- */

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static int open_signals(struct run *run, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
        sigaddset(&set, forwarded[i]);
    if (run->options->terminal)
        sigaddset(&set, SIGWINCH);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signals < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, errno, "cannot take signals");
    return 0;
}

/* The command decides what a signal means to it; who asks for an end twice means it. */
static bool on_signal(struct command *command, void *data)
{
    struct run *run = data;
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGWINCH) {
            if (command)
                terminal_resize(STDIN_FILENO, command->terminal);
            continue;
        }
        if (!command) {
            run->abandoned = number;
            return true;
        }
        if ((number == SIGINT || number == SIGTERM) && ++run->endings > 1)
            return true;
        command_signal(command, number);
    }
    return false;
}

/* --- before the command ----------------------------------------------------------------------- */

static int make_environment(struct run *run, struct error *err)
{
    const struct run_options *options = run->options;
    const char *term = options->terminal ? getenv("TERM") : NULL;
    environment_init(&run->env, options->terminal && !term ? "xterm" : term);
    for (size_t i = 0; i < options->env_files.count; i++) {
        if (environment_read(&run->env, options->env_files.items[i], environ, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < options->env.count; i++) {
        if (environment_set(&run->env, options->env.items[i], environ, err) < 0)
            return -1;
    }
    return 0;
}

/* The policy is about mounts only: without any, nobody is asked whose home is where. */
static void make_policy(struct run *run)
{
    const struct sandbox_spec *spec = &run->options->spec;
    struct facts facts;
    if (spec->mount_count == 0 && spec->ro_paths.count == 0)
        return;
    facts_gather(&facts);
    machine_policy(&facts, &run->policy);
    facts_release(&facts);
}

static int prepare(struct run *run, struct error *err)
{
    const struct run_options *options = run->options;
    if (options->terminal && !isatty(STDIN_FILENO))
        return error_set(err, ERROR_INVALID, "--tty needs a terminal, and standard input is none");
    make_policy(run);
    const struct spawner_config config = {.policy = run->policy};
    if (engine_open(&run->engine, &config, err) < 0)
        return -1;
    /* Not before the spawner is forked: what is ignored here would be ignored inside. */
    signal(SIGPIPE, SIG_IGN);
    if (make_environment(run, err) < 0)
        return -1;
    if (!options->terminal && capture_pipes_open(&run->pipes, options->interactive, err) < 0)
        return -1;
    return sandbox_begin(run->engine, &options->spec, &run->sandbox, err);
}

/* A line each. */
static void print_notes(const struct sandbox *sandbox)
{
    for (const char *at = sandbox_notes(sandbox); *at;) {
        int length = (int)strcspn(at, "\n");
        fprintf(stderr, "box: note: %.*s\n", length, at);
        at += length + (at[length] != '\0');
    }
}

/* --- the command ------------------------------------------------------------------------------ */

static int start(struct run *run, struct command *ret, struct error *err)
{
    const struct run_options *options = run->options;
    struct winsize size = {0};
    struct command_request request = {
        .argv = options->command,
        .envp = run->env.items,
        .cwd = options->workdir ? options->workdir : SPEC_WORKSPACE,
        .make_cwd = true,
        .terminal = options->terminal,
    };
    if (options->terminal && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) {
        request.rows = size.ws_row;
        request.columns = size.ws_col;
    }
    memcpy(request.fds, run->pipes.command, sizeof request.fds);
    return command_start(run->sandbox, &request, ret, err);
}

static int see_through(struct run *run, struct command *command, struct capture_result *ret,
                       struct error *err)
{
    const struct run_options *options = run->options;
    struct capture_options capture = CAPTURE_OPTIONS_INIT;
    capture.pipes = options->terminal ? NULL : &run->pipes;
    capture.timeout_ms = options->timeout_ms;
    capture.watch_fd = run->signals;
    capture.on_watch = on_signal;
    capture.data = run;
    if (options->interactive || options->terminal)
        capture.input_fd = STDIN_FILENO;
    if (!options->client.json) {
        capture.output_fd = STDOUT_FILENO;
        capture.error_fd = STDERR_FILENO;
    }
    if (options->terminal && terminal_raw(STDIN_FILENO, err) < 0) {
        command_kill(command);
        return -1;
    }
    int rc = capture_run(command, &capture, ret, err);
    terminal_restore();
    return rc;
}

static int print_result(const struct sandbox_spec *spec, const struct capture_result *result,
                        struct error *err)
{
    struct plan plan;
    if (machine_plan(spec, &plan, err) < 0)
        return -1;
    run_print_json(run_result_to_json(result, &plan, spec), JSON_COMPACT);
    plan_release(&plan);
    return 0;
}

/* 0 with the exit status, or -1; *ret_status is then that of the failure. */
static int execute(struct run *run, int *ret_status, struct error *err)
{
    const struct run_options *options = run->options;
    struct command command;
    struct capture_result result = {0};
    *ret_status = EXIT_BOXD;
    if (prepare(run, err) < 0)
        return -1;
    if (!options->quiet && !options->client.json)
        print_notes(run->sandbox);
    if (open_signals(run, err) < 0)
        return -1;
    if (start(run, &command, err) < 0) {
        *ret_status = sandbox_failed(run->sandbox) ? EXIT_BOXD : run_start_status(err);
        return -1;
    }
    if (see_through(run, &command, &result, err) < 0)
        return -1;
    int rc = options->client.json ? print_result(&options->spec, &result, err) : 0;
    if (!options->client.json && !options->quiet)
        run_explain(options, &result, stderr);
    if (rc == 0)
        *ret_status = run->abandoned ? EXIT_SIGNAL + run->abandoned : run_exit_status(&result);
    capture_result_release(&result);
    return rc;
}

static void finish(struct run *run)
{
    capture_pipes_close(&run->pipes);
    engine_leave(run->engine);
    fd_clear(&run->signals);
    strings_release(&run->env);
    strings_release(&run->policy.allowed_roots);
}

/* --- the verb --------------------------------------------------------------------------------- */

static int print_plan(const struct sandbox_spec *spec, struct error *err)
{
    struct plan plan;
    if (machine_plan(spec, &plan, err) < 0)
        return -1;
    run_print_json(plan_to_json(&plan, spec), JSON_INDENT(2));
    plan_release(&plan);
    return 0;
}

/* The same command line, for a session that outlives the command. */
static int run_in_session(struct run_options *options, struct error *err)
{
    struct client client = {0};
    int status = -1;
    options->create = true;
    if (client_connect(&options->client, &client, err) == 0)
        status = session_exec(&client, options, err);
    if (status < 0)
        status =
            run_fail(options->client.json, NULL, err, client.failure ? client.failure : EXIT_BOXD);
    client_disconnect(&client);
    return status;
}

static int run_main(const struct verb *verb, int argc, char **argv)
{
    struct run_options options;
    struct run run = {.options = &options,
                      .pipes = {.command = {-1, -1, -1}, .own = {-1, -1, -1}},
                      .signals = -1};
    struct error err = ERROR_INIT;
    int rest = argc;
    int status = 0;
    run_options_init(&options);
    int rc = options_parse(verb, argc, argv, &options, &rest, &err);
    options.command = argv + rest;
    if (rc == OPTIONS_HELP)
        options_help(verb, stdout);
    else if (rc < 0 || run_options_check(&options, &err) < 0)
        status = run_fail(cli_asks_for_json(argc, argv), verb->name, &err, EXIT_BOXD);
    else if (options.session)
        status = run_in_session(&options, &err);
    else if (options.plan && print_plan(&options.spec, &err) < 0)
        status = run_fail(options.client.json, NULL, &err, EXIT_BOXD);
    else if (!options.plan) {
        if (execute(&run, &status, &err) < 0)
            run_fail(options.client.json, NULL, &err, status);
        finish(&run);
    }
    run_options_release(&options);
    return status;
}

const struct verb verb_run = {
    .name = "run",
    .arguments = "[OPTION]... [--] COMMAND [ARG]...",
    .help = "Run a command in a sandbox of its own.",
    .options = run_option_table,
    .run = run_main,
};
