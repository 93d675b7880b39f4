/* SPDX-License-Identifier: Apache-2.0 */
/* GET /readyz: whether sessions can be made; where grants are required, also whether isolation is
   what they are given for. That is tried on real sessions, and may take a moment. */
#include "api/rpc-internal.h"

const char *api_backend_problem(const struct api *api)
{
    struct backend *backend = runtime_backend(api->runtime);
    return backend->ops->unavailable(backend);
}

void api_check(json_t *checks, const char *name, bool ok, const char *reason)
{
    json_t *check = json_pack("{s:b}", "ok", ok);
    /* Dropped if it is not UTF-8. */
    if (reason)
        json_object_set_new(check, "reason", json_string(reason));
    json_object_set_new(checks, name, check);
}

static void add_checks(struct api *api, const struct readiness_result *result, json_t *checks)
{
    const char *problem = api_backend_problem(api);
    api_check(checks, "accepting", !api->stopping, api->stopping ? "boxd is stopping" : NULL);
    api_check(checks, "backend", !problem, problem);
    if (api->config.ready_checks)
        api->config.ready_checks(api->config.ready_data, checks);
    for (int i = 0; result && i < READINESS_MAX; i++)
        api_check(checks, readiness_name((enum readiness_check)i), result->checks[i].ok,
                  result->checks[i].ok ? NULL : result->checks[i].reason);
}

static void answer(struct api *api, struct http_request *req, const struct readiness_result *result)
{
    cleanup_json json_t *checks = json_object();
    const char *name;
    json_t *check;
    bool ready = true;
    add_checks(api, result, checks);
    json_object_foreach(checks, name, check) ready =
        ready && json_is_true(json_object_get(check, "ok"));
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_flag(&out, "ready", ready);
    out_text(&out, "mode", rpc_admission_required(api->rpc) ? "grant_enforced" : "standard");
    out_tree(&out, "checks", checks);
    out_resources(&out, api);
    out_close(&out, '}');
    reply_json(req, ready ? 200 : 503, &out);
}

/* A request that waits for the trial. */
struct question {
    struct api *api;
    struct http_request *req;
    bool asking;
};

static void on_close(void *data)
{
    struct question *question = data;
    if (question->asking)
        readiness_cancel(question->api->rpc->readiness, question);
    free(question);
}

static void on_result(void *data, const struct readiness_result *result)
{
    struct question *question = data;
    question->asking = false;
    answer(question->api, question->req, result);
}

void rest_readyz(struct call *call)
{
    struct api *api = call->api;
    /* One that stops is not ready, whatever a trial would find. */
    if (api->stopping || !rpc_admission_required(api->rpc)) {
        answer(api, call->req, NULL);
        return;
    }
    struct question *question = xmalloc(sizeof *question);
    *question = (struct question){.api = api, .req = call->req, .asking = true};
    http_set_data(call->req, question, on_close);
    rpc_readiness_ask(api->rpc, on_result, question);
}
