/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend below allowed roots: workspaces that it makes, markers that it reads, and what
   those inside and outside may try. */
#include <fcntl.h>
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
#include "core/fd.h"

#define MARKER ".langbot-box-volume-probe-0123456789abcdef0123456789abcdef"
#define OWNER  4321

static char top[64]; /* top/root is the allowed root, top/sockets the spawner's */
static struct spawner_config spawner_config;
static struct native_options options = {.spawner = &spawner_config};

struct fixture {
    uv_loop_t loop;
    struct backend *backend;
    pid_t spawner;
    unsigned keys;
};

static const char *in_top(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static bool exists(const char *name)
{
    struct stat st;
    return lstat(in_top(name), &st) == 0;
}

static uid_t owner(void)
{
    return geteuid() == 0 ? OWNER : geteuid();
}

static void open_backend(struct fixture *f)
{
    struct error err = ERROR_INIT;
    int sock;
    if (native_spawn(&options, &sock, &f->spawner, &err) < 0)
        fail_msg("%s", err.message);
    uv_loop_init(&f->loop);
    f->backend = native_new(&f->loop, sock, &options);
}

static void close_backend(struct fixture *f)
{
    f->backend->ops->close(f->backend);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    waitpid(f->spawner, NULL, 0);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    strcpy(top, "/tmp/test-native-roots-XXXXXX");
    if (!mkdtemp(top) || mkdir(in_top("root"), 0755) < 0 || mkdir(in_top("sockets"), 0700) < 0 ||
        mkdir(in_top("outside"), 0755) < 0 || chown(in_top("root"), owner(), (gid_t)-1) < 0)
        return -1;
    spawner_config = (struct spawner_config){
        .policy = {.only_allowed = true},
        .socket_directory = strdup(in_top("sockets")),
        .init_binary = getenv("BOX_INIT"),
        .front = owner(),
        .ready = 2,
    };
    strings_add(&spawner_config.policy.allowed_roots, in_top("root"));
    open_backend(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    close_backend(f);
    strings_release(&spawner_config.policy.allowed_roots);
    free((char *)spawner_config.socket_directory);
    free(f);
    cleanup_free char *command = xasprintf("rm -rf %s", top);
    return system(command); /* NOLINT(cert-env33-c): a path of our own */
}

static void until(struct fixture *f, const bool *flag)
{
    for (int i = 0; i < 100000 && !*flag; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_true(*flag);
}

/* --- sessions -----------------------------------------------------------------------------------
 */

struct made {
    struct backend_session *session;
    bool ready, ended, gone;
    struct error error;
    struct backend_outcome outcome;
};

static void on_ready(void *owner_, const struct error *err)
{
    struct made *made = owner_;
    made->ready = true;
    if (err)
        made->error = *err;
}

static void on_session_ended(void *owner_, const struct error *why)
{
    (void)owner_;
    fail_msg("%s", why->message);
}

static const struct backend_session_events session_events = {.ready = on_ready,
                                                             .ended = on_session_ended};

static enum error_code make(struct fixture *f, struct made *made, const char *path, bool make_path)
{
    struct session_spec spec;
    char key[17];
    *made = (struct made){0};
    session_spec_init(&spec);
    spec.name = xstrdup("test");
    spec.host_path = xstrdup(in_top(path));
    spec.make_host_path = make_path;
    snprintf(key, sizeof key, "00000000000000%02x", ++f->keys);
    made->session = f->backend->ops->create(f->backend, &spec, key, &session_events, made);
    session_spec_release(&spec);
    until(f, &made->ready);
    return made->error.code;
}

static void on_destroyed(void *data, const struct error *err)
{
    assert_null(err);
    *(bool *)data = true;
}

static void end(struct fixture *f, struct made *made)
{
    f->backend->ops->destroy(made->session, on_destroyed, &made->gone);
    until(f, &made->gone);
}

static void on_started(void *owner_, int terminal, const struct error *err)
{
    (void)owner_;
    (void)terminal;
    assert_null(err);
}

static void on_ended(void *owner_, const struct backend_outcome *outcome, const struct error *err)
{
    struct made *made = owner_;
    assert_null(err);
    made->outcome = *outcome;
    made->ended = true;
}

static const struct backend_process_events process_events = {.started = on_started,
                                                             .ended = on_ended};

static void run(struct fixture *f, struct made *made, const char *script)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    char *envp[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct backend_command command = {
        .argv = argv, .envp = envp, .cwd = "/workspace", .fds = {null, null, null}};
    made->ended = false;
    f->backend->ops->start(made->session, &command, &process_events, made);
    until(f, &made->ended);
    assert_int_equal(made->outcome.exit_code, 0);
}

static void test_made(void **state)
{
    static const char *const made_here[] = {"root/tenants", "root/tenants/a",
                                            "root/tenants/a/file"};
    struct fixture *f = *state;
    struct made made;
    struct stat st;
    /* Not unless it is asked for. */
    assert_int_equal(make(f, &made, "root/tenants/a", false), ERROR_INVALID);
    assert_false(exists("root/tenants"));
    if (make(f, &made, "root/tenants/a", true) != ERROR_NONE)
        fail_msg("%s", made.error.message);
    run(f, &made, "echo hello >file; mkdir directory");
    for (size_t i = 0; i < ARRAY_SIZE(made_here); i++) {
        assert_int_equal(stat(in_top(made_here[i]), &st), 0);
        assert_int_equal(st.st_uid, owner());
        if (S_ISDIR(st.st_mode))
            assert_int_equal(st.st_mode & 07777, 0700);
    }
    end(f, &made);
    /* The second time it is there, with what is in it. */
    assert_int_equal(make(f, &made, "root/tenants/a", true), ERROR_NONE);
    run(f, &made, "test \"$(cat file)\" = hello");
    end(f, &made);
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    struct made made;
    assert_int_equal(make(f, &made, "outside/x", true), ERROR_DENIED);
    assert_int_equal(make(f, &made, "rooted/x", true), ERROR_DENIED);
    assert_int_equal(make(f, &made, "root/1/2/3/4/5/6/7/8/9", true), ERROR_INVALID);
    assert_int_equal(symlink(in_top("outside"), in_top("root/link")), 0);
    assert_int_equal(make(f, &made, "root/link/x", true), ERROR_DENIED);
    assert_int_equal(mkfifo(in_top("root/fifo"), 0600), 0);
    assert_int_equal(make(f, &made, "root/fifo/x", true), ERROR_INVALID);
    assert_false(exists("outside/x") || exists("rooted"));
    assert_int_equal(rmdir(in_top("outside")), 0);
}

/* What a sandbox can write to leads nowhere else, also for who has a directory below it. */
static void test_links_from_inside(void **state)
{
    struct fixture *f = *state;
    struct made made;
    struct made other;
    assert_int_equal(make(f, &other, "root/b", true), ERROR_NONE);
    assert_int_equal(make(f, &made, "root/a", true), ERROR_NONE);
    cleanup_free char *script = xasprintf("ln -s %s/root/b up; ln -s ../b beside; ln -s /etc etc; "
                                          "echo >file; mkfifo fifo",
                                          top);
    run(f, &made, script);
    end(f, &made);
    end(f, &other);
    static const char *const ways[] = {"root/a/up", "root/a/up/x", "root/a/beside",
                                       "root/a/beside/x", "root/a/etc/x"};
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
        assert_int_equal(make(f, &made, ways[i], true), ERROR_DENIED);
    assert_int_equal(make(f, &made, "root/a/file/x", true), ERROR_INVALID);
    assert_int_equal(make(f, &made, "root/a/fifo", true), ERROR_INVALID);
    assert_false(exists("root/b/x"));
    assert_int_equal(access("/etc/x", F_OK), -1);
}

/* --- markers ------------------------------------------------------------------------------------
 */

struct answer {
    bool told;
    char bytes[2048];
    size_t size;
    enum error_code code;
};

static void on_marker(void *data, const void *bytes, size_t size, const struct error *err)
{
    struct answer *answer = data;
    answer->told = true;
    answer->code = err ? err->code : ERROR_NONE;
    if (err)
        assert_true(err->message[0]);
    assert_true(size <= 1024);
    if (!err)
        memcpy(answer->bytes, bytes, size);
    answer->size = size;
}

static enum error_code ask(struct fixture *f, const char *directory, const char *name,
                           struct answer *answer)
{
    *answer = (struct answer){0};
    f->backend->ops->read_marker(f->backend, directory, name, on_marker, answer);
    assert_false(answer->told);
    until(f, &answer->told);
    return answer->code;
}

static void put(const char *name, const char *text, size_t size)
{
    int fd = open(in_top(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, size), 0);
    close(fd);
}

static void test_marker(void **state)
{
    static char text[1025];
    struct fixture *f = *state;
    struct answer answer;
    const char *root = in_top("root");
    memset(text, 0, sizeof text); /* bytes, not words */
    assert_int_equal(ask(f, root, MARKER, &answer), ERROR_NOT_FOUND);
    static const size_t sizes[] = {1, 512, 1024};
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        put("root/" MARKER, text, sizes[i]);
        assert_int_equal(ask(f, root, MARKER, &answer), ERROR_NONE);
        assert_int_equal(answer.size, sizes[i]);
        assert_memory_equal(answer.bytes, text, sizes[i]);
    }
    put("root/" MARKER, text, 1025);
    assert_int_equal(ask(f, root, MARKER, &answer), ERROR_INVALID);
    assert_int_equal(unlink(in_top("root/" MARKER)), 0);
    assert_int_equal(mkfifo(in_top("root/" MARKER), 0666), 0);
    assert_int_equal(ask(f, root, MARKER, &answer), ERROR_INVALID);
    assert_int_equal(unlink(in_top("root/" MARKER)), 0);
    put("outside/" MARKER, "x", 1);
    assert_int_equal(symlink(in_top("outside/" MARKER), in_top("root/" MARKER)), 0);
    assert_int_equal(ask(f, root, MARKER, &answer), ERROR_DENIED);
}

/* Whoever is in control of the front gets no more than markers. */
static void test_marker_refused(void **state)
{
    struct fixture *f = *state;
    struct answer answer;
    char long_name[8192];
    put("outside/" MARKER, "x", 1);
    put("root/secret", "x", 1);
    assert_int_equal(ask(f, in_top("outside"), MARKER, &answer), ERROR_DENIED);
    assert_int_equal(ask(f, "/etc", "passwd", &answer), ERROR_INVALID);
    assert_int_equal(ask(f, in_top("root"), "secret", &answer), ERROR_INVALID);
    assert_int_equal(ask(f, in_top("root/../outside"), MARKER, &answer), ERROR_INVALID);
    assert_int_equal(ask(f, "root", MARKER, &answer), ERROR_INVALID);
    assert_int_equal(ask(f, "", MARKER, &answer), ERROR_INVALID);
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[0] = '/';
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(ask(f, long_name, MARKER, &answer), ERROR_INVALID);
    assert_int_equal(ask(f, in_top("root"), long_name, &answer), ERROR_INVALID);
    assert_int_equal(ask(f, in_top("root/none"), MARKER, &answer), ERROR_NOT_FOUND);
}

static void test_marker_lost(void **state)
{
    struct fixture *f = *state;
    struct answer answer = {0};
    f->backend->ops->read_marker(f->backend, in_top("root"), MARKER, on_marker, &answer);
    assert_int_equal(kill(f->spawner, SIGKILL), 0);
    until(f, &answer.told);
    for (int i = 0; i < 3; i++)
        if (ask(f, in_top("root"), MARKER, &answer) != ERROR_NOT_FOUND)
            assert_int_equal(answer.code, ERROR_UNAVAILABLE);
    assert_int_equal(answer.code, ERROR_UNAVAILABLE);
}

static void test_marker_closed(void **state)
{
    struct fixture *f = *state;
    struct answer answer = {0};
    f->backend->ops->read_marker(f->backend, in_top("root"), MARKER, on_marker, &answer);
    close_backend(f);
    assert_true(answer.told);
    assert_int_equal(answer.code, ERROR_UNAVAILABLE);
    open_backend(f);
}

/* --- stores -------------------------------------------------------------------------------------
 */

static void on_bounded(void *data, const struct error *err)
{
    struct answer *answer = data;
    assert_false(answer->told);
    answer->told = true;
    answer->code = err ? err->code : ERROR_NONE;
}

static enum error_code bound(struct fixture *f, const char *root, const char *tenant)
{
    struct answer answer = {0};
    const struct backend_bound limit = {
        .root = root, .tenant = tenant, .bytes = 1 << 20, .inodes = 100};
    f->backend->ops->bound_store(f->backend, &limit, on_bounded, &answer);
    assert_false(answer.told);
    until(f, &answer.told);
    return answer.code;
}

/* Whoever is in control of the front limits nothing but directories of its own. */
static void test_store(void **state)
{
    struct fixture *f = *state;
    char long_name[8192];
    char store[512];
    const char *root = in_top("root");
    if (geteuid() != 0) {
        assert_int_equal(bound(f, root, NULL), ERROR_UNSUPPORTED);
        return;
    }
    snprintf(store, sizeof store, "%s/store", root);
    assert_int_equal(mkdir(store, 0755), 0);
    assert_int_equal(chown(store, OWNER, (gid_t)-1), 0);
    /* /tmp has no project quota: what gets as far as that was accepted. */
    assert_int_equal(bound(f, store, NULL), ERROR_UNSUPPORTED);
    assert_int_equal(bound(f, store, "ws-1"), ERROR_NOT_FOUND);
    assert_int_equal(bound(f, store, "../outside"), ERROR_INVALID);
    assert_int_equal(bound(f, root, NULL), ERROR_DENIED); /* the administrator's */
    assert_int_equal(bound(f, in_top("outside"), NULL), ERROR_DENIED);
    assert_int_equal(bound(f, in_top("root/../outside"), NULL), ERROR_INVALID);
    assert_int_equal(bound(f, "root", NULL), ERROR_INVALID);
    assert_int_equal(bound(f, "", NULL), ERROR_INVALID);
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[0] = '/';
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(bound(f, long_name, NULL), ERROR_INVALID);
    assert_int_equal(bound(f, store, long_name + 1), ERROR_INVALID);
    assert_int_equal(chown(store, 0, (gid_t)-1), 0);
    assert_int_equal(bound(f, store, NULL), ERROR_DENIED);
}

static void test_store_lost(void **state)
{
    struct fixture *f = *state;
    struct answer answer = {0};
    const struct backend_bound limit = {.root = in_top("root")};
    f->backend->ops->bound_store(f->backend, &limit, on_bounded, &answer);
    close_backend(f);
    assert_true(answer.told);
    assert_int_equal(answer.code, ERROR_UNAVAILABLE);
    open_backend(f);
    assert_int_equal(kill(f->spawner, SIGKILL), 0);
    for (int i = 0; i < 1000 && bound(f, limit.root, NULL) != ERROR_UNAVAILABLE; i++)
        ;
    assert_int_equal(bound(f, limit.root, NULL), ERROR_UNAVAILABLE);
}

static void test_cgroup_kind(void **state)
{
    struct fixture *f = *state;
    struct made made;
    const char *expected = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? "v2" : "v1";
    if (geteuid() != 0) {
        print_message("skipped: what an ordinary user has depends on what was delegated to it\n");
        skip();
    }
    f->backend->ops->sweep(f->backend);
    assert_int_equal(make(f, &made, "root/a", true), ERROR_NONE);
    assert_string_equal(f->backend->ops->cgroup_kind(f->backend), expected);
    end(f, &made);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_made),          TEST(test_refused),        TEST(test_links_from_inside),
        TEST(test_marker),        TEST(test_marker_refused), TEST(test_marker_lost),
        TEST(test_marker_closed), TEST(test_store),          TEST(test_store_lost),
        TEST(test_cgroup_kind),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
