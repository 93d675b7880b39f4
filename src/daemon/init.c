/* SPDX-License-Identifier: Apache-2.0 */
/* box_init: LangBot's tree over the configuration in effect. All or nothing: a tree with something
   malformed in it changes nothing.

   Only keys of LangBot's own can be changed so: whoever may call box_init runs commands in
   sandboxes, and is not the one who set boxd up. What it sets stays until the next box_init or the
   end of this process, also when the file is read again (reload.c). As in LangBot's own runtime,
   what is said of `local` replaces all that was said of it before, while limits that are not
   mentioned stay as they are. */
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "daemon/backends.h"
#include "daemon/daemon.h"

#define WHERE    "box"
#define TOLD_MS  100
#define TOLD_MAX 1000 /* lines; a stranger with a valid token might have many */

void daemon_tell_once(struct daemon *daemon, const char *event, const char *message)
{
    for (size_t i = 0; i < daemon->told.count; i++)
        if (strcmp(daemon->told.items[i], message) == 0)
            return;
    if (daemon->told.count == TOLD_MAX)
        return;
    strings_add(&daemon->told, message);
    log_event(LOG_WARN, event, LOG_TEXT("message", message));
}

static void tell_all(struct daemon *daemon, const struct config_problems *problems)
{
    for (size_t i = 0; i < problems->unknown.count; i++)
        daemon_tell_once(daemon, "unknown_key", problems->unknown.items[i]);
    for (size_t i = 0; i < problems->warnings.count; i++)
        daemon_tell_once(daemon, "config_warning", problems->warnings.items[i]);
}

static bool is_any_set(const bool *set, const char *section)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (set[i] && strncmp(config_keys[i].path, section, strlen(section)) == 0)
            return true;
    return false;
}

/* The configuration with the tree over it. `set` says which keys are the tree's then. */
static void merge(const struct daemon *daemon, const json_t *tree, struct config *ret, bool *set,
                  struct config_problems *problems)
{
    tree = config_tree_root(tree);
    config_copy(ret, daemon->config);
    if (json_is_object(json_object_get(tree, "local")))
        config_reset_section(ret, "local", set);
    config_read_tree(ret, tree, WHERE, true, set, problems);
    /* By what was set, in whatever form it came; a section that was reset counts as set. */
    if (is_any_set(set, "local."))
        config_settle_local(ret, &daemon->ceiling, problems);
}

/* A line each time, but not for one who does nothing else. */
static void tell_changed(struct daemon *daemon, const struct strings *changed)
{
    uint64_t now = uv_now(&daemon->loop);
    cleanup_free char *keys = xstrdup("");
    if (changed->count == 0 || (daemon->init_told_ms > 0 && now - daemon->init_told_ms < TOLD_MS))
        return;
    daemon->init_told_ms = now;
    for (size_t i = 0; i < changed->count; i++) {
        cleanup_free char *before = keys;
        keys = xasprintf("%s%s%s", before, i > 0 ? " " : "", changed->items[i]);
    }
    log_event(LOG_INFO, "init_changed", LOG_TEXT("keys", keys));
}

static void take(struct daemon *daemon, struct config *config, const bool *set)
{
    cleanup_strings struct strings changed = {0};
    config_differences(daemon->config, config, true, &changed);
    config_differences(daemon->config, config, false, &changed);
    if (!admission_policy_same(daemon->config->policy, config->policy))
        strings_add(&changed, "admission");
    config_release(daemon->config);
    *daemon->config = *config;
    for (size_t i = 0; i < config_key_count; i++)
        daemon->from_tree[i] |= set[i];
    daemon_apply(daemon);
    backends_select(daemon);
    tell_changed(daemon, &changed);
}

int daemon_init(void *data, const json_t *tree, struct error *err)
{
    struct daemon *daemon = data;
    struct config config;
    struct config_problems problems = {0};
    cleanup_free bool *set = xcalloc(config_key_count, sizeof *set);
    int rc = 0;
    merge(daemon, tree, &config, set, &problems);
    if (problems.lines.count > 0) {
        config_release(&config);
        rc = error_set(err, ERROR_INVALID, "%s", problems.lines.items[0]);
    } else {
        take(daemon, &config, set);
        tell_all(daemon, &problems);
    }
    config_problems_release(&problems);
    return rc;
}
