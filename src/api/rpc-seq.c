/* SPDX-License-Identifier: Apache-2.0 */
/* The number of a request, as text. */
#include "api/rpc-seq.h"

#include <stdbool.h>
#include <string.h>

#include "core/mem.h"

#define KEY "\"seq_id\""

/* Behind the string that begins at `at`. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\' && at + 1 < end;
    return at < end ? at + 1 : end;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    return at;
}

/* Where the value of the outermost seq_id begins (of several the last: that is the one that JSON
   readers take); NULL: it is written in some other way. The text is well-formed. */
static const char *find_value(const char *at, const char *end)
{
    const char *found = NULL;
    unsigned depth = 0;
    while (at < end) {
        if (*at == '"') {
            const char *behind = skip_string(at, end);
            bool is_key = depth == 1 && (size_t)(behind - at) == strlen(KEY) &&
                          memcmp(at, KEY, strlen(KEY)) == 0;
            at = skip_space(behind, end);
            if (is_key && at < end && *at == ':')
                found = skip_space(at + 1, end);
            continue;
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
    }
    return found;
}

char *rpc_seq_text(const json_t *message, const char *text, size_t size)
{
    const json_t *value = json_object_get(message, "seq_id");
    const char *end = text + size;
    if (json_is_integer(value))
        return xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    /* What has too many digits has become something else. */
    const char *at = json_is_real(value) ? find_value(text, end) : NULL;
    if (!at)
        return NULL;
    size_t digits = at < end && *at == '-';
    while (at + digits < end && at[digits] >= '0' && at[digits] <= '9' && digits <= RPC_SEQ_DIGITS)
        digits++;
    bool whole = at + digits < end && strchr(",} \t\r\n", at[digits]) && at[digits];
    return whole && digits <= RPC_SEQ_DIGITS ? xstrndup(at, digits) : NULL;
}
