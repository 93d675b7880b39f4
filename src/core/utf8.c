/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: bytes from a stranger made into text that every JSON reader accepts. */
#include "core/utf8.h"

#include <stdbool.h>
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

bool utf8_valid(const char *data, size_t size)
{
    for (size_t i = 0; i < size;) {
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
