/* SPDX-License-Identifier: Apache-2.0 */
/* Billing a lane and entering it, for whoever holds the fds: nothing here opens a group by name. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "core/fd.h"

/* The longest of these files, memory.events, has some 100 bytes. */
#define TEXT_MAX 4096

/* Returns the size, 0 where there is no such file, or -errno. */
static ssize_t read_fd(int fd, char text[TEXT_MAX])
{
    if (fd < 0)
        return 0;
    ssize_t n;
    do {
        n = pread(fd, text, TEXT_MAX, 0);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static int read_cpu(const struct cgroup_lane_fds *lane, struct cgroup_usage *usage)
{
    char text[TEXT_MAX];
    ssize_t size = read_fd(lane->fds[CGROUP_FD_CPU], text);
    if (size <= 0)
        return (int)size;
    if (lane->version == CGROUP_V2) {
        usage->has_cpu = cgroup_parse_keyed(text, (size_t)size, "usage_usec", &usage->cpu_us) == 0;
    } else if (cgroup_parse_number(text, (size_t)size, &usage->cpu_us) == 0) {
        usage->has_cpu = true;
        usage->cpu_us /= 1000;
    }
    return 0;
}

static int read_peak(const struct cgroup_lane_fds *lane, struct cgroup_usage *usage)
{
    char text[TEXT_MAX];
    ssize_t size = read_fd(lane->fds[CGROUP_FD_MEMORY_PEAK], text);
    if (size <= 0)
        return (int)size;
    usage->has_peak = cgroup_parse_number(text, (size_t)size, &usage->peak_bytes) == 0;
    return 0;
}

static int read_count(const struct cgroup_lane_fds *lane, enum cgroup_fd which, const char *key,
                      uint64_t *ret)
{
    char text[TEXT_MAX];
    ssize_t size = read_fd(lane->fds[which], text);
    if (size > 0)
        cgroup_parse_keyed(text, (size_t)size, key, ret);
    return size < 0 ? (int)size : 0;
}

/* v1 gives a second-old listing to a file that was read before, so it is opened once more. */
static int count_listed(const struct cgroup_lane_fds *lane, uint32_t *ret)
{
    char text[TEXT_MAX];
    struct cgroup_pid_reader reader = {0};
    cleanup_close int again = -1;
    int fd = lane->fds[CGROUP_FD_PROCS];
    if (lane->version == CGROUP_V1) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        again = open(path, O_RDONLY | O_CLOEXEC);
        fd = again >= 0 ? again : fd;
    }
    uint32_t count = 0;
    for (off_t at = 0;;) {
        ssize_t n = pread(fd, text, sizeof text, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        pid_t pid;
        for (ssize_t i = 0; i < n; i++)
            count += cgroup_parse_pid(&reader, text[i], &pid);
        at += n;
    }
    *ret = count;
    return 0;
}

static int read_processes(const struct cgroup_lane_fds *lane, uint32_t *ret)
{
    char text[TEXT_MAX];
    uint64_t count;
    if (lane->fds[CGROUP_FD_PROCS] < 0)
        return 0;
    if (lane->version != CGROUP_V1 || lane->fds[CGROUP_FD_PIDS_EVENTS] < 0)
        return count_listed(lane, ret);
    ssize_t size = read_fd(lane->fds[CGROUP_FD_PROCS], text);
    if (size > 0 && cgroup_parse_number(text, (size_t)size, &count) == 0)
        *ret = (uint32_t)count;
    return size < 0 ? (int)size : 0;
}

int cgroup_usage_read(const struct cgroup_lane_fds *lane, struct cgroup_usage *ret)
{
    struct cgroup_usage usage = {0};
    int result = read_cpu(lane, &usage);
    if (result == 0)
        result = read_peak(lane, &usage);
    if (result == 0)
        result = read_count(lane, CGROUP_FD_OOM, "oom_kill", &usage.oom_kills);
    if (result == 0)
        result = read_count(lane, CGROUP_FD_PIDS_EVENTS, "max", &usage.pids_denied);
    if (result == 0)
        result = read_processes(lane, &usage.processes);
    if (result == 0)
        *ret = usage;
    return result;
}

int cgroup_usage_read_cpu(const struct cgroup_lane_fds *lane, struct cgroup_usage *usage)
{
    return read_cpu(lane, usage);
}

bool cgroup_peak_reset(const struct cgroup_lane_fds *lane)
{
    int fd = lane->fds[CGROUP_FD_MEMORY_PEAK];
    return fd >= 0 && pwrite(fd, "0", 1, 0) == 1;
}

void cgroup_lane_fds_close(struct cgroup_lane_fds *lane)
{
    for (size_t i = 0; i < CGROUP_FD_MAX; i++)
        fd_clear(&lane->fds[i]);
}

int cgroup_entry_use(const struct cgroup_entry *entry)
{
    for (size_t i = 0; i < CGROUP_ENTRY_MAX; i++)
        if (entry->fds[i] >= 0 && write(entry->fds[i], "0", 1) < 0)
            return -errno;
    return 0;
}

void cgroup_entry_close(struct cgroup_entry *entry)
{
    for (size_t i = 0; i < CGROUP_ENTRY_MAX; i++)
        fd_clear(&entry->fds[i]);
}
