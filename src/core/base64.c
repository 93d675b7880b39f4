/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 of RFC 4648, section 4. */
#include "core/base64.h"

#include <stdint.h>

#include "core/mem.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *data, size_t size, char *out)
{
    const unsigned char *at = data;
    for (; size >= 3; size -= 3, at += 3, out += 4) {
        uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
        out[0] = digits[bits >> 18];
        out[1] = digits[bits >> 12 & 63];
        out[2] = digits[bits >> 6 & 63];
        out[3] = digits[bits & 63];
    }
    if (size == 0)
        return;
    uint32_t bits = (uint32_t)at[0] << 16 | (size == 2 ? (uint32_t)at[1] << 8 : 0);
    out[0] = digits[bits >> 18];
    out[1] = digits[bits >> 12 & 63];
    out[2] = size == 2 ? digits[bits >> 6 & 63] : '=';
    out[3] = '=';
}

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(const char *text, size_t size, char **ret, size_t *ret_size, struct error *err)
{
    if (size % 4 != 0)
        return error_set(err, ERROR_INVALID, "not base64: its length is no multiple of 4");
    size_t padding = 0;
    while (padding < 2 && padding < size && text[size - 1 - padding] == '=')
        padding++;
    size_t whole = size / 4 * 3 - padding;
    cleanup_free char *bytes = xmalloc(whole + 1);
    size_t used = 0;
    for (size_t i = 0; i < size; i += 4) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 4; j++) {
            int value = i + j >= size - padding ? 0 : digit_value(text[i + j]);
            if (value < 0)
                return error_set(err, ERROR_INVALID, "not base64: character %zu", i + j + 1);
            bits = bits << 6 | (uint32_t)value;
        }
        uint32_t unused = i + 4 < size   ? 0
                          : padding == 1 ? bits & 0xFF
                          : padding      ? bits & 0xFFFF
                                         : 0;
        if (unused)
            return error_set(err, ERROR_INVALID, "not base64: bits are left over at the end");
        for (int shift = 16; shift >= 0 && used < whole; shift -= 8)
            bytes[used++] = (char)(bits >> shift & 0xFF);
    }
    bytes[used] = '\0';
    *ret_size = used;
    *ret = steal_ptr(bytes);
    return 0;
}
