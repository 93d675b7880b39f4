/* SPDX-License-Identifier: Apache-2.0 */
/* The network: what is pure by value, and the rest by connections between namespaces made here.

   As root the test process moves into a namespace of its own, which plays the host, and links it to
   another, the world, that has a public, a private and a link-local address. Everything is torn
   down by the end of the process, and no packet can leave these namespaces. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fd.h"
#include "sandbox/net-internal.h"

#define PORT     8000
#define WAIT_MS  3000
#define PUBLIC   "203.0.113.10"
#define PRIVATE  "10.9.9.9"
#define METADATA "169.254.169.254"
#define HOST     "203.0.113.1"
#define SOMEBODY 31999 /* a user id that need not have a name */

static const char *no_network; /* why the tests that need one are skipped */
static pid_t helpers[8];
static size_t helper_count;

/* --- pure --- */

static void cidr_accepts(void **state)
{
    static const struct {
        const char *text;
        int family;
        unsigned prefix;
        const char *formatted;
    } cases[] = {
        {"10.0.0.0/8", AF_INET, 8, "10.0.0.0/8"},
        {"1.2.3.4", AF_INET, 32, "1.2.3.4"},
        {"1.2.3.4/32", AF_INET, 32, "1.2.3.4"},
        {"0.0.0.0/0", AF_INET, 0, "0.0.0.0/0"},
        {"172.16.0.0/12", AF_INET, 12, "172.16.0.0/12"},
        {"fd00::/8", AF_INET6, 8, "fd00::/8"},
        {"::1", AF_INET6, 128, "::1"},
        {"::/0", AF_INET6, 0, "::/0"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_cidr cidr;
        char text[64];
        assert_int_equal(net_cidr_parse(cases[i].text, &cidr, NULL), 0);
        assert_int_equal(cidr.family, cases[i].family);
        assert_int_equal(cidr.prefix, cases[i].prefix);
        net_cidr_format(&cidr, text, sizeof text);
        assert_string_equal(text, cases[i].formatted);
    }
}

static void cidr_refuses(void **state)
{
    static const char *const cases[] = {
        "",
        "/",
        "/8",
        "10",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/08",
        "10.0.0.0/8 ",
        " 10.0.0.0/8",
        "10.0.0.0/8/8",
        "10.0.0.0/4294967304",
        "10.1.2.3/8", /* host bits */
        "010.0.0.0/8",
        "10.0.0/8",
        "0x0a.0.0.0/8",
        "256.0.0.0",
        "fd00::1/8",
        "fd00::/129",
        "fe80::1%eth0",
        ":::",
        "localhost",
        "10.0.0.0/8\n10.0.0.0",
        "10.0.0.0 } accept",
        "1111111111111111111111111111111111111111111111111111111111111111111111111111.0.0.0/8",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct net_cidr cidr = {.prefix = 77};
        struct error err = ERROR_INIT;
        if (net_cidr_parse(cases[i], &cidr, &err) == 0)
            fail_msg("\"%s\" was taken", cases[i]);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_int_equal(cidr.prefix, 77);
    }
}

static struct net_cidr cidr_of(const char *text)
{
    struct net_cidr cidr;
    assert_int_equal(net_cidr_parse(text, &cidr, NULL), 0);
    return cidr;
}

static bool contains(const char *outer, const char *inner)
{
    struct net_cidr a = cidr_of(outer);
    struct net_cidr b = cidr_of(inner);
    return net_cidr_contains(&a, &b);
}

static void cidr_contains(void **state)
{
    (void)state;
    assert_true(contains("10.0.0.0/8", "10.255.0.0/16"));
    assert_true(contains("10.0.0.0/8", "10.0.0.0/8"));
    assert_true(contains("0.0.0.0/0", "1.2.3.4"));
    assert_true(contains("172.16.0.0/12", "172.31.255.255"));
    assert_false(contains("172.16.0.0/12", "172.32.0.0"));
    assert_false(contains("10.255.0.0/16", "10.0.0.0/8"));
    assert_false(contains("::/0", "1.2.3.4"));
    assert_true(contains("fd00::/9", "fd7f::1"));
    assert_false(contains("fd00::/9", "fd80::1"));
}

static void resolvers_expect(const char *text, size_t size, const char *expected)
{
    struct net_policy policy = {0};
    policy.resolver_count =
        net_resolvers_parse(text, size, policy.resolvers, ARRAY_SIZE(policy.resolvers));
    cleanup_free char *conf = net_resolv_conf(&policy);
    cleanup_free char *whole = xasprintf("# made by boxd\n%s", expected);
    assert_string_equal(conf, whole);
}

static void resolvers(void **state)
{
    static const char many[] = "nameserver 1.1.1.1\nnameserver 1.1.1.1\nnameserver 2.2.2.2\n"
                               "nameserver 3.3.3.3\nnameserver 4.4.4.4\n";
    static const char unusable[] =
        "nameserver 127.0.0.53\nnameserver 0.0.0.0\nnameserver ::1\nnameserver fe80::1%eth0\n"
        "nameserver 255.255.255.255\nnameserver\nnameserver \nnameserver1.1.1.1\n"
        " nameserver 1.1.1.1\n#nameserver 1.1.1.1\nNAMESERVER 1.1.1.1\nnameserver 1.1.1\n";
    static const char nul[] = "nameserver 1.1.1.1\0x\nnameserver 2.2.2.2\n";
    (void)state;
    resolvers_expect("", 0, "");
    resolvers_expect("\n\n", 2, "");
    resolvers_expect(many, sizeof many - 1,
                     "nameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\n");
    resolvers_expect(unusable, sizeof unusable - 1, "");
    resolvers_expect(nul, sizeof nul - 1, "nameserver 2.2.2.2\n");
    static const char odd[] = "nameserver\t 9.9.9.9 # comment\r\nsearch lan\nnameserver 8.8.8.8;x";
    resolvers_expect(odd, sizeof odd - 1, "nameserver 9.9.9.9\nnameserver 8.8.8.8\n");
    /* Cut anywhere, it must neither read past the end nor find what is not there. */
    for (size_t size = 0; size < sizeof odd; size++) {
        struct in_addr found[1];
        cleanup_free char *cut = xmalloc(size);
        memcpy(cut, odd, size);
        net_resolvers_parse(cut, size, found, 1);
    }
    cleanup_free char *line = xmalloc(100000);
    memset(line, '1', 100000);
    memcpy(line, "nameserver ", 11);
    resolvers_expect(line, 100000, "");
}

static char *filter_of(const char *const *allow, const char *const *host)
{
    struct net_policy policy = {0};
    cleanup_strings struct strings addresses = {0};
    for (; allow && *allow; allow++)
        policy.allow[policy.allow_count++] = cidr_of(*allow);
    for (; host && *host; host++)
        strings_add(&addresses, *host);
    inet_pton(AF_INET, "10.0.0.53", &policy.resolvers[policy.resolver_count++]);
    return net_filter_text(&policy, &addresses);
}

static size_t position(const char *text, const char *part)
{
    const char *at = strstr(text, part);
    if (!at)
        fail_msg("no \"%s\" in:\n%s", part, text);
    return (size_t)(at - text);
}

static void filter_order(void **state)
{
    const char *allow[] = {"10.1.0.0/16", NULL};
    const char *host[] = {"192.0.2.7", NULL};
    (void)state;
    cleanup_free char *text = filter_of(allow, host);
    const char *const order[] = {
        "oifname \"lo\" accept",
        "meta nfproto ipv6 goto refuse",
        "ip daddr 10.0.0.53 udp dport 53 accept",
        "ip daddr 10.0.0.53 tcp dport 53 accept",
        "ip daddr { 10.213.0.0/16, 192.0.2.7 } goto refuse",
        "ip daddr { 10.1.0.0/16 } accept",
        "10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8",
        "hook input priority filter; policy drop",
    };
    for (size_t i = 1; i < ARRAY_SIZE(order); i++)
        assert_true(position(text, order[i - 1]) < position(text, order[i]));
    const char *const refused[] = {"0.0.0.0/8",      "169.254.0.0/16", "172.16.0.0/12",
                                   "192.168.0.0/16", "224.0.0.0/3",    "168.63.129.16"};
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        position(text, refused[i]);
    assert_null(strstr(text, "203.0.113"));
}

static void filter_sets(void **state)
{
    /* Overlaps and repeats would make nftables refuse the set; IPv6 has no rule of its own. */
    const char *allow[] = {"10.1.2.0/24", "10.1.0.0/16", "10.1.0.0/16",
                           "fd00::/8",    "10.1.2.3",    NULL};
    const char *host[] = {"198.51.100.1", "198.51.100.1", "192.168.0.1",
                          "10.1.2.9",     "127.0.0.1",    NULL};
    (void)state;
    cleanup_free char *text = filter_of(allow, host);
    position(text, "ip daddr { 10.1.0.0/16 } accept");
    position(text, "ip daddr { 10.213.0.0/16, 198.51.100.1, 10.1.2.9 } goto refuse");
    assert_null(strstr(text, "fd00"));
    cleanup_free char *bare = filter_of(NULL, NULL);
    assert_null(strstr(bare, "} accept"));
    const char *hostile[] = {"1.2.3.4 } accept\n", "::1", "8.0.0.0/8", "", "x", NULL};
    cleanup_free char *same = filter_of(NULL, hostile);
    assert_string_equal(same, bare);
}

/* --- helpers for what needs namespaces --- */

static void need_network(void)
{
    if (no_network) {
        print_message("skipped: %s\n", no_network);
        skip();
    }
}

__attribute__((format(printf, 1, 2))) static bool run_command(const char *format, ...)
{
    char command[256];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command) == 0;
}

/* A child that dies with the test, whatever happens to the test. */
static pid_t fork_helper(void)
{
    pid_t pid = fork();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    else if (pid > 0 && helper_count < ARRAY_SIZE(helpers))
        helpers[helper_count++] = pid;
    return pid;
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(sock, (struct sockaddr *)&any, sizeof any) < 0 || listen(sock, 64) < 0)
        _exit(1);
    return sock;
}

/* Listens in the given namespace (-1: the host's). A connection need not be accepted to be made. */
static void serve(int netns_fd)
{
    int up[2];
    char byte;
    assert_return_code(pipe2(up, O_CLOEXEC), errno);
    if (fork_helper() == 0) {
        if (netns_fd >= 0)
            setns(netns_fd, CLONE_NEWNET);
        /* A forked child that kept the host's netlink socket would keep its table too. */
        dup2(up[1], STDIN_FILENO);
        close_range(3, ~0u, 0);
        listen_on(PORT);
        if (write(STDIN_FILENO, "x", 1) == 1)
            pause();
        _exit(0);
    }
    close(up[1]);
    assert_int_equal(read(up[0], &byte, 1), 1);
    close(up[0]);
}

/* 0 if a connection from inside the namespace succeeds, else its errno. */
static int reach(int netns_fd, const char *address, uint16_t port)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
        inet_pton(AF_INET, address, &to.sin_addr);
        if (setns(netns_fd, CLONE_NEWNET) < 0)
            _exit(255);
        int sock = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        int result = connect(sock, (struct sockaddr *)&to, sizeof to) == 0 ? 0 : errno;
        struct pollfd wait = {.fd = sock, .events = POLLOUT};
        socklen_t size = sizeof result;
        if (result == EINPROGRESS && poll(&wait, 1, WAIT_MS) == 0)
            result = ETIMEDOUT;
        else if (result == EINPROGRESS)
            getsockopt(sock, SOL_SOCKET, SO_ERROR, &result, &size);
        _exit(result);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int session_new(struct net_host *host, unsigned index, const struct net_policy *policy)
{
    struct error err = ERROR_INIT;
    struct netns_pool *pool = netns_pool_new(0);
    int fd = -1;
    if (netns_pool_take(pool, &fd, &err) < 0 || net_host_attach(host, fd, index, policy, &err) < 0)
        fail_msg("%s", err.message);
    netns_pool_free(pool);
    return fd;
}

static struct net_host *host_new(void)
{
    struct error err = ERROR_INIT;
    struct net_host *host = NULL;
    if (net_host_open(&host, &err) < 0)
        fail_msg("%s", err.message);
    return host;
}

/* Hears when links of the current namespace go. */
static int link_events(void)
{
    struct sockaddr_nl group = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    assert_return_code(bind(sock, (struct sockaddr *)&group, sizeof group), errno);
    return sock;
}

static bool link_goes(int events, unsigned interface)
{
    _Alignas(struct nlmsghdr) char data[8192];
    struct pollfd wait = {.fd = events, .events = POLLIN};
    while (poll(&wait, 1, WAIT_MS) == 1) {
        const struct nlmsghdr *message = (const void *)data;
        const struct ifinfomsg *info = NLMSG_DATA(message);
        if (recv(events, data, sizeof data, 0) > 0 && message->nlmsg_type == RTM_DELLINK &&
            (unsigned)info->ifi_index == interface)
            return true;
    }
    return false;
}

static bool table_exists(pid_t pid)
{
    char text[64];
    snprintf(text, sizeof text, "list table inet boxd_%d", (int)pid);
    return net_nft_run(text, NULL) == 0;
}

/* --- the scene --- */

static void world(int ready, int linked)
{
    char byte;
    if (unshare(CLONE_NEWNET) < 0 || write(ready, "x", 1) != 1 || read(linked, &byte, 1) != 1)
        _exit(1);
    if (!run_command("ip addr add " PUBLIC "/24 dev w0 && ip addr add " PRIVATE "/32 dev w0 && "
                     "ip addr add " METADATA "/32 dev w0 && ip link set w0 up"))
        _exit(1);
    listen_on(PORT);
    listen_on(53);
    if (write(ready, "x", 1) == 1)
        pause();
    _exit(0);
}

static const char *scene(void)
{
    int ready[2];
    int linked[2];
    char byte;
    if (geteuid() != 0)
        return "needs root";
    if (!run_command("ip -V >/dev/null 2>&1"))
        return "needs ip(8), package iproute2";
    struct error err = ERROR_INIT;
    if (net_nft_available(&err) < 0)
        return "needs nftables, package libnftables1";
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a killed process leaves is ours to wait for */
    if (unshare(CLONE_NEWNET) < 0)
        return "may not make network namespaces";
    if (fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", "1") < 0)
        return "may not write net.ipv4.ip_forward of a namespace of its own";
    if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(linked, O_CLOEXEC) < 0)
        return "no pipe";
    pid_t pid = fork_helper();
    if (pid == 0)
        world(ready[1], linked[0]);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1 || net_prepare(NULL) < 0 ||
        !run_command("ip link add up0 type veth peer name w0 netns %d && "
                     "ip addr add " HOST "/24 dev up0 && ip link set up0 up && "
                     "ip route add default via " PUBLIC,
                     (int)pid))
        return "cannot link two namespaces";
    if (write(linked[1], "x", 1) != 1 || read(ready[0], &byte, 1) != 1)
        return "cannot configure the far namespace";
    close(ready[0]);
    close(linked[0]);
    close(linked[1]);
    serve(-1);
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    no_network = scene();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < helper_count; i++) {
        kill(helpers[i], SIGKILL);
    }
    while (waitpid(-1, NULL, 0) > 0)
        ;
    return 0;
}

/* --- with namespaces --- */

static void pool_keeps(void **state)
{
    (void)state;
    need_network();
    struct stat home;
    struct stat here;
    struct stat made;
    struct error err = ERROR_INIT;
    stat("/proc/self/ns/net", &home);
    struct netns_pool *pool = netns_pool_new(1);
    assert_true(netns_pool_fill(pool, 0));
    assert_false(netns_pool_fill(pool, 0));
    int first;
    int second;
    assert_int_equal(netns_pool_take(pool, &first, &err), 0);
    assert_int_equal(netns_pool_take(pool, &second, &err), 0);
    stat("/proc/self/ns/net", &here);
    fstat(first, &made);
    assert_int_equal(home.st_ino, here.st_ino);
    assert_int_not_equal(home.st_ino, made.st_ino);
    assert_true(fcntl(first, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(reach(first, "127.0.0.1", PORT), ECONNREFUSED); /* up, and nobody there */
    assert_int_equal(reach(first, PUBLIC, PORT), ENETUNREACH);
    netns_pool_give(pool, first);
    netns_pool_give(pool, second); /* no room: closed */
    assert_int_equal(fcntl(second, F_GETFD), -1);
    assert_int_equal(netns_pool_take(pool, &second, &err), 0);
    assert_int_equal(second, first);
    close(second);
    netns_pool_free(pool);
}

static void reaches_public_only(void **state)
{
    (void)state;
    need_network();
    struct net_policy closed = {0};
    struct net_policy opened = {0};
    opened.allow[opened.allow_count++] = cidr_of("10.0.0.0/8");
    opened.allow[opened.allow_count++] = cidr_of("203.0.113.0/24");
    struct net_host *host = host_new();
    int a = session_new(host, 0, &closed);
    int b = session_new(host, 16383, &opened);
    serve(a);
    assert_int_equal(reach(a, "127.0.0.1", PORT), 0); /* its own */
    assert_int_equal(reach(a, PUBLIC, PORT), 0);
    assert_int_equal(reach(a, PRIVATE, PORT), ECONNREFUSED);
    assert_int_equal(reach(a, METADATA, PORT), ECONNREFUSED);
    assert_int_equal(reach(a, HOST, PORT), ECONNREFUSED);
    assert_int_equal(reach(a, "10.213.0.0", PORT), ECONNREFUSED); /* the link's far end */
    assert_int_equal(reach(b, "127.0.0.1", PORT), ECONNREFUSED);  /* not the host's */
    assert_int_equal(reach(b, PRIVATE, PORT), 0);
    assert_int_equal(reach(b, METADATA, PORT), ECONNREFUSED);
    assert_int_equal(reach(b, HOST, PORT), ECONNREFUSED);         /* though a range covers it */
    assert_int_equal(reach(b, "10.213.0.1", PORT), ECONNREFUSED); /* the other session */
    assert_int_equal(reach(b, "10.213.127.254", PORT), ECONNREFUSED);
    close(a);
    close(b);
    net_host_close(host);
    assert_false(table_exists(getpid()));
}

static void reaches_resolver(void **state)
{
    (void)state;
    need_network();
    struct net_policy policy = {.resolver_count = 1};
    inet_pton(AF_INET, PRIVATE, &policy.resolvers[0]);
    struct net_host *host = host_new();
    int session = session_new(host, 20, &policy);
    assert_int_equal(reach(session, PRIVATE, 53), 0);
    assert_int_equal(reach(session, PRIVATE, PORT), ECONNREFUSED);
    assert_int_equal(reach(session, METADATA, 53), ECONNREFUSED);
    close(session);
    net_host_close(host);
}

/* What the host's side holds by itself, if a session's filter were gone. */
static void host_side_alone(void **state)
{
    (void)state;
    need_network();
    struct net_policy policy = {0};
    struct net_host *host = host_new();
    int a = session_new(host, 30, &policy);
    int b = session_new(host, 31, &policy);
    serve(b);
    int home = netns_self();
    const int both[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        setns(both[i], CLONE_NEWNET);
        assert_int_equal(net_nft_run("flush ruleset", NULL), 0);
        netns_return(home);
    }
    close(home);
    assert_int_equal(reach(a, PRIVATE, PORT), 0); /* indeed gone */
    assert_int_equal(reach(a, HOST, PORT), ECONNREFUSED);
    assert_int_equal(reach(a, "10.213.0.60", PORT), ECONNREFUSED); /* 30's link */
    assert_int_equal(reach(a, "10.213.0.63", PORT), ECONNREFUSED); /* 31 */
    close(a);
    close(b);
    net_host_close(host);
}

/* An index is used again before the kernel has cleaned up behind its last session. */
static void index_used_again(void **state)
{
    (void)state;
    need_network();
    struct net_policy policy = {0};
    struct error err = ERROR_INIT;
    struct net_host *host = host_new();
    int first = session_new(host, 40, &policy);
    int second = session_new(host, 40, &policy);
    assert_int_equal(reach(first, PUBLIC, PORT), ENETUNREACH);
    assert_int_equal(reach(second, PUBLIC, PORT), 0);
    assert_int_equal(net_host_attach(host, first, 16384, &policy, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    net_host_detach(host, 40);
    assert_int_equal(reach(second, PUBLIC, PORT), ENETUNREACH);
    net_host_detach(host, 40); /* nothing there: nothing happens */
    close(first);
    close(second);
    net_host_close(host);
}

static void gone_after_kill(void **state)
{
    (void)state;
    need_network();
    struct net_policy policy = {0};
    int up[2];
    char byte;
    assert_return_code(pipe2(up, O_CLOEXEC), errno);
    struct net_host *host = host_new();
    int mine = session_new(host, 50, &policy);
    pid_t other = fork_helper();
    if (other == 0) {
        struct net_host *second;
        if (net_host_open(&second, NULL) < 0)
            _exit(1);
        session_new(second, 51, &policy);
        /* A program started by the other process must not inherit the table's socket. */
        pid_t program = fork();
        if (program == 0)
            execlp("sleep", "sleep", "30", NULL);
        if (write(up[1], &program, sizeof program) == sizeof program)
            pause();
        _exit(0);
    }
    close(up[1]);
    pid_t program = 0;
    assert_int_equal(read(up[0], &program, sizeof program), sizeof program);
    assert_true(table_exists(getpid()));
    assert_true(table_exists(other));
    unsigned interface = if_nametoindex("boxd51");
    assert_int_not_equal(interface, 0);
    int events = link_events();
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    assert_int_equal(read(up[0], &byte, 1), 0); /* executed, or it would hold the pipe */
    assert_false(table_exists(other));
    assert_true(link_goes(events, interface));
    assert_int_equal(if_nametoindex("boxd51"), 0);
    assert_true(table_exists(getpid()));
    assert_int_equal(reach(mine, PUBLIC, PORT), 0);
    kill(program, SIGKILL);
    close(events);
    close(up[0]);
    close(mine);
    net_host_close(host);
}

static void says_why_not(void **state)
{
    (void)state;
    need_network();
    const char *fix = NULL;
    struct net_host *host = NULL;
    struct error err = ERROR_INIT;
    assert_null(net_unavailable(&fix));
    assert_int_equal(fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", "0"), 0);
    assert_int_equal(net_host_open(&host, &err), -1);
    assert_int_equal(err.code, ERROR_UNSUPPORTED);
    assert_string_equal(err.hint, "sysctl -w net.ipv4.ip_forward=1");
    assert_non_null(strstr(net_unavailable(&fix), "ip_forward"));
    assert_string_equal(fix, "sysctl -w net.ipv4.ip_forward=1");
    assert_int_equal(fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", "1"), 0);
}

/* --- without root --- */

struct report {
    pid_t session;
    int rc;
    char why[ERROR_TEXT_MAX];
};

/* /dev/net/tun as most systems have it, open to all, in a mount namespace of the caller's own. */
static int tun_for_all(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777") < 0 ||
        mknod("/tmp/tun", S_IFCHR, makedev(10, 200)) < 0 || chmod("/tmp/tun", 0666) < 0)
        return -1;
    return mount("/tmp/tun", "/dev/net/tun", NULL, MS_BIND, NULL);
}

__attribute__((noreturn)) static void user_session(int mapped, int ready,
                                                   const struct strings *addresses)
{
    struct net_policy policy = {0};
    char byte;
    alarm(30);
    if (read(mapped, &byte, 1) == 1 && net_prepare(NULL) == 0 &&
        net_filter_install(&policy, addresses, NULL) == 0 && write(ready, "x", 1) == 1)
        pause();
    _exit(0);
}

static int map_ids(pid_t pid)
{
    static const char *const files[] = {"setgroups", "uid_map", "gid_map"};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char path[64];
        char map[32];
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i]);
        snprintf(map, sizeof map, "0 %d 1", SOMEBODY);
        if (fd_write_file(AT_FDCWD, path, i == 0 ? "deny" : map) < 0)
            return -1;
    }
    return 0;
}

/* What boxd does as an ordinary user. */
static void user_caller(struct report *report)
{
    struct strings addresses = {0};
    struct error err = ERROR_INIT;
    int mapped[2];
    int ready[2];
    char byte;
    pid_t keeper;
    report->rc = -1;
    snprintf(report->why, sizeof report->why, "no user namespace");
    if (tun_for_all() < 0 || setresgid(SOMEBODY, SOMEBODY, SOMEBODY) < 0 ||
        setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        prctl(PR_SET_DUMPABLE, 1) < 0 || pipe2(mapped, O_CLOEXEC) < 0 ||
        pipe2(ready, O_CLOEXEC) < 0 || net_host_addresses(&addresses, &err) < 0)
        return;
    report->session = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0);
    if (report->session == 0)
        user_session(mapped[0], ready[1], &addresses);
    close(ready[1]);
    if (report->session < 0 || map_ids(report->session) < 0 || write(mapped[1], "x", 1) != 1 ||
        read(ready[0], &byte, 1) != 1)
        return;
    report->rc = net_pasta_start(report->session, false, &keeper, &err);
    memcpy(report->why, err.message, sizeof report->why);
}

static pid_t user_start(struct report *report)
{
    int up[2];
    assert_return_code(pipe2(up, O_CLOEXEC), errno);
    pid_t caller = fork_helper();
    if (caller == 0) {
        user_caller(report);
        if (write(up[1], report, sizeof *report) == sizeof *report)
            pause();
        _exit(0);
    }
    close(up[1]);
    assert_int_equal(read(up[0], report, sizeof *report), sizeof *report);
    close(up[0]);
    return caller;
}

static void pasta_reaches_and_ends(bool with_session)
{
    struct report report = {0};
    if (access("/usr/bin/pasta", X_OK) < 0 || access("/dev/net/tun", F_OK) < 0) {
        print_message("skipped: needs pasta, package passt, and /dev/net/tun\n");
        skip();
    }
    pid_t caller = user_start(&report);
    if (report.rc < 0)
        fail_msg("%s", report.why);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)report.session);
    int session = open(path, O_RDONLY | O_CLOEXEC);
    assert_return_code(session, errno);
    assert_int_equal(reach(session, PUBLIC, PORT), 0);
    assert_int_equal(reach(session, PRIVATE, PORT), ECONNREFUSED);
    assert_int_equal(reach(session, METADATA, PORT), ECONNREFUSED);
    assert_int_equal(reach(session, HOST, PORT), ECONNREFUSED);
    assert_int_equal(reach(session, NET_PASTA_GATE, PORT), ECONNREFUSED);
    assert_int_equal(reach(session, "127.0.0.1", PORT), ECONNREFUSED);
    int home = netns_self();
    setns(session, CLONE_NEWNET);
    int events = link_events();
    unsigned interface = if_nametoindex(NET_INSIDE_NAME);
    netns_return(home);
    close(home);
    /* The tap device lives as long as pasta has it open. */
    kill(with_session ? report.session : caller, SIGKILL);
    assert_true(link_goes(events, interface));
    kill(report.session, SIGKILL);
    close(events);
    close(session);
}

static void pasta_ends_with_session(void **state)
{
    (void)state;
    need_network();
    pasta_reaches_and_ends(true);
}

static void pasta_ends_with_caller(void **state)
{
    (void)state;
    need_network();
    pasta_reaches_and_ends(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cidr_accepts),
        cmocka_unit_test(cidr_refuses),
        cmocka_unit_test(cidr_contains),
        cmocka_unit_test(resolvers),
        cmocka_unit_test(filter_order),
        cmocka_unit_test(filter_sets),
        cmocka_unit_test(pool_keeps),
        cmocka_unit_test(reaches_public_only),
        cmocka_unit_test(reaches_resolver),
        cmocka_unit_test(host_side_alone),
        cmocka_unit_test(index_used_again),
        cmocka_unit_test(gone_after_kill),
        cmocka_unit_test(says_why_not),
        cmocka_unit_test(pasta_ends_with_session),
        cmocka_unit_test(pasta_ends_with_caller),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
