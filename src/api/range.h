/* SPDX-License-Identifier: Apache-2.0 */
/* The Range header of RFC 9110, section 14: one range of bytes. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum range_kind {
    RANGE_NONE,   /* none, or one that is not for us: the whole file */
    RANGE_SPAN,   /* from `first` to `last`, or to the end */
    RANGE_SUFFIX, /* the last `length` bytes */
};

struct range {
    enum range_kind kind;
    uint64_t first;
    uint64_t last; /* UINT64_MAX: the end */
    uint64_t length;
};

/* `header` may be NULL. Several ranges, other units and what is malformed are RANGE_NONE, as the
   RFC allows. */
struct range range_parse(const char *header);
/* Offset and length in a file of `size` bytes; false: nothing of it is there (416). */
bool range_resolve(const struct range *range, uint64_t size, uint64_t *ret_offset,
                   uint64_t *ret_length);
