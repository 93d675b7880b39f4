/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's specs: JSON as Python reads it, values as pydantic's lax mode takes them, and what the
   decoders make of them. tests/conformance/langbot/test_specs.py asks pydantic itself. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "api/decode.h"
#include "api/rpc-spec.h"
#include "core/json.h"
#include "core/lax.h"

static json_t *parse(const char *text)
{
    struct error err = ERROR_INIT;
    json_t *value = NULL;
    if (json_parse_lax(text, strlen(text), &value, &err) < 0)
        fail_msg("%s: %s", text, err.message);
    return value;
}

/* --- JSON --- */

/* What is read, written again. */
static const struct {
    const char *text, *again;
} documents[] = {
    {"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}"},
    {"\"a\\u0000b\"", "\"a\\u0000b\""},
    {"{\"a\\u0000b\":1}", "{\"a\\u0001b\":1}"},
    {"{\"a\\u0000b\" \t\r\n : \"\\u0000\"}", "{\"a\\u0001b\":\"\\u0000\"}"},
    {"[\"\\u0000\", \"\\uD800\"]", "[\"\\u0000\",\"\\uFFFD\"]"},
    {"\"\\ud800\"", "\"\\uFFFD\""},
    {"\"\\udc00\"", "\"\\uFFFD\""},
    {"\"\\uDBFFx\\uDfFf\"", "\"\\uFFFDx\\uFFFD\""},
    {"\"\\ud800\\ud83d\\ude00\"", "\"\\uFFFD\\uD83D\\uDE00\""},
    {"\"\\ud800\\\\ud800\"", "\"\\uFFFD\\\\ud800\""},
    {"\"\\ud83d\\ude00\"", "\"\\uD83D\\uDE00\""},
    {"[\"\\ud800\", \"NaN\", \"\\\"NaN\"]", "[\"\\uFFFD\",\"NaN\",\"\\\"NaN\"]"},
    {"[NaN, Infinity, -Infinity]", "[1e308,1e308,-1e308]"},
    {"[9223372036854775807, -9223372036854775808]", "[9223372036854775807,-9223372036854775808]"},
    {"[9223372036854775808,-9223372036854775809,0]", "[1e308,-1e308,0]"},
    {"[1e308, 1e309, -1.5E+999, 1e-999]", "[1e308,1e308,-1e308,0.0]"},
    {" -0 ", "0"},
    {"{}", "{}"},
};

static const char *const malformed[] = {
    "",          "{",         "\"",      "\"\\",       "\"\\u",
    "\"\\ud8\"", "\"\\ud800", "nan",     "+1",         "01",
    "1.",        ".5",        "1e",      "- 1",        "Inf",
    "-NaN",      "0.NaN",     "1NaN",    "--Infinity", "NaNN",
    "[NaN",      "--1",       "\"\\x\"", "{\"a\":1,}", "[1,]",
    "1 2",       "NaN NaN",   "{1:2}",   "{NaN:1}",    "\"\n\"",
    "\"\x80\"",  "\"\xff",    "\\ud800", "INFINITY",   "00000000000000000000"};

static void test_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(documents); i++) {
        cleanup_json json_t *value = parse(documents[i].text);
        cleanup_free char *again = json_dumps(
            value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(3));
        assert_string_equal(again, documents[i].again);
    }
    for (size_t i = 0; i < ARRAY_SIZE(malformed); i++) {
        struct error err = ERROR_INIT;
        json_t *value = NULL;
        if (json_parse_lax(malformed[i], strlen(malformed[i]), &value, &err) == 0)
            fail_msg("taken: %s", malformed[i]);
        assert_null(value);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_non_null(strstr(err.message, "not JSON"));
    }
    struct error err = ERROR_INIT;
    json_t *value;
    char deep[JSON_DEPTH_MAX + 1];
    memset(deep, '[', sizeof deep);
    assert_int_equal(json_parse_lax(deep, sizeof deep, &value, &err), -1);
    assert_non_null(strstr(err.message, "deep"));
    /* The strict way is as strict as it was. */
    static const char *const lax[] = {"{\"a\":1,\"a\":1}", "\"\\u0000\"", "\"\\ud800\"", "NaN",
                                      "9223372036854775808"};
    for (size_t i = 0; i < ARRAY_SIZE(lax); i++)
        assert_int_equal(json_parse(lax[i], strlen(lax[i]), &value, &err), -1);
}

/* --- values --- */

#define BAD   INT64_MIN
#define RANGE (INT64_MIN + 1)

static const struct {
    const char *text;
    int64_t value; /* BAD: -EINVAL; RANGE: -ERANGE */
} integers[] = {
    {"0", 0},
    {"-7", -7},
    {"7.0", 7},
    {"7e2", 700},
    {"-0.0", 0},
    {"7.5", BAD},
    {"true", 1},
    {"false", 0},
    {"null", BAD},
    {"[]", BAD},
    {"{}", BAD},
    {"9.2e18", 9200000000000000000},
    {"9.3e18", RANGE},
    {"-1e300", RANGE},
    {"\"7\"", 7},
    {"\" +7\\n\"", 7},
    {"\"\\u00a07\\u2003\"", 7},
    {"\"\\u001c7\"", BAD},
    {"\"-7\"", -7},
    {"\"- 7\"", BAD},
    {"\"+-7\"", BAD},
    {"\"--7\"", BAD},
    {"\"007\"", 7},
    {"\"-007\"", -7},
    {"\"000\"", 0},
    {"\"0_0\"", 0},
    {"\"0_\"", BAD},
    {"\"0__7\"", 7},
    {"\"1_000\"", 1000},
    {"\"1__000\"", BAD},
    {"\"_1\"", BAD},
    {"\"1_\"", BAD},
    {"\"7.0\"", 7},
    {"\"7.000\"", 7},
    {"\"0.0\"", 0},
    {"\"0_.0\"", BAD},
    {"\"7_.0\"", BAD},
    {"\"7.\"", BAD},
    {"\".0\"", BAD},
    {"\"7.5\"", BAD},
    {"\"7.0.0\"", BAD},
    {"\"7e0\"", BAD},
    {"\"0x7\"", BAD},
    {"\"0-0\"", BAD},
    {"\"\"", BAD},
    {"\" \"", BAD},
    {"\"+\"", BAD},
    {"\"7\\u0000\"", BAD},
    {"\"\\uff17\"", BAD},
    {"\"9223372036854775807\"", INT64_MAX},
    {"\"9223372036854775808\"", RANGE},
    {"\"99999999999999999999999999x\"", BAD},
};

static void test_integers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(integers); i++) {
        cleanup_json json_t *value = parse(integers[i].text);
        int64_t number = 42;
        int rc = lax_integer(value, &number);
        int64_t wanted = integers[i].value;
        int wanted_rc = wanted == BAD ? -EINVAL : wanted == RANGE ? -ERANGE : 0;
        if (rc != wanted_rc || number != (rc == 0 ? wanted : 42))
            fail_msg("%s: %d, %lld", integers[i].text, rc, (long long)number);
    }
}

static const struct {
    const char *text;
    double value; /* -1: -EINVAL */
} numbers[] = {
    {"0.5", 0.5},
    {"2", 2},
    {"true", 1},
    {"null", -1},
    {"[]", -1},
    {"\"0.5\"", 0.5},
    {"\".5\"", 0.5},
    {"\"5.\"", 5},
    {"\"+5e-1\"", 0.5},
    {"\"5E1\"", 50},
    {"\"\\t5\\u3000\"", 5},
    {"\"1_0.5\"", 10.5},
    {"\"1_.5\"", 1.5},
    {"\"1._5\"", 1.5},
    {"\"1e1_0\"", 1e10},
    {"\" 1_0\"", -1},
    {"\"1__0\"", -1},
    {"\"_1\"", -1},
    {"\"1_\"", -1},
    {"\".\"", -1},
    {"\"\"", -1},
    {"\"e5\"", -1},
    {"\"5e\"", -1},
    {"\"5e+\"", -1},
    {"\"0x5\"", -1},
    {"\"5,0\"", -1},
    {"\"5 5\"", -1},
    {"\"nan\"", -1},
    {"\"inf\"", -1},
    {"\"1e999\"", -1},
    {"\"5\\u0000\"", -1},
    {"\"\\u001c5\"", -1},
    {"\"1e-999\"", 0},
    {"\"5-\"", -1},
    {"\"+-5\"", -1},
    {"\"0005\"", 5},
};

static void test_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        cleanup_json json_t *value = parse(numbers[i].text);
        double number = -1;
        int rc = lax_number(value, &number);
        if (rc != (numbers[i].value < 0 ? -EINVAL : 0) ||
            memcmp(&number, &numbers[i].value, 8) != 0)
            fail_msg("%s: %d, %g", numbers[i].text, rc, number);
    }
}

static void test_flags(void **state)
{
    (void)state;
    static const char *const no[] = {"false", "0",      "0.0",     "\"0\"",     "\"F\"",
                                     "\"n\"", "\"No\"", "\"oFF\"", "\"false\"", "-0.0"};
    static const char *const yes[] = {"true",  "1",       "1.0",    "\"1\"",   "\"t\"",
                                      "\"Y\"", "\"yes\"", "\"ON\"", "\"True\""};
    static const char *const neither[] = {
        "2",      "-1",      "0.5", "null", "\"\"",         "\" 1\"",         "\"true \"",
        "\"10\"", "\"1.0\"", "[]",  "{}",   "\"t\\u0000\"", "\"yes\\u0000\"", "1e300"};
    bool flag;
    for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
        cleanup_json json_t *value = parse(no[i]);
        flag = true;
        assert_int_equal(lax_flag(value, &flag), 0);
        assert_false(flag);
    }
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        cleanup_json json_t *value = parse(yes[i]);
        flag = false;
        assert_int_equal(lax_flag(value, &flag), 0);
        assert_true(flag);
    }
    for (size_t i = 0; i < ARRAY_SIZE(neither); i++) {
        cleanup_json json_t *value = parse(neither[i]);
        assert_int_equal(lax_flag(value, &flag), -EINVAL);
    }
}

static const struct {
    const char *text;
    int64_t us;
} times[] = {
    {"\"2026-11-15T23:25:57.000123+00:00\"", 1794785157000123},
    {"\"2026-11-15T23:25:57Z\"", 1794785157000000},
    {"\"2026-11-15t23:25:57z\"", 1794785157000000},
    {"\"2026-11-16 00:55:57+01:30\"", 1794785157000000},
    {"\"2026-11-15_21:55:57,5-0130\"", 1794785157500000},
    {"\"2026-11-15T21:55:57\\u221201:30\"", 1794785157000000},
    {"\"2026-11-15T23:25Z\"", 1794785100000000},
    {"\"2026-11-15T23:25:57.123456789Z\"", 1794785157123456},
    {"\"2024-02-29T00:00Z\"", 1709164800000000},
    {"\"0001-01-01T00:00Z\"", -62135596800000000},
    {"\"9999-12-31T23:59:59.999999Z\"", 253402300799999999},
    {"1794785157", 1794785157000000},
    {"1794785157123", 1794785157123000},
    {"1794785157.5", 1794785157500000},
    {"-1.25", -1250000},
    {"0", 0},
    {"20000000000", 20000000000000000},
    {"20000000001", 20000000001000},
    {"\"1794785157\"", 1794785157000000},
    {"\"+1794785157\"", 1794785157000000},
    {"\"-1.25\"", -1250000},
    {"\".5\"", 500000},
    {"\"1.5e9\"", 1500000000000000},
    {"\"1794785157123.5\"", 1794785157123500},
};

static const char *const no_times[] = {
    "null",
    "true",
    "[]",
    "\"\"",
    "\"now\"",
    "\"2026-11-15\"",
    "\"2026-11-15T23:25:57\"",
    "\"2026-11-15T23:25:57+00\"",
    "\"2026-11-15T23:25:57+24:00\"",
    "\"2026-11-15T23:25:57+00:60\"",
    "\"2026-11-15T23:25:57 Z\"",
    "\"2026-11-15T23:25:57Z \"",
    "\" 2026-11-15T23:25:57Z\"",
    "\"2026-11-15T23:25:57Z\\u0000\"",
    "\"2026-11-15T24:00:00Z\"",
    "\"2026-11-15T23:60:00Z\"",
    "\"2026-11-15T23:25:60Z\"",
    "\"2026-11-15T23:25:57.Z\"",
    "\"2026-11-15T2325Z\"",
    "\"2026-11-15X23:25Z\"",
    "\"2025-02-29T00:00Z\"",
    "\"2100-02-29T00:00Z\"",
    "\"2026-04-31T00:00Z\"",
    "\"2026-13-01T00:00Z\"",
    "\"2026-01-00T00:00Z\"",
    "\"0000-01-01T00:00Z\"",
    "\"0001-01-01T00:00+00:01\"",
    "\"9999-12-31T23:59:59-00:01\"",
    "\"1e9\"",
    "\"1.5e\"",
    "\"1 \"",
    "\"-\"",
    "\"1_0\"",
    "\"9223372036854775808\"",
    "253402300800000",
    "9223372036854775807",
    "-9223372036854775808",
    "1e300",
    "-1e300",
    "253402300800000.0",
};

static void test_times(void **state)
{
    (void)state;
    int64_t us;
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        cleanup_json json_t *value = parse(times[i].text);
        if (lax_time(value, &us) != 0 || us != times[i].us)
            fail_msg("%s: %lld", times[i].text, (long long)us);
    }
    for (size_t i = 0; i < ARRAY_SIZE(no_times); i++) {
        cleanup_json json_t *value = parse(no_times[i]);
        us = 42;
        if (lax_time(value, &us) == 0 || us != 42)
            fail_msg("taken: %s", no_times[i]);
    }
}

/* --- specs --- */

typedef void (*check_value)(const json_t *value, struct error *err);

/* What is to be refused, and with which words in the message. */
struct refusal {
    const char *text, *message;
};

static void check_refusals(const struct refusal *table, size_t count, check_value decode)
{
    for (size_t i = 0; i < count; i++) {
        struct error err = ERROR_INIT;
        cleanup_json json_t *value = parse(table[i].text);
        decode(value, &err);
        if (err.code != ERROR_INVALID || !strstr(err.message, table[i].message))
            fail_msg("%s: '%s'", table[i].text, err.message);
    }
}

static void try_spec(const json_t *value, struct error *err)
{
    struct rpc_spec spec;
    int rc = rpc_spec_decode(value, &spec, err);
    rpc_spec_release(&spec);
    assert_true(rc == 0 ? err->code == ERROR_NONE : rc == -1);
}

static void test_spec_defaults(void **state)
{
    (void)state;
    struct rpc_spec spec;
    struct error err = ERROR_INIT;
    cleanup_json json_t *value = parse("{\"session_id\":\"s\",\"nobody\":[1],\"a\\u0000\":NaN}");
    assert_int_equal(rpc_spec_decode(value, &spec, &err), 0);
    assert_string_equal(spec.session.name, "s");
    assert_string_equal(spec.cmd, "");
    assert_string_equal(spec.workdir, "/workspace");
    assert_int_equal(spec.timeout_sec, 30);
    assert_int_equal(spec.env.count, 0);
    assert_null(spec.skill_name);
    assert_string_equal(spec.session.image, SESSION_IMAGE_DEFAULT);
    assert_string_equal(spec.session.mount_path, "/workspace");
    assert_null(spec.session.host_path);
    assert_int_equal(spec.session.host_path_mode, MOUNT_RW);
    assert_int_equal(spec.session.mount_count, 0);
    assert_false(spec.session.network);
    assert_false(spec.session.persistent);
    assert_true(spec.session.read_only_rootfs);
    assert_true(spec.session.cpus == 1);
    assert_int_equal(spec.session.memory_mb, 512);
    assert_int_equal(spec.session.pids_limit, 128);
    assert_int_equal(spec.session.workspace_quota_mb, 0);
    assert_false(spec.session.make_host_path);
    rpc_spec_release(&spec);
}

static void test_spec_full(void **state)
{
    (void)state;
    struct rpc_spec spec;
    struct error err = ERROR_INIT;
    cleanup_json json_t *value =
        parse("{\"session_id\":\"\\u3000s \",\"cmd\":\"\\n echo \\u001f\",\"workdir\":\" /w/x "
              "\",\"timeout_sec\":"
              "\"6_0\",\"network\":\"on\",\"env\":{\"A\":\" 1 \",\"B\":\"\"},\"image\":\" i "
              "\",\"host_path\":\" /h \","
              "\"host_path_mode\":\"ro\",\"mount_path\":\"/w\",\"extra_mounts\":[{\"host_path\":\" "
              "/a \",\"mount_path\":"
              "\"/b\",\"other\":1},{\"host_path\":\"/c\",\"mount_path\":\"/"
              "d\",\"mode\":\"none\"}],\"skill_name\":\" "
              "\\u6280-1_ "
              "\",\"persistent\":\"yes\",\"cpus\":\".5\",\"memory_mb\":64.0,\"pids_limit\":true,"
              "\"read_only_rootfs\":0,\"workspace_quota_mb\":\"10.0\"}");
    if (rpc_spec_decode(value, &spec, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(spec.session.name, "s");
    assert_string_equal(spec.cmd, "echo");
    assert_string_equal(spec.workdir, "/w/x");
    assert_int_equal(spec.timeout_sec, 60);
    assert_true(spec.session.network);
    assert_int_equal(spec.env.count, 2);
    assert_string_equal(spec.env.items[0], "A= 1 ");
    assert_string_equal(spec.env.items[1], "B=");
    assert_string_equal(spec.session.image, " i ");
    assert_string_equal(spec.session.host_path, "/h");
    assert_int_equal(spec.session.host_path_mode, MOUNT_RO);
    assert_int_equal(spec.session.mount_count, 2);
    assert_string_equal(spec.session.mounts[0].host_path, "/a");
    assert_string_equal(spec.session.mounts[0].mount_path, "/b");
    assert_int_equal(spec.session.mounts[0].mode, MOUNT_RW);
    assert_int_equal(spec.session.mounts[1].mode, MOUNT_NONE);
    assert_string_equal(spec.skill_name, "\u6280-1_");
    assert_true(spec.session.persistent);
    assert_true(spec.session.cpus == 0.5);
    assert_int_equal(spec.session.memory_mb, 64);
    assert_int_equal(spec.session.pids_limit, 1);
    assert_false(spec.session.read_only_rootfs);
    assert_int_equal(spec.session.workspace_quota_mb, 10);
    rpc_spec_release(&spec);
}

/* What is said about the working directory, and which it is; NULL: refused. */
static const struct {
    const char *rest, *workdir;
} workdirs[] = {
    {"\"mount_path\":\" /m \"", "/m"},
    {"\"mount_path\":\"/m\",\"workdir\":\"\"", "/m"},
    {"\"mount_path\":\"/m\",\"workdir\":null", "/m"},
    {"\"mount_path\":\"/m\",\"workdir\":\" \"", NULL},
    {"\"mount_path\":\"/m\",\"workdir\":\"/w\"", "/w"},
    {"\"mount_path\":\" \"", NULL},
    {"\"workdir\":\"\"", NULL},
    {"\"workdir\":null", NULL},
    {"\"workdir\":0", NULL},
    {"\"mount_path\":5,\"workdir\":\"\"", NULL},
    {"\"host_path\":\"/h\",\"workdir\":\"/workspace/a\"", "/workspace/a"},
    {"\"host_path\":\"/h\",\"workdir\":\"/workspace/\"", "/workspace/"},
    {"\"host_path\":\"/h\",\"workdir\":\"/workspacex\"", NULL},
    {"\"host_path\":\"/h\",\"workdir\":\"/\"", NULL},
    {"\"host_path\":\"/h\",\"host_path_mode\":\"none\",\"workdir\":\"/\"", "/"},
    {"\"host_path\":null,\"workdir\":\"/\"", "/"},
    {"\"host_path\":\"/h\",\"mount_path\":\"/\"", "/"},
    {"\"host_path\":\"/h\",\"mount_path\":\"/\",\"workdir\":\"/x\"", NULL},
    {"\"host_path\":\"/h\",\"mount_path\":\"/\",\"workdir\":\"//x\"", "//x"},
};

static void test_workdirs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(workdirs); i++) {
        struct rpc_spec spec;
        struct error err = ERROR_INIT;
        cleanup_free char *text = xasprintf("{\"session_id\":\"s\",%s}", workdirs[i].rest);
        cleanup_json json_t *value = parse(text);
        int rc = rpc_spec_decode(value, &spec, &err);
        if (rc != (workdirs[i].workdir ? 0 : -1) ||
            (rc == 0 && strcmp(spec.workdir, workdirs[i].workdir) != 0))
            fail_msg("%s: %d %s", text, rc, err.message);
        rpc_spec_release(&spec);
    }
}

#define S "{\"session_id\":\"s\","

static const struct refusal spec_refusals[] = {
    {"null", "object"},
    {"[]", "object"},
    {"{}", "session_id: is missing"},
    {"{\"session_id\":null}", "session_id: must be a string"},
    {"{\"session_id\":1}", "session_id: must be a string"},
    {"{\"session_id\":\" \\u2003\"}", "session_id: must not be empty"},
    {"{\"session_id\":\"a\\u0000\"}", "session_id: must not have a NUL"},
    {"{\"session_id\":\"\\u0000\"}", "session_id: must not have a NUL"},
    {"{\"session_id\":\"a\\nb\"}", "session_id has control"},
    {"{\"session_id\":\"a\\u0085b\"}", "session_id has control"},
    {S "\"cmd\":null}", "cmd: must be a string"},
    {S "\"cmd\":\"true\\u0000; false\"}", "cmd: must not have a NUL"},
    {S "\"workdir\":\"x\"}", "workdir: must be an absolute path"},
    {S "\"timeout_sec\":0}", "timeout_sec: must be at least 1"},
    {S "\"timeout_sec\":\"-5\"}", "timeout_sec: must be at least 1"},
    {S "\"timeout_sec\":1.5}", "timeout_sec: must be a whole number"},
    {S "\"timeout_sec\":4294967296}", "timeout_sec: must be at most"},
    {S "\"timeout_sec\":99999999999999999999}", "timeout_sec: is out of range"},
    {S "\"timeout_sec\":null}", "timeout_sec: must be a whole number"},
    {S "\"network\":true}", "network: must be a string"},
    {S "\"network\":\"ON\"}", "network: must be \"off\" or \"on\""},
    {S "\"network\":\"on\\u0000\"}", "network: must be \"off\" or \"on\""},
    {S "\"env\":[]}", "env: must be an object of strings"},
    {S "\"env\":{\"A\":1}}", "env.A: must be a string"},
    {S "\"env\":{\"A\":\"x\\u0000\"}}", "env.A: must not have a NUL"},
    {S "\"env\":{\"A\\u0000B\":\"x\"}}", "is no name of a variable"},
    {S "\"env\":{\"A=B\":\"x\"}}", "env: 'A=B' is no name of a variable"},
    {S "\"env\":{\"\":\"x\"}}", "env: '' is no name of a variable"},
    {S "\"image\":\"\"}", "image must be"},
    {S "\"image\":\"a\\u0000b\"}", "image: must not have a NUL"},
    {S "\"host_path\":\"\"}", "host_path: must be an absolute path"},
    {S "\"host_path\":\"C:\\\\x\"}", "host_path: must be an absolute path"},
    {S "\"host_path\":\"/a/../b\"}", "host_path: path"},
    {S "\"host_path_mode\":\"wr\"}", "host_path_mode: must be \"none\", \"ro\" or \"rw\""},
    {S "\"host_path_mode\":null}", "host_path_mode: must be a string"},
    {S "\"mount_path\":null}", "mount_path: must be a string"},
    {S "\"mount_path\":\"/a\\tb\"}", "mount_path has control"},
    {S "\"extra_mounts\":{}}", "extra_mounts: must be an array"},
    {S "\"extra_mounts\":[1]}", "extra_mounts[0]: must be an object"},
    {S "\"extra_mounts\":[{\"host_path\":\"/a\"}]}", "extra_mounts[0]: mount_path: is missing"},
    {S "\"extra_mounts\":[{\"host_path\":\"a\",\"mount_path\":\"/b\"}]}",
     "extra_mounts[0]: host_path: must be an absolute path"},
    {S "\"extra_mounts\":[{\"host_path\":\"/a\",\"mount_path\":\"/b\\u0000\"}]}",
     "extra_mounts[0]: mount_path: must not have a NUL"},
    {S "\"skill_name\":\"a.b\"}", "skill_name: must be of letters"},
    {S "\"skill_name\":\"a b\"}", "skill_name: must be of letters"},
    {S "\"skill_name\":\"-_\"}", "skill_name: must have a letter"},
    {S "\"skill_name\":1}", "skill_name: must be a string"},
    {S "\"persistent\":2}", "persistent: must be true or false"},
    {S "\"persistent\":null}", "persistent: must be true or false"},
    {S "\"cpus\":0}", "cpus must be above 0"},
    {S "\"cpus\":-1}", "cpus: must be at least 0"},
    {S "\"cpus\":1025}", "cpus must be above 0 and at most 1024"},
    {S "\"cpus\":NaN}", "cpus must be above 0 and at most 1024"},
    {S "\"cpus\":\"inf\"}", "cpus: must be a number"},
    {S "\"cpus\":null}", "cpus: must be a number"},
    {S "\"memory_mb\":31}", "memory_mb: must be at least 32"},
    {S "\"memory_mb\":16777217}", "memory_mb: must be at most 16777216"},
    {S "\"pids_limit\":0}", "pids_limit: must be at least 1"},
    {S "\"pids_limit\":false}", "pids_limit: must be at least 1"},
    {S "\"pids_limit\":4294967297}", "pids_limit: must be at most"},
    {S "\"workspace_quota_mb\":-1}", "workspace_quota_mb: must be at least 0"},
};

static void test_spec_refusals(void **state)
{
    (void)state;
    check_refusals(spec_refusals, ARRAY_SIZE(spec_refusals), try_spec);
}

/* A spec with one text of that many characters. */
static void check_length(const char *field, const char *before, size_t count, const char *message)
{
    struct error err = ERROR_INIT;
    cleanup_free char *text = xmalloc(count + 1);
    memset(text, 'x', count);
    text[count] = '\0';
    cleanup_free char *document = xasprintf(S "\"%s\":\" %s%s \"}", field, before, text);
    cleanup_json json_t *value = parse(document);
    try_spec(value, &err);
    if (message)
        assert_non_null(strstr(err.message, message));
    else
        assert_string_equal(err.message, "");
}

static void test_spec_lengths(void **state)
{
    (void)state;
    check_length("cmd", "", 131071, NULL);
    check_length("cmd", "", 131072, "cmd: must be at most 131071 bytes");
    check_length("session_id", "", 255, NULL);
    check_length("session_id", "", 256, "session_id: must be at most 255 bytes");
    check_length("skill_name", "", 64, NULL);
    check_length("skill_name", "", 65, "skill_name: must be at most 64 characters");
    check_length("skill_name", "\xC3\xA4\xC3\xA4", 62, NULL);
    check_length("workdir", "/", 4094, NULL);
    check_length("workdir", "/", 4095, "workdir: must be at most 4095 bytes");
    check_length("host_path", "/", 4095, "host_path: must be at most 4095 bytes");
    check_length("mount_path", "/", 4095, "must be at most 4095 bytes");
    for (size_t count = SESSION_MOUNTS_MAX; count <= SESSION_MOUNTS_MAX + 1; count++) {
        struct error err = ERROR_INIT;
        cleanup_json json_t *value = parse(S "\"extra_mounts\":[]}");
        for (size_t i = 0; i < count; i++)
            json_array_append_new(json_object_get(value, "extra_mounts"),
                                  json_pack("{ssss}", "host_path", "/h", "mount_path", "/m"));
        try_spec(value, &err);
        assert_int_equal(err.code, count > SESSION_MOUNTS_MAX ? ERROR_INVALID : ERROR_NONE);
    }
}

/* The document is the caller's: it must be as it was. */
static void test_spec_borrows(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    cleanup_json json_t *value = parse(S "\"mount_path\":\"/m\",\"workdir\":\"\"}");
    cleanup_json json_t *copy = json_deep_copy(value);
    try_spec(value, &err);
    assert_true(json_equal(value, copy));
}

/* --- processes --- */

static void try_process(const json_t *value, struct error *err)
{
    struct process_spec spec;
    (void)rpc_process_decode(value, &spec, err);
    process_spec_release(&spec);
}

static const struct refusal process_refusals[] = {
    {"[]", "object"},
    {"{}", "command: is missing"},
    {"{\"command\":\" \"}", "command: must not be empty"},
    {"{\"command\":\"a\\u0000b\"}", "command: must not have a NUL"},
    {"{\"command\":\"a\",\"args\":\"b\"}", "args: must be an array"},
    {"{\"command\":\"a\",\"args\":[\"b\",1]}", "args[1]: must be a string"},
    {"{\"command\":\"a\",\"args\":[\"b\\u0000\"]}", "args[0]: must not have a NUL"},
    {"{\"command\":\"a\",\"cwd\":\"b\"}", "cwd: must be an absolute path"},
    {"{\"command\":\"a\",\"process_id\":\"\"}", "process_id must have"},
    {"{\"command\":\"a\",\"process_id\":\"b\\u0000\"}", "process_id: must not have a NUL"},
    {"{\"command\":\"a\",\"process_id\":\"a\\nb\"}", "process_id has control"},
    {"{\"command\":\"a\",\"memory_mb\":-1}", "memory_mb: must be at least 0"},
    {"{\"command\":\"a\",\"env\":{\"A\":null}}", "env.A: must be a string"},
};

static void test_processes(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    cleanup_process_spec struct process_spec spec, full;
    cleanup_json json_t *value = parse("{\"command\":\" cat \",\"x\":1}");
    assert_int_equal(rpc_process_decode(value, &spec, &err), 0);
    assert_string_equal(spec.id, "default");
    assert_string_equal(spec.command, "cat");
    assert_string_equal(spec.cwd, "/workspace");
    assert_int_equal(spec.args.count, 0);
    assert_int_equal(spec.memory_mb, 0);
    cleanup_json json_t *other = parse(
        "{\"command\":\"cat\",\"process_id\":\" p \",\"args\":[\" a \",\"\"],\"env\":{\"A\":\"b\"},"
        "\"cwd\":\" / \",\"memory_mb\":\"64\"}");
    assert_int_equal(rpc_process_decode(other, &full, &err), 0);
    assert_string_equal(full.id, " p ");
    assert_int_equal(full.args.count, 2);
    assert_string_equal(full.args.items[0], " a ");
    assert_string_equal(full.env.items[0], "A=b");
    assert_string_equal(full.cwd, "/");
    assert_int_equal(full.memory_mb, 64);
    check_refusals(process_refusals, ARRAY_SIZE(process_refusals), try_process);
}

/* --- grants, revocations, contexts --- */

#define IDS "\"instance_uuid\":\" i \",\"workspace_uuid\":\"w\""
#define GRANT                                                                            \
    "{" IDS ",\"execution_generation\":3,\"entitlement_revision\":2,\"max_sessions\":1," \
    "\"max_managed_processes\":0,\"expires_at\":"

static void try_grant(const json_t *value, struct error *err)
{
    struct admission_grant grant;
    (void)rpc_grant_decode(value, &grant, err);
    admission_grant_release(&grant);
}

static const struct refusal grant_refusals[] = {
    {"{}", "is missing"},
    {GRANT "\"2026-11-15T23:25:57\"}", "expires_at: must be a time that says its zone"},
    {GRANT "null}", "expires_at: must be a time"},
    {GRANT "0,\"plan\":\"gold\"}", "plan: unknown field"},
    {GRANT "0,\"max_sessions\":true}", "max_sessions: must be a whole number"},
    {GRANT "0,\"max_sessions\":\"1\"}", "max_sessions: must be a whole number"},
    {GRANT "0,\"max_sessions\":1.0}", "max_sessions: must be a whole number"},
    {GRANT "0,\"max_sessions\":-1}", "max_sessions: must be at least 0"},
    {GRANT "0,\"max_sessions\":4294967296}", "max_sessions: must be at most"},
    {GRANT "0,\"execution_generation\":0}", "execution_generation: must be at least 1"},
    {GRANT "0,\"entitlement_revision\":0}", "entitlement_revision: must be at least 1"},
    {GRANT "0,\"entitlement_revision\":9223372036854775808}",
     "entitlement_revision: is out of range"},
    {GRANT "0,\"instance_uuid\":\" \"}", "instance_uuid: must not be empty"},
    {GRANT "0,\"workspace_uuid\":\"a\\u0000b\"}", "workspace_uuid: must not have a NUL"},
};

static void test_grants(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct admission_grant grant;
    cleanup_json json_t *value = parse(GRANT "\"1970-01-01T00:00:01.5Z\"}");
    assert_int_equal(rpc_grant_decode(value, &grant, &err), 0);
    assert_string_equal(grant.instance, "i");
    assert_string_equal(grant.workspace, "w");
    assert_int_equal(grant.generation, 3);
    assert_int_equal(grant.revision, 2);
    assert_int_equal(grant.expires_us, 1500000);
    assert_int_equal(grant.max_sessions, 1);
    assert_int_equal(grant.max_managed_processes, 0);
    admission_grant_release(&grant);
    check_refusals(grant_refusals, ARRAY_SIZE(grant_refusals), try_grant);
}

static void try_revocation(const json_t *value, struct error *err)
{
    struct rpc_revocation revocation;
    (void)rpc_revocation_decode(value, &revocation, err);
    rpc_revocation_release(&revocation);
}

static const struct refusal revocation_refusals[] = {
    {"[]", "object"},
    {"{" IDS "}", "entitlement_revision: is missing"},
    {"{" IDS ",\"entitlement_revision\":true}", "entitlement_revision: must be a whole number"},
    {"{" IDS ",\"entitlement_revision\":0}", "entitlement_revision: must be at least 1"},
    {"{" IDS ",\"entitlement_revision\":1,\"x\":1}", "x: unknown field"},
};

static void test_revocations(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct rpc_revocation revocation;
    cleanup_json json_t *value = parse("{" IDS ",\"entitlement_revision\":9223372036854775807}");
    assert_int_equal(rpc_revocation_decode(value, &revocation, &err), 0);
    assert_string_equal(revocation.instance, "i");
    assert_int_equal(revocation.revision, INT64_MAX);
    rpc_revocation_release(&revocation);
    check_refusals(revocation_refusals, ARRAY_SIZE(revocation_refusals), try_revocation);
}

static void try_context(const json_t *value, struct error *err)
{
    struct rpc_context context;
    (void)rpc_context_decode(value, &context, err);
    rpc_context_release(&context);
}

#define DIGEST  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BINDING "{" IDS ",\"runtime_revision\":1,\"artifact_digest\":\" " DIGEST " \""

static const struct {
    const char *text;
    uint64_t generation;
} contexts[] = {
    {"{" IDS "}", 1},
    {"{" IDS ",\"placement_generation\":7}", 7},
    {"{" IDS ",\"placement_generation\":\" 0_7.0\"}", 7},
    {"{" IDS ",\"placement_generation\":true,\"installation_uuid\":null}", 1},
    {"{" IDS ",\"installation_uuid\":\" x \"}", 1},
    {BINDING ",\"installation_uuid\":\"x\"}", 1},
    {BINDING ",\"installation_uuid\":\"x\",\"placement_generation\":7}", 7},
};

static const struct refusal context_refusals[] = {
    {"null", "context: must be a JSON object"},
    {"{}", "context: instance_uuid: is missing"},
    {"{" IDS ",\"placement_generation\":0}", "context: placement_generation: must be at least 1"},
    {"{" IDS ",\"placement_generation\":null}", "placement_generation: must be a whole number"},
    {"{" IDS ",\"installation_uuid\":\"\"}", "installation_uuid: must not be empty"},
    {"{" IDS ",\"installation_uuid\":1}", "installation_uuid: must be a string"},
    {"{" IDS ",\"tenant\":1}", "tenant: unknown field"},
    {"{" IDS ",\"runtime_revision\":1}", "installation_uuid: is missing"},
    {BINDING "}", "installation_uuid: is missing"},
    {BINDING ",\"installation_uuid\":null}", "installation_uuid: must be a string"},
    {BINDING ",\"installation_uuid\":\"x\",\"placement_generation\":\"7\"}",
     "must be a whole number"},
    {BINDING ",\"installation_uuid\":\"x\",\"runtime_revision\":\"7\"}", "must be a whole number"},
    {BINDING ",\"installation_uuid\":\"x\",\"artifact_digest\":\"0\"}", "artifact_digest: must be"},
    {BINDING ",\"installation_uuid\":\"x\",\"y\":1}", "y: unknown field"},
};

static void test_contexts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(contexts); i++) {
        struct error err = ERROR_INIT;
        struct rpc_context context;
        cleanup_json json_t *value = parse(contexts[i].text);
        if (rpc_context_decode(value, &context, &err) < 0)
            fail_msg("%s: %s", contexts[i].text, err.message);
        assert_string_equal(context.instance, "i");
        assert_string_equal(context.workspace, "w");
        assert_int_equal(context.generation, contexts[i].generation);
        rpc_context_release(&context);
    }
    check_refusals(context_refusals, ARRAY_SIZE(context_refusals), try_context);
}

/* --- the policy --- */

static void try_policy(const json_t *value, struct error *err)
{
    struct admission_policy policy, defaults;
    rpc_policy_decode(value, &policy);
    if (policy.problem)
        error_fill(err, ERROR_INVALID, "%s", policy.problem);
    admission_policy_release(&policy);
    /* Nothing of a malformed one is in force, but that there is one. */
    admission_policy_init(&defaults);
    assert_true(policy.required);
    assert_int_equal(policy.max_sessions, defaults.max_sessions);
    assert_int_equal(policy.max_managed_processes, defaults.max_managed_processes);
    assert_int_equal(policy.memory_mb, defaults.memory_mb);
}

static const struct refusal policy_refusals[] = {
    {"[]", "object"},
    {"true", "object"},
    {"{\"memory_mb\":64,\"require\":true}", "require: unknown field; did you mean \"required\"?"},
    {"{\"required\":\"perhaps\"}", "required: must be true or false"},
    {"{\"required\":null}", "required: must be true or false"},
    {"{\"logical_session_id\":\"other\"}", "logical_session_id: must be \"global\""},
    {"{\"required_backend\":\"docker\"}", "required_backend: must be \"nsjail\""},
    {"{\"max_sessions\":2}", "max_sessions: must be at most 1"},
    {"{\"max_sessions\":true}", "max_sessions: must be a whole number"},
    {"{\"max_managed_processes\":1}", "max_managed_processes: must be 0"},
    {"{\"max_grant_ttl_sec\":0}", "max_grant_ttl_sec: must be at least 1"},
    {"{\"max_timeout_sec\":\"60\"}", "max_timeout_sec: must be a whole number"},
    {"{\"cpus\":0}", "cpus: must be above 0"},
    {"{\"cpus\":\"1\"}", "cpus: must be a number"},
    {"{\"cpus\":true}", "cpus: must be a number"},
    {"{\"cpus\":Infinity}", "cpus: must be at most 1024"},
    {"{\"memory_mb\":31}", "memory_mb: must be at least 32"},
    {"{\"memory_mb\":64.0}", "memory_mb: must be a whole number"},
    {"{\"pids_limit\":0}", "pids_limit: must be at least 1"},
    {"{\"workspace_quota_mb\":-1}", "workspace_quota_mb: must be at least 0"},
    {"{\"readiness_cache_sec\":-1}", "readiness_cache_sec: must be at least 0"},
};

static void test_policies(void **state)
{
    (void)state;
    struct admission_policy policy;
    cleanup_json json_t *nothing = parse("null");
    const json_t *const absent[] = {NULL, nothing};
    for (size_t i = 0; i < ARRAY_SIZE(absent); i++) {
        rpc_policy_decode(absent[i], &policy);
        assert_false(policy.required);
        assert_null(policy.problem);
    }
    cleanup_json json_t *value = parse("{\"required\":\"on\",\"logical_session_id\":\"global\","
                                       "\"required_backend\":\"nsjail\",\"max_sessions\":0,"
                                       "\"max_managed_processes\":0,\"max_grant_ttl_sec\":10,\"max_"
                                       "timeout_sec\":20,\"cpus\":2,\"memory_mb\":64,"
                                       "\"pids_limit\":5,\"read_only_rootfs\":\"no\",\"workspace_"
                                       "quota_mb\":100,\"readiness_cache_sec\":0}");
    rpc_policy_decode(value, &policy);
    assert_null(policy.problem);
    assert_true(policy.required);
    assert_int_equal(policy.max_sessions, 0);
    assert_int_equal(policy.max_grant_ttl_sec, 10);
    assert_int_equal(policy.max_timeout_sec, 20);
    assert_true(policy.cpus == 2);
    assert_int_equal(policy.memory_mb, 64);
    assert_int_equal(policy.pids_limit, 5);
    assert_false(policy.read_only_rootfs);
    assert_int_equal(policy.workspace_quota_mb, 100);
    assert_int_equal(policy.readiness_cache_sec, 0);
    admission_policy_release(&policy);
    check_refusals(policy_refusals, ARRAY_SIZE(policy_refusals), try_policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),          cmocka_unit_test(test_integers),
        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_flags),
        cmocka_unit_test(test_times),         cmocka_unit_test(test_spec_defaults),
        cmocka_unit_test(test_spec_full),     cmocka_unit_test(test_workdirs),
        cmocka_unit_test(test_spec_refusals), cmocka_unit_test(test_spec_lengths),
        cmocka_unit_test(test_spec_borrows),  cmocka_unit_test(test_processes),
        cmocka_unit_test(test_grants),        cmocka_unit_test(test_revocations),
        cmocka_unit_test(test_contexts),      cmocka_unit_test(test_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
