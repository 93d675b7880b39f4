/* SPDX-License-Identifier: Apache-2.0 */
/* boxd, the daemon: in this version it only says what it is; sessions over HTTP build on the engine
   that `box run` already uses. */
#include <stdio.h>
#include <string.h>

#define EXIT_OWN_FAILURE 125

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("boxd " BOX_VERSION);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        puts("usage: boxd --version | --help\n\n"
             "This version has no daemon yet: 'box run' makes its sandboxes by itself.\n"
             "See box(1).");
        return 0;
    }
    fputs("boxd: this version has no daemon yet; run commands with 'box run -- COMMAND'\n", stderr);
    return EXIT_OWN_FAILURE;
}
