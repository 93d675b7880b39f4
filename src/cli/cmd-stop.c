/* SPDX-License-Identifier: Apache-2.0 */
/* `box stop`: ends a managed process gently, and waits for it. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/run-report.h"

static const struct option stop_options[] = {CLIENT_OPTION_JSON, CLIENT_OPTIONS, {0}};

static int stop_body(struct client *client, void *data, const struct operands *words,
                     struct error *err)
{
    const struct client_options *options = data;
    json_t *answer = NULL;
    const char *id = words->count > 1 ? words->words[1] : "default";
    cleanup_free char *target = client_target("/v1/sessions/%s/processes/%s", words->words[0], id);
    if (client_request(client, "DELETE", target, NULL, &answer, err) < 0)
        return -1;
    if (options->json) {
        run_print_json(answer, JSON_COMPACT);
        return 0;
    }
    puts(id);
    json_decref(answer);
    return 0;
}

static int stop_main(const struct verb *verb, int argc, char **argv)
{
    struct client_options options = {0};
    const struct verb_words want = {.min = 1, .max = 2};
    return client_main(verb, argc, argv, &options, want, stop_body);
}

const struct verb verb_stop = {
    .name = "stop",
    .arguments = "SESSION [PROCESS]",
    .help = "Stop a process: SIGTERM, and SIGKILL five seconds later.",
    .options = stop_options,
    .run = stop_main,
};
