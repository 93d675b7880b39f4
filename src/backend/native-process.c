/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a command: WAITING for its session or a lane, STARTING in it, RUNNING, perhaps ASKING
   whether a disk is full, OVER. Exactly one last event, whatever happens on the way. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/native-internal.h"
#include "core/fd.h"
#include "sandbox/seccomp.h"

#define START_TIMEOUT_MS 10000
#define SPACE_TIMEOUT_MS 1000
#define GONE_WAIT_MS     200
#define KILL_AGAIN_MS    20
/* Between the kernel's word (v1) that memory has run out and the kill that follows it. */
#define MEMORY_KILL_NS 100000000u
#define MEMORY_LOOK_MS 5
/* A burst of commands at once must not leave its launchers behind for good: each costs six
   descriptors and a process of the session's. */
#define IDLE_LANES_MAX 4

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

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

static void unwait(struct native_process *process)
{
    struct native_session *session = session_of(process);
    list_remove(&session->waiting, process);
    session->waiting_end = &session->waiting;
    while (*session->waiting_end)
        session->waiting_end = &(*session->waiting_end)->next;
}

/* After its last event. */
static void release(struct native_process *process)
{
    process->state = NATIVE_OVER;
    forget_request(process);
    free(process->program);
    free(process->cwd);
    uv_close((uv_handle_t *)&process->timer, on_free);
}

/* The lane is free again, or of no more use. */
static void leave_lane(struct native_process *process, bool usable)
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
        unwait(process);
    list_remove(&session_of(process)->asking, process);
    if (process->lane && process->lane->process == process)
        process->lane->process = NULL;
    release(process);
}

void native_process_fail(struct native_process *process, const struct error *err)
{
    struct native_session *session = session_of(process);
    const struct backend_process_events *events = process->events;
    void *owner = process->owner;
    if (process->state == NATIVE_WAITING)
        unwait(process);
    leave_lane(process, false);
    native_session_hold(session);
    release(process);
    events->started(owner, -1, err);
    native_session_drop(session);
}

/* --- starting ------------------------------------------------------------------------------------
 */

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

static void send_in_lane(struct native_process *process, struct native_lane *lane,
                         const struct command_request *request)
{
    struct error err = ERROR_INIT;
    process->lane = lane;
    lane->process = process;
    lane->state = NATIVE_LANE_BUSY;
    process->state = NATIVE_STARTING;
    native_lane_measure(lane, &process->before);
    process->started_ns = now_ns();
    int rc = command_send(lane->sock, request, &err);
    if (rc == -EPIPE)
        error_set(&err, ERROR_GONE, "the session's launcher has ended");
    if (rc < 0) {
        /* Told from the loop: whoever asked for it has not got its pointer yet. */
        process->error = err;
        uv_timer_start(&process->timer, on_refused, 0, 0);
        return;
    }
    uv_timer_start(&process->timer, on_late, START_TIMEOUT_MS, 0);
}

void native_process_run(struct native_process *process, struct native_lane *lane)
{
    unwait(process);
    send_in_lane(process, lane, &process->request);
    forget_request(process);
}

/* Of those that wait, each gets a lane, or has one opened. */
void native_dispatch(struct native_session *session)
{
    struct native_process *process = session->waiting;
    while (process) {
        struct native_process *next = process->next;
        if (!process->lane) {
            bool fresh = process->keep_id != 0;
            struct native_lane *lane = session->state == NATIVE_LIVE
                                           ? native_lane_find(session, fresh)
                                           : session->lanes[0];
            /* Before init has answered there is the first lane only. */
            if (!lane ||
                (session->state != NATIVE_LIVE && (lane->state != NATIVE_LANE_IDLE || fresh)))
                return;
            if (lane->state == NATIVE_LANE_IDLE) {
                native_process_run(process, lane);
            } else {
                process->lane = lane;
                lane->process = process;
                native_lane_open(lane, process->memory_bytes);
            }
        }
        process = next;
    }
}

static struct native_process *process_new(struct native_session *session, uint32_t keep_id,
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
    struct native_process *process = process_new(session, command->keep_id, events, owner);
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

/* --- from the launcher
 * ---------------------------------------------------------------------------- */

static void finish(struct native_process *process, const struct lane_exited *exited);

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
        leave_lane(process, true);
        release(process);
        events->started(owner, -1, &err);
        native_dispatch(session);
        native_session_drop(session);
        return;
    }
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
        if (n == sizeof message.started && message.type == LANE_STARTED &&
            process->state == NATIVE_STARTING) {
            take_started(process, &message.started, count == 1 ? fd : -1);
        } else if (n == sizeof message.exited && message.type == LANE_EXITED &&
                   process->state == NATIVE_RUNNING) {
            if (end_tree(process, &message.exited))
                continue;
            finish(process, &message.exited);
            break;
        } else {
            if (n > 0 && count == 1)
                fd_clear(&fd);
            finish(process, process->has_exited ? &process->exited : NULL);
            break;
        }
    }
    native_session_drop(session);
}

/* --- when it is over
 * ------------------------------------------------------------------------------ */

static void name_denied(const struct outcome *outcome, char *ret, size_t size)
{
    size_t used = 0;
    ret[0] = '\0';
    for (unsigned number = 0; number < DENIED_WORDS * 64; number++) {
        const char *name;
        if (!(outcome->denied[number / 64] >> (number % 64) & 1) ||
            !(name = seccomp_syscall_name((int)number)))
            continue;
        if (used + strlen(name) + 3 > size)
            return;
        used += (size_t)snprintf(ret + used, size - used, "%s%s", used ? ", " : "", name);
    }
}

static void deliver(struct native_process *process, const struct error *err)
{
    struct native_session *session = session_of(process);
    const struct backend_process_events *events = process->events;
    void *owner = process->owner;
    bool started = process->state == NATIVE_RUNNING || process->state == NATIVE_ASKING;
    struct outcome *outcome = &process->outcome;
    outcome->cause = outcome_cause(outcome, &process->before, &process->after, process->full);
    struct backend_outcome result = {
        .timed_out = outcome->timed_out,
        .exit_code = outcome->timed_out ? -1 : outcome->exit_code,
        .signal = outcome->signal,
        .cause = cause_name(session->oom ? CAUSE_OOM : outcome->cause),
        .wall_us = outcome->wall_us,
        .cpu_us = outcome->cpu_us,
        .peak_bytes = outcome->peak_bytes,
    };
    name_denied(outcome, result.denied, sizeof result.denied);
    if (process->state == NATIVE_ASKING)
        list_remove(&session->asking, process);
    native_session_hold(session);
    release(process);
    if (started || !err)
        events->ended(owner, err ? NULL : &result, err);
    else
        events->started(owner, -1, err);
    if (session->state == NATIVE_LIVE)
        native_dispatch(session);
    native_session_drop(session);
}

static void on_no_more_to_learn(uv_timer_t *timer)
{
    deliver(timer->data, NULL);
}

/* It has ended, but something is still to be learnt that decides what is said of it. */
static void await_more(struct native_process *process, unsigned timeout_ms)
{
    struct native_process **end = &session_of(process)->asking;
    while (*end)
        end = &(*end)->next;
    *end = process;
    process->state = NATIVE_ASKING;
    uv_timer_start(&process->timer, on_no_more_to_learn, timeout_ms, 0);
}

/* One question for each place with a limit; the first that is full ends the asking. */
static bool ask_space(struct native_process *process)
{
    struct native_session *session = session_of(process);
    struct {
        struct init_open head;
        char path[INIT_PATH_MAX];
    } message;
    for (size_t i = 0; i < session->bounded.count && session->state == NATIVE_LIVE; i++) {
        size_t length = strlen(session->bounded.items[i]) + 1;
        message.head = (struct init_open){.type = INIT_STATFS, .path_size = (uint32_t)length};
        memcpy(message.path, session->bounded.items[i], length);
        if (native_send(session, &message, sizeof message.head + length, NULL, 0) == 0)
            process->questions++;
    }
    return process->questions > 0;
}

/* Answers come in the order of the questions. */
void native_process_space(struct native_session *session, const struct init_statfs *reply)
{
    struct native_process *process = session->asking;
    while (process && process->questions == 0)
        process = process->next;
    if (!process)
        return;
    struct sandbox_space space = sandbox_space_from(reply);
    if (!reply->errnum && sandbox_space_is_full(&space))
        process->full = true;
    if (--process->questions == 0)
        deliver(process, NULL);
}

static void take_outcome(struct native_process *process, const struct lane_exited *exited)
{
    struct native_session *session = session_of(process);
    struct native_lane *lane = process->lane;
    struct outcome *outcome = &process->outcome;
    *outcome = (struct outcome){.timed_out = process->timed_out, .exit_code = -1};
    outcome->wall_us = process->started_ns ? (now_ns() - process->started_ns) / 1000 : 0;
    if (exited)
        outcome_take_exit(outcome, exited);
    else
        outcome->signal = SIGKILL;
    if (!process->killed)
        process->after = process->before;
    if (lane && lane->group.version != CGROUP_NONE &&
        (process->killed || cgroup_usage_read(&lane->group, &process->after) == 0))
        outcome_take_usage(outcome, &process->before, &process->after, session->memory_bytes);
    if (lane && session->denied)
        outcome_take_denied(outcome, session->denied, (int)lane->index);
}

static void finish(struct native_process *process, const struct lane_exited *exited)
{
    struct native_session *session = session_of(process);
    struct error err = ERROR_INIT;
    take_outcome(process, exited);
    uv_timer_stop(&process->timer);
    leave_lane(process, exited && !process->killed);
    if (process->state == NATIVE_STARTING && !process->killed) {
        error_set(&err, ERROR_GONE, "the session's launcher has ended");
        deliver(process, &err);
        return;
    }
    /* Nobody said how it ended: either its launcher was killed from inside, which is its own
       affair, or the session is ending, of which the spawner will tell in a moment. */
    process->unexplained = !exited && !process->killed;
    if (process->unexplained && session->state != NATIVE_LIVE) {
        error_set(&err, ERROR_GONE, "the session ended under the command");
        deliver(process, &err);
    } else if (process->unexplained) {
        await_more(process, GONE_WAIT_MS);
    } else if (outcome_asks_space(&process->outcome, &process->before, &process->after) &&
               ask_space(process)) {
        await_more(process, SPACE_TIMEOUT_MS);
    } else {
        deliver(process, NULL);
    }
}

void native_process_lost(struct native_process *process, const struct error *why)
{
    if (process->state == NATIVE_ASKING) {
        deliver(process, process->unexplained && !session_of(process)->oom ? why : NULL);
        return;
    }
    /* It may have ended in time, and said so. */
    struct lane_exited exited;
    ssize_t n =
        process->state == NATIVE_RUNNING && process->lane->sock >= 0
            ? fd_receive(process->lane->sock, &exited, sizeof exited, NULL, NULL, MSG_DONTWAIT)
            : -1;
    bool told = n == sizeof exited && exited.type == LANE_EXITED;
    if (process->has_exited) {
        exited = process->exited;
        told = true;
    }
    bool explained = told || process->killed || session_of(process)->oom;
    take_outcome(process, told ? &exited : NULL);
    uv_timer_stop(&process->timer);
    leave_lane(process, false);
    if (process->state == NATIVE_WAITING)
        native_process_fail(process, why);
    else
        deliver(process, explained ? NULL : why);
}

/* --- while it runs
 * --------------------------------------------------------------------------------- */

static void on_look(uv_timer_t *timer)
{
    struct native_process *process = timer->data;
    struct cgroup_usage usage;
    if (process->state != NATIVE_RUNNING || process->killed)
        return;
    if (cgroup_usage_read(&process->lane->group, &usage) < 0)
        return;
    if (usage.oom_kills > process->before.oom_kills)
        native_kill(&process->base, false);
    else if (now_ns() < process->memory_until_ns)
        uv_timer_start(timer, on_look, MEMORY_LOOK_MS, 0);
}

/* The kernel (v1) tells that memory has run out before it kills, and kills one process only. */
void native_process_memory(struct native_process *process)
{
    if (process->state != NATIVE_RUNNING || process->killed)
        return;
    process->memory_until_ns = now_ns() + MEMORY_KILL_NS;
    on_look(&process->timer);
}

void native_signal(struct backend_process *base, int number)
{
    struct native_process *process = (struct native_process *)base;
    const struct init_signal message = {.type = INIT_SIGNAL, .pid = process->pid, .number = number};
    if (process->state == NATIVE_RUNNING && process->pid > 1)
        native_send(session_of(process), &message, sizeof message, NULL, 0);
}

static void on_never_ran(uv_timer_t *timer)
{
    struct native_process *process = timer->data;
    process->outcome =
        (struct outcome){.timed_out = process->timed_out, .exit_code = -1, .signal = SIGKILL};
    deliver(process, NULL);
}

/* A launcher that was just forked may enter its lane only after the lane was killed. */
static void on_still_there(uv_timer_t *timer)
{
    struct native_process *process = timer->data;
    if (!process->lane)
        return;
    native_lane_kill(process->lane);
    uv_timer_start(timer, on_still_there, KILL_AGAIN_MS, 0);
}

void native_kill(struct backend_process *base, bool timed_out)
{
    struct native_process *process = (struct native_process *)base;
    if (process->killed || process->state == NATIVE_ASKING || process->state == NATIVE_OVER)
        return;
    process->killed = true;
    process->timed_out = timed_out;
    process->after = process->before;
    if (process->state == NATIVE_WAITING) {
        unwait(process);
        leave_lane(process, false);
        uv_timer_start(&process->timer, on_never_ran, 0, 0);
        process->state = NATIVE_RUNNING;
        return;
    }
    struct native_lane *lane = process->lane;
    if (!lane)
        return;
    bool by_lane = lane->group.version != CGROUP_NONE;
    if (by_lane) {
        cgroup_usage_read(&lane->group, &process->after);
        uv_timer_start(&process->timer, on_still_there, KILL_AGAIN_MS, 0);
    }
    native_lane_kill(lane);
}

/* --- beyond this process
 * ---------------------------------------------------------------------------- */

bool native_keep(struct backend_process *base, const int *fds, size_t count)
{
    struct native_process *process = (struct native_process *)base;
    int kept[INIT_KEEP_FDS_MAX];
    if (process->state != NATIVE_RUNNING || !process->keep_id || count > BACKEND_KEPT_FDS)
        return false;
    const struct init_keep message = {.type = INIT_KEEP,
                                      .id = process->keep_id,
                                      .lane = process->lane->index,
                                      .pid = process->pid};
    kept[0] = process->lane->sock;
    memcpy(kept + 1, fds, count * sizeof *fds);
    return native_send(session_of(process), &message, sizeof message, kept, 1 + count) == 0;
}

/* The groups of an earlier caller's lane, to be billed by. The way into them is of no use. */
static void on_lane_again(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native_lane *lane = data;
    if (reply && !reply->code && lane->process && lane->group.version == CGROUP_NONE) {
        size_t entries = reply->entry_fds < count ? reply->entry_fds : count;
        lane->group = peer_lane_group(reply, fds + entries, count - entries);
        for (size_t i = entries; i < count; i++)
            fds[i] = -1;
        cgroup_usage_read(&lane->group, &lane->process->before);
        native_lane_watch_memory(lane);
    }
    native_session_drop(lane->session);
}

struct backend_process *native_adopt_process(struct backend_session *base, uint32_t keep_id,
                                             const struct backend_process_events *events,
                                             void *owner)
{
    struct native_session *session = (struct native_session *)base;
    struct native_kept *kept = NULL;
    for (size_t i = 0; i < session->kept_count; i++) {
        if (session->kept[i].id == keep_id && session->kept[i].fds[0] >= 0)
            kept = &session->kept[i];
    }
    if (!kept)
        return NULL;
    struct native_lane *lane = native_lane(session, kept->lane);
    if (lane->state != NATIVE_LANE_CLOSED)
        return NULL;
    struct native_process *process = process_new(session, keep_id, events, owner);
    process->state = NATIVE_RUNNING;
    process->lane = lane;
    process->pid = kept->pid;
    process->program = xstrdup("");
    process->cwd = xstrdup("");
    lane->process = process;
    native_lane_ready(lane, steal_fd(&kept->fds[0]));
    lane->state = NATIVE_LANE_BUSY;
    native_session_hold(session);
    const struct spawner_request request = {.type = SPAWNER_LANE,
                                            .session = session->number,
                                            .lane = (int32_t)lane->index,
                                            .memory = SPAWNER_MEMORY_AS_IS};
    native_call(native_of(session), &request, sizeof request, on_lane_again, lane);
    return &process->base;
}
