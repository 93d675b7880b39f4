/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that runs nothing, for tests of what lies above it: sessions and processes are
   bookkeeping. */
#pragma once

#include "backend/backend.h"

/* The command `sh -lc "exit 3"` ends with 3 at once, "hang" never ends by itself, "echo WORDS"
   writes them to its standard output, "fail" cannot be started, anything else ends with 0;
   null-backend.c says what else it knows. */
struct backend *backend_null_new(uv_loop_t *loop);
