/* SPDX-License-Identifier: Apache-2.0 */
/* The Range header of RFC 9110, section 14: one range of bytes. */
#include "api/range.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Digits at *at, which is moved behind them; more than fit are the largest. */
static bool take_number(const char **at, uint64_t *ret)
{
    const char *p = *at;
    uint64_t value = 0;
    bool over = false;
    for (; *p >= '0' && *p <= '9'; p++) {
        over |= __builtin_mul_overflow(value, 10, &value);
        over |= __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
    }
    if (p == *at)
        return false;
    *at = p;
    *ret = over ? UINT64_MAX - 1 : value;
    return true;
}

struct range range_parse(const char *header)
{
    const struct range none = {.kind = RANGE_NONE};
    struct range range = {.kind = RANGE_SPAN, .last = UINT64_MAX};
    if (!header || strncasecmp(header, "bytes=", 6) != 0)
        return none;
    const char *at = header + 6;
    if (*at == '-') {
        at++;
        range.kind = RANGE_SUFFIX;
        if (!take_number(&at, &range.length))
            return none;
    } else {
        if (!take_number(&at, &range.first) || *at++ != '-')
            return none;
        if (*at && !take_number(&at, &range.last))
            return none;
        if (range.last < range.first)
            return none;
    }
    return *at ? none : range;
}

bool range_resolve(const struct range *range, uint64_t size, uint64_t *ret_offset,
                   uint64_t *ret_length)
{
    uint64_t first = 0;
    uint64_t end = size;
    if (range->kind == RANGE_SPAN) {
        first = range->first;
        if (range->last < size)
            end = range->last + 1;
    } else if (range->kind == RANGE_SUFFIX) {
        first = range->length < size ? size - range->length : 0;
    }
    if (range->kind != RANGE_NONE && (first >= size || end <= first))
        return false;
    *ret_offset = first;
    *ret_length = end - first;
    return true;
}
