/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a command: a few fixed variables and what the caller named. No I/O but reading
   the file. */
#pragma once

#include "core/error.h"
#include "core/mem.h"

/* The fixed ones; `term` is NULL for a command without a terminal. */
void environment_init(struct strings *env, const char *term);

/* Sets "K=V"; "K" alone takes the value of `outer` (or nothing, where it has none). A later one
   replaces an earlier one. */
int environment_set(struct strings *env, const char *text, char *const *outer, struct error *err);

/* The text of an environment file as docker has it: "K=V" or "K" a line, nothing is quoted, a line
   that begins with '#' is a comment. */
int environment_parse(struct strings *env, const char *text, size_t size, char *const *outer,
                      struct error *err);
int environment_read(struct strings *env, const char *path, char *const *outer, struct error *err);
