/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP heads, chunked bodies and percent-encoding from hostile bytes. The first byte picks which,
   the second how it is cut: in pieces or at once, the result must be the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/http-parse.h"
#include "net/http-server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_span(struct http_span span, size_t size)
{
    assert(span.at <= size && span.size <= size - span.at);
}

static void fuzz_head(enum http_head_kind kind, unsigned step, const char *data, size_t size)
{
    static struct http_head whole, pieces;
    http_head_init(&whole, kind, 4096, 20);
    ssize_t at_once = http_head_feed(&whole, data, size);
    http_head_init(&pieces, kind, 4096, 20);
    ssize_t piecemeal = 0;
    for (size_t have = 0; have < size && piecemeal == 0;) {
        have = size - have > step ? have + step : size;
        /* A copy of exactly that size, so that a look too far is seen, and moved each time. */
        char *copy = malloc(have);
        memcpy(copy, data, have);
        piecemeal = http_head_feed(&pieces, copy, have);
        free(copy);
    }
    assert(at_once == piecemeal);
    if (at_once < 0)
        assert(whole.why && whole.why[0]);
    if (at_once <= 0)
        return;
    size_t head_size = (size_t)at_once;
    assert(head_size <= size && head_size <= 4096 && whole.count == pieces.count &&
           whole.count <= 20);
    assert(!(whole.chunked && whole.length != HTTP_LENGTH_UNKNOWN));
    char *copy = malloc(head_size);
    memcpy(copy, data, head_size);
    assert(!memchr(copy, '\0', head_size));
    http_head_terminate(&whole, copy);
    for (unsigned i = 0; i < whole.count; i++) {
        check_span(whole.fields[i].name, head_size);
        check_span(whole.fields[i].value, head_size);
        assert(strlen(copy + whole.fields[i].name.at) == whole.fields[i].name.size);
        assert(strlen(copy + whole.fields[i].value.at) == whole.fields[i].value.size);
    }
    if (kind == HTTP_REQUEST) {
        check_span(whole.path, head_size);
        assert(strlen(copy + whole.method.at) == whole.method.size && whole.method.size > 0);
        assert(strlen(copy + whole.path.at) == whole.path.size);
        assert(whole.path.size == 0 || copy[whole.path.at] == '/');
        assert(whole.query.at == 0 || strlen(copy + whole.query.at) == whole.query.size);
    }
    free(copy);
}

/* The body in *ret; returns how much was taken, or -1. */
static ssize_t dechunk(const char *data, size_t size, size_t step, char *ret, size_t *ret_size)
{
    struct http_chunked chunked = {0};
    size_t at = 0;
    *ret_size = 0;
    while (at < size && !chunked.done) {
        const char *piece;
        size_t piece_size;
        size_t give = size - at < step ? size - at : step;
        ssize_t taken = http_chunked_feed(&chunked, data + at, give, &piece, &piece_size);
        if (taken < 0)
            return -1;
        assert(taken > 0 && (size_t)taken <= give);
        assert(piece >= data + at && piece + piece_size <= data + at + taken);
        memcpy(ret + *ret_size, piece, piece_size);
        *ret_size += piece_size;
        at += (size_t)taken;
    }
    return (ssize_t)at;
}

static void fuzz_chunked(unsigned step, const char *data, size_t size)
{
    char *one = malloc(size + 1), *two = malloc(size + 1);
    size_t one_size, two_size;
    ssize_t at_once = dechunk(data, size, size + 1, one, &one_size);
    ssize_t piecemeal = dechunk(data, size, step, two, &two_size);
    assert(at_once == piecemeal);
    if (at_once >= 0)
        assert(one_size == two_size && memcmp(one, two, one_size) == 0);
    free(one);
    free(two);
}

static void fuzz_decode(const char *data, size_t size)
{
    char *decoded = http_decode(data, size, size & 1);
    if (decoded)
        assert(strlen(decoded) <= size);
    free(decoded);
    char *query = malloc(size + 1);
    memcpy(query, data, size);
    query[size] = '\0';
    free(http_query_value(query, "a"));
    free(query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *text = (const char *)data + 2;
    unsigned step = data[1] % 16 + 1u;
    switch (data[0] % 4) {
    case 0:
        fuzz_head(HTTP_REQUEST, step, text, size - 2);
        break;
    case 1:
        fuzz_head(HTTP_RESPONSE, step, text, size - 2);
        break;
    case 2:
        fuzz_chunked(step, text, size - 2);
        break;
    default:
        fuzz_decode(text, size - 2);
    }
    return 0;
}
