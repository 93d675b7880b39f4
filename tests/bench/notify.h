/* SPDX-License-Identifier: Apache-2.0 */
/* Daemons that say when they are ready, as they would to systemd. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct started {
    pid_t pid;
    double ready_ms; /* from before the fork to READY=1 */
};

/* Starts it, its output going to `log`, and waits until it is ready. False if it has ended before,
   or took longer than that; then it does not run. */
bool start_and_wait_ready(char *const *argv, const char *log, int within_sec, struct started *ret);
/* SIGINT, and SIGKILL to one that does not go. Whether it went by itself, and well. */
bool stop_and_wait(pid_t pid, int within_sec);
