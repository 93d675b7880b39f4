/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a session is. A LangBot instance serves workspaces; each is a tenant, known here by a
   namespace that is a hash of both ids. What a tenant calls `x` is the session
   `<namespace>-g<generation>-x`, so that tenants cannot name each other's, and neither can who has
   no tenancy: names of that form are nobody else's to give.

   A workspace may be moved to another host, and each move raises its generation. The fence: the
   highest generation seen of a workspace is the one that holds; a request of a lower one is
   refused, and when a higher one comes, everything of the lower ones ends at once. A lease is what
   a request or a relay holds while it is under way, to be told. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "runtime/list.h"
#include "runtime/runtime.h"

#define TENANT_NAMESPACE_SIZE 28 /* "ws-", 24 hex digits, NUL */
#define TENANT_ID_MAX         256

/* Who asks: checked, and borrowed from the request. */
struct tenant_context {
    const char *instance;
    const char *workspace;
    uint64_t generation; /* at least 1 */
};

/* A name of a tenant's session, taken apart. */
struct tenant_name {
    char space[TENANT_NAMESPACE_SIZE];
    uint64_t generation;
    const char *logical; /* in the name that was given */
};

void tenant_namespace(const char *instance, const char *workspace, char ret[TENANT_NAMESPACE_SIZE]);
/* The name of a tenant's session: white space around `logical` goes, runs of other characters than
   letters, digits, '_', '.', '-' become one '-', and '-' at both ends goes. ERROR_INVALID if
   nothing is left or it is too long. The caller frees. */
char *tenant_session_name(const struct tenant_context *context, const char *logical,
                          struct error *err);
/* Whether it is one; then `ret` (may be NULL) is filled. */
bool tenant_name_parse(const char *name, struct tenant_name *ret);
/* Whether it is one of exactly this placement: workspace and generation. */
bool tenant_owns(const struct tenant_context *context, const char *name);

/* --- the fence --- */

struct tenants;
struct tenant;

struct tenant_lease;
typedef void (*tenant_entered)(struct tenant_lease *lease, const struct error *err);

/* To begin with all zero, but for `revoked`. */
struct tenant_lease {
    struct list link;      /* with the others of its tenant */
    struct tenant *tenant; /* NULL: neither held nor waited for */
    tenant_entered done;   /* while it is waited for; NULL: it is held */
    /* A newer generation has come: end what you stand for, now. Called once; the lease is no longer
       held. */
    void (*revoked)(struct tenant_lease *lease);
};

/* `max`: workspaces that are remembered; more are refused. From now on the runtime makes sessions
   of tenant names only for the generation that holds. The runtime must outlive it, and nobody may
   hold a lease when it is freed. */
struct tenants *tenants_new(struct runtime *runtime, size_t max);
void tenants_set_max(struct tenants *tenants, size_t max);
void tenants_free(struct tenants *tenants);

/* A request comes: the fence is moved if it is of a newer generation (or the workspace is new here:
   sessions may be left of an earlier boxd), which revokes leases and ends sessions of others.
   `done` when those are gone: with err NULL the lease is held, else it is ERROR_FORBIDDEN (an old
   generation, also one that became old while it waited; or too many workspaces), or why a session
   could not be ended. Called before this returns if nothing has to be waited for. While it waits,
   tenant_release() calls it off. */
void tenant_enter(struct tenants *tenants, const struct tenant_context *context,
                  struct tenant_lease *lease, tenant_entered done);
/* Also of one that is not held. */
void tenant_release(struct tenant_lease *lease);
/* For what must not move the fence (a relay): ERROR_FORBIDDEN unless this is the generation that
   holds. The lease is held then. */
int tenant_join(struct tenants *tenants, const struct tenant_context *context,
                struct tenant_lease *lease, struct error *err);
/* Moves the fence and begins to retire, without a lease: a grant of a newer generation came. */
int tenant_observe(struct tenants *tenants, const struct tenant_context *context,
                   struct error *err);
