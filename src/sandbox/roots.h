/* SPDX-License-Identifier: Apache-2.0 */
/* Directories below the allowed roots, looked up by descriptor with no link followed, and made
   where they are missing; the one kind of file that is read there; and limits on skill stores. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/error.h"
#include "sandbox/policy.h"
#include "sandbox/storage.h"

#define ROOTS_MADE_MAX 8 /* components that are made for one path */

#define ROOTS_MARKER_PREFIX ".langbot-box-volume-probe-"
#define ROOTS_MARKER_NAME   (sizeof ROOTS_MARKER_PREFIX + 32) /* with its NUL */
#define ROOTS_MARKER_MAX    1024

/* The directory `path` (in normal form) as an O_PATH descriptor: looked up component by component
   from the innermost allowed root above it, which must be there; a link on the way is refused
   (ERROR_DENIED), and so is a path below no root. With `make`, what is missing is made: see
   roots.c. ERROR_NOT_FOUND, ERROR_INVALID (a component is a file). */
int roots_open(const struct mount_policy *policy, const char *path, bool make, struct error *err);

/* The same of a directory or a file that is there. */
int roots_open_source(const struct mount_policy *policy, const char *path, struct error *err);

/* Whether it is ROOTS_MARKER_PREFIX and 32 lower-case hex digits. */
bool roots_marker_valid(const char *name);
/* The bytes of such a file in `directory`, a regular one of 1 to ROOTS_MARKER_MAX bytes.
   ERROR_NOT_FOUND; ERROR_DENIED (a link, outside the roots, no permission); ERROR_INVALID. */
int roots_read_marker(const struct mount_policy *policy, const char *directory, const char *name,
                      unsigned char ret[ROOTS_MARKER_MAX], size_t *ret_size, struct error *err);

/* boxd's own directory for trials of storage, READINESS_DIRECTORY: see mounts-open.c. */
#define ROOTS_TRIAL_DIRECTORY ".boxd-readiness"

#define ROOTS_TENANTS    "tenants" /* as the skill store calls it */
#define ROOTS_TENANT_MAX 128

struct roots_store {
    const char *root;   /* in normal form */
    const char *tenant; /* "": the store outside tenants */
    uid_t owner;        /* whose it must be */
    bool known;         /* it was limited before, by this caller: see storage.h */
    struct storage_limit limit;
};

/* A hard limit on a skill store, or on a tenant's in it; no bytes take it away. The directory must
   lie below a root, no link lead there, and its owner be the one that is given. No allowed root may
   be or lie in it, unless it is one of boxd's own; and of root's it must lie below one of those.
   Else ERROR_DENIED, ERROR_NOT_FOUND or ERROR_INVALID. ERROR_UNSUPPORTED: the file system cannot.
   (roots-store.c) */
int roots_bound_store(const struct mount_policy *policy, const struct roots_store *store,
                      struct error *err);
