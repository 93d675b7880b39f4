/* SPDX-License-Identifier: Apache-2.0 */
/* What runs sessions: one table of functions for each kind of backend. Everything is asynchronous,
   on one loop: a function begins something and an event tells how it went. No event is delivered
   before the function that caused it has returned. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "backend/spec.h"
#include "core/error.h"
#include "core/files.h"

struct backend;
struct backend_session;
struct backend_process;

/* --- sessions -----------------------------------------------------------------------------------
 */

#define BACKEND_KEPT_FDS 4

struct backend_session_events {
    /* It is up (err NULL), or could not be made: then it is gone, and this was its last event. */
    void (*ready)(void *owner, const struct error *err);
    /* It ended without being asked to. Its processes have had their `ended` before. The last event;
       destroy() is still to be called. */
    void (*ended)(void *owner, const struct error *why);
    /* Adoption only, before `ready`: a process that was kept (see keep()) and may still run, with
       its descriptors, which are the callee's. To be answered by adopt_process(), or the process is
       ended once `ready` has been called. */
    void (*kept)(void *owner, uint32_t keep_id, const int *fds, size_t count);
};

/* --- processes ----------------------------------------------------------------------------------
 */

struct backend_command {
    char *const *argv;
    char *const *envp; /* all of it: nothing is added */
    const char *cwd;   /* absolute */
    bool make_cwd;
    bool terminal; /* its own; the master comes with `started` */
    uint16_t rows;
    uint16_t columns;
    int fds[3]; /* the process's ends; copies are made before start() returns. Not looked at
                   with a terminal. */
    uint64_t memory_bytes; /* a limit of its own below the session's; 0: none */
    uint32_t keep_id;      /* not 0: a managed process, which gets a lane of its own */
};

struct backend_outcome {
    bool timed_out;
    int exit_code;     /* -1: ended by `signal`, or killed */
    int signal;        /* 0: none */
    const char *cause; /* "exited", "signal", "timeout", "oom", "pids_limit", "disk_quota",
                          "denied_syscall" */
    char denied[128];  /* names of denied system calls, ", " between them; "" if none */
    uint64_t wall_us;
    uint64_t cpu_us;
    uint64_t peak_bytes;
};

struct backend_process_events {
    /* It runs (err NULL; `terminal` is the callee's, or -1), or could not be started: then this was
       its last event. ERROR_NOT_FOUND and ERROR_DENIED are about the program or the directory. */
    void (*started)(void *owner, int terminal, const struct error *err);
    /* It is over. Whatever its first process had written is in its pipes. If `err` is not NULL
       nobody knows how it ended, because its session did. The last event. */
    void (*ended)(void *owner, const struct backend_outcome *outcome, const struct error *err);
};

/* --- usage ---------------------------------------------------------------------------------------
 */

struct backend_usage {
    uint64_t cpu_us; /* UINT64_MAX: cannot be told */
    uint64_t memory_bytes;
    uint32_t processes;
};

typedef void (*backend_done)(void *data, const struct error *err);

/* --- stores --------------------------------------------------------------------------------------
 */

struct backend_bound {
    const char *root;   /* the store's directory, without links in it */
    const char *tenant; /* NULL: the store outside tenants */
    uint64_t bytes;     /* as the file system counts; 0: no limit */
    uint64_t inodes;
    bool known; /* it has had one in this backend's life: its files need not be looked at again */
};

struct backend_ops {
    const char *name;

    /* Begins to make a session. `key` names it for good: 16 hex digits, never used before. start()
       may be called at once; what is started waits until the session is up. */
    struct backend_session *(*create)(struct backend *backend, const struct session_spec *spec,
                                      const char *key, const struct backend_session_events *events,
                                      void *owner);
    /* Takes over a session that an earlier boxd made. `record` is what record() gave then. `ready`
       with ERROR_GONE: nothing of it is left. */
    struct backend_session *(*adopt)(struct backend *backend, const struct session_spec *spec,
                                     const char *key, const json_t *record,
                                     const struct backend_session_events *events, void *owner);
    /* Called once, after every session worth it was given to adopt(): whatever else is left of
       earlier instances is removed. */
    void (*sweep)(struct backend *backend);
    /* What adopt() needs; from the moment `ready` was told. A new reference. */
    json_t *(*record)(const struct backend_session *session);
    /* From now on the session outlives this process, for at most so many seconds without a
       successor. Until then it ends with it. */
    void (*outlive)(struct backend_session *session, uint32_t seconds);
    /* Ends it, in whatever state it is, also while it is being made; its processes have their
       `ended` first. `done` when nothing of it is left; the pointer is dead from the call on. */
    void (*destroy)(struct backend_session *session, backend_done done, void *data);
    /* A note for people: what it has less than the default promise, a sentence a line; "" if
       nothing. And its id at the backend, for people. */
    const char *(*notes)(const struct backend_session *session);
    const char *(*id)(const struct backend_session *session);
    void (*usage)(struct backend_session *session,
                  void (*done)(void *data, const struct backend_usage *usage,
                               const struct error *err),
                  void *data);

    struct backend_process *(*start)(struct backend_session *session,
                                     const struct backend_command *command,
                                     const struct backend_process_events *events, void *owner);
    struct backend_process *(*adopt_process)(struct backend_session *session, uint32_t keep_id,
                                             const struct backend_process_events *events,
                                             void *owner);
    /* Hands copies of descriptors (at most BACKEND_KEPT_FDS) to the session, to be had again by
       whoever adopts it; instead of those of an earlier call, and none lets go of them. After
       `started`. False: the backend cannot. */
    bool (*keep)(struct backend_process *process, const int *fds, size_t count);
    /* To its process group. */
    void (*signal)(struct backend_process *process, int number);
    /* Its whole tree, whatever it did; `ended` follows within moments, with `timed_out` as given.
       Also before `started`. */
    void (*kill)(struct backend_process *process, bool timed_out);

    /* Begins one conversation of core/files.h; *ret_sock is the caller's end, non-blocking. */
    int (*file)(struct backend_session *session, const struct file_request *request,
                const char *path, const char *to, int *ret_sock, struct error *err);

    /* For /v1/capabilities: what its sessions are isolated by, and what it can do. `done`, once,
       also before this returns; `described` stays the backend's. */
    void (*describe)(struct backend *backend,
                     void (*done)(void *data, const json_t *described, const struct error *err),
                     void *data);
    /* The bytes of a small file of the host, read with the backend's rights: `name` is one
       component, not a link, regular, 1 to 1,024 bytes; `directory` lies below an allowed root, and
       no link leads out of it. ERROR_NOT_FOUND, ERROR_DENIED, ERROR_INVALID. */
    void (*read_marker)(struct backend *backend, const char *directory, const char *name,
                        void (*done)(void *data, const void *bytes, size_t size,
                                     const struct error *err),
                        void *data);
    /* A hard limit on what a skill store of boxd's may hold, files and all; no bytes take it away.
       ERROR_UNSUPPORTED: it cannot be had here. Only of a backend that is there as long as boxd. */
    void (*bound_store)(struct backend *backend, const struct backend_bound *bound,
                        backend_done done, void *data);
    /* What limits its sessions: "v2", "v1", "none". */
    const char *(*cgroup_kind)(struct backend *backend);
    /* NULL if sessions can be made, else why not. */
    const char *(*unavailable)(struct backend *backend);
    /* Frees it. Sessions that outlive this process go on; others end. */
    void (*close)(struct backend *backend);
};

/* A backend's own structures begin with these. */
struct backend {
    const struct backend_ops *ops;
    uv_loop_t *loop;
    /* Called if it can go on no more (its spawner died, for example). */
    void (*lost)(void *data, const struct error *err);
    void *lost_data;
};

struct backend_session {
    struct backend *backend;
};

struct backend_process {
    struct backend_session *session;
};

/* What stands where no backend could be had: named "none", and never available, because of `why`.
 */
struct backend *backend_none_new(uv_loop_t *loop, const char *why);
