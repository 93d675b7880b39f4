/* SPDX-License-Identifier: Apache-2.0 */
/* Readiness above a backend that runs nothing: what a session says is laid down here, line by line,
   and so is what becomes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/readiness-internal.h"
#include "null-backend.h"

static char directory[64];

/* What a good sandbox says. */
static const char good[] =
    "ns user user:[1]\nns mnt mnt:[1]\nns pid pid:[1]\nns net net:[1]\nns ipc ipc:[1]\n"
    "ns uts uts:[1]\nns cgroup cgroup:[1]\n"
    "if lo:\n"
    "mount 10 9 0:54 / / ro,nosuid,nodev,relatime - tmpfs none rw,size=1024k\n"
    "mount 11 10 254:0 /usr /usr ro,nosuid - ext4 /dev/vda rw\n"
    "mount 12 10 254:0 /srv/x /workspace rw,nosuid,nodev,idmapped - ext4 /dev/vda rw\n"
    "mount 13 10 0:6 /null /dev/null rw,nosuid,noexec - devtmpfs devtmpfs rw\n"
    "mount 14 10 0:56 / /tmp rw,nosuid,nodev - tmpfs none rw,size=4096k\n"
    "place /tmp 4194304 100 0 1\nplace home 4194304 100 0 1\nplace /dev/shm 4194304 100 0 1\n"
    "fill 1 4128768\nfiles 255\nend\n";

/* --- the backend: null's, with answers of our own ------------------------------------------------
 */

static const struct backend_ops *null_ops;
static struct backend_ops ops;
static struct {
    char *says;
    const char *cgroup;
    const char *notes;
    const char *unavailable;
    const char *image; /* for sessions of a trial */
    bool no_quota;     /* cannot be had */
    bool no_workspace;
    bool other_marker;
    unsigned created, last_quota;
    char path[128]; /* of the last workspace */
} fake;

static struct backend_session *fake_create(struct backend *backend, const struct session_spec *spec,
                                           const char *key,
                                           const struct backend_session_events *events, void *owner)
{
    struct session_spec changed = *spec;
    fake.created++;
    assert_memory_equal(spec->name, READINESS_SESSION, strlen(READINESS_SESSION));
    assert_false(spec->network);
    assert_true(spec->make_host_path || !spec->host_path);
    snprintf(fake.path, sizeof fake.path, "%s", spec->host_path ? spec->host_path : "");
    if ((fake.no_quota && spec->workspace_quota_mb > 0) || (fake.no_workspace && spec->host_path))
        changed.image = (char *)"fail";
    else if (fake.image)
        changed.image = (char *)fake.image;
    return null_ops->create(backend, &changed, key, events, owner);
}

static struct backend_process *fake_start(struct backend_session *session,
                                          const struct backend_command *command,
                                          const struct backend_process_events *events, void *owner)
{
    char *argv[] = {(char *)"sh", (char *)"-c", fake.says, NULL};
    struct backend_command changed = *command;
    assert_string_equal(command->argv[0], "sh");
    assert_string_equal(command->argv[1], "-s");
    changed.argv = argv;
    return null_ops->start(session, &changed, events, owner);
}

static const char *fake_notes(const struct backend_session *session)
{
    (void)session;
    return fake.notes;
}

static const char *fake_cgroup(struct backend *backend)
{
    (void)backend;
    return fake.cgroup;
}

static const char *fake_unavailable(struct backend *backend)
{
    (void)backend;
    return fake.unavailable;
}

/* Later, as the real one: the answer is the digits of the name, which is what the script puts in.
 */
struct question {
    uv_timer_t timer;
    void (*done)(void *data, const void *bytes, size_t size, const struct error *err);
    void *data;
    char text[33];
};

static void on_question_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_question(uv_timer_t *timer)
{
    struct question *question = timer->data;
    question->done(question->data, question->text, strlen(question->text), NULL);
    uv_close((uv_handle_t *)timer, on_question_closed);
}

static void fake_marker(struct backend *backend, const char *where, const char *name,
                        void (*done)(void *data, const void *bytes, size_t size,
                                     const struct error *err),
                        void *data)
{
    struct question *question = calloc(1, sizeof *question);
    assert_non_null(strstr(where, "/" READINESS_DIRECTORY));
    assert_int_equal(strlen(name), 26 + 32);
    snprintf(question->text, sizeof question->text, "%s", fake.other_marker ? "x" : name + 26);
    question->done = done;
    question->data = data;
    uv_timer_init(backend->loop, &question->timer);
    question->timer.data = question;
    uv_timer_start(&question->timer, on_question, 0, 0);
}

static void say(const char *text)
{
    free(fake.says);
    fake.says = xasprintf("echo %s", text);
}

/* --- the fixture --------------------------------------------------------------------------------
 */

struct fixture {
    uv_loop_t loop;
    struct backend *backend;
    struct runtime *runtime;
    struct readiness *readiness;
    struct admission_policy policy;
    struct readiness_setup setup;
    bool stopped;
};

struct answer {
    unsigned count;
    bool told;
    struct readiness_result result;
};

static void on_answer(void *data, const struct readiness_result *result)
{
    struct answer *answer = data;
    answer->count++;
    answer->told = true;
    answer->result = *result;
}

static void on_stopped(void *data)
{
    *(bool *)data = true;
}

static void until(struct fixture *f, const bool *flag)
{
    for (int i = 0; i < 100000 && !*flag; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_true(*flag);
}

static void turns(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct runtime_config config;
    struct error err;
    free(fake.says);
    memset(&fake, 0, sizeof fake);
    fake.cgroup = "v2";
    fake.notes = "";
    say(good);
    uv_loop_init(&f->loop);
    f->backend = backend_null_new(&f->loop);
    null_ops = f->backend->ops;
    ops = *null_ops;
    ops.name = "native";
    ops.create = fake_create;
    ops.start = fake_start;
    ops.notes = fake_notes;
    ops.cgroup_kind = fake_cgroup;
    ops.unavailable = fake_unavailable;
    ops.read_marker = fake_marker;
    f->backend->ops = &ops;
    runtime_config_init(&config);
    config.run_dir = config.state_dir = directory;
    config.outlive_seconds = 0;
    config.audit_bytes = 0;
    if (runtime_new(&f->loop, &config, f->backend, &f->runtime, &err) < 0)
        return -1;
    f->readiness = readiness_new(f->runtime);
    admission_policy_init(&f->policy);
    f->policy.required = true;
    f->policy.workspace_quota_mb = 64;
    f->setup = (struct readiness_setup){
        .policy = &f->policy, .workspace_root = "/srv/w", .skills_root = "/srv/s"};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    readiness_free(f->readiness);
    if (!f->stopped)
        runtime_stop(f->runtime, false, on_stopped, &f->stopped);
    until(f, &f->stopped);
    runtime_free(f->runtime);
    null_ops->close(f->backend);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    admission_policy_release(&f->policy);
    trial_deadline_ms = 60000;
    free(f);
    return 0;
}

static void ask(struct fixture *f, struct answer *answer)
{
    *answer = (struct answer){0};
    readiness_ask(f->readiness, &f->setup, on_answer, answer);
    until(f, &answer->told);
    assert_int_equal(answer->count, 1);
}

#define BIT(name) (1u << READINESS_##name)

static unsigned failing(const struct readiness_result *result)
{
    unsigned bits = 0;
    for (int i = 0; i < READINESS_MAX; i++) {
        assert_int_equal(result->checks[i].ok, result->checks[i].reason[0] == '\0');
        bits |= result->checks[i].ok ? 0 : 1u << i;
    }
    assert_int_equal(result->ready, bits == 0);
    return bits;
}

static unsigned ask_failing(struct fixture *f)
{
    struct answer answer;
    readiness_forget(f->readiness);
    ask(f, &answer);
    return failing(&answer.result);
}

/* --- checks -------------------------------------------------------------------------------------
 */

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(readiness_name(READINESS_CONFIGURATION), "configuration");
    assert_string_equal(readiness_name(READINESS_MANAGED_PROCESS_CAP), "managed_process_cap");
    assert_string_equal(readiness_name(READINESS_MAX), "invalid");
}

static void test_all_good(void **state)
{
    struct fixture *f = *state;
    struct runtime_stats stats;
    assert_int_equal(ask_failing(f), 0);
    runtime_stats(f->runtime, &stats);
    assert_int_equal(stats.sessions, 0);
    assert_int_equal(fake.created, 2);
    assert_string_equal(fake.path, "/srv/s/" READINESS_DIRECTORY);
}

static void test_policy(void **state)
{
    struct fixture *f = *state;
    f->policy.problem = xstrdup("admission.cpus is not a number");
    assert_int_equal(ask_failing(f), BIT(CONFIGURATION));
    free(f->policy.problem);
    f->policy.problem = NULL;
    f->policy.max_sessions = 2;
    assert_int_equal(ask_failing(f), BIT(SESSION_CAP));
    f->policy.max_sessions = 0;
    f->policy.max_managed_processes = 1;
    assert_int_equal(ask_failing(f), BIT(MANAGED_PROCESS_CAP));
    f->policy.max_managed_processes = 0;
    f->policy.workspace_quota_mb = 0;
    assert_int_equal(ask_failing(f), BIT(HARD_WORKSPACE_QUOTA) | BIT(INODE_QUOTA));
    f->policy.workspace_quota_mb = 1;
    f->setup.skills_root = NULL;
    assert_int_equal(ask_failing(f), BIT(HARD_SKILL_STORAGE_QUOTA));
    f->setup.skills_root = "/srv/s";
    f->setup.workspace_root = NULL;
    assert_int_equal(ask_failing(f),
                     BIT(WORKSPACE_MOUNT) | BIT(HARD_WORKSPACE_QUOTA) | BIT(INODE_QUOTA));
    f->setup.workspace_root = "/srv/w";
    ops.name = "docker";
    assert_int_equal(ask_failing(f), BIT(REQUIRED_BACKEND));
    ops.name = "nsjail";
    assert_int_equal(ask_failing(f), 0);
}

static void test_backend(void **state)
{
    struct fixture *f = *state;
    const unsigned isolation = BIT(BACKEND_AVAILABLE) | BIT(NAMESPACE_ISOLATION) |
                               BIT(MOUNT_ISOLATION) | BIT(NETWORK_ISOLATION) |
                               BIT(BOUNDED_EPHEMERAL_STORAGE) | BIT(INODE_QUOTA);
    const unsigned storage =
        BIT(WORKSPACE_MOUNT) | BIT(HARD_WORKSPACE_QUOTA) | BIT(HARD_SKILL_STORAGE_QUOTA);
    fake.cgroup = "v1";
    assert_int_equal(ask_failing(f), BIT(CGROUP_V2));
    fake.cgroup = "none";
    assert_int_equal(ask_failing(f), BIT(CGROUP_V2));
    fake.cgroup = "v2";
    fake.notes = "groups are kept\nand so on";
    assert_int_equal(ask_failing(f), BIT(NAMESPACE_ISOLATION));
    fake.notes = "";
    fake.other_marker = true;
    assert_int_equal(ask_failing(f), BIT(WORKSPACE_MOUNT));
    fake.other_marker = false;
    /* Without a quota the rest is judged by a session that has none, … */
    fake.created = 0;
    fake.no_quota = true;
    assert_int_equal(ask_failing(f),
                     BIT(HARD_WORKSPACE_QUOTA) | BIT(HARD_SKILL_STORAGE_QUOTA) | BIT(INODE_QUOTA));
    assert_int_equal(fake.created, 3);
    /* … and without a workspace by one that has not even that. */
    fake.created = 0;
    fake.no_workspace = true;
    assert_int_equal(ask_failing(f), storage | BIT(INODE_QUOTA));
    assert_int_equal(fake.created, 4);
    fake.image = "fail";
    assert_int_equal(ask_failing(f), storage | isolation);
    fake.image = NULL;
    /* Where there is no backend nothing is tried. */
    fake.created = 0;
    fake.unavailable = "there is no kernel";
    assert_int_equal(ask_failing(f), storage | isolation);
    assert_int_equal(fake.created, 0);
}

/* One thing that a sandbox says otherwise, and the check that must not pass then. */
static void test_reports(void **state)
{
    static const struct {
        const char *is;
        const char *said;
        unsigned failing;
    } cases[] = {
        {"ns net net:[1]\n", "", BIT(NAMESPACE_ISOLATION) | BIT(NETWORK_ISOLATION)},
        {"ns uts uts:[1]\n", "", BIT(NAMESPACE_ISOLATION)},
        {"ns user user:[1]\n", "own", BIT(NAMESPACE_ISOLATION)},
        {"if lo:\n", "if lo:\nif eth0:\n", BIT(NETWORK_ISOLATION)},
        {"/usr ro,nosuid", "/usr rw,nosuid", BIT(MOUNT_ISOLATION)},
        {"/usr ro,nosuid", "/usr rom,nosuid", BIT(MOUNT_ISOLATION)},
        {"nosuid - ext4", "nosuid shared:4 - ext4", BIT(MOUNT_ISOLATION)},
        {"/tmp rw,nosuid,nodev - tmpfs", "/tmp rw,nosuid,nodev - ext4", BIT(MOUNT_ISOLATION)},
        {"/ / ro,nosuid", "/ / rw,nosuid", BIT(MOUNT_ISOLATION)},
        {"254:0 /usr /usr ro,nosuid - ext4 /dev/vda rw", "254:0", BIT(MOUNT_ISOLATION)},
        {"place home 4194304 100 0 1\n", "", BIT(BOUNDED_EPHEMERAL_STORAGE) | BIT(INODE_QUOTA)},
        {"place /tmp 4194304 100 0 1", "place /tmp 0 100 0 1", BIT(BOUNDED_EPHEMERAL_STORAGE)},
        {"place /tmp 4194304 100 0 1", "place /tmp 4194304 100 0 0",
         BIT(BOUNDED_EPHEMERAL_STORAGE)},
        {"place /tmp 4194304 100 0 1", "place /tmp 4194304 100 127 127",
         BIT(BOUNDED_EPHEMERAL_STORAGE)},
        {"place /dev/shm 4194304 100", "place /dev/shm 4194304 0", BIT(INODE_QUOTA)},
        {"fill 1 4128768", "fill 0 8388608",
         BIT(HARD_WORKSPACE_QUOTA) | BIT(HARD_SKILL_STORAGE_QUOTA)},
        {"fill 1 4128768", "fill 1 0", BIT(HARD_WORKSPACE_QUOTA) | BIT(HARD_SKILL_STORAGE_QUOTA)},
        {"fill 1 4128768", "fill 1 5000000",
         BIT(HARD_WORKSPACE_QUOTA) | BIT(HARD_SKILL_STORAGE_QUOTA)},
        {"fill 1 4128768\n", "",
         BIT(HARD_WORKSPACE_QUOTA) | BIT(HARD_SKILL_STORAGE_QUOTA) | BIT(INODE_QUOTA)},
        {"files 255", "files 514", BIT(HARD_SKILL_STORAGE_QUOTA) | BIT(INODE_QUOTA)},
        {"files 255", "files 0", BIT(HARD_SKILL_STORAGE_QUOTA) | BIT(INODE_QUOTA)},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *at = strstr(good, cases[i].is);
        char own[64] = "ns user ";
        const char *said = cases[i].said;
        assert_non_null(at);
        if (strcmp(said, "own") == 0) {
            ssize_t length = readlink("/proc/self/ns/user", own + 8, sizeof own - 10);
            assert_true(length > 0);
            strcpy(own + 8 + length, "\n");
            said = own;
        }
        cleanup_free char *text =
            xasprintf("%.*s%s%s", (int)(at - good), good, said, at + strlen(cases[i].is));
        say(text);
        unsigned found = ask_failing(f);
        if (found != cases[i].failing)
            fail_msg("'%s' for '%s': %x and not %x", said, cases[i].is, found, cases[i].failing);
    }
    /* Nothing, and no end, is nothing that could be trusted. */
    say("end\n");
    assert_int_not_equal(ask_failing(f) & BIT(MOUNT_ISOLATION), 0);
    cleanup_free char *cut = xstrndup(good, strlen(good) - 4);
    say(cut);
    assert_int_equal(ask_failing(f) & BIT(BACKEND_AVAILABLE), BIT(BACKEND_AVAILABLE));
    say("");
    assert_int_equal(ask_failing(f) & BIT(BACKEND_AVAILABLE), BIT(BACKEND_AVAILABLE));
}

static void test_writable_root(void **state)
{
    struct fixture *f = *state;
    struct trial_report report;
    static const char text[] = "mount 10 9 0:54 / / rw,nosuid - tmpfs none rw\n"
                               "mount 11 10 0:55 / /usr rw,nosuid - overlay none rw\n";
    (void)f;
    trial_report_parse(text, strlen(text), true, &report);
    assert_true(report.mounts);
    assert_string_equal(report.writable, "");
    trial_report_parse(text, strlen(text), false, &report);
    assert_string_equal(report.writable, "/usr");
}

/* --- who asks -----------------------------------------------------------------------------------
 */

static void test_kept(void **state)
{
    struct fixture *f = *state;
    struct answer answer;
    ask(f, &answer);
    assert_true(answer.result.ready);
    unsigned created = fake.created;
    /* Even when it is no longer true. */
    fake.cgroup = "v1";
    answer = (struct answer){0};
    readiness_ask(f->readiness, &f->setup, on_answer, &answer);
    assert_true(answer.told && answer.result.ready);
    assert_int_equal(fake.created, created);
    readiness_forget(f->readiness);
    ask(f, &answer);
    assert_false(answer.result.ready);
    assert_int_equal(fake.created, 2 * created);
    fake.cgroup = "v2";
    f->policy.readiness_cache_sec = 0;
    ask(f, &answer);
    assert_true(answer.result.ready);
    assert_int_equal(fake.created, 3 * created);
}

static void test_shared(void **state)
{
    struct fixture *f = *state;
    struct answer answers[3] = {0};
    for (int i = 0; i < 3; i++) {
        readiness_ask(f->readiness, &f->setup, on_answer, &answers[i]);
        assert_false(answers[i].told);
        turns(f, 1);
    }
    for (int i = 0; i < 3; i++) {
        until(f, &answers[i].told);
        assert_int_equal(answers[i].count, 1);
        assert_true(answers[i].result.ready);
    }
    assert_int_equal(fake.created, 2);
}

/* The configuration changes while it is tried: who asked before has the old answer, who asks after
   that the new one, and that is the one that is kept. */
static void test_changed(void **state)
{
    struct fixture *f = *state;
    struct answer before = {0};
    struct answer after[2] = {0};
    readiness_ask(f->readiness, &f->setup, on_answer, &before);
    turns(f, 2);
    readiness_forget(f->readiness);
    f->policy.max_sessions = 7;
    f->setup.workspace_root = "/srv/other";
    for (int i = 0; i < 2; i++)
        readiness_ask(f->readiness, &f->setup, on_answer, &after[i]);
    until(f, &before.told);
    assert_true(before.result.ready);
    assert_false(after[0].told || after[1].told);
    for (int i = 0; i < 2; i++) {
        until(f, &after[i].told);
        assert_int_equal(failing(&after[i].result), BIT(SESSION_CAP));
    }
    assert_int_equal(fake.created, 4);
    struct answer kept = {0};
    readiness_ask(f->readiness, &f->setup, on_answer, &kept);
    assert_int_equal(failing(&kept.result), BIT(SESSION_CAP));
}

struct again {
    struct fixture *f;
    struct answer answer;
    struct answer other;
    bool called;
};

/* Told, it asks again and calls the next one off. */
static void on_again(void *data, const struct readiness_result *result)
{
    struct again *again = data;
    (void)result;
    again->called = true;
    readiness_cancel(again->f->readiness, &again->other);
    readiness_ask(again->f->readiness, &again->f->setup, on_answer, &again->answer);
}

static void test_again(void **state)
{
    struct fixture *f = *state;
    struct again again = {.f = f};
    f->policy.readiness_cache_sec = 0;
    readiness_ask(f->readiness, &f->setup, on_again, &again);
    readiness_ask(f->readiness, &f->setup, on_answer, &again.other);
    until(f, &again.called);
    until(f, &again.answer.told);
    assert_int_equal(again.other.count, 0);
    assert_int_equal(again.answer.count, 1);
    assert_int_equal(fake.created, 4);
}

/* Called off after so many turns of the loop, until there is nothing left to be called off. */
static void test_cancel(void **state)
{
    struct fixture *f = *state;
    bool told = false;
    for (int i = 0; i < 200 && !told; i++) {
        struct answer gone = {0};
        struct answer answer;
        readiness_forget(f->readiness);
        readiness_ask(f->readiness, &f->setup, on_answer, &gone);
        turns(f, i);
        told = gone.told;
        readiness_cancel(f->readiness, &gone);
        readiness_cancel(f->readiness, &gone);
        gone.told = false;
        ask(f, &answer); /* shares what is under way */
        assert_true(answer.result.ready);
        assert_false(gone.told);
    }
    assert_true(told);
}

static void test_freed(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 60; i++) {
        struct answer gone = {0};
        readiness_ask(f->readiness, &f->setup, on_answer, &gone);
        turns(f, i);
        readiness_cancel(f->readiness, &gone);
        readiness_free(f->readiness);
        f->readiness = readiness_new(f->runtime);
    }
    struct answer answer;
    ask(f, &answer);
    assert_true(answer.result.ready);
    struct runtime_stats stats;
    runtime_stats(f->runtime, &stats);
    assert_int_equal(stats.sessions, 0);
}

static void test_stop(void **state)
{
    struct fixture *f = *state;
    struct answer answer = {0};
    readiness_ask(f->readiness, &f->setup, on_answer, &answer);
    turns(f, 3);
    runtime_stop(f->runtime, false, on_stopped, &f->stopped);
    until(f, &f->stopped);
    assert_int_equal(answer.count, 1);
    assert_false(answer.result.ready);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* A session that is never ready. */
static void test_deadline(void **state)
{
    struct fixture *f = *state;
    struct answer answer;
    uv_timer_t tick; /* the runtime's own alarms do not keep a loop going */
    uv_timer_init(&f->loop, &tick);
    uv_timer_start(&tick, on_tick, 10, 10);
    trial_deadline_ms = 50;
    fake.image = "stuck";
    ask(f, &answer);
    assert_false(answer.result.ready);
    assert_non_null(strstr(answer.result.checks[READINESS_BACKEND_AVAILABLE].reason, "not over"));
    assert_true(answer.result.checks[READINESS_CONFIGURATION].ok);
    uv_close((uv_handle_t *)&tick, NULL);
    turns(f, 1);
}

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/test-readiness-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    cleanup_free char *command = xasprintf("rm -rf %s", directory);
    free(fake.says);
    return system(command); /* NOLINT(cert-env33-c): a path of our own */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_names),   TEST(test_all_good),      TEST(test_policy), TEST(test_backend),
        TEST(test_reports), TEST(test_writable_root), TEST(test_kept),   TEST(test_shared),
        TEST(test_changed), TEST(test_again),         TEST(test_cancel), TEST(test_freed),
        TEST(test_stop),    TEST(test_deadline),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
