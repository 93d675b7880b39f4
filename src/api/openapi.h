/* SPDX-License-Identifier: Apache-2.0 */
/* /openapi.json, made from the tables that serve the requests. No I/O. */
#pragma once

#include "api/route.h"
#include "core/json-out.h"

/* The schema of one field of a request, as a JSON object. */
void openapi_field(struct json_out *out, const char *key, const struct field *field);
/* "parameters": […]: of the path (without dots), the query and the headers. */
void openapi_parameters(struct json_out *out, const struct route *route, const char *path);
/* "schemas": {…}: bodies of these routes, and answers. */
void openapi_schemas(struct json_out *out, const struct route *routes, size_t count);
