/* SPDX-License-Identifier: Apache-2.0 */
/* The least that talks HTTP and WebSocket, so that what is timed is the other side. */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "common.h"
#include "core/mem.h"

#define HEAD_MAX  1024
#define READ_SIZE (64u * 1024)

static int connect_tcp(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int connect_local(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

void client_open(struct client *client, const struct daemon *daemon, bool tcp)
{
    *client = (struct client){.tcp = tcp};
    client->fd = tcp ? connect_tcp(daemon->port) : connect_local(daemon->socket);
    if (client->fd < 0)
        bench_fail("cannot connect to boxd: %s", strerror(errno));
}

void client_close(struct client *client)
{
    close(client->fd);
    free(client->data);
    free(client->body);
}

static void send_all(struct client *client, struct iovec *parts, int count)
{
    while (count > 0) {
        ssize_t sent = writev(client->fd, parts, count);
        if (sent < 0)
            bench_fail("boxd does not listen: %s", strerror(errno));
        while (count > 0 && (size_t)sent >= parts->iov_len) {
            sent -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + sent;
            parts->iov_len -= (size_t)sent;
        }
    }
}

static void read_more(struct client *client)
{
    if (client->capacity - client->size < READ_SIZE) {
        client->capacity = client->size + 2 * READ_SIZE;
        client->data = xreallocarray(client->data, client->capacity, 1);
    }
    ssize_t size =
        read(client->fd, client->data + client->size, client->capacity - client->size - 1);
    if (size <= 0)
        bench_fail("boxd has closed the connection: %s", size < 0 ? strerror(errno) : "end");
    client->size += (size_t)size;
    client->data[client->size] = '\0';
}

static void use_up(struct client *client, size_t size)
{
    client->size -= size;
    memmove(client->data, client->data + size, client->size);
    client->data[client->size] = '\0';
}

static void take_body(struct client *client, size_t size)
{
    while (client->size < size)
        read_more(client);
    client->body = xreallocarray(client->body, size + 1, 1);
    memcpy(client->body, client->data, size);
    client->body[size] = '\0';
    client->body_size = size;
    use_up(client, size);
}

/* Reads a head and leaves what follows it; the length of the body, 0 if it says none. */
static int read_head(struct client *client, size_t *ret_length)
{
    char *end;
    int status = 0;
    while (client->size == 0 || !(end = strstr(client->data, "\r\n\r\n")))
        read_more(client);
    end[2] = '\0';
    const char *length = strcasestr(client->data, "\r\ncontent-length:");
    sscanf(client->data, "HTTP/1.1 %d", &status);
    *ret_length = length ? strtoul(length + strlen("\r\ncontent-length:"), NULL, 10) : 0;
    if (!length && status != 101 && status != 204)
        bench_fail("an answer without a length: %s", client->data);
    use_up(client, (size_t)(end + 4 - client->data));
    return status;
}

int client_call(struct client *client, const char *method, const char *path, const char *body)
{
    char head[HEAD_MAX];
    char length[96] = "";
    size_t size = body ? strlen(body) : 0;
    if (body)
        snprintf(length, sizeof length, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                 size);
    int head_size = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                             method, path, length);
    struct iovec parts[] = {{head, (size_t)head_size}, {(char *)body, size}};
    send_all(client, parts, body ? 2 : 1);
    int status = read_head(client, &size);
    take_body(client, size);
    return status;
}

void client_expect(struct client *client, int status, const char *method, const char *path,
                   const char *body)
{
    int got = client_call(client, method, path, body);
    if (got != status)
        bench_fail("%s %s was answered with %d: %.400s", method, path, got, client->body);
}

/* --- WebSocket --- */

void client_upgrade(struct client *client, const char *path)
{
    char head[HEAD_MAX];
    size_t length;
    int size = snprintf(head, sizeof head,
                        "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Protocol: mcp\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                        path);
    struct iovec part = {head, (size_t)size};
    send_all(client, &part, 1);
    int status = read_head(client, &length);
    if (status != 101)
        bench_fail("%s was answered with %d", path, status);
}

void client_send_text(struct client *client, const char *text, size_t size)
{
    /* Masked, as a client's frames must be, with a key that leaves the text as it is. */
    unsigned char head[8] = {0x81, (unsigned char)(0x80 | size)};
    size_t head_size = 6;
    if (size > 125) {
        head[1] = 0x80 | 126;
        head[2] = (unsigned char)(size >> 8);
        head[3] = (unsigned char)size;
        head_size = 8;
    }
    struct iovec parts[] = {{head, head_size}, {(char *)text, size}};
    send_all(client, parts, 2);
}

void client_read_text(struct client *client)
{
    while (client->size < 2)
        read_more(client);
    size_t length = (unsigned char)client->data[1];
    size_t head = length == 126 ? 4 : 2;
    while (client->size < head)
        read_more(client);
    if (length == 126)
        length = (size_t)(unsigned char)client->data[2] << 8 | (unsigned char)client->data[3];
    if ((unsigned char)client->data[0] != 0x81 || length > 0xffff || (head == 2 && length > 125))
        bench_fail("an unexpected frame, %02x", (unsigned char)client->data[0]);
    use_up(client, head);
    take_body(client, length);
}
