/* SPDX-License-Identifier: Apache-2.0 */
#include "core/random.h"

#include <errno.h>
#include <sys/random.h>

int random_hex(char *ret, size_t size, struct error *err)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[64];
    size_t count = (size - 1) / 2;
    /* So few come whole or not at all. */
    if (count > sizeof bytes || getrandom(bytes, count, 0) != (ssize_t)count)
        return error_errno(err, errno, "no random bytes");
    for (size_t i = 0; i < count; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[2 * count] = '\0';
    return 0;
}
