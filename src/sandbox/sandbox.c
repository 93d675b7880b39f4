/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions from the caller's side: made, given lanes, asked for files, ended. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "sandbox/engine-internal.h"
#include "sandbox/peer.h"

void lane_close(struct lane *lane)
{
    if (lane->state == LANE_CLOSED)
        return;
    fd_clear(&lane->sock);
    cgroup_lane_fds_close(&lane->group);
    lane->state = LANE_CLOSED;
}

bool lane_is_empty(const struct lane *lane)
{
    struct cgroup_usage usage;
    if (lane->group.version == CGROUP_NONE)
        return true;
    return cgroup_usage_read(&lane->group, &usage) == 0 && usage.processes <= 1;
}

#define INIT_TIMEOUT_MS 10000

/* An answer of init's. It is the sandbox's process, and may have been made deaf: then the session
 * is lost. */
static ssize_t receive_answer(struct sandbox *sandbox, void *data, size_t size, int *ret_fd,
                              size_t *fd_count)
{
    struct pollfd polled = {.fd = sandbox->control, .events = POLLIN};
    int ready;
    do {
        ready = poll(&polled, 1, INIT_TIMEOUT_MS);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) {
        fd_clear(&sandbox->control);
        return -ETIMEDOUT;
    }
    return fd_receive(sandbox->control, data, size, ret_fd, fd_count, 0);
}

int sandbox_await(struct sandbox *sandbox, struct error *err)
{
    union {
        uint32_t type;
        struct init_ready ready;
        struct init_failed failed;
    } message;
    int fd = -1;
    size_t count = 1;
    if (sandbox->ready)
        return 0;
    sandbox->failed = true; /* unless it says otherwise */
    ssize_t n = fd_receive(sandbox->control, &message, sizeof message, &fd, &count, 0);
    cleanup_close int page = n > 0 && count == 1 ? fd : -1;
    if (n == sizeof message.failed && message.type == INIT_FAILED)
        return peer_init_failed(&message.failed, err);
    if (n != sizeof message.ready || message.type != INIT_READY || page < 0)
        return error_set(err, ERROR_GONE, "the session's init ended before it was ready");
    sandbox->denied = peer_map_denied(page);
    sandbox->failed = false;
    sandbox->ready = true;
    return 0;
}

static int ask_create(struct engine *engine, const struct sandbox_spec *spec,
                      struct spawner_reply *ret, int *ret_fds, size_t *fd_count, struct error *err)
{
    const struct spawner_request head = {.type = SPAWNER_CREATE};
    unsigned char *data = engine->request;
    struct wire_writer writer = {.data = data + sizeof head, .capacity = SPEC_WIRE_MAX};
    memcpy(data, &head, sizeof head);
    sandbox_spec_encode(spec, &writer);
    if (writer.overflow)
        return error_set(err, ERROR_LIMIT, "the spec is too large");
    return engine_call(engine, data, sizeof head + writer.size, NULL, ret, ret_fds, fd_count, err);
}

int sandbox_begin(struct engine *engine, const struct sandbox_spec *spec, struct sandbox **ret,
                  struct error *err)
{
    struct spawner_reply reply;
    int fds[FD_PASS_MAX];
    size_t count = ARRAY_SIZE(fds);
    if (sandbox_spec_check(spec, err) < 0 || ask_create(engine, spec, &reply, fds, &count, err) < 0)
        return -1;
    if (count < 2) {
        while (count > 0)
            close(fds[--count]);
        return error_set(err, ERROR_PROTOCOL, "the spawner sent no sockets");
    }
    struct sandbox *sandbox = xcalloc(1, sizeof *sandbox);
    sandbox->engine = engine;
    sandbox->number = reply.session;
    sandbox->host_pid = reply.host_pid;
    sandbox->single = spec->single;
    sandbox->memory_bytes = spec->memory_bytes;
    sandbox->control = fds[0];
    sandbox->next = engine->sandboxes;
    engine->sandboxes = sandbox;
    sandbox->lanes[0].sock = fds[1];
    sandbox->lanes[0].state = LANE_IDLE;
    sandbox->lanes[0].group = peer_lane_group(&reply, fds + 2, count - 2);
    sandbox_spec_bounded(spec, &sandbox->bounded);
    if (reply.message[0])
        sandbox->notes = xstrndup(reply.message, sizeof reply.message - 1);
    *ret = sandbox;
    return 0;
}

int sandbox_create(struct engine *engine, const struct sandbox_spec *spec, struct sandbox **ret,
                   struct error *err)
{
    struct sandbox *sandbox;
    if (sandbox_begin(engine, spec, &sandbox, err) < 0)
        return -1;
    if (sandbox_await(sandbox, err) < 0) {
        sandbox_destroy(sandbox, NULL);
        return -1;
    }
    *ret = sandbox;
    return 0;
}

bool sandbox_failed(const struct sandbox *sandbox)
{
    return sandbox->failed;
}

const char *sandbox_notes(const struct sandbox *sandbox)
{
    return sandbox->notes ? sandbox->notes : "";
}

int sandbox_destroy(struct sandbox *sandbox, struct error *err)
{
    struct engine *engine = sandbox->engine;
    const struct spawner_request request = {.type = SPAWNER_DESTROY, .session = sandbox->number};
    struct spawner_reply reply;
    int rc = sandbox->destroyed
                 ? 0
                 : engine_call(engine, &request, sizeof request, NULL, &reply, NULL, NULL, err);
    sandbox_forget(sandbox);
    return rc;
}

void sandbox_forget(struct sandbox *sandbox)
{
    struct sandbox **at = &sandbox->engine->sandboxes;
    while (*at != sandbox)
        at = &(*at)->next;
    *at = sandbox->next;
    for (size_t i = 0; i < LANE_MAX; i++)
        lane_close(&sandbox->lanes[i]);
    fd_clear(&sandbox->control);
    if (sandbox->denied)
        munmap(sandbox->denied, sizeof *sandbox->denied);
    strings_release(&sandbox->bounded);
    free(sandbox->notes);
    free(sandbox);
}

pid_t sandbox_host_pid(const struct sandbox *sandbox)
{
    return sandbox->host_pid;
}

/* The lane's groups come from the spawner, its launcher from init, which is handed the way into
 * them. */
static int open_lane(struct sandbox *sandbox, int index, struct error *err)
{
    const struct spawner_request request = {
        .type = SPAWNER_LANE, .session = sandbox->number, .lane = index};
    struct init_lane message = {.type = INIT_LANE, .lane = (uint32_t)index};
    struct lane *lane = &sandbox->lanes[index];
    struct spawner_reply reply;
    int fds[1 + FD_PASS_MAX];
    size_t count = FD_PASS_MAX;
    int pair[2];
    if (sandbox_await(sandbox, err) < 0 || engine_call(sandbox->engine, &request, sizeof request,
                                                       NULL, &reply, fds + 1, &count, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        pair[0] = pair[1] = -1;
    size_t entries = reply.entry_fds < count ? reply.entry_fds : count;
    fds[0] = pair[1];
    ssize_t n = fd_send(sandbox->control, &message, sizeof message, fds, 1 + entries);
    lane->group = peer_lane_group(&reply, fds + 1 + entries, count - entries);
    for (size_t i = 0; i <= entries; i++)
        fd_clear(&fds[i]);
    if (n > 0)
        n = receive_answer(sandbox, &message, sizeof message, NULL, NULL);
    if (n != sizeof message || message.type != INIT_LANE || message.errnum) {
        cgroup_lane_fds_close(&lane->group);
        fd_clear(&pair[0]);
        if (n == sizeof message && message.errnum)
            return error_errno(err, message.errnum, "the session cannot open another lane");
        return error_set(err, ERROR_GONE, "the session has ended");
    }
    lane->sock = pair[0];
    lane->state = LANE_IDLE;
    return 0;
}

int sandbox_take_lane(struct sandbox *sandbox, struct error *err)
{
    int closed = -1;
    for (int i = 0; i < LANE_MAX; i++) {
        struct lane *lane = &sandbox->lanes[i];
        if (lane->state == LANE_LINGERING && lane_is_empty(lane))
            lane->state = LANE_IDLE;
        if (lane->state == LANE_IDLE)
            return i;
        if (lane->state == LANE_CLOSED && closed < 0)
            closed = i;
    }
    if (closed < 0)
        return error_set(err, ERROR_LIMIT, "more than %d commands at once in one session",
                         LANE_MAX);
    return open_lane(sandbox, closed, err) < 0 ? -1 : closed;
}

static int ask_init(struct sandbox *sandbox, uint32_t type, const char *path, uint32_t flags,
                    uint32_t mode, void *reply, size_t size, int *ret_fd, struct error *err)
{
    struct {
        struct init_open head;
        char path[INIT_PATH_MAX];
    } message;
    size_t length = strlen(path) + 1;
    size_t count = ret_fd ? 1 : 0;
    if (length > sizeof message.path)
        return error_set(err, ERROR_INVALID, "path too long");
    if (sandbox_await(sandbox, err) < 0)
        return -1;
    message.head = (struct init_open){.type = type,
                                      .request = ++sandbox->requests,
                                      .flags = flags,
                                      .mode = mode,
                                      .path_size = (uint32_t)length};
    memcpy(message.path, path, length);
    if (fd_send(sandbox->control, &message, sizeof message.head + length, NULL, 0) < 0 ||
        receive_answer(sandbox, reply, size, ret_fd, &count) != (ssize_t)size)
        return error_set(err, ERROR_GONE, "the session has ended");
    return (int)count;
}

int sandbox_open(struct sandbox *sandbox, const char *path, uint32_t flags, uint32_t mode,
                 int *ret_fd, struct error *err)
{
    struct init_reply reply;
    struct stat st;
    int fd = -1;
    int count = ask_init(sandbox, INIT_OPEN, path, flags, mode, &reply, sizeof reply, &fd, err);
    if (count < 0)
        return -1;
    cleanup_close int opened = count == 1 ? fd : -1;
    if (reply.type != INIT_REPLY || reply.request != sandbox->requests)
        return error_set(err, ERROR_PROTOCOL, "unexpected answer from inside");
    if (reply.errnum) {
        error_errno(err, reply.errnum, "cannot open '%.200s'", path);
        if (err && reply.errnum == ENOENT)
            err->code = ERROR_NOT_FOUND;
        return -1;
    }
    /* Looked at once more out here: init is the sandbox's. */
    if (opened < 0 || fstat(opened, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, ERROR_PROTOCOL, "'%.200s' is not a regular file", path);
    *ret_fd = steal_fd(&opened);
    return 0;
}

int sandbox_space(struct sandbox *sandbox, const char *path, struct sandbox_space *ret,
                  struct error *err)
{
    struct init_statfs reply;
    if (ask_init(sandbox, INIT_STATFS, path, 0, 0, &reply, sizeof reply, NULL, err) < 0)
        return -1;
    if (reply.type != INIT_STATFS || reply.request != sandbox->requests)
        return error_set(err, ERROR_PROTOCOL, "unexpected answer from inside");
    if (reply.errnum)
        return error_errno(err, reply.errnum, "cannot look at '%.200s'", path);
    *ret = sandbox_space_from(&reply);
    return 0;
}
