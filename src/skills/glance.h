/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a directory a package, and what else is told of one by the names in it. */
#pragma once

#include <stdbool.h>

struct glance {
    const char *entry_file; /* NULL: it is no package */
    bool by_link;           /* the entry file is a link */
    bool python;            /* it looks like a Python project */
};

/* Of a directory that was just opened: its names are read, once. Returns 0 or -errno. */
int glance_at(int dir, struct glance *ret);
