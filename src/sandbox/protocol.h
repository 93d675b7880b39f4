/* SPDX-License-Identifier: Apache-2.0 */
/* The messages between caller, spawner, init and launcher: fixed structures on SOCK_SEQPACKET
   sockets, one message a packet, each checked for its exact length before a field is read.

     caller ──SPAWNER_*──► spawner      make, place, kill, end
     caller ──INIT_*─────► init         open a lane, open a file, signal
     caller ──LANE_*─────► launcher     run a command; its exit comes back the same way

   init and launchers are the sandbox's side: whatever comes from them is checked like a stranger's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/files.h"

/* --- lanes ------------------------------------------------------------------------------------ */

#define LANE_MAX 64

/* Denied system calls, one bit a number, for each lane: a page shared by init (which sets bits
   before it answers the call) and the caller (which reads and clears them when the command is
   over). */
#define DENIED_WORDS 8
struct denied_page {
    uint64_t lanes[LANE_MAX][DENIED_WORDS];
};

enum lane_message {
    LANE_EXEC = 0x4c01,
    LANE_STARTED,
    LANE_EXITED,
};

enum lane_exec_flags {
    LANE_PTY = 1 << 0,      /* no descriptors are sent; the terminal's master comes back */
    LANE_MAKE_CWD = 1 << 1, /* make the working directory if it is missing */
    LANE_IN_MEMFD = 1 << 2, /* the strings are in the last descriptor, a sealed memfd */
    LANE_FLAGS_ALL = (1 << 3) - 1,
};

/* The strings behind it, each ended by NUL: the working directory, argc arguments, envc variables.
 */
struct lane_exec {
    uint32_t type;
    uint32_t flags;
    uint32_t argc;
    uint32_t envc;
    uint32_t size; /* of the strings, all together */
    uint16_t rows;
    uint16_t columns;
};

#define LANE_STRINGS_MAX (2u * 1024 * 1024) /* what the kernel takes at the most */
#define LANE_INLINE_MAX  (64u * 1024)
#define LANE_ARGS_MAX    65536u

enum lane_stage {
    LANE_STAGE_NONE,
    LANE_STAGE_REQUEST,
    LANE_STAGE_CWD,
    LANE_STAGE_PTY,
    LANE_STAGE_EXEC,
    LANE_STAGE_FORK,
    LANE_STAGE_MAX,
};

/* With LANE_PTY the master of the terminal comes along. */
struct lane_started {
    uint32_t type;
    int32_t errnum; /* 0, or why nothing runs */
    uint32_t stage; /* enum lane_stage: where it failed */
    int32_t pid;    /* inside the sandbox */
};

struct lane_exited {
    uint32_t type;
    int32_t status; /* as wait(2) has it */
    uint64_t cpu_us;
    uint64_t max_rss; /* bytes, of the largest process */
};

/* --- init ------------------------------------------------------------------------------------- */

enum init_message {
    INIT_READY = 0x4901, /* the first message: with the denied page */
    INIT_FAILED,         /* or this one: struct init_failed; then the end of the stream */
    INIT_LANE,   /* → with `lane`, the launcher's end of its socket and the way into its groups;
                    ← the same */
    INIT_OPEN,   /* → struct init_open and the path; ← struct init_reply and the descriptor */
    INIT_STATFS, /* → struct init_open and the path; ← struct init_statfs */
    INIT_SIGNAL, /* → struct init_signal; no answer */
    INIT_REPLY,
    INIT_OUTLIVE, /* → struct init_outlive; no answer */
    INIT_KEEP,    /* → struct init_keep and descriptors: hold them for whoever comes after the
                     caller; no descriptors: let go of them. No answer. ← the same, to a new caller,
                     ahead of INIT_READY */
    INIT_FILE, /* → struct init_file, the path, perhaps another, and a stream socket, on which a
                  worker does the rest (core/files.h) */
};

struct init_ready {
    uint32_t type;
    uint32_t unused;
};

#define INIT_TEXT_MAX 512

struct init_failed {
    uint32_t type;
    uint32_t code; /* enum error_code */
    int32_t errnum;
    uint32_t unused;
    char message[INIT_TEXT_MAX];
    char hint[INIT_TEXT_MAX];
};

struct init_lane {
    uint32_t type;
    uint32_t lane;
    int32_t errnum;
};

enum init_open_flags {
    INIT_OPEN_READ = 1 << 0,
    INIT_OPEN_WRITE = 1 << 1,
    INIT_OPEN_CREATE = 1 << 2,
    INIT_OPEN_TRUNCATE = 1 << 3,
    INIT_OPEN_EXCLUSIVE = 1 << 4,
    INIT_OPEN_ALL = (1 << 5) - 1,
};

struct init_open {
    uint32_t type;
    uint32_t request; /* echoed */
    uint32_t flags;
    uint32_t mode;
    uint32_t path_size; /* with its NUL */
};

#define INIT_PATH_MAX 4096u

struct init_reply {
    uint32_t type;
    uint32_t request;
    int32_t errnum;
};

struct init_statfs {
    uint32_t type;
    uint32_t request;
    int32_t errnum;
    uint32_t unused;
    uint64_t block_size;
    uint64_t blocks;
    uint64_t blocks_free;
    uint64_t inodes; /* 0: the file system does not count them */
    uint64_t inodes_free;
};

struct init_signal {
    uint32_t type;
    int32_t pid; /* inside; its whole process group */
    int32_t number;
};

/* Without a caller init exits, and the session with it, unless it was told to wait so long for the
   next one, which comes by the socket that init listens on. */
struct init_outlive {
    uint32_t type;
    uint32_t seconds;
};

#define INIT_KEPT_MAX     LANE_MAX
#define INIT_KEEP_FDS_MAX 5

/* A caller's process in a lane: the lane's socket first, then what the caller wants to have again.
 */
struct init_keep {
    uint32_t type;
    uint32_t id; /* the caller's, not 0 */
    uint32_t lane;
    int32_t pid; /* inside: for INIT_SIGNAL */
};

struct init_file {
    uint32_t type;
    uint32_t path_size; /* with its NUL */
    uint32_t to_size;   /* likewise; 0: none */
    uint32_t unused;
    struct file_request request;
};

/* Where init finds its descriptors, and the launcher of a lane its own. */
#define INIT_FD_CONTROL 3
#define INIT_FD_FILTER  4 /* the seccomp program, a sealed memfd */
#define INIT_FD_RANGE   5 /* keeps the id range taken; -1 (closed) for an ordinary user */
#define INIT_FD_LANE                                                            \
    6 /* the launcher's end of lane 0's socket: commands may wait there already \
       */
#define INIT_FD_GROUP \
    7 /* the way into init's own groups, INIT_GROUP_FDS of them, each perhaps closed */
#define INIT_GROUP_FDS 3
#define INIT_FD_LISTEN                                                                           \
    (INIT_FD_GROUP + INIT_GROUP_FDS) /* bound, for callers to come; closed if there will be none \
                                      */

/* --- spawner ---------------------------------------------------------------------------------- */

enum spawner_message {
    SPAWNER_CREATE = 0x5301, /* struct spawner_request, then a spec */
    SPAWNER_LANE,            /* make `lane`; the way into it comes back */
    SPAWNER_KILL,            /* kill all of `lane` */
    SPAWNER_DESTROY,         /* end the session */
    SPAWNER_ADOPT, /* struct spawner_adopt: a session of an earlier spawner; its control socket
                      comes back */
    SPAWNER_PRUNE, /* kill what is in lanes other than those of `lanes` */
    SPAWNER_SWEEP, /* remove what earlier spawners left and nobody adopted; refused where no session
                      can be made */
    SPAWNER_USAGE, /* what the session uses now */
    SPAWNER_MARKER,  /* struct spawner_marker: the bytes of a file below an allowed root */
    SPAWNER_STORE,   /* struct spawner_store: a hard limit on a skill store of the caller's */
    SPAWNER_MACHINE, /* what this machine lets the spawner do */
    SPAWNER_REPLY,
    SPAWNER_ENDED, /* unasked: the session's init is gone; `lane` is 1 if the kernel killed for
                      memory in it */
};

struct spawner_request {
    uint32_t type;
    uint32_t tag; /* echoed */
    uint32_t session;
    int32_t lane;
    union {
        uint64_t memory; /* LANE: a limit of its own, in bytes; 0: none; or SPAWNER_MEMORY_AS_IS */
        uint64_t lanes;  /* PRUNE: a bit for each lane to be spared */
    };
};

#define SPAWNER_MEMORY_AS_IS UINT64_MAX

#define SPAWNER_KEY_MAX   17 /* 16 hex digits and a NUL */
#define SPAWNER_GROUP_MAX 96

struct spawner_adopt {
    struct spawner_request head;
    uint32_t range;
    uint32_t linked;
    char key[SPAWNER_KEY_MAX];
    char group[SPAWNER_GROUP_MAX]; /* "": it had none */
};

#define SPAWNER_MARKER_NAME 59 /* with its NUL, as the other one */
#define SPAWNER_MARKER_PATH 4096
#define SPAWNER_MARKER_MAX  1024

struct spawner_marker {
    struct spawner_request head;
    char name[SPAWNER_MARKER_NAME];
    char directory[SPAWNER_MARKER_PATH];
};

#define SPAWNER_TENANT_SIZE 129 /* with its NUL, as the other one */

struct spawner_store {
    struct spawner_request head;
    uint64_t bytes; /* 0: none any more */
    uint64_t inodes;
    uint32_t known;                   /* not 0: it had one already since the caller began */
    char tenant[SPAWNER_TENANT_SIZE]; /* "": the store outside tenants */
    char root[SPAWNER_MARKER_PATH];
};

struct spawner_usage {
    uint64_t cpu_us;
    uint64_t memory_bytes;
    uint32_t processes;
};

/* Bits of what the machine can. */
enum spawner_can {
    SPAWNER_CAN_RANGES = 1, /* user ids of its own for each session */
    SPAWNER_CAN_MEMORY = 2, /* limits, by `cgroup` */
    SPAWNER_CAN_CPU = 4,
    SPAWNER_CAN_PIDS = 8,
    SPAWNER_CAN_NETWORK = 16, /* else `message` says why not */
};

struct spawner_reply {
    uint32_t type;
    uint32_t request; /* the type it answers */
    uint32_t tag;
    uint32_t session;
    int32_t lane;
    uint32_t code; /* enum error_code; 0: done */
    int32_t errnum;
    int32_t host_pid; /* of init, for people */
    uint32_t cgroup;  /* enum cgroup_version of the lane's descriptors; SWEEP: of what holds all
                         limits of a session; MACHINE: of what there is */
    uint32_t can;     /* MACHINE: enum spawner_can */
    uint32_t
        cgroup_fds; /* bit i set: descriptor i of enum cgroup_fd is among those sent, in order */
    uint32_t range;
    uint32_t linked;
    uint32_t
        entry_fds; /* so many descriptors, ahead of those, are the way into the lane's groups */
    char group[SPAWNER_GROUP_MAX]; /* CREATE: what ADOPT will want to know */
    struct spawner_usage usage;
    uint32_t marker_size; /* MARKER: so many bytes, in place of words */
    union {
        struct {
            char message[INIT_TEXT_MAX];
            char hint[INIT_TEXT_MAX];
        };
        unsigned char marker[SPAWNER_MARKER_MAX];
    };
};
