/* SPDX-License-Identifier: Apache-2.0 */
/* A store of 1,000 skills: the first list, which reads them all, beside bare reads of the same
   files; and a list when nothing has changed since. Once with the files in memory and once without,
   as far as that can be arranged: their data is dropped, while directories and inodes stay. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "core/fd.h"
#include "core/mem.h"
#include "parts.h"
#include "rows.h"
#include "skills/skills.h"

#define SKILLS SKILL_COUNT_MAX
#define ROUNDS 25
#define LISTS  10 /* until a store is sure that nothing changes */

enum { WARM_READ, WARM_SCAN, COLD_READ, COLD_SCAN, SAME, ROWS };

static int root = -1;

static void entry_path(int number, char ret[64])
{
    snprintf(ret, 64, "skill-%04d/SKILL.md", number);
}

/* About 2 KiB each, as skills are. */
static void write_skill(int number)
{
    char path[64];
    char directory[64];
    snprintf(directory, sizeof directory, "skill-%04d", number);
    entry_path(number, path);
    if (mkdirat(root, directory, 0755) < 0)
        bench_fail("mkdir: %s", strerror(errno));
    cleanup_close int fd = openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        bench_fail("%s: %s", path, strerror(errno));
    dprintf(fd,
            "---\nname: skill-%04d\n"
            "description: Fills in form %d. Use when a form of that kind is to be filled in.\n"
            "license: Apache-2.0\nmetadata:\n  version: \"1.0\"\n---\n\n# Form %d\n\n",
            number, number, number);
    for (int step = 1; step <= 20; step++)
        dprintf(fd, "%d. Do this step with care, and look at what came of it before going on.\n",
                step);
}

static void drop_data(void)
{
    for (int i = 0; i < SKILLS; i++) {
        char path[64];
        entry_path(i, path);
        cleanup_close int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
}

static void read_files(void)
{
    static char data[1 << 16];
    for (int i = 0; i < SKILLS; i++) {
        char path[64];
        struct stat st;
        entry_path(i, path);
        cleanup_close int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || read(fd, data, sizeof data) != st.st_size)
            bench_fail("cannot read %s", path);
    }
}

static void list(struct skill_scope *scope)
{
    struct error err = ERROR_INIT;
    struct skill_list skills;
    if (skill_list(scope, &skills, &err) < 0)
        bench_fail("%s", err.message);
    if (skills.count != SKILLS)
        bench_fail("%zu of %d skills are found", skills.count, SKILLS);
    skill_list_release(&skills);
}

static void time_read(struct row *row)
{
    uint64_t start = clock_ns();
    read_files();
    samples_add(&row->samples, clock_ns() - start);
}

/* By a store that knows nothing yet. */
static void time_scan(const char *path, struct row *scan, struct row *same)
{
    struct error err = ERROR_INIT;
    const struct skill_store_options options = {.root = path};
    struct skill_store *store = skill_store_open(&options, &err);
    struct skill_scope *scope = store ? skill_scope_get(store, NULL, &err) : NULL;
    if (!scope)
        bench_fail("%s", err.message);
    uint64_t start = clock_ns();
    list(scope);
    samples_add(&scan->samples, clock_ns() - start);
    for (int i = 0; i < LISTS && same; i++) {
        start = clock_ns();
        list(scope);
        if (i == LISTS - 1)
            samples_add(&same->samples, clock_ns() - start);
    }
    skill_scope_put(scope);
    skill_store_close(store);
}

void part_skills(void)
{
    struct row rows[ROWS] = {
        [WARM_READ] = {.name = "open, fstat, read, close of each"},
        [WARM_SCAN] = {.name = "first list",
                       .ratios = {{WARM_READ + 1, AT_MOST(5),
                                   "first list of 1,000 skills, against bare reads"},
                                  {SAME + 1, AT_LEAST(100),
                                   "the same, against a list with none changed"}}},
        [COLD_READ] = {.name = "the same without their data"},
        [COLD_SCAN] = {.name = "first list without their data",
                       .ratios = {{COLD_READ + 1, AT_MOST(1.5),
                                   "the same from the disk, against bare reads"}}},
        [SAME] = {.name = "list, nothing changed"},
    };
    cleanup_free char *path = xasprintf("%s/skills", bench.directory);
    if (mkdir(path, 0755) < 0 || (root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        bench_fail("%s: %s", path, strerror(errno));
    for (int i = 0; i < SKILLS; i++)
        write_skill(i);
    syncfs(root);
    for (int round = 0; round < ROUNDS; round++) {
        drop_data();
        time_read(&rows[COLD_READ]);
        time_read(&rows[WARM_READ]);
        drop_data();
        time_scan(path, &rows[COLD_SCAN], NULL);
        time_scan(path, &rows[WARM_SCAN], &rows[SAME]);
    }
    close(root);
    rows_print("1,000 skills, milliseconds", rows, ROWS);
}
