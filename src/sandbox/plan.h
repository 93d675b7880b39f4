/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: everything that will be done to make a sandbox, as a plain value. It is built from a
   spec, the machine's facts and the policy with no side effect, so that tests and people can read
   it, and then executed step by step. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "core/error.h"
#include "core/mem.h"
#include "sandbox/cgroup.h"
#include "sandbox/facts.h"
#include "sandbox/net.h"
#include "sandbox/policy.h"
#include "sandbox/spec.h"

/* The one user inside. */
#define BOX_UID  1000u
#define BOX_GID  1000u
#define BOX_USER "box"
#define BOX_HOME "/home/box"

#define STEP_KINDS(X)                                                                \
    X(DIR, "dir")         /* a directory in the new root */                          \
    X(LINK, "link")       /* a symbolic link to `text` */                            \
    X(FILE, "file")       /* a file that holds `text` */                             \
    X(TMPFS, "tmpfs")     /* memory, bounded by `bytes` and `inodes` */              \
    X(SCRATCH, "scratch") /* a directory of the one tmpfs that all of these share */ \
    X(BIND, "bind")       /* a host path, with all that is mounted below it */       \
    X(DEVICE, "device")   /* a device node of the host */                            \
    X(OVERLAY, "overlay") /* a host path with a bounded writable layer over it */    \
    X(IMAGE, "image")     /* a file system of its own, of a fixed size */            \
    X(PROC, "proc")                                                                  \
    X(DEVPTS, "devpts")                                                              \
    X(MASK_FILE, "mask-file") /* covered by an empty file that cannot be read */     \
    X(MASK_DIR, "mask-dir")   /* covered by an empty read-only directory */          \
    X(PROTECT, "read-only")   /* made read-only where it is */

enum step_kind {
#define X(name, text) STEP_##name,
    STEP_KINDS(X)
#undef X
        STEP_KIND_MAX,
};

struct step {
    char *target; /* inside */
    char *source; /* on the host, where the kind has one */
    char *text;
    uint64_t bytes;
    uint64_t inodes;
    enum step_kind kind;
    uint32_t mode;
    bool writable;
    bool checked; /* the source is a caller's, so the policy is asked about where it really is */
    bool quota;   /* the plan's holds for it */
    bool make;    /* a directory below an allowed root, made where it is missing */
    bool owned;   /* files keep their owner: the host's owner of the source is the user inside */
};

struct id_map {
    uint32_t inside;
    uint32_t outside;
    uint32_t count;
};

#define PLAN_ID_MAPS 3

enum id_scheme {
    ID_RANGE,  /* a private range of 65,536, as root */
    ID_SUBIDS, /* the caller's own id and its range of /etc/subuid, by newuidmap */
    ID_SINGLE, /* the caller's own id alone */
};

enum limit_means {
    LIMIT_BY_CGROUP,
    LIMIT_BY_RLIMIT,
    LIMIT_NONE,
};

struct plan_rlimit {
    int resource;
    rlim_t soft;
    rlim_t hard;
};

#define PLAN_RLIMITS_MAX 8 /* six at the most */

struct plan {
    uint64_t namespaces; /* CLONE_NEW… */
    enum id_scheme ids;
    struct id_map
        uid_maps[PLAN_ID_MAPS]; /* for ID_RANGE `outside` is relative to the range's base */
    struct id_map gid_maps[PLAN_ID_MAPS];
    size_t uid_map_count;
    size_t gid_map_count;
    struct step *steps;
    size_t step_count;
    size_t base_count; /* the first so many make nothing of a session's own: the same for all like
                          it */
    struct cgroup_limits limits;
    enum cgroup_version cgroup;
    enum limit_means memory_by, cpu_by, pids_by;
    struct plan_rlimit rlimits[PLAN_RLIMITS_MAX];
    size_t rlimit_count;
    enum network_mode network;
    struct net_policy net;
    enum seccomp_profile seccomp;
    uint64_t quota_bytes;
    uint64_t quota_inodes;
    bool quota_on_mount; /* the workspace is a caller's directory: project quota */
    bool single;
    struct strings notes; /* what is weaker than the default promise, one sentence each */
};

/* 0, or -1 with the reason and the fix. `ret` is untouched on failure. */
int plan_build(const struct sandbox_spec *spec, const struct facts *facts,
               const struct mount_policy *policy, struct plan *ret, struct error *err);
void plan_release(struct plan *plan);
const char *step_kind_name(enum step_kind kind);
/* Whether a session of this plan can outlive a command that had to be killed. */
bool plan_can_kill_lane(const struct plan *plan);
/* Whether the steps behind the base can do with it as it is: every mount point they need is there,
   or lies in something they mount themselves. */
bool plan_base_suffices(const struct plan *plan);
const char *limit_means_name(enum limit_means means);
const char *id_scheme_name(enum id_scheme scheme);
