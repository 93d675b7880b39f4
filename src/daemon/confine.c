/* SPDX-License-Identifier: Apache-2.0 */
/* The front's confinement: a bug in a parser must not be root on the host, nor a way to the files
   of whoever started boxd.

   Stages, in this order, each with what it may rely on and what it takes away:

     start       All the rights of whoever started boxd. Options and configuration are read,
                 directories made and given to the front's account, the lock taken.
     spawn       The spawner is forked; it keeps those rights, and speaks to the front over one
                 socket in a protocol of fixed messages. From here on the front needs nothing but
                 descriptors.
     bind        Sockets are bound, the token is read.
     privileges  Supplementary groups, user and group, every capability in every set, and with
                 no_new_privs and an empty bounding set every way to get one again. Not dumpable,
                 so that no process of the same user can attach to it, or read its memory.
     open        Loop, runtime and interfaces are made, with files in directories that are the
                 front's own: done with more rights, that would be a way to write elsewhere.
                 Nothing from outside has been read yet: connections wait in the queue.
     files       Landlock: of the file system there are left the front's own directories, the
                 configuration and token (for SIGHUP), its own entry in /proc, and the readings
                 of control groups. No TCP socket can be bound or connected, no abstract socket
                 and no process outside be reached. A kernel without Landlock leaves this out.
     calls       seccomp: an allow-list of system calls (confine-policy.h). Among what is
                 missing: execve, fork, socket, connect, bind, ptrace, signals to others.
     serve       Only now does the loop run.

   Files come after privileges because changing users needs capabilities, and before calls because
   the filter does not know Landlock's. All three count for one thread and those it starts: hence
   the check that there is just one. The thread pool of libuv starts with the first work it gets.
 */
#include "daemon/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fd.h"

/* --- privileges --- */

static int check_alone(struct error *err)
{
    char text[4096];
    if (fd_read_file(AT_FDCWD, "/proc/self/status", text, sizeof text) < 0)
        return error_set(err, ERROR_SYSTEM, "cannot read /proc/self/status");
    const char *line = strstr(text, "\nThreads:");
    int threads = 0;
    if (!line || sscanf(line, "\nThreads: %d", &threads) != 1 || threads != 1)
        return error_set(err, ERROR_SYSTEM, "there are %d threads where one can be confined",
                         threads);
    return 0;
}

/* Takes CAP_SETPCAP, so before the others go; who has it not cannot raise anything anyhow. */
static int empty_bounding_set(struct error *err)
{
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap) < 0 && errno != EPERM)
            return error_errno(err, errno, "cannot drop capability %d", cap);
    return 0;
}

static int become(const struct account *account, struct error *err)
{
    if (geteuid() == 0 && setgroups(0, NULL) < 0)
        return error_errno(err, errno, "cannot give up supplementary groups");
    if (!account->change)
        return 0;
    if (setresgid(account->gid, account->gid, account->gid) < 0)
        return error_errno(err, errno, "cannot become group %u", (unsigned)account->gid);
    if (setresuid(account->uid, account->uid, account->uid) < 0)
        return error_errno(err, errno, "cannot become user %u", (unsigned)account->uid);
    if (setresuid((uid_t)-1, 0, (uid_t)-1) == 0)
        return error_set(err, ERROR_SYSTEM, "could become root again");
    return 0;
}

static int empty_capabilities(struct error *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return error_errno(err, errno, "cannot clear ambient capabilities");
    if (syscall(SYS_capset, &head, none) < 0)
        return error_errno(err, errno, "cannot give up capabilities");
    return 0;
}

int confine_privileges(const struct account *account, struct error *err)
{
    if (check_alone(err) < 0 || empty_bounding_set(err) < 0 || become(account, err) < 0 ||
        empty_capabilities(err) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, errno, "cannot set no_new_privs");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return error_errno(err, errno, "cannot become undumpable");
    return 0;
}

/* --- files and calls --- */

/* A file is often replaced by a new one under its name, which to Landlock is another file. In a
   directory of boxd's own that is seen to; elsewhere the whole directory would be too much to give,
   and only the file itself, written in place, can be read again. */
char *confine_readable(const char *file)
{
    const char *slash = strrchr(file, '/');
    if (slash && slash - file >= 5 && strncmp(slash - 5, "/boxd", 5) == 0)
        return xstrndup(file, (size_t)(slash - file));
    return xstrdup(file);
}

int confine_front(const struct confinement *confinement, struct error *err)
{
    int missing = 0;
    if (check_alone(err) < 0)
        return -1;
    int rc = confine_files(confinement, err);
    if (rc < 0)
        return -1;
    missing |= rc > 0 ? CONFINE_NO_LANDLOCK : 0;
    rc = confine_calls(err);
    if (rc < 0)
        return -1;
    missing |= rc > 0 ? CONFINE_NO_SECCOMP : 0;
    return missing;
}
