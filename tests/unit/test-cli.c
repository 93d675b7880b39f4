/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of `box`: options, values, environment, exit statuses, formats, and what is said
   to boxd and understood of its answers. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/copy.h"
#include "cli/environment.h"
#include "cli/progress.h"
#include "cli/run-options.h"
#include "cli/run-report.h"
#include "cli/session-exec.h"
#include "cli/skill.h"
#include "cli/sse.h"
#include "cli/table.h"
#include "cli/top-table.h"
#include "cli/verbs.h"
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
    assert_null(parsed.options.workdir);
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
    assert_true(parsed.options.interactive && parsed.options.terminal &&
                !parsed.options.client.json);
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
    REFUSED("--timeout: '0.1ms' is not a time, such as 10, 1.5s or 5m; 0 is none", W("--timeout"),
            W("0.1ms"));
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

static void assert_explained_given(enum cause cause, uint32_t given, const char *expected)
{
    struct run_options options;
    struct capture_result result = {.outcome = {.cause = cause, .exit_code = 1}};
    char text[256] = "";
    run_options_init(&options);
    options.timeout_ms = 1500;
    options.given = given;
    options.spec.memory_bytes = 256u << 20;
    options.spec.pids = 64;
    result.outcome.denied[165 / 64] |= 1ULL << (165 % 64);
    FILE *out = fmemopen(text, sizeof text, "w");
    run_explain(&options, &result, out);
    fclose(out);
    assert_string_equal(text, expected);
    run_options_release(&options);
}

static void assert_explained(enum cause cause, const char *expected)
{
    assert_explained_given(cause, 0, expected);
}

static void test_explanations(void **state)
{
    const char *name = seccomp_syscall_name(165);
    cleanup_free char *denied = xasprintf("box: denied system call: %s\n", name ? name : "?");
    (void)state;
    assert_explained(CAUSE_EXITED, "");
    assert_explained(CAUSE_SIGNAL, "");
    assert_explained_given(CAUSE_TIMEOUT, GIVEN_TIMEOUT, "box: timed out after 1.5s\n");
    assert_explained(CAUSE_TIMEOUT, "box: timed out after 1.5s\n"
                                    "  fix: --timeout TIME, such as 5m; 0 for no limit\n");
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

/* --- words among options ---------------------------------------------------------------------- */

static void assert_mixed(int max, const char *words, const char *rest, char **argv)
{
    struct run_options options;
    struct operands operands = {0};
    struct error err = ERROR_INIT;
    char text[128] = "";
    int argc = 0;
    while (argv[argc])
        argc++;
    run_options_init(&options);
    assert_int_equal(options_parse_mixed(&run, argc, argv, &options, max, &operands, &err),
                     OPTIONS_DONE);
    for (int i = 0; i < operands.count; i++) {
        strcat(text, operands.words[i]);
        strcat(text, ",");
    }
    assert_string_equal(text, words);
    text[0] = '\0';
    for (char **word = operands.rest; *word; word++) {
        strcat(text, *word);
        strcat(text, ",");
    }
    assert_string_equal(text, rest);
    run_options_release(&options);
}

#define MIXED(max, words, rest, ...) \
    assert_mixed((max), (words), (rest), (char *[]){(char *)"run", __VA_ARGS__, NULL})

static void test_mixed_words(void **state)
{
    (void)state;
    MIXED(1, "web,", "ls,-l,", W("web"), W("ls"), W("-l"));
    MIXED(1, "web,", "ls,--json,", W("--json"), W("web"), W("--timeout"), W("5"), W("--"), W("ls"),
          W("--json"));
    MIXED(1, "web,", "", W("web"), W("-i"));
    MIXED(1, "--x,", "ls,", W("--"), W("--x"), W("ls"));
    MIXED(2, "-,b:/x,", "", W("-"), W("--json"), W("b:/x"));
    MIXED(2, "--x,b:/x,", "", W("-i"), W("--"), W("--x"), W("b:/x"));
    MIXED(2, "a,b,", "c,", W("a"), W("b"), W("c"));
    /* A value that looks like the end of the options is none. */
    MIXED(1, "web,", "ls,", W("--env"), W("--"), W("web"), W("ls"));
    MIXED(0, "", "", W("--json"));
}

/* --- sessions of boxd ------------------------------------------------------------------------- */

static void assert_spec(const char *expected, char **argv)
{
    struct parsed parsed;
    json_t *spec = NULL;
    parse(&parsed, argv);
    assert_int_equal(parsed.rc, OPTIONS_DONE);
    assert_int_equal(run_options_check(&parsed.options, &parsed.err), 0);
    assert_int_equal(run_options_to_spec(&parsed.options, &spec, &parsed.err), 0);
    cleanup_free char *text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, expected);
    json_decref(spec);
    run_options_release(&parsed.options);
}

#define SPEC(expected, ...) \
    assert_spec((expected), (char *[]){(char *)"run", W("--session"), W("s"), __VA_ARGS__, NULL})

static void assert_foreign(const char *expected, char **argv)
{
    struct parsed parsed;
    json_t *spec = NULL;
    parse(&parsed, argv);
    assert_int_equal(parsed.rc, OPTIONS_DONE);
    assert_int_equal(run_options_to_spec(&parsed.options, &spec, &parsed.err), -1);
    assert_string_equal(parsed.err.message, expected);
    assert_true(parsed.err.hint[0]);
    run_options_release(&parsed.options);
}

#define FOREIGN(option, ...)                                         \
    assert_foreign(option " has no meaning for a session of boxd's", \
                   (char *[]){(char *)"run", __VA_ARGS__, W("ls"), NULL})

static void test_session_spec(void **state)
{
    (void)state;
    SPEC("{}", W("--timeout"), W("5"), W("ls"));
    SPEC("{\"cpus\":0.5,\"memory_mb\":100,\"pids_limit\":64}", W("--memory"), W("100M"),
         W("--cpus"), W("0.5"), W("--pids"), W("64"), W("ls"));
    /* Never less than was asked for. */
    SPEC("{\"memory_mb\":2}", W("--memory"), W("1025K"), W("ls"));
    SPEC("{\"network\":\"off\"}", W("--network"), W("off"), W("ls"));
    SPEC("{\"read_only_rootfs\":false}", W("--writable"), W("ls"));
    SPEC("{\"read_only_rootfs\":true}", W("--read-only"), W("ls"));
    SPEC("{\"image\":\"debian\",\"workspace_quota_mb\":64}", W("--image=debian"),
         W("--workspace-quota=64M"), W("ls"));
    SPEC("{\"extra_mounts\":[{\"host_path\":\"/srv/y\",\"mode\":\"rw\",\"mount_path\":\"/y\"},"
         "{\"host_path\":\"/opt\",\"mode\":\"ro\",\"mount_path\":\"/opt\"}],"
         "\"host_path\":\"/srv/x\",\"host_path_mode\":\"ro\"}",
         W("--mount"), W("/srv/x:/workspace:ro"), W("--mount"), W("/srv/y:/y"), W("--ro-path"),
         W("/opt"), W("ls"));
    FOREIGN("--tty", W("-t"));
    FOREIGN("--plan", W("--plan"));
    FOREIGN("--strict", W("--strict"));
    FOREIGN("--seccomp", W("--seccomp"), W("default"));
    FOREIGN("--tmp-size", W("--tmp-size=1M"));
    FOREIGN("--allow-net", W("--allow-net=10.0.0.0/8"));
    FOREIGN("--workspace-quota with a number of inodes", W("--workspace-quota=1M,5"));
    REFUSED("--url and --token-file are for --session", W("--url"), W("unix:/x"), W("ls"));
    REFUSED("--image: 'debian' is unknown; it can be host", W("--image"), W("debian"), W("ls"));
    REFUSED("--session: the name is empty", W("--session="), W("ls"));
    SPEC("{\"skills\":[\"pdf\",\"a-b\"]}", W("--skill"), W("pdf"), W("--skill=a-b"), W("ls"));
    REFUSED("--skill: the name is empty", W("--skill="), W("ls"));
    REFUSED("--skill is for --session: it is boxd that keeps skills", W("--skill"), W("pdf"),
            W("ls"));
    REFUSED("no command given; see box run --help", W("--session"), W("s"), W("--plan"));
}

static void test_targets(void **state)
{
    static const struct {
        const char *path;
        const char *target;
    } files[] = {
        {"/", "/v1/sessions/s/files/?stat"},
        {"/a/b c", "/v1/sessions/s/files/a/b%20c?stat"},
        {"//a///b/", "/v1/sessions/s/files/a/b?stat"},
        {"/100%?#", "/v1/sessions/s/files/100%25%3F%23?stat"},
    };
    (void)state;
    cleanup_free char *target = client_target("/v1/sessions/%s/processes/%s/log", "a/b", "x y");
    assert_string_equal(target, "/v1/sessions/a%2Fb/processes/x%20y/log");
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        cleanup_free char *file = client_file_target("s", files[i].path, "?stat");
        assert_string_equal(file, files[i].target);
    }
}

static void assert_error(int status, const char *body, enum error_code code, const char *message,
                         const char *hint)
{
    struct error err = ERROR_INIT;
    assert_int_equal(client_take_error(status, body, strlen(body), &err), -1);
    assert_int_equal(err.code, code);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
}

static void test_daemon_errors(void **state)
{
    (void)state;
    assert_error(404, "{\"error\":{\"code\":\"BoxSessionNotFoundError\",\"message\":\"no x\"}}",
                 ERROR_NO_SESSION, "no x", "box ps lists the sessions there are");
    assert_error(400,
                 "{\"error\":{\"code\":\"BoxValidationError\",\"message\":\"m\",\"hint\":\"h\"}}",
                 ERROR_INVALID, "m", "h");
    assert_error(404, "{\"error\":{\"code\":\"BoxValidationError\",\"message\":\"m\"}}",
                 ERROR_NOT_FOUND, "m", "");
    assert_error(409, "{\"error\":{\"code\":\"BoxValidationError\",\"message\":\"m\"}}",
                 ERROR_EXISTS, "m", "");
    assert_error(500, "{\"error\":{\"code\":\"Unheard\",\"message\":\"%s\"}}", ERROR_SYSTEM, "%s",
                 "");
    assert_error(502, "Bad Gateway\nmore", ERROR_PROTOCOL, "the answer was 502: Bad Gateway",
                 "is it boxd that listens there?");
    assert_error(500, "", ERROR_PROTOCOL, "the answer was 500", "is it boxd that listens there?");
    assert_error(500, "{\"error\":7}", ERROR_PROTOCOL, "the answer was 500: {\"error\":7}",
                 "is it boxd that listens there?");
}

static void test_daemon_result(void **state)
{
    static const struct {
        const char *json;
        enum cause cause;
        int status;
    } cases[] = {
        {"{\"status\":\"completed\",\"exit_code\":3,\"cause\":\"exited\"}", CAUSE_EXITED, 3},
        {"{\"status\":\"completed\",\"exit_code\":null,\"signal\":\"SIGTERM\",\"cause\":"
         "\"signal\"}",
         CAUSE_SIGNAL, 143},
        {"{\"status\":\"timed_out\",\"exit_code\":null,\"signal\":null,\"cause\":\"timeout\"}",
         CAUSE_TIMEOUT, 124},
        {"{\"status\":\"completed\",\"exit_code\":0,\"cause\":\"oom\"}", CAUSE_OOM, 137},
        {"{\"exit_code\":1,\"cause\":\"denied_syscall\",\"denied_syscalls\":[\"mount\",7,\"x\"]}",
         CAUSE_DENIED_SYSCALL, 1},
        {"{\"exit_code\":1,\"cause\":\"new_one\"}", CAUSE_EXITED, 1},
        {"{}", CAUSE_EXITED, 137},
    };
    cleanup_strings struct strings names = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct capture_result result;
        cleanup_json json_t *json = json_loads(cases[i].json, 0, NULL);
        exec_result_from_json(json, &result);
        assert_int_equal(result.outcome.cause, cases[i].cause);
        assert_int_equal(run_exit_status(&result), cases[i].status);
        if (cases[i].cause == CAUSE_DENIED_SYSCALL)
            run_denied_names(&result.outcome, &names);
    }
    assert_int_equal(names.count, 1);
    assert_string_equal(names.items[0], "mount");
    assert_int_equal(exec_signal_number("KILL"), SIGKILL);
    assert_int_equal(exec_signal_number("SIGHUP"), SIGHUP);
    assert_int_equal(exec_signal_number("SIG"), 0);
    assert_int_equal(exec_signal_number(""), 0);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int gather_event(void *data, const char *name, char *text, size_t size, struct error *err)
{
    char *all = data;
    (void)err;
    assert_int_equal(strlen(text), size);
    sprintf(all + strlen(all), "%s=%s;", name, text);
    return strcmp(name, "stop") == 0 ? 7 : 0;
}

static void test_events(void **state)
{
    static const char stream[] = ": hello\n\nevent: stdout\ndata: {\"a\":1}\n\n"
                                 "data:no name\r\n\r\nevent: lost\n\n"
                                 "id: 4\nevent: two\ndata: x\ndata: y\n\ndata\n\n";
    (void)state;
    /* However it is cut. */
    for (size_t piece = 1; piece < sizeof stream; piece++) {
        cleanup_sse struct sse sse = SSE_INIT;
        char all[256] = "";
        for (size_t at = 0; at < sizeof stream - 1; at += piece) {
            size_t left = sizeof stream - 1 - at;
            assert_int_equal(
                sse_feed(&sse, stream + at, left < piece ? left : piece, gather_event, all, NULL),
                0);
        }
        assert_string_equal(all, "stdout={\"a\":1};message=no name;two=x\ny;");
    }
    cleanup_sse struct sse sse = SSE_INIT;
    char all[64] = "";
    assert_int_equal(
        sse_feed(&sse, "event: stop\ndata: 1\n\ndata: 2\n\n", 30, gather_event, all, NULL), 7);
    assert_string_equal(all, "stop=1;");
}

static void test_event_too_long(void **state)
{
    cleanup_sse struct sse sse = SSE_INIT;
    struct error err = ERROR_INIT;
    cleanup_free char *piece = xmalloc(65536);
    int rc = 0;
    (void)state;
    memset(piece, 'x', 65536);
    for (int i = 0; rc == 0 && i < 100; i++)
        rc = sse_feed(&sse, piece, 65536, gather_event, NULL, &err);
    assert_int_equal(rc, -1);
    assert_int_equal(err.code, ERROR_LIMIT);
}

/* --- copies ----------------------------------------------------------------------------------- */

static void test_copy_words(void **state)
{
    static const struct {
        const char *word;
        const char *session; /* NULL: a path of ours */
        const char *path;
    } words[] = {
        {"web:/x", "web", "/x"},  {"a:b:/x:/y", "a:b", "/x:/y"}, {"web:x", NULL, NULL},
        {"./web:/x", NULL, NULL}, {"/web:/x", NULL, NULL},       {":/x", NULL, NULL},
        {"-", NULL, NULL},        {"file", NULL, NULL},
    };
    static const struct {
        const char *path;
        const char *name;
    } names[] = {{"a", "a"}, {"/a/b", "b"}, {"a/b///", "b"}, {"/", ""},
                 {".", ""},  {"a/..", ""},  {"./a", "a"},    {"", ""}};
    static const char *const joined[][3] = {{"/", "a", "/a"},   {"/x", "a", "/x/a"},
                                            {"x/", "a", "x/a"}, {"/", "", "/"},
                                            {"/x/", "", "/x"},  {".", "a", "./a"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        cleanup_free char *session = NULL;
        cleanup_free char *path = NULL;
        bool remote = copy_is_remote(words[i].word, &session, &path);
        assert_int_equal(remote, words[i].session != NULL);
        if (remote) {
            assert_string_equal(session, words[i].session);
            assert_string_equal(path, words[i].path);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        cleanup_free char *name = copy_basename(names[i].path);
        assert_string_equal(name, names[i].name);
    }
    for (size_t i = 0; i < ARRAY_SIZE(joined); i++) {
        cleanup_free char *path = copy_join(joined[i][0], joined[i][1]);
        assert_string_equal(path, joined[i][2]);
    }
}

static void test_progress(void **state)
{
    struct progress progress = {.name = "big", .total = 100u << 20, .done = 25u << 20};
    char line[256];
    (void)state;
    progress_line(&progress, 1000000, 60, line, sizeof line);
    assert_string_equal(line, "big  [=====>               ]  25%  25.0M  25.0M/s  0:03 left");
    assert_true(strlen(line) <= 60);
    progress_line(&progress, 1000000, 20, line, sizeof line);
    assert_string_equal(line, "big  []  25%  25.0M  25.0M/s  0:03 left");
    progress.done = progress.total;
    progress_line(&progress, 4000000, 60, line, sizeof line);
    assert_non_null(strstr(line, "] 100%"));
    assert_null(strchr(line, '>'));
    /* It grew while it was read. */
    progress.done = progress.total + 1;
    progress_line(&progress, 4000000, 60, line, sizeof line);
    assert_string_equal(line, "big  100.0M  25.0M/s");
}

/* --- tables ----------------------------------------------------------------------------------- */

static void assert_printed(const struct table *table, size_t width, size_t rows,
                           const char *expected)
{
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    table_print(table, width, rows, "\n", out);
    fclose(out);
    assert_string_equal(text, expected);
}

static void test_table(void **state)
{
    static const char *const headings[] = {"NAME", ">SIZE", "NOTE", NULL};
    cleanup_table struct table table;
    (void)state;
    table_init(&table, headings);
    assert_printed(&table, 0, 0, "NAME  SIZE  NOTE\n");
    table_add(&table, "h\xc3\xa9");
    table_add_size(&table, 1536);
    table_add(&table, "a\033[31m\xc2\x9b");
    table_add(&table, "longer");
    table_add_number(&table, 7);
    table_add(&table, "");
    assert_printed(&table, 0, 0,
                   "NAME    SIZE  NOTE\n"
                   "h\xc3\xa9      1.5K  a?[31m??\n"
                   "longer     7  -\n");
    assert_printed(&table, 15, 1,
                   "NAME  SIZE  NO\xe2\x80\xa6\n"
                   "h\xc3\xa9    1.5K  a?\xe2\x80\xa6\n");
}

/* One column gives way, so that those behind it are seen; its heading stays. */
static void test_table_yields(void **state)
{
    static const char *const headings[] = {"NAME", "~NOTE", ">AGE", NULL};
    cleanup_table struct table table;
    (void)state;
    table_init(&table, headings);
    table_add(&table, "a");
    table_add(&table, "a rather long n\xc3\xb6te");
    table_add(&table, "5d");
    assert_printed(&table, 0, 0,
                   "NAME  NOTE                AGE\n"
                   "a     a rather long n\xc3\xb6te   5d\n");
    assert_printed(&table, 29, 0,
                   "NAME  NOTE                AGE\n"
                   "a     a rather long n\xc3\xb6te   5d\n");
    assert_printed(&table, 20, 0,
                   "NAME  NOTE       AGE\n"
                   "a     a rather\xe2\x80\xa6   5d\n");
    assert_printed(&table, 28, 0,
                   "NAME  NOTE               AGE\n"
                   "a     a rather long n\xc3\xb6\xe2\x80\xa6   5d\n");
    assert_printed(&table, 10, 0,
                   "NAME  NOT\xe2\x80\xa6\n"
                   "a     a r\xe2\x80\xa6\n");
}

/* --- verbs below verbs ------------------------------------------------------------------------ */

static int ran;

static int run_below(const struct verb *verb, int argc, char **argv)
{
    (void)verb;
    ran = argc;
    assert_string_equal(argv[0], "one");
    return 7;
}

static void test_verbs_below(void **state)
{
    static const struct verb one = {
        .name = "top one", .arguments = "X", .help = "First.", .run = run_below};
    static const struct verb *const below[] = {&one, NULL};
    static const struct verb top = {.name = "top",
                                    .arguments = "VERB",
                                    .help = "All.",
                                    .run = verbs_run,
                                    .below = below,
                                    .misuse = EXIT_USAGE};
    char text[256] = "";
    (void)state;
    assert_int_equal(verbs_run(&top, 3, (char *[]){W("top"), W("one"), W("x"), NULL}), 7);
    assert_int_equal(ran, 2);
    assert_int_equal(verbs_run(&top, 2, (char *[]){W("top"), W("on"), NULL}), EXIT_USAGE);
    assert_int_equal(verbs_run(&top, 2, (char *[]){W("top"), W(""), NULL}), EXIT_USAGE);
    FILE *out = fmemopen(text, sizeof text, "w");
    options_help(&top, out);
    fclose(out);
    assert_string_equal(text, "usage: box top VERB\n\nAll.\n\n  one       First.\n\n"
                              "box help top VERB says more.\n");
}

static void test_skill_targets(void **state)
{
    static const struct {
        const char *path;
        const char *target;
    } files[] = {
        {"SKILL.md", "/v1/skills/a%20b/files/SKILL.md"},
        {"/x//y z", "/v1/skills/a%20b/files/x/y%20z"},
        {"/", "/v1/skills/a%20b/files/"},
        {"", "/v1/skills/a%20b/files/"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        cleanup_free char *target = client_skill_target("a b", files[i].path);
        assert_string_equal(target, files[i].target);
    }
}

static void test_times(void **state)
{
    static const struct {
        uint64_t seconds;
        const char *text;
    } ages[] = {{0, "0s"},    {59, "59s"},    {60, "1m"},     {3599, "59m"},
                {3600, "1h"}, {86399, "23h"}, {172800, "2d"}, {86400 * 400, "400d"}};
    char text[32];
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ages); i++) {
        format_age(ages[i].seconds, text, sizeof text);
        assert_string_equal(text, ages[i].text);
    }
    assert_int_equal(parse_time("1970-01-01T00:00:01.500000+00:00"), 1500000);
    assert_int_equal(parse_time("1970-01-01T00:01:00Z"), 60000000);
    assert_int_equal(parse_time("1970-01-01T00:00:01+02:00"), -1);
    assert_int_equal(parse_time("yesterday"), -1);
    assert_int_equal(parse_time(""), -1);
    format_since("never", text, sizeof text);
    assert_string_equal(text, "-");
}

static void test_top(void **state)
{
    static const char before[] = "[{\"session_id\":\"a\",\"cpu_us\":1000000},"
                                 "{\"session_id\":\"b\",\"cpu_us\":5000000}]";
    static const char now[] =
        "[{\"session_id\":\"a\",\"cpu_us\":1100000,\"state\":\"live\"},"
        "{\"session_id\":\"new\",\"cpu_us\":50000},{\"session_id\":\"b\",\"cpu_us\":1500000,"
        "\"memory_bytes\":1048576,\"memory_limit_bytes\":2097152,\"processes\":3}]";
    cleanup_json json_t *first = json_loads(before, 0, NULL);
    cleanup_json json_t *second = json_loads(now, 0, NULL);
    cleanup_json json_t *ranked = top_rank(first, second, 1000000);
    cleanup_table struct table table;
    (void)state;
    top_table(ranked, &table);
    /* b was made anew: its counter began again. */
    assert_printed(&table, 0, 0,
                   "SESSION  STATE   CPU%  MEMORY  LIMIT  MEM%  PROCESSES\n"
                   "b        -      150.0      1M     2M    50          3\n"
                   "a        live    10.0       0      0     0          0\n"
                   "new      -        5.0       0      0     0          0\n");
    cleanup_json json_t *single = top_rank(NULL, second, 0);
    assert_int_equal(json_array_size(single), 3);
    cleanup_json json_t *none = top_rank(second, NULL, 5);
    assert_int_equal(json_array_size(none), 0);
}

static void test_places(void **state)
{
    cleanup_strings struct strings places = {0};
    (void)state;
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("HOME", "/home/me", 1);
    client_places(&places);
    assert_int_equal(places.count, 4);
    assert_string_equal(places.items[0], "unix:/run/user/7/boxd/boxd.sock");
    assert_string_equal(places.items[1], "unix:/home/me/.local/state/boxd/run/boxd.sock");
    assert_string_equal(places.items[2], "unix:/run/boxd/boxd.sock");
    assert_string_equal(places.items[3], "http://127.0.0.1:5410");
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("HOME");
    strings_release(&places);
    places = (struct strings){0};
    client_places(&places);
    assert_int_equal(places.count, 2);
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
        cmocka_unit_test(test_mixed_words),
        cmocka_unit_test(test_session_spec),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_daemon_errors),
        cmocka_unit_test(test_daemon_result),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_event_too_long),
        cmocka_unit_test(test_copy_words),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_yields),
        cmocka_unit_test(test_verbs_below),
        cmocka_unit_test(test_skill_targets),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
