/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, commands, processes, records and recovery, on the backend that runs nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/log.h"
#include "runtime/internal.h"
#include "null-backend.h"

#define TURNS_MAX 4000 /* of at most 5 ms each */

/* --- the bench -------------------------------------------------------------------------------- */

struct fixture {
    uv_loop_t loop;
    uv_timer_t tick; /* so that a turn of the loop ends */
    char dir[64];
    struct runtime_config config;
    struct backend *backend;
    struct runtime *runtime;
    struct runtime_listener listener;
    unsigned events[RUNTIME_EVENT_MAX];
    uint64_t first[RUNTIME_EVENT_MAX]; /* sequence number of each kind's first */
    struct runtime_event ended;        /* the first of EXEC_EXITED; its texts are gone */
};

#define PLUG_SIZE 16 /* threads at least that libuv's pool has */

static bool on_disk; /* the second round: records through the thread pool */

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void on_event(void *data, const struct runtime_event *event)
{
    struct fixture *f = data;
    if (f->events[event->type]++ > 0)
        return;
    f->first[event->type] = event->sequence;
    if (event->type == RUNTIME_EXEC_EXITED)
        f->ended = *event;
}

static void start(struct fixture *f)
{
    struct error err = ERROR_INIT;
    f->backend = backend_null_new(&f->loop);
    if (runtime_new(&f->loop, &f->config, f->backend, &f->runtime, &err) < 0)
        fail_msg("%s", err.message);
    if (on_disk)
        f->runtime->records_volatile = false; /* wherever this machine's /tmp lies */
    runtime_set_actor(f->runtime, "tester");
    f->listener = (struct runtime_listener){.event = on_event, .data = f};
    runtime_listen(f->runtime, &f->listener);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->tick);
    uv_timer_start(&f->tick, on_tick, 5, 5);
    snprintf(f->dir, sizeof f->dir, "%s/boxd-runtime-XXXXXX", on_disk ? "/tmp" : "/dev/shm");
    assert_non_null(mkdtemp(f->dir));
    runtime_config_init(&f->config);
    f->config.run_dir = xasprintf("%s/run", f->dir);
    f->config.state_dir = xasprintf("%s/state", f->dir);
    start(f);
    *state = f;
    return 0;
}

#define spin_until(f, condition)                         \
    do {                                                 \
        int turns_ = 0;                                  \
        while (!(condition) && turns_++ < TURNS_MAX)     \
            uv_run(&(f)->loop, UV_RUN_ONCE);             \
        if (!(condition))                                \
            fail_msg("this never came: %s", #condition); \
    } while (0)

static void turn(struct fixture *f, int turns)
{
    for (int i = 0; i < turns; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void set_flag(void *data)
{
    *(bool *)data = true;
}

static void stop(struct fixture *f, bool keep)
{
    bool stopped = false;
    runtime_stop(f->runtime, keep, set_flag, &stopped);
    spin_until(f, stopped);
    assert_int_equal(f->runtime->handles, 0);
    runtime_free(f->runtime);
    f->runtime = NULL;
    f->backend->ops->close(f->backend);
    turn(f, 2);
}

/* As after kill -9: nothing is told, nothing is written. */
static void crash(struct fixture *f)
{
    f->backend->ops->close(f->backend);
    runtime_free(f->runtime);
    turn(f, 10);
    f->runtime = NULL;
}

static void remove_tree(const char *path)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->runtime)
        stop(f, false);
    uv_close((uv_handle_t *)&f->tick, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    remove_tree(f->dir);
    free((char *)f->config.run_dir);
    free((char *)f->config.state_dir);
    strings_release(&f->config.allowed_roots);
    free(f);
    return 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

struct opened {
    unsigned count;
    struct session *session;
    bool created;
    struct error err;
};

static void on_opened(void *data, struct session *session, bool created, const struct error *err)
{
    struct opened *opened = data;
    opened->count++;
    opened->session = session;
    opened->created = created;
    opened->err = err ? *err : (struct error)ERROR_INIT;
}

static struct session_spec spec_named(const char *name)
{
    struct session_spec spec;
    session_spec_init(&spec);
    spec.name = xstrdup(name);
    return spec;
}

static struct opened open_spec(struct fixture *f, const struct session_spec *spec)
{
    struct opened opened = {0};
    runtime_open_session(f->runtime, spec, on_opened, &opened);
    assert_int_equal(opened.count, 0); /* never at once */
    spin_until(f, opened.count == 1);
    return opened;
}

static struct opened try_open(struct fixture *f, const char *name)
{
    struct session_spec spec = spec_named(name);
    struct opened opened = open_spec(f, &spec);
    session_spec_release(&spec);
    return opened;
}

static struct session *open_named(struct fixture *f, const char *name)
{
    struct opened opened = try_open(f, name);
    if (!opened.session)
        fail_msg("%s", opened.err.message);
    return opened.session;
}

struct finished {
    unsigned count;
    struct error err;
};

static void on_finished(void *data, const struct error *err)
{
    struct finished *finished = data;
    finished->count++;
    finished->err = err ? *err : (struct error)ERROR_INIT;
}

static struct error delete_named(struct fixture *f, const char *name)
{
    struct finished finished = {0};
    runtime_delete_session(f->runtime, name, on_finished, &finished);
    assert_int_equal(finished.count, 0);
    spin_until(f, finished.count == 1);
    return finished.err;
}

static unsigned record_count(struct fixture *f, const char *suffix)
{
    cleanup_free char *path = xasprintf("%s/sessions", f->config.run_dir);
    DIR *dir = opendir(path);
    unsigned count = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name), tail = strlen(suffix);
        count += length > tail && strcmp(entry->d_name + length - tail, suffix) == 0;
    }
    closedir(dir);
    return count;
}

static void test_open_reuse_delete(void **state)
{
    struct fixture *f = *state;
    struct opened first = try_open(f, "a/b c");
    assert_non_null(first.session);
    assert_true(first.created);
    assert_int_equal(session_state(first.session), SESSION_LIVE);
    assert_string_equal(session_name(first.session), "a/b c");
    assert_string_equal(session_notes(first.session), "nothing is isolated");
    struct opened second = try_open(f, "a/b c");
    assert_ptr_equal(second.session, first.session);
    assert_false(second.created);
    assert_ptr_equal(runtime_find_session(f->runtime, "a/b c"), first.session);
    assert_int_equal(record_count(f, ".json"), 1);
    assert_int_equal(delete_named(f, "a/b c").code, ERROR_NONE);
    assert_null(runtime_find_session(f->runtime, "a/b c"));
    assert_int_equal(record_count(f, ".json"), 0);
    assert_int_equal(delete_named(f, "a/b c").code, ERROR_NO_SESSION);
    assert_int_equal(f->events[RUNTIME_SESSION_CREATED], 1);
    assert_int_equal(f->events[RUNTIME_SESSION_DELETED], 1);
}

static void test_bad_specs(void **state)
{
    struct fixture *f = *state;
    char long_name[SESSION_NAME_MAX + 2];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(try_open(f, "").err.code, ERROR_INVALID);
    assert_int_equal(try_open(f, "a\nb").err.code, ERROR_INVALID);
    assert_int_equal(try_open(f, "\xff").err.code, ERROR_INVALID);
    assert_int_equal(try_open(f, "\xc2\x85").err.code, ERROR_INVALID);
    assert_int_equal(try_open(f, long_name).err.code, ERROR_INVALID);
    assert_non_null(try_open(f, "\xc3\xa4").session);
    struct session_spec spec = spec_named("x");
    spec.memory_mb = 31;
    assert_int_equal(open_spec(f, &spec).err.code, ERROR_INVALID);
    spec.memory_mb = 512;
    spec.cpus = 0;
    assert_int_equal(open_spec(f, &spec).err.code, ERROR_INVALID);
    session_spec_release(&spec);
}

struct change {
    const char *field;
    const char *value;
    void (*apply)(struct session_spec *spec);
};

#define CHANGE(name, text, statement)                    \
    static void change_##name(struct session_spec *spec) \
    {                                                    \
        statement;                                       \
    }
static void set_text(char **at, const char *text)
{
    free(*at);
    *at = xstrdup(text);
}
CHANGE(network, "off", spec->network = true)
CHANGE(image, "", set_text(&spec->image, "other"))
CHANGE(host_path, "", set_text(&spec->host_path, "/srv"))
CHANGE(host_path_mode, "", spec->host_path_mode = MOUNT_RO)
CHANGE(mount_path, "", set_text(&spec->mount_path, "/else"))
CHANGE(persistent, "", spec->persistent = true)
CHANGE(cpus, "", spec->cpus = 2.5)
CHANGE(memory_mb, "", spec->memory_mb = 1024)
CHANGE(pids_limit, "", spec->pids_limit = 7)
CHANGE(read_only_rootfs, "", spec->read_only_rootfs = false)
CHANGE(workspace_quota_mb, "", spec->workspace_quota_mb = 9)

static void test_conflicts(void **state)
{
    struct fixture *f = *state;
    static const struct change changes[] = {
        {"network", "off", change_network},
        {"image", SESSION_IMAGE_DEFAULT, change_image},
        {"host_path", "null", change_host_path},
        {"host_path_mode", "rw", change_host_path_mode},
        {"mount_path", "/workspace", change_mount_path},
        {"persistent", "false", change_persistent},
        {"cpus", "1", change_cpus},
        {"memory_mb", "512", change_memory_mb},
        {"pids_limit", "128", change_pids_limit},
        {"read_only_rootfs", "true", change_read_only_rootfs},
        {"workspace_quota_mb", "0", change_workspace_quota_mb},
    };
    open_named(f, "c");
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        struct session_spec spec = spec_named("c");
        changes[i].apply(&spec);
        struct opened opened = open_spec(f, &spec);
        session_spec_release(&spec);
        assert_int_equal(opened.err.code, ERROR_SESSION_CONFLICT);
        cleanup_free char *expected = xasprintf("%s = %s", changes[i].field, changes[i].value);
        if (!strstr(opened.err.message, expected))
            fail_msg("'%s' does not say '%s'", opened.err.message, expected);
    }
    /* The same path written differently is none. */
    struct session_spec spec = spec_named("c");
    set_text(&spec.mount_path, "//workspace/./");
    assert_non_null(open_spec(f, &spec).session);
    session_spec_release(&spec);
}

static void test_mounts_recreate(void **state)
{
    struct fixture *f = *state;
    struct session *first = open_named(f, "m");
    session_hold(first);
    struct session_spec spec = spec_named("m");
    spec.mounts[spec.mount_count++] = (struct session_mount){
        .host_path = xstrdup("/srv"), .mount_path = xstrdup("/mnt"), .mode = MOUNT_RO};
    struct opened opened = open_spec(f, &spec);
    assert_non_null(opened.session);
    assert_true(opened.created);
    assert_ptr_not_equal(opened.session, first);
    assert_int_equal(session_state(first), SESSION_ENDING);
    assert_string_equal(session_name(first), "m");
    session_release(first);
    opened = open_spec(f, &spec);
    assert_false(opened.created);
    session_spec_release(&spec);
}

static void test_capacity_and_roots(void **state)
{
    struct fixture *f = *state;
    struct runtime_config config = f->config;
    config.max_sessions = 2;
    strings_add(&config.allowed_roots, "/srv/boxes");
    runtime_reconfigure(f->runtime, &config);
    strings_release(&config.allowed_roots);
    open_named(f, "1");
    open_named(f, "2");
    struct opened third = try_open(f, "3");
    assert_int_equal(third.err.code, ERROR_CAPACITY);
    assert_true(third.err.hint[0]);
    assert_non_null(try_open(f, "1").session); /* reuse needs no room */
    delete_named(f, "1");
    struct session_spec spec = spec_named("3");
    set_text(&spec.host_path, "/srv/boxes-not");
    assert_int_equal(open_spec(f, &spec).err.code, ERROR_DENIED);
    set_text(&spec.host_path, "/srv/boxes/../x");
    assert_int_equal(open_spec(f, &spec).err.code, ERROR_INVALID);
    set_text(&spec.host_path, "/srv/boxes/mine");
    assert_non_null(open_spec(f, &spec).session);
    session_spec_release(&spec);
}

static void test_shared_creation_and_waits(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = spec_named("slow");
    set_text(&spec.image, "slow");
    struct opened a = {0}, b = {0}, c = {0};
    struct finished deleted = {0}, again = {0};
    runtime_open_session(f->runtime, &spec, on_opened, &a);
    runtime_open_session(f->runtime, &spec, on_opened, &b);
    /* Waits for the creation; who asks after that waits for the end and gets a new one. */
    runtime_delete_session(f->runtime, "slow", on_finished, &deleted);
    runtime_delete_session(f->runtime, "slow", on_finished, &again);
    runtime_open_session(f->runtime, &spec, on_opened, &c);
    spin_until(f, a.count && b.count);
    assert_true(a.created);
    assert_false(b.created);
    assert_ptr_equal(a.session, b.session);
    assert_int_equal(c.count, 0);
    spin_until(f, deleted.count && again.count);
    assert_int_equal(deleted.err.code, ERROR_NONE);
    assert_int_equal(again.err.code, ERROR_NONE);
    spin_until(f, c.count);
    assert_true(c.created);
    assert_int_equal(f->events[RUNTIME_SESSION_CREATED], 2);
    session_spec_release(&spec);
}

static void test_creation_fails(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = spec_named("x");
    set_text(&spec.image, "fail");
    struct opened opened = open_spec(f, &spec);
    assert_null(opened.session);
    assert_int_equal(opened.err.code, ERROR_GONE);
    assert_int_equal(record_count(f, ".json"), 0);
    assert_null(runtime_find_session(f->runtime, "x"));
    session_spec_release(&spec);
    struct runtime_stats stats;
    runtime_stats(f->runtime, &stats);
    assert_int_equal(stats.sessions_failed, 1);
    assert_int_equal(stats.sessions, 0);
}

static void test_record_cannot_be_written(void **state)
{
    struct fixture *f = *state;
    int good = f->runtime->records_fd;
    f->runtime->records_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct opened opened = try_open(f, "x");
    assert_null(opened.session);
    assert_int_equal(opened.err.code, ERROR_SYSTEM);
    assert_non_null(strstr(opened.err.message, "record"));
    assert_null(runtime_find_session(f->runtime, "x"));
    assert_int_equal(f->events[RUNTIME_SESSION_CREATED] + f->events[RUNTIME_SESSION_LOST], 0);
    close(f->runtime->records_fd);
    f->runtime->records_fd = good;
}

/* --- commands --------------------------------------------------------------------------------- */

struct ran {
    struct fixture *f;
    struct execution *execution;
    unsigned done, started, number;
    unsigned order; /* of all that were done */
    struct error err;
    struct backend_outcome outcome;
    char output[256];
    size_t output_size;
    uint64_t output_bytes, error_bytes, streamed;
    char error[256];
    bool pause, cancel, delete_session, resumed;
    struct finished deleted;
};

static unsigned order_of_done;

static void on_ran_started(void *owner, unsigned number)
{
    struct ran *ran = owner;
    ran->started++;
    ran->number = number;
    if (ran->cancel)
        execution_cancel(ran->execution);
}

static void on_ran_output(void *owner, enum stream stream, const char *data, size_t size)
{
    struct ran *ran = owner;
    for (size_t i = 0; i < size && stream == STREAM_OUTPUT && ran->streamed > 100; i++)
        assert_true(data[i] == '\n' || (data[i] >= 'a' && data[i] <= 'z'));
    ran->streamed += size;
    if (ran->pause)
        execution_pause(ran->execution);
}

static void copy_stream(char *to, size_t size, const struct exec_stream *stream)
{
    size_t length = stream->size < size - 1 ? stream->size : size - 1;
    memcpy(to, stream->data, length);
    to[length] = '\0';
}

static void on_ran_done(void *owner, const struct exec_result *result, const struct error *err)
{
    struct ran *ran = owner;
    ran->done++;
    ran->order = ++order_of_done;
    ran->err = err ? *err : (struct error)ERROR_INIT;
    if (result) {
        ran->outcome = result->outcome;
        ran->number = result->number;
        copy_stream(ran->output, sizeof ran->output, &result->streams[STREAM_OUTPUT]);
        copy_stream(ran->error, sizeof ran->error, &result->streams[STREAM_ERROR]);
        ran->output_size = result->streams[STREAM_OUTPUT].size;
        ran->output_bytes = result->streams[STREAM_OUTPUT].bytes;
        ran->error_bytes = result->streams[STREAM_ERROR].bytes;
    }
    if (ran->delete_session)
        runtime_delete_session(ran->f->runtime, "s", on_finished, &ran->deleted);
}

static const struct exec_events quiet_events = {.started = on_ran_started, .done = on_ran_done};
static const struct exec_events stream_events = {
    .started = on_ran_started, .output = on_ran_output, .done = on_ran_done};

static void begin(struct ran *ran, struct session *session, const char *command, bool concurrent)
{
    struct exec_request request = {.command = command, .concurrent = concurrent};
    ran->execution = session_exec(session, &request, &quiet_events, ran);
    assert_int_equal(ran->done + ran->started, 0);
}

static struct ran run(struct fixture *f, struct session *session, const char *command)
{
    struct ran ran = {.f = f};
    begin(&ran, session, command, false);
    spin_until(f, ran.done);
    return ran;
}

static void test_exec(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran ran = run(f, session, "echo hello there");
    assert_int_equal(ran.err.code, ERROR_NONE);
    assert_string_equal(ran.output, "hello there\n");
    assert_int_equal(ran.output_bytes, 12);
    assert_int_equal(ran.started, 1);
    ran = run(f, session, "error oh");
    assert_string_equal(ran.error, "oh\n");
    assert_int_equal(run(f, session, "exit 3").outcome.exit_code, 3);
    assert_int_equal(run(f, session, "fail").err.code, ERROR_NOT_FOUND);
    assert_int_equal(run(f, session, "").err.code, ERROR_INVALID);
    assert_string_equal(run(f, session, "oom").outcome.cause, "oom");
    assert_int_equal(f->events[RUNTIME_OOM], 1);
    struct runtime_stats stats;
    runtime_stats(f->runtime, &stats);
    assert_int_equal(stats.executions, 0);
    assert_int_equal(stats.outcomes[0], 2);
    assert_int_equal(stats.outcomes[1], 1);
    assert_int_equal(stats.exec.count, 5);
}

/* What commands were given is counted until they have taken it, or will not. */
static void test_exec_queued_bytes(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct runtime_config config = f->config;
    static char input[200000];
    struct exec_request request = {.command = "cat", .input = input, .input_size = sizeof input};
    struct ran blocker = {.f = f}, first = {.f = f}, second = {.f = f};
    struct ran small = {.f = f}, last = {.f = f};
    config.max_queued_bytes = 300000;
    runtime_reconfigure(f->runtime, &config);
    begin(&blocker, session, "hang", false);
    spin_until(f, blocker.started);
    first.execution = session_exec(session, &request, &quiet_events, &first);
    assert_in_range(f->runtime->queued_bytes, sizeof input, sizeof input + 100);
    second.execution = session_exec(session, &request, &quiet_events, &second);
    spin_until(f, second.done);
    assert_int_equal(second.err.code, ERROR_CAPACITY);
    request.input_size = 60000;
    small.execution = session_exec(session, &request, &quiet_events, &small);
    execution_cancel(first.execution);
    assert_int_equal(f->runtime->queued_bytes, 0);
    request.input_size = sizeof input;
    second = (struct ran){.f = f};
    second.execution = session_exec(session, &request, &quiet_events, &second);
    execution_cancel(blocker.execution);
    spin_until(f, small.done && second.done);
    assert_int_equal(small.output_bytes, 60000);
    assert_int_equal(second.output_bytes, sizeof input);
    memset(input, 'x', sizeof input - 1);
    begin(&last, session, input, false);
    assert_int_equal(f->runtime->queued_bytes, sizeof input - 1);
    spin_until(f, last.done);
    assert_int_equal(f->runtime->queued_bytes, 0);
}

static void test_environment(void **state)
{
    (void)state;
    cleanup_strings struct strings over = {0};
    cleanup_strings struct strings env = {0};
    struct error err;
    strings_add(&over, "HOME=/elsewhere");
    strings_add(&over, "X=a=b");
    environment_make(&env, &over, false);
    assert_int_equal(env.count, 6);
    assert_string_equal(env.items[0],
                        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    assert_string_equal(env.items[1], "HOME=/elsewhere");
    assert_string_equal(env.items[5], "X=a=b");
    assert_int_equal(environment_check(&over, &err), 0);
    strings_add(&over, "=secret");
    assert_int_equal(environment_check(&over, &err), -1);
    assert_null(strstr(err.message, "secret"));
    over.items[2][0] = 'S';
    assert_int_equal(environment_check(&over, &err), -1);
}

static void test_order(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran ran[8] = {0};
    order_of_done = 0;
    for (int i = 0; i < 8; i++)
        begin(&ran[i], session, "exit 0", false);
    assert_int_equal(session_running(session), 8);
    spin_until(f, ran[7].done);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(ran[i].order, i + 1);
        assert_int_equal(ran[i].number, i + 1);
    }
}

static void test_concurrent(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran serial = {0}, behind = {0}, beside = {0};
    begin(&serial, session, "hang", false);
    begin(&behind, session, "exit 0", false);
    begin(&beside, session, "exit 0", true);
    spin_until(f, beside.done);
    turn(f, 5);
    assert_int_equal(serial.started, 1);
    assert_int_equal(behind.started, 0);
    execution_cancel(serial.execution);
    spin_until(f, behind.done);
    assert_int_equal(serial.done, 0); /* nobody wanted to know any more */
}

static void test_lanes_and_queue(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran *ran = xcalloc(SESSION_LANES + SESSION_QUEUE_MAX + 1, sizeof *ran);
    for (int i = 0; i < SESSION_LANES + SESSION_QUEUE_MAX + 1; i++)
        begin(&ran[i], session, i < SESSION_LANES + 1 ? "hang" : "exit 0", true);
    struct ran *last = &ran[SESSION_LANES + SESSION_QUEUE_MAX];
    spin_until(f, last->done);
    assert_int_equal(last->err.code, ERROR_CAPACITY);
    spin_until(f, ran[SESSION_LANES - 1].started);
    turn(f, 5);
    assert_int_equal(ran[SESSION_LANES].started, 0);
    execution_cancel(ran[5].execution);
    spin_until(f, ran[SESSION_LANES].started);
    struct finished deleted = {0};
    runtime_delete_session(f->runtime, "s", on_finished, &deleted);
    spin_until(f, deleted.count);
    unsigned done = 0;
    for (int i = 0; i < SESSION_LANES + SESSION_QUEUE_MAX + 1; i++)
        done += ran[i].done;
    assert_int_equal(done, SESSION_LANES + SESSION_QUEUE_MAX); /* all but the cancelled one */
    assert_int_equal(ran[0].err.code, ERROR_GONE);
    free(ran);
}

static void test_timeout(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran first = {0}, second = {0};
    struct exec_request request = {.command = "hang", .timeout_ms = 30};
    first.execution = session_exec(session, &request, &quiet_events, &first);
    /* Its time begins when it leaves the queue. */
    request.command = "exit 0";
    second.execution = session_exec(session, &request, &quiet_events, &second);
    spin_until(f, first.done && second.done);
    assert_true(first.outcome.timed_out);
    assert_string_equal(first.outcome.cause, "timeout");
    assert_false(second.outcome.timed_out);
    assert_int_equal(f->ended.number, 1);
    assert_int_equal(f->ended.exit_code, -1); /* as in the result */
}

static void test_input(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    size_t size = 300000; /* more than a pipe holds */
    cleanup_free char *input = xmalloc(size);
    memset(input, 'x', size);
    struct ran ran = {0};
    struct exec_request request = {.command = "cat", .input = input, .input_size = size};
    ran.execution = session_exec(session, &request, &quiet_events, &ran);
    spin_until(f, ran.done);
    assert_int_equal(ran.output_bytes, size);
    request.input_size = 5;
    ran = (struct ran){0};
    ran.execution = session_exec(session, &request, &quiet_events, &ran);
    spin_until(f, ran.done);
    assert_string_equal(ran.output, "xxxxx");
    /* One that does not read it. */
    request.command = "exit 0";
    request.input_size = size;
    ran = (struct ran){0};
    ran.execution = session_exec(session, &request, &quiet_events, &ran);
    spin_until(f, ran.done);
    assert_int_equal(ran.err.code, ERROR_NONE);
}

static void test_output_clipped_and_streamed(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran ran = run(f, session, "flood 3000000");
    assert_int_equal(ran.output_bytes, 3000000);
    assert_int_equal(ran.output_size, 1024 * 1024);
    ran = (struct ran){0};
    struct exec_request request = {.command = "flood 3000000"};
    ran.execution = session_exec(session, &request, &stream_events, &ran);
    spin_until(f, ran.done);
    assert_int_equal(ran.streamed, 3000000);
    /* Paused after each piece; the end waits too. */
    ran = (struct ran){.pause = true};
    request.command = "flood 200000";
    ran.execution = session_exec(session, &request, &stream_events, &ran);
    uint64_t before = 0;
    for (int i = 0; i < TURNS_MAX && !ran.done; i++) {
        spin_until(f, ran.streamed > before || ran.done);
        before = ran.streamed;
        turn(f, 3);
        if (ran.done)
            break;
        assert_int_equal(ran.streamed, before);
        execution_resume(ran.execution);
    }
    assert_int_equal(ran.done, 1);
    assert_int_equal(ran.streamed, 200000);
}

static void test_background_child(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran ran = run(f, session, "leak still here");
    assert_string_equal(ran.output, "still here\n");
}

static void test_cancel_everywhere(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran ran = {0};
    begin(&ran, session, "exit 0", false);
    execution_cancel(ran.execution); /* begun */
    struct ran waiting = {0};
    begin(&waiting, session, "exit 0", false);
    execution_cancel(waiting.execution); /* in line */
    struct ran invalid = {0};
    begin(&invalid, session, "", false);
    execution_cancel(invalid.execution); /* failed, not told yet */
    struct ran in_started = {.cancel = true};
    begin(&in_started, session, "hang", false);
    spin_until(f, in_started.started);
    assert_int_equal(run(f, session, "exit 4").outcome.exit_code, 4);
    assert_int_equal(ran.done + waiting.done + invalid.done + in_started.done, 0);
    struct runtime_stats stats;
    runtime_stats(f->runtime, &stats);
    assert_int_equal(stats.executions, 0);
    /* A command whose session is still being made. */
    struct session_spec spec = spec_named("slow");
    set_text(&spec.image, "slow");
    struct opened opened = {0};
    struct exec_request request = {.command = "echo x"};
    struct ran making = {0};
    making.execution = runtime_exec(f->runtime, &spec, &request, NULL, &quiet_events, &making);
    execution_cancel(making.execution);
    making.execution = runtime_exec(f->runtime, &spec, &request, NULL, &quiet_events, &making);
    turn(f, 2);
    execution_cancel(making.execution);
    runtime_open_session(f->runtime, &spec, on_opened, &opened);
    spin_until(f, opened.count);
    assert_int_equal(making.done, 0);
    session_spec_release(&spec);
}

struct in_one_go {
    struct ran ran;
    struct opened opened;
    unsigned done_when_opened;
};

static void on_go_opened(void *data, struct session *session, bool created, const struct error *err)
{
    struct in_one_go *go = data; /* `ran` comes first: the owner is the same */
    on_opened(&go->opened, session, created, err);
    go->done_when_opened = go->ran.done + go->ran.started;
}

static void test_exec_in_one_go(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = spec_named("s");
    struct exec_request request = {.command = "echo fast"};
    for (int i = 0; i < 2; i++) {
        struct in_one_go go = {0};
        go.ran.execution =
            runtime_exec(f->runtime, &spec, &request, on_go_opened, &quiet_events, &go);
        assert_int_equal(go.opened.count, 0);
        spin_until(f, go.ran.done);
        assert_string_equal(go.ran.output, "fast\n");
        assert_int_equal(go.opened.count, 1);
        assert_int_equal(go.done_when_opened, 0);
        assert_int_equal(go.opened.created, i == 0);
    }
    /* The command was through before the session's record was. */
    assert_int_equal(f->events[RUNTIME_SESSION_CREATED], 1);
    assert_true(f->first[RUNTIME_SESSION_CREATED] < f->first[RUNTIME_EXEC_STARTED]);
    assert_true(f->first[RUNTIME_EXEC_STARTED] < f->first[RUNTIME_EXEC_EXITED]);
    struct in_one_go go = {0};
    spec.memory_mb = 99;
    go.ran.execution = runtime_exec(f->runtime, &spec, &request, on_go_opened, &quiet_events, &go);
    spin_until(f, go.ran.done);
    assert_int_equal(go.opened.err.code, ERROR_SESSION_CONFLICT);
    assert_int_equal(go.ran.err.code, ERROR_SESSION_CONFLICT);
    set_text(&spec.name, "no");
    set_text(&spec.image, "fail");
    go = (struct in_one_go){0};
    go.ran.execution = runtime_exec(f->runtime, &spec, &request, on_go_opened, &quiet_events, &go);
    spin_until(f, go.ran.done);
    assert_int_equal(go.opened.count, 1);
    assert_int_equal(go.opened.err.code, ERROR_GONE);
    assert_int_equal(go.done_when_opened, 0);
    session_spec_release(&spec);
}

/* Keeps the whole thread pool busy, until it is let go. */
struct plug {
    uv_work_t work[PLUG_SIZE];
    uv_sem_t released;
    unsigned left;
};

static void plug_work(uv_work_t *work)
{
    struct plug *plug = work->data;
    uv_sem_wait(&plug->released);
}

static void plug_done(uv_work_t *work, int status)
{
    struct plug *plug = work->data;
    (void)status;
    plug->left--;
}

static void plug_pool(struct fixture *f, struct plug *plug)
{
    uv_sem_init(&plug->released, 0);
    plug->left = PLUG_SIZE;
    for (size_t i = 0; i < PLUG_SIZE; i++) {
        plug->work[i].data = plug;
        uv_queue_work(&f->loop, &plug->work[i], plug_work, plug_done);
    }
}

static void unplug_pool(struct fixture *f, struct plug *plug)
{
    for (size_t i = 0; i < PLUG_SIZE; i++)
        uv_sem_post(&plug->released);
    spin_until(f, plug->left == 0);
    uv_sem_destroy(&plug->released);
}

/* A session whose record fails when its command runs already was told of, so its end is, too. */
static void test_exec_unsaved(void **state)
{
    struct fixture *f = *state;
    struct exec_request request = {.command = "echo fast"};
    struct in_one_go go = {0};
    struct plug plug;
    int good = f->runtime->records_fd;
    struct session_spec spec = spec_named("unsaved");
    set_text(&spec.image, "slow");
    go.ran.execution = runtime_exec(f->runtime, &spec, &request, on_go_opened, &quiet_events, &go);
    struct session *session = NULL;
    spin_until(f, (session = runtime_find_session(f->runtime, "unsaved")) && session->backend);
    /* That it would be is on record; that it is will not be. */
    plug_pool(f, &plug);
    f->runtime->records_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    spin_until(f, go.ran.done || f->events[RUNTIME_EXEC_STARTED]);
    assert_int_equal(f->events[RUNTIME_EXEC_STARTED], on_disk);
    unplug_pool(f, &plug);
    spin_until(f, go.ran.done && f->runtime->table.count == 0);
    assert_int_equal(f->events[RUNTIME_SESSION_CREATED], on_disk);
    assert_int_equal(f->events[RUNTIME_SESSION_LOST], on_disk);
    close(f->runtime->records_fd);
    f->runtime->records_fd = good;
    session_spec_release(&spec);
}

static void test_delete_from_done(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran ran = {.f = f, .delete_session = true}, behind = {.f = f};
    begin(&ran, session, "exit 0", false);
    begin(&behind, session, "hang", false);
    spin_until(f, ran.deleted.count && behind.done);
    assert_int_equal(behind.err.code, ERROR_GONE);
    assert_null(runtime_find_session(f->runtime, "s"));
}

/* --- sessions as a whole ---------------------------------------------------------------------- */

static bool begins_with_a(const struct session *session, void *data)
{
    (void)data;
    return session_name(session)[0] == 'a';
}

static void test_delete_many(void **state)
{
    struct fixture *f = *state;
    struct finished first = {0}, second = {0}, single = {0}, all = {0}, none = {0};
    struct opened slow = {0}, again = {0}, later = {0};
    struct session_spec spec = spec_named("a-slow"), next = spec_named("a2");
    open_named(f, "a1");
    open_named(f, "a2");
    open_named(f, "b1");
    free(spec.image);
    spec.image = xstrdup("slow");
    runtime_open_session(f->runtime, &spec, on_opened, &slow);
    runtime_delete_session(f->runtime, "a2", on_finished, &single);
    runtime_open_session(f->runtime, &next, on_opened, &again); /* waits until it is gone */
    runtime_delete_sessions(f->runtime, begins_with_a, on_finished, &first);
    runtime_open_session(f->runtime, &next, on_opened, &later);
    runtime_delete_sessions(f->runtime, NULL, on_finished, &second);
    assert_int_equal(first.count + second.count, 0);
    spin_until(f, first.count && second.count && again.count && later.count);
    assert_int_equal(single.count, 1);
    assert_int_equal(slow.count, 1); /* it was waited for */
    assert_int_equal(first.err.code, ERROR_NONE);
    assert_int_equal(second.err.code, ERROR_NONE);
    assert_int_equal(again.err.code, ERROR_GONE);
    assert_int_equal(later.err.code, ERROR_GONE);
    assert_int_equal(f->runtime->table.count, 0);
    assert_int_equal(record_count(f, ".json"), 0);
    /* What does not match stays; where nothing does, that is told later as well. */
    open_named(f, "b1");
    runtime_delete_sessions(f->runtime, begins_with_a, on_finished, &none);
    assert_int_equal(none.count, 0);
    spin_until(f, none.count);
    assert_int_equal(none.err.code, ERROR_NONE);
    assert_non_null(runtime_find_session(f->runtime, "b1"));
    runtime_delete_sessions(f->runtime, NULL, on_finished, &all);
    assert_null(runtime_find_session(f->runtime, "b1"));
    spin_until(f, all.count);
    assert_int_equal(f->runtime->table.count, 0);
    session_spec_release(&spec);
    session_spec_release(&next);
}

static int is_long_enough(void *data, const char *name, struct error *err)
{
    if (strlen(name) < *(size_t *)data)
        return error_set(err, ERROR_FORBIDDEN, "'%s' is too short", name);
    return 0;
}

static void test_guards(void **state)
{
    struct fixture *f = *state;
    size_t two = 2, three = 3;
    struct runtime_guard one = {.may_create = is_long_enough, .data = &two};
    struct runtime_guard other = {.may_create = is_long_enough, .data = &three};
    open_named(f, "x");
    runtime_add_guard(f->runtime, &one);
    runtime_add_guard(f->runtime, &other);
    assert_int_equal(try_open(f, "y").err.code, ERROR_FORBIDDEN);
    assert_int_equal(try_open(f, "yy").err.code, ERROR_FORBIDDEN);
    assert_non_null(try_open(f, "yyy").session);
    assert_non_null(try_open(f, "x").session); /* it is there already */
    runtime_remove_guard(f->runtime, &other);
    runtime_remove_guard(f->runtime, &other); /* no matter */
    assert_non_null(try_open(f, "yy").session);
    /* One that has to be made anew is made. */
    assert_int_equal(run(f, open_named(f, "x"), "break").err.code, ERROR_GONE);
    assert_int_equal(try_open(f, "x").err.code, ERROR_FORBIDDEN);
    runtime_remove_guard(f->runtime, &one);
    assert_non_null(try_open(f, "x").session);
}

static void on_no_marker(void *data, const void *bytes, size_t size, const struct error *err)
{
    assert_null(bytes);
    assert_int_equal(size, 0);
    on_finished(data, err);
}

static void on_described(void *data, const json_t *described, const struct error *err)
{
    bool *told = data;
    assert_null(err);
    assert_string_equal(json_string_value(json_object_get(described, "reason")),
                        "nothing works here");
    *told = true;
}

static void test_other_backend(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct finished marker = {0}, deleted = {0};
    struct backend *old = f->backend, *none = backend_none_new(&f->loop, "nothing works here");
    open_named(f, "s");
    assert_int_equal(runtime_set_backend(f->runtime, none, &err), -1);
    assert_int_equal(err.code, ERROR_CAPACITY);
    runtime_delete_session(f->runtime, "s", on_finished, &deleted);
    assert_int_equal(runtime_set_backend(f->runtime, none, &err), -1); /* it is still ending */
    spin_until(f, deleted.count);
    assert_int_equal(runtime_set_backend(f->runtime, none, &err), 0);
    old->ops->close(old);
    f->backend = none;
    assert_ptr_equal(runtime_backend(f->runtime), none);
    assert_string_equal(none->ops->name, "none");
    assert_string_equal(none->ops->unavailable(none), "nothing works here");
    assert_string_equal(none->ops->cgroup_kind(none), "none");
    struct opened opened = try_open(f, "s");
    assert_int_equal(opened.err.code, ERROR_UNAVAILABLE);
    assert_non_null(strstr(opened.err.message, "nothing works here"));
    none->ops->read_marker(none, "/", "x", on_no_marker, &marker);
    assert_int_equal(marker.count, 0);
    spin_until(f, marker.count);
    assert_int_equal(marker.err.code, ERROR_UNAVAILABLE);
    bool described = false;
    none->ops->describe(none, on_described, &described);
    assert_true(described);
    f->backend = backend_null_new(&f->loop);
    assert_int_equal(runtime_set_backend(f->runtime, f->backend, &err), 0);
    none->ops->close(none);
    open_named(f, "s");
}

/* Records of sessions that another backend made are not for it. */
static void test_recover_without_backend(void **state)
{
    struct fixture *f = *state;
    bool recovered = false;
    open_named(f, "s");
    stop(f, true);
    start(f);
    struct error err;
    struct backend *none = backend_none_new(&f->loop, "gone");
    assert_int_equal(runtime_set_backend(f->runtime, none, &err), 0);
    f->backend->ops->sweep(f->backend); /* the session itself: nobody will take it over */
    f->backend->ops->close(f->backend);
    f->backend = none;
    runtime_recover(f->runtime, true, set_flag, &recovered);
    spin_until(f, recovered);
    assert_null(runtime_find_session(f->runtime, "s"));
    assert_int_equal(record_count(f, ".json"), 0);
    assert_int_equal(record_count(f, ".bad"), 1);
}

/* How a session is to be made is no part of what it is. */
static void test_make_host_path(void **state)
{
    struct fixture *f = *state;
    struct session_spec spec = spec_named("s");
    spec.host_path = xstrdup("/srv/x");
    spec.make_host_path = true;
    struct opened first = open_spec(f, &spec);
    assert_non_null(first.session);
    assert_true(session_spec(first.session)->make_host_path);
    json_t *record = record_make(first.session);
    assert_null(json_object_get(json_object_get(record, "spec"), "make_host_path"));
    json_decref(record);
    spec.make_host_path = false;
    assert_ptr_equal(open_spec(f, &spec).session, first.session);
    session_spec_release(&spec);
}

static void test_broken(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran waiting = {0}, breaking = {0};
    begin(&breaking, session, "break", false);
    begin(&waiting, session, "exit 0", false);
    spin_until(f, waiting.done && breaking.done);
    assert_int_equal(breaking.err.code, ERROR_GONE);
    assert_int_equal(waiting.err.code, ERROR_GONE);
    assert_int_equal(session_state(session), SESSION_BROKEN);
    assert_int_equal(f->events[RUNTIME_SESSION_LOST], 1);
    assert_int_equal(run(f, session, "exit 0").err.code, ERROR_GONE);
    spin_until(f, record_count(f, ".json") == 0);
    struct opened again = try_open(f, "s");
    assert_true(again.created);
    assert_int_equal(session_state(again.session), SESSION_LIVE);
    run(f, again.session, "break");
    assert_int_equal(delete_named(f, "s").code, ERROR_NONE);
}

static void test_exec_log(void **state)
{
    struct fixture *f = *state;
    struct runtime_config config = f->config;
    config.session_log_bytes = 1000000;
    runtime_reconfigure(f->runtime, &config);
    struct session *session = open_named(f, "s");
    unsigned first = run(f, session, "echo one").number;
    unsigned second = run(f, session, "flood 600000").number; /* memory, then the file */
    char buffer[700000];
    uint64_t total, kept;
    bool running;
    struct error err;
    assert_int_equal(session_exec_log(session, first, STREAM_OUTPUT, 0, buffer, sizeof buffer,
                                      &total, &kept, &running, &err),
                     4);
    assert_memory_equal(buffer, "one\n", 4);
    assert_false(running);
    ssize_t n = session_exec_log(session, second, STREAM_OUTPUT, 0, buffer, sizeof buffer, &total,
                                 &kept, &running, &err);
    assert_int_equal(n, 600000);
    for (int i = 0; i < 600000; i++)
        assert_int_equal(buffer[i], i % 64 == 63 ? '\n' : 'a' + i / 64 % 26);
    char part[10];
    assert_int_equal(session_exec_log(session, second, STREAM_OUTPUT, 599995, part, sizeof part,
                                      &total, &kept, &running, &err),
                     5);
    assert_memory_equal(part, buffer + 599995, 5);
    assert_int_equal(session_exec_log(session, second, STREAM_OUTPUT, 600000, part, sizeof part,
                                      &total, &kept, &running, &err),
                     0);
    /* The oldest make room, and one that is too much for all keeps its beginning. */
    unsigned third = run(f, session, "flood 2000000").number;
    assert_int_equal(session_exec_log(session, second, STREAM_OUTPUT, 0, part, sizeof part, &total,
                                      &kept, &running, &err),
                     -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_int_equal(session_exec_log(session, third, STREAM_OUTPUT, 0, part, sizeof part, &total,
                                      &kept, &running, &err),
                     sizeof part);
    assert_int_equal(total, 2000000);
    assert_int_equal(kept, 1000000);
    /* One that runs can be read, too. */
    struct ran ran = {0};
    begin(&ran, session, "hang", false);
    spin_until(f, ran.started);
    assert_int_equal(session_exec_log(session, ran.number, STREAM_OUTPUT, 0, part, sizeof part,
                                      &total, &kept, &running, &err),
                     0);
    assert_true(running);
    /* A disk that is full costs the log, not the command. */
    execution_cancel(ran.execution);
    int good = f->runtime->state_fd;
    session = open_named(f, "t");
    f->runtime->state_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ran = run(f, session, "flood 600000");
    assert_int_equal(ran.output_bytes, 600000);
    n = session_exec_log(session, ran.number, STREAM_OUTPUT, 0, buffer, sizeof buffer, &total,
                         &kept, &running, &err);
    assert_in_range(n, 1, 256 * 1024);
    assert_int_equal(n, kept);
    close(f->runtime->state_fd);
    f->runtime->state_fd = good;
}

/* --- reaping ---------------------------------------------------------------------------------- */

static void test_reaping(void **state)
{
    struct fixture *f = *state;
    struct runtime_config config = f->config;
    struct ran ran = {0};
    begin(&ran, open_named(f, "busy"), "hang", false);
    config.session_ttl_ms = 40;
    runtime_reconfigure(f->runtime, &config);
    struct session_spec spec = spec_named("stays");
    spec.persistent = true;
    assert_non_null(open_spec(f, &spec).session);
    session_spec_release(&spec);
    open_named(f, "idle");
    spin_until(f, f->events[RUNTIME_SESSION_REAPED] == 1);
    assert_null(runtime_find_session(f->runtime, "idle"));
    turn(f, 30);
    assert_non_null(runtime_find_session(f->runtime, "busy"));
    assert_non_null(runtime_find_session(f->runtime, "stays"));
    execution_cancel(ran.execution);
    spin_until(f, !runtime_find_session(f->runtime, "busy"));
    spin_until(f, f->events[RUNTIME_SESSION_REAPED] == 2);
    assert_non_null(runtime_find_session(f->runtime, "stays"));
}

/* --- the ring --------------------------------------------------------------------------------- */

struct pipe_pair {
    int read, write;
};

static struct pipe_pair make_pipe(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    return (struct pipe_pair){ends[0], ends[1]};
}

static char ring_byte(uint64_t at)
{
    return at % 100 == 99 ? '\n' : (char)('A' + at % 23);
}

static void feed(struct ring *ring, struct pipe_pair *pipe, uint64_t *at, size_t size)
{
    while (size > 0) {
        char data[4096];
        size_t part = size < sizeof data ? size : sizeof data;
        for (size_t i = 0; i < part; i++)
            data[i] = ring_byte((*at)++);
        assert_int_equal(write(pipe->write, data, part), part);
        size_t got = 0;
        while (got < part) {
            ssize_t n = ring_fill(ring, 0, pipe->read, SIZE_MAX);
            assert_true(n > 0);
            got += (size_t)n;
        }
        size -= part;
    }
}

static void check_ring(const struct ring *ring)
{
    cleanup_free char *all = xmalloc(RING_OUTPUT_SIZE);
    uint64_t offset = 0;
    size_t size = ring_read(ring, 0, &offset, all, RING_OUTPUT_SIZE);
    assert_int_equal(offset, ring_oldest(ring, 0));
    assert_int_equal(offset + size, ring_written(ring, 0));
    for (size_t i = 0; i < size; i++)
        assert_int_equal(all[i], ring_byte(offset + i));
}

static void test_ring(void **state)
{
    (void)state;
    struct ring ring = RING_INIT;
    struct pipe_pair pipe = make_pipe();
    uint64_t at = 0;
    struct error err;
    assert_int_equal(ring_create(&ring, &err), 0);
    assert_int_equal(ring_fill(&ring, 0, pipe.read, 100), -EAGAIN);
    feed(&ring, &pipe, &at, 1000);
    check_ring(&ring);
    assert_int_equal(ring_unread(&ring), 0);
    ring_set_delivered(&ring, 150);
    assert_int_equal(ring_unread(&ring), 150);
    ring_set_delivered(&ring, 100); /* never back */
    assert_int_equal(ring_unread(&ring), 150);
    feed(&ring, &pipe, &at, RING_OUTPUT_SIZE - 1000); /* full to the byte */
    check_ring(&ring);
    assert_int_equal(ring_oldest(&ring, 0), 0);
    assert_int_equal(ring_unread(&ring), 150);
    feed(&ring, &pipe, &at, 301);
    check_ring(&ring);
    assert_int_equal(ring_oldest(&ring, 0), 301);
    assert_int_equal(ring_unread(&ring), 400); /* the first whole line after what was lost */
    feed(&ring, &pipe, &at, 5 * RING_OUTPUT_SIZE / 2);
    check_ring(&ring);
    uint64_t beyond = at + 100;
    char byte;
    assert_int_equal(ring_read(&ring, 0, &beyond, &byte, 1), 0);
    assert_int_equal(beyond, at);
    close(pipe.write);
    assert_int_equal(ring_fill(&ring, 0, pipe.read, 100), 0);
    close(pipe.read);
    ring_release(&ring);
}

static void test_ring_interrupted(void **state)
{
    (void)state;
    struct pipe_pair pipe = make_pipe();
    struct error err;
    /* At every distance from the wrap. */
    for (unsigned back = 0; back < 40; back += 7) {
        struct ring ring = RING_INIT, next = RING_INIT;
        uint64_t at = 0;
        assert_int_equal(ring_create(&ring, &err), 0);
        feed(&ring, &pipe, &at, RING_OUTPUT_SIZE - back);
        for (int i = 0; i < 28; i++) {
            char byte = ring_byte(at++);
            assert_int_equal(write(pipe.write, &byte, 1), 1);
        }
        ring_fill_interrupted(&ring, 0, pipe.read, 1000);
        assert_int_equal(ring_adopt(&next, dup(ring.fd), &err), 0);
        ring_release(&ring);
        while (ring_fill(&next, 0, pipe.read, 1000) > 0)
            ;
        assert_int_equal(ring_written(&next, 0), at);
        check_ring(&next);
        ring_release(&next);
    }
    close(pipe.read);
    close(pipe.write);
}

/* A reader that is killed again and again, in the middle of anything: no byte is lost or doubled.
 */
static void test_ring_killed(void **state)
{
    (void)state;
    struct ring ring = RING_INIT;
    struct error err;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(ring_create(&ring, &err), 0);
    pid_t writer = fork();
    if (writer == 0) {
        char data[997];
        close(ends[0]);
        for (uint64_t at = 0; at < 3000000; at += sizeof data) {
            for (size_t i = 0; i < sizeof data; i++)
                data[i] = ring_byte(at + i);
            if (fd_write_all(ends[1], data, sizeof data) < 0)
                _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    for (int round = 0; round < 60; round++) {
        pid_t reader = fork();
        if (reader == 0) {
            struct ring mine = RING_INIT;
            if (ring_adopt(&mine, dup(ring.fd), &err) < 0)
                _exit(1);
            for (;;) {
                ssize_t n = ring_fill(&mine, 0, ends[0], 1000);
                if (n == 0)
                    _exit(0);
            }
        }
        usleep((useconds_t)(200 + 97 * round % 1500));
        kill(reader, SIGKILL);
        waitpid(reader, NULL, 0);
        struct ring mine = RING_INIT;
        assert_int_equal(ring_adopt(&mine, dup(ring.fd), &err), 0);
        check_ring(&mine);
        ring_release(&mine);
    }
    close(ends[0]);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    ring_release(&ring);
}

static void test_ring_hostile(void **state)
{
    (void)state;
    struct ring ring = RING_INIT;
    struct error err;
    int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, 4096 + RING_OUTPUT_SIZE + RING_ERROR_SIZE), 0);
    assert_int_equal(ring_adopt(&ring, dup(fd), &err), -1); /* not sealed */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(ring_adopt(&ring, dup(fd), &err), -1); /* not one of ours */
    close(fd);
    assert_int_equal(ring_adopt(&ring, open("/dev/null", O_RDWR), &err), -1);
    assert_int_equal(ring_create(&ring, &err), 0);
    ring_set_delivered(&ring, 12345); /* more than there is */
    struct ring again = RING_INIT;
    assert_int_equal(ring_adopt(&again, dup(ring.fd), &err), -1);
    assert_int_equal(err.code, ERROR_PROTOCOL);
    ring_release(&ring);
}

/* --- managed processes ------------------------------------------------------------------------ */

struct begun {
    unsigned count;
    struct process *process;
    struct error err;
};

static void on_begun(void *data, struct process *process, const struct error *err)
{
    struct begun *begun = data;
    begun->count++;
    begun->process = process;
    begun->err = err ? *err : (struct error)ERROR_INIT;
}

static void begin_process(struct session *session, const char *id, const char *command,
                          struct begun *begun)
{
    struct process_spec spec;
    process_spec_init(&spec);
    set_text(&spec.id, id);
    spec.command = xstrdup(command);
    strings_add(&spec.env, "TOKEN=very-secret");
    session_start_process(session, &spec, on_begun, begun);
    process_spec_release(&spec);
    assert_int_equal(begun->count, 0);
}

static struct process *start_process(struct fixture *f, struct session *session, const char *id,
                                     const char *command)
{
    struct begun begun = {0};
    begin_process(session, id, command, &begun);
    spin_until(f, begun.count);
    if (!begun.process)
        fail_msg("%s", begun.err.message);
    return begun.process;
}

static bool runs(const struct process *process)
{
    struct process_info info;
    process_info(process, &info);
    return info.running;
}

struct talk {
    struct attachment *attachment;
    unsigned attached, ended, drained;
    uint64_t offset;
    char data[4096];
    size_t size;
    uint64_t total;
    struct error err;
    bool close_on_output;
};

static void on_attached(void *owner, uint64_t offset)
{
    struct talk *talk = owner;
    talk->attached++;
    talk->offset = offset;
}

static void on_talk_output(void *owner, const char *data, size_t size)
{
    struct talk *talk = owner;
    size_t room = sizeof talk->data - 1 - talk->size;
    size_t part = size < room ? size : room;
    memcpy(talk->data + talk->size, data, part);
    talk->size += part;
    talk->data[talk->size] = '\0';
    talk->total += size;
    if (talk->close_on_output)
        attachment_close(talk->attachment);
}

static void on_talk_drained(void *owner)
{
    ((struct talk *)owner)->drained++;
}

static void on_talk_ended(void *owner, const struct error *err)
{
    struct talk *talk = owner;
    talk->ended++;
    talk->err = err ? *err : (struct error)ERROR_INIT;
}

static const struct attach_events talk_events = {.attached = on_attached,
                                                 .output = on_talk_output,
                                                 .drained = on_talk_drained,
                                                 .ended = on_talk_ended};

static void attach(struct talk *talk, struct process *process, uint64_t since)
{
    *talk = (struct talk){0};
    talk->attachment = process_attach(process, since, &talk_events, talk);
    assert_int_equal(talk->attached, 0);
}

static void test_process(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "cat");
    struct talk talk;
    assert_true(runs(process));
    attach(&talk, process, ATTACH_UNREAD);
    spin_until(f, talk.attached);
    assert_int_equal(talk.offset, 0);
    assert_true(attachment_write(talk.attachment, "hello\n", 6));
    spin_until(f, talk.size == 6);
    assert_string_equal(talk.data, "hello\n");
    attachment_close(talk.attachment);
    /* The process goes on without it, and a reconnect gets exactly the rest. */
    attach(&talk, process, ATTACH_UNREAD);
    spin_until(f, talk.attached);
    assert_int_equal(talk.offset, 6);
    attachment_write(talk.attachment, "again\n", 6);
    spin_until(f, talk.size == 6);
    attachment_close(talk.attachment);
    attach(&talk, process, 3);
    spin_until(f, talk.size == 9);
    assert_string_equal(talk.data, "lo\nagain\n");
    attachment_close(talk.attachment);
    attach(&talk, process, 99999); /* of another process */
    spin_until(f, talk.size == 12);
    struct finished stopped = {0};
    process_stop(process, on_finished, &stopped);
    spin_until(f, stopped.count && talk.ended);
    assert_int_equal(talk.err.code, ERROR_NONE);
    assert_null(session_find_process(session, "p"));
    assert_int_equal(f->events[RUNTIME_PROCESS_STARTED], 1);
    assert_int_equal(f->events[RUNTIME_PROCESS_STOPPED], 1);
}

static void test_process_completes(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "error oh no");
    spin_until(f, !runs(process));
    char tail[16];
    struct process_info info;
    process_info(process, &info);
    assert_true(info.exit_known);
    assert_int_equal(info.exit_code, 0);
    assert_string_equal(info.cause, "exited");
    assert_int_equal(process_error_tail(process, tail, sizeof tail), 6);
    assert_memory_equal(tail, "oh no\n", 6);
    assert_int_equal(process_error_tail(process, tail, 3), 3);
    assert_memory_equal(tail, "no\n", 3);
    struct error err;
    assert_int_equal(process_signal(process, 15, &err), -1);
    assert_int_equal(err.code, ERROR_PROCESS_CONFLICT);
    struct begun begun = {0};
    begin_process(session, "q", "fail", &begun);
    spin_until(f, begun.count);
    assert_int_equal(begun.err.code, ERROR_NOT_FOUND);
    assert_null(session_find_process(session, "q"));
    begun = (struct begun){0};
    begin_process(session, "", "cat", &begun);
    spin_until(f, begun.count);
    assert_int_equal(begun.err.code, ERROR_INVALID);
    struct runtime_stats stats;
    runtime_stats(f->runtime, &stats);
    assert_int_equal(stats.processes, 0);
}

static void test_process_replaced(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    start_process(f, session, "p", "hang");
    struct begun second = {0}, third = {0};
    begin_process(session, "p", "cat", &second);
    begin_process(session, "p", "hang", &third);
    spin_until(f, second.count && third.count);
    assert_non_null(third.process);
    assert_ptr_equal(session_find_process(session, "p"), third.process);
    struct process_info info;
    process_info(third.process, &info);
    assert_string_equal(info.spec->command, "hang");
    struct runtime_stats stats;
    runtime_stats(f->runtime, &stats);
    assert_int_equal(stats.processes, 1);
}

static void test_process_limits(void **state)
{
    struct fixture *f = *state;
    struct runtime_config config = f->config;
    config.max_managed_processes = 2;
    config.max_completed_processes = 3;
    config.session_ttl_ms = 30;
    runtime_reconfigure(f->runtime, &config);
    struct session *session = open_named(f, "s");
    start_process(f, session, "1", "hang");
    start_process(f, session, "2", "hang");
    struct begun begun = {0};
    begin_process(session, "3", "hang", &begun);
    spin_until(f, begun.count);
    assert_int_equal(begun.err.code, ERROR_CAPACITY);
    turn(f, 20); /* it is not reaped while one runs */
    assert_ptr_equal(runtime_find_session(f->runtime, "s"), session);
    struct finished stopped = {0};
    process_stop(session_find_process(session, "1"), on_finished, &stopped);
    spin_until(f, stopped.count);
    config.session_ttl_ms = 300000;
    runtime_reconfigure(f->runtime, &config);
    for (int i = 0; i < 5; i++) {
        char id[8];
        snprintf(id, sizeof id, "c%d", i);
        struct process *process = start_process(f, session, id, "exit 1");
        session_hold(session);
        spin_until(f, !session_find_process(session, id) || !runs(process));
        session_release(session);
    }
    assert_null(session_find_process(session, "c0"));
    assert_null(session_find_process(session, "c1"));
    assert_non_null(session_find_process(session, "c2"));
    config.completed_retention_ms = 1;
    runtime_reconfigure(f->runtime, &config);
    spin_until(f, !session_find_process(session, "c4"));
    assert_non_null(session_find_process(session, "2"));
}

static void test_process_stubborn(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "stubborn");
    struct finished stopped = {0}, too = {0};
    process_stop(process, on_finished, &stopped);
    process_stop(process, on_finished, &too);
    turn(f, 5);
    assert_int_equal(stopped.count, 0);
    assert_non_null(process->stop_alarm);
    alarm_set(process->stop_alarm, 1); /* five seconds, for a test */
    spin_until(f, stopped.count && too.count);
    assert_null(session_find_process(session, "p"));
}

static void test_attach_queue(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "cat");
    struct talk first, second, third;
    attach(&first, process, 0);
    attach(&second, process, 0);
    attach(&third, process, 0);
    spin_until(f, first.attached);
    attachment_write(first.attachment, "x", 1);
    spin_until(f, first.size == 1);
    turn(f, 3);
    assert_int_equal(second.attached + third.attached, 0);
    attachment_close(second.attachment);
    attachment_close(first.attachment);
    spin_until(f, third.size == 1);
    assert_int_equal(second.attached, 0);
    /* One that leaves from its own callback. */
    third.close_on_output = true;
    attachment_write(third.attachment, "y", 1);
    spin_until(f, third.size == 2);
    attach(&first, process, ATTACH_UNREAD);
    spin_until(f, first.attached);
    delete_named(f, "s");
    spin_until(f, first.ended);
}

static void test_attach_backpressure(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "pour 5000000");
    struct talk talk;
    attach(&talk, process, 0);
    attachment_pause(talk.attachment);
    spin_until(f, talk.attached);
    attachment_write(talk.attachment, "!", 1);
    spin_until(f, process_written(process, STREAM_OUTPUT) >= RING_OUTPUT_SIZE / 2);
    turn(f, 5);
    /* Held up at half the ring: the other half is for what was told and has not arrived. */
    assert_int_equal(process_written(process, STREAM_OUTPUT), RING_OUTPUT_SIZE / 2);
    assert_int_equal(process_oldest(process, STREAM_OUTPUT), 0);
    assert_true(runs(process));
    attachment_resume(talk.attachment);
    spin_until(f, talk.ended);
    assert_int_equal(talk.total, 5000000);
    assert_false(runs(process));
    /* Without anybody it does not wait. */
    process = start_process(f, session, "q", "flood 5000000");
    spin_until(f, !runs(process));
    assert_int_equal(process_written(process, STREAM_OUTPUT), 5000000);
    uint64_t offset = 0;
    char byte;
    assert_int_equal(process_log(process, STREAM_OUTPUT, &offset, &byte, 1), 1);
    assert_int_equal(offset, 5000000 - RING_OUTPUT_SIZE);
    attach(&talk, process, ATTACH_UNREAD);
    spin_until(f, talk.ended);
    assert_int_equal(talk.offset % 64, 0); /* the beginning of a line */
    assert_int_equal(talk.offset + talk.total, 5000000);
    /* One that ends while its output waits: told all the same. */
    process = start_process(f, session, "r", "pour 60000");
    attach(&talk, process, 0);
    attachment_pause(talk.attachment);
    spin_until(f, talk.attached);
    attachment_write(talk.attachment, "!", 1);
    spin_until(f, !runs(process));
    turn(f, 3);
    assert_int_equal(talk.ended, 0);
    attachment_resume(talk.attachment);
    spin_until(f, talk.ended);
    assert_int_equal(talk.total, 60000);
}

/* Who leaves in the middle of a line has not had it: it makes lines of what it is told. */
static void test_attach_half_a_line(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "cat");
    struct talk talk;
    attach(&talk, process, ATTACH_UNREAD);
    spin_until(f, talk.attached);
    attachment_write(talk.attachment, "whole\nha", 8);
    spin_until(f, talk.size == 8);
    attachment_close(talk.attachment);
    attach(&talk, process, ATTACH_UNREAD);
    spin_until(f, talk.size == 2);
    assert_int_equal(talk.offset, 6);
    attachment_write(talk.attachment, "lf\n", 3);
    spin_until(f, talk.size == 5);
    assert_string_equal(talk.data, "half\n");
    attachment_close(talk.attachment);
}

/* The end of what a process wrote is still in its pipe when it has ended, because somebody attached
   did not read; who then leaves. It belongs into the log all the same. */
static void test_attach_rest_of_the_log(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    char command[32];
    unsigned size = RING_OUTPUT_SIZE / 2 + 30000;
    struct talk talk;
    snprintf(command, sizeof command, "pour %u", size);
    struct process *process = start_process(f, session, "p", command);
    attach(&talk, process, 0);
    attachment_pause(talk.attachment);
    spin_until(f, talk.attached);
    attachment_write(talk.attachment, "!", 1);
    spin_until(f, !runs(process));
    turn(f, 3);
    assert_int_equal(process_written(process, STREAM_OUTPUT), RING_OUTPUT_SIZE / 2);
    attachment_close(talk.attachment);
    spin_until(f, process_written(process, STREAM_OUTPUT) == size);
}

static void test_attach_input_limit(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "hang");
    struct talk talk;
    size_t size = 1024 * 1024;
    cleanup_free char *data = xcalloc(1, size);
    attach(&talk, process, 0);
    spin_until(f, talk.attached);
    int taken = 0;
    while (!talk.ended && taken < 20) {
        attachment_write(talk.attachment, data, size);
        taken++;
        turn(f, 1);
    }
    assert_int_equal(taken, 17);
    assert_int_equal(talk.err.code, ERROR_LIMIT);
    /* A backlog that is taken in the end. */
    process = start_process(f, session, "q", "cat");
    attach(&talk, process, 0);
    spin_until(f, talk.attached);
    assert_false(attachment_write(talk.attachment, data, size));
    spin_until(f, talk.drained && talk.total == size);
    attachment_close(talk.attachment);
}

static void test_completed_tail(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "flood 100000");
    spin_until(f, !runs(process));
    process_drop_ring(process);
    struct process_info info;
    process_info(process, &info);
    assert_int_equal(info.bytes[STREAM_OUTPUT], 100000);
    assert_int_equal(info.oldest[STREAM_OUTPUT], 100000 - 16384);
    uint64_t offset = 0;
    char buffer[20000];
    assert_int_equal(process_log(process, STREAM_OUTPUT, &offset, buffer, sizeof buffer), 16384);
    struct talk talk;
    attach(&talk, process, ATTACH_UNREAD);
    spin_until(f, talk.ended);
    assert_int_equal(talk.total, 16384);
}

struct following {
    struct process *process;
    struct process_follower follower;
    unsigned changes, gone;
};

static void on_followed(void *data, bool gone)
{
    struct following *following = data;
    following->changes++;
    following->gone += gone;
    if (following->process && !gone) {
        process_unfollow(following->process, &following->follower);
        following->process = NULL;
    }
}

static void test_followers(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct process *process = start_process(f, session, "p", "cat");
    struct following stays = {0}, leaves = {.process = process};
    stays.follower = (struct process_follower){.changed = on_followed, .data = &stays};
    leaves.follower = (struct process_follower){.changed = on_followed, .data = &leaves};
    process_follow(process, &stays.follower);
    process_follow(process, &leaves.follower);
    struct talk talk;
    attach(&talk, process, 0);
    spin_until(f, talk.attached);
    attachment_write(talk.attachment, "x", 1);
    spin_until(f, stays.changes && leaves.changes);
    delete_named(f, "s");
    spin_until(f, stays.gone);
    assert_int_equal(leaves.changes, 1);
}

/* --- terminals -------------------------------------------------------------------------------- */

struct tty {
    struct terminal *terminal;
    unsigned ended;
    struct error err;
    char data[64];
    size_t size;
};

static void on_tty_output(void *owner, const char *data, size_t size)
{
    struct tty *tty = owner;
    assert_true(tty->size + size < sizeof tty->data);
    memcpy(tty->data + tty->size, data, size);
    tty->size += size;
}

static void on_tty_drained(void *owner)
{
    (void)owner;
}

static void on_tty_ended(void *owner, const struct backend_outcome *outcome,
                         const struct error *err)
{
    struct tty *tty = owner;
    tty->ended++;
    tty->err = err ? *err : (struct error)ERROR_INIT;
    assert_true(outcome || err);
}

static const struct terminal_events tty_events = {
    .output = on_tty_output, .drained = on_tty_drained, .ended = on_tty_ended};

static void test_terminal(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct terminal_request request = {.rows = 24, .columns = 80};
    struct tty tty = {0}, closed = {0}, failed = {0};
    tty.terminal = session_terminal(session, &request, &tty_events, &tty);
    terminal_write(tty.terminal, "early ", 6); /* before it is there */
    turn(f, 4);
    terminal_write(tty.terminal, "late", 4);
    terminal_resize(tty.terminal, 50, 100);
    spin_until(f, tty.size == 10);
    assert_memory_equal(tty.data, "early late", 10);
    closed.terminal = session_terminal(session, &request, &tty_events, &closed);
    terminal_close(closed.terminal);
    char *argv[] = {(char[]){"fail"}, NULL};
    request.argv = argv;
    failed.terminal = session_terminal(session, &request, &tty_events, &failed);
    spin_until(f, failed.ended);
    assert_int_equal(failed.err.code, ERROR_NOT_FOUND);
    delete_named(f, "s");
    assert_int_equal(tty.ended, 1);
    assert_int_equal(closed.ended, 0);
}

/* --- files: the test plays the worker --------------------------------------------------------- */

static int worker = -1;

static int test_file(struct backend_session *session, const struct file_request *request,
                     const char *path, const char *to, int *ret_sock, struct error *err)
{
    int pair[2];
    (void)session;
    (void)request;
    (void)to;
    if (strcmp(path, "/refused") == 0)
        return error_set(err, ERROR_UNSUPPORTED, "no");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    worker = pair[0];
    *ret_sock = pair[1];
    return 0;
}

struct reading {
    struct file_job *job;
    unsigned opened, done, entries, drained;
    struct file_info info;
    struct error err;
    char data[64];
    size_t size;
    bool cancel;
};

static void on_file_opened(void *owner, const struct file_info *info)
{
    struct reading *reading = owner;
    reading->opened++;
    reading->info = *info;
    if (reading->cancel)
        file_job_cancel(reading->job);
}

static void on_file_data(void *owner, const char *data, size_t size)
{
    struct reading *reading = owner;
    memcpy(reading->data + reading->size, data, size);
    reading->size += size;
}

static void on_file_entry(void *owner, const struct file_info *info)
{
    struct reading *reading = owner;
    reading->entries++;
    reading->size +=
        (size_t)snprintf(reading->data + reading->size, 40, "%s:%o ", info->name, info->mode);
}

static void on_file_drained(void *owner)
{
    ((struct reading *)owner)->drained++;
}

static void on_file_done(void *owner, const struct error *err)
{
    struct reading *reading = owner;
    reading->done++;
    reading->err = err ? *err : (struct error)ERROR_INIT;
}

static const struct file_events file_events = {.opened = on_file_opened,
                                               .data = on_file_data,
                                               .entry = on_file_entry,
                                               .drained = on_file_drained,
                                               .done = on_file_done};

static void ask(struct reading *reading, struct session *session, enum file_op op, const char *path)
{
    struct file_request request = {.op = op, .length = FILE_LENGTH_ALL};
    *reading = (struct reading){0};
    reading->job = session_file(session, &request, path, NULL, &file_events, reading);
    assert_int_equal(reading->done + reading->opened, 0);
}

/* Byte by byte, so that every message is torn everywhere. */
static void drip(struct fixture *f, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(write(worker, (const char *)data + i, 1), 1);
        turn(f, 1);
    }
}

static void put_entry(struct fixture *f, const char *name, uint32_t mode)
{
    struct file_entry entry = {.mode = mode, .name_size = (uint32_t)strlen(name)};
    drip(f, &entry, sizeof entry);
    drip(f, name, strlen(name));
}

static void test_files_read(void **state)
{
    struct fixture *f = *state;
    struct backend_ops ops = *f->backend->ops;
    ops.file = test_file;
    f->runtime->ops = &ops;
    struct session *session = open_named(f, "s");
    struct reading reading;
    struct file_reply reply = {.mode = S_IFREG | 0644, .size = 5, .length = 5};
    ask(&reading, session, FILE_READ, "/a");
    drip(f, &reply, sizeof reply);
    assert_int_equal(reading.opened, 1);
    drip(f, "hello", 5);
    spin_until(f, reading.done);
    assert_memory_equal(reading.data, "hello", 5);
    assert_int_equal(reading.err.code, ERROR_NONE);
    close(worker);

    ask(&reading, session, FILE_READ, "/torn");
    drip(f, &reply, sizeof reply);
    drip(f, "hel", 3);
    close(worker);
    spin_until(f, reading.done);
    assert_int_equal(reading.err.code, ERROR_GONE);

    static const struct {
        int errnum;
        enum error_code code;
    } errors[] = {{ENOENT, ERROR_NOT_FOUND},
                  {EACCES, ERROR_DENIED},
                  {EISDIR, ERROR_INVALID},
                  {ENOSPC, ERROR_LIMIT}};
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        struct file_reply no = {.errnum = errors[i].errnum};
        ask(&reading, session, FILE_STAT, "/b");
        drip(f, &no, sizeof no);
        spin_until(f, reading.done);
        assert_int_equal(reading.err.code, errors[i].code);
        assert_int_equal(reading.err.errnum, errors[i].errnum);
        close(worker);
    }
    ask(&reading, session, FILE_LIST, "/d");
    drip(f, &reply, sizeof reply);
    put_entry(f, "one", 0644);
    put_entry(f, "two", 0755);
    struct file_entry last = {0};
    drip(f, &last, sizeof last);
    spin_until(f, reading.done);
    assert_string_equal(reading.data, "one:644 two:755 ");
    close(worker);

    ask(&reading, session, FILE_LIST, "/d");
    drip(f, &reply, sizeof reply);
    put_entry(f, "../x", 0644);
    spin_until(f, reading.done);
    assert_int_equal(reading.err.errnum, EPROTO);
    close(worker);

    ask(&reading, session, FILE_READ, "/c");
    reading.cancel = true;
    drip(f, &reply, sizeof reply);
    turn(f, 3);
    assert_int_equal(reading.done, 0);
    close(worker);

    ask(&reading, session, FILE_READ, "/refused");
    spin_until(f, reading.done);
    assert_int_equal(reading.err.code, ERROR_UNSUPPORTED);

    ask(&reading, session, FILE_READ, "/e");
    delete_named(f, "s");
    assert_int_equal(reading.done, 1);
    close(worker);
}

static void test_files_write(void **state)
{
    struct fixture *f = *state;
    struct backend_ops ops = *f->backend->ops;
    ops.file = test_file;
    f->runtime->ops = &ops;
    struct session *session = open_named(f, "s");
    struct reading reading;
    struct file_reply yes = {0};
    size_t size = 2000000;
    cleanup_free char *data = xcalloc(1, size);
    ask(&reading, session, FILE_WRITE, "/w");
    assert_false(file_job_write(reading.job, data, size));
    drip(f, &yes, sizeof yes);
    uint64_t got = 0;
    uint32_t head = 0;
    bool finished = false, over = false;
    for (int i = 0; i < TURNS_MAX && !over; i++) {
        turn(f, 1);
        if (reading.drained && !finished) {
            finished = true;
            file_job_write(reading.job, "tail", 4);
            file_job_finish(reading.job);
        }
        for (;;) { /* the worker's side */
            if (head == 0) {
                if (recv(worker, &head, sizeof head, MSG_PEEK) < (ssize_t)sizeof head)
                    break;
                assert_int_equal(read(worker, &head, sizeof head), sizeof head);
                assert_in_range(head, 0, FILE_CHUNK_MAX);
                over = head == 0;
                if (over)
                    break;
            }
            char chunk[65536];
            ssize_t n = read(worker, chunk, head < sizeof chunk ? head : sizeof chunk);
            if (n <= 0)
                break;
            got += (uint64_t)n;
            head -= (uint32_t)n;
        }
    }
    assert_true(over);
    assert_int_equal(got, size + 4);
    assert_int_equal(reading.done, 0);
    drip(f, &yes, sizeof yes);
    spin_until(f, reading.done);
    assert_int_equal(reading.err.code, ERROR_NONE);
    close(worker);
    /* No space, in the middle. */
    ask(&reading, session, FILE_WRITE, "/w");
    drip(f, &yes, sizeof yes);
    file_job_write(reading.job, "x", 1);
    struct file_reply full = {.errnum = ENOSPC};
    drip(f, &full, sizeof full);
    spin_until(f, reading.done);
    assert_int_equal(reading.err.code, ERROR_LIMIT);
    close(worker);
    f->runtime->ops = f->backend->ops;
}

/* --- records and recovery --------------------------------------------------------------------- */

static char *record_path(struct fixture *f, const struct session *session)
{
    return xasprintf("%s/sessions/%s.json", f->config.run_dir, session->key);
}

static void recover(struct fixture *f, bool adopt)
{
    bool done = false;
    runtime_recover(f->runtime, adopt, set_flag, &done);
    assert_false(done);
    spin_until(f, done);
}

static void test_record(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "named \xc3\xa4");
    start_process(f, session, "p", "cat");
    cleanup_free char *path = record_path(f, session);
    struct stat st;
    assert_int_equal(strspn(session->key, "0123456789abcdef"), 16);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "state")), "ready");
    assert_string_equal(json_string_value(json_object_get(root, "key")), session->key);
    assert_int_equal(json_array_size(json_object_get(root, "processes")), 1);
    json_t *spec = json_object_get(root, "spec");
    assert_string_equal(json_string_value(json_object_get(spec, "session_id")), "named \xc3\xa4");
    json_decref(root);
    assert_int_equal(record_count(f, ".tmp"), 0);
    struct session_spec slow = spec_named("slow");
    set_text(&slow.image, "stuck");
    struct opened opened = {0};
    runtime_open_session(f->runtime, &slow, on_opened, &opened);
    spin_until(f, record_count(f, ".json") == 2); /* before it is there */
    session_spec_release(&slow);
    stop(f, false);
    assert_int_equal(opened.count, 1);
    assert_int_equal(opened.err.code, ERROR_UNAVAILABLE);
    assert_int_equal(record_count(f, ".json"), 0);
}

static void check_recovered(struct fixture *f)
{
    struct session *session = runtime_find_session(f->runtime, "s");
    assert_non_null(session);
    assert_int_equal(session_state(session), SESSION_LIVE);
    assert_int_equal(session_spec(session)->memory_mb, 64);
    assert_int_equal(f->events[RUNTIME_SESSION_ADOPTED], 1);
    struct process *process = session_find_process(session, "p");
    assert_non_null(process);
    assert_true(runs(process));
    struct process_info info;
    process_info(process, &info);
    assert_string_equal(info.spec->command, "cat");
    assert_string_equal(info.spec->env.items[0], "TOKEN=");
    struct talk talk;
    attach(&talk, process, ATTACH_UNREAD);
    spin_until(f, talk.attached);
    assert_int_equal(talk.offset, 7);
    attachment_write(talk.attachment, "after\n", 6);
    spin_until(f, talk.size == 6);
    assert_string_equal(talk.data, "after\n");
    attachment_close(talk.attachment);
    attach(&talk, process, 0);
    spin_until(f, talk.size == 13);
    assert_string_equal(talk.data, "before\nafter\n");
    attachment_close(talk.attachment);
    struct process *done = session_find_process(session, "over");
    assert_non_null(done);
    process_info(done, &info);
    assert_false(info.running);
    assert_int_equal(info.exit_code, 7);
    struct ran ran = run(f, session, "echo usable");
    assert_string_equal(ran.output, "usable\n");
    assert_true(ran.number > 1);
    struct process *more = start_process(f, session, "more", "hang");
    assert_true(more->keep_id > process->keep_id);
}

static void recover_after(struct fixture *f, bool crashed)
{
    struct session_spec spec = spec_named("s");
    spec.memory_mb = 64;
    struct session *session = open_spec(f, &spec).session;
    session_spec_release(&spec);
    run(f, session, "exit 0");
    struct process *process = start_process(f, session, "p", "cat");
    struct process *over = start_process(f, session, "over", "exit 7");
    spin_until(f, !runs(over));
    struct talk talk;
    attach(&talk, process, 0);
    spin_until(f, talk.attached);
    attachment_write(talk.attachment, "before\n", 7);
    spin_until(f, talk.size == 7);
    spin_until(f, !session->record_writing);
    if (crashed) {
        attachment_close(talk.attachment);
        turn(f, 1);
        crash(f);
    } else {
        stop(f, true);
        assert_int_equal(talk.ended, 1);
        assert_int_equal(talk.err.code, ERROR_UNAVAILABLE);
    }
    memset(f->events, 0, sizeof f->events);
    start(f);
    recover(f, true);
    check_recovered(f);
}

static void test_recover_after_stop(void **state)
{
    recover_after(*state, false);
}

static void test_recover_after_crash(void **state)
{
    recover_after(*state, true);
}

/* Processes that were over before are forgotten after a while, like any other. */
static void test_recover_completed(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    char id[8];
    for (int i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "c%d", i);
        struct process *process = start_process(f, session, id, "exit 7");
        spin_until(f, !runs(process));
    }
    spin_until(f, !session->record_writing);
    stop(f, true);
    f->config.max_completed_processes = 2;
    start(f);
    recover(f, true);
    session = runtime_find_session(f->runtime, "s");
    assert_non_null(session);
    assert_null(session_find_process(session, "c1"));
    assert_non_null(session_find_process(session, "c2"));
    f->config.completed_retention_ms = 1;
    runtime_reconfigure(f->runtime, &f->config);
    spin_until(f, !session_find_process(session, "c2") && !session_find_process(session, "c3"));
}

static void test_recover_removing(void **state)
{
    struct fixture *f = *state;
    start_process(f, open_named(f, "s"), "p", "hang");
    open_named(f, "t");
    stop(f, true);
    assert_int_equal(record_count(f, ".json"), 2);
    memset(f->events, 0, sizeof f->events);
    start(f);
    recover(f, false);
    assert_null(runtime_find_session(f->runtime, "s"));
    assert_int_equal(record_count(f, ".json"), 0);
    assert_int_equal(f->events[RUNTIME_SESSION_DELETED], 2);
    assert_true(try_open(f, "s").created);
}

static void test_recover_while_asked(void **state)
{
    struct fixture *f = *state;
    open_named(f, "s");
    stop(f, true);
    start(f);
    bool done = false;
    struct opened opened = {0};
    runtime_recover(f->runtime, true, set_flag, &done);
    struct session_spec spec = spec_named("s");
    runtime_open_session(f->runtime, &spec, on_opened, &opened);
    session_spec_release(&spec);
    spin_until(f, done && opened.count);
    assert_non_null(opened.session);
    assert_false(opened.created);
    assert_true(opened.session->adopted);
}

static void test_recover_nothing_left(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    start_process(f, session, "p", "hang");
    stop(f, true);
    struct backend *other = backend_null_new(&f->loop);
    other->ops->sweep(other); /* as if the machine had been booted */
    other->ops->close(other);
    memset(f->events, 0, sizeof f->events);
    start(f);
    struct session_spec spec = spec_named("s");
    struct opened opened = {0};
    struct ran ran = {0};
    struct exec_request request = {.command = "echo new"};
    bool done = false;
    runtime_recover(f->runtime, true, set_flag, &done);
    runtime_open_session(f->runtime, &spec, on_opened, &opened);
    ran.execution = runtime_exec(f->runtime, &spec, &request, NULL, &quiet_events, &ran);
    session_spec_release(&spec);
    spin_until(f, done && opened.count && ran.done);
    assert_int_equal(f->events[RUNTIME_SESSION_LOST], 1);
    assert_true(opened.created); /* they waited, there was nothing, and they got a new one */
    assert_string_equal(ran.output, "new\n");
    assert_null(session_find_process(opened.session, "p"));
}

static void write_record(struct fixture *f, const char *name, const char *text, size_t size)
{
    cleanup_free char *path = xasprintf("%s/sessions/%s", f->config.run_dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, size), 0);
    close(fd);
}

/* Each field of a good record, replaced by everything it must not be; and cut off at every length.
 */
static void test_hostile_records(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    start_process(f, session, "p", "cat");
    spin_until(f, !session->record_writing);
    cleanup_free char *path = record_path(f, session);
    char key[SESSION_KEY_SIZE];
    memcpy(key, session->key, sizeof key);
    json_t *good = json_load_file(path, 0, NULL);
    assert_non_null(good);
    delete_named(f, "s");
    json_t *bad[] = {json_null(),      json_true(),
                     json_integer(-1), json_integer(INT64_MAX),
                     json_string(""),  json_string("x"),
                     json_array(),     json_object(),
                     json_real(1e300), json_pack("[[[i]]]", 1)};
    static const char *const parts[] = {"", "spec", "processes"};
    unsigned tried = 0;
    log_configure(LOG_FORMAT_TEXT, LOG_ERROR);
    for (size_t p = 0; p < ARRAY_SIZE(parts); p++) {
        json_t *example = parts[p][0] ? json_object_get(good, parts[p]) : good;
        if (json_is_array(example))
            example = json_array_get(example, 0);
        const char *field;
        json_t *value;
        json_object_foreach(example, field, value)
        {
            for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                json_t *copy = json_deep_copy(good);
                json_t *where = parts[p][0] ? json_object_get(copy, parts[p]) : copy;
                if (json_is_array(where))
                    where = json_array_get(where, 0);
                json_object_set(where, field, bad[i]);
                char *text = json_dumps(copy, JSON_ENCODE_ANY);
                json_decref(copy);
                struct session *made = NULL;
                struct error err;
                int result = record_parse(f->runtime, key, text, strlen(text), &made, &err);
                free(text);
                tried++;
                if (result < 0 || !made)
                    continue;
                /* Some are no mistakes (another cpus, another cause): those must be whole. */
                assert_int_equal(session_spec_check(&made->spec, &err), 0);
                json_decref(steal_ptr(made->adopt_record));
                session_forget_processes(made);
                table_remove(&f->runtime->table, made);
                list_remove(&made->link);
                session_release(made);
            }
        }
    }
    assert_true(tried > 300);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        json_decref(bad[i]);
    turn(f, 2);

    char *text = json_dumps(good, 0);
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i += 3) {
        struct session *made = NULL;
        struct error err;
        assert_int_equal(record_parse(f->runtime, key, text, i, &made, &err), -1);
    }
    /* Files that are no records: set aside, the rest goes on. */
    write_record(f, "0123456789abcdef.json", text, size);     /* under another's name */
    write_record(f, "0123456789abcde0.json", text, size / 2); /* torn */
    write_record(f, "0123456789abcde1.json", "", 0);
    write_record(f, "0123456789abcde2.json.tmp", text, size / 3);
    write_record(f, "README", "hello", 5);
    json_object_set_new(good, "state", json_string("starting"));
    json_object_set_new(good, "record", json_null());
    free(text);
    text = json_dumps(good, 0);
    char name[40];
    snprintf(name, sizeof name, "%s.json", key);
    write_record(f, name, text, strlen(text)); /* never ready: dropped */
    free(text);
    json_decref(good);
    stop(f, true);
    start(f);
    recover(f, true);
    assert_int_equal(record_count(f, ".json"), 0);
    assert_int_equal(record_count(f, ".bad"), 3);
    assert_int_equal(record_count(f, ".tmp"), 0);
    log_configure(LOG_FORMAT_TEXT, LOG_INFO);
}

/* --- the audit log ---------------------------------------------------------------------------- */

static void test_audit_cut(void **state)
{
    (void)state;
    assert_int_equal(audit_cut("abc", 400), 3);
    assert_int_equal(audit_cut("abc", 2), 2);
    assert_int_equal(audit_cut("\xc3\xa4\xc3\xb6x", 2), 4);
    assert_int_equal(audit_cut("", 5), 0);
}

static json_t *audit_lines(struct fixture *f, const char *name)
{
    cleanup_free char *path = xasprintf("%s/%s", f->config.state_dir, name);
    FILE *file = fopen(path, "r");
    json_t *lines = json_array();
    char line[16384];
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t *value = json_loads(line, 0, NULL);
        if (!value)
            fail_msg("not JSON: %s", line);
        assert_null(strstr(line, "very-secret"));
        json_array_append_new(lines, value);
    }
    fclose(file);
    return lines;
}

static void test_audit(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "quo\"te");
    char command[2000] = "echo ";
    while (strlen(command) < 1900)
        strcat(command, "\xc3\xa4\t");
    runtime_set_actor(f->runtime, "127.0.0.1");
    run(f, session, command);
    run(f, session, "exit 3");
    start_process(f, session, "p", "exit 5");
    spin_until(f, f->events[RUNTIME_PROCESS_EXITED]);
    stop(f, false);
    json_t *lines = audit_lines(f, "audit.jsonl");
    static const char *const events[] = {"session_created", "exec", "exec", "process",
                                         "session_ended"};
    assert_int_equal(json_array_size(lines), 5);
    for (size_t i = 0; i < 5; i++) {
        json_t *line = json_array_get(lines, i);
        assert_string_equal(json_string_value(json_object_get(line, "event")), events[i]);
        assert_string_equal(json_string_value(json_object_get(line, "session")), "quo\"te");
        assert_non_null(json_object_get(line, "time"));
        assert_non_null(json_object_get(line, "outcome"));
    }
    json_t *exec = json_array_get(lines, 1);
    const char *what = json_string_value(json_object_get(exec, "what"));
    assert_int_equal(audit_cut(what, 1000), strlen(what));
    assert_int_equal(audit_cut(what, 400), strlen(what)); /* 400 characters, none of them torn */
    assert_int_not_equal(audit_cut(what, 399), strlen(what));
    assert_string_equal(json_string_value(json_object_get(exec, "actor")), "127.0.0.1");
    exec = json_array_get(lines, 2);
    assert_int_equal(json_integer_value(json_object_get(exec, "exit_code")), 3);
    assert_string_equal(json_string_value(json_object_get(exec, "cause")), "exited");
    assert_int_equal(json_integer_value(json_object_get(exec, "peak_bytes")), 4096);
    json_decref(lines);
    cleanup_free char *path = xasprintf("%s/audit.jsonl", f->config.state_dir);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_audit_rotation(void **state)
{
    struct fixture *f = *state;
    stop(f, false);
    f->config.audit_bytes = 300;
    f->config.audit_files = 2;
    for (int i = 0; i < 5; i++) {
        start(f);
        open_named(f, "s");
        stop(f, false);
    }
    cleanup_free char *third = xasprintf("%s/audit.jsonl.3", f->config.state_dir);
    assert_int_equal(access(third, F_OK), -1);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, i ? "audit.jsonl.%d" : "audit.jsonl", i);
        json_t *lines = audit_lines(f, name);
        assert_in_range(json_array_size(lines), 1, 2);
        json_decref(lines);
    }
}

/* --- stopping --------------------------------------------------------------------------------- */

static void test_stop_tells_everybody(void **state)
{
    struct fixture *f = *state;
    struct session *session = open_named(f, "s");
    struct ran running = {0}, waiting = {0};
    struct opened opened = {0};
    struct tty tty = {0};
    struct talk talk;
    struct session_spec spec = spec_named("stuck");
    set_text(&spec.image, "stuck");
    begin(&running, session, "hang", false);
    begin(&waiting, session, "hang", false);
    runtime_open_session(f->runtime, &spec, on_opened, &opened);
    session_spec_release(&spec);
    struct terminal_request request = {0};
    tty.terminal = session_terminal(session, &request, &tty_events, &tty);
    struct process *process = start_process(f, session, "p", "cat");
    attach(&talk, process, 0);
    spin_until(f, talk.attached && running.started);
    stop(f, true);
    assert_int_equal(running.err.code, ERROR_UNAVAILABLE);
    assert_int_equal(waiting.err.code, ERROR_UNAVAILABLE);
    assert_int_equal(opened.err.code, ERROR_UNAVAILABLE);
    assert_int_equal(tty.err.code, ERROR_UNAVAILABLE);
    assert_int_equal(talk.err.code, ERROR_UNAVAILABLE);
    assert_int_equal(record_count(f, ".json"), 1);
    start(f);
    recover(f, true);
    session = runtime_find_session(f->runtime, "s");
    assert_true(runs(session_find_process(session, "p")));
    bool stopped = false;
    runtime_stop(f->runtime, false, set_flag, &stopped);
    opened = (struct opened){0};
    spec = spec_named("late");
    runtime_open_session(f->runtime, &spec, on_opened, &opened);
    session_spec_release(&spec);
    spin_until(f, stopped);
    assert_int_equal(opened.err.code, ERROR_UNAVAILABLE);
    runtime_free(f->runtime);
    f->runtime = NULL;
    f->backend->ops->close(f->backend);
    assert_int_equal(record_count(f, ".json"), 0);
}

static void test_many(void **state)
{
    struct fixture *f = *state;
    struct runtime_config config = f->config;
    unsigned many = on_disk ? 100 : 1000;
    config.max_sessions = many;
    runtime_reconfigure(f->runtime, &config);
    struct opened *opened = xcalloc(many, sizeof *opened);
    for (unsigned i = 0; i < many; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        struct session_spec spec = spec_named(name);
        runtime_open_session(f->runtime, &spec, on_opened, &opened[i]);
        session_spec_release(&spec);
    }
    spin_until(f, f->events[RUNTIME_SESSION_CREATED] == many);
    for (unsigned i = 0; i < many; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        assert_non_null(runtime_find_session(f->runtime, name));
    }
    free(opened);
    stop(f, false);
    assert_int_equal(record_count(f, ".json"), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest pure[] = {
        cmocka_unit_test(test_environment),  cmocka_unit_test(test_ring),
        cmocka_unit_test(test_ring_hostile), cmocka_unit_test(test_ring_interrupted),
        cmocka_unit_test(test_ring_killed),  cmocka_unit_test(test_audit_cut),
    };
    const struct CMUnitTest tests[] = {
        CASE(test_open_reuse_delete),
        CASE(test_bad_specs),
        CASE(test_conflicts),
        CASE(test_mounts_recreate),
        CASE(test_capacity_and_roots),
        CASE(test_shared_creation_and_waits),
        CASE(test_creation_fails),
        CASE(test_record_cannot_be_written),
        CASE(test_exec),
        CASE(test_order),
        CASE(test_concurrent),
        CASE(test_lanes_and_queue),
        CASE(test_timeout),
        CASE(test_input),
        CASE(test_exec_queued_bytes),
        CASE(test_output_clipped_and_streamed),
        CASE(test_background_child),
        CASE(test_cancel_everywhere),
        CASE(test_exec_in_one_go),
        CASE(test_exec_unsaved),
        CASE(test_delete_from_done),
        CASE(test_delete_many),
        CASE(test_guards),
        CASE(test_other_backend),
        CASE(test_recover_without_backend),
        CASE(test_make_host_path),
        CASE(test_broken),
        CASE(test_exec_log),
        CASE(test_reaping),
        CASE(test_process),
        CASE(test_process_completes),
        CASE(test_process_replaced),
        CASE(test_process_limits),
        CASE(test_process_stubborn),
        CASE(test_attach_queue),
        CASE(test_attach_backpressure),
        CASE(test_attach_input_limit),
        CASE(test_attach_half_a_line),
        CASE(test_attach_rest_of_the_log),
        CASE(test_completed_tail),
        CASE(test_followers),
        CASE(test_terminal),
        CASE(test_files_read),
        CASE(test_files_write),
        CASE(test_record),
        CASE(test_recover_after_stop),
        CASE(test_recover_after_crash),
        CASE(test_recover_completed),
        CASE(test_recover_removing),
        CASE(test_recover_while_asked),
        CASE(test_recover_nothing_left),
        CASE(test_hostile_records),
        CASE(test_audit),
        CASE(test_audit_rotation),
        CASE(test_stop_tells_everybody),
        CASE(test_many),
    };
    int failed = cmocka_run_group_tests(pure, NULL, NULL);
    failed += cmocka_run_group_tests_name("records in memory", tests, NULL, NULL);
    on_disk = true;
    return failed + cmocka_run_group_tests_name("records on disk", tests, NULL, NULL);
}
