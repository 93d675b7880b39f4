/* SPDX-License-Identifier: Apache-2.0 */
/* Seeing a command through: its input fed, its output kept or passed on, its deadline held, its end
   taken.

     struct capture_pipes pipes;                   capture_pipes_open(&pipes, false, &err);
     request.fds = pipes.command;                  command_start(sandbox, &request, &command, &err);
     struct capture_options options = CAPTURE_OPTIONS_INIT;
     options.pipes = &pipes;                       capture_run(&command, &options, &result, &err);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/error.h"
#include "sandbox/engine.h"

#define CAPTURE_KEEP_DEFAULT (1024u * 1024)

/* Both ends of standard input, output and error. Unused ones are -1. */
struct capture_pipes {
    int command[3];
    int own[3];
};

/* Without input the command reads /dev/null. */
int capture_pipes_open(struct capture_pipes *ret, bool input, struct error *err);
void capture_pipes_close(struct capture_pipes *pipes);

struct capture_options {
    struct capture_pipes *pipes; /* taken over and closed; NULL for a command with a terminal */
    uint64_t timeout_ms;         /* since the command's start; 0: none */
    int output_fd;               /* passed on to it; -1: kept */
    int error_fd;
    size_t keep; /* how much of each stream is kept; the rest is counted and dropped */
    int input_fd;
    const void *input; /* fed before what comes from input_fd */
    size_t input_size;
    /* Called when watch_fd is readable (signals); true ends the waiting: the command is killed.
       `command` is NULL once it has ended, and only its output is still on its way to a slow
       reader. */
    int watch_fd;
    bool (*on_watch)(struct command *command, void *data);
    void *data;
};

#define CAPTURE_OPTIONS_INIT                                                           \
    {                                                                                  \
        .output_fd = -1, .error_fd = -1, .keep = CAPTURE_KEEP_DEFAULT, .input_fd = -1, \
        .watch_fd = -1                                                                 \
    }

struct capture_stream {
    struct buf kept;
    uint64_t bytes; /* how many there were */
    int errnum;     /* why it could not be passed on, or 0; EPIPE: its reader left */
};

struct capture_result {
    struct outcome outcome;
    struct capture_stream output;
    struct capture_stream errors;
};

/* Waits for the command, calls command_finish() and gives its result. What the command's first
   process has written when it ends is all taken, without waiting for background processes that hold
   the pipes. The caller has SIGPIPE ignored. */
int capture_run(struct command *command, const struct capture_options *options,
                struct capture_result *ret, struct error *err);
void capture_result_release(struct capture_result *result);
