/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill install`: skills from a zip archive. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/run-report.h"
#include "cli/skill.h"
#include "core/utf8.h"
#include "skills/skills.h"

struct install_options {
    struct client_options client;
    struct strings paths;
    const char *subdir;
    bool dry_run;
};

OPTION_TEXT(apply_subdir, struct install_options, subdir)
OPTION_SWITCH(apply_dry_run, struct install_options, dry_run)

static int apply_path(void *target, const char *value, struct error *err)
{
    (void)err;
    /* The top of an archive has no name there. */
    strings_add(&((struct install_options *)target)->paths, strcmp(value, ".") == 0 ? "" : value);
    return 0;
}

static const struct option install_options[] = {
    {"path", 0, "P", "the skill at this place in the archive; may be repeated", apply_path},
    {"subdir", 0, "D", "look below this directory of the archive only", apply_subdir},
    {"dry-run", 'n', NULL, "say what is in the archive, and install nothing", apply_dry_run},
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

/* --- the archive --------------------------------------------------------------------------------
 */

static int read_archive(const char *path, char **ret, size_t *ret_size, struct error *err)
{
    struct stat st;
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        error_set(err, ERROR_INVALID, "'%.200s' is a directory", path);
        return error_hint(err, "box skill import takes a directory");
    }
    if (skill_read_input(path, SKILL_ARCHIVE_MAX, ret, ret_size, err) < 0)
        return -1;
    if (*ret_size < 4 || memcmp(*ret, "PK", 2) != 0) {
        error_set(err, ERROR_INVALID, "'%.200s' %s", path,
                  *ret_size == 0 ? "is empty" : "is no zip archive");
        return error_hint(err, "box skill export writes such archives, and so does zip(1)");
    }
    return 0;
}

/* --- what is in it ------------------------------------------------------------------------------
 */

static void print_found(const json_t *skills, FILE *out)
{
    static const char *const headings[] = {"PATH", "NAME", "~DESCRIPTION", NULL};
    cleanup_table struct table table;
    table_init(&table, headings);
    for (size_t i = 0; i < json_array_size(skills); i++) {
        const json_t *skill = json_array_get(skills, i);
        const char *path = client_text(skill, "source_path");
        table_add(&table, path[0] ? path : ".");
        table_add(&table, client_text(skill, "name"));
        skill_add_description(&table, skill);
    }
    table_print(&table, table_width(fileno(out)), 0, "\n", out);
}

/* Why it failed is boxd's to say, unless it is that somebody has to choose: then with all there is
   to choose from. */
static int explain(struct client *client, const struct install_options *options,
                   const struct skill_upload *upload, struct error *err)
{
    cleanup_json json_t *skills = NULL;
    struct error ignored = ERROR_INIT;
    client_skill_exists("first remove the other with box skill rm", err);
    if (err->code != ERROR_INVALID || options->paths.count > 0 ||
        client_skill_upload(client, upload, false, &skills, &ignored) < 0 ||
        json_array_size(skills) < 2)
        return -1;
    const char *first = client_text(json_array_get(skills, 0), "source_path");
    client->failure = EXIT_USAGE;
    if (!options->client.json) {
        print_found(skills, stderr);
        error_set(err, ERROR_INVALID, "there are %zu skills in it: which?",
                  json_array_size(skills));
    }
    return error_hint(err, "--path %.200s, and so on for each that is wanted", first);
}

static int install_body(struct client *client, void *target, const struct operands *words,
                        struct error *err)
{
    const struct install_options *options = target;
    const char *path = words->words[0];
    cleanup_free char *data = NULL;
    cleanup_free char *base = copy_basename(path);
    cleanup_json json_t *skills = NULL;
    size_t size;
    /* Files here may be called anything; boxd knows text only. */
    cleanup_free char *filename = utf8_repair(base, strlen(base), NULL);
    if (read_archive(path, &data, &size, err) < 0 ||
        client_connect(&options->client, client, err) < 0)
        return -1;
    const struct skill_upload upload = {.data = data,
                                        .size = size,
                                        .filename = strcmp(path, "-") == 0 ? "" : filename,
                                        .subdir = options->subdir,
                                        .paths = &options->paths};
    if (client_skill_upload(client, &upload, !options->dry_run, &skills, err) < 0)
        return options->dry_run ? -1 : explain(client, options, &upload, err);
    if (options->client.json)
        run_print_json(json_pack("{s:O}", "skills", skills), JSON_INDENT(2));
    else if (options->dry_run)
        print_found(skills, stdout);
    else
        skill_print_names(skills);
    return 0;
}

static int install_main(const struct verb *verb, int argc, char **argv)
{
    struct install_options options = {.dry_run = false};
    const struct verb_words want = {.min = 1, .max = 1, .unconnected = true};
    int status = client_main(verb, argc, argv, &options, want, install_body);
    strings_release(&options.paths);
    return status;
}

const struct verb verb_skill_install = {
    .name = "skill install",
    .arguments = "FILE.zip [--path P]... [--subdir D] [-n]",
    .help = "Install skills from a zip archive: all that are named, or none.",
    .options = install_options,
    .run = install_main,
    .misuse = EXIT_USAGE,
};
