/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as things: the table that finds them by name, who holds them, and when they are idle. */
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"

static const char *const state_names[SESSION_STATE_MAX] = {
#define X(name, text) [SESSION_##name] = text,
    SESSION_STATES(X)
#undef X
};

const char *session_state_name(enum session_state state)
{
    return (unsigned)state < SESSION_STATE_MAX ? state_names[state] : "unknown";
}

/* --- the table -------------------------------------------------------------------------------- */

/* FNV-1a from a random start: names come from strangers, who could otherwise pick ones that
 * collide. */
uint64_t table_hash(const struct table *table, const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ table->seed;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash ^ (hash >> 32);
}

struct session *table_find(const struct table *table, const char *name)
{
    if (table->size == 0)
        return NULL;
    uint64_t hash = table_hash(table, name);
    struct session *session = table->buckets[hash & (table->size - 1)];
    while (session && (session->hash != hash || strcmp(session->spec.name, name) != 0))
        session = session->chain;
    return session;
}

static void link_in(struct table *table, struct session *session)
{
    struct session **bucket = &table->buckets[session->hash & (table->size - 1)];
    session->chain = *bucket;
    *bucket = session;
}

static void grow(struct table *table)
{
    struct table old = *table;
    table->size = old.size ? old.size * 2 : 64;
    table->buckets = xcalloc(table->size, sizeof *table->buckets);
    for (size_t i = 0; i < old.size; i++) {
        for (struct session *session = old.buckets[i], *next; session; session = next) {
            next = session->chain;
            link_in(table, session);
        }
    }
    free(old.buckets);
}

void table_add(struct table *table, struct session *session)
{
    if (table->count >= table->size)
        grow(table);
    session->hash = table_hash(table, session->spec.name);
    link_in(table, session);
    table->count++;
}

void table_remove(struct table *table, struct session *session)
{
    struct session **at = &table->buckets[session->hash & (table->size - 1)];
    while (*at && *at != session)
        at = &(*at)->chain;
    if (!*at)
        return;
    *at = session->chain;
    table->count--;
}

/* --- making and letting go -------------------------------------------------------------------- */

static void on_free(struct task *task)
{
    struct session *session = list_entry(task, struct session, free_task);
    session_spec_release(&session->spec);
    exec_log_release(&session->log);
    if (session->backend_record)
        json_decref(session->backend_record);
    free(session->backend_id);
    free(session->notes);
    free(session->fail);
    alarm_free(&session->idle);
    free(session);
}

static void on_idle(void *owner)
{
    struct session *session = owner;
    session->idle_set = false;
    if (session->state == SESSION_LIVE || session->state == SESSION_BROKEN)
        session_finish(session, SESSION_END_REAPED);
}

struct session *session_new(struct runtime *runtime, const struct session_spec *spec,
                            const char *key, const char *actor)
{
    struct session *session = xcalloc(1, sizeof *session);
    session->runtime = runtime;
    session->holds = 1;
    session_spec_copy(&session->spec, spec);
    snprintf(session->key, sizeof session->key, "%s", key);
    snprintf(session->actor, sizeof session->actor, "%s", actor);
    session->state = SESSION_STARTING;
    session->created_us = session->last_used_us = runtime_now_us();
    session->began_ns = uv_hrtime();
    session->next_number = 1;
    session->next_keep = 1;
    session->idle = alarm_new(runtime, on_idle, session);
    struct list *lists[] = {&session->openings,      &session->after,      &session->deletions,
                            &session->serial,        &session->concurrent, &session->running,
                            &session->processes,     &session->terminals,  &session->files,
                            &session->record_waiters};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        list_init(lists[i]);
    exec_log_init(&session->log);
    task_init(&session->free_task, on_free);
    task_init(&session->gone_task, session_on_gone);
    task_init(&session->broken_task, session_on_broken);
    list_append(&runtime->sessions, &session->link);
    table_add(&runtime->table, session);
    return session;
}

void session_hold(struct session *session)
{
    session->holds++;
}

void session_release(struct session *session)
{
    if (--session->holds > 0)
        return;
    if (session->runtime->loop_ready)
        task_later(session->runtime, &session->free_task);
    else
        on_free(&session->free_task);
}

void session_close_handles(struct session *session)
{
    alarm_free(&session->idle);
    list_each(at, &session->processes) process_close_handles(list_entry(at, struct process, link));
}

void session_discard(struct session *session)
{
    session_forget_processes(session);
    session_release(session);
}

/* --- idleness --------------------------------------------------------------------------------- */

static bool is_idle(const struct session *session)
{
    if (session->state != SESSION_LIVE && session->state != SESSION_BROKEN)
        return false;
    return !session->spec.persistent && session->busy == 0 && session->waiting == 0 &&
           list_empty(&session->deletions);
}

void session_settle(struct session *session)
{
    bool idle = !session->runtime->stopping && is_idle(session);
    if (idle == session->idle_set)
        return;
    session->idle_set = idle;
    if (idle)
        alarm_set(session->idle, session->runtime->config.session_ttl_ms);
    else
        alarm_clear(session->idle);
}

void session_touch(struct session *session)
{
    session->last_used_us = runtime_now_us();
    if (session->idle_set)
        alarm_set(session->idle, session->runtime->config.session_ttl_ms);
}

void session_busy(struct session *session)
{
    session->busy++;
    session->last_used_us = runtime_now_us();
    session_settle(session);
}

void session_rest(struct session *session)
{
    session->busy--;
    session->last_used_us = runtime_now_us();
    session_settle(session);
}

/* --- looking ---------------------------------------------------------------------------------- */

int session_usable(const struct session *session, struct error *err)
{
    if (session->runtime->stopping)
        return error_set(err, ERROR_UNAVAILABLE, "boxd is stopping");
    if (session->gone || session->state == SESSION_ENDING)
        return error_set(err, ERROR_NO_SESSION, "session '%s' has ended", session->spec.name);
    if (session->state == SESSION_BROKEN) {
        error_set(err, ERROR_GONE, "the sandbox of session '%s' ended by itself",
                  session->spec.name);
        return error_hint(err, "create the session again: it is made anew under its name");
    }
    return 0;
}

struct session *runtime_find_session(struct runtime *runtime, const char *name)
{
    struct session *session = table_find(&runtime->table, name);
    return session && session->state != SESSION_ENDING ? session : NULL;
}

void runtime_each_session(struct runtime *runtime,
                          void (*visit)(struct session *session, void *data), void *data)
{
    list_each_safe(at, after, &runtime->sessions)
    {
        struct session *session = list_entry(at, struct session, link);
        if (session->state != SESSION_ENDING)
            visit(session, data);
    }
}

enum session_state session_state(const struct session *session)
{
    return session->gone ? SESSION_ENDING : session->state;
}

const struct session_spec *session_spec(const struct session *session)
{
    return &session->spec;
}

const char *session_name(const struct session *session)
{
    return session->spec.name;
}

const char *session_backend_id(const struct session *session)
{
    if (session->backend_id)
        return session->backend_id;
    /* One that is being made, or taken over. */
    return session->backend ? session->runtime->ops->id(session->backend) : "";
}

const char *session_notes(const struct session *session)
{
    return session->notes ? session->notes : "";
}

int64_t session_created_us(const struct session *session)
{
    return session->created_us;
}

int64_t session_last_used_us(const struct session *session)
{
    return session->last_used_us;
}

unsigned session_running(const struct session *session)
{
    unsigned count = session->waiting;
    list_each(at, &session->running) count++;
    return count;
}

bool session_startable(const struct session *session)
{
    return session->backend && !session->recovering && session->state != SESSION_ENDING &&
           !session->runtime->stopping;
}

void session_kick(struct session *session)
{
    session_dispatch(session);
    list_each_safe(at, after, &session->processes)
    {
        struct process *process = list_entry(at, struct process, link);
        if (process->state == PROCESS_WAITING && session_startable(session))
            process_begin(process);
    }
    session_kick_terminals(session);
    if (session->state == SESSION_LIVE)
        session_kick_files(session);
}

/* --- usage ------------------------------------------------------------------------------------ */

struct usage_refusal {
    struct task task;
    void (*done)(void *data, const struct backend_usage *usage, const struct error *err);
    void *data;
    struct error err;
};

static void on_refusal(struct task *task)
{
    struct usage_refusal *refusal = list_entry(task, struct usage_refusal, task);
    refusal->done(refusal->data, NULL, &refusal->err);
    free(refusal);
}

void session_usage(struct session *session,
                   void (*done)(void *data, const struct backend_usage *usage,
                                const struct error *err),
                   void *data)
{
    struct error err = ERROR_INIT;
    if (session_usable(session, &err) == 0 && session->state != SESSION_LIVE)
        error_set(&err, ERROR_UNAVAILABLE, "session '%s' is being made", session->spec.name);
    if (err.code == ERROR_NONE) {
        session->runtime->ops->usage(session->backend, done, data);
        return;
    }
    struct usage_refusal *refusal = xcalloc(1, sizeof *refusal);
    refusal->done = done;
    refusal->data = data;
    refusal->err = err;
    task_init(&refusal->task, on_refusal);
    task_later(session->runtime, &refusal->task);
}
