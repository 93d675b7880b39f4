/* SPDX-License-Identifier: Apache-2.0 */
/* Where a request goes and what its query says, from hostile bytes: a method, a path and a query, a
   line each; then a Host, a Range and an If-Match. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/etag.h"
#include "api/guard.h"
#include "api/internal.h"
#include "api/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next line, as a string of its own, so that a read past its end is seen. */
static char *next_line(const char **at, size_t *left)
{
    const char *newline = memchr(*at, '\n', *left);
    size_t size = newline ? (size_t)(newline - *at) : *left;
    char *line = xstrndup(*at, size);
    *at += size + (newline != NULL);
    *left -= size + (newline != NULL);
    return line;
}

static void fuzz_query(const struct route *route, const char *query)
{
    char target[256] __attribute__((aligned(16))) = "";
    struct error err = ERROR_INIT;
    int rc = query_decode(query, route->query, route->query_count, target, &err);
    assert(rc == 0 || (err.code == ERROR_INVALID && err.message[0]));
    for (size_t i = 0; i < route->query_count; i++) {
        if (route->query[i].kind == FIELD_TEXT) {
            char *text;
            memcpy(&text, target + route->query[i].offset, sizeof text);
            free(text);
        }
    }
}

static void fuzz_path(const char *method, const char *path, const char *query)
{
    struct route_match match;
    switch (route_match(api_routes, api_route_count, method, path, &match)) {
    case ROUTE_FOUND:
        assert(match.route);
        assert(!strcmp(match.route->method, method) ||
               (!strcmp(method, "HEAD") && !strcmp(match.route->method, "GET")));
        fuzz_query(match.route, query);
        break;
    case ROUTE_OTHER_METHOD:
        assert(match.allow[0] && !match.route);
        break;
    case ROUTE_NONE:
        assert(!match.route);
        break;
    case ROUTE_MALFORMED:
        assert(match.route && strchr(path, '%'));
        break;
    }
    route_match_release(&match);
}

static void fuzz_tags(const char *tags)
{
    struct error err = ERROR_INIT;
    struct skill_versions versions;
    if (etag_parse(tags, true, &versions, &err) < 0) {
        assert(err.code == ERROR_INVALID);
        return;
    }
    assert(versions.given && versions.any == (versions.digests.count == 0));
    for (size_t i = 0; i < versions.digests.count; i++)
        assert(!strchr(versions.digests.items[i], '"'));
    strings_release(&versions.digests);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct api_config config;
    const char *at = (const char *)data;
    cleanup_free char *method = next_line(&at, &size);
    cleanup_free char *path = next_line(&at, &size);
    cleanup_free char *query = next_line(&at, &size);
    cleanup_free char *host = next_line(&at, &size);
    cleanup_free char *header = next_line(&at, &size);
    cleanup_free char *tags = next_line(&at, &size);
    struct guard_request request = {
        .from = HTTP_LOOPBACK, .host = host, .origin = NULL, .authorization = query};
    if (!config.version)
        api_config_init(&config);
    if (method[0])
        fuzz_path(method, path, query);
    guard_browser(&config, &request);
    request.from = HTTP_NETWORK;
    /* There is no token: nobody gets in by any. */
    assert(guard_token(&config, &request) == GUARD_TOKEN);

    uint64_t offset = 0;
    uint64_t length = 0;
    struct range range = range_parse(header);
    uint64_t file = strlen(query) * 1000;
    if (range_resolve(&range, file, &offset, &length))
        assert(offset <= file && length <= file - offset);
    fuzz_tags(tags);
    return 0;
}
