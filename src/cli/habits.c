/* SPDX-License-Identifier: Apache-2.0 */
/* What people mean by an option that is another program's. */
#include "cli/habits.h"

#include <ctype.h>
#include <string.h>

#include "core/mem.h"

static const struct {
    const char *verb; /* NULL: every one that has `ours` */
    const char *word; /* a long name or a letter */
    const char *ours;
    const char *hint;
} habits[] = {
    {NULL, "e", "env", "--env NAME=VALUE"},
    {NULL, "v", "mount", "--mount SRC:DST[:ro]"},
    {NULL, "volume", "mount", "--mount SRC:DST[:ro]"},
    {NULL, "w", "workdir", "--workdir DIR"},
    {NULL, "m", "memory", "--memory SIZE"},
    {"run", "rm", NULL, "leave it out: nothing of a sandbox stays when its command ends"},
    {"run", "name", NULL, "--session NAME keeps a sandbox under that name"},
    {"run", "d", NULL, "box start SESSION --create -- COMMAND goes on in the background"},
    {"run", "detach", NULL, "box start SESSION --create -- COMMAND goes on in the background"},
    {"create", "name", NULL, "box create NAME"},
    {"exec", "t", NULL, "box shell SESSION [COMMAND] opens a terminal"},
    {"exec", "tty", NULL, "box shell SESSION [COMMAND] opens a terminal"},
    {"exec", "d", NULL, "box start SESSION -- COMMAND goes on in the background"},
    {"exec", "detach", NULL, "box start SESSION -- COMMAND goes on in the background"},
    {"shell", "i", NULL, "leave it out: box shell always opens a terminal"},
    {"shell", "t", NULL, "leave it out: box shell always opens a terminal"},
    {"rm", "f", NULL, "leave it out: box rm ends what runs in a session, too"},
    {"rm", "force", NULL, "leave it out: box rm ends what runs in a session, too"},
};

static bool has_option(const struct verb *verb, const char *name)
{
    for (const struct option *option = verb->options; option && option->name; option++) {
        if (strcmp(option->name, name) == 0)
            return true;
    }
    return false;
}

/* Of letters in one word the first is the unknown one. */
static bool is_meant(const char *habit, const char *word, bool letters)
{
    return letters ? habit[0] == word[0] && habit[1] == '\0' : strcmp(habit, word) == 0;
}

int habit_hint(const struct verb *verb, const char *word, bool letters, struct error *err)
{
    /* "-9", "-KILL" */
    if (letters && strcmp(verb->name, "kill") == 0 && (isdigit(word[0]) || isupper(word[0])))
        return error_hint(err, "-s %.32s", word);
    for (size_t i = 0; i < ARRAY_SIZE(habits); i++) {
        bool here = habits[i].verb ? strcmp(habits[i].verb, verb->name) == 0
                                   : has_option(verb, habits[i].ours);
        if (here && is_meant(habits[i].word, word, letters))
            return error_hint(err, "%s", habits[i].hint);
    }
    return -1;
}
