/* SPDX-License-Identifier: Apache-2.0 */
/* While a command runs: signals, memory that runs out, its end by force; and what makes it outlive
   this process. */
#include <signal.h>
#include <string.h>

#include "backend/native-internal.h"
#include "core/clock.h"
#include "core/fd.h"

#define KILL_AGAIN_MS 20
#define INIT_MOVES_NS 20000000u
/* Between the kernel's word (v1) that memory has run out and the kill that follows it. */
#define MEMORY_KILL_NS 100000000u
#define MEMORY_LOOK_MS 5

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
    else if (clock_monotonic_ns() < process->memory_until_ns)
        uv_timer_start(timer, on_look, MEMORY_LOOK_MS, 0);
}

/* The kernel (v1) tells that memory has run out before it kills, and kills one process only. */
void native_process_memory(struct native_process *process)
{
    if (process->state != NATIVE_RUNNING || process->killed)
        return;
    process->memory_until_ns = clock_monotonic_ns() + MEMORY_KILL_NS;
    on_look(&process->timer);
}

void native_signal(struct backend_process *base, int number)
{
    struct native_process *process = (struct native_process *)base;
    const struct init_signal message = {.type = INIT_SIGNAL, .pid = process->pid, .number = number};
    if (process->state == NATIVE_RUNNING && process->pid > 1)
        native_send(session_of(process), &message, sizeof message, NULL, 0);
}

/* Init is born in the groups of the first lane, and leaves them just after it has said that it is
   ready: to kill that lane before is to kill the session, which others may wait for. */
static bool spares_init(const struct native_process *process)
{
    const struct native_session *session = session_of(process);
    return session->state == NATIVE_LIVE &&
           (process->lane->index > 0 || clock_monotonic_ns() - session->ready_ns >= INIT_MOVES_NS);
}

/* A launcher that was just forked may enter its lane only after the lane was killed. */
static void on_still_there(uv_timer_t *timer)
{
    struct native_process *process = timer->data;
    if (!process->lane)
        return;
    if (spares_init(process))
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
        native_process_unwait(process);
        native_process_leave_lane(process, false);
        process->outcome =
            (struct outcome){.timed_out = timed_out, .exit_code = -1, .signal = SIGKILL};
        native_process_await(process, 0); /* told from the loop */
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
    if (!by_lane || spares_init(process))
        native_lane_kill(lane);
}

/* --- beyond this process --- */

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
    struct native_process *process = native_process_new(session, keep_id, events, owner);
    process->began = true;
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
