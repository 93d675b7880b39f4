/* SPDX-License-Identifier: Apache-2.0 */
/* Managed processes: what they are, how they end, and how long they are remembered. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "core/utf8.h"
#include "runtime/internal.h"

#define PROCESS_ID_MAX   128
#define PROCESS_ARGS_MAX 4096

/* --- specs ------------------------------------------------------------------------------------ */

void process_spec_init(struct process_spec *spec)
{
    *spec = (struct process_spec){.id = xstrdup("default"), .cwd = xstrdup(SESSION_MOUNT_PATH)};
}

void process_spec_release(struct process_spec *spec)
{
    free(spec->id);
    free(spec->command);
    free(spec->cwd);
    strings_release(&spec->args);
    strings_release(&spec->env);
    *spec = (struct process_spec){0};
}

void process_spec_copy(struct process_spec *to, const struct process_spec *from)
{
    *to = (struct process_spec){.memory_mb = from->memory_mb};
    to->id = from->id ? xstrdup(from->id) : NULL;
    to->command = from->command ? xstrdup(from->command) : NULL;
    to->cwd = from->cwd ? xstrdup(from->cwd) : NULL;
    strings_copy(&to->args, &from->args);
    strings_copy(&to->env, &from->env);
}

/* A record is JSON, and holds all of it. */
static bool is_utf8(const char *text)
{
    size_t size, length = strlen(text);
    cleanup_free char *repaired = utf8_repair(text, length, &size);
    return size == length && memcmp(repaired, text, size) == 0;
}

static bool are_utf8(const struct strings *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!is_utf8(list->items[i]))
            return false;
    }
    return true;
}

int process_spec_check(const struct process_spec *spec, struct error *err)
{
    if (!spec->id || !spec->id[0] || strlen(spec->id) > PROCESS_ID_MAX)
        return error_set(err, ERROR_INVALID, "process_id must have 1 to %d bytes", PROCESS_ID_MAX);
    for (const char *at = spec->id; *at; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return error_set(err, ERROR_INVALID, "process_id has control characters");
    }
    if (!spec->command || !spec->command[0])
        return error_set(err, ERROR_INVALID, "command is empty");
    if (!spec->cwd || spec->cwd[0] != '/')
        return error_set(err, ERROR_INVALID, "cwd is not an absolute path");
    if (spec->args.count > PROCESS_ARGS_MAX || spec->env.count > PROCESS_ARGS_MAX)
        return error_set(err, ERROR_INVALID, "more than %d args or env", PROCESS_ARGS_MAX);
    if (!is_utf8(spec->id) || !is_utf8(spec->command) || !is_utf8(spec->cwd) ||
        !are_utf8(&spec->args) || !are_utf8(&spec->env))
        return error_set(err, ERROR_INVALID, "the process's spec is not valid UTF-8");
    if (spec->memory_mb > UINT64_MAX / (1024 * 1024))
        return error_set(err, ERROR_INVALID, "memory_mb is out of range");
    return environment_check(&spec->env, err);
}

/* --- made and forgotten ----------------------------------------------------------------------- */

static void on_task(struct task *task)
{
    struct process *process = list_entry(task, struct process, task);
    if (process->state == PROCESS_ENDED)
        process_pump(process);
    else
        process_update(process);
}

struct process *process_new(struct session *session, const struct process_spec *spec)
{
    struct process *process = xcalloc(1, sizeof *process);
    process->runtime = session->runtime;
    process->session = session;
    process->holds = 1; /* the session's */
    process->state = PROCESS_WAITING;
    process->ring = (struct ring)RING_INIT;
    process->fds[0] = process->fds[1] = process->fds[2] = -1;
    process_spec_copy(&process->spec, spec);
    list_init(&process->completed);
    list_init(&process->attachments);
    list_init(&process->stops);
    list_init(&process->starts);
    task_init(&process->task, on_task);
    list_append(&session->processes, &process->link);
    return process;
}

void process_hold(struct process *process)
{
    process->holds++;
}

void process_close_handles(struct process *process)
{
    alarm_free(&process->stop_alarm);
    for (int i = 0; i < 3; i++)
        watch_free(&process->watches[i]);
}

void process_release(struct process *process)
{
    if (--process->holds > 0)
        return;
    process_close_handles(process);
    process_close_pipes(process);
    ring_release(&process->ring);
    for (int i = 0; i < STREAM_MAX; i++)
        free(process->tails[i]);
    free(process->backlog);
    task_cancel(&process->task);
    process_spec_release(&process->spec);
    memory_later(process->runtime, process);
}

void process_forget(struct process *process)
{
    if (!process->session)
        return;
    list_remove(&process->link);
    if (process->listed)
        process->runtime->completed_count--;
    process->listed = false;
    list_remove(&process->completed);
    process->session = NULL;
    process_changed(process, true);
    process_release(process);
}

void session_forget_processes(struct session *session)
{
    while (!list_empty(&session->processes))
        process_forget(list_entry(session->processes.next, struct process, link));
}

/* --- the completed ---------------------------------------------------------------------------- */

static void on_retention(void *owner)
{
    processes_trim(owner);
}

/* Forgets those that are too many or too old, and the output of all but the last few. */
void processes_trim(struct runtime *runtime)
{
    int64_t now = runtime_now_us();
    int64_t kept_us = (int64_t)runtime->config.completed_retention_ms * 1000;
    while (!list_empty(&runtime->completed)) {
        struct process *oldest = list_entry(runtime->completed.next, struct process, completed);
        if (runtime->completed_count <= runtime->config.max_completed_processes &&
            oldest->exited_us + kept_us > now)
            break;
        process_forget(oldest);
    }
    unsigned place = runtime->completed_count;
    list_each(at, &runtime->completed)
    {
        struct process *process = list_entry(at, struct process, completed);
        if (place-- <= COMPLETED_RINGS_MAX)
            break;
        process_drop_ring(process);
    }
    if (list_empty(&runtime->completed) || runtime->stopping)
        return;
    if (!runtime->completed_alarm)
        runtime->completed_alarm = alarm_new(runtime, on_retention, runtime);
    struct process *oldest = list_entry(runtime->completed.next, struct process, completed);
    int64_t left = oldest->exited_us + kept_us - now;
    alarm_set(runtime->completed_alarm, left > 0 ? (uint64_t)left / 1000 + 1 : 1);
}

void process_complete(struct process *process)
{
    if (!process->session || process->listed)
        return;
    process->listed = true;
    list_append(&process->runtime->completed, &process->completed);
    process->runtime->completed_count++;
    processes_trim(process->runtime);
}

/* Those that were over when an earlier boxd left are remembered like our own. */
void processes_adopted(struct session *session)
{
    struct list *at = session->processes.next;
    while (session->adopted && at != &session->processes) {
        struct process *process = list_entry(at, struct process, link);
        at = at->next;
        if (process->state == PROCESS_ENDED && !process->listed) {
            process->listed = true;
            list_append(&process->runtime->completed, &process->completed);
            process->runtime->completed_count++;
        }
    }
    processes_trim(session->runtime);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void account(struct process *process, const struct backend_outcome *outcome)
{
    struct runtime *runtime = process->runtime;
    const char *name = process->session->spec.name;
    const char *cause = process->cause[0] ? process->cause : NULL;
    runtime_emit(runtime, process->stopping ? RUNTIME_PROCESS_STOPPED : RUNTIME_PROCESS_EXITED,
                 name, process->spec.id, 0, process->exit_known ? process->exit_code : -1, cause);
    if (cause && strcmp(cause, "oom") == 0)
        runtime_emit(runtime, RUNTIME_OOM, name, process->spec.id, 0, -1, "oom");
    cleanup_free char *text = audit_join(process->spec.command, process->spec.args.items);
    audit_write(runtime->audit, &(struct audit_line){.what = "process",
                                                     .actor = process->actor,
                                                     .session = name,
                                                     .process = process->spec.id,
                                                     .text = text,
                                                     .outcome = process->stopping ? "stopped"
                                                                : outcome         ? "exited"
                                                                                  : "unknown",
                                                     .usage = outcome});
}

static void leave(struct process *process)
{
    struct session *session = process->session;
    process->runtime->processes--;
    session->lanes--;
    session_rest(session);
}

/* It never ran. */
void process_failed(struct process *process, const struct error *err)
{
    struct session *session = process->session;
    process->process = NULL;
    process->state = PROCESS_ENDED;
    process_close_pipes(process);
    struct process_start *start = steal_ptr(process->start);
    if (start)
        process_start_told(start, err);
    deletions_tell(&process->stops, NULL);
    leave(process);
    attachments_tell(process);
    process_starts_resume(&process->starts);
    process_forget(process);
    session_dispatch(session);
}

void process_ended(struct process *process, const struct backend_outcome *outcome)
{
    struct session *session = process->session;
    if (process->state == PROCESS_ENDED)
        return;
    if (process->state == PROCESS_WAITING || process->start) {
        struct error err;
        bool replaced = session->state == SESSION_LIVE;
        error_set(&err, replaced ? ERROR_PROCESS_CONFLICT : ERROR_GONE,
                  "process '%s' was %s before it ran", process->spec.id,
                  replaced ? "stopped or replaced" : "ended");
        if (process->state != PROCESS_RUNNING)
            return process_failed(process, &err);
    }
    process->process = NULL;
    process->state = PROCESS_ENDED;
    process->exited_us = runtime_now_us();
    process->exit_known = outcome != NULL;
    process->exit_code = outcome ? outcome_exit_code(outcome) : 0;
    snprintf(process->cause, sizeof process->cause, "%s", outcome ? outcome->cause : "");
    alarm_free(&process->stop_alarm);
    process_close_input(process);
    process_hold(process);
    account(process, outcome);
    deletions_tell(&process->stops, NULL);
    leave(process);
    process_pump(process);
    process_changed(process, false);
    if (!list_empty(&process->starts)) {
        process_starts_resume(&process->starts);
        process_forget(process);
    } else if (process->stopping) {
        process_forget(process);
    } else {
        process_complete(process);
    }
    record_save(session, NULL);
    session_dispatch(session);
    process_release(process);
}

/* --- stopping --------------------------------------------------------------------------------- */

static void on_stop_alarm(void *owner)
{
    struct process *process = owner;
    if (process->process && process->session && process->session->backend)
        process->runtime->ops->kill(process->process, false);
}

void process_begin_stop(struct process *process)
{
    const struct backend_ops *ops = process->runtime->ops;
    struct error err;
    if (process->stopping || process->state == PROCESS_ENDED)
        return;
    process->stopping = true;
    process_close_input(process);
    if (process->state == PROCESS_WAITING) {
        error_set(&err, ERROR_GONE, "process '%s' was stopped before it ran", process->spec.id);
        process_failed(process, &err);
        return;
    }
    if (!process->session->backend) /* the session ends, and takes it along */
        return;
    if (process->state == PROCESS_BEGUN) {
        ops->kill(process->process, false);
        return;
    }
    /* Its stdin is closed once the session lets go of it too; nobody is to adopt it any more. */
    ops->keep(process->process, process->fds, 0);
    ops->signal(process->process, SIGTERM);
    process->stop_alarm = alarm_new(process->runtime, on_stop_alarm, process);
    alarm_set(process->stop_alarm, PROCESS_STOP_MS);
}

void process_stop(struct process *process, backend_done done, void *data)
{
    if (process->session)
        session_touch(process->session);
    deletion_new(process->runtime, &process->stops, done, data);
    if (process->state != PROCESS_ENDED) {
        process_begin_stop(process);
        return;
    }
    struct session *session = process->session;
    deletions_tell(&process->stops, NULL);
    process_forget(process);
    if (session)
        record_save(session, NULL);
}

int process_signal(struct process *process, int number, struct error *err)
{
    if (number < 1 || number > SIGRTMAX)
        return error_set(err, ERROR_INVALID, "there is no signal %d", number);
    if (process->state != PROCESS_RUNNING || !process->session || !process->session->backend)
        return error_set(err, ERROR_PROCESS_CONFLICT, "process '%s' is not running",
                         process->spec.id);
    session_touch(process->session);
    process->runtime->ops->signal(process->process, number);
    return 0;
}

/* --- followers -------------------------------------------------------------------------------- */

void process_follow(struct process *process, struct process_follower *follower)
{
    follower->next = process->followers;
    process->followers = follower;
}

void process_unfollow(struct process *process, struct process_follower *follower)
{
    if (process->next_follower == follower)
        process->next_follower = follower->next;
    struct process_follower **at = &process->followers;
    while (*at && *at != follower)
        at = &(*at)->next;
    if (*at)
        *at = follower->next;
}

void process_changed(struct process *process, bool gone)
{
    process->next_follower = process->followers;
    if (gone)
        process->followers = NULL;
    /* Any of them may leave while it is told. */
    for (struct process_follower *at; (at = process->next_follower);) {
        process->next_follower = at->next;
        at->changed(at->data, gone);
    }
}

/* --- looking ---------------------------------------------------------------------------------- */

struct process *session_find_process(struct session *session, const char *id)
{
    list_each(at, &session->processes)
    {
        struct process *process = list_entry(at, struct process, link);
        if (strcmp(process->spec.id, id) == 0)
            return process;
    }
    return NULL;
}

void session_each_process(struct session *session,
                          void (*visit)(struct process *process, void *data), void *data)
{
    list_each_safe(at, after, &session->processes)
        visit(list_entry(at, struct process, link), data);
}

void process_info(const struct process *process, struct process_info *ret)
{
    *ret = (struct process_info){
        .id = process->spec.id,
        .spec = &process->spec,
        .running = process->state != PROCESS_ENDED,
        .attached = !list_empty(&process->attachments),
        .started_us = process->started_us,
        .exited_us = process->exited_us,
        .exit_known = process->exit_known,
        .exit_code = process->exit_code,
        .cause = process->state == PROCESS_ENDED && process->cause[0] ? process->cause : NULL,
    };
    for (int i = 0; i < STREAM_MAX; i++) {
        ret->bytes[i] = process_written(process, (enum stream)i);
        ret->oldest[i] = process_oldest(process, (enum stream)i);
    }
}
