/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from strangers: a document with bounds. The lax way takes what Python's json.loads() takes:
   jansson is tried first, and what it cannot hold is written anew and tried once more. */
#include "core/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"

/* Instead of a number that neither 64 bits nor a double hold, and of NaN and the infinities: beyond
   every range a field can have, so that whoever decodes it refuses it with the field's name. */
#define BEYOND "1e308"

/* Before jansson sees it: how deep it nests and how many values it may have, so that neither its
   recursion nor its memory is the stranger's to choose. What is ill-formed here is jansson's to
   tell. */
static int check_bounds(const char *text, size_t size, struct error *err)
{
    size_t depth = 0;
    size_t values = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > JSON_DEPTH_MAX)
                return error_set(err, ERROR_INVALID,
                                 "not acceptable JSON: nested more than %d deep", JSON_DEPTH_MAX);
            values++;
        } else if (c == ']' || c == '}') {
            depth -= depth > 0;
        } else if (c == ',') {
            values++;
        }
        if (values > JSON_VALUES_MAX)
            return error_set(err, ERROR_INVALID, "not acceptable JSON: more than %d values",
                             JSON_VALUES_MAX);
    }
    return 0;
}

/* jansson's words, but for those about its own interface. */
static const char *problem_text(const json_error_t *problem)
{
    switch (json_error_code(problem)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a string has a NUL in it";
    case json_error_invalid_utf8:
        return "it is not UTF-8";
    default:
        return problem->text;
    }
}

static int refuse(const json_error_t *problem, struct error *err)
{
    return error_set(err, ERROR_INVALID, "not JSON: line %d, column %d: %s", problem->line,
                     problem->column, problem_text(problem));
}

int json_parse(const char *text, size_t size, json_t **ret, struct error *err)
{
    json_error_t problem;
    if (check_bounds(text, size, err) < 0)
        return -1;
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (!value)
        return refuse(&problem, err);
    *ret = value;
    return 0;
}

/* --- what jansson cannot hold --- */

/* Written behind each other; `out` has room for all of it. */
struct repair {
    const char *begin;
    const char *at;
    const char *end;
    char *out;
};

static void put(struct repair *repair, const char *text, size_t size)
{
    memcpy(repair->out, text, size);
    repair->out += size;
}

static void copy(struct repair *repair, size_t size)
{
    put(repair, repair->at, size);
    repair->at += size;
}

static bool begins(const struct repair *repair, const char *word)
{
    size_t size = strlen(word);
    return (size_t)(repair->end - repair->at) >= size && memcmp(repair->at, word, size) == 0;
}

/* What "\uXXXX" at `at` stands for; -1: something else is there. */
static int escaped_unit(const char *at, const char *end)
{
    int unit = 0;
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        const char *digit = at[i] ? strchr("0123456789abcdef", at[i] | 0x20) : NULL;
        if (!digit)
            return -1;
        unit = unit << 4 | (int)(digit - "0123456789abcdef");
    }
    return unit;
}

/* One escape in a string: half of a surrogate pair is no character; and jansson has no NUL in keys,
   where another control character is as good a reason to refuse them. */
static void repair_escape(struct repair *repair, bool key)
{
    int unit = escaped_unit(repair->at, repair->end);
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        int low = escaped_unit(repair->at + 6, repair->end);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            copy(repair, 12);
            return;
        }
    }
    if (unit >= 0xD800 && unit <= 0xDFFF) {
        put(repair, "\\ufffd", 6);
        repair->at += 6;
    } else if (unit == 0 && key) {
        put(repair, "\\u0001", 6);
        repair->at += 6;
    } else {
        copy(repair, repair->end - repair->at < 2 ? 1 : 2);
    }
}

static bool is_key(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    for (at++; at < end && strchr(" \t\r\n", *at) && *at; at++)
        ;
    return at < end && *at == ':';
}

static void repair_string(struct repair *repair)
{
    bool key = is_key(repair->at, repair->end);
    copy(repair, 1);
    while (repair->at < repair->end && *repair->at != '"') {
        if (*repair->at == '\\')
            repair_escape(repair, key);
        else
            copy(repair, 1);
    }
    if (repair->at < repair->end)
        copy(repair, 1);
}

static size_t count_digits(const char *at, const char *end)
{
    size_t count = 0;
    while (at + count < end && at[count] >= '0' && at[count] <= '9')
        count++;
    return count;
}

/* The size of the number at `at`, 0 if there is none; *ret_real: it has a fraction or exponent. */
static size_t number_size(const char *at, const char *end, bool *ret_real)
{
    const char *p = at + (at < end && *at == '-');
    size_t whole = count_digits(p, end);
    if (whole == 0 || (*p == '0' && whole > 1))
        return 0;
    p += whole;
    *ret_real = false;
    if (p < end && *p == '.' && count_digits(p + 1, end) > 0) {
        p += 1 + count_digits(p + 1, end);
        *ret_real = true;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        const char *exponent = p + 1;
        exponent += exponent < end && (*exponent == '+' || *exponent == '-');
        if (count_digits(exponent, end) > 0) {
            p = exponent + count_digits(exponent, end);
            *ret_real = true;
        }
    }
    return (size_t)(p - at);
}

static bool is_beyond(const char *at, size_t size, bool real)
{
    cleanup_free char *number = xstrndup(at, size);
    errno = 0;
    if (real)
        return isinf(strtod(number, NULL));
    (void)strtoll(number, NULL, 10);
    return errno == ERANGE;
}

/* Whether a value may begin here; in the middle of what is none, nothing is to become one. */
static bool at_value(const struct repair *repair)
{
    return repair->at == repair->begin || memchr("[,: \t\r\n", repair->at[-1], 7);
}

static void repair_number(struct repair *repair)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    bool real;
    size_t size = number_size(repair->at, repair->end, &real);
    bool beyond = size > 0 && is_beyond(repair->at, size, real);
    for (size_t i = 0; size == 0 && i < ARRAY_SIZE(words); i++) {
        if (begins(repair, words[i])) {
            size = strlen(words[i]);
            beyond = true;
        }
    }
    if (!beyond) {
        copy(repair, size > 0 ? size : 1);
        return;
    }
    if (*repair->at == '-')
        put(repair, "-", 1);
    put(repair, BEYOND, strlen(BEYOND));
    repair->at += size;
}

/* A copy that jansson can hold. At most "NaN" grows, and not to the double. */
static char *repair_text(const char *text, size_t size, size_t *ret_size)
{
    char *copied = xmalloc(size * 2 + 1);
    struct repair repair = {text, text, text + size, copied};
    while (repair.at < repair.end) {
        if (*repair.at == '"')
            repair_string(&repair);
        else if (at_value(&repair))
            repair_number(&repair);
        else
            copy(&repair, 1);
    }
    *ret_size = (size_t)(repair.out - copied);
    return copied;
}

int json_parse_lax(const char *text, size_t size, json_t **ret, struct error *err)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t problem;
    if (check_bounds(text, size, err) < 0)
        return -1;
    json_t *value = json_loadb(text, size, flags, NULL);
    if (!value) {
        size_t repaired_size;
        cleanup_free char *repaired = repair_text(text, size, &repaired_size);
        value = json_loadb(repaired, repaired_size, flags, &problem);
    }
    if (!value)
        return refuse(&problem, err);
    *ret = value;
    return 0;
}
