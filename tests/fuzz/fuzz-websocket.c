/* SPDX-License-Identifier: Apache-2.0 */
/* A client's WebSocket frames from hostile bytes. The first byte says how they are cut and whether
   the reader is stopped at each message: what comes out must be the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"
#include "net/websocket-frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MAX   300
#define FRAGMENTS_MAX 8

/* What happened, in numbers that depend on the order. */
struct trace {
    struct websocket_reader *reader;
    uint64_t sum;
    bool stop;
    bool over;
};

static void note(struct trace *trace, const char *data, size_t size, unsigned kind)
{
    assert(!trace->over);
    trace->sum = trace->sum * 1099511628211u + kind + size;
    for (size_t i = 0; i < size; i++)
        trace->sum = trace->sum * 1099511628211u + (unsigned char)data[i];
}

static void on_message(bool text, const char *data, size_t size, void *owner)
{
    struct trace *trace = owner;
    assert(size <= MESSAGE_MAX && data[size] == '\0');
    if (text) {
        size_t repaired_size;
        char *repaired = utf8_repair(data, size, &repaired_size);
        assert(repaired_size == size && memcmp(repaired, data, size) == 0);
        free(repaired);
    }
    note(trace, data, size, text ? 1 : 2);
    if (trace->stop)
        websocket_reader_stop(trace->reader);
}

static void on_ping(const char *data, size_t size, void *owner)
{
    assert(size <= WEBSOCKET_CONTROL_MAX);
    note(owner, data, size, 3);
}

static void on_close(int code, void *owner)
{
    struct trace *trace = owner;
    assert(code == 1005 || websocket_close_code_valid(code));
    note(trace, NULL, 0, (unsigned)code);
    trace->over = true;
}

static int run(struct trace *trace, const char *data, size_t size, size_t step)
{
    static const struct websocket_reader_events events = {on_message, on_ping, on_close};
    int fail = 0;
    trace->reader = websocket_reader_new(MESSAGE_MAX, FRAGMENTS_MAX, &events, trace);
    for (size_t at = 0; at < size && !fail && !trace->over;) {
        size_t give = size - at < step ? size - at : step;
        size_t taken = websocket_reader_feed(trace->reader, data + at, give, &fail);
        assert(taken <= give);
        at += taken;
    }
    /* What it still holds, if it was stopped. */
    uint64_t before;
    do {
        before = trace->sum;
        if (!fail && !trace->over)
            websocket_reader_feed(trace->reader, NULL, 0, &fail);
    } while (before != trace->sum);
    websocket_reader_free(trace->reader);
    assert(fail == 0 || fail == 1002 || fail == 1007 || fail == 1009);
    return fail;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct trace whole = {.sum = 1}, pieces = {.sum = 1, .stop = data[0] & 1};
    int first = run(&whole, (const char *)data + 1, size - 1, size);
    int second = run(&pieces, (const char *)data + 1, size - 1, data[0] / 2u + 1);
    assert(first == second && whole.sum == pieces.sum && whole.over == pieces.over);
    return 0;
}
