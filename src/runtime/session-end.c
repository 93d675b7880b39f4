/* SPDX-License-Identifier: Apache-2.0 */
/* How sessions come up, break, and end. docs/runtime.md has the table of states and events. */
#include <string.h>

#include "core/log.h"
#include "runtime/internal.h"

static const char *const end_names[] = {
#define X(name, text) [SESSION_END_##name] = text,
    SESSION_ENDS(X)
#undef X
};

static void audit_session(struct session *session, const char *what, const char *outcome)
{
    audit_write(session->runtime->audit, &(struct audit_line){.what = what,
                                                              .actor = session->actor,
                                                              .session = session->spec.name,
                                                              .outcome = outcome});
}

/* --- up --------------------------------------------------------------------------------------- */

void session_announce(struct session *session)
{
    enum runtime_event_type type =
        session->adopted ? RUNTIME_SESSION_ADOPTED : RUNTIME_SESSION_CREATED;
    const char *name = session->spec.name;
    if (session->announced)
        return;
    session->announced = true;
    runtime_emit(session->runtime, type, name, NULL, 0, -1, NULL);
    audit_session(session, runtime_event_name(type), "live");
    log_event(LOG_DEBUG, runtime_event_name(type), LOG_TEXT("session", name),
              LOG_NUMBER("ms", (uv_hrtime() - session->began_ns) / 1000000));
}

static void live(struct session *session)
{
    struct runtime *runtime = session->runtime;
    bool recovering = session->recovering;
    session->recovering = false;
    session->state = SESSION_LIVE;
    if (session->adopted) {
        runtime->stats.sessions_adopted++;
    } else {
        runtime->stats.sessions_created++;
        histogram_add(&runtime->stats.create, (uv_hrtime() - session->began_ns) / 1000);
    }
    session_announce(session);
    if (runtime->config.outlive_seconds > 0) {
        session->outlives = true;
        runtime->ops->outlive(session->backend, runtime->config.outlive_seconds);
    }
    session_hold(session);
    openings_ready(session);
    if (!list_empty(&session->deletions))
        session_finish(session, SESSION_END_DELETED);
    processes_adopted(session);
    if (session->state == SESSION_LIVE)
        session_kick(session);
    session_settle(session);
    if (recovering)
        recover_one_done(runtime);
    session_release(session);
}

static void on_saved(struct record_waiter *waiter, const struct error *err)
{
    struct session *session = list_entry(waiter, struct session, saved);
    if (session->state != SESSION_STARTING)
        return;
    if (!err)
        return live(session);
    /* It would be lost by the next restart, which is not what was asked for. */
    free(session->fail);
    session->fail = error_copy(err);
    session_finish(session, SESSION_END_FAILED);
}

void session_ready(struct session *session, const struct error *err)
{
    const struct backend_ops *ops = session->runtime->ops;
    if (session->state != SESSION_STARTING)
        return;
    if (err) {
        session->backend = NULL;
        session_drop(session, session->adopted ? SESSION_END_LOST : SESSION_END_FAILED, err);
        return;
    }
    session->backend_id = xstrdup(ops->id(session->backend));
    session->notes = xstrdup(ops->notes(session->backend));
    session->backend_record = ops->record(session->backend);
    if (session->adopted && !session->runtime->recover_adopt) {
        openings_again(&session->openings);
        session_finish(session, SESSION_END_DELETED);
        return;
    }
    session->saved.done = on_saved;
    record_save(session, &session->saved);
}

/* --- broken ----------------------------------------------------------------------------------- */

static void on_let_go(void *data, const struct error *err)
{
    struct session *session = data;
    struct runtime *runtime = session->runtime;
    session->destroying = false;
    if (err)
        log_error(LOG_WARN, "session_remains", err, LOG_TEXT("session", session->spec.name));
    if (session->state == SESSION_ENDING)
        session_drop(session, session->end, err);
    session_release(session);
    runtime_check_stop(runtime);
}

static void let_go(struct session *session)
{
    struct backend_session *backend = session->backend;
    session->backend = NULL;
    session->destroying = true;
    session_hold(session);
    session->runtime->ops->destroy(backend, on_let_go, session);
}

void session_on_broken(struct task *task)
{
    struct session *session = list_entry(task, struct session, broken_task);
    if (session->backend && !session->destroying)
        let_go(session);
}

static void fail_all(struct session *session, const struct error *err)
{
    session_fail_executions(session, err);
    session_fail_terminals(session, err);
    session_fail_files(session, err);
    list_each_safe(at, after, &session->processes)
    {
        struct process *process = list_entry(at, struct process, link);
        process_starts_fail(&process->starts, err);
        if (process->state == PROCESS_WAITING)
            process_failed(process, err);
    }
}

static struct process *first_running(const struct session *session)
{
    for (struct list *at = session->processes.next; at != &session->processes; at = at->next) {
        struct process *process = list_entry(at, struct process, link);
        if (process->state != PROCESS_ENDED)
            return process;
    }
    return NULL;
}

/* Nobody says how. Each that ends may make the oldest one forgotten, which is perhaps the next in
   this very list: so each time from the beginning. */
static void end_processes(struct session *session)
{
    struct process *process;
    while ((process = first_running(session)))
        process_ended(process, NULL);
}

void session_lost(struct session *session, const struct error *why)
{
    struct error err;
    if (session->state == SESSION_STARTING) { /* its record was still being written */
        free(session->fail);
        session->fail = error_copy(why);
        session_finish(session, SESSION_END_FAILED);
        return;
    }
    if (session->state != SESSION_LIVE)
        return;
    session->state = SESSION_BROKEN;
    log_error(LOG_WARN, "session_lost", why, LOG_TEXT("session", session->spec.name));
    session_hold(session);
    session_usable(session, &err);
    fail_all(session, &err);
    end_processes(session);
    /* There is nothing left that the next boxd could take over. */
    record_forget(session);
    runtime_emit(session->runtime, RUNTIME_SESSION_LOST, session->spec.name, NULL, 0, -1, NULL);
    audit_session(session, "session_lost", "broken");
    task_later(session->runtime, &session->broken_task);
    session_settle(session);
    session_release(session);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void end_error(const struct session *session, struct error *err)
{
    if (session->runtime->stopping)
        error_set(err, ERROR_UNAVAILABLE, "boxd is stopping");
    else
        error_set(err, ERROR_GONE, "session '%s' was %s meanwhile", session->spec.name,
                  end_names[session->end]);
}

void session_finish(struct session *session, enum session_end end)
{
    if (session->state == SESSION_ENDING)
        return;
    bool begun = session->backend || session->destroying || session->state != SESSION_STARTING;
    struct error err;
    session->state = SESSION_ENDING;
    session->end = end;
    session->began_ns = uv_hrtime();
    session_settle(session);
    end_error(session, &err);
    session_hold(session);
    openings_fail(&session->openings, session->fail ? session->fail : &err);
    fail_all(session, session->fail ? session->fail : &err);
    if (session->backend)
        let_go(session);
    else if (!session->destroying && begun)
        task_later(session->runtime, &session->gone_task);
    /* Not begun: its record is being written, and who waits for that goes on. */
    session_release(session);
}

void session_on_gone(struct task *task)
{
    struct session *session = list_entry(task, struct session, gone_task);
    session_drop(session, session->end, session->fail);
}

void session_drop(struct session *session, enum session_end end, const struct error *err)
{
    session->end = end;
    session->state = SESSION_ENDING;
    if (err && err != session->fail) {
        free(session->fail);
        session->fail = error_copy(err);
    }
    session->record_remove = true;
    record_forget(session);
}

static void tell_end(struct session *session)
{
    struct runtime *runtime = session->runtime;
    const char *name = session->spec.name;
    switch (session->end) {
    case SESSION_END_FAILED:
        runtime->stats.sessions_failed++;
        if (!session->announced) {
            audit_session(session, "session_created", "failed");
            return;
        }
        runtime_emit(runtime, RUNTIME_SESSION_LOST, name, NULL, 0, -1, NULL);
        break;
    case SESSION_END_LOST:
        runtime_emit(runtime, RUNTIME_SESSION_LOST, name, NULL, 0, -1, NULL);
        break;
    case SESSION_END_REAPED:
        runtime->stats.sessions_reaped++;
        runtime_emit(runtime, RUNTIME_SESSION_REAPED, name, NULL, 0, -1, NULL);
        break;
    default:
        runtime_emit(runtime, RUNTIME_SESSION_DELETED, name, NULL, 0, -1, NULL);
        break;
    }
    if (session->end != SESSION_END_LOST)
        histogram_add(&runtime->stats.destroy, (uv_hrtime() - session->began_ns) / 1000);
    audit_session(session, "session_ended", end_names[session->end]);
    log_event(LOG_DEBUG, "session_ended", LOG_TEXT("session", name),
              LOG_TEXT("how", end_names[session->end]));
}

/* The last of a session: nobody finds it any more, and everybody who waited is told. */
void session_gone(struct session *session)
{
    struct runtime *runtime = session->runtime;
    struct error err;
    if (session->gone)
        return;
    end_error(session, &err);
    const struct error *why = session->fail ? session->fail : &err;
    session->gone = true;
    session_settle(session);
    table_remove(&runtime->table, session);
    list_remove(&session->link);
    /* Who waited for one of an earlier boxd gets a new one instead. */
    if (session->end == SESSION_END_LOST)
        openings_again(&session->openings);
    openings_fail(&session->openings, why);
    fail_all(session, why);
    end_processes(session);
    session_forget_processes(session);
    tell_end(session);
    /* One that could not be made is gone as well, which is what was asked for. */
    deletions_tell(&session->deletions,
                   session->end == SESSION_END_FAILED || session->end == SESSION_END_LOST
                       ? NULL
                       : session->fail);
    while (!list_empty(&session->after)) {
        struct opening *opening = list_entry(session->after.next, struct opening, link);
        list_remove(&opening->link);
        task_later(runtime, &opening->task);
    }
    if (session->recovering) {
        session->recovering = false;
        recover_one_done(runtime);
    }
    session_release(session);
    runtime_check_stop(runtime);
}

/* --- deleting --------------------------------------------------------------------------------- */

static void on_deletion(struct task *task)
{
    struct deletion *deletion = list_entry(task, struct deletion, task);
    deletion->done(deletion->data, deletion->err);
    free(deletion->err);
    free(deletion);
}

void deletion_new(struct runtime *runtime, struct list *list, backend_done done, void *data)
{
    struct deletion *deletion = xcalloc(1, sizeof *deletion);
    deletion->runtime = runtime;
    deletion->done = done;
    deletion->data = data;
    task_init(&deletion->task, on_deletion);
    list_append(list, &deletion->link);
}

void deletions_tell(struct list *deletions, const struct error *err)
{
    while (!list_empty(deletions)) {
        struct deletion *deletion = list_entry(deletions->next, struct deletion, link);
        list_remove(&deletion->link);
        deletion->err = err ? error_copy(err) : NULL;
        task_later(deletion->runtime, &deletion->task);
    }
}

void session_delete(struct session *session, backend_done done, void *data)
{
    deletion_new(session->runtime, &session->deletions, done, data);
    if (session->state != SESSION_STARTING)
        session_finish(session, SESSION_END_DELETED);
    session_settle(session);
}

void runtime_delete_session(struct runtime *runtime, const char *name, backend_done done,
                            void *data)
{
    struct session *session = table_find(&runtime->table, name);
    if (!session || runtime->stopping) {
        struct error err;
        if (session)
            error_set(&err, ERROR_UNAVAILABLE, "boxd is stopping");
        else
            error_set(&err, ERROR_NO_SESSION, "there is no session '%.128s'", name);
        struct list list;
        list_init(&list);
        deletion_new(runtime, &list, done, data);
        deletions_tell(&list, &err);
        return;
    }
    session_delete(session, done, data);
}
