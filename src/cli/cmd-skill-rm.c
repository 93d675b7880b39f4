/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill rm`: removes skills, each with its whole directory. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/run-report.h"
#include "cli/skill.h"

#define WORDS_MAX 100000

static const struct option rm_options[] = {CLIENT_OPTION_JSON, CLIENT_OPTIONS, {0}};

static int rm_body(struct client *client, void *target, const struct operands *words,
                   struct error *err)
{
    bool json = ((const struct client_options *)target)->json;
    cleanup_json json_t *deleted = json_array();
    cleanup_json json_t *failed = json_array();
    (void)err;
    for (int i = 0; i < words->count; i++) {
        cleanup_free char *where = client_target("/v1/skills/%s", words->words[i]);
        cleanup_free char *name = printable(words->words[i]);
        struct error why = ERROR_INIT;
        if (client_request(client, "DELETE", where, NULL, NULL, &why) == 0) {
            json_array_append_new(deleted, json_string(words->words[i]));
            if (!json)
                puts(name);
            continue;
        }
        client_skill_missing(&why);
        json_array_append_new(failed, run_error_to_json(&why));
        if (!json)
            cli_fail("skill rm", &why);
    }
    if (json)
        run_print_json(json_pack("{s:O,s:O}", "deleted", deleted, "failed", failed), JSON_COMPACT);
    return json_array_size(failed) > 0 ? EXIT_BOXD : 0;
}

static int rm_main(const struct verb *verb, int argc, char **argv)
{
    struct client_options options = {0};
    const struct verb_words want = {.min = 1, .max = WORDS_MAX};
    return client_main(verb, argc, argv, &options, want, rm_body);
}

const struct verb verb_skill_rm = {
    .name = "skill rm",
    .arguments = "NAME...",
    .help = "Remove skills and everything in their directories.",
    .options = rm_options,
    .run = rm_main,
    .misuse = EXIT_USAGE,
};
