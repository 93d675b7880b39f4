/* SPDX-License-Identifier: Apache-2.0 */
/* Which handler a request is for, and what its path and query say. No I/O.

   A pattern is literal text with {name} for one component, which is not empty, and at the end
   perhaps {name...} for all the rest. What takes GET takes HEAD, unless its answer has no end. */
#pragma once

#include <stddef.h>

#include "core/error.h"
#include "core/json.h"

#define ROUTE_PARAMS_MAX  2
#define ROUTE_REPLIES_MAX 3

struct call;

enum route_flags {
    ROUTE_OPEN = 1 << 0,    /* no token needed */
    ROUTE_JSON = 1 << 1,    /* the body is a JSON object, and is there */
    ROUTE_UPLOAD = 1 << 2,  /* the handler takes the body */
    ROUTE_SOCKET = 1 << 3,  /* a WebSocket */
    ROUTE_HEALTHY = 1 << 4, /* also answered while stopping */
    ROUTE_LANGBOT = 1 << 5, /* LangBot's control token is as good as ours */
    ROUTE_ARCHIVE = 1 << 6, /* ROUTE_UPLOAD: a zip archive, or a form with one */
    ROUTE_MATCH = 1 << 7,   /* with If-Match and If-None-Match */
    ROUTE_TAGGED = 1 << 8,  /* the answer may have an ETag */
    ROUTE_ENDLESS = 1 << 9, /* the answer ends when the client leaves */
};

/* Fields that a JSON body has: tables of core/json.h one after another. */
struct route_body {
    const char *name; /* of the schema */
    struct {
        const struct field *table;
        size_t count;
    } parts[3];
    const char *one_of[2]; /* fields of which exactly one is needed; or none */
};

struct route_reply {
    int status;
    const char *type;   /* NULL: application/json */
    const char *schema; /* its name; NULL: bytes */
};

struct route {
    const char *method;
    const char *pattern;
    void (*handler)(struct call *call);
    unsigned flags;
    const struct field *query;
    size_t query_count;
    const struct route_body *body;
    struct route_reply replies[ROUTE_REPLIES_MAX];
    const char *summary;
};

enum route_result {
    ROUTE_FOUND,
    ROUTE_NONE,         /* 404 */
    ROUTE_OTHER_METHOD, /* 405 */
    ROUTE_MALFORMED,    /* 400: an escape that is none, or a NUL */
};

struct route_match {
    const struct route *route;
    char *params[ROUTE_PARAMS_MAX]; /* decoded; the caller frees */
    char allow[64];                 /* of ROUTE_OTHER_METHOD: "GET, DELETE" */
};

/* `ret` is filled in every case and released in every case. */
enum route_result route_match(const struct route *routes, size_t count, const char *method,
                              const char *path, struct route_match *ret);
void route_match_release(struct route_match *match);

/* A query by a table of fields (texts, choices, numbers, flags: "?list" is "?list=true"). Unknown
   names and those that come twice are errors. */
int query_decode(const char *query, const struct field *table, size_t count, void *target,
                 struct error *err);
