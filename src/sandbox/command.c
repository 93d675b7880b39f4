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
#include <time.h>

#include "core/fd.h"
#include "sandbox/engine-internal.h"

/* A place with less left than a part of it is full: what could not be written was larger than what
   is left, and file systems keep a few blocks for themselves. */
#define START_TIMEOUT_MS 10000

#define FULL_PART      64
#define FULL_BYTES_MIN (32u * 1024)
#define FULL_BYTES_MAX (1024u * 1024)

/* Between the kernel's word that memory has run out and the kill that follows it. */
#define MEMORY_KILL_NS 100000000u

static const char *const cause_names[CAUSE_MAX] = {
#define X(name, text) [CAUSE_##name] = text,
    CAUSES(X)
#undef X
};

const char *cause_name(enum cause cause)
{
    return (unsigned)cause < CAUSE_MAX ? cause_names[cause] : "unknown";
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the request -------------------------------------------------------------------------------
 */

/* Length of all strings with their NULs; 0 if too large. */
static size_t measure(const struct command_request *request, struct lane_exec *head)
{
    size_t size = strlen(request->cwd) + 1;
    for (char *const *at = request->argv; *at; at++, head->argc++)
        size += strlen(*at) + 1;
    for (char *const *at = request->envp; *at; at++, head->envc++)
        size += strlen(*at) + 1;
    if (size > LANE_STRINGS_MAX || head->argc + head->envc > LANE_ARGS_MAX)
        return 0;
    return size;
}

static void pack(const struct command_request *request, char *at)
{
    at = stpcpy(at, request->cwd) + 1;
    for (char *const *item = request->argv; *item; item++)
        at = stpcpy(at, *item) + 1;
    for (char *const *item = request->envp; *item; item++)
        at = stpcpy(at, *item) + 1;
}

static int strings_memfd(const char *data, size_t size, struct error *err)
{
    cleanup_close int fd = memfd_create("strings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || fd_write_all(fd, data, size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return error_errno(err, errno, "cannot pass a large command");
    return steal_fd(&fd);
}

/* 0, -1 with `err` set, or -EPIPE if nobody is there to take it. */
static int send_request(int sock, const struct command_request *request, struct error *err)
{
    struct lane_exec head = {.type = LANE_EXEC,
                             .rows = request->rows,
                             .columns = request->columns,
                             .flags = (request->terminal ? LANE_PTY : 0u) |
                                      (request->make_cwd ? LANE_MAKE_CWD : 0u)};
    int fds[4];
    size_t count = 0;
    size_t size = measure(request, &head);
    if (head.argc == 0 || !request->argv[0][0])
        return error_set(err, ERROR_INVALID, "the command is empty");
    if (size == 0)
        return error_set(err, ERROR_LIMIT, "arguments and environment exceed 2 MiB");
    head.size = (uint32_t)size;
    cleanup_free char *data = xmalloc(sizeof head + size);
    cleanup_close int memfd = -1;
    pack(request, data + sizeof head);
    for (size_t i = 0; i < 3 && !request->terminal; i++)
        fds[count++] = request->fds[i];
    if (size > LANE_INLINE_MAX) {
        memfd = strings_memfd(data + sizeof head, size, err);
        if (memfd < 0)
            return -1;
        fds[count++] = memfd;
        head.flags |= LANE_IN_MEMFD;
        size = 0;
    }
    memcpy(data, &head, sizeof head);
    ssize_t n = fd_send(sock, data, sizeof head + size, fds, count);
    return n < 0 ? -EPIPE : 0;
}

static int explain_start(const struct lane_started *started, const struct command_request *request,
                         struct error *err)
{
    const char *what = started->stage == LANE_STAGE_CWD ? request->cwd : request->argv[0];
    if (started->stage == LANE_STAGE_REQUEST)
        return error_errno(err, started->errnum, "the launcher refused the request");
    if (started->stage == LANE_STAGE_PTY)
        return error_errno(err, started->errnum, "cannot open a terminal inside");
    if (started->stage == LANE_STAGE_FORK)
        return error_errno(err, started->errnum, "cannot start a process inside");
    error_errno(err, started->errnum, "%s '%.200s'",
                started->stage == LANE_STAGE_CWD ? "cannot enter" : "cannot run", what);
    if (!err)
        return -1;
    if (started->errnum == ENOENT) {
        err->code = ERROR_NOT_FOUND;
        if (started->stage == LANE_STAGE_CWD)
            error_hint(err, "the directory does not exist inside the sandbox");
        else
            error_hint(err,
                       "no such program inside the sandbox, or its interpreter is missing; the "
                       "sandbox sees /usr of the host, and what --ro-path and --mount add");
    } else if (started->errnum == EACCES) {
        err->code = ERROR_DENIED;
    }
    return -1;
}

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
    struct lane_started started;
    struct cgroup_usage before = {0};
    int terminal = -1;
    if (lane->group.version != CGROUP_NONE) {
        cgroup_peak_reset(&lane->group);
        cgroup_usage_read(&lane->group, &before);
    }
    uint64_t start = now_ns();
    int rc = send_request(lane->sock, request, err);
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
        return explain_start(&started, request, err);
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
        command->memory_until_ns = now_ns() + MEMORY_KILL_NS;
    if (cgroup_usage_read(&lane_of(command)->group, &usage) < 0)
        return false;
    if (usage.oom_kills == command->before.oom_kills)
        return now_ns() < command->memory_until_ns;
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

static void take_denied(struct command *command, struct outcome *outcome)
{
    /* A command may be over before anybody asked whether the session is up. */
    struct denied_page *page =
        sandbox_await(command->sandbox, NULL) < 0 ? NULL : command->sandbox->denied;
    for (size_t i = 0; page && i < DENIED_WORDS; i++)
        outcome->denied[i] =
            __atomic_exchange_n(&page->lanes[command->lane][i], 0, __ATOMIC_SEQ_CST);
}

static bool any_denied(const struct outcome *outcome)
{
    for (size_t i = 0; i < DENIED_WORDS; i++) {
        if (outcome->denied[i])
            return true;
    }
    return false;
}

static bool is_full(const struct sandbox_space *space)
{
    uint64_t part = space->bytes / FULL_PART;
    if (part < FULL_BYTES_MIN)
        part = FULL_BYTES_MIN;
    if (part > FULL_BYTES_MAX)
        part = FULL_BYTES_MAX;
    return space->bytes_free < part || space->inodes_free == 0;
}

static bool something_is_full(struct sandbox *sandbox)
{
    struct sandbox_space space;
    for (size_t i = 0; i < sandbox->bounded.count && !sandbox->ended; i++) {
        if (sandbox_space(sandbox, sandbox->bounded.items[i], &space, NULL) == 0 && is_full(&space))
            return true;
    }
    return false;
}

/* The strongest explanation first. A command that succeeded needs none. */
static enum cause find_cause(struct command *command, const struct outcome *outcome,
                             const struct cgroup_usage *usage)
{
    if (usage->oom_kills > command->before.oom_kills)
        return CAUSE_OOM;
    if (outcome->timed_out)
        return CAUSE_TIMEOUT;
    if (outcome->exit_code == 0)
        return CAUSE_EXITED;
    if (usage->pids_denied > command->before.pids_denied)
        return CAUSE_PIDS_LIMIT;
    if (something_is_full(command->sandbox))
        return CAUSE_DISK_QUOTA;
    if (any_denied(outcome))
        return CAUSE_DENIED_SYSCALL;
    return outcome->signal ? CAUSE_SIGNAL : CAUSE_EXITED;
}

static void take_usage(const struct command *command, const struct cgroup_usage *usage,
                       struct outcome *outcome)
{
    if (usage->has_cpu && usage->cpu_us - command->before.cpu_us > outcome->cpu_us)
        outcome->cpu_us = usage->cpu_us - command->before.cpu_us;
    if (usage->has_peak) {
        /* The kernel charges a lane in batches before the session's limit is asked. */
        outcome->peak_bytes = usage->peak_bytes < command->sandbox->memory_bytes
                                  ? usage->peak_bytes
                                  : command->sandbox->memory_bytes;
        outcome->peak_of_tree = true;
    }
}

static void take_exit(const struct lane_exited *exited, struct outcome *outcome)
{
    outcome->cpu_us = exited->cpu_us;
    outcome->peak_bytes = exited->max_rss;
    if (WIFEXITED(exited->status))
        outcome->exit_code = WEXITSTATUS(exited->status);
    else if (WIFSIGNALED(exited->status))
        outcome->signal = WTERMSIG(exited->status);
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
    outcome.wall_us = (now_ns() - command->started_ns) / 1000;
    if (told)
        take_exit(&exited, &outcome);
    else
        outcome.signal = SIGKILL;
    if (lane->group.version != CGROUP_NONE &&
        (command->killed || cgroup_usage_read(&lane->group, &usage) == 0))
        take_usage(command, &usage, &outcome);
    take_denied(command, &outcome);
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
