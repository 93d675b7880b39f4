/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's loop: requests in, replies out, children reaped.

   It holds no descriptor of a session but, for a bounded number, that of its network namespace: a
   process that clones must not carry thousands of files along. Making a session ends with the
   process cloned; building its file system goes on in the child, so that one slow session holds up
   no other. */
#include "sandbox/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "core/path.h"
#include "sandbox/roots.h"
#include "sandbox/spawner-internal.h"
#include "sandbox/syscalls.h"

#ifndef BOX_LIBEXECDIR
#define BOX_LIBEXECDIR "/usr/local/libexec/boxd"
#endif

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

#define INIT_BINARY_MAX (4u * 1024 * 1024)

/* --- box-init as a sealed memfd: nobody, root included, can change what runs in later sessions
 * ------- */

static int open_init_binary(const char *given, struct error *err)
{
    char path[PATH_MAX];
    if (given) {
        int fd = open(given, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? error_errno(err, errno, "cannot open %s", given) : fd;
    }
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "/box-init");
    if (length > 0) {
        path[length] = '\0';
        char *slash = strrchr(path, '/');
        memcpy(slash, "/box-init", sizeof "/box-init");
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    int fd = open(BOX_LIBEXECDIR "/box-init", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    error_errno(err, errno, "cannot find box-init beside this program or in %s", BOX_LIBEXECDIR);
    return error_hint(err, "make install, or run box from the build directory");
}

static int load_init_binary(const char *given, struct error *err)
{
    static char data[64 * 1024];
    cleanup_close int from = open_init_binary(given, err);
    if (from < 0)
        return -1;
    cleanup_close int to = memfd_create("box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (to < 0 && errno == EINVAL) /* kernels before 6.3 do not know the flag */
        to = memfd_create("box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (to < 0)
        return error_errno(err, errno, "cannot make a memfd for box-init");
    size_t total = 0;
    ssize_t n;
    while ((n = read(from, data, sizeof data)) > 0) {
        total += (size_t)n;
        if (total > INIT_BINARY_MAX || fd_write_all(to, data, (size_t)n) < 0)
            return error_set(err, ERROR_LIMIT, "box-init is too large");
    }
    /* Not readable, so that the kernel keeps the process undumpable from its first moment. */
    if (n < 0 || fchmod(to, 0111) < 0 ||
        fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, errno, "cannot load box-init");
    return steal_fd(&to);
}

/* --- requests
 * -------------------------------------------------------------------------------------- */

static struct spawned *find_session(struct spawner *spawner, uint32_t number)
{
    struct spawned *session = spawner->sessions;
    while (session && session->number != number)
        session = session->next;
    return session;
}

static void drop_session(struct spawner *spawner, struct spawned *session)
{
    struct spawned **at = &spawner->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    spawned_release(spawner, session);
}

static void fill_error(struct spawner_reply *reply, const struct error *err)
{
    reply->code = err->code;
    reply->errnum = err->errnum;
    memcpy(reply->message, err->message, sizeof reply->message);
    memcpy(reply->hint, err->hint, sizeof reply->hint);
}

/* Sends and closes the descriptors. */
static void send_reply(struct spawner *spawner, const struct spawner_reply *reply, int *fds,
                       size_t count)
{
    /* The words only when there are any. */
    bool words = reply->code || reply->marker_size > 0 || reply->message[0];
    size_t size = words ? sizeof *reply : offsetof(struct spawner_reply, message);
    fd_send(spawner->sock, reply, size, fds, count);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

static struct spawner_reply reply_to(const struct spawner_request *request)
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
    struct spawner_reply reply = reply_to(request);
    struct wire_reader reader = {.data = data, .left = size};
    struct sandbox_spec spec = {0};
    struct error err = ERROR_INIT;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    struct spawned *session = NULL;
    if (sandbox_spec_decode(&reader, &spec, &err) < 0) {
        fill_error(&reply, &err);
        send_reply(spawner, &reply, fds, count);
        return;
    }
    /* The host's resolvers may have changed since the last time. */
    if (spec.network == NETWORK_ON)
        facts_gather_network(&spawner->facts);
    if (spawner_create(spawner, &spec, &reply, fds, &count, &session, &err) < 0)
        fill_error(&reply, &err);
    if (session) {
        session->next = spawner->sessions;
        spawner->sessions = session;
        reply.session = session->number;
    }
    send_reply(spawner, &reply, fds, count);
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
    struct spawner_reply reply = reply_to(request);
    struct error err = ERROR_INIT;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    const struct spawned *session = find_session(spawner, request->session);
    if (!session)
        error_set(&err, ERROR_GONE, "the session has ended");
    else
        make_lane(spawner, session, request->lane, request->memory, &reply, fds, &count, &err);
    if (err.code)
        fill_error(&reply, &err);
    send_reply(spawner, &reply, fds, count);
}

static void do_kill(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawner_reply reply = reply_to(request);
    struct error err = ERROR_INIT;
    struct spawned *session = find_session(spawner, request->session);
    if (!session || !session->has_group || session->single || request->lane < 0 ||
        request->lane >= LANE_MAX)
        error_set(&err, ERROR_GONE, "no such lane");
    else
        cgroup_lane_kill(spawner->cgroups, session->group, request->lane, &err);
    if (err.code)
        fill_error(&reply, &err);
    send_reply(spawner, &reply, NULL, 0);
}

static void end_session(const struct spawned *session)
{
    if (session->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, session->pidfd, SIGKILL, NULL, 0);
    else
        kill(session->pid, SIGKILL);
}

static void do_destroy(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawned *session = find_session(spawner, request->session);
    if (session && session->state != SESSION_DEAD) {
        session->state = SESSION_ENDING;
        session->destroy_tag = request->tag;
        end_session(session);
        return; /* the reply follows when it is gone */
    }
    if (session)
        drop_session(spawner, session);
    struct spawner_reply reply = reply_to(request);
    send_reply(spawner, &reply, NULL, 0);
}

static void do_adopt(struct spawner *spawner, const struct spawner_adopt *request)
{
    struct spawner_reply reply = reply_to(&request->head);
    struct error err = ERROR_INIT;
    struct spawned *session;
    int control = -1;
    if (spawner_adopt(spawner, request, &session, &control, &err) < 0) {
        fill_error(&reply, &err);
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
    send_reply(spawner, &reply, &control, control >= 0);
}

static void do_prune(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawner_reply reply = reply_to(request);
    const struct spawned *session = find_session(spawner, request->session);
    if (session)
        spawner_prune(spawner, session, request->lanes);
    send_reply(spawner, &reply, NULL, 0);
}

static void do_sweep(struct spawner *spawner, const struct spawner_request *request)
{
    const struct facts *facts = &spawner->facts;
    struct spawner_reply reply = reply_to(request);
    spawner_sweep(spawner);
    if (facts->limits_memory && facts->limits_cpu && facts->limits_pids)
        reply.cgroup = facts->cgroup;
    send_reply(spawner, &reply, NULL, 0);
}

static void do_usage(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawner_reply reply = reply_to(request);
    struct cgroup_session_usage usage;
    struct error err = ERROR_INIT;
    const struct spawned *session = find_session(spawner, request->session);
    if (!session)
        error_set(&err, ERROR_GONE, "the session has ended");
    else if (!session->has_group)
        error_set(&err, ERROR_UNSUPPORTED, "the session has no control group to tell its usage by");
    else if (cgroup_session_usage(spawner->cgroups, session->group, &usage, &err) == 0)
        reply.usage = (struct spawner_usage){.cpu_us = usage.cpu_us,
                                             .memory_bytes = usage.memory_bytes,
                                             .processes = usage.processes};
    if (err.code)
        fill_error(&reply, &err);
    send_reply(spawner, &reply, NULL, 0);
}

static void do_marker(struct spawner *spawner, const struct spawner_marker *request)
{
    struct spawner_reply reply = reply_to(&request->head);
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
        fill_error(&reply, &err);
    send_reply(spawner, &reply, NULL, 0);
}

static void do_store(struct spawner *spawner, const struct spawner_store *request)
{
    struct spawner_reply reply = reply_to(&request->head);
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
        fill_error(&reply, &err);
    send_reply(spawner, &reply, NULL, 0);
}

/* What has only a head. */
static const struct {
    uint32_t type;
    void (*run)(struct spawner *spawner, const struct spawner_request *request);
} handlers[] = {
    {SPAWNER_LANE, do_lane},   {SPAWNER_KILL, do_kill},   {SPAWNER_DESTROY, do_destroy},
    {SPAWNER_PRUNE, do_prune}, {SPAWNER_SWEEP, do_sweep}, {SPAWNER_USAGE, do_usage},
};

/* false: the caller is gone. */
static bool serve_request(struct spawner *spawner)
{
    static union {
        struct spawner_request request;
        struct spawner_adopt adopt;
        struct spawner_marker marker;
        struct spawner_store store;
        unsigned char data[sizeof(struct spawner_request) + SPEC_WIRE_MAX];
    } in;
    ssize_t size = fd_receive(spawner->sock, &in, sizeof in, NULL, NULL, 0);
    if (size == 0 || (size < 0 && size != -EMSGSIZE && size != -EBADMSG))
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

/* --- children
 * -------------------------------------------------------------------------------------- */

static void session_ended(struct spawner *spawner, struct spawned *session)
{
    bool asked = session->state == SESSION_ENDING;
    struct spawner_reply reply = {
        .type = asked ? SPAWNER_REPLY : SPAWNER_ENDED,
        .request = SPAWNER_DESTROY,
        .tag = session->destroy_tag,
        .session = session->number,
        .lane =
            !asked && session->has_group && cgroup_session_oom(spawner->cgroups, session->group),
    };
    session->pid = -1; /* somebody else's from now on */
    fd_clear(&session->pidfd);
    /* Nobody need wait for the rest: no process is left. */
    send_reply(spawner, &reply, NULL, 0);
    if (asked)
        drop_session(spawner, session);
    else
        session->state = SESSION_DEAD;
}

static struct spawned *find_child(struct spawner *spawner, pid_t pid)
{
    struct spawned *session = spawner->sessions;
    while (session && (session->pid != pid || session->pidfd >= 0))
        session = session->next;
    return session;
}

static void child_ended(struct spawner *spawner, pid_t pid)
{
    struct spawned *session = find_child(spawner, pid);
    if (session)
        session_ended(spawner, session);
}

/* The signal says which child, and to ask for that one is cheap; to ask for any is a walk through
   all of them. But of several that end together one signal may tell, so that walk is made too, when
   nobody waits. */
static void reap_signalled(struct spawner *spawner, int children)
{
    struct signalfd_siginfo info;
    while (read(children, &info, sizeof info) == sizeof info) {
        pid_t pid = (pid_t)info.ssi_pid;
        if (pid > 0 && waitpid(pid, NULL, WNOHANG) == pid)
            child_ended(spawner, pid);
    }
    spawner->unreaped = true;
}

static bool reap_rest(struct spawner *spawner)
{
    pid_t pid;
    if (!spawner->unreaped)
        return false;
    spawner->unreaped = false;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        child_ended(spawner, pid);
    return true;
}

#define LEAVE_TRIES 50

static bool any_ending(const struct spawner *spawner)
{
    for (const struct spawned *session = spawner->sessions; session; session = session->next) {
        if (session->pid > 0 && session->pidfd < 0)
            return true;
    }
    return false;
}

/* A key means that the session may have been told to wait for the caller's successor. If it was
   not, it is ending now by itself, as the others are of being killed; 50 ms are enough for that.
   Whatever of a session is there afterwards is left to the successor. */
static void end_everything(struct spawner *spawner)
{
    for (const struct spawned *session = spawner->sessions; session; session = session->next) {
        if (session->pid > 0 && !session->key[0])
            end_session(session);
    }
    for (int i = 0; i < LEAVE_TRIES && any_ending(spawner); i++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
            struct spawned *session = find_child(spawner, pid);
            if (session)
                session->pid = -1;
        }
        poll(NULL, 0, 1);
    }
    while (spawner->sessions) {
        struct spawned *session = spawner->sessions;
        if (session->pid > 0 && session->key[0]) {
            spawner->sessions = session->next;
            free(session);
            continue;
        }
        while (session->pid > 0 && waitpid(session->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        drop_session(spawner, session);
    }
}

/* --- the process
 * ----------------------------------------------------------------------------------- */

static void *make_first_network(void *pool)
{
    /* Joining a thread does not wait until the kernel has let go of all it shares, and who shares
       its working directory cannot enter a mount namespace. */
    if (unshare(CLONE_FS) < 0)
        return NULL;
    netns_pool_fill(pool, 0);
    return NULL;
}

/* The first network namespace takes the kernel as long as all the rest of getting ready: it is made
   beside that, by a thread that is gone before anything is cloned. */
static void begin_first_network(struct spawner *spawner)
{
    spawner->netns = netns_pool_new(spawner->config->ready > 0 ? spawner->config->ready : 1);
    spawner->making_network =
        pthread_create(&spawner->network_thread, NULL, make_first_network, spawner->netns) == 0;
}

void spawner_await_network(struct spawner *spawner)
{
    if (spawner->making_network)
        pthread_join(spawner->network_thread, NULL);
    spawner->making_network = false;
}

static int prepare(struct spawner *spawner, struct error *err)
{
    facts_gather(&spawner->facts);
    if (spawner->facts.root)
        begin_first_network(spawner);
    if (cgroup_root_open(&spawner->cgroups, err) < 0)
        return -1;
    if (sockets_open(spawner, err) < 0)
        return -1;
    facts_set_cgroup(&spawner->facts, spawner->cgroups);
    if (spawner->sockets < 0) /* else it is the caller's to say when */
        cgroup_sweep(spawner->cgroups);
    if (spawner->facts.root) {
        spawner->host_netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        spawner->host_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (spawner->host_netns < 0 || spawner->host_mounts < 0)
            return error_errno(err, errno, "cannot open the host's namespaces");
    }
    spawner->init_binary = load_init_binary(spawner->config->init_binary, err);
    return spawner->init_binary < 0 ? -1 : 0;
}

/* Until a caller asks for something there is one answer to everything: what went wrong. */
static void refuse_all(struct spawner *spawner, const struct error *err)
{
    static union {
        struct spawner_request request;
        char data[sizeof(struct spawner_request) + SPEC_WIRE_MAX];
    } in;
    ssize_t size;
    do {
        size = fd_receive(spawner->sock, &in, sizeof in, NULL, NULL, 0);
        struct spawner_reply reply = reply_to(&in.request);
        fill_error(&reply, err);
        if (size != 0)
            send_reply(spawner, &reply, NULL, 0);
    } while (size > 0 || size == -EMSGSIZE);
}

/* One piece at a time, so that a request never waits for more than that. */
static bool idle_work(struct spawner *spawner)
{
    if (reap_rest(spawner))
        return true;
    spawner_await_network(spawner);
    if (groups_idle_work(spawner))
        return true;
    /* What is lent out comes back, so it counts as there. */
    return spawner->netns && netns_pool_fill(spawner->netns, spawner->lent);
}

enum { EVENT_CALLER = 0, EVENT_CHILDREN = UINT32_MAX }; /* others are numbers of sessions */

/* false: the caller is gone. */
static bool serve_event(struct spawner *spawner, int children, uint64_t what)
{
    if (what == EVENT_CALLER)
        return serve_request(spawner);
    if (what == EVENT_CHILDREN) {
        reap_signalled(spawner, children);
        return true;
    }
    struct spawned *session = find_session(spawner, (uint32_t)what);
    if (session && session->pidfd >= 0)
        session_ended(spawner, session);
    return true;
}

/* Ends of sessions first: a request that follows may be about one. */
static void serve(struct spawner *spawner, int children)
{
    struct epoll_event events[16];
    for (;;) {
        int ready = epoll_wait(spawner->events, events, ARRAY_SIZE(events), 0);
        if (ready == 0 && idle_work(spawner))
            continue;
        if (ready == 0)
            ready = epoll_wait(spawner->events, events, ARRAY_SIZE(events), -1);
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < ready; i++) {
                bool of_caller = events[i].data.u64 == EVENT_CALLER;
                if (of_caller == (pass == 1) && !serve_event(spawner, children, events[i].data.u64))
                    return;
            }
        }
    }
}

static int watch(struct spawner *spawner, int children, struct error *err)
{
    struct epoll_event caller = {.events = EPOLLIN, .data.u64 = EVENT_CALLER};
    struct epoll_event child = {.events = EPOLLIN, .data.u64 = EVENT_CHILDREN};
    spawner->events = epoll_create1(EPOLL_CLOEXEC);
    if (children < 0 || spawner->events < 0 ||
        epoll_ctl(spawner->events, EPOLL_CTL_ADD, spawner->sock, &caller) < 0 ||
        epoll_ctl(spawner->events, EPOLL_CTL_ADD, children, &child) < 0)
        return error_errno(err, errno, "cannot watch for requests");
    return 0;
}

/* Whoever reads the caller's output waits for the last holder of its pipes: that must not be us. */
static void drop_stdio(void)
{
    cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
}

/* What the caller ignores, and a preference it has with the OOM killer, are not for sessions to
 * inherit. */
static void shed_inherited(void)
{
    char text[16];
    /* All zeroes is the default. Not by sigaction(), which keeps two of the numbers to itself. */
    static const unsigned char by_default[64];
    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, by_default, NULL, (NSIG - 1) / 8);
    if (fd_read_file(AT_FDCWD, "/proc/self/oom_score_adj", text, sizeof text) > 0 && text[0] == '-')
        fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "0");
}

static _Noreturn void spawner_main(const struct spawner_config *config, int sock)
{
    struct spawner spawner = {.sock = sock,
                              .sockets = -1,
                              .config = config,
                              .host_netns = -1,
                              .host_mounts = -1,
                              .next_number = 1};
    /* Not where the last one began: its ranges are the likeliest to be in use, or their links to
     * linger. */
    spawner.range_hint = (uint32_t)getpid() * 2654435761u % IDRANGE_COUNT;
    struct error err = ERROR_INIT;
    sigset_t all;
    sigset_t child;
    /* Not the terminal's business: what the caller is told by ^C it tells us by closing the socket.
     */
    setsid();
    drop_stdio();
    shed_inherited();
    prctl(PR_SET_NAME, "box-spawner");
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (size_t i = 0; i < SECCOMP_PROFILE_MAX; i++)
        spawner.filters[i] = -1;
    int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (watch(&spawner, children, &err) < 0 || prepare(&spawner, &err) < 0) {
        refuse_all(&spawner, &err);
        _exit(1);
    }
    serve(&spawner, children);
    end_everything(&spawner);
    groups_release(&spawner);
    net_host_close(spawner.net_host);
    netns_pool_free(spawner.netns);
    cgroup_root_close(spawner.cgroups);
    _exit(0);
}

int spawner_fork(const struct spawner_config *config, int *ret_sock, int *ret_pid,
                 struct error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, errno, "cannot make a socket");
    pid_t pid = fork();
    if (pid < 0) {
        int errnum = errno;
        close(pair[0]);
        close(pair[1]);
        return error_errno(err, errnum, "cannot start the spawner");
    }
    if (pid == 0) {
        close(pair[0]);
        spawner_main(config, pair[1]);
    }
    close(pair[1]);
    *ret_sock = pair[0];
    *ret_pid = pid;
    return 0;
}
