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

/* Letters put in, left out, changed, or changed places with the next. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t a_length = strnlen(a, WORD_MAX);
    size_t b_length = strnlen(b, WORD_MAX);
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i < 2 || j < 2 || a[i - 1] != b[j - 2] || a[i - 2] != b[j - 1])
                continue;
            size_t swapped = rows[(i - 2) % 3][j - 2] + 1;
            row[j] = swapped < row[j] ? swapped : row[j];
        }
    }
    return rows[a_length % 3][b_length];
}

/* What is called so in one place, and so in another. */
static const char *other_word(const char *word)
{
    static const char *const words[][2] = {{"cmd", "command"}, {"cwd", "workdir"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (size_t side = 0; side < 2; side++) {
            if (strcmp(words[i][side], word) == 0)
                return words[i][1 - side];
        }
    }
    return NULL;
}

const char *nearest_word(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    const char *other = other_word(word);
    size_t length = strnlen(word, WORD_MAX + 1);
    if (length > WORD_MAX)
        return NULL;
    /* One slip in each three letters; and of a single letter nothing would be left. */
    size_t slips = length < 6 ? 1 : length / 3;
    size_t best_distance = length < 2 ? 1 : slips + 1;
    for (size_t i = 0; i < count; i++) {
        if (other && strcmp(candidates[i], other) == 0)
            return candidates[i];
        size_t distance = edit_distance(word, candidates[i]);
        /* The beginning of a word is as good as a slip in it. */
        if (distance > 1 && length >= PREFIX_MIN && strncmp(word, candidates[i], length) == 0)
            distance = 1;
        if (distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}
