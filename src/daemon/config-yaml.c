/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration from YAML: the plain subset of it that configuration needs. One document of
   mappings, lists and scalars; no anchors, aliases or tags; duplicate and unknown keys are
   problems, and reading goes on behind them, so that a person sees all at once. No I/O. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "core/utf8.h"
#include "daemon/config.h"

#define DEPTH_MAX 8
#define NODE_MAX  10000
#define ITEM_MAX  1000
#define KEY_MAX   64
#define PATH_SIZE 256

struct reader {
    yaml_parser_t parser;
    struct config *config;
    const char *where;
    struct config_problems *problems;
    unsigned depth;
    unsigned nodes;
    bool failed; /* nothing more can be read */
    bool *set;   /* by key of the table, to find two names for one thing */
};

static unsigned line_of(const yaml_event_t *event)
{
    return (unsigned)event->start_mark.line + 1;
}

/* Nothing that follows can be trusted to mean what it seems to. */
static void give_up(struct reader *reader, unsigned line, const char *why)
{
    if (!reader->failed)
        config_problem(reader->problems, reader->where, line, "%s", why);
    reader->failed = true;
}

static bool has_extras(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor || event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor || event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor || event->data.mapping_start.tag;
    default:
        return event->type == YAML_ALIAS_EVENT;
    }
}

/* False: there is none; the event is empty then. */
static bool next(struct reader *reader, yaml_event_t *event)
{
    *event = (yaml_event_t){0};
    if (reader->failed)
        return false;
    if (!yaml_parser_parse(&reader->parser, event)) {
        char why[160];
        snprintf(why, sizeof why, "not valid YAML: %s",
                 reader->parser.problem ? reader->parser.problem : "?");
        give_up(reader, (unsigned)reader->parser.problem_mark.line + 1, why);
        return false;
    }
    if (has_extras(event))
        give_up(reader, line_of(event), "anchors, aliases and tags are not allowed here");
    else if (++reader->nodes > NODE_MAX)
        give_up(reader, line_of(event), "too many values for a configuration");
    if (reader->failed)
        yaml_event_delete(event);
    return !reader->failed;
}

static bool enter(struct reader *reader, const yaml_event_t *event)
{
    if (++reader->depth > DEPTH_MAX)
        give_up(reader, line_of(event), "nested too deeply for a configuration");
    return !reader->failed;
}

/* A scalar's text, or NULL if there is a NUL in it. */
static const char *scalar_text(const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    return strlen(text) == event->data.scalar.length ? text : NULL;
}

static bool is_null(const yaml_event_t *event)
{
    if (event->type != YAML_SCALAR_EVENT || event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    const char *text = (const char *)event->data.scalar.value;
    return !*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

/* Reads to the end of what `event` began. */
static void skip(struct reader *reader, const yaml_event_t *event)
{
    unsigned open =
        event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT;
    yaml_event_t at;
    while (open > 0 && next(reader, &at)) {
        if (at.type == YAML_SEQUENCE_START_EVENT || at.type == YAML_MAPPING_START_EVENT)
            open++;
        if (at.type == YAML_SEQUENCE_END_EVENT || at.type == YAML_MAPPING_END_EVENT)
            open--;
        if (reader->depth + open > DEPTH_MAX)
            give_up(reader, line_of(&at), "nested too deeply for a configuration");
        yaml_event_delete(&at);
    }
}

static void unknown_key(struct reader *reader, const char *path, unsigned line)
{
    cleanup_free char *near = config_key_nearest(path);
    if (near)
        config_problem(reader->problems, reader->where, line,
                       "there is no key '%s'; did you mean '%s'?", path, near);
    else
        config_problem(reader->problems, reader->where, line, "there is no key '%s'", path);
}

/* Two names of one place in one file: which would count? */
static bool set_before(struct reader *reader, const struct config_key *key, unsigned line)
{
    for (size_t i = 0; i < config_key_count && key->offset != CONFIG_NOWHERE; i++) {
        if (!reader->set[i] || config_keys[i].offset != key->offset)
            continue;
        if (&config_keys[i] == key)
            config_problem(reader->problems, reader->where, line, "the key '%s' is there twice",
                           key->path);
        else
            config_problem(reader->problems, reader->where, line,
                           "'%s' and '%s' are the same thing", config_keys[i].path, key->path);
        return true;
    }
    reader->set[key - config_keys] = true;
    return false;
}

static void assign(struct reader *reader, const struct config_key *key,
                   const struct config_value *value, unsigned line)
{
    struct error err = ERROR_INIT;
    if (!set_before(reader, key, line) && config_set(reader->config, key, value, &err) < 0)
        config_problem(reader->problems, reader->where, line, "%s", err.message);
}

static void read_items(struct reader *reader, const struct config_key *key, unsigned line)
{
    cleanup_strings struct strings items = {0};
    yaml_event_t event;
    bool good = true;
    while (next(reader, &event) && event.type != YAML_SEQUENCE_END_EVENT) {
        const char *text = event.type == YAML_SCALAR_EVENT ? scalar_text(&event) : NULL;
        if (items.count == ITEM_MAX)
            give_up(reader, line_of(&event), "too many items in a list");
        else if (text && !is_null(&event))
            strings_add(&items, text);
        else if (good) {
            config_problem(reader->problems, reader->where, line_of(&event),
                           "%s is a list of texts, and nothing else", key->path);
            good = false;
        }
        skip(reader, &event);
        yaml_event_delete(&event);
    }
    yaml_event_delete(&event);
    const struct config_value value = {
        .items = (const char *const *)items.items, .count = items.count, .is_list = true};
    if (good && !reader->failed)
        assign(reader, key, &value, line);
}

static void read_value(struct reader *reader, const struct config_key *key,
                       const yaml_event_t *event)
{
    unsigned line = line_of(event);
    const char *text = event->type == YAML_SCALAR_EVENT ? scalar_text(event) : NULL;
    const struct config_value value = {.items = &text,
                                       .count = 1,
                                       .is_plain =
                                           event->type == YAML_SCALAR_EVENT &&
                                           event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE};
    if (is_null(event)) {
        return; /* as if it were not there */
    } else if (text) {
        assign(reader, key, &value, line);
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        if (enter(reader, event))
            read_items(reader, key, line);
        reader->depth--;
    } else {
        config_problem(reader->problems, reader->where, line, "%s wants a value, not %s", key->path,
                       event->type == YAML_SCALAR_EVENT ? "one with a NUL in it" : "a mapping");
        skip(reader, event);
    }
}

static void read_mapping(struct reader *reader, const char *prefix);

static void read_section(struct reader *reader, const char *path, const yaml_event_t *event)
{
    if (event->type == YAML_MAPPING_START_EVENT) {
        if (enter(reader, event))
            read_mapping(reader, path);
        reader->depth--;
    } else if (!is_null(event) && !*path && reader->depth == 0) {
        config_problem(reader->problems, reader->where, line_of(event),
                       "a configuration is lines of 'key: value', and this is none");
        skip(reader, event);
    } else if (!is_null(event)) {
        config_problem(reader->problems, reader->where, line_of(event),
                       "'%s' has keys of its own below it, not a value", *path ? path : "box");
        skip(reader, event);
    }
}

/* What belongs to the key `path`. */
static void read_member(struct reader *reader, const char *path, unsigned line, bool wanted)
{
    yaml_event_t event;
    if (!next(reader, &event))
        return;
    const struct config_key *key = config_key_find(path);
    if (!wanted) {
        skip(reader, &event);
    } else if (key) {
        read_value(reader, key, &event);
    } else if (config_is_section(path)) {
        read_section(reader, path, &event);
    } else {
        unknown_key(reader, path, line);
        skip(reader, &event);
    }
    yaml_event_delete(&event);
}

static bool is_repeated(struct reader *reader, const struct strings *names, const char *name,
                        unsigned line)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i], name) == 0) {
            config_problem(reader->problems, reader->where, line, "the key '%s' is there twice",
                           name);
            return true;
        }
    }
    return false;
}

/* The name of the next key in `ret`; false at the end of the mapping. */
static bool read_name(struct reader *reader, char ret[KEY_MAX + 1], unsigned *ret_line,
                      bool *ret_ok)
{
    yaml_event_t event;
    if (!next(reader, &event))
        return false;
    bool more = event.type != YAML_MAPPING_END_EVENT;
    const char *text = event.type == YAML_SCALAR_EVENT ? scalar_text(&event) : NULL;
    *ret_line = line_of(&event);
    *ret_ok = text && *text && strlen(text) <= KEY_MAX && !strpbrk(text, ".\n\r\t\x1b");
    if (*ret_ok) {
        cleanup_free char *clean = utf8_repair(text, strlen(text), NULL);
        snprintf(ret, KEY_MAX + 1, "%s", clean);
    } else if (more) {
        config_problem(reader->problems, reader->where, *ret_line, "this is not a key");
        skip(reader, &event);
    }
    yaml_event_delete(&event);
    return more && !reader->failed;
}

/* Behind its start event. */
static void read_mapping(struct reader *reader, const char *prefix)
{
    cleanup_strings struct strings names = {0};
    char name[KEY_MAX + 1];
    char path[PATH_SIZE];
    unsigned line;
    unsigned box_line = 0;
    bool ok;
    bool top = reader->depth == 1;
    while (read_name(reader, name, &line, &ok)) {
        bool wanted = ok && !is_repeated(reader, &names, name, line);
        if (ok && wanted)
            strings_add(&names, name);
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", ok ? name : "");
        if (top && ok && strcmp(name, "box") == 0) {
            yaml_event_t event;
            box_line = line;
            if (wanted && next(reader, &event)) {
                read_section(reader, "", &event);
                yaml_event_delete(&event);
                continue;
            }
        }
        read_member(reader, path, line, wanted);
    }
    if (box_line > 0 && names.count > 1)
        config_problem(reader->problems, reader->where, box_line,
                       "everything belongs below 'box:', or nothing does");
}

static void read_document(struct reader *reader)
{
    yaml_event_t event;
    bool begun = false;
    while (next(reader, &event)) {
        yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && begun)
            give_up(reader, line_of(&event), "there is a second document");
        else if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT ||
                 type == YAML_MAPPING_START_EVENT) {
            begun = true;
            read_section(reader, "", &event);
        }
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT)
            return;
    }
}

void config_read_yaml(struct config *config, const char *text, size_t size, const char *where,
                      struct config_problems *problems)
{
    struct reader reader = {.config = config, .where = where, .problems = problems};
    if (size > CONFIG_TEXT_MAX) {
        config_problem(problems, where, 0, "larger than %d bytes", CONFIG_TEXT_MAX);
        return;
    }
    if (!yaml_parser_initialize(&reader.parser))
        abort();
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
    reader.set = xcalloc(config_key_count, sizeof *reader.set);
    read_document(&reader);
    free(reader.set);
    yaml_parser_delete(&reader.parser);
}
