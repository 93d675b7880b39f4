/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals: a shell, or what was asked for, on a pseudo-terminal of the session. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/fd.h"
#include "runtime/internal.h"

#define TERMINAL_BACKLOG_MAX (1024u * 1024)
#define TERMINAL_DRAIN_MAX   (1024u * 1024)

static const char login_shell[] = "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l";

enum terminal_state {
    TERMINAL_WAITING, /* for the session's backend */
    TERMINAL_BEGUN,
    TERMINAL_RUNNING,
    TERMINAL_OVER, /* its last output may wait for a listener that pauses */
    TERMINAL_TOLD,
};

struct terminal {
    struct list link;
    struct task task;
    struct runtime *runtime;
    struct session *session; /* held */
    struct terminal_events events;
    void *owner;
    char actor[ACTOR_SIZE];
    enum terminal_state state;
    bool closed, paused, starved;
    struct strings argv, env;
    char *cwd;
    uint16_t rows, columns;
    struct backend_process *process;
    int fd;
    struct watch *watch;
    struct buf backlog;
    size_t drained;
    struct backend_outcome outcome;
    struct error *err;
};

static void finish(struct terminal *terminal);

/* --- data ------------------------------------------------------------------------------------- */

static void update(struct terminal *terminal)
{
    if (!terminal->watch)
        return;
    watch_set(terminal->watch,
              (terminal->paused ? 0 : WATCH_READ) | (terminal->backlog.size > 0 ? WATCH_WRITE : 0));
}

static void hang_up(struct terminal *terminal)
{
    watch_free(&terminal->watch);
    fd_clear(&terminal->fd);
}

/* One read; false if there is nothing, or no more. */
static bool read_once(struct terminal *terminal)
{
    struct runtime *runtime = terminal->runtime;
    ssize_t n;
    do {
        n = read(terminal->fd, runtime->read_buffer, READ_BUFFER_SIZE);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <=
        0) { /* EIO: nobody has it open any more; one who opens it again is told about by `ended` */
        hang_up(terminal);
        return false;
    }
    runtime->stats.output_bytes += (uint64_t)n;
    terminal->drained += (size_t)n;
    terminal->events.output(terminal->owner, runtime->read_buffer, (size_t)n);
    return true;
}

static void push(struct terminal *terminal)
{
    struct buf *backlog = &terminal->backlog;
    while (backlog->size > 0) {
        ssize_t n = write(terminal->fd, backlog->data, backlog->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            n = (ssize_t)backlog->size; /* nobody is there to read it */
        memmove(backlog->data, backlog->data + n, backlog->size - (size_t)n);
        backlog->size -= (size_t)n;
    }
}

static void on_ready(void *owner, int ready)
{
    struct terminal *terminal = owner;
    if (ready & WATCH_READ && !terminal->paused)
        read_once(terminal);
    if (terminal->closed || terminal->fd < 0)
        return;
    if (ready & WATCH_WRITE)
        push(terminal);
    update(terminal);
    if (terminal->starved && terminal->backlog.size == 0) {
        terminal->starved = false;
        terminal->events.drained(terminal->owner);
    }
}

/* What is there now, and then the end. */
static void drain(struct terminal *terminal)
{
    while (terminal->fd >= 0 && !terminal->err && terminal->drained < TERMINAL_DRAIN_MAX) {
        if (terminal->paused)
            return;
        bool more = read_once(terminal);
        if (terminal->closed)
            return;
        if (!more)
            break;
    }
    finish(terminal);
}

/* --- life ------------------------------------------------------------------------------------- */

static void on_task(struct task *task)
{
    struct terminal *terminal = list_entry(task, struct terminal, task);
    if (terminal->err)
        finish(terminal);
    else if (terminal->state == TERMINAL_OVER)
        drain(terminal);
    else
        update(terminal);
}

static void on_started(void *owner, int fd, const struct error *err)
{
    struct terminal *terminal = owner;
    if (err) {
        terminal->process = NULL;
        terminal->runtime->unfinished--;
        if (!terminal->err)
            terminal->err = error_copy(err);
        finish(terminal);
        runtime_check_stop(terminal->runtime);
        return;
    }
    if (terminal->state != TERMINAL_BEGUN || terminal->closed) {
        fd_clear(&fd);
        return;
    }
    terminal->state = TERMINAL_RUNNING;
    terminal->fd = fd;
    if (fd < 0)
        return;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    terminal->watch = watch_new(terminal->runtime, fd, on_ready, terminal);
    terminal_resize(terminal, terminal->rows, terminal->columns); /* asked for meanwhile */
    push(terminal);
    update(terminal);
}

static void on_ended(void *owner, const struct backend_outcome *outcome, const struct error *err)
{
    struct terminal *terminal = owner;
    struct runtime *runtime = terminal->runtime;
    terminal->process = NULL;
    runtime->unfinished--;
    watch_free(&terminal->watch);
    if (outcome && !err)
        terminal->outcome = *outcome;
    if (err && !terminal->err)
        terminal->err = error_copy(err);
    if (terminal->state == TERMINAL_TOLD || terminal->closed) {
        terminal->closed = true;
        finish(terminal);
    } else {
        terminal->state = TERMINAL_OVER;
        terminal->drained = 0;
        drain(terminal);
    }
    runtime_check_stop(runtime);
}

static const struct backend_process_events events = {.started = on_started, .ended = on_ended};

void terminal_begin(struct terminal *terminal)
{
    struct session *session = terminal->session;
    struct backend_command command = {
        .argv = terminal->argv.items,
        .envp = terminal->env.items,
        .cwd = terminal->cwd,
        .make_cwd = true,
        .terminal = true,
        .rows = terminal->rows,
        .columns = terminal->columns,
        .fds = {-1, -1, -1},
    };
    terminal->state = TERMINAL_BEGUN;
    terminal->runtime->unfinished++;
    terminal->process =
        terminal->runtime->ops->start(session->backend, &command, &events, terminal);
}

static void release(struct terminal *terminal)
{
    struct session *session = terminal->session;
    list_remove(&terminal->link);
    task_cancel(&terminal->task);
    strings_release(&terminal->argv);
    strings_release(&terminal->env);
    free(terminal->cwd);
    free(terminal->err);
    buf_release(&terminal->backlog);
    memory_later(terminal->runtime, terminal);
    session->lanes--;
    session_rest(session);
    session_dispatch(session);
    session_release(session);
}

/* Tells how it went, once, and goes when the backend has nothing more to say. */
static void finish(struct terminal *terminal)
{
    struct runtime *runtime = terminal->runtime;
    hang_up(terminal);
    if (terminal->state != TERMINAL_TOLD) {
        bool known = !terminal->err && terminal->outcome.cause;
        terminal->state = TERMINAL_TOLD;
        cleanup_free char *text = audit_join(terminal->argv.items[0], terminal->argv.items + 1);
        audit_write(runtime->audit,
                    &(struct audit_line){.what = "terminal",
                                         .actor = terminal->actor,
                                         .session = terminal->session->spec.name,
                                         .text = text,
                                         .outcome = terminal->closed ? "closed"
                                                    : known          ? "completed"
                                                                     : "failed",
                                         .usage = known ? &terminal->outcome : NULL});
        if (!terminal->closed) {
            terminal->closed = true;
            terminal->events.ended(terminal->owner, known ? &terminal->outcome : NULL,
                                   terminal->err);
        }
        if (terminal->process && terminal->session->backend)
            runtime->ops->kill(terminal->process, false);
    }
    if (!terminal->process)
        release(terminal);
}

/* --- what its owner does ---------------------------------------------------------------------- */

struct terminal *session_terminal(struct session *session, const struct terminal_request *request,
                                  const struct terminal_events *told, void *owner)
{
    struct runtime *runtime = session->runtime;
    struct error err = ERROR_INIT;
    struct terminal *terminal = xcalloc(1, sizeof *terminal);
    terminal->runtime = runtime;
    terminal->session = session;
    terminal->events = *told;
    terminal->owner = owner;
    terminal->fd = -1;
    terminal->rows = request->rows ? request->rows : 24;
    terminal->columns = request->columns ? request->columns : 80;
    terminal->backlog.ceiling = TERMINAL_BACKLOG_MAX;
    memcpy(terminal->actor, runtime->actor, sizeof terminal->actor);
    task_init(&terminal->task, on_task);
    bool named = request->argv && request->argv[0];
    for (size_t i = 0; named && request->argv[i]; i++)
        strings_add(&terminal->argv, request->argv[i]);
    for (size_t i = 0; !named && i < 3; i++)
        strings_add(&terminal->argv, (const char *[]){"sh", "-c", login_shell}[i]);
    terminal->cwd = xstrdup(request->workdir ? request->workdir : session->spec.mount_path);
    session_hold(session);
    list_append(&session->terminals, &terminal->link);
    if (session_usable(session, &err) == 0 && environment_check(&request->env, &err) == 0) {
        if (terminal->cwd[0] != '/')
            error_set(&err, ERROR_INVALID, "workdir is not an absolute path");
        else if (session->lanes >= SESSION_LANES)
            error_set(&err, ERROR_CAPACITY,
                      "%u commands, processes and terminals run in session '%s' already",
                      session->lanes, session->spec.name);
    }
    session->lanes++;
    session_busy(session);
    environment_make(&terminal->env, &request->env, true);
    if (err.code != ERROR_NONE) {
        terminal->err = error_copy(&err);
        task_later(runtime, &terminal->task);
    } else if (session_startable(session)) {
        terminal_begin(terminal);
    }
    return terminal;
}

bool terminal_write(struct terminal *terminal, const void *data, size_t size)
{
    if (terminal->closed || terminal->state > TERMINAL_RUNNING)
        return true;
    /* What does not fit is dropped, as a terminal line that nobody reads does. */
    buf_append(&terminal->backlog, data, size);
    if (terminal->fd < 0)
        return true;
    push(terminal);
    update(terminal);
    terminal->starved = terminal->backlog.size > 0;
    return !terminal->starved;
}

void terminal_resize(struct terminal *terminal, uint16_t rows, uint16_t columns)
{
    struct winsize size = {.ws_row = rows, .ws_col = columns};
    terminal->rows = rows;
    terminal->columns = columns;
    if (terminal->fd >= 0)
        ioctl(terminal->fd, TIOCSWINSZ, &size);
}

void terminal_pause(struct terminal *terminal)
{
    terminal->paused = true;
    update(terminal);
}

void terminal_resume(struct terminal *terminal)
{
    if (!terminal->paused || terminal->closed)
        return;
    terminal->paused = false;
    task_later(terminal->runtime, &terminal->task);
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->closed)
        return;
    terminal->closed = true;
    finish(terminal);
}

/* --- with the session ------------------------------------------------------------------------- */

void session_kick_terminals(struct session *session)
{
    list_each_safe(at, after, &session->terminals)
    {
        struct terminal *terminal = list_entry(at, struct terminal, link);
        if (terminal->state == TERMINAL_WAITING && !terminal->err && session_startable(session))
            terminal_begin(terminal);
    }
}

/* Those that run have an end of their own coming, unless boxd is leaving. */
void session_fail_terminals(struct session *session, const struct error *err)
{
    bool all = session->runtime->stopping || session->gone;
    list_each_safe(at, after, &session->terminals)
    {
        struct terminal *terminal = list_entry(at, struct terminal, link);
        if (terminal->err || terminal->closed || (!all && terminal->state != TERMINAL_WAITING))
            continue;
        terminal->err = error_copy(err);
        task_later(session->runtime, &terminal->task);
    }
}
