/* SPDX-License-Identifier: Apache-2.0 */
/* WebSockets: the handshake, RFC 6455's rules for a server byte by byte, and the client. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "net/http-client.h"
#include "net/sha1.h"
#include "net/websocket-frames.h"
#include "net/websocket.h"

#define MESSAGE_MAX 1000

struct fixture {
    uv_loop_t loop;
    uv_timer_t tick;
    struct http_server *server;
    char path[64];
    int fd;
    struct websocket_options options;

    struct websocket *ws;
    unsigned messages;
    bool pause_each; /* pauses on each message */
    unsigned drained;
    int closed; /* the code; 0: not yet */
};

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* Echoes; a few words make it do something else. */
static void on_message(struct websocket *ws, bool text, const char *data, size_t size, void *owner)
{
    struct fixture *fx = owner;
    assert_int_equal(data[size], '\0');
    fx->messages++;
    if (strcmp(data, "bye") == 0)
        websocket_close(ws, 4001, "so long");
    else
        websocket_send(ws, text, data, size);
    if (fx->pause_each)
        websocket_pause(ws);
}

static void on_drained(struct websocket *ws, void *owner)
{
    (void)ws;
    ((struct fixture *)owner)->drained++;
}

static void on_closed(struct websocket *ws, int code, void *owner)
{
    struct fixture *fx = owner;
    assert_ptr_equal(ws, fx->ws);
    assert_int_equal(fx->closed, 0);
    fx->closed = code;
    fx->ws = NULL;
}

static void on_request_closed(void *data)
{
    (void)data;
    fail_msg("on_close of a request that became a WebSocket");
}

static void handle(struct http_request *req, void *data)
{
    static const struct websocket_events events = {on_message, on_drained, on_closed};
    struct fixture *fx = data;
    if (!websocket_wanted(req))
        return;
    http_set_data(req, NULL, on_request_closed);
    http_add_header(req, "X-Extra", "1");
    fx->closed = 0;
    fx->ws = websocket_accept(req, &fx->options, &events, fx);
}

static struct fixture *fixture_new(const struct http_limits *limits)
{
    static const struct http_limits defaults = HTTP_LIMITS_DEFAULT;
    struct fixture *fx = xcalloc(1, sizeof *fx);
    struct error err = ERROR_INIT;
    fx->options = (struct websocket_options){
        .message_max = MESSAGE_MAX, .fragments_max = 10, .protocol = "box.v1"};
    uv_loop_init(&fx->loop);
    uv_timer_init(&fx->loop, &fx->tick);
    uv_timer_start(&fx->tick, on_tick, 5, 5);
    fx->server = http_server_new(&fx->loop, limits ? limits : &defaults, handle, fx);
    snprintf(fx->path, sizeof fx->path, "/tmp/test-websocket.%d", (int)getpid());
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

#define until(fx, condition)                          \
    do {                                              \
        uint64_t start_ = uv_hrtime();                \
        while (!(condition)) {                        \
            if (uv_hrtime() - start_ > 20000000000ul) \
                fail_msg("never: %s", #condition);    \
            uv_run(&(fx)->loop, UV_RUN_ONCE);         \
        }                                             \
    } while (0)

struct peer {
    struct fixture *fx;
    int fd;
    uint8_t data[65536];
    size_t size;
    bool eof;
};

static void peer_read(struct peer *peer)
{
    ssize_t n =
        recv(peer->fd, peer->data + peer->size, sizeof peer->data - 1 - peer->size, MSG_DONTWAIT);
    if (n > 0)
        peer->size += (size_t)n;
    else if (n == 0 || errno != EAGAIN)
        peer->eof = true;
    peer->data[peer->size] = '\0';
}

static bool peer_has_size(struct peer *peer, size_t size)
{
    peer_read(peer);
    return peer->size >= size;
}

static bool peer_ended(struct peer *peer)
{
    peer_read(peer);
    return peer->eof;
}

static bool peer_has_head(struct peer *peer)
{
    peer_read(peer);
    return strstr((char *)peer->data, "\r\n\r\n");
}

static void peer_send(struct peer *peer, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t n = send(peer->fd, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
        uv_run(&peer->fx->loop, UV_RUN_ONCE);
    }
}

static struct peer *peer_connect(struct fixture *fx)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct peer *peer = xcalloc(1, sizeof *peer);
    strcpy(address.sun_path, fx->path);
    peer->fx = fx;
    peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(peer->fd, (struct sockaddr *)&address, sizeof address), 0);
    return peer;
}

#define UPGRADE                                              \
    "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n" \
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"    \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static struct peer *peer_open(struct fixture *fx)
{
    struct peer *peer = peer_connect(fx);
    peer_send(peer, UPGRADE "\r\n", strlen(UPGRADE) + 2);
    until(fx, peer_has_head(peer));
    assert_int_equal(strncmp((char *)peer->data, "HTTP/1.1 101 ", 13), 0);
    assert_non_null(fx->ws);
    peer->size = 0;
    return peer;
}

static void peer_free(struct peer *peer)
{
    close(peer->fd);
    free(peer);
}

/* --- what does no I/O ----------------------------------------------------------------------------
 */

static void check_sha1(const char *text, const char *want)
{
    uint8_t hash[SHA1_SIZE];
    char hex[2 * SHA1_SIZE + 1];
    sha1_short(text, strlen(text), hash);
    for (int i = 0; i < SHA1_SIZE; i++)
        sprintf(hex + 2 * i, "%02x", hash[i]);
    assert_string_equal(hex, want);
}

static void test_hash(void **state)
{
    (void)state;
    check_sha1("", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check_sha1("abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
    /* One block and two, at the edge. */
    check_sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
               "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    check_sha1("0123456789012345678901234567890123456789012345678901234",
               "9f3a4ce7f66b1b74c34da2c5d732c39f81e0f8df");
    char accept[WEBSOCKET_ACCEPT_SIZE + 1];
    websocket_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"", true},
        {"plain text, longer than eight", true},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", true},
        {"aaaaaaa\xc3\xa4", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"\xed\x9f\xbf", true},
        {"\x80", false},
        {"\xc0\x80", false},
        {"\xc1\xbf", false},
        {"\xc3", false},
        {"\xc3z", false},
        {"\xe0\x9f\xbf", false},
        {"\xed\xa0\x80", false},
        {"\xe2\x82", false},
        {"\xf0\x8f\xbf\xbf", false},
        {"\xf4\x90\x80\x80", false},
        {"\xf5\x80\x80\x80", false},
        {"\xff", false},
        {"aaaaaaaaaaaaaaaa\xff", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t size = strlen(cases[i].text);
        /* In two pieces, cut everywhere. */
        for (size_t cut = 0; cut <= size; cut++) {
            struct utf8_check check = {0};
            bool valid = utf8_check_feed(&check, cases[i].text, cut) &&
                         utf8_check_feed(&check, cases[i].text + cut, size - cut) &&
                         utf8_check_done(&check);
            if (valid != cases[i].valid)
                fail_msg("case %zu, cut at %zu", i, cut);
        }
    }
}

static void test_close_payload(void **state)
{
    (void)state;
    uint8_t payload[WEBSOCKET_CONTROL_MAX];
    char reason[200];
    assert_int_equal(websocket_close_payload(payload, 1000, NULL), 2);
    assert_memory_equal(payload, "\x03\xe8", 2);
    memset(reason, 'x', sizeof reason);
    memcpy(reason + 122, "\xc3\xa4", 3);
    /* A character that does not fit is not cut in half. */
    assert_int_equal(websocket_close_payload(payload, 1001, reason), 124);
    reason[122] = 'x';
    reason[123] = '\0';
    assert_int_equal(websocket_close_payload(payload, 1001, reason), 125);
}

/* --- the handshake -------------------------------------------------------------------------------
 */

static void test_handshake(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    struct peer *peer = peer_connect(fx);
    static const char request[] =
        UPGRADE "Sec-WebSocket-Protocol: other, box.v1\r\n"
                "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n\x81\x82\0\0\0\0hi";
    peer_send(peer, request, sizeof request - 1);
    until(fx, fx->messages == 1);
    peer_read(peer);
    const char *head = (char *)peer->data;
    assert_int_equal(strncmp(head, "HTTP/1.1 101 Switching Protocols\r\n", 34), 0);
    assert_non_null(strstr(head, "\r\nUpgrade: websocket\r\n"));
    assert_non_null(strstr(head, "\r\nConnection: Upgrade\r\n"));
    assert_non_null(strstr(head, "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    assert_non_null(strstr(head, "\r\nSec-WebSocket-Protocol: box.v1\r\n"));
    assert_non_null(strstr(head, "\r\nX-Extra: 1\r\n"));
    assert_null(strstr(head, "Extensions"));
    /* What came with the request was not lost. */
    assert_string_equal(strstr(head, "\r\n\r\n") + 4, "\x81\x02hi");
    peer_free(peer);
    until(fx, fx->closed == 1006);
    peer = peer_open(fx);
    peer_read(peer);
    assert_null(strstr((char *)peer->data, "Sec-WebSocket-Protocol"));
    peer_free(peer);
    fixture_free(fx);
}

static void test_bad_handshakes(void **state)
{
    (void)state;
#define START "GET /ws HTTP/1.1\r\nHost: x\r\n"
#define CONN  "Connection: keep-alive, upgrade\r\n"
#define UP    "Upgrade: WebSocket\r\n"
#define VER   "Sec-WebSocket-Version: 13\r\n"
#define KEY   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    static const struct {
        const char *text;
        const char *status;
    } cases[] = {
        {START CONN UP VER KEY "\r\n", "HTTP/1.1 101 "},
        {START "\r\n", "HTTP/1.1 426 "},
        {START UP VER KEY "\r\n", "HTTP/1.1 426 "},
        {START CONN VER KEY "\r\n", "HTTP/1.1 426 "},
        {START CONN "Upgrade: h2c\r\n" VER KEY "\r\n", "HTTP/1.1 426 "},
        {START CONN UP KEY "\r\n", "HTTP/1.1 426 "},
        {START CONN UP "Sec-WebSocket-Version: 8\r\n" KEY "\r\n", "HTTP/1.1 426 "},
        {START CONN UP VER "\r\n", "HTTP/1.1 400 "},
        {START CONN UP VER KEY KEY "\r\n", "HTTP/1.1 400 "},
        {START CONN UP VER "Sec-WebSocket-Key: abc\r\n\r\n", "HTTP/1.1 400 "},
        {START CONN UP VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=!\r\n\r\n", "HTTP/1.1 400 "},
        {START CONN UP VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ====\r\n\r\n",
         "HTTP/1.1 400 "},
        {"POST /ws HTTP/1.1\r\nHost: x\r\n" CONN UP VER KEY "\r\n", "HTTP/1.1 400 "},
        {"GET /ws HTTP/1.0\r\nHost: x\r\n" CONN UP VER KEY "\r\n", "HTTP/1.1 400 "},
        {START CONN UP VER KEY "Content-Length: 1\r\n\r\nx", "HTTP/1.1 400 "},
    };
    struct fixture *fx = fixture_new(NULL);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct peer *peer = peer_connect(fx);
        peer_send(peer, cases[i].text, strlen(cases[i].text));
        until(fx, peer_has_head(peer));
        if (strncmp((char *)peer->data, cases[i].status, 13) != 0)
            fail_msg("case %zu: %.80s", i, (char *)peer->data);
        if (strcmp(cases[i].status, "HTTP/1.1 426 ") == 0)
            assert_non_null(strstr((char *)peer->data, "\r\nSec-WebSocket-Version: 13\r\n"));
        peer_free(peer);
        until(fx, !fx->ws);
    }
    fixture_free(fx);
}

/* --- frames --------------------------------------------------------------------------------------
 */

#define BYTES(text) text, sizeof(text) - 1
/* A mask of zeroes, so that payloads can be read here. */
#define MASK "\0\0\0\0"

static const struct {
    const char *name;
    const char *bytes;
    size_t size;
    int code;          /* in the server's close frame; 1005: it is empty */
    unsigned messages; /* that came before */
} closings[] = {
    {"close", BYTES("\x88\x82" MASK "\x03\xe8"), 1000, 0},
    {"close without code", BYTES("\x88\x80" MASK), 1005, 0},
    {"close with reason", BYTES("\x88\x85" MASK "\x03\xe9why"), 1001, 0},
    {"close with a private code", BYTES("\x88\x82" MASK "\x0f\xa0"), 4000, 0},
    {"message, then close", BYTES("\x81\x82" MASK "hi\x88\x82" MASK "\x03\xe8"), 1000, 1},
    {"message after close", BYTES("\x88\x82" MASK "\x03\xe8\x81\x82" MASK "hi"), 1000, 0},
    {"close between fragments", BYTES("\x01\x82" MASK "hi\x88\x82" MASK "\x03\xe8"), 1000, 0},

    {"unmasked text", BYTES("\x81\x02hi"), 1002, 0},
    {"unmasked empty", BYTES("\x81\x00"), 1002, 0},
    {"unmasked ping", BYTES("\x89\x00"), 1002, 0},
    {"unmasked close", BYTES("\x88\x02\x03\xe8"), 1002, 0},
    {"rsv1", BYTES("\xc1\x82" MASK "hi"), 1002, 0},
    {"rsv2", BYTES("\xa1\x82" MASK "hi"), 1002, 0},
    {"rsv3", BYTES("\x91\x82" MASK "hi"), 1002, 0},
    {"rsv1 on ping", BYTES("\xc9\x80" MASK), 1002, 0},
    {"opcode 3", BYTES("\x83\x80" MASK), 1002, 0},
    {"opcode 7", BYTES("\x87\x80" MASK), 1002, 0},
    {"opcode 11", BYTES("\x8b\x80" MASK), 1002, 0},
    {"opcode 15", BYTES("\x8f\x80" MASK), 1002, 0},
    {"ping of 126", BYTES("\x89\xfe\x00\x7e" MASK), 1002, 0},
    {"ping of 2^32", BYTES("\x89\xff\x00\x00\x00\x01\x00\x00\x00\x00" MASK), 1002, 0},
    {"fragmented ping", BYTES("\x09\x80" MASK), 1002, 0},
    {"fragmented close", BYTES("\x08\x82" MASK "\x03\xe8"), 1002, 0},
    {"continuation of nothing", BYTES("\x80\x82" MASK "hi"), 1002, 0},
    {"continuation after the end", BYTES("\x01\x81" MASK "h\x80\x81" MASK "i\x80\x81" MASK "!"),
     1002, 1},
    {"text inside text", BYTES("\x01\x82" MASK "hi\x81\x82" MASK "hi"), 1002, 0},
    {"binary inside text", BYTES("\x01\x82" MASK "hi\x82\x82" MASK "hi"), 1002, 0},
    {"2 bytes for a small length", BYTES("\x81\xfe\x00\x02" MASK "hi"), 1002, 0},
    {"8 bytes for a small length", BYTES("\x81\xff\x00\x00\x00\x00\x00\x00\x00\x02" MASK "hi"),
     1002, 0},
    {"length 2^63", BYTES("\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00" MASK), 1002, 0},
    {"length 2^64 - 1", BYTES("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff" MASK), 1002, 0},
    {"close of 1 byte", BYTES("\x88\x81" MASK "\x03"), 1002, 0},
    {"close code 0", BYTES("\x88\x82" MASK "\x00\x00"), 1002, 0},
    {"close code 999", BYTES("\x88\x82" MASK "\x03\xe7"), 1002, 0},
    {"close code 1004", BYTES("\x88\x82" MASK "\x03\xec"), 1002, 0},
    {"close code 1005", BYTES("\x88\x82" MASK "\x03\xed"), 1002, 0},
    {"close code 1006", BYTES("\x88\x82" MASK "\x03\xee"), 1002, 0},
    {"close code 1015", BYTES("\x88\x82" MASK "\x03\xf7"), 1002, 0},
    {"close code 2999", BYTES("\x88\x82" MASK "\x0b\xb7"), 1002, 0},
    {"close code 5000", BYTES("\x88\x82" MASK "\x13\x88"), 1002, 0},
    {"close code 65535", BYTES("\x88\x82" MASK "\xff\xff"), 1002, 0},
    {"close reason not UTF-8", BYTES("\x88\x83" MASK "\x03\xe8\xff"), 1007, 0},
    {"close reason cut off", BYTES("\x88\x83" MASK "\x03\xe8\xc3"), 1007, 0},

    {"text not UTF-8", BYTES("\x81\x82" MASK "\xc3z"), 1007, 0},
    {"text cut off", BYTES("\x81\x81" MASK "\xc3"), 1007, 0},
    {"text with a surrogate", BYTES("\x81\x83" MASK "\xed\xa0\x80"), 1007, 0},
    {"text not UTF-8 across fragments", BYTES("\x01\x81" MASK "\xc3\x80\x81" MASK "z"), 1007, 0},
    {"text cut off across fragments", BYTES("\x01\x81" MASK "a\x80\x81" MASK "\xc3"), 1007, 0},
    /* Before the end of it has come. */
    {"text not UTF-8 at once", BYTES("\x01\x82" MASK "\xff\xff"), 1007, 0},

    {"1,001 bytes", BYTES("\x82\xfe\x03\xe9" MASK "x"), 1009, 0},
    {"2^62 bytes", BYTES("\x82\xff\x40\x00\x00\x00\x00\x00\x00\x00" MASK "x"), 1009, 0},
    {"1,001 bytes in two", BYTES("\x02\x81" MASK "x\x80\xfe\x03\xe8" MASK "x"), 1009, 0},
    {"11 fragments",
     BYTES("\x01\x80" MASK "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK
           "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK
           "\x00\x80" MASK),
     1009, 0},
};

/* The close frame is the last that came. */
static int last_close_code(const struct peer *peer)
{
    const uint8_t *data = peer->data;
    int code = 0;
    for (size_t at = 0; at + 2 <= peer->size; at += 2 + data[at + 1]) {
        assert_true(data[at + 1] < 126);
        assert_int_equal(code, 0);
        if (data[at] == 0x88)
            code = data[at + 1] == 0 ? 1005 : data[at + 2] << 8 | data[at + 3];
    }
    return code;
}

static void test_closings(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    for (size_t i = 0; i < ARRAY_SIZE(closings); i++) {
        /* All at once, and a byte at a time. */
        for (int slow = 0; slow < 2; slow++) {
            struct peer *peer = peer_open(fx);
            fx->messages = 0;
            for (size_t at = 0; at < closings[i].size; at += slow ? 1 : closings[i].size)
                peer_send(peer, closings[i].bytes + at, slow ? 1 : closings[i].size);
            until(fx, peer_ended(peer));
            int code = last_close_code(peer);
            if (code != closings[i].code || fx->closed != closings[i].code ||
                fx->messages != closings[i].messages)
                fail_msg("%s: code %d (%d), %u messages", closings[i].name, code, fx->closed,
                         fx->messages);
            peer_free(peer);
        }
    }
    fixture_free(fx);
}

static const struct {
    const char *name;
    const char *bytes;
    size_t size;
    const char *answer;
    size_t answer_size;
} exchanges[] = {
    {"text", BYTES("\x81\x82" MASK "hi"), BYTES("\x81\x02hi")},
    {"text, masked", BYTES("\x81\x82\x01\x02\x03\x04\x69\x6b"), BYTES("\x81\x02hi")},
    {"binary", BYTES("\x82\x83" MASK "\xff\x00\xfe"), BYTES("\x82\x03\xff\x00\xfe")},
    {"empty text", BYTES("\x81\x80" MASK), BYTES("\x81\x00")},
    {"empty binary", BYTES("\x82\x80" MASK), BYTES("\x82\x00")},
    {"two", BYTES("\x81\x81" MASK "a\x82\x81" MASK "b"),
     BYTES("\x81\x01"
           "a\x82\x01"
           "b")},
    {"fragments", BYTES("\x01\x81" MASK "a\x00\x80" MASK "\x00\x81" MASK "b\x80\x81" MASK "c"),
     BYTES("\x81\x03"
           "abc")},
    {"a character in two fragments", BYTES("\x01\x81" MASK "\xc3\x80\x81" MASK "\xa4"),
     BYTES("\x81\x02\xc3\xa4")},
    {"ping", BYTES("\x89\x83" MASK "abc"),
     BYTES("\x8a\x03"
           "abc")},
    {"empty ping", BYTES("\x89\x80" MASK), BYTES("\x8a\x00")},
    {"ping between fragments", BYTES("\x01\x81" MASK "a\x89\x81" MASK "p\x80\x81" MASK "b"),
     BYTES("\x8a\x01p\x81\x02"
           "ab")},
    {"pong", BYTES("\x8a\x81" MASK "x\x89\x80" MASK), BYTES("\x8a\x00")},
    {"ten fragments",
     BYTES("\x01\x80" MASK "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK
           "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK "\x00\x80" MASK "\x80\x81" MASK "x"),
     BYTES("\x81\x01x")},
};

static void test_exchanges(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    struct peer *peer = peer_open(fx);
    for (int slow = 0; slow < 2; slow++) {
        for (size_t i = 0; i < ARRAY_SIZE(exchanges); i++) {
            peer->size = 0;
            for (size_t at = 0; at < exchanges[i].size; at += slow ? 1 : exchanges[i].size)
                peer_send(peer, exchanges[i].bytes + at, slow ? 1 : exchanges[i].size);
            until(fx, peer_has_size(peer, exchanges[i].answer_size) || peer->eof);
            if (peer->size != exchanges[i].answer_size ||
                memcmp(peer->data, exchanges[i].answer, peer->size) != 0)
                fail_msg("%s", exchanges[i].name);
        }
    }
    /* As large as may be; and a ping of the largest size. */
    uint8_t large[8 + MESSAGE_MAX] = "\x82\xfe\x03\xe8";
    peer->size = 0;
    peer_send(peer, large, sizeof large);
    until(fx, peer_has_size(peer, 4 + MESSAGE_MAX));
    uint8_t ping[6 + 125] = "\x89\xfd";
    peer->size = 0;
    peer_send(peer, ping, sizeof ping);
    until(fx, peer_has_size(peer, 127));
    peer_free(peer);
    fixture_free(fx);
}

/* --- its life ------------------------------------------------------------------------------------
 */

static void test_close_by_server(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    struct peer *peer = peer_open(fx);
    peer_send(peer, BYTES("\x81\x83" MASK "bye"));
    until(fx, peer_has_size(peer, 11));
    assert_memory_equal(peer->data, "\x88\x09\x0f\xa1so long", 11);
    assert_int_equal(fx->closed, 0);
    /* Messages that were on their way no longer matter; the answer does. */
    peer_send(peer, BYTES("\x81\x82" MASK "hi\x88\x82" MASK "\x0f\xa1"));
    until(fx, fx->closed);
    assert_int_equal(fx->closed, 4001);
    assert_int_equal(fx->messages, 1);
    until(fx, peer_ended(peer));
    peer_free(peer);
    /* One who does not answer is not waited for. */
    peer = peer_open(fx);
    peer_send(peer, BYTES("\x81\x83" MASK "bye"));
    until(fx, fx->closed);
    assert_int_equal(fx->closed, 1006);
    peer_free(peer);
    /* From outside of any event, and while it was paused. */
    peer = peer_open(fx);
    websocket_pause(fx->ws);
    websocket_close(fx->ws, WEBSOCKET_GOING_AWAY, NULL);
    until(fx, peer_has_size(peer, 4));
    assert_memory_equal(peer->data, "\x88\x02\x03\xe9", 4);
    peer_send(peer, BYTES("\x88\x82" MASK "\x03\xe9"));
    until(fx, fx->closed == 1001);
    peer_free(peer);
    fixture_free(fx);
}

static void on_over(uv_timer_t *timer)
{
    timer->data = NULL;
}

/* The server has said good-bye behind much that was not read yet. Who reads slowly has it all: the
   two seconds after which others are cut off count from when it is sent. */
static void test_close_behind_much(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    struct peer *peer = peer_open(fx);
    static char block[65536];
    uv_timer_t nap;
    size_t total = 0;
    size_t got = 0;
    bool more = true;
    while (more && total < 64 * sizeof block) {
        more = websocket_send(fx->ws, false, block, sizeof block);
        total += 10 + sizeof block;
    }
    assert_false(more);
    websocket_close(fx->ws, WEBSOCKET_NORMAL, NULL);
    total += 4;
    uv_timer_init(&fx->loop, &nap);
    nap.data = fx;
    uv_timer_start(&nap, on_over, 2500, 0);
    until(fx, !nap.data);
    uv_close((uv_handle_t *)&nap, NULL);
    until(fx, (peer->size = 0, peer_read(peer), got += peer->size, peer->eof || got >= total));
    assert_int_equal(got, total);
    peer_free(peer);
    fixture_free(fx);
}

static void test_pause(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    struct peer *peer = peer_open(fx);
    fx->pause_each = true;
    peer_send(peer, BYTES("\x81\x81" MASK "a\x81\x81" MASK "b\x81\x81" MASK "c"));
    for (unsigned i = 1; i <= 3; i++) {
        until(fx, fx->messages == i);
        for (int j = 0; j < 5; j++)
            uv_run(&fx->loop, UV_RUN_ONCE);
        assert_int_equal(fx->messages, i);
        websocket_resume(fx->ws);
    }
    peer_send(peer, BYTES("\x81\x81" MASK "d"));
    until(fx, fx->messages == 4);
    /* Paused, and it leaves. */
    peer_free(peer);
    until(fx, fx->closed == 1006);
    fixture_free(fx);
}

static void test_backpressure(void **state)
{
    (void)state;
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    limits.write_stall_ms = 200;
    struct fixture *fx = fixture_new(&limits);
    struct peer *peer = peer_open(fx);
    static char block[65536];
    unsigned sent = 0;
    while (websocket_send(fx->ws, false, block, sizeof block) && sent < 1000)
        sent++;
    assert_true(sent < 1000);
    until(fx, (peer->size = 0, peer_read(peer), fx->drained == 1));
    /* One who reads nothing at all is cut off. */
    while (websocket_send(fx->ws, false, block, sizeof block))
        ;
    until(fx, fx->closed == 1006);
    peer_free(peer);
    fixture_free(fx);
}

/* Pings that are never read the answers of do not fill the memory. */
static void test_ping_flood(void **state)
{
    (void)state;
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    limits.write_stall_ms = 300;
    struct fixture *fx = fixture_new(&limits);
    struct peer *peer = peer_open(fx);
    uint8_t ping[6 + 125] = "\x89\xfd";
    struct http_stats stats;
    for (int i = 0; i < 20000 && !fx->closed; i++)
        peer_send(peer, ping, sizeof ping);
    http_server_stats(fx->server, &stats);
    assert_true(stats.bytes_out < 1024 * 1024);
    peer_free(peer);
    until(fx, fx->closed);
    fixture_free(fx);
}

static void test_keep_alive(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    fx->options.ping_ms = 50;
    struct peer *peer = peer_open(fx);
    for (int i = 0; i < 4; i++) {
        until(fx, peer_has_size(peer, 2));
        assert_memory_equal(peer->data, "\x89\x00", 2);
        peer->size = 0;
        peer_send(peer, BYTES("\x8a\x80" MASK));
    }
    assert_int_equal(fx->closed, 0);
    until(fx, fx->closed == 1006);
    until(fx, peer_ended(peer));
    peer_free(peer);
    fixture_free(fx);
}

static bool peer_has_frame(struct peer *peer)
{
    return peer_has_size(peer, 2) && peer->size >= 2u + peer->data[1];
}

/* Takes the next frame: its first byte. `ret_code` is that of a close frame. */
static uint8_t peer_next(struct peer *peer, int *ret_code)
{
    until(peer->fx, peer_has_frame(peer));
    uint8_t first = peer->data[0];
    size_t size = 2u + peer->data[1];
    assert_true(peer->data[1] < 126);
    if (first == 0x88)
        *ret_code = peer->data[2] << 8 | peer->data[3];
    peer->size -= size;
    memmove(peer->data, peer->data + size, peer->size);
    return first;
}

/* One that was under way at a ping and still is at the next ends the connection, whatever else is
   sent meanwhile. */
static void test_messages_that_do_not_end(void **state)
{
    static const struct {
        const char *start;
        size_t start_size;
        const char *more; /* at each ping */
        size_t more_size;
    } cases[] = {
        /* A fragment, and only pongs; ever more fragments; a frame, drop by drop. */
        {BYTES("\x01\x82" MASK "hi"), BYTES("\x8a\x80" MASK)},
        {BYTES("\x01\x82" MASK "hi"), BYTES("\x00\x81" MASK "x")},
        {BYTES("\x01\xfe\x03\xe8" MASK "hi"), BYTES("x")},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct fixture *fx = fixture_new(NULL);
        fx->options.ping_ms = 100;
        struct peer *peer = peer_open(fx);
        int code = 0;
        peer_send(peer, cases[i].start, cases[i].start_size);
        for (int pings = 0; peer_next(peer, &code) == 0x89; pings++) {
            assert_true(pings < 5);
            peer_send(peer, cases[i].more, cases[i].more_size);
        }
        assert_int_equal(code, 1008);
        until(fx, fx->closed);
        peer_free(peer);
        fixture_free(fx);
    }
}

/* What is under way at each ping may be another message each time. */
static void test_messages_at_every_ping(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    fx->options.ping_ms = 100;
    struct peer *peer = peer_open(fx);
    int code = 0;
    peer_send(peer, BYTES("\x01\x82" MASK "hi"));
    for (int pings = 0; pings < 4;) {
        uint8_t first = peer_next(peer, &code);
        if (first != 0x89) { /* the answer to the one before */
            assert_int_equal(first, 0x81);
            continue;
        }
        pings++;
        peer_send(peer, BYTES("\x80\x81" MASK "!\x01\x82" MASK "hi"));
    }
    assert_int_equal(fx->closed, 0);
    peer_free(peer);
    until(fx, fx->closed == 1006);
    fixture_free(fx);
}

static void on_server_drained(void *data)
{
    *(bool *)data = true;
}

static void test_drain(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    struct peer *peer = peer_open(fx);
    bool drained = false;
    http_server_drain(fx->server, on_server_drained, &drained);
    for (int i = 0; i < 5; i++)
        uv_run(&fx->loop, UV_RUN_ONCE);
    assert_false(drained);
    assert_int_equal(fx->closed, 0);
    websocket_close(fx->ws, WEBSOCKET_GOING_AWAY, NULL);
    peer_send(peer, BYTES("\x88\x82" MASK "\x03\xe9"));
    until(fx, peer_ended(peer));
    peer_free(peer);
    until(fx, drained);
    fixture_free(fx);
}

/* --- the client ----------------------------------------------------------------------------------
 */

static void test_client(void **state)
{
    (void)state;
    struct fixture *fx = fixture_new(NULL);
    fx->options.message_max = 8 * 1024 * 1024;
    fx->options.ping_ms = 100;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        uv_loop_fork(&fx->loop);
        uv_run(&fx->loop, UV_RUN_DEFAULT);
        _exit(0);
    }
    struct error err = ERROR_INIT;
    struct ws_client *ws;
    struct ws_message message;
    if (ws_client_connect(fx->path, "token", "/ws", "box.v1", &ws, &err) < 0)
        fail_msg("%s", err.message);
    static const size_t sizes[] = {0, 1, 125, 126, 65535, 65536, 1000000};
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        cleanup_free char *data = xmalloc(sizes[i] + 1);
        memset(data, 'z', sizes[i]);
        assert_int_equal(ws_client_send(ws, i % 2, data, sizes[i], &err), 0);
        assert_int_equal(ws_client_receive(ws, &message, &err), 1);
        assert_int_equal(message.text, i % 2);
        assert_int_equal(message.size, sizes[i]);
        assert_memory_equal(message.data, data, sizes[i]);
        assert_int_equal(message.data[message.size], '\0');
    }
    assert_false(ws_client_buffered(ws));
    /* Pings come in between, and whoever does not answer two of them is hung up on. */
    for (int i = 0; i < 50; i++) {
        usleep(10000);
        assert_int_equal(ws_client_send(ws, true, "x", 1, &err), 0);
        assert_int_equal(ws_client_receive(ws, &message, &err), 1);
        assert_string_equal(message.data, "x");
    }
    assert_int_equal(ws_client_send(ws, true, "bye", 3, &err), 0);
    assert_int_equal(ws_client_receive(ws, &message, &err), 0);
    assert_int_equal(message.close_code, 4001);
    assert_string_equal(message.data, "so long");
    assert_int_equal(ws_client_send(ws, true, "more", 4, &err), -1);
    assert_int_equal(err.code, ERROR_GONE);
    ws_client_free(ws);

    assert_int_equal(ws_client_connect(fx->path, NULL, "/ws", NULL, &ws, &err), 0);
    assert_int_equal(ws_client_close(ws, 1000, NULL, &err), 0);
    assert_int_equal(ws_client_receive(ws, &message, &err), 0);
    assert_int_equal(message.close_code, 1000);
    ws_client_free(ws);

    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    fixture_free(fx);
}

/* What a server must not send. */
static void test_client_is_strict(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *bytes;
        size_t size;
        int result;
        int code;
    } cases[] = {
        {"masked", BYTES("\x81\x81" MASK "x"), -1, 0},
        {"rsv", BYTES("\xc1\x01x"), -1, 0},
        {"opcode", BYTES("\x83\x00"), -1, 0},
        {"continuation", BYTES("\x80\x00"), -1, 0},
        {"control too long", BYTES("\x89\x7e\x00\x80"), -1, 0},
        {"control in fragments", BYTES("\x09\x00"), -1, 0},
        {"not UTF-8", BYTES("\x81\x01\xff"), -1, 0},
        {"2^63", BYTES("\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00"), -1, 0},
        {"close code", BYTES("\x88\x02\x00\x01"), -1, 0},
        {"gone", BYTES("\x81\x05x"), 0, 1006},
        {"close", BYTES("\x88\x00"), 0, 1005},
        {"fragments", BYTES("\x01\x01x\x89\x00\x80\x01y"), 1, 0},
    };
    char path[64];
    struct error err = ERROR_INIT;
    snprintf(path, sizeof path, "/tmp/test-ws-client.%d", (int)getpid());
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int listener;
        assert_int_equal(http_bind_unix(path, 0600, &listener, &err), 0);
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            char request[2048], accept_key[WEBSOCKET_ACCEPT_SIZE + 1];
            struct sockaddr_un from;
            alarm(20);
            int fd = -1;
            while (fd < 0)
                fd = accept(listener, (struct sockaddr *)&from, &(socklen_t){sizeof from});
            size_t size = 0;
            request[0] = '\0';
            while (!strstr(request, "\r\n\r\n")) {
                size += (size_t)read(fd, request + size, sizeof request - 1 - size);
                request[size] = '\0';
            }
            websocket_accept_key(strstr(request, "Sec-WebSocket-Key: ") + 19, accept_key);
            dprintf(fd,
                    "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                    "Sec-WebSocket-Accept: %s\r\n\r\n",
                    accept_key);
            send(fd, cases[i].bytes, cases[i].size, MSG_NOSIGNAL);
            shutdown(fd, SHUT_WR);
            while (read(fd, request, sizeof request) > 0)
                ;
            _exit(0);
        }
        close(listener);
        struct ws_client *ws;
        struct ws_message message = {0};
        assert_int_equal(ws_client_connect(path, NULL, "/", NULL, &ws, &err), 0);
        int r = ws_client_receive(ws, &message, &err);
        if (r != cases[i].result || (r == 0 && message.close_code != cases[i].code))
            fail_msg("%s: %d, %d", cases[i].name, r, message.close_code);
        if (r < 0)
            assert_int_equal(err.code, ERROR_PROTOCOL);
        if (r == 1)
            assert_string_equal(message.data, "xy");
        ws_client_free(ws);
        waitpid(pid, NULL, 0);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_close_payload),
        cmocka_unit_test(test_handshake),
        cmocka_unit_test(test_bad_handshakes),
        cmocka_unit_test(test_closings),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_close_by_server),
        cmocka_unit_test(test_close_behind_much),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_backpressure),
        cmocka_unit_test(test_ping_flood),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_messages_that_do_not_end),
        cmocka_unit_test(test_messages_at_every_ping),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_client),
        cmocka_unit_test(test_client_is_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
