/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's client (langbot.py) in a process of its own, which does its call once for every line it
   is sent. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct peer {
    pid_t pid;
    int in, out;
};

/* The directory of what the conformance tests have installed, as an absolute path. */
char *peer_tools(void);
/* The Python of LangBot's virtual environment, which is made if it is not there; NULL: it cannot
   be, and *ret_why says why. */
const char *peer_python(const char **ret_why);
/* `backend`, `where`: see langbot.py; `where` may be NULL. NULL, or why there is none. */
const char *peer_start(struct peer *peer, const char *python, const char *backend,
                       const char *where);
/* One call, there and back. */
void peer_call(struct peer *peer);
void peer_stop(struct peer *peer);
