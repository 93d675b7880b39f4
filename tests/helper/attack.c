/* SPDX-License-Identifier: Apache-2.0 */
/* The attacker inside: a static program that tries what ABUSE's cases try, from within a sandbox.
   It needs nothing of the root file system it finds itself in. */
#include "attack.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct attack *const tables[] = {
    attacks_files, attacks_kernel, attacks_process, attacks_resource, attacks_network,
};
#define TABLES (sizeof tables / sizeof tables[0])

/* clang-format off */
#define ERRNOS(X)                                                                                  \
    X(E2BIG) X(EACCES) X(EADDRINUSE) X(EADDRNOTAVAIL) X(EAFNOSUPPORT) X(EAGAIN) X(EBADF) X(EBUSY)  \
    X(ECHILD) X(ECONNREFUSED) X(ECONNRESET) X(EDQUOT) X(EEXIST) X(EFAULT) X(EFBIG) X(EHOSTUNREACH) \
    X(EINTR) X(EINVAL) X(EIO) X(EISDIR) X(ELOOP) X(EMFILE) X(ENAMETOOLONG) X(ENETUNREACH)          \
    X(ENFILE) X(ENODEV) X(ENOENT) X(ENOEXEC) X(ENOMEM) X(ENOPROTOOPT) X(ENOSPC) X(ENOSYS)          \
    X(ENOTDIR) X(ENOTSOCK) X(ENOTTY) X(ENXIO) X(EOPNOTSUPP) X(EOVERFLOW) X(EPERM) X(EPIPE)         \
    X(EPROTONOSUPPORT) X(EROFS) X(ESOCKTNOSUPPORT) X(ESRCH) X(ESTALE) X(ETIMEDOUT) X(ETXTBSY)      \
    X(EXDEV)
/* clang-format on */

const char *errno_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } known[] = {
#define X(name) {name, #name},
        ERRNOS(X)
#undef X
    };
    static char text[16];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].number == number)
            return known[i].name;
    }
    snprintf(text, sizeof text, "E%d", number);
    return text;
}

/* Written at once: several processes of one attack may talk. */
static void say(long rc, int errnum, const char *label, const char *detail)
{
    printf("RESULT %s %s%s%s\n", label, rc < 0 ? errno_name(errnum) : "OK", *detail ? " " : "",
           detail);
    fflush(stdout);
}

void result(long rc, const char *label, ...)
{
    int errnum = errno;
    char text[4096];
    va_list args;
    va_start(args, label);
    vsnprintf(text, sizeof text, label, args);
    va_end(args);
    say(rc, errnum, text, "");
}

void result_detail(long rc, const char *label, const char *format, ...)
{
    int errnum = errno;
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say(rc, errnum, label, text);
}

void broken(const char *what)
{
    printf("BROKEN %s: %s\n", what, errno_name(errno));
    fflush(stdout);
    exit(99);
}

static int usage(void)
{
    for (size_t i = 0; i < TABLES; i++) {
        for (const struct attack *at = tables[i]; at->name; at++)
            fprintf(stderr, "attack %s %s\n", at->name, at->usage);
    }
    return 98;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < TABLES && argc > 1; i++) {
        for (const struct attack *at = tables[i]; at->name; at++) {
            if (strcmp(at->name, argv[1]) == 0)
                return at->run(argc - 2, argv + 2);
        }
    }
    return usage();
}
