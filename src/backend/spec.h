/* SPDX-License-Identifier: Apache-2.0 */
/* What a session is to be: a plain value, the same for every backend. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/mem.h"

#define SESSION_NAME_MAX   255
#define SESSION_MOUNTS_MAX 30
#define SESSION_MOUNT_PATH "/workspace"

/* LangBot's name for its own image; here it means the host's /usr, like "host". */
#define SESSION_IMAGE_DEFAULT "rockchin/langbot-sandbox:latest"

#define MOUNT_MODES(X) \
    X(NONE, "none")    \
    X(RO, "ro")        \
    X(RW, "rw")

enum mount_mode {
#define X(name, text) MOUNT_##name,
    MOUNT_MODES(X)
#undef X
        MOUNT_MODE_MAX,
    MOUNT_MODE_INVALID = -1,
};

const char *mount_mode_name(enum mount_mode mode);
enum mount_mode mount_mode_from_name(const char *name);

struct session_mount {
    char *host_path;
    char *mount_path;
    enum mount_mode mode;
    bool of_store; /* a skill's package: found by boxd, so that no allowed root need hold it */
};

/* What a session that is there may have otherwise than it is asked for. */
#define SPEC_FIELDS(X)                          \
    X(NETWORK, "network")                       \
    X(IMAGE, "image")                           \
    X(HOST_PATH, "host_path")                   \
    X(HOST_PATH_MODE, "host_path_mode")         \
    X(MOUNT_PATH, "mount_path")                 \
    X(PERSISTENT, "persistent")                 \
    X(CPUS, "cpus")                             \
    X(MEMORY_MB, "memory_mb")                   \
    X(PIDS_LIMIT, "pids_limit")                 \
    X(READ_ONLY_ROOTFS, "read_only_rootfs")     \
    X(WORKSPACE_QUOTA_MB, "workspace_quota_mb") \
    X(EXTRA_MOUNTS, "extra_mounts")             \
    X(SKILLS, "skills") /* which are mounts, too */

enum spec_field {
#define X(name, text) SPEC_##name,
    SPEC_FIELDS(X)
#undef X
        SPEC_FIELD_MAX,
};

const char *spec_field_name(enum spec_field field);

struct session_spec {
    char *name; /* session_id: not empty, at most SESSION_NAME_MAX bytes, no control characters */
    char *image;
    bool network;
    char *host_path; /* NULL: none */
    enum mount_mode host_path_mode;
    char *mount_path;
    struct session_mount mounts[SESSION_MOUNTS_MAX]; /* extra_mounts */
    size_t mount_count;
    bool persistent;
    double cpus;
    uint64_t memory_mb;
    uint32_t pids_limit;
    bool read_only_rootfs;
    uint64_t workspace_quota_mb; /* 0: none */
    /* How it is asked for and made, not what it is: not compared, not remembered. */
    uint32_t named; /* bits by enum spec_field: only these must be as asked for in a session that is
                       there already */
    bool recreate;  /* one with other mounts is made anew; false: SESSION_CONFLICT */
    struct strings skills; /* names in the skill store: whoever asks the runtime has made mounts of
                              them before */
    bool own_host_path;    /* boxd's own choice, so that no allowed root need hold it */
    bool make_host_path;   /* a host_path that is not there is made, below an allowed root */
};

/* WIRE's defaults: no name, 1 CPU, 512 MiB, 128 processes, read-only, network off. */
void session_spec_init(struct session_spec *spec);
void session_spec_release(struct session_spec *spec);
void session_spec_copy(struct session_spec *to, const struct session_spec *from);
/* Forms and ranges, with messages that name the field; touches no file. */
int session_spec_check(const struct session_spec *spec, struct error *err);
