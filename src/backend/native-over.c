/* SPDX-License-Identifier: Apache-2.0 */
/* When a command is over: how it ended, what it has used, and why, as far as that can be known. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "backend/native-internal.h"
#include "core/clock.h"
#include "core/fd.h"
#include "sandbox/seccomp.h"

/* For init to tell whether a disk is full, or the spawner that the session is gone. */
#define LEARN_MS 1000

static void name_denied(const struct outcome *outcome, char *ret, size_t size)
{
    size_t used = 0;
    ret[0] = '\0';
    for (unsigned number = 0; number < DENIED_WORDS * 64; number++) {
        const char *name;
        if (!(outcome->denied[number / 64] >> (number % 64) & 1) ||
            !(name = seccomp_syscall_name((int)number)))
            continue;
        if (used + strlen(name) + 3 > size)
            return;
        used += (size_t)snprintf(ret + used, size - used, "%s%s", used ? ", " : "", name);
    }
}

void native_process_deliver(struct native_process *process, const struct error *err)
{
    struct native_session *session = session_of(process);
    const struct backend_process_events *events = process->events;
    void *owner = process->owner;
    bool began = process->began;
    struct outcome *outcome = &process->outcome;
    outcome->cause = outcome_cause(outcome, &process->before, &process->after, process->full);
    struct backend_outcome result = {
        .timed_out = outcome->timed_out,
        .exit_code = outcome->timed_out ? -1 : outcome->exit_code,
        .signal = outcome->signal,
        .cause = cause_name(session->oom ? CAUSE_OOM : outcome->cause),
        .wall_us = outcome->wall_us,
        .cpu_us = outcome->cpu_us,
        .peak_bytes = outcome->peak_bytes,
    };
    name_denied(outcome, result.denied, sizeof result.denied);
    native_session_hold(session);
    native_process_release(process);
    if (began || !err)
        events->ended(owner, err ? NULL : &result, err);
    else
        events->started(owner, -1, err);
    if (session->state == NATIVE_LIVE)
        native_dispatch(session);
    native_session_drop(session);
}

static void on_no_more_to_learn(uv_timer_t *timer)
{
    struct native_process *process = timer->data;
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_GONE, "the session's launcher has ended");
    native_process_deliver(process, process->unexplained && !process->began ? &err : NULL);
}

void native_process_await(struct native_process *process, unsigned timeout_ms)
{
    struct native_process **end = &session_of(process)->asking;
    while (*end)
        end = &(*end)->next;
    *end = process;
    process->state = NATIVE_ASKING;
    uv_timer_start(&process->timer, on_no_more_to_learn, timeout_ms, 0);
}

/* One question for each place with a limit; the first that is full ends the asking. */
static bool ask_space(struct native_process *process)
{
    struct native_session *session = session_of(process);
    struct {
        struct init_open head;
        char path[INIT_PATH_MAX];
    } message;
    for (size_t i = 0; i < session->bounded.count && session->state == NATIVE_LIVE; i++) {
        size_t length = strlen(session->bounded.items[i]) + 1;
        message.head = (struct init_open){.type = INIT_STATFS, .path_size = (uint32_t)length};
        memcpy(message.path, session->bounded.items[i], length);
        if (native_send(session, &message, sizeof message.head + length, NULL, 0) == 0)
            process->questions++;
    }
    return process->questions > 0;
}

/* Answers come in the order of the questions. */
void native_process_space(struct native_session *session, const struct init_statfs *reply)
{
    struct native_process *process = session->asking;
    while (process && process->questions == 0)
        process = process->next;
    if (!process)
        return;
    struct sandbox_space space = sandbox_space_from(reply);
    if (!reply->errnum && sandbox_space_is_full(&space))
        process->full = true;
    if (--process->questions == 0)
        native_process_deliver(process, NULL);
}

static void take_outcome(struct native_process *process, const struct lane_exited *exited)
{
    struct native_session *session = session_of(process);
    struct native_lane *lane = process->lane;
    struct outcome *outcome = &process->outcome;
    *outcome = (struct outcome){.timed_out = process->timed_out, .exit_code = -1};
    outcome->wall_us =
        process->started_ns ? (clock_monotonic_ns() - process->started_ns) / 1000 : 0;
    if (exited)
        outcome_take_exit(outcome, exited);
    else
        outcome->signal = SIGKILL;
    if (!process->killed)
        process->after = process->before;
    if (lane && lane->group.version != CGROUP_NONE &&
        (process->killed || cgroup_usage_read(&lane->group, &process->after) == 0))
        outcome_take_usage(outcome, &process->before, &process->after, session->memory_bytes);
    if (lane && session->denied)
        outcome_take_denied(outcome, session->denied, (int)lane->index);
}

void native_process_finish(struct native_process *process, const struct lane_exited *exited)
{
    struct native_session *session = session_of(process);
    struct error err = ERROR_INIT;
    take_outcome(process, exited);
    uv_timer_stop(&process->timer);
    native_process_leave_lane(process, exited && !process->killed);
    /* Nobody said how it ended, or whether it began: either its launcher was killed from inside,
       which is its own affair, or the session is ending or could not be made, of which the spawner
       or init will tell in a moment. */
    bool over = session->state == NATIVE_LEAVING || session->state == NATIVE_ENDED;
    process->unexplained = !exited && !process->killed;
    if (process->unexplained && over) {
        error_set(&err, ERROR_GONE, "the session ended under the command");
        native_process_deliver(process, &err);
    } else if (process->unexplained ||
               (outcome_asks_space(&process->outcome, &process->before, &process->after) &&
                ask_space(process))) {
        native_process_await(process, LEARN_MS);
    } else {
        native_process_deliver(process, NULL);
    }
}

void native_process_lost(struct native_process *process, const struct error *why)
{
    if (process->state == NATIVE_ASKING) {
        bool out_of_memory = process->began && session_of(process)->oom;
        native_process_deliver(process, process->unexplained && !out_of_memory ? why : NULL);
        return;
    }
    /* It may have ended in time, and said so. */
    struct lane_exited exited;
    ssize_t n =
        process->state == NATIVE_RUNNING && process->lane->sock >= 0
            ? fd_receive(process->lane->sock, &exited, sizeof exited, NULL, NULL, MSG_DONTWAIT)
            : -1;
    bool told = n == sizeof exited && exited.type == LANE_EXITED;
    if (process->has_exited) {
        exited = process->exited;
        told = true;
    }
    bool explained = told || process->killed || session_of(process)->oom;
    take_outcome(process, told ? &exited : NULL);
    uv_timer_stop(&process->timer);
    native_process_leave_lane(process, false);
    if (process->state == NATIVE_WAITING)
        native_process_fail(process, why);
    else
        native_process_deliver(process, explained ? NULL : why);
}
