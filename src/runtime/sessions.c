/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as a whole: who has a say before one is made, the end of many, and what runs them. */
#include "runtime/internal.h"

/* --- guards ----------------------------------------------------------------------------------- */

void runtime_add_guard(struct runtime *runtime, struct runtime_guard *guard)
{
    guard->next = runtime->guards;
    runtime->guards = guard;
}

void runtime_remove_guard(struct runtime *runtime, struct runtime_guard *guard)
{
    struct runtime_guard **at = &runtime->guards;
    while (*at && *at != guard)
        at = &(*at)->next;
    if (*at)
        *at = guard->next;
}

int guards_ask(const struct runtime *runtime, const char *name, struct error *err)
{
    for (const struct runtime_guard *guard = runtime->guards; guard; guard = guard->next) {
        if (guard->may_create(guard->data, name, err) < 0)
            return -1;
    }
    return 0;
}

/* --- ending many ------------------------------------------------------------------------------ */

struct sweep {
    unsigned left;     /* deletions that are under way */
    struct error *err; /* the first that went wrong; NULL: none */
    backend_done done;
    void *data;
};

static void on_deleted(void *data, const struct error *err)
{
    struct sweep *sweep = data;
    if (err && !sweep->err)
        sweep->err = error_copy(err);
    if (--sweep->left > 0)
        return;
    sweep->done(sweep->data, sweep->err);
    free(sweep->err);
    free(sweep);
}

static void sweep_session(struct sweep *sweep, struct session *session)
{
    struct error err;
    error_set(&err, ERROR_GONE, "session '%s' was deleted meanwhile", session->spec.name);
    openings_fail(&session->after, &err);
    sweep->left++;
    session_delete(session, on_deleted, sweep);
}

void runtime_delete_sessions(struct runtime *runtime,
                             bool (*wanted)(const struct session *session, void *data),
                             backend_done done, void *data)
{
    struct error err;
    struct sweep *sweep = xcalloc(1, sizeof *sweep);
    sweep->done = done;
    sweep->data = data;
    /* One more, which comes from the loop in any case: none may be wanted. */
    struct list first;
    list_init(&first);
    deletion_new(runtime, &first, on_deleted, sweep);
    sweep->left = 1;
    error_set(&err, ERROR_UNAVAILABLE, "boxd is stopping");
    deletions_tell(&first, runtime->stopping ? &err : NULL);
    if (runtime->stopping)
        return;
    list_each_safe(at, after, &runtime->sessions)
    {
        struct session *session = list_entry(at, struct session, link);
        if (!wanted || wanted(session, data))
            sweep_session(sweep, session);
    }
}

/* --- another backend -------------------------------------------------------------------------- */

int runtime_set_backend(struct runtime *runtime, struct backend *backend, struct error *err)
{
    if (runtime->stopping)
        return error_set(err, ERROR_UNAVAILABLE, "boxd is stopping");
    if (!list_empty(&runtime->sessions) || runtime->unfinished > 0 || runtime->recovering > 0) {
        error_set(err, ERROR_CAPACITY, "the backend cannot change while there are sessions (%zu)",
                  runtime->table.count);
        return error_hint(err, "delete all sessions first");
    }
    runtime->backend = backend;
    runtime->ops = backend->ops;
    return 0;
}
