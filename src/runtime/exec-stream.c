/* SPDX-License-Identifier: Apache-2.0 */
/* The pipes of a command.

   Most commands are over in a moment and write little. Their pipes are never watched: what they
   wrote is read when they end. Only what still runs after some milliseconds, or is listened to, is
   given to epoll, which costs several system calls a descriptor and a wake-up each time one closes.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "runtime/internal.h"

#define READS_AT_ONCE 4 /* then others have their turn */

/* --- input ------------------------------------------------------------------------------------ */

static void input_close(struct execution *execution)
{
    watch_free(&execution->input_watch);
    fd_clear(&execution->input_fd);
    free(steal_ptr(execution->input));
    execution_uncount(execution);
}

/* Writes what fits; closes when all is written or nobody reads. */
static void input_push(struct execution *execution)
{
    while (execution->input_sent < execution->input_size) {
        ssize_t n = write(execution->input_fd, execution->input + execution->input_sent,
                          execution->input_size - execution->input_sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            break;
        execution->input_sent += (size_t)n;
    }
    input_close(execution);
}

static void on_writable(void *owner, int ready)
{
    (void)ready;
    input_push(owner);
}

/* --- output ----------------------------------------------------------------------------------- */

static void pipe_close(struct exec_pipe *pipe)
{
    watch_free(&pipe->watch);
    fd_clear(&pipe->fd);
}

static void take(struct execution *execution, enum stream stream, const char *data, size_t size)
{
    struct exec_pipe *pipe = &execution->pipes[stream];
    struct runtime *runtime = execution->runtime;
    pipe->bytes += size;
    runtime->stats.output_bytes += size;
    if (pipe->kept.size < pipe->kept.ceiling)
        buf_append(&pipe->kept, data, size);
    exec_log_add(runtime, &execution->session->log, execution->log, stream, data, size);
    if (!execution->events.output)
        return;
    execution_tell_started(execution);
    if (!execution->cancelled)
        execution->events.output(execution->owner, stream, data, size);
}

/* One read: its size, 0 if there is nothing now, -1 if the pipe is at its end and closed. */
static ssize_t read_once(struct execution *execution, enum stream stream)
{
    struct exec_pipe *pipe = &execution->pipes[stream];
    ssize_t n;
    do {
        n = read(pipe->fd, execution->runtime->read_buffer, READ_BUFFER_SIZE);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0) {
        /* Of one that is over the answer comes first, then the tidying. */
        if (execution->state != EXEC_OVER)
            pipe_close(pipe);
        return -1;
    }
    /* It writes faster than we read: fewer and larger reads. */
    if ((size_t)n >= PIPE_SIZE_DEFAULT && !pipe->raised && execution->state != EXEC_OVER) {
        pipe->raised = true;
        fcntl(pipe->fd, F_SETPIPE_SZ, PIPE_SIZE_RAISED);
    }
    take(execution, stream, execution->runtime->read_buffer, (size_t)n);
    return n;
}

static void on_readable(struct execution *execution, enum stream stream)
{
    for (int i = 0; i < READS_AT_ONCE; i++) {
        ssize_t n = read_once(execution, stream);
        /* A short read has emptied it; to ask again would only cost. */
        if (n < (ssize_t)PIPE_SIZE_DEFAULT || execution->cancelled || execution->paused ||
            execution->pipes[stream].fd < 0)
            return;
    }
}

static void on_output(void *owner, int ready)
{
    (void)ready;
    on_readable(owner, STREAM_OUTPUT);
}

static void on_error(void *owner, int ready)
{
    (void)ready;
    on_readable(owner, STREAM_ERROR);
}

bool exec_pipes_drain(struct execution *execution)
{
    for (int i = 0; i < STREAM_MAX; i++) {
        struct exec_pipe *pipe = &execution->pipes[i];
        /* At most a pipe full: that holds whatever the command itself wrote. What it left running
           may write for ever. */
        while (pipe->fd >= 0 && pipe->drained < PIPE_SIZE_RAISED) {
            if (execution->paused)
                return false;
            ssize_t n = read_once(execution, (enum stream)i);
            if (execution->cancelled)
                return false;
            if (n <= 0)
                break;
            pipe->drained += (size_t)n;
            if ((size_t)n < READ_BUFFER_SIZE)
                break;
        }
    }
    return !execution->paused;
}

/* --- both ------------------------------------------------------------------------------------- */

/* A pipe whose end for reading does not block; the other is to, like everybody's. */
static int make_pipe(struct spare_pipe *pipe)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *pipe = (struct spare_pipe){.read = ends[0], .write = ends[1]};
    return 0;
}

void exec_pipes_spare(struct runtime *runtime)
{
    while (!runtime->stopping && runtime->spare_count < SPARE_PIPES) {
        if (make_pipe(&runtime->spare[runtime->spare_count]) < 0)
            return;
        runtime->spare_count++;
    }
}

void exec_pipes_unspare(struct runtime *runtime)
{
    while (runtime->spare_count > 0) {
        struct spare_pipe *pipe = &runtime->spare[--runtime->spare_count];
        close(pipe->read);
        close(pipe->write);
    }
}

static int open_output(struct runtime *runtime, struct exec_pipe *pipe, int *ret_child,
                       struct error *err)
{
    struct spare_pipe made = {-1, -1};
    int result = 0;
    if (runtime->spare_count > 0)
        made = runtime->spare[--runtime->spare_count];
    else
        result = make_pipe(&made);
    if (result < 0)
        return error_errno(err, -result, "make a pipe for a command");
    pipe->fd = made.read;
    *ret_child = made.write;
    return 0;
}

int exec_pipes_open(struct execution *execution, int child[3], struct error *err)
{
    child[0] = execution->runtime->null_fd;
    if (execution->input) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
            return error_errno(err, errno, "make a pipe for a command");
        child[0] = ends[0];
        execution->input_fd = ends[1];
        fcntl(execution->input_fd, F_SETFL, O_NONBLOCK);
        input_push(execution); /* mostly that is all of it */
    }
    for (int i = 0; i < STREAM_MAX; i++) {
        if (open_output(execution->runtime, &execution->pipes[i], &child[i + 1], err) < 0) {
            for (int j = 0; j < 3; j++) {
                if (child[j] != execution->runtime->null_fd)
                    fd_clear(&child[j]);
            }
            return -1;
        }
    }
    return 0;
}

void exec_pipes_watch(struct execution *execution)
{
    static void (*const ready[STREAM_MAX])(void *owner, int events) = {on_output, on_error};
    list_remove(&execution->unwatched);
    for (int i = 0; i < STREAM_MAX && !execution->paused; i++) {
        struct exec_pipe *pipe = &execution->pipes[i];
        if (pipe->fd < 0)
            continue;
        if (!pipe->watch)
            pipe->watch = watch_new(execution->runtime, pipe->fd, ready[i], execution);
        if (pipe->watch)
            watch_set(pipe->watch, WATCH_READ);
    }
    if (execution->input_fd >= 0 && !execution->input_watch) {
        execution->input_watch =
            watch_new(execution->runtime, execution->input_fd, on_writable, execution);
        if (execution->input_watch)
            watch_set(execution->input_watch, WATCH_WRITE);
    }
}

void exec_pipes_pause(struct execution *execution)
{
    for (int i = 0; i < STREAM_MAX; i++) {
        if (execution->pipes[i].watch)
            watch_set(execution->pipes[i].watch, 0);
    }
}

void exec_pipes_close(struct execution *execution)
{
    list_remove(&execution->unwatched);
    for (int i = 0; i < STREAM_MAX; i++)
        pipe_close(&execution->pipes[i]);
    input_close(execution);
}

static void on_unwatched(void *owner)
{
    struct runtime *runtime = owner;
    uint64_t old = uv_hrtime() - LAZY_WATCH_MS * 1000000u / 2;
    while (!list_empty(&runtime->unwatched)) {
        struct execution *first = list_entry(runtime->unwatched.next, struct execution, unwatched);
        if (first->began_ns > old) {
            alarm_set(runtime->unwatched_alarm, LAZY_WATCH_MS);
            return;
        }
        exec_pipes_watch(first);
    }
}

void exec_watch_later(struct execution *execution)
{
    struct runtime *runtime = execution->runtime;
    if (execution->events.output || execution->input_fd >= 0) {
        exec_pipes_watch(execution);
        return;
    }
    if (!runtime->unwatched_alarm)
        runtime->unwatched_alarm = alarm_new(runtime, on_unwatched, runtime);
    if (list_empty(&runtime->unwatched))
        alarm_set(runtime->unwatched_alarm, LAZY_WATCH_MS);
    list_append(&runtime->unwatched, &execution->unwatched);
}
