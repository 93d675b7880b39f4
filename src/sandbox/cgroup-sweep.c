/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a session is, and the removal of those whose owner is gone. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "core/mem.h"

/* The state and start time of a process; -errno if they cannot be had. */
static int read_stat(uint64_t pid, char *ret_state, uint64_t *ret_start)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    ssize_t size = fd_read_file(AT_FDCWD, path, text, sizeof text);
    return size < 0 ? (int)size : cgroup_parse_stat(text, (size_t)size, ret_state, ret_start);
}

int cgroup_owner_self(struct cgroup_owner *ret)
{
    struct stat names;
    char state;
    uint64_t start;
    if (stat("/proc/self/ns/pid", &names) < 0)
        return -errno;
    int result = read_stat((uint64_t)getpid(), &state, &start);
    if (result < 0)
        return result;
    *ret = (struct cgroup_owner){names.st_ino, (uint64_t)getpid(), start};
    return 0;
}

/* In doubt the owner lives: a process that is there but cannot be read (hidepid) is no proof.
   Owners in other pid namespaces cannot be asked about at all. */
static bool owner_is_gone(const struct cgroup_owner *owner, const struct cgroup_owner *self)
{
    char state;
    uint64_t start;
    if (owner->pid_namespace != self->pid_namespace)
        return false;
    if (kill((pid_t)owner->pid, 0) < 0 && errno == ESRCH)
        return true;
    if (read_stat(owner->pid, &state, &start) < 0)
        return false;
    return start != owner->start || state == 'Z' || state == 'X';
}

struct sweep {
    const struct cgroup_root *root;
    const char *const *keep;
    size_t keep_count;
    struct strings found;
};

/* kept.KEEPER.PID.START.NUMBER; the process is in it only so that no name is used twice. */
bool cgroup_is_own_kept(const struct cgroup_root *root, const char *name)
{
    size_t length = strlen(root->keeper);
    return length > 0 && strncmp(name, "kept.", 5) == 0 &&
           strncmp(name + 5, root->keeper, length) == 0 && name[5 + length] == '.';
}

static int sweep_visit(const char *child, void *data)
{
    struct sweep *sweep = data;
    struct cgroup_owner owner;
    unsigned number;
    if (!cgroup_is_own_kept(sweep->root, child) && (cgroup_name_parse(child, &owner, &number) < 0 ||
                                                    !owner_is_gone(&owner, &sweep->root->owner)))
        return 0;
    for (size_t i = 0; i < sweep->keep_count; i++)
        if (strcmp(sweep->keep[i], child) == 0)
            return 0;
    strings_add(&sweep->found, child);
    return 0;
}

void cgroup_sweep_dir(struct cgroup_root *root, int dir, const char *const *keep, size_t count)
{
    struct sweep sweep = {.root = root, .keep = keep, .keep_count = count};
    cgroup_each_child(dir, ".", sweep_visit, &sweep);
    for (size_t i = 0; i < sweep.found.count; i++) {
        const char *name = sweep.found.items[i];
        /* What cannot be killed cannot be removed either; the next sweep tries again. */
        if (root->ops->session_kill(root, name, NULL) == 0)
            root->ops->session_remove(root, name, NULL);
    }
    strings_release(&sweep.found);
}

void cgroup_sweep_except(struct cgroup_root *root, const char *const *keep, size_t count)
{
    root->ops->sweep(root, keep, count);
}

void cgroup_sweep(struct cgroup_root *root)
{
    cgroup_sweep_except(root, NULL, 0);
}

void cgroup_session_name(const struct cgroup_root *root, unsigned number, char *ret, size_t size)
{
    if (root->keeper[0])
        snprintf(ret, size, "kept.%s.%" PRIu64 ".%" PRIu64 ".%u", root->keeper, root->owner.pid,
                 root->owner.start, number);
    else
        cgroup_name_format(&root->owner, number, ret, size);
}

void cgroup_set_keeper(struct cgroup_root *root, const char *keeper)
{
    snprintf(root->keeper, sizeof root->keeper, "%s", keeper);
    if (root->version == CGROUP_V2)
        cgroup_v2_leave_unit(root);
}
