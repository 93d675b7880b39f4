/* SPDX-License-Identifier: Apache-2.0 */
/* Names that nobody can guess. */
#pragma once

#include <stddef.h>

#include "core/error.h"

/* Fills `ret` with size - 1 random hexadecimal digits (size is odd) and a NUL. */
int random_hex(char *ret, size_t size, struct error *err);
