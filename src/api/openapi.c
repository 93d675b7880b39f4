/* SPDX-License-Identifier: Apache-2.0 */
/* /openapi.json: paths, from the table of routes. */
#include "api/openapi.h"

#include <ctype.h>
#include <string.h>

#include "api/internal.h"

/* What any request may be answered with if it goes wrong. */
static const struct {
    int status;
    const char *about;
} failures[] = {
    {400, "The request is wrong; the message says where"},
    {401, "A token is needed"},
    {403, "Refused: of a web page, what the sandbox does not permit, or what needs a grant"},
    {404, "There is no such session, process, command, file or path"},
    {405, "The path does not take the method"},
    {408, "The request came too slowly"},
    {409, "It is there, and different, or not in a state for that"},
    {411, "The body has no length"},
    {412, "It is not what If-Match or If-None-Match asks for"},
    {413, "The body is too large, or what is in it"},
    {414, "The path and query are too long"},
    {415, "The body is not of the type that is described"},
    {416, "Nothing of the range is there"},
    {426, "It is a WebSocket, and the request asks for none"},
    {429, "boxd holds as much as it may"},
    {431, "The headers are too large"},
    {500, "Something went wrong in boxd"},
    {503, "Not now: starting, stopping, or no backend"},
    {507, "No space is left"},
};

/* Without the dots of a {path...}. */
static void path_text(const char *pattern, char *ret, size_t size)
{
    size_t used = 0;
    for (; *pattern && used + 1 < size; pattern++)
        if (*pattern != '.' || !strstr(pattern, "}") || !strchr(".}", pattern[1]))
            ret[used++] = *pattern;
    ret[used] = '\0';
}

static void out_ref(struct json_out *out, const char *key, const char *schema)
{
    cleanup_free char *ref = xasprintf("#/components/schemas/%s", schema);
    out_open(out, key, '{');
    out_text(out, "$ref", ref);
    out_close(out, '}');
}

static void out_binary(struct json_out *out, bool binary)
{
    out_open(out, "schema", '{');
    out_text(out, "type", "string");
    if (binary)
        out_text(out, "format", "binary");
    out_close(out, '}');
}

/* A body of that type; `schema` NULL: bytes. */
static void out_type(struct json_out *out, const char *type, const char *schema)
{
    out_open(out, type, '{');
    if (schema)
        out_ref(out, "schema", schema);
    else
        out_binary(out, true);
    out_close(out, '}');
}

static void out_body(struct json_out *out, const struct route *route)
{
    if (!(route->flags & (ROUTE_JSON | ROUTE_UPLOAD)))
        return;
    out_open(out, "requestBody", '{');
    out_flag(out, "required", (route->flags & ROUTE_JSON) != 0); /* no bytes are a file too */
    out_open(out, "content", '{');
    if (route->flags & ROUTE_ARCHIVE) {
        out_type(out, "application/zip", NULL);
        out_type(out, "multipart/form-data", "SkillForm");
    } else if (route->flags & ROUTE_JSON) {
        out_type(out, "application/json", route->body->name);
    } else {
        out_type(out, "application/octet-stream", NULL);
    }
    out_close(out, '}');
    out_close(out, '}');
}

static void out_content(struct json_out *out, const struct route_reply *reply)
{
    const char *type = reply->type ? reply->type : "application/json";
    out_open(out, type, '{');
    if (reply->schema)
        out_ref(out, "schema", reply->schema);
    else if (strcmp(type, "text/event-stream") != 0) /* of which it would be read as an event's */
        out_binary(out, strcmp(type, "application/octet-stream") == 0);
    out_close(out, '}');
}

static void out_tag(struct json_out *out)
{
    out_open(out, "headers", '{');
    out_open(out, "ETag", '{');
    out_text(out, "description", "The version of the file; of a large one there is none");
    out_binary(out, false);
    out_close(out, '}');
    out_close(out, '}');
}

/* All answers with that status together: they differ in their type. */
static void out_reply(struct json_out *out, const struct route *route, size_t first)
{
    int status = route->replies[first].status;
    char key[16];
    snprintf(key, sizeof key, "%d", status);
    out_open(out, key, '{');
    out_text(out, "description", status == 101 ? "The WebSocket" : route->summary);
    if (route->flags & ROUTE_TAGGED)
        out_tag(out);
    if (status != 101 && strcmp(route->method, "HEAD") != 0) {
        out_open(out, "content", '{');
        for (size_t i = first; i < ROUTE_REPLIES_MAX; i++)
            if (route->replies[i].status == status)
                out_content(out, &route->replies[i]);
        out_close(out, '}');
    }
    out_close(out, '}');
}

static bool told(const struct route *route, size_t end, int status)
{
    for (size_t i = 0; i < end; i++)
        if (route->replies[i].status == status)
            return true;
    return false;
}

/* Each is described once, and named where it can happen. */
static void out_failures(struct json_out *out)
{
    out_open(out, "responses", '{');
    for (size_t i = 0; i < ARRAY_SIZE(failures); i++) {
        char key[16];
        snprintf(key, sizeof key, "Error%d", failures[i].status);
        out_open(out, key, '{');
        out_text(out, "description", failures[i].about);
        out_open(out, "content", '{');
        out_content(out, &(struct route_reply){.schema = "Error"});
        out_close(out, '}');
        out_close(out, '}');
    }
    out_close(out, '}');
}

static void out_failure(struct json_out *out, const struct route *route, size_t index)
{
    char key[16];
    char ref[40];
    snprintf(key, sizeof key, "%d", failures[index].status);
    snprintf(ref, sizeof ref, "#/components/responses/Error%d", failures[index].status);
    out_open(out, key, '{');
    if (strcmp(route->method, "HEAD") == 0)
        out_text(out, "description", failures[index].about);
    else
        out_text(out, "$ref", ref);
    out_close(out, '}');
}

static void out_operation(struct json_out *out, const struct route *route, const char *path)
{
    char method[16] = "";
    for (size_t i = 0; route->method[i] && i + 1 < sizeof method; i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    cleanup_free char *id = xasprintf("%s%s", method, path);
    for (char *at = id; *at; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
    out_open(out, method, '{');
    out_text(out, "operationId", id);
    out_text(out, "summary", route->summary);
    openapi_parameters(out, route, path);
    out_body(out, route);
    out_open(out, "responses", '{');
    for (size_t i = 0; i < ROUTE_REPLIES_MAX && route->replies[i].status; i++)
        if (!told(route, i, route->replies[i].status))
            out_reply(out, route, i);
    for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
        if (!told(route, ROUTE_REPLIES_MAX, failures[i].status))
            out_failure(out, route, i);
    out_close(out, '}');
    if (route->flags & ROUTE_OPEN) {
        out_open(out, "security", '[');
        out_close(out, ']');
    }
    out_close(out, '}');
}

static bool seen_before(const struct route *routes, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(routes[i].pattern, routes[index].pattern) == 0)
            return true;
    return false;
}

static void out_paths(struct json_out *out, const struct route *routes, size_t count)
{
    out_open(out, "paths", '{');
    for (size_t i = 0; i < count; i++) {
        char path[128];
        if (seen_before(routes, i))
            continue;
        path_text(routes[i].pattern, path, sizeof path);
        out_open(out, path, '{');
        for (size_t j = i; j < count; j++)
            if (strcmp(routes[j].pattern, routes[i].pattern) == 0)
                out_operation(out, &routes[j], path);
        out_close(out, '}');
    }
    out_close(out, '}');
}

static void out_security(struct json_out *out)
{
    out_open(out, "securitySchemes", '{');
    out_open(out, "bearer", '{');
    out_text(out, "type", "http");
    out_text(out, "scheme", "bearer");
    out_close(out, '}');
    out_close(out, '}');
}

char *openapi_make(const struct route *routes, size_t count, const char *version, size_t *ret_size)
{
    struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_text(&out, "openapi", "3.0.3");
    out_open(&out, "info", '{');
    out_text(&out, "title", "boxd");
    out_text(&out, "description", "Sandboxed sessions, commands, processes and files.");
    out_text(&out, "version", version);
    out_close(&out, '}');
    /* Either: on a Unix socket, and where no token is configured, none is needed. */
    out_open(&out, "security", '[');
    out_open(&out, NULL, '{');
    out_open(&out, "bearer", '[');
    out_close(&out, ']');
    out_close(&out, '}');
    out_open(&out, NULL, '{');
    out_close(&out, '}');
    out_close(&out, ']');
    out_paths(&out, routes, count);
    out_open(&out, "components", '{');
    out_security(&out);
    out_failures(&out);
    openapi_schemas(&out, routes, count);
    out_close(&out, '}');
    out_close(&out, '}');
    *ret_size = out.buf.size;
    return out.buf.data;
}

void rest_openapi(struct call *call)
{
    struct api *api = call->api;
    if (!api->openapi)
        api->openapi =
            openapi_make(api_routes, api_route_count, api->config.version, &api->openapi_size);
    http_reply(call->req, 200, "application/json", api->openapi, api->openapi_size);
}
