/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine is, as far as a plan depends on it: gathered once, then a plain value. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/mem.h"
#include "sandbox/cgroup.h"
#include "sandbox/net.h"

struct subid_range {
    uint32_t first;
    uint32_t count; /* 0: none */
};

struct facts {
    uid_t uid; /* the caller's */
    gid_t gid;
    bool root; /* uid 0 with the capabilities that count */
    char *home;
    struct strings root_dirs;  /* of /bin, /sbin, /lib …: those that are directories */
    struct strings root_links; /* …and those that are links: "/bin=usr/bin" */
    struct strings etc_paths;  /* what of the host's /etc a sandbox sees */
    struct strings proc_paths; /* those of the masked and read-only /proc paths that exist */
    struct subid_range subuid;
    struct subid_range subgid;
    struct net_policy net; /* the host's resolvers; by facts_gather_network() */
    bool extra_groups;     /* the caller is in groups beside its first */
    /* Filled in by facts_set_cgroup(). */
    enum cgroup_version cgroup;
    bool limits_memory, limits_cpu, limits_pids; /* what the cgroups can limit */
    const char *cgroup_reason;                   /* why there are none, or not all */
    const char *cgroup_fix;
};

void facts_gather(struct facts *facts);
/* What only plans with a network need. */
void facts_gather_network(struct facts *facts);
/* The texts stay the root's. */
void facts_set_cgroup(struct facts *facts, const struct cgroup_root *root);
void facts_release(struct facts *facts);
