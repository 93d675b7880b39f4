/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of LangBot's RPC know of each other.

   A message on its way:

     rpc-ws.c, rpc-stdio.c   a transport gives its text to the connection
     rpc-conn.c              JSON of it; what is no request is dropped
     rpc-gate.c              a request: who asks, whether they may, whether they still may
     rpc-actions.c           the table: which handler
     rpc-host.c …            the handler, which answers now or later

   A request is answered once: by its handler, or, if it is called off before that (the fence has
   moved, a grant has ended, boxd stops), with the reason; if its peer has left, not at all. */
#pragma once

#include "api/internal.h"
#include "api/rpc-spec.h"
#include "runtime/readiness.h"
#include "runtime/tenant.h"

#define RPC_MESSAGE_MAX   (16u << 20)
#define RPC_FRAGMENTS_MAX 4096
#define RPC_INFLIGHT_MAX  128
#define RPC_UPLOADS_MAX   128
#define RPC_CHUNK_BYTES   (16u << 10) /* of an upload, and of a message on standard output */
#define RPC_ERROR_CHARS   4096
#define RPC_UNSENT_MAX    (64u << 20) /* of a peer that does not read; then it is over */

struct rpc_conn;
struct rpc_call;
LIST_HEAD(rpc_conns, rpc_conn);
LIST_HEAD(rpc_calls, rpc_call);
LIST_HEAD(rpc_uploads, rpc_upload);
LIST_HEAD(rpc_parses, rpc_parse);

/* --- a connection, whatever carries it (rpc-conn.c) --- */

struct rpc_transport {
    /* One message. False: more waits to go out than should (it was taken all the same); the
       transport calls rpc_conn_drained() when there is room again. */
    bool (*send)(void *owner, const char *text, size_t size);
    /* Bytes that wait to go out. */
    size_t (*unsent)(void *owner);
    /* Stops and goes on giving messages. */
    void (*pause)(void *owner);
    void (*resume)(void *owner);
    /* Ends it, soon: what waits to go out is dropped. May be called again. */
    void (*give_up)(void *owner, const char *reason);
};

/* `instance`: who the peer is, NULL for one of 0.4. `actor`: for the audit log. */
struct rpc_conn *rpc_conn_new(struct api *api, const char *instance, const char *actor,
                              const struct rpc_transport *transport, void *owner);
void rpc_conn_message(struct rpc_conn *conn, const char *text, size_t size);
void rpc_conn_drained(struct rpc_conn *conn);
/* Answers are still to come. */
bool rpc_conn_busy(const struct rpc_conn *conn);
/* boxd stops: what is under way is called off, and answered with that. */
void rpc_conn_stop(struct rpc_conn *conn);
/* The transport is gone: what is under way is called off, uploads are dropped, nothing is sent. */
void rpc_conn_free(struct rpc_conn *conn);

/* For the other parts, not for transports. */
struct rpc_conn {
    LIST_ENTRY(rpc_conn) link;
    struct api *api;
    struct rpc *rpc;
    char *instance; /* NULL: a peer of 0.4 */
    char *actor;
    const struct rpc_transport *transport;
    void *owner;
    struct rpc_calls calls; /* under way */
    unsigned inflight;      /* how many those are */
    struct rpc_uploads uploads;
    struct rpc_parses parses;
    unsigned held; /* why it is not read from; 0: it is */
};
void rpc_conn_send(struct rpc_conn *conn, const char *text, size_t size);

/* --- all of it (rpc.c) --- */

/* Whose sessions: who has no tenancy (0.4, and REST) and tenants do not see each other's. */
enum rpc_side {
    RPC_PLAIN,
    RPC_TENANTS,
    RPC_SIDES,
};

enum rpc_outcome {
    RPC_ANSWERED,
    RPC_FAILED,
    RPC_CALLED_OFF, /* nobody was left to tell */
    RPC_OUTCOMES,
};

struct rpc {
    struct api *api;
    char
        *instance; /* the one that is served: as configured, or the first to come; NULL: none yet */
    struct tenants *tenants;
    struct admission *admission;
    struct readiness *readiness;
    struct rpc_conns conns;
    unsigned ending[RPC_SIDES]; /* box_shutdown under way */
    unsigned uploads;           /* files, of all connections */
    uint64_t upload_bytes;      /* in them */

    uv_timer_t expiry; /* of the next grant */
    struct runtime_listener listener;
    struct runtime_guard guard;
    struct strings adopted; /* sessions of an earlier boxd that no grant of this one covers */

    uint64_t noise_since_ns; /* lines of the log that peers caused: since then, … */
    unsigned noise_lines;
    uint64_t noise_dropped; /* … and not written */

    uint64_t connections_total;
    unsigned connections;
    unsigned inflight;
    uint64_t (*counts)[RPC_OUTCOMES]; /* by action, and one more row for unknown ones */
};

/* A line in the log that a peer can cause as often as it likes: only so many are written. */
void rpc_noise(struct rpc *rpc, const char *event, const char *message);
/* With the address of whoever sent the request. */
void rpc_noise_from(struct rpc *rpc, const struct http_request *req, const char *event,
                    const char *message);
/* Answers all requests under way that `matches` is true of with the error. */
void rpc_call_off(struct rpc *rpc, bool (*matches)(const struct rpc_call *call, const void *data),
                  const void *data, const struct error *err);

/* --- actions (rpc-actions.c) --- */

enum rpc_flags {
    RPC_TENANT = 1 << 0,  /* about a workspace: of a 0.5 peer it needs a context */
    RPC_SANDBOX = 1 << 1, /* uses sandboxes: where grants are needed, it needs one */
    RPC_MAKES = 1 << 2,   /* may make a session */
};

struct rpc_action {
    const char *name;
    unsigned flags;
    /* Answers the request, now or later; call->data is valid until it returns. */
    void (*run)(struct rpc_call *call);
};
extern const struct rpc_action rpc_actions[];
extern const size_t rpc_action_count;
const struct rpc_action *rpc_action_find(const char *name);

/* --- a request (rpc-call.c) --- */

struct rpc_call {
    LIST_ENTRY(rpc_call) link;
    struct api *api;
    struct rpc *rpc;
    struct rpc_conn *conn; /* NULL: it has been answered, or called off */
    enum rpc_side side;
    const struct rpc_action *action; /* NULL: there is none of that name */
    json_t *message;
    const json_t *data; /* in the message */
    char *seq;          /* as it came, for it goes back so */

    /* Of a tenant's: who asks, and the lease that says that they still may. */
    struct rpc_context context;
    struct tenant_context who; /* points into the context; of others all NULL */
    struct tenant_lease lease;

    /* What it waits for. */
    void (*asked)(struct rpc_call *call, const struct readiness_result *result);
    struct execution *execution;
    unsigned callbacks; /* that come in any case: rpc_wait() */

    /* What handlers keep. */
    char *session; /* the name of it that the runtime knows */
    char *name;    /* of a marker */
    uint64_t timeout_sec;
    struct strings warnings;
    struct json_out out; /* the answer */
};

/* Nobody wants it any more. */
void rpc_call_drop(struct rpc_call *call);

/* The answer: its `data` is to be written to what this returns, one object; now or later it is
   sent. After rpc_send() and rpc_fail…() the request is gone. */
struct json_out *rpc_answer(struct rpc_call *call);
void rpc_send(struct rpc_call *call);
void rpc_fail(struct rpc_call *call, const struct error *err);
/* As a class of Python's, or of another than the error's code says. */
void rpc_fail_as(struct rpc_call *call, const char *class, const struct error *err);

/* For what cannot be called off: rpc_wait() as its `data`, and in its callback rpc_due() first.
   False: the request is over, and its memory gone. */
void *rpc_wait(struct rpc_call *call);
bool rpc_due(struct rpc_call *call);
/* Such a callback: sends the answer that has been written, or fails. */
void rpc_done(void *call, const struct error *err);

/* --- what it has to pass (rpc-gate.c) --- */

/* Takes both over. The message is an object and has an `action`; `seq` NULL: it has no seq_id that
   could be given back. */
void rpc_call_begin(struct rpc_conn *conn, json_t *message, char *seq);
/* Isolation as it is, for where admission is required; elsewhere with NULL, and at once. */
void rpc_ask_readiness(struct rpc_call *call,
                       void (*asked)(struct rpc_call *call, const struct readiness_result *result));

/* --- names and specs (rpc-names.c) --- */

/* A text of the request's data; `missing` NULL: it must be there. NULL: it has been answered. */
const char *rpc_text(struct rpc_call *call, const char *key, const char *missing);
/* As Python says it, which is what clients of it know: KeyError: 'key'. */
void rpc_fail_missing(struct rpc_call *call, const char *key);
/* call->session becomes the one that the request names; false: it has been answered. */
bool rpc_name_session(struct rpc_call *call);
/* The session that was named, and both in one. NULL: it has been answered. */
struct session *rpc_named_session(struct rpc_call *call);
struct session *rpc_find_session(struct rpc_call *call);
void rpc_fail_no_session(struct rpc_call *call);
/* What the peer calls a session of its own. */
const char *rpc_logical(const struct rpc_call *call, const char *name);
/* Whether it is one that this peer (its workspace) can see. */
bool rpc_sees(const struct rpc_call *call, const char *name);
/* The request's spec, as the session is to be made; false: it has been answered. `ret` is the
   caller's to release in every case. */
bool rpc_take_spec(struct rpc_call *call, bool command, struct rpc_spec *ret);

/* Goes on when the spec's skills have become mounts, at once if it names none. The spec is taken
   over, and `then` is to leave it as it is; or it has been answered. (rpc-mounts.c) */
void rpc_with_skills(struct rpc_call *call, struct rpc_spec *spec,
                     void (*then)(struct rpc_call *call, struct rpc_spec *spec));
/* "warnings": […], if there are any. */
void out_warnings(struct json_out *out, const struct rpc_call *call);

/* --- admission (rpc-admission.c) --- */

bool rpc_admission_required(const struct rpc *rpc);
/* The grant under which the request may use sandboxes; ERROR_ADMISSION. */
int rpc_require_grant(const struct rpc_call *call, const struct admission_grant **ret,
                      struct error *err);
/* As readiness_ask(), about what is configured. */
void rpc_readiness_ask(struct rpc *rpc,
                       void (*done)(void *data, const struct readiness_result *result), void *data);
/* ERROR_NOT_READY that names the checks. */
int rpc_require_ready(const struct readiness_result *result, struct error *err);
/* Ends the workspace's sessions but for `keep` (NULL: all; taken over), and what is under way in
   them; `done` when they are gone. */
void rpc_end_workspace(struct rpc *rpc, const char *instance, const char *workspace, char *keep,
                       backend_done done, void *data);
/* Wakes up when the next grant ends: to be called when that has changed. */
void rpc_admission_arm(struct rpc *rpc);
void rpc_admission_start(struct rpc *rpc);
void rpc_admission_stop(struct rpc *rpc);
/* The policy may be another: `was` is whether grants were required before. */
void rpc_admission_changed(struct rpc *rpc, bool was);

/* --- who it is, by their headers (rpc-auth.c) --- */

/* Of a connection: *ret_instance is NULL for a peer of 0.4. ERROR_FORBIDDEN: 401. */
int rpc_auth_peer(struct api *api, struct http_request *req, const char **ret_instance,
                  struct error *err);
/* Of a relay of that session. The lease is held if it is a tenant's. ERROR_FORBIDDEN: 401;
   ERROR_ADMISSION. */
int rpc_auth_relay(struct api *api, struct http_request *req, const char *session,
                   struct tenant_lease *lease, struct error *err);
/* Answers with 401. */
void rpc_auth_refuse(struct api *api, struct http_request *req, const struct error *err);

/* --- uploads (rpc-uploads.c) --- */

/* What they may take, of all connections together; tests have less room. */
extern uint64_t rpc_upload_bytes_max;

/* Hands over a file that has come in whole: its descriptor, at its beginning, and its size. The
   connection forgets it. ERROR_NOT_FOUND; ERROR_INVALID: chunks of it are missing. */
int rpc_upload_take(struct rpc_call *call, const char *key, int *ret_fd, uint64_t *ret_size,
                    struct error *err);
void rpc_uploads_release(struct rpc_conn *conn);

/* --- what things look like (rpc-info.c) --- */

/* Backend and readiness, as box_get_backend_info has them. */
void out_backend(struct json_out *out, const char *key, struct api *api,
                 const struct readiness_result *result);
void out_readiness(struct json_out *out, const char *key, struct api *api,
                   const struct readiness_result *result);

/* --- handlers --- */

void rpc_ping(struct rpc_call *call);
void rpc_health(struct rpc_call *call);
void rpc_backend_info(struct rpc_call *call);
void rpc_init(struct rpc_call *call);
void rpc_verify_workspace(struct rpc_call *call);
void rpc_shutdown(struct rpc_call *call);
void rpc_file_chunk(struct rpc_call *call);
void rpc_upsert_grant(struct rpc_call *call);
void rpc_revoke_grant(struct rpc_call *call);
void rpc_status(struct rpc_call *call);
void rpc_exec(struct rpc_call *call);
void rpc_create_session(struct rpc_call *call);
void rpc_get_session(struct rpc_call *call);
void rpc_list_sessions(struct rpc_call *call);
void rpc_delete_session(struct rpc_call *call);
void rpc_start_process(struct rpc_call *call);
void rpc_get_process(struct rpc_call *call);
void rpc_stop_process(struct rpc_call *call);
void rpc_list_skills(struct rpc_call *call);
void rpc_get_skill(struct rpc_call *call);
void rpc_create_skill(struct rpc_call *call);
void rpc_update_skill(struct rpc_call *call);
void rpc_delete_skill(struct rpc_call *call);
void rpc_scan_skill(struct rpc_call *call);
void rpc_list_skill_files(struct rpc_call *call);
void rpc_read_skill_file(struct rpc_call *call);
void rpc_write_skill_file(struct rpc_call *call);
void rpc_preview_skill_zip(struct rpc_call *call);
void rpc_install_skill_zip(struct rpc_call *call);
