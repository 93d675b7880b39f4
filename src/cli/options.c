/* SPDX-License-Identifier: Apache-2.0 */
/* Options by table: long ones with "=value" or the next word, letters alone or together. */
#include "cli/options.h"

#include <string.h>

#include "cli/habits.h"
#include "cli/verbs.h"
#include "core/mem.h"
#include "core/parse.h"

#define OPTION_NAMES_MAX 64
#define HELP_COLUMN      30

/* What is left of the words, and where in the current one we are. */
struct cursor {
    const struct verb *verb;
    int argc;
    char **argv;
    int at;
    void *target;
};

static const struct option *find_long(const struct verb *verb, const char *name, size_t length)
{
    for (const struct option *option = verb->options; option && option->name; option++) {
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
            return option;
    }
    return NULL;
}

static const struct option *find_letter(const struct verb *verb, char letter)
{
    for (const struct option *option = verb->options; option && option->name; option++) {
        if (option->letter == letter)
            return option;
    }
    return NULL;
}

static int unknown_option(const struct verb *verb, const char *word, size_t length,
                          struct error *err)
{
    const char *names[OPTION_NAMES_MAX];
    size_t count = 0;
    cleanup_free char *name = xstrndup(word, length);
    for (const struct option *option = verb->options; option && option->name; option++) {
        if (count < OPTION_NAMES_MAX)
            names[count++] = option->name;
    }
    const char *near = nearest_word(name, names, count);
    if (near)
        return error_set(err, ERROR_INVALID, "unknown option '--%.64s'; did you mean --%s?", name,
                         near);
    error_set(err, ERROR_INVALID, "unknown option '--%.64s'; see box %s --help", name, verb->name);
    return habit_hint(verb, name, false, err);
}

static int unknown_letter(const struct verb *verb, const char *letters, struct error *err)
{
    error_set(err, ERROR_INVALID, "unknown option '-%c'; see box %s --help", *letters, verb->name);
    return habit_hint(verb, letters, true, err);
}

int options_unknown_word(const char *word, const char *const *words, size_t count,
                         struct error *err)
{
    char list[128] = "";
    const char *near = nearest_word(word, words, count);
    if (near)
        return error_set(err, ERROR_INVALID, "'%.64s' is unknown; did you mean %s?", word, near);
    for (size_t i = 0, used = 0; i < count && used < sizeof list; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        int n = snprintf(list + used, sizeof list - used, "%s%s", between, words[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return error_set(err, ERROR_INVALID, "'%.64s' is unknown; it can be %s", word, list);
}

/* `value` is what came attached, or NULL: then the next word is taken if one is needed. */
static int apply(struct cursor *cursor, const struct option *option, const char *value,
                 struct error *err)
{
    if (!option->value && value)
        return error_set(err, ERROR_INVALID, "--%s takes no value", option->name);
    if (option->value && !value) {
        if (cursor->at + 1 >= cursor->argc)
            return error_set(err, ERROR_INVALID, "--%s needs a value: --%s %s", option->name,
                             option->name, option->value);
        value = cursor->argv[++cursor->at];
    }
    if (option->apply(cursor->target, value, err) < 0)
        return error_wrap(err, "--%s", option->name);
    return OPTIONS_DONE;
}

static int parse_long(struct cursor *cursor, const char *word, struct error *err)
{
    size_t length = strcspn(word, "=");
    const struct option *option = find_long(cursor->verb, word, length);
    if (!option && strcmp(word, "help") == 0)
        return OPTIONS_HELP;
    if (!option)
        return unknown_option(cursor->verb, word, length, err);
    return apply(cursor, option, word[length] == '=' ? word + length + 1 : NULL, err);
}

/* "-it" is "-i -t"; a letter that takes a value takes the rest of the word. */
static int parse_letters(struct cursor *cursor, const char *letters, struct error *err)
{
    for (; *letters; letters++) {
        const struct option *option = find_letter(cursor->verb, *letters);
        if (!option && *letters == 'h')
            return OPTIONS_HELP;
        if (!option)
            return unknown_letter(cursor->verb, letters, err);
        if (option->value)
            return apply(cursor, option, letters[1] ? letters + 1 : NULL, err);
        if (apply(cursor, option, NULL, err) < 0)
            return -1;
    }
    return OPTIONS_DONE;
}

/* The options from where the cursor is; afterwards it is at the first word that is none, and
 *ret_closed says whether "--" was met on the way. */
static int parse_options(struct cursor *cursor, bool *ret_closed, struct error *err)
{
    *ret_closed = false;
    for (; cursor->at < cursor->argc; cursor->at++) {
        const char *word = cursor->argv[cursor->at];
        if (word[0] != '-' || word[1] == '\0')
            break;
        if (strcmp(word, "--") == 0) {
            cursor->at++;
            *ret_closed = true;
            break;
        }
        int rc = word[1] == '-' ? parse_long(cursor, word + 2, err)
                                : parse_letters(cursor, word + 1, err);
        if (rc != OPTIONS_DONE)
            return rc;
    }
    return OPTIONS_DONE;
}

int options_parse(const struct verb *verb, int argc, char **argv, void *target, int *ret_rest,
                  struct error *err)
{
    struct cursor cursor = {.verb = verb, .argc = argc, .argv = argv, .at = 1, .target = target};
    bool closed;
    int rc = parse_options(&cursor, &closed, err);
    if (rc == OPTIONS_DONE)
        *ret_rest = cursor.at;
    return rc;
}

int options_parse_mixed(const struct verb *verb, int argc, char **argv, void *target, int max,
                        struct operands *ret, struct error *err)
{
    struct cursor cursor = {.verb = verb, .argc = argc, .argv = argv, .at = 1, .target = target};
    bool closed = false;
    int count = 0;
    for (;;) {
        int rc = closed ? OPTIONS_DONE : parse_options(&cursor, &closed, err);
        if (rc != OPTIONS_DONE)
            return rc;
        if (count == max || cursor.at >= argc)
            break;
        /* Words move forward over options that are done with, never over what is still to come. */
        argv[1 + count++] = argv[cursor.at++];
    }
    *ret = (struct operands){.words = argv + 1, .count = count, .rest = argv + cursor.at};
    return OPTIONS_DONE;
}

void options_help(const struct verb *verb, FILE *out)
{
    fprintf(out, "usage: box %s%s%s\n\n%s\n", verb->name, verb->arguments[0] ? " " : "",
            verb->arguments, verb->help);
    if (verb->below) {
        fputs("\n", out);
        verbs_list(verb->below, out);
        fprintf(out, "\nbox help %s VERB says more.\n", verb->name);
    }
    if (verb->options)
        fputs("\n", out);
    for (const struct option *option = verb->options; option && option->name; option++) {
        char letter[] = {'-', option->letter, ',', ' ', '\0'};
        int width = fprintf(out, "  %s--%s%s%s", option->letter ? letter : "    ", option->name,
                            option->value ? " " : "", option->value ? option->value : "");
        /* A long option gets its text on the next line. */
        if (width >= HELP_COLUMN) {
            fputs("\n", out);
            width = 0;
        }
        fprintf(out, "%*s%s\n", HELP_COLUMN - width, "", option->help);
    }
}
