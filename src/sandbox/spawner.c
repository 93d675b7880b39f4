/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's loop: requests in, replies out, children reaped.

   It holds no descriptor of a session but, for a bounded number, that of its network namespace: a process
   that clones must not carry thousands of files along. Making a session ends with the process cloned;
   building its file system goes on in the child, so that one slow session holds up no other. */
#include "sandbox/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "sandbox/spawner-internal.h"
#include "sandbox/syscalls.h"

#ifndef BOX_LIBEXECDIR
#define BOX_LIBEXECDIR "/usr/local/libexec/boxd"
#endif

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

#define INIT_BINARY_MAX (4u * 1024 * 1024)

/* --- box-init as a sealed memfd: nobody, root included, can change what runs in later sessions ------- */

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

/* --- requests -------------------------------------------------------------------------------------- */

static struct spawned *find_session(struct spawner *spawner, uint32_t number)
{
    struct spawned *session = spawner->sessions;
    while (session && session->number != number)
        session = session->next;
    return session;
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
    size_t size = reply->code ? sizeof *reply : offsetof(struct spawner_reply, message);
    fd_send(spawner->sock, reply, size, fds, count);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

/* Init is born in lane 0, where its first launcher must be born too; once that is there, init moves out, so
   that what ends the lane (a time-out, memory) spares the session. */
static void settle(struct spawner *spawner, struct spawned *session)
{
    if (session->settled || !session->has_group)
        return;
    session->settled = true;
    cgroup_place(spawner->cgroups, session->group, CGROUP_LANE_INIT, session->pid, NULL);
}

static void do_create(struct spawner *spawner, const unsigned char *data, size_t size)
{
    struct spawner_reply reply = {.type = SPAWNER_REPLY, .request = SPAWNER_CREATE};
    struct wire_reader reader = {.data = data, .left = size};
    struct sandbox_spec spec = {0};
    struct error err = ERROR_INIT;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    struct spawned *session = NULL;
    if (sandbox_spec_decode(&reader, &spec, &err) < 0 ||
        spawner_create(spawner, &spec, &reply, fds, &count, &session, &err) < 0)
        fill_error(&reply, &err);
    if (session) {
        session->next = spawner->sessions;
        spawner->sessions = session;
        reply.session = session->number;
    }
    send_reply(spawner, &reply, fds, count);
    sandbox_spec_release(&spec);
}

static void do_settle(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawned *session = find_session(spawner, request->session);
    if (session)
        settle(spawner, session);
}

/* The pid behind a pidfd, in this process's view; 0 if it is no pidfd or its process is gone. */
static pid_t pidfd_to_pid(int pidfd)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    const char *line = strstr(text, "\nPid:");
    long pid = line ? strtol(line + 5, NULL, 10) : 0;
    return pid > 0 && pid < INT_MAX ? (pid_t)pid : 0;
}

/* Only a process of the session's own pid namespace may be put into its groups. */
static bool belongs_to(pid_t pid, const struct spawned *session)
{
    char path[64];
    struct stat mine;
    struct stat its;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)session->pid);
    if (stat(path, &mine) < 0)
        return false;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
    return stat(path, &its) == 0 && mine.st_ino == its.st_ino && mine.st_dev == its.st_dev;
}

static int place(struct spawner *spawner, struct spawned *session, int lane, int pidfd,
                 struct error *err)
{
    pid_t pid = pidfd >= 0 ? pidfd_to_pid(pidfd) : 0;
    if (pid == 0 || lane < 0 || lane >= LANE_MAX || !belongs_to(pid, session))
        return error_set(err, ERROR_INVALID, "no process of the session to place");
    settle(spawner, session);
    if (!session->has_group)
        return 0;
    if (cgroup_lane_create(spawner->cgroups, session->group, lane, err) < 0)
        return -1;
    return cgroup_place(spawner->cgroups, session->group, lane, pid, err);
}

static void do_place(struct spawner *spawner, const struct spawner_request *request, int pidfd)
{
    struct spawner_reply reply = {.type = SPAWNER_REPLY,
                                  .request = SPAWNER_PLACE,
                                  .session = request->session,
                                  .lane = request->lane};
    struct error err = ERROR_INIT;
    int fds[FD_PASS_MAX];
    size_t count = 0;
    struct spawned *session = find_session(spawner, request->session);
    if (!session)
        error_set(&err, ERROR_GONE, "the session has ended");
    else if (place(spawner, session, request->lane, pidfd, &err) == 0)
        spawner_lane_fds(spawner, session, request->lane, &reply, fds, &count);
    if (err.code)
        fill_error(&reply, &err);
    send_reply(spawner, &reply, fds, count);
}

static void do_kill(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawner_reply reply = {.type = SPAWNER_REPLY,
                                  .request = SPAWNER_KILL,
                                  .session = request->session,
                                  .lane = request->lane};
    struct error err = ERROR_INIT;
    struct spawned *session = find_session(spawner, request->session);
    if (!session || !session->has_group || request->lane < 0 || request->lane >= LANE_MAX)
        error_set(&err, ERROR_GONE, "no such lane");
    else {
        settle(spawner, session);
        cgroup_lane_kill(spawner->cgroups, session->group, request->lane, &err);
    }
    if (err.code)
        fill_error(&reply, &err);
    send_reply(spawner, &reply, NULL, 0);
}

static void do_destroy(struct spawner *spawner, const struct spawner_request *request)
{
    struct spawned *session = find_session(spawner, request->session);
    if (session) {
        session->state = SESSION_ENDING;
        kill(session->pid, SIGKILL);
        return; /* the reply follows when it is gone */
    }
    struct spawner_reply reply = {.type = SPAWNER_REPLY,
                                  .request = SPAWNER_DESTROY,
                                  .session = request->session};
    send_reply(spawner, &reply, NULL, 0);
}

/* false: the caller is gone. */
static bool serve_request(struct spawner *spawner)
{
    static union {
        struct spawner_request request;
        unsigned char data[sizeof(struct spawner_request) + SPEC_WIRE_MAX];
    } in;
    int fds[1] = {-1};
    size_t count = 1;
    ssize_t size = fd_receive(spawner->sock, &in, sizeof in, fds, &count, 0);
    if (size == 0 || (size < 0 && size != -EMSGSIZE))
        return false;
    cleanup_close int pidfd = count == 1 && size > 0 ? fds[0] : -1;
    if (size < (ssize_t)sizeof in.request)
        return true;
    size_t rest = (size_t)size - sizeof in.request;
    if (in.request.type == SPAWNER_CREATE)
        do_create(spawner, in.data + sizeof in.request, rest);
    else if (in.request.type == SPAWNER_SETTLE && rest == 0)
        do_settle(spawner, &in.request);
    else if (in.request.type == SPAWNER_PLACE && rest == 0)
        do_place(spawner, &in.request, pidfd);
    else if (in.request.type == SPAWNER_KILL && rest == 0)
        do_kill(spawner, &in.request);
    else if (in.request.type == SPAWNER_DESTROY && rest == 0)
        do_destroy(spawner, &in.request);
    return true;
}

/* --- children -------------------------------------------------------------------------------------- */

static void session_ended(struct spawner *spawner, pid_t pid)
{
    struct spawned **at = &spawner->sessions;
    while (*at && (*at)->pid != pid)
        at = &(*at)->next;
    struct spawned *session = *at;
    if (!session)
        return;
    *at = session->next;
    struct spawner_reply reply = {
        .type = session->state == SESSION_ENDING ? SPAWNER_REPLY : SPAWNER_ENDED,
        .request = SPAWNER_DESTROY,
        .session = session->number,
    };
    spawned_release(spawner, session);
    send_reply(spawner, &reply, NULL, 0);
}

static void reap(struct spawner *spawner)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        session_ended(spawner, pid);
}

static void end_everything(struct spawner *spawner)
{
    for (struct spawned *session = spawner->sessions; session; session = session->next)
        kill(session->pid, SIGKILL);
    while (spawner->sessions) {
        pid_t pid = waitpid(-1, NULL, 0);
        if (pid < 0 && errno != EINTR)
            break;
        if (pid > 0)
            session_ended(spawner, pid);
    }
}

/* --- the process ----------------------------------------------------------------------------------- */

static int prepare(struct spawner *spawner, struct error *err)
{
    facts_gather(&spawner->facts);
    if (cgroup_root_open(&spawner->cgroups, err) < 0)
        return -1;
    spawner->facts.cgroup = cgroup_root_version(spawner->cgroups);
    spawner->facts.cgroup_reason = cgroup_root_reason(spawner->cgroups);
    spawner->facts.cgroup_fix = cgroup_root_fix(spawner->cgroups);
    cgroup_sweep(spawner->cgroups);
    if (spawner->facts.root) {
        spawner->netns = netns_pool_new(spawner->config->ready_networks);
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
    char request[sizeof(struct spawner_request)];
    ssize_t size;
    do {
        size = fd_receive(spawner->sock, request, sizeof request, NULL, NULL, 0);
        struct spawner_reply reply = {.type = SPAWNER_REPLY, .request = SPAWNER_CREATE};
        fill_error(&reply, err);
        if (size != 0)
            send_reply(spawner, &reply, NULL, 0);
    } while (size > 0 || size == -EMSGSIZE);
}

static void serve(struct spawner *spawner, int children)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = spawner->sock, .events = POLLIN},
                                  {.fd = children, .events = POLLIN}};
        int ready = poll(polled, ARRAY_SIZE(polled), 0);
        /* Idle work, one piece at a time. What is lent out comes back, so it counts as there. */
        if (ready == 0 && spawner->netns && netns_pool_fill(spawner->netns, spawner->lent))
            continue;
        if (ready == 0)
            ready = poll(polled, ARRAY_SIZE(polled), -1);
        if (ready < 0)
            continue;
        if (polled[1].revents) {
            struct signalfd_siginfo info;
            while (read(children, &info, sizeof info) > 0)
                ;
            reap(spawner);
        }
        if (polled[0].revents && !serve_request(spawner))
            return;
    }
}

/* Whoever reads the caller's output waits for the last holder of its pipes: that must not be us. */
static void drop_stdio(void)
{
    cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
}

static _Noreturn void spawner_main(const struct spawner_config *config, int sock)
{
    struct spawner spawner = {.sock = sock, .config = config, .host_netns = -1, .host_mounts = -1, .next_number = 1};
    /* Not where the last one began: its ranges are the likeliest to be in use, or their links to linger. */
    spawner.range_hint = (uint32_t)getpid() * 2654435761u % IDRANGE_COUNT;
    struct error err = ERROR_INIT;
    sigset_t all;
    sigset_t child;
    /* Not the terminal's business: what the caller is told by ^C it tells us by closing the socket. */
    setsid();
    drop_stdio();
    prctl(PR_SET_NAME, "box-spawner");
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (size_t i = 0; i < SECCOMP_PROFILE_MAX; i++)
        spawner.filters[i] = -1;
    int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (children < 0 || prepare(&spawner, &err) < 0) {
        refuse_all(&spawner, &err);
        _exit(1);
    }
    serve(&spawner, children);
    end_everything(&spawner);
    while (spawner.spare_count > 0)
        cgroup_session_remove(spawner.cgroups, spawner.spare_groups[--spawner.spare_count], NULL);
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
