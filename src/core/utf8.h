/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: bytes from a stranger made into text that every JSON reader accepts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A copy in which every ill-formed sequence is U+FFFD (one for each maximal part, as the Unicode
   standard recommends). NUL bytes are kept. The caller frees. */
char *utf8_repair(const char *data, size_t size, size_t *ret_size);

/* Length of the well-formed sequence at `data`, or minus the length of the maximal ill-formed part;
   `left` is at least 1. */
int utf8_sequence(const char *data, size_t left);
bool utf8_valid(const char *data, size_t size);
/* How many bytes at the end (0 to 3) begin a sequence that more bytes could complete: to be held
   back by whoever cuts a stream into texts. */
size_t utf8_unfinished(const char *data, size_t size);
/* Python's str.strip(): white space as Unicode has it goes at both ends. Ill-formed bytes are not
   white space. */
void utf8_strip(const char **text, size_t *size);
