/* SPDX-License-Identifier: Apache-2.0 */
/* The network of sessions as root: one nftables table on the host for all of them, and for each
   session a link whose far end is filtered before it comes up.

   The table matches links by their names' beginning, so that a session comes and goes without
   touching it. It belongs to this process's netlink socket: however the process ends, the kernel
   takes the table away. Another boxd beside this one has a table of its own that says the same, and
   either is enough for the sessions of both. When the last is gone, live sessions keep their own
   filters and lose NAT, that is, the way out. Nothing else of the host's rules is read or changed;
   a firewall there that drops forwarded packets still does so, for an accept in one table does not
   bind another. */
#include "sandbox/net-internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"

#define LINKS "\"" NET_LINK_NAME "*\""

struct net_host {
    int home;
    struct mnl_socket *route;
    struct nft_ctx *table;
    struct strings addresses;
};

int net_forwarding(struct error *err)
{
    char text[16];
    ssize_t size = fd_read_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", text, sizeof text);
    if (size < 0)
        return error_errno(err, (int)-size, "cannot read net.ipv4.ip_forward");
    if (text[0] != '0')
        return 0;
    /* Turning it on makes a router of the machine for everyone around it: the operator's to decide.
     */
    error_set(err, ERROR_UNSUPPORTED,
              "the host does not forward packets (net.ipv4.ip_forward is 0)");
    return error_hint(err, "sysctl -w net.ipv4.ip_forward=1");
}

/* A name server that runs on the host itself, at an address that is not loopback, would otherwise
   be refused with everything else of the host's. Which of them a session may ask, its own filter
   says. */
static char *resolver_rules(void)
{
    struct net_policy policy = {0};
    char *rules = xstrdup("");
    net_host_resolvers(&policy);
    for (size_t i = 0; i < policy.resolver_count; i++) {
        char address[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &policy.resolvers[i], address, sizeof address);
        char *longer = xasprintf("%s\t\tiifname " LINKS " ip daddr %s udp dport 53 accept\n"
                                 "\t\tiifname " LINKS " ip daddr %s tcp dport 53 accept\n",
                                 rules, address, address);
        free(rules);
        rules = longer;
    }
    return rules;
}

static char *table_text(void)
{
    cleanup_free char *resolvers = resolver_rules();
    return xasprintf("table inet boxd_%d {\n"
                     "\tflags owner\n"
                     "\tchain refuse {\n"
                     "\t\tmeta l4proto tcp reject with tcp reset\n"
                     "\t\treject with icmpx admin-prohibited\n"
                     "\t}\n"
                     /* The host's own addresses, and with them boxd's port. */
                     "\tchain input {\n"
                     "\t\ttype filter hook input priority filter; policy accept;\n"
                     "%s"
                     "\t\tiifname " LINKS " goto refuse\n"
                     "\t}\n"
                     /* Between sessions, nothing; from them, only what a link's address can send;
                        to them, only answers. */
                     "\tchain forward {\n"
                     "\t\ttype filter hook forward priority filter; policy accept;\n"
                     "\t\tiifname " LINKS " oifname " LINKS " goto refuse\n"
                     "\t\tiifname " LINKS " meta nfproto ipv6 drop\n"
                     "\t\tiifname " LINKS " ip saddr != " NET_BLOCK " drop\n"
                     "\t\toifname " LINKS " ct state new,invalid drop\n"
                     "\t}\n"
                     "\tchain postrouting {\n"
                     "\t\ttype nat hook postrouting priority srcnat; policy accept;\n"
                     "\t\tiifname " LINKS " ip saddr " NET_BLOCK " masquerade\n"
                     "\t}\n"
                     "}\n",
                     (int)getpid(), resolvers);
}

int net_host_open(struct net_host **ret, struct error *err)
{
    if (net_forwarding(err) < 0)
        return -1;
    struct net_host *host = xcalloc(1, sizeof *host);
    cleanup_free char *text = table_text();
    host->home = netns_self();
    if (host->home < 0)
        error_errno(err, errno, "cannot open /proc/self/ns/net");
    else if (net_host_addresses(&host->addresses, err) == 0 &&
             (host->route = net_link_socket(err)) && net_nft_hold(text, &host->table, err) == 0) {
        *ret = host;
        return 0;
    }
    net_host_close(host);
    return error_wrap(err, "the host's side of the network");
}

void net_host_close(struct net_host *host)
{
    if (!host)
        return;
    net_nft_release(host->table);
    if (host->route)
        mnl_socket_close(host->route);
    fd_clear(&host->home);
    strings_release(&host->addresses);
    free(host);
}

/* The filter first, the link up after it: there is no moment in which a session could get out past
 * it. */
static int attach_inside(const struct net_host *host, int netns_fd, unsigned index,
                         const struct net_policy *policy, struct error *err)
{
    if (setns(netns_fd, CLONE_NEWNET) < 0)
        return error_errno(err, errno, "cannot enter the session's network namespace");
    int rc = net_filter_install(policy, &host->addresses, err);
    if (rc == 0)
        rc = net_link_connect(index, err);
    netns_return(host->home);
    return rc;
}

int net_host_attach(struct net_host *host, int netns_fd, unsigned index,
                    const struct net_policy *policy, struct error *err)
{
    if (index > NET_INDEX_MAX)
        return error_set(err, ERROR_LIMIT, "no network address is left (index %u of %u)", index,
                         NET_INDEX_MAX);
    if (net_link_create(host->route, netns_fd, index, err) < 0)
        return -1;
    if (attach_inside(host, netns_fd, index, policy, err) == 0)
        return 0;
    net_link_delete(host->route, index);
    return -1;
}

void net_host_detach(struct net_host *host, unsigned index)
{
    net_link_delete(host->route, index);
}
