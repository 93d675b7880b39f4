/* SPDX-License-Identifier: Apache-2.0 */
/* `box rm`: ends sessions and all that is in them. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/run-report.h"
#include "cli/table.h"

#define WORDS_MAX 100000

struct rm_options {
    struct client_options client;
    bool all;
    const char *prefix;
};

OPTION_SWITCH(apply_all, struct rm_options, all)
OPTION_TEXT(apply_prefix, struct rm_options, prefix)

static const struct option rm_options[] = {
    {"all", 0, NULL, "every session there is", apply_all},
    {"prefix", 0, "P", "sessions whose names begin so", apply_prefix},
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

static int choose(struct client *client, const struct rm_options *options,
                  const struct operands *words, struct strings *ret, struct error *err)
{
    cleanup_json json_t *sessions = NULL;
    int kinds = (words->count > 0) + options->all + (options->prefix != NULL);
    if (kinds != 1) {
        error_set(err, ERROR_INVALID,
                  kinds ? "names, --all and --prefix: one of them at a time" : "which sessions?");
        return error_hint(err, "box rm SESSION..., box rm --prefix P, or box rm --all");
    }
    if (options->prefix && !options->prefix[0])
        return error_set(err, ERROR_INVALID, "every name begins with nothing: use --all");
    for (int i = 0; i < words->count; i++)
        strings_add(ret, words->words[i]);
    if (words->count > 0)
        return 0;
    if (client_sessions(client, options->prefix, &sessions, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(sessions); i++)
        strings_add(ret, client_text(json_array_get(sessions, i), "session_id"));
    return 0;
}

/* One that went by itself is what was wanted, unless it was named. */
static int rm_body(struct client *client, void *target, const struct operands *words,
                   struct error *err)
{
    const struct rm_options *options = target;
    cleanup_strings struct strings names = {0};
    cleanup_json json_t *deleted = json_array();
    cleanup_json json_t *failed = json_array();
    if (choose(client, options, words, &names, err) < 0)
        return -1;
    for (size_t i = 0; i < names.count; i++) {
        cleanup_free char *where = client_target("/v1/sessions/%s", names.items[i]);
        cleanup_free char *name = printable(names.items[i]);
        struct error why = ERROR_INIT;
        if (client_request(client, "DELETE", where, NULL, NULL, &why) == 0) {
            json_array_append_new(deleted, json_string(names.items[i]));
            if (!options->client.json)
                puts(name);
        } else if (why.code != ERROR_NO_SESSION || words->count > 0) {
            json_array_append_new(failed, run_error_to_json(&why));
            if (!options->client.json)
                cli_fail("rm", &why);
        }
    }
    int status = json_array_size(failed) > 0 ? EXIT_BOXD : 0;
    if (options->client.json)
        run_print_json(json_pack("{s:O,s:O}", "deleted", deleted, "failed", failed), JSON_COMPACT);
    return status;
}

static int rm_main(const struct verb *verb, int argc, char **argv)
{
    struct rm_options options = {0};
    const struct verb_words want = {.max = WORDS_MAX};
    return client_main(verb, argc, argv, &options, want, rm_body);
}

const struct verb verb_rm = {
    .name = "rm",
    .arguments = "SESSION... | --prefix P | --all",
    .help = "End sessions and everything in them.",
    .options = rm_options,
    .run = rm_main,
};
