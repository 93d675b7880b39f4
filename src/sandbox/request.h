/* SPDX-License-Identifier: Apache-2.0 */
/* A command on its way to a launcher. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "sandbox/protocol.h"

struct command_request {
    char *const *argv;
    char *const *envp;
    const char *cwd;
    bool make_cwd;
    bool terminal;
    uint16_t rows;
    uint16_t columns;
    int fds[3]; /* stdin, stdout, stderr; not looked at with a terminal. The caller keeps its
                   copies. */
};

/* Sends LANE_EXEC. 0, -1 with `err` set, or -EPIPE if nobody is there to take it. */
int command_send(int sock, const struct command_request *request, struct error *err);
/* A fork inside that failed: what the errno means to whoever asked for it; -1. */
int command_explain_full(int errnum, const char *what, struct error *err);
/* Says in words what LANE_STARTED says in numbers; -1. */
int command_explain_start(const struct lane_started *started, const char *program, const char *cwd,
                          struct error *err);
