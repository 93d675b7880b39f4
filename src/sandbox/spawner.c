/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's loop: requests in (spawner-requests.c), children reaped.

   It holds no descriptor of a session but, for a bounded number, that of its network namespace: a
   process that clones must not carry thousands of files along. Making a session ends with the
   process cloned; building its file system goes on in the child, so that one slow session holds up
   no other. */
#include "sandbox/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "sandbox/init-binary.h"
#include "sandbox/spawner-internal.h"
#include "sandbox/syscalls.h"

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
    spawner_send(spawner, &reply, NULL, 0);
    if (asked)
        spawned_drop(spawner, session);
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

static void child_ended(struct spawner *spawner, pid_t pid, int status)
{
    if (pid == spawner->answering)
        return spawner_answered_beside(spawner, status);
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
        int status;
        if (pid > 0 && waitpid(pid, &status, WNOHANG) == pid)
            child_ended(spawner, pid, status);
    }
    spawner->unreaped = true;
}

static bool reap_rest(struct spawner *spawner)
{
    pid_t pid;
    int status;
    if (!spawner->unreaped)
        return false;
    spawner->unreaped = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        child_ended(spawner, pid, status);
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
            spawned_kill(session);
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
        spawned_drop(spawner, session);
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
    spawner->init_binary = init_binary_load(spawner->config->init_binary, err);
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
        struct spawner_reply reply = spawner_reply_to(&in.request);
        spawner_reply_error(&reply, err);
        if (size != 0)
            spawner_send(spawner, &reply, NULL, 0);
    } while (size > 0 || fd_is_bad_message(size));
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
        return spawner_serve_request(spawner);
    if (what == EVENT_CHILDREN) {
        reap_signalled(spawner, children);
        return true;
    }
    struct spawned *session = spawned_find(spawner, (uint32_t)what);
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
