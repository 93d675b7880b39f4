/* SPDX-License-Identifier: Apache-2.0 */
/* What every part of the benchmark uses. */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "core/mem.h"

extern char **environ;

struct bench bench;
int null_fd = -1;

char *const bare_shell[] = {(char *)"/bin/sh", (char *)"-c", (char *)"true", NULL};

void bench_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

pid_t spawn_with(char *const *argv, int in, int out, int err)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    int rc = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0)
        bench_fail("%s: %s", argv[0], strerror(rc));
    return pid;
}

bool wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void spawn_and_wait(char *const *argv)
{
    if (!wait_for(spawn_with(argv, null_fd, null_fd, null_fd)))
        bench_fail("%s failed; run it by hand to see why", argv[0]);
}

bool spawn_logged(char *const *argv, const char *log)
{
    cleanup_close int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        bench_fail("%s: %s", log, strerror(errno));
    return wait_for(spawn_with(argv, null_fd, fd, fd));
}

const char *last_line(const char *path)
{
    static char line[512];
    char next[512];
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    while (file && fgets(next, sizeof next, file)) {
        next[strcspn(next, "\n")] = '\0';
        if (next[0])
            memcpy(line, next, sizeof line);
    }
    if (file)
        fclose(file);
    return line;
}
