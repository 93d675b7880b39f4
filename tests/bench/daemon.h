/* SPDX-License-Identifier: Apache-2.0 */
/* A boxd of the benchmark's own: its directories, its socket and its port. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct daemon {
    const char *mount_roots; /* what sessions may mount, as a list in YAML; NULL: nothing */
    pid_t pid;
    unsigned port;
    char *socket;
    double ready_ms;
};

/* Fails the benchmark if it cannot be started. */
void daemon_start(struct daemon *daemon);
/* All its sessions end with it. */
void daemon_stop(struct daemon *daemon);
/* The directory of its logs, for a message. */
const char *daemon_log(void);
