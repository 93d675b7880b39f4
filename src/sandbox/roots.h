/* SPDX-License-Identifier: Apache-2.0 */
/* Directories below the allowed roots, looked up by descriptor with no link followed, and made
   where they are missing; and the one kind of file that is read there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "sandbox/policy.h"

#define ROOTS_MADE_MAX 8 /* components that are made for one path */

#define ROOTS_MARKER_PREFIX ".langbot-box-volume-probe-"
#define ROOTS_MARKER_NAME   (sizeof ROOTS_MARKER_PREFIX + 32) /* with its NUL */
#define ROOTS_MARKER_MAX    1024

/* The directory `path` (in normal form) as an O_PATH descriptor: looked up component by component
   from the innermost allowed root above it, which must be there; a link on the way is refused
   (ERROR_DENIED), and so is a path below no root. With `make`, what is missing is made: see
   roots.c. ERROR_NOT_FOUND, ERROR_INVALID (a component is a file). */
int roots_open(const struct mount_policy *policy, const char *path, bool make, struct error *err);

/* Whether it is ROOTS_MARKER_PREFIX and 32 lower-case hex digits. */
bool roots_marker_valid(const char *name);
/* The bytes of such a file in `directory`, a regular one of 1 to ROOTS_MARKER_MAX bytes.
   ERROR_NOT_FOUND; ERROR_DENIED (a link, outside the roots, no permission); ERROR_INVALID. */
int roots_read_marker(const struct mount_policy *policy, const char *directory, const char *name,
                      unsigned char ret[ROOTS_MARKER_MAX], size_t *ret_size, struct error *err);
