/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's RPC for a peer without tenancy: the envelope, every action, uploads, and what it costs
   to be hostile. */
#include "rpc-world.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/rpc-seq.h"
#include "core/base64.h"
#include "core/fd.h"
#include "core/sha256.h"

static struct peer peer;

static int open_plain(void **state)
{
    (void)state;
    world_open(NULL);
    peer_open(&peer, NULL);
    return 0;
}

static int close_plain(void **state)
{
    (void)state;
    if (peer.conn)
        peer_close(&peer);
    world_close(false);
    return 0;
}

static const struct error *error_of(enum error_code code)
{
    static struct error err;
    error_set(&err, code, "told");
    return &err;
}

/* --- the envelope --- */

static void test_messages_that_are_no_requests(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "nonsense",
        "[]",
        "7",
        "null",
        "\"text\"",
        "{}",
        "{\"seq_id\":1}",
        "{\"seq_id\":1,\"data\":{}}",
        "{\"seq_id\":1,\"code\":0,\"message\":\"\",\"data\":{}}",
        "{\"seq_id\":1,\"code\":0,\"action\":\"__ping\",\"data\":{}}",
        "\xff\xfe",
        "{\"seq_id\":1,\"action\":\"__ping\",\"data\":{}",
        "{\"seq_id\":1,}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        peer_say(&peer, texts[i]);
    peer.seq = 100;
    assert_int_equal(json_object_size(ask(&peer, NULL, "__ping", "{}")), 0);
    assert_int_equal(json_array_size(peer.answers), 1);
}

static void test_envelopes_that_are_wrong(void **state)
{
    static const struct {
        const char *text;
        long seq;
        const char *class;
        const char *words;
    } cases[] = {
        {"{\"seq_id\":1,\"action\":\"nothing\",\"data\":{}}", 1, "ValueError", "nothing"},
        {"{\"seq_id\":2,\"action\":\"BOX_EXEC\",\"data\":{}}", 2, "ValueError", "BOX_EXEC"},
        {"{\"seq_id\":3,\"action\":\"__ping\\u0000x\",\"data\":{}}", 3, "ValueError", NULL},
        {"{\"seq_id\":4,\"action\":7,\"data\":{}}", 4, "ValidationError", "action"},
        {"{\"seq_id\":5,\"action\":null,\"data\":{}}", 5, "ValidationError", "action"},
        {"{\"seq_id\":6,\"action\":\"__ping\"}", 6, "ValidationError", "data"},
        {"{\"seq_id\":7,\"action\":\"__ping\",\"data\":[]}", 7, "ValidationError", "data"},
        {"{\"action\":\"__ping\",\"data\":{}}", -1, "ValidationError", "seq_id"},
        {"{\"seq_id\":8,\"action\":\"__ping\",\"data\":{},\"context\":7}", 8, "ValidationError",
         "context"},
        {"{\"seq_id\":9,\"action\":\"__ping\",\"data\":{},\"context\":{}}", 9, "ValidationError",
         "context"},
        {"{\"seq_id\":10,\"action\":\"__ping\",\"data\":{},\"context\":{\"instance_uuid\":\"a\","
         "\"workspace_uuid\":\"b\",\"placement_generation\":1}}",
         10, "PermissionError", "context"},
        {"{\"seq_id\":11,\"action\":\"\",\"data\":{}}", 11, "ValueError", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        peer_say(&peer, cases[i].text);
        assert_error(peer_answer(&peer, cases[i].seq), cases[i].class, cases[i].words);
    }
    assert_int_equal(json_array_size(peer.answers), ARRAY_SIZE(cases));
}

/* What the number was made of comes back, digit by digit. */
static void test_seq_as_it_came(void **state)
{
    static const struct {
        const char *text;
        const char *seq;
    } cases[] = {
        {"{\"seq_id\":0}", "0"},
        {"{\"seq_id\":-5}", "-5"},
        {"{\"seq_id\":9223372036854775807}", "9223372036854775807"},
        {"{\"seq_id\":9223372036854775808}", "9223372036854775808"},
        {"{\"data\":{\"seq_id\":1,\"x\":[{\"seq_id\":2}]},\"seq_id\" "
         ":\n-123456789012345678901234567890 }",
         "-123456789012345678901234567890"},
        {"{\"seq_id\":1,\"seq_id\":99999999999999999999}", "99999999999999999999"},
        {"{\"a\":\"\\\"seq_id\\\":5\",\"seq_id\":88888888888888888888,\"b\":{}}",
         "88888888888888888888"},
        {"{\"seq_id\":1.5}", NULL},
        {"{\"seq_id\":1e400}", NULL},
        {"{\"seq_id\":NaN}", NULL},
        {"{\"seq_id\":\"5\"}", NULL},
        {"{\"seq_id\":true}", NULL},
        {"{}", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err = ERROR_INIT;
        cleanup_json json_t *message = NULL;
        assert_int_equal(json_parse_lax(cases[i].text, strlen(cases[i].text), &message, &err), 0);
        cleanup_free char *seq = rpc_seq_text(message, cases[i].text, strlen(cases[i].text));
        if (cases[i].seq)
            assert_string_equal(seq, cases[i].seq);
        else
            assert_null(seq);
    }
}

static void test_large_messages_are_parsed_aside(void **state)
{
    size_t size = 3u << 20;
    (void)state;
    cleanup_free char *filler = xmalloc(size + 1);
    memset(filler, 'x', size);
    filler[size] = '\0';
    cleanup_free char *text =
        xasprintf("{\"seq_id\":1,\"action\":\"__ping\",\"data\":{\"x\":\"%s\"}}", filler);
    peer_say(&peer, text);
    assert_true(peer.paused);
    assert_true(rpc_conn_busy(peer.conn));
    assert_number(peer_answer(&peer, 1), "code", 0);
    assert_false(peer.paused);
    /* One that leaves meanwhile. */
    peer_say(&peer, text);
    peer_close(&peer);
}

/* --- many at once, and going away --- */

static bool nothing_runs(void *data)
{
    struct runtime_stats stats;
    (void)data;
    runtime_stats(world.runtime, &stats);
    return stats.executions == 0;
}

static bool something_runs(void *data)
{
    return !nothing_runs(data);
}

static void test_the_129th(void **state)
{
    (void)state;
    for (int i = 0; i < RPC_INFLIGHT_MAX; i++)
        peer_ask(&peer, NULL, "box_exec", "{'cmd':'hang','session_id':'one','timeout_sec':900}");
    world_turn();
    assert_int_equal(json_array_size(peer.answers), 0);
    ask_error(&peer, NULL, "__ping", "{}", "BoxError", "busy");
    ask_error(&peer, NULL, "box_exec", "{'cmd':'echo x','session_id':'one'}", "BoxError", "busy");
    assert_int_equal(world.api->rpc->inflight, RPC_INFLIGHT_MAX);
    /* Others are not concerned. */
    struct peer other;
    peer_open(&other, NULL);
    ask(&other, NULL, "__ping", "{}");
    world_wait(something_runs, NULL);
    peer_close(&peer);
    world_wait(nothing_runs, NULL);
    assert_int_equal(world.api->rpc->inflight, 0);
    assert_true(world_has("one"));
    peer_close(&other);
}

static void test_leaving_while_a_session_is_made(void **state)
{
    (void)state;
    peer_ask(&peer, NULL, "box_create_session", "{'session_id':'s','image':'slow'}");
    peer_ask(&peer, NULL, "box_exec", "{'session_id':'s','image':'slow','cmd':'echo x'}");
    peer_ask(&peer, NULL, "box_delete_session", "{'session_id':'s'}");
    peer_close(&peer);
    world_wait_gone("s");
    world_wait(nothing_runs, NULL);
}

static void test_stopping_answers(void **state)
{
    (void)state;
    long hangs = peer_ask(&peer, NULL, "box_exec", "{'cmd':'hang','session_id':'one'}");
    long waits = peer_ask(&peer, NULL, "box_create_session", "{'session_id':'s','image':'stuck'}");
    rpc_conn_stop(peer.conn);
    assert_false(rpc_conn_busy(peer.conn));
    assert_error(peer_answer(&peer, hangs), "BoxRuntimeUnavailableError", "stopping");
    assert_error(peer_answer(&peer, waits), "BoxRuntimeUnavailableError", "stopping");
}

static void test_a_peer_that_does_not_read(void **state)
{
    (void)state;
    peer.full = true;
    ask(&peer, NULL, "__ping", "{}");
    assert_true(peer.paused);
    ask(&peer, NULL, "__ping", "{}"); /* what was on its way is served */
    peer.full = false;
    rpc_conn_drained(peer.conn);
    assert_false(peer.paused);
    rpc_conn_drained(peer.conn);
}

/* One that does not read is cut off when too much waits for it, and not before. */
static void test_unread(void **state)
{
    (void)state;
    peer.full = true;
    peer.unsent = RPC_UNSENT_MAX;
    ask(&peer, NULL, "__ping", "{}");
    assert_false(peer.given_up);
    peer.unsent = RPC_UNSENT_MAX + 1;
    ask(&peer, NULL, "__ping", "{}");
    assert_true(peer.given_up);
    peer.full = false;
    rpc_conn_drained(peer.conn);
}

/* --- boxd itself --- */

static void test_health(void **state)
{
    (void)state;
    json_t *data = ask(&peer, NULL, "box_health", "{}");
    assert_text(data, "name", "null");
    assert_true(json_is_true(json_object_get(data, "available")));
    data = ask(&peer, NULL, "box_get_backend_info", "{'more':1}");
    assert_text(data, "name", "null");
    assert_int_equal(json_object_size(data), 2);
    assert_int_equal(world.asked, 0);
}

static void test_no_backend(void **state)
{
    struct error err = ERROR_INIT;
    (void)state;
    struct backend *none = backend_none_new(&world.loop, "there is none");
    assert_int_equal(runtime_set_backend(world.runtime, none, &err), 0);
    json_t *data = ask(&peer, NULL, "box_get_backend_info", "{}");
    assert_true(json_is_null(json_object_get(data, "name")));
    assert_true(json_is_false(json_object_get(data, "available")));
    ask_error(&peer, NULL, "box_exec", "{'cmd':'echo x','session_id':'s'}",
              "BoxBackendUnavailableError", "there is none");
    assert_int_equal(runtime_set_backend(world.runtime, world.backend, &err), 0);
    none->ops->close(none);
}

static int take_tree(void *data, const json_t *tree, struct error *err)
{
    int *seen = data;
    if (json_object_get(tree, "bad"))
        return error_set(err, ERROR_INVALID, "bad: is bad");
    if (json_object_get(tree, "denied"))
        return error_set(err, ERROR_DENIED, "denied: beyond what was laid down");
    *seen = (int)json_integer_value(json_object_get(tree, "n"));
    return 0;
}

static int tree_seen;

static void with_init(struct api_config *api, struct runtime_config *runtime)
{
    (void)runtime;
    api->rpc.init = take_tree;
    api->rpc.init_data = &tree_seen;
}

static void test_init(void **state)
{
    (void)state;
    ask_error(&peer, NULL, "box_init", "{}", "BoxBackendUnavailableError", NULL);
    world_reconfigure(with_init);
    assert_true(
        json_is_true(json_object_get(ask(&peer, NULL, "box_init", "{'n':7}"), "initialized")));
    assert_int_equal(tree_seen, 7);
    ask_error(&peer, NULL, "box_init", "{'bad':1}", "ValueError", "bad: is bad");
    ask_error(&peer, NULL, "box_init", "{'denied':1}", "BoxValidationError", "beyond");
    assert_int_equal(tree_seen, 7);
}

#define MARKER ".langbot-box-volume-probe-0123456789abcdef0123456789abcdef"

static void with_workspace(struct api_config *api, struct runtime_config *runtime)
{
    (void)runtime;
    api->rpc.default_workspace = xstrdup(world.directory);
}

static void write_file(const char *name, const char *text)
{
    cleanup_free char *path = xasprintf("%s/%s", world.directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_shared_workspace(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{'marker_name':null}",
        "{'marker_name':7}",
        "{'marker_name':''}",
        "{'marker_name':'../" MARKER "'}",
        "{'marker_name':'" MARKER "0'}",
        "{'marker_name':'.langbot-box-volume-probe-0123456789ABCDEF0123456789abcdef'}",
        "{'marker_name':'" MARKER "\\u0000'}",
    };
    char digest[SHA256_HEX_SIZE];
    (void)state;
    ask_error(&peer, NULL, "box_verify_shared_workspace", "{'marker_name':'" MARKER "'}",
              "BoxReadinessError", "default_workspace");
    world_reconfigure(with_workspace);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ask_error(&peer, NULL, "box_verify_shared_workspace", bad[i], "BoxReadinessError",
                  "marker_name");
    ask_error(&peer, NULL, "box_verify_shared_workspace", "{'marker_name':'" MARKER "'}",
              "BoxReadinessError", NULL);
    write_file(MARKER, "hello");
    json_t *data =
        ask(&peer, NULL, "box_verify_shared_workspace", "{'marker_name':'  " MARKER "\\n'}");
    sha256_hex("hello", 5, digest);
    assert_text(data, "marker_name", MARKER);
    assert_text(data, "sha256", digest);
    assert_number(data, "size", 5);
}

static bool shutdown_is_over(void *data)
{
    (void)data;
    return world.api->rpc->ending[RPC_PLAIN] == 0;
}

static void test_shutdown(void **state)
{
    struct peer other;
    (void)state;
    peer_open(&other, NULL);
    ask(&peer, NULL, "box_create_session", "{'session_id':'a'}");
    long hangs = peer_ask(&other, NULL, "box_exec", "{'session_id':'a','cmd':'hang'}");
    long made = peer_ask(&other, NULL, "box_create_session", "{'session_id':'b','image':'slow'}");
    long over = peer_ask(&peer, NULL, "box_shutdown", "{}");
    ask_error(&other, NULL, "box_create_session", "{'session_id':'c'}",
              "BoxRuntimeUnavailableError", "box_shutdown");
    ask_error(&peer, NULL, "box_exec", "{'session_id':'c','cmd':'echo x'}",
              "BoxRuntimeUnavailableError", NULL);
    assert_error(peer_answer(&other, hangs), "BoxRuntimeUnavailableError", NULL);
    assert_error(peer_answer(&other, made), "BoxRuntimeUnavailableError", NULL);
    assert_number(peer_answer(&peer, over), "code", 0);
    assert_false(world_has("a") || world_has("b") || world_has("c"));
    ask(&other, NULL, "box_create_session", "{'session_id':'c'}");
    /* One whose asker does not wait for it ends them all the same, and then there is an end to it.
     */
    peer_ask(&peer, NULL, "box_shutdown", "{}");
    peer_close(&peer);
    world_wait(shutdown_is_over, NULL);
    assert_false(world_has("c"));
    ask(&other, NULL, "box_create_session", "{'session_id':'d'}");
    peer_close(&other);
}

/* --- sessions --- */

static const char *const session_keys[] = {
    "session_id",
    "backend_name",
    "backend_session_id",
    "image",
    "network",
    "host_path",
    "host_path_mode",
    "mount_path",
    "persistent",
    "cpus",
    "memory_mb",
    "pids_limit",
    "read_only_rootfs",
    "workspace_quota_mb",
    "created_at",
    "last_used_at",
};

/* They are there, and first. */
static void assert_session(json_t *info, const char *name)
{
    void *at = json_object_iter(info);
    for (size_t i = 0; i < ARRAY_SIZE(session_keys); i++) {
        assert_non_null(at);
        assert_string_equal(json_object_iter_key(at), session_keys[i]);
        at = json_object_iter_next(info, at);
    }
    assert_text(info, "session_id", name);
    assert_text(info, "backend_name", "null");
    assert_text(info, "network", "off");
    assert_true(json_is_null(json_object_get(info, "host_path")));
    assert_number(info, "memory_mb", 512);
    const char *created = json_string_value(json_object_get(info, "created_at"));
    assert_int_equal(created[strlen(created) - 1], 'Z');
}

static void test_sessions(void **state)
{
    (void)state;
    assert_session(ask(&peer, NULL, "box_create_session", "{'session_id':' a '}"), "a");
    assert_session(ask(&peer, NULL, "box_create_session", "{'session_id':'a'}"), "a");
    ask(&peer, NULL, "box_create_session", "{'session_id':'b','cpus':'0.5','unknown':{}}");
    json_t *info = ask(&peer, NULL, "box_get_session", "{'session_id':'a'}");
    assert_session(info, "a");
    assert_null(json_object_get(info, "managed_processes"));
    assert_null(json_object_get(info, "managed_process"));
    json_t *list = json_object_get(ask(&peer, NULL, "box_get_sessions", "{}"), "sessions");
    assert_int_equal(json_array_size(list), 2);
    assert_session(json_array_get(list, 0), "a");
    ask_error(&peer, NULL, "box_create_session", "{'session_id':'a','network':'on'}",
              "BoxSessionConflictError", "network");
    ask_error(&peer, NULL, "box_create_session", "{'session_id':'x','memory_mb':1}",
              "BoxValidationError", "memory_mb");
    ask_error(&peer, NULL, "box_create_session", "{}", "BoxValidationError", "session_id");
    ask_error(&peer, NULL, "box_create_session", "{'session_id':'x','image':'fail'}",
              "BoxBackendUnavailableError", NULL);
    assert_text(ask(&peer, NULL, "box_delete_session", "{'session_id':'b'}"), "deleted", "b");
    assert_false(world_has("b"));
}

static const char *const naming[] = {
    "box_get_session",          "box_delete_session",        "box_get_managed_process",
    "box_stop_managed_process", "box_start_managed_process",
};

static void test_naming_what_is_not_there(void **state)
{
    const char *data = "{'session_id':'none','spec':{'command':'cat'}}";
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(naming); i++) {
        ask_error(&peer, NULL, naming[i], "{}", "KeyError", "'session_id'");
        ask_error(&peer, NULL, naming[i], data, "BoxSessionNotFoundError", "none");
        ask_error(&peer, NULL, naming[i], "{'session_id':7,'spec':{}}", "BoxValidationError",
                  "session_id");
        ask_error(&peer, NULL, naming[i], "{'session_id':null,'spec':{}}", "BoxValidationError",
                  "session_id");
        ask_error(&peer, NULL, naming[i], "{'session_id':'a\\u0000','spec':{}}",
                  "BoxValidationError", "NUL");
    }
}

static void count_cb(struct session *session, void *data)
{
    (void)session;
    (*(size_t *)data)++;
}

static size_t count_sessions(void)
{
    size_t count = 0;
    runtime_each_session(world.runtime, count_cb, &count);
    return count;
}

/* For who has no tenancy there are no names of that form, whether or not there is such a session.
 */
static void test_names_of_tenants(void **state)
{
    struct peer host;
    char space[TENANT_NAMESPACE_SIZE];
    const struct as one = {"one", 1, NULL};
    (void)state;
    peer_open(&host, WORLD_INSTANCE);
    ask(&host, &one, "box_create_session", "{'session_id':'x'}");
    ask(&host, &one, "box_start_managed_process", "{'session_id':'x','spec':{'command':'cat'}}");
    tenant_namespace(WORLD_INSTANCE, "one", space);
    for (unsigned generation = 1; generation < 3; generation++) {
        cleanup_free char *data = xasprintf(
            "{'session_id':'%s-g%u-x','cmd':'echo x','spec':{'command':'cat'}}", space, generation);
        for (size_t i = 0; i < ARRAY_SIZE(naming); i++)
            ask_error(&peer, NULL, naming[i], data, "BoxSessionNotFoundError", NULL);
        ask_error(&peer, NULL, "box_exec", data, "BoxValidationError", "session_id");
        ask_error(&peer, NULL, "box_create_session", data, "BoxValidationError", "session_id");
    }
    json_t *list = json_object_get(ask(&peer, NULL, "box_get_sessions", "{}"), "sessions");
    assert_int_equal(json_array_size(list), 0);
    assert_number(ask(&peer, NULL, "box_status", "{}"), "active_sessions", 0);
    ask(&peer, NULL, "box_shutdown", "{}");
    assert_int_equal(count_sessions(), 1);
    assert_number(ask(&host, &one, "box_status", "{}"), "managed_processes", 1);
    peer_close(&host);
}

static void test_status(void **state)
{
    static const char *const limits[] = {"max_sessions", "max_managed_processes",
                                         "max_completed_processes", "max_admission_records",
                                         "max_rpc_file_bytes"};
    (void)state;
    ask(&peer, NULL, "box_create_session", "{'session_id':'a'}");
    ask(&peer, NULL, "box_start_managed_process",
        "{'session_id':'a','spec':{'command':'sh','args':['-c','hang']}}");
    ask(&peer, NULL, "box_start_managed_process",
        "{'session_id':'a','spec':{'process_id':'p','command':'sh','args':['-c','exit 0']}}");
    json_t *data = ask(&peer, NULL, "box_status", "{}");
    assert_number(data, "active_sessions", 1);
    assert_text(json_object_get(data, "backend"), "name", "null");
    assert_number(data, "session_ttl_sec", 300);
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        assert_true(json_is_integer(json_object_get(json_object_get(data, "limits"), limits[i])));
    assert_number(json_object_get(data, "limits"), "max_rpc_file_bytes", 20 << 20);
}

/* --- commands --- */

static json_t *exec(const char *command)
{
    cleanup_free char *data = xasprintf("{'session_id':'s','cmd':'%s','timeout_sec':'1'}", command);
    return ask(&peer, NULL, "box_exec", data);
}

static void test_exec(void **state)
{
    static const char *const keys[] = {"session_id", "backend_name", "status",     "exit_code",
                                       "stdout",     "stderr",       "duration_ms"};
    (void)state;
    json_t *result = exec("echo   hello there ");
    void *at = json_object_iter(result);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++, at = json_object_iter_next(result, at))
        assert_string_equal(json_object_iter_key(at), keys[i]);
    assert_text(result, "session_id", "s");
    assert_text(result, "status", "completed");
    assert_number(result, "exit_code", 0);
    assert_text(result, "stdout", "hello there");
    assert_text(result, "stderr", "");
    assert_true(json_is_integer(json_object_get(result, "duration_ms")));
    assert_text(result, "cause", "exited");
    assert_number(exec("exit 3"), "exit_code", 3);
    assert_number(exec("oom"), "exit_code", 137);
    assert_text(exec("error oh"), "stderr", "oh");
    ask_error(&peer, NULL, "box_exec", "{'session_id':'s','cmd':'fail'}", "BoxValidationError",
              "fail");
    ask_error(&peer, NULL, "box_exec", "{'session_id':'s','cmd':'  '}", "BoxValidationError",
              "cmd");
    ask_error(&peer, NULL, "box_exec", "{'session_id':'s'}", "BoxValidationError", "cmd");
    ask_error(&peer, NULL, "box_exec", "{'session_id':'t','cmd':''}", "BoxValidationError", "cmd");
    assert_false(world_has("t"));
}

static void test_exec_times_out(void **state)
{
    (void)state;
    json_t *result = exec("hang");
    assert_text(result, "status", "timed_out");
    assert_true(json_is_null(json_object_get(result, "exit_code")));
    assert_text(result, "stdout", "");
    assert_text(result, "stderr", "Command timed out after 1 seconds.");
    assert_true(world_has("s"));
}

static void with_little_output(struct api_config *api, struct runtime_config *runtime)
{
    api->maximum_timeout_ms = 1000;
    runtime->output_keep_bytes = 10;
}

static void test_exec_is_clipped(void **state)
{
    (void)state;
    close_plain(state);
    world_open(with_little_output);
    peer_open(&peer, NULL);
    assert_text(exec("echo 123456789"), "stdout", "123456789"); /* with its newline */
    assert_text(exec("echo 1234567   890"), "stdout",
                "1234567\n... [raw output clipped at 10 bytes, 4 bytes discarded]");
    /* Half a character at the end. */
    assert_text(exec("echo 123456789é"), "stdout",
                "123456789\xEF\xBF\xBD\n... [raw output clipped at 10 bytes, 2 bytes discarded]");
    /* More time than there is for anybody. */
    json_t *late =
        ask(&peer, NULL, "box_exec", "{'session_id':'s','cmd':'hang','timeout_sec':5000}");
    assert_text(late, "stderr", "Command timed out after 1 seconds.");
}

static void test_session_deleted_under_a_command(void **state)
{
    (void)state;
    ask(&peer, NULL, "box_create_session", "{'session_id':'s'}");
    long hangs = peer_ask(&peer, NULL, "box_exec", "{'session_id':'s','cmd':'hang'}");
    long queued = peer_ask(&peer, NULL, "box_exec", "{'session_id':'s','cmd':'echo x'}");
    world_turn();
    ask(&peer, NULL, "box_delete_session", "{'session_id':'s'}");
    assert_error(peer_answer(&peer, hangs), "BoxSessionNotFoundError", NULL);
    assert_error(peer_answer(&peer, queued), "BoxSessionNotFoundError", NULL);
}

/* --- processes --- */

static void test_processes(void **state)
{
    (void)state;
    ask(&peer, NULL, "box_create_session", "{'session_id':'s'}");
    ask_error(&peer, NULL, "box_start_managed_process", "{'session_id':'s'}", "KeyError", "'spec'");
    ask_error(&peer, NULL, "box_start_managed_process", "{'session_id':'s','spec':[]}",
              "BoxValidationError", NULL);
    ask_error(&peer, NULL, "box_start_managed_process", "{'session_id':'s','spec':{}}",
              "BoxValidationError", "command");
    json_t *info = ask(&peer, NULL, "box_start_managed_process",
                       "{'session_id':'s','spec':{'command':'sh','args':['-c','hang'],"
                       "'env':{'B':'2','A':'1'}}}");
    assert_text(info, "session_id", "s");
    assert_text(info, "process_id", "default");
    assert_text(info, "status", "running");
    assert_true(json_is_null(json_object_get(info, "exited_at")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(info, "env_keys"), 0)),
                        "A");
    ask(&peer, NULL, "box_start_managed_process",
        "{'session_id':'s','spec':{'process_id':'o\\\\u0022 "
        "ther','command':'sh','args':['-c','hang']}}");
    json_t *session = ask(&peer, NULL, "box_get_session", "{'session_id':'s'}");
    json_t *processes = json_object_get(session, "managed_processes");
    assert_int_equal(json_object_size(processes), 2);
    assert_text(json_object_get(processes, "default"), "status", "running");
    assert_text(json_object_get(session, "managed_process"), "process_id", "default");
    assert_text(ask(&peer, NULL, "box_get_managed_process", "{'session_id':'s'}"), "process_id",
                "default");
    ask_error(&peer, NULL, "box_get_managed_process", "{'session_id':'s','process_id':'none'}",
              "BoxManagedProcessNotFoundError", "none");
    ask_error(&peer, NULL, "box_get_managed_process", "{'session_id':'s','process_id':7}",
              "BoxValidationError", "process_id");
    assert_text(ask(&peer, NULL, "box_stop_managed_process", "{'session_id':'s'}"), "stopped",
                "default");
    ask_error(&peer, NULL, "box_stop_managed_process", "{'session_id':'s'}",
              "BoxManagedProcessNotFoundError", NULL);
    session = ask(&peer, NULL, "box_get_session", "{'session_id':'s'}");
    assert_int_equal(json_object_size(json_object_get(session, "managed_processes")), 1);
    assert_null(json_object_get(session, "managed_process"));
}

/* --- uploads --- */

static long send_chunk(struct peer *from, const char *key, int index, int amount, const void *bytes,
                       size_t size)
{
    cleanup_free char *text = xcalloc(1, base64_size(size) + 1);
    base64_encode(bytes, size, text);
    cleanup_free char *data =
        xasprintf("{'file_key':'%s','chunk_base64':'%s','chunk_index':%d,'chunk_amount':%d,"
                  "'file_length':1,'chunk_size':1}",
                  key, text, index, amount);
    return peer_ask(from, NULL, "__file_chunk", data);
}

static void chunk_ok(const char *key, int index, int amount, const char *bytes)
{
    assert_number(peer_answer(&peer, send_chunk(&peer, key, index, amount, bytes, strlen(bytes))),
                  "code", 0);
}

static void chunk_bad(const char *key, int index, int amount, const char *bytes, const char *words)
{
    assert_error(peer_answer(&peer, send_chunk(&peer, key, index, amount, bytes, strlen(bytes))),
                 "ValueError", words);
}

static int take_upload(const char *key, char *ret, size_t size, struct error *err)
{
    struct rpc_call call = {.conn = peer.conn};
    cleanup_close int fd = -1;
    uint64_t length;
    if (rpc_upload_take(&call, key, &fd, &length, err) < 0)
        return -1;
    ssize_t n = read(fd, ret, size - 1);
    assert_int_equal(n, length);
    ret[n] = '\0';
    return 0;
}

static void test_uploads(void **state)
{
    struct error err = ERROR_INIT;
    char text[64];
    (void)state;
    chunk_ok("a.zip", 0, 3, "one ");
    chunk_ok("a.zip", 1, 3, "two ");
    assert_int_equal(take_upload("a.zip", text, sizeof text, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    chunk_ok("a.zip", 2, 3, "three");
    chunk_ok("b", 0, 1, "");
    assert_int_equal(take_upload("a.zip", text, sizeof text, &err), 0);
    assert_string_equal(text, "one two three");
    assert_int_equal(take_upload("a.zip", text, sizeof text, &err), -1);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_int_equal(take_upload("b", text, sizeof text, &err), 0);
    /* Index 0 starts over. */
    chunk_ok("c", 0, 2, "wrong");
    chunk_ok("c", 0, 2, "right");
    chunk_bad("c", 0 + 2, 3, "x", NULL);
    chunk_ok("c", 1, 2, "!");
    assert_int_equal(take_upload("c", text, sizeof text, &err), 0);
    assert_string_equal(text, "right!");
    assert_int_equal(world.api->rpc->uploads, 0);
}

static void test_uploads_that_are_wrong(void **state)
{
    static const char *const keys[] = {"",       ".",    "..",  "-a", ".a", "_a",         "a/b",
                                       "a\\\\b", "a..b", "a b", " a", "é",  "/etc/passwd"};
    static const char *const missing[] = {
        "{'chunk_base64':'','chunk_index':0,'chunk_amount':1}",
        "{'file_key':'a','chunk_index':0,'chunk_amount':1}",
        "{'file_key':'a','chunk_base64':'','chunk_amount':1}",
        "{'file_key':'a','chunk_base64':'','chunk_index':0}",
    };
    static const char *const bad[] = {
        "{'file_key':'a','chunk_base64':'','chunk_index':-1,'chunk_amount':1}",
        "{'file_key':'a','chunk_base64':'','chunk_index':1,'chunk_amount':1}",
        "{'file_key':'a','chunk_base64':'','chunk_index':0,'chunk_amount':0}",
        "{'file_key':'a','chunk_base64':'','chunk_index':true,'chunk_amount':1}",
        "{'file_key':'a','chunk_base64':'','chunk_index':0.0,'chunk_amount':1}",
        "{'file_key':'a','chunk_base64':'','chunk_index':'0','chunk_amount':'1'}",
        "{'file_key':'a','chunk_base64':'','chunk_index':99999999999999999999,'chunk_amount':1}",
        "{'file_key':'a','chunk_base64':'YQ','chunk_index':0,'chunk_amount':1}",
        "{'file_key':'a','chunk_base64':'Y Q=','chunk_index':0,'chunk_amount':1}",
    };
    static char big[RPC_CHUNK_BYTES + 2];
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        chunk_bad(keys[i], 0, 1, "x", "file_key");
    for (size_t i = 0; i < ARRAY_SIZE(missing); i++)
        ask_error(&peer, NULL, "__file_chunk", missing[i], "KeyError", NULL);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ask_error(&peer, NULL, "__file_chunk", bad[i], "ValueError", NULL);
    ask_error(&peer, NULL, "__file_chunk",
              "{'file_key':7,'chunk_base64':'','chunk_index':0,'chunk_amount':1}",
              "BoxValidationError", "file_key");
    chunk_bad("a", 1, 2, "x", "chunk 0");
    assert_error(peer_answer(&peer, send_chunk(&peer, "a", 0, 1, big, sizeof big - 1)),
                 "ValueError", "16384");
    assert_number(peer_answer(&peer, send_chunk(&peer, "a", 0, 1, big, RPC_CHUNK_BYTES)), "code",
                  0);
}

static void with_small_files(struct api_config *api, struct runtime_config *runtime)
{
    (void)runtime;
    api->rpc.max_file_bytes = 5;
}

static void test_uploads_have_limits(void **state)
{
    (void)state;
    world_reconfigure(with_small_files);
    chunk_ok("a", 0, 2, "123");
    chunk_bad("a", 1, 2, "456", "5 bytes");
    chunk_ok("a", 1, 2, "45");
    chunk_bad("b", 0, 1, "123456", "5 bytes");
    for (int i = 2; i < RPC_UPLOADS_MAX; i++) {
        char key[16];
        snprintf(key, sizeof key, "f%d", i);
        chunk_ok(key, 0, 1, "x");
    }
    chunk_bad("more", 0, 1, "x", NULL);
    chunk_ok("f5", 0, 1, "y"); /* one that is there */
    assert_int_equal(world.api->rpc->uploads, RPC_UPLOADS_MAX);
    peer_close(&peer);
    assert_int_equal(world.api->rpc->uploads, 0);
}

/* A file of so many bytes, in one chunk. */
static json_t *send_bytes(struct peer *from, const char *key, size_t size)
{
    static const char bytes[1000];
    return peer_answer(from, send_chunk(from, key, 0, 1, bytes, size));
}

static void test_uploads_of_all_together(void **state)
{
    struct error err = ERROR_INIT;
    struct peer other;
    char text[64];
    uint64_t usual = rpc_upload_bytes_max;
    const struct rpc *rpc = world.api->rpc;
    (void)state;
    peer_open(&other, NULL);
    rpc_upload_bytes_max = 100;
    assert_number(send_bytes(&peer, "a", 60), "code", 0);
    assert_number(send_bytes(&other, "a", 40), "code", 0);
    assert_error(send_bytes(&other, "b", 1), "ValueError", "100 bytes");
    assert_error(send_bytes(&peer, "b", 1), "ValueError", "100 bytes");
    /* Given back by who replaces one, … */
    assert_number(send_bytes(&peer, "a", 10), "code", 0);
    assert_error(send_bytes(&other, "b", 51), "ValueError", "50 bytes");
    assert_number(send_bytes(&other, "b", 50), "code", 0);
    assert_int_equal(rpc->upload_bytes, 100);
    /* … by who uses one, … */
    assert_int_equal(take_upload("a", text, sizeof text, &err), 0);
    assert_error(send_bytes(&peer, "c", 11), "ValueError", "90 bytes");
    assert_number(send_bytes(&peer, "c", 10), "code", 0);
    /* … and by who leaves. */
    peer_close(&other);
    assert_int_equal(rpc->upload_bytes, 10);
    assert_number(send_bytes(&peer, "d", 90), "code", 0);
    peer_close(&peer);
    assert_int_equal(rpc->upload_bytes, 0);
    rpc_upload_bytes_max = usual;
}

/* --- hostility --- */

static const char *const hostile[] = {
    "{}",
    "{'session_id':null,'cmd':null,'spec':null,'process_id':null}",
    "{'session_id':[],'cmd':{},'spec':[],'process_id':{}}",
    "{'session_id':{},'cmd':[],'spec':7,'process_id':[]}",
    "{'session_id':true,'cmd':1e999,'spec':'x','process_id':-1}",
    "{'session_id':'','cmd':'','spec':{},'process_id':''}",
    "{'session_id':'\\u0000','cmd':'\\u0000','spec':{'command':'\\u0000'},'process_id':'\\u0000'}",
    "{'session_id':'\\ud800','cmd':'\\udfff','spec':{'command':'\\ud800'}}",
    "{'session_id':'../../etc','cmd':'echo x','spec':{'command':'x','cwd':'../..'}}",
    "{'session_id':'h','cmd':'echo x','env':{'':'','=':'=','A=B':'C'},"
    "'spec':{'command':'x','env':{'=':'='}}}",
    "{'session_id':'h','cmd':'echo x','timeout_sec':99999999999999999999}",
    "{'session_id':'h','cmd':'echo x','timeout_sec':-1,'cpus':NaN,'memory_mb':-5}",
    "{'session_id':'h','cmd':'echo x','host_path':'/proc/self/root','host_path_mode':'rw'}",
    "{'session_id':'h','cmd':'echo x','extra_mounts':[{},{},7]}",
    "{'marker_name':{},'file_key':{},'chunk_base64':[],'chunk_index':{},'chunk_amount':{}}",
    "{'file_key':'a','chunk_base64':'====','chunk_index':0,'chunk_amount':1}",
    "{'instance_uuid':7,'workspace_uuid':[],'entitlement_revision':{},'expires_at':'now'}",
    "{'instance_uuid':'instance-1','workspace_uuid':'w','execution_generation':1,"
    "'entitlement_revision':1,'expires_at':'9999-12-31T23:59:59+00:00','max_sessions':1,"
    "'max_managed_processes':0}",
};

/* Whatever it is, it is answered, and the next one too. */
static void test_every_action_survives(void **state)
{
    (void)state;
    for (size_t i = 0; i < rpc_action_count; i++) {
        for (size_t j = 0; j < ARRAY_SIZE(hostile); j++) {
            json_t *answer =
                peer_answer(&peer, peer_ask(&peer, NULL, rpc_actions[i].name, hostile[j]));
            assert_true(json_is_integer(json_object_get(answer, "code")));
            json_array_clear(peer.answers);
        }
    }
    assert_int_equal(world.api->rpc->inflight, 0);
    ask(&peer, NULL, "__ping", "{}");
}

/* Errors are cut, and what is in them is well-formed. */
static void test_long_names_in_errors(void **state)
{
    static char name[100000];
    (void)state;
    memset(name, 'n', sizeof name - 1);
    for (size_t i = 0; i + 2 < sizeof name; i += 7)
        memcpy(name + i, "\xC3\xA9", 2);
    cleanup_free char *text = xasprintf("{\"seq_id\":1,\"action\":\"%s\",\"data\":{}}", name);
    peer_say(&peer, text);
    const char *message = json_string_value(json_object_get(peer_answer(&peer, 1), "message"));
    assert_true(strlen(message) <= RPC_ERROR_CHARS);
    cleanup_free char *data = xasprintf("{'session_id':'%s'}", name);
    peer.seq = 1;
    message = ask_error(&peer, NULL, "box_get_session", data, "BoxSessionNotFoundError", NULL);
    assert_true(strlen(message) <= RPC_ERROR_CHARS);
}

static void test_metrics(void **state)
{
    (void)state;
    ask(&peer, NULL, "__ping", "{}");
    ask_error(&peer, NULL, "box_get_session", "{}", "KeyError", NULL);
    ask_error(&peer, NULL, "what", "{}", "ValueError", NULL);
    cleanup_buf struct buf out = BUF_INIT(1u << 20);
    rpc_metrics(world.api, &out);
    buf_append(&out, "", 1);
    assert_non_null(strstr(out.data, "boxd_rpc_connections 1\n"));
    assert_non_null(
        strstr(out.data, "boxd_rpc_requests_total{action=\"__ping\",outcome=\"answered\"} 1\n"));
    assert_non_null(strstr(
        out.data, "boxd_rpc_requests_total{action=\"box_get_session\",outcome=\"failed\"} 1\n"));
    assert_non_null(
        strstr(out.data, "boxd_rpc_requests_total{action=\"unknown\",outcome=\"failed\"} 1\n"));
}

static void test_error_classes(void **state)
{
    (void)state;
    assert_string_equal(wire_class_name(wire_error(error_of(ERROR_FORBIDDEN)).class),
                        "PermissionError");
    assert_string_equal(wire_class_name(wire_error(error_of(ERROR_ADMISSION)).class),
                        "BoxAdmissionError");
    assert_string_equal(wire_class_name(wire_error(error_of(ERROR_NOT_READY)).class),
                        "BoxReadinessError");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_plain, close_plain)
    const struct CMUnitTest tests[] = {
        TEST(test_messages_that_are_no_requests),
        TEST(test_envelopes_that_are_wrong),
        cmocka_unit_test(test_seq_as_it_came),
        TEST(test_large_messages_are_parsed_aside),
        TEST(test_the_129th),
        TEST(test_leaving_while_a_session_is_made),
        TEST(test_stopping_answers),
        TEST(test_a_peer_that_does_not_read),
        TEST(test_unread),
        TEST(test_health),
        TEST(test_no_backend),
        TEST(test_init),
        TEST(test_shared_workspace),
        TEST(test_shutdown),
        TEST(test_sessions),
        TEST(test_naming_what_is_not_there),
        TEST(test_names_of_tenants),
        TEST(test_status),
        TEST(test_exec),
        TEST(test_exec_times_out),
        TEST(test_exec_is_clipped),
        TEST(test_session_deleted_under_a_command),
        TEST(test_processes),
        TEST(test_uploads),
        TEST(test_uploads_that_are_wrong),
        TEST(test_uploads_have_limits),
        TEST(test_uploads_of_all_together),
        TEST(test_every_action_survives),
        TEST(test_long_names_in_errors),
        TEST(test_metrics),
        cmocka_unit_test(test_error_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
