/* SPDX-License-Identifier: Apache-2.0 */
/* Which backend runs sessions. */
#pragma once

#include "daemon/daemon.h"

/* The one that is configured: by its name, or as "local" the first that works of those that need no
   other machine. There always is one: where it cannot be had it is a new one that says so to those
   who use it, and what there is instead. */
struct backend *backends_find(struct daemon *daemon);
/* What the runtime does not use (any more). */
void backends_close(struct daemon *daemon, struct backend *backend);
/* Has the runtime use the one that is configured, unless there are sessions of another. */
void backends_select(struct daemon *daemon);
