/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from strangers: a document with bounds, and its objects decoded by tables of fields. No I/O.

     static const struct field fields[] = {
         {.name = "cmd", .kind = FIELD_TEXT, .offset = offsetof(struct order, command), .max = 100},
         …
     };
     fields_decode(object, &(struct fields){fields, ARRAY_SIZE(fields), &order}, 1, FIELDS_STRICT,
   err)

   The same tables describe the interface (openapi.c), so what is written there is what is done
   here. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

#define JSON_DEPTH_MAX  64
#define JSON_VALUES_MAX 100000 /* jansson makes 40 bytes of a "1,": 16 MiB must not become 300 */

/* Well-formed UTF-8, no duplicate keys, no NUL, nothing deeper or longer than above. */
int json_parse(const char *text, size_t size, json_t **ret, struct error *err);
/* The same bounds, but all that Python's json.loads() takes, for peers that would wait in vain for
   an answer to what is not: of duplicate keys the last counts; strings may have NULs in them (keys
   then have U+0001), and half of a surrogate pair is U+FFFD; numbers beyond 64 bits or a double,
   NaN and the infinities are so large that every range of a field excludes them. */
int json_parse_lax(const char *text, size_t size, json_t **ret, struct error *err);

static inline void json_decref_p(json_t **value)
{
    json_decref(*value);
}
#define cleanup_json __attribute__((cleanup(json_decref_p)))

enum field_kind {
    FIELD_TEXT,   /* char *, owned: what was there is freed */
    FIELD_VIEW,   /* struct json_view: points into the document */
    FIELD_FLAG,   /* bool */
    FIELD_U16,    /* uint16_t */
    FIELD_U32,    /* uint32_t */
    FIELD_U64,    /* uint64_t */
    FIELD_NUMBER, /* double */
    FIELD_CHOICE, /* an enum: the index of the word in `names` */
    FIELD_EITHER, /* bool: the second word of `names` */
    FIELD_TEXTS,  /* struct strings, owned: an array of strings */
    FIELD_ENV,    /* struct strings, owned: an object of strings, as "NAME=value" */
    FIELD_LIST,   /* an array of objects: `items` of `item_size` each, counted at `count_offset` */
    FIELD_OBJECT, /* const json_t *: an object, borrowed */
    FIELD_VALUE,  /* const json_t *: anything, borrowed */
};

enum field_flags {
    FIELD_REQUIRED = 1 << 0,
    FIELD_NULLABLE = 1 << 1, /* null is as good as not being there */
    FIELD_ABSOLUTE = 1 << 2, /* text: begins with "/" */
    FIELD_TRIMMED = 1 << 3,  /* text: white space at both ends goes, before anything is checked */
    FIELD_EXACT = 1 << 4,    /* number: no other type will do, in no mode */
};

struct json_view {
    const char *data; /* NULL: was not there */
    size_t size;
};

struct field {
    const char *name;
    enum field_kind kind;
    unsigned flags;
    size_t offset;
    /* Of a number its range; of a text its bytes; of an array or environment the count. A max of 0
       is none. */
    double min;
    double max;
    const char *const *names; /* NULL at the end */
    const struct field *items;
    size_t item_fields; /* how many `items` there are */
    size_t item_size;
    size_t count_offset;
    /* For the description of the interface: what it is, and what of its form no table checks. */
    const char *about;
    const char *pattern;
};

struct fields {
    const struct field *table;
    size_t count;
    void *target;
};

/* How to take what is not quite right: bits. */
enum fields_mode {
    FIELDS_STRICT = 0,    /* unknown names, other types and numbers out of range are errors */
    FIELDS_LAX = 1 << 0,  /* types are those of lax.h: "1" for 1, 1 for true */
    FIELDS_OPEN = 1 << 1, /* unknown names are passed over */
};

/* Decodes an object whose fields are those of all the tables together. On failure (ERROR_INVALID,
   the field's name in front) the targets hold some of it and are to be released as usual. */
int fields_decode(const json_t *object, const struct fields *tables, size_t count,
                  enum fields_mode mode, struct error *err);
