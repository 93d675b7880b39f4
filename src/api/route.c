/* SPDX-License-Identifier: Apache-2.0 */
/* Which handler a request is for, and what its path and query say. */
#include "api/route.h"

#include <stdbool.h>
#include <string.h>

#include "core/mem.h"
#include "core/parse.h"
#include "net/http-server.h"

#define QUERY_PARTS_MAX 64

struct span {
    const char *data;
    size_t size;
};

static bool fits(const char *pattern, const char *path, struct span *ret, size_t *ret_count)
{
    size_t count = 0;
    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        const char *end = strchr(pattern, '}');
        bool rest = end[-1] == '.';
        size_t size = rest ? strlen(path) : strcspn(path, "/");
        if (size == 0 && !rest)
            return false;
        ret[count++] = (struct span){path, size};
        path += size;
        pattern = end + 1;
    }
    *ret_count = count;
    return *path == '\0';
}

/* The server leaves out the body of an answer to HEAD: the handler need not know. */
static bool takes_head(const struct route *route)
{
    return strcmp(route->method, "GET") == 0 && !(route->flags & (ROUTE_SOCKET | ROUTE_ENDLESS));
}

static bool takes(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 || (strcmp(method, "HEAD") == 0 && takes_head(route));
}

static void add_method(char *list, size_t size, const char *method)
{
    size_t used = strlen(list);
    if (!strstr(list, method))
        snprintf(list + used, size - used, "%s%s", used ? ", " : "", method);
}

static void add_methods(char *list, size_t size, const struct route *route)
{
    add_method(list, size, route->method);
    if (takes_head(route))
        add_method(list, size, "HEAD");
}

enum route_result route_match(const struct route *routes, size_t count, const char *method,
                              const char *path, struct route_match *ret)
{
    struct span spans[ROUTE_PARAMS_MAX];
    size_t span_count;
    bool literal = false;
    *ret = (struct route_match){0};
    for (size_t i = 0; i < count; i++) {
        if (!fits(routes[i].pattern, path, spans, &span_count))
            continue;
        if (!takes(&routes[i], method)) {
            /* Of what has a path of its own, and is not just a name like others, only that one's
               methods are told: literal patterns come first in the table. */
            literal = literal || span_count == 0;
            if (!literal || span_count == 0)
                add_methods(ret->allow, sizeof ret->allow, &routes[i]);
            continue;
        }
        ret->route = &routes[i];
        for (size_t j = 0; j < span_count; j++) {
            ret->params[j] = http_decode(spans[j].data, spans[j].size, false);
            if (!ret->params[j])
                return ROUTE_MALFORMED;
        }
        return ROUTE_FOUND;
    }
    return ret->allow[0] ? ROUTE_OTHER_METHOD : ROUTE_NONE;
}

void route_match_release(struct route_match *match)
{
    for (size_t i = 0; i < ROUTE_PARAMS_MAX; i++)
        free(match->params[i]);
    *match = (struct route_match){0};
}

/* The value as the field would have it in JSON; what does not fit stays text, for the decoder to
   refuse with the right words. NULL: not UTF-8. */
static json_t *query_value(const struct field *field, const char *text)
{
    uint64_t number;
    switch (field ? field->kind : FIELD_TEXT) {
    case FIELD_FLAG:
        if (!text[0] || strcmp(text, "true") == 0 || strcmp(text, "1") == 0)
            return json_true();
        if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
            return json_false();
        break;
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
        if (parse_u64(text, INT64_MAX, &number) == 0)
            return json_integer((json_int_t)number);
        break;
    default:
        break;
    }
    return json_string(text);
}

static int add_part(json_t *object, const char *part, size_t size, const struct field *table,
                    size_t count, struct error *err)
{
    const char *equals = memchr(part, '=', size);
    size_t name_size = equals ? (size_t)(equals - part) : size;
    cleanup_free char *name = http_decode(part, name_size, true);
    cleanup_free char *value =
        equals ? http_decode(equals + 1, size - name_size - 1, true) : xstrdup("");
    const struct field *field = NULL;
    if (!name || !value)
        return error_set(err, ERROR_INVALID, "the query is not properly percent-encoded");
    for (size_t i = 0; i < count && !field; i++)
        if (strcmp(table[i].name, name) == 0)
            field = &table[i];
    if (json_object_get(object, name))
        return error_set(err, ERROR_INVALID, "%.100s: is given twice", name);
    if (json_object_set_new(object, name, query_value(field, value)) < 0)
        return error_set(err, ERROR_INVALID, "the query is not UTF-8");
    return 0;
}

int query_decode(const char *query, const struct field *table, size_t count, void *target,
                 struct error *err)
{
    /* Most requests have none. */
    if (!query[0] && count == 0)
        return 0;
    cleanup_json json_t *object = json_object();
    size_t parts = 0;
    while (*query) {
        size_t size = strcspn(query, "&");
        if (++parts > QUERY_PARTS_MAX)
            return error_set(err, ERROR_INVALID, "the query has more than %d parts",
                             QUERY_PARTS_MAX);
        if (size > 0 && add_part(object, query, size, table, count, err) < 0)
            return -1;
        query += size + (query[size] == '&');
    }
    struct fields fields = {table, count, target};
    return fields_decode(object, &fields, 1, FIELDS_STRICT, err);
}
