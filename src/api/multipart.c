/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data: parts between boundaries, each with a few headers. */
#include "api/multipart.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"
#include "core/utf8.h"

#define HEADERS_MAX 4096 /* of a part */

static int malformed(struct error *err, const char *what)
{
    return error_set(err, ERROR_INVALID, "not a form: %s", what);
}

/* --- values with parameters: form-data; name="a"; filename="b; c" --- */

/* What is left of a value. */
struct value {
    const char *at;
    const char *end;
};

struct parameter {
    const char *name;
    size_t name_size;
    char text[256];
    bool too_long;
};

static void skip_blanks(struct value *value)
{
    while (value->at < value->end && (*value->at == ' ' || *value->at == '\t'))
        value->at++;
}

/* Up to one of `stops`, or the end. */
static size_t token_size(const struct value *value, const char *stops)
{
    size_t size = 0;
    while (value->at + size < value->end && !strchr(stops, value->at[size]))
        size++;
    return size;
}

static void add_byte(struct parameter *to, size_t *used, char byte)
{
    if (*used + 1 < sizeof to->text)
        to->text[(*used)++] = byte;
    else
        to->too_long = true;
}

/* Browsers escape a quotation mark as %22, curl by a backslash; other backslashes are the name's
   own, as in C:\skills.zip. */
static bool read_quoted(struct value *value, struct parameter *ret)
{
    size_t used = 0;
    for (value->at++; value->at < value->end && *value->at != '"'; value->at++) {
        if (*value->at == '\\' && value->at + 1 < value->end &&
            (value->at[1] == '"' || value->at[1] == '\\'))
            value->at++;
        add_byte(ret, &used, *value->at);
    }
    ret->text[used] = '\0';
    if (value->at == value->end)
        return false;
    value->at++;
    return true;
}

static void read_plain(struct value *value, struct parameter *ret)
{
    size_t size = token_size(value, "; \t");
    size_t used = 0;
    for (size_t i = 0; i < size; i++)
        add_byte(ret, &used, value->at[i]);
    ret->text[used] = '\0';
    value->at += size;
}

/* The next one: 1, 0: there are no more, -1: it is none. */
static int next_parameter(struct value *value, struct parameter *ret)
{
    ret->too_long = false;
    skip_blanks(value);
    if (value->at == value->end)
        return 0;
    if (*value->at != ';')
        return -1;
    value->at++;
    skip_blanks(value);
    ret->name = value->at;
    ret->name_size = token_size(value, "=; \t\"");
    value->at += ret->name_size;
    if (ret->name_size == 0 || value->at == value->end || *value->at != '=')
        return -1;
    value->at++;
    if (value->at < value->end && *value->at == '"')
        return read_quoted(value, ret) ? 1 : -1;
    read_plain(value, ret);
    return 1;
}

static bool is_named(const struct parameter *parameter, const char *name)
{
    return parameter->name_size == strlen(name) &&
           strncasecmp(parameter->name, name, parameter->name_size) == 0;
}

/* --- the boundary --- */

int multipart_boundary(const char *type, char **ret, struct error *err)
{
    struct value value = {type, type + strlen(type)};
    struct parameter parameter;
    value.at += token_size(&value, "; \t");
    while (next_parameter(&value, &parameter) > 0) {
        size_t size = strlen(parameter.text);
        if (!is_named(&parameter, "boundary"))
            continue;
        if (size == 0 || size > MULTIPART_BOUNDARY_MAX || parameter.too_long)
            break;
        *ret = xstrdup(parameter.text);
        return 0;
    }
    return malformed(err, "the Content-Type names no boundary of 1 to 70 characters");
}

int multipart_begin(struct multipart *form, const char *boundary, const char *body, size_t size,
                    struct error *err)
{
    *form = (struct multipart){.end = body + size};
    int length = snprintf(form->boundary, sizeof form->boundary, "\r\n--%s", boundary);
    form->boundary_size = (size_t)length;
    if (form->boundary_size >= sizeof form->boundary)
        return malformed(err, "its boundary is too long");
    /* The first has no line break before it, unless there is something to be skipped. */
    if (size >= form->boundary_size - 2 &&
        memcmp(body, form->boundary + 2, form->boundary_size - 2) == 0) {
        form->at = body + form->boundary_size - 2;
        return 0;
    }
    const char *first = memmem(body, size, form->boundary, form->boundary_size);
    if (!first)
        return malformed(err, "its boundary is not in it");
    form->at = first + form->boundary_size;
    return 0;
}

/* --- parts --- */

static bool is_clean(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return utf8_valid(text, size);
}

static int read_disposition(struct value value, struct multipart_part *ret, struct error *err)
{
    struct parameter parameter;
    int more;
    bool named = false;
    if (!is_clean(value.at, (size_t)(value.end - value.at)))
        return malformed(err, "a Content-Disposition that is not UTF-8, or has control characters");
    skip_blanks(&value);
    size_t size = token_size(&value, "; \t");
    if (size != 9 || strncasecmp(value.at, "form-data", 9) != 0)
        return malformed(err, "a part that is not form-data");
    value.at += size;
    while ((more = next_parameter(&value, &parameter)) > 0) {
        bool name = is_named(&parameter, "name");
        char *to = name ? ret->name : ret->filename;
        size_t room = name ? sizeof ret->name : sizeof ret->filename;
        if (!name && !is_named(&parameter, "filename"))
            continue;
        if (*to)
            return malformed(err, "a part with two names");
        if (parameter.too_long || strlen(parameter.text) >= room)
            return malformed(err, "a part with a name that is too long");
        strcpy(to, parameter.text);
        named = named || name;
    }
    if (more < 0)
        return malformed(err, "a Content-Disposition that is none");
    return named ? 0 : malformed(err, "a part without a name");
}

/* Of the headers, which are lines, only one is of interest. */
static int read_headers(const char *text, const char *limit, struct multipart_part *ret,
                        struct error *err)
{
    static const char wanted[] = "content-disposition:";
    const size_t size = sizeof wanted - 1;
    while (text < limit) {
        const char *end = memmem(text, (size_t)(limit - text), "\r\n", 2);
        if (!end)
            end = limit;
        if ((size_t)(end - text) >= size && strncasecmp(text, wanted, size) == 0)
            return read_disposition((struct value){text + size, end}, ret, err);
        text = end + 2;
    }
    return malformed(err, "a part without Content-Disposition");
}

int multipart_next(struct multipart *form, struct multipart_part *ret, struct error *err)
{
    size_t left = (size_t)(form->end - form->at);
    if (left >= 2 && memcmp(form->at, "--", 2) == 0)
        return 0;
    if (++form->count > MULTIPART_PARTS_MAX)
        return malformed(err, "too many parts");
    /* White space may stand behind a boundary. */
    while (form->at < form->end && (*form->at == ' ' || *form->at == '\t'))
        form->at++;
    left = (size_t)(form->end - form->at);
    if (left < 2 || memcmp(form->at, "\r\n", 2) != 0)
        return malformed(err, "a boundary that does not end its line");
    /* Their end is an empty line, which may be the first. */
    const char *headers_end =
        memmem(form->at, left < HEADERS_MAX ? left : HEADERS_MAX, "\r\n\r\n", 4);
    if (!headers_end)
        return malformed(err, "a part whose headers do not end");
    const char *headers = form->at + 2;
    const char *data = headers_end + 4;
    /* What is between the empty line and a boundary right behind it is nothing. */
    const char *end =
        memmem(data - 2, (size_t)(form->end - data) + 2, form->boundary, form->boundary_size);
    if (!end)
        return malformed(err, "a part that does not end");
    *ret = (struct multipart_part){.data = data, .size = end < data ? 0 : (size_t)(end - data)};
    form->at = end + form->boundary_size;
    return read_headers(headers, headers_end, ret, err) < 0 ? -1 : 1;
}
