/* SPDX-License-Identifier: Apache-2.0 */
/* Directories below the allowed roots, and markers in them: what is made and read, and what those
   who can write there may try. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/fd.h"
#include "sandbox/roots.h"

#define MARKER ROOTS_MARKER_PREFIX "0123456789abcdef0123456789abcdef"
#define TRIES  2000

static char top[64]; /* top/root is allowed, top/outside is not */
static struct mount_policy policy;

static const char *in_top(const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", top, name);
    return path;
}

static void put(const char *name, const char *text, size_t size)
{
    int fd = open(in_top(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, size), 0);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(top, "/tmp/test-roots-XXXXXX");
    if (!mkdtemp(top))
        return -1;
    policy = (struct mount_policy){.only_allowed = true};
    strings_add(&policy.allowed_roots, in_top("root"));
    return mkdir(in_top("root"), 0755) < 0 || mkdir(in_top("outside"), 0755) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    strings_release(&policy.allowed_roots);
    snprintf(command, sizeof command, "rm -rf %s", top);
    return system(command) == 0 ? 0 : -1; /* NOLINT(cert-env33-c): a path of our own */
}

static bool exists(const char *name)
{
    struct stat st;
    return lstat(in_top(name), &st) == 0;
}

static enum error_code refused(const char *name, bool make)
{
    struct error err = ERROR_INIT;
    int fd = roots_open(&policy, in_top(name), make, &err);
    if (fd >= 0)
        fail_msg("%s was opened", name);
    assert_true(err.message[0]);
    return err.code;
}

/* --- directories --------------------------------------------------------------------------------
 */

static void test_make(void **state)
{
    struct stat made;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(refused("root/a/b/c", false), ERROR_NOT_FOUND);
    assert_false(exists("root/a"));
    int fd = roots_open(&policy, in_top("root/a/b/c"), true, &err);
    if (fd < 0)
        fail_msg("%s", err.message);
    assert_int_equal(fstat(fd, &made), 0);
    close(fd);
    assert_true(S_ISDIR(made.st_mode));
    assert_int_equal(made.st_mode & 07777, 0700);
    /* Again: the same one. */
    struct stat again;
    fd = roots_open(&policy, in_top("root/a/b/c"), true, &err);
    assert_true(fd >= 0 && fstat(fd, &again) == 0);
    close(fd);
    assert_int_equal(again.st_ino, made.st_ino);
    /* The root itself needs nothing made. */
    fd = roots_open(&policy, in_top("root"), true, &err);
    assert_true(fd >= 0);
    close(fd);
}

static void test_owner(void **state)
{
    struct stat st;
    struct error err = ERROR_INIT;
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can make a directory for somebody else\n");
        skip();
    }
    assert_int_equal(mkdir(in_top("root/theirs"), 0755), 0);
    assert_int_equal(chown(in_top("root/theirs"), 4321, 1234), 0);
    int fd = roots_open(&policy, in_top("root/theirs/x/y"), true, &err);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stat(in_top(i ? "root/theirs/x/y" : "root/theirs/x"), &st), 0);
        assert_int_equal(st.st_uid, 4321);
        assert_int_equal(st.st_gid, 1234);
        assert_int_equal(st.st_mode & 07777, 0700);
    }
    /* Not where the owner could not: and we are ourselves again, failed or not. */
    assert_int_equal(mkdir(in_top("root/closed"), 0555), 0);
    assert_int_equal(chown(in_top("root/closed"), 4321, 1234), 0);
    assert_int_equal(refused("root/closed/x", true), ERROR_SYSTEM);
    assert_false(exists("root/closed/x"));
    assert_int_equal(mkdir(in_top("root/ours"), 0700), 0);
    assert_int_equal(stat(in_top("root/ours"), &st), 0);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(st.st_gid, getegid());
}

static void test_outside(void **state)
{
    static const char *const places[] = {"outside/x", "rooted/x", "x", "outside"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        assert_int_equal(refused(places[i], true), ERROR_DENIED);
        assert_false(exists("outside/x") || exists("rooted") || exists("x"));
    }
    /* Without any root nothing is made, whatever else may be mounted. */
    struct mount_policy none = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(roots_open(&none, in_top("root/x"), true, &err), -1);
    assert_int_equal(err.code, ERROR_DENIED);
    assert_false(exists("root/x"));
    /* An inner root that is not there is not made in the outer one. */
    strings_add(&policy.allowed_roots, in_top("root/disk"));
    assert_int_equal(refused("root/disk/x", true), ERROR_NOT_FOUND);
    assert_false(exists("root/disk"));
    assert_int_equal(mkdir(in_top("root/disk"), 0755), 0);
    int fd = roots_open(&policy, in_top("root/disk/x"), true, &err);
    assert_true(fd >= 0);
    close(fd);
}

static void test_depth(void **state)
{
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(refused("root/1/2/3/4/5/6/7/8/9", true), ERROR_INVALID);
    /* What is there already does not count. */
    int fd = roots_open(&policy, in_top("root/1/2/3/4/5/6/7/8/9"), true, &err);
    assert_true(fd >= 0);
    close(fd);
}

static void test_obstacles(void **state)
{
    (void)state;
    assert_int_equal(symlink(in_top("outside"), in_top("root/link")), 0);
    assert_int_equal(symlink("../outside", in_top("root/relative")), 0);
    assert_int_equal(symlink("nowhere", in_top("root/dangling")), 0);
    assert_int_equal(symlink("/proc/self/root", in_top("root/magic")), 0);
    assert_int_equal(mkfifo(in_top("root/fifo"), 0600), 0);
    put("root/file", "x", 1);
    static const char *const links[] = {"root/link",     "root/link/x",     "root/relative/x",
                                        "root/dangling", "root/dangling/x", "root/magic/tmp"};
    for (size_t i = 0; i < ARRAY_SIZE(links); i++)
        assert_int_equal(refused(links[i], true), ERROR_DENIED);
    static const char *const files[] = {"root/file", "root/file/x", "root/fifo", "root/fifo/x"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        assert_int_equal(refused(files[i], true), ERROR_INVALID);
    assert_false(exists("outside/x") || exists("root/nowhere"));
}

/* A root given as a link to something that is not allowed lets nothing be made there. */
static void test_root_is_link(void **state)
{
    (void)state;
    assert_int_equal(symlink(in_top("outside"), in_top("alias")), 0);
    strings_add(&policy.allowed_roots, in_top("alias"));
    assert_int_equal(refused("alias/x", true), ERROR_DENIED);
    assert_false(exists("outside/x"));
}

/* Somebody puts a link in place of a directory, and the directory back, all the time. */
static pid_t swap(void)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        syscall(SYS_renameat2, AT_FDCWD, in_top("root/spot"), AT_FDCWD, in_top("root/spare"),
                2 /* RENAME_EXCHANGE */);
}

static void test_swapped(void **state)
{
    char wanted[PATH_MAX];
    char link[64];
    char real[PATH_MAX];
    unsigned opened = 0;
    (void)state;
    assert_int_equal(mkdir(in_top("root/spot"), 0755), 0);
    assert_int_equal(symlink(in_top("outside"), in_top("root/spare")), 0);
    snprintf(wanted, sizeof wanted, "%s/root/s", top);
    pid_t pid = swap();
    assert_true(pid > 0);
    for (int i = 0; i < TRIES; i++) {
        char name[32];
        struct error err = ERROR_INIT;
        snprintf(name, sizeof name, "root/spot/%d/x", i);
        int fd = roots_open(&policy, in_top(name), true, &err);
        if (fd < 0) {
            assert_int_equal(err.code, ERROR_DENIED);
            continue;
        }
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, real, sizeof real - 1);
        assert_true(length > 0);
        real[length] = '\0';
        assert_memory_equal(real, wanted, strlen(wanted));
        close(fd);
        opened++;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(opened > 0);
    assert_int_equal(rmdir(in_top("outside")), 0); /* nothing was ever made in it */
    assert_int_equal(mkdir(in_top("outside"), 0755), 0);
}

/* Several make the same: all succeed, and have the same. */
static void test_together(void **state)
{
    pid_t pids[4];
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] > 0)
            continue;
        for (int j = 0; j < 200; j++) {
            char name[32];
            snprintf(name, sizeof name, "root/t%d/x/y", j);
            if (roots_open(&policy, in_top(name), true, NULL) < 0)
                _exit(1);
        }
        _exit(0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

/* --- markers ------------------------------------------------------------------------------------
 */

static enum error_code marker(const char *directory, const char *name, size_t *ret_size)
{
    unsigned char bytes[ROOTS_MARKER_MAX];
    struct error err = ERROR_INIT;
    size_t size = 0;
    int rc = roots_read_marker(&policy, in_top(directory), name, bytes, &size, &err);
    assert_int_equal(rc, err.code ? -1 : 0);
    for (size_t i = 0; rc == 0 && i < size; i++)
        assert_int_equal(bytes[i], 'm');
    if (ret_size)
        *ret_size = size;
    return err.code;
}

static void test_marker(void **state)
{
    static char text[ROOTS_MARKER_MAX + 1];
    static const size_t sizes[] = {1, 2, ROOTS_MARKER_MAX};
    size_t size;
    (void)state;
    memset(text, 'm', sizeof text);
    assert_int_equal(marker("root", MARKER, NULL), ERROR_NOT_FOUND);
    assert_int_equal(marker("root/none", MARKER, NULL), ERROR_NOT_FOUND);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        put("root/" MARKER, text, sizes[i]);
        assert_int_equal(marker("root", MARKER, &size), ERROR_NONE);
        assert_int_equal(size, sizes[i]);
    }
    put("root/" MARKER, text, sizeof text);
    assert_int_equal(marker("root", MARKER, NULL), ERROR_INVALID);
    put("root/" MARKER, text, 0);
    assert_int_equal(marker("root", MARKER, NULL), ERROR_INVALID);
    put("outside/" MARKER, text, 1);
    assert_int_equal(marker("outside", MARKER, NULL), ERROR_DENIED);
}

static void test_marker_names(void **state)
{
    static const char *const names[] = {
        "",
        "secret",
        "../outside/" MARKER,
        ROOTS_MARKER_PREFIX,
        ROOTS_MARKER_PREFIX "0123456789abcdef0123456789abcde",
        ROOTS_MARKER_PREFIX "0123456789abcdef0123456789abcdef0",
        ROOTS_MARKER_PREFIX "0123456789ABCDEF0123456789abcdef",
        ROOTS_MARKER_PREFIX "0123456789abcdef/../../../passwd",
        "x" MARKER,
    };
    (void)state;
    put("root/secret", "m", 1);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        assert_false(roots_marker_valid(names[i]));
        assert_int_equal(marker("root", names[i], NULL), ERROR_INVALID);
    }
    assert_true(roots_marker_valid(MARKER));
}

static void test_marker_kinds(void **state)
{
    (void)state;
    put("outside/target", "m", 1);
    assert_int_equal(symlink(in_top("outside/target"), in_top("root/" MARKER)), 0);
    assert_int_equal(marker("root", MARKER, NULL), ERROR_DENIED);
    assert_int_equal(unlink(in_top("root/" MARKER)), 0);
    /* Nobody writes to it: reading would wait for ever. */
    assert_int_equal(mkfifo(in_top("root/" MARKER), 0666), 0);
    assert_int_equal(marker("root", MARKER, NULL), ERROR_INVALID);
    assert_int_equal(unlink(in_top("root/" MARKER)), 0);
    assert_int_equal(mkdir(in_top("root/" MARKER), 0755), 0);
    assert_int_equal(marker("root", MARKER, NULL), ERROR_INVALID);
    assert_int_equal(rmdir(in_top("root/" MARKER)), 0);
    /* By way of a directory that is a link. */
    assert_int_equal(symlink(in_top("outside"), in_top("root/way")), 0);
    put("outside/" MARKER, "m", 1);
    assert_int_equal(marker("root/way", MARKER, NULL), ERROR_DENIED);
    if (geteuid() != 0 || mknod(in_top("root/" MARKER), S_IFCHR | 0600, makedev(1, 5)) < 0) {
        print_message("not tried: a device, which only root can make\n");
        return;
    }
    assert_int_equal(marker("root", MARKER, NULL), ERROR_INVALID);
}

/* It grows and shrinks while it is read: what is read is what it was at some moment, or nothing. */
static void test_marker_changes(void **state)
{
    static char text[ROOTS_MARKER_MAX];
    unsigned refusals = 0;
    unsigned answers = 0;
    size_t size;
    (void)state;
    memset(text, 'm', sizeof text);
    put("root/" MARKER, text, 1);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = open(in_top("root/" MARKER), O_WRONLY | O_CLOEXEC);
        for (;;) {
            for (int i = 0; i < 8; i++)
                if (pwrite(fd, text, 512, i * 512) < 0)
                    _exit(1);
            if (ftruncate(fd, 1) < 0)
                _exit(1);
        }
    }
    for (int i = 0; i < 50 * TRIES && (refusals == 0 || answers == 0); i++) {
        enum error_code code = marker("root", MARKER, &size);
        assert_true(code == ERROR_NONE || code == ERROR_INVALID);
        if (code == ERROR_NONE)
            assert_true(size == 1 || size == 512 || size == 1024);
        refusals += code != ERROR_NONE;
        answers += code == ERROR_NONE;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(refusals > 0);
    assert_true(answers > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_make),         TEST(test_owner),        TEST(test_outside),
        TEST(test_depth),        TEST(test_obstacles),    TEST(test_root_is_link),
        TEST(test_swapped),      TEST(test_together),     TEST(test_marker),
        TEST(test_marker_names), TEST(test_marker_kinds), TEST(test_marker_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
