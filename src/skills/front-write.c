/* SPDX-License-Identifier: Apache-2.0 */
/* SKILL.md written: the old text with the fewest bytes changed. Whether a change in place came out
   as meant is not argued but tried: the new text is read back, and if it does not say exactly what
   it should, the front matter is built anew from the tree. */
#include "skills/front.h"

#include <string.h>

#include "core/mem.h"
#include "skills/front-internal.h"
#include "skills/skills.h"
#include "skills/text.h"

const char *const front_keys[FRONT_FIELDS] = {"name", "display_name", "description"};

static void append(struct buf *out, const char *text)
{
    buf_append(out, text, strlen(text));
}

bool front_is_field(const struct value *key, const char *name)
{
    return key->kind == VALUE_TEXT && key->size == strlen(name) &&
           memcmp(key->text, name, key->size) == 0;
}

size_t front_count_fields(const struct value *map, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; map && i < map->count; i += 2)
        count += front_is_field(map->items[i], name);
    return count;
}

/* Whether the field says something else than it should. */
static int compare_field(const struct value *meta, const char *key, const char *wanted,
                         bool *ret_differs, struct error *err)
{
    const struct value *value = value_get(meta, key);
    size_t size = 0;
    if (!value || !value->truthy) {
        *ret_differs = *wanted != '\0';
        return 0;
    }
    cleanup_free char *whole = value_str(value, &size, err);
    if (!whole)
        return -1;
    const char *text = whole;
    text_strip(&text, &size);
    const char *goal = wanted;
    size_t goal_size = strlen(wanted);
    text_strip(&goal, &goal_size);
    *ret_differs = size != goal_size || memcmp(text, goal, size) != 0;
    return 0;
}

/* --- anew --- */

static void emit_field(const struct front_writer *writer, size_t field, struct buf *out)
{
    if (!*writer->wanted[field])
        return;
    append(out, front_keys[field]);
    append(out, ": ");
    value_emit_text(out, writer->wanted[field], strlen(writer->wanted[field]), false);
    append(out, writer->eol);
}

static size_t field_of(const struct value *key)
{
    size_t field = 0;
    while (field < FRONT_FIELDS && !front_is_field(key, front_keys[field]))
        field++;
    return field;
}

static void build_anew(const struct front_writer *writer, struct buf *out)
{
    const struct value *map = writer->meta;
    bool done[FRONT_FIELDS] = {false};
    for (size_t i = 0; i < FRONT_FIELDS; i++) {
        if (front_count_fields(map, front_keys[i]) == 0) {
            emit_field(writer, i, out);
            done[i] = true;
        }
    }
    for (size_t i = 0; map && i < map->count; i += 2) {
        size_t field = field_of(map->items[i]);
        if (field < FRONT_FIELDS) {
            if (!done[field])
                emit_field(writer, field, out);
            done[field] = true;
            continue;
        }
        if (map->items[i]->kind == VALUE_TEXT)
            value_emit_text(out, map->items[i]->text, map->items[i]->size, false);
        else
            value_emit(out, map->items[i]);
        append(out, ": ");
        value_emit(out, map->items[i + 1]);
        append(out, writer->eol);
    }
}

/* --- trying it --- */

/* Whether everything but the fields is the same, in the same order. */
static bool same_rest(const struct value *a, const struct value *b)
{
    cleanup_buf struct buf one = BUF_INIT(FRONT_OUT_MAX);
    cleanup_buf struct buf two = BUF_INIT(FRONT_OUT_MAX);
    const struct value *maps[] = {a, b};
    struct buf *outs[] = {&one, &two};
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; maps[side] && i < maps[side]->count; i += 2) {
            if (field_of(maps[side]->items[i]) < FRONT_FIELDS)
                continue;
            value_emit(outs[side], maps[side]->items[i]);
            append(outs[side], ": ");
            value_emit(outs[side], maps[side]->items[i + 1]);
            append(outs[side], "\n");
        }
    }
    return one.size == two.size && (one.size == 0 || memcmp(one.data, two.data, one.size) == 0);
}

/* Whether it can stand between two fences: whole lines, and none of them a fence. */
static bool can_be_fenced(const char *yaml, size_t size)
{
    for (size_t at = 0, next; at < size; at = next) {
        const char *text = yaml + at;
        size_t length = text_line_end(yaml, size, at, &next) - at;
        text_strip(&text, &length);
        if (length == 3 && memcmp(text, "---", 3) == 0)
            return false;
    }
    return size == 0 || yaml[size - 1] == '\n' || yaml[size - 1] == '\r';
}

static bool says_what_it_should(const struct front_writer *writer, const struct buf *out)
{
    cleanup_value struct value *meta = NULL;
    const char *yaml = out->data ? out->data : "";
    unsigned line;
    if (value_parse(yaml, out->size, &meta, &line, NULL) < 0)
        return false;
    if (meta && meta->kind != VALUE_MAP)
        return false;
    for (size_t i = 0; i < FRONT_FIELDS; i++) {
        bool differs = true;
        if (compare_field(meta, front_keys[i], writer->wanted[i], &differs, NULL) < 0 || differs)
            return false;
    }
    return can_be_fenced(yaml, out->size) && same_rest(writer->meta, meta);
}

static int write_yaml(struct front_writer *writer, struct buf *out, struct error *err)
{
    bool any = false;
    for (size_t i = 0; i < FRONT_FIELDS; i++)
        any = any || writer->change[i];
    if (!any) {
        buf_append(out, writer->text, writer->size);
        return 0;
    }
    if (writer->meta) {
        front_patch(writer, out);
        if (says_what_it_should(writer, out))
            return 0;
        out->size = 0;
    }
    build_anew(writer, out);
    if (out->size > SKILL_FRONT_MAX)
        return error_set(err, ERROR_LIMIT, "the front matter would be larger than %u bytes",
                         SKILL_FRONT_MAX);
    if (!says_what_it_should(writer, out))
        return error_set(err, ERROR_INVALID, "these values cannot be written as front matter");
    return 0;
}

/* --- the whole file --- */

static void settle_wanted(struct front_writer *writer, const struct front_edit *edit)
{
    const char *given[FRONT_FIELDS] = {edit->name, edit->display_name, edit->description};
    for (size_t i = 0; i < FRONT_FIELDS; i++) {
        const char *text = given[i] ? given[i] : "";
        size_t size = strlen(text);
        const char *start = text;
        text_strip(&start, &size);
        writer->wanted[i] = xstrdup(size > 0 ? text : "");
    }
    /* That is what it says without being there. */
    if (front_count_fields(writer->meta, front_keys[1]) == 0 &&
        strcmp(writer->wanted[1], writer->wanted[0]) == 0)
        writer->wanted[1][0] = '\0';
}

/* How lines end in a text: as its first one does. */
static const char *line_end_of(const char *text, size_t size)
{
    const char *feed = size > 0 ? memchr(text, '\n', size) : NULL;
    return feed && feed > text && feed[-1] == '\r' ? "\r\n" : "\n";
}

/* Whatever comes behind the closing line. */
static void write_body(const char *text, size_t size, const struct front_parts *parts,
                       const struct front_writer *writer, const struct front_edit *edit,
                       struct buf *out)
{
    size_t from = parts->present ? parts->instructions : 0;
    size_t length = edit->instructions ? strlen(edit->instructions) : 0;
    bool same = !edit->instructions ||
                (length == size - from && memcmp(edit->instructions, text + from, length) == 0);
    if (parts->present && same) {
        buf_append(out, text + parts->body, size - parts->body);
        return;
    }
    /* An empty line, which readers skip; but they skip no empty line of the other kind. */
    if (strcmp(writer->eol, "\n") == 0)
        append(out, "\n");
    if (same)
        buf_append(out, text + from, size - from);
    else
        buf_append(out, edit->instructions, length);
}

static int write_file(const char *text, size_t size, const struct front_parts *parts,
                      struct front_writer *writer, const struct front_edit *edit, struct buf *out,
                      struct error *err)
{
    cleanup_buf struct buf yaml = BUF_INIT(FRONT_OUT_MAX);
    if (write_yaml(writer, &yaml, err) < 0)
        return -1;
    if (parts->present) {
        buf_append(out, text, parts->yaml);
    } else {
        append(out, "---");
        append(out, writer->eol);
    }
    buf_append(out, yaml.data, yaml.size);
    size_t closing = parts->present ? parts->body - parts->closing : 0;
    buf_append(out, text + parts->closing, closing);
    if (!parts->present)
        append(out, "---");
    size_t next;
    if (!parts->present || text_line_end(text, size, parts->closing, &next) == next)
        append(out, writer->eol);
    write_body(text, size, parts, writer, edit, out);
    if (out->size > SKILL_TEXT_MAX)
        return error_set(err, ERROR_LIMIT, "SKILL.md would be larger than %u bytes",
                         SKILL_TEXT_MAX);
    return 0;
}

int front_write(const char *text, size_t size, const struct front_edit *edit, char **ret,
                size_t *ret_size, struct error *err)
{
    struct front_parts parts;
    cleanup_value struct value *meta = NULL;
    cleanup_buf struct buf out = BUF_INIT(FRONT_OUT_MAX);
    unsigned line;
    int rc = 0;
    text = text ? text : "";
    front_split(text, size, &parts);
    struct front_writer writer = {.text = text + parts.yaml,
                                  .size = parts.closing - parts.yaml,
                                  .eol = line_end_of(text, size)};
    if (parts.present && value_parse(writer.text, writer.size, &meta, &line, err) < 0)
        return error_wrap(err, "line %u", line + parts.yaml_line + 1);
    writer.meta = meta && meta->kind == VALUE_MAP ? meta : NULL;
    settle_wanted(&writer, edit);
    for (size_t i = 0; i < FRONT_FIELDS && rc == 0; i++)
        rc = compare_field(writer.meta, front_keys[i], writer.wanted[i], &writer.change[i], err);
    if (rc == 0)
        rc = write_file(text, size, &parts, &writer, edit, &out, err);
    for (size_t i = 0; i < FRONT_FIELDS; i++)
        free(writer.wanted[i]);
    if (rc < 0)
        return -1;
    *ret_size = out.size;
    buf_append(&out, "", 1);
    *ret = steal_ptr(out.data);
    return 0;
}
