/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, for those who listen on them and those who connect. */
#pragma once

#include <netdb.h>
#include <stdbool.h>
#include <sys/un.h>

#include "core/error.h"

/* "host:port" or "[v6]:port"; the caller frees both. */
int http_address_split(const char *address, char **ret_host, char **ret_port, struct error *err);
/* The same, to be freed with freeaddrinfo(). */
int http_address_resolve(const char *address, bool passive, struct addrinfo **ret,
                         struct error *err);
int http_address_unix(const char *path, struct sockaddr_un *ret, struct error *err);
