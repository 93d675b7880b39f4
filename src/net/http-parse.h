/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.x heads and chunked bodies, from bytes that keep coming. No I/O, no allocation.

   A head is fed the same growing buffer again and again and looks at each byte once. What it finds
   it keeps as offsets, since a growing buffer moves. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HTTP_FIELDS_MAX 128

/* As in http-server.h, which a client need not include. */
#define HTTP_LENGTH_UNKNOWN UINT64_MAX

struct http_span {
    uint32_t at;
    uint32_t size;
};

struct http_field {
    struct http_span name;
    struct http_span value;
};

enum http_head_kind {
    HTTP_REQUEST,
    HTTP_RESPONSE,
};

struct http_head {
    enum http_head_kind kind;
    uint32_t bytes_max;
    unsigned fields_max;

    /* How far it got. */
    uint32_t line;    /* where the current line begins */
    uint32_t scanned; /* what was looked at for its end */
    bool started;     /* the first line is there */

    /* Of a request. An empty `path` means "/". `authority` is that of an absolute target. */
    struct http_span method;
    struct http_span authority;
    struct http_span path;
    struct http_span query;
    /* Of a response. */
    int status;

    unsigned minor;  /* HTTP/1.0 or 1.1 */
    uint64_t length; /* Content-Length; HTTP_LENGTH_UNKNOWN: chunked, or (responses) not said */
    bool chunked;
    bool keep_alive;
    bool expect_continue;
    bool upgrade; /* "Connection" lists it */
    uint32_t seen;
    bool close_option;
    bool keep_alive_option;

    const char *why; /* of a refusal; a sentence's beginning */
    unsigned count;
    struct http_field fields[HTTP_FIELDS_MAX];
};

/* `fields_max` is cut to HTTP_FIELDS_MAX. */
void http_head_init(struct http_head *head, enum http_head_kind kind, size_t bytes_max,
                    unsigned fields_max);
/* The whole of what is there so far. Returns 0: more is needed; the size of the head, with its
   empty line; or minus the status that says what is wrong with it (400, 413, 414, 417, 431, 501,
   505), with `why` set. */
ssize_t http_head_feed(struct http_head *head, const char *data, size_t size);
/* The first field of that name; NULL if there is none. `data` is what the head was parsed from. */
const struct http_field *http_head_find(const struct http_head *head, const char *data,
                                        const char *name);
/* Makes strings of what the spans point to, by NULs over the separators behind them. */
void http_head_terminate(const struct http_head *head, char *data);

/* --- chunked bodies ------------------------------------------------------------------------------
 */

struct http_chunked {
    unsigned state;
    unsigned digits;
    uint64_t left;  /* of the current chunk */
    unsigned extra; /* bytes of extensions and trailers, all together */
    bool done;
};

/* Takes some of `data`: up to and including the next run of body bytes. Returns how much it took,
   or -1 if it is malformed; *ret_piece points into `data` and is empty (size 0) where there were
   only sizes and line ends. Call it until everything is taken or `done` is set; what is behind the
   end of the body is left alone. */
ssize_t http_chunked_feed(struct http_chunked *chunked, const char *data, size_t size,
                          const char **ret_piece, size_t *ret_size);

/* --- words ---------------------------------------------------------------------------------------
 */

/* The reason phrase; "Status" for one that is not known. */
const char *http_status_text(int status);
bool http_token_char(unsigned char c);
/* Whether `list` ("a, b") has the word, in any case. */
bool http_list_has(const char *list, size_t size, const char *word);
