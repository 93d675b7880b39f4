/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of writing SKILL.md. */
#pragma once

#include "core/buf.h"
#include "skills/value.h"

#define FRONT_FIELDS  3
#define FRONT_OUT_MAX (4u << 20)

extern const char *const front_keys[FRONT_FIELDS];

struct front_writer {
    const char *text; /* the YAML */
    size_t size;
    const struct value *meta; /* what it says; NULL: nothing */
    const char *eol;
    char *wanted[FRONT_FIELDS]; /* "": not to be there */
    bool change[FRONT_FIELDS];
};

bool front_is_field(const struct value *key, const char *name);
size_t front_count_fields(const struct value *map, const char *name);

/* The text with what is to change changed where it stands, hopefully. */
void front_patch(const struct front_writer *writer, struct buf *out);
