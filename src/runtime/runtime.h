/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that remember, commands in them, managed processes, files; who may have how many, how
   long they live, and what of them survives a restart. One loop, one thread; nothing here blocks.

   Life of a session:

     STARTING ──► LIVE ──► ENDING ──► (gone)
         │          └─ its backend ended it ─► BROKEN: made anew by the next spec that names it
         └─ could not be made ─► (gone)

   Pointers to sessions are borrowed and valid until control returns to the loop. Who keeps one
   across that holds it: session_hold() keeps the memory, not the sandbox; session_name() of a gone
   one still works, and everything else fails with ERROR_NO_SESSION or ERROR_GONE. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "backend/backend.h"
#include "core/error.h"
#include "core/mem.h"

struct runtime;
struct session;
struct execution;
struct process;
struct attachment;
struct terminal;
struct file_job;

struct runtime_config {
    const char *run_dir;   /* records: volatile, like what they tell of */
    const char *state_dir; /* the audit log, output that is kept */
    uint64_t session_ttl_ms;
    unsigned max_sessions;
    unsigned max_managed_processes;   /* of all sessions together */
    unsigned max_completed_processes; /* remembered, of all sessions together */
    uint64_t completed_retention_ms;
    uint64_t max_queued_bytes;  /* of what commands were given and have not taken yet */
    uint64_t output_keep_bytes; /* of each stream in a result: 1 MiB */
    uint64_t session_log_bytes; /* output kept for …/execs/{n}/log, of each session together */
    uint32_t outlive_seconds; /* how long sessions wait for the next boxd; 0: they end with this */
    struct strings allowed_roots; /* where host_path and extra mounts may lie */
    bool only_allowed;    /* … and nowhere else; else an empty list is the backend's to judge */
    uint64_t audit_bytes; /* size at which the audit log is rotated; 0: no audit log */
    unsigned audit_files; /* how many old ones are kept */
};

void runtime_config_init(struct runtime_config *config); /* WIRE's defaults */
int runtime_new(uv_loop_t *loop, const struct runtime_config *config, struct backend *backend,
                struct runtime **ret, struct error *err);
/* Reads the records of an earlier boxd and takes its sessions over, or with `adopt` false removes
   them; sweeps the rest. `done` when all are accounted for; requests may come before that: a name
   that is being adopted is waited for. */
void runtime_recover(struct runtime *runtime, bool adopt, void (*done)(void *data), void *data);
/* SIGHUP: limits and times; sessions that are there keep what they have. */
void runtime_reconfigure(struct runtime *runtime, const struct runtime_config *config);
/* Ends relays, terminals and waiting requests (ERROR_UNAVAILABLE); with `keep` sessions stay for
   the next boxd, else they are ended. `done` when that is so. Nothing may be asked of it
   afterwards. */
void runtime_stop(struct runtime *runtime, bool keep, void (*done)(void *data), void *data);
void runtime_free(struct runtime *runtime);

/* Another backend from now on. Only while there is no session, not even one that is being ended:
   ERROR_CAPACITY. The old one is not closed. */
int runtime_set_backend(struct runtime *runtime, struct backend *backend, struct error *err);
const struct runtime_config *runtime_config(const struct runtime *runtime);
struct backend *runtime_backend(const struct runtime *runtime);

/* Who asks, for the audit log: "unix", "token", "127.0.0.1" … Set before each call into the runtime
   by the front end; remembered by what it starts. */
void runtime_set_actor(struct runtime *runtime, const char *actor);

/* --- sessions --------------------------------------------------------------------------------- */

typedef void (*session_done)(void *data, struct session *session, bool created,
                             const struct error *err);

/* The session of that name: as it is if it fits (WIRE.md: conflicts name the field and its present
   value; other extra_mounts recreate it), else made. Two requests for one name share one creation.
 */
void runtime_open_session(struct runtime *runtime, const struct session_spec *spec,
                          session_done done, void *data);
/* NULL if there is none (also while it is ENDING). */
struct session *runtime_find_session(struct runtime *runtime, const char *name);
/* Waits for a creation under way, ends its processes and it, waits until nothing is left.
   ERROR_NO_SESSION if there is none. Two deletions of one session both succeed if they overlap. */
void runtime_delete_session(struct runtime *runtime, const char *name, backend_done done,
                            void *data);
/* In order of creation. */
void runtime_each_session(struct runtime *runtime,
                          void (*visit)(struct session *session, void *data), void *data);
/* Ends every session that `wanted` says true of (NULL: all), those that are being made too; `done`
   when they are gone. Requests that wait to make one of them anew fail with ERROR_GONE. */
void runtime_delete_sessions(struct runtime *runtime,
                             bool (*wanted)(const struct session *session, void *data),
                             backend_done done, void *data);
/* Has a say whenever a session is about to be made, also anew for a request that has waited. What
   was allowed when a request came may not be any more when its turn comes. */
struct runtime_guard {
    struct runtime_guard *next;
    int (*may_create)(void *data, const char *name, struct error *err);
    void *data;
};
void runtime_add_guard(struct runtime *runtime, struct runtime_guard *guard);
void runtime_remove_guard(struct runtime *runtime, struct runtime_guard *guard);
void session_hold(struct session *session);
void session_release(struct session *session);

#define SESSION_STATES(X)   \
    X(STARTING, "starting") \
    X(LIVE, "live")         \
    X(BROKEN, "broken")     \
    X(ENDING, "ending")

enum session_state {
#define X(name, text) SESSION_##name,
    SESSION_STATES(X)
#undef X
        SESSION_STATE_MAX,
};
const char *session_state_name(enum session_state state);

enum session_state session_state(const struct session *session);
const struct session_spec *session_spec(const struct session *session);
const char *session_name(const struct session *session);
const char *session_backend_id(const struct session *session);
const char *session_notes(const struct session *session);
int64_t session_created_us(const struct session *session); /* microseconds since 1970 */
int64_t session_last_used_us(const struct session *session);
unsigned session_running(const struct session *session); /* commands under way and waiting */
void session_usage(struct session *session,
                   void (*done)(void *data, const struct backend_usage *usage,
                                const struct error *err),
                   void *data);

/* --- commands --------------------------------------------------------------------------------- */

struct exec_request {
    const char *command; /* run as `sh -lc COMMAND`; or NULL, and … */
    char *const *argv;   /* … this is run as it is */
    const char *workdir; /* NULL: the session's mount path; made if it is missing */
    uint64_t timeout_ms; /* 0: none */
    struct strings env;  /* "NAME=value", over the default environment */
    const void *input;   /* copied; NULL: /dev/null */
    size_t input_size;
    bool concurrent; /* beside others, not behind them */
};

enum stream {
    STREAM_OUTPUT,
    STREAM_ERROR,
    STREAM_MAX,
};

struct exec_stream {
    const char *data; /* what was kept, raw: the first output_keep_bytes */
    size_t size;
    uint64_t bytes; /* how many there were */
};

struct exec_result {
    unsigned number; /* …/execs/{number}/log */
    struct backend_outcome outcome;
    struct exec_stream streams[STREAM_MAX];
};

struct exec_events {
    /* It has left the queue and runs. May be NULL. */
    void (*started)(void *owner, unsigned number);
    /* As it comes; NULL: only the result is wanted. execution_pause() holds it up. */
    void (*output)(void *owner, enum stream stream, const char *data, size_t size);
    /* The result (err NULL; valid until it returns), or why there is none. The last event. */
    void (*done)(void *owner, const struct exec_result *result, const struct error *err);
};

/* Never fails at once: everything is told by events. */
struct execution *session_exec(struct session *session, const struct exec_request *request,
                               const struct exec_events *events, void *owner);
/* In one go, and fast: the command is on its way while the session is being made. `opened` (may be
   NULL) tells about the session, then the events about the command. */
struct execution *runtime_exec(struct runtime *runtime, const struct session_spec *spec,
                               const struct exec_request *request, session_done opened,
                               const struct exec_events *events, void *owner);
/* Nobody wants it any more: no event follows; if it runs, it is killed. */
void execution_cancel(struct execution *execution);
void execution_pause(struct execution *execution);
void execution_resume(struct execution *execution);

/* Past output of a command, from `offset` on, at most `size` bytes into `buffer`: the number of
   bytes, 0 at the (present) end, -1 with ERROR_NOT_FOUND if there is no such command or it is no
   longer kept. *ret_total: bytes there were; *ret_kept: bytes that can be had; *ret_running. */
ssize_t session_exec_log(struct session *session, unsigned number, enum stream stream,
                         uint64_t offset, void *buffer, size_t size, uint64_t *ret_total,
                         uint64_t *ret_kept, bool *ret_running, struct error *err);

/* --- managed processes ------------------------------------------------------------------------ */

struct process_spec {
    char *id;      /* "default" */
    char *command; /* looked for in PATH */
    struct strings args;
    struct strings env; /* "NAME=value" */
    char *cwd;
    uint64_t memory_mb; /* 0: the session's */
};

void process_spec_init(struct process_spec *spec);
void process_spec_release(struct process_spec *spec);
int process_spec_check(const struct process_spec *spec, struct error *err);

typedef void (*process_done)(void *data, struct process *process, const struct error *err);

/* One that runs under the id is stopped first. Over max_managed_processes: ERROR_CAPACITY. */
void session_start_process(struct session *session, const struct process_spec *spec,
                           process_done done, void *data);
struct process *session_find_process(struct session *session, const char *id);
void session_each_process(struct session *session,
                          void (*visit)(struct process *process, void *data), void *data);
/* Close stdin, SIGTERM, 5 s, SIGKILL for the whole tree; `done` when it is over. Then it is
 * forgotten. */
void process_stop(struct process *process, backend_done done, void *data);
int process_signal(struct process *process, int number, struct error *err);

struct process_info {
    const char *id;
    const struct process_spec *spec;
    bool running;
    bool attached;
    int64_t started_us;
    int64_t exited_us;           /* 0: it runs */
    bool exit_known;             /* whether exit_code means something */
    int exit_code;               /* 128 + n for a signal */
    const char *cause;           /* as of a command; NULL while it runs */
    uint64_t bytes[STREAM_MAX];  /* written so far */
    uint64_t oldest[STREAM_MAX]; /* offset of the first byte still kept */
};
void process_info(const struct process *process, struct process_info *ret);
/* The last bytes of its stderr, at most `size`. Returns how many. */
size_t process_error_tail(const struct process *process, char *buffer, size_t size);
/* From the ring of a stream: bytes from *offset on, which is moved up to what is still kept. */
size_t process_log(const struct process *process, enum stream stream, uint64_t *offset,
                   void *buffer, size_t size);

/* For those who follow a log: called when a stream has grown, and when the process is over. With
   `gone` the process is forgotten, its pointer dead and the follower off its list. The callee reads
   process_log(); it may unfollow. */
struct process_follower {
    struct process_follower *next;
    void (*changed)(void *data, bool gone);
    void *data;
};
void process_follow(struct process *process, struct process_follower *follower);
void process_unfollow(struct process *process, struct process_follower *follower);

/* Relay. One holds a process; others wait in line. */
struct attach_events {
    /* It is yours: output follows, from `offset` on. */
    void (*attached)(void *owner, uint64_t offset);
    /* stdout as it comes, to be taken in full. */
    void (*output)(void *owner, const char *data, size_t size);
    /* There is room for input again after attachment_write() said false. */
    void (*drained)(void *owner);
    /* All its output has been told, and it is over (or the runtime stops: err). The last event. */
    void (*ended)(void *owner, const struct error *err);
};
/* Where output begins: what nobody has been told yet. */
#define ATTACH_UNREAD UINT64_MAX
struct attachment *process_attach(struct process *process, uint64_t since,
                                  const struct attach_events *events, void *owner);
/* To its stdin. False: it does not read as fast as you write; taken all the same, up to 16 MiB,
   over which ERROR_LIMIT ends the attachment. */
bool attachment_write(struct attachment *attachment, const void *data, size_t size);
void attachment_pause(struct attachment *attachment);
void attachment_resume(struct attachment *attachment);
void attachment_close(struct attachment *attachment); /* no event follows; the process goes on */

/* --- terminals -------------------------------------------------------------------------------- */

struct terminal_request {
    char *const *argv; /* NULL: a login shell */
    const char *workdir;
    struct strings env; /* TERM and the like */
    uint16_t rows;
    uint16_t columns;
};

struct terminal_events {
    void (*output)(void *owner, const char *data, size_t size);
    void (*drained)(void *owner);
    void (*ended)(void *owner, const struct backend_outcome *outcome, const struct error *err);
};

/* Beside commands, not behind them. */
struct terminal *session_terminal(struct session *session, const struct terminal_request *request,
                                  const struct terminal_events *events, void *owner);
bool terminal_write(struct terminal *terminal, const void *data, size_t size);
void terminal_resize(struct terminal *terminal, uint16_t rows, uint16_t columns);
void terminal_pause(struct terminal *terminal);
void terminal_resume(struct terminal *terminal);
void terminal_close(
    struct terminal *terminal); /* hangs up: the tree is killed. No event follows. */

/* --- files ------------------------------------------------------------------------------------ */

struct file_info {
    const char *name; /* of an entry; NULL of the thing itself */
    uint32_t mode;    /* as stat(2) has it */
    uint64_t size;
    uint64_t length; /* READ: bytes that follow */
    int64_t mtime_ns;
};

struct file_events {
    /* The worker's first word. For READ, WRITE and LIST more follows. */
    void (*opened)(void *owner, const struct file_info *info);
    void (*data)(void *owner, const char *data, size_t size); /* READ */
    void (*entry)(void *owner, const struct file_info *info); /* LIST */
    void (*drained)(void *owner);                             /* WRITE: room again */
    /* ERROR_NOT_FOUND, ERROR_DENIED, ERROR_INVALID (a directory, a FIFO …), ERROR_LIMIT (no space),
       all with errnum. The last event, also in success. */
    void (*done)(void *owner, const struct error *err);
};

struct file_job *session_file(struct session *session, const struct file_request *request,
                              const char *path, const char *to, const struct file_events *events,
                              void *owner);
bool file_job_write(struct file_job *job, const void *data, size_t size);
void file_job_finish(struct file_job *job); /* WRITE: that was all */
void file_job_pause(struct file_job *job);  /* READ, LIST */
void file_job_resume(struct file_job *job);
void file_job_cancel(struct file_job *job); /* no event follows */

/* --- what is going on ------------------------------------------------------------------------- */

#define RUNTIME_EVENTS(X)                 \
    X(SESSION_CREATED, "session_created") \
    X(SESSION_ADOPTED, "session_adopted") \
    X(SESSION_DELETED, "session_deleted") \
    X(SESSION_REAPED, "session_reaped")   \
    X(SESSION_LOST, "session_lost")       \
    X(EXEC_STARTED, "exec_started")       \
    X(EXEC_EXITED, "exec_exited")         \
    X(OOM, "oom")                         \
    X(PROCESS_STARTED, "process_started") \
    X(PROCESS_EXITED, "process_exited")   \
    X(PROCESS_STOPPED, "process_stopped")

enum runtime_event_type {
#define X(name, text) RUNTIME_##name,
    RUNTIME_EVENTS(X)
#undef X
        RUNTIME_EVENT_MAX,
};
const char *runtime_event_name(enum runtime_event_type type);

struct runtime_event {
    enum runtime_event_type type;
    uint64_t sequence;
    int64_t time_us;
    const char *session;
    const char *process; /* NULL: not about one */
    unsigned number;     /* of an exec; 0: none */
    int exit_code;       /* of EXITED; -1: none */
    int signal;          /* of EXEC_EXITED: what ended it; 0: none */
    const char *cause;   /* of EXITED; or NULL */
};

struct runtime_listener {
    struct runtime_listener *next;
    void (*event)(void *data, const struct runtime_event *event);
    void *data;
};
void runtime_listen(struct runtime *runtime, struct runtime_listener *listener);
void runtime_unlisten(struct runtime *runtime, struct runtime_listener *listener);

/* A latency histogram: counts at or below each bound of runtime_bounds_us, then +Inf. */
#define RUNTIME_BUCKETS 16
extern const uint64_t runtime_bounds_us[RUNTIME_BUCKETS];
struct runtime_histogram {
    uint64_t counts[RUNTIME_BUCKETS + 1]; /* not cumulative */
    uint64_t sum_us;
    uint64_t count;
};

struct runtime_stats {
    unsigned sessions;
    unsigned processes;  /* managed, running */
    unsigned executions; /* running and waiting */
    uint64_t sessions_created;
    uint64_t sessions_failed;
    uint64_t sessions_reaped;
    uint64_t sessions_adopted;
    uint64_t outcomes[16]; /* commands, in the order of runtime_outcome_names */
    uint64_t output_bytes;
    struct runtime_histogram create, exec, destroy;
};
/* NULL-terminated: "exited", "nonzero", "signal", "timeout", "oom", … */
extern const char *const runtime_outcome_names[];
void runtime_stats(const struct runtime *runtime, struct runtime_stats *ret);
