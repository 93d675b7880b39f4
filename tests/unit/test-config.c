/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: what the file, variables and flags may say, what is said about what is wrong,
   and that the manual page and the example know the same keys as the program. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/json.h"
#include "core/mem.h"
#include "daemon/config.h"
#include "daemon/load.h"
#include "daemon/options.h"
#include "daemon/places.h"

struct fixture {
    struct config config;
    struct config_problems problems;
};

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);
    config_init(&fixture->config);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    config_release(&fixture->config);
    config_problems_release(&fixture->problems);
    free(fixture);
    return 0;
}

static void read_text(struct fixture *fixture, const char *text)
{
    config_read_yaml(&fixture->config, text, strlen(text), "f", &fixture->problems);
}

static void check_clean(const struct fixture *fixture)
{
    for (size_t i = 0; i < fixture->problems.lines.count; i++)
        print_error("%s\n", fixture->problems.lines.items[i]);
    assert_int_equal(fixture->problems.lines.count, 0);
}

/* The text alone, in a configuration of its own, has this one problem. */
static void check_problem(const char *text, const char *problem)
{
    struct fixture fixture = {0};
    config_init(&fixture.config);
    read_text(&fixture, text);
    if (fixture.problems.lines.count != 1 ||
        strcmp(fixture.problems.lines.items[0], problem) != 0) {
        for (size_t i = 0; i < fixture.problems.lines.count; i++)
            print_error("got: %s\n", fixture.problems.lines.items[i]);
        fail_msg("wanted: %s", problem);
    }
    config_problems_release(&fixture.problems);
    config_release(&fixture.config);
}

/* --- the table --- */

static void test_defaults(void **state)
{
    const struct config *config = &((struct fixture *)*state)->config;
    assert_int_equal(config->listen.count, 1);
    assert_string_equal(config->listen.items[0], "127.0.0.1:5410");
    assert_string_equal(config->backend, "local");
    assert_int_equal(config->session_ttl_ms, 300000);
    assert_int_equal(config->max_sessions, 64);
    assert_int_equal(config->max_managed_processes, 64);
    assert_int_equal(config->max_completed_processes, 256);
    assert_int_equal(config->completed_retention_ms, 300000);
    assert_string_equal(config->network, "off");
    assert_int_equal(config->milli_cpus, 1000);
    assert_int_equal(config->memory_mb, 512);
    assert_int_equal(config->pids_limit, 128);
    assert_true(config->read_only_rootfs);
    assert_int_equal(config->timeout_ms, 30000);
    assert_int_equal(config->keep_bytes, 1 << 20);
    assert_true(config->adopt);
    assert_int_equal(config->outlive_ms, 3600000);
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        assert_ptr_equal(config_key_find(key->path), key); /* no name twice */
        assert_false(config_is_section(key->path));
        assert_non_null(key->help);
        if (key->offset != CONFIG_NOWHERE)
            assert_true(strlen(key->help) > 5);
    }
    assert_true(config_is_section("limits"));
    assert_false(config_is_section("limit"));
    assert_false(config_is_section(""));
}

/* The largest values of WIRE.md. */
static void test_limits(void **state)
{
    struct fixture *fixture = *state;
    read_text(fixture, "limits: {max_sessions: 5000, max_managed_processes: 1024,\n"
                       "  max_completed_processes: 10000, completed_process_retention_sec: 86400,\n"
                       "  max_admission_records: 250000, max_rpc_file_bytes: 104857600}\n");
    check_clean(fixture);
    assert_int_equal(fixture->config.max_sessions, 5000);
    assert_int_equal(fixture->config.completed_retention_ms, 86400000);
    assert_int_equal(fixture->config.max_records, 250000);
    assert_int_equal(fixture->config.max_file_bytes, 100 << 20);
    check_problem("limits:\n  max_sessions: 5001\n",
                  "f:2: limits.max_sessions must be between 0 and 5000, not 5001");
    check_problem("limits:\n  max_rpc_file_bytes: 104857601\n",
                  "f:2: limits.max_rpc_file_bytes must be between 1 and 104857600, not 104857601");
    check_problem("limits:\n  completed_process_retention_sec: 25h\n",
                  "f:2: limits.completed_process_retention_sec must be between 0 and 86400, not "
                  "25h");
}

/* --- YAML --- */

static void test_values(void **state)
{
    struct fixture *fixture = *state;
    const struct config *config = &fixture->config;
    read_text(fixture, "box:\n"
                       "  listen: ['127.0.0.1:1', \"[::1]:2\"]\n"
                       "  session_ttl_sec: 5m\n"
                       "  outlive_sec: 0.5\n"
                       "  adopt: no\n"
                       "  sessions:\n"
                       "    cpus: 1.5\n"
                       "    memory_mb: 2G\n"
                       "    network: on\n"
                       "    pids_limit: '77'\n"
                       "  output: {keep_bytes: 64k}\n"
                       "  mounts:\n"
                       "    allowed_roots:\n"
                       "      - /a,b\n"
                       "      - ./c\n"
                       "  http:\n"
                       "    allowed_hosts: one.example, two.example\n"
                       "  network: {allow: [10.0.0.0/8]}\n");
    check_clean(fixture);
    assert_int_equal(config->listen.count, 2);
    assert_string_equal(config->listen.items[1], "[::1]:2");
    assert_int_equal(config->session_ttl_ms, 300000);
    assert_int_equal(config->outlive_ms, 500);
    assert_false(config->adopt);
    assert_int_equal(config->milli_cpus, 1500);
    assert_int_equal(config->memory_mb, 2048);
    assert_string_equal(config->network, "on");
    assert_int_equal(config->pids_limit, 77);
    assert_int_equal(config->keep_bytes, 65536);
    assert_int_equal(config->allowed_roots.count, 2);
    assert_string_equal(config->allowed_roots.items[0], "/a,b");
    assert_int_equal(config->allowed_hosts.count, 2);
    assert_string_equal(config->allowed_hosts.items[1], "two.example");
    assert_string_equal(config->allow_net.items[0], "10.0.0.0/8");
}

/* What LangBot ships, nulls and empty texts and all. */
static void test_langbot(void **state)
{
    struct fixture *fixture = *state;
    read_text(fixture,
              "box:\n    enabled: true\n    backend: 'local'\n    runtime:\n        endpoint: ''\n"
              "    limits:\n        max_sessions: 10\n        max_workspace_entries: 100000\n"
              "        max_admission_records: 100000\n        max_rpc_file_bytes: 20971520\n"
              "    admission:\n        required: false\n        logical_session_id: 'global'\n"
              "        required_backend: 'nsjail'\n        max_sessions: 1\n"
              "        max_managed_processes: 0\n        max_grant_ttl_sec: 300\n"
              "        max_timeout_sec: 120\n        cpus: 1.0\n        memory_mb: 512\n"
              "        pids_limit: 128\n        read_only_rootfs: true\n"
              "        workspace_quota_mb: 0\n        readiness_cache_sec: 15\n"
              "    local:\n        profile: 'default'\n        image: ''\n"
              "        host_root: './data/box'\n        default_workspace: ''\n"
              "        skills_root: 'skills'\n        allowed_mount_roots:\n"
              "            - './data/box'\n            - '/tmp'\n"
              "        workspace_quota_mb: null\n    default_memory_mb: 1536\n"
              "    docker:\n        cpu_limit_enabled: true\n"
              "    e2b:\n        api_key: ''\n        api_url: ''\n        template: ''\n");
    config_settle(&fixture->config, &fixture->problems);
    check_clean(fixture);
    assert_int_equal(fixture->config.max_sessions, 10);
    assert_int_equal(fixture->config.allowed_roots.count, 2);
    assert_int_equal(fixture->config.allowed_roots.items[0][0], '/');
    assert_string_equal(fixture->config.allowed_roots.items[1], "/tmp");
    cleanup_free char *workspace = xasprintf("%s/default", fixture->config.host_root);
    cleanup_free char *skills = xasprintf("%s/skills", fixture->config.host_root);
    assert_string_equal(fixture->config.default_workspace, workspace);
    assert_string_equal(fixture->config.skills_root, skills);
    assert_int_equal(fixture->problems.warnings.count, 0);
}

static void test_nothing(void **state)
{
    struct fixture *fixture = *state;
    static const char *const texts[] = {"",          "\n# only a comment\n", "---\n", "box:\n",
                                        "box: {}\n", "limits:\nsocket: ~\n", "null\n"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        read_text(fixture, texts[i]);
    check_clean(fixture);
    assert_int_equal(fixture->config.max_sessions, 64);
}

static void test_problems(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"limits:\n  max_sesions: 5\n",
         "f:2: there is no key 'limits.max_sesions'; did you mean 'limits.max_sessions'?"},
        {"limit: {max_sessions: 5}\n", "f:1: there is no key 'limit'; did you mean 'limits'?"},
        {"\n\nmax_sessions: 5\n",
         "f:3: there is no key 'max_sessions'; did you mean 'limits.max_sessions'?"},
        {"qwertzuiop: {a: [1, {b: c}]}\n", "f:1: there is no key 'qwertzuiop'"},
        {"adopt: true\nadopt: true\n", "f:2: the key 'adopt' is there twice"},
        {"box: {adopt: true}\nbox: {}\n", "f:2: the key 'box' is there twice"},
        {"adopt: true\nbox: {strict: true}\n",
         "f:2: everything belongs below 'box:', or nothing does"},
        {"adopt: maybe\n", "f:1: adopt wants true or false, not 'maybe'"},
        {"adopt: [true]\n", "f:1: adopt wants true or false, not 'a list'"},
        {"adopt: {a: b}\n", "f:1: adopt wants a value, not a mapping"},
        {"limits: 5\n", "f:1: 'limits' has keys of its own below it, not a value"},
        {"limits: [1]\n", "f:1: 'limits' has keys of its own below it, not a value"},
        {"- a\n", "f:1: a configuration is lines of 'key: value', and this is none"},
        {"nonsense\n", "f:1: a configuration is lines of 'key: value', and this is none"},
        {"box: 5\n", "f:1: 'box' has keys of its own below it, not a value"},
        {"listen: ['5410']\n", "f:1: listen: \"5410\" is not HOST:PORT, as in 127.0.0.1:5410"},
        {"listen: ['localhost:70000']\n",
         "f:1: listen: the port in \"localhost:70000\" must be a number between 0 and 65535"},
        {"listen: ['::1:80']\n", "f:1: listen: the IPv6 address in \"::1:80\" needs brackets"},
        {"limits: {max_sessions: true}\n",
         "f:1: limits.max_sessions wants a whole number, not 'true'"},
        {"limits: {max_sessions: -1}\n", "f:1: limits.max_sessions wants a whole number, not '-1'"},
        {"limits: {max_sessions: 1.5}\n",
         "f:1: limits.max_sessions wants a whole number, not '1.5'"},
        {"limits: {max_sessions: 99999999999999999999}\n",
         "f:1: limits.max_sessions must be between 0 and 5000, not 99999999999999999999"},
        {"socket: true\n", "f:1: socket wants a path, not 'true'"},
        {"log: {format: xml}\n", "f:1: log.format must be one of text|json, not 'xml'"},
        {"log: {format: text|json}\n", "f:1: log.format must be one of text|json, not 'text|json'"},
        {"log: {format: tex}\n", "f:1: log.format must be one of text|json, not 'tex'"},
        {"sessions: {memory_mb: 31}\n",
         "f:1: sessions.memory_mb must be between 32 and 16777216, not 31"},
        {"sessions: {cpus: 0}\n", "f:1: sessions.cpus must be between 0.01 and 1024, not 0"},
        {"session_ttl_sec: soon\n", "f:1: session_ttl_sec wants a number of seconds, or a text "
                                    "like \"5m\", not 'soon'"},
        {"listen: [a, [b]]\n", "f:1: listen is a list of texts, and nothing else"},
        {"listen: [a, ~]\n", "f:1: listen is a list of texts, and nothing else"},
        {"network: {allow: [10.1.2.3/8]}\n",
         "f:1: network.allow: \"10.1.2.3/8\" has bits set below its prefix"},
        {"socket: \"a\\nb\"\n", "f:1: socket has a control character in it"},
        {"socket: \"a\\0b\"\n", "f:1: socket wants a value, not one with a NUL in it"},
        {"mounts: {allowed_roots: [/a]}\nlocal: {allowed_mount_roots: [/a]}\n",
         "f:2: 'mounts.allowed_roots' and 'local.allowed_mount_roots' are the same thing"},
        {"a.b: 1\n", "f:1: this is not a key"},
        {"? [x]\n: 1\n", "f:1: this is not a key"},
        {"adopt: &x true\n", "f:1: anchors, aliases and tags are not allowed here"},
        {"adopt: *x\n", "f:1: anchors, aliases and tags are not allowed here"},
        {"adopt: !!bool true\n", "f:1: anchors, aliases and tags are not allowed here"},
        {"limits: &x\n  max_sessions: 1\n", "f:1: anchors, aliases and tags are not allowed here"},
        {"adopt: true\n---\nadopt: true\n", "f:2: there is a second document"},
        {"limits: {max_sessions: 1\n", "f:2: not valid YAML: did not find expected ',' or '}'"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check_problem(cases[i][0], cases[i][1]);
}

static void test_depth(void **state)
{
    struct fixture *fixture = *state;
    read_text(fixture, "listen: [[[[[[1]]]]]]\n");
    assert_int_equal(fixture->problems.lines.count, 1);
    read_text(fixture, "listen: [[[[[[[[[[1]]]]]]]]]]\nadopt: 7\n");
    assert_int_equal(fixture->problems.lines.count, 3);
    assert_string_equal(fixture->problems.lines.items[2],
                        "f:1: nested too deeply for a configuration");
}

/* All that is wrong, not the first thing only; and what is right is taken all the same. */
static void test_all_problems(void **state)
{
    struct fixture *fixture = *state;
    read_text(fixture, "adopt: maybe\n"
                       "nonsense: {a: 1, b: [2, 3]}\n"
                       "limits:\n"
                       "  max_sessions: many\n"
                       "  max_managed_processes: 7\n"
                       "  what: 1\n"
                       "strict: true\n");
    assert_int_equal(fixture->problems.lines.count, 4);
    assert_non_null(strstr(fixture->problems.lines.items[3], "f:6:"));
    assert_int_equal(fixture->config.max_managed_processes, 7);
    assert_true(fixture->config.strict);
    assert_true(fixture->config.adopt);
}

static void test_bounds(void **state)
{
    struct fixture *fixture = *state;
    char *big = xmalloc(CONFIG_TEXT_MAX + 1);
    memset(big, '#', CONFIG_TEXT_MAX + 1);
    config_read_yaml(&fixture->config, big, CONFIG_TEXT_MAX + 1, "f", &fixture->problems);
    assert_int_equal(fixture->problems.lines.count, 1);
    config_read_yaml(&fixture->config, big, CONFIG_TEXT_MAX, "f", &fixture->problems);
    assert_int_equal(fixture->problems.lines.count, 1);
    /* As many problems as one likes make no more than a page of them. */
    size_t used = 0;
    for (int i = 0; i < 3000; i++)
        used += (size_t)sprintf(big + used, "key%d: 1\n", i);
    config_read_yaml(&fixture->config, big, used, "f", &fixture->problems);
    assert_in_range(fixture->problems.lines.count, 100, 101);
    used = (size_t)sprintf(big, "listen: [");
    for (int i = 0; i < 20000; i++)
        used += (size_t)sprintf(big + used, "a, ");
    used += (size_t)sprintf(big + used, "b]\n");
    config_problems_release(&fixture->problems);
    config_read_yaml(&fixture->config, big, used, "f", &fixture->problems);
    assert_int_equal(fixture->problems.lines.count, 1);
    assert_string_equal(fixture->config.listen.items[0], "127.0.0.1:5410");
    free(big);
}

static void check_strings(const struct strings *list, const char *const *want, size_t count)
{
    for (size_t i = 0; i < list->count && i < count; i++)
        assert_string_equal(list->items[i], want[i]);
    assert_int_equal(list->count, count);
}

/* --- variables --- */

static void read_variables(struct fixture *fixture, const char *const *environment)
{
    config_read_env(&fixture->config, (char *const *)(uintptr_t)environment, &fixture->problems);
}

static void test_variables(void **state)
{
    struct fixture *fixture = *state;
    static const char *const environment[] = {"PATH=/bin",
                                              "BOX__LIMITS__MAX_SESSIONS=7",
                                              "box__session_ttl_sec=2m",
                                              "BOX__Listen=127.0.0.1:1, 127.0.0.1:2",
                                              "BOX__E2B__API_KEY=secret",
                                              "BOX__BACKEND=",
                                              "BOX__LOCAL__WORKSPACE_QUOTA_MB=",
                                              "BOX__ADMISSION__REQUIRED=",
                                              "BOX_INIT=/x",
                                              "BOX_TOKEN=y",
                                              NULL};
    read_variables(fixture, environment);
    check_clean(fixture);
    assert_int_equal(fixture->config.max_sessions, 7);
    assert_int_equal(fixture->config.session_ttl_ms, 120000);
    assert_int_equal(fixture->config.listen.count, 2);
    assert_string_equal(fixture->config.listen.items[1], "127.0.0.1:2");
    assert_string_equal(fixture->config.backend, "local");
}

/* LangBot hands its own environment on: what no key is set by is no reason not to start, and
   neither is a backend of tomorrow. */
static void test_wrong_variables(void **state)
{
    struct fixture *fixture = *state;
    static const char *const environment[] = {"BOX__LIMITS__MAX_SESIONS=7",
                                              "BOX__STRICT=perhaps",
                                              "BOX__=1",
                                              "BOX__A-B=1",
                                              "BOX__SOCKET=/a\xFF",
                                              "BOX__LIMITS=5",
                                              "BOX__LOG__FORMAT=xml",
                                              "BOX__BACKEND=kvm",
                                              NULL};
    static const char *const want[] = {
        "BOX__STRICT: strict wants true or false, not 'perhaps'",
        "BOX__SOCKET: socket is not UTF-8",
        "BOX__LOG__FORMAT: log.format must be one of text|json, not 'xml'",
    };
    static const char *const unknown[] = {
        ("BOX__LIMITS__MAX_SESIONS: no key is set by this variable; did you mean "
         "BOX__LIMITS__MAX_SESSIONS?"),
        "BOX__: no key is set by this variable",
        "BOX__A-B: no key is set by this variable",
        "BOX__LIMITS: no key is set by this variable",
    };
    read_variables(fixture, environment);
    check_strings(&fixture->problems.lines, want, ARRAY_SIZE(want));
    check_strings(&fixture->problems.unknown, unknown, ARRAY_SIZE(unknown));
    assert_string_equal(fixture->config.backend, "kvm");
}

/* --- LangBot's tree --- */

static void read_tree(struct fixture *fixture, const char *text, bool only_tree, bool *set)
{
    struct error err = ERROR_INIT;
    cleanup_json json_t *tree = NULL;
    if (json_parse(text, strlen(text), &tree, &err) < 0)
        fail_msg("%s", err.message);
    config_read_tree(&fixture->config, config_tree_root(tree), "t", only_tree, set,
                     &fixture->problems);
}

static void test_tree(void **state)
{
    struct fixture *fixture = *state;
    const struct config *config = &fixture->config;
    cleanup_free bool *set = xcalloc(config_key_count, sizeof *set);
    read_tree(fixture,
              "{\"enabled\": true, \"backend\": \" local \", \"limits\": {\"max_sessions\": 11,"
              " \"max_workspace_entries\": \"lots\"}, \"local\": {\"workspace_quota_mb\": null,"
              " \"profile\": \"\", \"host_root\": \"/srv/box\", \"default_workspace\": null,"
              " \"allowed_mount_roots\": [\"/srv/box\", \"/srv/a,b\"]}, \"docker\": 7,"
              " \"e2b\": {\"api_key\": 5}, \"default_memory_mb\": \"x\"}",
              true, set);
    check_clean(fixture);
    assert_int_equal(fixture->problems.unknown.count, 0);
    assert_int_equal(config->max_sessions, 11);
    assert_int_equal(config->max_completed_processes, 256);
    assert_int_equal(config->max_managed_processes, 64);
    assert_string_equal(config->backend, "local");
    assert_string_equal(config->allowed_roots.items[1], "/srv/a,b");
    assert_true(set[config_key_find("limits.max_sessions") - config_keys]);
    assert_true(set[config_key_find("local.host_root") - config_keys]);
    assert_false(set[config_key_find("limits.max_completed_processes") - config_keys]);
    assert_false(set[config_key_find("session_ttl_sec") - config_keys]);
    /* A backend of tomorrow is whoever chooses one's to refuse; '' is what it always was. */
    read_tree(fixture, "{\"backend\": \"kvm\"}", true, NULL);
    assert_string_equal(config->backend, "kvm");
    read_tree(fixture, "{\"box\": {\"backend\": \"\"}}", true, NULL);
    assert_string_equal(config->backend, "local");
    check_clean(fixture);
}

static void test_tree_unknown(void **state)
{
    struct fixture *fixture = *state;
    static const char *const unknown[] = {
        "t: there is no key 'limits.max_sesions'; did you mean 'limits.max_sessions'?",
        "t: there is no key 'qwertzuiop'",
    };
    read_tree(fixture, "{\"limits\": {\"max_sesions\": 5}, \"qwertzuiop\": [1, {}]}", false, NULL);
    check_strings(&fixture->problems.unknown, unknown, ARRAY_SIZE(unknown));
    /* Who starts boxd may set what it likes; who calls box_init may not. */
    read_tree(fixture, "{\"listen\": [\"127.0.0.1:1\"]}", false, NULL);
    assert_string_equal(fixture->config.listen.items[0], "127.0.0.1:1");
    read_tree(fixture,
              "{\"listen\": [\"0.0.0.0:1\"], \"token_file\": \"\", \"run_dir\": \"/x\","
              " \"user\": \"root\", \"http\": {\"allowed_origins\": [\"*\"]},"
              " \"audit\": {\"max_bytes\": 0}, \"tenancy\": \"optional\","
              " \"control_token_file\": \"\", \"trusted_instance\": \"x\","
              " \"mounts\": {\"allowed_roots\": [\"/\"]}, \"session_ttl_sec\": 1}",
              true, NULL);
    check_clean(fixture);
    assert_int_equal(fixture->problems.unknown.count, 2 + 11);
    assert_string_equal(fixture->config.listen.items[0], "127.0.0.1:1");
    assert_string_equal(fixture->config.run_dir, "");
    assert_string_equal(fixture->config.trusted_instance, "");
    assert_int_equal(fixture->config.allowed_roots.count, 0);
    assert_int_equal(fixture->config.allowed_origins.count, 0);
    assert_int_equal(fixture->config.session_ttl_ms, 300000);
}

static void test_tree_problems(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"limits\": {\"max_sessions\": \"5\"}}", "limits.max_sessions wants a whole number"},
        {"{\"limits\": {\"max_sessions\": \"\"}}", "limits.max_sessions wants a whole number"},
        {"{\"limits\": {\"max_sessions\": null}}", "limits.max_sessions wants a whole number"},
        {"{\"limits\": {\"max_sessions\": true}}", "limits.max_sessions wants a whole number"},
        {"{\"limits\": {\"max_sessions\": 1.5}}", "limits.max_sessions wants a whole number"},
        {"{\"limits\": {\"max_sessions\": [1]}}", "limits.max_sessions wants a whole number"},
        {"{\"limits\": {\"max_sessions\": -1}}", "limits.max_sessions wants a whole number"},
        {"{\"limits\": {\"max_sessions\": 5001}}",
         "limits.max_sessions must be between 0 and 5000"},
        {"{\"limits\": {\"max_admission_records\": 0}}",
         "limits.max_admission_records must be between 1 and 250000"},
        {"{\"limits\": 5}", "'limits' has keys of its own below it"},
        {"{\"local\": []}", "'local' has keys of its own below it"},
        {"{\"local\": {\"allowed_mount_roots\": [5]}}", "wants a list of paths"},
        {"{\"local\": {\"host_root\": {}}}", "local.host_root wants a path"},
        {"{\"local\": {\"host_root\": \"/a\\nb\"}}", "control character"},
        {"[]", "not a JSON object"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct fixture fixture = {0};
        config_init(&fixture.config);
        read_tree(&fixture, cases[i][0], true, NULL);
        if (fixture.problems.lines.count != 1 ||
            !strstr(fixture.problems.lines.items[0], cases[i][1]))
            fail_msg("%s: wanted %s, got %s", cases[i][0], cases[i][1],
                     fixture.problems.lines.count > 0 ? fixture.problems.lines.items[0] : "none");
        assert_int_equal(fixture.config.max_sessions, 64);
        config_problems_release(&fixture.problems);
        config_release(&fixture.config);
    }
}

/* What is malformed in it is never less strict than what was meant. */
static void test_tree_admission(void **state)
{
    struct fixture *fixture = *state;
    struct api_config api;
    read_tree(fixture, "{\"admission\": {\"required\": true, \"memory_mb\": 64, \"cpus\": 0.5}}",
              true, NULL);
    config_to_api(&fixture->config, NULL, NULL, &api);
    assert_true(api.rpc.admission.required);
    assert_null(api.rpc.admission.problem);
    assert_int_equal(api.rpc.admission.memory_mb, 64);
    api_config_release(&api);
    static const char *const malformed[] = {
        "{\"admission\": {\"required\": \"perhaps\"}}", "{\"admission\": 5}",
        "{\"admission\": {\"nonsense\": 1}}", "{\"admission\": {\"max_sessions\": 2}}"};
    for (size_t i = 0; i < ARRAY_SIZE(malformed); i++) {
        read_tree(fixture, malformed[i], true, NULL);
        config_to_api(&fixture->config, NULL, NULL, &api);
        assert_true(api.rpc.admission.required);
        assert_non_null(api.rpc.admission.problem);
        api_config_release(&api);
    }
    check_clean(fixture);
    /* The file's word stands; in the file itself it would have been an error. */
    read_text(fixture, "admission: {required: true, pids_limit: 7, workspace_quota_mb: 1G}\n");
    read_tree(fixture, "{\"admission\": {\"required\": false}}", true, NULL);
    config_to_api(&fixture->config, NULL, NULL, &api);
    assert_true(api.rpc.admission.required);
    assert_int_equal(api.rpc.admission.pids_limit, 7);
    assert_int_equal(api.rpc.admission.workspace_quota_mb, 1024);
    assert_int_equal(api.rpc.admission.max_grant_ttl_sec, 300);
    api_config_release(&api);
    check_problem("admission: {max_sessions: 2}\n",
                  "f:1: admission.max_sessions must be between 0 and 1, not 2");
    check_problem("admission: {logical_session_id: other}\n",
                  "f:1: admission.logical_session_id must be one of global, not 'other'");
}

/* --- LangBot's directories --- */

static void settle_below(struct fixture *fixture, const char *local, const char *const *ceiling)
{
    struct strings roots = {0};
    cleanup_free bool *marked = xcalloc(config_key_count, sizeof *marked);
    cleanup_free char *tree = xasprintf("{\"local\": %s}", local);
    for (; *ceiling; ceiling++)
        strings_add(&roots, *ceiling);
    config_reset_section(&fixture->config, "local", marked);
    read_tree(fixture, tree, true, NULL);
    config_settle_local(&fixture->config, &roots, &fixture->problems);
    check_clean(fixture);
    strings_release(&roots);
}

static void check_roots(const struct config *config, const char *first, const char *second)
{
    assert_int_equal(config->allowed_roots.count, second ? 2 : 1);
    assert_string_equal(config->allowed_roots.items[0], first);
    if (second)
        assert_string_equal(config->allowed_roots.items[1], second);
}

static void test_ceiling(void **state)
{
    struct fixture *fixture = *state;
    const struct config *config = &fixture->config;
    static const char *const ceiling[] = {"/srv/box", "/data/one", "/data/two", NULL};
    static const char *const nothing[] = {NULL};
    /* Within it. */
    settle_below(fixture, "{\"host_root\": \"/srv/box/bot\", \"skills_root\": \"sk\"}", ceiling);
    check_roots(config, "/srv/box/bot", NULL);
    assert_string_equal(config->default_workspace, "/srv/box/bot/default");
    assert_string_equal(config->skills_root, "/srv/box/bot/sk");
    assert_int_equal(fixture->problems.warnings.count, 0);
    /* Above some of it: what they have in common. */
    settle_below(fixture, "{\"allowed_mount_roots\": [\"/data\"]}", ceiling);
    check_roots(config, "/data/one", "/data/two");
    assert_string_equal(config->default_workspace, "");
    assert_string_equal(config->skills_root, "");
    assert_int_equal(fixture->problems.warnings.count, 0);
    /* Nothing said: all of it. */
    settle_below(fixture, "{\"profile\": \"default\"}", ceiling);
    assert_int_equal(config->allowed_roots.count, 3);
    /* Outside: nothing, which is not the same as anything; and each is told, with what to do. */
    settle_below(fixture, "{\"host_root\": \"/srv/boxes\"}", ceiling);
    check_roots(config, "/dev/null/none", NULL);
    assert_string_equal(config->default_workspace, "");
    assert_string_equal(config->skills_root, "");
    assert_int_equal(fixture->problems.warnings.count, 3);
    assert_non_null(strstr(fixture->problems.warnings.items[0], "/srv/boxes"));
    assert_non_null(strstr(fixture->problems.warnings.items[0], "mounts.allowed_roots"));
    settle_below(fixture, "{\"allowed_mount_roots\": [\"/srv\"]}", nothing);
    check_roots(config, "/dev/null/none", NULL);
    /* A workspace elsewhere in it than the host root. */
    settle_below(fixture,
                 "{\"host_root\": \"/srv/box\", \"default_workspace\": \"/data/one/w\","
                 " \"allowed_mount_roots\": [\"/srv/box\", \"/data\"]}",
                 ceiling);
    assert_string_equal(config->default_workspace, "/data/one/w");
    assert_string_equal(config->skills_root, "/srv/box/skills");
}

static void test_copies(void **state)
{
    struct fixture *fixture = *state;
    struct config copy;
    cleanup_strings struct strings differ = {0};
    cleanup_free bool *marked = xcalloc(config_key_count, sizeof *marked);
    read_tree(fixture,
              "{\"limits\": {\"max_sessions\": 3}, \"local\": {\"host_root\": \"/h\"},"
              " \"admission\": 1}",
              true, marked);
    config_copy(&copy, &fixture->config);
    assert_non_null(copy.policy);
    assert_true(copy.policy != fixture->config.policy);
    config_differences(&copy, &fixture->config, true, &differ);
    config_differences(&copy, &fixture->config, false, &differ);
    assert_int_equal(differ.count, 0);
    /* What was marked comes back over a configuration that was read again. */
    config_release(&copy);
    config_init(&copy);
    copy.max_managed_processes = 9;
    config_take(&copy, &fixture->config, marked);
    assert_int_equal(copy.max_sessions, 3);
    assert_int_equal(copy.max_managed_processes, 9);
    assert_string_equal(copy.host_root, "/h");
    config_release(&copy);
}

/* --- flags --- */

static void parse_flags(struct options *options, const char *const *words)
{
    struct error err = ERROR_INIT;
    int count = 0;
    while (words[count])
        count++;
    if (options_parse(options, count, (char **)(uintptr_t)words, &err) < 0)
        fail_msg("%s", err.message);
}

static void test_flags(void **state)
{
    struct fixture *fixture = *state;
    struct options options = {0};
    static const char *const words[] = {
        "boxd",       "--listen",    "127.0.0.1:1", "--listen=[::1]:2", "--run-dir", "/r",
        "--no-adopt", "--log-level", "debug",       "--config=x",       NULL};
    parse_flags(&options, words);
    read_text(fixture, "listen: [127.0.0.1:9]\nadopt: true\nlog: {level: error}\n");
    options_apply(&options, &fixture->config, &fixture->problems);
    check_clean(fixture);
    assert_int_equal(options.action, OPTIONS_RUN);
    assert_string_equal(options.config_file, "x");
    assert_int_equal(fixture->config.listen.count, 2);
    assert_string_equal(fixture->config.listen.items[0], "127.0.0.1:1");
    assert_string_equal(fixture->config.run_dir, "/r");
    assert_false(fixture->config.adopt);
    assert_string_equal(fixture->config.log_level, "debug");
    options_release(&options);
}

/* As LangBot starts its own runtime. */
static void test_langbot_flags(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *const words[8];
        const char *address; /* NULL: that of the configuration */
        bool stdio;
    } cases[] = {
        {{"boxd", "box", "-s", "--ws-control-port", "5411", NULL}, "127.0.0.1:5411", true},
        {{"boxd", "--stdio", NULL}, NULL, true},
        {{"boxd", "box", "--stdio-control", "--host", "::1", NULL}, "[::1]:5410", true},
        {{"boxd", "box", "--host", "0.0.0.0", NULL}, "0.0.0.0:5410", false},
        {{"boxd", "box", NULL}, NULL, false},
        {{"boxd", "--host=h", "--ws-control-port=1", NULL}, "h:1", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct options options = {0};
        fixture->config.adopt = true;
        fixture->config.stdio = false;
        read_text(fixture, "listen: ['127.0.0.1:9']\n");
        parse_flags(&options, cases[i].words);
        options_apply(&options, &fixture->config, &fixture->problems);
        check_clean(fixture);
        assert_int_equal(fixture->config.stdio, cases[i].stdio);
        assert_int_equal(fixture->config.adopt, !cases[i].stdio);
        assert_string_equal(fixture->config.listen.items[0],
                            cases[i].address ? cases[i].address : "127.0.0.1:9");
        assert_int_equal(fixture->config.listen.count, 1);
        options_release(&options);
    }
}

static void test_wrong_flags(void **state)
{
    (void)state;
    static const struct {
        const char *words[4];
        const char *message;
    } cases[] = {
        {{"boxd", "--nonsense", NULL}, "'--nonsense' is not an option"},
        {{"boxd", "--config", NULL}, "--config wants a value"},
        {{"boxd", "--no-adopt=x", NULL}, "--no-adopt takes no value"},
        {{"boxd", "serve", NULL}, "boxd takes no arguments besides options, but there is 'serve'"},
        {{"boxd", "--host", NULL}, "--host wants a value"},
        {{"boxd", "--stdio", "-sx", NULL}, "'-x' is not an option"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct options options = {0};
        struct error err = ERROR_INIT;
        int count = 0;
        while (cases[i].words[count])
            count++;
        assert_int_equal(options_parse(&options, count, (char **)(uintptr_t)cases[i].words, &err),
                         -1);
        assert_string_equal(err.message, cases[i].message);
        options_release(&options);
    }
}

/* --- put together --- */

static void check_warning(const char *text, const char *part)
{
    struct fixture fixture = {0};
    config_init(&fixture.config);
    read_text(&fixture, text);
    config_settle(&fixture.config, &fixture.problems);
    check_clean(&fixture);
    const struct strings *warnings = &fixture.problems.warnings;
    if (warnings->count != (part ? 1 : 0) || (part && !strstr(warnings->items[0], part)))
        fail_msg("%s: %zu warnings, %s", text, warnings->count,
                 warnings->count ? warnings->items[0] : "");
    config_problems_release(&fixture.problems);
    config_release(&fixture.config);
}

static void test_settle_warnings(void **state)
{
    (void)state;
    check_warning("mounts: {allowed_roots: [/tmp]}\n", NULL);
    check_warning("mounts: {allowed_roots: [/]}\n", "nearly all of this machine");
    check_warning("mounts: {allowed_roots: [/tmp, /no/such/root]}\n", "/no/such/root is not there");
    check_warning("mounts: {allowed_roots: [no-such-root]}\n", "from where boxd is started");
    check_warning("local: {host_root: ./no-such, allowed_mount_roots: [./no-such]}\n", NULL);
    /* What --print-config prints where nothing was said. */
    check_warning("state_dir: /s\nlocal: {skills_root: /s/skills}\n", NULL);
    check_warning("state_dir: /s\nlocal: {skills_root: /t/skills}\n", "local.skills_root");
}

static void settle_problem(const char *text, const char *part)
{
    struct fixture fixture = {0};
    config_init(&fixture.config);
    read_text(&fixture, text);
    check_clean(&fixture);
    config_settle(&fixture.config, &fixture.problems);
    if (fixture.problems.lines.count != 1 || !strstr(fixture.problems.lines.items[0], part)) {
        for (size_t i = 0; i < fixture.problems.lines.count; i++)
            print_error("got: %s\n", fixture.problems.lines.items[i]);
        fail_msg("wanted: %s", part);
    }
    config_problems_release(&fixture.problems);
    config_release(&fixture.config);
}

static void test_settle(void **state)
{
    struct fixture *fixture = *state;
    read_text(fixture, "run_dir: /r/\nstate_dir: /s/./t\ntoken_file: tok\n"
                       "local: {host_root: /data}\nlisten: ['0.0.0.0:1']\n");
    config_settle(&fixture->config, &fixture->problems);
    check_clean(fixture);
    assert_string_equal(fixture->config.run_dir, "/r");
    assert_string_equal(fixture->config.state_dir, "/s/t");
    assert_string_equal(fixture->config.socket, "/r/boxd.sock");
    assert_int_equal(fixture->config.token_file[0], '/');
    assert_string_equal(fixture->config.allowed_roots.items[0], "/data");
    settle_problem("listen: ['0.0.0.0:5410']\n",
                   "is open to the network, and there it needs a token");
    settle_problem("listen: ['[::]:5410']\n", "needs a token");
    settle_problem("listen: ['example.org:5410']\n", "is a name, which may lead to the network");
    settle_problem("listen: ['127.evil.example:80']\n", "needs a token");
    settle_problem("trusted_instance: 'a b'\n", "trusted_instance");
    settle_problem("sessions: {timeout_sec: 60, max_timeout_sec: 30}\n", "max_timeout_sec");
    settle_problem("state_dir: /a/../b\n", "state_dir");
}

/* The front that reads the configuration again is somebody else than root, who started it. */
static void test_system_places(void **state)
{
    (void)state;
    static const struct {
        bool system;
        const char *file;
        const char *run_dir;
        const char *state_dir;
    } cases[] = {
        {true, "/etc/boxd/boxd.yaml", "/run/boxd", "/var/lib/boxd"},
        {false, "/c/boxd/boxd.yaml", "/r/boxd", "/s/boxd"},
    };
    setenv("XDG_CONFIG_HOME", "/c", 1);
    setenv("XDG_RUNTIME_DIR", "/r", 1);
    setenv("XDG_STATE_HOME", "/s", 1);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct options options = {.system = cases[i].system};
        struct fixture fixture = {0};
        cleanup_free char *file = options_config_place(&options);
        assert_string_equal(file, cases[i].file);
        config_init(&fixture.config);
        options_apply(&options, &fixture.config, &fixture.problems);
        config_settle(&fixture.config, &fixture.problems);
        check_clean(&fixture);
        assert_string_equal(fixture.config.run_dir, cases[i].run_dir);
        assert_string_equal(fixture.config.state_dir, cases[i].state_dir);
        config_release(&fixture.config);
        options_release(&options);
    }
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("XDG_STATE_HOME");
}

static void test_settle_stdio(void **state)
{
    struct fixture *fixture = *state;
    struct config *config = &fixture->config;
    config->stdio = true;
    /* An address that cannot be had is a warning when it comes to that. */
    read_text(fixture, "listen: ['0.0.0.0:5411']\n");
    config_settle(config, &fixture->problems);
    check_clean(fixture);
    assert_string_equal(strrchr(config->state_dir, '/'), "/boxd-stdio-5411");
    assert_non_null(strstr(config->run_dir, "boxd-stdio-5411"));
    assert_non_null(strstr(config->socket, "boxd-stdio-5411"));
    read_text(fixture, "tenancy: required\ntrusted_instance: i-1\n");
    config_settle(config, &fixture->problems);
    check_clean(fixture);
    free(config->trusted_instance);
    config->trusted_instance = xstrdup("");
    config_settle(config, &fixture->problems);
    assert_int_equal(fixture->problems.lines.count, 1);
    assert_non_null(strstr(fixture->problems.lines.items[0], "trusted_instance"));
}

static void test_differences(void **state)
{
    struct fixture *fixture = *state;
    struct config other;
    cleanup_strings struct strings live = {0};
    cleanup_strings struct strings fixed = {0};
    config_init(&other);
    read_text(fixture, "session_ttl_sec: 5\nlog: {level: warn}\nhttp: {allowed_hosts: [a]}\n"
                       "listen: [127.0.0.1:1]\nstrict: true\nsessions: {read_only_rootfs: false}\n"
                       "mounts: {allowed_roots: [/x]}\n");
    config_differences(&other, &fixture->config, true, &live);
    config_differences(&other, &fixture->config, false, &fixed);
    assert_int_equal(live.count, 4);
    assert_int_equal(fixed.count, 3);
    assert_string_equal(fixed.items[0], "listen");
    config_take_reloadable(&other, &fixture->config);
    assert_int_equal(other.session_ttl_ms, 5000);
    assert_string_equal(other.log_level, "warn");
    assert_string_equal(other.allowed_hosts.items[0], "a");
    assert_false(other.read_only_rootfs);
    assert_false(other.strict);
    assert_string_equal(other.listen.items[0], "127.0.0.1:5410");
    strings_release(&live);
    config_differences(&other, &fixture->config, true, &live);
    assert_int_equal(live.count, 0);
    config_release(&other);
}

/* What --print-config says is a file that gives the same configuration again. */
static void test_print(void **state)
{
    struct fixture *fixture = *state;
    struct fixture again = {0};
    cleanup_strings struct strings differ = {0};
    read_text(fixture,
              "socket: \"/a b/\\\"c\\\\d\"\nsession_ttl_sec: 1.25\nlisten: []\n"
              "sessions: {cpus: 0.25}\nhttp: {allowed_hosts: [x, 'y: #z', \"\\x85\\U0001F600\"]}\n"
              "output: {keep_bytes: 3M}\nlocal: {host_root: /h}\n");
    check_clean(fixture);
    cleanup_free char *text = config_print(&fixture->config);
    config_init(&again.config);
    read_text(&again, text);
    check_clean(&again);
    config_differences(&fixture->config, &again.config, true, &differ);
    config_differences(&fixture->config, &again.config, false, &differ);
    assert_int_equal(differ.count, 0);
    assert_string_equal(again.config.socket, "/a b/\"c\\d");
    config_release(&again.config);
}

/* --- the token --- */

static int write_token(const char *text, mode_t mode, char path[32])
{
    strcpy(path, "/tmp/boxd-token-XXXXXX");
    int fd = mkstemp(path);
    assert_return_code(fd, errno);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return 0;
}

static void test_token(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mode_t mode;
        const char *problem; /* NULL: good */
    } cases[] = {
        {"0123456789abcdef0123456789abcdef\n", 0600, NULL},
        {"0123456789abcdef0123456789abcdef", 0440, NULL},
        {"0123456789abcdef0123456789abcde\n", 0600, "32"},
        {"0123456789abcdef 123456789abcdef\n", 0600, "white space"},
        {"0123456789abcdef0123456789abcdef\nx", 0600, "white space"},
        {"0123456789abcdef0123456789abcde\xC3\xBC", 0600, "white space"},
        {"", 0600, "32"},
        {"0123456789abcdef0123456789abcdef\n", 0644, "mode 644"},
        {"0123456789abcdef0123456789abcdef\n", 0602, "mode 602"},
        {"0123456789abcdef0123456789abcdef\n", 0620, "mode 620"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char path[32];
        struct error err = ERROR_INIT;
        char *token = NULL;
        write_token(cases[i].text, cases[i].mode, path);
        int rc = token_read(path, &token, &err);
        unlink(path);
        assert_int_equal(rc, cases[i].problem ? -1 : 0);
        if (cases[i].problem) {
            assert_non_null(strstr(err.message, cases[i].problem));
            assert_null(strstr(err.message, "0123456789"));
            assert_null(token);
        } else {
            assert_string_equal(token, "0123456789abcdef0123456789abcdef");
        }
        free(token);
    }
    struct error err = ERROR_INIT;
    char *token = NULL;
    assert_int_equal(token_read("/dev/null", &token, &err), -1);
    assert_int_equal(token_read("/nonexistent", &token, &err), -1);
}

static void test_control_token(void **state)
{
    struct fixture *fixture = *state;
    struct error err = ERROR_INIT;
    char path[32];
    char *token;
    char *control;
    unsetenv(CONTROL_TOKEN_VARIABLE);
    assert_int_equal(tokens_read(&fixture->config, &token, &control, &err), 0);
    assert_null(token);
    assert_null(control);
    write_token("file-0123456789abcdef0123456789abcdef\n", 0600, path);
    free(fixture->config.control_token_file);
    fixture->config.control_token_file = xstrdup(path);
    assert_int_equal(tokens_read(&fixture->config, &token, &control, &err), 0);
    assert_null(token);
    assert_string_equal(control, "file-0123456789abcdef0123456789abcdef");
    token_free(control);
    /* The variable counts more, unless it is empty. */
    setenv(CONTROL_TOKEN_VARIABLE, " vari-0123456789abcdef0123456789abcdef\n", 1);
    assert_int_equal(tokens_read(&fixture->config, &token, &control, &err), 0);
    assert_string_equal(control, "vari-0123456789abcdef0123456789abcdef");
    token_free(control);
    /* With one a network is as good as with the other. */
    read_text(fixture, "listen: ['0.0.0.0:1']\ncontrol_token_file: ''\n");
    config_settle(&fixture->config, &fixture->problems);
    check_clean(fixture);
    setenv(CONTROL_TOKEN_VARIABLE, "short", 1);
    assert_int_equal(tokens_read(&fixture->config, &token, &control, &err), -1);
    assert_non_null(strstr(err.message, CONTROL_TOKEN_VARIABLE));
    assert_null(strstr(err.message, "short"));
    setenv(CONTROL_TOKEN_VARIABLE, "", 1);
    config_settle(&fixture->config, &fixture->problems);
    assert_int_equal(fixture->problems.lines.count, 1);
    unsetenv(CONTROL_TOKEN_VARIABLE);
    unlink(path);
}

/* --- places --- */

static void test_places(void **state)
{
    struct fixture *fixture = *state;
    struct config *config = &fixture->config;
    struct account account = {.uid = geteuid(), .gid = getegid()};
    struct error err = ERROR_INIT;
    char base[] = "/tmp/boxd-places-XXXXXX";
    struct stat st;
    assert_non_null(mkdtemp(base));
    free(config->run_dir);
    free(config->state_dir);
    config->run_dir = xasprintf("%s/deep/run", base);
    config->state_dir = xasprintf("%s/state", base);
    assert_int_equal(places_prepare(config, &account, &err), 0);
    assert_int_equal(stat(config->run_dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(places_prepare(config, &account, &err), 0);
    assert_int_equal(chmod(config->state_dir, 0755), 0);
    assert_int_equal(places_prepare(config, &account, &err), -1);
    assert_non_null(strstr(err.message, "open to other users"));
    assert_non_null(strstr(err.hint, "chmod 700"));
    assert_int_equal(chmod(config->state_dir, 0700), 0);
    /* Taken once, and told who has it to whoever comes second. */
    assert_int_equal(places_lock(config, &err), 0);
    pid_t child = fork();
    if (child == 0) {
        char want[64];
        snprintf(want, sizeof want, "process %d", (int)getppid());
        int rc = places_lock(config, &err);
        _exit(rc == -1 && err.code == ERROR_UNAVAILABLE && strstr(err.message, want) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    cleanup_free char *command = xasprintf("rm -rf %s", base);
    assert_int_equal(system(command), 0);
}

/* --- what people read --- */

static char *source_file(const char *name, size_t *ret_size)
{
    const char *root = getenv("BOX_SOURCE");
    char here[] = __FILE__;
    cleanup_free char *above = root ? xstrdup(root) : xasprintf("%s/../..", dirname(here));
    cleanup_free char *path = xasprintf("%s/%s", above, name);
    char *text = xmalloc(1 << 20);
    ssize_t size = fd_read_file(AT_FDCWD, path, text, 1 << 20);
    if (size < 0)
        fail_msg("cannot read %s", path);
    *ret_size = (size_t)size;
    return text;
}

static size_t count_lines(const char *text, const char *start)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, start)); at++)
        count += at == text || at[-1] == '\n';
    return count;
}

/* Every key has its entry, with type and default as the table has them, and there are no others. */
static void test_manual(void **state)
{
    (void)state;
    size_t size;
    cleanup_free char *manual = source_file("man/boxd.yaml.5", &size);
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        cleanup_free char *entry =
            *key->standard
                ? xasprintf("\n.It Ic %s : Ar %s Pq Li %s\n", key->path,
                            config_type_name(key->type), key->standard)
                : xasprintf("\n.It Ic %s : Ar %s\n", key->path, config_type_name(key->type));
        if (!strstr(manual, entry))
            fail_msg("boxd.yaml.5 has no line '%s'", entry + 1);
    }
    assert_int_equal(count_lines(manual, ".It Ic "), config_key_count);
}

static void test_example(void **state)
{
    struct fixture *fixture = *state;
    size_t size;
    cleanup_free char *text = source_file("packaging/boxd.yaml", &size);
    config_read_yaml(&fixture->config, text, size, "boxd.yaml", &fixture->problems);
    config_settle(&fixture->config, &fixture->problems);
    check_clean(fixture);
    /* What is commented out is right too, and says what the default is. */
    struct fixture whole = {0};
    cleanup_strings struct strings differ = {0};
    for (char *at = text; (at = strstr(at, "\n#")); at++)
        if ((at[2] != ' ' && at[2] != '\n') || strncmp(at + 2, "    ", 4) == 0)
            memmove(at + 1, at + 2, strlen(at + 2) + 1);
    config_init(&whole.config);
    read_text(&whole, text);
    config_settle(&whole.config, &whole.problems);
    check_clean(&whole);
    assert_non_null(strstr(text, "\n    max_timeout_sec: 0"));
    config_differences(&fixture->config, &whole.config, true, &differ);
    config_differences(&fixture->config, &whole.config, false, &differ);
    for (size_t i = 0; i < differ.count; i++)
        print_error("not the default: %s\n", differ.items[i]);
    assert_int_equal(differ.count, 0);
    config_release(&whole.config);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),       TEST(test_table),           TEST(test_limits),
        TEST(test_values),         TEST(test_langbot),         TEST(test_nothing),
        TEST(test_problems),       TEST(test_depth),           TEST(test_all_problems),
        TEST(test_bounds),         TEST(test_variables),       TEST(test_wrong_variables),
        TEST(test_tree),           TEST(test_tree_unknown),    TEST(test_tree_problems),
        TEST(test_tree_admission), TEST(test_ceiling),         TEST(test_copies),
        TEST(test_flags),          TEST(test_langbot_flags),   TEST(test_wrong_flags),
        TEST(test_settle),         TEST(test_settle_warnings), TEST(test_system_places),
        TEST(test_settle_stdio),   TEST(test_differences),     TEST(test_print),
        TEST(test_token),          TEST(test_control_token),   TEST(test_places),
        TEST(test_manual),         TEST(test_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
