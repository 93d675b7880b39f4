/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes, durations and near-misses, as people type them. No I/O. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Each returns 0, or -EINVAL / -ERANGE with *ret untouched. The whole text must be consumed. */
int parse_u64(const char *text, uint64_t max, uint64_t *ret);

/* "64M", "1.5G", "4096": bytes, binary units K, M, G, T with an optional "B" or "iB". */
int parse_size(const char *text, uint64_t *ret_bytes);

/* "10", "1.5", "250ms", "10s", "2m", "1h": milliseconds; a bare number is seconds. */
int parse_duration(const char *text, uint64_t *ret_ms);

/* "0.5": thousandths. */
int parse_milli(const char *text, uint64_t *ret_milli);

/* The candidate nearest to `word` by edit distance, or that is another word for it; NULL if none is
   near enough to be meant. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);
