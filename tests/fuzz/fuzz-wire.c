/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of messages, driven by a script in the first half of the input over the bytes in the
 * rest. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SCRIPT_MAX 64

/* What was read, written again: must give the bytes that were read. */
struct echo {
    struct wire_reader reader;
    struct wire_writer writer;
};

/* One step of the script: which reader, and with what maximum. */
static void step(struct echo *echo, uint8_t what)
{
    struct wire_reader *r = &echo->reader;
    size_t max = (size_t)(what >> 2) * 8;
    struct wire_reader before = *r;
    const unsigned char *end = r->data + r->left;
    uint64_t number = 0;
    const char *text = "";
    switch (what & 3) {
    case 0:
        number = wire_get_u32(r);
        wire_put_u32(&echo->writer, (uint32_t)number);
        break;
    case 1:
        number = wire_get_u64(r);
        wire_put_u64(&echo->writer, number);
        break;
    case 2:
        text = wire_get_string(r, max);
        assert(strlen(text) <= max);
        wire_put_string(&echo->writer, text);
        break;
    default:
        number = wire_get_count(r, (uint32_t)max);
        assert(number <= max);
        wire_put_u32(&echo->writer, (uint32_t)number);
    }
    assert(r->data + r->left == end && r->left <= before.left);
    if (r->bad)
        assert(number == 0 && text[0] == '\0' && !wire_done(r));
    else
        assert(r->left < before.left);
    if (before.bad)
        assert(r->bad && r->data == before.data && r->left == before.left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t steps = data[0] % SCRIPT_MAX;
    if (steps > size - 1)
        steps = size - 1;
    size_t left = size - 1 - steps;
    /* Exactly as large as the message, so that the sanitizer sees a read beyond it. */
    unsigned char *message = malloc(left ? left : 1);
    unsigned char *again = malloc(left ? left : 1);
    assert(message && again);
    memcpy(message, data + 1 + steps, left);
    struct echo echo = {.reader = {.data = message, .left = left},
                        .writer = {.data = again, .capacity = left}};
    for (size_t i = 0; i < steps && !echo.reader.bad; i++)
        step(&echo, data[1 + i]);
    if (echo.reader.bad) {
        step(&echo, 2);
        step(&echo, 1);
    } else {
        assert(!echo.writer.overflow && echo.writer.size == left - echo.reader.left);
        assert(memcmp(message, again, echo.writer.size) == 0);
        assert(wire_done(&echo.reader) == (echo.reader.left == 0));
    }
    free(message);
    free(again);
    return 0;
}
