/* SPDX-License-Identifier: Apache-2.0 */
/* Filling and wrapping error values. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const code_names[ERROR_CODE_MAX] = {
#define X(name, text) [ERROR_##name] = text,
    ERROR_CODES(X)
#undef X
};

const char *error_code_name(enum error_code code)
{
    return (unsigned)code < ERROR_CODE_MAX ? code_names[code] : "unknown";
}

void error_fill(struct error *err, enum error_code code, const char *format, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    err->code = code;
    err->errnum = 0;
    err->hint[0] = '\0';
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
}

void error_fill_errno(struct error *err, int errnum, const char *format, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    err->code = ERROR_SYSTEM;
    err->errnum = errnum;
    err->hint[0] = '\0';
    int used = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof err->message)
        snprintf(err->message + used, sizeof err->message - (size_t)used, ": %s", strerror(errnum));
}

void error_fill_context(struct error *err, const char *format, ...)
{
    if (!err)
        return;
    char context[ERROR_TEXT_MAX];
    char inner[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    memcpy(inner, err->message, sizeof inner);
    int used = snprintf(err->message, sizeof err->message, "%s: ", context);
    if (used >= 0 && (size_t)used < sizeof err->message)
        snprintf(err->message + used, sizeof err->message - (size_t)used, "%s", inner);
}

void error_fill_hint(struct error *err, const char *format, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(err->hint, sizeof err->hint, format, args);
    va_end(args);
}
