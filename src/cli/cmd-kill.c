/* SPDX-License-Identifier: Apache-2.0 */
/* `box kill`: a signal to a managed process. */
#include <signal.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/run-report.h"
#include "cli/session-exec.h"
#include "core/parse.h"

struct kill_options {
    struct client_options client;
    int number;
};

static int apply_signal(void *target, const char *value, struct error *err)
{
    uint64_t number = (uint64_t)exec_signal_number(value);
    if (number == 0 && (parse_u64(value, NSIG - 1, &number) < 0 || number == 0))
        return error_set(err, ERROR_INVALID, "'%.64s' is no signal, such as TERM, SIGHUP or 9",
                         value);
    ((struct kill_options *)target)->number = (int)number;
    return 0;
}

static const struct option kill_options[] = {
    {"signal", 's', "SIG", "which: a name or a number (default TERM)", apply_signal},
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

static int kill_body(struct client *client, void *data, const struct operands *words,
                     struct error *err)
{
    const struct kill_options *options = data;
    json_t *answer = NULL;
    cleanup_free char *target =
        client_target("/v1/sessions/%s/processes/%s/signal", words->words[0], words->words[1]);
    json_t *body = json_pack("{s:i}", "signal", options->number);
    if (client_request(client, "POST", target, body, &answer, err) < 0)
        return -1;
    if (options->client.json)
        run_print_json(answer, JSON_COMPACT);
    else
        json_decref(answer);
    return 0;
}

static int kill_main(const struct verb *verb, int argc, char **argv)
{
    struct kill_options options = {.number = SIGTERM};
    const struct verb_words want = {.min = 2, .max = 2};
    return client_main(verb, argc, argv, &options, want, kill_body);
}

const struct verb verb_kill = {
    .name = "kill",
    .arguments = "SESSION PROCESS [-s SIG]",
    .help = "Send a signal to a process.",
    .options = kill_options,
    .run = kill_main,
};
