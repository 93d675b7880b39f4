/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on what there is only so much of: processes, memory, disk, descriptors, output. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

#define CHUNK (1u << 20)

static char chunk[CHUNK];

static int attack_fork_count(int argc, char **argv)
{
    int most = argc > 0 ? atoi(argv[0]) : 10000;
    pid_t *pids = calloc((size_t)most, sizeof *pids);
    int count = 0;
    int errnum = 0;
    while (pids && count < most) {
        pid_t pid = fork();
        if (pid == 0) {
            for (;;)
                pause();
        }
        if (pid < 0) {
            errnum = errno;
            break;
        }
        pids[count++] = pid;
    }
    errno = errnum;
    result_detail(errnum ? -1 : 0, "fork", "count=%d", count);
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    return 1;
}

/* The real one: every process forks for ever. */
static int attack_fork_bomb(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    for (;;) {
        if (fork() < 0)
            sched_yield();
    }
    return 0;
}

static void eat_memory(void)
{
    for (;;) {
        char *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            result(-1, "mmap");
            _exit(5);
        }
        for (size_t i = 0; i < CHUNK; i += 4096)
            p[i] = 1;
    }
}

/* `tree`: a child does it, its parent and siblings look on; they must go too. */
static int attack_memory_bomb(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "tree") == 0) {
        for (int i = 0; i < 3; i++) {
            pid_t pid = fork();
            if (pid == 0 && i == 2)
                eat_memory();
            if (pid == 0)
                break;
        }
        for (;;)
            pause();
    }
    eat_memory();
    return 0;
}

/* Writes until it may not. */
static int attack_fill(int argc, char **argv)
{
    unsigned long long most = argc > 1 ? strtoull(argv[1], NULL, 10) : 1ULL << 36;
    unsigned long long written = 0;
    if (argc < 1)
        broken("fill FILE [BYTES]");
    memset(chunk, 'x', sizeof chunk);
    int fd = open(argv[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        result_detail(-1, "open", "bytes=0");
        return 1;
    }
    ssize_t n = 0;
    while (written < most && (n = write(fd, chunk, sizeof chunk)) > 0)
        written += (unsigned long long)n;
    result_detail(n, "write", "bytes=%llu", written);
    return n < 0;
}

static int attack_fill_memfd(int argc, char **argv)
{
    unsigned long long most = argc > 0 ? strtoull(argv[0], NULL, 10) : 1ULL << 36;
    unsigned long long written = 0;
    memset(chunk, 'x', sizeof chunk);
    int fd = (int)syscall(SYS_memfd_create, "fill", 0);
    ssize_t n = fd;
    while (n >= 0 && written < most && (n = write(fd, chunk, sizeof chunk)) > 0)
        written += (unsigned long long)n;
    result_detail(n, "write", "bytes=%llu", written);
    return n < 0;
}

/* What is full takes no more: as many bytes as it will have without waiting. */
static size_t stuff(int fd)
{
    size_t total = 0;
    ssize_t n;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while ((n = write(fd, chunk, 65536)) > 0)
        total += (size_t)n;
    return total;
}

static long hold_sysv(void)
{
    int id = shmget(IPC_PRIVATE, CHUNK, IPC_CREAT | 0600);
    char *at = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
    if (at == (char *)-1)
        return -1;
    memset(at, 'x', CHUNK);
    shmdt(at);
    return CHUNK;
}

static long hold_sockets(void)
{
    int pair[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ? -1 : (long)stuff(pair[0]);
}

static long hold_pipes(void)
{
    int ends[2];
    return pipe(ends) < 0 ? -1 : (long)stuff(ends[1]);
}

static long hold_queues(void)
{
    static int id = -1;
    struct {
        long type;
        char text[4096];
    } message = {.type = 1};
    if (id < 0 || msgsnd(id, &message, sizeof message.text, IPC_NOWAIT) < 0)
        id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    return id < 0 ? -1 : (long)sizeof message.text;
}

/* Memory that is the kernel's, kept for the one who asked: nothing of it shows in a process's size.
 */
static int attack_fill_kernel(int argc, char **argv)
{
    static const struct {
        const char *name;
        long (*hold)(void);
    } kinds[] = {{"sysv", hold_sysv},
                 {"sockets", hold_sockets},
                 {"pipes", hold_pipes},
                 {"queues", hold_queues}};
    unsigned long long most = argc > 1 ? strtoull(argv[1], NULL, 10) : 1ULL << 30;
    unsigned long long held = 0;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (size_t i = 0; argc > 0 && i < sizeof kinds / sizeof kinds[0]; i++) {
        long n = 0;
        if (strcmp(argv[0], kinds[i].name) != 0)
            continue;
        while (held < most && (n = kinds[i].hold()) > 0)
            held += (unsigned long long)n;
        result_detail(n, "held", "bytes=%llu", held);
        return n < 0;
    }
    broken("fill-kernel KIND");
}

static int attack_fill_inodes(int argc, char **argv)
{
    int most = argc > 1 ? atoi(argv[1]) : 10000000;
    int made = 0;
    int fd = 0;
    if (argc < 1)
        broken("fill-inodes DIRECTORY [COUNT]");
    while (made < most) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", argv[0], made);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            break;
        close(fd);
        made++;
    }
    result_detail(fd, "create", "count=%d", made);
    return fd < 0;
}

static int open_all(void)
{
    int count = 0;
    while (open("/dev/null", O_RDONLY) >= 0)
        count++;
    return count;
}

/* All that the soft limit allows, then all that the hard one does. */
static int attack_open_files(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct rlimit limit;
    int soft = open_all();
    result_detail(-1, "soft", "count=%d", soft);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int hard = open_all();
    result_detail(-1, "hard", "count=%d", soft + hard);
    limit.rlim_max = limit.rlim_cur = limit.rlim_max * 2;
    result(setrlimit(RLIMIT_NOFILE, &limit), "raise");
    return 0;
}

/* Exactly so many bytes on standard output, or without end. */
static int attack_output(int argc, char **argv)
{
    unsigned long long left = argc > 0 ? strtoull(argv[0], NULL, 10) : ~0ULL;
    for (size_t i = 0; i < sizeof chunk; i++)
        chunk[i] = i % 64 == 63 ? '\n' : (char)('0' + i % 64 % 10);
    while (left > 0) {
        ssize_t n = write(1, chunk, left < sizeof chunk ? (size_t)left : sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return 1;
        left -= (unsigned long long)n;
    }
    return 0;
}

const struct attack attacks_resource[] = {
    {"fork-count", attack_fork_count, "[MOST]"},
    {"fork-bomb", attack_fork_bomb, ""},
    {"memory-bomb", attack_memory_bomb, "[tree]"},
    {"fill", attack_fill, "FILE [BYTES]"},
    {"fill-memfd", attack_fill_memfd, "[BYTES]"},
    {"fill-kernel", attack_fill_kernel, "sysv|sockets|pipes|queues [BYTES]"},
    {"fill-inodes", attack_fill_inodes, "DIRECTORY [COUNT]"},
    {"open-files", attack_open_files, ""},
    {"output", attack_output, "[BYTES]"},
    {0},
};
