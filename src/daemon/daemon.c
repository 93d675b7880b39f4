/* SPDX-License-Identifier: Apache-2.0 */
/* The front: everything on one loop, made from the bottom up, and taken down from the top. */
#include "daemon/daemon.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "daemon/backends.h"
#include "daemon/confine.h"
#include "daemon/load.h"

#define CLOSE_TURNS 10   /* of the loop, for handles to be closed */
#define SPAWNER_MS  1000 /* for the spawner to end, once nobody talks to it any more */

static void on_recovered(void *data)
{
    struct daemon *daemon = data;
    struct runtime_stats stats;
    runtime_stats(daemon->runtime, &stats);
    daemon->recovered = true;
    log_event(LOG_INFO, "recovered", LOG_NUMBER("sessions", stats.sessions));
}

static void ready_checks(void *data, json_t *checks)
{
    const struct daemon *daemon = data;
    api_check(checks, "recovered", daemon->recovered,
              daemon->recovered ? NULL : "sessions of an earlier boxd are still being taken over");
    api_check(checks, "serving", daemon->state == DAEMON_SERVING,
              daemon->state == DAEMON_SERVING ? NULL : "boxd is stopping");
}

void daemon_api_config(struct daemon *daemon, struct api_config *ret)
{
    config_to_api(daemon->config, daemon->token, daemon->control_token, ret);
    ret->ready_checks = ready_checks;
    ret->ready_data = daemon;
    ret->rpc.init = daemon_init;
    ret->rpc.init_data = daemon;
}

static int open_runtime(struct daemon *daemon, struct error *err)
{
    struct runtime_config config;
    config_to_runtime(daemon->config, &config);
    struct backend *backend = backends_find(daemon);
    int rc = runtime_new(&daemon->loop, &config, backend, &daemon->runtime, err);
    runtime_config_release(&config);
    /* What an earlier boxd left to this backend nobody will ask for. */
    if (backend != daemon->native)
        daemon->native->ops->sweep(daemon->native);
    return rc;
}

static int open_server(struct daemon *daemon, struct error *err)
{
    struct api_config config;
    struct http_limits limits;
    daemon_api_config(daemon, &config);
    daemon->api = api_new(&daemon->loop, daemon->runtime, daemon->native, &config);
    api_config_release(&config);
    config_to_http(daemon->config, &limits);
    daemon->server = http_server_new(&daemon->loop, &limits, api_handle, daemon->api);
    api_set_server(daemon->api, daemon->server);
    for (size_t i = 0; i < daemon->listener_count; i++)
        if (http_server_listen(daemon->server, daemon->listeners[i], err) < 0)
            return -1;
    return 0;
}

int daemon_open(struct daemon *daemon, int spawner, const struct native_options *native,
                struct error *err)
{
    uv_loop_init(&daemon->loop);
    daemon_watch_signals(daemon);
    daemon->from_tree = xcalloc(config_key_count, sizeof *daemon->from_tree);
    daemon->native = native_new(&daemon->loop, spawner, native);
    daemon->native->lost = daemon_lost;
    daemon->native->lost_data = daemon;
    if (open_runtime(daemon, err) < 0)
        return -1;
    runtime_recover(daemon->runtime, daemon->config->adopt, on_recovered, daemon);
    return open_server(daemon, err);
}

/* --- confinement --- */

static int confine(struct daemon *daemon, struct error *err)
{
    struct confinement confinement = {0};
    strings_add(&confinement.writable, daemon->config->run_dir);
    strings_add(&confinement.writable, daemon->config->state_dir);
    /* Where skills are, and whence they may be imported: what may be mounted can be changed that
       way too. */
    strings_add(&confinement.writable, daemon->config->skills_root);
    for (size_t i = 0; i < daemon->ceiling.count; i++)
        strings_add(&confinement.writable, daemon->ceiling.items[i]);
    /* Also where there is none yet: one may be written before the next SIGHUP. */
    cleanup_free char *file = options_config_place(daemon->options);
    if (file)
        strings_take(&confinement.readable, confine_readable(file));
    if (*daemon->config->token_file)
        strings_take(&confinement.readable, confine_readable(daemon->config->token_file));
    if (*daemon->config->control_token_file)
        strings_take(&confinement.readable, confine_readable(daemon->config->control_token_file));
    int missing = confine_front(&confinement, err);
    strings_release(&confinement.writable);
    strings_release(&confinement.readable);
    if (missing > 0 && (missing & CONFINE_NO_LANDLOCK))
        log_event(LOG_WARN, "no_landlock",
                  LOG_TEXT("message",
                           "this kernel has no Landlock: the front can open whatever its "
                           "user can"));
    if (missing > 0 && (missing & CONFINE_NO_SECCOMP))
        log_event(LOG_WARN, "no_seccomp",
                  LOG_TEXT("message", "built with sanitizers: no system call filter"));
    return missing < 0 ? -1 : 0;
}

/* --- serving --- */

/* For programs, a line each; for a person who just started it, one sentence. */
static void tell_addresses(const struct daemon *daemon)
{
    FILE *person = daemon->config->stdio ? NULL : stdout;
    if (person)
        fprintf(person, "boxd %s listens on", BOX_VERSION);
    for (size_t i = 0; i < daemon->listener_count; i++) {
        char text[128];
        http_address_text(daemon->listeners[i], text, sizeof text);
        bool local = strncmp(text, "unix:", 5) == 0;
        log_event(LOG_INFO, "listening", LOG_TEXT("address", text));
        if (person)
            fprintf(person, "%s %s%s", i > 0 ? " and" : "", local ? "" : "http://",
                    local ? text + 5 : text);
    }
    if (person) {
        putc('\n', person);
        fflush(person);
    }
}

/* So that with this process the service is over: systemd would complain of what is left of it, at
   the stop and once more at the next start. */
static void await_spawner(const struct daemon *daemon)
{
    struct pollfd spawner = {.fd = daemon->spawner, .events = POLLIN};
    if (daemon->spawner >= 0)
        poll(&spawner, 1, SPAWNER_MS);
}

static void close_all(struct daemon *daemon)
{
    struct backend *backend = runtime_backend(daemon->runtime);
    rpc_stdio_close(daemon->stdio);
    http_server_free(daemon->server);
    /* Where it may: in a directory of root's the front of another account may not. */
    if (daemon->own_socket)
        unlink(daemon->own_socket);
    free(steal_ptr(daemon->own_socket));
    api_set_server(daemon->api, NULL);
    /* What the server's end set in motion must be over before what it is about goes. */
    uv_run(&daemon->loop, UV_RUN_NOWAIT);
    api_free(daemon->api);
    uv_run(&daemon->loop, UV_RUN_NOWAIT);
    runtime_free(daemon->runtime);
    backends_close(daemon, backend);
    daemon->native->ops->close(daemon->native);
    /* Signals stay watched to the end: without a handler, one that comes now would cut it short.
       Nothing is left to be done but to free memory, and that is not worth waiting for. */
    for (int i = 0; i < CLOSE_TURNS && uv_run(&daemon->loop, UV_RUN_NOWAIT) != 0; i++)
        ;
    uv_close((uv_handle_t *)&daemon->deadline, NULL);
    uv_run(&daemon->loop, UV_RUN_NOWAIT);
    token_free(daemon->token);
    token_free(daemon->control_token);
    strings_release(&daemon->ceiling);
    strings_release(&daemon->told);
    free(daemon->from_tree);
}

int daemon_run(struct daemon *daemon)
{
    struct error err = ERROR_INIT;
    if (confine(daemon, &err) < 0) {
        log_error(LOG_ERROR, "cannot_confine", &err);
        return 1;
    }
    daemon->state = DAEMON_SERVING;
    tell_addresses(daemon);
    notify_send("READY=1");
    if (daemon->config->stdio)
        stdio_serve(daemon);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    close_all(daemon);
    await_spawner(daemon);
    log_event(LOG_INFO, "stopped");
    return daemon->exit_code;
}
