/* SPDX-License-Identifier: Apache-2.0 */
/* nftables, spoken through libnftables, which is loaded when a network is first wanted: it brings
   five libraries along, and a program whose sessions have no network should not pay for them. */
#include "sandbox/net-internal.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <nftables/libnftables.h>
#include <string.h>
#include <sys/socket.h>

#include "core/fd.h"

#define LIBRARY "libnftables.so.1"

#define FUNCTIONS(X)            \
    X(nft_ctx_new)              \
    X(nft_ctx_free)             \
    X(nft_ctx_buffer_output)    \
    X(nft_ctx_buffer_error)     \
    X(nft_ctx_get_error_buffer) \
    X(nft_run_cmd_from_buffer)

static struct {
    bool loaded;
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
} nft;

static int library_load(struct error *err)
{
    if (nft.loaded)
        return 0;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        error_set(err, ERROR_UNSUPPORTED, "nftables is not installed (%s)", LIBRARY);
        error_hint(err, "apt install libnftables1");
        return -1;
    }
#define X(name)                                          \
    nft.name = (__typeof__(&name))dlsym(library, #name); \
    if (!nft.name)                                       \
        return error_set(err, ERROR_UNSUPPORTED, "%s has no %s", LIBRARY, #name);
    FUNCTIONS(X)
#undef X
    nft.loaded = true;
    return 0;
}

int net_nft_available(struct error *err)
{
    if (library_load(err) < 0)
        return -1;
    /* libnftables ends the process when it cannot have its socket, so look first. */
    cleanup_close int probe = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (probe >= 0)
        return 0;
    if (errno != EPROTONOSUPPORT)
        return error_errno(err, errno, "cannot speak to nftables");
    error_set(err, ERROR_UNSUPPORTED, "this kernel has no nftables");
    return error_hint(err, "modprobe nf_tables");
}

/* The first line of what libnftables had to say; the others quote the ruleset. */
static int failed(struct nft_ctx *context, struct error *err)
{
    const char *text = nft.nft_ctx_get_error_buffer(context);
    size_t length = strcspn(text, "\n");
    return error_set(err, ERROR_SYSTEM, "nftables: %.*s", (int)(length < 300 ? length : 300), text);
}

static int run(const char *text, struct nft_ctx **ret, struct error *err)
{
    if (net_nft_available(err) < 0)
        return -1;
    struct nft_ctx *context = nft.nft_ctx_new(NFT_CTX_DEFAULT);
    if (!context || nft.nft_ctx_buffer_output(context) || nft.nft_ctx_buffer_error(context))
        abort(); /* out of memory */
    if (nft.nft_run_cmd_from_buffer(context, text) != 0) {
        failed(context, err);
        nft.nft_ctx_free(context);
        return -1;
    }
    *ret = context;
    return 0;
}

int net_nft_run(const char *text, struct error *err)
{
    struct nft_ctx *context;
    if (run(text, &context, err) < 0)
        return -1;
    nft.nft_ctx_free(context);
    return 0;
}

/* libnftables opens its socket without close-on-exec and keeps the number to itself. Leaked into a
   program started later, the socket would keep the table alive after this process. */
static int sockets_close_on_exec(struct error *err)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return error_errno(err, errno, "cannot open /proc/self/fd");
    for (struct dirent *entry; (entry = readdir(dir));) {
        int fd = atoi(entry->d_name);
        int protocol = -1;
        int domain = -1;
        socklen_t size = sizeof protocol;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK &&
            getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
            protocol == NETLINK_NETFILTER)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    closedir(dir);
    return 0;
}

/* The kernel removes an owned table when the socket that made it is closed. libnftables keeps one
   socket for the life of its context, but may open it anew to repeat an interrupted command; so
   a context that holds a table is never used for a second one. */
int net_nft_hold(const char *text, struct nft_ctx **ret, struct error *err)
{
    struct nft_ctx *context;
    if (run(text, &context, err) < 0)
        return -1;
    if (sockets_close_on_exec(err) < 0) {
        nft.nft_ctx_free(context);
        return -1;
    }
    *ret = context;
    return 0;
}

void net_nft_release(struct nft_ctx *held)
{
    if (held)
        nft.nft_ctx_free(held);
}
