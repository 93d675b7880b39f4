/* SPDX-License-Identifier: Apache-2.0 */
/* SKILL.md as text: front matter between two lines of "---", then instructions. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "skills/value.h"

/* Where the parts are. Without front matter everything is instructions. */
struct front_parts {
    bool present;
    size_t yaml;         /* where the YAML begins, behind the first line */
    size_t closing;      /* the line that closes it */
    size_t body;         /* behind that line */
    size_t instructions; /* behind the empty lines there */
    unsigned yaml_line;  /* from 0 */
};

void front_split(const char *text, size_t size, struct front_parts *ret);

/* What a skill is made of, from its SKILL.md. */
struct front {
    struct front_parts parts;
    struct value *meta; /* NULL: none, or it is no mapping */
    char *name;         /* stripped; the directory's if none is given */
    char *display_name; /* likewise; the name if none is given */
    char *description;  /* likewise; may be empty */
};

/* `dir_name` is NUL-terminated and may be anything. */
int front_read(const char *text, size_t size, const char *dir_name, struct front *ret,
               struct error *err);
/* The same whatever its name is: for who is about to give it another. */
int front_read_any(const char *text, size_t size, const char *dir_name, struct front *ret,
                   struct error *err);
void front_release(struct front *front);
#define cleanup_front __attribute__((cleanup(front_release)))

/* What SKILL.md is to say. Blank ones are left out; of the instructions NULL is what is there. */
struct front_edit {
    const char *name;
    const char *display_name;
    const char *description;
    const char *instructions;
};

/* A new text from the old one (NULL: there is none): only the lines of fields that differ change,
   and what else is in the front matter stays as it is. If the text does not allow that, the front
   matter is written anew, with all its keys, in their order, without its comments. The caller
   frees. */
int front_write(const char *text, size_t size, const struct front_edit *edit, char **ret,
                size_t *ret_size, struct error *err);
