/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend on a real kernel: sessions, commands, files, and what survives the process
   that made them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/native.h"
#include "core/fd.h"
#include "sandbox/protocol.h"

static char directory[64];
static struct spawner_config spawner_config;
static struct native_options options = {.spawner = &spawner_config};

/* A ceiling against hanging, not a measure. */
#define PATIENCE_MS 60000

struct fixture {
    uv_loop_t loop;
    uv_timer_t patience;
    bool late;
    struct backend *backend;
    pid_t spawner;
};

static void open_backend(struct fixture *f)
{
    struct error err = ERROR_INIT;
    int sock;
    spawner_config.socket_directory = directory;
    spawner_config.init_binary = getenv("BOX_INIT");
    spawner_config.ready = 2;
    if (native_spawn(&options, &sock, &f->spawner, &err) < 0)
        fail_msg("%s", err.message);
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->patience);
    f->patience.data = f;
    f->backend = native_new(&f->loop, sock, &options);
}

static void close_backend(struct fixture *f)
{
    f->backend->ops->close(f->backend);
    uv_close((uv_handle_t *)&f->patience, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    waitpid(f->spawner, NULL, 0);
}

/* --- sessions
 * -------------------------------------------------------------------------------------- */

struct made {
    struct fixture *f;
    struct backend_session *session;
    bool ready;
    bool ended;
    struct error error;
    uint32_t kept_id;
    int kept[BACKEND_KEPT_FDS];
    size_t kept_count;
    struct ran *adopter;
    bool kills_spawner; /* as soon as it is ready */
};

struct ran {
    struct backend_process *process;
    bool started;
    bool ended;
    int terminal;
    struct backend_outcome outcome;
    struct error error;
    int out;
    char text[4096];
};

static const struct backend_process_events process_events;

static void kill_spawner(const struct fixture *f)
{
    siginfo_t info;
    assert_int_equal(kill(f->spawner, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)f->spawner, &info, WEXITED | WNOWAIT), 0);
}

static void on_ready(void *owner, const struct error *err)
{
    struct made *made = owner;
    made->ready = true;
    if (err)
        made->error = *err;
    if (made->kills_spawner)
        kill_spawner(made->f);
}

static void on_session_ended(void *owner, const struct error *why)
{
    struct made *made = owner;
    made->ended = true;
    made->error = *why;
}

static void on_kept(void *owner, uint32_t keep_id, const int *fds, size_t count)
{
    struct made *made = owner;
    made->kept_id = keep_id;
    made->kept_count = count;
    memcpy(made->kept, fds, count * sizeof *fds);
    if (made->adopter)
        made->adopter->process = made->f->backend->ops->adopt_process(
            made->session, keep_id, &process_events, made->adopter);
}

static const struct backend_session_events session_events = {
    .ready = on_ready, .ended = on_session_ended, .kept = on_kept};

static void on_late(uv_timer_t *timer)
{
    struct fixture *f = timer->data;
    f->late = true;
}

static void until(struct fixture *f, const bool *flag)
{
    f->late = false;
    uv_timer_start(&f->patience, on_late, PATIENCE_MS, 0);
    while (!*flag && !f->late)
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_timer_stop(&f->patience);
    assert_true(*flag);
}

static void fill_spec(struct session_spec *spec)
{
    session_spec_init(spec);
    spec->name = strdup("test");
    spec->memory_mb = 64;
}

static void make(struct fixture *f, struct made *made, const char *key)
{
    struct session_spec spec;
    *made = (struct made){.f = f};
    fill_spec(&spec);
    made->session = f->backend->ops->create(f->backend, &spec, key, &session_events, made);
    session_spec_release(&spec);
}

static bool destroyed;
static void on_destroyed(void *data, const struct error *err)
{
    (void)data;
    assert_null(err);
    destroyed = true;
}

static void end(struct fixture *f, struct made *made)
{
    destroyed = false;
    f->backend->ops->destroy(made->session, on_destroyed, NULL);
    until(f, &destroyed);
}

/* --- processes
 * ------------------------------------------------------------------------------------- */

static void on_started(void *owner, int terminal, const struct error *err)
{
    struct ran *ran = owner;
    ran->started = true;
    ran->terminal = terminal;
    if (err) {
        ran->error = *err;
        ran->ended = true;
    }
}

static void on_ended(void *owner, const struct backend_outcome *outcome, const struct error *err)
{
    struct ran *ran = owner;
    ran->ended = true;
    if (err)
        ran->error = *err;
    else
        ran->outcome = *outcome;
}

static const struct backend_process_events process_events = {.started = on_started,
                                                             .ended = on_ended};

static void start(struct fixture *f, struct made *made, struct ran *ran, const char *script,
                  uint32_t keep_id)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    char *envp[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    int pipes[2];
    *ran = (struct ran){.terminal = -1};
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    cleanup_close int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct backend_command command = {.argv = argv,
                                      .envp = envp,
                                      .cwd = "/workspace",
                                      .make_cwd = true,
                                      .fds = {null, pipes[1], pipes[1]},
                                      .keep_id = keep_id};
    ran->process = f->backend->ops->start(made->session, &command, &process_events, ran);
    close(pipes[1]);
    ran->out = pipes[0];
}

static void finish(struct fixture *f, struct ran *ran)
{
    until(f, &ran->ended);
    fcntl(ran->out, F_SETFL, O_NONBLOCK);
    ssize_t n = read(ran->out, ran->text, sizeof ran->text - 1);
    ran->text[n > 0 ? n : 0] = '\0';
    close(ran->out);
}

static void run(struct fixture *f, struct made *made, struct ran *ran, const char *script)
{
    start(f, made, ran, script, 0);
    finish(f, ran);
}

/* --- tests
 * ------------------------------------------------------------------------------------------ */

static void test_commands(void **state)
{
    struct fixture f;
    struct made made;
    struct ran ran;
    (void)state;
    open_backend(&f);
    make(&f, &made, "00000000000000a1");
    /* On its way before there is a session. */
    run(&f, &made, &ran, "echo hello; exit 3");
    if (ran.error.code)
        fail_msg("%s (%s)", ran.error.message, ran.error.hint);
    assert_string_equal(ran.text, "hello\n");
    assert_int_equal(ran.outcome.exit_code, 3);
    assert_string_equal(ran.outcome.cause, "exited");
    until(&f, &made.ready);
    assert_int_equal(made.error.code, ERROR_NONE);
    run(&f, &made, &ran, "echo a > /workspace/f; cat /workspace/f");
    assert_string_equal(ran.text, "a\n");
    run(&f, &made, &ran, "unshare -U true");
    assert_string_equal(ran.outcome.cause, "denied_syscall");
    assert_non_null(strstr(ran.outcome.denied, "unshare"));
    run(&f, &made, &ran, "x=$(head -c 200000000 /dev/zero | tr '\\0' a); echo $x");
    assert_string_equal(ran.outcome.cause, "oom");
    run(&f, &made, &ran, "echo still here");
    assert_string_equal(ran.text, "still here\n");
    end(&f, &made);
    close_backend(&f);
}

static void test_many_at_once(void **state)
{
    struct fixture f;
    struct made made;
    struct ran ran[40];
    (void)state;
    open_backend(&f);
    make(&f, &made, "00000000000000a2");
    for (int i = 0; i < 40; i++) {
        char script[64];
        snprintf(script, sizeof script, "sleep 0.05; echo %d", i);
        start(&f, &made, &ran[i], script, 0);
    }
    for (int i = 0; i < 40; i++) {
        char wanted[16];
        finish(&f, &ran[i]);
        snprintf(wanted, sizeof wanted, "%d\n", i);
        assert_string_equal(ran[i].text, wanted);
    }
    end(&f, &made);
    close_backend(&f);
}

static void test_kill(void **state)
{
    struct fixture f;
    struct made made;
    struct ran ran;
    struct ran other;
    (void)state;
    open_backend(&f);
    make(&f, &made, "00000000000000a3");
    start(&f, &made, &other, "sleep 0.5; echo other", 0);
    start(&f, &made, &ran, "setsid sleep 100 & trap '' TERM; sleep 100", 0);
    until(&f, &ran.started);
    f.backend->ops->kill(ran.process, true);
    finish(&f, &ran);
    assert_true(ran.outcome.timed_out);
    assert_string_equal(ran.outcome.cause, "timeout");
    finish(&f, &other);
    assert_string_equal(other.text, "other\n");
    /* Before it has a lane, even a session. */
    end(&f, &made);
    make(&f, &made, "00000000000000a4");
    start(&f, &made, &ran, "sleep 100", 0);
    f.backend->ops->kill(ran.process, true);
    finish(&f, &ran);
    assert_true(ran.outcome.timed_out);
    run(&f, &made, &ran, "echo on");
    assert_string_equal(ran.text, "on\n");
    /* And a session that ends under its command. */
    start(&f, &made, &ran, "sleep 100", 0);
    until(&f, &ran.started);
    end(&f, &made);
    assert_true(ran.ended);
    assert_int_equal(ran.error.code, ERROR_GONE);
    close(ran.out);
    close_backend(&f);
}

static void test_refusals(void **state)
{
    struct fixture f;
    struct made made = {.f = &f};
    struct session_spec spec;
    struct ran ran;
    (void)state;
    open_backend(&f);
    fill_spec(&spec);
    free(spec.image);
    spec.image = strdup("nobody/knows:it");
    made.session =
        f.backend->ops->create(f.backend, &spec, "00000000000000a5", &session_events, &made);
    start(&f, &made, &ran, "true", 0);
    until(&f, &made.ready);
    assert_int_equal(made.error.code, ERROR_INVALID);
    assert_true(ran.ended);
    close(ran.out);
    /* What only the child finds out, while it builds. */
    free(spec.image);
    spec.image = strdup("host");
    spec.host_path = strdup("/nonexistent/directory");
    made = (struct made){.f = &f};
    made.session =
        f.backend->ops->create(f.backend, &spec, "00000000000000a6", &session_events, &made);
    until(&f, &made.ready);
    assert_int_equal(made.error.code, ERROR_INVALID);
    session_spec_release(&spec);
    /* Deleted while it is being made. */
    make(&f, &made, "00000000000000a7");
    end(&f, &made);
    make(&f, &made, "00000000000000a8");
    start(&f, &made, &ran, "/no/such/program; exec /no/such/program", 0);
    finish(&f, &ran);
    assert_int_equal(ran.outcome.exit_code, 127);
    end(&f, &made);
    close_backend(&f);
}

static ssize_t talk(int sock, void *data, size_t size)
{
    size_t got = 0;
    fcntl(sock, F_SETFL, 0);
    while (got < size) {
        ssize_t n = read(sock, (char *)data + got, size - got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static int ask_file(struct fixture *f, struct made *made, struct file_request request,
                    const char *path, const char *to, int *ret_sock)
{
    struct file_reply reply = {0};
    struct error err = ERROR_INIT;
    int sock;
    if (f->backend->ops->file(made->session, &request, path, to, &sock, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(talk(sock, &reply, sizeof reply), sizeof reply);
    if (ret_sock)
        *ret_sock = sock;
    else
        close(sock);
    return reply.errnum;
}

static void test_files(void **state)
{
    struct fixture f;
    struct made made;
    struct ran ran;
    char text[64] = "";
    uint32_t size = 5;
    struct file_reply reply;
    struct file_entry entry;
    int sock;
    (void)state;
    open_backend(&f);
    make(&f, &made, "00000000000000a9");
    until(&f, &made.ready);
    assert_int_equal(ask_file(&f, &made,
                              (struct file_request){.op = FILE_WRITE, .flags = FILE_PARENTS},
                              "/workspace/a/b/c.txt", NULL, &sock),
                     0);
    assert_int_equal(fd_write_all(sock, &size, sizeof size), 0);
    assert_int_equal(fd_write_all(sock, "hello", 5), 0);
    size = 0;
    assert_int_equal(fd_write_all(sock, &size, sizeof size), 0);
    assert_int_equal(talk(sock, &reply, sizeof reply), sizeof reply);
    assert_int_equal(reply.errnum, 0);
    assert_int_equal(reply.size, 5);
    close(sock);
    /* Begun and left: nothing is there afterwards. */
    assert_int_equal(ask_file(&f, &made, (struct file_request){.op = FILE_WRITE},
                              "/workspace/never", NULL, &sock),
                     0);
    close(sock);
    struct file_request read_it = {.op = FILE_READ, .offset = 1, .length = 3};
    assert_int_equal(ask_file(&f, &made, read_it, "/workspace/a/b/c.txt", NULL, &sock), 0);
    assert_int_equal(talk(sock, text, sizeof text), 3);
    assert_memory_equal(text, "ell", 3);
    close(sock);
    assert_int_equal(ask_file(&f, &made, read_it, "/workspace", NULL, NULL), EISDIR);
    assert_int_equal(ask_file(&f, &made, read_it, "/nowhere", NULL, NULL), ENOENT);
    assert_int_equal(ask_file(&f, &made, read_it, "/proc/self/fd/0", NULL, NULL), ELOOP);
    run(&f, &made, &ran,
        "mkfifo /workspace/fifo; ln -s /etc/shadow /workspace/link; ls -A /workspace");
    assert_string_equal(ran.text, "a\nfifo\nlink\n");
    assert_int_equal(ask_file(&f, &made, read_it, "/workspace/fifo", NULL, NULL), EINVAL);
    assert_int_not_equal(ask_file(&f, &made, read_it, "/workspace/link", NULL, NULL), 0);
    assert_int_equal(ask_file(&f, &made, (struct file_request){.op = FILE_MOVE},
                              "/workspace/a/b/c.txt", "/tmp/moved/c.txt", NULL),
                     0);
    assert_int_equal(
        ask_file(&f, &made, (struct file_request){.op = FILE_LIST}, "/tmp/moved", NULL, &sock), 0);
    assert_int_equal(talk(sock, &entry, sizeof entry), sizeof entry);
    assert_int_equal(entry.name_size, 5);
    assert_int_equal(entry.size, 5);
    close(sock);
    struct file_request remove_it = {.op = FILE_REMOVE};
    assert_int_equal(ask_file(&f, &made, remove_it, "/workspace/a", NULL, NULL), ENOTEMPTY);
    remove_it.flags = FILE_RECURSIVE;
    assert_int_equal(ask_file(&f, &made, remove_it, "/workspace/a", NULL, NULL), 0);
    assert_int_equal(
        ask_file(&f, &made, (struct file_request){.op = FILE_MKDIR}, "/workspace/x/y", NULL, NULL),
        0);
    run(&f, &made, &ran, "rm /workspace/fifo /workspace/link; find /workspace");
    assert_string_equal(ran.text, "/workspace\n/workspace/x\n/workspace/x/y\n");
    end(&f, &made);
    close_backend(&f);
}

/* A process makes a session with a managed process, and is killed; this one takes over. */
static void first_life(int tell)
{
    struct fixture f;
    struct made made;
    struct ran ran;
    struct ran doomed;
    struct ran waited;
    open_backend(&f);
    make(&f, &made, "00000000000000b1");
    until(&f, &made.ready);
    start(&f, &made, &ran, "trap 'echo told' CONT; echo one; sleep 1; echo two; exit 7", 5);
    until(&f, &ran.started);
    start(&f, &made, &doomed, "echo > /tmp/doomed; sleep 100", 0);
    until(&f, &doomed.started);
    run(&f, &made, &waited, "until [ -e /tmp/doomed ]; do sleep 0.01; done");
    assert_true(f.backend->ops->keep(ran.process, &ran.out, 1));
    f.backend->ops->outlive(made.session, 60);
    json_t *record = f.backend->ops->record(made.session);
    char *text = json_dumps(record, 0);
    /* Answered means that init has read all that came before. */
    struct file_request stat_it = {.op = FILE_STAT};
    assert_int_equal(ask_file(&f, &made, stat_it, "/", NULL, NULL), 0);
    fd_write_all(tell, text, strlen(text));
    raise(SIGKILL);
}

static void test_adoption(void **state)
{
    struct fixture f;
    struct made made = {.f = &f};
    struct ran adopted = {.out = -1};
    struct ran ran;
    struct session_spec spec;
    int pipes[2];
    char text[512] = "";
    (void)state;
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0)
        first_life(pipes[1]);
    close(pipes[1]);
    assert_true(read(pipes[0], text, sizeof text - 1) > 0);
    close(pipes[0]);
    waitpid(pid, NULL, 0);

    open_backend(&f);
    json_t *record = json_loads(text, 0, NULL);
    assert_non_null(record);
    fill_spec(&spec);
    made.adopter = &adopted;
    made.session =
        f.backend->ops->adopt(f.backend, &spec, "00000000000000b1", record, &session_events, &made);
    until(&f, &made.ready);
    assert_int_equal(made.error.code, ERROR_NONE);
    assert_int_equal(made.kept_id, 5);
    assert_int_equal(made.kept_count, 1);
    assert_non_null(adopted.process);
    f.backend->ops->sweep(f.backend);
    f.backend->ops->signal(adopted.process, SIGCONT);
    run(&f, &made, &ran, "ls /tmp/doomed; pgrep -f 'sleep 10[0]' || echo gone");
    /* An ordinary user's groups may have been in a scope of the earlier process, out of reach. */
    if (geteuid() == 0)
        assert_string_equal(ran.text, "/tmp/doomed\ngone\n");
    else
        assert_memory_equal(ran.text, "/tmp/doomed\n", 12);
    adopted.out = made.kept[0];
    until(&f, &adopted.ended);
    fcntl(adopted.out, F_SETFL, O_NONBLOCK);
    ssize_t n = read(adopted.out, adopted.text, sizeof adopted.text - 1);
    assert_int_equal(n, 13);
    assert_memory_equal(adopted.text, "one\ntold\ntwo\n", 13);
    assert_int_equal(adopted.outcome.exit_code, 7);
    close(adopted.out);
    end(&f, &made);
    /* A second time there is nothing left. */
    made = (struct made){.f = &f};
    made.session =
        f.backend->ops->adopt(f.backend, &spec, "00000000000000b1", record, &session_events, &made);
    until(&f, &made.ready);
    assert_int_equal(made.error.code, ERROR_GONE);
    session_spec_release(&spec);
    json_decref(record);
    close_backend(&f);
}

/* --- made ahead ----------------------------------------------------------------------------------
 */

static const char *id_of(const struct made *made)
{
    return made->f->backend->ops->id(made->session);
}

/* The third of a kind is one that was there already, and as new as any. */
static void test_made_ahead(void **state)
{
    struct fixture f;
    struct made made[3];
    struct ran ran;
    static const char *const keys[] = {"00000000000000c1", "00000000000000c2", "00000000000000c3"};
    (void)state;
    options.spares = 1;
    open_backend(&f);
    for (size_t i = 0; i < 2; i++) {
        make(&f, &made[i], keys[i]);
        until(&f, &made[i].ready);
        assert_string_equal(id_of(&made[i]), keys[i]);
    }
    make(&f, &made[2], keys[2]);
    assert_string_not_equal(id_of(&made[2]), keys[2]);
    assert_false(made[2].ready);
    until(&f, &made[2].ready);
    assert_int_equal(made[2].error.code, ERROR_NONE);
    run(&f, &made[2], &ran, "echo on; ls -A /workspace");
    assert_string_equal(ran.text, "on\n");
    for (size_t i = 0; i < 3; i++)
        end(&f, &made[i]);
    close_backend(&f);
    options.spares = 0;
}

/* --- without a spawner --------------------------------------------------------------------------
 */

static bool lost;
static void on_lost(void *data, const struct error *err)
{
    (void)data;
    assert_int_equal(err->code, ERROR_UNAVAILABLE);
    lost = true;
}

static void open_losing(struct fixture *f)
{
    open_backend(f);
    lost = false;
    f->backend->lost = on_lost;
}

/* Who asks has its pointer before it is told that nothing comes of it. */
static void test_spawner_lost(void **state)
{
    struct fixture f;
    struct made made;
    (void)state;
    open_losing(&f);
    kill_spawner(&f);
    make(&f, &made, "00000000000000d1");
    assert_false(made.ready);
    until(&f, &made.ready);
    assert_int_equal(made.error.code, ERROR_UNAVAILABLE);
    assert_true(lost);
    close_backend(&f);
}

/* It ends between a session's being ready and the next one's being made ahead. */
static void test_spawner_lost_made_ahead(void **state)
{
    struct fixture f;
    struct made made[2];
    (void)state;
    options.spares = 1;
    open_losing(&f);
    make(&f, &made[0], "00000000000000d2");
    until(&f, &made[0].ready);
    make(&f, &made[1], "00000000000000d3");
    made[1].kills_spawner = true;
    until(&f, &lost);
    assert_true(made[1].ready);
    close_backend(&f);
    options.spares = 0;
    /* What it left, the next one removes. */
    open_backend(&f);
    f.backend->ops->sweep(f.backend);
    make(&f, &made[0], "00000000000000d4");
    until(&f, &made[0].ready);
    end(&f, &made[0]);
    close_backend(&f);
}

/* How many more this process may open. */
static void allow_descriptors(unsigned more, struct rlimit *ret_before)
{
    struct rlimit few;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, ret_before), 0);
    few = *ret_before;
    few.rlim_cur = (rlim_t)next + more;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

/* Whichever message it is whose descriptors find no room while a session is made: it is refused,
   what is half made goes, and the spawner is not given up. */
static void test_few_descriptors(void **state)
{
    struct fixture f;
    struct made made;
    struct rlimit before;
    unsigned refused = 0;
    (void)state;
    open_losing(&f);
    for (unsigned more = 0; more < 12; more++) {
        char key[24];
        snprintf(key, sizeof key, "00000000000001%02x", more);
        allow_descriptors(more, &before);
        make(&f, &made, key);
        until(&f, &made.ready);
        setrlimit(RLIMIT_NOFILE, &before);
        assert_false(lost);
        if (made.error.code) {
            assert_int_equal(made.error.code, ERROR_UNAVAILABLE);
            assert_non_null(strstr(made.error.hint, "LimitNOFILE"));
            refused++;
        } else {
            end(&f, &made);
        }
    }
    assert_in_range(refused, 2, 11); /* without its sockets; without its page; made */
    make(&f, &made, "00000000000000e2");
    until(&f, &made.ready);
    assert_int_equal(made.error.code, 0);
    end(&f, &made);
    close_backend(&f);
}

static void start_terminal(struct fixture *f, struct made *made, struct ran *ran)
{
    char *argv[] = {(char *)"sleep", (char *)"100", NULL};
    char *envp[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    struct backend_command command = {.argv = argv,
                                      .envp = envp,
                                      .cwd = "/workspace",
                                      .terminal = true,
                                      .rows = 24,
                                      .columns = 80,
                                      .fds = {-1, -1, -1}};
    *ran = (struct ran){.terminal = -1};
    ran->process = f->backend->ops->start(made->session, &command, &process_events, ran);
}

/* The same of a command's lane and of a terminal: the command is refused, its session goes on. */
static void test_commands_without_descriptors(void **state)
{
    struct fixture f;
    struct made made;
    struct ran ran;
    struct ran other;
    struct rlimit before;
    (void)state;
    open_losing(&f);
    make(&f, &made, "00000000000000e3");
    until(&f, &made.ready);
    start_terminal(&f, &made, &ran);
    allow_descriptors(0, &before);
    until(&f, &ran.ended);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(ran.error.code, ERROR_UNAVAILABLE);
    start(&f, &made, &other, "sleep 0.2; echo other", 0);
    until(&f, &other.started);
    start(&f, &made, &ran, "echo in a lane of its own", 0);
    allow_descriptors(0, &before);
    until(&f, &ran.ended);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(ran.error.code, ERROR_UNAVAILABLE);
    close(ran.out);
    assert_false(lost);
    finish(&f, &other);
    assert_string_equal(other.text, "other\n");
    run(&f, &made, &ran, "echo on");
    assert_string_equal(ran.text, "on\n");
    end(&f, &made);
    close_backend(&f);
}

/* --- lanes ------------------------------------------------------------------------------------ */

/* With room for every lane and a command in it. */
static void make_roomy(struct fixture *f, struct made *made, const char *key)
{
    struct session_spec spec;
    *made = (struct made){.f = f};
    fill_spec(&spec);
    spec.memory_mb = 512;
    spec.pids_limit = 1000;
    made->session = f->backend->ops->create(f->backend, &spec, key, &session_events, made);
    session_spec_release(&spec);
    until(f, &made->ready);
    assert_int_equal(made->error.code, ERROR_NONE);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* A command is killed while its lane is being opened: that the slot is not opened a second time
   before the spawner has answered, or each time all of a lane's descriptors would be lost. */
static void test_lane_called_off(void **state)
{
    struct fixture f;
    struct made made;
    struct ran busy;
    struct ran ran;
    struct ran other;
    unsigned before = 0;
    (void)state;
    open_backend(&f);
    make_roomy(&f, &made, "00000000000000f1");
    start(&f, &made, &busy, "sleep 1000", 0); /* in the first lane */
    until(&f, &busy.started);
    for (int i = 0; i < 8; i++) {
        kill(f.spawner, SIGSTOP);
        start(&f, &made, &ran, "sleep 1000", 0);
        f.backend->ops->kill(ran.process, false);
        finish(&f, &ran);
        start(&f, &made, &other, "echo next", 0);
        kill(f.spawner, SIGCONT);
        finish(&f, &other);
        assert_string_equal(other.text, "next\n");
        /* So that the next round finds no lane idle. */
        start(&f, &made, &ran, "sleep 1000", 0);
        until(&f, &ran.started);
        f.backend->ops->kill(ran.process, false);
        finish(&f, &ran);
        if (i == 0)
            before = open_descriptors();
    }
    assert_int_equal(open_descriptors(), before);
    end(&f, &made);
    close(busy.out);
    close_backend(&f);
}

/* All lanes are taken, and one is killed: who waits has its place as soon as it is closed. */
static void test_lane_of_a_killed_one(void **state)
{
    struct fixture f;
    struct made made;
    struct ran ran[LANE_MAX];
    struct ran next;
    (void)state;
    open_backend(&f);
    make_roomy(&f, &made, "00000000000000f2");
    for (int i = 0; i < LANE_MAX; i++)
        start(&f, &made, &ran[i], "sleep 1000", 0);
    for (int i = 0; i < LANE_MAX; i++)
        until(&f, &ran[i].started);
    start(&f, &made, &next, "echo next", 0);
    f.backend->ops->kill(ran[7].process, true);
    finish(&f, &ran[7]);
    finish(&f, &next);
    assert_string_equal(next.text, "next\n");
    end(&f, &made);
    for (int i = 0; i < LANE_MAX; i++)
        if (i != 7)
            close(ran[i].out);
    close_backend(&f);
}

/* A process that is kept wants a lane that is fresh; where none is left, idle ones are given up. */
static void test_kept_ones_in_every_lane(void **state)
{
    struct fixture f;
    struct made made;
    struct ran ran[LANE_MAX];
    (void)state;
    open_backend(&f);
    make_roomy(&f, &made, "00000000000000f3");
    for (int i = 0; i < 6; i++)
        start(&f, &made, &ran[i], "sleep 0.1", 0);
    for (int i = 0; i < 6; i++)
        finish(&f, &ran[i]);
    for (int i = 0; i < LANE_MAX; i++)
        start(&f, &made, &ran[i], "sleep 1000", (uint32_t)i + 1);
    for (int i = 0; i < LANE_MAX; i++) {
        until(&f, &ran[i].started);
        assert_int_equal(ran[i].error.code, ERROR_NONE);
    }
    end(&f, &made);
    for (int i = 0; i < LANE_MAX; i++)
        close(ran[i].out);
    close_backend(&f);
}

/* Every lane has something left behind, of whose end nobody tells: commands are refused rather than
   kept waiting, as many as there are; and run again when that has ended. */
static void test_lanes_with_remains(void **state)
{
    struct fixture f;
    struct made made;
    struct ran ran;
    struct ran others[3];
    (void)state;
    open_backend(&f);
    make_roomy(&f, &made, "00000000000000f4");
    for (int i = 0; i < LANE_MAX; i++) {
        run(&f, &made, &ran,
            "(while [ ! -e /workspace/go ]; do sleep 0.1; done) > /dev/null 2>&1 &");
        assert_int_equal(ran.error.code, ERROR_NONE);
    }
    for (int i = 0; i < 3; i++)
        start(&f, &made, &others[i], "echo more", 0);
    for (int i = 0; i < 3; i++) {
        finish(&f, &others[i]);
        assert_int_equal(others[i].error.code, ERROR_CAPACITY);
    }
    struct file_request make_it = {.op = FILE_MKDIR};
    assert_int_equal(ask_file(&f, &made, make_it, "/workspace/go", NULL, NULL), 0);
    for (int i = 0; i < 600; i++) {
        run(&f, &made, &ran, "echo again");
        if (ran.error.code != ERROR_CAPACITY)
            break;
        usleep(100000);
    }
    assert_string_equal(ran.text, "again\n");
    end(&f, &made);
    close_backend(&f);
}

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/test-native-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_adoption),
        cmocka_unit_test(test_made_ahead),
        cmocka_unit_test(test_spawner_lost),
        cmocka_unit_test(test_spawner_lost_made_ahead),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_commands_without_descriptors),
        cmocka_unit_test(test_lane_called_off),
        cmocka_unit_test(test_lane_of_a_killed_one),
        cmocka_unit_test(test_kept_ones_in_every_lane),
        cmocka_unit_test(test_lanes_with_remains),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
