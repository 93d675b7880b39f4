/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill ls`: the skills there are. */
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run-report.h"
#include "cli/skill.h"

struct ls_options {
    struct client_options client;
    bool quiet;
};

OPTION_SWITCH(apply_quiet, struct ls_options, quiet)

static const struct option ls_options[] = {
    {"quiet", 'q', NULL, "names only", apply_quiet},
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

static void print_table(const json_t *skills)
{
    static const char *const headings[] = {"NAME", "~DESCRIPTION", ">AGE", "PYTHON", NULL};
    cleanup_table struct table table;
    table_init(&table, headings);
    for (size_t i = 0; i < json_array_size(skills); i++) {
        const json_t *skill = json_array_get(skills, i);
        char age[32];
        table_add(&table, client_text(skill, "name"));
        skill_add_description(&table, skill);
        format_since(client_text(skill, "updated_at"), age, sizeof age);
        table_add(&table, age);
        table_add(&table, json_is_true(json_object_get(skill, "python_project")) ? "yes" : "");
    }
    table_print(&table, table_width(STDOUT_FILENO), 0, "\n", stdout);
}

static int ls_body(struct client *client, void *target, const struct operands *words,
                   struct error *err)
{
    const struct ls_options *options = target;
    cleanup_json json_t *answer = NULL;
    (void)words;
    if (client_get(client, "/v1/skills", &answer, err) < 0)
        return -1;
    if (options->quiet)
        skill_print_names(json_object_get(answer, "skills"));
    else if (options->client.json)
        run_print_json(json_incref(answer), JSON_INDENT(2));
    else
        print_table(json_object_get(answer, "skills"));
    return 0;
}

static int ls_main(const struct verb *verb, int argc, char **argv)
{
    struct ls_options options = {0};
    return client_main(verb, argc, argv, &options, (struct verb_words){0}, ls_body);
}

const struct verb verb_skill_ls = {
    .name = "skill ls",
    .arguments = "[-q] [--json]",
    .help = "List skills, the newest first.",
    .options = ls_options,
    .run = ls_main,
    .misuse = EXIT_USAGE,
};
