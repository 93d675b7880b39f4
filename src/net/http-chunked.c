/* SPDX-License-Identifier: Apache-2.0 */
/* Chunked bodies: sizes, line ends and trailers go, the bytes between them stay. */
#include "net/http-parse.h"

/* An extension and a trailer mean nothing here; a sender that has much of them means no good. */
#define EXTRA_MAX 8192

enum chunk_state {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER_START, /* the beginning of a line behind the last chunk */
    CHUNK_TRAILER,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF,
};

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* A character of an extension or a trailer, which is counted and otherwise ignored. */
static bool extra_char(struct http_chunked *chunked, char c)
{
    return (c == '\t' || (unsigned char)c >= 0x20) && c != 0x7f && ++chunked->extra <= EXTRA_MAX;
}

static bool size_char(struct http_chunked *chunked, char c)
{
    int value = hex_value(c);
    if (value >= 0) {
        /* Fifteen digits: no sum of such sizes that anybody can send overflows. */
        if (++chunked->digits > 15)
            return false;
        chunked->left = chunked->left << 4 | (unsigned)value;
        return true;
    }
    if (chunked->digits == 0 || (c != '\r' && c != ';'))
        return false;
    chunked->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
    return true;
}

/* One byte of what is not body. */
static bool step(struct http_chunked *chunked, char c)
{
    switch ((enum chunk_state)chunked->state) {
    case CHUNK_SIZE:
        return size_char(chunked, c);
    case CHUNK_EXTENSION:
        if (c != '\r')
            return extra_char(chunked, c);
        chunked->state = CHUNK_SIZE_LF;
        return true;
    case CHUNK_SIZE_LF:
        chunked->state = chunked->left ? CHUNK_DATA : CHUNK_TRAILER_START;
        chunked->digits = 0;
        return c == '\n';
    case CHUNK_DATA_CR:
        chunked->state = CHUNK_DATA_LF;
        return c == '\r';
    case CHUNK_DATA_LF:
        chunked->state = CHUNK_SIZE;
        return c == '\n';
    case CHUNK_TRAILER_START:
        chunked->state = c == '\r' ? CHUNK_END_LF : CHUNK_TRAILER;
        return c == '\r' || (http_token_char((unsigned char)c) && extra_char(chunked, c));
    case CHUNK_TRAILER:
        if (c != '\r')
            return extra_char(chunked, c);
        chunked->state = CHUNK_TRAILER_LF;
        return true;
    case CHUNK_TRAILER_LF:
        chunked->state = CHUNK_TRAILER_START;
        return c == '\n';
    case CHUNK_END_LF:
        chunked->done = true;
        return c == '\n';
    case CHUNK_DATA:
        break;
    }
    return false;
}

ssize_t http_chunked_feed(struct http_chunked *chunked, const char *data, size_t size,
                          const char **ret_piece, size_t *ret_size)
{
    size_t i = 0;
    *ret_piece = data;
    *ret_size = 0;
    while (i < size && !chunked->done && chunked->state != CHUNK_DATA)
        if (!step(chunked, data[i++]))
            return -1;
    if (chunked->state != CHUNK_DATA || i == size)
        return (ssize_t)i;
    size_t run = size - i < chunked->left ? size - i : (size_t)chunked->left;
    *ret_piece = data + i;
    *ret_size = run;
    chunked->left -= run;
    if (chunked->left == 0)
        chunked->state = CHUNK_DATA_CR;
    return (ssize_t)(i + run);
}
