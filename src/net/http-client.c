/* SPDX-License-Identifier: Apache-2.0 */
/* The client's calls: a request out, the head of its answer in. */
#include "net/http-client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/mem.h"
#include "net/http-client-internal.h"

#define SOURCE_PIECE 65536
/* What is read of an unwanted body so as to keep its connection. */
#define DROP_MAX (1024 * 1024)

static bool line_valid(const char *text)
{
    return !strpbrk(text, "\r\n");
}

static int parse_address(struct http_client *client, const char *address, struct error *err)
{
    if (strncmp(address, "unix:", 5) == 0)
        address += 5;
    if (address[0] == '/' || address[0] == '.') {
        client->path = xstrdup(address);
        return 0;
    }
    if (strncasecmp(address, "https://", 8) == 0) {
        error_set(err, ERROR_UNSUPPORTED, "%s: TLS is not spoken here", address);
        return error_hint(err, "use http://, or a tunnel: ssh -L");
    }
    if (strncasecmp(address, "http://", 7) == 0)
        address += 7;
    size_t size = strcspn(address, "/");
    if (size == 0 || (address[size] && address[size + 1]) || !line_valid(address))
        return error_set(err, ERROR_INVALID, "\"%s\" is not an address", client->address);
    bool port = memchr(address, ':', size) && address[size - 1] != ']';
    client->host = xasprintf("%.*s%s", (int)size, address, port ? "" : ":80");
    return 0;
}

int http_client_connect(const char *address, const char *token, struct http_client **ret,
                        struct error *err)
{
    if (token && (!line_valid(token) || !*token))
        return error_set(err, ERROR_INVALID, "the token is empty or has a line break in it");
    cleanup_http_client struct http_client *client = xcalloc(1, sizeof *client);
    client->fd = -1;
    client->address = xstrdup(address);
    client->token = token ? xstrdup(token) : NULL;
    client->in = xmalloc(CLIENT_INPUT);
    if (parse_address(client, address, err) < 0 || client_open(client, err) < 0)
        return -1;
    *ret = steal_ptr(client);
    return 0;
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    fd_clear(&client->fd);
    free(client->address);
    free(client->host);
    free(client->path);
    /* Not to be found in what somebody allocates next. */
    if (client->token)
        explicit_bzero(client->token, strlen(client->token));
    free(client->token);
    free(client->in);
    free(client->head_data);
    free(client);
}

/* --- the request ---------------------------------------------------------------------------------
 */

static char *make_head(const struct http_client *client, const struct http_call *call, size_t *size,
                       struct error *err)
{
    const char *method = call->method ? call->method : "GET";
    cleanup_free char *text = NULL;
    if (call->target[0] != '/' || strpbrk(call->target, " \r\n") || !line_valid(method) ||
        (call->type && !line_valid(call->type))) {
        error_set(err, ERROR_INVALID, "\"%s\" is not a request target", call->target);
        return NULL;
    }
    FILE *out = open_memstream(&text, size);
    if (!out) {
        error_errno(err, errno, "cannot make a request");
        return NULL;
    }
    fprintf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, call->target,
            client->host ? client->host : "localhost");
    if (client->token)
        fprintf(out, "Authorization: Bearer %s\r\n", client->token);
    if (call->type)
        fprintf(out, "Content-Type: %s\r\n", call->type);
    if (call->source && call->source_length == HTTP_CLIENT_CHUNKED)
        fputs("Transfer-Encoding: chunked\r\n", out);
    else if (call->source || call->body || strcmp(method, "GET") != 0)
        fprintf(out, "Content-Length: %ju\r\n",
                call->source ? (uintmax_t)call->source_length : (uintmax_t)call->body_size);
    bool valid = true;
    for (size_t i = 0; call->headers && call->headers[i]; i++) {
        valid &= line_valid(call->headers[i]);
        fprintf(out, "%s\r\n", call->headers[i]);
    }
    fputs("\r\n", out);
    fclose(out);
    if (!valid) {
        error_set(err, ERROR_INVALID, "a header has a line break in it");
        return NULL;
    }
    return steal_ptr(text);
}

/* Returns 1 if the server did not want to hear the rest. */
static int send_source(struct http_client *client, const struct http_call *call, struct error *err)
{
    cleanup_free char *piece = xmalloc(SOURCE_PIECE + 32);
    bool chunked = call->source_length == HTTP_CLIENT_CHUNKED;
    uint64_t left = call->source_length;
    for (;;) {
        /* Room in front for the size of a chunk, behind for its line end. */
        char *data = piece + 16;
        size_t want = chunked || left > SOURCE_PIECE ? SOURCE_PIECE : (size_t)left;
        ssize_t n = want ? call->source(data, want, call->source_data) : 0;
        if (n < 0)
            return error_errno(err, (int)-n, "cannot read what is to be sent");
        if (n == 0 && !chunked && left)
            return error_set(err, ERROR_INVALID, "what is to be sent is shorter than it was");
        if (n == 0)
            return chunked ? client_send(client, "0\r\n\r\n", 5, true, err) : 0;
        size_t size = (size_t)n;
        if (chunked) {
            char line[16];
            int length = snprintf(line, sizeof line, "%zx\r\n", size);
            data -= length;
            memcpy(data, line, (size_t)length);
            memcpy(data + length + size, "\r\n", 2);
            size += (size_t)length + 2;
        }
        int r = client_send(client, data, size, true, err);
        if (r != 0)
            return r;
        left -= chunked ? 0 : (size_t)n;
    }
}

static int send_request(struct http_client *client, const struct http_call *call, struct error *err)
{
    size_t size;
    cleanup_free char *head = make_head(client, call, &size, err);
    if (!head)
        return -1;
    if (!call->source && call->body_size && call->body_size < 4096) {
        head = xreallocarray(head, size + call->body_size, 1);
        memcpy(head + size, call->body, call->body_size);
        return client_send(client, head, size + call->body_size, false, err);
    }
    int r = client_send(client, head, size, false, err);
    if (r == 0 && call->source)
        return send_source(client, call, err);
    return r == 0 ? client_send(client, call->body, call->body_size, true, err) : r;
}

/* --- calls ---------------------------------------------------------------------------------------
 */

/* Whether the connection of the last call can be used again. */
static bool reusable(struct http_client *client)
{
    char scrap[16384];
    size_t dropped = 0;
    if (client->fd < 0 || client->eof)
        return false;
    if (!client->used)
        return true;
    if (!client->answered || !client->head.keep_alive || client->body == CLIENT_BODY_TO_CLOSE)
        return false;
    while (client->body != CLIENT_BODY_NONE) {
        ssize_t n = http_client_read(client, scrap, sizeof scrap, NULL);
        if (n < 0 || (dropped += (size_t)n) > DROP_MAX)
            return false;
    }
    /* Something to read now can only be its end. */
    struct pollfd pfd = {.fd = client->fd, .events = POLLIN};
    return client->in_start == client->in_end && poll(&pfd, 1, 0) == 0;
}

static int call_once(struct http_client *client, const struct http_call *call, struct error *err)
{
    struct error sending = ERROR_INIT;
    client->used = true;
    client->answered = false;
    client->no_body = call->method && strcmp(call->method, "HEAD") == 0;
    int sent = send_request(client, call, &sending);
    if (sent < 0 && sending.code != ERROR_GONE) {
        if (err)
            *err = sending;
        return -1;
    }
    /* A server that stopped listening may have said why. */
    if (!client->answered && client_read_head(client, err) < 0)
        return -1;
    if (sent != 0)
        client->head.keep_alive = false;
    return 0;
}

int http_client_call(struct http_client *client, const struct http_call *call, struct error *err)
{
    client->timeout_ms = call->timeout_ms;
    bool again = client->used && !call->source;
    if (!reusable(client)) {
        again = false;
        if (client_open(client, err) < 0)
            return -1;
    }
    struct error first = ERROR_INIT;
    int r = call_once(client, call, &first);
    /* It may have closed a kept connection just before the request came: then it has not seen it.
     */
    if (r < 0 && again && first.code == ERROR_GONE && client->in_end == 0) {
        if (client_open(client, err) < 0)
            return -1;
        return call_once(client, call, err);
    }
    if (r < 0) {
        fd_clear(&client->fd);
        if (err)
            *err = first;
    }
    return r;
}

int http_client_status(const struct http_client *client)
{
    return client->answered ? client->head.status : 0;
}

const char *http_client_header(const struct http_client *client, const char *name)
{
    const struct http_field *field =
        client->answered ? http_head_find(&client->head, client->head_data, name) : NULL;
    return field ? client->head_data + field->value.at : NULL;
}

char *http_client_encode(const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = xmalloc(strlen(text) * 3 + 1);
    char *at = out;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
            strchr("-._~", c)) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        }
    }
    *at = '\0';
    return out;
}
