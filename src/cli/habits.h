/* SPDX-License-Identifier: Apache-2.0 */
/* Options that people bring along from docker and kill(1). */
#pragma once

#include "cli/options.h"

/* What to write here instead of an option that `verb` does not have: `word` is its long name, or
   begins with its letter. Sets the hint, if there is one to give. Always -1. */
int habit_hint(const struct verb *verb, const char *word, bool letters, struct error *err);
