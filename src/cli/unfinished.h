/* SPDX-License-Identifier: Apache-2.0 */
/* A file that takes its place when it is whole: until then it has a name of its own beside it, so
   that whatever happens in between, there is the old file or the new one. One at a time. */
#pragma once

#include "core/error.h"

/* A descriptor for writing, or -1 with errno. What is made goes if a signal ends this process. */
int unfinished_open(int dir);
/* Takes the place of `entry`, with these permissions. Returns 0, or -1 with errno: then it is gone.
 */
int unfinished_place(int fd, const char *entry, unsigned mode);
void unfinished_remove(void);
