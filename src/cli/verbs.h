/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that have verbs of their own below them: `box skill ls`. */
#pragma once

#include "cli/options.h"

/* The `run` of such a verb: the next word is the one below, or "help"; without it they are listed.
 */
int verbs_run(const struct verb *verb, int argc, char **argv);
/* The help of a verb, or of the one below it that argv[1] names. An exit status. */
int verbs_help(const struct verb *verb, int argc, char **argv);

void verbs_list(const struct verb *const *verbs, FILE *out);
/* Says so, and which one may have been meant. `above` may be NULL. An exit status. */
int verbs_unknown(const struct verb *above, const char *word, const char *const *names,
                  size_t count);
