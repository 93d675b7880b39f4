/* SPDX-License-Identifier: Apache-2.0 */
/* What spawner and init say, taken in by their caller. init is the sandbox's, and not believed. */
#include "sandbox/peer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum error_code code_of(uint32_t code)
{
    return code < ERROR_CODE_MAX ? (enum error_code)code : ERROR_PROTOCOL;
}

int peer_spawner_failed(const struct spawner_reply *reply, struct error *err)
{
    error_set(err, code_of(reply->code), "%.*s", INIT_TEXT_MAX - 1, reply->message);
    if (err)
        err->errnum = reply->errnum;
    return reply->hint[0] ? error_hint(err, "%.*s", INIT_TEXT_MAX - 1, reply->hint) : -1;
}

int peer_init_failed(const struct init_failed *failed, struct error *err)
{
    error_set(err, code_of(failed->code), "%.*s", INIT_TEXT_MAX - 1, failed->message);
    if (err)
        err->errnum = failed->errnum;
    return failed->hint[0] ? error_hint(err, "%.*s", INIT_TEXT_MAX - 1, failed->hint) : -1;
}

struct cgroup_lane_fds peer_lane_group(const struct spawner_reply *reply, const int *fds,
                                       size_t count)
{
    struct cgroup_lane_fds group;
    size_t next = 0;
    group.version =
        reply->cgroup < CGROUP_VERSION_MAX ? (enum cgroup_version)reply->cgroup : CGROUP_NONE;
    for (size_t i = 0; i < CGROUP_FD_MAX; i++)
        group.fds[i] = (reply->cgroup_fds >> i & 1) && next < count ? fds[next++] : -1;
    while (next < count)
        close(fds[next++]);
    return group;
}

struct denied_page *peer_map_denied(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 ||
        st.st_size < (off_t)sizeof(struct denied_page))
        return NULL;
    void *page = mmap(NULL, sizeof(struct denied_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}
