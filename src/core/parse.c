/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes, durations and near-misses, as people type them. */
#include "core/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define WORD_MAX   64
#define PREFIX_MIN 3

/* A decimal number in thousandths (what is behind the third digit is dropped); moves *at past it.
 */
static int read_milli(const char **at, unsigned __int128 *ret)
{
    const char *p = *at;
    uint64_t whole = 0;
    uint64_t fraction = 0;
    if (*p < '0' || *p > '9')
        return -EINVAL;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
            return -ERANGE;
    }
    if (*p == '.') {
        p++;
        if (*p < '0' || *p > '9')
            return -EINVAL;
        for (uint64_t unit = 100; *p >= '0' && *p <= '9'; p++, unit /= 10)
            fraction += unit * (uint64_t)(*p - '0');
    }
    *ret = (unsigned __int128)whole * 1000 + fraction;
    *at = p;
    return 0;
}

int parse_u64(const char *text, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    if (!*text)
        return -EINVAL;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -EINVAL;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return -ERANGE;
    }
    if (value > max)
        return -ERANGE;
    *ret = value;
    return 0;
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* Thousandths of the unit named by the rest of the text, scaled to whole base units. */
static int read_scaled(const char *text, const struct unit *units, size_t count, uint64_t *ret)
{
    unsigned __int128 milli;
    int rc = read_milli(&text, &milli);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(text, units[i].name) != 0)
            continue;
        unsigned __int128 value = milli * units[i].factor / 1000;
        if (value > INT64_MAX)
            return -ERANGE;
        *ret = (uint64_t)value;
        return 0;
    }
    return -EINVAL;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
    static const struct unit units[] = {
        {"", 1},
        {"b", 1},
        {"k", 1ULL << 10},
        {"kb", 1ULL << 10},
        {"kib", 1ULL << 10},
        {"m", 1ULL << 20},
        {"mb", 1ULL << 20},
        {"mib", 1ULL << 20},
        {"g", 1ULL << 30},
        {"gb", 1ULL << 30},
        {"gib", 1ULL << 30},
        {"t", 1ULL << 40},
        {"tb", 1ULL << 40},
        {"tib", 1ULL << 40},
    };
    return read_scaled(text, units, sizeof units / sizeof units[0], ret_bytes);
}

int parse_duration(const char *text, uint64_t *ret_ms)
{
    static const struct unit units[] = {
        {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000},
    };
    return read_scaled(text, units, sizeof units / sizeof units[0], ret_ms);
}

int parse_milli(const char *text, uint64_t *ret_milli)
{
    unsigned __int128 milli;
    int rc = read_milli(&text, &milli);
    if (rc < 0)
        return rc;
    if (*text)
        return -EINVAL;
    if (milli > INT64_MAX)
        return -ERANGE;
    *ret_milli = (uint64_t)milli;
    return 0;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

static size_t edit_distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    size_t a_length = strnlen(a, WORD_MAX);
    size_t b_length = strnlen(b, WORD_MAX);
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_length];
}

const char *nearest_word(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t length = strnlen(word, WORD_MAX + 1);
    if (length > WORD_MAX)
        return NULL;
    /* At least one letter of what was typed must be in it. */
    size_t best_distance = length / 3 + 2 < length ? length / 3 + 2 : length;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        /* The beginning of a word is as good as a slip in it. */
        if (length >= PREFIX_MIN && strncmp(word, candidates[i], length) == 0)
            distance = 1;
        if (distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}
