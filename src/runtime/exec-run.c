/* SPDX-License-Identifier: Apache-2.0 */
/* Commands while they run, and their results. */
#include <string.h>

#include "core/fd.h"
#include "runtime/internal.h"

/* --- the time-out ----------------------------------------------------------------------------- */

static void on_timeout(void *owner)
{
    struct execution *execution = owner;
    if (execution->process && execution->session->backend &&
        (execution->state == EXEC_BEGUN || execution->state == EXEC_RUNNING))
        execution->runtime->ops->kill(execution->process, true);
}

static void arm(struct execution *execution)
{
    if (execution->timed || execution->timeout_ms == 0)
        return;
    execution->timed = true;
    execution->timeout = alarm_new(execution->runtime, on_timeout, execution);
    alarm_set(execution->timeout, execution->timeout_ms);
}

/* --- the beginning ---------------------------------------------------------------------------- */

void execution_tell_opened(struct execution *execution)
{
    struct opening *opening = execution->opening;
    if (opening && opening->session && !execution->cancelled)
        opening_tell(opening);
}

/* Its output may be here before the word that it runs. */
void execution_tell_started(struct execution *execution)
{
    execution_tell_opened(execution);
    if (execution->told_started || execution->cancelled)
        return;
    execution->told_started = true;
    if (execution->events.started)
        execution->events.started(execution->owner, execution->number);
}

/* Its session is still being made, and may be why it failed: that is to be told first. */
static bool must_wait(const struct execution *execution)
{
    return execution->err && execution->opening && !execution->opening->err &&
           execution->session->state == SESSION_STARTING && !execution->cancelled;
}

static void on_started(void *owner, int terminal, const struct error *err)
{
    struct execution *execution = owner;
    fd_clear(&terminal);
    if (err) {
        execution->process = NULL;
        execution->runtime->unfinished--;
        runtime_check_stop(execution->runtime);
        if (execution->state == EXEC_TOLD)
            return execution_free(execution);
        if (!execution->err)
            execution->err = error_copy(err);
        execution->state = EXEC_OVER;
        if (!must_wait(execution))
            execution_finish(execution);
        return;
    }
    if (execution->state != EXEC_BEGUN)
        return;
    execution->state = EXEC_RUNNING;
    arm(execution);
    execution_uncount_taken(execution);
    session_announce(execution->session);
    execution->announced = true;
    runtime_emit(execution->runtime, RUNTIME_EXEC_STARTED, execution->session->spec.name, NULL,
                 execution->number, -1, NULL);
    execution_tell_started(execution);
}

static void on_ended(void *owner, const struct backend_outcome *outcome, const struct error *err)
{
    struct execution *execution = owner;
    struct runtime *runtime = execution->runtime;
    execution->process = NULL;
    runtime->unfinished--;
    if (execution->state == EXEC_TOLD) { /* boxd had given it up: only the memory was waited for */
        execution_free(execution);
    } else {
        execution->state = EXEC_OVER;
        if (err && !execution->err)
            execution->err = error_copy(err);
        else if (!err)
            execution->outcome = *outcome;
        if (!must_wait(execution) &&
            (execution->err || execution->cancelled || exec_pipes_drain(execution)))
            execution_finish(execution);
    }
    runtime_check_stop(runtime);
}

static const struct backend_process_events events = {.started = on_started, .ended = on_ended};

void execution_begin(struct execution *execution)
{
    struct session *session = execution->session;
    struct runtime *runtime = execution->runtime;
    struct error err = ERROR_INIT;
    int child[3] = {-1, -1, -1};
    execution->state = EXEC_BEGUN;
    execution->began_ns = uv_hrtime();
    session->lanes++;
    session->serial_runs = session->serial_runs || !execution->concurrent;
    session_busy(session);
    execution->log = exec_log_begin(runtime, &session->log, execution->number);
    if (exec_pipes_open(execution, child, &err) < 0) {
        execution_fail(execution, &err);
        return;
    }
    struct backend_command command = {
        .argv = execution->argv.items,
        .envp = execution->env.items,
        .cwd = execution->cwd,
        .make_cwd = true,
        .fds = {child[0], child[1], child[2]},
    };
    runtime->unfinished++;
    execution->process = runtime->ops->start(session->backend, &command, &events, execution);
    for (int i = 0; i < 3; i++) {
        if (child[i] != runtime->null_fd)
            fd_clear(&child[i]);
    }
    /* One that starts with its session has the session's making for nothing. */
    if (session->state == SESSION_LIVE)
        arm(execution);
    exec_watch_later(execution);
}

/* --- the end ---------------------------------------------------------------------------------- */

static const char *audit_outcome(const struct execution *execution)
{
    if (execution->cancelled)
        return "cancelled";
    if (execution->err)
        return error_code_name(execution->err->code);
    return execution->outcome.timed_out ? "timed_out" : "completed";
}

static char *command_text(const struct execution *execution)
{
    const struct strings *argv = &execution->argv;
    if (argv->count == 3 && strcmp(argv->items[0], "sh") == 0 && argv->items[1][0] == '-')
        return xstrdup(argv->items[2]);
    return audit_join(argv->items[0], argv->items + 1);
}

static void account(struct execution *execution)
{
    struct runtime *runtime = execution->runtime;
    struct session *session = execution->session;
    bool known = !execution->err;
    const char *name = session->spec.name;
    const struct backend_outcome *outcome = &execution->outcome;
    if (known && !outcome->cause) /* cancelled before it was given to the backend */
        known = false;
    stats_outcome(runtime, known ? outcome : NULL, execution->cancelled);
    histogram_add(&runtime->stats.exec, (uv_hrtime() - execution->began_ns) / 1000);
    if (execution->announced)
        runtime_emit_exited(runtime, name, execution->number, known ? outcome : NULL);
    if (known && strcmp(outcome->cause, "oom") == 0)
        runtime_emit(runtime, RUNTIME_OOM, name, NULL, execution->number, -1, "oom");
    cleanup_free char *text = command_text(execution);
    audit_write(runtime->audit, &(struct audit_line){.what = "exec",
                                                     .actor = execution->actor,
                                                     .session = name,
                                                     .text = text,
                                                     .outcome = audit_outcome(execution),
                                                     .usage = known ? outcome : NULL});
}

void execution_free(struct execution *execution)
{
    strings_release(&execution->argv);
    strings_release(&execution->env);
    free(execution->cwd);
    free(execution->input);
    execution_uncount(execution);
    free(execution->err);
    for (int i = 0; i < STREAM_MAX; i++)
        buf_release(&execution->pipes[i].kept);
    task_cancel(&execution->task);
    memory_later(execution->runtime, execution);
}

static void tell(struct execution *execution)
{
    if (execution->cancelled)
        return;
    execution_tell_opened(execution);
    if (execution->cancelled)
        return;
    if (execution->err) {
        execution->events.done(execution->owner, NULL, execution->err);
        return;
    }
    struct exec_result result = {.number = execution->number, .outcome = execution->outcome};
    for (int i = 0; i < STREAM_MAX; i++) {
        const struct exec_pipe *pipe = &execution->pipes[i];
        result.streams[i] = (struct exec_stream){
            .data = pipe->kept.data ? pipe->kept.data : "",
            .size = pipe->kept.size,
            .bytes = pipe->bytes,
        };
    }
    execution->events.done(execution->owner, &result, NULL);
}

/* All that is known is known: the next one's turn, and whoever waited for this one is told. */
void execution_finish(struct execution *execution)
{
    struct session *session = execution->session;
    struct runtime *runtime = execution->runtime;
    if (execution->state == EXEC_TOLD)
        return;
    bool begun = !list_empty(&execution->link) && execution->began_ns > 0;
    execution->state = EXEC_TOLD;
    list_remove(&execution->link);
    task_cancel(&execution->task);
    alarm_free(&execution->timeout);
    exec_pipes_pause(execution);
    runtime->executions--;
    if (begun) {
        exec_log_finish(execution->log);
        execution->log = NULL;
        account(execution);
        session->lanes--;
        session->serial_runs = session->serial_runs && execution->concurrent;
        session_dispatch(session);
    }
    tell(execution);
    exec_pipes_close(execution);
    task_later(runtime, &runtime->spare_task);
    if (begun)
        session_rest(session);
    execution->session = NULL;
    /* Given up while it runs: the backend still has a word to say. */
    if (!execution->process)
        execution_free(execution);
    else if (session->backend)
        runtime->ops->kill(execution->process, false);
    if (session)
        session_release(session);
}
