/* SPDX-License-Identifier: Apache-2.0 */
/* Text as Python's str has it: LangBot's store is written in Python, and what it calls a line,
   white space, a letter or a normal path decides what a skill is called. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/error.h"

/* The character at `*at`, which moves on; U+FFFD for what is not UTF-8. */
uint32_t text_next(const char **at, const char *end);
void text_put(struct buf *buf, uint32_t character);
size_t text_length(const char *text, size_t size); /* in characters */

bool text_is_space(uint32_t character);
bool text_is_alnum(uint32_t character);

/* str.strip(): both ends move. */
void text_strip(const char **text, size_t *size);
char *text_stripped(const char *text);

/* str.splitlines(): where the line at `at` ends, and in `ret_next` where the next one begins. */
size_t text_line_end(const char *text, size_t size, size_t at, size_t *ret_next);

/* posixpath.normpath(). The caller frees. */
char *text_normpath(const char *path);
/* What Python's store does to every path in an archive that a client names: white space off, '\' to
   '/', '/' off at both ends. The caller frees. */
char *text_archive_path(const char *path);

/* Whether a skill may be called so; `name` is stripped already. */
int text_check_name(const char *name, size_t size, struct error *err);

/* A printable extract of what a stranger wrote, for messages. */
#define TEXT_SHOWN_SIZE 120
const char *text_shown(const char *text, char ret[TEXT_SHOWN_SIZE]);
/* Adds such an extract to a list of them, behind a comma; once it is full, dots. */
#define TEXT_LIST_SIZE 256
void text_list_add(char list[TEXT_LIST_SIZE], const char *text);
