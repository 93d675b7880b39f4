/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a group: listing, killing, waiting for and moving them.

   A pid read from cgroup.procs may belong to somebody else a moment later. So a pidfd is opened for
   each pid of a first listing, and used only if a second listing, made after that, has the pid too:
   then either the pidfd is the member's, or its process is dead and the signal goes nowhere.

   v1 keeps a listing for a second and gives it to every further read of the same open file, so each
   listing opens the file anew. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>

#include "core/clock.h"
#include "core/fd.h"
#include "core/mem.h"

#define BATCH        256
#define PAUSE_MIN_US 100
#define PAUSE_MAX_US 10000

struct members {
    pid_t *pids;
    size_t count;
    size_t room;
};

struct batch {
    size_t count;
    const pid_t *pids;
    int pidfds[BATCH];
    bool confirmed[BATCH];
};

static int milliseconds_left(uint64_t deadline)
{
    uint64_t now = clock_monotonic_ms();
    return now < deadline ? (int)(deadline - now) : 0;
}

/* Calls `visit` for each member until it returns false. */
static int each_member(int dir, const char *path, bool (*visit)(pid_t pid, void *data), void *data)
{
    char file[CGROUP_PATH_MAX + NAME_MAX];
    char text[4096];
    struct cgroup_pid_reader reader = {0};
    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    cleanup_close int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n = read(fd, text, sizeof text);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (ssize_t i = 0; i < n; i++) {
            pid_t pid;
            if (cgroup_parse_pid(&reader, text[i], &pid) && !visit(pid, data))
                return 0;
        }
    }
}

/* The kernel's limit on pids bounds this at 16 MiB. */
static bool members_add(pid_t pid, void *data)
{
    struct members *members = data;
    if (members->count == members->room) {
        members->room = members->room ? members->room * 2 : 32;
        members->pids = xreallocarray(members->pids, members->room, sizeof *members->pids);
    }
    members->pids[members->count++] = pid;
    return true;
}

static bool batch_confirm(pid_t pid, void *data)
{
    struct batch *batch = data;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->pids[i] == pid && batch->pidfds[i] >= 0)
            batch->confirmed[i] = true;
    return true;
}

static void batch_close(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        fd_clear(&batch->pidfds[i]);
}

/* -errno if none could be opened for another reason than that it is gone. */
static int batch_open(int dir, const char *path, struct batch *batch)
{
    bool opened = false;
    int failure = 0;
    for (size_t i = 0; i < batch->count; i++) {
        batch->confirmed[i] = false;
        batch->pidfds[i] = pidfd_open(batch->pids[i], 0);
        opened |= batch->pidfds[i] >= 0;
        if (batch->pidfds[i] < 0 && errno != ESRCH)
            failure = -errno;
    }
    if (!opened)
        return failure;
    int result = each_member(dir, path, batch_confirm, batch);
    if (result < 0)
        batch_close(batch);
    return result;
}

/* Waits for the confirmed ones; returns how many have exited. */
static size_t batch_wait(const struct batch *batch, uint64_t deadline)
{
    size_t exited = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct pollfd wait = {.fd = batch->pidfds[i], .events = POLLIN};
        if (!batch->confirmed[i])
            continue;
        while (poll(&wait, 1, milliseconds_left(deadline)) < 0 && errno == EINTR)
            ;
        exited += (wait.revents & POLLIN) != 0;
    }
    return exited;
}

/* For what nothing announces: the kernel's last steps after a member's exit. */
static void pause_a_little(unsigned *pause_us)
{
    *pause_us = *pause_us == 0 ? PAUSE_MIN_US : *pause_us * 2;
    if (*pause_us > PAUSE_MAX_US)
        *pause_us = PAUSE_MAX_US;
    struct timespec time = {.tv_nsec = (long)*pause_us * 1000};
    nanosleep(&time, NULL);
}

/* All of them get the signal before any is waited for: those that run on would keep the CPUs from
   those that are to exit. It is enough to wait for the last ones, since the caller comes back. */
static int signal_members(int dir, const char *path, const struct members *members, int signal,
                          uint64_t deadline, size_t *ret_exited)
{
    for (size_t at = 0; at < members->count; at += BATCH) {
        bool last = members->count - at <= BATCH;
        struct batch batch = {.count = last ? members->count - at : BATCH,
                              .pids = members->pids + at};
        int result = batch_open(dir, path, &batch);
        if (result < 0)
            return result;
        for (size_t i = 0; i < batch.count; i++)
            if (signal != 0 && batch.confirmed[i])
                pidfd_send_signal(batch.pidfds[i], signal, NULL, 0);
        if (last)
            *ret_exited = batch_wait(&batch, deadline);
        batch_close(&batch);
    }
    return 0;
}

/* One round of kill (with signal 0: of waiting). Returns 1 if there were members, 0 if none. */
static int round_of(int dir, const char *path, int signal, uint64_t deadline, unsigned *pause_us)
{
    struct members members = {0};
    size_t exited = 0;
    int result = each_member(dir, path, members_add, &members);
    if (result == 0 && members.count > 0)
        result = signal_members(dir, path, &members, signal, deadline, &exited);
    size_t count = members.count;
    free(members.pids);
    if (result == -ENOENT || result == -ENODEV)
        return 0; /* the group itself is gone */
    if (result < 0 || count == 0)
        return result;
    if (exited == 0)
        pause_a_little(pause_us); /* all were gone before they could be watched, or out of reach */
    return 1;
}

int cgroup_procs_kill(int dir, const char *path, uint64_t deadline)
{
    unsigned pause_us = 0;
    for (;;) {
        int result = round_of(dir, path, SIGKILL, deadline, &pause_us);
        if (result <= 0)
            return result;
        if (clock_monotonic_ms() >= deadline)
            return -ETIMEDOUT;
    }
}

void cgroup_procs_wait(int dir, const char *path, uint64_t deadline, unsigned *pause_us)
{
    if (round_of(dir, path, 0, deadline, pause_us) <= 0)
        pause_a_little(pause_us);
}

struct move {
    int to;
    size_t moved;
    int result;
};

static bool move_member(pid_t pid, void *data)
{
    struct move *move = data;
    char text[16];
    int length = snprintf(text, sizeof text, "%d", (int)pid);
    if (write(move->to, text, (size_t)length) < 0 && errno != ESRCH)
        move->result = -errno;
    move->moved++;
    return move->result == 0;
}

int cgroup_procs_move(int dir, const char *to)
{
    char path[CGROUP_PATH_MAX];
    snprintf(path, sizeof path, "%s/cgroup.procs", to);
    cleanup_close int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* Members may fork while they are moved; a few rounds catch the children. */
    for (int i = 0; i < 8; i++) {
        struct move move = {.to = fd};
        int result = each_member(dir, ".", move_member, &move);
        if (result < 0 || move.result < 0)
            return result < 0 ? result : move.result;
        if (move.moved == 0)
            return 0;
    }
    return -EBUSY;
}
