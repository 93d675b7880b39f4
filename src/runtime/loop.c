/* SPDX-License-Identifier: Apache-2.0 */
/* Later: tasks, graves, alarms and watches.

   Tasks run from a check handle, that is right after the callbacks of this turn of the loop. For
   those that are queued from elsewhere (a timer, say) an idle handle keeps the loop from going to
   sleep first. Neither costs a system call. */
#include "runtime/loop.h"

#include "core/mem.h"
#include "runtime/internal.h"

struct alarm {
    uv_timer_t timer;
    struct runtime *runtime;
    void (*fire)(void *owner);
    void *owner;
};

struct watch {
    uv_poll_t poll;
    struct runtime *runtime;
    void (*ready)(void *owner, int events);
    void *owner;
    int events;
};

/* --- tasks ------------------------------------------------------------------------------------ */

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* it is there so that the loop does not sleep */
}

static void bury(struct runtime *runtime)
{
    size_t count = runtime->grave_count;
    runtime->grave_count = 0;
    for (size_t i = 0; i < count; i++)
        free(runtime->graves[i]);
}

static void on_check(uv_check_t *check)
{
    struct runtime *runtime = check->data;
    struct list now;
    list_take(&now, &runtime->tasks);
    while (!list_empty(&now)) {
        struct task *task = list_entry(now.next, struct task, link);
        list_remove(&task->link);
        task->run(task);
    }
    bury(runtime);
    if (list_empty(&runtime->tasks)) {
        uv_check_stop(&runtime->check);
        uv_idle_stop(&runtime->idle);
    }
}

static void wake(struct runtime *runtime)
{
    if (!runtime->loop_ready || uv_is_active((uv_handle_t *)&runtime->check))
        return;
    uv_check_start(&runtime->check, on_check);
    uv_idle_start(&runtime->idle, on_idle);
}

void task_init(struct task *task, void (*run)(struct task *task))
{
    list_init(&task->link);
    task->run = run;
}

void task_later(struct runtime *runtime, struct task *task)
{
    if (!list_empty(&task->link))
        return;
    list_append(&runtime->tasks, &task->link);
    wake(runtime);
}

void task_cancel(struct task *task)
{
    list_remove(&task->link);
}

void memory_later(struct runtime *runtime, void *memory)
{
    if (!runtime->loop_ready) {
        free(memory);
        return;
    }
    if (!memory)
        return;
    if (runtime->grave_count == runtime->grave_capacity) {
        runtime->grave_capacity = runtime->grave_capacity ? runtime->grave_capacity * 2 : 16;
        runtime->graves =
            xreallocarray(runtime->graves, runtime->grave_capacity, sizeof *runtime->graves);
    }
    runtime->graves[runtime->grave_count++] = memory;
    wake(runtime);
}

void loop_open(struct runtime *runtime)
{
    list_init(&runtime->tasks);
    uv_check_init(runtime->loop, &runtime->check);
    uv_idle_init(runtime->loop, &runtime->idle);
    runtime->check.data = runtime->idle.data = runtime;
    runtime->loop_ready = true;
}

static void on_closed(uv_handle_t *handle)
{
    struct runtime *runtime = handle->data;
    if (--runtime->loop_handles == 0)
        runtime->loop_closed(runtime);
}

void loop_close(struct runtime *runtime, void (*closed)(struct runtime *runtime))
{
    runtime->loop_ready = false;
    runtime->loop_closed = closed;
    runtime->loop_handles = 2;
    uv_close((uv_handle_t *)&runtime->check, on_closed);
    uv_close((uv_handle_t *)&runtime->idle, on_closed);
    bury(runtime);
}

/* --- alarms ----------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct alarm *alarm = timer->data;
    alarm->fire(alarm->owner);
}

struct alarm *alarm_new(struct runtime *runtime, void (*fire)(void *owner), void *owner)
{
    struct alarm *alarm = xmalloc(sizeof *alarm);
    alarm->runtime = runtime;
    alarm->fire = fire;
    alarm->owner = owner;
    uv_timer_init(runtime->loop, &alarm->timer);
    alarm->timer.data = alarm;
    /* No alarm of ours is a reason for the loop to go on. */
    uv_unref((uv_handle_t *)&alarm->timer);
    runtime->handles++;
    return alarm;
}

void alarm_set(struct alarm *alarm, uint64_t milliseconds)
{
    /* The loop's idea of now may be old by as long as this turn took. */
    uv_update_time(alarm->runtime->loop);
    uv_timer_start(&alarm->timer, on_timer, milliseconds, 0);
}

void alarm_clear(struct alarm *alarm)
{
    uv_timer_stop(&alarm->timer);
}

static void on_alarm_closed(uv_handle_t *handle)
{
    struct alarm *alarm = handle->data;
    struct runtime *runtime = alarm->runtime;
    free(alarm);
    runtime->handles--;
    runtime_check_stop(runtime);
}

void alarm_free(struct alarm **alarm)
{
    if (!*alarm)
        return;
    (*alarm)->timer.data = *alarm;
    uv_close((uv_handle_t *)&(*alarm)->timer, on_alarm_closed);
    *alarm = NULL;
}

/* --- watches ---------------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    if (status < 0) {
        watch->events = 0; /* libuv has stopped it */
        watch->ready(watch->owner, WATCH_READ | WATCH_WRITE);
        return;
    }
    watch->ready(watch->owner, (events & UV_READABLE ? WATCH_READ : 0) |
                                   (events & UV_WRITABLE ? WATCH_WRITE : 0));
}

struct watch *watch_new(struct runtime *runtime, int fd, void (*ready)(void *owner, int events),
                        void *owner)
{
    struct watch *watch = xmalloc(sizeof *watch);
    watch->runtime = runtime;
    watch->ready = ready;
    watch->owner = owner;
    watch->events = 0;
    watch->poll.data = watch;
    if (uv_poll_init(runtime->loop, &watch->poll, fd) < 0) {
        free(watch);
        return NULL;
    }
    runtime->handles++;
    return watch;
}

void watch_set(struct watch *watch, int events)
{
    if (watch->events == events)
        return;
    watch->events = events;
    if (events == 0)
        uv_poll_stop(&watch->poll);
    else
        uv_poll_start(&watch->poll,
                      (events & WATCH_READ ? UV_READABLE : 0) |
                          (events & WATCH_WRITE ? UV_WRITABLE : 0),
                      on_poll);
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *watch = handle->data;
    struct runtime *runtime = watch->runtime;
    free(watch);
    runtime->handles--;
    runtime_check_stop(runtime);
}

void watch_free(struct watch **watch)
{
    if (!*watch)
        return;
    uv_close((uv_handle_t *)&(*watch)->poll, on_watch_closed);
    *watch = NULL;
}
