/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: the parsers and names on their own, then v1 and v2 against the real kernel where
   this process may make groups; what cannot run here is skipped with its reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fd.h"
#include "core/mem.h"
#include "sandbox/cgroup-internal.h"
#include "sandbox/syscalls.h"

#define TEXT(literal) (literal), sizeof(literal) - 1
#define MIB           (UINT64_C(1) << 20)

/* --- parsers --- */

static void test_number(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_int_equal(cgroup_parse_number(TEXT("0\n"), &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(cgroup_parse_number(TEXT("9223372036854771712"), &value), 0);
    assert_true(value == UINT64_C(9223372036854771712));
    assert_int_equal(cgroup_parse_number(TEXT("18446744073709551615\n"), &value), 0);
    value = 7;
    assert_int_equal(cgroup_parse_number(TEXT("18446744073709551616\n"), &value), -EINVAL);
    assert_int_equal(cgroup_parse_number(TEXT("max\n"), &value), -EINVAL);
    assert_int_equal(cgroup_parse_number(TEXT(""), &value), -EINVAL);
    assert_int_equal(cgroup_parse_number(TEXT("-1\n"), &value), -EINVAL);
    assert_int_equal(cgroup_parse_number(TEXT("12x"), &value), -EINVAL);
    assert_int_equal(value, 7);
}

static void test_keyed(void **state)
{
    (void)state;
    static const char events[] = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
    static const char control[] = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n";
    uint64_t value = 7;
    assert_int_equal(cgroup_parse_keyed(TEXT(events), "oom_kill", &value), 0);
    assert_int_equal(value, 2);
    assert_int_equal(cgroup_parse_keyed(TEXT(control), "oom_kill", &value), 0);
    assert_int_equal(value, 5);
    assert_int_equal(cgroup_parse_keyed(TEXT("max 4"), "max", &value), 0);
    assert_int_equal(value, 4);
    assert_int_equal(cgroup_parse_keyed(TEXT(events), "kill", &value), -ENOENT);
    assert_int_equal(cgroup_parse_keyed(TEXT("max"), "max", &value), -ENOENT);
    assert_int_equal(cgroup_parse_keyed(TEXT("max \n"), "max", &value), -EINVAL);
    assert_int_equal(cgroup_parse_keyed(TEXT(""), "max", &value), -ENOENT);
    assert_int_equal(value, 4);
}

static void test_controllers(void **state)
{
    (void)state;
    assert_int_equal(cgroup_parse_controllers(TEXT("cpuset cpu io memory hugetlb pids\n")),
                     CGROUP_HAS_CPU | CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS);
    assert_int_equal(cgroup_parse_controllers(TEXT("cpu,cpuacct")),
                     CGROUP_HAS_CPU | CGROUP_HAS_CPUACCT);
    assert_int_equal(cgroup_parse_controllers(TEXT("cpuset,memory_x,name=memory")), 0);
    assert_int_equal(cgroup_parse_controllers(TEXT("")), 0);
}

static void test_self(void **state)
{
    (void)state;
    static const char text[] = "12:name=systemd:/init.scope\n4:memory:/a b\n2:cpu,cpuacct:/\n"
                               "broken\n1::relative\n0::/user.slice/x:y\n";
    const char *at = text;
    const char *end = text + sizeof text - 1;
    struct cgroup_self self;
    assert_true(cgroup_parse_self(&at, end, &self));
    assert_false(self.v2);
    assert_int_equal(self.controllers, CGROUP_HAS_MEMORY);
    assert_string_equal(self.path, "/a b");
    assert_true(cgroup_parse_self(&at, end, &self));
    assert_int_equal(self.controllers, CGROUP_HAS_CPU | CGROUP_HAS_CPUACCT);
    assert_true(cgroup_parse_self(&at, end, &self));
    assert_true(self.v2);
    assert_string_equal(self.path, "/user.slice/x:y");
    assert_false(cgroup_parse_self(&at, end, &self));
}

static void test_mount(void **state)
{
    (void)state;
    static const char text[] =
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 master:2 - cgroup cgroup rw,memory\n"
        "36 31 0:33 /docker/abc /sys/fs/cgroup/my\\040pids rw - cgroup cgroup rw,pids\n"
        "short line\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
    static const struct {
        struct cgroup_self self;
        const char *dir; /* NULL: there is none */
        size_t top;
    } cases[] = {
        {{false, CGROUP_HAS_MEMORY, "/process/1"}, "/sys/fs/cgroup/memory/process/1", 21},
        {{false, CGROUP_HAS_MEMORY, "/"}, "/sys/fs/cgroup/memory", 21},
        {{false, CGROUP_HAS_PIDS, "/docker/abc"}, "/sys/fs/cgroup/my pids", 22},
        {{false, CGROUP_HAS_PIDS, "/docker/abc/d"}, "/sys/fs/cgroup/my pids/d", 22},
        {{false, CGROUP_HAS_PIDS, "/docker/abcd"}, NULL, 0},
        {{false, CGROUP_HAS_PIDS, "/"}, NULL, 0},
        {{false, CGROUP_HAS_CPU | CGROUP_HAS_CPUACCT, "/x"}, "/sys/fs/cgroup/cpu/x", 18},
        {{false, CGROUP_HAS_CPU | CGROUP_HAS_PIDS, "/x"}, NULL, 0},
        {{true, 0, "/a.service"}, "/sys/fs/cgroup/unified/a.service", 22},
        {{true, 0, "/../b"}, NULL, 0},
        {{true, 0, "/..b"}, "/sys/fs/cgroup/unified/..b", 22},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char dir[PATH_MAX] = "untouched";
        size_t top = 0;
        int result = cgroup_parse_mount(TEXT(text), &cases[i].self, dir, &top);
        assert_int_equal(result, cases[i].dir ? 0 : -ENOENT);
        assert_string_equal(dir, cases[i].dir ? cases[i].dir : "untouched");
        assert_int_equal(top, cases[i].top);
    }
}

static void test_stat(void **state)
{
    (void)state;
    static const char text[] =
        "77 (a) R (b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 0 0\n";
    char process_state = 'x';
    uint64_t start = 7;
    assert_int_equal(cgroup_parse_stat(TEXT(text), &process_state, &start), 0);
    assert_int_equal(process_state, 'S');
    assert_int_equal(start, 4242);
    /* Cut short anywhere before that field, it is refused. */
    for (size_t size = 0;
         size < strlen("77 (a) R (b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "); size++)
        assert_int_equal(cgroup_parse_stat(text, size, &process_state, &start), -EINVAL);
}

static size_t parse_pids(const char *text, pid_t *ret)
{
    struct cgroup_pid_reader reader = {0};
    size_t count = 0;
    for (; *text; text++)
        count += cgroup_parse_pid(&reader, *text, &ret[count]);
    return count;
}

static void test_pids(void **state)
{
    (void)state;
    pid_t pids[8] = {0};
    assert_int_equal(parse_pids("1\n0\n4194304\n", pids), 2);
    assert_int_equal(pids[0], 1);
    assert_int_equal(pids[1], 4194304);
    assert_int_equal(parse_pids("12", pids), 0);
    assert_int_equal(parse_pids("99999999999999999999\n5\n", pids), 1);
    assert_int_equal(pids[0], 5);
    assert_int_equal(parse_pids("x3\n-4\n\n6\n", pids), 1);
    assert_int_equal(pids[0], 6);
}

static void test_names(void **state)
{
    (void)state;
    struct cgroup_owner owner = {4026531836, 1234, 567890};
    char name[64]; /* callers keep it in as many */
    cgroup_name_format(&owner, 17, name, sizeof name);
    assert_string_equal(name, "box.4026531836.1234.567890.17");
    assert_true(cgroup_name_valid(name));
    struct cgroup_owner parsed = {0};
    unsigned number = 0;
    assert_int_equal(cgroup_name_parse(name, &parsed, &number), 0);
    assert_memory_equal(&parsed, &owner, sizeof owner);
    assert_int_equal(number, 17);
    struct cgroup_owner huge = {UINT32_MAX, INT_MAX, UINT64_MAX};
    cgroup_name_format(&huge, UINT_MAX, name, sizeof name);
    assert_int_equal(cgroup_name_parse(name, &parsed, &number), 0);
    static const char *const foreign[] = {
        "box",
        "box.1.2.3",
        "box.1.2.3.4.5",
        "box.1.2.3.04",
        "box.1.0.3.4",
        "box.1.2.3.4 ",
        "box.1.-2.3.4",
        "Box.1.2.3.4",
        "boxd",
        "box.1.2.3.",
        "box.1.2.3.4/x",
        "box.1.2..3.4",
        "supervisor",
        "",
        "box-12.scope",
        "abox.1.2.3.4",
        "box.1.2.3.99999999999",
    };
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
        assert_int_equal(cgroup_name_parse(foreign[i], &parsed, &number), -EINVAL);
    assert_true(cgroup_is_scope("box-12.scope"));
    assert_false(cgroup_is_scope("box-.scope"));
    assert_false(cgroup_is_scope("box-12.scope.d"));
    assert_false(cgroup_is_scope("toolbox-12.scope"));
    static const char *const invalid[] = {"", ".", "..", ".a", "a/b", "A", "a b", "a_b"};
    for (size_t i = 0; i < ARRAY_SIZE(invalid); i++)
        assert_false(cgroup_name_valid(invalid[i]));
}

/* --- a real kernel --- */

struct world {
    struct cgroup_root *root;
    char name[64];
    char v2_dir[PATH_MAX]; /* what the v2 tests made to work below */
};

static const struct cgroup_limits limits = {64 * MIB, 500, 32};

static void skip_because(const char *reason)
{
    print_message("[  SKIPPED ] %s\n", reason);
    skip();
}

static int close_world(void **state)
{
    struct world *world = *state;
    if (world && world->root) {
        cgroup_session_kill(world->root, world->name, NULL);
        cgroup_session_remove(world->root, world->name, NULL);
        cgroup_root_close(world->root);
        if (world->v2_dir[0]) {
            char path[PATH_MAX + 16];
            snprintf(path, sizeof path, "%s/boxd", world->v2_dir);
            rmdir(path);
            rmdir(world->v2_dir);
        }
    }
    free(world);
    return 0;
}

static int open_v1(void **state)
{
    struct world *world = xcalloc(1, sizeof *world);
    *state = world;
    cgroup_root_open(&world->root, NULL);
    cgroup_session_name(world->root, (unsigned)(getpid() & 0xffff), world->name,
                        sizeof world->name);
    return 0;
}

/* What this machine gives; where that is v1, a group of our own on a cgroup2 mount beside it, which
   has no controllers, plays the top. */
static int open_v2(void **state)
{
    struct world *world = xcalloc(1, sizeof *world);
    char own[PATH_MAX];
    size_t top;
    *state = world;
    cgroup_root_open(&world->root, NULL);
    cgroup_session_name(world->root, 1, world->name, sizeof world->name);
    if (cgroup_root_version(world->root) == CGROUP_V2 || cgroup_v2_own(own, &top) < 0)
        return 0;
    snprintf(world->v2_dir, sizeof world->v2_dir, "%.*s/cg-test-%d", (int)top, own, (int)getpid());
    if (mkdir(world->v2_dir, 0755) < 0) {
        world->v2_dir[0] = '\0';
        return 0;
    }
    world->root->ops->close(world->root);
    world->root->v1.count = 0;
    world->root->controllers = 0;
    assert_true(cgroup_v2_find(world->root, world->v2_dir, strlen(world->v2_dir)));
    assert_int_equal(world->root->v2.way, CGROUP_V2_TOP);
    assert_int_equal(world->root->v2.base, -1);
    return 0;
}

static struct world *need(void **state, enum cgroup_version version)
{
    struct world *world = *state;
    if (cgroup_root_version(world->root) != version)
        skip_because(version == CGROUP_V1 ? "no writable cgroup v1 hierarchy"
                                          : "no group can be made on cgroup2");
    return world;
}

static void create(struct world *world, const struct cgroup_limits *wanted)
{
    struct error err = ERROR_INIT;
    int birth = -2;
    if (cgroup_session_create(world->root, world->name, wanted, &birth, &err) < 0)
        fail_msg("%s", err.message);
    if (world->root->version == CGROUP_V2)
        assert_true(birth >= 0);
    else
        assert_int_equal(birth, -1);
    fd_clear(&birth);
}

static uint64_t read_value(int dir, const char *name, int lane, const char *file)
{
    char path[CGROUP_PATH_MAX];
    char text[64];
    uint64_t value = UINT64_MAX;
    cgroup_path(path, name, lane, file);
    ssize_t size = fd_read_file(dir, path, text, sizeof text);
    assert_true(size > 0);
    cgroup_parse_number(text, (size_t)size, &value);
    return value;
}

/* A child that enters the lane by itself, does `work`, and waits to be killed. */
static pid_t start_in(struct cgroup_root *root, const char *name, int lane, void (*work)(void))
{
    int pipe_fds[2];
    char byte;
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (cgroup_place(root, name, lane, 0, NULL) < 0)
            _exit(1);
        if (work)
            work();
        if (write(pipe_fds[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(pipe_fds[1]);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
    close(pipe_fds[0]);
    return pid;
}

static pid_t start(struct world *world, int lane, void (*work)(void))
{
    return start_in(world->root, world->name, lane, work);
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

static void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
}

static struct cgroup_usage usage_of(const struct cgroup_lane_fds *lane)
{
    struct cgroup_usage usage;
    assert_int_equal(cgroup_usage_read(lane, &usage), 0);
    return usage;
}

static int find_ours(const char *child, void *data)
{
    return strcmp(child, data) == 0;
}

static void assert_nothing_left(struct world *world)
{
    struct cgroup_root *root = world->root;
    for (size_t i = 0; i < root->v1.count; i++)
        assert_int_equal(
            cgroup_each_child(root->v1.hierarchies[i].dir, ".", find_ours, world->name), 0);
    if (root->v2.base >= 0)
        assert_int_equal(cgroup_each_child(root->v2.base, ".", find_ours, world->name), 0);
}

static void remove_session(struct world *world)
{
    struct error err = ERROR_INIT;
    if (cgroup_session_remove(world->root, world->name, &err) < 0)
        fail_msg("%s", err.message);
    assert_nothing_left(world);
}

static const struct cgroup_hierarchy *hierarchy(struct world *world, unsigned controller)
{
    for (size_t i = 0; i < world->root->v1.count; i++)
        if (world->root->v1.hierarchies[i].controllers & controller)
            return &world->root->v1.hierarchies[i];
    return NULL;
}

static void test_v1_limits(void **state)
{
    struct world *world = need(state, CGROUP_V1);
    const struct cgroup_limits more = {128 * MIB, 1500, 0};
    const struct cgroup_hierarchy *memory = hierarchy(world, CGROUP_HAS_MEMORY);
    const struct cgroup_hierarchy *pids = hierarchy(world, CGROUP_HAS_PIDS);
    const struct cgroup_hierarchy *cpu = hierarchy(world, CGROUP_HAS_CPU);
    if (!memory || !pids || !cpu)
        skip_because("not all of memory, pids and cpu are here");
    create(world, &limits);
    const char *name = world->name;
    const int session = CGROUP_SESSION_ITSELF;
    assert_int_equal(read_value(memory->dir, name, session, "memory.limit_in_bytes"), 64 * MIB);
    if (world->root->v1.has_memsw)
        assert_int_equal(read_value(memory->dir, name, session, "memory.memsw.limit_in_bytes"),
                         64 * MIB);
    assert_int_equal(read_value(memory->dir, name, session, "memory.swappiness"), 0);
    assert_int_equal(read_value(memory->dir, name, 0, "memory.swappiness"), 0);
    assert_int_equal(read_value(pids->dir, name, session, "pids.max"), 32);
    assert_int_equal(read_value(cpu->dir, name, session, "cpu.cfs_quota_us"), 50000);
    /* Up, to none, and down again. */
    assert_int_equal(cgroup_session_limit(world->root, name, &more, NULL), 0);
    assert_int_equal(read_value(memory->dir, name, session, "memory.limit_in_bytes"), 128 * MIB);
    assert_true(read_value(pids->dir, name, session, "pids.max") == UINT64_MAX);
    assert_int_equal(cgroup_session_limit(world->root, name, &limits, NULL), 0);
    assert_int_equal(read_value(memory->dir, name, session, "memory.limit_in_bytes"), 64 * MIB);
    struct error err = ERROR_INIT;
    int birth;
    assert_int_equal(cgroup_session_create(world->root, name, &limits, &birth, &err), -1);
    assert_int_equal(err.errnum, EEXIST);
    remove_session(world);
}

static void touch_memory(void)
{
    char *memory = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, 16 * MIB);
    munmap(memory, 16 * MIB);
}

static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* From now on: what it took to get into the lane is not the lane's. */
static void burn_cpu(void)
{
    uint64_t until = cpu_ns() + 20000000;
    while (cpu_ns() < until)
        ;
}

static void use_memory(struct world *world)
{
    struct cgroup_lane_fds lane;
    bool resets = world->root->version == CGROUP_V1;
    create(world, &(struct cgroup_limits){0});
    assert_int_equal(cgroup_lane_open(world->root, world->name, 0, &lane, NULL), 0);
    assert_int_equal(usage_of(&lane).processes, 0);
    pid_t pid = start(world, 0, touch_memory);
    struct cgroup_usage usage = usage_of(&lane);
    assert_int_equal(usage.processes, 1);
    if (usage.has_peak) {
        assert_in_range(usage.peak_bytes, 16 * MIB, 32 * MIB);
        resets = cgroup_peak_reset(&lane) || resets;
        assert_true(!resets || usage_of(&lane).peak_bytes < 8 * MIB);
    }
    kill(pid, SIGKILL);
    wait_for(pid);
    assert_int_equal(usage_of(&lane).processes, 0);
    remove_session(world);
    assert_int_equal(cgroup_usage_read(&lane, &usage), -ENODEV);
    cgroup_lane_fds_close(&lane);
}

static void test_v1_usage(void **state)
{
    use_memory(need(state, CGROUP_V1));
}

static void test_v2_usage(void **state)
{
    use_memory(need(state, CGROUP_V2));
}

static void eat_memory(void)
{
    char *memory =
        mmap(NULL, 256 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, 256 * MIB);
    _exit(2);
}

static void run_out_of_memory(struct world *world)
{
    struct cgroup_lane_fds lane;
    if (!(world->root->controllers & CGROUP_HAS_MEMORY))
        skip_because("no memory controller");
    create(world, &limits);
    assert_int_equal(cgroup_lane_open(world->root, world->name, 0, &lane, NULL), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (cgroup_place(world->root, world->name, 0, 0, NULL) == 0)
            eat_memory();
        _exit(1);
    }
    int status = wait_for(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(usage_of(&lane).oom_kills, 1);
    struct pollfd event = {.fd = lane.fds[CGROUP_FD_OOM_EVENT], .events = POLLIN};
    if (event.fd >= 0)
        assert_int_equal(poll(&event, 1, 0), 1);
    cgroup_lane_fds_close(&lane);
}

static void test_v1_oom(void **state)
{
    struct world *world = need(state, CGROUP_V1);
    run_out_of_memory(world);
    remove_session(world);
}

static void fork_and_eat(void)
{
    if (fork() == 0)
        eat_memory();
}

/* Lane 1 dies as one; lane 0, where nobody is short of memory, does not. */
static void test_v2_oom(void **state)
{
    struct world *world = need(state, CGROUP_V2);
    run_out_of_memory(world);
    assert_int_equal(cgroup_lane_create(world->root, world->name, 1, NULL), 0);
    pid_t other = start(world, 0, NULL);
    pid_t pid = start(world, 1, fork_and_eat);
    int status = wait_for(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
    assert_int_equal(cgroup_session_kill(world->root, world->name, NULL), 0);
    wait_for(other);
    remove_session(world);
}

static void assert_file(struct world *world, int lane, const char *file, const char *expected)
{
    char path[CGROUP_PATH_MAX];
    char text[64];
    cgroup_path(path, world->name, lane, file);
    assert_true(fd_read_file(world->root->v2.base, path, text, sizeof text) > 0);
    assert_string_equal(text, expected);
}

static void test_v2_limits(void **state)
{
    struct world *world = need(state, CGROUP_V2);
    const unsigned all = CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS | CGROUP_HAS_CPU;
    const int session = CGROUP_SESSION_ITSELF;
    if ((world->root->controllers & all) != all)
        skip_because("not all of memory, pids and cpu are in this cgroup2");
    create(world, &limits);
    assert_file(world, session, "memory.max", "67108864\n");
    assert_file(world, session, "pids.max", "32\n");
    assert_file(world, session, "cpu.max", "50000 100000\n");
    assert_file(world, session, "cgroup.subtree_control", "memory\n");
    assert_file(world, 0, "memory.oom.group", "0\n");
    assert_int_equal(cgroup_lane_create(world->root, world->name, CGROUP_LANE_INIT, NULL), 0);
    assert_file(world, 0, "memory.oom.group", "1\n");
    assert_int_equal(
        cgroup_session_limit(world->root, world->name, &(struct cgroup_limits){0}, NULL), 0);
    assert_file(world, session, "memory.max", "max\n");
    assert_file(world, session, "pids.max", "max\n");
    assert_file(world, session, "cpu.max", "max 100000\n");
    remove_session(world);
}

/* Members of lane 0 that are more than a zombie, which the count of v1 includes. */
static unsigned living(const struct world *world)
{
    int dir = world->root->version == CGROUP_V2 ? world->root->v2.base
                                                : world->root->v1.hierarchies[0].dir;
    char path[CGROUP_PATH_MAX];
    char text[65536];
    unsigned count = 0;
    for (size_t at = 0; world->root->version == CGROUP_V1 && at < world->root->v1.count; at++) {
        if (world->root->v1.hierarchies[at].controllers & (CGROUP_HAS_MEMORY | CGROUP_HAS_PIDS))
            dir = world->root->v1.hierarchies[at].dir;
    }
    cgroup_path(path, world->name, 0, "cgroup.procs");
    ssize_t size = fd_read_file(dir, path, text, sizeof text);
    assert_true(size >= 0);
    for (ssize_t i = 0; i < size; i++)
        count += text[i] == '\n';
    return count;
}

static void bomb(void)
{
    signal(SIGTERM, SIG_IGN);
    for (int i = 0; i < 3; i++)
        fork();
    if (fork() == 0) {
        setsid();
        for (;;)
            fork();
    }
}

static void kill_fork_bomb(struct world *world)
{
    struct cgroup_lane_fds lane;
    struct error err = ERROR_INIT;
    if (!(world->root->controllers & CGROUP_HAS_PIDS))
        skip_because("no pids controller");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    create(world, &(struct cgroup_limits){.pids = 200});
    assert_int_equal(cgroup_lane_create(world->root, world->name, 1, NULL), 0);
    assert_int_equal(cgroup_lane_open(world->root, world->name, 0, &lane, NULL), 0);
    pid_t other = start(world, 1, NULL);
    pid_t pid = start(world, 0, bomb);
    /* Let it grow to its limit. */
    struct pollfd never = {.fd = -1};
    for (int i = 0; i < 500 && usage_of(&lane).pids_denied == 0; i++)
        poll(&never, 1, 20);
    assert_true(usage_of(&lane).pids_denied > 0);
    assert_true(usage_of(&lane).processes > 50);
    if (cgroup_lane_kill(world->root, world->name, 0, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(living(world), 0);
    wait_for(pid);
    assert_int_equal(kill(other, 0), 0); /* the other lane lives */
    assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
    /* The lane can be used again, forks and all. */
    pid = start(world, 0, NULL);
    assert_int_equal(living(world), 1);
    assert_int_equal(cgroup_session_kill(world->root, world->name, NULL), 0);
    reap_all();
    cgroup_lane_fds_close(&lane);
    remove_session(world);
}

static void test_v1_fork_bomb(void **state)
{
    kill_fork_bomb(need(state, CGROUP_V1));
}

static void test_v2_fork_bomb(void **state)
{
    kill_fork_bomb(need(state, CGROUP_V2));
}

static void fork_twice(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            raise(SIGSTOP);
        for (;;)
            pause();
    }
}

static void kill_tree(struct world *world)
{
    struct cgroup_lane_fds lane;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    assert_int_equal(cgroup_lane_open(world->root, world->name, 0, &lane, NULL), 0);
    start(world, 0, fork_twice);
    assert_true(usage_of(&lane).processes >= 1);
    assert_int_equal(cgroup_lane_kill(world->root, world->name, 0, NULL), 0);
    assert_int_equal(living(world), 0);
    reap_all();
    assert_int_equal(usage_of(&lane).processes, 0);
    cgroup_lane_fds_close(&lane);
}

static void test_v1_kill_tree(void **state)
{
    struct world *world = need(state, CGROUP_V1);
    create(world, &limits);
    kill_tree(world);
    assert_int_equal(cgroup_lane_kill(world->root, world->name, 0, NULL), 0);
    remove_session(world);
}

/* An entry opened here is used by a process that could not open it. */
static void test_v1_entry(void **state)
{
    struct world *world = need(state, CGROUP_V1);
    struct cgroup_entry entry;
    struct cgroup_lane_fds lane;
    create(world, &limits);
    assert_int_equal(cgroup_lane_create(world->root, world->name, 3, NULL), 0);
    assert_int_equal(cgroup_entry_open(world->root, world->name, 3, &entry, NULL), 0);
    assert_int_equal(cgroup_lane_open(world->root, world->name, 3, &lane, NULL), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
            _exit(1);
        _exit(cgroup_entry_use(&entry) == 0 && usage_of(&lane).processes == 1 ? 0 : 2);
    }
    assert_int_equal(wait_for(pid), 0);
    cgroup_entry_close(&entry);
    cgroup_lane_fds_close(&lane);
    remove_session(world);
}

/* Two lanes and init's, one of them with a member that exits while the session is removed. */
static void remove_busy(struct world *world)
{
    assert_int_equal(cgroup_lane_create(world->root, world->name, 1, NULL), 0);
    pid_t pid = start(world, 0, NULL);
    assert_int_equal(cgroup_place(world->root, world->name, CGROUP_LANE_INIT, pid, NULL), 0);
    struct error err = ERROR_INIT;
    pid_t killer = fork();
    if (killer == 0) {
        struct pollfd never = {.fd = -1};
        poll(&never, 1, 30);
        kill(pid, SIGKILL);
        _exit(0);
    }
    if (cgroup_session_remove(world->root, world->name, &err) < 0)
        fail_msg("%s", err.message);
    assert_nothing_left(world);
    wait_for(pid);
    wait_for(killer);
}

static void test_v1_remove_busy(void **state)
{
    struct world *world = need(state, CGROUP_V1);
    create(world, &limits);
    remove_busy(world);
}

/* A session that never empties is an error, after a bounded time. */
static void test_v1_remove_refused(void **state)
{
    struct world *world = need(state, CGROUP_V1);
    struct error err = ERROR_INIT;
    create(world, &limits);
    pid_t pid = start(world, 0, NULL);
    uint64_t before = clock_monotonic_ms();
    assert_int_equal(cgroup_session_remove(world->root, world->name, &err), -1);
    assert_int_equal(err.errnum, EBUSY);
    assert_in_range(clock_monotonic_ms() - before, CGROUP_WAIT_MS - 100, CGROUP_WAIT_MS + 1500);
    kill(pid, SIGKILL);
    wait_for(pid);
    remove_session(world);
}

/* The session of a process that is gone, with a member that is not. */
static void sweep(struct world *world)
{
    struct cgroup_root *root = world->root;
    struct cgroup_owner self = root->owner;
    char theirs[64];
    int birth = -1;
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    wait_for(gone);
    root->owner.pid = (uint64_t)gone;
    cgroup_session_name(root, 5, theirs, sizeof theirs);
    root->owner = self;
    assert_int_equal(cgroup_session_create(root, theirs, &(struct cgroup_limits){0}, &birth, NULL),
                     0);
    fd_clear(&birth);
    create(world, &(struct cgroup_limits){0});
    pid_t pid = start_in(root, theirs, 0, NULL);
    const char *const keep[] = {theirs};
    int dir = root->version == CGROUP_V1 ? root->v1.hierarchies[0].dir : root->v2.base;
    cgroup_sweep_except(root, keep, 1);
    assert_int_equal(cgroup_each_child(dir, ".", find_ours, theirs), 1);
    cgroup_sweep(root);
    assert_int_equal(cgroup_each_child(dir, ".", find_ours, theirs), 0);
    assert_int_equal(cgroup_each_child(dir, ".", find_ours, world->name), 1);
    int status = wait_for(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    remove_session(world);
}

static void test_v1_sweep(void **state)
{
    sweep(need(state, CGROUP_V1));
}

static void test_v2_kill_tree(void **state)
{
    struct world *world = need(state, CGROUP_V2);
    struct cgroup_lane_fds lane;
    create(world, &(struct cgroup_limits){0});
    kill_tree(world);
    assert_int_equal(cgroup_lane_open(world->root, world->name, 0, &lane, NULL), 0);
    pid_t pid = start(world, 0, burn_cpu);
    struct cgroup_usage usage = usage_of(&lane);
    assert_true(usage.has_cpu);
    assert_true(usage.cpu_us >= 20000);
    cgroup_lane_fds_close(&lane);
    assert_int_equal(cgroup_session_kill(world->root, world->name, NULL), 0);
    wait_for(pid);
    remove_session(world);
}

static void test_v2_born_inside(void **state)
{
    struct world *world = need(state, CGROUP_V2);
    struct cgroup_lane_fds lane;
    int birth = -1;
    assert_int_equal(
        cgroup_session_create(world->root, world->name, &(struct cgroup_limits){0}, &birth, NULL),
        0);
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)birth};
    pid_t pid = (pid_t)sys_clone3(&args);
    if (pid == 0)
        for (;;)
            pause();
    close(birth);
    assert_true(pid > 0);
    assert_int_equal(cgroup_lane_open(world->root, world->name, 0, &lane, NULL), 0);
    assert_int_equal(usage_of(&lane).processes, 1);
    assert_int_equal(cgroup_lane_kill(world->root, world->name, 0, NULL), 0);
    wait_for(pid);
    cgroup_lane_fds_close(&lane);
    remove_session(world);
}

static void test_v2_remove_busy(void **state)
{
    struct world *world = need(state, CGROUP_V2);
    create(world, &(struct cgroup_limits){0});
    remove_busy(world);
}

static void test_v2_sweep(void **state)
{
    sweep(need(state, CGROUP_V2));
}

static void test_v2_refuses_limits(void **state)
{
    struct world *world = need(state, CGROUP_V2);
    struct error err = ERROR_INIT;
    int birth;
    if (world->root->controllers & CGROUP_HAS_MEMORY)
        skip_because("this cgroup2 has the memory controller");
    assert_int_equal(cgroup_session_create(world->root, world->name, &limits, &birth, &err), -1);
    assert_int_equal(err.code, ERROR_UNSUPPORTED);
    assert_true(err.hint[0] != '\0');
    assert_nothing_left(world);
}

/* What a unit does when its group must be emptied before it can pass controllers on. */
static void test_v2_supervisor(void **state)
{
    struct world *world = need(state, CGROUP_V2);
    char path[PATH_MAX + 32];
    if (!world->v2_dir[0])
        skip_because("only where a group of our own plays the top");
    cleanup_close int dir = open(world->v2_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    char text[16];
    snprintf(text, sizeof text, "%d", (int)pid);
    assert_int_equal(fd_write_file(dir, "cgroup.procs", text), 0);
    snprintf(path, sizeof path, "%s/" CGROUP_SUPERVISOR, world->v2_dir);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(cgroup_procs_move(dir, CGROUP_SUPERVISOR), 0);
    assert_int_equal(fd_read_file(dir, "cgroup.procs", text, sizeof text), 0);
    kill(pid, SIGKILL);
    wait_for(pid);
    assert_int_equal(rmdir(path), 0);
}

/* Where an ordinary user's sessions would go, if its process were in `own`, as the group's path
   relative to `top`: "" for nowhere. */
static void find_as_user(const char *top, const char *own, uid_t uid, char ret[NAME_MAX])
{
    int pipe_fds[2];
    char path[PATH_MAX];
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct cgroup_root root = {.v2 = {.base = -1, .top = -1}};
        char link[64];
        ssize_t size = 0;
        unsetenv("XDG_RUNTIME_DIR");
        snprintf(path, sizeof path, "%s/%s", top, own);
        if (setresuid(uid, uid, uid) < 0)
            _exit(1);
        if (cgroup_v2_find(&root, path, strlen(top))) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", root.v2.top);
            size = readlink(link, path, sizeof path);
        }
        _exit(size < 0 || write(pipe_fds[1], path, (size_t)size) != size);
    }
    close(pipe_fds[1]);
    ssize_t size = read(pipe_fds[0], path, sizeof path - 1);
    close(pipe_fds[0]);
    assert_int_equal(wait_for(pid), 0);
    path[size] = '\0';
    snprintf(ret, NAME_MAX, "%s", size > 0 ? path + strlen(top) + 1 : "");
}

static void make_delegated(const char *path, uid_t uid)
{
    static const char *const files[] = {".", "cgroup.procs", "cgroup.subtree_control"};
    char file[PATH_MAX + 128];
    assert_int_equal(mkdir(path, 0755), 0);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        snprintf(file, sizeof file, "%s/%s", path, files[i]);
        assert_int_equal(chown(file, uid, (gid_t)-1), 0);
    }
}

/* A group is delegated by whose it is; those that a systemd manager keeps are not. */
static void test_v2_delegated(void **state)
{
    (void)state;
    static const struct {
        const char *group;
        const char *found; /* if this process were in the group */
        uid_t uid;
    } cases[] = {
        {"roots", "", 0},
        {"roots/mine", "roots/mine", 65534},
        {"roots/mine/run", "roots/mine", 65534},
        {"roots/mine/run/deep", "roots/mine", 65534},
        {"roots/mine/other", "", 65533},
        {"roots/mine/other/back", "roots/mine/other/back", 65534},
        {"roots/mine/a.service", "", 65534},
        {"roots/mine/a.service/sub", "", 65534},
        {"roots/mine/a.slice", "", 65534},
        {"roots/mine/a.slice/sub", "", 65534},
        {"roots/mine/b.scope", "", 0},
        {"roots/mine/b.scope/given", "roots/mine/b.scope/given", 65534},
    };
    char own[PATH_MAX];
    char path[PATH_MAX + 64];
    char found[NAME_MAX];
    size_t top = 0;
    if (geteuid() != 0 || cgroup_v2_own(own, &top) < 0)
        skip_because("no group can be made on cgroup2");
    snprintf(own + top, sizeof own - top, "/cg-test-%d", (int)getpid());
    if (mkdir(own, 0755) < 0)
        skip_because("no group can be made on cgroup2");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        snprintf(path, sizeof path, "%s/%s", own, cases[i].group);
        make_delegated(path, cases[i].uid);
    }
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        find_as_user(own, cases[i].group, 65534, found);
        assert_string_equal(found, cases[i].found);
    }
    for (size_t i = ARRAY_SIZE(cases); i-- > 0;) {
        snprintf(path, sizeof path, "%s/%s", own, cases[i].group);
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(rmdir(own), 0);
}

static void test_none(void **state)
{
    (void)state;
    struct cgroup_root root = {.ops = &cgroup_none_ops, .reason = "because", .fix = "do this"};
    struct cgroup_lane_fds lane;
    struct cgroup_usage usage;
    struct error err = ERROR_INIT;
    const char *missing = NULL;
    int birth = 7;
    assert_false(cgroup_root_can(&root, &limits, &missing));
    assert_string_equal(missing, "memory");
    assert_int_equal(cgroup_session_create(&root, "a", &limits, &birth, &err), -1);
    assert_int_equal(err.code, ERROR_UNSUPPORTED);
    assert_string_equal(err.hint, "do this");
    assert_int_equal(cgroup_session_create(&root, "a", &(struct cgroup_limits){0}, &birth, &err),
                     0);
    assert_int_equal(birth, -1);
    assert_int_equal(cgroup_lane_open(&root, "a", 0, &lane, &err), 0);
    assert_int_equal(cgroup_usage_read(&lane, &usage), 0);
    assert_false(usage.has_cpu || usage.has_peak || cgroup_peak_reset(&lane));
    assert_int_equal(cgroup_lane_kill(&root, "a", 0, &err), -1);
    assert_int_equal(cgroup_session_remove(&root, "../a", &err), -1);
    assert_int_equal(cgroup_lane_create(&root, "a", -2, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
}

#define V1_TEST(name) cmocka_unit_test_setup_teardown(name, open_v1, close_world)
#define V2_TEST(name) cmocka_unit_test_setup_teardown(name, open_v2, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number),
        cmocka_unit_test(test_keyed),
        cmocka_unit_test(test_controllers),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_mount),
        cmocka_unit_test(test_stat),
        cmocka_unit_test(test_pids),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_none),
        V1_TEST(test_v1_limits),
        V1_TEST(test_v1_usage),
        V1_TEST(test_v1_oom),
        V1_TEST(test_v1_fork_bomb),
        V1_TEST(test_v1_kill_tree),
        V1_TEST(test_v1_entry),
        V1_TEST(test_v1_remove_busy),
        V1_TEST(test_v1_remove_refused),
        V1_TEST(test_v1_sweep),
        V2_TEST(test_v2_limits),
        V2_TEST(test_v2_usage),
        V2_TEST(test_v2_oom),
        V2_TEST(test_v2_fork_bomb),
        V2_TEST(test_v2_kill_tree),
        V2_TEST(test_v2_born_inside),
        V2_TEST(test_v2_remove_busy),
        V2_TEST(test_v2_sweep),
        V2_TEST(test_v2_refuses_limits),
        V2_TEST(test_v2_supervisor),
        cmocka_unit_test(test_v2_delegated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
