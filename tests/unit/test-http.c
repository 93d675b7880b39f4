/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP: the parser's tables, the server over real sockets, the client against the server. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "net/http-client.h"
#include "net/http-parse.h"
#include "net/http-server.h"

/* --- heads ---------------------------------------------------------------------------------------
 */

/* The result for the whole text at once and for one byte after the other, which must be the same.
 */
static ssize_t feed_head(struct http_head *head, enum http_head_kind kind, const char *text,
                         size_t size, size_t bytes_max, unsigned fields_max)
{
    struct http_head slow;
    ssize_t at_once, piecemeal = 0;
    http_head_init(head, kind, bytes_max, fields_max);
    at_once = http_head_feed(head, text, size);
    http_head_init(&slow, kind, bytes_max, fields_max);
    for (size_t i = 1; i <= size && piecemeal == 0; i++)
        piecemeal = http_head_feed(&slow, text, i);
    assert_int_equal(at_once, piecemeal);
    if (at_once < 0)
        assert_non_null(head->why);
    return at_once;
}

#define GET  "GET / HTTP/1.1\r\n"
#define HOST "Host: x\r\n"

static const struct {
    const char *text;
    int status; /* 0: it is complete and well; -1: it is well so far */
} requests[] = {
    {GET HOST "\r\n", 0},
    {"GET / HTTP/1.0\r\n\r\n", 0},
    {"\r\n" GET HOST "\r\n", 0},
    {"GET http://x/y?z HTTP/1.1\r\n" HOST "\r\n", 0},
    {"GET http://x HTTP/1.1\r\n" HOST "\r\n", 0},
    {"OPTIONS /a%20b?c=d&e HTTP/1.1\r\n" HOST "\r\n", 0},
    {GET HOST "Accept: a\r\nAccept: b\r\n\r\n", 0},
    {GET HOST "X:\r\n\r\n", 0},
    {GET HOST "X: \t a b \t\r\n\r\n", 0},
    {GET HOST "X: \xc3\xa4\r\n\r\n", 0},
    {GET HOST "Content-Length: 0\r\n\r\n", 0},
    {GET HOST "Content-Length: 18446744073709551614\r\n\r\n", 0},
    {GET HOST "Transfer-Encoding: Chunked\r\n\r\n", 0},
    {GET HOST "Expect: 100-Continue\r\n\r\n", 0},
    {GET HOST, -1},
    {"", -1},
    {"\r", -1},
    {"G", -1},

    {"\n" GET HOST "\r\n", 400},
    {"\r\n\r\n" GET HOST "\r\n", 400},
    {" GET / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.1\n" HOST "\r\n", 400},
    {GET "Host: x\n\r\n", 400},
    {GET HOST "\n", 400},
    {GET "Ho\rst: x\r\n\r\n", 400},
    {GET "Host: x\ry\r\n\r\n", 400},
    {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
    {"GET / x HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /\r\n" HOST "\r\n", 400},
    {"GET\r\n" HOST "\r\n", 400},
    {"GE(T / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET x HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET * HTTP/1.1\r\n" HOST "\r\n", 400},
    {"CONNECT x:80 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET https://x/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http:///y HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://evil/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://x@evil/ HTTP/1.0\r\n\r\n", 400},
    {"GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /\x01 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET / http/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.10\r\n" HOST "\r\n", 400},
    {"GET / HTTP/x.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.2\r\n" HOST "\r\n", 505},
    {"GET / HTTP/0.9\r\n" HOST "\r\n", 505},
    {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
    {"\x16\x03\x01\x02\x00\x01", 400},
    {"AVERYVERYVERYVERYVERYVERYLONGMETHOD / HTTP/1.1\r\n", 400},

    {GET "\r\n", 400},
    {GET "Host:\r\n\r\n", 400},
    {GET "Host: a b\r\n\r\n", 400},
    {GET "Host: a/b\r\n\r\n", 400},
    {GET "Host: a,b\r\n\r\n", 400},
    {GET HOST HOST "\r\n", 400},
    {GET HOST "host: y\r\n\r\n", 400},
    {GET HOST "X : y\r\n\r\n", 400},
    {GET HOST " X: y\r\n\r\n", 400},
    {GET HOST "X: y\r\n z\r\n\r\n", 400},
    {GET HOST "X: y\r\n\tz\r\n\r\n", 400},
    {GET HOST "X\r\n\r\n", 400},
    {GET HOST ": y\r\n\r\n", 400},
    {GET HOST "X\xc3: y\r\n\r\n", 400},
    {GET HOST "X: \x01\r\n\r\n", 400},
    {GET HOST "X: \x7f\r\n\r\n", 400},
    {GET HOST "Authorization: a\r\nAuthorization: b\r\n\r\n", 400},
    {GET HOST "Origin: a\r\nOrigin: a\r\n\r\n", 400},
    {GET HOST "If-Match: \"a\"\r\nIf-Match: *\r\n\r\n", 400},
    {GET HOST "If-None-Match: \"a\"\r\nif-none-match: *\r\n\r\n", 400},
    {GET HOST "Content-Type: a\r\nContent-Type: a\r\n\r\n", 400},
    {GET HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
    {GET HOST "Content-Length: 1, 1\r\n\r\n", 400},
    {GET HOST "Content-Length:\r\n\r\n", 400},
    {GET HOST "Content-Length: +1\r\n\r\n", 400},
    {GET HOST "Content-Length: -1\r\n\r\n", 400},
    {GET HOST "Content-Length: 0x1\r\n\r\n", 400},
    {GET HOST "Content-Length: 1 2\r\n\r\n", 400},
    {GET HOST "Content-Length: 18446744073709551615\r\n\r\n", 413},
    {GET HOST "Content-Length: 18446744073709551616\r\n\r\n", 413},
    {GET HOST "Content-Length: 99999999999999999999999999\r\n\r\n", 413},
    {GET HOST "Transfer-Encoding: gzip\r\n\r\n", 501},
    {GET HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
    {GET HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 501},
    {GET HOST "Transfer-Encoding: xchunked\r\n\r\n", 501},
    {GET HOST "Transfer-Encoding:\r\n\r\n", 501},
    {GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {GET HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400},
    {GET HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {GET HOST "Expect: something\r\n\r\n", 417},
};

static void test_requests(void **state)
{
    (void)state;
    struct http_head head;
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        size_t size = strlen(requests[i].text);
        ssize_t want = requests[i].status == 0    ? (ssize_t)size
                       : requests[i].status == -1 ? 0
                                                  : -requests[i].status;
        ssize_t got = feed_head(&head, HTTP_REQUEST, requests[i].text, size, 8192, 100);
        if (got != want)
            fail_msg("\"%s\": %zd instead of %zd", requests[i].text, got, want);
    }
}

static void test_request_nul(void **state)
{
    (void)state;
    struct http_head head;
    static const char text[] = GET HOST "Abc: def\r\n\r\n";
    /* Wherever it is. */
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        char copy[sizeof text];
        memcpy(copy, text, sizeof text);
        copy[i] = '\0';
        ssize_t r = feed_head(&head, HTTP_REQUEST, copy, sizeof text - 1, 8192, 100);
        /* Over the last line ends it leaves a head without an end. */
        if (i < sizeof text - 5)
            assert_int_equal(r, -400);
        else
            assert_true(r <= 0);
    }
}

static void test_request_parts(void **state)
{
    (void)state;
    struct http_head head;
    char text[] = "POST /a/b?c=d HTTP/1.1\r\nHost: h:1\r\nX-Y:  z \r\nEmpty:\r\n"
                  "Content-Length: 12\r\nConnection: a, Close\r\nConnection: UPGRADE\r\n\r\nbody";
    assert_int_equal(feed_head(&head, HTTP_REQUEST, text, strlen(text), 8192, 100),
                     strlen(text) - 4);
    assert_int_equal(head.length, 12);
    assert_int_equal(head.minor, 1);
    assert_int_equal(head.count, 6);
    assert_false(head.keep_alive);
    assert_true(head.upgrade);
    assert_null(http_head_find(&head, text, "nothing"));
    const struct http_field *field = http_head_find(&head, text, "x-y");
    const struct http_field *empty = http_head_find(&head, text, "EMPTY");
    assert_non_null(field);
    assert_non_null(empty);
    http_head_terminate(&head, text);
    assert_string_equal(text + head.method.at, "POST");
    assert_string_equal(text + head.path.at, "/a/b");
    assert_string_equal(text + head.query.at, "c=d");
    assert_string_equal(text + field->value.at, "z");
    assert_string_equal(text + empty->value.at, "");
}

static void test_request_absolute(void **state)
{
    (void)state;
    struct http_head head;
    char text[] = "GET http://h:1?q HTTP/1.1\r\nHost: H:1\r\n\r\n";
    assert_true(feed_head(&head, HTTP_REQUEST, text, strlen(text), 8192, 100) > 0);
    assert_int_equal(head.path.size, 0);
    http_head_terminate(&head, text);
    assert_string_equal(text + head.query.at, "q");
}

static void test_request_limits(void **state)
{
    (void)state;
    struct http_head head;
    const char *two = GET HOST "A: b\r\n\r\n";
    char path[200], field[200];
    assert_int_equal(feed_head(&head, HTTP_REQUEST, two, strlen(two), 8192, 2), strlen(two));
    assert_int_equal(feed_head(&head, HTTP_REQUEST, two, strlen(two), 8192, 1), -431);
    assert_int_equal(feed_head(&head, HTTP_REQUEST, two, strlen(two), strlen(two), 9), strlen(two));
    assert_int_equal(feed_head(&head, HTTP_REQUEST, two, strlen(two), strlen(two) - 1, 9), -431);
    snprintf(path, sizeof path, "GET /%0150d HTTP/1.1\r\n" HOST "\r\n", 0);
    assert_int_equal(feed_head(&head, HTTP_REQUEST, path, strlen(path), 100, 9), -414);
    snprintf(field, sizeof field, GET "A: %0150d\r\n" HOST "\r\n", 0);
    assert_int_equal(feed_head(&head, HTTP_REQUEST, field, strlen(field), 100, 9), -431);
    /* More fields than there can be room for. */
    cleanup_free char *many = xmalloc(8192);
    strcpy(many, GET HOST);
    for (int i = 0; i < HTTP_FIELDS_MAX; i++)
        strcat(many, "A: b\r\n");
    strcat(many, "\r\n");
    assert_int_equal(feed_head(&head, HTTP_REQUEST, many, strlen(many), 8192, 100000), -431);
}

static void test_responses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        uint64_t length;
        bool chunked;
        bool keep_alive;
    } good[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", 200, HTTP_LENGTH_UNKNOWN, false, true},
        {"HTTP/1.1 404\r\nContent-Length: 5\r\n\r\n", 404, 5, false, true},
        {"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n", 200, HTTP_LENGTH_UNKNOWN, true,
         true},
        {"HTTP/1.0 200 A b c\r\n\r\n", 200, HTTP_LENGTH_UNKNOWN, false, false},
        {"HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 503, 0, false, false},
    };
    static const char *const bad[] = {"HTTP/2 200 OK\r\n\r\n",       "HTTP/1.1 20 OK\r\n\r\n",
                                      "HTTP/1.1 2000 OK\r\n\r\n",    "HTTP/1.1 099 OK\r\n\r\n",
                                      "HTTP/1.1  200 OK\r\n\r\n",    "HTTP/1.1 200 OK\n\n",
                                      "ICY 200 OK\r\n\r\n",          "HTTP/1.1 200 O\x01K\r\n\r\n",
                                      "SSH-2.0-OpenSSH_9.2\r\n",     "\x15\x03\x01",
                                      "HTTP/1.1 200 OK\r\nA\r\n\r\n"};
    struct http_head head;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        size_t size = strlen(good[i].text);
        assert_int_equal(feed_head(&head, HTTP_RESPONSE, good[i].text, size, 8192, 100), size);
        assert_int_equal(head.status, good[i].status);
        assert_true(head.length == good[i].length);
        assert_int_equal(head.chunked, good[i].chunked);
        assert_int_equal(head.keep_alive, good[i].keep_alive);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (feed_head(&head, HTTP_RESPONSE, bad[i], strlen(bad[i]), 8192, 100) >= 0)
            fail_msg("\"%s\" was taken", bad[i]);
}

/* --- chunks --------------------------------------------------------------------------------------
 */

/* The decoded text in `out`; returns what was taken, or -1. */
static ssize_t decode(const char *text, size_t size, size_t step, char *out, bool *done)
{
    struct http_chunked chunked = {0};
    size_t at = 0;
    *out = '\0';
    while (at < size && !chunked.done) {
        const char *piece;
        size_t piece_size;
        size_t give = size - at < step ? size - at : step;
        ssize_t taken = http_chunked_feed(&chunked, text + at, give, &piece, &piece_size);
        if (taken < 0)
            return -1;
        assert_true((size_t)taken <= give && (taken > 0 || chunked.done));
        strncat(out, piece, piece_size);
        at += (size_t)taken;
    }
    *done = chunked.done;
    return (ssize_t)at;
}

static void test_chunked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *body; /* NULL: malformed */
        size_t behind;    /* bytes that are not its own */
        bool unfinished;
    } cases[] = {
        {"0\r\n\r\n", "", 0, false},
        {"5\r\nhello\r\n0\r\n\r\n", "hello", 0, false},
        {"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nGET", "hello!", 3, false},
        {"A;x=y;z\r\n0123456789\r\n00000\r\n\r\n", "0123456789", 0, false},
        {"1\r\na\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n", "a", 0, false},
        {"1\r\na\r\n0\r\n", "a", 0, true},
        {"5\r\nhel", "hel", 0, true},
        {"", "", 0, true},
        {"\r\n", NULL, 0, false},
        {";\r\n", NULL, 0, false},
        {"x\r\n", NULL, 0, false},
        {"-1\r\n", NULL, 0, false},
        {"0x1\r\na\r\n", NULL, 0, false},
        {" 1\r\na\r\n", NULL, 0, false},
        {"1 \r\na\r\n", NULL, 0, false},
        {"1\na\n0\n\n", NULL, 0, false},
        {"1\r\nab\r\n", NULL, 0, false},
        {"1\r\na\n0\r\n\r\n", NULL, 0, false},
        {"1\r\na\r0\r\n\r\n", NULL, 0, false},
        {"1;a\nb\r\n", NULL, 0, false},
        {"1;a\rb\r\n", NULL, 0, false},
        {"1;\x01\r\n", NULL, 0, false},
        {"0\r\n\n", NULL, 0, false},
        {"0\r\nX: y\n\r\n", NULL, 0, false},
        {"0\r\n X: y\r\n\r\n", NULL, 0, false},
        {"ffffffffffffffff\r\n", NULL, 0, false},
        {"10000000000000001\r\n", NULL, 0, false},
        {"0000000000000001\r\n", NULL, 0, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t size = strlen(cases[i].text);
        for (size_t step = 1; step <= size + 1; step++) {
            char out[64];
            bool done = false;
            ssize_t taken = decode(cases[i].text, size, step, out, &done);
            if (!cases[i].body) {
                if (taken >= 0)
                    fail_msg("\"%s\" was taken", cases[i].text);
                continue;
            }
            assert_int_equal(taken, size - cases[i].behind);
            assert_string_equal(out, cases[i].body);
            assert_int_equal(done, !cases[i].unfinished);
        }
    }
}

/* Extensions and trailers without an end are not read for ever. */
static void test_chunked_bounds(void **state)
{
    (void)state;
    struct http_chunked extension = {0}, trailer = {0}, spread = {0};
    const char *piece;
    size_t size;
    ssize_t r = http_chunked_feed(&extension, "1;", 2, &piece, &size);
    for (int i = 0; i < 10000 && r >= 0; i++)
        r = http_chunked_feed(&extension, "x", 1, &piece, &size);
    assert_int_equal(r, -1);
    r = http_chunked_feed(&trailer, "0\r\n", 3, &piece, &size);
    for (int i = 0; i < 10000 && r >= 0; i++)
        r = http_chunked_feed(&trailer, "A: b\r\n", 6, &piece, &size);
    assert_int_equal(r, -1);
    /* Also if they come a few with each chunk. */
    for (int i = 0; i < 10000 && r >= -1; i++) {
        static const char chunk[] = "1;abcdef\r\nx\r\n";
        size_t at = 0;
        r = 0;
        while (at < sizeof chunk - 1 && r >= 0) {
            r = http_chunked_feed(&spread, chunk + at, sizeof chunk - 1 - at, &piece, &size);
            at += r > 0 ? (size_t)r : 0;
        }
        if (r < 0)
            break;
    }
    assert_int_equal(r, -1);
}

/* --- words ---------------------------------------------------------------------------------------
 */

static void check_decode(const char *text, bool plus, const char *want)
{
    cleanup_free char *got = http_decode(text, strlen(text), plus);
    if (!want)
        assert_null(got);
    else
        assert_string_equal(got, want);
}

static void test_decode(void **state)
{
    (void)state;
    check_decode("", false, "");
    check_decode("a%20b%2Fc", false, "a b/c");
    check_decode("a+b", false, "a+b");
    check_decode("a+b", true, "a b");
    check_decode("%c3%A4", false, "\xc3\xa4");
    check_decode("%", false, NULL);
    check_decode("%2", false, NULL);
    check_decode("%2x", false, NULL);
    check_decode("a%00b", false, NULL);
    cleanup_free char *cut = http_decode("%4142", 3, false);
    assert_string_equal(cut, "A");
}

static void test_query(void **state)
{
    (void)state;
    cleanup_free char *a = http_query_value("a=1&b=2%203&c&d=", "a");
    cleanup_free char *b = http_query_value("a=1&b=2%203&c&d=", "b");
    cleanup_free char *c = http_query_value("a=1&b=2%203&c&d=", "c");
    cleanup_free char *d = http_query_value("a=1&b=2%203&c&d=", "d");
    assert_string_equal(a, "1");
    assert_string_equal(b, "2 3");
    assert_string_equal(c, "");
    assert_string_equal(d, "");
    assert_null(http_query_value("ab=1&=2", "a"));
    assert_null(http_query_value("", "a"));
    assert_null(http_query_value("a=%", "a"));
    cleanup_free char *encoded = http_client_encode("a b/\xc3\xa4~");
    assert_string_equal(encoded, "a%20b%2F%C3%A4~");
}

/* --- the server ----------------------------------------------------------------------------------
 */

struct fixture {
    uv_loop_t loop;
    uv_timer_t tick;
    struct http_server *server;
    char path[64];
    int fd;
    unsigned turns;

    struct http_request *pending;
    unsigned left;    /* on_close of a request whose answer was pending */
    unsigned handled; /* calls of the handler */
    size_t received;
    unsigned ends;
    size_t to_write;
    bool drained;
};

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void on_left(void *data)
{
    struct fixture *fx = data;
    fx->left++;
    fx->pending = NULL;
}

static void reply_text(struct http_request *req, const char *text)
{
    http_reply(req, 200, "text/plain", text, strlen(text));
}

static void on_echo(struct http_request *req, const char *body, size_t size, void *data)
{
    (void)data;
    assert_int_equal(body[size], '\0');
    http_reply(req, 200, "text/plain", body, size);
}

static void on_piece(struct http_request *req, const char *piece, size_t size, void *data)
{
    struct fixture *fx = data;
    (void)req;
    (void)piece;
    assert_true(size > 0);
    fx->received += size;
}

static void on_piece_pause(struct http_request *req, const char *piece, size_t size, void *data)
{
    on_piece(req, piece, size, data);
    http_pause(req);
}

static void on_count(struct http_request *req, void *data)
{
    struct fixture *fx = data;
    char text[32];
    fx->ends++;
    fx->pending = NULL;
    http_set_data(req, NULL, NULL);
    snprintf(text, sizeof text, "%zu", fx->received);
    reply_text(req, text);
}

static void write_more(void *data)
{
    static char piece[16384];
    struct fixture *fx = data;
    memset(piece, 'x', sizeof piece);
    while (fx->to_write) {
        fx->to_write -= sizeof piece;
        if (!http_write(fx->pending, piece, sizeof piece) && fx->to_write)
            return;
    }
    struct http_request *req = fx->pending;
    http_set_data(req, NULL, NULL);
    http_end(req);
}

static void handle(struct http_request *req, void *data)
{
    struct fixture *fx = data;
    const char *path = http_path(req);
    fx->handled++;
    if (strcmp(path, "/hello") == 0) {
        reply_text(req, "hello");
    } else if (strcmp(path, "/echo") == 0) {
        http_collect(req, 1024 * 1024, on_echo, fx);
    } else if (strcmp(path, "/small") == 0) {
        http_collect(req, 10, on_echo, fx);
    } else if (strcmp(path, "/later") == 0) {
        fx->pending = req;
        http_set_data(req, fx, on_left);
    } else if (strcmp(path, "/in") == 0) {
        http_set_data(req, fx, on_left);
        fx->pending = req;
        http_stream(req, on_piece, on_count, fx);
    } else if (strcmp(path, "/pausing") == 0) {
        http_set_data(req, fx, on_left);
        fx->pending = req;
        http_stream(req, on_piece_pause, on_count, fx);
    } else if (strcmp(path, "/out") == 0) {
        http_begin(req, 200, "text/plain", HTTP_LENGTH_UNKNOWN);
        http_write(req, "one", 3);
        http_write(req, "", 0);
        http_write(req, "two", 3);
        http_end(req);
    } else if (strcmp(path, "/big") == 0) {
        http_set_data(req, fx, on_left);
        fx->pending = req;
        http_on_drain(req, write_more, fx);
        http_begin(req, 200, "text/plain", fx->to_write);
        write_more(fx);
    } else if (strcmp(path, "/short") == 0) {
        http_begin(req, 200, "text/plain", 10);
        http_write(req, "one", 3);
        http_end(req);
    } else if (strcmp(path, "/long") == 0) {
        http_begin(req, 200, "text/plain", 2);
        http_write(req, "one", 3);
        http_end(req);
    } else if (strcmp(path, "/abort") == 0) {
        http_begin(req, 200, "text/plain", HTTP_LENGTH_UNKNOWN);
        http_write(req, "one", 3);
        http_abort(req);
    } else if (strcmp(path, "/none") == 0) {
        http_add_header(req, "X-Test", "y");
        http_reply(req, 204, NULL, NULL, 0);
    } else if (strcmp(path, "/see") == 0) {
        char text[256];
        const char *header = http_header(req, "x-test");
        snprintf(text, sizeof text, "%s|%s|%s|%d", http_method(req), http_query(req),
                 header ? header : "(none)", (int)http_origin(req));
        reply_text(req, text);
    } else {
        http_reply(req, 404, "text/plain", "", 0);
    }
}

static const struct http_limits default_limits = HTTP_LIMITS_DEFAULT;

static struct fixture *fixture_new(const struct http_limits *limits, bool tcp)
{
    struct fixture *fx = xcalloc(1, sizeof *fx);
    struct error err = ERROR_INIT;
    enum http_origin origin;
    uv_loop_init(&fx->loop);
    /* So that a loop that waits for nothing still comes round to look at the clients. */
    uv_timer_init(&fx->loop, &fx->tick);
    uv_timer_start(&fx->tick, on_tick, 5, 5);
    fx->server = http_server_new(&fx->loop, limits, handle, fx);
    snprintf(fx->path, sizeof fx->path, "/tmp/test-http.%d", (int)getpid());
    if (tcp)
        assert_int_equal(http_bind_tcp("127.0.0.1:0", &fx->fd, &origin, &err), 0);
    else
        assert_int_equal(http_bind_unix(fx->path, 0600, &fx->fd, &err), 0);
    assert_int_equal(http_server_listen(fx->server, fx->fd, &err), 0);
    return fx;
}

static void fixture_free(struct fixture *fx)
{
    http_server_free(fx->server);
    uv_close((uv_handle_t *)&fx->tick, NULL);
    uv_run(&fx->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fx->loop), 0);
    unlink(fx->path);
    free(fx);
}

struct peer {
    struct fixture *fx;
    int fd;
    char *data;
    size_t size;
    bool eof;
};

#define PEER_MAX (8 * 1024 * 1024)

static struct peer *peer_new(struct fixture *fx)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    struct peer *peer = xcalloc(1, sizeof *peer);
    peer->fx = fx;
    assert_int_equal(getsockname(fx->fd, (struct sockaddr *)&address, &size), 0);
    peer->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(peer->fd, (struct sockaddr *)&address, size), 0);
    peer->data = xmalloc(PEER_MAX);
    peer->data[0] = '\0';
    return peer;
}

static void peer_free(struct peer *peer)
{
    close(peer->fd);
    free(peer->data);
    free(peer);
}

static void turn(struct fixture *fx)
{
    fx->turns++;
    uv_run(&fx->loop, UV_RUN_ONCE);
}

static void peer_read(struct peer *peer)
{
    ssize_t n = recv(peer->fd, peer->data + peer->size, PEER_MAX - 1 - peer->size, MSG_DONTWAIT);
    if (n > 0)
        peer->size += (size_t)n;
    else if (n == 0 || errno != EAGAIN)
        peer->eof = true;
    peer->data[peer->size] = '\0';
}

static void peer_send(struct peer *peer, const char *data, size_t size)
{
    while (size) {
        ssize_t n = send(peer->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
        turn(peer->fx);
    }
}

#define peer_text(peer, text) peer_send((peer), (text), strlen(text))

/* Long enough for any machine; never waited for by a test that passes. */
#define until(fx, condition)                          \
    do {                                              \
        uint64_t start_ = uv_hrtime();                \
        while (!(condition)) {                        \
            if (uv_hrtime() - start_ > 20000000000ul) \
                fail_msg("never: %s", #condition);    \
            turn(fx);                                 \
        }                                             \
    } while (0)

static bool peer_has(struct peer *peer, const char *text)
{
    peer_read(peer);
    return strstr(peer->data, text);
}

static bool peer_ended(struct peer *peer)
{
    peer_read(peer);
    return peer->eof;
}

static void peer_clear(struct peer *peer)
{
    peer->size = 0;
    peer->data[0] = '\0';
}

/* Sends, waits for `want` (or, NULL, the end). */
static void exchange(struct peer *peer, const char *text, const char *want)
{
    peer_clear(peer);
    peer_text(peer, text);
    if (want)
        until(peer->fx, peer_has(peer, want));
    else
        until(peer->fx, peer_ended(peer));
}

static void begins_with(const struct peer *peer, const char *text)
{
    if (strncmp(peer->data, text, strlen(text)) != 0)
        fail_msg("\"%.200s\" does not begin with \"%s\"", peer->data, text);
}

static const char *body_of(const struct peer *peer)
{
    const char *end = strstr(peer->data, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static void test_keep_alive(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct fixture *fx = fixture_new(&default_limits, tcp);
        struct peer *peer = peer_new(fx);
        for (int i = 0; i < 3; i++) {
            exchange(peer, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", "hello");
            begins_with(peer, "HTTP/1.1 200 OK\r\nDate: ");
            assert_non_null(strstr(peer->data, "\r\nContent-Type: text/plain\r\n"));
            assert_non_null(strstr(peer->data, "\r\nContent-Length: 5\r\n"));
            assert_null(strstr(peer->data, "Connection"));
            assert_string_equal(body_of(peer), "hello");
        }
        exchange(peer, "GET /see?a=b HTTP/1.1\r\nHost: x\r\nX-Test:  z\r\n\r\n", "|");
        assert_string_equal(body_of(peer), tcp ? "GET|a=b|z|1" : "GET|a=b|z|0");
        struct http_stats stats;
        http_server_stats(fx->server, &stats);
        assert_int_equal(stats.requests, 4);
        assert_int_equal(stats.connections, 1);
        peer_free(peer);
        fixture_free(fx);
    }
}

static void test_close(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    static const char *const closing[] = {
        "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /hello HTTP/1.0\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(closing); i++) {
        struct peer *peer = peer_new(fx);
        exchange(peer, closing[i], NULL);
        assert_non_null(strstr(peer->data, "\r\nConnection: close\r\n"));
        assert_string_equal(body_of(peer), "hello");
        peer_free(peer);
    }
    struct peer *peer = peer_new(fx);
    for (int i = 0; i < 2; i++) {
        exchange(peer, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "hello");
        assert_non_null(strstr(peer->data, "\r\nConnection: keep-alive\r\n"));
    }
    peer_free(peer);
    fixture_free(fx);
}

static void test_head(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
    exchange(peer,
             "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\nHEAD /out HTTP/1.1\r\nHost: x\r\n\r\n"
             "GET /none HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.0\r\n\r\n",
             NULL);
    assert_non_null(strstr(peer->data, "Content-Length: 5\r\n\r\nHTTP/1.1 200 OK"));
    assert_non_null(strstr(peer->data, "Transfer-Encoding: chunked\r\n\r\nHTTP/1.1 204 "));
    assert_non_null(strstr(peer->data, "X-Test: y\r\n\r\nHTTP/1.1 200 OK"));
    peer_free(peer);
    fixture_free(fx);
}

static void test_pipelining(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
    cleanup_free char *text = xmalloc(200 * 100);
    char *at = text;
    for (int i = 0; i < 200; i++)
        at += sprintf(at, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n<%03d>", i);
    peer_text(peer, text);
    until(fx, peer_has(peer, "<199>"));
    const char *from = peer->data;
    for (int i = 0; i < 200; i++) {
        char want[8];
        snprintf(want, sizeof want, "<%03d>", i);
        from = strstr(from, want);
        assert_non_null(from);
    }
    /* In order also if the first is answered last. */
    exchange(peer,
             "GET /later HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
             "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
             "1\r\n!\r\n0\r\n\r\n",
             "");
    until(fx, fx->pending);
    unsigned handled = fx->handled;
    for (int i = 0; i < 5; i++)
        turn(fx);
    assert_int_equal(fx->handled, handled);
    reply_text(fx->pending, "first");
    until(fx, peer_has(peer, "!"));
    assert_true(strstr(peer->data, "first") < strstr(peer->data, "hello"));
    assert_true(strstr(peer->data, "hello") < strstr(peer->data, "!"));
    peer_free(peer);
    fixture_free(fx);
}

static void test_one_byte_at_a_time(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
    const char *text = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "3;e\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n"
                       "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nfgh"
                       "GET /out HTTP/1.0\r\n\r\n";
    for (size_t i = 0; text[i]; i++)
        peer_send(peer, text + i, 1);
    until(fx, peer_ended(peer));
    assert_non_null(strstr(peer->data, "\r\n\r\nabcdeHTTP/1.1 200"));
    assert_non_null(strstr(peer->data, "\r\n\r\nfghHTTP/1.1 200"));
    assert_non_null(strstr(peer->data, "\r\n\r\nonetwo"));
    peer_free(peer);
    fixture_free(fx);
}

static void test_bodies(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
    static const size_t sizes[] = {0, 1, 8000, 8192, 100000, 1024 * 1024};
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        char head[128];
        cleanup_free char *body = xmalloc(sizes[i] + 1);
        memset(body, 'a' + (int)i, sizes[i]);
        body[sizes[i]] = '\0';
        snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                 sizes[i]);
        peer_clear(peer);
        peer_text(peer, head);
        peer_text(peer, body);
        until(fx, peer_has(peer, "\r\n\r\n") && strlen(body_of(peer)) == sizes[i]);
        assert_string_equal(body_of(peer), body);
        /* And chunked. */
        peer_clear(peer);
        peer_text(peer, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (size_t at = 0; at < sizes[i];) {
            size_t size = sizes[i] - at < 30000 ? sizes[i] - at : 30000;
            snprintf(head, sizeof head, "%zX\r\n", size);
            peer_text(peer, head);
            peer_send(peer, body + at, size);
            peer_text(peer, "\r\n");
            at += size;
        }
        peer_text(peer, "0\r\n\r\n");
        until(fx, peer_has(peer, "\r\n\r\n") && strlen(body_of(peer)) == sizes[i]);
        assert_string_equal(body_of(peer), body);
    }
    peer_free(peer);
    fixture_free(fx);
}

static void test_stream_in(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
    cleanup_free char *body = xmalloc(300001);
    memset(body, 'x', 300000);
    body[300000] = '\0';
    peer_text(peer, "POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
    peer_text(peer, body);
    until(fx, peer_has(peer, "300000"));
    assert_int_equal(fx->ends, 1);
    /* An empty one has an end as well. */
    fx->received = 0;
    exchange(peer, "POST /in HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\n0");
    assert_int_equal(fx->ends, 2);
    assert_int_equal(fx->left, 0);
    peer_free(peer);
    fixture_free(fx);
}

/* A paused body comes no further, piece by exact piece, chunked or not. */
static void test_pause(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
    peer_text(peer, "POST /pausing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    until(fx, fx->received == 2);
    for (int i = 0; i < 5; i++)
        turn(fx);
    assert_int_equal(fx->received, 2);
    http_resume(fx->pending);
    until(fx, fx->received == 5);
    for (int i = 0; i < 5; i++)
        turn(fx);
    assert_int_equal(fx->ends, 0);
    http_resume(fx->pending);
    until(fx, peer_has(peer, "hello"));
    assert_int_equal(fx->ends, 1);

    fx->received = 0;
    peer_text(peer, "POST /pausing HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab");
    until(fx, fx->received == 2);
    peer_text(peer, "cd");
    for (int i = 0; i < 5; i++)
        turn(fx);
    assert_int_equal(fx->received, 2);
    http_resume(fx->pending);
    until(fx, fx->received == 4);
    http_resume(fx->pending);
    until(fx, fx->ends == 2);
    peer_free(peer);
    fixture_free(fx);
}

/* The sender of a paused body is held up by what fits into sockets, not by memory. */
static void test_pause_backpressure(void **state)
{
    (void)state;
    struct http_limits limits = default_limits;
    limits.body_stall_ms = 50;
    struct fixture *fx = fixture_new(&limits, false);
    struct peer *peer = peer_new(fx);
    static char block[65536];
    size_t sent = 0;
    peer_text(peer, "POST /pausing HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
    /* Nor does its deadline run: it is not its fault. */
    for (uint64_t start = uv_hrtime(); uv_hrtime() - start < 200000000ul;) {
        ssize_t n = send(peer->fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        turn(fx);
    }
    assert_true(sent < 4 * 1024 * 1024);
    assert_int_equal(fx->left, 0);
    assert_non_null(fx->pending);
    /* And one who leaves while paused is noticed. */
    peer_free(peer);
    until(fx, fx->left == 1);
    assert_int_equal(fx->ends, 0);
    fixture_free(fx);
}

static void test_stream_out(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
    exchange(peer, "GET /out HTTP/1.1\r\nHost: x\r\n\r\n", "0\r\n\r\n");
    assert_non_null(strstr(peer->data, "\r\nTransfer-Encoding: chunked\r\n"));
    assert_string_equal(body_of(peer), "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
    exchange(peer, "GET /long HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n",
             "hello");
    assert_non_null(strstr(peer->data, "\r\n\r\nonHTTP/1.1"));
    /* Too short or broken off is never taken for complete. */
    exchange(peer, "GET /short HTTP/1.1\r\nHost: x\r\n\r\n", NULL);
    assert_string_not_equal(peer->data, "");
    assert_null(strstr(body_of(peer), "one0"));
    peer_free(peer);
    peer = peer_new(fx);
    exchange(peer, "GET /abort HTTP/1.1\r\nHost: x\r\n\r\n", NULL);
    assert_null(strstr(peer->data, "0\r\n\r\n"));
    peer_free(peer);
    fixture_free(fx);
}

static void test_write_backpressure(void **state)
{
    (void)state;
    struct http_limits limits = default_limits;
    limits.unsent_bytes = 65536;
    struct fixture *fx = fixture_new(&limits, false);
    struct peer *peer = peer_new(fx);
    size_t total = 4 * 1024 * 1024;
    fx->to_write = total;
    peer_text(peer, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 10; i++)
        turn(fx);
    /* It waits, since nobody reads. */
    assert_true(fx->to_write > 0);
    until(fx,
          peer_has(peer, "\r\n\r\n") && peer->size == (size_t)(body_of(peer) - peer->data) + total);
    assert_int_equal(fx->to_write, 0);
    peer_free(peer);
    fixture_free(fx);
}

/* Nobody can have answers made without reading them. */
static void test_unread_answers(void **state)
{
    (void)state;
    struct http_limits limits = default_limits;
    limits.unsent_bytes = 10000;
    limits.write_stall_ms = 200;
    struct fixture *fx = fixture_new(&limits, false);
    struct peer *peer = peer_new(fx);
    static const char text[] = "GET /see HTTP/1.1\r\nHost: x\r\n\r\n";
    struct http_stats stats;
    for (int i = 0; i < 100000; i++) {
        ssize_t n = send(peer->fd, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n != (ssize_t)sizeof text - 1)
            break;
        if (i % 100 == 0)
            turn(fx);
    }
    unsigned handled = fx->handled;
    for (int i = 0; i < 5; i++)
        turn(fx);
    assert_true(handled < 100000);
    /* And is cut off in the end. */
    until(fx, (http_server_stats(fx->server, &stats), stats.connections == 0));
    assert_int_equal(stats.timeouts, 1);
    peer_free(peer);
    fixture_free(fx);
}

static void test_unwanted_body(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
    /* Small ones are dropped. */
    exchange(peer,
             "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345"
             "POST /hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
             "3\r\nabc\r\n0\r\n\r\nGET /see HTTP/1.1\r\nHost: x\r\n\r\n",
             "GET|");
    peer_clear(peer);
    peer_text(peer, "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12");
    until(fx, peer_has(peer, "hello"));
    exchange(peer, "345GET /see HTTP/1.1\r\nHost: x\r\n\r\n", "GET|");
    begins_with(peer, "HTTP/1.1 200");
    /* A large one costs the connection; the answer arrives all the same. */
    static char block[65536];
    peer_clear(peer);
    peer_text(peer, "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n");
    for (int i = 0; i < 4000000 / 65536; i++)
        peer_send(peer, block, sizeof block);
    until(fx, peer_ended(peer));
    begins_with(peer, "HTTP/1.1 200");
    assert_non_null(strstr(peer->data, "\r\nConnection: close\r\n"));
    assert_string_equal(body_of(peer), "hello");
    peer_free(peer);
    fixture_free(fx);
}

static void test_expect(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, true);
    struct peer *peer = peer_new(fx);
#define EXPECT "Expect: 100-continue\r\n"
    exchange(peer, "POST /echo HTTP/1.1\r\nHost: x\r\n" EXPECT "Content-Length: 2\r\n\r\n",
             "\r\n\r\n");
    assert_string_equal(peer->data, "HTTP/1.1 100 Continue\r\n\r\n");
    exchange(peer, "ab", "\r\n\r\nab");
    /* Not if it would be refused, nor if there is no body. */
    exchange(peer, "POST /hello HTTP/1.1\r\nHost: x\r\n" EXPECT "\r\n", "hello");
    begins_with(peer, "HTTP/1.1 200");
    exchange(peer, "POST /small HTTP/1.1\r\nHost: x\r\n" EXPECT "Content-Length: 11\r\n\r\n", "}}");
    begins_with(peer, "HTTP/1.1 413");
    peer_free(peer);
    peer = peer_new(fx);
    exchange(peer, "POST /hello HTTP/1.1\r\nHost: x\r\n" EXPECT "Content-Length: 2\r\n\r\n",
             "hello");
    begins_with(peer, "HTTP/1.1 200");
    assert_non_null(strstr(peer->data, "\r\nConnection: close\r\n"));
    peer_free(peer);
    fixture_free(fx);
}

static void test_refusals(void **state)
{
    (void)state;
    struct http_limits limits = default_limits;
    limits.head_bytes = 400;
    limits.headers = 3;
    struct fixture *fx = fixture_new(&limits, true);
    char path[500], field[500];
    snprintf(path, sizeof path, "GET /%0450d HTTP/1.1\r\n", 0);
    snprintf(field, sizeof field, "GET / HTTP/1.1\r\nX: %0450d", 0);
    const struct {
        const char *text;
        int status;
        const char *code;
    } cases[] = {
        {"hello\r\n", 400, "BoxValidationError"},
        {"GET / HTTP/1.1\r\n\r\n", 400, "BoxValidationError"},
        {"\x16\x03\x01", 400, "BoxValidationError"},
        {path, 414, "BoxValidationError"},
        {field, 431, "BoxValidationError"},
        {"GET / HTTP/1.1\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n", 431, "BoxValidationError"},
        {"GET / HTTP/2.0\r\n", 505, "BoxError"},
        {"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n", 501, "BoxError"},
        {"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", 413,
         "BoxValidationError"},
        {"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890",
         413, "BoxValidationError"},
        {"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx", 400,
         "BoxValidationError"},
        {"POST /in HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab", 400,
         "BoxValidationError"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct peer *peer = peer_new(fx);
        char want[64];
        exchange(peer, cases[i].text, NULL);
        snprintf(want, sizeof want, "HTTP/1.1 %d ", cases[i].status);
        begins_with(peer, want);
        snprintf(want, sizeof want, "{\"error\":{\"code\":\"%s\",\"message\":\"", cases[i].code);
        assert_int_equal(strncmp(body_of(peer), want, strlen(want)), 0);
        assert_non_null(strstr(peer->data, "\r\nConnection: close\r\n"));
        peer_free(peer);
    }
    assert_int_equal(fx->left, 1);
    fixture_free(fx);
}

static void test_deadlines(void **state)
{
    (void)state;
    struct http_limits limits = default_limits;
    limits.head_ms = limits.idle_ms = limits.body_stall_ms = 60;
    struct fixture *fx = fixture_new(&limits, true);
    static const struct {
        const char *text;
        const char *answer;
    } cases[] = {
        {"", "HTTP/1.1 408 "},
        {"GET / HT", "HTTP/1.1 408 "},
        {"GET /hello HTTP/1.1\r\nHost: x\r\n", "HTTP/1.1 408 "},
        {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab", "HTTP/1.1 408 "},
        {"POST /in HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 408 "},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct peer *peer = peer_new(fx);
        exchange(peer, cases[i].text, NULL);
        begins_with(peer, cases[i].answer);
        peer_free(peer);
    }
    struct http_stats stats;
    http_server_stats(fx->server, &stats);
    assert_int_equal(stats.timeouts, 5);
    /* An idle one is just closed, behind its answer. */
    struct peer *peer = peer_new(fx);
    exchange(peer, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", NULL);
    assert_string_equal(body_of(peer), "hello");
    peer_free(peer);
    /* A body that was not taken, and does not come. */
    peer = peer_new(fx);
    exchange(peer, "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", NULL);
    assert_string_equal(body_of(peer), "hello");
    peer_free(peer);
    /* A handler may take as long as it likes. */
    peer = peer_new(fx);
    peer_text(peer, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    for (uint64_t start = uv_hrtime(); uv_hrtime() - start < 200000000ul;)
        turn(fx);
    assert_non_null(fx->pending);
    reply_text(fx->pending, "done");
    until(fx, peer_has(peer, "done"));
    peer_free(peer);
    fixture_free(fx);
}

/* A byte now and then does not push the deadline of a head, and others are served meanwhile. */
static void test_slow_head(void **state)
{
    (void)state;
    struct http_limits limits = default_limits;
    limits.head_ms = 200;
    limits.head_bytes = 64 * 1024 * 1024;
    struct fixture *fx = fixture_new(&limits, true);
    struct peer *slow = peer_new(fx), *quick = peer_new(fx);
    peer_text(slow, "GET /hello HTTP/1.1\r\nHost: x\r\nX: ");
    exchange(quick, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", "hello");
    until(fx, (peer_text(slow, "y"), peer_ended(slow)));
    begins_with(slow, "HTTP/1.1 408 ");
    exchange(quick, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", "hello");
    peer_free(slow);
    peer_free(quick);
    fixture_free(fx);
}

static void test_client_leaves(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct fixture *fx = fixture_new(&default_limits, tcp);
        struct peer *peer = peer_new(fx);
        peer_text(peer, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        until(fx, fx->pending);
        peer_free(peer);
        until(fx, fx->left == 1);
        /* With more sent than anyone reads: over TCP, its end comes behind all that. */
        static char block[65536];
        peer = peer_new(fx);
        peer_text(peer, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        until(fx, fx->pending);
        while (!tcp && send(peer->fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            turn(fx);
        assert_int_equal(fx->left, 1);
        peer_free(peer);
        until(fx, fx->left == 2);
        /* In the middle of a body. */
        peer = peer_new(fx);
        peer_text(peer, "POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
        until(fx, fx->received);
        peer_free(peer);
        until(fx, fx->left == 3);
        assert_int_equal(fx->ends, 0);
        /* In the middle of an answer. */
        peer = peer_new(fx);
        fx->to_write = 1024 * 1024 * 1024;
        peer_text(peer, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
        until(fx, fx->pending);
        peer_free(peer);
        until(fx, fx->left == 4);
        fixture_free(fx);
    }
}

/* A write that meets a dead connection does not pull the request from under its writer. */
static void test_write_after_leaving(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, false);
    struct peer *peer = peer_new(fx);
    peer_text(peer, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    until(fx, fx->pending);
    http_begin(fx->pending, 200, "text/plain", HTTP_LENGTH_UNKNOWN);
    peer_free(peer);
    bool more = true;
    for (int i = 0; i < 10; i++)
        more = http_write(fx->pending, "abc", 3);
    assert_false(more);
    assert_int_equal(fx->left, 0);
    until(fx, fx->left == 1);
    fixture_free(fx);
}

/* One who says that it will send no more, and reads on, gets an answer that was complete. */
static void test_half_close(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, false);
    struct peer *peer = peer_new(fx);
    fx->to_write = 1024 * 1024;
    static const char text[] = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_int_equal(send(peer->fd, text, sizeof text - 1, 0), sizeof text - 1);
    shutdown(peer->fd, SHUT_WR);
    until(fx, peer_ended(peer));
    assert_string_equal(body_of(peer), "hello");
    peer_free(peer);
    fixture_free(fx);
}

static void test_too_many_connections(void **state)
{
    (void)state;
    struct http_limits limits = default_limits;
    limits.connections = 2;
    struct fixture *fx = fixture_new(&limits, true);
    struct peer *peers[3];
    for (int i = 0; i < 3; i++) {
        peers[i] = peer_new(fx);
        exchange(peers[i], "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", i < 2 ? "hello" : NULL);
    }
    begins_with(peers[2], "HTTP/1.1 503 ");
    assert_non_null(strstr(peers[2]->data, "\"BoxError\""));
    struct http_stats stats;
    http_server_stats(fx->server, &stats);
    assert_int_equal(stats.refused, 1);
    assert_int_equal(stats.connections, 2);
    peer_free(peers[2]);
    /* There is room again when one has gone. */
    peer_free(peers[0]);
    until(fx, (http_server_stats(fx->server, &stats), stats.connections == 1));
    peers[0] = peer_new(fx);
    exchange(peers[0], "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", "hello");
    peer_free(peers[0]);
    peer_free(peers[1]);
    fixture_free(fx);
}

/* Out of descriptors, it neither spins nor forgets who waits. */
static void test_no_descriptors(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, false);
    struct rlimit old, low;
    getrlimit(RLIMIT_NOFILE, &old);
    struct peer *peer = peer_new(fx);
    int next = dup(0);
    close(next);
    low = (struct rlimit){(rlim_t)next, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    peer_text(peer, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    unsigned before = fx->turns;
    for (uint64_t start = uv_hrtime(); uv_hrtime() - start < 300000000ul;)
        turn(fx);
    assert_true(fx->turns - before < 1000);
    assert_int_equal(fx->handled, 0);
    setrlimit(RLIMIT_NOFILE, &old);
    until(fx, peer_has(peer, "hello"));
    peer_free(peer);
    fixture_free(fx);
}

static void on_drained(void *data)
{
    ((struct fixture *)data)->drained = true;
}

static void test_drain(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, false);
    struct peer *idle = peer_new(fx), *busy = peer_new(fx), *half = peer_new(fx);
    exchange(idle, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", "hello");
    peer_text(half, "GET /hello HTT");
    peer_text(busy, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    until(fx, fx->pending);
    http_server_drain(fx->server, on_drained, fx);
    until(fx, peer_ended(idle));
    exchange(half, "P/1.1\r\nHost: x\r\n\r\n", NULL);
    assert_string_equal(body_of(half), "hello");
    assert_false(fx->drained);
    reply_text(fx->pending, "last");
    until(fx, peer_ended(busy));
    assert_non_null(strstr(busy->data, "\r\nConnection: close\r\n"));
    assert_string_equal(body_of(busy), "last");
    until(fx, fx->drained);
    peer_free(idle);
    peer_free(busy);
    peer_free(half);
    fixture_free(fx);
    /* Nothing to wait for: it comes all the same. */
    fx = fixture_new(&default_limits, false);
    http_server_drain(fx->server, on_drained, fx);
    assert_false(fx->drained);
    until(fx, fx->drained);
    fixture_free(fx);
}

static void test_free_with_requests(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(&default_limits, false);
    struct peer *peer = peer_new(fx);
    peer_text(peer, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    until(fx, fx->pending);
    unsigned *left = &fx->left;
    http_server_free(fx->server);
    assert_int_equal(*left, 1);
    uv_close((uv_handle_t *)&fx->tick, NULL);
    uv_run(&fx->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fx->loop), 0);
    unlink(fx->path);
    peer_free(peer);
    free(fx);
}

/* --- addresses -----------------------------------------------------------------------------------
 */

static void test_bind(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    enum http_origin origin;
    char text[128], path[64], again[128];
    int fd, second;
    assert_int_equal(http_bind_tcp("localhost:0", &fd, &origin, &err), 0);
    assert_int_equal(origin, HTTP_LOOPBACK);
    http_address_text(fd, text, sizeof text);
    assert_int_equal(strncmp(text, "127.0.0.1:", 10), 0);
    assert_int_equal(http_bind_tcp(text, &second, &origin, &err), -1);
    assert_int_equal(err.errnum, EADDRINUSE);
    close(fd);
    assert_int_equal(http_bind_tcp("0.0.0.0:0", &fd, &origin, &err), 0);
    assert_int_equal(origin, HTTP_NETWORK);
    close(fd);
    static const char *const bad[] = {"",    "127.0.0.1",       "127.0.0.1:", "127.0.0.1:x",
                                      ":80", "127.0.0.1:65536", "::1:80",     "[]:80"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(http_bind_tcp(bad[i], &fd, &origin, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID);
    }

    struct stat st;
    snprintf(path, sizeof path, "/tmp/test-bind.%d", (int)getpid());
    assert_int_equal(http_bind_unix(path, 0660, &fd, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    http_address_text(fd, text, sizeof text);
    snprintf(again, sizeof again, "unix:%s", path);
    assert_string_equal(text, again);
    assert_int_equal(http_bind_unix(path, 0660, &second, &err), -1);
    assert_int_equal(err.code, ERROR_UNAVAILABLE);
    close(fd);
    /* Nobody serves it any more. */
    assert_int_equal(http_bind_unix(path, 0600, &fd, &err), 0);
    close(fd);
    unlink(path);
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(file);
    assert_int_equal(http_bind_unix(path, 0600, &fd, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_int_equal(stat(path, &st), 0);
    unlink(path);
    char long_path[200];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(http_bind_unix(long_path, 0600, &fd, &err), -1);

    /* What does not listen is not taken. */
    struct fixture *fx = fixture_new(&default_limits, false);
    int plain = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(http_server_listen(fx->server, plain, &err), -1);
    close(plain);
    fixture_free(fx);
}

/* --- the client ----------------------------------------------------------------------------------
 */

/* A server in a process of its own, since the client blocks. */
static pid_t serve(struct fixture *fx)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uv_loop_fork(&fx->loop);
    fx->to_write = 4 * 1024 * 1024;
    uv_run(&fx->loop, UV_RUN_DEFAULT);
    _exit(0);
}

static void serve_end(struct fixture *fx, pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    fixture_free(fx);
}

static char *call_text(struct http_client *client, const struct http_call *call, int want)
{
    struct error err = ERROR_INIT;
    char *text = NULL;
    if (http_client_call(client, call, &err) < 0 ||
        http_client_read_all(client, 16 * 1024 * 1024, &text, NULL, &err) < 0)
        fail_msg("%s: %s", call->target, err.message);
    assert_int_equal(http_client_status(client), want);
    return text;
}

static ssize_t give(char *buffer, size_t size, void *data)
{
    size_t *left = data;
    if (size > *left)
        size = *left;
    memset(buffer, 'y', size);
    *left -= size;
    return (ssize_t)size;
}

static int count(const char *piece, size_t size, void *data)
{
    (void)piece;
    *(size_t *)data += size;
    return 0;
}

static int count_and_stop(const char *piece, size_t size, void *data)
{
    count(piece, size, data);
    return -EPIPE;
}

static void test_client(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct fixture *fx = fixture_new(&default_limits, tcp);
        pid_t pid = serve(fx);
        struct error err = ERROR_INIT;
        struct http_client *client;
        char address[128], url[160];
        http_address_text(fx->fd, address, sizeof address);
        snprintf(url, sizeof url, "http://%s/", address);
        assert_int_equal(http_client_connect(tcp ? url : address, "secret", &client, &err), 0);

        cleanup_free char *hello = call_text(client, &(struct http_call){.target = "/hello"}, 200);
        assert_string_equal(hello, "hello");
        assert_string_equal(http_client_header(client, "content-type"), "text/plain");
        assert_null(http_client_header(client, "x-test"));

        const char *const headers[] = {"X-Test: a b", NULL};
        cleanup_free char *see = call_text(
            client, &(struct http_call){.method = "PUT", .target = "/see?q", .headers = headers},
            200);
        assert_string_equal(see, tcp ? "PUT|q|a b|1" : "PUT|q|a b|0");

        struct http_call echo = {
            .method = "POST", .target = "/echo", .body = "abc", .body_size = 3};
        cleanup_free char *echoed = call_text(client, &echo, 200);
        assert_string_equal(echoed, "abc");

        /* What was not read of the last answer does not come with the next. */
        assert_int_equal(http_client_call(client, &echo, &err), 0);
        cleanup_free char *out = call_text(client, &(struct http_call){.target = "/out"}, 200);
        assert_string_equal(out, "onetwo");

        /* From a source, of known length and not. */
        size_t left = 300000;
        struct http_call source = {.method = "POST",
                                   .target = "/in",
                                   .source = give,
                                   .source_data = &left,
                                   .source_length = 300000};
        cleanup_free char *counted = call_text(client, &source, 200);
        assert_string_equal(counted, "300000");
        left = 200000;
        source.source_length = HTTP_CLIENT_CHUNKED;
        cleanup_free char *chunked = call_text(client, &source, 200);
        assert_string_equal(chunked, "500000");

        /* A refusal is heard even if the body is not. */
        left = 64 * 1024 * 1024;
        source.target = "/small";
        source.source_length = left;
        cleanup_free char *refused = call_text(client, &source, 413);
        assert_non_null(strstr(refused, "too large"));

        /* To a sink. */
        size_t total = 0;
        assert_int_equal(http_client_call(client, &(struct http_call){.target = "/big"}, &err), 0);
        assert_int_equal(http_client_copy(client, count, &total, &err), 0);
        assert_int_equal(total, 4 * 1024 * 1024);
        assert_int_equal(http_client_call(client, &echo, &err), 0);
        assert_int_equal(http_client_copy(client, count_and_stop, &total, &err), -1);
        assert_int_equal(err.errnum, EPIPE);

        cleanup_free char *head =
            call_text(client, &(struct http_call){.method = "HEAD", .target = "/hello"}, 200);
        assert_string_equal(head, "");

        /* Failures that are not taken for answers. */
        char *none = NULL;
        assert_int_equal(http_client_call(client, &(struct http_call){.target = "/abort"}, &err),
                         0);
        assert_int_equal(http_client_read_all(client, 100, &none, NULL, &err), -1);
        assert_int_equal(err.code, ERROR_GONE);
        assert_int_equal(http_client_call(client, &(struct http_call){.target = "/short"}, &err),
                         0);
        assert_int_equal(http_client_read_all(client, 100, &none, NULL, &err), -1);
        assert_int_equal(err.code, ERROR_GONE);
        assert_int_equal(http_client_call(client, &echo, &err), 0);
        assert_int_equal(http_client_read_all(client, 2, &none, NULL, &err), -1);
        assert_int_equal(err.code, ERROR_LIMIT);
        assert_null(none);
        assert_int_equal(http_client_call(client,
                                          &(struct http_call){.target = "/later", .timeout_ms = 50},
                                          &err),
                         -1);
        assert_int_equal(err.code, ERROR_UNAVAILABLE);
        assert_int_equal(
            http_client_call(client, &(struct http_call){.target = "/a\r\nX: y"}, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID);
        /* And it goes on working. */
        cleanup_free char *again = call_text(client, &(struct http_call){.target = "/hello"}, 200);
        assert_string_equal(again, "hello");
        http_client_free(client);
        serve_end(fx, pid);
    }
}

static void test_client_reconnects(void **state)
{
    (void)state;
    struct http_limits limits = default_limits;
    limits.idle_ms = 30;
    struct fixture *fx = fixture_new(&limits, false);
    pid_t pid = serve(fx);
    struct error err = ERROR_INIT;
    struct http_client *client;
    assert_int_equal(http_client_connect(fx->path, NULL, &client, &err), 0);
    for (int i = 0; i < 3; i++) {
        cleanup_free char *text = call_text(client, &(struct http_call){.target = "/hello"}, 200);
        assert_string_equal(text, "hello");
        usleep(100000);
    }
    http_client_free(client);
    serve_end(fx, pid);
}

static void test_client_addresses(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct http_client *client = NULL;
    assert_int_equal(http_client_connect("/tmp/no-such-socket", NULL, &client, &err), -1);
    assert_int_equal(err.code, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.hint, "boxd running"));
    assert_int_equal(http_client_connect("https://x", NULL, &client, &err), -1);
    assert_int_equal(err.code, ERROR_UNSUPPORTED);
    assert_int_equal(http_client_connect("http://x:1/path", NULL, &client, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_int_equal(http_client_connect("127.0.0.1:1", "a\nb", &client, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_int_equal(http_client_connect("127.0.0.1:1", NULL, &client, &err), -1);
    assert_int_equal(err.code, ERROR_UNAVAILABLE);
    assert_null(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_request_nul),
        cmocka_unit_test(test_request_parts),
        cmocka_unit_test(test_request_absolute),
        cmocka_unit_test(test_request_limits),
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_chunked),
        cmocka_unit_test(test_chunked_bounds),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_one_byte_at_a_time),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_stream_in),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pause_backpressure),
        cmocka_unit_test(test_stream_out),
        cmocka_unit_test(test_write_backpressure),
        cmocka_unit_test(test_unread_answers),
        cmocka_unit_test(test_unwanted_body),
        cmocka_unit_test(test_expect),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_slow_head),
        cmocka_unit_test(test_client_leaves),
        cmocka_unit_test(test_write_after_leaving),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_too_many_connections),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_free_with_requests),
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_client),
        cmocka_unit_test(test_client_reconnects),
        cmocka_unit_test(test_client_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
