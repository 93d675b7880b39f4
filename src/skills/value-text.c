/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text: as Python's str() and repr() write them, and as YAML. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "skills/scalar.h"
#include "skills/text.h"
#include "skills/value.h"

#define STR_MAX (1u << 20)

const struct value *value_get(const struct value *map, const char *key)
{
    if (!map || map->kind != VALUE_MAP)
        return NULL;
    /* Merged ones come first, so the last is a map's own if there is one. */
    for (size_t i = map->count; i > 0; i -= 2) {
        const struct value *name = map->items[i - 2];
        if (name->kind == VALUE_TEXT && name->size == strlen(key) &&
            memcmp(name->text, key, name->size) == 0)
            return map->items[i - 1];
    }
    return NULL;
}

static void append(struct buf *out, const char *text)
{
    buf_append(out, text, strlen(text));
}

/* Not exactly str.isprintable(), which knows what Unicode has not assigned; near enough. */
static bool is_printable(uint32_t c)
{
    return c >= 0x20 && !(c >= 0x7F && c < 0xA1) && c != 0xAD && (c == ' ' || !text_is_space(c)) &&
           !(c >= 0x200B && c <= 0x200F) && !(c >= 0x202A && c <= 0x202E) &&
           !(c >= 0x2060 && c <= 0x206F) && c != 0xFEFF && !(c >= 0xE000 && c <= 0xF8FF) &&
           !(c >= 0xFFF0 && c <= 0xFFFB) && (c & 0xFFFE) != 0xFFFE && c < 0xE0000;
}

static void escape(struct buf *out, uint32_t c)
{
    char text[12];
    snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    append(out, text);
}

static void repr_text(struct buf *out, const char *text, size_t size)
{
    char quote = memchr(text, '\'', size) && !memchr(text, '"', size) ? '"' : '\'';
    const char *end = text + size;
    buf_append(out, &quote, 1);
    for (const char *at = text; at < end;) {
        const char *here = at;
        uint32_t c = text_next(&at, end);
        const char *known = "\n\r\t\\";
        const char *found = c && c < 0x80 ? strchr(known, (char)c) : NULL;
        if (found) {
            char pair[] = {'\\', "nrt\\"[found - known]};
            buf_append(out, pair, 2);
        } else if (c == (uint32_t)quote) {
            char pair[] = {'\\', quote};
            buf_append(out, pair, 2);
        } else if (is_printable(c)) {
            buf_append(out, here, (size_t)(at - here));
        } else {
            escape(out, c);
        }
    }
    buf_append(out, &quote, 1);
}

/* 1, 1.0 and True are the same key to Python. */
static const char *key_number(const struct value *value, size_t *ret_size)
{
    const char *text = value->text ? value->text : "";
    *ret_size = strlen(text);
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        *ret_size = 1;
        return *text == 'T' ? "1" : "0";
    }
    if (*ret_size > 2 && strcmp(text + *ret_size - 2, ".0") == 0)
        *ret_size -= 2;
    return text;
}

static bool same_key(const struct value *a, const struct value *b)
{
    size_t one = a->size;
    size_t two = b->size;
    if (a->kind != b->kind)
        return false;
    const char *left = a->kind == VALUE_OTHER ? key_number(a, &one) : a->text;
    const char *right = b->kind == VALUE_OTHER ? key_number(b, &two) : b->text;
    return one == two && memcmp(left, right, one) == 0;
}

static int repr(struct buf *out, const struct value *value, struct error *err);

/* A key that comes again keeps its first place and takes its last value. */
static int repr_map(struct buf *out, const struct value *map, struct error *err)
{
    bool first = true;
    for (size_t i = 0; i < map->count; i += 2) {
        size_t last = i;
        bool seen = false;
        for (size_t j = 0; j < map->count; j += 2) {
            if (!same_key(map->items[i], map->items[j]))
                continue;
            seen = seen || j < i;
            last = j > last ? j : last;
        }
        if (seen)
            continue;
        append(out, first ? "" : ", ");
        first = false;
        if (repr(out, map->items[i], err) < 0)
            return -1;
        append(out, ": ");
        if (repr(out, map->items[last + 1], err) < 0)
            return -1;
    }
    return 0;
}

static int repr(struct buf *out, const struct value *value, struct error *err)
{
    switch (value->kind) {
    case VALUE_LIST:
        append(out, "[");
        for (size_t i = 0; i < value->count; i++) {
            append(out, i > 0 ? ", " : "");
            if (repr(out, value->items[i], err) < 0)
                return -1;
        }
        append(out, "]");
        return 0;
    case VALUE_MAP:
        append(out, "{");
        if (repr_map(out, value, err) < 0)
            return -1;
        append(out, "}");
        return 0;
    case VALUE_TEXT:
        repr_text(out, value->text, value->size);
        return 0;
    default:
        if (!value->text)
            return error_set(err, ERROR_INVALID, "a number too long to be written");
        append(out, value->repr ? value->repr : value->text);
        return 0;
    }
}

char *value_str(const struct value *value, size_t *ret_size, struct error *err)
{
    cleanup_buf struct buf out = BUF_INIT(STR_MAX);
    if (value->kind == VALUE_TEXT)
        buf_append(&out, value->text, value->size);
    else if (value->kind == VALUE_LIST || value->kind == VALUE_MAP) {
        if (repr(&out, value, err) < 0)
            return NULL;
    } else if (value->text) {
        append(&out, value->text);
    } else {
        error_set(err, ERROR_INVALID, "a number too long to be written");
        return NULL;
    }
    *ret_size = out.size;
    buf_append(&out, "", 1);
    return steal_ptr(out.data);
}

/* --- YAML --- */

/* Whether text reads back as the same text without quotes, wherever it stands in a block. Stricter
   than it has to be. */
static bool is_plain(const char *text, size_t size)
{
    struct scalar scalar = {0};
    const char *end = text + size;
    if (size == 0 || text[size - 1] == ' ' || text[size - 1] == ':')
        return false;
    for (const char *at = text; at < end;) {
        bool first = at == text;
        uint32_t c = text_next(&at, end);
        if (first ? !text_is_alnum(c) : !is_printable(c))
            return false;
        if (c == ':' && (*at == ' ' || at == end))
            return false;
        if (c == '#' && at[-2] == ' ')
            return false;
    }
    cleanup_free char *copy = xstrndup(text, size);
    bool plain = scalar_resolve(copy, size, &scalar, NULL) == 0 && scalar.kind == SCALAR_TEXT;
    free(scalar.text);
    free(scalar.repr);
    return plain;
}

void value_emit_text(struct buf *out, const char *text, size_t size, bool quoted)
{
    const char *end = text + size;
    if (!quoted && is_plain(text, size)) {
        buf_append(out, text, size);
        return;
    }
    append(out, "\"");
    for (const char *at = text; at < end;) {
        const char *here = at;
        uint32_t c = text_next(&at, end);
        const char *known = "\n\r\t\\\"";
        const char *found = c && c < 0x80 ? strchr(known, (char)c) : NULL;
        if (found) {
            char pair[] = {'\\', "nrt\\\""[found - known]};
            buf_append(out, pair, 2);
        } else if (is_printable(c)) {
            buf_append(out, here, (size_t)(at - here));
        } else {
            escape(out, c);
        }
    }
    append(out, "\"");
}

static void emit_scalar(struct buf *out, const struct value *value)
{
    if (value->kind == VALUE_TEXT)
        value_emit_text(out, value->text, value->size, true);
    else
        append(out, value->raw && *value->raw ? value->raw : "null");
}

void value_emit(struct buf *out, const struct value *value)
{
    if (value->kind != VALUE_LIST && value->kind != VALUE_MAP) {
        emit_scalar(out, value);
        return;
    }
    bool map = value->kind == VALUE_MAP;
    append(out, map ? "{" : "[");
    for (size_t i = 0; i < value->count; i++) {
        append(out, i == 0 ? "" : map && i % 2 == 1 ? ": " : ", ");
        value_emit(out, value->items[i]);
    }
    append(out, map ? "}" : "]");
}
