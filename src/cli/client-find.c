/* SPDX-License-Identifier: Apache-2.0 */
/* Where boxd is, and what it is shown.

   Nobody says where: the user's own boxd first, then the system's, then the TCP port. A socket that
   is not there, or that nobody listens on, is passed over; any other failure (no permission, say)
   is remembered, because it is the answer to "why does it not work" if the rest fails too. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "core/fd.h"

#define DEFAULT_URL "http://127.0.0.1:5410"
#define TOKEN_MAX   4096
#define START_HINT  "is boxd running? start it with: boxd"

int client_apply_url(void *target, const char *value, struct error *err)
{
    if (value[0] == '\0')
        return error_set(err, ERROR_INVALID, "it is empty");
    ((struct client_options *)target)->url = value;
    return 0;
}

OPTION_TEXT(apply_token_file, struct client_options, token_file)
OPTION_SWITCH(apply_json, struct client_options, json)

int client_apply_token_file(void *target, const char *value, struct error *err)
{
    return apply_token_file(target, value, err);
}

int client_apply_json(void *target, const char *value, struct error *err)
{
    return apply_json(target, value, err);
}

void client_places(struct strings *ret)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *home = getenv("HOME");
    if (runtime && runtime[0] == '/')
        strings_take(ret, xasprintf("unix:%s/boxd/boxd.sock", runtime));
    if (home && home[0] == '/')
        strings_take(ret, xasprintf("unix:%s/.local/state/boxd/run/boxd.sock", home));
    strings_add(ret, "unix:/run/boxd/boxd.sock");
    strings_add(ret, DEFAULT_URL);
}

int client_token(const struct client_options *options, char **ret, struct error *err)
{
    char text[TOKEN_MAX];
    const char *given = getenv("BOX_TOKEN");
    if (!options->token_file) {
        *ret = given && given[0] ? xstrdup(given) : NULL;
        return 0;
    }
    ssize_t size = fd_read_file(AT_FDCWD, options->token_file, text, sizeof text);
    if (size < 0)
        return error_errno(err, (int)-size, "token file '%.200s'", options->token_file);
    while (size > 0 && isspace((unsigned char)text[size - 1]))
        text[--size] = '\0';
    if (size == 0)
        return error_set(err, ERROR_INVALID, "token file '%.200s' is empty", options->token_file);
    *ret = xstrdup(text);
    explicit_bzero(text, sizeof text);
    return 0;
}

/* The socket's permissions decide there; a secret goes nowhere it is not needed. */
static bool wants_token(const char *address)
{
    return address[0] != '/' && strncmp(address, "unix:", 5) != 0;
}

static int try_place(struct client *client, const char *address, struct error *err)
{
    const char *token = wants_token(address) ? client->token : NULL;
    if (http_client_connect(address, token, &client->http, err) < 0)
        return -1;
    client->address = xstrdup(address);
    if (!wants_token(address)) {
        free(client->token);
        client->token = NULL;
    }
    return 0;
}

/* By its text: the address and the reason are all that a failed connection says. */
static bool is_absence(const struct error *err)
{
    static const int errnums[] = {ENOENT, ENOTDIR, ECONNREFUSED};
    size_t length = strlen(err->message);
    for (size_t i = 0; i < ARRAY_SIZE(errnums); i++) {
        const char *reason = strerror(errnums[i]);
        if (length > strlen(reason) && strcmp(err->message + length - strlen(reason), reason) == 0)
            return true;
    }
    return false;
}

static int search(struct client *client, struct error *err)
{
    cleanup_strings struct strings places = {0};
    struct error telling = ERROR_INIT;
    client_places(&places);
    for (size_t i = 0; i < places.count; i++) {
        struct error why = ERROR_INIT;
        if (try_place(client, places.items[i], &why) == 0)
            return 0;
        if (telling.code == ERROR_NONE && !is_absence(&why))
            telling = why;
    }
    if (telling.code != ERROR_NONE) {
        *err = telling;
        return -1;
    }
    error_set(err, ERROR_UNAVAILABLE, "no boxd answers, neither at its Unix sockets nor at %s",
              DEFAULT_URL);
    return error_hint(err, START_HINT);
}

int client_connect(const struct client_options *options, struct client *ret, struct error *err)
{
    struct client client = {.failure = EXIT_BOXD};
    const char *url = options->url ? options->url : getenv("BOX_URL");
    if (client_token(options, &client.token, err) < 0)
        return -1;
    int rc = url && url[0] ? try_place(&client, url, err) : search(&client, err);
    if (rc < 0) {
        if (is_absence(err))
            error_hint(err, START_HINT);
        client_disconnect(&client);
        return -1;
    }
    *ret = client;
    return 0;
}

void client_disconnect(struct client *client)
{
    http_client_free(client->http);
    free(client->address);
    free(client->token);
    *client = (struct client){0};
}
