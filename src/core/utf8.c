/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: bytes from a stranger made into text that every JSON reader accepts. */
#include "core/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/mem.h"

static const char replacement[] = "\xEF\xBF\xBD";

int utf8_sequence(const char *data, size_t left)
{
    const unsigned char *at = (const unsigned char *)data;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    int need;
    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xC2 && at[0] <= 0xDF) {
        need = 1;
    } else if (at[0] >= 0xE0 && at[0] <= 0xEF) {
        need = 2;
        if (at[0] == 0xE0)
            low = 0xA0;
        if (at[0] == 0xED)
            high = 0x9F;
    } else if (at[0] >= 0xF0 && at[0] <= 0xF4) {
        need = 3;
        if (at[0] == 0xF0)
            low = 0x90;
        if (at[0] == 0xF4)
            high = 0x8F;
    } else {
        return -1;
    }
    for (int i = 1; i <= need; i++) {
        if ((size_t)i >= left || at[i] < low || at[i] > high)
            return -i;
        low = 0x80;
        high = 0xBF;
    }
    return need + 1;
}

char *utf8_repair(const char *data, size_t size, size_t *ret_size)
{
    char *out = xmalloc(size * 3 + 1);
    size_t used = 0;
    for (size_t i = 0; i < size;) {
        int n = utf8_sequence(data + i, size - i);
        if (n > 0) {
            memcpy(out + used, data + i, (size_t)n);
            used += (size_t)n;
            i += (size_t)n;
        } else {
            memcpy(out + used, replacement, 3);
            used += 3;
            i += (size_t)-n;
        }
    }
    out[used] = '\0';
    if (ret_size)
        *ret_size = used;
    return out;
}

/* Eight bytes at once, none of which has its highest bit set. */
static bool is_ascii(const char *data)
{
    uint64_t bytes;
    memcpy(&bytes, data, sizeof bytes);
    return (bytes & UINT64_C(0x8080808080808080)) == 0;
}

bool utf8_valid(const char *data, size_t size)
{
    for (size_t i = 0; i < size;) {
        if (size - i >= sizeof(uint64_t) && is_ascii(data + i)) {
            i += sizeof(uint64_t);
            continue;
        }
        int n = utf8_sequence(data + i, size - i);
        if (n < 0)
            return false;
        i += (size_t)n;
    }
    return true;
}

size_t utf8_unfinished(const char *data, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char lead = (unsigned char)data[size - back];
        if ((lead & 0xC0) == 0x80)
            continue;
        size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
        if (lead < 0xC2 || lead > 0xF4 || need <= back)
            return 0;
        /* Ill-formed to its very end: nothing but the end is wrong with it. */
        return utf8_sequence(data + size - back, back) == -(int)back ? back : 0;
    }
    return 0;
}

/* How many bytes at `at` are one character of white space; 0: something else is there. The three
   bytes of U+2000 and the like are written out, because decoding would need them checked first. */
static size_t space_size(const char *at, size_t left)
{
    static const char wide[][4] = {
        "\xE1\x9A\x80",                 /* U+1680 */
        "\xE2\x80\xA8",                 /* U+2028, U+2029: separators of lines and paragraphs */
        "\xE2\x80\xA9", "\xE2\x80\xAF", /* U+202F */
        "\xE2\x81\x9F",                 /* U+205F */
        "\xE3\x80\x80",                 /* U+3000 */
    };
    const unsigned char *c = (const unsigned char *)at;
    if (left >= 1 &&
        (c[0] == ' ' || (c[0] >= '\t' && c[0] <= '\r') || (c[0] >= 0x1C && c[0] < 0x20)))
        return 1;
    if (left < 2 || c[0] < 0xC2)
        return 0;
    if (c[0] == 0xC2 && (c[1] == 0x85 || c[1] == 0xA0))
        return 2;
    if (left < 3)
        return 0;
    if (c[0] == 0xE2 && c[1] == 0x80 && c[2] >= 0x80 && c[2] <= 0x8A) /* U+2000 to U+200A */
        return 3;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        if (memcmp(at, wide[i], 3) == 0)
            return 3;
    }
    return 0;
}

/* None of those characters ends in bytes that are another, so looking back by each length finds at
   most one. */
static size_t space_size_before(const char *end, size_t left)
{
    for (size_t n = 1; n <= 3 && n <= left; n++) {
        if (space_size(end - n, n) == n)
            return n;
    }
    return 0;
}

void utf8_strip(const char **text, size_t *size)
{
    for (size_t n; (n = space_size(*text, *size)) > 0;) {
        *text += n;
        *size -= n;
    }
    for (size_t n; (n = space_size_before(*text + *size, *size)) > 0;)
        *size -= n;
}
