/* SPDX-License-Identifier: Apache-2.0 */
/* What an error is called on the wire: the class that clients know, and a status of HTTP. */
#pragma once

#include "core/error.h"

#define WIRE_CLASSES(X)                                   \
    X(VALIDATION, "BoxValidationError")                   \
    X(AUTHENTICATION, "BoxAuthenticationError")           \
    X(NO_SESSION, "BoxSessionNotFoundError")              \
    X(NO_PROCESS, "BoxManagedProcessNotFoundError")       \
    X(SESSION_CONFLICT, "BoxSessionConflictError")        \
    X(PROCESS_CONFLICT, "BoxManagedProcessConflictError") \
    X(CAPACITY, "BoxCapacityExceededError")               \
    X(BACKEND, "BoxBackendUnavailableError")              \
    X(RUNTIME, "BoxRuntimeUnavailableError")              \
    X(ADMISSION, "BoxAdmissionError")                     \
    X(READINESS, "BoxReadinessError")                     \
    X(PERMISSION, "PermissionError")                      \
    X(OTHER, "BoxError")

enum wire_class {
#define X(name, text) WIRE_##name,
    WIRE_CLASSES(X)
#undef X
        WIRE_CLASS_MAX,
};

const char *wire_class_name(enum wire_class class);

struct wire_error {
    enum wire_class class;
    int status;
};

struct wire_error wire_error(const struct error *err);
/* Of an error about a file in a sandbox, where errno says more than the code. */
struct wire_error wire_file_error(const struct error *err);
