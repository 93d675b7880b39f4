/* SPDX-License-Identifier: Apache-2.0 */
/* The REST interface, served in this program on the null backend: the daemon's loop runs in a
   thread of its own, and the tests are its clients. Answers are held against /openapi.json. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "core/clock.h"
#include "core/fd.h"
#include "core/json.h"
#include "net/http-client.h"
#include "runtime/runtime.h"
#include "null-backend.h"

#define TOKEN "a-token-for-the-tests"

/* --- a file worker: what box-init's does, on a directory of the test's --- */

static char directory[] = "/tmp/test-rest-XXXXXX";

struct file_task {
    int sock;
    struct file_request request;
    char path[512];
    char to[512];
};

static void reply_stat(int sock, const struct stat *st, uint64_t length)
{
    struct file_reply reply = {.mode = st->st_mode,
                               .size = (uint64_t)st->st_size,
                               .length = length,
                               .mtime_ns = st->st_mtim.tv_sec * 1000000000};
    send(sock, &reply, sizeof reply, MSG_NOSIGNAL);
}

static int take(int sock, void *data, size_t size)
{
    return recv(sock, data, size, MSG_WAITALL) == (ssize_t)size ? 0 : -1;
}

static int do_read(struct file_task *task)
{
    struct stat st;
    cleanup_close int fd = open(task->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    uint64_t size = (uint64_t)st.st_size;
    uint64_t left = task->request.offset < size ? size - task->request.offset : 0;
    if (left > task->request.length)
        left = task->request.length;
    reply_stat(task->sock, &st, left);
    char *data = xmalloc(left + 1);
    if (pread(fd, data, left, (off_t)task->request.offset) == (ssize_t)left)
        fd_write_all(task->sock, data, left);
    free(data);
    return 0;
}

static int do_list(struct file_task *task)
{
    struct stat st;
    DIR *dir = opendir(task->path);
    if (!dir)
        return errno;
    fstat(dirfd(dir), &st);
    reply_stat(task->sock, &st, 0);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        struct file_entry head = {.size = (uint64_t)st.st_size,
                                  .mode = st.st_mode,
                                  .name_size = (uint32_t)strlen(entry->d_name)};
        fd_write_all(task->sock, &head, sizeof head);
        fd_write_all(task->sock, entry->d_name, head.name_size);
    }
    closedir(dir);
    fd_write_all(task->sock, &(struct file_entry){0}, sizeof(struct file_entry));
    return 0;
}

static int do_write(struct file_task *task)
{
    struct stat st = {0};
    bool full = strstr(task->path, "full") != NULL;
    stat(task->path, &st);
    reply_stat(task->sock, &st, 0);
    cleanup_close int fd = open(task->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (;;) {
        uint32_t size;
        static char piece[FILE_CHUNK_MAX];
        if (take(task->sock, &size, sizeof size) < 0)
            return 0;
        if (size == 0)
            break;
        if (take(task->sock, piece, size) < 0)
            return 0;
        if (full)
            return ENOSPC;
        fd_write_all(fd, piece, size);
    }
    fstat(fd, &st);
    reply_stat(task->sock, &st, 0);
    return 0;
}

static int do_task(struct file_task *task)
{
    struct stat st = {0};
    switch (task->request.op) {
    case FILE_READ:
        return do_read(task);
    case FILE_LIST:
        return do_list(task);
    case FILE_WRITE:
        return do_write(task);
    case FILE_STAT:
        if (lstat(task->path, &st) < 0)
            return errno;
        break;
    case FILE_MKDIR:
        if (mkdir(task->path, 0755) < 0)
            return errno;
        break;
    case FILE_MOVE:
        if (rename(task->path, task->to) < 0)
            return errno;
        break;
    default:
        if (remove(task->path) < 0)
            return errno;
    }
    reply_stat(task->sock, &st, 0);
    return 0;
}

static void *file_worker(void *data)
{
    struct file_task *task = data;
    int errnum = do_task(task);
    if (errnum) {
        struct file_reply reply = {.errnum = errnum};
        send(task->sock, &reply, sizeof reply, MSG_NOSIGNAL);
        /* Until the asker leaves: closing with unread data would reset the connection. */
        char rest[4096];
        shutdown(task->sock, SHUT_WR);
        while (recv(task->sock, rest, sizeof rest, 0) > 0)
            ;
    }
    close(task->sock);
    free(task);
    return NULL;
}

static int fake_file(struct backend_session *session, const struct file_request *request,
                     const char *path, const char *to, int *ret_sock, struct error *err)
{
    (void)session;
    int pair[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, errno, "socketpair");
    struct file_task *task = xcalloc(1, sizeof *task);
    task->sock = pair[1];
    task->request = *request;
    snprintf(task->path, sizeof task->path, "%s%s", directory, path);
    snprintf(task->to, sizeof task->to, "%s%s", directory, to ? to : "");
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    pthread_create(&thread, NULL, file_worker, task);
    pthread_detach(thread);
    *ret_sock = pair[0];
    return 0;
}

/* --- the server --- */

static struct {
    pthread_t thread;
    pthread_barrier_t barrier;
    uv_loop_t loop;
    uv_async_t stop;
    struct backend *backend;
    struct backend_ops ops;
    struct runtime *runtime;
    struct http_server *server;
    struct api *api;
    bool stopping;     /* the tests asked it to */
    char address[128]; /* of TCP, where a token is needed */
    char unix_path[128];
} world;

static void on_stopped(void *data)
{
    (void)data;
    http_server_free(world.server);
    api_free(world.api);
    uv_close((uv_handle_t *)&world.stop, NULL);
}

static void on_stop(uv_async_t *async)
{
    (void)async;
    api_stop(world.api);
    runtime_stop(world.runtime, false, on_stopped, NULL);
}

static void open_world(void)
{
    struct error err = ERROR_INIT;
    struct runtime_config runtime_config;
    struct api_config api_config;
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    enum http_origin origin;
    int fd;
    uv_loop_init(&world.loop);
    world.backend = backend_null_new(&world.loop);
    world.ops = *world.backend->ops;
    world.ops.file = fake_file;
    world.backend->ops = &world.ops;
    runtime_config_init(&runtime_config);
    runtime_config.run_dir = directory;
    runtime_config.state_dir = directory;
    runtime_config.max_sessions = 8;
    if (runtime_new(&world.loop, &runtime_config, world.backend, &world.runtime, &err) < 0)
        fail_msg("%s", err.message);
    api_config_init(&api_config);
    api_config.token = xstrdup(TOKEN);
    strings_add(&api_config.allowed_origins, "https://app.example");
    world.api = api_new(&world.loop, world.runtime, world.backend, &api_config);
    api_config_release(&api_config);
    world.server = http_server_new(&world.loop, &limits, api_handle, world.api);
    api_set_server(world.api, world.server);
    assert_int_equal(http_bind_tcp("127.0.0.1:0", &fd, &origin, &err), 0);
    http_address_text(fd, world.address, sizeof world.address);
    assert_int_equal(http_server_listen(world.server, fd, &err), 0);
    snprintf(world.unix_path, sizeof world.unix_path, "%s/sock", directory);
    assert_int_equal(http_bind_unix(world.unix_path, 0600, &fd, &err), 0);
    assert_int_equal(http_server_listen(world.server, fd, &err), 0);
    uv_async_init(&world.loop, &world.stop, on_stop);
}

static void *run_world(void *data)
{
    (void)data;
    open_world();
    pthread_barrier_wait(&world.barrier);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    runtime_free(world.runtime);
    world.backend->ops->close(world.backend);
    while (uv_run(&world.loop, UV_RUN_NOWAIT) != 0)
        ;
    uv_loop_close(&world.loop);
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    pthread_barrier_init(&world.barrier, NULL, 2);
    pthread_create(&world.thread, NULL, run_world, NULL);
    pthread_barrier_wait(&world.barrier);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (!world.stopping)
        uv_async_send(&world.stop);
    pthread_join(world.thread, NULL);
    cleanup_free char *command = xasprintf("rm -rf %s", directory);
    return system(command);
}

/* --- the client --- */

static struct http_client *client;
static json_t *document; /* /openapi.json */

static struct http_client *connect_client(const char *address, const char *token)
{
    struct http_client *made;
    struct error err = ERROR_INIT;
    if (http_client_connect(address, token, &made, &err) < 0)
        fail_msg("%s", err.message);
    return made;
}

static int call(const struct http_call *wanted)
{
    struct error err = ERROR_INIT;
    struct http_call limited = *wanted;
    limited.timeout_ms = 10000;
    if (!client)
        client = connect_client(world.unix_path, NULL);
    if (http_client_call(client, &limited, &err) < 0)
        fail_msg("%s", err.message);
    return http_client_status(client);
}

static char *answer(size_t *ret_size)
{
    struct error err = ERROR_INIT;
    char *text;
    size_t size;
    if (http_client_read_all(client, 64u << 20, &text, &size, &err) < 0)
        fail_msg("%s", err.message);
    if (ret_size)
        *ret_size = size;
    return text;
}

static int send_json(const char *method, const char *target, const char *body)
{
    return call(&(struct http_call){.method = method,
                                    .target = target,
                                    .type = body ? "application/json" : NULL,
                                    .body = body,
                                    .body_size = body ? strlen(body) : 0});
}

static void check_value(const json_t *value, const json_t *schema, const char *where);

static void check_object(const json_t *value, const json_t *schema, const char *where)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *others = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach((json_t *)value, key, member)
    {
        const json_t *inner = json_object_get(properties, key);
        cleanup_free char *place = xasprintf("%s.%s", where, key);
        if (properties && !inner)
            fail_msg("%s is not described", place);
        check_value(member, inner ? inner : others, place);
    }
    json_array_foreach(json_object_get(schema, "required"), i,
                       member) if (!json_object_get(value, json_string_value(member)))
        fail_msg("%s.%s is missing", where, json_string_value(member));
}

static bool has_type(const json_t *value, const char *type)
{
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value);
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    if (strcmp(type, "string") == 0)
        return json_is_string(value);
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value);
    return strcmp(type, "array") == 0 ? json_is_array(value) : json_is_object(value);
}

/* As much of JSON schema as /openapi.json uses for answers. */
static void check_value(const json_t *value, const json_t *schema, const char *where)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref)
        schema = json_object_get(
            json_object_get(json_object_get(document, "components"), "schemas"), ref + 21);
    if (!schema || (json_is_null(value) && json_is_true(json_object_get(schema, "nullable"))))
        return;
    const char *type = json_string_value(json_object_get(schema, "type"));
    if (!has_type(value, type))
        fail_msg("%s is no %s", where, type);
    const json_t *words = json_object_get(schema, "enum");
    json_t *item;
    size_t i;
    bool known = !words;
    json_array_foreach(words, i, item) known = known || json_equal(item, value);
    if (!known)
        fail_msg("%s is none of its words", where);
    if (json_is_object(value))
        check_object(value, schema, where);
    json_array_foreach(value, i, item) check_value(item, json_object_get(schema, "items"), where);
}

/* The answer, as its schema has it. */
static json_t *answer_as(const char *name)
{
    size_t size;
    cleanup_free char *text = answer(&size);
    assert_string_equal(http_client_header(client, "content-type"), "application/json");
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (!value)
        fail_msg("not JSON: %s", text);
    if (!document)
        return value;
    const json_t *schema =
        json_object_get(json_object_get(json_object_get(document, "components"), "schemas"), name);
    assert_non_null(schema);
    check_value(value, schema, name);
    return value;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void check_error(int status, int expected, const char *class, const char *part)
{
    cleanup_json json_t *value = answer_as("Error");
    const json_t *error = json_object_get(value, "error");
    if (!strstr(text_of(error, "message"), part))
        fail_msg("%s", text_of(error, "message"));
    assert_int_equal(status, expected);
    assert_string_equal(text_of(error, "code"), class);
}

/* The hint of a refusal. */
static void check_hint(int status, int expected, const char *part)
{
    cleanup_json json_t *value = answer_as("Error");
    const json_t *hint = json_object_get(json_object_get(value, "error"), "hint");
    assert_int_equal(status, expected);
    if (!hint || !strstr(json_string_value(hint), part))
        fail_msg("no '%s' in '%s'", part, hint ? json_string_value(hint) : "");
}

static void make_session(const char *name)
{
    cleanup_free char *body = xasprintf("{\"session_id\":\"%s\"}", name);
    int status = send_json("POST", "/v1/sessions", body);
    cleanup_json json_t *info = answer_as("Session");
    assert_true(status == 201 || status == 200);
    assert_string_equal(text_of(info, "session_id"), name);
}

static void end_session(const char *name)
{
    cleanup_free char *encoded = http_client_encode(name);
    cleanup_free char *target = xasprintf("/v1/sessions/%s", encoded);
    assert_int_equal(send_json("DELETE", target, NULL), 200);
    cleanup_json json_t *value = answer_as("Deleted");
    assert_string_equal(text_of(value, "deleted"), name);
}

/* --- tests --- */

static void test_openapi(void **state)
{
    (void)state;
    assert_int_equal(send_json("GET", "/openapi.json", NULL), 200);
    assert_non_null(http_client_header(client, "x-request-id"));
    json_t *value = answer_as(NULL);
    document = value;
}

static void test_sessions(void **state)
{
    (void)state;
    assert_int_equal(send_json("POST", "/v1/sessions", "{\"session_id\":\"a b\",\"cpus\":0.5}"),
                     201);
    json_decref(answer_as("Session"));
    assert_int_equal(send_json("POST", "/v1/sessions", "{\"session_id\":\"a b\",\"cpus\":0.5}"),
                     200);
    json_decref(answer_as("Session"));
    check_error(send_json("POST", "/v1/sessions", "{\"session_id\":\"a b\",\"cpus\":2}"), 409,
                "BoxSessionConflictError", "cpus");
    assert_int_equal(send_json("GET", "/v1/sessions/a%20b", NULL), 200);
    cleanup_json json_t *info = answer_as("SessionDetail");
    assert_string_equal(text_of(info, "network"), "off");
    assert_int_equal(send_json("GET", "/v1/sessions/a%20b/usage", NULL), 200);
    json_decref(answer_as("Usage"));
    assert_int_equal(send_json("GET", "/v1/usage", NULL), 200);
    json_decref(answer_as("UsageList"));
    end_session("a b");
    check_error(send_json("GET", "/v1/sessions/a%20b", NULL), 404, "BoxSessionNotFoundError",
                "no session 'a b'");
    check_hint(send_json("GET", "/v1/sessions/a%20b", NULL), 404, "GET /v1/sessions");
    check_error(send_json("DELETE", "/v1/sessions/a%20b", NULL), 404, "BoxSessionNotFoundError",
                "");
    check_error(send_json("POST", "/v1/sessions", "{\"session_id\":\"x\",\"image\":\"fail\"}"), 503,
                "BoxBackendUnavailableError", "");
}

static void test_list(void **state)
{
    (void)state;
    make_session("one");
    make_session("two");
    make_session("other");
    assert_int_equal(send_json("GET", "/v1/sessions?limit=2", NULL), 200);
    json_t *page = answer_as("SessionList");
    assert_int_equal(json_array_size(json_object_get(page, "sessions")), 2);
    assert_string_equal(text_of(page, "next"), "two");
    json_decref(page);
    assert_int_equal(send_json("GET", "/v1/sessions?limit=2&after=two", NULL), 200);
    page = answer_as("SessionList");
    assert_int_equal(json_array_size(json_object_get(page, "sessions")), 1);
    assert_null(json_object_get(page, "next"));
    json_decref(page);
    assert_int_equal(send_json("GET", "/v1/sessions?prefix=o&state=live", NULL), 200);
    page = answer_as("SessionList");
    assert_int_equal(json_array_size(json_object_get(page, "sessions")), 2);
    json_decref(page);
    check_error(send_json("GET", "/v1/sessions?after=nobody", NULL), 404, "BoxSessionNotFoundError",
                "after");
    end_session("one");
    end_session("two");
    end_session("other");
}

static void test_capacity(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "c%d", i);
        make_session(name);
    }
    check_error(send_json("POST", "/v1/sessions", "{\"session_id\":\"c8\"}"), 429,
                "BoxCapacityExceededError", "");
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "c%d", i);
        end_session(name);
    }
}

static json_t *exec(const char *target, const char *body)
{
    int status = send_json("POST", target, body);
    json_t *value = answer_as("ExecResult");
    assert_int_equal(status, 200);
    return value;
}

static void test_exec(void **state)
{
    (void)state;
    check_error(send_json("POST", "/v1/sessions/e/exec", "{\"cmd\":\"true\"}"), 404,
                "BoxSessionNotFoundError", "no session 'e'");
    json_t *result = exec("/v1/sessions/e/exec", "{\"cmd\":\"echo hi\",\"spec\":{}}");
    assert_non_null(strstr(text_of(result, "stdout"), "hi"));
    assert_int_equal(json_integer_value(json_object_get(result, "exit_code")), 0);
    assert_string_equal(text_of(result, "status"), "completed");
    json_decref(result);
    result = exec("/v1/exec", "{\"session_id\":\"e\",\"cmd\":\"exit 3\"}");
    assert_int_equal(json_integer_value(json_object_get(result, "exit_code")), 3);
    json_decref(result);
    result = exec("/v1/sessions/e/exec", "{\"cmd\":\"cat\",\"stdin\":\"\xc3\xa4 \\n b\"}");
    assert_string_equal(text_of(result, "stdout"), "\xc3\xa4 \n b");
    json_decref(result);
    result = exec("/v1/sessions/e/exec",
                  "{\"argv\":[\"cat\"],\"stdin_base64\":\"/wA=\",\"encoding\":\"base64\"}");
    assert_string_equal(text_of(result, "stdout"), "/wA=");
    json_decref(result);
    result = exec("/v1/sessions/e/exec", "{\"cmd\":\"cat\",\"stdin_base64\":\"/wBh\"}");
    assert_int_equal(json_integer_value(json_object_get(result, "stdout_bytes")), 3);
    json_decref(result);
    result = exec("/v1/sessions/e/exec", "{\"cmd\":\"hang\",\"timeout_sec\":0.05}");
    assert_string_equal(text_of(result, "status"), "timed_out");
    assert_true(json_is_null(json_object_get(result, "exit_code")));
    json_decref(result);
    result = exec("/v1/sessions/e/exec", "{\"cmd\":\"oom\"}");
    assert_string_equal(text_of(result, "cause"), "oom");
    assert_string_equal(text_of(result, "signal"), "SIGKILL");
    json_decref(result);
    check_error(send_json("POST", "/v1/sessions/e/exec", "{\"cmd\":\"fail\"}"), 404,
                "BoxValidationError", "no program");
    end_session("e");
}

/* Larger than what is parsed on the loop. */
static void test_large_body(void **state)
{
    (void)state;
    size_t size = 1u << 20;
    cleanup_free char *text = xmalloc(size + 1);
    memset(text, 'x', size);
    text[size] = '\0';
    cleanup_free char *body =
        xasprintf("{\"session_id\":\"b\",\"cmd\":\"cat\",\"stdin\":\"%s\"}", text);
    json_t *result = exec("/v1/exec", body);
    assert_string_equal(text_of(result, "stdout"), text);
    json_decref(result);
    body[strlen(body) - 1] = ' ';
    check_error(send_json("POST", "/v1/exec", body), 400, "BoxValidationError", "not JSON");
    end_session("b");
}

static void test_exec_large(void **state)
{
    (void)state;
    json_t *result = exec("/v1/exec", "{\"session_id\":\"l\",\"cmd\":\"flood 3000000\"}");
    assert_int_equal(json_string_length(json_object_get(result, "stdout")), 1 << 20);
    assert_int_equal(json_integer_value(json_object_get(result, "stdout_bytes")), 3000000);
    assert_true(json_is_true(json_object_get(result, "stdout_truncated")));
    cleanup_free char *target =
        xasprintf("/v1/sessions/l/execs/%lld/log?offset=1048576&limit=100",
                  (long long)json_integer_value(json_object_get(result, "exec_id")));
    json_decref(result);
    assert_int_equal(send_json("GET", target, NULL), 200);
    size_t size;
    free(answer(&size));
    assert_int_equal(size, 100);
    assert_string_equal(http_client_header(client, "x-log-next"), "1048676");
    assert_string_equal(http_client_header(client, "x-log-total"), "3000000");
    assert_string_equal(http_client_header(client, "x-log-running"), "false");
    check_error(send_json("GET", "/v1/sessions/l/execs/99/log", NULL), 404, "BoxValidationError",
                "");
    check_error(send_json("GET", "/v1/sessions/l/execs/x/log", NULL), 404, "BoxValidationError",
                "");
    end_session("l");
}

static void test_stream(void **state)
{
    (void)state;
    make_session("s");
    assert_int_equal(
        send_json("POST", "/v1/sessions/s/exec", "{\"cmd\":\"echo hi\",\"stream\":true}"), 200);
    assert_string_equal(http_client_header(client, "content-type"), "text/event-stream");
    cleanup_free char *events = answer(NULL);
    assert_memory_equal(events, "event: started\ndata: {\"exec_id\":1}\n\n", 36);
    assert_non_null(strstr(events, "\n\nevent: stdout\ndata: {\"data\":\"hi"));
    char *last = strstr(events, "\n\nevent: result\ndata: {\"session_id\":\"s\"");
    assert_non_null(last);
    assert_non_null(strstr(last, "\"stdout\":\"\""));

    /* What fails before it began is a plain error. */
    check_error(
        send_json("POST", "/v1/sessions/nobody/exec", "{\"cmd\":\"echo hi\",\"stream\":true}"), 404,
        "BoxSessionNotFoundError", "");

    static const char *const accept[] = {"Accept: text/event-stream", NULL};
    const char *body = "{\"argv\":[\"flood\",\"5000000\"],\"encoding\":\"base64\"}";
    assert_int_equal(call(&(struct http_call){.method = "POST",
                                              .target = "/v1/sessions/s/exec",
                                              .type = "application/json",
                                              .headers = accept,
                                              .body = body,
                                              .body_size = strlen(body)}),
                     200);
    size_t size;
    cleanup_free char *large = answer(&size);
    assert_true(size > 5000000 * 4 / 3);
    assert_non_null(strstr(large + size - 1000, "event: result"));
    end_session("s");
}

/* Who leaves ends their command: the next one has its turn. */
static void test_leave(void **state)
{
    (void)state;
    make_session("g");
    struct http_client *saved = client;
    struct error err = ERROR_INIT;
    client = connect_client(world.unix_path, NULL);
    const char *body = "{\"cmd\":\"hang\",\"stream\":true}";
    struct http_call hang = {.method = "POST",
                             .target = "/v1/sessions/g/exec",
                             .type = "application/json",
                             .body = body,
                             .body_size = strlen(body)};
    assert_int_equal(http_client_call(client, &hang, &err), 0);
    http_client_free(client);
    client = saved;
    json_decref(exec("/v1/sessions/g/exec", "{\"cmd\":\"true\"}"));
    end_session("g");
}

static void test_bad_bodies(void **state)
{
    (void)state;
    check_error(send_json("POST", "/v1/sessions", "{"), 400, "BoxValidationError", "not JSON");
    check_error(send_json("POST", "/v1/sessions", "[]"), 400, "BoxValidationError",
                "must be a JSON object");
    check_error(send_json("POST", "/v1/sessions", "{\"session_id\":\"a\",\"session_id\":\"b\"}"),
                400, "BoxValidationError", "duplicate");
    check_error(send_json("POST", "/v1/sessions", NULL), 400, "BoxValidationError",
                "the body is empty");
    check_error(send_json("POST", "/v1/sessions", "{"), 400, "BoxValidationError", "not JSON");
    check_error(send_json("POST", "/v1/exec", "{\"session_id\":\"a\",\"cmd\":\"x\",\"stdn\":\"\"}"),
                400, "BoxValidationError", "did you mean \"stdin\"");
    check_error(call(&(struct http_call){.method = "POST",
                                         .target = "/v1/sessions",
                                         .type = "text/plain",
                                         .body = "{}",
                                         .body_size = 2}),
                415, "BoxValidationError", "application/json");
    size_t size = (16u << 20) + 1;
    cleanup_free char *huge = xmalloc(size);
    memset(huge, ' ', size);
    check_error(call(&(struct http_call){.method = "POST",
                                         .target = "/v1/sessions",
                                         .type = "application/json",
                                         .body = huge,
                                         .body_size = size}),
                413, "BoxValidationError", "");
    check_error(send_json("GET", "/v1/nothing", NULL), 404, "BoxValidationError", "nothing");
    check_error(send_json("PUT", "/v1/sessions", NULL), 405, "BoxValidationError", "method");
    assert_string_equal(http_client_header(client, "allow"), "POST, GET, HEAD");
    check_error(send_json("GET", "/v1/sessions/%zz", NULL), 400, "BoxValidationError", "percent");
    check_error(send_json("GET", "/v1/sessions?limit=x", NULL), 400, "BoxValidationError", "limit");
}

static int get_with(struct http_client *from, const char *target, const char *header)
{
    struct error err = ERROR_INIT;
    const char *const headers[] = {header, NULL};
    struct http_call wanted = {.target = target, .headers = headers};
    if (http_client_call(from, &wanted, &err) < 0)
        fail_msg("%s", err.message);
    return http_client_status(from);
}

static void check_refusal(struct http_client *from, const char *header, const char *part)
{
    size_t size;
    struct error err = ERROR_INIT;
    char *body = NULL;
    assert_int_equal(get_with(from, "/v1/status", header), 401);
    assert_int_equal(http_client_read_all(from, 4096, &body, &size, &err), 0);
    if (!strstr(body, part))
        fail_msg("no '%s' in %s", part, body);
    free(body);
}

static void test_who(void **state)
{
    (void)state;
    struct http_client *nobody = connect_client(world.address, NULL);
    assert_int_equal(get_with(nobody, "/healthz", NULL), 200);
    check_refusal(nobody, NULL, "has none");
    assert_string_equal(http_client_header(nobody, "www-authenticate"), "Bearer realm=\"boxd\"");
    assert_int_equal(get_with(nobody, "/v1/nothing", NULL), 401);
    assert_int_equal(get_with(nobody, "/v1/status", "Origin: http://evil.example"), 403);
    /* A page that may ask is told so, before it has shown a token. */
    static const char *const preflight[] = {"Origin: https://app.example",
                                            "Access-Control-Request-Method: POST", NULL};
    struct error err = ERROR_INIT;
    struct http_call options = {.method = "OPTIONS", .target = "/v1/exec", .headers = preflight};
    assert_int_equal(http_client_call(nobody, &options, &err), 0);
    assert_int_equal(http_client_status(nobody), 204);
    assert_string_equal(http_client_header(nobody, "access-control-allow-origin"),
                        "https://app.example");
    assert_non_null(strstr(http_client_header(nobody, "access-control-allow-headers"), "If-Match"));
    assert_int_equal(get_with(nobody, "/v1/status", "Origin: https://app.example"), 401);
    http_client_free(nobody);
    struct http_client *somebody = connect_client(world.address, TOKEN);
    assert_int_equal(get_with(somebody, "/v1/status", "X-Request-Id: my-id.1"), 200);
    assert_string_equal(http_client_header(somebody, "x-request-id"), "my-id.1");
    assert_int_equal(get_with(somebody, "/v1/status", "X-Request-Id: a b<c>"), 200);
    assert_string_not_equal(http_client_header(somebody, "x-request-id"), "a b<c>");
    http_client_free(somebody);
    struct http_client *wrong = connect_client(world.address, TOKEN "x");
    check_refusal(wrong, NULL, "the token is wrong");
    http_client_free(wrong);
}

static void test_heads(void **state)
{
    (void)state;
    static const char *const paths[] = {"/healthz", "/v1/status", "/v1/sessions", "/metrics"};
    size_t size;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        assert_int_equal(send_json("HEAD", paths[i], NULL), 200);
        assert_string_not_equal(http_client_header(client, "content-length"), "0");
        free(answer(&size));
        assert_int_equal(size, 0);
    }
    assert_int_equal(send_json("HEAD", "/v1/sessions/nobody", NULL), 404);
    assert_int_equal(send_json("HEAD", "/v1/events", NULL), 405);
}

static void test_status(void **state)
{
    (void)state;
    assert_int_equal(send_json("GET", "/v1/status", NULL), 200);
    json_decref(answer_as("Status"));
    assert_int_equal(send_json("GET", "/v1/capabilities", NULL), 200);
    json_decref(answer_as("Capabilities"));
    assert_int_equal(send_json("GET", "/healthz", NULL), 200);
    cleanup_json json_t *health = answer_as("Health");
    assert_true(
        json_integer_value(json_object_get(json_object_get(health, "resources"), "open_fds")) > 3);
    assert_int_equal(send_json("GET", "/readyz", NULL), 200);
    json_decref(answer_as("Readiness"));
}

/* What promtool checks: a TYPE before the samples, names as they should be, histograms cumulative
   and complete. */
static void test_metrics(void **state)
{
    (void)state;
    assert_int_equal(send_json("GET", "/metrics", NULL), 200);
    assert_string_equal(http_client_header(client, "content-type"),
                        "text/plain; version=0.0.4; charset=utf-8");
    size_t size;
    cleanup_free char *text = answer(&size);
    static const char *const wanted[] = {
        "\nboxd_sessions 0\n",
        "\nboxd_managed_processes 0\n",
        "\nboxd_commands_total{outcome=\"",
        "# TYPE boxd_commands_total counter\n",
        "# TYPE boxd_session_create_seconds histogram\n",
        "\nboxd_exec_seconds_bucket{le=\"+Inf\"} ",
        "\nboxd_session_delete_seconds_count ",
        "\nboxd_http_requests_total ",
        "\nboxd_http_bytes_total{direction=\"in\"} ",
        "\nboxd_output_bytes_total ",
        "\nboxd_sessions_reaped_total 0\n",
        "\nboxd_event_loop_lag_seconds_sum ",
        "# TYPE process_open_fds gauge\n",
        "\nprocess_resident_memory_bytes ",
        "\nboxd_build_info{version=\"",
    };
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (!strstr(text, wanted[i]))
            fail_msg("%s is not there", wanted[i]);
    assert_int_equal(text[size - 1], '\n');
    char family[128] = "";
    char type[32] = "";
    double last = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        char name[128];
        if (sscanf(line, "# TYPE %127s %31s", family, type) == 2) {
            last = 0;
            assert_true(strcmp(type, "counter") != 0 || strstr(family, "_total"));
            continue;
        }
        if (line[0] == '#')
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "{ "), line);
        assert_memory_equal(name, family, strlen(family));
        const char *value = strrchr(line, ' ');
        char *end;
        double number = strtod(value + 1, &end);
        assert_int_equal(*end, '\0');
        if (strstr(name, "_bucket")) {
            assert_true(number >= last);
            last = number;
        } else if (strcmp(type, "histogram") == 0 && strstr(name, "_count")) {
            assert_true(number == last);
        }
    }
}

static void test_events(void **state)
{
    (void)state;
    struct http_client *watcher = connect_client(world.unix_path, NULL);
    struct error err = ERROR_INIT;
    char text[8192];
    size_t used = 0;
    assert_int_equal(get_with(watcher, "/v1/events?session=ev", NULL), 200);
    make_session("not-ev");
    make_session("ev");
    json_decref(exec("/v1/sessions/ev/exec", "{\"cmd\":\"exit 4\"}"));
    end_session("ev");
    end_session("not-ev");
    do {
        ssize_t n = http_client_read(watcher, text + used, sizeof text - 1 - used, &err);
        assert_true(n > 0);
        used += (size_t)n;
        text[used] = '\0';
    } while (!strstr(text, "event: session_deleted"));
    assert_non_null(strstr(text, "event: session_created\ndata: {\"type\":\"session_created\""));
    assert_non_null(strstr(text, "event: exec_started\n"));
    assert_non_null(strstr(text, "\"exit_code\":4"));
    assert_null(strstr(text, "not-ev"));
    http_client_free(watcher);
}

static void test_processes(void **state)
{
    (void)state;
    make_session("p");
    assert_int_equal(send_json("POST", "/v1/sessions/p/processes",
                               "{\"command\":\"hang\",\"env\":{\"B\":\"secret\",\"A\":\"\"}}"),
                     201);
    json_t *info = answer_as("Process");
    assert_string_equal(text_of(info, "process_id"), "default");
    assert_string_equal(text_of(info, "status"), "running");
    cleanup_free char *keys = json_dumps(json_object_get(info, "env_keys"), JSON_COMPACT);
    assert_string_equal(keys, "[\"A\",\"B\"]");
    json_decref(info);
    assert_int_equal(send_json("POST", "/v1/sessions/p/processes",
                               "{\"command\":\"echo\",\"args\":[\"hello\"],\"process_id\":\"e\"}"),
                     201);
    json_decref(answer_as("Process"));
    assert_int_equal(send_json("GET", "/v1/sessions/p/processes", NULL), 200);
    json_t *list = answer_as("ProcessList");
    assert_int_equal(json_array_size(json_object_get(list, "processes")), 2);
    json_decref(list);

    /* Ends by itself, and with it what follows. */
    assert_int_equal(send_json("GET", "/v1/sessions/p/processes/e/log?follow=true", NULL), 200);
    cleanup_free char *log = answer(NULL);
    assert_memory_equal(log, "hello", 5);
    assert_int_equal(send_json("GET", "/v1/sessions/p/processes/e/log?offset=1&limit=2", NULL),
                     200);
    cleanup_free char *part = answer(NULL);
    assert_string_equal(part, "el");
    assert_string_equal(http_client_header(client, "x-log-next"), "3");
    assert_string_equal(http_client_header(client, "x-log-running"), "false");
    assert_int_equal(send_json("GET", "/v1/sessions/p/processes/e", NULL), 200);
    info = answer_as("Process");
    assert_string_equal(text_of(info, "status"), "exited");
    json_decref(info);

    check_error(send_json("POST", "/v1/sessions/p/processes/e/signal", "{\"signal\":\"TERM\"}"),
                409, "BoxManagedProcessConflictError", "");
    check_error(send_json("POST", "/v1/sessions/p/processes/default/signal", "{\"signal\":\"X\"}"),
                400, "BoxValidationError", "signal");
    assert_int_equal(
        send_json("POST", "/v1/sessions/p/processes/default/signal", "{\"signal\":\"USR1\"}"), 200);
    json_decref(answer_as("Signalled"));
    assert_int_equal(send_json("DELETE", "/v1/sessions/p/processes/default", NULL), 200);
    json_decref(answer_as("Stopped"));
    check_error(send_json("GET", "/v1/sessions/p/processes/default", NULL), 404,
                "BoxManagedProcessNotFoundError", "");
    end_session("p");
}

/* --- websockets --- */

static struct ws_client *open_socket(const char *target, const char *protocol, struct error *err)
{
    struct ws_client *ws;
    if (ws_client_connect(world.unix_path, NULL, target, protocol, &ws, err) < 0)
        return NULL;
    return ws;
}

static void expect_text(struct ws_client *ws, const char *expected)
{
    struct ws_message message;
    struct error err = ERROR_INIT;
    int rc = ws_client_receive(ws, &message, &err);
    if (rc < 0)
        fail_msg("%s", err.message);
    assert_int_equal(rc, 1);
    assert_true(message.text);
    assert_string_equal(message.data, expected);
}

static void expect_close(struct ws_client *ws, int code)
{
    struct ws_message message;
    struct error err = ERROR_INIT;
    assert_int_equal(ws_client_receive(ws, &message, &err), 0);
    assert_int_equal(message.close_code, code);
}

static void test_relay(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_null(open_socket("/v1/sessions/r/managed-process/ws", "mcp", &err));
    assert_non_null(strstr(err.message, "400"));
    assert_non_null(strstr(err.message, "BoxSessionNotFoundError"));
    make_session("r");
    assert_null(open_socket("/v1/sessions/r/managed-process/x/ws", "mcp", &err));
    assert_non_null(strstr(err.message, "BoxManagedProcessNotFoundError"));
    assert_int_equal(send_json("POST", "/v1/sessions/r/processes", "{\"command\":\"cat\"}"), 201);
    json_decref(answer_as("Process"));

    struct ws_client *first = open_socket("/v1/sessions/r/managed-process/ws", "mcp", &err);
    if (!first)
        fail_msg("%s", err.message);
    assert_int_equal(ws_client_send(first, true, "one", 3, &err), 0);
    expect_text(first, "one");
    assert_int_equal(ws_client_send(first, true, "two\nthree", 9, &err), 0);
    expect_text(first, "two");
    expect_text(first, "three");

    /* The next waits its turn, and what it sent meanwhile is not lost. */
    struct ws_client *second =
        open_socket("/v1/sessions/r/managed-process/default/ws", "mcp", &err);
    assert_non_null(second);
    assert_int_equal(ws_client_send(second, true, "mine", 4, &err), 0);
    assert_int_equal(ws_client_send(first, true, "still first", 11, &err), 0);
    expect_text(first, "still first");
    assert_int_equal(ws_client_close(first, 1000, NULL, &err), 0);
    expect_close(first, 1000);
    ws_client_free(first);
    expect_text(second, "mine");

    /* A large message goes through whole. */
    size_t size = 3u << 20;
    cleanup_free char *large = xmalloc(size + 1);
    memset(large, 'x', size);
    large[size] = '\0';
    assert_int_equal(ws_client_send(second, true, large, size, &err), 0);
    expect_text(second, large);
    ws_client_free(second);

    /* From the start again. */
    struct ws_client *third = open_socket("/v1/sessions/r/managed-process/ws?since=2", "mcp", &err);
    assert_non_null(third);
    assert_int_equal(ws_client_send(third, true, "end", 3, &err), 0);
    struct ws_message message;
    do
        assert_int_equal(ws_client_receive(third, &message, &err), 1);
    while (strcmp(message.data, "end") != 0);
    assert_int_equal(send_json("DELETE", "/v1/sessions/r/processes/default", NULL), 200);
    json_decref(answer_as("Stopped"));
    expect_close(third, 1000);
    ws_client_free(third);
    end_session("r");
}

static void test_pty(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_null(open_socket("/v1/sessions/t/pty/ws", NULL, &err));
    assert_non_null(strstr(err.message, "404"));
    make_session("t");
    struct ws_client *ws = open_socket("/v1/sessions/t/pty/ws?rows=5&cols=10&cmd=cat", NULL, &err);
    if (!ws)
        fail_msg("%s", err.message);
    static const char resize[] = "{\"type\":\"resize\",\"rows\":6,\"cols\":7}";
    assert_int_equal(ws_client_send(ws, true, resize, sizeof resize - 1, &err), 0);
    assert_int_equal(ws_client_send(ws, false, "\x01\xff", 2, &err), 0);
    struct ws_message message;
    assert_int_equal(ws_client_receive(ws, &message, &err), 1);
    assert_false(message.text);
    assert_memory_equal(message.data, "\x01\xff", 2);
    assert_int_equal(ws_client_send(ws, true, "{\"type\":\"what\"}", 15, &err), 0);
    expect_close(ws, 1008);
    ws_client_free(ws);
    ws = open_socket("/v1/sessions/t/pty/ws?cmd=fail", NULL, &err);
    assert_non_null(ws);
    assert_int_equal(ws_client_receive(ws, &message, &err), 1);
    assert_true(message.text);
    assert_memory_equal(message.data, "{\"type\":\"error\",\"error\":{\"code\":", 31);
    expect_close(ws, 1011);
    ws_client_free(ws);
    end_session("t");
}

/* --- files --- */

#define F "/v1/sessions/f/files"

static int put(const char *target, const char *data, size_t size)
{
    return call(
        &(struct http_call){.method = "PUT", .target = target, .body = data, .body_size = size});
}

static int get_range(const char *target, const char *range)
{
    cleanup_free char *header = xasprintf("Range: %s", range);
    const char *const headers[] = {header, NULL};
    return call(&(struct http_call){.target = target, .headers = headers});
}

static void test_files(void **state)
{
    (void)state;
    make_session("f");
    size_t size = 5u << 20;
    cleanup_free char *data = xmalloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 7 >> 3);
    assert_int_equal(put(F "/x%20y", data, size), 201);
    cleanup_json json_t *written = answer_as("FileWritten");
    assert_string_equal(text_of(written, "path"), "/x y");
    assert_int_equal(json_integer_value(json_object_get(written, "size")), size);
    assert_int_equal(put(F "/x%20y", data, size), 200);
    json_decref(answer_as("FileWritten"));

    assert_int_equal(send_json("GET", F "/x%20y", NULL), 200);
    size_t back_size;
    cleanup_free char *back = answer(&back_size);
    assert_int_equal(back_size, size);
    assert_memory_equal(back, data, size);
    assert_string_equal(http_client_header(client, "x-file-mode"), "0644");
    assert_non_null(http_client_header(client, "last-modified"));

    assert_int_equal(get_range(F "/x%20y", "bytes=10-19"), 206);
    assert_string_equal(http_client_header(client, "content-range"), "bytes 10-19/5242880");
    cleanup_free char *part = answer(&back_size);
    assert_int_equal(back_size, 10);
    assert_memory_equal(part, data + 10, 10);
    assert_int_equal(get_range(F "/x%20y", "bytes=-3"), 206);
    assert_string_equal(http_client_header(client, "content-range"),
                        "bytes 5242877-5242879/5242880");
    cleanup_free char *tail = answer(&back_size);
    assert_memory_equal(tail, data + size - 3, 3);
    check_error(get_range(F "/x%20y", "bytes=5242880-"), 416, "BoxValidationError", "");
    assert_string_equal(http_client_header(client, "content-range"), "bytes */5242880");

    assert_int_equal(send_json("HEAD", F "/x%20y", NULL), 200);
    assert_string_equal(http_client_header(client, "content-length"), "5242880");
    assert_int_equal(send_json("GET", F "/x%20y?stat", NULL), 200);
    cleanup_json json_t *stat = answer_as("FileAnswer");
    assert_string_equal(text_of(stat, "type"), "file");
    assert_string_equal(text_of(stat, "mode"), "0644");
    end_session("f");
}

static void test_directories(void **state)
{
    (void)state;
    make_session("f");
    assert_int_equal(send_json("POST", F "/d?op=mkdir", NULL), 201);
    json_decref(answer_as("FileMade"));
    assert_int_equal(put(F "/d/b", "", 0), 201);
    json_decref(answer_as("FileWritten"));
    assert_int_equal(put(F "/d/a%FF", "1", 1), 201);
    json_decref(answer_as("FileWritten"));
    assert_int_equal(send_json("POST", F "/d/b?op=move&to=/d/c", NULL), 200);
    json_decref(answer_as("FileMoved"));
    assert_int_equal(send_json("GET", F "/d?list", NULL), 200);
    cleanup_json json_t *list = answer_as("FileAnswer");
    const json_t *entries = json_object_get(list, "entries");
    assert_int_equal(json_array_size(entries), 2);
    assert_string_equal(text_of(json_array_get(entries, 0), "name"), "a\xef\xbf\xbd");
    assert_string_equal(text_of(json_array_get(entries, 1), "name"), "c");
    check_error(send_json("DELETE", F "/d", NULL), 409, "BoxValidationError", "");
    check_hint(send_json("GET", F "/d", NULL), 400, "?list");
    check_error(send_json("GET", F "/nope", NULL), 404, "BoxValidationError", "");
    check_error(send_json("GET", F "/a/../b", NULL), 400, "BoxValidationError", "..");
    check_error(send_json("POST", F "/d?op=move", NULL), 400, "BoxValidationError", "to");
    check_error(send_json("POST", F "/d?op=fly", NULL), 400, "BoxValidationError", "op");
    check_error(put(F "/full", "1234", 4), 507, "BoxError", "");
    check_error(put(F "/x?mode=9", "", 0), 400, "BoxValidationError", "mode");
    assert_int_equal(send_json("DELETE", F "/d/c", NULL), 200);
    json_decref(answer_as("Deleted"));
    end_session("f");
}

static void test_speed(void **state)
{
    (void)state;
    const int rounds = 2000;
    make_session("fast");
    uint64_t begin = clock_monotonic_ns();
    for (int i = 0; i < rounds; i++) {
        assert_int_equal(send_json("POST", "/v1/sessions/fast/exec", "{\"cmd\":\"true\"}"), 200);
        free(answer(NULL));
    }
    uint64_t exec_ns = (clock_monotonic_ns() - begin) / (uint64_t)rounds;
    begin = clock_monotonic_ns();
    for (int i = 0; i < rounds; i++) {
        assert_int_equal(send_json("GET", "/v1/sessions/fast", NULL), 200);
        free(answer(NULL));
    }
    uint64_t get_ns = (clock_monotonic_ns() - begin) / (uint64_t)rounds;
    print_message("a command on the null backend: %llu us; a look at a session: %llu us\n",
                  (unsigned long long)exec_ns / 1000, (unsigned long long)get_ns / 1000);
    end_session("fast");
}

/* The last: the server is stopped while these are open. */
static void test_stop(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    make_session("z");
    assert_int_equal(send_json("POST", "/v1/sessions/z/processes", "{\"command\":\"cat\"}"), 201);
    json_decref(answer_as("Process"));
    struct ws_client *relay = open_socket("/v1/sessions/z/managed-process/ws", "mcp", &err);
    struct ws_client *pty = open_socket("/v1/sessions/z/pty/ws?cmd=cat", NULL, &err);
    assert_non_null(relay);
    assert_non_null(pty);
    struct http_client *events = connect_client(world.unix_path, NULL);
    assert_int_equal(get_with(events, "/v1/events", NULL), 200);
    assert_int_equal(ws_client_send(relay, true, "x", 1, &err), 0);
    expect_text(relay, "x");
    world.stopping = true;
    uv_async_send(&world.stop);
    expect_close(relay, 1001);
    expect_close(pty, 1001);
    char text[4096];
    ssize_t n;
    while ((n = http_client_read(events, text, sizeof text, &err)) > 0)
        ;
    assert_int_equal(n, 0);
    http_client_free(events);
    ws_client_free(relay);
    ws_client_free(pty);
    http_client_free(client);
    client = NULL;
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openapi),    cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_list),       cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_exec),       cmocka_unit_test(test_large_body),
        cmocka_unit_test(test_exec_large), cmocka_unit_test(test_stream),
        cmocka_unit_test(test_leave),      cmocka_unit_test(test_bad_bodies),
        cmocka_unit_test(test_who),        cmocka_unit_test(test_status),
        cmocka_unit_test(test_heads),      cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_events),     cmocka_unit_test(test_processes),
        cmocka_unit_test(test_relay),      cmocka_unit_test(test_pty),
        cmocka_unit_test(test_files),      cmocka_unit_test(test_directories),
        cmocka_unit_test(test_speed),      cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
