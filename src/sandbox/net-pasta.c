/* SPDX-License-Identifier: Apache-2.0 */
/* The network of sessions without root: pasta, one a session.

   pasta reads packets from a tap device that it puts into the session's namespace, and opens
   ordinary sockets in the host's for them, as the user who runs it. Given a process it keeps that
   process's namespaces alive and would outlive it. So there is a keeper between it and us:

     caller ──fork──► keeper ──fork, exec──► pasta

   The keeper waits for the end of any of the three it knows (the caller, the session, pasta), by
   pidfd, and then ends pasta and itself. Should the keeper be killed, pasta dies by its
   parent-death signal. That signal survives joining the session's user namespace because the
   namespace's owner is our own user id. pasta stays in the foreground for this: as a daemon it
   would be nobody's child.

   It says that it is ready through its pid file, which is a pipe to us. */
#include "sandbox/net-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fd.h"

#define READY_MS 5000
#define LOG_MAX  2048

struct launch {
    const char *path;
    char **argv;
    int ready;   /* pasta's stdout, a pipe's writing end */
    int log;     /* pasta's stderr, likewise */
    int session; /* pidfds */
    int caller;
};

static const char *pasta_path(void)
{
    static const char *const paths[] = {"/usr/bin/pasta", "/usr/local/bin/pasta", "/bin/pasta"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    }
    return NULL;
}

int net_pasta_available(struct error *err)
{
    if (!pasta_path()) {
        error_set(err, ERROR_UNSUPPORTED,
                  "a network without root needs pasta, which is not installed");
        return error_hint(err, "apt install passt");
    }
    /* Safe to open to all, and so on most systems: making a device takes the capability, in a
       namespace of one's own too. */
    if (access("/dev/net/tun", R_OK | W_OK) < 0) {
        error_set(err, ERROR_UNSUPPORTED, "this user cannot open /dev/net/tun, which pasta needs");
        return error_hint(err, "modprobe tun; chmod 666 /dev/net/tun");
    }
    return 0;
}

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Everything that follows up to keeper() runs between fork and exec, perhaps forked from a process
   with threads: no allocation, no stdio. */

/* Puts three descriptors on 0, 1 and 2, whatever numbers they have, and closes all others. */
static void keep_three(int a, int b, int c)
{
    int moved[] = {fcntl(a, F_DUPFD, 3), fcntl(b, F_DUPFD, 3), fcntl(c, F_DUPFD, 3)};
    for (int i = 0; i < 3; i++) {
        if (moved[i] < 0 || dup2(moved[i], i) < 0)
            _exit(127);
    }
    if (close_range(3, ~0u, 0) < 0)
        _exit(127);
}

__attribute__((noreturn)) static void exec_pasta(const struct launch *launch, pid_t keeper_pid)
{
    static char *const environment[] = {NULL};
    sigset_t none;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != keeper_pid)
        _exit(127);
    keep_three(open("/dev/null", O_RDONLY | O_CLOEXEC), launch->ready, launch->log);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(launch->path, launch->argv, environment);
    static const char failure[] = "it cannot be executed\n";
    if (write(STDERR_FILENO, failure, sizeof failure - 1) < 0)
        _exit(126);
    _exit(127);
}

__attribute__((noreturn)) static void keeper(const struct launch *launch)
{
    /* Away from the terminal's process group: an interrupt is for the session, not for its network.
     */
    setsid();
    signal(SIGCHLD, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigset_t blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGTERM);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    pid_t self = getpid();
    pid_t pasta = fork();
    if (pasta == 0)
        exec_pasta(launch, self);
    if (pasta < 0)
        _exit(127);
    keep_three(launch->session, launch->caller, open_pidfd(pasta));
    struct pollfd watched[3];
    for (int i = 0; i < 3; i++)
        watched[i] = (struct pollfd){.fd = i, .events = POLLIN};
    while (poll(watched, 3, -1) < 0 && errno == EINTR)
        ;
    kill(pasta, SIGKILL); /* not yet waited for, so the pid is still its own */
    waitpid(pasta, NULL, 0);
    _exit(0);
}

/* What pasta said last; it also complains when there is no system log, which is of no interest. */
static void last_line(int fd, char *ret, size_t size)
{
    char text[LOG_MAX];
    ssize_t got = read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    snprintf(ret, size, "it said nothing");
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        if (*line && strncmp(line, "Failed to send", 14) != 0)
            snprintf(ret, size, "%s", line);
    }
}

/* Its pid on the pipe means ready, the pipe's end that it gave up. */
static int await_ready(int ready, int log, struct error *err)
{
    int64_t deadline = (int64_t)clock_monotonic_ms() + READY_MS;
    for (;;) {
        struct pollfd pipe_end = {.fd = ready, .events = POLLIN};
        int64_t left = deadline - (int64_t)clock_monotonic_ms();
        int rc = poll(&pipe_end, 1, left > 0 ? (int)left : 0);
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc < 0)
            return error_errno(err, errno, "cannot wait for pasta");
        if (rc == 0)
            return error_set(err, ERROR_SYSTEM, "pasta was not ready in %d ms", READY_MS);
        char pid;
        if (read(ready, &pid, 1) == 1)
            return 0;
        char said[256];
        last_line(log, said, sizeof said);
        return error_set(err, ERROR_SYSTEM, "pasta: %s", said);
    }
}

/* Addresses, gateway and MAC are all given and "lo" stands in as the interface to copy from, so
   that it starts on a host without a default route too, and tells the session nothing about the
   host. No port is forwarded either way, and the gateway's address does not mean the host's
   loopback. */
/* clang-format off */
static const char *const options[] = {
    "pasta", "--quiet", "--foreground", "--pid", "/proc/self/fd/1",
    "--ipv4-only", "--config-net", "--ns-ifname", NET_INSIDE_NAME,
    "--interface", "lo", "--mac-addr", "02:62:6f:78:64:01",
    "--address", NET_PASTA_SELF, "--netmask", "31", "--gateway", NET_PASTA_GATE,
    "--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none",
    "--no-map-gw", "--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra",
    "--dns", "none", "--search", "none",
};
/* clang-format on */

static int launch_run(struct launch *launch, pid_t *ret_keeper, struct error *err)
{
    int ready[2];
    int log[2];
    if (pipe2(ready, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    cleanup_close int ready_end = ready[0];
    cleanup_close int ready_write = ready[1];
    if (pipe2(log, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    cleanup_close int log_end = log[0];
    cleanup_close int log_write = log[1];
    fcntl(log_end, F_SETFL, O_NONBLOCK); /* for the reason, not for its end */
    launch->ready = ready_write;
    launch->log = log_write;
    pid_t child = fork();
    if (child == 0)
        keeper(launch);
    if (child < 0)
        return error_errno(err, errno, "cannot fork");
    fd_clear(&ready_write);
    fd_clear(&log_write);
    if (await_ready(ready_end, log_end, err) < 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        return -1;
    }
    *ret_keeper = child;
    return 0;
}

int net_pasta_start(pid_t pid, bool outlive, pid_t *ret_pasta, struct error *err)
{
    char target[16];
    char *argv[ARRAY_SIZE(options) + 2] = {NULL};
    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        argv[i] = (char *)options[i];
    snprintf(target, sizeof target, "%d", (int)pid);
    argv[ARRAY_SIZE(options)] = target;

    if (net_pasta_available(err) < 0)
        return -1;
    struct launch launch = {.path = pasta_path(), .argv = argv};
    cleanup_close int session = open_pidfd(pid);
    /* Who is not to end with its caller watches the session twice. */
    cleanup_close int caller = open_pidfd(outlive ? pid : getpid());
    if (session < 0 || caller < 0)
        return error_errno(err, errno, "cannot watch the session's process %d", (int)pid);
    launch.session = session;
    launch.caller = caller;
    return launch_run(&launch, ret_pasta, err);
}
