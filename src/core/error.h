/* SPDX-License-Identifier: Apache-2.0 */
/* The error value every fallible function fills: a stable code, a sentence, errno, and the fix. */
#pragma once

#include <stdint.h>

/* code, stable name */
#define ERROR_CODES(X)                                                                             \
    X(NONE, "none")                                                                                \
    X(INVALID, "invalid_argument")   /* the request itself is wrong */                             \
    X(DENIED, "denied")              /* policy forbids it */                                       \
    X(UNSUPPORTED, "unsupported")    /* this machine cannot do it */                               \
    X(NOT_FOUND, "not_found")        /* the thing named does not exist */                          \
    X(LIMIT, "limit_exceeded")       /* a ceiling was reached */                                   \
    X(PROTOCOL, "protocol")          /* a peer sent something malformed */                         \
    X(GONE, "gone")                  /* the session or process ended meanwhile */                  \
    X(SYSTEM, "system")              /* a system call failed */

enum error_code {
#define X(name, text) ERROR_##name,
    ERROR_CODES(X)
#undef X
    ERROR_CODE_MAX,
};

#define ERROR_TEXT_MAX 512

struct error {
    enum error_code code;
    int errnum;
    char message[ERROR_TEXT_MAX];
    char hint[ERROR_TEXT_MAX];
};

#define ERROR_INIT                                                                                 \
    {                                                                                              \
        .code = ERROR_NONE                                                                         \
    }

/* All of these return -1, so that a failing function can end in `return error_set(err, …)`. `err` may
   be NULL. */
int error_set(struct error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_set() with ERROR_SYSTEM; the text of `errnum` is appended. */
int error_errno(struct error *err, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " in front of the message that is there. */
int error_wrap(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says what to do about it: a command where there is one. */
int error_hint(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *error_code_name(enum error_code code);
