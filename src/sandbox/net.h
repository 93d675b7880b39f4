/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a session. `off` is an empty namespace with loopback up. `on` is a namespace with
   one way out: as root a veth pair and NAT by nftables, as an ordinary user pasta. What may be
   reached is decided by a filter inside the session's namespace, which the session has no
   capability to change, and as root once more on the host's side. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "core/mem.h"

struct net_cidr {
    int family; /* AF_INET or AF_INET6 */
    union {
        struct in_addr v4;
        struct in6_addr v6;
    } address;
    unsigned prefix;
};

/* "10.0.0.0/8", "1.2.3.4", "fd00::/8". Host bits below the prefix must be zero. No I/O. */
int net_cidr_parse(const char *text, struct net_cidr *ret, struct error *err);
void net_cidr_format(const struct net_cidr *cidr, char *ret, size_t size);

#define NET_ALLOW_MAX    64
#define NET_RESOLVER_MAX 3

struct net_policy {
    /* Private ranges that may be reached all the same. IPv6 ranges have no effect: sessions have no
       IPv6. The host's own addresses and other sessions stay out of reach even if a range covers
       them. */
    struct net_cidr allow[NET_ALLOW_MAX];
    size_t allow_count;
    struct in_addr resolvers[NET_RESOLVER_MAX]; /* reachable on port 53 wherever they are */
    size_t resolver_count;
};

/* Reads the host's resolvers (IPv4, not loopback: a stub such as 127.0.0.53 is followed to its
   upstream list where systemd-resolved has one). None is no error. */
void net_host_resolvers(struct net_policy *policy);
/* The host's own IPv4 addresses, added to *ret as text. To be asked before the session's namespace
   is entered: inside, the answer would be the session's. */
int net_host_addresses(struct strings *ret, struct error *err);
/* The text of the session's resolv.conf. The caller frees. */
char *net_resolv_conf(const struct net_policy *policy);
/* The nftables ruleset for a session's own namespace, as text. Pure; unit tests read it.
   `host_addresses` are the host's own, as net_host_addresses() gives them. The caller frees. */
char *net_filter_text(const struct net_policy *policy, const struct strings *host_addresses);

/* Ready-made empty namespaces, loopback up, owned by nobody's session. Root only. One is used again
   after its session's last process is gone. */
struct netns_pool;
struct netns_pool *netns_pool_new(unsigned keep);
void netns_pool_free(struct netns_pool *pool);
/* A namespace fd, from the store or made now. */
int netns_pool_take(struct netns_pool *pool, int *ret_fd, struct error *err);
/* Takes ownership of fd; kept if there is room and no socket is left in it, else closed. Never give
   back one that had a link. */
void netns_pool_give(struct netns_pool *pool, int fd);
/* Makes one more if fewer than `keep` are in store or lent out to come back; true if it did. For
   idle moments. */
bool netns_pool_fill(struct netns_pool *pool, unsigned lent);

/* Makes the calling process's own namespace fit to live in: loopback up. */
int net_prepare(struct error *err);
/* Every port and ping for anybody, in the namespace that the procfs mount `proc` is looked at from.
 */
void net_open_ports(int proc);

/* Root: gives the namespace behind `netns_fd` a link to the host, an address, a default route and
   its filter. `index` (0 … 16383) picks the addresses and the link's name and must be unique among
   live sessions of the machine: a link that bears the name already is taken for a dead session's
   and replaced. Link and addresses vanish with the namespace, some tens of milliseconds after its
   last process and fd. So a session's end needs no detach: that removes the link now, and the
   kernel makes the caller wait as long for it, as it does for an index used again at once. The
   host's rules vanish with this process (a table owned by its netlink socket, which is
   close-on-exec: a forked child that neither executes nor closes it keeps them). ERROR_UNSUPPORTED
   if the host does not forward packets. The calling process must have one thread: it steps into the
   namespace and back. */
struct net_host;
int net_host_open(struct net_host **ret, struct error *err); /* host's side; made at first use */
void net_host_close(struct net_host *host);
int net_host_attach(struct net_host *host, int netns_fd, unsigned index,
                    const struct net_policy *policy, struct error *err);
void net_host_detach(struct net_host *host, unsigned index);

/* Ordinary user. First inside the session's new user and network namespace: the filter. */
int net_filter_install(const struct net_policy *policy, const struct strings *host_addresses,
                       struct error *err);
/* Then from outside: pasta, joined to the namespaces of `pid`, whose user namespace the caller must
   own. Returns when the session has its link. *ret_pasta is a child of the caller that holds pasta
   and is the caller's to reap; it ends with the session's process `pid`, with the caller unless it
   is to `outlive` it, and on SIGTERM. */
int net_pasta_start(pid_t pid, bool outlive, pid_t *ret_pasta, struct error *err);
/* NULL if networks can be made, else why not; *ret_fix the command that helps, or NULL. Valid until
   the next call. */
const char *net_unavailable(const char **ret_fix);
