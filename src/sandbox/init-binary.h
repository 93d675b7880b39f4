/* SPDX-License-Identifier: Apache-2.0 */
/* The program that is PID 1 of sessions. */
#pragma once

#include "core/error.h"

/* The one at `given`, or, with NULL, beside this program or where it is installed. Returns the
   descriptor, or -1. */
int init_binary_load(const char *given, struct error *err);
