/* SPDX-License-Identifier: Apache-2.0 */
/* A package held against the published conventions of SKILL.md: every problem, where it is, and
   what to do about it. The store itself asks for less. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/utf8.h"
#include "skills/beneath.h"
#include "skills/front.h"
#include "skills/package.h"
#include "skills/text.h"
#include "skills/validate.h"

#define DESCRIPTION_MAX   1024
#define COMPATIBILITY_MAX 500
#define LINES_MAX         500

void skill_problems_release(struct skill_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) {
        free(problems->items[i].what);
        free(problems->items[i].fix);
    }
    free(problems->items);
    *problems = (struct skill_problems){NULL, 0};
}

void validation_add(struct validation *validation, enum skill_severity severity, unsigned line,
                    const char *fix, const char *format, ...)
{
    struct skill_problems *problems = &validation->problems;
    va_list args;
    char *what = NULL;
    if (problems->count == VALIDATION_MAX)
        return;
    va_start(args, format);
    if (vasprintf(&what, format, args) < 0)
        abort();
    va_end(args);
    if ((problems->count & (problems->count - 1)) == 0)
        problems->items = xreallocarray(problems->items, problems->count ? problems->count * 2 : 1,
                                        sizeof *problems->items);
    problems->items[problems->count++] = (struct skill_problem){
        .severity = severity, .line = line, .what = what, .fix = xstrdup(fix)};
}

static unsigned line_of(const struct validation *validation, const struct value *value)
{
    return value->line + validation->parts.yaml_line + 1;
}

/* --- fields --- */

/* A field's text, or NULL with the problem noted. */
static const char *text_of(struct validation *validation, const char *key,
                           const struct value *value)
{
    if (value->kind == VALUE_TEXT && strlen(value->text) == value->size)
        return value->text;
    validation_add(validation, SKILL_ERROR, line_of(validation, value),
                   value->kind == VALUE_OTHER ? "put it in quotes" : "write it as one text",
                   "'%s' is not text", key);
    return NULL;
}

static void check_length(struct validation *validation, const char *key, const struct value *value,
                         size_t max)
{
    const char *text = text_of(validation, key, value);
    size_t length = text ? text_length(text, strlen(text)) : 0;
    if (length > max)
        validation_add(validation, SKILL_ERROR, line_of(validation, value),
                       "shorten it, and move details into the instructions",
                       "'%s' has %zu characters, at most %zu are allowed", key, length, max);
}

static void check_name_form(struct validation *validation, const char *name, unsigned line)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    struct error err = ERROR_INIT;
    size_t size = strlen(name);
    if (text_check_name(name, size, &err) < 0) {
        validation_add(validation, SKILL_ERROR, line,
                       "use 1 to 64 lower-case letters, digits and hyphens", "%s", err.message);
        return;
    }
    if (name[strspn(name, allowed)] != '\0')
        validation_add(validation, SKILL_WARNING, line,
                       "use lower-case letters, digits and hyphens",
                       "the name '%s' has other characters than the conventions allow", name);
    if (name[0] == '-' || name[size - 1] == '-' || strstr(name, "--"))
        validation_add(validation, SKILL_WARNING, line, "hyphens go between words, one at a time",
                       "the name '%s' has hyphens at its ends or side by side", name);
}

static void check_name(struct validation *validation, const struct value *value)
{
    const char *raw = text_of(validation, "name", value);
    if (!raw)
        return;
    cleanup_free char *name = text_stripped(raw);
    unsigned line = line_of(validation, value);
    check_name_form(validation, name, line);
    if (strcmp(name, validation->dir_name) != 0) {
        char shown[TEXT_SHOWN_SIZE];
        validation_add(validation, SKILL_WARNING, line, "give both the same name",
                       "the skill is called '%s', but its directory '%s'", name,
                       text_shown(validation->dir_name, shown));
    }
}

static void check_description(struct validation *validation, const struct value *value)
{
    const char *raw = text_of(validation, "description", value);
    if (!raw)
        return;
    cleanup_free char *text = text_stripped(raw);
    if (!*text)
        validation_add(validation, SKILL_ERROR, line_of(validation, value),
                       "say what the skill does and when to use it", "'description' is empty");
    check_length(validation, "description", value, DESCRIPTION_MAX);
}

static void check_text(struct validation *validation, const struct value *value)
{
    text_of(validation, "the value", value);
}

static void check_compatibility(struct validation *validation, const struct value *value)
{
    check_length(validation, "compatibility", value, COMPATIBILITY_MAX);
}

static void check_map(struct validation *validation, const struct value *value)
{
    if (value->kind != VALUE_MAP)
        validation_add(validation, SKILL_ERROR, line_of(validation, value),
                       "write it as keys with values below it", "'metadata' is no mapping");
}

static const struct {
    const char *name;
    void (*check)(struct validation *validation, const struct value *value);
    const char *missing; /* the fix; NULL: it may be */
} known[] = {
    {"name", check_name, "add a line 'name: …' with the name of the directory"},
    {"description", check_description,
     "add a line 'description: …' that says what it does and when to use it"},
    {"display_name", check_text, NULL},
    {"license", check_text, NULL},
    {"compatibility", check_compatibility, NULL},
    {"metadata", check_map, NULL},
    {"allowed-tools", NULL, NULL},
};

/* Each known key once, and none that is not known. */
static void check_keys(struct validation *validation, const struct value *meta)
{
    for (size_t i = 0; i < meta->count; i += 2) {
        const struct value *key = meta->items[i];
        char shown[TEXT_SHOWN_SIZE];
        size_t at = 0;
        text_shown(key->text ? key->text : "?", shown);
        while (at < ARRAY_SIZE(known) && strcmp(known[at].name, key->text ? key->text : "") != 0)
            at++;
        if (at == ARRAY_SIZE(known))
            validation_add(validation, SKILL_WARNING, line_of(validation, key),
                           "put it below 'metadata:', where there is room for anything",
                           "'%s' is no field of the conventions", shown);
        for (size_t j = 0; j < i; j += 2) {
            const char *other = meta->items[j]->text;
            if (key->text && other && strcmp(key->text, other) == 0)
                validation_add(validation, SKILL_ERROR, line_of(validation, key),
                               "keep one of them", "'%s' is there twice", shown);
        }
    }
}

static void check_meta(struct validation *validation, const struct value *meta)
{
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        const struct value *value = value_get(meta, known[i].name);
        if (value && value->kind != VALUE_NULL && known[i].check)
            known[i].check(validation, value);
        else if ((!value || value->kind == VALUE_NULL) && known[i].missing)
            validation_add(validation, SKILL_ERROR, value ? line_of(validation, value) : 1,
                           known[i].missing, "there is no '%s'", known[i].name);
    }
    if (meta)
        check_keys(validation, meta);
}

/* --- the text --- */

static void check_front(struct validation *validation)
{
    const struct front_parts *parts = &validation->parts;
    cleanup_value struct value *meta = NULL;
    struct error err = ERROR_INIT;
    unsigned line = 0;
    if (!parts->present) {
        bool begun = validation->size >= 3 && memcmp(validation->text, "---", 3) == 0;
        bool marked = validation->size >= 6 && memcmp(validation->text, "\xEF\xBB\xBF---", 6) == 0;
        validation_add(validation, SKILL_ERROR, 1,
                       begun    ? "end it with a line '---'"
                       : marked ? "save the file without a byte order mark"
                                : "begin the file with '---', the fields, and '---'",
                       begun    ? "the front matter does not end"
                       : marked ? "there is a byte order mark before the front matter"
                                : "there is no front matter");
        return;
    }
    if (value_parse(validation->text + parts->yaml, parts->closing - parts->yaml, &meta, &line,
                    &err) < 0) {
        line += parts->yaml_line + 1;
        validation_add(validation, SKILL_ERROR, line, validation_syntax_fix(validation, line, &err),
                       "%s", err.message);
        return;
    }
    if (meta && meta->kind != VALUE_MAP) {
        validation_add(validation, SKILL_ERROR, line_of(validation, meta),
                       "write lines of the form 'name: value'", "the front matter is no mapping");
        return;
    }
    check_meta(validation, meta);
}

static void check_body(struct validation *validation)
{
    const char *body = validation->text + validation->parts.instructions;
    size_t size = validation->size - validation->parts.instructions;
    const char *start = body;
    size_t left = size;
    unsigned lines = 0;
    text_strip(&start, &left);
    for (size_t at = 0, next; at < size; at = next, lines++)
        text_line_end(body, size, at, &next);
    if (left == 0)
        validation_add(validation, SKILL_WARNING, 0, "write what the agent is to do, step by step",
                       "there are no instructions");
    if (lines > LINES_MAX)
        validation_add(validation, SKILL_WARNING, 0,
                       "move details into files of their own and refer to them",
                       "the instructions have %u lines; more than %d fill up an agent's context",
                       lines, LINES_MAX);
}

static int compare_lines(const void *a, const void *b)
{
    const struct skill_problem *one = a;
    const struct skill_problem *two = b;
    return (one->line > two->line) - (one->line < two->line);
}

static int read_entry(struct validation *validation, const char *entry_file, char **ret,
                      struct error *err)
{
    int rc =
        beneath_read(validation->dir, entry_file, SKILL_TEXT_MAX, NULL, ret, &validation->size);
    if (rc == -EFBIG) {
        validation_add(validation, SKILL_ERROR, 0,
                       "move details into files of their own and refer to them",
                       "%s is larger than %u bytes", entry_file, SKILL_TEXT_MAX);
        return 1;
    }
    if (rc < 0)
        return error_errno(err, -rc, "cannot read %s", entry_file);
    validation->text = *ret;
    for (size_t at = 0, line = 1; at < validation->size;) {
        int n = utf8_sequence(*ret + at, validation->size - at);
        if (n < 0) {
            validation_add(validation, SKILL_ERROR, (unsigned)line, "save the file as UTF-8",
                           "%s is not UTF-8", entry_file);
            return 1;
        }
        line += (*ret)[at] == '\n';
        at += (size_t)n;
    }
    return 0;
}

static int validate(struct validation *validation, struct error *err)
{
    cleanup_free char *text = NULL;
    const char *entry_file = package_entry(validation->dir);
    if (!entry_file) {
        validation_add(validation, SKILL_ERROR, 0, "add one: it is what makes it a skill",
                       "there is no SKILL.md");
        return 0;
    }
    if (strcmp(entry_file, ENTRY_FILE) != 0)
        validation_add(validation, SKILL_WARNING, 0, "rename it to SKILL.md",
                       "'%s' is found by some readers only", entry_file);
    int rc = read_entry(validation, entry_file, &text, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    front_split(validation->text, validation->size, &validation->parts);
    check_front(validation);
    check_body(validation);
    validation_references(validation);
    return 0;
}

int skill_validate_directory(int dir, const char *name, struct skill_problems *ret,
                             struct error *err)
{
    struct validation validation = {.dir = dir, .dir_name = name};
    if (validate(&validation, err) < 0) {
        skill_problems_release(&validation.problems);
        return -1;
    }
    if (validation.problems.count > 0)
        qsort(validation.problems.items, validation.problems.count,
              sizeof *validation.problems.items, compare_lines);
    *ret = validation.problems;
    return 0;
}
