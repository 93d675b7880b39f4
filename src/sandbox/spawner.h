/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner: a small single-threaded process that makes and ends sessions, and owns their
   cgroups, mounts and network namespaces. It is forked before its caller does anything else of
   weight, understands the SPAWNER_* messages only, and ends everything it made when its caller's
   socket closes, but for sessions with a key: those decide for themselves (INIT_OUTLIVE). */
#pragma once

#include <sys/types.h>

#include "core/error.h"
#include "sandbox/plan.h"

struct spawner_config {
    struct mount_policy policy;
    const char *image_directory; /* where workspaces with a quota live; NULL: /var/tmp */
    const char *init_binary;     /* NULL: box-init beside this program, or where it was installed */
    const char *socket_directory; /* where sessions with a key listen for the caller's successor,
                                     and what makes their groups this daemon's own; NULL: no session
                                     outlives its caller */
    uid_t front;    /* whose the skill stores are that the caller may have limits on */
    unsigned ready; /* how many sessions to be prepared for ahead of time; 0: one session, then the
                       end */
};

/* Forks it. *ret_sock is the caller's end; *ret_pid its process id. */
int spawner_fork(const struct spawner_config *config, int *ret_sock, int *ret_pid,
                 struct error *err);
