/* SPDX-License-Identifier: Apache-2.0 */
/* What people and programs type: numbers, paths, near-misses, and text in broken UTF-8. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/parse.h"
#include "core/path.h"
#include "core/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a)

static void check_result(int rc, uint64_t value, uint64_t max)
{
    if (rc == 0)
        assert(value <= max);
    else
        assert((rc == -EINVAL || rc == -ERANGE) && value == UNTOUCHED);
}

static bool is_digits(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

static void fuzz_numbers(const char *text)
{
    uint64_t whole = UNTOUCHED, bytes = UNTOUCHED, ms = UNTOUCHED, milli = UNTOUCHED;
    int whole_rc = parse_u64(text, INT64_MAX, &whole);
    int bytes_rc = parse_size(text, &bytes);
    int ms_rc = parse_duration(text, &ms);
    int milli_rc = parse_milli(text, &milli);
    check_result(whole_rc, whole, INT64_MAX);
    check_result(bytes_rc, bytes, INT64_MAX);
    check_result(ms_rc, ms, INT64_MAX);
    check_result(milli_rc, milli, INT64_MAX);
    assert((whole_rc != -EINVAL) == is_digits(text) || whole_rc == -ERANGE);
    /* A plain number means the same to all of them. */
    if (whole_rc == 0) {
        assert(bytes_rc == 0 && bytes == whole);
        assert(ms_rc == milli_rc && (ms_rc != 0 || (ms == whole * 1000 && milli == ms)));
        char back[32];
        snprintf(back, sizeof back, "%llu", (unsigned long long)whole);
        assert(strcmp(back, text + strspn(text, "0")) == 0 || whole == 0);
    }
    /* Seconds are thousandths. */
    if (milli_rc == 0)
        assert(ms_rc == 0 && ms == milli);
    /* No number starts with anything but a digit. */
    if (bytes_rc == 0 || ms_rc == 0)
        assert(text[0] >= '0' && text[0] <= '9');
}

static void check_normal(const char *path)
{
    size_t length = strlen(path);
    assert(path[0] == '/' && length < PATH_MAX);
    assert(length == 1 || path[length - 1] != '/');
    assert(!strstr(path, "//"));
    for (const char *at = path; (at = strchr(at, '/')); at++) {
        size_t part = strcspn(at + 1, "/");
        assert(!(part == 1 && at[1] == '.') && !(part == 2 && at[1] == '.' && at[2] == '.'));
    }
}

static void fuzz_path(const char *text)
{
    struct error err = ERROR_INIT;
    char *path = path_normalise(text, &err);
    if (!path) {
        assert(err.code == ERROR_INVALID && err.message[0]);
        return;
    }
    assert(err.code == ERROR_NONE);
    check_normal(path);
    assert(strlen(path) <= strlen(text));
    char *again = path_normalise(path, &err);
    assert(again && strcmp(again, path) == 0);
    assert(path_is_below(path, path) && path_is_below(path, "/"));
    /* Every parent contains it; a brother whose name is longer does not. */
    for (size_t i = strlen(path) - 1; i > 0; i--) {
        if (path[i] != '/')
            continue;
        again[i] = '\0';
        assert(path_is_below(path, again) && !path_is_below(again, path));
    }
    char brother[PATH_MAX + 1];
    snprintf(brother, sizeof brother, "%sx", path);
    assert(strcmp(path, "/") == 0 || !path_is_below(brother, path));
    free(again);
    free(path);
}

/* By code point, so that it is not the same logic twice. Returns the length, or 0. */
static size_t decode(const unsigned char *at, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = at[0] < 0x80             ? 1
                    : (at[0] & 0xe0) == 0xc0 ? 2
                    : (at[0] & 0xf0) == 0xe0 ? 3
                    : (at[0] & 0xf8) == 0xf0 ? 4
                                             : 0;
    if (length == 0 || length > left)
        return 0;
    uint32_t code = length == 1 ? at[0] : at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    return code >= least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? length
                                                                                         : 0;
}

static bool is_utf8(const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0, n; i < size; i += n)
        if ((n = decode(at + i, size - i)) == 0)
            return false;
    return true;
}

static void fuzz_utf8(const char *data, size_t size)
{
    size_t used, twice;
    char *text = utf8_repair(data, size, &used);
    assert(text[used] == '\0' && used <= size * 3);
    assert(is_utf8(text, used));
    if (is_utf8(data, size))
        assert(used == size && memcmp(text, data, size) == 0);
    else
        assert(used >= 3 && memmem(text, used, "\xEF\xBF\xBD", 3));
    char *again = utf8_repair(text, used, &twice);
    assert(twice == used && memcmp(again, text, used) == 0);
    /* What is ASCII comes through, in order. */
    size_t at = 0;
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)data[i] >= 0x80)
            continue;
        while (at < used && (unsigned char)text[at] >= 0x80)
            at++;
        assert(at < used && text[at] == data[i]);
        at++;
    }
    free(again);
    free(text);
}

static void fuzz_nearest(const char *text)
{
    static const char *const words[] = {"memory", "timeout", "network", "image", "", "x"};
    const char *word = nearest_word(text, words, sizeof words / sizeof words[0]);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (text[0] && strcmp(text, words[i]) == 0)
            assert(word == words[i]);
    assert(!word || strlen(text) <= 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    fuzz_numbers(text);
    fuzz_path(text);
    fuzz_nearest(text);
    char *exact = malloc(size ? size : 1);
    assert(exact);
    memcpy(exact, data, size);
    fuzz_utf8(exact, size);
    free(exact);
    free(text);
    return 0;
}
