/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime as a whole: its beginning, its settings, its end. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/log.h"
#include "runtime/internal.h"

#define STOP_DEADLINE_MS 10000

void runtime_config_init(struct runtime_config *config)
{
    *config = (struct runtime_config){
        .session_ttl_ms = 300 * 1000,
        .max_sessions = 64,
        .max_managed_processes = 64,
        .max_completed_processes = 256,
        .completed_retention_ms = 300 * 1000,
        .max_queued_bytes = 256 * 1024 * 1024,
        .output_keep_bytes = 1024 * 1024,
        .session_log_bytes = 16 * 1024 * 1024,
        .outlive_seconds = 60,
        .audit_bytes = 16 * 1024 * 1024,
        .audit_files = 4,
    };
}

static void config_release(struct runtime_config *config)
{
    free((char *)config->run_dir);
    free((char *)config->state_dir);
    strings_release(&config->allowed_roots);
}

static void config_copy(struct runtime_config *to, const struct runtime_config *from)
{
    *to = *from;
    to->run_dir = xstrdup(from->run_dir);
    to->state_dir = xstrdup(from->state_dir);
    to->allowed_roots = (struct strings){0};
    strings_copy(&to->allowed_roots, &from->allowed_roots);
}

void runtime_reconfigure(struct runtime *runtime, const struct runtime_config *config)
{
    struct runtime_config old = runtime->config;
    config_copy(&runtime->config, config);
    /* What is open stays where it is. */
    free((char *)runtime->config.run_dir);
    free((char *)runtime->config.state_dir);
    runtime->config.run_dir = old.run_dir;
    runtime->config.state_dir = old.state_dir;
    old.run_dir = old.state_dir = NULL;
    config_release(&old);
    processes_trim(runtime);
}

const struct runtime_config *runtime_config(const struct runtime *runtime)
{
    return &runtime->config;
}

struct backend *runtime_backend(const struct runtime *runtime)
{
    return runtime->backend;
}

void runtime_set_actor(struct runtime *runtime, const char *actor)
{
    snprintf(runtime->actor, sizeof runtime->actor, "%s", actor ? actor : "");
}

static void on_stop_task(struct task *task);

/* --- the beginning ---------------------------------------------------------------------------- */

static int open_directory(const char *path, struct error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_errno(err, errno, "make the directory '%.200s'", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "open the directory '%.200s'", path);
    return fd;
}

static bool is_volatile(int fd)
{
    struct statfs st;
    return fstatfs(fd, &st) == 0 && (st.f_type == TMPFS_MAGIC || st.f_type == RAMFS_MAGIC);
}

static int open_files(struct runtime *runtime, struct error *err)
{
    cleanup_free char *records = xasprintf("%s/sessions", runtime->config.run_dir);
    cleanup_close int run = open_directory(runtime->config.run_dir, err);
    if (run < 0)
        return -1;
    runtime->records_fd = open_directory(records, err);
    if (runtime->records_fd < 0)
        return -1;
    runtime->records_volatile = is_volatile(runtime->records_fd);
    runtime->state_fd = open_directory(runtime->config.state_dir, err);
    if (runtime->state_fd < 0)
        return -1;
    runtime->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (runtime->null_fd < 0)
        return error_errno(err, errno, "open /dev/null");
    return 0;
}

static void on_spare(struct task *task)
{
    exec_pipes_spare(list_entry(task, struct runtime, spare_task));
}

static void close_files(struct runtime *runtime)
{
    exec_pipes_unspare(runtime);
    fd_clear(&runtime->null_fd);
    fd_clear(&runtime->records_fd);
    fd_clear(&runtime->state_fd);
}

int runtime_new(uv_loop_t *loop, const struct runtime_config *config, struct backend *backend,
                struct runtime **ret, struct error *err)
{
    struct runtime *runtime = xcalloc(1, sizeof *runtime);
    runtime->loop = loop;
    runtime->backend = backend;
    runtime->ops = backend->ops;
    runtime->null_fd = runtime->records_fd = runtime->state_fd = -1;
    config_copy(&runtime->config, config);
    if (open_files(runtime, err) < 0 ||
        getrandom(&runtime->table.seed, sizeof runtime->table.seed, 0) < 0) {
        close_files(runtime);
        config_release(&runtime->config);
        free(runtime);
        return -1;
    }
    /* A process that does not read its input any more is its own affair. */
    signal(SIGPIPE, SIG_IGN);
    list_init(&runtime->sessions);
    list_init(&runtime->completed);
    list_init(&runtime->unwatched);
    loop_open(runtime);
    task_init(&runtime->stop_task, on_stop_task);
    task_init(&runtime->recover_task, NULL);
    task_init(&runtime->spare_task, on_spare);
    runtime->read_buffer = xmalloc(READ_BUFFER_SIZE);
    if (config->audit_bytes > 0) {
        runtime->audit = audit_new(runtime, err);
        if (!runtime->audit) {
            runtime_free(runtime);
            return -1;
        }
    }
    *ret = runtime;
    return 0;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void destroy(struct runtime *runtime)
{
    while (!list_empty(&runtime->sessions)) {
        struct session *session = list_entry(runtime->sessions.next, struct session, link);
        list_remove(&session->link);
        session_discard(session);
    }
    audit_free(runtime->audit);
    close_files(runtime);
    config_release(&runtime->config);
    free(runtime->table.buckets);
    free(runtime->read_buffer);
    free(runtime->graves);
    free(runtime);
}

static void on_loop_closed(struct runtime *runtime)
{
    void (*stopped)(void *data) = runtime->stopped;
    bool free_it = runtime->free_when_closed;
    runtime->closed = true;
    if (stopped)
        stopped(runtime->stopped_data); /* which may free it */
    if (free_it)
        destroy(runtime);
}

/* Nothing is under way any more: the handles go, and when the last is closed, so does everything.
 */
static void close_handles(void *data)
{
    struct runtime *runtime = data;
    runtime->handles_closing = true;
    list_each(at, &runtime->sessions) session_close_handles(list_entry(at, struct session, link));
    if (runtime->audit)
        audit_close(runtime->audit);
    alarm_free(&runtime->completed_alarm);
    alarm_free(&runtime->unwatched_alarm);
    alarm_free(&runtime->stop_alarm);
    runtime_check_stop(runtime);
}

static bool is_quiet(const struct runtime *runtime)
{
    if (runtime->writing > 0)
        return false;
    if (runtime->stop_late)
        return true;
    if (runtime->unfinished > 0)
        return false;
    list_each(at, &runtime->sessions)
    {
        const struct session *session = list_entry(at, struct session, link);
        if (!runtime->stop_keep || session->state == SESSION_ENDING || session->destroying)
            return false;
    }
    return true;
}

static void on_stop_task(struct task *task)
{
    struct runtime *runtime = list_entry(task, struct runtime, stop_task);
    if (!list_empty(&runtime->tasks)) { /* they first: this is the last */
        task_later(runtime, task);
        return;
    }
    if (runtime->stopping && !runtime->finishing && is_quiet(runtime)) {
        runtime->finishing = true;
        audit_finish(runtime->audit, close_handles, runtime);
    }
}

void runtime_check_stop(struct runtime *runtime)
{
    if (runtime->handles_closing && runtime->handles == 0 && runtime->loop_ready)
        loop_close(runtime, on_loop_closed);
    else if (runtime->stopping && !runtime->finishing)
        task_later(runtime, &runtime->stop_task);
}

static void on_stop_late(void *owner)
{
    struct runtime *runtime = owner;
    runtime->stop_late = true;
    log_event(LOG_WARN, "stop_incomplete", LOG_NUMBER("unfinished", runtime->unfinished),
              LOG_NUMBER("sessions", runtime->table.count));
    runtime_check_stop(runtime);
}

static void stop_session(struct session *session, bool keep, const struct error *err)
{
    session_hold(session);
    openings_fail(&session->openings, err);
    openings_fail(&session->after, err);
    session_fail_executions(session, err);
    session_fail_terminals(session, err);
    session_fail_files(session, err);
    list_each_safe(at, after, &session->processes)
    {
        struct process *process = list_entry(at, struct process, link);
        process_starts_fail(&process->starts, err);
        attachments_fail(process, err);
    }
    /* What is half made or broken is of no use to a successor; what is being taken over still is.
     */
    bool worth =
        session->state == SESSION_LIVE || (session->state == SESSION_STARTING && session->adopted);
    if (!keep || !worth)
        session_finish(session, SESSION_END_STOPPED);
    session_settle(session);
    session_release(session);
}

void runtime_stop(struct runtime *runtime, bool keep, void (*done)(void *data), void *data)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "boxd is stopping");
    runtime->stopping = true;
    runtime->stop_keep = keep && runtime->config.outlive_seconds > 0;
    runtime->stopped = done;
    runtime->stopped_data = data;
    runtime->stop_alarm = alarm_new(runtime, on_stop_late, runtime);
    alarm_set(runtime->stop_alarm, STOP_DEADLINE_MS);
    list_each_safe(at, after, &runtime->sessions)
        stop_session(list_entry(at, struct session, link), runtime->stop_keep, &err);
    runtime_check_stop(runtime);
}

/* After a stop everything is closed, and this only frees. Without one (a start that failed, a test
   that plays a crash) nothing may be under way but managed processes, and the backend is closed
   already; handles are closed first, by turns of the loop that are still to come. */
void runtime_free(struct runtime *runtime)
{
    if (!runtime)
        return;
    if (runtime->closed) {
        destroy(runtime);
        return;
    }
    runtime->free_when_closed = true;
    runtime->stopping = runtime->stop_late = true;
    runtime_check_stop(runtime);
}
