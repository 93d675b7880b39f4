/* SPDX-License-Identifier: Apache-2.0 */
/* What front matter says, read from libyaml's events. */
#include "skills/value.h"

#include <string.h>
#include <yaml.h>

#include "core/mem.h"
#include "skills/scalar.h"
#include "skills/skills.h"
#include "skills/text.h"

#define NODE_MAX 10000

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t size;
    /* libyaml counts characters, we need bytes: the last place where both were known. */
    size_t known_index;
    size_t known_offset;
    unsigned nodes;
    unsigned line;
};

void value_free(struct value *value)
{
    if (!value)
        return;
    for (size_t i = 0; i < value->count; i++)
        value_free(value->items[i]);
    free(value->items);
    free(value->text);
    free(value->repr);
    free(value->raw);
    free(value);
}

static size_t offset_of(struct reader *reader, size_t index)
{
    if (index < reader->known_index)
        reader->known_index = reader->known_offset = 0;
    const char *at = reader->text + reader->known_offset;
    const char *end = reader->text + reader->size;
    for (; reader->known_index < index && at < end; reader->known_index++)
        text_next(&at, end);
    reader->known_offset = (size_t)(at - reader->text);
    return reader->known_offset;
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

static int next(struct reader *reader, yaml_event_t *ret, struct error *err)
{
    if (!yaml_parser_parse(&reader->parser, ret)) {
        const char *problem = reader->parser.problem;
        reader->line = (unsigned)reader->parser.problem_mark.line;
        return error_set(err, ERROR_INVALID, "not valid YAML: %s", problem ? problem : "?");
    }
    reader->line = (unsigned)ret->start_mark.line;
    if (!has_extras(ret) && ++reader->nodes <= NODE_MAX)
        return 0;
    yaml_event_delete(ret);
    if (reader->nodes > NODE_MAX)
        return error_set(err, ERROR_LIMIT, "more than %d values", NODE_MAX);
    return error_set(err, ERROR_INVALID, "anchors, aliases and tags are not allowed");
}

static struct value *value_new(struct reader *reader, enum value_kind kind,
                               const yaml_event_t *event)
{
    struct value *value = xcalloc(1, sizeof *value);
    value->kind = kind;
    value->line = (unsigned)event->start_mark.line;
    value->column = event->start_mark.column;
    value->start = offset_of(reader, event->start_mark.index);
    value->end = offset_of(reader, event->end_mark.index);
    return value;
}

static int read_plain(struct value *value, const char *text, size_t size, struct error *err)
{
    static const enum value_kind kinds[] = {
        [SCALAR_TEXT] = VALUE_TEXT,   [SCALAR_NULL] = VALUE_NULL,       [SCALAR_BOOL] = VALUE_OTHER,
        [SCALAR_INT] = VALUE_OTHER,   [SCALAR_FLOAT] = VALUE_OTHER,     [SCALAR_DATE] = VALUE_OTHER,
        [SCALAR_MERGE] = VALUE_MERGE, [SCALAR_DEFAULT] = VALUE_DEFAULT,
    };
    struct scalar scalar;
    if (scalar_resolve(text, size, &scalar, err) < 0)
        return -1;
    value->plain = true;
    value->kind = kinds[scalar.kind];
    value->truthy = scalar.truthy;
    value->text = scalar.text;
    value->size = scalar.text ? strlen(scalar.text) : 0;
    value->repr = scalar.repr;
    value->raw = xstrdup(text);
    return 0;
}

static int read_scalar(struct reader *reader, const yaml_event_t *event, struct value **ret,
                       struct error *err)
{
    struct value *value = value_new(reader, VALUE_TEXT, event);
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    *ret = value;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return read_plain(value, text, size, err);
    value->truthy = size > 0;
    value->text = xmalloc(size + 1);
    memcpy(value->text, text, size);
    value->text[size] = '\0';
    value->size = size;
    return 0;
}

static void add_item(struct value *to, struct value *item)
{
    /* Powers of two: the count says when it is full. */
    if ((to->count & (to->count - 1)) == 0)
        to->items = xreallocarray(to->items, to->count ? to->count * 2 : 1, sizeof *to->items);
    to->items[to->count++] = item;
}

static struct value *take_item(struct value *from, size_t index)
{
    return steal_ptr(from->items[index]);
}

/* The pairs of a map that "<<" names, before the map's own. */
static int merge_map(struct value *into, struct value *from, struct error *err)
{
    if (from->kind != VALUE_MAP)
        return error_set(err, ERROR_INVALID, "'<<' wants a mapping, or a list of them");
    for (size_t i = 0; i < from->count; i++) {
        struct value *item = take_item(from, i);
        if (i % 2 == 0)
            item->merged = true;
        add_item(into, item);
    }
    from->count = 0;
    return 0;
}

static int merge_value(struct value *into, struct value *value, struct error *err)
{
    if (value->kind != VALUE_LIST)
        return merge_map(into, value, err);
    /* The first of a list wins, so it comes last. */
    for (size_t i = value->count; i-- > 0;) {
        if (merge_map(into, value->items[i], err) < 0)
            return -1;
    }
    return 0;
}

static int flatten(struct value *map, struct error *err)
{
    struct value all = {.kind = VALUE_MAP};
    int rc = 0;
    for (size_t i = 0; i < map->count && rc == 0; i += 2) {
        if (map->items[i]->kind == VALUE_MERGE)
            rc = merge_value(&all, map->items[i + 1], err);
    }
    for (size_t i = 0; i < map->count; i += 2) {
        struct value *key = take_item(map, i);
        struct value *value = take_item(map, i + 1);
        if (key->kind == VALUE_MERGE) {
            value_free(key);
            value_free(value);
            continue;
        }
        if (key->kind == VALUE_DEFAULT)
            key->kind = VALUE_TEXT;
        add_item(&all, key);
        add_item(&all, value);
    }
    free(map->items);
    map->items = all.items;
    map->count = all.count;
    map->truthy = map->count > 0;
    return rc;
}

static int read_node(struct reader *reader, const yaml_event_t *event, unsigned depth,
                     struct value **ret, struct error *err);

/* Whether what was read may stand where it does. */
static int check_item(const struct value *map, size_t index, const struct value *item,
                      struct error *err)
{
    bool key = map->kind == VALUE_MAP && index % 2 == 0;
    if (key && (item->kind == VALUE_LIST || item->kind == VALUE_MAP))
        return error_set(err, ERROR_INVALID, "a list or mapping cannot be a key");
    if (!key && (item->kind == VALUE_MERGE || item->kind == VALUE_DEFAULT))
        return error_set(err, ERROR_INVALID, "'%s' needs quotes here", item->text);
    return 0;
}

static int read_items(struct reader *reader, struct value *into, unsigned depth, struct error *err)
{
    if (depth > SKILL_FRONT_DEPTH)
        return error_set(err, ERROR_LIMIT, "nested more than %d deep", SKILL_FRONT_DEPTH);
    for (;;) {
        yaml_event_t event;
        if (next(reader, &event, err) < 0)
            return -1;
        if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT) {
            /* In brackets it ends here; otherwise with the last of its items. */
            if (into->flow)
                into->end = offset_of(reader, event.end_mark.index);
            yaml_event_delete(&event);
            break;
        }
        struct value *item = NULL;
        int rc = read_node(reader, &event, depth, &item, err);
        if (item && rc == 0)
            rc = check_item(into, into->count, item, err);
        if (item) {
            add_item(into, item);
            if (item->end > into->end)
                into->end = item->end;
        }
        yaml_event_delete(&event);
        if (rc < 0)
            return -1;
    }
    into->truthy = into->count > 0;
    return into->kind == VALUE_MAP ? flatten(into, err) : 0;
}

/* `ret` may hold something even on failure. */
static int read_node(struct reader *reader, const yaml_event_t *event, unsigned depth,
                     struct value **ret, struct error *err)
{
    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(reader, event, ret, err);
    bool map = event->type == YAML_MAPPING_START_EVENT;
    *ret = value_new(reader, map ? VALUE_MAP : VALUE_LIST, event);
    (*ret)->flow = map ? event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                       : event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    return read_items(reader, *ret, depth + 1, err);
}

static int read_stream(struct reader *reader, struct value **ret, struct error *err)
{
    bool begun = false;
    for (;;) {
        yaml_event_t event;
        int rc = 0;
        if (next(reader, &event, err) < 0)
            return -1;
        yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && begun)
            rc = error_set(err, ERROR_INVALID, "there is a second document");
        else if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT ||
                 type == YAML_MAPPING_START_EVENT)
            rc = read_node(reader, &event, 0, ret, err);
        begun = begun || type == YAML_DOCUMENT_START_EVENT;
        if (rc == 0 && *ret && ((*ret)->kind == VALUE_MERGE || (*ret)->kind == VALUE_DEFAULT))
            rc = error_set(err, ERROR_INVALID, "'%s' is no front matter", (*ret)->text);
        yaml_event_delete(&event);
        if (rc < 0 || type == YAML_STREAM_END_EVENT)
            return rc;
    }
}

int value_parse(const char *text, size_t size, struct value **ret, unsigned *ret_line,
                struct error *err)
{
    struct reader reader = {.text = text, .size = size};
    cleanup_value struct value *value = NULL;
    *ret_line = 0;
    if (size > SKILL_FRONT_MAX)
        return error_set(err, ERROR_LIMIT, "front matter of more than %u bytes", SKILL_FRONT_MAX);
    if (!yaml_parser_initialize(&reader.parser))
        abort();
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
    int rc = read_stream(&reader, &value, err);
    yaml_parser_delete(&reader.parser);
    *ret_line = reader.line;
    if (rc == 0)
        *ret = steal_ptr(value);
    return rc;
}
