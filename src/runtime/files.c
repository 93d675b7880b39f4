/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a session: our side of the conversation of core/files.h with a worker inside. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/fd.h"
#include "runtime/internal.h"

#define FILE_BACKLOG_HIGH (512u * 1024) /* a writer is asked to wait */
#define FILE_BACKLOG_MAX  (64u * 1024 * 1024)
#define READS_AT_ONCE     4

enum file_state {
    FILE_JOB_WAITING, /* for the session */
    FILE_JOB_ASKED,   /* the first reply is still to come */
    FILE_JOB_DATA,    /* what follows it */
    FILE_JOB_CLOSING, /* WRITE: the second reply is still to come */
    FILE_JOB_TOLD,
};

struct file_job {
    struct list link;
    struct task task;
    struct runtime *runtime;
    struct session *session; /* held */
    struct file_events events;
    void *owner;
    enum file_state state;
    bool cancelled, paused, starved, finished;
    struct file_request request;
    char *path, *to;
    int sock;
    struct watch *watch;
    struct buf in;  /* a reply or an entry, in parts */
    struct buf out; /* WRITE */
    size_t out_sent;
    uint64_t left; /* READ */
    struct error *err;
};

/* --- the end ---------------------------------------------------------------------------------- */

static void close_socket(struct file_job *job)
{
    watch_free(&job->watch);
    fd_clear(&job->sock);
}

static void finish(struct file_job *job, const struct error *err)
{
    struct session *session = job->session;
    if (job->state == FILE_JOB_TOLD)
        return;
    job->state = FILE_JOB_TOLD;
    close_socket(job);
    list_remove(&job->link);
    task_cancel(&job->task);
    if (!job->cancelled)
        job->events.done(job->owner, err);
    buf_release(&job->in);
    buf_release(&job->out);
    free(job->path);
    free(job->to);
    free(job->err);
    memory_later(job->runtime, job);
    session_rest(session);
    session_release(session);
}

static enum error_code code_of(int errnum)
{
    switch (errnum) {
    case ENOENT:
        return ERROR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERROR_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
        return ERROR_LIMIT;
    case EISDIR:
    case ENOTDIR:
    case EINVAL:
    case EEXIST:
    case ENOTEMPTY:
    case ENAMETOOLONG:
    case ELOOP:
    case EXDEV:
    case EBUSY:
    case ETXTBSY:
    case EOPNOTSUPP:
        return ERROR_INVALID;
    default:
        return ERROR_SYSTEM;
    }
}

static void fail_errno(struct file_job *job, int errnum)
{
    struct error err;
    error_errno(&err, errnum, "'%.200s'", job->path);
    err.code = code_of(errnum);
    finish(job, &err);
}

static void fail_torn(struct file_job *job)
{
    struct error err;
    error_set(&err, ERROR_GONE, "'%.200s': the worker in the sandbox ended in the middle",
              job->path);
    finish(job, &err);
}

/* --- what comes ------------------------------------------------------------------------------- */

/* Until `in` holds `size` bytes. The number consumed. */
static size_t gather(struct file_job *job, const char *data, size_t size, size_t wanted)
{
    size_t missing = wanted - job->in.size;
    return buf_append(&job->in, data, size < missing ? size : missing);
}

static size_t take_reply(struct file_job *job, const char *data, size_t size)
{
    struct file_reply reply;
    size_t used = gather(job, data, size, sizeof reply);
    if (job->in.size < sizeof reply)
        return used;
    memcpy(&reply, job->in.data, sizeof reply);
    job->in.size = 0;
    if (reply.errnum != 0) {
        fail_errno(job, reply.errnum > 0 && reply.errnum < 4096 ? reply.errnum : EPROTO);
        return used;
    }
    if (job->state == FILE_JOB_CLOSING) {
        finish(job, NULL);
        return used;
    }
    job->state = FILE_JOB_DATA;
    job->left = reply.length;
    struct file_info info = {
        .mode = reply.mode, .size = reply.size, .length = reply.length, .mtime_ns = reply.mtime_ns};
    job->events.opened(job->owner, &info);
    if (job->cancelled)
        return used;
    bool more = job->request.op == FILE_WRITE || job->request.op == FILE_LIST ||
                (job->request.op == FILE_READ && job->left > 0);
    if (!more)
        finish(job, NULL);
    return used;
}

static size_t take_data(struct file_job *job, const char *data, size_t size)
{
    if (size > job->left)
        size = (size_t)job->left;
    job->left -= size;
    job->events.data(job->owner, data, size);
    if (!job->cancelled && job->left == 0)
        finish(job, NULL);
    return size;
}

static size_t take_entry(struct file_job *job, const char *data, size_t size)
{
    struct file_entry entry;
    char name[FILE_NAME_SIZE];
    size_t used = 0;
    if (job->in.size < sizeof entry)
        used = gather(job, data, size, sizeof entry);
    if (job->in.size < sizeof entry)
        return used;
    memcpy(&entry, job->in.data, sizeof entry);
    if (entry.name_size >= FILE_NAME_SIZE) {
        fail_errno(job, EPROTO);
        return used;
    }
    if (entry.name_size == 0) {
        finish(job, NULL);
        return used;
    }
    size_t whole = sizeof entry + entry.name_size;
    used += gather(job, data + used, size - used, whole);
    if (job->in.size < whole)
        return used;
    memcpy(name, job->in.data + sizeof entry, entry.name_size);
    name[entry.name_size] = '\0';
    job->in.size = 0;
    if (strlen(name) != entry.name_size || strchr(name, '/')) {
        fail_errno(job, EPROTO);
        return used;
    }
    struct file_info info = {
        .name = name, .mode = entry.mode, .size = entry.size, .mtime_ns = entry.mtime_ns};
    job->events.entry(job->owner, &info);
    return used;
}

static bool over(const struct file_job *job)
{
    return job->state == FILE_JOB_TOLD || job->cancelled;
}

/* All of it, even while paused: a pause keeps the next from being read. */
static void take(struct file_job *job, const char *data, size_t size)
{
    while (size > 0 && !over(job)) {
        size_t used;
        if (job->state != FILE_JOB_DATA)
            used = take_reply(job, data, size);
        else if (job->request.op == FILE_READ)
            used = take_data(job, data, size);
        else if (job->request.op == FILE_LIST)
            used = take_entry(job, data, size);
        else if (job->request.op == FILE_WRITE) { /* it failed before it had everything */
            job->state = FILE_JOB_CLOSING;
            used = take_reply(job, data, size);
        } else
            return;
        data += used;
        size -= used;
    }
}

static void receive(struct file_job *job)
{
    for (int i = 0; i < READS_AT_ONCE && !over(job) && !job->paused; i++) {
        ssize_t n;
        do {
            n = recv(job->sock, job->runtime->read_buffer, READ_BUFFER_SIZE, MSG_DONTWAIT);
        } while (n < 0 && errno == EINTR);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            fail_torn(job);
            return;
        }
        take(job, job->runtime->read_buffer, (size_t)n);
        if ((size_t)n < READ_BUFFER_SIZE / 4)
            return;
    }
}

/* --- what goes -------------------------------------------------------------------------------- */

static size_t waiting(const struct file_job *job)
{
    return job->out.size - job->out_sent;
}

static void send_some(struct file_job *job)
{
    while (waiting(job) > 0) {
        ssize_t n = send(job->sock, job->out.data + job->out_sent, waiting(job),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) /* if it is closed, what it said before that comes by the other way */
            break;
        job->out_sent += (size_t)n;
    }
    if (waiting(job) == 0)
        job->out.size = job->out_sent = 0;
}

static void update(struct file_job *job)
{
    if (!job->watch)
        return;
    bool may_send = job->state == FILE_JOB_DATA || job->state == FILE_JOB_CLOSING;
    watch_set(job->watch,
              (job->paused ? 0 : WATCH_READ) | (may_send && waiting(job) > 0 ? WATCH_WRITE : 0));
}

static void on_ready(void *owner, int ready)
{
    struct file_job *job = owner;
    if (ready & WATCH_READ)
        receive(job);
    if (over(job))
        return;
    if (ready & WATCH_WRITE || (job->state == FILE_JOB_DATA && waiting(job) > 0))
        send_some(job);
    update(job);
    if (job->starved && waiting(job) < FILE_BACKLOG_HIGH / 2 && job->state == FILE_JOB_DATA) {
        job->starved = false;
        job->events.drained(job->owner);
    }
}

static void put(struct file_job *job, const void *data, size_t size)
{
    if (job->out_sent > 0 && job->out_sent >= job->out.size / 2) {
        memmove(job->out.data, job->out.data + job->out_sent, waiting(job));
        job->out.size -= job->out_sent;
        job->out_sent = 0;
    }
    if (job->out.size + size > job->out.ceiling) {
        struct error err;
        error_set(&err, ERROR_LIMIT, "'%.200s': %zu bytes wait to be written", job->path,
                  waiting(job));
        if (!job->err)
            job->err = error_copy(&err);
        task_later(job->runtime, &job->task);
        return;
    }
    buf_append(&job->out, data, size);
}

bool file_job_write(struct file_job *job, const void *data, size_t size)
{
    const char *at = data;
    if (over(job) || job->err || job->finished)
        return true;
    while (size > 0) {
        uint32_t part = size > FILE_CHUNK_MAX ? FILE_CHUNK_MAX : (uint32_t)size;
        put(job, &part, sizeof part);
        put(job, at, part);
        at += part;
        size -= part;
    }
    if (job->state == FILE_JOB_DATA && !job->err)
        send_some(job);
    update(job);
    job->starved = waiting(job) >= FILE_BACKLOG_HIGH;
    return !job->starved;
}

void file_job_finish(struct file_job *job)
{
    uint32_t end = 0;
    if (over(job) || job->finished)
        return;
    job->finished = true;
    put(job, &end, sizeof end);
    if (job->state == FILE_JOB_DATA && !job->err)
        send_some(job);
    update(job);
}

/* --- life ------------------------------------------------------------------------------------- */

static void begin(struct file_job *job)
{
    struct error err = ERROR_INIT;
    if (job->runtime->ops->file(job->session->backend, &job->request, job->path, job->to,
                                &job->sock, &err) < 0) {
        job->err = error_copy(&err);
        task_later(job->runtime, &job->task);
        return;
    }
    job->state = FILE_JOB_ASKED;
    job->watch = watch_new(job->runtime, job->sock, on_ready, job);
    update(job);
}

static void on_task(struct task *task)
{
    struct file_job *job = list_entry(task, struct file_job, task);
    if (job->err) {
        struct error err = *job->err;
        finish(job, &err);
    } else {
        update(job);
    }
}

struct file_job *session_file(struct session *session, const struct file_request *request,
                              const char *path, const char *to, const struct file_events *events,
                              void *owner)
{
    struct error err = ERROR_INIT;
    struct file_job *job = xcalloc(1, sizeof *job);
    job->runtime = session->runtime;
    job->session = session;
    job->events = *events;
    job->owner = owner;
    job->request = *request;
    job->path = xstrdup(path);
    job->to = to ? xstrdup(to) : NULL;
    job->sock = -1;
    job->in.ceiling = sizeof(struct file_entry) + FILE_NAME_SIZE;
    job->out.ceiling = FILE_BACKLOG_MAX;
    task_init(&job->task, on_task);
    session_hold(session);
    list_append(&session->files, &job->link);
    session_busy(session);
    if (session_usable(session, &err) < 0) {
        job->err = error_copy(&err);
        task_later(job->runtime, &job->task);
    } else if (session->state == SESSION_LIVE) {
        begin(job);
    }
    return job;
}

void file_job_pause(struct file_job *job)
{
    job->paused = true;
    update(job);
}

void file_job_resume(struct file_job *job)
{
    if (!job->paused || over(job))
        return;
    job->paused = false;
    task_later(job->runtime, &job->task);
}

void file_job_cancel(struct file_job *job)
{
    if (over(job))
        return;
    job->cancelled = true;
    finish(job, NULL);
}

void session_kick_files(struct session *session)
{
    list_each_safe(at, after, &session->files)
    {
        struct file_job *job = list_entry(at, struct file_job, link);
        if (job->state == FILE_JOB_WAITING && !job->err)
            begin(job);
    }
}

void session_fail_files(struct session *session, const struct error *err)
{
    list_each_safe(at, after, &session->files)
    {
        struct file_job *job = list_entry(at, struct file_job, link);
        if (job->err)
            continue;
        job->err = error_copy(err);
        task_later(session->runtime, &job->task);
    }
}
