/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of the runtime know of each other. */
#pragma once

#include "core/buf.h"
#include "runtime/list.h"
#include "runtime/loop.h"
#include "runtime/ring.h"
#include "runtime/runtime.h"

#define SESSION_KEY_SIZE  17
#define SESSION_LANES     64   /* commands, processes and terminals of a session at once */
#define SESSION_QUEUE_MAX 1024 /* commands that wait, of a session */
#define ACTOR_SIZE        64
#define READ_BUFFER_SIZE  (256u * 1024)
#define PIPE_SIZE_DEFAULT (64u * 1024)
#define PIPE_SIZE_RAISED  (1024u * 1024)
#define INPUT_BACKLOG_MAX (16u * 1024 * 1024)
#define PROCESS_STOP_MS   5000
#define LAZY_WATCH_MS     4
#define SPARE_PIPES       4 /* made while nobody waits, for the next two commands */
#define COMPLETED_RINGS_MAX \
    16 /* of so many completed processes all output is kept, of others the end */

/* --- the audit log (audit.c) ------------------------------------------------------------------ */

struct audit;

struct audit_line {
    const char *what; /* "session_created", "exec", … */
    const char *actor;
    const char *session;
    const char *process;                 /* NULL: none */
    const char *text;                    /* the command, or NULL */
    const char *outcome;                 /* "completed", "failed" … */
    const struct backend_outcome *usage; /* NULL: none */
};

struct audit *audit_new(struct runtime *runtime, struct error *err);
void audit_write(struct audit *audit, const struct audit_line *line);
/* All of it, now; what is being written in the background is waited for: `done` later. */
void audit_finish(struct audit *audit, void (*done)(void *data), void *data);
void audit_close(struct audit *audit); /* its handle; audit_free() the rest */
void audit_free(struct audit *audit);
/* A command and its arguments with spaces between, no longer than is of use here. */
char *audit_join(const char *command, char *const *args);
/* Bytes of `text` that make at most `characters` of UTF-8, none of them cut in two. */
size_t audit_cut(const char *text, size_t characters);

/* --- output of past commands (exec-log.c) ----------------------------------------------------- */

struct log_entry;

struct exec_log {
    struct list entries; /* oldest first */
    unsigned count;
    uint64_t bytes; /* kept, in memory and file */
    uint64_t memory;
    int fd; /* -1: none */
    uint64_t file_end;
    uint64_t file_bytes; /* of it in use */
    bool solid;          /* holes cannot be made in it */
    bool broken; /* the file could not be written: what does not fit in memory is not kept */
};

void exec_log_init(struct exec_log *log);
struct log_entry *exec_log_begin(struct runtime *runtime, struct exec_log *log, unsigned number);
void exec_log_add(struct runtime *runtime, struct exec_log *log, struct log_entry *entry,
                  enum stream stream, const char *data, size_t size);
void exec_log_finish(struct log_entry *entry);
void exec_log_release(struct exec_log *log);

/* --- the runtime ------------------------------------------------------------------------------ */

struct spare_pipe {
    int read, write;
};

struct table {
    struct session **buckets;
    size_t size; /* a power of two */
    size_t count;
    uint64_t seed;
};

struct runtime {
    uv_loop_t *loop;
    struct backend *backend;
    const struct backend_ops *ops;
    struct runtime_config config;
    char actor[ACTOR_SIZE];

    /* loop.c */
    uv_idle_t idle;
    uv_check_t check;
    struct list tasks;
    void **graves;
    size_t grave_count, grave_capacity;
    unsigned handles; /* open, but for idle and check */
    unsigned loop_handles;
    void (*loop_closed)(struct runtime *runtime);
    bool loop_ready;

    struct table table;
    struct list sessions;  /* in order of creation */
    unsigned processes;    /* managed, running */
    unsigned executions;   /* under way and waiting */
    uint64_t queued_bytes; /* which they were given and have not taken yet */
    unsigned unfinished;   /* things whose last event from the backend is still to come */
    unsigned writing;      /* records under way in the thread pool */
    struct list completed;
    unsigned completed_count;
    struct alarm *completed_alarm;
    struct list unwatched; /* commands whose pipes are not watched yet */
    struct alarm *unwatched_alarm;

    struct spare_pipe spare[SPARE_PIPES];
    unsigned spare_count;
    struct task spare_task;

    int null_fd;
    int records_fd;
    bool records_volatile; /* in memory: fsync would do nothing, and nothing can block */
    int state_fd;
    char *read_buffer;
    struct audit *audit;

    struct runtime_listener *listeners, *next_listener;
    struct runtime_guard *guards;
    uint64_t event_sequence;
    struct runtime_stats stats;

    /* recover.c */
    unsigned recovering; /* sessions that are being taken over */
    bool recover_adopt;
    struct task recover_task;
    void (*recovered)(void *data);
    void *recovered_data;

    bool stopping, stop_keep, stop_late, finishing, handles_closing;
    void (*stopped)(void *data);
    void *stopped_data;
    struct task stop_task;
    struct alarm *stop_alarm;
    bool closed, free_when_closed;
};

int64_t runtime_now_us(void);
/* Whether a stop can go on: called whenever something it waits for is over. */
void runtime_check_stop(struct runtime *runtime);
/* loop.c */
void loop_open(struct runtime *runtime);
void loop_close(struct runtime *runtime, void (*closed)(struct runtime *runtime));

/* events.c */
void runtime_emit(struct runtime *runtime, enum runtime_event_type type, const char *session,
                  const char *process, unsigned number, int exit_code, const char *cause);
/* `outcome` NULL: it is not known. */
void runtime_emit_exited(struct runtime *runtime, const char *session, unsigned number,
                         const struct backend_outcome *outcome);
void histogram_add(struct runtime_histogram *histogram, uint64_t us);
void stats_outcome(struct runtime *runtime, const struct backend_outcome *outcome, bool cancelled);
int outcome_exit_code(const struct backend_outcome *outcome); /* 128 + n for a signal */

/* environment.c: the default environment with `over` on it; for a terminal also SHELL and TERM. */
void environment_make(struct strings *env, const struct strings *over, bool terminal);
int environment_check(const struct strings *env, struct error *err);

/* --- sessions --------------------------------------------------------------------------------- */

#define SESSION_ENDS(X)     \
    X(NONE, "none")         \
    X(DELETED, "deleted")   \
    X(REAPED, "reaped")     \
    X(REPLACED, "replaced") \
    X(STOPPED, "stopped")   \
    X(FAILED, "failed")     \
    X(LOST, "lost")

enum session_end {
#define X(name, text) SESSION_END_##name,
    SESSION_ENDS(X)
#undef X
};

struct deletion {
    struct list link;
    struct task task;
    struct runtime *runtime;
    backend_done done;
    void *data;
    struct error *err; /* NULL: it went well */
};

/* A request for a session (session-open.c). */
struct opening {
    struct list link;
    struct task task;
    struct runtime *runtime;
    struct session_spec spec;
    char actor[ACTOR_SIZE];
    session_done done;
    void *data;
    struct session *session;     /* held; which it was given */
    struct execution *execution; /* of runtime_exec() */
    bool created;
    bool placed; /* the execution is in the session */
    struct error *err;
};

/* Bytes of a record: what is not read after a restart is not to be written before it. */
#define RECORD_MAX     (4u << 20)
#define RECORD_NUMBERS 256 /* commands between two records */

struct record_waiter {
    struct list link;
    void (*done)(struct record_waiter *waiter, const struct error *err);
};

/* In an order for readers. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct session {
    struct runtime *runtime;
    struct list link;
    struct session *chain; /* in its bucket */
    uint64_t hash;
    unsigned holds;
    struct session_spec spec;
    char key[SESSION_KEY_SIZE];
    char actor[ACTOR_SIZE];
    enum session_state state;
    enum session_end end;
    bool gone;
    bool adopted;    /* from an earlier boxd */
    bool recovering; /* … and recovery waits for it */
    bool outlives;
    bool destroying;
    bool announced;                  /* that it is there was told */
    struct backend_session *backend; /* NULL: not yet, or no more */
    char *backend_id, *notes;
    int64_t created_us, last_used_us;
    uint64_t began_ns; /* of its creation, then of its end; for the histograms */
    struct alarm *idle;
    bool idle_set;

    struct list openings; /* wait until it is ready */
    struct list after;    /* openings that wait until it is gone */
    struct list deletions;

    struct list serial;     /* commands that wait for their turn */
    struct list concurrent; /* those that wait for a lane */
    struct list running;
    unsigned waiting;
    unsigned lanes; /* in use: commands, processes, terminals */
    bool serial_runs;
    unsigned next_number;
    struct exec_log log;

    struct list processes;
    uint32_t next_keep;
    struct list terminals;
    struct list files;
    unsigned busy; /* reasons not to be reaped, besides waiting commands */

    /* record.c */
    json_t *backend_record; /* NULL: it is not ready yet */
    json_t *adopt_record;   /* what an earlier boxd wrote, until it is given to the backend */
    bool record_writing, record_dirty;
    bool record_gone;   /* to be removed, and never written again */
    bool record_remove; /* the session goes with it */
    struct list record_waiters;
    struct record_waiter saved;
    struct task broken_task; /* lets go of what its backend ended */
    struct task gone_task;
    struct task free_task;
    struct error *fail; /* why it could not be made, or be ended */
};

/* session.c */
uint64_t table_hash(const struct table *table, const char *name);
struct session *table_find(const struct table *table, const char *name);
void table_add(struct table *table, struct session *session);
void table_remove(struct table *table, struct session *session);
struct session *session_new(struct runtime *runtime, const struct session_spec *spec,
                            const char *key, const char *actor);
/* Of a runtime that ends: what is left in it goes without a word. */
void session_close_handles(struct session *session);
void session_discard(struct session *session);
void session_touch(struct session *session);  /* it was used just now */
void session_settle(struct session *session); /* arms or clears the idle timer, as it is right */
void session_busy(struct session *session);
void session_rest(struct session *session);
/* Whether something can be begun in it; else why not. */
int session_usable(const struct session *session, struct error *err);
/* Whether start() may be called: not while it is still being found out what is left of it. */
bool session_startable(const struct session *session);
/* Begins everything that waited for the backend. */
void session_kick(struct session *session);

/* session-open.c */
extern const struct backend_session_events session_events;
void opening_go(struct opening *opening);
void opening_fail(struct opening *opening, const struct error *err);
struct opening *opening_new(struct runtime *runtime, const struct session_spec *spec,
                            session_done done, void *data);
void opening_tell(struct opening *opening); /* how it went; it is no more */
void openings_ready(struct session *session);
void openings_fail(struct list *openings, const struct error *err);
void openings_again(struct list *openings); /* what they waited for is not to be had */

/* session-end.c */
/* That it is there, once: when it is live, or before what runs in it already is told of. */
void session_announce(struct session *session);
void session_ready(struct session *session, const struct error *err);
void session_lost(struct session *session, const struct error *why);
void session_finish(struct session *session, enum session_end end);
/* Nothing of it is left at the backend: it goes, its record last. */
void session_drop(struct session *session, enum session_end end, const struct error *err);
void session_gone(struct session *session); /* … and its record is no more */
void session_on_gone(struct task *task);
void session_on_broken(struct task *task);
void session_delete(struct session *session, backend_done done, void *data);
void deletion_new(struct runtime *runtime, struct list *list, backend_done done, void *data);
void deletions_tell(struct list *deletions, const struct error *err);
/* sessions.c */
int guards_ask(const struct runtime *runtime, const char *name, struct error *err);
/* recover.c: one of those that were read is accounted for. */
void recover_one_done(struct runtime *runtime);

/* --- records (record.c, record-read.c) -------------------------------------------------------- */

/* Writes the session's record as it is now; `waiter` (may be NULL) is told later. */
void record_save(struct session *session, struct record_waiter *waiter);
void record_forget(struct session *session); /* the last that is done to a session */
/* Whether there is room in the record for one more process. */
int record_room(const struct session *session, const struct process_spec *spec, struct error *err);
json_t *record_make(const struct session *session);
json_t *record_process_spec(const struct process_spec *spec);
/* Makes the session that a record tells of, if it was ready; else *ret is NULL. */
int record_parse(struct runtime *runtime, const char *key, const char *text, size_t size,
                 struct session **ret, struct error *err);

/* --- commands --------------------------------------------------------------------------------- */

enum exec_state {
    EXEC_OPENING, /* its session is being found */
    EXEC_WAITING, /* for its turn */
    EXEC_BEGUN,   /* given to the backend */
    EXEC_RUNNING,
    EXEC_OVER, /* it ended; its last output may wait for a listener that pauses */
    EXEC_TOLD, /* nothing more is to be told */
};

struct exec_pipe {
    int fd;
    struct watch *watch;
    struct buf kept;
    uint64_t bytes;
    size_t drained; /* after its end */
    bool raised;
};

struct execution {
    struct list link;
    struct list unwatched;
    struct task task;
    struct runtime *runtime;
    struct session *session; /* held; NULL while it is being found */
    struct opening *opening; /* NULL: told */
    struct exec_events events;
    void *owner;
    char actor[ACTOR_SIZE];
    enum exec_state state;
    bool concurrent, cancelled, paused, told_started;
    bool announced; /* that it has started, to those who listen to events */
    bool timed;     /* the alarm is set */
    unsigned number;

    struct strings argv, env;
    char *cwd;
    uint64_t timeout_ms;
    struct alarm *timeout;
    struct backend_process *process;
    char *input;
    size_t input_size, input_sent;
    size_t queued_bytes; /* of the runtime's */
    int input_fd;
    struct watch *input_watch;
    struct exec_pipe pipes[STREAM_MAX];
    struct log_entry *log;
    struct backend_outcome outcome;
    struct error *err;
    uint64_t began_ns;
};

/* exec.c */
/* What is wrong with the request is in `err`. */
struct execution *execution_new(struct runtime *runtime, const struct exec_request *request,
                                const struct exec_events *events, void *owner);
/* What it was given is no longer held. */
void execution_uncount(struct execution *execution);
/* It runs: its arguments and environment are the process's own now. */
void execution_uncount_taken(struct execution *execution);
void execution_place(struct execution *execution, struct session *session);
void execution_unplace(struct execution *execution); /* out of a session that never came up */
void execution_fail(struct execution *execution, const struct error *err);
void session_dispatch(struct session *session);
void session_fail_executions(struct session *session, const struct error *err);
/* exec-run.c */
void execution_begin(struct execution *execution);
void execution_finish(struct execution *execution);
void execution_tell_opened(struct execution *execution);
void execution_tell_started(struct execution *execution);
void execution_free(struct execution *execution);
/* exec-stream.c */
int exec_pipes_open(struct execution *execution, int child[3], struct error *err);
void exec_pipes_watch(struct execution *execution);
void exec_pipes_pause(struct execution *execution);
/* What is in the pipes now. False: the listener paused (or cancelled) in between. */
bool exec_pipes_drain(struct execution *execution);
void exec_pipes_close(struct execution *execution);
void exec_watch_later(struct execution *execution);
void exec_pipes_spare(struct runtime *runtime);
void exec_pipes_unspare(struct runtime *runtime);

/* --- managed processes ------------------------------------------------------------------------ */

enum process_state {
    PROCESS_WAITING, /* for the session's backend */
    PROCESS_BEGUN,
    PROCESS_RUNNING,
    PROCESS_ENDED,
};

/* A request for a process (process-start.c). */
struct process_start {
    struct list link;
    struct task task;
    struct record_waiter saved;
    struct session *session; /* held */
    struct process *process; /* held; NULL: none yet */
    struct process_spec spec;
    char actor[ACTOR_SIZE];
    process_done done;
    void *data;
    struct error *err;
};

struct process {
    struct list link;      /* in its session */
    struct list completed; /* in the runtime's list, once it ended */
    struct runtime *runtime;
    struct session *session; /* NULL once forgotten */
    unsigned holds;
    struct process_spec spec;
    char actor[ACTOR_SIZE];
    enum process_state state;
    uint32_t keep_id;
    struct backend_process *process;
    int64_t started_us, exited_us;
    bool exit_known, listed, stopping, killed;
    bool adopt; /* an earlier boxd saw it run */
    int exit_code;
    char cause[24];

    int fds[3]; /* our ends: stdin, stdout, stderr */
    struct watch *watches[3];
    struct ring ring;
    size_t drained[STREAM_MAX]; /* after its end */
    bool draining, drain_done[STREAM_MAX];
    uint64_t delivered;      /* once the ring is gone */
    char *tails[STREAM_MAX]; /* instead of the ring */
    size_t tail_sizes[STREAM_MAX];
    uint64_t totals[STREAM_MAX];
    char *backlog; /* what its stdin did not take yet */
    size_t backlog_start, backlog_size, backlog_capacity;

    struct process_follower *followers, *next_follower;
    struct list attachments; /* the first holds it */
    struct list stops;       /* struct deletion */
    struct list starts;      /* wait until it is over */
    struct process_start *start;
    struct alarm *stop_alarm;
    struct task task;
};

/* process.c */
extern const struct backend_process_events process_events;
struct process *process_new(struct session *session, const struct process_spec *spec);
void process_hold(struct process *process);
void process_release(struct process *process);
void process_forget(struct process *process); /* out of its session, if nothing runs */
void process_begin_stop(struct process *process);
void process_ended(struct process *process, const struct backend_outcome *outcome);
void process_failed(struct process *process, const struct error *err);
void process_close_handles(struct process *process);
void process_complete(struct process *process); /* it is over, and remembered for a while */
void processes_trim(struct runtime *runtime);
void processes_adopted(struct session *session);
void session_forget_processes(struct session *session);
void process_changed(struct process *process, bool gone); /* tells the followers */
void process_spec_copy(struct process_spec *to, const struct process_spec *from);
/* Takes the descriptors, whatever comes of it. */
int process_adopt(struct process *process, const int *fds, size_t count);
void process_vanished(struct process *process); /* it ran when boxd was last there */
/* process-start.c */
void process_start_go(struct process_start *start);
void process_starts_resume(struct list *starts);
void process_starts_fail(struct list *starts, const struct error *err);
void process_begin(struct process *process);
void process_start_told(struct process_start *start, const struct error *err);
/* process-io.c */
int process_pipes_open(struct process *process, int child[3], struct error *err);
void process_watch(struct process *process);
void process_update(struct process *process); /* what is watched, after something changed */
void process_pump(struct process *process);   /* after its end: reads what may be read */
bool process_drained(const struct process *process);
void process_close_input(struct process *process);
void process_close_pipes(struct process *process);
bool process_write(struct process *process, const void *data, size_t size);
/* As ring_at() and its like, also when the ring is gone. */
uint64_t process_written(const struct process *process, enum stream stream);
uint64_t process_oldest(const struct process *process, enum stream stream);
const char *process_at(const struct process *process, enum stream stream, uint64_t offset,
                       size_t *ret_size);
uint64_t process_unread(const struct process *process);
/* Where stdout can be read from without beginning inside a line. */
uint64_t process_oldest_line(const struct process *process);
void process_drop_ring(struct process *process);

/* --- attachments (attach.c) ------------------------------------------------------------------- */

struct attachment {
    struct list link;
    struct task task;
    struct process *process; /* held */
    struct attach_events events;
    void *owner;
    uint64_t since;
    uint64_t told; /* offset of the next byte to be told */
    bool active, paused, closed, starved, drained_later;
    struct error *err; /* why it ends, if not because the process did */
};

/* The offset up to which the ring may be overwritten, or UINT64_MAX if nobody is to be waited for.
 */
uint64_t attachments_floor(const struct process *process);
void attachments_tell(struct process *process); /* new output, or the end */
void attachments_drained(struct process *process);
void attachments_fail(struct process *process, const struct error *err);

/* --- terminals and files ---------------------------------------------------------------------- */

void terminal_begin(struct terminal *terminal);
void session_kick_terminals(struct session *session);
void session_fail_terminals(struct session *session, const struct error *err);
void session_kick_files(struct session *session);
void session_fail_files(struct session *session, const struct error *err);

static inline struct error *error_copy(const struct error *err)
{
    struct error *copy = xmalloc(sizeof *copy);
    *copy = *err;
    return copy;
}
