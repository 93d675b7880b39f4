/* SPDX-License-Identifier: Apache-2.0 */
/* What front matter says, as a tree: the safe subset of YAML, typed as Python has it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/error.h"

enum value_kind {
    VALUE_TEXT,  /* a scalar that is text */
    VALUE_OTHER, /* a scalar of another type */
    VALUE_NULL,
    VALUE_MERGE, /* only while a tree is made */
    VALUE_DEFAULT,
    VALUE_LIST,
    VALUE_MAP,
};

struct value {
    enum value_kind kind;
    bool truthy;
    bool plain;           /* a scalar without quotes */
    bool flow;            /* a collection in brackets */
    bool merged;          /* a map's key that came in by "<<" */
    char *text;           /* str() of a scalar; NULL: Python refuses to write it */
    size_t size;          /* a text may hold NULs */
    char *repr;           /* of a scalar; NULL: as the text, in quotes if it is VALUE_TEXT */
    char *raw;            /* a scalar as it is in the source, quotes off; NULL: as the text */
    unsigned line;        /* from 0 */
    size_t column;        /* in characters */
    size_t start;         /* in bytes of the source */
    size_t end;           /* behind the last byte that belongs to it */
    struct value **items; /* of a map: keys and values in turns */
    size_t count;
};

/* Well-formed UTF-8; no anchors, aliases or tags; not deeper than SKILL_FRONT_DEPTH. NULL in `ret`
   for no document at all. On failure `ret_line` (from 0) is where. */
int value_parse(const char *text, size_t size, struct value **ret, unsigned *ret_line,
                struct error *err);
void value_free(struct value *value);
static inline void value_free_p(struct value **value)
{
    value_free(*value);
}
#define cleanup_value __attribute__((cleanup(value_free_p)))

/* dict.get(): the last of a name counts, and a map's own before merged ones. NULL: none. */
const struct value *value_get(const struct value *map, const char *key);
/* str() of it. The caller frees. NULL with `err`: there is none. */
char *value_str(const struct value *value, size_t *ret_size, struct error *err);
/* As YAML on one line that reads back as the same. */
void value_emit(struct buf *out, const struct value *value);
/* A text, quoted if it has to be, or always. */
void value_emit_text(struct buf *out, const char *text, size_t size, bool quoted);
