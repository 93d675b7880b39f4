/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, both ways. */
#include "cli/base64.h"

#include <stdint.h>
#include <string.h>

#include "core/mem.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t size)
{
    const unsigned char *in = data;
    char *text = xmalloc((size + 2) / 3 * 4 + 1);
    char *out = text;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t bits = (uint32_t)in[i] << 16;
        if (left > 1)
            bits |= (uint32_t)in[i + 1] << 8;
        if (left > 2)
            bits |= in[i + 2];
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[bits & 63] : '=';
    }
    *out = '\0';
    return text;
}

static int digit_value(char digit)
{
    if (digit >= 'A' && digit <= 'Z')
        return digit - 'A';
    if (digit >= 'a' && digit <= 'z')
        return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9')
        return digit - '0' + 52;
    if (digit == '+')
        return 62;
    return digit == '/' ? 63 : -1;
}

ssize_t base64_decode(char *text, size_t size)
{
    size_t used = 0;
    if (size % 4 != 0)
        return -1;
    for (size_t i = 0; i < size; i += 4) {
        uint32_t bits = 0;
        size_t padding = 0;
        if (i + 4 == size)
            padding = text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
        for (size_t j = 0; j < 4 - padding; j++) {
            int value = digit_value(text[i + j]);
            if (value < 0)
                return -1;
            bits |= (uint32_t)value << (18 - 6 * j);
        }
        for (size_t j = 0; j < 3 - padding; j++)
            text[used++] = (char)(bits >> (16 - 8 * j));
    }
    return (ssize_t)used;
}
