/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP front end: REST, the relay, terminals, metrics; docs/rest.md is what it promises.

     struct api *api = api_new(loop, runtime, backend, &config);
     struct http_server *server = http_server_new(loop, &limits, api_handle, api);
     api_set_server(api, server);
     …
     api_stop(api);                     streams end, websockets close with 1001; new requests get
   503 runtime_stop(…); http_server_drain(…); api_free(api);                     then the loop runs
   until its handles are closed

   One loop, one thread. Nothing here blocks. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "api/rpc.h"
#include "backend/spec.h"
#include "core/mem.h"
#include "net/http-server.h"
#include "runtime/runtime.h"

struct api;

struct api_config {
    /* Needed from every request on a network listener (where there is none configured, all are
       refused there), and on loopback if it is set; never on a Unix socket. NULL: none. */
    char *token;
    struct strings allowed_hosts;   /* names besides IP addresses and localhost */
    struct strings allowed_origins; /* "https://example.org", as browsers send it */
    size_t body_max;                /* of a JSON body */
    struct session_spec defaults;   /* what a spec does not say; its name is not looked at */
    uint64_t default_timeout_ms;    /* of a command that does not say; at most the maximum */
    uint64_t maximum_timeout_ms;    /* 0: none, and commands may ask to have none */
    char *version;
    /* Adds what it finds to `checks` by api_check(); called for each GET /readyz, so it must be
       cheap. NULL: only the runtime's own checks. */
    void (*ready_checks)(void *data, json_t *checks);
    void *ready_data;
    struct rpc_config rpc;
    bool relay_only; /* by TCP, for who shows no secret: the relay, and questions about health */
    uint64_t
        skills_quota_bytes; /* of each tenant's skills, and of those that are none's; 0: none */
    bool skills_writable;   /* packages are mounted so */
};

/* Defaults: no token, 16 MiB, WIRE's session, 30 s, no maximum. */
void api_config_init(struct api_config *config);
void api_config_release(struct api_config *config);

/* The configuration is copied. The runtime must outlive the api, and so must `storage`, the backend
   that sets limits on directories of the host, whichever one makes sessions. The loop is told to
   keep account of the time that it waits. */
struct api *api_new(uv_loop_t *loop, struct runtime *runtime, struct backend *storage,
                    const struct api_config *config);
/* For its statistics. NULL once it is gone. */
void api_set_server(struct api *api, struct http_server *server);
/* SIGHUP. Requests under way finish under the old one. */
void api_reconfigure(struct api *api, const struct api_config *config);
/* An http_handler; `api` is a struct api. */
void api_handle(struct http_request *req, void *api);
/* Server-sent events end, websockets are closed with 1001, and from now on everything but the
   questions about health is answered with 503. */
void api_stop(struct api *api);
/* After the last request and websocket is over. Its handles close when the loop runs next, and only
   then is its memory freed. */
void api_free(struct api *api);

/* One line of GET /readyz: `reason` (may be NULL) is for people. */
void api_check(json_t *checks, const char *name, bool ok, const char *reason);
