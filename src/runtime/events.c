/* SPDX-License-Identifier: Apache-2.0 */
/* What is going on, for those who listen, and in numbers. */
#include <string.h>
#include <time.h>

#include "runtime/internal.h"

static const char *const event_names[RUNTIME_EVENT_MAX] = {
#define X(name, text) [RUNTIME_##name] = text,
    RUNTIME_EVENTS(X)
#undef X
};

const char *const runtime_outcome_names[] = {
    "exited",     "nonzero",        "signal",    "timeout", "oom", "pids_limit",
    "disk_quota", "denied_syscall", "cancelled", "failed",  NULL,
};
enum { OUTCOME_EXITED, OUTCOME_NONZERO, OUTCOME_SIGNAL, OUTCOME_CANCELLED = 8, OUTCOME_FAILED };

const uint64_t runtime_bounds_us[RUNTIME_BUCKETS] = {
    100,   250,    500,    1000,   2500,    5000,    10000,    25000,
    50000, 100000, 250000, 500000, 1000000, 5000000, 30000000, 120000000,
};

int64_t runtime_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

const char *runtime_event_name(enum runtime_event_type type)
{
    return (unsigned)type < RUNTIME_EVENT_MAX ? event_names[type] : "unknown";
}

void runtime_listen(struct runtime *runtime, struct runtime_listener *listener)
{
    listener->next = runtime->listeners;
    runtime->listeners = listener;
}

void runtime_unlisten(struct runtime *runtime, struct runtime_listener *listener)
{
    if (runtime->next_listener == listener)
        runtime->next_listener = listener->next;
    struct runtime_listener **at = &runtime->listeners;
    while (*at && *at != listener)
        at = &(*at)->next;
    if (*at)
        *at = listener->next;
}

static void emit(struct runtime *runtime, struct runtime_event event)
{
    event.sequence = ++runtime->event_sequence;
    if (!runtime->listeners)
        return;
    event.time_us = runtime_now_us();
    /* One that leaves while it is being told may be the next. */
    struct runtime_listener *outer = runtime->next_listener;
    for (struct runtime_listener *at = runtime->listeners; at; at = runtime->next_listener) {
        runtime->next_listener = at->next;
        at->event(at->data, &event);
    }
    runtime->next_listener = outer;
}

void runtime_emit(struct runtime *runtime, enum runtime_event_type type, const char *session,
                  const char *process, unsigned number, int exit_code, const char *cause)
{
    emit(runtime, (struct runtime_event){.type = type,
                                         .session = session,
                                         .process = process,
                                         .number = number,
                                         .exit_code = exit_code,
                                         .cause = cause});
}

void runtime_emit_exited(struct runtime *runtime, const char *session, unsigned number,
                         const struct backend_outcome *outcome)
{
    struct runtime_event event = {
        .type = RUNTIME_EXEC_EXITED, .session = session, .number = number, .exit_code = -1};
    if (outcome) {
        /* As in its result: one that was ended from outside has none. */
        event.exit_code = outcome->timed_out ? -1 : outcome->exit_code;
        event.signal = outcome->signal;
        event.cause = outcome->cause;
    }
    emit(runtime, event);
}

void histogram_add(struct runtime_histogram *histogram, uint64_t us)
{
    size_t i = 0;
    while (i < RUNTIME_BUCKETS && us > runtime_bounds_us[i])
        i++;
    histogram->counts[i]++;
    histogram->sum_us += us;
    histogram->count++;
}

void stats_outcome(struct runtime *runtime, const struct backend_outcome *outcome, bool cancelled)
{
    size_t index = OUTCOME_FAILED;
    if (cancelled) {
        index = OUTCOME_CANCELLED;
    } else if (outcome && strcmp(outcome->cause, "exited") == 0) {
        index = outcome->exit_code == 0 ? OUTCOME_EXITED : OUTCOME_NONZERO;
    } else if (outcome) {
        for (size_t i = OUTCOME_SIGNAL; runtime_outcome_names[i]; i++) {
            if (strcmp(runtime_outcome_names[i], outcome->cause) == 0)
                index = i;
        }
    }
    runtime->stats.outcomes[index]++;
}

int outcome_exit_code(const struct backend_outcome *outcome)
{
    if (outcome->exit_code >= 0)
        return outcome->exit_code;
    return outcome->signal > 0 ? 128 + outcome->signal : 128 + 9;
}

void runtime_stats(const struct runtime *runtime, struct runtime_stats *ret)
{
    *ret = runtime->stats;
    ret->sessions = (unsigned)runtime->table.count;
    ret->processes = runtime->processes;
    ret->executions = runtime->executions;
}
