/* SPDX-License-Identifier: Apache-2.0 */
/* Id ranges: no two live holders of one, and free again however a holder ends. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "sandbox/idrange.h"

static char directory[] = "/tmp/boxd-test-idrange-XXXXXX";
static int dir = -1;

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? -1 : 0;
}

static const char *shard(uint32_t index)
{
    static char name[32];
    snprintf(name, sizeof name, "idranges.%u", index % 64);
    return name;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 64; i++)
        unlinkat(dir, shard(i), 0);
    close(dir);
    return rmdir(directory);
}

static struct idrange take(uint32_t count, uint32_t hint)
{
    struct error err = ERROR_INIT;
    struct idrange range = {0};
    if (idrange_take_in(dir, count, hint, &range, &err) < 0)
        fail_msg("%s", err.message);
    return range;
}

static bool is_free(uint32_t index)
{
    int fd = openat(dir, shard(index), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    struct flock lock = {.l_type = F_WRLCK, .l_start = index, .l_len = 1};
    assert_return_code(fcntl(fd, F_OFD_GETLK, &lock), 0);
    close(fd);
    return lock.l_type == F_UNLCK;
}

static void test_shape(void **state)
{
    (void)state;
    struct idrange first = take(IDRANGE_COUNT, 0);
    struct idrange last = take(IDRANGE_COUNT, IDRANGE_COUNT - 1);
    assert_int_equal(first.index, 0);
    assert_int_equal(first.base, 0x7ffd0000);
    assert_int_equal(last.index, IDRANGE_COUNT - 1);
    assert_int_equal(last.base, IDRANGE_FIRST);
    assert_true(fcntl(first.lock_fd, F_GETFD) & FD_CLOEXEC);
    close(first.lock_fd);
    close(last.lock_fd);
}

static void test_hint_beyond_the_end_wraps(void **state)
{
    (void)state;
    struct idrange range = take(8, 8 + 3);
    assert_int_equal(range.index, 3);
    close(range.lock_fd);
}

static void test_never_the_same_twice(void **state)
{
    (void)state;
    enum { MANY = 300 };
    static struct idrange held[MANY];
    static bool seen[IDRANGE_COUNT];
    for (size_t i = 0; i < MANY; i++) {
        held[i] = take(IDRANGE_COUNT, 7);
        assert_true(held[i].index < IDRANGE_COUNT);
        assert_false(seen[held[i].index]);
        assert_int_equal(held[i].base % IDRANGE_SIZE, 0);
        seen[held[i].index] = true;
    }
    for (size_t i = 0; i < MANY; i++)
        close(held[i].lock_fd);
}

static void test_exhaustion(void **state)
{
    (void)state;
    enum { COUNT = 50 };
    struct idrange held[COUNT];
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < COUNT; i++)
        held[i] = take(COUNT, 0);
    struct idrange none = {.lock_fd = -7};
    assert_int_equal(idrange_take_in(dir, COUNT, 0, &none, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_true(strlen(err.hint) > 0);
    assert_int_equal(none.lock_fd, -7);
    /* Whichever is the only one free, it is found. */
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t index = held[i].index;
        close(held[i].lock_fd);
        held[i] = take(COUNT, (uint32_t)i);
        assert_int_equal(held[i].index, index);
    }
    for (size_t i = 0; i < COUNT; i++)
        close(held[i].lock_fd);
}

static void test_bad_count(void **state)
{
    (void)state;
    struct idrange range;
    struct error err = ERROR_INIT;
    assert_int_equal(idrange_take_in(dir, 0, 0, &range, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_int_equal(idrange_take_in(dir, IDRANGE_COUNT + 1, 0, &range, &err), -1);
}

static void test_free_after_last_copy(void **state)
{
    (void)state;
    struct idrange range = take(16, 5);
    int copy = fcntl(range.lock_fd, F_DUPFD_CLOEXEC, 0);
    close(range.lock_fd);
    assert_false(is_free(5));
    close(copy);
    assert_true(is_free(5));
}

/* A holder forks a keeper, both with the descriptor; the holder is killed, then the keeper. */
static void test_survives_killed_holder(void **state)
{
    (void)state;
    int report[2];
    assert_return_code(pipe2(report, O_CLOEXEC), 0);
    pid_t holder = fork();
    if (holder == 0) {
        struct idrange range;
        if (idrange_take_in(dir, 16, 9, &range, NULL) < 0 || range.index != 9)
            _exit(1);
        pid_t keeper = fork();
        if (keeper != 0 && write(report[1], &keeper, sizeof keeper) != sizeof keeper)
            _exit(1);
        pause();
        _exit(0);
    }
    pid_t keeper = -1;
    close(report[1]);
    assert_int_equal(read(report[0], &keeper, sizeof keeper), sizeof keeper);
    assert_false(is_free(9));
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    assert_false(is_free(9));
    /* The keeper also holds the pipe: end of file says that all of its descriptors are closed. */
    kill(keeper, SIGKILL);
    struct pollfd end = {.fd = report[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 5000), 1);
    for (int i = 0; i < 5000 && !is_free(9); i++)
        poll(NULL, 0, 1);
    assert_true(is_free(9));
    close(report[0]);
}

/* Many processes at once on few ranges: each marks what it has in shared memory. */
static void test_racing_takers(void **state)
{
    (void)state;
    enum { TAKERS = 8, COUNT = 12, ROUNDS = 300 };
    char path[64];
    snprintf(path, sizeof path, "%s/owners", directory);
    pid_t takers[TAKERS];
    int owners = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_return_code(ftruncate(owners, COUNT), 0);
    for (int t = 0; t < TAKERS; t++) {
        takers[t] = fork();
        if (takers[t] != 0)
            continue;
        for (int i = 0; i < ROUNDS; i++) {
            struct idrange range;
            char mine = (char)(t + 1), found = 0;
            if (idrange_take_in(dir, COUNT, 0, &range, NULL) < 0)
                _exit(1);
            if (pread(owners, &found, 1, range.index) != 1 || found != 0)
                _exit(2);
            if (pwrite(owners, &mine, 1, range.index) != 1)
                _exit(3);
            sched_yield();
            if (pread(owners, &found, 1, range.index) != 1 || found != mine)
                _exit(4);
            if (pwrite(owners, "", 1, range.index) != 1)
                _exit(5);
            close(range.lock_fd);
        }
        _exit(0);
    }
    for (int t = 0; t < TAKERS; t++) {
        int status;
        waitpid(takers[t], &status, 0);
        assert_int_equal(status, 0);
    }
    close(owners);
    unlink(path);
}

static void test_link_instead_of_file(void **state)
{
    (void)state;
    struct idrange range;
    struct error err = ERROR_INIT;
    unlinkat(dir, shard(0), 0);
    assert_return_code(symlinkat("/tmp/elsewhere", dir, shard(0)), 0);
    assert_int_equal(idrange_take_in(dir, 8, 0, &range, &err), -1);
    assert_int_equal(err.errnum, ELOOP);
    unlinkat(dir, shard(0), 0);
}

/* What happens in a /run of its own; returns 0 or the number of the step that went wrong. */
static int in_own_run(void)
{
    struct idrange range;
    struct error err = ERROR_INIT;
    struct stat st;
    umask(022);
    if (idrange_take(3, &range, &err) < 0 || range.index != 3 || range.base != 0x7ffa0000)
        return 1;
    if (stat("/run/boxd", &st) < 0 || (st.st_mode & 07777) != 0700)
        return 2;
    if (stat("/run/boxd/idranges.3", &st) < 0 || (st.st_mode & 07777) != 0600 || st.st_size != 0)
        return 3;
    if (chmod("/run/boxd", 0777) < 0 || idrange_take(0, &range, &err) == 0)
        return 4;
    if (err.code != ERROR_DENIED || !err.hint[0])
        return 5;
    if (chmod("/run/boxd", 0700) < 0 || chown("/run/boxd", 1, 1) < 0 ||
        idrange_take(0, &range, &err) == 0 || err.code != ERROR_DENIED)
        return 6;
    if (rename("/run/boxd", "/run/other") < 0 || symlink("/run/other", "/run/boxd") < 0 ||
        idrange_take(0, &range, &err) == 0)
        return 7;
    return 0;
}

static void test_run_directory(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root for a /run of its own\n");
        skip();
    }
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", "/run", "tmpfs", 0, NULL) < 0)
            _exit(100);
        _exit(in_own_run());
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 100) {
        print_message("skipped: no mount namespace can be made here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_hint_beyond_the_end_wraps),
        cmocka_unit_test(test_never_the_same_twice),
        cmocka_unit_test(test_exhaustion),
        cmocka_unit_test(test_bad_count),
        cmocka_unit_test(test_free_after_last_copy),
        cmocka_unit_test(test_survives_killed_holder),
        cmocka_unit_test(test_racing_takers),
        cmocka_unit_test(test_link_instead_of_file),
        cmocka_unit_test(test_run_directory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
