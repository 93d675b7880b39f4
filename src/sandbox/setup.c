/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a session's first process from clone to exec of box-init.

   Stages, each with less to lose than the one before:
     1. enter its cgroup, so that all it does is charged there and all it forks is born there
     2. wait for the id maps; until then it owns nothing and touches nothing
     3. with the capabilities of its own user namespace only: loopback, filter, mounts, pivot
     4. give up: groups, ids, bounding set, capabilities, new privileges
     5. exec box-init from a descriptor; nothing of the host is open any more but what INIT_FD_*
   name */
#include "sandbox/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "sandbox/mounts.h"
#include "sandbox/protocol.h"
#include "sandbox/syscalls.h"

static int wait_for(int go, char wanted, struct error *err)
{
    char byte;
    ssize_t n;
    do {
        n = read(go, &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1 || byte != wanted)
        return error_set(err, ERROR_GONE, "the spawner ended while a session was being made");
    return 0;
}

static int enter_group(const struct setup *setup, struct error *err)
{
    int rc = cgroup_entry_use(setup->group);
    return rc < 0 ? error_errno(err, -rc, "cannot enter the session's control group") : 0;
}

/* As root, become the root of the own range: what is made from here on belongs to the session. An
   ordinary user stays the one user there is. */
static int take_ids(const struct plan *plan, struct error *err)
{
    if (plan->ids != ID_RANGE)
        return 0;
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return error_errno(err, errno, "cannot take the session's ids");
    return 0;
}

static int make_network(const struct setup *setup, struct error *err)
{
    const struct plan *plan = setup->plan;
    /* As root the spawner has handed in a namespace that is ready. */
    if (!(plan->namespaces & CLONE_NEWNET))
        return 0;
    if (net_prepare(err) < 0)
        return -1;
    if (plan->network == NETWORK_OFF)
        return 0;
    return net_filter_install(&plan->net, setup->host_addresses, err);
}

/* What the kernel counts for the user who made the namespace, the host's, in every session's name.
   None of them is asked for by ordinary programs in numbers like these; nested namespaces not at
   all.

   Through the session's own procfs: in the host's, the kernel keeps an entry of the same name for
   each namespace that was ever looked at there, and searches all of them each time. With 2,000
   sessions that took 20 ms for each new one. */
static int limit_namespaces(int proc, const struct plan *plan, struct error *err)
{
    static const char *const limits[][2] = {
        {"sys/user/max_inotify_instances", "32"},
        {"sys/user/max_inotify_watches", "16384"},
        {"sys/user/max_user_namespaces", "0"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        int rc = fd_write_file(proc, limits[i][0], limits[i][1]);
        if (rc < 0 && rc != -ENOENT)
            return error_errno(err, -rc, "cannot write /proc/%s", limits[i][0]);
    }
    /* As root the spawner did it, whose namespace it is. */
    if (plan->namespaces & CLONE_NEWNET)
        net_open_ports(proc);
    return 0;
}

static int make_files(const struct setup *setup, struct error *err)
{
    const struct plan *plan = setup->plan;
    umask(0);
    if (plan->ids != ID_RANGE &&
        mounts_open(plan, 0, setup->policy, 0, NULL, setup->sources, err) < 0)
        return -1;
    if (mounts_execute(plan, setup->sources, setup->on_base, limit_namespaces, err) < 0)
        return -1;
    umask(022);
    if (sethostname(BOX_USER, strlen(BOX_USER)) < 0)
        return error_errno(err, errno, "cannot set the host name");
    return 0;
}

static int set_rlimits(const struct plan *plan, struct error *err)
{
    for (size_t i = 0; i < plan->rlimit_count; i++) {
        const struct plan_rlimit *wanted = &plan->rlimits[i];
        struct rlimit now;
        if (getrlimit(wanted->resource, &now) < 0)
            return error_errno(err, errno, "cannot read a resource limit");
        /* A limit the caller is under already is not widened. */
        struct rlimit limit = {
            .rlim_cur = wanted->soft < now.rlim_max ? wanted->soft : now.rlim_max,
            .rlim_max = wanted->hard < now.rlim_max ? wanted->hard : now.rlim_max,
        };
        if (setrlimit(wanted->resource, &limit) < 0)
            return error_errno(err, errno, "cannot set a resource limit");
    }
    return 0;
}

static int drop_capabilities(struct error *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    if (syscall(SYS_capset, &head, none) < 0)
        return error_errno(err, errno, "cannot drop capabilities");
    return 0;
}

static int give_up(const struct plan *plan, struct error *err)
{
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                               SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    /* EINVAL is the first number that this kernel has no capability for. */
    unsigned long capability = 0;
    while (prctl(PR_CAPBSET_DROP, capability) == 0)
        capability++;
    if (errno != EINVAL || capability <= CAP_AUDIT_READ)
        return error_errno(err, errno, "cannot drop capability %lu", capability);
    if (prctl(PR_SET_SECUREBITS, bits) < 0)
        return error_errno(err, errno, "cannot lock the secure bits");
    /* Where the kernel forbids it (a single mapped id), the groups are unmapped and stay the
     * caller's. */
    if (plan->ids != ID_SINGLE && setgroups(0, NULL) < 0)
        return error_errno(err, errno, "cannot drop the supplementary groups");
    if (setresgid(BOX_GID, BOX_GID, BOX_GID) < 0 || setresuid(BOX_UID, BOX_UID, BOX_UID) < 0)
        return error_errno(err, errno, "cannot become the user inside");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, errno, "cannot forbid new privileges");
    return drop_capabilities(err);
}

#define HIGH_FD 64 /* above all that box-init expects */

/* Moves the descriptors to where box-init looks for them: `from[i]` to INIT_FD_CONTROL + i, the
   program last. First all of them well above, so that none is overwritten by another. */
static int arrange_fds(struct setup *setup, int *ret_binary, struct error *err)
{
    _Static_assert(INIT_GROUP_FDS == CGROUP_ENTRY_MAX, "one descriptor for each hierarchy");
    const int *group = setup->init_group->fds;
    const int from[] = {setup->control, setup->filter, setup->range_lock,
                        setup->lane,    group[0],      group[1],
                        group[2],       setup->listen, setup->init_binary};
    const int last = ARRAY_SIZE(from) - 1;
    int high[ARRAY_SIZE(from)];
    for (int i = 0; i <= last; i++) {
        high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, HIGH_FD);
        if (from[i] >= 0 && high[i] < 0)
            return error_errno(err, errno, "cannot arrange descriptors");
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return error_errno(err, errno, "cannot open /dev/null inside");
    setup->control = high[0];
    for (int i = 0; i < 3; i++) {
        if (dup2(null, i) < 0)
            return error_errno(err, errno, "cannot arrange descriptors");
    }
    sys_close_range(3, HIGH_FD - 1, 0);
    for (int i = 0; i < last; i++) {
        if (high[i] >= 0 && dup2(high[i], INIT_FD_CONTROL + i) < 0)
            return error_errno(err, errno, "cannot arrange descriptors");
    }
    sys_close_range(HIGH_FD, ~0U, CLOSE_RANGE_CLOEXEC);
    *ret_binary = high[last];
    return 0;
}

static int setup_stages(struct setup *setup, struct error *err)
{
    char *argv[] = {(char *)"box-init", NULL};
    char *envp[] = {NULL};
    int binary;
    if (enter_group(setup, err) < 0 || wait_for(setup->go, SETUP_MAPPED, err) < 0 ||
        take_ids(setup->plan, err) < 0 || make_network(setup, err) < 0 ||
        make_files(setup, err) < 0 || wait_for(setup->go, SETUP_LINKED, err) < 0)
        return -1;
    if (set_rlimits(setup->plan, err) < 0 || give_up(setup->plan, err) < 0 ||
        arrange_fds(setup, &binary, err) < 0)
        return -1;
    syscall(SYS_execveat, binary, "", argv, envp, AT_EMPTY_PATH);
    return error_errno(err, errno, "cannot start box-init");
}

static void report(int control, const struct error *err)
{
    struct init_failed failed = {.type = INIT_FAILED, .code = err->code, .errnum = err->errnum};
    memcpy(failed.message, err->message, sizeof failed.message);
    memcpy(failed.hint, err->hint, sizeof failed.hint);
    send(control, &failed, sizeof failed, MSG_NOSIGNAL);
}

void setup_run(const struct setup *given)
{
    struct setup setup = *given;
    struct error err = ERROR_INIT;
    sigset_t none;
    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setup_stages(&setup, &err);
    report(setup.control, &err);
    _exit(1);
}
