/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.x heads, strictly. Where the specification lets a server be lenient and two servers could
   then disagree about where a message ends, this one refuses: that disagreement is what request
   smuggling is made of. */
#include "net/http-parse.h"

#include <string.h>
#include <strings.h>

#define METHOD_MAX 32

/* Fields that are looked at here, or that mean something else if given twice. */
#define KNOWN_FIELDS(X)                               \
    X(HOST, "host")                                   \
    X(CONTENT_LENGTH, "content-length")               \
    X(TRANSFER_ENCODING, "transfer-encoding")         \
    X(AUTHORIZATION, "authorization")                 \
    X(ORIGIN, "origin")                               \
    X(CONTENT_TYPE, "content-type")                   \
    X(CONTENT_ENCODING, "content-encoding")           \
    X(EXPECT, "expect")                               \
    X(REFERER, "referer")                             \
    X(USER_AGENT, "user-agent")                       \
    X(SEC_FETCH_SITE, "sec-fetch-site")               \
    X(SEC_WEBSOCKET_KEY, "sec-websocket-key")         \
    X(SEC_WEBSOCKET_VERSION, "sec-websocket-version") \
    X(IF_MATCH, "if-match")                           \
    X(IF_NONE_MATCH, "if-none-match")                 \
    X(CONNECTION, "connection") /* may be repeated: it is a list */

enum known_field {
#define X(name, text) FIELD_##name,
    KNOWN_FIELDS(X)
#undef X
        FIELD_MAX,
};

static const struct {
    const char *name;
    size_t size;
} known_fields[] = {
#define X(name, text) {text, sizeof text - 1},
    KNOWN_FIELDS(X)
#undef X
};

static ssize_t refuse(struct http_head *head, int status, const char *why)
{
    head->why = why;
    return -status;
}

void http_head_init(struct http_head *head, enum http_head_kind kind, size_t bytes_max,
                    unsigned fields_max)
{
    /* Not the fields: they are the bulk of it, and `count` says which are there. */
    memset(head, 0, offsetof(struct http_head, fields));
    head->kind = kind;
    head->bytes_max = bytes_max < UINT32_MAX / 2 ? (uint32_t)bytes_max : UINT32_MAX / 2;
    head->fields_max = fields_max < HTTP_FIELDS_MAX ? fields_max : HTTP_FIELDS_MAX;
}

static bool span_is(const char *data, struct http_span span, const char *word)
{
    return strlen(word) == span.size && strncasecmp(data + span.at, word, span.size) == 0;
}

/* Without control characters. */
static bool text_valid(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* "HTTP/1.1" */
static int parse_version(struct http_head *head, const char *text, size_t size)
{
    if (size != 8 || memcmp(text, "HTTP/", 5) != 0 || text[5] < '0' || text[5] > '9' ||
        text[6] != '.' || text[7] < '0' || text[7] > '9')
        return -400;
    if (text[5] != '1' || text[7] > '1')
        return -505;
    head->minor = (unsigned)(text[7] - '0');
    return 0;
}

static bool host_valid(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x80 || c <= 0x20 || strchr("\"#,/<>?@\\^`{|}\x7f", c))
            return false;
    }
    return size > 0;
}

/* "/path?query", or the same behind "http://host". */
static bool parse_target(struct http_head *head, const char *data, uint32_t at, uint32_t end)
{
    for (uint32_t i = at; i < end; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c <= 0x20 || c >= 0x7f || c == '#')
            return false;
    }
    if (data[at] != '/') {
        if (end - at < 8 || strncasecmp(data + at, "http://", 7) != 0)
            return false;
        at += 7;
        head->authority.at = at;
        while (at < end && data[at] != '/' && data[at] != '?')
            at++;
        head->authority.size = at - head->authority.at;
        if (!host_valid(data + head->authority.at, head->authority.size))
            return false;
    }
    const char *mark = memchr(data + at, '?', end - at);
    uint32_t path_end = mark ? (uint32_t)(mark - data) : end;
    head->path = (struct http_span){at, path_end - at};
    if (mark)
        head->query = (struct http_span){path_end + 1, end - path_end - 1};
    return true;
}

static ssize_t parse_request_line(struct http_head *head, const char *data, uint32_t at,
                                  uint32_t end)
{
    uint32_t from = at;
    while (at < end && http_token_char((unsigned char)data[at]))
        at++;
    head->method = (struct http_span){from, at - from};
    if (at == from || at - from > METHOD_MAX || at >= end || data[at] != ' ')
        return refuse(head, 400, "the request line is malformed");
    const char *space = memchr(data + at + 1, ' ', end - at - 1);
    if (!space)
        return refuse(head, 400, "the request line has no version");
    uint32_t target_end = (uint32_t)(space - data);
    int r = parse_version(head, space + 1, end - target_end - 1);
    if (r == -505)
        return refuse(head, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    if (r < 0)
        return refuse(head, 400, "the request line is malformed");
    if (target_end == at + 1 || !parse_target(head, data, at + 1, target_end))
        return refuse(head, 400, "the request target is malformed");
    return 0;
}

/* "HTTP/1.1 200 OK"; the reason may be empty, and its space missing. */
static ssize_t parse_status_line(struct http_head *head, const char *data, uint32_t at,
                                 uint32_t end)
{
    if (end - at < 12 || data[at + 8] != ' ' || parse_version(head, data + at, 8) < 0)
        return refuse(head, 400, "the status line is malformed");
    for (uint32_t i = at + 9; i < at + 12; i++) {
        if (data[i] < '0' || data[i] > '9')
            return refuse(head, 400, "the status is malformed");
        head->status = head->status * 10 + (data[i] - '0');
    }
    if (head->status < 100 || (end > at + 12 && data[at + 12] != ' ') ||
        !text_valid(data + at, end - at))
        return refuse(head, 400, "the status is malformed");
    return 0;
}

static ssize_t parse_length(struct http_head *head, const char *text, size_t size)
{
    uint64_t value = 0;
    bool overflow = false;
    if (size == 0)
        return refuse(head, 400, "Content-Length is empty");
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return refuse(head, 400, "Content-Length is not a number");
        overflow |= __builtin_mul_overflow(value, 10u, &value);
        overflow |= __builtin_add_overflow(value, (unsigned)(text[i] - '0'), &value);
    }
    /* The largest number stands for "unknown" and so cannot be one. */
    if (overflow || value == HTTP_LENGTH_UNKNOWN)
        return refuse(head, 413, "Content-Length is larger than any body can be");
    head->length = value;
    return 0;
}

bool http_list_has(const char *list, size_t size, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i < size;) {
        while (i < size && (list[i] == ',' || list[i] == ' ' || list[i] == '\t'))
            i++;
        size_t from = i;
        while (i < size && list[i] != ',')
            i++;
        size_t end = i;
        while (end > from && (list[end - 1] == ' ' || list[end - 1] == '\t'))
            end--;
        if (end - from == length && strncasecmp(list + from, word, length) == 0)
            return true;
    }
    return false;
}

static ssize_t apply_known(struct http_head *head, enum known_field id, const char *text,
                           size_t size)
{
    switch (id) {
    case FIELD_HOST:
        if (!host_valid(text, size))
            return refuse(head, 400, "Host is malformed");
        return 0;
    case FIELD_CONTENT_LENGTH:
        return parse_length(head, text, size);
    case FIELD_TRANSFER_ENCODING:
        if (size != 7 || strncasecmp(text, "chunked", 7) != 0)
            return refuse(head, 501, "the only Transfer-Encoding known here is chunked");
        head->chunked = true;
        return 0;
    case FIELD_EXPECT:
        if (head->kind == HTTP_REQUEST &&
            (size != 12 || strncasecmp(text, "100-continue", 12) != 0))
            return refuse(head, 417, "the only Expect known here is 100-continue");
        head->expect_continue = true;
        return 0;
    case FIELD_CONNECTION:
        head->close_option |= http_list_has(text, size, "close");
        head->keep_alive_option |= http_list_has(text, size, "keep-alive");
        head->upgrade |= http_list_has(text, size, "upgrade");
        return 0;
    default:
        return 0;
    }
}

static ssize_t parse_field(struct http_head *head, const char *data, uint32_t at, uint32_t end)
{
    if (head->count == head->fields_max)
        return refuse(head, 431, "there are too many header fields");
    uint32_t colon = at;
    while (colon < end && http_token_char((unsigned char)data[colon]))
        colon++;
    /* Also what a folded line and a space before the colon come to. */
    if (colon == at || colon == end || data[colon] != ':')
        return refuse(head, 400, "a header field is malformed");
    uint32_t from = colon + 1;
    while (from < end && (data[from] == ' ' || data[from] == '\t'))
        from++;
    while (end > from && (data[end - 1] == ' ' || data[end - 1] == '\t'))
        end--;
    if (!text_valid(data + from, end - from))
        return refuse(head, 400, "a header field has a control character in it");
    struct http_field *field = &head->fields[head->count++];
    field->name = (struct http_span){at, colon - at};
    field->value = (struct http_span){from, end - from};
    for (unsigned id = 0; id < FIELD_MAX; id++) {
        if (known_fields[id].size != field->name.size ||
            strncasecmp(data + at, known_fields[id].name, field->name.size) != 0)
            continue;
        if ((head->seen & (1u << id)) && id != FIELD_CONNECTION)
            return refuse(head, 400, "a header field that may be there once is there twice");
        head->seen |= 1u << id;
        return apply_known(head, (enum known_field)id, data + from, end - from);
    }
    return 0;
}

/* What only the whole head can tell. */
static ssize_t finish(struct http_head *head, const char *data)
{
    bool length = head->seen & (1u << FIELD_CONTENT_LENGTH);
    if (head->chunked && length)
        return refuse(head, 400, "Content-Length and Transfer-Encoding exclude each other");
    if (head->chunked && head->minor == 0)
        return refuse(head, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (head->chunked || (head->kind == HTTP_RESPONSE && !length))
        head->length = HTTP_LENGTH_UNKNOWN;
    head->keep_alive = !head->close_option && (head->minor == 1 || head->keep_alive_option);
    if (head->minor == 0)
        head->expect_continue = false;
    if (head->kind == HTTP_RESPONSE)
        return 0;
    const struct http_field *host = http_head_find(head, data, "host");
    if (!host && head->minor == 1)
        return refuse(head, 400, "Host is missing");
    if (head->authority.size && host &&
        (host->value.size != head->authority.size ||
         strncasecmp(data + host->value.at, data + head->authority.at, host->value.size) != 0))
        return refuse(head, 400, "Host is not that of the request target");
    return 0;
}

static ssize_t too_long(struct http_head *head)
{
    if (head->started)
        return refuse(head, 431, "the header fields are too long");
    return refuse(head, head->kind == HTTP_REQUEST ? 414 : 431, "the request line is too long");
}

ssize_t http_head_feed(struct http_head *head, const char *data, size_t size)
{
    /* One empty line in front: some clients end their last body with it. */
    if (head->line == 0 && size >= 2 && data[0] == '\r' && data[1] == '\n')
        head->line = head->scanned = 2;
    /* No need to wait for the end of a line that is none: TLS, or some other protocol. */
    if (!head->started && size > head->line && !(head->line == 0 && data[0] == '\r') &&
        !http_token_char((unsigned char)data[head->line]))
        return refuse(head, 400, "this is not HTTP");
    size_t look = size < head->bytes_max ? size : head->bytes_max;
    while (head->scanned < look) {
        const char *newline = memchr(data + head->scanned, '\n', look - head->scanned);
        if (!newline) {
            head->scanned = (uint32_t)look;
            break;
        }
        uint32_t next = (uint32_t)(newline - data) + 1;
        uint32_t end = next - 2;
        if (next - head->line < 2 || data[end] != '\r')
            return refuse(head, 400, "a line does not end in CR LF");
        uint32_t at = head->line;
        head->line = head->scanned = next;
        ssize_t r;
        if (!head->started) {
            r = head->kind == HTTP_REQUEST ? parse_request_line(head, data, at, end)
                                           : parse_status_line(head, data, at, end);
            head->started = true;
        } else if (end == at) {
            r = finish(head, data);
            return r < 0 ? r : (ssize_t)next;
        } else {
            r = parse_field(head, data, at, end);
        }
        if (r < 0)
            return r;
    }
    return size >= head->bytes_max ? too_long(head) : 0;
}

const struct http_field *http_head_find(const struct http_head *head, const char *data,
                                        const char *name)
{
    for (unsigned i = 0; i < head->count; i++)
        if (span_is(data, head->fields[i].name, name))
            return &head->fields[i];
    return NULL;
}

static void terminate(char *data, struct http_span span)
{
    if (span.at)
        data[span.at + span.size] = '\0';
}

void http_head_terminate(const struct http_head *head, char *data)
{
    if (head->kind == HTTP_REQUEST) {
        data[head->method.at + head->method.size] = '\0';
        terminate(data, head->path);
        terminate(data, head->query);
    }
    for (unsigned i = 0; i < head->count; i++) {
        terminate(data, head->fields[i].name);
        terminate(data, head->fields[i].value);
    }
}
