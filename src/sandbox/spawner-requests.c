/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner is asked for, one function a request. Each is answered once; SPAWNER_DESTROY
   when the session's init has been reaped, all others at once. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/path.h"
#include "sandbox/roots.h"
#include "sandbox/spawner-internal.h"
#include "sandbox/syscalls.h"

#define ANSWER_SEC 10

struct spawned *spawned_find(struct spawner *spawner, uint32_t number)
{
    struct spawned *session = spawner->sessions;
    while (session && session->number != number)
        session = session->next;
    return session;
}

void spawned_drop(struct spawner *spawner, struct spawned *session)
{
    struct spawned **at = &spawner->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    spawned_release(spawner, session);
}

void spawner_reply_error(struct spawner_reply *reply, const struct error *err)
{
    reply->code = err->code;
    reply->errnum = err->errnum;
    memcpy(reply->message, err->message, sizeof reply->message);
    memcpy(reply->hint, err->hint, sizeof reply->hint);
}

void spawner_send(struct spawner *spawner, const struct spawner_reply *reply, int *fds,
                  size_t count)
{
    /* The words only when there are any. */
    bool words = reply->code || reply->marker_size > 0 || reply->message[0];
    size_t size = words ? sizeof *reply : offsetof(struct spawner_reply, message);
    fd_send(spawner->sock, reply, size, fds, count);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

struct spawner_reply spawner_reply_to(const struct spawner_request *request)
{
    return (struct spawner_reply){.type = SPAWNER_REPLY,
                                  .request = request->type,
                                  .tag = request->tag,
                                  .session = request->session,
                                  .lane = request->lane};
}

static void do_create(struct spawner *spawner, const struct spawner_request *request,
                      const unsigned char *data, size_t size)
{
    struct spawner_reply reply = spawner_reply_to(request);
    struct wire_reader reader = {.data = data, .left = size};
    struct sandbox_spec spec = {0};
    struct error err = ERROR_INIT;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    struct spawned *session = NULL;
    if (sandbox_spec_decode(&reader, &spec, &err) < 0) {
        spawner_reply_error(&reply, &err);
        spawner_send(spawner, &reply, fds, count);
        return;
    }
    /* The host's resolvers may have changed since the last time. */
    if (spec.network == NETWORK_ON)
        facts_gather_network(&spawner->facts);
    if (spawner_create(spawner, &spec, &reply, fds, &count, &session, &err) < 0)
        spawner_reply_error(&reply, &err);
    if (session) {
        session->next = spawner->sessions;
        spawner->sessions = session;
        reply.session = session->number;
    }
    spawner_send(spawner, &reply, fds, count);
    sandbox_spec_release(&spec);
}

static int make_lane(struct spawner *spawner, const struct spawned *session, int lane,
                     uint64_t memory, struct spawner_reply *reply, int *fds, size_t *count,
                     struct error *err)
{
    struct cgroup_entry entry;
    if (lane < 0 || lane >= LANE_MAX || session->single)
        return error_set(err, ERROR_INVALID, "no such lane can be made");
    if (!session->has_group)
        return memory && memory != SPAWNER_MEMORY_AS_IS
                   ? error_set(err, ERROR_UNSUPPORTED,
                               "a memory limit of its own needs control groups")
                   : 0;
    if (cgroup_lane_create(spawner->cgroups, session->group, lane, err) < 0 ||
        (memory != SPAWNER_MEMORY_AS_IS &&
         cgroup_lane_limit(spawner->cgroups, session->group, lane, memory, err) < 0) ||
        cgroup_entry_open(spawner->cgroups, session->group, lane, &entry, err) < 0)
        return -1;
    for (size_t i = 0; i < CGROUP_ENTRY_MAX; i++) {
        if (entry.fds[i] >= 0)
            fds[(*count)++] = entry.fds[i];
    }
    reply->entry_fds = (uint32_t)*count;
    spawner_lane_fds(spawner, session, lane, reply, fds, count);
    return 0;
}

static void do_lane(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawner_reply reply = spawner_reply_to(request);
    struct error err = ERROR_INIT;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    const struct spawned *session = spawned_find(spawner, request->session);
    if (!session)
        error_set(&err, ERROR_GONE, "the session has ended");
    else
        make_lane(spawner, session, request->lane, request->memory, &reply, fds, &count, &err);
    if (err.code)
        spawner_reply_error(&reply, &err);
    spawner_send(spawner, &reply, fds, count);
}

static void do_kill(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawner_reply reply = spawner_reply_to(request);
    struct error err = ERROR_INIT;
    struct spawned *session = spawned_find(spawner, request->session);
    if (!session || !session->has_group || session->single || request->lane < 0 ||
        request->lane >= LANE_MAX)
        error_set(&err, ERROR_GONE, "no such lane");
    else
        cgroup_lane_kill(spawner->cgroups, session->group, request->lane, &err);
    if (err.code)
        spawner_reply_error(&reply, &err);
    spawner_send(spawner, &reply, NULL, 0);
}

void spawned_kill(const struct spawned *session)
{
    if (session->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, session->pidfd, SIGKILL, NULL, 0);
    else
        kill(session->pid, SIGKILL);
}

static void do_destroy(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawned *session = spawned_find(spawner, request->session);
    if (session && session->state != SESSION_DEAD) {
        session->state = SESSION_ENDING;
        session->destroy_tag = request->tag;
        spawned_kill(session);
        return; /* the reply follows when it is gone */
    }
    if (session)
        spawned_drop(spawner, session);
    struct spawner_reply reply = spawner_reply_to(request);
    spawner_send(spawner, &reply, NULL, 0);
}

static void do_adopt(struct spawner *spawner, const struct spawner_adopt *request)
{
    struct spawner_reply reply = spawner_reply_to(&request->head);
    struct error err = ERROR_INIT;
    struct spawned *session;
    int control = -1;
    if (spawner_adopt(spawner, request, &session, &control, &err) < 0) {
        spawner_reply_error(&reply, &err);
    } else {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = session->number};
        epoll_ctl(spawner->events, EPOLL_CTL_ADD, session->pidfd, &event);
        session->next = spawner->sessions;
        spawner->sessions = session;
        reply.session = session->number;
        reply.host_pid = session->pid;
        memcpy(reply.group, session->has_group ? session->group : "",
               session->has_group ? sizeof reply.group : 1);
    }
    spawner_send(spawner, &reply, &control, control >= 0);
}

static void do_prune(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawner_reply reply = spawner_reply_to(request);
    const struct spawned *session = spawned_find(spawner, request->session);
    if (session)
        spawner_prune(spawner, session, request->lanes);
    spawner_send(spawner, &reply, NULL, 0);
}

static void do_sweep(struct spawner *spawner, const struct spawner_request *request)
{
    const struct facts *facts = &spawner->facts;
    struct spawner_reply reply = spawner_reply_to(request);
    struct error err = ERROR_INIT;
    spawner_sweep(spawner);
    if (spawner_try_namespaces(&err) < 0)
        spawner_reply_error(&reply, &err);
    if (facts->limits_memory && facts->limits_cpu && facts->limits_pids)
        reply.cgroup = facts->cgroup;
    spawner_send(spawner, &reply, NULL, 0);
}

static struct spawner_reply machine_reply(const struct spawner *spawner,
                                          const struct spawner_request *request)
{
    const struct facts *facts = &spawner->facts;
    struct spawner_reply reply = spawner_reply_to(request);
    const char *fix = NULL;
    const char *no_network = net_unavailable(&fix);
    reply.cgroup = facts->cgroup;
    reply.can =
        (facts->root ? SPAWNER_CAN_RANGES : 0) | (facts->limits_memory ? SPAWNER_CAN_MEMORY : 0) |
        (facts->limits_cpu ? SPAWNER_CAN_CPU : 0) | (facts->limits_pids ? SPAWNER_CAN_PIDS : 0) |
        (no_network ? 0 : SPAWNER_CAN_NETWORK);
    if (no_network)
        snprintf(reply.message, sizeof reply.message, "%s", no_network);
    return reply;
}

static _Noreturn void answer_machine(struct spawner *spawner, const struct spawner_request *request)
{
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(ANSWER_SEC);
    struct spawner_reply reply = machine_reply(spawner, request);
    spawner_send(spawner, &reply, NULL, 0);
    _exit(0);
}

void spawner_answered_beside(struct spawner *spawner, int status)
{
    struct error err = ERROR_INIT;
    struct spawner_reply reply = {
        .type = SPAWNER_REPLY, .request = SPAWNER_MACHINE, .tag = spawner->answering_tag};
    spawner->answering = 0;
    if (status == 0)
        return;
    error_set(&err, ERROR_SYSTEM, "what this machine can do could not be found out");
    spawner_reply_error(&reply, &err);
    spawner_send(spawner, &reply, NULL, 0);
}

/* Answered by a process of its own: the library that it takes to find out about the network is
   nothing to be copied into each session that is made from here. There is one at a time: a caller
   who asks again has its answer, and what gave it ends in this moment. */
static void do_machine(struct spawner *spawner, const struct spawner_request *request)
{
    struct error err = ERROR_INIT;
    int status;
    if (spawner->answering && waitpid(spawner->answering, &status, 0) > 0)
        spawner_answered_beside(spawner, status);
    pid_t pid = fork();
    if (pid == 0)
        answer_machine(spawner, request);
    if (pid > 0) {
        spawner->answering = pid;
        spawner->answering_tag = request->tag;
        return;
    }
    struct spawner_reply reply = spawner_reply_to(request);
    error_errno(&err, errno, "cannot fork");
    spawner_reply_error(&reply, &err);
    spawner_send(spawner, &reply, NULL, 0);
}

static void do_usage(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawner_reply reply = spawner_reply_to(request);
    struct cgroup_session_usage usage;
    struct error err = ERROR_INIT;
    const struct spawned *session = spawned_find(spawner, request->session);
    if (!session)
        error_set(&err, ERROR_GONE, "the session has ended");
    else if (!session->has_group)
        error_set(&err, ERROR_UNSUPPORTED, "the session has no control group to tell its usage by");
    else if (cgroup_session_usage(spawner->cgroups, session->group, &usage, &err) == 0)
        reply.usage = (struct spawner_usage){.cpu_us = usage.cpu_us,
                                             .memory_bytes = usage.memory_bytes,
                                             .processes = usage.processes};
    if (err.code)
        spawner_reply_error(&reply, &err);
    spawner_send(spawner, &reply, NULL, 0);
}

static void do_marker(struct spawner *spawner, const struct spawner_marker *request)
{
    struct spawner_reply reply = spawner_reply_to(&request->head);
    struct error err = ERROR_INIT;
    size_t size;
    cleanup_free char *directory = NULL;
    if (!memchr(request->name, '\0', sizeof request->name) ||
        !memchr(request->directory, '\0', sizeof request->directory))
        error_set(&err, ERROR_INVALID, "a name that does not end");
    else
        directory = path_normalise(request->directory, &err);
    if (directory && roots_read_marker(&spawner->config->policy, directory, request->name,
                                       reply.marker, &size, &err) == 0)
        reply.marker_size = (uint32_t)size;
    if (err.code)
        spawner_reply_error(&reply, &err);
    spawner_send(spawner, &reply, NULL, 0);
}

static void do_store(struct spawner *spawner, const struct spawner_store *request)
{
    struct spawner_reply reply = spawner_reply_to(&request->head);
    struct roots_store store = {
        .tenant = request->tenant,
        .owner = spawner->config->front,
        .known = request->known != 0,
        .limit = {.bytes = request->bytes, .inodes = request->inodes},
    };
    struct error err = ERROR_INIT;
    cleanup_free char *root = NULL;
    if (!memchr(request->tenant, '\0', sizeof request->tenant) ||
        !memchr(request->root, '\0', sizeof request->root))
        error_set(&err, ERROR_INVALID, "a name that does not end");
    else if (geteuid() != 0)
        error_set(&err, ERROR_UNSUPPORTED, "only root can set a quota on a directory");
    else
        root = path_normalise(request->root, &err);
    store.root = root;
    if (root)
        roots_bound_store(&spawner->config->policy, &store, &err);
    if (err.code)
        spawner_reply_error(&reply, &err);
    spawner_send(spawner, &reply, NULL, 0);
}

/* What has only a head. */
static const struct {
    uint32_t type;
    void (*run)(struct spawner *spawner, const struct spawner_request *request);
} handlers[] = {
    {SPAWNER_LANE, do_lane},       {SPAWNER_KILL, do_kill},   {SPAWNER_DESTROY, do_destroy},
    {SPAWNER_PRUNE, do_prune},     {SPAWNER_SWEEP, do_sweep}, {SPAWNER_USAGE, do_usage},
    {SPAWNER_MACHINE, do_machine},
};

bool spawner_serve_request(struct spawner *spawner)
{
    static union {
        struct spawner_request request;
        struct spawner_adopt adopt;
        struct spawner_marker marker;
        struct spawner_store store;
        unsigned char data[sizeof(struct spawner_request) + SPEC_WIRE_MAX];
    } in;
    ssize_t size = fd_receive(spawner->sock, &in, sizeof in, NULL, NULL, 0);
    if (size == 0 || (size < 0 && !fd_is_bad_message(size)))
        return false;
    if (size < (ssize_t)sizeof in.request)
        return true;
    size_t rest = (size_t)size - sizeof in.request;
    if (in.request.type == SPAWNER_CREATE)
        do_create(spawner, &in.request, in.data + sizeof in.request, rest);
    else if (in.request.type == SPAWNER_ADOPT && size == sizeof in.adopt)
        do_adopt(spawner, &in.adopt);
    else if (in.request.type == SPAWNER_MARKER && size == sizeof in.marker)
        do_marker(spawner, &in.marker);
    else if (in.request.type == SPAWNER_STORE && size == sizeof in.store)
        do_store(spawner, &in.store);
    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++) {
        if (handlers[i].type == in.request.type && rest == 0)
            handlers[i].run(spawner, &in.request);
    }
    return true;
}
