/* SPDX-License-Identifier: Apache-2.0 */
/* The error value every fallible function fills: a stable code, a sentence, errno, and the fix. */
#pragma once

#include <stdint.h>

/* code, stable name */
#define ERROR_CODES(X)                                                                    \
    X(NONE, "none")                                                                       \
    X(INVALID, "invalid_argument")          /* the request itself is wrong */             \
    X(DENIED, "denied")                     /* policy forbids it */                       \
    X(UNSUPPORTED, "unsupported")           /* this machine cannot do it */               \
    X(NOT_FOUND, "not_found")               /* the thing named does not exist */          \
    X(EXISTS, "exists")                     /* the thing to be made is there already */   \
    X(LIMIT, "limit_exceeded")              /* a ceiling was reached */                   \
    X(PROTOCOL, "protocol")                 /* a peer sent something malformed */         \
    X(GONE, "gone")                         /* the session or process ended meanwhile */  \
    X(SYSTEM, "system")                     /* a system call failed */                    \
    X(CAPACITY, "capacity")                 /* the daemon holds as much as it may */      \
    X(UNAVAILABLE, "unavailable")           /* not now: starting, stopping, no backend */ \
    X(NO_SESSION, "no_session")             /* no session of that name */                 \
    X(SESSION_CONFLICT, "session_conflict") /* it exists, and is different */             \
    X(NO_PROCESS, "no_process")             /* no managed process of that name */         \
    X(PROCESS_CONFLICT, "process_conflict") /* it is not in a state for that */           \
    X(FORBIDDEN, "forbidden")               /* not for who asks */                        \
    X(ADMISSION, "admission")               /* no grant covers it */                      \
    X(NOT_READY, "not_ready")               /* the isolation it needs is not there */     \
    X(CHANGED, "changed")                   /* it is not what the caller saw */

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

#define ERROR_INIT         \
    {                      \
        .code = ERROR_NONE \
    }

/* Each of these is -1, so that a failing function can end in `return error_set(err, …)`. `err` may
   be NULL.

   error_set    code and sentence
   error_errno  ERROR_SYSTEM, a sentence, and the text of `errnum` behind it
   error_wrap   puts "context: " in front of the message that is there
   error_hint   says what to do about it: a command where there is one */
#define error_set(err, code, ...) (error_fill((err), (code), __VA_ARGS__), error_failed())
#define error_errno(err, errnum, ...) \
    (error_fill_errno((err), (errnum), __VA_ARGS__), error_failed())
#define error_wrap(err, ...) (error_fill_context((err), __VA_ARGS__), error_failed())
#define error_hint(err, ...) (error_fill_hint((err), __VA_ARGS__), error_failed())

/* In the open, so that compilers and analysers see that it can be nothing else. */
static inline int error_failed(void)
{
    return -1;
}

void error_fill(struct error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void error_fill_errno(struct error *err, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void error_fill_context(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void error_fill_hint(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

const char *error_code_name(enum error_code code);
