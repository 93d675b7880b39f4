/* SPDX-License-Identifier: Apache-2.0 */
/* The watch of a skill store: nothing is searched while nothing changes; what no event tells is
   searched for; and where watches run out lists go on. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "skills-watch-help.h"

/* --- nothing changes --- */

static void quiet(void **state)
{
    struct world *world = *state;
    int searched = 0;
    quiet_down(world->scope);
    cleanup_free char *before = describe(world->scope);
    for (int i = 0; i < TRIES; i++)
        searched += searches(world->scope);
    assert_true(searched <= TRIES / 2);
    cleanup_free char *after = describe(world->scope);
    assert_string_equal(before, after);
    /* What no event tells is not missed for ever. */
    world->scope->watch.vouch_end = 0;
    assert_true(searches(world->scope));
    quiet_down(world->scope);
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void few_are_not_watched(void **state)
{
    struct world *world = *state;
    char path[64];
    size_t before = open_descriptors();
    for (int i = 0; i < WATCH_FROM - 1; i++) {
        snprintf(path, sizeof path, "s%02d/SKILL.md", i);
        put_file(world, path, "");
    }
    for (int i = 0; i < 3; i++)
        assert_true(searches(world->scope));
    assert_int_equal(open_descriptors(), before);
    put_file(world, "more/SKILL.md", "");
    quiet_down(world->scope);
    assert_int_equal(open_descriptors(), before + 1);
    world_close(world);
    assert_int_equal(open_descriptors(), before);
    world_open(world);
}

/* --- at the worst moment --- */

/* A change that comes just before a directory is watched has no event. */
static struct {
    const char *directory;
    void (*change)(const struct world *);
    const struct world *world;
} before_watch;

/* Instead of the C library's, for this program. */
int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    char target[PATH_MAX] = "";
    if (before_watch.directory && readlink(path, target, sizeof target - 1) > 0 &&
        strcmp(strrchr(target, '/') + 1, before_watch.directory) == 0) {
        before_watch.directory = NULL;
        before_watch.change(before_watch.world);
    }
    return (int)syscall(SYS_inotify_add_watch, fd, path, mask);
}

static void make_python(const struct world *world)
{
    put_file(world, "s03/setup.py", "");
}

static void fill_directory(const struct world *world)
{
    put_file(world, "empty/directory/SKILL.md", "---\nname: new\n---\n");
}

static void fill_late(const struct world *world)
{
    put_file(world, "late/SKILL.md", "---\nname: late\n---\n");
}

/* Until what is known needs not be read again, without a watch. */
static void settle(struct skill_scope *scope)
{
    const struct timespec moment = {0, 10000000};
    uint64_t generation = UINT64_MAX;
    scope->watch.retry = UINT64_MAX;
    for (int i = 0; i < 1000 && generation != skill_scope_generation(scope); i++) {
        generation = skill_scope_generation(scope);
        nanosleep(&moment, NULL);
        free(names_of(scope));
    }
    assert_int_equal(generation, skill_scope_generation(scope));
}

static void changes_before_the_watch(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *directory;
        void (*change)(const struct world *);
        const char *there;
    } moments[] = {
        {"s03", make_python, "s03=first python"}, /* known */
        {"directory", fill_directory, "new="},    /* no package yet */
        {"late", fill_late, "late="},             /* nor known */
    };
    free(names_of(world->scope));
    settle(world->scope);
    make_directory(world, "late");
    for (size_t i = 0; i < ARRAY_SIZE(moments); i++) {
        watch_close(&world->scope->watch);
        before_watch.world = world;
        before_watch.change = moments[i].change;
        before_watch.directory = moments[i].directory;
        quiet_down(world->scope);
        assert_null(before_watch.directory);
        cleanup_free char *now = describe(world->scope);
        assert_non_null(strstr(now, moments[i].there));
    }
}

/* --- what no event tells --- */

static void links_are_always_looked_at(void **state)
{
    struct world *world = *state;
    put_file(world, "linked/docs/real.md", "---\nname: linked\n---\nfirst");
    put_link(world, "linked/SKILL.md", "docs/real.md");
    for (int i = 0; i < 4; i++)
        assert_true(searches(world->scope));
    put_file(world, "linked/docs/real.md", "---\nname: linked\n---\nsecond");
    cleanup_free char *now = describe(world->scope);
    assert_non_null(strstr(now, "linked=second"));
    /* And it does not watch in vain. */
    assert_int_equal(world->scope->watch.fd, -1);
}

static void other_names_are_always_looked_at(void **state)
{
    struct world *world = *state;
    cleanup_free char *file = path_in(world, "s03/SKILL.md");
    cleanup_free char *other = path_in(world, "s03/docs/other");
    put_file(world, "s03/docs/x", "");
    assert_int_equal(link(file, other), 0);
    for (int i = 0; i < 4; i++)
        assert_true(searches(world->scope));
    put_file(world, "s03/docs/other", "---\nname: s03\n---\nsecond");
    cleanup_free char *now = describe(world->scope);
    assert_non_null(strstr(now, "s03=second"));
}

/* A lease keeps others from opening a file, and changes nothing of it when it ends. */
static void unreadable_for_a_while(void **state)
{
    struct world *world = *state;
    const struct timespec moment = {0, 100000000};
    cleanup_free char *file = path_in(world, "s03/SKILL.md");
    quiet_down(world->scope);
    put_file(world, "s03/SKILL.md", "---\nname: s03\n---\nsecond");
    nanosleep(&moment, NULL); /* so that its stamps would show any change */
    int leased = open(file, O_RDONLY | O_CLOEXEC);
    assert_return_code(leased, errno);
    signal(SIGIO, SIG_IGN);
    if (fcntl(leased, F_SETLEASE, F_WRLCK) < 0) {
        close(leased);
        skip(); /* not on this file system */
    }
    for (int i = 0; i < 3; i++) {
        assert_true(searches(world->scope));
        cleanup_free char *meanwhile = describe(world->scope);
        assert_null(strstr(meanwhile, "s03="));
    }
    close(leased);
    cleanup_free char *now = describe(world->scope);
    assert_non_null(strstr(now, "s03=second"));
}

static void other_file_systems(void **state)
{
    (void)state;
    struct watch watch = WATCH_INIT;
    cleanup_close int root = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(root, errno);
    assert_false(watch_begin(&watch, root));
    watch_close(&watch);
}

/* Somebody dies in the middle of a commit, and nobody is told. */
static void killed_writers(void **state)
{
    struct world *world = *state;
    int ready[2];
    char byte;
    quiet_down(world->scope);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_return_code(pid, errno);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails before */
        cleanup_free char *stage = path_in(world, ".boxd-stage-1");
        make_directory(world, ".boxd-stage-1");
        int fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DO(flock(fd, LOCK_EX));
        put_file(world, ".boxd-stage-1/0/SKILL.md", "---\nname: finished\n---\n");
        put_file(world, ".boxd-stage-1/commit", "finished");
        int journal = openat(fd, "commit", O_WRONLY | O_APPEND | O_CLOEXEC);
        DO(fd_write_all(journal, "", 1));
        DO(fd_write_all(ready[1], "x", 1));
        pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int i = 0; i < 4; i++)
        assert_true(searches(world->scope));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    cleanup_free char *now = describe(world->scope);
    assert_non_null(strstr(now, "finished="));
    assert_false(exists(world, ".boxd-stage-1"));
    quiet_down(world->scope);
    close(ready[0]);
    close(ready[1]);
}

/* What came while the root was locked is seen when it no longer is. */
static void changes_under_a_lock(void **state)
{
    struct world *world = *state;
    quiet_down(world->scope);
    cleanup_close int root = open(world->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(root, LOCK_EX), 0);
    add_package(world);
    for (int i = 0; i < 2; i++) {
        cleanup_free char *meanwhile = describe(world->scope);
        assert_null(strstr(meanwhile, "new="));
    }
    assert_int_equal(flock(root, LOCK_UN), 0);
    cleanup_free char *now = describe(world->scope);
    assert_non_null(strstr(now, "new="));
}

/* --- limits --- */

/* More events than the kernel keeps. */
static void overflow_queue(const struct world *world)
{
    char text[32] = "";
    const char *const names[] = {"s03/a", "s03/b"}; /* in turn: the same event twice is one */
    assert_true(
        fd_read_file(AT_FDCWD, "/proc/sys/fs/inotify/max_queued_events", text, sizeof text) > 0);
    long count = strtol(text, NULL, 10);
    if (count > 1000000)
        skip();
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        put_file(world, names[i], "");
    for (long i = 0; i <= count; i++) {
        cleanup_free char *path = path_in(world, names[i % 2]);
        assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
    }
}

/* That a directory is gone got lost, and another has its inode. */
static void events_get_lost(void **state)
{
    struct world *world = *state;
    struct watch *watch = &world->scope->watch;
    struct stat st;
    put_file(world, "last/SKILL.md", "---\nname: last\n---\nfirst");
    cleanup_free char *last = path_in(world, "last");
    cleanup_free char *next = path_in(world, "next");
    quiet_down(world->scope);
    overflow_queue(world);
    assert_int_equal(stat(last, &st), 0);
    struct watched *of_last = watch->items;
    while (of_last->inode != st.st_ino)
        assert_true(++of_last < watch->items + watch->count);
    remove_tree(last);
    put_file(world, "next/SKILL.md", "---\nname: next\n---\nfirst");
    assert_int_equal(stat(next, &st), 0);
    of_last->inode = st.st_ino; /* as it is on many file systems, but not on all */
    quiet_down(world->scope);
    put_file(world, "next/SKILL.md", "---\nname: next\n---\nsecond");
    cleanup_free char *now = describe(world->scope);
    assert_non_null(strstr(now, "next=second"));
}

static size_t kernel_watches(const struct skill_scope *scope)
{
    char path[64];
    char line[512];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", scope->watch.fd);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strncmp(line, "inotify wd:", 11) == 0;
    fclose(file);
    return count;
}

static void watches_do_not_pile_up(void **state)
{
    struct world *world = *state;
    cleanup_free char *aside = xasprintf("%.200s-aside", world->root);
    quiet_down(world->scope);
    size_t before = kernel_watches(world->scope);
    assert_int_equal(before, world->scope->watch.count);
    assert_int_equal(mkdir(aside, 0755), 0);
    for (int i = 0; i < 100; i++) {
        cleanup_free char *from = path_in(world, "passing");
        cleanup_free char *to = xasprintf("%s/%d", aside, i);
        put_file(world, "passing/SKILL.md", "");
        assert_true(searches(world->scope));
        assert_int_equal(i % 2 ? rename(from, to) : 0, 0);
        if (i % 2 == 0)
            remove_tree(from);
        assert_true(searches(world->scope));
    }
    quiet_down(world->scope);
    assert_int_equal(kernel_watches(world->scope), before);
    assert_int_equal(world->scope->watch.count, before);
    remove_tree(aside);
}

static bool set_limit(const char *name, const char *value)
{
    cleanup_free char *path = xasprintf("/proc/sys/user/%s", name);
    cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
}

/* In a user namespace, which has limits of its own. 77: there can be none here. */
static int run_out(const struct world *world, const char *limit, const char *value)
{
    if (unshare(CLONE_NEWUSER) < 0 || !set_limit(limit, value))
        return 77;
    for (int i = 0; i < 4; i++) {
        if (!searches(world->scope))
            return 2;
    }
    if (world->scope->watch.fd >= 0)
        return 3;
    add_package(world);
    cleanup_free char *now = describe(world->scope);
    return strstr(now, "new=") ? 0 : 4;
}

static void watches_run_out(void **state)
{
    static const char *const limits[][2] = {{"max_inotify_watches", "8"},
                                            {"max_inotify_instances", "0"}};
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        int status;
        pid_t pid = fork();
        assert_return_code(pid, errno);
        if (pid == 0)
            _exit(run_out(world, limits[i][0], limits[i][1]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip(); /* no user namespaces */
        assert_int_equal(status, 0);
    }
    /* It is tried again, but not each time. */
    world->scope->watch.retry = UINT64_MAX;
    for (int i = 0; i < 4; i++)
        assert_true(searches(world->scope));
    world->scope->watch.retry = 0;
    quiet_down(world->scope);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, watched_setup, watched_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_are_not_watched, world_setup, world_teardown),
        TEST(quiet),
        TEST(changes_before_the_watch),
        TEST(links_are_always_looked_at),
        TEST(other_names_are_always_looked_at),
        TEST(unreadable_for_a_while),
        TEST(other_file_systems),
        TEST(killed_writers),
        TEST(changes_under_a_lock),
        TEST(events_get_lost),
        TEST(watches_do_not_pile_up),
        TEST(watches_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
