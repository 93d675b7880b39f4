/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs and their options as tables: parsing, near-misses and help text all come from the same
 * rows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/error.h"

struct option {
    const char *name;  /* the long form, without its dashes */
    char letter;       /* the short form, or 0 */
    const char *value; /* what stands for the value in the help; NULL: a switch, takes none */
    const char *help;
    /* Notes it in the verb's own structure; `value` is NULL for a switch. */
    int (*apply)(void *target, const char *value, struct error *err);
};

struct verb {
    const char *name;             /* behind that of the verb it is below: "skill ls" */
    const char *arguments;        /* as the usage line shows them */
    const char *help;             /* one line */
    const struct option *options; /* ends with a row that has no name; NULL: none */
    int (*run)(const struct verb *verb, int argc, char **argv);
    const struct verb *const *below; /* its own verbs, NULL at the end; NULL: it has none */
    int misuse;                      /* exit status of a line that makes no sense; 0: EXIT_BOXD */
};

enum {
    OPTIONS_DONE,
    OPTIONS_HELP, /* --help or -h was met: nothing else counts */
};

/* Applies the options at the head of argv[1…]; *ret_rest is the index of the first word that is
   none.
   "--" ends the options, and so does the first word without a dash. Returns OPTIONS_DONE,
   OPTIONS_HELP, or -1. */
int options_parse(const struct verb *verb, int argc, char **argv, void *target, int *ret_rest,
                  struct error *err);

/* What is left of a line when its options are taken out. Points into argv, whose order is changed
   for it. */
struct operands {
    char **words;
    int count;
    char **rest; /* behind them: a command; ends with NULL */
};

/* Like options_parse(), for verbs whose words come first: options may stand before, between and
   behind the first `max` words. What follows those words, from "--" or from the first word that is
   no option, is the rest; "--" earlier on makes everything behind it a word. */
int options_parse_mixed(const struct verb *verb, int argc, char **argv, void *target, int max,
                        struct operands *ret, struct error *err);

/* With the verbs below it, if there are any. */
void options_help(const struct verb *verb, FILE *out);

/* "'of' is unknown; did you mean off?": what to say of a word that is none of `words`. */
int options_unknown_word(const char *word, const char *const *words, size_t count,
                         struct error *err);

/* The functions behind rows that only note something. Texts stay in argv. */
#define OPTION_SWITCH(name, type, field)                                     \
    static int name(void *target, const char *value __attribute__((unused)), \
                    struct error *err __attribute__((unused)))               \
    {                                                                        \
        ((type *)target)->field = true;                                      \
        return 0;                                                            \
    }
#define OPTION_TEXT(name, type, field)                                                          \
    static int name(void *target, const char *value, struct error *err __attribute__((unused))) \
    {                                                                                           \
        ((type *)target)->field = value;                                                        \
        return 0;                                                                               \
    }
