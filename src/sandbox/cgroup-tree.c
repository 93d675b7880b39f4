/* SPDX-License-Identifier: Apache-2.0 */
/* Groups as directories, the same for v1 and v2: paths, files, what is done to whole sessions. */
#include "sandbox/cgroup-internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/fd.h"
#include "core/mem.h"

void cgroup_path(char ret[CGROUP_PATH_MAX], const char *name, int lane, const char *file)
{
    char group[16] = "";
    if (lane >= 0)
        snprintf(group, sizeof group, "/c%d", lane);
    else if (lane == CGROUP_LANE_INIT)
        snprintf(group, sizeof group, "/init");
    snprintf(ret, CGROUP_PATH_MAX, "%s%s%s%s", name, group, file ? "/" : "", file ? file : "");
}

/* A lane that is there already is fine: it is used again. A session's name must be new. */
int cgroup_make(int dir, const char *name, int lane, struct error *err)
{
    char path[CGROUP_PATH_MAX];
    cgroup_path(path, name, lane, NULL);
    if (mkdirat(dir, path, 0755) < 0 && (errno != EEXIST || lane == CGROUP_SESSION_ITSELF))
        return error_errno(err, errno, "cannot make the control group %s", path);
    return 0;
}

int cgroup_write(int dir, const char *name, int lane, const char *file, const char *text)
{
    char path[CGROUP_PATH_MAX];
    cgroup_path(path, name, lane, file);
    return fd_write_file(dir, path, text);
}

int cgroup_open(int dir, const char *name, int lane, const char *file, int flags)
{
    char path[CGROUP_PATH_MAX];
    cgroup_path(path, name, lane, file);
    int fd = openat(dir, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cgroup_read_number(int dir, const char *name, int lane, const char *file, const char *key,
                       uint64_t *ret)
{
    char path[CGROUP_PATH_MAX];
    char text[4096];
    cgroup_path(path, name, lane, file);
    ssize_t size = fd_read_file(dir, path, text, sizeof text);
    if (size < 0)
        return (int)size;
    return key ? cgroup_parse_keyed(text, (size_t)size, key, ret)
               : cgroup_parse_number(text, (size_t)size, ret);
}

bool cgroup_is_there(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int cgroup_each_child(int dir, const char *name, cgroup_visit visit, void *data)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *list = fdopendir(fd);
    if (!list) {
        int errnum = errno;
        close(fd);
        return -errnum;
    }
    int result = 0;
    struct dirent *entry;
    while (result == 0 && (entry = readdir(list)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            result = visit(entry->d_name, data);
    closedir(list);
    return result;
}

/* EBUSY: members that are still exiting. */
static int remove_one(int dir, const char *path, uint64_t deadline)
{
    unsigned pause_us = 0;
    for (;;) {
        if (unlinkat(dir, path, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY || clock_monotonic_ms() >= deadline)
            return -errno;
        cgroup_procs_wait(dir, path, deadline, &pause_us);
    }
}

struct walk {
    int dir;
    const char *name;
    uint64_t deadline;
    int (*step)(int dir, const char *path, uint64_t deadline);
};

static int walk_child(const char *child, void *data)
{
    const struct walk *walk = data;
    char path[CGROUP_NAME_MAX + NAME_MAX + 2];
    snprintf(path, sizeof path, "%s/%s", walk->name, child);
    return walk->step(walk->dir, path, walk->deadline);
}

/* The lanes, then the session. */
static int walk_tree(struct walk walk)
{
    int result = cgroup_each_child(walk.dir, walk.name, walk_child, &walk);
    if (result < 0)
        return result == -ENOENT ? 0 : result;
    return walk.step(walk.dir, walk.name, walk.deadline);
}

int cgroup_tree_kill(int dir, const char *name, uint64_t deadline)
{
    return walk_tree((struct walk){dir, name, deadline, cgroup_procs_kill});
}

int cgroup_tree_remove(int dir, const char *name, bool has_lanes, uint64_t deadline)
{
    char path[CGROUP_PATH_MAX];
    if (has_lanes) {
        /* Most sessions have lane 0 only, and nobody in it any more. */
        cgroup_path(path, name, 0, NULL);
        unlinkat(dir, path, AT_REMOVEDIR);
    }
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != EBUSY)
        return -errno;
    return walk_tree((struct walk){dir, name, deadline, remove_one});
}
