/* SPDX-License-Identifier: Apache-2.0 */
/* `box inspect`: all that boxd says of a session, or of a process in it. */
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/run-report.h"

/* It prints JSON in any case: --json is taken for the sake of habit. */
static const struct option inspect_options[] = {CLIENT_OPTION_JSON, CLIENT_OPTIONS, {0}};

static int inspect_body(struct client *client, void *options, const struct operands *words,
                        struct error *err)
{
    json_t *info = NULL;
    cleanup_free char *target =
        words->count == 1
            ? client_target("/v1/sessions/%s", words->words[0])
            : client_target("/v1/sessions/%s/processes/%s", words->words[0], words->words[1]);
    (void)options;
    if (client_get(client, target, &info, err) < 0)
        return -1;
    run_print_json(info, JSON_INDENT(2));
    return 0;
}

static int inspect_main(const struct verb *verb, int argc, char **argv)
{
    struct client_options options = {0};
    const struct verb_words want = {.min = 1, .max = 2};
    return client_main(verb, argc, argv, &options, want, inspect_body);
}

const struct verb verb_inspect = {
    .name = "inspect",
    .arguments = "SESSION [PROCESS]",
    .help = "Show all about a session or a process, as JSON.",
    .options = inspect_options,
    .run = inspect_main,
};
