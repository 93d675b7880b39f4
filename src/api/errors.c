/* SPDX-License-Identifier: Apache-2.0 */
/* What an error is called on the wire. */
#include "api/errors.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/mem.h"

static const char *const class_names[WIRE_CLASS_MAX] = {
#define X(name, text) [WIRE_##name] = text,
    WIRE_CLASSES(X)
#undef X
};

const char *wire_class_name(enum wire_class class)
{
    return (unsigned)class < WIRE_CLASS_MAX ? class_names[class] : class_names[WIRE_OTHER];
}

static const struct wire_error by_code[ERROR_CODE_MAX] = {
    [ERROR_NONE] = {WIRE_OTHER, 500},
    [ERROR_INVALID] = {WIRE_VALIDATION, 400},
    /* 403 would say that a token could help; it could not. */
    [ERROR_DENIED] = {WIRE_VALIDATION, 400},
    [ERROR_UNSUPPORTED] = {WIRE_BACKEND, 503},
    [ERROR_NOT_FOUND] = {WIRE_VALIDATION, 404},
    [ERROR_EXISTS] = {WIRE_VALIDATION, 409},
    [ERROR_LIMIT] = {WIRE_VALIDATION, 400},
    [ERROR_PROTOCOL] = {WIRE_OTHER, 500},
    /* It was there when the request came; now it is not. */
    [ERROR_GONE] = {WIRE_NO_SESSION, 404},
    [ERROR_SYSTEM] = {WIRE_OTHER, 500},
    [ERROR_CAPACITY] = {WIRE_CAPACITY, 429},
    [ERROR_UNAVAILABLE] = {WIRE_RUNTIME, 503},
    [ERROR_NO_SESSION] = {WIRE_NO_SESSION, 404},
    [ERROR_SESSION_CONFLICT] = {WIRE_SESSION_CONFLICT, 409},
    [ERROR_NO_PROCESS] = {WIRE_NO_PROCESS, 404},
    [ERROR_PROCESS_CONFLICT] = {WIRE_PROCESS_CONFLICT, 409},
    [ERROR_FORBIDDEN] = {WIRE_PERMISSION, 403},
    [ERROR_ADMISSION] = {WIRE_ADMISSION, 403},
    [ERROR_NOT_READY] = {WIRE_READINESS, 503},
    [ERROR_CHANGED] = {WIRE_VALIDATION, 412},
};

static const struct {
    int errnum;
    struct wire_error error;
} by_errno[] = {
    {ENOSPC, {WIRE_OTHER, 507}},
    {EDQUOT, {WIRE_OTHER, 507}},
    {ENOENT, {WIRE_VALIDATION, 404}},
    {ENOTDIR, {WIRE_VALIDATION, 404}},
    {EACCES, {WIRE_VALIDATION, 403}},
    {EPERM, {WIRE_VALIDATION, 403}},
    {EROFS, {WIRE_VALIDATION, 403}},
    {EEXIST, {WIRE_VALIDATION, 409}},
    {ENOTEMPTY, {WIRE_VALIDATION, 409}},
    {EBUSY, {WIRE_VALIDATION, 409}},
    {ETXTBSY, {WIRE_VALIDATION, 409}},
    {EISDIR, {WIRE_VALIDATION, 400}},
    {EINVAL, {WIRE_VALIDATION, 400}},
    {ELOOP, {WIRE_VALIDATION, 400}},
    {ENAMETOOLONG, {WIRE_VALIDATION, 400}},
    {EXDEV, {WIRE_VALIDATION, 400}},
    {EFBIG, {WIRE_VALIDATION, 413}},
    {ENXIO, {WIRE_VALIDATION, 400}},
};

struct wire_error wire_error(const struct error *err)
{
    if (err->errnum == ENOSPC || err->errnum == EDQUOT)
        return (struct wire_error){WIRE_OTHER, 507};
    return by_code[(unsigned)err->code < ERROR_CODE_MAX ? err->code : ERROR_NONE];
}

struct wire_error wire_file_error(const struct error *err)
{
    /* That the session is gone is not about the file. */
    bool about_file = err->code == ERROR_NOT_FOUND || err->code == ERROR_DENIED ||
                      err->code == ERROR_INVALID || err->code == ERROR_LIMIT ||
                      err->code == ERROR_SYSTEM;
    for (size_t i = 0; about_file && i < ARRAY_SIZE(by_errno); i++)
        if (by_errno[i].errnum == err->errnum)
            return by_errno[i].error;
    return wire_error(err);
}
