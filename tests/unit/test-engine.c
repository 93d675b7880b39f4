/* SPDX-License-Identifier: Apache-2.0 */
/* The engine as a library, against the real kernel: sessions that live on between commands, several
   commands at once, files opened from inside. `box run` uses it for one command only. BOX_INIT
   names box-init. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/mem.h"
#include "sandbox/engine.h"
#include "sandbox/seccomp.h"

#define PATIENCE_MS 30000

static struct engine *engine;
static bool has_groups;

static void fail_with(const char *what, const struct error *err)
{
    fail_msg("%s: %s (%s)", what, err->message, err->hint);
}

static int open_engine(void **state)
{
    (void)state;
    static struct spawner_config config = {.ready = 2};
    struct error err = ERROR_INIT;
    config.init_binary = getenv("BOX_INIT");
    if (engine_open(&engine, &config, &err) < 0)
        fail_with("engine", &err);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

static struct sandbox *make_session(uint64_t memory)
{
    struct sandbox_spec spec;
    struct sandbox *sandbox;
    struct error err = ERROR_INIT;
    sandbox_spec_init(&spec);
    if (memory)
        spec.memory_bytes = memory;
    if (sandbox_create(engine, &spec, &sandbox, &err) < 0)
        fail_with("create", &err);
    sandbox_spec_release(&spec);
    has_groups = sandbox_notes(sandbox)[0] == '\0';
    return sandbox;
}

static void end_session(struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;
    if (sandbox_destroy(sandbox, &err) < 0)
        fail_with("destroy", &err);
}

static void start(struct sandbox *sandbox, const char *script, struct command *ret)
{
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    char *const envp[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    struct error err = ERROR_INIT;
    cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct command_request request = {
        .argv = argv, .envp = envp, .cwd = "/workspace", .fds = {null, null, null}};
    if (command_start(sandbox, &request, ret, &err) < 0)
        fail_with(script, &err);
}

static struct outcome finish(struct command *command)
{
    struct outcome outcome;
    struct error err = ERROR_INIT;
    struct pollfd polled = {.fd = command_fd(command), .events = POLLIN};
    if (poll(&polled, 1, PATIENCE_MS) != 1)
        fail_msg("the command does not end");
    if (command_finish(command, false, &outcome, &err) < 0)
        fail_with("finish", &err);
    return outcome;
}

static struct outcome run(struct sandbox *sandbox, const char *script)
{
    struct command command;
    start(sandbox, script, &command);
    return finish(&command);
}

static void test_session_remembers(void **state)
{
    (void)state;
    struct sandbox *sandbox = make_session(0);
    assert_int_equal(run(sandbox, "echo kept > f; exit 3").exit_code, 3);
    assert_int_equal(run(sandbox, "grep -q kept f").exit_code, 0);
    assert_int_equal(run(sandbox, "kill -9 $$").signal, SIGKILL);
    assert_int_equal(run(sandbox, "true").exit_code, 0);
    end_session(sandbox);
}

static void test_commands_at_once(void **state)
{
    (void)state;
    enum { COUNT = 10 };
    struct sandbox *sandbox = make_session(0);
    struct command commands[COUNT];
    char script[64];
    for (int i = 0; i < COUNT; i++) {
        snprintf(script, sizeof script, "while [ ! -e go ]; do sleep 0.01; done; exit %d", i);
        start(sandbox, script, &commands[i]);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(commands[i].lane, commands[j].lane);
    }
    assert_int_equal(run(sandbox, "touch go").exit_code, 0);
    for (int i = COUNT; i-- > 0;)
        assert_int_equal(finish(&commands[i]).exit_code, i);
    end_session(sandbox);
}

static void test_denied_calls_by_command(void **state)
{
    (void)state;
    struct sandbox *sandbox = make_session(0);
    struct outcome outcome = run(sandbox, "unshare -U true");
    int number = -1;
    for (int i = 0; i < DENIED_WORDS * 64; i++) {
        if (outcome.denied[i / 64] >> (i % 64) & 1)
            number = i;
    }
    assert_string_equal(seccomp_syscall_name(number), "unshare");
    assert_int_equal(outcome.cause, CAUSE_DENIED_SYSCALL);
    /* Not held against the next one. */
    outcome = run(sandbox, "exit 1");
    assert_int_equal(outcome.cause, CAUSE_EXITED);
    end_session(sandbox);
}

static void need_groups(struct sandbox *sandbox)
{
    if (!has_groups) {
        end_session(sandbox);
        print_message("no usable cgroup here: a command's tree cannot be told from its session\n");
        skip();
    }
}

static void test_kill_spares_session(void **state)
{
    (void)state;
    struct sandbox *sandbox = make_session(0);
    struct command command;
    struct outcome outcome;
    struct error err = ERROR_INIT;
    need_groups(sandbox);
    assert_int_equal(run(sandbox, "sleep 1000 & echo $! > bystander").exit_code, 0);
    start(sandbox, "trap '' TERM; setsid sh -c 'echo $$ > deep; sleep 1000' & sleep 1000",
          &command);
    assert_int_equal(run(sandbox, "while [ ! -s deep ]; do sleep 0.01; done").exit_code, 0);
    command_kill(&command);
    assert_int_equal(command_finish(&command, true, &outcome, &err), 0);
    assert_true(outcome.timed_out);
    assert_int_equal(outcome.cause, CAUSE_TIMEOUT);
    assert_int_equal(run(sandbox, "! kill -0 $(cat deep)").exit_code, 0);
    assert_int_equal(run(sandbox, "kill -0 $(cat bystander)").exit_code, 0);
    end_session(sandbox);
}

static void test_memory_spares_session(void **state)
{
    (void)state;
    struct sandbox *sandbox = make_session(64u << 20);
    need_groups(sandbox);
    struct outcome outcome = run(sandbox, "tail /dev/zero");
    assert_int_equal(outcome.cause, CAUSE_OOM);
    assert_int_equal(run(sandbox, "true").cause, CAUSE_EXITED);
    end_session(sandbox);
}

static int open_file(struct sandbox *sandbox, const char *path, uint32_t flags, int *ret_fd)
{
    struct error err = ERROR_INIT;
    if (sandbox_open(sandbox, path, flags, 0644, ret_fd, &err) == 0)
        return 0;
    return err.errnum ? err.errnum : EPROTO;
}

static void wait_for_file(struct sandbox *sandbox, const char *path)
{
    int fd = -1;
    for (int i = 0; i < PATIENCE_MS / 10 && fd < 0; i++) {
        if (open_file(sandbox, path, INIT_OPEN_READ, &fd) != 0)
            poll(NULL, 0, 10);
    }
    assert_true(fd >= 0);
    close(fd);
}

/* What runs inside has the launcher's user, and may kill or stop it: the session goes on in another
 * lane. */
static void test_launcher_attacked(void **state)
{
    (void)state;
    static const char *const attacks[] = {"KILL", "STOP"};
    for (size_t i = 0; i < ARRAY_SIZE(attacks); i++) {
        struct sandbox *sandbox = make_session(0);
        char script[128];
        snprintf(script, sizeof script, "p=$PPID; (sleep 0.1; kill -%s $p; touch done) & exit 0",
                 attacks[i]);
        assert_int_equal(run(sandbox, script).exit_code, 0);
        wait_for_file(sandbox, "/workspace/done");
        assert_int_equal(run(sandbox, "exit 4").exit_code, 4);
        assert_int_equal(run(sandbox, "exit 5").exit_code, 5);
        end_session(sandbox);
    }
}

static void test_files(void **state)
{
    (void)state;
    struct sandbox *sandbox = make_session(0);
    char text[16] = "";
    int fd = -1;
    assert_int_equal(open_file(sandbox, "/workspace/new", INIT_OPEN_WRITE | INIT_OPEN_CREATE, &fd),
                     0);
    assert_int_equal(write(fd, "hello", 5), 5);
    fd_clear(&fd);
    assert_int_equal(run(sandbox, "[ \"$(cat new)\" = hello ]").exit_code, 0);
    assert_int_equal(open_file(sandbox, "/workspace/new", INIT_OPEN_READ, &fd), 0);
    assert_int_equal(read(fd, text, sizeof text), 5);
    fd_clear(&fd);
    assert_int_equal(open_file(sandbox, "/workspace/none", INIT_OPEN_READ, &fd), ENOENT);
    assert_int_equal(open_file(sandbox, "/workspace/new",
                               INIT_OPEN_WRITE | INIT_OPEN_CREATE | INIT_OPEN_EXCLUSIVE, &fd),
                     EEXIST);
    assert_int_equal(open_file(sandbox, "/usr/new", INIT_OPEN_WRITE | INIT_OPEN_CREATE, &fd),
                     EROFS);
    end_session(sandbox);
}

/* ABUSE 11, 12, 14: links lead nowhere but within the sandbox's own view; only regular files come
 * out. */
static void test_hostile_files(void **state)
{
    (void)state;
    struct sandbox *sandbox = make_session(0);
    char host[] = "/tmp/boxd-test-XXXXXX";
    char script[256];
    int fd = -1;
    cleanup_close int secret = mkstemp(host);
    assert_true(secret >= 0);
    snprintf(script, sizeof script,
             "ln -s %s link; ln -s /tmp/dangling dangling; ln -s /proc/self/fd/0 magic; mkfifo "
             "fifo; mkdir dir",
             host);
    assert_int_equal(run(sandbox, script).exit_code, 0);
    assert_int_equal(open_file(sandbox, "/workspace/link", INIT_OPEN_READ, &fd), ENOENT);
    assert_int_equal(open_file(sandbox, "/workspace/fifo", INIT_OPEN_READ, &fd), EINVAL);
    assert_int_equal(open_file(sandbox, "/workspace/fifo", INIT_OPEN_WRITE, &fd), ENXIO);
    assert_int_equal(open_file(sandbox, "/workspace/dir", INIT_OPEN_READ, &fd), EISDIR);
    assert_int_equal(open_file(sandbox, "/dev/zero", INIT_OPEN_READ, &fd), EINVAL);
    assert_int_equal(open_file(sandbox, "/workspace/magic", INIT_OPEN_READ, &fd), ELOOP);
    /* Written through the link: the file appears inside, not on the host. */
    assert_int_equal(open_file(sandbox, "/workspace/link", INIT_OPEN_WRITE | INIT_OPEN_CREATE, &fd),
                     0);
    assert_int_equal(write(fd, "inside", 6), 6);
    fd_clear(&fd);
    struct stat st;
    assert_int_equal(fstat(secret, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(
        open_file(sandbox, "/workspace/dangling", INIT_OPEN_WRITE | INIT_OPEN_CREATE, &fd), 0);
    fd_clear(&fd);
    assert_int_equal(access("/tmp/dangling", F_OK), -1);
    unlink(host);
    end_session(sandbox);
}

static uint32_t first_id(struct sandbox *sandbox)
{
    char path[64];
    char text[256];
    unsigned inside;
    unsigned outside;
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)sandbox_host_pid(sandbox));
    assert_true(fd_read_file(AT_FDCWD, path, text, sizeof text) > 0);
    assert_int_equal(sscanf(text, "%u %u", &inside, &outside), 2);
    return outside;
}

static void test_ids_are_private(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct sandbox *sessions[COUNT];
    uint32_t ids[COUNT];
    if (geteuid() != 0)
        skip();
    for (int i = 0; i < COUNT; i++) {
        sessions[i] = make_session(0);
        ids[i] = first_id(sessions[i]);
        for (int j = 0; j < i; j++)
            assert_true(ids[i] != ids[j]);
    }
    for (int i = 0; i < COUNT; i++)
        end_session(sessions[i]);
}

static void test_large_command(void **state)
{
    (void)state;
    struct sandbox *sandbox = make_session(0);
    char *script = xmalloc(100001);
    memset(script, ' ', 100000);
    memcpy(script, "exit 7 #", 8);
    script[100000] = '\0';
    assert_int_equal(run(sandbox, script).exit_code, 7); /* too large for one message: by memfd */
    free(script);
    end_session(sandbox);
}

static void test_init_killed(void **state)
{
    (void)state;
    struct sandbox *sandbox = make_session(0);
    struct command command;
    struct outcome outcome;
    struct error err = ERROR_INIT;
    start(sandbox, "sleep 1000", &command);
    kill(sandbox_host_pid(sandbox), SIGKILL);
    struct pollfd polled = {.fd = command_fd(&command), .events = POLLIN};
    assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
    assert_int_equal(command_finish(&command, false, &outcome, &err), -1);
    assert_int_equal(err.code, ERROR_GONE);
    end_session(sandbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_remembers),
        cmocka_unit_test(test_commands_at_once),
        cmocka_unit_test(test_denied_calls_by_command),
        cmocka_unit_test(test_kill_spares_session),
        cmocka_unit_test(test_memory_spares_session),
        cmocka_unit_test(test_launcher_attacked),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_hostile_files),
        cmocka_unit_test(test_ids_are_private),
        cmocka_unit_test(test_large_command),
        cmocka_unit_test(test_init_killed),
    };
    if (!getenv("BOX_INIT")) {
        fputs("BOX_INIT must name box-init\n", stderr);
        return 1;
    }
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
