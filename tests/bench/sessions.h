/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts ask of boxd, over a connection that is kept. */
#pragma once

#include "client.h"

/* "bench-N"; the names live on. */
void session_create(struct client *client, unsigned number);
void session_delete(struct client *client, unsigned number);
/* {"argv":["sh","-c","true"]}, or {"cmd":"true"}, which boxd runs as `sh -lc true`. */
void session_run_argv(struct client *client, unsigned number);
void session_run_cmd(struct client *client, unsigned number);
/* With a body of its own; the answer is in client->body. */
void session_exec(struct client *client, unsigned number, const char *body);
