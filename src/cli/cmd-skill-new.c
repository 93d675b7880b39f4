/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill new`: a skill of one file. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/run-report.h"
#include "cli/skill.h"
#include "skills/front.h"
#include "skills/skills.h"
#include "skills/text.h"

struct new_options {
    struct client_options client;
    const char *display_name;
    const char *description;
    const char *file;
};

OPTION_TEXT(apply_display_name, struct new_options, display_name)
OPTION_TEXT(apply_description, struct new_options, description)
OPTION_TEXT(apply_file, struct new_options, file)

static const struct option new_options[] = {
    {"description", 'd', "TEXT", "what it does, and when to use it", apply_description},
    {"display-name", 0, "TEXT", "what people see instead of its name", apply_display_name},
    {"file", 'f', "FILE", "the instructions; '-': from standard input", apply_file},
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

static int set_text(json_t *body, const char *key, const char *what, const char *text, size_t size,
                    struct error *err)
{
    if (json_object_set_new(body, key, json_stringn(text, size)) < 0)
        return error_set(err, ERROR_INVALID, "%s is not UTF-8", what);
    return 0;
}

/* A SKILL.md as it is would get a second head. */
static int check_instructions(const char *file, const char *text, size_t size, struct error *err)
{
    struct front_parts parts;
    front_split(text, size, &parts);
    if (!parts.present)
        return 0;
    error_set(err, ERROR_INVALID, "'%.200s' has front matter, and so is more than instructions",
              file);
    return error_hint(err, "box skill import DIR takes a directory with such a SKILL.md");
}

static int make_body(const struct new_options *options, const char *name, json_t **ret,
                     struct error *err)
{
    cleanup_json json_t *body = json_object();
    cleanup_free char *text = NULL;
    size_t size;
    if (set_text(body, "name", "the name", name, strlen(name), err) < 0)
        return -1;
    if (options->display_name &&
        set_text(body, "display_name", "the display name", options->display_name,
                 strlen(options->display_name), err) < 0)
        return -1;
    if (options->description &&
        set_text(body, "description", "the description", options->description,
                 strlen(options->description), err) < 0)
        return -1;
    if (options->file) {
        if (skill_read_input(options->file, SKILL_TEXT_MAX, &text, &size, err) < 0 ||
            check_instructions(options->file, text, size, err) < 0 ||
            set_text(body, "instructions", options->file, text, size, err) < 0)
            return -1;
    }
    *ret = steal_ptr(body);
    return 0;
}

static int new_body(struct client *client, void *target, const struct operands *words,
                    struct error *err)
{
    const struct new_options *options = target;
    json_t *body = NULL;
    cleanup_json json_t *answer = NULL;
    if (text_check_name(words->words[0], strlen(words->words[0]), err) < 0) {
        client->failure = EXIT_USAGE;
        return -1;
    }
    if (make_body(options, words->words[0], &body, err) < 0)
        return -1;
    if (client_connect(&options->client, client, err) < 0) {
        json_decref(body);
        return -1;
    }
    if (client_request(client, "POST", "/v1/skills", body, &answer, err) < 0)
        return client_skill_exists("take another name, change that one with box skill edit, or "
                                   "first remove it with box skill rm",
                                   err);
    if (options->client.json) {
        run_print_json(json_incref(answer), JSON_INDENT(2));
    } else {
        cleanup_free char *name = printable(client_text(json_object_get(answer, "skill"), "name"));
        puts(name);
    }
    return 0;
}

static int new_main(const struct verb *verb, int argc, char **argv)
{
    struct new_options options = {0};
    const struct verb_words want = {.min = 1, .max = 1, .unconnected = true};
    return client_main(verb, argc, argv, &options, want, new_body);
}

const struct verb verb_skill_new = {
    .name = "skill new",
    .arguments = "NAME [OPTION]...",
    .help = "Make a skill, with instructions or without.",
    .options = new_options,
    .run = new_main,
    .misuse = EXIT_USAGE,
};
