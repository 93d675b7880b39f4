/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP: the configuration once more. All or nothing: a file that is wrong changes nothing. What
   LangBot has set by box_init stays as it is. */
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

/* The files may hold other tokens although their names are the same. One that cannot be read leaves
   the old ones, which is better than none. */
static int read_tokens(struct daemon *daemon, const struct config *config, char **ret,
                       char **ret_control, struct error *err)
{
    if (tokens_read(config, ret, ret_control, err) < 0)
        return -1;
    if (*ret || *ret_control || !daemon->on_network)
        return 0;
    return error_set(err, ERROR_DENIED,
                     "boxd listens on the network, so token_file and control_token_file cannot "
                     "both go");
}

void daemon_apply(struct daemon *daemon)
{
    struct runtime_config runtime;
    struct api_config api;
    config_to_log(daemon->config);
    config_to_runtime(daemon->config, &runtime);
    runtime_reconfigure(daemon->runtime, &runtime);
    runtime_config_release(&runtime);
    daemon_api_config(daemon, &api);
    api_reconfigure(daemon->api, &api);
    api_config_release(&api);
}

static void take(struct daemon *daemon, struct config *config)
{
    cleanup_strings struct strings changed = {0};
    cleanup_strings struct strings fixed = {0};
    struct error err = ERROR_INIT;
    char *token;
    char *control;
    if (read_tokens(daemon, config, &token, &control, &err) < 0) {
        log_error(LOG_ERROR, "reload_failed", &err);
        return;
    }
    config_take(config, daemon->config, daemon->from_tree);
    config_differences(daemon->config, config, true, &changed);
    config_differences(daemon->config, config, false, &fixed);
    config_take_reloadable(daemon->config, config);
    token_free(daemon->token);
    token_free(daemon->control_token);
    daemon->token = token;
    daemon->control_token = control;
    daemon_apply(daemon);
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
