/* SPDX-License-Identifier: Apache-2.0 */
/* Who has how much memory. */
#pragma once

#include <sys/types.h>

struct memory {
    double rss_kib; /* what is shared is in each */
    double pss_kib; /* what is shared is in parts */
};

/* Of a process and its children, but not of sessions. */
void memory_of_tree(pid_t pid, struct memory *ret);

/* What the whole machine uses and could not give back, in KiB: processes, the kernel for them,
   files in memory. As root, what the kernel merely remembers is dropped first. */
double memory_in_use(void);
