/* SPDX-License-Identifier: Apache-2.0 */
/* Making one session: everything it needs is taken in order, given back in reverse on failure. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "sandbox/idmap.h"
#include "sandbox/mounts.h"
#include "sandbox/setup.h"
#include "sandbox/spawner-internal.h"
#include "sandbox/syscalls.h"

/* All that exists only while a session is being made. */
struct making {
    struct spawner *spawner;
    struct plan plan;
    struct idrange range;
    int *sources;
    int base; /* the mount namespace to be born in, or -1; the spawner's */
    int control[2];
    int lane[2];
    int go[2];
    int listen;
    int netns;
    struct strings host_addresses;
    int birth_group;
    struct cgroup_entry entry;
    struct cgroup_entry init_entry;
    struct spawned *session;
};

static int filter_memfd(struct spawner *spawner, enum seccomp_profile profile, struct error *err)
{
    size_t count;
    const struct sock_filter *code = seccomp_program(profile, &count);
    if (spawner->filters[profile] >= 0)
        return spawner->filters[profile];
    cleanup_close int fd = memfd_create("filter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || fd_write_all(fd, code, count * sizeof *code) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, errno, "cannot prepare the system call filter");
    return spawner->filters[profile] = steal_fd(&fd);
}

/* Never the host's namespace, whatever went wrong before. */
static bool is_host_network(const struct spawner *spawner, int netns)
{
    struct stat host;
    struct stat given;
    return fstat(spawner->host_netns, &host) < 0 || fstat(netns, &given) < 0 ||
           (host.st_ino == given.st_ino && host.st_dev == given.st_dev);
}

static int take_network(struct making *making, struct error *err)
{
    struct spawner *spawner = making->spawner;
    if (making->plan.ids != ID_RANGE) /* an ordinary user's namespace is made by the clone */
        return making->plan.network == NETWORK_ON ? net_host_addresses(&making->host_addresses, err)
                                                  : 0;
    spawner_await_network(spawner);
    if (netns_pool_take(spawner->netns, &making->netns, err) < 0)
        return -1;
    if (is_host_network(spawner, making->netns))
        return error_set(err, ERROR_SYSTEM, "the namespace prepared for the session is the host's");
    making->plan.namespaces &= ~(uint64_t)CLONE_NEWNET;
    if (making->plan.network == NETWORK_OFF)
        return 0;
    if (!spawner->net_host && net_host_open(&spawner->net_host, err) < 0)
        return -1;
    if (net_host_attach(spawner->net_host, making->netns, making->range.index, &making->plan.net,
                        err) < 0)
        return -1;
    making->session->linked = true;
    return 0;
}

static int take_group(struct making *making, struct error *err)
{
    struct cgroup_root *cgroups = making->spawner->cgroups;
    struct spawned *session = making->session;
    if (making->plan.cgroup == CGROUP_NONE)
        return 0;
    if (groups_take(making->spawner, session, &making->plan.limits, &making->birth_group, err) < 0)
        return -1;
    if (making->birth_group < 0 &&
        cgroup_entry_open(cgroups, session->group, 0, &making->entry, err) < 0)
        return -1;
    /* Init is to outlive what is done to its lanes; if there is only one command, init may go with
       it. But on v2 the lane is a unit for the OOM killer only once init is out of it. */
    if (session->single && making->plan.cgroup == CGROUP_V1)
        return 0;
    if (cgroup_lane_create(cgroups, session->group, CGROUP_LANE_INIT, err) < 0)
        return -1;
    return cgroup_entry_open(cgroups, session->group, CGROUP_LANE_INIT, &making->init_entry, err);
}

static int take_resources(struct making *making, struct error *err)
{
    struct spawner *spawner = making->spawner;
    const char *directory = spawner->config->image_directory;
    if (making->plan.ids == ID_RANGE) {
        if (idrange_take(spawner->range_hint, &making->range, err) < 0)
            return -1;
        making->session->range = making->range.index;
        spawner->range_hint = making->range.index + 1;
        if (spawner_base(spawner, &making->plan, &making->base, err) < 0)
            return -1;
        size_t first = making->base < 0 ? 0 : making->plan.base_count;
        if (mounts_open(&making->plan, first, &spawner->config->policy, making->range.base,
                        directory ? directory : "/var/tmp", making->sources, err) < 0)
            return -1;
    }
    /* The network last: the first one may still be in the making. */
    if (take_group(making, err) < 0 || take_network(making, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, making->control) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, making->lane) < 0 ||
        pipe2(making->go, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make sockets");
    if (making->session->key[0])
        return socket_make(spawner, making->session->key, &making->listen, err);
    return 0;
}

static bool allows_none(void)
{
    char text[16];
    return fd_read_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", text, sizeof text) > 0 &&
           text[0] == '0' && text[1] == '\n';
}

/* Why a clone that asks for a user namespace fails, in words. */
static int explain_clone(int errnum, struct error *err)
{
    char text[16];
    error_errno(err, errnum, "cannot create namespaces");
    if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/unprivileged_userns_clone", text, sizeof text) >
            0 &&
        text[0] == '0')
        return error_hint(err, "sysctl -w kernel.unprivileged_userns_clone=1");
    if (allows_none())
        return error_hint(err, "sysctl -w user.max_user_namespaces=15000");
    if (errnum == ENOSPC)
        return error_hint(err, "a limit in /proc/sys/user/max_*_namespaces was reached");
    /* Docker's filter says of clone3() that there is no such call. */
    if (errnum == ENOSYS || errnum == EPERM)
        return error_hint(err, "in a container: docker run --privileged …");
    return -1;
}

int spawner_try_namespaces(struct error *err)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS) < 0 ? errno : 0);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    int errnum = pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    /* Of all else there may be more in a moment. */
    bool for_good = errnum == EPERM || errnum == ENOSYS || errnum == EINVAL ||
                    (errnum == ENOSPC && allows_none());
    return for_good ? explain_clone(errnum, err) : 0;
}

/* Never go on in a session's namespaces. */
static void leave_namespaces(const struct making *making)
{
    const struct spawner *spawner = making->spawner;
    if ((making->netns >= 0 && setns(spawner->host_netns, CLONE_NEWNET) < 0) ||
        (making->base >= 0 && setns(spawner->host_mounts, CLONE_NEWNS) < 0))
        _exit(1);
}

/* The child is born where the spawner is at that moment. */
static int enter_namespaces(const struct making *making, struct error *err)
{
    if ((making->netns >= 0 && setns(making->netns, CLONE_NEWNET) < 0) ||
        (making->base >= 0 && setns(making->base, CLONE_NEWNS) < 0)) {
        error_errno(err, errno, "cannot enter a prepared namespace");
        leave_namespaces(making);
        return -1;
    }
    return 0;
}

static pid_t clone_init(struct making *making, struct error *err)
{
    struct spawner *spawner = making->spawner;
    struct clone_args args = {.flags = making->plan.namespaces, .exit_signal = SIGCHLD};
    int filter = filter_memfd(spawner, making->plan.seccomp, err);
    if (filter < 0)
        return -1;
    if (making->birth_group >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)making->birth_group;
    }
    if (enter_namespaces(making, err) < 0)
        return -1;
    pid_t pid = (pid_t)sys_clone3(&args);
    if (pid == 0) {
        const struct setup setup = {
            .plan = &making->plan,
            .policy = &spawner->config->policy,
            .host_addresses = &making->host_addresses,
            .sources = making->sources,
            .on_base = making->base >= 0,
            .group = &making->entry,
            .init_group = &making->init_entry,
            .control = making->control[1],
            .lane = making->lane[1],
            .filter = filter,
            .range_lock = making->range.lock_fd,
            .listen = making->listen,
            .init_binary = spawner->init_binary,
            .go = making->go[0],
        };
        close(making->go[1]);
        setup_run(&setup);
    }
    int errnum = errno;
    leave_namespaces(making);
    return pid < 0 ? explain_clone(errnum, err) : pid;
}

static int say(int go, char word, struct error *err)
{
    if (write(go, &word, 1) != 1)
        return error_errno(err, errno, "a session ended while it was being made");
    return 0;
}

/* What is done to the new process from outside, while it builds its file system. */
static int complete(struct making *making, struct error *err)
{
    struct spawned *session = making->session;
    if (idmap_write(session->pid, &making->plan, making->range.base, err) < 0) {
        if (making->plan.ids != ID_RANGE && err->errnum == EPERM)
            error_hint(err,
                       "on Ubuntu 24.04 and later: sysctl -w "
                       "kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile "
                       "for box that allows userns");
        return -1;
    }
    if (say(making->go[1], SETUP_MAPPED, err) < 0)
        return -1;
    if (making->plan.ids != ID_RANGE && making->plan.network == NETWORK_ON &&
        net_pasta_start(session->pid, session->key[0] != '\0', &session->pasta, err) < 0)
        return -1;
    return say(making->go[1], SETUP_LINKED, err);
}

static void end_at_once(struct spawned *session)
{
    kill(session->pid, SIGKILL);
    while (waitpid(session->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void making_release(struct making *making)
{
    if (making->sources)
        mounts_close(&making->plan, making->sources);
    free(making->sources);
    fd_clear(&making->range.lock_fd);
    fd_clear(&making->control[1]);
    fd_clear(&making->lane[1]);
    fd_clear(&making->go[0]);
    fd_clear(&making->go[1]);
    fd_clear(&making->listen);
    fd_clear(&making->birth_group);
    cgroup_entry_close(&making->entry);
    cgroup_entry_close(&making->init_entry);
    strings_release(&making->host_addresses);
    plan_release(&making->plan);
}

/* The namespace's descriptor is kept if it can be used again, and of the latest sessions only: who
   clones must not hold many descriptors, and the young are the ones who come and go. */
static void keep_network(struct making *making)
{
    struct spawner *spawner = making->spawner;
    struct spawned *session = making->session;
    if (making->netns >= 0 && !session->linked) {
        unsigned slot = spawner->next_borrower++ % NETNS_LENT_MAX;
        if (spawner->borrowers[slot])
            fd_clear(&spawner->borrowers[slot]->netns);
        else
            spawner->lent++;
        spawner->borrowers[slot] = session;
        session->netns_slot = slot;
        session->netns = steal_fd(&making->netns);
    }
    fd_clear(&making->netns);
}

void spawner_lane_fds(struct spawner *spawner, const struct spawned *session, int lane,
                      struct spawner_reply *reply, int *fds, size_t *count)
{
    struct cgroup_lane_fds lane_fds;
    if (!session->has_group ||
        cgroup_lane_open(spawner->cgroups, session->group, lane, &lane_fds, NULL) < 0)
        return;
    reply->cgroup = lane_fds.version;
    for (size_t i = 0; i < CGROUP_FD_MAX; i++) {
        if (lane_fds.fds[i] < 0)
            continue;
        reply->cgroup_fds |= 1u << i;
        fds[(*count)++] = lane_fds.fds[i];
    }
}

int spawner_create(struct spawner *spawner, const struct sandbox_spec *spec,
                   struct spawner_reply *reply, int *ret_fds, size_t *ret_count,
                   struct spawned **ret, struct error *err)
{
    struct making making = {.spawner = spawner,
                            .range = {.lock_fd = -1},
                            .base = -1,
                            .control = {-1, -1},
                            .lane = {-1, -1},
                            .go = {-1, -1},
                            .listen = -1,
                            .netns = -1,
                            .birth_group = -1,
                            .entry = {{-1, -1, -1}},
                            .init_entry = {{-1, -1, -1}}};
    if (plan_build(spec, &spawner->facts, &spawner->config->policy, &making.plan, err) < 0)
        return -1;
    struct spawned *session = making.session = xcalloc(1, sizeof *session);
    session->number = spawner->next_number++;
    session->netns = session->pidfd = -1;
    memcpy(session->key, spec->key, sizeof session->key);
    session->single = making.plan.single;
    making.sources = xcalloc(making.plan.step_count, sizeof *making.sources);
    for (size_t i = 0; i < making.plan.step_count; i++)
        making.sources[i] = -1;
    if (take_resources(&making, err) < 0)
        goto fail;
    session->pid = clone_init(&making, err);
    if (session->pid < 0)
        goto fail;
    if (complete(&making, err) < 0) {
        end_at_once(session);
        goto fail;
    }
    for (size_t i = 0; i < making.plan.notes.count; i++) {
        size_t used = strlen(reply->message);
        snprintf(reply->message + used, sizeof reply->message - used, "%s%s", used ? "\n" : "",
                 making.plan.notes.items[i]);
    }
    reply->host_pid = session->pid;
    reply->range = making.range.index;
    reply->linked = session->linked;
    memcpy(reply->group, session->group, sizeof reply->group);
    ret_fds[(*ret_count)++] = steal_fd(&making.control[0]);
    ret_fds[(*ret_count)++] = steal_fd(&making.lane[0]);
    spawner_lane_fds(spawner, session, 0, reply, ret_fds, ret_count);
    keep_network(&making);
    making_release(&making);
    *ret = session;
    return 0;
fail:
    fd_clear(&making.netns);
    fd_clear(&making.control[0]);
    fd_clear(&making.lane[0]);
    making_release(&making);
    spawned_release(spawner, session);
    return -1;
}

void spawned_release(struct spawner *spawner, struct spawned *session)
{
    fd_clear(&session->pidfd);
    socket_remove(spawner, session->key);
    if (session->pasta > 0) {
        kill(session->pasta, SIGKILL);
        while (waitpid(session->pasta, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (session->has_group)
        groups_give(spawner, session);
    /* A link needs no undoing: it goes with its namespace. Taking it down here would hold up every
       other session for as long as the kernel waits for its readers, tens of milliseconds. */
    if (session->netns >= 0) {
        netns_pool_give(spawner->netns, steal_fd(&session->netns));
        spawner->borrowers[session->netns_slot] = NULL;
        spawner->lent--;
    }
    free(session);
}
