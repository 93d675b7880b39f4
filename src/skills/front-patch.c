/* SPDX-License-Identifier: Apache-2.0 */
/* Front matter changed in place: values are replaced where they stand, by the offsets that the
   parser gave, and lines are added and taken out around them. */
#include <stdint.h>
#include <string.h>

#include "core/mem.h"
#include "skills/front-internal.h"
#include "skills/text.h"

static void append(struct buf *out, const char *text)
{
    buf_append(out, text, strlen(text));
}

/* The last of that name that is the map's own: its index, or `count` if there is none. */
static size_t find_own(const struct value *map, const char *name)
{
    for (size_t i = map ? map->count : 0; i > 0; i -= 2) {
        if (front_is_field(map->items[i - 2], name) && !map->items[i - 2]->merged)
            return i - 2;
    }
    return map ? map->count : 0;
}

/* A piece of the text and what comes instead of it. */
struct patch {
    size_t start;
    size_t end;
    struct buf text;
};

/* Behind the line break that ends what ends at `end`. */
static size_t after_line(const struct front_writer *writer, size_t end)
{
    size_t next;
    if (end > 0 && (writer->text[end - 1] == '\n' || writer->text[end - 1] == '\r'))
        return end;
    text_line_end(writer->text, writer->size, end, &next);
    return next;
}

static size_t line_start(const struct front_writer *writer, size_t at)
{
    while (at > 0 && writer->text[at - 1] != '\n' && writer->text[at - 1] != '\r')
        at--;
    return at;
}

/* The value at `at`, behind its key. One that begins on a later line is drawn up to the key. */
static void replace_value(const struct front_writer *writer, size_t field, size_t at, bool quoted,
                          struct patch *patch)
{
    const struct value *key = writer->meta->items[at];
    const struct value *value = writer->meta->items[at + 1];
    const char *wanted = writer->wanted[field];
    size_t gap = value->start > key->end ? value->start - key->end : 0;
    const char *colon = memchr(writer->text + key->end, ':', gap);
    patch->start = value->start;
    patch->end = value->end;
    if (value->line > key->line && colon)
        patch->start = (size_t)(colon + 1 - writer->text);
    if (patch->start > 0 && writer->text[patch->start - 1] == ':')
        append(&patch->text, " ");
    value_emit_text(&patch->text, wanted, strlen(wanted), quoted);
    /* A block scalar takes its last line break with it. */
    if (value->end > value->start && (writer->text[value->end - 1] == '\n'))
        append(&patch->text, writer->eol);
}

/* Behind the fields that come before it, or before everything. */
static void insert_line(const struct front_writer *writer, size_t field, struct patch *patch)
{
    const struct value *map = writer->meta;
    size_t indent = map->count > 0 ? map->items[0]->column : 0;
    patch->start = map->count > 0 ? line_start(writer, map->items[0]->start) : writer->size;
    for (size_t i = 0; i < field; i++) {
        size_t at = find_own(map, front_keys[i]);
        if (at < map->count)
            patch->start = after_line(writer, map->items[at + 1]->end);
    }
    patch->end = patch->start;
    if (patch->start > 0 && patch->start == writer->size &&
        writer->text[patch->start - 1] != '\n' && writer->text[patch->start - 1] != '\r')
        append(&patch->text, writer->eol);
    for (size_t i = 0; i < indent; i++)
        append(&patch->text, " ");
    append(&patch->text, front_keys[field]);
    append(&patch->text, ": ");
    value_emit_text(&patch->text, writer->wanted[field], strlen(writer->wanted[field]), false);
    append(&patch->text, writer->eol);
}

static void insert_in_braces(const struct front_writer *writer, size_t field, struct patch *patch)
{
    patch->start = patch->end = writer->meta->start + 1;
    append(&patch->text, front_keys[field]);
    append(&patch->text, ": ");
    value_emit_text(&patch->text, writer->wanted[field], strlen(writer->wanted[field]), true);
    append(&patch->text, writer->meta->count > 0 ? ", " : "");
}

static void make_patch(const struct front_writer *writer, size_t field, struct patch *patch)
{
    const struct value *map = writer->meta;
    size_t at = find_own(map, front_keys[field]);
    bool there = at < map->count;
    bool wanted = *writer->wanted[field];
    if (there && !wanted && !map->flow && front_count_fields(map, front_keys[field]) == 1) {
        patch->start = line_start(writer, map->items[at]->start);
        patch->end = after_line(writer, map->items[at + 1]->end);
    } else if (there) {
        replace_value(writer, field, at, map->flow || !wanted, patch);
    } else if (map->flow) {
        insert_in_braces(writer, field, patch);
    } else {
        insert_line(writer, field, patch);
    }
}

/* By where they begin, and where they touch in the order in which they were made. */
static void sort_patches(struct patch *patches, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && patches[j].start < patches[j - 1].start; j--) {
            struct patch moved = patches[j];
            patches[j] = patches[j - 1];
            patches[j - 1] = moved;
        }
    }
}

static void apply_patches(const struct front_writer *writer, const struct patch *patches,
                          size_t count, struct buf *out)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (patches[i].start > at)
            buf_append(out, writer->text + at, patches[i].start - at);
        buf_append(out, patches[i].text.data, patches[i].text.size);
        at = patches[i].end > at ? patches[i].end : at;
    }
    buf_append(out, writer->text + at, writer->size - at);
}

void front_patch(const struct front_writer *writer, struct buf *out)
{
    struct patch patches[FRONT_FIELDS];
    size_t count = 0;
    for (size_t i = 0; i < FRONT_FIELDS; i++) {
        if (!writer->change[i])
            continue;
        patches[count] = (struct patch){.text = BUF_INIT(FRONT_OUT_MAX)};
        make_patch(writer, i, &patches[count++]);
    }
    sort_patches(patches, count);
    apply_patches(writer, patches, count, out);
    for (size_t i = 0; i < count; i++)
        buf_release(&patches[i].text);
}
