/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data (RFC 7578), of a body that is there in whole. No I/O. */
#pragma once

#include <stddef.h>

#include "core/error.h"

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 */
#define MULTIPART_PARTS_MAX    64

struct multipart {
    const char *at; /* behind the boundary of the part that comes next; NULL: that was the last */
    const char *end;
    char boundary[MULTIPART_BOUNDARY_MAX + 5]; /* with the line break and dashes before it */
    size_t boundary_size;
    unsigned count;
};

struct multipart_part {
    char name[64];
    char filename[256]; /* "": none */
    const char *data;   /* in the body */
    size_t size;
};

/* `type` is the Content-Type. ERROR_INVALID if it or the body is none. */
int multipart_begin(struct multipart *form, const char *type, const char *body, size_t size,
                    struct error *err);
/* 1: a part; 0: there are no more; -1: ERROR_INVALID. */
int multipart_next(struct multipart *form, struct multipart_part *ret, struct error *err);
