/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's own terminal while a command with a terminal of its own runs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* Every key goes to the command as it is. Undone by terminal_restore(), and when this process dies
   of an error of its own. */
int terminal_raw(int fd, struct error *err);
/* Keys come one by one and are not shown; those that send signals still do. */
int terminal_keys(int fd, struct error *err);
void terminal_restore(void);
/* Gives `to`, the master of the command's terminal, the size that `from` has. */
void terminal_resize(int from, int to);
/* False: it is no terminal, or does not tell. */
bool terminal_size(int fd, uint16_t *ret_rows, uint16_t *ret_columns);
