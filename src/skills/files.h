/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of a skill's files, as clients give them. */
#pragma once

#include "core/error.h"

/* The normal form of a path that a client gave; NULL if it cannot lie in a package. The caller
   frees. */
char *file_normal_path(const char *path, struct error *err);
/* What -errno of a path means to a client. Always -1. */
int file_path_error(struct error *err, int rc, const char *path);
