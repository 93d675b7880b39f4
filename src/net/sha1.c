/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 of short texts, after FIPS 180-4. */
#include "net/sha1.h"

#include <assert.h>
#include <string.h>

static uint32_t rotate(uint32_t value, unsigned by)
{
    return value << by | value >> (32 - by);
}

static void block(uint32_t hash[5], const uint8_t *data)
{
    uint32_t w[80];
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 |
               (uint32_t)data[4 * i + 2] << 8 | data[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];
    for (unsigned i = 0; i < 80; i++) {
        uint32_t f, k;
        if (i < 20) {
            f = (b & c) | (~b & d);
            k = 0x5a827999;
        } else if (i < 40) {
            f = b ^ c ^ d;
            k = 0x6ed9eba1;
        } else if (i < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8f1bbcdc;
        } else {
            f = b ^ c ^ d;
            k = 0xca62c1d6;
        }
        uint32_t next = rotate(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
}

void sha1_short(const void *data, size_t size, uint8_t ret[SHA1_SIZE])
{
    uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t padded[128] = {0};
    assert(size <= SHA1_INPUT_MAX);
    size_t total = size < 56 ? 64 : 128;
    memcpy(padded, data, size);
    padded[size] = 0x80;
    padded[total - 2] = (uint8_t)(size * 8 >> 8);
    padded[total - 1] = (uint8_t)(size * 8);
    for (size_t at = 0; at < total; at += 64)
        block(hash, padded + at);
    for (unsigned i = 0; i < SHA1_SIZE; i++)
        ret[i] = (uint8_t)(hash[i / 4] >> (24 - i % 4 * 8));
}
