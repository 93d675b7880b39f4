/* SPDX-License-Identifier: Apache-2.0 */
/* /openapi.json: what a request may say beside its body, in its path, its query and its headers. */
#include <string.h>

#include "api/internal.h"
#include "api/openapi.h"

static const struct {
    const char *name;
    const char *about;
} params[] = {
    {"id", "Name of the session"},
    {"pid", "Name of the managed process"},
    {"number", "exec_id of the command"},
    {"name", "Name of the skill"},
    {"path", "Path inside the sandbox without its first slash, or inside the skill's package; may "
             "contain slashes"},
};

static void out_parameter(struct json_out *out, const char *name, const char *in, bool needed,
                          const char *about)
{
    out_text(out, "name", name);
    out_text(out, "in", in);
    out_flag(out, "required", needed);
    if (about)
        out_text(out, "description", about);
}

static void out_path_parameter(struct json_out *out, const char *name)
{
    const char *about = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(params); i++)
        if (strcmp(params[i].name, name) == 0)
            about = params[i].about;
    out_open(out, NULL, '{');
    out_parameter(out, name, "path", true, about);
    out_open(out, "schema", '{');
    if (strcmp(name, "number") == 0) {
        out_text(out, "type", "integer");
        out_unsigned(out, "minimum", 1);
    } else {
        out_text(out, "type", "string");
        out_unsigned(out, "minLength", 1);
    }
    out_close(out, '}');
    out_close(out, '}');
}

/* What etag_parse() takes. */
#define TAG "(W/)?\"[!#-~]*\""
static const char tags_pattern[] = "^(\\*|[ \\t,]*" TAG "([ \\t]*,[ \\t,]*" TAG ")*[ \\t,]*)$";

static void out_header_parameter(struct json_out *out, const char *name, const char *about)
{
    out_open(out, NULL, '{');
    out_parameter(out, name, "header", false, about);
    out_open(out, "schema", '{');
    out_text(out, "type", "string");
    out_text(out, "pattern", tags_pattern);
    out_close(out, '}');
    out_close(out, '}');
}

void openapi_parameters(struct json_out *out, const struct route *route, const char *path)
{
    out_open(out, "parameters", '[');
    for (const char *at = path; (at = strchr(at, '{')); at++) {
        cleanup_free char *name = xstrndup(at + 1, strcspn(at + 1, "}"));
        out_path_parameter(out, name);
    }
    for (size_t i = 0; i < route->query_count; i++) {
        const struct field *field = &route->query[i];
        out_open(out, NULL, '{');
        out_parameter(out, field->name, "query", field->flags & FIELD_REQUIRED, field->about);
        openapi_field(out, "schema", field);
        out_close(out, '}');
    }
    if (route->flags & ROUTE_MATCH) {
        out_header_parameter(out, "If-Match", "Only if it is one of these versions, or any");
        out_header_parameter(out, "If-None-Match", "Only if it is none of these, or not there");
    }
    out_close(out, ']');
}
