/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of `box`: options, values, environment, exit statuses, formats. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/run-options.h"
#include "cli/run-report.h"
#include "core/mem.h"

static const struct verb run = {
    .name = "run", .arguments = "", .help = "", .options = run_option_table};

/* --- parsing an option line ------------------------------------------------------------------- */

struct parsed {
    struct run_options options;
    struct error err;
    int rc;
    int rest;
};

static void parse(struct parsed *ret, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    *ret = (struct parsed){.rest = -1};
    run_options_init(&ret->options);
    ret->rc = options_parse(&run, argc, argv, &ret->options, &ret->rest, &ret->err);
    if (ret->rc == OPTIONS_DONE)
        ret->options.command = argv + ret->rest;
}

#define PARSE(parsed, ...) parse((parsed), (char *[]){(char *)"run", __VA_ARGS__, NULL})
#define W(text)            ((char *)(text))

static void assert_refused(const char *expected, char **argv)
{
    struct parsed parsed;
    parse(&parsed, argv);
    if (parsed.rc == OPTIONS_DONE)
        parsed.rc = run_options_check(&parsed.options, &parsed.err);
    assert_int_equal(parsed.rc, -1);
    assert_string_equal(parsed.err.message, expected);
    run_options_release(&parsed.options);
}

#define REFUSED(expected, ...) \
    assert_refused((expected), (char *[]){(char *)"run", __VA_ARGS__, NULL})

static void test_defaults(void **state)
{
    struct parsed parsed;
    (void)state;
    PARSE(&parsed, W("true"));
    assert_int_equal(parsed.rc, OPTIONS_DONE);
    assert_int_equal(parsed.rest, 1);
    assert_true(parsed.options.spec.single);
    assert_int_equal(parsed.options.spec.asked, 0);
    assert_int_equal(parsed.options.timeout_ms, 0);
    assert_string_equal(parsed.options.workdir, "/workspace");
    assert_int_equal(run_options_check(&parsed.options, &parsed.err), 0);
    run_options_release(&parsed.options);
}

static void test_values(void **state)
{
    struct parsed parsed;
    (void)state;
    PARSE(&parsed, W("--memory=256M"), W("--cpus"), W("0.5"), W("--pids"), W("64"), W("--timeout"),
          W("10"), W("--network"), W("on"), W("--allow-net"), W("10.0.0.0/8"), W("--allow-net"),
          W("192.168.1.0/24"), W("--seccomp=dev"), W("--tmp-size"), W("2M"), W("--workspace-quota"),
          W("64M,1000"), W("--writable"), W("--strict"), W("--workdir"), W("/tmp//x/"), W("ls"),
          W("--memory"));
    const struct sandbox_spec *spec = &parsed.options.spec;
    assert_int_equal(parsed.rc, OPTIONS_DONE);
    assert_int_equal(spec->memory_bytes, 256u << 20);
    assert_int_equal(spec->cpu_milli, 500);
    assert_int_equal(spec->pids, 64);
    assert_int_equal(spec->asked, SPEC_ASKED_MEMORY | SPEC_ASKED_CPU | SPEC_ASKED_PIDS);
    assert_int_equal(parsed.options.timeout_ms, 10000);
    assert_int_equal(spec->network, NETWORK_ON);
    assert_int_equal(spec->allow_net.count, 2);
    assert_int_equal(spec->seccomp, SECCOMP_DEV);
    assert_int_equal(spec->scratch_bytes, 2u << 20);
    assert_int_equal(spec->quota_bytes, 64u << 20);
    assert_int_equal(spec->quota_inodes, 1000);
    assert_true(spec->writable_root && spec->strict);
    assert_string_equal(parsed.options.workdir, "/tmp/x");
    assert_string_equal(parsed.options.command[0], "ls");
    assert_string_equal(parsed.options.command[1], "--memory");
    run_options_release(&parsed.options);
}

static void test_words_and_letters(void **state)
{
    struct parsed parsed;
    (void)state;
    PARSE(&parsed, W("-it"), W("--"), W("--json"));
    assert_true(parsed.options.interactive && parsed.options.terminal && !parsed.options.json);
    assert_string_equal(parsed.options.command[0], "--json");
    run_options_release(&parsed.options);

    /* A lone dash is a word: many programs take it for standard input. */
    PARSE(&parsed, W("-i"), W("-"), W("-t"));
    assert_true(parsed.options.interactive && !parsed.options.terminal);
    assert_string_equal(parsed.options.command[0], "-");
    run_options_release(&parsed.options);

    PARSE(&parsed, W("--json"), W("--help"), W("--bogus"));
    assert_int_equal(parsed.rc, OPTIONS_HELP);
    run_options_release(&parsed.options);

    PARSE(&parsed, W("-ih"));
    assert_int_equal(parsed.rc, OPTIONS_HELP);
    run_options_release(&parsed.options);
}

static void test_refusals(void **state)
{
    (void)state;
    REFUSED("unknown option '--memroy'; did you mean --memory?", W("--memroy"), W("1G"), W("ls"));
    REFUSED("unknown option '--memroy'; did you mean --memory?", W("--memroy=1G"), W("ls"));
    REFUSED("unknown option '--xyzzyxyzzy'; see box run --help", W("--xyzzyxyzzy"));
    REFUSED("unknown option '-x'; see box run --help", W("-ix"), W("ls"));
    REFUSED("--memory needs a value: --memory SIZE", W("--memory"));
    REFUSED("--json takes no value", W("--json=yes"), W("ls"));
    REFUSED("--memory: '12Q' is not a size, such as 256M or 1.5G", W("--memory"), W("12Q"));
    REFUSED("--cpus: '0' is not a number of CPUs, such as 0.5", W("--cpus"), W("0"));
    REFUSED("--pids: '-1' is not a number of processes", W("--pids"), W("-1"));
    REFUSED("--timeout: '0' is not a time, such as 10, 1.5s or 5m", W("--timeout"), W("0"));
    REFUSED("--network: 'of' is unknown; did you mean off?", W("--network"), W("of"));
    REFUSED("--network: 'sideways' is unknown; it can be off or on", W("--network=sideways"));
    REFUSED("--seccomp: 'strickt' is unknown; did you mean strict?", W("--seccomp=strickt"));
    REFUSED("--workspace-quota: 'many' is not a number of inodes", W("--workspace-quota=1M,many"));
    REFUSED("--env: '=x' has no name before the '='", W("--env"), W("=x"));
    REFUSED("--writable and --read-only contradict each other", W("--writable"), W("--read-only"),
            W("ls"));
    REFUSED("--json keeps the output, --tty shows it: only one", W("--json"), W("-t"), W("ls"));
    REFUSED("no command given; see box run --help", W("--json"));
    REFUSED("no command given; see box run --help", W("--"));
}

static void test_plan_needs_no_command(void **state)
{
    struct parsed parsed;
    (void)state;
    PARSE(&parsed, W("--plan"));
    assert_int_equal(run_options_check(&parsed.options, &parsed.err), 0);
    run_options_release(&parsed.options);
}

/* --- mounts ----------------------------------------------------------------------------------- */

struct mount_case {
    const char *text;
    const char *source; /* NULL: refused */
    const char *target;
    bool writable;
};

static void test_mounts(void **state)
{
    static const struct mount_case cases[] = {
        {"/srv/x:/workspace", "/srv/x", "/workspace", true},
        {"/srv/x:/workspace:ro", "/srv/x", "/workspace", false},
        {"/srv/x:/workspace:rw", "/srv/x", "/workspace", true},
        {"/srv//x/:/a//b/", "/srv/x", "/a/b", true},
        {".:/workspace", "/home/me", "/workspace", true},
        {"src/lib:/lib2:ro", "/home/me/src/lib", "/lib2", false},
        {"./src:/s", "/home/me/src", "/s", true},
        {"/srv/x", NULL, NULL, false},
        {"/srv/x:", NULL, NULL, false},
        {":/x", NULL, NULL, false},
        {"", NULL, NULL, false},
        {"/srv/x:relative", NULL, NULL, false},
        {"/srv/x:/x:r", NULL, NULL, false},
        {"/srv/x:/x:ro:z", NULL, NULL, false},
        {"../x:/x", NULL, NULL, false},
        {"/srv/../etc:/x", NULL, NULL, false},
        {"/srv:/x/../etc", NULL, NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sandbox_spec spec;
        struct error err = ERROR_INIT;
        sandbox_spec_init(&spec);
        int rc = run_parse_mount(&spec, cases[i].text, "/home/me", &err);
        assert_int_equal(rc, cases[i].source ? 0 : -1);
        assert_int_equal(spec.mount_count, cases[i].source ? 1 : 0);
        if (cases[i].source) {
            assert_string_equal(spec.mounts[0].source, cases[i].source);
            assert_string_equal(spec.mounts[0].target, cases[i].target);
            assert_int_equal(spec.mounts[0].writable, cases[i].writable);
        } else {
            assert_true(err.message[0]);
        }
        sandbox_spec_release(&spec);
    }
}

static void test_quota(void **state)
{
    struct sandbox_spec spec;
    (void)state;
    sandbox_spec_init(&spec);
    assert_int_equal(run_parse_quota(&spec, "64M", NULL), 0);
    assert_int_equal(spec.quota_bytes, 64u << 20);
    assert_int_equal(spec.quota_inodes, 0);
    assert_int_equal(run_parse_quota(&spec, "1G,5000", NULL), 0);
    assert_int_equal(spec.quota_inodes, 5000);
    assert_int_equal(run_parse_quota(&spec, "0", NULL), -1);
    assert_int_equal(run_parse_quota(&spec, "1G,", NULL), -1);
    assert_int_equal(run_parse_quota(&spec, ",5", NULL), -1);
    assert_int_equal(run_parse_quota(&spec, "", NULL), -1);
    assert_int_equal(spec.quota_inodes, 5000);
    sandbox_spec_release(&spec);
}

/* --- environment ------------------------------------------------------------------------------ */

static char *const outer[] = {(char *)"SECRET=1", (char *)"EDITOR=vi", (char *)"A=outer", NULL};

static const char *value_of(const struct strings *env, const char *name)
{
    size_t length = strlen(name);
    const char *found = NULL;
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], name, length) == 0 && env->items[i][length] == '=') {
            assert_null(found);
            found = env->items[i] + length + 1;
        }
    }
    return found;
}

static void test_environment(void **state)
{
    cleanup_strings struct strings env = {0};
    (void)state;
    environment_init(&env, NULL);
    assert_string_equal(value_of(&env, "HOME"), "/home/box");
    assert_null(value_of(&env, "TERM"));
    assert_null(value_of(&env, "SECRET"));
    assert_int_equal(environment_set(&env, "A=1", outer, NULL), 0);
    assert_int_equal(environment_set(&env, "A=2=3", outer, NULL), 0);
    assert_string_equal(value_of(&env, "A"), "2=3");
    assert_int_equal(environment_set(&env, "A", outer, NULL), 0);
    assert_string_equal(value_of(&env, "A"), "outer");
    assert_int_equal(environment_set(&env, "HOME=/tmp", outer, NULL), 0);
    assert_string_equal(value_of(&env, "HOME"), "/tmp");
    assert_int_equal(environment_set(&env, "EMPTY=", outer, NULL), 0);
    assert_string_equal(value_of(&env, "EMPTY"), "");
    assert_int_equal(environment_set(&env, "NOWHERE", outer, NULL), 0);
    assert_null(value_of(&env, "NOWHERE"));
    assert_int_equal(environment_set(&env, "=x", outer, NULL), -1);
    assert_null(env.items[env.count]);
}

static void test_environment_file(void **state)
{
    static const char text[] = "# a comment\n"
                               "\n"
                               "A=1\r\n"
                               "  B=two words # and this\n"
                               "EDITOR\n"
                               "QUOTED=\"x\"\n"
                               "LAST=no newline";
    cleanup_strings struct strings env = {0};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(environment_parse(&env, text, sizeof text - 1, outer, &err), 0);
    assert_int_equal(env.count, 5);
    assert_string_equal(value_of(&env, "A"), "1");
    assert_string_equal(value_of(&env, "B"), "two words # and this");
    assert_string_equal(value_of(&env, "EDITOR"), "vi");
    assert_string_equal(value_of(&env, "QUOTED"), "\"x\"");
    assert_string_equal(value_of(&env, "LAST"), "no newline");

    assert_int_equal(environment_parse(&env, "A=1\nB C=2\n", 10, outer, &err), -1);
    assert_string_equal(err.message, "line 2: a space in the name of a variable");
    assert_int_equal(environment_parse(&env, "A=1\n\n=2", 7, outer, &err), -1);
    assert_string_equal(err.message, "line 3: '=2' has no name before the '='");
    assert_int_equal(environment_parse(&env, "A=\0x", 4, outer, &err), -1);
    assert_int_equal(environment_parse(&env, "", 0, outer, &err), 0);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void test_exit_status(void **state)
{
    static const struct {
        struct outcome outcome;
        int errnum;
        int status;
    } cases[] = {
        {{.exit_code = 0}, 0, 0},
        {{.exit_code = 42}, 0, 42},
        {{.exit_code = 255}, 0, 255},
        {{.exit_code = -1, .signal = SIGTERM, .cause = CAUSE_SIGNAL}, 0, 143},
        {{.exit_code = -1, .signal = SIGKILL, .cause = CAUSE_TIMEOUT, .timed_out = true}, 0, 124},
        {{.exit_code = -1, .signal = SIGKILL, .cause = CAUSE_OOM}, 0, 137},
        {{.exit_code = 0, .cause = CAUSE_OOM}, 0, 137},
        {{.exit_code = 2, .cause = CAUSE_PIDS_LIMIT}, 0, 2},
        {{.exit_code = 0}, EPIPE, 0},
        {{.exit_code = 0}, ENOSPC, EXIT_BOXD},
        {{.exit_code = 3}, ENOSPC, 3},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct capture_result result = {.outcome = cases[i].outcome,
                                              .output = {.errnum = cases[i].errnum}};
        assert_int_equal(run_exit_status(&result), cases[i].status);
    }
}

static void test_start_status(void **state)
{
    static const struct {
        struct error err;
        int status;
    } cases[] = {
        {{.code = ERROR_NOT_FOUND, .errnum = ENOENT}, EXIT_NOT_FOUND},
        {{.code = ERROR_DENIED, .errnum = EACCES}, EXIT_NOT_EXECUTABLE},
        {{.code = ERROR_SYSTEM, .errnum = ENOEXEC}, EXIT_NOT_EXECUTABLE},
        {{.code = ERROR_SYSTEM, .errnum = EMFILE}, EXIT_BOXD},
        {{.code = ERROR_GONE}, EXIT_BOXD},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(run_start_status(&cases[i].err), cases[i].status);
}

static void assert_explained(enum cause cause, const char *expected)
{
    struct run_options options;
    struct capture_result result = {.outcome = {.cause = cause, .exit_code = 1}};
    char text[256] = "";
    run_options_init(&options);
    options.timeout_ms = 1500;
    options.spec.memory_bytes = 256u << 20;
    options.spec.pids = 64;
    result.outcome.denied[165 / 64] |= 1ULL << (165 % 64);
    FILE *out = fmemopen(text, sizeof text, "w");
    run_explain(&options, &result, out);
    fclose(out);
    assert_string_equal(text, expected);
    run_options_release(&options);
}

static void test_explanations(void **state)
{
    const char *name = seccomp_syscall_name(165);
    cleanup_free char *denied = xasprintf("box: denied system call: %s\n", name ? name : "?");
    (void)state;
    assert_explained(CAUSE_EXITED, "");
    assert_explained(CAUSE_SIGNAL, "");
    assert_explained(CAUSE_TIMEOUT, "box: timed out after 1.5s\n");
    assert_explained(CAUSE_OOM, "box: out of memory: killed (limit 256M)\n");
    assert_explained(CAUSE_PIDS_LIMIT,
                     "box: process limit reached (64): a new process was refused\n");
    assert_explained(CAUSE_DENIED_SYSCALL, denied);
}

static void test_formats(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {
        {0, "0"},
        {1023, "1023"},
        {1024, "1K"},
        {1536, "1.5K"},
        {256ULL << 20, "256M"},
        {1ULL << 30, "1G"},
        {3ULL << 29, "1.5G"},
        {1ULL << 50, "1024T"},
    };
    static const struct {
        uint64_t ms;
        const char *text;
    } times[] = {{250, "250ms"}, {1000, "1s"}, {1500, "1.5s"}, {10000, "10s"}, {3600000, "3600s"}};
    char text[32];
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        format_size(sizes[i].bytes, text, sizeof text);
        assert_string_equal(text, sizes[i].text);
    }
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        format_duration(times[i].ms, text, sizeof text);
        assert_string_equal(text, times[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_words_and_letters),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_plan_needs_no_command),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_environment_file),
        cmocka_unit_test(test_exit_status),
        cmocka_unit_test(test_start_status),
        cmocka_unit_test(test_explanations),
        cmocka_unit_test(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
