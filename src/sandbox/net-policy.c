/* SPDX-License-Identifier: Apache-2.0 */
/* Address ranges and name servers: text in, values out, and back. */
#include "sandbox/net-internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/fd.h"

#define RESOLV_CONF_MAX (64 * 1024)

/* "0" … "128": digits only, no leading zero; -1 if it is anything else. */
static int prefix_parse(const char *text, unsigned max)
{
    size_t length = strlen(text);
    if (length < 1 || length > 3 || strspn(text, "0123456789") != length)
        return -1;
    if (length > 1 && text[0] == '0')
        return -1;
    unsigned value = 0;
    for (; *text; text++)
        value = value * 10 + (unsigned)(*text - '0');
    return value <= max ? (int)value : -1;
}

static bool host_bits_zero(const unsigned char *address, unsigned size, unsigned prefix)
{
    for (unsigned bit = prefix; bit < size * 8; bit++) {
        if (address[bit / 8] & (0x80u >> (bit % 8)))
            return false;
    }
    return true;
}

int net_cidr_parse(const char *text, struct net_cidr *ret, struct error *err)
{
    char address[INET6_ADDRSTRLEN];
    struct net_cidr cidr = {0};
    size_t length = strcspn(text, "/");
    if (length >= sizeof address)
        return error_set(err, ERROR_INVALID, "\"%.48s…\" is not an IP address", text);
    memcpy(address, text, length);
    address[length] = '\0';
    cidr.family = strchr(address, ':') ? AF_INET6 : AF_INET;
    if (inet_pton(cidr.family, address, &cidr.address) != 1)
        return error_set(err, ERROR_INVALID, "\"%.64s\" is not an IP address", address);
    unsigned size = cidr.family == AF_INET ? 4 : 16;
    int prefix = text[length] ? prefix_parse(text + length + 1, size * 8) : (int)size * 8;
    if (prefix < 0)
        return error_set(err, ERROR_INVALID, "\"%.64s\": the prefix must be 0 to %u", text,
                         size * 8);
    cidr.prefix = (unsigned)prefix;
    /* Someone who writes 10.1.2.3/8 may mean one machine; opening ten million would be a poor
     * guess. */
    if (!host_bits_zero((const unsigned char *)&cidr.address, size, cidr.prefix))
        return error_set(err, ERROR_INVALID, "\"%.64s\" has bits set below its prefix", text);
    *ret = cidr;
    return 0;
}

void net_cidr_format(const struct net_cidr *cidr, char *ret, size_t size)
{
    char address[INET6_ADDRSTRLEN];
    if (!inet_ntop(cidr->family, &cidr->address, address, sizeof address))
        strcpy(address, "?");
    if (cidr->prefix == (cidr->family == AF_INET ? 32u : 128u))
        snprintf(ret, size, "%s", address);
    else
        snprintf(ret, size, "%s/%u", address, cidr->prefix);
}

bool net_cidr_contains(const struct net_cidr *outer, const struct net_cidr *inner)
{
    if (outer->family != inner->family || outer->prefix > inner->prefix)
        return false;
    const unsigned char *a = (const unsigned char *)&outer->address;
    const unsigned char *b = (const unsigned char *)&inner->address;
    unsigned whole = outer->prefix / 8;
    unsigned rest = outer->prefix % 8;
    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

/* The address of a line "nameserver ADDRESS", keyword in the first column as the C library wants
 * it. */
static bool nameserver_parse(const char *line, size_t length, struct in_addr *ret)
{
    static const char keyword[] = "nameserver";
    char address[INET_ADDRSTRLEN];
    size_t at = sizeof keyword - 1;
    if (length <= at || memcmp(line, keyword, at) != 0 || (line[at] != ' ' && line[at] != '\t'))
        return false;
    while (at < length && (line[at] == ' ' || line[at] == '\t'))
        at++;
    size_t end = at;
    while (end < length && !memchr(" \t\r#;", line[end], 5))
        end++;
    if (end - at >= sizeof address)
        return false;
    memcpy(address, line + at, end - at);
    address[end - at] = '\0';
    return strlen(address) == end - at && inet_pton(AF_INET, address, ret) == 1;
}

size_t net_resolvers_parse(const char *text, size_t size, struct in_addr *ret, size_t max)
{
    size_t count = 0;
    while (size > 0 && count < max) {
        const char *newline = memchr(text, '\n', size);
        size_t length = newline ? (size_t)(newline - text) : size;
        struct in_addr address;
        if (nameserver_parse(text, length, &address)) {
            unsigned first = ntohl(address.s_addr) >> 24;
            bool known = false;
            for (size_t i = 0; i < count; i++)
                known |= ret[i].s_addr == address.s_addr;
            if (!known && first != 0 && first != 127 && first < 224)
                ret[count++] = address;
        }
        text += length + (newline ? 1 : 0);
        size -= length + (newline ? 1 : 0);
    }
    return count;
}

void net_host_resolvers(struct net_policy *policy)
{
    /* The second is systemd-resolved's list of the servers behind its stub. */
    static const char *const paths[] = {"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"};
    cleanup_free char *text = xmalloc(RESOLV_CONF_MAX);
    policy->resolver_count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(paths) && policy->resolver_count == 0; i++) {
        ssize_t size = fd_read_file(AT_FDCWD, paths[i], text, RESOLV_CONF_MAX);
        if (size > 0)
            policy->resolver_count =
                net_resolvers_parse(text, (size_t)size, policy->resolvers, NET_RESOLVER_MAX);
    }
}

char *net_resolv_conf(const struct net_policy *policy)
{
    /* With no server listed the C library asks 127.0.0.1, where nothing listens: look-ups fail at
       once. The host's search domains stay outside: they are names of its private network. */
    char text[32 + NET_RESOLVER_MAX * (INET_ADDRSTRLEN + 16)] = "# made by boxd\n";
    for (size_t i = 0; i < policy->resolver_count && i < NET_RESOLVER_MAX; i++) {
        char address[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &policy->resolvers[i], address, sizeof address);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "nameserver %s\n", address);
    }
    return xstrdup(text);
}
