/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts ask of boxd, over a connection that is kept. */
#include "sessions.h"

#include <stdio.h>
#include <string.h>

#include "common.h"

#define TEXT_MAX 128

void session_create(struct client *client, unsigned number)
{
    char body[TEXT_MAX];
    snprintf(body, sizeof body, "{\"session_id\":\"bench-%u\"}", number);
    client_expect(client, 201, "POST", "/v1/sessions", body);
}

void session_delete(struct client *client, unsigned number)
{
    char path[TEXT_MAX];
    snprintf(path, sizeof path, "/v1/sessions/bench-%u", number);
    client_expect(client, 200, "DELETE", path, NULL);
}

void session_exec(struct client *client, unsigned number, const char *body)
{
    char path[TEXT_MAX];
    snprintf(path, sizeof path, "/v1/sessions/bench-%u/exec", number);
    client_expect(client, 200, "POST", path, body);
    if (!strstr(client->body, "\"exit_code\":0") && !strstr(client->body, "\"exit_code\": 0"))
        bench_fail("the command failed inside: %.400s", client->body);
}

void session_run_argv(struct client *client, unsigned number)
{
    session_exec(client, number, "{\"argv\":[\"sh\",\"-c\",\"true\"]}");
}

void session_run_cmd(struct client *client, unsigned number)
{
    session_exec(client, number, "{\"cmd\":\"true\"}");
}
