/* SPDX-License-Identifier: Apache-2.0 */
/* The user's editor on a text, by way of a file that only the user can read. */
#pragma once

#include <stddef.h>

#include "core/error.h"

struct editing {
    char *directory;
    char *path; /* of the file */
};

/* Puts the text into a file called `name`, in a new directory. */
int editing_begin(struct editing *ret, const char *name, const char *text, size_t size,
                  struct error *err);
/* $VISUAL, $EDITOR or vi, until it ends. */
int editing_run(const struct editing *editing, struct error *err);
/* What is there now, at most `max` bytes and a NUL. The caller frees. */
int editing_read(const struct editing *editing, size_t max, char **ret, size_t *ret_size,
                 struct error *err);
/* Removes the file. */
void editing_end(struct editing *editing);
/* Leaves it where it is, and says so as what to do about `err`. Always -1. */
int editing_keep(struct editing *editing, struct error *err);
