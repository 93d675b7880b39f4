/* SPDX-License-Identifier: Apache-2.0 */
/* What a user would pick instead, as one-shot commands with isolation like ours. */
#pragma once

#include <stdbool.h>

/* Each fills a command line for running `true`, or returns false if the program is not installed.
   The strings live until the program ends. */
#define RIVAL_ARGS 64
bool rival_bwrap(char **argv);
bool rival_nsjail(char **argv);
/* `directory` is an empty one for the bundle; it stays until the caller removes it. */
bool rival_runc(const char *directory, char **argv);
