/* SPDX-License-Identifier: Apache-2.0 */
/* A file that takes its place when it is whole. */
#include "cli/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

static struct {
    int dir;
    char name[64];
    volatile sig_atomic_t there;
} unfinished;

void unfinished_remove(void)
{
    if (unfinished.there)
        unlinkat(unfinished.dir, unfinished.name, 0);
    unfinished.there = 0;
}

static void on_end(int number)
{
    unfinished_remove();
    raise(number);
}

static void guard(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static bool done;
    const struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; !done && i < ARRAY_SIZE(ends); i++) {
        struct sigaction old;
        /* nohup(1) and background jobs have some ignored. */
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ends[i], &action, NULL);
    }
    done = true;
}

int unfinished_open(int dir)
{
    static unsigned counter;
    snprintf(unfinished.name, sizeof unfinished.name, ".box-cp.%d.%u", (int)getpid(), counter++);
    unfinished.dir = dir;
    guard();
    int fd =
        openat(dir, unfinished.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    unfinished.there = fd >= 0;
    return fd;
}

int unfinished_place(int fd, const char *entry, unsigned mode)
{
    if (fchmod(fd, mode) < 0 ||
        renameat(unfinished.dir, unfinished.name, unfinished.dir, entry) < 0) {
        int errnum = errno;
        unfinished_remove();
        errno = errnum;
        return -1;
    }
    unfinished.there = 0;
    return 0;
}
