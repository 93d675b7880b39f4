/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ended, what it used, and why: from what launcher, cgroups and init tell. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/cgroup.h"
#include "sandbox/protocol.h"

#define CAUSES(X)               \
    X(EXITED, "exited")         \
    X(SIGNAL, "signal")         \
    X(TIMEOUT, "timeout")       \
    X(OOM, "oom")               \
    X(PIDS_LIMIT, "pids_limit") \
    X(DISK_QUOTA, "disk_quota") \
    X(DENIED_SYSCALL, "denied_syscall")

enum cause {
#define X(name, text) CAUSE_##name,
    CAUSES(X)
#undef X
        CAUSE_MAX,
};

const char *cause_name(enum cause cause);

struct outcome {
    bool timed_out;
    int exit_code; /* -1: ended by `signal`, or killed */
    int signal;    /* 0: none */
    enum cause cause;
    uint64_t wall_us;
    uint64_t cpu_us;
    uint64_t peak_bytes;
    bool peak_of_tree; /* false: of the largest process only, for want of a cgroup */
    uint64_t denied[DENIED_WORDS];
};

/* Room in a place with a limit of its own. */
struct sandbox_space {
    uint64_t bytes;
    uint64_t bytes_free;
    uint64_t inodes_free; /* UINT64_MAX: not counted */
};

struct sandbox_space sandbox_space_from(const struct init_statfs *reply);
bool sandbox_space_is_full(const struct sandbox_space *space);

/* The launcher's word. */
void outcome_take_exit(struct outcome *outcome, const struct lane_exited *exited);
/* The counters of the lane, before and after. */
void outcome_take_usage(struct outcome *outcome, const struct cgroup_usage *before,
                        const struct cgroup_usage *after, uint64_t memory_limit);
/* Moves the lane's row of denied calls here, and clears it there. */
void outcome_take_denied(struct outcome *outcome, struct denied_page *page, int lane);
/* Whether the cause depends on a place being full: the question costs a round trip, and is asked
   only where nothing stronger explains the end. */
bool outcome_asks_space(const struct outcome *outcome, const struct cgroup_usage *before,
                        const struct cgroup_usage *after);
/* The strongest explanation first. A command that succeeded needs none. */
enum cause outcome_cause(const struct outcome *outcome, const struct cgroup_usage *before,
                         const struct cgroup_usage *after, bool full);
