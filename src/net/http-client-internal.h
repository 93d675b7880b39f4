/* SPDX-License-Identifier: Apache-2.0 */
/* The client's insides, shared by its files. */
#pragma once

#include "net/http-client.h"
#include "net/http-parse.h"

#define CLIENT_INPUT 65536

enum client_body {
    CLIENT_BODY_NONE,
    CLIENT_BODY_LENGTH,
    CLIENT_BODY_CHUNKED,
    CLIENT_BODY_TO_CLOSE,
};

struct http_client {
    char *address; /* as given, for messages */
    char *host;    /* of the Host field, and to connect to; NULL: a Unix socket */
    char *path;    /* of a Unix socket */
    char *token;
    int fd;
    unsigned timeout_ms;
    bool used; /* a call was made on this connection */
    bool eof;
    bool no_body; /* the call is a HEAD */

    char *in;
    size_t in_start;
    size_t in_end;

    struct http_head head;
    char *head_data; /* a copy: the buffer goes on being used */
    bool answered;   /* `head` is of the last answer */
    enum client_body body;
    uint64_t body_left;
    struct http_chunked chunks;
};

/* http-client-io.c */
int client_open(struct http_client *client, struct error *err);
/* Sends all of it. `early`: an answer that comes meanwhile is read, and if it is an error the rest
   is not sent and 1 returned. */
int client_send(struct http_client *client, const void *data, size_t size, bool early,
                struct error *err);
/* Waits for bytes and puts them behind those that are there: how many, 0 at the end, -1. */
ssize_t client_fill(struct http_client *client, struct error *err);

/* http-client-answer.c */
int client_read_head(struct http_client *client, struct error *err);
