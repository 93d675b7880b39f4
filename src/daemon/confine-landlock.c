/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: which files the front can still open. By raw system calls, and with the constants of
   kernels newer than the headers: what is asked for is cut down to what the running kernel knows.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fd.h"
#include "daemon/confine.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH      1

/* struct landlock_ruleset_attr and landlock_path_beneath_attr, as the kernel has them today */
struct ruleset {
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
};

struct path_rule {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_CHAR = 1 << 6,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_SOCK = 1 << 9,
    FS_MAKE_FIFO = 1 << 10,
    FS_MAKE_BLOCK = 1 << 11,
    FS_MAKE_SYM = 1 << 12,
    FS_REFER = 1 << 13,
    FS_TRUNCATE = 1 << 14,
    FS_IOCTL_DEV = 1 << 15,
};

#define FS_OF_FILES (FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE)
#define FS_OWN                                                                                \
    (FS_OF_FILES | FS_READ_DIR | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | \
     FS_MAKE_SOCK | FS_REFER)

#define NET_BIND_TCP    (1 << 0)
#define NET_CONNECT_TCP (1 << 1)
#define SCOPE_ABSTRACT  (1 << 0)
#define SCOPE_SIGNAL    (1 << 1)

/* What each version of the interface brought. All of it is handled, so forbidden but for the rules.
 */
static struct ruleset handled_by(int abi)
{
    struct ruleset set = {.handled_fs = FS_REFER - 1};
    if (abi >= 2)
        set.handled_fs |= FS_REFER;
    if (abi >= 3)
        set.handled_fs |= FS_TRUNCATE;
    if (abi >= 4)
        set.handled_net = NET_BIND_TCP | NET_CONNECT_TCP;
    if (abi >= 5)
        set.handled_fs |=
            FS_IOCTL_DEV; /* of what is opened from now on, not of terminals passed in */
    if (abi >= 6)
        set.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
    return set;
}

/* Something that is not there cannot be opened either. */
static int allow(int ruleset, const struct ruleset *handled, const char *path, uint64_t access,
                 struct error *err)
{
    struct stat st;
    cleanup_close int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == EACCES || errno == ENOTDIR))
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open %s", path);
    if (!S_ISDIR(st.st_mode))
        access &= FS_OF_FILES;
    struct path_rule rule = {.allowed = access & handled->handled_fs, .parent = fd};
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0)
        return error_errno(err, errno, "cannot allow %s by Landlock", path);
    return 0;
}

static int add_rules(int ruleset, const struct ruleset *handled,
                     const struct confinement *confinement, struct error *err)
{
    static const struct {
        const char *path;
        uint64_t access;
    } always[] = {
        {"/dev/null", FS_READ_FILE | FS_WRITE_FILE},
        {"/proc/self", FS_READ_FILE | FS_READ_DIR}, /* as it is now: this process's */
        /* On version 1, a listing of processes is opened anew through its descriptor
         * (cgroup-usage.c).
         */
        {"/sys/fs/cgroup", FS_READ_FILE},
    };
    for (size_t i = 0; i < ARRAY_SIZE(always); i++)
        if (allow(ruleset, handled, always[i].path, always[i].access, err) < 0)
            return -1;
    for (size_t i = 0; i < confinement->writable.count; i++)
        if (allow(ruleset, handled, confinement->writable.items[i], FS_OWN, err) < 0)
            return -1;
    for (size_t i = 0; i < confinement->readable.count; i++)
        if (allow(ruleset, handled, confinement->readable.items[i], FS_READ_FILE, err) < 0)
            return -1;
    return 0;
}

int confine_files(const struct confinement *confinement, struct error *err)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
        return 1;
    if (abi < 0)
        return error_errno(err, errno, "cannot ask for Landlock");
    struct ruleset handled = handled_by(abi);
    /* Older kernels take more bytes than they know, as long as those are zero. */
    cleanup_close int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (ruleset < 0)
        return error_errno(err, errno, "cannot make a Landlock ruleset");
    if (add_rules(ruleset, &handled, confinement, err) < 0)
        return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return error_errno(err, errno, "cannot apply Landlock");
    return 0;
}
