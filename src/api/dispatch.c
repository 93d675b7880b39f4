/* SPDX-License-Identifier: Apache-2.0 */
/* From a request's head to its handler: its id, who asks, the route, the body. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/guard.h"
#include "api/rpc-internal.h"

#define PARSE_INLINE_MAX (128u << 10) /* a few milliseconds of parsing */

static bool id_is_plain(const char *id)
{
    size_t size = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:");
    return size > 0 && size < REQUEST_ID_SIZE && !id[size];
}

static void add_request_id(struct api *api, struct http_request *req)
{
    char made[REQUEST_ID_SIZE];
    const char *id = http_header(req, "x-request-id");
    if (!id || !id_is_plain(id)) {
        snprintf(made, sizeof made, "%08x-%llx", (unsigned)api->request_seed,
                 (unsigned long long)++api->request_count);
        id = made;
    }
    http_add_header(req, "X-Request-Id", id);
}

static void refuse(struct http_request *req, int status, enum wire_class class, const char *message,
                   const char *hint)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_DENIED, "%s", message);
    if (hint)
        error_hint(&err, "%s", hint);
    reply_wire_error(req, (struct wire_error){class, status}, &err);
}

/* That one was sent and is wrong is no secret to whoever sent it. */
static void refuse_token(struct api *api, struct http_request *req, const struct guard_request *who)
{
    const char *message = who->authorization || who->control
                              ? "the token is wrong"
                              : "a token is needed, and the request has none";
    rpc_noise_from(api->rpc, req, "token_refused", message);
    http_add_header(req, "WWW-Authenticate", "Bearer realm=\"boxd\"");
    refuse(req, 401, WIRE_AUTHENTICATION, message, "send it as 'Authorization: Bearer TOKEN'");
}

/* False: the request was answered. */
static bool guard(struct api *api, struct http_request *req, unsigned flags)
{
    struct guard_request who = {
        .from = http_origin(req),
        .host = http_header(req, "host"),
        .origin = http_header(req, "origin"),
        .authorization = http_header(req, "authorization"),
        .langbot = flags & (ROUTE_LANGBOT | ROUTE_HEALTHY),
        .control = flags & ROUTE_LANGBOT ? http_header(req, GUARD_CONTROL_HEADER) : NULL,
    };
    switch (guard_browser(&api->config, &who)) {
    case GUARD_HOST:
        refuse(req, 403, WIRE_AUTHENTICATION, "this Host is not served here",
               "ask by IP address or localhost, or add the name to http.allowed_hosts");
        return false;
    case GUARD_ORIGIN:
        refuse(req, 403, WIRE_AUTHENTICATION, "requests of this Origin are not served",
               "add it to http.allowed_origins");
        return false;
    default:
        break;
    }
    if (who.origin) {
        http_add_header(req, "Access-Control-Allow-Origin", who.origin);
        http_add_header(req, "Access-Control-Expose-Headers", "ETag");
        http_add_header(req, "Vary", "Origin");
    }
    /* A browser asks without the token whether it may ask with it. */
    if (who.origin && strcmp(http_method(req), "OPTIONS") == 0 &&
        http_header(req, "access-control-request-method")) {
        http_add_header(req, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
        http_add_header(req, "Access-Control-Allow-Headers",
                        "Authorization, Content-Type, Range, If-Match, If-None-Match");
        http_reply(req, 204, NULL, NULL, 0);
        return false;
    }
    if (!(flags & ROUTE_OPEN) && guard_token(&api->config, &who) != GUARD_PASS) {
        refuse_token(api, req, &who);
        return false;
    }
    return true;
}

void call_release(struct call *call)
{
    route_match_release(&call->match);
    json_decref(call->body);
    strings_release(&call->skill_names);
    strings_release(&call->skill_paths);
}

static void call_free(void *data)
{
    call_release(data);
    free(data);
}

void call_run(struct call *call)
{
    struct api *api = call->api;
    runtime_set_actor(api->runtime, guard_actor(&api->config, http_origin(call->req)));
    call->match.route->handler(call);
}

static void body_parsed(struct call *call, int rc, const struct error *err)
{
    http_set_data(call->req, NULL, NULL);
    if (rc < 0)
        reply_error(call->api, call->req, err);
    else
        call_run(call);
    call_free(call);
}

/* A large body is parsed beside the loop, where nobody else has to wait for it. */
struct parse_job {
    uv_work_t work;
    struct call *call; /* NULL: the client has left */
    char *text;
    size_t size;
    json_t *body;
    int rc;
    struct error err;
};

static void parse_beside(uv_work_t *work)
{
    struct parse_job *job = work->data;
    job->rc = json_parse(job->text, job->size, &job->body, &job->err);
}

static void on_parsed(uv_work_t *work, int status)
{
    struct parse_job *job = work->data;
    (void)status;
    if (job->call) {
        job->call->body = steal_ptr(job->body);
        body_parsed(job->call, job->rc, &job->err);
    }
    json_decref(job->body);
    free(job->text);
    free(job);
}

static void on_parser_left(void *data)
{
    struct parse_job *job = data;
    call_free(steal_ptr(job->call));
}

static void parse_large(struct call *call, const char *body, size_t size)
{
    struct parse_job *job = xcalloc(1, sizeof *job);
    job->work.data = job;
    job->call = call;
    job->text = xmalloc(size);
    job->size = size;
    memcpy(job->text, body, size);
    http_set_data(call->req, job, on_parser_left);
    uv_queue_work(call->api->loop, &job->work, parse_beside, on_parsed);
}

static int refuse_empty(struct error *err)
{
    error_set(err, ERROR_INVALID, "the body is empty; a JSON object is wanted");
    return error_hint(err, "{} will do where nothing has to be said; with curl: --json DATA");
}

static void on_body(struct http_request *req, const char *body, size_t size, void *data)
{
    struct call *call = data;
    struct error err = ERROR_INIT;
    (void)req;
    if (size > PARSE_INLINE_MAX)
        parse_large(call, body, size);
    else if (size == 0)
        body_parsed(call, refuse_empty(&err), &err);
    else
        body_parsed(call, json_parse(body, size, &call->body, &err), &err);
}

static bool type_is_json(const char *type)
{
    size_t size = strcspn(type, "; \t");
    return (size == 16 && strncasecmp(type, "application/json", 16) == 0) ||
           (size > 17 && strncasecmp(type, "application/", 12) == 0 &&
            strncasecmp(type + size - 5, "+json", 5) == 0);
}

static void take_json(struct call *call)
{
    struct http_request *req = call->req;
    const char *type = http_header(req, "content-type");
    if (type && !type_is_json(type)) {
        refuse(req, 415, WIRE_VALIDATION, "the body must be application/json",
               "with curl: --json DATA, or -H 'Content-Type: application/json'");
        call_free(call);
        return;
    }
    http_set_data(req, call, call_free);
    http_collect(req, call->api->config.body_max, on_body, call);
}

static void dispatch(struct api *api, struct http_request *req, struct route_match *match)
{
    assert(match->route);
    struct call *call = xcalloc(1, sizeof *call);
    *call = (struct call){.api = api, .req = req, .match = *match};
    *match = (struct route_match){0};
    if (call->match.route->flags & ROUTE_JSON) {
        take_json(call);
        return;
    }
    call_run(call);
    call_free(call);
}

void api_handle(struct http_request *req, void *data)
{
    struct api *api = data;
    struct route_match match;
    enum route_result found =
        route_match(api_routes, api_route_count, http_method(req), http_path(req), &match);
    unsigned flags = match.route ? match.route->flags : 0;
    add_request_id(api, req);
    if (guard(api, req, flags)) {
        if (found == ROUTE_NONE) {
            refuse(req, 404, WIRE_VALIDATION, "there is nothing at this path",
                   "GET /openapi.json tells what there is");
        } else if (found == ROUTE_OTHER_METHOD) {
            http_add_header(req, "Allow", match.allow);
            refuse(req, 405, WIRE_VALIDATION, "this path does not take this method", NULL);
        } else if (found == ROUTE_MALFORMED) {
            refuse(req, 400, WIRE_VALIDATION, "the path is not properly percent-encoded", NULL);
        } else if (api->stopping && !(flags & ROUTE_HEALTHY)) {
            http_add_header(req, "Retry-After", "5");
            refuse(req, 503, WIRE_RUNTIME, "boxd is stopping", NULL);
        } else {
            dispatch(api, req, &match);
        }
    }
    route_match_release(&match);
}

bool call_query(struct call *call, void *target)
{
    struct error err = ERROR_INIT;
    const struct route *route = call->match.route;
    if (query_decode(http_query(call->req), route->query, route->query_count, target, &err) == 0)
        return true;
    reply_error(call->api, call->req, &err);
    return false;
}

struct session *call_session(struct call *call)
{
    struct error err = ERROR_INIT;
    struct session *session = runtime_find_session(call->api->runtime, call_param(call, 0));
    if (session)
        return session;
    error_set(&err, ERROR_NO_SESSION, "no session '%.128s'", call_param(call, 0));
    error_hint(&err, "GET /v1/sessions lists those there are, POST /v1/sessions makes one");
    reply_error(call->api, call->req, &err);
    return NULL;
}

struct process *call_process(struct call *call, struct session **ret_session)
{
    struct error err = ERROR_INIT;
    struct session *session = call_session(call);
    if (!session)
        return NULL;
    struct process *process = session_find_process(session, call_param(call, 1));
    *ret_session = session;
    if (process)
        return process;
    error_set(&err, ERROR_NO_PROCESS, "no managed process '%.128s' in session '%.128s'",
              call_param(call, 1), call_param(call, 0));
    reply_error(call->api, call->req, &err);
    return NULL;
}

/* Where grants say who may use sandboxes, they say it to workspaces: there is none for us here. */
bool call_may_run(struct call *call)
{
    struct error err = ERROR_INIT;
    if (!rpc_admission_required(call->api->rpc))
        return true;
    error_set(&err, ERROR_ADMISSION, "sandboxes are for workspaces that have a grant");
    reply_error(call->api, call->req, &err);
    return false;
}

bool call_may_make(struct call *call, const char *session)
{
    struct error err = ERROR_INIT;
    if (!call_may_run(call))
        return false;
    if (session && tenant_name_parse(session, NULL))
        error_set(&err, ERROR_INVALID,
                  "session_id: names of this form are for LangBot's workspaces");
    else if (session && readiness_owns(session))
        error_set(&err, ERROR_INVALID, "session_id: " READINESS_SESSION "… are boxd's own");
    else
        return true;
    reply_error(call->api, call->req, &err);
    return false;
}
