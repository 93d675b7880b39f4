/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line an event, as text for people or JSON for programs, to standard error.

     log_event(LOG_INFO, "session_created", LOG_TEXT("session", name), LOG_NUMBER("ms", 3));

   Library code does not log; whoever an error reaches at the top does, once. Secrets, tokens and
   values of environment variables are never among the fields. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

#define LOG_LEVELS(X) \
    X(DEBUG, "debug") \
    X(INFO, "info")   \
    X(WARN, "warn")   \
    X(ERROR, "error")

enum log_level {
#define X(name, text) LOG_##name,
    LOG_LEVELS(X)
#undef X
        LOG_LEVEL_MAX,
    LOG_LEVEL_INVALID = -1,
};

enum log_format {
    LOG_FORMAT_TEXT,
    LOG_FORMAT_JSON,
};

struct log_field {
    const char *key;
    const char *text; /* NULL: it is a number */
    int64_t number;
};

/* A function, so that a compiler does not complain of an array that is never NULL. */
static inline struct log_field log_text(const char *key, const char *text)
{
    return (struct log_field){.key = key, .text = text ? text : ""};
}

#define LOG_TEXT(k, v)   log_text((k), (v))
#define LOG_NUMBER(k, v) ((struct log_field){.key = (k), .number = (int64_t)(v)})

/* Until then: text, from LOG_INFO on. */
void log_configure(enum log_format format, enum log_level level);
enum log_level log_level_from_name(const char *name);

#define log_event(level, event, ...)                                     \
    log_write((level), (event), (const struct log_field[]){__VA_ARGS__}, \
              sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
/* With the error's code, message and hint as fields behind the given ones. */
#define log_error(level, event, err, ...)                                             \
    log_write_error((level), (event), (err), (const struct log_field[]){__VA_ARGS__}, \
                    sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

void log_write(enum log_level level, const char *event, const struct log_field *fields,
               size_t count);
void log_write_error(enum log_level level, const char *event, const struct error *err,
                     const struct log_field *fields, size_t count);
