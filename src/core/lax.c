/* SPDX-License-Identifier: Apache-2.0 */
/* Values of JSON as pydantic's lax mode takes them: numbers and flags. Its rules for texts are no
   grammar one would think of, and not the same for whole and other numbers: the property test in
   tests/conformance/langbot holds both side by side. */
#include "core/lax.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"
#include "core/utf8.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* White space around a number goes. Four separators are that to Python, but not to pydantic; none
   of them is in any number. */
static bool trim_number(const char **text, size_t *size)
{
    for (size_t i = 0; i < *size; i++) {
        if ((*text)[i] >= 0x1C && (*text)[i] <= 0x1F)
            return false;
    }
    utf8_strip(text, size);
    return true;
}

/* Digits, and single underscores between them. */
static int read_digits(const char *at, const char *end, bool negative, int64_t *ret)
{
    int64_t value = 0;
    bool beyond = false;
    if (at == end)
        return -EINVAL;
    for (const char *p = at; p < end; p++) {
        if (*p == '_' && p > at && p + 1 < end && p[1] != '_')
            continue;
        if (!is_digit(*p))
            return -EINVAL;
        int digit = negative ? '0' - *p : *p - '0';
        beyond = beyond || __builtin_mul_overflow(value, 10, &value) ||
                 __builtin_add_overflow(value, digit, &value);
    }
    if (beyond)
        return -ERANGE;
    *ret = value;
    return 0;
}

/* Zeros in front go, with as many underscores among them as there are; and so does a fraction of
   zeros. */
static int text_integer(const char *text, size_t size, int64_t *ret)
{
    if (!trim_number(&text, &size))
        return -EINVAL;
    const char *end = text + size;
    bool negative = text < end && *text == '-';
    text += text < end && (*text == '-' || *text == '+');
    if (text == end || !is_digit(*text))
        return -EINVAL;
    if (*text == '0') {
        while (text < end && (*text == '0' || *text == '_'))
            text++;
        if (text == end || *text == '.')
            text--;
    }
    const char *point = memchr(text, '.', (size_t)(end - text));
    if (point) {
        if (point + 1 == end)
            return -EINVAL;
        for (const char *p = point + 1; p < end; p++) {
            if (*p != '0')
                return -EINVAL;
        }
        end = point;
    }
    return read_digits(text, end, negative, ret);
}

static int real_integer(double number, int64_t *ret)
{
    if (number <= (double)INT64_MIN || number >= -(double)INT64_MIN)
        return -ERANGE;
    int64_t whole = (int64_t)number;
    if ((double)whole != number)
        return -EINVAL;
    *ret = whole;
    return 0;
}

int lax_integer(const json_t *value, int64_t *ret)
{
    switch (json_typeof(value)) {
    case JSON_INTEGER:
        *ret = json_integer_value(value);
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        *ret = json_is_true(value);
        return 0;
    case JSON_REAL:
        return real_integer(json_real_value(value), ret);
    case JSON_STRING:
        return text_integer(json_string_value(value), json_string_length(value), ret);
    default:
        return -EINVAL;
    }
}

static size_t count_digits(const char *at)
{
    return strspn(at, "0123456789");
}

/* strtod() takes more: hexadecimal digits, words, white space. */
int lax_decimal(const char *text, size_t size, double *ret)
{
    cleanup_free char *number = xstrndup(text, size);
    const char *at = number + (*number == '-' || *number == '+');
    size_t digits = count_digits(at);
    at += digits;
    if (*at == '.') {
        digits += count_digits(at + 1);
        at += 1 + count_digits(at + 1);
    }
    if (digits == 0)
        return -EINVAL;
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '-' || at[1] == '+');
        if (count_digits(at) == 0)
            return -EINVAL;
        at += count_digits(at);
    }
    /* Also where a NUL ended it too early. */
    if ((size_t)(at - number) != size)
        return -EINVAL;
    double value = strtod(number, NULL);
    if (!isfinite(value))
        return -EINVAL;
    *ret = value;
    return 0;
}

/* Single underscores are passed over wherever they are but at the ends. */
static int number_with_underscores(const char *text, size_t size, double *ret)
{
    cleanup_free char *number = xmalloc(size + 1);
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '_')
            number[used++] = text[i];
        else if (i == 0 || i + 1 == size || text[i + 1] == '_')
            return -EINVAL;
    }
    return lax_decimal(number, used, ret);
}

static int text_number(const char *text, size_t size, double *ret)
{
    const char *trimmed = text;
    size_t trimmed_size = size;
    if (trim_number(&trimmed, &trimmed_size) && lax_decimal(trimmed, trimmed_size, ret) == 0)
        return 0;
    /* Not trimmed: white space or underscores, not both. */
    return number_with_underscores(text, size, ret);
}

int lax_number(const json_t *value, double *ret)
{
    switch (json_typeof(value)) {
    case JSON_INTEGER:
    case JSON_REAL:
        *ret = json_number_value(value);
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        *ret = json_is_true(value);
        return 0;
    case JSON_STRING:
        return text_number(json_string_value(value), json_string_length(value), ret);
    default:
        return -EINVAL;
    }
}

static int text_flag(const char *text, size_t size, bool *ret)
{
    static const struct {
        const char *word;
        bool flag;
    } words[] = {
        {"0", false}, {"f", false}, {"n", false}, {"no", false}, {"off", false}, {"false", false},
        {"1", true},  {"t", true},  {"y", true},  {"yes", true}, {"on", true},   {"true", true},
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strlen(words[i].word) == size && strncasecmp(text, words[i].word, size) == 0) {
            *ret = words[i].flag;
            return 0;
        }
    }
    return -EINVAL;
}

int lax_flag(const json_t *value, bool *ret)
{
    if (json_is_string(value))
        return text_flag(json_string_value(value), json_string_length(value), ret);
    int64_t number;
    if (lax_integer(value, &number) < 0 || (number != 0 && number != 1))
        return -EINVAL;
    *ret = number;
    return 0;
}
