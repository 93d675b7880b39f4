/* SPDX-License-Identifier: Apache-2.0 */
/* Attachments: who talks with a managed process. The first in line holds it. */
#include <string.h>

#include "runtime/internal.h"

#define PIECE_MAX (32u * 1024)

static struct attachment *holder(const struct process *process)
{
    if (list_empty(&process->attachments))
        return NULL;
    struct attachment *first = list_entry(process->attachments.next, struct attachment, link);
    return first->active ? first : NULL;
}

uint64_t attachments_floor(const struct process *process)
{
    const struct attachment *attachment = holder(process);
    return attachment ? attachment->told : UINT64_MAX;
}

/* --- the end of one --------------------------------------------------------------------------- */

/* Out of the line; the next one's turn. The memory stays until the loop has had its turn. */
static void leave(struct attachment *attachment)
{
    struct process *process = attachment->process;
    attachment->closed = true;
    list_remove(&attachment->link);
    task_cancel(&attachment->task);
    if (attachment->active)
        task_later(process->runtime, &process->task); /* it may have been held up */
    if (!list_empty(&process->attachments)) {
        struct attachment *next = list_entry(process->attachments.next, struct attachment, link);
        task_later(process->runtime, &next->task);
    }
    if (process->session)
        session_touch(process->session);
    free(attachment->err);
    attachment->err = NULL;
    memory_later(process->runtime, attachment);
    process_release(process);
}

static void end(struct attachment *attachment)
{
    struct attach_events events = attachment->events;
    void *owner = attachment->owner;
    struct error err;
    bool failed = attachment->err != NULL;
    if (failed)
        err = *attachment->err;
    leave(attachment);
    events.ended(owner, failed ? &err : NULL);
}

void attachments_fail(struct process *process, const struct error *err)
{
    list_each_safe(at, after, &process->attachments)
    {
        struct attachment *attachment = list_entry(at, struct attachment, link);
        if (!attachment->err)
            attachment->err = error_copy(err);
        task_later(process->runtime, &attachment->task);
    }
}

/* --- output ----------------------------------------------------------------------------------- */

static bool may_be_told(const struct attachment *attachment)
{
    return !attachment->closed && !attachment->paused && !attachment->err;
}

static void delivered(struct process *process, uint64_t offset)
{
    if (process->ring.header)
        ring_set_delivered(&process->ring, offset);
    else if (offset > process->delivered)
        process->delivered = offset;
}

/* Where the last line ends in what was just told; 0: nowhere. Half a line is not delivered: who is
   told makes lines of it, keeps the rest until it goes on, and has it no more once it has left. */
static uint64_t last_line_end(uint64_t told, const char *data, size_t size)
{
    const char *newline = memrchr(data, '\n', size);
    return newline ? told - (size - (size_t)(newline + 1 - data)) : 0;
}

void attachments_tell(struct process *process)
{
    struct attachment *attachment = holder(process);
    if (!attachment)
        return;
    process_hold(process);
    while (may_be_told(attachment) && attachment->told < process_written(process, STREAM_OUTPUT)) {
        size_t size;
        const char *data = process_at(process, STREAM_OUTPUT, attachment->told, &size);
        /* In pieces, so that whoever cannot take more can say so before it has all. */
        if (size > PIECE_MAX)
            size = PIECE_MAX;
        attachment->told += size;
        uint64_t whole = last_line_end(attachment->told, data, size);
        attachment->events.output(attachment->owner, data, size);
        /* After that: if boxd dies in between, it is told twice rather than never. */
        delivered(process, whole);
    }
    if (may_be_told(attachment) && process->state == PROCESS_ENDED && process_drained(process)) {
        delivered(process, attachment->told); /* a last line without its end, too */
        end(attachment);
    }
    process_release(process);
}

/* --- the beginning of one --------------------------------------------------------------------- */

static uint64_t where_to_begin(const struct process *process, uint64_t since)
{
    uint64_t oldest = process_oldest(process, STREAM_OUTPUT);
    uint64_t written = process_written(process, STREAM_OUTPUT);
    if (since == ATTACH_UNREAD)
        return process_unread(process);
    /* An offset that was never reached is of another process under the same name. */
    if (since < oldest || since > written)
        return process_oldest_line(process);
    return since;
}

static void on_task(struct task *task)
{
    struct attachment *attachment = list_entry(task, struct attachment, task);
    struct process *process = attachment->process;
    if (attachment->err)
        return end(attachment);
    if (process->attachments.next != &attachment->link)
        return;
    if (!attachment->active) {
        attachment->active = true;
        attachment->told = where_to_begin(process, attachment->since);
        attachment->events.attached(attachment->owner, attachment->told);
        if (attachment->closed)
            return;
    }
    process_hold(process);
    if (attachment->drained_later) {
        attachment->drained_later = false;
        attachment->events.drained(attachment->owner);
    }
    attachments_tell(process);
    if (process->state == PROCESS_ENDED)
        process_pump(process);
    else
        process_update(process);
    process_release(process);
}

struct attachment *process_attach(struct process *process, uint64_t since,
                                  const struct attach_events *events, void *owner)
{
    struct attachment *attachment = xcalloc(1, sizeof *attachment);
    attachment->process = process;
    process_hold(process);
    attachment->events = *events;
    attachment->owner = owner;
    attachment->since = since;
    task_init(&attachment->task, on_task);
    list_append(&process->attachments, &attachment->link);
    if (process->session)
        session_touch(process->session);
    if (process->runtime->stopping) {
        attachment->err = xcalloc(1, sizeof *attachment->err);
        error_set(attachment->err, ERROR_UNAVAILABLE, "boxd is stopping");
    }
    task_later(process->runtime, &attachment->task);
    return attachment;
}

/* --- what its owner does ---------------------------------------------------------------------- */

bool attachment_write(struct attachment *attachment, const void *data, size_t size)
{
    struct process *process = attachment->process;
    if (attachment->closed || attachment->err || size == 0)
        return true;
    if (process->backlog_size + size > INPUT_BACKLOG_MAX) {
        attachment->err = xcalloc(1, sizeof *attachment->err);
        error_set(attachment->err, ERROR_LIMIT,
                  "process '%s' does not read its input: %u bytes wait", process->spec.id,
                  (unsigned)process->backlog_size);
        task_later(process->runtime, &attachment->task);
        return false;
    }
    bool room = process_write(process, data, size);
    attachment->starved = !room;
    return room;
}

void attachments_drained(struct process *process)
{
    struct attachment *attachment = holder(process);
    if (!attachment || !attachment->starved || attachment->err)
        return;
    attachment->starved = false;
    attachment->events.drained(attachment->owner);
}

void attachment_pause(struct attachment *attachment)
{
    attachment->paused = true;
}

void attachment_resume(struct attachment *attachment)
{
    if (!attachment->paused || attachment->closed)
        return;
    attachment->paused = false;
    task_later(attachment->process->runtime, &attachment->task);
}

void attachment_close(struct attachment *attachment)
{
    if (!attachment->closed)
        leave(attachment);
}
