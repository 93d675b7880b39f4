/* SPDX-License-Identifier: Apache-2.0 */
/* Specs and the messages of the engine: what is refused, and that what is accepted survives the
 * wire. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>

#include "core/fd.h"
#include "init/messages.h"
#include "sandbox/policy.h"
#include "sandbox/spec.h"

static void test_defaults_are_valid(void **state)
{
    (void)state;
    struct sandbox_spec spec;
    struct error err = ERROR_INIT;
    sandbox_spec_init(&spec);
    assert_int_equal(sandbox_spec_check(&spec, &err), 0);
    assert_int_equal(spec.network, NETWORK_OFF);
    sandbox_spec_release(&spec);
}

static void test_round_trip(void **state)
{
    (void)state;
    unsigned char data[4096];
    struct wire_writer writer = {.data = data, .capacity = sizeof data};
    struct sandbox_spec spec;
    struct sandbox_spec back;
    struct error err = ERROR_INIT;
    sandbox_spec_init(&spec);
    spec.network = NETWORK_ON;
    spec.memory_bytes = 64 << 20;
    spec.asked = SPEC_ASKED_MEMORY;
    spec.quota_bytes = 8 << 20;
    spec.quota_inodes = 100;
    spec.seccomp = SECCOMP_STRICT;
    spec.strict = true;
    strings_add(&spec.allow_net, "10.0.0.0/8");
    strings_add(&spec.ro_paths, "/opt");
    assert_int_equal(sandbox_spec_add_mount(&spec, "/srv//data/", "/workspace", true, &err), 0);
    assert_int_equal(sandbox_spec_add_mount(&spec, "/srv/more", "/more", false, &err), 0);
    spec.mounts[0].make = true;
    sandbox_spec_encode(&spec, &writer);
    assert_false(writer.overflow);
    struct wire_reader reader = {.data = data, .left = writer.size};
    assert_int_equal(sandbox_spec_decode(&reader, &back, &err), 0);
    assert_int_equal(back.network, NETWORK_ON);
    assert_int_equal(back.memory_bytes, 64 << 20);
    assert_int_equal(back.asked, SPEC_ASKED_MEMORY);
    assert_int_equal(back.quota_inodes, 100);
    assert_int_equal(back.seccomp, SECCOMP_STRICT);
    assert_true(back.strict);
    assert_string_equal(back.mounts[0].source, "/srv/data");
    assert_true(back.mounts[0].writable && back.mounts[0].make);
    assert_false(back.mounts[1].writable || back.mounts[1].make);
    assert_string_equal(back.allow_net.items[0], "10.0.0.0/8");
    assert_string_equal(back.ro_paths.items[0], "/opt");
    sandbox_spec_release(&spec);
    sandbox_spec_release(&back);
}

/* Cut off anywhere, the message is refused; with a byte too many, too. */
static void test_truncation(void **state)
{
    (void)state;
    unsigned char data[4096] = {0};
    struct wire_writer writer = {.data = data, .capacity = sizeof data};
    struct sandbox_spec spec;
    struct sandbox_spec back;
    struct error err = ERROR_INIT;
    sandbox_spec_init(&spec);
    sandbox_spec_add_mount(&spec, "/srv/data", "/workspace", false, &err);
    sandbox_spec_encode(&spec, &writer);
    for (size_t size = 0; size <= writer.size + 1; size++) {
        if (size == writer.size)
            continue;
        struct wire_reader reader = {.data = data, .left = size};
        assert_int_equal(sandbox_spec_decode(&reader, &back, &err), -1);
    }
    sandbox_spec_release(&spec);
}

static void set_low_memory(struct sandbox_spec *spec)
{
    spec->memory_bytes = 1;
}
static void set_no_cpu(struct sandbox_spec *spec)
{
    spec->cpu_milli = 0;
}
static void set_no_pids(struct sandbox_spec *spec)
{
    spec->pids = 0;
}
static void set_bad_network(struct sandbox_spec *spec)
{
    spec->network = (enum network_mode)7;
}
static void set_bad_profile(struct sandbox_spec *spec)
{
    spec->seccomp = (enum seccomp_profile)9;
}
static void set_allow_without_network(struct sandbox_spec *spec)
{
    strings_add(&spec->allow_net, "10.0.0.0/8");
}
static void set_bad_cidr(struct sandbox_spec *spec)
{
    spec->network = NETWORK_ON;
    strings_add(&spec->allow_net, "10.0.0.0/99");
}
static void set_inodes_alone(struct sandbox_spec *spec)
{
    spec->quota_inodes = 5;
}
static void set_image(struct sandbox_spec *spec)
{
    free(spec->image);
    spec->image = xstrdup("debian");
}

static void test_refusals(void **state)
{
    (void)state;
    static void (*const changes[])(struct sandbox_spec *) = {
        set_low_memory,  set_no_cpu,       set_no_pids,
        set_bad_network, set_bad_profile,  set_allow_without_network,
        set_bad_cidr,    set_inodes_alone, set_image,
    };
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        struct sandbox_spec spec;
        struct error err = ERROR_INIT;
        sandbox_spec_init(&spec);
        changes[i](&spec);
        assert_int_equal(sandbox_spec_check(&spec, &err), -1);
        assert_true(err.message[0] != '\0');
        sandbox_spec_release(&spec);
    }
}

static void test_mount_targets(void **state)
{
    (void)state;
    static const char *const refused[] = {"/",      "/proc",    "/proc/sys", "/dev/shm",
                                          "/sys/x", "/usr",     "/etc",      "/bin",
                                          "/tmp",   "relative", "/a/../etc"};
    static const char *const fine[] = {"/workspace", "/usr/local/x", "/data", "/workspace/sub",
                                       "/home/box/x"};
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        struct sandbox_spec spec;
        struct error err = ERROR_INIT;
        sandbox_spec_init(&spec);
        int rc = sandbox_spec_add_mount(&spec, "/srv", refused[i], false, &err);
        assert_true(rc < 0 || sandbox_spec_check(&spec, &err) < 0);
        sandbox_spec_release(&spec);
    }
    for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
        struct sandbox_spec spec;
        struct error err = ERROR_INIT;
        sandbox_spec_init(&spec);
        assert_int_equal(sandbox_spec_add_mount(&spec, "/srv", fine[i], false, &err), 0);
        assert_int_equal(sandbox_spec_check(&spec, &err), 0);
        /* The same target twice is a contradiction. */
        assert_int_equal(sandbox_spec_add_mount(&spec, "/srv", fine[i], true, &err), 0);
        assert_int_equal(sandbox_spec_check(&spec, &err), -1);
        sandbox_spec_release(&spec);
    }
}

static void test_policy(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "/",     "/etc",      "/etc/ssl", "/proc/self", "/sys",     "/dev/shm",        "/root",
        "/boot", "/run/user", "/var/run", "/var",       "/var/lib", "/srv/docker.sock"};
    static const char *const fine[] = {"/srv", "/home/someone/project", "/data", "/etcetera",
                                       "/opt"};
    struct mount_policy policy = {0};
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        assert_int_equal(mount_policy_check(&policy, refused[i], &err), -1);
    for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
        assert_int_equal(mount_policy_check(&policy, fine[i], &err), 0);
    strings_add(&policy.allowed_roots, "/root");
    assert_int_equal(mount_policy_check(&policy, "/root/project", &err), 0);
    assert_int_equal(mount_policy_check(&policy, "/root/docker.sock", &err), -1);
    assert_int_equal(mount_policy_check(&policy, "/rootless", &err), 0);
    policy.only_allowed = true;
    assert_int_equal(mount_policy_check(&policy, "/srv", &err), -1);
    strings_release(&policy.allowed_roots);
}

/* What is boxd's own is mounted by its own path, and not where a link leads to it. */
static void test_policy_own(void **state)
{
    (void)state;
    struct mount_policy policy = {.only_allowed = true};
    struct error err = ERROR_INIT;
    cleanup_close int fd = open("/usr/share", O_PATH | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(mount_policy_check_fd(&policy, "/usr/share", fd, &err), -1);
    strings_add(&policy.own_roots, "/usr/share");
    strings_add(&policy.allowed_roots, "/srv");
    assert_int_equal(mount_policy_check(&policy, "/usr/share/x", &err), 0);
    assert_int_equal(mount_policy_check_fd(&policy, "/usr/share", fd, &err), 0);
    assert_int_equal(mount_policy_check_fd(&policy, "/srv/link", fd, &err), -1);
    strings_add(&policy.allowed_roots, "/usr");
    assert_int_equal(mount_policy_check_fd(&policy, "/srv/link", fd, &err), 0);
    strings_release(&policy.allowed_roots);
    strings_release(&policy.own_roots);
}

static void test_init_requests(void **state)
{
    (void)state;
    union init_request request = {.open.head = {.type = INIT_OPEN, .path_size = 5}};
    size_t head = sizeof request.open.head;
    memcpy(request.open.path, "/abc", 5);
    assert_true(init_request_valid(&request, head + 5));
    assert_false(init_request_valid(&request, head + 4));
    assert_false(init_request_valid(&request, head + 6));
    assert_false(init_request_valid(&request, 2));
    request.open.path[2] = '\0'; /* a NUL inside */
    assert_false(init_request_valid(&request, head + 5));
    memcpy(request.open.path, "abcd", 5); /* relative */
    assert_false(init_request_valid(&request, head + 5));
    union init_request lane = {.lane = {.type = INIT_LANE, .lane = LANE_MAX}};
    assert_false(init_request_valid(&lane, sizeof lane.lane));
    lane.lane.lane = LANE_MAX - 1;
    assert_true(init_request_valid(&lane, sizeof lane.lane));
}

static void test_lane_requests(void **state)
{
    (void)state;
    char strings[] = "/w\0sh\0-c\0A=1";
    struct lane_exec head = {.type = LANE_EXEC, .argc = 2, .envc = 1, .size = sizeof strings};
    char *vector[8];
    char **envp;
    const char *cwd;
    assert_true(lane_exec_valid(&head, sizeof head + sizeof strings, 3));
    assert_false(lane_exec_valid(&head, sizeof head + sizeof strings, 2));
    assert_false(lane_exec_valid(&head, sizeof head + sizeof strings - 1, 3));
    assert_int_equal(lane_exec_split(strings, &head, vector, &cwd, &envp), 0);
    assert_string_equal(cwd, "/w");
    assert_string_equal(vector[1], "-c");
    assert_null(vector[2]);
    assert_string_equal(envp[0], "A=1");
    assert_null(envp[1]);
    head.argc = 3; /* one string short */
    head.envc = 1;
    assert_int_equal(lane_exec_split(strings, &head, vector, &cwd, &envp), -1);
    /* Counts that wrap. */
    head.argc = 0xffffffff;
    head.envc = 3;
    assert_false(lane_exec_valid(&head, sizeof head + sizeof strings, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_valid), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_truncation),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_mount_targets),      cmocka_unit_test(test_policy),
        cmocka_unit_test(test_policy_own),         cmocka_unit_test(test_init_requests),
        cmocka_unit_test(test_lane_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
