/* SPDX-License-Identifier: Apache-2.0 */
/* `box exec`: one command in a session that is there. */
#include "cli/cli.h"
#include "cli/session-exec.h"

static int exec_body(struct client *client, void *target, const struct operands *words,
                     struct error *err)
{
    struct run_options *options = target;
    options->session = words->words[0];
    options->command = words->rest;
    if (options->skills.count > 0 && !options->create) {
        error_set(err, ERROR_INVALID,
                  "--skill describes a session that is made if it is not there");
        return error_hint(err, "box exec %.64s --create --skill ...", options->session);
    }
    int status = session_exec(client, options, err);
    if (status < 0 && err->code == ERROR_NO_SESSION && !options->create)
        error_hint(err, "box exec --create makes it; box ps lists those there are");
    return status;
}

static int exec_main(const struct verb *verb, int argc, char **argv)
{
    const struct verb_words want = {.min = 1, .max = 1, .command = COMMAND_NEEDED};
    struct run_options options;
    run_options_init(&options);
    int status = client_main(verb, argc, argv, &options, want, exec_body);
    run_options_release(&options);
    return status;
}

const struct verb verb_exec = {
    .name = "exec",
    .arguments = "SESSION [OPTION]... [--] COMMAND [ARG]...",
    .help = "Run a command in a session, and wait for it.",
    .options = exec_option_table,
    .run = exec_main,
};
