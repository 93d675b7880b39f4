/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill import`: a directory of ours becomes a skill of boxd's. It goes there as an archive,
   because boxd cannot and should not read the caller's files. */
#include <string.h>

#include "cli/cli.h"
#include "cli/run-report.h"
#include "cli/skill.h"
#include "cli/skill-pack.h"
#include "skills/text.h"

struct import_options {
    struct client_options client;
    const char *name;
};

OPTION_TEXT(apply_name, struct import_options, name)

static const struct option import_options[] = {
    {"name", 0, "WORD", "what to call it, instead of what its SKILL.md says", apply_name},
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

static int send_pack(struct client *client, const struct skill_pack *pack, json_t **ret,
                     struct error *err)
{
    cleanup_free char *filename = xasprintf("%s.zip", pack->name);
    const struct skill_upload upload = {
        .data = pack->archive.out.data, .size = pack->archive.out.size, .filename = filename};
    return client_skill_upload(client, &upload, true, ret, err);
}

static int import_body(struct client *client, void *target, const struct operands *words,
                       struct error *err)
{
    const struct import_options *options = target;
    cleanup_skill_pack struct skill_pack pack = {.name = NULL};
    cleanup_json json_t *skills = NULL;
    if (options->name && text_check_name(options->name, strlen(options->name), err) < 0) {
        client->failure = EXIT_USAGE;
        return error_wrap(err, "--name");
    }
    if (skill_pack_make(words->words[0], options->name, &pack, err) < 0 ||
        client_connect(&options->client, client, err) < 0)
        return -1;
    if (send_pack(client, &pack, &skills, err) < 0)
        return client_skill_exists("call this one something else with --name, or first remove "
                                   "the other with box skill rm",
                                   err);
    if (options->client.json)
        run_print_json(json_pack("{s:O}", "skills", skills), JSON_INDENT(2));
    else
        skill_print_names(skills);
    /* Everything else is there: less than a failure, and no success. */
    return pack.skipped > 0 ? 1 : 0;
}

static int import_main(const struct verb *verb, int argc, char **argv)
{
    struct import_options options = {0};
    const struct verb_words want = {.min = 1, .max = 1, .unconnected = true};
    return client_main(verb, argc, argv, &options, want, import_body);
}

const struct verb verb_skill_import = {
    .name = "skill import",
    .arguments = "DIR [--name WORD]",
    .help = "Copy a directory with a SKILL.md into boxd's store.",
    .options = import_options,
    .run = import_main,
    .misuse = EXIT_USAGE,
};
