/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's RPC as a whole: what all connections share. */
#include "api/rpc-internal.h"

#include "core/clock.h"
#include "core/log.h"

#define NOISE_LINES     20
#define NOISE_WINDOW_NS 10000000000u

/* Whether one more line may be written now. */
static bool may_be_loud(struct rpc *rpc)
{
    uint64_t now = clock_monotonic_ns();
    if (rpc->noise_since_ns == 0 || now - rpc->noise_since_ns > NOISE_WINDOW_NS) {
        if (rpc->noise_dropped > 0)
            log_event(LOG_WARN, "rpc_lines_dropped", LOG_NUMBER("count", rpc->noise_dropped));
        rpc->noise_since_ns = now;
        rpc->noise_lines = 0;
        rpc->noise_dropped = 0;
    }
    bool loud = rpc->noise_lines < NOISE_LINES;
    rpc->noise_lines += loud;
    rpc->noise_dropped += !loud;
    return loud;
}

void rpc_noise(struct rpc *rpc, const char *event, const char *message)
{
    if (may_be_loud(rpc))
        log_event(LOG_WARN, event, LOG_TEXT("message", message));
}

void rpc_noise_from(struct rpc *rpc, const struct http_request *req, const char *event,
                    const char *message)
{
    char peer[128];
    if (!may_be_loud(rpc))
        return;
    http_peer_text(req, peer, sizeof peer);
    log_event(LOG_WARN, event, LOG_TEXT("peer", peer), LOG_TEXT("message", message));
}

void rpc_call_off(struct rpc *rpc, bool (*matches)(const struct rpc_call *call, const void *data),
                  const void *data, const struct error *err)
{
    struct rpc_conn *conn;
    LIST_FOREACH(conn, &rpc->conns, link)
    {
        struct rpc_call *next;
        for (struct rpc_call *call = LIST_FIRST(&conn->calls); call; call = next) {
            next = LIST_NEXT(call, link);
            if (matches(call, data))
                rpc_fail(call, err);
        }
    }
}

static void take_config(struct rpc *rpc)
{
    const struct rpc_config *config = &rpc->api->config.rpc;
    bool required = rpc_admission_required(rpc);
    if (config->instance) {
        free(rpc->instance);
        rpc->instance = xstrdup(config->instance);
    }
    tenants_set_max(rpc->tenants, config->max_records);
    admission_set_max(rpc->admission, config->max_records);
    admission_set_policy(rpc->admission, &config->admission);
    readiness_forget(rpc->readiness);
    rpc_admission_changed(rpc, required);
}

void rpc_open(struct api *api)
{
    struct rpc *rpc = xcalloc(1, sizeof *rpc);
    size_t max_records = api->config.rpc.max_records;
    api->rpc = rpc;
    rpc->api = api;
    LIST_INIT(&rpc->conns);
    rpc->tenants = tenants_new(api->runtime, max_records);
    rpc->admission = admission_new(max_records);
    rpc->readiness = readiness_new(api->runtime);
    rpc->counts = xcalloc(rpc_action_count + 1, sizeof *rpc->counts);
    rpc_admission_start(rpc);
    take_config(rpc);
}

void rpc_reconfigure(struct api *api)
{
    take_config(api->rpc);
}

static void on_closed(uv_handle_t *handle)
{
    struct rpc *rpc = handle->data;
    struct api *api = rpc->api;
    free(rpc);
    api_handle_closed(api);
}

void rpc_close(struct api *api)
{
    struct rpc *rpc = api->rpc;
    rpc_admission_stop(rpc);
    readiness_free(rpc->readiness);
    admission_free(rpc->admission);
    tenants_free(rpc->tenants);
    free(rpc->instance);
    free(rpc->counts);
    uv_close((uv_handle_t *)&rpc->expiry, on_closed);
}
