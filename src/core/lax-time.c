/* SPDX-License-Identifier: Apache-2.0 */
/* Values of JSON as pydantic's lax mode takes them: moments. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/lax.h"
#include "core/mem.h"

#define SECOND_US 1000000ll
#define FIRST_US  (-62135596800ll * SECOND_US)                 /* 0001-01-01 */
#define LAST_US   (253402300799ll * SECOND_US + SECOND_US - 1) /* 9999-12-31 */

/* A timestamp above this is in milliseconds: in seconds it would be the year 2603. */
#define SECONDS_MAX 20000000000ll

struct cursor {
    const char *at;
    const char *end;
};

static bool take(struct cursor *cursor, const char *any_of)
{
    if (cursor->at == cursor->end || !*cursor->at || !strchr(any_of, *cursor->at))
        return false;
    cursor->at++;
    return true;
}

static bool take_number(struct cursor *cursor, int digits, int min, int max, int *ret)
{
    int number = 0;
    for (int i = 0; i < digits; i++) {
        const char *digit = cursor->at;
        if (!take(cursor, "0123456789"))
            return false;
        number = number * 10 + (*digit - '0');
    }
    *ret = number;
    return number >= min && number <= max;
}

static bool take_date(struct cursor *cursor, struct tm *ret)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!take_number(cursor, 4, 1, 9999, &year) || !take(cursor, "-") ||
        !take_number(cursor, 2, 1, 12, &month) || !take(cursor, "-") ||
        !take_number(cursor, 2, 1, 31, &day))
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    ret->tm_year = year - 1900;
    ret->tm_mon = month - 1;
    ret->tm_mday = day;
    return day <= month_days[month - 1] + (month == 2 && leap);
}

/* Behind the sixth digit there may be more, which do not count. */
static bool take_fraction(struct cursor *cursor, int64_t *ret_us)
{
    int64_t unit = SECOND_US / 10;
    const char *first = cursor->at;
    for (int digit; take_number(cursor, 1, 0, 9, &digit); unit /= 10)
        *ret_us += digit * unit;
    return cursor->at > first;
}

static bool take_clock(struct cursor *cursor, struct tm *ret, int64_t *ret_us)
{
    if (!take_number(cursor, 2, 0, 23, &ret->tm_hour) || !take(cursor, ":") ||
        !take_number(cursor, 2, 0, 59, &ret->tm_min))
        return false;
    if (!take(cursor, ":"))
        return true;
    if (!take_number(cursor, 2, 0, 59, &ret->tm_sec))
        return false;
    return !take(cursor, ".,") || take_fraction(cursor, ret_us);
}

static bool take_zone(struct cursor *cursor, int64_t *ret_seconds)
{
    static const char minus[] = "\xE2\x88\x92"; /* U+2212, as ISO 8601 would have it */
    int hours, minutes, sign;
    if (take(cursor, "Zz"))
        return true;
    if (take(cursor, "+")) {
        sign = 1;
    } else if (take(cursor, "-")) {
        sign = -1;
    } else if (cursor->end - cursor->at >= 3 && memcmp(cursor->at, minus, 3) == 0) {
        cursor->at += 3;
        sign = -1;
    } else {
        return false;
    }
    if (!take_number(cursor, 2, 0, 23, &hours))
        return false;
    take(cursor, ":");
    if (!take_number(cursor, 2, 0, 59, &minutes))
        return false;
    *ret_seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

static int check_range(int64_t us, int64_t *ret_us)
{
    if (us < FIRST_US || us > LAST_US)
        return -ERANGE;
    *ret_us = us;
    return 0;
}

static int iso_time(const char *text, size_t size, int64_t *ret_us)
{
    struct cursor cursor = {text, text + size};
    struct tm tm = {0};
    int64_t us = 0;
    int64_t offset = 0;
    if (!take_date(&cursor, &tm) || !take(&cursor, "Tt _") || !take_clock(&cursor, &tm, &us) ||
        !take_zone(&cursor, &offset) || cursor.at != cursor.end)
        return -EINVAL;
    return check_range(((int64_t)timegm(&tm) - offset) * SECOND_US + us, ret_us);
}

static int whole_timestamp(int64_t number, int64_t *ret_us)
{
    int64_t us;
    int64_t unit = number >= -SECONDS_MAX && number <= SECONDS_MAX ? SECOND_US : SECOND_US / 1000;
    if (__builtin_mul_overflow(number, unit, &us))
        return -ERANGE;
    return check_range(us, ret_us);
}

static int real_timestamp(double number, int64_t *ret_us)
{
    int64_t unit = fabs(number) <= (double)SECONDS_MAX ? SECOND_US : SECOND_US / 1000;
    if (fabs(number) > (double)LAST_US / (double)unit)
        return -ERANGE;
    int64_t whole = (int64_t)number;
    whole -= (double)whole > number;
    double rest = (number - (double)whole) * (double)unit;
    return check_range(whole * unit + (int64_t)(rest + 0.5), ret_us);
}

/* Whole, or with a point: an exponent alone makes no timestamp. */
static int text_timestamp(const char *text, size_t size, int64_t *ret_us)
{
    size_t digits = size > 0 && (text[0] == '-' || text[0] == '+');
    while (digits < size && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    if (digits == size) {
        cleanup_free char *number = xstrndup(text, size);
        char *end;
        errno = 0;
        long long whole = strtoll(number, &end, 10);
        return end == number || errno != 0 ? -EINVAL : whole_timestamp(whole, ret_us);
    }
    double number;
    if (text[digits] != '.' || lax_decimal(text, size, &number) < 0)
        return -EINVAL;
    return real_timestamp(number, ret_us);
}

int lax_time(const json_t *value, int64_t *ret_us)
{
    switch (json_typeof(value)) {
    case JSON_STRING:;
        const char *text = json_string_value(value);
        size_t size = json_string_length(value);
        int rc = iso_time(text, size, ret_us);
        return rc == -EINVAL ? text_timestamp(text, size, ret_us) : rc;
    case JSON_INTEGER:
        return whole_timestamp(json_integer_value(value), ret_us);
    case JSON_REAL:
        return real_timestamp(json_real_value(value), ret_us);
    default:
        return -EINVAL;
    }
}
