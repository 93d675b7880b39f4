/* SPDX-License-Identifier: Apache-2.0 */
/* Entity tags of RFC 9110, section 8.8.3: a file's version by its digest. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/sha256.h"
#include "skills/skills.h"

#define ETAG_SIZE (SHA256_HEX_SIZE + 2)

/* A strong one, quotes and all. */
void etag_make(const void *data, size_t size, char ret[ETAG_SIZE]);

/* A header If-Match or If-None-Match: "*" or a list. NULL is none. Of If-Match a weak tag is a
   version that nothing has; with `weak` it is as good as a strong one. */
int etag_parse(const char *header, bool weak, struct skill_versions *ret, struct error *err);
