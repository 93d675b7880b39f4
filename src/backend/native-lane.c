/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: a launcher each, in a group of its own, that runs one command after another.

   A lane's socket is watched for as long as the lane is open, busy or not: so a command costs no
   system call for watching it. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>

#include "backend/native-internal.h"
#include "core/fd.h"

struct native_lane *native_lane(struct native_session *session, unsigned index)
{
    struct native_lane **lane = &session->lanes[index];
    if (!*lane) {
        *lane = xcalloc(1, sizeof **lane);
        (*lane)->session = session;
        (*lane)->index = index;
        (*lane)->sock = -1;
        for (size_t i = 0; i < CGROUP_FD_MAX; i++)
            (*lane)->group.fds[i] = -1;
    }
    return *lane;
}

bool native_lane_is_empty(const struct native_lane *lane)
{
    struct cgroup_usage usage;
    if (lane->group.version == CGROUP_NONE)
        return true;
    return cgroup_usage_read(&lane->group, &usage) == 0 && usage.processes <= 1;
}

bool native_lanes_moving(const struct native_session *session)
{
    for (unsigned i = 0; i < LANE_MAX; i++) {
        const struct native_lane *lane = session->lanes[i];
        if (lane && lane->state != NATIVE_LANE_LINGERING)
            return true;
    }
    return false;
}

unsigned native_lanes_idle(const struct native_session *session)
{
    unsigned count = 0;
    for (unsigned i = 0; i < LANE_MAX; i++)
        count += session->lanes[i] && session->lanes[i]->state == NATIVE_LANE_IDLE;
    return count;
}

/* Nothing has run in it since its last command, so nothing was counted but, on v1, the CPU time of
   the whole session. */
void native_lane_measure(struct native_lane *lane, struct cgroup_usage *ret)
{
    if (lane->group.version == CGROUP_NONE)
        return;
    cgroup_peak_reset(&lane->group);
    if (!lane->usage_known || cgroup_usage_read_cpu(&lane->group, &lane->usage) < 0)
        lane->usage_known = cgroup_usage_read(&lane->group, &lane->usage) == 0;
    if (lane->usage_known)
        *ret = lane->usage;
}

struct native_lane *native_lane_find(struct native_session *session, bool fresh)
{
    struct native_lane *closed = NULL;
    for (unsigned i = 0; i < LANE_MAX; i++) {
        struct native_lane *lane = session->lanes[i];
        if (lane && lane->state == NATIVE_LANE_LINGERING && native_lane_is_empty(lane))
            lane->state = NATIVE_LANE_IDLE;
        if (lane && lane->state == NATIVE_LANE_IDLE && !fresh)
            return lane;
        /* A handle that is still being closed cannot be used again yet. */
        bool free_slot = !lane || (lane->state == NATIVE_LANE_CLOSED && !lane->polled &&
                                   !lane->watched && !lane->asked);
        if (free_slot && !closed)
            closed = native_lane(session, i);
        if (closed && fresh)
            break;
    }
    /* None is left that could be opened: one that is idle is given up, and its slot told about by
       on_poll_closed(). */
    for (unsigned i = 0; fresh && !closed && i < LANE_MAX; i++) {
        if (session->lanes[i]->state == NATIVE_LANE_IDLE) {
            native_lane_close(session->lanes[i]);
            break;
        }
    }
    return closed;
}

/* --- watching ------------------------------------------------------------------------------------
 */

static void on_launcher(uv_poll_t *poll, int status, int events)
{
    struct native_lane *lane = poll->data;
    (void)status;
    (void)events;
    if (lane->process) {
        native_process_read(lane->process);
        return;
    }
    /* Nothing is to be said when nothing runs: it was killed from inside. */
    native_lane_close(lane);
}

static void on_memory(uv_poll_t *poll, int status, int events)
{
    struct native_lane *lane = poll->data;
    uint64_t count;
    (void)status;
    (void)events;
    if (read(lane->group.fds[CGROUP_FD_OOM_EVENT], &count, sizeof count) < 0 && errno == EAGAIN)
        return;
    if (lane->process)
        native_process_memory(lane->process);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct native_lane *lane = handle->data;
    if (handle == (uv_handle_t *)&lane->poll)
        lane->polled = false;
    else
        lane->watched = false;
    if (lane->session->state == NATIVE_LIVE)
        native_dispatch(lane->session); /* somebody may have waited for the slot */
    native_session_drop(lane->session);
}

void native_lane_watch_memory(struct native_lane *lane)
{
    int memory = lane->group.version == CGROUP_NONE ? -1 : lane->group.fds[CGROUP_FD_OOM_EVENT];
    lane->memory.data = lane;
    if (memory < 0 || lane->watched ||
        uv_poll_init(lane->session->base.backend->loop, &lane->memory, memory) < 0)
        return;
    lane->watched = true;
    native_session_hold(lane->session);
    uv_poll_start(&lane->memory, UV_READABLE, on_memory);
}

static void watch(struct native_lane *lane)
{
    uv_loop_t *loop = lane->session->base.backend->loop;
    lane->poll.data = lane;
    if (uv_poll_init(loop, &lane->poll, lane->sock) == 0) {
        lane->polled = true;
        native_session_hold(lane->session);
        uv_poll_start(&lane->poll, UV_READABLE, on_launcher);
    }
    native_lane_watch_memory(lane);
}

void native_lane_ready(struct native_lane *lane, int sock)
{
    fcntl(sock, F_SETFL, O_NONBLOCK);
    lane->sock = sock;
    lane->state = NATIVE_LANE_IDLE;
    watch(lane);
}

static void close_handle(bool open, uv_poll_t *poll)
{
    if (open && !uv_is_closing((uv_handle_t *)poll))
        uv_close((uv_handle_t *)poll, on_poll_closed);
}

void native_lane_close(struct native_lane *lane)
{
    close_handle(lane->polled, &lane->poll);
    close_handle(lane->watched, &lane->memory);
    fd_clear(&lane->sock);
    cgroup_lane_fds_close(&lane->group);
    lane->group.version = CGROUP_NONE;
    lane->usage_known = false;
    lane->state = NATIVE_LANE_CLOSED;
    lane->process = NULL;
}

/* --- opening -------------------------------------------------------------------------------------
 */

static void open_failed(struct native_lane *lane, const struct error *err)
{
    struct native_process *process = lane->process;
    native_lane_close(lane);
    if (process)
        native_process_fail(process, err);
    if (lane->session->state == NATIVE_LIVE)
        native_dispatch(lane->session);
}

/* The lane's groups come from the spawner, its launcher from init, which is handed the way into
 * them. */
static void on_groups(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native_lane *lane = data;
    struct native_session *session = lane->session;
    struct init_lane message = {.type = INIT_LANE, .lane = lane->index};
    struct error err = ERROR_INIT;
    int pass[1 + FD_PASS_MAX];
    int pair[2] = {-1, -1};
    lane->asked = false;
    if (lane->state != NATIVE_LANE_OPENING || session->state != NATIVE_LIVE) {
        if (session->state == NATIVE_LIVE)
            native_dispatch(session);
        native_session_drop(session);
        return;
    }
    if (spawner_answered(reply, &err) < 0) {
        /* told below */
    } else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        error_errno(&err, errno, "cannot make a socket");
    } else {
        size_t entries = reply->entry_fds < count ? reply->entry_fds : count;
        pass[0] = pair[1];
        for (size_t i = 0; i < entries; i++)
            pass[1 + i] = fds[i];
        lane->group = peer_lane_group(reply, fds + entries, count - entries);
        for (size_t i = entries; i < count; i++)
            fds[i] = -1;
        int rc = native_send(session, &message, sizeof message, pass, 1 + entries);
        if (rc < 0)
            error_set(&err, ERROR_GONE, "the session has ended");
        lane->asked = rc == 0;
    }
    fd_clear(&pair[1]);
    lane->sock = pair[0];
    if (err.code)
        open_failed(lane, &err);
    native_session_drop(session);
}

void native_lane_open(struct native_lane *lane, uint64_t memory)
{
    struct native_session *session = lane->session;
    const struct spawner_request request = {.type = SPAWNER_LANE,
                                            .session = session->number,
                                            .lane = (int32_t)lane->index,
                                            .memory = memory};
    lane->state = NATIVE_LANE_OPENING;
    lane->asked = true;
    native_session_hold(session);
    native_call(native_of(session), &request, sizeof request, on_groups, lane);
}

void native_lane_answered(struct native_session *session, const struct init_lane *message)
{
    struct native_lane *lane = message->lane < LANE_MAX ? session->lanes[message->lane] : NULL;
    struct error err = ERROR_INIT;
    if (!lane)
        return;
    /* Unless it is the spawner that was asked. */
    if (lane->sock >= 0 || lane->state == NATIVE_LANE_CLOSED)
        lane->asked = false;
    if (lane->state != NATIVE_LANE_OPENING || lane->sock < 0) {
        if (session->state == NATIVE_LIVE)
            native_dispatch(session);
        return;
    }
    if (message->errnum) {
        command_explain_full(message->errnum, "the session cannot run another process", &err);
        open_failed(lane, &err);
        return;
    }
    struct native_process *process = lane->process;
    native_lane_ready(lane, lane->sock);
    if (process)
        native_process_run(process, lane);
}

/* --- the end of all in it ------------------------------------------------------------------------
 */

static void on_killed(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native_session *session = data;
    struct error err = ERROR_INIT;
    (void)fds;
    (void)count;
    if (reply && reply->request == SPAWNER_DESTROY) {
        error_set(&err, ERROR_GONE, "the session ended with a command that had to be killed");
        error_hint(&err, "with control groups only the command's tree is killed: box doctor");
        native_session_ended(session, &err);
    }
    native_session_drop(session);
}

/* The launcher goes with it, and the end of its socket tells that all is over. Where the session
   has no group to tell its tree by, the session ends. */
void native_lane_kill(struct native_lane *lane)
{
    struct native_session *session = lane->session;
    bool by_lane = lane->group.version != CGROUP_NONE;
    const struct spawner_request request = {.type = by_lane ? SPAWNER_KILL : SPAWNER_DESTROY,
                                            .session = session->number,
                                            .lane = (int32_t)lane->index};
    if (!by_lane) {
        session->doomed = true;
        uv_poll_stop(&lane->poll);
    }
    native_session_hold(session);
    native_call(native_of(session), &request, sizeof request, on_killed, session);
}
