/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP front end: its configuration, its life, and what stays open in it. */
#include "api/internal.h"

#include <fcntl.h>
#include <sys/random.h>

#include "api/skills.h"
#include "core/clock.h"
#include "core/fd.h"

void api_config_init(struct api_config *config)
{
    *config = (struct api_config){
        .body_max = 16u << 20,
        .default_timeout_ms = 30000,
        .version = xstrdup(BOX_VERSION),
    };
    session_spec_init(&config->defaults);
    rpc_config_init(&config->rpc);
}

void api_config_release(struct api_config *config)
{
    free(config->token);
    free(config->version);
    strings_release(&config->allowed_hosts);
    strings_release(&config->allowed_origins);
    session_spec_release(&config->defaults);
    rpc_config_release(&config->rpc);
    *config = (struct api_config){0};
}

static void config_copy(struct api_config *to, const struct api_config *from)
{
    *to = *from;
    to->token = from->token ? xstrdup(from->token) : NULL;
    to->version = xstrdup(from->version ? from->version : BOX_VERSION);
    to->allowed_hosts = to->allowed_origins = (struct strings){0};
    strings_copy(&to->allowed_hosts, &from->allowed_hosts);
    strings_copy(&to->allowed_origins, &from->allowed_origins);
    session_spec_copy(&to->defaults, &from->defaults);
    rpc_config_copy(&to->rpc, &from->rpc);
}

struct api *api_new(uv_loop_t *loop, struct runtime *runtime, struct backend *storage,
                    const struct api_config *config)
{
    struct api *api = xcalloc(1, sizeof *api);
    api->loop = loop;
    api->runtime = runtime;
    api->started_ns = clock_monotonic_ns();
    config_copy(&api->config, config);
    LIST_INIT(&api->lives);
    if (getrandom(&api->request_seed, sizeof api->request_seed, GRND_NONBLOCK) < 0)
        api->request_seed = clock_monotonic_ns();
    uv_timer_init(loop, &api->heartbeat);
    uv_unref((uv_handle_t *)&api->heartbeat);
    api->heartbeat.data = api;
    lag_start(api);
    api->open_handles = 3;
    api->fd_dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    api->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    rpc_open(api);
    api->skills = skills_new(api, storage);
    skills_configure(api->skills, api->config.rpc.skills_root, api->config.skills_quota_bytes);
    return api;
}

void api_set_server(struct api *api, struct http_server *server)
{
    api->server = server;
}

void api_reconfigure(struct api *api, const struct api_config *config)
{
    struct api_config old = api->config;
    config_copy(&api->config, config);
    api_config_release(&old);
    rpc_reconfigure(api);
    skills_configure(api->skills, api->config.rpc.skills_root, api->config.skills_quota_bytes);
}

/* --- what stays open --- */

static void on_heartbeat(uv_timer_t *timer)
{
    struct api *api = timer->data;
    struct live *live = LIST_FIRST(&api->lives);
    while (live) {
        struct live *next = LIST_NEXT(live, link);
        if (live->tick)
            live->tick(live);
        live = next;
    }
}

void live_add(struct api *api, struct live *live)
{
    /* Only while there is something to keep alive: a daemon that nobody watches does not wake up.
     */
    if (LIST_EMPTY(&api->lives))
        uv_timer_start(&api->heartbeat, on_heartbeat, HEARTBEAT_MS, HEARTBEAT_MS);
    LIST_INSERT_HEAD(&api->lives, live, link);
}

void live_remove(struct api *api, struct live *live)
{
    LIST_REMOVE(live, link);
    if (LIST_EMPTY(&api->lives))
        uv_timer_stop(&api->heartbeat);
}

void api_stop(struct api *api)
{
    api->stopping = true;
    struct live *live = LIST_FIRST(&api->lives);
    while (live) {
        struct live *next = LIST_NEXT(live, link);
        if (live->stop)
            live->stop(live);
        live = next;
    }
    skills_stop(api->skills);
}

void api_handle_closed(struct api *api)
{
    if (--api->open_handles == 0)
        free(api);
}

static void on_handle_closed(uv_handle_t *handle)
{
    api_handle_closed(handle->data);
}

void api_free(struct api *api)
{
    if (!api)
        return;
    skills_free(api->skills);
    rpc_close(api);
    api_config_release(&api->config);
    fd_clear(&api->fd_dir);
    fd_clear(&api->statm);
    free(api->openapi);
    uv_close((uv_handle_t *)&api->heartbeat, on_handle_closed);
    uv_close((uv_handle_t *)&api->lag.prepare, on_handle_closed);
}
