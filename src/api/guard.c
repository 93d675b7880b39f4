/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask.

   A web page in a browser on this machine can send requests to 127.0.0.1. Two headers give it away,
   and it cannot choose either of them: Origin says whose page it is, and Host says by which name it
   found us, which is its own if it had that name resolve to 127.0.0.1 (DNS rebinding). Who comes by
   an address or by "localhost" was not led here by a name of somebody else's. */
#include "api/guard.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define HOST_SIZE 256

/* The name in "name:port" or "[address]:port", without brackets; false if it is none of these. */
static bool host_name(const char *header, char *ret, bool *ret_bracketed)
{
    const char *end;
    *ret_bracketed = header[0] == '[';
    if (*ret_bracketed) {
        end = strchr(++header, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
    } else {
        end = header + strcspn(header, ":");
    }
    size_t size = (size_t)(end - header);
    const char *port = *ret_bracketed ? end + 1 : end;
    if (size == 0 || size >= HOST_SIZE || (*port && port[1 + strspn(port + 1, "0123456789")]))
        return false;
    memcpy(ret, header, size);
    ret[size] = '\0';
    return true;
}

static bool host_allowed(const struct api_config *config, const char *header)
{
    char name[HOST_SIZE];
    bool bracketed;
    struct in6_addr address;
    if (!host_name(header, name, &bracketed))
        return false;
    if (inet_pton(bracketed ? AF_INET6 : AF_INET, name, &address) == 1)
        return true;
    if (bracketed)
        return false;
    if (strcasecmp(name, "localhost") == 0)
        return true;
    for (size_t i = 0; i < config->allowed_hosts.count; i++)
        if (strcasecmp(name, config->allowed_hosts.items[i]) == 0)
            return true;
    return false;
}

static bool origin_allowed(const struct api_config *config, const char *origin)
{
    for (size_t i = 0; i < config->allowed_origins.count; i++)
        if (strcasecmp(origin, config->allowed_origins.items[i]) == 0)
            return true;
    return false;
}

/* How long it takes depends on the length of what was given, which the asker knows, and on nothing
   else. */
bool guard_same(const char *secret, const char *given)
{
    size_t secret_size = strlen(secret);
    size_t given_size = strlen(given);
    unsigned different = secret_size != given_size;
    for (size_t i = 0; i < given_size; i++)
        different |=
            (unsigned char)given[i] ^ (unsigned char)secret[secret_size ? i % secret_size : 0];
    return different == 0 && secret_size > 0;
}

/* What a bearer shows: where nothing is configured for that, LangBot's token. NULL: there is none.
 */
static const char *bearer_token(const struct api_config *config)
{
    return config->token ? config->token : config->rpc.control_token;
}

static bool shows_secret(const struct api_config *config, const struct guard_request *request)
{
    const char *token = bearer_token(config);
    const char *control = config->rpc.control_token;
    const char *given = "";
    if (request->authorization && strncasecmp(request->authorization, "bearer ", 7) == 0)
        given = request->authorization + 7 + strspn(request->authorization + 7, " ");
    bool bearer = guard_same(token ? token : "", given);
    bool langbot = guard_same(control ? control : "", request->control ? request->control : "");
    return bearer || langbot;
}

enum guard_verdict guard_browser(const struct api_config *config,
                                 const struct guard_request *request)
{
    /* No browser opens a Unix socket; what clients write as its Host is up to them. */
    if (request->from != HTTP_UNIX && request->host && !host_allowed(config, request->host) &&
        !shows_secret(config, request))
        return GUARD_HOST;
    if (request->origin && !origin_allowed(config, request->origin))
        return GUARD_ORIGIN;
    return GUARD_PASS;
}

enum guard_verdict guard_token(const struct api_config *config, const struct guard_request *request)
{
    if (request->from == HTTP_UNIX || (request->from == HTTP_LOOPBACK && !bearer_token(config) &&
                                       (!config->relay_only || request->langbot)))
        return GUARD_PASS;
    return shows_secret(config, request) ? GUARD_PASS : GUARD_TOKEN;
}

const char *guard_actor(const struct api_config *config, enum http_origin from)
{
    if (from == HTTP_UNIX)
        return "unix";
    return bearer_token(config) ? "token" : "loopback";
}
