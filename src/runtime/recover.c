/* SPDX-License-Identifier: Apache-2.0 */
/* After a start: the sessions of an earlier boxd are taken over by their records, or ended. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/log.h"
#include "runtime/internal.h"

/* --- what comes back with a session ----------------------------------------------------------- */

static struct process *find_kept(struct session *session, uint32_t keep_id)
{
    list_each(at, &session->processes)
    {
        struct process *process = list_entry(at, struct process, link);
        if (process->keep_id == keep_id && process->adopt)
            return process;
    }
    return NULL;
}

static void on_kept(void *owner, uint32_t keep_id, const int *fds, size_t count)
{
    struct session *session = owner;
    struct process *process = find_kept(session, keep_id);
    bool wanted = process && session->runtime->recover_adopt && session->state == SESSION_STARTING;
    if (keep_id >= session->next_keep)
        session->next_keep = keep_id + 1;
    if (wanted && process_adopt(process, fds, count) == 0)
        return;
    for (size_t i = 0; i < count && !wanted; i++)
        close(fds[i]);
}

static void on_ready(void *owner, const struct error *err)
{
    struct session *session = owner;
    list_each_safe(at, after, &session->processes)
    {
        struct process *process = list_entry(at, struct process, link);
        if (process->adopt && process->state == PROCESS_ENDED)
            process_vanished(process);
    }
    session_ready(session, err);
}

static void on_ended(void *owner, const struct error *why)
{
    session_lost(owner, why);
}

static const struct backend_session_events adopted_events = {
    .ready = on_ready,
    .ended = on_ended,
    .kept = on_kept,
};

/* --- the records ------------------------------------------------------------------------------ */

static void set_aside(struct runtime *runtime, const char *name, const struct error *err)
{
    char bad[NAME_MAX + 8];
    log_error(LOG_WARN, "record_set_aside", err, LOG_TEXT("file", name));
    snprintf(bad, sizeof bad, "%.200s.bad", name);
    if (renameat(runtime->records_fd, name, runtime->records_fd, bad) < 0)
        unlinkat(runtime->records_fd, name, 0);
}

static ssize_t read_whole(int dir, const char *name, char *buffer, size_t size)
{
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    size_t used = 0;
    for (;;) {
        ssize_t n = read(fd, buffer + used, size - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return (ssize_t)used;
        used += (size_t)n;
        if (used == size)
            return -EFBIG;
    }
}

static void recover_file(struct runtime *runtime, const char *name, char *buffer)
{
    struct error err = ERROR_INIT;
    struct session *session = NULL;
    char key[SESSION_KEY_SIZE];
    snprintf(key, sizeof key, "%.16s", name);
    ssize_t size = read_whole(runtime->records_fd, name, buffer, RECORD_MAX);
    if (size < 0) {
        error_errno(&err, (int)-size, "read the record %s", name);
        return set_aside(runtime, name, &err);
    }
    if (record_parse(runtime, key, buffer, (size_t)size, &session, &err) < 0)
        return set_aside(runtime, name, &err);
    if (!session) { /* it was never ready: the backend sweeps what there was */
        unlinkat(runtime->records_fd, name, 0);
        return;
    }
    session->recovering = true;
    runtime->recovering++;
    session->backend = runtime->ops->adopt(runtime->backend, &session->spec, session->key,
                                           session->adopt_record, &adopted_events, session);
    json_decref(steal_ptr(session->adopt_record));
}

static bool is_record(const char *name)
{
    return strlen(name) == 16 + strlen(".json") && strspn(name, "0123456789abcdef") == 16 &&
           strcmp(name + 16, ".json") == 0;
}

static void read_records(struct runtime *runtime)
{
    int fd = openat(runtime->records_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        struct error err;
        error_errno(&err, errno, "read the directory of records");
        log_error(LOG_ERROR, "recover_failed", &err, LOG_TEXT("run_dir", runtime->config.run_dir));
        fd_clear(&fd);
        return;
    }
    /* The names first: renaming while reading may show a file twice. */
    cleanup_strings struct strings names = {0};
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *end = strrchr(entry->d_name, '.');
        if (is_record(entry->d_name))
            strings_add(&names, entry->d_name);
        else if (end && strcmp(end, ".tmp") == 0)
            unlinkat(runtime->records_fd, entry->d_name, 0);
    }
    closedir(dir);
    cleanup_free char *buffer = xmalloc(RECORD_MAX);
    for (size_t i = 0; i < names.count; i++)
        recover_file(runtime, names.items[i], buffer);
}

/* --- the whole -------------------------------------------------------------------------------- */

void recover_one_done(struct runtime *runtime)
{
    if (--runtime->recovering > 0 || !runtime->recovered)
        return;
    /* Those that were only taken over to be ended are ended; nothing else is worth keeping. */
    if (!runtime->recover_adopt)
        runtime->ops->sweep(runtime->backend);
    task_later(runtime, &runtime->recover_task);
}

static void on_recovered(struct task *task)
{
    struct runtime *runtime = list_entry(task, struct runtime, recover_task);
    void (*done)(void *data) = runtime->recovered;
    runtime->recovered = NULL;
    if (done)
        done(runtime->recovered_data);
}

static void nothing(void *data)
{
    (void)data;
}

void runtime_recover(struct runtime *runtime, bool adopt, void (*done)(void *data), void *data)
{
    task_init(&runtime->recover_task, on_recovered);
    runtime->recover_adopt = adopt;
    runtime->recovered = done ? done : nothing;
    runtime->recovered_data = data;
    runtime->recovering = 1; /* this function */
    read_records(runtime);
    if (adopt)
        runtime->ops->sweep(runtime->backend);
    recover_one_done(runtime);
}
