/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on other processes: init, the launcher, and whoever waits for this one to end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"

static void pause_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *sit(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

/* To be looked at from outside. */
static int attack_hold(int argc, char **argv)
{
    int threads = argc > 0 ? atoi(argv[0]) : 0;
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sit, NULL) != 0)
            broken("pthread_create");
    }
    puts("READY");
    fflush(stdout);
    sit(NULL);
    return 0;
}

/* Who this process is: for copies of this program that are setuid or carry capabilities. */
static int attack_ids(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    unsigned r, e, s;
    char line[256];
    syscall(SYS_getresuid, &r, &e, &s);
    result_detail(0, "uid", "%u %u %u", r, e, s);
    syscall(SYS_getresgid, &r, &e, &s);
    result_detail(0, "gid", "%u %u %u", r, e, s);
    FILE *in = fopen("/proc/self/status", "r");
    while (in && fgets(line, sizeof line, in)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "Cap", 3) != 0 || !colon)
            continue;
        *colon = '\0';
        result_detail(0, line, "%.16s", colon + 2);
    }
    result(syscall(SYS_setresuid, 0, 0, 0), "setresuid");
    result(syscall(SYS_setresgid, 0, 0, 0), "setresgid");
    return 0;
}

static void try_trace(const char *name, pid_t pid)
{
    static const char *const files[] = {"mem", "maps", "environ",  "root",  "cwd",
                                        "exe", "fd/3", "ns/mnt",   "stack", "auxv",
                                        "io",  "fd",   "map_files"};
    char path[64];
    char byte;
    struct iovec local = {&byte, 1};
    struct iovec remote = {(void *)0x400000, 1};
    /* Seizing stops nobody, so it is safe to succeed. */
    long rc = syscall(SYS_ptrace, PTRACE_SEIZE, pid, 0, 0);
    result(rc, "%s.seize", name);
    if (rc == 0)
        syscall(SYS_ptrace, PTRACE_DETACH, pid, 0, 0);
    result(syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0), "%s.vm_readv", name);
    long pidfd = syscall(434 /* pidfd_open */, pid, 0);
    result(pidfd < 0 ? -1 : syscall(438 /* pidfd_getfd */, pidfd, 3, 0), "%s.getfd", name);
    result(syscall(SYS_kcmp, getpid(), pid, 2, 0, 0), "%s.kcmp", name);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, files[i]);
        result(
            open(path, (strcmp(files[i], "mem") == 0 ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK),
            "%s.%s", name, files[i]);
    }
}

static int attack_trace(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    try_trace("init", 1);
    try_trace("launcher", getppid());
    /* And one's own child, to know whether tracing is to be had at all. */
    pid_t child = fork();
    if (child == 0)
        sit(NULL);
    long rc = syscall(SYS_ptrace, PTRACE_SEIZE, child, 0, 0);
    result(rc, "child.seize");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

/* PID 1 must survive all of it. */
static int attack_signals(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const int signals[] = {SIGTERM, SIGINT, SIGSTOP, SIGKILL,
                                  SIGSEGV, SIGHUP, SIGUSR1, SIGCHLD};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        result(kill(1, signals[i]), "kill.%d", signals[i]);
    pause_ms(200);
    /* init still answers: it has to, for a denied call to return. */
    result(syscall(SYS_unshare, 0x10000000L), "denied-call");
    result(kill(1, 0), "init.alive");
    return 0;
}

/* Does to its own launcher whatever a process of the same user may. */
static int attack_launcher(int argc, char **argv)
{
    pid_t launcher = getppid();
    const char *how = argc > 0 ? argv[0] : "kill";
    if (strcmp(how, "kill") == 0) {
        result(kill(launcher, SIGKILL), "kill");
    } else if (strcmp(how, "stop") == 0) {
        result(kill(launcher, SIGSTOP), "stop");
    } else {
        struct rlimit none = {0, 0};
        result(prlimit(1, RLIMIT_NOFILE, &none, NULL), "init.nofile");
        result(prlimit(launcher, RLIMIT_NOFILE, &none, NULL), "launcher.nofile");
        result(prlimit(1, RLIMIT_NPROC, &none, NULL), "init.nproc");
        result(prlimit(launcher, RLIMIT_NPROC, &none, NULL), "launcher.nproc");
        result(setpriority(PRIO_PROCESS, 1, 19), "init.nice");
    }
    if (argc > 1 && strcmp(argv[1], "stay") == 0)
        sit(NULL);
    return 3;
}

static void ignore_all(void)
{
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
}

/* Two forks, a session of its own, deaf to every signal, holding on to standard output; then the
   first process does the same and stays. The last argument is only there to be found in /proc. */
static int attack_daemon(int argc, char **argv)
{
    (void)argv;
    if (argc != 1)
        broken("daemon TOKEN");
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid < 0)
            broken("fork");
        if (pid > 0) {
            waitpid(pid, NULL, 0);
            continue;
        }
        setsid();
        if (fork() > 0)
            _exit(0);
        setsid();
        ignore_all();
        /* Forks on, so that killing by a list of pids would run behind. */
        for (;;) {
            pid_t next = fork();
            if (next > 0)
                _exit(0);
            pause_ms(1);
        }
    }
    ignore_all();
    puts("READY");
    fflush(stdout);
    sit(NULL);
    return 0;
}

static int count_zombies(void)
{
    int zombies = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        broken("/proc");
    for (struct dirent *at; (at = readdir(dir));) {
        char path[300];
        char text[512];
        snprintf(path, sizeof path, "/proc/%s/stat", at->d_name);
        int fd = at->d_name[0] >= '0' && at->d_name[0] <= '9' ? open(path, O_RDONLY) : -1;
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            close(fd);
        if (n <= 0)
            continue;
        text[n] = '\0';
        const char *end = strrchr(text, ')');
        zombies += end && end[1] == ' ' && end[2] == 'Z';
    }
    closedir(dir);
    return zombies;
}

/* Orphans by the thousand: init must reap each, or the process limit is soon reached. */
static int attack_orphans(int argc, char **argv)
{
    int wanted = argc > 0 ? atoi(argv[0]) : 10000;
    int made = 0;
    int refused = 0;
    while (made < wanted) {
        pid_t pid = fork();
        if (pid == 0) {
            pid_t orphan = fork();
            _exit(orphan < 0);
        }
        int status = 1 << 8;
        if (pid > 0)
            waitpid(pid, &status, 0);
        if (pid > 0 && WEXITSTATUS(status) == 0) {
            made++;
            refused = 0;
        } else if (++refused > 2000) { /* init does not keep up at all */
            break;
        } else {
            pause_ms(1);
        }
    }
    int zombies = count_zombies();
    for (int i = 0; i < 100 && zombies > 0; i++) {
        pause_ms(50);
        zombies = count_zombies();
    }
    result_detail(0, "orphans", "made=%d zombies=%d", made, zombies);
    return 0;
}

/* Leaves a child behind that has standard output, and ends. */
static int attack_background(int argc, char **argv)
{
    (void)argv;
    if (argc != 1)
        broken("background TOKEN");
    pid_t pid = fork();
    if (pid == 0)
        sit(NULL);
    puts("DONE");
    return 0;
}

/* Dies with a core, if it may. */
static int attack_crash(int argc, char **argv)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    const char *how = argc > 0 ? argv[0] : "abort";
    result(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable");
    result(setrlimit(RLIMIT_CORE, &all), "limit");
    if (strcmp(how, "segv") == 0)
        raise(SIGSEGV);
    signal(SIGABRT, SIG_DFL);
    abort();
}

/* oom_score_adj below what it was born with. */
static int attack_oom_score(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    result(fd < 0 ? -1 : write(fd, "-1000", 5), "self");
    fd = open("/proc/1/oom_score_adj", O_WRONLY | O_CLOEXEC);
    result(fd < 0 ? -1 : write(fd, "-1000", 5), "init");
    return 0;
}

const struct attack attacks_process[] = {
    {"hold", attack_hold, "[THREADS]"},
    {"ids", attack_ids, ""},
    {"trace", attack_trace, "init, the launcher, a child"},
    {"signals", attack_signals, "every deadly signal to init"},
    {"launcher", attack_launcher, "kill|stop|limits [stay]"},
    {"daemon", attack_daemon, "TOKEN"},
    {"orphans", attack_orphans, "[COUNT]"},
    {"background", attack_background, "TOKEN"},
    {"crash", attack_crash, "abort|segv"},
    {"oom-score", attack_oom_score, ""},
    {0},
};
