/* SPDX-License-Identifier: Apache-2.0 */
/* Commands from the caller's side: started in a lane, watched, ended, explained. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "core/clock.h"
#include "core/fd.h"
#include "sandbox/engine-internal.h"

#define START_TIMEOUT_MS 10000

/* Between the kernel's word that memory has run out and the kill that follows it. */
#define MEMORY_KILL_NS 100000000u

/* The launcher's answer, or the session's failure if it is still being built. -EPIPE, -ETIMEDOUT:
   the lane is of no use any more. */
static int await_started(struct sandbox *sandbox, const struct lane *lane, struct lane_started *ret,
                         int *ret_terminal, struct error *err)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = lane->sock, .events = POLLIN},
                                  {.fd = sandbox->ready ? -1 : sandbox->control, .events = POLLIN}};
        int count = poll(polled, ARRAY_SIZE(polled), START_TIMEOUT_MS);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return -ETIMEDOUT;
        if (polled[1].revents && sandbox_await(sandbox, err) < 0)
            return -1;
        if (!polled[0].revents)
            continue;
        int fd = -1;
        size_t fd_count = 1;
        ssize_t n = fd_receive(lane->sock, ret, sizeof *ret, &fd, &fd_count, 0);
        if (n != sizeof *ret || ret->type != LANE_STARTED)
            return -EPIPE;
        *ret_terminal = fd_count == 1 ? fd : -1;
        return 0;
    }
}

/* A launcher that died or was stopped by what ran in its lane: that is the session's own doing, and
   costs it the lane and all in it. */
static void discard_lane(struct sandbox *sandbox, int index)
{
    struct command gone = {.sandbox = sandbox, .lane = index};
    if (!sandbox->single && sandbox->lanes[index].group.version != CGROUP_NONE)
        command_kill(&gone);
    lane_close(&sandbox->lanes[index]);
}

/* 0; 1 if the lane turned out to be dead and another one may do; or -1. */
static int start_in_lane(struct sandbox *sandbox, int index, const struct command_request *request,
                         struct command *ret, struct error *err)
{
    struct lane *lane = &sandbox->lanes[index];
    struct lane_started started = {0};
    struct cgroup_usage before = {0};
    int terminal = -1;
    if (lane->group.version != CGROUP_NONE) {
        cgroup_peak_reset(&lane->group);
        cgroup_usage_read(&lane->group, &before);
    }
    uint64_t start = clock_monotonic_ns();
    int rc = command_send(lane->sock, request, err);
    if (rc == 0)
        rc = await_started(sandbox, lane, &started, &terminal, err);
    /* Nobody there: perhaps nobody ever was, and init has said why. */
    if (rc == -EPIPE && sandbox_await(sandbox, err) < 0)
        return -1;
    if (rc == -EPIPE || rc == -ETIMEDOUT) {
        discard_lane(sandbox, index);
        error_set(err, ERROR_GONE, "the launcher %s",
                  rc == -EPIPE ? "has ended" : "does not answer");
        return sandbox->single || sandbox->ended ? -1 : 1;
    }
    if (rc < 0)
        return -1;
    if (started.errnum)
        return command_explain_start(&started, request->argv[0], request->cwd, err);
    lane->state = LANE_BUSY;
    *ret = (struct command){.sandbox = sandbox,
                            .lane = index,
                            .pid = started.pid,
                            .terminal = terminal,
                            .started_ns = start,
                            .before = before};
    return 0;
}

int command_start(struct sandbox *sandbox, const struct command_request *request,
                  struct command *ret, struct error *err)
{
    for (int tries = 0; tries < 2; tries++) {
        int index = sandbox_take_lane(sandbox, err);
        int rc = index < 0 ? -1 : start_in_lane(sandbox, index, request, ret, err);
        if (rc <= 0)
            return rc;
    }
    return -1;
}

/* --- while it runs -----------------------------------------------------------------------------
 */

static struct lane *lane_of(const struct command *command)
{
    return &command->sandbox->lanes[command->lane];
}

int command_fd(const struct command *command)
{
    return lane_of(command)->sock;
}

int command_engine_fd(const struct command *command)
{
    return command->sandbox->engine->gone ? -1 : command->sandbox->engine->sock;
}

void command_check_engine(struct command *command)
{
    engine_listen(command->sandbox->engine, 0);
    if (command->sandbox->engine->gone)
        command_kill(command);
}

int command_memory_fd(const struct command *command)
{
    const struct lane *lane = lane_of(command);
    return lane->group.version == CGROUP_NONE ? -1 : lane->group.fds[CGROUP_FD_OOM_EVENT];
}

bool command_check_memory(struct command *command)
{
    struct cgroup_usage usage;
    uint64_t count;
    if (read(command_memory_fd(command), &count, sizeof count) == sizeof count)
        command->memory_until_ns = clock_monotonic_ns() + MEMORY_KILL_NS;
    if (cgroup_usage_read(&lane_of(command)->group, &usage) < 0)
        return false;
    if (usage.oom_kills == command->before.oom_kills)
        return clock_monotonic_ns() < command->memory_until_ns;
    command_kill(command);
    return false;
}

void command_signal(struct command *command, int number)
{
    const struct init_signal message = {.type = INIT_SIGNAL, .pid = command->pid, .number = number};
    fd_send(command->sandbox->control, &message, sizeof message, NULL, 0);
}

void command_kill(struct command *command)
{
    struct sandbox *sandbox = command->sandbox;
    const struct lane *lane = lane_of(command);
    bool by_lane = !sandbox->single && lane->group.version != CGROUP_NONE;
    const struct spawner_request request = {.type = by_lane ? SPAWNER_KILL : SPAWNER_DESTROY,
                                            .session = sandbox->number,
                                            .lane = command->lane};
    struct spawner_reply reply;
    struct error err = ERROR_INIT;
    command->killed = true;
    command->last = command->before;
    if (lane->group.version != CGROUP_NONE)
        cgroup_usage_read(&lane->group, &command->last);
    int rc = engine_call(sandbox->engine, &request, sizeof request, NULL, &reply, NULL, NULL, &err);
    if (!by_lane && rc == 0)
        sandbox->ended = sandbox->destroyed = true;
    if (rc < 0) /* then init must do it, by ending */
        fd_clear(&sandbox->control);
}

/* --- when it is over ----------------------------------------------------------------------------
 */

static bool something_is_full(struct sandbox *sandbox)
{
    struct sandbox_space space;
    for (size_t i = 0; i < sandbox->bounded.count && !sandbox->ended; i++) {
        if (sandbox_space(sandbox, sandbox->bounded.items[i], &space, NULL) == 0 &&
            sandbox_space_is_full(&space))
            return true;
    }
    return false;
}

static enum cause find_cause(const struct command *command, const struct outcome *outcome,
                             const struct cgroup_usage *usage)
{
    bool full =
        outcome_asks_space(outcome, &command->before, usage) && something_is_full(command->sandbox);
    return outcome_cause(outcome, &command->before, usage, full);
}

#define GONE_WAIT_MS 200

/* Nobody said how it ended. If that was init's end or the spawner's, it is a failure of the
   sandbox; else the launcher was killed from inside, which is the command's own affair. */
static int explain_gone(const struct command *command, struct outcome *ret,
                        const struct outcome *outcome, struct error *err)
{
    struct sandbox *sandbox = command->sandbox;
    if (!sandbox->ended)
        engine_listen(sandbox->engine, GONE_WAIT_MS);
    if (sandbox->engine->gone)
        return error_set(err, ERROR_GONE, "the spawner has ended, and the session with it");
    if (sandbox->ended && !sandbox->destroyed && !sandbox->ended_of_memory)
        return error_set(err, ERROR_GONE, "the session ended under the command");
    *ret = *outcome;
    if (sandbox->ended_of_memory)
        ret->cause = CAUSE_OOM;
    return 0;
}

int command_finish(struct command *command, bool timed_out, struct outcome *ret, struct error *err)
{
    struct lane *lane = lane_of(command);
    struct lane_exited exited = {0};
    struct outcome outcome = {.timed_out = timed_out, .exit_code = -1};
    struct cgroup_usage usage = command->killed ? command->last : command->before;
    ssize_t n = fd_receive(lane->sock, &exited, sizeof exited, NULL, NULL,
                           command->killed ? MSG_DONTWAIT : 0);
    bool told = n == sizeof exited && exited.type == LANE_EXITED;
    outcome.wall_us = (clock_monotonic_ns() - command->started_ns) / 1000;
    if (told)
        outcome_take_exit(&outcome, &exited);
    else
        outcome.signal = SIGKILL;
    if (lane->group.version != CGROUP_NONE &&
        (command->killed || cgroup_usage_read(&lane->group, &usage) == 0))
        outcome_take_usage(&outcome, &command->before, &usage, command->sandbox->memory_bytes);
    /* A command may be over before anybody asked whether the session is up. */
    if (sandbox_await(command->sandbox, NULL) == 0 && command->sandbox->denied)
        outcome_take_denied(&outcome, command->sandbox->denied, command->lane);
    outcome.cause = find_cause(command, &outcome, &usage);
    if (outcome.timed_out)
        outcome.exit_code = -1;
    fd_clear(&command->terminal);
    if (command->killed || !told)
        lane_close(lane);
    else
        lane->state = lane_is_empty(lane) ? LANE_IDLE : LANE_LINGERING;
    if (!told && outcome.cause == CAUSE_SIGNAL && !timed_out)
        return explain_gone(command, ret, &outcome, err);
    *ret = outcome;
    return 0;
}
