/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's end of the spawner's socket. */
#include "sandbox/engine.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "sandbox/engine-internal.h"
#include "sandbox/peer.h"

int engine_open(struct engine **ret, const struct spawner_config *config, struct error *err)
{
    int sock;
    pid_t pid;
    if (spawner_fork(config, &sock, &pid, err) < 0)
        return -1;
    struct engine *engine = xcalloc(1, sizeof *engine);
    engine->sock = sock;
    engine->pid = pid;
    /* A spec with many mounts is larger than the default buffer takes in one message. */
    int size = SPEC_WIRE_MAX * 2;
    setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    *ret = engine;
    return 0;
}

void engine_leave(struct engine *engine)
{
    if (!engine)
        return;
    while (engine->sandboxes)
        sandbox_forget(engine->sandboxes);
    close(engine->sock);
    free(engine);
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    pid_t pid = engine->pid;
    while (engine->sandboxes)
        sandbox_destroy(engine->sandboxes, NULL);
    engine_leave(engine);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void mark_ended(struct engine *engine, uint32_t number, bool of_memory)
{
    for (struct sandbox *sandbox = engine->sandboxes; sandbox; sandbox = sandbox->next) {
        if (sandbox->number == number) {
            sandbox->ended = true;
            sandbox->ended_of_memory = of_memory;
        }
    }
}

void engine_listen(struct engine *engine, int timeout_ms)
{
    struct spawner_reply reply;
    struct pollfd polled = {.fd = engine->sock, .events = POLLIN};
    if (engine->gone || poll(&polled, 1, timeout_ms) <= 0)
        return;
    ssize_t n = fd_receive(engine->sock, &reply, sizeof reply, NULL, NULL, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && n != -EAGAIN))
        engine->gone = true;
    else if (n >= (ssize_t)offsetof(struct spawner_reply, message) && reply.type == SPAWNER_ENDED)
        mark_ended(engine, reply.session, reply.lane == 1);
}

int engine_call(struct engine *engine, const void *request, size_t size, const int *pass_fd,
                struct spawner_reply *ret, int *ret_fds, size_t *fd_count, struct error *err)
{
    const struct spawner_request *head = request;
    size_t room = fd_count ? *fd_count : 0;
    ssize_t n = fd_send(engine->sock, request, size, pass_fd, pass_fd != NULL);
    if (n < 0)
        return error_errno(err, (int)-n, "the spawner cannot be reached");
    for (;;) {
        size_t count = room;
        *ret = (struct spawner_reply){0};
        n = fd_receive(engine->sock, ret, sizeof *ret, ret_fds, &count, 0);
        if (n <= 0) {
            engine->gone = true;
            return error_set(err, ERROR_GONE, "the spawner has ended");
        }
        if ((size_t)n < offsetof(struct spawner_reply, message))
            return error_set(err, ERROR_PROTOCOL, "malformed reply of the spawner");
        if (ret->type == SPAWNER_ENDED) {
            mark_ended(engine, ret->session, ret->lane == 1);
            continue;
        }
        if (ret->type != SPAWNER_REPLY || ret->request != head->type)
            return error_set(err, ERROR_PROTOCOL, "unexpected reply of the spawner");
        if (fd_count)
            *fd_count = count;
        return ret->code ? peer_spawner_failed(ret, err) : 0;
    }
}
