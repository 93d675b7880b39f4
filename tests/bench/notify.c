/* SPDX-License-Identifier: Apache-2.0 */
/* Daemons that say when they are ready, as they would to systemd. */
#include "notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common.h"
#include "core/fd.h"
#include "core/mem.h"
#include "stats.h"

static int listen_for(char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        bench_fail("%s: %s", path, strerror(errno));
    return fd;
}

static pid_t start(char *const *argv, const char *log, const char *notify)
{
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(null_fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(126);
    setpgid(0, 0); /* what a terminal sends is not for it */
    setenv("NOTIFY_SOCKET", notify, 1);
    execv(argv[0], argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static bool is_ready(int fd)
{
    char text[1024];
    ssize_t size = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (size <= 0)
        return false;
    text[size] = '\0';
    return strstr(text, "READY=1") != NULL;
}

bool start_and_wait_ready(char *const *argv, const char *log, int within_sec, struct started *ret)
{
    cleanup_free char *path = xasprintf("%s/notify", bench.directory);
    cleanup_close int fd = listen_for(path);
    uint64_t begun = clock_ns();
    ret->pid = start(argv, log, path);
    cleanup_close int pidfd = (int)syscall(SYS_pidfd_open, ret->pid, 0);
    struct pollfd polled[] = {{.fd = fd, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    uint64_t end = begun + (uint64_t)within_sec * 1000000000u;
    bool ready = false;
    while (!ready && clock_ns() < end) {
        int left = (int)((end - clock_ns()) / 1000000) + 1;
        if (poll(polled, 2, left) > 0 && (polled[1].revents & POLLIN))
            break;
        ready = (polled[0].revents & POLLIN) && is_ready(fd);
    }
    ret->ready_ms = (double)(clock_ns() - begun) / 1e6;
    if (!ready)
        stop_and_wait(ret->pid, 5);
    return ready;
}

bool stop_and_wait(pid_t pid, int within_sec)
{
    cleanup_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    kill(pid, SIGINT);
    bool gone = poll(&polled, 1, within_sec * 1000) > 0;
    if (!gone)
        kill(pid, SIGKILL);
    return wait_for(pid) && gone;
}
