/* SPDX-License-Identifier: Apache-2.0 */
/* Plain scalars of YAML 1.1, typed as PyYAML's safe loader types them. The functions that match are
   the regular expressions of its resolver, the ones that build are its constructors. */
#include "skills/scalar.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "skills/scalar-date.h"

/* Python neither reads nor writes longer ones. */
#define DIGITS_MAX 4300

static const char digits[] = "0123456789";

static bool is_word(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if (**words == *text && strcmp(text, *words) == 0)
            return true;
    }
    return false;
}

/* Skips what is of `set`; true if there was any. */
static bool skip(const char **at, const char *set)
{
    size_t length = strspn(*at, set);
    *at += length;
    return length > 0;
}

static bool skip_one(const char **at, const char *set)
{
    if (!**at || !strchr(set, **at))
        return false;
    ++*at;
    return true;
}

/* (:[0-5]?[0-9])+ */
static bool skip_sixties(const char **at)
{
    bool any = false;
    while (**at == ':') {
        const char *part = *at + 1;
        size_t length = strspn(part, digits);
        if (length == 0 || length > 2 || (length == 2 && *part > '5'))
            return false;
        *at = part + length;
        any = true;
    }
    return any;
}

static bool is_int(const char *at)
{
    skip_one(&at, "+-");
    if (at[0] == '0' && at[1] == 'b')
        return at[2] && at[2 + strspn(at + 2, "01_")] == '\0';
    if (at[0] == '0' && at[1] == 'x')
        return at[2] && at[2 + strspn(at + 2, "0123456789abcdefABCDEF_")] == '\0';
    if (at[0] == '0')
        return at[1 + strspn(at + 1, "01234567_")] == '\0';
    if (!skip_one(&at, "123456789"))
        return false;
    skip(&at, "0123456789_");
    return !*at || (skip_sixties(&at) && !*at);
}

static bool skip_exponent(const char **at)
{
    if (!skip_one(at, "eE"))
        return true;
    return skip_one(at, "+-") && skip(at, digits);
}

static bool is_float(const char *text)
{
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    const char *at = text;
    if (is_word(text, nans))
        return true;
    if (*at == '.' && strchr(digits, at[1]) && at[1]) {
        at++;
        skip(&at, "0123456789_");
        return skip_exponent(&at) && !*at;
    }
    skip_one(&at, "+-");
    if (is_word(at, infinities))
        return true;
    if (!skip_one(&at, digits))
        return false;
    skip(&at, "0123456789_");
    bool sixties = skip_sixties(&at);
    if (!skip_one(&at, "."))
        return false;
    skip(&at, "0123456789_");
    return (sixties || skip_exponent(&at)) && !*at;
}

/* --- integers of any size --- */

struct number {
    uint32_t limbs[DIGITS_MAX / 9 + 2]; /* of nine decimal digits, the lowest first */
    size_t count;
    bool too_long;
};

static void number_push(struct number *number, unsigned radix, unsigned digit)
{
    uint64_t carry = digit;
    for (size_t i = 0; i < number->count; i++) {
        carry += (uint64_t)number->limbs[i] * radix;
        number->limbs[i] = (uint32_t)(carry % 1000000000);
        carry /= 1000000000;
    }
    if (carry == 0)
        return;
    if (number->count == ARRAY_SIZE(number->limbs))
        number->too_long = true;
    else
        number->limbs[number->count++] = (uint32_t)carry;
}

/* NULL if it is longer than Python would write. */
static char *number_text(const struct number *number, bool negative)
{
    if (number->count == 0)
        return xstrdup("0");
    char *text = xmalloc(number->count * 9 + 3);
    int used = sprintf(text, "%s%u", negative ? "-" : "", number->limbs[number->count - 1]);
    for (size_t i = number->count - 1; i-- > 0;)
        used += sprintf(text + used, "%09u", number->limbs[i]);
    if (number->too_long || used - negative > DIGITS_MAX) {
        free(text);
        return NULL;
    }
    return text;
}

static unsigned digit_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
}

/* Whether there were digits in it. */
static bool push_digits(struct number *number, unsigned radix, const char **at)
{
    bool any = false;
    for (; **at && **at != ':' && !number->too_long; ++*at) {
        if (**at == '_')
            continue;
        number_push(number, radix, digit_value(**at));
        any = true;
    }
    return any;
}

static int build_int(const char *text, struct scalar *ret, struct error *err)
{
    const char *at = text;
    struct number number = {.count = 0};
    bool negative = *at == '-';
    unsigned radix = 10;
    skip_one(&at, "+-");
    if (at[0] == '0' && (at[1] == 'b' || at[1] == 'x')) {
        radix = at[1] == 'b' ? 2 : 16;
        at += 2;
    } else if (at[0] == '0') {
        radix = 8;
    }
    if (!push_digits(&number, radix, &at))
        return error_set(err, ERROR_INVALID, "a number without digits");
    while (*at == ':' && !number.too_long) {
        unsigned part = 0;
        for (at++; *at && *at != ':'; at++)
            part = part * 10 + digit_value(*at);
        number_push(&number, 60, part);
    }
    ret->kind = SCALAR_INT;
    ret->truthy = number.count > 0;
    ret->text = number_text(&number, negative);
    if (!ret->text && radix == 10)
        return error_set(err, ERROR_INVALID, "a number of more than %d digits", DIGITS_MAX);
    return 0;
}

/* --- floating point --- */

/* repr(): the shortest that reads back as the same. */
static char *float_text(double value)
{
    if (isnan(value))
        return xstrdup("nan");
    if (isinf(value))
        return xstrdup(value < 0 ? "-inf" : "inf");
    char short_form[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(short_form, sizeof short_form, "%.*e", precision, value);
        if (strtod(short_form, NULL) == value)
            break;
    }
    char *mark = strchr(short_form, 'e');
    int exponent = atoi(mark + 1);
    *mark = '\0';
    const char *mantissa = short_form + (short_form[0] == '-');
    int count = (int)strlen(mantissa) - (mantissa[1] == '.'); /* of digits */
    if (exponent < -4 || exponent >= 16)
        return xasprintf("%se%c%02d", short_form, exponent < 0 ? '-' : '+', abs(exponent));
    int decimals = count - 1 - exponent;
    return xasprintf("%.*f", decimals > 0 ? decimals : 1, value);
}

/* "1:30.5": from the right, as there, because the order decides how it is rounded. */
static int parse_sixties(char *text, double *ret, struct error *err)
{
    double value = 0;
    double base = 1;
    for (char *colon = text; colon; base *= 60) {
        if (isinf(base))
            return error_set(err, ERROR_INVALID, "a number too large");
        colon = strrchr(text, ':');
        value += strtod(colon ? colon + 1 : text, NULL) * base;
        if (colon)
            *colon = '\0';
    }
    *ret = value;
    return 0;
}

static int build_float(const char *text, struct scalar *ret, struct error *err)
{
    double sign = *text == '-' ? -1 : 1;
    double value = 0;
    text += strspn(text, "+-");
    cleanup_free char *clean = xstrdup(text);
    size_t used = 0;
    for (; *text; text++) {
        if (*text != '_')
            clean[used++] = *text;
    }
    clean[used] = '\0';
    if (strpbrk(clean, "iI"))
        value = INFINITY;
    else if (strpbrk(clean, "nN"))
        value = NAN;
    else if (parse_sixties(clean, &value, err) < 0)
        return -1;
    ret->kind = SCALAR_FLOAT;
    ret->truthy = value != 0;
    ret->text = float_text(sign * value);
    return 0;
}

static void take(struct scalar *ret, enum scalar_kind kind, bool truthy, const char *text)
{
    *ret = (struct scalar){.kind = kind, .truthy = truthy, .text = xstrdup(text)};
}

int scalar_resolve(const char *text, size_t size, struct scalar *ret, struct error *err)
{
    static const char *const yes[] = {"yes",  "Yes", "YES", "true", "True",
                                      "TRUE", "on",  "On",  "ON",   NULL};
    static const char *const no[] = {"no",    "No",  "NO",  "false", "False",
                                     "FALSE", "off", "Off", "OFF",   NULL};
    static const char *const null[] = {"", "~", "null", "Null", "NULL", NULL};
    struct scalar scalar = {.kind = SCALAR_TEXT};
    if (strlen(text) != size)
        return error_set(err, ERROR_INVALID, "a NUL character");
    if (is_word(text, yes)) {
        take(&scalar, SCALAR_BOOL, true, "True");
    } else if (is_word(text, no)) {
        take(&scalar, SCALAR_BOOL, false, "False");
    } else if (is_float(text)) {
        if (build_float(text, &scalar, err) < 0)
            return -1;
    } else if (is_int(text)) {
        if (build_int(text, &scalar, err) < 0)
            return -1;
    } else if (is_word(text, null)) {
        take(&scalar, SCALAR_NULL, false, "None");
    } else if (scalar_is_date(text)) {
        if (scalar_build_date(text, &scalar, err) < 0)
            return -1;
    } else if (strcmp(text, "<<") == 0) {
        take(&scalar, SCALAR_MERGE, true, text);
    } else if (strcmp(text, "=") == 0) {
        take(&scalar, SCALAR_DEFAULT, true, text);
    } else {
        take(&scalar, SCALAR_TEXT, true, text);
    }
    *ret = scalar;
    return 0;
}
