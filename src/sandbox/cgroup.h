/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: one for each session, one below it for each lane (a lane runs one command after
   another), so that a command's whole tree can be limited, killed and billed. v2 and v1 behind one
   interface, and "none" for machines where neither can be used.

   A session's group has no member of its own. Lane 0 is where the session's init is born; before a
   second lane is used, init is moved to CGROUP_LANE_INIT, so that killing lane 0 spares it.

   How a process gets into its group decides what that costs. Moving *another* process
   (cgroup_place() with a pid) makes the kernel wait for a grace period whenever nothing was moved
   just before: 10 ms measured here. Being born there (v2, the birth fd) or a lone thread entering
   by itself (v1, cgroup_entry_use() or cgroup_place() with pid 0) does not wait: 0.1 ms. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"

#define CGROUP_LANE_INIT (-1)
#define CGROUP_LANE_MAX  9999

enum cgroup_version {
    CGROUP_NONE,
    CGROUP_V1,
    CGROUP_V2,
    CGROUP_VERSION_MAX,
};

struct cgroup_limits {
    uint64_t memory_bytes; /* 0: not limited; swap is always off */
    uint32_t cpu_milli;    /* thousandths of one CPU; 0: not limited */
    uint32_t pids;         /* 0: not limited */
};

/* What a caller needs to bill a lane, without further privilege. -1 where there is no such file. */
enum cgroup_fd {
    CGROUP_FD_PROCS,       /* cgroup.procs of the lane; or, where there is one for each lane (v1),
                              pids.current: a number is read faster than a list */
    CGROUP_FD_MEMORY_PEAK, /* memory.peak, or memory.max_usage_in_bytes: see cgroup_peak_reset() */
    CGROUP_FD_CPU,         /* cpu.stat; v1: cpuacct.usage of the whole *session*, and only where cpu
                              and cpuacct are mounted together */
    CGROUP_FD_OOM,         /* memory.events, or memory.oom_control */
    CGROUP_FD_OOM_EVENT,   /* v1 only: an eventfd, readable when memory ran out in the session or
                              its group was removed; v2: poll CGROUP_FD_OOM for POLLPRI */
    CGROUP_FD_PIDS_EVENTS, /* pids.events: v2 of the session, v1 of the lane */
    CGROUP_FD_MAX,
};

struct cgroup_lane_fds {
    enum cgroup_version version;
    int fds[CGROUP_FD_MAX];
};

/* Counters only ever grow: a command's share is the difference of two readings. */
struct cgroup_usage {
    bool has_cpu;
    uint64_t cpu_us;
    bool has_peak;
    uint64_t peak_bytes;
    uint64_t oom_kills;
    uint64_t pids_denied; /* forks refused by the limit; v1: cgroup_lane_kill() adds to it */
    uint32_t processes;   /* live processes in the lane */
};

/* The way into a lane for whoever holds it, however little privilege it has left. -1: unused. */
#define CGROUP_ENTRY_MAX 3
struct cgroup_entry {
    int fds[CGROUP_ENTRY_MAX];
};

struct cgroup_root;

/* Looks at the machine and opens the place below which sessions' groups are made: below the
   caller's own groups (v1); v2: as root in a service with delegation, below the service's group,
   else a group `boxd` below the top; as a user, below a group delegated to it, else in a scope
   asked of the systemd user manager. Never fails for lack of cgroups: then the version is
   CGROUP_NONE and cgroup_root_reason() and _fix() say why and what helps. Makes nothing on disk
   before the first session needs it. The caller's process is the owner of the sessions: see
   cgroup_sweep(). */
int cgroup_root_open(struct cgroup_root **ret, struct error *err);
void cgroup_root_close(struct cgroup_root *root);
enum cgroup_version cgroup_root_version(const struct cgroup_root *root);
const char *cgroup_root_reason(const struct cgroup_root *root);
const char *cgroup_root_fix(const struct cgroup_root *root);
/* Which of the limits this root can enforce; `ret_missing` names the first that it can't. */
bool cgroup_root_can(const struct cgroup_root *root, const struct cgroup_limits *limits,
                     const char **ret_missing);

/* From now on names say that the sessions belong to `keeper` (lower-case hex digits), not to this
   process: nobody's cgroup_sweep() touches them but the same keeper's, whichever process that is.
 */
#define CGROUP_KEEPER_MAX 17
void cgroup_set_keeper(struct cgroup_root *root, const char *keeper);
bool cgroup_is_own_kept(const struct cgroup_root *root, const char *name);
/* Kills and removes the groups of owners that are gone; names carry the owner's pid namespace, pid
   and start time. Of the own keeper's, all are removed that are not named in `keep`. */
void cgroup_sweep(struct cgroup_root *root);
void cgroup_sweep_except(struct cgroup_root *root, const char *const *keep, size_t count);

/* Makes the session's group with its limits, and lane 0. `name` is [a-z0-9.]+, chosen by the root:
   cgroup_session_name() gives one that cgroup_sweep() understands. `ret_birth_fd`: for v2 a
   directory fd for CLONE_INTO_CGROUP (lane 0), else -1: then the child enters by itself. A limit
   that cannot be had is an error (ERROR_UNSUPPORTED with the fix). */
#define CGROUP_NAME_MAX 96
void cgroup_session_name(const struct cgroup_root *root, unsigned number, char *ret, size_t size);
int cgroup_session_create(struct cgroup_root *root, const char *name,
                          const struct cgroup_limits *limits, int *ret_birth_fd, struct error *err);
/* Other limits for a session that is there: one made ahead of time, for example. */
int cgroup_session_limit(struct cgroup_root *root, const char *name,
                         const struct cgroup_limits *limits, struct error *err);
/* A lane that is there already is fine. Once there is CGROUP_LANE_INIT, lane 0 is one unit for the
   OOM killer (v2), as the lanes above it always are: with init in it, it must not be. */
int cgroup_lane_create(struct cgroup_root *root, const char *name, int lane, struct error *err);
/* Moves a process; pid 0 is the caller itself, which must be single-threaded. Makes
   CGROUP_LANE_INIT if it is not there. */
int cgroup_place(struct cgroup_root *root, const char *name, int lane, pid_t pid,
                 struct error *err);
int cgroup_lane_open(struct cgroup_root *root, const char *name, int lane,
                     struct cgroup_lane_fds *ret, struct error *err);
/* Kills every process of a lane, whatever it does: forks on, ignores signals, sits in a stop. When
   it returns 0 the lane is empty, and can be used again. Bounded in time. */
int cgroup_lane_kill(struct cgroup_root *root, const char *name, int lane, struct error *err);
/* The same for all lanes, init's too; the session can then only be removed. */
int cgroup_session_kill(struct cgroup_root *root, const char *name, struct error *err);
/* Whether there are groups of that name where this root has its own: an earlier process may have
   had them elsewhere. */
bool cgroup_session_exists(struct cgroup_root *root, const char *name);
/* What a session uses now, all lanes together. */
struct cgroup_session_usage {
    uint64_t cpu_us; /* UINT64_MAX: cannot be told (v1 with cpuacct mounted apart) */
    uint64_t memory_bytes;
    uint32_t processes;
};
int cgroup_session_usage(struct cgroup_root *root, const char *name,
                         struct cgroup_session_usage *ret, struct error *err);
/* A limit of the lane's own below the session's; 0: none. */
int cgroup_lane_limit(struct cgroup_root *root, const char *name, int lane, uint64_t memory_bytes,
                      struct error *err);
/* Whether the groups of a session that has ended are as good as new: what it read may stay charged
   to them, and would be billed to the next. Counters are to be read as differences, lanes may be
   there already. v1 alone: making groups is cheap on v2. */
bool cgroup_session_reusable(struct cgroup_root *root, const char *name);
/* Whether the kernel has killed a process of the session for memory, in whichever lane: init
   itself, for example, when it was not a process but the kernel on its behalf that held the memory.
   v2 alone; false on v1. */
bool cgroup_session_oom(struct cgroup_root *root, const char *name);
/* Removes the session's groups; they must be empty or emptying. Bounded in time. */
int cgroup_session_remove(struct cgroup_root *root, const char *name, struct error *err);

/* An entry may be sent to another process. cgroup_entry_use() moves the calling process, which must
   be single-threaded, makes no call but write(2), and returns 0 or -errno. */
int cgroup_entry_open(struct cgroup_root *root, const char *name, int lane,
                      struct cgroup_entry *ret, struct error *err);
int cgroup_entry_use(const struct cgroup_entry *entry);
void cgroup_entry_close(struct cgroup_entry *entry);

/* These need only the fds. Reading returns 0 or -errno (-ENODEV: the group is gone). */
int cgroup_usage_read(const struct cgroup_lane_fds *lane, struct cgroup_usage *ret);
/* The CPU time alone. */
int cgroup_usage_read_cpu(const struct cgroup_lane_fds *lane, struct cgroup_usage *usage);
/* From now on the peak is that of what comes. False where the kernel cannot (v2 before 6.12): there
   the peak is that of the lane's whole life. */
bool cgroup_peak_reset(const struct cgroup_lane_fds *lane);
void cgroup_lane_fds_close(struct cgroup_lane_fds *lane);
