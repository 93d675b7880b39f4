/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of the configuration put together, and handed to those below in their own words. */
#include "daemon/load.h"

#include <string.h>
#include <unistd.h>

#include "core/log.h"

#define LANGBOT_VARIABLE "LANGBOT_BOX_CONFIG"
#define TOKEN_VARIABLE   "BOX_TOKEN_FILE"

static void load_variables(struct config *config, struct config_problems *problems)
{
    const char *tree = getenv(LANGBOT_VARIABLE);
    const char *token_file = getenv(TOKEN_VARIABLE);
    struct error err = ERROR_INIT;
    if (tree && *tree)
        config_read_yaml(config, tree, strlen(tree), LANGBOT_VARIABLE, problems);
    if (token_file && config_set_text(config, config_key_find("token_file"), token_file, &err) < 0)
        config_problem(problems, TOKEN_VARIABLE, 0, "%s", err.message);
    config_read_env(config, environ, problems);
}

void load_config(const struct options *options, struct config *ret, char **ret_file,
                 struct config_problems *problems)
{
    struct error err = ERROR_INIT;
    config_init(ret);
    *ret_file = options_config_file(options);
    if (*ret_file && config_read_file(ret, *ret_file, problems, &err) < 0)
        strings_add(&problems->lines, err.message);
    load_variables(ret, problems);
    options_apply(options, ret, problems);
    config_settle(ret, problems);
}

void config_to_log(const struct config *config)
{
    log_configure(strcmp(config->log_format, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT,
                  log_level_from_name(config->log_level));
}

void config_to_http(const struct config *config, struct http_limits *ret)
{
    *ret = (struct http_limits){
        .head_bytes = (size_t)config->head_bytes,
        .headers = (unsigned)config->headers,
        .connections = (unsigned)config->connections,
        .head_ms = (unsigned)config->head_ms,
        .idle_ms = (unsigned)config->idle_ms,
        .body_stall_ms = (unsigned)config->body_stall_ms,
        .body_rate = (unsigned)config->body_rate,
        .write_stall_ms = (unsigned)config->write_stall_ms,
        .unsent_bytes = (size_t)config->unsent_bytes,
    };
}

void config_real_roots(const struct config *config, struct strings *ret)
{
    for (size_t i = 0; i < config->allowed_roots.count; i++) {
        const char *path = config->allowed_roots.items[i];
        cleanup_free char *real = realpath(path, NULL);
        strings_add(ret, path);
        if (real && strcmp(real, path) != 0)
            strings_add(ret, real);
    }
}

void config_to_runtime(const struct config *config, struct runtime_config *ret)
{
    runtime_config_init(ret);
    ret->run_dir = config->run_dir;
    ret->state_dir = config->state_dir;
    ret->session_ttl_ms = config->session_ttl_ms;
    ret->max_sessions = (unsigned)config->max_sessions;
    ret->max_managed_processes = (unsigned)config->max_managed_processes;
    ret->max_completed_processes = (unsigned)config->max_completed_processes;
    ret->completed_retention_ms = config->completed_retention_ms;
    ret->output_keep_bytes = config->keep_bytes;
    ret->session_log_bytes = config->session_log_bytes;
    ret->outlive_seconds = config->adopt ? (uint32_t)((config->outlive_ms + 999) / 1000) : 0;
    ret->audit_bytes = config->audit_bytes;
    ret->audit_files = (unsigned)config->audit_files;
    config_real_roots(config, &ret->allowed_roots);
}

void runtime_config_release(struct runtime_config *config)
{
    strings_release(&config->allowed_roots);
}

void config_to_api(const struct config *config, const char *token, struct api_config *ret)
{
    api_config_init(ret);
    ret->token = token ? xstrdup(token) : NULL;
    strings_copy(&ret->allowed_hosts, &config->allowed_hosts);
    strings_copy(&ret->allowed_origins, &config->allowed_origins);
    ret->body_max = (size_t)config->body_bytes;
    ret->defaults.network = strcmp(config->network, "on") == 0;
    ret->defaults.cpus = (double)config->milli_cpus / 1000;
    ret->defaults.memory_mb = config->memory_mb;
    ret->defaults.pids_limit = (uint32_t)config->pids_limit;
    ret->defaults.read_only_rootfs = config->read_only_rootfs;
    ret->defaults.workspace_quota_mb = config->workspace_quota_mb;
    ret->default_timeout_ms = config->timeout_ms;
    ret->maximum_timeout_ms = config->max_timeout_ms;
    free(ret->version);
    ret->version = xstrdup(BOX_VERSION);
}
