/* SPDX-License-Identifier: Apache-2.0 */
/* User namespaces: writing their maps, and making one just for its map. */
#include "sandbox/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "sandbox/syscalls.h"

static int write_map(pid_t pid, const char *file, const struct id_map *maps, size_t count,
                     uint32_t base, struct error *err)
{
    char path[64];
    char text[256];
    size_t used = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%u %u %u\n", maps[i].inside,
                                 base + maps[i].outside, maps[i].count);
    int rc = fd_write_file(AT_FDCWD, path, text);
    return rc < 0 ? error_errno(err, -rc, "cannot write %s", file) : 0;
}

/* newuidmap PID (INSIDE OUTSIDE COUNT)… */
static int run_tool(const char *tool, pid_t pid, const struct id_map *maps, size_t count,
                    struct error *err)
{
    char numbers[1 + PLAN_ID_MAPS * 3][16];
    char *argv[2 + PLAN_ID_MAPS * 3 + 1];
    char *envp[] = {(char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    size_t argc = 0;
    pid_t child;
    int status;
    argv[argc++] = (char *)tool;
    snprintf(numbers[0], sizeof numbers[0], "%d", (int)pid);
    argv[argc++] = numbers[0];
    for (size_t i = 0; i < count; i++) {
        const uint32_t values[3] = {maps[i].inside, maps[i].outside, maps[i].count};
        for (size_t j = 0; j < 3; j++) {
            char *text = numbers[1 + i * 3 + j];
            snprintf(text, sizeof numbers[0], "%u", values[j]);
            argv[argc++] = text;
        }
    }
    argv[argc] = NULL;
    int rc = posix_spawnp(&child, tool, NULL, NULL, argv, envp);
    if (rc != 0)
        return error_errno(err, rc, "cannot run %s", tool);
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return error_errno(err, errno, "cannot wait for %s", tool);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        error_set(err, ERROR_UNSUPPORTED, "%s refused the id range", tool);
        return error_hint(err,
                          "check this user's lines in /etc/subuid and /etc/subgid, and that %s "
                          "is setuid root (package uidmap)",
                          tool);
    }
    return 0;
}

int idmap_write(pid_t pid, const struct plan *plan, uint32_t base, struct error *err)
{
    char path[64];
    if (plan->ids == ID_SUBIDS) {
        if (run_tool("newuidmap", pid, plan->uid_maps, plan->uid_map_count, err) < 0)
            return -1;
        return run_tool("newgidmap", pid, plan->gid_maps, plan->gid_map_count, err);
    }
    if (plan->ids == ID_SINGLE) {
        /* The kernel's condition for letting an ordinary user map its own group. */
        snprintf(path, sizeof path, "/proc/%d/setgroups", (int)pid);
        int rc = fd_write_file(AT_FDCWD, path, "deny");
        if (rc < 0)
            return error_errno(err, -rc, "cannot write setgroups");
        base = 0;
    }
    if (write_map(pid, "uid_map", plan->uid_maps, plan->uid_map_count, base, err) < 0)
        return -1;
    return write_map(pid, "gid_map", plan->gid_maps, plan->gid_map_count, base, err);
}

int idmap_namespace(uid_t uid, gid_t gid, uint32_t to_uid, uint32_t to_gid, int *ret_fd,
                    struct error *err)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    struct id_map uid_map = {.inside = uid, .outside = to_uid, .count = 1};
    struct id_map gid_map = {.inside = gid, .outside = to_gid, .count = 1};
    char path[64];
    int rc = -1;
    pid_t parent = getpid();
    pid_t pid = (pid_t)sys_clone3(&args);
    if (pid < 0)
        return error_errno(err, errno, "cannot make a user namespace");
    if (pid == 0) {
        /* It only has to exist until its namespace has been opened. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            pause();
        _exit(0);
    }
    if (write_map(pid, "uid_map", &uid_map, 1, 0, err) == 0 &&
        write_map(pid, "gid_map", &gid_map, 1, 0, err) == 0) {
        snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            error_errno(err, errno, "cannot open a user namespace");
        } else {
            *ret_fd = fd;
            rc = 0;
        }
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return rc;
}
