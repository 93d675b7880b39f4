/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the spawner share. */
#pragma once

#include <pthread.h>

#include "core/buf.h"
#include "sandbox/idrange.h"
#include "sandbox/net.h"
#include "sandbox/protocol.h"
#include "sandbox/spawner.h"

#define BASES_MAX      8
#define GROUPS_MAX     8
#define NETNS_LENT_MAX 64 /* the latest sessions, whose namespace is held for use again */

/* The part of the root file system that like sessions share; `key` is all it was made from. */
struct base {
    struct buf key;
    int namespace;
};

struct group {
    char name[CGROUP_NAME_MAX];
    struct cgroup_limits limits; /* that it has */
};

struct group_list {
    struct group items[GROUPS_MAX];
    unsigned count;
};

enum session_state {
    SESSION_LIVE,
    SESSION_ENDING, /* killed on request: the reply is owed */
    SESSION_DEAD,   /* init is gone, its groups stay until the caller has read its bill */
};

struct spawned {
    struct spawned *next;
    uint32_t number;
    enum session_state state;
    uint32_t destroy_tag; /* of the request that SESSION_ENDING owes an answer */
    pid_t pid; /* of init: our child, so it stays ours until reaped; or adopted, then … */
    int pidfd; /* … this is what counts; -1 for a child */
    char key[SPEC_KEY_MAX]; /* "": it ends with the caller */
    pid_t pasta;
    char group[CGROUP_NAME_MAX];
    struct cgroup_limits limits;
    bool has_group;
    bool single;
    bool linked; /* has a link to the host's network */
    uint32_t range;
    int netns;           /* lent from the pool, or -1 */
    unsigned netns_slot; /* then: among the borrowers */
};

struct spawner {
    int sock;
    int events;  /* epoll: the socket, children, adopted sessions */
    int sockets; /* the directory of sessions' sockets, or -1 */
    const struct spawner_config *config;
    struct facts facts;
    struct cgroup_root *cgroups;
    struct netns_pool *netns;
    pthread_t network_thread; /* makes the first namespace */
    bool making_network;
    struct net_host *net_host;
    int host_netns;
    int host_mounts;
    int init_binary;
    int filters[SECCOMP_PROFILE_MAX]; /* memfds, made at first use */
    struct group_list ready_groups;   /* left by sessions, as good as new */
    struct group_list ended_groups;   /* to be removed when there is nothing better to do */
    struct base bases[BASES_MAX];
    unsigned next_base; /* the oldest, replaced next */
    struct spawned *sessions;
    uint32_t next_number;
    bool unreaped;          /* children may have ended of whom no signal told */
    pid_t answering;        /* a child that answers a request in our place; 0: none */
    uint32_t answering_tag; /* of that request */
    uint32_t range_hint;
    struct spawned *borrowers[NETNS_LENT_MAX];
    unsigned next_borrower;
    unsigned lent;
};

/* spawner.c: from here on the process has one thread. Before anything is cloned, or taken from the
 * pool. */
void spawner_await_network(struct spawner *spawner);

/* spawner-requests.c: one request; false: the caller is gone. */
bool spawner_serve_request(struct spawner *spawner);
struct spawner_reply spawner_reply_to(const struct spawner_request *request);
void spawner_reply_error(struct spawner_reply *reply, const struct error *err);
/* Sends and closes the descriptors. */
void spawner_send(struct spawner *spawner, const struct spawner_reply *reply, int *fds,
                  size_t count);
/* It has ended, and unless all went well nobody has answered. */
void spawner_answered_beside(struct spawner *spawner, int status);
struct spawned *spawned_find(struct spawner *spawner, uint32_t number);
void spawned_kill(const struct spawned *session);
/* Forgets it; init has been reaped. */
void spawned_drop(struct spawner *spawner, struct spawned *session);

/* spawner-base.c: the mount namespace of the plan's base, made at first use and not the caller's to
   close; -1 without error where the plan has none. */
int spawner_base(struct spawner *spawner, const struct plan *plan, int *ret_namespace,
                 struct error *err);

/* spawner-adopt.c */
int sockets_open(struct spawner *spawner, struct error *err);
int socket_make(const struct spawner *spawner, const char *key, int *ret_fd, struct error *err);
void socket_remove(const struct spawner *spawner, const char *key);
/* A session of an earlier spawner; ERROR_GONE if nothing of it is left. */
int spawner_adopt(struct spawner *spawner, const struct spawner_adopt *request,
                  struct spawned **ret, int *ret_control, struct error *err);
/* Kills what is in its lanes but for those whose bit is set. */
void spawner_prune(struct spawner *spawner, const struct spawned *session, uint64_t spared);
/* Removes what earlier spawners of this directory left and nobody adopted. */
void spawner_sweep(struct spawner *spawner);

/* spawner-groups.c: a session's control groups, used again where that can be done. */
int groups_take(struct spawner *spawner, struct spawned *session,
                const struct cgroup_limits *limits, int *ret_birth_group, struct error *err);
void groups_give(struct spawner *spawner, struct spawned *session);
/* One piece of work that need not be done while somebody waits; false if there is none. */
bool groups_idle_work(struct spawner *spawner);
void groups_release(struct spawner *spawner);

/* spawner-create.c: *ret_fds: the control socket, lane 0's, then those named by reply->cgroup_fds.
 */
int spawner_create(struct spawner *spawner, const struct sandbox_spec *spec,
                   struct spawner_reply *reply, int *ret_fds, size_t *ret_count,
                   struct spawned **ret, struct error *err);
/* Whether this machine lets sessions have namespaces at all, tried by a process that has none. */
int spawner_try_namespaces(struct error *err);
/* Gives back everything the session had; init has been reaped. */
void spawned_release(struct spawner *spawner, struct spawned *session);
/* Adds the lane's descriptors to those of a reply. */
void spawner_lane_fds(struct spawner *spawner, const struct spawned *session, int lane,
                      struct spawner_reply *reply, int *fds, size_t *count);
