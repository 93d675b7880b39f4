/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as people write them. */
#include "net/http-address.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "core/mem.h"
#include "core/parse.h"

int http_address_split(const char *address, char **ret_host, char **ret_port, struct error *err)
{
    const char *colon = strrchr(address, ':');
    const char *host = address;
    uint64_t port;
    if (!colon)
        return error_set(err, ERROR_INVALID, "\"%s\" is not HOST:PORT, as in 127.0.0.1:5410",
                         address);
    size_t size = (size_t)(colon - address);
    if (parse_u64(colon + 1, 65535, &port) < 0)
        return error_set(err, ERROR_INVALID,
                         "the port in \"%s\" must be a number between 0 and 65535", address);
    if (size >= 2 && host[0] == '[' && host[size - 1] == ']') {
        host++;
        size -= 2;
    } else if (memchr(host, ':', size)) {
        return error_set(err, ERROR_INVALID, "the IPv6 address in \"%s\" needs brackets", address);
    }
    if (size == 0)
        return error_set(err, ERROR_INVALID, "\"%s\" has no host", address);
    *ret_host = xstrndup(host, size);
    *ret_port = xstrdup(colon + 1);
    return 0;
}

int http_address_resolve(const char *address, bool passive, struct addrinfo **ret,
                         struct error *err)
{
    cleanup_free char *host = NULL;
    cleanup_free char *port = NULL;
    if (http_address_split(address, &host, &port, err) < 0)
        return -1;
    /* Which addresses a name server or a hosts file has for it is beside the point. */
    const char *name = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
    int r = getaddrinfo(name, port, &hints, ret);
    if (r == EAI_SYSTEM)
        return error_errno(err, errno, "cannot resolve %s", host);
    if (r != 0)
        return error_set(err, ERROR_NOT_FOUND, "cannot resolve %s: %s", host, gai_strerror(r));
    return 0;
}

int http_address_unix(const char *path, struct sockaddr_un *ret, struct error *err)
{
    size_t size = strlen(path);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (size == 0 || size >= sizeof ret->sun_path)
        return error_set(err, ERROR_INVALID, "a socket's path has 1 to %zu characters: \"%s\"",
                         sizeof ret->sun_path - 1, path);
    memcpy(ret->sun_path, path, size);
    return 0;
}
