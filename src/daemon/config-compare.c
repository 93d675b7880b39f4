/* SPDX-License-Identifier: Apache-2.0 */
/* Two configurations: in what they differ, and taking over what can change while boxd runs. */
#include <string.h>

#include "daemon/config-internal.h"

static bool same_list(const struct strings *a, const struct strings *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return true;
}

static bool same_value(const struct config *a, const struct config *b, const struct config_key *key)
{
    switch (storage_of(key->type)) {
    case STORED_TEXT:
        return strcmp(*(char **)slot(a, key), *(char **)slot(b, key)) == 0;
    case STORED_LIST:
        return same_list(slot(a, key), slot(b, key));
    case STORED_BOOL:
        return *(bool *)slot(a, key) == *(bool *)slot(b, key);
    default:
        return *(uint64_t *)slot(a, key) == *(uint64_t *)slot(b, key);
    }
}

void config_differences(const struct config *old, const struct config *new, bool reload,
                        struct strings *ret)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->offset != CONFIG_NOWHERE && key->reload == reload && !is_other_name(key) &&
            !same_value(old, new, key))
            strings_add(ret, key->path);
    }
}

static void take_value(struct config *config, const struct config *from,
                       const struct config_key *key)
{
    switch (storage_of(key->type)) {
    case STORED_TEXT:
        free(*(char **)slot(config, key));
        *(char **)slot(config, key) = xstrdup(*(char **)slot(from, key));
        break;
    case STORED_LIST:
        strings_release(slot(config, key));
        strings_copy(slot(config, key), slot(from, key));
        break;
    case STORED_BOOL:
        *(bool *)slot(config, key) = *(bool *)slot(from, key);
        break;
    case STORED_NUMBER:
        *(uint64_t *)slot(config, key) = *(uint64_t *)slot(from, key);
        break;
    }
}

void config_take_reloadable(struct config *config, const struct config *from)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->offset != CONFIG_NOWHERE && key->reload && !is_other_name(key))
            take_value(config, from, key);
    }
}

void config_take(struct config *config, const struct config *from, const bool *marked)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (marked[i] && config_keys[i].offset != CONFIG_NOWHERE)
            take_value(config, from, &config_keys[i]);
}

void config_copy(struct config *to, const struct config *from)
{
    *to = (struct config){0};
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].offset != CONFIG_NOWHERE && !is_other_name(&config_keys[i]))
            take_value(to, from, &config_keys[i]);
    to->stdio = from->stdio;
    to->system = from->system;
    if (from->policy) {
        to->policy = xcalloc(1, sizeof *to->policy);
        admission_policy_copy(to->policy, from->policy);
    }
}

void config_reset_section(struct config *config, const char *section, bool *marked)
{
    size_t length = strlen(section);
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        struct error err = ERROR_INIT;
        if (strncmp(key->path, section, length) != 0 || key->path[length] != '.' ||
            key->offset == CONFIG_NOWHERE)
            continue;
        (void)!config_set_text(config, key, key->standard, &err);
        marked[i] = true;
    }
}
