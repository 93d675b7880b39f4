/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's view of the loop: things to do later, memory that dies later, alarms, and watched
   descriptors. None of them delivers anything before the caller has returned to the loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/list.h"

struct runtime;

/* Done once the present callback has returned, in the same turn of the loop. */
struct task {
    struct list link;
    void (*run)(struct task *task);
};

void task_init(struct task *task, void (*run)(struct task *task));
void task_later(struct runtime *runtime, struct task *task); /* again: no matter */
void task_cancel(struct task *task);

/* free(), but not while a caller may still be looking at it. */
void memory_later(struct runtime *runtime, void *memory);

/* Their handles live on until libuv has let go of them; their owners need not. */
struct alarm;
struct alarm *alarm_new(struct runtime *runtime, void (*fire)(void *owner), void *owner);
void alarm_set(struct alarm *alarm, uint64_t milliseconds);
void alarm_clear(struct alarm *alarm);
void alarm_free(struct alarm **alarm);

#define WATCH_READ  1
#define WATCH_WRITE 2

/* A descriptor that went wrong is reported as both readable and writable: the call on it tells. */
struct watch;
struct watch *watch_new(struct runtime *runtime, int fd, void (*ready)(void *owner, int events),
                        void *owner);
void watch_set(struct watch *watch, int events); /* 0: nothing */
void watch_free(struct watch **watch);           /* before the descriptor is closed */
