/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the network share among themselves, and with their unit test. */
#pragma once

#include "sandbox/net.h"

/* boxd's own addresses. Index i has the pair 10.213.0.0 + 2i (host) and + 2i + 1 (session), a /31
   as in RFC 3021, so all 16,384 fit in the lower half; the upper half is for pasta. No container
   engine, cluster or VPN hands 10.213 out by default, and where a real network has it all the same,
   the host's routes change only for the two addresses of each live session. */
#define NET_BLOCK       "10.213.0.0/16"
#define NET_BLOCK_FIRST 0x0ad50000u
#define NET_LINK_PREFIX 31
#define NET_PASTA_SELF  "10.213.255.1"
#define NET_PASTA_GATE  "10.213.255.0"

#define NET_INDEX_MAX 16383u
/* The host's end of a link is boxd<index>; rules match every such name at once. */
#define NET_LINK_NAME   "boxd"
#define NET_INSIDE_NAME "eth0"

/* Whether every address of `inner` is in `outer`. */
bool net_cidr_contains(const struct net_cidr *outer, const struct net_cidr *inner);

/* The IPv4 name servers of a resolv.conf that another machine could use too: not loopback, not
   0.0.0.0, none twice, at most `max`. Returns how many. No I/O. */
size_t net_resolvers_parse(const char *text, size_t size, struct in_addr *ret, size_t max);

/* The namespace this process is in, as an fd; -1 with errno. */
int netns_self(void);
/* Goes back to the namespace behind `home`. There is no way to carry on in the wrong one: aborts.
 */
void netns_return(int home);

/* 0 if nftables can be spoken to, or -1 with the reason and the fix. */
int net_nft_available(struct error *err);
/* Runs nftables commands in the calling process's own namespace, as one transaction. */
int net_nft_run(const char *text, struct error *err);
/* The same for a table with `flags owner`: it lives until released, or until this process ends. */
struct nft_ctx;
int net_nft_hold(const char *text, struct nft_ctx **ret, struct error *err);
void net_nft_release(struct nft_ctx *held);

/* rtnetlink. The first three act in the namespace `route` was opened in, the last in the current
 * one. */
struct mnl_socket;
struct mnl_socket *net_link_socket(struct error *err);
/* Makes the pair, one end in `netns_fd` and still down, and configures the host's end. */
int net_link_create(struct mnl_socket *route, int netns_fd, unsigned index, struct error *err);
void net_link_delete(struct mnl_socket *route, unsigned index);
/* Inside: address, up, default route. */
int net_link_connect(unsigned index, struct error *err);

/* 0, or -1 with the reason and the fix: pasta for this user; the host forwarding packets. */
int net_pasta_available(struct error *err);
int net_forwarding(struct error *err);
