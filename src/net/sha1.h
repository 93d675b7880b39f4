/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1, for the WebSocket handshake and nothing else: it proves there that the server has read the
   request, and protects nothing. A library of cryptography would have to be loaded for it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA1_SIZE 20

/* At most 119 bytes: two blocks. */
#define SHA1_INPUT_MAX 119
void sha1_short(const void *data, size_t size, uint8_t ret[SHA1_SIZE]);
