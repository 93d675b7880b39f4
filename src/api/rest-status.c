/* SPDX-License-Identifier: Apache-2.0 */
/* How boxd is: status, capabilities, health. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/rpc-internal.h"
#include "api/skills.h"
#include "core/clock.h"
#include "core/fd.h"

static void out_limits(struct json_out *out, struct api *api)
{
    const struct runtime_config *config = runtime_config(api->runtime);
    out_open(out, "limits", '{');
    out_unsigned(out, "max_sessions", config->max_sessions);
    out_unsigned(out, "max_managed_processes", config->max_managed_processes);
    out_unsigned(out, "max_completed_processes", config->max_completed_processes);
    out_unsigned(out, "completed_process_retention_sec", config->completed_retention_ms / 1000);
    out_unsigned(out, "output_bytes", config->output_keep_bytes);
    out_unsigned(out, "session_log_bytes", config->session_log_bytes);
    out_unsigned(out, "body_bytes", api->config.body_max);
    out_double(out, "default_timeout_sec", (double)api->config.default_timeout_ms / 1000);
    if (api->config.maximum_timeout_ms)
        out_double(out, "max_timeout_sec", (double)api->config.maximum_timeout_ms / 1000);
    else
        out_null(out, "max_timeout_sec");
    out_unsigned(out, "skills_quota_bytes", api->config.skills_quota_bytes);
    if (skills_quota(api->skills))
        out_text(out, "skills_quota", skills_quota(api->skills));
    else
        out_null(out, "skills_quota");
    out_close(out, '}');
}

void rest_status(struct call *call)
{
    struct api *api = call->api;
    struct runtime_stats stats;
    const char *problem = api_backend_problem(api);
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    runtime_stats(api->runtime, &stats);
    out_open(&out, NULL, '{');
    out_text(&out, "version", api->config.version);
    out_open(&out, "backend", '{');
    out_text(&out, "name", runtime_backend(api->runtime)->ops->name);
    out_flag(&out, "available", !problem);
    if (problem)
        out_text(&out, "reason", problem);
    out_close(&out, '}');
    out_unsigned(&out, "active_sessions", stats.sessions);
    out_unsigned(&out, "managed_processes", stats.processes);
    out_unsigned(&out, "running_commands", stats.executions);
    out_double(&out, "session_ttl_sec",
               (double)runtime_config(api->runtime)->session_ttl_ms / 1000);
    out_unsigned(&out, "uptime_sec", (clock_monotonic_ns() - api->started_ns) / 1000000000);
    out_limits(&out, api);
    out_signed(&out, "pid", getpid());
    out_close(&out, '}');
    reply_json(call->req, 200, &out);
}

static void on_described(void *data, const json_t *described, const struct error *err)
{
    struct named_later *named = data;
    if (!later_good(&named->later, err))
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_text(&out, "version", named->later.api->config.version);
    out_text(&out, "backend", named->name);
    out_open(&out, "backends", '{');
    out_tree(&out, named->name, described);
    out_close(&out, '}');
    out_close(&out, '}');
    reply_json(named->later.req, 200, &out);
}

void rest_capabilities(struct call *call)
{
    struct backend *backend = runtime_backend(call->api->runtime);
    struct named_later *named = named_later_new(call, NULL, backend->ops->name);
    backend->ops->describe(backend, on_described, named);
}

static uint64_t count_fds(int dir)
{
    struct stat st;
    /* Since Linux 6.2 its size is the number. */
    if (fstat(dir, &st) == 0 && st.st_size > 0)
        return (uint64_t)st.st_size;
    uint64_t count = 0;
    cleanup_close int copy = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
    if (!stream)
        return 0;
    steal_fd(&copy);
    rewinddir(stream); /* the two share one position */
    while (readdir(stream))
        count++;
    closedir(stream);
    return count > 3 ? count - 3 : 0; /* ".", ".." and its own */
}

struct own_usage api_own_usage(const struct api *api)
{
    struct own_usage usage = {0};
    char text[128];
    unsigned long size;
    unsigned long resident;
    if (api->fd_dir >= 0)
        usage.open_fds = count_fds(api->fd_dir);
    ssize_t n = api->statm >= 0 ? pread(api->statm, text, sizeof text - 1, 0) : -1;
    if (n > 0) {
        text[n] = '\0';
        if (sscanf(text, "%lu %lu", &size, &resident) == 2)
            usage.rss_bytes = (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    return usage;
}

void out_resources(struct json_out *out, struct api *api)
{
    struct runtime_stats stats;
    struct own_usage usage = api_own_usage(api);
    runtime_stats(api->runtime, &stats);
    out_open(out, "resources", '{');
    out_unsigned(out, "sessions", stats.sessions);
    out_unsigned(out, "managed_processes", stats.processes);
    out_unsigned(out, "rpc_connections", api->rpc->connections);
    out_unsigned(out, "rpc_requests", api->rpc->inflight);
    out_unsigned(out, "open_fds", usage.open_fds);
    out_unsigned(out, "rss_bytes", usage.rss_bytes);
    out_close(out, '}');
}

void rest_healthz(struct call *call)
{
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_flag(&out, "live", true);
    out_resources(&out, call->api);
    out_close(&out, '}');
    reply_json(call->req, 200, &out);
}
