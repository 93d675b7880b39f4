/* SPDX-License-Identifier: Apache-2.0 */
/* Commands until they run: asked for, in line, given up. Of a session one runs after the other;
   those that said `concurrent` run beside them, as long as there are lanes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"

#define EXEC_ARGS_MAX 4096
/* Commands that were given less are not counted: their number is limited, and one who fills the
   queue must not keep others from the ordinary. */
#define COUNTED_MIN 65536

/* --- made ------------------------------------------------------------------------------------- */

/* Tells what is already known: that it failed, or, after a pause, how it ended. */
static void on_task(struct task *task)
{
    struct execution *execution = list_entry(task, struct execution, task);
    if (execution->state == EXEC_OVER || execution->err) {
        if (execution->state == EXEC_OVER && !execution->err && !exec_pipes_drain(execution))
            return;
        execution_finish(execution);
    } else if (execution->state == EXEC_RUNNING || execution->state == EXEC_BEGUN) {
        exec_pipes_watch(execution);
    }
}

static int check_request(const struct exec_request *request, struct error *err)
{
    if (!request->command && (!request->argv || !request->argv[0]))
        return error_set(err, ERROR_INVALID, "there is no command");
    if (request->command && !request->command[0])
        return error_set(err, ERROR_INVALID, "cmd is empty");
    if (request->workdir && request->workdir[0] != '/')
        return error_set(err, ERROR_INVALID, "workdir '%.200s' is not absolute", request->workdir);
    return environment_check(&request->env, err);
}

static size_t request_size(const struct exec_request *request)
{
    size_t size = request->input_size;
    if (request->command)
        size += strlen(request->command);
    for (size_t i = 0; !request->command && request->argv[i]; i++)
        size += strlen(request->argv[i]);
    for (size_t i = 0; i < request->env.count; i++)
        size += strlen(request->env.items[i]);
    return size;
}

/* Each waits with all that it was given, and a thousand may wait in every session: together they
   have a ceiling. One alone may be larger than that, as large as a request. */
static int count_request(struct execution *execution, const struct exec_request *request,
                         struct error *err)
{
    struct runtime *runtime = execution->runtime;
    size_t size = request_size(request);
    if (size < COUNTED_MIN)
        return 0;
    if (runtime->queued_bytes > 0 &&
        runtime->queued_bytes + size > runtime->config.max_queued_bytes) {
        error_set(err, ERROR_CAPACITY,
                  "commands hold %" PRIu64 " bytes of input that they have not taken yet",
                  runtime->queued_bytes);
        return error_hint(err, "try again later, hand large input over in a file of the session, "
                               "or raise limits.max_queued_bytes");
    }
    execution->queued_bytes = size;
    runtime->queued_bytes += size;
    return 0;
}

void execution_uncount(struct execution *execution)
{
    execution->runtime->queued_bytes -= execution->queued_bytes;
    execution->queued_bytes = 0;
}

void execution_uncount_taken(struct execution *execution)
{
    size_t left = execution->input_size - execution->input_sent;
    if (execution->queued_bytes <= left)
        return;
    execution->runtime->queued_bytes -= execution->queued_bytes - left;
    execution->queued_bytes = left;
}

static int copy_request(struct execution *execution, const struct exec_request *request,
                        struct error *err)
{
    if (request->command) {
        strings_add(&execution->argv, "sh");
        strings_add(&execution->argv, "-lc");
        strings_add(&execution->argv, request->command);
    }
    for (size_t i = 0; !request->command && request->argv[i]; i++) {
        if (i >= EXEC_ARGS_MAX)
            return error_set(err, ERROR_INVALID, "more than %d arguments", EXEC_ARGS_MAX);
        strings_add(&execution->argv, request->argv[i]);
    }
    environment_make(&execution->env, &request->env, false);
    execution->cwd = request->workdir ? xstrdup(request->workdir) : NULL;
    execution->timeout_ms = request->timeout_ms;
    execution->concurrent = request->concurrent;
    if (request->input && request->input_size > 0) {
        execution->input = xmalloc(request->input_size);
        memcpy(execution->input, request->input, request->input_size);
        execution->input_size = request->input_size;
    }
    return 0;
}

struct execution *execution_new(struct runtime *runtime, const struct exec_request *request,
                                const struct exec_events *events, void *owner)
{
    struct error err = ERROR_INIT;
    struct execution *execution = xcalloc(1, sizeof *execution);
    execution->runtime = runtime;
    execution->events = *events;
    execution->owner = owner;
    execution->state = EXEC_OPENING;
    execution->input_fd = -1;
    memcpy(execution->actor, runtime->actor, sizeof execution->actor);
    list_init(&execution->link);
    list_init(&execution->unwatched);
    task_init(&execution->task, on_task);
    for (int i = 0; i < STREAM_MAX; i++) {
        execution->pipes[i].fd = -1;
        execution->pipes[i].kept.ceiling = (size_t)runtime->config.output_keep_bytes;
    }
    runtime->executions++;
    if (check_request(request, &err) < 0 || count_request(execution, request, &err) < 0 ||
        copy_request(execution, request, &err) < 0)
        execution->err = error_copy(&err);
    return execution;
}

/* --- in line ---------------------------------------------------------------------------------- */

void session_dispatch(struct session *session)
{
    if (!session_startable(session))
        return;
    while (session->lanes < SESSION_LANES) {
        struct list *queue = &session->concurrent;
        if (!session->serial_runs && !list_empty(&session->serial))
            queue = &session->serial;
        if (list_empty(queue))
            return;
        struct execution *next = list_entry(queue->next, struct execution, link);
        list_remove(&next->link);
        session->waiting--;
        list_append(&session->running, &next->link);
        execution_begin(next);
    }
}

void execution_place(struct execution *execution, struct session *session)
{
    struct error err = ERROR_INIT;
    execution->session = session;
    session_hold(session);
    execution->state = EXEC_WAITING;
    if (!execution->err && session_usable(session, &err) == 0 &&
        session->waiting >= SESSION_QUEUE_MAX)
        error_set(&err, ERROR_CAPACITY, "%u commands of session '%s' are waiting already",
                  session->waiting, session->spec.name);
    if (execution->err || err.code != ERROR_NONE)
        return execution_fail(execution, &err);
    execution->number = session->next_number++;
    /* So that no number is given twice by a successor, the record is ahead of them. */
    if (execution->number % RECORD_NUMBERS == RECORD_NUMBERS - 1)
        record_save(session, NULL);
    if (!execution->cwd)
        execution->cwd = xstrdup(session->spec.mount_path);
    list_append(execution->concurrent ? &session->concurrent : &session->serial, &execution->link);
    session->waiting++;
    session_settle(session);
    session_dispatch(session);
}

struct execution *session_exec(struct session *session, const struct exec_request *request,
                               const struct exec_events *events, void *owner)
{
    struct execution *execution = execution_new(session->runtime, request, events, owner);
    execution_place(execution, session);
    return execution;
}

/* --- given up --------------------------------------------------------------------------------- */

static bool is_waiting(const struct execution *execution)
{
    return execution->state == EXEC_WAITING && !list_empty(&execution->link);
}

static void leave_queue(struct execution *execution)
{
    if (!is_waiting(execution))
        return;
    list_remove(&execution->link);
    execution->session->waiting--;
    session_settle(execution->session);
}

void execution_unplace(struct execution *execution)
{
    leave_queue(execution);
    session_release(steal_ptr(execution->session));
    execution->state = EXEC_OPENING;
}

/* It will be told, later; the first reason is the one that counts. */
void execution_fail(struct execution *execution, const struct error *err)
{
    if (execution->state == EXEC_TOLD || execution->cancelled)
        return;
    if (!execution->err)
        execution->err = error_copy(err);
    leave_queue(execution);
    task_later(execution->runtime, &execution->task);
}

/* Those that wait fail. Those that run have an end of their own coming, unless boxd is leaving. */
void session_fail_executions(struct session *session, const struct error *err)
{
    struct list *queues[] = {&session->serial, &session->concurrent};
    for (size_t i = 0; i < ARRAY_SIZE(queues); i++) {
        while (!list_empty(queues[i]))
            execution_fail(list_entry(queues[i]->next, struct execution, link), err);
    }
    if (!session->runtime->stopping && !session->gone)
        return;
    list_each_safe(at, after, &session->running)
        execution_fail(list_entry(at, struct execution, link), err);
}

void execution_cancel(struct execution *execution)
{
    if (execution->state == EXEC_TOLD || execution->cancelled)
        return;
    execution->cancelled = true;
    if (execution->opening) {
        execution->opening->execution = NULL;
        execution->opening->done = NULL;
        execution->opening = NULL;
    }
    leave_queue(execution);
    exec_pipes_close(execution);
    if (execution->state == EXEC_BEGUN || execution->state == EXEC_RUNNING) {
        /* Its `ended` frees it. A session that ends takes it along. */
        if (execution->process && execution->session->backend)
            execution->runtime->ops->kill(execution->process, false);
        return;
    }
    execution_finish(execution);
}

void execution_pause(struct execution *execution)
{
    if (execution->state == EXEC_TOLD || execution->cancelled)
        return;
    execution->paused = true;
    exec_pipes_pause(execution);
}

void execution_resume(struct execution *execution)
{
    if (!execution->paused || execution->state == EXEC_TOLD || execution->cancelled)
        return;
    execution->paused = false;
    /* Not from here: the caller may not want to be told about output just now. */
    task_later(execution->runtime, &execution->task);
}
