/* SPDX-License-Identifier: Apache-2.0 */
/* A session's link, by rtnetlink: a veth pair, made with its far end in the session's namespace.

   Both ends get an interface number of our choosing, so that the messages that follow need not ask
   for it: one request makes the pair, one configures the host's end, one the session's, each a send
   and a receive. The pair is made by itself, because the messages after it go by that number, and
   if it were somebody else's they would change his link.

   IPv6 is off on both ends: without an address generator they never get even a link-local one. */
#include "sandbox/net-internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Far above what the kernel counts up to by itself; inside, above the tunnels some kernels put into
   every namespace. */
#define HOST_INTERFACE   (1 << 24)
#define INSIDE_INTERFACE 1000

#define LINK_LOCAL_NONE 1 /* IN6_ADDR_GEN_MODE_NONE; its header clashes with net/if.h */

struct request {
    _Alignas(struct nlmsghdr) char data[1024];
    size_t used;
    struct nlmsghdr *last;
    uint32_t sequence;
};

static struct nlmsghdr *message_begin(struct request *request, uint16_t type, uint16_t flags)
{
    struct nlmsghdr *message = mnl_nlmsg_put_header(request->data + request->used);
    message->nlmsg_type = type;
    message->nlmsg_flags = NLM_F_REQUEST | flags;
    message->nlmsg_seq = ++request->sequence;
    request->last = message;
    return message;
}

static void message_end(struct request *request)
{
    request->used += NLMSG_ALIGN(request->last->nlmsg_len);
    if (request->used > sizeof request->data)
        abort(); /* every message here has a fixed size */
}

/* Sends all messages at once. The kernel handles them before the send returns, so that answers are
   waited for with no deadline and no blocking. Returns 0 or the first error as -errno. */
static int request_run(struct mnl_socket *route, struct request *request)
{
    char answer[4096];
    int first = 0;
    request->last->nlmsg_flags |= NLM_F_ACK;
    if (mnl_socket_sendto(route, request->data, request->used) < 0)
        return -errno;
    for (;;) {
        ssize_t got = recv(mnl_socket_get_fd(route), answer, sizeof answer, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        int left = (int)got;
        for (const struct nlmsghdr *m = (const void *)answer; mnl_nlmsg_ok(m, left);
             m = mnl_nlmsg_next(m, &left)) {
            if (m->nlmsg_type != NLMSG_ERROR)
                continue;
            const struct nlmsgerr *status = mnl_nlmsg_get_payload(m);
            if (status->error && !first)
                first = status->error;
            if (m->nlmsg_seq == request->sequence)
                return first;
        }
    }
}

static void put_end(struct nlmsghdr *message, int interface, const char *name)
{
    struct ifinfomsg *info = mnl_nlmsg_put_extra_header(message, sizeof *info);
    info->ifi_family = AF_UNSPEC;
    info->ifi_index = interface;
    mnl_attr_put_strz(message, IFLA_IFNAME, name);
    /* The default is a queue for each CPU the machine could have, at a kilobyte or more each. */
    mnl_attr_put_u32(message, IFLA_NUM_TX_QUEUES, 1);
    mnl_attr_put_u32(message, IFLA_NUM_RX_QUEUES, 1);
}

static void add_pair(struct request *request, unsigned index, int netns_fd)
{
    char name[IFNAMSIZ];
    snprintf(name, sizeof name, NET_LINK_NAME "%u", index);
    struct nlmsghdr *message =
        message_begin(request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK);
    put_end(message, HOST_INTERFACE + (int)index, name);
    struct nlattr *info = mnl_attr_nest_start(message, IFLA_LINKINFO);
    mnl_attr_put_strz(message, IFLA_INFO_KIND, "veth");
    struct nlattr *data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
    struct nlattr *peer = mnl_attr_nest_start(message, VETH_INFO_PEER);
    put_end(message, INSIDE_INTERFACE, NET_INSIDE_NAME);
    mnl_attr_put_u32(message, IFLA_NET_NS_FD, (uint32_t)netns_fd);
    mnl_attr_nest_end(message, peer);
    mnl_attr_nest_end(message, data);
    mnl_attr_nest_end(message, info);
    message_end(request);
}

/* Before the link is up: the kernel makes a link-local address in the moment it comes up. A kernel
   without IPv6 refuses the message, and is asked by a socket first. */
static void add_no_ipv6(struct request *request, int interface)
{
    int probe = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return;
    close(probe);
    struct nlmsghdr *message = message_begin(request, RTM_SETLINK, 0);
    struct ifinfomsg *info = mnl_nlmsg_put_extra_header(message, sizeof *info);
    info->ifi_index = interface;
    struct nlattr *families = mnl_attr_nest_start(message, IFLA_AF_SPEC);
    struct nlattr *ipv6 = mnl_attr_nest_start(message, AF_INET6);
    mnl_attr_put_u8(message, IFLA_INET6_ADDR_GEN_MODE, LINK_LOCAL_NONE);
    mnl_attr_nest_end(message, ipv6);
    mnl_attr_nest_end(message, families);
    message_end(request);
}

static void add_up(struct request *request, int interface)
{
    struct nlmsghdr *message = message_begin(request, RTM_SETLINK, 0);
    struct ifinfomsg *info = mnl_nlmsg_put_extra_header(message, sizeof *info);
    info->ifi_index = interface;
    info->ifi_flags = IFF_UP;
    info->ifi_change = IFF_UP;
    message_end(request);
}

static in_addr_t pair_address(unsigned index, bool inside)
{
    return htonl(NET_BLOCK_FIRST + 2 * index + (inside ? 1 : 0));
}

static void add_address(struct request *request, int interface, in_addr_t address)
{
    struct nlmsghdr *message = message_begin(request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    struct ifaddrmsg *info = mnl_nlmsg_put_extra_header(message, sizeof *info);
    info->ifa_family = AF_INET;
    info->ifa_prefixlen = NET_LINK_PREFIX;
    info->ifa_index = (unsigned)interface;
    mnl_attr_put_u32(message, IFA_LOCAL, address);
    mnl_attr_put_u32(message, IFA_ADDRESS, address);
    message_end(request);
}

static void add_default_route(struct request *request, int interface, in_addr_t gateway)
{
    struct nlmsghdr *message = message_begin(request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
    struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof *route);
    route->rtm_family = AF_INET;
    route->rtm_table = RT_TABLE_MAIN;
    route->rtm_protocol = RTPROT_BOOT;
    route->rtm_scope = RT_SCOPE_UNIVERSE;
    route->rtm_type = RTN_UNICAST;
    mnl_attr_put_u32(message, RTA_GATEWAY, gateway);
    mnl_attr_put_u32(message, RTA_OIF, (uint32_t)interface);
    message_end(request);
}

struct mnl_socket *net_link_socket(struct error *err)
{
    struct mnl_socket *route = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    if (!route)
        error_errno(err, errno, "cannot open a netlink socket");
    return route;
}

static int make_pair(struct mnl_socket *route, int netns_fd, unsigned index)
{
    struct request request = {0};
    add_pair(&request, index, netns_fd);
    return request_run(route, &request);
}

int net_link_create(struct mnl_socket *route, int netns_fd, unsigned index, struct error *err)
{
    int rc = make_pair(route, netns_fd, index);
    if (rc == -EEXIST) {
        /* No live session has this index, so it is what a dead one left: the kernel is not through
           with its namespace yet, or a connection with unsent data keeps that alive for minutes. */
        net_link_delete(route, index);
        rc = make_pair(route, netns_fd, index);
    }
    if (rc < 0)
        return error_errno(err, -rc, "cannot make the network link %s%u", NET_LINK_NAME, index);
    struct request near = {0};
    int interface = HOST_INTERFACE + (int)index;
    add_no_ipv6(&near, interface);
    add_address(&near, interface, pair_address(index, false));
    add_up(&near, interface);
    rc = request_run(route, &near);
    if (rc == 0)
        return 0;
    net_link_delete(route, index);
    return error_errno(err, -rc, "cannot configure the network link %s%u", NET_LINK_NAME, index);
}

/* By name and not by number, which somebody else's link could have. */
void net_link_delete(struct mnl_socket *route, unsigned index)
{
    char name[IFNAMSIZ];
    snprintf(name, sizeof name, NET_LINK_NAME "%u", index);
    struct request request = {0};
    struct nlmsghdr *message = message_begin(&request, RTM_DELLINK, 0);
    mnl_nlmsg_put_extra_header(message, sizeof(struct ifinfomsg));
    mnl_attr_put_strz(message, IFLA_IFNAME, name);
    message_end(&request);
    request_run(route, &request);
}

int net_link_connect(unsigned index, struct error *err)
{
    struct mnl_socket *route = net_link_socket(err);
    if (!route)
        return -1;
    struct request request = {0};
    add_no_ipv6(&request, INSIDE_INTERFACE);
    add_address(&request, INSIDE_INTERFACE, pair_address(index, true));
    add_up(&request, INSIDE_INTERFACE);
    add_default_route(&request, INSIDE_INTERFACE, pair_address(index, false));
    int rc = request_run(route, &request);
    mnl_socket_close(route);
    if (rc < 0)
        return error_errno(err, -rc, "cannot configure the session's link");
    return 0;
}
