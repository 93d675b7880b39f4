/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a command: WAITING for its session or a lane, STARTING in it, RUNNING
   (native-running.c), perhaps ASKING whether a disk is full (native-over.c), OVER. Exactly one last
   event, whatever happens on the way. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "backend/native-internal.h"
#include "core/clock.h"
#include "core/fd.h"

#define START_TIMEOUT_MS 10000
/* A burst of commands at once must not leave its launchers behind for good: each costs six
   descriptors and a process of the session's. */
#define IDLE_LANES_MAX 4

static void on_free(uv_handle_t *handle)
{
    struct native_process *process = handle->data;
    native_session_drop(session_of(process));
    free(process);
}

static void forget_request(struct native_process *process)
{
    for (int i = 0; i < 3; i++)
        fd_clear(&process->request.fds[i]);
    strings_release(&process->argv);
    strings_release(&process->envp);
}

static void list_remove(struct native_process **list, struct native_process *process)
{
    while (*list && *list != process)
        list = &(*list)->next;
    if (*list)
        *list = process->next;
    process->next = NULL;
}

void native_process_unwait(struct native_process *process)
{
    struct native_session *session = session_of(process);
    list_remove(&session->waiting, process);
    session->waiting_end = &session->waiting;
    while (*session->waiting_end)
        session->waiting_end = &(*session->waiting_end)->next;
}

void native_process_release(struct native_process *process)
{
    if (process->state == NATIVE_ASKING)
        list_remove(&session_of(process)->asking, process);
    process->state = NATIVE_OVER;
    forget_request(process);
    free(process->program);
    free(process->cwd);
    uv_close((uv_handle_t *)&process->timer, on_free);
}

void native_process_leave_lane(struct native_process *process, bool usable)
{
    struct native_lane *lane = process->lane;
    process->lane = NULL;
    if (!lane || lane->process != process)
        return;
    lane->process = NULL;
    if (process->keep_id) {
        const struct init_keep release_kept = {
            .type = INIT_KEEP, .id = process->keep_id, .lane = lane->index};
        native_send(lane->session, &release_kept, sizeof release_kept, NULL, 0);
    }
    if (!usable || process->keep_id) {
        native_lane_close(lane);
        return;
    }
    /* The launcher is one. */
    bool empty = lane->group.version == CGROUP_NONE || process->after.processes <= 1;
    if (empty && native_lanes_idle(lane->session) >= IDLE_LANES_MAX) {
        native_lane_close(lane);
        return;
    }
    lane->state = empty ? NATIVE_LANE_IDLE : NATIVE_LANE_LINGERING;
    lane->usage = process->after;
    lane->usage_known = empty;
}

void native_process_abandon(struct native_process *process)
{
    if (process->state == NATIVE_WAITING)
        native_process_unwait(process);
    if (process->lane && process->lane->process == process)
        process->lane->process = NULL;
    native_process_release(process);
}

void native_process_fail(struct native_process *process, const struct error *err)
{
    struct native_session *session = session_of(process);
    const struct backend_process_events *events = process->events;
    void *owner = process->owner;
    if (process->state == NATIVE_WAITING)
        native_process_unwait(process);
    native_process_leave_lane(process, false);
    native_session_hold(session);
    native_process_release(process);
    events->started(owner, -1, err);
    native_session_drop(session);
}

/* --- starting --- */

static void on_late(uv_timer_t *timer)
{
    struct native_process *process = timer->data;
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_GONE, "the session's launcher does not answer");
    if (process->lane)
        native_lane_kill(process->lane);
    native_process_fail(process, &err);
}

static void on_refused(uv_timer_t *timer)
{
    struct native_process *process = timer->data;
    struct error err = process->error;
    native_process_fail(process, &err);
}

static void on_launcher_gone(uv_timer_t *timer)
{
    native_process_finish(timer->data, NULL);
}

static void send_in_lane(struct native_process *process, struct native_lane *lane,
                         const struct command_request *request)
{
    struct error err = ERROR_INIT;
    process->lane = lane;
    lane->process = process;
    lane->state = NATIVE_LANE_BUSY;
    process->state = NATIVE_STARTING;
    native_lane_measure(lane, &process->before);
    process->started_ns = clock_monotonic_ns();
    int rc = command_send(lane->sock, request, &err);
    if (rc < 0) {
        /* Told from the loop: whoever asked for it has not got its pointer yet. */
        process->error = err;
        uv_timer_start(&process->timer, rc == -EPIPE ? on_launcher_gone : on_refused, 0, 0);
        return;
    }
    uv_timer_start(&process->timer, on_late, START_TIMEOUT_MS, 0);
}

void native_process_run(struct native_process *process, struct native_lane *lane)
{
    native_process_unwait(process);
    send_in_lane(process, lane, &process->request);
    forget_request(process);
}

/* Every lane has what a command left behind, and nobody tells when that ends: rather than wait for
   it, perhaps for ever, the command is refused. */
static void refuse_crowded(struct native_process *process)
{
    error_set(&process->error, ERROR_CAPACITY,
              "%d commands have left processes behind in the session", LANE_MAX);
    error_hint(&process->error, "end those, or make the session anew");
    uv_timer_start(&process->timer, on_refused, 0, 0);
}

/* Of those that wait, each gets a lane, or has one opened. */
void native_dispatch(struct native_session *session)
{
    bool live = session->state == NATIVE_LIVE;
    struct native_process *next;
    for (struct native_process *process = session->waiting; process; process = next) {
        next = process->next;
        if (process->lane)
            continue;
        bool fresh = process->keep_id != 0;
        struct native_lane *lane = live ? native_lane_find(session, fresh) : session->lanes[0];
        if (!lane && live && !native_lanes_moving(session)) {
            refuse_crowded(process);
            continue;
        }
        /* Before init has answered there is the first lane only. */
        if (!lane || (!live && (lane->state != NATIVE_LANE_IDLE || fresh)))
            return;
        if (lane->state == NATIVE_LANE_IDLE) {
            native_process_run(process, lane);
        } else {
            process->lane = lane;
            lane->process = process;
            native_lane_open(lane, process->memory_bytes);
        }
    }
}

struct native_process *native_process_new(struct native_session *session, uint32_t keep_id,
                                          const struct backend_process_events *events, void *owner)
{
    struct native_process *process = xcalloc(1, sizeof *process);
    process->base.session = &session->base;
    process->events = events;
    process->owner = owner;
    process->keep_id = keep_id;
    for (int i = 0; i < 3; i++)
        process->request.fds[i] = -1;
    uv_timer_init(session->base.backend->loop, &process->timer);
    process->timer.data = process;
    native_session_hold(session);
    return process;
}

static void copy_request(struct native_process *process, const struct command_request *request)
{
    process->request = *request;
    for (char *const *at = request->argv; *at; at++)
        strings_add(&process->argv, *at);
    for (char *const *at = request->envp; *at; at++)
        strings_add(&process->envp, *at);
    /* Without one the list would have no end to point to. */
    static char *const nothing[] = {NULL};
    process->request.argv = process->argv.items ? process->argv.items : nothing;
    process->request.envp = process->envp.items ? process->envp.items : nothing;
    process->request.cwd = process->cwd;
    for (int i = 0; i < 3; i++)
        process->request.fds[i] =
            request->terminal ? -1 : fcntl(request->fds[i], F_DUPFD_CLOEXEC, 3);
}

struct backend_process *native_start(struct backend_session *base,
                                     const struct backend_command *command,
                                     const struct backend_process_events *events, void *owner)
{
    struct native_session *session = (struct native_session *)base;
    struct native_process *process = native_process_new(session, command->keep_id, events, owner);
    const struct command_request request = {
        .argv = command->argv,
        .envp = command->envp,
        .cwd = command->cwd,
        .make_cwd = command->make_cwd,
        .terminal = command->terminal,
        .rows = command->rows,
        .columns = command->columns,
        .fds = {command->fds[0], command->fds[1], command->fds[2]},
    };
    process->memory_bytes = command->memory_bytes;
    process->program = xstrdup(command->argv[0] ? command->argv[0] : "");
    process->cwd = xstrdup(command->cwd);
    if (session->state == NATIVE_ENDED || session->state == NATIVE_LEAVING) {
        error_set(&process->error, ERROR_GONE, "the session has ended");
        process->state = NATIVE_STARTING;
        uv_timer_start(&process->timer, on_refused, 0, 0);
        return &process->base;
    }
    struct native_lane *lane = NULL;
    if (session->state == NATIVE_LIVE && !session->waiting && !command->keep_id)
        lane = native_lane_find(session, false);
    if (lane && lane->state == NATIVE_LANE_IDLE) {
        send_in_lane(process, lane, &request);
        return &process->base;
    }
    copy_request(process, &request);
    process->state = NATIVE_WAITING;
    *session->waiting_end = process;
    session->waiting_end = &process->next;
    native_dispatch(session);
    return &process->base;
}

/* --- from the launcher --- */

static void take_started(struct native_process *process, const struct lane_started *started,
                         int terminal)
{
    struct error err = ERROR_INIT;
    /* It could not be started because its lane is being killed, of which the lane's end tells. */
    if (started->errnum && process->killed)
        return;
    if (!process->killed)
        uv_timer_stop(&process->timer);
    if (started->errnum) {
        command_explain_start(started, process->program, process->cwd, &err);
        fd_clear(&terminal);
        struct native_session *session = session_of(process);
        const struct backend_process_events *events = process->events;
        void *owner = process->owner;
        native_session_hold(session);
        process->after = process->before;
        native_process_leave_lane(process, true);
        native_process_release(process);
        events->started(owner, -1, &err);
        native_dispatch(session);
        native_session_drop(session);
        return;
    }
    process->began = true;
    process->pid = started->pid;
    process->state = NATIVE_RUNNING;
    process->events->started(process->owner, terminal, NULL);
}

/* A managed process is over with all that came of it. What it left behind is killed, its launcher
   too: the end of whose socket then tells the rest. False: there is nothing to wait for. */
static bool end_tree(struct native_process *process, const struct lane_exited *exited)
{
    if (!process->keep_id || process->killed || native_lane_is_empty(process->lane))
        return false;
    process->has_exited = true;
    process->exited = *exited;
    native_lane_kill(process->lane);
    return true;
}

void native_process_read(struct native_process *process)
{
    union {
        uint32_t type;
        struct lane_started started;
        struct lane_exited exited;
    } message;
    struct native_session *session = session_of(process);
    native_session_hold(session);
    /* A process that is gone is not looked at again: its lane tells. */
    struct native_lane *lane = process->lane;
    while (lane->process == process && process->state != NATIVE_ASKING) {
        int fd = -1;
        size_t count = 1;
        ssize_t n = fd_receive(lane->sock, &message, sizeof message, &fd, &count, MSG_DONTWAIT);
        if (n == -EAGAIN)
            break;
        if (n == -EMFILE && process->state == NATIVE_STARTING) { /* its terminal's */
            struct error err = ERROR_INIT;
            native_no_descriptors(&err);
            native_lane_kill(lane);
            native_process_fail(process, &err);
            break;
        }
        if (n == sizeof message.started && message.type == LANE_STARTED &&
            process->state == NATIVE_STARTING) {
            take_started(process, &message.started, count == 1 ? fd : -1);
        } else if (n == sizeof message.exited && message.type == LANE_EXITED &&
                   process->state == NATIVE_RUNNING) {
            if (end_tree(process, &message.exited))
                continue;
            native_process_finish(process, &message.exited);
            break;
        } else {
            if (n > 0 && count == 1)
                fd_clear(&fd);
            native_process_finish(process, process->has_exited ? &process->exited : NULL);
            break;
        }
    }
    native_session_drop(session);
}
