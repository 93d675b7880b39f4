/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the front end know of each other. */
#pragma once

#include <sys/queue.h>

#include "api/api.h"
#include "api/errors.h"
#include "api/route.h"
#include "core/json-out.h"

#define HEARTBEAT_MS    15000
#define REQUEST_ID_SIZE 65
#define LAG_BUCKETS     12

/* Something that stays open: an event stream, a followed log, a websocket. */
struct live {
    LIST_ENTRY(live) link;
    void (*tick)(struct live *live); /* every HEARTBEAT_MS; may be NULL */
    void (*stop)(struct live *live); /* the api stops: end, now or soon; may be NULL */
};
LIST_HEAD(lives, live);

/* How long the loop was kept from looking for what is new, each time (metrics.c). */
struct loop_lag {
    uv_prepare_t prepare;
    uint64_t last_ns;      /* when it last was about to wait, … */
    uint64_t last_idle_ns; /* … and how long it had waited in all */
    uint64_t counts[LAG_BUCKETS + 1];
    uint64_t sum_ns;
};

struct rpc;
struct skills;

struct api {
    uv_loop_t *loop;
    struct runtime *runtime;
    struct http_server *server;
    struct api_config config;
    struct rpc *rpc; /* LangBot's (rpc-internal.h) */
    struct skills *skills;
    bool stopping;
    uint64_t started_ns;
    uint64_t request_seed; /* request ids: this and a counter */
    uint64_t request_count;
    struct lives lives;
    uv_timer_t heartbeat;
    struct loop_lag lag;
    unsigned open_handles;
    int fd_dir; /* /proc/self/fd and /proc/self/statm, opened before the process confines itself */
    int statm;
    char *openapi; /* made when first asked for */
    size_t openapi_size;
};

void live_add(struct api *api, struct live *live);
void live_remove(struct api *api, struct live *live);
/* One of its handles is closed; with the last of them it is freed. */
void api_handle_closed(struct api *api);

/* --- a request on its way to its handler --- */

struct call {
    struct api *api;
    struct http_request *req;
    struct route_match match;
    json_t *body; /* ROUTE_JSON: an object; borrowed by the handler */
    /* Of a spec that names skills, once they are found. */
    bool skills_found;
    struct strings skill_names, skill_paths;
};

void call_run(struct call *call);
/* What is in it, not itself. */
void call_release(struct call *call);

/* The decoded path component `index`. */
static inline const char *call_param(const struct call *call, size_t index)
{
    return call->match.params[index];
}
/* By the route's table; false: it was answered with 400. */
bool call_query(struct call *call, void *target);
/* The session that the path names; NULL: it was answered with 404. */
struct session *call_session(struct call *call);
/* The process that the path names; NULL: it was answered with 404. */
struct process *call_process(struct call *call, struct session **ret_session);
/* Whether something may be run, and a session of that name be made; false: it was answered. */
bool call_may_run(struct call *call);
bool call_may_make(struct call *call, const char *session);

/* The skills that the spec names become mounts. False: it was answered, or the handler will be
   called once more when they are found. (skill-mounts.c) */
bool call_mount_skills(struct call *call, struct session_spec *spec);

extern const struct route api_routes[];
extern const size_t api_route_count;

/* --- answers (reply.c) --- */

void reply_json(struct http_request *req, int status, struct json_out *out);
void reply_error(struct api *api, struct http_request *req, const struct error *err);
void reply_wire_error(struct http_request *req, struct wire_error wire, const struct error *err);
/* X-Log-Next, -Total, -Kept, -Running. */
void reply_log_headers(struct http_request *req, uint64_t next, uint64_t total, uint64_t kept,
                       bool running);
/* {"error":{…}} */
void out_error(struct json_out *out, enum wire_class class, const struct error *err);
/* The class and status of an error as it is now: no backend is another thing than no runtime. */
struct wire_error api_wire_error(struct api *api, const struct error *err);

/* A request that is answered by something that cannot be called off: whichever is over last, the
   request or that, frees it. */
struct later {
    struct api *api;
    struct http_request *req; /* NULL: the client has left */
    bool waiting;
    void (*release)(struct later *later); /* frees what is around it */
};
void later_begin(struct later *later, struct api *api, struct http_request *req,
                 void (*release)(struct later *later));
/* The thing is there. True: the client too, and is to be answered. False: it is all over. */
bool later_due(struct later *later);
/* The same; a client that is there is told of an error, and then it is all over, too. */
bool later_good(struct later *later, const struct error *err);

/* One with nothing around it but names, each of which may be NULL. */
struct named_later {
    struct later later;
    char *session;
    char *name;
};
struct named_later *named_later_new(struct call *call, const char *session, const char *name);
/* {"key":"name"} */
void reply_word(struct http_request *req, const char *key, const char *value);

/* --- what things look like (info.c) --- */

void out_session(struct json_out *out, struct api *api, struct session *session, bool processes);
/* All about it but its processes, inside an object that is open. `name` is what the asker calls it;
   of `langbot`, times and texts are as its own runtime writes them. */
void out_session_fields(struct json_out *out, struct api *api, struct session *session,
                        const char *name, bool langbot);
void out_process(struct json_out *out, const char *key, const char *session,
                 const struct process *process, bool langbot);
void out_result(struct json_out *out, struct api *api, const char *session,
                const struct exec_result *result, bool texts, bool base64);
/* How it came to its end and what it took, inside an object that is open. */
void out_outcome(struct json_out *out, const struct exec_result *result);

/* --- resources (rest-status.c) --- */

struct own_usage {
    uint64_t open_fds;
    uint64_t rss_bytes;
};
struct own_usage api_own_usage(const struct api *api);
/* "resources": {…} */
void out_resources(struct json_out *out, struct api *api);
/* Why no sessions can be made; NULL: they can. */
const char *api_backend_problem(const struct api *api);

/* --- handlers --- */

void rest_create_session(struct call *call);
void rest_list_sessions(struct call *call);
void rest_get_session(struct call *call);
void rest_delete_session(struct call *call);
void rest_session_usage(struct call *call);
void rest_usage(struct call *call);
void rest_exec(struct call *call);
void rest_exec_flat(struct call *call);
void rest_exec_log(struct call *call);
void rest_start_process(struct call *call);
void rest_list_processes(struct call *call);
void rest_get_process(struct call *call);
void rest_stop_process(struct call *call);
void rest_signal_process(struct call *call);
void rest_process_log(struct call *call);
void relay_open(struct call *call);
void relay_open_default(struct call *call);
void rpc_ws_open(struct call *call);
void pty_open(struct call *call);
void rest_get_file(struct call *call);
void rest_head_file(struct call *call);
void rest_put_file(struct call *call);
void rest_delete_file(struct call *call);
void rest_post_file(struct call *call);
void rest_list_skills(struct call *call);
void rest_create_skill(struct call *call);
void rest_get_skill(struct call *call);
void rest_update_skill(struct call *call);
void rest_delete_skill(struct call *call);
void rest_skill_problems(struct call *call);
void rest_skill_archive(struct call *call);
void rest_list_skill_files(struct call *call);
void rest_get_skill_file(struct call *call);
void rest_put_skill_file(struct call *call);
void rest_delete_skill_file(struct call *call);
void rest_preview_skills(struct call *call);
void rest_install_skills(struct call *call);
void rest_status(struct call *call);
void rest_capabilities(struct call *call);
void rest_events(struct call *call);
void rest_healthz(struct call *call);
void rest_readyz(struct call *call);
void rest_metrics(struct call *call);
void rest_openapi(struct call *call);

/* --- LangBot's RPC (rpc.c) --- */

void rpc_open(struct api *api);
void rpc_reconfigure(struct api *api);
void rpc_close(struct api *api);
/* For /metrics. */
void rpc_metrics(const struct api *api, struct buf *out);

/* --- the loop's lag, metrics, the description --- */

void lag_start(struct api *api);
void metrics_write(struct api *api, struct buf *out);
__attribute__((format(printf, 2, 3))) void metric_line(struct buf *out, const char *format, ...);
void metric_head(struct buf *out, const char *name, const char *type, const char *help);
void metric_single(struct buf *out, const char *name, const char *type, const char *help,
                   uint64_t value);
/* The whole document; the caller frees. */
char *openapi_make(const struct route *routes, size_t count, const char *version, size_t *ret_size);
