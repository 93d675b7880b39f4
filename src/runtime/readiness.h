/* SPDX-License-Identifier: Apache-2.0 */
/* Whether sandboxes here are what a shared deployment must be able to rely on: each check is tried
   on a real session, not believed. The result is kept for as long as the policy says; those who ask
   meanwhile wait for the trial under way. */
#pragma once

#include "core/error.h"
#include "runtime/admission.h"
#include "runtime/runtime.h"

#define READINESS_SESSION "boxd-readiness-" /* what names of its sessions begin with */
/* Where it tries storage, below the roots: ROOTS_TRIAL_DIRECTORY. */
#define READINESS_DIRECTORY ".boxd-readiness"

/* In the order in which they are shown. */
#define READINESS_CHECKS(X)                                   \
    X(CONFIGURATION, "configuration")                         \
    X(REQUIRED_BACKEND, "required_backend")                   \
    X(WORKSPACE_MOUNT, "workspace_mount")                     \
    X(BACKEND_AVAILABLE, "backend_available")                 \
    X(CGROUP_V2, "cgroup_v2")                                 \
    X(NAMESPACE_ISOLATION, "namespace_isolation")             \
    X(MOUNT_ISOLATION, "mount_isolation")                     \
    X(NETWORK_ISOLATION, "network_isolation")                 \
    X(HARD_WORKSPACE_QUOTA, "hard_workspace_quota")           \
    X(HARD_SKILL_STORAGE_QUOTA, "hard_skill_storage_quota")   \
    X(BOUNDED_EPHEMERAL_STORAGE, "bounded_ephemeral_storage") \
    X(INODE_QUOTA, "inode_quota")                             \
    X(SESSION_CAP, "session_cap")                             \
    X(MANAGED_PROCESS_CAP, "managed_process_cap")

enum readiness_check {
#define X(name, text) READINESS_##name,
    READINESS_CHECKS(X)
#undef X
        READINESS_MAX,
};
const char *readiness_name(enum readiness_check check);
/* Whether a session of this name is one of its own. Nobody else may make one: what ends all
   sessions leaves them alone. */
bool readiness_owns(const char *session);

struct readiness_result {
    bool ready; /* all of them */
    struct {
        bool ok;
        char reason[256]; /* why not, and what would help; "" if ok */
    } checks[READINESS_MAX];
};

struct readiness_setup {
    const struct admission_policy *policy;
    const char *workspace_root; /* default_workspace; NULL: none is configured */
    const char *skills_root;    /* NULL: none */
};

struct readiness;
struct readiness *readiness_new(struct runtime *runtime);
/* Nobody may be waiting; a trial under way is called off. Before the runtime is freed. */
void readiness_free(struct readiness *readiness);
/* The configuration has changed: what is kept does not count any more, nor what a trial under way
   will find, but for those who asked for it before. */
void readiness_forget(struct readiness *readiness);
/* `done` with the result, valid until it returns; before this returns if one is kept. To be called
   off by readiness_cancel() with the same `data`. */
void readiness_ask(struct readiness *readiness, const struct readiness_setup *setup,
                   void (*done)(void *data, const struct readiness_result *result), void *data);
void readiness_cancel(struct readiness *readiness, void *data);
