/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data (RFC 7578), of a body that is there in whole. No I/O. */
#pragma once

#include <stddef.h>

#include "core/error.h"

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 */
#define MULTIPART_PARTS_MAX    64

struct multipart {
    const char *at; /* behind the boundary of the part that comes next */
    const char *end;
    char boundary[MULTIPART_BOUNDARY_MAX + 5]; /* with the line break and dashes before it */
    size_t boundary_size;
    unsigned count;
};

/* Its texts are UTF-8 without control characters. */
struct multipart_part {
    char name[64];
    char filename[256]; /* "": none */
    const char *data;   /* in the body */
    size_t size;
};

/* All errors are ERROR_INVALID. */

/* The boundary that a Content-Type names; the caller frees. */
int multipart_boundary(const char *type, char **ret, struct error *err);
int multipart_begin(struct multipart *form, const char *boundary, const char *body, size_t size,
                    struct error *err);
/* 1: a part; 0: there are no more; -1: an error. */
int multipart_next(struct multipart *form, struct multipart_part *ret, struct error *err);
