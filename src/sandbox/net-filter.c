/* SPDX-License-Identifier: Apache-2.0 */
/* The filter inside a session's namespace: what it may reach, as an nftables ruleset.

   What is refused is refused loudly (a reset, or ICMP "administratively prohibited"), so that a
   client fails at once and does not sit out a timeout. The order of the rules is the policy: own
   loopback, answers, name servers on port 53, never the host or another session, then what the
   configuration opens, then no private or special range, then the public internet.

   There is no IPv6: the link has no address of that kind that leads anywhere, and the filter
   refuses what would go out all the same. Half of a dual stack would double what has to be right,
   and a name that resolves to both is reached by its IPv4 address without delay, because the C
   library sorts by what is routable. */
#include "sandbox/net-internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

/* Not in here on purpose: the documentation ranges 192.0.2, 198.51.100 and 203.0.113 (nobody's, and
   what tests use as public), and 198.18.0.0/15, which proxies on the host answer in place of real
   names. */
static const char *const private_ranges[] = {
    "0.0.0.0/8",      /* "this network" */
    "10.0.0.0/8",     /* RFC 1918 */
    "100.64.0.0/10",  /* carriers and overlay VPNs; Alibaba's metadata service */
    "127.0.0.0/8",    /* when bound to the link, not to loopback */
    "168.63.129.16",  /* Azure's fabric, a public address that only the machine itself can reach */
    "169.254.0.0/16", /* link-local: the metadata service of most clouds */
    "172.16.0.0/12",  /* RFC 1918 */
    "192.0.0.0/24",   /* IETF protocol assignments; Oracle's metadata service */
    "192.168.0.0/16", /* RFC 1918 */
    "224.0.0.0/3",    /* multicast, reserved, broadcast */
};

static bool covered(const struct net_cidr *cidr, const struct net_cidr *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (net_cidr_contains(&list[i], cidr))
            return true;
    }
    return false;
}

static void put_cidr(FILE *out, const struct net_cidr *cidr, bool first)
{
    char text[INET6_ADDRSTRLEN + 8];
    net_cidr_format(cidr, text, sizeof text);
    fprintf(out, "%s%s", first ? "" : ", ", text);
}

/* Ranges are put where they nest in none put before or after: nftables refuses sets that overlap.
 */
static void put_allowed(FILE *out, const struct net_policy *policy)
{
    bool first = true;
    for (size_t i = 0; i < policy->allow_count && i < NET_ALLOW_MAX; i++) {
        const struct net_cidr *cidr = &policy->allow[i];
        if (cidr->family != AF_INET || covered(cidr, policy->allow, i))
            continue;
        bool nested = false;
        for (size_t j = i + 1; j < policy->allow_count && j < NET_ALLOW_MAX; j++)
            nested |= policy->allow[j].prefix < cidr->prefix &&
                      net_cidr_contains(&policy->allow[j], cidr);
        if (nested)
            continue;
        if (first)
            fputs("\t\tip daddr { ", out);
        put_cidr(out, cidr, first);
        first = false;
    }
    if (!first)
        fputs(" } accept\n", out);
}

/* Host addresses in a private range are refused by the range already, unless an allowed range
   reopens it; leaving them out keeps the ruleset short on machines with thousands of them. */
static void put_host(FILE *out, const struct net_policy *policy, const struct strings *addresses)
{
    struct net_cidr ranges[ARRAY_SIZE(private_ranges)];
    for (size_t i = 0; i < ARRAY_SIZE(private_ranges); i++)
        net_cidr_parse(private_ranges[i], &ranges[i], NULL);
    cleanup_free struct net_cidr *put = xcalloc(addresses->count + 1, sizeof *put);
    size_t count = 0;
    net_cidr_parse(NET_BLOCK, &put[count++], NULL);
    fputs("\t\tip daddr { " NET_BLOCK, out);
    for (size_t i = 0; i < addresses->count; i++) {
        struct net_cidr cidr;
        if (net_cidr_parse(addresses->items[i], &cidr, NULL) < 0 || cidr.family != AF_INET ||
            cidr.prefix != 32)
            continue;
        if (covered(&cidr, put, count) || (covered(&cidr, ranges, ARRAY_SIZE(ranges)) &&
                                           !covered(&cidr, policy->allow, policy->allow_count)))
            continue;
        put_cidr(out, &cidr, false);
        put[count++] = cidr;
    }
    fputs(" } goto refuse\n", out);
}

static void put_resolvers(FILE *out, const struct net_policy *policy)
{
    for (size_t i = 0; i < policy->resolver_count && i < NET_RESOLVER_MAX; i++) {
        char address[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &policy->resolvers[i], address, sizeof address);
        fprintf(out, "\t\tip daddr %s udp dport 53 accept\n", address);
        fprintf(out, "\t\tip daddr %s tcp dport 53 accept\n", address);
    }
}

char *net_filter_text(const struct net_policy *policy, const struct strings *host_addresses)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    fputs("table inet boxd {\n"
          "\tchain refuse {\n"
          "\t\tmeta l4proto tcp reject with tcp reset\n"
          "\t\treject with icmpx admin-prohibited\n"
          "\t}\n"
          "\tchain output {\n"
          "\t\ttype filter hook output priority filter; policy accept;\n"
          "\t\toifname \"lo\" accept\n"
          "\t\tct state established,related accept\n"
          "\t\tmeta nfproto ipv6 goto refuse\n",
          out);
    put_resolvers(out, policy);
    put_host(out, policy, host_addresses);
    put_allowed(out, policy);
    fputs("\t\tip daddr { ", out);
    for (size_t i = 0; i < ARRAY_SIZE(private_ranges); i++)
        fprintf(out, "%s%s", i ? ", " : "", private_ranges[i]);
    fputs(" } goto refuse\n"
          "\t}\n"
          "\tchain input {\n"
          "\t\ttype filter hook input priority filter; policy drop;\n"
          "\t\tiifname \"lo\" accept\n"
          "\t\tct state established,related accept\n"
          "\t}\n"
          "}\n",
          out);
    if (fclose(out) != 0)
        abort();
    return text;
}

int net_host_addresses(struct strings *ret, struct error *err)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) < 0)
        return error_errno(err, errno, "cannot list the host's addresses");
    for (struct ifaddrs *at = list; at; at = at->ifa_next) {
        char text[INET_ADDRSTRLEN];
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET)
            continue;
        /* Ends of sessions' links are in boxd's own block, which is refused as a whole. */
        if (strncmp(at->ifa_name, NET_LINK_NAME, strlen(NET_LINK_NAME)) == 0)
            continue;
        struct sockaddr_in address;
        memcpy(&address, at->ifa_addr, sizeof address);
        strings_add(ret, inet_ntop(AF_INET, &address.sin_addr, text, sizeof text));
    }
    freeifaddrs(list);
    return 0;
}

int net_filter_install(const struct net_policy *policy, const struct strings *host_addresses,
                       struct error *err)
{
    cleanup_free char *text = net_filter_text(policy, host_addresses);
    if (net_nft_run(text, err) < 0)
        return error_wrap(err, "the session's packet filter");
    return 0;
}
