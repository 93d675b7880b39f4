/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a session's first process from clone to exec of box-init. */
#pragma once

#include "sandbox/plan.h"

/* What the spawner tells it on the `go` pipe, in this order. */
#define SETUP_MAPPED 'm' /* the user namespace has its maps */
#define SETUP_LINKED 'l' /* the network is in place */

struct setup {
    const struct plan *plan;
    const struct mount_policy *policy;
    const struct strings *host_addresses; /* for an ordinary user's network filter */
    int *sources; /* one for each step; opened here if the plan is an ordinary user's */
    bool on_base; /* the root is the plan's base already */
    const struct cgroup_entry *group; /* the way into lane 0, or none: it was born there */
    const struct cgroup_entry
        *init_group; /* becomes INIT_FD_GROUP…, or none: init stays in lane 0 */
    int control;     /* becomes INIT_FD_CONTROL */
    int lane;        /* becomes INIT_FD_LANE */
    int filter;      /* becomes INIT_FD_FILTER */
    int range_lock;  /* becomes INIT_FD_RANGE, or -1 */
    int listen;      /* becomes INIT_FD_LISTEN, or -1 */
    int init_binary; /* box-init, a sealed memfd */
    int go;          /* read end */
};

/* Never returns: becomes box-init, or says why not on the control socket and exits. */
_Noreturn void setup_run(const struct setup *setup);
