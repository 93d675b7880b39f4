/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the spawner share. */
#pragma once

#include "core/buf.h"
#include "sandbox/idrange.h"
#include "sandbox/net.h"
#include "sandbox/protocol.h"
#include "sandbox/spawner.h"

#define BASES_MAX      8
#define SPARE_GROUPS   4 /* emptied and kept for sessions to come: making one costs more than limiting it */
#define NETNS_LENT_MAX 64 /* sessions whose namespace descriptor is held for use again */

/* The part of the root file system that like sessions share; `key` is all it was made from. */
struct base {
    struct buf key;
    int namespace;
};

enum session_state {
    SESSION_LIVE,
    SESSION_ENDING, /* killed on request: the reply is owed */
};

struct spawned {
    struct spawned *next;
    uint32_t number;
    enum session_state state;
    pid_t pid; /* of init: our child, so it stays ours until reaped */
    pid_t pasta;
    char group[CGROUP_NAME_MAX];
    bool has_group;
    bool single;
    bool settled; /* init is out of lane 0, or need not be */
    bool linked; /* has a link to the host's network */
    uint32_t range;
    int netns; /* lent from the pool, or -1 */
};

struct spawner {
    int sock;
    const struct spawner_config *config;
    struct facts facts;
    struct cgroup_root *cgroups;
    struct netns_pool *netns;
    struct net_host *net_host;
    int host_netns;
    int host_mounts;
    int init_binary;
    int filters[SECCOMP_PROFILE_MAX]; /* memfds, made at first use */
    char spare_groups[SPARE_GROUPS][CGROUP_NAME_MAX];
    unsigned spare_count;
    struct base bases[BASES_MAX];
    unsigned next_base; /* the oldest, replaced next */
    struct spawned *sessions;
    uint32_t next_number;
    uint32_t range_hint;
    unsigned lent;
};

/* spawner-base.c: the mount namespace of the plan's base, made at first use and not the caller's to close; -1
   without error where the plan has none. */
int spawner_base(struct spawner *spawner, const struct plan *plan, int *ret_namespace,
                 struct error *err);

/* spawner-create.c: *ret_fds: the control socket, then the descriptors named by reply->cgroup_fds. */
int spawner_create(struct spawner *spawner, const struct sandbox_spec *spec,
                   struct spawner_reply *reply, int *ret_fds, size_t *ret_count,
                   struct spawned **ret, struct error *err);
/* Gives back everything the session had; init has been reaped. */
void spawned_release(struct spawner *spawner, struct spawned *session);
/* Sends the lane's descriptors along with a reply. */
void spawner_lane_fds(struct spawner *spawner, const struct spawned *session, int lane,
                      struct spawner_reply *reply, int *fds, size_t *count);
