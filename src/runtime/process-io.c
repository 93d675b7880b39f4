/* SPDX-License-Identifier: Apache-2.0 */
/* The pipes of a managed process. Its output goes into its rings as it comes, over the oldest, as
   long as nobody is attached; who is attached and slow holds it up instead. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "runtime/internal.h"

#define TAIL_SIZE (16u * 1024)

/* --- output ----------------------------------------------------------------------------------- */

/* Of a ring that somebody reads from, half stays what has been told already: not all of that has
   arrived, and who comes back wants it again. */
static size_t room(const struct process *process, enum stream stream)
{
    uint64_t floor = stream == STREAM_OUTPUT ? attachments_floor(process) : UINT64_MAX;
    if (floor == UINT64_MAX)
        return ring_size(stream);
    uint64_t ahead = ring_written(&process->ring, stream) - floor;
    return ahead < ring_size(stream) / 2 ? ring_size(stream) / 2 - (size_t)ahead : 0;
}

static void output_close(struct process *process, enum stream stream)
{
    watch_free(&process->watches[1 + stream]);
    fd_clear(&process->fds[1 + stream]);
    process->drain_done[stream] = true;
}

/* One turn. False: nothing more is to be had now. */
static bool fill(struct process *process, enum stream stream, size_t most)
{
    ssize_t n = ring_fill(&process->ring, stream, process->fds[1 + stream], most);
    if (n == -EAGAIN)
        return false;
    if (n <= 0) {
        output_close(process, stream);
        return false;
    }
    process->runtime->stats.output_bytes += (uint64_t)n;
    process->drained[stream] += (size_t)n;
    return true;
}

static void on_output(void *owner, int ready)
{
    struct process *process = owner;
    (void)ready;
    process_hold(process);
    if (fill(process, STREAM_OUTPUT, room(process, STREAM_OUTPUT)))
        process_changed(process, false);
    attachments_tell(process);
    process_update(process);
    process_release(process);
}

static void on_error(void *owner, int ready)
{
    (void)ready;
    if (fill(owner, STREAM_ERROR, ring_size(STREAM_ERROR)))
        process_changed(owner, false);
}

void process_update(struct process *process)
{
    if (process->state != PROCESS_RUNNING || !process->watches[1])
        return;
    watch_set(process->watches[1], room(process, STREAM_OUTPUT) > 0 ? WATCH_READ : 0);
}

/* At most a pipe full for each stream: that holds whatever the process itself wrote. */
static void drain(struct process *process, enum stream stream)
{
    while (!process->drain_done[stream]) {
        size_t most = room(process, stream);
        size_t left = PIPE_SIZE_DEFAULT - process->drained[stream];
        if (most > left)
            most = left;
        if (left > 0 && most == 0)
            return; /* the attached one has to have it first */
        if (left == 0 || !fill(process, stream, most))
            process->drain_done[stream] = true;
    }
}

void process_pump(struct process *process)
{
    if (process->state != PROCESS_ENDED)
        return;
    if (!process->draining) {
        process->draining = true;
        process->drained[STREAM_OUTPUT] = process->drained[STREAM_ERROR] = 0;
        for (int i = 0; i < STREAM_MAX; i++)
            process->drain_done[i] = process->fds[1 + i] < 0;
        for (int i = 0; i < 3; i++)
            watch_free(&process->watches[i]);
    }
    process_hold(process);
    drain(process, STREAM_ERROR);
    uint64_t floor;
    do {
        floor = attachments_floor(process);
        drain(process, STREAM_OUTPUT);
        attachments_tell(process);
    } while (attachments_floor(process) != floor && !process->drain_done[STREAM_OUTPUT]);
    if (process_drained(process))
        process_close_pipes(process);
    process_release(process);
}

bool process_drained(const struct process *process)
{
    return process->drain_done[STREAM_OUTPUT] && process->drain_done[STREAM_ERROR];
}

/* --- input ------------------------------------------------------------------------------------ */

void process_close_input(struct process *process)
{
    watch_free(&process->watches[0]);
    fd_clear(&process->fds[0]);
    free(steal_ptr(process->backlog));
    process->backlog_start = process->backlog_size = process->backlog_capacity = 0;
}

/* Writes what fits; -1 if nobody reads any more. */
static ssize_t push(struct process *process, const char *data, size_t size)
{
    size_t sent = 0;
    while (sent < size) {
        ssize_t n = write(process->fds[0], data + sent, size - sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            return -1;
        sent += (size_t)n;
    }
    return (ssize_t)sent;
}

static void on_input(void *owner, int ready)
{
    struct process *process = owner;
    (void)ready;
    ssize_t sent = push(process, process->backlog + process->backlog_start, process->backlog_size);
    if (sent < 0) {
        process_close_input(process);
        attachments_drained(process);
        return;
    }
    process->backlog_start += (size_t)sent;
    process->backlog_size -= (size_t)sent;
    if (process->backlog_size > 0)
        return;
    free(steal_ptr(process->backlog));
    process->backlog_start = process->backlog_capacity = 0;
    watch_set(process->watches[0], 0);
    attachments_drained(process);
}

static void keep_for_later(struct process *process, const char *data, size_t size)
{
    size_t end = process->backlog_start + process->backlog_size;
    if (process->backlog_capacity - end < size) {
        if (process->backlog_size > 0)
            memmove(process->backlog, process->backlog + process->backlog_start,
                    process->backlog_size);
        process->backlog_start = 0;
        end = process->backlog_size;
        size_t capacity = process->backlog_capacity ? process->backlog_capacity : 64 * 1024;
        while (capacity < end + size)
            capacity *= 2;
        process->backlog = xreallocarray(process->backlog, capacity, 1);
        process->backlog_capacity = capacity;
    }
    memcpy(process->backlog + end, data, size);
    process->backlog_size += size;
}

/* False: some of it waits. */
bool process_write(struct process *process, const void *data, size_t size)
{
    if (process->fds[0] < 0)
        return true; /* it is over, or being stopped: the bytes are nobody's */
    size_t sent = 0;
    if (process->backlog_size == 0) {
        ssize_t n = push(process, data, size);
        if (n < 0) {
            process_close_input(process);
            return true;
        }
        sent = (size_t)n;
    }
    if (sent == size)
        return process->backlog_size == 0;
    keep_for_later(process, (const char *)data + sent, size - sent);
    if (!process->watches[0])
        process->watches[0] = watch_new(process->runtime, process->fds[0], on_input, process);
    if (process->watches[0])
        watch_set(process->watches[0], WATCH_WRITE);
    return false;
}

/* --- both ------------------------------------------------------------------------------------- */

int process_pipes_open(struct process *process, int child[3], struct error *err)
{
    for (int i = 0; i < 3; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) {
            error_errno(err, errno, "make a pipe for a process");
            for (int j = 0; j < 3; j++)
                fd_clear(&child[j]);
            return -1;
        }
        process->fds[i] = ends[i == 0 ? 1 : 0];
        child[i] = ends[i == 0 ? 0 : 1];
        fcntl(process->fds[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

void process_watch(struct process *process)
{
    static void (*const ready[])(void *owner, int events) = {on_output, on_error};
    for (int i = 0; i < STREAM_MAX; i++) {
        if (process->fds[1 + i] < 0 || process->watches[1 + i])
            continue;
        process->watches[1 + i] =
            watch_new(process->runtime, process->fds[1 + i], ready[i], process);
        if (process->watches[1 + i])
            watch_set(process->watches[1 + i], WATCH_READ);
    }
}

void process_close_pipes(struct process *process)
{
    process_close_input(process);
    for (int i = 0; i < STREAM_MAX; i++)
        output_close(process, (enum stream)i);
}

/* --- what is kept ----------------------------------------------------------------------------- */

void process_drop_ring(struct process *process)
{
    if (!process->ring.header || !list_empty(&process->attachments) || !process_drained(process))
        return;
    for (int i = 0; i < STREAM_MAX; i++) {
        uint64_t written = ring_written(&process->ring, i);
        uint64_t offset = written > TAIL_SIZE ? written - TAIL_SIZE : 0;
        process->tails[i] = xmalloc(TAIL_SIZE);
        process->tail_sizes[i] =
            ring_read(&process->ring, i, &offset, process->tails[i], TAIL_SIZE);
        process->totals[i] = written;
    }
    process->delivered = ring_delivered(&process->ring);
    ring_release(&process->ring);
}

uint64_t process_written(const struct process *process, enum stream stream)
{
    return process->ring.header ? ring_written(&process->ring, stream) : process->totals[stream];
}

uint64_t process_oldest(const struct process *process, enum stream stream)
{
    if (process->ring.header)
        return ring_oldest(&process->ring, stream);
    return process->totals[stream] - process->tail_sizes[stream];
}

const char *process_at(const struct process *process, enum stream stream, uint64_t offset,
                       size_t *ret_size)
{
    if (process->ring.header)
        return ring_at(&process->ring, stream, offset, ret_size);
    *ret_size = (size_t)(process->totals[stream] - offset);
    size_t place = process->tail_sizes[stream] - *ret_size;
    return process->tails[stream] ? process->tails[stream] + place : "";
}

uint64_t process_oldest_line(const struct process *process)
{
    return process->ring.header ? ring_oldest_line(&process->ring)
                                : process_oldest(process, STREAM_OUTPUT);
}

uint64_t process_unread(const struct process *process)
{
    if (process->ring.header)
        return ring_unread(&process->ring);
    uint64_t oldest = process_oldest(process, STREAM_OUTPUT);
    return process->delivered > oldest ? process->delivered : oldest;
}

size_t process_log(const struct process *process, enum stream stream, uint64_t *offset,
                   void *buffer, size_t size)
{
    uint64_t oldest = process_oldest(process, stream);
    uint64_t written = process_written(process, stream);
    if (*offset < oldest)
        *offset = oldest;
    size_t used = 0;
    while (used < size && *offset + used < written) {
        size_t part;
        const char *at = process_at(process, stream, *offset + used, &part);
        if (part > size - used)
            part = size - used;
        memcpy((char *)buffer + used, at, part);
        used += part;
    }
    return used;
}

size_t process_error_tail(const struct process *process, char *buffer, size_t size)
{
    uint64_t written = process_written(process, STREAM_ERROR);
    uint64_t offset = written > size ? written - size : 0;
    return process_log(process, STREAM_ERROR, &offset, buffer, size);
}
