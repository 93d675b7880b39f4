/* SPDX-License-Identifier: Apache-2.0 */
/* Words of HTTP: characters of a token, reason phrases, percent-encoding. No I/O. */
#include <string.h>

#include "core/mem.h"
#include "net/http-parse.h"
#include "net/http-server.h"

/* RFC 9110, 5.6.2: !#$%&'*+-.^_`|~, digits and letters; a bit for each. */
static const uint32_t token_chars[8] = {
    0,
    1u << ('!' - 32) | 1u << ('#' - 32) | 1u << ('$' - 32) | 1u << ('%' - 32) | 1u << ('&' - 32) |
        1u << ('\'' - 32) | 1u << ('*' - 32) | 1u << ('+' - 32) | 1u << ('-' - 32) |
        1u << ('.' - 32) | 0x3ffu << ('0' - 32),
    0x3ffffffu << ('A' - 64) | 1u << ('^' - 64) | 1u << ('_' - 64),
    1u << ('`' - 96) | 0x3ffffffu << ('a' - 96) | 1u << ('|' - 96) | 1u << ('~' - 96),
};

bool http_token_char(unsigned char c)
{
    return token_chars[c >> 5] >> (c & 31) & 1;
}

static const struct {
    int status;
    const char *text;
} status_texts[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_status_text(int status)
{
    for (size_t i = 0; i < ARRAY_SIZE(status_texts); i++)
        if (status_texts[i].status == status)
            return status_texts[i].text;
    return "Status";
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

char *http_decode(const char *text, size_t size, bool plus)
{
    cleanup_free char *out = xmalloc(size + 1);
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        int c = (unsigned char)text[i];
        if (c == '%') {
            int high = i + 2 < size ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < size ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return NULL;
            c = high << 4 | low;
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0')
            return NULL;
        out[used++] = (char)c;
    }
    out[used] = '\0';
    return steal_ptr(out);
}

char *http_query_value(const char *query, const char *name)
{
    while (*query) {
        size_t size = strcspn(query, "&");
        const char *equals = memchr(query, '=', size);
        size_t key_size = equals ? (size_t)(equals - query) : size;
        cleanup_free char *key = http_decode(query, key_size, true);
        if (key && strcmp(key, name) == 0)
            return equals ? http_decode(equals + 1, size - key_size - 1, true) : xstrdup("");
        query += size;
        if (*query == '&')
            query++;
    }
    return NULL;
}
