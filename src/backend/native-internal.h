/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the native backend share.

     native.c           the table, sessions made and adopted
     native-spawner.c   requests to the spawner, answers matched to them
     native-session.c   init's messages, the end of a session
     native-lane.c      lanes opened, used, closed
     native-marker.c    small files of the host
     native-store.c     limits on skill stores
     native-describe.c  what the machine can
     native-process.c   the life of a command, until it runs …
     native-running.c   … while it runs …
     native-over.c      … and when it is over
     native-spare.c     sessions made ahead */
#pragma once

#include <uv.h>

#include "backend/native.h"
#include "core/mem.h"
#include "sandbox/cgroup.h"
#include "sandbox/outcome.h"
#include "sandbox/peer.h"
#include "sandbox/protocol.h"
#include "sandbox/request.h"
#include "sandbox/spec.h"

struct native_process;
struct native_session;

/* --- spawner -------------------------------------------------------------------------------------
 */

/* `reply` is NULL if the spawner is gone. Descriptors that the callee keeps it sets to -1. */
typedef void (*spawner_answer)(void *data, const struct spawner_reply *reply, int *fds,
                               size_t count);

struct spawner_call {
    struct spawner_call *next;
    uint32_t tag;
    spawner_answer answer;
    void *data;
    size_t size; /* of `message`; 0: it has been sent */
    unsigned char message[];
};

struct call_list {
    struct spawner_call *first;
    struct spawner_call **end;
};

struct native_spares {
    struct session_spec last;                        /* of its kind that was asked for, … */
    bool steady;                                     /* … and the one before was alike */
    struct session_spec spec;                        /* of those that are there */
    struct native_session *items[NATIVE_SPARES_MAX]; /* oldest first */
    unsigned count;
};

struct native {
    struct backend base;
    const struct native_options *options;
    int sock;
    uv_poll_t poll;
    bool writing; /* the socket was full */
    bool gone;
    char reason[ERROR_TEXT_MAX];    /* why no sessions can be made; "": they can */
    struct native_curious *curious; /* who waits to be told what the machine can */
    enum cgroup_version cgroup;     /* that holds all limits of sessions, as the spawner says */
    uint32_t next_tag;
    struct call_list unsent;
    struct call_list unanswered;
    struct native_session *sessions;
    struct native_spares spares;
};

/* native.c: asks the spawner for a session. */
struct native_session *native_make(struct native *native, const struct session_spec *spec,
                                   const char *key, const struct backend_session_events *events,
                                   void *owner);
void native_destroy(struct backend_session *base, backend_done done, void *data);
/* native-spare.c: one that is as the spec wants it, made ahead; NULL: there is none. */
struct native_session *native_spare_take(struct native *native, const struct session_spec *spec);
/* A session is up, so there may be time to make one ahead. */
void native_spare_refill(struct native *native);
void native_spare_release(struct native *native);

/* Whether the answer is one, and not a refusal: 0, or -1 with the reason. */
static inline int spawner_answered(const struct spawner_reply *reply, struct error *err)
{
    if (!reply)
        return error_set(err, ERROR_UNAVAILABLE, "the spawner has ended");
    return reply->code ? peer_spawner_failed(reply, err) : 0;
}

/* Copies the message, whose head is a struct spawner_request; the tag is set here. The answer comes
   from the loop, never before this returns. */
int native_no_descriptors(struct error *err); /* for what came without its own */
void native_call(struct native *native, const void *message, size_t size, spawner_answer answer,
                 void *data);
/* Begins to read answers. */
int native_watch(struct native *native);
void native_calls_init(struct native *native);
void native_calls_fail(struct native *native);

/* native-marker.c: as backend.h has it. */
void native_store(struct backend *backend, const struct backend_bound *bound, backend_done done,
                  void *data);
const char *native_cgroup_name(uint32_t version); /* enum cgroup_version, also of a stranger's */
void native_describe(struct backend *backend,
                     void (*done)(void *data, const json_t *described, const struct error *err),
                     void *data);
void native_marker(struct backend *backend, const char *directory, const char *name,
                   void (*done)(void *data, const void *bytes, size_t size,
                                const struct error *err),
                   void *data);

/* --- lanes ---------------------------------------------------------------------------------------
 */

enum native_lane_state {
    NATIVE_LANE_CLOSED,
    NATIVE_LANE_OPENING, /* the spawner was asked, or init */
    NATIVE_LANE_IDLE,
    NATIVE_LANE_BUSY,
    NATIVE_LANE_LINGERING, /* its command ended, but left processes behind */
};

struct native_lane {
    struct native_session *session;
    unsigned index;
    enum native_lane_state state;
    int sock;
    bool polled;
    bool watched; /* for memory running out */
    bool asked;   /* the spawner, or init, has still to answer about it */
    struct cgroup_lane_fds group;
    struct cgroup_usage usage; /* when its last command ended, if that left nothing behind */
    bool usage_known;
    struct native_process *process; /* that it runs, or is being opened for */
    uv_poll_t poll;
    uv_poll_t memory;
};

/* --- sessions ------------------------------------------------------------------------------------
 */

#define NATIVE_SESSION_STATES(X)                                   \
    X(ASKED)    /* the spawner has not answered yet */             \
    X(BUILDING) /* init has not said that it is ready */           \
    X(ADOPTING) /* an earlier one: init is telling what it kept */ \
    X(LIVE)                                                        \
    X(ENDED)   /* init is gone */                                  \
    X(LEAVING) /* destroy() was called */

enum native_session_state {
#define X(name) NATIVE_##name,
    NATIVE_SESSION_STATES(X)
#undef X
};

struct native_kept {
    uint32_t id;
    uint32_t lane;
    int32_t pid;
    int fds[INIT_KEEP_FDS_MAX];
    size_t count;
};

struct native_session {
    struct backend_session base;
    struct native_session *next;
    struct native_session **at; /* what points to it */
    const struct backend_session_events *events;
    void *owner;
    enum native_session_state state;
    uint64_t ready_ns; /* when it was NATIVE_LIVE for the first time; 0: never */
    unsigned holds;    /* calls under way, handles not closed, processes: freed at 0 */
    bool told;         /* its last event has been delivered, or nobody wants it */
    uint32_t number;   /* the spawner's; 0: not known yet */
    char key[SPEC_KEY_MAX];
    char group[SPAWNER_GROUP_MAX];
    uint32_t range;
    uint32_t linked;
    uint64_t memory_bytes;
    int control;
    bool polled;
    uv_poll_t poll;
    uv_timer_t timer;
    struct error error; /* to be told by the timer */
    struct denied_page *denied;
    struct strings bounded;
    char *notes;
    struct native_lane *lanes[LANE_MAX]; /* made at first use */
    struct native_process *waiting;      /* for the session, or a lane; oldest first */
    struct native_process **waiting_end;
    struct native_process *asking; /* NATIVE_ASKING, in the order of their questions */
    struct native_kept *kept;      /* while adopting */
    size_t kept_count;
    bool doomed; /* it had to be ended with a command: what follows waits until that is told */
    bool oom;    /* the kernel killed for memory, init too */
    backend_done destroyed;
    void *destroyed_data;
};

static inline struct native *native_of(const struct native_session *session)
{
    return (struct native *)session->base.backend;
}

void native_session_hold(struct native_session *session);
void native_session_drop(struct native_session *session);
/* Watches the control socket, which the session takes over. */
void native_session_connect(struct native_session *session, int control);
/* It is up: tells. */
void native_session_ready(struct native_session *session);
/* init is gone, or is to be treated so. */
void native_session_ended(struct native_session *session, const struct error *why);
/* Never came up: tells, and cleans up. */
void native_session_failed(struct native_session *session, const struct error *why);
int native_send(struct native_session *session, const void *message, size_t size, const int *fds,
                size_t count);
/* All that can start now, does. */
void native_dispatch(struct native_session *session);
void native_session_abandon(struct native_session *session);
/* DESTROY, and the end of everything that is left. */
void native_session_destroy(struct native_session *session);

struct native_lane *native_lane(struct native_session *session, unsigned index);
/* The lane has a launcher at the other end of `sock`, taken over. */
void native_lane_ready(struct native_lane *lane, int sock);
void native_lane_watch_memory(struct native_lane *lane);
void native_lane_close(struct native_lane *lane);
/* Asks for what a lane needs. Ends in native_lane_ready(), or the failure of lane->process. */
void native_lane_open(struct native_lane *lane, uint64_t memory);
void native_lane_answered(struct native_session *session, const struct init_lane *message);
/* A lane to run in: idle; or closed, and so to be opened; NULL: none is left. */
struct native_lane *native_lane_find(struct native_session *session, bool fresh);
bool native_lane_is_empty(const struct native_lane *lane);
/* Whether one of them will be heard of: it runs something, or is being opened or closed. */
bool native_lanes_moving(const struct native_session *session);
unsigned native_lanes_idle(const struct native_session *session);
/* The counters a command starts from. */
void native_lane_measure(struct native_lane *lane, struct cgroup_usage *ret);
void native_lane_kill(struct native_lane *lane);

/* --- processes -----------------------------------------------------------------------------------
 */

enum native_process_state {
    NATIVE_WAITING,
    NATIVE_STARTING,
    NATIVE_RUNNING,
    NATIVE_ASKING, /* ended; whether a disk is full, or the session gone, decides about the cause */
    NATIVE_OVER,
};

struct native_process {
    struct backend_process base;
    struct native_process *next; /* in the list it is in */
    const struct backend_process_events *events;
    void *owner;
    enum native_process_state state;
    struct native_lane *lane;
    uint32_t keep_id;
    uint64_t memory_bytes;
    struct command_request request; /* while WAITING: its own copies */
    struct strings argv;
    struct strings envp;
    char *program;
    char *cwd;
    int32_t pid; /* inside */
    uint64_t started_ns;
    uint64_t memory_until_ns;
    struct cgroup_usage before;
    struct cgroup_usage after;
    bool began; /* it has been told so */
    bool killed;
    bool timed_out;
    bool has_exited; /* its first process is over, `exited` is how; its tree is being killed */
    struct lane_exited exited;
    bool unexplained;   /* ended, and nobody said how */
    unsigned questions; /* about disks, unanswered */
    bool full;
    struct outcome outcome;
    struct error error; /* why it could not be started */
    uv_timer_t timer;
};

static inline struct native_session *session_of(const struct native_process *process)
{
    return (struct native_session *)process->base.session;
}

struct backend_process *native_start(struct backend_session *session,
                                     const struct backend_command *command,
                                     const struct backend_process_events *events, void *owner);
struct backend_process *native_adopt_process(struct backend_session *session, uint32_t keep_id,
                                             const struct backend_process_events *events,
                                             void *owner);
bool native_keep(struct backend_process *process, const int *fds, size_t count);
void native_signal(struct backend_process *process, int number);
void native_kill(struct backend_process *process, bool timed_out);

struct native_process *native_process_new(struct native_session *session, uint32_t keep_id,
                                          const struct backend_process_events *events, void *owner);
/* Out of the line. */
void native_process_unwait(struct native_process *process);
/* The lane is free again, or of no more use. */
void native_process_leave_lane(struct native_process *process, bool usable);
/* After its last event, or instead of it. */
void native_process_release(struct native_process *process);
/* It has ended, as `exited` tells; NULL: nobody told. */
void native_process_finish(struct native_process *process, const struct lane_exited *exited);
/* It is over; its last event follows, when more is known of it or the time has passed. */
void native_process_await(struct native_process *process, unsigned timeout_ms);
/* Its last event. */
void native_process_deliver(struct native_process *process, const struct error *err);
/* The lane is ready for it. */
void native_process_run(struct native_process *process, struct native_lane *lane);
void native_process_abandon(struct native_process *process); /* no event follows */
void native_process_fail(struct native_process *process, const struct error *err);
/* Something is to be read from the launcher. */
void native_process_read(struct native_process *process);
void native_process_memory(struct native_process *process);
/* Nobody will say any more how it ended. */
void native_process_lost(struct native_process *process, const struct error *why);
void native_process_space(struct native_session *session, const struct init_statfs *reply);
