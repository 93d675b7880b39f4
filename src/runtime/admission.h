/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use sandboxes at all, in a deployment that shares them: a workspace needs a grant, which
   is short-lived and can be taken back for good. This is the book of grants and the rules of what
   may be written into it; whoever keeps the book ends the sessions of those who lose theirs. No
   I/O, no clock of its own: times are microseconds since 1970.

   Revisions and generations never go back, limits are fixed for a revision, and a revocation is
   final for its revision; the book remembers that after a grant is gone, for at most so many
   workspaces, and refuses new ones beyond that instead of forgetting. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/spec.h"
#include "core/error.h"
#include "runtime/tenant.h"

/* What the operator lays down; DESIGN and WIRE name the keys. */
struct admission_policy {
    bool required;
    char *
        problem; /* why it is not usable: a malformed section means required, and not ready; NULL */
    uint32_t max_sessions;          /* of a workspace: 0 or 1 */
    uint32_t max_managed_processes; /* 0 */
    uint32_t max_grant_ttl_sec;
    uint32_t max_timeout_sec;
    double cpus;
    uint64_t memory_mb;
    uint32_t pids_limit;
    bool read_only_rootfs;
    uint64_t workspace_quota_mb;
    uint32_t readiness_cache_sec;
};

#define ADMISSION_SESSION "global" /* what every workspace's one session is called */

void admission_policy_init(struct admission_policy *policy); /* not required, WIRE's defaults */
void admission_policy_release(struct admission_policy *policy);
/* Either may be NULL. */
bool admission_policy_same(const struct admission_policy *a, const struct admission_policy *b);
void admission_policy_copy(struct admission_policy *to, const struct admission_policy *from);

struct admission_grant {
    char *instance;
    char *workspace;
    uint64_t generation;
    uint64_t revision;
    int64_t expires_us;
    uint32_t max_sessions;
    uint32_t max_managed_processes;
};
void admission_grant_release(struct admission_grant *grant);

struct admission;

struct admission *admission_new(size_t max_records);
void admission_free(struct admission *book);
void admission_set_max(struct admission *book, size_t max_records);
/* Once required, always required: a policy that is not leaves the old one and a problem in it. */
void admission_set_policy(struct admission *book, const struct admission_policy *policy);
const struct admission_policy *admission_policy(const struct admission *book);

/* What the caller is to do about the workspace's sessions after a change that was accepted. */
enum admission_effect {
    ADMISSION_KEEP,       /* nothing */
    ADMISSION_END_OTHERS, /* all but the one called ADMISSION_SESSION of the grant's generation */
    ADMISSION_END_ALL,
};

/* ERROR_ADMISSION with the rule that refuses it; ERROR_NOT_READY if the policy has a problem. *ret
   is the grant that holds now (an earlier one if this is a shorter duplicate), until the next
   change. */
int admission_upsert(struct admission *book, const struct admission_grant *grant, int64_t now_us,
                     const struct admission_grant **ret, enum admission_effect *ret_effect,
                     struct error *err);
/* Afterwards all sessions of the workspace end. */
int admission_revoke(struct admission *book, const char *instance, const char *workspace,
                     uint64_t revision, struct error *err);
/* The grant under which this placement may ask, or ERROR_ADMISSION. */
int admission_require(const struct admission *book, const struct tenant_context *context,
                      int64_t now_us, const struct admission_grant **ret, struct error *err);
/* The same for whoever has only the session's name, for struct runtime_guard: a request may have
   waited, and lost its grant meanwhile. Names that are no tenant's, and all of them where nothing
   is required, are not its affair: 0. */
int admission_covers(const struct admission *book, const char *session, int64_t now_us,
                     struct error *err);
/* When the next grant ends; 0: none is there. */
int64_t admission_next_expiry(const struct admission *book);
/* Takes one grant that has expired out of the book; false: there is none. To be called until then;
   the sessions of its workspace end. `ret` is the caller's to release. */
bool admission_expire(struct admission *book, int64_t now_us, struct admission_grant *ret);
/* How many workspaces it remembers, and how many have a grant. */
void admission_count(const struct admission *book, size_t *ret_records, size_t *ret_grants);

/* A spec as the policy has it, or ERROR_ADMISSION if it asks for something else: the one session,
   network off, no mounts but the workspace's own directory, the policy's limits. `workspace_dir` is
   that directory. `workdir` and `*timeout_ms` are the command's (NULL: none); the latter is cut. */
int admission_apply(const struct admission_policy *policy, const struct tenant_context *context,
                    const char *workspace_dir, struct session_spec *spec, const char *workdir,
                    uint64_t *timeout_ms, struct error *err);
