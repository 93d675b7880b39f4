/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: sessions made by the spawner of src/sandbox. */
#pragma once

#include "backend/backend.h"
#include "sandbox/spawner.h"

#define NATIVE_SPARES_MAX 16

struct native_options {
    const struct spawner_config *spawner; /* must stay */
    struct strings allow_net; /* private ranges that sessions with a network may reach */
    uint64_t scratch_bytes;   /* 0: the default */
    bool strict;              /* refuse every weaker rung */
    unsigned spares;          /* sessions made ahead of requests, at most NATIVE_SPARES_MAX */
};

/* Forks the spawner: to be called early, while there is one thread, all privilege and little
 * memory. */
int native_spawn(const struct native_options *options, int *ret_sock, pid_t *ret_pid,
                 struct error *err);
/* The backend on the spawner's socket, which it takes over. */
struct backend *native_new(uv_loop_t *loop, int sock, const struct native_options *options);
