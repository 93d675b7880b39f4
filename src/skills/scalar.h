/* SPDX-License-Identifier: Apache-2.0 */
/* Plain scalars of YAML 1.1, typed as PyYAML's safe loader types them, and as Python writes them:
   `name: 0x10` is a skill called "16", there as here. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

enum scalar_kind {
    SCALAR_TEXT,
    SCALAR_NULL,
    SCALAR_BOOL,
    SCALAR_INT,
    SCALAR_FLOAT,
    SCALAR_DATE,
    SCALAR_MERGE,   /* "<<": good for a key only */
    SCALAR_DEFAULT, /* "=": likewise */
};

struct scalar {
    enum scalar_kind kind;
    bool truthy; /* bool() of it */
    char *text;  /* str() of it; NULL: Python refuses to write it */
    char *repr;  /* repr() of it; NULL: the same */
};

/* Fails where Python raises, on the 31st of February for example. The caller frees the texts. */
int scalar_resolve(const char *text, size_t size, struct scalar *ret, struct error *err);
