/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data: parts between boundaries, each with a few headers. */
#include "api/multipart.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HEADERS_MAX 4096 /* of a part */

static int malformed(struct error *err, const char *what)
{
    return error_set(err, ERROR_INVALID, "not a form: %s", what);
}

/* The value of `; name=value` or `; name="value"` behind `text`, at most `size`; -1: it is not there,
   or too long. */
static int parameter(const char *text, const char *limit, const char *name, char *ret, size_t size)
{
    size_t length = strlen(name);
    while (text < limit) {
        const char *semicolon = memchr(text, ';', (size_t)(limit - text));
        if (!semicolon)
            return -1;
        text = semicolon + 1;
        while (text < limit && (*text == ' ' || *text == '\t'))
            text++;
        if ((size_t)(limit - text) <= length || strncasecmp(text, name, length) != 0 ||
            text[length] != '=')
            continue;
        text += length + 1;
        bool quoted = text < limit && *text == '"';
        size_t used = 0;
        for (text += quoted; text < limit; text++) {
            if (quoted ? *text == '"' : (*text == ';' || *text == ' ' || *text == '\t'))
                break;
            if (quoted && *text == '\\' && text + 1 < limit)
                text++;
            if (used + 1 >= size)
                return -1;
            ret[used++] = *text;
        }
        ret[used] = '\0';
        return 0;
    }
    return -1;
}

static bool at_end(struct multipart *form)
{
    return form->end - form->at >= 2 && form->at[0] == '-' && form->at[1] == '-';
}

int multipart_begin(struct multipart *form, const char *type, const char *body, size_t size,
                    struct error *err)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    *form = (struct multipart){.end = body + size};
    if (strncasecmp(type, "multipart/form-data", 19) != 0 ||
        parameter(type, type + strlen(type), "boundary", boundary, sizeof boundary) < 0 ||
        !boundary[0])
        return malformed(err, "the Content-Type names no boundary");
    form->boundary_size =
        (size_t)snprintf(form->boundary, sizeof form->boundary, "\r\n--%s", boundary);
    /* The first has no line break before it, unless there is something to be skipped. */
    if (size >= form->boundary_size - 2 &&
        memcmp(body, form->boundary + 2, form->boundary_size - 2) == 0) {
        form->at = body + form->boundary_size - 2;
        return 0;
    }
    const char *first = memmem(body, size, form->boundary, form->boundary_size);
    if (!first)
        return malformed(err, "it does not begin with its boundary");
    form->at = first + form->boundary_size;
    return 0;
}

static int read_headers(const char *text, const char *limit, struct multipart_part *ret,
                        struct error *err)
{
    static const char wanted[] = "content-disposition:";
    while (text < limit) {
        const char *end = memmem(text, (size_t)(limit - text), "\r\n", 2);
        if (!end)
            end = limit;
        if ((size_t)(end - text) > sizeof wanted - 1 &&
            strncasecmp(text, wanted, sizeof wanted - 1) == 0) {
            if (parameter(text, end, "name", ret->name, sizeof ret->name) < 0)
                return malformed(err, "a part without a name, or with one that is too long");
            if (parameter(text, end, "filename", ret->filename, sizeof ret->filename) < 0)
                ret->filename[0] = '\0';
            return 0;
        }
        text = end + 2;
    }
    return malformed(err, "a part without Content-Disposition");
}

int multipart_next(struct multipart *form, struct multipart_part *ret, struct error *err)
{
    if (!form->at || at_end(form))
        return 0;
    if (++form->count > MULTIPART_PARTS_MAX)
        return malformed(err, "too many parts");
    /* White space may stand behind a boundary. */
    while (form->at < form->end && (*form->at == ' ' || *form->at == '\t'))
        form->at++;
    size_t left = (size_t)(form->end - form->at);
    if (left < 2 || memcmp(form->at, "\r\n", 2) != 0)
        return malformed(err, "a boundary that does not end its line");
    const char *headers = form->at + 2;
    left -= 2;
    const char *data = memmem(form->at, left < HEADERS_MAX ? left + 2 : HEADERS_MAX, "\r\n\r\n", 4);
    if (!data)
        return malformed(err, "a part whose headers do not end");
    const char *limit = data < headers ? headers : data;
    data += 4;
    const char *end = memmem(data, (size_t)(form->end - data), form->boundary, form->boundary_size);
    if (!end)
        return malformed(err, "a part that does not end");
    *ret = (struct multipart_part){.data = data, .size = (size_t)(end - data)};
    form->at = end + form->boundary_size;
    return read_headers(headers, limit, ret, err) < 0 ? -1 : 1;
}
