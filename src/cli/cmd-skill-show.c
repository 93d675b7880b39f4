/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill show`: a skill, or a file of it, for people to read. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/plan-json.h"
#include "cli/run-report.h"
#include "cli/skill.h"
#include "core/fd.h"
#include "skills/front.h"

#define FILES_MAX    1000 /* nobody reads more */
#define DEPTH_MAX    40
#define CONTENT_MAX  (64u << 20) /* of a file that is kept whole */
#define LABEL_FORMAT "%-14s "

static const struct option show_options[] = {CLIENT_OPTION_JSON, CLIENT_OPTIONS, {0}};

/* --- its files ----------------------------------------------------------------------------------
 */

/* What is below `path`, directories followed by what is in them. */
static int list_files(struct client *client, const char *name, const char *path, unsigned depth,
                      json_t *files, struct error *err)
{
    cleanup_json json_t *answer = NULL;
    cleanup_free char *target =
        client_target("/v1/skills/%s/files?path=%s&max_entries=1000", name, path);
    if (client_get(client, target, &answer, err) < 0)
        return -1;
    const json_t *entries = json_object_get(answer, "entries");
    for (size_t i = 0; i < json_array_size(entries) && json_array_size(files) < FILES_MAX; i++) {
        json_t *entry = json_array_get(entries, i);
        json_array_append(files, entry);
        if (depth < DEPTH_MAX && json_is_true(json_object_get(entry, "is_dir")) &&
            list_files(client, name, client_text(entry, "path"), depth + 1, files, err) < 0)
            return -1;
    }
    return 0;
}

static void print_files(const json_t *files)
{
    puts("Files:");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *entry = json_array_get(files, i);
        cleanup_free char *path = printable(client_text(entry, "path"));
        char size[32];
        format_size(client_number(entry, "size"), size, sizeof size);
        if (json_is_true(json_object_get(entry, "is_dir")))
            printf("  %8s  %s/\n", "", path);
        else
            printf("  %8s  %s\n", size, path);
    }
    if (json_array_size(files) >= FILES_MAX)
        puts("  ...");
}

/* --- its fields ---------------------------------------------------------------------------------
 */

static void print_field(const char *label, const char *text)
{
    cleanup_free char *name = xasprintf("%s:", label);
    cleanup_free char *clean_name = printable(name);
    cleanup_free char *clean = printable(text);
    printf(LABEL_FORMAT "%s\n", clean_name, clean);
}

static bool is_shown(const char *key)
{
    static const char *const keys[] = {"name", "display_name", "description"};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (strcmp(keys[i], key) == 0)
            return true;
    }
    return false;
}

/* What else the front matter says. boxd keeps it, and does not read it. */
static void print_others(const char *text, size_t size)
{
    struct front_parts parts;
    cleanup_value struct value *meta = NULL;
    struct error ignored = ERROR_INIT;
    unsigned line;
    front_split(text, size, &parts);
    if (!parts.present ||
        value_parse(text + parts.yaml, parts.closing - parts.yaml, &meta, &line, &ignored) < 0 ||
        !meta || meta->kind != VALUE_MAP)
        return;
    for (size_t i = 0; i < meta->count; i += 2) {
        const struct value *key = meta->items[i];
        size_t length;
        if (!key->text || is_shown(key->text))
            continue;
        cleanup_free char *value = value_str(meta->items[i + 1], &length, &ignored);
        print_field(key->text, value ? value : "?");
    }
}

static void print_fields(const json_t *skill, const char *text, size_t size)
{
    const char *name = client_text(skill, "name");
    const char *display_name = client_text(skill, "display_name");
    char age[32];
    print_field("name", name);
    if (strcmp(display_name, name) != 0)
        print_field("display_name", display_name);
    print_field("description", client_text(skill, "description"));
    print_others(text, size);
    format_since(client_text(skill, "updated_at"), age, sizeof age);
    cleanup_free char *updated = xasprintf("%s (%s ago)", client_text(skill, "updated_at"), age);
    print_field("updated", updated);
    if (json_is_true(json_object_get(skill, "python_project")))
        print_field("python", "a project, with requirements of its own");
    print_field("directory", client_text(skill, "package_root"));
}

/* --- a skill ------------------------------------------------------------------------------------
 */

static int show_skill(struct client *client, const char *name, bool json, struct error *err)
{
    cleanup_json json_t *skill = NULL;
    cleanup_json json_t *files = json_array();
    cleanup_free char *text = NULL;
    size_t size = 0;
    if (client_skill(client, name, &skill, err) < 0 ||
        list_files(client, name, ".", 0, files, err) < 0)
        return -1;
    if (json) {
        run_print_json(json_pack("{s:O,s:O}", "skill", skill, "files", files), JSON_INDENT(2));
        return 0;
    }
    if (client_skill_text(client, name, client_text(skill, "entry_file"), &text, &size, err) < 0)
        return -1;
    print_fields(skill, text, size);
    print_files(files);
    const json_t *instructions = json_object_get(skill, "instructions");
    size_t length = json_string_length(instructions);
    if (length > 0) {
        putchar('\n');
        print_text(json_string_value(instructions), length, stdout);
        if (json_string_value(instructions)[length - 1] != '\n')
            putchar('\n');
    }
    return 0;
}

/* --- a file -------------------------------------------------------------------------------------
 */

static int to_output(const char *piece, size_t size, void *data)
{
    (void)data;
    return fd_write_all(STDOUT_FILENO, piece, size);
}

/* Whether it is the file that is missing, or all of it. */
static int explain(struct client *client, const char *name, struct error *err)
{
    cleanup_json json_t *skill = NULL;
    struct error why = ERROR_INIT;
    if (err->code != ERROR_NOT_FOUND)
        return -1;
    if (client_skill(client, name, &skill, &why) == 0)
        return error_hint(err, "box skill show %.64s lists its files", name);
    *err = why;
    return -1;
}

static int show_file(struct client *client, const char *name, const char *path, bool json,
                     struct error *err)
{
    cleanup_free char *target = client_skill_target(name, path);
    cleanup_free char *content = NULL;
    const struct http_call call = {.target = target};
    size_t size;
    if (client_call(client, &call, err) < 0)
        return explain(client, name, err);
    if (!json && !isatty(STDOUT_FILENO))
        return http_client_copy(client->http, to_output, NULL, err);
    if (http_client_read_all(client->http, CONTENT_MAX, &content, &size, err) < 0)
        return -1;
    if (json)
        run_print_json(json_pack("{s:{s:s},s:o,s:I,s:o}", "skill", "name", name, "path",
                                 json_text(path, strlen(path)), "size", (json_int_t)size, "content",
                                 json_text(content, size)),
                       JSON_INDENT(2));
    else
        print_text(content, size, stdout);
    return 0;
}

static int show_body(struct client *client, void *target, const struct operands *words,
                     struct error *err)
{
    bool json = ((const struct client_options *)target)->json;
    if (words->count == 1)
        return show_skill(client, words->words[0], json, err);
    return show_file(client, words->words[0], words->words[1], json, err);
}

static int show_main(const struct verb *verb, int argc, char **argv)
{
    struct client_options options = {0};
    const struct verb_words want = {.min = 1, .max = 2};
    return client_main(verb, argc, argv, &options, want, show_body);
}

const struct verb verb_skill_show = {
    .name = "skill show",
    .arguments = "NAME [FILE] [--json]",
    .help = "Show a skill and what is in it, or one of its files.",
    .options = show_options,
    .run = show_main,
    .misuse = EXIT_USAGE,
};
