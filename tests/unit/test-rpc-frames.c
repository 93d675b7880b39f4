/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on a stream of lines: what comes in is what was sent, whole or in chunks; noise is
   skipped; contradictions end it; and nothing goes out that LangBot's reader would not take. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/rpc-frames.h"
#include "api/rpc-internal.h"
#include "core/json.h"
#include "core/mem.h"

#define PEER_LINE_MAX (64u << 10)

static void feed(struct rpc_frames *frames, const char *text)
{
    rpc_frames_feed(frames, text, strlen(text));
}

static void expect(struct rpc_frames *frames, const char *wanted)
{
    struct error err = ERROR_INIT;
    const char *text;
    size_t size;
    if (rpc_frames_next(frames, &text, &size, &err) != 1)
        fail_msg("no message, but %s is wanted", wanted);
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(text, wanted, size);
}

static void expect_nothing(struct rpc_frames *frames)
{
    struct error err = ERROR_INIT;
    const char *text;
    size_t size;
    assert_int_equal(rpc_frames_next(frames, &text, &size, &err), 0);
}

/* A stream of its own, that must break with this said. */
static void check_broken(const char *input, const char *part)
{
    struct rpc_frames frames;
    struct error err = ERROR_INIT;
    const char *text;
    size_t size;
    rpc_frames_init(&frames);
    feed(&frames, input);
    int rc;
    while ((rc = rpc_frames_next(&frames, &text, &size, &err)) == 1)
        ;
    if (rc == 0 || !strstr(err.message, part))
        fail_msg("%s: wanted '%s', got '%s'", input, part, err.message);
    assert_int_equal(err.code, ERROR_PROTOCOL);
    rpc_frames_release(&frames);
}

static void test_lines(void **state)
{
    (void)state;
    struct rpc_frames frames;
    rpc_frames_init(&frames);
    feed(&frames, "{\"a\":1}\n  {\"b\":2}\t\r\n\n{\"c\"");
    expect(&frames, "{\"a\":1}");
    expect(&frames, "{\"b\":2}");
    expect_nothing(&frames);
    feed(&frames, ":3}");
    expect_nothing(&frames);
    feed(&frames, "\n");
    expect(&frames, "{\"c\":3}");
    expect_nothing(&frames);
    rpc_frames_release(&frames);
}

/* What other programs print, and chunks of nothing. What looks like an object is the reader's of
   messages to judge. */
static void test_noise(void **state)
{
    (void)state;
    struct rpc_frames frames;
    rpc_frames_init(&frames);
    feed(&frames, "Warning: something\n[1,2]\n\"text\"\n42\nnull\n{\n}\n"
                  "{\"type\":\"chunk_data\",\"data\":\"x\",\"offset\":0}\n"
                  "{\"type\":\"chunk_end\"}\n"
                  "{broken}\n{\"type\":\"chunk_other\"}\n{\"data\":\"chunk_start\"}\n");
    expect(&frames, "{broken}");
    expect(&frames, "{\"type\":\"chunk_other\"}");
    expect(&frames, "{\"data\":\"chunk_start\"}");
    expect_nothing(&frames);
    rpc_frames_release(&frames);
}

static void test_chunks(void **state)
{
    (void)state;
    struct rpc_frames frames;
    rpc_frames_init(&frames);
    /* With noise and another message in between, as LangBot's own reader skips them. */
    feed(&frames, "{\"type\": \"chunk_start\", \"total_size\": 10}\n"
                  "{\"type\": \"chunk_data\", \"data\": \"{\\\"\\u00e9\\\"\", \"offset\": 0}\n"
                  "noise\n{\"seq_id\":1}\n"
                  "{\"type\": \"chunk_data\", \"data\": \":\\\"\\\"\", \"offset\": 5}\n"
                  "{\"type\": \"chunk_data\", \"data\": \"\", \"offset\": 8}\n");
    expect_nothing(&frames);
    feed(&frames, "{\"type\": \"chunk_data\", \"data\": \" }\", \"offset\": 8}\n"
                  "{\"type\": \"chunk_end\"}\n{\"next\":1}\n");
    expect(&frames, "{\"\xC3\xA9\":\"\" }");
    expect(&frames, "{\"next\":1}");
    feed(&frames, "{\"type\":\"chunk_start\",\"total_size\":0}\n{\"type\":\"chunk_end\"}\n");
    expect(&frames, "");
    expect_nothing(&frames);
    rpc_frames_release(&frames);
}

static void test_contradictions(void **state)
{
    (void)state;
#define START(n)           "{\"type\":\"chunk_start\",\"total_size\":" n "}\n"
#define DATA(text, offset) "{\"type\":\"chunk_data\",\"data\":" text ",\"offset\":" offset "}\n"
#define END                "{\"type\":\"chunk_end\"}\n"
    check_broken(START("16777217"), "16 MiB");
    check_broken(START("-1"), "16 MiB");
    check_broken(START("\"5\""), "has no size");
    check_broken("{\"type\":\"chunk_start\"}\n", "has no size");
    check_broken(START("4") DATA("\"ab\"", "1"), "does not follow");
    check_broken(START("4") DATA("\"ab\"", "0") DATA("\"cd\"", "0"), "does not follow");
    check_broken(START("4") DATA("\"ab\"", "null"), "does not follow");
    check_broken(START("4") DATA("7", "0"), "without text");
    check_broken(START("4") DATA("\"abcde\"", "0"), "longer than it said");
    /* Bytes, not characters. */
    check_broken(START("4") DATA("\"\\u00e9\\u00e9x\"", "0"), "longer than it said");
    check_broken(START("4") DATA("\"abc\"", "0") END, "shorter than it said");
    check_broken(START("1") END, "shorter than it said");
}

/* Neither empty chunks without end, nor a line without one. */
static void test_bounds(void **state)
{
    (void)state;
    struct rpc_frames frames;
    struct error err = ERROR_INIT;
    const char *text;
    size_t size;
    rpc_frames_init(&frames);
    feed(&frames, START("4"));
    for (int i = 0; i < RPC_FRAGMENTS_MAX; i++) {
        feed(&frames, DATA("\"\"", "0"));
        expect_nothing(&frames);
    }
    feed(&frames, DATA("\"\"", "0"));
    assert_int_equal(rpc_frames_next(&frames, &text, &size, &err), -1);
    assert_non_null(strstr(err.message, "too many"));
    rpc_frames_release(&frames);

    size_t large = 1 << 20;
    char *block = xmalloc(large + 1);
    memset(block, 'x', large);
    block[large] = '\0';
    rpc_frames_init(&frames);
    for (int i = 0; i < 16; i++) {
        feed(&frames, block);
        expect_nothing(&frames);
    }
    feed(&frames, block);
    assert_int_equal(rpc_frames_next(&frames, &text, &size, &err), -1);
    assert_non_null(strstr(err.message, "a line is longer"));
    rpc_frames_release(&frames);
    free(block);
}

/* --- out and in again --- */

static void check_lines(const struct buf *out)
{
    for (size_t at = 0; at < out->size;) {
        const char *end = memchr(out->data + at, '\n', out->size - at);
        size_t length = (size_t)(end - out->data) - at;
        cleanup_json json_t *line = NULL;
        struct error err = ERROR_INIT;
        assert_non_null(end);
        assert_true(length < PEER_LINE_MAX);
        if (json_parse(out->data + at, length, &line, &err) < 0)
            fail_msg("%s", err.message);
        at += length + 1;
    }
}

/* `unit`, again and again, in an object; written, and read in steps of `step` bytes. */
static void round_trip(const char *unit, size_t size, size_t step)
{
    cleanup_buf struct buf message = BUF_INIT(RPC_MESSAGE_MAX);
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    struct rpc_frames frames;
    struct error err = ERROR_INIT;
    const char *text;
    size_t got;
    int rc = 0;
    buf_append(&message, "{\"", 2);
    while (message.size + strlen(unit) + 5 <= size)
        buf_append(&message, unit, strlen(unit));
    buf_append(&message, "\":1}", 4);
    rpc_frames_write(&out, message.data, message.size);
    check_lines(&out.buf);
    rpc_frames_init(&frames);
    for (size_t at = 0; at < out.buf.size; at += step) {
        assert_int_equal(rc, 0);
        rpc_frames_feed(&frames, out.buf.data + at,
                        out.buf.size - at < step ? out.buf.size - at : step);
        rc = rpc_frames_next(&frames, &text, &got, &err);
    }
    assert_int_equal(rc, 1);
    assert_int_equal(got, message.size);
    assert_memory_equal(text, message.data, got);
    rpc_frames_release(&frames);
}

static void test_round_trips(void **state)
{
    (void)state;
    static const char *const units[] = {
        "a",    "\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80", "x\xE4\xB8\xAD\\n\\\"",
        "\\\\", "\\u0001"};
    static const size_t sizes[] = {100, RPC_CHUNK_BYTES, RPC_CHUNK_BYTES + 1, 100000};
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        for (size_t j = 0; j < ARRAY_SIZE(sizes); j++)
            round_trip(units[i], sizes[j], 4096 + 7 * i);
    round_trip("\xE4\xB8\xAD", RPC_MESSAGE_MAX, 65536);
    round_trip("\\\\", RPC_MESSAGE_MAX, 65536);
}

/* Nothing in JSON is a bare control character, but nothing depends on that. */
static void test_escapes(void **state)
{
    (void)state;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    char text[40000];
    memset(text, 1, sizeof text);
    rpc_frames_write(&out, text, sizeof text);
    check_lines(&out.buf);
    size_t lines = 0;
    for (size_t i = 0; i < out.buf.size; i++)
        lines += out.buf.data[i] == '\n';
    assert_int_equal(lines, 2 + 4);
}

/* A message of a chunk's size and no more goes out as it is. */
static void test_small(void **state)
{
    (void)state;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    char text[RPC_CHUNK_BYTES + 1];
    memset(text, ' ', sizeof text);
    text[0] = '{';
    text[RPC_CHUNK_BYTES - 1] = '}';
    rpc_frames_write(&out, text, RPC_CHUNK_BYTES);
    assert_int_equal(out.buf.size, RPC_CHUNK_BYTES + 1);
    assert_int_equal(out.buf.data[RPC_CHUNK_BYTES], '\n');
    rpc_frames_write(&out, "{}", 2);
    assert_memory_equal(out.buf.data + RPC_CHUNK_BYTES + 1, "{}\n", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),   cmocka_unit_test(test_noise),
        cmocka_unit_test(test_chunks),  cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_bounds),  cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_escapes), cmocka_unit_test(test_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
