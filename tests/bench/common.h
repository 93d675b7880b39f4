/* SPDX-License-Identifier: Apache-2.0 */
/* What every part of the benchmark uses. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct bench {
    const char *box;  /* the programs that were just built */
    const char *boxd; /* NULL: there is none */
    const char *directory;
    const char
        *run_directory; /* in memory, as /run is on most machines, if there is such a place */
    int rounds;
};

extern struct bench bench;
extern int null_fd;

/* Says why and ends; what was started is ended by the guard. */
void bench_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* With standard input, output and error on the null device; anything but success is fatal. */
void spawn_and_wait(char *const *argv);
/* The same; returns whether it succeeded. Output goes to a file of the benchmark's directory. */
bool spawn_logged(char *const *argv, const char *log);
/* posix_spawn with these three descriptors. */
pid_t spawn_with(char *const *argv, int in, int out, int err);
bool wait_for(pid_t pid);

/* The last line of a log, for a message; "" if there is none. */
const char *last_line(const char *path);

extern char *const bare_shell[]; /* /bin/sh -c true */
