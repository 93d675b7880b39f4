/* SPDX-License-Identifier: Apache-2.0 */
/* Hard limits on skill stores, as whoever is in control of the front may ask for them; and, where
   BOXD_TEST_PROJECT_DIR is a directory with project quota, what they hold. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/fd.h"
#include "sandbox/roots.h"

#define MIB   (UINT64_C(1) << 20)
#define OWNER 4321

static char top[PATH_MAX]; /* top/skills is boxd's own root, top/allowed an allowed one */
static struct mount_policy policy;
static const struct storage_limit limit = {.bytes = 2 * MIB, .inodes = 100};
static bool can; /* the file system has project quota */

static const char *in_top(const char *name)
{
    static char paths[4][PATH_MAX + 300];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static uid_t owner(void)
{
    return geteuid() == 0 ? OWNER : geteuid();
}

static void make(const char *name)
{
    assert_return_code(mkdir(in_top(name), 0755), errno);
    assert_return_code(chown(in_top(name), owner(), (gid_t)-1), errno);
}

static int set_up(void **state)
{
    const char *project = getenv("BOXD_TEST_PROJECT_DIR");
    (void)state;
    can = project != NULL;
    snprintf(top, sizeof top, "%s/test-roots-store-XXXXXX", can ? project : "/tmp");
    if (!mkdtemp(top) || chmod(top, 0755) < 0)
        return -1;
    policy = (struct mount_policy){.only_allowed = true};
    strings_add(&policy.own_roots, in_top("skills"));
    strings_add(&policy.allowed_roots, in_top("allowed"));
    make("skills");
    make("allowed");
    make("outside");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    strings_release(&policy.own_roots);
    strings_release(&policy.allowed_roots);
    cleanup_free char *command = xasprintf("rm -rf %s", top);
    return system(command) == 0 ? 0 : -1; /* NOLINT(cert-env33-c): a path of our own */
}

static bool known; /* the store was limited before */

static enum error_code bound(const char *root, const char *tenant, const struct storage_limit *to)
{
    const struct roots_store store = {
        .root = root, .tenant = tenant, .owner = owner(), .known = known, .limit = *to};
    struct error err = ERROR_INIT;
    int rc = roots_bound_store(&policy, &store, &err);
    assert_true((rc < 0) == (err.code != ERROR_NONE));
    assert_true(rc == 0 || err.message[0]);
    return err.code;
}

/* That the directory is one that may be limited, whether or not that can be done here. */
static void accepted(const char *root, const char *tenant)
{
    assert_int_equal(bound(root, tenant, &limit), can ? ERROR_NONE : ERROR_UNSUPPORTED);
}

/* --- what may be asked for ----------------------------------------------------------------------
 */

static void test_accepted(void **state)
{
    (void)state;
    make("skills/tenants");
    make("skills/tenants/ws-1");
    make("allowed/store");
    accepted(in_top("skills"), "");
    accepted(in_top("skills"), "ws-1");
    known = true; /* which changes nothing for one that is not */
    accepted(in_top("skills"), "ws-1");
    known = false;
    accepted(in_top("allowed/store"), ""); /* as box_init may choose one */
}

static void test_paths(void **state)
{
    char long_name[512];
    (void)state;
    make("skills/tenants");
    make("skills/tenants/ws-1");
    make("outside/tenants");
    make("outside/tenants/ws-1");
    assert_int_equal(bound(in_top("outside"), "", &limit), ERROR_DENIED);
    assert_int_equal(bound(in_top("outside"), "ws-1", &limit), ERROR_DENIED);
    assert_int_equal(bound(top, "", &limit), ERROR_DENIED);
    assert_int_equal(bound("/", "", &limit), ERROR_DENIED);
    assert_int_equal(bound("/etc", "", &limit), ERROR_DENIED);
    assert_int_equal(bound(in_top("skills/none"), "", &limit), ERROR_NOT_FOUND);
    assert_int_equal(bound(in_top("skills"), "none", &limit), ERROR_NOT_FOUND);
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *const names[] = {".", "..",   "../..", "../../outside", "ws-1/../../..",
                                 "/", "/etc", "ws-1/", long_name,       "a/b"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_int_equal(bound(in_top("skills"), names[i], &limit), ERROR_INVALID);
}

static void test_links(void **state)
{
    (void)state;
    make("outside/tenants");
    make("outside/tenants/ws-1");
    assert_return_code(symlink(in_top("outside/tenants"), in_top("skills/tenants")), errno);
    assert_int_equal(bound(in_top("skills"), "ws-1", &limit), ERROR_DENIED);
    unlink(in_top("skills/tenants"));
    make("skills/tenants");
    assert_return_code(symlink(in_top("outside"), in_top("skills/tenants/ws-1")), errno);
    assert_int_equal(bound(in_top("skills"), "ws-1", &limit), ERROR_DENIED);
    assert_return_code(symlink(in_top("outside"), in_top("skills/linked")), errno);
    assert_int_equal(bound(in_top("skills/linked"), "", &limit), ERROR_DENIED);
    assert_int_equal(bound(in_top("skills/linked/tenants"), "", &limit), ERROR_DENIED);
    close(open(in_top("skills/tenants/file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    assert_int_equal(bound(in_top("skills"), "file", &limit), ERROR_DENIED);
}

static void test_another_owner(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root to have directories of others\n");
        skip();
    }
    make("skills/tenants");
    make("skills/tenants/ws-1");
    assert_return_code(chown(in_top("skills/tenants/ws-1"), OWNER + 1, (gid_t)-1), errno);
    assert_int_equal(bound(in_top("skills"), "ws-1", &limit), ERROR_DENIED);
    assert_return_code(chown(in_top("skills/tenants/ws-1"), 0, (gid_t)-1), errno);
    assert_int_equal(bound(in_top("skills"), "ws-1", &limit), ERROR_DENIED);
    assert_return_code(chown(in_top("skills"), 0, (gid_t)-1), errno);
    assert_int_equal(bound(in_top("skills"), "", &limit), ERROR_DENIED);
}

static enum error_code bound_as(uid_t front, const char *root)
{
    const struct roots_store store = {.root = root, .tenant = "", .owner = front, .limit = limit};
    struct error err = ERROR_INIT;
    roots_bound_store(&policy, &store, &err);
    return err.code;
}

/* An allowed root is not the front's to limit, whoever owns it, nor what holds one. */
static void test_allowed_roots(void **state)
{
    (void)state;
    make("allowed/holds");
    make("allowed/holds/root");
    make("allowed/holds-not");
    make("skills/tenants");
    make("skills/tenants/ws-1");
    strings_add(&policy.allowed_roots, in_top("allowed/holds/root"));
    assert_int_equal(bound(in_top("allowed"), "", &limit), ERROR_DENIED);
    assert_int_equal(bound(in_top("allowed/holds"), "", &limit), ERROR_DENIED);
    assert_int_equal(bound(in_top("allowed/holds/root"), "", &limit), ERROR_DENIED);
    accepted(in_top("allowed/holds-not"), "");
    /* boxd's own may lie in one, as LangBot has it, and be one. */
    strings_add(&policy.allowed_roots, top);
    accepted(in_top("skills"), "");
    accepted(in_top("skills"), "ws-1");
    strings_add(&policy.allowed_roots, in_top("skills"));
    accepted(in_top("skills"), "");
    strings_add(&policy.allowed_roots, in_top("skills/tenants/ws-1"));
    assert_int_equal(bound(in_top("skills"), "ws-1", &limit), ERROR_DENIED);
}

/* A front that is root owns too much for its owner to say anything. */
static void test_root_front(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root to have directories of root's\n");
        skip();
    }
    make("allowed/store");
    make("skills/store");
    assert_return_code(chown(in_top("allowed/store"), 0, 0), errno);
    assert_return_code(chown(in_top("skills/store"), 0, 0), errno);
    assert_return_code(chown(in_top("skills"), 0, 0), errno);
    assert_int_equal(bound_as(0, in_top("allowed/store")), ERROR_DENIED);
    assert_int_equal(bound_as(0, in_top("skills/store")), can ? ERROR_NONE : ERROR_UNSUPPORTED);
    assert_int_equal(bound_as(0, in_top("skills")), can ? ERROR_NONE : ERROR_UNSUPPORTED);
}

/* --- what it does -------------------------------------------------------------------------------
 */

static void need_quota(void)
{
    if (!can) {
        print_message("skipped: BOXD_TEST_PROJECT_DIR names no directory with project quota\n");
        skip();
    }
}

static uint32_t project_of(const char *name)
{
    struct fsxattr attributes = {.fsx_projid = UINT32_MAX};
    cleanup_close int fd = open(in_top(name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    assert_return_code(fd, errno);
    assert_return_code(ioctl(fd, FS_IOC_FSGETXATTR, &attributes), errno);
    return attributes.fsx_projid;
}

/* The bytes that the front can write to a file, up to 8 MiB; the file goes again. */
static uint64_t fill(const char *name)
{
    int report[2];
    uint64_t written = 0;
    assert_return_code(pipe2(report, O_CLOEXEC), errno);
    pid_t child = fork();
    if (child == 0) {
        static char data[64 * 1024];
        if (setgid(OWNER) < 0 || setuid(OWNER) < 0)
            _exit(1);
        int fd = open(in_top(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        ssize_t n;
        while (written < 8 * MIB && (n = write(fd, data, sizeof data)) > 0)
            written += (uint64_t)n;
        unlink(in_top(name));
        _exit(write(report[1], &written, sizeof written) != sizeof written);
    }
    close(report[1]);
    assert_int_equal(read(report[0], &written, sizeof written), sizeof written);
    close(report[0]);
    waitpid(child, NULL, 0);
    return written;
}

static void test_each_its_own(void **state)
{
    (void)state;
    need_quota();
    make("skills/old"); /* before there was a limit */
    make("skills/tenants");
    make("skills/tenants/ws-1");
    make("skills/tenants/ws-1/old");
    accepted(in_top("skills"), "");
    accepted(in_top("skills"), "ws-1");
    uint32_t own = project_of("skills");
    uint32_t first = project_of("skills/tenants/ws-1");
    assert_true(storage_project_is_store(own) && storage_project_is_store(first));
    assert_int_not_equal(own, first);
    assert_int_equal(project_of("skills/old"), own);
    assert_int_equal(project_of("skills/tenants"), 0);
    assert_int_equal(project_of("skills/tenants/ws-1/old"), first);
    assert_in_range(fill("skills/old/x"), MIB, 2 * MIB);
    assert_in_range(fill("skills/tenants/ws-1/old/x"), MIB, 2 * MIB);
    /* Nobody's yet. */
    make("skills/tenants/ws-2");
    assert_int_equal(project_of("skills/tenants/ws-2"), 0);
    assert_int_equal(fill("skills/tenants/ws-2/x"), 8 * MIB);
    /* Again, and another limit, and none. */
    const struct storage_limit more = {.bytes = 5 * MIB, .inodes = 100};
    known = true;
    assert_int_equal(bound(in_top("skills"), "ws-1", &more), ERROR_NONE);
    assert_int_equal(project_of("skills/tenants/ws-1"), first);
    assert_in_range(fill("skills/tenants/ws-1/x"), 4 * MIB, 5 * MIB);
    assert_in_range(fill("skills/x"), MIB, 2 * MIB);
    const struct storage_limit none = {0};
    assert_int_equal(bound(in_top("skills"), "ws-1", &none), ERROR_NONE);
    assert_int_equal(fill("skills/tenants/ws-1/x"), 8 * MIB);
    known = false;
    assert_int_equal(bound(in_top("skills"), "ws-2", &none), ERROR_NONE);
    assert_int_equal(project_of("skills/tenants/ws-2"), 0);
}

/* A tenant's directory that is made when the store has its limit already is born in that, and
   leaves it with all that was made there. */
static void test_born_inside(void **state)
{
    (void)state;
    need_quota();
    accepted(in_top("skills"), "");
    uint32_t own = project_of("skills");
    make("skills/tenants");
    make("skills/tenants/ws-1");
    make("skills/tenants/ws-1/package");
    assert_int_equal(project_of("skills/tenants/ws-1/package"), own);
    accepted(in_top("skills"), "ws-1");
    uint32_t first = project_of("skills/tenants/ws-1");
    assert_int_not_equal(first, own);
    assert_int_equal(project_of("skills/tenants"), 0);
    assert_int_equal(project_of("skills/tenants/ws-1/package"), first);
    make("skills/tenants/ws-2");
    assert_int_equal(project_of("skills/tenants/ws-2"), 0);
    accepted(in_top("skills"), "ws-2");
    assert_int_not_equal(project_of("skills/tenants/ws-2"), first);
    accepted(in_top("skills"), "");
    assert_int_equal(project_of("skills"), own);
    assert_int_equal(project_of("skills/tenants/ws-1"), first);
    /* What is moved within a store stays there; out of it, it does not go by a rename. */
    make("skills/tenants/ws-1/.boxd-stage-1");
    make("skills/tenants/ws-1/.boxd-stage-1/0");
    assert_return_code(
        rename(in_top("skills/tenants/ws-1/.boxd-stage-1/0"), in_top("skills/tenants/ws-1/new")),
        errno);
    assert_int_equal(rename(in_top("skills/tenants/ws-1/new"), in_top("skills/new")), -1);
    assert_int_equal(errno, EXDEV);
}

/* A limit on the store is enough: tenants that have none of their own do not count in it. */
static void test_born_before_any(void **state)
{
    (void)state;
    need_quota();
    accepted(in_top("skills"), "");
    uint32_t own = project_of("skills");
    make("skills/tenants");
    make("skills/tenants/ws-1");
    make("skills/tenants/ws-1/package");
    assert_int_equal(project_of("skills/tenants/ws-1"), own);
    known = true;
    accepted(in_top("skills"), "");
    known = false;
    assert_int_equal(project_of("skills/tenants"), 0);
    assert_int_equal(project_of("skills/tenants/ws-1"), 0);
    assert_int_equal(fill("skills/tenants/ws-1/x"), 8 * MIB);
    accepted(in_top("skills"), "ws-1");
    uint32_t first = project_of("skills/tenants/ws-1");
    assert_int_not_equal(first, own);
    assert_int_equal(project_of("skills/tenants/ws-1/package"), first);
    /* By whom the uppermost of a project is known: mounts-open.c. */
    cleanup_close int store = open(in_top("skills"), O_PATH | O_CLOEXEC);
    cleanup_close int tenant = open(in_top("skills/tenants/ws-1"), O_PATH | O_CLOEXEC);
    cleanup_close int package = open(in_top("skills/tenants/ws-1/package"), O_PATH | O_CLOEXEC);
    assert_true(storage_project_is_top(store, own));
    assert_true(storage_project_is_top(tenant, first));
    assert_false(storage_project_is_top(tenant, own));
    assert_false(storage_project_is_top(package, first));
}

/* What has a project of its own inside a store keeps it: boxd's trials do. */
static void test_others_inside(void **state)
{
    struct error err = ERROR_INIT;
    (void)state;
    need_quota();
    make("skills/other");
    make("skills/other/sub");
    cleanup_close int other = open(in_top("skills/other"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(storage_project_set(other, 4711, &limit, &err), 0);
    accepted(in_top("skills"), "");
    assert_int_equal(project_of("skills/other"), 4711);
    assert_int_equal(project_of("skills/other/sub"), 4711);
    /* But one that is another's itself is not taken over. */
    make("allowed/store");
    cleanup_close int store = open(in_top("allowed/store"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(storage_project_set(store, 4712, &limit, &err), 0);
    assert_int_equal(bound(in_top("allowed/store"), "", &limit), ERROR_DENIED);
    assert_int_equal(project_of("allowed/store"), 4712);
}

/* A number that others have is passed over, for good. */
static void test_numbers(void **state)
{
    struct error err = ERROR_INIT;
    struct stat st;
    (void)state;
    need_quota();
    make("allowed/taker");
    make("allowed/taken");
    make("skills/tenants");
    make("skills/tenants/ws-1");
    assert_return_code(stat(in_top("skills/tenants/ws-1"), &st), errno);
    uint32_t wanted = STORAGE_PROJECT_STORES + (uint32_t)(st.st_ino % STORAGE_PROJECT_COUNT);
    cleanup_close int taker = open(in_top("allowed/taker"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(storage_project_set(taker, wanted, &limit, &err), 0);
    accepted(in_top("skills"), "ws-1");
    uint32_t got = project_of("skills/tenants/ws-1");
    assert_true(storage_project_is_store(got));
    assert_int_not_equal(got, wanted);
    assert_int_equal(storage_project_clear(taker, wanted, &err), 0);
    accepted(in_top("skills"), "ws-1");
    assert_int_equal(project_of("skills/tenants/ws-1"), got);
}

/* Nesting directories without end, as a session can, does not rid a store of its limit. */
static void test_too_deep(void **state)
{
    (void)state;
    need_quota();
    accepted(in_top("skills"), "");
    uint32_t own = project_of("skills");
    int at = open(in_top("skills"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 90; i++) {
        if (mkdirat(at, "d", 0755) < 0)
            break;
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    const struct storage_limit less = {.bytes = MIB, .inodes = 300};
    make("skills/other");
    /* 90 levels twice: a rename of the one into the depths of the other. */
    char path[400] = "skills/other";
    for (int i = 0; i < 60; i++) {
        strcat(path, "/e");
        make(path);
    }
    strcat(path, "/d");
    assert_return_code(rename(in_top("skills/d"), in_top(path)), errno);
    assert_int_equal(bound(in_top("skills"), "", &less), ERROR_NONE);
    assert_int_equal(project_of("skills"), own);
    assert_int_equal(project_of(path), own);
    assert_in_range(fill("skills/x"), 1, MIB);
    /* And one that is known is not gone through, however deep. */
    const struct storage_limit more = {.bytes = 2 * MIB, .inodes = 300};
    known = true;
    assert_int_equal(bound(in_top("skills"), "", &more), ERROR_NONE);
    known = false;
    assert_in_range(fill("skills/x"), MIB, 2 * MIB);
}

/* A file that cannot be opened: somebody has a lease on it. */
static int lease(const char *name)
{
    signal(SIGIO, SIG_IGN);
    int fd = open(in_top(name), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    assert_return_code(fd, errno);
    assert_return_code(fcntl(fd, F_SETLEASE, F_WRLCK), errno);
    return fd;
}

static void test_leased(void **state)
{
    const char *const names[] = {"skills/a", "skills/b", "skills/c", "skills/c/d", "skills/e"};
    (void)state;
    need_quota();
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        make(names[i]);
    int leased = lease("skills/leased");
    assert_int_equal(bound(in_top("skills"), "", &limit), ERROR_UNAVAILABLE);
    close(leased);
    assert_int_equal(project_of("skills"), 0);
    assert_int_equal(project_of("skills/leased"), 0);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_int_equal(project_of(names[i]), 0);
    assert_int_equal(fill("skills/a/x"), 8 * MIB);
    accepted(in_top("skills"), "");
    /* Once it is in its project, none is needed. */
    leased = lease("skills/another");
    accepted(in_top("skills"), "");
    close(leased);
    assert_in_range(fill("skills/c/d/x"), MIB, 2 * MIB);
}

static void put(const char *name, uint32_t project)
{
    struct fsxattr attributes;
    cleanup_close int fd = open(in_top(name), O_RDONLY | O_CLOEXEC);
    assert_return_code(fd, errno);
    assert_return_code(ioctl(fd, FS_IOC_FSGETXATTR, &attributes), errno);
    attributes.fsx_projid = project;
    assert_return_code(ioctl(fd, FS_IOC_FSSETXATTR, &attributes), errno);
}

/* What fails takes back what it did, and no more. */
static void test_way_back(void **state)
{
    struct error err = ERROR_INIT;
    const struct storage_nest nest = {.project = 4711, .apart = "tenants"};
    (void)state;
    need_quota();
    make("skills/mine");
    make("skills/tenants");
    make("skills/tenants/ws-1");
    make("skills/other");
    make("skills/other/sub");
    put("skills/tenants", 4711);
    put("skills/tenants/ws-1", 4711);
    put("skills/other", 4712);
    put("skills/other/sub", 4711);
    cleanup_close int fd = open(in_top("skills"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int leased = lease("skills/leased");
    assert_int_equal(storage_project_nest(fd, &nest, &limit, &err), -1);
    close(leased);
    assert_int_equal(project_of("skills"), 0);
    assert_int_equal(project_of("skills/mine"), 0);
    assert_int_equal(project_of("skills/tenants"), 4711);
    assert_int_equal(project_of("skills/tenants/ws-1"), 4711);
    assert_int_equal(project_of("skills/other"), 4712);
    assert_int_equal(project_of("skills/other/sub"), 4711);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_accepted),      TEST(test_paths),        TEST(test_links),
        TEST(test_another_owner), TEST(test_each_its_own), TEST(test_born_inside),
        TEST(test_others_inside), TEST(test_numbers),      TEST(test_too_deep),
        TEST(test_allowed_roots), TEST(test_root_front),   TEST(test_born_before_any),
        TEST(test_leased),        TEST(test_way_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
