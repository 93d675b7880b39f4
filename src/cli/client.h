/* SPDX-License-Identifier: Apache-2.0 */
/* Talking to boxd: where it is, requests with JSON both ways, and its errors as ours. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cli/options.h"
#include "core/error.h"
#include "core/mem.h"
#include "net/http-client.h"

/* What every verb that needs boxd can be told; the first member of the verb's own options. */
struct client_options {
    const char *url;
    const char *token_file;
    bool json;
};

int client_apply_url(void *target, const char *value, struct error *err);
int client_apply_token_file(void *target, const char *value, struct error *err);
int client_apply_json(void *target, const char *value, struct error *err);

#define CLIENT_OPTIONS                                                                         \
    {"url", 0, "URL", "boxd: unix:/path or http://host:port; BOX_URL", client_apply_url},      \
    {                                                                                          \
        "token-file", 0, "FILE", "holds the token; or BOX_TOKEN does", client_apply_token_file \
    }
#define CLIENT_OPTION_JSON                                             \
    {                                                                  \
        "json", 0, NULL, "print JSON, for programs", client_apply_json \
    }

struct client {
    struct http_client *http;
    char *address;
    char *token; /* NULL: none */
    int failure; /* exit status of a verb that fails */
};

/* The daemon named by the options or the environment, else the first that answers. */
int client_connect(const struct client_options *options, struct client *ret, struct error *err);
void client_disconnect(struct client *client);

/* Where boxd is looked for if nobody says where it is, in that order. */
void client_places(struct strings *ret);
/* What is to be sent as the token; NULL if there is none. */
int client_token(const struct client_options *options, char **ret, struct error *err);

/* A request target: like printf with nothing but %s, each of which is percent-encoded. */
char *client_target(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "/v1/sessions/SESSION/files" and the absolute path, its slashes kept. */
char *client_file_target(const char *session, const char *path, const char *query);
/* `base`, which ends in no slash, and a path below it likewise. */
char *client_path_target(const char *base, const char *path);

/* Sends it. An answer of 400 and above is an error with boxd's own message and hint; else the body
   is there to be read. */
int client_call(struct client *client, const struct http_call *call, struct error *err);
/* The body as JSON; `ret` may be NULL. */
int client_answer(struct client *client, json_t **ret, struct error *err);
/* `body` is taken over; it, and `ret`, may be NULL. */
int client_request(struct client *client, const char *method, const char *target, json_t *body,
                   json_t **ret, struct error *err);
int client_get(struct client *client, const char *target, json_t **ret, struct error *err);
/* Makes the session with `spec` (taken over; NULL: all defaults) if there is none of the name. */
int client_ensure_session(struct client *client, const char *session, json_t *spec,
                          struct error *err);
/* All sessions, those of a prefix if it is not NULL, as one array. */
int client_sessions(struct client *client, const char *prefix, json_t **ret, struct error *err);

/* The error in an answer's body (any bytes) or an event's data. Always -1. */
int client_take_error(int status, const char *body, size_t size, struct error *err);

/* Of an object that a stranger sent: "" and 0 where there is no such field. */
const char *client_text(const json_t *object, const char *key);
uint64_t client_number(const json_t *object, const char *key);

static inline void json_decref_p(json_t **json)
{
    json_decref(*json);
}
#define cleanup_json __attribute__((cleanup(json_decref_p)))

/* --- verbs --------------------------------------------------------------------------------------
 */

enum verb_command {
    COMMAND_NONE,
    COMMAND_OPTIONAL,
    COMMAND_NEEDED,
};

struct verb_words {
    int min;
    int max;
    enum verb_command command;
    bool unconnected; /* the body connects, if and when it needs boxd */
};

/* Returns an exit status, or -1 with the error: then it is reported, and the status is
   client->failure. */
typedef int (*client_verb)(struct client *client, void *options, const struct operands *words,
                           struct error *err);

/* A verb from its words to its exit status: options, help, connection, errors. `options` begins
   with a struct client_options. */
int client_main(const struct verb *verb, int argc, char **argv, void *options,
                struct verb_words want, client_verb body);
