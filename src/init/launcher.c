/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of a lane: a process that already has everything a command needs to be born with
   (its cgroup, its system call filter, no privilege), so that starting one costs a vfork and an
   exec.

   It talks to the caller alone. One command at a time: LANE_EXEC, LANE_STARTED, wait, LANE_EXITED.
   The child shares its memory until exec, so nothing here may be touched by it that the launcher
   still needs; signals are blocked throughout. A command that kills its launcher (it has the same
   user) only loses its own lane: the caller sees the socket end. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "core/fd.h"
#include "init/init.h"
#include "init/messages.h"

struct request {
    struct lane_exec head;
    char strings[LANE_INLINE_MAX];
};

struct child {
    char **argv;
    char **envp;
    int fds[3];
    bool terminal;
    volatile int errnum;
};

static struct request request;
static char *pointers[LANE_ARGS_MAX + 2];
static char child_stack[64 * 1024] __attribute__((aligned(16)));

static int filter_install(const struct filter *filter)
{
    struct sock_fprog program = {.len = filter->count,
                                 .filter = (struct sock_filter *)filter->code};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static int make_directories(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part)
        return -ENAMETOOLONG;
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return -errno;
        part[i] = kept;
    }
    return 0;
}

/* Where we end up must have a name inside the sandbox. (A magic link such as /proc/self/fd/N could
   lead out of it only through a descriptor of a directory outside: this process has none.) */
static int enter_directory(const char *path, bool make)
{
    char where[PATH_MAX];
    if (path[0] != '/')
        return -EINVAL;
    if (chdir(path) < 0) {
        if (errno != ENOENT || !make)
            return -errno;
        int rc = make_directories(path);
        if (rc < 0)
            return rc;
        if (chdir(path) < 0)
            return -errno;
    }
    if (!getcwd(where, sizeof where))
        return -errno;
    return where[0] == '/' ? 0 : -EXDEV;
}

/* A terminal of the sandbox's own devpts. */
static int open_terminal(const struct lane_exec *head, int *ret_master, int *ret_slave)
{
    int unlock = 0;
    struct winsize size = {.ws_row = head->rows, .ws_col = head->columns};
    cleanup_close int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        return -errno;
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return -errno;
    if (head->rows > 0 && head->columns > 0)
        ioctl(master, TIOCSWINSZ, &size);
    *ret_master = steal_fd(&master);
    *ret_slave = slave;
    return 0;
}

static const char *find_variable(char **envp, const char *name)
{
    size_t length = strlen(name);
    for (; *envp; envp++) {
        if (strncmp(*envp, name, length) == 0 && (*envp)[length] == '=')
            return *envp + length + 1;
    }
    return NULL;
}

/* As a shell looks for it: EACCES is remembered, a missing one is passed over. */
static int exec_by_path(struct child *child)
{
    const char *name = child->argv[0];
    const char *path = find_variable(child->envp, "PATH");
    char full[PATH_MAX];
    int worst = ENOENT;
    if (strchr(name, '/')) {
        execve(name, child->argv, child->envp);
        return errno;
    }
    size_t name_length = strlen(name);
    for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; name_length > 0;) {
        size_t length = strcspn(at, ":");
        if (length > 0 && length + name_length + 2 <= sizeof full) {
            memcpy(full, at, length);
            full[length] = '/';
            memcpy(full + length + 1, name, name_length + 1);
            execve(full, child->argv, child->envp);
            if (errno == EACCES)
                worst = EACCES;
            else if (errno != ENOENT && errno != ENOTDIR)
                return errno;
        }
        if (at[length] == '\0')
            break;
        at += length + 1;
    }
    return worst;
}

static int child_main(void *argument)
{
    struct child *child = argument;
    sigset_t none;
    setsid();
    for (int i = 0; i < 3; i++) {
        if (dup2(child->fds[i], i) < 0)
            goto fail;
    }
    if (child->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        goto fail;
    syscall(SYS_close_range, 3, ~0U, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    errno = exec_by_path(child);
fail:
    child->errnum = errno ? errno : EIO;
    _exit(127);
}

static void send_started(int sock, int errnum, enum lane_stage stage, int pid, int master)
{
    struct lane_started started = {
        .type = LANE_STARTED, .errnum = errnum, .stage = stage, .pid = pid};
    fd_send(sock, &started, sizeof started, &master, master >= 0);
}

/* dup2 onto 0, 1, 2 must not tread on a source that sits there: the launcher's own three are
   /dev/null, so received descriptors are always above. */
static void run(int sock, const char *cwd, struct child *child, const struct lane_exec *head)
{
    cleanup_close int master = -1;
    cleanup_close int slave = -1;
    int rc = enter_directory(cwd, head->flags & LANE_MAKE_CWD);
    if (rc < 0) {
        send_started(sock, -rc, LANE_STAGE_CWD, 0, -1);
        return;
    }
    if (child->terminal) {
        rc = open_terminal(head, &master, &slave);
        if (rc < 0) {
            send_started(sock, -rc, LANE_STAGE_PTY, 0, -1);
            return;
        }
        child->fds[0] = child->fds[1] = child->fds[2] = slave;
    }
    int pid = clone(child_main, child_stack + sizeof child_stack, CLONE_VM | CLONE_VFORK | SIGCHLD,
                    child);
    if (pid < 0) {
        send_started(sock, errno, LANE_STAGE_FORK, 0, -1);
        return;
    }
    if (child->errnum) {
        waitpid(pid, NULL, 0);
        send_started(sock, child->errnum, LANE_STAGE_EXEC, 0, -1);
        return;
    }
    /* The command's ends must be its alone, or its output would never end. */
    for (int i = 0; i < 3 && !child->terminal; i++)
        fd_clear(&child->fds[i]);
    fd_clear(&slave);
    send_started(sock, 0, LANE_STAGE_NONE, pid, master);
    fd_clear(&master);

    struct rusage usage;
    struct lane_exited exited = {.type = LANE_EXITED};
    while (wait4(pid, &exited.status, 0, &usage) < 0 && errno == EINTR)
        ;
    exited.cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                    (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    exited.max_rss = (uint64_t)usage.ru_maxrss * 1024;
    fd_send(sock, &exited, sizeof exited, NULL, 0);
}

/* The strings of a large request. Sealed, because strlen() must not run past a file that shrinks
 * under it. */
static char *map_strings(int fd, size_t size)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_WRITE) || fstat(fd, &st) < 0 ||
        st.st_size < (off_t)size)
        return NULL;
    void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void handle(int sock, size_t size, int *fds, size_t fd_count)
{
    const struct lane_exec head = request.head;
    struct child child = {.argv = pointers, .fds = {-1, -1, -1}};
    const char *cwd;
    char *strings = request.strings;
    char *mapped = NULL;
    if (!lane_exec_valid(&head, size, fd_count))
        goto refuse;
    if (head.flags & LANE_IN_MEMFD) {
        strings = mapped = map_strings(fds[fd_count - 1], head.size);
        if (!mapped)
            goto refuse;
    }
    if (lane_exec_split(strings, &head, pointers, &cwd, &child.envp) < 0)
        goto refuse;
    child.terminal = head.flags & LANE_PTY;
    for (size_t i = 0; i < 3 && !child.terminal; i++)
        child.fds[i] = steal_fd(&fds[i]);
    run(sock, cwd, &child, &head);
    for (size_t i = 0; i < 3 && !child.terminal; i++)
        fd_clear(&child.fds[i]);
    if (mapped)
        munmap(mapped, head.size);
    return;
refuse:
    send_started(sock, EPROTO, LANE_STAGE_REQUEST, 0, -1);
    if (mapped)
        munmap(mapped, head.size);
}

void launcher_run(const struct filter *filter, int sock, int listener_sock)
{
    int fds[4];
    char byte = 0;
    prctl(PR_SET_NAME, "box-launcher");
    int listener = filter_install(filter);
    if (listener < 0 || fd_send(listener_sock, &byte, 1, &listener, 1) < 0)
        _exit(1);
    close(listener);
    close(listener_sock);
    for (;;) {
        size_t fd_count = sizeof fds / sizeof fds[0];
        ssize_t size = fd_receive(sock, &request, sizeof request, fds, &fd_count, 0);
        if (size == -EMSGSIZE || size == -EMFILE) {
            send_started(sock, (int)-size, LANE_STAGE_REQUEST, 0, -1);
            continue;
        }
        if (size <= 0)
            _exit(0);
        handle(sock, (size_t)size, fds, fd_count);
        for (size_t i = 0; i < fd_count; i++)
            fd_clear(&fds[i]);
    }
}
