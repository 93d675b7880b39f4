/* SPDX-License-Identifier: Apache-2.0 */
/* Who has how much memory. */
#include "memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "core/fd.h"
#include "core/mem.h"

static double field(const char *path, const char *name)
{
    char line[256];
    double value = 0;
    size_t length = strlen(name);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            value = strtod(line + length + 1, NULL);
    }
    if (file)
        fclose(file);
    return value;
}

static void add(pid_t pid, struct memory *memory)
{
    cleanup_free char *path = xasprintf("/proc/%d/smaps_rollup", (int)pid);
    memory->rss_kib += field(path, "Rss");
    memory->pss_kib += field(path, "Pss");
}

void memory_of_tree(pid_t pid, struct memory *ret)
{
    cleanup_free char *path = xasprintf("/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    int child;
    *ret = (struct memory){0};
    add(pid, ret);
    while (file && fscanf(file, "%d", &child) == 1)
        add(child, ret);
    if (file)
        fclose(file);
}

double memory_in_use(void)
{
    static const char path[] = "/proc/meminfo";
    cleanup_close int drop = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    /* Only names and inodes: what is left of those afterwards is held by somebody. */
    if (drop >= 0 && write(drop, "2", 1) != 1)
        bench_fail("cannot drop caches");
    return field(path, "MemTotal") - field(path, "MemFree") - field(path, "Buffers") -
           (field(path, "Cached") - field(path, "Shmem"));
}
