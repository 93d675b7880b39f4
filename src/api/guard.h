/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask: tokens, and what keeps web pages out. No I/O. */
#pragma once

#include <stdbool.h>

#include "api/api.h"

enum guard_verdict {
    GUARD_PASS,
    GUARD_HOST,   /* 403: a name that is not ours; a page that had its own name point here */
    GUARD_ORIGIN, /* 403: a page of somebody else's */
    GUARD_TOKEN,  /* 401 */
};

struct guard_request {
    enum http_origin from;
    const char *host; /* headers, NULL if they are not there */
    const char *origin;
    const char *authorization;
    bool langbot;        /* what it asks for is LangBot's */
    const char *control; /* LangBot's token, on paths that are LangBot's; else NULL */
};

#define GUARD_CONTROL_HEADER "X-LangBot-Box-Control-Token"

/* Takes as long for what is nearly right as for what is not. */
bool guard_same(const char *secret, const char *given);

/* Whoever shows a valid secret need not come by a name that is known: a page that had its own name
   point here does not know it. */
enum guard_verdict guard_browser(const struct api_config *config,
                                 const struct guard_request *request);
/* Takes as long for a wrong token as for none, and for one that is nearly right as for one that is
   not. */
enum guard_verdict guard_token(const struct api_config *config,
                               const struct guard_request *request);
/* For the audit log: "unix", "token", "loopback". */
const char *guard_actor(const struct api_config *config, enum http_origin from);
