/* SPDX-License-Identifier: Apache-2.0 */
/* box-init as a sealed memfd: nobody, root included, can change what runs in later sessions. */
#include "sandbox/init-binary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fd.h"

#ifndef BOX_LIBEXECDIR
#define BOX_LIBEXECDIR "/usr/local/libexec/boxd"
#endif

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

#define INIT_BINARY_MAX (4u * 1024 * 1024)

static int init_binary_open(const char *given, struct error *err)
{
    char path[PATH_MAX];
    if (given) {
        int fd = open(given, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? error_errno(err, errno, "cannot open %s", given) : fd;
    }
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "/box-init");
    if (length > 0) {
        path[length] = '\0';
        char *slash = strrchr(path, '/');
        memcpy(slash, "/box-init", sizeof "/box-init");
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    int fd = open(BOX_LIBEXECDIR "/box-init", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    error_errno(err, errno, "cannot find box-init beside this program or in %s", BOX_LIBEXECDIR);
    return error_hint(err, "make install, or run box from the build directory");
}

int init_binary_load(const char *given, struct error *err)
{
    static char data[64 * 1024];
    cleanup_close int from = init_binary_open(given, err);
    if (from < 0)
        return -1;
    cleanup_close int to = memfd_create("box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (to < 0 && errno == EINVAL) /* kernels before 6.3 do not know the flag */
        to = memfd_create("box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (to < 0)
        return error_errno(err, errno, "cannot make a memfd for box-init");
    size_t total = 0;
    ssize_t n;
    while ((n = read(from, data, sizeof data)) > 0) {
        total += (size_t)n;
        if (total > INIT_BINARY_MAX || fd_write_all(to, data, (size_t)n) < 0)
            return error_set(err, ERROR_LIMIT, "box-init is too large");
    }
    /* Not readable, so that the kernel keeps the process undumpable from its first moment. */
    if (n < 0 || fchmod(to, 0111) < 0 ||
        fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, errno, "cannot load box-init");
    return steal_fd(&to);
}
