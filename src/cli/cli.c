/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `box` share. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

int cli_fail(const char *verb, const struct error *err)
{
    fprintf(stderr, "box%s%s: %s\n", verb ? " " : "", verb ? verb : "", err->message);
    if (err->hint[0])
        fprintf(stderr, "  fix: %s\n", err->hint);
    return EXIT_BOXD;
}

bool cli_asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}
