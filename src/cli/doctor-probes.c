/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be read anywhere and has to be tried: each in a child of its own, so that nothing
 * stays. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "core/fd.h"
#include "sandbox/idmap.h"

/* The child's exit status is the errno of what failed. */
static int in_child(int (*attempt)(const void *data), const void *data)
{
    int status;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        _exit(attempt(data) < 0 ? errno : 0);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/* AppArmor, as Ubuntu has it set up, lets the namespace be made and then withholds its privileges:
   so one is put to use. */
static int try_user_namespace(const void *data)
{
    (void)data;
    if (unshare(CLONE_NEWUSER | CLONE_NEWUTS) < 0)
        return -1;
    return sethostname("probe", 5);
}

int probe_user_namespace(void)
{
    return in_child(try_user_namespace, NULL);
}

static int become_root_of_namespace(void)
{
    char uids[32];
    char gids[32];
    snprintf(uids, sizeof uids, "0 %u 1", geteuid());
    snprintf(gids, sizeof gids, "0 %u 1", getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -1;
    int rc = fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
    if (rc == 0)
        rc = fd_write_file(AT_FDCWD, "/proc/self/uid_map", uids);
    if (rc == 0)
        rc = fd_write_file(AT_FDCWD, "/proc/self/gid_map", gids);
    errno = -rc;
    return rc;
}

/* Root's sessions get the lower side from outside, without what is mounted below it, which inside
   is locked and which an overlay cannot leave away: a container may have docker-init in /usr/sbin.
 */
static int try_overlay(const void *data)
{
    const bool *root = data;
    int tree = *root ? open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC) : -1;
    if (*root && tree < 0)
        return -1;
    if (become_root_of_namespace() < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, "size=64k") < 0)
        return -1;
    if (mkdir("/tmp/upper", 0755) < 0 || mkdir("/tmp/work", 0755) < 0)
        return -1;
    if (*root && move_mount(tree, "", AT_FDCWD, "/usr", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -1;
    return mount("overlay", "/usr", "overlay", MS_NOSUID | MS_NODEV,
                 "lowerdir=/usr,upperdir=/tmp/upper,workdir=/tmp/work,userxattr");
}

int probe_overlay(bool root)
{
    return in_child(try_overlay, &root);
}

static int try_idmap(const void *data)
{
    int namespace;
    if (idmap_namespace(0, 0, 1000, 1000, &namespace, NULL) < 0)
        return -1;
    int tree = open_tree(AT_FDCWD, data, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t) namespace};
    if (tree < 0)
        return -1;
    return mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr);
}

int probe_idmap(const char *directory)
{
    return in_child(try_idmap, directory);
}
