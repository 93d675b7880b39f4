/* SPDX-License-Identifier: Apache-2.0 */
/* A request for a command, from its body to its result. */
#pragma once

#include "api/internal.h"
#include "api/sse.h"

/* Lives as long as its request. */
struct exec_call {
    struct live live; /* streamed only */
    struct api *api;
    struct http_request *req;
    struct execution *execution; /* NULL once it has told its result */
    char *session;
    bool base64;

    bool streamed;
    /* and of one that is: */
    bool begun; /* the head of the answer is out */
    struct text_cut cuts[STREAM_MAX];
};

/* rest-stream.c: the events of a streamed one. */
extern const struct exec_events stream_events;
void stream_init(struct exec_call *call);
