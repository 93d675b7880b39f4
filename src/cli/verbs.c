/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs below verbs. */
#include "cli/verbs.h"

#include <string.h>

#include "cli/cli.h"
#include "core/mem.h"
#include "core/parse.h"

#define BELOW_MAX 32

/* What is typed for it: the last word of its name. */
static const char *word_of(const struct verb *verb)
{
    const char *space = strrchr(verb->name, ' ');
    return space ? space + 1 : verb->name;
}

static const struct verb *find_below(const struct verb *verb, const char *word)
{
    for (size_t i = 0; verb->below[i]; i++) {
        if (strcmp(word_of(verb->below[i]), word) == 0)
            return verb->below[i];
    }
    return NULL;
}

int verbs_unknown(const struct verb *above, const char *word, const char *const *names,
                  size_t count)
{
    struct error err = ERROR_INIT;
    const char *name = above ? above->name : "";
    const char *gap = above ? " " : "";
    const char *near = nearest_word(word, names, count);
    if (near)
        error_set(&err, ERROR_INVALID, "unknown verb '%.64s'; did you mean box %s%s%s?", word, name,
                  gap, near);
    else
        error_set(&err, ERROR_INVALID, "unknown verb '%.64s'; see box help%s%s", word, gap, name);
    int status = cli_fail(above ? name : NULL, &err);
    return above && above->misuse ? above->misuse : status;
}

static int unknown_below(const struct verb *verb, const char *word)
{
    const char *names[BELOW_MAX];
    size_t count = 0;
    for (; count < BELOW_MAX && verb->below[count]; count++)
        names[count] = word_of(verb->below[count]);
    return verbs_unknown(verb, word, names, count);
}

void verbs_list(const struct verb *const *verbs, FILE *out)
{
    for (; *verbs; verbs++)
        fprintf(out, "  %-10s%s\n", word_of(*verbs), (*verbs)->help);
}

int verbs_help(const struct verb *verb, int argc, char **argv)
{
    const struct verb *about = verb;
    if (verb->below && argc > 1)
        about = find_below(verb, argv[1]);
    if (!about)
        return unknown_below(verb, argv[1]);
    options_help(about, stdout);
    return 0;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int verbs_run(const struct verb *verb, int argc, char **argv)
{
    if (argc < 2 || asks_for_help(argv[1]))
        return verbs_help(verb, argc - 1, argv + 1);
    const struct verb *below = find_below(verb, argv[1]);
    return below ? below->run(below, argc - 1, argv + 1) : unknown_below(verb, argv[1]);
}
