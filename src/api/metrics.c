/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics: Prometheus' text format 0.0.4; and the measurement of the loop's lag.

   The lag wakes nobody: each time the loop is about to wait, what has passed since it last was,
   without the time that it did wait, is how long callbacks ran, and whatever happened meanwhile
   waited for that. libuv keeps the time that it waits, at the price of one more epoll_wait(2) for
   each time that it has to. */
#include <stdarg.h>
#include <stdio.h>

#include "api/internal.h"

#define TEXT_CEILING (1u << 20)

static const uint64_t lag_bounds_us[LAG_BUCKETS] = {50,   100,   250,   500,    1000,   2500,
                                                    5000, 10000, 25000, 100000, 250000, 1000000};

static void on_prepare(uv_prepare_t *handle)
{
    struct loop_lag *lag = &((struct api *)handle->data)->lag;
    uint64_t now = uv_hrtime();
    uint64_t idle = uv_metrics_idle_time(handle->loop);
    if (lag->last_ns) {
        uint64_t passed = now - lag->last_ns;
        uint64_t waited = idle - lag->last_idle_ns;
        uint64_t busy = passed > waited ? passed - waited : 0;
        size_t i = 0;
        while (i < LAG_BUCKETS && busy > lag_bounds_us[i] * 1000)
            i++;
        lag->counts[i]++;
        lag->sum_ns += busy;
    }
    lag->last_ns = now;
    lag->last_idle_ns = idle;
}

void lag_start(struct api *api)
{
    struct loop_lag *lag = &api->lag;
    uv_loop_configure(api->loop, UV_METRICS_IDLE_TIME);
    uv_prepare_init(api->loop, &lag->prepare);
    lag->prepare.data = api;
    uv_prepare_start(&lag->prepare, on_prepare);
    uv_unref((uv_handle_t *)&lag->prepare);
}

/* --- the text --- */

void metric_line(struct buf *out, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size > 0 && (size_t)size < sizeof text) {
        buf_append(out, text, (size_t)size);
        buf_append(out, "\n", 1);
    }
}

void metric_head(struct buf *out, const char *name, const char *type, const char *help)
{
    metric_line(out, "# HELP %s %s", name, help);
    metric_line(out, "# TYPE %s %s", name, type);
}

void metric_single(struct buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    metric_head(out, name, type, help);
    metric_line(out, "%s %llu", name, (unsigned long long)value);
}

/* `counts` has one more than `bounds`: what is above them all. */
static void histogram(struct buf *out, const char *name, const char *help, const uint64_t *bounds,
                      size_t bound_count, const uint64_t *counts, double sum)
{
    uint64_t below = 0;
    metric_head(out, name, "histogram", help);
    for (size_t i = 0; i < bound_count; i++) {
        below += counts[i];
        metric_line(out, "%s_bucket{le=\"%.9g\"} %llu", name, (double)bounds[i] / 1e6,
                    (unsigned long long)below);
    }
    below += counts[bound_count];
    metric_line(out, "%s_bucket{le=\"+Inf\"} %llu", name, (unsigned long long)below);
    metric_line(out, "%s_sum %.9g", name, sum);
    metric_line(out, "%s_count %llu", name, (unsigned long long)below);
}

static void latency(struct buf *out, const char *name, const char *help,
                    const struct runtime_histogram *values)
{
    histogram(out, name, help, runtime_bounds_us, RUNTIME_BUCKETS, values->counts,
              (double)values->sum_us / 1e6);
}

static void write_runtime(struct api *api, struct buf *out)
{
    struct runtime_stats stats;
    runtime_stats(api->runtime, &stats);
    metric_single(out, "boxd_sessions", "gauge", "Sessions there are.", stats.sessions);
    metric_single(out, "boxd_managed_processes", "gauge", "Managed processes that run.",
                  stats.processes);
    metric_single(out, "boxd_commands_running", "gauge", "Commands under way and waiting.",
                  stats.executions);
    metric_head(out, "boxd_commands_total", "counter", "Commands that ended, by how.");
    for (size_t i = 0; runtime_outcome_names[i]; i++)
        metric_line(out, "boxd_commands_total{outcome=\"%s\"} %llu", runtime_outcome_names[i],
                    (unsigned long long)stats.outcomes[i]);
    latency(out, "boxd_session_create_seconds", "Time to make a session.", &stats.create);
    latency(out, "boxd_exec_seconds", "Time a command ran.", &stats.exec);
    latency(out, "boxd_session_delete_seconds", "Time to end a session.", &stats.destroy);
    metric_single(out, "boxd_sessions_created_total", "counter", "Sessions made.",
                  stats.sessions_created);
    metric_single(out, "boxd_sessions_failed_total", "counter", "Sessions that could not be made.",
                  stats.sessions_failed);
    metric_single(out, "boxd_sessions_reaped_total", "counter", "Sessions ended for being idle.",
                  stats.sessions_reaped);
    metric_single(out, "boxd_sessions_adopted_total", "counter",
                  "Sessions of an earlier boxd taken over.", stats.sessions_adopted);
    metric_single(out, "boxd_output_bytes_total", "counter",
                  "Bytes that commands and processes wrote.", stats.output_bytes);
}

static void write_http(struct api *api, struct buf *out)
{
    struct http_stats stats = {0};
    if (api->server)
        http_server_stats(api->server, &stats);
    metric_single(out, "boxd_http_requests_total", "counter", "Requests.", stats.requests);
    metric_head(out, "boxd_http_bytes_total", "counter", "Bytes of connections.");
    metric_line(out, "boxd_http_bytes_total{direction=\"in\"} %llu",
                (unsigned long long)stats.bytes_in);
    metric_line(out, "boxd_http_bytes_total{direction=\"out\"} %llu",
                (unsigned long long)stats.bytes_out);
    metric_single(out, "boxd_http_connections", "gauge", "Connections open.", stats.connections);
    metric_single(out, "boxd_http_connections_refused_total", "counter",
                  "Connections over the limit.", stats.refused);
    metric_single(out, "boxd_http_timeouts_total", "counter", "Connections cut for being slow.",
                  stats.timeouts);
}

void metrics_write(struct api *api, struct buf *out)
{
    struct own_usage usage = api_own_usage(api);
    write_runtime(api, out);
    write_http(api, out);
    rpc_metrics(api, out);
    histogram(out, "boxd_event_loop_lag_seconds",
              "How long the event loop ran callbacks at a stretch.", lag_bounds_us, LAG_BUCKETS,
              api->lag.counts, (double)api->lag.sum_ns / 1e9);
    metric_single(out, "process_open_fds", "gauge", "Number of open file descriptors.",
                  usage.open_fds);
    metric_single(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
                  usage.rss_bytes);
    metric_head(out, "boxd_build_info", "gauge", "Always 1; what was built.");
    metric_line(out, "boxd_build_info{version=\"%.60s\",backend=\"%.60s\"} 1", api->config.version,
                runtime_backend(api->runtime)->ops->name);
}

void rest_metrics(struct call *call)
{
    struct buf out = BUF_INIT(TEXT_CEILING);
    metrics_write(call->api, &out);
    http_reply(call->req, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.size);
    buf_release(&out);
}
