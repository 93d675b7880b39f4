/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4): names of tenants, digests of markers. No I/O. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE     32
#define SHA256_HEX_SIZE (2 * SHA256_SIZE + 1)

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};

void sha256_init(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *data, size_t size);
void sha256_end(struct sha256 *sha, unsigned char ret[SHA256_SIZE]);
/* Lower-case hex of it all. */
void sha256_hex(const void *data, size_t size, char ret[SHA256_HEX_SIZE]);
