/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of validation. */
#pragma once

#include "skills/front.h"
#include "skills/skills.h"

#define VALIDATION_MAX 200 /* problems; nobody reads more */

struct validation {
    int dir;
    const char *dir_name;
    const char *text;
    size_t size;
    struct front_parts parts;
    struct skill_problems problems;
};

void validation_add(struct validation *validation, enum skill_severity severity, unsigned line,
                    const char *fix, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* For front matter that could not be read, at that line of the file. */
const char *validation_syntax_fix(const struct validation *validation, unsigned line,
                                  const struct error *err);

/* Files that the instructions name: whether they are there. */
void validation_references(struct validation *validation);
