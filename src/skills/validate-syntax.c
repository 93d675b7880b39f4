/* SPDX-License-Identifier: Apache-2.0 */
/* Front matter that is no YAML, or too much of it: what to do about it. */
#include <string.h>

#include "skills/text.h"
#include "skills/validate.h"

/* A tab before the first word of a line. */
static bool has_tab_indent(const struct validation *validation, unsigned line)
{
    size_t at = 0;
    for (size_t next; line > 1 && at < validation->size; line--, at = next)
        text_line_end(validation->text, validation->size, at, &next);
    while (at < validation->size && validation->text[at] == ' ')
        at++;
    return at < validation->size && validation->text[at] == '\t';
}

const char *validation_syntax_fix(const struct validation *validation, unsigned line,
                                  const struct error *err)
{
    if (has_tab_indent(validation, line))
        return "indent with spaces: YAML takes no tabs there";
    if (strstr(err->message, "anchors"))
        return "put the text in quotes if it begins with '&', '*' or '!'; else write it out";
    return "texts with special characters need quotes";
}
