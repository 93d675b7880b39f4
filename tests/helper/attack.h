/* SPDX-License-Identifier: Apache-2.0 */
/* The attacker inside: what its parts share. Each attack prints one line a try,

     RESULT label OK|ERRNO [detail]

   and leaves the judging to the test that started it. */
#pragma once

#include <stddef.h>

struct attack {
    const char *name;
    int (*run)(int argc, char **argv); /* arguments after the name; the exit status */
    const char *usage;
};

/* A try that returned `rc` as system calls do: its errno by name if it is negative, else OK. */
void result(long rc, const char *label, ...) __attribute__((format(printf, 2, 3)));
/* The same, with more to say. */
void result_detail(long rc, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *errno_name(int number);
/* Ends the program: the attack itself went wrong, which is never a pass. */
void broken(const char *what) __attribute__((noreturn));

/* One table a file; each ends with an empty entry. */
extern const struct attack attacks_files[];
extern const struct attack attacks_kernel[];
extern const struct attack attacks_process[];
extern const struct attack attacks_resource[];
extern const struct attack attacks_network[];
