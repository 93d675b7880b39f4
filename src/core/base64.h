/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 of RFC 4648, section 4: with padding, without line breaks. No I/O. */
#pragma once

#include <stddef.h>

#include "core/error.h"

/* Characters that `size` bytes become. */
static inline size_t base64_size(size_t size)
{
    return size / 3 * 4 + (size % 3 ? 4 : 0);
}

/* Writes base64_size(size) characters and no NUL. */
void base64_encode(const void *data, size_t size, char *out);

/* The bytes, to be freed by the caller. Padding is needed, the unused bits of the last character
   must be 0, and nothing else may be between or behind: one value has one form. */
int base64_decode(const char *text, size_t size, char **ret, size_t *ret_size, struct error *err);
