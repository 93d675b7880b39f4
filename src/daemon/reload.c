/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP: the configuration once more. All or nothing: a file that is wrong changes nothing. */
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "daemon/daemon.h"
#include "daemon/load.h"

static void log_keys(enum log_level level, const char *event, const struct strings *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        log_event(level, event, LOG_TEXT("key", keys->items[i]));
}

/* The file may hold another token although its name is the same. One that cannot be read leaves the
   old one, which is better than none. */
static int read_token(struct daemon *daemon, const struct config *config, char **ret,
                      struct error *err)
{
    if (*config->token_file)
        return token_read(config->token_file, ret, err);
    if (daemon->on_network)
        return error_set(err, ERROR_DENIED, "boxd listens on the network, so token_file cannot go");
    *ret = NULL;
    return 0;
}

static void apply(struct daemon *daemon)
{
    struct runtime_config runtime;
    struct api_config api;
    config_to_log(daemon->config);
    config_to_runtime(daemon->config, &runtime);
    runtime_reconfigure(daemon->runtime, &runtime);
    runtime_config_release(&runtime);
    config_to_api(daemon->config, daemon->token, &api);
    daemon_ready_checks(daemon, &api);
    api_reconfigure(daemon->api, &api);
    api_config_release(&api);
}

static void take(struct daemon *daemon, const struct config *config)
{
    cleanup_strings struct strings changed = {0};
    cleanup_strings struct strings fixed = {0};
    struct error err = ERROR_INIT;
    char *token;
    if (read_token(daemon, config, &token, &err) < 0) {
        log_error(LOG_ERROR, "reload_failed", &err);
        return;
    }
    config_differences(daemon->config, config, true, &changed);
    config_differences(daemon->config, config, false, &fixed);
    config_take_reloadable(daemon->config, config);
    if (daemon->token)
        explicit_bzero(daemon->token, strlen(daemon->token));
    free(daemon->token);
    daemon->token = token;
    apply(daemon);
    log_keys(LOG_INFO, "reload_changed", &changed);
    log_keys(LOG_WARN, "reload_needs_restart", &fixed);
    log_event(LOG_INFO, "reloaded", LOG_NUMBER("changed", changed.count));
}

void daemon_reload(struct daemon *daemon)
{
    struct config config;
    struct config_problems problems = {0};
    cleanup_free char *file = NULL;
    notify_reloading();
    load_config(daemon->options, &config, &file, &problems);
    for (size_t i = 0; i < problems.lines.count; i++)
        log_event(LOG_ERROR, "reload_failed", LOG_TEXT("message", problems.lines.items[i]));
    if (problems.lines.count == 0)
        take(daemon, &config);
    config_problems_release(&problems);
    config_release(&config);
    notify_send("READY=1");
}
