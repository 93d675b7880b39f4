/* SPDX-License-Identifier: Apache-2.0 */
/* Starting managed processes, and taking over those that an earlier boxd started. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/log.h"
#include "runtime/internal.h"

/* --- requests --------------------------------------------------------------------------------- */

static void on_told(struct task *task)
{
    struct process_start *start = list_entry(task, struct process_start, task);
    start->done(start->data, start->err ? NULL : start->process, start->err);
    process_spec_release(&start->spec);
    free(start->err);
    struct session *session = start->session;
    struct process *process = start->process;
    struct runtime *runtime = session->runtime;
    memory_later(runtime, start);
    if (process)
        process_release(process);
    session_release(session);
}

void process_start_told(struct process_start *start, const struct error *err)
{
    list_remove(&start->link);
    if (err)
        start->err = error_copy(err);
    task_later(start->session->runtime, &start->task);
}

void process_starts_fail(struct list *starts, const struct error *err)
{
    while (!list_empty(starts))
        process_start_told(list_entry(starts->next, struct process_start, link), err);
}

static void on_again(struct task *task)
{
    struct process_start *start = list_entry(task, struct process_start, task);
    start->task.run = on_told;
    process_start_go(start);
}

void process_starts_resume(struct list *starts)
{
    while (!list_empty(starts)) {
        struct process_start *start = list_entry(starts->next, struct process_start, link);
        list_remove(&start->link);
        start->task.run = on_again;
        task_later(start->session->runtime, &start->task);
    }
}

static int may_start(const struct session *session, const struct process_spec *spec,
                     struct error *err)
{
    const struct runtime *runtime = session->runtime;
    if (runtime->processes >= runtime->config.max_managed_processes) {
        error_set(err, ERROR_CAPACITY,
                  "there are %u managed processes, and max_managed_processes is %u",
                  runtime->processes, runtime->config.max_managed_processes);
        return error_hint(err, "stop some, or raise limits.max_managed_processes");
    }
    if (session->lanes >= SESSION_LANES)
        return error_set(err, ERROR_CAPACITY,
                         "%u commands, processes and terminals run in session '%s' already",
                         session->lanes, session->spec.name);
    return record_room(session, spec, err);
}

void process_start_go(struct process_start *start)
{
    struct session *session = start->session;
    struct error err = ERROR_INIT;
    if (session_usable(session, &err) < 0)
        return process_start_told(start, &err);
    struct process *old = session_find_process(session, start->spec.id);
    if (old && old->state != PROCESS_ENDED) {
        list_append(&old->starts, &start->link);
        process_begin_stop(old);
        return;
    }
    if (may_start(session, &start->spec, &err) < 0)
        return process_start_told(start, &err);
    if (old)
        process_forget(old);
    struct process *process = process_new(session, &start->spec);
    memcpy(process->actor, start->actor, sizeof process->actor);
    process->start = start;
    start->process = process;
    process_hold(process);
    session->runtime->processes++;
    session->lanes++;
    session_busy(session);
    if (session_startable(session))
        process_begin(process);
}

static void on_saved(struct record_waiter *waiter, const struct error *err)
{
    struct process_start *start = list_entry(waiter, struct process_start, saved);
    struct error why;
    /* What nobody could find again after a restart must not be promised. */
    if (err) {
        why = *err;
        process_begin_stop(start->process);
    }
    process_start_told(start, err ? &why : NULL);
}

void session_start_process(struct session *session, const struct process_spec *spec,
                           process_done done, void *data)
{
    struct error err = ERROR_INIT;
    struct process_start *start = xcalloc(1, sizeof *start);
    start->session = session;
    session_hold(session);
    start->done = done;
    start->data = data;
    start->saved.done = on_saved;
    memcpy(start->actor, session->runtime->actor, sizeof start->actor);
    list_init(&start->link);
    task_init(&start->task, on_told);
    process_spec_copy(&start->spec, spec);
    if (process_spec_check(&start->spec, &err) < 0)
        process_start_told(start, &err);
    else
        process_start_go(start);
}

/* --- beginning -------------------------------------------------------------------------------- */

static void on_started(void *owner, int terminal, const struct error *err)
{
    struct process *process = owner;
    fd_clear(&terminal);
    if (process->state != PROCESS_BEGUN)
        return;
    if (err)
        return process_failed(process, err);
    process->state = PROCESS_RUNNING;
    process->started_us = runtime_now_us();
    const int kept[] = {process->fds[0], process->fds[1], process->fds[2], process->ring.fd};
    if (process->fds[0] >= 0) /* else it is being stopped already */
        process->runtime->ops->keep(process->process, kept, ARRAY_SIZE(kept));
    process_watch(process);
    runtime_emit(process->runtime, RUNTIME_PROCESS_STARTED, process->session->spec.name,
                 process->spec.id, 0, -1, NULL);
    struct process_start *start = steal_ptr(process->start);
    record_save(process->session, start ? &start->saved : NULL);
}

static void on_ended(void *owner, const struct backend_outcome *outcome, const struct error *err)
{
    process_ended(owner, err ? NULL : outcome);
}

const struct backend_process_events process_events = {.started = on_started, .ended = on_ended};

void process_begin(struct process *process)
{
    struct session *session = process->session;
    struct error err = ERROR_INIT;
    int child[3] = {-1, -1, -1};
    if (ring_create(&process->ring, &err) < 0 || process_pipes_open(process, child, &err) < 0) {
        process_failed(process, &err);
        return;
    }
    cleanup_strings struct strings argv = {0};
    cleanup_strings struct strings env = {0};
    strings_add(&argv, process->spec.command);
    strings_copy(&argv, &process->spec.args);
    environment_make(&env, &process->spec.env, false);
    process->keep_id = session->next_keep++;
    struct backend_command command = {
        .argv = argv.items,
        .envp = env.items,
        .cwd = process->spec.cwd,
        .make_cwd = true,
        .fds = {child[0], child[1], child[2]},
        .memory_bytes = process->spec.memory_mb * 1024 * 1024,
        .keep_id = process->keep_id,
    };
    process->state = PROCESS_BEGUN;
    process->process =
        session->runtime->ops->start(session->backend, &command, &process_events, process);
    for (int i = 0; i < 3; i++)
        fd_clear(&child[i]);
}

/* --- taking over ------------------------------------------------------------------------------ */

static bool is_pipe(int fd, int access)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == access && fstat(fd, &st) == 0 &&
           S_ISFIFO(st.st_mode) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static int take_descriptors(struct process *process, const int *fds, size_t count,
                            struct error *err)
{
    if (count == 4 && is_pipe(fds[0], O_WRONLY) && is_pipe(fds[1], O_RDONLY) &&
        is_pipe(fds[2], O_RDONLY)) {
        memcpy(process->fds, fds, sizeof process->fds);
        return ring_adopt(&process->ring, fds[3], err);
    }
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return error_set(err, ERROR_PROTOCOL, "its descriptors are not what was kept");
}

int process_adopt(struct process *process, const int *fds, size_t count)
{
    struct session *session = process->session;
    struct error err = ERROR_INIT;
    if (take_descriptors(process, fds, count, &err) < 0) {
        log_error(LOG_WARN, "process_lost", &err, LOG_TEXT("session", session->spec.name),
                  LOG_TEXT("process", process->spec.id));
        process_close_pipes(process);
        return -1;
    }
    process->state = PROCESS_RUNNING;
    process->exited_us = 0;
    process->runtime->processes++;
    session->lanes++;
    session_busy(session);
    process->process = process->runtime->ops->adopt_process(session->backend, process->keep_id,
                                                            &process_events, process);
    if (!process->process) {
        process_ended(process, NULL);
        return 0;
    }
    process_watch(process);
    return 0;
}

void process_vanished(struct process *process)
{
    process->adopt = false;
    process->exited_us = runtime_now_us();
    runtime_emit(process->runtime, RUNTIME_PROCESS_EXITED, process->session->spec.name,
                 process->spec.id, 0, -1, NULL);
}
