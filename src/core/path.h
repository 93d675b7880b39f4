/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text: normal forms and containment. Nothing here touches the file system. */
#pragma once

#include <stdbool.h>

#include "core/error.h"

/* The normal form of an absolute path: no ".", no doubled or trailing "/". A ".." is refused,
   because what it means depends on links. The caller frees. NULL with `err` set on refusal. */
char *path_normalise(const char *path, struct error *err);

/* Whether `path` is `root` or lies below it; both in normal form. */
bool path_is_below(const char *path, const char *root);
