/* SPDX-License-Identifier: Apache-2.0 */
/* The front end's pure parts: JSON in and out, routes, queries, bodies, errors, who may ask, texts
   and lines cut from streams, ranges, the description of the interface. What serves is in
   test-rest.c. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/decode.h"
#include "api/errors.h"
#include "api/etag.h"
#include "api/guard.h"
#include "api/internal.h"
#include "api/lines.h"
#include "api/range.h"
#include "api/signals.h"
#include "api/sse.h"
#include "core/base64.h"
#include "core/clock.h"
#include "core/json-out.h"
#include "core/json.h"
#include "core/utf8.h"

/* --- core --- */

static void check_base64(const char *data, const char *text)
{
    char out[64];
    char *back;
    size_t size;
    struct error err = ERROR_INIT;
    base64_encode(data, strlen(data), out);
    assert_int_equal(base64_size(strlen(data)), strlen(text));
    assert_memory_equal(out, text, strlen(text));
    assert_int_equal(base64_decode(text, strlen(text), &back, &size, &err), 0);
    assert_int_equal(size, strlen(data));
    assert_string_equal(back, data);
    free(back);
}

static void test_base64(void **state)
{
    (void)state;
    check_base64("", "");
    check_base64("f", "Zg==");
    check_base64("fo", "Zm8=");
    check_base64("foo", "Zm9v");
    check_base64("foob", "Zm9vYg==");
    check_base64("\xff\xfe~?", "//5+Pw==");
    static const char *const bad[] = {"Z",    "Zg=",  "Zh==", "Zm9=",  "Zm8=Zg==", "Zg==\n",
                                      "====", "=AAA", "Z===", "Zm 8v", "Zm9v!A=="};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char *back = NULL;
        size_t size;
        struct error err = ERROR_INIT;
        assert_int_equal(base64_decode(bad[i], strlen(bad[i]), &back, &size, &err), -1);
        assert_null(back);
    }
}

static void test_clock(void **state)
{
    (void)state;
    char text[CLOCK_TEXT_SIZE];
    clock_text(1794785157000123, text);
    assert_string_equal(text, "2026-11-15T23:25:57.000123+00:00");
    clock_text(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999999+00:00");
    clock_text(INT64_MAX, text);
    assert_string_equal(text + 4, "-12-31T23:59:59.775807+00:00");
    clock_http_text(784111777, text);
    assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    clock_http_text(INT64_MIN, text);
    assert_true(strlen(text) == 29);
    assert_true(clock_now_us() > 1700000000000000);
}

static void test_utf8_unfinished(void **state)
{
    (void)state;
    assert_int_equal(utf8_unfinished("", 0), 0);
    assert_int_equal(utf8_unfinished("abc", 3), 0);
    assert_int_equal(utf8_unfinished("a\xe2", 2), 1);
    assert_int_equal(utf8_unfinished("a\xe2\x82", 3), 2);
    assert_int_equal(utf8_unfinished("a\xe2\x82\xac", 4), 0);
    assert_int_equal(utf8_unfinished("\xf0\x9f\x98", 3), 3);
    assert_int_equal(utf8_unfinished("\xf0\x9f\x98\x80", 4), 0);
    /* Not the beginning of anything. */
    assert_int_equal(utf8_unfinished("\xff", 1), 0);
    assert_int_equal(utf8_unfinished("\xc0", 1), 0);
    assert_int_equal(utf8_unfinished("\xe0\x80", 2), 0);
    assert_int_equal(utf8_unfinished("\xed\xa0", 2), 0);
    assert_int_equal(utf8_unfinished("\x80\x80\x80\x80", 4), 0);
    assert_true(utf8_valid("\xe2\x82\xac", 3));
    assert_false(utf8_valid("\xe2\x82", 2));
}

static void check_out(struct json_out *out, const char *expected)
{
    buf_append(&out->buf, "", 1);
    assert_string_equal(out->buf.data, expected);
    json_out_release(out);
}

static void test_json_out(void **state)
{
    (void)state;
    struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_text(&out, "a", "x\"\\\n\x01\x7f");
    out_text(&out, "none", NULL);
    out_open(&out, "list", '[');
    out_signed(&out, NULL, -5);
    out_signed(&out, NULL, INT64_MIN);
    out_unsigned(&out, NULL, UINT64_MAX);
    out_flag(&out, NULL, true);
    out_open(&out, NULL, '{');
    out_close(&out, '}');
    out_close(&out, ']');
    out_double(&out, "cpus", 0.5);
    out_ms(&out, "ms", 1234567);
    out_time(&out, "at", 0);
    out_base64(&out, "b", "fo", 2);
    out_close(&out, '}');
    check_out(&out, "{\"a\":\"x\\\"\\\\\\n\\u0001\x7f\",\"none\":null,\"list\":[-5,"
                    "-9223372036854775808,18446744073709551615,true,{}],\"cpus\":0.5,"
                    "\"ms\":1234.567,\"at\":null,\"b\":\"Zm8=\"}");
    out = (struct json_out)JSON_OUT_INIT;
    out_bytes(&out, NULL, "\xc3\xa4\xff\x00z\xe2\x82", 7);
    check_out(&out, "\"\xc3\xa4\xef\xbf\xbd\\u0000z\xef\xbf\xbd\"");
}

/* Whatever bytes: jansson reads it back, and to the same as a repair. */
static void test_json_out_any_bytes(void **state)
{
    (void)state;
    char data[512];
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof data; i++) {
            seed = seed * 1103515245 + 12345;
            data[i] = (char)(seed >> 16);
        }
        struct json_out out = JSON_OUT_INIT;
        size_t size;
        cleanup_free char *repaired = utf8_repair(data, sizeof data, &size);
        out_bytes(&out, NULL, data, sizeof data);
        cleanup_json json_t *value =
            json_loadb(out.buf.data, out.buf.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        assert_int_equal(json_string_length(value), size);
        assert_memory_equal(json_string_value(value), repaired, size);
        json_out_release(&out);
    }
}

static void check_unparsable(const char *text, size_t size, const char *expected)
{
    json_t *value = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(json_parse(text, size, &value, &err), -1);
    assert_null(value);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_non_null(strstr(err.message, expected));
}

static void test_json_parse(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    json_t *value = NULL;
#define UNPARSABLE(text, expected) check_unparsable(text, sizeof(text) - 1, expected)
    UNPARSABLE("", "not JSON");
    UNPARSABLE("{", "not JSON");
    UNPARSABLE("{\"a\":1,\"a\":2}", "duplicate object key");
    UNPARSABLE("{\"a\":\"\\u0000\"}", "has a NUL in it");
    UNPARSABLE("{\"a\":\"\0\"}", "not JSON");
    UNPARSABLE("{\"a\":\"\xff\"}", "UTF-8");
    UNPARSABLE("{\"a\":123456789012345678901234567890}", "too big");
    UNPARSABLE("{\"a\":1e999}", "overflow");
    UNPARSABLE("{} {}", "end of file expected");

    char deep[20001];
    memset(deep, '[', 10000);
    memset(deep + 10000, ']', 10000);
    check_unparsable(deep, 20000, "nested more than 64 deep");
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    assert_int_equal(json_parse(deep, 128, &value, &err), 0);
    json_decref(value);

    /* Brackets in strings do not count. */
    char quoted[300];
    snprintf(quoted, sizeof quoted, "\"%0200d\\\"\"", 0);
    memset(quoted + 1, '[', 200);
    assert_int_equal(json_parse(quoted, strlen(quoted), &value, &err), 0);
    json_decref(value);

    size_t many = JSON_VALUES_MAX * 2 + 100;
    cleanup_free char *wide = xmalloc(many);
    wide[0] = '[';
    for (size_t i = 1; i + 2 < many; i += 2)
        memcpy(wide + i, "1,", 2);
    memcpy(wide + many - 3, "1]", 2);
    check_unparsable(wide, many - 1, "more than 100000 values");
}

/* --- routes --- */

static enum route_result match(const char *method, const char *path, struct route_match *ret)
{
    return route_match(api_routes, api_route_count, method, path, ret);
}

static void check_route(const char *method, const char *path, void (*handler)(struct call *),
                        const char *first, const char *second)
{
    struct route_match found;
    assert_int_equal(match(method, path, &found), ROUTE_FOUND);
    assert_ptr_equal(found.route->handler, handler);
    if (first)
        assert_string_equal(found.params[0], first);
    if (second)
        assert_string_equal(found.params[1], second);
    route_match_release(&found);
}

static void test_routes(void **state)
{
    (void)state;
    check_route("POST", "/v1/sessions", rest_create_session, NULL, NULL);
    check_route("POST", "/v1/exec", rest_exec_flat, NULL, NULL);
    check_route("GET", "/v1/sessions/a", rest_get_session, "a", NULL);
    check_route("POST", "/v1/sessions/a%2Fb%20c/exec", rest_exec, "a/b c", NULL);
    check_route("GET", "/v1/sessions/a/execs/7/log", rest_exec_log, "a", "7");
    check_route("GET", "/v1/sessions/a/managed-process/ws", relay_open_default, "a", NULL);
    check_route("GET", "/v1/sessions/a/managed-process/p/ws", relay_open, "a", "p");
    check_route("GET", "/v1/sessions/a/files/", rest_get_file, "a", "");
    check_route("PUT", "/v1/sessions/a/files/workspace/x%2fy/z.txt", rest_put_file, "a",
                "workspace/x/y/z.txt");
    check_route("HEAD", "/v1/sessions/a/files/x", rest_head_file, "a", "x");
    check_route("HEAD", "/healthz", rest_healthz, NULL, NULL);
    check_route("HEAD", "/v1/sessions/a", rest_get_session, "a", NULL);

    static const char *const nothing[] = {"/",
                                          "/v1",
                                          "/v1/",
                                          "/v1/sessions/",
                                          "/v1/sessions//exec",
                                          "/v1/sessions/a/",
                                          "/v1/sessions/a/nope",
                                          "/v1/sessions/a/files",
                                          "/v1/%73essions",
                                          "/v1/sessions/a/execs/7/log/x",
                                          "/healthz/"};
    struct route_match found;
    for (size_t i = 0; i < ARRAY_SIZE(nothing); i++) {
        assert_int_equal(match("GET", nothing[i], &found), ROUTE_NONE);
        route_match_release(&found);
    }
    assert_int_equal(match("PATCH", "/v1/sessions/a", &found), ROUTE_OTHER_METHOD);
    assert_string_equal(found.allow, "GET, HEAD, DELETE");
    route_match_release(&found);
    assert_int_equal(match("OPTIONS", "/v1/sessions/a/files/x", &found), ROUTE_OTHER_METHOD);
    assert_string_equal(found.allow, "HEAD, GET, PUT, DELETE, POST");
    route_match_release(&found);
    static const char *const no_head[] = {"/v1/events", "/rpc/ws", "/v1/sessions/a/pty/ws"};
    for (size_t i = 0; i < ARRAY_SIZE(no_head); i++) {
        assert_int_equal(match("HEAD", no_head[i], &found), ROUTE_OTHER_METHOD);
        assert_string_equal(found.allow, "GET");
        route_match_release(&found);
    }
    assert_int_equal(match("HEAD", "/v1/exec", &found), ROUTE_OTHER_METHOD);
    assert_string_equal(found.allow, "POST");
    route_match_release(&found);
    assert_int_equal(match("GET", "/v1/sessions/%zz", &found), ROUTE_MALFORMED);
    route_match_release(&found);
    assert_int_equal(match("GET", "/v1/sessions/a%00b", &found), ROUTE_MALFORMED);
    route_match_release(&found);
}

static void check_query_fails(const char *query, const char *expected)
{
    struct list_query list = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(query_decode(query, query_list, ARRAY_SIZE(query_list), &list, &err), -1);
    assert_string_equal(err.message, expected);
    free(list.prefix);
    free(list.after);
}

static void test_queries(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct list_query list = {.state = -1, .limit = 100};
    assert_int_equal(query_decode("prefix=a%20b+c&limit=5&&state=broken", query_list,
                                  ARRAY_SIZE(query_list), &list, &err),
                     0);
    assert_string_equal(list.prefix, "a b c");
    assert_int_equal(list.limit, 5);
    assert_int_equal(list.state, SESSION_BROKEN);
    assert_null(list.after);
    free(list.prefix);

    struct file_query file = {0};
    assert_int_equal(query_decode("list", query_get_file, ARRAY_SIZE(query_get_file), &file, &err),
                     0);
    assert_true(file.list);
    assert_int_equal(
        query_decode("list=false", query_get_file, ARRAY_SIZE(query_get_file), &file, &err), 0);
    assert_false(file.list);
    assert_int_equal(query_decode("", NULL, 0, NULL, &err), 0);

    check_query_fails("limt=5", "limt: unknown field; did you mean \"limit\"?");
    check_query_fails("limit=0", "limit: must be at least 1");
    check_query_fails("limit=1001", "limit: must be at most 1000");
    check_query_fails("limit=-1", "limit: must be a whole number");
    check_query_fails("limit=", "limit: must be a whole number");
    check_query_fails("limit=99999999999999999999999", "limit: must be a whole number");
    check_query_fails("limit=5&limit=6", "limit: is given twice");
    check_query_fails("state=dead",
                      "state: must be \"starting\", \"live\", \"broken\" or \"ending\"");
    check_query_fails("prefix=%zz", "the query is not properly percent-encoded");
    check_query_fails("prefix=%00", "the query is not properly percent-encoded");
    check_query_fails("prefix=%ff", "the query is not UTF-8");
    assert_int_equal(query_decode("x=1", NULL, 0, NULL, &err), -1);
    assert_string_equal(err.message, "x: unknown field");
}

/* --- bodies --- */

static json_t *parse(const char *text)
{
    struct error err = ERROR_INIT;
    json_t *value = NULL;
    if (json_parse(text, strlen(text), &value, &err) < 0)
        fail_msg("%s", err.message);
    return value;
}

static void check_session_fails(const char *text, const char *expected)
{
    cleanup_json json_t *body = parse(text);
    cleanup_session_spec struct session_spec defaults = {0};
    cleanup_session_spec struct session_spec spec = {0};
    struct error err = ERROR_INIT;
    session_spec_init(&defaults);
    assert_int_equal(decode_session(body, &defaults, &spec, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_string_equal(err.message, expected);
}

static void test_session_body(void **state)
{
    (void)state;
    cleanup_session_spec struct session_spec defaults = {0};
    cleanup_session_spec struct session_spec spec = {0};
    struct error err = ERROR_INIT;
    session_spec_init(&defaults);
    defaults.memory_mb = 1024;
    defaults.mount_count = 1;
    defaults.mounts[0] = (struct session_mount){xstrdup("/default"), xstrdup("/default"), MOUNT_RO};

    cleanup_json json_t *small = parse("{\"session_id\":\"s\"}");
    assert_int_equal(decode_session(small, &defaults, &spec, &err), 0);
    assert_string_equal(spec.name, "s");
    assert_int_equal(spec.memory_mb, 1024);
    assert_int_equal(spec.mount_count, 1);
    session_spec_release(&spec);

    cleanup_json json_t *large = parse(
        "{\"session_id\":\"\xc3\xa4 b\",\"image\":\"host\",\"network\":\"on\",\"host_path\":null,"
        "\"host_path_mode\":\"ro\",\"mount_path\":\"/w\",\"extra_mounts\":["
        "{\"host_path\":\"/a\",\"mount_path\":\"/b\"},"
        "{\"host_path\":\"/c\",\"mount_path\":\"/d\",\"mode\":\"ro\"}],"
        "\"persistent\":true,\"cpus\":2,\"memory_mb\":64,\"pids_limit\":7,"
        "\"read_only_rootfs\":false,\"workspace_quota_mb\":3}");
    assert_int_equal(decode_session(large, &defaults, &spec, &err), 0);
    assert_true(spec.network && spec.persistent && !spec.read_only_rootfs);
    assert_int_equal(spec.host_path_mode, MOUNT_RO);
    assert_int_equal(spec.mount_count, 2);
    assert_int_equal(spec.mounts[0].mode, MOUNT_RW);
    assert_int_equal(spec.mounts[1].mode, MOUNT_RO);
    assert_string_equal(spec.mounts[0].host_path, "/a");
    assert_true(spec.cpus == 2.0);
    assert_int_equal(spec.pids_limit, 7);
}

static void test_session_body_refused(void **state)
{
    (void)state;
#define S "\"session_id\":\"s\","
    check_session_fails("[]", "must be a JSON object");
    check_session_fails("{}", "session_id: is missing");
    check_session_fails("{\"session_id\":\"\"}", "session_id: must not be empty");
    check_session_fails("{\"session_id\":5}", "session_id: must be a string");
    check_session_fails("{" S "\"memory_mb\":31}", "memory_mb: must be at least 32");
    check_session_fails("{" S "\"memory_mb\":-9223372036854775808}",
                        "memory_mb: must be at least 32");
    check_session_fails("{" S "\"memory_mb\":9223372036854775807}",
                        "memory_mb: must be at most 16777216");
    check_session_fails("{" S "\"memory_mb\":64.5}", "memory_mb: must be a whole number");
    check_session_fails("{" S "\"memory_mb\":\"64\"}", "memory_mb: must be a whole number");
    check_session_fails("{" S "\"memory_mb\":null}", "memory_mb: must be a whole number");
    check_session_fails("{" S "\"cpus\":0}", "cpus: must be at least 0.01");
    check_session_fails("{" S "\"cpus\":\"1\"}", "cpus: must be a number");
    check_session_fails("{" S "\"memory_gb\":1}",
                        "memory_gb: unknown field; did you mean \"memory_mb\"?");
    check_session_fails("{" S "\"zzzzzz\":1}", "zzzzzz: unknown field");
    check_session_fails("{" S "\"cmd\":\"ls\"}", "cmd: unknown field");
    check_session_fails("{" S "\"network\":\"maybe\"}", "network: must be \"off\" or \"on\"");
    check_session_fails("{" S "\"network\":true}", "network: must be a string");
    check_session_fails("{" S "\"host_path\":\"a\"}", "host_path: must be an absolute path");
    check_session_fails("{" S "\"persistent\":1}", "persistent: must be true or false");
    check_session_fails("{" S "\"extra_mounts\":{}}", "extra_mounts: must be an array of objects");
    check_session_fails("{" S "\"extra_mounts\":[1]}", "extra_mounts[0]: must be an object");
    check_session_fails("{" S "\"extra_mounts\":[{\"host_path\":\"/a\"}]}",
                        "extra_mounts[0]: mount_path: is missing");
    check_session_fails(
        "{" S "\"extra_mounts\":[{\"host_path\":\"/a\",\"mount_path\":\"/b\",\"mod\":1}]}",
        "extra_mounts[0]: mod: unknown field; did you mean \"mode\"?");
#undef S
}

static const struct exec_limits no_limits = {30000, 0};

static int decode_one_exec(const char *text, const struct exec_limits *limits, char *ret,
                           size_t size, struct exec_request *ret_request)
{
    cleanup_json json_t *body = parse(text);
    cleanup_session_spec struct session_spec defaults = {0};
    cleanup_session_spec struct session_spec spec = {0};
    cleanup_exec_order struct exec_order order = {0};
    struct error err = ERROR_INIT;
    bool has_spec;
    session_spec_init(&defaults);
    int rc = decode_exec(body, "s", &defaults, limits, &order, &spec, &has_spec, &err);
    if (rc == 0 && ret_request)
        exec_order_request(&order, ret_request);
    snprintf(ret, size, "%s", rc < 0 ? err.message : "");
    return rc;
}

static void check_exec(const char *text, const struct exec_limits *limits, const char *expected)
{
    char message[ERROR_TEXT_MAX];
    decode_one_exec(text, limits, message, sizeof message, NULL);
    assert_string_equal(message, expected);
}

static void test_exec_body(void **state)
{
    (void)state;
    const struct exec_limits minute = {30000, 60000};
    check_exec("{\"cmd\":\"ls\"}", &no_limits, "");
    check_exec("{\"argv\":[\"ls\",\"\"]}", &no_limits, "");
    check_exec("{\"cmd\":\"ls\",\"timeout_sec\":0}", &no_limits, "");
    check_exec("{\"cmd\":\"ls\",\"stdin\":null,\"workdir\":null,\"spec\":null}", &no_limits, "");
    check_exec("{\"cmd\":\"ls\",\"spec\":{\"memory_mb\":64}}", &no_limits, "");
    check_exec("{\"cmd\":\"ls\",\"spec\":{\"session_id\":\"s\"}}", &no_limits, "");

    check_exec("{}", &no_limits, "cmd: is missing");
    check_exec("{\"cmd\":\"\"}", &no_limits, "cmd: must not be empty");
    check_exec("{\"cmd\":\" \\n\"}", &no_limits, "cmd: must not be blank");
    check_exec("{\"cmd\":\"a\",\"argv\":[\"b\"]}", &no_limits,
               "argv: cannot be given together with cmd");
    check_exec("{\"argv\":[]}", &no_limits, "argv: must have at least 1");
    check_exec("{\"argv\":[\"\"]}", &no_limits, "argv[0]: must not be empty");
    check_exec("{\"argv\":[\"a\",1]}", &no_limits, "argv[1]: must be a string");
    check_exec("{\"cmd\":\"a\",\"workdir\":\"x\"}", &no_limits,
               "workdir: must be an absolute path");
    check_exec("{\"cmd\":\"a\",\"timeout_sec\":-1}", &no_limits, "timeout_sec: must be at least 0");
    check_exec("{\"cmd\":\"a\",\"timeout_sec\":61}", &minute, "timeout_sec: must be at most 60");
    check_exec("{\"cmd\":\"a\",\"timeout_sec\":0}", &minute,
               "timeout_sec: must be above 0 here, and at most 60");
    check_exec("{\"cmd\":\"a\",\"env\":{\"A\":1}}", &no_limits, "env.A: must be a string");
    check_exec("{\"cmd\":\"a\",\"env\":{\"A=B\":\"1\"}}", &no_limits,
               "env: 'A=B' is no name of a variable");
    check_exec("{\"cmd\":\"a\",\"env\":{\"\":\"1\"}}", &no_limits,
               "env: '' is no name of a variable");
    check_exec("{\"cmd\":\"a\",\"stdin\":\"a\",\"stdin_base64\":\"\"}", &no_limits,
               "stdin_base64: cannot be given together with stdin");
    check_exec("{\"cmd\":\"a\",\"stdin_base64\":\"abc\"}", &no_limits,
               "stdin_base64: not base64: its length is no multiple of 4");
    check_exec("{\"cmd\":\"a\",\"encoding\":\"latin1\"}", &no_limits,
               "encoding: must be \"utf-8\" or \"base64\"");
    check_exec("{\"cmd\":\"a\",\"spec\":{\"session_id\":\"other\"}}", &no_limits,
               "spec: session_id: must be the one in the path");
    check_exec("{\"cmd\":\"a\",\"spec\":{\"memry_mb\":64}}", &no_limits,
               "spec: memry_mb: unknown field; did you mean \"memory_mb\"?");
    check_exec("{\"cmd\":\"a\",\"memory_mb\":64}", &no_limits, "memory_mb: unknown field");
}

static void test_exec_request(void **state)
{
    (void)state;
    char message[ERROR_TEXT_MAX];
    struct exec_request request;
    assert_int_equal(decode_one_exec("{\"cmd\":\"ls\",\"timeout_sec\":0.0001,\"concurrent\":true}",
                                     &no_limits, message, sizeof message, &request),
                     0);
    assert_int_equal(request.timeout_ms, 1);
    assert_true(request.concurrent);
    assert_null(request.argv);
    assert_int_equal(
        decode_one_exec("{\"argv\":[\"ls\"]}", &no_limits, message, sizeof message, &request), 0);
    assert_int_equal(request.timeout_ms, 30000);
    assert_null(request.command);
    assert_null(request.input);

    cleanup_json json_t *body = parse("{\"session_id\":\"s\",\"cmd\":\"cat\",\"memory_mb\":64,"
                                      "\"stdin_base64\":\"AAH/\",\"env\":{\"A\":\"=1\"}}");
    cleanup_session_spec struct session_spec defaults = {0};
    cleanup_session_spec struct session_spec spec = {0};
    cleanup_exec_order struct exec_order order = {0};
    struct error err = ERROR_INIT;
    session_spec_init(&defaults);
    assert_int_equal(decode_exec_flat(body, &defaults, &no_limits, &order, &spec, &err), 0);
    exec_order_request(&order, &request);
    assert_int_equal(request.input_size, 3);
    assert_memory_equal(request.input, "\x00\x01\xff", 3);
    assert_string_equal(request.env.items[0], "A==1");
    assert_int_equal(spec.memory_mb, 64);
}

static void check_process(const char *text, const char *expected)
{
    cleanup_json json_t *body = parse(text);
    cleanup_process_spec struct process_spec spec = {0};
    struct error err = ERROR_INIT;
    int rc = decode_process(body, &spec, &err);
    assert_string_equal(rc < 0 ? err.message : "", expected);
}

static void test_process_body(void **state)
{
    (void)state;
    check_process("{\"command\":\"cat\"}", "");
    check_process("{\"command\":\"cat\",\"args\":[\"-\"],\"env\":{},\"cwd\":\"/\",\"memory_mb\":0,"
                  "\"process_id\":\"p\"}",
                  "");
    check_process("{}", "command: is missing");
    check_process("{\"command\":\"\"}", "command: must not be empty");
    check_process("{\"command\":\"cat\",\"args\":\"x\"}", "args: must be an array of strings");
    check_process("{\"command\":\"cat\",\"cwd\":\"x\"}", "cwd: must be an absolute path");
    check_process("{\"command\":\"cat\",\"arg\":[]}", "arg: unknown field; did you mean \"args\"?");
}

static int decode_one_signal(const char *text)
{
    cleanup_json json_t *body = parse(text);
    struct error err = ERROR_INIT;
    int number;
    return decode_signal(body, &number, &err) < 0 ? -1 : number;
}

static void test_signals(void **state)
{
    (void)state;
    char text[SIGNAL_TEXT_SIZE];
    assert_int_equal(decode_one_signal("{\"signal\":\"TERM\"}"), 15);
    assert_int_equal(decode_one_signal("{\"signal\":\"SIGkill\"}"), 9);
    assert_int_equal(decode_one_signal("{\"signal\":\"2\"}"), 2);
    assert_int_equal(decode_one_signal("{\"signal\":10}"), 10);
    assert_int_equal(decode_one_signal("{\"signal\":0}"), -1);
    assert_int_equal(decode_one_signal("{\"signal\":65}"), -1);
    assert_int_equal(decode_one_signal("{\"signal\":-9}"), -1);
    assert_int_equal(decode_one_signal("{\"signal\":\"NOPE\"}"), -1);
    assert_int_equal(decode_one_signal("{\"signal\":null}"), -1);
    assert_int_equal(decode_one_signal("{}"), -1);
    assert_string_equal(signal_text(9, text), "SIGKILL");
    assert_null(signal_text(0, text));
}

static void test_resize(void **state)
{
    (void)state;
    struct terminal_size size = {0};
    struct error err = ERROR_INIT;
    cleanup_json json_t *good = parse("{\"type\":\"resize\",\"rows\":5,\"cols\":7}");
    cleanup_json json_t *bad = parse("{\"type\":\"resize\",\"rows\":5,\"cols\":70000}");
    cleanup_json json_t *other = parse("{\"type\":\"exit\",\"rows\":5,\"cols\":7}");
    assert_int_equal(decode_resize(good, &size, &err), 0);
    assert_int_equal(size.rows, 5);
    assert_int_equal(size.columns, 7);
    assert_int_equal(decode_resize(bad, &size, &err), -1);
    assert_int_equal(decode_resize(other, &size, &err), -1);
}

/* --- errors --- */

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        enum error_code code;
        const char *class;
        int status;
    } expected[] = {
        {ERROR_INVALID, "BoxValidationError", 400},
        {ERROR_NOT_FOUND, "BoxValidationError", 404},
        {ERROR_NO_SESSION, "BoxSessionNotFoundError", 404},
        {ERROR_NO_PROCESS, "BoxManagedProcessNotFoundError", 404},
        {ERROR_SESSION_CONFLICT, "BoxSessionConflictError", 409},
        {ERROR_PROCESS_CONFLICT, "BoxManagedProcessConflictError", 409},
        {ERROR_CAPACITY, "BoxCapacityExceededError", 429},
        {ERROR_UNSUPPORTED, "BoxBackendUnavailableError", 503},
        {ERROR_UNAVAILABLE, "BoxRuntimeUnavailableError", 503},
        {ERROR_SYSTEM, "BoxError", 500},
    };
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        struct error err = {.code = expected[i].code};
        struct wire_error wire = wire_error(&err);
        assert_string_equal(wire_class_name(wire.class), expected[i].class);
        assert_int_equal(wire.status, expected[i].status);
    }
    /* Each code is in the table: a status of 0 would go out as it is. */
    for (int i = 0; i < ERROR_CODE_MAX; i++)
        assert_in_range(wire_error(&(struct error){.code = (enum error_code)i}).status, 400, 599);
}

static void test_file_errors(void **state)
{
    (void)state;
    static const struct {
        enum error_code code;
        int errnum;
        int status;
    } expected[] = {
        {ERROR_NOT_FOUND, ENOENT, 404}, {ERROR_DENIED, EACCES, 403}, {ERROR_DENIED, EROFS, 403},
        {ERROR_INVALID, EISDIR, 400},   {ERROR_LIMIT, ENOSPC, 507},  {ERROR_LIMIT, EDQUOT, 507},
        {ERROR_SYSTEM, ENOTEMPTY, 409}, {ERROR_SYSTEM, EIO, 500},    {ERROR_GONE, 0, 404},
        {ERROR_INVALID, EEXIST, 409},
    };
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        struct error err = {.code = expected[i].code, .errnum = expected[i].errnum};
        assert_int_equal(wire_file_error(&err).status, expected[i].status);
    }
}

/* --- who may ask --- */

static enum guard_verdict browser(struct api_config *config, enum http_origin from,
                                  const char *host, const char *origin)
{
    struct guard_request request = {.from = from, .host = host, .origin = origin};
    return guard_browser(config, &request);
}

static void test_guard_browser(void **state)
{
    (void)state;
    struct api_config config;
    api_config_init(&config);
    strings_add(&config.allowed_hosts, "box.example.org");
    strings_add(&config.allowed_origins, "https://app.example.org");
    static const char *const good[] = {
        "127.0.0.1",    "127.0.0.1:5410",  "[::1]:5410",           "[fe80::1]", "localhost",
        "LOCALHOST:80", "box.example.org", "Box.Example.Org:5410", "10.1.2.3"};
    static const char *const bad[] = {"evil.example",
                                      "evil.example:5410",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example",
                                      "box.example.org.evil",
                                      "",
                                      ":5410",
                                      "[::1",
                                      "[evil]",
                                      "[127.0.0.1]",
                                      "::1",
                                      "localhost:80x",
                                      "localhost:80:80"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_int_equal(browser(&config, HTTP_LOOPBACK, good[i], NULL), GUARD_PASS);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(browser(&config, HTTP_LOOPBACK, bad[i], NULL), GUARD_HOST);
        assert_int_equal(browser(&config, HTTP_NETWORK, bad[i], NULL), GUARD_HOST);
        assert_int_equal(browser(&config, HTTP_UNIX, bad[i], NULL), GUARD_PASS);
    }
    assert_int_equal(browser(&config, HTTP_LOOPBACK, NULL, NULL), GUARD_PASS);
    assert_int_equal(browser(&config, HTTP_LOOPBACK, "localhost", "https://app.example.org"),
                     GUARD_PASS);
    assert_int_equal(browser(&config, HTTP_LOOPBACK, "localhost", "http://app.example.org"),
                     GUARD_ORIGIN);
    assert_int_equal(browser(&config, HTTP_LOOPBACK, "localhost", "null"), GUARD_ORIGIN);
    assert_int_equal(browser(&config, HTTP_UNIX, "localhost", "http://evil.example"), GUARD_ORIGIN);
    api_config_release(&config);
}

static enum guard_verdict token(struct api_config *config, enum http_origin from,
                                const char *header)
{
    struct guard_request request = {.from = from, .authorization = header};
    return guard_token(config, &request);
}

static void test_guard_token(void **state)
{
    (void)state;
    struct api_config config;
    api_config_init(&config);
    assert_int_equal(token(&config, HTTP_UNIX, NULL), GUARD_PASS);
    assert_int_equal(token(&config, HTTP_LOOPBACK, NULL), GUARD_PASS);
    /* The daemon does not listen there without one; if it did, nobody would get in. */
    assert_int_equal(token(&config, HTTP_NETWORK, NULL), GUARD_TOKEN);
    assert_int_equal(token(&config, HTTP_NETWORK, "Bearer "), GUARD_TOKEN);
    assert_string_equal(guard_actor(&config, HTTP_LOOPBACK), "loopback");

    config.token = xstrdup("secret");
    assert_int_equal(token(&config, HTTP_UNIX, NULL), GUARD_PASS);
    assert_int_equal(token(&config, HTTP_LOOPBACK, "Bearer secret"), GUARD_PASS);
    assert_int_equal(token(&config, HTTP_NETWORK, "bearer  secret"), GUARD_PASS);
    static const char *const bad[] = {NULL,
                                      "",
                                      "secret",
                                      "Bearer",
                                      "Bearer ",
                                      "Bearer secre",
                                      "Bearer Secret",
                                      "Bearer secretsecret",
                                      "Bearer secret ",
                                      "Basic secret",
                                      "Bearersecret"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(token(&config, HTTP_LOOPBACK, bad[i]), GUARD_TOKEN);
        assert_int_equal(token(&config, HTTP_NETWORK, bad[i]), GUARD_TOKEN);
    }
    assert_string_equal(guard_actor(&config, HTTP_LOOPBACK), "token");
    assert_string_equal(guard_actor(&config, HTTP_NETWORK), "token");
    assert_string_equal(guard_actor(&config, HTTP_UNIX), "unix");
    api_config_release(&config);
}

/* --- streams cut into texts and lines --- */

/* However it is cut, the texts together are the repaired whole, and each is well-formed but for
   what was ill-formed anyway. */
static void test_text_cut(void **state)
{
    (void)state;
    static const char whole[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z\xff\xe2\x82!\xf0\x9f";
    size_t size = sizeof whole - 1;
    size_t expected_size;
    cleanup_free char *expected = utf8_repair(whole, size, &expected_size);
    for (size_t step = 1; step <= size; step++) {
        struct text_cut cut = {.size = 0};
        struct buf all = BUF_INIT(1000);
        for (size_t at = 0;; at += step) {
            bool end = at >= size;
            size_t part = end ? 0 : at + step > size ? size - at : step;
            const char *text;
            size_t text_size;
            char *owned = text_cut(&cut, whole + (end ? 0 : at), part, end, &text, &text_size);
            size_t repaired_size;
            cleanup_free char *repaired = utf8_repair(text, text_size, &repaired_size);
            buf_append(&all, repaired, repaired_size);
            free(owned);
            if (end)
                break;
        }
        assert_int_equal(all.size, expected_size);
        assert_memory_equal(all.data, expected, expected_size);
        buf_release(&all);
    }
}

static void test_sse(void **state)
{
    (void)state;
    struct json_out out = JSON_OUT_INIT;
    sse_open(&out, "stdout", 0);
    out_text(&out, NULL, "a\nb");
    sse_close(&out);
    sse_open(&out, "oom", 7);
    out_open(&out, NULL, '{');
    out_close(&out, '}');
    sse_close(&out);
    check_out(&out, "event: stdout\ndata: \"a\\nb\"\n\nid: 7\nevent: oom\ndata: {}\n\n");
}

static void add_line(void *owner, const char *line, size_t size)
{
    struct buf *all = owner;
    buf_append(all, "<", 1);
    buf_append(all, line, size);
    buf_append(all, ">", 1);
}

static void check_lines(const char *text, size_t size, size_t max, const char *expected)
{
    for (size_t step = 1; step <= size; step++) {
        struct lines lines;
        struct buf all = BUF_INIT(1000);
        lines_init(&lines, max);
        for (size_t at = 0; at < size; at += step)
            lines_feed(&lines, text + at, at + step > size ? size - at : step, add_line, &all);
        lines_finish(&lines, add_line, &all);
        buf_append(&all, "", 1);
        assert_string_equal(all.data, expected);
        lines_release(&lines);
        buf_release(&all);
    }
}

static void test_lines(void **state)
{
    (void)state;
#define LINES(text, max, expected) check_lines(text, sizeof(text) - 1, max, expected)
    LINES("one\ntwo\n", 100, "<one><two>");
    LINES("one\n\ntwo", 100, "<one><><two>");
    LINES("\n", 100, "<>");
    LINES("12345\n", 5, "<12345>");
    LINES("123456\n7\n", 5, "<12345><6><7>");
    LINES("1234567890123\n", 5, "<12345><67890><123>");
    /* A character is not cut in two. */
    LINES("123\xe2\x82\xac"
          "45\n",
          5,
          "<123><\xe2\x82\xac"
          "45>");
    /* What is none is cut where it must be. */
    LINES("\xe2\xe2\xe2\xe2\n", 2, "<\xe2><\xe2><\xe2\xe2>");
}

/* --- ranges --- */

static void check_range(const char *header, uint64_t size, bool good, uint64_t offset,
                        uint64_t length)
{
    struct range range = range_parse(header);
    uint64_t real_offset = 0;
    uint64_t real_length = 0;
    assert_int_equal(range_resolve(&range, size, &real_offset, &real_length), good);
    if (good) {
        assert_int_equal(real_offset, offset);
        assert_int_equal(real_length, length);
    }
}

static void test_ranges(void **state)
{
    (void)state;
    check_range(NULL, 10, true, 0, 10);
    check_range(NULL, 0, true, 0, 0);
    check_range("bytes=0-0", 10, true, 0, 1);
    check_range("bytes=2-5", 10, true, 2, 4);
    check_range("bytes=2-", 10, true, 2, 8);
    check_range("bytes=2-999", 10, true, 2, 8);
    check_range("bytes=-3", 10, true, 7, 3);
    check_range("bytes=-30", 10, true, 0, 10);
    check_range("Bytes=9-18446744073709551615", 10, true, 9, 1);
    check_range("bytes=10-", 10, false, 0, 0);
    check_range("bytes=-0", 10, false, 0, 0);
    check_range("bytes=0-", 0, false, 0, 0);
    check_range("bytes=99999999999999999999999-", 10, false, 0, 0);
    static const char *const ignored[] = {"bytes=5-2",     "bytes=",    "bytes=-",     "bytes=a-b",
                                          "bytes=0-1,3-4", "lines=0-1", "bytes = 0-1", "bytes=1"};
    for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
        assert_int_equal(range_parse(ignored[i]).kind, RANGE_NONE);
}

/* --- entity tags --- */

/* `wanted`: the tags, each in quotes. */
static void check_tags(const char *header, bool weak, const char *wanted)
{
    struct error err = ERROR_INIT;
    struct skill_versions versions;
    cleanup_free char *found = xstrdup("");
    assert_int_equal(etag_parse(header, weak, &versions, &err), 0);
    assert_true(versions.given && !versions.any);
    for (size_t i = 0; i < versions.digests.count; i++) {
        char *more = xasprintf("%s\"%s\"", found, versions.digests.items[i]);
        free(found);
        found = more;
    }
    assert_string_equal(found, wanted);
    strings_release(&versions.digests);
}

static void test_tags(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct skill_versions versions;
    char tag[ETAG_SIZE];
    etag_make("abc", 3, tag);
    assert_string_equal(tag,
                        "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"");
    check_tags(tag, false, tag);
    check_tags("\"a\"", false, "\"a\"");
    check_tags("\"\"", false, "\"\"");
    check_tags("\"a,b\" ,\t\"c\"", true, "\"a,b\"\"c\"");
    check_tags(", \"a\",,\"b\" ,", false, "\"a\"\"b\"");
    check_tags("\"*\"", false, "\"*\"");
    /* A weak one says nothing of the bytes. */
    check_tags("W/\"a\", \"b\"", false, "\"b\"");
    check_tags("W/\"a\"", false, "");
    check_tags("W/\"a\", \"b\"", true, "\"a\"\"b\"");
    assert_int_equal(etag_parse(NULL, false, &versions, &err), 0);
    assert_false(versions.given || versions.any);
    assert_int_equal(etag_parse("*", false, &versions, &err), 0);
    assert_true(versions.given && versions.any);
    static const char *const bad[] = {"\"c d\"",  "",           ",",       "a",
                                      "\"a",      "a\"",        "**",      "*, \"a\"",
                                      "\"a\", *", "\"a\"\"b\"", "w/\"a\"", "\"\303\251\"",
                                      "W/ \"a\"", "'a'",        "W/"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        versions.given = false;
        assert_int_equal(etag_parse(bad[i], false, &versions, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_false(versions.given); /* untouched */
    }
}

/* --- the description --- */

static void check_refs(const json_t *root, const json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_array(value))
        json_array_foreach(value, i, member) check_refs(root, member);
    if (!json_is_object(value))
        return;
    json_object_foreach((json_t *)value, key, member)
    {
        check_refs(root, member);
        if (strcmp(key, "$ref") != 0)
            continue;
        char kind[32];
        char name[64];
        const char *ref = json_string_value(member);
        assert_int_equal(sscanf(ref, "#/components/%31[a-z]/%63s", kind, name), 2);
        const json_t *there = json_object_get(json_object_get(root, "components"), kind);
        if (!json_object_get(there, name))
            fail_msg("%s is nowhere", ref);
    }
}

static void test_openapi(void **state)
{
    (void)state;
    size_t size;
    cleanup_free char *text = openapi_make(api_routes, api_route_count, "1.2.3", &size);
    cleanup_json json_t *root = NULL;
    struct error err = ERROR_INIT;
    if (json_parse(text, size, &root, &err) < 0)
        fail_msg("%s", err.message);
    check_refs(root, root);

    /* Each route is there … */
    const json_t *paths = json_object_get(root, "paths");
    size_t operations = 0;
    for (size_t i = 0; i < api_route_count; i++) {
        char path[128];
        char method[16];
        snprintf(path, sizeof path, "%s", api_routes[i].pattern);
        char *dots = strstr(path, "...");
        if (dots)
            memmove(dots, dots + 3, strlen(dots + 3) + 1);
        size_t j = 0;
        for (; api_routes[i].method[j]; j++)
            method[j] = (char)(api_routes[i].method[j] | 0x20);
        method[j] = '\0';
        const json_t *operation = json_object_get(json_object_get(paths, path), method);
        if (!operation)
            fail_msg("%s %s is not described", method, path);
        const json_t *responses = json_object_get(operation, "responses");
        static const char *const codes[] = {"400", "401", "404", "405", "409",
                                            "412", "413", "429", "503"};
        for (j = 0; j < ARRAY_SIZE(codes); j++)
            assert_non_null(json_object_get(responses, codes[j]));
        assert_true(json_array_size(json_object_get(operation, "parameters")) >=
                    api_routes[i].query_count);
        assert_int_equal(!!json_object_get(operation, "requestBody"),
                         !!(api_routes[i].flags & (ROUTE_JSON | ROUTE_UPLOAD)));
    }
    /* … and nothing else. */
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)paths, key, item) operations += json_object_size(item);
    assert_int_equal(operations, api_route_count);

    const json_t *spec = json_object_get(
        json_object_get(json_object_get(json_object_get(root, "components"), "schemas"),
                        "SessionSpec"),
        "properties");
    const json_t *memory = json_object_get(spec, "memory_mb");
    assert_true(json_number_value(json_object_get(memory, "minimum")) == 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_utf8_unfinished),
        cmocka_unit_test(test_json_out),
        cmocka_unit_test(test_json_out_any_bytes),
        cmocka_unit_test(test_json_parse),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_queries),
        cmocka_unit_test(test_session_body),
        cmocka_unit_test(test_session_body_refused),
        cmocka_unit_test(test_exec_body),
        cmocka_unit_test(test_exec_request),
        cmocka_unit_test(test_process_body),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_file_errors),
        cmocka_unit_test(test_guard_browser),
        cmocka_unit_test(test_guard_token),
        cmocka_unit_test(test_text_cut),
        cmocka_unit_test(test_sse),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_openapi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
