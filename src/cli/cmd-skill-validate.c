/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill validate`: what is wrong with a skill, where, and what to do about it. A directory is
   looked at here, without boxd; so authors can check what they write wherever they write it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/plan-json.h"
#include "cli/run-report.h"
#include "cli/skill.h"
#include "core/fd.h"
#include "skills/package.h"

#define STATUS_ERRORS 1

static const struct option validate_options[] = {CLIENT_OPTION_JSON, CLIENT_OPTIONS, {0}};

/* --- a directory --------------------------------------------------------------------------------
 */

/* What is there is meant, before a skill of the same name; and no skill has a dot in its name. */
static bool is_path(const char *word)
{
    struct stat st;
    return strpbrk(word, "/.") || (stat(word, &st) == 0 && S_ISDIR(st.st_mode));
}

static json_t *problem_to_json(const struct skill_problem *problem)
{
    return json_pack("{s:s,s:o,s:o,s:o}", "severity",
                     problem->severity == SKILL_ERROR ? "error" : "warning", "line",
                     problem->line ? json_integer(problem->line) : json_null(), "problem",
                     json_text(problem->what, strlen(problem->what)), "fix",
                     json_text(problem->fix, strlen(problem->fix)));
}

/* In the form that boxd's answer has. */
static int validate_directory(const char *path, json_t **ret, char **ret_place, struct error *err)
{
    struct skill_problems found = {NULL, 0};
    cleanup_free char *whole = realpath(path, NULL);
    cleanup_free char *name = copy_basename(whole ? whole : path);
    cleanup_close int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        int errnum = errno;
        error_errno(err, errnum, "'%.200s'", path);
        return errnum == ENOTDIR ? error_hint(err, "name the directory that SKILL.md is in") : -1;
    }
    if (skill_validate_directory(dir, name, &found, err) < 0)
        return error_wrap(err, "'%.200s'", path);
    json_t *problems = json_array();
    for (size_t i = 0; i < found.count; i++)
        json_array_append_new(problems, problem_to_json(&found.items[i]));
    skill_problems_release(&found);
    const char *entry = package_entry(dir);
    *ret_place = copy_join(path, entry ? entry : "");
    *ret = json_pack("{s:{s:o},s:o}", "skill", "name", json_text(name, strlen(name)), "problems",
                     problems);
    return 0;
}

/* --- a skill of boxd's --------------------------------------------------------------------------
 */

static int validate_stored(struct client *client, const struct client_options *options,
                           const char *name, json_t **ret, char **ret_place, struct error *err)
{
    cleanup_free char *target = client_target("/v1/skills/%s/problems", name);
    if (client_connect(options, client, err) < 0)
        return -1;
    if (client_get(client, target, ret, err) < 0) {
        if (err->code == ERROR_NOT_FOUND)
            error_hint(err, "box skill ls lists skills; a directory is named with a slash: %.100s/",
                       name);
        return -1;
    }
    *ret_place = xstrdup(name);
    return 0;
}

/* --- the verb -----------------------------------------------------------------------------------
 */

static void print_problem(const char *place, const json_t *problem)
{
    cleanup_free char *what = printable(client_text(problem, "problem"));
    cleanup_free char *fix = printable(client_text(problem, "fix"));
    unsigned line = (unsigned)client_number(problem, "line");
    printf("%s:", place);
    if (line > 0)
        printf("%u:", line);
    printf(" %s: %s\n", client_text(problem, "severity"), what);
    if (fix[0])
        printf("    fix: %s\n", fix);
}

static size_t count_errors(const json_t *problems)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(problems); i++)
        count += strcmp(client_text(json_array_get(problems, i), "severity"), "error") == 0;
    return count;
}

static void print_problems(const char *place, const json_t *problems, size_t errors)
{
    cleanup_free char *clean = printable(place);
    size_t count = json_array_size(problems);
    size_t warnings = count - errors;
    for (size_t i = 0; i < count; i++)
        print_problem(clean, json_array_get(problems, i));
    if (count == 0)
        printf("%s: no problems\n", clean);
    else
        printf("%zu error%s, %zu warning%s\n", errors, errors == 1 ? "" : "s", warnings,
               warnings == 1 ? "" : "s");
}

static int validate_body(struct client *client, void *target, const struct operands *words,
                         struct error *err)
{
    const struct client_options *options = target;
    const char *word = words->words[0];
    cleanup_json json_t *answer = NULL;
    cleanup_free char *place = NULL;
    int rc = is_path(word) ? validate_directory(word, &answer, &place, err)
                           : validate_stored(client, options, word, &answer, &place, err);
    if (rc < 0)
        return -1;
    const json_t *problems = json_object_get(answer, "problems");
    size_t errors = count_errors(problems);
    if (options->json)
        run_print_json(json_incref(answer), JSON_INDENT(2));
    else
        print_problems(place, problems, errors);
    return errors > 0 ? STATUS_ERRORS : 0;
}

static int validate_main(const struct verb *verb, int argc, char **argv)
{
    struct client_options options = {0};
    const struct verb_words want = {.min = 1, .max = 1, .unconnected = true};
    return client_main(verb, argc, argv, &options, want, validate_body);
}

const struct verb verb_skill_validate = {
    .name = "skill validate",
    .arguments = "NAME|DIR [--json]",
    .help = "Say what is wrong with a skill of boxd's, or with a directory.",
    .options = validate_options,
    .run = validate_main,
    .misuse = EXIT_USAGE,
};
