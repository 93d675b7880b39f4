/* SPDX-License-Identifier: Apache-2.0 */
/* A skill store that is open, and what bounds each of its scopes: boxd's own count in any case, and
   where the file system can, a hard limit that also holds for sessions with a package mounted
   writable. The limit is asked for once for each scope, before the first that writes to it, and
   again when the quota has changed. */
#pragma once

#include <stdatomic.h>
#include <sys/queue.h>
#include <uv.h>

#include "backend/backend.h"
#include "skills/skills.h"

enum bound_state {
    BOUND_UNKNOWN, /* never asked for, or the quota is another since */
    BOUND_ASKING,
    BOUND_NONE, /* there is no quota */
    BOUND_HARD,
    BOUND_COUNTED, /* the file system cannot: by boxd alone */
    BOUND_FAILED,  /* it could, but that did not work: by boxd alone */
};

/* What is known of one scope. */
struct bound {
    TAILQ_ENTRY(bound) link; /* the one that was looked up last comes first */
    char *tenant;            /* NULL: the store outside tenants */
    enum bound_state state;
    bool known;           /* it has been BOUND_HARD */
    uint64_t quota_bytes; /* that the state is about */
    struct error err;     /* of BOUND_FAILED; kept to be told once */
    uint64_t retry_ns;    /* BOUND_FAILED: until then, on the monotonic clock */
};

/* Who asks, on whose behalf limits are set; there until its last `done`. */
struct bound_asker {
    uv_loop_t *loop;
    struct backend *backend; /* NULL: all is over, and no more is asked of it */
    void (*done)(void *data);
    void *data;
};

/* Held by the configuration, jobs and questions under way. */
struct store {
    struct skill_store *store; /* NULL: it could not be opened, and `err` says why */
    struct error err;
    atomic_uint_fast64_t quota_bytes; /* read by the pool's threads */
    unsigned holds;
    TAILQ_HEAD(bounds, bound) bounds;
    unsigned bound_count;
    enum bound_state latest;   /* of all */
    char told[ERROR_TEXT_MAX]; /* why it is only counted, as the log has it */
};

struct store *store_open(const char *root, uint64_t quota_bytes);
struct store *store_hold(struct store *store); /* NULL: NULL */
void store_drop(struct store *store);

/* Its tenant's or, with NULL, that of the store outside; never NULL. Not forgotten while it is
   BOUND_ASKING. */
struct bound *bound_find(struct store *store, const char *tenant);
/* BOUND_UNKNOWN also of what was found out for another quota, or failed some time ago. */
enum bound_state bound_state(const struct store *store, const struct bound *bound);
/* One whose limit is not that of the quota any more; NULL: none. */
struct bound *bound_outdated(struct store *store);
/* Asks for the limit; the asker's `done`, once and never before this returns, when the state is
   known. */
void bound_ask(struct store *store, struct bound *bound, const struct bound_asker *asker);
/* "hard", "counted", "none", or NULL if nobody has written yet. */
const char *bound_name(const struct store *store);
/* An error of BOUND_FAILED for who is not served without a hard limit. */
int bound_refuse(const struct bound *bound, struct error *err);
