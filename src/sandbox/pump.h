/* SPDX-License-Identifier: Apache-2.0 */
/* One stream of bytes on its way from one descriptor to another, or into memory, without ever
 * blocking. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"

#define PUMP_BUFFER (64u * 1024)

enum pump_way {
    PUMP_KEEP,   /* into `kept`, up to its ceiling; the rest is counted and dropped */
    PUMP_SPLICE, /* from a pipe, without copying */
    PUMP_WRITE,  /* through `data` */
    PUMP_SEND,   /* through `data`, to a socket */
};

struct pump {
    int from; /* owned; -1: nothing more comes */
    int to;   /* owned; -1: nobody takes it any more (PUMP_KEEP: not used) */
    enum pump_way way;
    bool blocking; /* `to` could not be made non-blocking: small writes, and only when there is room
                    */
    bool full;     /* `to` had no room: wait for it before anything else */
    int errnum;    /* why `to` failed; 0: it has not */
    uint64_t bytes; /* taken from `from` */
    uint64_t left;  /* how many more may be taken */
    struct buf kept;
    char *data; /* [start, end): taken, not yet delivered */
    size_t start;
    size_t end;
};

/* From `from` (taken over) into memory. */
void pump_to_memory(struct pump *pump, int from, size_t ceiling);
/* From `from` (taken over) to the descriptor `to` (of which it makes a copy of its own: the
   original is neither closed nor made non-blocking, since others share it). */
void pump_to_fd(struct pump *pump, int from, int to);
/* Bytes, then those of `from` if it is not -1 (borrowed: it is the caller's standard input), to
   `to`, taken over and non-blocking. `to` is closed at their end. */
void pump_from(struct pump *pump, const void *data, size_t size, int from, int to);

/* What to wait for before the next pump_step(); the descriptor is -1 when there is nothing. */
struct pollfd pump_wanted(const struct pump *pump);
/* Moves what can be moved now. */
void pump_step(struct pump *pump);
/* The writer is done: what is left to take is what is there now, whoever else may go on writing. */
void pump_last(struct pump *pump);
/* Whether everything has been taken and delivered, or cannot be. */
bool pump_done(const struct pump *pump);
void pump_release(struct pump *pump);
