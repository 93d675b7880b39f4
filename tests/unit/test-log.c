/* SPDX-License-Identifier: Apache-2.0 */
/* The log: what a line looks like, and that no value can make it look like another. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/log.h"
#include "core/mem.h"

#define STAMP_SIZE 27 /* 2026-11-15T23:10:08.123456Z */

static int pipe_fds[2];
static int real_stderr;
static char got[4 * PIPE_BUF];

/* Standard error is a pipe while something is logged: a line that is no longer than PIPE_BUF always
   fits. */
static void capture_begin(void)
{
    fflush(stderr);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
    real_stderr = dup(STDERR_FILENO);
    assert_return_code(dup2(pipe_fds[1], STDERR_FILENO), errno);
}

static const char *capture_end(void)
{
    assert_return_code(dup2(real_stderr, STDERR_FILENO), errno);
    fd_clear(&real_stderr);
    fd_clear(&pipe_fds[1]);
    ssize_t n = read(pipe_fds[0], got, sizeof got - 1);
    fd_clear(&pipe_fds[0]);
    got[n < 0 ? 0 : n] = '\0';
    return got;
}

#define CAPTURE(call)    \
    ({                   \
        capture_begin(); \
        call;            \
        capture_end();   \
    })

static void check_stamp(const char *line)
{
    const char *form = "dddd-dd-ddTdd:dd:dd.ddddddZ";
    for (size_t i = 0; i < STAMP_SIZE; i++) {
        if (form[i] == 'd')
            assert_in_range(line[i], '0', '9');
        else
            assert_int_equal(line[i], form[i]);
    }
}

static void check_text(const char *line, const char *rest)
{
    check_stamp(line);
    assert_string_equal(line + STAMP_SIZE, rest);
}

static json_t *check_json(const char *line)
{
    size_t size = strlen(line);
    assert_true(size > 0 && line[size - 1] == '\n');
    assert_null(memchr(line, '\n', size - 1));
    json_error_t why;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &why);
    if (!object)
        fail_msg("%s: %s", why.text, line);
    check_stamp(json_string_value(json_object_get(object, "time")));
    return object;
}

static int use_text(void **state)
{
    (void)state;
    log_configure(LOG_FORMAT_TEXT, LOG_INFO);
    return 0;
}

static int use_json(void **state)
{
    (void)state;
    log_configure(LOG_FORMAT_JSON, LOG_INFO);
    return 0;
}

static void test_text(void **state)
{
    (void)state;
    check_text(CAPTURE(log_event(LOG_INFO, "session_created", LOG_TEXT("session", "abc"),
                                 LOG_NUMBER("ms", 3))),
               " info session_created session=abc ms=3\n");
    check_text(CAPTURE(log_event(LOG_WARN, "alone")), " warn alone\n");
    check_text(CAPTURE(log_event(LOG_ERROR, "n", LOG_NUMBER("least", INT64_MIN))),
               " error n least=-9223372036854775808\n");
    const char *none = NULL;
    check_text(CAPTURE(log_event(LOG_INFO, "n", LOG_TEXT("a", none), LOG_TEXT("b", ""))),
               " info n a=\"\" b=\"\"\n");
}

static void test_text_quotes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"x\n2026-01-01T00:00:00.000000Z error fake", "\"x\\n2026-01-01T00:00:00.000000Z error "
                                                      "fake\""},
        {"\r\t\x1b[2K\x07\x7f", "\"\\r\\t\\u001b[2K\\u0007\\u007f\""},
        {"gr\xC3\xBC\xC3\x9F", "\"gr\xC3\xBC\xC3\x9F\""},
        {"c1 \xC2\x9B", "\"c1 \\u009b\""},             /* CSI in one character */
        {"\xE2\x80\xAEgnp.exe", "\"\\u202egnp.exe\""}, /* right to left from here */
        {"a\xE2\x80\xA8"
         "b",
         "\"a\\u2028b\""},                                        /* a line, to some readers */
        {"\xFFpart\xE2\x82", "\"\xEF\xBF\xBDpart\xEF\xBF\xBD\""}, /* no UTF-8 */
        {"/plain/path:1,2;3'", "/plain/path:1,2;3'"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cleanup_free char *want = xasprintf(" info e v=%s w=1\n", cases[i][1]);
        check_text(
            CAPTURE(log_event(LOG_INFO, "e", LOG_TEXT("v", cases[i][0]), LOG_NUMBER("w", 1))),
            want);
    }
}

static void test_json(void **state)
{
    (void)state;
    const char *hostile = "\"},\n{\"event\":\"fake\x01\xFF\xE2\x80\xA8";
    json_t *object = check_json(
        CAPTURE(log_event(LOG_WARN, "e", LOG_TEXT("v", hostile), LOG_NUMBER("n", 1ll << 53))));
    assert_string_equal(json_string_value(json_object_get(object, "level")), "warn");
    assert_string_equal(json_string_value(json_object_get(object, "event")), "e");
    assert_string_equal(json_string_value(json_object_get(object, "v")),
                        "\"},\n{\"event\":\"fake\x01\xEF\xBF\xBD\xE2\x80\xA8");
    assert_true(json_integer_value(json_object_get(object, "n")) == 1ll << 53);
    assert_int_equal(json_object_size(object), 5);
    json_decref(object);
}

static void test_levels(void **state)
{
    (void)state;
    assert_string_equal(CAPTURE(log_event(LOG_DEBUG, "e")), "");
    log_configure(LOG_FORMAT_TEXT, LOG_ERROR);
    assert_string_equal(CAPTURE(log_event(LOG_WARN, "e")), "");
    check_text(CAPTURE(log_event(LOG_ERROR, "e")), " error e\n");
    log_configure(LOG_FORMAT_TEXT, LOG_DEBUG);
    check_text(CAPTURE(log_event(LOG_DEBUG, "e")), " debug e\n");
    assert_int_equal(log_level_from_name("debug"), LOG_DEBUG);
    assert_int_equal(log_level_from_name("error"), LOG_ERROR);
    assert_int_equal(log_level_from_name("loud"), LOG_LEVEL_INVALID);
    assert_int_equal(log_level_from_name(""), LOG_LEVEL_INVALID);
}

static void test_errors(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_DENIED, "no: %s", "x");
    check_text(CAPTURE(log_error(LOG_ERROR, "failed", &err, LOG_TEXT("session", "a"))),
               " error failed session=a code=denied message=\"no: x\"\n");
    error_hint(&err, "ask root");
    check_text(CAPTURE(log_error(LOG_ERROR, "failed", &err)),
               " error failed code=denied message=\"no: x\" hint=\"ask root\"\n");
}

/* Whatever is too long is cut inside its value: the line stays one that can be read. */
static void check_long(const char *unit)
{
    char value[3 * PIPE_BUF];
    size_t size = strlen(unit);
    size_t used = 0;
    for (; used + size < sizeof value; used += size)
        memcpy(value + used, unit, size);
    value[used] = '\0';
    for (size_t cut = used; cut > 0; cut = cut > 2000 ? cut / 2 : cut - 1) {
        value[cut] = '\0';
        json_t *object = check_json(CAPTURE(log_event(
            LOG_INFO, "e", LOG_TEXT("a", value), LOG_TEXT("b", value), LOG_TEXT("c", value),
            LOG_TEXT("d", value), LOG_NUMBER("n", 7), LOG_TEXT("f", value))));
        assert_true(strlen(got) <= PIPE_BUF);
        const char *kept = json_string_value(json_object_get(object, "a"));
        assert_true(kept && strlen(kept) <= 1100);
        if (cut > 1024)
            assert_true(strstr(kept, "\xE2\x80\xA6") != NULL);
        json_decref(object);
    }
}

static void test_long(void **state)
{
    (void)state;
    check_long("x");
    check_long("\x01");
    check_long("\xC3\xBC");
    check_long("\xF0\x9F\x98\x80");
    check_long("\xFF");
    log_configure(LOG_FORMAT_TEXT, LOG_INFO);
    char value[2 * PIPE_BUF];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    const char *line = CAPTURE(log_event(LOG_INFO, "e", LOG_TEXT("a", value), LOG_NUMBER("n", 7)));
    assert_non_null(strstr(line, "xxx\xE2\x80\xA6\" n=7\n"));
    assert_true(strlen(line) < 1200);
}

/* An error path that logs must still return its errno. */
/* What systemd reads has a priority in front, and nothing else has. */
static void test_journal(void **state)
{
    char name[64];
    struct stat st;
    (void)state;
    capture_begin();
    assert_return_code(fstat(STDERR_FILENO, &st), errno);
    snprintf(name, sizeof name, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    setenv("JOURNAL_STREAM", name, 1);
    log_configure(LOG_FORMAT_TEXT, LOG_DEBUG);
    log_event(LOG_ERROR, "one");
    log_event(LOG_DEBUG, "two");
    log_configure(LOG_FORMAT_JSON, LOG_DEBUG);
    log_event(LOG_WARN, "three");
    snprintf(name, sizeof name, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + 1);
    setenv("JOURNAL_STREAM", name, 1);
    log_configure(LOG_FORMAT_TEXT, LOG_INFO);
    log_event(LOG_INFO, "four");
    unsetenv("JOURNAL_STREAM");
    log_configure(LOG_FORMAT_TEXT, LOG_INFO);
    const char *text = capture_end();
    assert_int_equal(strncmp(text, "<3>2", 4), 0);
    assert_non_null(strstr(text, " one\n<7>2"));
    assert_non_null(strstr(text, " two\n<4>{"));
    assert_non_null(strstr(text, "\"three\"}\n2"));
}

static void test_keeps_errno(void **state)
{
    (void)state;
    errno = ENOTBLK;
    int after = 0;
    int closed = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    errno = ENOTBLK;
    log_event(LOG_INFO, "e", LOG_TEXT("v", "two words"));
    after = errno;
    dup2(closed, STDERR_FILENO);
    close(closed);
    assert_int_equal(after, ENOTBLK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_text, use_text),
        cmocka_unit_test_setup(test_text_quotes, use_text),
        cmocka_unit_test_setup(test_json, use_json),
        cmocka_unit_test_setup(test_levels, use_text),
        cmocka_unit_test_setup(test_errors, use_text),
        cmocka_unit_test_setup(test_long, use_json),
        cmocka_unit_test_setup(test_journal, use_text),
        cmocka_unit_test_setup(test_keeps_errno, use_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
