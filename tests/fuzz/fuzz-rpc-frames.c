/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's stream of lines from hostile bytes. The first byte says how they are cut: the messages
   that come out must be the same however that is. And each of them, written and read again, must be
   itself. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/rpc-frames.h"
#include "api/rpc-internal.h"
#include "core/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEER_LINE_MAX (64u << 10)

static void check_lines(const char *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        assert(end);
        assert((size_t)(end - data) - at < PEER_LINE_MAX);
        at = (size_t)(end - data) + 1;
    }
}

/* Whether it can go over the stream as it is. What comes in chunks need not be an object. */
static bool is_message(const char *text, size_t size)
{
    return size >= 2 && text[0] == '{' && text[size - 1] == '}' && utf8_valid(text, size) &&
           !memchr(text, '\n', size) && !memchr(text, '\0', size);
}

/* A message as it is sent: lines that the peer takes, and the same at its end. */
static void check_round_trip(const char *text, size_t size)
{
    struct json_out out = JSON_OUT_INIT;
    struct rpc_frames frames;
    struct error err = ERROR_INIT;
    const char *again;
    size_t again_size;
    if (!is_message(text, size))
        return;
    rpc_frames_write(&out, text, size);
    check_lines(out.buf.data, out.buf.size);
    rpc_frames_init(&frames);
    rpc_frames_feed(&frames, out.buf.data, out.buf.size);
    int rc = rpc_frames_next(&frames, &again, &again_size, &err);
    /* One that looks like a chunk is one. */
    if (!memmem(text, size, "chunk_", 6)) {
        assert(rc == 1 && again_size == size && memcmp(again, text, size) == 0);
        assert(rpc_frames_next(&frames, &again, &again_size, &err) == 0);
    }
    rpc_frames_release(&frames);
    json_out_release(&out);
}

/* Reads all of it in steps of so many bytes; a sum of what came out. */
static uint64_t read_all(const char *data, size_t size, size_t step, bool deep)
{
    struct rpc_frames frames;
    uint64_t sum = 14695981039346656037u;
    int rc = 0;
    rpc_frames_init(&frames);
    for (size_t at = 0; at < size && rc >= 0; at += step) {
        struct error err = ERROR_INIT;
        const char *text;
        size_t length;
        rpc_frames_feed(&frames, data + at, size - at < step ? size - at : step);
        while ((rc = rpc_frames_next(&frames, &text, &length, &err)) == 1) {
            assert(length <= RPC_MESSAGE_MAX);
            sum = sum * 1099511628211u + length;
            for (size_t i = 0; i < length; i++)
                sum = sum * 1099511628211u + (unsigned char)text[i];
            if (deep)
                check_round_trip(text, length);
        }
        assert(rc == 0 || err.code == ERROR_PROTOCOL);
    }
    rpc_frames_release(&frames);
    return sum * 2 + (rc < 0);
}

/* As a message of more than one chunk, whatever is in it. */
static void check_large(const char *data, size_t size)
{
    char *text = malloc(3 * RPC_CHUNK_BYTES + size);
    size_t used = 0;
    assert(text);
    if (size == 0 || !utf8_valid(data, size)) {
        free(text);
        return;
    }
    text[used++] = '{';
    while (used < 3 * RPC_CHUNK_BYTES - 1) {
        size_t room = 3 * RPC_CHUNK_BYTES + size - 1 - used;
        size_t part = size < room ? size : 0;
        if (part == 0)
            break;
        memcpy(text + used, data, part);
        used += part;
    }
    text[used++] = '}';
    check_round_trip(text, used);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *rest = (const char *)data + 1;
    uint64_t whole = read_all(rest, size - 1, size, true);
    assert(read_all(rest, size - 1, 1 + data[0] % 64u, false) == whole);
    if (data[0] >= 224) /* it takes long */
        check_large(rest, size - 1);
    return 0;
}
