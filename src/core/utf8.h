/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: bytes from a stranger made into text that every JSON reader accepts. */
#pragma once

#include <stddef.h>

/* A copy in which every ill-formed sequence is U+FFFD (one for each maximal part, as the Unicode
   standard recommends). NUL bytes are kept. The caller frees. */
char *utf8_repair(const char *data, size_t size, size_t *ret_size);
