/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's own terminal while a command with a terminal of its own runs. */
#pragma once

#include "core/error.h"

/* Every key goes to the command as it is. Undone by terminal_restore(), and when this process dies
   of an error of its own. */
int terminal_raw(int fd, struct error *err);
void terminal_restore(void);
/* Gives `to`, the master of the command's terminal, the size that `from` has. */
void terminal_resize(int from, int to);
