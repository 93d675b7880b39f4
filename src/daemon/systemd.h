/* SPDX-License-Identifier: Apache-2.0 */
/* systemd's two conventions, without its library: sockets that were opened for us, and telling how
   we are. Both are plain environment variables, and nothing happens where they are not set. */
#pragma once

#include <stddef.h>

#include "core/error.h"

#define ACTIVATE_MAX 16

struct activation {
    int fds[ACTIVATE_MAX]; /* listening */
    size_t count;
};

/* To be called before anything is forked: makes the descriptors close-on-exec, and forgets the
   variables. */
int activate_take(struct activation *ret, struct error *err);

/* Opens the way to the manager, while we may. */
void notify_open(void);
/* "READY=1" and the like; several with line breaks between them. */
void notify_send(const char *text);
/* RELOADING=1 with the clock that systemd wants beside it. */
void notify_reloading(void);
