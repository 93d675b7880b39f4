/* SPDX-License-Identifier: Apache-2.0 */
/* A session's init: what it says, and the end of the session in all its ways. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/native-internal.h"
#include "core/clock.h"
#include "core/fd.h"

void native_session_hold(struct native_session *session)
{
    session->holds++;
}

void native_session_drop(struct native_session *session)
{
    if (--session->holds > 0)
        return;
    if (session->denied)
        munmap(session->denied, sizeof *session->denied);
    for (size_t i = 0; i < LANE_MAX; i++)
        free(session->lanes[i]);
    strings_release(&session->bounded);
    free(session->notes);
    free(session->kept);
    free(session);
}

int native_send(struct native_session *session, const void *message, size_t size, const int *fds,
                size_t count)
{
    if (session->control < 0)
        return -EPIPE;
    ssize_t n = fd_send(session->control, message, size, fds, count);
    return n < 0 ? (int)n : 0;
}

/* --- the end -------------------------------------------------------------------------------------
 */

static void on_closed(uv_handle_t *handle)
{
    native_session_drop(handle->data);
}

static void disconnect(struct native_session *session)
{
    if (session->polled) {
        session->polled = false;
        uv_close((uv_handle_t *)&session->poll, on_closed);
    }
    fd_clear(&session->control);
}

/* Every process has its last event, and the lanes are closed. */
static void end_processes(struct native_session *session, const struct error *why)
{
    native_session_hold(session);
    while (session->waiting) {
        struct native_process *process = session->waiting;
        native_process_fail(process, why);
    }
    for (size_t i = 0; i < LANE_MAX; i++) {
        struct native_lane *lane = session->lanes[i];
        if (!lane)
            continue;
        if (lane->process)
            native_process_lost(lane->process, why);
        native_lane_close(lane);
    }
    while (session->asking)
        native_process_lost(session->asking, why);
    native_session_drop(session);
}

static void forget_kept(struct native_session *session)
{
    for (size_t i = 0; i < session->kept_count; i++) {
        for (size_t j = 0; j < session->kept[i].count; j++)
            fd_clear(&session->kept[i].fds[j]);
    }
    session->kept_count = 0;
}

/* The last of it: out of the list, handles closed. Memory goes when the last of them is. */
static void detach(struct native_session *session)
{
    disconnect(session);
    forget_kept(session);
    *session->at = session->next;
    if (session->next)
        session->next->at = session->at;
    uv_close((uv_handle_t *)&session->timer, on_closed);
}

/* Nobody is there any more to be told anything; what it is goes on without us. */
void native_session_abandon(struct native_session *session)
{
    session->told = true;
    session->state = NATIVE_LEAVING;
    while (session->waiting)
        native_process_abandon(session->waiting);
    while (session->asking)
        native_process_abandon(session->asking);
    for (size_t i = 0; i < LANE_MAX; i++) {
        struct native_lane *lane = session->lanes[i];
        if (lane && lane->process)
            native_process_abandon(lane->process);
        if (lane)
            native_lane_close(lane);
    }
    detach(session);
}

static void on_destroyed(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native_session *session = data;
    struct error err = ERROR_INIT;
    (void)fds;
    (void)count;
    int rc = spawner_answered(reply, &err);
    struct error gone = ERROR_INIT;
    error_set(&gone, ERROR_GONE, "the session was ended");
    end_processes(session, &gone);
    detach(session);
    if (session->destroyed)
        session->destroyed(session->destroyed_data, rc < 0 ? &err : NULL);
    native_session_drop(session);
}

void native_session_destroy(struct native_session *session)
{
    const struct spawner_request request = {.type = SPAWNER_DESTROY, .session = session->number};
    native_session_hold(session);
    native_call(native_of(session), &request, sizeof request, on_destroyed, session);
}

void native_session_ended(struct native_session *session, const struct error *why)
{
    enum native_session_state before = session->state;
    if (before == NATIVE_ENDED || before == NATIVE_LEAVING || session->told)
        return;
    if (before != NATIVE_LIVE) {
        native_session_failed(session, why);
        return;
    }
    session->state = NATIVE_ENDED;
    disconnect(session);
    native_session_hold(session);
    end_processes(session, why);
    if (!session->told) {
        session->told = true;
        session->events->ended(session->owner, why);
    }
    native_session_drop(session);
}

void native_session_failed(struct native_session *session, const struct error *why)
{
    if (session->told)
        return;
    session->told = true;
    session->state = NATIVE_LEAVING;
    native_session_hold(session);
    end_processes(session, why);
    session->events->ready(session->owner, why);
    if (session->number)
        native_session_destroy(session);
    else
        detach(session);
    native_session_drop(session);
}

/* --- init's words --------------------------------------------------------------------------------
 */

union from_init {
    uint32_t type;
    struct init_ready ready;
    struct init_failed failed;
    struct init_lane lane;
    struct init_statfs statfs;
    struct init_keep keep;
};

static void take_kept(struct native_session *session, const struct init_keep *message, int *fds,
                      size_t count)
{
    if (session->state != NATIVE_ADOPTING || session->kept_count == INIT_KEPT_MAX ||
        message->lane >= LANE_MAX || count < 1)
        return;
    session->kept = xreallocarray(session->kept, session->kept_count + 1, sizeof *session->kept);
    struct native_kept *kept = &session->kept[session->kept_count++];
    *kept = (struct native_kept){
        .id = message->id, .lane = message->lane, .pid = message->pid, .count = count};
    for (size_t i = 0; i < count; i++)
        kept->fds[i] = steal_fd(&fds[i]);
}

void native_session_ready(struct native_session *session)
{
    struct native *native = native_of(session);
    session->state = NATIVE_LIVE;
    session->ready_ns = session->ready_ns ? session->ready_ns : clock_monotonic_ns();
    uv_timer_stop(&session->timer);
    session->events->ready(session->owner, NULL);
    native_dispatch(session);
    native_spare_refill(native);
}

static void on_pruned(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native_session *session = data;
    (void)fds;
    (void)count;
    if (reply && session->state == NATIVE_ADOPTING)
        native_session_ready(session);
    native_session_drop(session);
}

/* Now it is known what was kept. What nobody wants any more is ended, and every command of the
   earlier caller, whose answer nobody waits for. */
static void complete_adoption(struct native_session *session)
{
    struct spawner_request request = {.type = SPAWNER_PRUNE, .session = session->number};
    for (size_t i = 0; i < session->kept_count; i++) {
        struct native_kept *kept = &session->kept[i];
        int fds[BACKEND_KEPT_FDS];
        size_t count = kept->count - 1;
        for (size_t j = 0; j < count; j++)
            fds[j] = steal_fd(&kept->fds[1 + j]);
        session->events->kept(session->owner, kept->id, fds, count);
    }
    for (unsigned i = 0; i < LANE_MAX; i++) {
        if (session->lanes[i] && session->lanes[i]->process)
            request.lanes |= 1ULL << i;
    }
    for (size_t i = 0; i < session->kept_count; i++) {
        const struct init_keep release = {
            .type = INIT_KEEP, .id = session->kept[i].id, .lane = session->kept[i].lane};
        if (session->kept[i].fds[0] >= 0) /* not taken */
            native_send(session, &release, sizeof release, NULL, 0);
    }
    forget_kept(session);
    native_session_hold(session);
    native_call(native_of(session), &request, sizeof request, on_pruned, session);
}

static void take_ready(struct native_session *session, int page)
{
    if (session->denied || page < 0)
        return;
    session->denied = peer_map_denied(page);
    if (session->state == NATIVE_ADOPTING)
        complete_adoption(session);
    else if (session->state == NATIVE_BUILDING)
        native_session_ready(session);
}

static void take_message(struct native_session *session, const union from_init *message,
                         size_t size, int *fds, size_t count)
{
    struct error err = ERROR_INIT;
    if (message->type == INIT_READY && size == sizeof message->ready) {
        take_ready(session, count == 1 ? fds[0] : -1);
    } else if (message->type == INIT_FAILED && size == sizeof message->failed) {
        peer_init_failed(&message->failed, &err);
        native_session_failed(session, &err);
    } else if (message->type == INIT_LANE && size == sizeof message->lane) {
        native_lane_answered(session, &message->lane);
    } else if (message->type == INIT_STATFS && size == sizeof message->statfs) {
        native_process_space(session, &message->statfs);
    } else if (message->type == INIT_KEEP && size == sizeof message->keep) {
        take_kept(session, &message->keep, fds, count);
    }
}

static void on_control(uv_poll_t *poll, int status, int events)
{
    struct native_session *session = poll->data;
    union from_init message = {0};
    struct error err = ERROR_INIT;
    (void)events;
    native_session_hold(session);
    while (session->control >= 0) {
        int fds[INIT_KEEP_FDS_MAX];
        size_t count = ARRAY_SIZE(fds);
        ssize_t n = status < 0 ? 0
                               : fd_receive(session->control, &message, sizeof message, fds, &count,
                                            MSG_DONTWAIT);
        if (n == -EAGAIN)
            break;
        if (n == -EMFILE && message.type == INIT_READY && !session->denied &&
            session->state != NATIVE_LIVE) {
            native_no_descriptors(&err);
            native_session_failed(session, &err);
            break;
        }
        if (fd_is_bad_message(n))
            continue;
        if (n <= 0) {
            disconnect(session);
            /* The spawner says the same, and knows more (whether it was memory); but of a session
               still being made only this tells. */
            if (session->state != NATIVE_LIVE) {
                error_set(&err, ERROR_GONE, "the session's init ended before it was ready");
                native_session_ended(session, &err);
            }
            break;
        }
        if ((size_t)n >= sizeof message.type)
            take_message(session, &message, (size_t)n, fds, count);
        for (size_t i = 0; i < count; i++)
            fd_clear(&fds[i]);
    }
    native_session_drop(session);
}

void native_session_connect(struct native_session *session, int control)
{
    struct native *native = native_of(session);
    fcntl(control, F_SETFL, O_NONBLOCK);
    session->control = control;
    session->poll.data = session;
    if (uv_poll_init(native->base.loop, &session->poll, control) < 0)
        return;
    session->polled = true;
    native_session_hold(session);
    uv_poll_start(&session->poll, UV_READABLE, on_control);
}
