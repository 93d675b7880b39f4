/* SPDX-License-Identifier: Apache-2.0 */
/* Plans are values: what a spec leads to on which machine is read here without making a sandbox. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "sandbox/plan.h"

struct fixture {
    struct sandbox_spec spec;
    struct facts facts;
    struct mount_policy policy;
    struct plan plan;
    struct error err;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    sandbox_spec_init(&f->spec);
    f->facts = (struct facts){.root = true,
                              .cgroup = CGROUP_V2,
                              .limits_memory = true,
                              .limits_cpu = true,
                              .limits_pids = true,
                              .cgroup_reason = "",
                              .cgroup_fix = ""};
    strings_add(&f->facts.root_dirs, "/usr");
    strings_add(&f->facts.root_links, "/bin=usr/bin");
    strings_add(&f->facts.proc_paths, "r/proc/sys");
    strings_add(&f->facts.proc_paths, "f/proc/kcore");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    sandbox_spec_release(&f->spec);
    facts_release(&f->facts);
    strings_release(&f->policy.allowed_roots);
    plan_release(&f->plan);
    free(f);
    return 0;
}

static const struct step *find_step(const struct plan *plan, enum step_kind kind,
                                    const char *target)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind == kind && strcmp(plan->steps[i].target, target) == 0)
            return &plan->steps[i];
    }
    return NULL;
}

static void build(struct fixture *f)
{
    if (plan_build(&f->spec, &f->facts, &f->policy, &f->plan, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void test_default(void **state)
{
    struct fixture *f = *state;
    build(f);
    const struct plan *plan = &f->plan;
    const uint64_t all = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                         CLONE_NEWUTS | CLONE_NEWCGROUP;
    assert_true(plan->namespaces == all);
    assert_int_equal(plan->ids, ID_RANGE);
    assert_int_equal(plan->uid_maps[0].count, 65536);
    assert_int_equal(plan->memory_by, LIMIT_BY_CGROUP);
    assert_int_equal(plan->notes.count, 0);
    /* The first step is the root, the last makes it read-only. */
    assert_int_equal(plan->steps[0].kind, STEP_TMPFS);
    assert_string_equal(plan->steps[0].target, "/");
    assert_int_equal(plan->steps[plan->step_count - 1].kind, STEP_PROTECT);
    assert_string_equal(plan->steps[plan->step_count - 1].target, "/");
    const struct step *usr = find_step(plan, STEP_BIND, "/usr");
    assert_non_null(usr);
    assert_false(usr->writable);
    assert_non_null(find_step(plan, STEP_PROTECT, "/proc/sys"));
    assert_non_null(find_step(plan, STEP_MASK_FILE, "/proc/kcore"));
    assert_null(find_step(plan, STEP_FILE, "/etc/resolv.conf"));
    /* Every place that can be written to is bounded, in bytes and inodes. */
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct step *step = &plan->steps[i];
        if (step->kind == STEP_TMPFS || step->kind == STEP_SCRATCH || step->kind == STEP_OVERLAY) {
            assert_true(step->bytes > 0);
            assert_true(step->inodes > 0);
        }
    }
}

static void test_mounts_in_order(void **state)
{
    struct fixture *f = *state;
    sandbox_spec_add_mount(&f->spec, "/srv/b", "/workspace/inner", false, &f->err);
    sandbox_spec_add_mount(&f->spec, "/srv/a", "/workspace", true, &f->err);
    build(f);
    const struct step *outer = find_step(&f->plan, STEP_BIND, "/workspace");
    const struct step *inner = find_step(&f->plan, STEP_BIND, "/workspace/inner");
    assert_non_null(outer);
    assert_true(outer < inner);
    assert_true(outer->writable && outer->checked && outer->owned);
    assert_false(inner->writable);
    assert_null(find_step(&f->plan, STEP_SCRATCH, "/workspace"));
    /* Nothing there that the shared base lacks; a mount anywhere else needs a root of its own. */
    assert_true(plan_base_suffices(&f->plan));
    plan_release(&f->plan);
    sandbox_spec_add_mount(&f->spec, "/srv/c", "/data", false, &f->err);
    build(f);
    assert_false(plan_base_suffices(&f->plan));
}

static void test_blocked_paths(void **state)
{
    struct fixture *f = *state;
    sandbox_spec_add_mount(&f->spec, "/srv/fine", "/workspace", false, &f->err);
    sandbox_spec_add_mount(&f->spec, "/etc/ssh", "/data", false, &f->err);
    assert_int_equal(plan_build(&f->spec, &f->facts, &f->policy, &f->plan, &f->err), -1);
    assert_int_equal(f->err.code, ERROR_DENIED);
}

static void test_blocked_ro_path(void **state)
{
    struct fixture *f = *state;
    strings_add(&f->spec.ro_paths, "/root");
    assert_int_equal(plan_build(&f->spec, &f->facts, &f->policy, &f->plan, &f->err), -1);
    assert_int_equal(f->err.code, ERROR_DENIED);
}

static void test_no_cgroup(void **state)
{
    struct fixture *f = *state;
    f->facts.cgroup = CGROUP_NONE;
    f->facts.limits_memory = f->facts.limits_cpu = f->facts.limits_pids = false;
    f->facts.cgroup_reason = "no delegation";
    f->facts.cgroup_fix = "do this";
    build(f);
    assert_int_equal(f->plan.memory_by, LIMIT_BY_RLIMIT);
    assert_int_equal(f->plan.cpu_by, LIMIT_NONE);
    assert_int_equal(f->plan.notes.count, 1);
    assert_false(plan_can_kill_lane(&f->plan));
    plan_release(&f->plan);
    /* Asked for by name, or under --strict, it is an error with the fix. */
    f->spec.asked = SPEC_ASKED_CPU;
    assert_int_equal(plan_build(&f->spec, &f->facts, &f->policy, &f->plan, &f->err), -1);
    assert_non_null(strstr(f->err.message, "--cpus"));
    assert_string_equal(f->err.hint, "do this");
    f->spec.asked = 0;
    f->spec.strict = true;
    assert_int_equal(plan_build(&f->spec, &f->facts, &f->policy, &f->plan, &f->err), -1);
    assert_int_equal(f->err.code, ERROR_UNSUPPORTED);
}

static void test_some_controllers(void **state)
{
    struct fixture *f = *state;
    f->facts.limits_cpu = false;
    f->facts.cgroup_reason = "no cpu controller";
    build(f);
    assert_int_equal(f->plan.memory_by, LIMIT_BY_CGROUP);
    assert_int_equal(f->plan.cpu_by, LIMIT_NONE);
    assert_int_equal(f->plan.limits.cpu_milli, 0);
    assert_int_equal(f->plan.notes.count, 1);
}

static void test_ordinary_user(void **state)
{
    struct fixture *f = *state;
    f->facts.root = false;
    f->facts.uid = 1234;
    f->facts.gid = 5678;
    build(f);
    assert_int_equal(f->plan.ids, ID_SINGLE);
    assert_int_equal(f->plan.uid_map_count, 1);
    assert_int_equal(f->plan.uid_maps[0].outside, 1234);
    assert_int_equal(f->plan.gid_maps[0].outside, 5678);
    assert_int_equal(f->plan.uid_maps[0].inside, BOX_UID);
    assert_int_equal(f->plan.notes.count, 0);
    plan_release(&f->plan);
    f->facts.extra_groups = true;
    build(f);
    assert_int_equal(f->plan.notes.count, 1);
    plan_release(&f->plan);
    f->facts.subuid = f->facts.subgid = (struct subid_range){.first = 100000, .count = 65536};
    build(f);
    assert_int_equal(f->plan.ids, ID_SUBIDS);
    assert_int_equal(f->plan.uid_map_count, 3);
    plan_release(&f->plan);
    f->spec.quota_bytes = 64 << 20;
    assert_int_equal(plan_build(&f->spec, &f->facts, &f->policy, &f->plan, &f->err), -1);
    assert_true(f->err.hint[0] != '\0');
}

static void test_quota(void **state)
{
    struct fixture *f = *state;
    f->spec.quota_bytes = 64 << 20;
    build(f);
    assert_non_null(find_step(&f->plan, STEP_IMAGE, "/workspace"));
    assert_false(f->plan.quota_on_mount);
    plan_release(&f->plan);
    sandbox_spec_add_mount(&f->spec, "/srv/a", "/workspace", true, &f->err);
    build(f);
    assert_null(find_step(&f->plan, STEP_IMAGE, "/workspace"));
    assert_true(f->plan.quota_on_mount);
}

static void test_writable_root(void **state)
{
    struct fixture *f = *state;
    f->spec.writable_root = true;
    build(f);
    const struct step *usr = find_step(&f->plan, STEP_OVERLAY, "/usr");
    assert_non_null(usr);
    assert_true(usr->bytes == f->spec.scratch_bytes);
    assert_null(find_step(&f->plan, STEP_PROTECT, "/"));
}

static void test_network_on(void **state)
{
    struct fixture *f = *state;
    f->spec.network = NETWORK_ON;
    strings_add(&f->spec.allow_net, "10.1.0.0/16");
    build(f);
    assert_non_null(find_step(&f->plan, STEP_FILE, "/etc/resolv.conf"));
    assert_int_equal(f->plan.net.allow_count, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_default),       TEST(test_mounts_in_order),
        TEST(test_blocked_paths), TEST(test_blocked_ro_path),
        TEST(test_no_cgroup),     TEST(test_ordinary_user),
        TEST(test_quota),         TEST(test_writable_root),
        TEST(test_network_on),    TEST(test_some_controllers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
