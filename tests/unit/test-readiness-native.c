/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness of this machine, tried by real sessions. What must come out depends on the machine, and
   is found out here by other means: whether its cgroups are v2, and whether somebody has given us a
   directory with project quota (BOXD_TEST_PROJECT_DIR, as for test-storage). */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/native.h"
#include "runtime/readiness.h"

#define OWNER 4321

static char directory[64]; /* what boxd keeps for itself */
static char *root;         /* the allowed root */
static struct spawner_config spawner_config;
static struct native_options options = {.spawner = &spawner_config};

struct fixture {
    uv_loop_t loop;
    struct backend *backend;
    struct runtime *runtime;
    struct readiness *readiness;
    struct admission_policy policy;
    struct readiness_setup setup;
    char *workspace, *skills;
    pid_t spawner;
    bool done, stopped;
    unsigned answers;
    struct readiness_result result;
};

static void on_stopped(void *data)
{
    *(bool *)data = true;
}

static void until(struct fixture *f, const bool *flag)
{
    for (int i = 0; i < 1000000 && !*flag; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_true(*flag);
}

static void open_runtime(struct fixture *f)
{
    struct error err = ERROR_INIT;
    int sock;
    struct runtime_config config;
    *f = (struct fixture){0};
    spawner_config.socket_directory = directory;
    spawner_config.init_binary = getenv("BOX_INIT");
    spawner_config.ready = 2;
    spawner_config.policy = (struct mount_policy){.only_allowed = true};
    strings_add(&spawner_config.policy.allowed_roots, root);
    if (native_spawn(&options, &sock, &f->spawner, &err) < 0)
        fail_msg("%s", err.message);
    uv_loop_init(&f->loop);
    f->backend = native_new(&f->loop, sock, &options);
    runtime_config_init(&config);
    config.run_dir = config.state_dir = directory;
    config.max_sessions = 2;
    config.outlive_seconds = 0;
    if (runtime_new(&f->loop, &config, f->backend, &f->runtime, &err) < 0)
        fail_msg("%s", err.message);
    bool recovered = false;
    runtime_recover(f->runtime, false, on_stopped, &recovered);
    until(f, &recovered);
    f->readiness = readiness_new(f->runtime);
    admission_policy_init(&f->policy);
    f->policy.required = true;
    f->policy.workspace_quota_mb = 32;
    f->workspace = xasprintf("%s/workspaces", root);
    f->skills = xasprintf("%s/skills", root);
    f->setup = (struct readiness_setup){
        .policy = &f->policy, .workspace_root = f->workspace, .skills_root = f->skills};
}

static void close_runtime(struct fixture *f)
{
    readiness_free(f->readiness);
    if (!f->stopped)
        runtime_stop(f->runtime, false, on_stopped, &f->stopped);
    until(f, &f->stopped);
    runtime_free(f->runtime);
    f->backend->ops->close(f->backend);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    waitpid(f->spawner, NULL, 0);
    strings_release(&spawner_config.policy.allowed_roots);
    admission_policy_release(&f->policy);
    free(f->workspace);
    free(f->skills);
}

static void on_answer(void *data, const struct readiness_result *result)
{
    struct fixture *f = data;
    f->result = *result;
    f->done = true;
    f->answers++;
}

static void ask(struct fixture *f)
{
    f->done = false;
    readiness_ask(f->readiness, &f->setup, on_answer, f);
    until(f, &f->done);
}

static void count_session(struct session *session, void *data)
{
    (void)session;
    ++*(unsigned *)data;
}

static unsigned sessions(struct fixture *f)
{
    unsigned count = 0;
    runtime_each_session(f->runtime, count_session, &count);
    return count;
}

static unsigned entries(const char *path)
{
    unsigned count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2; /* "." and ".." */
}

/* All that must hold holds, and the rest says why not: `missing` is a bit for each check. */
static void expect(const struct fixture *f, unsigned missing)
{
    for (int i = 0; i < READINESS_MAX; i++) {
        const char *reason = f->result.checks[i].reason;
        print_message("%-26s %s %s\n", readiness_name(i), f->result.checks[i].ok ? "yes" : "no ",
                      reason);
        assert_int_equal(f->result.checks[i].ok, !(missing >> i & 1));
        assert_int_equal(reason[0] == '\0', f->result.checks[i].ok);
    }
    assert_int_equal(f->result.ready, missing == 0);
}

#define BIT(name) (1u << READINESS_##name)

static bool has_project_quota(void)
{
    return getenv("BOXD_TEST_PROJECT_DIR") != NULL;
}

static unsigned missing_here(void)
{
    unsigned missing = 0;
    if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) < 0)
        missing |= BIT(CGROUP_V2);
    if (!has_project_quota())
        missing |= BIT(HARD_WORKSPACE_QUOTA) | BIT(HARD_SKILL_STORAGE_QUOTA) | BIT(INODE_QUOTA);
    return missing;
}

/* --- tests --------------------------------------------------------------------------------------
 */

static void test_this_machine(void **state)
{
    struct fixture f;
    struct stat st;
    (void)state;
    open_runtime(&f);
    ask(&f);
    expect(&f, missing_here());
    if (!has_project_quota()) {
        assert_non_null(strstr(f.result.checks[READINESS_HARD_WORKSPACE_QUOTA].reason, "prjquota"));
        assert_non_null(
            strstr(f.result.checks[READINESS_HARD_SKILL_STORAGE_QUOTA].reason, "prjquota"));
    }
    /* Nothing is left but two directories, which belong to whom the root belongs to. */
    assert_int_equal(sessions(&f), 0);
    const char *parents[] = {f.workspace, f.skills};
    for (size_t i = 0; i < ARRAY_SIZE(parents); i++) {
        cleanup_free char *path = xasprintf("%s/" READINESS_DIRECTORY, parents[i]);
        bool tried = stat(path, &st) == 0;
        assert_true(tried);
        assert_int_equal(entries(path), 0);
        assert_int_equal(st.st_uid, OWNER);
        assert_int_equal(st.st_gid, OWNER);
        assert_int_equal(st.st_mode & 07777, 0700);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rmdir(parents[i]), 0);
    }
    /* It is kept: the answer is there at once. */
    f.done = false;
    readiness_ask(f.readiness, &f.setup, on_answer, &f);
    assert_true(f.done);
    close_runtime(&f);
}

static void test_places(void **state)
{
    struct fixture f;
    const unsigned quota =
        BIT(HARD_WORKSPACE_QUOTA) | BIT(HARD_SKILL_STORAGE_QUOTA) | BIT(INODE_QUOTA);
    (void)state;
    open_runtime(&f);
    /* Where nothing may be mounted, isolation is judged all the same. */
    f.setup.workspace_root = f.setup.skills_root = directory;
    ask(&f);
    expect(&f, missing_here() | BIT(WORKSPACE_MOUNT) | quota);
    assert_non_null(
        strstr(f.result.checks[READINESS_WORKSPACE_MOUNT].reason, "mounts.allowed_roots"));
    /* Nor where there is no such place at all. */
    readiness_forget(f.readiness);
    f.setup.workspace_root = f.setup.skills_root = NULL;
    ask(&f);
    expect(&f, missing_here() | BIT(WORKSPACE_MOUNT) | quota);
    /* A link in the way is not followed, and what it points to stays as it is. */
    cleanup_free char *link = xasprintf("%s/link", root);
    cleanup_free char *target = xasprintf("%s/target", root);
    assert_int_equal(mkdir(target, 0755), 0);
    assert_int_equal(symlink(target, link), 0);
    readiness_forget(f.readiness);
    f.setup.workspace_root = f.setup.skills_root = link;
    ask(&f);
    expect(&f, missing_here() | BIT(WORKSPACE_MOUNT) | quota);
    assert_non_null(strstr(f.result.checks[READINESS_WORKSPACE_MOUNT].reason, "link"));
    assert_int_equal(rmdir(target), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(sessions(&f), 0);
    close_runtime(&f);
}

static bool opened;
static void on_opened(void *data, struct session *session, bool created, const struct error *err)
{
    (void)data;
    (void)session;
    (void)created;
    assert_null(err);
    opened = true;
}

static void remove_left(struct fixture *f)
{
    const char *parents[] = {f->workspace, f->skills};
    for (size_t i = 0; i < ARRAY_SIZE(parents); i++) {
        cleanup_free char *command = xasprintf("rm -rf %s", parents[i]);
        assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a path of our own */
    }
}

/* As many sessions as there may be: what was found before holds. */
static void test_crowded(void **state)
{
    struct fixture f;
    struct session_spec spec;
    (void)state;
    open_runtime(&f);
    f.policy.readiness_cache_sec = 0;
    ask(&f);
    expect(&f, missing_here());
    session_spec_init(&spec);
    spec.name = xstrdup("one");
    for (int i = 0; i < 2; i++) {
        opened = false;
        runtime_open_session(f.runtime, &spec, on_opened, NULL);
        until(&f, &opened);
        memcpy(spec.name, "two", 3);
    }
    session_spec_release(&spec);
    ask(&f);
    expect(&f, missing_here());
    readiness_forget(f.readiness);
    ask(&f);
    assert_false(f.result.ready);
    assert_non_null(strstr(f.result.checks[READINESS_BACKEND_AVAILABLE].reason, "max_sessions"));
    remove_left(&f);
    close_runtime(&f);
}

/* boxd stops at any moment of a trial: who asked is told, and nothing hangs. */
static void test_stop(void **state)
{
    (void)state;
    bool finished = false;
    for (unsigned turns = 0; !finished && turns < 20000; turns += 1 + turns / 8) {
        struct fixture f;
        open_runtime(&f);
        readiness_ask(f.readiness, &f.setup, on_answer, &f);
        for (unsigned i = 0; i < turns && !f.done; i++)
            uv_run(&f.loop, UV_RUN_ONCE);
        finished = f.done;
        runtime_stop(f.runtime, false, on_stopped, &f.stopped);
        until(&f, &f.stopped);
        assert_int_equal(f.answers, 1);
        remove_left(&f);
        close_runtime(&f);
    }
    assert_true(finished);
}

static int set_up(void **state)
{
    const char *project = getenv("BOXD_TEST_PROJECT_DIR");
    (void)state;
    strcpy(directory, "/tmp/test-readiness-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    root = xasprintf("%s/readiness", project ? project : directory);
    return mkdir(root, 0755) < 0 || chown(root, OWNER, OWNER) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    cleanup_free char *command = xasprintf("rm -rf %s %s", root, directory);
    free(root);
    return system(command); /* NOLINT(cert-env33-c): paths of our own */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_stop),
    };
    if (geteuid() != 0) {
        print_message("skipped: a shared deployment needs root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
