/* SPDX-License-Identifier: Apache-2.0 */
/* The least that talks HTTP and WebSocket, so that what is timed is the other side. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon.h"

/* A connection that is kept. */
struct client {
    int fd;
    bool tcp;
    char *data; /* read and not yet used, `size` of `capacity` */
    size_t size, capacity;
    char *body; /* of the last answer, ended by NUL, until the next call */
    size_t body_size;
};

void client_open(struct client *client, const struct daemon *daemon, bool tcp);
void client_close(struct client *client);

/* Sends and waits for the whole answer; returns its status. `body` NULL: none. */
int client_call(struct client *client, const char *method, const char *path, const char *body);
/* The same, and another status than that fails the benchmark. */
void client_expect(struct client *client, int status, const char *method, const char *path,
                   const char *body);

void client_upgrade(struct client *client, const char *path);
/* Text frames, unfragmented, of less than 64 KiB. */
void client_send_text(struct client *client, const char *text, size_t size);
/* Into client->body. */
void client_read_text(struct client *client);

/* A path below a session. */
#define SESSION_PATH_MAX 128
