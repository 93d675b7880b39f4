/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration from LangBot's tree: JSON that LangBot hands to those it starts
   (LANGBOT_BOX_CONFIG), and sends to those it connects to (box_init). It is the `box:` section of
   LangBot's own configuration, so most of it is not for boxd, and a newer LangBot has more of it.
   No I/O. */
#include <stdint.h>
#include <string.h>

#include "api/rpc-spec.h"
#include "core/utf8.h"
#include "daemon/config-internal.h"

#define KEY_MAX     64
#define UNKNOWN_MAX 100 /* that are told of: what is wrong is clear by then */

struct reader {
    struct config *config;
    const char *where;
    bool only_tree;
    bool *set; /* may be NULL */
    struct config_problems *problems;
    unsigned unknown;
};

static void unknown_key(struct reader *reader, const char *path)
{
    if (reader->unknown++ >= UNKNOWN_MAX)
        return;
    cleanup_free char *near = config_key_nearest(path);
    if (near)
        config_unknown(reader->problems, "%s: there is no key '%s'; did you mean '%s'?",
                       reader->where, path, near);
    else
        config_unknown(reader->problems, "%s: there is no key '%s'", reader->where, path);
}

/* --- values --- */

static char *trimmed(const char *text)
{
    size_t size = strlen(text);
    utf8_strip(&text, &size);
    return xstrndup(text, size);
}

/* As one would write it; NULL: it is nothing that this key can be. The caller frees. */
static char *scalar(const struct config_key *key, const json_t *value)
{
    enum storage storage = storage_of(key->type);
    switch (json_typeof(value)) {
    case JSON_STRING:
        return storage == STORED_NUMBER ? NULL : trimmed(json_string_value(value));
    case JSON_INTEGER:
        if (storage == STORED_BOOL)
            return NULL;
        return xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    case JSON_REAL:
        return key->type == CONFIG_CPUS ? xasprintf("%.3f", json_real_value(value)) : NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return storage == STORED_BOOL ? xstrdup(json_is_true(value) ? "true" : "false") : NULL;
    default:
        return NULL;
    }
}

static bool read_items(const struct config_key *key, const json_t *list, struct strings *ret)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item) || storage_of(key->type) != STORED_LIST)
            return false;
        strings_add(ret, json_string_value(item));
    }
    return true;
}

static void read_value(struct reader *reader, const struct config_key *key, const json_t *json)
{
    cleanup_strings struct strings items = {0};
    struct error err = ERROR_INIT;
    cleanup_free char *text = NULL;
    struct config_value value = {.is_list = json_is_array(json), .is_open = true};
    if (key->offset == CONFIG_NOWHERE ||
        (json_is_null(json) && storage_of(key->type) != STORED_NUMBER))
        return;
    bool good = value.is_list ? read_items(key, json, &items) : (text = scalar(key, json)) != NULL;
    value.items = (const char *const *)(value.is_list ? items.items : &text);
    value.count = value.is_list ? items.count : 1;
    if (!good)
        config_problem(reader->problems, reader->where, 0, "%s wants %s", key->path,
                       config_wanted(key->type));
    else if (config_set(reader->config, key, &value, &err) < 0)
        config_problem(reader->problems, reader->where, 0, "%s", err.message);
    else if (reader->set)
        reader->set[key - config_keys] = true;
}

/* --- sections --- */

/* A section with a key in it that means something here. */
static bool is_ours(const char *section)
{
    size_t length = strlen(section);
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].offset != CONFIG_NOWHERE &&
            strncmp(config_keys[i].path, section, length) == 0 &&
            config_keys[i].path[length] == '.')
            return true;
    return false;
}

/* What has more than a policy's rules is malformed, and what is malformed must not be less: so it
   is not read key by key. */
static void read_admission(struct reader *reader, const json_t *section)
{
    struct admission_policy *policy = xcalloc(1, sizeof *policy);
    rpc_policy_decode(section, policy);
    if (reader->config->policy)
        admission_policy_release(reader->config->policy);
    free(reader->config->policy);
    reader->config->policy = policy;
}

static void read_object(struct reader *reader, const char *section, const json_t *object);

static void read_member(struct reader *reader, const char *path, const json_t *value)
{
    const struct config_key *key = config_key_find(path);
    if (strcmp(path, "admission") == 0) {
        read_admission(reader, json_is_null(value) ? NULL : value);
    } else if (key && (key->tree || !reader->only_tree)) {
        read_value(reader, key, value);
    } else if (!key && config_is_section(path)) {
        if (json_is_object(value))
            read_object(reader, path, value);
        else if (!json_is_null(value) && is_ours(path))
            config_problem(reader->problems, reader->where, 0,
                           "'%s' has keys of its own below it, not a value", path);
    } else {
        unknown_key(reader, path);
    }
}

static void read_object(struct reader *reader, const char *section, const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        cleanup_free char *clean = utf8_repair(name, strnlen(name, KEY_MAX), NULL);
        cleanup_free char *path = xasprintf("%s%s%s", section, *section ? "." : "", clean);
        /* A name with a dot in it is one name, not the way to a key in a section. */
        if (strchr(clean, '.'))
            unknown_key(reader, path);
        else
            read_member(reader, path, value);
    }
}

const json_t *config_tree_root(const json_t *tree)
{
    const json_t *box = json_object_get(tree, "box");
    return json_is_object(box) && json_object_size(tree) == 1 ? box : tree;
}

void config_read_tree(struct config *config, const json_t *tree, const char *where, bool only_tree,
                      bool *set, struct config_problems *problems)
{
    struct reader reader = {config, where, only_tree, set, problems, 0};
    if (!json_is_object(tree))
        config_problem(problems, where, 0, "this is not a JSON object");
    else
        read_object(&reader, "", tree);
}
