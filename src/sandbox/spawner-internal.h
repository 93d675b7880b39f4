/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the spawner share. */
#pragma once

#include "sandbox/idrange.h"
#include "sandbox/net.h"
#include "sandbox/protocol.h"
#include "sandbox/spawner.h"

#define NETNS_LENT_MAX 64 /* sessions whose namespace descriptor is held for use again */

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
    char group[64];
    bool has_group;
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
    int init_binary;
    int filters[SECCOMP_PROFILE_MAX]; /* memfds, made at first use */
    struct spawned *sessions;
    uint32_t next_number;
    uint32_t range_hint;
    unsigned lent;
};

/* spawner-create.c: *ret_fds: the control socket, then the descriptors named by reply->cgroup_fds. */
int spawner_create(struct spawner *spawner, const struct sandbox_spec *spec,
                   struct spawner_reply *reply, int *ret_fds, size_t *ret_count,
                   struct spawned **ret, struct error *err);
/* Gives back everything the session had; init has been reaped. */
void spawned_release(struct spawner *spawner, struct spawned *session);
/* Sends the lane's descriptors along with a reply. */
void spawner_lane_fds(struct spawner *spawner, const struct spawned *session, int lane,
                      struct spawner_reply *reply, int *fds, size_t *count);
