/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a session: a file that is there before the session has anything, and goes when it
   has nothing any more. Written beside and renamed, so that a reader sees the old or the new one
   whole.

   Where the directory is in memory, as it should be, this is done on the spot and fsync left out;
   else in libuv's thread pool, one write of a session at a time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/log.h"
#include "runtime/internal.h"

#define RECORD_FORMAT (JSON_COMPACT | JSON_ENSURE_ASCII)
#define RECORD_MARGIN 1024 /* of a process, besides its spec */

struct record_job {
    uv_work_t work;
    struct session *session; /* held */
    int dir;
    bool sync;
    char name[SESSION_KEY_SIZE + 8];
    char *text; /* NULL: remove it */
    size_t size;
    int result; /* 0 or -errno */
    struct list waiters;
};

/* --- in any thread ---------------------------------------------------------------------------- */

static int write_file(const struct record_job *job)
{
    char temporary[sizeof job->name + 8];
    snprintf(temporary, sizeof temporary, "%s.tmp", job->name);
    cleanup_close int fd =
        openat(job->dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int result = fd_write_all(fd, job->text, job->size);
    if (result == 0 && job->sync && fsync(fd) < 0)
        result = -errno;
    if (result == 0 && renameat(job->dir, temporary, job->dir, job->name) < 0)
        result = -errno;
    if (result < 0) {
        unlinkat(job->dir, temporary, 0);
        return result;
    }
    return job->sync && fsync(job->dir) < 0 ? -errno : 0;
}

static void work(uv_work_t *request)
{
    struct record_job *job = request->data;
    if (job->text)
        job->result = write_file(job);
    else if (unlinkat(job->dir, job->name, 0) < 0 && errno != ENOENT)
        job->result = -errno;
}

/* --- on the loop ------------------------------------------------------------------------------ */

static void run_next(struct session *session);

static void tell(struct list *waiters, const struct error *err)
{
    while (!list_empty(waiters)) {
        struct record_waiter *waiter = list_entry(waiters->next, struct record_waiter, link);
        list_remove(&waiter->link);
        waiter->done(waiter, err);
    }
}

static void finish(struct record_job *job)
{
    struct session *session = job->session;
    bool removed = !job->text;
    struct error err = ERROR_INIT;
    if (job->result < 0) {
        error_errno(&err, -job->result, "%s the record of session '%s'",
                    removed ? "remove" : "write", session->spec.name);
        log_error(LOG_WARN, "record_failed", &err, LOG_TEXT("session", session->spec.name));
    }
    session->record_writing = false;
    tell(&job->waiters, job->result < 0 ? &err : NULL);
    free(job->text);
    free(job);
    if (removed && session->record_remove)
        session_gone(session);
    else
        run_next(session);
    session_release(session);
}

static void after_work(uv_work_t *request, int status)
{
    (void)status;
    struct record_job *job = request->data;
    struct runtime *runtime = job->session->runtime;
    runtime->writing--;
    finish(job);
    runtime_check_stop(runtime);
}

static void start(struct session *session, char *text)
{
    struct runtime *runtime = session->runtime;
    struct record_job *job = xcalloc(1, sizeof *job);
    job->session = session;
    session_hold(session);
    job->dir = runtime->records_fd;
    job->sync = !runtime->records_volatile;
    snprintf(job->name, sizeof job->name, "%s.json", session->key);
    job->text = text;
    job->size = text ? strlen(text) : 0;
    job->work.data = job;
    list_take(&job->waiters, &session->record_waiters);
    session->record_writing = true;
    session->record_dirty = false;
    if (runtime->records_volatile ||
        uv_queue_work(runtime->loop, &job->work, work, after_work) < 0) {
        work(&job->work);
        finish(job);
        return;
    }
    runtime->writing++;
}

static int too_long(const struct session *session, size_t size, struct error *err)
{
    error_set(err, ERROR_LIMIT,
              "session '%s' has too much to remember for a restart: %zu bytes, at most %u",
              session->spec.name, size, RECORD_MAX);
    return error_hint(err, "hand long arguments over in a file of the session");
}

/* NULL: it cannot be written. The caller frees. */
static char *make_text(const struct session *session, struct error *err)
{
    json_t *record = record_make(session);
    char *text = json_dumps(record, RECORD_FORMAT);
    size_t size = text ? strlen(text) : 0;
    json_decref(record);
    if (!text)
        error_set(err, ERROR_INVALID, "session '%s' cannot be written down as JSON",
                  session->spec.name);
    if (size < RECORD_MAX)
        return text;
    too_long(session, size, err);
    free(text);
    return NULL;
}

int record_room(const struct session *session, const struct process_spec *spec, struct error *err)
{
    json_t *record = record_make(session);
    json_t *more = record_process_spec(spec);
    size_t size = json_dumpb(record, NULL, 0, RECORD_FORMAT) +
                  json_dumpb(more, NULL, 0, RECORD_FORMAT) + RECORD_MARGIN;
    json_decref(record);
    json_decref(more);
    return size < RECORD_MAX ? 0 : too_long(session, size, err);
}

static void run_next(struct session *session)
{
    if (session->record_writing)
        return;
    if (session->record_gone) {
        tell(&session->record_waiters, NULL);
        if (session->record_remove || session->record_dirty)
            start(session, NULL);
        return;
    }
    if (!session->record_dirty)
        return;
    struct error err = ERROR_INIT;
    char *text = make_text(session, &err);
    if (text)
        return start(session, text);
    log_error(LOG_WARN, "record_failed", &err, LOG_TEXT("session", session->spec.name));
    session->record_dirty = false;
    tell(&session->record_waiters, &err);
}

void record_save(struct session *session, struct record_waiter *waiter)
{
    /* One that ends, or is broken, has its record removed next. */
    if (session->record_gone || session->state == SESSION_ENDING ||
        session->state == SESSION_BROKEN) {
        if (waiter)
            waiter->done(waiter, NULL);
        return;
    }
    if (waiter)
        list_append(&session->record_waiters, &waiter->link);
    session->record_dirty = true;
    run_next(session);
}

void record_forget(struct session *session)
{
    session->record_gone = true;
    session->record_dirty = true;
    run_next(session);
}
