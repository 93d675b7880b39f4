/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the caller's side share. */
#pragma once

#include "core/mem.h"
#include "sandbox/engine.h"

enum lane_state {
    LANE_CLOSED,
    LANE_IDLE,
    LANE_BUSY,
    LANE_LINGERING, /* its command ended, but left processes behind */
};

struct lane {
    enum lane_state state;
    int sock;
    struct cgroup_lane_fds group;
};

struct sandbox {
    struct engine *engine;
    struct sandbox *next;
    uint32_t number;
    pid_t host_pid;
    int control;
    uint32_t requests;
    struct denied_page *denied;
    bool single;
    uint64_t memory_bytes; /* its limit */
    bool ready;            /* init has said so */
    bool failed;           /* it could not be built */
    bool ended;            /* init is gone */
    bool ended_of_memory;
    bool destroyed; /* and the spawner has been told that nobody needs the rest */
    char *notes;
    struct strings bounded; /* places with a limit of their own, to look at when a command failed */
    struct lane lanes[LANE_MAX];
};

struct engine {
    int sock;
    bool gone; /* the spawner is */
    pid_t pid;
    _Alignas(
        struct spawner_request) unsigned char request[sizeof(struct spawner_request) +
                                                      SPEC_WIRE_MAX]; /* SPAWNER_CREATE, as sent */
    struct sandbox *sandboxes;
};

/* Sends a request (with an encoded spec behind it, for SPAWNER_CREATE) and waits for its reply. */
int engine_call(struct engine *engine, const void *request, size_t size, const int *pass_fd,
                struct spawner_reply *ret, int *ret_fds, size_t *fd_count, struct error *err);
/* Takes in what the spawner has said unasked, waiting for it at most so long. */
void engine_listen(struct engine *engine, int timeout_ms);
/* Frees the caller's side of it; init ends when its control socket closes. */
void sandbox_forget(struct sandbox *sandbox);
/* Waits for init's first word, once. */
int sandbox_await(struct sandbox *sandbox, struct error *err);
/* A lane to run a command in; opens one if none is idle. */
int sandbox_take_lane(struct sandbox *sandbox, struct error *err);
void lane_close(struct lane *lane);
/* The launcher is all that is left in the lane. */
bool lane_is_empty(const struct lane *lane);
