/* SPDX-License-Identifier: Apache-2.0 */
/* `box start`: a process that goes on in a session after this command has returned. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/run-options.h"
#include "cli/run-report.h"
#include "cli/session-exec.h"
#include "cli/table.h"

#define MIB (1024u * 1024)

static int make_body(const struct run_options *options, char **command, json_t **ret,
                     struct error *err)
{
    cleanup_json json_t *body = json_object();
    json_t *args = json_array();
    json_t *env = NULL;
    int bad = json_object_set_new(body, "command", json_string(command[0]));
    for (size_t i = 1; command[i]; i++)
        bad |= json_array_append_new(args, json_string(command[i]));
    json_object_set_new(body, "args", args);
    if (options->process_id)
        bad |= json_object_set_new(body, "process_id", json_string(options->process_id));
    if (options->workdir)
        bad |= json_object_set_new(body, "cwd", json_string(options->workdir));
    if (bad)
        return error_set(err, ERROR_INVALID,
                         "a word of the command is not UTF-8, which boxd needs");
    if (options->spec.asked & SPEC_ASKED_MEMORY) {
        uint64_t bytes = options->spec.memory_bytes;
        uint64_t mebibytes = bytes / MIB + (bytes % MIB != 0);
        json_object_set_new(body, "memory_mb", json_integer((json_int_t)mebibytes));
    }
    if (run_options_env(options, &env, err) < 0)
        return -1;
    json_object_set_new(body, "env", env);
    *ret = steal_ptr(body);
    return 0;
}

static int start_body(struct client *client, void *data, const struct operands *words,
                      struct error *err)
{
    const struct run_options *options = data;
    const char *session = words->words[0];
    json_t *body = NULL;
    json_t *info = NULL;
    cleanup_free char *target = client_target("/v1/sessions/%s/processes", session);
    if (options->create && client_ensure_session(client, session, NULL, err) < 0)
        return -1;
    if (make_body(options, words->rest, &body, err) < 0)
        return -1;
    if (client_request(client, "POST", target, body, &info, err) < 0) {
        client->failure = exec_failure_status(err);
        return -1;
    }
    if (options->client.json) {
        run_print_json(info, JSON_INDENT(2));
        return 0;
    }
    cleanup_free char *id = printable(client_text(info, "process_id"));
    puts(id);
    json_decref(info);
    return 0;
}

static int start_main(const struct verb *verb, int argc, char **argv)
{
    const struct verb_words want = {.min = 1, .max = 1, .command = COMMAND_NEEDED};
    struct run_options options;
    run_options_init(&options);
    int status = client_main(verb, argc, argv, &options, want, start_body);
    run_options_release(&options);
    return status;
}

const struct verb verb_start = {
    .name = "start",
    .arguments = "SESSION [OPTION]... [--] COMMAND [ARG]...",
    .help = "Start a process that goes on in a session by itself.",
    .options = start_option_table,
    .run = start_main,
};
