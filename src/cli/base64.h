/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648, section 4): how bytes that need not be text travel in JSON. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* NUL-terminated; the caller frees. */
char *base64_encode(const void *data, size_t size);
/* In place, which works because what comes out is shorter. Returns the number of bytes, or -1 if
   it is not base64 with its padding. */
ssize_t base64_decode(char *text, size_t size);
