/* SPDX-License-Identifier: Apache-2.0 */
/* Which host paths may be mounted into a sandbox. Asked once with the path as given, and again with
   the path that the opened source really has. */
#pragma once

#include <stdbool.h>

#include "core/error.h"
#include "core/mem.h"

struct mount_policy {
    struct strings allowed_roots; /* lift the block for themselves and what is below; if
                                     `only_allowed`, nothing else may be mounted at all */
    bool only_allowed;
    struct strings own_roots; /* boxd's own, as good as allowed ones, but by their own paths only:
                                 no link leads there from anywhere else */
};

int mount_policy_check(const struct mount_policy *policy, const char *path, struct error *err);
/* The same of where an opened file really is: links in its path, which is `given`, have been
   followed by then. */
int mount_policy_check_fd(const struct mount_policy *policy, const char *given, int fd,
                          struct error *err);
/* That the path lies below no root: ERROR_DENIED. */
int mount_policy_outside(const char *path, struct error *err);
