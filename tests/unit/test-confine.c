/* SPDX-License-Identifier: Apache-2.0 */
/* The front's confinement, tried from inside: a child confines itself and reports what it still
 * can. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/mem.h"
#include "daemon/confine.h"

static char base[] = "/tmp/boxd-confine-XXXXXX";

/* Runs `body` confined in a child; the wait status. Its exit code is the line that failed, or 0. */
static int confined(int (*body)(void))
{
    pid_t child = fork();
    assert_return_code(child, errno);
    if (child == 0) {
        struct account account = {.uid = geteuid(), .gid = getegid()};
        struct confinement confinement = {0};
        struct error err = ERROR_INIT;
        strings_take(&confinement.writable, xasprintf("%s/own", base));
        strings_take(&confinement.readable, xasprintf("%s/file", base));
        int missing =
            confine_privileges(&account, &err) < 0 ? -1 : confine_front(&confinement, &err);
        if (missing < 0) {
            fprintf(stderr, "%s\n", err.message);
            _exit(255);
        }
        if (missing != 0)
            _exit(254);
        _exit(body());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void check_confined(int (*body)(void))
{
    int status = confined(body);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 254)
        skip(); /* this kernel has no Landlock, or this build no filter */
    if (status != 0)
        fail_msg("status %#x: line %d", status, WEXITSTATUS(status));
}

/* Lines are told modulo 256, which is enough to find them. */
#define MUST(condition)                \
    do {                               \
        if (!(condition))              \
            return __LINE__ % 253 + 1; \
    } while (0)
#define MUST_FAIL(call, number)                        \
    do {                                               \
        errno = 0;                                     \
        MUST((long)(call) == -1 && errno == (number)); \
    } while (0)

static int open_in(const char *name, int flags)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", base, name);
    return open(path, flags | O_CLOEXEC, 0600);
}

static int try_files(void)
{
    char from[128], to[128];
    MUST(open_in("own/new", O_RDWR | O_CREAT | O_TRUNC) >= 0);
    snprintf(from, sizeof from, "%s/own/new", base);
    snprintf(to, sizeof to, "%s/own/renamed", base);
    MUST(rename(from, to) == 0 && unlink(to) == 0);
    MUST(open_in("file", O_RDONLY) >= 0);
    MUST_FAIL(open_in("file", O_WRONLY), EACCES);
    MUST_FAIL(open_in("other", O_RDONLY), EACCES);
    MUST_FAIL(open_in("made", O_RDWR | O_CREAT), EACCES);
    MUST_FAIL(open("/etc/passwd", O_RDONLY), EACCES);
    MUST_FAIL(open("/proc/1/status", O_RDONLY), EACCES);
    MUST(open("/proc/self/statm", O_RDONLY) >= 0);
    MUST(open("/dev/null", O_RDWR) >= 0);
    snprintf(from, sizeof from, "%s/own/dir", base);
    MUST(mkdir(from, 0700) == 0 && rmdir(from) == 0);
    MUST_FAIL(chown(to, 0, 0), EPERM);
    return 0;
}

/* As src/sandbox/cgroup-usage.c does with version 1's listings, whose descriptor was passed in. */
static int listing = -1;
static int try_listing(void)
{
    char path[32];
    char text[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", listing);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    MUST(again >= 0);
    MUST(read(again, text, sizeof text) >= 0);
    return 0;
}

/* As src/skills/watch.c does. */
static int try_watching(void)
{
    char path[32];
    char events[4096];
    int own = open_in("own", O_RDONLY | O_DIRECTORY);
    int events_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    MUST(own >= 0 && events_fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", own);
    int id = inotify_add_watch(events_fd, path, IN_CREATE | IN_ONLYDIR);
    MUST(id >= 0);
    MUST_FAIL(read(events_fd, events, sizeof events), EAGAIN);
    MUST(open_in("own/watched", O_RDWR | O_CREAT) >= 0);
    MUST(read(events_fd, events, sizeof events) > 0);
    MUST(inotify_rm_watch(events_fd, id) == 0);
    return 0;
}

static void *thread(void *data)
{
    *(bool *)data = true;
    return NULL;
}

static int try_calls(void)
{
    pthread_t id;
    bool ran = false;
    int pair[2];
    MUST(pthread_create(&id, NULL, thread, &ran) == 0 && pthread_join(id, NULL) == 0 && ran);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    MUST_FAIL(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
    MUST_FAIL(socket(AF_INET, SOCK_STREAM, 0), EPERM);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/docker.sock"};
    MUST_FAIL(connect(pair[0], (struct sockaddr *)&address, sizeof address), EPERM);
    MUST_FAIL(bind(pair[0], (struct sockaddr *)&address, sizeof address), EPERM);
    MUST_FAIL(fork(), EPERM);
    MUST_FAIL(kill(getppid(), 0), EPERM);
    MUST_FAIL(kill(-1, 0), EPERM);
    MUST(kill(getpid(), 0) == 0);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(page != MAP_FAILED);
    MUST_FAIL(mprotect(page, 4096, PROT_READ | PROT_EXEC), EPERM);
    MUST_FAIL(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EPERM);
    MUST_FAIL(ioctl(pair[0], TIOCSTI, "x"), EPERM);
    MUST(ioctl(pair[0], FIONREAD, &(int){0}) == 0);
    MUST_FAIL(prctl(PR_SET_DUMPABLE, 1), EPERM);
    MUST_FAIL(syscall(SYS_clone3, NULL, 0), ENOSYS);
    return 0;
}

static int try_status(void)
{
    char text[4096];
    MUST(fd_read_file(AT_FDCWD, "/proc/self/status", text, sizeof text) > 0);
    static const char *const lines[] = {
        "\nCapInh:\t0000000000000000\n",
        "\nCapPrm:\t0000000000000000\n",
        "\nCapEff:\t0000000000000000\n",
        "\nCapAmb:\t0000000000000000\n",
        "\nNoNewPrivs:\t1\n",
        "\nSeccomp:\t2\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        MUST(strstr(text, lines[i]));
    if (geteuid() == 0)
        MUST(strstr(text, "\nCapBnd:\t0000000000000000\n"));
    MUST(prctl(PR_GET_DUMPABLE) == 0);
    return 0;
}

static int try_exec(void)
{
    execl("/bin/true", "true", NULL);
    return 1;
}

static int try_trace(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    return 1;
}

static int try_abort(void)
{
    abort();
}

static void test_files(void **state)
{
    (void)state;
    check_confined(try_files);
}

static void test_listing(void **state)
{
    (void)state;
    glob_t found = {0};
    if (glob("/sys/fs/cgroup/pids/cgroup.procs", 0, NULL, &found) != 0 &&
        glob("/sys/fs/cgroup/cgroup.procs", 0, NULL, &found) != 0)
        skip(); /* no control groups here */
    listing = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
    globfree(&found);
    assert_return_code(listing, errno);
    check_confined(try_listing);
    fd_clear(&listing);
}

static void test_watching(void **state)
{
    (void)state;
    check_confined(try_watching);
}

static void test_calls(void **state)
{
    (void)state;
    check_confined(try_calls);
}

static void test_status(void **state)
{
    (void)state;
    check_confined(try_status);
}

static void test_fatal(void **state)
{
    (void)state;
    static int (*const bodies[])(void) = {try_exec, try_trace};
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        int status = confined(bodies[i]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 254)
            skip();
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    }
    /* The way out for a failed assertion stays. */
    int status = confined(try_abort);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* A second thread would keep all its rights. */
static void *wait_here(void *data)
{
    char byte;
    (void)!read(*(int *)data, &byte, 1);
    return NULL;
}

static void test_alone(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct confinement confinement = {0};
        struct error err = ERROR_INIT;
        pthread_t id;
        int pair[2];
        int rc = pipe(pair) == 0 && pthread_create(&id, NULL, wait_here, &pair[0]) == 0
                     ? confine_front(&confinement, &err)
                     : 0;
        _exit(rc == -1 && strstr(err.message, "2 threads") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_account(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    pid_t child = fork();
    if (child == 0) {
        struct account account = {.change = true, .uid = 65534, .gid = 65533};
        struct error err = ERROR_INIT;
        gid_t group;
        bool good = confine_privileges(&account, &err) == 0 && getuid() == 65534 &&
                    getegid() == 65533 && getgroups(1, &group) == 0 && setuid(0) < 0;
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_readable(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/etc/boxd/boxd.yaml", "/etc/boxd"},
        {"/home/a/x.yaml", "/home/a/x.yaml"},
        {"/etc/notboxd/a", "/etc/notboxd/a"},
        {"/boxd/a", "/boxd"},
        {"/boxd", "/boxd"},
        {"/a/boxd/b/c", "/a/boxd/b/c"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cleanup_free char *path = confine_readable(cases[i][0]);
        assert_string_equal(path, cases[i][1]);
    }
}

static int set_up(void **state)
{
    (void)state;
    char path[128];
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof path, "%s/own", base);
    assert_int_equal(mkdir(path, 0700), 0);
    close(open_in("file", O_RDWR | O_CREAT));
    close(open_in("other", O_RDWR | O_CREAT));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cleanup_free char *command = xasprintf("rm -rf %s", base);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),    cmocka_unit_test(test_listing),
        cmocka_unit_test(test_watching), cmocka_unit_test(test_calls),
        cmocka_unit_test(test_status),   cmocka_unit_test(test_fatal),
        cmocka_unit_test(test_alone),    cmocka_unit_test(test_account),
        cmocka_unit_test(test_readable),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
