/* SPDX-License-Identifier: Apache-2.0 */
/* Ends what the benchmark started, whatever becomes of the benchmark.

   Daemons that lose their parent become children of the nearest subreaper above, which is the
   guard. So it knows them without a list, also those that went into the background, and signals
   nobody else's. SIGINT comes first: it makes boxd end its sessions too. */
#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "core/mem.h"

#define GENTLY_SEC 30

static volatile sig_atomic_t interrupted;
static pid_t worker;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
    if (worker > 0)
        kill(worker, SIGKILL);
}

static void on_alarm(int number)
{
    (void)number;
}

static void signal_children(int number)
{
    cleanup_free char *path = xasprintf("/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    int pid;
    while (file && fscanf(file, "%d", &pid) == 1)
        kill(pid, number);
    if (file)
        fclose(file);
}

static void end_children(void)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART: wait() is to return */
    int number = SIGINT;
    sigaction(SIGALRM, &action, NULL);
    signal_children(number);
    alarm(GENTLY_SEC);
    for (;;) {
        pid_t pid = wait(NULL);
        if (pid < 0 && errno == ECHILD)
            break;
        if (pid <
            0) { /* the alarm: no longer gently, again and again, as children leave children */
            number = SIGKILL;
            alarm(1);
        }
        if (number == SIGKILL)
            signal_children(number);
    }
    alarm(0);
}

static void remove_directory(const char *path)
{
    char *argv[] = {(char *)"/bin/rm", (char *)"-rf", (char *)"--one-file-system", (char *)path,
                    NULL};
    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static char *make_directory(const char *parent)
{
    char *path = xasprintf("%s/box-bench-XXXXXX", parent);
    if (!mkdtemp(path))
        bench_fail("cannot make %s", path);
    chmod(path, 0711); /* boxd's front, which is not root, has its own inside */
    return path;
}

static const char *memory_directory(void)
{
    static const char *const places[] = {"/run", "/dev/shm"};
    struct statfs fs;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (statfs(places[i], &fs) == 0 && fs.f_type == TMPFS_MAGIC && access(places[i], W_OK) == 0)
            return places[i];
    return "/tmp";
}

void guard_start(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    int status = 0;
    bench.directory = make_directory("/tmp");
    bench.run_directory = make_directory(memory_directory());
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    worker = fork();
    if (worker < 0)
        bench_fail("cannot fork");
    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0); /* ^C is for the guard */
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        signal(signals[i], on_signal);
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
        ;
    worker = 0;
    end_children();
    remove_directory(bench.directory);
    remove_directory(bench.run_directory);
    exit(interrupted ? 130 : WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
