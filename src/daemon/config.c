/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the configuration: from text, checked by the table. No I/O. */
#include "daemon/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/parse.h"
#include "core/utf8.h"
#include "daemon/config-internal.h"
#include "net/http-address.h"
#include "sandbox/net.h"

#define TEXT_MAX 4096 /* of one item of a list */

/* --- problems --- */

static char *__attribute__((format(printf, 1, 0))) format_line(const char *format, va_list args)
{
    char *text;
    if (vasprintf(&text, format, args) < 0)
        abort();
    return text;
}

/* Takes the text over. */
static void add_line(struct strings *lines, char *text)
{
    if (lines->count == CONFIG_PROBLEMS_MAX)
        strings_add(lines, "and more");
    if (lines->count > CONFIG_PROBLEMS_MAX)
        free(text);
    else
        strings_take(lines, text);
}

void config_problem(struct config_problems *problems, const char *where, unsigned line,
                    const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cleanup_free char *text = format_line(format, args);
    va_end(args);
    add_line(&problems->lines, line > 0 ? xasprintf("%s:%u: %s", where, line, text)
                                        : xasprintf("%s: %s", where, text));
}

void config_unknown(struct config_problems *problems, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_line(&problems->unknown, format_line(format, args));
    va_end(args);
}

void config_warning(struct config_problems *problems, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_line(&problems->warnings, format_line(format, args));
    va_end(args);
}

void config_problems_release(struct config_problems *problems)
{
    strings_release(&problems->lines);
    strings_release(&problems->unknown);
    strings_release(&problems->warnings);
}

/* --- numbers --- */

static int parse_number(enum config_type type, const char *text, uint64_t *ret)
{
    uint64_t bytes;
    int rc;
    switch (type) {
    case CONFIG_COUNT:
        return parse_u64(text, INT64_MAX, ret);
    case CONFIG_SIZE:
        return parse_size(text, ret);
    case CONFIG_SECONDS:
        return parse_duration(text, ret);
    case CONFIG_CPUS:
        return parse_milli(text, ret);
    default: /* a bare number is mebibytes already */
        if (parse_u64(text, INT64_MAX, ret) == 0)
            return 0;
        rc = parse_size(text, &bytes);
        if (rc == 0)
            *ret = (bytes + (1 << 20) - 1) >> 20;
        return rc;
    }
}

/* A number of the table, in the form in which values are kept. */
static uint64_t kept_bound(const struct config_key *key, uint64_t bound)
{
    return key->type == CONFIG_SECONDS ? bound * 1000 : bound;
}

static void format_bound(const struct config_key *key, uint64_t bound, char ret[32])
{
    if (key->type == CONFIG_CPUS)
        snprintf(ret, 32, "%g", (double)bound / 1000);
    else
        snprintf(ret, 32, "%" PRIu64, bound);
}

static const char *const wanted[CONFIG_TYPE_MAX] = {
    [CONFIG_TEXT] = "a text",
    [CONFIG_PATH] = "a path",
    [CONFIG_CHOICE] = "a word",
    [CONFIG_BOOL] = "true or false",
    [CONFIG_COUNT] = "a whole number",
    [CONFIG_SIZE] = "a size: bytes, or a text like \"64M\"",
    [CONFIG_MEBIBYTES] = "a number of MiB, or a text like \"2G\"",
    [CONFIG_SECONDS] = "a number of seconds, or a text like \"5m\"",
    [CONFIG_CPUS] = "a number like 1.5",
    [CONFIG_LIST] = "a list of texts",
    [CONFIG_PATHS] = "a list of paths",
    [CONFIG_RANGES] = "a list of address ranges like 10.0.0.0/8",
    [CONFIG_SOCKETS] = "a list of addresses like 127.0.0.1:5410",
};

const char *config_wanted(enum config_type type)
{
    return wanted[type];
}

static int wrong_type(const struct config_key *key, const char *text, struct error *err)
{
    return error_set(err, ERROR_INVALID, "%s wants %s, not '%.60s'", key->path, wanted[key->type],
                     text);
}

static int read_number(const struct config_key *key, const char *text, uint64_t *ret,
                       struct error *err)
{
    uint64_t value = 0;
    int rc = parse_number(key->type, text, &value);
    if (rc == -EINVAL)
        return wrong_type(key, text, err);
    if (rc < 0 || value < kept_bound(key, key->min) || value > kept_bound(key, key->max)) {
        char min[32], max[32];
        format_bound(key, key->min, min);
        format_bound(key, key->max, max);
        return error_set(err, ERROR_INVALID, "%s must be between %s and %s, not %.60s", key->path,
                         min, max, text);
    }
    *ret = value;
    return 0;
}

/* --- words and texts --- */

static int read_bool(const struct config_key *key, const char *text, bool *ret, struct error *err)
{
    static const char *const words[][2] = {
        {"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        for (int value = 0; value < 2; value++) {
            if (strcasecmp(text, words[i][value]) == 0) {
                *ret = value;
                return 0;
            }
        }
    }
    return wrong_type(key, text, err);
}

static bool is_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = choices; length > 0 && at;
         at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == length && strncmp(at, text, length) == 0)
            return true;
    return false;
}

static bool is_utf8(const char *text)
{
    cleanup_free char *repaired = utf8_repair(text, strlen(text), NULL);
    return strcmp(repaired, text) == 0;
}

static int check_address(const struct config_key *key, const char *text, struct error *err)
{
    struct net_cidr cidr;
    cleanup_free char *host = NULL;
    cleanup_free char *port = NULL;
    if ((key->type == CONFIG_RANGES && net_cidr_parse(text, &cidr, err) < 0) ||
        (key->type == CONFIG_SOCKETS && http_address_split(text, &host, &port, err) < 0))
        return error_wrap(err, "%s", key->path);
    return 0;
}

/* Control characters have no place in names and paths, and would make a mess of messages. */
static int check_text(const struct config_key *key, const char *text, size_t max, bool open,
                      struct error *err)
{
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return error_set(err, ERROR_INVALID, "%s has a control character in it", key->path);
    if (!is_utf8(text))
        return error_set(err, ERROR_INVALID, "%s is not UTF-8", key->path);
    if (strlen(text) > max)
        return error_set(err, ERROR_INVALID, "%s is longer than %zu characters", key->path, max);
    if (key->type == CONFIG_CHOICE && !open && !is_choice(key->choices, text))
        return error_set(err, ERROR_INVALID, "%s must be one of %s, not '%.60s'", key->path,
                         key->choices, text);
    return check_address(key, text, err);
}

static int read_text(const struct config_key *key, const struct config_value *value, char **ret,
                     struct error *err)
{
    const char *text = value->items[0];
    bool unused;
    size_t max = key->type == CONFIG_CHOICE ? TEXT_MAX : (size_t)key->max;
    /* "yes" and 1 read as booleans too, but may well be meant. */
    if (value->is_plain && (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0) &&
        read_bool(key, text, &unused, err) == 0)
        return wrong_type(key, text, err);
    /* LangBot writes '' for "whatever is right". */
    if (key->type == CONFIG_CHOICE && !*text)
        text = key->standard;
    if (check_text(key, text, max, value->is_open && key->tree, err) < 0)
        return -1;
    *ret = xstrdup(text);
    return 0;
}

/* --- lists --- */

static int add_item(const struct config_key *key, const char *item, size_t length,
                    struct strings *list, struct error *err)
{
    while (length > 0 && (*item == ' ' || *item == '\t')) {
        item++;
        length--;
    }
    while (length > 0 && (item[length - 1] == ' ' || item[length - 1] == '\t'))
        length--;
    if (length == 0)
        return 0;
    cleanup_free char *text = xstrndup(item, length);
    if (check_text(key, text, TEXT_MAX, false, err) < 0)
        return -1;
    if (list->count == key->max)
        return error_set(err, ERROR_INVALID, "%s has more than %" PRIu64 " items", key->path,
                         key->max);
    strings_take(list, steal_ptr(text));
    return 0;
}

static int read_list(const struct config_key *key, const struct config_value *value,
                     struct strings *ret, struct error *err)
{
    cleanup_strings struct strings list = {0};
    for (size_t i = 0; i < value->count; i++) {
        const char *at = value->items[i];
        /* What is in a list already may have commas in it. */
        do {
            size_t length = value->is_list ? strlen(at) : strcspn(at, ",");
            if (add_item(key, at, length, &list, err) < 0)
                return -1;
            at += length;
        } while (*at++ == ',');
    }
    *ret = list;
    list = (struct strings){0};
    return 0;
}

/* --- setting --- */

int config_set(struct config *config, const struct config_key *key,
               const struct config_value *value, struct error *err)
{
    enum storage storage = storage_of(key->type);
    bool flag = false;
    uint64_t number = 0;
    char *text = NULL;
    struct strings list = {0};
    if (value->is_list && storage != STORED_LIST)
        return wrong_type(key, "a list", err);
    /* LangBot writes '' also where it has no number. */
    if (key->tree && (storage == STORED_BOOL || storage == STORED_NUMBER) && !*value->items[0])
        return 0;
    int rc = storage == STORED_TEXT   ? read_text(key, value, &text, err)
             : storage == STORED_LIST ? read_list(key, value, &list, err)
             : storage == STORED_BOOL ? read_bool(key, value->items[0], &flag, err)
                                      : read_number(key, value->items[0], &number, err);
    if (rc < 0)
        return -1;
    if (key->offset == CONFIG_NOWHERE) {
        free(text);
        strings_release(&list);
    } else if (storage == STORED_TEXT) {
        free(*(char **)slot(config, key));
        *(char **)slot(config, key) = text;
    } else if (storage == STORED_LIST) {
        strings_release(slot(config, key));
        *(struct strings *)slot(config, key) = list;
    } else if (storage == STORED_BOOL) {
        *(bool *)slot(config, key) = flag;
    } else {
        *(uint64_t *)slot(config, key) = number;
    }
    return 0;
}

int config_set_text(struct config *config, const struct config_key *key, const char *text,
                    struct error *err)
{
    const struct config_value value = {.items = &text, .count = 1};
    return config_set(config, key, &value, err);
}

void config_init(struct config *config)
{
    *config = (struct config){.system = geteuid() == 0};
    for (size_t i = 0; i < config_key_count; i++) {
        struct error err = ERROR_INIT;
        if (config_set_text(config, &config_keys[i], config_keys[i].standard, &err) < 0) {
            fprintf(stderr, "a default is wrong: %s\n", err.message);
            abort();
        }
    }
}

void config_release(struct config *config)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->offset == CONFIG_NOWHERE)
            continue;
        if (storage_of(key->type) == STORED_TEXT) {
            free(*(char **)slot(config, key));
            *(char **)slot(config, key) = NULL;
        } else if (storage_of(key->type) == STORED_LIST) {
            strings_release(slot(config, key));
        }
    }
    if (config->policy)
        admission_policy_release(config->policy);
    free(config->policy);
    *config = (struct config){0};
}
