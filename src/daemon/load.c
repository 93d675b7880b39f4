/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of the configuration put together, and handed to those below in their own words. */
#include "daemon/load.h"

#include <string.h>
#include <unistd.h>

#include "core/json.h"
#include "core/log.h"

#define TREE_VARIABLE  "LANGBOT_BOX_CONFIG"
#define TOKEN_VARIABLE "BOX_TOKEN_FILE"

/* Not read as YAML: what LangBot says of admission is judged as a whole (config-tree.c). */
static void load_tree(struct config *config, const char *text, struct config_problems *problems)
{
    struct error err = ERROR_INIT;
    cleanup_json json_t *tree = NULL;
    if (strlen(text) > CONFIG_TEXT_MAX)
        config_problem(problems, TREE_VARIABLE, 0, "larger than %d bytes", CONFIG_TEXT_MAX);
    else if (json_parse(text, strlen(text), &tree, &err) < 0)
        config_problem(problems, TREE_VARIABLE, 0, "%s", err.message);
    else
        config_read_tree(config, config_tree_root(tree), TREE_VARIABLE, false, NULL, problems);
}

/* Variables that have a key of their own. Empty ones say nothing: compose files pass them on. */
static void load_keys(struct config *config, struct config_problems *problems)
{
    static const char *const names[][2] = {
        {TOKEN_VARIABLE, "token_file"},
        {INSTANCE_VARIABLE, "trusted_instance"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *value = getenv(names[i][0]);
        struct error err = ERROR_INIT;
        if (value && *value &&
            config_set_text(config, config_key_find(names[i][1]), value, &err) < 0)
            config_problem(problems, names[i][0], 0, "%s", err.message);
    }
}

static void load_variables(struct config *config, struct config_problems *problems)
{
    const char *tree = getenv(TREE_VARIABLE);
    if (tree && *tree)
        load_tree(config, tree, problems);
    load_keys(config, problems);
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

void add_real_root(const char *path, struct strings *ret)
{
    cleanup_free char *real = realpath(path, NULL);
    strings_add(ret, path);
    if (real && strcmp(real, path) != 0)
        strings_add(ret, real);
}

void config_real_roots(const struct config *config, struct strings *ret)
{
    for (size_t i = 0; i < config->allowed_roots.count; i++)
        add_real_root(config->allowed_roots.items[i], ret);
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
    ret->max_queued_bytes = config->max_queued_bytes;
    ret->output_keep_bytes = config->keep_bytes;
    ret->session_log_bytes = config->session_log_bytes;
    ret->outlive_seconds = config->adopt ? (uint32_t)((config->outlive_ms + 999) / 1000) : 0;
    ret->audit_bytes = config->audit_bytes;
    ret->audit_files = (unsigned)config->audit_files;
    config_real_roots(config, &ret->allowed_roots);
    ret->only_allowed = true;
}

void runtime_config_release(struct runtime_config *config)
{
    strings_release(&config->allowed_roots);
}

/* What boxd's own file lays down. */
static void policy_of_file(const struct config *config, struct admission_policy *ret)
{
    *ret = (struct admission_policy){
        .required = config->admission_required,
        .max_sessions = (uint32_t)config->admission_sessions,
        .max_managed_processes = (uint32_t)config->admission_processes,
        .max_grant_ttl_sec = (uint32_t)(config->admission_grant_ms / 1000),
        .max_timeout_sec = (uint32_t)(config->admission_timeout_ms / 1000),
        .cpus = (double)config->admission_milli_cpus / 1000,
        .memory_mb = config->admission_memory_mb,
        .pids_limit = (uint32_t)config->admission_pids,
        .read_only_rootfs = config->admission_read_only,
        .workspace_quota_mb = config->admission_quota_mb,
        .readiness_cache_sec = (uint32_t)(config->admission_cache_ms / 1000),
    };
}

#define LOWER(field)             \
    if (ret->field > most.field) \
    ret->field = most.field

/* Where the file requires grants, a tree can only ask for less than that gives. */
static void config_to_policy(const struct config *config, struct admission_policy *ret)
{
    struct admission_policy most;
    policy_of_file(config, &most);
    if (!config->policy) {
        *ret = most;
        return;
    }
    admission_policy_copy(ret, config->policy);
    if (!most.required)
        return;
    ret->required = true;
    LOWER(max_sessions);
    LOWER(max_managed_processes);
    LOWER(max_grant_ttl_sec);
    LOWER(max_timeout_sec);
    LOWER(cpus);
    LOWER(memory_mb);
    LOWER(pids_limit);
    LOWER(readiness_cache_sec);
    ret->read_only_rootfs |= most.read_only_rootfs;
    if (most.workspace_quota_mb > 0 &&
        (ret->workspace_quota_mb == 0 || ret->workspace_quota_mb > most.workspace_quota_mb))
        ret->workspace_quota_mb = most.workspace_quota_mb;
}
#undef LOWER

static char *copy_unless_empty(const char *text)
{
    return *text ? xstrdup(text) : NULL;
}

static void config_to_rpc(const struct config *config, const char *control_token,
                          struct rpc_config *ret)
{
    rpc_config_release(ret);
    rpc_config_init(ret);
    ret->control_token = control_token ? xstrdup(control_token) : NULL;
    ret->instance = copy_unless_empty(config->trusted_instance);
    ret->tenancy_required = strcmp(config->tenancy, "required") == 0;
    ret->max_file_bytes = config->max_file_bytes;
    ret->max_records = (uint32_t)config->max_records;
    ret->default_workspace = copy_unless_empty(config->default_workspace);
    ret->skills_root = copy_unless_empty(config->skills_root);
    ret->shares_files = config->stdio;
    admission_policy_release(&ret->admission);
    config_to_policy(config, &ret->admission);
}

void config_to_api(const struct config *config, const char *token, const char *control_token,
                   struct api_config *ret)
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
    config_to_rpc(config, control_token, &ret->rpc);
    ret->relay_only = config->stdio;
    ret->skills_quota_bytes = config->skills_quota_mb << 20;
    ret->skills_writable = config->skills_writable;
}
