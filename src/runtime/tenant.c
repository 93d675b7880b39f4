/* SPDX-License-Identifier: Apache-2.0 */
/* The fence: which generation of each workspace holds, and the end of everything older.

   What must not happen is that something of an old generation comes to be after the fence has
   moved. Requests cannot, because their leases are gone; what they had asked of the runtime and
   still waits there cannot either, because a guard is asked at the moment a session is made. So
   once the sessions that are there have ended, there will be no more. */
#include "runtime/tenant.h"

#include <string.h>

#include "runtime/internal.h"
#include "runtime/spaces.h"

struct tenant {
    struct space space;
    uint64_t generation;           /* which holds */
    struct list leases;            /* that are held, all of that generation */
    struct retirement *retirement; /* NULL: nothing has to be waited for */
};

/* The sessions of other generations are being ended. It outlives the fence if need be. */
struct retirement {
    struct tenant *tenant; /* NULL: nobody waits for it any more */
    char space[TENANT_NAMESPACE_SIZE];
    uint64_t generation; /* which stays */
    struct list waiting; /* leases, all of that generation */
};

struct tenants {
    struct runtime *runtime;
    struct spaces spaces;
    size_t max;
    struct runtime_guard guard;
};

static struct tenant *find(const struct tenants *tenants, const char *space)
{
    return (struct tenant *)spaces_find(&tenants->spaces, space);
}

static int stale(struct error *err)
{
    return error_set(err, ERROR_FORBIDDEN, "this generation of the workspace does not hold");
}

/* --- the fence as a whole --------------------------------------------------------------------- */

static int may_create(void *data, const char *name, struct error *err)
{
    struct tenant_name parts;
    if (!tenant_name_parse(name, &parts))
        return 0;
    const struct tenant *tenant = find(data, parts.space);
    return tenant && tenant->generation == parts.generation ? 0 : stale(err);
}

struct tenants *tenants_new(struct runtime *runtime, size_t max)
{
    struct tenants *tenants = xcalloc(1, sizeof *tenants);
    tenants->runtime = runtime;
    tenants->max = max;
    spaces_init(&tenants->spaces);
    tenants->guard = (struct runtime_guard){.may_create = may_create, .data = tenants};
    runtime_add_guard(runtime, &tenants->guard);
    return tenants;
}

void tenants_set_max(struct tenants *tenants, size_t max)
{
    tenants->max = max;
}

/* All of them, those that are waited for too. A retirement under way is then nobody's. */
static void take_leases(struct tenant *tenant, struct list *ret)
{
    list_take(ret, &tenant->leases);
    if (!tenant->retirement)
        return;
    struct list *waiting = &tenant->retirement->waiting;
    while (!list_empty(waiting)) {
        struct list *first = waiting->next;
        list_remove(first);
        list_append(ret, first);
    }
    tenant->retirement->tenant = NULL;
    tenant->retirement = NULL;
}

static void tenant_free(struct space *space)
{
    struct tenant *tenant = (struct tenant *)space;
    struct list leases;
    take_leases(tenant, &leases);
    while (!list_empty(&leases))
        tenant_release(list_entry(leases.next, struct tenant_lease, link));
    free(tenant);
}

void tenants_free(struct tenants *tenants)
{
    if (!tenants)
        return;
    runtime_remove_guard(tenants->runtime, &tenants->guard);
    spaces_release(&tenants->spaces, tenant_free);
    free(tenants);
}

/* --- leases ----------------------------------------------------------------------------------- */

/* With `done` it is only waited for. */
static void lease_put(struct tenant_lease *lease, struct tenant *tenant, tenant_entered done,
                      struct list *list)
{
    lease->tenant = tenant;
    lease->done = done;
    list_append(list, &lease->link);
}

void tenant_release(struct tenant_lease *lease)
{
    if (!lease->tenant)
        return;
    list_remove(&lease->link);
    lease->tenant = NULL;
    lease->done = NULL;
}

/* Whoever is told may release others or enter anew: so each is out of the list before it is told.
 */
static void leases_end(struct list *leases, const struct error *err)
{
    while (!list_empty(leases)) {
        struct tenant_lease *lease = list_entry(leases->next, struct tenant_lease, link);
        tenant_entered waiting = lease->done;
        tenant_release(lease);
        if (waiting)
            waiting(lease, err);
        else
            lease->revoked(lease);
    }
}

/* --- retiring --------------------------------------------------------------------------------- */

static bool is_old(const struct session *session, void *data)
{
    const struct retirement *retirement = data;
    struct tenant_name parts;
    return tenant_name_parse(session_name(session), &parts) &&
           strcmp(parts.space, retirement->space) == 0 &&
           parts.generation != retirement->generation;
}

static void admit(struct tenant *tenant, uint64_t generation, struct list *waiting)
{
    struct error err;
    while (!list_empty(waiting) && tenant->generation == generation) {
        struct tenant_lease *lease = list_entry(waiting->next, struct tenant_lease, link);
        tenant_entered done = lease->done;
        list_remove(&lease->link);
        lease_put(lease, tenant, NULL, &tenant->leases);
        done(lease, NULL);
    }
    /* One of those who were let in has moved the fence. */
    stale(&err);
    leases_end(waiting, &err);
}

static void on_retired(void *data, const struct error *err)
{
    struct retirement *retirement = data;
    struct tenant *tenant = retirement->tenant;
    uint64_t generation = retirement->generation;
    struct list waiting;
    list_take(&waiting, &retirement->waiting);
    free(retirement);
    if (!tenant)
        return;
    tenant->retirement = NULL;
    if (err)
        leases_end(&waiting, err);
    else
        admit(tenant, generation, &waiting);
}

static void retire(struct tenants *tenants, struct tenant *tenant, const char *space)
{
    struct retirement *retirement = xmalloc(sizeof *retirement);
    bool any = false;
    *retirement = (struct retirement){.tenant = tenant, .generation = tenant->generation};
    memcpy(retirement->space, space, sizeof retirement->space);
    list_init(&retirement->waiting);
    list_each(at, &tenants->runtime->sessions)
    {
        any = any || is_old(list_entry(at, struct session, link), retirement);
    }
    if (!any) { /* nobody has to wait */
        free(retirement);
        return;
    }
    tenant->retirement = retirement;
    runtime_delete_sessions(tenants->runtime, is_old, on_retired, retirement);
}

/* --- moving it -------------------------------------------------------------------------------- */

static struct tenant *tenant_new(struct tenants *tenants, const char *space, struct error *err)
{
    if (tenants->spaces.count >= tenants->max) {
        error_set(err, ERROR_FORBIDDEN, "%zu workspaces are known, and no more may be",
                  tenants->spaces.count);
        error_hint(err,
                   "raise limits.max_admission_records; a restart forgets those that are gone");
        return NULL;
    }
    struct tenant *tenant = xcalloc(1, sizeof *tenant);
    list_init(&tenant->leases);
    spaces_add(&tenants->spaces, &tenant->space, space);
    return tenant;
}

/* The tenant, whose generation is now that of the context; NULL: refused. The leases that this has
   made void are in `ret_old`, for leases_end(). */
static struct tenant *move(struct tenants *tenants, const struct tenant_context *context,
                           struct list *ret_old, struct error *err)
{
    char space[TENANT_NAMESPACE_SIZE];
    tenant_namespace(context->instance, context->workspace, space);
    struct tenant *tenant = find(tenants, space);
    list_init(ret_old);
    if (!tenant)
        tenant = tenant_new(tenants, space, err);
    if (!tenant || tenant->generation == context->generation)
        return tenant;
    if (tenant->generation > context->generation) {
        stale(err);
        return NULL;
    }
    take_leases(tenant, ret_old);
    tenant->generation = context->generation;
    retire(tenants, tenant, space);
    return tenant;
}

/* Those who are told may release this lease too, and with it go the lease and the context; or they
   may move the fence once more. */
void tenant_enter(struct tenants *tenants, const struct tenant_context *context,
                  struct tenant_lease *lease, tenant_entered done)
{
    uint64_t generation = context->generation;
    struct error err = ERROR_INIT;
    struct list old, entering;
    struct tenant *tenant = move(tenants, context, &old, &err);
    if (!tenant)
        return done(lease, &err);
    list_init(&entering);
    lease_put(lease, tenant, done, &entering);
    stale(&err);
    leases_end(&old, &err);
    if (list_empty(&entering))
        return;
    list_remove(&lease->link);
    if (tenant->generation != generation) {
        lease->tenant = NULL;
        return done(lease, &err);
    }
    if (tenant->retirement)
        return lease_put(lease, tenant, done, &tenant->retirement->waiting);
    lease_put(lease, tenant, NULL, &tenant->leases);
    done(lease, NULL);
}

struct search {
    const char *space;
    uint64_t newest; /* generation; 0: none */
};

static void look_at(struct session *session, void *data)
{
    struct search *search = data;
    struct tenant_name parts;
    if (tenant_name_parse(session_name(session), &parts) &&
        strcmp(parts.space, search->space) == 0 && parts.generation > search->newest)
        search->newest = parts.generation;
}

/* Nothing has been heard of the workspace, but the newest that an earlier boxd left of it is of
   just this generation. */
static bool was_left(struct tenants *tenants, const char *space, uint64_t generation)
{
    struct search search = {.space = space};
    runtime_each_session(tenants->runtime, look_at, &search);
    return search.newest == generation;
}

int tenant_join(struct tenants *tenants, const struct tenant_context *context,
                struct tenant_lease *lease, struct error *err)
{
    char space[TENANT_NAMESPACE_SIZE];
    tenant_namespace(context->instance, context->workspace, space);
    struct tenant *tenant = find(tenants, space);
    if (!tenant && was_left(tenants, space, context->generation)) {
        if (tenant_observe(tenants, context, err) < 0)
            return -1;
        tenant = find(tenants, space);
    }
    if (!tenant || tenant->generation != context->generation)
        return stale(err);
    lease_put(lease, tenant, NULL, &tenant->leases);
    return 0;
}

int tenant_observe(struct tenants *tenants, const struct tenant_context *context, struct error *err)
{
    struct error why;
    struct list old;
    if (!move(tenants, context, &old, err))
        return -1;
    stale(&why);
    leases_end(&old, &why);
    return 0;
}
