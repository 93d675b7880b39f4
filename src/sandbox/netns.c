/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces: made empty with loopback up, and a few kept ready, because making one is most
   of what a cold start costs. The calling process (the spawner: one thread) steps into the new
   namespace and back, so the namespace belongs to the spawner's user namespace and no session can
   configure it. */
#include "sandbox/net-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "core/fd.h"
#include "sandbox/mounts-internal.h"

struct netns_pool {
    unsigned keep;
    unsigned count;
    int fds[];
};

/* The calling thread's, which need not be the process's. */
int netns_self(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

void netns_return(int home)
{
    if (setns(home, CLONE_NEWNET) < 0)
        abort();
}

/* Nobody but the session is there to be protected from it, so it may serve on any port and ping.
   Conveniences: where /proc/sys cannot be written, programs go without. */
void net_open_ports(int proc)
{
    fd_write_file(proc, "sys/net/ipv4/ip_unprivileged_port_start", "0");
    fd_write_file(proc, "sys/net/ipv4/ping_group_range", "0 2147483647");
}

int net_prepare(struct error *err)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    cleanup_close int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return error_errno(err, errno, "cannot open a socket");
    if (ioctl(sock, SIOCSIFFLAGS, &request) < 0) {
        int saved = errno;
        error_errno(err, saved, "cannot bring loopback up");
        /* Root in a container that was given SYS_ADMIN without NET_ADMIN. */
        return saved == EPERM ? error_hint(err, "in a container: docker run --privileged …") : -1;
    }
    return 0;
}

static int netns_make(int *ret_fd, struct error *err)
{
    cleanup_close int home = netns_self();
    if (home < 0)
        return error_errno(err, errno, "cannot open the network namespace");
    /* Root of a user namespace that the network is not of could leave it, and never come back. */
    if (setns(home, CLONE_NEWNET) < 0) {
        error_errno(err, errno, "cannot enter the network namespace it is in");
        return error_hint(err, "in a user namespace: have a network namespace with it (podman: no "
                               "--network host)");
    }
    if (unshare(CLONE_NEWNET) < 0) {
        int failure = errno;
        error_errno(err, failure, "cannot make a network namespace");
        if (failure == ENOSPC)
            error_hint(err, "sysctl -w user.max_net_namespaces=65536");
        return -1;
    }
    int rc = net_prepare(err);
    /* An instance for this namespace alone: see limit_namespaces(). */
    struct error ignored = ERROR_INIT;
    cleanup_close int proc = rc < 0 ? -1 : mounts_make_proc(&ignored);
    if (proc >= 0)
        net_open_ports(proc);
    int fd = rc < 0 ? -1 : netns_self();
    if (rc == 0 && fd < 0)
        rc = error_errno(err, errno, "cannot open the network namespace");
    netns_return(home);
    if (rc == 0)
        *ret_fd = fd;
    return rc;
}

struct netns_pool *netns_pool_new(unsigned keep)
{
    struct netns_pool *pool = xcalloc(1, sizeof *pool + keep * sizeof pool->fds[0]);
    pool->keep = keep;
    return pool;
}

void netns_pool_free(struct netns_pool *pool)
{
    if (!pool)
        return;
    while (pool->count > 0)
        close(pool->fds[--pool->count]);
    free(pool);
}

int netns_pool_take(struct netns_pool *pool, int *ret_fd, struct error *err)
{
    if (pool->count == 0)
        return netns_make(ret_fd, err);
    *ret_fd = pool->fds[--pool->count];
    return 0;
}

/* Sockets in a namespace, the kernel's own not among them; -1 if it cannot be told. */
static int netns_sockets(int fd)
{
    static const char label[] = "sockets: used ";
    char text[1024];
    int used = -1;
    cleanup_close int home = netns_self();
    if (home < 0 || setns(fd, CLONE_NEWNET) < 0)
        return -1;
    ssize_t size = fd_read_file(AT_FDCWD, "/proc/thread-self/net/sockstat", text, sizeof text);
    netns_return(home);
    if (size > 0 && strncmp(text, label, sizeof label - 1) == 0)
        used = atoi(text + sizeof label - 1);
    return used;
}

/* A socket that outlived its session was handed to somebody else, who could then reach whoever
 * comes next. */
void netns_pool_give(struct netns_pool *pool, int fd)
{
    if (pool->count < pool->keep && netns_sockets(fd) == 0)
        pool->fds[pool->count++] = fd;
    else
        close(fd);
}

bool netns_pool_fill(struct netns_pool *pool, unsigned lent)
{
    int fd;
    /* One is ready in any case: those that are out may stay there. */
    unsigned expected = lent < pool->keep ? lent : pool->keep - 1;
    if (pool->count + expected >= pool->keep || netns_make(&fd, NULL) < 0)
        return false;
    pool->fds[pool->count++] = fd;
    return true;
}
