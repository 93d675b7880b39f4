/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: bytes from a stranger made into text that every JSON reader accepts. */
#include "core/utf8.h"

#include <stdbool.h>
#include <string.h>

#include "core/mem.h"

static const char replacement[] = "\xEF\xBF\xBD";

/* Length of the well-formed sequence at `at`, or minus the length of the maximal ill-formed part.
 */
static int sequence(const unsigned char *at, size_t left)
{
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
    const unsigned char *at = (const unsigned char *)data;
    char *out = xmalloc(size * 3 + 1);
    size_t used = 0;
    for (size_t i = 0; i < size;) {
        int n = sequence(at + i, size - i);
        if (n > 0) {
            memcpy(out + used, at + i, (size_t)n);
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
