/* SPDX-License-Identifier: Apache-2.0 */
/* box-init, PID 1 of a session: forks a launcher for each lane, answers for denied system calls,
   opens files, reaps orphans.

   It starts as the sandbox's only process, with no privilege left, three descriptors of its own
   (see INIT_FD_*) and /dev/null as 0, 1, 2. It sits in one poll() and never blocks elsewhere: while
   it does not answer, a command that made a denied call waits; whatever may take longer, files
   above all, is done by a process forked for it.

   When the caller's end of the control socket closes, it exits, and with it everything inside:
   unless it was told to outlive its caller. Then it waits for the next one, on the socket it
   listens on, and hands over what it kept. A new caller takes the place of one that is still there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/fd.h"
#include "init/init.h"
#include "init/messages.h"

/* A lane's filter outlives its launcher for as long as a background process carries it, so a lane
   that is opened anew may have more than one listener. */
#define LISTENER_MAX (LANE_MAX * 2)

enum { POLL_CONTROL, POLL_CHILDREN, POLL_CALLERS, POLL_LISTENERS };

#define BACKLOG 8

struct listener {
    int fd; /* while `pending`, the socket it will come by */
    uint32_t lane;
    bool pending;
};

static struct filter filter;
static struct listener listeners[LISTENER_MAX];
static size_t listener_count;
static struct denied_page *denied;
static int denied_fd = -1;            /* kept for later callers, if there can be any */
static int control = INIT_FD_CONTROL; /* -1: nobody is there */
static int callers = -1;              /* where the next one comes from */
static uint32_t outlive_seconds;
static uint64_t alone_until_ms; /* while nobody is there */

int filter_load(struct filter *ret, int fd)
{
    ssize_t size = pread(fd, ret->code, sizeof ret->code, 0);
    if (size <= 0 || (size_t)size % sizeof ret->code[0] != 0)
        return -EINVAL;
    ret->count = (unsigned short)((size_t)size / sizeof ret->code[0]);
    return 0;
}

static int denied_page_make(void)
{
    cleanup_close int fd = memfd_create("denied", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, sizeof *denied) < 0)
        return -1;
    /* So that the caller can map it without fear of SIGBUS. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -1;
    denied = mmap(NULL, sizeof *denied, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return denied == MAP_FAILED ? -1 : steal_fd(&fd);
}

/* A process that moves itself, alone, is in at once; moved by another it would wait for the kernel.
 */
int group_enter(int *fds, size_t count)
{
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0 && write(fds[i], "0", 1) != 1)
            rc = -errno;
        fd_clear(&fds[i]);
    }
    return rc;
}

/* The launcher's side of the fork: it keeps nothing of init's but the two sockets. */
static _Noreturn void become_launcher(int sock, int listener_sock, int *group, size_t group_count)
{
    if (group_enter(group, group_count) < 0)
        _exit(1);
    int kept = dup2(sock, INIT_FD_CONTROL);
    int kept_listener = dup2(listener_sock, INIT_FD_FILTER);
    syscall(SYS_close_range, INIT_FD_RANGE, ~0U, 0);
    fcntl(kept, F_SETFD, FD_CLOEXEC);
    fcntl(kept_listener, F_SETFD, FD_CLOEXEC);
    munmap(denied, sizeof *denied);
    launcher_run(&filter, kept, kept_listener);
}

/* Forks the launcher of a lane. It is not waited for: the listener of its filter comes when it is
   on, and until then its commands wait in its socket. Without descriptors in `group` it stays in
   init's own groups. */
static int lane_open(uint32_t lane, int sock, int *group, size_t group_count)
{
    int pair[2];
    if (listener_count == LISTENER_MAX)
        return -EAGAIN;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    int pid = fork();
    if (pid == 0)
        become_launcher(sock, pair[1], group, group_count);
    int errnum = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return -errnum;
    }
    listeners[listener_count++] = (struct listener){.fd = pair[0], .lane = lane, .pending = true};
    return 0;
}

static void handle_lane(uint32_t lane, int *fds, size_t fd_count)
{
    struct init_lane reply = {.type = INIT_LANE, .lane = lane, .errnum = EPROTO};
    if (fd_count > 0)
        reply.errnum = -lane_open(lane, fds[0], fds + 1, fd_count - 1);
    fd_send(control, &reply, sizeof reply, NULL, 0);
}

static void handle_signal(const struct init_signal *request)
{
    /* Never 0 or a negative number: those would mean init's own group, or everybody. */
    if (request->pid > 1 && request->number > 0 && request->number < NSIG)
        kill(-request->pid, request->number);
}

/* The worker's side of the fork keeps the one socket. */
static void handle_file(const struct init_file *head, const char *paths, int *fds, size_t fd_count)
{
    struct file_reply failed = {0};
    if (fd_count == 0)
        return;
    int pid = fork();
    if (pid == 0) {
        int sock = dup2(fds[0], INIT_FD_CONTROL);
        syscall(SYS_close_range, INIT_FD_CONTROL + 1, ~0U, 0);
        worker_run(sock, &head->request, paths, head->to_size ? paths + head->path_size : NULL);
    }
    if (pid < 0) {
        failed.errnum = errno;
        send(fds[0], &failed, sizeof failed, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void handle_request(const union init_request *request, int *fds, size_t fd_count)
{
    switch (request->type) {
    case INIT_LANE:
        handle_lane(request->lane.lane, fds, fd_count);
        break;
    case INIT_SIGNAL:
        handle_signal(&request->signal);
        break;
    case INIT_OUTLIVE:
        outlive_seconds = callers >= 0 ? request->outlive.seconds : 0;
        break;
    case INIT_KEEP:
        kept_put(&request->keep, fds, fd_count);
        break;
    case INIT_FILE:
        handle_file(&request->file.head, request->file.paths, fds, fd_count);
        break;
    case INIT_OPEN:
        files_open(control, &request->open.head, request->open.path);
        break;
    case INIT_STATFS:
        files_statfs(control, &request->open.head, request->open.path);
        break;
    }
}

/* One notification: note the call's number, then refuse it. The order matters: the bit must be
   there before the command can go on and exit. */
static void answer_denied(const struct listener *listener)
{
    union {
        struct seccomp_notif notification;
        char space[512];
    } in;
    union {
        struct seccomp_notif_resp response;
        char space[512];
    } out;
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    if (ioctl(listener->fd, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0)
        return;
    unsigned number = (unsigned)in.notification.data.nr;
    if (number < DENIED_WORDS * 64)
        __atomic_fetch_or(&denied->lanes[listener->lane][number / 64], 1ULL << (number % 64),
                          __ATOMIC_SEQ_CST);
    out.response.id = in.notification.id;
    out.response.error = -EPERM;
    ioctl(listener->fd, SECCOMP_IOCTL_NOTIF_SEND, &out);
}

/* false: the caller is gone. */
static bool serve_request(void)
{
    static union init_request request;
    int fds[INIT_KEEP_FDS_MAX];
    _Static_assert(INIT_KEEP_FDS_MAX >= 1 + INIT_GROUP_FDS, "room for a lane's");
    size_t fd_count = sizeof fds / sizeof fds[0];
    ssize_t size = fd_receive(control, &request, sizeof request, fds, &fd_count, 0);
    if (size == 0 || (size < 0 && !fd_is_bad_message(size)))
        return false;
    if (size < 0)
        return true;
    if (init_request_valid(&request, (size_t)size))
        handle_request(&request, fds, fd_count);
    for (size_t i = 0; i < fd_count; i++)
        fd_clear(&fds[i]);
    return true;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* false: there is no reason to go on without one. */
static bool caller_left(void)
{
    fd_clear(&control);
    if (outlive_seconds == 0)
        return false;
    alone_until_ms = now_ms() + outlive_seconds * 1000ULL;
    return true;
}

static void greet_caller(void)
{
    const struct init_ready ready = {.type = INIT_READY};
    int conn = accept4(callers, NULL, NULL, SOCK_CLOEXEC);
    if (conn < 0)
        return;
    fd_clear(&control);
    control = conn;
    kept_send(control);
    fd_send(control, &ready, sizeof ready, &denied_fd, 1);
}

/* For how long poll() may wait: for ever, unless nobody is there. */
static int patience_ms(void)
{
    if (control >= 0)
        return -1;
    uint64_t now = now_ms();
    if (now >= alone_until_ms)
        return 0;
    uint64_t left = alone_until_ms - now;
    return left > 3600000 ? 3600000 : (int)left;
}

/* The listener itself, from the launcher that has just put its filter on; false if it never came.
 */
static bool take_listener(struct listener *listener)
{
    char byte;
    int fd = -1;
    size_t count = 1;
    ssize_t n = fd_receive(listener->fd, &byte, 1, &fd, &count, MSG_DONTWAIT);
    if (n != 1 || count != 1)
        return false;
    close(listener->fd);
    listener->fd = fd;
    listener->pending = false;
    return true;
}

/* false: nobody carries this filter any more. */
static bool serve_listener(struct listener *listener, short events)
{
    if (listener->pending)
        return take_listener(listener);
    if (!(events & POLLIN))
        return false;
    answer_denied(listener);
    return true;
}

static void serve(int children)
{
    struct pollfd polled[POLL_LISTENERS + LISTENER_MAX];
    for (;;) {
        polled[POLL_CONTROL] = (struct pollfd){.fd = control, .events = POLLIN};
        polled[POLL_CALLERS] = (struct pollfd){.fd = callers, .events = POLLIN};
        polled[POLL_CHILDREN] = (struct pollfd){.fd = children, .events = POLLIN};
        size_t count = listener_count;
        for (size_t i = 0; i < count; i++)
            polled[POLL_LISTENERS + i] = (struct pollfd){.fd = listeners[i].fd, .events = POLLIN};
        int ready = poll(polled, POLL_LISTENERS + count, patience_ms());
        if (ready == 0 && control < 0 && now_ms() >= alone_until_ms)
            return;
        if (ready < 0) {
            /* Anything else is for good, such as a limit that a command has put on us: the session
             * ends. */
            if (errno != EINTR)
                return;
            continue;
        }
        if (polled[POLL_CHILDREN].revents) {
            struct signalfd_siginfo info;
            if (read(children, &info, sizeof info) < 0 && errno != EAGAIN)
                _exit(1);
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        }
        /* From the last, so that closing one does not move those still to be looked at. */
        for (size_t i = count; i-- > 0;) {
            short events = polled[POLL_LISTENERS + i].revents;
            if (events && !serve_listener(&listeners[i], events)) {
                close(listeners[i].fd);
                listeners[i] = listeners[--listener_count];
            }
        }
        if (polled[POLL_CONTROL].revents && !serve_request() && !caller_left())
            return;
        if (polled[POLL_CALLERS].revents)
            greet_caller();
    }
}

int main(void)
{
    struct init_ready ready = {.type = INIT_READY};
    sigset_t all;
    int group[INIT_GROUP_FDS];
    /* Before anything else is opened, and could be taken for one of them. */
    for (int i = 0; i < INIT_GROUP_FDS; i++)
        group[i] = fcntl(INIT_FD_GROUP + i, F_GETFD) < 0 ? -1 : INIT_FD_GROUP + i;
    if (fcntl(INIT_FD_LISTEN, F_GETFD) >= 0)
        callers = INIT_FD_LISTEN;
    /* Nobody inside may look into this process or borrow its descriptors. */
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, "box-init");
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (children < 0 || filter_load(&filter, INIT_FD_FILTER) < 0)
        return 1;
    close(INIT_FD_FILTER);
    int page = denied_page_make();
    /* The first launcher stays in the groups that init was born in, which are those of lane 0. */
    if (page < 0 || lane_open(0, INIT_FD_LANE, NULL, 0) < 0)
        return 1;
    close(INIT_FD_LANE);
    /* Before anybody is told that the session is up: from then on it can be found. */
    if (callers >= 0) {
        if (listen(callers, BACKLOG) < 0)
            return 1;
        denied_fd = dup(page);
    }
    if (fd_send(INIT_FD_CONTROL, &ready, sizeof ready, &page, 1) < 0)
        return 1;
    close(page);
    /* Init itself moves on to its own, if it was given any, so that what ends the lane (a time-out,
       memory) spares the session. */
    if (group_enter(group, INIT_GROUP_FDS) < 0)
        return 1;
    serve(children);
    return 0;
}
